//! The commands beside `serve`: each looks once, prints, and reports success by its exit code.
//!
//! None of them writes to Cloudflare or listens.

mod check;
mod finding;
mod healthcheck;
mod list;
mod table;

use std::fmt;
use std::sync::Arc;

use log::LevelFilter;

use crate::clock::{Deadline, SystemClock};
use crate::cloudflare::{Client, ClientError};
use crate::config::Config;
use crate::limits;
use crate::logging;

pub use healthcheck::healthcheck;

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The output on stdout: a table, or one JSON document.
    pub text: String,
    /// True if nothing failed.
    pub is_well: bool,
}

/// The reason why a command has no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The client's settings are invalid.
    Client(ClientError),
    /// The data that it should show cannot be read.
    Unreadable(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(formatter),
            Self::Unreadable(problem) => formatter.write_str(problem),
        }
    }
}

impl std::error::Error for CommandError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            Self::Unreadable(_) => None,
        }
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// Tries everything that can be tried without writing: credentials, account, tunnels and zones. The report gives the
/// remedy for each failure.
pub fn check(config: Config, json: bool) -> Result<Report, CommandError> {
    start_logging_calls(&config)?;
    let clock = Arc::new(SystemClock);
    let (client, settings) = check::CheckSettings::from_config(config);
    let client = Client::new(client, Arc::clone(&clock) as _)?;
    Ok(finding::report(&check::check(&client, &*clock, &settings), json))
}

/// Shows everything in scope at Cloudflare, ours or not.
///
/// # Errors
///
/// When a setting of the client is invalid, or Cloudflare cannot be read.
pub fn list(config: Config, json: bool) -> Result<Report, CommandError> {
    start_logging_calls(&config)?;
    let clock = Arc::new(SystemClock);
    let deadline = Deadline::after(&*clock, limits::COMMAND_TIMEOUT);
    let client = Arc::new(Client::new(config.client, Arc::clone(&clock) as _)?);
    let entries =
        list::entries(&client, clock, &config.provider, deadline).map_err(CommandError::Unreadable)?;
    Ok(list::report(&entries, json))
}

/// Logs calls only on request, because the report already says what an operator needs.
fn start_logging_calls(config: &Config) -> Result<(), CommandError> {
    if config.log_level < LevelFilter::Debug {
        return Ok(());
    }
    logging::start(config.log_level, config.log_format)
        .map_err(|error| CommandError::Unreadable(format!("cannot start the log's thread: {error}")))
}
