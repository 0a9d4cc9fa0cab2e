//! The options of a rule, `originRequest`: which fields there are, what cloudflared reads in them, and when
//! two are equal.
//!
//! One value of a wrong type makes cloudflared refuse the whole document, so the types are its own
//! (`config.OriginRequestConfig`). On top of them a rule of ours may hold no value that cloudflared takes
//! silently and then does something surprising with.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use serde_json::Value;
use serde_json::value::RawValue;

use super::raw_object::{RawObject, integer, is_null, is_same_key, list, raw, text};

/// The fields of `originRequest` that are managed, in Cloudflare's spelling and order.
pub const ORIGIN_FIELDS: [&str; 19] = [
    "connectTimeout",
    "tlsTimeout",
    "tcpKeepAlive",
    "noHappyEyeballs",
    "keepAliveTimeout",
    "keepAliveConnections",
    "httpHostHeader",
    "originServerName",
    "matchSNItoHost",
    "caPool",
    "noTLSVerify",
    "disableChunkedEncoding",
    "http2Origin",
    "bastionMode",
    "proxyType",
    "proxyAddress",
    "proxyPort",
    "ipRules",
    "access",
];

/// The fields of `access` that are managed.
const ACCESS_FIELDS: [&str; 3] = ["required", "teamName", "audTag"];

/// Above this a cloudflared of 32 bits, for arm or 386, cannot read the number, and refuses the whole document that
/// Cloudflare took.
pub const COUNT_MAX: u64 = i32::MAX as u64;

/// Above this cloudflared's nanoseconds overflow, silently.
const SECONDS_MAX: i64 = i64::MAX / 1_000_000_000;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Seconds,
    Count,
    Flag,
    Text,
    /// A text that goes into a header or a TLS extension.
    HostText,
    ProxyType,
    Port,
    IpRules,
    Access,
}

/// Why the value of a field cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldProblem {
    /// Another JSON type than the one named here: cloudflared refuses the whole document.
    Type(&'static str),
    /// A negative number where cloudflared would take it as "no limit" or its default.
    Negative,
    /// More seconds than cloudflared can count.
    TooManySeconds,
    /// A number above [`COUNT_MAX`].
    TooMany,
    /// A port above 65535.
    Port,
    /// A proxy type other than none and `socks`.
    ProxyType,
    /// A blank or control character in a text that goes into a header or a TLS extension.
    Character(char),
    /// An address range of `ipRules` that is none.
    Prefix(Box<str>),
    /// Tokens are required without saying of which team.
    AccessWithoutTeam,
    /// Tokens are required without saying for which application: every request would be refused.
    AccessWithoutAudience,
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(expected) => write!(formatter, "must be {expected}"),
            Self::Negative => formatter.write_str("must not be negative"),
            Self::TooManySeconds => write!(formatter, "must not be more than {SECONDS_MAX} seconds"),
            Self::TooMany => write!(formatter, "must not be more than {COUNT_MAX}"),
            Self::Port => formatter.write_str("must hold ports up to 65535"),
            Self::ProxyType => formatter.write_str("must be empty or \"socks\""),
            Self::Character(character) => write!(formatter, "cannot hold {character:?}"),
            Self::Prefix(prefix) => {
                write!(formatter, "must hold address ranges such as 10.0.0.0/8, not {prefix:?}")
            }
            Self::AccessWithoutTeam => formatter.write_str("needs a teamName where it is required"),
            Self::AccessWithoutAudience => {
                formatter.write_str("needs an audTag where it is required, else every request is refused")
            }
        }
    }
}

/// The managed field that a key means, in Cloudflare's spelling.
pub(super) fn managed_field(key: &str) -> Option<&'static str> {
    ORIGIN_FIELDS.into_iter().find(|field| is_same_key(key, field))
}

/// Whether cloudflared can read the value: `null` is an absent one.
pub(super) fn check_type(field: &str, value: &RawValue) -> Result<(), FieldProblem> {
    if is_null(value) {
        return Ok(());
    }
    let fits = |fits: bool, expected| {
        if fits { Ok(()) } else { Err(FieldProblem::Type(expected)) }
    };
    match kind(field) {
        Some(Kind::Seconds) => fits(integer(value).is_some(), "a whole number of seconds"),
        Some(Kind::Count) => fits(integer(value).is_some(), "a whole number"),
        Some(Kind::Port) => fits(value.get().parse::<u64>().is_ok(), "a port number"),
        Some(Kind::Flag) => fits(is_flag(value), "true or false"),
        Some(Kind::Text | Kind::HostText | Kind::ProxyType) => fits(text(value).is_some(), "a text"),
        Some(Kind::IpRules) => fits(
            list(value).is_some_and(|rules| rules.into_iter().all(is_ip_rule)),
            "a list of {prefix: text, ports: list of numbers, allow: true or false}",
        ),
        Some(Kind::Access) => fits(
            is_access(value),
            "an object {required: true or false, teamName: text, audTag: list of texts}",
        ),
        None => Ok(()),
    }
}

/// Whether a rule of ours may hold the value.
pub(super) fn check(field: &str, value: &RawValue) -> Result<(), FieldProblem> {
    check_type(field, value)?;
    if is_null(value) {
        return Ok(());
    }
    match kind(field) {
        Some(Kind::Seconds) => match integer(value) {
            Some(..0) => Err(FieldProblem::Negative),
            Some(seconds) if seconds > SECONDS_MAX => Err(FieldProblem::TooManySeconds),
            _ => Ok(()),
        },
        Some(Kind::Count) => match integer(value) {
            Some(..0) => Err(FieldProblem::Negative),
            Some(number) if number.unsigned_abs() > COUNT_MAX => Err(FieldProblem::TooMany),
            _ => Ok(()),
        },
        Some(Kind::Port) if value.get().parse::<u16>().is_err() => Err(FieldProblem::Port),
        Some(Kind::ProxyType) if !text(value).is_some_and(|text| text.is_empty() || text == "socks") => {
            Err(FieldProblem::ProxyType)
        }
        Some(Kind::HostText) => {
            let blank = |character: &char| character.is_control() || character.is_whitespace();
            match text(value).and_then(|text| text.chars().find(blank)) {
                Some(character) => Err(FieldProblem::Character(character)),
                None => Ok(()),
            }
        }
        Some(Kind::IpRules) => list(value).unwrap_or_default().into_iter().try_for_each(check_ip_rule),
        Some(Kind::Access) => check_access(value),
        Some(Kind::Port | Kind::ProxyType | Kind::Flag | Kind::Text) | None => Ok(()),
    }
}

/// Whether the field has the value wanted. Absent and `null` are the same; of `access` only the managed
/// fields count.
pub(super) fn is_equal(field: &str, present: Option<&RawValue>, wanted: Option<&Value>) -> bool {
    let wanted = wanted.filter(|value| !value.is_null());
    if kind(field) == Some(Kind::Access) {
        let present = present.and_then(RawObject::parse).unwrap_or_default();
        return ACCESS_FIELDS.into_iter().all(|name| {
            let wanted = wanted.and_then(|access| access.get(name)).filter(|value| !value.is_null());
            is_value(present.last(name), wanted)
        });
    }
    is_value(present, wanted)
}

/// What to write for `access` so that it is as wanted and keeps the fields that are not managed; nothing
/// where nothing is left.
pub(super) fn access_with(present: Option<&RawValue>, wanted: Option<&Value>) -> Option<Box<RawValue>> {
    let values = ACCESS_FIELDS.map(|name| {
        let value = wanted.and_then(|access| access.get(name)).filter(|value| !value.is_null());
        (name, value, value.map(raw))
    });
    let mut access = present.and_then(RawObject::parse).unwrap_or_default();
    for (name, wanted, written) in &values {
        match written {
            Some(_) if is_value(access.last(name), *wanted) => {}
            Some(written) => access.set(name, written),
            None => access.remove(name),
        }
    }
    (!access.is_empty()).then(|| access.to_raw())
}

/// Whether `access` holds a field that is not managed.
pub(super) fn has_unknown_access_field(access: &RawValue) -> bool {
    RawObject::parse(access).is_some_and(|access| access.has_others_than(&ACCESS_FIELDS))
}

fn kind(field: &str) -> Option<Kind> {
    Some(match field {
        "connectTimeout" | "tlsTimeout" | "tcpKeepAlive" | "keepAliveTimeout" => Kind::Seconds,
        "keepAliveConnections" => Kind::Count,
        "noHappyEyeballs"
        | "matchSNItoHost"
        | "noTLSVerify"
        | "disableChunkedEncoding"
        | "http2Origin"
        | "bastionMode" => Kind::Flag,
        "httpHostHeader" | "originServerName" => Kind::HostText,
        "caPool" | "proxyAddress" => Kind::Text,
        "proxyType" => Kind::ProxyType,
        "proxyPort" => Kind::Port,
        "ipRules" => Kind::IpRules,
        "access" => Kind::Access,
        _ => return None,
    })
}

fn is_value(present: Option<&RawValue>, wanted: Option<&Value>) -> bool {
    match (present, wanted) {
        (None, None) => true,
        (Some(present), Some(wanted)) => {
            serde_json::from_str::<Value>(present.get()).is_ok_and(|present| present == *wanted)
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn is_flag(value: &RawValue) -> bool {
    matches!(value.get(), "true" | "false")
}

fn is_null_or(value: &RawValue, fits: impl Fn(&RawValue) -> bool) -> bool {
    is_null(value) || fits(value)
}

fn is_list_of(value: &RawValue, fits: impl Fn(&RawValue) -> bool) -> bool {
    list(value).is_some_and(|items| items.into_iter().all(|item| is_null_or(item, &fits)))
}

fn is_text(value: &RawValue) -> bool {
    text(value).is_some()
}

/// cloudflared reads every duplicate of a key, so every one has to fit.
fn members_fit(value: &RawValue, fits: impl Fn(&str, &RawValue) -> bool) -> bool {
    RawObject::parse(value)
        .is_some_and(|object| object.members().all(|(key, value)| is_null(value) || fits(&key, value)))
}

fn is_access(value: &RawValue) -> bool {
    members_fit(value, |key, value| match key {
        _ if is_same_key(key, "required") => is_flag(value),
        _ if is_same_key(key, "teamName") || is_same_key(key, "environment") => is_text(value),
        _ if is_same_key(key, "audTag") => is_list_of(value, is_text),
        _ => true,
    })
}

fn is_ip_rule(value: &RawValue) -> bool {
    members_fit(value, |key, value| match key {
        _ if is_same_key(key, "prefix") => is_text(value),
        _ if is_same_key(key, "ports") => is_list_of(value, |port| integer(port).is_some()),
        _ if is_same_key(key, "allow") => is_flag(value),
        _ => true,
    })
}

fn check_access(value: &RawValue) -> Result<(), FieldProblem> {
    let access = RawObject::parse(value).unwrap_or_default();
    if access.last_value("required").is_none_or(|required| required.get() != "true") {
        return Ok(());
    }
    let team = access.last_value("teamName").and_then(text).unwrap_or_default();
    if team.trim().is_empty() {
        return Err(FieldProblem::AccessWithoutTeam);
    }
    let audiences = access.last("audTag").and_then(list).unwrap_or_default();
    let is_named = |audience: &RawValue| text(audience).is_some_and(|text| !text.trim().is_empty());
    if audiences.is_empty() || !audiences.into_iter().all(is_named) {
        return Err(FieldProblem::AccessWithoutAudience);
    }
    Ok(())
}

fn check_ip_rule(value: &RawValue) -> Result<(), FieldProblem> {
    let rule = RawObject::parse(value).unwrap_or_default();
    let prefix = rule.last("prefix").and_then(text).unwrap_or(Cow::Borrowed(""));
    if !is_address_range(&prefix) {
        return Err(FieldProblem::Prefix(prefix.into()));
    }
    let ports = rule.last("ports").and_then(list).unwrap_or_default();
    let is_port =
        |port: &RawValue| integer(port).is_some_and(|port| (1..=i64::from(u16::MAX)).contains(&port));
    if ports.into_iter().all(is_port) { Ok(()) } else { Err(FieldProblem::Port) }
}

/// Whether the text is an address and a prefix length, such as `10.0.0.0/8`.
pub fn is_address_range(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let maximum = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u8>().is_ok_and(|length| length <= maximum)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::raw_object::from_json;
    use super::*;

    fn problem(field: &str, json: &str) -> Option<FieldProblem> {
        check(field, &from_json(json.to_owned())).err()
    }

    #[test]
    fn every_managed_field_has_a_kind() {
        for field in ORIGIN_FIELDS {
            assert!(kind(field).is_some(), "{field}");
            assert_eq!(problem(field, "null"), None, "{field}: null is an absent value");
            assert!(problem(field, "{\"required\":1}").is_some(), "{field}: no field takes any value");
        }
    }

    #[test]
    fn values_are_taken_as_cloudflared_reads_them() {
        for (field, json) in [
            ("connectTimeout", "30"),
            ("connectTimeout", "0"),
            ("keepAliveTimeout", "9223372036"),
            ("keepAliveConnections", "0"),
            ("keepAliveConnections", "2147483647"),
            ("noTLSVerify", "false"),
            ("httpHostHeader", "\"\""),
            ("httpHostHeader", "\"app.local:8080\""),
            ("caPool", "\"/etc/my certificates/ca.pem\""),
            ("proxyType", "\"\""),
            ("proxyType", "\"socks\""),
            ("proxyPort", "65535"),
            ("ipRules", "[]"),
            ("ipRules", r#"[{"prefix":"10.0.0.0/8","ports":[80,443],"allow":true},{"prefix":"fd00::/8"}]"#),
            ("access", "{}"),
            ("access", r#"{"required":false,"teamName":"","audTag":[]}"#),
            ("access", r#"{"required":true,"teamName":"team","audTag":["aud"],"future":1}"#),
            ("future", "{}"),
        ] {
            assert_eq!(problem(field, json), None, "{field} {json}");
        }
    }

    #[test]
    fn values_that_would_break_the_document_or_mislead_are_refused() {
        use FieldProblem as P;
        let is_type = |problem: &Option<FieldProblem>| matches!(problem, Some(P::Type(_)));
        for (field, json) in [
            ("connectTimeout", "\"30s\""),
            ("connectTimeout", "30.0"),
            ("connectTimeout", "3e1"),
            ("keepAliveConnections", "1.5"),
            ("noTLSVerify", "0"),
            ("noTLSVerify", "\"true\""),
            ("httpHostHeader", "1"),
            ("proxyPort", "-1"),
            ("proxyPort", "\"80\""),
            ("ipRules", "{}"),
            ("ipRules", "[\"10.0.0.0/8\"]"),
            ("ipRules", r#"[{"prefix":"10.0.0.0/8","ports":["80"]}]"#),
            ("ipRules", r#"[{"prefix":"10.0.0.0/8","Allow":1}]"#),
            ("access", "true"),
            ("access", r#"{"required":"true"}"#),
            ("access", r#"{"required":true,"REQUIRED":"true"}"#),
            ("access", r#"{"audTag":"aud"}"#),
            ("access", r#"{"audTag":[1]}"#),
        ] {
            assert!(is_type(&problem(field, json)), "{field} {json}");
        }
        for (field, json, expected) in [
            ("connectTimeout", "-1", P::Negative),
            ("connectTimeout", "9223372037", P::TooManySeconds),
            ("keepAliveConnections", "-5", P::Negative),
            ("keepAliveConnections", "2147483648", P::TooMany),
            ("proxyPort", "65536", P::Port),
            ("proxyType", "\"http\"", P::ProxyType),
            ("httpHostHeader", "\"a\\r\\nb\"", P::Character('\r')),
            ("originServerName", "\"a b\"", P::Character(' ')),
            ("ipRules", r#"[{"ports":[80]}]"#, P::Prefix("".into())),
            ("ipRules", r#"[{"prefix":"10.0.0.0"}]"#, P::Prefix("10.0.0.0".into())),
            ("ipRules", r#"[{"prefix":"10.0.0.0/33"}]"#, P::Prefix("10.0.0.0/33".into())),
            ("ipRules", r#"[{"prefix":"::/+8"}]"#, P::Prefix("::/+8".into())),
            ("ipRules", r#"[{"prefix":"::/0","ports":[0]}]"#, P::Port),
            ("access", r#"{"required":true,"audTag":["aud"]}"#, P::AccessWithoutTeam),
            ("access", r#"{"required":true,"teamName":" ","audTag":["aud"]}"#, P::AccessWithoutTeam),
            ("access", r#"{"required":true,"teamName":"t"}"#, P::AccessWithoutAudience),
            ("access", r#"{"required":true,"teamName":"t","audTag":[]}"#, P::AccessWithoutAudience),
            ("access", r#"{"required":true,"teamName":"t","audTag":["a",""]}"#, P::AccessWithoutAudience),
        ] {
            assert_eq!(problem(field, json), Some(expected), "{field} {json}");
        }
    }

    #[test]
    fn values_are_compared_by_what_they_are() {
        let access = json!({"required": true, "teamName": "t", "audTag": ["a"]});
        for (field, present, wanted, equal) in [
            ("connectTimeout", None, None, true),
            ("connectTimeout", None, Some(json!(null)), true),
            ("connectTimeout", Some("30"), Some(json!(30)), true),
            ("connectTimeout", Some("31"), Some(json!(30)), false),
            ("connectTimeout", Some("30"), None, false),
            ("connectTimeout", None, Some(json!(30)), false),
            ("connectTimeout", Some("\"30\""), Some(json!(30)), false),
            ("caPool", Some(r#""\u002fca""#), Some(json!("/ca")), true),
            ("noTLSVerify", Some("false"), None, false),
            (
                "ipRules",
                Some(r#"[ {"allow":true, "prefix":"::/0"} ]"#),
                Some(json!([{"prefix": "::/0", "allow": true}])),
                true,
            ),
            (
                "access",
                Some(r#"{"AudTag":["a"],"future":1,"required":true,"teamName":"t"}"#),
                Some(access.clone()),
                true,
            ),
            (
                "access",
                Some(r#"{"audTag":["b"],"required":true,"teamName":"t"}"#),
                Some(access.clone()),
                false,
            ),
            ("access", Some(r#"{"future":1,"required":null}"#), None, true),
            ("access", Some("{}"), Some(access), false),
        ] {
            let present = present.map(|json| from_json(json.to_owned()));
            assert_eq!(
                is_equal(field, present.as_deref(), wanted.as_ref()),
                equal,
                "{field} {present:?} {wanted:?}"
            );
        }
    }

    #[test]
    fn access_keeps_what_is_not_managed() {
        let present =
            from_json(r#"{"environment":"x","audTag":["old"],"required":true,"teamName": "t"}"#.to_owned());
        let wanted = json!({"required": true, "teamName": "t", "audTag": ["new"]});
        let written = |wanted| access_with(Some(&present), wanted).map(|raw| raw.get().to_owned());
        assert_eq!(
            written(Some(&wanted)).as_deref(),
            Some(r#"{"environment":"x","audTag":["new"],"required":true,"teamName":"t"}"#)
        );
        assert_eq!(written(None).as_deref(), Some(r#"{"environment":"x"}"#));
        assert!(access_with(None, None).is_none());
    }
}
