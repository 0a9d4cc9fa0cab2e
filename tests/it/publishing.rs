//! Hostnames are published, changed and withdrawn, and nothing else moves.

use cloudflare_emulator::{Call, NewTunnel, Plan, RuleText};
use external_dns_cloudflare_tunnel_webhook::limits;
use test_support::clock::eventually;
use test_support::harness::{FOREIGN_RULE, Harness, endpoint, endpoint_of, published};

use crate::shared_account::settle;

#[test]
fn a_hostname_is_published_changed_and_withdrawn() {
    let harness = Harness::with_foreign();
    let (rules_before, records_before) = (harness.rules(), harness.cloudflare.records(&harness.zone).len());
    let program = harness.start();
    let external_dns = program.external_dns();

    let first = [published("web.example.com", "http://web.shop.svc:80")];
    external_dns.run_loop(&first).expect("published");
    assert_eq!(
        harness.rules(),
        [
            FOREIGN_RULE,
            r#"{"hostname":"web.example.com","service":"http://web.shop.svc:80"}"#,
            r#"{"hostname":"*.example.com","service":"http://wild:80"}"#,
            r#"{"service":"http_status:503"}"#,
        ]
    );
    let target = format!("{}.cfargotunnel.com", harness.tunnel);
    let [_, (name, content, proxied, comment)] = harness.cnames().try_into().expect("theirs and ours");
    assert_eq!((&*name, &*content, proxied), ("web.example.com", &*target, true));
    let start = "external-dns owner=default resource=ingress/shop/web h=";
    assert!(comment.starts_with(start) && comment.contains(" rules="), "{comment}");

    let changed = [endpoint(
        "web.example.com",
        &[("tunnel-service", "https://web.shop.svc:443"), ("origin-no-tls-verify", "true")],
    )];
    external_dns.run_loop(&changed).expect("changed");
    assert_eq!(
        harness.rules()[1],
        r#"{"hostname":"web.example.com","service":"https://web.shop.svc:443","originRequest":{"noTLSVerify":true}}"#
    );

    external_dns.run_loop(&[]).expect("withdrawn");
    assert_eq!(harness.rules(), rules_before);
    assert_eq!(harness.cloudflare.records(&harness.zone).len(), records_before);
}

/// Otherwise the reads of each loop would use up every call, and nothing would ever be written.
#[test]
fn a_request_that_writes_reads_with_the_calls_that_other_reads_leave() {
    let harness = Harness::new();
    let (_clock, program) = harness.start_stopped(&[]);
    let external_dns = program.external_dns();
    let current = external_dns.records().expect("read");
    let adjusted = external_dns.adjust(&[published("web.example.com", "http://web:80")]).expect("adjusted");
    while external_dns.records().is_ok() {}
    external_dns.apply(&external_dns.registry.plan(&current, &adjusted)).expect("published");
    assert_eq!(harness.service_at("web.example.com", "/"), "http://web:80");
    external_dns.records().expect_err("a request that writes nothing has none of these calls");
}

/// Invariant 10 of docs/how-it-works.md.
#[test]
fn a_loop_without_changes_costs_one_call_a_tunnel_and_one_a_zone_and_writes_nothing() {
    let harness = Harness::with_foreign();
    harness.cloudflare.add_zone("example.org", Plan::Free);
    let program = harness.start();
    let desired =
        [published("web.example.com", "http://web:80"), published("web.example.org", "http://web:80")];
    program.external_dns().run_loop(&desired).expect("published");

    harness.cloudflare.take_calls();
    for _ in 0..3 {
        program.external_dns().run_loop(&desired).expect("nothing to do");
    }
    let calls = harness.cloudflare.count_calls();
    assert_eq!((calls.reads, calls.writes), (3 * (1 + 2), 0));
}

#[test]
fn the_first_publication_costs_one_read_a_batch_and_a_configuration() {
    let harness = Harness::new();
    harness.cloudflare.add_zone("example.org", Plan::Free);
    let program = harness.start();
    let desired: Vec<_> = (0..250)
        .map(|number| {
            published(
                &format!("h{number}.example.{}", if number < 201 { "org" } else { "com" }),
                "http://web:80",
            )
        })
        .collect();
    // The quota of a Free zone is below what is asked of it here.
    harness.cloudflare.edit(|cloudflare| {
        let free =
            cloudflare.zones().iter().find(|zone| zone.name == "example.org").map(|zone| zone.id.clone());
        cloudflare.zone_mut(&free.expect("it is there")).record_quota = 1000;
    });
    program.external_dns().run_loop(&desired).expect("published");
    let calls = harness.cloudflare.take_calls();
    let own_reads = 1 + 2;
    // One tunnel and two zones; 201 records in two batches of a Free zone, 49 in one; GET and PUT.
    let bound = own_reads + (1 + 2) + (2 + 1) + 2;
    assert!(calls.len() <= bound, "{} calls, {bound} allowed: {calls:#?}", calls.len());
    assert_eq!(harness.rules().len(), 251);
}

/// The other account's tunnels cannot be asked for here, and what cannot be found looks like a tunnel that is gone.
#[test]
fn a_zone_of_another_account_is_not_touched() {
    let harness = Harness::new();
    let (zone, content) = harness.cloudflare.edit(|cloudflare| {
        let account = cloudflare.add_account("other");
        let zone = cloudflare.add_zone_to(&account, "example.net", Plan::Pro);
        let tunnel =
            cloudflare.add_tunnel_with(NewTunnel { account: Some(account), ..NewTunnel::named("theirs") });
        (zone, format!("{tunnel}.cfargotunnel.com"))
    });
    let theirs = serde_json::json!({
        "name": "web.example.net", "type": "CNAME", "content": content, "proxied": true,
        "comment": "external-dns owner=default rules=-",
    });
    harness.cloudflare.add_record(&zone, theirs).expect("Cloudflare takes it");
    let program = harness.start();
    assert_eq!(program.external_dns().records().expect("shown"), [], "it is another instance's");

    // Visitors would get error 1014: a CNAME does not lead to a tunnel of another account.
    program
        .external_dns()
        .run_loop(&[published("new.example.net", "http://web:80")])
        .expect("refused by name");
    assert_eq!(harness.cloudflare.records(&zone).len(), 1);
    assert_eq!(harness.rules(), [""; 0]);
}

/// The refusal is remembered. A rule that is remembered as refused must not be left out of a move as if the other rules
/// were enough.
#[test]
fn a_hostname_does_not_move_while_cloudflare_refuses_one_of_its_rules_there() {
    let harness = Harness::new();
    let office = harness.cloudflare.add_tunnel("office");
    let program = harness.start_with(&[("CF_TUNNEL_ID", "home,office")]);
    let on = |tunnel: &str, path: &str, service: &str| {
        endpoint("web.example.com", &[("tunnel-service", service), ("tunnel-path", path), ("tunnel", tunnel)])
    };
    let at_home = [on("home", "^/a$", "http://web:80"), on("home", "^/b$", "http://web:80")];
    program.external_dns().run_loop(&at_home).expect("published");
    let (cnames, rules) = (harness.cnames(), harness.rules());

    harness.cloudflare.edit(|cloudflare| {
        cloudflare.whims_mut().dislike_rule(RuleText::Numbered, |rule| rule.service == "http://bad:80");
    });
    let at_the_office = [on("office", "^/a$", "http://bad:80"), on("office", "^/b$", "http://web:80")];
    for turn in 1..=3 {
        let answer = program.external_dns().run_loop(&at_the_office);
        assert_eq!(answer.err(), (turn == 1).then_some(503), "turn {turn}");
        assert_eq!(harness.rules(), rules, "turn {turn}");
        let [(_, content, ..)] = &harness.cnames()[..] else { panic!("one record") };
        assert_eq!(*content, cnames[0].1, "turn {turn}: it does not lead to {office}");
    }
}

#[test]
fn where_all_is_published_a_default_service_takes_every_object_that_names_none_and_does_not_keep_out() {
    let harness = Harness::new();
    let program =
        harness.start_with(&[("DEFAULT_SERVICE", "http://{name}.{namespace}.svc:80"), ("PUBLISH", "all")]);
    let from = |name: &str, resource: &str, properties: &[(&str, &str)]| {
        let mut endpoint = endpoint(name, properties);
        endpoint.labels.set("resource", resource);
        endpoint
    };
    let mut record_only = from("only.example.com", "ingress/shop/only", &[]);
    record_only.record_type = "CNAME".to_owned();
    record_only.targets = vec![format!("{}.cfargotunnel.com", harness.tunnel)];
    let desired = [
        from("shop.example.com", "ingress/shop/web", &[]),
        from("blog.example.com", "service/press/blog", &[("origin-no-tls-verify", "true")]),
        from("own.example.com", "ingress/shop/own", &[("tunnel-service", "http://own:8080")]),
        from("out.example.com", "ingress/shop/out", &[("tunnel", "false")]),
        from("nameless.example.com", "", &[]),
        record_only,
    ];
    for _ in 0..2 {
        program.external_dns().run_loop(&desired).expect("published");
    }
    assert_eq!(
        harness.rules(),
        [
            r#"{"hostname":"blog.example.com","service":"http://blog.press.svc:80","originRequest":{"noTLSVerify":true}}"#,
            r#"{"hostname":"own.example.com","service":"http://own:8080"}"#,
            r#"{"hostname":"shop.example.com","service":"http://web.shop.svc:80"}"#,
            r#"{"service":"http_status:404"}"#,
        ]
    );
    let mut names: Vec<String> = harness.cnames().into_iter().map(|(name, ..)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["blog.example.com", "only.example.com", "own.example.com", "shop.example.com"]);

    // What is kept out from now on goes.
    let mut kept_out = desired;
    kept_out[0] = from("shop.example.com", "ingress/shop/web", &[("tunnel", "false")]);
    program.external_dns().run_loop(&kept_out).expect("withdrawn");
    assert_eq!(harness.rules().len(), 3);
}

/// One update when a setting changes, and none from then on, also where Cloudflare drops what says a default.
#[test]
fn default_options_reach_every_rule_once_and_an_endpoints_own_stay() {
    for drops in [false, true] {
        let harness = Harness::with_foreign();
        harness.cloudflare.edit(|cloudflare| cloudflare.whims_mut().drops_explicit_defaults = drops);
        let desired = [
            published("web.example.com", "https://web:443"),
            endpoint(
                "own.example.com",
                &[("tunnel-service", "https://own:443"), ("origin-no-tls-verify", "false")],
            ),
            endpoint("only.example.com", &[("tunnel-service", "none")]),
        ];
        let unverified: &[(&str, &str)] =
            &[("ORIGIN_NO_TLS_VERIFY", "true"), ("ORIGIN_CONNECT_TIMEOUT", "1m")];
        let foreign = harness.rules();
        // What is dropped says the same as what is absent.
        let own = (!drops).then_some(false);
        for (variables, timeout, web) in [
            (unverified, Some(60), Some(true)),
            (&[("ORIGIN_CONNECT_TIMEOUT", "60s")], Some(60), None),
            (&[], None, None),
        ] {
            let program = harness.start_with(variables);
            program.external_dns().run_loop(&desired).expect("updated");
            let rules = harness.rules();
            assert_eq!([&rules[..1], &rules[3..]].concat(), foreign, "{variables:?}");
            let options = |rule: &str| {
                let rule: serde_json::Value = serde_json::from_str(rule).expect("a rule");
                let option = |name: &str| rule["originRequest"][name].clone();
                (option("connectTimeout").as_u64(), option("noTLSVerify").as_bool())
            };
            assert_eq!(harness.cnames().len(), 1 + desired.len(), "a record alone has no rule for an option");
            assert_eq!(options(&rules[1]), (timeout, own), "{variables:?} {}", rules[1]);
            assert_eq!(options(&rules[2]), (timeout, web), "{variables:?} {}", rules[2]);
            let writes_of = |loops: usize| {
                harness.cloudflare.take_calls();
                for _ in 0..loops {
                    program.external_dns().run_loop(&desired).expect("nothing to do");
                }
                harness.cloudflare.count_calls().writes
            };
            // What the API drops is written twice more.
            assert!(writes_of(2) <= if drops { 2 } else { 0 }, "{variables:?}");
            assert_eq!(writes_of(2), 0, "{variables:?}");
        }
    }
}

/// ExternalDNS's own flag never reaches a webhook: it sends its changes as usual.
#[test]
fn a_dry_run_writes_nothing_and_answers_as_if_it_had() {
    let harness = Harness::with_foreign();
    let (rules, cnames) = (harness.rules(), harness.cnames());
    let program = harness.start_with(&[("DRY_RUN", "true")]);
    for _ in 0..2 {
        program.external_dns().run_loop(&[published("web.example.com", "http://web:80")]).expect("answered");
    }
    assert_eq!(harness.cloudflare.count_calls().writes, 0);
    assert_eq!((harness.rules(), harness.cnames()), (rules, cnames));
}

/// Both begin with the same letters. The narrower rule is in front, whichever object comes first.
#[test]
fn of_expressions_with_one_beginning_the_narrower_one_answers() {
    for (narrow, wide, [of_both, of_wide]) in [
        (r"^/files/.*\.key$", "^/files/", ["/files/a.key", "/files/a.txt"]),
        ("^/api(/|$)", "^/api/?(.*)", ["/api/v1", "/apis"]),
    ] {
        for first in [narrow, wide] {
            let harness = Harness::new();
            let program = harness.start();
            let at = |path: &str| {
                let service = if path == narrow { "http://narrow:80" } else { "http://wide:80" };
                endpoint_of(path, "a.example.com", &[("tunnel-service", service), ("tunnel-path", path)])
            };
            for desired in [vec![at(first)], vec![at(narrow), at(wide)]] {
                settle(program.external_dns(), &harness.cloudflare, &desired).expect("published");
            }
            assert_eq!(harness.service_at("a.example.com", of_both), "http://narrow:80", "{narrow} {wide}");
            assert_eq!(harness.service_at("a.example.com", of_wide), "http://wide:80", "{narrow} {wide}");
        }
    }
}

/// A first look comes before anything is made, so that the tunnel is missing, too.
#[test]
fn a_dry_run_tells_the_plan_for_a_tunnel_that_is_not_made_and_makes_no_call_about_it() {
    let harness = Harness::without_tunnel();
    let (clock, program) = harness.start_stopped(&[("DRY_RUN", "true")]);
    let warned = harness.log.lines_with(&["the tunnel \"home\" is not created"]);
    assert!(matches!(&*warned, [line] if line.starts_with("WARN")), "{warned:?}");
    let desired = [published("web.example.com", "http://web:80")];
    program.external_dns().run_loop(&desired).expect("answered");
    for planned in ["without DRY_RUN: rule created or updated", "without DRY_RUN: record created"] {
        assert_eq!(harness.log.lines_with(&[planned, "web.example.com"]).len(), 1, "{planned}");
    }
    clock.put_ahead(limits::CONNECTORS_PERIOD);
    clock.await_watch();
    let about_it = |call: &Call| call.is_write() || call.path.contains("/cfd_tunnel/");
    let calls: Vec<Call> = harness.cloudflare.take_calls().into_iter().filter(about_it).collect();
    assert!(calls.is_empty(), "{calls:?}");

    let id = harness.cloudflare.add_tunnel("home");
    clock.put_ahead(limits::CONNECTORS_PERIOD);
    eventually("the tunnel is found", || !harness.log.lines_with(&["manages these tunnels", &id]).is_empty());
    program.external_dns().run_loop(&desired).expect("answered");
    assert_eq!(harness.log.lines_with(&["without DRY_RUN: record created", &id]).len(), 1);
    assert_eq!(harness.cloudflare.count_calls().writes, 0);
}
