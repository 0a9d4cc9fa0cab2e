//! The types that cloudflared reads a document into, and what Go's encoding/json says when one does not fit.
//!
//! Go goes on after a value of the wrong type and reports the first one, but stops at once where a type has its own
//! decoder, as durations do: so a bad duration is reported even behind a bad boolean.

use serde_json::value::RawValue;

use super::quoted;
use crate::json::{Members, elements};

enum Type {
    Bool,
    Text,
    Integer,
    Unsigned(&'static str),
    Seconds,
    List(&'static Self),
    Struct(&'static Struct),
}

struct Struct {
    package: &'static str,
    name: &'static str,
    fields: &'static [(&'static str, Type)],
}

static DOCUMENT: Struct = Struct {
    package: "ingress",
    name: "RemoteConfigJSON",
    fields: &[
        ("originRequest", Type::Struct(&ORIGIN_REQUEST)),
        ("ingress", Type::List(&Type::Struct(&RULE))),
        ("warp-routing", Type::Struct(&WARP_ROUTING)),
    ],
};

static RULE: Struct = Struct {
    package: "config",
    name: "UnvalidatedIngressRule",
    fields: &[
        ("hostname", Type::Text),
        ("path", Type::Text),
        ("service", Type::Text),
        ("originRequest", Type::Struct(&ORIGIN_REQUEST)),
    ],
};

static ORIGIN_REQUEST: Struct = Struct {
    package: "config",
    name: "OriginRequestConfig",
    fields: &[
        ("connectTimeout", Type::Seconds),
        ("tlsTimeout", Type::Seconds),
        ("tcpKeepAlive", Type::Seconds),
        ("noHappyEyeballs", Type::Bool),
        ("keepAliveConnections", Type::Integer),
        ("keepAliveTimeout", Type::Seconds),
        ("httpHostHeader", Type::Text),
        ("originServerName", Type::Text),
        ("matchSNItoHost", Type::Bool),
        ("caPool", Type::Text),
        ("noTLSVerify", Type::Bool),
        ("disableChunkedEncoding", Type::Bool),
        ("bastionMode", Type::Bool),
        ("proxyAddress", Type::Text),
        ("proxyPort", Type::Unsigned("uint")),
        ("proxyType", Type::Text),
        ("ipRules", Type::List(&Type::Struct(&IP_RULE))),
        ("http2Origin", Type::Bool),
        ("access", Type::Struct(&ACCESS)),
    ],
};

static ACCESS: Struct = Struct {
    package: "config",
    name: "AccessConfig",
    fields: &[
        ("required", Type::Bool),
        ("teamName", Type::Text),
        ("audTag", Type::List(&Type::Text)),
        ("environment", Type::Text),
    ],
};

static IP_RULE: Struct = Struct {
    package: "config",
    name: "IngressIPRule",
    fields: &[("prefix", Type::Text), ("ports", Type::List(&Type::Integer)), ("allow", Type::Bool)],
};

static WARP_ROUTING: Struct = Struct {
    package: "config",
    name: "WarpRoutingConfig",
    fields: &[
        ("connectTimeout", Type::Seconds),
        ("maxActiveFlows", Type::Unsigned("uint64")),
        ("tcpKeepAlive", Type::Seconds),
    ],
};

impl Type {
    fn name(&self) -> String {
        match self {
            Self::Bool => "bool".to_owned(),
            Self::Text => "string".to_owned(),
            Self::Integer => "int".to_owned(),
            Self::Unsigned(name) => (*name).to_owned(),
            Self::Seconds => "config.CustomDuration".to_owned(),
            Self::List(item) => format!("[]{}", item.name()),
            Self::Struct(Struct { package, name, fields: _ }) => format!("{package}.{name}"),
        }
    }
}

/// Says whether Go could decode the document.
pub(super) fn check(config: &RawValue) -> Result<(), String> {
    let mut decoder = Decoder { first_mistake: None };
    decoder.value(config.get(), &Type::Struct(&DOCUMENT), None)?;
    decoder.first_mistake.map_or(Ok(()), Err)
}

struct Decoder {
    first_mistake: Option<String>,
}

/// The innermost struct around a value, and the path to the value from the document.
type Place<'a> = Option<(&'a Struct, &'a str)>;

impl Decoder {
    /// An error stops the decoding, a mistake is only noted.
    fn value(&mut self, text: &str, wanted: &Type, place: Place<'_>) -> Result<(), String> {
        let kind = kind_of(text);
        match (wanted, kind) {
            (_, "null") | (Type::Bool, "bool") | (Type::Text, "string") => {}
            (Type::Seconds, _) => parse_seconds(text)?,
            (Type::Integer, "number") if text.parse::<i64>().is_ok() => {}
            (Type::Unsigned(_), "number") if text.parse::<u64>().is_ok() => {}
            (Type::Integer | Type::Unsigned(_), "number") => {
                self.note(&format!("number {text}"), wanted, place)
            }
            (Type::List(item), "array") => {
                for element in elements(text).unwrap_or_default() {
                    self.value(element.get(), item, place)?;
                }
            }
            (Type::Struct(fields), "object") => self.object(text, fields, place)?,
            _ => self.note(kind, wanted, place),
        }
        Ok(())
    }

    fn object(&mut self, text: &str, wanted: &Struct, place: Place<'_>) -> Result<(), String> {
        for (key, value) in Members::parse(text).unwrap_or_default().0 {
            let field = wanted.fields.iter().find(|(name, _)| key.eq_ignore_ascii_case(name));
            if let Some((name, field_type)) = field {
                let path = place.map_or_else(|| (*name).to_owned(), |(_, path)| format!("{path}.{name}"));
                self.value(value.get(), field_type, Some((wanted, &path)))?;
            }
        }
        Ok(())
    }

    fn note(&mut self, found: &str, wanted: &Type, place: Place<'_>) {
        let target = match place {
            Some((Struct { name, .. }, path)) => format!("struct field {name}.{path}"),
            None => "value".to_owned(),
        };
        let mistake = format!("json: cannot unmarshal {found} into Go {target} of type {}", wanted.name());
        self.first_mistake.get_or_insert(mistake);
    }
}

fn kind_of(text: &str) -> &'static str {
    match text.bytes().next() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// Durations are whole seconds; cloudflared parses the bytes of the value.
fn parse_seconds(text: &str) -> Result<(), String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("strconv.ParseInt: parsing {}: invalid syntax", quoted(text)));
    }
    match text.parse::<i64>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("strconv.ParseInt: parsing {}: value out of range", quoted(text))),
    }
}
