//! Reads tunnels and their connectors, as far as the tunnels' configuration is concerned.

use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use super::error_class::Resource;
use super::path::path;
use crate::clock::Deadline;
use crate::model::AccountId;
use crate::model::json::null_is_default;
use crate::model::{TunnelId, TunnelIdError};

/// Tunnels per page; the API allows no more.
const TUNNELS_PER_PAGE: u32 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WireTunnel")]
pub struct Tunnel {
    pub id: TunnelId,
    /// The name, unique among the account's tunnels that are not deleted.
    pub name: Box<str>,
    /// The owner of its configuration.
    pub config_src: ConfigSource,
    /// It was deleted; Cloudflare still answers for it.
    pub deleted: bool,
}

/// The owner of a tunnel's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// A file beside each cloudflared. A configuration written through the API replaces it for good.
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

/// A connector: one replica of `cloudflared` that serves a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Connector {
    /// The id that the dashboard shows; empty if Cloudflare gives none.
    #[serde(default, deserialize_with = "null_is_default")]
    pub id: Box<str>,
    /// The version of the tunnel's configuration that it has applied, if it reports one.
    pub config_version: Option<i64>,
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
    type Error = TunnelIdError;

    fn try_from(wire: WireTunnel) -> Result<Self, TunnelIdError> {
        Ok(Self {
            id: TunnelId::parse(&wire.id)?,
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
    pub fn tunnels(&self, account: &AccountId, deadline: Deadline) -> Result<Vec<Tunnel>, Error> {
        let mut tunnels: Vec<Tunnel> = self.list(
            Resource::Tunnels,
            &path(&["accounts", account.as_str(), "cfd_tunnel"]),
            // Without this, deleted tunnels come too.
            "is_deleted=false&",
            TUNNELS_PER_PAGE,
            deadline,
        )?;
        tunnels.retain(|tunnel| !tunnel.deleted);
        tunnels.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        tunnels.dedup_by(|a, b| a.id == b.id);
        Ok(tunnels)
    }

    /// One tunnel, deleted or not; `None` if the account never had it.
    pub fn tunnel(
        &self,
        account: &AccountId,
        id: &TunnelId,
        deadline: Deadline,
    ) -> Result<Option<Tunnel>, Error> {
        let path = path(&["accounts", account.as_str(), "cfd_tunnel", id.as_str()]);
        match self.read(Resource::Tunnels, &path, deadline) {
            Ok(answer) => answer.into_result().map(Some),
            // 7003 says that there is no such path, because the account's id has the wrong shape.
            Err(Error::NotFound(refusal)) if refusal.code != Some(7003) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The connectors that serve a tunnel now.
    pub fn connectors(
        &self,
        account: &AccountId,
        id: &TunnelId,
        deadline: Deadline,
    ) -> Result<Vec<Connector>, Error> {
        let path = path(&["accounts", account.as_str(), "cfd_tunnel", id.as_str(), "connections"]);
        Ok(self.read(Resource::Tunnels, &path, deadline)?.result.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudflare::testing::{Stage, failure, success};

    const ID: &str = "6ff42ae2-765d-4adf-8112-31c55c1551ef";
    const OTHER: &str = "00000000-0000-4000-8000-000000000000";

    fn account() -> AccountId {
        AccountId::new("a1")
    }

    fn id() -> TunnelId {
        TunnelId::parse(ID).unwrap()
    }

    #[test]
    fn tunnels_are_listed_without_the_deleted_ones() {
        let stage = Stage::new([success(&format!(
            r#"[
                {{"id":"{ID}","name":"shop","config_src":"cloudflare","remote_config":true,"deleted_at":null,"connections":[],"metadata":{{}}}},
                {{"id":"10000000-0000-4000-8000-000000000000","name":"gone","config_src":"cloudflare","deleted_at":"2026-01-01T00:00:00Z"}},
                {{"id":"{OTHER}","name":"old"}}
            ]"#
        ))]);
        let tunnels = stage.client.tunnels(&account(), stage.deadline()).unwrap();
        let tunnel = |id: &str, name: &str, config_src| Tunnel {
            id: TunnelId::parse(id).unwrap(),
            name: name.into(),
            config_src,
            deleted: false,
        };
        assert_eq!(
            tunnels,
            [tunnel(OTHER, "old", ConfigSource::Local), tunnel(ID, "shop", ConfigSource::Cloudflare),]
        );
        assert_eq!(stage.script.paths(), ["/accounts/a1/cfd_tunnel?is_deleted=false&page=1&per_page=1000"]);
    }

    #[test]
    fn who_owns_the_configuration_is_told_in_two_ways() {
        for (fields, expected) in [
            (r#""config_src":"local""#, ConfigSource::Local),
            (r#""config_src":"cloudflare""#, ConfigSource::Cloudflare),
            (r#""config_src":"local","remote_config":true"#, ConfigSource::Local),
            (r#""config_src":null"#, ConfigSource::Local),
            (r#""config_src":null,"remote_config":false"#, ConfigSource::Local),
            (r#""remote_config":true"#, ConfigSource::Cloudflare),
        ] {
            let stage = Stage::new([success(&format!(r#"{{"id":"{ID}","name":"shop",{fields}}}"#))]);
            let tunnel = stage.client.tunnel(&account(), &id(), stage.deadline()).unwrap().unwrap();
            assert_eq!(tunnel.config_src, expected, "{fields}");
        }
    }

    #[test]
    fn a_deleted_tunnel_is_found_and_says_so() {
        let stage = Stage::new([success(&format!(
            r#"{{"id":"{ID}","name":"shop","deleted_at":"2026-01-01T00:00:00Z"}}"#
        ))]);
        assert!(stage.client.tunnel(&account(), &id(), stage.deadline()).unwrap().unwrap().deleted);
    }

    #[test]
    fn an_unknown_tunnel_is_none_and_an_unknown_account_is_an_error() {
        for (status, code, is_none) in
            [(404, 1002, true), (400, 1002, true), (404, 4711, true), (404, 7003, false)]
        {
            let stage = Stage::new([failure(status, code, "x")]);
            match stage.client.tunnel(&account(), &id(), stage.deadline()) {
                Ok(None) => assert!(is_none, "{code}"),
                Err(Error::NotFound(_)) => assert!(!is_none, "{code}"),
                other => panic!("{code}: {other:?}"),
            }
        }
    }

    #[test]
    fn connectors_tell_the_version_they_applied_or_none() {
        for (result, expected) in [
            ("null", &[][..]),
            ("[]", &[]),
            (r#"[{"id":"x","config_version":7,"conns":[]},{"id":"y"}]"#, &[Some(7), None]),
        ] {
            let stage = Stage::new([success(result)]);
            let connectors = stage.client.connectors(&account(), &id(), stage.deadline()).unwrap();
            let versions: Vec<Option<i64>> =
                connectors.iter().map(|connector| connector.config_version).collect();
            assert_eq!(versions, expected, "{result}");
            assert_eq!(
                stage.script.paths(),
                [format!("/accounts/a1/cfd_tunnel/{ID}/connections")],
                "the list has no pages"
            );
        }
    }

    #[test]
    fn a_tunnel_whose_id_is_none_is_unreadable() {
        let stage = Stage::new([success(r#"[{"id":"not-a-uuid","name":"shop"}]"#)]);
        let error = stage.client.tunnels(&account(), stage.deadline()).unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{error}");
    }
}
