//! Makes, replaces and deletes Access applications, side by side.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::time::Duration;

use log::Level;
use serde_json::{Map, Value};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Error};
use crate::limits;
use crate::logging;
use crate::observe::metrics::{Family, Metrics};
use crate::provider::access::reader::AccessReader;
use crate::provider::description::describe_application;
use crate::provider::reader::in_parallel;
use crate::provider::resolution::Resolved;
use crate::reconcile::access::gate::{ApplicationOperation, ApplicationWork};
use crate::reconcile::access::place;
use crate::reconcile::access::wish::ProtectionWish;
use crate::reconcile::plan::Reason;

const APPLICATIONS_EDIT: &str = "give the token the permission Account: Access: Apps and Policies: Edit";

/// What is needed to write applications.
pub(in crate::provider) struct ApplicationWriter<'a> {
    pub(in crate::provider) client: &'a Client,
    pub(in crate::provider) clock: &'a dyn Clock,
    pub(in crate::provider) metrics: &'a Metrics,
    pub(in crate::provider) access: &'a AccessReader,
    pub(in crate::provider) parallel: usize,
    pub(in crate::provider) resolved: &'a Resolved,
    pub(in crate::provider) deadline: Deadline,
}

impl ApplicationWriter<'_> {
    /// Does the work as far as `time` and calls go, and returns what came of each piece.
    pub(in crate::provider) fn carry_out(
        &self,
        work: &[ApplicationWork],
        time: Duration,
    ) -> Vec<Result<(), Reason>> {
        let is_written = |work: &ApplicationWork| !matches!(work.operation, ApplicationOperation::Delete(_));
        if work.iter().any(is_written)
            && let Err(reason) = self.make_tag()
        {
            return vec![Err(reason); work.len()];
        }
        let end = Deadline::after(self.clock, time);
        // What the token may not do once, it may not do a hundred times.
        let forbidden = OnceLock::new();
        let results = in_parallel(self.parallel, work, |work| {
            let has_time = end.remaining(self.clock) >= limits::STEP_MINIMUM.min(time / 4);
            let has_calls = self.client.calls_left() >= limits::SHARED_CALLS_LEFT_MIN;
            let result = match forbidden.get() {
                Some(reason) => Err(Reason::clone(reason)),
                None if has_time && has_calls => self.do_one(work).map_err(|error| {
                    let reason = told(&error);
                    if matches!(error, Error::Credentials(_)) {
                        let _ = forbidden.set(reason.clone());
                    }
                    reason
                }),
                None => {
                    Err(Reason::Waiting("no time or calls were left for its Access application".to_owned()))
                }
            };
            Ok::<_, Infallible>(result)
        });
        results.into_iter().flatten().collect()
    }

    fn do_one(&self, work: &ApplicationWork) -> Result<(), Error> {
        let (account, place) = (&self.resolved.account, work.place.to_string());
        match &work.operation {
            ApplicationOperation::Create(wish) => {
                let body = self.body(work, wish, None);
                match self.client.create_access_application(account, &body, self.deadline) {
                    Ok(made) => self.access.wrote(&place, made, self.clock.now()),
                    Err(error) => {
                        if error.may_have_been_done() {
                            self.access.may_have_made(&place, self.clock.now());
                        }
                        return Err(error);
                    }
                }
            }
            ApplicationOperation::Replace(id, wish) => self.replace(id, work, wish)?,
            ApplicationOperation::Delete(id) => {
                self.client.delete_access_application(account, id, self.deadline)?;
                self.access.deleted(&place, id, self.clock.now());
            }
        }
        logging::log(Level::Info, module_path!(), &describe_application(work));
        let mut values = self.metrics.update();
        values.add(Family::Changes, &[work.operation.label()], 1);
        values.set(Family::LastWrite, &[], self.clock.unix_seconds());
        Ok(())
    }

    fn replace(&self, id: &str, work: &ApplicationWork, wish: &ProtectionWish) -> Result<(), Error> {
        let (account, place) = (&self.resolved.account, work.place.to_string());
        let Some(present) = self.client.access_application(account, id, self.deadline)? else {
            // The next reading shows that it has gone.
            self.access.deleted(&place, id, self.clock.now());
            return Ok(());
        };
        let members: Map<String, Value> = serde_json::from_str(present.get()).unwrap_or_default();
        log_inline_policies(&place, &members);
        let body = self.body(work, wish, Some(members));
        let made = self.client.replace_access_application(account, id, &body, self.deadline)?;
        self.access.wrote(&place, made, self.clock.now());
        Ok(())
    }

    fn body(
        &self,
        work: &ApplicationWork,
        wish: &ProtectionWish,
        present: Option<Map<String, Value>>,
    ) -> Vec<u8> {
        place::body(&work.place, wish, &self.resolved.settings.policy.owner, present)
    }

    /// Makes the tag of our applications, unless it is there.
    fn make_tag(&self) -> Result<(), Reason> {
        let account = &self.resolved.account;
        let tag = place::tag(&self.resolved.settings.policy.owner);
        let tags = self.client.access_tags(account, self.deadline).map_err(|error| told(&error))?;
        if !tags.iter().any(|one| **one == *tag) {
            self.client.create_access_tag(account, &tag, self.deadline).map_err(|error| told(&error))?;
        }
        Ok(())
    }
}

/// Logs the policies that belong to this application alone, because they are gone for good once they are taken off it.
fn log_inline_policies(place: &str, members: &Map<String, Value>) {
    let policies = members.get("policies").and_then(Value::as_array).into_iter().flatten();
    let inline = policies.filter(|policy| policy.get("reusable").and_then(Value::as_bool) != Some(true));
    for policy in inline {
        log::warn!(
            hostname = place, policy = policy.to_string();
            "this policy was made in the Access application itself and goes, as the endpoint does not name it"
        );
    }
}

/// The reason for a call that failed. What is not certain is asked for again.
fn told(error: &Error) -> Reason {
    let text = format!("its Access application: {error}");
    match error {
        Error::Refused(_) => Reason::Cloudflare(text),
        Error::Credentials(_) => Reason::AccessUnknown(format!("{text}; {APPLICATIONS_EDIT}").into()),
        _ => Reason::Waiting(text),
    }
}
