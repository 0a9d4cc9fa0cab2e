//! Tunnels, their list and their connections.

mod configuration;
mod connector;
mod lifecycle;
mod tunnel_token;

pub use configuration::{Unconfigured, catch_all};
pub(crate) use connector::Lane;
pub(crate) use lifecycle::{create, delete, disconnect, update};
pub(crate) use tunnel_token::{Secret, show_run_token};

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer::{Refusal, Success};
use crate::cloudflare::Cloudflare;
use crate::http::Request;
use crate::page::{Page, number};

/// The place that keeps a tunnel's configuration.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ConfigSource {
    /// A file beside cloudflared.
    Local,
    /// Cloudflare: a remotely-managed tunnel.
    Cloudflare,
}

impl ConfigSource {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Cloudflare => "cloudflare",
        }
    }
}

/// A tunnel to be made.
#[derive(Clone, Debug)]
pub struct NewTunnel {
    /// Its name.
    pub name: String,
    /// The account, by id; `None` for the first one.
    pub account: Option<String>,
    /// The place that keeps its configuration.
    pub config_source: ConfigSource,
    /// How it answers until it is configured.
    pub unconfigured: Unconfigured,
}

impl NewTunnel {
    /// A remotely-managed tunnel of the first account that answers `config: null` until it is configured.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            account: None,
            config_source: ConfigSource::Cloudflare,
            unconfigured: Unconfigured::Null,
        }
    }
}

/// A tunnel. The public fields may be changed at any time through [`Cloudflare::tunnel_mut`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tunnel {
    /// A UUID.
    pub id: String,
    /// Unique among the live tunnels of an account.
    pub name: String,
    /// The account it belongs to, by id.
    pub account: String,
    /// The place that keeps its configuration.
    pub config_source: ConfigSource,
    /// How it answers until it is configured.
    pub unconfigured: Unconfigured,
    /// Whether it was deleted; deleted tunnels are still listed, with a date.
    pub deleted: bool,
    /// Connectors (replicas of cloudflared) that are connected.
    pub connectors: usize,
    /// The version of the configuration that the first connector stays at; `None` where it takes the latest, as the
    /// others do.
    pub lagging_at: Option<i64>,
    /// Files that are not there where the connectors run. They refuse a configuration that needs one of them.
    pub missing_files: Vec<String>,
    /// Goes up by one with every PUT of the configuration.
    pub version: i64,
    pub(crate) config: Option<Box<RawValue>>,
    /// What is in force at each connector. The last lane is also that of all further ones.
    pub(crate) lanes: Vec<Lane>,
    secret: Secret,
    /// The secrets that were replaced by others, oldest first.
    former_secrets: Vec<Secret>,
    /// How many more lists leave the tunnel out.
    unlisted_calls: usize,
    /// Until this time every list leaves it out.
    listed_from: Duration,
    created_at: String,
    pub(crate) configured_at: String,
    deleted_at: String,
}

impl Tunnel {
    pub(crate) fn new(id: String, account: String, new: NewTunnel, secret: Secret, now: String) -> Self {
        let NewTunnel { name, account: _, config_source, unconfigured } = new;
        Self {
            id,
            name,
            account,
            config_source,
            unconfigured,
            deleted: false,
            connectors: 1,
            lagging_at: None,
            missing_files: Vec::new(),
            version: 0,
            config: None,
            lanes: vec![Lane::new(Duration::ZERO)],
            secret,
            former_secrets: Vec::new(),
            unlisted_calls: 0,
            listed_from: Duration::ZERO,
            created_at: now.clone(),
            configured_at: now.clone(),
            deleted_at: now,
        }
    }

    /// The name that a record leads to this tunnel with.
    pub fn hostname(&self) -> String {
        format!("{}.cfargotunnel.com", self.id)
    }

    fn is_connected(&self) -> bool {
        self.connectors > 0 && !self.deleted
    }

    fn status(&self) -> &'static str {
        match (self.connectors, self.deleted) {
            (0, _) => "inactive",
            (_, true) => "down",
            (_, false) => "healthy",
        }
    }

    /// Counts a list that is made now, and says whether it has the tunnel.
    fn count_list(&mut self, now: Duration) -> bool {
        let is_listed = self.unlisted_calls == 0 && self.listed_from <= now;
        self.unlisted_calls = self.unlisted_calls.saturating_sub(1);
        is_listed
    }

    fn to_json(&self) -> Value {
        let connected = self.is_connected();
        let when = |condition: bool, time: &str| {
            if condition { Value::from(time) } else { Value::Null }
        };
        json!({
            "id": self.id,
            "account_tag": self.account,
            "name": self.name,
            "config_src": self.config_source.as_str(),
            "remote_config": self.config_source == ConfigSource::Cloudflare,
            "status": self.status(),
            "tun_type": "cfd_tunnel",
            "created_at": self.created_at,
            "deleted_at": when(self.deleted, &self.deleted_at),
            "conns_active_at": when(connected, &self.created_at),
            "conns_inactive_at": when(!connected, &self.created_at),
            "connections": [],
            "metadata": {},
        })
    }
}

/// `GET /accounts/{account_id}/cfd_tunnel`. Deleted tunnels are listed too unless `is_deleted` says otherwise; an empty
/// one says nothing.
pub(crate) fn list(
    cloudflare: &mut Cloudflare,
    account: &str,
    request: &Request,
) -> Result<Success, Refusal> {
    let now = cloudflare.clock.now();
    let of_account = cloudflare.tunnels.iter_mut().filter(|tunnel| tunnel.account == account);
    let mut tunnels: Vec<&Tunnel> =
        of_account.filter_map(|tunnel| tunnel.count_list(now).then_some(&*tunnel)).collect();
    let mut page = Page { number: 1, size: 20 };
    for (name, value) in request.parameters() {
        match name.as_str() {
            "page" => page.number = number(&name, &value, 1..=usize::MAX)?,
            "per_page" => page.size = number(&name, &value, 1..=1000)?,
            "name" => tunnels.retain(|tunnel| tunnel.name == value),
            "uuid" => tunnels.retain(|tunnel| tunnel.id == value),
            "include_prefix" => tunnels.retain(|tunnel| tunnel.name.starts_with(&value)),
            "exclude_prefix" => tunnels.retain(|tunnel| !tunnel.name.starts_with(&value)),
            "is_deleted" if !value.is_empty() => {
                let wanted: bool =
                    value.parse().map_err(|_| Refusal::bad_request("is_deleted must be a boolean"))?;
                tunnels.retain(|tunnel| tunnel.deleted == wanted);
            }
            "status" => tunnels.retain(|tunnel| tunnel.status() == value),
            _ => {}
        }
    }
    let total = tunnels.len();
    let shown: Vec<Value> = page.of(tunnels).into_iter().map(Tunnel::to_json).collect();
    let mut success = Success::of(&shown);
    success.result_info = Some(page.info(shown.len(), total, None));
    Ok(success)
}

/// `GET /accounts/{account_id}/cfd_tunnel/{tunnel_id}`.
pub(crate) fn show(cloudflare: &Cloudflare, account: &str, id: &str) -> Result<Success, Refusal> {
    find(cloudflare, account, id).map(|tunnel| Success::of(&tunnel.to_json()))
}

/// `GET /accounts/{account_id}/cfd_tunnel/{tunnel_id}/connections`, a list without pages: what the API's description
/// calls `tunnel_tunnel_client`. Every connector has applied the latest version that has reached it and that it could,
/// unless the first one lags.
pub(crate) fn connections(cloudflare: &Cloudflare, account: &str, id: &str) -> Result<Success, Refusal> {
    let tunnel = find(cloudflare, account, id)?;
    let count = if tunnel.is_connected() { tunnel.connectors } else { 0 };
    let connectors: Vec<Value> = (0..count)
        .map(|number| {
            let lagging_at = tunnel.lagging_at.filter(|_| number == 0);
            json!({
                "id": format!("{}{number:012x}", tunnel.id.get(..24).unwrap_or_default()),
                "version": "2026.8.2",
                "arch": "linux_amd64",
                "features": ["ha-origin"],
                "run_at": tunnel.created_at,
                "config_version": lagging_at.unwrap_or_else(|| tunnel.applied_version(number)),
                "conns": [],
            })
        })
        .collect();
    Ok(Success::of(&connectors))
}

/// `GET …/configurations`.
pub(crate) fn show_configuration(
    cloudflare: &Cloudflare,
    account: &str,
    id: &str,
) -> Result<Success, Refusal> {
    find_live(cloudflare, account, id)?.configuration(&cloudflare.whims)
}

/// `PUT …/configurations`.
pub(crate) fn put_configuration(
    cloudflare: &mut Cloudflare,
    account: &str,
    id: &str,
    body: &str,
) -> Result<Success, Refusal> {
    let id = find_live(cloudflare, account, id)?.id.clone();
    let config = configuration::config_of_body(body)?;
    cloudflare.change_configuration(&id, &config)?;
    find_live(cloudflare, account, &id)?.configuration(&cloudflare.whims)
}

fn find_live<'a>(cloudflare: &'a Cloudflare, account: &str, id: &str) -> Result<&'a Tunnel, Refusal> {
    find(cloudflare, account, id).and_then(
        |tunnel| {
            if tunnel.deleted { Err(not_found()) } else { Ok(tunnel) }
        },
    )
}

fn find<'a>(cloudflare: &'a Cloudflare, account: &str, id: &str) -> Result<&'a Tunnel, Refusal> {
    let wanted = id.to_ascii_lowercase();
    let mut tunnels = cloudflare.tunnels.iter();
    tunnels.find(|tunnel| tunnel.account == account && tunnel.id == wanted).ok_or_else(not_found)
}

fn not_found() -> Refusal {
    Refusal::new(404, 1002, "Tunnel not found")
}
