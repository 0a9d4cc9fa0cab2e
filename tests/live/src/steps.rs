//! The twelve steps: ExternalDNS's conversation with the binary, and after each the records and the rules read back.

use std::collections::BTreeSet;
use std::thread;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use test_support::external_dns::ExternalDns;
use test_support::harness::endpoint_of;
use test_support::process::Process;

use crate::clean::places;
use crate::guard::{Bounds, hostname, member};
use crate::proxy::Proxy;
use crate::run::{Look, NO_POLICY, Outcome, PASSED};

/// Loops until nothing is left to write. A move waits for connectors, and a login for a list.
const LOOPS_MAX: usize = 90;

/// The steps, with the rules that the cluster wants in each.
pub const STEPS: [(&str, &[Wanted]); 12] = [
    ("publish", &[w(1, "", 201, 0)]),
    ("second run", &[w(1, "", 201, 0)]),
    ("change", &[w(1, "", 202, 0)]),
    ("path", &[w(1, "", 202, 0), w(1, "/api", 203, 0)]),
    ("second tunnel", &[w(1, "", 202, 0), w(1, "/api", 203, 0), w(2, "", 204, 1)]),
    ("move", &[w(1, "", 202, 0), w(1, "/api", 203, 0), w(2, "", 204, 0)]),
    (BESIDE, &[w(1, "", 202, 0), w(1, "/api", 203, 0), w(2, "", 204, 0), w(4, "", 205, 0)]),
    ("refused", &[w(1, "", 202, 0), w(1, "/api", 203, 0), w(2, "", 204, 0), w(4, "", 205, 0)]),
    ("mended", &[w(1, "", 202, 0), w(2, "", 204, 0), w(4, "", 206, 0)]),
    (CLOSES, &[w(1, "", 202, 0), w(2, "", 204, 0), w(4, "", 206, 0), login(5, true)]),
    (OPENS, &[w(1, "", 202, 0), w(2, "", 204, 0), w(4, "", 206, 0), login(5, false)]),
    ("withdraw", &[]),
];

const BESIDE: &str = "beside what is foreign";
const CLOSES: &str = "login closes";
const OPENS: &str = "login opens";

/// A rule with its record.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// The number of the hostname.
    host: usize,
    path: &'static str,
    /// What it answers.
    status: u16,
    /// The position of its tunnel.
    tunnel: usize,
    /// Whether it asks for a login, or says that it has none.
    login: Option<bool>,
}

const fn w(host: usize, path: &'static str, status: u16, tunnel: usize) -> Wanted {
    Wanted { host, path, status, tunnel, login: None }
}

const fn login(host: usize, has_login: bool) -> Wanted {
    Wanted { login: Some(has_login), ..w(host, "", 207, 0) }
}

/// The binary at work, what the cluster wants of it, and what is foreign beside that.
pub struct Stage<'a> {
    proxy: &'a Proxy,
    bounds: Bounds,
    webhook: (Process, ExternalDns),
    tunnels: [String; 2],
    /// Whether the tunnel to which a hostname moves has a connector.
    has_connectors: bool,
    /// The name of the policy.
    policy: Option<&'a str>,
    wanted: Vec<Wanted>,
    /// The record and the rule that the kit made without a stamp.
    foreign: Option<(Value, String)>,
}

/// The hostname of the foreign record and rule.
const FOREIGN: usize = 3;

impl<'a> Stage<'a> {
    /// Starts the binary; the proxy is its Cloudflare.
    pub fn start(look: &'a Look, tunnels: [String; 2]) -> Self {
        let (proxy, bounds) = (&look.proxy, look.proxy.state().bounds.clone());
        let variables = [
            ("CF_API_TOKEN", "the-proxy-has-the-token"),
            ("CF_API_BASE_URL", &*proxy.base_url()),
            ("CF_ACCOUNT_ID", &*bounds.account),
            ("CF_TUNNEL_ID", &*tunnels.join(",")),
            ("ZONE_ID_FILTER", &*bounds.zone),
            ("OWNER_ID", &*look.owner),
            ("MOVE_GRACE", "0s"),
        ];
        let webhook = Process::start_anywhere(&variables).ready();
        let policy = look.policy.as_ref().map(|[name, _]| name.as_str());
        let (wanted, foreign, has_connectors) = (Vec::new(), None, false);
        let mut stage = Self { proxy, bounds, webhook, tunnels, has_connectors, policy, wanted, foreign };
        let connections = stage.configuration(0).replace("configurations", "connections");
        stage.has_connectors = !proxy.get(&connections).items().is_empty();
        stage
    }

    /// What the cluster wants from now on comes to be, and nothing else changes.
    pub fn step(&mut self, name: &str, wanted: &[Wanted]) -> Outcome {
        if self.policy.is_none() && [CLOSES, OPENS].contains(&name) {
            return NO_POLICY;
        }
        self.wanted = wanted.to_vec();
        let stays = name == "move" && !self.has_connectors;
        if stays {
            self.run_loop(wanted);
        }
        if !self.has_connectors {
            self.wanted.iter_mut().filter(|wanted| wanted.host == 2).for_each(|wanted| wanted.tunnel = 1);
        }
        match name {
            "second run" => assert!(self.run_loop(&self.wanted), "a second run wrote something"),
            BESIDE => self.make_foreign(),
            "refused" => self.ask_for_what_is_refused(),
            _ => {}
        }
        self.settle();
        if stays { Outcome::NotTried("the tunnel has no connector, so the hostname stayed") } else { PASSED }
    }

    fn endpoint(&self, wanted: &Wanted) -> Endpoint {
        let Wanted { host, path, status, tunnel, login } = wanted;
        let (service, policy) = (format!("http_status:{status}"), self.policy.unwrap_or_default());
        let properties = [
            ("tunnel-service", &*service),
            ("tunnel-path-prefix", *path),
            ("tunnel", &*self.tunnels[*tunnel]),
            ("access-policy", login.map_or("", |has_login| if has_login { policy } else { "none" })),
        ];
        endpoint_of(&format!("ingress/live/web-{host}"), &self.bounds.hostname(*host), &properties)
    }

    /// A record and a rule as a person makes them: the rule's bytes are compared.
    fn make_foreign(&mut self) {
        let (name, target) = (self.bounds.hostname(FOREIGN), format!("{}.cfargotunnel.com", self.tunnels[0]));
        let record =
            json!({"type": "CNAME", "name": name, "content": target, "proxied": true, "comment": "me"});
        let [records, ..] = places(&self.bounds);
        self.proxy.call("POST", &format!("{records}/batch"), &json!({"posts": [record]})).succeeded();
        let rule = format!(r#"{{ "service": "http_status:208",  "hostname":"{name}"}}"#);
        let text = self.proxy.get(&self.configuration(0)).text;
        let rules = ingress(&text).trim_start_matches('[');
        let body = format!(r#"{{"config":{{"ingress":[{rule},{rules}}}}}"#);
        self.proxy.ask("PUT", &self.configuration(0), &body, "").succeeded();
        self.foreign = Some(self.read_foreign());
    }

    /// A hostname that is held, and an answer that is none: neither is written.
    fn ask_for_what_is_refused(&self) {
        let mut refused = [&*self.wanted, &[w(FOREIGN, "", 209, 0)]].concat();
        refused.iter_mut().filter(|one| one.host == 4).for_each(|one| one.status = 99);
        self.run_loop(&refused);
        assert!(self.run_loop(&refused), "what is refused is written in each loop");
    }

    /// One loop of ExternalDNS, and whether it wrote nothing.
    fn run_loop(&self, wanted: &[Wanted]) -> bool {
        let writes = || self.proxy.state().calls.iter().filter(|call| call.method != "GET").count();
        let before = writes();
        let desired: Vec<Endpoint> = wanted.iter().map(|wanted| self.endpoint(wanted)).collect();
        match self.webhook.1.run_loop(&desired) {
            Ok(_) => writes() == before,
            Err(status) => status != 503 && panic!("the webhook answered {status}"),
        }
    }

    /// Loops until one writes nothing; then everything reads as it is wanted.
    #[allow(clippy::disallowed_methods, reason = "Cloudflare takes its time")]
    fn settle(&self) {
        for _ in 0..LOOPS_MAX {
            if self.run_loop(&self.wanted) {
                return self.check();
            }
            thread::sleep(self.proxy.settings().pace);
        }
        panic!("{LOOPS_MAX} loops of ExternalDNS were not enough")
    }

    fn records(&self) -> Vec<Value> {
        let [records, ..] = places(&self.bounds);
        let mut all = self.proxy.list(&records, 5000);
        all.retain(|record| record["name"].as_str().is_some_and(|name| self.bounds.owns_hostname(name)));
        all
    }

    fn configuration(&self, tunnel: usize) -> String {
        let [_, _, _, tunnels] = places(&self.bounds);
        format!("{tunnels}/{}/configurations", self.tunnels[tunnel])
    }

    /// The records and rules of this run are those that are wanted, and the foreign ones are as they were.
    fn check(&self) {
        let foreign = self.bounds.hostname(FOREIGN);
        let is_ours = |name: &str| self.bounds.owns_hostname(name) && *name != *foreign;
        let text = |value: &Value, member: &str| value[member].as_str().unwrap_or_default().to_owned();
        let records = self.records().into_iter().filter(|record| is_ours(&text(record, "name")));
        let mut found: BTreeSet<String> = records
            .map(|record| format!("record {} to {}", text(&record, "name"), text(&record, "content")))
            .collect();
        for tunnel in 0..self.tunnels.len() {
            let answer = self.proxy.get(&self.configuration(tunnel));
            let rules = answer.json["result"]["config"]["ingress"].as_array().into_iter().flatten();
            for rule in rules.filter(|rule| is_ours(&text(rule, "hostname"))) {
                let path = if text(rule, "path").contains("/api") { "/api" } else { "" };
                let login = rule["originRequest"]["access"]["required"] == true;
                let [name, service] = ["hostname", "service"].map(|member| text(rule, member));
                found.insert(format!("rule {name}{path} to {service} by {tunnel}, login: {login}"));
            }
        }
        let mut expected = BTreeSet::new();
        for Wanted { host, path, status, tunnel, login } in &self.wanted {
            let (name, login, id) =
                (self.bounds.hostname(*host), *login == Some(true), &self.tunnels[*tunnel]);
            expected.insert(format!("record {name} to {id}.cfargotunnel.com"));
            expected.insert(format!("rule {name}{path} to http_status:{status} by {tunnel}, login: {login}"));
        }
        assert_eq!(found, expected, "what is there is not what is wanted");
        if let Some(before) = &self.foreign {
            assert!(self.read_foreign() == *before, "the foreign record or rule changed");
        }
    }

    /// The record, and the bytes of the rule.
    fn read_foreign(&self) -> (Value, String) {
        let name = self.bounds.hostname(FOREIGN);
        let record = self.records().into_iter().find(|record| record["name"] == *name);
        let text = self.proxy.get(&self.configuration(0)).text;
        let rules: Vec<&RawValue> = serde_json::from_str(ingress(&text)).expect("a list of rules");
        let of_name = |rule: &&&RawValue| hostname(rule.get()).as_deref() == Some(&*name);
        let rule = rules.iter().find(of_name).map(|rule| rule.get().to_owned());
        record.zip(rule).expect("the foreign record and rule are there")
    }
}

/// The rules in an answer, as their bytes.
fn ingress(answer: &str) -> &str {
    let config = member(answer, "result").and_then(|result| member(result, "config"));
    config.and_then(|config| member(config, "ingress")).unwrap_or("[]")
}
