//! Conversations about Access with the emulator.

use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher, NeverSetUp, Permission, Plan, Token};
use external_dns_cloudflare_tunnel_webhook::clock::{Deadline, SystemClock};
use external_dns_cloudflare_tunnel_webhook::cloudflare::{AccessScope, Client, Credentials, Error};
use external_dns_cloudflare_tunnel_webhook::model::access::{
    Application, ApplicationKind, Decision, TeamName,
};
use external_dns_cloudflare_tunnel_webhook::model::{AccountId, ZoneId};
use external_dns_cloudflare_tunnel_webhook::secret::Secret;
use serde_json::{Value, json};

use crate::server::{TOKEN, client_with};

/// Access set up for the team `shop`, with one zone, the reusable policy `staff`, and a client that may do everything.
struct Scene {
    emulator: Emulator,
    client: Client,
    account: AccountId,
    zone: ZoneId,
    staff: String,
}

impl Scene {
    fn new() -> Self {
        let emulator = Emulator::start();
        emulator.add_token(Token::with_permissions(TOKEN, &Permission::ALL));
        let zone = ZoneId::new(emulator.add_zone("example.com", Plan::Free));
        emulator.set_up_access("shop");
        Self {
            client: client_with(&emulator.base_url(), token(TOKEN)),
            account: AccountId::new(emulator.account()),
            staff: emulator.add_policy(&policy("staff", "allow")).unwrap(),
            zone,
            emulator,
        }
    }

    fn list(&self) -> Result<Vec<Application>, Error> {
        self.client.access_applications(AccessScope::Account(&self.account), deadline())
    }

    fn create(&self, application: &Value) -> Result<Application, Error> {
        let body = application.to_string();
        self.client.create_access_application(&self.account, body.as_bytes(), deadline())
    }

    fn team(&self) -> Result<Option<TeamName>, Error> {
        self.client.access_team(&self.account, deadline())
    }

    /// Later calls are made with a token of these permissions.
    fn may(&self, permissions: &[Permission]) {
        let value = format!("token-{permissions:?}").replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        self.emulator.add_token(Token::with_permissions(&value, permissions));
        self.client.set_credentials(token(&value));
    }

    /// The same application with another name, and without what the API alone writes.
    fn renamed(&self, id: &str, name: &str) -> String {
        let raw = self.client.access_application(&self.account, id, deadline()).unwrap().unwrap();
        let mut application: Value = serde_json::from_str(raw.get()).unwrap();
        application["name"] = json!(name);
        application.to_string()
    }
}

fn token(text: &str) -> Credentials {
    Credentials::Token(Secret::parse(text).unwrap())
}

fn deadline() -> Deadline {
    Deadline::after(&SystemClock, Duration::from_secs(10))
}

fn policy(name: &str, decision: &str) -> Value {
    json!({"name": name, "decision": decision, "include": [{"email_domain": {"domain": "example.com"}}]})
}

/// An application of these destinations with these policies.
fn app(name: &str, uris: &[&str], policies: &Value) -> Value {
    let destinations: Vec<Value> = uris.iter().map(|uri| json!({"type": "public", "uri": uri})).collect();
    json!({"type": "self_hosted", "name": name, "domain": uris[0], "destinations": destinations, "policies": policies})
}

fn names(applications: &[Application]) -> Vec<&str> {
    applications.iter().map(|application| &*application.name).collect()
}

#[test]
fn an_application_is_made_found_replaced_and_deleted() {
    let scene = Scene::new();
    let (client, account) = (&scene.client, &scene.account);
    client.create_access_tag(account, "owner-default", deadline()).unwrap();
    assert_eq!(client.access_tags(account, deadline()).unwrap(), ["owner-default".into()]);
    let mut wanted = app(
        "web",
        &["www.example.com", "www.example.com/a/*"],
        &json!([{"id": scene.staff, "precedence": 1}]),
    );
    wanted["tags"] = json!(["owner-default"]);
    let made = scene.create(&wanted).unwrap();
    assert_eq!((made.kind, made.audience.len()), (ApplicationKind::SelfHosted, 64));
    let destinations: Vec<String> = made.destinations.iter().map(ToString::to_string).collect();
    assert_eq!(destinations, ["www.example.com", "www.example.com/a/*"]);
    assert_eq!(
        (&made.tags[..], made.session_duration.as_deref()),
        (&["owner-default".into()][..], Some("24h"))
    );
    let [attached] = &made.policies.as_deref().unwrap() else {
        panic!("{made:?}");
    };
    assert_eq!(
        (&*attached.id, &*attached.name, attached.decision, attached.is_reusable),
        (&*scene.staff, "staff", Decision::Allow, true)
    );
    assert_eq!(scene.list().unwrap(), std::slice::from_ref(&made));

    let body = scene.renamed(&made.id, "shop");
    let replaced = client.replace_access_application(account, &made.id, body.as_bytes(), deadline()).unwrap();
    assert_eq!(replaced, Application { name: "shop".into(), ..made.clone() });

    client.delete_access_application(account, &made.id, deadline()).unwrap();
    assert!(scene.emulator.applications().is_empty());
    assert!(client.access_application(account, &made.id, deadline()).unwrap().is_none());
    client.delete_access_application(account, &made.id, deadline()).expect("gone already");
    let error =
        client.replace_access_application(account, &made.id, body.as_bytes(), deadline()).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
}

#[test]
fn a_new_application_is_found_by_its_id_before_lists_have_it() {
    let scene = Scene::new();
    scene.emulator.edit(|cloudflare| cloudflare.whims_mut().unlisted_application_calls = 1);
    let made = scene.create(&app("web", &["www.example.com"], &json!([]))).unwrap();
    assert_eq!(made.policies, Some(Vec::new()));
    assert_eq!(scene.list(), Ok(Vec::new()));
    assert!(scene.client.access_application(&scene.account, &made.id, deadline()).unwrap().is_some());
    assert_eq!(scene.list(), Ok(vec![made]));
}

#[test]
fn account_and_zone_are_read_apart_and_need_grants_of_their_own() {
    let scene = Scene::new();
    let in_zone = scene.emulator.edit(|cloudflare| {
        cloudflare.add_application(&app("of-account", &["a.example.com"], &json!([]))).unwrap();
        cloudflare.add_zone_application("example.com", &app("of-zone", &["z.example.com"], &json!([])))
    });
    in_zone.unwrap();
    let of_zone = || scene.client.access_applications(AccessScope::Zone(&scene.zone), deadline());
    assert_eq!(names(&scene.list().unwrap()), ["of-account"]);
    assert_eq!(names(&of_zone().unwrap()), ["of-zone"]);
    scene.may(&[Permission::ZoneAccessRead]);
    assert!(of_zone().is_ok() && matches!(scene.list(), Err(Error::Credentials(_))));
    scene.may(&[Permission::AccessRead]);
    assert!(matches!(of_zone(), Err(Error::Credentials(_))) && scene.list().is_ok());
    assert!(matches!(scene.team(), Err(Error::Credentials(_))));
    assert!(matches!(scene.create(&json!({})), Err(Error::Credentials(_))));
    assert!(!scene.client.take_doubt(), "the token is as good as before");
}

#[test]
fn an_account_without_access_has_no_team_whichever_way_it_says_so() {
    let scene = Scene::new();
    assert_eq!(scene.team(), Ok(TeamName::parse("shop")));
    for never_set_up in [NeverSetUp::NotEnabled, NeverSetUp::NotFound, NeverSetUp::WithoutDomain] {
        scene.emulator.edit(|cloudflare| {
            let organization = cloudflare.organization_mut(scene.account.as_str());
            (organization.team, organization.never_set_up) = (None, never_set_up);
        });
        assert_eq!(scene.team(), Ok(None), "{never_set_up:?}");
        let listed = scene.list();
        assert!(matches!(listed, Err(Error::NotFound(_))) || listed == Ok(Vec::new()), "{listed:?}");
        let error = scene.create(&app("web", &["www.example.com"], &json!([]))).unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{error}");
    }
    scene.emulator.set_up_access("evil.example/x#");
    assert!(matches!(scene.team(), Err(Error::Unreadable { .. })));
}

#[test]
fn policies_are_the_accounts_and_decisions_that_nobody_knows_are_told() {
    let scene = Scene::new();
    scene.emulator.add_policy(&policy("later", "isolate")).unwrap();
    scene
        .emulator
        .add_application(&app("own", &["own.example.com"], &json!([policy("inline", "bypass")])))
        .unwrap();
    let mut policies = scene.client.access_policies(&scene.account, deadline()).unwrap();
    policies.sort_by(|a, b| a.name.cmp(&b.name));
    let read: Vec<_> = policies.iter().map(|policy| (&*policy.name, policy.decision)).collect();
    assert_eq!(read, [("later", Decision::Unknown), ("staff", Decision::Allow)]);
    let listed = scene.list().unwrap();
    let inline = &listed[0].policies.as_deref().unwrap()[0];
    assert_eq!((inline.decision, inline.is_reusable), (Decision::Bypass, false));
}

#[test]
fn what_is_null_is_as_if_it_were_not_there() {
    let scene = Scene::new();
    let policies = json!([scene.staff]);
    scene.emulator.add_application(&app("web", &["www.example.com"], &policies)).unwrap();
    let before = scene.list().unwrap();
    scene.emulator.edit(|cloudflare| cloudflare.whims_mut().shows_unset_as_null = true);
    assert_eq!(scene.list().unwrap(), before);
}

#[test]
fn refusals_say_what_stands_in_the_way() {
    let scene = Scene::new();
    scene.create(&app("web", &["www.example.com"], &json!([]))).unwrap();
    scene.create(&app("two", &["two.example.com", "also.example.com"], &json!([]))).unwrap();
    let unknown = "00000000-0000-4000-8000-000000000000";
    for (label, body, code) in [
        ("the same domain", app("again", &["www.example.com"], &json!([])), 11010),
        ("another's destination", app("again", &["also.example.com"], &json!([])), 12132),
        ("no zone of ours", app("else", &["www.example.net"], &json!([])), 12130),
        ("no such policy", app("else", &["else.example.com"], &json!([unknown])), 12130),
        ("no type", json!({"name": "else"}), 12130),
    ] {
        match scene.create(&body) {
            Err(Error::Refused(refusal)) => assert!(refusal.has_code(code), "{label}: {refusal}"),
            outcome => panic!("{label}: {outcome:?}"),
        }
    }
    scene.client.create_access_tag(&scene.account, "tag", deadline()).unwrap();
    let again = scene.client.create_access_tag(&scene.account, "tag", deadline());
    assert!(matches!(again, Err(Error::Refused(_))), "{again:?}");
    assert_eq!(scene.emulator.applications().len(), 2);
}

#[test]
fn writes_are_sent_once_and_say_if_they_may_have_been_done() {
    for fault in [
        Fault::Reset,
        Fault::Truncated,
        Fault::Garbage,
        Fault::DoneButUnanswered,
        Fault::status(502),
        Fault::limited(300),
        Fault::status(403),
        Fault::error(403, 10000, "Authentication error"),
        Fault::DoneBut(Box::new(Fault::Garbage)),
        Fault::DoneBut(Box::new(Fault::status(500))),
    ] {
        let check = |outcome: Result<(), Error>, was_done: bool| match outcome {
            Ok(()) => assert!(was_done, "{fault:?}"),
            Err(error) => assert!(error.may_have_been_done() || !was_done, "{fault:?}: {error}"),
        };
        let scene = Scene::new();
        scene.emulator.fault(Matcher::create_application(), 1, fault.clone());
        let created = scene.create(&app("web", &["www.example.com"], &json!([])));
        check(created.map(drop), !scene.emulator.applications().is_empty());

        let scene = Scene::new();
        let made = scene.create(&app("web", &["www.example.com"], &json!([]))).unwrap();
        let body = scene.renamed(&made.id, "shop");
        scene.emulator.fault(Matcher::put_application(), 1, fault.clone());
        let replaced =
            scene.client.replace_access_application(&scene.account, &made.id, body.as_bytes(), deadline());
        check(replaced.map(drop), scene.emulator.applications()[0].name() == "shop");

        let scene = Scene::new();
        let made = scene.create(&app("web", &["www.example.com"], &json!([]))).unwrap();
        scene.emulator.take_calls();
        scene.emulator.fault(Matcher::delete_application(), 1, fault.clone());
        let deleted = scene.client.delete_access_application(&scene.account, &made.id, deadline());
        check(deleted, scene.emulator.applications().is_empty());
        assert_eq!(scene.emulator.calls().len(), 1, "{fault:?}");
    }
}

#[test]
fn a_list_that_fails_is_no_list() {
    for fault in
        [Fault::Garbage, Fault::status(403), Fault::error(403, 9999, "not enabled"), Fault::limited(300)]
    {
        let scene = Scene::new();
        scene.emulator.fault_every(Matcher::list_applications(), fault.clone());
        assert!(scene.list().is_err(), "{fault:?}");
    }
    let scene = Scene::new();
    scene.emulator.fault(Matcher::list_applications(), 1, Fault::Truncated);
    assert_eq!(scene.list(), Ok(Vec::new()), "a read is repeated");
}

/// What the rest of the program keeps of them has to fit beside everything else.
#[test]
fn as_many_applications_as_an_account_may_have_are_one_call() {
    let scene = Scene::new();
    let emails: Vec<Value> =
        (0..50).map(|number| json!({"email": {"email": format!("somebody-{number}@example.com")}})).collect();
    let long = json!({"name": "long", "decision": "allow", "include": emails});
    let long = scene.emulator.add_policy(&long).unwrap();
    for number in 0..500 {
        let name = format!("app{number}");
        let host = format!("{name}.example.com");
        scene.emulator.add_application(&app(&name, &[&host], &json!([scene.staff, long]))).unwrap();
    }
    let read = scene.list().unwrap();
    assert_eq!(read.len(), 500);
    assert!(read.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(scene.emulator.calls().len(), 1);
    let kept: usize = read.iter().map(|application| format!("{application:?}").len()).sum();
    assert!(kept < 500 * 1024, "{kept} bytes, shown at length");
}
