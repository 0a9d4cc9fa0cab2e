//! Parses the command line, runs the command, and turns its outcome into an exit code.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use argh::EarlyExit;
use external_dns_cloudflare_tunnel_webhook::cli::{self, Arguments, Command};
use external_dns_cloudflare_tunnel_webhook::clock::SystemClock;
use external_dns_cloudflare_tunnel_webhook::commands::{self, Layout, Report};
use external_dns_cloudflare_tunnel_webhook::config::{self, Config, Variables};
use external_dns_cloudflare_tunnel_webhook::logging;
use external_dns_cloudflare_tunnel_webhook::secret::redact;
use external_dns_cloudflare_tunnel_webhook::{serve, shutdown};

/// The configuration is invalid: EX_USAGE of sysexits.h.
const EXIT_USAGE: u8 = 64;

/// `status` found no running instance: EX_UNAVAILABLE of sysexits.h.
const EXIT_UNAVAILABLE: u8 = 69;

/// The exit code, and the messages to print before.
type Exit = (u8, Vec<String>);

fn usage(mistakes: Vec<String>) -> Exit {
    (EXIT_USAGE, mistakes)
}

fn failed(problem: String) -> Exit {
    (1, vec![problem])
}

fn main() -> ExitCode {
    // Text that is not Unicode must not count as absent, because a filter would then be missing.
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let mut variables = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let outcome = match cli::parse(std::env::args_os().skip(1).map(text), &mut variables) {
        Ok((command, arguments)) => run(command, &arguments, &variables),
        Err(EarlyExit { output, status: Ok(()) }) => print(&output),
        Err(EarlyExit { output, status: Err(()) }) => Err(usage(vec![output])),
    };
    let Err((code, said)) = outcome else { return ExitCode::SUCCESS };
    for problem in said {
        let _ = writeln!(io::stderr(), "{}", redact(problem.trim_end()));
    }
    ExitCode::from(code)
}

fn run(command: Command, arguments: &Arguments, variables: &Variables) -> Result<(), Exit> {
    let config = || Config::read(variables).map_err(usage);
    let clock = Arc::new(SystemClock);
    let json = arguments.json;
    let layout = match (json, io::stdout().is_terminal()) {
        (true, _) => Layout::Json,
        (false, true) => Layout::Terminal,
        (false, false) => Layout::Lines,
    };
    if command != Command::Serve {
        shutdown::end_on_signals()
            .map_err(|error| failed(format!("cannot install the signal handlers: {error}")))?;
    }
    let report = match command {
        Command::Serve => return serve(config()?),
        Command::Healthcheck => {
            let address = config::metrics_address(variables).map_err(usage)?;
            return commands::healthcheck(address).map_err(failed);
        }
        Command::Version => {
            return print(concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"), "\n"));
        }
        Command::Status => {
            let address = config::metrics_address(variables).map_err(usage)?;
            let hostname = arguments.words.get(1).map(String::as_str);
            commands::status(address, &*clock, hostname, layout)
                .map_err(|problem| (EXIT_UNAVAILABLE, vec![problem]))
        }
        Command::Check => {
            let mut unprinted = None;
            let say = &mut |row: &str| unprinted = unprinted.take().or_else(|| print(row).err());
            let report = commands::check(config()?, clock, layout, say);
            unprinted.map_or(Ok(report), Err)
        }
        Command::List => commands::list(warned(config()?), clock, arguments).map_err(failed),
        Command::Tunnel => {
            let file = arguments.token_file.as_deref().map(Path::new);
            let say = &mut |text: &str| drop(writeln!(io::stderr(), "{}", redact(text)));
            commands::tunnel(warned(config()?), clock, file, json, say).map_err(failed)
        }
    };
    let Report { text, is_success } = report?;
    print(&text)?;
    if is_success { Ok(()) } else { Err((1, Vec::new())) }
}

/// Prints the warnings of the configuration. `serve` logs them instead, and `check` lists them.
fn warned(config: Config) -> Config {
    for warning in &config.warnings {
        let _ = writeln!(io::stderr(), "{}", redact(warning));
    }
    config
}

fn serve(config: Config) -> Result<(), Exit> {
    logging::start(config.log_level, config.log_format);
    serve::serve(config).map_err(|error| {
        log::error!("{error}");
        (1, Vec::new())
    })
}

/// A closed pipe is no failure of this program. Any other error, such as a full disk, is one.
fn print(text: &str) -> Result<(), Exit> {
    let mut output = io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failed(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}
