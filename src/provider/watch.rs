//! What runs beside all requests: tries until the token was taken and the tunnels were found, and again where a request met
//! something that puts them in doubt; looks at the file of the credentials and at the tunnels' connectors.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use log::{debug, warn};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::Client;
use crate::locks::lock;
use crate::observe::health::Health;
use crate::observe::metrics::Metrics;
use crate::provider::announcement::announce;
use crate::provider::connectors::ConnectorWatch;
use crate::provider::memory::UnappliedRules;
use crate::provider::readings::Readings;
use crate::provider::resolution::{Resolved, Unresolved, check_token, find_tunnels};
use crate::provider::settings::ProviderSettings;
use crate::shutdown::Shutdown;

/// One attempt to check the token and to find the tunnels.
const START_TIMEOUT: Duration = Duration::from_secs(12);

/// The pause after the first attempt to check the token and to find the tunnels that fails; doubles with each.
const START_PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest such pause: what an operator mends should be seen soon, and a wrong token must not use up the budget.
const START_PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long the start tells what is managed before it is ready.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(3);

/// How often the file of the credentials is looked at. Kubernetes itself takes a minute to bring a new secret there.
const CREDENTIAL_FILE_PERIOD: Duration = Duration::from_secs(3);

/// How long the thread that checks sleeps before it sees that something is due, or that the program ends.
const CHECK_PAUSE: Duration = Duration::from_secs(1);

/// After the token and the tunnels were found good, they are not looked at again before this time is over, whatever
/// requests meet: two calls each.
const CHECK_PERIOD_MIN: Duration = Duration::from_secs(10);

/// What the watch looks at, and where it puts what it finds.
#[derive(Debug)]
pub struct Watch {
    pub(super) client: Arc<Client>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: Arc<ProviderSettings>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) readings: Arc<Readings>,
    pub(super) resolved: Arc<Mutex<Option<Arc<Resolved>>>>,
    pub(super) unapplied_rules: Arc<Mutex<UnappliedRules>>,
}

/// When to check the token and the tunnels.
#[derive(Debug)]
struct Checks {
    /// Whether the last one found them good, and nothing has put them in doubt since.
    are_settled: bool,
    next_at: Instant,
    /// After one that fails.
    pause: Duration,
}

impl Watch {
    /// Watches until `ending` is true. The thread is not waited for then: whatever it does is a read.
    ///
    /// # Errors
    ///
    /// When the thread cannot be had.
    pub fn spawn(self, ending: Arc<AtomicBool>, failing: Shutdown) -> io::Result<()> {
        thread::Builder::new().name("watch".to_owned()).spawn(move || {
            // Without it the program would answer 503 for ever, or never learn of a new token: better to start afresh.
            if panic::catch_unwind(AssertUnwindSafe(|| self.run(&ending))).is_err() {
                failing.fail("the thread that checks the token and the tunnels panicked");
            }
        })?;
        Ok(())
    }

    fn run(&self, ending: &AtomicBool) {
        let start = self.clock.now();
        let mut connectors = ConnectorWatch::new(start);
        let mut checks = Checks { are_settled: false, next_at: start, pause: START_PAUSE_MIN };
        let mut file_at = start + CREDENTIAL_FILE_PERIOD;
        while !ending.load(Ordering::Relaxed) {
            if self.clock.now() >= file_at {
                if self.client.look_at_credential_file() {
                    (checks.are_settled, checks.next_at) = (false, self.clock.now());
                }
                file_at = self.clock.now() + CREDENTIAL_FILE_PERIOD;
            }
            checks.are_settled &= !self.client.take_doubt();
            if !checks.are_settled && self.clock.now() >= checks.next_at {
                let is_good = self.check();
                checks = checks.after(is_good, self.clock.now());
                if is_good {
                    // What it met on its way it has looked into.
                    self.client.take_doubt();
                }
            }
            self.look_at_connectors(&mut connectors);
            self.clock.sleep(CHECK_PAUSE);
        }
    }

    /// Checks the token and finds the tunnels. Whether they are good.
    fn check(&self) -> bool {
        let was_ready = self.health.is_ready();
        match self.resolve(Deadline::after(&*self.clock, START_TIMEOUT)) {
            Ok(resolved) => {
                if !was_ready || !self.is_known(&resolved) {
                    self.take_over(resolved);
                }
                self.health.tunnels().close();
                true
            }
            Err(problem) => {
                self.report(&problem);
                false
            }
        }
    }

    fn resolve(&self, deadline: Deadline) -> Result<Resolved, Unresolved> {
        check_token(&self.client, &self.settings, deadline)?;
        self.health.credentials().close();
        let known = self.known();
        // Once it is known, a zone of another account that the token comes to see changes nothing about the account.
        let account = known.as_ref().map(|known| &known.account);
        find_tunnels(&self.client, self.readings.reader(), &self.settings, account, deadline)
    }

    fn known(&self) -> Option<Arc<Resolved>> {
        lock(&self.resolved).clone()
    }

    fn is_known(&self, resolved: &Resolved) -> bool {
        self.known().is_some_and(|known| known.settings.tunnels() == resolved.settings.tunnels())
    }

    fn take_over(&self, resolved: Resolved) {
        let deadline = Deadline::after(&*self.clock, ANNOUNCE_TIMEOUT);
        let zones = self.readings.reader().zones(deadline);
        announce(&resolved, &self.settings, zones.as_deref());
        *lock(&self.resolved) = Some(Arc::new(resolved));
        self.readings.outdate();
    }

    /// Says why they are not good. Trouble that may pass says nothing against what was found before.
    fn report(&self, problem: &Unresolved) {
        if problem.may_pass() && self.known().is_some() {
            debug!("the token and the tunnels cannot be looked at again: {problem}");
            return;
        }
        let latch = match problem {
            Unresolved::Credentials(_) => self.health.credentials(),
            Unresolved::Cloudflare(_) | Unresolved::Configuration(_) => self.health.tunnels(),
        };
        if latch.reopen(&problem.to_string(), problem.remedy()) {
            warn!("not ready: {problem}; {}", problem.remedy());
        } else {
            debug!("not ready: {problem}");
        }
    }

    fn look_at_connectors(&self, connectors: &mut ConnectorWatch) {
        let Self { client, clock, metrics, unapplied_rules, .. } = self;
        if let Some(resolved) = self.known() {
            connectors.look(client, &resolved, unapplied_rules, metrics, &**clock);
        }
    }
}

impl Checks {
    fn after(self, is_good: bool, now: Instant) -> Self {
        if is_good {
            let next_at = now + CHECK_PERIOD_MIN;
            return Self { are_settled: true, next_at, pause: START_PAUSE_MIN };
        }
        let pause = (self.pause * 2).min(START_PAUSE_MAX);
        Self { are_settled: false, next_at: now + self.pause, pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn checks_that_fail_come_ever_less_often_and_doubts_soon_after_a_good_one() {
        let start = Instant::now();
        let mut checks = Checks { are_settled: false, next_at: start, pause: START_PAUSE_MIN };
        let mut pauses = Vec::new();
        for is_good in [false, false, false, false, false, false, false, true, false] {
            checks = checks.after(is_good, start);
            assert_eq!(checks.are_settled, is_good);
            pauses.push((checks.next_at - start).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 10, 1]);
    }
}
