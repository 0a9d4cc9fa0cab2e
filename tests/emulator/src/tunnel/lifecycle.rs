//! Making tunnels.
//!
//! Codes 1013 and 1030 are as met at Cloudflare. What else is refused here is refused with 1001, by analogy, and
//! nothing should be decided on it.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Refusal, Success};
use crate::cloudflare::Cloudflare;
use crate::tunnel::{ConfigSource, NewTunnel, Tunnel};

/// The body of a POST. A secret that the client brings is not emulated.
#[derive(Deserialize)]
struct Creation {
    name: String,
    config_src: Option<ConfigSource>,
}

/// `POST /accounts/{account_id}/cfd_tunnel`. Without `config_src` the tunnel is configured locally; no connector is
/// connected yet.
pub(crate) fn create(cloudflare: &mut Cloudflare, account: &str, body: &str) -> Result<Success, Refusal> {
    let Creation { name, config_src } = parse(body)?;
    check_name(cloudflare, account, &name)?;
    let new = NewTunnel {
        account: Some(account.to_owned()),
        config_source: config_src.unwrap_or(ConfigSource::Local),
        ..NewTunnel::named(&name)
    };
    let id = cloudflare.add_tunnel_with(new);
    let listed_from = cloudflare.clock.now() + cloudflare.whims.unlisted_time;
    let unlisted_calls = cloudflare.whims.unlisted_calls;
    let tunnel = cloudflare.tunnel_mut(&id);
    (tunnel.connectors, tunnel.listed_from, tunnel.unlisted_calls) = (0, listed_from, unlisted_calls);
    Ok(Success::of(&with_secrets(tunnel)))
}

/// Code 1030 is what a body with a line break inside a string was met with (linuxserver/docker-mods#307).
fn parse(body: &str) -> Result<Creation, Refusal> {
    serde_json::from_str(body).map_err(|error| {
        Refusal::new(400, 1030, format!("Could not parse input. Json deserialize error: {error}"))
    })
}

/// A name is unique among the live tunnels of the account.
fn check_name(cloudflare: &Cloudflare, account: &str, name: &str) -> Result<(), Refusal> {
    if name.trim().is_empty() {
        return Err(Refusal::bad_request("name must not be empty"));
    }
    let is_taken = |tunnel: &Tunnel| tunnel.account == account && !tunnel.deleted && tunnel.name == name;
    if cloudflare.tunnels.iter().any(is_taken) {
        return Err(Refusal::new(409, 1013, "You already have a tunnel with this name"));
    }
    Ok(())
}

/// The tunnel with two members that Cloudflare's description of its answers does not have and its documents show.
fn with_secrets(tunnel: &Tunnel) -> Value {
    let mut shown = tunnel.to_json();
    if let Some(members) = shown.as_object_mut() {
        members.insert("token".to_owned(), tunnel.run_token().into());
        let credentials = json!({
            "AccountTag": tunnel.account,
            "TunnelID": tunnel.id,
            "TunnelName": tunnel.name,
            "TunnelSecret": tunnel.secret.as_str(),
        });
        members.insert("credentials_file".to_owned(), credentials);
    }
    shown
}
