//! Whole conversations with the emulator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{
    ConfigSource as Source, Emulator, Fault, Matcher, NewTunnel, Permission, Plan, RateLimit, Token,
    TokenOwner, TokenStatus, Unconfigured,
};
use external_dns_cloudflare_tunnel_webhook::clock::{Deadline, SystemClock};
use external_dns_cloudflare_tunnel_webhook::cloudflare::{Batch, Client, ConfigSource, Credentials, Error};
use external_dns_cloudflare_tunnel_webhook::model::{
    AccountId, NewRecord, RecordPatch, TunnelId, ZoneId, ZonePlan,
};
use external_dns_cloudflare_tunnel_webhook::secret::Secret;
use serde_json::json;
use serde_json::value::RawValue;

use crate::server::{TOKEN, client_with};

/// A Cloudflare with one zone and one tunnel, and a client of it.
struct Fixture {
    emulator: Emulator,
    client: Arc<Client>,
    zone: ZoneId,
    account: AccountId,
    tunnel: TunnelId,
}

impl Fixture {
    fn new() -> Self {
        let emulator = Emulator::start();
        emulator.add_token(Token::full(TOKEN));
        let zone = ZoneId::new(emulator.add_zone("example.com", Plan::Free));
        let tunnel = TunnelId::parse(&emulator.add_tunnel("shop")).unwrap();
        Self {
            client: Arc::new(client_with(&emulator.base_url(), token(TOKEN))),
            account: AccountId::new(emulator.account()),
            zone,
            tunnel,
            emulator,
        }
    }

    fn batch(&self, batch: &Batch) -> Result<(), Error> {
        self.client.batch(&self.zone, batch, deadline()).map(|_| ())
    }

    fn put(&self, config: &str) -> Result<i64, Error> {
        self.client
            .put_configuration(&self.account, &self.tunnel, &raw(config), deadline())
            .map(|written| written.version)
    }
}

fn token(text: &str) -> Credentials {
    Credentials::Token(Secret::parse(text).unwrap())
}

fn deadline() -> Deadline {
    Deadline::after(&SystemClock, Duration::from_secs(10))
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn post(record: NewRecord) -> Batch {
    Batch { posts: vec![record], ..Batch::default() }
}

fn cname(name: &str, tunnel: &TunnelId) -> NewRecord {
    NewRecord {
        name: name.into(),
        kind: "CNAME".into(),
        content: tunnel.hostname().into(),
        proxied: true,
        ttl: 1,
        comment: "edt=1".into(),
    }
}

#[test]
fn records_are_made_changed_and_deleted() {
    let fixture = Fixture::new();
    fixture.batch(&post(cname("app.example.com", &fixture.tunnel))).unwrap();
    let records = fixture.client.records(&fixture.zone, deadline()).unwrap();
    let [record] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!(
        (&*record.name, &*record.kind, &*record.content),
        ("app.example.com", "CNAME", &*fixture.tunnel.hostname())
    );
    assert_eq!((record.proxied, record.ttl, &*record.comment), (true, 1, "edt=1"));
    let patch = RecordPatch { id: record.id.clone(), content: None, proxied: None, comment: Some("".into()) };
    fixture.batch(&Batch { patches: vec![patch], ..Batch::default() }).unwrap();
    let changed = fixture.client.records(&fixture.zone, deadline()).unwrap();
    assert_eq!((&*changed[0].comment, &changed[0].content), ("", &record.content));
    fixture.batch(&Batch { deletes: vec![record.id.clone()], ..Batch::default() }).unwrap();
    assert_eq!(fixture.client.records(&fixture.zone, deadline()), Ok(Vec::new()));
}

#[test]
fn a_configuration_survives_to_the_byte_and_each_write_counts() {
    let fixture = Fixture::new();
    let read = || fixture.client.configuration(&fixture.account, &fixture.tunnel, deadline()).unwrap();
    assert!(read().config.is_none());
    let config = r#"{"originRequest":{"x-new":1.10},"ingress":[ {"service":"http_status:404","note":null}],"z":[12345678901234567890]}"#;
    let first = fixture.put(config).unwrap();
    assert_eq!(read().config.unwrap().get(), config);
    assert_eq!(read().version, first);
    assert_eq!(fixture.put(config).unwrap(), first + 1);
}

#[test]
fn a_tunnel_never_configured_has_no_config_whichever_way_cloudflare_says_so() {
    let fixture = Fixture::new();
    for unconfigured in [Unconfigured::Null, Unconfigured::NotFound] {
        let id = fixture.emulator.edit(|cloudflare| {
            cloudflare
                .add_tunnel_with(NewTunnel { unconfigured, ..NewTunnel::named(&format!("{unconfigured:?}")) })
        });
        let tunnel = TunnelId::parse(&id).unwrap();
        let read = fixture.client.configuration(&fixture.account, &tunnel, deadline()).unwrap();
        assert!(read.config.is_none(), "{unconfigured:?}");
    }
}

#[test]
fn tunnels_are_found_and_unknown_ones_are_not() {
    let fixture = Fixture::new();
    let local = fixture.emulator.edit(|cloudflare| {
        cloudflare.add_tunnel_with(NewTunnel { config_source: Source::Local, ..NewTunnel::named("old") })
    });
    let found = |id: &TunnelId| fixture.client.tunnel(&fixture.account, id, deadline()).unwrap();
    assert_eq!(found(&fixture.tunnel).unwrap().config_src, ConfigSource::Cloudflare);
    assert_eq!(found(&TunnelId::parse(&local).unwrap()).unwrap().config_src, ConfigSource::Local);
    assert_eq!(found(&TunnelId::parse("00000000-0000-4000-8000-000000000000").unwrap()), None);
    let names: BTreeSet<_> = fixture
        .client
        .tunnels(&fixture.account, deadline())
        .unwrap()
        .into_iter()
        .map(|tunnel| tunnel.name)
        .collect();
    assert_eq!(names, BTreeSet::from(["old".into(), "shop".into()]));
}

#[test]
fn lists_are_read_page_by_page() {
    let fixture = Fixture::new();
    for number in 0..119 {
        fixture.emulator.add_zone(&format!("zone{number}.example"), Plan::Pro);
    }
    let zones = fixture.client.zones(deadline()).unwrap();
    assert_eq!(zones.len(), 120);
    assert_eq!(zones.iter().filter(|zone| zone.plan == ZonePlan::Free).count(), 1);
    assert!(zones.iter().all(|zone| zone.account == fixture.account));
    assert_eq!(fixture.emulator.take_calls().len(), 3);

    let large = fixture.emulator.add_zone("large.example", Plan::Enterprise);
    fixture.emulator.edit(|cloudflare| cloudflare.zone_mut(&large).record_quota = 20_000);
    let records: Vec<_> = (0..5_001)
        .map(|number| json!({"type": "A", "name": format!("host{number}"), "content": "192.0.2.1"}))
        .collect();
    fixture.emulator.add_records(&large, &records).unwrap();
    let read = fixture.client.records(&ZoneId::new(large), deadline()).unwrap();
    assert_eq!(read.len(), 5_001);
    assert_eq!(fixture.emulator.take_calls().len(), 2);
}

#[test]
fn credentials_are_verified_wherever_they_belong() {
    let fixture = Fixture::new();
    let account = fixture.emulator.account();
    fixture
        .emulator
        .add_token(Token { owner: TokenOwner::Account(account), ..Token::full("of-the-account") });
    fixture.emulator.add_token(Token { status: TokenStatus::Disabled, ..Token::full("disabled") });
    fixture.emulator.add_token(Token { status: TokenStatus::Expired, ..Token::full("expired") });
    fixture.emulator.add_token(Token::legacy_key("0123456789abcdef", "ops@example.com"));
    let key =
        |key: &str| Credentials::Key { key: Secret::parse(key).unwrap(), email: "ops@example.com".into() };
    for (label, credentials, is_valid) in [
        ("of a user", token(TOKEN), true),
        ("of an account", token("of-the-account"), true),
        ("disabled", token("disabled"), false),
        ("expired", token("expired"), false),
        ("unknown", token("unknown"), false),
        ("key", key("0123456789abcdef"), true),
        ("unknown key", key("fedcba9876543210"), false),
    ] {
        fixture.client.set_credentials(credentials);
        match fixture.client.verify_token(Some(&fixture.account), deadline()) {
            Ok(_) => assert!(is_valid, "{label}"),
            Err(Error::Credentials(_)) => assert!(!is_valid, "{label}"),
            Err(error) => panic!("{label}: {error}"),
        }
    }
}

#[test]
fn what_the_token_may_not_do_is_a_matter_of_credentials() {
    let fixture = Fixture::new();
    fixture.emulator.add_token(Token::with_permissions(
        "read-only",
        &[Permission::ZoneRead, Permission::DnsRead, Permission::TunnelRead],
    ));
    fixture.client.set_credentials(token("read-only"));
    fixture.client.records(&fixture.zone, deadline()).unwrap();
    for error in [
        fixture.batch(&post(cname("app.example.com", &fixture.tunnel))).unwrap_err(),
        fixture.put(r#"{"ingress":[{"service":"http_status:404"}]}"#).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Credentials(_)), "{error}");
    }
    assert_eq!(fixture.emulator.records(fixture.zone.as_str()).len(), 0);
}

#[test]
fn a_conflict_a_quota_and_a_bad_configuration_are_recognised() {
    let fixture = Fixture::new();
    let record = cname("app.example.com", &fixture.tunnel);
    fixture.batch(&post(record.clone())).unwrap();
    let refusal = |error: Error| match error {
        Error::Refused(refusal) => refusal,
        error => panic!("{error}"),
    };
    let conflict = NewRecord { kind: "A".into(), content: "192.0.2.1".into(), ..record.clone() };
    assert!(refusal(fixture.batch(&post(conflict)).unwrap_err()).has_code(81054));
    assert!(refusal(fixture.batch(&post(record)).unwrap_err()).has_code(81058));
    fixture.emulator.edit(|cloudflare| cloudflare.zone_mut(fixture.zone.as_str()).record_quota = 1);
    let one_more = cname("more.example.com", &fixture.tunnel);
    assert!(refusal(fixture.batch(&post(one_more)).unwrap_err()).is_record_quota());
    let bad = r#"{"ingress":[{"hostname":"a.example.com","service":"http://a","path":"*"},{"service":"http_status:404"}]}"#;
    let refused = refusal(fixture.put(bad).unwrap_err());
    assert!(refused.has_code(1056));
    assert!(refused.to_string().contains("Rule #1"), "{refused}");
}

fn faults() -> Vec<Fault> {
    vec![
        Fault::Reset,
        Fault::Truncated,
        Fault::Garbage,
        Fault::DoneButUnanswered,
        Fault::Delay(Duration::from_millis(5)),
        Fault::status(500),
        Fault::status(502),
        Fault::status(503),
        Fault::status(408),
        Fault::limited(1),
        Fault::limited(300),
        Fault::error(200, 971, "Please wait and consider throttling your request speed"),
        Fault::error(400, 1000, "Request timeout"),
        Fault::error(400, 10001, "internal error"),
        Fault::error(403, 10000, "Authentication error"),
        Fault::DoneBut(Box::new(Fault::status(500))),
        Fault::DoneBut(Box::new(Fault::Garbage)),
        Fault::DoneBut(Box::new(Fault::Reset)),
        Fault::DoneBut(Box::new(Fault::error(400, 1000, "Request timeout"))),
    ]
}

#[test]
fn a_write_is_sent_once_whatever_happens_and_never_done_behind_our_back() {
    for fault in faults() {
        let fixture = Fixture::new();
        let config = r#"{"ingress":[{"service":"http_status:404"}]}"#;
        let record = cname("app.example.com", &fixture.tunnel);
        fixture.emulator.fault(Matcher::batch(), 1, fault.clone());
        let batch = fixture.batch(&post(record));
        let was_done = !fixture.emulator.records(fixture.zone.as_str()).is_empty();
        assert!(
            batch.is_ok() || !was_done || batch.as_ref().unwrap_err().may_have_been_done(),
            "{fault:?}: {batch:?}"
        );
        assert!(batch.is_err() || was_done, "{fault:?}");

        // The rate limit of one would hold up the other.
        let fixture = Fixture::new();
        fixture.emulator.fault(Matcher::put_configuration(), 1, fault.clone());
        let put = fixture.put(config);
        let was_done = fixture.emulator.configuration(fixture.tunnel.as_str()).is_some();
        assert!(
            put.is_ok() || !was_done || put.as_ref().unwrap_err().may_have_been_done(),
            "{fault:?}: {put:?}"
        );
        assert!(put.is_err() || was_done, "{fault:?}");
        let writes = fixture.emulator.calls().iter().filter(|call| call.is_write()).count();
        assert_eq!(writes, 1, "{fault:?}");
    }
}

#[test]
fn a_read_survives_what_passes_and_reports_what_does_not() {
    for fault in faults() {
        let fixture = Fixture::new();
        fixture.emulator.fault(Matcher::list_records(), 1, fault.clone());
        let outcome = fixture.client.records(&fixture.zone, deadline());
        let passes = match &fault {
            Fault::Garbage => false,
            Fault::DoneBut(inner) => **inner != Fault::Garbage,
            fault => {
                // A minute's pause, five minutes', and a token that is none.
                *fault != Fault::limited(300)
                    && *fault
                        != Fault::error(200, 971, "Please wait and consider throttling your request speed")
                    && *fault != Fault::error(403, 10000, "Authentication error")
            }
        };
        assert_eq!(outcome.is_ok(), passes, "{fault:?}: {outcome:?}");
    }
}

/// The `Ratelimit` header says when it is over, so that the block of five minutes is never met.
#[test]
fn the_client_stops_before_cloudflare_blocks_it() {
    let fixture = Fixture::new();
    fixture.emulator.set_rate_limit(RateLimit { calls: 3, ..RateLimit::default() });
    for _ in 0..3 {
        fixture.client.records(&fixture.zone, deadline()).unwrap();
    }
    for _ in 0..5 {
        let error = fixture.client.records(&fixture.zone, deadline()).unwrap_err();
        assert!(matches!(error, Error::Limited { .. }), "{error}");
    }
    let statuses: Vec<_> = fixture.emulator.calls().iter().map(|call| call.status).collect();
    assert_eq!(statuses, [Some(200); 3]);
}
