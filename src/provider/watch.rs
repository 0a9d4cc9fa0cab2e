//! Runs beside all requests. It checks the token and finds the tunnels until both succeed, and again after a request
//! has met something that puts them in doubt. It also looks at the credentials' file and at the tunnels' connectors, and
//! deletes the Access applications for which nothing answers any more.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use log::warn;

use crate::clock::Deadline;
use crate::locks::lock;
use crate::logging;
use crate::model::LogLine;
use crate::observe::health::Missing;
use crate::provider::Provider;
use crate::provider::announcement::announce;
use crate::provider::connectors::ConnectorWatch;
use crate::provider::resolution::{Unresolved, find_tunnels};
use crate::provider::writer::Writer;
use crate::shutdown::Shutdown;

/// One attempt to check the token and to find the tunnels.
const START_TIMEOUT: Duration = Duration::from_secs(12);

/// The time that announcing what is managed may delay readiness.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(3);

/// The time between two looks at the credentials' file. Kubernetes itself takes a minute to bring a new secret there.
const CREDENTIAL_FILE_PERIOD: Duration = Duration::from_secs(3);

/// The watch sleeps this long before it sees that work is due or that the program ends.
const CHECK_PAUSE: Duration = Duration::from_secs(1);

/// The time between two checks of the token and the tunnels, whatever requests meet. Each takes two calls.
const CHECK_PERIOD: Duration = Duration::from_secs(10);

impl Provider {
    /// Does the work that has to run beside the requests until `ending` is true. The thread is not waited for then, because
    /// nothing that it does can be left half done.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn watch(self: Arc<Self>, ending: Arc<AtomicBool>, failing: Shutdown) -> io::Result<()> {
        thread::Builder::new().name("watch".to_owned()).spawn(move || {
            // Without the watch the program would answer 503 forever, or never learn of a new token, so it had better
            // start afresh.
            if panic::catch_unwind(AssertUnwindSafe(|| self.run_watch(&ending))).is_err() {
                failing.fail("the thread that checks the token and the tunnels panicked");
            }
        })?;
        Ok(())
    }

    fn run_watch(&self, ending: &AtomicBool) {
        let start = self.writer.clock().now();
        let mut connectors = ConnectorWatch::new(start);
        // Settled: the last check succeeded, and nothing has put it in doubt since.
        let (mut is_settled, mut check_at, mut file_at) = (false, start, start);
        while !ending.load(Ordering::Relaxed) {
            if self.writer.clock().now() >= file_at {
                if self.writer.client().look_at_credential_file() {
                    (is_settled, check_at) = (false, self.writer.clock().now());
                }
                file_at = self.writer.clock().now() + CREDENTIAL_FILE_PERIOD;
            }
            is_settled &= !self.writer.client().take_doubt();
            if !is_settled && self.writer.clock().now() >= check_at {
                is_settled = self.check();
                check_at = self.writer.clock().now() + CHECK_PERIOD;
                if is_settled {
                    // The check has settled the doubts that arose before it.
                    self.writer.client().take_doubt();
                }
            }
            if let Ok(resolved) = self.resolved() {
                connectors.look(&self.writer, &resolved);
                self.writer.delete_unneeded_applications(&resolved);
            }
            self.writer.clock().sleep(CHECK_PAUSE);
        }
    }

    /// Checks the token and finds the tunnels. Returns true if both succeeded, and none may be made later.
    fn check(&self) -> bool {
        let Writer { reader, last_snapshot, .. } = &self.writer;
        let clock = self.writer.clock();
        let known = lock(&self.resolved).clone();
        // Once the account is known, a zone of another account that becomes visible does not change it.
        let account = known.as_ref().map(|known| &known.account);
        let deadline = Deadline::after(clock, START_TIMEOUT);
        let resolved = match find_tunnels(reader, account, deadline) {
            Ok(resolved) => resolved,
            Err(problem) => {
                self.report_missing(problem, known.is_some());
                return false;
            }
        };
        let is_whole = !resolved.settings.tunnels().iter().any(|tunnel| tunnel.id.is_unmade());
        let is_known = known.is_some_and(|known| known.settings.tunnels() == resolved.settings.tunnels());
        if !is_known || !self.health.is_ready() {
            let zones = reader.zones(Deadline::after(clock, ANNOUNCE_TIMEOUT));
            announce(&resolved, &reader.settings, zones.as_deref());
            *lock(&self.resolved) = Some(Arc::new(resolved));
            lock(last_snapshot).outdate();
        }
        self.health.set_ready();
        is_whole
    }

    /// Logs why the check failed. A failure that may pass does not contradict what was found before.
    fn report_missing(&self, Unresolved { why, remedy, may_pass }: Unresolved, was_found: bool) {
        if may_pass && was_found {
            logging::debug(module_path!(), || {
                let text = format!("the token and the tunnels cannot be looked at again: {why}");
                LogLine::default().text(text)
            });
        } else if self.health.set_missing(Missing { why: why.as_str().into(), remedy }) {
            warn!("not ready: {why}; {remedy}; it is tried again by itself");
        } else {
            logging::debug(module_path!(), || LogLine::default().text(format!("not ready: {why}")));
        }
    }
}
