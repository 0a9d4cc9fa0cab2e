//! The whole conversation of ExternalDNS with this program, for a small shop, against an emulator of Cloudflare.
//!
//! ```text
//! cargo run --example demo
//! ```
//!
//! Nothing to configure, no network. Each step prints what was asked, what stands at Cloudflare afterwards and the calls
//! it took, and ends the demo if something is not as it should be.

use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cloudflare_emulator::{Call, Token, Visit, Visitor as AccessVisitor};
use external_dns_cloudflare_tunnel_webhook::clock::SystemClock;
use external_dns_cloudflare_tunnel_webhook::commands::{self, Report};
use external_dns_cloudflare_tunnel_webhook::logging::{self, Format};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};
use log::LevelFilter;
use serde_json::{Value, json};
use test_support::clock::eventually;
use test_support::harness::{Harness, Program, TOKEN, endpoint, published};

/// How long a configuration takes to where the visitors are.
const EDGE_DELAY: Duration = Duration::from_millis(100);

/// Between two visits.
const VISIT_PAUSE: Duration = Duration::from_micros(100);

/// Visits after the change is there.
const LAST_VISITS: usize = 100;

/// The age at which an Access application goes by itself once nothing answers for its place.
const APPLICATION_AGE: Duration = Duration::from_secs(600);

/// What is not as it should be.
type Problem = String;

fn main() -> ExitCode {
    match run() {
        Ok(()) => {
            println!("\nAll of it as it should be.");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("\nThe demo failed: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Problem> {
    let harness = with_new_tunnel()?;
    harness.add_foreign();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.set_up_access("shop");
        let staff = json!({"name": "staff", "decision": "allow", "include": [{"email_domain": {"domain": "example.com"}}]});
        cloudflare.add_policy(&staff).expect("Cloudflare takes it");
        *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
    });
    let before = Standing::of(&harness);
    heading("The tunnel gets rules that somebody makes by hand, and the zone has records of other people");
    print_standing(&harness);

    // Refusals are told in the log: here between the steps, in a cluster on the sidecar's standard error.
    logging::start(LevelFilter::Warn, Format::Text).map_err(|error| error.to_string())?;
    let program = harness.start();
    let shop = |service: &str| {
        vec![
            published("shop.example.com", service),
            published("api.example.com", "http://api.shop.svc:8080"),
            endpoint(
                "admin.example.com",
                &[
                    ("tunnel-service", "https://admin.shop.svc:8443"),
                    ("origin-no-tls-verify", "true"),
                    ("origin-connect-timeout", "1m"),
                    ("access-policy", "staff"),
                ],
            ),
        ]
    };
    let demo = Demo { harness: &harness, program: &program, before: &before };

    demo.step(
        "Three Ingresses are annotated: three hostnames are published",
        &shop("http://shop.shop.svc:80"),
    )?;
    expect(harness.rules().len() == before.rules.len() + 3, "three rules came")?;
    let wild = position(&harness, "*.example.com")?;
    for name in ["shop.example.com", "api.example.com", "admin.example.com"] {
        expect(
            position(&harness, name)? < wild,
            "the rules stand before the hand-made wildcard that covers them",
        )?;
    }
    expect_served(&harness, "shop.example.com")?;
    expect_served(&harness, "api.example.com")?;
    let visit_as = |visitor| harness.cloudflare.visit_as(visitor, "admin.example.com", "/");
    expect(
        matches!(visit_as(AccessVisitor::WithoutLogin), Visit::TurnedAway { .. }),
        "the Access application that came with the hostname turns away who has no login",
    )?;
    expect(matches!(visit_as(AccessVisitor::WithLogin), Visit::Served { .. }), "who has one is served")?;
    println!("  A visitor of admin.example.com without a login is turned away.");
    demo.settles(&shop("http://shop.shop.svc:80"))?;

    let visitor = Visitor { harness: &harness, host: "shop.example.com" };
    let title = "One service moves to another port: its rule changes";
    let visits = visitor.during(|| demo.step(title, &shop("http://shop.shop.svc:9000")))?;
    visits.print(visitor.host);
    expect(visits.lost == 0 && visits.before > 0 && visits.after > 0, "every visit is served all the while")?;
    expect(
        served_by(&harness, "shop.example.com") == Some("http://shop.shop.svc:9000".to_owned()),
        "the rule changed",
    )?;
    demo.settles(&shop("http://shop.shop.svc:9000"))?;

    let mut typo = shop("http://shop.shop.svc:9000");
    typo.retain(|endpoint| endpoint.dns_name != "api.example.com");
    typo.push(published("api.example.com", "api.shop.svc:8080"));
    demo.step("A typing mistake in an annotation: the hostname stays published as it was", &typo)?;
    expect(
        served_by(&harness, "api.example.com") == Some("http://api.shop.svc:8080".to_owned()),
        "the rule stayed",
    )?;

    let mut lost = shop("http://shop.shop.svc:9000");
    for endpoint in &mut lost {
        endpoint.provider_specific.retain(|property| !property.name.contains("access"));
    }
    demo.step("An annotation is lost: what was protected stays so", &lost)?;
    expect(matches!(visit_as(AccessVisitor::WithoutLogin), Visit::TurnedAway { .. }), "nothing opened")?;
    expect(matches!(visit_as(AccessVisitor::WithLogin), Visit::Served { .. }), "who has a login is served")?;

    demo.step("All three Ingresses are deleted: what was made goes, and nothing else", &[])?;
    expect(Standing::of(&harness) == before, "everything stands as it did at the beginning")?;
    harness.cloudflare.advance_clock(APPLICATION_AGE);
    heading("Ten minutes later the Access application goes by itself, once two loops found it left");
    for _ in 0..2 {
        demo.program
            .external_dns()
            .run_loop(&[])
            .map_err(|status| format!("the webhook answered {status}"))?;
    }
    eventually("its deletion", || harness.cloudflare.applications().is_empty());
    demo.settles(&[])
}

/// An account that had no tunnel, and what `tunnel --token-file` made of it.
fn with_new_tunnel() -> Result<Harness, Problem> {
    heading("An account without a tunnel: one command makes it");
    let harness = Harness::without_tunnel();
    let path = std::env::temp_dir().join(format!("run-token-{}", std::process::id()));
    let report = commands::tunnel(harness.config(&[]), Arc::new(SystemClock), Some(&path), false);
    let Report { text, .. } = report?;
    for line in text.lines() {
        println!("  {line}");
    }
    let token = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    fs::remove_file(&path).map_err(|error| error.to_string())?;
    let tunnel = harness.cloudflare.run_connector(&token)?;
    println!("  With the token in that file cloudflared connects.");
    Ok(Harness { tunnel, ..harness })
}

/// The shop, before and while it is published.
struct Demo<'a> {
    harness: &'a Harness,
    program: &'a Program,
    before: &'a Standing,
}

impl Demo<'_> {
    /// One loop of ExternalDNS, and what came of it. What is protected comes in a second loop, after its application.
    fn step(&self, title: &str, desired: &[Endpoint]) -> Result<(), Problem> {
        heading(title);
        self.harness.cloudflare.take_calls();
        let mut answer = self.program.external_dns().run_loop(desired);
        log::logger().flush();
        if answer == Err(503) {
            println!("  The loop is answered 503, so that ExternalDNS asks again.");
            answer = self.program.external_dns().run_loop(desired);
        }
        let changes = answer.map_err(|status| format!("the webhook answered {status}"))?;
        log::logger().flush();
        print_changes(&changes);
        print_standing(self.harness);
        print_calls(self.harness, &self.harness.cloudflare.take_calls());
        let standing = Standing::of(self.harness);
        expect(
            standing.keeps(self.before),
            "every foreign rule and record is there, in its order, to the byte",
        )
    }

    /// A further loop must write nothing.
    fn settles(&self, desired: &[Endpoint]) -> Result<(), Problem> {
        self.harness.cloudflare.take_calls();
        let changes = self
            .program
            .external_dns()
            .run_loop(desired)
            .map_err(|status| format!("the webhook answered {status}"))?;
        let calls = self.harness.cloudflare.take_calls();
        let writes = calls.iter().filter(|call| call.is_write()).count();
        println!("  A further loop: {} calls, {writes} writes.", calls.len());
        expect(changes == Changes::default(), "ExternalDNS has nothing more to ask for")?;
        expect(writes == 0, "a further loop writes nothing")
    }
}

/// Somebody who asks for a hostname again and again.
struct Visitor<'a> {
    harness: &'a Harness,
    host: &'static str,
}

/// How many visits were answered as before, as after, and otherwise.
struct Visits {
    before: usize,
    after: usize,
    lost: usize,
}

impl Visitor<'_> {
    /// Counts visits from before a step until the edge has what it wrote, and some more.
    fn during(&self, step: impl FnOnce() -> Result<(), Problem>) -> Result<Visits, Problem> {
        let visit = || self.harness.cloudflare.visit(self.host, "/");
        self.harness.cloudflare.delay_configurations("home", &[EDGE_DELAY]);
        let (stop, stopped) = mpsc::channel::<()>();
        let before = visit();
        let seen = thread::scope(|scope| {
            let mut seen = vec![before.clone()];
            let visiting = scope.spawn(move || {
                while stopped.recv_timeout(VISIT_PAUSE) == Err(RecvTimeoutError::Timeout) {
                    seen.push(visit());
                }
                seen.extend(std::iter::repeat_with(visit).take(LAST_VISITS));
                seen
            });
            let outcome = step();
            self.harness.cloudflare.advance_clock(EDGE_DELAY);
            drop(stop);
            let seen = visiting.join().map_err(|_| "the visitor panicked".to_owned())?;
            outcome.map(|()| seen)
        })?;
        let after = visit();
        self.harness.cloudflare.delay_configurations("home", &[Duration::ZERO]);
        let like = |wanted: &Visit| seen.iter().filter(|visit| visit.is_answered_like(wanted)).count();
        let (before, after) = (like(&before), like(&after));
        Ok(Visits { before, after, lost: seen.len() - before - after })
    }
}

impl Visits {
    fn print(&self, host: &str) {
        let Self { before, after, lost } = self;
        println!(
            "  Visits of {host} all the while: {before} by the old service, {after} by the new one, {lost} lost."
        );
    }
}

/// What stands at Cloudflare.
#[derive(PartialEq)]
struct Standing {
    rules: Vec<String>,
    foreign_records: Vec<String>,
    records: usize,
}

impl Standing {
    fn of(harness: &Harness) -> Self {
        let records = harness.cloudflare.records(&harness.zone).len();
        Self { rules: harness.rules(), foreign_records: harness.foreign_records(), records }
    }

    /// Whether every rule and record of `other` is here, in the same order.
    fn keeps(&self, other: &Self) -> bool {
        let mut rules = self.rules.iter();
        self.foreign_records == other.foreign_records
            && other.rules.iter().all(|foreign| rules.any(|rule| rule == foreign))
    }
}

fn expect(holds: bool, what: &str) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(format!("expected that {what}")) }
}

fn served_by(harness: &Harness, host: &str) -> Option<String> {
    match harness.cloudflare.visit(host, "/") {
        Visit::Served { service, .. } => Some(service),
        _ => None,
    }
}

fn expect_served(harness: &Harness, host: &str) -> Result<(), Problem> {
    expect(served_by(harness, host).is_some(), &format!("a visitor of {host} reaches its service"))
}

fn position(harness: &Harness, hostname: &str) -> Result<usize, Problem> {
    harness
        .rules()
        .iter()
        .position(|rule| field(rule, "hostname") == hostname)
        .ok_or_else(|| format!("{hostname} has no rule"))
}

fn field(rule: &str, name: &str) -> String {
    let rule: Value = serde_json::from_str(rule).unwrap_or_default();
    rule.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn heading(title: &str) {
    println!("\n== {title}");
}

fn print_changes(Changes { create, update_old: _, update_new, delete }: &Changes) {
    println!("  ExternalDNS asks:");
    for (verb, endpoints) in [("create", create), ("update", update_new), ("delete", delete)] {
        for endpoint in endpoints {
            let service = endpoint.property("webhook/tunnel-service").unwrap_or_default();
            println!("    {verb} {:<20} {service}", endpoint.dns_name);
        }
    }
}

fn print_standing(harness: &Harness) {
    println!("  The tunnel's rules, first match wins:");
    for (number, rule) in harness.rules().iter().enumerate() {
        let hostname = field(rule, "hostname");
        let hostname = if hostname.is_empty() { "(everything else)" } else { &hostname };
        let options: Value = serde_json::from_str(rule).unwrap_or_default();
        let options = options.get("originRequest").map(Value::to_string).unwrap_or_default();
        println!("    {}. {hostname:<20} {:<28} {options}", number + 1, field(rule, "service"));
    }
    println!("  The zone's records:");
    for record in harness.cloudflare.records(&harness.zone) {
        let proxied = if record.proxied { "proxied" } else { "dns only" };
        let comment = record.comment.unwrap_or_default();
        println!("    {:<22} {:<5} {:<52} {proxied:<8} {comment}", record.name, record.kind, record.content);
    }
}

/// The calls, with names in place of ids.
fn print_calls(harness: &Harness, calls: &[Call]) {
    println!("  Calls of Cloudflare's API: {}", calls.len());
    let account = harness.cloudflare.account();
    for call in calls {
        let path = call
            .path
            .replace(&account, "shop")
            .replace(&harness.tunnel, "home")
            .replace(&harness.zone, "example.com");
        println!("    {:<4} {path}", call.method);
    }
}
