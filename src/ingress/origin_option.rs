//! The options of a rule: one table of them, and how each kind is parsed and rendered.
//!
//! A new option is one line of the table; tests compare it with the documents. Field names, types and units are
//! cloudflared's (`config/configuration.go`, `OriginRequestConfig`): durations are whole seconds. One value of a wrong
//! type makes cloudflared refuse the whole document, so only [`OriginOption::parse`] makes values.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::limits;
use crate::model::text::{one_line, seconds_in};

/// A 32-bit cloudflared, for arm or 386, cannot read a number above this, and refuses the whole document although
/// Cloudflare accepted it.
const COUNT_MAX: u64 = i32::MAX as u64;

/// Above this, cloudflared's nanoseconds overflow silently.
const DURATION_MAX_SECONDS: u64 = i64::MAX as u64 / 1_000_000_000;

macro_rules! origin_options {
    ($($option:ident: $kind:ident, $name:literal, $setting:literal, $field:literal, $cloudflared_default:literal;)+) => {
        /// An option of a rule. Options are ordered as Cloudflare orders them, and written in that order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OriginOption {
            $(#[doc = concat!("`", $field, "`")] $option,)+
        }

        impl OriginOption {
            const ALL: &[Self] = &[$(Self::$option),+];

            const fn row(self) -> &'static Row {
                match self {
                    $(Self::$option => &Row {
                        kind: OptionKind::$kind,
                        property: concat!("webhook/origin-", $name),
                        setting: concat!("ORIGIN_", $setting),
                        field: $field,
                        cloudflared_default: $cloudflared_default,
                    },)+
                }
            }
        }
    };
}

origin_options! {
    ConnectTimeout: Duration, "connect-timeout", "CONNECT_TIMEOUT", "connectTimeout", "30s";
    TlsTimeout: Duration, "tls-timeout", "TLS_TIMEOUT", "tlsTimeout", "10s";
    TcpKeepAlive: Duration, "tcp-keep-alive", "TCP_KEEP_ALIVE", "tcpKeepAlive", "30s";
    NoHappyEyeballs: Flag, "no-happy-eyeballs", "NO_HAPPY_EYEBALLS", "noHappyEyeballs", "false";
    KeepAliveTimeout: Duration, "keep-alive-timeout", "KEEP_ALIVE_TIMEOUT", "keepAliveTimeout", "90s";
    KeepAliveConnections: Count, "keep-alive-connections", "KEEP_ALIVE_CONNECTIONS", "keepAliveConnections", "100";
    HttpHostHeader: HostText, "http-host-header", "HTTP_HOST_HEADER", "httpHostHeader", "";
    ServerName: HostText, "server-name", "SERVER_NAME", "originServerName", "";
    MatchSniToHost: Flag, "match-sni-to-host", "MATCH_SNI_TO_HOST", "matchSNItoHost", "false";
    CaPool: Path, "ca-pool", "CA_POOL", "caPool", "";
    NoTlsVerify: Flag, "no-tls-verify", "NO_TLS_VERIFY", "noTLSVerify", "false";
    DisableChunkedEncoding: Flag, "disable-chunked-encoding", "DISABLE_CHUNKED_ENCODING", "disableChunkedEncoding", "false";
    Http2Origin: Flag, "http2-origin", "HTTP2_ORIGIN", "http2Origin", "false";
    BastionMode: Flag, "bastion-mode", "BASTION_MODE", "bastionMode", "false";
    ProxyType: ProxyType, "proxy-type", "PROXY_TYPE", "proxyType", "";
    ProxyAddress: Text, "proxy-address", "PROXY_ADDRESS", "proxyAddress", "127.0.0.1";
    ProxyPort: Port, "proxy-port", "PROXY_PORT", "proxyPort", "0";
    IpRules: IpRules, "ip-rules", "IP_RULES", "ipRules", "";
}

/// A line of the table.
struct Row {
    kind: OptionKind,
    property: &'static str,
    setting: &'static str,
    field: &'static str,
    /// cloudflared's default (`ingress/config.go`), written as in an annotation; empty if there is none.
    cloudflared_default: &'static str,
}

/// The type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionKind {
    Duration,
    Count,
    Port,
    Flag,
    Text,
    /// The absolute path of a file.
    Path,
    /// A host, in a header or a TLS extension. Go sends an empty `Host` in place of a URL.
    HostText,
    ProxyType,
    /// The rules of a `socks-proxy` service, which limit the addresses and ports that clients reach.
    IpRules,
}

/// An option, with a value that cloudflared accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginValue {
    pub(super) option: OriginOption,
    /// The field's value.
    pub(super) json: Value,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct IpRule {
    prefix: String,
    #[serde(default)]
    ports: Vec<u16>,
    allow: bool,
}

/// One mistake in an endpoint or a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The property with the mistake, or another cause.
    pub subject: Box<str>,
    /// The problem, and the allowed values.
    pub problem: String,
}

impl Mistake {
    pub fn new(subject: &str, problem: impl Into<String>) -> Self {
        Self { subject: subject.into(), problem: problem.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = one_line(&self.subject, limits::ERROR_TEXT_MAX_CHARS);
        write!(formatter, "{subject} {}", one_line(&self.problem, limits::ERROR_TEXT_MAX_CHARS))
    }
}

impl OriginOption {
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        Self::ALL.iter().copied()
    }

    /// The endpoint property that sets it.
    pub const fn property(self) -> &'static str {
        self.row().property
    }

    /// The setting of this program that applies to endpoints without the property.
    pub const fn setting(self) -> &'static str {
        self.row().setting
    }

    /// The field of `originRequest`, in Cloudflare's spelling.
    pub const fn field(self) -> &'static str {
        self.row().field
    }

    /// cloudflared's default if neither the rule nor its tunnel sets the option; empty if there is none.
    pub(super) const fn cloudflared_default(self) -> &'static str {
        self.row().cloudflared_default
    }

    /// The option that a property sets.
    pub fn of(property: &str) -> Option<Self> {
        Self::all().find(|option| option.property() == property)
    }

    /// Parses a value; `None` if it means the same as an absent field.
    pub fn parse(self, text: &str) -> Result<Option<OriginValue>, String> {
        let json = self.row().kind.parse(text)?;
        let is_nothing = json.as_array().is_some_and(Vec::is_empty);
        Ok((!is_nothing).then_some(OriginValue { option: self, json }))
    }

    /// The text of a JSON value, ours or foreign; `None` if the value means the same as an absent field. A value of a
    /// type that cloudflared does not accept is shown as JSON.
    pub(super) fn render(self, value: &Value) -> Option<String> {
        match (self.row().kind, value) {
            (_, Value::Null) => None,
            (
                OptionKind::Text | OptionKind::Path | OptionKind::HostText | OptionKind::ProxyType,
                Value::String(text),
            ) => (!text.is_empty()).then(|| text.clone()),
            (OptionKind::Duration, Value::Number(seconds)) => Some(format!("{seconds}s")),
            (OptionKind::IpRules, Value::Array(rules)) if rules.is_empty() => None,
            (_, value) => Some(value.to_string()),
        }
    }
}

impl OptionKind {
    fn parse(self, text: &str) -> Result<Value, String> {
        if text.is_empty() {
            return Err("is empty".to_owned());
        }
        match self {
            Self::Duration => parse_duration(text).map(Value::from),
            Self::Count => whole_number(text, COUNT_MAX).map(Value::from),
            Self::Port => whole_number(text, u64::from(u16::MAX)).map(Value::from),
            Self::Flag => parse_flag(text).map(Value::from),
            Self::Text | Self::HostText if text.chars().any(char::is_control) => {
                Err(format!("is {text:?}; allowed is a text without control characters"))
            }
            Self::HostText if text.contains(|one: char| one == '/' || one.is_whitespace()) => {
                Err(format!("is {text:?}; allowed is a host, without https:// and without blanks"))
            }
            Self::ProxyType if text != "socks" => Err(format!("is {text:?}; allowed is socks")),
            Self::Text | Self::HostText | Self::ProxyType => Ok(Value::from(text)),
            Self::Path => check_absolute(text)
                .map(|()| Value::from(text))
                .map_err(|problem| format!("is {text:?}; {problem}")),
            Self::IpRules => parse_ip_rules(text),
        }
    }
}

/// A relative path would depend on where cloudflared was started.
pub fn check_absolute(path: &str) -> Result<(), &'static str> {
    if path.starts_with('/') && !path.chars().any(char::is_control) {
        return Ok(());
    }
    Err("allowed are absolute paths such as /etc/ca.pem, without control characters")
}

/// Parses whole seconds, in Go's notation (`1m30s`) or as a plain number.
fn parse_duration(text: &str) -> Result<u64, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return whole_number(text, DURATION_MAX_SECONDS);
    }
    let seconds = seconds_in(text).filter(|seconds| *seconds <= DURATION_MAX_SECONDS);
    seconds.ok_or_else(|| {
        format!("is {text:?}; allowed are whole seconds, minutes and hours such as 30s or 1m30s")
    })
}

fn whole_number(text: &str, maximum: u64) -> Result<u64, String> {
    text.parse::<u64>()
        .ok()
        .filter(|number| text.bytes().all(|byte| byte.is_ascii_digit()) && *number <= maximum)
        .ok_or_else(|| format!("is {text:?}; allowed is a whole number from 0 to {maximum}"))
}

/// Accepts only `true` or `false`, because an unknown word must not decide anything.
pub(super) fn parse_flag(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("is {text:?}; allowed are true and false")),
    }
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
    Ok(json!(rules))
}

/// True if the text is an address with a prefix length, such as `10.0.0.0/8`.
fn is_address_range(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => whole_number(length, 32).is_ok(),
        Ok(IpAddr::V6(_)) => whole_number(length, 128).is_ok(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the table of docs/annotations.md: the options, their order, and the values that each accepts.
    #[test]
    fn the_documents_have_every_option_in_order_and_what_it_takes() {
        let (_, text) = include_str!("../../docs/annotations.md")
            .split_once("\n## Origin options\n")
            .expect("it is there");
        let (text, _) = text.split_once("\n### ").expect("another section follows");
        let mut options = OriginOption::all();
        for row in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [annotation, takes, field] = cells[..] else { panic!("{row}") };
            let option = options.next().expect("every row is an option");
            assert_eq!(annotation, format!("`{}`", option.property().replace('/', "-")));
            assert_eq!(field, format!("`{}`", option.field()));
            let (taken, refused) = match takes {
                "duration" => ("9223372036s", "9223372037s"),
                "boolean" => ("false", "1"),
                "number up to 2,147,483,647" => ("2147483647", "2147483648"),
                "port" => ("65535", "65536"),
                "text" => ("a b", "a\nb"),
                "host without `https://`" => ("a.test:80", "https://a.test"),
                "a [listed file](#files-with-authorities)" => ("/a b", "/a\nb"),
                "`socks`" => ("socks", "http"),
                "JSON, see below" => (r#"[{"prefix":"::/0","allow":true}]"#, "::/0"),
                other => panic!("{option:?} takes {other}"),
            };
            assert!(
                option.parse(taken).is_ok() && option.parse(refused).is_err(),
                "{option:?} takes {takes}"
            );
        }
        assert_eq!(options.next(), None, "it is missing in the documents");
    }
}
