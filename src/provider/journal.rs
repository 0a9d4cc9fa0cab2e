//! What must not be repeated: log lines about a state that lasts, and writes that Cloudflare refused.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::cloudflare::ZoneId;
use crate::endpoint::Property;
use crate::limits;
use crate::ordered::inserted;
use crate::provider::execution::{Rejection, record_work, tunnel_work};
use crate::reconcile::canonical;
use crate::reconcile::plan::{Plan, Reason, RecordOperation, Refusal, Stage};
use crate::reconcile::snapshot::{OwnRules, Snapshot};
use crate::tunnel::{RuleEdit, TunnelId};

/// Who has something to say. Each speaks for its own state only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Speaker {
    Adjust,
    Records,
    Apply,
    DryRun,
}

/// The memory of one process. It is lost with it, and nothing depends on it but the number of lines and calls.
#[derive(Debug, Default)]
pub(super) struct Journal {
    said: BTreeMap<Speaker, BTreeSet<String>>,
    rejected: HashMap<Box<str>, Rejected>,
}

#[derive(Debug)]
struct Rejected {
    reason: Reason,
    quota: Option<(ZoneId, usize)>,
    stored: Option<Vec<Property>>,
    retry_at: Instant,
    pause: Duration,
}

impl Journal {
    /// The lines that `speaker` did not say the last time. A line that is not in `lines` any more may be said again.
    pub(super) fn news(&mut self, speaker: Speaker, lines: impl IntoIterator<Item = String>) -> Vec<String> {
        let lines: BTreeSet<String> = inserted(lines);
        let before = self.said.insert(speaker, lines.clone()).unwrap_or_default();
        lines.difference(&before).cloned().collect()
    }

    /// Takes out of `plan` what Cloudflare refused before and would refuse again.
    pub(super) fn hold_back(&self, plan: &mut Plan, snapshot: &Snapshot, now: Instant) {
        if self.rejected.is_empty() {
            return;
        }
        let is_held = |work: &str| {
            self.rejected.get(work).filter(|rejected| now < rejected.retry_at && !rejected.has_room(snapshot))
        };
        let mut refusals = Vec::new();
        plan.hosts.retain_mut(|host| {
            let mut refuse = |rejected: &Rejected| {
                refusals.push(Refusal {
                    hostname: host.hostname.clone(),
                    set_identifier: None,
                    reason: rejected.reason.clone(),
                });
            };
            // Without its record no rule of the hostname is of use.
            if let Some(rejected) =
                host.operations.values().find_map(|operations| is_held(&record_work(operations)))
            {
                refuse(rejected);
                return false;
            }
            // Led to its new tunnel without one of its rules, the hostname would lose what that rule serves now.
            let is_moving = host.operations.contains_key(&Stage::Repoint);
            let missing = || {
                let mut edits = host.edits.values().flatten();
                edits.find_map(|(tunnel, edit)| {
                    is_held(&tunnel_work(tunnel, edit)).filter(|rejected| rejected.stored.is_none())
                })
            };
            if let Some(rejected) = is_moving.then(missing).flatten() {
                refuse(rejected);
                return false;
            }
            for edits in host.edits.values_mut() {
                edits.retain(|(tunnel, edit)| {
                    let held = is_held(&tunnel_work(tunnel, edit))
                        .filter(|rejected| rejected.is_as_stored(tunnel, edit, snapshot, &plan.own_before));
                    held.inspect(|rejected| refuse(rejected)).is_none()
                });
            }
            !host.is_empty()
        });
        plan.refusals.extend(refusals);
    }

    /// Remembers what was refused, and forgets what went through.
    pub(super) fn remember(&mut self, plan: &Plan, rejections: Vec<Rejection>, now: Instant) {
        let refused: BTreeSet<&str> = inserted(rejections.iter().map(|rejection| &*rejection.work));
        let done: Vec<Box<str>> = work_of(plan).filter(|work| !refused.contains(&**work)).collect();
        for work in done {
            self.rejected.remove(&work);
        }
        for Rejection { refusal, work, quota, stored } in rejections {
            let pause = self
                .rejected
                .get(&work)
                .map_or(limits::REJECTION_PAUSE_MIN, |earlier| earlier.pause * 2)
                .min(limits::REJECTION_PAUSE_MAX);
            let retry_at = now + pause;
            self.rejected.insert(work, Rejected { reason: refusal.reason, quota, stored, retry_at, pause });
        }
        // What nobody asked for in a long time is not asked for any more.
        self.rejected.retain(|_, rejected| now < rejected.retry_at + limits::REJECTION_PAUSE_MAX);
    }
}

impl Rejected {
    /// Whether a rule that Cloudflare stored otherwise than it was sent stands as it was stored, where it has to. If
    /// not, somebody else changed it, and it is to be mended as far as Cloudflare lets it.
    fn is_as_stored(&self, tunnel: &TunnelId, edit: &RuleEdit, snapshot: &Snapshot, own: &OwnRules) -> bool {
        let (Some(stored), RuleEdit::Put { rule, replaces: _ }) = (&self.stored, edit) else {
            return true;
        };
        let Some(document) = snapshot.tunnels.get(tunnel).map(|tunnel| &tunnel.document) else {
            return true;
        };
        let mut standing =
            document.rules_of(&rule.hostname).filter(|standing| standing.path() == rule.path_text());
        standing.any(|standing| canonical::properties_of_rule(standing) == *stored)
            && !document.is_shadowed(&rule.hostname, rule.path_text(), &|rule| own.has(tunnel, rule))
    }

    /// Whether a zone that was full holds fewer records than then.
    fn has_room(&self, snapshot: &Snapshot) -> bool {
        let Some((zone, records)) = &self.quota else {
            return false;
        };
        snapshot.zones.iter().any(|snapshot| snapshot.zone.id == *zone && snapshot.records().len() < *records)
    }
}

fn work_of(plan: &Plan) -> impl Iterator<Item = Box<str>> + '_ {
    plan.hosts.iter().flat_map(|host| {
        let edits = host.edits.values().flatten().map(|(tunnel, edit)| tunnel_work(tunnel, edit));
        let operations =
            host.operations.values().map(Vec::as_slice).map(record_work as fn(&[RecordOperation]) -> _);
        edits.chain(operations)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_state_is_said_once_and_again_when_it_comes_back() {
        let mut journal = Journal::default();
        let line = || ["a is refused".to_owned()];
        assert_eq!(journal.news(Speaker::Apply, line()), line());
        assert_eq!(journal.news(Speaker::Apply, line()), [""; 0]);
        assert_eq!(journal.news(Speaker::Records, line()), line(), "another speaker's state is its own");
        assert_eq!(journal.news(Speaker::Apply, []), [""; 0]);
        assert_eq!(journal.news(Speaker::Apply, line()), line());
    }
}
