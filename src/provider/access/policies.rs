//! Reads the account's reusable Access policies once something names one: again while a name fits none, and now and then,
//! because a policy may be made anew under its name.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use log::warn;

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Error};
use crate::limits;
use crate::locks::lock;
use crate::model::AccountId;
use crate::model::access::ReusablePolicy;
use crate::reconcile::Settings;

/// While a name fits none, the policies are read again this often.
const READ_AGAIN_PAUSE: Duration = Duration::from_secs(300);

/// Policies older than this are read again.
const MAX_AGE: Duration = Duration::from_secs(600);

/// After a failure that may pass they are read again this soon: once a loop of ExternalDNS, and not in each of its
/// requests, as a reading that gets no answer takes a third of a request's time.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

/// The state between two readings.
#[derive(Debug, Default)]
pub(in crate::provider) struct PolicyReader {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// An endpoint has named a policy since they were read.
    is_named: bool,
    /// A name fitted none of them.
    is_missed: bool,
    read_at: Option<Instant>,
    /// The last reading failed, and may not fail again.
    has_failed: bool,
    said: Option<String>,
}

impl PolicyReader {
    /// An endpoint names policies, which may be missing among those that are known.
    pub(in crate::provider) fn named(&self, is_missed: bool) {
        let mut state = lock(&self.state);
        state.is_named = true;
        state.is_missed |= is_missed;
    }

    /// The policies, if they were read just now.
    pub(in crate::provider) fn read(
        &self,
        settings: &Settings,
        client: &Client,
        account: &AccountId,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Option<Arc<[ReusablePolicy]>> {
        {
            let mut state = lock(&self.state);
            let now = clock.now();
            let age = state.read_at.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
            let is_missed = state.is_missed || settings.access_policies().is_none();
            let pause = if state.has_failed {
                FAILURE_PAUSE
            } else if is_missed {
                READ_AGAIN_PAUSE
            } else {
                MAX_AGE
            };
            if age < pause || !(state.is_named || settings.policy.names_access_policies()) {
                return None;
            }
            state.read_at = Some(now);
        }
        // Waiting for a lock has no deadline, so it is not held during the call.
        let patience = deadline.remaining(clock).min(limits::ACCESS_TIMEOUT);
        match client.access_policies(account, Deadline::after(clock, patience)) {
            Ok(policies) => {
                let mut state = lock(&self.state);
                *state = State { read_at: Some(clock.now()), ..State::default() };
                Some(policies.into())
            }
            Err(error) => {
                let mut state = lock(&self.state);
                let mut text = error.to_string();
                let is_lasting = matches!(error, Error::Credentials(_));
                if is_lasting {
                    text.push_str(
                        "; the token needs the permission Account: Access: Apps and Policies: Edit",
                    );
                }
                state.has_failed = !is_lasting;
                if state.said.as_ref() != Some(&text) {
                    warn!(
                        "the account's Access policies cannot be read, so no hostname can be protected anew: {text}"
                    );
                    state.said = Some(text);
                }
                // Only an operator can mend that, so a name is refused as one that there is not.
                (is_lasting && settings.access_policies().is_none()).then(|| Arc::from([]))
            }
        }
    }
}
