//! Judges each wanted endpoint before its hostname is planned: by the namespace guard, by the gate of Access, and by
//! the rules that Cloudflare refused before.

use std::collections::BTreeMap;

use super::fingerprints::rule_fingerprint;
use super::request::{HostRequest, Wanted};
use crate::model::{Hostname, Record};
use crate::reconcile::access::gate::{self, Gated};
use crate::reconcile::access::requests::{AccessRequests, RuleKey, UnopenedAsks, UnopenedPlace};
use crate::reconcile::access::wanted::WantedAccess;
use crate::reconcile::adopt::Adopt;
use crate::reconcile::canonical::{Publication, path_of};
use crate::reconcile::namespace;
use crate::reconcile::plan_inputs::{PlanContext, PlanInputs};
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::{Snapshot, ZoneSnapshot};
use crate::reconcile::stamp::NamespaceCode;

/// The wanted endpoints of a hostname, with a reason in place of each refused publication.
pub(super) fn judged(
    name: &str,
    wanted: Vec<Wanted<Publication>>,
    registry_names: &[Box<str>],
    context: PlanContext<'_>,
) -> Vec<Wanted<Gated>> {
    let snapshot = context.snapshot;
    let entitled = entitled(name, &wanted, registry_names, snapshot);
    let judge = |publication, resource: Option<&str>| {
        check_entitled(entitled.as_ref(), resource, snapshot)?;
        let gated = gate::gated(context, publication, resource)?;
        check_not_refused(gated.publication(), context.inputs)?;
        Ok(gated)
    };
    let judged = wanted.into_iter().map(|Wanted { set_identifier, resource, publication }| {
        let publication = publication.and_then(|publication| judge(publication, resource.as_deref()));
        Wanted { set_identifier, resource, publication }
    });
    judged.collect()
}

/// The namespace that may have the hostname, if the namespace guard is on.
fn entitled(
    name: &str,
    wanted: &[Wanted<Publication>],
    registry_names: &[Box<str>],
    snapshot: &Snapshot,
) -> Option<NamespaceCode> {
    let allowed = wanted.iter().filter(|one| one.publication.is_ok());
    let objects = allowed.filter_map(|one| one.resource.as_deref());
    namespace::entitled(name, registry_names, objects, snapshot)
}

/// What the endpoints ask of Access, without endpoints that the namespace guard refuses. If no namespace is known
/// to have the hostname, a refused endpoint still closes its place.
pub(super) fn access_requests(
    requests: &BTreeMap<Box<str>, HostRequest>,
    snapshot: &Snapshot,
) -> AccessRequests {
    let mut all = AccessRequests::default();
    for (name, request) in requests {
        all.withdrawn.extend(request.withdrawn.keys().map(|path| RuleKey::of(name, path_of(path))));
        let entitled = entitled(name, &request.wanted, &request.registry_names, snapshot);
        for Wanted { set_identifier, resource, publication } in &request.wanted {
            let is_entitled = check_entitled(entitled.as_ref(), resource.as_deref(), snapshot).is_ok();
            if publication.as_ref().is_ok_and(|one| one.wanted_access == WantedAccess::Open) {
                all.open.extend(is_entitled.then(|| RuleKey::of(name, path_of(set_identifier))));
            } else if (is_entitled || entitled.is_none())
                && let Some(asks) = asks_unopened(publication, snapshot)
                && may_be_published(name, snapshot)
                && let Ok(hostname) = Hostname::parse(name)
            {
                let (set_identifier, resource) = (set_identifier.clone(), resource.clone());
                all.unopened.push(UnopenedPlace { hostname, set_identifier, resource, asks });
            }
        }
    }
    all
}

/// What an endpoint asks for that does not ask to be open. Without an application, an endpoint that names no policies
/// has no login to lose.
fn asks_unopened(publication: &Result<Publication, Reason>, snapshot: &Snapshot) -> Option<UnopenedAsks> {
    match publication.as_ref().map(|publication| &publication.wanted_access) {
        Ok(WantedAccess::Open) => None,
        Ok(WantedAccess::Unspecified) if snapshot.access.applications().is_empty() => None,
        Ok(WantedAccess::Unspecified) => Some(UnopenedAsks::Unspecified),
        Ok(WantedAccess::Protected(_)) => Some(UnopenedAsks::Policies),
        Err(_) => Some(UnopenedAsks::Unknown),
    }
}

/// True if the hostname is within the filter and a zone, and has no foreign record unless `ADOPT` is set.
fn may_be_published(name: &str, snapshot: &Snapshot) -> bool {
    let has_record = |zone: &ZoneSnapshot| zone.records_of(name).iter().any(Record::is_address_or_cname);
    let is_held = |zone| has_record(zone) && snapshot.own_records_of(name).is_empty();
    let is_free = |zone| snapshot.operator().adopt != Adopt::default() || !is_held(zone);
    snapshot.operator().filter.matches(name) && snapshot.zone_of(name).is_some_and(is_free)
}

/// Refuses an endpoint whose namespace may not have the hostname.
fn check_entitled(
    entitled: Option<&NamespaceCode>,
    resource: Option<&str>,
    snapshot: &Snapshot,
) -> Result<(), Reason> {
    let asking = resource.and_then(namespace::code_of);
    if !snapshot.operator().namespace_guard || asking.is_some() && asking.as_ref() == entitled {
        return Ok(());
    }
    Err(Reason::NamespaceHeld { holder: entitled.cloned(), asking })
}

/// Refuses a publication whose rule Cloudflare refused and would refuse again.
fn check_not_refused(publication: &Publication, inputs: &PlanInputs) -> Result<(), Reason> {
    let rule = publication.rule.as_ref().filter(|_| !inputs.paused.is_empty());
    rule.map_or(Ok(()), |rule| inputs.check_not_paused(rule_fingerprint(&publication.tunnel, rule)))
}
