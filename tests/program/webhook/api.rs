//! The API port with a service that does what a test says.
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use external_dns_cloudflare_tunnel_webhook::clock::{Clock, Deadline};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};
use external_dns_cloudflare_tunnel_webhook::shutdown::Shutdown;
use external_dns_cloudflare_tunnel_webhook::webhook::body::Body;
use external_dns_cloudflare_tunnel_webhook::webhook::server::{self, RunningServer, ServerSettings};
use external_dns_cloudflare_tunnel_webhook::webhook::{Failure, Handler};
use test_support::log::system_clock;

type Records = dyn Fn() -> Result<Vec<Endpoint>, Failure> + Send + Sync;

/// Answers `/records` as told, echoes `/adjustendpoints`, keeps what it is asked to apply.
pub(crate) struct Fake {
    pub(crate) records: Box<Records>,
    pub(crate) applied: Mutex<Vec<Changes>>,
}

impl Fake {
    pub(crate) fn new(
        records: impl Fn() -> Result<Vec<Endpoint>, Failure> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { records: Box::new(records), applied: Mutex::default() })
    }

    pub(crate) fn empty() -> Arc<Self> {
        Self::new(|| Ok(Vec::new()))
    }
}

impl Handler for Fake {
    fn domain_filter(&self) -> Box<str> {
        r#"{"include":["example.com"]}"#.into()
    }

    fn records(&self, _: Deadline) -> Result<Vec<Endpoint>, Failure> {
        (self.records)()
    }

    fn adjust_endpoints(&self, wanted: &Body, _: Deadline) -> Result<Vec<Endpoint>, Failure> {
        let mut endpoints = Vec::new();
        wanted.for_each_wanted(&mut |arrived| endpoints.push(arrived.endpoint))?;
        Ok(endpoints)
    }

    fn apply_changes(&self, body: Body, _: Deadline) -> Result<(), Failure> {
        let mut changes = Changes::default();
        let lists = body.changes()?;
        lists.for_each_wanted(&mut |received| changes.wanted.push(received.endpoint))?;
        lists.for_each_deleted(&mut |received| changes.deleted.push(received.endpoint))?;
        self.applied.lock().unwrap().push(changes);
        Ok(())
    }
}

/// An API port at work.
pub(crate) struct Api {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) shutdown: Shutdown,
    pub(crate) running: RunningServer,
}

/// Settings for a port of 127.0.0.1.
pub(crate) fn settings() -> ServerSettings {
    ServerSettings::new(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))])
}

pub(crate) fn start(settings: ServerSettings, service: Arc<Fake>) -> Api {
    start_by(system_clock(), settings, service)
}

pub(crate) fn start_by(clock: Arc<dyn Clock>, settings: ServerSettings, service: Arc<Fake>) -> Api {
    let bound = server::bind(settings).expect("loopback is there");
    let addresses = bound.local_addrs().collect();
    let shutdown = Shutdown::default();
    let running = bound.serve(service, clock, shutdown.clone()).expect("threads can be started");
    Api { addresses, shutdown, running }
}

impl Api {
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    pub(crate) fn assert_nothing_failed(&self) {
        assert_eq!(self.shutdown.failure(), None);
    }

    /// Why the server says that it cannot go on, once it does.
    #[allow(clippy::disallowed_methods, reason = "the server has threads of its own")]
    pub(crate) fn wait_for_failure(&self, limit: Duration) -> Option<String> {
        let begin = Instant::now();
        while self.shutdown.failure().is_none() && begin.elapsed() < limit {
            thread::sleep(Duration::from_millis(5));
        }
        self.shutdown.failure()
    }
}

/// An endpoint called `name`.
pub(crate) fn endpoint(name: impl Into<String>) -> Endpoint {
    Endpoint {
        dns_name: name.into(),
        record_type: "CNAME".to_owned(),
        targets: vec!["c0ffee00-0000-4000-8000-000000000001.cfargotunnel.com".to_owned()],
        ..Endpoint::default()
    }
}
