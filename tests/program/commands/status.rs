//! `status`: what a program at work says of hostnames that are published, and of those that are not.

use std::net::{SocketAddr, TcpListener};

use cloudflare_emulator::{Fault, Matcher, Refusal};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use socket2::SockRef;
use test_support::harness::{Harness, TOKEN, endpoint, endpoint_of, endpoint_saying, published};
use test_support::process::{Process, program};
use test_support::raw_http::Client;

use super::list::{protected, publish, with_access};
use super::{Said, said};

fn status_at(port: u16, arguments: &[&str]) -> Said {
    let output = program()
        .arg("status")
        .args(arguments)
        .env("METRICS_PORT", port.to_string())
        .output()
        .expect("the program was built");
    said(&output, &[])
}

fn status(process: &Process, arguments: &[&str]) -> Said {
    status_at(process.observation().port(), arguments)
}

/// The rows of the table, each split at its columns.
fn rows(said: &Said) -> Vec<Vec<&str>> {
    let rows =
        said.out.lines().filter(|line| !line.starts_with("HOSTNAME ") && !line.starts_with("last loop "));
    rows.map(|row| row.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect()).collect()
}

/// A hostname, its group and word, and a part of what to do.
type Trouble = (&'static str, &'static str, &'static str);

const TROUBLES: [Trouble; 10] = [
    ("misspelled.example.com", "mistake: invalid", "did you mean webhook-tunnel-path-prefix?"),
    ("mistake.example.com", "mistake: invalid", "webhook-tunnel-service"),
    ("web.example.net", "mistake: no_zone", "add the zone to the account"),
    ("web.out.example.com", "mistake: outside_filter", "change DOMAIN_FILTER"),
    ("two-tunnels.example.com", "mistake: two_tunnels", "move all its endpoints at once"),
    ("record.example.com", "held by others: record_held", "set ADOPT="),
    ("rule.example.com", "held by others: rule_held", "set ADOPT="),
    ("old1.example.com", "guard: mass_deletion", "--set global.settings.MASS_DELETION_LIMIT="),
    ("disliked.example.com", "Cloudflare: cloudflare", "This DNS record cannot be proxied."),
    ("broken.example.com", "waiting: withheld", "see the line of that endpoint"),
];

#[test]
fn each_kind_of_trouble_has_a_row_with_its_group_its_object_and_what_to_do() {
    let harness = Harness::new();
    harness.cloudflare.add_tunnel("office");
    let theirs = r#"{"ingress":[{"hostname":"rule.example.com","service":"http://theirs:80"},{"service":"http_status:503"}]}"#;
    harness.cloudflare.put_configuration(&harness.tunnel, theirs).expect("cloudflared takes it");
    let held = serde_json::json!({"name": "record.example.com", "type": "A", "content": "192.0.2.1"});
    harness.cloudflare.add_record(&harness.zone, held).expect("Cloudflare takes it");
    harness.cloudflare.edit(|cloudflare| {
        let refusal = Refusal::new(400, 9041, "This DNS record cannot be proxied.");
        cloudflare.whims_mut().dislike_name("disliked.example.com", refusal);
    });
    let variables = [
        ("CF_TUNNEL_ID", "home,office"),
        ("EXCLUDE_DOMAIN_FILTER", "out.example.com"),
        ("MASS_DELETION_LIMIT", "1"),
        ("LOG_FORMAT", "json"),
    ];
    let (process, external_dns) = Process::start_ready(&harness, &variables);
    let before_the_first = status(&process, &[]);
    assert_eq!(before_the_first.code, Some(1), "{}", before_the_first.errors);
    assert!(before_the_first.out.contains("ExternalDNS has sent no endpoints"), "{}", before_the_first.out);

    let (service, api) = (("tunnel-service", "http://web:80"), ("tunnel-path-prefix", "/api"));
    let kept = [
        endpoint_of("ingress/shop/web", "web.example.com", &[service, api]),
        published("*.wild.example.com", "http://wild:80"),
        endpoint("two-tunnels.example.com", &[service, ("tunnel", "office"), api]),
    ];
    let old: Vec<Endpoint> =
        (0..6).map(|number| published(&format!("old{number}.example.com"), "http://old:80")).collect();
    let broken = |path| endpoint("broken.example.com", &[service, ("tunnel-path-prefix", path)]);
    let before = [&kept[..], &old, &[broken("/api")]].concat();
    external_dns.run_loop(&before).expect("published");
    harness.cloudflare.advance_clock(std::time::Duration::from_secs(60));

    let bad = [
        endpoint_of("service/shop/mistake", "mistake.example.com", &[("tunnel-service", "web:80")]),
        published("web.example.net", "http://web:80"),
        published("web.out.example.com", "http://web:80"),
        endpoint("two-tunnels.example.com", &[service, ("tunnel", "home")]),
        published("record.example.com", "http://web:80"),
        published("rule.example.com", "http://web:80"),
        published("disliked.example.com", "http://web:80"),
        broken("api"),
        endpoint_of(
            "ingress/shop/misspelled",
            "misspelled.example.com",
            &[service, ("tunnel-pathprefix", "/api")],
        ),
        endpoint_of("ingress/other/web", "web.example.com", &[("tunnel-service", "http://other:80"), api]),
        endpoint("plain.example.com", &[]),
    ];
    let desired = [&kept[..], &bad].concat();
    for _ in 0..2 {
        assert_eq!(external_dns.run_loop(&desired), Err(503), "the deletion of many waits");
    }

    let all = status(&process, &[]);
    assert_eq!(all.code, Some(1));
    let counts = " ago: 11 wanted, 2 published, 15 refused, 0 waiting, 1 without a service\n";
    assert!(all.out.starts_with("last loop ") && all.out.contains(counts), "{}", all.out);
    for (hostname, state, remedy) in TROUBLES {
        let rows = rows(&all);
        let row =
            rows.iter().find(|row| row[0] == hostname).unwrap_or_else(|| panic!("{hostname}: {}", all.out));
        assert_eq!(row[3], state, "{}", all.out);
        assert!(row[4].ends_with(" ago") && row[5].contains(remedy), "{row:?}");
        let one = status(&process, &[hostname]);
        assert_eq!(one.code, Some(1), "{}", one.out);
    }
    let misspelled = rows(&all).into_iter().find(|row| row[0] == "misspelled.example.com").expect("a row");
    assert_eq!(misspelled[1], "-", "its path is not known");
    let mistake = rows(&all).into_iter().find(|row| row[0] == "mistake.example.com").expect("a row");
    assert_eq!(mistake[2], "service/shop/mistake");

    for (asked, code, parts) in [
        (
            "WEB.Example.com.",
            0,
            &[
                "web.example.com",
                "^/api(/|$)",
                "ingress/shop/web",
                "published",
                "\"http://web:80\" through tunnel home",
            ][..],
        ),
        ("web.example.com", 0, &["left out", "ingress/other/web", "is not published"]),
        ("*.wild.example.com", 0, &["published", "\"http://wild:80\""]),
        ("plain.example.com", 0, &["no service", "webhook-tunnel-service"]),
        ("nowhere.example.com", 1, &["not sent", "prefix", "--source", "--domain-filter", "no address"]),
        ("a.out.example.com", 1, &["mistake", "DOMAIN_FILTER"]),
        (
            "two words\u{1b}[2J%2f?x#y.example.com",
            1,
            &["mistake", "a hostname cannot hold ' '", "\\u{1b}[2j%2f?x#y"],
        ),
        ("bücher.example.com", 1, &["xn--bcher-kva.example.com", "not sent"]),
        ("../healthz", 1, &["mistake"]),
    ] {
        let one = status(&process, &[asked]);
        assert_eq!((one.code, &*one.errors), (Some(code), ""), "{asked}: {}", one.out);
        for part in parts {
            assert!(one.out.contains(part), "{asked}: {part} is missing in {}", one.out);
        }
        assert!(!one.out.contains('\u{1b}'), "{}", one.out);
    }
    let json = status(&process, &["--json", "web.example.com"]);
    let document: serde_json::Value = serde_json::from_str(&json.out).expect("a document");
    assert_eq!(
        (json.code, &document["ok"], &document["rows"][0]["state"]),
        (Some(0), &true.into(), &"published".into())
    );

    let (_, _, lines) = process.end_with("TERM");
    let told: Vec<&String> =
        lines.iter().filter(|line| line.contains("the first loop is complete")).collect();
    assert!(!lines.iter().any(|line| line.contains("unread:")), "{lines:#?}");
    let [told] = &told[..] else { panic!("{lines:#?}") };
    assert!(told.contains(r#""wanted":"10","published":"10","refused":"0","waiting":"0""#), "{told}");
}

/// The rule refuses every visitor, before and after a restart, until an object says something of Access.
#[test]
fn a_silent_hostname_whose_application_was_deleted_by_hand_is_not_told_as_published_and_well() {
    let harness = with_access();
    publish(&harness, &[protected("web.example.com")]);
    let id = harness.cloudflare.applications()[0].id.clone();
    harness.cloudflare.edit(|cloudflare| cloudflare.delete_application(&id));
    for _ in 0..2 {
        let program = harness.start();
        for _ in 0..3 {
            let _ = program.external_dns().run_loop(&[published("web.example.com", "http://web:80")]);
        }
        let said = status_at(program.observation().port(), &["web.example.com"]);
        assert!(said.out.contains("pplication"), "{}", said.out);
    }
}

/// Every Envoy Gateway has a redirect route for ever, and of two merged routes ExternalDNS sends the annotations of
/// either.
#[test]
fn a_wildcard_without_its_word_needs_an_operator_only_where_it_is_public_and_has_one_line_for_each_process() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &[]);
    let service = ("tunnel-service", "http://proxy.shop.svc:80");
    let unasked = endpoint_saying("*.example.com", [service]);
    let other = endpoint_of("httproute/shop/other", "web.example.com", &[service]);
    let row = |arguments: &[&str], code: i32| {
        let said = status(&process, arguments);
        assert_eq!(said.code, Some(code), "{}", said.out);
        let mut rows = rows(&said).into_iter().filter(|row| row[0] == "*.example.com");
        let [Some(row), None] = [rows.next(), rows.next()] else { panic!("one row: {}", said.out) };
        assert!(row[4].ends_with(" ago"), "{row:?}");
        (row[3].to_owned(), row[5].to_owned())
    };
    for _ in 0..3 {
        external_dns.run_loop(&[unasked.clone(), other.clone()]).expect("nothing is refused");
    }
    assert_eq!(harness.service_at("any.example.com", "/"), "NXDOMAIN");
    for arguments in [&[][..], &["*.example.com"]] {
        let (state, what) = row(arguments, 0);
        assert!(state == "left out" && what.contains("would be served"), "{state} {what}");
    }
    let all = status(&process, &[]).out;
    assert!(all.contains(" 0 refused, 0 waiting, 0 without a service"), "{all}");

    let asked = endpoint("*.example.com", &[service]);
    for desired in [&asked, &unasked, &asked, &unasked, &unasked] {
        external_dns.run_loop(&[desired.clone(), other.clone()]).expect("nothing is refused");
        assert_eq!(harness.service_at("any.example.com", "/"), "http://proxy.shop.svc:80");
    }
    let (state, what) = row(&[], 1);
    assert!(state == "mistake" && what.contains("is public"), "{state} {what}");
    let of_one = status(&process, &["*.example.com"]);
    assert!(of_one.code == Some(1) && of_one.out.contains("published"), "{}", of_one.out);

    let (_, _, lines) = process.end_with("TERM");
    let of_wildcards: Vec<&String> =
        lines.iter().filter(|line| line.contains("webhook-tunnel-wildcard")).collect();
    let [left_out, public] = &of_wildcards[..] else { panic!("{lines:#?}") };
    assert!(left_out.starts_with("INFO") && left_out.contains("does not publish the wildcard"), "{left_out}");
    assert!(public.starts_with("WARN") && public.contains("is public"), "{public}");
}

#[test]
fn what_a_loop_wrote_is_shown_as_soon_as_the_next_one_begins_and_then_whatever_is_written() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &[]);
    let (web, api) =
        (published("web.example.com", "http://web:80"), published("api.example.com", "http://api:80"));
    let state = |hostname: &str| {
        let said = status(&process, &[hostname]);
        let rows = rows(&said);
        assert_eq!((rows.len(), said.code), (1, Some(0)), "{}", said.out);
        rows[0][3].to_owned()
    };
    external_dns.run_loop(std::slice::from_ref(&web)).expect("published");
    assert_eq!(state("web.example.com"), "written");
    external_dns.records().expect("the next loop begins");
    assert_eq!(state("web.example.com"), "published");
    external_dns.run_loop(&[web, api]).expect("published");
    assert_eq!((&*state("web.example.com"), &*state("api.example.com")), ("published", "written"));
}

#[test]
fn while_cloudflare_cannot_be_read_that_is_what_a_hostname_and_everything_wait_for() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &[]);
    let web = [published("web.example.com", "http://web:80")];
    external_dns.run_loop(&web).expect("published");
    external_dns.run_loop(&web).expect("nothing to do");
    let records = Matcher::call("GET", &format!("/zones/{}/dns_records", harness.zone));
    harness.cloudflare.fault_every(records, Fault::status(403));
    external_dns.run_loop(&web).expect_err("it is not read");
    for arguments in [&[][..], &["web.example.com"], &["other.example.com"]] {
        let said = status(&process, arguments);
        assert!(said.code == Some(1) && said.out.contains("Cloudflare"), "{}", said.out);
        assert!(!said.out.contains("--domain-filter"), "{}", said.out);
    }
}

#[test]
fn in_a_dry_run_a_hostname_says_what_would_be_written_of_each_path() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &[("DRY_RUN", "true")]);
    let api = [("tunnel-service", "http://api:80"), ("tunnel-path-prefix", "/api")];
    let desired = [
        published("web.example.com", "http://web:80"),
        endpoint("web.example.com", &api),
        published("other.example.com", "http://other:80"),
    ];
    external_dns.run_loop(&desired).expect("answered");
    for (arguments, hostnames) in [(&["web.example.com"][..], 1), (&[], 2), (&["other.example.com"], 1)] {
        let said = status(&process, arguments);
        let rows = rows(&said);
        assert_eq!((said.code, rows.len()), (Some(1), hostnames), "{}", said.out);
        for row in rows {
            assert_eq!(row[3], "dry run", "{row:?}");
            assert!(row[5].starts_with("without DRY_RUN: record created, target="), "{row:?}");
            let of_web = ["service=\"http://web:80\"", "service=\"http://api:80\" ^/api(/|$)"];
            let is_whole = of_web.map(|part| row[5].contains(part));
            assert_eq!(is_whole, [row[0] == "web.example.com"; 2], "{row:?}");
        }
    }
}

#[test]
fn with_a_wrong_token_nothing_is_ready_and_the_exit_code_says_so() {
    let harness = Harness::new();
    let mut process =
        Process::start(&harness, &[("CF_API_TOKEN", "a-token-that-cloudflare-does-not-know-00")]);
    let observation: SocketAddr = process.wait_for("metrics=").parse().expect("an address");
    process.wait_for("not ready: ");
    for arguments in [&[][..], &["web.example.com"]] {
        let said = status_at(observation.port(), arguments);
        assert_eq!(said.code, Some(1), "{}", said.out);
        let [row] = &rows(&said)[..] else { panic!("{}", said.out) };
        assert!(row[3] == "not ready" && row[5].contains("Invalid API Token"), "{row:?}");
    }
}

/// Pages that a browser shows, and visitors of a tunnel, reach a forwarded port as well.
#[test]
fn only_the_command_is_answered_and_a_slow_reader_of_it_holds_up_no_probe() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &[]);
    // An annotation in the words of a refusal may be long, and a thousand of them are the bound.
    let service = "x".repeat(900);
    let desired: Vec<Endpoint> =
        (0..2_000).map(|number| published(&format!("h{number}.example.com"), &service)).collect();
    external_dns.run_loop(&desired).expect("refused by name");
    let ask = |headers: &str| {
        let mut client = Client::connect(process.observation());
        client.send(format!("GET /status HTTP/1.1\r\n{headers}\r\n"));
        client
    };
    for (headers, status) in [
        ("Host: localhost\r\n", 200),
        ("Host: a.example.com\r\n", 404),
        ("Host: localhost\r\nOrigin: http://localhost\r\n", 404),
        ("Host: localhost\r\nSec-Fetch-Site: same-origin\r\n", 404),
        // An annotation can choose the host that cloudflared names, and a mesh's proxy in the pod keeps that of its
        // client.
        ("Host: localhost\r\nCf-Connecting-Ip: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.1\r\n", 404),
        ("Host: localhost\r\nX-Forwarded-Proto: http\r\n", 404),
    ] {
        assert_eq!(ask(headers).answer().status, status, "{headers}");
    }
    let slow: Vec<Client> = (0..32)
        .map(|_| {
            let mut client = ask("Host: localhost\r\n");
            SockRef::from(client.stream()).set_recv_buffer_size(4096).expect("it is set");
            client.send("");
            client
        })
        .collect();
    assert_eq!(process.observe("/healthz").status, 200);
    drop(slow);

    let all = status(&process, &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&all.out).expect("a document");
    let rows = document["rows"].as_array().expect("a list").len();
    assert!(all.out.len() < 520 * 1024 && rows <= 1_000, "{} bytes in {rows} rows", all.out.len());
    assert_eq!((&document["refused"], &document["more"]), (&2_000.into(), &(2_000 - rows).into()));
    assert_eq!(status(&process, &["h1999.example.com"]).code, Some(1));
    let table = status(&process, &[]);
    assert!(table.out.ends_with(&format!("and {} more\n", 2_000 - rows)), "{}", table.out.len());
}

#[test]
fn a_secret_in_an_annotation_is_not_in_a_row() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &[]);
    let desired = [
        published(&format!("{TOKEN}.example.com"), "http://web:80"),
        endpoint_of(
            TOKEN,
            "a.example.com",
            &[("tunnel-service", TOKEN), ("tunnel-path", &format!("^/{TOKEN}"))],
        ),
    ];
    for _ in 0..2 {
        external_dns.run_loop(&desired).expect("answered");
    }
    // What is said is looked through for the token.
    for arguments in [&[][..], &["--json"], &["a.example.com"], &["--json", &format!("{TOKEN}.example.com")]]
    {
        let out = status(&process, arguments).out;
        assert!(out.contains("[redacted]"), "{out}");
    }
}

#[test]
fn where_no_program_answers_status_ends_with_69_and_a_wrong_setting_or_hostname_with_64() {
    let port =
        TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("it is bound").port();
    for (port, arguments, code, part) in [
        (port, &[][..], 69, "127.0.0.1:"),
        (0, &[], 69, "METRICS_PORT is 0"),
        (port, &["--metrics-host=nowhere"], 64, "METRICS_HOST"),
        (port, &[""], 64, "a hostname"),
        (port, &["a.example.com", "b.example.com"], 64, "more than one command"),
        (port, &["--dry-run"], 64, "--dry-run takes exactly one value"),
    ] {
        let said = status_at(port, arguments);
        assert_eq!((said.code, &*said.out), (Some(code), ""), "{arguments:?}: {}", said.errors);
        assert!(said.errors.contains(part), "{arguments:?}: {}", said.errors);
    }
    let harness = Harness::new();
    let (process, _) = Process::start_ready(&harness, &[("METRICS_HOST", "0.0.0.0")]);
    assert_eq!(status(&process, &[]).code, Some(1), "before the first loop");
}
