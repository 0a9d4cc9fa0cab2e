//! Finds objects that ExternalDNS merges before it asks for an adjustment. Endpoints of one name, record type, set
//! identifier and target become one, with the properties of the first one in a Go map, which is another one in every loop.
//!
//! If an object returns after another one had taken its place, the two count as merged. From then on all objects seen
//! there lately are put back beside the one that is shown, and `rivals` decides between them.

use std::collections::HashMap;
use std::time::Instant;

use crate::limits;
use crate::model::endpoint::Endpoint;
use crate::model::hostname;
use crate::provider::writes::fingerprint;
use crate::reconcile::Settings;
use crate::reconcile::rivals::{self, Merge, resource_of};

/// The number of places whose objects are remembered from one request to the next, at 16 bytes each. If there are more,
/// the last ones go on taking turns.
const CASTS_MAX: usize = 32 * 1024;

/// The memory for objects that changed at one name in that time: a thousand hostnames. If there are more, the last ones
/// go on taking turns.
const MERGED_MAX_BYTES: usize = 1024 * 1024;

/// The objects of earlier requests, by place: a fingerprint of name, record type and set identifier. The memory is lost
/// with the process; the next one finds out anew.
#[derive(Debug, Default)]
pub(crate) struct MergedObjects {
    /// The number of the current request.
    request: u64,
    /// The objects of the last request, by place.
    casts: Casts,
    /// The places where the objects changed lately.
    places: HashMap<u64, Place>,
}

/// Places and their objects, as fingerprints. Sorted, without duplicates.
#[derive(Debug, Default)]
struct Casts(Vec<(u64, u64)>);

/// The endpoints of one request, collected while it is read.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    casts: Vec<(u64, u64)>,
    is_full: bool,
    /// The endpoints of places that may have to be examined.
    endpoints: Vec<(u64, Endpoint)>,
}

#[derive(Debug)]
struct Place {
    /// The objects before the first change.
    first_cast: Box<[(u64, u64)]>,
    changed_at: Instant,
    /// The objects seen since.
    objects: Vec<Object>,
    is_merged: bool,
    /// There was no room for one of its endpoints.
    is_cut: bool,
}

#[derive(Debug)]
struct Object {
    /// The fingerprint of its resource.
    fingerprint: u64,
    /// The last two requests that contained it; the second came at `seen_at`.
    requests: (u64, u64),
    seen_at: Instant,
    /// Empty if it stood alone until the request in which its place changed, and was not seen since.
    endpoints: Vec<Endpoint>,
}

impl Shown {
    /// Notes an endpoint of the request. Returns the number of bytes kept of it.
    pub(crate) fn note(&mut self, endpoint: &Endpoint, before: &MergedObjects) -> usize {
        let Endpoint { dns_name, record_type, set_identifier, .. } = endpoint;
        let key = fingerprint([&**dns_name, record_type, set_identifier]);
        let entry = (key, fingerprint([resource_of(endpoint)]));
        if self.casts.len() >= CASTS_MAX && !self.is_full {
            self.sort();
            // If sorting frees little room, the next sorts would free less.
            self.is_full = self.casts.len() > CASTS_MAX / 2;
        }
        if !self.is_full {
            self.casts.push(entry);
        }
        let bytes = if self.is_full { 0 } else { size_of_val(&entry) };
        let cast = before.casts.at(key);
        let is_known = matches!(cast, [only] if *only == entry);
        if !before.places.contains_key(&key) && (cast.is_empty() || is_known) {
            return bytes;
        }
        self.endpoints.push((key, endpoint.clone()));
        bytes + endpoint.memory_bytes()
    }

    fn sort(&mut self) {
        self.casts.sort_unstable();
        self.casts.dedup();
    }
}

impl Casts {
    /// The objects at one place.
    fn at(&self, key: u64) -> &[(u64, u64)] {
        let Self(casts) = self;
        let begin = casts.partition_point(|(place, _)| *place < key);
        let rest = casts.get(begin..).unwrap_or_default();
        let length = rest.iter().take_while(|(place, _)| *place == key).count();
        rest.get(..length).unwrap_or_default()
    }
}

impl MergedObjects {
    /// The endpoints of merged objects that the request does not show, and all merges, sorted by hostname.
    pub(crate) fn complete(
        &mut self,
        mut shown: Shown,
        settings: &Settings,
        now: Instant,
    ) -> (Vec<Endpoint>, Vec<Merge>) {
        shown.sort();
        self.places.retain(|_, place| place.outlasts(self.request, now));
        self.request += 1;
        let request = self.request;
        for cast in shown.casts.chunk_by(|one, other| one.0 == other.0) {
            let Some((key, _)) = cast.first() else { continue };
            let before = self.casts.at(*key);
            if !before.is_empty() && before != cast {
                self.places.entry(*key).or_insert_with(|| Place::new(before, now)).changed_at = now;
            }
        }
        self.casts = Casts(shown.casts);
        if self.places.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut room = MERGED_MAX_BYTES.saturating_sub(self.places.values().map(Place::bytes).sum());
        for (key, endpoint) in shown.endpoints {
            if let Some(place) = self.places.get_mut(&key) {
                place.see(endpoint, request, now, &mut room);
            }
        }
        let Self { request: _, casts, places } = self;
        places.retain(|key, place| {
            let cast = casts.at(*key);
            for (_, fingerprint) in cast {
                place.object(*fingerprint, request, now, &mut room);
            }
            // If a place is not shown any more, nobody wants it.
            place.is_merged = place.is_merged || place.is_taking_turns(cast, request, settings);
            !cast.is_empty() && !place.is_cut
        });
        let mut merges = Vec::new();
        let mut absent = Vec::new();
        for place in places.values().filter(|place| place.is_merged && place.absent(request).next().is_some())
        {
            absent.extend(place.absent(request).flat_map(|object| object.endpoints.iter().cloned()));
            merges.extend(place.merge());
        }
        merges.sort_unstable();
        merges.dedup();
        (absent, merges)
    }
}

impl Place {
    fn new(first_cast: &[(u64, u64)], now: Instant) -> Self {
        let first_cast = first_cast.into();
        Self { first_cast, changed_at: now, objects: Vec::new(), is_merged: false, is_cut: false }
    }

    fn see(&mut self, endpoint: Endpoint, request: u64, now: Instant, room: &mut usize) {
        if self.is_cut {
            return;
        }
        let bytes = endpoint.memory_bytes();
        let Some(object) = self.object(fingerprint([resource_of(&endpoint)]), request, now, room) else {
            return;
        };
        if bytes > *room {
            self.is_cut = true;
            return;
        }
        *room -= bytes;
        object.endpoints.push(endpoint);
    }

    /// The object, which the request shows.
    fn object(
        &mut self,
        fingerprint: u64,
        request: u64,
        now: Instant,
        room: &mut usize,
    ) -> Option<&mut Object> {
        let index =
            self.objects.iter().position(|object| object.fingerprint == fingerprint).unwrap_or_else(|| {
                self.objects.push(Object {
                    fingerprint,
                    requests: (0, 0),
                    seen_at: now,
                    endpoints: Vec::new(),
                });
                self.objects.len() - 1
            });
        let object = self.objects.get_mut(index)?;
        if object.requests.1 != request {
            *room += object.bytes();
            object.endpoints.clear();
            object.requests = (object.requests.1, request);
            object.seen_at = now;
        }
        Some(object)
    }

    /// Forgets objects that were not shown lately. Returns true while the place is worth watching.
    fn outlasts(&mut self, last_request: u64, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < limits::MERGED_HELD;
        self.objects.retain(|object| is_recent(object.seen_at));
        is_recent(self.changed_at) || self.is_merged && self.absent(last_request).next().is_some()
    }

    /// True if an object has returned after it was absent from the last request, and another one has gone that was
    /// there then and asks for something else. Pods of one deployment ask for the same.
    fn is_taking_turns(&self, cast: &[(u64, u64)], request: u64, settings: &Settings) -> bool {
        let is_as_before = *cast == *self.first_cast;
        let has_come_back = |object: &Object| {
            let (before, last) = object.requests;
            last == request && before + 1 < request && (before > 0 || is_as_before)
        };
        if !self.objects.iter().any(has_come_back) {
            return false;
        }
        let present = self.objects.iter().filter(|object| object.requests.1 == request);
        let shown: Vec<Endpoint> = present.flat_map(|object| object.endpoints.iter().cloned()).collect();
        let mut gone = self.absent(request).filter(|object| object.requests.1 + 1 == request);
        gone.any(|object| !rivals::ask_alike(&object.endpoints, &shown, settings))
    }

    fn absent(&self, request: u64) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |object| object.requests.1 != request)
    }

    fn merge(&self) -> Option<Merge> {
        let seen = || self.objects.iter().filter_map(|object| object.endpoints.first());
        let mut resources: Vec<Box<str>> = seen().map(|endpoint| resource_of(endpoint).into()).collect();
        resources.sort_unstable();
        Some(Merge { hostname: hostname::normalize(&seen().next()?.dns_name).into(), resources })
    }

    fn bytes(&self) -> usize {
        self.objects.iter().map(Object::bytes).sum()
    }
}

impl Object {
    fn bytes(&self) -> usize {
        self.endpoints.iter().map(Endpoint::memory_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fixture::settings;
    use crate::model::endpoint::{Labels, Property};
    use crate::provider::memory::year;
    use crate::reconcile::canonical::{RESOURCE_LABEL, TUNNEL_SERVICE};

    const MINUTE: Duration = Duration::from_secs(60);

    fn object(name: &str, service: &str) -> Endpoint {
        Endpoint {
            dns_name: "A.example.com".to_owned(),
            record_type: "A".to_owned(),
            targets: vec!["192.0.2.1".to_owned()],
            labels: Labels::from_iter([(RESOURCE_LABEL, name)]),
            provider_specific: vec![Property::new(TUNNEL_SERVICE, service)],
            ..Endpoint::default()
        }
    }

    struct Loops {
        merged: MergedObjects,
        now: Instant,
    }

    impl Loops {
        #[allow(clippy::disallowed_methods, reason = "any instant will do")]
        fn new() -> Self {
            Self { merged: MergedObjects::default(), now: Instant::now() }
        }

        /// Runs one loop, a minute after the last one. Every object has its own service. Returns the names of what is
        /// there afterwards.
        fn see(&mut self, names: &str) -> String {
            let objects = names.split_whitespace().map(|name| object(name, &format!("http://{name}:80")));
            self.see_all(objects.collect()).0
        }

        fn see_in_turn(&mut self, names: &[&str]) -> Vec<String> {
            names.iter().map(|names| self.see(names)).collect()
        }

        fn see_all(&mut self, endpoints: Vec<Endpoint>) -> (String, Vec<Merge>) {
            self.now += MINUTE;
            let (endpoints, merges) = self.complete(endpoints);
            let mut names: Vec<&str> = endpoints.iter().map(resource_of).collect();
            names.sort_unstable();
            (names.join(" "), merges)
        }
    }

    impl Loops {
        /// The endpoints, and those put back beside them.
        fn complete(&mut self, mut endpoints: Vec<Endpoint>) -> (Vec<Endpoint>, Vec<Merge>) {
            let mut shown = Shown::default();
            for endpoint in &endpoints {
                shown.note(endpoint, &self.merged);
            }
            let (absent, merges) = self.merged.complete(shown, &settings(), self.now);
            endpoints.extend(absent);
            (endpoints, merges)
        }
    }

    #[test]
    fn nothing_is_remembered_of_names_whose_objects_do_not_change() {
        let mut loops = Loops::new();
        let other = Endpoint { dns_name: "b.example.com".to_owned(), ..object("a", "http://a:80") };
        for _ in 0..3 {
            loops.see_all(vec![object("a", "http://a:80"), other.clone()]);
            assert!(loops.merged.places.is_empty());
        }
        loops.see("b");
        assert_eq!(loops.merged.places.len(), 1);
    }

    /// What is kept of an endpoint is taken from the memory for requests.
    #[test]
    fn what_is_kept_of_an_endpoint_is_its_entry_and_where_its_objects_changed_itself() {
        let mut loops = Loops::new();
        let (endpoint, entry) = (object("a", "http://a:80"), size_of::<(u64, u64)>());
        assert_eq!(Shown::default().note(&endpoint, &loops.merged), entry);
        loops.see("b");
        assert_eq!(Shown::default().note(&endpoint, &loops.merged), entry + endpoint.memory_bytes());
    }

    /// Objects of one place often come several times. Only if sorting them out frees half of the room it is done again.
    #[test]
    fn no_more_places_are_noted_than_there_is_room_for() {
        for (distinct, is_full) in [(CASTS_MAX / 2, false), (CASTS_MAX / 2 + 1, true)] {
            let (mut shown, merged) = (Shown::default(), MergedObjects::default());
            shown.casts = (0..CASTS_MAX).map(|number| ((number % distinct) as u64, 0)).collect();
            shown.note(&object("a", "http://a:80"), &merged);
            assert_eq!(shown.is_full, is_full, "{distinct}");
            assert_eq!(shown.casts.len(), distinct + usize::from(!is_full));
        }
    }

    #[test]
    fn an_endpoint_that_just_fits_is_kept_and_a_larger_one_cuts_its_place() {
        let endpoint = object("a", "http://a:80");
        for (less, is_cut) in [(0, false), (1, true)] {
            let (mut place, mut room) = (Place::new(&[], Loops::new().now), endpoint.memory_bytes() - less);
            place.see(endpoint.clone(), 1, Loops::new().now, &mut room);
            assert_eq!((place.is_cut, place.bytes() == 0), (is_cut, is_cut), "{less} bytes too few");
        }
    }

    #[test]
    fn what_comes_back_is_put_beside_what_took_its_place() {
        let mut loops = Loops::new();
        let seen = loops.see_in_turn(&["b", "a", "b", "a", "a", "b"]);
        assert_eq!(seen, ["b", "a", "a b", "a b", "a b", "a b"]);
        let (_, merges) = loops.see_all(vec![object("a", "http://a:80")]);
        assert_eq!(
            merges,
            [Merge { hostname: "a.example.com".into(), resources: vec!["a".into(), "b".into()] }]
        );
    }

    #[test]
    fn of_several_objects_all_are_put_back() {
        let mut loops = Loops::new();
        let seen = loops.see_in_turn(&["a", "b", "c", "b", "a"]);
        assert_eq!(seen, ["a", "b", "c", "b c", "a b c"]);
        // The fourth has another target and is never merged.
        let mut loops = Loops::new();
        let seen = loops.see_in_turn(&["a z", "b z", "a z", "b z"]);
        assert_eq!(seen, ["a z", "b z", "a b z", "a b z"]);
    }

    /// One of them has addresses of both families, so ExternalDNS always shows an endpoint of it.
    #[test]
    fn an_object_that_is_merged_in_one_record_type_alone_is_put_back() {
        let mut loops = Loops::new();
        let mut see = |first: &str| {
            let of = |kind: &str, name: &str| Endpoint {
                record_type: kind.to_owned(),
                ..object(name, &format!("http://{name}:80"))
            };
            loops.see_all(vec![of("A", first), of("AAAA", "both")]).0
        };
        let seen = ["one", "both", "one", "both", "both", "one"].map(&mut see);
        assert_eq!(
            seen,
            ["both one", "both both", "both both one", "both both one", "both both one", "both both one"]
        );
    }

    /// Each of their record types is merged for itself.
    #[test]
    fn a_merge_of_objects_with_both_record_types_is_told_once() {
        let mut loops = Loops::new();
        let mut see = |name: &str| {
            let of = |kind: &str| Endpoint {
                record_type: kind.to_owned(),
                ..object(name, &format!("http://{name}:80"))
            };
            loops.see_all(vec![of("A"), of("AAAA")])
        };
        let seen = ["a", "b", "a"].map(&mut see);
        let [_, _, (names, merges)] = &seen;
        assert_eq!((&**names, merges.len()), ("a a b b", 1));
    }

    #[test]
    fn an_object_counts_for_ten_minutes_after_it_was_shown_last() {
        let mut loops = Loops::new();
        loops.see_in_turn(&["a", "b", "a"]);
        let seen: Vec<String> = (0..12).map(|_| loops.see("b")).collect();
        assert!(seen[..9].iter().all(|names| names == "a b"), "{seen:?}");
        assert!(seen[9..].iter().all(|names| names == "b"), "{seen:?}");
        assert_eq!(loops.merged.places.len(), 0, "{:?}", loops.merged);
    }

    #[test]
    fn what_is_put_back_is_what_was_shown_last() {
        let mut loops = Loops::new();
        loops.see_in_turn(&["a", "b", "a"]);
        loops.see_all(vec![object("b", "http://changed:80")]);
        let (endpoints, _) = loops.complete(vec![object("a", "http://a:80")]);
        assert_eq!(endpoints[1].property(TUNNEL_SERVICE), Some("http://changed:80"));
    }

    /// A rename, a new object of the same name, or one that lacks its address for a while is not a merge.
    #[test]
    fn what_goes_or_comes_by_itself_is_left_alone() {
        for history in [
            &["a", "b", "b", "b"][..],
            &["a", "", "a", "", "a"],
            &["a", "b", "", "a"],
            &["a z", "z", "a z", "z"],
            &["a", "a b", "a", "a b", "b", "b"],
        ] {
            let mut loops = Loops::new();
            for names in history {
                assert_eq!(loops.see(names), *names, "{history:?}");
            }
        }
        let mut loops = Loops::new();
        loops.see("a");
        (0..10).for_each(|_| drop(loops.see("b")));
        assert_eq!(loops.see("a"), "a", "after more than ten minutes");
    }

    /// Pods of one deployment are separate objects that are merged too, but any of them will do.
    #[test]
    fn objects_that_ask_for_the_same_are_not_put_back() {
        let mut loops = Loops::new();
        for name in ["a", "b", "a", "b", "c", "a"] {
            let (seen, merges) = loops.see_all(vec![object(name, "http://web:80")]);
            assert_eq!((&*seen, merges), (name, vec![]));
        }
        // Their next generation is not held back either.
        for name in ["d", "e", "d"] {
            assert_eq!(loops.see_all(vec![object(name, "http://next:80")]).0, name);
        }
    }

    #[test]
    fn nothing_is_put_back_where_nothing_is_asked_for_any_more() {
        let mut loops = Loops::new();
        loops.see_in_turn(&["a", "b", "a", "b"]);
        assert_eq!(loops.see(""), "");
        assert_eq!(loops.see("b"), "b");
        assert!(loops.merged.places.is_empty());
    }

    /// Most of a cluster's hostnames stay as they are, and many are not ours.
    #[test]
    fn of_what_stands_where_it_stood_nothing_is_held() {
        let mut loops = Loops::new();
        for is_known in [false, true] {
            let mut shown = Shown::default();
            for kind in ["A", "AAAA"] {
                let endpoint = Endpoint { record_type: kind.to_owned(), ..object("a", "http://a:80") };
                assert_eq!(shown.note(&endpoint, &loops.merged), size_of::<(u64, u64)>(), "{is_known}");
            }
            assert!(shown.endpoints.is_empty());
            loops.merged.complete(shown, &settings(), loops.now);
        }
    }

    #[test]
    fn what_is_remembered_of_places_is_bounded_however_many_there_are() {
        let mut loops = Loops::new();
        let mut shown = Shown::default();
        for number in 0..3 * CASTS_MAX {
            let dns_name = format!("host-{number}.example.com");
            shown.note(&Endpoint { dns_name, ..object("a", "http://a:80") }, &loops.merged);
        }
        loops.merged.complete(shown, &settings(), loops.now);
        assert_eq!(loops.merged.casts.0.len(), CASTS_MAX);
    }

    /// What was put by for one place counts when another one asks for room.
    #[test]
    fn the_endpoints_of_all_places_share_the_room() {
        let mut loops = Loops::new();
        let large = |hostname: usize, name: &str| {
            let text = name.repeat(MERGED_MAX_BYTES / 9);
            let endpoint =
                Endpoint { dns_name: format!("h{hostname}.example.com"), ..object(name, "http://a:80") };
            Endpoint { provider_specific: vec![Property::new(TUNNEL_SERVICE, text)], ..endpoint }
        };
        for hostname in 0..12 {
            for name in ["a", "b"] {
                let shown = (0..=hostname).map(|hostname| large(hostname, name));
                loops.see_all(shown.collect());
            }
        }
        let kept: usize = loops.merged.places.values().map(Place::bytes).sum();
        assert!((MERGED_MAX_BYTES / 2..=MERGED_MAX_BYTES).contains(&kept), "{kept}");
    }

    #[test]
    fn the_memory_is_bounded_however_much_changes() {
        let mut loops = Loops::new();
        for round in 0..20 {
            let endpoints = (0..5_000).map(|number| Endpoint {
                dns_name: format!("host-{number}.example.com"),
                ..object(&format!("ingress/n/{round}"), &format!("http://{}:80", "x".repeat(200)))
            });
            loops.see_all(endpoints.collect());
            let MergedObjects { casts, places, .. } = &loops.merged;
            assert_eq!(casts.0.len(), 5_000);
            assert!(places.values().map(Place::bytes).sum::<usize>() <= MERGED_MAX_BYTES);
            assert!(places.len() < 5_000, "what has no room is not kept: {}", places.len());
        }
        for _ in 0..2 {
            loops.see("");
        }
        assert!(loops.merged.casts.0.is_empty() && loops.merged.places.is_empty());
    }

    #[test]
    fn a_year_of_other_objects_in_every_loop_leaves_those_of_the_last_minutes() {
        let (mut merged, settings) = (MergedObjects::default(), settings());
        for (number, now) in year::loops() {
            let mut shown = Shown::default();
            let own = Endpoint { dns_name: format!("h{number}.example.com"), ..object("a", "http://a:80") };
            for endpoint in [object(&number.to_string(), &format!("http://{number}:80")), own] {
                shown.note(&endpoint, &merged);
            }
            merged.complete(shown, &settings, now);
            let objects: usize = merged.places.values().map(|place| place.objects.len()).sum();
            assert!(merged.casts.0.len() == 2 && merged.places.len() <= 2 && objects <= 4, "{merged:?}");
        }
    }
}
