//! Reads and replaces the configuration of a tunnel, always as a whole.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::{Client, path};
use super::error::Error;
use super::error_class::ApiResource;
use super::transport::Method;
use super::tunnel::is_locally_managed;
use crate::clock::Deadline;
use crate::model::AccountId;
use crate::model::TunnelId;
use crate::model::json::number_in_any_form;

/// Stands for no version: Cloudflare gives none, or the tunnel was never configured. cloudflared starts with it too.
const NO_VERSION: i64 = -1;

#[derive(Clone, Debug, Deserialize)]
#[serde(from = "WireConfiguration")]
pub struct Configuration {
    /// The tunnel that the answer names, if any.
    pub tunnel: Option<TunnelId>,
    /// Grows by one with each write of any program; -1 if Cloudflare gives no version. The first write gives 0 or 1.
    pub version: i64,
    /// True if a file beside its cloudflared configures the tunnel; `None` if the configuration does not say. Then
    /// `Tunnel::is_locally_managed` counts, the only source for a tunnel that was never configured at Cloudflare.
    pub is_locally_managed: Option<bool>,
    /// The bytes of `config`, because the caller has to keep unknown fields and the order of all fields. `None` for a
    /// tunnel that was never configured.
    pub config: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct WireConfiguration {
    tunnel_id: Option<Box<str>>,
    /// cloudflared reads at most 32 bits.
    #[serde(default, deserialize_with = "number_in_any_form")]
    version: Option<i32>,
    source: Option<Box<str>>,
    config: Option<Box<RawValue>>,
}

impl From<WireConfiguration> for Configuration {
    fn from(wire: WireConfiguration) -> Self {
        Self {
            tunnel: wire.tunnel_id.and_then(|id| TunnelId::parse(&id).ok()),
            version: wire.version.map_or(NO_VERSION, i64::from),
            is_locally_managed: wire.source.as_deref().and_then(is_locally_managed),
            config: wire.config,
        }
    }
}

impl Configuration {
    /// The configuration of a tunnel that was never configured.
    pub fn never_configured() -> Self {
        Self { tunnel: None, version: NO_VERSION, is_locally_managed: None, config: None }
    }
}

impl Client {
    /// Reads a tunnel's configuration. For a tunnel that was never configured, it has no `config`.
    pub fn configuration(
        &self,
        account: &AccountId,
        id: &TunnelId,
        deadline: Deadline,
    ) -> Result<Configuration, Error> {
        match self.read(ApiResource::Configurations, &configuration_path(account, id), deadline) {
            Err(Error::NotFound(response)) if response.is_never_configured() => {
                Ok(Configuration::never_configured())
            }
            outcome => outcome,
        }
    }

    /// Replaces a tunnel's whole configuration without any precondition: the present one is lost. Sent at most once.
    ///
    /// # Errors
    /// [`Error::may_have_been_done`] says if the configuration has to be read again.
    pub fn put_configuration(
        &self,
        account: &AccountId,
        id: &TunnelId,
        config: &RawValue,
        deadline: Deadline,
    ) -> Result<Configuration, Error> {
        let body = format!(r#"{{"config":{}}}"#, config.get());
        let path = configuration_path(account, id);
        self.write(ApiResource::Configurations, Method::PUT, &path, body.as_bytes(), deadline)
    }
}

fn configuration_path(account: &AccountId, id: &TunnelId) -> String {
    path(&["accounts", account.as_str(), "cfd_tunnel", id.as_str(), "configurations"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudflare::fixture::{Fixture, failure, success};

    const PATH: &str = "/accounts/a1/cfd_tunnel/6ff42ae2-765d-4adf-8112-31c55c1551ef/configurations";
    /// Holds unknown fields, their order, odd blanks, and numbers that floating point would change.
    const CONFIG: &str = "{\"warp-routing\":{ \"enabled\" : true},\n \"ingress\":[{\"service\":\"http_status:404\",\"x\":1.10}],\"b\":12345678901234567890,\"a\":null}";

    fn account() -> AccountId {
        AccountId::new("a1")
    }

    fn id() -> TunnelId {
        TunnelId::parse("6ff42ae2-765d-4adf-8112-31c55c1551ef").unwrap()
    }

    #[test]
    fn a_configuration_is_read_and_written_to_the_byte() {
        let result = format!(
            r#"{{"tunnel_id":"x","version":7,"config":{CONFIG},"source":"cloudflare","created_at":"y"}}"#
        );
        let fixture = Fixture::new([success(&result), success(&result)]);
        let read = fixture.client.configuration(&account(), &id(), fixture.deadline()).unwrap();
        assert_eq!((read.version, read.is_locally_managed), (7, Some(false)));
        let config = read.config.unwrap();
        assert_eq!(config.get(), CONFIG);
        let written =
            fixture.client.put_configuration(&account(), &id(), &config, fixture.deadline()).unwrap();
        assert_eq!(written.version, 7);
        let sent = fixture.script.sent();
        assert_eq!((&sent[0].method, &*sent[0].path, &sent[0].body), (&Method::GET, PATH, &None));
        assert_eq!((&sent[1].method, &*sent[1].path), (&Method::PUT, PATH));
        assert_eq!(sent[1].body.as_deref().unwrap(), format!(r#"{{"config":{CONFIG}}}"#));
    }

    #[test]
    fn a_configuration_names_its_owner_or_leaves_it_to_the_tunnel() {
        for (source, expected) in [
            (r#""local""#, Some(true)),
            (r#""cloudflare""#, Some(false)),
            (r#""else""#, None),
            ("null", None),
        ] {
            let fixture = Fixture::new([success(&format!(r#"{{"version":1,"source":{source}}}"#))]);
            let read = fixture.client.configuration(&account(), &id(), fixture.deadline()).unwrap();
            assert_eq!(read.is_locally_managed, expected, "{source}");
        }
    }

    #[test]
    fn a_version_in_another_form_costs_no_tunnel() {
        for (version, expected) in [
            (r#""7""#, 7),
            ("7.0", 7),
            ("null", NO_VERSION),
            (r#""latest""#, NO_VERSION),
            ("[7]", NO_VERSION),
        ] {
            let answer = success(&format!(r#"{{"version":{version},"config":{CONFIG}}}"#));
            let fixture = Fixture::new([answer]);
            let read = fixture.client.configuration(&account(), &id(), fixture.deadline()).unwrap();
            assert_eq!(read.version, expected, "{version}");
            assert_eq!(read.config.unwrap().get(), CONFIG, "{version}");
        }
    }

    /// cloudflared#1029 reports the first form, clients in use the second.
    #[test]
    fn a_tunnel_that_was_never_configured_has_no_config() {
        for (label, answer, version) in [
            ("null", success(r#"{"version":0,"config":null,"source":"cloudflare"}"#), 0),
            ("absent", success(r#"{"tunnel_id":"x"}"#), NO_VERSION),
            ("1055", failure(404, 1055, "configuration not found"), NO_VERSION),
            ("1055 as a bad request", failure(400, 1055, "configuration not found"), NO_VERSION),
        ] {
            let fixture = Fixture::new([answer]);
            let read = fixture.client.configuration(&account(), &id(), fixture.deadline()).unwrap();
            assert!(read.config.is_none(), "{label}");
            assert_eq!(read.version, version, "{label}");
        }
    }

    #[test]
    fn a_tunnel_that_does_not_exist_is_not_one_that_was_never_configured() {
        let fixture = Fixture::new([failure(404, 1002, "Tunnel not found")]);
        let error = fixture.client.configuration(&account(), &id(), fixture.deadline()).unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{error}");
    }

    #[test]
    fn a_refused_configuration_shows_what_cloudflared_says() {
        let fixture = Fixture::new([failure(
            400,
            1056,
            "Bad Configuration: Validation failed: Rule #2 has an invalid regex",
        )]);
        let config = serde_json::value::to_raw_value(&()).unwrap();
        let error =
            fixture.client.put_configuration(&account(), &id(), &config, fixture.deadline()).unwrap_err();
        assert!(matches!(&error, Error::Rejected(answer) if answer.has_code(1056)), "{error}");
        assert!(error.to_string().contains("Rule #2 has an invalid regex"), "{error}");
    }
}
