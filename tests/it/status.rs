//! What `status` says of each place that was sent: it is what the last loop read, and what Cloudflare answered since.

mod laws;

use cloudflare_emulator::{Fault, Matcher, Plan};
use external_dns_cloudflare_tunnel_webhook::limits::CHANGED_HOSTNAMES_MAX;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde::Deserialize;
use serde_json::json;
use test_support::external_dns::exchange;
use test_support::harness::{Harness, Program, endpoint, endpoint_of, published};

#[derive(Debug, Deserialize)]
struct Status {
    ok: bool,
    wanted: usize,
    published: usize,
    refused: usize,
    waiting: usize,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Deserialize)]
struct Row {
    hostname: String,
    path: Option<String>,
    state: String,
    refused: Option<String>,
    what: String,
}

impl Status {
    fn of(program: &Program, hostname: &str) -> Self {
        let path = if hostname.is_empty() { String::new() } else { format!("/{hostname}") };
        let request = format!("GET /status{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = exchange(program.observation(), &[request.as_bytes()]).expect("it is answered");
        serde_json::from_str(&answer.body).expect("a document")
    }

    /// The states of a hostname, without notes.
    fn states(&self, hostname: &str) -> Vec<&str> {
        let rows = self.rows.iter().filter(|row| row.hostname == hostname && row.state != "note");
        rows.map(|row| &*row.state).collect()
    }
}

fn overview(program: &Program) -> Status {
    Status::of(program, "")
}

const WEB: &str = "web.example.com";

fn web() -> [Endpoint; 1] {
    [published(WEB, "http://web:80")]
}

/// Writes that fail for hours.
#[test]
fn while_every_write_fails_each_hostname_has_a_row_with_cloudflares_answer() {
    let forbidden = || Fault::error(403, 10_000, "Authentication error");
    for (label, matcher, fault, part) in [
        ("no record can be written", Matcher::batch(), Fault::status(500), "500"),
        ("no tunnel can be written", Matcher::put_configuration(), Fault::status(500), "500"),
        ("the token may write no record", Matcher::batch(), forbidden(), "Authentication error"),
        ("the token may write no tunnel", Matcher::put_configuration(), forbidden(), "Authentication error"),
    ] {
        let harness = Harness::new();
        harness.cloudflare.fault_every(matcher, fault);
        let program = harness.start();
        for _ in 0..3 {
            let _ = program.external_dns().run_loop(&web());
            for status in [overview(&program), Status::of(&program, WEB)] {
                assert!(!status.ok && status.states(WEB) == ["Cloudflare"], "{label}: {status:#?}");
                let row = status.rows.iter().find(|row| row.hostname == WEB).expect("a row");
                assert!(row.what.contains(part) && !row.what.contains("--domain-filter"), "{label}: {row:?}");
            }
            assert_eq!(overview(&program).refused, 1, "{label}");
        }
        assert_eq!(harness.log.lines_with(&["WARN", "refused=failed"]), [""; 0], "another line says it");
    }
}

#[test]
fn a_new_hostname_does_not_wait_for_the_reason_of_another_ones_refused_write() {
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    harness.cloudflare.fault_every(Matcher::batch(), Fault::error(400, 9_999, "Cloudflare dislikes it"));
    external_dns.run_loop(&web()).expect("a refused write is not tried again at once");
    external_dns.records().expect("read");
    external_dns
        .adjust(&[web(), [published("new.example.com", "http://web:80")]].concat())
        .expect("adjusted");
    for status in [overview(&program), Status::of(&program, "new.example.com")] {
        let row = status.rows.iter().find(|row| row.hostname == "new.example.com").expect("a row");
        assert!(row.state == "waiting" && row.what.contains("has not asked"), "{row:?}");
    }
}

#[test]
fn a_filter_of_external_dns_is_named_where_it_was_not_asked_for_whatever_became_of_the_others() {
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    let filtered = published("filtered.example.com", "http://web:80");
    let both = [web(), [filtered]].concat();
    let request = |both: &[Endpoint]| {
        let current = external_dns.records().expect("read");
        let mut adjusted = external_dns.adjust(both).expect("adjusted");
        adjusted.retain(|endpoint| endpoint.dns_name == WEB);
        external_dns.apply(&external_dns.registry.plan(&current, &adjusted))
    };
    let names_filter = |program: &Program| {
        let status = Status::of(program, "filtered.example.com");
        assert!(!status.ok && status.states("filtered.example.com") == ["waiting"], "{status:#?}");
        status.rows.iter().any(|row| row.what.contains("--domain-filter"))
    };
    harness.cloudflare.fault_every(Matcher::batch(), Fault::status(500));
    request(&both).expect_err("the batch fails");
    assert!(names_filter(&program), "the write that failed is another hostname's");
    harness.cloudflare.clear_faults();
    request(&both).expect("published");
    assert!(names_filter(&program));
    assert_eq!(overview(&program).states("filtered.example.com"), ["waiting"]);
    assert_eq!(Status::of(&program, WEB).states(WEB), ["written"]);
}

#[test]
fn a_record_of_ours_without_its_rule_or_that_leads_past_it_is_not_published() {
    let elsewhere = json!({"content": "somewhere.test"});
    for label in ["the rule is gone", "the record leads elsewhere"] {
        let harness = Harness::new();
        let program = harness.start();
        let external_dns = program.external_dns();
        external_dns.run_loop(&web()).expect("published");
        external_dns.run_loop(&web()).expect("nothing to do");
        assert!(overview(&program).ok && Status::of(&program, WEB).states(WEB) == ["published"]);
        harness.cloudflare.edit(|cloudflare| {
            if label == "the rule is gone" {
                let none = r#"{"ingress":[{"service":"http_status:404"}]}"#;
                cloudflare.put_configuration(&harness.tunnel, none).expect("cloudflared takes it");
            } else {
                let id = cloudflare.records(&harness.zone)[0].id.clone();
                cloudflare.patch_record(&harness.zone, &id, &elsewhere).expect("Cloudflare takes it");
            }
        });
        external_dns.records().expect("read");
        let status = Status::of(&program, WEB);
        assert!(!status.ok && status.states(WEB) == ["waiting"], "{label}: {status:#?}");
        let all = overview(&program);
        assert!(!all.ok && (all.wanted, all.published, all.waiting) == (1, 0, 1), "{label}: {all:#?}");
        external_dns.run_loop(&web()).expect("repaired");
        assert_eq!(Status::of(&program, WEB).states(WEB), ["written"], "{label}");
        external_dns.records().expect("read");
        assert_eq!(Status::of(&program, WEB).states(WEB), ["published"], "{label}");
    }
}

#[test]
fn hostnames_that_a_turn_leaves_have_rows_until_they_are_written() {
    let harness = Harness::new();
    harness.cloudflare.edit(|cloudflare| cloudflare.zone_mut(&harness.zone).record_quota = 10_000);
    let program = harness.start();
    let name = |number: usize| format!("shop-{number:04}.example.com");
    let shops: Vec<Endpoint> =
        (0..CHANGED_HOSTNAMES_MAX + 20).map(|number| published(&name(number), "http://shop:80")).collect();
    assert_eq!(program.external_dns().run_loop(&shops).map(drop), Err(503));
    let (all, last) = (overview(&program), name(CHANGED_HOSTNAMES_MAX));
    assert!(!all.ok && all.waiting == 20, "{} {}", all.ok, all.waiting);
    let one = Status::of(&program, &last);
    assert!(!one.ok && one.states(&last) == ["next turn"], "{one:#?}");
    assert_eq!(Status::of(&program, &name(0)).states(&name(0)), ["written"]);
    program.external_dns().records().expect("read");
    assert_eq!(Status::of(&program, &last).states(&last), ["next turn"], "until ExternalDNS asks again");
    program.external_dns().run_loop(&shops).expect("the rest");
    let all = overview(&program);
    assert!(all.ok && all.rows.is_empty(), "{all:#?}");
    assert_eq!(Status::of(&program, &last).states(&last), ["written"]);
}

#[test]
fn a_corrected_mistake_has_no_row_in_the_next_loop() {
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&web()).expect("published");
    let mistaken = [published(WEB, "nonsense://web")];
    let beside = [web(), [published("new.example.com", "nonsense://web")]].concat();
    for wrong in [&mistaken[..], &beside] {
        external_dns.run_loop(wrong).expect("refused by name");
        let status = overview(&program);
        assert!(!status.ok && status.refused == 1, "{status:#?}");
        external_dns.run_loop(&web()).expect("nothing to do");
        let status = overview(&program);
        assert!(status.ok && status.rows.is_empty() && status.refused == 0, "{status:#?}");
        assert_eq!(Status::of(&program, WEB).states(WEB), ["published"]);
    }
}

#[test]
fn of_two_objects_for_one_place_the_one_that_is_left_out_has_a_row() {
    let harness = Harness::new();
    let program = harness.start();
    let of = |object: &str, service: &str| endpoint_of(object, WEB, &[("tunnel-service", service)]);
    let both = [of("ingress/shop/web", "http://web:80"), of("ingress/shop/other", "http://other:80")];
    for _ in 0..2 {
        program.external_dns().run_loop(&both).expect("one is published");
    }
    for status in [overview(&program), Status::of(&program, WEB)] {
        assert!(status.ok && status.states(WEB).contains(&"left out"), "{status:#?}");
    }
}

#[test]
fn a_hostname_without_a_service_needs_no_action() {
    let harness = Harness::new();
    let program = harness.start();
    program.external_dns().run_loop(&[endpoint("plain.example.com", &[])]).expect("nothing to do");
    let status = Status::of(&program, "plain.example.com");
    assert!(status.ok && status.states("plain.example.com") == ["no service"], "{status:#?}");
}

#[test]
fn a_request_that_could_not_read_is_told_as_that() {
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    let current = external_dns.records().expect("read");
    let adjusted = external_dns.adjust(&web()).expect("adjusted");
    harness.cloudflare.fault_every(Matcher::list_records(), Fault::status(500));
    external_dns.apply(&external_dns.registry.plan(&current, &adjusted)).expect_err("it cannot be read");
    for status in [overview(&program), Status::of(&program, WEB)] {
        let [all, row] = &*status.rows else { panic!("{status:#?}") };
        assert!(!status.ok && all.state == "waiting" && all.what.contains("HTTP 500"), "{all:?}");
        assert!(status.states(WEB) == ["waiting"] && row.what.contains("HTTP 500"), "{row:?}");
    }
}

/// A token without the permission for a zone passes the check of the token, so the webhook is ready.
#[test]
fn while_no_loop_can_read_cloudflare_status_says_why_and_does_not_blame_external_dns() {
    let harness = Harness::new();
    let forbidden = || Fault::error(403, 10_000, "Authentication error");
    harness.cloudflare.fault_every(Matcher::list_records(), forbidden());
    let program = harness.start();
    let external_dns = program.external_dns();
    let told = || {
        [overview(&program), Status::of(&program, WEB)].map(|status| {
            assert!(!status.ok && status.rows[0].state == "waiting", "{status:#?}");
            status.rows[0].what.clone()
        })
    };
    let unread = "reading the records of zone example.com failed: credentials not accepted";
    for loops in ["none is complete yet", "one was complete"] {
        external_dns.records().expect_err("it cannot be read");
        for what in told() {
            let parts = [unread, "Zone: DNS: Edit", "or leave the zone out by DOMAIN_FILTER"];
            assert!(parts.iter().all(|part| what.contains(part)), "{loops}: {what}");
        }
        harness.cloudflare.clear_faults();
        external_dns.run_loop(&web()).expect("published");
        assert!(overview(&program).ok, "{loops}: the failure is over");
        harness.cloudflare.fault_every(Matcher::list_records(), forbidden());
    }
}

/// The request for another hostname read it last.
#[test]
fn what_is_gone_since_the_loop_began_is_not_published() {
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&web()).expect("published");
    let current = external_dns.records().expect("read");
    let both = [web(), [published("new.example.com", "http://web:80")]].concat();
    let changes = external_dns.registry.plan(&current, &external_dns.adjust(&both).expect("adjusted"));
    let none = r#"{"ingress":[{"service":"http_status:404"}]}"#;
    harness.cloudflare.put_configuration(&harness.tunnel, none).expect("cloudflared takes it");
    external_dns.apply(&changes).expect("published");
    let status = Status::of(&program, WEB);
    assert!(!status.ok && status.states(WEB) == ["waiting"], "{status:#?}");
}

/// Nothing is written any more once the limit of calls is used up.
#[test]
fn where_a_request_ends_early_what_it_wrote_is_written_and_the_rest_has_failed() {
    let harness = Harness::new();
    harness.cloudflare.add_tunnel("office");
    let program = harness.start_with(&[("CF_TUNNEL_ID", "home,office")]);
    let external_dns = program.external_dns();
    let names = ["home", "office"].map(|tunnel| (tunnel, format!("{tunnel}.example.com")));
    let both = names
        .clone()
        .map(|(tunnel, name)| endpoint(&name, &[("tunnel-service", "http://web:80"), ("tunnel", tunnel)]));
    harness.cloudflare.fault(Matcher::put_configuration(), 2, Fault::limited(600));
    external_dns.run_loop(&both).expect_err("the limit is used up");
    let states = names.map(|(_, name)| Status::of(&program, &name).states(&name).join(" "));
    let mut sorted = states.clone();
    sorted.sort();
    assert_eq!(sorted, ["Cloudflare", "written"], "{:#?}", overview(&program));
    let served = ["home.example.com", "office.example.com"].map(|name| harness.service_at(name, "/"));
    for (state, service) in states.iter().zip(&served) {
        assert_eq!(state == "written", service == "http://web:80", "{states:?} {served:?}");
    }
}

/// ExternalDNS with `--txt-cache-interval` asks without a reading before.
#[test]
fn what_was_written_in_an_earlier_request_is_not_written_where_the_next_one_fails_without_a_reading_between()
{
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&web()).expect("published");
    let shown = external_dns.records().expect("read");
    let other = [published(WEB, "http://other:80")];
    let adjusted = external_dns.adjust(&other).expect("adjusted");
    external_dns.apply(&external_dns.registry.plan(&shown, &adjusted)).expect("written");
    assert_eq!(Status::of(&program, WEB).states(WEB), ["written"]);
    // The registry has this in its memory.
    let third = external_dns.adjust(&[published(WEB, "http://third:80")]).expect("adjusted");
    harness.cloudflare.fault_every(Matcher::reads(), Fault::status(500));
    external_dns.apply(&external_dns.registry.plan(&adjusted, &third)).expect_err("nothing can be read");
    let status = Status::of(&program, WEB);
    assert!(!status.ok && status.states(WEB) != ["written"], "{status:#?}");
    let all = overview(&program);
    assert!(!all.ok, "{all:#?}");
}

/// The second attempt plans no write of the hostname that the first one published.
#[test]
fn a_note_on_a_write_stays_where_another_write_makes_the_request_start_over() {
    let harness = Harness::new();
    harness.cloudflare.add_tunnel("office");
    let program = harness.start_with(&[("CF_TUNNEL_ID", "home,office")]);
    let both = ["home", "office"].map(|tunnel| {
        let (name, service) = (format!("{tunnel}.example.com"), format!("http://{tunnel}:443"));
        endpoint(&name, &[("tunnel-service", &service), ("tunnel", tunnel)])
    });
    harness.cloudflare.fault(Matcher::put_configuration(), 2, Fault::DoneButUnanswered);
    program.external_dns().run_loop(&both).expect("published");
    let hint = "the default port of https";
    let logged = |one: &&Endpoint| !harness.log.lines_with(&["WARN", &one.dns_name, hint]).is_empty();
    let [first] = *both.iter().filter(logged).collect::<Vec<_>>() else { panic!("one is written first") };
    let status = Status::of(&program, &first.dns_name);
    assert!(status.rows.iter().any(|row| row.what.contains(hint)), "{status:#?}");
}

#[test]
fn every_spelling_of_a_name_has_its_state() {
    for (sent, asked) in [
        ("WEB.Example.com", "web.example.com"),
        ("web.example.com.", "WEB.example.COM"),
        ("bücher.example.com", "bücher.example.com"),
        ("bücher.example.com", "xn--bcher-kva.example.com"),
        ("BÜCHER.example.com", "Bücher.example.com"),
        ("*.w.example.com", "*.w.example.com"),
    ] {
        let harness = Harness::new();
        let program = harness.start();
        let external_dns = program.external_dns();
        let desired = [endpoint(sent, &[("tunnel-service", "http://web:80")])];
        let encoded: String = asked.bytes().map(|byte| format!("%{byte:02X}")).collect();
        external_dns.run_loop(&desired).expect("published");
        let status = Status::of(&program, &encoded);
        let states: Vec<&str> =
            status.rows.iter().map(|row| &*row.state).filter(|state| *state != "note").collect();
        assert!(status.ok && states == ["written"], "{sent} {asked}: {status:#?}");
        external_dns.run_loop(&desired).expect("nothing");
        let status = Status::of(&program, &encoded);
        let states: Vec<&str> =
            status.rows.iter().map(|row| &*row.state).filter(|state| *state != "note").collect();
        assert!(status.ok && states == ["published"], "{sent} {asked}: {status:#?}");
        assert!(overview(&program).ok);
    }
}

#[test]
fn what_was_read_before_a_write_is_told_as_that_until_the_next_loop() {
    let harness = Harness::new();
    let program = harness.start();
    let external_dns = program.external_dns();
    external_dns.run_loop(&web()).expect("published");
    let texts =
        || Status::of(&program, WEB).rows.into_iter().map(|row| row.what).collect::<Vec<_>>().concat();
    external_dns.run_loop(&web()).expect("nothing to do");
    assert!(!texts().contains("read before"), "{}", texts());
    for (next, is_published) in [(&[published(WEB, "http://web:81")][..], true), (&web(), true), (&[], false)]
    {
        external_dns.run_loop(next).expect("written");
        assert!(
            texts().contains("record CNAME") && texts().contains("read before the last write"),
            "{}",
            texts()
        );
        external_dns.records().expect("read");
        assert_eq!(texts().contains("record CNAME"), is_published, "{}", texts());
        assert!(!texts().contains("read before"), "{}", texts());
    }
}

#[test]
fn a_hostname_with_several_refused_paths_is_counted_once() {
    let harness = Harness::new();
    let program = harness.start();
    let paths = ["^/a", "^/b"].map(|path| {
        let properties = [("tunnel-service", "nonsense://web"), ("tunnel-path", path)];
        Endpoint { set_identifier: path.to_owned(), ..endpoint(WEB, &properties) }
    });
    let _ = program.external_dns().run_loop(&paths);
    let status = overview(&program);
    assert_eq!(
        (status.rows.len(), status.wanted, status.refused, status.waiting),
        (2, 1, 1, 0),
        "{status:#?}"
    );
}

/// The hostname is published, and its zone has other name servers still.
#[test]
fn a_hostname_of_a_zone_that_is_not_active_has_the_note_on_its_zone() {
    let harness = Harness::new();
    let zone = harness.cloudflare.add_zone("example.org", Plan::Free);
    harness.cloudflare.edit(|cloudflare| cloudflare.zone_mut(&zone).status = "pending".to_owned());
    let program = harness.start();
    let desired = [published("web.example.org", "http://web:80"), published(WEB, "http://web:80")];
    for _ in 0..2 {
        program.external_dns().run_loop(&desired).expect("published");
    }
    let notes = |hostname: &str| {
        let status = Status::of(&program, hostname);
        assert_eq!(status.states(hostname), ["published"]);
        status.rows.iter().filter(|row| row.what.contains("the zone is pending")).count()
    };
    assert_eq!((notes("web.example.org"), notes(WEB)), (1, 0));
}
