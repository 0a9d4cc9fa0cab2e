//! Remembers work that Cloudflare refused, so that it is not sent again in every loop, and work that was refused in a
//! group and may not be the cause.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::limits;
use crate::model::{TunnelId, ZoneId};
use crate::ordered::inserted;
use crate::provider::outcome::{Done, Doubts, Rejection};
use crate::reconcile::plan::Reason;
use crate::reconcile::snapshot::Snapshot;

/// The memory is lost with the process; then refused work is sent once more.
#[derive(Debug, Default)]
pub(crate) struct RefusedWork {
    rejected: HashMap<Box<str>, Rejected>,
    /// The work that the last request could not decide.
    doubts: Doubts,
    /// The tunnels' configuration versions, as last seen or written by this program.
    versions: BTreeMap<TunnelId, i64>,
}

#[derive(Debug)]
struct Rejected {
    reason: Reason,
    quota: Option<(ZoneId, usize)>,
    document: Option<TunnelId>,
    retry_at: Instant,
    pause: Duration,
}

impl RefusedWork {
    /// True if nothing was refused lately.
    pub(crate) fn is_empty(&self) -> bool {
        self.rejected.is_empty()
    }

    /// The work that the last request could not decide.
    pub(crate) fn doubts(&self) -> &Doubts {
        &self.doubts
    }

    /// The reason why the work must not be sent now.
    pub(crate) fn reason(&self, work: &str, snapshot: &Snapshot, now: Instant) -> Option<Reason> {
        let rejected = self.rejected.get(work)?;
        rejected.holds(snapshot, now).then(|| rejected.reason.clone())
    }

    /// All that must not be sent now, with the reasons.
    pub(crate) fn reasons(&self, snapshot: &Snapshot, now: Instant) -> BTreeMap<Box<str>, Reason> {
        let held = self.rejected.iter().filter(|(_, rejected)| rejected.holds(snapshot, now));
        inserted(held.map(|(work, rejected)| (work.clone(), rejected.reason.clone())))
    }

    /// Lets refused work on a tunnel's document be tried again if somebody else has written the document since.
    pub(crate) fn notice_other_writers(&mut self, snapshot: &Snapshot, now: Instant) {
        let versions: BTreeMap<TunnelId, i64> =
            inserted(snapshot.tunnels.iter().map(|(id, tunnel)| (id.clone(), tunnel.version)));
        let is_news = |tunnel: &TunnelId| {
            self.versions.get(tunnel).is_some_and(|seen| versions.get(tunnel).is_some_and(|now| now != seen))
        };
        for rejected in self.rejected.values_mut() {
            if rejected.document.as_ref().is_some_and(is_news) {
                rejected.retry_at = now;
            }
        }
        self.versions = versions;
    }

    /// Remembers what was refused, and which versions this program wrote.
    pub(crate) fn learn(&mut self, done: &Done, now: Instant) {
        for (tunnel, version) in &done.versions {
            self.versions.insert(tunnel.clone(), *version);
        }
        for Rejection { refusal, work, quota, document } in &done.rejections {
            let pause = self
                .rejected
                .get(work)
                .map_or(limits::REJECTION_PAUSE_MIN, |earlier| earlier.pause * 2)
                .min(limits::REJECTION_PAUSE_MAX);
            let (reason, quota, document) = (refusal.reason.clone(), quota.clone(), document.clone());
            let rejected = Rejected { reason, quota, document, retry_at: now + pause, pause };
            self.rejected.insert(work.clone(), rejected);
        }
        // Work that has not been asked for in a long time will not be asked for again.
        self.rejected.retain(|_, rejected| now < rejected.retry_at + limits::REJECTION_PAUSE_MAX);
    }

    /// Remembers the undecided work, and forgets what the request did not ask for.
    pub(crate) fn keep_doubts(&mut self, done: &Done) {
        self.doubts.clone_from(&done.doubts);
    }

    /// The work went through.
    pub(crate) fn forget(&mut self, work: &str) {
        self.rejected.remove(work);
    }
}

impl Rejected {
    fn holds(&self, snapshot: &Snapshot, now: Instant) -> bool {
        now < self.retry_at && !self.has_room(snapshot)
    }

    /// True if a zone that was full has fewer records now.
    fn has_room(&self, snapshot: &Snapshot) -> bool {
        let Some((zone, records)) = &self.quota else {
            return false;
        };
        snapshot.zones.iter().any(|snapshot| snapshot.zone.id == *zone && snapshot.records().len() < *records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::memory::year;
    use crate::reconcile::plan::Refusal;

    fn rejection(work: &str) -> Rejection {
        let reason = Reason::Cloudflare("no".to_owned());
        let refusal =
            Refusal { hostname: "a.example.com".into(), set_identifier: None, resource: None, reason };
        Rejection { refusal, work: work.into(), quota: None, document: None }
    }

    #[test]
    fn what_is_refused_waits_ever_longer_and_an_hour_at_most() {
        let mut refused = RefusedWork::default();
        let mut tries = Vec::new();
        for (number, now) in year::loops().take(24) {
            if refused.reason("work", &Snapshot::default(), now).is_none() {
                let rejections = vec![rejection("work")];
                refused.learn(&Done { rejections, ..Done::default() }, now);
                tries.push(number);
            }
        }
        assert_eq!(tries, [0, 1, 3, 7, 13, 19], "after 10, 20, 40 minutes and then every hour");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn what_went_through_waits_no_longer_and_begins_anew_when_it_is_refused_again() {
        let (mut refused, now) = (RefusedWork::default(), Instant::now());
        assert!(refused.is_empty());
        let learn = |refused: &mut RefusedWork| {
            refused.learn(&Done { rejections: vec![rejection("work")], ..Done::default() }, now);
        };
        learn(&mut refused);
        learn(&mut refused);
        assert!(!refused.is_empty());
        refused.forget("other work");
        assert!(refused.reason("work", &Snapshot::default(), now).is_some());
        refused.forget("work");
        assert!(refused.reason("work", &Snapshot::default(), now).is_none());
        learn(&mut refused);
        let waited = now + limits::REJECTION_PAUSE_MIN;
        assert!(refused.reason("work", &Snapshot::default(), waited).is_none());
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn what_is_refused_is_forgotten_when_nobody_asked_for_it_any_more() {
        let (mut refused, now) = (RefusedWork::default(), Instant::now());
        refused.learn(&Done { rejections: vec![rejection("work")], ..Done::default() }, now);
        let last = now + limits::REJECTION_PAUSE_MIN + limits::REJECTION_PAUSE_MAX;
        refused.learn(&Done::default(), last - Duration::from_secs(1));
        assert!(!refused.is_empty());
        refused.learn(&Done::default(), last);
        assert!(refused.is_empty());
    }

    #[test]
    fn a_year_of_other_refused_work_in_every_loop_leaves_that_of_the_last_hours() {
        let mut refused = RefusedWork::default();
        for (number, now) in year::loops() {
            let done = Done {
                rejections: vec![rejection(&number.to_string())],
                doubts: Doubts::from([(number, 2)]),
                ..Done::default()
            };
            refused.notice_other_writers(&Snapshot::default(), now);
            refused.learn(&done, now);
            refused.keep_doubts(&done);
            assert!(refused.rejected.len() <= 8 && refused.doubts.len() == 1, "{}", refused.rejected.len());
        }
    }
}
