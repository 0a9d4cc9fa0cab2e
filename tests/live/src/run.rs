//! One run: it looks, creates, tries, and deletes what it created.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use external_dns_cloudflare_tunnel_webhook::reconcile::access::place;
use serde_json::{Value, json};

use crate::clean::{clean, places};
use crate::guard::{Bounds, RECORDS_MAX, host};
use crate::intents::leftovers;
use crate::probes::{Ground, QUESTIONS, probes};
use crate::proxy::{Proxy, Settings};
use crate::shape::{Shapes, shapes};
use crate::steps::{STEPS, Stage};

/// Records of a Free zone. Older zones may have more.
const QUOTA_FREE: usize = 200;

/// What became of a step or a probe.
#[derive(Clone, PartialEq)]
pub enum Outcome {
    /// With what was measured, if anything was.
    Passed(Option<u64>),
    Failed(String),
    NotTried(&'static str),
}

pub const PASSED: Outcome = Outcome::Passed(None);
pub const NO_POLICY: Outcome =
    Outcome::NotTried("no team, no policy that allows, or a foreign wildcard application");

/// What is there before anything is created.
pub struct Look {
    pub proxy: Proxy,
    pub owner: String,
    /// Name and id of a policy for the logins.
    pub policy: Option<[String; 2]>,
    pub comment_max: usize,
    /// What an operator should know before the run.
    pub notes: Vec<&'static str>,
}

pub struct Row {
    pub name: &'static str,
    pub outcome: Outcome,
    pub took: Duration,
}

/// What came of a run.
pub struct Report {
    /// Steps, then probes.
    pub rows: Vec<Row>,
    pub shapes: Shapes,
    pub calls: usize,
    /// Calls that the guard did not send.
    pub refused: Vec<String>,
    /// What could not be deleted.
    pub left: Vec<String>,
}

impl Report {
    pub fn is_good(&self) -> bool {
        let is_failure = |row: &Row| matches!(row.outcome, Outcome::Failed(_));
        !self.rows.iter().any(is_failure) && self.refused.is_empty() && self.left.is_empty()
    }
}

/// What panics is a failure with its text.
pub fn attempt<T>(tried: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(tried)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}

/// A proxy for the account and the zone, and what the API says of the zone.
pub fn connect(settings: &Settings, is_stopped: Arc<AtomicBool>) -> (Proxy, Value) {
    let Settings { account, domain, random, .. } = settings.clone();
    let (label, tag) = (format!("edctw-live-{random}"), place::tag(&format!("edctwlive{random}")));
    let bounds = Bounds { account, zone: String::new(), domain, label, tag };
    let proxy = Proxy::start(settings.clone(), bounds, is_stopped);
    let zones = proxy.list("/zones", 50);
    let zone = zones.into_iter().find(|zone| zone["name"] == *settings.domain);
    let zone = zone.expect("the token sees the zone");
    let is_fit = zone["account"]["id"] == *settings.account && zone["status"] == "active";
    assert!(is_fit, "the zone is not active, or belongs to another account");
    proxy.state().bounds.zone = zone["id"].as_str().unwrap_or_default().to_owned();
    (proxy, zone)
}

/// Reads what would answer before this run's names, and asks for each name as free.
pub fn look(settings: &Settings, is_stopped: Arc<AtomicBool>) -> Look {
    let (proxy, zone) = connect(settings, is_stopped);
    let bounds = proxy.state().bounds.clone();
    let [records, applications, tags, tunnels] = places(&bounds);
    let (mut notes, wildcard) = (Vec::new(), format!("*.{}", bounds.domain));
    let names = |list: &str, per_page: usize, member: &str| -> Vec<String> {
        let items = proxy.list(list, per_page);
        items.iter().filter_map(|item| item[member].as_str().map(str::to_owned)).collect()
    };
    let records = names(&records, 5000, "name");
    let plan = &zone["plan"]["legacy_id"];
    let is_free_plan = plan.is_null() || plan == "free";
    let has_room = !is_free_plan || records.len() + RECORDS_MAX <= QUOTA_FREE;
    assert!(has_room, "the zone has {} records, and may have room for no more", records.len());
    if records.contains(&wildcard) {
        notes.push("a foreign wildcard record answers for names that are not created yet or no longer");
    }
    let mut taken = [records, names(&format!("{tunnels}?is_deleted=false"), 1000, "name")].concat();
    let mut policy = None;
    let access = applications.trim_end_matches("/apps");
    let organization = proxy.call("GET", &format!("{access}/organizations"), &Value::Null);
    if organization.json["result"]["auth_domain"].is_string() {
        let places = names(&applications, 1000, "domain");
        let hosts: Vec<String> = places.iter().map(|place| host(place).to_owned()).collect();
        let policies = proxy.list(&format!("{access}/policies"), 1000);
        let same = |one: &Value| policies.iter().filter(|other| other["name"] == one["name"]).count();
        let fit = policies.iter().find(|one| one["decision"] == "allow" && same(one) == 1);
        let fit = fit.filter(|_| !hosts.contains(&wildcard));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        policy = fit.map(|one| [text(&one["name"]), text(&one["id"])]);
        taken.extend([hosts, names(&tags, 1000, "name")].concat());
    }
    let is_ours = |name: &String| bounds.owns_hostname(name) || bounds.owns_name(name) || *name == bounds.tag;
    assert!(!taken.iter().any(is_ours), "a name of this run is taken");
    if policy.is_none() {
        notes.push("no login is tried: no team, no policy that allows, or a foreign wildcard application");
    }
    proxy.state().known.is_free = true;
    let (owner, comment_max) =
        (format!("edctwlive{}", settings.random), if is_free_plan { 100 } else { 500 });
    Look { proxy, owner, policy, comment_max, notes }
}

/// The steps and the probes; at the end everything is deleted, also after a failure.
pub fn run(look: &Look, say: &dyn Fn(&Row)) -> Report {
    let mut rows = Vec::new();
    let tried = attempt(|| {
        let tunnels = [1, 2].map(|number| make_tunnel(look, number));
        let mut stage = Stage::start(look, tunnels);
        for (name, wanted) in STEPS {
            try_one(look, name, &mut rows, say, || stage.step(name, wanted));
        }
        drop(stage);
        probe(look, &mut rows, say);
    });
    if let Err(error) = tried {
        rows.push(Row { name: "start", outcome: Outcome::Failed(error), took: Duration::ZERO });
    }
    // What is deleted at the end depends on where the run ended, so it has no shapes.
    let shapes = shapes(&look.proxy.state());
    let mut leftovers = leftovers(&look.proxy.settings().intents);
    leftovers.retain(|event| event.run == look.proxy.state().bounds.run());
    let left = clean(&look.proxy, &leftovers, true);
    let state = look.proxy.state();
    Report { rows, shapes, calls: state.calls.len(), refused: state.refused.clone(), left }
}

/// The probes alone.
pub fn probe(look: &Look, rows: &mut Vec<Row>, say: &dyn Fn(&Row)) {
    let bounds = look.proxy.state().bounds.clone();
    let tunnel = make_tunnel(look, 3);
    let mut ground = Ground { look, proxy: &look.proxy, bounds, tunnel, question: "" };
    for (probe, ask) in probes().iter().zip(QUESTIONS) {
        ground.question = probe.name;
        try_one(look, probe.name, rows, say, || ask(&ground));
    }
}

#[allow(clippy::disallowed_methods, reason = "the report says how long each took")]
fn try_one(
    look: &Look,
    name: &'static str,
    rows: &mut Vec<Row>,
    say: &dyn Fn(&Row),
    tried: impl FnOnce() -> Outcome,
) {
    look.proxy.state().step = name;
    let begun = Instant::now();
    let row = Row { name, outcome: attempt(tried).unwrap_or_else(Outcome::Failed), took: begun.elapsed() };
    say(&row);
    rows.push(row);
}

fn make_tunnel(look: &Look, number: usize) -> String {
    let bounds = look.proxy.state().bounds.clone();
    let [_, _, _, tunnels] = places(&bounds);
    let answer =
        look.proxy.call("POST", &tunnels, &json!({"name": bounds.name(number), "config_src": "cloudflare"}));
    answer.succeeded().json["result"]["id"].as_str().expect("a tunnel has an id").to_owned()
}
