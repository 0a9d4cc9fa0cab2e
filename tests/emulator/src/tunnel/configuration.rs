//! A tunnel's configuration document: stored as the text it was sent as, once cloudflared would take it.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::answer::{Refusal, Success};
use crate::ingress;
use crate::json::{Members, elements, map_member, raw, to_raw};
use crate::tunnel::Tunnel;
use crate::whim::Whims;

/// How a tunnel that was never configured answers. Both are seen at Cloudflare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconfigured {
    /// A success whose `config` is `null`.
    Null,
    /// Error code 1055.
    NotFound,
}

/// The fields of `originRequest` and the texts of cloudflared's defaults.
const ORIGIN_DEFAULTS: [(&str, &str); 17] = [
    ("connectTimeout", "30"),
    ("tlsTimeout", "10"),
    ("tcpKeepAlive", "30"),
    ("noHappyEyeballs", "false"),
    ("keepAliveTimeout", "90"),
    ("keepAliveConnections", "100"),
    ("httpHostHeader", "\"\""),
    ("originServerName", "\"\""),
    ("matchSNItoHost", "false"),
    ("caPool", "\"\""),
    ("noTLSVerify", "false"),
    ("disableChunkedEncoding", "false"),
    ("http2Origin", "false"),
    ("bastionMode", "false"),
    ("proxyType", "\"\""),
    ("proxyPort", "0"),
    ("ipRules", "[]"),
];

/// The smallest document that cloudflared takes: one rule for everything.
pub fn catch_all(service: &str) -> String {
    format!("{{\"ingress\":[{{\"service\":{}}}]}}", to_raw(service).get())
}

/// The document inside the body of a PUT.
pub(super) fn config_of_body(body: &str) -> Result<Box<RawValue>, Refusal> {
    let members =
        Members::parse(body).ok_or_else(|| Refusal::bad_request("the body is not a JSON object"))?;
    members.last("config").map(ToOwned::to_owned).ok_or_else(|| Refusal::bad_request("config is required"))
}

impl Tunnel {
    /// Stores a document and counts the version up, or refuses it with code 1056. The connectors do not have it yet.
    pub(crate) fn put(&mut self, config: &RawValue, whims: &Whims, now: String) -> Result<i64, Refusal> {
        let bad =
            |text: String| Refusal::new(400, 1056, format!("Bad Configuration: Validation failed: {text}"));
        ingress::validate(config.get()).map_err(|violation| bad(violation.to_string()))?;
        if let Some(text) = whims.refuse_rules(&ingress::rules(config.get())) {
            return Err(bad(text));
        }
        let stored = if whims.drops_explicit_defaults {
            map_rules(config, &|rule| map_member(rule, "originRequest", &without_defaults))
        } else {
            config.to_owned()
        };
        self.config = Some(stored).filter(|config| config.get() != "null");
        self.version += 1;
        self.config_source = super::ConfigSource::Cloudflare;
        self.configured_at = now;
        Ok(self.version)
    }

    /// The answer to GET and PUT.
    pub(super) fn configuration(&self, whims: &Whims) -> Result<Success, Refusal> {
        #[derive(Serialize)]
        struct Configuration<'a> {
            tunnel_id: &'a str,
            version: i64,
            config: Option<&'a RawValue>,
            source: &'static str,
            created_at: &'a str,
            account_id: &'a str,
        }
        if self.version == 0 && self.unconfigured == Unconfigured::NotFound {
            return Err(Refusal::new(404, 1055, "Configuration for tunnel not found"));
        }
        let shown = match &self.config {
            Some(config) if whims.adds_empty_origin_request => Some(map_rules(config, &with_origin_request)),
            Some(config) => Some(config.clone()),
            None => None,
        };
        Ok(Success::of(&Configuration {
            tunnel_id: &self.id,
            version: self.version,
            config: shown.as_deref(),
            source: self.config_source.as_str(),
            created_at: &self.configured_at,
            account_id: &self.account,
        }))
    }
}

/// Changes every rule of a document and leaves everything else as it is, to the byte.
fn map_rules(config: &RawValue, change: &dyn Fn(&RawValue) -> Box<RawValue>) -> Box<RawValue> {
    map_member(config, "ingress", &|ingress| match elements(ingress.get()) {
        Some(rules) => to_raw(&rules.iter().map(|rule| change(rule)).collect::<Vec<_>>()),
        None => ingress.to_owned(),
    })
}

fn without_defaults(origin_request: &RawValue) -> Box<RawValue> {
    let Some(mut members) = Members::parse(origin_request.get()) else {
        return origin_request.to_owned();
    };
    members.0.retain(|(key, value)| {
        !ORIGIN_DEFAULTS.iter().any(|(name, default)| key == name && value.get() == *default)
    });
    members.to_raw()
}

fn with_origin_request(rule: &RawValue) -> Box<RawValue> {
    let Some(mut members) = Members::parse(rule.get()) else {
        return rule.to_owned();
    };
    if members.last("originRequest").is_none()
        && let Ok(empty) = raw("{}")
    {
        members.0.push(("originRequest".to_owned(), empty));
    }
    members.to_raw()
}
