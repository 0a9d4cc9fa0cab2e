//! What was asked for, loop by loop, as far as it decides what visitors have to get.

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::{Access, Object};
use crate::settings::Settings;

/// The wildcard, which serves the names below it that have no rule of their own.
pub(crate) const WILDCARD: &str = "*.apps.example.org";

/// A hostname and a path.
pub(crate) type Slot = (&'static str, Option<&'static str>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    slots: BTreeMap<Slot, Claim>,
    hosts: BTreeMap<&'static str, History>,
    /// The services that an object without mistake asked for.
    asked: BTreeSet<String>,
    is_wildcard_changed: bool,
    was_wildcard_changed: bool,
    /// The objects that ask for each hostname.
    askers: BTreeMap<&'static str, BTreeSet<String>>,
    /// The hostnames that an object left since the last rest.
    handed_on: BTreeSet<&'static str>,
}

/// The object that alone asks for a slot, or did before others came.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    resource: String,
    /// The last one that was asked for without mistake.
    service: Option<String>,
    /// The object was served there, and has asked for it in every loop since, in the same tunnel.
    is_held: bool,
    tunnel: Option<&'static str>,
    /// The service that was seen at the last rest, and those that were asked for since: one of them serves. Empty where
    /// nothing is known.
    seen: BTreeSet<String>,
}

impl Claim {
    fn is_of(&self, object: &Object, service: &str) -> bool {
        self.resource == object.resource() && self.service.as_deref() == Some(service)
    }
}

/// What was ever asked for a hostname.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) namespaces: BTreeSet<&'static str>,
    pub(crate) tunnels: BTreeSet<Option<&'static str>>,
    pub(crate) was_protected: bool,
    /// Several objects asked for one of its paths.
    pub(crate) has_rivals: bool,
    paths: BTreeSet<Option<&'static str>>,
}

impl History {
    /// Whether several objects ask for one path, and the stamp names none of them, as it has other paths too.
    pub(crate) fn is_contested(&self) -> bool {
        self.has_rivals && self.paths.len() > 1
    }
}

impl Claims {
    /// Takes note of what a loop asks for.
    pub(crate) fn ask(&mut self, desired: &[Object]) {
        let mut slots: BTreeMap<Slot, Vec<(&Object, &str)>> = BTreeMap::new();
        for object in desired {
            let history = self.hosts.entry(object.host).or_default();
            for (path, service) in object.rules() {
                slots.entry((object.host, path)).or_default().push((object, service));
                history.paths.insert(path);
            }
            history.namespaces.insert(object.namespace);
            history.tunnels.insert(object.tunnel);
            history.was_protected |= object.is_secret();
            if object.is_sound() {
                self.asked.extend(object.rules().map(|(_, service)| service.to_owned()));
            }
        }
        let mut askers: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
        for object in desired {
            askers.entry(object.host).or_default().insert(object.resource());
        }
        let is_left = |(host, before): &(&&'static str, &BTreeSet<String>)| {
            !askers.get(**host).is_some_and(|now| before.is_subset(now))
        };
        self.handed_on.extend(self.askers.iter().filter(is_left).map(|(host, _)| *host));
        self.askers = askers;
        for ((host, _), objects) in &slots {
            self.hosts.entry(host).or_default().has_rivals |= objects.len() > 1;
        }
        let before = std::mem::take(&mut self.slots);
        let holders = slots.into_iter().filter_map(|(slot, objects)| {
            let (object, service) = holder(&objects, before.get(&slot))?;
            Some((slot, claim(&before, slot, object, service)))
        });
        self.slots = holders.collect();
        let of_wildcard = |slots: &BTreeMap<Slot, Claim>| -> Vec<(Slot, Claim)> {
            let all = slots.iter().filter(|((host, _), _)| *host == WILDCARD);
            all.map(|(slot, claim)| (*slot, claim.clone())).collect()
        };
        self.is_wildcard_changed = of_wildcard(&before) != of_wildcard(&self.slots);
        self.was_wildcard_changed |= self.is_wildcard_changed;
    }

    /// Another ExternalDNS of the owner did not show what holds the hostname, and its program may have given it to
    /// another object.
    pub(crate) fn let_go(&mut self, host: &str) {
        self.slots.retain(|(of, _), _| *of != host);
    }

    /// Takes note of an object that ExternalDNS does not show, and may show again.
    pub(crate) fn note_rival(&mut self, host: &'static str) {
        self.hosts.entry(host).or_default().has_rivals = true;
    }

    /// Whether the last loop asked for something else at the wildcard than the one before.
    pub(crate) fn is_wildcard_changed(&self) -> bool {
        self.is_wildcard_changed
    }

    /// Whether one did since the last rest.
    pub(crate) fn was_wildcard_changed(&self) -> bool {
        self.was_wildcard_changed
    }

    /// What each slot is to be served by, where one object alone asks for it, or asked for it before others did.
    pub(crate) fn expected(&self) -> impl Iterator<Item = (Slot, &str)> {
        self.slots.iter().filter_map(|(slot, claim)| Some((*slot, claim.service.as_deref()?)))
    }

    /// Whether an object that asked for the hostname left it since the last rest. Others that ask for it may wait or be
    /// refused, and until then nothing of ours is there.
    pub(crate) fn is_handed_on(&self, host: &str) -> bool {
        self.handed_on.contains(host)
    }

    pub(crate) fn was_asked(&self, service: &str) -> bool {
        self.asked.contains(service)
    }

    pub(crate) fn history(&self, host: &str) -> History {
        let mut history = self.hosts.get(host).cloned().unwrap_or_default();
        // An application for a wildcard protects the names below it.
        let wildcard = self.hosts.get(WILDCARD).filter(|_| host.ends_with(&WILDCARD[1..]));
        history.was_protected |= wildcard.is_some_and(|wildcard| wildcard.was_protected);
        history
    }

    /// Whether a hostname was ever asked for in the tunnel.
    pub(crate) fn was_in(&self, host: &str, tunnel: &str, settings: &Settings) -> bool {
        let tunnels = self.history(host).tunnels;
        tunnels.iter().any(|named| named.unwrap_or(settings.default_tunnel()) == tunnel)
    }

    /// Takes note that the object is served as it asks for.
    pub(crate) fn hold(&mut self, object: &Object) {
        for (path, service) in object.rules() {
            let claim = self.slots.get_mut(&(object.host, path));
            if let Some(claim) = claim.filter(|claim| claim.is_of(object, service)) {
                claim.is_held = true;
                claim.seen = BTreeSet::from([service.to_owned()]);
            }
        }
    }

    /// The world has come to rest, and what serves the object was not looked at.
    pub(crate) fn lose_sight(&mut self, object: &Object) {
        for (path, _) in object.rules() {
            if let Some(claim) = self.slots.get_mut(&(object.host, path)) {
                claim.is_held = false;
                claim.seen.clear();
            }
        }
    }

    /// The services one of which serves what the object asks for at the path, as far as that is known.
    pub(crate) fn seen(&self, object: &Object, path: Option<&'static str>) -> BTreeSet<String> {
        let claim = self.slots.get(&(object.host, path)).filter(|claim| claim.resource == object.resource());
        claim.map(|claim| claim.seen.clone()).unwrap_or_default()
    }

    /// Whether the object was served at all of its places, and has asked for them ever since.
    pub(crate) fn holds(&self, object: &Object) -> bool {
        object.rules().all(|(path, service)| {
            let claim = self.slots.get(&(object.host, path));
            claim.is_some_and(|claim| claim.is_held && claim.is_of(object, service))
        })
    }

    /// Forgets hostnames that no object asks for any more, with all that was ever asked for there.
    pub(crate) fn forget_gone(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.hosts.retain(|host, _| !is_gone(host));
    }

    /// What was asked for at the wildcard has come about.
    pub(crate) fn settle_wildcard(&mut self) {
        self.was_wildcard_changed = false;
        self.handed_on.clear();
    }
}

/// The object that has a slot: the only one that asks for it, or the one that had it, whichever other namespaces ask
/// for it too.
fn holder<'a>(objects: &[(&'a Object, &'a str)], before: Option<&Claim>) -> Option<(&'a Object, &'a str)> {
    if let [alone] = objects {
        return Some(*alone);
    }
    let had = before?;
    let (object, service) = objects.iter().find(|(object, _)| object.resource() == had.resource)?;
    let is_alone = objects.iter().filter(|(other, _)| other.namespace == object.namespace).count() == 1;
    (is_alone && object.is_sound()).then_some((*object, *service))
}

fn claim(slots: &BTreeMap<Slot, Claim>, slot: Slot, object: &Object, service: &str) -> Claim {
    let resource = object.resource();
    let before = slots.get(&slot).filter(|before| before.resource == resource);
    let is_held = before.is_some_and(|before| before.is_held);
    let tunnel = object.tunnel;
    let mut seen = before.map(|before| before.seen.clone()).unwrap_or_default();
    if object.is_sound() {
        if !seen.is_empty() {
            seen.insert(service.to_owned());
        }
        let is_held = is_held && before.is_some_and(|before| before.tunnel == tunnel);
        return Claim { resource, service: Some(service.to_owned()), is_held, tunnel, seen };
    }
    // What is published stays.
    let tunnel = before.map_or(tunnel, |before| before.tunnel);
    Claim { service: before.and_then(|before| before.service.clone()), is_held, tunnel, seen, resource }
}

/// Whether the object says of Access what was said of its hostname before, or more.
pub(crate) fn is_said(object: &Object, history: &History) -> bool {
    !history.was_protected || matches!(object.access, Access::Policies(_))
}
