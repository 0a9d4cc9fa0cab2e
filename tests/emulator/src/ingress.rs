//! cloudflared's own rules for a configuration: what it accepts, and which rule a request meets.
//!
//! Written from the behaviour of cloudflared 2026.8.2, which `vectors/cloudflared-ingress.jsonl` records. Cloudflare
//! answers the same texts in error 1056.

mod decode;
mod expression;
mod url;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use regex::{Regex, RegexBuilder};
use serde_json::value::RawValue;

use crate::json::{Members, elements, raw};

/// Most expressions that are held compiled.
const COMPILED_LIMIT: usize = 100;

/// A rule of a document, as cloudflared reads it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rule {
    /// As written; empty where there is none.
    pub hostname: String,
    /// The path expression; empty where there is none.
    pub path: String,
    /// As written; empty where there is none.
    pub service: String,
    /// The text of the rule.
    pub raw: Box<RawValue>,
}

/// Why cloudflared refuses a document. `Display` is cloudflared's own text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The 0-based index of the rule; `None` where the document cannot be decoded at all.
    pub rule: Option<usize>,
    /// What cloudflared says. It names a rule by its 1-based number, or not at all.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Violation {}

/// How a refusal speaks of a rule that only Cloudflare dislikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleText {
    /// By its 1-based number, as for a bad path.
    Numbered,
    /// By its service, as for a bad address.
    ByService,
    /// Not at all, as for a bad hostname.
    Unnamed,
}

impl RuleText {
    pub(crate) fn render(self, index: usize, rule: &Rule) -> String {
        match self {
            Self::Numbered => {
                let number = index + 1;
                format!("Rule #{number} has an invalid regex: error parsing regexp: expression too large: ``")
            }
            Self::ByService => {
                let service = &rule.service;
                format!("{service} is an invalid address, please make sure it has a scheme and a hostname")
            }
            Self::Unnamed => "Hostname cannot contain a port".to_owned(),
        }
    }
}

/// The rules of a document that can be decoded; none where it has none.
pub fn rules(config: &str) -> Vec<Rule> {
    let text = |members: &Members, name: &str| {
        let value = members.present(name).and_then(|value| serde_json::from_str(value.get()).ok());
        value.unwrap_or_default()
    };
    let ingress = Members::parse(config).and_then(|config| elements(config.present("ingress")?.get()));
    ingress
        .unwrap_or_default()
        .into_iter()
        .map(|raw| {
            let members = Members::parse(raw.get()).unwrap_or_default();
            Rule {
                hostname: text(&members, "hostname"),
                path: text(&members, "path"),
                service: text(&members, "service"),
                raw,
            }
        })
        .collect()
}

/// Says whether cloudflared accepts the text of a document (the `config` of Cloudflare's API).
///
/// No rules at all are accepted: cloudflared then answers 503 to everything.
pub fn validate(config: &str) -> Result<(), Violation> {
    let whole = |text: String| Violation { rule: None, text };
    let document = raw(config).map_err(|error| whole(error.to_string()))?;
    decode::check(&document).map_err(whole)?;
    let rules = rules(config);
    let global =
        Members::parse(config).and_then(|members| Members::parse(members.present("originRequest")?.get()));
    let global_bastion = global.as_ref().is_some_and(|global| is_true(global, "bastionMode"));
    for (index, rule) in rules.iter().enumerate() {
        let is_last = index + 1 == rules.len();
        check_rule(rule, index, is_last, global_bastion)
            .map_err(|text| Violation { rule: Some(index), text })?;
    }
    Ok(())
}

/// In cloudflared's order: service, access, hostname, path.
fn check_rule(rule: &Rule, index: usize, is_last: bool, global_bastion: bool) -> Result<(), String> {
    let members = Members::parse(rule.raw.get()).unwrap_or_default();
    let origin_request = members.present("originRequest").and_then(|value| Members::parse(value.get()));
    let origin_request = origin_request.unwrap_or_default();
    let bastion = match origin_request.present("bastionMode") {
        Some(value) => value.get() == "true",
        None => global_bastion,
    };
    check_service(&rule.service, &origin_request, bastion)?;
    check_access(&origin_request)?;
    check_hostname(rule, index, is_last)?;
    if !rule.path.is_empty() {
        let refused = |text| format!("Rule #{} has an invalid regex: {text}", index + 1);
        expression::translate(&rule.path).map_err(refused)?;
    }
    Ok(())
}

fn check_service(service: &str, origin_request: &Members, bastion: bool) -> Result<(), String> {
    if service.starts_with("unix:") || service.starts_with("unix+tls:") {
        return Ok(());
    }
    if let Some(code) = service.strip_prefix("http_status:") {
        return check_status(code);
    }
    if service == "hello_world" || service == "hello-world" {
        return Ok(());
    }
    if service == "socks-proxy" {
        return check_ip_rules(origin_request);
    }
    if service == "bastion" || bastion {
        return Ok(());
    }
    let address = url::parse(service)?;
    if address.scheme.is_empty() || address.hostname.is_empty() {
        return Err(format!(
            "{service} is an invalid address, please make sure it has a scheme and a hostname"
        ));
    }
    if address.has_path {
        return Err(format!(
            "{service} is an invalid address, ingress rules don't support proxying to a different path on the \
             origin service. The path will be the same as the eyeball request's path"
        ));
    }
    Ok(())
}

fn check_status(code: &str) -> Result<(), String> {
    let digits = code.strip_prefix(['+', '-']).unwrap_or(code);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "invalid HTTP status code: strconv.Atoi: parsing {}: invalid syntax",
            quoted(code)
        ));
    }
    let Ok(number) = code.parse::<i64>() else {
        return Err(format!(
            "invalid HTTP status code: strconv.Atoi: parsing {}: value out of range",
            quoted(code)
        ));
    };
    if (100..=999).contains(&number) { Ok(()) } else { Err(format!("invalid HTTP status code: {number}")) }
}

/// The rules for addresses are read for this service only.
fn check_ip_rules(origin_request: &Members) -> Result<(), String> {
    let rules = origin_request.present("ipRules").and_then(|rules| elements(rules.get())).unwrap_or_default();
    for rule in rules {
        let members = Members::parse(rule.get()).unwrap_or_default();
        let prefix: Option<String> =
            members.present("prefix").and_then(|prefix| serde_json::from_str(prefix.get()).ok());
        let refused = |cause: String| Err(format!("unable to create ip rule for socks-proxy: {cause}"));
        let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) else {
            return refused("no prefix provided".to_owned());
        };
        if !is_network(&prefix) {
            return refused(format!("unable to parse cidr: invalid CIDR address: {prefix}"));
        }
        let ports = members.present("ports").and_then(|ports| elements(ports.get())).unwrap_or_default();
        for port in ports {
            if !port.get().parse::<i64>().is_ok_and(|port| (1..=65_535).contains(&port)) {
                let port = port.get();
                return refused(format!("invalid port {port}, needs to be between 1 and 65535"));
            }
        }
    }
    Ok(())
}

fn is_network(prefix: &str) -> bool {
    let Some((address, bits)) = prefix.split_once('/') else {
        return false;
    };
    let longest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.bytes().all(|byte| byte.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= longest)
}

fn check_access(origin_request: &Members) -> Result<(), String> {
    let Some(access) = origin_request.present("access").and_then(|access| Members::parse(access.get()))
    else {
        return Ok(());
    };
    let has_team = access.present("teamName").is_some_and(|team| team.get() != "\"\"");
    let has_tags =
        access.present("audTag").and_then(|tags| elements(tags.get())).is_some_and(|tags| !tags.is_empty());
    if is_true(&access, "required") && has_tags && !has_team {
        return Err("access.TeamName cannot be blank when access.audTags are present".to_owned());
    }
    Ok(())
}

fn is_true(members: &Members, name: &str) -> bool {
    members.present(name).is_some_and(|value| value.get() == "true")
}

fn check_hostname(rule: &Rule, index: usize, is_last: bool) -> Result<(), String> {
    let hostname = rule.hostname.as_str();
    if split_port(hostname).is_some() {
        return Err("Hostname cannot contain a port".to_owned());
    }
    if hostname.rfind('*').is_some_and(|position| position > 0) {
        return Err(
            "Hostname patterns can have at most one wildcard character (\"*\") and it can only be used for \
                    subdomains, e.g. \"*.example.com\""
                .to_owned(),
        );
    }
    let is_catch_all = matches!(hostname, "" | "*") && rule.path.is_empty();
    if is_last && !is_catch_all {
        return Err(
            "The last ingress rule must match all URLs (i.e. it should not have a hostname or path filter)"
                .to_owned(),
        );
    }
    if !is_last && is_catch_all {
        return Err(format!(
            "Rule #{} is matching the hostname '{hostname}', but this will match every hostname, meaning the rules \
             which follow it will never be triggered.",
            index + 1
        ));
    }
    Ok(())
}

/// The 0-based index of the rule that a request meets; `None` when the document has no rules.
///
/// `host` may carry a port. The last rule takes what no other does.
///
/// # Panics
/// When a path expression is none; documents that [`validate`] accepts have none such.
pub fn matching_rule(config: &str, host: &str, path: &str) -> Option<usize> {
    let rules = rules(config);
    let found = rules.iter().position(|rule| matches(&rule.hostname, &rule.path, host, path));
    found.or_else(|| rules.len().checked_sub(1))
}

/// Whether a rule of this hostname and path expression, by itself, matches a request.
///
/// # Panics
/// When the path expression is none.
pub fn matches(hostname: &str, expression: &str, host: &str, path: &str) -> bool {
    let host = split_port(host).unwrap_or(host);
    hostname_matches(hostname, host) && (expression.is_empty() || path_matches(expression, path))
}

fn path_matches(expression: &str, path: &str) -> bool {
    thread_local! {
        static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::default();
    }
    COMPILED.with_borrow_mut(|compiled| {
        if compiled.len() >= COMPILED_LIMIT {
            compiled.clear();
        }
        compiled.entry(expression.to_owned()).or_insert_with(|| compile(expression)).is_match(path)
    })
}

fn compile(expression: &str) -> Regex {
    let pattern = expression::translate(expression).expect("cloudflared took the expression");
    // Go has no such limits; a thousand repetitions of a Unicode class fit in these.
    let regex = RegexBuilder::new(&pattern).size_limit(1 << 28).nest_limit(10_000).build();
    regex.expect("the translation is an expression to regex too")
}

fn hostname_matches(rule: &str, host: &str) -> bool {
    matches!(rule, "" | "*")
        || is_host_of(rule, host)
        || lookup_form(rule).is_some_and(|form| form != rule && is_host_of(&form, host))
}

/// With regard to case; a wildcard stands for one or more labels.
fn is_host_of(rule: &str, host: &str) -> bool {
    rule == host
        || rule.starts_with("*.") && rule.strip_prefix('*').is_some_and(|suffix| host.ends_with(suffix))
}

/// What Go's `idna.Lookup.ToASCII` makes of a hostname; `None` where it refuses, as it does for every wildcard.
fn lookup_form(hostname: &str) -> Option<String> {
    let labels = hostname.split('.').map(|label| {
        let lower = label.to_lowercase();
        if lower.is_ascii() {
            let is_strict = lower.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let has_hyphens = lower.starts_with('-') || lower.ends_with('-') || lower.get(2..4) == Some("--");
            let is_punycode =
                lower.strip_prefix("xn--").is_some_and(|encoded| punycode::decode(encoded).is_ok());
            return (is_strict && (is_punycode || !has_hyphens)).then_some(lower);
        }
        punycode::encode(&lower).ok().map(|encoded| format!("xn--{encoded}"))
    });
    Some(labels.collect::<Option<Vec<_>>>()?.join("."))
}

/// The host before a port as Go's `net.SplitHostPort` finds it; `None` where it finds no port.
fn split_port(host: &str) -> Option<&str> {
    let (name, port) = host.rsplit_once(':')?;
    let (name, is_closed) = match name.strip_prefix('[') {
        Some(inside) => (inside.strip_suffix(']')?, true),
        None => (name, false),
    };
    let is_plain =
        !name.contains(['[', ']']) && !port.contains(['[', ']']) && (is_closed || !name.contains(':'));
    is_plain.then_some(name)
}

/// Text in Go's quotes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            character if character.is_ascii_control() => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(character)));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(rule: &str, rest: &str) -> Option<String> {
        let config = format!("{{\"ingress\":[{rule},{{\"service\":\"http_status:404\"}}]{rest}}}");
        validate(&config).err().map(|violation| violation.text)
    }

    /// What the vectors do not show: keys as Go reads them, and options that change what a service is.
    #[test]
    fn a_rule_is_read_as_go_and_cloudflared_read_it() {
        let no_address = "x is an invalid address, please make sure it has a scheme and a hostname";
        let bastion = r#","originRequest":{"bastionMode":true}"#;
        for (rule, rest, expected) in [
            (r#"{"HostName":"a","SERVICE":"http://a"}"#, "", None),
            (r#"{"hostname":"a","service":"x","service":"http://a"}"#, "", None),
            (r#"{"hostname":"a","service":"http://a","service":"x"}"#, "", Some(no_address)),
            (r#"{"hostname":"a","service":"x"}"#, bastion, None),
            (r#"{"hostname":"a","service":"x","originRequest":{"bastionMode":true}}"#, "", None),
            (
                r#"{"hostname":"a","service":"x","originRequest":{"bastionMode":false}}"#,
                bastion,
                Some(no_address),
            ),
            (
                r#"{"hostname":1,"service":"http://a","originRequest":{"tlsTimeout":"1s"}}"#,
                "",
                Some("strconv.ParseInt: parsing \"\\\"1s\\\"\": invalid syntax"),
            ),
            (
                r#"{"hostname":"a","service":"http://a","originRequest":{"ipRules":[{"prefix":"x"}]}}"#,
                "",
                None,
            ),
            (
                r#"{"hostname":"a","service":"socks-proxy","originRequest":{"ipRules":[{"prefix":"10.0.0.0"}]}}"#,
                "",
                Some(
                    "unable to create ip rule for socks-proxy: unable to parse cidr: invalid CIDR address: 10.0.0.0",
                ),
            ),
            (
                r#"{"hostname":"a","service":"socks-proxy","originRequest":{"ipRules":[{"prefix":"::/0","ports":[0]}]}}"#,
                "",
                Some(
                    "unable to create ip rule for socks-proxy: invalid port 0, needs to be between 1 and 65535",
                ),
            ),
        ] {
            assert_eq!(refusal(rule, rest).as_deref(), expected, "{rule}{rest}");
        }
    }

    #[test]
    fn a_violation_knows_its_rule() {
        let config = r#"{"ingress":[{"hostname":"a","service":"http://a"},{"service":"x"}]}"#;
        assert_eq!(validate(config).unwrap_err().rule, Some(1));
        assert_eq!(validate("[]").unwrap_err().rule, None);
    }

    #[test]
    fn a_port_is_found_where_go_finds_one() {
        for (host, expected) in [
            ("a:80", Some("a")),
            ("a:", Some("a")),
            ("[::1]:80", Some("::1")),
            ("a", None),
            ("::1", None),
            ("[::1]", None),
            ("a]:80", None),
        ] {
            assert_eq!(split_port(host), expected, "{host}");
        }
    }
}
