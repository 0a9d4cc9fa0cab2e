//! Plays loops of ExternalDNS in a world: what it and the program say to each other, and what others do meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cloudflare_emulator::{Call, Fault, Matcher, Time};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::external_dns::{Changes, Registry, SyncPolicy};
use test_support::harness::published;

use crate::controller::{Controller, Failure};
use crate::excuses::has_to_be_served;
use crate::faults::{DELAY_MAX, Trouble};
use crate::instance::Instance;
use crate::invariants::{self, Violation};
use crate::lag;
use crate::objects::{self, Object};
use crate::outages;
use crate::random::Random;
use crate::steps::{Loop, Overlap};
use crate::strangers::{FOREIGN_URLS, OTHER_HOST, OTHER_SERVICE, OTHER_TUNNEL, OTHER_URL, OTHER_WISH};
use crate::touched::{Place, Touched};
use crate::world::{EDGE_MAX, Source, World};

/// The program's default: every answer is on its way by then.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(12);

/// The number by which the emulator knows the program of the other owner.
const OTHER_CLIENT: u64 = 1_000_000;

/// The account is looked at after each write of a loop, up to so many.
const WATCHED_WRITES: usize = 40;

impl World {
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
        if self.shows_all() || !one.may_ask_for_all() || !invariants::is_withheld(self) {
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
        let has_failed = outcome.is_err();
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
            self.claims.let_go(host);
            // Two instances that want different things of a path: the rule of one is foreign to the other.
            self.cloudflare().edit(|cloudflare| self.foreign().lost_stamps(cloudflare, |of| of == host));
        }
        if !self.settings.sees_drift() && has_failed {
            self.note_half_done(&desired);
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

    /// Lets the other program play its whole loop between two calls of this one. The registry `crd` has one memory for
    /// both, which no loop within a loop could change.
    fn arm_overlap(&mut self, overlap: Overlap, replica: usize, desired: &[Object]) -> Option<Inner> {
        if self.settings.registry == Registry::Crd {
            return None;
        }
        if self.replicas.len() < 2 {
            self.add_replica();
        }
        // The object that was put or edited last is the last one.
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
        // As with other writers: the time between a document's reading and its writing cannot be closed.
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
        let is_withheld = one.may_ask_for_all() && invariants::is_withheld(self);
        let refused = desired.iter().filter(|object| !has_to_be_served(self, object));
        let hidden = self.objects.iter().filter(|_| !self.shows_all() && !is_withheld);
        let hosts: Vec<&'static str> = refused.chain(hidden).map(|object| object.host).collect();
        for host in hosts {
            self.drift(&Touched::of(Place::Host(host.to_owned())));
        }
    }

    /// Of a request that was answered 503 the registry takes nothing for done. Where it gave a hostname to one of
    /// several objects, and the next one gives it to another, the registry takes paths of that one for published which
    /// went meanwhile.
    fn note_half_done(&mut self, desired: &[Object]) {
        for object in desired {
            if self.claims.history(object.host).has_rivals {
                self.drift(&Touched::of(Place::Host(object.host.to_owned())));
            }
        }
    }

    /// A limit that Cloudflare told before holds on, for every client.
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
            // The time between our reading of a document and our writing of it cannot be closed, so no read lies in it.
            cloudflare.edit_before(Matcher::reads(), *nth, move |cloudflare| {
                stranger.act(cloudflare, &mut foreign.lock().unwrap_or_else(PoisonError::into_inner));
            });
        }
        one.troubles.iter().for_each(|trouble| trouble.arm(cloudflare));
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
