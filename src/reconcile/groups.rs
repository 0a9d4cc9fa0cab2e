//! Named groups: how one object publishes several paths of a hostname.
//!
//! `webhook/tunnel-service.api` and `webhook/tunnel-path-prefix.api` belong to the group `api`; each group becomes a rule
//! of its own, for a path of its own. A property without a group, other than the path, holds for every group that does
//! not set it: so Access that is asked for once protects them all.

use std::collections::BTreeMap;

use crate::limits;
use crate::model::endpoint::Endpoint;
use crate::reconcile::canonical::{TUNNEL_PATH, TUNNEL_PATH_PREFIX};

/// Stands between the name of a property and that of its group. No property has it in its own name.
const GROUP_SEPARATOR: char = '.';

/// A property's name and its value.
pub type Said<'e> = (&'e str, &'e str);

/// What one rule's properties say: those of a group, or those without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part<'e> {
    /// The group; empty for what is said without one.
    pub group: &'e str,
    /// Sorted, each once, so that of two of one name the same one is read first whoever sent them.
    pub said: Vec<Said<'e>>,
    /// Whether the group has a path of its own, or what is said has no group.
    pub has_place: bool,
}

/// An endpoint taken apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups<'e> {
    /// What is said without a group.
    pub base: Part<'e>,
    /// Each group, by its name.
    pub named: Vec<Part<'e>>,
}

/// Takes an endpoint apart, as far as one may have groups and properties. `is_grouped` tells of a property's own name and what may be its group whether they are.
pub fn split<'e>(endpoint: &'e Endpoint, mut is_grouped: impl FnMut(&'e str, &'e str) -> bool) -> Groups<'e> {
    let mut base = Vec::with_capacity(endpoint.provider_specific.len());
    let mut groups: BTreeMap<&str, Vec<Said<'_>>> = BTreeMap::new();
    for property in &endpoint.provider_specific {
        match property.name.split_once(GROUP_SEPARATOR) {
            Some((name, group)) if is_grouped(name, group) => {
                groups.entry(group).or_default().push((name, &*property.value));
            }
            _ => base.push((&*property.name, &*property.value)),
        }
    }
    let base = sorted(base);
    // Of more, the endpoint is refused: copies of them for each group would take a thousand times what it takes.
    let defaults = base.get(..=limits::ENDPOINT_PROPERTIES_MAX).unwrap_or(&base);
    let groups = groups.into_iter().take(limits::ENDPOINT_GROUPS_MAX + 1);
    let named = groups.map(|(group, own)| with_defaults(group, own, defaults)).collect();
    Groups { base: Part { group: "", said: base, has_place: true }, named }
}

fn with_defaults<'e>(group: &'e str, own: Vec<Said<'e>>, base: &[Said<'e>]) -> Part<'e> {
    let says = |wanted: &str| own.iter().any(|(name, _)| *name == wanted);
    let is_name = group.starts_with(|first: char| first.is_alphanumeric());
    let has_place = is_name && [TUNNEL_PATH, TUNNEL_PATH_PREFIX].into_iter().any(says);
    let is_default = |(name, _): &&Said<'e>| ![TUNNEL_PATH, TUNNEL_PATH_PREFIX].contains(name) && !says(name);
    let said = own.iter().chain(base.iter().filter(is_default)).copied().collect();
    Part { group, said: sorted(said), has_place }
}

fn sorted<'e>(mut said: Vec<Said<'e>>) -> Vec<Said<'e>> {
    said.sort_unstable();
    said.dedup();
    said
}

impl<'e> Part<'e> {
    /// The property that says the rule's path, if one does.
    pub fn path_property(&self) -> Option<&'static str> {
        [TUNNEL_PATH, TUNNEL_PATH_PREFIX].into_iter().find(|name| self.text(name).is_some())
    }

    /// The value of the first property called `name`.
    pub fn text(&self, name: &str) -> Option<&'e str> {
        self.said.iter().find(|(present, _)| *present == name).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::endpoint::Property;

    fn endpoint(properties: &[Said<'_>]) -> Endpoint {
        Endpoint {
            dns_name: "a.example.com".to_owned(),
            provider_specific: properties.iter().map(|(name, value)| Property::new(*name, *value)).collect(),
            ..Endpoint::default()
        }
    }

    fn split_ours(endpoint: &Endpoint) -> Groups<'_> {
        split(endpoint, |name, _| name.starts_with("webhook/"))
    }

    /// One endpoint of 128 KiB took 650 MB: each of its groups a copy of all that is said without one.
    #[test]
    fn no_more_is_copied_into_groups_than_is_read() {
        let names: Vec<String> = (0..600).map(|number| format!("webhook/tunnel-service.{number}")).collect();
        let others: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let said: Vec<Said<'_>> = names.iter().chain(&others).map(|name| (&**name, "")).collect();
        let many = endpoint(&said);
        let Groups { base, named } = split_ours(&many);
        assert_eq!((base.said.len(), named.len()), (others.len(), limits::ENDPOINT_GROUPS_MAX + 1));
        assert!(named.iter().all(|part| part.said.len() == limits::ENDPOINT_PROPERTIES_MAX + 2));
    }

    #[test]
    fn an_endpoint_without_groups_stays_whole() {
        let plain = endpoint(&[("webhook/tunnel-service", "http://web:80"), ("alias.x", "true")]);
        let Groups { base, named } = split_ours(&plain);
        assert_eq!(base.said, [("alias.x", "true"), ("webhook/tunnel-service", "http://web:80")]);
        assert_eq!(named, []);
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
        let Groups { base, named } = split_ours(&endpoint);
        assert_eq!(base.said.len(), 3);
        let [api, lost, beta] = &named[..] else {
            panic!("three groups in {named:?}");
        };
        assert_eq!(api.text("webhook/access-required"), Some("true"), "protected once, protected all");
        assert_eq!(api.text("webhook/origin-no-tls-verify"), Some("false"));
        assert_eq!(api.text("webhook/tunnel-path"), Some("^/api"));
        assert_eq!((beta.group, beta.text("webhook/tunnel-path")), ("v2.beta", None), "a path is one rule's");
        assert_eq!(beta.text("webhook/tunnel-service"), Some("https://beta:443"));
        assert_eq!([api.has_place, lost.has_place, beta.has_place], [true, false, false]);
    }
}
