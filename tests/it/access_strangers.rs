//! Whoever comes near a protected hostname with a slip of the pen, another namespace, a browser at Cloudflare or an
//! outage: a visitor without a login is never served what is protected.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Application, Cloudflare, Emulator, Fault, Matcher, Token, Visit, Visitor};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};
use serde_json::{Value, json};
use test_support::harness::{Harness, Program, TOKEN, endpoint, published};

use crate::simulation::SharedTime;

pub(crate) const NAME: &str = "app.example.com";
const URL: &str = "https://app.example.com/";
pub(crate) const SECRET: &str = "http://secret.shop.svc:80";

/// Longer than lists may lack what was written.
const INTERVAL: Duration = Duration::from_secs(130);

/// An account with a team and policies, and the program in it on Cloudflare's time.
pub(crate) struct Stage {
    pub(crate) harness: Harness,
    pub(crate) program: Program,
}

impl Stage {
    pub(crate) fn new(variables: &[(&'static str, &str)]) -> Self {
        let harness = Harness::new();
        harness.cloudflare.edit(|cloudflare| {
            cloudflare.set_up_access("my-team");
            for (name, decision) in [
                ("staff", "allow"),
                ("on-call", "allow"),
                ("everybody", "bypass"),
                ("twin", "allow"),
                ("twin", "allow"),
            ] {
                let policy = json!({"name": name, "decision": decision, "include": [{"everyone": {}}]});
                cloudflare.add_policy(&policy).expect("a policy");
            }
            *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
        });
        harness.cloudflare.stop_clock();
        let clock = SharedTime::of(harness.cloudflare.time());
        let program = harness.start_by(Arc::new(clock), variables);
        program.wait_until_ready();
        harness.cloudflare.take_calls();
        harness
            .cloudflare
            .watch_as(&[Visitor::WithoutLogin, Visitor::Preflight], &[URL, "https://app.example.com/admin"]);
        Self { harness, program }
    }

    pub(crate) fn protected(variables: &[(&'static str, &str)]) -> Self {
        let stage = Self::new(variables);
        stage.run(&[wish("staff")]);
        assert_eq!(stage.policies(), [["staff"]]);
        stage.run(&[wish("staff")]);
        stage
    }

    pub(crate) fn restarted(self) -> Self {
        let Self { harness, program } = self;
        drop(program);
        harness.cloudflare.clear_faults();
        let clock = SharedTime::of(harness.cloudflare.time());
        let program = harness.start_by(Arc::new(clock), &[]);
        program.wait_until_ready();
        Self { harness, program }
    }

    pub(crate) fn cloudflare(&self) -> &Emulator {
        &self.harness.cloudflare
    }

    /// Plays loops until two in a row write nothing; says how many wrote.
    pub(crate) fn run(&self, desired: &[Endpoint]) -> usize {
        let (mut wrote, mut idle) = (0, 0);
        while idle < 2 {
            self.cloudflare().take_calls();
            let answer = self.program.external_dns().run_loop(desired);
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

    fn is_served_with_login(&self) -> bool {
        self.cloudflare().visit_as(Visitor::WithLogin, NAME, "/").is_served()
    }

    /// What visitors without a login ever got that is protected.
    fn leaks(&self) -> Vec<String> {
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

pub(crate) fn wish(policies: &str) -> Endpoint {
    endpoint(NAME, &[("tunnel-service", SECRET), ("access-policy", policies)])
}

fn silent() -> Endpoint {
    endpoint(NAME, &[("tunnel-service", SECRET)])
}

/// Names and values that are not quite those that are meant.
fn slips() -> Vec<Endpoint> {
    let many = (0..25).map(|number| format!("policy-{number}")).collect::<Vec<_>>().join(",");
    let values = [
        "staf",
        "Staff",
        "STAFF",
        "sta ff",
        "\"staff\"",
        "staff.",
        "",
        " ",
        ",",
        "staff,",
        ",staff",
        "staff,staff",
        "staff;on-call",
        "staff on-call",
        "none,staff",
        "staff,none",
        "None",
        "NONE",
        "'none'",
        "no",
        "off",
        "false",
        "open",
        "null",
        "[]",
        "public",
        "bypass",
        "everybody",
        "staff,everybody",
        "twin",
        &many,
    ];
    let names = [
        "acces-policy",
        "access-polcy",
        "access-policies",
        "access_policy",
        "accesspolicy",
        "Access-Policy",
        "access-policy ",
        "tunnel-access-policy",
        "cloudflare-access-policy",
        "policy-access",
        "access-policy-name",
        "access-policy.",
        "access-policy.x",
    ];
    let misspelt = |name: &str, value: &str| endpoint(NAME, &[("tunnel-service", SECRET), (name, value)]);
    let values = values.iter().map(|value| wish(value));
    let names = names.iter().flat_map(|name| [misspelt(name, "staff"), misspelt(name, "none")]);
    values.chain(names).collect()
}

fn property(endpoint: &Endpoint) -> String {
    let last = endpoint.provider_specific.last().expect("a property");
    format!("{:?}={:?}", last.name, last.value)
}

#[test]
fn a_slip_in_the_name_or_the_value_publishes_nothing() {
    let mut told = Vec::new();
    for slip in slips() {
        let stage = Stage::new(&[]);
        stage.run(std::slice::from_ref(&slip));
        if !stage.leaks().is_empty() || !stage.harness.cnames().is_empty() || !stage.applications().is_empty()
        {
            told.push(property(&slip));
        }
    }
    assert_eq!(told, [""; 0], "published");
}

#[test]
fn a_slip_in_the_name_or_the_value_opens_nothing_and_leaves_what_protects() {
    let mut told = Vec::new();
    let stage = Stage::protected(&[]);
    for slip in slips() {
        stage.run(std::slice::from_ref(&slip));
        if !stage.leaks().is_empty() || stage.policies() != [["staff"]] || !stage.is_served_with_login() {
            told.push(property(&slip));
        }
    }
    assert_eq!(told, [""; 0], "opened");
}

#[test]
fn spaces_around_a_policy_are_no_slip() {
    let stage = Stage::protected(&[]);
    for text in [" staff ", "staff ", "\tstaff"] {
        assert_eq!(stage.run(&[wish(text)]), 0, "{text:?}");
    }
    stage.run(&[wish(" on-call ,  staff ")]);
    assert_eq!(stage.policies(), [["on-call", "staff"]]);
    assert_eq!(stage.leaks(), [""; 0]);
}

fn of(resource: &str, mut endpoint: Endpoint) -> Endpoint {
    endpoint.labels.set("resource", resource);
    endpoint
}

#[test]
fn an_object_of_another_namespace_that_says_nothing_opens_nothing() {
    let stage = Stage::protected(&[]);
    for desired in [
        vec![of("ingress/bank/web", silent())],
        vec![of("ingress/bank/web", silent()), of("ingress/shop/web", wish("staff"))],
        vec![of("ingress/shop/web", wish("staff")), of("ingress/bank/web", silent())],
        vec![of("ingress/bank/web", silent())],
        vec![of("ingress/shop/web", silent())],
    ] {
        stage.run(&desired);
        assert_eq!(stage.leaks(), [""; 0]);
        assert_eq!(stage.policies(), [["staff"]]);
    }
}

#[test]
fn with_the_namespace_guard_another_namespace_neither_opens_nor_protects_and_names_only_what_is_listed() {
    let variables = [("NAMESPACE_GUARD", "true"), ("ACCESS_POLICIES", "staff,everybody")];
    let stage = Stage::protected(&variables);
    for other in ["none", "staff", "on-call"] {
        stage.run(&[of("ingress/bank/web", wish(other))]);
        assert_eq!(stage.policies(), [["staff"]], "{other}");
    }
    for unusable in ["on-call", "staff,on-call", "everybody"] {
        stage.run(&[wish(unusable)]);
        assert_eq!(stage.policies(), [["staff"]], "{unusable}");
    }
    assert_eq!(stage.leaks(), [""; 0]);
    assert!(stage.logged(&["refused=access_policy", "on-call", "which ACCESS_POLICIES does not list"]));

    let unlisted = Stage::new(&[("NAMESPACE_GUARD", "true")]);
    unlisted.run(&[wish("staff")]);
    assert_eq!(unlisted.policies(), [[""; 0]; 0]);
    assert_eq!(unlisted.harness.cnames(), []);
}

/// An edit by hand at Cloudflare, and how the application's policies are afterwards.
type Edit = (&'static str, fn(&mut Cloudflare));

fn own(cloudflare: &mut Cloudflare) -> String {
    cloudflare.applications().first().expect("the application").id.clone()
}

/// Puts the application as somebody would who changes some of its fields.
pub(crate) fn put(cloudflare: &mut Cloudflare, fields: &Value) {
    let id = own(cloudflare);
    let mut all = cloudflare.application(&id).fields.clone();
    for (name, value) in fields.as_object().expect("an object") {
        if name == "destinations" {
            all.remove("self_hosted_domains");
            all.remove("domain");
        }
        all.insert(name.clone(), value.clone());
    }
    cloudflare.put_application(&id, &Value::Object(all)).expect("Cloudflare takes it");
}

#[test]
fn what_is_edited_by_hand_on_an_application_of_ours_is_mended_and_opens_nothing() {
    let edits: [Edit; 9] = [
        ("other policies", |cloudflare| {
            let on_call = cloudflare.policies()[1].id.clone();
            put(cloudflare, &json!({"policies": [on_call]}));
        }),
        ("no policies", |cloudflare| put(cloudflare, &json!({"policies": []}))),
        ("a policy that lets everybody past", |cloudflare| {
            let (staff, everybody) =
                (cloudflare.policies()[0].id.clone(), cloudflare.policies()[2].id.clone());
            put(cloudflare, &json!({"policies": [staff, everybody]}));
        }),
        ("an inline policy", |cloudflare| {
            let policy = json!({"name": "mine", "decision": "allow", "include": [{"everyone": {}}]});
            put(cloudflare, &json!({"policies": [policy]}));
        }),
        ("an inline policy that lets everybody past", |cloudflare| {
            let policy = json!({"name": "mine", "decision": "bypass", "include": [{"everyone": {}}]});
            put(cloudflare, &json!({"policies": [policy]}));
        }),
        ("another destination", |cloudflare| {
            put(cloudflare, &json!({"destinations": [{"type": "public", "uri": "other.example.com"}]}));
        }),
        ("one destination more", |cloudflare| {
            let uris =
                ["app.example.com", "more.example.com"].map(|uri| json!({"type": "public", "uri": uri}));
            put(cloudflare, &json!({"destinations": uris}));
        }),
        ("another session duration", |cloudflare| put(cloudflare, &json!({"session_duration": "1h"}))),
        ("a session duration that no endpoint can ask for", |cloudflare| {
            put(cloudflare, &json!({"session_duration": "1h30m"}));
        }),
    ];
    let mut told = Vec::new();
    for (label, edit) in edits {
        let stage = Stage::protected(&[]);
        let before = stage.applications()[0].clone();
        stage.cloudflare().edit(edit);
        let loops = stage.run(&[wish("staff")]);
        let after = stage.applications();
        let is_mended = after.len() == 1
            && after[0].id == before.id
            && after[0].fields == before.fields
            && stage.policies() == [["staff"]]
            && stage.is_served_with_login();
        if !is_mended || loops != 1 || !stage.leaks().is_empty() {
            told.push(format!(
                "{label}: {loops} loops wrote, {:?} {:?} {:?}",
                stage.policies(),
                after.iter().map(|one| &one.fields).collect::<Vec<_>>(),
                stage.leaks()
            ));
        }
    }
    assert_eq!(told, [""; 0]);
}

#[test]
fn a_policy_that_is_changed_to_let_everybody_past_is_told_and_the_rule_closes() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().edit(|cloudflare| cloudflare.policy_mut("staff").decision = "bypass".to_owned());
    assert_eq!(stage.run(&[wish("staff")]), 0);
    assert!(stage.logged(&["refused=access_policy", "visitors past without a login"]));
    assert_eq!(stage.leaks(), [""; 0]);
    assert_eq!(stage.run(&[wish("on-call")]), 1, "another policy mends it");
    assert!(stage.is_served_with_login());
    assert_eq!(stage.leaks(), [""; 0]);
}

#[test]
fn an_application_that_lost_its_mark_is_somebody_elses_and_the_hostname_stays_closed() {
    let edits: [Edit; 3] = [
        ("another name", |cloudflare| put(cloudflare, &json!({"name": "mine"}))),
        ("no tag", |cloudflare| put(cloudflare, &json!({"tags": []}))),
        ("the tag is deleted", |cloudflare| {
            let tag = cloudflare.tags().remove(0);
            cloudflare.delete_tag(&tag);
        }),
    ];
    for (label, edit) in edits {
        let stage = Stage::protected(&[]);
        stage.cloudflare().edit(edit);
        let before = stage.applications()[0].fields.clone();
        assert_eq!(stage.run(&[wish("staff")]), 0, "{label}");
        assert_eq!(stage.applications().len(), 1, "{label}");
        assert!(stage.logged(&["refused=application_held"]), "{label}");
        for desired in [vec![silent()], vec![wish("none")], vec![]] {
            stage.run(&desired);
            assert_eq!(stage.leaks(), [""; 0], "{label}, then {desired:?}");
        }
        assert_eq!(stage.applications()[0].fields, before, "{label}");
    }
}

#[test]
fn an_application_that_was_deleted_by_hand_is_made_again_and_the_hostname_is_closed_meanwhile() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().edit(|cloudflare| {
        let id = own(cloudflare);
        cloudflare.delete_application(&id);
    });
    stage.run(&[wish("staff")]);
    assert_eq!(stage.policies(), [["staff"]]);
    assert!(stage.is_served_with_login());
    assert_eq!(stage.leaks(), [""; 0]);
}

#[test]
fn a_deleted_tag_is_made_again_for_the_next_hostname() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().edit(|cloudflare| {
        let tag = cloudflare.tags().remove(0);
        cloudflare.delete_tag(&tag);
    });
    let next = endpoint("next.example.com", &[("tunnel-service", SECRET), ("access-policy", "staff")]);
    stage.run(&[wish("staff"), next]);
    assert_eq!(stage.applications().len(), 2);
    assert_eq!(stage.cloudflare().edit(|cloudflare| cloudflare.tags().len()), 1);
    assert!(stage.cloudflare().visit_as(Visitor::WithLogin, "next.example.com", "/").is_served());
}

#[test]
fn what_the_program_does_not_manage_survives_its_replacement() {
    let stage = Stage::protected(&[]);
    let extra = json!({
        "logo_url": "https://example.com/logo.png", "app_launcher_visible": false, "allowed_idps": ["an-idp"],
        "custom_deny_message": "no", "same_site_cookie_attribute": "strict", "of_tomorrow": {"a": [1, {"b": null}]},
        "tags": ["mine", "x"],
    });
    stage.cloudflare().edit(|cloudflare| {
        cloudflare.whims_mut().application_fields.push("of_tomorrow".to_owned());
        cloudflare.add_tag("mine").expect("a tag");
        let tag = cloudflare.tags().remove(0);
        let mut extra = extra.clone();
        extra["tags"] = json!(["mine", tag]);
        put(cloudflare, &extra);
    });
    let mut before = stage.applications()[0].fields.clone();
    assert_eq!(stage.run(&[wish("on-call")]), 1);
    assert_eq!(stage.policies(), [["on-call"]]);
    before.insert("session_duration".to_owned(), json!("24h"));
    assert_eq!(stage.applications()[0].fields, before);
}

#[test]
fn a_lost_path_beside_a_protected_one_opens_nothing_however_often_it_is_asked_for() {
    let path = |more: &[(&str, &str)]| {
        let all = [("tunnel-service", SECRET)];
        endpoint(NAME, &all.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let stage = Stage::new(&[]);
    stage.run(&[path(&[("tunnel-path-prefix", "/admin"), ("access-policy", "staff")])]);
    assert_eq!(stage.policies(), [["staff"]]);
    for desired in [
        path(&[]),
        path(&[("tunnel-path-prefix", "/admin")]),
        path(&[("tunnel-path", "^/admin")]),
        path(&[("tunnel-path-prefix", "/adm")]),
    ] {
        for _ in 0..2 {
            stage.run(std::slice::from_ref(&desired));
            assert_eq!(stage.leaks(), [""; 0], "{desired:?}");
        }
    }
    stage.run(&[path(&[("tunnel-path-prefix", "/admin"), ("access-policy", "staff")])]);
    assert_eq!(stage.policies(), [["staff"]]);
}

#[test]
fn an_open_rest_and_a_protected_path_are_published_together_and_one_after_the_other() {
    let rest = |policy: &[(&str, &str)]| {
        let all = [("tunnel-service", "http://open:80")];
        endpoint(NAME, &all.iter().chain(policy).copied().collect::<Vec<_>>())
    };
    let path = [("tunnel-service", SECRET), ("tunnel-path-prefix", "/admin"), ("access-policy", "staff")];
    let path = endpoint(NAME, &path);
    for (label, steps) in [
        ("together", vec![vec![rest(&[]), path.clone()]]),
        ("together, with the word", vec![vec![rest(&[("access-policy", "none")]), path.clone()]]),
        ("the rest first", vec![vec![rest(&[])], vec![rest(&[]), path.clone()]]),
        ("the path first", vec![vec![path.clone()], vec![rest(&[("access-policy", "none")]), path]]),
    ] {
        let stage = Stage::new(&[]);
        for step in steps {
            stage.run(&step);
        }
        assert_eq!(stage.leaks(), [""; 0], "{label}");
        assert_eq!(stage.policies(), [["staff"]], "{label}");
        let visit = |visitor, path| stage.cloudflare().visit_as(visitor, NAME, path);
        assert!(visit(Visitor::WithoutLogin, "/").is_served(), "{label}");
        assert!(matches!(visit(Visitor::WithoutLogin, "/admin"), Visit::TurnedAway { .. }), "{label}");
        assert!(visit(Visitor::WithLogin, "/admin").is_served(), "{label}");
    }
}

#[test]
fn the_application_of_a_withdrawn_path_stays_over_an_open_rest_and_goes_with_the_hostname() {
    let rest = published(NAME, "http://open:80");
    let path = [("tunnel-service", SECRET), ("tunnel-path-prefix", "/admin"), ("access-policy", "staff")];
    let stage = Stage::new(&[]);
    stage.run(&[rest.clone(), endpoint(NAME, &path)]);
    stage.run(std::slice::from_ref(&rest));
    assert_eq!(stage.policies(), [["staff"]], "nobody said that the path is to be open");
    assert!(!stage.cloudflare().visit(NAME, "/admin").is_served());
    stage.run(&[]);
    assert_eq!(stage.policies(), [[""; 0]; 0]);
    assert_eq!(stage.leaks(), [""; 0]);
}

#[test]
fn a_path_that_says_nothing_below_a_protected_place_is_not_published_with_it() {
    let path = |path: &str| endpoint(NAME, &[("tunnel-service", SECRET), ("tunnel-path-prefix", path)]);
    let admin = [("tunnel-service", SECRET), ("tunnel-path-prefix", "/admin"), ("access-policy", "staff")];
    for desired in [
        vec![wish("staff"), path("/admin")],
        vec![endpoint(NAME, &admin), path("/admin/users")],
        vec![
            endpoint(NAME, &admin),
            endpoint(NAME, &[("tunnel-service", SECRET), ("tunnel-path", "^/.dmin")]),
        ],
    ] {
        let stage = Stage::new(&[]);
        stage.run(&desired);
        assert_eq!(stage.leaks(), [""; 0]);
        assert_eq!(stage.harness.cnames(), [], "{desired:?}");
        assert_eq!(stage.policies(), [[""; 0]; 0], "{desired:?}");
        assert!(stage.logged(&["refused=would_open"]), "{desired:?}");
    }
}

/// Nobody knows whether Cloudflare takes the same destination twice.
#[test]
fn a_second_application_after_a_restart_that_lists_did_not_show_the_first_in_opens_nothing_and_both_are_withdrawn()
 {
    let mut stage = Stage::new(&[]);
    stage.cloudflare().edit(|cloudflare| {
        cloudflare.whims_mut().unlisted_application_time = Duration::from_secs(30);
        cloudflare.whims_mut().takes_taken_destinations = true;
    });
    stage.cloudflare().fault(Matcher::create_application(), 1, Fault::DoneButUnanswered);
    assert_eq!(stage.program.external_dns().run_loop(&[wish("staff")]), Err(503));
    stage = stage.restarted();
    assert!(stage.program.external_dns().run_loop(&[wish("staff")]).is_ok());
    assert_eq!(stage.policies(), [["staff"], ["staff"]]);
    stage.run(&[wish("staff")]);
    stage.run(&[wish("on-call")]);
    assert_eq!(stage.leaks(), [""; 0]);
    stage.run(&[]);
    assert_eq!(stage.policies(), [[""; 0]; 0]);
    assert_eq!(stage.leaks(), [""; 0]);
}

/// Nothing else in the cluster names a policy, so nothing else asks for Access.
#[test]
fn the_word_that_opens_opens_after_a_restart_as_well() {
    let is_open = |stage: &Stage| stage.cloudflare().visit(NAME, "/").is_served();
    let stage = Stage::protected(&[]).restarted();
    stage.run(&[wish("none")]);
    assert!(is_open(&stage), "it was said at once");
    assert_eq!(stage.policies(), [[""; 0]; 0]);

    let mut stage = Stage::protected(&[]);
    stage.cloudflare().fault_every(Matcher::call("DELETE", "/accounts/*/access/**"), Fault::status(500));
    for _ in 0..2 {
        let _ = stage.program.external_dns().run_loop(&[wish("none")]);
    }
    assert!(!is_open(&stage));
    stage = stage.restarted();
    stage.run(&[wish("none")]);
    assert!(is_open(&stage), "the application could not be deleted");
}

/// Its permissions may never have been given.
#[test]
fn the_word_that_opens_where_nothing_is_protected_rests_while_access_cannot_be_read() {
    let stage = Stage::new(&[]);
    let denied = Fault::error(403, 10000, "Authentication error");
    stage.cloudflare().fault_every(Matcher::call("*", "/accounts/*/access/**"), denied);
    stage.run(&[wish("none")]);
    assert!(stage.cloudflare().visit(NAME, "/").is_served());
    let planned = stage.program.external_dns().run_loop(&[wish("none")]);
    assert_eq!(planned, Ok(Changes::default()));
}

#[test]
fn an_outage_of_access_stops_only_what_is_protected() {
    let faults = [
        Fault::status(500),
        Fault::error(403, 10000, "Authentication error"),
        Fault::error(404, 9999, "access.api.error.not_enabled"),
        Fault::Reset,
        Fault::Garbage,
        Fault::Truncated,
    ];
    for fault in faults {
        let label = format!("{fault:?}");
        let stage = Stage::protected(&[]);
        let gone = endpoint("gone.example.com", &[("tunnel-service", SECRET), ("access-policy", "staff")]);
        stage.run(&[wish("staff"), gone]);
        stage.cloudflare().fault_every(Matcher::call("*", "/accounts/*/access/**"), fault);
        stage.cloudflare().advance_clock(Duration::from_secs(700));
        stage.cloudflare().take_calls();
        let new = endpoint("new.example.com", &[("tunnel-service", SECRET), ("access-policy", "staff")]);
        let open = published("open.example.com", "http://open:80");
        let desired = [wish("on-call"), new, open];
        stage.run(&desired);
        let names: Vec<String> = stage.harness.cnames().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, [NAME, "open.example.com"], "{label}");
        assert!(stage.cloudflare().visit("open.example.com", "/").is_served(), "{label}");
        assert!(stage.is_served_with_login(), "{label}");
        assert_eq!(stage.leaks(), [""; 0], "{label}");

        stage.cloudflare().clear_faults();
        stage.run(&desired);
        assert_eq!(stage.leaks(), [""; 0], "{label}");
        assert!(
            stage.cloudflare().visit_as(Visitor::WithLogin, "new.example.com", "/").is_served(),
            "{label}"
        );
        assert!(!stage.cloudflare().visit("new.example.com", "/").is_served(), "{label}");
        let names: Vec<String> = stage.applications().iter().map(|one| one.name().to_owned()).collect();
        assert!(names.contains(&format!("{NAME} (ExternalDNS default)")), "{label}: {names:?}");
    }
}

/// Nothing else in the cluster names a policy.
#[test]
fn what_is_withdrawn_while_the_program_was_away_leaves_no_application() {
    let stage = Stage::protected(&[]).restarted();
    stage.run(&[]);
    assert_eq!(stage.policies(), [[""; 0]; 0]);
    stage.run(&[silent()]);
    assert!(stage.cloudflare().visit(NAME, "/").is_served());
}

/// As Terraform does it with one that cannot be changed in place.
#[test]
fn a_policy_that_is_made_anew_under_its_name_is_found() {
    let stage = Stage::protected(&[]);
    stage.cloudflare().edit(|cloudflare| {
        let id = own(cloudflare);
        let [old, on_call] = [0, 1].map(|index| cloudflare.policies()[index].id.clone());
        put(cloudflare, &json!({"policies": [on_call]}));
        assert_eq!(id, own(cloudflare));
        cloudflare.delete_policy(&old).expect("deleted");
        let policy = json!({"name": "staff", "decision": "allow", "include": [{"everyone": {}}]});
        cloudflare.add_policy(&policy).expect("a policy");
    });
    for _ in 0..3 {
        stage.cloudflare().advance_clock(Duration::from_secs(700));
        stage.run(&[wish("staff")]);
    }
    assert_eq!(stage.policies(), [["staff"]]);
}

/// Somebody else's name, which has nothing to do with it.
#[test]
fn a_name_that_cloudflare_refuses_keeps_no_wildcard_closed() {
    let stage = Stage::new(&[]);
    let wild = |access: &str| {
        endpoint("*.example.com", &[("tunnel-service", "http://wild:80"), ("access-policy", access)])
    };
    stage.run(&[wild("staff")]);
    assert_eq!(stage.policies(), [["staff"]]);
    let refused = Fault::error(400, 81045, "record quota exceeded");
    stage.cloudflare().fault_every(Matcher::batch().with_body("new.example.com"), refused);
    let new = endpoint("new.example.com", &[("tunnel-service", "http://new:80"), ("access-policy", "none")]);
    stage.run(&[wild("none"), new]);
    assert_eq!(stage.policies(), [[""; 0]; 0]);
    assert!(stage.cloudflare().visit("a.example.com", "/").is_served());
}
