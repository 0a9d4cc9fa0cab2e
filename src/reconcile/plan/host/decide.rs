//! Decides what is done of one hostname's request, once `judge.rs` has judged each endpoint of it:
//!
//! - the endpoints of one object are published together or not at all;
//! - while an endpoint is refused, nothing of its object is withdrawn from the hostname, because a path that changes is
//!   a creation and a deletion.

use std::collections::BTreeSet;

use super::Host;
use super::accepted::Accepted;
use super::obstacle::Obstacles;
use super::{adoption, comment, obstacle};
use crate::lean::inserted;
use crate::model::TunnelId;
use crate::reconcile::access::gate::{ApplicationWork, Besides};
use crate::reconcile::canonical::{Publication, path_of};
use crate::reconcile::plan::request::{HostRequest, Wanted};
use crate::reconcile::plan::{Reason, Refusal};
use crate::reconcile::stamp::Digest;
use crate::reconcile::{Note, namespace};

/// What is done of a request.
pub(super) struct Decision<'a, 'w> {
    /// The hostname with everything that is taken over.
    pub(super) host: Host<'a>,
    /// All in one tunnel.
    pub(super) desired: Vec<Accepted<'w>>,
    /// The paths that are withdrawn, empty for none.
    pub(super) withdrawn: Vec<&'w str>,
    pub(super) refusals: Vec<Refusal>,
    /// The work on applications.
    pub(super) work: Vec<ApplicationWork>,
    /// What is told of the endpoints whose visitors need no login once all of this is done.
    pub(super) opened: Vec<Note>,
}

/// A wanted endpoint, and what was found about it so far.
struct Asked<'w> {
    wanted: &'w Wanted,
    outcome: Result<&'w Publication, Reason>,
    /// True if deletions wait while this endpoint is refused.
    may_hold_back: bool,
}

impl<'w> Asked<'w> {
    fn resource(&self) -> Option<&'w str> {
        self.wanted.resource.as_deref()
    }

    /// True if the endpoint is refused, and may be what a withdrawn one of its object became. An object of another namespace
    /// holds nothing back.
    fn holds_back(&self) -> bool {
        self.may_hold_back && self.outcome.is_err()
    }

    fn desired(&self) -> Option<Accepted<'w>> {
        let publication = *self.outcome.as_ref().ok()?;
        Some(Accepted { publication, resource: self.resource() })
    }
}

/// True unless the two objects are known and differ.
fn may_be_one(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Decides on the request for a hostname.
pub(super) fn decide<'a, 'w>(host: Host<'a>, request: &'w HostRequest) -> Decision<'a, 'w> {
    let mut asked = one_a_path(&host, request);
    let (mut taking, mut withdrawn) = refuse_until_stable(&host, request, &mut asked);
    let mut work = first_work(&host, &mut asked);
    if !work.is_empty() {
        (taking, withdrawn) = refuse_until_stable(&host, request, &mut asked);
    }
    let host = taking;
    let (mut opened, mut unfinished) = (Vec::new(), Vec::new());
    for one in asked.iter().filter(|one| one.outcome.is_ok()) {
        let Besides::Opening { work: deletion, is_last, is_open } = &one.wanted.besides else { continue };
        opened.extend(is_open.then(|| host.opening_note(&one.wanted.set_identifier, one.resource())));
        work.extend(deletion.clone());
        if !is_last {
            let reason = Reason::Waiting(LATER.to_owned());
            unfinished.push(host.refusal(&one.wanted.set_identifier, one.resource(), reason));
        }
    }
    let refused = asked.iter().filter_map(|one| {
        let reason = one.outcome.as_ref().err()?.clone();
        Some(host.refusal(&one.wanted.set_identifier, one.resource(), reason))
    });
    let object_of = |path: &str| request.withdrawn.get(path).and_then(Option::as_deref);
    let withheld = request.withdrawn.keys().map(|path| &**path).filter(|path| !withdrawn.contains(path));
    let withheld = withheld.filter(|path| has(&host, path)).map(|path| {
        let mut holding = asked.iter().filter(|one| one.holds_back());
        let holding = holding.find(|one| may_be_one(one.resource(), object_of(path)));
        let by = holding.and_then(Asked::resource).map(Into::into);
        host.refusal(path, object_of(path), Reason::Withheld { by })
    });
    let untold = obstacle::ambiguous_own_rule(&host).filter(|_| asked.is_empty());
    let untold = untold.map(|(path, reason)| host.refusal(path, None, reason));
    let refusals = refused.chain(withheld).chain(untold).chain(unfinished).collect();
    Decision { desired: desired(&asked), host, withdrawn, refusals, work, opened }
}

const LATER: &str =
    "it opens: its rule asks for no login first, and its Access application goes in a later loop";

/// Refuses what cannot be done, and returns the hostname with what is taken over for the rest, and what is withdrawn.
fn refuse_until_stable<'a, 'w>(
    host: &Host<'a>,
    request: &'w HostRequest,
    asked: &mut [Asked<'w>],
) -> (Host<'a>, Vec<&'w str>) {
    loop {
        // Each round takes over anew, for the endpoints that are not refused: a refused endpoint takes nothing over.
        let taking = adoption::taking_over(host.clone(), &desired(asked));
        let withdrawn = withdrawable(request, asked);
        if !refuse_more(&taking, &withdrawn, asked) {
            return (taking, withdrawn);
        }
    }
}

/// The work on the applications of the endpoints that nothing else holds back. These endpoints wait for the work.
fn first_work(host: &Host<'_>, asked: &mut [Asked<'_>]) -> Vec<ApplicationWork> {
    let mut first = Vec::new();
    for one in asked.iter_mut().filter(|one| one.outcome.is_ok()) {
        if let Besides::First(work) = &one.wanted.besides {
            first.push(work.clone());
            if !host.is_preview() {
                one.outcome = Err(Reason::ApplicationFirst(work.place.clone()));
            }
        }
    }
    first
}

/// The wanted endpoints that are refused already, and of the others the first of each path.
fn one_a_path<'w>(host: &Host<'_>, request: &'w HostRequest) -> Vec<Asked<'w>> {
    let mut paths = BTreeSet::new();
    let asked = request.wanted.iter();
    let asked = asked.map(|wanted| Asked {
        wanted,
        outcome: wanted.publication.as_ref().map_err(Clone::clone),
        may_hold_back: !is_kept_from(host, wanted.resource.as_deref()),
    });
    asked.filter(|one| one.outcome.as_ref().is_err() || paths.insert(&*one.wanted.set_identifier)).collect()
}

/// True if the stamp names another namespace than the object's. While the stamp names none, a refused endpoint may be
/// the new form of a rule of the hostname.
fn is_kept_from(host: &Host<'_>, resource: Option<&str>) -> bool {
    let named = host.stamp.as_ref().filter(|_| host.policy().namespace_guard).and_then(namespace::of_stamp);
    named.is_some() && named != resource.and_then(namespace::code_of)
}

fn desired<'w>(asked: &[Asked<'w>]) -> Vec<Accepted<'w>> {
    asked.iter().filter_map(Asked::desired).collect()
}

/// True if something of ours is behind a set identifier.
fn has(host: &Host<'_>, set_identifier: &str) -> bool {
    let path = path_of(set_identifier);
    host.has_path(path) || path.is_none() && host.claims_record_only()
}

/// The withdrawn set identifiers, without those that a refused endpoint holds back.
fn withdrawable<'w>(request: &'w HostRequest, asked: &[Asked<'_>]) -> Vec<&'w str> {
    let holding = asked.iter().filter(|one| one.holds_back()).map(Asked::resource);
    let holding: BTreeSet<Option<&str>> = inserted(holding);
    let is_free = |object: Option<&str>| !holding.iter().any(|one| may_be_one(*one, object));
    let withdrawn = request.withdrawn.iter();
    withdrawn.filter(|(_, resource)| is_free(resource.as_deref())).map(|(path, _)| &**path).collect()
}

/// Refuses what cannot be done beside what is refused already. Returns true if that is more than before.
fn refuse_more(host: &Host<'_>, withdrawn: &[&str], asked: &mut [Asked<'_>]) -> bool {
    let possible = desired(asked);
    let Some(tunnel) = tunnel_for(host, &possible, withdrawn) else { return false };
    let obstacles = Obstacles::of(host, &tunnel, &possible);
    let refused = refused_by_object(asked);
    let mut found: Vec<(usize, Reason)> = Vec::new();
    let mut free: Vec<(Digest, usize)> = Vec::new();
    for (index, one) in asked.iter().enumerate() {
        let Some(desired) = one.desired() else { continue };
        match obstacles.to(&desired).or_else(|| refused_beside(&refused, one)) {
            Some(reason) => found.push((index, reason)),
            None => free.extend(desired.digest().map(|digest| (digest, index))),
        }
    }
    // Of several paths with one digest the first is published.
    free.sort_unstable();
    for same in free.chunk_by(|(one, _), (other, _)| one == other) {
        let path = same.first().and_then(|(_, index)| asked.get(*index)?.desired()?.path());
        found
            .extend(same.iter().skip(1).map(|(_, index)| (*index, obstacle::digest_taken_by(&tunnel, path))));
    }
    if found.is_empty()
        && let Some(reason) = comment::lack_of_room(host, &possible)
    {
        let new = asked
            .iter()
            .enumerate()
            .filter(|(_, one)| one.desired().is_some_and(|desired| !comment::claims_already(host, &desired)));
        found.extend(new.map(|(index, _)| (index, reason.clone())));
    }
    let is_more = !found.is_empty();
    for (index, reason) in found {
        if let Some(one) = asked.get_mut(index) {
            one.outcome = Err(reason);
        }
    }
    is_more
}

/// The refused endpoints by object.
fn refused_by_object<'r, 'w>(asked: &'r [Asked<'w>]) -> Vec<&'r Asked<'w>> {
    let mut refused: Vec<&Asked<'_>> = asked.iter().filter(|one| one.outcome.is_err()).collect();
    refused.sort_by(|one, other| one.resource().cmp(&other.resource()));
    refused
}

/// The reason if another endpoint of the same object is refused: the rules that are published would take its requests.
fn refused_beside(refused: &[&Asked<'_>], one: &Asked<'_>) -> Option<Reason> {
    // An endpoint whose application comes first is not held up by the opening that waits for that application.
    let is_waited_for = |reason: &Reason| {
        matches!((reason, &one.wanted.besides), (Reason::ClosingFirst { .. }, Besides::First(_)))
    };
    let start = refused.partition_point(|other| other.resource() < one.resource());
    let beside = refused.get(start..)?.iter().take_while(|other| other.resource() == one.resource());
    let mut beside =
        beside.filter_map(|other| Some((&other.wanted.set_identifier, other.outcome.as_ref().err()?)));
    let (path, reason) = beside.find(|(_, reason)| !is_waited_for(reason))?;
    if reason.is_unfinished() {
        return Some(reason.clone());
    }
    Some(Reason::Beside { path: (*path).clone(), refused: reason.label() })
}

/// The one tunnel that the hostname can have after this request. The record's tunnel stays if an endpoint asks for it,
/// or if a rule or record there stays. Otherwise the tunnel of the first endpoint counts.
fn tunnel_for(host: &Host<'_>, desired: &[Accepted<'_>], withdrawn: &[&str]) -> Option<TunnelId> {
    let first = desired.first()?.tunnel();
    let is_live = |tunnel: &TunnelId| host.snapshot().tunnels.contains_key(tunnel);
    let Some(led_to) = host.led_to().filter(is_live) else {
        return Some(first.clone());
    };
    let goes = |path: Option<&str>| {
        withdrawn.contains(&path.unwrap_or_default()) || desired.iter().any(|desired| desired.path() == path)
    };
    let stays = host.claims_record_only() && !goes(None)
        || host.rules.iter().any(|(tunnel, rule)| **tunnel == led_to && !goes(rule.path()));
    let is_asked_for = || desired.iter().any(|desired| *desired.tunnel() == led_to);
    let is_kept = stays || is_asked_for() || obstacle::left_behind(host, &led_to).is_some();
    Some(if is_kept { led_to } else { first.clone() })
}
