//! Wires the parts: opens the ports, checks the credentials beside them, and stops when it is told to.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use log::{LevelFilter, info, warn};
use simple_logger::SimpleLogger;

use crate::clock::{Clock, Deadline, SystemClock};
use crate::cloudflare::{Client, ClientError, ClientSettings, USER_AGENT};
use crate::config::Config;
use crate::limits;
use crate::listener::BindError;
use crate::observe::health::Health;
use crate::observe::responder;
use crate::provider::Provider;
use crate::shutdown::{Cause, Signals};
use crate::webhook::server::{self, ServerSettings};

/// Why the program could not start or go on.
#[derive(Debug)]
pub enum ServeError {
    /// A port cannot be had.
    Bind(BindError),
    /// The client's settings are wrong.
    Client(ClientError),
    /// A thread or a signal handler cannot be had.
    System(io::Error),
    /// A part of the program ended that must not.
    Ended(String),
}

impl fmt::Display for ServeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(error) => error.fmt(formatter),
            Self::Client(error) => error.fmt(formatter),
            Self::System(error) => {
                write!(formatter, "the operating system refused a thread or a signal: {error}")
            }
            Self::Ended(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind(error) => Some(error),
            Self::Client(error) => Some(error),
            Self::System(error) => Some(error),
            Self::Ended(_) => None,
        }
    }
}

impl From<BindError> for ServeError {
    fn from(error: BindError) -> Self {
        Self::Bind(error)
    }
}

impl From<ClientError> for ServeError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Serves until a signal ends it.
///
/// # Errors
///
/// When a port or a thread cannot be had, or when a part of the program ends that must not.
pub fn serve(config: Config) -> Result<(), ServeError> {
    start_logging(config.log_level);
    let signals = Signals::install()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    for warning in &config.warnings {
        warn!("{warning}");
    }
    // The ports first: ExternalDNS gives up when nobody listens within four seconds.
    let settings = ServerSettings {
        request_timeout: config.request_timeout,
        ..ServerSettings::new(config.api_addresses)
    };
    let api = server::bind(settings)?;
    let observation = responder::bind(config.observation_address)?;
    let api_addresses: Vec<String> = api.local_addrs().map(|address| address.to_string()).collect();
    info!("listening api={} observation={}", api_addresses.join(","), observation.local_addr());

    let health = Arc::new(Health::default());
    let client = Client::new(
        ClientSettings {
            base_url: config.api_base_url,
            credentials: config.credentials,
            ca_file: config.ca_file,
            user_agent: USER_AGENT.to_owned(),
        },
        Arc::clone(&clock),
    )?;
    let provider = Arc::new(Provider::new(client, Arc::clone(&clock), config.wanted, Arc::clone(&health)));
    let probes = Arc::clone(&health);
    let observation =
        observation.serve(Arc::new(move |path: &str| probes.route(path)), Arc::clone(&clock))?;
    let api = api.serve(Arc::clone(&provider) as _, Arc::clone(&clock), signals.shutdown())?;
    let ending = Arc::new(AtomicBool::new(false));
    spawn_resolver(&provider, &clock, &ending)?;

    let cause = signals.wait();
    ending.store(true, Ordering::Relaxed);
    info!("ending on {cause}");
    if !api.stop(config.request_timeout) {
        warn!("a request was still in hand when its time was over");
    }
    observation.stop();
    match cause {
        Cause::Signal(_) => Ok(()),
        Cause::Failure(reason) => Err(ServeError::Ended(reason)),
    }
}

/// Warnings and worse of the libraries; of this program, what `level` says.
fn start_logging(level: LevelFilter) {
    let libraries = level.min(LevelFilter::Warn);
    let logger = ["ureq", "ureq_proto", "rustls", "tiny_http"]
        .into_iter()
        .fold(SimpleLogger::new().with_level(level), |logger, module| {
            logger.with_module_level(module, libraries)
        });
    if logger.init().is_err() {
        // Somebody who embeds the library has set one already.
        log::set_max_level(level);
    }
}

/// Tries until the token was taken and the tunnels were found. The thread is not waited for at the end: whatever it
/// does is a read.
fn spawn_resolver(
    provider: &Arc<Provider>,
    clock: &Arc<dyn Clock>,
    ending: &Arc<AtomicBool>,
) -> io::Result<()> {
    let (provider, clock, ending) = (Arc::clone(provider), Arc::clone(clock), Arc::clone(ending));
    thread::Builder::new().name("resolve".to_owned()).spawn(move || {
        let mut pause = limits::START_PAUSE_MIN;
        while !ending.load(Ordering::Relaxed) {
            if provider.resolve(Deadline::after(&*clock, limits::START_TIMEOUT)) {
                return;
            }
            clock.sleep(pause);
            pause = (pause * 2).min(limits::START_PAUSE_MAX);
        }
    })?;
    Ok(())
}
