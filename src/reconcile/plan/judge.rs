//! Judges each wanted endpoint before its hostname is planned: by the gate of Access, which knows what all endpoints ask
//! of Access, and by the rules that Cloudflare refused before.

use std::collections::BTreeMap;

use super::fingerprints::rule_fingerprint;
use super::request::{HostRequest, Wanted};
use crate::model::{Hostname, Record};
use crate::reconcile::access::gate::{self, Gated};
use crate::reconcile::access::place::Place;
use crate::reconcile::access::requests::{AccessRequests, UnopenedPlace};
use crate::reconcile::access::wanted::WantedAccess;
use crate::reconcile::canonical::{Publication, path_of};
use crate::reconcile::plan_inputs::{PlanContext, PlanInputs};
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::{Snapshot, ZoneSnapshot};

/// The wanted endpoints of a hostname, with a reason in place of each refused publication.
pub(super) fn judge_all(wanted: Vec<Wanted<Publication>>, context: PlanContext<'_>) -> Vec<Wanted<Gated>> {
    let judge = |publication, resource: Option<&str>| {
        let gated = gate::pass_gate(context, publication, resource)?;
        check_not_refused(gated.publication(), context.inputs)?;
        Ok(gated)
    };
    let judged = wanted.into_iter().map(|Wanted { set_identifier, resource, publication }| {
        let publication = publication.and_then(|publication| judge(publication, resource.as_deref()));
        Wanted { set_identifier, resource, publication }
    });
    judged.collect()
}

/// What the endpoints ask of Access, without endpoints that the namespace guard refuses. If no namespace is known
/// to have the hostname, a refused endpoint still closes its place.
pub(super) fn access_requests(
    requests: &BTreeMap<Box<str>, HostRequest>,
    snapshot: &Snapshot,
) -> AccessRequests {
    let mut all = AccessRequests::default();
    for (name, request) in requests {
        let Ok(hostname) = Hostname::parse(name) else { continue };
        all.withdrawn.extend(request.withdrawn.keys().map(|path| Place::of(&hostname, path_of(path))));
        for one in &request.wanted {
            let (path, asks) = (path_of(&one.set_identifier), one.accepted().map(|one| &one.wanted_access));
            if asks == Some(&WantedAccess::Open) {
                all.open.insert(Place::of(&hostname, path));
            } else if asks_unopened(one, snapshot) && may_be_published(name, snapshot) {
                all.unopened.push(UnopenedPlace {
                    place: Place::of(&hostname, asks.and(path)),
                    set_identifier: one.set_identifier.clone(),
                    resource: one.resource.clone(),
                    asks: asks.cloned(),
                });
            }
        }
    }
    all
}

/// True if an endpoint that does not ask to be open may have a login to lose: without an application, an endpoint that
/// names no policies has none.
fn asks_unopened(wanted: &Wanted<Publication>, snapshot: &Snapshot) -> bool {
    match &wanted.publication {
        Ok(publication) => {
            publication.wanted_access != WantedAccess::Unspecified
                || !snapshot.access.applications().is_empty()
        }
        Err(reason) => !matches!(reason, Reason::NamespaceHeld { holder: Some(_), .. }),
    }
}

/// True if the hostname is within the filter and a zone, and has no foreign record unless `ADOPT` takes over records.
fn may_be_published(name: &str, snapshot: &Snapshot) -> bool {
    let has_record = |zone: &ZoneSnapshot| zone.records_of(name).iter().any(Record::is_address_or_cname);
    let is_held = |zone| has_record(zone) && snapshot.own_records_of(name).is_empty();
    let is_free = |zone| snapshot.operator().adopt.takes_records() || !is_held(zone);
    snapshot.operator().filter.matches(name) && snapshot.zone_of(name).is_some_and(is_free)
}

/// Refuses a publication whose rule Cloudflare refused and would refuse again.
fn check_not_refused(publication: &Publication, inputs: &PlanInputs) -> Result<(), Reason> {
    let rule = publication.rule.as_ref().filter(|_| !inputs.paused.is_empty());
    rule.map_or(Ok(()), |rule| inputs.check_not_paused(rule_fingerprint(&publication.tunnel, rule)))
}
