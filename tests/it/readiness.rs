//! `/readyz` says whether the token is good and the tunnels are there, from the start and later; `/healthz` and the
//! start itself do not depend on Cloudflare.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Permission, Token, TokenStatus};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::clock::ManualClock;
use test_support::external_dns::Answer;
use test_support::harness::{Harness, Program, TOKEN, published};

const NEW_TOKEN: &str = "another-token-that-must-not-be-seen";

/// A program that runs by a clock of its own.
struct Fixture {
    program: Program,
    harness: Harness,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new(harness: Harness, variables: &[(&'static str, &str)]) -> Self {
        let clock = Arc::new(ManualClock::default());
        let program = harness.start_by(Arc::clone(&clock) as _, variables);
        Self { program, harness, clock }
    }

    fn ask(&self, path: &str) -> Answer {
        self.program.observe("GET", path).expect("the observation port answers")
    }

    /// Puts the clock ahead until `/readyz` says what is wanted; answers its body.
    #[allow(clippy::panic, reason = "a helper that waits in vain fails the test")]
    fn until_ready_says(&self, status: u16, text: &str) -> String {
        for _ in 0..100 {
            let answer = self.ask("/readyz");
            if answer.status == status && answer.body.contains(text) {
                return answer.body;
            }
            self.clock.put_ahead(Duration::from_secs(10));
            self.clock.await_watch();
        }
        panic!("{text:?} is not in {:?}", self.ask("/readyz"));
    }

    fn run_loop(&self, desired: &[Endpoint]) -> Result<(), u16> {
        self.program.external_dns().run_loop(desired).map(drop)
    }
}

fn desired() -> [Endpoint; 1] {
    [published("web.example.com", "http://web:80")]
}

/// A file with the token, by itself in a folder.
fn token_file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readiness").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for tests can be written");
    let path = folder.join("token");
    fs::write(&path, TOKEN).expect("the folder for tests can be written");
    path
}

/// A harness whose program has its token in a file.
fn with_file(name: &str) -> (Fixture, PathBuf) {
    let path = token_file(name);
    let fixture = Fixture::new(Harness::new(), &[("CF_API_TOKEN", &format!("file:{}", path.display()))]);
    fixture.until_ready_says(200, "ready");
    (fixture, path)
}

fn disable(harness: &Harness, token: &str) {
    harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(token).status = TokenStatus::Disabled);
}

#[test]
fn the_start_waits_for_nothing_and_readiness_says_what_is_missing_and_what_to_do() {
    // No test listens here: a free port that was closed again may be the port of the next emulator.
    let closed = "http://127.0.0.1:1/client/v4".to_owned();
    let every = |fault: Fault| {
        let harness = Harness::new();
        harness.cloudflare.fault_every(Matcher::any(), fault);
        harness
    };
    let without = |permission: Permission| {
        let harness = Harness::new();
        harness.cloudflare.edit(|cloudflare| {
            cloudflare.token_mut(TOKEN).permissions.retain(|held| *held != permission);
        });
        harness
    };
    let disabled = Harness::new();
    disable(&disabled, TOKEN);
    let elsewhere = Harness::new();
    let without_path = elsewhere.cloudflare.base_url().replace("/client/v4", "");
    for (label, harness, variables, why, remedy) in [
        ("hangs", every(Fault::Hang), vec![], "not checked yet", "wait"),
        ("resets", every(Fault::Reset), vec![], "no answer", "HTTPS_PROXY"),
        ("fails", every(Fault::status(500)), vec![], "Cloudflare failed", "cloudflarestatus"),
        ("limits", every(Fault::limited(120)), vec![], "rate limit", "share the limit"),
        ("talks HTML", every(Fault::Garbage), vec![], "answered in place of", "CF_API_BASE_URL"),
        (
            "is not there",
            Harness::new(),
            vec![("CF_API_BASE_URL", &*closed)],
            "not reached",
            "network policies",
        ),
        ("disabled the token", disabled, vec![], "not accepted", "Cloudflare Tunnel: Edit"),
        (
            "does not let it see tunnels",
            without(Permission::TunnelEdit),
            vec![],
            "not accepted",
            "Cloudflare Tunnel: Edit",
        ),
        // Cloudflare answers as if it were the token.
        (
            "has the tunnels in another account",
            Harness::new(),
            vec![("CF_ACCOUNT_ID", "ffffffffffffffffffffffffffffffff")],
            "not accepted",
            "Cloudflare Tunnel: Edit for the account of the tunnels (CF_ACCOUNT_ID)",
        ),
        (
            "does not let it see zones, which tell the account",
            without(Permission::ZoneRead),
            vec![("CF_ACCOUNT_ID", "")],
            "not accepted",
            "this call needs Zone: Zone: Read: HTTP 403",
        ),
        (
            "has another path",
            Harness::new(),
            vec![("CF_API_BASE_URL", &*without_path)],
            "not found",
            "correct the path of CF_API_BASE_URL",
        ),
        ("has no such tunnel", Harness::new(), vec![("CF_TUNNEL_ID", "office")], "; there are", "correct"),
    ] {
        let fixture = Fixture::new(harness, &variables);
        assert_eq!(fixture.ask("/healthz").status, 200, "{label}");
        let external_dns = fixture.program.external_dns();
        assert_eq!(external_dns.call("GET", "/", "").status, 200, "{label}");
        assert_eq!(external_dns.records().err(), Some(503), "{label}");
        let body = fixture.until_ready_says(503, why);
        assert!(body.contains(remedy), "{label}: {body}");
        assert_eq!(fixture.ask("/healthz").status, 200, "{label}");
        assert!(!body.contains(TOKEN), "{label}: {body}");
    }
}

/// With the account set, the start would succeed, and every hostname would be refused.
#[test]
fn where_no_zone_is_seen_the_remedy_is_neither_the_account_nor_a_tunnel() {
    for (seen, filter, remedy) in [
        (Some(Vec::new()), "", "give the token Zone: Zone: Read and Zone: DNS: Edit"),
        (None, "example.org", "correct DOMAIN_FILTER or ZONE_ID_FILTER"),
    ] {
        let harness = Harness::new();
        harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = seen);
        let fixture = Fixture::new(harness, &[("CF_ACCOUNT_ID", ""), ("DOMAIN_FILTER", filter)]);
        let body = fixture.until_ready_says(503, "the token sees");
        assert!(body.contains(remedy), "{body}");
        assert!(!body.contains("CF_ACCOUNT_ID") && !body.contains("tunnel"), "{body}");
    }
}

#[test]
fn what_goes_by_is_waited_for_without_a_restart() {
    for (label, fault) in [
        ("hangs", Some(Fault::Hang)),
        ("fails", Some(Fault::status(503))),
        ("limits", Some(Fault::limited(60))),
        ("shows no zone", None),
    ] {
        let harness = Harness::new();
        match fault {
            Some(fault) => harness.cloudflare.fault_every(Matcher::any(), fault),
            None => harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = Some(vec![])),
        }
        let fixture = Fixture::new(harness, &[("CF_ACCOUNT_ID", "")]);
        let external_dns = fixture.program.external_dns();
        assert_eq!(external_dns.records().err(), Some(503), "{label}");
        fixture.harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).zones = None);
        fixture.harness.cloudflare.clear_faults();
        fixture.harness.cloudflare.release();
        fixture.until_ready_says(200, "ready");
        assert_eq!(fixture.run_loop(&desired()), Ok(()), "{label}");
    }
}

#[test]
fn a_token_is_taken_from_its_file_before_the_old_one_ends() {
    let (fixture, path) = with_file("early");
    fixture.harness.cloudflare.add_token(Token::full(NEW_TOKEN));
    fs::write(&path, NEW_TOKEN).expect("it was written before");
    fixture.harness.cloudflare.take_calls();
    // What is new is verified at once, and by that it is seen.
    let is_seen = || {
        let calls = fixture.harness.cloudflare.take_calls();
        calls.iter().any(|call| call.header("authorization").is_some_and(|value| value.contains(NEW_TOKEN)))
    };
    let seen = (0..100).any(|_| {
        fixture.clock.put_ahead(Duration::from_secs(10));
        fixture.clock.await_watch();
        is_seen()
    });
    assert!(seen, "the file is looked at without a request");
    disable(&fixture.harness, TOKEN);
    fixture.run_loop(&desired()).expect("the new one is in use");
    let calls = fixture.harness.cloudflare.take_calls();
    assert!(calls.iter().all(|call| call.status == Some(200)), "{calls:#?}");
}

#[test]
fn a_token_that_is_revoked_later_ends_readiness_until_its_file_has_a_good_one() {
    let (fixture, path) = with_file("revoked");
    fixture.run_loop(&desired()).expect("published");
    disable(&fixture.harness, TOKEN);
    assert_eq!(fixture.run_loop(&[]), Err(500));
    let body = fixture.until_ready_says(503, "credentials");
    assert!(body.contains("CF_API_TOKEN_FILE"), "{body}");
    assert_eq!(fixture.ask("/healthz").status, 200);

    fixture.harness.cloudflare.add_token(Token::full(NEW_TOKEN));
    fs::write(&path, NEW_TOKEN).expect("it was written before");
    fixture.until_ready_says(200, "ready");
    fixture.run_loop(&[]).expect("the new one is in use");
    assert_eq!(fixture.harness.cnames(), []);
}

/// The token is as good as it was: what it may do is told with the request that met it.
#[test]
fn what_a_good_token_may_not_do_and_what_goes_by_leave_readiness_alone() {
    let fixture = Fixture::new(Harness::new(), &[]);
    fixture.until_ready_says(200, "ready");
    fixture.harness.cloudflare.edit(|cloudflare| {
        cloudflare.token_mut(TOKEN).permissions =
            vec![Permission::ZoneRead, Permission::DnsRead, Permission::TunnelEdit];
    });
    let _ = fixture.run_loop(&desired());
    let checks = || {
        let calls = fixture.harness.cloudflare.take_calls();
        calls.iter().filter(|call| call.path.ends_with("/tokens/verify")).count()
    };
    let verified = (0..100).any(|_| {
        fixture.clock.put_ahead(Duration::from_secs(10));
        fixture.clock.await_watch();
        checks() > 0
    });
    assert!(verified, "the refusal is looked into");
    assert_eq!(fixture.ask("/readyz").status, 200);

    for fault in [Fault::status(500), Fault::Reset, Fault::limited(120)] {
        fixture.harness.cloudflare.fault_every(Matcher::any(), fault.clone());
        assert!(fixture.run_loop(&desired()).is_err(), "{fault:?}");
        fixture.clock.put_ahead(Duration::from_secs(60));
        assert_eq!(fixture.ask("/readyz").status, 200, "{fault:?}");
        fixture.harness.cloudflare.clear_faults();
    }
}

/// A proxy with a login of its own answers so, and Cloudflare never without a code.
#[test]
fn a_page_with_401_in_cloudflares_place_says_nothing_of_the_token() {
    let stopped = Stopped::new(&[]);
    let body = "<!DOCTYPE html><html><title>Sign in to the proxy</title></html>".to_owned();
    let page = Fault::Status { code: 401, headers: Vec::new(), body };
    stopped.harness.cloudflare.fault_every(Matcher::any(), page);
    stopped.program.external_dns().records().expect_err("there is no answer");
    stopped.checks_after(Duration::from_secs(60));
    assert!(stopped.program.is_ready());
    let said = stopped.harness.log.lines_with(&["answered in place of", "401"]);
    assert!(!said.is_empty(), "the log names the proxy");
}

#[test]
fn a_tunnel_that_is_deleted_later_ends_readiness_until_there_is_one_of_its_name() {
    let fixture = Fixture::new(Harness::new(), &[]);
    fixture.until_ready_says(200, "ready");
    fixture.run_loop(&desired()).expect("published");
    let old = fixture.harness.tunnel.clone();
    fixture.harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut(&old).deleted = true);
    let _ = fixture.run_loop(&desired());
    fixture.until_ready_says(503, "there is no tunnel");

    let new = fixture.harness.cloudflare.add_tunnel("home");
    fixture.until_ready_says(200, "ready");
    // A digest without a rule stays for a minute.
    fixture.harness.cloudflare.advance_clock(Duration::from_secs(61));
    fixture.run_loop(&[published("other.example.com", "http://web:80")]).expect("published");
    assert!(
        fixture.harness.cloudflare.configuration(&new).is_some_and(|text| text.contains("other.example.com"))
    );
}

/// A program on a clock that stands still, in which only the watch is under way.
struct Stopped {
    program: Program,
    harness: Harness,
    clock: Arc<ManualClock>,
}

impl Stopped {
    fn new(variables: &[(&'static str, &str)]) -> Self {
        let (harness, clock) = (Harness::new(), Arc::new(ManualClock::stopped()));
        let program = harness.start_by(Arc::clone(&clock) as _, variables);
        let stopped = Self { program, harness, clock };
        stopped.program.wait_until_ready();
        assert_eq!(stopped.checks_after(Duration::ZERO), 1, "the start checks the token");
        stopped
    }

    /// How often the token is checked at once when so much time has passed.
    fn checks_after(&self, passed: Duration) -> usize {
        self.clock.put_ahead(passed);
        self.clock.await_watch();
        let calls = self.harness.cloudflare.take_calls();
        calls.iter().filter(|call| call.path.ends_with("/tokens/verify")).count()
    }

    /// Meets a refusal that puts the token in doubt.
    fn meet_a_refusal(&self) {
        let denied = Fault::error(403, 10000, "Authentication error");
        self.harness.cloudflare.fault(Matcher::list_records(), 1, denied);
        self.program.external_dns().records().expect_err("it is refused");
    }

    fn announcements(&self) -> usize {
        self.harness.log.lines_with(&["manages these tunnels"]).len()
    }
}

/// Each check takes two calls of the rate limit.
#[test]
fn the_token_is_checked_when_it_is_in_doubt_and_not_within_ten_seconds_of_a_good_check() {
    let stopped = Stopped::new(&[]);
    assert_eq!(stopped.checks_after(Duration::from_secs(3_600)), 0, "nothing is in doubt");
    stopped.meet_a_refusal();
    assert_eq!(stopped.checks_after(Duration::ZERO), 1);
    stopped.meet_a_refusal();
    assert_eq!(stopped.checks_after(Duration::from_millis(9_999)), 0);
    assert_eq!(stopped.checks_after(Duration::from_millis(1)), 1);
    assert_eq!(stopped.checks_after(Duration::from_secs(3_600)), 0, "it was found good");
    assert_eq!(stopped.announcements(), 1, "what is managed is what it was");
}

#[test]
fn a_tunnel_made_anew_under_its_name_is_taken_over_where_no_call_missed_the_old_one() {
    let stopped = Stopped::new(&[]);
    let old = stopped.harness.tunnel.clone();
    stopped.harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut(&old).deleted = true);
    let new = stopped.harness.cloudflare.add_tunnel("home");
    stopped.meet_a_refusal();
    assert_eq!(stopped.checks_after(Duration::from_secs(10)), 1);
    assert!(stopped.program.is_ready());
    assert_eq!(stopped.announcements(), 2);
    stopped.program.external_dns().run_loop(&desired()).expect("published");
    assert!(
        stopped.harness.cloudflare.configuration(&new).is_some_and(|text| text.contains("http://web:80"))
    );
}
