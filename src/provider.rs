//! The webhook's service: reads a snapshot, asks the core, and carries its plan out. The only writer.

mod connectors;
mod description;
mod execution;
mod journal;
mod memory;
mod reader;
mod resolution;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use log::{Level, debug, info, log_enabled, warn};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Error};
use crate::limits;
use crate::model::AccountId;
use crate::model::endpoint::{Changes, Endpoint, List};
use crate::observe::health::Health;
use crate::observe::metrics::{Family, Metrics};
pub use crate::provider::connectors::Watch;
use crate::provider::execution::{Done, Execution, Stop};
use crate::provider::journal::{Journal, Speaker};
use crate::provider::memory::Moves;
use crate::provider::memory::SwallowedHostnames;
use crate::provider::memory::UnappliedRules;
use crate::provider::memory::UnpublishedRules;
use crate::provider::memory::{MergedObjects, Shown};
pub(crate) use crate::provider::reader::is_of_account;
use crate::provider::reader::{ReadError, Reader};
pub use crate::provider::resolution::ProviderSettings;
pub(crate) use crate::provider::resolution::{find_tunnel, shared_account};
use crate::reconcile::adjust::{self, Adjuster};
use crate::reconcile::canonical::INVALID;
use crate::reconcile::plan::{self, HostPlan, Plan, Reason, Refusal};
use crate::reconcile::rivals::{self, Holders, Known};
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::{Settings, records};
use crate::webhook::incoming::{Arrived, Incoming};
use crate::webhook::{Failure, Service};

/// What ExternalDNS talks to, through the webhook.
#[derive(Debug)]
pub struct Provider {
    client: Client,
    clock: Arc<dyn Clock>,
    settings: ProviderSettings,
    reader: Reader,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    /// Nothing until the account and every tunnel are known.
    resolved: RwLock<Option<Arc<Resolved>>>,
    /// The last snapshot that was read and not written upon.
    snapshot: Mutex<Remembered>,
    journal: Mutex<Journal>,
    silence: Mutex<SwallowedHostnames>,
    adjusted: Mutex<AdjustedBefore>,
    /// Writers in this process take turns.
    turn: Mutex<UnpublishedRules>,
    unapplied: Mutex<UnappliedRules>,
    moves: Mutex<Moves>,
    /// Whether ExternalDNS asked for changes since it read last. What is refused it asks for in every loop.
    was_asked: AtomicBool,
}

/// What was read last, unless something was written since.
#[derive(Debug, Default)]
struct Remembered {
    /// When its reading began.
    read: Option<(Instant, Arc<Snapshot>)>,
    /// How often something was written: a reading that was overtaken by a write is old already.
    writes: u64,
}

/// What `adjust` has to know of its last requests.
#[derive(Debug, Default)]
struct AdjustedBefore {
    merged: MergedObjects,
    holders: Holders,
    /// How many endpoints named no service.
    unnamed: usize,
}

impl Remembered {
    /// Lets the last snapshot go before the next one is read, as memory would hold both. Says how often something was
    /// written till now.
    fn forget(&mut self) -> u64 {
        self.read = None;
        self.writes
    }
}

#[derive(Debug)]
struct Resolved {
    account: AccountId,
    settings: Settings,
}

impl Provider {
    /// A provider that answers 503 until [`Provider::resolve`] has succeeded.
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        settings: ProviderSettings,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let mut values = metrics.update();
        values.set(Family::BuildInfo, &[env!("CARGO_PKG_VERSION")], 1);
        values.set(Family::DryRun, &[], i64::from(settings.dry_run));
        drop(values);
        let reader = Reader::new(settings.zone_ids.clone(), Arc::clone(&clock), settings.allow_local_config);
        Self {
            client,
            clock,
            settings,
            reader,
            health,
            metrics,
            resolved: RwLock::new(None),
            snapshot: Mutex::new(Remembered::default()),
            journal: Mutex::default(),
            silence: Mutex::default(),
            adjusted: Mutex::default(),
            turn: Mutex::default(),
            unapplied: Mutex::default(),
            moves: Mutex::default(),
            was_asked: AtomicBool::new(false),
        }
    }

    /// The metrics as a scrape shows them. Most were counted when they happened; what changes by itself is asked for now.
    pub fn scrape(&self) -> String {
        let calls_left = self.client.calls_left();
        let mut values = self.metrics.update();
        values.set(Family::Ready, &[], i64::from(self.health.is_ready()));
        values.set(Family::CallsLeft, &[], i64::from(calls_left));
        drop(values);
        self.metrics.text()
    }

    fn resolved(&self) -> Result<Arc<Resolved>, Failure> {
        self.resolved.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(|| {
            Failure::unavailable("not ready: the token or the tunnels could not be checked yet; /readyz on the metrics port says why")
        })
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unapplied(&self) -> MutexGuard<'_, UnappliedRules> {
        self.unapplied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moves(&self) -> MutexGuard<'_, Moves> {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silence(&self) -> MutexGuard<'_, SwallowedHostnames> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn adjusted_before(&self) -> MutexGuard<'_, AdjustedBefore> {
        self.adjusted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warn_of_news(&self, speaker: Speaker, lines: impl IntoIterator<Item = String>) {
        for line in self.journal().news(speaker, lines) {
            warn!("{line}");
        }
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads, and remembers what was read.
    fn read(&self, resolved: &Resolved, deadline: Deadline) -> Result<Arc<Snapshot>, Failure> {
        let Resolved { account, settings } = resolved;
        let (begun, writes) = (self.clock.now(), self.remembered().forget());
        let snapshot = self
            .reader
            .snapshot(&self.client, account, settings, deadline)
            .map(Arc::new)
            .map_err(|error| read_failure(&error))?;
        self.count_read(&snapshot, settings);
        let mut remembered = self.remembered();
        if remembered.writes == writes {
            remembered.read = Some((begun, Arc::clone(&snapshot)));
        }
        Ok(snapshot)
    }

    fn count_read(&self, snapshot: &Snapshot, settings: &Settings) {
        let own = snapshot.own_rules(settings);
        let mut values = self.metrics.update();
        values.set(Family::LastRead, &[], self.clock.unix_seconds());
        for (id, tunnel) in &snapshot.tunnels {
            let name = settings.name_of(id);
            values.set(Family::ConfigurationVersion, &[name], tunnel.version);
            for ownership in ["own", "foreign"] {
                values.set(Family::Rules, &[name, ownership], 0);
            }
            for rule in tunnel.document.rules() {
                let ownership = if own.has(id, rule) { "own" } else { "foreign" };
                values.add(Family::Rules, &[name, ownership], 1);
            }
        }
        values.clear(Family::Records, &[]);
        values.clear(Family::ZoneRecords, &[]);
        for zone in &snapshot.zones {
            let name = &*zone.zone.name;
            values.set(Family::ZoneRecords, &[name], zone.records().len() as i64);
            for record in zone.records() {
                if snapshot.is_own(record, settings) {
                    values.add(Family::Records, &[name, &record.kind], 1);
                }
            }
        }
    }

    fn count_refusals<'r>(&self, refusals: impl Iterator<Item = &'r Refusal>) {
        let mut values = self.metrics.update();
        for family in [Family::Refusals, Family::WithheldDeletions, Family::HeldBackWrites] {
            values.reset(family);
        }
        for Refusal { reason, .. } in refusals {
            values.add(Family::Refusals, &[reason.label()], 1);
            match reason {
                Reason::Withheld | Reason::MassDeletion => values.add(Family::WithheldDeletions, &[], 1),
                Reason::NotKept { .. } => values.add(Family::HeldBackWrites, &[], 1),
                _ => {}
            }
        }
    }

    fn forget_snapshot(&self) {
        let mut remembered = self.remembered();
        remembered.writes += 1;
        remembered.read = None;
    }

    /// Whatever its age: what was published since is not in it.
    fn last_snapshot(&self) -> Option<Arc<Snapshot>> {
        self.remembered().read.as_ref().map(|(_, snapshot)| Arc::clone(snapshot))
    }

    fn recent_snapshot(&self) -> Option<Arc<Snapshot>> {
        let remembered = self.remembered();
        let (read_at, snapshot) = remembered.read.as_ref()?;
        let age = self.clock.now().saturating_duration_since(*read_at);
        (age < limits::SNAPSHOT_MAX_AGE).then(|| Arc::clone(snapshot))
    }

    /// Says how many endpoints were left out for want of a service; whoever debugs was told each.
    fn report_unnamed(&self, unnamed: usize) {
        let before = std::mem::replace(&mut self.adjusted_before().unnamed, unnamed);
        if before != unnamed {
            info!("{unnamed} endpoints name no service and are not published; LOG_LEVEL=debug names them");
        }
    }

    /// What of a request has a say in its plan, once all of it is there.
    fn changes(&self, incoming: &mut Incoming<'_>, settings: &Settings) -> Result<Changes, Failure> {
        let mut changes = Changes::default();
        while let Some(Arrived { list, endpoint, is_whole }) = incoming.next_endpoint()? {
            if !is_whole {
                // Nothing that adjust returned is so long, and half of a request would be another one.
                let Endpoint { dns_name, .. } = endpoint;
                let text =
                    format!("hostname={dns_name:?} comes with more than adjust returns, so nothing is done");
                warn!("{text}");
                return Err(Failure::unavailable(text));
            }
            if plan::concerns(&endpoint, list == List::UpdateOld, settings) {
                incoming.keep(planned_bytes(&endpoint))?;
                changes.add(list, endpoint);
            }
        }
        Ok(changes)
    }

    /// The plan without what Cloudflare refused before.
    fn plan(&self, changes: &Changes, snapshot: &Snapshot, settings: &Settings) -> Result<Plan, Failure> {
        let now = self.clock.now();
        let settled = {
            let mut moves = self.moves();
            moves.see(snapshot.left_behind(settings), now);
            moves.settled(self.settings.move_grace, now)
        };
        let mut plan = plan::plan(changes, snapshot, &settled, settings).map_err(|error| {
            warn!("{error}");
            Failure::internal(error.to_string())
        })?;
        self.moves().follow(&plan, now);
        self.journal().hold_back(&mut plan, snapshot, now);
        Ok(plan)
    }

    /// Says what was refused and was not said before.
    fn report(&self, plan: &Plan, done: &Done) {
        let refusals = plan.refusals.iter().chain(&done.refusals);
        self.count_refusals(refusals.clone());
        let lines = Refusal::lines(refusals).into_iter();
        let notes = plan.notes.iter().map(ToString::to_string);
        self.warn_of_news(Speaker::Apply, lines.chain(notes));
        if self.settings.dry_run {
            for line in self.journal().news(Speaker::DryRun, description::describe(plan)) {
                info!("dry run, not done: {line}");
            }
        }
    }

    /// The same once everything that can be done is done. Where something is left to do, so that it has to be asked for
    /// again, the answer is a failure.
    fn conclude(&self, plan: &Plan, done: &Done) -> Result<(), Failure> {
        self.report(plan, done);
        if done.is_all_forbidden() {
            return Err(Failure::unavailable(
                "Cloudflare accepts the token for none of the writes; the log says more",
            ));
        }
        let refusals = plan.refusals.iter().chain(&done.refusals);
        // Where nothing is written nothing gets any further.
        let is_left = |refusal: &&Refusal| {
            refusal.reason.is_unfinished()
                && !(self.settings.dry_run && matches!(refusal.reason, Reason::Moving(_)))
        };
        let left = refusals.filter(is_left).count();
        if left > 0 || done.is_unfinished() {
            return Err(Failure::unavailable(format!(
                "{} changes are left to do; the log says which",
                left.max(1)
            )));
        }
        Ok(())
    }

    fn execute(
        &self,
        resolved: &Resolved,
        plan: &Plan,
        snapshot: &Snapshot,
        unpublished: &mut UnpublishedRules,
        deadline: Deadline,
    ) -> (Done, Result<(), Stop>) {
        // From the first write on, what was read before is old.
        self.forget_snapshot();
        let doubts = self.journal().doubts().clone();
        let (done, outcome) =
            Execution::new(self, resolved, deadline, plan, snapshot, unpublished, &doubts).run();
        // And what was read meanwhile.
        self.forget_snapshot();
        self.journal().learn(&done, self.clock.now());
        (done, outcome)
    }

    /// Takes the digests off again whose rule is somebody else's: stamped, it would pass for ours. Where there were any,
    /// what of it was refused.
    fn disown(
        &self,
        resolved: &Resolved,
        snapshot: &Snapshot,
        unpublished: &mut UnpublishedRules,
        deadline: Deadline,
    ) -> Result<Option<Vec<Refusal>>, Failure> {
        let mut taken = unpublished.taken(snapshot, &resolved.settings);
        if taken.is_empty() {
            return Ok(None);
        }
        let mut plan = plan::disown(&taken, unpublished.comments(), snapshot, &resolved.settings);
        self.journal().hold_back(&mut plan, snapshot, self.clock.now());
        let held: Vec<Box<str>> = plan.refusals.iter().map(|refusal| refusal.hostname.clone()).collect();
        let (done, outcome) = self.execute(resolved, &plan, snapshot, unpublished, deadline);
        outcome.map_err(|stop| stop_failure(&stop))?;
        taken.retain(|hostname, _| !held.contains(hostname) && !done.dropped.contains(hostname));
        unpublished.forget(&taken);
        plan.refusals.extend(done.refusals);
        Ok(Some(plan.refusals))
    }
}

impl Service for Provider {
    fn domain_filter(&self) -> Box<str> {
        self.settings.policy.filter.to_json()
    }

    fn records(&self, deadline: Deadline) -> Result<Vec<Endpoint>, Failure> {
        let resolved = self.resolved()?;
        let snapshot = self.read(&resolved, deadline)?;
        self.journal().begin_turn();
        if !self.was_asked.swap(false, Ordering::Relaxed) {
            self.count_refusals([].iter());
            self.journal().forget(Speaker::Apply);
            self.journal().forget(Speaker::DryRun);
        }
        let shown = records::records(&snapshot, &resolved.settings);
        self.warn_of_news(Speaker::Records, shown.notes.iter().map(ToString::to_string));
        let silent: Vec<String> =
            self.silence().shown(&shown.endpoints).map(|note| note.to_string()).collect();
        self.warn_of_news(Speaker::Silence, silent);
        Ok(shown.endpoints)
    }

    fn adjust_endpoints(
        &self,
        wanted: &mut Incoming<'_>,
        deadline: Deadline,
    ) -> Result<Vec<Endpoint>, Failure> {
        let resolved = self.resolved()?;
        let settings = &resolved.settings;
        let is_late = || deadline.remaining(&*self.clock) < limits::ADJUST_RESERVE;
        let mut adjuster = Adjuster::new(settings);
        let mut shown = Shown::default();
        let mut unnamed = 0;
        while let Some(Arrived { list: _, endpoint, is_whole }) = wanted.next_endpoint()? {
            let added = match is_whole {
                true if is_late() && endpoint.is_address() => adjuster.add_late(&endpoint),
                true => adjuster.add(&endpoint),
                false => adjuster.add_too_long(&endpoint),
            };
            let mut bytes: usize = added.iter().map(Endpoint::memory_bytes).sum();
            if added.is_empty() && !adjust::opts_out(&endpoint) {
                unnamed += 1;
                debug_unnamed(&endpoint);
            }
            if endpoint.is_address() {
                bytes += shown.note(&endpoint, &self.adjusted_before().merged);
            }
            wanted.keep(bytes)?;
        }
        let (absent, merges) = self.adjusted_before().merged.complete(shown, settings, self.clock.now());
        for endpoint in &absent {
            adjuster.add(endpoint);
        }
        let mut adjusted = adjuster.finish();
        self.report_unnamed(unnamed);
        // Without it nobody here knows who has what, and ExternalDNS goes by the labels that it remembers.
        if let Some(snapshot) = self.last_snapshot() {
            let mut before = self.adjusted_before();
            let known = Known { snapshot: &snapshot, holders: &before.holders, merges: &merges };
            let (holders, notes) = rivals::settle(&mut adjusted.endpoints, known, settings);
            before.holders = holders;
            adjusted.has_more_notes |= notes.len() > limits::NOTES_MAX;
            adjusted.notes.extend(notes);
        }
        let more = adjusted.has_more_notes.then(|| {
            format!(
                "there are more notes about endpoints than these {}: mend what these name",
                limits::NOTES_MAX
            )
        });
        let notes = adjusted.notes.iter().map(ToString::to_string);
        self.warn_of_news(Speaker::Adjust, notes.chain(more));
        // What is not published yet ExternalDNS has to ask for.
        if let Some(snapshot) = self.recent_snapshot() {
            self.silence().returned(&adjusted.endpoints, |hostname| {
                settings.policy.filter.matches(hostname) && !snapshot.holds(hostname, settings)
            });
        }
        Ok(adjusted.endpoints)
    }

    fn apply_changes(&self, incoming: &mut Incoming<'_>, deadline: Deadline) -> Result<(), Failure> {
        let resolved = self.resolved()?;
        let changes = self.changes(incoming, &resolved.settings)?;
        self.was_asked.store(true, Ordering::Relaxed);
        for endpoint in changes.create.iter().chain(&changes.update_new).chain(&changes.delete) {
            self.silence().asked_for(&endpoint.dns_name);
        }
        let mut unpublished = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = self.recent_snapshot();
        if let Some(snapshot) =
            recent.filter(|snapshot| unpublished.taken(snapshot, &resolved.settings).is_empty())
        {
            let plan = self.plan(&changes, &snapshot, &resolved.settings)?;
            if plan.is_empty() {
                return self.conclude(&plan, &Done::default());
            }
        }
        let mut attempt = 1;
        loop {
            let mut snapshot = self.read(&resolved, deadline)?;
            let mut refusals = Vec::new();
            if let Some(refused) = self.disown(&resolved, &snapshot, &mut unpublished, deadline)? {
                refusals = refused;
                snapshot = self.read(&resolved, deadline)?;
            }
            let mut plan = self.plan(&changes, &snapshot, &resolved.settings)?;
            // What a stamp of ours goes on naming is still somebody else's.
            let taken = unpublished.taken(&snapshot, &resolved.settings);
            plan.hosts.retain(|host| !taken.contains_key(&host.hostname));
            plan.refusals.append(&mut refusals);
            if plan.is_empty() || self.settings.dry_run {
                return self.conclude(&plan, &Done::default());
            }
            let (done, outcome) = self.execute(&resolved, &plan, &snapshot, &mut unpublished, deadline);
            self.journal().keep_doubts(&done);
            match outcome {
                Ok(()) => {
                    self.journal().remember(&plan, &done, &snapshot, self.clock.now());
                    // The records that stand in are led over by their ids, which the next read shows.
                    let is_led_by_copy =
                        |host: &HostPlan| host.stands_in && !done.dropped.contains(&host.hostname);
                    if plan.hosts.iter().any(is_led_by_copy) && attempt < limits::APPLY_ATTEMPTS_MAX {
                        self.report(&plan, &done);
                        attempt += 1;
                        continue;
                    }
                    let answer = self.conclude(&plan, &done);
                    if done.met_foreign {
                        let snapshot = self.read(&resolved, deadline)?;
                        self.disown(&resolved, &snapshot, &mut unpublished, deadline)?;
                    }
                    return answer;
                }
                Err(Stop::Uncertain(error)) if attempt < limits::APPLY_ATTEMPTS_MAX => {
                    info!("a write may or may not have been done ({error}); it is read again");
                    attempt += 1;
                }
                Err(stop) => {
                    self.report(&plan, &done);
                    return Err(stop_failure(&stop));
                }
            }
        }
    }

    fn property_values_equal(&self, _name: &str, previous: &str, current: &str) -> bool {
        // What adjust returned is canonical, so equal is what is the same.
        previous == current
    }
}

/// What an endpoint takes until it is planned and carried out.
fn planned_bytes(endpoint: &Endpoint) -> usize {
    /// A hostname's part of a plan, and of what is sent for it.
    const HOSTNAME: usize = 2 * 1024;
    /// That of a TXT record, or of what is refused.
    const OTHER: usize = 256;

    let is_planned = endpoint.is_address() && endpoint.property(INVALID).is_none();
    endpoint.memory_bytes() + if is_planned { HOSTNAME } else { OTHER }
}

fn debug_unnamed(endpoint: &Endpoint) {
    if log_enabled!(Level::Debug) {
        let resource = rivals::resource_of(endpoint);
        let Endpoint { dns_name, record_type, .. } = endpoint;
        debug!(
            "hostname={dns_name:?} resource={resource:?} type={record_type} names no service and is not published"
        );
    }
}

fn read_failure(error: &ReadError) -> Failure {
    match error {
        ReadError::Cloudflare(error) => cloudflare_failure("reading from Cloudflare", error),
        ReadError::Document(tunnel, error) => {
            let text = format!("the configuration of tunnel {tunnel} cannot be read: {error}");
            warn!("{text}");
            Failure::internal(text)
        }
    }
}

fn stop_failure(stop: &Stop) -> Failure {
    match stop {
        Stop::Uncertain(error) | Stop::Failed(error) => cloudflare_failure("writing to Cloudflare", error),
        Stop::OutOfTime => {
            info!("what is left does not fit into this request's time; the next loop goes on");
            Failure::unavailable("out of time; the next loop goes on where this one ended")
        }
    }
}

/// The one place that turns an error of the client into an answer for ExternalDNS. Every one is soft there: it tries
/// again in its next loop.
fn cloudflare_failure(doing: &str, error: &Error) -> Failure {
    let text = format!("{doing} failed: {error}");
    warn!("{text}");
    if error.is_retryable() { Failure::unavailable(text) } else { Failure::internal(text) }
}
