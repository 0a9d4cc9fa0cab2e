//! The program, run in this process against the emulator, with ExternalDNS's conversation played to it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use cloudflare_emulator::{Emulator, Plan, Token, Visit};
use external_dns_cloudflare_tunnel_webhook::clock::Clock;
use external_dns_cloudflare_tunnel_webhook::config::Config;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels, Property};
use external_dns_cloudflare_tunnel_webhook::serve::Running;
use external_dns_cloudflare_tunnel_webhook::shutdown::Shutdown;

use crate::clock::{ManualClock, eventually};
use crate::external_dns::{Answer, ExternalDns, Registry, exchange};
use crate::log::Log;

pub const TOKEN: &str = "an-api-token-that-must-not-be-seen";

/// A foreign rule with odd spacing, an unknown field and an order of its own, to be kept to the byte.
pub const FOREIGN_RULE: &str =
    r#"{ "service": "http://theirs:80",  "hostname":"hand.example.com", "note": {"by": "Jo"} }"#;

/// A tunnel's document with hand-made rules and settings.
pub const FOREIGN_DOCUMENT: &str = r#"{"originRequest": { "connectTimeout": 10 }, "ingress": [{ "service": "http://theirs:80",  "hostname":"hand.example.com", "note": {"by": "Jo"} },{"hostname":"*.example.com","service":"http://wild:80"},{"service":"http_status:503"}], "warp-routing": {"enabled": false}}"#;

/// Cloudflare with one account, a zone `example.com` on a paid plan, and a tunnel called `home`.
pub struct Harness {
    pub cloudflare: Emulator,
    pub zone: String,
    pub tunnel: String,
    /// What its programs say.
    pub log: Log,
}

impl Harness {
    pub fn new() -> Self {
        let harness = Self::without_tunnel();
        Self { tunnel: harness.cloudflare.add_tunnel("home"), ..harness }
    }

    /// Before the tunnel is made; its id is empty.
    pub fn without_tunnel() -> Self {
        let cloudflare = Emulator::start();
        cloudflare.add_token(Token::full(TOKEN));
        let zone = cloudflare.add_zone("example.com", Plan::Pro);
        Self { cloudflare, zone, tunnel: String::new(), log: Log::default() }
    }

    /// With foreign rules and records.
    pub fn with_foreign() -> Self {
        let harness = Self::new();
        harness.add_foreign();
        harness
    }

    /// Adds foreign rules and records.
    pub fn add_foreign(&self) {
        self.cloudflare.put_configuration(&self.tunnel, FOREIGN_DOCUMENT).expect("cloudflared takes it");
        for (name, kind, content) in [
            ("hand.example.com", "A", "192.0.2.1"),
            ("example.com", "TXT", "\"v=spf1 -all\""),
            ("elsewhere.example.com", "CNAME", "somewhere.test"),
        ] {
            let record = serde_json::json!({"name": name, "type": kind, "content": content, "ttl": 1});
            self.cloudflare.add_record(&self.zone, record).expect("Cloudflare takes it");
        }
    }

    /// The program with default settings.
    pub fn start(&self) -> Program {
        self.start_with(&[])
    }

    /// The program with these variables besides the necessary ones, ready to work.
    pub fn start_with(&self, variables: &[(&'static str, &str)]) -> Program {
        let program = self.start_unready(variables);
        program.wait_until_ready();
        self.cloudflare.take_calls();
        program
    }

    /// The program as it is right after its start, by a clock on which its pauses take no time.
    pub fn start_unready(&self, variables: &[(&'static str, &str)]) -> Program {
        self.start_by(Arc::<ManualClock>::default(), variables)
    }

    /// The same by another clock.
    pub fn start_by(&self, clock: Arc<dyn Clock>, variables: &[(&'static str, &str)]) -> Program {
        self.start_configured(clock, self.config(variables))
    }

    /// The same by a clock that stands still, once the program is ready.
    pub fn start_stopped(&self, variables: &[(&'static str, &str)]) -> (Arc<ManualClock>, Program) {
        let clock = Arc::new(ManualClock::stopped());
        let program = self.start_by(Arc::clone(&clock) as _, variables);
        program.wait_until_ready();
        (clock, program)
    }

    /// The same with a configuration that was changed beyond what variables say.
    pub fn start_configured(&self, clock: Arc<dyn Clock>, config: Config) -> Program {
        self.log.take_thread();
        let clock = self.log.marking(clock);
        let running = Running::start(config, clock, Shutdown::default()).expect("loopback has free ports");
        Program { running: Some(running) }
    }

    /// A program's configuration with these variables besides the necessary ones.
    pub fn config(&self, variables: &[(&'static str, &str)]) -> Config {
        let base_url = self.cloudflare.base_url();
        let account = self.cloudflare.account();
        let fixed = [
            ("CF_API_TOKEN", TOKEN.to_owned()),
            ("CF_ACCOUNT_ID", account),
            ("CF_TUNNEL_ID", "home".to_owned()),
            ("CF_API_BASE_URL", base_url),
            ("SERVER_PORT", "0".to_owned()),
            // A port that is free there may be taken on ::1.
            ("SERVER_HOST", "127.0.0.1".to_owned()),
            ("METRICS_PORT", "0".to_owned()),
            ("METRICS_HOST", "127.0.0.1".to_owned()),
            // The emulator's edge is as fast as its API unless a test slows it down.
            ("MOVE_GRACE", "0s".to_owned()),
        ];
        let given = variables.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let all = fixed.into_iter().chain(given).map(|(name, value)| (name.to_owned(), value));
        Config::read(&all.collect()).expect("the configuration is right")
    }

    /// The CNAMEs of the zone: name, content, proxied, comment.
    pub fn cnames(&self) -> Vec<(String, String, bool, String)> {
        self.cloudflare
            .records(&self.zone)
            .into_iter()
            .filter(|record| record.kind == "CNAME")
            .map(|record| (record.name, record.content, record.proxied, record.comment.unwrap_or_default()))
            .collect()
    }

    /// The tunnel's rules, each as the text it has in the document.
    pub fn rules(&self) -> Vec<String> {
        #[derive(serde::Deserialize)]
        struct Document<'a> {
            #[serde(borrow, default)]
            ingress: Vec<&'a serde_json::value::RawValue>,
        }
        let config = self.cloudflare.configuration(&self.tunnel).unwrap_or_else(|| "{}".to_owned());
        let document: Document<'_> = serde_json::from_str(&config).expect("a document");
        document.ingress.into_iter().map(|rule| rule.get().to_owned()).collect()
    }

    /// The service that a visitor's request is led to, or what else becomes of it.
    pub fn service_at(&self, host: &str, path: &str) -> String {
        match self.cloudflare.visit(host, path) {
            Visit::Served { service, .. } => service,
            other => other.to_string(),
        }
    }

    /// The records that this program did not make.
    pub fn foreign_records(&self) -> Vec<String> {
        self.cloudflare
            .records(&self.zone)
            .into_iter()
            .filter(|record| {
                !record.comment.as_deref().unwrap_or_default().starts_with("external-dns owner=")
            })
            .map(|record| format!("{record:?}"))
            .collect()
    }
}

/// The program at work.
pub struct Program {
    running: Option<Running>,
}

impl Program {
    fn running(&self) -> &Running {
        self.running.as_ref().expect("it runs until it is dropped")
    }

    pub fn external_dns(&self) -> ExternalDns {
        let api = *self.running().api_addresses.first().expect("loopback is there");
        ExternalDns { api, registry: Registry::Noop }
    }

    pub fn observation(&self) -> SocketAddr {
        self.running().metrics_address
    }

    /// What the observation port answers.
    pub fn observe(&self, method: &str, path: &str) -> io::Result<Answer> {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        exchange(self.observation(), &[request.as_bytes()])
    }

    pub fn is_ready(&self) -> bool {
        self.observe("GET", "/readyz").is_ok_and(|answer| answer.status == 200)
    }

    /// A process that is killed: nothing is finished, nothing is remembered.
    pub fn restart(self, harness: &Harness) -> Self {
        drop(self);
        harness.start()
    }

    pub fn wait_until_ready(&self) {
        eventually("readiness", || self.is_ready());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }
}

/// An endpoint as an Ingress with a load balancer's address yields it. One for a wildcard says so by its word.
pub fn endpoint(name: &str, properties: &[(&str, &str)]) -> Endpoint {
    let word = name.starts_with("*.").then_some(("tunnel-wildcard", "true"));
    endpoint_saying(name, properties.iter().copied().chain(word))
}

/// The same with no properties but these.
pub fn endpoint_saying<'a>(name: &str, properties: impl IntoIterator<Item = (&'a str, &'a str)>) -> Endpoint {
    Endpoint {
        dns_name: name.to_owned(),
        targets: vec!["192.0.2.10".to_owned()],
        record_type: "A".to_owned(),
        labels: Labels::from_iter([("resource", "ingress/shop/web")]),
        provider_specific: properties
            .into_iter()
            .map(|(name, value)| Property::new(format!("webhook/{name}"), value))
            .collect(),
        ..Endpoint::default()
    }
}

/// The same from an object, such as `ingress/shop/web`. Properties without a value are left out.
pub fn endpoint_of(object: &str, name: &str, properties: &[(&str, &str)]) -> Endpoint {
    let said: Vec<(&str, &str)> = properties.iter().copied().filter(|(_, value)| !value.is_empty()).collect();
    let mut endpoint = endpoint(name, &said);
    endpoint.labels.set("resource", object);
    endpoint
}

/// An endpoint that is published to `service`.
pub fn published(name: &str, service: &str) -> Endpoint {
    endpoint(name, &[("tunnel-service", service)])
}
