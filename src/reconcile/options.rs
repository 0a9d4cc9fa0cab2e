//! Origin options and Access: what a property says, and what an ingress rule's `originRequest` holds.
//!
//! Both directions go through the JSON value, so that what `adjust` renders and what `records` reads back from a
//! rule cannot differ. Field names, types and units are cloudflared's (`config/configuration.go`): durations are
//! whole seconds, one wrong type makes cloudflared refuse the whole document.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::ingress::Rule;
use crate::ingress::origin_request::{COUNT_MAX, is_address_range};
use crate::model::endpoint::Property;
use crate::model::hostname;

/// Access tokens have to be valid for a request to reach the service: `true` or `false`.
pub const ACCESS_REQUIRED: &str = "webhook/access-required";

/// The team's name at Cloudflare Access.
pub const ACCESS_TEAM_NAME: &str = "webhook/access-team-name";

/// The applications' audience tags, separated by commas.
pub const ACCESS_AUD_TAG: &str = "webhook/access-aud-tag";

/// A file with certificate authorities, as every cloudflared of the tunnel sees it. Without it a service whose certificate
/// these have signed would be out of reach, so an invalid one is never left out.
pub const CA_POOL: &str = "webhook/origin-ca-pool";

/// The field of `originRequest` that [`CA_POOL`] becomes.
pub const CA_POOL_FIELD: &str = "caPool";

/// The rules of a `socks-proxy` service. They limit what is reachable, so an invalid list is never left out.
pub const IP_RULES: &str = "webhook/origin-ip-rules";

const ACCESS_FIELD: &str = "access";

const NOTHING_BESIDE_A_DEFAULT: &str = "is an empty list, which says nothing where there is a default: deny what the \
     default allows, as in [{\"prefix\":\"0.0.0.0/0\",\"allow\":false}]";

/// Longer, and cloudflared's nanoseconds overflow without a word.
const DURATION_MAX_SECONDS: u64 = 9_223_372_036;

/// How the text of a property becomes JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Duration,
    Count,
    Port,
    Boolean,
    Text,
    File,
    /// A text that goes into a header or a TLS extension.
    HostText,
    ProxyType,
    IpRules,
}

#[derive(Debug)]
struct OriginOption {
    property: &'static str,
    field: &'static str,
    kind: Kind,
}

/// In Cloudflare's order, which is the order they are written in.
const ORIGIN_OPTIONS: [OriginOption; 18] = [
    OriginOption {
        property: "webhook/origin-connect-timeout",
        field: "connectTimeout",
        kind: Kind::Duration,
    },
    OriginOption { property: "webhook/origin-tls-timeout", field: "tlsTimeout", kind: Kind::Duration },
    OriginOption { property: "webhook/origin-tcp-keep-alive", field: "tcpKeepAlive", kind: Kind::Duration },
    OriginOption {
        property: "webhook/origin-no-happy-eyeballs",
        field: "noHappyEyeballs",
        kind: Kind::Boolean,
    },
    OriginOption {
        property: "webhook/origin-keep-alive-timeout",
        field: "keepAliveTimeout",
        kind: Kind::Duration,
    },
    OriginOption {
        property: "webhook/origin-keep-alive-connections",
        field: "keepAliveConnections",
        kind: Kind::Count,
    },
    OriginOption {
        property: "webhook/origin-http-host-header",
        field: "httpHostHeader",
        kind: Kind::HostText,
    },
    OriginOption { property: "webhook/origin-server-name", field: "originServerName", kind: Kind::HostText },
    OriginOption {
        property: "webhook/origin-match-sni-to-host",
        field: "matchSNItoHost",
        kind: Kind::Boolean,
    },
    OriginOption { property: CA_POOL, field: CA_POOL_FIELD, kind: Kind::File },
    OriginOption { property: "webhook/origin-no-tls-verify", field: "noTLSVerify", kind: Kind::Boolean },
    OriginOption {
        property: "webhook/origin-disable-chunked-encoding",
        field: "disableChunkedEncoding",
        kind: Kind::Boolean,
    },
    OriginOption { property: "webhook/origin-http2-origin", field: "http2Origin", kind: Kind::Boolean },
    OriginOption { property: "webhook/origin-bastion-mode", field: "bastionMode", kind: Kind::Boolean },
    OriginOption { property: "webhook/origin-proxy-type", field: "proxyType", kind: Kind::ProxyType },
    OriginOption { property: "webhook/origin-proxy-address", field: "proxyAddress", kind: Kind::Text },
    OriginOption { property: "webhook/origin-proxy-port", field: "proxyPort", kind: Kind::Port },
    OriginOption { property: "webhook/origin-ip-rules", field: "ipRules", kind: Kind::IpRules },
];

/// The `originRequest` of a rule: Cloudflare's field names and values, in Cloudflare's order.
pub type OriginRequest = Vec<(&'static str, Value)>;

/// One property that could not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOption {
    /// The whole property name.
    pub property: Box<str>,
    /// What is wrong with it and what is allowed.
    pub problem: String,
}

/// What the origin options and Access properties of one endpoint amount to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptionsRead {
    /// What goes into the rule.
    pub origin_request: OriginRequest,
    /// Options that are left out with a warning.
    pub left_out: Vec<BadOption>,
    /// Options without which more would be published than was asked for: the endpoint is invalid.
    pub invalid: Vec<BadOption>,
}

/// Reads the texts of the options and of Access. An option that is not said, or left out, has its value of `defaults`.
pub fn read<'t>(
    text_of: &dyn Fn(&str) -> Option<&'t str>,
    defaults: &[(&'static str, Value)],
) -> OptionsRead {
    let mut read = OptionsRead::default();
    for option in &ORIGIN_OPTIONS {
        let default = defaults.iter().find(|(field, _)| *field == option.field);
        let problem = match text_of(option.property).map(|text| option.kind.parse(text)) {
            None => None,
            Some(Ok(Value::Null)) if default.is_none() => continue,
            // Nothing in the rule would say it, and so the default would come back and allow more.
            Some(Ok(Value::Null)) => Some(NOTHING_BESIDE_A_DEFAULT.to_owned()),
            Some(Ok(value)) => {
                read.origin_request.push((option.field, value));
                continue;
            }
            Some(Err(problem)) => Some(problem),
        };
        if let Some(problem) = problem {
            let is_needed = matches!(option.kind, Kind::IpRules | Kind::File);
            let list = if is_needed { &mut read.invalid } else { &mut read.left_out };
            list.push(BadOption { property: option.property.into(), problem });
        }
        read.origin_request.extend(default.cloned());
    }
    read_access(text_of, &mut read);
    read
}

/// The names of all origin options' properties.
pub fn origin_property_names() -> impl Iterator<Item = &'static str> {
    ORIGIN_OPTIONS.iter().map(|option| option.property)
}

/// The canonical properties for `origin_request`.
pub fn properties(origin_request: &[(&'static str, Value)]) -> Vec<Property> {
    origin_request.iter().flat_map(|(field, value)| properties_of_field(field, value)).collect()
}

/// The canonical properties for what stands in a tunnel's document, whoever wrote it there.
pub fn properties_of_rule(rule: &Rule) -> Vec<Property> {
    ORIGIN_OPTIONS
        .iter()
        .map(|option| option.field)
        .chain([ACCESS_FIELD])
        .filter_map(|field| {
            let raw = rule.origin_field(field)?;
            let value = serde_json::from_str(raw.get()).unwrap_or_else(|_| Value::from(raw.get()));
            Some(properties_of_field(field, &value))
        })
        .flatten()
        .collect()
}

fn properties_of_field(field: &str, value: &Value) -> Vec<Property> {
    if field == ACCESS_FIELD {
        return access_properties(value);
    }
    let Some(option) = ORIGIN_OPTIONS.iter().find(|option| option.field == field) else {
        return Vec::new();
    };
    option.kind.render(value).map(|text| Property::new(option.property, text)).into_iter().collect()
}

impl Kind {
    /// The JSON value of a property's text; `Null` where the text says what an absent field says.
    fn parse(self, text: &str) -> Result<Value, String> {
        if text.is_empty() {
            return Err("is empty".to_owned());
        }
        match self {
            Self::Duration => parse_duration(text).map(Value::from),
            Self::Count => whole_number(text, COUNT_MAX).map(Value::from),
            Self::Port => whole_number(text, u64::from(u16::MAX)).map(Value::from),
            Self::Boolean => parse_boolean(text).map(Value::from),
            Self::Text | Self::File | Self::HostText if text.chars().any(char::is_control) => {
                Err(format!("is {text:?}; allowed is a text without control characters"))
            }
            Self::HostText if text.chars().any(char::is_whitespace) => {
                Err(format!("is {text:?}; allowed is a text without blanks"))
            }
            Self::Text | Self::File | Self::HostText => Ok(Value::from(text)),
            Self::ProxyType if text == "socks" => Ok(Value::from(text)),
            Self::ProxyType => Err(format!("is {text:?}; allowed is socks")),
            Self::IpRules => parse_ip_rules(text),
        }
    }

    /// The property's text for a JSON value; `None` where the value means the same as an absent field. A value of
    /// another type than cloudflared takes is shown as it stands.
    fn render(self, value: &Value) -> Option<String> {
        match (self, value) {
            (_, Value::Null) => None,
            (Self::Text | Self::File | Self::HostText | Self::ProxyType, Value::String(text)) => {
                (!text.is_empty()).then(|| text.clone())
            }
            (Self::Duration, Value::Number(seconds)) => Some(format!("{seconds}s")),
            (Self::IpRules, Value::Array(rules)) if rules.is_empty() => None,
            (Self::IpRules, rules) => Some(render_ip_rules(rules)),
            (_, value) => Some(value.to_string()),
        }
    }
}

/// Whole seconds from Go's notation (`1m30s`) or a bare number of seconds.
fn parse_duration(text: &str) -> Result<u64, String> {
    const HELP: &str = "allowed are whole seconds, minutes and hours such as 30s or 1m30s";
    let bad = || format!("is {text:?}; {HELP}");
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return whole_number(text, DURATION_MAX_SECONDS);
    }
    let mut seconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit()).ok_or_else(bad)?;
        let (number, unit_and_rest) = rest.split_at(digits);
        let unit_seconds = match unit_and_rest.as_bytes() {
            [b'm', b's', ..] => return Err(bad()),
            [b'h', ..] => 3600,
            [b'm', ..] => 60,
            [b's', ..] => 1,
            _ => return Err(bad()),
        };
        let part = number.parse::<u64>().map_err(|_| bad())?.checked_mul(unit_seconds).ok_or_else(bad)?;
        seconds = seconds.checked_add(part).ok_or_else(bad)?;
        rest = unit_and_rest.get(1..).unwrap_or_default();
    }
    if seconds > DURATION_MAX_SECONDS { Err(bad()) } else { Ok(seconds) }
}

fn whole_number(text: &str, maximum: u64) -> Result<u64, String> {
    text.parse::<u64>()
        .ok()
        .filter(|number| text.bytes().all(|byte| byte.is_ascii_digit()) && *number <= maximum)
        .ok_or_else(|| format!("is {text:?}; allowed is a whole number from 0 to {maximum}"))
}

/// `true` or `false`, and nothing else: an unknown word must not decide.
fn parse_boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("is {text:?}; allowed are true and false")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IpRule {
    prefix: String,
    #[serde(default)]
    ports: Vec<u16>,
    allow: bool,
}

fn parse_ip_rules(text: &str) -> Result<Value, String> {
    const HELP: &str = r#"allowed is a list such as [{"prefix":"10.0.0.0/8","ports":[80,443],"allow":true}]"#;
    let rules: Vec<IpRule> = serde_json::from_str(text)
        .map_err(|error| format!("is {text:?}, which cannot be read ({error}); {HELP}"))?;
    if let Some(bad) = rules.iter().find(|rule| !is_address_range(&rule.prefix)) {
        return Err(format!("has the prefix {:?}, which is no address range; {HELP}", bad.prefix));
    }
    if rules.iter().any(|rule| rule.ports.contains(&0)) {
        return Err(format!("has the port 0; {HELP}"));
    }
    if rules.is_empty() {
        return Ok(Value::Null);
    }
    Ok(rules
        .into_iter()
        .map(|IpRule { prefix, ports, allow }| json!({"prefix": prefix, "ports": ports, "allow": allow}))
        .collect())
}

/// Compact, the keys in Cloudflare's order; serde_json's own map would sort them.
fn render_ip_rules(rules: &Value) -> String {
    let Value::Array(rules) = rules else {
        return rules.to_string();
    };
    let rendered: Vec<String> = rules
        .iter()
        .map(|rule| {
            let Value::Object(fields) = rule else {
                return rule.to_string();
            };
            let known = ["prefix", "ports", "allow"];
            let unknown = fields.keys().map(String::as_str).filter(|key| !known.contains(key));
            let parts: Vec<String> = known
                .into_iter()
                .chain(unknown)
                .filter_map(|key| Some(format!("{}:{}", Value::from(key), fields.get(key)?)))
                .collect();
            format!("{{{}}}", parts.join(","))
        })
        .collect();
    format!("[{}]", rendered.join(","))
}

fn read_access<'t>(text_of: &dyn Fn(&str) -> Option<&'t str>, read: &mut OptionsRead) {
    let [required, team, tags] = [ACCESS_REQUIRED, ACCESS_TEAM_NAME, ACCESS_AUD_TAG].map(text_of);
    let mut invalid = |property: &str, problem: String| {
        read.invalid.push(BadOption { property: property.into(), problem });
    };
    let tag_list: Vec<&str> =
        tags.unwrap_or_default().split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect();
    if let Some(team) = team.map(str::trim).filter(|team| !is_team_name(team)) {
        invalid(
            ACCESS_TEAM_NAME,
            format!(
                "is {team:?}; allowed is the first label of the team's domain, in lower case: for \
                 my-team.cloudflareaccess.com it is my-team"
            ),
        );
    }
    if tags.is_some() && tag_list.is_empty() {
        invalid(ACCESS_AUD_TAG, "is empty".to_owned());
    }
    let team = team.map(str::trim);
    let required = match required.map(parse_boolean) {
        None if team.is_none() && tags.is_none() => return,
        None => {
            return invalid(
                ACCESS_REQUIRED,
                "is missing beside the other Access properties; say true or false".into(),
            );
        }
        Some(Err(problem)) => return invalid(ACCESS_REQUIRED, problem),
        Some(Ok(required)) => required,
    };
    match (team, tags) {
        // cloudflared does not inherit Access from the tunnel's defaults: this says what nothing says.
        (None, None) if !required => return,
        (Some(_), Some(_)) => {}
        (None, Some(_)) => {
            return invalid(ACCESS_TEAM_NAME, "is missing; the tags mean nothing without it".into());
        }
        (_, None) if required => {
            return invalid(
                ACCESS_AUD_TAG,
                "or the team's name is missing; both are needed to check a token".into(),
            );
        }
        (_, None) => {}
    }
    let access = json!({"required": required, "teamName": team.unwrap_or_default(), "audTag": tag_list});
    read.origin_request.push((ACCESS_FIELD, access));
}

/// A label of DNS in lower case. cloudflared makes a URL of it as it is, and takes the keys of whatever host comes of that.
fn is_team_name(text: &str) -> bool {
    let is_letter_or_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= hostname::LABEL_MAX_BYTES
        && text.bytes().all(|byte| is_letter_or_digit(byte) || byte == b'-')
        && [text.bytes().next(), text.bytes().last()]
            .into_iter()
            .all(|end| end.is_some_and(is_letter_or_digit))
}

fn access_properties(access: &Value) -> Vec<Property> {
    // cloudflared's decoder does not look at the case of keys.
    let field = |name: &str| {
        let fields = access.as_object()?;
        fields.iter().rfind(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let required = field("required").and_then(Value::as_bool).unwrap_or_default();
    let team = field("teamName").and_then(Value::as_str).unwrap_or_default();
    let tags: Vec<&str> =
        field("audTag").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if !required && team.is_empty() && tags.is_empty() {
        return Vec::new();
    }
    let mut properties = vec![Property::new(ACCESS_REQUIRED, required.to_string())];
    if !team.is_empty() {
        properties.push(Property::new(ACCESS_TEAM_NAME, team));
    }
    if !tags.is_empty() {
        properties.push(Property::new(ACCESS_AUD_TAG, tags.join(",")));
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(said: &[(&str, &str)], defaults: &[(&'static str, Value)]) -> OptionsRead {
        read(&|wanted| said.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value), defaults)
    }

    fn read_one(name: &str, value: &str) -> OptionsRead {
        read_all(&[(name, value)], &[])
    }

    /// What is rendered from the value that was read.
    fn canonical(name: &str, value: &str) -> Result<Vec<(String, String)>, String> {
        let read = read_one(name, value);
        match read.left_out.iter().chain(&read.invalid).next() {
            Some(bad) => Err(bad.problem.clone()),
            None => {
                let rendered = properties(&read.origin_request);
                Ok(rendered
                    .into_iter()
                    .map(|property| (property.name.into(), property.value.into()))
                    .collect())
            }
        }
    }

    #[test]
    fn every_option_has_one_canonical_text() {
        let table = [
            ("webhook/origin-connect-timeout", "1m", Some("60s")),
            ("webhook/origin-connect-timeout", "1h1m1s", Some("3661s")),
            ("webhook/origin-tls-timeout", "30", Some("30s")),
            ("webhook/origin-tcp-keep-alive", "0s", Some("0s")),
            ("webhook/origin-keep-alive-timeout", "90s", Some("90s")),
            ("webhook/origin-keep-alive-connections", "100", Some("100")),
            ("webhook/origin-no-happy-eyeballs", "true", Some("true")),
            ("webhook/origin-no-tls-verify", "false", Some("false")),
            ("webhook/origin-match-sni-to-host", "true", Some("true")),
            ("webhook/origin-disable-chunked-encoding", "true", Some("true")),
            ("webhook/origin-http2-origin", "true", Some("true")),
            ("webhook/origin-bastion-mode", "true", Some("true")),
            ("webhook/origin-http-host-header", "app.local", Some("app.local")),
            ("webhook/origin-server-name", "app.local", Some("app.local")),
            ("webhook/origin-ca-pool", "/etc/ca.pem", Some("/etc/ca.pem")),
            ("webhook/origin-proxy-address", "127.0.0.1", Some("127.0.0.1")),
            ("webhook/origin-proxy-port", "8080", Some("8080")),
            ("webhook/origin-proxy-type", "socks", Some("socks")),
            ("webhook/origin-ip-rules", r#"[ {"allow":true, "prefix":"10.0.0.0/8", "ports":[80,443]} ]"#, {
                Some(r#"[{"prefix":"10.0.0.0/8","ports":[80,443],"allow":true}]"#)
            }),
            ("webhook/origin-ip-rules", "[]", None),
        ];
        for (name, value, expected) in table {
            let expected: Vec<(String, String)> =
                expected.map(|text| (name.to_owned(), text.to_owned())).into_iter().collect();
            assert_eq!(canonical(name, value), Ok(expected.clone()), "{name}={value}");
            for (name, value) in &expected {
                assert_eq!(
                    canonical(name, value),
                    Ok(expected.clone()),
                    "the canonical text of {name} stays as it is"
                );
            }
        }
        let named: Vec<&str> = table.iter().map(|(name, _, _)| *name).collect();
        for property in origin_property_names() {
            assert!(named.contains(&property), "{property} is missing in the table");
        }
    }

    #[test]
    fn an_invalid_option_is_left_out_and_says_what_is_allowed() {
        for (name, value) in [
            ("webhook/origin-connect-timeout", "500ms"),
            ("webhook/origin-connect-timeout", "1.5s"),
            ("webhook/origin-connect-timeout", "-1s"),
            ("webhook/origin-connect-timeout", "9223372037s"),
            ("webhook/origin-connect-timeout", "99999999999999999999h"),
            ("webhook/origin-connect-timeout", "s"),
            ("webhook/origin-connect-timeout", ""),
            ("webhook/origin-keep-alive-connections", "many"),
            ("webhook/origin-keep-alive-connections", "+5"),
            ("webhook/origin-keep-alive-connections", "2147483648"),
            ("webhook/origin-proxy-port", "70000"),
            ("webhook/origin-proxy-type", "other"),
            ("webhook/origin-no-tls-verify", "yes"),
            ("webhook/origin-http-host-header", "a\nb"),
        ] {
            let read = read_one(name, value);
            assert_eq!(read.origin_request, [], "{name}={value:?}");
            assert_eq!((read.left_out.len(), read.invalid.len()), (1, 0), "{name}={value:?}");
        }
    }

    /// An option that is said, one that is left out and one that nobody says, beside defaults for all three.
    #[test]
    fn a_default_stands_where_the_endpoint_says_nothing_valid() {
        let defaults = [("connectTimeout", json!(5)), ("noTLSVerify", json!(true)), ("proxyPort", json!(80))];
        let said = [("webhook/origin-no-tls-verify", "false"), ("webhook/origin-proxy-port", "many")];
        let read = read_all(&said, &defaults);
        assert_eq!(
            read.origin_request,
            [("connectTimeout", json!(5)), ("noTLSVerify", json!(false)), ("proxyPort", json!(80))]
        );
        assert_eq!((read.left_out.len(), read.invalid.len()), (1, 0), "{read:?}");
    }

    /// Nothing in a rule would say it, and in the next loop the default would allow what it denies.
    #[test]
    fn an_empty_list_of_ip_rules_is_invalid_beside_a_default_that_allows_something() {
        let defaults = [("ipRules", json!([{"prefix": "10.0.0.0/8", "ports": [], "allow": true}]))];
        assert_ne!(read_all(&[(IP_RULES, "[]")], &defaults).invalid, []);
        let own = r#"[{"prefix":"192.0.2.0/24","ports":[],"allow":true}]"#;
        let own_rules = properties(&read_all(&[(IP_RULES, own)], &defaults).origin_request);
        assert_eq!(own_rules, [Property::new(IP_RULES, own)]);
    }

    #[test]
    fn what_limits_access_is_never_left_out() {
        let team = ("webhook/access-team-name", "team");
        let tag = ("webhook/access-aud-tag", "tag");
        let required = ("webhook/access-required", "true");
        let table = [
            ("required alone", vec![required]),
            ("required without tags", vec![required, team]),
            ("required without a team", vec![required, tag]),
            ("a team and tags, and nobody says whether", vec![team, tag]),
            ("a word that is no boolean", vec![("webhook/access-required", "yes"), team, tag]),
            ("an empty value", vec![("webhook/access-required", ""), team, tag]),
            ("an empty list of tags", vec![required, team, ("webhook/access-aud-tag", " , ")]),
            ("a domain for the team's name", vec![required, tag, ("webhook/access-team-name", "team.test")]),
            (
                "another host for the team's",
                vec![required, tag, ("webhook/access-team-name", "evil.test/x#")],
            ),
            ("a team's name in capitals", vec![required, tag, ("webhook/access-team-name", "Team")]),
            ("a team's name that ends in a dash", vec![required, tag, ("webhook/access-team-name", "team-")]),
            ("rules that cannot be read", vec![("webhook/origin-ip-rules", "10.0.0.0/8")]),
            (
                "rules with a key too many",
                vec![(IP_RULES, r#"[{"prefix":"10.0.0.0/8","allow":true,"deny":1}]"#)],
            ),
            ("an empty file of authorities", vec![(CA_POOL, "")]),
            ("a file of authorities that is none", vec![(CA_POOL, "/etc\n/ca.pem")]),
            ("rules with a bad prefix", vec![(IP_RULES, r#"[{"prefix":"10.0.0.0","allow":true}]"#)]),
        ];
        for (label, properties) in table {
            assert_ne!(read_all(&properties, &[]).invalid, [], "{label}");
        }
    }

    #[test]
    fn access_is_read_back_as_it_was_asked_for() {
        let asked = [
            ("webhook/access-required", "true"),
            ("webhook/access-team-name", "team"),
            ("webhook/access-aud-tag", "one, two"),
        ];
        let read = read_all(&asked, &[]);
        assert_eq!(read.invalid, []);
        let expected = json!({"required": true, "teamName": "team", "audTag": ["one", "two"]});
        assert_eq!(read.origin_request, [("access", expected)]);
        let rendered = properties(&read.origin_request);
        assert_eq!(
            rendered,
            [
                Property::new(ACCESS_REQUIRED, "true"),
                Property::new(ACCESS_TEAM_NAME, "team"),
                Property::new(ACCESS_AUD_TAG, "one,two")
            ]
        );
    }

    #[test]
    fn access_that_is_not_required_says_what_nothing_says() {
        assert_eq!(read_one(ACCESS_REQUIRED, "false"), OptionsRead::default());
        let empty = json!({"required": false, "teamName": "", "audTag": []});
        assert_eq!(properties(&[("access", empty)]), []);
    }

    #[test]
    fn access_is_read_as_cloudflared_reads_it_whatever_the_case_of_its_keys() {
        let access = json!({"Required": true, "TEAMNAME": "team", "audtag": ["tag"]});
        assert_eq!(properties(&[("access", access)]).len(), 3);
    }
}
