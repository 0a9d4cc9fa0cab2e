//! Answers that are old, or that contradict themselves.

use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher, Permission, Plan, Token, catch_all};
use serde_json::{Value, json};

use crate::client::{TOKEN, call, free_zone, read, send};

/// A clock that stands, two tunnels, and the paths of what can be read old.
struct Account {
    emulator: Emulator,
    zone: String,
    tunnel: String,
    account: String,
}

impl Account {
    fn new() -> Self {
        let emulator = Emulator::start();
        emulator.add_token(Token::with_permissions(TOKEN, &Permission::ALL));
        let zone = emulator.add_zone("example.com", Plan::Free);
        emulator.stop_clock();
        let tunnel = emulator.add_tunnel("shop");
        emulator.add_tunnel("office");
        emulator.set_up_access("team");
        let account = emulator.account();
        emulator.keep_past();
        Self { emulator, zone, tunnel, account }
    }

    fn configurations(&self) -> String {
        format!("/accounts/{}/cfd_tunnel/{}/configurations", self.account, self.tunnel)
    }

    fn serve(&self, tunnel: &str, service: &str) {
        self.emulator.put_configuration(tunnel, &catch_all(service)).unwrap();
    }

    fn record(&self, name: &str) {
        let record = json!({"type": "A", "name": name, "content": "192.0.2.1"});
        self.emulator.add_record(&self.zone, record).unwrap();
    }

    /// Names or contents of what one read shows, once it is so old.
    fn names(&self, path: &str, writes: usize, member: &str) -> Vec<Value> {
        self.emulator.fault(Matcher::reads(), 1, Fault::Old { writes });
        let shown = read(&self.emulator, path).result();
        shown.as_array().unwrap().iter().map(|item| item[member].clone()).collect()
    }
}

/// Writes of other tunnels and of records do not count.
#[test]
fn an_old_configuration_has_the_version_and_the_rules_of_its_time() {
    let account = Account::new();
    for number in 1..=3 {
        account.serve("shop", &format!("http_status:40{number}"));
        account.serve("office", "http_status:404");
        account.record(&format!("r{number}"));
    }
    for (writes, version, config) in [
        (0, 3, json!({"ingress": [{"service": "http_status:403"}]})),
        (1, 2, json!({"ingress": [{"service": "http_status:402"}]})),
        (3, 0, Value::Null),
        (usize::MAX, 0, Value::Null),
    ] {
        account.emulator.fault(Matcher::get_configuration(), 1, Fault::Old { writes });
        let old = read(&account.emulator, &account.configurations()).result();
        assert_eq!((&old["version"], &old["config"]), (&json!(version), &config), "{writes} writes ago");
        assert_eq!(old["tunnel_id"], account.tunnel);
        let now = read(&account.emulator, &account.configurations()).result();
        assert_eq!(now["version"], 3, "what is stored stays");
    }
}

/// A PUT goes by what is stored, and says so.
#[test]
fn a_write_after_an_old_answer_counts_up_from_the_true_version() {
    let account = Account::new();
    account.serve("shop", "http_status:401");
    account.serve("shop", "http_status:402");
    account.emulator.fault_every(Matcher::any(), Fault::Old { writes: 1 });
    assert_eq!(read(&account.emulator, &account.configurations()).result()["version"], 1);
    let body = format!("{{\"config\":{}}}", catch_all("http_status:403"));
    assert_eq!(call(&account.emulator, "PUT", &account.configurations(), &body).result()["version"], 3);
    assert_eq!(read(&account.emulator, &account.configurations()).result()["version"], 2);
    assert_eq!(
        read(&account.emulator, "/zones").result()[0]["name"],
        "example.com",
        "of which no past is kept"
    );
}

#[test]
fn an_old_list_of_records_shows_each_record_as_it_was() {
    let account = Account::new();
    let path = format!("/zones/{}/dns_records", account.zone);
    account.record("first");
    let id = account.emulator.records(&account.zone)[0].id.clone();
    account.emulator.advance_clock(Duration::from_secs(60));
    let emulator = &account.emulator;
    let comment = json!({"comment": "new"});
    emulator.edit(|cloudflare| cloudflare.patch_record(&account.zone, &id, &comment).unwrap());
    account.record("second");
    emulator.edit(|cloudflare| cloudflare.delete_record(&account.zone, &id).unwrap());
    let [first, second] = ["first.example.com", "second.example.com"].map(Value::from);
    let (now, before) = (account.names(&path, 0, "name"), account.names(&path, 1, "name"));
    assert_eq!((now, before), (vec![second.clone()], vec![first, second]));
    assert_eq!(account.names(&path, 2, "comment"), [json!("new")]);
    assert_eq!(account.names(&path, 3, "comment"), [Value::Null]);
    let times = [2, 3].map(|writes| account.names(&path, writes, "modified_on"));
    assert_ne!(times[0], times[1], "each state has the times of its records");
    assert_eq!(account.names(&path, usize::MAX, "name"), [Value::Null; 0]);
}

/// The matcher says which of the two reads is old.
#[test]
fn an_old_list_of_applications_lacks_a_new_one_that_answers_by_its_id() {
    let account = Account::new();
    let add = |host: &str| {
        let application = json!({"type": "self_hosted", "name": host, "domain": host});
        account.emulator.add_application(&application).unwrap()
    };
    let first = add("a.example.com");
    let second = add("b.example.com");
    account.emulator.edit(|cloudflare| {
        let renamed = json!({"type": "self_hosted", "name": "renamed", "domain": "a.example.com"});
        cloudflare.put_application(&first, &renamed).unwrap();
    });
    account.emulator.fault_every(Matcher::list_applications(), Fault::Old { writes: 2 });
    let path = format!("/accounts/{}/access/apps", account.account);
    let listed = read(&account.emulator, &path).result();
    let names: Vec<&Value> =
        listed.as_array().unwrap().iter().map(|application| &application["name"]).collect();
    assert_eq!(names, ["a.example.com"]);
    let by_id = |id: &str| read(&account.emulator, &format!("{path}/{id}"));
    assert_eq!(by_id(&first).result()["name"], "renamed");
    assert_eq!(by_id(&second).result()["name"], "b.example.com");
    account.emulator.clear_faults();
    account.emulator.fault(Matcher::call("GET", "/accounts/*/access/apps/*"), 1, Fault::Old { writes: 2 });
    assert_eq!(by_id(&second).status, 404, "it was not there yet");
}

#[test]
fn old_connectors_have_not_applied_the_last_version() {
    let account = Account::new();
    account.serve("shop", "http_status:401");
    account.serve("shop", "http_status:402");
    let path = format!("/accounts/{}/cfd_tunnel/{}/connections", account.account, account.tunnel);
    for (writes, version) in [(0, 2), (1, 1), (2, 0)] {
        assert_eq!(account.names(&path, writes, "config_version"), [json!(version)], "{writes} writes ago");
    }
}

#[test]
fn a_member_of_an_answer_can_contradict_the_rest() {
    let account = Account::new();
    account.serve("shop", "http_status:401");
    let says = |member: &str, value: &str| {
        account.emulator.fault(Matcher::get_configuration(), 1, Fault::says(member, value));
        let answer = read(&account.emulator, &account.configurations()).result();
        [answer["tunnel_id"].clone(), answer["version"].clone(), answer["config"].clone()]
    };
    let config = json!({"ingress": [{"service": "http_status:401"}]});
    let tunnel = json!(account.tunnel);
    assert_eq!(says("config", "null"), [tunnel.clone(), json!(1), Value::Null]);
    assert_eq!(says("config", "{}"), [tunnel, json!(1), json!({})]);
    assert_eq!(says("tunnel_id", "\"of another\""), [json!("of another"), json!(1), config]);
}

#[test]
fn writes_of_one_tunnel_alone_are_refused_for_a_time() {
    let account = Account::new();
    account.serve("shop", "http_status:401");
    let of_shop = Matcher::call("PUT", &account.configurations());
    let hour = Duration::from_secs(3600);
    account.emulator.fault_for(of_shop, 1, hour, Fault::error(403, 10000, "Authentication error"));
    let office = account.emulator.edit(|cloudflare| cloudflare.tunnel("office").id.clone());
    let body = format!("{{\"config\":{}}}", catch_all("http_status:404"));
    let put = |path: &str| call(&account.emulator, "PUT", path, &body).status;
    let of_office = account.configurations().replace(&account.tunnel, &office);
    assert_eq!((put(&account.configurations()), put(&of_office)), (403, 200));
    assert_eq!(read(&account.emulator, &account.configurations()).result()["version"], 1);
    account.emulator.advance_clock(hour);
    assert_eq!(put(&account.configurations()), 200);
}

#[test]
fn another_language_can_ask_for_an_old_answer() {
    let account = Account::new();
    account.serve("shop", "http_status:401");
    let fault = |fault: Value| {
        let body = json!({"method": "GET", "nth": 1, "fault": fault}).to_string();
        send(&account.emulator, "", "POST", "/_emulator/faults", &body).unwrap().status
    };
    let path = account.configurations();
    assert_eq!(fault(json!({"old": 1})), 200);
    assert_eq!(read(&account.emulator, &path).result()["version"], 0);
    assert_eq!(fault(json!({"member": "config", "value": null})), 200);
    assert_eq!(read(&account.emulator, &path).result()["config"], Value::Null);
    let (fresh, _) = free_zone();
    let old = json!({"fault": {"old": 1}}).to_string();
    assert_eq!(send(&fresh, "", "POST", "/_emulator/faults", &old).unwrap().status, 400);
    assert_eq!(send(&fresh, "", "POST", "/_emulator/past", "{}").unwrap().status, 200);
    assert_eq!(send(&fresh, "", "POST", "/_emulator/faults", &old).unwrap().status, 200);
}

/// A client knows whatever it was told of a tunnel, and its own writes of a list, but not those of other clients.
#[test]
fn a_known_old_answer_comes_only_to_a_client_that_was_told_of_something_newer() {
    let account = Account::new();
    let emulator = &account.emulator;
    let configuration = account.configurations();
    account.serve("shop", "http_status:401");
    emulator.fault_every(Matcher::reads(), Fault::known_old(1));
    let version = || read(emulator, &configuration).result()["version"].clone();
    assert_eq!((version(), version()), (json!(1), json!(0)), "its first reading is not old");
    emulator.call_as(2);
    assert_eq!(version(), 1, "another process does not know");
    emulator.clear_faults();
    emulator.fault_every(Matcher::reads(), Fault::Unknown(Box::new(Fault::Old { writes: 1 })));
    emulator.call_as(3);
    assert_eq!((version(), version()), (json!(0), json!(0)), "it was never told");
    emulator.call_as(2);
    assert_eq!(version(), 1, "it knows by now");
    emulator.clear_faults();
    emulator.fault_every(Matcher::reads(), Fault::known_old(1));
    emulator.call_as(0);
    account.serve("shop", "http_status:402");
    assert_eq!(version(), 2, "nor does it know of what others wrote since");
    emulator.clear_faults();
    let body = format!("{{\"config\":{}}}", catch_all("http_status:403"));
    call(emulator, "PUT", &configuration, &body);
    emulator.fault(Matcher::reads(), 1, Fault::known_old(1));
    assert_eq!(version(), 2, "it wrote the third one");

    let records = format!("/zones/{}/dns_records", account.zone);
    let shown = || read(emulator, &records).result()[0]["content"].clone();
    account.record("theirs");
    let before = shown();
    let patch =
        json!({"patches": [{"id": read(emulator, &records).result()[0]["id"], "content": "192.0.2.9"}]});
    emulator.fault_every(Matcher::reads(), Fault::known_old(1));
    assert_eq!((shown(), shown()), (before.clone(), before.clone()), "a list has no version");
    call(emulator, "POST", &format!("{records}/batch"), &patch.to_string());
    emulator.advance_clock(Duration::from_secs(119));
    assert_eq!(shown(), before);
    emulator.advance_clock(Duration::from_secs(1));
    assert_eq!(shown(), "192.0.2.9", "two minutes later it is not remembered any more");
    let told = |number: usize| {
        let calls = emulator.calls();
        let call = calls.iter().rev().nth(number).unwrap();
        (call.writes_ago, call.is_known_old, call.would_be_known_old)
    };
    assert_eq!((told(1), told(0)), ((1, true, false), (0, false, false)));
    emulator.clear_faults();
    emulator.fault(Matcher::reads(), 1, Fault::Old { writes: 1 });
    assert_eq!((shown(), told(0)), (before, (1, false, false)));
}

#[test]
fn a_known_contradiction_comes_only_after_a_read_of_the_very_version() {
    let account = Account::new();
    let null = || Fault::Known(Box::new(Fault::says("config", "null")));
    account.emulator.fault_every(Matcher::get_configuration(), null());
    let has_config = || !read(&account.emulator, &account.configurations()).result()["config"].is_null();
    account.serve("shop", "http_status:401");
    assert_eq!((has_config(), has_config()), (true, false));
    let body = format!("{{\"config\":{}}}", catch_all("http_status:402"));
    call(&account.emulator, "PUT", &account.configurations(), &body);
    assert_eq!((has_config(), has_config()), (true, false));
}
