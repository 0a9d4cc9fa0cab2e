//! Parses the command line, runs the command, and turns its outcome into an exit code.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use external_dns_cloudflare_tunnel_webhook::cli::{self, CliExit, Command};
use external_dns_cloudflare_tunnel_webhook::clock::SystemClock;
use external_dns_cloudflare_tunnel_webhook::commands::{self, CommandError, Report};
use external_dns_cloudflare_tunnel_webhook::config::{self, Config, Environment, Mistake};
use external_dns_cloudflare_tunnel_webhook::logging;
use external_dns_cloudflare_tunnel_webhook::regular_file;
use external_dns_cloudflare_tunnel_webhook::serve::{self, ServeError};

/// The configuration is invalid: EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let (command, arguments) =
        match cli::parse(std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()))
        {
            Ok(read) => read,
            Err(CliExit::Help(text)) => return print(&text),
            Err(CliExit::Mistake(text)) => return complain([text]),
        };
    let json = arguments.json;
    let config = || Config::read(&arguments, &ProcessEnvironment);
    let clock = Arc::new(SystemClock);
    match command {
        Command::Serve => configured(config(), serve),
        Command::Check => configured(config(), |config| show(commands::check(config, clock, json))),
        Command::List => configured(config(), |config| show(commands::list(warned(config), clock, json))),
        Command::Tunnel => match arguments.token_file.as_deref().map(commands::token_file).transpose() {
            Ok(file) => configured(config(), |config| {
                let config = warned(config);
                show(commands::tunnel(config, clock, file.as_deref(), json))
            }),
            Err(problem) => complain([problem]),
        },
        Command::Healthcheck => {
            configured(config::observation_address(&arguments, &ProcessEnvironment), |address| {
                commands::healthcheck(address, &*clock)
                    .map_or_else(|problem| fail(&problem), |()| ExitCode::SUCCESS)
            })
        }
        Command::Version => print(concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"), "\n")),
    }
}

fn configured<C>(config: Result<C, Vec<Mistake>>, run: impl FnOnce(C) -> ExitCode) -> ExitCode {
    config.map_or_else(complain, run)
}

/// Says what an operator should know although nothing is wrong. `serve` logs it, and `check` lists it.
fn warned(config: Config) -> Config {
    for warning in &config.warnings {
        let _ = writeln!(io::stderr(), "{warning}");
    }
    config
}

fn serve(config: Config) -> ExitCode {
    if let Err(error) = logging::start(config.log_level, config.log_format) {
        return fail(&format!("cannot start the log's thread: {error}"));
    }
    let code = match serve::serve(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error}");
            match error {
                // The API's address or the file of authorities is invalid, and will still be so at the next start.
                ServeError::Client(_) => ExitCode::from(EXIT_USAGE),
                _ => ExitCode::FAILURE,
            }
        }
    };
    log::logger().flush();
    code
}

fn show(report: Result<Report, CommandError>) -> ExitCode {
    // Log lines come before the program's last words.
    log::logger().flush();
    match report {
        Ok(Report { text, is_well }) => {
            let printed = print(&text);
            if is_well { printed } else { ExitCode::FAILURE }
        }
        Err(CommandError::Client(error)) => complain([error]),
        Err(CommandError::Failed(problem)) => fail(&problem),
    }
}

/// A reader that has gone away is not an error of ours; a full disk is one.
fn print(text: &str) -> ExitCode {
    let mut output = io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&format!("the output: {error}")),
        _ => ExitCode::SUCCESS,
    }
}

fn fail(problem: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "{problem}");
    ExitCode::FAILURE
}

fn complain<T: ToString>(mistakes: impl IntoIterator<Item = T>) -> ExitCode {
    for mistake in mistakes {
        let _ = writeln!(io::stderr(), "{}", mistake.to_string().trim_end());
    }
    ExitCode::from(EXIT_USAGE)
}

struct ProcessEnvironment;

#[allow(clippy::disallowed_methods, reason = "the one place that reads the process's environment")]
impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        // Text that is not Unicode must not count as absent, because a filter would then be missing.
        std::env::var_os(name).map(|text| text.to_string_lossy().into_owned())
    }

    fn names(&self) -> Vec<String> {
        std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
    }

    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        regular_file::read(path, max_bytes)
    }
}
