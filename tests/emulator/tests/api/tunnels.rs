use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloudflare_emulator::{Emulator, NewTunnel, Permission, Token, catch_all};
use serde_json::{Value, json};

use crate::client::{Answer, call, free_zone, read, send};

/// Base64 of 32 bytes.
const SECRET: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// An account without a tunnel, and the path of its tunnels.
fn account() -> (Emulator, String) {
    let (emulator, _) = free_zone();
    let tunnels = format!("/accounts/{}/cfd_tunnel", emulator.account());
    (emulator, tunnels)
}

fn post(emulator: &Emulator, body: Value) -> Answer {
    let tunnels = format!("/accounts/{}/cfd_tunnel", emulator.account());
    call(emulator, "POST", &tunnels, &body.to_string())
}

/// Makes a remotely-managed tunnel and says its path.
fn made(emulator: &Emulator, name: &str) -> String {
    let tunnel = post(emulator, json!({"name": name, "config_src": "cloudflare"})).result();
    format!("/accounts/{}/cfd_tunnel/{}", emulator.account(), text(&tunnel["id"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn listed(emulator: &Emulator, query: &str) -> Vec<String> {
    let path = format!("/accounts/{}/cfd_tunnel?{query}", emulator.account());
    let result = read(emulator, &path).result();
    result.as_array().unwrap().iter().map(|tunnel| text(&tunnel["name"])).collect()
}

fn decoded(tunnel_token: &str) -> Value {
    serde_json::from_slice(&STANDARD.decode(tunnel_token).unwrap()).unwrap()
}

#[test]
fn a_tunnel_that_is_made_is_inactive_and_was_never_configured() {
    let (emulator, tunnels) = account();
    assert_eq!(read(&emulator, &tunnels).result(), json!([]));
    let tunnel = post(&emulator, json!({"name": "shop", "config_src": "cloudflare"})).result();
    assert_eq!((&tunnel["name"], &tunnel["config_src"]), (&json!("shop"), &json!("cloudflare")));
    assert_eq!((&tunnel["status"], &tunnel["remote_config"]), (&json!("inactive"), &json!(true)));
    assert_eq!((&tunnel["conns_active_at"], &tunnel["deleted_at"]), (&Value::Null, &Value::Null));
    let path = format!("{tunnels}/{}", text(&tunnel["id"]));
    let configuration = read(&emulator, &format!("{path}/configurations")).result();
    assert_eq!((&configuration["config"], &configuration["version"]), (&Value::Null, &json!(0)));
    assert_eq!(read(&emulator, &format!("{path}/connections")).result(), json!([]));
    assert_eq!(listed(&emulator, "name=shop&is_deleted=false"), ["shop"]);
    let secrets = |answer: Value| !answer["token"].is_null() || !answer["credentials_file"].is_null();
    assert!(
        !secrets(read(&emulator, &path).result()) && !secrets(read(&emulator, &tunnels).result()[0].take())
    );
}

#[test]
fn a_tunnel_is_configured_locally_unless_its_post_says_otherwise() {
    let (emulator, _) = account();
    let tunnel = post(&emulator, json!({"name": "shop"})).result();
    assert_eq!((&tunnel["config_src"], &tunnel["remote_config"]), (&json!("local"), &json!(false)));
    assert_eq!(post(&emulator, json!({"name": "other", "config_src": null})).result()["config_src"], "local");
    assert_eq!(post(&emulator, json!({"name": "third", "config_src": "file"})).status, 400);
}

#[test]
fn visitors_get_1033_then_503_then_what_the_first_version_says() {
    let (emulator, _) = account();
    let path = made(&emulator, "shop");
    let target = emulator.edit(|cloudflare| cloudflare.tunnel("shop").hostname());
    let record = json!({"type": "CNAME", "name": "www", "content": target, "proxied": true});
    emulator.add_record("example.com", record).unwrap();
    let visit = || emulator.visit("www.example.com", "/").to_string();
    assert_eq!(visit(), "error 1033", "no cloudflared runs yet");
    let tunnel_token = text(&read(&emulator, &format!("{path}/token")).result());
    emulator.run_connector(&format!("{tunnel_token}\n")).unwrap();
    assert!(visit().starts_with("http_status:503"), "{}", visit());
    emulator.put_configuration("shop", &catch_all("http://shop")).unwrap();
    assert!(visit().starts_with("http://shop"), "{}", visit());
    assert_eq!(read(&emulator, &path).result()["status"], "healthy");
    assert_eq!(call(&emulator, "DELETE", &format!("{path}/connections"), "").result(), Value::Null);
    assert_eq!(visit(), "error 1033");
}

#[test]
fn a_name_is_taken_by_a_live_tunnel_of_the_account_only() {
    let (emulator, _) = account();
    let path = made(&emulator, "shop");
    for source in ["cloudflare", "local"] {
        let taken = post(&emulator, json!({"name": "shop", "config_src": source}));
        assert_eq!((taken.status, taken.code()), (409, 1013));
        assert_eq!(taken.json()["errors"][0]["message"], "You already have a tunnel with this name");
    }
    assert_eq!(post(&emulator, json!({"name": "Shop"})).status, 200, "another name");
    emulator.edit(|cloudflare| {
        let account = Some(cloudflare.add_account("Other"));
        cloudflare.add_tunnel_with(NewTunnel { account, ..NewTunnel::named("theirs") });
    });
    assert_eq!(post(&emulator, json!({"name": "theirs"})).status, 200);
    assert!(call(&emulator, "DELETE", &path, "").result()["deleted_at"].is_string());
    assert!(read(&emulator, &path).result()["deleted_at"].is_string(), "it is still shown");
    let again = made(&emulator, "shop");
    assert_ne!(again, path);
    assert_eq!(listed(&emulator, "name=shop"), ["shop", "shop"]);
    for empty in ["&is_deleted=", ""] {
        assert_eq!(listed(&emulator, &format!("name=shop{empty}")).len(), 2);
    }
    for (is_deleted, expected) in [("true", &path), ("false", &again)] {
        let query = format!("?name=shop&is_deleted={is_deleted}");
        let found = read(&emulator, &format!("{}{query}", path.rsplit_once('/').unwrap().0)).result();
        assert!(expected.ends_with(&text(&found[0]["id"])), "{is_deleted}");
        assert_eq!(found.as_array().unwrap().len(), 1);
    }
    let live = emulator.edit(|cloudflare| cloudflare.tunnel("shop").id.clone());
    assert!(again.ends_with(&live), "a test that says the name means the live one");
}

#[test]
fn a_body_that_is_none_is_refused_and_nothing_is_made() {
    let (emulator, tunnels) = account();
    for (body, code) in [
        ("", 1030),
        ("{\"name\":\"a\nb\"}", 1030),
        ("[]", 1030),
        ("{}", 1030),
        (r#"{"name":null}"#, 1030),
        (r#"{"name":7}"#, 1030),
        (r#"{"name":"shop","config_src":"dashboard"}"#, 1030),
        (r#"{"name":"shop","tunnel_secret":1}"#, 1030),
        (r#"{"name":""}"#, 1001),
        (r#"{"name":" "}"#, 1001),
        (r#"{"name":"shop","tunnel_secret":"c2hvcnQ="}"#, 1001),
        (r#"{"name":"shop","tunnel_secret":"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE"}"#, 1001),
        (r#"{"name":"shop","tunnel_secret":"?"}"#, 1001),
    ] {
        let answer = call(&emulator, "POST", &tunnels, body);
        assert_eq!((answer.status, answer.code()), (400, code), "{body}");
    }
    assert_eq!(listed(&emulator, ""), [""; 0]);
    assert_eq!(call(&emulator, "PUT", &tunnels, "{}").status, 405);
}

#[test]
fn an_account_has_no_more_than_1000_live_tunnels() {
    let (emulator, tunnels) = account();
    emulator.edit(|cloudflare| {
        for number in 0..1000 {
            cloudflare.add_tunnel(&format!("tunnel-{number}"));
        }
    });
    assert_eq!(post(&emulator, json!({"name": "shop"})).status, 400);
    assert_eq!(post(&emulator, json!({"name": "tunnel-7"})).code(), 1013);
    let pages = |page: usize| listed(&emulator, &format!("is_deleted=false&per_page=300&page={page}")).len();
    assert_eq!([pages(1), pages(4), pages(5)], [300, 100, 0]);
    emulator.edit(|cloudflare| cloudflare.tunnel_mut("tunnel-7").deleted = true);
    made(&emulator, "shop");
    let info = read(&emulator, &format!("{tunnels}?is_deleted=false")).json()["result_info"].take();
    assert_eq!(info, json!({"count": 20, "page": 1, "per_page": 20, "total_count": 1000}));
}

#[test]
fn the_run_token_says_account_tunnel_and_secret() {
    let (emulator, tunnels) = account();
    let made = post(&emulator, json!({"name": "shop", "config_src": "cloudflare"})).result();
    let id = text(&made["id"]);
    let get = || text(&read(&emulator, &format!("{tunnels}/{id}/token")).result());
    let tunnel_token = get();
    let credentials = &made["credentials_file"];
    let secret = text(&credentials["TunnelSecret"]);
    assert_eq!(made["token"], *tunnel_token);
    assert_eq!(decoded(&tunnel_token), json!({"a": emulator.account(), "t": id, "s": secret}));
    assert_eq!(STANDARD.decode(&secret).unwrap().len(), 32);
    let (account, name) = (emulator.account(), "shop");
    let expected = json!({"AccountTag": account, "TunnelID": id, "TunnelName": name, "TunnelSecret": secret});
    assert_eq!(*credentials, expected);
    emulator.put_configuration("shop", &catch_all("http://shop")).unwrap();
    assert_eq!(get(), tunnel_token, "until the secret changes");
    let own = post(&emulator, json!({"name": "own", "tunnel_secret": SECRET})).result();
    assert_eq!(decoded(&text(&own["token"]))["s"], SECRET);
    let tokens: BTreeSet<String> = (0..3)
        .map(|number| emulator.add_tunnel(&number.to_string()))
        .map(|id| text(&read(&emulator, &format!("{tunnels}/{id}/token")).result()))
        .collect();
    assert_eq!(tokens.len(), 3, "every tunnel has its own, also one that was added by hand");
}

#[test]
fn only_a_live_tunnel_has_a_run_token() {
    let (emulator, tunnels) = account();
    let path = made(&emulator, "shop");
    let tunnel_token = text(&read(&emulator, &format!("{path}/token")).result());
    call(&emulator, "DELETE", &path, "").result();
    assert_eq!(emulator.run_connector(&tunnel_token), Err("Unauthorized: Invalid tunnel secret"));
    for path in [path, format!("{tunnels}/00000000-0000-4000-8000-000000000000")] {
        let refused = read(&emulator, &format!("{path}/token"));
        assert_eq!((refused.status, refused.code()), (404, 1054));
        for (method, path) in
            [("PATCH", &path), ("DELETE", &path), ("DELETE", &format!("{path}/connections"))]
        {
            let refused = call(&emulator, method, path, "{}");
            assert_eq!((refused.status, refused.code()), (404, 1002), "{method} {path}");
        }
    }
    assert_eq!(read(&emulator, &format!("{tunnels}/not-an-id/token")).code(), 7003);
}

#[test]
fn a_patch_renames_and_makes_another_run_token() {
    let (emulator, _) = account();
    let path = made(&emulator, "shop");
    made(&emulator, "other");
    let patch = |body: Value| call(&emulator, "PATCH", &path, &body.to_string());
    let first = text(&read(&emulator, &format!("{path}/token")).result());
    assert_eq!(patch(json!({"name": "other"})).code(), 1013);
    assert_eq!(patch(json!({"name": "other", "tunnel_secret": SECRET})).code(), 1013);
    assert_eq!(patch(json!({"name": "new", "tunnel_secret": "c2hvcnQ="})).status, 400);
    assert_eq!(patch(json!({"name": ""})).status, 400);
    assert_eq!(read(&emulator, &path).result()["name"], "shop", "all of it or nothing");
    assert_eq!(patch(json!({"name": "shop"})).status, 200);
    let renamed = patch(json!({"name": "new", "config_src": "local"})).result();
    assert_eq!((&renamed["name"], &renamed["token"]), (&json!("new"), &json!(first)));
    assert_eq!(renamed["config_src"], "cloudflare", "a PATCH does not change it");
    assert_eq!(listed(&emulator, "is_deleted=false"), ["new", "other"]);

    assert_eq!(emulator.run_connector(&first).as_deref(), Ok(path.rsplit_once('/').unwrap().1));
    let rotated = patch(json!({"tunnel_secret": SECRET})).result();
    let second = text(&read(&emulator, &format!("{path}/token")).result());
    assert_eq!(rotated["token"], *second);
    assert_eq!(decoded(&second)["s"], SECRET);
    assert_eq!(emulator.run_connector(&first), Err("Unauthorized: Invalid tunnel secret"));
    assert_eq!(rotated["status"], "healthy", "a connected connector stays so");
    assert!(emulator.run_connector(&second).is_ok());
    for garbage in ["", "token", &STANDARD.encode("{}"), &format!("\"{second}\"")] {
        assert_eq!(emulator.run_connector(garbage), Err("Provided Tunnel token is not valid."), "{garbage}");
    }
}

#[test]
fn a_tunnel_with_connectors_is_not_deleted() {
    let (emulator, _) = account();
    let path = made(&emulator, "shop");
    emulator.edit(|cloudflare| cloudflare.tunnel_mut("shop").connectors = 2);
    let refused = call(&emulator, "DELETE", &path, "");
    assert_eq!((refused.status, refused.code()), (400, 1022));
    let connections = format!("{path}/connections");
    assert_eq!(call(&emulator, "DELETE", &format!("{connections}?client_id=1"), "").status, 400);
    assert_eq!(read(&emulator, &connections).result().as_array().unwrap().len(), 2);
    call(&emulator, "DELETE", &connections, "").result();
    call(&emulator, "DELETE", &path, "").result();
    assert_eq!(call(&emulator, "DELETE", &path, "").code(), 1002);
    assert!(read(&emulator, &path).result()["deleted_at"].is_string());
}

/// Cloudflare's description: only the Write groups, for the tunnel token too.
#[test]
fn a_token_that_may_only_read_tunnels_may_neither_change_nor_run_them() {
    let (emulator, tunnels) = account();
    let path = made(&emulator, "shop");
    let others =
        [Permission::ZoneRead, Permission::DnsRead, Permission::DnsEdit, Permission::TunnelRead].as_slice();
    emulator.add_token(Token::with_permissions("token-of-reader", others));
    emulator.add_token(Token::with_permissions("token-of-writer", &[Permission::TunnelEdit]));
    let (token, connections) = (format!("{path}/token"), format!("{path}/connections"));
    for (method, path, body) in [
        ("POST", &tunnels, r#"{"name":"new"}"#),
        ("PATCH", &path, r#"{"name":"renamed"}"#),
        ("GET", &token, ""),
        ("DELETE", &connections, ""),
        ("DELETE", &path, ""),
    ] {
        let by = |token: &str| {
            send(&emulator, &format!("authorization: Bearer {token}\r\n"), method, path, body).unwrap()
        };
        let before = read(&emulator, &tunnels).result();
        let refused = by("token-of-reader");
        assert_eq!((refused.status, refused.code()), (403, 10000), "{method} {path}");
        assert_eq!(read(&emulator, &tunnels).result(), before, "{method} {path}");
        assert_eq!(by("token-of-writer").status, 200, "{method} {path}");
        let foreign = path.replace(&emulator.account(), &"f".repeat(32));
        assert_eq!(call(&emulator, method, &foreign, body).code(), 10000);
    }
}

/// A client that lists, finds nothing and makes the tunnel meets 1013, although a second list may still not have it.
#[test]
fn lists_leave_out_a_new_tunnel_for_as_long_as_told() {
    let (emulator, tunnels) = account();
    emulator.add_tunnel("old");
    emulator.stop_clock();
    emulator.edit(|cloudflare| {
        let whims = cloudflare.whims_mut();
        (whims.unlisted_calls, whims.unlisted_time) = (2, Duration::from_secs(3));
    });
    let path = made(&emulator, "shop");
    assert_eq!(listed(&emulator, "name=shop"), [""; 0]);
    assert_eq!(post(&emulator, json!({"name": "shop"})).code(), 1013);
    assert_eq!(read(&emulator, &path).result()["name"], "shop");
    assert_eq!(read(&emulator, &format!("{path}/token")).status, 200);
    assert_eq!(listed(&emulator, ""), ["old"]);
    assert_eq!(listed(&emulator, ""), ["old"], "two lists are over, the time is not");
    emulator.advance_clock(Duration::from_secs(3));
    assert_eq!(listed(&emulator, ""), ["old", "shop"]);
    assert_eq!(read(&emulator, &tunnels).json()["result_info"]["total_count"], 2);

    let lag = json!({"unlisted_calls": 1, "unlisted_ms": 0}).to_string();
    assert_eq!(call(&emulator, "POST", "/_emulator/delays", &lag).status, 200);
    made(&emulator, "third");
    assert_eq!(listed(&emulator, "name=third"), [""; 0]);
    assert_eq!(listed(&emulator, "name=third"), ["third"]);
}

/// A test that wants no secret in any output asks for all of them; what the emulator itself shows holds none.
#[test]
fn all_secrets_are_told_where_they_are_asked_for_and_nowhere_else() {
    let (emulator, tunnels) = account();
    let made = post(&emulator, json!({"name": "shop", "tunnel_secret": SECRET})).result();
    let path = format!("{tunnels}/{}", text(&made["id"]));
    let next = STANDARD.encode([7; 40]);
    let body = json!({"tunnel_secret": next}).to_string();
    let rotated = call(&emulator, "PATCH", &path, &body).result();
    call(&emulator, "PATCH", &path, &format!("{body}{body}"));
    emulator.add_tunnel("by-hand");
    let by_hand = emulator.edit(|cloudflare| cloudflare.tunnel("by-hand").tunnel_token());
    let secrets = emulator.secrets();
    let given = [SECRET.to_owned(), text(&made["token"]), next, text(&rotated["token"])];
    assert_eq!(secrets[..4], given);
    assert_eq!(secrets[4..], [text(&decoded(&by_hand)["s"]), by_hand]);
    assert_eq!(read(&emulator, "/_emulator/secrets").json(), json!(secrets));

    let shown = |path: &str| read(&emulator, path).body;
    let outputs = [shown("/_emulator/calls"), shown("/_emulator/state"), format!("{emulator:?}")];
    for (output, secret) in outputs.iter().flat_map(|output| secrets.iter().map(move |s| (output, s))) {
        assert!(!output.contains(secret.as_str()), "{secret} in {output}");
    }
    let bodies: Vec<String> = emulator.calls().into_iter().map(|call| call.body).collect();
    assert_eq!(bodies[0], r#"{"name":"shop","tunnel_secret":"(left out)"}"#);
    assert_eq!(bodies[1..3], [r#"{"tunnel_secret":"(left out)"}"#, "(left out)"]);
}
