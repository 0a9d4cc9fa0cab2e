//! Decides which part of one hostname's request is carried out, after `judge_all` has judged each endpoint:
//!
//! - the endpoints of one object are published together or not at all, but a published rule gets its login;
//! - while an endpoint is refused, nothing is withdrawn from the hostname: ExternalDNS sends a changed path as a
//!   creation and a deletion, and may send another object's endpoint in place of the one that is deleted.

use std::collections::{BTreeMap, BTreeSet};

use super::Host;
use super::obstacle::Obstacles;
use super::{adoption, comment, obstacle};
use crate::ingress::WantedRule;
use crate::reconcile::Note;
use crate::reconcile::access::gate::{AccessStep, ApplicationWrite, Gated, WaitingOpening};
use crate::reconcile::canonical::path_of;
use crate::reconcile::plan::request::{Wanted, Withdrawn};
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::stamp::Digest;

const APPLICATION_FIRST: &str =
    "the webhook writes the Access application first; a later loop writes the rule";

/// The part of a request that is carried out, with the refusals of the rest.
pub(crate) struct Decision<'a> {
    /// The hostname with everything that is taken over.
    pub(crate) host: Host<'a>,
    /// The endpoints, each with a publication or with the reason why the endpoint is refused.
    wanted: Vec<Wanted<Gated>>,
    /// The paths that are withdrawn; `None` for the rule without a path, or the record alone.
    pub(super) withdrawn: Vec<Option<&'a str>>,
    /// True if the request withdraws everything that the stamp claims, apart from dangling digests, which no rule has.
    pub(crate) withdraws_hostname: bool,
    pub(crate) refusals: Vec<Refusal>,
    /// The work on applications, without that of waiting openings.
    pub(crate) application_writes: Vec<ApplicationWrite>,
    pub(crate) openings: Vec<WaitingOpening>,
}

impl Decision<'_> {
    /// The endpoints that are published, all in one tunnel.
    pub(super) fn accepted(&self) -> Vec<&Gated> {
        accepted_of(&self.wanted)
    }

    /// Notes on the endpoints that open their places.
    pub(crate) fn opening_notes(&self) -> Vec<Note> {
        let protection = self.host.protection();
        let accepted = self.wanted.iter().filter_map(|one| Some((&one.resource, one.accepted()?)));
        let notes = accepted.filter_map(|(resource, gated)| {
            let text = gated.opening_note(protection)?;
            Some(Note { resource: resource.clone(), ..Note::about(self.host.name(), text) })
        });
        notes.collect()
    }
}

impl Wanted<Gated> {
    /// The work on the application of an endpoint that is not refused, if the application is written before the rule.
    fn first_write(&self) -> Option<&ApplicationWrite> {
        match self.accepted()?.access_step() {
            AccessStep::ApplicationFirst(write) => Some(write),
            AccessStep::Nothing | AccessStep::Opening(_) | AccessStep::WaitingOpening(_) => None,
        }
    }
}

/// Decides on the request for a hostname. An endpoint that is refused has the reason in place of its publication.
///
/// Each round refuses the endpoints that fail a check, and decides anew what is taken over, because a refused endpoint
/// takes nothing over. A check is reached once the checks before it refuse no endpoint: an endpoint that is refused
/// anyway takes no room in the comment, and gets no application.
pub(crate) fn decide<'a>(
    before: &Host<'a>,
    wanted: Vec<Wanted<Gated>>,
    withdrawals: &'a Withdrawn,
) -> Decision<'a> {
    // `adjust` leaves one endpoint for each path. Of several that are not refused so far, the first by object counts.
    let mut paths = BTreeSet::new();
    let counts = |one: &Wanted<Gated>| one.reason().is_some() || paths.insert(one.set_identifier.clone());
    let mut wanted: Vec<_> = wanted.into_iter().filter(counts).collect();
    let mut application_writes = Vec::new();
    let host = loop {
        let host = adoption::with_adoptions(before.clone(), &accepted_of(&wanted));
        let withdrawn = withdrawn_now(withdrawals, &wanted);
        let reasons = reasons_of_obstacles(&host, &withdrawn, &wanted);
        if refuse(&mut wanted, reasons) {
            continue;
        }
        let reasons = reasons_of_room(&host, &withdrawn, &wanted);
        if refuse(&mut wanted, reasons) {
            continue;
        }
        application_writes.extend(wanted.iter().filter_map(Wanted::first_write).cloned());
        let reasons = reasons_of_applications(&host, &wanted);
        // A dry run writes nothing, so no rule waits.
        if host.is_dry_run() || !refuse(&mut wanted, reasons) {
            break host;
        }
    };
    let mut refusals: Vec<Refusal> = wanted.iter().filter_map(|one| one.refusal(host.name())).collect();
    refusals.extend(refusals_of_withheld(&host, withdrawals, &wanted));
    if wanted.is_empty()
        && let Some((path, reason)) = obstacle::ambiguous_own_rule(&host)
    {
        refusals.push(Refusal::new(host.name(), Some(path), None, reason));
    }
    let mut openings = Vec::new();
    for gated in accepted_of(&wanted) {
        match gated.access_step() {
            AccessStep::Nothing | AccessStep::ApplicationFirst(_) => {}
            AccessStep::Opening(deletions) => application_writes.extend(deletions.iter().cloned()),
            AccessStep::WaitingOpening(waiting) => openings.push(waiting.clone()),
        }
    }
    let withdrawn = withdrawn_now(withdrawals, &wanted);
    let withdraws_hostname = wanted.is_empty() && withdraws_all_claims(&host, &withdrawn);
    Decision { host, wanted, withdrawn, withdraws_hostname, refusals, application_writes, openings }
}

/// Refuses the endpoints that have a reason. False if none has one.
fn refuse(wanted: &mut [Wanted<Gated>], reasons: Vec<Option<Reason>>) -> bool {
    let mut is_any_refused = false;
    for (one, reason) in wanted.iter_mut().zip(reasons) {
        if let Some(reason) = reason {
            one.publication = Err(reason);
            is_any_refused = true;
        }
    }
    is_any_refused
}

/// The refusals of deletions that wait for a refused endpoint.
fn refusals_of_withheld(host: &Host<'_>, withdrawals: &Withdrawn, wanted: &[Wanted<Gated>]) -> Vec<Refusal> {
    let Some(refused) = wanted.iter().find(|one| one.reason().is_some()) else { return Vec::new() };
    let reason = Reason::Withheld { by: refused.resource.clone() };
    let present = withdrawals.iter().filter(|(path, _)| has_published(host, path));
    present
        .map(|(path, object)| Refusal::new(host.name(), Some(path), object.as_deref(), reason.clone()))
        .collect()
}

fn accepted_of(wanted: &[Wanted<Gated>]) -> Vec<&Gated> {
    wanted.iter().filter_map(Wanted::accepted).collect()
}

/// True if we have a rule, or a record alone, for a set identifier.
fn has_published(host: &Host<'_>, set_identifier: &str) -> bool {
    let path = path_of(set_identifier);
    host.has_path(path) || path.is_none() && host.claims_record_only()
}

/// All withdrawn paths, or none while an endpoint is refused. The object of the refused endpoint does not matter:
/// ExternalDNS compares no labels, so after a rename of an object the stamp still names the old object, and ExternalDNS
/// merges objects of different namespaces into one endpoint.
fn withdrawn_now<'w>(withdrawals: &'w Withdrawn, wanted: &[Wanted<Gated>]) -> Vec<Option<&'w str>> {
    if wanted.iter().any(|one| one.reason().is_some()) {
        return Vec::new();
    }
    withdrawals.keys().map(|path| path_of(path)).collect()
}

/// True if no rule or record that the stamp claims stays without these paths.
fn withdraws_all_claims(host: &Host<'_>, withdrawn: &[Option<&str>]) -> bool {
    let claims = comment::claims_during(host, &[], withdrawn);
    let mut named = host.rules.iter().filter(|rule| claims.digests.contains(&rule.digest));
    !withdrawn.is_empty()
        && !claims.record_only
        && named.all(|rule| rule.is_stamped() && withdrawn.contains(&rule.path()))
}

/// The reasons of endpoints with an obstacle, beside a refused endpoint of their object, or with the digest of another
/// endpoint.
fn reasons_of_obstacles(
    host: &Host<'_>,
    withdrawn: &[Option<&str>],
    wanted: &[Wanted<Gated>],
) -> Vec<Option<Reason>> {
    let Some(obstacles) = Obstacles::of(host, &accepted_of(wanted), withdrawn) else { return Vec::new() };
    let refused: Vec<_> = wanted.iter().filter(|one| one.reason().is_some()).collect();
    let mut taken: BTreeMap<Digest, Option<&str>> = BTreeMap::new();
    let reasons = wanted.iter().map(|one| {
        let gated = one.accepted()?;
        let beside = || if renews_login(host, gated) { None } else { refused_beside(&refused, one) };
        let same_digest = || Some(obstacle::digest_taken_by(gated.tunnel(), *taken.get(&gated.digest()?)?));
        let reason = obstacles.to(gated).or_else(beside).or_else(same_digest);
        if reason.is_none() {
            taken.extend(gated.digest().map(|digest| (digest, gated.path())));
        }
        reason
    });
    reasons.collect()
}

/// The reason of each endpoint that is new to the comment, if the comment has no room for them all.
fn reasons_of_room(
    host: &Host<'_>,
    withdrawn: &[Option<&str>],
    wanted: &[Wanted<Gated>],
) -> Vec<Option<Reason>> {
    let is_new =
        |one: &Wanted<Gated>| one.accepted().is_some_and(|gated| !comment::claims_already(host, gated));
    if !wanted.iter().any(is_new) {
        return Vec::new();
    }
    let reason = comment::lack_of_room(host, &accepted_of(wanted), withdrawn);
    wanted.iter().map(|one| if is_new(one) { reason.clone() } else { None }).collect()
}

/// The reasons of endpoints whose applications are written before their rules.
fn reasons_of_applications(host: &Host<'_>, wanted: &[Wanted<Gated>]) -> Vec<Option<Reason>> {
    let unwritten = &host.context.inputs.unwritten_applications;
    let reason = |one: &Wanted<Gated>| {
        let reason = unwritten.get(&one.first_write()?.content_fingerprint()).cloned();
        Some(reason.unwrap_or_else(|| Reason::Waiting(APPLICATION_FIRST.to_owned())))
    };
    wanted.iter().map(reason).collect()
}

/// The reason if the endpoint has to wait for a refused endpoint of its object: the published rules would receive the
/// requests of that one.
fn refused_beside(refused: &[&Wanted<Gated>], one: &Wanted<Gated>) -> Option<Reason> {
    // An endpoint does not wait for an opening that itself waits for the endpoint's application.
    let is_waited_for =
        |reason: &Reason| matches!(reason, Reason::OpensToo { .. }) && one.first_write().is_some();
    let beside = refused.iter().filter(|other| other.resource == one.resource);
    let mut beside = beside.filter_map(|other| Some((&other.set_identifier, other.reason()?)));
    let (path, reason) = beside.find(|(_, reason)| !is_waited_for(reason))?;
    if reason.fails_request() {
        return Some(reason.clone());
    }
    Some(Reason::BesideRefused { path: (*path).clone(), refused: reason.label_value() })
}

/// True if the endpoint asks for nothing but another login of a rule that visitors reach already. A rule whose
/// application was deleted refuses all visitors until it has the token of another one.
fn renews_login(host: &Host<'_>, gated: &Gated) -> bool {
    if host.record_tunnel().as_ref() != Some(gated.tunnel()) {
        return false;
    }
    let present = host.stamped_rule_at(gated.tunnel(), gated.path()).map(|present| present.rule);
    let Some((present, wanted)) = present.zip(gated.rule()).filter(|(_, wanted)| wanted.requires_access())
    else {
        return false;
    };
    let check = present.access_check().cloned();
    let origin_request = wanted.origin_request.clone().with_access_check(check);
    present.equals(&WantedRule { origin_request, ..wanted.clone() })
}
