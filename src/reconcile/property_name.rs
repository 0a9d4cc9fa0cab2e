//! The names of our properties, and what somebody meant who wrote another one.
//!
//! Names reach us as somebody typed them: ExternalDNS checks neither the annotations' names nor those in a DNSEndpoint.
//! A name that is nearly one of ours is a mistake in an object that was meant for a tunnel, and leaving it out could
//! publish more than was asked for.

use crate::ingress::OriginOption;
use crate::limits;
use crate::model::text::{MISSPELLING_MAX_EDITS, differs_by_at_most};

/// What every property of ours begins with.
pub const PREFIX: &str = "webhook/";

/// What the properties begin with that say what is published.
const TUNNEL_PREFIX: &str = "webhook/tunnel";

/// What the properties begin with that say who may see it.
const ACCESS_PREFIX: &str = "webhook/access-";

/// Words that only what limits has in its name.
const LIMITING_WORDS: [&str; 2] = ["tunnel", "access"];

/// A property's name, and how it looks with dashes alone and without what all begin with.
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
}

/// Every property that an endpoint may have; of two that another name is as near to, the first is meant.
fn names() -> impl Iterator<Item = Name> {
    NAMES.iter().copied().chain(OriginOption::all().map(Name::of))
}

/// So many dots of a name may be the one in front of its group.
const DOTS_MAX: usize = 3;

/// Of a name as short as this without [`PREFIX`], two edits make another word.
const SHORT_NAME_BYTES: usize = 8;

/// What a property's name is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// One of ours.
    Known,
    /// Meant to be one of ours.
    Misspelled {
        /// The one that it is nearest to, where one is near.
        nearest: Option<&'static str>,
        /// Whether leaving it out may publish more than was asked for.
        limits: bool,
    },
    /// It begins as ours do and is near to none. Other webhooks have properties too.
    Unknown,
    /// Not meant for us.
    Foreign,
}

/// Whether it is one of ours, as it is spelled.
fn is_known(name: &str) -> bool {
    names().any(|known| known.name == name)
}

/// What somebody meant who wrote this name.
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

/// Whether the property says what is published, or who may reach it or what through it.
fn limits_what_is_published(name: &str) -> bool {
    [TUNNEL_PREFIX, ACCESS_PREFIX, OriginOption::IpRules.property()]
        .into_iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Whether a dot was typed for a dash, or for nothing, so that what looks like a group's name ends a property's.
pub fn is_torn(name: &str, group: &str) -> bool {
    let end = group.split('.').next().unwrap_or_default();
    ["", "-"].into_iter().any(|between| is_known(&format!("{name}{between}{end}")))
}

/// The property that is meant, whatever the name's case, its separators, what stands in front of it and whether its group
/// does behind; nothing for a name that is too long to be meant for one.
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
    // Of several, the one that most of the words stand in.
    let fitting = limits.filter(|known| has_words_of(&words, known));
    fitting.max_by_key(|known| known.bare.matches('-').count()).map(|known| known.name)
}

/// The name as a whole and behind its last slash, without a group and with it, in one spelling of case and separators.
fn spellings(name: &str) -> Vec<String> {
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let dots = name.match_indices('.').map(|(dot, _)| dot).filter(|dot| *dot > last);
    let ends = dots.take(DOTS_MAX).chain([name.len()]);
    // Once, where there is no slash.
    let begins = move || [Some(0), Some(last).filter(|last| *last > 0)].into_iter().flatten();
    ends.flat_map(|end| begins().filter_map(move |begin| name.get(begin..end)))
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

/// The words behind the one that is, or was meant to be, `webhook`.
fn words_of_ours(spelling: &str) -> Option<Vec<&str>> {
    let (first, rest) = spelling.split_once('-')?;
    differs_by_at_most(MISSPELLING_MAX_EDITS, first, "webhook")
        .then(|| rest.split('-').filter(|word| !word.is_empty()).collect())
}

/// Whether the words are those of a known name in another order, or all but its first, or one more.
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

/// Whether one word is the other one, as far as its length lets one tell.
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
    use crate::reconcile::canonical::{TUNNEL, TUNNEL_PATH, TUNNEL_PATH_PREFIX, TUNNEL_SERVICE};

    #[test]
    fn every_property_that_is_read_is_known() {
        let access = [ACCESS_REQUIRED, ACCESS_TEAM_NAME, ACCESS_AUD_TAG];
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
            "webhook/access-policy",
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
