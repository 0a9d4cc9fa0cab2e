//! Making, changing and deleting tunnels.
//!
//! Codes 1013, 1022 and 1030 are as met at Cloudflare. What else is refused here is refused with 1001, by analogy, and
//! nothing should be decided on it.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::answer::{Refusal, Success};
use crate::cloudflare::Cloudflare;
use crate::tunnel::tunnel_token::Secret;
use crate::tunnel::{ConfigSource, NewTunnel, Tunnel, find_live};

/// Most live tunnels of an account, from Cloudflare's list of limits.
const TUNNEL_LIMIT: usize = 1000;

/// The body of a POST.
#[derive(Deserialize)]
struct Creation {
    name: String,
    config_src: Option<ConfigSource>,
    tunnel_secret: Option<String>,
}

/// The body of a PATCH. It cannot change the place that keeps the configuration.
#[derive(Deserialize)]
struct Update {
    name: Option<String>,
    tunnel_secret: Option<String>,
}

/// `POST /accounts/{account_id}/cfd_tunnel`. Without `config_src` the tunnel is configured locally; no connector is
/// connected yet.
pub(crate) fn create(cloudflare: &mut Cloudflare, account: &str, body: &str) -> Result<Success, Refusal> {
    let Creation { name, config_src, tunnel_secret } = parse(body)?;
    check_name(cloudflare, account, &name, None)?;
    let secret = tunnel_secret.map(Secret::parse).transpose()?;
    if live_tunnels(cloudflare, account).count() >= TUNNEL_LIMIT {
        return Err(Refusal::bad_request(format!("an account has no more than {TUNNEL_LIMIT} tunnels")));
    }
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
    if let Some(secret) = secret {
        tunnel.secret = secret;
    }
    Ok(Success::of(&with_secrets(tunnel)))
}

/// `PATCH /accounts/{account_id}/cfd_tunnel/{tunnel_id}`.
pub(crate) fn update(
    cloudflare: &mut Cloudflare,
    account: &str,
    id: &str,
    body: &str,
) -> Result<Success, Refusal> {
    let id = find_live(cloudflare, account, id)?.id.clone();
    let Update { name, tunnel_secret } = parse(body)?;
    if let Some(name) = &name {
        check_name(cloudflare, account, name, Some(&id))?;
    }
    let secret = tunnel_secret.map(Secret::parse).transpose()?;
    let tunnel = cloudflare.tunnel_mut(&id);
    if let Some(name) = name {
        tunnel.name = name;
    }
    if let Some(secret) = secret {
        tunnel.rotate(secret);
    }
    Ok(Success::of(&with_secrets(tunnel)))
}

/// `DELETE /accounts/{account_id}/cfd_tunnel/{tunnel_id}`. The tunnel stays in the list, with a date.
pub(crate) fn delete(cloudflare: &mut Cloudflare, account: &str, id: &str) -> Result<Success, Refusal> {
    let tunnel = find_live(cloudflare, account, id)?;
    if tunnel.is_connected() {
        return Err(Refusal::new(400, 1022, "Cannot delete tunnel because it has active connections"));
    }
    let (id, now) = (tunnel.id.clone(), cloudflare.clock.timestamp());
    let tunnel = cloudflare.tunnel_mut(&id);
    (tunnel.deleted, tunnel.deleted_at) = (true, now);
    Ok(Success::of(&tunnel.to_json()))
}

/// `DELETE …/connections`, of all connectors: that of a single one (`client_id`) is not emulated. Whether they come
/// back is for the test to say.
pub(crate) fn disconnect(
    cloudflare: &mut Cloudflare,
    account: &str,
    id: &str,
    query: &str,
) -> Result<Success, Refusal> {
    if query.contains("client_id") {
        return Err(Refusal::bad_request("the emulator does not know client_id here"));
    }
    let id = find_live(cloudflare, account, id)?.id.clone();
    cloudflare.tunnel_mut(&id).connectors = 0;
    cloudflare.look();
    Ok(Success::of(&Value::Null))
}

/// Code 1030 is what a body with a line break inside a string was met with (linuxserver/docker-mods#307).
fn parse<T: DeserializeOwned>(body: &str) -> Result<T, Refusal> {
    serde_json::from_str(body).map_err(|error| {
        Refusal::new(400, 1030, format!("Could not parse input. Json deserialize error: {error}"))
    })
}

/// A name is unique among the live tunnels of the account. A tunnel may be given the name that it has.
fn check_name(cloudflare: &Cloudflare, account: &str, name: &str, own: Option<&str>) -> Result<(), Refusal> {
    if name.trim().is_empty() {
        return Err(Refusal::bad_request("name must not be empty"));
    }
    let is_other = |tunnel: &Tunnel| own.is_none_or(|own| tunnel.id != own);
    if live_tunnels(cloudflare, account).any(|tunnel| tunnel.name == name && is_other(tunnel)) {
        return Err(Refusal::new(409, 1013, "You already have a tunnel with this name"));
    }
    Ok(())
}

fn live_tunnels<'a>(cloudflare: &'a Cloudflare, account: &str) -> impl Iterator<Item = &'a Tunnel> {
    cloudflare.tunnels.iter().filter(move |tunnel| tunnel.account == account && !tunnel.deleted)
}

/// The tunnel with two members that Cloudflare's description of its answers does not have and its documents show.
fn with_secrets(tunnel: &Tunnel) -> Value {
    let mut shown = tunnel.to_json();
    if let Some(members) = shown.as_object_mut() {
        members.insert("token".to_owned(), tunnel.tunnel_token().into());
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
