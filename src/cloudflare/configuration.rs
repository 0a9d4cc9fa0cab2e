//! The configuration of a tunnel: read whole, written whole.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::Client;
use super::error::{Area, Error};
use super::identifier::{AccountId, path};
use super::transport::Method;
use super::tunnel::ConfigSource;
use crate::clock::Deadline;
use crate::tunnel::TunnelId;

/// The version of a configuration that was never written; cloudflared starts at the same one.
const NEVER_CONFIGURED: i64 = -1;

/// A tunnel's configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Grows by one with each write, whoever makes it; -1 where Cloudflare has none.
    pub version: i64,
    /// Who wrote it, where Cloudflare tells.
    pub source: Option<ConfigSource>,
    /// `config` to the byte: unknown fields and the order of all are the caller's to keep. `None` for a tunnel that
    /// was never configured.
    pub config: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct WireConfiguration {
    version: Option<i64>,
    source: Option<Box<str>>,
    config: Option<Box<RawValue>>,
}

impl From<WireConfiguration> for Configuration {
    fn from(wire: WireConfiguration) -> Self {
        Self {
            version: wire.version.unwrap_or(NEVER_CONFIGURED),
            source: wire.source.as_deref().and_then(ConfigSource::parse),
            config: wire.config,
        }
    }
}

impl Client {
    /// Reads a tunnel's configuration. A tunnel that was never configured has one without `config`.
    ///
    /// # Errors
    /// See [`Error`]; nothing is written.
    pub fn configuration(
        &self,
        account: &AccountId,
        id: &TunnelId,
        deadline: Deadline,
    ) -> Result<Configuration, Error> {
        match self.read::<WireConfiguration>(Area::Tunnels, &configuration_path(account, id), deadline) {
            Ok(answer) => Ok(answer.into_result()?.into()),
            Err(Error::NotFound(refusal)) if refusal.has_code(1055) => Ok(Configuration {
                version: NEVER_CONFIGURED,
                source: None,
                config: None,
            }),
            Err(error) => Err(error),
        }
    }

    /// Replaces a tunnel's configuration, whole and without any precondition: whatever stands there is gone. Sent at
    /// most once.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::may_have_been_done`] says whether the configuration has to be read again.
    pub fn put_configuration(
        &self,
        account: &AccountId,
        id: &TunnelId,
        config: &RawValue,
        deadline: Deadline,
    ) -> Result<Configuration, Error> {
        let body = format!(r#"{{"config":{}}}"#, config.get());
        self.write::<WireConfiguration>(
            Area::Tunnels,
            Method::Put,
            &configuration_path(account, id),
            body.as_bytes(),
            deadline,
        )?
        .into_result()
        .map(Into::into)
    }
}

fn configuration_path(account: &AccountId, id: &TunnelId) -> String {
    path(&[
        "accounts",
        account.as_str(),
        "cfd_tunnel",
        id.as_str(),
        "configurations",
    ])
}
