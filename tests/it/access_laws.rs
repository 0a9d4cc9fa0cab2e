//! The law of what is asked to be protected, over random histories: a place whose object asks for a login is never
//! reached without one once an application or a check of ours covers it, whatever other objects say, whatever fails,
//! wherever the program ends, however old everything is, and whatever is edited by hand. At rest a visitor with the
//! login is served.
//!
//! Its preconditions:
//!
//! - ExternalDNS sends the endpoint in the request: there is one endpoint for a hostname and path.
//! - With the namespace guard the opening endpoint is of the namespace of the place.
//! - An edit by hand that takes a lock off (the check of a rule, or an application or its policy), where no other one
//!   is
//!   left, begins the promise anew.
//! - A name that an application of a wildcard does not reach and that has none of its own is closed by a rule's check
//!   alone,
//!   which goes with the rule when its endpoint is deleted. A warning says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cloudflare_emulator::{Cloudflare, Fault, Matcher, Visit, Visitor};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use proptest::prelude::*;
use serde_json::{Value, json};
use test_support::harness::endpoint_of;

use crate::access_strangers::Stage;

/// The hostnames and paths of the endpoints, the wider ones first.
const PLACES: [(&str, &str); 6] = [
    (WIDEST, ""),
    ("*.w.example.com", ""),
    ("*.w.example.com", "/admin"),
    ("a.w.example.com", ""),
    ("a.w.example.com", "/admin"),
    (DEEP, ""),
];

const WIDEST: &str = "*.example.com";
const DEEP: &str = "a.b.w.example.com";

/// What visitors ask for, and the places that have it: the first of them that has an endpoint says how it is reached.
const URLS: [(&str, &[usize]); 5] = [
    ("https://a.w.example.com/", &[3, 1, 0]),
    ("https://a.w.example.com/admin", &[4, 3, 2, 1, 0]),
    ("https://z.w.example.com/", &[1, 0]),
    ("https://z.w.example.com/admin", &[2, 1, 0]),
    ("https://a.b.w.example.com/", &[5, 1, 0]),
];

/// ExternalDNS's own.
const MINUTE: Duration = Duration::from_secs(60);

/// A write that is refused or not kept waits for an hour at most.
const PAUSE_MAX: Duration = Duration::from_secs(3_700);

const LOOPS_TO_REST: usize = 12;

/// Longer than anything takes.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// What an object says of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// It has no endpoint.
    Withdrawn,
    Silent,
    Open,
    Login(&'static str),
    /// `staff`, beside an option with a mistake.
    Mistaken,
}

impl Edit {
    fn takes_a_lock(self) -> bool {
        matches!(self, Self::RuleUnlocked(_) | Self::ApplicationPolicy(..) | Self::ApplicationDeleted(_))
    }
}

impl Wish {
    fn asks_for_a_login(self) -> bool {
        matches!(self, Self::Login(_) | Self::Mistaken)
    }
}

/// A policy that is none.
const MISSPELLED: Wish = Wish::Login("staf");

#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// The n-th call of this kind fails so, such as `POST` and `500`.
    Fails(&'static str, usize, &'static str),
    /// The program ends right after its n-th write.
    EndsAfter(usize),
    /// The n-th answer of this kind of which the program can tell that it is old shows what was there so many writes
    /// ago.
    Old(&'static str, usize, usize),
}

/// An edit by hand of one of the records, rules or applications, by number.
#[derive(Clone, Copy, Debug)]
enum Edit {
    None,
    RecordDeleted(usize),
    MarkTakenOff(usize),
    RuleDeleted(usize),
    RuleUnlocked(usize),
    ApplicationPolicy(usize, &'static str),
    ApplicationDeleted(usize),
}

/// One loop: what is said from now on, the edit before it, what goes wrong in it, and the pause after it.
#[derive(Clone, Debug)]
struct Step {
    said: Vec<(usize, Wish)>,
    edit: Edit,
    trouble: Trouble,
    pause: Duration,
}

/// A world: whether the wildcard behind everything is foreign, and the namespace of the names below the wildcards where
/// the guard is on.
#[derive(Clone, Copy, Debug)]
struct World {
    is_widest_foreign: bool,
    guarded_namespace: Option<&'static str>,
}

fn any_wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        1 => Just(Wish::Withdrawn),
        1 => Just(Wish::Silent),
        3 => Just(Wish::Open),
        2 => Just(Wish::Login("staff")),
        2 => Just(Wish::Login("on-call")),
        1 => Just(MISSPELLED),
        1 => Just(Wish::Mistaken),
    ]
}

fn any_trouble() -> impl Strategy<Value = Trouble> {
    let call = prop::sample::select(vec!["POST", "POST", "PUT", "DELETE", "configuration", "batch"]);
    let fault = prop::sample::select(vec!["500", "403", "400", "no answer"]);
    let read = prop::sample::select(vec!["reading", "reading", "list", "applications", "application"]);
    let writes = prop::sample::select(vec![1, 1, 2, usize::MAX]);
    prop_oneof![
        3 => Just(Trouble::None),
        4 => (call, 1..3_usize, fault).prop_map(|(call, nth, fault)| Trouble::Fails(call, nth, fault)),
        2 => (1..6_usize).prop_map(Trouble::EndsAfter),
        3 => (read, 1..6_usize, writes).prop_map(|(read, nth, writes)| Trouble::Old(read, nth, writes)),
    ]
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let nth = || 0..5_usize;
    prop_oneof![
        8 => Just(Edit::None),
        1 => nth().prop_map(Edit::RecordDeleted),
        1 => nth().prop_map(Edit::MarkTakenOff),
        1 => nth().prop_map(Edit::RuleDeleted),
        1 => nth().prop_map(Edit::RuleUnlocked),
        1 => (nth(), prop::sample::select(vec!["on-call", "public"]))
            .prop_map(|(nth, policy)| Edit::ApplicationPolicy(nth, policy)),
        1 => nth().prop_map(Edit::ApplicationDeleted),
    ]
}

fn any_history() -> impl Strategy<Value = Vec<Step>> {
    let seconds = prop::sample::select(vec![60, 60, 660, 31_536_000]);
    let said = prop::collection::vec((0..PLACES.len(), any_wish()), 0..4);
    let step = (said, any_edit(), any_trouble(), seconds).prop_map(|(said, edit, trouble, seconds)| Step {
        said,
        edit,
        trouble,
        pause: Duration::from_secs(seconds),
    });
    prop::collection::vec(step, 1..6)
}

fn any_world() -> impl Strategy<Value = World> {
    let namespace = prop::sample::select(vec![None, None, Some("shop"), Some("bank")]);
    (any::<bool>(), namespace)
        .prop_map(|(is_widest_foreign, guarded_namespace)| World { is_widest_foreign, guarded_namespace })
}

/// One world at work.
struct Playing {
    world: World,
    stage: Option<Stage>,
    wishes: [Wish; 6],
    /// Which of `URLS` are promised, and were covered by an application or check of ours when a loop began.
    covered: [bool; 5],
    has_ended: Arc<AtomicBool>,
    /// How often the program was started anew: each time Cloudflare has another client.
    started: u64,
}

impl Playing {
    fn new(world: World) -> Self {
        let stage = Stage::new(&variables(world));
        stage.cloudflare().keep_past();
        if world.is_widest_foreign {
            let record = json!({"name": WIDEST, "type": "CNAME", "proxied": true,
                "content": format!("{}.cfargotunnel.com", stage.harness.tunnel)});
            stage.cloudflare().add_record(&stage.harness.zone, record).expect("Cloudflare takes it");
            let rules = json!({"ingress": [{"hostname": WIDEST, "service": "http://secret.theirs:80"},
                {"service": "http_status:404"}]});
            let tunnel = &stage.harness.tunnel;
            stage.cloudflare().put_configuration(tunnel, &rules.to_string()).expect("cloudflared takes it");
        }
        Self {
            world,
            stage: Some(stage),
            wishes: [Wish::Withdrawn; 6],
            covered: [false; 5],
            has_ended: Arc::default(),
            started: 0,
        }
    }

    fn stage(&self) -> &Stage {
        self.stage.as_ref().expect("it was started")
    }

    fn say(&mut self, said: &[(usize, Wish)]) {
        for (place, wish) in said {
            if *place > 0 || !self.world.is_widest_foreign {
                self.wishes[*place] = *wish;
            }
        }
    }

    /// An object for each place, so that no mistake is one of the object of another place.
    fn desired(&self) -> Vec<Endpoint> {
        let wanted = PLACES.iter().zip(self.wishes).enumerate();
        let wanted = wanted.filter(|(_, (_, wish))| *wish != Wish::Withdrawn);
        wanted
            .map(|(number, ((name, path), wish))| {
                let namespace = match self.world.guarded_namespace {
                    Some(namespace) if number > 2 => namespace,
                    _ => "shop",
                };
                let policy = match wish {
                    Wish::Withdrawn | Wish::Silent => "",
                    Wish::Open => "none",
                    Wish::Login(policy) => policy,
                    Wish::Mistaken => "staff",
                };
                let properties = [
                    ("tunnel-service", &*format!("http://secret.{namespace}.svc:80")),
                    ("tunnel-path-prefix", path),
                    ("access-policy", policy),
                    ("origin-connect-timeout", if wish == Wish::Mistaken { "soon" } else { "" }),
                ];
                endpoint_of(&format!("ingress/{namespace}/p{number}"), name, &properties)
            })
            .collect()
    }

    /// Where nothing answers after it, it is not known whether another lock is left.
    fn edit(&mut self, by_hand: Edit) {
        self.stage().cloudflare().edit(|cloudflare| edit(cloudflare, by_hand));
        self.covered = self.covered.map(|is_covered| is_covered && !by_hand.takes_a_lock());
    }

    /// One loop and the pause after it.
    fn run_loop(&mut self, trouble: Trouble, pause: Duration) -> Result<bool, String> {
        self.begin_promises();
        self.arm(trouble);
        let stage = self.stage();
        stage.cloudflare().take_calls();
        let answer = stage.run_loop(&self.desired());
        let has_written = stage.cloudflare().count_calls().writes > 0;
        stage.cloudflare().clear_faults();
        if !matches!(answer, Ok(_) | Err(500..=503)) {
            return Err(format!("a loop got {answer:?}, which ends ExternalDNS"));
        }
        if self.has_ended.swap(false, Ordering::Relaxed) {
            let stage = self.stage.take().expect("it was started");
            self.started += 1;
            stage.cloudflare().call_as(self.started);
            self.stage = Some(stage.restarted_with(&variables(self.world)));
        }
        self.stage().cloudflare().advance_clock(pause);
        self.stage().await_watch();
        self.keep_promises()?;
        Ok(has_written)
    }

    fn arm(&self, trouble: Trouble) {
        let cloudflare = self.stage().cloudflare();
        match trouble {
            Trouble::None => {}
            Trouble::Fails(call, nth, fault) => cloudflare.fault(matcher(call), nth, fault_of(fault)),
            Trouble::Old(read, nth, writes) => {
                cloudflare.fault(matcher(read), nth, Fault::known_old(writes));
            }
            Trouble::EndsAfter(nth) => {
                let has_ended = Arc::clone(&self.has_ended);
                cloudflare
                    .edit_before(Matcher::writes(), nth, move |_| has_ended.store(true, Ordering::Relaxed));
                cloudflare.fault(Matcher::writes(), nth, Fault::DoneButUnanswered);
                cloudflare.fault_for(Matcher::writes(), nth + 1, FOR_EVER, Fault::Reset);
            }
        }
    }

    /// The place whose object says how these visitors are served.
    fn deciding(&self, places: &[usize]) -> Option<usize> {
        places.iter().copied().find(|place| self.wishes[*place] != Wish::Withdrawn)
    }

    /// True if an object asks for a login of these visitors, and no precondition keeps the promise from it.
    fn is_promised(&self, places: &[usize]) -> bool {
        let Some(place) = self.deciding(places).filter(|place| self.wishes[*place].asks_for_a_login()) else {
            return false;
        };
        let mut wider = self.wishes.iter().take(3);
        if self.world.guarded_namespace == Some("bank") && place > 2 {
            return wider.all(|wish| wish.asks_for_a_login());
        }
        let has_application = self.stage().applications().iter().any(|one| one.name().starts_with(DEEP));
        let rules = self.stage().harness.rules().join("");
        let is_leaving = |place: usize| {
            self.wishes[place] == Wish::Withdrawn && rules.contains(&format!("\"{}\"", PLACES[place].0))
        };
        let is_widest_leaving = !self.world.is_widest_foreign && is_leaving(0);
        places[0] != 5 || has_application || !(is_widest_leaving || is_leaving(1))
    }

    fn begin_promises(&mut self) {
        let urls = URLS.map(|(url, _)| url);
        let cloudflare = self.stage().cloudflare();
        cloudflare.watch_as(&[Visitor::WithoutLogin, Visitor::Preflight], &urls);
        let now = cloudflare.watched();
        let gets = |url: &str, test: fn(&Visit) -> bool| {
            let mut of_url = now.iter().filter(|one| one.url == url).flat_map(|one| &one.changes);
            of_url.any(|change| change.got.iter().any(test))
        };
        let is_covered = |number: usize| {
            let (url, places) = URLS[number];
            let was_covered = self.covered[number] || gets(url, is_closed_by_us);
            // A name that a new record takes from a wildcard's record has no record at all (RFC 4592), and begins anew.
            let has_record = !gets(url, |visit| *visit == Visit::NoSuchName);
            self.is_promised(places) && was_covered && has_record && !gets(url, Visit::is_served)
        };
        // What covers a path of a place does not cover the place.
        let covered = [0, 1, 2, 3, 4]
            .map(|number| is_covered(number) && (!self.is_path_of_place(number) || is_covered(number - 1)));
        self.covered = covered;
    }

    fn is_path_of_place(&self, number: usize) -> bool {
        let (url, places) = URLS[number];
        url.ends_with("/admin") && self.deciding(places).is_some_and(|place| PLACES[place].1.is_empty())
    }

    fn keep_promises(&self) -> Result<(), String> {
        for watched in self.stage().cloudflare().watched() {
            let number = URLS.iter().position(|(url, _)| *url == watched.url).expect("it is watched");
            let mut visits = watched.changes.iter().flat_map(|change| &change.got);
            if self.covered[number] && visits.any(Visit::is_served) {
                return Err(format!("{:?}: it was covered: {watched}", self.wishes));
            }
        }
        Ok(())
    }

    fn run_to_rest(&mut self) -> Result<(), String> {
        for _ in 0..2 {
            let (mut idle, mut loops) = (0, 0);
            while idle < 2 {
                let has_written = self.run_loop(Trouble::None, 2 * MINUTE)?;
                idle = if has_written { 0 } else { idle + 1 };
                loops += 1;
                if loops > LOOPS_TO_REST {
                    return Err(format!("{:?}: no rest after {loops} loops", self.wishes));
                }
            }
            self.stage().cloudflare().advance_clock(PAUSE_MAX);
        }
        Ok(())
    }

    /// The visitors that have the login that an object asks for, and are not served.
    fn lost(&self) -> Vec<String> {
        let is_right = |wish: Wish| matches!(wish, Wish::Login("staff" | "on-call"));
        let visits = URLS.iter().enumerate().filter_map(|(number, (url, places))| {
            let place = self.deciding(places)?;
            let (host, path) = url.trim_start_matches("https://").split_once('/')?;
            // The application of a withdrawn name may stay in front of a wildcard's path, because something else is
            // open.
            let is_reached = PLACES[place].0 == host || (host == "z.w.example.com" && place > 0);
            let visit = self.stage().cloudflare().visit_as(Visitor::WithLogin, host, &format!("/{path}"));
            // A silent rule may rely on the application of a withdrawn path, which then stays in front of wider ones.
            let is_kept_out = self.is_path_of_place(number) && self.wishes.contains(&Wish::Silent);
            let is_lost = is_right(self.wishes[place]) && is_reached && !is_kept_out && !visit.is_served();
            is_lost.then(|| format!("{url}: {visit}"))
        });
        visits.collect()
    }
}

fn matcher(call: &str) -> Matcher {
    match call {
        "POST" => Matcher::create_application(),
        "PUT" => Matcher::put_application(),
        "DELETE" => Matcher::delete_application(),
        "batch" => Matcher::batch(),
        "reading" => Matcher::get_configuration(),
        "list" => Matcher::list_records(),
        "applications" => Matcher::list_applications(),
        "application" => Matcher::call("GET", "/accounts/*/access/apps/*"),
        _ => Matcher::put_configuration(),
    }
}

fn fault_of(text: &str) -> Fault {
    match text {
        "500" => Fault::status(500),
        "403" => Fault::error(403, 10000, "Authentication error"),
        "400" => Fault::error(400, 12130, "access.api.error.invalid_request: no"),
        _ => Fault::DoneButUnanswered,
    }
}

fn variables(world: World) -> Vec<(&'static str, &'static str)> {
    let mut variables = vec![("MASS_DELETION_LIMIT", "0")];
    if world.guarded_namespace.is_some() {
        variables.extend([("NAMESPACE_GUARD", "true"), ("ACCESS_POLICIES", "staff,on-call")]);
    }
    variables
}

/// No other application and no other check is there.
fn is_closed_by_us(visit: &Visit) -> bool {
    matches!(visit, Visit::TurnedAway { application: Some(_) } | Visit::Refused { .. })
}

fn edit(cloudflare: &mut Cloudflare, edit: Edit) {
    let zone = cloudflare.zones()[0].id.clone();
    let tunnel = cloudflare.tunnels()[0].id.clone();
    let record = |cloudflare: &Cloudflare, nth: usize| {
        let is_ours =
            |comment: &Option<String>| comment.as_deref().is_some_and(|text| text.contains("owner="));
        let mut ours = cloudflare.records(&zone).iter().filter(|record| is_ours(&record.comment));
        ours.nth(nth).map(|record| (record.id.clone(), record.comment.clone().unwrap_or_default()))
    };
    let change_rules = |cloudflare: &mut Cloudflare, change: &dyn Fn(&mut Vec<Value>)| {
        let Some(document) = cloudflare.configuration(&tunnel) else { return };
        let mut document: Value = serde_json::from_str(document.get()).expect("it is JSON");
        let is_last = |rule: &Value| rule.get("hostname").is_none();
        let Some(rules) = document["ingress"].as_array_mut() else { return };
        let is_foreign = |rule: &Value| rule["service"] == "http://secret.theirs:80" || is_last(rule);
        let (foreign, mut ours): (Vec<Value>, Vec<Value>) = rules.drain(..).partition(is_foreign);
        change(&mut ours);
        ours.extend(foreign);
        *rules = ours;
        cloudflare.put_configuration(&tunnel, &document.to_string()).expect("cloudflared takes it");
    };
    let application = |cloudflare: &Cloudflare, nth: usize| {
        cloudflare.applications().get(nth).map(|one| (one.id.clone(), one.fields.clone()))
    };
    match edit {
        Edit::None => {}
        Edit::RecordDeleted(nth) => {
            if let Some((id, _)) = record(cloudflare, nth) {
                cloudflare.delete_record(&zone, &id).expect("Cloudflare takes it");
            }
        }
        Edit::MarkTakenOff(nth) => {
            if let Some((id, comment)) = record(cloudflare, nth) {
                let comment = comment.replace("rules=!", "rules=");
                cloudflare
                    .patch_record(&zone, &id, &json!({"comment": comment}))
                    .expect("Cloudflare takes it");
            }
        }
        Edit::RuleDeleted(nth) => change_rules(cloudflare, &|rules| {
            if nth < rules.len() {
                rules.remove(nth);
            }
        }),
        Edit::RuleUnlocked(nth) => change_rules(cloudflare, &|rules| {
            if let Some(options) = rules.get_mut(nth).and_then(|rule| rule.get_mut("originRequest")) {
                options.as_object_mut().expect("an object").remove("access");
            }
        }),
        Edit::ApplicationPolicy(nth, policy) => {
            let id = cloudflare
                .policies()
                .iter()
                .find(|held| held.name == policy)
                .expect("it is there")
                .id
                .clone();
            if let Some((application, mut fields)) = application(cloudflare, nth) {
                fields.insert("policies".to_owned(), json!([id]));
                cloudflare
                    .put_application(&application, &Value::Object(fields))
                    .expect("Cloudflare takes it");
            }
        }
        Edit::ApplicationDeleted(nth) => {
            if let Some((id, _)) = application(cloudflare, nth) {
                cloudflare.delete_application(&id);
            }
        }
    }
}

/// Plays a history from `first` on.
fn play(world: World, first: &[(usize, Wish)], history: &[Step]) -> Result<(), String> {
    let mut playing = Playing::new(world);
    playing.say(first);
    playing.run_to_rest()?;
    for Step { said, edit: by_hand, trouble, pause } in history {
        playing.say(said);
        playing.edit(*by_hand);
        playing.run_loop(*trouble, *pause)?;
    }
    playing.run_to_rest()?;
    // The rule of a deleted record to which a wildcard's record leads is taken over with `ADOPT=all` alone.
    let is_whole = !history.iter().any(|step| matches!(step.edit, Edit::RecordDeleted(_)));
    let lost = if is_whole { playing.lost() } else { Vec::new() };
    if lost.is_empty() { Ok(()) } else { Err(format!("{:?}: {}", playing.wishes, lost.join("\n"))) }
}

/// The name below takes `z.w.example.com` from the wildcard's record, and an object opens what has no record then,
/// though the login of a path there is misspelled.
#[test]
fn a_name_that_a_neighbour_takes_from_a_wildcard_begins_without_a_login() {
    let world = World { is_widest_foreign: false, guarded_namespace: None };
    let step = |said: &[(usize, Wish)]| Step {
        said: said.to_vec(),
        edit: Edit::None,
        trouble: Trouble::None,
        pause: MINUTE,
    };
    let history = [step(&[(2, MISSPELLED)]), step(&[(1, Wish::Open), (3, Wish::Silent)])];
    play(world, &[(0, Wish::Login("staff"))], &history).expect("no promise is broken");
}

/// A case plays dozens of loops, and so takes as long as a hundred cases of a law of the pure core.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.div_ceil(2), ..config }
}

proptest! {
    #![proptest_config(config())]

    /// Invariants 8 and 9 of docs/how-it-works.md.
    #[test]
    fn what_asks_for_a_login_is_never_reached_without_one_once_it_was_covered(
        world in any_world(),
        first in prop::collection::vec((0..PLACES.len(), any_wish()), 1..5),
        history in any_history(),
    ) {
        let played = play(world, &first, &history);
        played.map_err(|problem| TestCaseError::fail(format!("{problem}\n{world:?} {first:?} {history:?}")))?;
    }
}
