//! Reads the account's reusable Access policies: once something names one, and again while a name fits none.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use log::warn;

use crate::clock::{Clock, Deadline};
use crate::cloudflare::Client;
use crate::limits;
use crate::locks::lock;
use crate::model::AccountId;
use crate::model::access::ReusablePolicy;

/// While a name fits none, the policies are read again this often.
const READ_AGAIN_PAUSE: Duration = Duration::from_secs(300);

/// The state between two readings.
#[derive(Debug, Default)]
pub(super) struct PolicyReader {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A name fits none of the policies that are known.
    is_missed: bool,
    read_at: Option<Instant>,
    said: Option<String>,
}

impl PolicyReader {
    /// A name fits none.
    pub(super) fn miss(&self) {
        lock(&self.state).is_missed = true;
    }

    /// The policies, if they were read just now.
    pub(super) fn read(
        &self,
        known: Option<&Arc<[ReusablePolicy]>>,
        client: &Client,
        account: &AccountId,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Option<Arc<[ReusablePolicy]>> {
        {
            let mut state = lock(&self.state);
            let now = clock.now();
            let is_early =
                state.read_at.is_some_and(|at| now.saturating_duration_since(at) < READ_AGAIN_PAUSE);
            let is_needed = known.is_none() || state.is_missed;
            if !is_needed || is_early {
                return None;
            }
            state.read_at = Some(now);
        }
        // Waiting for a lock has no deadline, so it is not held during the call.
        let patience = deadline.remaining(clock).min(limits::ACCESS_TIMEOUT);
        match client.access_policies(account, Deadline::after(clock, patience)) {
            Ok(policies) => {
                *lock(&self.state) = State { read_at: Some(clock.now()), ..State::default() };
                Some(policies.into())
            }
            Err(error) => {
                let mut state = lock(&self.state);
                let text = error.to_string();
                if state.said.as_ref() != Some(&text) {
                    warn!(
                        "the account's Access policies cannot be read, so no hostname can be protected anew: {text}; the \
                         token needs the permission Account: Access: Apps and Policies: Edit"
                    );
                    state.said = Some(text);
                }
                None
            }
        }
    }
}
