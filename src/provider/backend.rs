//! Reads a snapshot: the zones within the filters, the tunnels' configurations, which other tunnels exist, and Access
//! if something depends on it; a few calls at a time in parallel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Configuration, Error};
use crate::collections::collect;
use crate::ingress::Document;
use crate::locks::lock;
use crate::model::{AccountId, TunnelId, Zone, ZoneId};
use crate::provider::memory::{AccessMemory, Newest};
use crate::provider::parallel::try_in_parallel;
use crate::reconcile::snapshot::{Reading, Snapshot, TunnelSnapshot, ZoneSnapshot};
use crate::reconcile::stamp::Stamp;
use crate::reconcile::{ConfiguredTunnel, OperatorSettings, Settings};

/// A list of zones, and a look at an unconfigured tunnel, are repeated after this time: one call in ten minutes costs
/// next to nothing.
const LOOKUP_MAX_AGE: Duration = Duration::from_secs(600);

/// The provider's settings. Names of tunnels are not yet resolved to ids.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// The settings that decisions depend on.
    pub operator: OperatorSettings,
    /// `CF_ACCOUNT_ID`; if `None`, the account that all zones share.
    pub account: Option<AccountId>,
    /// `CF_TUNNEL_ID`: ids or names of tunnels, the default first.
    pub tunnels: Vec<Box<str>>,
    /// `ZONE_ID_FILTER`: if not empty, only these zones are read.
    pub zone_ids: Vec<ZoneId>,
    /// `DRY_RUN`: nothing is written.
    pub dry_run: bool,
    /// `ALLOW_LOCAL_CONFIG`: tunnels with a configuration file of their own may be written.
    pub allow_local_config: bool,
    /// The number of parallel calls. With 1, the order of the calls is always the same.
    pub parallel_calls: usize,
}

/// The reason why a snapshot could not be read. A configuration in a form that cloudflared does not know is
/// `Error::Unreadable`.
#[derive(Debug)]
pub(crate) struct ReadError {
    /// The part that could not be read, such as `the records of zone example.com`.
    pub(super) what: String,
    pub(super) error: Error,
}

impl ProviderSettings {
    /// True if the zone is read: `zone_ids` is empty or has the zone, and the filter may match a name in the zone.
    pub(crate) fn includes_zone(&self, zone: &Zone) -> bool {
        let is_listed = self.zone_ids.is_empty() || self.zone_ids.contains(&zone.id);
        is_listed && self.operator.filter.may_serve_zone(&zone.name)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "reading {} failed: {}", self.what, self.error)
    }
}

/// An answer of Cloudflare to a read.
pub(super) struct Answer<T> {
    pub(super) content: T,
    /// What shows that the answer is old, if it is: a sentence.
    pub(super) old: Option<String>,
}

/// Cloudflare, as this process reads it: the client, and what earlier answers showed of zones, Access, the newest state
/// of tunnels and records, and unconfigured tunnels.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(super) client: Client,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) provider_settings: ProviderSettings,
    /// The list of zones, and the time at which it was read.
    zones: Mutex<Option<(Arc<[Zone]>, Instant)>>,
    pub(super) access: AccessMemory,
    newest: Mutex<Newest>,
    /// Whether tunnels that are not configured exist, and the time at which each was looked up. Several clusters with
    /// the default `OWNER_ID` see each other's records in each reading, and share the calls of an account.
    unconfigured: Mutex<BTreeMap<TunnelId, (bool, Instant)>>,
}

impl Backend {
    pub(crate) fn new(client: Client, clock: Arc<dyn Clock>, provider_settings: ProviderSettings) -> Self {
        Self {
            client,
            clock,
            provider_settings,
            zones: Mutex::default(),
            access: AccessMemory::default(),
            newest: Mutex::default(),
            unconfigured: Mutex::default(),
        }
    }

    /// Every zone that the token sees. An old list is read again, because a new zone may own a name of a known zone.
    pub(super) fn zones(&self, deadline: Deadline) -> Result<Arc<[Zone]>, Error> {
        // The lock is not held during the call, because waiting for a lock has no deadline.
        let known = lock(&self.zones).clone();
        if let Some((zones, read_at)) = known
            && self.clock.now().saturating_duration_since(read_at) < LOOKUP_MAX_AGE
        {
            return Ok(zones);
        }
        let zones: Arc<[Zone]> = self.client.zones(deadline)?.into();
        *lock(&self.zones) = Some((Arc::clone(&zones), self.clock.now()));
        Ok(zones)
    }

    /// The newest state of tunnels and records that was read or written.
    pub(super) fn newest(&self) -> MutexGuard<'_, Newest> {
        lock(&self.newest)
    }

    /// Forgets the list of zones, so that the next use reads the list again.
    pub(super) fn forget_zones(&self) {
        *lock(&self.zones) = None;
    }

    /// Reads everything that a decision needs, with Access if it is asked for (`with_access`) or needed anyway.
    pub(crate) fn snapshot(
        &self,
        account: &AccountId,
        settings: &Arc<Settings>,
        with_access: bool,
        deadline: Deadline,
    ) -> Result<Snapshot, ReadError> {
        let all = self.zones(deadline);
        let all = all.map_err(|error| ReadError { what: "the list of zones".to_owned(), error })?;
        let (served, excluded): (Vec<&Zone>, Vec<&Zone>) = all
            .iter()
            .partition(|zone| zone.belongs_to(account) && self.provider_settings.includes_zone(zone));
        let tunnels = settings.tunnels().iter().map(SnapshotPart::Tunnel);
        let parts: Vec<SnapshotPart<'_>> =
            served.iter().copied().map(SnapshotPart::Zone).chain(tunnels).collect();
        let read = |part: &SnapshotPart<'_>| {
            let answer = match part {
                SnapshotPart::Zone(zone) => self.zone(zone, deadline),
                SnapshotPart::Tunnel(tunnel) => self.tunnel(tunnel, account, deadline),
            };
            answer.map_err(|error| ReadError { what: part.to_string(), error })
        };
        let answers = try_in_parallel(self.provider_settings.parallel_calls, &parts, read);
        let answers = answers.inspect_err(|ReadError { error, .. }| {
            // A zone may have left the account.
            if matches!(error, Error::NotFound(_) | Error::Credentials(_)) {
                self.forget_zones();
            }
        })?;
        let mut reading = Reading {
            excluded_zones: excluded.into_iter().cloned().collect(),
            ..Reading::new(Arc::clone(settings))
        };
        for (part, Answer { content, old }) in parts.iter().zip(answers) {
            match content {
                Content::Zone(zone) => reading.zones.push(zone),
                Content::Tunnel(tunnel) => reading.tunnels.extend(tunnel),
            }
            reading.old_answers.extend(old.map(|text| (part.id().into(), text.into())));
        }
        reading.unconfigured_tunnels = self.unconfigured_tunnels(account, &reading, deadline)?;
        if with_access || self.needs_access(&reading) {
            let guarded = if settings.operator.access_guard { served } else { Vec::new() };
            reading.access = self.read_access(account, &guarded, deadline);
        }
        reading.date_unix_seconds = self.client.date_unix_seconds();
        Ok(Snapshot::new(reading))
    }

    /// True if a setting needs Access, if a comment of ours has the mark of Access, or if the account had applications
    /// of ours.
    fn needs_access(&self, reading: &Reading) -> bool {
        reading.settings.operator.needs_access()
            || self.access.has_ours.load(Ordering::Relaxed)
            || reading.has_protection_claim()
    }

    fn zone(&self, zone: &Zone, deadline: Deadline) -> Result<Answer<Content>, Error> {
        read_newest(&SnapshotPart::Zone(zone), || {
            let records = self.client.records(&zone.id, deadline)?;
            let evidence = self.newest().evidence_of_old_list(&records, self.clock.now());
            Ok((Content::Zone(ZoneSnapshot::new(zone.clone(), records)), evidence))
        })
    }

    fn tunnel(
        &self,
        ConfiguredTunnel { id, is_locally_managed, .. }: &ConfiguredTunnel,
        account: &AccountId,
        deadline: Deadline,
    ) -> Result<Answer<Content>, Error> {
        let answer = self.configuration(account, id, deadline);
        if matches!(answer, Err(Error::NotFound(_))) && !self.client.has_tunnel(account, id, deadline)? {
            return Ok(Answer { content: Content::Tunnel(None), old: None });
        }
        let Answer { content: (document, configuration), old } = answer?;
        let is_locally_managed = configuration.is_locally_managed.unwrap_or(*is_locally_managed);
        let writable = self.provider_settings.allow_local_config || !is_locally_managed;
        let tunnel = TunnelSnapshot { document, writable, version: configuration.version };
        Ok(Answer { content: Content::Tunnel(Some((id.clone(), tunnel))), old })
    }

    /// Reads a tunnel's configuration, and parses its document. The configuration of a tunnel that does not exist yet
    /// (`DRY_RUN`) is empty.
    pub(super) fn configuration(
        &self,
        account: &AccountId,
        tunnel: &TunnelId,
        deadline: Deadline,
    ) -> Result<Answer<(Document, Configuration)>, Error> {
        read_newest(&format_args!("the configuration of tunnel {tunnel}"), || {
            let configuration = match tunnel.is_placeholder() {
                true => Configuration::never_configured(),
                false => self.client.configuration(account, tunnel, deadline)?,
            };
            let document = Document::parse(configuration.config.as_deref())
                .map_err(|problem| Error::Unreadable(problem.into()))?;
            let now = self.clock.now();
            let evidence = self.newest().see_configuration(tunnel, &configuration, &document, now);
            Ok(((document, configuration), evidence))
        })
    }

    /// The existing tunnels that are not configured, but that records with a stamp of our owner point to. Each answer
    /// is remembered for ten minutes.
    fn unconfigured_tunnels(
        &self,
        account: &AccountId,
        reading: &Reading,
        deadline: Deadline,
    ) -> Result<BTreeSet<TunnelId>, ReadError> {
        let records = reading.zones.iter().flat_map(ZoneSnapshot::records);
        let candidates = records.filter_map(|record| {
            let tunnel = record.tunnel()?;
            let is_elsewhere = !reading.settings.is_configured(&tunnel);
            (is_elsewhere && Stamp::of(record)?.owner == self.provider_settings.operator.owner)
                .then_some(tunnel)
        });
        let candidates = Vec::from_iter(collect::<BTreeSet<TunnelId>, _>(candidates));
        let now = self.clock.now();
        let is_young = |asked_at: Instant| now.saturating_duration_since(asked_at) < LOOKUP_MAX_AGE;
        lock(&self.unconfigured).retain(|_, (_, asked_at)| is_young(*asked_at));
        let exist = try_in_parallel(self.provider_settings.parallel_calls, &candidates, |tunnel| {
            let known = lock(&self.unconfigured).get(tunnel).copied();
            if let Some((exists, _)) = known {
                return Ok(exists);
            }
            let exists = match self.client.has_tunnel(account, tunnel, deadline) {
                Ok(exists) => exists,
                // An error does not prove that the tunnel was deleted.
                Err(Error::NotFound(_) | Error::Rejected(_) | Error::Credentials(_)) => true,
                Err(error) => return Err(ReadError { what: format!("tunnel {tunnel}"), error }),
            };
            lock(&self.unconfigured).insert(tunnel.clone(), (exists, now));
            Ok(exists)
        })?;
        let answered = candidates.into_iter().zip(exist);
        Ok(collect(answered.filter_map(|(tunnel, exists)| exists.then_some(tunnel))))
    }
}

/// A part of a snapshot, read in parallel with the other parts.
enum SnapshotPart<'a> {
    Zone(&'a Zone),
    Tunnel(&'a ConfiguredTunnel),
}

impl SnapshotPart<'_> {
    fn id(&self) -> &str {
        match self {
            Self::Zone(zone) => zone.id.as_str(),
            Self::Tunnel(tunnel) => tunnel.id.as_str(),
        }
    }
}

impl fmt::Display for SnapshotPart<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zone(zone) => write!(formatter, "the records of zone {}", zone.name),
            Self::Tunnel(tunnel) => write!(formatter, "the configuration of tunnel {}", tunnel.id),
        }
    }
}

/// The content that was read for a part.
enum Content {
    Zone(ZoneSnapshot),
    /// `None` if the tunnel was deleted.
    Tunnel(Option<(TunnelId, TunnelSnapshot)>),
}

/// Reads `what`, and once more after an old answer: another server of Cloudflare may have a newer state. `read` returns
/// the content, and the evidence if the answer is old.
fn read_newest<T>(
    what: &dyn fmt::Display,
    read: impl Fn() -> Result<(T, Option<String>), Error>,
) -> Result<Answer<T>, Error> {
    let (mut content, mut evidence) = read()?;
    if evidence.is_some() {
        // Memory would otherwise hold both answers.
        drop(content);
        (content, evidence) = read()?;
    }
    let old = evidence.map(|evidence| format!("the answer about {what} is outdated: {evidence}"));
    Ok(Answer { content, old })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    /// Two pages of the list of zones come first, a tunnel is among the reads, and a step's time is left over.
    #[test]
    fn a_hundred_zones_at_900_ms_a_page_are_read_within_the_default_deadline() {
        let page = Duration::from_millis(900);
        let rounds = u32::try_from((100_usize + 1).div_ceil(limits::PARALLEL_CALLS)).unwrap();
        let list = 100_u32.div_ceil(limits::ZONES_PER_PAGE);
        assert!(page * (list + rounds) + limits::WRITE_TIME_MIN <= limits::REQUEST_TIMEOUT_DEFAULT);
    }
}
