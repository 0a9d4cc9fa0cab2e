//! Decides which part of one hostname's request is carried out, after `judge.rs` has judged each endpoint:
//!
//! - the endpoints of one object are published together or not at all;
//! - while an endpoint is refused, nothing is withdrawn from the hostname: ExternalDNS sends a changed path as a
//!   creation and a deletion, and may send another object's endpoint in place of the one that is deleted.

use std::collections::BTreeSet;

use super::Host;
use super::obstacle::Obstacles;
use super::{adoption, comment, obstacle};
use crate::model::TunnelId;
use crate::reconcile::access::gate::{AccessStep, ApplicationWrite, Gated, OpeningEnd};
use crate::reconcile::canonical::path_of;
use crate::reconcile::plan::planned::OpeningNote;
use crate::reconcile::plan::request::{HostRequest, Wanted};
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::stamp::Digest;

/// The part of a request that is carried out, with the refusals.
pub(super) struct Decision<'a, 'w> {
    /// The hostname with everything that is taken over.
    pub(super) host: Host<'a>,
    /// The endpoints that are published, all in one tunnel.
    pub(super) accepted: Vec<&'w Gated>,
    /// The paths that are withdrawn; `None` for the rule without a path, or the record alone.
    pub(super) withdrawn: Vec<Option<&'w str>>,
    pub(super) refusals: Vec<Refusal>,
    /// The work on applications.
    pub(super) application_writes: Vec<ApplicationWrite>,
    /// Notes on endpoints whose visitors need no login after the request.
    pub(super) opened: Vec<OpeningNote>,
}

/// A wanted endpoint, with its judgement so far.
struct Verdict<'w> {
    wanted: &'w Wanted<Gated>,
    outcome: Result<&'w Gated, Reason>,
}

impl<'w> Verdict<'w> {
    fn resource(&self) -> Option<&'w str> {
        self.wanted.resource.as_deref()
    }

    /// The work on the application of an endpoint that is not refused, if the application is written before the rule.
    fn first_write(&self) -> Option<&'w ApplicationWrite> {
        match self.gated()?.access_step() {
            AccessStep::ApplicationFirst(write) => Some(write),
            AccessStep::Nothing | AccessStep::Opening { .. } => None,
        }
    }

    fn refusal(&self, host: &Host<'_>, reason: Reason) -> Refusal {
        host.refusal(&self.wanted.set_identifier, self.resource(), reason)
    }

    /// The gated publication, unless the endpoint is refused.
    fn gated(&self) -> Option<&'w Gated> {
        self.outcome.as_ref().ok().copied()
    }
}

/// The state of a decision after the last refusal.
struct Settled<'a, 'w> {
    /// The hostname with everything that is taken over.
    host: Host<'a>,
    judged: Vec<Verdict<'w>>,
    /// The paths that are withdrawn.
    withdrawn: Vec<Option<&'w str>>,
}

/// Decides on the request for a hostname.
pub(super) fn decide<'a, 'w>(host: Host<'a>, request: &'w HostRequest<Gated>) -> Decision<'a, 'w> {
    let mut settled = settle(&host, request, one_for_each_path(request));
    let application_writes = first_writes(&settled.judged);
    if !application_writes.is_empty() && !host.is_dry_run() {
        let waiting = waiting_for_applications(settled.judged);
        settled = settle(&host, request, waiting);
    }
    let Settled { host, judged, withdrawn } = settled;
    let refused =
        judged.iter().filter_map(|one| Some(one.refusal(&host, one.outcome.as_ref().err()?.clone())));
    let refused = refused.chain(withheld(&host, request, &judged, &withdrawn));
    let ambiguous = obstacle::ambiguous_own_rule(&host).filter(|_| judged.is_empty());
    let ambiguous = ambiguous.map(|(path, reason)| host.refusal(path, None, reason));
    let mut decision = Decision {
        accepted: accepted_of(&judged),
        refusals: refused.chain(ambiguous).collect(),
        application_writes,
        opened: Vec::new(),
        host,
        withdrawn,
    };
    judged.iter().for_each(|one| decision.add_opening(one));
    decision
}

impl Decision<'_, '_> {
    /// Adds the deletion of the application that protects the endpoint, if the endpoint opens its place.
    fn add_opening(&mut self, one: &Verdict<'_>) {
        let Ok(AccessStep::Opening { deletion, end }) = one.outcome.as_ref().map(|gated| gated.access_step())
        else {
            return;
        };
        self.application_writes.extend(deletion.clone());
        match end {
            OpeningEnd::Foreign => {}
            OpeningEnd::Later { application } => {
                self.refusals.push(one.refusal(&self.host, Reason::WaitsForAccessCheck(application.clone())));
            }
            OpeningEnd::Open => self.opened.push(OpeningNote {
                note: self.host.opening_note(&one.wanted.set_identifier, one.resource()),
                by: deletion.as_ref().map(|write| write.place.clone()),
            }),
        }
    }
}

/// The refusals of deletions that wait for a refused endpoint.
fn withheld<'r>(
    host: &'r Host<'_>,
    request: &'r HostRequest<Gated>,
    judged: &'r [Verdict<'_>],
    withdrawn: &'r [Option<&str>],
) -> impl Iterator<Item = Refusal> + 'r {
    let waits = |path: &str| !withdrawn.contains(&path_of(path)) && has(host, path);
    request.withdrawn.iter().filter(move |(path, _)| waits(path)).map(|(path, object)| {
        let refused = judged.iter().find(|one| one.outcome.is_err());
        let by = refused.and_then(Verdict::resource).map(Into::into);
        host.refusal(path, object.as_deref(), Reason::Withheld { by })
    })
}

/// Refuses endpoints that cannot be published, until no further endpoint is refused.
fn settle<'a, 'w>(
    host: &Host<'a>,
    request: &'w HostRequest<Gated>,
    mut judged: Vec<Verdict<'w>>,
) -> Settled<'a, 'w> {
    loop {
        // Each round decides anew what is taken over, because a refused endpoint takes nothing over.
        let host = adoption::with_adoptions(host.clone(), &accepted_of(&judged));
        let withdrawn = withdrawable(request, &judged);
        let found = refused_now(&host, &withdrawn, &judged);
        if found.is_empty() {
            return Settled { host, judged, withdrawn };
        }
        for (index, reason) in found {
            if let Some(one) = judged.get_mut(index) {
                one.outcome = Err(reason);
            }
        }
    }
}

/// The work on the applications of the endpoints that are not refused.
fn first_writes(judged: &[Verdict<'_>]) -> Vec<ApplicationWrite> {
    judged.iter().filter_map(Verdict::first_write).cloned().collect()
}

/// Refuses the endpoints whose applications are written first.
fn waiting_for_applications(mut judged: Vec<Verdict<'_>>) -> Vec<Verdict<'_>> {
    for one in &mut judged {
        if let Some(write) = one.first_write() {
            one.outcome = Err(Reason::WaitsForApplication(write.place.clone()));
        }
    }
    judged
}

/// The wanted endpoints that are already refused, and the first of the remaining endpoints for each path.
fn one_for_each_path(request: &HostRequest<Gated>) -> Vec<Verdict<'_>> {
    let mut paths = BTreeSet::new();
    let judged = request
        .wanted
        .iter()
        .map(|wanted| Verdict { wanted, outcome: wanted.publication.as_ref().map_err(Clone::clone) });
    judged.filter(|one| one.outcome.as_ref().is_err() || paths.insert(&*one.wanted.set_identifier)).collect()
}

fn accepted_of<'w>(judged: &[Verdict<'w>]) -> Vec<&'w Gated> {
    judged.iter().filter_map(Verdict::gated).collect()
}

/// True if we have a rule, or a record alone, for a set identifier.
fn has(host: &Host<'_>, set_identifier: &str) -> bool {
    let path = path_of(set_identifier);
    host.has_path(path) || path.is_none() && host.claims_record_only()
}

/// The withdrawn paths; none while an endpoint is refused. The object of the refused endpoint does not matter:
/// ExternalDNS compares no labels, so after a rename of an object the stamp still names the old object, and ExternalDNS
/// merges objects of different namespaces into one endpoint.
fn withdrawable<'w>(request: &'w HostRequest<Gated>, judged: &[Verdict<'_>]) -> Vec<Option<&'w str>> {
    if judged.iter().any(|one| one.outcome.is_err()) {
        return Vec::new();
    }
    request.withdrawn.keys().map(|path| path_of(path)).collect()
}

/// The further endpoints that cannot be published, given the present refusals: their indices, with the reasons.
fn refused_now(host: &Host<'_>, withdrawn: &[Option<&str>], judged: &[Verdict<'_>]) -> Vec<(usize, Reason)> {
    let possible = accepted_of(judged);
    let Some(tunnel) = tunnel_for(host, &possible, withdrawn) else { return Vec::new() };
    let obstacles = Obstacles::of(host, &tunnel, &possible);
    let refused = refused_by_object(judged);
    let mut found: Vec<(usize, Reason)> = Vec::new();
    let mut free: Vec<(Digest, usize)> = Vec::new();
    for (index, one) in judged.iter().enumerate() {
        let Some(gated) = one.gated() else { continue };
        match obstacles.to(gated).or_else(|| refused_beside(&refused, one)) {
            Some(reason) => found.push((index, reason)),
            None => free.extend(gated.digest().map(|digest| (digest, index))),
        }
    }
    // If several paths have the same digest, the first one is published.
    free.sort_unstable();
    for same in free.chunk_by(|(one, _), (other, _)| one == other) {
        let path = same.first().and_then(|(_, index)| judged.get(*index)?.gated()?.path());
        found
            .extend(same.iter().skip(1).map(|(_, index)| (*index, obstacle::digest_taken_by(&tunnel, path))));
    }
    if found.is_empty()
        && let Some(reason) = comment::lack_of_room(host, &possible)
    {
        let is_new =
            |one: &Verdict<'_>| one.gated().is_some_and(|gated| !comment::claims_already(host, gated));
        let new = judged.iter().enumerate().filter(|(_, one)| is_new(one));
        found.extend(new.map(|(index, _)| (index, reason.clone())));
    }
    found
}

/// The refused endpoints, sorted by object.
fn refused_by_object<'r, 'w>(judged: &'r [Verdict<'w>]) -> Vec<&'r Verdict<'w>> {
    let mut refused: Vec<&Verdict<'_>> = judged.iter().filter(|one| one.outcome.is_err()).collect();
    refused.sort_by(|one, other| one.resource().cmp(&other.resource()));
    refused
}

/// The reason if another endpoint of the same object is refused: the published rules would receive its requests.
fn refused_beside(refused: &[&Verdict<'_>], one: &Verdict<'_>) -> Option<Reason> {
    // An endpoint does not wait for an opening that itself waits for the endpoint's application.
    let is_waited_for = |reason: &Reason| {
        let is_opening = matches!(reason, Reason::WaitsForClosing { .. } | Reason::WouldOpenToo { .. });
        is_opening && one.first_write().is_some()
    };
    let start = refused.partition_point(|other| other.resource() < one.resource());
    let beside = refused.get(start..)?.iter().take_while(|other| other.resource() == one.resource());
    let mut beside =
        beside.filter_map(|other| Some((&other.wanted.set_identifier, other.outcome.as_ref().err()?)));
    let (path, reason) = beside.find(|(_, reason)| !is_waited_for(reason))?;
    if reason.fails_request() {
        return Some(reason.clone());
    }
    Some(Reason::BesideRefused { path: (*path).clone(), refused: reason.label_value() })
}

/// The only tunnel that the hostname can have after this request: the record's tunnel if an endpoint asks for it, or if
/// a rule, the record alone or a foreign rule remains there, and otherwise the tunnel of the first endpoint by path and
/// object, because ExternalDNS's order changes from loop to loop.
fn tunnel_for(host: &Host<'_>, accepted: &[&Gated], withdrawn: &[Option<&str>]) -> Option<TunnelId> {
    let first = accepted.iter().min_by_key(|gated| (gated.path(), gated.resource()))?.tunnel();
    let is_live = |tunnel: &TunnelId| host.snapshot().tunnels.contains_key(tunnel);
    let Some(visited) = host.record_tunnel().filter(is_live) else {
        return Some(first.clone());
    };
    let goes =
        |path: Option<&str>| withdrawn.contains(&path) || accepted.iter().any(|gated| gated.path() == path);
    let stays = host.claims_record_only() && !goes(None)
        || host.claimed_rules().any(|rule| *rule.tunnel == visited && !goes(rule.path()));
    let is_asked_for = || accepted.iter().any(|gated| *gated.tunnel() == visited);
    let is_kept = stays || is_asked_for() || obstacle::left_behind(host, &visited).is_some();
    Some(if is_kept { visited } else { first.clone() })
}
