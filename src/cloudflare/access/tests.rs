use super::*;
use crate::cloudflare::fixture::{Fixture, answer, failure, success};
use crate::cloudflare::transport::Response;
use crate::cloudflare::transport::TransportError;
use crate::model::access::{ApplicationKind, AttachedPolicy, Destination, PolicyDecision};

/// An application as the list has it, with nothing that is not needed.
const LEAST: &str = r#"{"id":"p1","aud":"aud1","type":"self_hosted"}"#;

fn account() -> AccountId {
    AccountId::new("a1")
}

/// An answer of a list.
fn page(items: &[&str], info: &str) -> Result<Response, TransportError> {
    let items = items.join(",");
    answer(200, &format!(r#"{{"success":true,"errors":[],"result":[{items}],"result_info":{info}}}"#))
}

fn applications(
    pages: impl IntoIterator<Item = Result<Response, TransportError>>,
) -> Result<Vec<Application>, Error> {
    let fixture = Fixture::new(pages);
    fixture.client.access_applications(AccountOrZone::Account(&account()), fixture.deadline())
}

/// The only application of a list, with these members besides an id, an audience and a type.
fn application(members: &str) -> Result<Application, Error> {
    let text = format!(r#"{{"id":"p1","aud":"aud1",{members}}}"#);
    applications([page(&[&text], "null")]).map(|mut applications| applications.remove(0))
}

fn destinations(application: &Application) -> Vec<String> {
    application.destinations.iter().map(ToString::to_string).collect()
}

#[test]
fn the_team_is_the_first_label_of_its_domain() {
    for (result, expected) in [
        (
            r#"{"auth_domain":"my-team.cloudflareaccess.com","name":"My team","login_design":{}}"#,
            Some("my-team"),
        ),
        (r#"{"auth_domain":""}"#, None),
        (r#"{"auth_domain":null,"name":"Shop"}"#, None),
        (r#"{"name":"Shop"}"#, None),
    ] {
        let fixture = Fixture::new([success(result)]);
        let team = fixture.client.access_team(&account(), fixture.deadline()).unwrap();
        assert_eq!(team.as_ref().map(TeamName::as_str), expected, "{result}");
        assert_eq!(fixture.script.paths(), ["/accounts/a1/access/organizations"]);
    }
}

/// cloudflared builds a URL from it and trusts the keys that it finds there.
#[test]
fn a_domain_that_names_no_team_is_unreadable() {
    for result in [
        r#"{"auth_domain":"evil.example/x#.cloudflareaccess.com"}"#,
        r#"{"auth_domain":"a.b.cloudflareaccess.com"}"#,
        r#"{"auth_domain":"Team.cloudflareaccess.com"}"#,
        r#"{"auth_domain":".cloudflareaccess.com"}"#,
        r#"{"auth_domain":"team.example.com"}"#,
        r#"{"auth_domain":"team"}"#,
        r#"{"auth_domain":17}"#,
        r#"[]"#,
        "null",
    ] {
        let fixture = Fixture::new([success(result)]);
        let error = fixture.client.access_team(&account(), fixture.deadline()).unwrap_err();
        assert!(matches!(error, Error::Unreadable(_)), "{result}: {error}");
    }
}

#[test]
fn an_account_without_access_has_no_team_and_any_other_failure_says_nothing() {
    for (status, code, is_none) in [
        (403, 9999, true),
        (400, 9999, true),
        (404, 10404, true),
        (404, 7003, false),
        (403, 10000, false),
        (403, 1010, false),
        (400, 12130, false),
    ] {
        let fixture = Fixture::new([failure(status, code, "x")]);
        let team = fixture.client.access_team(&account(), fixture.deadline());
        assert_eq!(team == Ok(None), is_none, "{status} {code}: {team:?}");
    }
    for status in [200, 302, 403, 404] {
        let fixture = Fixture::new([answer(status, "<html>")]);
        let error = fixture.client.access_team(&account(), fixture.deadline()).unwrap_err();
        assert!(matches!(error, Error::Intercepted(_)), "{status}: {error}");
    }
}

#[test]
fn an_application_is_read_as_cloudflare_writes_it() {
    let read = applications([page(
        &[
            r#"{"id":"p2","uid":"p2","type":"self_hosted","name":"Shop","aud":"0aff","domain":"Shop.example.com/admin",
                "self_hosted_domains":["Shop.example.com/admin","old.example.com"],
                "destinations":[{"type":"public","uri":"https://Shop.example.com/Admin/*"},{"type":"private","cidr":"10.0.0.0/8"},
                    {"type":"public","uri":"*.shop.example.com"},{"type":"worker","worker_id":"w"}],
                "policies":[
                    {"id":"y2","name":"others","decision":"deny","precedence":2,"reusable":false,"include":[{"everyone":{}}]},
                    {"id":"y1","name":"staff","decision":"allow","precedence":1,"reusable":true,"include":[],"exclude":[],"require":[]}],
                "tags":["one","two"],"session_duration":"24h","allowed_idps":null,"created_at":"2026-01-01T00:00:00Z"}"#,
            r#"{"id":"p1","type":"bookmark","name":"Wiki","domain":"https://wiki.example.com/a"}"#,
        ],
        r#"{"count":2,"page":1,"per_page":1000,"total_count":2,"total_pages":1}"#,
    )])
    .unwrap();
    let policy = |id: &str, decision| AttachedPolicy { id: id.into(), decision };
    let destination = |host: &str, path: &str| Destination { host: host.into(), path: path.into() };
    assert_eq!(
        read,
        [
            Application {
                id: "p1".into(),
                name: "Wiki".into(),
                audience: "".into(),
                kind: ApplicationKind::Unrelated,
                destinations: vec![destination("wiki.example.com", "a")],
                policies: None,
                tags: Vec::new(),
                session_duration: None,
                created_unix_seconds: None,
            },
            Application {
                id: "p2".into(),
                name: "Shop".into(),
                audience: "0aff".into(),
                kind: ApplicationKind::SelfHosted,
                destinations: vec![
                    destination("shop.example.com", "Admin/*"),
                    destination("*.shop.example.com", "")
                ],
                policies: Some(
                    vec![policy("y1", PolicyDecision::Allow), policy("y2", PolicyDecision::Deny),]
                ),
                tags: vec!["one".into(), "two".into()],
                session_duration: Some("24h".into()),
                created_unix_seconds: Some(1_767_225_600),
            },
        ]
    );
}

#[test]
fn the_account_and_a_zone_have_lists_of_their_own() {
    let fixture = Fixture::new([success("[]"), success("null")]);
    let (account, zone) = (account(), ZoneId::new("z1"));
    for scope in [AccountOrZone::Account(&account), AccountOrZone::Zone(&zone)] {
        assert_eq!(fixture.client.access_applications(scope, fixture.deadline()), Ok(Vec::new()));
    }
    assert_eq!(
        fixture.script.paths(),
        ["/accounts/a1/access/apps?page=1&per_page=1000", "/zones/z1/access/apps?page=1&per_page=1000"]
    );
}

#[test]
fn destinations_win_over_their_older_forms() {
    for (members, expected) in [
        (r#""destinations":[{"type":"public","uri":"a.example"}],"domain":"b.example""#, &["a.example"][..]),
        (
            r#""destinations":null,"self_hosted_domains":["a.example","b.example/p"],"domain":"c.example""#,
            &["a.example", "b.example/p"],
        ),
        (r#""destinations":[],"self_hosted_domains":[],"domain":"c.example""#, &["c.example"]),
        (r#""self_hosted_domains":null,"domain":"c.example/""#, &["c.example"]),
        (r#""domain":null"#, &[]),
        (r#""domain":"""#, &[]),
        // The domain repeats a private destination, which is no visitor's.
        (r#""destinations":[{"type":"private","hostname":"a.example"}],"domain":"a.example""#, &[]),
        (r#""destinations":[{"type":"all_workers"},{"type":"preview_worker","worker_id":"w"}]"#, &[]),
    ] {
        let read = application(&format!(r#""type":"self_hosted",{members}"#)).unwrap();
        assert_eq!(destinations(&read), expected, "{members}");
        assert_eq!(read.kind, ApplicationKind::SelfHosted, "{members}");
    }
}

#[test]
fn what_a_destination_of_an_unknown_type_does_is_unknown() {
    for (kind, destination, expected, uris) in [
        (
            "self_hosted",
            r#"{"type":"tunnel","uri":"a.example"}"#,
            ApplicationKind::Unknown,
            &["a.example"][..],
        ),
        ("self_hosted", r#"{"type":null,"uri":"a.example"}"#, ApplicationKind::Unknown, &["a.example"]),
        ("ssh", r#"{"type":"tunnel","tunnel_id":"t1"}"#, ApplicationKind::Unknown, &[]),
        ("self_hosted", "{}", ApplicationKind::Unknown, &[]),
        ("mcp", r#"{"type":"mcp_2"}"#, ApplicationKind::Unrelated, &[]),
    ] {
        let read = application(&format!(r#""type":"{kind}","destinations":[{destination}]"#)).unwrap();
        assert_eq!(
            (read.kind, &destinations(&read)[..]),
            (expected, &uris.iter().map(|uri| (*uri).to_owned()).collect::<Vec<_>>()[..]),
            "{destination}"
        );
    }
}

#[test]
fn types_are_sorted_by_what_they_have_to_do_with_a_hostname() {
    use ApplicationKind::{Rendered, SelfHosted, Unknown, Unrelated};
    for (kind, expected) in [
        (r#""self_hosted""#, SelfHosted),
        (r#""ssh""#, Rendered),
        (r#""vnc""#, Rendered),
        (r#""rdp""#, Rendered),
        (r#""saas""#, Unrelated),
        (r#""app_launcher""#, Unrelated),
        (r#""warp""#, Unrelated),
        (r#""biso""#, Unrelated),
        (r#""bookmark""#, Unrelated),
        (r#""dash_sso""#, Unrelated),
        (r#""infrastructure""#, Unrelated),
        (r#""mcp""#, Unrelated),
        (r#""mcp_portal""#, Unrelated),
        (r#""proxy_endpoint""#, Unrelated),
        (r#""self_hosted_2""#, Unknown),
        (r#""Self_Hosted""#, Unknown),
        (r#""""#, Unknown),
        ("null", Unknown),
    ] {
        assert_eq!(application(&format!(r#""type":{kind}"#)).unwrap().kind, expected, "{kind}");
    }
    assert_eq!(application(r#""name":"x""#).unwrap().kind, Unknown);
}

#[test]
fn policies_that_are_not_told_are_not_the_same_as_none() {
    let policies = |policies: &str| {
        application(&format!(r#""type":"self_hosted","policies":{policies}"#)).unwrap().policies
    };
    assert_eq!(application(r#""type":"self_hosted""#).unwrap().policies, None);
    assert_eq!(policies("null"), None);
    assert_eq!(policies("[]"), Some(Vec::new()));
    for (policy, expected) in [
        (r#"{"id":"y1","name":"n","decision":"non_identity"}"#, PolicyDecision::Allow),
        (r#"{"id":"y1","name":"n","decision":"bypass"}"#, PolicyDecision::Bypass),
        (r#"{"id":"y1","name":"n","decision":"isolate"}"#, PolicyDecision::Unknown),
        (r#"{"id":"y1","name":"n","decision":null}"#, PolicyDecision::Unknown),
        (r#"{"id":"y1","name":"n"}"#, PolicyDecision::Unknown),
    ] {
        let read = policies(&format!("[{policy}]")).unwrap();
        assert_eq!(read[0].decision, expected, "{policy}");
    }
}

#[test]
fn policies_come_in_order_of_precedence_or_as_they_are_listed() {
    for (precedences, expected) in [
        (["3", "1", "2"], ["b", "c", "a"]),
        (["null", "null", "null"], ["a", "b", "c"]),
        (["2", "2", "1"], ["c", "a", "b"]),
    ] {
        let [a, b, c] = precedences;
        let members = format!(
            r#""type":"ssh","policies":[{{"id":"a","precedence":{a}}},{{"id":"b","precedence":{b}}},{{"id":"c","precedence":{c}}}]"#
        );
        let policies = application(&members).unwrap().policies.unwrap();
        let ids: Vec<&str> = policies.iter().map(|policy| &*policy.id).collect();
        assert_eq!(ids, expected, "{precedences:?}");
    }
}

/// A list without the one that cannot be read would make its hostname look open, or covered where it is bypassed.
#[test]
fn one_application_that_cannot_be_read_fails_the_list() {
    for other in [
        r#"{"aud":"aud2","type":"self_hosted"}"#,
        r#"{"id":"","aud":"aud2","type":"self_hosted"}"#,
        r#"{"id":17,"aud":"aud2","type":"self_hosted"}"#,
        r#"{"id":"p2","type":"self_hosted"}"#,
        r#"{"id":"p2","aud":null,"type":"vnc"}"#,
        r#"{"id":"p2","aud":17,"type":"self_hosted"}"#,
        r#"{"id":"p2","aud":"aud2","type":1}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","name":{}}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","domain":["a.example"]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","self_hosted_domains":[null]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","destinations":["a.example"]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","destinations":{"type":"public","uri":"a.example"}}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","destinations":[{"type":"public","uri":null}]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","destinations":[{"type":"public","uri":""}]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","destinations":[{"type":"public","uri":8}]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","policies":["y1"]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","policies":{"id":"y1"}}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","policies":[{"decision":"allow"}]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","policies":[{"id":"y1","decision":1}]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","policies":[{"id":"y1","precedence":"1"}]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","policies":[{"id":"y1","reusable":"true"}]}"#,
        r#"{"id":"p2","aud":"aud2","type":"self_hosted","tags":"one"}"#,
        r#""p2""#,
        "null",
    ] {
        let error = applications([page(&[LEAST, other], "null")]).unwrap_err();
        assert!(matches!(error, Error::Unreadable(_)), "{other}: {error}");
    }
}

/// The other members of an application may change their form.
#[test]
fn what_is_not_asked_for_is_not_looked_at() {
    let read = application(
        r#""type":"self_hosted","cors_headers":7,"created_at":{},"policies":[{"id":"y1","include":"x","app_count":"2"}],
           "destinations":[{"type":"private","uri":null,"cidr":3}],"saas_app":[[]]"#,
    );
    assert_eq!(read.unwrap().policies.unwrap().len(), 1);
}

#[test]
fn a_list_with_fewer_applications_than_it_counts_is_no_list() {
    let other = r#"{"id":"p2","aud":"aud2","type":"self_hosted"}"#;
    let full: Vec<String> = (0..1000).map(|id| LEAST.replace("p1", &format!("q{id}"))).collect();
    let full: Vec<&str> = full.iter().map(String::as_str).collect();
    for (label, pages, expected) in [
        ("nothing counted", vec![page(&[LEAST, other], "{}")], Some(2)),
        ("as many as counted", vec![page(&[LEAST, other], r#"{"total_count":2}"#)], Some(2)),
        ("a fraction", vec![page(&[LEAST, other], r#"{"total_count":2.0}"#)], Some(2)),
        ("more than counted", vec![page(&[LEAST, other], r#"{"total_count":1}"#)], Some(2)),
        ("null", vec![page(&[LEAST], r#"{"total_count":null}"#)], Some(1)),
        ("one is not shown", vec![page(&[LEAST, other], r#"{"total_count":3}"#)], None),
        ("none is shown", vec![page(&[], r#"{"total_count":1}"#)], None),
        ("one is shown twice", vec![page(&[LEAST, LEAST], r#"{"total_count":2}"#)], None),
        ("a page too few", vec![page(&full, r#"{"total_count":1001,"total_pages":1}"#)], None),
        (
            "an empty page too early",
            vec![
                page(&full, r#"{"total_count":1001,"total_pages":2}"#),
                page(&[], r#"{"total_count":1001}"#),
            ],
            None,
        ),
        // Deleting one between the pages pulls another one onto the page that was read.
        (
            "one fewer meanwhile",
            vec![page(&full, r#"{"total_count":1001}"#), page(&[], r#"{"total_count":1000}"#)],
            None,
        ),
        (
            "two pages",
            vec![page(&full, r#"{"total_count":1001}"#), page(&[LEAST], r#"{"total_count":1001}"#)],
            Some(1001),
        ),
        ("overlapping pages", vec![page(&full, "{}"), page(&[full[999], LEAST], "{}")], Some(1001)),
    ] {
        match (applications(pages), expected) {
            (Ok(read), Some(expected)) => {
                assert_eq!(read.len(), expected, "{label}");
                assert!(read.windows(2).all(|pair| pair[0].id < pair[1].id), "{label}");
            }
            (Err(Error::Unreadable(_)), None) => {}
            (outcome, _) => panic!("{label}: {outcome:?}"),
        }
    }
    applications([page(&[LEAST], r#"{"total_count":"1"}"#)]).expect_err("a count as text");
    let error = applications([page(&[LEAST], r#"{"total_count":3}"#)]).unwrap_err();
    assert!(error.to_string().contains("1 Access applications of 3"), "{error}");
}

#[test]
fn no_answer_in_cloudflares_place_is_an_empty_list() {
    for status in [200, 302, 403, 404] {
        let error = applications([answer(status, "<html>")]).unwrap_err();
        assert!(matches!(error, Error::Intercepted(_)), "{status}: {error}");
    }
    let error = applications([failure(403, 9999, "Access is not enabled")]).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
}

#[test]
fn policies_of_one_application_alone_are_not_the_accounts() {
    let fixture = Fixture::new([page(
        &[
            r#"{"id":"y3","name":"staff","decision":"allow","reusable":true,"app_count":2,"include":[{"email":{}}]}"#,
            r#"{"id":"y2","name":"own","decision":"allow","reusable":false}"#,
            r#"{"id":"y1","name":null,"decision":"later"}"#,
            r#"{"id":"y3","name":"staff","decision":"allow","reusable":true}"#,
        ],
        r#"{"total_count":9}"#,
    )]);
    let policy =
        |id: &str, name: &str, decision| ReusablePolicy { id: id.into(), name: name.into(), decision };
    assert_eq!(
        fixture.client.access_policies(&account(), fixture.deadline()).unwrap(),
        [policy("y1", "", PolicyDecision::Unknown), policy("y3", "staff", PolicyDecision::Allow)]
    );
    assert_eq!(fixture.script.paths(), ["/accounts/a1/access/policies?page=1&per_page=1000"]);
}

#[test]
fn tags_are_read_and_made_by_name() {
    let fixture = Fixture::new([success(r#"[{"name":"one","app_count":2},{"name":"two"}]"#), success("{}")]);
    let tags = fixture.client.access_tags(&account(), fixture.deadline()).unwrap();
    assert_eq!(tags, ["one".into(), "two".into()]);
    fixture.client.create_access_tag(&account(), "a \"b\"", fixture.deadline()).unwrap();
    let sent = fixture.script.sent();
    assert_eq!(sent[0].path, "/accounts/a1/access/tags?page=1&per_page=1000");
    assert_eq!((&sent[1].method, &*sent[1].path), (&Method::POST, "/accounts/a1/access/tags"));
    assert_eq!(sent[1].body.as_deref(), Some(r#"{"name":"a \"b\""}"#));
}

/// A PUT has to send back every field that it must not lose, also fields that this code does not know.
#[test]
fn one_application_is_read_with_every_member() {
    let text = r#"{"a":12345678901234567890,"b":1.5,"id":"p1","z":[null]}"#;
    let fixture = Fixture::new([success(text)]);
    let read = fixture.client.access_application(&account(), "p/1", fixture.deadline()).unwrap();
    assert_eq!(Value::Object(read.unwrap()).to_string(), text);
    assert_eq!(fixture.script.paths(), ["/accounts/a1/access/apps/p%2F1"]);
}

/// The webhook would create an application again if it took an existing one for deleted.
#[test]
fn only_cloudflares_own_word_says_that_an_application_is_gone() {
    for (label, first, is_gone) in [
        ("unknown", failure(404, 11021, "unknown_application"), true),
        ("unknown, as a bad request", failure(400, 11021, "unknown_application"), true),
        ("no Access", failure(403, 9999, "not_enabled"), false),
        ("another 404", failure(404, 10404, "not_found"), false),
        ("no such path", failure(404, 7003, "no route"), false),
        ("bad id", failure(400, 12045, "invalid_app_id"), false),
        ("forbidden", failure(403, 10000, "Authentication error"), false),
        ("HTML", answer(404, "<html>"), false),
        ("no result", success("null"), false),
    ] {
        let fixture = Fixture::new([first.clone()]);
        let read = fixture.client.access_application(&account(), "p1", fixture.deadline());
        assert_eq!(matches!(read, Ok(None)), is_gone, "{label}: {read:?}");
        assert!(is_gone || read.is_err(), "{label}: {read:?}");
        let fixture = Fixture::new([first]);
        let deleted = fixture.client.delete_access_application(&account(), "p1", fixture.deadline());
        assert_eq!(deleted.is_ok(), is_gone || label == "no result", "{label}: {deleted:?}");
    }
}

#[test]
fn applications_are_written_as_they_are_given() {
    let made = r#"{"id":"p1","aud":"0aff","type":"self_hosted","name":"Shop","domain":"shop.example.com",
        "policies":[{"id":"y1","name":"staff","decision":"allow","reusable":true,"precedence":1}]}"#;
    let fixture =
        Fixture::new([success(made), success(made), answer(202, r#"{"success":true,"result":{"id":"p1"}}"#)]);
    let (client, account, deadline) = (&fixture.client, account(), fixture.deadline());
    let created = client.create_access_application(&account, br#"{"a":1}"#, deadline).unwrap();
    assert_eq!(
        (&*created.id, &*created.audience, destinations(&created).concat()),
        ("p1", "0aff", "shop.example.com".to_owned())
    );
    assert_eq!(client.replace_access_application(&account, "p1", br#"{"b":2}"#, deadline), Ok(created));
    client.delete_access_application(&account, "p1", deadline).unwrap();
    let sent: Vec<_> =
        fixture.script.sent().into_iter().map(|sent| (sent.method, sent.path, sent.body)).collect();
    let one = "/accounts/a1/access/apps/p1".to_owned();
    assert_eq!(
        sent,
        [
            (Method::POST, "/accounts/a1/access/apps".to_owned(), Some(r#"{"a":1}"#.to_owned())),
            (Method::PUT, one.clone(), Some(r#"{"b":2}"#.to_owned())),
            (Method::DELETE, one, None),
        ]
    );
}

/// Cloudflare may have created the application nevertheless.
#[test]
fn an_answer_to_a_write_that_cannot_be_read_leaves_open_what_was_done() {
    for answered in [
        success("null"),
        success(r#"{"id":"p1","type":"self_hosted"}"#),
        success("[]"),
        answer(201, "<html>"),
        answer(201, r#"{"success":true,"result":{"#),
    ] {
        let fixture = Fixture::new([answered]);
        let made = fixture.client.create_access_application(&account(), b"{}", fixture.deadline());
        assert!(made.unwrap_err().may_have_been_done());
    }
}
