//! Parses the command line, runs the command, and turns its outcome into an exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use argh::EarlyExit;
use external_dns_cloudflare_tunnel_webhook::cli::{self, Arguments, Command};
use external_dns_cloudflare_tunnel_webhook::clock::SystemClock;
use external_dns_cloudflare_tunnel_webhook::commands::{self, Report};
use external_dns_cloudflare_tunnel_webhook::config::{self, Config, Variables};
use external_dns_cloudflare_tunnel_webhook::logging;
use external_dns_cloudflare_tunnel_webhook::serve;

/// The configuration is invalid: EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;

/// The exit code of a failure, and what is still to be said of it.
struct Failure {
    code: u8,
    said: Vec<String>,
}

/// Mistakes that no restart repairs.
impl From<Vec<String>> for Failure {
    fn from(said: Vec<String>) -> Self {
        Self { code: EXIT_USAGE, said }
    }
}

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Self { code: 1, said: vec![problem] }
    }
}

fn main() -> ExitCode {
    // Text that is not Unicode must not count as absent, because a filter would then be missing.
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let mut variables = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let outcome = match cli::parse(std::env::args_os().skip(1).map(text), &mut variables) {
        Ok((command, arguments)) => run(command, &arguments, &variables),
        Err(EarlyExit { output, status: Ok(()) }) => print(&output),
        Err(EarlyExit { output, status: Err(()) }) => Err(vec![output].into()),
    };
    // Log lines come before the program's last words.
    log::logger().flush();
    let Err(Failure { code, said }) = outcome else { return ExitCode::SUCCESS };
    for problem in said {
        let _ = writeln!(io::stderr(), "{}", problem.trim_end());
    }
    ExitCode::from(code)
}

fn run(command: Command, arguments: &Arguments, variables: &Variables) -> Result<(), Failure> {
    let (clock, json) = (Arc::new(SystemClock), arguments.json);
    match command {
        Command::Serve => serve(Config::read(variables)?),
        Command::Check => show(commands::check(Config::read(variables)?, clock, json)?),
        Command::List => show(commands::list(warned(Config::read(variables)?), clock, json)?),
        Command::Tunnel => {
            let file = arguments.token_file.as_deref().map(commands::token_file).transpose();
            let file = file.map_err(|problem| vec![problem])?;
            show(commands::tunnel(warned(Config::read(variables)?), clock, file.as_deref(), json)?)
        }
        Command::Healthcheck => Ok(commands::healthcheck(config::observation_address(variables)?, &*clock)?),
        Command::Version => print(concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"), "\n")),
    }
}

/// Says what an operator should know although nothing is wrong. `serve` logs it, and `check` lists it.
fn warned(config: Config) -> Config {
    for warning in &config.warnings {
        let _ = writeln!(io::stderr(), "{warning}");
    }
    config
}

fn serve(config: Config) -> Result<(), Failure> {
    logging::start(config.log_level, config.log_format)
        .map_err(|error| format!("cannot start the log's thread: {error}"))?;
    serve::serve(config).map_err(|error| {
        log::error!("{error}");
        Failure { code: 1, said: Vec::new() }
    })
}

fn show(Report { text, is_well }: Report) -> Result<(), Failure> {
    print(&text)?;
    if is_well { Ok(()) } else { Err(Failure { code: 1, said: Vec::new() }) }
}

/// A reader that has gone away is not an error of ours; a full disk is one.
fn print(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("the output: {error}").into()),
        _ => Ok(()),
    }
}
