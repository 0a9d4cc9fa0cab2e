//! Whole conversations with the emulator.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher, NewTunnel, Plan, RateLimit, Token, Unconfigured};
use external_dns_cloudflare_tunnel_webhook::clock::{Deadline, SystemClock};
use external_dns_cloudflare_tunnel_webhook::cloudflare::{Batch, Client, Credentials, Error};
use external_dns_cloudflare_tunnel_webhook::model::{AccountId, NewRecord, TunnelId, ZoneId};
use external_dns_cloudflare_tunnel_webhook::secret::Secret;
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
    Credentials { secret: Secret::parse(text).unwrap(), email: None }
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
        record_type: "CNAME".into(),
        content: tunnel.hostname().into(),
        proxied: true,
        ttl: 1,
        comment: "edt=1".into(),
    }
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
fn a_conflict_a_quota_and_a_bad_configuration_are_recognised() {
    let fixture = Fixture::new();
    let record = cname("app.example.com", &fixture.tunnel);
    fixture.batch(&post(record.clone())).unwrap();
    let refusal = |error: Error| match error {
        Error::Rejected(refusal) => refusal,
        error => panic!("{error}"),
    };
    let conflict = NewRecord { record_type: "A".into(), content: "192.0.2.1".into(), ..record.clone() };
    assert!(refusal(fixture.batch(&post(conflict)).unwrap_err()).has_code(81054));
    assert!(refusal(fixture.batch(&post(record)).unwrap_err()).has_code(81058));
    fixture.emulator.edit(|cloudflare| cloudflare.zone_mut(fixture.zone.as_str()).record_quota = 1);
    let one_more = cname("more.example.com", &fixture.tunnel);
    assert!(refusal(fixture.batch(&post(one_more)).unwrap_err()).is_zone_full());
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
        assert!(matches!(error, Error::RateLimited { .. }), "{error}");
    }
    let statuses: Vec<_> = fixture.emulator.calls().iter().map(|call| call.status).collect();
    assert_eq!(statuses, [Some(200); 3]);
}
