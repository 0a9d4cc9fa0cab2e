//! Chooses one of several endpoints of the same hostname and path, because ExternalDNS can use only one, and reports
//! the others.
//!
//! An object retains its published path while it asks for that path, even with a mistake, which `plan` refuses. The
//! stamp or the published rule identifies that object. If neither identifies it, an object that asks for a login is
//! preferred; then, for a published rule, an invalid endpoint, so that the rule stays; for a free path, a valid one,
//! then one that names its service itself. Among equals, the first object by name wins. With the namespace guard, the
//! namespace is chosen first, as `plan` chooses it, over all paths of the hostname.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use crate::collections::collect;
use crate::limits;
use crate::model::Hostname;
use crate::model::endpoint::{Endpoint, Property};
use crate::model::text::rule_at;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::shown;
use crate::reconcile::access::wanted::OPEN;
use crate::reconcile::canonical::{Candidate, RECORD_ONLY, is_invalid, path_of, resource_of};
use crate::reconcile::property_name::{ACCESS_POLICY, TUNNEL_SERVICE};
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::stamp::NamespaceCode;
use crate::reconcile::{Note, NoteKind, namespace, wildcard};

const STRANGER_REMEDY: &str = "NAMESPACE_GUARD gives a hostname to one namespace: remove it from this object";

const WINNER_REMEDY: &str = "give each object a set-identifier annotation and a path of its own, or remove \
     the hostname from all objects but one";

/// Chooses one candidate of each path, and leaves out the others. `on_host` are the candidates of one hostname, sorted
/// like those of `adjust`. Returns notes on the losers, and on rules that remain although their namespace no longer
/// asks for them. `noted` is the number of notes so far: once there are more than `NOTES_MAX`, the other paths get
/// none.
pub(super) fn choose(on_host: &mut [Candidate], snapshot: &Snapshot, noted: usize) -> Vec<Note> {
    let mut notes = Vec::new();
    let entitled = entitled_among(on_host, snapshot);
    for candidates in
        on_host.chunk_by_mut(|one, other| one.endpoint.set_identifier == other.endpoint.set_identifier)
    {
        let contest = Contest { candidates, entitled: entitled.as_ref(), snapshot };
        let Some((chosen, winner)) = contest.winner() else { continue };
        if noted + notes.len() <= limits::NOTES_MAX {
            let losers = candidates.iter().filter(|candidate| {
                !asks_alike(&candidate.endpoint, winner)
                    && resource_of(&candidate.endpoint) != resource_of(winner)
                    && !candidate.is_public_unasked
            });
            let losers = losers.take(limits::NOTES_MAX);
            notes.extend(losers.map(|loser| contest.note_of_loser(&loser.endpoint, winner)));
            notes.extend(contest.kept_for_another(winner));
        }
        for (index, candidate) in candidates.iter_mut().enumerate() {
            candidate.is_left_out = index != chosen;
        }
    }
    notes
}

/// The namespace that may have the hostname, if the namespace guard is on. An object with an invalid endpoint does not
/// compete for a free hostname, because `plan` refuses all endpoints of that object for the hostname. The request does
/// not name the registry's TXT records, so TXT records with a prefix or a suffix are not found.
fn entitled_among(on_host: &[Candidate], snapshot: &Snapshot) -> Option<NamespaceCode> {
    if !snapshot.operator().namespace_guard {
        return None;
    }
    let name = &on_host.first()?.endpoint.dns_name;
    let endpoints = on_host.iter().map(|candidate| &candidate.endpoint);
    let refused = endpoints.clone().filter(|endpoint| is_invalid(endpoint)).map(resource_of);
    let refused: BTreeSet<&str> = collect(refused);
    let objects = endpoints.map(resource_of).filter(|resource| !refused.contains(resource));
    namespace::entitled(name, &[], objects, snapshot)
}

pub(super) fn asks_alike(one: &Endpoint, other: &Endpoint) -> bool {
    one.targets == other.targets && one.provider_specific == other.provider_specific
}

/// True if the endpoint and `present` have the same properties, among those that `shows` selects. Both are sorted.
fn asks_for(candidate: &Endpoint, present: &[Property], shows: &dyn Fn(&Property) -> bool) -> bool {
    let [wanted, present] = [&*candidate.provider_specific, present]
        .map(|properties| properties.iter().filter(|property| shows(property)));
    wanted.eq(present)
}

/// Selects all properties but `webhook/access-policy: none`, which `records` shows only under a default policy.
fn is_shown_without_default(property: &Property) -> bool {
    *property.name != *ACCESS_POLICY || *property.value != *OPEN
}

/// Selects the service, because edited options leave it as it is, and policies are not shown until Access is read.
fn is_service(property: &Property) -> bool {
    *property.name == *TUNNEL_SERVICE
}

/// The candidates of one hostname and path.
struct Contest<'a> {
    candidates: &'a [Candidate],
    /// The namespace that may have the hostname.
    entitled: Option<&'a NamespaceCode>,
    snapshot: &'a Snapshot,
}

impl<'a> Contest<'a> {
    /// The winner, with its index.
    fn winner(&self) -> Option<(usize, &'a Endpoint)> {
        let mut left: Vec<(usize, &Candidate)> = self.candidates.iter().enumerate().collect();
        if left.len() > 1 {
            self.narrow(&mut left);
        }
        left.first().map(|(index, winner)| (*index, &winner.endpoint))
    }

    /// Keeps the candidates that are preferred in each respect, one respect after the other.
    fn narrow(&self, left: &mut Vec<(usize, &Candidate)>) {
        let Some(Endpoint { dns_name, set_identifier, .. }) = self.endpoint() else { return };
        prefer(left, |candidate| self.is_of_entitled(&candidate.endpoint));
        let stamps = self.snapshot.stamps_of(dns_name);
        let path = path_of(set_identifier);
        // The object that the stamp names is preferred only if the stamp claims this path.
        let stamped = stamps.first().filter(|stamp| self.snapshot.claims_path(stamp, path));
        let stamped = stamped.and_then(|stamp| stamp.resource.as_deref());
        prefer(left, |candidate| Some(resource_of(&candidate.endpoint)) == stamped);
        prefer(left, |candidate| !candidate.is_public_unasked);
        // The present rule is read only for several candidates, because reading it takes long.
        let present = LazyCell::new(|| self.present());
        for shows in [&is_shown_without_default, &is_service as &dyn Fn(&Property) -> bool] {
            prefer(left, |candidate| {
                present.as_ref().is_some_and(|present| asks_for(&candidate.endpoint, present, shows))
            });
        }
        // A candidate that asks for a login is preferred even if it is invalid: then nothing is opened or published.
        prefer(left, |candidate| candidate.intent.asks_for_login);
        if left.len() > 1 && present.is_some() {
            // If no candidate asks for the published rule, an invalid endpoint wins, so that the rule stays as it is.
            prefer(left, |candidate| is_invalid(&candidate.endpoint));
        } else {
            prefer(left, |candidate| !is_invalid(&candidate.endpoint));
            prefer(left, |candidate| !candidate.intent.uses_default);
        }
    }

    fn endpoint(&self) -> Option<&'a Endpoint> {
        self.candidates.first().map(|first| &first.endpoint)
    }

    fn is_of_entitled(&self, endpoint: &Endpoint) -> bool {
        let namespace = namespace::code_of(resource_of(endpoint));
        self.entitled.is_some() && namespace.as_ref() == self.entitled
    }

    /// The note on an endpoint that lost the path to the winner.
    fn note_of_loser(&self, loser: &Endpoint, winner: &Endpoint) -> Note {
        let rule = rule_at(&loser.set_identifier);
        let name = match resource_of(winner) {
            "" => "an object without a name",
            resource => resource,
        };
        let [loses, wins] = [loser, winner].map(|endpoint| namespace::code_of(resource_of(endpoint)));
        let is_stranger = self.snapshot.operator().namespace_guard && loses != wins;
        let remedy = if is_stranger { STRANGER_REMEDY } else { WINNER_REMEDY };
        let text = format!(
            "the {rule} is not published: {name} has this hostname and path, so the webhook ignores this \
             object's service, login and options; {remedy}"
        );
        Note { kind: NoteKind::LeftOut, ..Note::of(loser, text) }
    }

    /// The note on a rule that stays although no endpoint of its namespace wins the path. ExternalDNS merges endpoints
    /// of several objects, of any namespaces, so the winner may also be an object of the rule's namespace.
    fn kept_for_another(&self, winner: &Endpoint) -> Option<Note> {
        let holder = self.entitled.filter(|_| !self.is_of_entitled(winner))?;
        self.present()?;
        let asking = namespace::code_of(resource_of(winner)).unwrap_or_default();
        let text = format!(
            "the {} belongs to another namespace (ns={holder}), so it stays: either that namespace no \
             longer asks for it, or ExternalDNS merged both objects. To release the hostname, remove it \
             from both objects for one loop, or write ns={asking} into the record's comment at Cloudflare",
            rule_at(&winner.set_identifier)
        );
        Some(Note::of(winner, text))
    }

    /// The properties of our present rule or record alone, as `records` shows them, but for the `none` of an open
    /// record.
    fn present(&self) -> Option<Vec<Property>> {
        let Endpoint { dns_name, set_identifier, .. } = self.endpoint()?;
        let hostname = Hostname::parse(dns_name).ok()?;
        let path = path_of(set_identifier);
        let protection = HostProtection::of(&hostname, self.snapshot);
        let mut properties = if path.is_none() && protection.record_only().is_some() {
            vec![Property::new(TUNNEL_SERVICE, RECORD_ONLY)]
        } else {
            shown::properties_of_rule(protection.own_rule(path, None)?, protection).properties
        };
        properties.extend(wildcard::property(dns_name));
        properties.sort_unstable();
        Some(properties)
    }
}

/// Keeps only the preferred candidates, if there are any.
fn prefer(candidates: &mut Vec<(usize, &Candidate)>, is_preferred: impl Fn(&Candidate) -> bool) {
    // The check of a single candidate changes nothing, and may take long.
    if candidates.len() > 1 && candidates.iter().any(|(_, candidate)| is_preferred(candidate)) {
        candidates.retain(|(_, candidate)| is_preferred(candidate));
    }
}
