//! Reads a snapshot: the zones within the filter, a few at a time in parallel, and the tunnels' configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Configuration, Error};
use crate::ingress::Document;
use crate::lean::inserted;
use crate::locks::lock;
use crate::logging;
use crate::model::{AccountId, LogLine, TunnelId, Zone};
use crate::provider::access::reader::AccessMemory;
use crate::provider::memory::Newest;
use crate::provider::settings::ProviderSettings;
use crate::reconcile::snapshot::{Snapshot, TunnelSnapshot, ZoneSnapshot};
use crate::reconcile::stamp::Stamp;
use crate::reconcile::{ConfiguredTunnel, Settings};

/// A list of zones older than this is read again: one call in ten minutes costs next to nothing.
const ZONE_LIST_MAX_AGE: Duration = Duration::from_secs(600);

/// The stack of a reading thread, on which a TLS handshake runs. Only the pages that are touched become resident.
const READ_STACK_BYTES: usize = 1024 * 1024;

/// The reason why a snapshot could not be read. A configuration that does not have the form that cloudflared knows is an
/// answer that cannot be read.
#[derive(Debug)]
pub(crate) struct ReadError {
    /// What Cloudflare does not show.
    pub(super) what: String,
    pub(super) error: Error,
}

impl fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "reading {} failed: {}", self.what, self.error)
    }
}

/// Reads, and remembers the list of zones, whether foreign tunnels were deleted, and the newest of each answer and write.
#[derive(Debug)]
pub(crate) struct SnapshotReader {
    pub(super) client: Arc<Client>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: ProviderSettings,
    /// The list of zones, and the time at which it was read.
    zones: Mutex<Option<(Arc<[Zone]>, Instant)>>,
    /// What was read and written of Access.
    pub(super) access: AccessMemory,
    newest: Mutex<Newest>,
    foreign_tunnels: Mutex<BTreeMap<TunnelId, (Option<bool>, Instant)>>,
}

impl SnapshotReader {
    pub(crate) fn new(client: Arc<Client>, clock: Arc<dyn Clock>, settings: ProviderSettings) -> Self {
        Self {
            client,
            clock,
            settings,
            zones: Mutex::default(),
            access: AccessMemory::default(),
            newest: Mutex::default(),
            foreign_tunnels: Mutex::default(),
        }
    }

    /// Every zone that the token sees. An old list is read again, because a new zone may hold a name or a part of a
    /// known zone.
    pub(super) fn zones(&self, deadline: Deadline) -> Result<Arc<[Zone]>, Error> {
        // The lock is not held during the call, because waiting for a lock has no deadline.
        let known = lock(&self.zones).clone();
        if let Some((zones, read_at)) = known
            && self.clock.now().saturating_duration_since(read_at) < ZONE_LIST_MAX_AGE
        {
            return Ok(zones);
        }
        let zones: Arc<[Zone]> = self.client.zones(deadline)?.into();
        logging::debug(module_path!(), || {
            LogLine::default().word("zones", &zones.len()).text("the zones are read")
        });
        *lock(&self.zones) = Some((Arc::clone(&zones), self.clock.now()));
        Ok(zones)
    }

    /// What was seen and written of tunnels and records.
    pub(super) fn newest(&self) -> MutexGuard<'_, Newest> {
        lock(&self.newest)
    }

    /// Makes the next use read the list of zones again.
    pub(super) fn doubt_zones(&self) {
        *lock(&self.zones) = None;
    }

    /// Reads everything that a decision needs. Access is read where something depends on it: what is `wished`, a setting, a
    /// comment, or an application that was there.
    pub(crate) fn snapshot(
        &self,
        account: &AccountId,
        settings: &Arc<Settings>,
        is_access_wished: bool,
        deadline: Deadline,
    ) -> Result<Snapshot, ReadError> {
        let zones = self.zones(deadline).map_err(failed("the list of zones".to_owned()))?;
        let (served, others): (Vec<&Zone>, Vec<&Zone>) =
            zones.iter().partition(|zone| is_of_account(zone, account) && self.settings.takes(zone));
        let zones = served.iter().map(|zone| Part::Zone(zone));
        let parts: Vec<Part<'_>> = zones.chain(settings.tunnels().iter().map(Part::Tunnel)).collect();
        let parts = try_in_parallel(self.settings.parallel_reads, &parts, |part| {
            let read = || match part {
                Part::Zone(zone) => self.zone(zone, settings, deadline),
                Part::Tunnel(tunnel) => self.tunnel(tunnel, account, settings, deadline),
            };
            // Another server of Cloudflare may know better. Memory does not hold both answers.
            Some(read()?).filter(|part| part.old.is_empty()).map_or_else(read, Ok)
        });
        let parts = parts.inspect_err(|ReadError { error, .. }| {
            // A zone may have left the account.
            if matches!(error, Error::NotFound(_) | Error::Credentials(_)) {
                self.doubt_zones();
            }
        })?;
        let mut snapshot = Snapshot {
            zones_elsewhere: others.into_iter().map(|zone| zone.name.clone()).collect(),
            ..Snapshot::new(Arc::clone(settings))
        };
        for Snapshot { zones, tunnels, old, .. } in parts {
            snapshot.zones.extend(zones);
            snapshot.tunnels.extend(tunnels);
            snapshot.old.extend(old);
        }
        snapshot.live_elsewhere = self.live_elsewhere(account, &snapshot, deadline)?;
        let (policy, had_ours) = (&settings.policy, self.access.has_ours.load(Ordering::Relaxed));
        if is_access_wished || had_ours || policy.needs_access() || snapshot.is_marked() {
            let zones = if policy.access_guard { served } else { Vec::new() };
            snapshot.access = self.read_access(account, &zones, deadline);
        }
        snapshot.date_unix_seconds = self.client.date_unix_seconds();
        Ok(snapshot)
    }

    fn zone(&self, zone: &Zone, settings: &Arc<Settings>, deadline: Deadline) -> Result<Snapshot, ReadError> {
        let what = format!("the records of zone {}", zone.name);
        let records = self.client.records(&zone.id, deadline).map_err(failed(what.clone()))?;
        let old = self.newest().look_at(&records, self.clock.now()).err();
        Ok(Snapshot {
            zones: vec![ZoneSnapshot::new(zone.clone(), records)],
            old: old_answer(zone.id.as_str(), &what, old),
            ..Snapshot::new(Arc::clone(settings))
        })
    }

    fn tunnel(
        &self,
        ConfiguredTunnel { id, is_local, .. }: &ConfiguredTunnel,
        account: &AccountId,
        settings: &Arc<Settings>,
        deadline: Deadline,
    ) -> Result<Snapshot, ReadError> {
        let what = format!("the configuration of tunnel {id}");
        let failed = failed(what.clone());
        let (document, configuration, seen) = match self.configuration(account, id, deadline) {
            Err(error @ Error::NotFound(_)) => {
                let found = self.client.tunnel(account, id, deadline).map_err(&failed)?;
                let is_gone = found.is_none_or(|found| found.deleted);
                return if is_gone { Ok(Snapshot::new(Arc::clone(settings))) } else { Err(failed(error)) };
            }
            read => read.map_err(&failed)?,
        };
        let writable = self.settings.allow_local_config || !configuration.is_local.unwrap_or(*is_local);
        let tunnel = TunnelSnapshot::new(document, writable, configuration.version);
        Ok(Snapshot {
            tunnels: [(id.clone(), tunnel)].into(),
            old: old_answer(id.as_str(), &what, seen.err()),
            ..Snapshot::new(Arc::clone(settings))
        })
    }

    /// Reads a tunnel's configuration. The third value is the evidence that the answer is old. Otherwise it is true if
    /// the answer proves that the tunnel has no other rule.
    pub(super) fn configuration(
        &self,
        account: &AccountId,
        tunnel: &TunnelId,
        deadline: Deadline,
    ) -> Result<(Document, Configuration, Result<bool, String>), Error> {
        let configuration = match tunnel.is_unmade() {
            true => Configuration::default(),
            false => self.client.configuration(account, tunnel, deadline)?,
        };
        let document = Document::parse(configuration.config.as_deref())
            .map_err(|problem| Error::Unreadable(problem.into()))?;
        let seen = self.newest().see(tunnel, &configuration, Some(&document), self.clock.now());
        Ok((document, configuration, seen))
    }

    /// The existing tunnels among those that are not configured, but that records with our owner's stamp lead to.
    fn live_elsewhere(
        &self,
        account: &AccountId,
        snapshot: &Snapshot,
        deadline: Deadline,
    ) -> Result<BTreeSet<TunnelId>, ReadError> {
        let records = snapshot.zones.iter().flat_map(ZoneSnapshot::records);
        let candidates: BTreeSet<TunnelId> = inserted(
            records
                .filter_map(|record| Some((record, TunnelId::from_hostname(&record.content)?)))
                .filter(|(_, tunnel)| !snapshot.settings.is_configured(tunnel))
                .filter(|(record, _)| {
                    Stamp::of(record).is_some_and(|stamp| stamp.owner == self.settings.policy.owner)
                })
                .map(|(_, tunnel)| tunnel),
        );
        let mut live = BTreeSet::new();
        for tunnel in candidates {
            let was_deleted = self.was_deleted(account, &tunnel, deadline);
            if was_deleted.map_err(failed(format!("tunnel {tunnel}")))? == Some(false) {
                live.insert(tunnel);
            }
        }
        Ok(live)
    }

    /// Whether a tunnel that is not configured was deleted; `None` if the account never had it. An answer is kept for ten
    /// minutes.
    pub(super) fn was_deleted(
        &self,
        account: &AccountId,
        tunnel: &TunnelId,
        deadline: Deadline,
    ) -> Result<Option<bool>, Error> {
        let now = self.clock.now();
        let mut known = lock(&self.foreign_tunnels);
        known.retain(|_, (_, asked_at)| now.saturating_duration_since(*asked_at) < ZONE_LIST_MAX_AGE);
        if let Some((answer, _)) = known.get(tunnel) {
            return Ok(*answer);
        }
        drop(known);
        let answer = match self.client.tunnel(account, tunnel, deadline) {
            Ok(found) => found.map(|found| found.deleted),
            // An error is no proof of deletion, so the tunnel counts as present and stays with its owner.
            Err(Error::NotFound(_) | Error::Refused(_) | Error::Credentials(_)) => Some(false),
            Err(error) => return Err(error),
        };
        lock(&self.foreign_tunnels).insert(tunnel.clone(), (answer, now));
        Ok(answer)
    }
}

/// True if a record in the zone can lead to a tunnel of `account`: Cloudflare answers visitors with error 1014
/// otherwise. The tunnels of another account cannot be looked up either, so a record that leads to one would look
/// abandoned.
pub(crate) fn is_of_account(zone: &Zone, account: &AccountId) -> bool {
    zone.account == *account || zone.account.as_str().is_empty()
}

/// What is read by one call.
enum Part<'a> {
    Zone(&'a Zone),
    Tunnel(&'a ConfiguredTunnel),
}

fn failed(what: String) -> impl Fn(Error) -> ReadError {
    move |error| ReadError { what: what.clone(), error }
}

/// What shows that the answer about a zone or a tunnel is old, by its id.
fn old_answer(id: &str, what: &str, problem: Option<String>) -> BTreeMap<Box<str>, Box<str>> {
    inserted(problem.map(|problem| (id.into(), format!("{what} cannot be read: {problem}").into())))
}

/// Runs the tasks, at most `parallel_reads` at a time, and returns their answers in the order of the tasks.
pub(super) fn in_parallel<T: Sync, A: Send>(
    parallel_reads: usize,
    tasks: &[T],
    run: impl Fn(&T) -> A + Sync,
) -> Vec<A> {
    let Ok(answers) = try_in_parallel(parallel_reads, tasks, |task| Ok::<A, Infallible>(run(task)));
    answers
}

/// The same, or the first error. After an error no new task is begun.
fn try_in_parallel<T: Sync, A: Send, E: Send>(
    parallel_reads: usize,
    tasks: &[T],
    run: impl Fn(&T) -> Result<A, E> + Sync,
) -> Result<Vec<A>, E> {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let answers: Mutex<Vec<(usize, Result<A, E>)>> = Mutex::default();
    let work = || {
        while !is_over.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(index) else { return };
            let answer = run(task);
            is_over.fetch_or(answer.is_err(), Ordering::Relaxed);
            lock(&answers).push((index, answer));
        }
    };
    on_threads(parallel_reads.min(tasks.len()), &work);
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_unstable_by_key(|(one, _)| *one);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Does the work on so many threads. It is compiled once for all tasks.
fn on_threads(threads: usize, work: &(dyn Fn() + Sync)) {
    thread::scope(|scope| {
        for _ in 1..threads {
            let thread = thread::Builder::new().name("read".to_owned()).stack_size(READ_STACK_BYTES);
            // Without the thread, reading only takes longer.
            if let Err(error) = thread.spawn_scoped(scope, work) {
                logging::debug(module_path!(), || {
                    LogLine::default().text(format!("cannot start a thread: {error}"))
                });
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;
    use std::time::Duration;

    use super::*;
    use crate::limits;

    /// A server that answers a call only when enough calls are waiting.
    #[test]
    fn as_many_reads_are_under_way_at_once_as_the_limit_says_and_answers_keep_their_order() {
        let (waiting, arrived) = (Mutex::new(0_usize), Condvar::new());
        let tasks: Vec<usize> = (0..2 * limits::PARALLEL_READS).collect();
        let answers = try_in_parallel(limits::PARALLEL_READS, &tasks, |task| {
            let mut count = waiting.lock().unwrap();
            *count += 1;
            arrived.notify_all();
            let enough = (*count).div_ceil(limits::PARALLEL_READS) * limits::PARALLEL_READS;
            let (count, timeout) =
                arrived.wait_timeout_while(count, Duration::from_secs(60), |count| *count < enough).unwrap();
            drop(count);
            assert!(!timeout.timed_out(), "the others never came");
            Ok::<_, Error>(*task)
        });
        assert_eq!(answers.unwrap(), tasks);
    }

    #[test]
    fn after_an_error_no_further_read_is_begun_and_nothing_of_the_others_is_answered() {
        let tasks: Vec<usize> = (0..100).collect();
        let begun = AtomicUsize::new(0);
        let answers = try_in_parallel(limits::PARALLEL_READS, &tasks, |_| {
            begun.fetch_add(1, Ordering::SeqCst);
            Err::<(), _>(Error::OutOfTime)
        });
        assert!(answers.is_err());
        assert!(begun.into_inner() <= limits::PARALLEL_READS);
    }

    /// Two pages of the list of zones come first, a tunnel is among the reads, and a step's time is left over.
    #[test]
    fn a_hundred_zones_at_900_ms_a_page_are_read_within_the_default_deadline() {
        let page = Duration::from_millis(900);
        let rounds = u32::try_from((100_usize + 1).div_ceil(limits::PARALLEL_READS)).unwrap();
        let list = 100_u32.div_ceil(limits::ZONES_PER_PAGE);
        assert!(page * (list + rounds) + limits::STEP_MINIMUM <= limits::REQUEST_TIMEOUT_DEFAULT);
    }
}
