//! Remembers fingerprints of the endpoints that ExternalDNS sends and is shown, and compares them as ExternalDNS does.

use crate::model::endpoint::{Endpoint, Property};
use crate::model::text::fingerprint;

/// Hostnames that are remembered by name. `status` shows as many rows.
const NAMES_MAX: usize = 1_000;

/// The mark of an endpoint that ExternalDNS sends, in its canonical form.
const SENT: u32 = 1;

/// The mark of an endpoint that ExternalDNS is shown.
const SHOWN: u32 = 2;

const BOTH: u32 = SENT | SHOWN;

/// The endpoints of the last adjustment and of the last reading, each once, sorted.
#[derive(Debug, Default)]
pub(crate) struct EndpointFingerprints {
    marked: Vec<MarkedEndpoint>,
    /// The first hostnames that are not published as sent.
    pub(crate) unpublished: Vec<Box<str>>,
    /// The time at which endpoints were last shown, which begins a loop; in seconds since 1970.
    pub(crate) shown_at: Option<i64>,
}

/// An endpoint, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MarkedEndpoint {
    pub(crate) hostname: u64,
    path: u32,
    /// The fingerprint of the compared fields, with the marks in place of the two lowest bits.
    content: u32,
}

impl MarkedEndpoint {
    fn of(endpoint: &Endpoint, mark: u32) -> Self {
        let Endpoint { dns_name, set_identifier, record_type, targets, provider_specific, .. } = endpoint;
        let properties = provider_specific.iter().flat_map(|Property { name, value }| [&**name, &**value]);
        let compared =
            [&**record_type].into_iter().chain(targets.iter().map(String::as_str)).chain(properties);
        let content = fingerprint(compared) as u32 & !BOTH | mark;
        Self { hostname: fingerprint([&**dns_name]), path: fingerprint([&**set_identifier]) as u32, content }
    }

    fn without_marks(self) -> Self {
        Self { content: self.content & !BOTH, ..self }
    }

    /// True if ExternalDNS asks for a change of the endpoint.
    pub(crate) fn differs(self) -> bool {
        self.content & BOTH != BOTH
    }

    pub(crate) fn is_sent(self) -> bool {
        self.content & SENT != 0
    }

    /// True if the endpoint has this path; empty for an endpoint without a path.
    pub(crate) fn has_path(self, path: &str) -> bool {
        self.path == fingerprint([path]) as u32
    }
}

impl EndpointFingerprints {
    /// Notes the endpoints that ExternalDNS sends, sorted by name.
    pub(crate) fn note_sent(&mut self, endpoints: &[Endpoint]) {
        self.mark(endpoints, SENT);
        let names = endpoints.chunk_by(|one, other| one.dns_name == other.dns_name);
        let names = names.filter_map(|of_one| Some(&*of_one.first()?.dns_name));
        let unpublished = names.filter(|name| self.of(name).iter().any(|one| one.is_sent() && one.differs()));
        self.unpublished = unpublished.take(NAMES_MAX).map(Into::into).collect();
    }

    /// Notes the endpoints that ExternalDNS is shown.
    pub(crate) fn note_shown(&mut self, endpoints: &[Endpoint], now: i64) {
        self.mark(endpoints, SHOWN);
        self.shown_at = Some(now);
    }

    /// The endpoints of a hostname.
    pub(crate) fn of(&self, hostname: &str) -> &[MarkedEndpoint] {
        let hostname = fingerprint([hostname]);
        let start = self.marked.partition_point(|marked| marked.hostname < hostname);
        let rest = self.marked.get(start..).unwrap_or_default();
        rest.get(..rest.partition_point(|marked| marked.hostname == hostname)).unwrap_or_default()
    }

    /// The endpoints of each hostname.
    pub(crate) fn by_hostname(&self) -> impl Iterator<Item = &[MarkedEndpoint]> {
        self.marked.chunk_by(|one, other| one.hostname == other.hostname)
    }

    fn mark(&mut self, endpoints: &[Endpoint], mark: u32) {
        self.marked.iter_mut().for_each(|marked| marked.content &= !mark);
        self.marked.retain(|marked| marked.content & BOTH != 0);
        self.marked.reserve_exact(endpoints.len());
        self.marked.extend(endpoints.iter().map(|endpoint| MarkedEndpoint::of(endpoint, mark)));
        self.marked.sort_unstable();
        self.marked.dedup_by(|later, first| {
            let is_same = later.without_marks() == first.without_marks();
            first.content |= if is_same { later.content } else { 0 };
            is_same
        });
        self.marked.shrink_to_fit();
    }
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

    fn states(endpoints: &EndpointFingerprints, name: &str) -> Vec<(bool, bool)> {
        endpoints.of(name).iter().map(|marked| (marked.is_sent(), marked.differs())).collect()
    }

    #[test]
    fn a_place_is_published_if_it_is_shown_as_it_is_sent() {
        let (a, b) = (endpoint("a", "", "http://a"), endpoint("b", "", "http://b"));
        let changed = endpoint("a", "", "http://other");
        let mut endpoints = EndpointFingerprints::default();
        endpoints.note_sent(&[a.clone(), b]);
        assert_eq!(states(&endpoints, "a"), [(true, true)]);
        assert_eq!(endpoints.unpublished, ["a".into(), "b".into()]);
        endpoints.note_shown(std::slice::from_ref(&a), 0);
        assert_eq!(
            (states(&endpoints, "a"), states(&endpoints, "b")),
            (vec![(true, false)], vec![(true, true)])
        );
        endpoints.note_sent(&[changed, endpoint("a", "^/x", "http://a")]);
        let mut of_a = states(&endpoints, "a");
        of_a.sort();
        assert_eq!(of_a, [(false, true), (true, true), (true, true)]);
        assert_eq!((states(&endpoints, "b"), &*endpoints.unpublished), (vec![], &["a".into()][..]));
        endpoints.note_sent(&[]);
        assert_eq!(states(&endpoints, "a"), [(false, true)], "it is shown, and not sent any more");
        assert!(endpoints.of("a")[0].has_path("") && !endpoints.of("a")[0].has_path("^/x"));
    }

    #[test]
    fn sixty_thousand_endpoints_that_are_sent_and_shown_take_a_megabyte() {
        let all: Vec<Endpoint> =
            (0..60_000).map(|number| endpoint(&format!("{number}.example.com"), "", "http://web")).collect();
        let mut endpoints = EndpointFingerprints::default();
        for _ in 0..3 {
            endpoints.note_sent(&all);
            endpoints.note_shown(&all, 0);
        }
        assert_eq!((endpoints.marked.len(), endpoints.by_hostname().count()), (60_000, 60_000));
        assert!(endpoints.marked.capacity() * size_of::<MarkedEndpoint>() <= 1_000_000);
        endpoints.note_sent(&[]);
        endpoints.note_shown(&[], 0);
        assert_eq!((endpoints.marked.capacity(), endpoints.unpublished.len()), (0, 0));
    }
}
