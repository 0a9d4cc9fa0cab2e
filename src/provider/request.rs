//! Carries out one request of ExternalDNS: it reads, plans and writes, and starts over if the outcome of a write is
//! unknown, or if a tunnel can be written again.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use crate::collections::collect;
use crate::limits;
use crate::locks::lock;
use crate::model::TunnelId;
use crate::model::endpoint::Changes;
use crate::provider::CallContext;
use crate::provider::access::unneeded;
use crate::provider::access::writer::{NotWritten, write_applications};
use crate::provider::connectors::obstacle_to_move;
use crate::provider::execution::ledger::RunResult;
use crate::provider::execution::{self, probe_tunnel};
use crate::provider::failure;
use crate::provider::memory::WriteMemory;
use crate::provider::report::{application_text, describe};
use crate::reconcile::Note;
use crate::reconcile::plan::{self, ComparedWrite, Plan, Turn};
use crate::reconcile::plan_inputs::PlanInputs;
use crate::reconcile::property_name::ACCESS_POLICY;
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::Snapshot;
use crate::webhook::Failure;

/// The attempts to carry out a request: the first, and one more after each that ended with a write of unknown outcome,
/// or after a tunnel could be written again.
const APPLY_ATTEMPTS_MAX: usize = 3;

/// The time for one look at the connectors of a tunnel to which hostnames move. Several tunnels are read in parallel.
const MOVE_LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// One request that writes. Only one such request runs at a time.
struct ApplyRequest<'a> {
    context: CallContext<'a>,
    memory: MutexGuard<'a, WriteMemory>,
    changes: &'a Changes,
    /// True once an attempt has planned to delete rules of a hostname with an application of ours, or to remove digests
    /// of deleted rules, even if that failed. Only then does the request itself delete replaced applications.
    planned_protected_deletions: bool,
}

/// One attempt to carry out a request.
struct Attempt {
    plan: Plan,
    result: RunResult,
}

/// Carries out the changes. Unfinished work is an error, so that ExternalDNS asks for it again.
pub(super) fn apply(context: CallContext<'_>, changes: &Changes) -> Result<(), Failure> {
    let provider = context.provider;
    let memory = lock(&provider.write_memory);
    let context = CallContext { deadline: context.deadline.with_reserve(), ..context };
    let mut request = ApplyRequest { context, memory, changes, planned_protected_deletions: false };
    let outcome = request.carry_out();
    request.delete_replaced_applications();
    if outcome.is_err() {
        // A rule that this request could not write may need the applications, so no sighting counts any more. The
        // watch waits for the lock before it deletes an application.
        lock(&provider.unneeded_places).forget_sightings();
    }
    outcome
}

impl ApplyRequest<'_> {
    fn carry_out(&mut self) -> Result<(), Failure> {
        // Only an endpoint with this property asks for an application.
        let mut wanted = self.changes.wanted.iter();
        let with_access = wanted.any(|endpoint| endpoint.property(ACCESS_POLICY).is_some());
        let snapshot = self.context.read(with_access);
        let snapshot =
            snapshot.map_err(|error| self.context.provider.remember_failure(failure::unread(error)))?;
        let mut attempt = self.attempt(snapshot, Vec::new());
        for _ in 1..APPLY_ATTEMPTS_MAX {
            if !self.context.has_time() {
                break;
            }
            // Another attempt finds out what is left after an unknown outcome, or writes the hostnames that were
            // refused for a tunnel which can be written again.
            let may_write_more =
                attempt.result.has_unknown_outcome || self.probe_failed_tunnels(&attempt.plan);
            // The probe takes time too.
            if !may_write_more || !self.context.has_time() {
                break;
            }
            // Without a reading, the request ends with the result so far.
            let Ok(snapshot) = self.context.read(with_access) else { break };
            let noted = mem::take(&mut attempt.plan.notes);
            // Memory would otherwise hold two plans.
            drop(attempt);
            attempt = self.attempt(snapshot, noted);
        }
        self.finish(&attempt)
    }

    /// Plans, and writes unless this is a dry run: applications first. `noted` are the notes of earlier attempts, which
    /// the next plan does not have.
    fn attempt(&mut self, snapshot: Arc<Snapshot>, noted: Vec<Note>) -> Attempt {
        let context = self.context;
        let mut inputs = self.inputs(&snapshot);
        let mut plan = self.plan_with_ready_tunnels(&snapshot, &mut inputs);
        let mut result = RunResult::default();
        if !plan.is_empty() && !context.provider.is_dry_run() {
            inputs.unwritten_applications = self.write_applications(&plan);
            if !inputs.unwritten_applications.is_empty() {
                // Memory would otherwise hold two plans. The next one differs in reasons alone, because the endpoint of
                // an unwritten application is refused in both, so it needs no other look at connectors.
                drop(plan);
                plan = self.plan(&snapshot, &inputs);
            }
            self.planned_protected_deletions |= deletes_protected_rules(&plan, &snapshot);
            let memory = &mut self.memory;
            result = context.provider.run_writes(|| execution::run(context, memory, &plan, &snapshot));
        }
        // A note is true only once the writes of its hostname are done.
        plan.notes.retain(|note| !result.given_up.contains_key(&note.hostname));
        plan.notes.extend(noted);
        Attempt { plan, result }
    }

    /// Reports the results. Fails if work is left.
    fn finish(&mut self, Attempt { plan, result }: &Attempt) -> Result<(), Failure> {
        let provider = self.context.provider;
        let dry_run_writes = provider.is_dry_run().then(|| describe(plan));
        provider.remember(|last, now| last.remember_request(self.changes, plan, result, dry_run_writes, now));
        if result.has_unknown_outcome {
            // Records of the turn may have been written without their rules.
            self.memory.turn.remember_half_written();
        }
        self.memory.turn.end_request(!result.given_up.is_empty(), plan.next_turn.as_ref());
        if let Some(error) = &result.ended_early {
            return Err(failure::ended_early(error));
        }
        let refusals = plan.refusals.iter().chain(result.refusals());
        let left = refusals.filter(|refusal| refusal.reason.fails_request()).count() + plan.postponed.len();
        if left > 0 {
            return Err(failure::unfinished(left));
        }
        self.memory.write_targets.forget_all();
        Ok(())
    }

    /// Deletes our applications that are replaced by another one at their place or a wider one, if this request planned
    /// to delete rules or to remove their digests: otherwise visitors would get tokens of the old application, which
    /// the existing rules refuse.
    fn delete_replaced_applications(&self) {
        if self.planned_protected_deletions && self.context.has_time() {
            let Ok(snapshot) = self.context.read(true) else { return };
            unneeded::delete_selected(self.context, &snapshot, &|one| one.is_replaced);
        }
    }

    fn inputs(&self, snapshot: &Snapshot) -> PlanInputs {
        let targets = &self.memory.write_targets;
        let failure = |tunnel: &TunnelId| Some((tunnel.clone(), targets.failure(tunnel.as_str())?.clone()));
        PlanInputs {
            paused: self.memory.write_history.paused(self.context.now()),
            failed_tunnels: snapshot.tunnels.keys().filter_map(failure).collect(),
            is_dry_run: self.context.provider.is_dry_run(),
            ..PlanInputs::default()
        }
    }

    /// The plan of a turn, or in a dry run of all hostnames.
    fn plan(&self, snapshot: &Snapshot, inputs: &PlanInputs) -> Plan {
        let hostnames_max = if inputs.is_dry_run { usize::MAX } else { limits::CHANGED_HOSTNAMES_MAX };
        let turn = Turn { start: self.memory.turn.start.as_ref(), hostnames_max };
        plan::plan(self.changes, snapshot, inputs, turn)
    }

    /// The plan in which a hostname moves only once the connectors of its next tunnel have applied the version that was
    /// read, which a look at Cloudflare shows. Until then, another hostname may take its turn.
    fn plan_with_ready_tunnels(&self, snapshot: &Snapshot, inputs: &mut PlanInputs) -> Plan {
        let mut looked_at: BTreeSet<TunnelId> = BTreeSet::new();
        loop {
            let plan = self.plan(snapshot, inputs);
            let tunnels = plan.hosts.iter().filter_map(|host| host.moves_to.clone());
            let tunnels: Vec<TunnelId> = tunnels.filter(|tunnel| looked_at.insert(tunnel.clone())).collect();
            // A slow look must leave time to write.
            let left = self.context.time_left().saturating_sub(limits::WRITE_TIME_MIN);
            let context = self.context.within(MOVE_LOOK_TIMEOUT.min(left));
            let looks = context.in_parallel(&tunnels, |tunnel| {
                let version = snapshot.tunnels.get(tunnel)?.version;
                obstacle_to_move(context, tunnel, version)
            });
            let unready = tunnels.into_iter().zip(looks).filter_map(|(tunnel, look)| Some((tunnel, look?)));
            let unready: Vec<(TunnelId, String)> = unready.collect();
            if unready.is_empty() {
                return plan;
            }
            inputs.unready.extend(unready);
        }
    }

    /// Probes the tunnels for which the plan refused a hostname and whose edits are not paused: after all other work,
    /// and in half of the time, because a tunnel that does not answer can use up a request's time. If little time is
    /// left, the probe may use enough of it for a read and a write: a tunnel that is never probed would never be
    /// written again. True if a tunnel can be written again.
    fn probe_failed_tunnels(&mut self, plan: &Plan) -> bool {
        let targets = &mut self.memory.write_targets;
        let now = self.context.now();
        let refused_for = plan.refusals.iter().filter_map(|refusal| match &refusal.reason {
            Reason::TunnelFailed(tunnel, _) => Some(tunnel),
            _ => None,
        });
        let due = refused_for.filter(|tunnel| targets.may_probe(tunnel.as_str(), now));
        let tunnels: Vec<&TunnelId> = collect::<BTreeSet<_>, _>(due).into_iter().collect();
        let context = self.context.within((self.context.time_left() / 2).max(limits::WRITE_TIME_MIN * 2));
        let probes = context
            .in_parallel(&tunnels, |tunnel| context.provider.run_writes(|| probe_tunnel(context, tunnel)));
        let mut is_any_writable = false;
        for (tunnel, probe) in tunnels.iter().zip(probes) {
            let Some(result) = probe else { continue };
            is_any_writable |= result.is_ok();
            targets.remember_probe(tunnel.as_str(), result);
        }
        is_any_writable
    }

    /// Writes the applications of the plan, in half of the time if the plan has other writes, and remembers the
    /// results. Returns the reasons why some were not written, by the fingerprints of their content.
    fn write_applications(&mut self, plan: &Plan) -> BTreeMap<u64, Reason> {
        let half = self.context.within(self.context.time_left() / 2);
        let context = if plan.hosts.is_empty() { self.context } else { half };
        let results = write_applications(context, &plan.application_writes);
        let now = context.now();
        let history = &mut self.memory.write_history;
        let mut unwritten = BTreeMap::new();
        for (write, result) in plan.application_writes.iter().zip(results) {
            let content = write.content_fingerprint();
            let reason = match result {
                Ok(()) => {
                    history.forget(content);
                    let (key, what) = (write.place_fingerprint(), application_text(write).into());
                    history.remember_written(&ComparedWrite { key, fingerprint: content, what }, now);
                    continue;
                }
                Err(NotWritten::NotTried) => {
                    Reason::Waiting("no time or calls were left for the Access application".to_owned())
                }
                Err(NotWritten::Rejected(reason)) => {
                    history.pause_rejected(content, reason.clone(), now);
                    reason
                }
                // A missing permission may be granted before the next loop, so only content that Cloudflare rejected is
                // remembered.
                Err(NotWritten::Failed(reason)) => reason,
            };
            unwritten.insert(content, reason);
        }
        unwritten
    }
}

/// True if the plan deletes rules of a hostname with an application of ours, or removes digests of deleted rules.
fn deletes_protected_rules(plan: &Plan, snapshot: &Snapshot) -> bool {
    let mut hosts = snapshot.own_applications().filter_map(|own| plan.host(own.place.hostname().as_str()));
    hosts.any(|host| {
        !host.removed_dangling.is_empty() || host.edits.iter().any(|planned| planned.edit.is_deletion())
    })
}
