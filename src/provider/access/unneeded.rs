//! Deletes the applications of ours that no rule or record needs any more.

use std::time::Duration;

use crate::clock::Deadline;
use crate::lean::inserted;
use crate::locks::lock;
use crate::logging;
use crate::model::LogLine;
use crate::provider::access::writer::ApplicationWriter;
use crate::provider::resolution::Resolved;
use crate::provider::writer::Writer;
use crate::reconcile::access::answering::{self, Unneeded};
use crate::reconcile::access::gate::ApplicationWork;
use crate::reconcile::snapshot::Snapshot;

/// The time to read and to delete unneeded Access applications.
pub(in crate::provider) const UNNEEDED_APPLICATIONS_TIMEOUT: Duration = Duration::from_secs(2);

impl Writer {
    /// Notes the applications of ours that may be deleted. It runs once in each loop.
    pub(in crate::provider) fn look_for_unneeded_applications(&self, snapshot: &Snapshot) {
        let left = if self.is_dry_run() { Vec::new() } else { self.unneeded_applications(snapshot) };
        let mut known = lock(&self.unneeded_applications);
        *known = inserted(left.iter().map(|left| (left.place.clone(), known.contains_key(left.place))));
    }

    /// Deletes the applications of ours that the last two looks found unneeded. If a rule was deleted at Cloudflare but
    /// an object still wants the rule, ExternalDNS asks for the rule between two looks. No request writes during the
    /// deletion, and a request may wait for the lock, so the deletion takes two seconds at most.
    pub(in crate::provider) fn delete_unneeded_applications(&self, resolved: &Resolved) {
        if !lock(&self.unneeded_applications).values().any(|again| *again) {
            return;
        }
        let _lock = lock(&self.memory);
        let known = lock(&self.unneeded_applications).clone();
        lock(&self.unneeded_applications).values_mut().for_each(|again| *again = false);
        let is_known = |left: &Unneeded<'_>| known.get(left.place) == Some(&true);
        self.delete_unneeded(
            resolved,
            &is_known,
            Deadline::after(self.clock(), UNNEEDED_APPLICATIONS_TIMEOUT),
        );
    }

    /// Reads a new snapshot, and deletes the unneeded applications that `is_such` selects.
    pub(in crate::provider) fn delete_unneeded(
        &self,
        resolved: &Resolved,
        is_such: &dyn Fn(&Unneeded<'_>) -> bool,
        deadline: Deadline,
    ) {
        let snapshot = match self.read(resolved, true, deadline) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                return logging::debug(module_path!(), || {
                    LogLine::default()
                        .text(format!("what is left of Access applications is not looked for: {error}"))
                });
            }
        };
        let mut left = self.unneeded_applications(&snapshot);
        left.retain(is_such);
        if left.is_empty() {
            return;
        }
        let deletions = left.iter().map(|one| ApplicationWork::delete(one.place.clone(), one.application));
        let deletions: Vec<ApplicationWork> = deletions.collect();
        let results = ApplicationWriter { writer: self, resolved, deadline }.carry_out(&deletions);
        for (work, result) in deletions.into_iter().zip(results) {
            let Err(reason) = result else { continue };
            // The next loop's look counts as the second look, and the deletion is retried after that look.
            lock(&self.unneeded_applications).insert(work.place, false);
            logging::debug(module_path!(), || {
                LogLine::default().text(format!("an Access application that is left stays for now: {reason}"))
            });
        }
    }

    /// The removable applications of ours on hostnames without a refusal. The list is empty while the snapshot has an
    /// old answer, because an old answer may lack a rule that needs an application.
    fn unneeded_applications<'s>(&self, snapshot: &'s Snapshot) -> Vec<Unneeded<'s>> {
        if !snapshot.old.is_empty() {
            return Vec::new();
        }
        let mut left = answering::removable(snapshot);
        let last = lock(&self.reporter.last_loop);
        left.retain(|left| {
            !last.request.refusals.all().any(|(refusal, _)| *refusal.hostname == *left.place.hostname())
        });
        left
    }
}
