//! The watch: a thread that runs beside all requests. It checks the token and finds the tunnels until both succeed, and
//! again after a call failed in a way that suggests a change. It also reads the credentials' file, looks at the
//! tunnels' connectors, and deletes unneeded Access applications. Once the tunnels are found, it logs the managed
//! tunnels and zones.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use log::{info, warn};

use crate::clock::Deadline;
use crate::limits;
use crate::locks::lock;
use crate::logging;
use crate::model::text::{QUOTED_MAX_CHARS, cut};
use crate::model::{AccountId, LogLine, Zone};
use crate::observe::readiness::SetupProblem;
use crate::provider::Provider;
use crate::provider::backend::ProviderSettings;
use crate::provider::connectors::ConnectorWatch;
use crate::provider::setup::{SHOW_ZONES, Setup, find_setup};
use crate::reconcile::{ConfiguredTunnel, OperatorSettings};
use crate::shutdown::Shutdown;

/// The time for one attempt to check the token and to find the tunnels.
const CHECK_TIMEOUT: Duration = Duration::from_secs(12);

/// The longest time for which the announcement of the zones delays readiness.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(3);

/// The time between two readings of the credentials' file. Kubernetes needs a minute to update the file.
const CREDENTIAL_FILE_PERIOD: Duration = Duration::from_secs(3);

/// The time that the watch sleeps before it checks for due work and for the end of the program.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// The time between checks of the token and the tunnels, unless the secret changes. A check takes two calls or more.
const CHECK_PERIOD: Duration = Duration::from_secs(10);

impl Provider {
    /// Starts the thread of the watch, which runs until `is_stopping` is true. The end of the program does not wait for
    /// the thread, because each of its writes is a single call.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn watch(self: Arc<Self>, is_stopping: Arc<AtomicBool>, shutdown: Shutdown) -> io::Result<()> {
        thread::Builder::new().name("watch".to_owned()).spawn(move || {
            // Without the watch, the program would answer 503 forever or never read a new token. A restart is better.
            if panic::catch_unwind(AssertUnwindSafe(|| self.run_watch(&is_stopping))).is_err() {
                shutdown.fail("the thread that checks the token and the tunnels panicked");
            }
        })?;
        Ok(())
    }

    fn run_watch(&self, is_stopping: &AtomicBool) {
        let start = self.clock().now();
        let mut connectors = ConnectorWatch::default();
        let (mut check_at, mut file_at, mut connectors_at) =
            (start, start, start + limits::CONNECTORS_PERIOD);
        while !is_stopping.load(Ordering::Relaxed) {
            if self.clock().now() >= file_at {
                if self.client().read_credential_file() {
                    check_at = self.clock().now();
                }
                file_at = self.clock().now() + CREDENTIAL_FILE_PERIOD;
            }
            if self.client().is_in_doubt() && self.clock().now() >= check_at {
                if self.check() {
                    // Also a doubt that arose during the check.
                    self.client().settle_doubt();
                }
                check_at = self.clock().now() + CHECK_PERIOD;
            }
            if let Ok(setup) = self.setup() {
                if self.clock().now() >= connectors_at {
                    connectors_at = self.clock().now() + limits::CONNECTORS_PERIOD;
                    connectors.look(self, &setup);
                }
                self.delete_unneeded_applications(&setup);
            }
            self.clock().sleep(WATCH_PAUSE);
        }
    }

    /// Checks the token and finds the tunnels. True if both succeeded and no tunnel is missing; a dry run goes on
    /// without a missing tunnel, but the result is false.
    fn check(&self) -> bool {
        let Self { backend, last_snapshot, .. } = self;
        let clock = self.clock();
        let known = lock(&self.setup).clone();
        // Once the account is known, a newly visible zone of another account does not change the account.
        let account = known.as_ref().map(|known| &known.account);
        let deadline = Deadline::after(clock, CHECK_TIMEOUT);
        let setup = match find_setup(backend, account, deadline) {
            Ok(setup) => setup,
            Err(problem) => {
                self.report_problem(&problem, known.is_some());
                return false;
            }
        };
        let has_all_tunnels = !setup.settings.tunnels().iter().any(|tunnel| tunnel.id.is_placeholder());
        let is_known = known.is_some_and(|known| known.settings.tunnels() == setup.settings.tunnels());
        if !is_known || !self.readiness.is_ready() {
            let zones = backend.zones(Deadline::after(clock, ANNOUNCE_TIMEOUT));
            announce_tunnels(&setup);
            match zones {
                Ok(zones) => announce_zones(&zones, &setup.account, &backend.provider_settings),
                Err(error) => warn!("the zones could not be read yet: {error}"),
            }
            *lock(&self.setup) = Some(Arc::new(setup));
            lock(last_snapshot).mark_outdated();
        }
        self.readiness.set_ready();
        has_all_tunnels
    }

    /// Logs why the check failed. The tunnels that were found earlier remain in use, and a permanent failure ends
    /// readiness.
    fn report_problem(&self, problem: &SetupProblem, was_found: bool) {
        if !problem.is_permanent && was_found {
            logging::debug(module_path!(), || {
                let text = format!("the token and the tunnels cannot be checked again: {}", problem.why);
                LogLine::default().text(text)
            });
        } else if self.readiness.set_problem(problem) {
            let period = CHECK_PERIOD.as_secs();
            warn!("the webhook is not ready: {problem}; the webhook tries again every {period} s");
        } else {
            logging::debug(module_path!(), || {
                LogLine::default().text(format!("the webhook is not ready: {}", problem.why))
            });
        }
    }
}

fn announce_tunnels(Setup { account, settings }: &Setup) {
    let OperatorSettings { owner, filter, .. } = &settings.operator;
    let tunnels: Vec<String> =
        settings.tunnels().iter().map(|tunnel| format!("{} ({})", tunnel.name, tunnel.id)).collect();
    info!(
        tunnels = tunnels.join(","),
        account:%,
        owner,
        filter = cut(&filter.to_json(), QUOTED_MAX_CHARS);
        "the webhook manages these tunnels: start ExternalDNS with --registry=noop; --registry=txt works \
         too, but its TXT records are not stored"
    );
    for ConfiguredTunnel { id, name, .. } in settings.tunnels().iter().filter(|one| one.id.is_placeholder()) {
        warn!("DRY_RUN is set, so the tunnel {name:?} is not created: the dry run uses the id {id} for it");
    }
}

fn announce_zones(zones: &[Zone], account: &AccountId, settings: &ProviderSettings) {
    let in_scope = zones.iter().filter(|zone| settings.includes_zone(zone));
    let (served, others): (Vec<&Zone>, Vec<&Zone>) = in_scope.partition(|zone| zone.belongs_to(account));
    if !others.is_empty() {
        warn!(
            zones:% = names(&others);
            "the webhook ignores these zones: they belong to another account than the tunnels, and their \
             records cannot point to these tunnels"
        );
    }
    if served.is_empty() {
        warn!(
            zones:% = "";
            "the webhook serves no zone, so it refuses every hostname (no_zone): {SHOW_ZONES}, or correct \
             CF_ACCOUNT_ID, DOMAIN_FILTER or ZONE_ID_FILTER"
        );
        return;
    }
    info!(zones:% = names(&served); "the webhook serves these zones");
}

fn names(zones: &[&Zone]) -> String {
    zones.iter().map(|zone| &*zone.name).collect::<Vec<_>>().join(",")
}
