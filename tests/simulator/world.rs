//! An account at Cloudflare, a cluster, ExternalDNS and the program, and what happens to them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloudflare_emulator::ingress::Rule;
use cloudflare_emulator::{Emulator, Matcher, Plan, Refusal, RuleText, Time, Token};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Changes;
use serde_json::json;
use test_support::harness::{Harness, Program, TOKEN};

use crate::claims::Claims;
use crate::clock::SimulatedClock;
use crate::controller::{Controller, Failure};
use crate::faults::DELAY_MAX;
use crate::foreign::{self, Foreign};
use crate::invariants::{self, Violation};
use crate::objects::{self, Object};
use crate::random::Random;
use crate::settings::Settings;
use crate::steps::{Loop, Step};
use crate::strangers::FOREIGN_URLS;
use crate::trace::Trace;

/// ExternalDNS's own.
pub(crate) const INTERVAL: Duration = Duration::from_secs(60);

/// The program's default, by which every answer is on its way.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(12);

/// Longer than any way to the edge.
const EDGE_MAX: Duration = Duration::from_secs(1);

/// The watch over tunnels gets its turn so often.
const WATCH_PERIOD: Duration = Duration::from_secs(5);

/// So many writes of one loop are looked after.
const WATCHED_WRITES: usize = 40;

const HOME_DOCUMENT: &str = r#"{"originRequest": { "connectTimeout": 10 }, "ingress": [{ "service": "http://theirs:80",  "hostname":"hand.example.com", "note": {"by": "Jo"} },{"hostname":"*.example.com","service":"http://wild:80"},{"service":"http_status:503"}], "warp-routing": {"enabled": false}}"#;

const OFFICE_DOCUMENT: &str = r#"{"ingress":[{"hostname":"legacy.example.com","service":"http://legacy:80","x":1.10},{"service":"http_status:502"}],"b":12345678901234567890}"#;

pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) harness: Harness,
    clock: Option<Arc<SimulatedClock>>,
    program: Option<Program>,
    pub(crate) foreign: Arc<Mutex<Foreign>>,
    /// What was seen right after a write.
    seen: Arc<Mutex<Vec<String>>>,
    pub(crate) objects: Vec<Object>,
    pub(crate) is_blank: bool,
    /// Something that is not the program's may have changed what visitors get, until the next rest.
    pub(crate) is_disturbed: bool,
    pub(crate) claims: Claims,
    pub(crate) disliked: Vec<&'static str>,
    pub(crate) trace: Trace,
    pub(crate) loops: usize,
}

impl Drop for World {
    fn drop(&mut self) {
        self.end_program();
    }
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let harness = Harness::without_tunnel();
        let cloudflare = &harness.cloudflare;
        cloudflare.stop_clock();
        set_up(cloudflare, &settings);
        let foreign = cloudflare.edit(|cloudflare| Foreign::of(cloudflare, !settings.adopt.is_empty()));
        let mut world = Self {
            settings,
            harness,
            clock: None,
            program: None,
            foreign: Arc::new(Mutex::new(foreign)),
            seen: Arc::default(),
            objects: Vec::new(),
            is_blank: false,
            is_disturbed: false,
            claims: Claims::default(),
            disliked: Vec::new(),
            trace: Trace::default(),
            loops: 0,
        };
        world.start_program();
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
            Step::Mistype { which, seed } => {
                if let Some(mut object) = self.nth_object(*which) {
                    object.mistype(&mut Random::new(*seed));
                    self.put(object);
                }
            }
            Step::Remove { which } => {
                if let Some(object) = self.nth_object(*which) {
                    self.objects.retain(|other| other.resource() != object.resource());
                }
            }
            Step::Blank(is_blank) => self.is_blank = *is_blank,
            Step::Stranger(stranger) => {
                self.is_disturbed |= stranger.touches_ours();
                let foreign = Arc::clone(&self.foreign);
                let mut foreign = foreign.lock().unwrap_or_else(PoisonError::into_inner);
                self.cloudflare().edit(|cloudflare| stranger.act(cloudflare, &mut foreign));
            }
            Step::Wait { seconds } => self.pass(Duration::from_secs(*seconds)),
            Step::Restart => self.restart(),
            Step::Sight { zone, is_seen } => self.set_sight(zone, *is_seen),
            Step::Status { zone, status } => {
                self.is_disturbed = true;
                self.cloudflare().edit(|cloudflare| (*status).clone_into(&mut cloudflare.zone_mut(zone).status));
            }
            Step::Connectors { tunnel, count } => {
                self.is_disturbed = true;
                self.cloudflare().edit(|cloudflare| cloudflare.tunnel_mut(tunnel).connectors = *count);
            }
            Step::Dislike { host, is_rule } => self.dislike(host, *is_rule),
            Step::Like => {
                self.disliked.clear();
                self.cloudflare().edit(|cloudflare| cloudflare.whims_mut().like_all());
            }
            Step::Loop(one) => {
                self.run_loop(one, true)?;
                self.pass(INTERVAL);
            }
            Step::Rest => crate::rest::run(self)?,
        }
        Ok(())
    }

    fn put(&mut self, object: Object) {
        self.objects.retain(|other| other.resource() != object.resource());
        self.objects.push(object);
    }

    fn nth_object(&self, which: usize) -> Option<Object> {
        let count = self.objects.len();
        (count > 0).then(|| self.objects[which % count].clone())
    }

    fn set_sight(&mut self, zone: &str, is_seen: bool) {
        self.is_disturbed = true;
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

    fn dislike(&mut self, host: &'static str, is_rule: bool) {
        self.disliked.push(host);
        self.cloudflare().edit(|cloudflare| {
            if is_rule {
                // What stands was taken, and Cloudflare does not change its mind over it.
                let tunnels = cloudflare.tunnels().iter().map(|tunnel| foreign::document(cloudflare, &tunnel.id));
                let standing: Vec<String> = tunnels.flat_map(|document| document.rules).collect();
                let is_disliked = move |rule: &Rule| {
                    rule.hostname == host && !standing.iter().any(|text| text == rule.raw.get())
                };
                cloudflare.whims_mut().dislike_rule(RuleText::Unnamed, is_disliked);
            } else {
                cloudflare.whims_mut().dislike_name(host, Refusal::new(400, 9000, "DNS name is not liked"));
            }
        });
    }

    /// Everything that goes wrong ends.
    pub(crate) fn calm(&mut self) {
        self.is_blank = false;
        self.cloudflare().clear_faults();
        self.cloudflare().edit(|cloudflare| {
            cloudflare.token_mut(TOKEN).zones = None;
            "active".clone_into(&mut cloudflare.zone_mut("inner.example.com").status);
            for tunnel in ["home", "office"] {
                cloudflare.tunnel_mut(tunnel).connectors = 1;
            }
        });
    }

    /// Plays one loop of ExternalDNS. `is_shuffled`: what the cluster asks for comes in an order by its seed.
    pub(crate) fn run_loop(&mut self, one: &Loop, is_shuffled: bool) -> Result<usize, Violation> {
        self.loops += 1;
        let desired = if self.is_blank { Vec::new() } else { self.objects.clone() };
        self.is_disturbed |= one.intruders.iter().any(|(_, stranger)| stranger.touches_ours());
        let is_disturbed_here = !one.intruders.is_empty();
        if !self.is_blank || !invariants::is_withheld(self) {
            self.claims.ask(&desired);
        }
        self.arm(one);
        let urls = invariants::urls();
        let urls: Vec<&str> = urls.iter().map(String::as_str).chain(FOREIGN_URLS).collect();
        self.cloudflare().watch_as(&invariants::VISITORS, &urls);
        self.cloudflare().take_calls();

        let mut random = Random::new(if is_shuffled { one.seed } else { 0 });
        let mut endpoints = objects::endpoints(&desired, &mut random);
        if !is_shuffled && one.seed % 2 == 1 {
            let reversed: Vec<Object> = desired.iter().rev().cloned().collect();
            endpoints = objects::endpoints(&reversed, &mut random);
        }
        let outcome = self.converse(&endpoints);
        // What is under way to the edge arrives.
        self.cloudflare().advance_clock(EDGE_MAX);
        let is_crashed = one.troubles.iter().any(|trouble| trouble.is_crash());
        let calls = self.cloudflare().take_calls();
        self.cloudflare().clear_faults();
        self.trace.note_calls(&calls);
        self.trace.note(format!("{outcome:?} at {:?}", self.time().now()));
        match outcome {
            Err(Failure::Fatal(problem)) if !is_crashed => return Err(Violation::new("answer", problem)),
            _ => {}
        }
        if is_crashed {
            self.restart();
        }
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(first) = seen.into_iter().next() {
            return Err(Violation::new("foreign", first));
        }
        let watched = self.cloudflare().watched();
        self.cloudflare().watch(&[]);
        invariants::after_loop(self, &watched, is_disturbed_here)?;
        Ok(calls.iter().filter(|call| call.is_write() && call.status.is_some_and(|status| status < 300)).count())
    }

    fn converse(&self, desired: &[external_dns_cloudflare_tunnel_webhook::model::Endpoint]) -> Result<Changes, Failure> {
        let controller = self.controller();
        let current = self.timed(|| controller.records())?;
        let adjusted = self.timed(|| controller.adjust(desired))?;
        let changes = controller.plan(&current, &adjusted);
        if changes != Changes::default() {
            self.timed(|| controller.apply(&changes))?;
        }
        Ok(changes)
    }

    fn timed<T>(&self, call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let begun = self.time().now();
        let answer = call();
        let taken = self.time().now() - begun;
        if taken > REQUEST_TIMEOUT + DELAY_MAX {
            return Err(Failure::Fatal(format!("an answer after {taken:?}")));
        }
        answer
    }

    fn controller(&self) -> Controller {
        let program = self.program.as_ref().expect("it runs");
        let api = program.external_dns().api;
        Controller { api, registry: self.settings.registry, policy: self.settings.policy }
    }

    fn arm(&self, one: &Loop) {
        let cloudflare = self.cloudflare();
        for nth in 1..=WATCHED_WRITES {
            let (foreign, seen) = (Arc::clone(&self.foreign), Arc::clone(&self.seen));
            cloudflare.edit_after(Matcher::writes(), nth, move |cloudflare| {
                let found = foreign.lock().unwrap_or_else(PoisonError::into_inner).violations(cloudflare);
                seen.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
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
    pub(crate) fn pass(&mut self, duration: Duration) {
        let end = self.time().now() + duration;
        // Nothing of it lasts as long as an hour.
        let skipped = duration.saturating_sub(Duration::from_secs(3_600));
        self.cloudflare().advance_clock(skipped);
        while self.time().now() < end {
            let step = (end - self.time().now()).min(WATCH_PERIOD);
            self.cloudflare().advance_clock(step);
            self.clock.as_ref().expect("it runs").run_watch();
        }
        let calls = self.cloudflare().take_calls();
        self.trace.note_calls(&calls);
    }

    pub(crate) fn restart(&mut self) {
        self.end_program();
        self.cloudflare().clear_faults();
        self.start_program();
    }

    fn start_program(&mut self) {
        let variables = self.settings.variables();
        let variables: Vec<(&'static str, &str)> =
            variables.iter().map(|(name, value)| (*name, &**value)).collect();
        let mut config = self.harness.config(&variables);
        config.client.jitter_seed = Some(1);
        config.provider.parallel_reads = 1;
        let clock = Arc::new(SimulatedClock::of(self.time()));
        self.program = Some(self.harness.start_configured(Arc::clone(&clock) as _, config));
        clock.await_watch();
        self.clock = Some(clock);
        let calls = self.cloudflare().take_calls();
        self.trace.note_calls(&calls);
    }

    fn end_program(&mut self) {
        drop(self.program.take());
        if let Some(clock) = self.clock.take() {
            clock.end();
        }
    }
}

fn set_up(cloudflare: &Emulator, settings: &Settings) {
    for (tunnel, document) in [("home", HOME_DOCUMENT), ("office", OFFICE_DOCUMENT)] {
        let id = cloudflare.add_tunnel(tunnel);
        cloudflare.put_configuration(&id, document).expect("cloudflared takes it");
    }
    cloudflare.add_zone("example.org", Plan::Free);
    cloudflare.add_zone("inner.example.com", Plan::Free);
    cloudflare.edit(|cloudflare| {
        let target = |tunnel: &str| cloudflare.tunnel(tunnel).hostname();
        let records = [
            ("example.com", "hand.example.com", "CNAME", target("home")),
            ("example.com", "*.example.com", "CNAME", target("home")),
            ("example.com", "legacy.example.com", "CNAME", target("office")),
            ("example.com", "elsewhere.example.com", "CNAME", "somewhere.test".to_owned()),
            ("example.com", "example.com", "TXT", "\"v=spf1 -all\"".to_owned()),
            ("example.org", "hand.example.org", "A", "192.0.2.7".to_owned()),
            ("example.org", "example.org", "MX", "mail.example.org".to_owned()),
        ];
        for (zone, name, kind, content) in records {
            let is_proxied = matches!(kind, "A" | "CNAME");
            let record = json!({"name": name, "type": kind, "content": content, "proxied": is_proxied, "priority": 10});
            cloudflare.add_record(zone, record).expect("Cloudflare takes it");
        }
        cloudflare.set_up_access("my-team");
        for name in ["staff", "on-call"] {
            let include = json!([{"email_domain": {"domain": "example.com"}}]);
            let policy = json!({"name": name, "decision": "allow", "include": include});
            cloudflare.add_policy(&policy).expect("a policy");
        }
        *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
        let theirs = json!({"type": "self_hosted", "name": "theirs", "domain": "hand.example.org/admin",
            "session_duration": "6h"});
        cloudflare.add_application(&theirs).expect("an application");
        cloudflare.whims_mut().unlisted_application_time = Duration::from_millis(settings.listing_lag);
        let [configurations, records, applications] = settings.delays.map(Duration::from_millis);
        for tunnel in ["home", "office"] {
            cloudflare.delay_configurations(tunnel, &[configurations]);
        }
        cloudflare.delay_records(records);
        cloudflare.delay_applications(applications);
    });
}
