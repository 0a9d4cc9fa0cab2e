//! Wires the parts together: opens the ports, checks the credentials in another thread, and stops after a signal.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use log::{info, warn};

use crate::clock::{Clock, SystemClock};
use crate::cloudflare::Client;
use crate::config::Config;
use crate::listener;
use crate::observe::metrics::Metrics;
use crate::observe::readiness::Readiness;
use crate::observe::responder::{self, RunningResponder};
use crate::observe::routes;
use crate::provider::Provider;
use crate::shutdown::{Shutdown, Signals};
use crate::webhook::server::{self, RunningServer, ServerSettings};

/// Serves until a signal ends it. Logging has started already.
///
/// # Errors
///
/// When a port cannot be bound, a thread cannot be started, or a part of the program cannot continue.
pub fn serve(config: Config) -> Result<(), String> {
    server::ignore_early_resets();
    let signals = Signals::install().map_err(refused)?;
    let running = Running::start(config, Arc::new(SystemClock), signals.shutdown.clone())?;
    let outcome = signals.wait().inspect(|signal| info!("stopping: {signal}"));
    running.stop();
    outcome.map(drop)
}

fn refused(error: io::Error) -> String {
    format!("the operating system refused a thread or a signal: {error}")
}

/// The message about a port that cannot be bound. The names of its two settings begin with `settings`.
fn unbound(addresses: &[SocketAddr], error: &io::Error, settings: &str) -> String {
    let addresses = listed(addresses);
    format!(
        "cannot listen on {addresses}: {error}; set {settings}_PORT to a free port above 1023, or \
         {settings}_HOST to an address of this machine"
    )
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The running program.
#[derive(Debug)]
pub struct Running {
    api: RunningServer,
    /// The addresses at which ExternalDNS reaches the API.
    pub api_addresses: Vec<SocketAddr>,
    observation: RunningResponder,
    /// The address at which probes reach the health routes, and Prometheus the metrics.
    pub metrics_address: SocketAddr,
    ending: Arc<AtomicBool>,
}

impl Running {
    /// Opens the ports and starts to answer. Credentials and tunnels are checked meanwhile; a part that cannot continue
    /// reports so through `shutdown`.
    ///
    /// # Errors
    ///
    /// When a port cannot be bound, or a thread cannot be started.
    pub fn start(config: Config, clock: Arc<dyn Clock>, shutdown: Shutdown) -> Result<Self, String> {
        let version = env!("CARGO_PKG_VERSION");
        let credential = config.credential_variable;
        match &config.client.proxy {
            Some(proxy) => info!(version:%, credential:%, proxy:%; "starting"),
            None => info!(version:%, credential:%; "starting"),
        }
        for warning in &config.warnings {
            warn!("{warning}");
        }
        // The ports are opened first, because ExternalDNS gives up if no port listens within four seconds.
        let metrics = Arc::new(Metrics::default());
        let Config {
            client,
            mut provider,
            request_timeout,
            api_addresses: addresses,
            metrics_address: address,
            ..
        } = config;
        let settings = ServerSettings {
            request_timeout,
            metrics: Arc::clone(&metrics),
            ..ServerSettings::new(addresses.clone())
        };
        let api = server::bind(settings).map_err(|error| unbound(&addresses, &error, "SERVER"))?;
        let observation = listener::bind(address).map_err(|error| unbound(&[address], &error, "METRICS"))?;
        let api_addresses: Vec<SocketAddr> = api.local_addrs().collect();
        let metrics_address = observation.local_addr().map_err(refused)?;
        info!(api:% = listed(&api_addresses), metrics:% = metrics_address; "listening");

        let readiness = Arc::new(Readiness::default());
        // The kernel has chosen a port for each setting of port 0.
        provider.operator.own_addresses = api_addresses.iter().copied().chain([metrics_address]).collect();
        let client = Client::new(client, Arc::clone(&clock), Arc::clone(&metrics));
        let provider =
            Provider::new(client, Arc::clone(&clock), provider, Arc::clone(&readiness), Arc::clone(&metrics));
        let provider = Arc::new(provider);
        let observed = Arc::clone(&provider);
        let routes = move |path: &str, is_command: bool| {
            let status = || routes::status_route(path, |hostname| observed.status(hostname));
            let other = || routes::route(path, &readiness, || observed.scrape());
            is_command.then(status).flatten().or_else(other)
        };
        let observation =
            responder::serve(observation, Arc::new(routes), Arc::clone(&clock)).map_err(refused)?;
        let api = api.serve(Arc::clone(&provider) as _, clock, shutdown.clone()).map_err(refused)?;
        let ending = Arc::new(AtomicBool::new(false));
        provider.watch(Arc::clone(&ending), shutdown).map_err(refused)?;
        Ok(Self { api, api_addresses, observation, metrics_address, ending })
    }

    /// Answers the requests in flight, and ends.
    pub fn stop(self) {
        self.ending.store(true, Ordering::Relaxed);
        if !self.api.stop() {
            warn!("the process ends although a request is still running");
        }
        self.observation.stop();
    }
}
