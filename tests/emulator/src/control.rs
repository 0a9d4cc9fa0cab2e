//! Endpoints for tests in other languages, under `/_emulator`, without credentials and not counted as calls.
//!
//! The table of [`HELP`] is the reference; the binary prints it with `--help`.

mod access;

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::access::Visitor;
use crate::answer::{Answer, Refusal};
use crate::batch;
use crate::calls::Call;
use crate::cloudflare::Cloudflare;
use crate::fault::{Effect, Fault, Matcher, When};
use crate::http::Request;
use crate::json::{Members, to_raw};
use crate::record::Record;
use crate::server::Shared;
use crate::tunnel::{ConfigSource, NewTunnel};
use crate::visit::{Visit, visit};
use crate::watch::{VisitChange, Watched};
use crate::zone::Plan;

/// The endpoints, their bodies and answers.
pub const HELP: &str = r#"Control endpoints, below control_url; no credentials, not counted as calls, bodies and answers are JSON:
  GET    /state           accounts; zones with records; tunnels with configuration (to the byte) and version; access:
                          organizations, policies, tags, and applications, each with its zone, or null
  GET    /secrets         every secret that a tunnel has or had, and every tunnel token: what no output may hold
  GET    /calls           every call in order: sequence, method, path, query, body (without a tunnel_secret), status
                          (null: unanswered)
  DELETE /calls           the same, and forgets them
  POST   /faults          {"method": "PUT", "path": "/zones/**", "nth": 1, "fault": <fault>}; says how many wait.
                          In the path * is one segment, ** at the end any rest. Without method or path: any.
                          Without nth: every matching call until the faults are deleted
  DELETE /faults          forgets them and closes the connections of calls that hang
  POST   /records         {"zone": "example.com", "deletes": [], "patches": [], "posts": []}:
                          a batch by another writer, under all of Cloudflare's rules
  POST   /configurations  {"tunnel": "shop", "config": {..}}: a PUT by another writer; says the version
  POST   /zones           {"name": "example.net", "plan": "free"}; says the id
  POST   /tunnels         {"name": "third", "config_src": "cloudflare"}, or "local"; says the id. One connector is
                          connected, other than after a POST to the API
  POST   /run             {"token": ".."}: one more connector starts with what is in a token file; says the tunnel's id.
                          400 with cloudflared's words where the token is none, or outdated
  POST   /connectors      {"tunnel": "shop", "connectors": 2, "lagging_at": 7}: how many replicas of cloudflared there
                          are, and the version that the first one stays at, without it the latest
  POST   /delays          {"tunnel": "shop", "configurations_ms": [0, 300], "records_ms": 300}: how long what is written
                          from now on takes to each connector of the tunnel, and to the resolvers; either may be left out
                          {"unlisted_calls": 2, "unlisted_ms": 300}: how many lists, and for how long all of them, leave
                          out a tunnel that is made by a POST to the API from now on
  POST   /access          {"team": "shop"}: the account's team of Access
  POST   /policies        {"name": "staff", "decision": "allow", "include": [{"everyone": {}}]}: a reusable policy; says
                          the id
  POST   /applications    {"application": {"type": "self_hosted", ..}}: a POST by another writer to the account. With
                          "id" (or name) a PUT, with "delete": true besides a DELETE
  POST   /past            {}: from now on past states are kept, for answers that are old
  POST   /clock           {"advance_seconds": 300}: rate limits run out sooner
  POST   /visit           {"host": "www.example.com", "path": "/"}: what a visitor without a login gets: text, and where
                          a tunnel serves it: tunnel, rule (0-based), service, audience; where Access does not let it
                          through: turned_away (the application, or null), or refused (cloudflared's status)
  POST   /watch           {"urls": ["https://www.example.com/"]}: visitors of these, from now on at every change
  GET    /watched         for each url the changes since then, in order: from_ms, until_ms, and got, a visit for each
                          connector that answers otherwise than the others. Changes of one instant are told apart

A fault is one of
  "reset" "hang" "garbage"              nothing is done
  "truncated" "done_but_unanswered"     the call is done
  {"status": 429, "headers": {"retry-after": "300"}, "body": ".."}
  {"old": 2}                            the answer shows what it is about as that was two of its own writes ago, once
                                        the past is kept
  {"member": "config", "value": null}   the call is done, and this member of its result has another value
"#;

/// Where these endpoints begin.
pub(crate) const BASE_PATH: &str = "/_emulator";

pub(crate) fn answer(shared: &Shared, path: &str, request: &Request) -> Answer {
    match route(shared, path, request) {
        Ok(body) => Answer::new(200, body.get()),
        Err(refusal) => refusal.into_answer(),
    }
}

fn route(shared: &Shared, path: &str, request: &Request) -> Result<Box<RawValue>, Refusal> {
    let mut inner = shared.lock();
    inner.cloudflare.settle();
    match (request.method.as_str(), path) {
        ("GET", "/state") => return Ok(state(&inner.cloudflare)),
        ("GET", "/secrets") => return Ok(to_raw(&inner.cloudflare.secrets())),
        ("GET", "/watched") => return Ok(to_raw(&watched(&inner.cloudflare))),
        ("GET", "/calls") => return Ok(to_raw(&shown(inner.calls.all()))),
        ("DELETE", "/calls") => return Ok(to_raw(&shown(&inner.calls.take()))),
        ("DELETE", "/faults") => {
            inner.faults.clear();
            inner.releases += 1;
            shared.woken.notify_all();
            return Ok(to_raw(&json!({"waiting": 0})));
        }
        ("POST", _) => {}
        _ => return Err(Refusal::no_route(&request.path)),
    }
    let members: Map<String, Value> =
        serde_json::from_str(&request.body).map_err(|error| Refusal::bad_request(error.to_string()))?;
    let text = |name: &str| {
        let value = members.get(name).and_then(Value::as_str);
        value.ok_or_else(|| Refusal::bad_request(format!("{name} is missing")))
    };
    let known = |found: bool, what: &str| {
        if found { Ok(()) } else { Err(Refusal::bad_request(format!("there is no such {what}"))) }
    };
    let cloudflare = &mut inner.cloudflare;
    let body = match path {
        "/faults" => {
            let fault = fault(members.get("fault").unwrap_or(&Value::Null))?;
            if fault.needs_past() && cloudflare.past.is_none() {
                return Err(Refusal::bad_request("POST /past comes before an old answer"));
            }
            let method = text("method").unwrap_or("*");
            let matcher = Matcher::call(method, text("path").unwrap_or("/**"));
            let nth = members.get("nth").and_then(Value::as_u64).and_then(|nth| usize::try_from(nth).ok());
            inner.faults.arm(matcher, nth.map_or(When::Always, When::Nth), Effect::Fault(fault));
            json!({"waiting": inner.faults.waiting()})
        }
        "/records" => {
            let zone = text("zone")?;
            known(cloudflare.find_zone(zone).is_some(), "zone")?;
            return batch::run(cloudflare, zone, &request.body).map(|success| success.result);
        }
        "/configurations" => {
            let tunnel = text("tunnel")?;
            known(cloudflare.has_tunnel(tunnel), "tunnel")?;
            let document = Members::parse(&request.body).unwrap_or_default();
            let config = document.last("config").map_or("null", RawValue::get);
            json!({"version": cloudflare.put_configuration(tunnel, config)?})
        }
        "/zones" => {
            let plan = if text("plan").is_ok_and(|plan| plan != "free") { Plan::Pro } else { Plan::Free };
            json!({"id": cloudflare.add_zone(text("name")?, plan)})
        }
        "/tunnels" => {
            let is_local = text("config_src").is_ok_and(|source| source == ConfigSource::Local.as_str());
            let config_source = if is_local { ConfigSource::Local } else { ConfigSource::Cloudflare };
            let new = NewTunnel { config_source, ..NewTunnel::named(text("name")?) };
            json!({"id": cloudflare.add_tunnel_with(new)})
        }
        "/run" => json!({"id": cloudflare.run_connector(text("token")?).map_err(Refusal::bad_request)?}),
        "/connectors" => {
            let tunnel = text("tunnel")?;
            known(cloudflare.has_tunnel(tunnel), "tunnel")?;
            let connectors = members.get("connectors").and_then(Value::as_u64).unwrap_or_default();
            let tunnel = cloudflare.tunnel_mut(tunnel);
            tunnel.connectors = usize::try_from(connectors).unwrap_or_default();
            tunnel.lagging_at = members.get("lagging_at").and_then(Value::as_i64);
            json!({})
        }
        "/delays" => {
            let milliseconds = |value: &Value| value.as_u64().map(Duration::from_millis);
            if let Some(delays) = members.get("configurations_ms").and_then(Value::as_array) {
                let tunnel = text("tunnel")?;
                known(cloudflare.has_tunnel(tunnel), "tunnel")?;
                let delays: Vec<Duration> = delays.iter().filter_map(milliseconds).collect();
                cloudflare.delay_configurations(tunnel, &delays);
            }
            if let Some(delay) = members.get("records_ms").and_then(milliseconds) {
                cloudflare.delay_records(delay);
            }
            if let Some(time) = members.get("unlisted_ms").and_then(milliseconds) {
                cloudflare.whims.unlisted_time = time;
            }
            let calls = members.get("unlisted_calls").and_then(Value::as_u64);
            if let Some(calls) = calls.and_then(|calls| usize::try_from(calls).ok()) {
                cloudflare.whims.unlisted_calls = calls;
            }
            json!({})
        }
        "/access" => {
            cloudflare.set_up_access(text("team")?);
            json!({})
        }
        "/policies" => json!({"id": cloudflare.add_policy(&Value::Object(members.clone()))?}),
        "/applications" => access::edit_application(cloudflare, &members)?,
        "/past" => {
            cloudflare.keep_past();
            json!({})
        }
        "/clock" => {
            let seconds = members.get("advance_seconds").and_then(Value::as_u64).unwrap_or_default();
            cloudflare.advance_clock(Duration::from_secs(seconds));
            json!({})
        }
        "/visit" => {
            visited(&visit(cloudflare, Visitor::WithoutLogin, text("host")?, text("path").unwrap_or("/")))
        }
        "/watch" => {
            let urls = members.get("urls").and_then(Value::as_array).into_iter().flatten();
            let urls: Vec<&str> = urls.filter_map(Value::as_str).collect();
            known(urls.iter().all(|url| url.starts_with("https://")), "address")?;
            cloudflare.watch_as(&[Visitor::WithoutLogin], &urls);
            json!({})
        }
        _ => return Err(Refusal::no_route(&request.path)),
    };
    inner.cloudflare.look();
    Ok(to_raw(&body))
}

fn fault(value: &Value) -> Result<Fault, Refusal> {
    let unknown = || Refusal::bad_request(format!("{value} is no fault"));
    Ok(match value.as_str() {
        Some("reset") => Fault::Reset,
        Some("hang") => Fault::Hang,
        Some("truncated") => Fault::Truncated,
        Some("garbage") => Fault::Garbage,
        Some("done_but_unanswered") => Fault::DoneButUnanswered,
        Some(_) => return Err(unknown()),
        None if value.get("old").is_some() => {
            let writes = value.get("old").and_then(Value::as_u64);
            Fault::Old { writes: writes.and_then(|writes| usize::try_from(writes).ok()).ok_or_else(unknown)? }
        }
        None if value.get("member").is_some() => {
            let member = value.get("member").and_then(Value::as_str).ok_or_else(unknown)?;
            Fault::says(member, &value.get("value").unwrap_or(&Value::Null).to_string())
        }
        None => {
            let code = value.get("status").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            let headers = value.get("headers").and_then(Value::as_object).into_iter().flatten();
            Fault::Status {
                code: code.ok_or_else(unknown)?,
                headers: headers.map(|(name, value)| (name.clone(), plain(value))).collect(),
                body: value.get("body").map(plain).unwrap_or_default(),
            }
        }
    })
}

/// Text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shown(calls: &[Call]) -> Vec<Value> {
    let show = |call: &Call| {
        json!({
            "sequence": call.sequence,
            "method": call.method,
            "path": call.path,
            "query": call.query,
            "body": call.body,
            "status": call.status,
        })
    };
    calls.iter().map(show).collect()
}

fn visited(visit: &Visit) -> Value {
    let mut shown = json!({"text": visit.to_string()});
    let Some(members) = shown.as_object_mut() else {
        return shown;
    };
    let mut show = |name: &str, value: Value| members.insert(name.to_owned(), value);
    match visit {
        Visit::Served { tunnel, rule, service, origin_request: _, audience } => {
            show("tunnel", json!(tunnel));
            show("rule", json!(rule));
            show("service", json!(service));
            show("audience", json!(audience));
        }
        Visit::TurnedAway { application } => {
            show("turned_away", json!(application));
        }
        Visit::Refused { tunnel, rule, status } => {
            show("tunnel", json!(tunnel));
            show("rule", json!(rule));
            show("refused", json!(status));
        }
        Visit::Elsewhere { .. } | Visit::NoSuchName | Visit::NotProxied | Visit::NoTunnel => {}
    }
    shown
}

fn watched(cloudflare: &Cloudflare) -> Vec<Value> {
    let changed = |VisitChange { from, until, got }: &VisitChange| {
        let got: Vec<Value> = got.iter().map(visited).collect();
        let milliseconds = |at: &Duration| u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        json!({"from_ms": milliseconds(from), "until_ms": milliseconds(until), "got": got})
    };
    let shown = |Watched { url, visitor, changes }: &Watched| {
        let changes: Vec<Value> = changes.iter().map(changed).collect();
        json!({"url": url, "visitor": visitor.as_str(), "changes": changes})
    };
    cloudflare.watched().iter().map(shown).collect()
}

/// Configurations are shown as they are stored, to the byte.
fn state(cloudflare: &Cloudflare) -> Box<RawValue> {
    #[derive(serde::Serialize)]
    struct Tunnel<'a> {
        id: &'a str,
        name: &'a str,
        account: &'a str,
        config_src: &'a str,
        deleted: bool,
        version: i64,
        config: Option<&'a RawValue>,
    }
    #[derive(serde::Serialize)]
    struct State<'a> {
        accounts: Vec<Value>,
        zones: Vec<Value>,
        tunnels: Vec<Tunnel<'a>>,
        access: Value,
    }
    let zones = cloudflare.zones().iter().map(|zone| {
        let records: Vec<Value> = zone.records.iter().map(Record::to_json).collect();
        json!({"id": zone.id, "name": zone.name, "account": zone.account.id, "records": records})
    });
    let tunnels = cloudflare.tunnels().iter().map(|tunnel| Tunnel {
        id: &tunnel.id,
        name: &tunnel.name,
        account: &tunnel.account,
        config_src: tunnel.config_source.as_str(),
        deleted: tunnel.deleted,
        version: tunnel.version,
        config: tunnel.config.as_deref(),
    });
    let accounts =
        cloudflare.accounts().iter().map(|account| json!({"id": account.id, "name": account.name}));
    to_raw(&State {
        accounts: accounts.collect(),
        zones: zones.collect(),
        tunnels: tunnels.collect(),
        access: access::state(cloudflare),
    })
}
