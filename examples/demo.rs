//! What annotations do, step by step: the program and an emulator of Cloudflare in one process, driven as ExternalDNS
//! drives the program.
//!
//! ```text
//! cargo run --example demo
//! ```
//!
//! Nothing has to be configured, and no network is needed. Each step prints the annotations that change and what
//! changes at Cloudflare, `+` for what comes and `-` for what goes. The demo fails where something else changes than it
//! says.

use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cloudflare_emulator::{Token, Visit, Visitor as AccessVisitor};
use external_dns_cloudflare_tunnel_webhook::logging::{self, Format};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use log::LevelFilter;
use serde_json::{Value, json};
use test_support::clock::eventually;
use test_support::external_dns::Changes;
use test_support::harness::{Harness, Program, TOKEN, endpoint_of};

const PREFIX: &str = "external-dns.kubernetes.io/";

/// How long a configuration takes to where the visitors are.
const EDGE_DELAY: Duration = Duration::from_millis(100);

/// Between two visits.
const VISIT_PAUSE: Duration = Duration::from_micros(100);

/// Visits after the change is there.
const LAST_VISITS: usize = 100;

/// The age at which an Access application goes by itself once no rule answers for its place.
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
    println!("The webhook, an emulator of Cloudflare and ExternalDNS's requests run in this process.");
    println!("Nothing leaves it, and no account is needed.");
    let harness = Harness::new();
    harness.add_foreign();
    harness.cloudflare.edit(|cloudflare| {
        cloudflare.set_up_access("shop");
        let staff = json!({"name": "staff", "decision": "allow", "include": [{"email_domain": {"domain": "example.com"}}]});
        cloudflare.add_policy(&staff).expect("Cloudflare takes it");
        *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
    });
    let before = Standing::of(&harness);

    // A refusal is a line of the log: here between the steps, in a cluster on the container's standard error.
    logging::start(LevelFilter::Warn, Format::Text);
    let program = harness.start();
    let mut demo = Demo { harness: &harness, program: &program, before: &before, objects: Vec::new() };
    publish(&mut demo)?;
    change(&mut demo)?;
    withdraw(&mut demo)
}

/// Three hostnames are published.
fn publish(demo: &mut Demo<'_>) -> Result<(), Problem> {
    let shop = Object::new("shop", &[("target", "http://shop.shop.svc:80")]);
    demo.step("An Ingress for shop.example.com gets an annotation", |objects| objects.push(shop))?;
    demo.expect_served("shop.example.com", "http://shop.shop.svc:80")?;
    demo.settles()?;

    let api = Object::new(
        "api",
        &[("target", "http://api.shop.svc:8080"), ("webhook-origin-connect-timeout", "1m")],
    );
    let admin =
        Object::new("admin", &[("target", "http://admin.shop.svc:80"), ("webhook-access-policy", "staff")]);
    demo.step("Two more Ingresses: one has an option of cloudflared, one has a login", |objects| {
        objects.extend([api, admin]);
    })?;
    demo.expect_served("api.example.com", "http://api.shop.svc:8080")?;
    demo.expect_protected()?;
    let wild = demo.position("*.example.com")?;
    for name in ["shop.example.com", "api.example.com", "admin.example.com"] {
        expect(demo.position(name)? < wild, "a rule stands before the hand-made wildcard that covers it")?;
    }
    demo.settles()
}

/// A service moves, an annotation has a mistake, and an annotation is lost.
fn change(demo: &mut Demo<'_>) -> Result<(), Problem> {
    let (harness, host) = (demo.harness, "shop.example.com");
    let visits = Visitor { harness, host }.during(|| {
        demo.step("The service of shop.example.com moves to another port", |objects| {
            set(objects, "shop", "target", Some("http://shop.shop.svc:9000"));
        })
    })?;
    visits.print(host);
    expect(visits.lost == 0 && visits.before > 0 && visits.after > 0, "every visit is served all the while")?;
    demo.expect_served(host, "http://shop.shop.svc:9000")?;
    demo.settles()?;

    demo.step("An annotation has a mistake: the hostname stays as it is published", |objects| {
        set(objects, "api", "webhook-origin-connect-timeout", Some("1 minute"));
    })?;
    demo.expect_served("api.example.com", "http://api.shop.svc:8080")?;

    demo.step("The annotation of the login is lost: the login stays", |objects| {
        set(objects, "admin", "webhook-access-policy", None);
    })?;
    demo.expect_protected()
}

/// All objects are deleted.
fn withdraw(demo: &mut Demo<'_>) -> Result<(), Problem> {
    demo.step("The three Ingresses are deleted", Vec::clear)?;
    let left = Standing::of(demo.harness);
    demo.harness.cloudflare.advance_clock(APPLICATION_AGE);
    for _ in 0..2 {
        demo.run_loop()?;
    }
    eventually("its deletion", || demo.harness.cloudflare.applications().is_empty());
    println!("  Ten minutes later:");
    let after = Standing::of(demo.harness);
    after.print_changes_from(&left);
    demo.settles()?;

    heading("What was made by hand is as it was, to the byte");
    print_lines(' ', &after.lines());
    expect(after == *demo.before, "nothing else is left")
}

/// An Ingress for one hostname.
#[derive(Clone)]
struct Object {
    name: &'static str,
    annotations: Vec<(&'static str, &'static str)>,
}

impl Object {
    fn new(name: &'static str, annotations: &[(&'static str, &'static str)]) -> Self {
        Self { name, annotations: annotations.to_vec() }
    }

    /// What ExternalDNS makes of it.
    fn endpoint(&self) -> Endpoint {
        let properties: Vec<(&str, &str)> = self
            .annotations
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("webhook-")?, *value)))
            .collect();
        let target = self.annotations.iter().find(|(name, _)| *name == "target");
        let object = format!("ingress/shop/{}", self.name);
        Endpoint {
            record_type: "CNAME".to_owned(),
            targets: target.iter().map(|(_, value)| (*value).to_owned()).collect(),
            ..endpoint_of(&object, &format!("{}.example.com", self.name), &properties)
        }
    }

    fn lines(&self) -> Vec<String> {
        let line = |(name, value): &(_, _)| format!("ingress/shop/{:<5} {PREFIX}{name}: {value}", self.name);
        self.annotations.iter().map(line).collect()
    }
}

/// Sets an annotation of an object, or takes it off.
fn set(objects: &mut [Object], object: &str, name: &'static str, value: Option<&'static str>) {
    for object in objects.iter_mut().filter(|each| each.name == object) {
        object.annotations.retain(|(other, _)| *other != name);
        object.annotations.extend(value.map(|value| (name, value)));
    }
}

fn lines_of(objects: &[Object]) -> Vec<String> {
    objects.iter().flat_map(Object::lines).collect()
}

/// The cluster's objects, and what Cloudflare had before them.
struct Demo<'a> {
    harness: &'a Harness,
    program: &'a Program,
    before: &'a Standing,
    objects: Vec<Object>,
}

impl Demo<'_> {
    /// A change of the objects, the loop of ExternalDNS after it, and what that changes at Cloudflare.
    fn step(&mut self, title: &str, change: impl FnOnce(&mut Vec<Object>)) -> Result<(), Problem> {
        heading(title);
        let (objects, standing) = (self.objects.clone(), Standing::of(self.harness));
        change(&mut self.objects);
        print_difference(&lines_of(&objects), &lines_of(&self.objects));
        println!();
        let mut answer = self.run_loop();
        if answer.is_err() {
            // What is protected comes in a second loop, after its application.
            println!("  The webhook answers 503, so ExternalDNS asks again.");
            answer = self.run_loop();
        }
        answer?;
        let after = Standing::of(self.harness);
        after.print_changes_from(&standing);
        expect(
            after.keeps(self.before),
            "every rule and record that was made by hand is there, in its order, to the byte",
        )
    }

    fn run_loop(&self) -> Result<Changes, Problem> {
        let desired: Vec<Endpoint> = self.objects.iter().map(Object::endpoint).collect();
        let answer = self.program.external_dns().run_loop(&desired);
        answer.map_err(|status| format!("the webhook answered {status}"))
    }

    /// A further loop must write nothing.
    fn settles(&self) -> Result<(), Problem> {
        self.harness.cloudflare.take_calls();
        let changes = self.run_loop()?;
        let calls = self.harness.cloudflare.take_calls();
        let writes = calls.iter().filter(|call| call.is_write()).count();
        println!("  A further loop: {} calls, {writes} writes.", calls.len());
        expect(changes == Changes::default(), "ExternalDNS has nothing more to ask for")?;
        expect(writes == 0, "a further loop writes nothing")
    }

    fn expect_served(&self, host: &str, service: &str) -> Result<(), Problem> {
        let seen = self.harness.service_at(host, "/");
        expect(seen == service, &format!("a visitor of {host} reaches {service} and not {seen}"))
    }

    /// A visitor of admin.example.com needs a login.
    fn expect_protected(&self) -> Result<(), Problem> {
        let visit_as = |visitor| self.harness.cloudflare.visit_as(visitor, "admin.example.com", "/");
        expect(
            matches!(visit_as(AccessVisitor::WithoutLogin), Visit::TurnedAway { .. }),
            "the Access application turns a visitor without a login away",
        )?;
        expect(
            matches!(visit_as(AccessVisitor::WithLogin), Visit::Served { .. }),
            "a visitor with a login is served",
        )?;
        println!("  A visitor of admin.example.com without a login is turned away.");
        Ok(())
    }

    fn position(&self, hostname: &str) -> Result<usize, Problem> {
        let position = self.harness.rules().iter().position(|rule| field(rule, "hostname") == hostname);
        position.ok_or_else(|| format!("{hostname} has no rule"))
    }
}

/// A visitor that asks for a hostname again and again.
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
            "  Visits of {host} meanwhile: {before} to the old service, {after} to the new one, {lost} lost."
        );
    }
}

/// What stands at Cloudflare.
#[derive(PartialEq)]
struct Standing {
    rules: Vec<String>,
    foreign_records: Vec<String>,
    records: Vec<String>,
    applications: Vec<String>,
}

impl Standing {
    fn of(harness: &Harness) -> Self {
        let cloudflare = &harness.cloudflare;
        let records = cloudflare.records(&harness.zone).into_iter().map(|record| {
            let content = record.content.replace(&harness.tunnel, &shortened(&harness.tunnel));
            let line = format!("record  {:<22} {:<5} {content}", record.name, record.kind);
            format!("{line}  {}", record.comment.unwrap_or_default()).trim_end().to_owned()
        });
        let applications = cloudflare.applications().into_iter().map(|application| {
            let name = application.fields.get("domain").and_then(Value::as_str).unwrap_or_default();
            format!("login   {name:<22} Access application {}", shortened(&application.id))
        });
        Self {
            rules: harness.rules(),
            foreign_records: harness.foreign_records(),
            records: records.collect(),
            applications: applications.collect(),
        }
    }

    fn lines(&self) -> Vec<String> {
        let rules = self.rules.iter().map(|rule| rule_line(rule));
        rules.chain(self.records.iter().cloned()).chain(self.applications.iter().cloned()).collect()
    }

    fn print_changes_from(&self, before: &Self) {
        if self == before {
            println!("  Nothing changes at Cloudflare.");
        }
        print_difference(&before.lines(), &self.lines());
    }

    /// Whether every foreign rule and record of `other` is here, in the same order.
    fn keeps(&self, other: &Self) -> bool {
        let mut rules = self.rules.iter();
        self.foreign_records == other.foreign_records
            && other.rules.iter().all(|foreign| rules.any(|rule| rule == foreign))
    }
}

fn rule_line(rule: &str) -> String {
    let hostname = field(rule, "hostname");
    let hostname = if hostname.is_empty() { "(everything else)" } else { &hostname };
    let mut rule_fields: Value = serde_json::from_str(rule).unwrap_or_default();
    if let Some(Value::String(audience)) = rule_fields.pointer_mut("/originRequest/access/audTag/0") {
        *audience = shortened(audience);
    }
    let options = rule_fields.get("originRequest").map(Value::to_string).unwrap_or_default();
    format!("rule    {hostname:<22} {:<24} {options}", field(rule, "service")).trim_end().to_owned()
}

/// The first characters of an id.
fn shortened(id: &str) -> String {
    id.chars().take(8).chain(['…']).collect()
}

/// The lines that went, then those that came.
fn print_difference(before: &[String], after: &[String]) {
    let without = |lines: &[String], others: &[String]| -> Vec<String> {
        lines.iter().filter(|line| !others.contains(line)).cloned().collect()
    };
    print_lines('-', &without(before, after));
    print_lines('+', &without(after, before));
}

fn print_lines(sign: char, lines: &[String]) {
    for line in lines {
        println!("  {sign} {line}");
    }
}

fn expect(holds: bool, what: &str) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(format!("expected that {what}")) }
}

fn field(rule: &str, name: &str) -> String {
    let rule: Value = serde_json::from_str(rule).unwrap_or_default();
    rule.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn heading(title: &str) {
    println!("\n== {title}");
}
