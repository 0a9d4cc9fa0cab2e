//! Parses the command line: a command, with flags before or after it. Every setting that holds no secret has a flag,
//! which overrides the environment variable.

use std::fmt::Write;

use argh::{EarlyExit, FromArgs};

use crate::config::Variables;
use crate::config::names::{flag, flags};
use crate::model::hostname::HOSTNAME_MAX_BYTES;
use crate::model::text::{nearest, quoted};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve ExternalDNS.
    Serve,
    /// Check if this program could serve.
    Check,
    /// Show what Cloudflare has.
    List,
    /// Find or create the tunnel, and write its tunnel token.
    Tunnel,
    /// Ask a running instance if it is alive.
    Healthcheck,
    /// Ask a running instance what is not published, and why.
    Status,
    /// Print the version.
    Version,
}

/// A longer name of a flag may be a secret. Cloudflare's tokens and keys have 37 characters or more.
const NAME_MAX_BYTES: usize = 36;

/// The flags that take no value. argh would read a value as a command.
const SWITCHES: [&str; 2] = ["--json", "--version"];

const COMMANDS: [(&str, Command); 6] = [
    ("serve", Command::Serve),
    ("check", Command::Check),
    ("list", Command::List),
    ("tunnel", Command::Tunnel),
    ("healthcheck", Command::Healthcheck),
    ("status", Command::Status),
];

impl Command {
    /// The command that the words name.
    fn of(words: &[String]) -> Result<Self, String> {
        let Some((word, rest)) = words.split_first() else { return Ok(Self::Serve) };
        let known = COMMANDS.iter().find(|(name, _)| name == word);
        let (_, command) = known.ok_or_else(|| unknown(word))?;
        match (command, rest) {
            (_, []) => Ok(*command),
            (Self::Status, [hostname]) => match hostname.chars().count() {
                1..=HOSTNAME_MAX_BYTES => Ok(Self::Status),
                _ => Err(format!("status takes a hostname of at most {HOSTNAME_MAX_BYTES} characters")),
            },
            (Self::Tunnel, [_]) => {
                Err("the command tunnel takes no name: set CF_TUNNEL_ID or --cf-tunnel-id=NAME".to_owned())
            }
            _ => Err("there is more than one command; see --help".to_owned()),
        }
    }
}

/// The parsed command line, without settings.
#[derive(Debug, FromArgs)]
#[argh(
    help_triggers("-h", "--help"),
    usage = "[<command>] [<flags>]",
    description = "Publishes hostnames through Cloudflare Tunnels, as a webhook provider of ExternalDNS.

Commands:
  serve             serve ExternalDNS; the default
  check             try the token, the tunnels and the zones, and say what to do
                    about each failure; writes nothing
  list              show what Cloudflare has, ours and foreign; writes nothing;
                    with --as=dnsendpoint, print foreign rules as objects
  tunnel            find the first tunnel of CF_TUNNEL_ID, or create it if no
                    tunnel has that name; with --token-file, write the token
                    with which cloudflared runs
  healthcheck       ask a running instance on this machine if it is alive
  status            ask a running instance what is not published, and why; with
                    a hostname after the command, ask for its state

Every setting can be given as the environment variable named behind its flag;
lists are separated by commas. The token comes from CF_API_TOKEN (a token, or
file:/path) or from the file that CF_API_TOKEN_FILE names."
)]
pub struct Arguments {
    /// command to run (default: serve), and the hostname of status
    #[argh(positional, arg_name = "command")]
    pub words: Vec<String>,
    /// print the version and exit
    #[argh(switch)]
    pub version: bool,
    /// check, list, tunnel and status: print one JSON document instead of a table
    #[argh(switch)]
    pub json: bool,
    /// tunnel: file for the tunnel token, which cloudflared reads as its own --token-file
    #[argh(option)]
    pub token_file: Option<String>,
    /// list: with dnsendpoint, print the foreign rules as DNSEndpoints that publish them
    #[argh(option, long = "as")]
    pub form: Option<String>,
    /// list: namespace of these objects (for NAMESPACE_GUARD: "default")
    #[argh(option)]
    pub namespace: Option<String>,
}

/// Reads the arguments after the program's name. A setting given as a flag replaces its variable.
///
/// # Errors
/// The text with which the program ends before any setting is read: help, or a mistake.
pub fn parse(
    arguments: impl IntoIterator<Item = String>,
    variables: &mut Variables,
) -> Result<(Command, Arguments), EarlyExit> {
    let rest = take_settings(arguments, variables)?;
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let arguments = Arguments::from_args(&[env!("CARGO_PKG_NAME")], &rest).map_err(|mut exit| {
        if let Some(flag) = exit.output.trim_end().strip_prefix("Unrecognized argument: ") {
            exit.output = unknown(flag);
        } else if exit.status.is_ok() {
            exit.output += &settings_help();
        }
        exit
    })?;
    let command = if arguments.version { Command::Version } else { Command::of(&arguments.words)? };
    let with_json = [Command::Check, Command::List, Command::Tunnel, Command::Status];
    let is_list = command == Command::List && !arguments.json;
    // A bad path is empty, is a flag, is `-` for standard output, or was not Unicode.
    let is_bad =
        |path: &str| path.is_empty() || path.starts_with('-') || path.contains(char::REPLACEMENT_CHARACTER);
    let problem = if arguments.json && !with_json.contains(&command) {
        "--json goes with the commands check, list, tunnel and status"
    } else if arguments.form.as_deref().is_some_and(|form| !is_list || form != "dnsendpoint") {
        "--as=dnsendpoint goes with the command list, without --json"
    } else if arguments.namespace.is_some() && arguments.form.is_none() {
        "--namespace goes with list --as=dnsendpoint; the guard is --namespace-guard"
    } else if arguments.token_file.is_some() && command != Command::Tunnel {
        "--token-file goes with the command tunnel; the file of the API token is --cf-api-token-file"
    } else if arguments.token_file.as_deref().is_some_and(is_bad) {
        "--token-file takes a path in UTF-8; write a path that begins with a hyphen as ./-name"
    } else {
        return Ok((command, arguments));
    };
    Err(problem.to_owned().into())
}

/// Moves the values of settings to their variables, and returns the other arguments for argh. argh reads only
/// `--flag value`, and Kubernetes manifests mostly say `--flag=value`, so flag and value are split. About an unknown
/// flag, argh then repeats only the name, and not the secret behind it.
fn take_settings(
    arguments: impl IntoIterator<Item = String>,
    variables: &mut Variables,
) -> Result<Vec<String>, String> {
    let (mut taken, mut rest) = (Vec::new(), Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name.to_owned(), Some(value.to_owned())),
            _ => (argument, None),
        };
        if value.is_some() && SWITCHES.contains(&&*name) {
            return Err(format!("{name} takes no value: write it alone, or leave it out"));
        }
        let Some((variable, _)) = flags().find(|(variable, _)| flag(variable) == name) else {
            rest.push(name);
            rest.extend(value);
            continue;
        };
        // A value that begins with two hyphens is written behind a `=`. Otherwise the flag would take the next flag.
        let next = || arguments.next().filter(|next| !next.starts_with("--"));
        let value = value.or_else(next).filter(|_| !taken.contains(&variable));
        let value = value.ok_or_else(|| {
            format!("{name} takes exactly one value, as in --dry-run=true or --domain-filter=a,b")
        })?;
        taken.push(variable);
        // A template renders an unset value as an empty one.
        if !value.trim().is_empty() {
            variables.insert(variable.to_owned(), value);
        }
    }
    Ok(rest)
}

fn settings_help() -> String {
    let mut text = "\nSettings:\n".to_owned();
    for (variable, help) in flags() {
        let _ = writeln!(text, "  {}  [{variable}]\n      {help}", flag(variable));
    }
    text
}

/// The message about an unknown flag or command. It leaves out the value of a flag, and a word that resembles neither
/// a command nor a setting, because each may be a secret.
fn unknown(given: &str) -> String {
    let (name, _) = given.split_once('=').unwrap_or((given, ""));
    let (kind, known) = if name.starts_with('-') {
        ("flag", nearest_flag(name).or_else(|| (name.len() <= NAME_MAX_BYTES).then(|| "--help".to_owned())))
    } else {
        let command = nearest(name, COMMANDS.iter().map(|(known, _)| *known), name.len() / 3);
        ("command", command.map(str::to_owned).or_else(|| nearest_flag(name)))
    };
    match known {
        Some(known) => format!("{} is no {kind}; see {known}", quoted(name)),
        None => format!("there is no such {kind}; see --help"),
    }
}

/// The flag that a name resembles.
fn nearest_flag(given: &str) -> Option<String> {
    let name = given.trim_start_matches('-').to_ascii_uppercase().replace('-', "_");
    let variables = || flags().map(|(variable, _)| variable);
    // A secret has no flag, but the flag of the secret's file begins with the same name.
    let begins = variables().filter(|known| name.len() > 2 && known.starts_with(&name));
    begins.min_by_key(|known| known.len()).or_else(|| nearest(&name, variables(), name.len() / 3)).map(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<(Command, Arguments), EarlyExit> {
        parse(arguments.iter().map(ToString::to_string), &mut Variables::new())
    }

    fn mistake(arguments: &[&str]) -> String {
        let Err(EarlyExit { output: text, status: Err(()) }) = read(arguments) else {
            panic!("{arguments:?} is taken")
        };
        text
    }

    fn help() -> String {
        let Err(EarlyExit { output: text, status: Ok(()) }) = read(&["--help"]) else {
            panic!("help was asked for")
        };
        text
    }

    #[test]
    fn both_forms_of_a_flag_are_read_before_and_behind_the_command_and_count_before_the_variable() {
        for (arguments, id) in [
            (&["check", "--json", "--cf-tunnel-id", "home"][..], "home"),
            (&["--json", "--cf-tunnel-id=home=2", "check"], "home=2"),
            // Templates leave such a flag for an unset value.
            (&["--cf-tunnel-id=", "check", "--json"], "office"),
        ] {
            let mut variables = Variables::from([("CF_TUNNEL_ID".to_owned(), "office".to_owned())]);
            let read = parse(arguments.iter().map(ToString::to_string), &mut variables);
            let (command, read) = read.expect("the arguments are well-formed");
            assert_eq!((command, read.json, &*variables["CF_TUNNEL_ID"]), (Command::Check, true, id));
        }
    }

    #[test]
    fn help_names_every_command_and_the_variable_and_default_of_every_flag_in_80_columns() {
        let text = help();
        for (name, _) in COMMANDS {
            assert!(text.contains(&format!("\n  {name} ")), "{name} is missing in:\n{text}");
        }
        for (variable, help) in flags() {
            let expected = format!("\n  {}  [{variable}]\n      {help}\n", flag(variable));
            assert!(text.contains(&expected), "{expected} is missing in:\n{text}");
        }
        for expected in [
            "longest time for a request of ExternalDNS, 2s to 14s (default: 12s)",
            "default of webhook-origin-ip-rules",
        ] {
            assert!(text.contains(expected), "{expected} is missing in:\n{text}");
        }
        // The first lines are argh's.
        for line in text.lines().skip_while(|line| *line != "Settings:") {
            assert!(line.len() <= 80, "{line}");
        }
    }

    #[test]
    fn every_command_is_known_by_its_name_and_serve_is_the_default() {
        for (name, command) in COMMANDS {
            assert_eq!(read(&[name]).expect(name).0, command);
        }
        assert_eq!(read(&["status", "--json", "a.example.com"]).expect("a hostname").0, Command::Status);
        assert_eq!(read(&["--dry-run=true"]).expect("a flag").0, Command::Serve);
        assert_eq!(read(&["--version"]).expect("a switch").0, Command::Version);
    }

    #[test]
    fn an_unknown_command_is_a_mistake_that_names_the_nearest_or_the_flag_of_a_setting() {
        for (words, expected) in [
            (&["chekc"][..], "\"chekc\" is no command; see check"),
            (&["Serve"], "\"Serve\" is no command; see serve"),
            (&["health-check"], "\"health-check\" is no command; see healthcheck"),
            (&["DRY_RUN=true"], "\"DRY_RUN\" is no command; see --dry-run"),
            (&["owner-id"], "\"owner-id\" is no command; see --owner-id"),
            (&["help"], "there is no such command; see --help"),
            (&["everything"], "there is no such command; see --help"),
            (&["--a-token-of-forty-characters-as-they-have"], "there is no such flag; see --help"),
            (&[""], "there is no such command; see --help"),
            (&["check", "list"], "there is more than one command; see --help"),
            (
                &["tunnel", "homelab"],
                "the command tunnel takes no name: set CF_TUNNEL_ID or --cf-tunnel-id=NAME",
            ),
            (&["healthcheck", "a.example.com"], "there is more than one command; see --help"),
            (&["status", "a.example.com", "b"], "there is more than one command; see --help"),
            (&["status", ""], "status takes a hostname of at most 253 characters"),
            (&["status", &"a".repeat(254)], "status takes a hostname of at most 253 characters"),
        ] {
            assert_eq!(mistake(words), expected, "{words:?}");
        }
    }

    #[test]
    fn a_secret_in_the_place_of_a_command_is_not_repeated() {
        let long = format!("secret{}", "x".repeat(100_000));
        for words in [
            &["CF_API_TOKEN=secret"][..],
            &["secret"],
            &["secret=="],
            &[&*long],
            &["check", "secret"],
            &["status", &long],
            &["-cf-api-token=secret"],
        ] {
            let text = mistake(words);
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn two_commands_and_flags_of_other_commands_are_mistakes() {
        for arguments in [
            &["check", "list"][..],
            &["serve", "--json"],
            &["--json", "--version"],
            &["--token-file=x"],
            &["check", "--token-file", "x"],
            &["check", "--as=dnsendpoint"],
            &["list", "--as=yaml"],
            &["list", "--as=dnsendpoint", "--json"],
            &["list", "--namespace=x"],
        ] {
            mistake(arguments);
        }
    }

    #[test]
    fn a_flag_without_its_value_or_given_twice_is_a_mistake_that_says_how_it_is_written() {
        for arguments in [
            &["--dry-run"][..],
            &["--dry-run=true", "check", "--dry-run=false"],
            &["check", "--dry-run", "--json"],
        ] {
            assert_eq!(
                mistake(arguments),
                "--dry-run takes exactly one value, as in --dry-run=true or --domain-filter=a,b"
            );
        }
    }

    #[test]
    fn a_value_of_a_switch_is_a_mistake_that_says_so() {
        for arguments in [&["check", "--json=true"][..], &["--json=true"]] {
            assert_eq!(mistake(arguments), "--json takes no value: write it alone, or leave it out");
        }
    }

    #[test]
    fn an_unknown_flag_is_a_mistake_that_names_the_nearest() {
        for (given, nearest) in [
            ("--owner-idd=x", "--owner-id"),
            ("--ownerid", "--owner-id"),
            ("--OWNER_ID=x", "--owner-id"),
            ("-owner-id", "--owner-id"),
            ("--txt-owner-id=x", "--owner-id"),
            ("--tunnel-id", "--cf-tunnel-id"),
            ("--regexp-domain-filters=x", "--regexp-domain-filter"),
            // A secret has no flag.
            ("--cf-api-token=secret", "--cf-api-token-file"),
            ("--cf-api-key=secret", "--cf-api-key-file"),
            ("--policy=sync", "--help"),
            ("--source=ingress", "--help"),
            ("-x", "--help"),
        ] {
            let text = mistake(&[given]);
            let (flag, _) = given.split_once('=').unwrap_or((given, ""));
            assert!(text.contains(&flag[..flag.len().min(100)]) && text.len() < 300, "{text}");
            assert!(!text.contains("secret"), "{text}");
            assert!(text.ends_with(&format!("; see {nearest}")), "{text}");
        }
    }
}
