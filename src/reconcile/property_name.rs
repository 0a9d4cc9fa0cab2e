//! Knows the names of our properties, and recognises misspelled ones.
//!
//! Names arrive as somebody typed them, because ExternalDNS checks neither the names of annotations nor those in a
//! DNSEndpoint. A name that is nearly one of ours is a mistake in an object that was meant for a tunnel, and ignoring
//! it could publish more than was asked for.

use crate::ingress::OriginOption;
use crate::limits;
use crate::model::text::{MISSPELLING_MAX_EDITS, differs_by_at_most};

/// The prefix of all our properties.
pub const PREFIX: &str = "webhook/";

/// The prefix of the properties that decide what is published.
const TUNNEL_PREFIX: &str = "webhook/tunnel";

/// The prefix of the properties that decide who may see it.
const ACCESS_PREFIX: &str = "webhook/access-";

/// Words that only limiting properties have in their names.
const LIMITING_WORDS: [&str; 2] = ["tunnel", "access"];

/// A property's name, and its form with dashes only and without the common prefix.
#[derive(Clone, Copy)]
struct Name {
    name: &'static str,
    dashed: &'static str,
    bare: &'static str,
}

impl Name {
    const fn of(option: OriginOption) -> Self {
        Self { name: option.property(), dashed: option.annotation(), bare: option.name() }
    }
}

macro_rules! names {
    ($($bare:literal,)+) => {
        /// Every property but those of [`OriginOption`].
        const NAMES: &[Name] = &[$(Name {
            name: concat!("webhook/", $bare),
            dashed: concat!("webhook-", $bare),
            bare: $bare,
        }),+];
    };
}

names! {
    "tunnel-service",
    "tunnel-path",
    "tunnel-path-prefix",
    "tunnel",
    "access-required",
    "access-team-name",
    "access-aud-tag",
    "access-policy",
    "access-session-duration",
}

/// Every property that an endpoint may have. If a misspelled name is equally near to two, the first is meant.
fn names() -> impl Iterator<Item = Name> {
    NAMES.iter().copied().chain(OriginOption::all().map(Name::of))
}

/// The number of dots in a name that are tried as the separator of its group.
const DOTS_MAX: usize = 3;

/// In names up to this length without [`PREFIX`], two edits make a different word.
const SHORT_NAME_BYTES: usize = 8;

/// The meaning of a property's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// One of ours.
    Known,
    /// Meant to be one of ours.
    Misspelled {
        /// The nearest one of ours, if one is near.
        nearest: Option<&'static str>,
        /// True if ignoring it may publish more than was asked for.
        limits: bool,
    },
    /// It begins like ours but is near to none. Other webhooks have properties too.
    Unknown,
    /// Not meant for us.
    Foreign,
}

/// True if it is one of ours, exactly as spelled.
pub fn is_known(name: &str) -> bool {
    names().any(|known| known.name == name)
}

/// Finds the meaning of a name.
pub fn meaning(name: &str) -> Meaning {
    if is_known(name) {
        return Meaning::Known;
    }
    match nearest(name) {
        Some(nearest) => {
            Meaning::Misspelled { nearest: Some(nearest), limits: limits_what_is_published(nearest) }
        }
        None if limits_what_is_published(name) || has_limiting_word(name) => {
            Meaning::Misspelled { nearest: None, limits: true }
        }
        None if name.starts_with(PREFIX) => Meaning::Unknown,
        None => Meaning::Foreign,
    }
}

/// True if the property decides what is published, who may reach it, or what is reached through it.
fn limits_what_is_published(name: &str) -> bool {
    [TUNNEL_PREFIX, ACCESS_PREFIX, OriginOption::IpRules.property()]
        .into_iter()
        .any(|prefix| name.starts_with(prefix))
}

/// True if a dot was typed instead of a dash, or too much, so that an apparent group name is really the end of a
/// property's.
pub fn is_torn(name: &str, group: &str) -> bool {
    let end = group.split('.').next().unwrap_or_default();
    ["", "-"].into_iter().any(|between| is_known(&format!("{name}{between}{end}")))
}

/// The property that is meant, whatever the name's case, separators and prefix, and wherever its group stands. `None`
/// for a name that is too long to mean one.
fn nearest(name: &str) -> Option<&'static str> {
    let spellings = spellings(name);
    let is_near = |known: &Name| {
        let edits = if known.bare.len() <= SHORT_NAME_BYTES { 1 } else { MISSPELLING_MAX_EDITS };
        spellings.iter().any(|spelling| {
            differs_by_at_most(MISSPELLING_MAX_EDITS, spelling, known.dashed)
                || differs_by_at_most(edits, spelling, known.bare)
        })
    };
    if let Some(known) = names().find(is_near) {
        return Some(known.name);
    }
    let words = spellings.iter().find_map(|spelling| words_of_ours(spelling))?;
    let limits = names().filter(|known| limits_what_is_published(known.name));
    // Of several, the one that contains most of the words.
    let fitting = limits.filter(|known| has_words_of(&words, known));
    fitting.max_by_key(|known| known.bare.matches('-').count()).map(|known| known.name)
}

/// The whole name and the part after its last slash, each with and without a group, in one spelling of case and
/// separators.
fn spellings(name: &str) -> Vec<String> {
    let part = name.rsplit('/').next().unwrap_or(name);
    let dots = part.match_indices('.').filter(|(dot, _)| *dot > 0);
    let groups = dots.filter_map(|(dot, _)| part.get(dot..)).take(DOTS_MAX);
    // Only one of both if there is no slash.
    let texts = [Some(name), Some(part).filter(|part| *part != name)];
    let without = |group| texts.into_iter().flatten().filter_map(move |text| text.strip_suffix(group));
    groups
        .chain([""])
        .flat_map(without)
        .map(str::trim)
        .filter(|text| text.len() <= limits::PROPERTY_NAME_MAX_BYTES)
        .map(folded)
        .collect()
}

fn folded(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '/' | '_' | ' ' => '-',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// The words after the one that is, or was meant to be, `webhook`.
fn words_of_ours(spelling: &str) -> Option<Vec<&str>> {
    let (first, rest) = spelling.split_once('-')?;
    differs_by_at_most(MISSPELLING_MAX_EDITS, first, "webhook")
        .then(|| rest.split('-').filter(|word| !word.is_empty()).collect())
}

/// True if the words are those of a known name in another order, or all but its first, or one more.
fn has_words_of(words: &[&str], known: &Name) -> bool {
    let wanted: Vec<&str> = known.bare.split('-').collect();
    let has_all = |wanted: &[&str]| {
        !wanted.is_empty() && wanted.iter().all(|wanted| words.iter().any(|word| is_word(word, wanted)))
    };
    let tail = wanted.get(1..).unwrap_or_default();
    (words.len() == tail.len() && has_all(tail))
        || (wanted.len() > 1 && words.len() <= wanted.len() + 1 && has_all(&wanted))
}

fn has_limiting_word(name: &str) -> bool {
    spellings(name).iter().filter_map(|spelling| words_of_ours(spelling)).any(|words| {
        let begins_with = |word: &str, limiting: &str| {
            word.get(..limiting.len()).is_some_and(|beginning| is_word(beginning, limiting))
        };
        words.iter().any(|word| {
            LIMITING_WORDS.into_iter().any(|limiting| is_word(word, limiting) || begins_with(word, limiting))
        })
    })
}

/// True if one word means the other, as far as its length allows a conclusion.
fn is_word(word: &str, wanted: &str) -> bool {
    let edits = match wanted.len() {
        ..=3 => 0,
        4..=6 => 1,
        _ => MISSPELLING_MAX_EDITS,
    };
    differs_by_at_most(edits, word, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingress::access::{ACCESS_AUD_TAG, ACCESS_REQUIRED, ACCESS_TEAM_NAME};
    use crate::reconcile::access_wish::{ACCESS_POLICY, ACCESS_SESSION_DURATION};
    use crate::reconcile::canonical::{TUNNEL, TUNNEL_PATH, TUNNEL_PATH_PREFIX, TUNNEL_SERVICE};

    #[test]
    fn every_property_that_is_read_is_known() {
        let access =
            [ACCESS_REQUIRED, ACCESS_TEAM_NAME, ACCESS_AUD_TAG, ACCESS_POLICY, ACCESS_SESSION_DURATION];
        let mut read: Vec<&str> =
            [TUNNEL_SERVICE, TUNNEL_PATH, TUNNEL_PATH_PREFIX, TUNNEL].into_iter().chain(access).collect();
        read.extend(OriginOption::all().map(OriginOption::property));
        let mut known: Vec<&str> = names().map(|known| known.name).collect();
        read.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, read);
        assert!(known.iter().all(|name| meaning(name) == Meaning::Known));
    }

    #[test]
    fn a_name_means_the_property_that_it_is_nearest_to() {
        for (name, expected) in [
            ("webhook/tunel-service", TUNNEL_SERVICE),
            ("webhook/Tunnel-Service", TUNNEL_SERVICE),
            ("webhook/tunnle-service", TUNNEL_SERVICE),
            ("webook/tunnel-service", TUNNEL_SERVICE),
            ("webhook-tunnel-service", TUNNEL_SERVICE),
            ("webhook_tunnel_service", TUNNEL_SERVICE),
            ("webhooktunnel-service", TUNNEL_SERVICE),
            (" webhook/tunnel-service ", TUNNEL_SERVICE),
            ("webhook/service", TUNNEL_SERVICE),
            ("webhook-service", TUNNEL_SERVICE),
            ("webhook-tunnel", TUNNEL),
            ("tunnel", TUNNEL),
            ("external-dns.kubernetes.io/webhook-tunnel", TUNNEL),
            ("external-dns.alpha.kubernetes.io/webhook-tunnel-path-prefix.api", TUNNEL_PATH_PREFIX),
            ("tunnel-path-prefix", TUNNEL_PATH_PREFIX),
            ("webhook/path-prefix", TUNNEL_PATH_PREFIX),
            ("webhook/tunnel/path-prefix", TUNNEL_PATH_PREFIX),
            ("webhook/prefix-path", TUNNEL_PATH_PREFIX),
            ("webhook/prefix-path-tunnel", TUNNEL_PATH_PREFIX),
            ("webhook/path", TUNNEL_PATH),
            ("webhook/require-access", ACCESS_REQUIRED),
            ("webhook/cf-access-required", ACCESS_REQUIRED),
            ("webhook-access-required", ACCESS_REQUIRED),
            ("webhook/access-polices", ACCESS_POLICY),
            ("webhook/acess-policy", ACCESS_POLICY),
            ("webhook-access-session-duration", ACCESS_SESSION_DURATION),
            ("tunel-servce", TUNNEL_SERVICE),
            ("example.com/tunel-servce", TUNNEL_SERVICE),
            ("example.com/tunel-servce.api", TUNNEL_SERVICE),
            ("tunel", TUNNEL),
            ("webhook/.policy", ACCESS_POLICY),
            ("webhook/.required", ACCESS_REQUIRED),
            ("webhook/.path", TUNNEL_PATH),
            ("webhook/.path-prefix", TUNNEL_PATH_PREFIX),
            ("webhook/rulse-ip", OriginOption::IpRules.property()),
            ("webhook/ip-rules", OriginOption::IpRules.property()),
            ("webhook/origin-iprules", OriginOption::IpRules.property()),
            ("webhook/origin-no-tls-verfy", "webhook/origin-no-tls-verify"),
        ] {
            let limits = limits_what_is_published(expected);
            assert_eq!(meaning(name), Meaning::Misspelled { nearest: Some(expected), limits }, "{name}");
        }
    }

    #[test]
    fn what_may_limit_is_never_taken_for_something_else() {
        for name in [
            "webhook/tunnel-foo",
            "webhook/access-rule",
            "webhook/needs-access",
            "webhook/my-tunnel",
            "webhook/tunneplath",
            "webhook/origin-ip-rules:api",
            "webhook/origin-ip_-r.ules.images",
            "wbhook/origin-ip-ru.es.api",
        ] {
            assert!(matches!(meaning(name), Meaning::Misspelled { limits: true, .. }), "{name}");
        }
    }

    /// `my-tunnel` may mean the tunnel's name, or one of three things besides.
    #[test]
    fn one_word_of_several_is_too_little_to_know_which_is_meant() {
        for name in ["webhook/my-tunnel", "webhook/needs-access"] {
            assert_eq!(meaning(name), Meaning::Misspelled { nearest: None, limits: true }, "{name}");
        }
    }

    #[test]
    fn the_shorter_a_word_is_the_nearer_another_has_to_be_to_mean_it() {
        for (name, expected) in [
            ("webhook/my-rules", Meaning::Unknown),
            ("webhook/pulse-ip", Meaning::Unknown),
            ("funnels", Meaning::Foreign),
        ] {
            assert_eq!(meaning(name), expected, "{name}");
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
            assert_eq!(is_torn(name, group), torn, "{name} {group:?}");
        }
    }

    /// An object may be meant for other providers as well, or for them alone.
    #[test]
    fn the_properties_of_other_providers_mean_nothing() {
        for name in [
            "",
            "alias",
            "record-type",
            "aws/evaluate-target-health",
            "aws/target-hosted-zone",
            "coredns/group",
            "ibmcloud-proxied",
            "external-dns.alpha.kubernetes.io/cloudflare-proxied",
            "external-dns.kubernetes.io/cloudflare-tags",
            "scw/weight",
            "txt/force-update",
            "unifi/x",
            "path",
            "service",
        ] {
            assert_eq!(meaning(name), Meaning::Foreign, "{name}");
        }
        for name in ["webhook/comment", "webhook/ttl", "webhook/", "webhook/some-other-provider-thing"] {
            assert_eq!(meaning(name), Meaning::Unknown, "{name}");
        }
    }
}
