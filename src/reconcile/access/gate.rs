//! The gate that every publication passes: the gate sets the rule's Access check, or returns the reason to wait or to
//! refuse the publication.

use crate::ingress::access_check::AccessCheck;
use crate::ingress::{Rule, WantedRule};
use crate::label_values::label_values;
use crate::model::TunnelId;
use crate::model::access::Application;
use crate::model::text::fingerprint;
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::place::{self, Place};
use crate::reconcile::access::reading::{AccessReadError, AccessReading};
use crate::reconcile::access::wanted::{WantedAccess, WantedApplication, usable_policy};
use crate::reconcile::canonical::Publication;
use crate::reconcile::plan_inputs::PlanContext;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::stamp::Digest;

const LETS_PAST: &str = "has an Access application with a policy that lets visitors past without a login \
     now: change that policy at Cloudflare, or name another policy";

const TWO_WAYS: &str = "asks for tokens by webhook/access-required, and the webhook keeps an Access \
     application for it: set webhook/access-policy instead, or delete that application at Cloudflare";

/// The write of one application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationWrite {
    pub place: Place,
    pub operation: ApplicationOperation,
    /// The foreign application that the write takes over, as it was read.
    pub adopted: Option<Box<Application>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApplicationOperation {
    Create(WantedApplication),
    /// Replaces the content of the application with this id.
    Replace(Box<str>, WantedApplication),
    /// Deletes the application with this id.
    Delete(Box<str>),
}

impl ApplicationWrite {
    /// The deletion of an application of ours.
    pub fn delete(own: OwnApplication<'_>) -> Self {
        let operation = ApplicationOperation::Delete(own.application.id.clone());
        Self { place: own.place.clone(), operation, adopted: None }
    }

    pub fn is_deletion(&self) -> bool {
        matches!(self.operation, ApplicationOperation::Delete(_))
    }

    /// Identifies the place among writes.
    pub fn place_fingerprint(&self) -> u64 {
        fingerprint(["application", &*self.place.to_string()])
    }

    /// Identifies the place with its wanted application. A creation and a replacement have the same fingerprint, and so
    /// have all deletions at one place: an application that is created again after each deletion has a new id.
    pub fn content_fingerprint(&self) -> u64 {
        let wanted = match &self.operation {
            ApplicationOperation::Create(wanted) | ApplicationOperation::Replace(_, wanted) => Some(wanted),
            ApplicationOperation::Delete(_) => None,
        };
        fingerprint(["application", &*self.place.to_string(), &*format!("{wanted:?}")])
    }
}

impl ApplicationOperation {
    label_values! {
        Self::Create(_) => "application_created",
        Self::Replace(..) => "application_updated",
        Self::Delete(_) => "application_deleted",
    }
}

/// The work on Access that a publication needs, besides its rule and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessStep {
    Nothing,
    /// The application is written before the endpoint's rule.
    ApplicationFirst(ApplicationWrite),
    /// The endpoint opens a protected place, and this request finishes the opening: it deletes the last application of
    /// ours over the place, if one is left.
    Opening(Vec<ApplicationWrite>),
    WaitingOpening(WaitingOpening),
}

/// An endpoint that opens its place, which this request cannot finish. The applications over the place are deleted one
/// in each request, the first one as soon as no rule accepts its tokens:
///
/// 1. The request removes the Access check of the rules, and each endpoint that opens its place waits.
/// 2. No rule accepts the tokens of the first application, so a request deletes it. This is repeated for the next one.
/// 3. The request that deletes the last one leaves nothing to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitingOpening {
    pub(crate) opened: Place,
    /// The refusal of the endpoint. `with_waiting_openings` replaces the reason if a rule that no write changes accepts
    /// the tokens of the first application.
    pub(crate) refusal: Refusal,
    /// The id of our application over the place that is deleted first.
    pub(crate) first_id: Box<str>,
    /// The deletions of this opening, in a dry run of all its applications. They are dropped if a rule that accepts the
    /// tokens of the first application stays.
    pub(crate) deletions: Vec<ApplicationWrite>,
}

/// A publication that passed the gate, with the work on Access besides. Only the gate makes one, so every rule that is
/// planned has the Access check that it needs.
#[derive(Debug)]
pub(crate) struct Gated {
    publication: Publication,
    /// The object of the endpoint, if it is known.
    resource: Option<Box<str>>,
    access_step: AccessStep,
}

impl Gated {
    pub(crate) fn publication(&self) -> &Publication {
        &self.publication
    }

    pub(crate) fn resource(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    pub(crate) fn access_step(&self) -> &AccessStep {
        &self.access_step
    }

    pub(crate) fn tunnel(&self) -> &TunnelId {
        &self.publication.tunnel
    }

    pub(crate) fn path(&self) -> Option<&str> {
        self.publication.path()
    }

    /// `None` if the endpoint asks only for the record.
    pub(crate) fn rule(&self) -> Option<&WantedRule> {
        self.publication.rule.as_ref()
    }

    /// The digest of the rule.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.rule()?;
        Some(Digest::of(self.tunnel(), self.path()))
    }
}

/// The question to the gate: may the publication of this object be planned, and with which Access check?
#[derive(Clone, Copy)]
pub(super) struct Gate<'a> {
    pub(super) context: PlanContext<'a>,
    pub(super) publication: &'a Publication,
    /// The object of the endpoint, if it is known.
    pub(super) resource: Option<&'a str>,
    /// The present protection of the hostname.
    pub(super) protection: HostProtection<'a>,
}

/// The publication of an object, with the Access check that its rule needs.
///
/// # Errors
/// The reason why the publication waits or is refused.
pub(crate) fn pass_gate(
    context: PlanContext<'_>,
    publication: Publication,
    resource: Option<&str>,
) -> Result<Gated, Reason> {
    let protection = HostProtection::of(&publication.hostname, context.snapshot);
    let gate = Gate { context, publication: &publication, resource, protection };
    let (check, access_step) = match &publication.wanted_access {
        WantedAccess::Protected(wanted) => {
            let (check, access_step) = gate.access_check_by_policies(wanted)?;
            (Some(check), access_step)
        }
        WantedAccess::Open if context.snapshot.operator().access_guard => {
            return Err(Reason::Unprotected("webhook/access-policy is none".to_owned()));
        }
        _ if context.snapshot.operator().access_guard => {
            (Some(gate.access_check_by_guard()?), AccessStep::Nothing)
        }
        WantedAccess::Open => (None, gate.plan_opening()?),
        WantedAccess::Unspecified => (gate.access_check_by_present()?, AccessStep::Nothing),
    };
    let with_check = |rule: WantedRule| WantedRule {
        origin_request: rule.origin_request.with_access_check(check),
        ..rule
    };
    let rule = publication.rule.map(with_check);
    let publication = Publication { rule, ..publication };
    Ok(Gated { publication, resource: resource.map(Into::into), access_step })
}

impl Gate<'_> {
    /// The Access check of a rule whose endpoint names policies, and the work on the application.
    fn access_check_by_policies(
        self,
        wanted: &WantedApplication,
    ) -> Result<(AccessCheck, AccessStep), Reason> {
        let Self { context, publication, protection, .. } = self;
        let access = context.snapshot.access.snapshot_or_reason();
        let access = access.map_err(|unread| self.unknown(&unread))?;
        let place = Place::of(&publication.hostname, publication.path());
        place.validate().map_err(|problem| Reason::AccessPolicy(problem.to_owned()))?;
        if access.pending.contains(&place) {
            return Err(Reason::Waiting(
                "the webhook sent the Access application, and it is not known yet whether Cloudflare has it: \
                 the next loops look again".into(),
            ));
        }
        let own = protection.application_made_for(publication.path()).map(|own| own.application);
        if let Some(own) = own.filter(|own| place::is_as_wanted(own, &place, wanted)) {
            // A wanted policy itself lets visitors past. A replacement would remove only unwanted policies.
            if own.may_be_bypassed() {
                return Err(Reason::AccessPolicy(LETS_PAST.to_owned()));
            }
            return Ok((AccessCheck::required(&access.team, [own]), AccessStep::Nothing));
        }
        let policies = access.policies.as_ref().map_err(|unread| self.unknown(unread))?;
        for policy in &wanted.policies {
            usable_policy(policy, policies, context.snapshot.operator()).map_err(Reason::AccessPolicy)?;
        }
        let foreign = protection.in_the_way(&place);
        if let Some(other) = foreign {
            let may_be_adopted = own.is_none() && place::has_destinations_of(other, &place);
            if !may_be_adopted || !context.snapshot.operator().adopt.access {
                return Err(Reason::ApplicationHeld { application: other.name.clone(), may_be_adopted });
            }
        }
        let present = own.or(foreign);
        let operation = match present {
            Some(present) => ApplicationOperation::Replace(present.id.clone(), wanted.clone()),
            None => ApplicationOperation::Create(wanted.clone()),
        };
        let write = ApplicationWrite { place, operation, adopted: foreign.cloned().map(Box::new) };
        context.inputs.refuse_paused(|| write.content_fingerprint())?;
        Ok((AccessCheck::required(&access.team, present), AccessStep::ApplicationFirst(write)))
    }

    /// The Access check of a rule under `ACCESS_GUARD`, which allows no open place.
    fn access_check_by_guard(self) -> Result<AccessCheck, Reason> {
        let Self { publication, protection, .. } = self;
        let access = protection.whole_access().map_err(|unread| self.unknown(&unread))?;
        let covering = protection.guarding(publication.path()).map_err(Reason::Unprotected)?;
        Ok(AccessCheck::required(&access.team, covering))
    }

    /// The Access check that preserves the present protection of the place, for an endpoint that names no policies.
    fn access_check_by_present(self) -> Result<Option<AccessCheck>, Reason> {
        let Self { publication, protection, .. } = self;
        let Some(rule) = &publication.rule else {
            return self.refuse_opening_record().map(|()| None);
        };
        let path = publication.path();
        let asked = rule.origin_request.access_check();
        if asked.is_some() && protection.application_made_for(path).is_some() {
            return Err(Reason::AccessPolicy(TWO_WAYS.to_owned()));
        }
        let present = asked.cloned().or_else(|| protection.present_check(path));
        if present.is_none() {
            self.refuse_unknown_login()?;
        }
        Ok(protection.check_with(present, protection.own_login(path).map(|own| own.application)))
    }

    /// Refuses a record without a rule if it would remove the only login of its visitors, which is a rule's Access
    /// check.
    fn refuse_opening_record(self) -> Result<(), Reason> {
        let Self { publication, protection, .. } = self;
        self.refuse_unknown_login()?;
        // The comment may claim the record without a rule before the rule is deleted.
        let rule = protection.own_rule(None, Some(&publication.tunnel));
        let is_open =
            !rule.is_some_and(Rule::requires_access) && protection.is_record_only_in(&publication.tunnel);
        let is_closed_by_rule =
            protection.present_check(None).is_some() && protection.own_login(None).is_none();
        if is_closed_by_rule && !is_open { Err(Reason::WouldOpen) } else { Ok(()) }
    }

    /// Refuses a publication while Access cannot be read, if a comment says that Access protects the hostname.
    fn refuse_unknown_login(self) -> Result<(), Reason> {
        match &self.context.snapshot.access {
            AccessReading::Failed(unread) if self.protection.claims_protection() => Err(self.unknown(unread)),
            _ => Ok(()),
        }
    }

    /// The reason if Access was not read. A published endpoint is refused, and a permanent failure refuses every
    /// endpoint. Other endpoints wait, because ExternalDNS may never ask again after a success.
    pub(super) fn unknown(self, unread: &AccessReadError) -> Reason {
        let Self { publication, protection, .. } = self;
        let is_published = protection.own_rule(publication.path(), None).is_some()
            || protection.is_record_only_in(&publication.tunnel);
        if unread.is_permanent || is_published {
            return Reason::AccessUnknown(unread.reason.to_string());
        }
        Reason::Waiting(format!("the webhook does not know what Access protects: {}", unread.reason))
    }
}
