//! A tunnel's secret, and the tunnel token around it that cloudflared is started with (`connection/connection.go`).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::answer::{Refusal, Success};
use crate::cloudflare::Cloudflare;
use crate::json::to_raw;
use crate::tunnel::Tunnel;

/// Shortest secret, in bytes.
const SECRET_MINIMUM_BYTES: usize = 32;

/// A tunnel's secret as text: standard base64. `Debug` does not show it, so that a failing test prints none.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// A secret that the API makes itself.
    pub(crate) fn new(bytes: [u8; SECRET_MINIMUM_BYTES]) -> Self {
        Self(STANDARD.encode(bytes))
    }

    /// A secret that a client brings.
    pub(super) fn parse(text: String) -> Result<Self, Refusal> {
        match STANDARD.decode(&text) {
            Ok(bytes) if bytes.len() >= SECRET_MINIMUM_BYTES => Ok(Self(text)),
            _ => {
                let text = format!("tunnel_secret must be base64 of at least {SECRET_MINIMUM_BYTES} bytes");
                Err(Refusal::bad_request(text))
            }
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// What a tunnel token says.
#[derive(Deserialize, Serialize)]
struct TunnelToken<'a> {
    #[serde(rename = "a")]
    account: &'a str,
    #[serde(rename = "t")]
    tunnel: &'a str,
    #[serde(rename = "s")]
    secret: &'a str,
}

impl Tunnel {
    /// What `cloudflared tunnel run --token` takes; the same until the secret changes.
    pub fn tunnel_token(&self) -> String {
        self.run_token_around(&self.secret)
    }

    fn run_token_around(&self, secret: &Secret) -> String {
        let token = TunnelToken { account: &self.account, tunnel: &self.id, secret: secret.as_str() };
        STANDARD.encode(to_raw(&token).get())
    }

    /// Gives the tunnel another secret. The connectors that are connected stay so.
    pub(super) fn rotate(&mut self, secret: Secret) {
        let former = std::mem::replace(&mut self.secret, secret);
        self.former_secrets.push(former);
    }
}

/// `GET …/token`. Code 1054 is met here only; the other calls of an unknown tunnel answer 1002.
pub(crate) fn show_run_token(cloudflare: &Cloudflare, account: &str, id: &str) -> Result<Success, Refusal> {
    let tunnel = super::find_live(cloudflare, account, id)
        .map_err(|_| Refusal::new(404, 1054, "Tunnel token not found"))?;
    Ok(Success::of(&tunnel.tunnel_token()))
}

impl Cloudflare {
    /// Every secret that a tunnel has or had, and every tunnel token: what no output may hold.
    pub fn secrets(&self) -> Vec<String> {
        let of = |tunnel: &Tunnel| -> Vec<String> {
            let secrets = tunnel.former_secrets.iter().chain([&tunnel.secret]);
            secrets.flat_map(|secret| [secret.as_str().to_owned(), tunnel.run_token_around(secret)]).collect()
        };
        self.tunnels.iter().flat_map(of).collect()
    }

    /// One more connector starts, as `cloudflared tunnel run --token-file` does with what is in the file, and is
    /// connected. Says its tunnel's id.
    ///
    /// # Errors
    /// What cloudflared says: that this is no tunnel token, or that no tunnel has such a secret (any more).
    pub fn run_connector(&mut self, token_file: &str) -> Result<String, &'static str> {
        let invalid = "Provided Tunnel token is not valid.";
        let json = STANDARD.decode(token_file.trim()).map_err(|_| invalid)?;
        let token: TunnelToken<'_> = serde_json::from_slice(&json).map_err(|_| invalid)?;
        let of_token = |tunnel: &&mut Tunnel| {
            let TunnelToken { account, tunnel: id, secret } = token;
            !tunnel.deleted
                && tunnel.id == id
                && tunnel.account == account
                && tunnel.secret.as_str() == secret
        };
        let tunnel = self.tunnels.iter_mut().find(of_token).ok_or("Unauthorized: Invalid tunnel secret")?;
        tunnel.connectors += 1;
        Ok(tunnel.id.clone())
    }
}
