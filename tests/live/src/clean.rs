//! Deletes what a run created, by the file of intents. An object whose create was not answered is this run's if it has the
//! whole name of an intent and was created in its quarter of an hour.

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
        let time = item[created].as_str().and_then(unix_seconds);
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

/// RFC 3339 in UTC, as Cloudflare writes times.
fn unix_seconds(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4).filter(|year| *year >= 1970)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    // Counted from March, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    text.ends_with('Z').then_some((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_cloudflare_writes_them() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2024-02-29T00:00:00.012345Z", Some(1_709_164_800)),
            ("2026-01-01T00:00:00+01:00", None),
        ] {
            assert_eq!(unix_seconds(text), expected, "{text}");
        }
    }
}
