//! The program on Cloudflare's own time, at an edge with delays, with visitors that never stop asking.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cloudflare_emulator::{Fault, Matcher, Time};
use external_dns_cloudflare_tunnel_webhook::clock::{Clock, SystemClock};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::clock::{Looks, looks_around};
use test_support::external_dns::{Changes, ExternalDns};
use test_support::harness::Program;

use crate::shared_account::SharedAccount;

/// ExternalDNS's own.
const INTERVAL: Duration = Duration::from_secs(60);

/// Loops in which everything comes to rest, an outage and a move's time of grace included.
const LOOPS_MAX: usize = 16;

/// So many in a row that write nothing are at rest. While a move's time of grace lasts there is none to write.
const LOOPS_IDLE_MAX: usize = 3;

/// How old records are when a change begins, in seconds: within the patience of a move, after it, and as old as most
/// are.
pub(crate) const AGES: [u64; 3] = [60, 660, 31_536_000];

/// Longer than anything takes.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// Cloudflare's time as the program's: a pause in a request lets it pass, and takes no real time.
#[derive(Debug)]
pub(crate) struct SharedTime {
    begun: Instant,
    time: Time,
    looks: Looks,
}

impl SharedTime {
    pub(crate) fn of(time: Time) -> Self {
        Self { begun: SystemClock.now(), time, looks: Looks::default() }
    }

    /// Waits until the watch has looked at everything by the time that it is now.
    pub(crate) fn await_watch(&self) {
        self.looks.await_watch();
    }
}

impl Clock for SharedTime {
    fn now(&self) -> Instant {
        self.begun + self.time.now()
    }

    fn sleep(&self, duration: Duration) {
        if looks_around() {
            self.looks.glance(duration);
        } else {
            self.time.advance(duration);
        }
    }

    fn unix_seconds(&self) -> i64 {
        self.time.unix_seconds().try_into().unwrap_or(i64::MAX)
    }
}

/// How long things take, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// A configuration to each connector of every tunnel.
    pub(crate) connectors: Vec<u64>,
    /// A record to the resolvers.
    pub(crate) records: u64,
    /// The answer to a write that was done.
    pub(crate) write: u64,
}

/// What goes wrong with a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trouble {
    #[default]
    None,
    /// From the n-th call of this kind on all of them fail for 4 s.
    Fails(Kind, usize),
    /// The program ends right after its n-th write, and is started again.
    EndsAfter(usize),
    /// The n-th answer of this kind of which the program can tell that it is old shows what was there so many writes
    /// ago; or all of them from that one on, for 90 s.
    Old { kind: Kind, nth: usize, writes: usize, is_lasting: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A PUT of a configuration.
    Configuration,
    /// A batch of records.
    Batch,
    /// A look at a tunnel's connectors.
    Look,
    /// A GET of a configuration.
    Reading,
    /// A list of records.
    List,
}

impl Kind {
    fn matcher(self) -> Matcher {
        match self {
            Self::Configuration => Matcher::put_configuration(),
            Self::Batch => Matcher::batch(),
            Self::Look => Matcher::call("GET", "/accounts/*/cfd_tunnel/*/connections"),
            Self::Reading => Matcher::get_configuration(),
            Self::List => Matcher::list_records(),
        }
    }
}

/// How many writes there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    pub(crate) configurations: usize,
    pub(crate) batches: usize,
}

/// A shared account with the program at work in it.
pub(crate) struct Simulation {
    pub(crate) account: SharedAccount,
    variables: Vec<(&'static str, &'static str)>,
    clock: Arc<SharedTime>,
    pace: Pace,
    program: Option<Program>,
    has_ended: Arc<AtomicBool>,
    /// How often the program was started: each time Cloudflare has another client.
    started: u64,
}

impl Simulation {
    pub(crate) fn new(
        account: SharedAccount,
        variables: &[(&'static str, &'static str)],
        pace: Pace,
    ) -> Self {
        let cloudflare = account.cloudflare();
        cloudflare.stop_clock();
        let delays: Vec<Duration> = pace.connectors.iter().copied().map(Duration::from_millis).collect();
        for tunnel in ["home", "office"] {
            cloudflare.edit(|cloudflare| cloudflare.tunnel_mut(tunnel).connectors = delays.len());
            cloudflare.delay_configurations(tunnel, &delays);
        }
        cloudflare.delay_records(Duration::from_millis(pace.records));
        cloudflare.edit(|cloudflare| cloudflare.whims_mut().comments_have_their_own_time = true);
        let clock = Arc::new(SharedTime::of(cloudflare.time()));
        let variables =
            [("CF_TUNNEL_ID", "home,office"), ("MASS_DELETION_LIMIT", "0"), ("MOVE_GRACE", "30s")]
                .into_iter()
                .chain(variables.iter().copied())
                .collect();
        let mut simulation =
            Self { account, variables, clock, pace, program: None, has_ended: Arc::default(), started: 0 };
        simulation.account.cloudflare().keep_past();
        simulation.start();
        simulation.expect(Trouble::None);
        simulation
    }

    /// Starts the program again with these tunnels, the first of which is the default.
    pub(crate) fn list_tunnels(&mut self, tunnels: &'static str) {
        self.variables.retain(|(name, _)| *name != "CF_TUNNEL_ID");
        self.variables.push(("CF_TUNNEL_ID", tunnels));
        self.start();
    }

    fn start(&mut self) {
        self.program = None;
        self.started += 1;
        self.account.cloudflare().call_as(self.started);
        let program = self.account.harness.start_by(Arc::clone(&self.clock) as _, &self.variables);
        program.wait_until_ready();
        self.program = Some(program);
    }

    /// What goes wrong from now on, and nothing else any more.
    pub(crate) fn expect(&self, trouble: Trouble) {
        // Watches over what is foreign.
        self.account.clear_faults();
        let cloudflare = self.account.cloudflare();
        match trouble {
            Trouble::None => {}
            Trouble::Fails(kind, nth) => {
                cloudflare.fault_for(kind.matcher(), nth, Duration::from_secs(4), Fault::status(503));
            }
            Trouble::Old { kind, nth, writes, is_lasting } => {
                let lasting = Duration::from_secs(if is_lasting { 90 } else { 0 });
                cloudflare.fault_for(kind.matcher(), nth, lasting, Fault::known_old(writes));
            }
            Trouble::EndsAfter(nth) => {
                let has_ended = Arc::clone(&self.has_ended);
                cloudflare
                    .edit_before(Matcher::writes(), nth, move |_| has_ended.store(true, Ordering::Relaxed));
                // What the program would do next to its end never happens.
                cloudflare.fault(Matcher::writes(), nth, Fault::DoneButUnanswered);
                cloudflare.fault_for(Matcher::writes(), nth + 1, FOR_EVER, Fault::Reset);
            }
        }
        // Of two faults at one call the first counts.
        if self.pace.write > 0 {
            cloudflare.fault_every(Matcher::writes(), Fault::Delay(Duration::from_millis(self.pace.write)));
        }
    }

    /// Plays loops of ExternalDNS until one asks for nothing and writes nothing, or some in a row write nothing: what
    /// is refused is asked for again and again. Says how many writes there were.
    pub(crate) fn run_to_rest(&mut self, desired: &[Endpoint]) -> Result<Writes, String> {
        let (mut writes, mut idle, mut last) = (Writes::default(), 0, None);
        for _ in 0..LOOPS_MAX {
            let (outcome, written) = self.run_loop(desired)?;
            self.account.cloudflare().advance_clock(INTERVAL);
            writes.configurations += written.configurations;
            writes.batches += written.batches;
            idle = if written == Writes::default() { idle + 1 } else { 0 };
            if idle == LOOPS_IDLE_MAX || (idle > 0 && outcome == Ok(Changes::default())) {
                return Ok(writes);
            }
            last = Some(outcome);
        }
        Err(format!("no rest after {LOOPS_MAX} loops; the last one asked for {last:#?}"))
    }

    /// Lets records grow old.
    pub(crate) fn pass(&self, seconds: u64) {
        self.account.cloudflare().advance_clock(Duration::from_secs(seconds));
    }

    pub(crate) fn external_dns(&self) -> ExternalDns {
        self.program.as_ref().expect("it was started").external_dns()
    }

    /// Plays one loop, after which the program is started again if it ended. No time passes but what it takes.
    pub(crate) fn run_loop(
        &mut self,
        desired: &[Endpoint],
    ) -> Result<(Result<Changes, u16>, Writes), String> {
        self.account.cloudflare().take_calls();
        let outcome = self.external_dns().run_loop(desired);
        let calls = self.account.cloudflare().take_calls();
        let count = |method: &str| calls.iter().filter(|call| call.method == method).count();
        let writes = Writes { configurations: count("PUT"), batches: count("POST") };
        if self.has_ended.swap(false, Ordering::Relaxed) {
            self.expect(Trouble::None);
            self.start();
        }
        match outcome {
            Ok(_) | Err(503) => Ok((outcome, writes)),
            Err(status) => Err(format!("a loop got {status}, which ends ExternalDNS")),
        }
    }

    /// A text with the tunnels' names for their ids.
    pub(crate) fn named(&self, text: &str) -> String {
        text.replace(&self.account.harness.tunnel, "home").replace(&self.account.office, "office")
    }
}
