//! Parses the command line: a command, with flags before or after it. Every setting has a flag; without the flag, its
//! environment variable counts. A secret has no flag of its own, because any process on the machine can read a command
//! line.

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    reason = "argh prints these comments as they are, brackets included"
)]

use argh::{EarlyExit, FromArgs};

use crate::limits;
use crate::model::text::{nearest, quoted};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// Serve ExternalDNS.
    #[default]
    Serve,
    /// Try if it could serve.
    Check,
    /// Show what Cloudflare has.
    List,
    /// Find or make the tunnel, and write its run token.
    Tunnel,
    /// Ask a running instance if it is alive.
    Healthcheck,
    /// Print the version.
    Version,
}

const COMMANDS: [(&str, Command); 6] = [
    ("serve", Command::Serve),
    ("check", Command::Check),
    ("list", Command::List),
    ("tunnel", Command::Tunnel),
    ("healthcheck", Command::Healthcheck),
    ("version", Command::Version),
];

impl Command {
    /// The command that the words name.
    fn of(words: &[String]) -> Result<Self, String> {
        match words {
            [] => Ok(Self::default()),
            [word] => match COMMANDS.iter().find(|(name, _)| name == word) {
                Some((_, command)) => Ok(*command),
                None => Err(unknown_command(word)),
            },
            [_, _, ..] => Err("there is more than one command; see --help".to_owned()),
        }
    }
}

macro_rules! arguments {
    ($($(#[doc = $doc:literal])+ $field:ident: $variable:literal,)+) => {
        /// The parsed command line.
        #[derive(Debug, Default, FromArgs)]
        #[argh(
            help_triggers("-h", "--help"),
            usage = "[<command>] [<flags>]",
            description = "Publishes hostnames through Cloudflare Tunnels, as a webhook provider of ExternalDNS.

Commands:
  serve             serve ExternalDNS; the default
  check             try the token, the tunnels and the zones, and say what to do
                    about each failure; writes nothing
  list              show what Cloudflare has, ours and foreign; writes nothing
  tunnel            find the first tunnel of CF_TUNNEL_ID, or make it if that is
                    a name that no tunnel has; with --token-file, write the
                    token with which cloudflared runs
  healthcheck       ask a running instance on this machine if it is alive
  version           print the version

Every flag can be given as the environment variable named behind it; lists are
separated by commas. The token comes from CF_API_TOKEN (a token, or file:/path)
or from the file that CF_API_TOKEN_FILE names."
        )]
        pub struct Arguments {
            /// command to run (default: serve)
            #[argh(positional, arg_name = "command")]
            pub words: Vec<String>,
            /// print the version and exit
            #[argh(switch)]
            pub version: bool,
            /// check, list and tunnel: print one JSON document instead of a table
            #[argh(switch)]
            pub json: bool,
            /// tunnel: file for the tunnel's run token, which cloudflared reads as its own --token-file
            #[argh(option)]
            pub token_file: Option<String>,
            $(
                $(#[doc = $doc])+
                #[argh(option)]
                pub $field: Option<String>,
            )+
        }

        impl Arguments {
            /// The value of the flag for an environment variable.
            pub fn flag_for(&self, variable: &str) -> Option<&str> {
                // A match over the names would compare them in code of its own for each: 2 KB more.
                let values = [$(&self.$field),+];
                let index = Self::VARIABLES.iter().position(|known| *known == variable)?;
                values.get(index)?.as_deref()
            }

            /// The environment variables that have a flag.
            pub const VARIABLES: &[&str] = &[$($variable),+];

            /// The help text of each.
            #[cfg(test)]
            pub(crate) const HELP: &[(&str, &str)] = &[$(($variable, concat!($($doc),+))),+];
        }
    };
}

arguments! {
    /// file with the API token [CF_API_TOKEN_FILE]
    cf_api_token_file: "CF_API_TOKEN_FILE",
    /// file with the global API key, instead of a token [CF_API_KEY_FILE]
    cf_api_key_file: "CF_API_KEY_FILE",
    /// email address of the API key's user [CF_API_EMAIL]
    cf_api_email: "CF_API_EMAIL",
    /// account of the tunnels (default: the one that all zones share) [CF_ACCOUNT_ID]
    cf_account_id: "CF_ACCOUNT_ID",
    /// ids or names of the tunnels, the default first; required [CF_TUNNEL_ID]
    cf_tunnel_id: "CF_TUNNEL_ID",
    /// address of the API, for a proxy or a test (default: https://api.cloudflare.com/client/v4) [CF_API_BASE_URL]
    cf_api_base_url: "CF_API_BASE_URL",
    /// PEM file with certificate authorities trusted besides the compiled-in ones [CF_CA_FILE]
    cf_ca_file: "CF_CA_FILE",
    /// names to serve, with all names below them (default: all) [DOMAIN_FILTER]
    domain_filter: "DOMAIN_FILTER",
    /// names not to serve [EXCLUDE_DOMAIN_FILTER]
    exclude_domain_filter: "EXCLUDE_DOMAIN_FILTER",
    /// expression for the names to serve, instead of the lists [REGEXP_DOMAIN_FILTER]
    regexp_domain_filter: "REGEXP_DOMAIN_FILTER",
    /// expression for the names not to serve [REGEXP_DOMAIN_FILTER_EXCLUSION]
    regexp_domain_filter_exclusion: "REGEXP_DOMAIN_FILTER_EXCLUSION",
    /// ids of the zones to read (default: all the token sees) [ZONE_ID_FILTER]
    zone_id_filter: "ZONE_ID_FILTER",
    /// the value of ExternalDNS's --txt-owner-id (default: default) [OWNER_ID]
    owner_id: "OWNER_ID",
    /// service for endpoints that name none, such as http://{name}.{namespace}.svc:80 [DEFAULT_SERVICE]
    default_service: "DEFAULT_SERVICE",
    /// endpoints that get the default service: annotated (with a property of this program) or all (default: annotated) [PUBLISH]
    publish: "PUBLISH",
    /// default of webhook-origin-connect-timeout [ORIGIN_CONNECT_TIMEOUT]
    origin_connect_timeout: "ORIGIN_CONNECT_TIMEOUT",
    /// default of webhook-origin-tls-timeout [ORIGIN_TLS_TIMEOUT]
    origin_tls_timeout: "ORIGIN_TLS_TIMEOUT",
    /// default of webhook-origin-tcp-keep-alive [ORIGIN_TCP_KEEP_ALIVE]
    origin_tcp_keep_alive: "ORIGIN_TCP_KEEP_ALIVE",
    /// default of webhook-origin-no-happy-eyeballs [ORIGIN_NO_HAPPY_EYEBALLS]
    origin_no_happy_eyeballs: "ORIGIN_NO_HAPPY_EYEBALLS",
    /// default of webhook-origin-keep-alive-timeout [ORIGIN_KEEP_ALIVE_TIMEOUT]
    origin_keep_alive_timeout: "ORIGIN_KEEP_ALIVE_TIMEOUT",
    /// default of webhook-origin-keep-alive-connections [ORIGIN_KEEP_ALIVE_CONNECTIONS]
    origin_keep_alive_connections: "ORIGIN_KEEP_ALIVE_CONNECTIONS",
    /// default of webhook-origin-http-host-header [ORIGIN_HTTP_HOST_HEADER]
    origin_http_host_header: "ORIGIN_HTTP_HOST_HEADER",
    /// default of webhook-origin-server-name [ORIGIN_SERVER_NAME]
    origin_server_name: "ORIGIN_SERVER_NAME",
    /// default of webhook-origin-match-sni-to-host [ORIGIN_MATCH_SNI_TO_HOST]
    origin_match_sni_to_host: "ORIGIN_MATCH_SNI_TO_HOST",
    /// default of webhook-origin-ca-pool [ORIGIN_CA_POOL]
    origin_ca_pool: "ORIGIN_CA_POOL",
    /// files that webhook-origin-ca-pool may name: absolute paths that every cloudflared can read (default: nothing) [ORIGIN_CA_POOLS]
    origin_ca_pools: "ORIGIN_CA_POOLS",
    /// default of webhook-origin-no-tls-verify [ORIGIN_NO_TLS_VERIFY]
    origin_no_tls_verify: "ORIGIN_NO_TLS_VERIFY",
    /// default of webhook-origin-disable-chunked-encoding [ORIGIN_DISABLE_CHUNKED_ENCODING]
    origin_disable_chunked_encoding: "ORIGIN_DISABLE_CHUNKED_ENCODING",
    /// default of webhook-origin-http2-origin [ORIGIN_HTTP2_ORIGIN]
    origin_http2_origin: "ORIGIN_HTTP2_ORIGIN",
    /// default of webhook-origin-bastion-mode [ORIGIN_BASTION_MODE]
    origin_bastion_mode: "ORIGIN_BASTION_MODE",
    /// default of webhook-origin-proxy-type [ORIGIN_PROXY_TYPE]
    origin_proxy_type: "ORIGIN_PROXY_TYPE",
    /// default of webhook-origin-proxy-address [ORIGIN_PROXY_ADDRESS]
    origin_proxy_address: "ORIGIN_PROXY_ADDRESS",
    /// default of webhook-origin-proxy-port [ORIGIN_PROXY_PORT]
    origin_proxy_port: "ORIGIN_PROXY_PORT",
    /// default of webhook-origin-ip-rules [ORIGIN_IP_RULES]
    origin_ip_rules: "ORIGIN_IP_RULES",
    /// what may be taken over if it is in the way: tunnel, access, owner=ID, all (default: nothing) [ADOPT]
    adopt: "ADOPT",
    /// let an object publish only services of its own namespace, on hostnames that no other namespace has (default: false) [NAMESPACE_GUARD]
    namespace_guard: "NAMESPACE_GUARD",
    /// domain that NAMESPACE_GUARD allows after svc in a service's name (default: cluster.local) [CLUSTER_DOMAIN]
    cluster_domain: "CLUSTER_DOMAIN",
    /// publish only what Cloudflare Access protects, and have cloudflared require its tokens (default: false) [ACCESS_GUARD]
    access_guard: "ACCESS_GUARD",
    /// policies of Access that protect whatever says nothing of Access, by name or id, separated by commas (default: none) [DEFAULT_ACCESS_POLICY]
    default_access_policy: "DEFAULT_ACCESS_POLICY",
    /// let an object open its hostname with webhook-access-policy: none (default: true) [ACCESS_OPT_OUT]
    access_opt_out: "ACCESS_OPT_OUT",
    /// policies of Access that objects may name, separated by commas (default: all, and none with NAMESPACE_GUARD) [ACCESS_POLICIES]
    access_policies: "ACCESS_POLICIES",
    /// log what would be written, and write nothing (default: false) [DRY_RUN]
    dry_run: "DRY_RUN",
    /// withhold a deletion of more hostnames than this and of more than half of those as old; 0 withholds none (default: 5) [MASS_DELETION_LIMIT]
    mass_deletion_limit: "MASS_DELETION_LIMIT",
    /// time for records and configurations to reach the edge, for which a rule that visitors may still use stays, 0s to 3600s (default: 30s) [MOVE_GRACE]
    move_grace: "MOVE_GRACE",
    /// write tunnels that a file beside their cloudflared configures (default: false) [ALLOW_LOCAL_CONFIG]
    allow_local_config: "ALLOW_LOCAL_CONFIG",
    /// longest time for a request of ExternalDNS, 2s to 14s (default: 12s) [REQUEST_TIMEOUT]
    request_timeout: "REQUEST_TIMEOUT",
    /// address of the webhook API (default: both loopback addresses) [SERVER_HOST]
    server_host: "SERVER_HOST",
    /// port of the webhook API (default: 8888) [SERVER_PORT]
    server_port: "SERVER_PORT",
    /// address of /healthz, /readyz and /metrics (default: all addresses) [METRICS_HOST]
    metrics_host: "METRICS_HOST",
    /// port of /healthz, /readyz and /metrics (default: 8080) [METRICS_PORT]
    metrics_port: "METRICS_PORT",
    /// error, warn, info, debug or trace (default: info) [LOG_LEVEL]
    log_level: "LOG_LEVEL",
    /// format of log lines: text or json (default: text) [LOG_FORMAT]
    log_format: "LOG_FORMAT",
}

/// The command line ends the program before any setting is read.
#[derive(Debug)]
pub enum CliExit {
    /// Text for stdout; the program succeeds.
    Help(String),
    /// Text for stderr; the command line is invalid.
    Mistake(String),
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<(Command, Arguments), CliExit> {
    let arguments = split_at_equals(arguments)?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let arguments = Arguments::from_args(&[env!("CARGO_PKG_NAME")], &arguments).map_err(
        |EarlyExit { output, status }| match status {
            Ok(()) => CliExit::Help(output),
            Err(()) => CliExit::Mistake(match output.trim_end().strip_prefix("Unrecognized argument: ") {
                Some(flag) => unknown("flag", flag, "--", nearest_flag(flag)),
                None => format!("a flag has one value, as in --dry-run=true: {output}"),
            }),
        },
    )?;
    let command = if arguments.version {
        Command::Version
    } else {
        Command::of(&arguments.words).map_err(CliExit::Mistake)?
    };
    if arguments.json && !matches!(command, Command::Check | Command::List | Command::Tunnel) {
        return Err(CliExit::Mistake("--json goes with the commands check, list and tunnel".to_owned()));
    }
    if arguments.token_file.is_some() && command != Command::Tunnel {
        return Err(CliExit::Mistake(
            "--token-file goes with the command tunnel; the file of the API token is --cf-api-token-file"
                .to_owned(),
        ));
    }
    Ok((command, arguments))
}

/// The flags without a value in argh.
const SWITCHES: [&str; 2] = ["--json", "--version"];

/// argh knows `--flag value`, but Kubernetes manifests mostly say `--flag=value`. Split, argh repeats only the name of an
/// unknown flag, and not the secret that somebody gave with it.
fn split_at_equals(arguments: impl IntoIterator<Item = String>) -> Result<Vec<String>, CliExit> {
    let mut split = Vec::new();
    for argument in arguments {
        match argument.split_once('=') {
            Some((switch, value)) if SWITCHES.contains(&switch) => match value {
                "true" => split.push(switch.to_owned()),
                "false" => {}
                _ => {
                    return Err(CliExit::Mistake(format!("{switch} takes true or false; alone it is true")));
                }
            },
            Some((flag, value)) if flag.starts_with('-') => split.extend([flag.to_owned(), value.to_owned()]),
            _ => split.push(argument),
        }
    }
    Ok(split)
}

/// The words about a flag or a command that nobody knows. The value of a flag, which may be a secret, is no part of it.
fn unknown(kind: &str, given: &str, dashes: &str, nearest: &str) -> String {
    let nearest = nearest.to_ascii_lowercase().replace("_", "-");
    format!("{} is no {kind} of this program; see {dashes}{nearest}", quoted(given))
}

/// A word is repeated only where it resembles a command or a setting: any other may be a secret that lost its flag.
fn unknown_command(word: &str) -> String {
    let (name, _) = word.split_once('=').unwrap_or((word, ""));
    match nearest(name, COMMANDS.iter().map(|(known, _)| *known), name.len() / 3) {
        Some(known) => unknown("command", name, "", known),
        None => match nearest_flag(name) {
            HELP => "there is no such command; see --help".to_owned(),
            variable => unknown("command", name, "--", variable),
        },
    }
}

const HELP: &str = "HELP";

/// The variable of the flag that a name resembles, or else `HELP`.
fn nearest_flag(given: &str) -> &'static str {
    let name = given.trim_start_matches('-').to_ascii_uppercase().replace("-", "_");
    let flags = || Arguments::VARIABLES.iter().copied();
    // A secret has no flag, but that of its file begins likewise.
    let begins =
        flags().filter(|flag| name.len() > 2 && flag.starts_with(&name)).min_by_key(|flag| flag.len());
    let is_long = name.len() > limits::PROPERTY_NAME_MAX_BYTES;
    begins.or_else(|| nearest(&name, flags().filter(|_| !is_long), name.len() / 3)).unwrap_or(HELP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> (Command, Arguments) {
        parse(arguments.iter().map(ToString::to_string)).expect("the arguments are well-formed")
    }

    #[test]
    fn both_forms_of_a_flag_are_read() {
        for arguments in [&["--cf-tunnel-id", "home"][..], &["--cf-tunnel-id=home"]] {
            assert_eq!(parsed(arguments).1.flag_for("CF_TUNNEL_ID"), Some("home"), "{arguments:?}");
        }
        let (_, expression) = parsed(&["--regexp-domain-filter=a=b"]);
        assert_eq!(expression.flag_for("REGEXP_DOMAIN_FILTER"), Some("a=b"));
    }

    #[test]
    fn help_names_every_variable_and_is_no_mistake() {
        let Err(CliExit::Help(text)) = parse(["--help".to_owned()]) else {
            panic!("help was asked for");
        };
        for variable in Arguments::VARIABLES {
            assert!(text.contains(&format!("[{variable}]")), "{variable} is missing in:\n{text}");
        }
    }

    #[test]
    fn flags_count_before_and_behind_the_command() {
        for arguments in [
            &["check", "--json", "--cf-tunnel-id", "home"][..],
            &["--json", "--cf-tunnel-id", "home", "check"],
            &["--cf-tunnel-id=home", "check", "--json"],
        ] {
            let (command, read) = parsed(arguments);
            let seen = (command, read.json, read.flag_for("CF_TUNNEL_ID"));
            assert_eq!(seen, (Command::Check, true, Some("home")), "{arguments:?}");
        }
    }

    #[test]
    fn every_command_is_known_by_its_name_and_serve_is_the_default() {
        for (name, command) in COMMANDS {
            assert_eq!(parsed(&[name]).0, command);
        }
        assert_eq!(parsed(&["--dry-run=true"]).0, Command::Serve);
        assert_eq!(parsed(&["--version"]).0, Command::Version);
    }

    #[test]
    fn help_lists_the_commands() {
        let Err(CliExit::Help(text)) = parse(["--help".to_owned()]) else { panic!("help was asked for") };
        for (name, _) in COMMANDS {
            assert!(text.contains(&format!("\n  {name} ")), "{name} is missing in:\n{text}");
        }
    }

    #[test]
    fn an_unknown_command_is_a_mistake_that_names_the_nearest_or_the_flag_of_a_setting() {
        for (words, expected) in [
            (&["chekc"][..], "\"chekc\" is no command of this program; see check"),
            (&["Serve"], "\"Serve\" is no command of this program; see serve"),
            (&["health-check"], "\"health-check\" is no command of this program; see healthcheck"),
            (&["DRY_RUN=true"], "\"DRY_RUN\" is no command of this program; see --dry-run"),
            (&["owner-id"], "\"owner-id\" is no command of this program; see --owner-id"),
            (&["help"], "there is no such command; see --help"),
            (&["everything"], "there is no such command; see --help"),
            (&[""], "there is no such command; see --help"),
            (&["check", "list"], "there is more than one command; see --help"),
        ] {
            let Err(CliExit::Mistake(text)) = parse(words.iter().map(ToString::to_string)) else {
                panic!("{words:?} is a command");
            };
            assert_eq!(text, expected, "{words:?}");
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
            &["-cf-api-token=secret"],
        ] {
            let Err(CliExit::Mistake(text)) = parse(words.iter().map(ToString::to_string)) else {
                panic!("{words:?} is a command");
            };
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
        ] {
            let read = parse(arguments.iter().map(ToString::to_string));
            assert!(matches!(read, Err(CliExit::Mistake(_))), "{arguments:?}");
        }
    }

    /// Other programs accept this form too, ExternalDNS among them.
    #[test]
    fn a_switch_can_be_given_as_true_or_false() {
        for (arguments, command, json) in [
            (&["check", "--json=true"][..], Command::Check, true),
            (&["--json=false", "list"], Command::List, false),
            (&["--json=false"], Command::Serve, false),
            (&["--version=true"], Command::Version, false),
            (&["--version=false", "check"], Command::Check, false),
        ] {
            let (read, seen) = parsed(arguments);
            assert_eq!((read, seen.json), (command, json), "{arguments:?}");
        }
        for switch in ["--json", "--version"] {
            let arguments = ["check".to_owned(), format!("{switch}=secret")];
            let Err(CliExit::Mistake(text)) = parse(arguments) else {
                panic!("{switch}=secret is taken");
            };
            assert!(text.contains(switch) && text.contains("true") && !text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn a_flag_without_its_value_or_given_twice_is_a_mistake_that_says_how_it_is_written() {
        for arguments in [&["--dry-run"][..], &["--dry-run=true", "check", "--dry-run=false"]] {
            let Err(CliExit::Mistake(text)) = parse(arguments.iter().map(ToString::to_string)) else {
                panic!("{arguments:?} is taken");
            };
            assert!(text.starts_with("a flag has one value, as in --dry-run=true: "), "{text}");
            assert!(text.contains("'--dry-run'"), "{text}");
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
            ("--namespace=x", "--namespace-guard"),
            // A secret has no flag.
            ("--cf-api-token=secret", "--cf-api-token-file"),
            ("--cf-api-key=secret", "--cf-api-key-file"),
            ("--policy=sync", "--help"),
            ("--source=ingress", "--help"),
            ("-x", "--help"),
            (&format!("--{}", "x".repeat(100_000)), "--help"),
        ] {
            let Err(CliExit::Mistake(text)) = parse([given.to_owned()]) else { panic!("{given} is taken") };
            let (flag, _) = given.split_once('=').unwrap_or((given, ""));
            assert!(text.contains(&flag[..flag.len().min(100)]) && text.len() < 300, "{text}");
            assert!(!text.contains("secret"), "{text}");
            assert!(text.ends_with(&format!("; see {nearest}")), "{text}");
        }
    }
}
