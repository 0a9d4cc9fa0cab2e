//! Splits an endpoint into named groups, with which one object publishes several paths of a hostname.
//!
//! `webhook/tunnel-service.api` and `webhook/tunnel-path-prefix.api` belong to the group `api`, and each group becomes
//! a rule with a path of its own. A property without a group, except the path, applies to every group that does not set
//! it. So one Access property without a group protects all groups.

use std::collections::BTreeMap;

use crate::limits;
use crate::model::endpoint::Endpoint;
use crate::reconcile::property_name::{TUNNEL_PATH, TUNNEL_PATH_PREFIX};

/// Separates the name of a property from the name of its group. No property has this character in its own name.
const GROUP_SEPARATOR: char = '.';

/// A property's name and its value.
pub type NameAndValue<'e> = (&'e str, &'e str);

/// The properties of one rule: those of a group, or those without a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleProperties<'e> {
    /// The group; empty for properties without a group.
    pub group: &'e str,
    /// Sorted and without duplicates, so that the order of arrival does not decide which of two equal names is read.
    pub entries: Vec<NameAndValue<'e>>,
    /// True without a group; else if the group's name begins with a letter or digit, and the group sets a path.
    pub is_complete: bool,
}

/// Splits an endpoint into its properties without a group and its groups. The number of groups, and of properties
/// copied into each, is bounded. `is_grouped` is true if the texts before and after the separator are really a name and
/// a group.
pub fn split<'e>(
    endpoint: &'e Endpoint,
    mut is_grouped: impl FnMut(&'e str, &'e str) -> bool,
) -> (RuleProperties<'e>, Vec<RuleProperties<'e>>) {
    let mut base = Vec::with_capacity(endpoint.provider_specific.len());
    let mut groups: BTreeMap<&str, Vec<NameAndValue<'_>>> = BTreeMap::new();
    for property in &endpoint.provider_specific {
        match property.name.split_once(GROUP_SEPARATOR) {
            Some((name, group)) if is_grouped(name, group) => {
                groups.entry(group).or_default().push((name, &*property.value));
            }
            _ => base.push((&*property.name, &*property.value)),
        }
    }
    let base = sorted(base);
    // An endpoint with more properties is refused. A copy for each group would take a thousand times their size.
    let defaults = base.get(..=limits::ENDPOINT_PROPERTIES_MAX).unwrap_or(&base);
    let groups = groups.into_iter().take(limits::ENDPOINT_GROUPS_MAX + 1);
    let named = groups.map(|(group, own)| with_defaults(group, own, defaults)).collect();
    (RuleProperties { group: "", entries: base, is_complete: true }, named)
}

fn with_defaults<'e>(
    group: &'e str,
    own: Vec<NameAndValue<'e>>,
    base: &[NameAndValue<'e>],
) -> RuleProperties<'e> {
    let says = |wanted: &str| own.iter().any(|(name, _)| *name == wanted);
    let is_name = group.starts_with(|first: char| first.is_alphanumeric());
    let is_complete = is_name && [TUNNEL_PATH, TUNNEL_PATH_PREFIX].into_iter().any(says);
    let is_default =
        |(name, _): &&NameAndValue<'e>| ![TUNNEL_PATH, TUNNEL_PATH_PREFIX].contains(name) && !says(name);
    let entries = own.iter().chain(base.iter().filter(is_default)).copied().collect();
    RuleProperties { group, entries: sorted(entries), is_complete }
}

fn sorted<'e>(mut properties: Vec<NameAndValue<'e>>) -> Vec<NameAndValue<'e>> {
    properties.sort_unstable();
    properties.dedup();
    properties
}

impl<'e> RuleProperties<'e> {
    /// The property that sets the rule's path, if one does.
    pub fn path_property(&self) -> Option<&'static str> {
        [TUNNEL_PATH, TUNNEL_PATH_PREFIX].into_iter().find(|name| self.text(name).is_some())
    }

    /// The value of the first property called `name`.
    pub fn text(&self, name: &str) -> Option<&'e str> {
        self.entries.iter().find(|(present, _)| *present == name).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::endpoint::Property;

    fn endpoint(properties: &[NameAndValue<'_>]) -> Endpoint {
        Endpoint {
            dns_name: "a.example.com".to_owned(),
            provider_specific: properties.iter().map(|(name, value)| Property::new(*name, *value)).collect(),
            ..Endpoint::default()
        }
    }

    fn split_ours(endpoint: &Endpoint) -> (RuleProperties<'_>, Vec<RuleProperties<'_>>) {
        split(endpoint, |name, _| name.starts_with("webhook/"))
    }

    /// One endpoint of 128 KiB took 650 MB, because each of its groups had a copy of all properties without a group.
    #[test]
    fn no_more_is_copied_into_groups_than_is_read() {
        let names: Vec<String> = (0..600).map(|number| format!("webhook/tunnel-service.{number}")).collect();
        let others: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let properties: Vec<NameAndValue<'_>> =
            names.iter().chain(&others).map(|name| (&**name, "")).collect();
        let many = endpoint(&properties);
        let (base, named) = split_ours(&many);
        assert_eq!((base.entries.len(), named.len()), (others.len(), limits::ENDPOINT_GROUPS_MAX + 1));
        assert!(named.iter().all(|part| part.entries.len() == limits::ENDPOINT_PROPERTIES_MAX + 2));
    }

    #[test]
    fn a_group_takes_what_it_does_not_say_from_what_is_said_without_one() {
        let endpoint = endpoint(&[
            ("webhook/access-required", "true"),
            ("webhook/origin-no-tls-verify", "true"),
            ("webhook/origin-no-tls-verify.api", "false"),
            ("webhook/tunnel-path", "^/$"),
            ("webhook/tunnel-path.api", "^/api"),
            ("webhook/tunnel-service.api", "https://api:443"),
            ("webhook/tunnel-service.v2.beta", "https://beta:443"),
            ("webhook/origin-server-name.lost", "api"),
        ]);
        let (base, named) = split_ours(&endpoint);
        assert_eq!(base.entries.len(), 3);
        let [api, lost, beta] = &named[..] else {
            panic!("three groups in {named:?}");
        };
        assert_eq!(api.text("webhook/access-required"), Some("true"), "protected once, protected all");
        assert_eq!(api.text("webhook/origin-no-tls-verify"), Some("false"));
        assert_eq!(api.text("webhook/tunnel-path"), Some("^/api"));
        assert_eq!((beta.group, beta.text("webhook/tunnel-path")), ("v2.beta", None), "a path is one rule's");
        assert_eq!(beta.text("webhook/tunnel-service"), Some("https://beta:443"));
        assert_eq!([api.is_complete, lost.is_complete, beta.is_complete], [true, false, false]);
    }
}
