//! Deletes what a run created, by the file of intents. An object whose create was not answered is this run's if it has
//! the whole name of an intent and was created in its quarter of an hour.

use external_dns_cloudflare_tunnel_webhook::clock::unix_seconds_of;
use serde_json::{Value, json};

use crate::guard::Bounds;
use crate::intents::{self, Event, Kind};
use crate::proxy::{END, Proxy};
use crate::run::attempt;

/// The time of a run, and what Cloudflare's clocks may differ by, in seconds: what is older than an intent, or younger
/// than its run, is not its object.
const RUN_SECONDS: u64 = 15 * 60;
const SKEW_SECONDS: u64 = 5;

/// A run that may go on is not cleaned up after by another one.
pub const AGE_MIN_SECONDS: u64 = 60 * 60;

/// Deletes them all, and says what is still left.
pub fn clean(proxy: &Proxy, leftovers: &[Event], is_of_this_run: bool) -> Vec<String> {
    proxy.state().step = END;
    let bounds = proxy.state().bounds.clone();
    let try_one = |event: &Event| {
        let name = format!("{:?} {}", event.kind, event.name);
        let deleted = attempt(|| delete(proxy, &bounds, event, is_of_this_run));
        deleted.err().map(|reason| format!("{name}: {reason}"))
    };
    leftovers.iter().filter_map(try_one).collect()
}

fn delete(proxy: &Proxy, bounds: &Bounds, event: &Event, is_of_this_run: bool) {
    assert_eq!(event.run[1..], bounds.run()[1..], "of another account or zone");
    let [records, applications, tags, tunnels] = places(bounds);
    let (list, per_page, name, created) = match event.kind {
        Kind::Record => (records, 5000, "name", "created_on"),
        Kind::Application => (applications.clone(), 1000, "domain", "created_at"),
        Kind::Tag => (tags.clone(), 1000, "name", "created_at"),
        Kind::Tunnel => (format!("{tunnels}?is_deleted=false"), 1000, "name", "created_at"),
    };
    let listed = if event.id.is_some() { Vec::new() } else { proxy.list(&list, per_page) };
    let is_old = event.at + AGE_MIN_SECONDS <= proxy.state().now();
    assert!(is_old || is_of_this_run, "its run began less than an hour ago");
    let times = event.at.saturating_sub(SKEW_SECONDS)..=event.at + RUN_SECONDS;
    let is_it = |item: &&Value| {
        let time = item[created].as_str().and_then(unix_seconds_of).and_then(|time| u64::try_from(time).ok());
        item[name] == *event.name && time.is_some_and(|time| times.contains(&time))
    };
    let id =
        |item: &Value| item[if event.kind == Kind::Tag { "name" } else { "id" }].as_str().map(str::to_owned);
    let found: Vec<String> = listed.iter().filter(is_it).filter_map(id).collect();
    let ids = event.id.clone().map_or(found, |id| vec![id]);
    assert!(!ids.is_empty() || !is_of_this_run, "not answered and not listed: `just live-clean` looks again");
    for id in &ids {
        proxy.state().known.insert(event.kind, id);
        let (method, target, body) = match event.kind {
            Kind::Record => ("POST", format!("{list}/batch"), json!({"deletes": [{"id": id}]})),
            Kind::Application => ("DELETE", format!("{applications}/{id}"), Value::Null),
            Kind::Tag => ("DELETE", format!("{tags}/{id}"), Value::Null),
            Kind::Tunnel => {
                // A `cloudflared` that was started for a look would keep it.
                proxy.call("DELETE", &format!("{tunnels}/{id}/connections"), &Value::Null);
                ("DELETE", format!("{tunnels}/{id}"), Value::Null)
            }
        };
        let answer = proxy.call(method, &target, &body);
        if answer.status != 404 && *answer.code() != 81044 {
            answer.succeeded();
        }
    }
    let gone = Event { is_gone: true, ..event.clone() };
    intents::append(&proxy.settings().intents, &gone).expect("the file of intents can be written");
}

/// Where records, applications, tags and tunnels are listed.
pub fn places(bounds: &Bounds) -> [String; 4] {
    let Bounds { account, zone, .. } = bounds;
    let of_account = |what: &str| format!("/accounts/{account}/{what}");
    let [applications, tags, tunnels] = ["access/apps", "access/tags", "cfd_tunnel"].map(of_account);
    [format!("/zones/{zone}/dns_records"), applications, tags, tunnels]
}
