//! A protected hostname beside a misspelled annotation, an object of another namespace, an edit in Cloudflare's
//! dashboard, or an outage: a visitor without a login is never served what is protected.

mod edited_by_hand;
mod merged;
mod outages;

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Application, Cloudflare, Emulator, Fault, Matcher, Token, Visit, Visitor};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::{Value, json};
use test_support::external_dns::Changes;
use test_support::harness::{Harness, Program, TOKEN, endpoint, published};

pub(crate) use self::edited_by_hand::put;
use crate::simulation::SharedTime;

pub(crate) const NAME: &str = "app.example.com";
const URL: &str = "https://app.example.com/";
pub(crate) const SECRET: &str = "http://secret.shop.svc:80";

/// Longer than lists may lack what was written.
const INTERVAL: Duration = Duration::from_secs(130);

/// An application that is younger may be one whose rule comes in the next request, and does not go by itself.
pub(crate) const AGE_MIN: Duration = Duration::from_secs(600);

/// An account with a team and policies, and the program in it on Cloudflare's time.
pub(crate) struct Stage {
    pub(crate) harness: Harness,
    pub(crate) program: Program,
    clock: Arc<SharedTime>,
}

impl Stage {
    pub(crate) fn new(variables: &[(&'static str, &str)]) -> Self {
        let harness = Harness::new();
        harness.cloudflare.edit(|cloudflare| {
            cloudflare.set_up_access("my-team");
            for (name, decision) in [
                ("staff", "allow"),
                ("on-call", "allow"),
                ("public", "bypass"),
                ("twin", "allow"),
                ("twin", "allow"),
            ] {
                let policy = json!({"name": name, "decision": decision, "include": [{"everyone": {}}]});
                cloudflare.add_policy(&policy).expect("a policy");
            }
            *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
        });
        harness.cloudflare.stop_clock();
        let stage = Self::at(harness, variables);
        stage.cloudflare().take_calls();
        stage
            .cloudflare()
            .watch_as(&[Visitor::WithoutLogin, Visitor::Preflight], &[URL, "https://app.example.com/admin"]);
        stage
    }

    fn at(harness: Harness, variables: &[(&'static str, &str)]) -> Self {
        let (program, clock) = start(&harness, variables);
        Self { harness, program, clock }
    }

    /// Another instance of the program in the same account.
    pub(crate) fn start_beside(&self, variables: &[(&'static str, &str)]) -> (Program, Arc<SharedTime>) {
        start(&self.harness, variables)
    }

    pub(crate) fn protected(variables: &[(&'static str, &str)]) -> Self {
        let stage = Self::new(variables);
        stage.run(&[wish("staff")]);
        assert_eq!(stage.policies(), [["staff"]]);
        stage.run(&[wish("staff")]);
        stage
    }

    pub(crate) fn restarted(self) -> Self {
        self.restarted_with(&[])
    }

    pub(crate) fn restarted_with(self, variables: &[(&'static str, &str)]) -> Self {
        let Self { harness, program, clock: _ } = self;
        drop(program);
        harness.cloudflare.clear_faults();
        Self::at(harness, variables)
    }

    pub(crate) fn cloudflare(&self) -> &Emulator {
        &self.harness.cloudflare
    }

    /// One loop, and what the watch does after it.
    pub(crate) fn run_loop(&self, desired: &[Endpoint]) -> Result<Changes, u16> {
        let answer = self.program.external_dns().run_loop(desired);
        self.await_watch();
        answer
    }

    /// Waits until the watch has done what it can do by now.
    pub(crate) fn await_watch(&self) {
        self.clock.await_watch();
    }

    /// The same as `run`, for so long that the applications go for which nothing answers.
    pub(crate) fn run_long(&self, desired: &[Endpoint]) {
        self.run(desired);
        self.cloudflare().advance_clock(AGE_MIN);
        self.run(desired);
    }

    /// Plays loops until two in a row write nothing; says how many wrote.
    pub(crate) fn run(&self, desired: &[Endpoint]) -> usize {
        let (mut wrote, mut idle) = (0, 0);
        while idle < 2 {
            self.cloudflare().take_calls();
            let answer = self.run_loop(desired);
            assert!(matches!(answer, Ok(_) | Err(503)), "{answer:?}");
            self.cloudflare().advance_clock(INTERVAL);
            if self.cloudflare().count_calls().writes == 0 {
                idle += 1;
            } else {
                (wrote, idle) = (wrote + 1, 0);
            }
            assert!(wrote < 6, "it writes on and on: {:#?}", self.cloudflare().calls());
        }
        wrote
    }

    pub(crate) fn applications(&self) -> Vec<Application> {
        self.cloudflare().applications()
    }

    /// The policies of each application.
    pub(crate) fn policies(&self) -> Vec<Vec<String>> {
        self.cloudflare().edit(|cloudflare| {
            let ids: Vec<String> = cloudflare.applications().iter().map(|one| one.id.clone()).collect();
            ids.iter()
                .map(|id| cloudflare.policies_of(id).iter().map(|policy| policy.name.clone()).collect())
                .collect()
        })
    }

    pub(crate) fn is_served_with_login(&self) -> bool {
        self.cloudflare().visit_as(Visitor::WithLogin, NAME, "/").is_served()
    }

    /// What visitors without a login ever got that is protected.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let is_secret = |visit: &Visit| matches!(visit, Visit::Served { service, .. } if service == SECRET);
        let watched = self.cloudflare().watched();
        let leaks = watched
            .iter()
            .filter(|watched| watched.changes.iter().any(|change| change.got.iter().any(is_secret)));
        leaks.map(ToString::to_string).collect()
    }

    pub(crate) fn logged(&self, words: &[&str]) -> bool {
        !self.harness.log.lines_with(words).is_empty()
    }
}

fn start(harness: &Harness, variables: &[(&'static str, &str)]) -> (Program, Arc<SharedTime>) {
    let clock = Arc::new(SharedTime::of(harness.cloudflare.time()));
    let program = harness.start_by(Arc::clone(&clock) as _, variables);
    program.wait_until_ready();
    (program, clock)
}

/// An endpoint with a secret behind it.
pub(crate) fn at(name: &str, properties: &[(&str, &str)]) -> Endpoint {
    endpoint(name, &[&[("tunnel-service", SECRET)], properties].concat())
}

pub(crate) fn of(name: &str, policies: &str) -> Endpoint {
    at(name, &[("access-policy", policies)])
}

pub(crate) fn wish(policies: &str) -> Endpoint {
    of(NAME, policies)
}

#[test]
fn with_the_namespace_guard_another_namespace_neither_opens_nor_protects_and_names_only_what_is_listed() {
    let variables = [("NAMESPACE_GUARD", "true"), ("ACCESS_POLICIES", "staff,public")];
    let stage = Stage::protected(&variables);
    let mut of_bank = wish("none");
    of_bank.labels.set("resource", "ingress/bank/web");
    for refused in [of_bank, wish("staff,on-call"), wish("public")] {
        stage.run(std::slice::from_ref(&refused));
        assert_eq!(stage.policies(), [["staff"]], "{refused:?}");
    }
    assert_eq!(stage.leaks(), [""; 0]);
    assert!(stage.logged(&["refused=access_policy", "on-call", "which ACCESS_POLICIES does not list"]));

    let unlisted = Stage::new(&[("NAMESPACE_GUARD", "true")]);
    unlisted.run(&[wish("staff")]);
    assert_eq!(unlisted.policies(), [[""; 0]; 0]);
    assert_eq!(unlisted.harness.cnames(), []);
}

/// Another object's hostname, which has nothing to do with the wildcard.
#[test]
fn a_name_that_cloudflare_refuses_keeps_no_wildcard_closed() {
    let stage = Stage::new(&[]);
    let wild = |access: &str| {
        endpoint("*.example.com", &[("tunnel-service", "http://wild:80"), ("access-policy", access)])
    };
    stage.run(&[wild("staff")]);
    assert_eq!(stage.policies(), [["staff"]]);
    let refused = Fault::error(400, 9000, "DNS name is invalid");
    stage.cloudflare().fault_every(Matcher::batch().with_body("new.example.com"), refused);
    let new = endpoint("new.example.com", &[("tunnel-service", "http://new:80"), ("access-policy", "none")]);
    stage.run(&[wild("none"), new]);
    assert_eq!(stage.policies(), [[""; 0]; 0]);
    assert!(stage.cloudflare().visit("a.example.com", "/").is_served());
}

/// The wildcard's application is the only login of the foreign rule, and the wildcard's comment was deleted by hand.
#[test]
fn the_refused_endpoint_of_a_wildcard_opens_nothing_together_with_a_name_below_it() {
    let stage = Stage::new(&[]);
    let wild = |access: &str| {
        endpoint("*.example.com", &[("tunnel-service", "http://wild:80"), ("access-policy", access)])
    };
    stage.run(&[wild("staff"), wish("none")]);
    stage.cloudflare().edit(|cloudflare| {
        let wildcard = cloudflare.records("example.com").iter().find(|record| record.name == "*.example.com");
        let id = wildcard.expect("it is published").id.clone();
        cloudflare.patch_record("example.com", &id, &json!({"comment": ""})).expect("Cloudflare takes it");
    });
    let theirs = format!(
        r#"{{"ingress":[{{"path":"^/docs","service":"{SECRET}"}},{{"hostname":"{NAME}","service":"http://app:80"}},{{"service":"http_status:404"}}]}}"#
    );
    stage.cloudflare().put_configuration(&stage.harness.tunnel, &theirs).expect("cloudflared takes it");
    stage.run(&[
        wild("none"),
        endpoint(NAME, &[("tunnel-service", "http://app:80"), ("access-policy", "none")]),
    ]);
    assert_eq!(stage.policies(), [["staff"]]);
    assert!(stage.logged(&["refused=record_held", "*.example.com"]));
    assert!(!stage.cloudflare().visit("other.example.com", "/docs").is_served());
}

/// The wildcard is closed by its rule alone, and the path would have a record of its own, in the tunnel of that rule.
#[test]
fn a_silent_path_leads_no_visitor_past_a_login_to_a_foreign_rule() {
    let stage = Stage::new(&[]);
    let office = stage.cloudflare().add_tunnel("office");
    let theirs = json!({"ingress": [{"hostname": NAME, "service": SECRET}, {"service": "http_status:404"}]});
    stage.cloudflare().put_configuration(&office, &theirs.to_string()).expect("cloudflared takes it");
    let stage = stage.restarted_with(&[("CF_TUNNEL_ID", "home,office"), ("ADOPT", "all")]);
    let checked = [("access-required", "true"), ("access-team-name", "my-team"), ("access-aud-tag", "own")];
    let wildcard = at("*.example.com", &checked);
    stage.run(std::slice::from_ref(&wildcard));
    stage.run(&[wildcard, at(NAME, &[("tunnel", "office"), ("tunnel-path-prefix", "/p")])]);
    assert_eq!(stage.leaks(), [""; 0]);
    assert!(stage.logged(&["refused=would_open", NAME, "in the wanted tunnel requires none"]));
}

#[test]
fn a_slip_in_the_name_or_the_value_opens_nothing_and_leaves_what_protects() {
    let open = Stage::new(&[]);
    open.run(&[at(NAME, &[("login", "staff")])]);
    assert_eq!(open.harness.cnames(), [], "a first publication");
    let stage = Stage::protected(&[]);
    for (name, value) in [
        ("access-policy", "staf"),
        ("access-policy", ""),
        ("access-policy", "staff,none"),
        ("access-policy", "None"),
        ("access-policy", "twin"),
        ("acces-policy", "none"),
        ("access_policy", "staff"),
        ("access-policy.x", "none"),
        ("login", "staff"),
        ("policies", "staff"),
    ] {
        stage.run(&[at(NAME, &[(name, value)])]);
        assert_eq!(stage.leaks(), [""; 0], "{name}: {value}");
        assert_eq!(stage.policies(), [["staff"]], "{name}: {value}");
        assert!(stage.is_served_with_login(), "{name}: {value}");
    }
}

const THEIRS: &str = r#"{"path":"^/admin/old","service":"http://theirs:80"}"#;

/// The document with their rule in front of the last one.
fn with_theirs(stage: &Stage) -> String {
    let last = r#"{"service":"http_status:404"}"#;
    let alone = stage.cloudflare().configuration(&stage.harness.tunnel).expect("it is configured");
    alone.replace(last, &format!("{THEIRS},{last}"))
}

/// The hostname would stand behind a rule of theirs, and take the wildcard's rule along: its visitors would be led to
/// them, past the check. It is found before anything is written, and again in a document that has changed since.
#[test]
fn a_new_hostname_leads_no_visitor_of_a_rule_with_a_login_to_a_foreign_rule() {
    let checked = [("access-required", "true"), ("access-team-name", "my-team"), ("access-aud-tag", "own")];
    let admin = [("tunnel-service", SECRET), ("tunnel-path-prefix", "/admin")];
    let wildcard = at("*.example.com", &[&admin[..], &checked].concat());
    let desired = [wildcard.clone(), published(NAME, "http://web:80")];
    for is_there in [true, false] {
        let stage = Stage::new(&[]);
        stage.run(std::slice::from_ref(&wildcard));
        let (tunnel, with_theirs) = (stage.harness.tunnel.clone(), with_theirs(&stage));
        let add = move |cloudflare: &mut Cloudflare| {
            cloudflare.put_configuration(&tunnel, &with_theirs).expect("cloudflared takes it");
        };
        if is_there {
            stage.cloudflare().edit(add);
            stage.cloudflare().take_calls();
        } else {
            // Both readings of the loop are done then; the document is read once more.
            stage.cloudflare().edit_after(Matcher::get_configuration(), 2, add);
        }
        stage.run_loop(&desired).expect("what is refused is told");
        assert_eq!(stage.cloudflare().count_calls().writes == 0, is_there);
        stage.run(&desired);
        let told = r#"the rule for "*.example.com" "^/admin(/|$)", which requires a login"#;
        assert!(stage.logged(&["refused=rule_conflict", NAME, told]));
        assert!(!stage.cloudflare().visit("any.example.com", "/admin/old").is_served(), "the check holds");
        assert!(!stage.cloudflare().records("example.com").iter().any(|record| record.name == NAME));
        let tunnel = &stage.harness.tunnel;
        let document = stage.cloudflare().configuration(tunnel).expect("it is configured");
        assert!(document.contains(THEIRS), "{document}");
        let alone = document.replace(&format!("{THEIRS},"), "");
        stage.cloudflare().put_configuration(tunnel, &alone).expect("cloudflared takes it");
        stage.run(&desired);
        assert!(stage.cloudflare().visit(NAME, "/").is_served(), "it is published then");
    }
}

/// It stands behind theirs for good, also when the hostname is gone.
#[test]
fn a_rule_without_a_login_that_a_new_hostname_moves_behind_a_foreign_one_is_named_once() {
    let stage = Stage::new(&[]);
    let wildcard = at("*.example.com", &[("tunnel-service", SECRET), ("tunnel-path-prefix", "/admin")]);
    stage.run(std::slice::from_ref(&wildcard));
    stage
        .cloudflare()
        .put_configuration(&stage.harness.tunnel, &with_theirs(&stage))
        .expect("cloudflared takes it");
    stage.run(&[wildcard.clone(), published(NAME, "http://web:80")]);
    stage.run(&[wildcard]);
    let told =
        r#"the rule for "*.example.com" "^/admin(/|$)" moves behind the foreign rule for "" "^/admin/old""#;
    assert_eq!(stage.harness.log.lines_with(&[NAME, told]).len(), 1);
}

/// The hostname was open before the setting, and stays so.
#[test]
fn what_a_later_default_policy_cannot_close_is_an_error_and_counted() {
    let (none, not_required) = (("access-policy", "none"), ("access-required", "false"));
    let expression = [("tunnel-service.dav", "http://dav:80"), ("tunnel-path.dav", "^/v[0-9]+/")];
    for (before, after, told) in [
        (&expression[..], &expression[..], &["asks for a login"][..]),
        (&[none], &[none], &["ACCESS_OPT_OUT=false"]),
        (
            &[not_required],
            &[("origin-no-tls-verify", "yes"), not_required],
            &["webhook-origin-no-tls-verify", "webhook-access-required"],
        ),
    ] {
        let stage = Stage::new(&[]);
        stage.run(&[at(NAME, before)]);
        let stage = stage.restarted_with(&[("DEFAULT_ACCESS_POLICY", "staff"), ("ACCESS_OPT_OUT", "false")]);
        stage.run(&[at(NAME, after)]);
        assert!(stage.cloudflare().visit(NAME, "/").is_served(), "{told:?}");
        let is_kept = "; the published rules and records stay as they are";
        let lines = stage.harness.log.lines_with(&[&["ERROR", "refused=invalid", is_kept], told].concat());
        assert_eq!(lines.len(), 1, "{told:?}: {:#?}", stage.harness.log.lines_with(&["refused="]));
        let metrics = stage.program.observe("GET", "/metrics").expect("an answer").body;
        assert!(metrics.contains("refusals{reason=\"invalid\"} "), "{metrics}");
    }
}

/// The author of an object chose what a mistake quotes.
#[test]
fn a_mistake_that_quotes_a_property_of_access_is_no_missing_login() {
    let stage = Stage::new(&[]);
    stage.run(&[at(NAME, &[("tunnel", "webhook/access-policy")])]);
    let lines = stage.harness.log.lines_with(&["refused=invalid", "which is not configured"]);
    assert!(matches!(&lines[..], [line] if line.contains("WARN")), "{lines:#?}");
}
