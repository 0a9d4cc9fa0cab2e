//! The options of a rule, `originRequest`: read from an endpoint's properties, rendered as properties, and written into
//! the present JSON.
//!
//! Both directions go through the JSON value, so that the properties that `adjust` renders and those that `records`
//! reads back from a rule cannot differ.

use serde_json::Value;
use serde_json::value::RawValue;

use super::access_check::{self, AccessCheck};
use super::origin_option::{Mistake, OriginOption, OriginValue};
use super::raw_object::{RawObject, raw};
use crate::model::endpoint::Property;

const NOTHING_BESIDE_A_DEFAULT: &str = "is an empty list, which cannot override the default: deny what the \
     default allows, as in [{\"prefix\":\"0.0.0.0/0\",\"allow\":false}]";

/// The wanted options of a rule, in Cloudflare's order. The other managed options are removed from the rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginRequest {
    options: Vec<OriginValue>,
    access: Option<AccessCheck>,
}

/// A member of an object, and its wanted value.
type Member = (&'static str, Option<Box<RawValue>>);

impl OriginRequest {
    /// Reads the texts of the options and of Access. An option that is not set takes its value from `defaults`.
    ///
    /// # Errors
    /// Every option that cannot be used. Without it, the rule might publish more than was asked for, or something else.
    pub fn read<'t>(
        text_of: &dyn Fn(&str) -> Option<&'t str>,
        defaults: &Self,
    ) -> Result<Self, Vec<Mistake>> {
        let (mut read, mut bad) = (Self::default(), Vec::new());
        for option in OriginOption::all() {
            let default = defaults.value(option);
            match text_of(option.property()).map(|text| option.parse(text)) {
                None => read.options.extend(default.cloned()),
                Some(Ok(Some(value))) => read.options.push(value),
                Some(Ok(None)) if default.is_none() => {}
                // A rule cannot express an empty list, so the default would apply and allow more.
                Some(Ok(None)) => bad.push(Mistake::new(option.property(), NOTHING_BESIDE_A_DEFAULT)),
                Some(Err(problem)) => bad.push(Mistake::new(option.property(), problem)),
            }
        }
        match AccessCheck::read(text_of) {
            Ok(access) => read.access = access,
            Err(problems) => bad.extend(problems),
        }
        if bad.is_empty() { Ok(read) } else { Err(bad) }
    }

    /// The same options, with this Access check.
    #[must_use]
    pub fn with_access_check(self, access: Option<AccessCheck>) -> Self {
        Self { access, ..self }
    }

    /// The wanted Access check; `None` if no token is required.
    pub fn access_check(&self) -> Option<&AccessCheck> {
        self.access.as_ref()
    }

    /// True if the option is `true`.
    pub fn is_on(&self, option: OriginOption) -> bool {
        self.value(option).and_then(|value| value.json.as_bool()) == Some(true)
    }

    /// The text of an option, if its value is a text.
    pub fn text(&self, option: OriginOption) -> Option<&str> {
        self.value(option).and_then(|value| value.json.as_str())
    }

    /// The canonical properties.
    pub fn properties(&self) -> Vec<Property> {
        let options = self.options.iter().filter_map(|value| property(value.option, &value.json));
        let access = self.access.iter().flat_map(AccessCheck::properties);
        options.chain(access).collect()
    }

    /// True if an `originRequest` has these values in its managed fields.
    pub(super) fn is_in(&self, origin: &RawObject<'_>) -> bool {
        holds(origin, &self.option_members())
            && holds(&access_object(origin), &access_members(self.access.as_ref()))
    }

    /// The `originRequest` with its managed fields as wanted and all others unchanged; `None` if nothing is left.
    pub(super) fn onto(&self, origin: RawObject<'_>) -> Option<Box<RawValue>> {
        let (options, access_members) = (self.option_members(), access_members(self.access.as_ref()));
        let access = with_members(access_object(&origin), &access_members);
        let access = (!access.is_empty()).then(|| access.to_raw());
        let mut edited = with_members(origin, &options);
        edited.put(access_check::FIELD, access.as_deref());
        (!edited.is_empty()).then(|| edited.to_raw())
    }

    fn value(&self, option: OriginOption) -> Option<&OriginValue> {
        self.options.iter().find(|value| value.option == option)
    }

    fn option_members(&self) -> Vec<Member> {
        let member =
            |option: OriginOption| (option.field(), self.value(option).map(|value| raw(&value.json)));
        OriginOption::all().map(member).collect()
    }
}

/// The canonical properties of an `originRequest` of any author.
pub(super) fn properties_in(origin: &RawObject<'_>) -> Vec<Property> {
    let value = |field: &str| {
        let raw = origin.last(field)?;
        Some(serde_json::from_str(raw.get()).unwrap_or_else(|_| Value::from(raw.get())))
    };
    let options = OriginOption::all().filter_map(|option| property(option, &value(option.field())?));
    options.chain(access_in(origin).iter().flat_map(AccessCheck::properties)).collect()
}

/// The options with which cloudflared serves a rule: each from the rule's `originRequest`, or else from the tunnel's,
/// or else cloudflared's default. The text is empty if there is none of these.
pub(super) fn effective_options(origin: &RawObject<'_>, tunnel: &RawObject<'_>) -> Vec<Property> {
    let text_in = |object: &RawObject<'_>, option: OriginOption| {
        let value: Value = serde_json::from_str(object.last(option.field())?.get()).ok()?;
        let canonical = option.render(&value).map(|text| match option.parse(&text) {
            Ok(Some(read)) => option.render(&read.json).unwrap_or(text),
            _ => text,
        });
        // An empty text overrides the tunnel's value. An empty list does not.
        canonical.or_else(|| value.is_string().then(String::new))
    };
    let text_of = |option: OriginOption| {
        // cloudflared reads `ipRules` only from the rule, not from the tunnel.
        let inherited = || text_in(tunnel, option).filter(|_| option != OriginOption::IpRules);
        text_in(origin, option).or_else(inherited).unwrap_or_else(|| option.cloudflared_default().to_owned())
    };
    let options = OriginOption::all().map(|option| Property::new(option.property(), text_of(option)));
    options.chain(access_in(origin).iter().flat_map(AccessCheck::properties)).collect()
}

/// The `access` of an `originRequest`.
pub(super) fn access_in(origin: &RawObject<'_>) -> Option<AccessCheck> {
    AccessCheck::of(&access_object(origin))
}

/// The fields of an `originRequest` that are not managed.
pub(super) fn unmanaged_fields(origin: &RawObject<'_>) -> Vec<Box<str>> {
    let fields: Vec<&str> =
        OriginOption::all().map(OriginOption::field).chain([access_check::FIELD]).collect();
    [origin.others_than(&fields), access_object(origin).others_than(&access_check::MEMBERS)].concat()
}

fn property(option: OriginOption, value: &Value) -> Option<Property> {
    option.render(value).map(|text| Property::new(option.property(), text))
}

fn access_members(access: Option<&AccessCheck>) -> [Member; 3] {
    let access = access.map(AccessCheck::to_json);
    access_check::MEMBERS.map(|name| (name, access.as_ref().and_then(|access| access.get(name)).map(raw)))
}

fn access_object<'a>(origin: &RawObject<'a>) -> RawObject<'a> {
    origin.last(access_check::FIELD).and_then(RawObject::parse).unwrap_or_default()
}

fn holds(object: &RawObject<'_>, members: &[Member]) -> bool {
    members.iter().all(|(name, value)| object.holds(name, value.as_deref()))
}

fn with_members<'a>(mut object: RawObject<'a>, members: &'a [Member]) -> RawObject<'a> {
    for (name, value) in members {
        object.put(name, value.as_deref());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::super::access_check::{ACCESS_AUD_TAG, ACCESS_REQUIRED, ACCESS_TEAM_NAME};

    use super::*;

    const CA_POOL: &str = OriginOption::CaPool.property();
    const IP_RULES: &str = OriginOption::IpRules.property();

    fn read_all(said: &[(&str, &str)], defaults: &OriginRequest) -> Result<OriginRequest, Vec<Mistake>> {
        let text_of = |wanted: &str| said.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        OriginRequest::read(&text_of, defaults)
    }

    fn read_one(name: &str, value: &str) -> Result<OriginRequest, Vec<Mistake>> {
        read_all(&[(name, value)], &OriginRequest::default())
    }

    fn wanted(said: &[(&str, &str)]) -> OriginRequest {
        read_all(said, &OriginRequest::default()).expect("valid options")
    }

    fn written(origin_request: &OriginRequest) -> String {
        origin_request.onto(RawObject::default()).map(|raw| raw.get().to_owned()).unwrap_or_default()
    }

    /// The properties rendered from the value that was read.
    fn canonical(name: &str, value: &str) -> Vec<(String, String)> {
        let rendered = wanted(&[(name, value)]).properties().into_iter();
        rendered.map(|property| (property.name.into(), property.value.into())).collect()
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
                Some(r#"[{"allow":true,"ports":[80,443],"prefix":"10.0.0.0/8"}]"#)
            }),
            ("webhook/origin-ip-rules", "[]", None),
        ];
        for (name, value, expected) in table {
            let expected: Vec<(String, String)> =
                expected.map(|text| (name.to_owned(), text.to_owned())).into_iter().collect();
            assert_eq!(canonical(name, value), expected, "{name}={value}");
            for (name, value) in &expected {
                assert_eq!(canonical(name, value), expected, "the canonical text of {name} stays as it is");
            }
        }
        let named: Vec<&str> = table.iter().map(|(name, _, _)| *name).collect();
        for option in OriginOption::all() {
            assert!(named.contains(&option.property()), "{option:?} is missing in the table");
        }
    }

    /// The JSON of each kind at its limits, as cloudflared reads it.
    #[test]
    fn values_are_written_in_the_types_that_cloudflared_reads() {
        for (name, text, json) in [
            ("webhook/origin-connect-timeout", "30s", r#"{"connectTimeout":30}"#),
            ("webhook/origin-connect-timeout", "0", r#"{"connectTimeout":0}"#),
            ("webhook/origin-keep-alive-timeout", "9223372036s", r#"{"keepAliveTimeout":9223372036}"#),
            ("webhook/origin-keep-alive-connections", "0", r#"{"keepAliveConnections":0}"#),
            ("webhook/origin-keep-alive-connections", "2147483647", r#"{"keepAliveConnections":2147483647}"#),
            ("webhook/origin-no-tls-verify", "false", r#"{"noTLSVerify":false}"#),
            ("webhook/origin-http-host-header", "app.local:8080", r#"{"httpHostHeader":"app.local:8080"}"#),
            (CA_POOL, "/etc/my certificates/ca.pem", r#"{"caPool":"/etc/my certificates/ca.pem"}"#),
            ("webhook/origin-proxy-type", "socks", r#"{"proxyType":"socks"}"#),
            ("webhook/origin-proxy-port", "65535", r#"{"proxyPort":65535}"#),
            (
                IP_RULES,
                r#"[{"prefix":"10.0.0.0/8","ports":[80,443],"allow":true},{"prefix":"fd00::/8","allow":false}]"#,
                r#"{"ipRules":[{"allow":true,"ports":[80,443],"prefix":"10.0.0.0/8"},{"allow":false,"ports":[],"prefix":"fd00::/8"}]}"#,
            ),
        ] {
            assert_eq!(written(&wanted(&[(name, text)])), json, "{name}={text}");
        }
    }

    #[test]
    fn an_invalid_option_is_refused_by_name() {
        for (name, value) in [
            ("webhook/origin-connect-timeout", "500ms"),
            ("webhook/origin-connect-timeout", "1.5s"),
            ("webhook/origin-connect-timeout", "-1s"),
            ("webhook/origin-connect-timeout", "-1"),
            ("webhook/origin-connect-timeout", "30.0"),
            ("webhook/origin-connect-timeout", "3e1"),
            ("webhook/origin-connect-timeout", "9223372037s"),
            ("webhook/origin-connect-timeout", "99999999999999999999h"),
            ("webhook/origin-connect-timeout", "s"),
            ("webhook/origin-connect-timeout", ""),
            ("webhook/origin-keep-alive-connections", "many"),
            ("webhook/origin-keep-alive-connections", "+5"),
            ("webhook/origin-keep-alive-connections", "-5"),
            ("webhook/origin-keep-alive-connections", "1.5"),
            ("webhook/origin-keep-alive-connections", "2147483648"),
            ("webhook/origin-proxy-port", "65536"),
            ("webhook/origin-proxy-port", "-1"),
            ("webhook/origin-proxy-type", "other"),
            ("webhook/origin-no-tls-verify", "yes"),
            ("webhook/origin-no-tls-verify", "0"),
            ("webhook/origin-http-host-header", "a\nb"),
            ("webhook/origin-http-host-header", "a\r\nb"),
            ("webhook/origin-http-host-header", "https://app.example.com"),
            ("webhook/origin-server-name", "a b"),
            ("webhook/origin-server-name", "app.example.com/"),
        ] {
            let refused =
                read_one(name, value).map_err(|bad| bad.into_iter().map(|mistake| mistake.subject).collect());
            assert_eq!(refused, Err(vec![name.into()]), "{name}={value:?}");
        }
    }

    /// The rule could not express it, and in the next loop the default would allow what it denies.
    #[test]
    fn an_empty_list_of_ip_rules_is_invalid_beside_a_default_that_allows_something() {
        let defaults = wanted(&[(IP_RULES, r#"[{"prefix":"10.0.0.0/8","ports":[],"allow":true}]"#)]);
        assert_eq!(
            read_all(&[(IP_RULES, "[]")], &defaults),
            Err(vec![Mistake::new(IP_RULES, NOTHING_BESIDE_A_DEFAULT)])
        );
        let own = r#"[{"allow":true,"ports":[],"prefix":"192.0.2.0/24"}]"#;
        let own_rules = read_all(&[(IP_RULES, own)], &defaults).map(|read| read.properties());
        assert_eq!(own_rules, Ok(vec![Property::new(IP_RULES, own)]));
    }

    #[test]
    fn what_limits_access_is_refused_where_it_is_not_whole() {
        let team = ("webhook/access-team-name", "team");
        let tag = ("webhook/access-aud-tag", "tag");
        let required = ("webhook/access-required", "true");
        let table = [
            ("required alone", vec![required]),
            ("required without tags", vec![required, team]),
            ("required without a team", vec![required, tag]),
            ("a team and tags, and no word whether", vec![team, tag]),
            ("a team and tags that count for nothing", vec![("webhook/access-required", "false"), team, tag]),
            ("a word that is no boolean", vec![("webhook/access-required", "yes"), team, tag]),
            ("an empty value", vec![("webhook/access-required", ""), team, tag]),
            ("an empty list of tags", vec![required, team, ("webhook/access-aud-tag", " , ")]),
            ("a team without a name", vec![required, tag, ("webhook/access-team-name", " ")]),
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
            ("rules without a list", vec![(IP_RULES, "{}")]),
            ("rules of texts", vec![(IP_RULES, r#"["10.0.0.0/8"]"#)]),
            ("rules without a prefix", vec![(IP_RULES, r#"[{"ports":[80],"allow":true}]"#)]),
            ("rules with a bad prefix", vec![(IP_RULES, r#"[{"prefix":"10.0.0.0","allow":true}]"#)]),
            ("a prefix that is too long", vec![(IP_RULES, r#"[{"prefix":"10.0.0.0/33","allow":true}]"#)]),
            ("a prefix length with a sign", vec![(IP_RULES, r#"[{"prefix":"::/+8","allow":true}]"#)]),
            ("the port 0", vec![(IP_RULES, r#"[{"prefix":"::/0","ports":[0],"allow":true}]"#)]),
            ("a port above 65535", vec![(IP_RULES, r#"[{"prefix":"::/0","ports":[65536],"allow":true}]"#)]),
            ("a port as a text", vec![(IP_RULES, r#"[{"prefix":"::/0","ports":["80"],"allow":true}]"#)]),
            ("a number for a flag", vec![(IP_RULES, r#"[{"prefix":"::/0","allow":1}]"#)]),
        ];
        for (label, properties) in table {
            assert!(read_all(&properties, &OriginRequest::default()).is_err(), "{label}");
        }
    }

    #[test]
    fn access_is_read_back_as_it_was_asked_for() {
        let asked = [
            ("webhook/access-required", "true"),
            ("webhook/access-team-name", "team"),
            ("webhook/access-aud-tag", "one, two"),
        ];
        let origin_request = wanted(&asked);
        let json = r#"{"access":{"required":true,"teamName":"team","audTag":["one","two"]}}"#;
        assert_eq!(written(&origin_request), json);
        let rendered = origin_request.properties();
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
        assert_eq!(read_one(ACCESS_REQUIRED, "false"), Ok(OriginRequest::default()));
    }
}
