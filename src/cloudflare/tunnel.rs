//! Tunnels, as far as their configuration is concerned.

use serde::Deserialize;

use super::client::Client;
use super::envelope::null_is_default;
use super::error::{Area, Error};
use super::identifier::{AccountId, path};
use crate::clock::Deadline;
use crate::limits::TUNNELS_PER_PAGE;
use crate::tunnel::TunnelId;

/// A tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its id.
    pub id: TunnelId,
    /// Its name, unique among the account's tunnels that are not deleted.
    pub name: Box<str>,
    /// Who owns its configuration.
    pub config_src: ConfigSource,
    /// Whether it was deleted; Cloudflare goes on answering for it.
    pub deleted: bool,
}

/// Who owns a tunnel's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// A file beside each cloudflared. A configuration written through the API takes over from it, for good.
    Local,
    /// Cloudflare: the dashboard and the API.
    Cloudflare,
}

impl ConfigSource {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "local" => Some(Self::Local),
            "cloudflare" => Some(Self::Cloudflare),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct WireTunnel {
    id: Box<str>,
    #[serde(default, deserialize_with = "null_is_default")]
    name: Box<str>,
    #[serde(default, deserialize_with = "null_is_default")]
    config_src: Box<str>,
    #[serde(default, deserialize_with = "null_is_default")]
    remote_config: bool,
    deleted_at: Option<Box<str>>,
}

impl TryFrom<WireTunnel> for Tunnel {
    type Error = Error;

    fn try_from(wire: WireTunnel) -> Result<Self, Error> {
        Ok(Self {
            id: TunnelId::parse(&wire.id).map_err(|error| Error::Unreadable {
                status: 200,
                reason: error.to_string().into(),
            })?,
            name: wire.name,
            // `config_src` was seen as null for local tunnels; `remote_config` is its older form.
            config_src: ConfigSource::parse(&wire.config_src).unwrap_or(if wire.remote_config {
                ConfigSource::Cloudflare
            } else {
                ConfigSource::Local
            }),
            deleted: wire.deleted_at.is_some_and(|instant| !instant.is_empty()),
        })
    }
}

impl Client {
    /// The account's tunnels that are not deleted, ordered by id.
    ///
    /// # Errors
    /// See [`Error`]; nothing is written.
    pub fn tunnels(&self, account: &AccountId, deadline: Deadline) -> Result<Vec<Tunnel>, Error> {
        let mut tunnels: Vec<Tunnel> = self.list(
            Area::Tunnels,
            &path(&["accounts", account.as_str(), "cfd_tunnel"]),
            // Left out, the deleted ones come too.
            "is_deleted=false&",
            TUNNELS_PER_PAGE,
            deadline,
            |wire: WireTunnel| wire.try_into(),
        )?;
        tunnels.retain(|tunnel| !tunnel.deleted);
        tunnels.sort_by(|a, b| a.id.cmp(&b.id));
        tunnels.dedup_by(|a, b| a.id == b.id);
        Ok(tunnels)
    }

    /// One tunnel, deleted or not; `None` when the account never had it.
    ///
    /// # Errors
    /// See [`Error`]; nothing is written.
    pub fn tunnel(
        &self,
        account: &AccountId,
        id: &TunnelId,
        deadline: Deadline,
    ) -> Result<Option<Tunnel>, Error> {
        let path = path(&["accounts", account.as_str(), "cfd_tunnel", id.as_str()]);
        match self.read::<WireTunnel>(Area::Tunnels, &path, deadline) {
            Ok(answer) => answer.into_result()?.try_into().map(Some),
            // 7003 says that the path is none: the account's id has the wrong shape.
            Err(Error::NotFound(refusal)) if refusal.code != Some(7003) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
