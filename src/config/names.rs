//! Knows the names of settings and of their flags, and recognises misspelled names.

use super::setting::{SETTINGS_VARIABLE, Setting, SettingKind, TABLE};
use crate::ingress::OriginOption;
use crate::limits;
use crate::model::endpoint::annotation_of;
use crate::model::text::{MISSPELLING_MAX_EDITS, nearest, quoted};

/// Prefixes of our settings that other programs' variables have too.
const SHARED_PREFIXES: [&str; 2] = ["CF_", "ORIGIN_"];

/// Prefixes that only our settings have. Any variable with such a prefix was meant for this program.
const PREFIXES: [&str; 8] = [
    "DOMAIN_FILTER",
    "REGEXP_DOMAIN_",
    "DEFAULT_ACCESS",
    "ACCESS_DEFAULT",
    "ACCESS_POLIC",
    "NAMESPACE_GUARD",
    "NAMESPACE_DOMAIN",
    "MASS_DELET",
];

/// The variable of every setting.
pub fn variables() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|setting| setting.variable).chain(OriginOption::all().map(OriginOption::setting))
}

/// The variables that have a flag, and the help text of each.
pub(crate) fn flags() -> impl Iterator<Item = (&'static str, String)> {
    let with_flag =
        TABLE.iter().filter(|one| one.kind != SettingKind::Secret && one.variable != SETTINGS_VARIABLE);
    let settings = with_flag.map(|setting| match setting.default {
        "" => (setting.variable, setting.help.to_owned()),
        default => (setting.variable, format!("{} (default: {default})", setting.help)),
    });
    let help = |option: OriginOption| format!("default of {}", annotation_of(option.property()));
    settings.chain(OriginOption::all().map(move |option| (option.setting(), help(option))))
}

/// The flag of a variable.
pub fn flag(variable: &str) -> String {
    format!("--{}", variable.to_ascii_lowercase().replace('_', "-"))
}

/// True if the variable has the form of those that Kubernetes sets for a Service called NAME.
pub(super) fn is_injected(name: &str, value: &str) -> bool {
    // NAME_SERVICE_HOST, NAME_SERVICE_PORT, NAME_SERVICE_PORT_HTTPS
    let is_address = name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT");
    // NAME_PORT=tcp://10.0.0.1:80
    let is_link = name.ends_with("_PORT")
        && ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    // NAME_PORT_80_TCP, and the same with the suffix _PROTO, _PORT or _ADDR
    let is_part_of_link = name.split_once("_PORT_").is_some_and(|(_, rest)| {
        let mut parts = rest.split('_');
        parts.next().is_some_and(|port| port.parse::<u16>().is_ok())
            && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
    });
    is_address || is_link || is_part_of_link
}

/// The message about a variable that seems meant for this program but is no setting.
#[derive(Debug, PartialEq)]
pub(super) enum Unknown {
    /// The nearest setting restricts publishing: without it, the webhook would publish more than the operator meant.
    Mistake(String),
    Warning(String),
}

pub(super) fn unknown_variable(name: &str, value: &str) -> Option<Unknown> {
    // cloudflared's own variables begin with TUNNEL_, even if they resemble a setting.
    if name.starts_with("TUNNEL_") || is_injected(name, value) {
        return None;
    }
    let folded = name.to_ascii_uppercase();
    let begins_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| folded.starts_with(prefix));
    let is_of_ours = begins_with(&PREFIXES);
    let may_be_ours = is_of_ours || begins_with(&SHARED_PREFIXES);
    // A short name may have fewer edits, because two edits turn HOST into PORT.
    let edits_max_of = |name: &str| (name.len() / 3).min(MISSPELLING_MAX_EDITS);
    let edits_max = if is_of_ours { limits::PROPERTY_NAME_MAX_BYTES } else { edits_max_of(name) };
    // A name of words of a setting's name, in any order, means that setting. A single word may be any program's.
    let words = folded.strip_prefix("CF_").unwrap_or(&folded);
    let has_its_words = |known: &&str| {
        let is_word =
            |word: &str| known.split('_').any(|one| one.trim_end_matches('S') == word.trim_end_matches('S'));
        words.contains('_') && words.split('_').all(is_word)
    };
    let known = variables().filter(|variable| !is_of_ours || *variable != SETTINGS_VARIABLE);
    let meant = TABLE
        .iter()
        .map(|setting| setting.variable)
        .find(has_its_words)
        .or_else(|| nearest(&folded, known, edits_max))
        .or_else(|| nearest(words, variables(), edits_max_of(words)));
    let is_restriction =
        |setting: &Setting| setting.kind == SettingKind::Restriction && Some(setting.variable) == meant;
    let said = format!("{} is no setting", quoted(name));
    match meant {
        Some(meant) if TABLE.iter().any(is_restriction) => {
            Some(Unknown::Mistake(format!("{said}; if {meant} is meant, rename it, otherwise remove it")))
        }
        Some(meant) => Some(Unknown::Warning(format!("{said} and is ignored; the nearest is {meant}"))),
        None => may_be_ours.then(|| Unknown::Warning(format!("{said} and is ignored"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a misspelled setting that limits what is published were ignored, it would leave open what was to be closed.
    #[test]
    fn a_misspelled_setting_is_told_of_with_the_nearest_one_and_is_a_mistake_if_that_limits() {
        for (name, nearest, is_mistake) in [
            ("CF_API_TOKN", "CF_API_TOKEN", false),
            ("CF_TUNNEL_IDS", "CF_TUNNEL_ID", false),
            ("ORIGIN_NO_TLS_VERFY", "ORIGIN_NO_TLS_VERIFY", false),
            ("LOG_LVL", "LOG_LEVEL", false),
            ("Log_Level", "LOG_LEVEL", false),
            ("METRIC_PORT", "METRICS_PORT", false),
            ("DOMAIN_FILTERZ", "DOMAIN_FILTER", true),
            ("REGEXP_DOMAIN_FILTERS", "REGEXP_DOMAIN_FILTER", true),
            ("DEFAULT_ACCESS_POLICIES", "DEFAULT_ACCESS_POLICY", true),
            ("ACCESS_POLICIES_ALLOWED", "ACCESS_POLICIES", true),
            ("ACCESS_DEFAULT_POLICY", "DEFAULT_ACCESS_POLICY", true),
            ("ACESS_GUARD", "ACCESS_GUARD", true),
            ("DEFAULT_ACCESS", "DEFAULT_ACCESS_POLICY", true),
            ("DEFAULT_POLICY", "DEFAULT_ACCESS_POLICY", true),
            ("EXCLUDE_DOMAINS", "EXCLUDE_DOMAIN_FILTER", true),
            ("CF_ZONE_ID", "ZONE_ID_FILTER", true),
            ("API_TOKEN", "CF_API_TOKEN", false),
            ("NAMESPACE_GUARD_ENABLED", "NAMESPACE_GUARD", true),
            ("NAMESPACE_DOMAIN_LIST", "NAMESPACE_DOMAINS", true),
            ("MASS_DELETE_LIMIT", "MASS_DELETION_LIMIT", true),
            ("DRYRUN", "DRY_RUN", true),
            ("OWNERID", "OWNER_ID", true),
            ("CF_ZONE_ID_FILTR", "ZONE_ID_FILTER", true),
            ("CF_DOMAIN_FITLER", "DOMAIN_FILTER", true),
            ("CF_NAMESPACE_GAURD", "NAMESPACE_GUARD", true),
            ("CF_DRYRUN", "DRY_RUN", true),
            ("CF_OWNERID", "OWNER_ID", true),
            ("SETTING", "SETTINGS", true),
        ] {
            let said = format!("{name:?} is no setting");
            let expected = if is_mistake {
                Unknown::Mistake(format!("{said}; if {nearest} is meant, rename it, otherwise remove it"))
            } else {
                Unknown::Warning(format!("{said} and is ignored; the nearest is {nearest}"))
            };
            assert_eq!(unknown_variable(name, "x"), Some(expected));
        }
        let Some(Unknown::Warning(text)) = unknown_variable(&format!("CF_{}", "X".repeat(100_000)), "x")
        else {
            panic!("it looks like one of ours, and like no setting");
        };
        assert!(text.len() < 500 && !text.contains("nearest"), "{text}");
    }

    /// One Secret or ConfigMap often has the variables of several programs.
    #[test]
    fn a_variable_of_another_program_for_cloudflare_is_ignored_with_a_warning() {
        for name in [
            "CF_DOMAIN",
            "CF_ZONE",
            "CF_NAMESPACE",
            "CF_ACCESS_CLIENT_SECRET",
            "CF_SOMETHING_ELSE",
            "ORIGIN_PORT",
        ] {
            let expected = Unknown::Warning(format!("{name:?} is no setting and is ignored"));
            assert_eq!(unknown_variable(name, "x"), Some(expected));
        }
    }

    /// A Service called `cf`, `origin`, `cf-tunnel`, `server` or `dryrun` puts all of these into every pod of its
    /// namespace.
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
            ("HOSTNAME", "x"),
            ("KUBERNETES_PORT", "tcp://10.0.0.1:443"),
            ("HTTPS_PROXY", "http://proxy"),
            ("POD_NAMESPACE", "dns"),
            ("WEBHOOK_NAMESPACE", "dns"),
            ("NODE_NAME", "n1"),
            ("SERVER_NAME", "web"),
            ("LOG_FILE", "/dev/stderr"),
        ] {
            assert_eq!(unknown_variable(name, value), None, "{name}");
        }
    }

    /// The variables that an entry of the document begins with, and the default behind them.
    fn entry(line: &'static str) -> Option<(Vec<&'static str>, String)> {
        let (head, _) = line.strip_prefix("- `")?.split_once(": ")?;
        let (names, default) = head.split_once(" (default ").unwrap_or((head, ")"));
        let default = default.strip_suffix(')').unwrap_or_else(|| panic!("{head}"));
        // The first backtick was cut off with the beginning of the line.
        Some((names.split('`').step_by(2).collect(), default.replace('`', "")))
    }

    #[test]
    fn the_document_has_every_setting_with_the_default_that_the_help_names_and_every_limit() {
        let document = include_str!("../../docs/configuration.md");
        let (_, section) = document.split_once("\n## Settings\n").expect("a section");
        let (section, rest) = section.split_once("\n## Mistakes\n").expect("another one follows");
        let mut listed = Vec::new();
        for (names, default) in section.lines().filter_map(entry) {
            if names == ["ORIGIN_CONNECT_TIMEOUT", "ORIGIN_IP_RULES"] {
                listed.extend(OriginOption::all().map(OriginOption::setting));
                continue;
            }
            let [name] = names[..] else { panic!("{names:?}") };
            let alias = TABLE.iter().find(|setting| setting.variable == name).map_or("", |one| one.alias);
            let also = section.contains(&format!("; also `{alias}`."));
            assert!(alias.is_empty() || also, "{name}: {alias} is missing");
            let help =
                flags().find(|(variable, _)| *variable == name).map(|(_, help)| help).unwrap_or_default();
            let (_, in_help) = help.split_once("(default: ").unwrap_or(("", ")"));
            assert_eq!(Some(&*default), in_help.strip_suffix(')'), "{name}");
            listed.push(name);
        }
        let mut known: Vec<&str> = variables().collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);

        let (_, rest) = rest.split_once("Where that is\n").expect("the limits are listed");
        let (limits, _) = rest.split_once(", which limit").expect("the sentence goes on");
        let limits: Vec<&str> = limits.split('`').skip(1).step_by(2).collect();
        let mut known: Vec<&str> = TABLE
            .iter()
            .filter(|setting| setting.kind == SettingKind::Restriction)
            .map(|setting| setting.variable)
            .collect();
        known.sort_unstable();
        assert_eq!(limits, known);
    }
}
