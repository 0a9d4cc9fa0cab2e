//! Deletes our Access applications that no rule or record needs any more.

use std::time::Duration;

use log::Level;

use crate::clock::Deadline;
use crate::limits;
use crate::locks::lock;
use crate::logging;
use crate::provider::access::writer::{NotWritten, write_applications};
use crate::provider::report::describe_application;
use crate::provider::setup::Setup;
use crate::provider::{CallContext, Provider};
use crate::reconcile::access::gate::ApplicationWrite;
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::access::unneeded::{self, Unneeded};
use crate::reconcile::snapshot::Snapshot;

/// The time to delete unneeded Access applications.
const UNNEEDED_APPLICATIONS_TIMEOUT: Duration = Duration::from_secs(2);

impl Provider {
    /// Remembers the places of our applications that may be deleted. Runs at most once in each loop: not if the last
    /// snapshot is outdated.
    pub(crate) fn check_unneeded_applications(&self, snapshot: &Snapshot) {
        if !snapshot.old_answers.is_empty() || matches!(snapshot.access, AccessReading::Failed(_)) {
            return lock(&self.unneeded_places).forget_sightings();
        }
        let unneeded = if self.is_dry_run() { Vec::new() } else { self.unneeded_applications(snapshot) };
        let places = unneeded.iter().map(|one| one.own.place);
        lock(&self.unneeded_places).remember_found(places, self.clock().now());
    }

    /// Deletes the applications of ours that the last two checks found unneeded, if a new reading agrees. If a rule was
    /// deleted at Cloudflare but an object still wants the rule, ExternalDNS asks for the rule between two checks. No
    /// request writes during the deletion, and a request may wait for the lock, so the deletion takes two seconds at
    /// most; the reading takes longer in a large account, and no request waits for it.
    pub(crate) fn delete_unneeded_applications(&self, setup: &Setup) {
        if !lock(&self.unneeded_places).has_confirmed() {
            return;
        }
        let deadline = Deadline::after(self.clock(), limits::REQUEST_TIMEOUT_DEFAULT);
        let context = CallContext { provider: self, setup, deadline };
        // The snapshot is not kept: while this thread waits for the lock, a request may read, and memory would hold
        // both.
        let is_read = context.read(true).is_ok();
        // Nothing of the memory is needed: its lock keeps requests from writing.
        let _exclusive = lock(&self.write_memory);
        // After a failed reading, the places need one more check too.
        let confirmed = lock(&self.unneeded_places).take_confirmed();
        if !is_read {
            return;
        }
        // The last snapshot is this reading, or one of a request that ended later. It is outdated if a request wrote
        // since it began.
        let Some(snapshot) = lock(&self.last_snapshot).unless_outdated() else { return };
        let is_confirmed = |one: &Unneeded<'_>| confirmed.contains(one.own.place);
        let deadline = Deadline::after(self.clock(), UNNEEDED_APPLICATIONS_TIMEOUT);
        delete_selected(CallContext { deadline, ..context }, &snapshot, &is_confirmed);
    }

    /// The removable applications of ours on hostnames without a refusal. The list is empty while the snapshot has an
    /// old answer, because an old answer may lack a rule that needs an application.
    fn unneeded_applications<'s>(&self, snapshot: &'s Snapshot) -> Vec<Unneeded<'s>> {
        if !snapshot.old_answers.is_empty() {
            return Vec::new();
        }
        let mut unneeded = unneeded::removable(snapshot);
        let last = lock(&self.last_loop);
        unneeded.retain(|Unneeded { own, .. }| {
            let name = own.place.hostname().as_str();
            !last.request.refusals.present().any(|(refusal, _)| *refusal.hostname == *name)
        });
        unneeded
    }
}

/// Deletes the unneeded applications that `is_selected` selects.
pub(crate) fn delete_selected(
    context: CallContext<'_>,
    snapshot: &Snapshot,
    is_selected: &dyn Fn(&Unneeded<'_>) -> bool,
) {
    let provider = context.provider;
    let mut unneeded = provider.unneeded_applications(snapshot);
    unneeded.retain(is_selected);
    if unneeded.is_empty() {
        return;
    }
    let deletions: Vec<_> = unneeded.iter().map(|one| ApplicationWrite::delete(one.own)).collect();
    let results = write_applications(context, &deletions);
    for (write, result) in deletions.into_iter().zip(results) {
        let Err(NotWritten::Rejected(reason) | NotWritten::Failed(reason)) = result else { continue };
        let text = format!("an unneeded Access application stays for now: {reason}");
        let line = describe_application(&write).text(text);
        if lock(&provider.unneeded_places).pause(write.place, reason, context.now()) {
            logging::log(Level::Warn, module_path!(), &line);
        }
    }
}
