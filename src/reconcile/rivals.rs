//! Decides between several objects that ask for one hostname and path, of which ExternalDNS can take only one, and
//! names the others.
//!
//! What stands has precedence: an object keeps what it has while it asks for it, whoever else comes. That holds even if
//! it has a mistake, which `plan` refuses. Only a free place goes to the first object by name.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::limits;
use crate::model::Hostname;
use crate::model::endpoint::{Endpoint, Property};
use crate::ordered::inserted;
use crate::reconcile::access_wish::{ACCESS_POLICY, ACCESS_PREFIX, OPEN};
use crate::reconcile::canonical::{INVALID, RECORD_ONLY, RESOURCE_LABEL, TUNNEL_SERVICE};
use crate::reconcile::claim_state::claim_states;
use crate::reconcile::snapshot::{OwnRecord, OwnRules, Snapshot};
use crate::reconcile::stamp::Stamp;
use crate::reconcile::{Note, Settings, adjust, namespace, records};

const WAY_OUT: &str =
    "give each a set-identifier annotation and a path, or take the hostname off all but one of them";

/// One text for thousands of endpoints, and none that their object chooses.
const WAITS: &str = "it waits for another rule of its object for this hostname, which is invalid";

/// The holders of places that several objects asked for at once, and of hostnames with several paths, whose stamp names
/// no object. Sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders(Vec<Holder>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Holder {
    hostname: Box<str>,
    set_identifier: Box<str>,
    resource: Box<str>,
}

/// Objects of one name and set identifier that ExternalDNS merges: it shows one of them at a time, at random.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Merge {
    /// The hostname, in normal form.
    pub hostname: Box<str>,
    pub resources: Vec<Box<str>>,
}

/// The knowledge about present holders.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The last snapshot.
    pub snapshot: &'a Snapshot,
    /// The result of the last call.
    pub holders: &'a Holders,
    /// The objects that are shown in turns, sorted.
    pub merges: &'a [Merge],
}

/// Leaves one endpoint per name and set identifier in `endpoints`, which are canonical and sorted like those of
/// `adjust`. Once there are more than `NOTES_MAX` notes, no further place adds any, so the caller sees that there are more;
/// notes about merges follow, `NOTES_MAX` at most.
pub fn settle(endpoints: &mut Vec<Endpoint>, known: Known<'_>, settings: &Settings) -> (Holders, Vec<Note>) {
    let mut holders = Holders::default();
    let mut notes = Vec::new();
    let mut is_kept = Vec::new();
    let mut end = 0_usize;
    for candidates in endpoints.chunk_by(is_one_place) {
        let before = end.checked_sub(1).and_then(|last| endpoints.get(last));
        end += candidates.len();
        let [first, _, ..] = candidates else {
            is_kept.push(true);
            let is_beside = |only: &&Endpoint| {
                [before, endpoints.get(end)]
                    .into_iter()
                    .flatten()
                    .any(|other| other.dns_name == only.dns_name)
            };
            holders.0.extend(candidates.first().filter(is_beside).map(Holder::of));
            continue;
        };
        let holder = Place { of: first, known, settings }.holder(candidates);
        is_kept.extend(candidates.iter().map(|candidate| std::ptr::eq(candidate, holder)));
        holders.0.push(Holder::of(holder));
        if notes.len() > limits::NOTES_MAX {
            // Nobody reads more of them, and they would take more memory than the endpoints.
            continue;
        }
        let is_merged = known.is_merged(holder);
        let mut losers = candidates.iter().filter(|candidate| !asks_alike(candidate, holder));
        let named = losers.by_ref().take(limits::NAMES_SHOWN_MAX);
        notes.extend(named.map(|loser| lost(loser, holder, is_merged)));
        notes.extend(unnamed(holder, losers.count()));
    }
    hold_together(endpoints);
    let mut is_kept = is_kept.into_iter();
    endpoints.retain(|_| is_kept.next().unwrap_or(true));
    // Their paths differ; with one path, the note about their place would name them.
    let is_told = |merge: &&Merge| notes.binary_search_by(|note| note.hostname.cmp(&merge.hostname)).is_ok();
    let untold = known.merges.iter().filter(|merge| !is_told(merge)).take(limits::NOTES_MAX);
    let merged: Vec<Note> = untold.map(merged).collect();
    notes.extend(merged);
    (holders, notes)
}

/// Makes all of an object's endpoints for a hostname invalid if it is wrong in one place, because another one's rule would
/// take that place's requests. Only here are all of them seen: ExternalDNS may ask for one alone, and another object may
/// have the place of one. Before, each shows what it asks for, by which its holder is known.
pub fn hold_together(endpoints: &mut [Endpoint]) {
    let is_one_wish = |one: &Endpoint, other: &Endpoint| {
        one.set_identifier == other.set_identifier && resource_of(one) == resource_of(other)
    };
    for on_host in endpoints.chunk_by_mut(|one, other| one.dns_name == other.dns_name) {
        // What an object asks for twice, and once without a mistake, gets its requests.
        let invalid = on_host.chunk_by(is_one_wish).filter(|wish| wish.iter().all(is_mistaken));
        let invalid: BTreeSet<Box<str>> =
            inserted(invalid.filter_map(|wish| wish.first()).map(|one| resource_of(one).into()));
        for endpoint in on_host {
            // Whose an endpoint without a name is, nobody knows.
            let resource = resource_of(endpoint);
            if !resource.is_empty() && invalid.contains(resource) && !is_mistaken(endpoint) {
                endpoint.provider_specific = vec![Property::new(INVALID, WAITS)];
            }
        }
    }
}

/// True if two objects ask for the same publications.
pub fn ask_alike(one: &[Endpoint], other: &[Endpoint], settings: &Settings) -> bool {
    let [one, other] = [one, other].map(|endpoints| adjust::adjust(endpoints, settings).endpoints);
    one.len() == other.len()
        && one.iter().zip(&other).all(|(one, other)| is_one_place(one, other) && asks_alike(one, other))
}

fn is_one_place(one: &Endpoint, other: &Endpoint) -> bool {
    one.dns_name == other.dns_name && one.set_identifier == other.set_identifier
}

fn asks_alike(one: &Endpoint, other: &Endpoint) -> bool {
    one.targets == other.targets && one.provider_specific == other.provider_specific
}

/// True if the endpoint asks for what stands, as far as `shows` goes. Both are sorted.
fn asks_for(candidate: &Endpoint, standing: &[Property], shows: fn(&Property) -> bool) -> bool {
    let [asked, standing] = [&*candidate.provider_specific, standing]
        .map(|properties| properties.iter().filter(|property| shows(property)));
    asked.eq(standing)
}

/// The word that opens does not show where nothing is protected.
fn shows_where_open(property: &Property) -> bool {
    *property.name != *ACCESS_POLICY || *property.value != *OPEN
}

/// Policies do not show until Access is read, which is after somebody asked for them.
fn shows_without_access(property: &Property) -> bool {
    !property.name.starts_with(ACCESS_PREFIX)
}

/// Who changes something else while nobody looks still asks for the service that stands.
fn shows_where_it_leads(property: &Property) -> bool {
    *property.name == *TUNNEL_SERVICE
}

/// The endpoint's object; empty if it is unknown.
pub fn resource_of(endpoint: &Endpoint) -> &str {
    endpoint.labels.value(RESOURCE_LABEL).unwrap_or_default()
}

impl Known<'_> {
    fn is_merged(&self, endpoint: &Endpoint) -> bool {
        self.merges.binary_search_by(|merge| (*merge.hostname).cmp(&endpoint.dns_name)).is_ok()
    }
}

/// A hostname and path with several candidates.
struct Place<'a> {
    /// One of its candidates.
    of: &'a Endpoint,
    known: Known<'a>,
    settings: &'a Settings,
}

impl<'a> Place<'a> {
    fn holder(&self, candidates: &'a [Endpoint]) -> &'a Endpoint {
        let Self { of, known, settings } = self;
        let mut left: Vec<&Endpoint> = candidates.iter().collect();
        let stamp = self.stamp();
        if settings.policy.namespace_guard.is_some() {
            let holder = stamp.as_ref().and_then(namespace::holder);
            prefer(&mut left, |candidate| {
                holder.is_some() && namespace::digest_of(resource_of(candidate)) == holder
            });
        }
        let before = known.holders.resource(of);
        prefer(&mut left, |candidate| Some(resource_of(candidate)) == before);
        // The stamp of objects shown in turns names the one that happened to come last.
        if !known.is_merged(of) {
            let stamped = stamp.as_ref().and_then(|stamp| stamp.resource.as_deref());
            prefer(&mut left, |candidate| Some(resource_of(candidate)) == stamped);
            // Of a single one nobody asks, and it takes long to read.
            let standing = LazyCell::new(|| self.standing());
            for shows in [shows_where_open, shows_without_access, shows_where_it_leads] {
                prefer(&mut left, |candidate| {
                    standing.as_ref().is_some_and(|standing| asks_for(candidate, standing, shows))
                });
            }
            // Where nobody asks for what stands, one with a mistake leaves it as it is.
            prefer(&mut left, |candidate| is_mistaken(candidate) && standing.is_some());
        }
        prefer(&mut left, |candidate| !is_mistaken(candidate));
        left.first().copied().unwrap_or(of)
    }

    /// The stamp in the record's comment, ours before a foreign one.
    fn stamp(&self) -> Option<Stamp> {
        let Self { of, known: Known { snapshot, .. }, settings } = self;
        let own = snapshot.own_records_of(&of.dns_name, settings).into_iter().next();
        own.map(|own| own.stamp).or_else(|| {
            let records = snapshot.zone_of(&of.dns_name)?.records_of(&of.dns_name);
            records.iter().find_map(Stamp::of)
        })
    }

    /// The properties of our present rule, as `records` shows them.
    fn standing(&self) -> Option<Vec<Property>> {
        let Self { of, known: Known { snapshot, .. }, settings } = self;
        let path = Some(of.set_identifier.as_str()).filter(|path| !path.is_empty());
        let hostname = Hostname::parse(&of.dns_name).ok()?;
        let own = snapshot.own_records_of(&of.dns_name, settings);
        let OwnRecord { zone: _, record, stamp } = own.first()?;
        if path.is_none() && stamp.claims.record_only {
            return Some(vec![Property::new(TUNNEL_SERVICE, RECORD_ONLY)]);
        }
        let states = claim_states(snapshot, settings, &hostname, &record.content, &stamp.claims.rules, &[]);
        let rule = states.iter().filter_map(|(_, state)| state.rule()).find(|rule| rule.path() == path)?;
        // Whose the rule is, is known already.
        let own = OwnRules::default();
        let (mut properties, _) = records::properties_of_standing(rule, &hostname, snapshot, settings, &own);
        properties.sort_unstable();
        Some(properties)
    }
}

/// True if a mistake keeps the endpoint from being published, at a free place too.
fn is_mistaken(endpoint: &Endpoint) -> bool {
    endpoint.property(INVALID).is_some()
}

impl Holder {
    fn of(endpoint: &Endpoint) -> Self {
        Self {
            hostname: endpoint.dns_name.as_str().into(),
            set_identifier: endpoint.set_identifier.as_str().into(),
            resource: resource_of(endpoint).into(),
        }
    }
}

impl Holders {
    fn resource(&self, endpoint: &Endpoint) -> Option<&str> {
        let place = (endpoint.dns_name.as_str(), endpoint.set_identifier.as_str());
        let index = self
            .0
            .binary_search_by(|holder| (&*holder.hostname, &*holder.set_identifier).cmp(&place))
            .ok()?;
        self.0.get(index).map(|holder| &*holder.resource)
    }
}

/// Keeps only the preferred candidates, if there are any.
fn prefer(candidates: &mut Vec<&Endpoint>, is_preferred: impl Fn(&Endpoint) -> bool) {
    // To ask about a single one may take long.
    if candidates.len() > 1 && candidates.iter().any(|candidate| is_preferred(candidate)) {
        candidates.retain(|candidate| is_preferred(candidate));
    }
}

fn lost(loser: &Endpoint, holder: &Endpoint, is_merged: bool) -> Note {
    let holder = match resource_of(holder) {
        holder if holder == resource_of(loser) => "another endpoint of the same object",
        holder => named(holder),
    };
    let merged =
        if is_merged { "; ExternalDNS merges the objects and shows one of them at a time" } else { "" };
    let path = &loser.set_identifier;
    let text =
        format!("path={path:?} is not published: {holder} has this hostname and path{merged}; {WAY_OUT}");
    Note::of(loser, text)
}

fn unnamed(holder: &Endpoint, losers: usize) -> Option<Note> {
    let text = format!("path={:?} is asked for by {losers} more objects, in vain", holder.set_identifier);
    (losers > 0).then(|| Note::of(holder, text))
}

fn merged(merge: &Merge) -> Note {
    Note {
        hostname: merge.hostname.clone(),
        resource: None,
        text: format!(
            "{} have no set-identifier of their own, so ExternalDNS merges them and shows one of them at a time: each \
             counts for {} minutes after it was shown last; {WAY_OUT}",
            list(merge.resources.iter().map(|resource| &**resource)),
            limits::MERGED_HELD.as_secs() / 60,
        ),
    }
}

fn named(resource: &str) -> &str {
    if resource.is_empty() { "an object without a name" } else { resource }
}

fn list<'a>(resources: impl Iterator<Item = &'a str> + Clone) -> String {
    let mut text = String::new();
    for (index, resource) in resources.clone().take(limits::NAMES_SHOWN_MAX).enumerate() {
        let _ = write!(text, "{}{}", if index > 0 { ", " } else { "" }, named(resource));
    }
    let more = resources.skip(limits::NAMES_SHOWN_MAX).count();
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::settings;
    use crate::model::endpoint::Labels;
    use crate::reconcile::canonical::TUNNEL_PATH;

    fn object(resource: &str, hostname: &str, path: &str, service: &str) -> Endpoint {
        let path = (!path.is_empty()).then(|| Property::new(TUNNEL_PATH, path));
        Endpoint {
            dns_name: hostname.to_owned(),
            record_type: "A".to_owned(),
            targets: vec!["192.0.2.1".to_owned()],
            labels: Labels::from_iter([(RESOURCE_LABEL, resource)]),
            provider_specific: path.into_iter().chain([Property::new(TUNNEL_SERVICE, service)]).collect(),
            ..Endpoint::default()
        }
    }

    fn settled(
        desired: &[Endpoint],
        holders: &Holders,
        merges: &[Merge],
    ) -> (Vec<Endpoint>, Holders, Vec<Note>) {
        let mut endpoints = adjust::adjust(desired, &settings()).endpoints;
        let known = Known { snapshot: &Snapshot::default(), holders, merges };
        let (holders, notes) = settle(&mut endpoints, known, &settings());
        (endpoints, holders, notes)
    }

    fn resources(endpoints: &[Endpoint]) -> Vec<&str> {
        endpoints.iter().map(resource_of).collect()
    }

    #[test]
    fn what_nobody_has_goes_to_the_first_by_name_that_can_be_published() {
        let nobody = Holders::default();
        for (services, winner) in [
            (["http://a:80", "http://b:80"], "ingress/n/a"),
            (["http://a:80/mistake", "http://b:80"], "ingress/n/b"),
            (["http://a:80/mistake", "http://b:80/mistake"], "ingress/n/a"),
        ] {
            let desired = [
                object("ingress/n/a", "a.example.com", "", services[0]),
                object("ingress/n/b", "a.example.com", "", services[1]),
            ];
            let (endpoints, _, notes) = settled(&desired, &nobody, &[]);
            assert_eq!((resources(&endpoints), notes.len()), (vec![winner], 1), "{services:?}");
        }
    }

    /// Its next wish need not match what stands, and the stamp may have no room for its name.
    #[test]
    fn who_won_before_wins_while_it_asks_also_with_a_mistake() {
        let [a, b] = ["ingress/n/a", "ingress/n/b"]
            .map(|resource| move |service: &str| object(resource, "a.example.com", "", service));
        let (_, holders, _) =
            settled(&[a("http://a:80/mistake"), b("http://b:80")], &Holders::default(), &[]);
        for service in ["http://b:81", "http://b:80/mistake"] {
            let (endpoints, again, _) = settled(&[a("http://a:80"), b(service)], &holders, &[]);
            assert_eq!(resources(&endpoints), ["ingress/n/b"], "{service}");
            assert_eq!(again, holders);
        }
        let (_, holders, _) = settled(&[a("http://a:80")], &holders, &[]);
        assert_eq!(holders, Holders::default(), "one that is alone needs no memory");
    }

    /// The stamp of several rules names no object, and that of one does.
    #[test]
    fn who_has_one_of_several_paths_is_remembered_though_nobody_else_asks_for_it() {
        let a = |hostname: &str, path: &str| object("ingress/n/a", hostname, path, "http://a:80");
        let b = |hostname: &str, path: &str| object("ingress/n/b", hostname, path, "http://b:80");
        let asked = [b("a.example.com", ""), b("a.example.com", "^/x"), b("b.example.com", "")];
        let (_, holders, _) = settled(&asked, &Holders::default(), &[]);
        for (hostname, path, winner) in [
            ("a.example.com", "", "ingress/n/b"),
            ("a.example.com", "^/x", "ingress/n/b"),
            ("b.example.com", "", "ingress/n/a"),
        ] {
            let (endpoints, _, _) = settled(&[a(hostname, path), b(hostname, path)], &holders, &[]);
            assert_eq!(resources(&endpoints), [winner], "{hostname} {path}");
        }
    }

    #[test]
    fn every_loser_is_named_with_the_winner_and_one_that_asks_for_the_same_is_none() {
        let at = |path: &str| {
            ["a", "b", "c", "d"].map(|name| {
                let service = if name == "d" { "http://a:80" } else { &*format!("http://{name}:80") };
                object(&format!("ingress/n/{name}"), "a.example.com", path, service)
            })
        };
        let (endpoints, _, notes) = settled(&[at(""), at("^/x")].concat(), &Holders::default(), &[]);
        assert_eq!(resources(&endpoints), ["ingress/n/a", "ingress/n/a"]);
        let said: Vec<String> = notes.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 4, "{said:#?}");
        for (line, start) in said.iter().zip([
            r#"hostname="a.example.com" resource="ingress/n/b" path="" is not published: ingress/n/a has"#,
            r#"hostname="a.example.com" resource="ingress/n/c" path="" is"#,
            r#"hostname="a.example.com" resource="ingress/n/b" path="^/x" is"#,
            r#"hostname="a.example.com" resource="ingress/n/c" path="^/x" is"#,
        ]) {
            assert!(line.starts_with(start), "{line}");
            assert!(line.contains("set-identifier annotation and a path"), "{line}");
        }
    }

    #[test]
    fn what_nobody_has_goes_to_the_first_whose_namespace_may_publish_it() {
        let mut settings = settings();
        let guard = namespace::NamespaceGuard { cluster_domain: "cluster.local".into() };
        settings.policy.namespace_guard = Some(guard);
        let desired = ["ingress/n/a", "ingress/shop/b"]
            .map(|resource| object(resource, "a.example.com", "^/x", "http://web.shop.svc:80"));
        let mut endpoints = adjust::adjust(&desired, &settings).endpoints;
        let holders = Holders::default();
        settle(
            &mut endpoints,
            Known { snapshot: &Snapshot::default(), holders: &holders, merges: &[] },
            &settings,
        );
        assert_eq!(resources(&endpoints), ["ingress/shop/b"]);
    }

    /// Its rule for the whole hostname would get the requests of the path, whoever has that, and whichever of the two
    /// ExternalDNS asks for.
    #[test]
    fn what_has_a_mistake_at_one_path_waits_with_its_other_paths() {
        let guard = namespace::NamespaceGuard { cluster_domain: "cluster.local".into() };
        for (guard, mistake) in [(None, "htp://web.shop.svc:80"), (Some(guard), "http://web.bank.svc:80")] {
            let mut settings = settings();
            settings.policy.namespace_guard = guard;
            let (shop, bank) = ("http://web.shop.svc:80", "http://web.bank.svc:80");
            let (a, b, c) = ("ingress/shop/a", "ingress/bank/b", "ingress/shop/c");
            let desired = [
                object(a, "a.example.com", "", shop),
                object(a, "a.example.com", "^/admin", mistake),
                object(b, "a.example.com", "^/admin", bank),
                object(c, "a.example.com", "^/c", shop),
                object(a, "b.example.com", "", shop),
                // The path's requests stay its own.
                object(a, "c.example.com", "^/admin", shop),
                object(a, "c.example.com", "^/admin", mistake),
                object(a, "d.example.com", "^/x", mistake),
                object(a, "d.example.com", "^/y", mistake),
                object(a, "d.example.com", "^/y", shop),
            ];
            let mut endpoints = adjust::adjust(&desired, &settings).endpoints;
            let mut all = endpoints.clone();
            let known = Known { snapshot: &Snapshot::default(), holders: &Holders::default(), merges: &[] };
            settle(&mut endpoints, known, &settings);
            let said = |endpoints: &[Endpoint]| -> Vec<(String, &str, String, Option<bool>)> {
                let one = |one: &Endpoint| {
                    let resource = [a, b, c].into_iter().find(|name| *name == resource_of(one));
                    let waits = one.property(INVALID).map(|problem| problem == WAITS);
                    (one.dns_name.clone(), resource.unwrap_or_default(), one.set_identifier.clone(), waits)
                };
                endpoints.iter().map(one).collect()
            };
            let at =
                |host: &str, resource, path: &str, waits| (host.to_owned(), resource, path.to_owned(), waits);
            let expected = [
                at("a.example.com", a, "", Some(true)),
                at("a.example.com", b, "^/admin", None),
                at("a.example.com", c, "^/c", None),
                at("b.example.com", a, "", None),
                at("c.example.com", a, "^/admin", None),
                at("d.example.com", a, "^/x", Some(false)),
                at("d.example.com", a, "^/y", Some(true)),
            ];
            assert_eq!(said(&endpoints), expected);
            // Before anything was read, nobody knows who has a path.
            hold_together(&mut all);
            assert!(said(&all).contains(&at("a.example.com", a, "", Some(true))), "{all:?}");
        }
    }

    #[test]
    fn what_stands_is_asked_for_also_with_the_word_that_opens() {
        let service = Property::new(TUNNEL_SERVICE, "http://a:80");
        let word = |value: &str| Property::new(ACCESS_POLICY, value);
        let standing = [service.clone()];
        for (label, wish, expected) in [
            ("the same", vec![service.clone()], [true, true, true]),
            ("open", vec![word(OPEN), service.clone()], [true, true, true]),
            ("protected", vec![word("staff"), service.clone()], [false, true, true]),
            ("another service", vec![Property::new(TUNNEL_SERVICE, "http://b:80")], [false, false, false]),
            ("the word elsewhere", vec![service, Property::new(TUNNEL_PATH, OPEN)], [false, false, true]),
        ] {
            let wish = Endpoint { provider_specific: wish, ..Endpoint::default() };
            let asks = [shows_where_open, shows_without_access, shows_where_it_leads]
                .map(|shows| asks_for(&wish, &standing, shows));
            assert_eq!(asks, expected, "{label}");
        }
    }

    #[test]
    fn an_object_that_asks_twice_for_one_place_is_its_own_rival() {
        let twice =
            ["http://a:80", "http://b:80"].map(|service| object("ingress/n/a", "a.example.com", "", service));
        let (endpoints, _, notes) = settled(&twice, &Holders::default(), &[]);
        let [note] = &notes[..] else { panic!("one of {notes:?}") };
        assert_eq!(endpoints.len(), 1);
        assert!(note.text.contains("not published: another endpoint of the same object has"), "{note}");
    }

    #[test]
    fn of_many_losers_some_are_named_and_the_others_counted() {
        let objects = (0..20).map(|number| {
            object(
                &format!("ingress/n/{number}"),
                "a.example.com",
                "",
                &format!("http://web:{}", 80 + number),
            )
        });
        let (_, _, notes) = settled(&objects.collect::<Vec<_>>(), &Holders::default(), &[]);
        assert_eq!(notes.len(), limits::NAMES_SHOWN_MAX + 1);
        assert!(notes[limits::NAMES_SHOWN_MAX].text.contains("11 more objects"), "{notes:#?}");
    }

    #[test]
    fn the_notes_end_one_beyond_the_limit_so_that_the_caller_sees_there_are_more() {
        let objects = |places: usize| -> Vec<Endpoint> {
            let pair = |place: usize| {
                ["a", "b"].map(|name| {
                    let hostname = format!("{place:04}.example.com");
                    object(&format!("ingress/n/{name}"), &hostname, "", &format!("http://{name}:80"))
                })
            };
            (0..places).flat_map(pair).collect()
        };
        for (places, named) in [
            (limits::NOTES_MAX, limits::NOTES_MAX),
            (limits::NOTES_MAX + 1, limits::NOTES_MAX + 1),
            (limits::NOTES_MAX + 9, limits::NOTES_MAX + 1),
        ] {
            let (endpoints, _, notes) = settled(&objects(places), &Holders::default(), &[]);
            assert_eq!((endpoints.len(), notes.len()), (places, named));
        }
    }

    #[test]
    fn objects_ask_alike_if_they_ask_for_the_same_services_at_the_same_places() {
        let a = |path: &str, service: &str| object("ingress/n/a", "a.example.com", path, service);
        let b = |path: &str, service: &str| object("ingress/n/b", "a.example.com", path, service);
        let elsewhere = object("ingress/n/b", "b.example.com", "", "http://a:80");
        let here = [a("", "http://a:80"), a("^/x", "http://x:80")];
        for (label, other, expected) in [
            ("the same", vec![b("", "http://a:80"), b("^/x", "http://x:80")], true),
            ("in another order", vec![b("^/x", "http://x:80"), b("", "http://a:80")], true),
            ("fewer", vec![b("", "http://a:80")], false),
            ("another service", vec![b("", "http://a:80"), b("^/x", "http://y:80")], false),
            ("another path", vec![b("", "http://a:80"), b("^/y", "http://x:80")], false),
            ("another hostname", vec![elsewhere, b("^/x", "http://x:80")], false),
        ] {
            assert_eq!(ask_alike(&here, &other, &settings()), expected, "{label}");
            assert_eq!(ask_alike(&other, &here, &settings()), expected, "{label}");
        }
    }

    #[test]
    fn what_is_merged_is_named_also_where_nobody_loses() {
        let merge = |hostname: &str| Merge {
            hostname: hostname.into(),
            resources: (0..10).map(|number| format!("ingress/n/{number}").into()).collect(),
        };
        let desired = [
            object("ingress/n/0", "a.example.com", "", "http://a:80"),
            object("ingress/n/1", "a.example.com", "", "http://b:80"),
            object("ingress/n/0", "b.example.com", "^/a", "http://a:80"),
            object("ingress/n/1", "b.example.com", "^/b", "http://b:80"),
        ];
        let merges = [merge("a.example.com"), merge("b.example.com")];
        let (endpoints, _, notes) = settled(&desired, &Holders::default(), &merges);
        assert_eq!(endpoints.len(), 3);
        let [lost, merged] = &notes[..] else { panic!("two of {notes:?}") };
        assert!(lost.text.contains("ExternalDNS merges"), "{lost}");
        assert_eq!(&*merged.hostname, "b.example.com");
        assert!(merged.text.contains("ingress/n/7 and 2 more"), "{merged}");
    }

    #[test]
    fn a_list_of_objects_names_also_one_without_a_name() {
        assert_eq!(list(["a", "", "c"].into_iter()), "a, an object without a name, c");
    }

    fn any_object() -> impl Strategy<Value = Endpoint> {
        let word = |words: &'static [&'static str]| prop::sample::select(words);
        (
            word(&["ingress/n/a", "ingress/n/b", "crd/m/a", ""]),
            word(&["a.example.com", "b.example.com"]),
            word(&["", "^/x", "api"]),
            word(&["http://a:80", "http://b:80", "none", "b:80", ""]),
        )
            .prop_map(|(resource, hostname, path, service)| object(resource, hostname, path, service))
    }

    proptest! {
        /// ExternalDNS takes a missing row for a deleted one.
        #[test]
        fn every_place_that_is_asked_for_keeps_one_endpoint_and_the_same_in_every_loop(
            desired in prop::collection::vec(any_object(), 0..12),
        ) {
            let places = |endpoints: &[Endpoint]| {
                let pairs = endpoints.iter();
                pairs.map(|one| (one.dns_name.clone(), one.set_identifier.clone())).collect::<Vec<_>>()
            };
            let all: BTreeSet<_> = places(&adjust::adjust(&desired, &settings()).endpoints).into_iter().collect();
            let (endpoints, holders, notes) = settled(&desired, &Holders::default(), &[]);
            prop_assert_eq!(places(&endpoints), all.into_iter().collect::<Vec<_>>());
            let again = settled(&desired, &holders, &[]);
            prop_assert_eq!(again, (endpoints.clone(), holders, notes));
            prop_assert_eq!(settled(&endpoints, &Holders::default(), &[]).0, endpoints);
        }
    }
}
