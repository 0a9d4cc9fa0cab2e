//! Named groups: how one object publishes several paths of a hostname.
//!
//! `webhook/tunnel-service.api` and `webhook/tunnel-path-prefix.api` belong to the group `api`; each group becomes an
//! endpoint of its own. What is said without a group holds for every group that says nothing else about it, the path
//! excepted: so Access that is asked for once protects them all.

use std::collections::BTreeMap;

use crate::endpoint::{Endpoint, Property};
use crate::reconcile::canonical::{TUNNEL_PATH, TUNNEL_PATH_PREFIX};

/// Begins every property that may carry a group.
const GROUPED_PREFIX: &str = "webhook/";

/// Stands between the name of a property and that of its group. No property has it in its own name.
const GROUP_SEPARATOR: char = '.';

/// An endpoint taken apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// What is said without a group.
    pub base: Endpoint,
    /// One endpoint for each group, by its name.
    pub named: Vec<Endpoint>,
}

/// Takes an endpoint apart. Without groups `named` is empty and `base` the endpoint as it is.
pub fn split(endpoint: &Endpoint) -> Groups {
    let mut base = endpoint.clone();
    let mut groups: BTreeMap<Box<str>, Vec<Property>> = BTreeMap::new();
    base.provider_specific.retain(|property| match group_of(&property.name) {
        Some((name, group)) => {
            groups.entry(group.into()).or_default().push(Property::new(name, &*property.value));
            false
        }
        None => true,
    });
    let named = groups.into_values().map(|properties| with_defaults(&base, properties)).collect();
    Groups { base, named }
}

/// A property's own name and its group's.
fn group_of(name: &str) -> Option<(&str, &str)> {
    let (property, group) = name.split_once(GROUP_SEPARATOR)?;
    property.starts_with(GROUPED_PREFIX).then_some((property, group))
}

fn with_defaults(base: &Endpoint, mut properties: Vec<Property>) -> Endpoint {
    let said = |name: &str| properties.iter().any(|property| *property.name == *name);
    let defaults: Vec<Property> = base
        .provider_specific
        .iter()
        .filter(|property| {
            ![TUNNEL_PATH, TUNNEL_PATH_PREFIX].contains(&&*property.name) && !said(&property.name)
        })
        .cloned()
        .collect();
    properties.extend(defaults);
    Endpoint { provider_specific: properties, ..base.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(properties: &[(&str, &str)]) -> Endpoint {
        Endpoint {
            dns_name: "a.example.com".to_owned(),
            provider_specific: properties.iter().map(|(name, value)| Property::new(*name, *value)).collect(),
            ..Endpoint::default()
        }
    }

    #[test]
    fn an_endpoint_without_groups_stays_whole() {
        let plain = endpoint(&[("webhook/tunnel-service", "http://web:80"), ("alias.x", "true")]);
        assert_eq!(split(&plain), Groups { base: plain.clone(), named: Vec::new() });
    }

    #[test]
    fn a_group_takes_what_it_does_not_say_from_what_is_said_without_one() {
        let groups = split(&endpoint(&[
            ("webhook/access-required", "true"),
            ("webhook/origin-no-tls-verify", "true"),
            ("webhook/origin-no-tls-verify.api", "false"),
            ("webhook/tunnel-path", "^/$"),
            ("webhook/tunnel-path.api", "^/api"),
            ("webhook/tunnel-service.api", "https://api:443"),
            ("webhook/tunnel-service.v2.beta", "https://beta:443"),
        ]));
        assert_eq!(groups.base.provider_specific.len(), 3);
        let [api, beta] = &groups.named[..] else {
            panic!("two groups in {groups:?}");
        };
        assert_eq!(api.property("webhook/access-required"), Some("true"), "protected once, protected all");
        assert_eq!(api.property("webhook/origin-no-tls-verify"), Some("false"));
        assert_eq!(api.property("webhook/tunnel-path"), Some("^/api"));
        assert_eq!(beta.property("webhook/tunnel-path"), None, "a path belongs to one endpoint");
        assert_eq!(beta.property("webhook/tunnel-service"), Some("https://beta:443"));
    }
}
