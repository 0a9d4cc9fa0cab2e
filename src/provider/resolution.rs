//! What has to be known before the first request can be answered: a token that works, the account, and the id of
//! every configured tunnel. Start-up never waits for it; a thread of its own tries until it succeeds.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use log::{debug, info, warn};

use crate::clock::Deadline;
use crate::cloudflare::{ConfigSource, Error, MAKE_TOKEN, Tunnel};
use crate::limits;

use crate::model::text::quoted;
use crate::model::{AccountId, Zone, ZoneId};
use crate::ordered::inserted;
use crate::provider::reader::{is_in_scope, is_of_account};
use crate::provider::{Provider, Resolved, read_failure};
use crate::reconcile::adopt::Adopt;
use crate::reconcile::listing::{Entry, listing};
use crate::reconcile::namespace::NamespaceGuard;
use crate::reconcile::{ConfiguredTunnel, Ownership, Policy, Settings};

/// What is configured, in names that Cloudflare has to resolve.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// What decisions depend on.
    pub policy: Policy,
    /// `CF_ACCOUNT_ID`; `None` takes the account that all zones share.
    pub account: Option<AccountId>,
    /// `CF_TUNNEL_ID`: ids or names of tunnels, the default first.
    pub tunnels: Vec<Box<str>>,
    /// `ZONE_ID_FILTER`: where not empty, only these zones are read.
    pub zone_ids: Vec<ZoneId>,
    /// `MOVE_GRACE`.
    pub move_grace: Duration,
    /// `DRY_RUN`: nothing is written.
    pub dry_run: bool,
    /// `ALLOW_LOCAL_CONFIG`: tunnels with a configuration file of their own may be written.
    pub allow_local_config: bool,
}

impl ProviderSettings {
    /// Whether the zone is read.
    pub(crate) fn takes(&self, zone: &Zone) -> bool {
        is_in_scope(zone, &self.zone_ids, &self.policy.filter)
    }
}

/// Why the start is not complete.
#[derive(Debug)]
enum NotYet {
    Credentials(Error),
    Cloudflare(Error),
    Configuration(String),
}

impl fmt::Display for NotYet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credentials(error) | Self::Cloudflare(error) => error.fmt(formatter),
            Self::Configuration(text) => formatter.write_str(text),
        }
    }
}

impl Provider {
    /// What stands at Cloudflare within the scope, whoever's it is, as it is found now.
    ///
    /// # Errors
    ///
    /// When the token is not taken, a tunnel is not found, or something cannot be read.
    pub fn listing(&self, deadline: Deadline) -> Result<Vec<Entry>, String> {
        let Resolved { account, settings } =
            self.try_resolve(false, deadline).map_err(|problem| problem.to_string())?;
        let snapshot = self
            .reader
            .snapshot(&self.client, &account, &settings, deadline)
            .map_err(|error| read_failure(&error).to_string())?;
        Ok(listing(&snapshot, &settings))
    }

    /// Checks the token and finds the tunnels. True when nothing is left to do. It can be called again when one of them is
    /// in doubt; trouble that may pass says nothing against what was found before.
    pub fn resolve(&self, deadline: Deadline) -> bool {
        let was_ready = self.health.is_ready();
        let resolved = match self.try_resolve(was_ready, deadline) {
            Ok(resolved) => resolved,
            Err(problem) => {
                self.report_not_yet(problem);
                return false;
            }
        };
        let is_the_same = |known: Arc<Resolved>| known.settings.tunnels() == resolved.settings.tunnels();
        if !was_ready || !self.resolved().is_ok_and(is_the_same) {
            self.announce(&resolved, Deadline::after(&*self.clock, limits::ANNOUNCE_TIMEOUT));
            *self.resolved.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(resolved));
            self.forget_snapshot();
        }
        self.health.tunnels().close();
        true
    }

    /// Whether the token was taken and the tunnels were found, perhaps some time ago.
    pub fn is_resolved(&self) -> bool {
        self.resolved().is_ok()
    }

    /// Whether a request met something that [`Provider::resolve`] should look into.
    pub fn take_doubt(&self) -> bool {
        self.client.take_doubt()
    }

    /// Looks at the file of the credentials. True when other ones are in use from now on.
    pub fn look_at_credential_file(&self) -> bool {
        self.client.look_at_credential_file()
    }

    fn report_not_yet(&self, problem: NotYet) {
        let text = problem.to_string();
        let (latch, remedy) = match &problem {
            NotYet::Credentials(error) => (self.health.credentials(), remedy(error)),
            NotYet::Cloudflare(error) => (self.health.tunnels(), remedy(error)),
            NotYet::Configuration(_) => (self.health.tunnels(), CORRECT),
        };
        match problem {
            NotYet::Credentials(error) | NotYet::Cloudflare(error)
                if error.is_retryable() && self.is_resolved() =>
            {
                debug!("the token and the tunnels cannot be looked at again: {text}");
            }
            _ if latch.reopen(&text, remedy) => warn!("not ready: {text}; {remedy}"),
            _ => debug!("not ready: {text}"),
        }
    }

    fn try_resolve(&self, was_ready: bool, deadline: Deadline) -> Result<Resolved, NotYet> {
        let ProviderSettings { policy, account, tunnels, allow_local_config, .. } = &self.settings;
        self.client.verify_token(account.as_ref(), deadline).map_err(NotYet::Credentials)?;
        self.health.credentials().close();
        let account = match account {
            Some(account) => account.clone(),
            // Once it is known, a zone of another account that the token comes to see changes nothing about it.
            None => match self.resolved() {
                Ok(known) => known.account.clone(),
                Err(_) => self.account_of_zones(deadline)?,
            },
        };
        let present = self.client.tunnels(&account, deadline).map_err(NotYet::Cloudflare)?;
        let mut found = Vec::with_capacity(tunnels.len());
        for wanted in tunnels {
            let tunnel = find_tunnel(&present, wanted).map_err(|problem| {
                NotYet::Configuration(format!("CF_TUNNEL_ID: {problem} in account {account}"))
            })?;
            if tunnel.config_src == ConfigSource::Local && !allow_local_config && !was_ready {
                warn!(
                    "tunnel={} ({:?}) is configured by a file beside its cloudflared, so nothing is written to it: \
                     migrate it in the dashboard, or set ALLOW_LOCAL_CONFIG=true to take it over",
                    tunnel.id, tunnel.name
                );
            }
            let configured = ConfiguredTunnel {
                id: tunnel.id.clone(),
                name: tunnel.name.clone(),
                is_local: tunnel.config_src == ConfigSource::Local,
            };
            if !found.contains(&configured) {
                found.push(configured);
            }
        }
        let mut found = found.into_iter();
        let default =
            found.next().ok_or_else(|| NotYet::Configuration("CF_TUNNEL_ID is empty".to_owned()))?;
        let settings = Settings::new(policy.clone(), default, found.collect());
        Ok(Resolved { account, settings })
    }

    fn account_of_zones(&self, deadline: Deadline) -> Result<AccountId, NotYet> {
        let zones = self.reader.zones(&self.client, deadline).map_err(NotYet::Cloudflare)?;
        shared_account(&zones, &self.settings).map_err(|problem| {
            // The token may be mended while this waits.
            self.reader.forget_zones();
            NotYet::Configuration(problem.to_owned())
        })
    }

    /// Says what is unusual about what will be managed.
    fn announce_modes(&self, settings: &Settings) {
        let Policy { adopt, namespace_guard, default_service, .. } = &settings.policy;
        if self.settings.dry_run {
            warn!("DRY_RUN is set: what would be written is told here, and nothing is written");
        }
        if *adopt != Adopt::default() {
            info!("ADOPT is set: what stands in the way is taken over where it says so");
        }
        if let Some(NamespaceGuard { cluster_domain }) = namespace_guard {
            info!(
                "NAMESPACE_GUARD is set: services of an object's own namespace below svc.{cluster_domain} only"
            );
        }
        if default_service.is_some() {
            info!("DEFAULT_SERVICE is set: every address and CNAME of the cluster is published");
        }
        if settings.policy.mass_deletion_limit == 0 {
            warn!("MASS_DELETION_LIMIT is 0: a request may delete all hostnames at once");
        }
    }

    /// Says what will be managed, and what a loop costs against the rate limit.
    fn announce(&self, resolved: &Resolved, deadline: Deadline) {
        let Resolved { account, settings } = resolved;
        let tunnels: Vec<String> =
            settings.tunnels().iter().map(|tunnel| format!("{} ({})", tunnel.name, tunnel.id)).collect();
        let registry = match settings.policy.ownership {
            Ownership::Comment => {
                "ExternalDNS may run with --registry=noop, or with txt whose records are not stored"
            }
            Ownership::Txt => "ExternalDNS has to run with --registry=txt",
        };
        info!(
            "managing tunnels={:?} account={account} owner={:?} ownership={} filter={} {registry}",
            tunnels.join(","),
            settings.policy.owner,
            settings.policy.ownership.as_str(),
            quoted(&self.settings.policy.filter.to_json())
        );
        self.announce_modes(settings);
        match self.reader.zones(&self.client, deadline) {
            Ok(zones) => {
                let (served, others): (Vec<&Zone>, Vec<&Zone>) = zones
                    .iter()
                    .filter(|zone| self.settings.takes(zone))
                    .partition(|zone| is_of_account(zone, account));
                if !others.is_empty() {
                    warn!(
                        "zones={} are left alone: they belong to another account than the tunnels, and no record there \
                         can lead to these",
                        names(&others)
                    );
                }
                let calls = settings.tunnels().len() + served.len();
                info!(
                    "zones={} a loop without changes costs {calls} calls of the {} that Cloudflare allows in {} s",
                    names(&served),
                    limits::RATE_CALLS,
                    limits::RATE_WINDOW.as_secs()
                );
            }
            Err(error) => warn!("the zones could not be read yet: {error}"),
        }
    }
}

fn names(zones: &[&Zone]) -> String {
    zones.iter().map(|zone| &*zone.name).collect::<Vec<_>>().join(",")
}

/// The account that all zones in scope share; else what to do.
pub(crate) fn shared_account(zones: &[Zone], settings: &ProviderSettings) -> Result<AccountId, &'static str> {
    let wanted = zones.iter().filter(|zone| settings.takes(zone));
    let accounts: BTreeSet<&AccountId> = inserted(wanted.map(|zone| &zone.account));
    let mut accounts = accounts.into_iter();
    match (accounts.next(), accounts.next()) {
        (Some(account), None) => Ok(account.clone()),
        (None, _) => Err(
            "the token sees no zone within the filters: give it Zone Read and DNS Edit for the zones, or set \
             CF_ACCOUNT_ID",
        ),
        (Some(_), Some(_)) => {
            Err("the token sees zones of several accounts: set CF_ACCOUNT_ID to the one with the tunnel")
        }
    }
}

/// What an operator can do about a setting that does not fit to what is at Cloudflare.
const CORRECT: &str = "correct the setting, or what it names at Cloudflare";

/// What an operator can do about an error that keeps the start from being complete.
fn remedy(error: &Error) -> &'static str {
    match error {
        Error::Credentials(_) => MAKE_TOKEN,
        Error::NotFound(_) | Error::Refused(_) => "see that CF_ACCOUNT_ID is the account of the tunnels",
        Error::Unreachable(_) | Error::Unanswered(_) | Error::Intercepted(_) | Error::Unreadable { .. } => {
            "see that the address in CF_API_BASE_URL can be reached from here and is Cloudflare's: look at DNS, network \
             policies, HTTPS_PROXY and, for a proxy with a certificate of its own, CF_CA_FILE; it is tried again"
        }
        Error::Limited { .. } => {
            "wait, it is tried again; the limit is shared by everything that the token's user does"
        }
        Error::Failed(_) | Error::OutOfTime => {
            "wait, it is tried again; see https://www.cloudflarestatus.com"
        }
    }
}

/// The tunnel of that name or id; else why there is none to be taken, and which there are.
pub(crate) fn find_tunnel<'a>(present: &'a [Tunnel], wanted: &str) -> Result<&'a Tunnel, String> {
    let mut matching = present
        .iter()
        .filter(|tunnel| !tunnel.deleted)
        .filter(|tunnel| tunnel.id.as_str().eq_ignore_ascii_case(wanted) || *tunnel.name == *wanted);
    match (matching.next(), matching.next()) {
        (Some(tunnel), None) => Ok(tunnel),
        (Some(_), Some(_)) => Err(format!("{wanted:?} names several tunnels; use the id")),
        (None, _) => {
            let names: Vec<String> = present
                .iter()
                .filter(|tunnel| !tunnel.deleted)
                .map(|tunnel| format!("{:?}", tunnel.name))
                .collect();
            Err(format!("{wanted:?} is no tunnel; there are {}", names.join(", ")))
        }
    }
}
