//! The commands beside `serve`: each works once, prints, and reports success by its exit code.
//!
//! None of them listens, and only `tunnel` writes to Cloudflare.

mod check;
mod finding;
mod healthcheck;
mod list;
mod table;
mod tunnel;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use log::LevelFilter;

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, ClientError};
use crate::config::Config;
use crate::limits;
use crate::logging;

pub use healthcheck::healthcheck;
pub use tunnel::token_file;

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The output on stdout: a table, or one JSON document.
    pub text: String,
    /// True if nothing failed.
    pub is_well: bool,
}

impl Report {
    /// One JSON document, on a line.
    fn json(document: &impl miniserde::Serialize, is_well: bool) -> Self {
        Self { text: miniserde::json::to_string(document) + "\n", is_well }
    }

    /// A line for each row.
    fn table(rows: &[Vec<String>], is_well: bool) -> Self {
        Self { text: table::render(rows), is_well }
    }
}

/// The reason why a command has no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The client's settings are invalid.
    Client(ClientError),
    /// It could not do what it is for. The text says why.
    Failed(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(formatter),
            Self::Failed(problem) => formatter.write_str(problem),
        }
    }
}

impl std::error::Error for CommandError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            Self::Failed(_) => None,
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
pub fn check(config: Config, clock: Arc<dyn Clock>, json: bool) -> Result<Report, CommandError> {
    start_logging_calls(&config)?;
    let (client, settings) = check::CheckSettings::from_config(config);
    let client = Client::new(client, Arc::clone(&clock))?;
    Ok(finding::report(&check::check(&client, &*clock, &settings), json))
}

/// Shows everything in scope at Cloudflare, ours or not.
///
/// # Errors
///
/// When a setting of the client is invalid, or Cloudflare cannot be read.
pub fn list(config: Config, clock: Arc<dyn Clock>, json: bool) -> Result<Report, CommandError> {
    start_logging_calls(&config)?;
    let deadline = Deadline::after(&*clock, limits::COMMAND_TIMEOUT);
    let client = Arc::new(Client::new(config.client, Arc::clone(&clock))?);
    let entries = list::entries(&client, clock, &config.provider, deadline).map_err(CommandError::Failed)?;
    Ok(list::report(&entries, json))
}

/// Finds the first tunnel of `CF_TUNNEL_ID`, or makes it if that is the name of none, and writes its run token into a
/// file if one is given.
///
/// # Errors
///
/// When a setting of the client is invalid, or when anything about the tunnel, its token or the file is in doubt.
pub fn tunnel(
    config: Config,
    clock: Arc<dyn Clock>,
    token_file: Option<&Path>,
    json: bool,
) -> Result<Report, CommandError> {
    start_logging_calls(&config)?;
    let deadline = Deadline::after(&*clock, limits::COMMAND_TIMEOUT);
    let client = Client::new(config.client, Arc::clone(&clock))?;
    let outcome = tunnel::tunnel(&client, &*clock, &config.provider, token_file, deadline)
        .map_err(CommandError::Failed)?;
    Ok(tunnel::report(&outcome, json))
}

/// Logs calls only on request, because the report already says what an operator needs.
fn start_logging_calls(config: &Config) -> Result<(), CommandError> {
    if config.log_level < LevelFilter::Debug {
        return Ok(());
    }
    logging::start(config.log_level, config.log_format)
        .map_err(|error| CommandError::Failed(format!("cannot start the log's thread: {error}")))
}
