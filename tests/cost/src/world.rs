//! Cloudflare as the pieces find it: a zone and a tunnel's document, as the API sends them. At scale 1 they have 5,000
//! records and 1,000 rules, of which 900 are the program's, for 700 hostnames.

use std::fmt::Write;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::config::Config;
use external_dns_cloudflare_tunnel_webhook::ingress::Document;
use external_dns_cloudflare_tunnel_webhook::model::{AccountId, Record, TunnelId, Zone, ZoneId, ZonePlan};
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::{Snapshot, TunnelSnapshot, ZoneSnapshot};
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use external_dns_cloudflare_tunnel_webhook::reconcile::{ConfiguredTunnel, Policy, Settings};
use serde_json::value::RawValue;

use crate::Outcome;

pub(crate) const OWNER: &str = "default";
pub(crate) const ZONE: &str = "example.com";
const TUNNEL: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";
/// The path of the program's second rule of a hostname, as `/api` becomes it.
const API: &str = "^/api(/|$)";
/// A comment on a paid plan.
const COMMENT_MAX_BYTES: usize = 500;

const PUBLISHED: usize = 700;
const RULES: usize = 1_000;
const RECORDS: usize = 5_000;
/// Rules made by hand: for hostnames, for all others of the zone, and for everything.
const FOREIGN_RULES: usize = 100;

/// The hostnames that the program has published.
pub(crate) fn published(scale: usize) -> usize {
    PUBLISHED * scale
}

/// True if the hostname has a rule for a path besides the one for all paths.
pub(crate) fn has_path(number: usize) -> bool {
    number % 7 < 2
}

pub(crate) fn hostname(number: usize) -> String {
    format!("shop-{number}.{ZONE}")
}

pub(crate) fn resource(number: usize) -> String {
    format!("ingress/team-{}/shop-{number}", number % 40)
}

pub(crate) fn service(number: usize) -> String {
    format!("http://shop-{number}.team-{}.svc:8080", number % 40)
}

pub(crate) fn api_service(number: usize) -> String {
    format!("http://api-{number}.team-{}.svc:8080", number % 40)
}

fn tunnel() -> TunnelId {
    TunnelId::parse(TUNNEL).expect("a well-formed id")
}

pub(crate) fn settings() -> Settings {
    let tunnel = ConfiguredTunnel { id: tunnel(), name: "home".into(), is_local: false };
    let given = [("CF_API_TOKEN", "token"), ("CF_TUNNEL_ID", "home"), ("OWNER_ID", OWNER)];
    let given = given.map(|(variable, text)| (variable.to_owned(), text.to_owned()));
    let policy = Config::read(&given.into()).expect("the minimum").provider.policy;
    Settings::new(
        Policy { move_grace: Duration::ZERO, own_addresses: Vec::new(), ..policy },
        tunnel,
        Vec::new(),
    )
}

/// What the API answers.
pub(crate) struct World {
    records: String,
    configuration: String,
}

impl World {
    pub(crate) fn new(scale: usize) -> Self {
        Self { records: records(scale), configuration: configuration(scale) }
    }

    /// Reads the answers, as the program does before a decision.
    pub(crate) fn snapshot(&self) -> Outcome<Snapshot> {
        let Self { records, configuration } = self;
        let records: Vec<Record> = serde_json::from_str(records)?;
        let zone = Zone {
            id: ZoneId::new(ZONE),
            name: ZONE.into(),
            account: AccountId::new("account"),
            plan: ZonePlan::Paid,
            status: "active".into(),
            paused: false,
        };
        let configuration: Box<RawValue> = serde_json::from_str(configuration)?;
        let document = Document::parse(Some(&configuration))?;
        Ok(Snapshot {
            zones: vec![ZoneSnapshot::new(zone, records)],
            tunnels: [(tunnel(), TunnelSnapshot::new(document, true, 1))].into(),
            ..Snapshot::default()
        })
    }
}

/// The zone's records: what is published, and what everybody else has.
fn records(scale: usize) -> String {
    let mut page = String::from("[");
    let led = format!("{TUNNEL}.cfargotunnel.com");
    for number in 0..published(scale) {
        push_record(&mut page, number, &hostname(number), "CNAME", &led, &comment(number));
    }
    push_record(&mut page, published(scale), &format!("*.{ZONE}"), "A", "192.0.2.1", "");
    for number in published(scale) + 1..RECORDS * scale {
        match number % 4 {
            0 => push_record(
                &mut page,
                number,
                &format!("rack-{number}.{ZONE}"),
                "A",
                "192.0.2.7",
                "rack 7, old building",
            ),
            1 => push_record(
                &mut page,
                number,
                &format!("hand-{number}.{ZONE}"),
                "CNAME",
                &led,
                "Jo | ask before you touch it",
            ),
            2 => push_record(
                &mut page,
                number,
                &format!("_acme-challenge.host-{number}.{ZONE}"),
                "TXT",
                r#"\"v=spf1 include:_spf.example.net ip4:192.0.2.0\/24 \u003call\u003e\" \"gr\u00fc\u00dfe\""#,
                "",
            ),
            _ => push_record(
                &mut page,
                number,
                &format!("mail-{number}.branch-{}.{ZONE}", number % 40),
                "MX",
                "mx.example.net",
                "",
            ),
        }
    }
    page.push(']');
    page
}

/// A record as the API shows it. `content` is JSON already.
fn push_record(page: &mut String, number: usize, name: &str, kind: &str, content: &str, comment: &str) {
    let separator = if page.len() > 1 { "," } else { "" };
    let proxied = kind == "CNAME";
    write!(
        page,
        r#"{separator}{{"id":"{number:032x}","name":"{name}","type":"{kind}","content":"{content}","proxiable":{proxied},"proxied":{proxied},"ttl":1,"settings":{{}},"meta":{{}},"comment":"{comment}","tags":[],"created_on":"2026-01-31T12:00:00.123456Z","modified_on":"2026-01-31T12:00:00.123456Z","comment_modified_on":"2026-01-31T12:00:00.123456Z"}}"#
    )
    .expect("a text takes everything");
}

fn comment(number: usize) -> String {
    let mut stamp = Stamp::new(OWNER);
    stamp.resource = Some(resource(number).into());
    stamp.bind_to(&hostname(number));
    let path = has_path(number).then_some(Some(API));
    stamp.claims.rules = [None].into_iter().chain(path).map(|path| Digest::of(&tunnel(), path)).collect();
    stamp.render(COMMENT_MAX_BYTES).expect("there is room")
}

/// The tunnel's document: rules by hand in front, then ours, then what takes the rest.
fn configuration(scale: usize) -> String {
    let mut rules = Vec::with_capacity(RULES * scale);
    for number in 0..FOREIGN_RULES * scale - 2 {
        rules.push(format!(
            r#"{{ "service": "https://10.0.0.7:8443",  "hostname":"hand-{number}.{ZONE}", "originRequest": {{"noTLSVerify": true, "note": "\u00fcber"}} }}"#
        ));
    }
    for number in 0..published(scale) {
        let (hostname, service, api) = (hostname(number), service(number), api_service(number));
        if has_path(number) {
            rules.push(format!(r#"{{"hostname":"{hostname}","path":"{API}","service":"{api}","originRequest":{{"connectTimeout":10}}}}"#));
        }
        rules.push(format!(
            r#"{{"hostname":"{hostname}","service":"{service}","originRequest":{{"connectTimeout":10}}}}"#
        ));
    }
    rules.push(format!(r#"{{"hostname":"*.{ZONE}","service":"http://wild:80"}}"#));
    rules.push(r#"{"service":"http_status:404"}"#.to_owned());
    format!(r#"{{"ingress":[{}],"warp-routing":{{"enabled":false}}}}"#, rules.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_5000_records_and_1000_rules_and_ten_times_as_many() {
        for scale in [1, 10] {
            let snapshot = World::new(scale).snapshot().expect("it is as the API sends it");
            let zone = snapshot.zones.first().expect("a zone");
            let tunnel = snapshot.tunnels.values().next().expect("a tunnel");
            assert_eq!(zone.records().len(), RECORDS * scale);
            assert_eq!(tunnel.document.rules().len(), RULES * scale);
        }
    }
}
