use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloudflare_emulator::{Emulator, NewTunnel, Permission, Token, catch_all};
use serde_json::{Value, json};

use crate::client::{Answer, call, free_zone, read, send};

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

fn decoded(run_token: &str) -> Value {
    serde_json::from_slice(&STANDARD.decode(run_token).unwrap()).unwrap()
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
    assert_eq!(listed(&emulator, "is_deleted=false"), ["shop"]);
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
    assert_eq!(visit(), "error 1033", "nobody runs cloudflared yet");
    let run_token = text(&read(&emulator, &format!("{path}/token")).result());
    emulator.run_connector(&format!("{run_token}\n")).unwrap();
    assert!(visit().starts_with("http_status:503"), "{}", visit());
    emulator.put_configuration("shop", &catch_all("http://shop")).unwrap();
    assert!(visit().starts_with("http://shop"), "{}", visit());
    assert_eq!(read(&emulator, &path).result()["status"], "healthy");
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
    emulator.edit(|cloudflare| cloudflare.tunnel_mut("shop").deleted = true);
    assert!(read(&emulator, &path).result()["deleted_at"].is_string(), "it is still shown");
    let again = made(&emulator, "shop");
    assert_ne!(again, path);
    for (query, expected) in [("", 4), ("is_deleted=true", 1), ("is_deleted=false", 3)] {
        assert_eq!(listed(&emulator, query).len(), expected, "{query}");
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
        (r#"{"name":""}"#, 1001),
        (r#"{"name":" "}"#, 1001),
    ] {
        let answer = call(&emulator, "POST", &tunnels, body);
        assert_eq!((answer.status, answer.code()), (400, code), "{body}");
    }
    assert_eq!(listed(&emulator, ""), [""; 0]);
    assert_eq!(call(&emulator, "PUT", &tunnels, "{}").status, 405);
}

#[test]
fn the_run_token_says_account_tunnel_and_secret() {
    let (emulator, tunnels) = account();
    let made = post(&emulator, json!({"name": "shop", "config_src": "cloudflare"})).result();
    let id = text(&made["id"]);
    let get = || text(&read(&emulator, &format!("{tunnels}/{id}/token")).result());
    let run_token = get();
    let credentials = &made["credentials_file"];
    let secret = text(&credentials["TunnelSecret"]);
    assert_eq!(made["token"], *run_token);
    assert_eq!(decoded(&run_token), json!({"a": emulator.account(), "t": id, "s": secret}));
    assert_eq!(STANDARD.decode(&secret).unwrap().len(), 32);
    let (account, name) = (emulator.account(), "shop");
    let expected = json!({"AccountTag": account, "TunnelID": id, "TunnelName": name, "TunnelSecret": secret});
    assert_eq!(*credentials, expected);
    emulator.put_configuration("shop", &catch_all("http://shop")).unwrap();
    assert_eq!(get(), run_token, "it stays the same");
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
    let run_token = text(&read(&emulator, &format!("{path}/token")).result());
    for garbage in ["", "token", &STANDARD.encode("{}"), &format!("\"{run_token}\"")] {
        assert_eq!(emulator.run_connector(garbage), Err("Provided Tunnel token is not valid."), "{garbage}");
    }
    emulator.edit(|cloudflare| cloudflare.tunnel_mut("shop").deleted = true);
    assert_eq!(emulator.run_connector(&run_token), Err("Unauthorized: Invalid tunnel secret"));
    for path in [path, format!("{tunnels}/00000000-0000-4000-8000-000000000000")] {
        let refused = read(&emulator, &format!("{path}/token"));
        assert_eq!((refused.status, refused.code()), (404, 1054));
    }
    assert_eq!(read(&emulator, &format!("{tunnels}/not-an-id/token")).code(), 7003);
}

/// Cloudflare's description: only the Write groups, for the run token too.
#[test]
fn who_may_only_read_tunnels_may_neither_change_them_nor_run_them() {
    let (emulator, tunnels) = account();
    let path = made(&emulator, "shop");
    let others =
        [Permission::ZoneRead, Permission::DnsRead, Permission::DnsEdit, Permission::TunnelRead].as_slice();
    emulator.add_token(Token::with_permissions("token-of-reader", others));
    emulator.add_token(Token::with_permissions("token-of-writer", &[Permission::TunnelEdit]));
    let token = format!("{path}/token");
    for (method, path, body) in [("POST", &tunnels, r#"{"name":"new"}"#), ("GET", &token, "")] {
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

/// Who lists, finds nothing and makes the tunnel meets 1013 although a second list may still not have it.
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
    assert_eq!(post(&emulator, json!({"name": "shop"})).code(), 1013);
    assert_eq!(read(&emulator, &path).result()["name"], "shop");
    assert_eq!(read(&emulator, &format!("{path}/token")).status, 200);
    for list in 1..=3 {
        assert_eq!(listed(&emulator, ""), ["old"], "list {list}: two are over, the time is not");
    }
    emulator.advance_clock(Duration::from_secs(3));
    assert_eq!(listed(&emulator, ""), ["old", "shop"]);
    assert_eq!(read(&emulator, &tunnels).json()["result_info"]["total_count"], 2);

    let lag = json!({"unlisted_calls": 1, "unlisted_ms": 0}).to_string();
    assert_eq!(call(&emulator, "POST", "/_emulator/delays", &lag).status, 200);
    made(&emulator, "third");
    assert_eq!(listed(&emulator, "").len(), 2);
    assert_eq!(listed(&emulator, "").len(), 3);
}

/// A test that wants no secret in any output asks for all of them; what the emulator itself shows holds none.
#[test]
fn all_secrets_are_told_where_they_are_asked_for_and_nowhere_else() {
    let (emulator, _) = account();
    let made = text(&post(&emulator, json!({"name": "shop"})).result()["token"]);
    emulator.add_tunnel("by-hand");
    let by_hand = emulator.edit(|cloudflare| cloudflare.tunnel("by-hand").run_token());
    let secrets = emulator.secrets();
    let of = |token: String| [text(&decoded(&token)["s"]), token];
    assert_eq!(secrets, [of(made), of(by_hand)].concat());
    assert_eq!(read(&emulator, "/_emulator/secrets").json(), json!(secrets));

    let shown = |path: &str| read(&emulator, path).body;
    let outputs = [shown("/_emulator/calls"), shown("/_emulator/state"), format!("{emulator:?}")];
    for (output, secret) in outputs.iter().flat_map(|output| secrets.iter().map(move |s| (output, s))) {
        assert!(!output.contains(secret.as_str()), "{secret} in {output}");
    }
}
