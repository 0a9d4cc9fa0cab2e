//! Every kind of answer, good and bad, against Cloudflare's own description of its API.

mod schema;

use std::collections::BTreeSet;

use cloudflare_emulator::{
    Emulator, NewTunnel, Permission, Plan, RateLimit, Token, TokenOwner, TokenStatus, Unconfigured,
};
use serde_json::{Value, json};

use crate::client::{TOKEN, send};
use schema::Description;

/// Where Cloudflare's description and its answers differ, and the emulator goes with the answers: the end of the
/// finding, and why.
const QUIRKS: [(&str, &str); 9] = [
    (".config.ingress[]: hostname is missing", "required in the schema, but the last rule must have none"),
    (": data is missing", "required of every record, but only some types have data"),
    (".comment: null is no string", "records without a comment"),
    (".config: null is no object", "a tunnel that was never configured"),
    (".errors[].code: 971 is beyond the minimum", "the code of the rate limit is below 1000"),
    (".deleted_at: null is no string", "a live tunnel; the description only says so in words"),
    (".conns_active_at: null is no string", "a tunnel without connectors, in words too"),
    (".conns_inactive_at: null is no string", "a tunnel with connectors, in words too"),
    (": domain is missing", "an application without a public destination"),
];

/// The quirk that a finding is, if any.
fn quirk(finding: &str) -> Option<usize> {
    QUIRKS.iter().position(|(end, _)| finding.ends_with(end))
}

/// Makes calls, checks each answer, and remembers what was covered.
struct Checked<'a> {
    emulator: &'a Emulator,
    description: Description,
    findings: BTreeSet<String>,
    quirks: BTreeSet<usize>,
    covered: BTreeSet<String>,
}

impl Checked<'_> {
    fn call(&mut self, token: &str, method: &str, path: &str, body: &str, expected: u16) -> Value {
        let headers = format!("authorization: Bearer {token}\r\n");
        let answer = send(self.emulator, &headers, method, path, body).unwrap();
        assert_eq!(answer.status, expected, "{method} {path}: {}", answer.body);
        assert_eq!(answer.header("content-type").as_deref(), Some("application/json"));
        let bare = path.split('?').next().unwrap();
        let template = self.description.template(bare).unwrap_or_else(|| panic!("{bare} is not described"));
        let json = answer.json();
        for finding in self.description.check(method, template, expected, &json) {
            match quirk(&finding) {
                Some(quirk) => {
                    self.quirks.insert(quirk);
                }
                None => {
                    self.findings.insert(format!("{method} {template} {expected}{finding}"));
                }
            }
        }
        self.covered.insert(format!("{method} {template} {}", if expected < 300 { "good" } else { "bad" }));
        json
    }

    fn good(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        // The calls of Access have statuses of their own.
        let expected = match (method, path.contains("/access/")) {
            ("POST", true) => 201,
            ("DELETE", true) => 202,
            _ => 200,
        };
        self.call(TOKEN, method, path, &body, expected)["result"].take()
    }

    fn bad(&mut self, method: &str, path: &str, body: &Value, status: u16) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.call(TOKEN, method, path, &body, status);
    }
}

/// A record of every type that the emulator takes.
fn records() -> Vec<Value> {
    let target = "c1744f8b-faa1-48a4-9e5c-02ac921467fa.cfargotunnel.com";
    let of = |kind: &str, content: &str| json!({"type": kind, "name": kind.to_lowercase(), "content": content, "ttl": 300});
    vec![
        of("A", "192.0.2.1"),
        of("AAAA", "2001:db8::1"),
        of("TXT", "\"text\""),
        of("NS", "ns.test"),
        json!({"type": "CNAME", "name": "www", "content": target, "proxied": true, "ttl": 1, "comment": "c"}),
        json!({"type": "MX", "name": "@", "content": "mx.test", "priority": 10}),
    ]
}

#[test]
fn every_answer_has_the_shape_that_cloudflare_describes() {
    let emulator = Emulator::start();
    let account = emulator.account();
    emulator.add_token(Token::with_permissions(TOKEN, &Permission::ALL));
    emulator
        .add_token(Token { owner: TokenOwner::Account(account.clone()), ..Token::full("token-of-account") });
    emulator.add_token(Token { status: TokenStatus::Expired, ..Token::full("token-of-old") });
    let zone = emulator.add_zone("example.com", Plan::Free);
    emulator.add_zone("example.org", Plan::Pro);
    emulator.edit(|cloudflare| cloudflare.zone_mut("example.org").status = "pending".to_owned());
    let tunnel = emulator.add_tunnel("shop");
    let late = NewTunnel { unconfigured: Unconfigured::NotFound, ..NewTunnel::named("late") };
    let late = emulator.edit(|cloudflare| cloudflare.add_tunnel_with(late));
    emulator.add_tunnel("gone");
    emulator.edit(|cloudflare| cloudflare.tunnel_mut("gone").deleted = true);
    let description = Description::parse(include_str!("../../spec/cloudflare-openapi-subset.json"));
    let mut checked = Checked {
        emulator: &emulator,
        description,
        findings: BTreeSet::new(),
        quirks: BTreeSet::new(),
        covered: BTreeSet::new(),
    };
    let none = Value::Null;

    checked.good("GET", "/user/tokens/verify", &none);
    checked.call("token-of-old", "GET", "/user/tokens/verify", "", 200);
    checked.call("unknown-token", "GET", "/user/tokens/verify", "", 401);
    checked.call("two words", "GET", "/user/tokens/verify", "", 400);
    let verify = format!("/accounts/{account}/tokens/verify");
    checked.call("token-of-account", "GET", &verify, "", 200);
    checked.call(TOKEN, "GET", &verify, "", 401);

    checked.good("GET", "/zones?per_page=50", &none);
    checked.bad("GET", "/zones?per_page=51", &none, 400);

    let list = format!("/zones/{zone}/dns_records");
    let batch = format!("{list}/batch");
    let posted = checked.good("POST", &batch, &json!({"posts": records()}))["posts"].take();
    checked.bad("POST", &batch, &json!({"posts": [{"type": "A"}]}), 400);
    checked.good("GET", &format!("{list}?per_page=5000"), &none);
    checked.bad("GET", &format!("{list}?per_page=0"), &none, 400);
    checked.bad("GET", &format!("/zones/{}/dns_records", "f".repeat(32)), &none, 403);
    let lists = json!({
        "deletes": [{"id": posted[1]["id"]}],
        "patches": [{"id": posted[2]["id"], "comment": "changed"}],
        "posts": [{"type": "A", "name": "new", "content": "192.0.2.7", "ttl": 1}],
    });
    checked.good("POST", &batch, &lists);
    checked.bad("POST", &batch, &lists, 404);
    checked.bad("POST", &batch, &json!([]), 400);

    let tunnels = format!("/accounts/{account}/cfd_tunnel");
    checked.good("GET", &tunnels, &none);
    checked.bad("GET", &format!("{tunnels}?is_deleted=maybe"), &none, 400);
    checked.bad("GET", &format!("/accounts/{}/cfd_tunnel", "f".repeat(32)), &none, 403);
    let unknown = format!("{tunnels}/00000000-0000-4000-8000-000000000000");
    let shop = format!("{tunnels}/{tunnel}");
    let configuration = format!("{shop}/configurations");
    checked.good("GET", &shop, &none);
    checked.bad("GET", &unknown, &none, 404);
    checked.good("GET", &format!("{shop}/connections"), &none);
    checked.bad("GET", &format!("{unknown}/connections"), &none, 404);
    checked.good("GET", &configuration, &none);
    checked.bad("GET", &format!("{tunnels}/{late}/configurations"), &none, 404);
    let access = json!({"required": true, "teamName": "team", "audTag": ["aud"]});
    let rules = json!([
        {"hostname": "a.example.com", "path": "^/x", "service": "http://a", "originRequest": {"connectTimeout": 5, "access": access}},
        {"service": "http_status:404"},
    ]);
    checked.good(
        "PUT",
        &configuration,
        &json!({"config": {"ingress": rules, "warp-routing": {"enabled": true}}}),
    );
    checked.good("GET", &configuration, &none);
    checked.bad("PUT", &configuration, &json!({"config": {"ingress": [{"service": "x"}]}}), 400);

    for source in ["local", "cloudflare"] {
        checked.good("POST", &tunnels, &json!({"name": source, "config_src": source}));
    }
    checked.bad("POST", &tunnels, &json!({"name": "local"}), 409);
    checked.bad("POST", &tunnels, &json!({}), 400);
    let made = checked.good("POST", &tunnels, &json!({"name": "made"}));
    let made = format!("{tunnels}/{}", made["id"].as_str().unwrap());
    checked.good("GET", &format!("{made}/connections"), &none);
    checked.good("GET", &format!("{made}/configurations"), &none);
    checked.good("GET", &format!("{made}/token"), &none);
    checked.bad("GET", &format!("{unknown}/token"), &none, 404);
    checked.good("GET", &format!("{tunnels}?per_page=1000"), &none);

    let access = format!("/accounts/{account}/access");
    let of_zone = format!("/zones/{zone}/access");
    checked.bad("GET", &format!("{access}/organizations"), &none, 403);
    checked.bad("GET", &format!("{access}/policies"), &none, 403);
    checked.bad("GET", &format!("{access}/tags"), &none, 403);
    emulator.set_up_access("shop");
    let staff =
        json!({"name": "staff", "decision": "allow", "include": [{"email": {"email": "a@example.com"}}]});
    let staff = emulator.add_policy(&staff).unwrap();
    checked.good("GET", &format!("{access}/organizations"), &none);
    checked.good("POST", &format!("{access}/tags"), &json!({"name": "mine"}));
    checked.bad("POST", &format!("{access}/tags"), &json!({"name": "mine"}), 409);
    checked.good("GET", &format!("{access}/tags"), &none);
    let apps = format!("{access}/apps");
    let protected = json!({
        "type": "self_hosted",
        "name": "a",
        "destinations": [{"type": "public", "uri": "a.example.com"}, {"type": "public", "uri": "a.example.com/x"}],
        "policies": [{"id": staff, "precedence": 1}],
        "tags": ["mine"],
        "cors_headers": {"allow_all_origins": true, "max_age": 5},
    });
    let public = json!({"name": "b", "decision": "bypass", "include": [{"everyone": {}}]});
    let own = json!({"type": "self_hosted", "domain": "old.example.com", "policies": [public]});
    let made = checked.good("POST", &apps, &protected);
    checked.bad("POST", &apps, &protected, 409);
    checked.bad("POST", &apps, &json!({}), 400);
    emulator.edit(|cloudflare| cloudflare.add_zone_application("example.com", &own)).unwrap();
    let private = json!({"type": "private", "cidr": "10.5.0.0/24"});
    checked.good("POST", &apps, &json!({"type": "self_hosted", "name": "c", "destinations": [private]}));
    checked.good("GET", &apps, &none);
    checked.good("GET", &format!("{of_zone}/apps"), &none);
    checked.bad("GET", &format!("{apps}?per_page=0"), &none, 400);
    checked.good("GET", &format!("{access}/policies"), &none);
    let application = format!("{apps}/{}", made["id"].as_str().unwrap());
    checked.good("GET", &application, &none);
    checked.good("PUT", &application, &protected);
    checked.bad("PUT", &application, &json!({"domain": "a.example.com"}), 400);
    checked.good("DELETE", &application, &none);
    for method in ["GET", "DELETE"] {
        checked.bad(method, &application, &none, 404);
    }
    let tag = format!("{access}/tags/mine");
    checked.good("DELETE", &tag, &none);
    checked.bad("DELETE", &tag, &none, 404);

    emulator.set_rate_limit(RateLimit { calls: 0, ..RateLimit::default() });
    checked.bad("GET", "/zones", &none, 429);

    let Checked { findings, quirks, covered, .. } = checked;
    assert!(findings.is_empty(), "{findings:#?}");
    let unused: Vec<_> =
        (0..QUIRKS.len()).filter(|quirk| !quirks.contains(quirk)).map(|q| QUIRKS[q]).collect();
    assert!(unused.is_empty(), "quirks that no answer has: {unused:#?}");
    let dns = "/zones/{zone_id}/dns_records";
    let cfd = "/accounts/{account_id}/cfd_tunnel";
    let either = "/{accounts_or_zones}/{account_or_zone_id}/access";
    for operation in [
        "GET /user/tokens/verify".to_owned(),
        "GET /accounts/{account_id}/tokens/verify".to_owned(),
        "GET /zones".to_owned(),
        format!("GET {dns}"),
        format!("POST {dns}/batch"),
        format!("GET {cfd}"),
        format!("GET {cfd}/{{tunnel_id}}"),
        format!("POST {cfd}"),
        format!("GET {cfd}/{{tunnel_id}}/token"),
        format!("GET {cfd}/{{tunnel_id}}/connections"),
        format!("GET {cfd}/{{tunnel_id}}/configurations"),
        format!("PUT {cfd}/{{tunnel_id}}/configurations"),
        "GET /accounts/{account_id}/access/policies".to_owned(),
        "GET /accounts/{account_id}/access/tags".to_owned(),
        "POST /accounts/{account_id}/access/tags".to_owned(),
        "DELETE /accounts/{account_id}/access/tags/{tag_name}".to_owned(),
        format!("GET {either}/organizations"),
        format!("GET {either}/apps"),
        format!("POST {either}/apps"),
        format!("GET {either}/apps/{{app_id}}"),
        format!("PUT {either}/apps/{{app_id}}"),
        format!("DELETE {either}/apps/{{app_id}}"),
    ] {
        for kind in ["good", "bad"] {
            assert!(
                covered.contains(&format!("{operation} {kind}")),
                "no {kind} answer to {operation} was checked"
            );
        }
    }
}

/// The checker itself sees what is wrong.
#[test]
fn a_wrong_answer_is_found() {
    let description = Description::parse(include_str!("../../spec/cloudflare-openapi-subset.json"));
    let envelope = |result: Value| json!({"success": true, "errors": [], "messages": [], "result": result});
    let path = "/accounts/{account_id}/cfd_tunnel/{tunnel_id}/configurations";
    for (body, expected) in [
        (json!({"success": true, "errors": []}), ": messages is missing"),
        (envelope(json!({"version": "1"})), ".result.version: \"1\" is no integer"),
        (envelope(json!({"source": "nowhere"})), ".result.source: \"nowhere\" is none of"),
        (envelope(json!({"tunnel_id": "x"})), ".result.tunnel_id: \"x\" is no \"uuid\""),
        (envelope(json!({"config": {"ingress": []}})), ".result.config.ingress: too few items"),
        (envelope(json!({"created_at": "today"})), ".result.created_at: \"today\" is no \"date-time\""),
    ] {
        let findings = description.check("GET", path, 200, &body);
        assert!(findings.iter().any(|finding| finding.starts_with(expected)), "{expected}: {findings:?}");
    }
    assert!(!description.check("GET", path, 500, &json!({})).is_empty());
    let apps = "/{accounts_or_zones}/{account_or_zone_id}/access/apps";
    let policy = json!({"id": "short", "precedence": "1", "decision": "shrug"});
    let app = json!({"type": "website", "domain": "a", "aud": "f".repeat(65), "policies": [policy]});
    let found = description.check("GET", apps, 200, &envelope(json!([app])));
    for (member, what) in [
        ("type", "none of"),
        ("aud", "bad length"),
        ("policies[].precedence", "no integer"),
        ("policies[].decision", "none of"),
    ] {
        let at = format!(".result[].{member}: ");
        assert!(found.iter().any(|one| one.starts_with(&at) && one.contains(what)), "{at}: {found:#?}");
    }
}
