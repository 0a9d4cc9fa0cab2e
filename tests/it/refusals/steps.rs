//! What a request still does, and what it no longer tries, once a step was refused or has taken long.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Call, Fault, Matcher, RuleText};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels};
use test_support::harness::{Harness, endpoint, published};

use crate::shared_account::{SharedAccount, settle};
use crate::simulation::SharedTime;

/// The batches that were sent to a zone, and the documents to any tunnel.
fn writes(calls: &[Call], zone: &str) -> [usize; 2] {
    let batches = calls.iter().filter(|call| call.method == "POST" && call.path.contains(zone)).count();
    [batches, calls.iter().filter(|call| call.method == "PUT").count()]
}

#[test]
fn a_path_beside_a_refused_one_of_another_object_is_published_and_the_refused_one_is_not_sent_again() {
    for text in [RuleText::Numbered, RuleText::Unnamed] {
        let account = SharedAccount::new();
        account.cloudflare().edit(|cloudflare| {
            cloudflare.whims_mut().dislike_rule(text, |rule| rule.service == "http://bad:80");
        });
        let program = account.harness.start();
        let path = |path: &str, service: &str| Endpoint {
            labels: Labels::from_iter([("resource", &*format!("ingress/shop{path}"))]),
            ..endpoint("web.example.org", &[("tunnel-service", service), ("tunnel-path-prefix", path)])
        };
        let desired =
            [path("/a", "http://web:80"), path("/bad", "http://bad:80"), path("/z", "http://web:80")];
        assert_eq!(program.external_dns().run_loop(&desired).err(), Some(503), "the others come next");
        let words = ["refused=cloudflare", "path=\"^/bad(/|$)\"", "resource=\"ingress/shop/bad\""];
        let told = account.harness.log.lines_with(&words);
        assert_eq!(told.len(), 1, "{text:?}: the first request names the path and its object");
        program.external_dns().run_loop(&desired).expect("published");
        let with_bad = |call: &&Call| call.method == "PUT" && call.body.contains("http://bad:80");
        let sent = account.cloudflare().take_calls().iter().filter(with_bad).count();
        for (path, is_served) in [("/a", true), ("/z", true), ("/bad", false)] {
            let visit = account.cloudflare().visit("web.example.org", path);
            assert_eq!(visit.is_served(), is_served, "{text:?} {path}");
        }
        let _ = settle(program.external_dns(), account.cloudflare(), &desired);
        assert_eq!(account.cloudflare().take_calls().iter().filter(with_bad).count(), 0, "{text:?}");
        assert!(sent <= 3, "{text:?}: sent {sent} times");
        settle(program.external_dns(), account.cloudflare(), &[]).expect("all of it is ours");
        assert_eq!(account.state(), SharedAccount::new().state(), "{text:?}");
    }
}

/// The next request goes on; this one has nothing more that could help.
#[test]
fn a_request_whose_document_was_written_ends_with_the_first_failure() {
    let account = SharedAccount::new();
    let program = account.harness.start();
    let desired = [published("a.example.com", "http://web:80"), published("b.example.com", "http://web:80")];
    program.external_dns().run_loop(&desired).expect("published");
    account.cloudflare().take_calls();
    account.cloudflare().fault(Matcher::batch(), 1, Fault::limited(1));
    program.external_dns().run_loop(&desired[..1]).expect_err("the record could not be deleted");
    let calls = account.cloudflare().take_calls();
    assert_eq!(writes(&calls, "zones"), [1, 1], "{calls:#?}");
    assert!(calls.last().is_some_and(|call| call.path.ends_with("/batch")), "{calls:#?}");
}

/// A write whose answer could not be awaited does not begin.
#[test]
fn a_step_that_there_is_no_time_for_is_left_to_the_next_loop() {
    for (left, is_written) in [(1_500, true), (1_499, false)] {
        let harness = Harness::new();
        harness.cloudflare.stop_clock();
        let clock = Arc::new(SharedTime::of(harness.cloudflare.time()));
        let program = harness.start_by(clock, &[("REQUEST_TIMEOUT", "10s")]);
        program.wait_until_ready();
        let passes = Duration::from_secs(10) - Duration::from_millis(left);
        harness
            .cloudflare
            .edit_after(Matcher::batch(), 1, move |cloudflare| cloudflare.advance_clock(passes));
        let desired: [Endpoint; 1] = [published("web.example.com", "http://web:80")];
        let answer = program.external_dns().run_loop(&desired);
        assert_eq!(answer.is_ok(), is_written, "{left} ms: {answer:?}");
        assert_eq!(
            writes(&harness.cloudflare.take_calls(), "zones"),
            [1, usize::from(is_written)],
            "{left} ms"
        );
        program.external_dns().run_loop(&desired).expect("done by now");
        assert!(harness.cloudflare.visit("web.example.com", "/").is_served(), "{left} ms");
    }
}

/// A write that may have been done is read again in the same request, and done if it was not.
#[test]
fn a_write_without_an_answer_is_repeated_in_the_same_request() {
    for call in [Matcher::batch(), Matcher::put_configuration()] {
        let account = SharedAccount::new();
        let program = account.harness.start();
        account.cloudflare().fault(call.clone(), 1, Fault::status(500));
        program.external_dns().run_loop(&[published("web.example.org", "http://web:80")]).expect("published");
        assert_eq!(account.cloudflare().waiting_faults(), 0, "{call:?}");
        assert!(account.cloudflare().visit("web.example.org", "/").is_served(), "{call:?}");
    }
}
