//! Implements the webhook's `Handler`: reads a snapshot, asks the core for a plan, and carries it out. Apart from the
//! command `tunnel`, this folder alone writes to Cloudflare.

mod access;
pub(crate) mod backend;
mod bodies;
mod connectors;
mod execution;
mod failure;
mod memory;
mod parallel;
mod report;
mod request;
pub(crate) mod setup;
mod status;
mod watch;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Error};
use crate::limits;
use crate::locks::lock;
use crate::model::endpoint::Endpoint;
use crate::observe::metrics::{Family, Metrics};
use crate::observe::readiness::Readiness;
pub use crate::provider::backend::ProviderSettings;
use crate::provider::backend::{Backend, ReadError};
pub use crate::provider::bodies::adjust;
use crate::provider::memory::{LastLoop, LastSnapshot, UnneededPlaces, WriteGuard, WriteMemory};
use crate::provider::parallel::in_parallel;
use crate::provider::setup::Setup;
use crate::reconcile::records;
use crate::reconcile::snapshot::Snapshot;
use crate::webhook::body::Body;
use crate::webhook::{Failure, Handler};

/// Serves ExternalDNS through the webhook. Owns all that is remembered from one request to the next. Locks are taken in
/// the order of the fields. No two locks of `backend`, `readiness` and `metrics` are held together, except that the
/// client locks its credentials under the lock of their file.
#[derive(Debug)]
pub struct Provider {
    /// `None` until the account and every tunnel are known.
    setup: Mutex<Option<Arc<Setup>>>,
    /// Held by each `POST /records` while it reads and writes, and while unneeded applications are deleted.
    write_memory: Mutex<WriteMemory>,
    last_loop: Mutex<LastLoop>,
    last_snapshot: Mutex<LastSnapshot>,
    unneeded_places: Mutex<UnneededPlaces>,
    backend: Backend,
    readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
}

impl Provider {
    /// Makes a provider that answers 503 until [`Self::watch`] has found the tunnels.
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        settings: ProviderSettings,
        readiness: Arc<Readiness>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let mut values = metrics.update();
        values.set(Family::BuildInfo, &[env!("CARGO_PKG_VERSION")], 1);
        values.set(Family::DryRun, &[], i64::from(settings.dry_run));
        drop(values);
        Self {
            setup: Mutex::default(),
            write_memory: Mutex::default(),
            last_loop: Mutex::default(),
            last_snapshot: Mutex::default(),
            unneeded_places: Mutex::default(),
            backend: Backend::new(client, clock, settings),
            readiness,
            metrics,
        }
    }

    /// The metrics in the text of a scrape. Readiness and the calls that are left are read at the scrape; every other
    /// metric is updated when its event happens.
    pub fn scrape(&self) -> String {
        let (is_ready, calls_left) = (self.readiness.is_ready(), self.client().calls_left());
        let mut values = self.metrics.update();
        values.set(Family::Ready, &[], i64::from(is_ready));
        values.set(Family::CallsLeft, &[], i64::from(calls_left));
        values.to_string()
    }

    fn setup(&self) -> Result<Arc<Setup>, Failure> {
        lock(&self.setup).clone().ok_or_else(failure::not_ready)
    }

    fn client(&self) -> &Client {
        &self.backend.client
    }

    fn clock(&self) -> &dyn Clock {
        &*self.backend.clock
    }

    fn is_dry_run(&self) -> bool {
        self.backend.provider_settings.dry_run
    }

    /// Notes that a request failed before anything was planned.
    fn remember_failure(&self, failure: Failure) -> Failure {
        let reason = format!("the last request failed: {}", failure.text);
        lock(&self.last_loop).request.failure = Some(reason);
        failure
    }

    /// Runs writes. Snapshots that were read before or during the writes are outdated.
    fn run_writes<T>(&self, write: impl FnOnce() -> T) -> T {
        let _guard = WriteGuard::begin(&self.last_snapshot);
        write()
    }
}

/// What all calls of a request, or of a pass of the watch, have in common.
#[derive(Clone, Copy)]
struct CallContext<'a> {
    provider: &'a Provider,
    setup: &'a Setup,
    deadline: Deadline,
}

impl<'a> CallContext<'a> {
    fn client(self) -> &'a Client {
        self.provider.client()
    }

    fn now(self) -> Instant {
        self.provider.clock().now()
    }

    /// Runs the tasks, a few at a time, and returns their answers in the order of the tasks.
    fn in_parallel<T: Sync, A: Send + Sync>(self, tasks: &[T], run: impl Fn(&T) -> A + Sync) -> Vec<A> {
        in_parallel(self.provider.backend.provider_settings.parallel_calls, tasks, run)
    }

    fn time_left(self) -> Duration {
        self.deadline.remaining(self.provider.clock())
    }

    /// True if there is time for another write.
    fn has_time(self) -> bool {
        self.time_left() >= limits::WRITE_TIME_MIN
    }

    /// # Errors
    /// When there is no time for another write.
    fn check_time(self) -> Result<(), Error> {
        if self.has_time() { Ok(()) } else { Err(Error::OutOfTime) }
    }

    /// The same context with at most `limit` of the time that is left.
    fn within(self, limit: Duration) -> Self {
        Self { deadline: self.deadline.at_most(self.provider.clock(), limit), ..self }
    }

    /// Reads a snapshot of the present state, always with Access if `with_access`.
    fn read(self, with_access: bool) -> Result<Arc<Snapshot>, ReadError> {
        let Self { provider, setup: Setup { account, settings }, deadline } = self;
        let reading = lock(&provider.last_snapshot).drop_for_reading();
        let read = provider.backend.snapshot(account, settings, with_access, deadline);
        lock(&provider.last_loop).read_failure = read.as_ref().err().map(ToString::to_string);
        let snapshot = Arc::new(read?);
        provider.count_content(&snapshot);
        lock(&provider.last_snapshot).end_reading(&snapshot, reading);
        Ok(snapshot)
    }
}

impl Handler for Provider {
    fn domain_filter(&self) -> Box<str> {
        self.backend.provider_settings.operator.filter.to_json()
    }

    fn records(&self, deadline: Deadline) -> Result<Vec<Endpoint>, Failure> {
        let setup = self.setup()?;
        let context = CallContext { provider: self, setup: &setup, deadline };
        let snapshot = context.read(false).map_err(failure::unread)?;
        let shown = records::records(&snapshot);
        let mut values = self.metrics.update();
        values.set(Family::Unprotected, &[], shown.unprotected as i64);
        values.set(Family::UnneededApplications, &[], shown.unneeded_applications as i64);
        drop(values);
        self.remember(|last, now| last.begin(&shown.endpoints, shown.notes, now));
        Ok(shown.endpoints)
    }

    fn adjust_endpoints(&self, wanted: &Body, deadline: Deadline) -> Result<Vec<Endpoint>, Failure> {
        let settings = &self.setup()?.settings;
        let last = lock(&self.last_snapshot).unless_outdated();
        let clock = self.clock();
        let (adjusted, without_service) = adjust(wanted, settings, last.as_deref(), clock, deadline)?;
        self.remember(|last, now| last.remember_sent(&adjusted, without_service, now));
        // After the adjustment: the watch may delete applications from now on, and reads a second snapshot for that.
        if let Some(last) = &last {
            self.check_unneeded_applications(last);
        }
        self.metrics.update().set(Family::UnaskedProtections, &[], adjusted.unasked_protections as i64);
        Ok(adjusted.endpoints)
    }

    fn apply_changes(&self, changes: Body, deadline: Deadline) -> Result<(), Failure> {
        let setup = self.setup()?;
        let is_after_quiet_time = lock(&self.last_loop).request.begin();
        if is_after_quiet_time {
            lock(&self.write_memory).write_targets.forget_all();
        }
        let needed = bodies::needed_changes(changes, &setup.settings);
        let changes = needed.map_err(|failure| self.remember_failure(failure))?;
        request::apply(CallContext { provider: self, setup: &setup, deadline }, &changes)
    }
}
