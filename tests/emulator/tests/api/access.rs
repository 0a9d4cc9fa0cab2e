//! Access: the calls on it, and what it is to visitors.

mod applications;
mod control;
mod limits;
mod lists;
mod permissions;
mod policies;
mod propagation;
mod visitors;

use cloudflare_emulator::{Emulator, Permission, Plan, Token};
use serde_json::{Value, json};

use crate::client::{Answer, TOKEN, call};

/// Access set up for the team `shop`, with the zone `example.com`, a token for everything, and the reusable policy
/// `staff`.
struct Scene {
    emulator: Emulator,
    /// `/accounts/{id}/access`.
    access: String,
    zone: String,
    staff: String,
}

impl Scene {
    fn new() -> Self {
        let emulator = Emulator::start();
        emulator.add_token(Token::with_permissions(TOKEN, &Permission::ALL));
        let zone = emulator.add_zone("example.com", Plan::Free);
        emulator.set_up_access("shop");
        let staff = emulator.add_policy(&policy("staff", "allow")).unwrap();
        let access = format!("/accounts/{}/access", emulator.account());
        Self { emulator, access, zone, staff }
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        call(&self.emulator, method, &format!("{}/{path}", self.access), &body)
    }

    fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &Value::Null)
    }

    /// The result of a POST of an application.
    fn made(&self, body: &Value) -> Value {
        let answer = self.call("POST", "apps", body);
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()["result"].take()
    }

    /// Status and code of a refused POST of an application, and the text behind the code's name.
    fn refused(&self, body: &Value) -> (u16, u64, String) {
        let answer = self.call("POST", "apps", body);
        let message = answer.json()["errors"][0]["message"].as_str().unwrap().to_owned();
        let (_, text) = message.split_once(": ").unwrap_or(("", &message));
        (answer.status, answer.code(), text.to_owned())
    }

    /// The names in the list.
    fn listed(&self, query: &str) -> Vec<String> {
        names(&self.get(&format!("apps{query}")).result())
    }
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

fn policy(name: &str, decision: &str) -> Value {
    json!({"name": name, "decision": decision, "include": [{"email_domain": {"domain": "example.com"}}]})
}

/// An application of these destinations with these policies.
fn app(name: &str, uris: &[&str], policies: &Value) -> Value {
    let destinations: Vec<Value> = uris.iter().map(|uri| json!({"type": "public", "uri": uri})).collect();
    json!({
        "type": "self_hosted",
        "name": name,
        "domain": uris.first(),
        "destinations": destinations,
        "policies": policies,
    })
}

fn without(value: &Value, names: &[&str]) -> Value {
    let mut members = value.as_object().unwrap().clone();
    members.retain(|name, _| !names.contains(&name.as_str()));
    Value::Object(members)
}
