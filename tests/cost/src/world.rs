//! Cloudflare as the pieces find it: a zone and a tunnel's document, as the API sends them. At scale 1 they have 5,000
//! records and 1,000 rules, of which 900 are the program's, for 700 hostnames. At every scale an account has the same
//! 500 Access applications, which is all that Cloudflare allows.

use std::fmt::Write;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::config::Config;
use external_dns_cloudflare_tunnel_webhook::ingress::Document;
use external_dns_cloudflare_tunnel_webhook::model::access::{
    Application, ApplicationKind, AttachedPolicy, PolicyDecision, ReusablePolicy, TeamName,
};
use external_dns_cloudflare_tunnel_webhook::model::{
    AccountId, Hostname, Record, TunnelId, Zone, ZoneId, ZonePlan,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::place::{Place, tag};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::{AccessReading, AccessSnapshot};
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::{
    Reading, Snapshot, TunnelSnapshot, ZoneSnapshot,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use external_dns_cloudflare_tunnel_webhook::reconcile::{ConfiguredTunnel, OperatorSettings, Settings};
use serde_json::value::RawValue;

use crate::Outcome;

pub(crate) const OWNER: &str = "default";
pub(crate) const ZONE: &str = "example.com";
const TUNNEL: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";
/// The path of the program's second rule of a hostname, as `/api` becomes it.
const API: &str = "^/api(/|$)";
/// The hostnames with a login: with their paths they have 500 rules, and an application for each.
pub(crate) const PROTECTED: usize = 388;
/// The policy of every application.
pub(crate) const POLICY: &str = "staff";
const CATCH_ALL: &str = r#"{"service":"http_status:404"}"#;
const TEAM: &str = "my-team";
/// The hostname with many paths has so many at scale 1. A comment on a paid plan has room for ten times as many.
const PATHS: usize = 14;
const HOSTNAMES_WITH_PATHS: usize = 20;
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
    let tunnel = ConfiguredTunnel { id: tunnel(), name: "home".into(), is_locally_managed: false };
    let given = [("CF_API_TOKEN", "token"), ("CF_TUNNEL_ID", "home"), ("OWNER_ID", OWNER)];
    let given = given.map(|(variable, text)| (variable.to_owned(), text.to_owned()));
    let policy = Config::read(&given.into()).expect("the minimum").provider.operator;
    Settings::new(
        OperatorSettings { move_grace: Duration::ZERO, own_addresses: Vec::new(), ..policy },
        tunnel,
        Vec::new(),
    )
}

/// What the API answers.
pub(crate) struct World {
    records: String,
    configuration: String,
    access: AccessReading,
}

impl World {
    pub(crate) fn new(scale: usize) -> Self {
        let (records, configuration) = (records(scale, 0), configuration(scale, 0));
        Self { records, configuration, access: AccessReading::NotAsked }
    }

    /// The same, with a login in front of [`PROTECTED`] of the hostnames.
    pub(crate) fn protected(scale: usize) -> Self {
        let (records, configuration) = (records(scale, PROTECTED), configuration(scale, PROTECTED));
        Self { records, configuration, access: AccessReading::Read(access()) }
    }

    /// A few hostnames with many paths each, and nothing else.
    pub(crate) fn with_paths(scale: usize) -> Self {
        let (mut records, mut rules) = (String::from("["), Vec::new());
        for number in 0..HOSTNAMES_WITH_PATHS {
            let hostname = hostname(number);
            let paths: Vec<String> = (0..paths(scale)).map(path_expression).collect();
            let comment = stamp(number, false, paths.iter().map(|path| Some(&**path)));
            push_record(
                &mut records,
                number,
                &hostname,
                "CNAME",
                &format!("{TUNNEL}.cfargotunnel.com"),
                &comment,
            );
            rules.extend(paths.iter().map(|path| rule(&hostname, Some(path), &service(number), None)));
        }
        records.push(']');
        rules.push(CATCH_ALL.to_owned());
        Self { records, configuration: configuration_of(&rules), access: AccessReading::NotAsked }
    }

    /// Reads the answers, as the program does before a decision.
    pub(crate) fn snapshot(&self) -> Outcome<Snapshot> {
        let Self { records, configuration, access } = self;
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
        Ok(Snapshot::new(Reading {
            zones: vec![ZoneSnapshot::new(zone, records)],
            tunnels: [(tunnel(), TunnelSnapshot { document, writable: true, version: 1 })].into(),
            access: access.clone(),
            ..Reading::new(settings().into())
        }))
    }
}

/// The paths of each hostname that has many.
pub(crate) fn paths(scale: usize) -> usize {
    PATHS * scale
}

pub(crate) fn hostnames_with_paths() -> std::ops::Range<usize> {
    0..HOSTNAMES_WITH_PATHS
}

/// A path as `/part-7` becomes it.
fn path_expression(number: usize) -> String {
    format!("^/part-{number}(/|$)")
}

/// The account's applications: one for each rule of a hostname with a login.
fn access() -> AccessSnapshot {
    let places = (0..PROTECTED).flat_map(|number| {
        let paths = [None].into_iter().chain(has_path(number).then_some(Some(API)));
        paths.map(move |path| (number, path))
    });
    let applications = places.map(|(number, path)| {
        let hostname = Hostname::parse(&hostname(number)).expect("a hostname");
        let place = Place::of(&hostname, path);
        let policy = AttachedPolicy { id: POLICY.into(), decision: PolicyDecision::Allow };
        Application {
            id: format!("application of {place}").into(),
            name: place.application_name(OWNER).into(),
            audience: audience(number, path).into(),
            kind: ApplicationKind::SelfHosted,
            destinations: place.destinations(),
            policies: Some(vec![policy]),
            tags: vec![tag(OWNER).into()],
            session_duration: Some("24h".into()),
            created_unix_seconds: Some(0),
        }
    });
    AccessSnapshot {
        team: TeamName::parse(TEAM).expect("a label"),
        applications: applications.collect(),
        unread_zones: Vec::new(),
        policies: Ok([ReusablePolicy {
            id: POLICY.into(),
            name: POLICY.into(),
            decision: PolicyDecision::Allow,
        }]
        .into()),
        pending: Vec::new(),
    }
}

/// As long as Cloudflare's.
fn audience(number: usize, path: Option<&str>) -> String {
    format!("{:064x}", number * 2 + usize::from(path.is_some()))
}

/// The zone's records: what is published, and foreign ones.
fn records(scale: usize, protected: usize) -> String {
    let mut page = String::from("[");
    let led = format!("{TUNNEL}.cfargotunnel.com");
    for number in 0..published(scale) {
        let paths = [None].into_iter().chain(has_path(number).then_some(Some(API)));
        push_record(
            &mut page,
            number,
            &hostname(number),
            "CNAME",
            &led,
            &stamp(number, number < protected, paths),
        );
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

fn stamp<'p>(number: usize, is_protected: bool, paths: impl Iterator<Item = Option<&'p str>>) -> String {
    let mut stamp = Stamp::new(OWNER);
    stamp.resource = Some(resource(number).into());
    stamp.bind_to(&hostname(number));
    stamp.claims.is_protected = is_protected;
    stamp.claims.digests = paths.map(|path| Digest::of(&tunnel(), path)).collect();
    stamp.render(COMMENT_MAX_BYTES).expect("there is room")
}

/// The tunnel's document: rules by hand in front, then ours, then what takes the rest.
fn configuration(scale: usize, protected: usize) -> String {
    let mut rules = Vec::with_capacity(RULES * scale);
    for number in 0..FOREIGN_RULES * scale - 2 {
        rules.push(format!(
            r#"{{ "service": "https://10.0.0.7:8443",  "hostname":"hand-{number}.{ZONE}", "originRequest": {{"noTLSVerify": true, "note": "\u00fcber"}} }}"#
        ));
    }
    for number in 0..published(scale) {
        let (hostname, service, api) = (hostname(number), service(number), api_service(number));
        let is_protected = number < protected;
        if has_path(number) {
            let audience = is_protected.then(|| audience(number, Some(API)));
            rules.push(rule(&hostname, Some(API), &api, audience));
        }
        let audience = is_protected.then(|| audience(number, None));
        rules.push(rule(&hostname, None, &service, audience));
    }
    rules.push(format!(r#"{{"hostname":"*.{ZONE}","service":"http://wild:80"}}"#));
    rules.push(CATCH_ALL.to_owned());
    configuration_of(&rules)
}

/// A rule of ours, with the check of an application.
fn rule(hostname: &str, path: Option<&str>, service: &str, audience: Option<String>) -> String {
    let path = path.map(|path| format!(r#""path":"{path}","#)).unwrap_or_default();
    let access = audience.map(|audience| {
        format!(r#","access":{{"required":true,"teamName":"{TEAM}","audTag":["{audience}"]}}"#)
    });
    let access = access.unwrap_or_default();
    format!(
        r#"{{"hostname":"{hostname}",{path}"service":"{service}","originRequest":{{"connectTimeout":10{access}}}}}"#
    )
}

fn configuration_of(rules: &[String]) -> String {
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
