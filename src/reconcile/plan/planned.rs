//! The result of planning one request.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::host_plan::{HostPlan, host_of};
use super::mass_deletion;
use crate::collections::inserted;
use crate::ingress::{Document, Rule};
use crate::model::TunnelId;
use crate::reconcile::Note;
use crate::reconcile::access::answering::rule_text;
use crate::reconcile::access::gate::ApplicationWrite;
use crate::reconcile::access::host_protection::rules_accepting;
use crate::reconcile::access::place::Place;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::{OwnDigests, Snapshot};
use crate::reconcile::stamp::Digest;

/// The writes of one request, with its refusals and notes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Sorted by name, without hostnames that need no write.
    pub hosts: Vec<HostPlan>,
    /// The requests that are not carried out, with the reasons.
    pub refusals: Vec<Refusal>,
    pub notes: Vec<Note>,
    /// Notes on hostnames whose visitors need no login once the application of the place is deleted.
    pub opened: Vec<(Place, Note)>,
    /// The work on Access applications, independent of `hosts`.
    pub application_writes: Vec<ApplicationWrite>,
    /// The rules that are ours before anything is written.
    pub own: Arc<OwnDigests>,
    /// Hostnames that are left to later requests.
    pub postponed: BTreeSet<Box<str>>,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.application_writes.is_empty()
    }

    pub fn host(&self, hostname: &str) -> Option<&HostPlan> {
        host_of(&self.hosts, hostname)
    }

    /// The hostnames with a digest that the plan removes because its rule was not read, although `document` has it.
    pub fn missed_in(&self, tunnel: &TunnelId, document: &Document) -> BTreeSet<Box<str>> {
        let rules = document.rules().iter().filter(|rule| rule.is_readable());
        let missed = rules.filter(|rule| {
            let host = self.host(rule.folded_hostname());
            host.is_some_and(|host| host.removes_digest(&Digest::of(tunnel, rule.path())))
        });
        inserted(missed.map(|rule| rule.folded_hostname().into()))
    }

    /// Reports that the applications of these places were not written, with the reasons. A refusal at the place, or a
    /// refusal that waits for the application, gets the reason. If there is none, a new refusal is added.
    pub fn note_failed_applications(&mut self, failed: Vec<(Place, Reason)>) {
        for (place, reason) in failed {
            self.opened.retain(|(by, _)| *by != place);
            let waits = |refusal: &Refusal| matches!(&refusal.reason, Reason::WaitsForApplication(first) if *first == place);
            let path = place.path().unwrap_or_default();
            let is_at = |refusal: &Refusal| {
                *refusal.hostname == *place.hostname() && refusal.set_identifier.as_deref() == Some(&*path)
            };
            let mut waiting = self.refusals.iter_mut().filter(|one| waits(one) || is_at(one)).peekable();
            if waiting.peek().is_some() {
                waiting.for_each(|refusal| refusal.reason = reason.clone());
            } else {
                let (hostname, set_identifier) = (place.hostname().into(), Some(path.into()));
                self.refusals.push(Refusal { hostname, set_identifier, resource: None, reason });
            }
        }
    }

    /// Refuses openings that wait for the deletion of an application, if a rule that accepts the application's tokens
    /// stays as it is.
    pub(super) fn refuse_openings(&mut self, snapshot: &Snapshot) {
        let Self { refusals, hosts, postponed, .. } = self;
        let is_written = |rule: &Rule| {
            let name = rule.folded_hostname();
            let is_edited = |host: &HostPlan| host.edits.iter().any(|one| one.edit.path() == rule.path());
            postponed.contains(name) || host_of(hosts, name).is_some_and(is_edited)
        };
        for refusal in refusals {
            let Reason::WaitsForAccessCheck(id) = &refusal.reason else { continue };
            let mut applications = snapshot.access.applications().iter();
            let Some(application) = applications.find(|one| one.id == *id) else { continue };
            if let Some(rule) = rules_accepting(application, snapshot).find(|rule| !is_written(rule)) {
                let (application, relying) = (application.name.clone(), Some(rule_text(rule).into()));
                refusal.reason = Reason::StillProtected { application, relying };
            }
        }
    }

    /// Refuses the hostnames of mass deletions, and returns the others.
    pub(super) fn without_mass_deletion(
        &mut self,
        hosts: Vec<HostPlan>,
        snapshot: &Snapshot,
    ) -> Vec<HostPlan> {
        let refused = mass_deletion::refused(&hosts, snapshot);
        let (refused, hosts): (Vec<HostPlan>, Vec<HostPlan>) =
            hosts.into_iter().partition(|host| refused.contains(&host.hostname));
        let refusals = refused.into_iter();
        let refusals =
            refusals.map(|host| Refusal::whole(host.hostname, host.resource, Reason::MassDeletion));
        self.refusals.extend(refusals);
        hosts
    }
}
