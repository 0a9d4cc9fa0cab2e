//! Reads and creates tunnels; reads their connectors and their tunnel tokens.

use serde::Deserialize;
use serde_json::json;

use super::client::{Client, path};
use super::error::Error;
use super::error_class::ApiResource;
use super::transport::Method;
use crate::clock::Deadline;
use crate::model::AccountId;
use crate::model::TunnelId;
use crate::model::json::{null_is_default, number_in_any_form};
use crate::secret::Secret;

/// Tunnels per page; the API allows no more.
const TUNNELS_PER_PAGE: u32 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WireTunnel")]
pub struct Tunnel {
    pub id: TunnelId,
    /// The name, unique among the account's tunnels that are not deleted.
    pub name: Box<str>,
    /// True if a file beside each cloudflared configures it. A write through the API replaces the file for good.
    pub is_locally_managed: bool,
    /// True if it was deleted; Cloudflare still returns it.
    pub deleted: bool,
}

/// True if the API's word for the source of a tunnel's configuration means a file beside each cloudflared; `None` if
/// the word is not known.
pub(super) fn is_locally_managed(source: &str) -> Option<bool> {
    match source {
        "local" => Some(true),
        "cloudflare" => Some(false),
        _ => None,
    }
}

/// A connector: one replica of `cloudflared` that serves a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Connector {
    /// The id that the dashboard shows; empty if Cloudflare gives none.
    #[serde(default, deserialize_with = "null_is_default")]
    pub id: Box<str>,
    /// The version of the tunnel's configuration that it has applied, if it reports one.
    #[serde(default, deserialize_with = "number_in_any_form")]
    pub config_version: Option<i64>,
}

impl Connector {
    /// The lowest version that any connector reports as applied, with that connector's id.
    pub fn slowest(connectors: &[Self]) -> Option<(i64, &str)> {
        connectors.iter().filter_map(|one| Some((one.config_version?, &*one.id))).min()
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
    type Error = &'static str;

    fn try_from(wire: WireTunnel) -> Result<Self, Self::Error> {
        Ok(Self {
            id: TunnelId::parse(&wire.id)?,
            name: wire.name,
            // `config_src` was seen as null for local tunnels; `remote_config` is its older form.
            is_locally_managed: is_locally_managed(&wire.config_src).unwrap_or(!wire.remote_config),
            deleted: wire.deleted_at.is_some_and(|instant| !instant.is_empty()),
        })
    }
}

impl Client {
    /// The account's tunnels that are not deleted, ordered by id.
    pub fn tunnels(&self, account: &AccountId, deadline: Deadline) -> Result<Vec<Tunnel>, Error> {
        let (mut tunnels, _): (Vec<Tunnel>, f64) = self.list(
            ApiResource::Tunnels,
            &path(&["accounts", account.as_str(), "cfd_tunnel"]),
            // Without this, deleted tunnels are listed too.
            "is_deleted=false&",
            TUNNELS_PER_PAGE,
            deadline,
        )?;
        tunnels.retain(|tunnel| !tunnel.deleted);
        // If a tunnel is listed twice, the entry with `is_locally_managed` counts, to be careful.
        tunnels.sort_unstable_by(|a, b| (&a.id, !a.is_locally_managed).cmp(&(&b.id, !b.is_locally_managed)));
        tunnels.dedup_by(|a, b| a.id == b.id);
        Ok(tunnels)
    }

    /// True if the account has the tunnel, and it is not deleted.
    pub fn has_tunnel(&self, account: &AccountId, id: &TunnelId, deadline: Deadline) -> Result<bool, Error> {
        let path = path(&["accounts", account.as_str(), "cfd_tunnel", id.as_str()]);
        match self.read(ApiResource::Tunnels, &path, deadline) {
            // Any other 404 may be about the account or the path.
            Err(Error::NotFound(response)) if response.is_no_tunnel() => Ok(false),
            outcome => outcome.map(|tunnel: Tunnel| !tunnel.deleted),
        }
    }

    /// Creates a tunnel that is configured at Cloudflare. Sent at most once.
    ///
    /// # Errors
    /// [`Error::may_have_been_done`] and `ErrorResponse::is_name_taken` say if the tunnels have to be listed again.
    pub fn create_tunnel(
        &self,
        account: &AccountId,
        name: &str,
        deadline: Deadline,
    ) -> Result<Tunnel, Error> {
        // Without `config_src`, the source is "local", which no later PATCH can change.
        let body = json!({ "name": name, "config_src": "cloudflare" }).to_string();
        let path = path(&["accounts", account.as_str(), "cfd_tunnel"]);
        self.write(ApiResource::Tunnels, Method::POST, &path, body.as_bytes(), deadline)
    }

    /// The token with which cloudflared connects for a tunnel. Reading it needs the permission to write tunnels.
    pub fn tunnel_token(
        &self,
        account: &AccountId,
        id: &TunnelId,
        deadline: Deadline,
    ) -> Result<Secret, Error> {
        let path = path(&["accounts", account.as_str(), "cfd_tunnel", id.as_str(), "token"]);
        let text: Box<str> = self.read(ApiResource::Tunnels, &path, deadline)?;
        Secret::parse(&text)
            .map_err(|problem| Error::Unreadable(format!("the tunnel token {problem}").into()))
    }

    /// The connectors that serve a tunnel now.
    pub fn connectors(
        &self,
        account: &AccountId,
        id: &TunnelId,
        deadline: Deadline,
    ) -> Result<Vec<Connector>, Error> {
        let path = path(&["accounts", account.as_str(), "cfd_tunnel", id.as_str(), "connections"]);
        let connectors: Option<_> = self.read(ApiResource::Connections, &path, deadline)?;
        Ok(connectors.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudflare::fixture::{Fixture, failure, success};

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
        let fixture = Fixture::new([success(&format!(
            r#"[
                {{"id":"{ID}","name":"shop","config_src":"cloudflare","remote_config":true,"deleted_at":null,"connections":[],"metadata":{{}}}},
                {{"id":"10000000-0000-4000-8000-000000000000","name":"gone","config_src":"cloudflare","deleted_at":"2026-01-01T00:00:00Z"}},
                {{"id":"{OTHER}","name":"old"}}
            ]"#
        ))]);
        let tunnels = fixture.client.tunnels(&account(), fixture.deadline()).unwrap();
        let tunnel = |id: &str, name: &str, is_locally_managed| Tunnel {
            id: TunnelId::parse(id).unwrap(),
            name: name.into(),
            is_locally_managed,
            deleted: false,
        };
        assert_eq!(tunnels, [tunnel(OTHER, "old", true), tunnel(ID, "shop", false)]);
        assert_eq!(fixture.script.paths(), ["/accounts/a1/cfd_tunnel?is_deleted=false&page=1&per_page=1000"]);
    }

    #[test]
    fn the_owner_of_the_configuration_is_told_in_two_ways() {
        for (fields, expected) in [
            (r#""config_src":"local""#, true),
            (r#""config_src":"cloudflare""#, false),
            (r#""config_src":"local","remote_config":true"#, true),
            (r#""config_src":null"#, true),
            (r#""config_src":null,"remote_config":false"#, true),
            (r#""remote_config":true"#, false),
        ] {
            let tunnel = serde_json::from_str(&format!(r#"{{"id":"{ID}","name":"shop",{fields}}}"#));
            let tunnel: Tunnel = tunnel.expect("a tunnel");
            assert_eq!(tunnel.is_locally_managed, expected, "{fields}");
        }
    }

    #[test]
    fn a_tunnel_exists_until_it_is_deleted() {
        for (deleted_at, exists) in [("null", true), (r#""2026-01-01T00:00:00Z""#, false)] {
            let tunnel = format!(r#"{{"id":"{ID}","name":"shop","deleted_at":{deleted_at}}}"#);
            let fixture = Fixture::new([success(&tunnel)]);
            let found = fixture.client.has_tunnel(&account(), &id(), fixture.deadline());
            assert_eq!(found.ok(), Some(exists), "{deleted_at}");
        }
    }

    #[test]
    fn an_unknown_tunnel_does_not_exist_and_an_unknown_account_is_an_error() {
        for (status, code, is_none) in
            [(404, 1002, true), (400, 1002, true), (404, 4711, false), (404, 7003, false)]
        {
            let fixture = Fixture::new([failure(status, code, "x")]);
            match fixture.client.has_tunnel(&account(), &id(), fixture.deadline()) {
                Ok(false) => assert!(is_none, "{code}"),
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
            (r#"[{"id":"x","config_version":7.0},{"id":"y","config_version":"8"}]"#, &[Some(7), Some(8)]),
        ] {
            let fixture = Fixture::new([success(result)]);
            let connectors = fixture.client.connectors(&account(), &id(), fixture.deadline()).unwrap();
            let versions: Vec<Option<i64>> =
                connectors.iter().map(|connector| connector.config_version).collect();
            assert_eq!(versions, expected, "{result}");
            assert_eq!(
                fixture.script.paths(),
                [format!("/accounts/a1/cfd_tunnel/{ID}/connections")],
                "the list has no pages"
            );
        }
    }

    #[test]
    fn a_tunnel_whose_id_is_none_is_unreadable() {
        let fixture = Fixture::new([success(r#"[{"id":"not-a-uuid","name":"shop"}]"#)]);
        let error = fixture.client.tunnels(&account(), fixture.deadline()).unwrap_err();
        assert!(matches!(error, Error::Unreadable(_)), "{error}");
    }

    #[test]
    fn a_new_tunnel_is_configured_at_cloudflare_and_its_secrets_are_not_kept() {
        let fixture = Fixture::new([success(&format!(
            r#"{{"id":"{ID}","name":"a \"b\"","config_src":"cloudflare","token":"eyJ","credentials_file":{{"TunnelSecret":"s"}}}}"#
        ))]);
        let made = fixture.client.create_tunnel(&account(), "a \"b\"", fixture.deadline()).unwrap();
        assert_eq!((made.id, &*made.name, made.is_locally_managed), (id(), "a \"b\"", false));
        let sent = fixture.script.sent();
        assert_eq!(sent[0].method, Method::POST);
        assert_eq!(sent[0].path, "/accounts/a1/cfd_tunnel");
        assert_eq!(sent[0].body.as_deref(), Some(r#"{"config_src":"cloudflare","name":"a \"b\""}"#));
    }

    #[test]
    fn a_taken_name_is_told_from_other_refusals() {
        for (status, code, expected) in
            [(409, 1013, true), (400, 1013, true), (400, 1001, false), (500, 1013, false)]
        {
            let fixture = Fixture::new([failure(status, code, "You already have a tunnel with this name")]);
            let error = fixture.client.create_tunnel(&account(), "home", fixture.deadline()).unwrap_err();
            let is_taken = matches!(&error, Error::Rejected(answer) if answer.is_name_taken());
            assert_eq!(is_taken, expected, "{status} {code}: {error}");
        }
    }

    #[test]
    fn a_tunnel_token_is_a_secret_in_no_error() {
        let fixture = Fixture::new([success(r#""eyJhIjoi""#)]);
        let token = fixture.client.tunnel_token(&account(), &id(), fixture.deadline()).unwrap();
        assert_eq!(token.expose(), "eyJhIjoi");
        assert_eq!(fixture.script.paths(), [format!("/accounts/a1/cfd_tunnel/{ID}/token")]);
        for result in ["null", r#"{"token":"secret"}"#, r#"["secret"]"#, "17", r#""a secret""#] {
            let fixture = Fixture::new([success(result)]);
            let error = fixture.client.tunnel_token(&account(), &id(), fixture.deadline()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
    }
}
