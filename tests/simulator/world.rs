//! An account at Cloudflare, a cluster, ExternalDNS and the program, and what happens to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloudflare_emulator::ingress::Rule;
use cloudflare_emulator::{Call, Emulator, Fault, Matcher, Refusal, RuleText, Time};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};
use test_support::external_dns::{AppliedRecords, Registry, SyncPolicy};
use test_support::harness::{Harness, TOKEN, published};

use crate::account;
use crate::claims::Claims;
use crate::controller::{Controller, Failure};
use crate::coverage::Coverage;
use crate::excuses::has_to_be_served;
use crate::faults::{DELAY_MAX, Trouble};
use crate::foreign::{self, Foreign};
use crate::instance::Instance;
use crate::invariants::{self, Violation};
use crate::lag;
use crate::mend;
use crate::objects::{self, CONTESTED, HOSTS, ON_CALL, Object};
use crate::outages::{self, InVain, Outages};
use crate::random::Random;
use crate::rest;
use crate::settings::Settings;
use crate::steps::{Disliked, Loop, Overlap, Step};
use crate::strangers::{FOREIGN_URLS, OTHER_HOST, OTHER_SERVICE, OTHER_TUNNEL, OTHER_URL, OTHER_WISH};
use crate::touched::{Place, Touched};
use crate::trace::Trace;
use crate::unkind;

/// ExternalDNS's own.
pub(crate) const INTERVAL: Duration = Duration::from_secs(60);

/// The program's default, by which every answer is on its way.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(12);

/// Longer than any way to the edge.
const EDGE_MAX: Duration = Duration::from_secs(1);

/// What the policy that objects name beside another one is called while it is gone.
const RENAMED: &str = "renamed";

/// The watch over tunnels gets its turn so often.
const WATCH_PERIOD: Duration = Duration::from_secs(5);

/// By which Cloudflare knows the program of the other owner.
const OTHER_CLIENT: u64 = 1_000_000;

/// So many writes of one loop are looked after.
const WATCHED_WRITES: usize = 40;

/// What of the objects ExternalDNS's source shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Everything,
    Nothing,
    /// All of them at other hostnames.
    Renamed,
}

pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) harness: Harness,
    /// The program, and for some time a second one of the same settings, as while a Deployment is rolled out.
    replicas: Vec<Instance>,
    /// How many there were.
    started: u64,
    /// One with another `OWNER_ID`, from its first loop on.
    other: Option<Instance>,
    pub(crate) foreign: Arc<Mutex<Foreign>>,
    /// What was seen right after a write.
    seen: Arc<Mutex<Vec<String>>>,
    /// The most names of ours that came to have no service and were seen at once in a loop.
    led_in_vain: Arc<Mutex<BTreeSet<InVain>>>,
    /// What ExternalDNS goes by under `--registry=crd`, whichever replica it asks.
    applied: AppliedRecords,
    /// What the cluster has.
    all: Vec<Object>,
    /// What ExternalDNS shows of it.
    pub(crate) objects: Vec<Object>,
    pub(crate) source: Source,
    /// What is not the program's doing, until the next rest.
    touched: Touched,
    /// What was so once, or was refused: who goes by what was answered never learns of it.
    drifted: BTreeSet<&'static str>,
    /// The hostnames that ExternalDNS's last request names.
    named: BTreeSet<String>,
    pub(crate) claims: Claims,
    pub(crate) disliked: Vec<(&'static str, Disliked)>,
    pub(crate) outages: Outages,
    /// A place failed for some loops since the last rest.
    pub(crate) had_outage: bool,
    /// Cloudflare refused some call since the last rest, and so may not be asked for the same again.
    pub(crate) had_refusal: bool,
    /// Cloudflare answers every call with 429 so long, however many loops that takes.
    limited_until: Duration,
    /// One of the policies that objects name is gone.
    pub(crate) lacks_policy: bool,
    pub(crate) trace: Trace,
    pub(crate) loops: usize,
    pub(crate) coverage: Coverage,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let harness = Harness::without_tunnel();
        let cloudflare = &harness.cloudflare;
        cloudflare.stop_clock();
        account::set_up(cloudflare, &settings);
        cloudflare.keep_past();
        let foreign = cloudflare.edit(|cloudflare| Foreign::of(cloudflare, &settings));
        let mut world = Self {
            settings,
            harness,
            replicas: Vec::new(),
            started: 0,
            other: None,
            foreign: Arc::new(Mutex::new(foreign)),
            seen: Arc::default(),
            led_in_vain: Arc::default(),
            applied: AppliedRecords::default(),
            all: Vec::new(),
            objects: Vec::new(),
            source: Source::Everything,
            touched: Touched::default(),
            drifted: BTreeSet::new(),
            named: BTreeSet::new(),
            claims: Claims::default(),
            disliked: Vec::new(),
            outages: Outages::default(),
            had_outage: false,
            had_refusal: false,
            limited_until: Duration::ZERO,
            lacks_policy: false,
            trace: Trace::default(),
            loops: 0,
            coverage: Coverage::default(),
        };
        if world.settings.is_wildcard_elsewhere {
            world.coverage.try_it("a wildcard record that leads elsewhere");
        }
        world.add_replica();
        world
    }

    pub(crate) fn cloudflare(&self) -> &Emulator {
        &self.harness.cloudflare
    }

    fn time(&self) -> Time {
        self.cloudflare().time()
    }

    pub(crate) fn foreign(&self) -> MutexGuard<'_, Foreign> {
        self.foreign.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one step happen.
    pub(crate) fn run(&mut self, step: &Step) -> Result<(), Violation> {
        self.trace.note(format!("{step:?}"));
        match step {
            Step::Put(object) => self.put(object.clone()),
            Step::Edit { which, edit } => {
                if let Some(object) = self.nth_object(*which) {
                    self.put(object.edited(*edit, &self.settings));
                }
            }
            Step::Mistype { which, seed } => {
                if let Some(mut object) = self.nth_object(*which) {
                    object.mistype(&mut Random::new(*seed), &self.settings);
                    self.put(object);
                }
            }
            Step::Mend => self.mend(),
            Step::Remove { which } => {
                if let Some(object) = self.nth_object(*which) {
                    self.all.retain(|other| other.resource() != object.resource());
                    self.show();
                }
            }
            Step::Blank(is_blank) => {
                self.source = if *is_blank { Source::Nothing } else { Source::Everything };
            }
            Step::Stranger(stranger) => {
                if stranger.is_between() {
                    self.coverage.try_it("a rule by hand between ours");
                }
                let foreign = Arc::clone(&self.foreign);
                let mut foreign = foreign.lock().unwrap_or_else(PoisonError::into_inner);
                self.cloudflare().edit(|cloudflare| stranger.act(cloudflare, &mut foreign));
                self.touch(&foreign.take_touched());
                // What visitors of theirs get in the next loop is then not their own doing.
                self.cloudflare().advance_clock(EDGE_MAX);
            }
            Step::Wait { seconds } => self.pass(Duration::from_secs(*seconds))?,
            Step::Age { seconds } => {
                let skipped = seconds.saturating_sub(INTERVAL.as_secs());
                self.coverage.try_it(unkind::label_of_age(*seconds));
                self.cloudflare().advance_clock(Duration::from_secs(skipped));
                self.pass(Duration::from_secs(seconds - skipped))?;
            }
            Step::Restart => self.restart(),
            Step::Replica(is_there) => {
                self.replicas.truncate(1);
                if *is_there {
                    self.add_replica();
                }
            }
            Step::Other => {
                self.run_other()?;
            }
            Step::Sight { zone, is_seen } => self.set_sight(zone, *is_seen),
            Step::Status { zone, status } => {
                self.touch_place(Place::Zone(zone));
                self.cloudflare()
                    .edit(|cloudflare| (*status).clone_into(&mut cloudflare.zone_mut(zone).status));
            }
            Step::Connectors { tunnel, count } => {
                self.touch_place(Place::Tunnel(tunnel));
                self.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut(tunnel).connectors = *count);
            }
            Step::Tunnel { is_there } => self.set_office(*is_there),
            Step::Policy { is_there } => self.set_policy(*is_there),
            Step::Dislike { host, what } => self.dislike(host, *what),
            Step::Like => {
                self.disliked.clear();
                self.cloudflare().edit(|cloudflare| cloudflare.whims_mut().like_all());
            }
            Step::Outage(outage) => {
                self.had_outage = true;
                if outage.is_unwritable() {
                    self.coverage.try_it("a tunnel that cannot be written");
                }
                self.outages.begin(*outage);
            }
            Step::OutageOver => self.outages.end(),
            Step::Loop(one) => {
                self.run_loop(one, true)?;
                self.pass(self.settings.interval)?;
            }
            Step::Rest => rest::run(self)?,
        }
        Ok(())
    }

    /// The object comes, or another form of it.
    fn put(&mut self, object: Object) {
        self.all.retain(|other| other.resource() != object.resource());
        let twin = object.twin();
        self.all.extend([object].into_iter().chain(twin));
        self.show();
    }

    /// Of objects that ExternalDNS merges it shows one, here the newest.
    fn show(&mut self) {
        let mut shown: Vec<Object> = Vec::new();
        for object in self.all.iter().rev() {
            if !shown.iter().any(|other| other.is_merged_with(object)) {
                shown.push(object.clone());
            }
        }
        shown.reverse();
        self.objects = shown;
    }

    /// The hostnames of the objects that ExternalDNS does not show, as it shows others in their place.
    pub(crate) fn hidden(&self) -> Vec<&'static str> {
        let hidden = self.all.iter().filter(|object| !self.objects.contains(object));
        hidden.map(|object| object.host).collect()
    }

    /// The objects become as the log asks for them.
    fn mend(&mut self) {
        self.all = mend::mended(&self.all, &self.settings, &self.claims);
        self.show();
    }

    pub(crate) fn shows_all(&self) -> bool {
        self.source == Source::Everything
    }

    fn nth_object(&self, which: usize) -> Option<Object> {
        let count = self.all.len();
        (count > 0).then(|| self.all[which % count].clone())
    }

    fn touch(&mut self, touched: &Touched) {
        self.touched.extend(touched);
        self.drift(touched);
    }

    fn drift(&mut self, touched: &Touched) {
        let is_drifting = |host: &&str| touched.has(host, &self.claims, &self.settings);
        self.drifted.extend(HOSTS.into_iter().chain(CONTESTED).filter(is_drifting));
    }

    fn touch_place(&mut self, place: Place) {
        self.touch(&Touched::of(place));
    }

    /// Whether somebody else may have changed what visitors of the hostname get, since the last rest.
    pub(crate) fn is_touched(&self, host: &str) -> bool {
        self.touched.has(host, &self.claims, &self.settings)
    }

    /// Whether the hostname's zone was hidden, or ceased to be delegated, or came back, since the last rest. The program
    /// learns of that in its own time.
    pub(crate) fn has_other_zone(&self, host: &str) -> bool {
        self.touched.has_zone_of(host)
    }

    /// Whether what was answered of the hostname may not be so any more.
    pub(crate) fn has_drifted(&self, host: &str) -> bool {
        self.drifted.contains(host)
    }

    /// Whether the registry goes by what is there, or was answered that the hostname, or its path, is.
    pub(crate) fn is_answered(&self, host: &str, path: Option<&str>) -> bool {
        let is_it =
            |one: &Endpoint| one.dns_name == host && path.is_none_or(|path| one.set_identifier == path);
        self.settings.sees_drift() || self.applied.current().iter().any(is_it)
    }

    /// What is as it was answered again.
    pub(crate) fn forget_drifted(&mut self, is_over: impl Fn(&Self, &str) -> bool) {
        let mut drifted = std::mem::take(&mut self.drifted);
        drifted.retain(|host| !is_over(self, host));
        self.drifted = drifted;
    }

    /// Whether Cloudflare refuses something that the object may need. A hostname that moves needs all of its rules.
    pub(crate) fn is_disliked(&self, object: &Object) -> bool {
        let has_path = || object.rules().any(|(path, _)| path.is_some());
        let has_moved = || self.claims.history(object.host).tunnels.len() > 1;
        self.disliked.iter().any(|(host, what)| {
            *host == object.host && (*what != Disliked::Paths || has_path() || has_moved())
        })
    }

    /// What others did is over.
    pub(crate) fn forget_touched(&mut self) {
        self.touched = Touched::default();
        self.claims.settle_wildcard();
        self.had_outage = false;
        self.had_refusal = false;
    }

    /// What is gone comes anew.
    pub(crate) fn forget_gone(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.claims.forget_gone(&is_gone);
        self.drifted.retain(|host| !is_gone(host));
    }

    fn set_sight(&mut self, zone: &'static str, is_seen: bool) {
        self.touch_place(Place::Zone(zone));
        self.cloudflare().edit(|cloudflare| {
            let id = cloudflare.zone(zone).id.clone();
            let all: Vec<String> = cloudflare.zones().iter().map(|zone| zone.id.clone()).collect();
            let token = cloudflare.token_mut(TOKEN);
            let mut seen = token.zones.clone().unwrap_or(all);
            seen.retain(|other| *other != id);
            seen.extend(is_seen.then_some(id));
            token.zones = Some(seen);
        });
    }

    fn set_office(&mut self, is_there: bool) {
        let foreign = Arc::clone(&self.foreign);
        let mut foreign = foreign.lock().unwrap_or_else(PoisonError::into_inner);
        let is_changed = self
            .harness
            .cloudflare
            .edit(|cloudflare| account::set_office(cloudflare, &mut foreign, &self.settings, is_there));
        drop(foreign);
        if is_changed {
            self.touch_place(Place::Tunnel(account::OFFICE));
            self.cloudflare().advance_clock(EDGE_MAX);
        }
    }

    /// Whether each tunnel that is configured is there.
    pub(crate) fn has_all_tunnels(&self) -> bool {
        self.cloudflare().edit(|cloudflare| {
            let is_there =
                |name: &str| cloudflare.tunnels().iter().any(|tunnel| tunnel.name == name && !tunnel.deleted);
            self.settings.tunnels.split(',').all(is_there)
        })
    }

    /// A policy with another name is as good as gone, and may be in use.
    fn set_policy(&mut self, is_there: bool) {
        self.lacks_policy = !is_there;
        self.cloudflare().edit(|cloudflare| {
            let mut policies = cloudflare.policies().iter();
            let Some(id) = policies.find(|policy| [ON_CALL, RENAMED].contains(&&*policy.name)) else {
                return;
            };
            let id = id.id.clone();
            let name = if is_there { ON_CALL } else { RENAMED };
            name.clone_into(&mut cloudflare.policy_mut(&id).name);
        });
    }

    fn dislike(&mut self, host: &'static str, what: Disliked) {
        self.disliked.push((host, what));
        self.drift(&Touched::of(Place::Host(host.to_owned())));
        self.cloudflare().edit(|cloudflare| {
            let is_meant = match what {
                Disliked::Record => {
                    let refusal = Refusal::new(400, 9000, "DNS name is not liked");
                    return cloudflare.whims_mut().dislike_name(host, refusal);
                }
                Disliked::Rules => |_: &Rule| true,
                Disliked::Paths => |rule: &Rule| !rule.path.is_empty(),
            };
            // What stands was taken, and Cloudflare does not change its mind over it.
            let tunnels = cloudflare.tunnels().iter().map(|tunnel| foreign::document(cloudflare, &tunnel.id));
            let standing: Vec<String> = tunnels.flat_map(|document| document.rules).collect();
            let is_disliked = move |rule: &Rule| {
                rule.hostname == host && is_meant(rule) && !standing.iter().any(|text| text == rule.raw.get())
            };
            cloudflare.whims_mut().dislike_rule(RuleText::Unnamed, is_disliked);
        });
    }

    /// Everything that goes wrong ends.
    pub(crate) fn calm(&mut self) {
        self.replicas.truncate(1);
        self.source = Source::Everything;
        self.cloudflare().clear_faults();
        self.outages.end();
        self.limited_until = Duration::ZERO;
        self.set_office(true);
        self.set_policy(true);
        let connectors = self.settings.connectors();
        self.cloudflare().edit(|cloudflare| {
            cloudflare.token_mut(TOKEN).zones = None;
            "active".clone_into(&mut cloudflare.zone_mut("inner.example.com").status);
            for tunnel in ["home", "office"] {
                cloudflare.tunnel_mut(tunnel).connectors = connectors;
            }
        });
    }

    /// Plays one loop of ExternalDNS. `is_shuffled`: what the cluster asks for comes in an order by its seed.
    pub(crate) fn run_loop(&mut self, one: &Loop, is_shuffled: bool) -> Result<usize, Violation> {
        self.loops += 1;
        let desired = match self.source {
            Source::Everything => self.objects.clone(),
            Source::Nothing => Vec::new(),
            Source::Renamed => objects::renamed(&self.objects),
        };
        let is_refused = one.troubles.iter().any(Trouble::is_refusal);
        self.had_refusal |= is_refused;
        // Whoever takes a record of ours away meanwhile leaves fewer to go at once.
        if self.shows_all() || !one.intruders.is_empty() || !invariants::is_withheld(self) {
            self.claims.ask(&desired);
            self.hidden().into_iter().for_each(|host| self.claims.note_rival(host));
        }
        for object in desired.iter().filter(|object| object.is_secret()) {
            let slots = object.rules().map(|(path, _)| (object.host, path));
            slots.for_each(|slot| self.foreign().ask_login(slot));
        }
        if !self.settings.sees_drift() {
            self.note_refused(&desired, one);
        }
        let inner = one.overlap.and_then(|overlap| self.arm_overlap(overlap, one.replica, &desired));
        self.arm(one);
        self.outages.arm(self.cloudflare());
        self.arm_limit();
        let urls = invariants::urls();
        let urls: Vec<&str> =
            urls.iter().map(String::as_str).chain(FOREIGN_URLS).chain([OTHER_URL]).collect();
        self.cloudflare().watch_as(&invariants::VISITORS, &urls);
        self.cloudflare().take_calls();

        let mut random = Random::new(if is_shuffled { one.seed } else { 0 });
        let mut endpoints = objects::endpoints(&desired, &mut random);
        if !is_shuffled && one.seed % 2 == 1 {
            let reversed: Vec<Object> = desired.iter().rev().cloned().collect();
            endpoints = objects::endpoints(&reversed, &mut random);
        }
        let controller = self.controller(one.replica);
        self.cloudflare().call_as(self.replicas[one.replica % self.replicas.len()].client);
        let ends = one.is_restarted.then_some(one.replica);
        self.named.clear();
        let outcome = self.converse(controller, ends, self.settings.request_timeout, &endpoints);
        if is_refused {
            let named = std::mem::take(&mut self.named);
            named.into_iter().for_each(|host| self.drift(&Touched::of(Place::Host(host))));
        }
        // What is under way to the edge arrives.
        self.cloudflare().advance_clock(EDGE_MAX);
        let is_crashed = one.troubles.iter().any(|trouble| trouble.is_crash());
        let calls = self.cloudflare().take_calls();
        self.cloudflare().clear_faults();
        self.trace.note_calls(&calls);
        if let Some(inner) = &inner {
            inner.look(self)?;
        } else {
            let replica = one.replica % self.replicas.len();
            self.replicas[replica].note_calls(&calls)?;
        }
        self.note_limit(&calls);
        self.trace.note(format!("{outcome:?} at {:?}", self.time().now()));
        match outcome {
            Err(Failure::Fatal(problem)) if !is_crashed => return Err(Violation::new("answer", problem)),
            _ => {}
        }
        if is_crashed {
            self.restart_replica(one.replica);
        }
        self.count_untrue(&calls);
        let lag = lag::excuse(self, &calls);
        let replaced = inner.as_ref().map(|inner| lag::replaced_comments(self, &calls, &inner.names));
        self.nothing_foreign_was_seen()?;
        let watched = self.cloudflare().watched();
        self.cloudflare().watch(&[]);
        let mut touched_here = self.foreign().take_touched();
        touched_here.extend(&lag);
        touched_here.extend(&replaced.unwrap_or_default());
        if let Some(host) = inner.and_then(|inner| inner.lacking()) {
            touched_here.add(Place::Host(host.to_owned()));
        }
        self.touch(&touched_here);
        invariants::after_loop(self, &watched, &touched_here)?;
        let led_in_vain =
            std::mem::take(&mut *self.led_in_vain.lock().unwrap_or_else(PoisonError::into_inner));
        let is_calm = one.troubles.is_empty() && one.intruders.is_empty();
        outages::all_but_one_are_served(self, &led_in_vain, &calls, is_calm, &touched_here)?;
        outages::after_loop(self, is_calm)?;
        Ok(done_writes(&calls))
    }

    /// Lets the other program play its whole loop between two calls of this one. The registry `crd` has one memory for both,
    /// which no loop within a loop could change.
    fn arm_overlap(&mut self, overlap: Overlap, replica: usize, desired: &[Object]) -> Option<Inner> {
        if self.settings.registry == Registry::Crd {
            return None;
        }
        if self.replicas.len() < 2 {
            self.add_replica();
        }
        // An object that somebody put or edited is the last one.
        let (lacking, seen) = match desired.split_last() {
            Some((newest, others)) if overlap.lacks_newest => (Some(newest.host), others),
            _ => (None, desired),
        };
        let endpoints = objects::endpoints(seen, &mut Random::new(overlap.seed));
        let controller = self.controller(replica + 1);
        let client = self.replicas[(replica + 1) % self.replicas.len()].client;
        let names = self.cloudflare().edit(|cloudflare| {
            let records = cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id));
            records.map(|record| (record.id.clone(), record.name.clone())).collect()
        });
        let outcome: Arc<Mutex<Option<Result<(), Failure>>>> = Arc::default();
        let heard = Arc::clone(&outcome);
        // As with other writers: nobody can close the time between a document's reading and its writing.
        self.cloudflare().run_before(Matcher::reads(), overlap.read, client, move || {
            let answer = controller.run_loop(&endpoints);
            *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        });
        Some(Inner { outcome, lacking, names })
    }

    /// Takes note of answers that are old, or contradict themselves.
    fn count_untrue(&mut self, calls: &[Call]) {
        for call in calls {
            if call.contradicts {
                self.coverage.try_it("a contradiction");
            } else if call.writes_ago > 0 {
                self.coverage.try_it(lag::label(call));
            }
        }
    }

    /// What was seen right after a write was the doing of an answer that was old.
    pub(crate) fn forget_seen(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What is refused beside something that is done passes for done, and what is back before its deletion was answered
    /// passes for never gone.
    fn note_refused(&mut self, desired: &[Object], one: &Loop) {
        let is_withheld = one.intruders.is_empty() && invariants::is_withheld(self);
        let refused = desired.iter().filter(|object| !has_to_be_served(self, object));
        let hidden = self.objects.iter().filter(|_| !self.shows_all() && !is_withheld);
        let hosts: Vec<&'static str> = refused.chain(hidden).map(|object| object.host).collect();
        for host in hosts {
            self.drift(&Touched::of(Place::Host(host.to_owned())));
        }
    }

    /// A limit that was told before holds on, for whoever calls.
    fn arm_limit(&self) {
        let left = self.limited_until.saturating_sub(self.time().now());
        if !left.is_zero() {
            let limited = Fault::limited(left.as_secs() + 1);
            self.cloudflare().fault_for(Matcher::any(), 1, left, limited);
        }
    }

    fn note_limit(&mut self, calls: &[Call]) {
        let limits = calls.iter().filter_map(|call| call.limited_until);
        // Those told while it holds are a second longer.
        if self.limited_until <= self.time().now() {
            self.limited_until = limits.max().unwrap_or_default();
        }
    }

    /// What ExternalDNS and the program say to each other in one loop. The replica that `ends` does so in the middle.
    fn converse(
        &mut self,
        controller: Controller,
        ends: Option<usize>,
        timeout: Duration,
        desired: &[Endpoint],
    ) -> Result<Changes, Failure> {
        let time = Stopwatch { time: self.time(), timeout };
        let is_crd = controller.registry == Registry::Crd;
        let current = if is_crd { self.applied.current() } else { time.take(|| controller.records())? };
        let adjusted = time.take(|| controller.adjust(desired))?;
        let changes = controller.plan(&current, &adjusted);
        let Changes { create, update_old: _, update_new, delete } = &changes;
        self.named =
            [create, update_new, delete].into_iter().flatten().map(|one| one.dns_name.clone()).collect();
        if changes == Changes::default() {
            return Ok(changes);
        }
        let controller = match ends {
            Some(replica) => {
                self.restart_replica(replica);
                self.controller(replica)
            }
            None => controller,
        };
        let records = || time.take(|| controller.records());
        let apply = || time.take(|| controller.apply(&changes));
        if is_crd {
            self.applied.apply(&changes, apply, records)?
        } else {
            apply()?
        }
        Ok(changes)
    }

    fn controller(&self, replica: usize) -> Controller {
        let instance = &self.replicas[replica % self.replicas.len()];
        let api = instance.program().external_dns().api;
        Controller { api, registry: self.settings.registry, policy: self.settings.policy }
    }

    /// One loop of the other owner's ExternalDNS. Says how much it wrote.
    pub(crate) fn run_other(&mut self) -> Result<usize, Violation> {
        let mut variables = vec![("OWNER_ID", "other".to_owned()), ("CF_TUNNEL_ID", OTHER_TUNNEL.to_owned())];
        variables.push(("MASS_DELETION_LIMIT", "0".to_owned()));
        let instance =
            self.other.take().unwrap_or_else(|| Instance::start(&self.harness, OTHER_CLIENT, &variables));
        let api = instance.program().external_dns().api;
        self.other = Some(instance);
        self.foreign().touch(OTHER_WISH);
        let touched = self.foreign().take_touched();
        self.touch(&touched);
        let urls = invariants::urls();
        let urls: Vec<&str> = urls.iter().map(String::as_str).chain(FOREIGN_URLS).collect();
        self.cloudflare().watch_as(&invariants::VISITORS, &urls);
        self.cloudflare().take_calls();
        self.arm(&Loop::default());
        self.cloudflare().call_as(OTHER_CLIENT);
        let controller = Controller { api, registry: Registry::Noop, policy: SyncPolicy::Sync };
        let wanted = [OTHER_HOST, OTHER_WISH].map(|host| published(host, OTHER_SERVICE));
        let outcome = self.converse(controller, None, REQUEST_TIMEOUT, &wanted);
        self.cloudflare().advance_clock(EDGE_MAX);
        self.cloudflare().clear_faults();
        let watched = self.cloudflare().watched();
        self.cloudflare().watch(&[]);
        let calls = self.cloudflare().take_calls();
        self.trace.note_calls(&calls);
        if let Some(other) = &mut self.other {
            other.note_calls(&calls)?;
        }
        if let Err(Failure::Fatal(problem)) = outcome {
            return Err(Violation::new("answer", problem));
        }
        self.nothing_foreign_was_seen()?;
        invariants::after_other(&watched, &touched, self)?;
        Ok(done_writes(&calls))
    }

    pub(crate) fn has_other(&self) -> bool {
        self.other.is_some()
    }

    fn nothing_foreign_was_seen(&self) -> Result<(), Violation> {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        seen.into_iter().next().map_or(Ok(()), |first| Err(Violation::new("foreign", first)))
    }

    fn arm(&self, one: &Loop) {
        let cloudflare = self.cloudflare();
        let outage = self.outages.unwritable();
        let before =
            outage.map(|outage| cloudflare.edit(|cloudflare| outages::led_in_vain(outage, cloudflare)));
        for nth in 1..=WATCHED_WRITES {
            let (foreign, seen) = (Arc::clone(&self.foreign), Arc::clone(&self.seen));
            let (before, most) = (before.clone().unwrap_or_default(), Arc::clone(&self.led_in_vain));
            cloudflare.edit_after(Matcher::writes(), nth, move |cloudflare| {
                let found = foreign.lock().unwrap_or_else(PoisonError::into_inner).violations(cloudflare);
                seen.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
                if let Some(outage) = outage {
                    let now = &outages::led_in_vain(outage, cloudflare) - &before;
                    let mut most = most.lock().unwrap_or_else(PoisonError::into_inner);
                    if most.len() < now.len() {
                        *most = now;
                    }
                }
            });
        }
        for (nth, stranger) in &one.intruders {
            let (foreign, stranger) = (Arc::clone(&self.foreign), stranger.clone());
            // Nobody can close the time between our reading of a document and our writing of it, so no read lies in it.
            cloudflare.edit_before(Matcher::reads(), *nth, move |cloudflare| {
                stranger.act(cloudflare, &mut foreign.lock().unwrap_or_else(PoisonError::into_inner));
            });
        }
        one.troubles.iter().for_each(|trouble| trouble.arm(cloudflare));
    }

    /// Lets time pass, in which the watch over tunnels works.
    pub(crate) fn pass(&mut self, duration: Duration) -> Result<(), Violation> {
        let end = self.time().now() + duration;
        // Nothing of it lasts as long as an hour.
        let skipped = duration.saturating_sub(Duration::from_secs(3_600));
        self.cloudflare().advance_clock(skipped);
        while self.time().now() < end {
            let step = (end - self.time().now()).min(WATCH_PERIOD);
            self.cloudflare().advance_clock(step);
            for instance in self.replicas.iter_mut().chain(&mut self.other) {
                self.harness.cloudflare.call_as(instance.client);
                instance.run_watch();
                let calls = self.harness.cloudflare.take_calls();
                self.trace.note_calls(&calls);
                instance.note_calls(&calls)?;
            }
        }
        Ok(())
    }

    pub(crate) fn restart(&mut self) {
        self.replicas.clear();
        self.cloudflare().clear_faults();
        self.add_replica();
    }

    fn restart_replica(&mut self, replica: usize) {
        let index = replica % self.replicas.len();
        drop(self.replicas.remove(index));
        self.add_replica();
    }

    fn add_replica(&mut self) {
        self.started += 1;
        let instance = Instance::start(&self.harness, self.started, &self.settings.variables());
        self.replicas.push(instance);
        let calls = self.cloudflare().take_calls();
        self.trace.note_calls(&calls);
    }
}

/// A loop within a loop.
struct Inner {
    /// `None` where the outer one did not get so far.
    outcome: Arc<Mutex<Option<Result<(), Failure>>>>,
    /// The hostname of the object that its ExternalDNS has not seen.
    lacking: Option<&'static str>,
    /// Of the records that were there before, by id.
    names: BTreeMap<String, String>,
}

impl Inner {
    fn has_run(&self) -> bool {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn lacking(&self) -> Option<&'static str> {
        self.lacking.filter(|_| self.has_run())
    }

    fn look(&self, world: &mut World) -> Result<(), Violation> {
        if self.has_run() {
            world.coverage.try_it("two instances overlap");
        }
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match outcome {
            Some(Err(Failure::Fatal(problem))) => Err(Violation::new("answer", problem)),
            outcome => {
                world.trace.note(format!("the loop within: {outcome:?}"));
                Ok(())
            }
        }
    }
}

fn done_writes(calls: &[Call]) -> usize {
    let is_done = |call: &&Call| call.is_write() && call.status.is_some_and(|status| status < 300);
    calls.iter().filter(is_done).count()
}

/// Sees that answers come in time.
struct Stopwatch {
    time: Time,
    timeout: Duration,
}

impl Stopwatch {
    /// The answer of a call, which is a defect if it comes after the deadline.
    fn take<T>(&self, call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let begun = self.time.now();
        let answer = call();
        let taken = self.time.now() - begun;
        if taken > self.timeout + DELAY_MAX {
            return Err(Failure::Fatal(format!("an answer after {taken:?}")));
        }
        answer
    }
}
