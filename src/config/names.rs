//! Knows the names of settings: ours, those of other programs for the same thing, and misspelled ones.

use crate::cli::Arguments;
use crate::limits;
use crate::model::text::{MISSPELLING_MAX_EDITS, nearest, quoted};

/// Settings without a flag, because any process on the machine can read a command line.
const SECRETS: [&str; 2] = ["CF_API_TOKEN", "CF_API_KEY"];

/// Prefixes that only our settings have. Any variable that begins with one was meant for us.
const PREFIXES: [&str; 10] = [
    "CF_",
    "CLOUDFLARE_",
    "ORIGIN_",
    "DOMAIN_FILTER",
    "REGEXP_DOMAIN_",
    "DEFAULT_ACCESS",
    "ACCESS_DEFAULT",
    "ACCESS_POLIC",
    "NAMESPACE_GUARD",
    "MASS_DELET",
];

/// Settings that limit what is published or written, or who may reach it. One of them that is misspelled must not be
/// ignored.
const LIMITS: [&str; 9] = [
    "ACCESS_GUARD",
    "ACCESS_OPT_OUT",
    "ACCESS_POLICIES",
    "DEFAULT_ACCESS_POLICY",
    "DRY_RUN",
    "EXCLUDE_DOMAIN_FILTER",
    "MASS_DELETION_LIMIT",
    "NAMESPACE_GUARD",
    "OWNER_ID",
];

/// The primary name of every setting.
pub fn settings() -> impl Iterator<Item = &'static str> {
    SECRETS.into_iter().chain(Arguments::VARIABLES.iter().copied())
}

/// The names that other programs use for the same setting.
pub fn aliases(variable: &str) -> &'static [&'static str] {
    match variable {
        "CF_API_TOKEN" => &["CLOUDFLARE_API_TOKEN"],
        "CF_API_TOKEN_FILE" => &["CLOUDFLARE_API_TOKEN_FILE"],
        "CF_API_KEY" => &["CLOUDFLARE_API_KEY"],
        "CF_API_KEY_FILE" => &["CLOUDFLARE_API_KEY_FILE"],
        "CF_API_EMAIL" => &["CLOUDFLARE_API_EMAIL", "CLOUDFLARE_EMAIL"],
        "CF_ACCOUNT_ID" => &["CLOUDFLARE_ACCOUNT_ID"],
        "CF_TUNNEL_ID" => &["CLOUDFLARE_TUNNEL_ID", "CLOUDFLARE_TUNNEL_NAME", "CF_TUNNEL"],
        "CF_API_BASE_URL" => &["CLOUDFLARE_BASE_URL"],
        "DOMAIN_FILTER" => &["DOMAIN_FILTERS"],
        "SERVER_PORT" => &["PORT"],
        "METRICS_HOST" => &["HEALTHZ_HOST"],
        "METRICS_PORT" => &["HEALTHZ_PORT"],
        _ => &[],
    }
}

/// All names of a setting; the first one that is set counts.
pub(super) fn all_names(variable: &'static str) -> impl Iterator<Item = &'static str> {
    [variable].into_iter().chain(aliases(variable).iter().copied())
}

/// True if Kubernetes set the variable for a Service, whose name is the first part of the variable's.
pub(super) fn is_injected(name: &str, value: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // NAME_SERVICE_HOST, NAME_SERVICE_PORT, NAME_SERVICE_PORT_HTTPS
    if name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
        return true;
    }
    // NAME_PORT=tcp://10.0.0.1:80
    if (name == "PORT" || name.ends_with("_PORT"))
        && ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme))
    {
        return true;
    }
    // NAME_PORT_80_TCP, and the same with _PROTO, _PORT or _ADDR behind it
    name.split_once("_PORT_").is_some_and(|(_, rest)| {
        let mut parts = rest.split('_');
        parts.next().is_some_and(is_number) && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
    })
}

/// What is told of a variable that seems to be meant for this program but is unknown to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) text: String,
    /// The setting that limits what is published, if that is the nearest one.
    pub(super) limit: Option<&'static str>,
}

/// The hint about a variable, unless it is known or nothing of ours.
pub(super) fn hint(name: &str, value: &str) -> Option<Hint> {
    // cloudflared's own variables begin with TUNNEL_, whatever they resemble.
    let is_known = settings().any(|variable| all_names(variable).any(|known| known == name));
    if is_known || name.starts_with("TUNNEL_") || is_injected(name, value) {
        return None;
    }
    let folded = name.to_ascii_uppercase();
    let is_of_ours = PREFIXES.iter().any(|prefix| folded.starts_with(prefix));
    let is_long = name.len() > limits::PROPERTY_NAME_MAX_BYTES;
    // Two edits turn HOST into PORT.
    let edits_max = if is_of_ours { usize::MAX } else { (name.len() / 3).min(MISSPELLING_MAX_EDITS) };
    match nearest(&folded, settings().filter(|_| !is_long).flat_map(all_names), edits_max) {
        Some(known) => {
            let limit = LIMITS.into_iter().find(|limit| *limit == known);
            let ignored = if limit.is_some() { "" } else { " and is ignored" };
            let name = quoted(name);
            let text = format!("{name} is no setting of this program{ignored}; the nearest is {known}");
            Some(Hint { text, limit })
        }
        None if is_of_ours => {
            let text = format!("{} is no setting of this program and is ignored", quoted(name));
            Some(Hint { text, limit: None })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_setting_is_told_of_with_the_nearest_one() {
        for (name, nearest) in [
            ("CF_API_TOKN", "CF_API_TOKEN"),
            ("CF_TUNNEL_IDS", "CF_TUNNEL_ID"),
            ("DEFAULT_ACCESS_POLICIES", "DEFAULT_ACCESS_POLICY"),
            ("ACCESS_POLICIES_ALLOWED", "ACCESS_POLICIES"),
            ("ACCESS_DEFAULT_POLICY", ""),
            ("NAMESPACE_GUARD_ENABLED", "NAMESPACE_GUARD"),
            ("MASS_DELETE_LIMIT", "MASS_DELETION_LIMIT"),
            ("CLOUDFLARE_TOKEN", "CLOUDFLARE_API_TOKEN"),
            ("CF_SOMETHING_ELSE", "CF_"),
            ("ORIGIN_NO_TLS_VERFY", "ORIGIN_NO_TLS_VERIFY"),
            ("ORIGIN_PORT", "ORIGIN_"),
            ("DOMAIN_FILTERZ", "DOMAIN_FILTER"),
            ("REGEXP_DOMAIN_FILTERS", "REGEXP_DOMAIN_FILTER"),
            ("DRYRUN", "DRY_RUN"),
            ("LOG_LVL", "LOG_LEVEL"),
            ("Log_Level", "LOG_LEVEL"),
            ("EXCLUDE_DOMAIN_FILTERS", "EXCLUDE_DOMAIN_FILTER"),
            ("METRIC_PORT", "METRICS_PORT"),
        ] {
            let Hint { text: hint, limit } =
                hint(name, "x").unwrap_or_else(|| panic!("{name} looks like one of ours"));
            assert_eq!(limit.is_some(), LIMITS.iter().any(|limit| hint.ends_with(limit)), "{hint}");
            let (said, meant) = hint.split_once("the nearest is ").unwrap_or_else(|| panic!("{hint}"));
            assert!(said.contains(&format!("{name:?}")) && meant.starts_with(nearest), "{hint}");
        }
        let long = format!("CF_{}", "X".repeat(100_000));
        assert!(hint(&long, "x").is_some_and(|hint| hint.text.len() < 500 && !hint.text.contains("nearest")));
    }

    /// A Service called `cf`, `origin`, `cf-tunnel`, `server` or `dryrun` puts all of these into every pod of its namespace.
    #[test]
    fn what_kubernetes_and_cloudflared_put_there_is_not_told_of() {
        for (name, value) in [
            ("CF_SERVICE_HOST", "10.0.0.1"),
            ("CF_SERVICE_PORT", "80"),
            ("ORIGIN_SERVICE_PORT_HTTP", "80"),
            ("ORIGIN_PORT", "tcp://10.0.0.1:80"),
            ("ORIGIN_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("CF_TUNNEL_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("CF_TUNNEL_PORT_8080_TCP_PORT", "8080"),
            ("CF_TUNNEL_PORT_53_UDP_PROTO", "udp"),
            ("SERVER_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("DRYRUN_SERVICE_HOST", "10.0.0.1"),
            ("DRYRUN_PORT", "tcp://10.0.0.1:80"),
            ("OWNER_ID_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("TUNNEL_TOKEN", "x"),
            ("TUNNEL_METRICS", "0.0.0.0:1"),
            ("PATH", "/bin"),
            ("HOST", "x"),
            ("HOME", "/"),
            ("PORT", "1"),
            ("HOSTNAME", "x"),
            ("KUBERNETES_PORT", "tcp://10.0.0.1:443"),
            ("HTTPS_PROXY", "http://proxy"),
            ("CLOUDFLARE_EMAIL", "x"),
            ("CF_API_KEY_FILE", "/x"),
        ] {
            assert_eq!(hint(name, value), None, "{name}");
        }
    }

    /// The names, the other names and the default of each setting in the documents. An entry begins with them, as in "-
    /// `NAME` (also `OTHER`; default `value`): …".
    fn entries() -> Vec<(Vec<&'static str>, Vec<&'static str>, String)> {
        let (_, section) =
            include_str!("../../docs/configuration.md").split_once("\n## Settings\n").expect("a section");
        let (section, _) = section.split_once("\n## ").expect("another one follows");
        let entries = section.lines().filter_map(|line| line.strip_prefix("- `")?.split_once(": "));
        entries
            .map(|(head, _)| {
                let (names, inner) = head.split_once(" (").unwrap_or((head, ")"));
                let inner = inner.strip_suffix(')').unwrap_or_else(|| panic!("{head}"));
                let (others, default) = match inner.split_once("default ") {
                    Some((others, default)) => (others, default),
                    None => (inner, ""),
                };
                // The first backtick was cut off with the beginning of the line.
                let names = names.split('`').step_by(2).collect();
                (names, in_backticks(others), default.replace('`', ""))
            })
            .collect()
    }

    fn in_backticks(text: &str) -> Vec<&str> {
        text.split('`').skip(1).step_by(2).collect()
    }

    /// The default according to the help.
    fn default_in_help(variable: &str) -> Option<&'static str> {
        let (_, help) = Arguments::HELP.iter().find(|(name, _)| *name == variable)?;
        Some(help.split_once("(default: ")?.1.split_once(')')?.0)
    }

    #[test]
    fn the_documents_have_every_setting_with_its_other_names_and_the_default_that_the_help_names() {
        let mut listed = Vec::new();
        for (names, others, default) in entries() {
            if names == ["ORIGIN_CONNECT_TIMEOUT", "ORIGIN_IP_RULES"] {
                let defaults =
                    settings().filter(|name| name.starts_with("ORIGIN_") && *name != "ORIGIN_CA_POOLS");
                listed.extend(defaults);
                continue;
            }
            let aliases: Vec<&str> = names.iter().flat_map(|name| aliases(name)).copied().collect();
            assert_eq!(others, aliases, "{names:?}");
            let defaults: Vec<&str> = names.iter().filter_map(|name| default_in_help(name)).collect();
            assert_eq!(default, defaults.join(", "), "{names:?}");
            listed.extend(names);
        }
        let mut known: Vec<&str> = settings().collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn no_name_stands_for_two_settings() {
        let mut names: Vec<&str> = settings().flat_map(all_names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
