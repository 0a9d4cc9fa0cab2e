//! An account at Cloudflare, a cluster, ExternalDNS and the program, and what happens to them.

mod play;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloudflare_emulator::ingress::Rule;
use cloudflare_emulator::{Emulator, Refusal, RuleText, Time};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::external_dns::AppliedRecords;
use test_support::harness::{Harness, TOKEN};

use crate::claims::Claims;
use crate::coverage::Coverage;
use crate::foreign::{self, Foreign};
use crate::instance::Instance;
use crate::invariants::Violation;
use crate::objects::{CONTESTED, HOSTS, ON_CALL, Object};
use crate::outages::{InVain, Outages};
use crate::random::Random;
use crate::settings::Settings;
use crate::steps::{Disliked, Step};
use crate::touched::{Place, Touched};
use crate::trace::Trace;
use crate::{account, mend, rest, unkind};

/// ExternalDNS's own.
pub(crate) const INTERVAL: Duration = Duration::from_secs(60);

/// Longer than any way to the edge.
const EDGE_MAX: Duration = Duration::from_secs(1);

/// What the policy that objects name beside another one is called while it is gone.
const RENAMED: &str = "renamed";

/// The watch over tunnels gets its turn so often.
const WATCH_PERIOD: Duration = Duration::from_secs(5);

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
    /// The violations that were seen right after a write.
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
    /// Hostnames that were changed since they were answered, or were refused beside something that was done: a registry
    /// that goes by what was answered never learns of it.
    drifted: BTreeSet<&'static str>,
    /// The hostnames that ExternalDNS's last request names.
    named: BTreeSet<String>,
    pub(crate) claims: Claims,
    pub(crate) disliked: Vec<(&'static str, Disliked)>,
    pub(crate) outages: Outages,
    /// A place failed for some loops since the last rest.
    pub(crate) had_outage: bool,
    /// Cloudflare rejected some call since the last rest, and so may not be asked for the same again.
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

    /// Whether the cluster has such an object, shown or not.
    pub(crate) fn has_object(&self, is_such: impl Fn(&Object) -> bool) -> bool {
        self.all.iter().any(is_such)
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

    /// Whether another writer may have changed what visitors of the hostname get, since the last rest.
    pub(crate) fn is_touched(&self, host: &str) -> bool {
        self.touched.has(host, &self.claims, &self.settings)
    }

    /// Whether the hostname's zone was hidden, or ceased to be delegated, or came back, since the last rest. The
    /// program learns of that in its own time.
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

    /// Whether Cloudflare rejects something that the object may need. A hostname that moves needs all of its rules.
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
