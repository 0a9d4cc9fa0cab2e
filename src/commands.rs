//! The commands other than `serve`. Each runs once, prints its result, and reports success by its exit code.
//!
//! None of the commands listens on a port, and only `tunnel` writes to Cloudflare.

mod check;
mod finding;
mod list;
mod status;
mod table;
mod tunnel;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use log::LevelFilter;

use self::tunnel::Outcome;
use crate::cli::Arguments;
use crate::clock::{Clock, Deadline};
use crate::cloudflare::Client;
use crate::config::Config;
use crate::logging;
use crate::reconcile::listing::listing;

pub use status::{healthcheck, status};

/// The time for `list`, or for one look of `tunnel`. A person waits, and an account may have a hundred zones.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause before a dry run looks again for a missing tunnel. If the command ended instead, Kubernetes would restart
/// the init container at growing intervals, and its pod would count as crashing.
const DRY_RUN_PAUSE: Duration = Duration::from_secs(60);

/// How a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One JSON document on one line.
    Json,
    /// A line for each row, for other programs.
    Lines,
    /// Rows for a person, with each long text below its row.
    Terminal,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The output on stdout: a table, or one JSON document.
    pub text: String,
    /// True if nothing failed.
    pub is_success: bool,
}

impl Report {
    fn json(document: &impl miniserde::Serialize, is_success: bool) -> Self {
        Self { text: miniserde::json::to_string(document) + "\n", is_success }
    }
}

/// Tries everything that can be tried without writing: credentials, account, tunnels and zones. The report gives the
/// remedy for each failure. `say` gets each row as soon as it is known; the report has the text below the rows.
pub fn check(config: Config, clock: Arc<dyn Clock>, layout: Layout, say: &mut dyn FnMut(&str)) -> Report {
    let client = client(&config, &clock);
    let (mut findings, mut links) = (Vec::new(), Vec::new());
    check::check(&client, &*clock, &config, &mut |finding| {
        if layout != Layout::Json {
            say(&finding.row(layout, &mut links));
        }
        findings.push(finding);
    });
    finding::report(&findings, layout, &links)
}

/// Shows everything in scope at Cloudflare, ours or not.
///
/// # Errors
/// When Cloudflare cannot be read.
pub fn list(config: Config, clock: Arc<dyn Clock>, arguments: &Arguments) -> Result<Report, String> {
    let deadline = Deadline::after(&*clock, COMMAND_TIMEOUT);
    let client = client(&config, &clock);
    let snapshot = list::read(client, clock, &config.provider, deadline)?;
    Ok(match arguments.form {
        Some(_) => {
            let namespace = arguments.namespace.as_deref().filter(|name| !name.is_empty());
            list::objects(&snapshot, namespace)
        }
        None => list::report(&listing(&snapshot), arguments.json),
    })
}

/// Finds the first tunnel of `CF_TUNNEL_ID`, or creates a tunnel of that name if the account has none. If a file is
/// given, the command writes the tunnel token into the file. A dry run creates no tunnel: without a file, the command
/// ends with an error; with a file, the command says once a minute that the tunnel is missing, until the tunnel is
/// there.
///
/// # Errors
/// When anything about the tunnel, its token or the file is in doubt.
pub fn tunnel(
    config: Config,
    clock: Arc<dyn Clock>,
    token_file: Option<&Path>,
    json: bool,
    say: &mut dyn FnMut(&str),
) -> Result<Report, String> {
    let client = client(&config, &clock);
    loop {
        let deadline = Deadline::after(&*clock, COMMAND_TIMEOUT);
        let not_created = match tunnel::tunnel(&client, &*clock, &config.provider, token_file, deadline)? {
            Outcome::Ready(ready) => return Ok(tunnel::report(&ready, json)),
            Outcome::NotCreated(text) if token_file.is_none() => return Err(text),
            Outcome::NotCreated(text) => text,
        };
        say(&format!("{not_created}; looking for it again in {} s", DRY_RUN_PAUSE.as_secs()));
        clock.sleep(DRY_RUN_PAUSE);
    }
}

/// The client of a command. Logging starts only at the level debug, because the report already says what an operator
/// needs.
fn client(config: &Config, clock: &Arc<dyn Clock>) -> Client {
    if config.log_level >= LevelFilter::Debug {
        logging::start(config.log_level, config.log_format);
    }
    Client::new(config.client.clone(), Arc::clone(clock), Arc::default())
}
