//! Carries out one request of ExternalDNS: it reads, plans and writes, and starts over if a write's outcome is unknown,
//! or if a tunnel can be written again.

use std::collections::BTreeSet;
use std::sync::MutexGuard;

use crate::collections::inserted;
use crate::ingress::RuleEdit;
use crate::limits;
use crate::locks::lock;
use crate::model::TunnelId;
use crate::model::endpoint::Changes;
use crate::provider::Work;
use crate::provider::access::writer::NotWritten;
use crate::provider::execution;
use crate::provider::execution::ledger::{Ending, RunResult};
use crate::provider::failure;
use crate::provider::memory::WriteMemory;
use crate::provider::parallel::in_parallel;
use crate::provider::report::application_text;
use crate::reconcile::access::gate::ApplicationWrite;
use crate::reconcile::plan::{self, ComparedWrite, Plan, PlannedEdit, Turn};
use crate::reconcile::plan_inputs::PlanInputs;
use crate::reconcile::property_name::ACCESS_POLICY;
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::Snapshot;
use crate::webhook::Failure;

/// The attempts to carry out a request: the first, and one after each lost answer to a write, or after a tunnel could be
/// written again.
const APPLY_ATTEMPTS_MAX: usize = 3;

/// One request that writes. Only one such request runs at a time.
struct ApplyRequest<'a> {
    work: Work<'a>,
    memory: MutexGuard<'a, WriteMemory>,
    changes: &'a Changes,
    /// True once an attempt has planned to delete rules of a hostname with an application of ours, even if the deletion
    /// failed. Only then may a replaced application be deleted.
    planned_protected_deletions: bool,
}

impl Work<'_> {
    /// Carries out the changes. Unfinished work is an error, so that ExternalDNS asks for it again.
    pub(super) fn apply(self, changes: &Changes) -> Result<(), Failure> {
        let provider = self.provider;
        let memory = lock(&provider.write_memory);
        let work = Work { deadline: self.deadline.with_reserve(), ..self };
        let mut request = ApplyRequest { work, memory, changes, planned_protected_deletions: false };
        let outcome = request.carry_out();
        request.delete_replaced_applications();
        if outcome.is_err() {
            // A rule that this request could not write may need the applications, so no check counts any more. The
            // watch waits for the lock before it deletes an application.
            lock(&provider.unneeded_places).forget_checks();
        }
        outcome
    }
}

impl ApplyRequest<'_> {
    fn carry_out(&mut self) -> Result<(), Failure> {
        let (provider, with_access) = (self.work.provider, self.asks_for_access());
        let read_failed = |error| provider.remember_failure(failure::unread(error));
        let mut snapshot = self.work.read(with_access).map_err(read_failed)?;
        let (mut attempts, mut noted) = (1, Vec::new());
        loop {
            let plan = self.plan_with_ready_tunnels(&snapshot);
            let (mut plan, result) = self.write(plan, &snapshot);
            // A note is about a write, which has to be completed.
            plan.notes.retain(|note| !result.given_up.contains(&note.hostname));
            plan.notes.append(&mut noted);
            let is_lost = matches!(result.ending, Ending::LostAnswer);
            let is_repeated = attempts < APPLY_ATTEMPTS_MAX
                && self.work.has_time()
                && (is_lost || self.probe_failed_tunnels(&plan) && self.work.has_time());
            if !is_repeated {
                return self.finish(&plan, &result);
            }
            attempts += 1;
            // The next plan has no notes on the writes of this run, and the next reading may fail.
            provider.log_notes(&plan);
            noted.clone_from(&plan.notes);
            // Memory would otherwise hold two snapshots.
            drop(snapshot);
            snapshot = match self.work.read(with_access) {
                Ok(snapshot) => snapshot,
                Err(error) if is_lost => return Err(read_failed(error)),
                // The probe came after all other work, so the request ends with the result of that work.
                Err(_) => return self.finish(&plan, &result),
            };
        }
    }

    /// Writes what the plan asks for, unless this is a dry run: applications first. Returns the plan with the refusals
    /// of applications that were not written.
    fn write(&mut self, plan: Plan, snapshot: &Snapshot) -> (Plan, RunResult) {
        if plan.is_empty() || self.work.provider.is_dry_run() {
            return (plan, RunResult::default());
        }
        self.planned_protected_deletions |= deletes_protected_rules(&plan, snapshot);
        let plan = self.write_applications(plan);
        let (work, memory) = (self.work, &mut self.memory);
        let result = work.provider.outdating(|| execution::run(work, memory, &plan, snapshot));
        (plan, result)
    }

    /// True if an endpoint to create or update has a property that depends on Access applications.
    fn asks_for_access(&self) -> bool {
        self.changes.wanted.iter().any(|endpoint| endpoint.property(ACCESS_POLICY).is_some())
    }

    /// Reports the results. Fails if work is left.
    fn finish(&mut self, plan: &Plan, result: &RunResult) -> Result<(), Failure> {
        self.work.provider.report(self.changes, plan, result);
        self.memory.turn.end_request(!result.given_up.is_empty(), plan.next_turn.as_ref());
        if let Ending::Early(error) = &result.ending {
            return Err(failure::ended_early(error));
        }
        let refusals = plan.refusals.iter().chain(&result.refusals);
        let left = refusals.filter(|refusal| refusal.reason.fails_request()).count() + plan.postponed.len();
        if left > 0 {
            return Err(failure::unfinished(left));
        }
        self.memory.targets.forget_all();
        Ok(())
    }

    /// Deletes our applications that are replaced by another one at their place or a wider one, if this request
    /// planned to delete rules: otherwise visitors would get tokens of the old application, which the existing rules refuse.
    fn delete_replaced_applications(&self) {
        if self.planned_protected_deletions && self.work.has_time() {
            let Ok(snapshot) = self.work.read(true) else { return };
            self.work.delete_selected(&snapshot, &|one| one.is_replaced);
        }
    }

    /// The plan of a turn, or in a dry run of all hostnames. A hostname moves only once the connectors of its next tunnel
    /// have applied the version that was read, which a look at Cloudflare shows. Until then, another hostname may use its
    /// place in the turn.
    fn plan_with_ready_tunnels(&self, snapshot: &Snapshot) -> Plan {
        let WriteMemory { write_history, targets, turn } = &*self.memory;
        let (provider, now) = (self.work.provider, self.work.provider.clock().now());
        let failure = |tunnel: &TunnelId| Some((tunnel.clone(), targets.failure(tunnel.as_str())?.clone()));
        let mut inputs = PlanInputs {
            paused: write_history.paused(now),
            unwritable: snapshot.tunnels.keys().filter_map(failure).collect(),
            is_dry_run: provider.is_dry_run(),
            ..PlanInputs::default()
        };
        let hostnames_max = if provider.is_dry_run() { usize::MAX } else { limits::CHANGED_HOSTNAMES_MAX };
        let turn = Turn { start: turn.start.as_ref(), hostnames_max };
        let mut looked_at: BTreeSet<TunnelId> = BTreeSet::new();
        loop {
            let plan = plan::plan(self.changes, snapshot, &inputs, turn);
            let tunnels = plan.hosts.iter().filter_map(|host| host.moves_to.clone());
            let tunnels: Vec<TunnelId> = tunnels.filter(|tunnel| looked_at.insert(tunnel.clone())).collect();
            // Slow answers leave time for the rest of the request.
            let left = self.work.time_left().saturating_sub(limits::WRITE_TIME_MIN);
            let work = self.work.within(limits::MOVE_LOOK_TIMEOUT.min(left));
            let looks = in_parallel(provider.reader.settings.parallel_calls, &tunnels, |tunnel| {
                let version = snapshot.tunnels.get(tunnel)?.version;
                work.obstacle_to_move(tunnel, version)
            });
            let unready = tunnels.into_iter().zip(looks).filter_map(|(tunnel, look)| Some((tunnel, look?)));
            let unready: Vec<(TunnelId, String)> = unready.collect();
            if unready.is_empty() {
                return plan;
            }
            inputs.unready.extend(unready);
        }
    }

    /// Probes the tunnels for which the plan refused a hostname and whose edits are not paused: after all other work, and
    /// in half of the time, because a tunnel that does not answer can use up a request's time. Of a short time, the
    /// probe gets enough for a read and a write if it is left: a tunnel that is never probed would never be written again.
    /// True if a tunnel can be written again.
    fn probe_failed_tunnels(&mut self, plan: &Plan) -> bool {
        let (provider, targets) = (self.work.provider, &mut self.memory.targets);
        let now = provider.clock().now();
        let refused_for = plan.refusals.iter().filter_map(|refusal| match &refusal.reason {
            Reason::TunnelUnwritable(tunnel, _) => Some(tunnel),
            _ => None,
        });
        let due = refused_for.filter(|tunnel| targets.may_probe(tunnel.as_str(), now));
        let tunnels: Vec<&TunnelId> = inserted::<BTreeSet<_>, _>(due).into_iter().collect();
        let work = self.work.within((self.work.time_left() / 2).max(limits::WRITE_TIME_MIN * 2));
        let probes = in_parallel(provider.reader.settings.parallel_calls, &tunnels, |tunnel| {
            provider.outdating(|| work.probe_tunnel(tunnel))
        });
        let mut is_any_writable = false;
        for (tunnel, probe) in tunnels.iter().zip(probes) {
            let Ok(failure) = probe else { continue };
            is_any_writable |= failure.is_none();
            targets.remember_probe(tunnel.as_str(), failure);
        }
        is_any_writable
    }

    /// Does the work on applications, in half of the time if the plan has other writes. Returns the plan with refusals for
    /// work that is not done.
    fn write_applications(&mut self, plan: Plan) -> Plan {
        if plan.application_writes.is_empty() {
            return plan;
        }
        let half = self.work.within(self.work.time_left() / 2);
        let work = if plan.hosts.is_empty() { self.work } else { half };
        let results = work.write_applications(&plan.application_writes);
        let mut failed = Vec::new();
        for (write, result) in plan.application_writes.iter().zip(results) {
            let reason = self.remember_application(write, result);
            failed.extend(reason.map(|reason| (write.clone(), reason)));
        }
        plan.refusing_applications(&failed)
    }

    /// Notes the result of a write of an application, and returns the reason why the application was not written.
    fn remember_application(
        &mut self,
        write: &ApplicationWrite,
        result: Result<(), NotWritten>,
    ) -> Option<Reason> {
        let (now, history) = (self.work.provider.clock().now(), &mut self.memory.write_history);
        let content = write.content_fingerprint();
        match result {
            Ok(()) => {
                let what = application_text(write).into();
                history.forget(content);
                let key = write.place_fingerprint();
                history.remember_written(&ComparedWrite { key, content_and_state: content, what }, now);
                None
            }
            Err(NotWritten::NotTried) => {
                Some(Reason::Waiting("no time or calls were left for the Access application".to_owned()))
            }
            Err(NotWritten::Refused(reason)) => {
                history.pause_refused(content, reason.clone(), now);
                Some(reason)
            }
            // A missing permission may be granted before the next loop, so only content that Cloudflare refused is
            // remembered.
            Err(NotWritten::Failed(reason)) => Some(reason),
        }
    }
}

/// True if the plan deletes rules of a hostname with an application of ours, or removes digests of deleted rules.
fn deletes_protected_rules(plan: &Plan, snapshot: &Snapshot) -> bool {
    let is_deletion = |planned: &PlannedEdit| matches!(planned.edit, RuleEdit::Delete { .. });
    let mut hosts = snapshot.own_applications().filter_map(|own| plan.host(own.place.hostname().as_str()));
    hosts.any(|host| !host.removed_dangling.is_empty() || host.edits.iter().any(is_deletion))
}
