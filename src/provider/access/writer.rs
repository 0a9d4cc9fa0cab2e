//! Makes, replaces and deletes Access applications, before anything is planned that relies on them.
//!
//! Cloudflare's list may lack a new application for half a minute. So nothing is posted twice for a place within two
//! minutes, whatever the first answer was. A refusal is told again as long.

use std::time::{Duration, Instant};

use log::Level;
use serde_json::{Map, Value};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Error};
use crate::limits;
use crate::logging;
use crate::model::LogLine;
use crate::model::access::Application;
use crate::model::text::fingerprint;
use crate::observe::metrics::{Family, Metrics};
use crate::provider::access::reader::{AccessReader, LIST_LAG_MAX};
use crate::provider::resolution::Resolved;
use crate::reconcile::access::place::{self, Place};
use crate::reconcile::access::reading::AccessSnapshot;
use crate::reconcile::access::wish::ProtectionWish;
use crate::reconcile::plan::{ApplicationOperation, ApplicationWork, Reason, Refusal};

/// Cloudflare's limit for an account, unless an enterprise agreed on more.
const APPLICATIONS_MAX: usize = 500;

/// From this number on, each new application is a warning.
const APPLICATIONS_WARNING: usize = 450;

/// The pause after a replacement that Cloudflare refused, or that somebody undid.
const REPLACEMENT_PAUSE: Duration = limits::REJECTION_PAUSE_MIN;

/// The memory from one request to the next.
#[derive(Debug, Default)]
pub(in crate::provider) struct ApplicationMemory {
    has_tag: bool,
    /// The first hostname and path that the last request left out. The next one begins there.
    next: Option<(Box<str>, Box<str>)>,
    posted: Vec<Posted>,
    /// By id, the last replacement that was answered: what was wanted in place of what, and what is told of it as long
    /// as that is wanted again.
    replaced: Vec<(Box<str>, Instant, u64, Reason)>,
}

/// A POST for a place.
#[derive(Debug)]
struct Posted {
    place: Box<str>,
    at: Instant,
    was_made: bool,
    /// What is told of the place until lists show what came of it.
    reason: Reason,
}

/// What is needed to write applications.
pub(in crate::provider) struct ApplicationWriter<'a> {
    pub(in crate::provider) client: &'a Client,
    pub(in crate::provider) clock: &'a dyn Clock,
    pub(in crate::provider) metrics: &'a Metrics,
    pub(in crate::provider) access: &'a AccessReader,
    pub(in crate::provider) memory: &'a mut ApplicationMemory,
    pub(in crate::provider) resolved: &'a Resolved,
    pub(in crate::provider) deadline: Deadline,
}

impl ApplicationWriter<'_> {
    /// Does the work, and returns the applications as they are then, with what was not done. Some of the time and of the
    /// calls are left to those who ask for none, and the next request begins with what this one leaves out.
    pub(in crate::provider) fn carry_out(
        mut self,
        work: &[ApplicationWork],
        access: &AccessSnapshot,
    ) -> (Vec<Application>, Vec<Refusal>) {
        let now = self.clock.now();
        self.memory.posted.retain(|posted| now.saturating_duration_since(posted.at) < LIST_LAG_MAX);
        self.memory.replaced.retain(|(_, at, _, _)| now.saturating_duration_since(*at) < REPLACEMENT_PAUSE);
        let mut present = access.applications.clone();
        let mut refusals = Vec::new();
        let time = self.deadline.remaining(self.clock);
        let next = self.memory.next.take();
        let is_next = |work: &ApplicationWork| next.as_ref().is_some_and(|next| name_of(work) >= *next);
        let (later, sooner) = work.split_at(work.iter().position(is_next).unwrap_or_default());
        for (nth, work) in sooner.iter().chain(later).enumerate() {
            let left = self.deadline.remaining(self.clock);
            let done = match lacking(nth, left, time, self.client.calls_left()) {
                Some(means) => {
                    self.memory.next.get_or_insert_with(|| name_of(work));
                    Err(Reason::Undecided(format!("there {means} left for its Access application")))
                }
                None => self.do_one(work, &mut present),
            };
            if let Err(reason) = done {
                let ApplicationWork { hostname, set_identifier, resource, .. } = work;
                refusals.push(Refusal {
                    hostname: hostname.clone(),
                    set_identifier: Some(set_identifier.clone()),
                    resource: resource.clone(),
                    reason,
                });
            }
        }
        (present, refusals)
    }

    fn do_one(&mut self, work: &ApplicationWork, present: &mut Vec<Application>) -> Result<(), Reason> {
        match &work.operation {
            ApplicationOperation::Create(wish) => {
                if present.len() >= APPLICATIONS_MAX {
                    return Err(Reason::Cloudflare(format!(
                        "the account has {} Access applications, and Cloudflare allows {APPLICATIONS_MAX}",
                        present.len()
                    )));
                }
                let made = self.create(&work.place, wish)?;
                self.report("application_created", work, &made.name, "created");
                present.push(made);
                if present.len() >= APPLICATIONS_WARNING {
                    log::warn!(
                        "the account has {} Access applications, and Cloudflare allows {APPLICATIONS_MAX}",
                        present.len()
                    );
                }
            }
            ApplicationOperation::Replace(id, wish) => {
                let found = present.iter().find(|one| one.id == *id);
                let found = fingerprint_of(found, wish);
                let made = self.replace(id, &work.place, wish, found)?;
                self.report("application_changed", work, &made.name, "changed");
                present.retain(|one| one.id != *id);
                present.push(made);
            }
            ApplicationOperation::Delete(id) => {
                let account = &self.resolved.account;
                self.client.delete_access_application(account, id, self.deadline).map_err(told)?;
                self.access.wrote(id, None, self.clock.now());
                // What was posted was this one.
                let place = work.place.to_string();
                self.memory.posted.retain(|posted| *posted.place != *place || !posted.was_made);
                let name = present.iter().find(|one| one.id == *id).map(|one| one.name.clone());
                self.report("application_deleted", work, &name.unwrap_or_default(), "deleted");
                present.retain(|one| one.id != *id);
            }
        }
        Ok(())
    }

    fn create(&mut self, place: &Place, wish: &ProtectionWish) -> Result<Application, Reason> {
        let name = place.to_string();
        if let Some(posted) = self.memory.posted.iter().rfind(|posted| *posted.place == *name) {
            return Err(posted.reason.clone());
        }
        let ids = wish.ids().map_err(|problem| Reason::AccessPolicy(problem.into()))?;
        self.make_tag()?;
        let (account, owner) = (&self.resolved.account, &self.resolved.settings.policy.owner);
        let body = place::body(place, wish, &ids, owner, None);
        let answer = self.client.create_access_application(account, &body, self.deadline);
        let at = self.clock.now();
        let mut note = |was_made: bool, reason: Reason| {
            self.memory.posted.push(Posted { place: name.as_str().into(), at, was_made, reason });
        };
        match answer {
            Ok(made) => {
                note(true, not_shown_yet("it was made"));
                self.access.wrote(&made.id, Some(made.clone()), at);
                Ok(made)
            }
            Err(error) => {
                let text = error.to_string();
                let has_refused_tag = matches!(error, Error::Refused(_) | Error::NotFound(_));
                let reason = told(error);
                note(false, if reason.is_unfinished() { not_shown_yet(&text) } else { reason.clone() });
                if has_refused_tag {
                    // The tag may be gone.
                    self.memory.has_tag = false;
                }
                Err(reason)
            }
        }
    }

    /// Makes the tag of our applications, unless it is there.
    fn make_tag(&mut self) -> Result<(), Reason> {
        if self.memory.has_tag {
            return Ok(());
        }
        let account = &self.resolved.account;
        let tag = place::tag(&self.resolved.settings.policy.owner);
        let tags = self.client.access_tags(account, self.deadline).map_err(told)?;
        if !tags.iter().any(|one| **one == *tag) {
            self.client.create_access_tag(account, &tag, self.deadline).map_err(told)?;
        }
        self.memory.has_tag = true;
        Ok(())
    }

    fn replace(
        &mut self,
        id: &str,
        place: &Place,
        wish: &ProtectionWish,
        found: u64,
    ) -> Result<Application, Reason> {
        let last = self.memory.replaced.iter().rfind(|(of, ..)| **of == *id);
        if let Some((.., reason)) = last.filter(|(_, _, last, _)| *last == found) {
            return Err(reason.clone());
        }
        let ids = wish.ids().map_err(|problem| Reason::AccessPolicy(problem.into()))?;
        let (account, owner) = (&self.resolved.account, &self.resolved.settings.policy.owner);
        let Some(present) = self.client.access_application(account, id, self.deadline).map_err(told)? else {
            self.access.wrote(id, None, self.clock.now());
            return Err(Reason::Undecided("its Access application has gone meanwhile".to_owned()));
        };
        let Ok(Value::Object(members)) = serde_json::from_str(present.get()) else {
            return Err(Reason::Undecided("its Access application cannot be read".to_owned()));
        };
        log_inline_policies(&place.to_string(), &members);
        let body = place::body(place, wish, &ids, owner, Some(members));
        let replaced = self.client.replace_access_application(account, id, &body, self.deadline);
        let now = self.clock.now();
        let mut note = |reason: Reason| self.memory.replaced.push((id.into(), now, found, reason));
        match replaced {
            Ok(made) => {
                note(Reason::NotKept { field: "Access application".into() });
                self.access.wrote(id, Some(made.clone()), now);
                Ok(made)
            }
            Err(error) => {
                let is_refused = matches!(error, Error::Refused(_));
                let reason = told(error);
                if is_refused {
                    note(reason.clone());
                }
                Err(reason)
            }
        }
    }

    fn report(&self, kind: &str, work: &ApplicationWork, name: &str, verb: &str) {
        let line = LogLine::default()
            .quoted("hostname", &*work.hostname)
            .quoted("path", Some(&*work.set_identifier).filter(|path| !path.is_empty()))
            .quoted("application", name)
            .text(format!("Access application {verb}"));
        logging::log(Level::Info, module_path!(), &line);
        let mut values = self.metrics.update();
        values.add(Family::Changes, &[kind], 1);
        values.set(Family::LastWrite, &[], self.clock.unix_seconds());
    }
}

/// The reason while nobody knows whether an application is there.
fn not_shown_yet(outcome: &str) -> Reason {
    Reason::Undecided(format!(
        "its Access application was asked for less than {} s ago ({outcome}), and lists may not show it yet",
        LIST_LAG_MAX.as_secs()
    ))
}

/// The hostname and path, by which work is ordered.
fn name_of(work: &ApplicationWork) -> (Box<str>, Box<str>) {
    (work.hostname.clone(), work.set_identifier.clone())
}

/// Identifies a replacement: what is wanted in place of what.
fn fingerprint_of(found: Option<&Application>, wish: &ProtectionWish) -> u64 {
    let mut texts: Vec<String> = wish.policies.iter().map(|policy| policy.text().to_owned()).collect();
    texts.push(wish.session_duration.to_string());
    if let Some(Application { name, destinations, policies, tags, session_duration, .. }) = found {
        texts.push(name.to_string());
        texts.extend(destinations.iter().map(ToString::to_string));
        texts.extend(policies.iter().flatten().map(|policy| policy.id.to_string()));
        texts.extend(tags.iter().map(ToString::to_string));
        texts.extend(session_duration.as_deref().map(str::to_owned));
    }
    fingerprint(texts.iter().map(String::as_str))
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

/// What there is too little of for the `nth` application: of the `time` before the first one this much is left, and so
/// many calls. The first one is always tried, so that each request does something.
fn lacking(nth: usize, left: Duration, time: Duration, calls_left: u32) -> Option<&'static str> {
    if left < limits::STEP_MINIMUM.max(time / 2) {
        Some("was no time")
    } else if nth > 0 && calls_left < limits::SHARED_CALLS_LEFT_MIN {
        Some("were no calls")
    } else {
        None
    }
}

/// The reason for a call that failed. What is not certain is asked for again.
fn told(error: Error) -> Reason {
    match error {
        Error::Refused(_) | Error::Credentials(_) => {
            Reason::Cloudflare(format!("its Access application: {error}"))
        }
        error => Reason::Undecided(format!("its Access application: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_get_half_of_the_time_and_leave_calls_to_others() {
        for (nth, left, calls_left, expected) in [
            (0, 9_000, 0, None),
            (1, 4_500, 400, None),
            (1, 4_499, 400, Some("was no time")),
            (1, 4_500, 399, Some("were no calls")),
        ] {
            let [left, time] = [left, 9_000].map(Duration::from_millis);
            assert_eq!(lacking(nth, left, time, calls_left), expected, "{nth}, {left:?}, {calls_left}");
        }
        for (left, is_enough) in [(1_500, true), (1_499, false)] {
            let left = Duration::from_millis(left);
            assert_eq!(lacking(0, left, left, 1_000).is_none(), is_enough, "{left:?}");
        }
    }
}
