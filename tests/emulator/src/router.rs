//! From method and path to the endpoint, its permission and its answer.

use crate::access::{self, Scope};
use crate::answer::{Answer, Refusal, Success};
use crate::batch;
use crate::cloudflare::Cloudflare;
use crate::http::Request;
use crate::record::query;
use crate::token::{self, Grant, Permission};
use crate::tunnel;
use crate::zone;

/// Answers a call. `path` is the one below the base URL.
pub(crate) fn answer(cloudflare: &mut Cloudflare, path: &str, request: &Request) -> Answer {
    let unpaged;
    let request = if cloudflare.whims.ignores_page {
        let others = request.query.split('&').filter(|pair| !pair.starts_with("page="));
        unpaged = Request { query: others.collect::<Vec<_>>().join("&"), ..request.clone() };
        &unpaged
    } else {
        request
    };
    route(cloudflare, path, request).map_or_else(Refusal::into_answer, Success::into_answer)
}

fn route(cloudflare: &mut Cloudflare, path: &str, request: &Request) -> Result<Success, Refusal> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let method = request.method.as_str();
    match (method, segments.as_slice()) {
        ("GET", ["user", "tokens", "verify"]) => return token::verify(cloudflare, None, request),
        ("GET", ["accounts", account, "tokens", "verify"]) => {
            return token::verify(cloudflare, Some(account), request);
        }
        _ => {}
    }
    let grant = token::authenticate(cloudflare, request)?;
    match segments.as_slice() {
        ["accounts", account, "cfd_tunnel", rest @ ..] => {
            check_identifier(account, path)?;
            grant.require_account(cloudflare, account, method)?;
            route_tunnel(cloudflare, &grant, account, rest, path, request)
        }
        ["accounts", account, "access", rest @ ..] => {
            check_identifier(account, path)?;
            grant.require_account(cloudflare, account, method)?;
            access::route(cloudflare, &grant, &Scope::Account((*account).to_owned()), rest, path, request)
        }
        ["zones"] => match method {
            "GET" => {
                grant.require(Permission::ZoneRead)?;
                zone::list(cloudflare, &grant, request)
            }
            _ => Err(not_allowed(method)),
        },
        ["zones", zone, rest @ ..] => {
            check_identifier(zone, path)?;
            let known = cloudflare.zones.iter().any(|known| known.id == *zone);
            if !known || !grant.reaches_zone(zone) {
                return Err(Refusal::authentication());
            }
            match rest {
                ["access", rest @ ..] => {
                    access::route(cloudflare, &grant, &Scope::Zone((*zone).to_owned()), rest, path, request)
                }
                _ => route_records(cloudflare, &grant, zone, rest, path, request),
            }
        }
        _ => Err(Refusal::no_route(path)),
    }
}

fn route_tunnel(
    cloudflare: &mut Cloudflare,
    grant: &Grant,
    account: &str,
    rest: &[&str],
    path: &str,
    request: &Request,
) -> Result<Success, Refusal> {
    let method = request.method.as_str();
    if let [id, ..] = rest {
        check_uuid(id, path)?;
    }
    match (method, rest) {
        ("GET", []) => {
            grant.require(Permission::TunnelRead)?;
            tunnel::list(cloudflare, account, request)
        }
        ("POST", []) => {
            grant.require(Permission::TunnelEdit)?;
            tunnel::create(cloudflare, account, &request.body)
        }
        ("GET", [id]) => {
            grant.require(Permission::TunnelRead)?;
            tunnel::show(cloudflare, account, id)
        }
        ("GET", [id, "token"]) => {
            grant.require(Permission::TunnelEdit)?;
            tunnel::show_run_token(cloudflare, account, id)
        }
        ("GET", [id, "connections"]) => {
            grant.require(Permission::TunnelRead)?;
            tunnel::connections(cloudflare, account, id)
        }
        ("PATCH", [id]) => {
            grant.require(Permission::TunnelEdit)?;
            tunnel::update(cloudflare, account, id, &request.body)
        }
        ("DELETE", [id]) => {
            grant.require(Permission::TunnelEdit)?;
            tunnel::delete(cloudflare, account, id)
        }
        ("DELETE", [id, "connections"]) => {
            grant.require(Permission::TunnelEdit)?;
            tunnel::disconnect(cloudflare, account, id, &request.query)
        }
        ("GET", [id, "configurations"]) => {
            grant.require(Permission::TunnelRead)?;
            tunnel::show_configuration(cloudflare, account, id)
        }
        ("PUT", [id, "configurations"]) => {
            grant.require(Permission::TunnelEdit)?;
            tunnel::put_configuration(cloudflare, account, id, &request.body)
        }
        (_, [] | [_] | [_, "connections" | "configurations" | "token"]) => Err(not_allowed(method)),
        _ => Err(Refusal::no_route(path)),
    }
}

fn route_records(
    cloudflare: &mut Cloudflare,
    grant: &Grant,
    zone: &str,
    rest: &[&str],
    path: &str,
    request: &Request,
) -> Result<Success, Refusal> {
    let method = request.method.as_str();
    match (method, rest) {
        ("GET", ["dns_records"]) => {
            grant.require(Permission::DnsRead)?;
            query::list(cloudflare.zone(zone), request)
        }
        ("POST", ["dns_records", "batch"]) => {
            grant.require(Permission::DnsEdit)?;
            batch::run(cloudflare, zone, &request.body)
        }
        (_, ["dns_records"] | ["dns_records", "batch"]) => Err(not_allowed(method)),
        _ => Err(Refusal::no_route(path)),
    }
}

fn not_allowed(method: &str) -> Refusal {
    let text = format!("{method} method not allowed for the api_token authentication scheme");
    Refusal::new(405, 10000, text)
}

/// Identifiers of accounts and zones.
fn check_identifier(id: &str, path: &str) -> Result<(), Refusal> {
    let is_identifier = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_identifier { Ok(()) } else { Err(Refusal::no_route(path)) }
}

fn check_uuid(id: &str, path: &str) -> Result<(), Refusal> {
    let is_uuid = id.len() == 36
        && id.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if is_uuid { Ok(()) } else { Err(Refusal::no_route(path)) }
}
