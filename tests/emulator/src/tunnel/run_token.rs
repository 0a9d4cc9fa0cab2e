//! A tunnel's secret, and the run token around it that cloudflared is started with (`connection/connection.go`).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::answer::{Refusal, Success};
use crate::cloudflare::Cloudflare;
use crate::json::to_raw;
use crate::tunnel::Tunnel;

/// Length of a secret.
const SECRET_BYTES: usize = 32;

/// A tunnel's secret as text: standard base64. `Debug` does not show it, so that a failing test prints none.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// A secret that the API makes itself.
    pub(crate) fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(STANDARD.encode(bytes))
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

/// What a run token says.
#[derive(Deserialize, Serialize)]
struct RunToken<'a> {
    #[serde(rename = "a")]
    account: &'a str,
    #[serde(rename = "t")]
    tunnel: &'a str,
    #[serde(rename = "s")]
    secret: &'a str,
}

impl Tunnel {
    /// What `cloudflared tunnel run --token` takes.
    pub fn run_token(&self) -> String {
        let token = RunToken { account: &self.account, tunnel: &self.id, secret: self.secret.as_str() };
        STANDARD.encode(to_raw(&token).get())
    }
}

/// `GET …/token`. Code 1054 is met here only; the other calls of an unknown tunnel answer 1002.
pub(crate) fn show_run_token(cloudflare: &Cloudflare, account: &str, id: &str) -> Result<Success, Refusal> {
    let tunnel = super::find_live(cloudflare, account, id)
        .map_err(|_| Refusal::new(404, 1054, "Tunnel token not found"))?;
    Ok(Success::of(&tunnel.run_token()))
}

impl Cloudflare {
    /// Every tunnel's secret and run token: what no output may hold.
    pub fn secrets(&self) -> Vec<String> {
        let of = |tunnel: &Tunnel| [tunnel.secret.as_str().to_owned(), tunnel.run_token()];
        self.tunnels.iter().flat_map(of).collect()
    }

    /// One more connector starts, as `cloudflared tunnel run --token-file` does with what is in the file, and is
    /// connected. Says its tunnel's id.
    ///
    /// # Errors
    /// What cloudflared says: that this is no run token, or that no live tunnel has such a secret.
    pub fn run_connector(&mut self, token_file: &str) -> Result<String, &'static str> {
        let invalid = "Provided Tunnel token is not valid.";
        let json = STANDARD.decode(token_file.trim()).map_err(|_| invalid)?;
        let token: RunToken<'_> = serde_json::from_slice(&json).map_err(|_| invalid)?;
        let of_token = |tunnel: &&mut Tunnel| {
            let RunToken { account, tunnel: id, secret } = token;
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
