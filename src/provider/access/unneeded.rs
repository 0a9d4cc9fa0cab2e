//! Deletes the applications of ours that no rule or record needs any more.

use std::time::Duration;

use crate::clock::Deadline;
use crate::limits;
use crate::locks::lock;
use crate::logging;
use crate::model::LogLine;
use crate::provider::Provider;
use crate::provider::access::writer::ApplicationWriter;
use crate::provider::resolution::Resolved;
use crate::reconcile::access::gate::ApplicationWrite;
use crate::reconcile::access::unneeded::{self, Unneeded};
use crate::reconcile::snapshot::Snapshot;

/// The time to delete unneeded Access applications.
pub(in crate::provider) const UNNEEDED_APPLICATIONS_TIMEOUT: Duration = Duration::from_secs(2);

impl Provider {
    /// Notes the applications of ours that may be deleted. It runs once in each loop.
    pub(in crate::provider) fn look_for_unneeded_applications(&self, snapshot: &Snapshot) {
        let left = if self.is_dry_run() { Vec::new() } else { self.unneeded_applications(snapshot) };
        lock(&self.unneeded_places).note(left.iter().map(|left| left.own.place));
    }

    /// Deletes the applications of ours that the last two checks found unneeded, if a new reading agrees. If a rule was
    /// deleted at Cloudflare but an object still wants the rule, ExternalDNS asks for the rule between two checks. No
    /// request writes during the deletion, and a request may wait for the lock, so the deletion takes two seconds at
    /// most; the reading takes longer in a large account, and no request waits for it.
    pub(in crate::provider) fn delete_unneeded_applications(&self, resolved: &Resolved) {
        if !lock(&self.unneeded_places).has_confirmed() {
            return;
        }
        let read = self.read(resolved, true, Deadline::after(self.clock(), limits::REQUEST_TIMEOUT_DEFAULT));
        let _lock = lock(&self.memory);
        let agreed = lock(&self.unneeded_places).take_confirmed();
        // A request may have written since.
        let recent = lock(&self.last_snapshot).recent(self.clock().now());
        let Some(snapshot) = recent.filter(|_| read.is_ok()) else { return };
        let is_agreed = |left: &Unneeded<'_>| agreed.contains(left.own.place);
        let deadline = Deadline::after(self.clock(), UNNEEDED_APPLICATIONS_TIMEOUT);
        self.delete_unneeded(resolved, &snapshot, &is_agreed, deadline);
    }

    /// Deletes the unneeded applications that `is_selected` selects.
    pub(in crate::provider) fn delete_unneeded(
        &self,
        resolved: &Resolved,
        snapshot: &Snapshot,
        is_selected: &dyn Fn(&Unneeded<'_>) -> bool,
        deadline: Deadline,
    ) {
        let mut left = self.unneeded_applications(snapshot);
        left.retain(is_selected);
        if left.is_empty() {
            return;
        }
        let deletions: Vec<_> = left.iter().map(|one| ApplicationWrite::delete(one.own)).collect();
        let results = ApplicationWriter { provider: self, resolved, deadline }.carry_out(&deletions);
        for (write, result) in deletions.into_iter().zip(results) {
            let Err(reason) = result else { continue };
            lock(&self.unneeded_places).note_failed(write.place);
            logging::debug(module_path!(), || {
                LogLine::default().text(format!("an unneeded Access application stays for now: {reason}"))
            });
        }
    }

    /// The removable applications of ours on hostnames without a refusal. The list is empty while the snapshot has an
    /// old answer, because an old answer may lack a rule that needs an application.
    fn unneeded_applications<'s>(&self, snapshot: &'s Snapshot) -> Vec<Unneeded<'s>> {
        if !snapshot.old_answers.is_empty() {
            return Vec::new();
        }
        let mut left = unneeded::removable(snapshot);
        let last = lock(&self.last_loop);
        left.retain(|left| {
            !last.request.refusals.all().any(|(refusal, _)| *refusal.hostname == *left.own.place.hostname())
        });
        left
    }
}
