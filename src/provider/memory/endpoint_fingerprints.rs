//! Remembers fingerprints of the endpoints that ExternalDNS sends and is shown, and compares them as ExternalDNS does.

use crate::model::endpoint::{Endpoint, Property};
use crate::model::text::fingerprint;

/// Hostnames that are remembered by name. `status` shows as many rows.
const NAMES_MAX: usize = 1_000;

/// The endpoints of the last adjustment and of the last reading, each once in a list, sorted.
#[derive(Debug, Default)]
pub(crate) struct EndpointFingerprints {
    sent: Vec<EndpointFingerprint>,
    shown: Vec<EndpointFingerprint>,
    /// The first hostnames that are not published as sent.
    pub(crate) unpublished: Vec<Box<str>>,
    /// The time at which endpoints were last shown, which begins a loop; in seconds since 1970.
    pub(crate) shown_at: Option<i64>,
}

/// An endpoint, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointFingerprint {
    pub(crate) hostname: u64,
    path: u32,
    /// The fingerprint of the compared fields.
    content: u32,
}

impl EndpointFingerprint {
    fn of(endpoint: &Endpoint) -> Self {
        let Endpoint { dns_name, set_identifier, record_type, targets, provider_specific, .. } = endpoint;
        let properties = provider_specific.iter().flat_map(|Property { name, value }| [&**name, &**value]);
        let compared =
            [&**record_type].into_iter().chain(targets.iter().map(String::as_str)).chain(properties);
        let [hostname, path] = [dns_name, set_identifier].map(|text| fingerprint([&**text]));
        Self { hostname, path: path as u32, content: fingerprint(compared) as u32 }
    }

    /// True if the endpoint has this path; empty for an endpoint without a path.
    pub(crate) fn has_path(self, path: &str) -> bool {
        self.path == fingerprint([path]) as u32
    }
}

impl EndpointFingerprints {
    /// Remembers the endpoints that ExternalDNS sends in their canonical form, sorted by name.
    pub(crate) fn remember_sent(&mut self, endpoints: &[Endpoint]) {
        self.sent = sorted(endpoints);
        let names = endpoints.chunk_by(|one, other| one.dns_name == other.dns_name);
        let names = names.filter_map(|of_one| Some(&*of_one.first()?.dns_name));
        let is_published = |name: &str| self.sent_of(name).iter().all(|endpoint| self.is_published(endpoint));
        self.unpublished = names.filter(|name| !is_published(name)).take(NAMES_MAX).map(Into::into).collect();
    }

    /// Remembers the endpoints that ExternalDNS is shown.
    pub(crate) fn remember_shown(&mut self, endpoints: &[Endpoint], unix_seconds: i64) {
        self.shown = sorted(endpoints);
        self.shown_at = Some(unix_seconds);
    }

    /// True if the endpoint is shown as it is sent, so that ExternalDNS asks for no change of it.
    pub(crate) fn is_published(&self, endpoint: &EndpointFingerprint) -> bool {
        [&self.sent, &self.shown].iter().all(|list| list.binary_search(endpoint).is_ok())
    }

    /// The sent endpoints of a hostname.
    pub(crate) fn sent_of(&self, hostname: &str) -> &[EndpointFingerprint] {
        of_hostname(&self.sent, hostname)
    }

    /// The sent endpoints of a hostname, then the shown ones.
    pub(crate) fn of(&self, hostname: &str) -> impl Iterator<Item = &EndpointFingerprint> {
        [&self.sent, &self.shown].into_iter().flat_map(move |list| of_hostname(list, hostname))
    }

    /// The sent endpoints of each hostname.
    pub(crate) fn sent_by_hostname(&self) -> impl Iterator<Item = &[EndpointFingerprint]> {
        self.sent.chunk_by(|one, other| one.hostname == other.hostname)
    }
}

fn sorted(endpoints: &[Endpoint]) -> Vec<EndpointFingerprint> {
    let mut all: Vec<_> = endpoints.iter().map(EndpointFingerprint::of).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn of_hostname<'e>(all: &'e [EndpointFingerprint], hostname: &str) -> &'e [EndpointFingerprint] {
    let hostname = fingerprint([hostname]);
    let start = all.partition_point(|endpoint| endpoint.hostname < hostname);
    let rest = all.get(start..).unwrap_or_default();
    rest.get(..rest.partition_point(|endpoint| endpoint.hostname == hostname)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(name: &str, path: &str, service: &str) -> Endpoint {
        Endpoint {
            dns_name: name.to_owned(),
            set_identifier: path.to_owned(),
            provider_specific: vec![Property::new("webhook/tunnel-service", service)],
            ..Endpoint::default()
        }
    }

    /// True for each sent endpoint of a hostname that is published.
    fn published(endpoints: &EndpointFingerprints, name: &str) -> Vec<bool> {
        endpoints.sent_of(name).iter().map(|one| endpoints.is_published(one)).collect()
    }

    #[test]
    fn a_place_is_published_if_it_is_shown_as_it_is_sent() {
        let (a, b) = (endpoint("a", "", "http://a"), endpoint("b", "", "http://b"));
        let changed = endpoint("a", "", "http://other");
        let mut endpoints = EndpointFingerprints::default();
        endpoints.remember_sent(&[a.clone(), b]);
        assert_eq!(published(&endpoints, "a"), [false]);
        assert_eq!(endpoints.unpublished, ["a".into(), "b".into()]);
        endpoints.remember_shown(std::slice::from_ref(&a), 0);
        assert_eq!((published(&endpoints, "a"), published(&endpoints, "b")), (vec![true], vec![false]));
        endpoints.remember_sent(&[changed, endpoint("a", "^/x", "http://a")]);
        assert_eq!((published(&endpoints, "a"), endpoints.of("a").count()), (vec![false; 2], 3));
        assert_eq!((endpoints.of("b").count(), &*endpoints.unpublished), (0, &["a".into()][..]));
        endpoints.remember_sent(&[]);
        let [shown] = *endpoints.of("a").collect::<Vec<_>>() else {
            panic!("it is shown, and not sent any more")
        };
        assert!(!endpoints.is_published(shown) && shown.has_path("") && !shown.has_path("^/x"));
    }

    #[test]
    fn sixty_thousand_endpoints_that_are_sent_and_shown_take_two_megabytes() {
        let all: Vec<Endpoint> =
            (0..60_000).map(|number| endpoint(&format!("{number}.example.com"), "", "http://web")).collect();
        let mut endpoints = EndpointFingerprints::default();
        for _ in 0..3 {
            endpoints.remember_sent(&all);
            endpoints.remember_shown(&all, 0);
        }
        assert_eq!((endpoints.sent.len(), endpoints.sent_by_hostname().count()), (60_000, 60_000));
        let capacity =
            |endpoints: &EndpointFingerprints| endpoints.sent.capacity() + endpoints.shown.capacity();
        assert!(capacity(&endpoints) * size_of::<EndpointFingerprint>() <= 2_000_000);
        endpoints.remember_sent(&[]);
        endpoints.remember_shown(&[], 0);
        assert_eq!((capacity(&endpoints), endpoints.unpublished.len()), (0, 0));
    }
}
