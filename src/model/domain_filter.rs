//! Decides which names this program serves. `GET /` tells ExternalDNS the filter, and every write is checked again.
//!
//! The filter matches like ExternalDNS's own (`endpoint.DomainFilter`): `example.com` matches the name itself and all
//! names below it, `.example.com` only those below. Exclusion wins. Expressions are matched against names in lower-case
//! Unicode.

use regex_lite::Regex;
use serde_json::json;

use super::hostname::{self, is_below, is_within};

/// A filter in one of its two forms, lists or expressions.
#[derive(Clone, Debug)]
pub enum DomainFilter {
    /// Names and the names below them.
    Lists {
        /// If empty, every name is included.
        include: Vec<Box<str>>,
        /// Wins over `include`.
        exclude: Vec<Box<str>>,
    },
    /// Expressions in the common subset of RE2 and regex-lite.
    Expressions {
        /// If `None`, every name is included.
        include: Option<Regex>,
        /// Wins over `include`.
        exclude: Option<Regex>,
    },
}

impl Default for DomainFilter {
    fn default() -> Self {
        Self::Lists { include: Vec::new(), exclude: Vec::new() }
    }
}

impl DomainFilter {
    /// Makes a filter of lists. Names are normalized, and empty entries dropped.
    pub fn lists<'a>(
        include: impl IntoIterator<Item = &'a str>,
        exclude: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        fn names<'a>(entries: impl IntoIterator<Item = &'a str>) -> Vec<Box<str>> {
            let names = entries.into_iter().map(hostname::normalize).filter(|name| !name.is_empty());
            names.map(Into::into).collect()
        }
        Self::Lists { include: names(include), exclude: names(exclude) }
    }

    /// True if `name` is served.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Lists { include, exclude } => {
                let name = hostname::normalize(name);
                let one_matches =
                    |filters: &[Box<str>]| filters.iter().any(|filter| entry_matches(filter, &name));
                (include.is_empty() || one_matches(include)) && !one_matches(exclude)
            }
            Self::Expressions { include, exclude } => {
                let name = to_unicode(&hostname::normalize(name));
                !exclude.as_ref().is_some_and(|expression| expression.is_match(&name))
                    && include.as_ref().is_none_or(|expression| expression.is_match(&name))
            }
        }
    }

    /// True if every name below `domain` is surely served. Expressions cannot tell, so they give false.
    pub fn matches_all_below(&self, domain: &str) -> bool {
        let Self::Lists { include, exclude } = self else { return false };
        let is_included = include.is_empty() || include.iter().any(|filter| is_within(domain, bare(filter)));
        is_included && !exclude.iter().any(|filter| touches(filter, domain))
    }

    /// True if some name in the zone called `zone` could be served. Expressions cannot tell, so they accept every zone.
    pub fn may_serve_zone(&self, zone: &str) -> bool {
        let Self::Lists { include, exclude } = self else {
            return true;
        };
        let zone = hostname::normalize(zone);
        let is_included = include.is_empty() || include.iter().any(|filter| touches(filter, &zone));
        is_included && !exclude.iter().any(|filter| entry_matches(filter, &zone))
    }

    /// The body of the answer to `GET /`. ExternalDNS reads an empty list or `null` like an absent member.
    pub fn to_json(&self) -> Box<str> {
        let text = |expression: &Option<Regex>| expression.as_ref().map(|regex| regex.as_str().to_owned());
        let body = match self {
            Self::Lists { include, exclude } => json!({"include": include, "exclude": exclude}),
            Self::Expressions { include, exclude } => {
                json!({"regexInclude": text(include), "regexExclude": text(exclude)})
            }
        };
        body.to_string().into()
    }
}

fn bare(filter: &str) -> &str {
    filter.strip_prefix('.').unwrap_or(filter)
}

/// True if one of the two is within the other, so that they have names in common.
fn touches(filter: &str, domain: &str) -> bool {
    is_within(bare(filter), domain) || is_within(domain, bare(filter))
}

/// True if an entry of a list matches a name. Both are normalized.
pub fn entry_matches(filter: &str, name: &str) -> bool {
    match filter.strip_prefix('.') {
        Some(domain) => is_below(name, domain),
        None => is_within(name, filter),
    }
}

/// Decodes punycode to Unicode. A label that is not valid punycode stays as it is.
fn to_unicode(name: &str) -> String {
    let labels = name.split('.').map(|label| {
        let decoded = label.strip_prefix("xn--").and_then(|encoded| punycode::decode(encoded).ok());
        decoded.unwrap_or_else(|| label.to_owned())
    });
    labels.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expressions(include: &str, exclude: &str) -> DomainFilter {
        let compile =
            |text: &str| (!text.is_empty()).then(|| Regex::new(text).expect("the table's are valid"));
        DomainFilter::Expressions { include: compile(include), exclude: compile(exclude) }
    }

    #[test]
    fn a_name_is_taken_as_external_dns_takes_it() {
        let table = [
            ("an empty filter matches every name", DomainFilter::default(), "a.example.com", true),
            ("the name itself", DomainFilter::lists(["example.com"], []), "example.com", true),
            ("below it", DomainFilter::lists(["example.com"], []), "*.a.example.com", true),
            ("a mere suffix", DomainFilter::lists(["example.com"], []), "myexample.com", false),
            (
                "a leading dot leaves the apex out",
                DomainFilter::lists([".example.com"], []),
                "example.com",
                false,
            ),
            (
                "a leading dot matches the names below",
                DomainFilter::lists([".example.com"], []),
                "a.example.com",
                true,
            ),
            (
                "exclusion wins",
                DomainFilter::lists(["example.com"], ["a.example.com"]),
                "b.a.example.com",
                false,
            ),
            (
                "case and the final dot are nothing",
                DomainFilter::lists(["Example.com."], []),
                "A.example.COM.",
                true,
            ),
            ("an expression", expressions(r"^.*\.example\.com$", ""), "a.example.com", true),
            ("an expression that excludes", expressions("", "^internal"), "internal.example.com", false),
            (
                "an exclusion alone matches the other names",
                expressions("", "^internal"),
                "a.example.com",
                true,
            ),
            ("expressions see Unicode", expressions("bücher", ""), "xn--bcher-kva.example", true),
        ];
        for (label, filter, name, expected) in table {
            assert_eq!(filter.matches(name), expected, "{label}");
        }
    }

    #[test]
    fn a_zone_is_read_only_where_a_name_in_it_could_be_served() {
        let table = [
            ("the zone of the filter", DomainFilter::lists(["example.com"], []), "example.com", true),
            ("the zone above the filter", DomainFilter::lists(["a.example.com"], []), "example.com", true),
            ("the zone below the filter", DomainFilter::lists(["example.com"], []), "a.example.com", true),
            ("another zone", DomainFilter::lists(["example.com"], []), "example.org", false),
            ("an excluded zone", DomainFilter::lists([], ["example.org"]), "example.org", false),
            (
                "a zone of which a part is excluded",
                DomainFilter::lists([], ["a.example.org"]),
                "example.org",
                true,
            ),
            ("a zone whose apex is left", DomainFilter::lists([], [".example.org"]), "example.org", true),
        ];
        for (label, filter, zone, expected) in table {
            assert_eq!(filter.may_serve_zone(zone), expected, "{label}");
        }
    }

    #[test]
    fn the_body_has_lists_or_expressions_and_never_both() {
        assert_eq!(&*DomainFilter::default().to_json(), r#"{"exclude":[],"include":[]}"#);
        let lists = DomainFilter::lists(["example.com"], ["a.example.com"]);
        assert_eq!(&*lists.to_json(), r#"{"exclude":["a.example.com"],"include":["example.com"]}"#);
        assert_eq!(
            &*expressions(r"\.com$", "^x").to_json(),
            r#"{"regexExclude":"^x","regexInclude":"\\.com$"}"#
        );
    }
}
