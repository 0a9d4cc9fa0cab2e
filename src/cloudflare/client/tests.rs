use super::*;
use crate::cloudflare::access::AccountOrZone;
use crate::cloudflare::fixture::{Fixture, TOKEN, answer, failure, limited, success};
use crate::cloudflare::record::Batch;
use crate::cloudflare::transport::{TransportError, TransportErrorKind};
use crate::model::{AccountId, Record, RecordId, TunnelId, ZoneId};

const SECOND: Duration = Duration::from_secs(1);

fn lost(kind: TransportErrorKind, was_sent: bool) -> Result<Response, TransportError> {
    Err(TransportError::new(kind, was_sent, "by the test"))
}

fn zone() -> ZoneId {
    ZoneId::new("z1")
}

fn one_delete() -> Batch {
    Batch { deletes: vec![RecordId::new("r1")], ..Batch::default() }
}

fn tunnel() -> TunnelId {
    TunnelId::parse("6ff42ae2-765d-4adf-8112-31c55c1551ef").unwrap()
}

fn records(fixture: &Fixture) -> Result<Vec<Record>, Error> {
    fixture.client.records(&zone(), fixture.deadline())
}

#[test]
fn a_read_is_repeated_after_what_may_pass() {
    for (label, first) in [
        ("connection lost", lost(TransportErrorKind::Disconnected, true)),
        ("timed out", lost(TransportErrorKind::TimedOut, true)),
        ("refused", lost(TransportErrorKind::Connect, false)),
        ("no such name", lost(TransportErrorKind::Lookup, false)),
        ("408", answer(408, "")),
        ("500", answer(500, "<html>")),
        ("503", failure(503, 4711, "down")),
        ("1000", failure(400, 1000, "Request timeout")),
        ("10001", failure(400, 10001, "internal error")),
        ("429", limited(Some("1"))),
        (
            "971",
            failure(200, 971, "Please wait")
                .map(|response| Response { retry_after: Some("2".to_owned()), ..response }),
        ),
        ("cut off", answer(200, r#"{"success":true,"result":[{"#)),
    ] {
        let fixture = Fixture::new([first, success("[]")]);
        assert_eq!(records(&fixture), Ok(Vec::new()), "{label}");
        assert_eq!(fixture.script.sent().len(), 2, "{label}");
    }
}

#[test]
fn a_read_is_not_repeated_after_what_will_not_pass() {
    for (label, first) in [
        ("refused", failure(400, 1004, "DNS Validation Error")),
        ("token", failure(403, 10000, "Authentication error")),
        ("gone", failure(404, 7003, "no route")),
        ("html", answer(200, "<html>")),
        ("redirect", answer(302, "")),
        ("certificate", lost(TransportErrorKind::Certificate, false)),
        ("too large", lost(TransportErrorKind::TooLarge, true)),
    ] {
        let fixture = Fixture::new([first]);
        assert!(records(&fixture).is_err(), "{label}");
        assert_eq!(fixture.script.sent().len(), 1, "{label}");
    }
}

#[test]
fn a_read_is_given_up_after_three_repetitions() {
    let fixture = Fixture::new((0..9).map(|_| answer(502, "")));
    assert!(matches!(records(&fixture), Err(Error::Failed(_))));
    assert_eq!(fixture.script.sent().len(), 4);
    assert_eq!(fixture.clock.sleeps().len(), 3);
}

/// ureq hands out a kept connection that the server has just closed.
#[test]
fn after_a_lost_connection_a_read_goes_out_at_once_on_a_fresh_one() {
    let fixture = Fixture::new([lost(TransportErrorKind::Disconnected, true), success("[]")]);
    records(&fixture).unwrap();
    let idle: Vec<_> = fixture.script.sent().iter().map(|sent| sent.connection_max_idle).collect();
    assert_eq!(idle, [CONNECTION_MAX_IDLE, Duration::ZERO]);
    assert_eq!(fixture.clock.sleeps(), []);
}

/// A write that was done but not answered would otherwise be done twice.
#[test]
fn a_write_is_never_sent_twice() {
    for (label, first, may_have_been_done) in [
        ("connection lost", lost(TransportErrorKind::Disconnected, true), true),
        ("timed out", lost(TransportErrorKind::TimedOut, true), true),
        ("timed out before the body", lost(TransportErrorKind::TimedOut, false), false),
        ("refused", lost(TransportErrorKind::Connect, false), false),
        ("no such name", lost(TransportErrorKind::Lookup, false), false),
        ("500", answer(500, ""), true),
        ("408", answer(408, ""), true),
        ("1000", failure(400, 1000, "Request timeout"), true),
        ("garbage", answer(200, "<html>"), true),
        ("cut off", answer(200, r#"{"success":"#), true),
        ("429", limited(Some("1")), false),
        ("429 without a time", limited(None), false),
        ("971", failure(400, 971, "Please wait"), false),
        ("400", failure(400, 1004, "no"), false),
        ("403", failure(403, 10000, "no"), false),
        ("404", failure(404, 81044, "no"), false),
        ("302", answer(302, ""), true),
    ] {
        let config = serde_json::value::to_raw_value(&()).unwrap();
        for is_batch in [true, false] {
            let fixture = Fixture::new([first.clone()]);
            let (client, deadline) = (&fixture.client, fixture.deadline());
            let error = if is_batch {
                client.batch(&zone(), &one_delete(), deadline).unwrap_err()
            } else {
                client.put_configuration(&AccountId::new("a1"), &tunnel(), &config, deadline).unwrap_err()
            };
            assert_eq!(fixture.script.sent().len(), 1, "{label}");
            assert_eq!(error.may_have_been_done(), may_have_been_done, "{label}: {error}");
        }
    }
}

/// A server may close a kept connection just as a write arrives.
#[test]
fn a_write_has_a_connection_of_its_own() {
    let fixture = Fixture::new([success("[]"), success("{}")]);
    records(&fixture).unwrap();
    fixture.client.batch(&zone(), &one_delete(), fixture.deadline()).unwrap();
    let idle: Vec<_> = fixture.script.sent().iter().map(|sent| sent.connection_max_idle).collect();
    assert_eq!(idle, [CONNECTION_MAX_IDLE, Duration::ZERO]);
}

#[test]
fn a_short_rate_limit_is_waited_for() {
    let fixture = Fixture::new([limited(Some("3")), success("[]")]);
    records(&fixture).unwrap();
    assert_eq!(fixture.clock.sleeps(), [3 * SECOND]);
}

#[test]
fn a_rate_limit_longer_than_the_deadline_is_remembered_and_nothing_is_sent_until_it_is_over() {
    let fixture = Fixture::new([limited(Some("300"))]);
    assert_eq!(records(&fixture), Err(Error::RateLimited { retry_after: 300 * SECOND }));
    fixture.clock.advance(100 * SECOND);
    // This holds for reads and writes, and neither waits.
    assert_eq!(records(&fixture), Err(Error::RateLimited { retry_after: 200 * SECOND }));
    assert_eq!(
        fixture.client.batch(&zone(), &one_delete(), fixture.deadline()),
        Err(Error::RateLimited { retry_after: 200 * SECOND })
    );
    assert_eq!(fixture.client.calls_left(), 0);
    assert_eq!(fixture.script.sent().len(), 1);
    assert_eq!(fixture.clock.sleeps(), []);
    fixture.clock.advance(200 * SECOND);
    fixture.script.push(success("[]"));
    records(&fixture).unwrap();
}

#[test]
fn a_rate_limit_without_a_time_stops_all_calls_for_a_minute() {
    let fixture = Fixture::new([limited(None)]);
    assert_eq!(records(&fixture), Err(Error::RateLimited { retry_after: 60 * SECOND }));
}

/// The data read just before a write must still be true when the write is sent.
#[test]
fn a_write_does_not_wait_for_a_rate_limit() {
    let fixture = Fixture::new([limited(Some("1"))]);
    let write = || fixture.client.batch(&zone(), &one_delete(), fixture.deadline());
    assert_eq!(write(), Err(Error::RateLimited { retry_after: SECOND }));
    assert_eq!(write(), Err(Error::RateLimited { retry_after: SECOND }));
    assert_eq!(fixture.script.sent().len(), 1);
    assert_eq!(fixture.clock.sleeps(), []);
}

#[test]
fn the_clients_own_budget_stops_reads_before_writes_and_both_before_cloudflare_does() {
    let fixture = Fixture::new((0..1_100).map(|_| success("[]")));
    for _ in 0..1_050 {
        records(&fixture).unwrap();
    }
    // 1,050 calls of 50 ms each.
    let retry_after = Duration::from_secs(300) - 1_050 * Duration::from_millis(50);
    assert_eq!(records(&fixture), Err(Error::RateLimited { retry_after }));
    assert_eq!(fixture.client.calls_left(), 50);
    let write = || fixture.client.batch(&zone(), &one_delete(), fixture.deadline()).map(drop);
    for _ in 0..50 {
        assert!(!matches!(write(), Err(Error::RateLimited { .. })));
    }
    assert!(matches!(write(), Err(Error::RateLimited { .. })));
    assert_eq!(fixture.client.calls_left(), 0);
}

#[test]
fn the_reads_of_a_request_that_writes_may_use_what_is_kept_for_writes() {
    let fixture = Fixture::new((0..1_100).map(|_| success("[]")));
    while records(&fixture).is_ok() {}
    fixture.client.records(&zone(), fixture.deadline().with_reserve()).unwrap();
    assert!(matches!(records(&fixture), Err(Error::RateLimited { .. })));
}

#[test]
fn the_rate_limit_header_lowers_the_budget() {
    let fixture = Fixture::new([success("[]")
        .map(|response| Response { rate_limit: Some("\"default\";r=5;t=30".to_owned()), ..response })]);
    assert_eq!(fixture.client.calls_left(), 1_100);
    records(&fixture).unwrap();
    assert_eq!(fixture.client.calls_left(), 5);
}

#[test]
fn nothing_is_sent_after_the_deadline_and_no_call_is_given_longer() {
    let fixture = Fixture::new([success("[]"), success("[]")]);
    let over = fixture.deadline_after(CALL_MIN - Duration::from_nanos(1));
    assert_eq!(fixture.client.records(&zone(), over), Err(Error::OutOfTime));
    assert_eq!(fixture.client.batch(&zone(), &one_delete(), over), Err(Error::OutOfTime));
    assert_eq!(fixture.script.sent(), []);
    fixture.client.records(&zone(), fixture.deadline_after(SECOND)).unwrap();
    fixture.client.records(&zone(), fixture.deadline_after(60 * SECOND)).unwrap();
    let timeouts: Vec<_> = fixture.script.sent().iter().map(|sent| sent.timeout).collect();
    assert_eq!(timeouts, [SECOND, CALL_TIMEOUT]);
}

#[test]
fn repetitions_end_before_the_deadline() {
    let fixture = Fixture::new((0..9).map(|_| answer(502, "")));
    let deadline = fixture.deadline_after(Duration::from_millis(400));
    assert!(matches!(fixture.client.records(&zone(), deadline), Err(Error::Failed(_))));
    assert_eq!(fixture.script.sent().len(), 2);
    assert!(!deadline.is_over(&*fixture.clock));
}

/// The watch would check the token every ten seconds as long as the token lacks the permission.
#[test]
fn only_what_is_refused_outside_of_access_puts_the_token_in_doubt() {
    let account = AccountId::new("a1");
    let fixture = Fixture::new([]);
    let (client, script) = (&fixture.client, &fixture.script);
    assert!(client.is_in_doubt(), "nothing was checked yet");
    client.settle_doubt();
    for (status, code) in [(403, 10000), (403, 1010), (400, 9109), (403, 9999), (404, 11021)] {
        (0..7).for_each(|_| script.push(failure(status, code, "x")));
        let deadline = fixture.deadline();
        let _ = client.access_team(&account, deadline);
        client.access_applications(AccountOrZone::Account(&account), deadline).unwrap_err();
        client.access_applications(AccountOrZone::Zone(&zone()), deadline).unwrap_err();
        client.access_policies(&account, deadline).unwrap_err();
        client.access_tags(&account, deadline).unwrap_err();
        client.create_access_tag(&account, "tag", deadline).unwrap_err();
        client.create_access_application(&account, b"{}", deadline).unwrap_err();
        assert!(!client.is_in_doubt(), "{status} {code}");
    }
    script.push(failure(403, 10000, "x"));
    records(&fixture).unwrap_err();
    assert!(client.is_in_doubt());
}

/// Each reading of a new tunnel would let the watch check the token and list the tunnels.
#[test]
fn a_tunnel_that_was_never_configured_puts_nothing_in_doubt() {
    let fixture = Fixture::new([]);
    let (account, tunnel) =
        (AccountId::new("a1"), TunnelId::parse("c1744f8b-faa1-48a4-9e5c-02ac921467fa").expect("an id"));
    fixture.client.settle_doubt();
    for (code, is_doubtful) in [(1055, false), (1003, true)] {
        fixture.script.push(failure(404, code, "not found"));
        let read = fixture.client.configuration(&account, &tunnel, fixture.deadline());
        assert_eq!((read.is_err(), fixture.client.is_in_doubt()), (is_doubtful, is_doubtful), "{code}");
    }
}

fn zones_page(range: std::ops::Range<u32>, info: &str) -> Result<Response, TransportError> {
    let zones: Vec<_> = range.map(|id| format!(r#"{{"id":"z{id:04}","name":"{id}.example"}}"#)).collect();
    answer(200, &format!(r#"{{"success":true,"result":[{}],"result_info":{info}}}"#, zones.join(",")))
}

/// After an empty list, the rest of the program would treat existing records as deleted.
#[test]
fn no_list_of_zones_or_records_is_taken_for_an_empty_one() {
    let fixture = Fixture::new(vec![success("null"), success("null")]);
    assert!(matches!(fixture.client.zones(fixture.deadline()), Err(Error::Unreadable(_))));
    let records = fixture.client.records(&ZoneId::new("z1"), fixture.deadline());
    assert!(matches!(records, Err(Error::Unreadable(_))));
}

#[test]
fn a_list_without_an_end_is_given_up() {
    let fixture = Fixture::new((0..=PAGES_MAX).map(|page| zones_page(50 * page..50 * page + 50, "{}")));
    let error = fixture.client.zones(fixture.deadline_after(3600 * SECOND)).unwrap_err();
    assert!(matches!(error, Error::Unreadable(_)), "{error}");
    assert_eq!(fixture.script.sent().len(), PAGES_MAX as usize);
}

/// A server that ignores `page` never ends its list. By half a list, the webhook would take the rules of the other half
/// for foreign.
#[test]
fn a_page_that_brings_nothing_new_is_an_error_and_not_the_end_of_the_list() {
    let account = AccountId::new("a1");
    let item = |id: u32| {
        let uuid = format!("00000000-0000-0000-0000-{id:012}");
        format!(r#"{{"id":"{uuid}","name":"{id}.example","type":"self_hosted","aud":"{uuid}"}}"#)
    };
    let page = |first: u32, per_page: u32| {
        let items: Vec<String> = (first..first + per_page).map(item).collect();
        success(&format!("[{}]", items.join(",")))
    };
    type List = fn(&Client, &AccountId, Deadline) -> Option<Error>;
    let lists: [(&str, u32, List); 4] = [
        ("zones", 50, |client, _, deadline| client.zones(deadline).err()),
        ("records", 5_000, |client, _, deadline| client.records(&zone(), deadline).err()),
        ("tunnels", 1_000, |client, account, deadline| client.tunnels(account, deadline).err()),
        ("applications", 1_000, |client, account, deadline| {
            client.access_applications(AccountOrZone::Account(account), deadline).err()
        }),
    ];
    for (label, per_page, list) in lists {
        let pages = [0, per_page, per_page, 2 * per_page].map(|first| page(first, per_page));
        let fixture = Fixture::new(pages);
        let error = list(&fixture.client, &account, fixture.deadline());
        let is_of_the_page = |error: &Error| error.to_string().contains("brings nothing new");
        assert!(error.as_ref().is_some_and(is_of_the_page), "{label}: {error:?}");
        assert_eq!(fixture.script.sent().len(), 3, "{label}");
    }
}

#[test]
fn no_text_of_an_error_or_of_the_client_holds_the_token() {
    let echo = format!(r#""echo of {TOKEN} and {}""#, TOKEN.to_uppercase());
    for (label, response) in [
        ("message", format!(r#"{{"success":false,"errors":[{{"code":1004,"message":{echo}}}]}}"#)),
        (
            "chain",
            format!(
                r#"{{"success":false,"errors":[{{"code":10000,"message":"x","error_chain":[{{"code":1,"message":{echo}}}]}}]}}"#
            ),
        ),
        ("mere text", format!(r#"{{"success":false,"errors":[{echo}]}}"#)),
        ("wrong type", format!(r#"{{"success":true,"result":[{echo}]}}"#)),
        ("wrong envelope", echo),
    ] {
        let fixture = Fixture::new([answer(400, &response), answer(200, &response)]);
        for _ in 0..2 {
            let error = records(&fixture).unwrap_err();
            let text = format!("{error} {error:?} {:?}", fixture.client).to_ascii_lowercase();
            assert!(!text.contains(&TOKEN.to_ascii_lowercase()), "{label}: {text}");
        }
    }
}

#[test]
fn an_id_cannot_leave_its_path_segment() {
    for (id, expected) in [
        ("023e105f4ecef8ad9ca31a8372d0c353", "/zones/023e105f4ecef8ad9ca31a8372d0c353/dns_records"),
        ("../accounts", "/zones/%2E%2E%2Faccounts/dns_records"),
        ("a?b#c d", "/zones/a%3Fb%23c%20d/dns_records"),
        ("ü", "/zones/%C3%BC/dns_records"),
    ] {
        assert_eq!(path(&["zones", id, "dns_records"]), expected, "{id:?}");
    }
}
