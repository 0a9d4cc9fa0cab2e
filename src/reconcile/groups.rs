//! Splits an endpoint into named groups, with which one object publishes several paths of a hostname.
//!
//! `webhook/tunnel-service.api` and `webhook/tunnel-path-prefix.api` belong to the group `api`, and each group becomes
//! a rule with a path of its own. A property without a group, except the path, applies to every group that does not set
//! it. So one Access property without a group protects all groups.

use std::collections::BTreeMap;

use crate::limits;
use crate::model::endpoint::Endpoint;
use crate::reconcile::property_name::{TUNNEL, TUNNEL_PATH, TUNNEL_PATH_PREFIX};

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

/// The rules of an endpoint that are not excluded from tunnels. The properties without a group are often only the
/// defaults of the groups: then they make no rule of their own. If they set a path, that property is returned as the
/// stray path.
pub fn rules<'e>(
    base: RuleProperties<'e>,
    groups: Vec<RuleProperties<'e>>,
    base_is_rule: bool,
) -> (Vec<RuleProperties<'e>>, Option<&'static str>) {
    let object_is_excluded = base.says_excluded();
    let stray_path = if base_is_rule { None } else { base.path_property() };
    let mut rules = groups;
    rules.extend(base_is_rule.then_some(base));
    // A group that is not complete may be a misspelled one, so only the exclusion of the whole object counts for it.
    rules.retain(|rule| !(rule.says_excluded() && (object_is_excluded || rule.is_complete)));
    (rules, stray_path)
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

    /// True if `webhook/tunnel` is false, however often it is set.
    fn says_excluded(&self) -> bool {
        let mut values = self.entries.iter().filter(|(name, _)| *name == TUNNEL).peekable();
        values.peek().is_some() && values.all(|(_, value)| *value == "false")
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

    #[test]
    fn a_rule_is_left_out_if_it_or_its_object_is_excluded() {
        let out = ("webhook/tunnel", "false");
        let (path, own_path) = (("webhook/tunnel-path", "^/"), ("webhook/tunnel-path.api", "^/api"));
        for (label, properties, base_is_rule, expected, stray_path) in [
            ("no group", vec![], true, vec![""], None),
            ("the object", vec![out], true, vec![], None),
            ("the object, set twice", vec![out, ("webhook/tunnel", "home")], true, vec![""], None),
            ("a group", vec![own_path], true, vec!["api", ""], None),
            ("a group and defaults", vec![own_path], false, vec!["api"], None),
            ("a path of the whole", vec![own_path, path], true, vec!["api", ""], None),
            ("a path of none", vec![own_path, path], false, vec!["api"], Some(TUNNEL_PATH)),
            ("the group is out", vec![own_path, ("webhook/tunnel.api", "false")], true, vec![""], None),
            (
                "its group is not",
                vec![out, own_path, ("webhook/tunnel.api", "home")],
                true,
                vec!["api"],
                None,
            ),
            ("a group without a path", vec![("webhook/tunnel.api", "false")], false, vec!["api"], None),
            ("the same, and the object is out", vec![out, ("webhook/tunnel-x.api", "")], true, vec![], None),
        ] {
            let endpoint = endpoint(&properties);
            let (base, named) = split_ours(&endpoint);
            let (rules, stray) = rules(base, named, base_is_rule);
            let left: Vec<&str> = rules.iter().map(|rule| rule.group).collect();
            assert_eq!((left, stray), (expected, stray_path), "{label}");
        }
    }
}
