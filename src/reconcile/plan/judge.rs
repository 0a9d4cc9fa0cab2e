//! Judges each wanted endpoint before its hostname is planned: by the gate of Access, which knows what all endpoints ask
//! of Access, and by the rules that Cloudflare refused before.

use std::collections::BTreeMap;

use super::fingerprints::rule_fingerprint;
use super::request::{HostRequest, Wanted};
use crate::model::{Hostname, Record};
use crate::reconcile::access::gate::{self, Gated};
use crate::reconcile::access::place::Place;
use crate::reconcile::access::requests::{AccessRequests, Asks, UnopenedPlace};
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
            let path = path_of(&one.set_identifier);
            let asks = match one.publication.as_ref().map(|publication| &publication.wanted_access) {
                Ok(WantedAccess::Open) => {
                    all.open.insert(Place::of(&hostname, path));
                    continue;
                }
                Ok(WantedAccess::Protected(_)) => Asks::Policies,
                // Without an application, no login can be lost.
                Ok(WantedAccess::Unspecified) if snapshot.access.applications().is_empty() => continue,
                Ok(WantedAccess::Unspecified) => Asks::Nothing,
                Err(Reason::NamespaceHeld { holder: Some(_), .. }) => continue,
                Err(_) => Asks::Unknown,
            };
            if may_be_published(name, snapshot) {
                all.unopened.push(UnopenedPlace {
                    place: Place::of(&hostname, path.filter(|_| asks != Asks::Unknown)),
                    set_identifier: one.set_identifier.clone(),
                    resource: one.resource.clone(),
                    asks,
                });
            }
        }
    }
    all
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
    match &publication.rule {
        Some(rule) if !inputs.paused.is_empty() => inputs.check(rule_fingerprint(&publication.tunnel, rule)),
        _ => Ok(()),
    }
}
