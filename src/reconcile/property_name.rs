//! Knows the names of our properties, and recognises misspelled ones.
//!
//! Names arrive as typed, because ExternalDNS checks neither the names of annotations nor those in a DNSEndpoint. A
//! name that is nearly a name of ours is a mistake in an object that was meant for a tunnel. If the webhook ignored the
//! mistake, it could publish more than the object asks for.

use crate::ingress::OriginOption;
use crate::ingress::access_check::{ACCESS_AUD_TAG, ACCESS_REQUIRED, ACCESS_TEAM_NAME};
use crate::limits;
use crate::model::text;

/// The prefix of all our properties.
pub const PREFIX: &str = "webhook/";

/// The service of an endpoint's rule.
pub const TUNNEL_SERVICE: &str = "webhook/tunnel-service";

/// The rule's path expression.
pub const TUNNEL_PATH: &str = "webhook/tunnel-path";

/// The path as a prefix, which becomes an expression.
pub const TUNNEL_PATH_PREFIX: &str = "webhook/tunnel-path-prefix";

/// The configured tunnel to use, by name or id; `false` excludes an endpoint.
pub const TUNNEL: &str = "webhook/tunnel";

/// A property of `records`: applying the endpoint again would correct a difference that no other property shows.
pub const DRIFT: &str = "webhook/drift";

/// The only property of an invalid endpoint: the reason. The property makes the endpoint invalid wherever it is read,
/// even if the cause is not in the endpoint: another rule of its object, or a text that was too large.
pub const INVALID: &str = "webhook/invalid";

/// The property that a new wildcard needs, unless its object is a Service or a DNSEndpoint, or it has no object.
pub const TUNNEL_WILDCARD: &str = "webhook/tunnel-wildcard";

/// The reusable Access policies of the hostname or the path, by name or id, in their order; `none` opens the place.
pub const ACCESS_POLICY: &str = "webhook/access-policy";

/// The prefix of all properties about Access, including those of a rule.
pub const ACCESS_PREFIX: &str = "webhook/access-";

/// The time after which a visitor logs in again.
pub const ACCESS_SESSION_DURATION: &str = "webhook/access-session-duration";

/// The beginning of an annotation's name, after a prefix that depends on ExternalDNS's version and settings.
const ANNOTATION_PREFIX: &str = "webhook-";

/// A text about an object, with properties named as the object has them: a DNSEndpoint has properties, every other
/// object annotations.
pub fn in_form_of(resource: Option<&str>, text: &str) -> String {
    if resource.is_none_or(|resource| resource.starts_with("crd/")) {
        return text.to_owned();
    }
    let mut written = String::with_capacity(text.len());
    for (index, piece) in text.split(PREFIX).enumerate() {
        if index > 0 {
            // After these characters, the prefix is a piece of an address and begins no property's name.
            let is_name = !written.ends_with(|end: char| matches!(end, '/' | '-') || end.is_alphanumeric());
            written.push_str(if is_name { ANNOTATION_PREFIX } else { PREFIX });
        }
        written.push_str(piece);
    }
    written
}

/// Every property that an object may have, except those of [`OriginOption`].
const NAMES: [&str; 10] = [
    TUNNEL_SERVICE,
    TUNNEL_PATH,
    TUNNEL_PATH_PREFIX,
    TUNNEL,
    TUNNEL_WILDCARD,
    ACCESS_REQUIRED,
    ACCESS_TEAM_NAME,
    ACCESS_AUD_TAG,
    ACCESS_POLICY,
    ACCESS_SESSION_DURATION,
];

/// Words that no property of another webhook has in its name.
const OWN_WORDS: [&str; 4] = ["tunnel", "access", "origin", "ip-rules"];

/// Words for a login. A name with such a word counts as misspelled, because a slip must not publish an open hostname.
const LOGIN_WORDS: [&str; 9] =
    ["auth", "authentication", "login", "oauth", "oidc", "policies", "protect", "protected", "sso"];

/// The number of dots in a name that are tried as the separator of its group.
const DOTS_MAX: usize = 3;

/// Every property that an object may have. If a misspelled name is equally near to two of them, the first one counts.
fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain(OriginOption::all().map(OriginOption::property))
}

/// The meaning of a property's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A property of ours.
    Known,
    /// A misspelled property of ours, with the nearest property if one is near.
    Misspelled(Option<&'static str>),
    /// No property of ours. Other webhooks have properties too.
    Foreign,
}

/// True if the name is exactly the name of a property of ours.
pub fn is_known(name: &str) -> bool {
    names().any(|known| known == name)
}

/// Finds the meaning of a name. Letter case, the separators of words, a group, and the prefix of an annotation do not
/// prevent a match.
pub fn meaning(name: &str) -> Meaning {
    if is_known(name) {
        return Meaning::Known;
    }
    let spellings = spellings(name);
    if let Some(nearest) = spellings.iter().find_map(|spelling| nearest(spelling)) {
        return Meaning::Misspelled(Some(nearest));
    }
    let has_own_word = |spelling: &String| {
        let bare = without_prefix(spelling);
        bare.is_some_and(|bare| {
            let mut words = bare.split('-');
            OWN_WORDS.into_iter().any(|word| bare.contains(word))
                || words.any(|word| LOGIN_WORDS.contains(&word))
        })
    };
    if spellings.iter().any(has_own_word) { Meaning::Misspelled(None) } else { Meaning::Foreign }
}

/// True if an apparent group is really the end of a property's name, because a dot was typed in place of a dash or is
/// surplus.
pub fn has_stray_dot(name: &str, group: &str) -> bool {
    let end = group.split('.').next().unwrap_or_default();
    ["", "-"].into_iter().any(|between| is_known(&format!("{name}{between}{end}")))
}

/// The properties that share one of our own words with a misspelled name that is near to no property; for a word for a
/// login, [`ACCESS_POLICY`] alone.
pub fn with_word_of(name: &str) -> Vec<&'static str> {
    let name = folded(name);
    let words = OWN_WORDS.into_iter().filter(|word| name.contains(word));
    let found: Vec<&str> = words.flat_map(|word| names().filter(move |known| known.contains(word))).collect();
    if found.is_empty() { vec![ACCESS_POLICY] } else { found }
}

/// The property that a spelling means: a near one, or one with this name without the prefix or the first word.
fn nearest(spelling: &str) -> Option<&'static str> {
    let is_shortened = |known: &&str| {
        let bare = known.strip_prefix(PREFIX);
        let rest = bare.and_then(|bare| bare.split_once('-')).map(|(_, rest)| rest);
        bare == Some(spelling) || rest.is_some() && rest == without_prefix(spelling)
    };
    text::nearest(spelling, names(), text::MISSPELLING_MAX_EDITS).or_else(|| names().find(is_shortened))
}

/// The part of a spelling after our prefix. In an annotation, the prefix ends with a dash.
fn without_prefix(spelling: &str) -> Option<&str> {
    spelling.strip_prefix("webhook")?.strip_prefix(['/', '-'])
}

/// The whole name and the part after its last slash, each with and then without a group, in lower case and with dashes
/// only. The whole comes first, because an apparent group may be the end of a property's name. A text that is too long
/// is omitted, because no property of ours has such a name.
fn spellings(name: &str) -> Vec<String> {
    let part = name.rsplit('/').next().unwrap_or(name);
    let without_group = |text: &'_ str| {
        let dots = text.match_indices('.').map(|(dot, _)| dot).take(DOTS_MAX);
        let ends = [text.len()].into_iter().chain(dots);
        ends.filter_map(|end| text.get(..end)).map(str::to_owned).collect::<Vec<_>>()
    };
    let texts = [name, part].into_iter().flat_map(without_group);
    let texts = texts.filter(|text| text.len() <= limits::PROPERTY_NAME_MAX_BYTES);
    texts.map(|text| folded(&text)).collect()
}

/// The text in lower case, with dashes in place of dots, underscores and blanks.
fn folded(text: &str) -> String {
    text.trim().to_ascii_lowercase().replace(['.', '_', ' '], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_named_as_the_object_has_them() {
        let text = r#""webhook/tunel" is unknown, webhook/tunnel-path.api is not; http://webhook/x and my-webhook/x stay"#;
        for resource in [None, Some("crd/shop/web")] {
            assert_eq!(in_form_of(resource, text), text);
        }
        let expected = r#""webhook-tunel" is unknown, webhook-tunnel-path.api is not; http://webhook/x and my-webhook/x stay"#;
        assert_eq!(in_form_of(Some("ingress/shop/web"), text), expected);
    }

    #[test]
    fn a_misspelled_name_means_the_property_that_it_is_nearest_to() {
        for (name, expected) in [
            ("webhook/tunel-service", TUNNEL_SERVICE),
            ("webhook/Tunnel-Service", TUNNEL_SERVICE),
            ("webook/tunnel-service", TUNNEL_SERVICE),
            ("webhook_tunnel_service", TUNNEL_SERVICE),
            (" webhook/tunnel-service ", TUNNEL_SERVICE),
            ("webhook/service", TUNNEL_SERVICE),
            ("tunnel-service", TUNNEL_SERVICE),
            ("webhook/tunnl", TUNNEL),
            ("webhook/tunnel-wildcrd", TUNNEL_WILDCARD),
            ("webhook-wildcard", TUNNEL_WILDCARD),
            ("external-dns.kubernetes.io/webhook-tunnel", TUNNEL),
            ("external-dns.alpha.kubernetes.io/webhook-tunnel-path-prefix.api", TUNNEL_PATH_PREFIX),
            ("webhook/tunnel/path-prefix", TUNNEL_PATH_PREFIX),
            ("webhook/tunnel.path-prefix", TUNNEL_PATH_PREFIX),
            ("webhook/tunnel.path.prefix", TUNNEL_PATH_PREFIX),
            ("webhook/tunnel.service", TUNNEL_SERVICE),
            ("external-dns.kubernetes.io/webhook-tunnel.service", TUNNEL_SERVICE),
            ("webhook-path", TUNNEL_PATH),
            ("webhook/acess-policy", ACCESS_POLICY),
            ("webhook/policy", ACCESS_POLICY),
            ("webhook/origin-no-tls-verfy", OriginOption::NoTlsVerify.property()),
            ("webhook/ip-rules", OriginOption::IpRules.property()),
        ] {
            assert_eq!(meaning(name), Meaning::Misspelled(Some(expected)), "{name}");
        }
        for name in [
            "webhook/tunnel-foo",
            "webhook/cf-access",
            "webhook/origin-timeout",
            "webhook-my-tunnel",
            "webhook/origin-ip_rules:api",
            "webhook/policies",
            "webhook-require_login",
            "webhook/auth.api",
            "webhook/protected",
            "webhook/oauth",
        ] {
            assert_eq!(meaning(name), Meaning::Misspelled(None), "{name}");
            assert!(!with_word_of(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn the_end_of_a_propertys_name_is_no_group() {
        for (name, group, torn) in [
            ("webhook/tunnel-path", "prefix", true),
            ("webhook/tunnel-path", "-prefix.api", true),
            ("webhook/tunnel-path", "api", false),
            ("webhook/tunnel-path", "", true),
        ] {
            assert_eq!(has_stray_dot(name, group), torn, "{name} {group:?}");
        }
    }

    /// An object may be meant for other providers as well, or only for other providers.
    #[test]
    fn the_properties_of_other_providers_mean_nothing() {
        for name in [
            "",
            "alias",
            "aws/evaluate-target-health",
            "external-dns.alpha.kubernetes.io/cloudflare-proxied",
            "txt/force-update",
            "tunnels",
            "path",
            "service",
            "webhook/comment",
            "webhook/ttl",
            "webhook/",
            "webhook/some-other-provider-thing",
            "webhook/routing-policy",
            "webhook/authoritative",
        ] {
            assert_eq!(meaning(name), Meaning::Foreign, "{name}");
        }
    }
}
