//! What has to be known before the first request can be answered: a token that works, the account, and the id of
//! every configured tunnel. Start-up never waits for it; a thread of its own tries until it succeeds.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use log::{info, warn};

use crate::clock::Deadline;
use crate::cloudflare::{AccountId, ConfigSource, Error, Tunnel, Zone};
use crate::limits;
use crate::ordered::inserted;
use crate::provider::reader::{ZoneScope, is_of_account};
use crate::provider::{Provider, Resolved};
use crate::reconcile::adopt::Adopt;
use crate::reconcile::namespace::NamespaceGuard;
use crate::reconcile::options::OriginRequest;
use crate::reconcile::service_template::ServiceTemplate;
use crate::reconcile::{ConfiguredTunnel, Ownership, Settings};

/// What the configuration asks for, in names that Cloudflare has to resolve.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// `OWNER_ID`.
    pub owner: Box<str>,
    /// `OWNERSHIP`.
    pub ownership: Ownership,
    /// The account; `None` takes the one that all zones share.
    pub account: Option<AccountId>,
    /// Ids or names of tunnels, the default first.
    pub tunnels: Vec<Box<str>>,
    /// The zones to read.
    pub scope: ZoneScope,
    /// `DEFAULT_SERVICE`.
    pub default_service: Option<ServiceTemplate>,
    /// `ORIGIN_*`.
    pub origin_defaults: OriginRequest,
    /// Whether a request after which most hostnames would be gone is carried out.
    pub allow_mass_deletion: bool,
    /// `ADOPT`.
    pub adopt: Adopt,
    /// `NAMESPACE_GUARD` and `CLUSTER_DOMAIN`.
    pub namespace_guard: Option<NamespaceGuard>,
    /// Whether nothing is written.
    pub dry_run: bool,
    /// Whether tunnels with a configuration file of their own may be written.
    pub allow_local_config: bool,
}

/// Why the start is not complete.
#[derive(Debug)]
enum NotYet {
    Credentials(Error),
    Cloudflare(Error),
    Configuration(String),
}

impl Provider {
    /// Checks the token and finds the tunnels. True when nothing is left to do.
    pub fn resolve(&self, deadline: Deadline) -> bool {
        match self.try_resolve(deadline) {
            Ok(resolved) => {
                self.announce(&resolved, deadline);
                *self.resolved.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(resolved));
                self.health.tunnels().close();
                true
            }
            Err(problem) => {
                let (latch, text) = match problem {
                    NotYet::Credentials(error) => (self.health.credentials(), error.to_string()),
                    NotYet::Cloudflare(error) => (self.health.tunnels(), error.to_string()),
                    NotYet::Configuration(text) => (self.health.tunnels(), text),
                };
                warn!("not ready: {text}");
                latch.reopen(&text);
                false
            }
        }
    }

    fn try_resolve(&self, deadline: Deadline) -> Result<Resolved, NotYet> {
        let Wanted {
            owner,
            ownership,
            account,
            tunnels,
            scope,
            default_service,
            origin_defaults,
            allow_mass_deletion,
            adopt,
            namespace_guard,
            dry_run: _,
            allow_local_config,
        } = &self.wanted;
        self.client.verify_token(account.as_ref(), deadline).map_err(NotYet::Credentials)?;
        self.health.credentials().close();
        let account = match account {
            Some(account) => account.clone(),
            None => self.account_of_zones(deadline)?,
        };
        let present = self.client.tunnels(&account, deadline).map_err(NotYet::Cloudflare)?;
        let mut found = Vec::with_capacity(tunnels.len());
        for wanted in tunnels {
            let tunnel = find_tunnel(&present, wanted).map_err(|problem| {
                NotYet::Configuration(format!("CF_TUNNEL_ID: {problem} in account {account}"))
            })?;
            if tunnel.config_src == ConfigSource::Local && !allow_local_config {
                warn!(
                    "tunnel={} ({:?}) is configured by a file beside its cloudflared, so nothing is written to it: \
                     migrate it in the dashboard, or set ALLOW_LOCAL_CONFIG=true to take it over",
                    tunnel.id, tunnel.name
                );
            }
            let configured = ConfiguredTunnel { id: tunnel.id.clone(), name: tunnel.name.clone() };
            if !found.contains(&configured) {
                found.push(configured);
            }
        }
        let mut found = found.into_iter();
        let default =
            found.next().ok_or_else(|| NotYet::Configuration("CF_TUNNEL_ID is empty".to_owned()))?;
        let mut settings = Settings::new(owner, scope.filter.clone(), default, found.collect());
        settings.default_service.clone_from(default_service);
        settings.origin_defaults.clone_from(origin_defaults);
        settings.allow_mass_deletion = *allow_mass_deletion;
        settings.ownership = *ownership;
        settings.adopt.clone_from(adopt);
        settings.namespace_guard.clone_from(namespace_guard);
        Ok(Resolved { account, settings })
    }

    /// The account that all zones in scope share.
    fn account_of_zones(&self, deadline: Deadline) -> Result<AccountId, NotYet> {
        let zones = self.reader.zones(&self.client, false, deadline).map_err(NotYet::Cloudflare)?;
        let wanted = zones.iter().filter(|zone| self.wanted.scope.takes(zone));
        let accounts: BTreeSet<&AccountId> = inserted(wanted.map(|zone| &zone.account));
        let mut accounts = accounts.into_iter();
        let (first, second) = (accounts.next(), accounts.next());
        if first.is_none() || second.is_some() {
            // The token may be mended while this waits.
            self.reader.forget_zones();
        }
        match (first, second) {
            (Some(account), None) => Ok(account.clone()),
            (None, _) => Err(NotYet::Configuration(
                "the token sees no zone within the filters: give it Zone Read and DNS Edit for the zones, or set \
                 CF_ACCOUNT_ID"
                    .to_owned(),
            )),
            (Some(_), Some(_)) => Err(NotYet::Configuration(
                "the token sees zones of several accounts: set CF_ACCOUNT_ID to the one with the tunnel".to_owned(),
            )),
        }
    }

    /// Says what will be managed, and what a loop costs against the rate limit.
    fn announce(&self, resolved: &Resolved, deadline: Deadline) {
        let Resolved { account, settings } = resolved;
        let tunnels: Vec<String> =
            settings.tunnels().iter().map(|tunnel| format!("{:?} ({})", tunnel.name, tunnel.id)).collect();
        info!(
            "managing tunnels={} account={account} owner={:?} ownership={}",
            tunnels.join(","),
            settings.owner,
            settings.ownership.as_str()
        );
        if self.wanted.dry_run {
            warn!("DRY_RUN is set: what would be written is told here, and nothing is written");
        }
        match self.reader.zones(&self.client, false, deadline) {
            Ok(zones) => {
                let (served, others): (Vec<&Zone>, Vec<&Zone>) = zones
                    .iter()
                    .filter(|zone| self.wanted.scope.takes(zone))
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

fn find_tunnel<'a>(present: &'a [Tunnel], wanted: &str) -> Result<&'a Tunnel, String> {
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
