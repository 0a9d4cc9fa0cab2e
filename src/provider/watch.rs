//! Runs beside all requests. It checks the token and finds the tunnels until both succeed, and again after a request
//! has met something that puts them in doubt. It also looks at the credentials' file and at the tunnels' connectors.

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
use crate::provider::readings::Readings;
use crate::provider::resolution::{Resolved, Unresolved, check_token, find_tunnels};
use crate::provider::settings::ProviderSettings;
use crate::shutdown::Shutdown;

/// One attempt to check the token and to find the tunnels.
const START_TIMEOUT: Duration = Duration::from_secs(12);

/// The pause after the first failed check of the token and the tunnels. It doubles with each failure.
const START_PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest such pause: a repair should be noticed soon, but a wrong token must not use up the rate limit.
const START_PAUSE_MAX: Duration = Duration::from_secs(30);

/// The time that announcing what is managed may delay readiness.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(3);

/// The time between two looks at the credentials' file. Kubernetes itself takes a minute to bring a new secret there.
const CREDENTIAL_FILE_PERIOD: Duration = Duration::from_secs(3);

/// The watch sleeps this long before it sees that work is due or that the program ends.
const CHECK_PAUSE: Duration = Duration::from_secs(1);

/// Once the token and the tunnels were found valid, they are not checked again before this time is over, whatever
/// requests meet, because a check takes two calls.
const CHECK_PERIOD_MIN: Duration = Duration::from_secs(10);

/// The watch, with what it looks at and where it puts its findings.
#[derive(Debug)]
pub struct Watch {
    pub(super) client: Arc<Client>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: Arc<ProviderSettings>,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) readings: Arc<Readings>,
    pub(super) resolved: Arc<Mutex<Option<Arc<Resolved>>>>,
}

/// The schedule for checks of the token and the tunnels.
#[derive(Debug)]
struct Checks {
    /// The last check succeeded, and nothing has put it in doubt since.
    are_settled: bool,
    next_at: Instant,
    /// The pause after a check that fails.
    pause: Duration,
}

impl Watch {
    /// Watches until `ending` is true. The thread is not waited for then, because everything it does is a read.
    pub fn spawn(self, ending: Arc<AtomicBool>, failing: Shutdown) -> io::Result<()> {
        thread::Builder::new().name("watch".to_owned()).spawn(move || {
            // Without the watch the program would answer 503 forever, or never learn of a new token, so it had better
            // start afresh.
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
        let mut file_at = start;
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
                    // The check has settled the doubts that arose before it.
                    self.client.take_doubt();
                }
            }
            self.look_at_connectors(&mut connectors);
            self.clock.sleep(CHECK_PAUSE);
        }
    }

    /// Checks the token and finds the tunnels. Returns true if both succeeded.
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
        // Once the account is known, a zone of another account that becomes visible does not change it.
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
        let policies = self.known().and_then(|known| known.settings.access_policies().cloned());
        let Resolved { account, settings } = resolved;
        let resolved = Resolved { account, settings: settings.with_access_policies(policies) };
        *lock(&self.resolved) = Some(Arc::new(resolved));
        self.readings.outdate();
    }

    /// Logs why the check failed. A failure that may pass does not contradict what was found before.
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
            warn!("not ready: {problem}; {}; it is tried again by itself", problem.remedy());
        } else {
            debug!("not ready: {problem}");
        }
    }

    fn look_at_connectors(&self, connectors: &mut ConnectorWatch) {
        if let Some(resolved) = self.known() {
            connectors.look(&self.client, &resolved, &self.metrics, &*self.clock);
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
