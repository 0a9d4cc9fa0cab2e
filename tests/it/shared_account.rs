//! A Cloudflare with two zones and two tunnels that have foreign rules and records everywhere, and a watch over what
//! may never happen there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cloudflare_emulator::{Cloudflare, Emulator, Matcher, Plan, Record, Visit};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::model::{TunnelId, hostname};
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use test_support::external_dns::ExternalDns;
use test_support::harness::Harness;

/// Another tunnel's document: a path rule of theirs on one of our hostnames among the rest.
pub(crate) const OFFICE_DOCUMENT: &str = r#"{"ingress":[{"hostname":"legacy.example.com","service":"http://legacy:80","x":1.10},{"hostname":"web.example.com", "path":"^/theirs$", "service":"http://theirs:81"},{"service":"http_status:502"}],"b":12345678901234567890}"#;

/// Begins the hostnames of what is foreign until it is taken over.
pub(crate) const TO_BE_ADOPTED: &str = "adopted";

/// What visitors of foreign hostnames ask for.
const HOSTS: [&str; 7] = [
    "hand.example.com",
    "anything.example.com",
    "deep.under.example.com",
    "elsewhere.example.com",
    "legacy.example.com",
    "hand.example.org",
    "example.com",
];
const PATHS: [&str; 4] = ["/", "/api", "/theirs", "/picture.png"];

/// More writes than any test makes between two arms of the watch.
const WATCHED_WRITES: usize = 60;

/// Loops that ExternalDNS may need after the last fault until nothing changes.
const LOOPS_TO_REST: usize = 6;

/// The account, what in it is not ours, and what went wrong so far.
pub(crate) struct SharedAccount {
    pub(crate) harness: Harness,
    pub(crate) office: String,
    pub(crate) organisation: String,
    foreign: Arc<Foreign>,
    visits: Vec<(String, String)>,
    violations: Arc<Mutex<Vec<String>>>,
}

impl SharedAccount {
    pub(crate) fn new() -> Self {
        Self::holding(|_| {})
    }

    /// With `more` that is foreign.
    pub(crate) fn holding(more: impl FnOnce(&Emulator)) -> Self {
        let harness = Harness::with_foreign();
        let office = harness.cloudflare.add_tunnel("office");
        harness.cloudflare.put_configuration(&office, OFFICE_DOCUMENT).expect("cloudflared takes it");
        let organisation = harness.cloudflare.add_zone("example.org", Plan::Free);
        let records = [
            (&harness.zone, "legacy.example.com", "CNAME", format!("{office}.cfargotunnel.com"), true),
            (&harness.zone, "*.example.com", "CNAME", format!("{}.cfargotunnel.com", harness.tunnel), true),
            (&organisation, "hand.example.org", "A", "192.0.2.7".to_owned(), true),
            (&organisation, "example.org", "MX", "mail.example.org".to_owned(), false),
        ];
        for (zone, name, kind, content, proxied) in records {
            let record =
                json!({"name": name, "type": kind, "content": content, "proxied": proxied, "priority": 10});
            harness.cloudflare.add_record(zone, record).expect("Cloudflare takes it");
        }
        more(&harness.cloudflare);
        let foreign = Arc::new(harness.cloudflare.edit(|cloudflare| Foreign::of(cloudflare)));
        let visits = visits(&harness.cloudflare);
        Self { harness, office, organisation, foreign, visits, violations: Arc::default() }
    }

    pub(crate) fn cloudflare(&self) -> &Emulator {
        &self.harness.cloudflare
    }

    /// Looks right after every write from now on, until faults are cleared.
    pub(crate) fn watch(&self) {
        for nth in 1..=WATCHED_WRITES {
            let (foreign, violations) = (Arc::clone(&self.foreign), Arc::clone(&self.violations));
            self.cloudflare().edit_after(Matcher::writes(), nth, move |cloudflare| {
                let found = foreign.violations(cloudflare);
                violations.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
            });
        }
    }

    /// Forgets the faults that wait, and goes on watching.
    pub(crate) fn clear_faults(&self) {
        self.cloudflare().clear_faults();
        self.cloudflare().release();
        self.watch();
    }

    /// What was ever seen that must not be, now included.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut found = self.violations.lock().unwrap_or_else(PoisonError::into_inner).clone();
        found.extend(self.cloudflare().edit(|cloudflare| self.foreign.violations(cloudflare)));
        for ((asked, before), (_, now)) in self.visits.iter().zip(visits(self.cloudflare())) {
            if *before != now {
                found.push(format!("a visitor of {asked} got {before} and now gets {now}"));
            }
        }
        found.dedup();
        found
    }

    /// Documents and records without ids, in an order that does not depend on when they were made.
    pub(crate) fn state(&self) -> String {
        self.cloudflare().edit(|cloudflare| {
            let tunnels = cloudflare.tunnels().iter().map(|tunnel| {
                let document = cloudflare.configuration(&tunnel.id).map(Split::of).unwrap_or_default();
                format!("tunnel {}: {:?}\n  {}\n", tunnel.name, document.frame, document.rules.join("\n  "))
            });
            let mut records: Vec<String> = Vec::new();
            for zone in cloudflare.zones() {
                let of_zone = cloudflare.records(&zone.id).iter();
                records.extend(of_zone.map(|record| format!("{}: {}", zone.name, shown(record))));
            }
            records.sort_unstable();
            tunnels.chain(records).collect()
        })
    }
}

/// One record without its id and its dates.
pub(crate) fn shown(record: &Record) -> String {
    let Record { name, kind, content, proxied, ttl, comment, .. } = record;
    format!("record {name} {kind} {content} proxied={proxied} ttl={ttl} {comment:?}\n")
}

/// Plays loops until one changes nothing, and then two more that must write nothing.
pub(crate) fn settle(
    external_dns: ExternalDns,
    cloudflare: &Emulator,
    desired: &[Endpoint],
) -> Result<(), String> {
    let mut last = None;
    for _ in 0..LOOPS_TO_REST {
        let planned = match external_dns.run_loop(desired) {
            // A hostname that a wildcard's tunnel takes over goes in the next loop.
            Err(503) => Err(503),
            Err(status) => return Err(format!("a loop without fault got {status}")),
            Ok(planned) if planned == Default::default() => return stays(external_dns, cloudflare, desired),
            Ok(planned) => Ok(planned),
        };
        last = Some(planned);
    }
    Err(format!("no rest after {LOOPS_TO_REST} loops; the last one got {last:#?}"))
}

/// Two loops that must plan and write nothing.
fn stays(external_dns: ExternalDns, cloudflare: &Emulator, desired: &[Endpoint]) -> Result<(), String> {
    cloudflare.take_calls();
    for _ in 0..2 {
        let changes =
            external_dns.run_loop(desired).map_err(|status| format!("a loop at rest got {status}"))?;
        if changes != Default::default() {
            return Err(format!("at rest and yet: {changes:#?}"));
        }
    }
    match cloudflare.count_calls().writes {
        0 => Ok(()),
        writes => Err(format!("{writes} writes in loops at rest")),
    }
}

/// What is not ours.
struct Foreign {
    documents: BTreeMap<String, Split>,
    records: Vec<String>,
}

/// A document taken apart: every member but the rules, and the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Split {
    frame: BTreeMap<String, String>,
    rules: Vec<String>,
}

impl Split {
    fn of(config: &RawValue) -> Self {
        let mut frame: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(config.get()).expect("an object");
        let ingress =
            frame.remove("ingress").map_or_else(|| "[]".to_owned(), |ingress| ingress.get().to_owned());
        let rules: Vec<Box<RawValue>> = serde_json::from_str(&ingress).expect("a list");
        let text = |raw: &RawValue| raw.get().to_owned();
        Self {
            frame: frame.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            rules: rules.iter().map(|rule| text(rule)).collect(),
        }
    }
}

impl Foreign {
    /// Everything that is there now is foreign.
    fn of(cloudflare: &Cloudflare) -> Self {
        let documents = cloudflare.tunnels().iter().filter_map(|tunnel| {
            let mut document = Split::of(cloudflare.configuration(&tunnel.id)?);
            document.rules.retain(|rule| !waits_to_be_adopted(rule));
            Some((tunnel.id.clone(), document))
        });
        Self { documents: documents.collect(), records: foreign_records(cloudflare) }
    }

    fn violations(&self, cloudflare: &Cloudflare) -> Vec<String> {
        let mut found = Vec::new();
        if foreign_records(cloudflare) != self.records {
            found.push(format!("a foreign record updated: {:#?}", foreign_records(cloudflare)));
        }
        for (tunnel, before) in &self.documents {
            let Some(config) = cloudflare.configuration(tunnel) else {
                found.push(format!("tunnel {tunnel} lost its document"));
                continue;
            };
            let now = Split::of(config);
            if now.frame != before.frame {
                found.push(format!("tunnel {tunnel}: fields beside the rules changed: {:?}", now.frame));
            }
            let (theirs, ours): (Vec<String>, Vec<String>) =
                now.rules.into_iter().partition(|rule| before.rules.contains(rule));
            if theirs != before.rules {
                found.push(format!("tunnel {tunnel}: foreign rules changed: {theirs:#?}"));
            }
            let watched = ours.iter().filter(|rule| !waits_to_be_adopted(rule));
            let nameless = watched.filter(|rule| !is_stamped(cloudflare, tunnel, rule));
            found.extend(nameless.map(|rule| format!("tunnel {tunnel}: no stamp names the rule {rule}")));
        }
        found
    }
}

/// As it was made by hand, it waits to be taken over; changed, it has to be ours.
fn waits_to_be_adopted(rule: &str) -> bool {
    rule.contains(&format!("\"hostname\":\"{TO_BE_ADOPTED}")) && rule.contains("http://theirs:80")
}

fn foreign_records(cloudflare: &Cloudflare) -> Vec<String> {
    let records = cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id));
    let watched = records.filter(|record| !record.name.starts_with(TO_BE_ADOPTED));
    watched.filter(|record| stamp(record).is_none()).map(|record| record.to_json().to_string()).collect()
}

pub(crate) fn stamp(record: &Record) -> Option<Stamp> {
    Stamp::parse(record.comment.as_deref()?)
}

/// Whether a record of the rule's hostname has a stamp that names the rule.
pub(crate) fn is_stamped(cloudflare: &Cloudflare, tunnel: &str, rule: &str) -> bool {
    #[derive(Deserialize)]
    struct Rule {
        #[serde(default)]
        hostname: String,
        path: Option<String>,
    }
    let Rule { hostname, path } = serde_json::from_str(rule).expect("a rule");
    let digest = Digest::of(&TunnelId::parse(tunnel).expect("an id"), path.as_deref());
    let mut records = cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id));
    records.any(|record| {
        record.name == hostname::normalize(&hostname)
            && stamp(record).is_some_and(|stamp| stamp.claims.digests.contains(&digest))
    })
}

/// What visitors of the foreign hostnames get, without the rule's number.
pub(crate) fn visits(cloudflare: &Emulator) -> Vec<(String, String)> {
    let asked = HOSTS.iter().flat_map(|host| PATHS.iter().map(move |path| (host, path)));
    asked
        .map(|(host, path)| {
            let got = match cloudflare.visit(host, path) {
                Visit::Served { tunnel, service, .. } => format!("{service} through {tunnel}"),
                other => other.to_string(),
            };
            (format!("{host}{path}"), got)
        })
        .collect()
}
