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
use crate::model::text::rule_at;
use crate::reconcile::Note;
use crate::reconcile::access::gate::{AccessStep, ApplicationWrite, Gated};
use crate::reconcile::access::wanted::WantedAccess;
use crate::reconcile::canonical::path_of;
use crate::reconcile::plan::planned::HostOutcome;
use crate::reconcile::plan::request::{Wanted, Withdrawn};
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::stamp::Digest;

const APPLICATION_FIRST: &str =
    "the webhook writes the Access application first; a later loop writes the rule";

/// The part of a request that is carried out, with the refusals.
pub(crate) struct Decision<'a> {
    /// The hostname with everything that is taken over.
    pub(crate) host: Host<'a>,
    /// The endpoints, each with a publication or with the reason why the endpoint is refused.
    wanted: Vec<Wanted<Gated>>,
    /// The paths that are withdrawn; `None` for the rule without a path, or the record alone.
    pub(super) withdrawn: Vec<Option<&'a str>>,
    /// True if the request withdraws everything that the stamp claims, apart from dangling digests, which no rule has.
    pub(crate) withdraws_hostname: bool,
    /// The refusals, the work on applications, and the waiting openings, with notes on openings.
    pub(crate) outcome: HostOutcome,
}

impl Decision<'_> {
    /// The endpoints that are published, all in one tunnel.
    pub(super) fn accepted(&self) -> Vec<&Gated> {
        accepted_of(&self.wanted)
    }
}

impl Wanted<Gated> {
    /// The work on the application of an endpoint that is not refused, if the application is written before the rule.
    fn first_write(&self) -> Option<&ApplicationWrite> {
        match self.accepted()?.access_step() {
            AccessStep::ApplicationFirst(write) => Some(write),
            AccessStep::Nothing | AccessStep::Opening { .. } => None,
        }
    }
}

/// Decides on the request for a hostname. An endpoint that is refused has the reason in place of its publication.
pub(crate) fn decide<'a>(
    before: &Host<'a>,
    wanted: Vec<Wanted<Gated>>,
    withdrawals: &'a Withdrawn,
) -> Decision<'a> {
    // `adjust` leaves one endpoint for each path. Of several that are not refused so far, the first by object counts.
    let mut paths = BTreeSet::new();
    let counts = |one: &Wanted<Gated>| one.reason().is_some() || paths.insert(one.set_identifier.clone());
    let wanted = wanted.into_iter().filter(counts).collect();
    let (mut host, mut wanted) = publishable(before, wanted, withdrawals);
    // It is known now which endpoints could be published. A dry run writes nothing, so no rule waits.
    let mut application_writes: Vec<_> = wanted.iter().filter_map(Wanted::first_write).cloned().collect();
    if !application_writes.is_empty() && !host.is_dry_run() {
        let reasons = reasons_of_applications(&host, &wanted);
        (host, wanted) = publishable(before, with_reasons(wanted, reasons), withdrawals);
    }
    let mut refusals: Vec<Refusal> = wanted.iter().filter_map(|one| one.refusal(host.name())).collect();
    refusals.extend(refusals_of_withheld(&host, withdrawals, &wanted));
    if wanted.is_empty()
        && let Some((path, reason)) = obstacle::ambiguous_own_rule(&host)
    {
        refusals.push(Refusal::new(host.name(), Some(path), None, reason));
    }
    let mut openings = Vec::new();
    for one in &wanted {
        if let Some(AccessStep::Opening { deletions, waiting }) = one.accepted().map(Gated::access_step) {
            application_writes.extend(deletions.iter().cloned());
            openings.extend(waiting.clone());
        }
    }
    let notes = wanted.iter().filter_map(|one| opening_note(&host, one)).collect();
    let withdrawn = withdrawn_now(withdrawals, &wanted);
    let withdraws_hostname = wanted.is_empty() && withdraws_all_claims(&host, &withdrawn);
    let outcome = HostOutcome { refusals, application_writes, notes, openings, ..HostOutcome::default() };
    Decision { host, wanted, withdrawn, withdraws_hostname, outcome }
}

/// Refuses endpoints until the others can be published together. Returns the hostname with everything that is taken over
/// for these, and all endpoints.
fn publishable<'a>(
    before: &Host<'a>,
    mut wanted: Vec<Wanted<Gated>>,
    withdrawals: &Withdrawn,
) -> (Host<'a>, Vec<Wanted<Gated>>) {
    loop {
        // Each round decides anew what is taken over, because a refused endpoint takes nothing over.
        let host = adoption::with_adoptions(before.clone(), &accepted_of(&wanted));
        let reasons = reasons_now(&host, &withdrawn_now(withdrawals, &wanted), &wanted);
        if reasons.iter().all(Option::is_none) {
            return (host, wanted);
        }
        wanted = with_reasons(wanted, reasons);
    }
}

/// The endpoints with these reasons in place of publications.
fn with_reasons(wanted: Vec<Wanted<Gated>>, reasons: Vec<Option<Reason>>) -> Vec<Wanted<Gated>> {
    let with_reason = |(one, reason): (Wanted<Gated>, Option<Reason>)| Wanted {
        publication: reason.map_or(one.publication, Err),
        ..one
    };
    wanted.into_iter().zip(reasons).map(with_reason).collect()
}

/// What is said of an endpoint that opens its place: that its login goes, or which foreign application keeps a login.
fn opening_note(host: &Host<'_>, one: &Wanted<Gated>) -> Option<Note> {
    let gated = one.accepted().filter(|gated| gated.publication().wanted_access == WantedAccess::Open)?;
    let covering = host.protection().covering_every_request(gated.path());
    let foreign = covering.into_iter().find(|one| host.snapshot().own_application(one).is_none());
    let foreign = foreign.filter(|application| application.requires_login());
    let rule = rule_at(&one.set_identifier);
    let text = match foreign {
        Some(foreign) => format!(
            "webhook/access-policy: none does not open the {rule}, because the Access application {:?}, which is not \
             ours, asks all its visitors for a login: make an application with a Bypass policy for this hostname and \
             path",
            foreign.name
        ),
        None if matches!(gated.access_step(), AccessStep::Opening { .. }) => {
            format!(
                "webhook/access-policy: none removes the login of the hostname's {rule}, over up to two loops"
            )
        }
        None => return None,
    };
    Some(Note { resource: one.resource.clone(), ..Note::about(host.name(), text) })
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

/// For each endpoint, the reason if it is not refused yet and cannot be published: its obstacle; or, if no endpoint has
/// one, the lack of room in the comment for new endpoints. So endpoints that are refused anyway take no room.
fn reasons_now(host: &Host<'_>, withdrawn: &[Option<&str>], wanted: &[Wanted<Gated>]) -> Vec<Option<Reason>> {
    let reasons = reasons_of_obstacles(host, withdrawn, wanted);
    let is_new =
        |one: &Wanted<Gated>| one.accepted().is_some_and(|gated| !comment::claims_already(host, gated));
    if reasons.iter().any(Option::is_some) || !wanted.iter().any(is_new) {
        return reasons;
    }
    let reason = comment::lack_of_room(host, &accepted_of(wanted), withdrawn);
    wanted.iter().map(|one| if is_new(one) { reason.clone() } else { None }).collect()
}

/// The reasons of endpoints with an obstacle, beside a refused endpoint of their object, or with the digest of another
/// endpoint.
fn reasons_of_obstacles(
    host: &Host<'_>,
    withdrawn: &[Option<&str>],
    wanted: &[Wanted<Gated>],
) -> Vec<Option<Reason>> {
    let Some(obstacles) = Obstacles::of(host, &accepted_of(wanted), withdrawn) else { return Vec::new() };
    let refused_before = refused_by_object(wanted);
    let mut taken: BTreeMap<Digest, Option<&str>> = BTreeMap::new();
    let reasons = wanted.iter().map(|one| {
        let gated = one.accepted()?;
        let beside = || {
            let refused = refused_before.get(&one.resource.as_deref())?;
            if renews_login(host, gated) { None } else { refused_beside(refused, one) }
        };
        let same_digest = || Some(obstacle::digest_taken_by(gated.tunnel(), *taken.get(&gated.digest()?)?));
        let reason = obstacles.to(gated).or_else(beside).or_else(same_digest);
        if reason.is_none() {
            taken.extend(gated.digest().map(|digest| (digest, gated.path())));
        }
        reason
    });
    reasons.collect()
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

/// The refused endpoints, by object.
fn refused_by_object(wanted: &[Wanted<Gated>]) -> BTreeMap<Option<&str>, Vec<&Wanted<Gated>>> {
    let mut refused: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for one in wanted.iter().filter(|one| one.reason().is_some()) {
        refused.entry(one.resource.as_deref()).or_default().push(one);
    }
    refused
}

/// The reason if the endpoint has to wait for one of the `refused` endpoints of its object: the published rules would
/// receive the requests of the refused one.
fn refused_beside(refused: &[&Wanted<Gated>], one: &Wanted<Gated>) -> Option<Reason> {
    // An endpoint does not wait for an opening that itself waits for the endpoint's application.
    let is_waited_for =
        |reason: &Reason| matches!(reason, Reason::OpensToo { .. }) && one.first_write().is_some();
    let mut refused = refused.iter().filter_map(|other| Some((&other.set_identifier, other.reason()?)));
    let (path, reason) = refused.find(|(_, reason)| !is_waited_for(reason))?;
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
