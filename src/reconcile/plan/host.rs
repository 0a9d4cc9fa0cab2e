//! Plans one hostname: what stands, what is decided about it, and what has to be written.
//!
//! [`Host`] is what was read, `Decision` what is done of the request, and [`HostPlan`] what that writes.

mod adoption;
mod comment;
mod decide;
pub(super) mod heritage;
mod obstacle;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::ingress::{Owned, Rule, RuleEdit};
use crate::limits::DIGEST_WITHOUT_RULE_MIN_AGE;
use crate::model::{Hostname, Record, TunnelId};
use crate::ordered::sort_by;
use crate::reconcile::access::gate::ApplicationWork;
use crate::reconcile::access::standing::Standing;
use crate::reconcile::plan::request::HostRequest;
use crate::reconcile::plan::{Earlier, HostPlan, Reason, RecordOperation, Refusal, Unfinished};
use crate::reconcile::snapshot::{Snapshot, ZoneSnapshot};
use crate::reconcile::stamp::{Digest, Stamp};
use crate::reconcile::{Note, Policy, Settings};

pub use comment::Comments;
use decide::{Decision, decide};

/// What is not done by then is answered as done as far as possible: ten loops of ExternalDNS have failed for it.
const MOVE_PATIENCE: Duration = Duration::from_secs(600);

/// The context in which every hostname of a request is planned.
#[derive(Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) settings: &'a Settings,
    pub(super) earlier: &'a Earlier,
    /// All rules, each marked as ours or not.
    pub(super) owned: &'a BTreeMap<&'a TunnelId, Owned<'a>>,
}

/// The result of planning one hostname.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) plan: Option<HostPlan>,
    pub(super) refusals: Vec<Refusal>,
    pub(super) notes: Vec<Note>,
    pub(super) opened: Vec<Note>,
    pub(super) work: Vec<ApplicationWork>,
    /// The digests of the rules that are taken over.
    pub(super) taken_over: BTreeSet<Digest>,
}

/// A rule, and the tunnel that it stands in.
type Placed<'a> = (&'a TunnelId, &'a Rule);

/// One hostname before anything is written.
#[derive(Clone)]
struct Host<'a> {
    situation: Situation<'a>,
    hostname: Hostname,
    zone: &'a ZoneSnapshot,
    /// Our records, and those that are taken over.
    records: Vec<&'a Record>,
    /// Foreign records that a CNAME cannot stand beside.
    foreign_records: Vec<&'a Record>,
    /// The stamp of `records`.
    stamp: Option<Stamp>,
    /// All rules by their digests, ours and foreign ones.
    standing: Vec<(Digest, Placed<'a>)>,
    /// Our rules, and those that are taken over.
    rules: Vec<Placed<'a>>,
    /// Those of `records` that are foreign until the stamp is written.
    adopted_records: Vec<&'a Record>,
    /// Those of `rules` that are foreign until the stamp is written.
    adopted_rules: Vec<Placed<'a>>,
    /// The names of the TXT records of ExternalDNS's registry about the wanted endpoints.
    registry_names: &'a [Box<str>],
}

/// Plans the request for one hostname.
pub(super) fn plan(name: &str, request: &HostRequest, situation: Situation<'_>) -> Outcome {
    let Situation { snapshot, settings, .. } = situation;
    let refused = |reason| Outcome {
        refusals: vec![Refusal::whole(name.into(), request.resource(), reason)],
        ..Outcome::default()
    };
    if !settings.policy.filter.matches(name) {
        return refused(Reason::OutsideFilter);
    }
    // A name that is not a hostname was never published, so only its endpoints' mistakes are to be told.
    let Ok(hostname) = Hostname::parse(name) else {
        return Outcome { refusals: mistakes(name, request), ..Outcome::default() };
    };
    let Some(zone) = snapshot.zone_of(name) else {
        return refused(Reason::NoZone);
    };
    let host = Host::of(situation, zone, hostname, request);
    if let Some(problem) = host.old_answer(request) {
        return refused(Reason::Undecided(problem.into()));
    }
    let decision = decide(host, request);
    let resource = request.resource().or_else(|| decision.host.stamp.as_ref()?.resource.clone());
    let planned = writes::host_plan(&decision, resource.clone());
    let Decision { host, mut refusals, work, opened, .. } = decision;
    let (plan, waiting) = match planned {
        Ok(planned) => planned,
        Err(reason) => {
            refusals.push(Refusal::whole(name.into(), resource, reason));
            return Outcome { refusals, work, ..Outcome::default() };
        }
    };
    refusals.extend(waiting);
    let notes = names_taken(&host, &plan).into_iter().chain(requests_lost(&host, &plan));
    let notes = notes.chain(rules_left(&host, request)).collect();
    let taken_over =
        host.adopted_rules.iter().map(|(tunnel, rule)| Digest::of(tunnel, rule.path())).collect();
    Outcome { plan: Some(plan).filter(|plan| !plan.is_empty()), refusals, notes, opened, work, taken_over }
}

/// The refusals of endpoints that cannot be published whatever stands.
fn mistakes(name: &str, request: &HostRequest) -> Vec<Refusal> {
    let mistaken = request.wanted.iter().filter_map(|wanted| {
        let reason = wanted.publication.as_ref().err()?.clone();
        let (set_identifier, resource) = (Some(wanted.set_identifier.clone()), wanted.resource.clone());
        Some(Refusal { hostname: name.into(), set_identifier, resource, reason })
    });
    mistaken.collect()
}

impl<'a> Host<'a> {
    /// Reads the state of `hostname`, whose records belong into `zone`.
    fn of(
        situation: Situation<'a>,
        zone: &'a ZoneSnapshot,
        hostname: Hostname,
        request: &'a HostRequest,
    ) -> Self {
        let Situation { snapshot, settings, .. } = situation;
        let is_apex = hostname.as_str() == &*zone.zone.name;
        let excluding = zone.records_of(hostname.as_str()).iter();
        let excluding = excluding.filter(|record| excludes_cname(record, is_apex));
        let (records, foreign_records): (Vec<&Record>, Vec<&Record>) =
            excluding.partition(|record| snapshot.own_stamp(record, settings).is_some());
        let stamps = records.iter().filter_map(|record| snapshot.own_stamp(record, settings));
        let stamp = stamps.reduce(|mut first, other| {
            first.claims.merge(&other.claims);
            first
        });
        let rules = snapshot.own_rules_of(&hostname, settings);
        let standing = snapshot.rules_of(&hostname).into_iter();
        let standing = standing.map(|(tunnel, rule)| (Digest::of(tunnel, rule.path()), (tunnel, rule)));
        let mut standing: Vec<(Digest, Placed<'a>)> = standing.collect();
        sort_by(&mut standing, |(one, _), (other, _)| one.cmp(other));
        Self {
            situation,
            zone,
            records,
            foreign_records,
            stamp,
            standing,
            rules,
            adopted_records: Vec::new(),
            adopted_rules: Vec::new(),
            registry_names: &request.registry_names,
            hostname,
        }
    }

    /// The old answer by which nothing of the hostname may be decided: about a zone around it, or about a tunnel that has or
    /// may have a rule of it, that its visitors are led to, or that an endpoint asks for.
    fn old_answer(&self, request: &HostRequest) -> Option<&'a str> {
        let snapshot = self.snapshot();
        snapshot.old.keys().next()?;
        let may_hide_rule = !comment::dead(self, &[]).is_empty();
        let led_to = snapshot.led_to(self.name());
        let wishes = request.wanted.iter().filter_map(|one| Some(&one.publication.as_ref().ok()?.tunnel));
        let rules = self.standing.iter().map(|(_, (tunnel, _))| *tunnel);
        let tunnels = rules.chain(wishes).chain(&led_to).map(TunnelId::as_str);
        let zones = snapshot.zones_around(self.name()).map(|zone| zone.zone.id.as_str());
        let places: Vec<&str> = tunnels.chain(zones).collect();
        let mut old = snapshot.old.iter();
        old.find(|(id, _)| may_hide_rule || places.contains(&&***id)).map(|(_, problem)| &**problem)
    }

    fn snapshot(&self) -> &'a Snapshot {
        self.situation.snapshot
    }

    fn settings(&self) -> &'a Settings {
        self.situation.settings
    }

    fn policy(&self) -> &'a Policy {
        &self.settings().policy
    }

    fn name(&self) -> &str {
        self.hostname.as_str()
    }

    fn has_record(&self) -> bool {
        !self.records.is_empty()
    }

    /// The tunnel that our record leads to.
    fn led_to(&self) -> Option<TunnelId> {
        TunnelId::from_hostname(&self.records.first()?.content)
    }

    /// True if nothing is written, so that no step waits for an earlier one.
    fn is_preview(&self) -> bool {
        self.situation.earlier.is_preview
    }

    /// Whether a tunnel that is not configured was deleted; `None` if it was not looked up.
    fn was_deleted(&self, tunnel: &TunnelId) -> Option<&'a Result<bool, String>> {
        self.situation.earlier.deleted.get(tunnel)
    }

    /// The hostname's rules in one tunnel, ours and foreign ones.
    fn rules_of(&self, tunnel: &TunnelId) -> Vec<&'a Rule> {
        let tunnel = self.snapshot().tunnels.get(tunnel);
        tunnel.map(|tunnel| tunnel.rules_of(&self.hostname)).unwrap_or_default()
    }

    /// The hostname's rules in one tunnel that are not ours.
    fn foreign_rules(&self, tunnel: &TunnelId) -> Vec<&'a Rule> {
        let mut rules = self.rules_of(tunnel);
        rules.retain(|rule| self.own_rule(tunnel, rule.path()).is_none());
        rules
    }

    /// The rule that stands at a place, ours or a foreign one.
    fn rule_at(&self, tunnel: &TunnelId, path: Option<&str>) -> Option<&'a Rule> {
        self.rules_of(tunnel).into_iter().find(|rule| rule.path() == path)
    }

    /// The rule of ours at a place.
    fn own_rule(&self, tunnel: &TunnelId, path: Option<&str>) -> Option<&'a Rule> {
        let mut rules = self.rules.iter();
        rules.find(|(id, rule)| *id == tunnel && rule.path() == path).map(|(_, rule)| *rule)
    }

    /// True if the comment has to say that an Access application of ours protects something of the hostname.
    fn is_protected(&self) -> bool {
        let stands = self.stamp.as_ref().is_some_and(|stamp| stamp.claims.is_protected);
        Standing::of(&self.hostname, self.snapshot(), self.settings()).has_mark(stands)
    }

    /// True if we have a rule for the path, in any tunnel.
    fn has_path(&self, path: Option<&str>) -> bool {
        self.rules.iter().any(|(_, rule)| rule.path() == path)
    }

    /// True if the stamp claims the record without a rule.
    fn claims_record_only(&self) -> bool {
        self.adopted_records.is_empty() && self.stamp.as_ref().is_some_and(|stamp| stamp.claims.record_only)
    }

    /// True if the rule at the place would answer other requests if it were put again.
    fn is_shadowed(&self, tunnel: &TunnelId, path: Option<&str>) -> bool {
        let is_adopted = |rule: &Rule| {
            self.adopted_rules.iter().any(|(id, other)| *id == tunnel && std::ptr::eq(*other, rule))
        };
        self.situation.owned.get(tunnel).is_some_and(|owned| match &*self.adopted_rules {
            [] => owned.is_shadowed(&self.hostname, path),
            _ => owned.and(&is_adopted).is_shadowed(&self.hostname, path),
        })
    }

    /// True if no record was changed for so long; also if Cloudflare does not tell.
    fn is_older_than(&self, duration: Duration) -> bool {
        let changed = self.records.iter().filter_map(|record| record.modified).max();
        let now = self.snapshot().date_unix_seconds.and_then(|now| u64::try_from(now).ok());
        let now = now.map(Duration::from_secs);
        now.zip(changed).is_none_or(|(now, changed)| now.saturating_sub(changed) >= duration)
    }

    /// True if the records have led where they lead for `MOVE_GRACE`, so that no visitor is led elsewhere any more.
    fn is_settled(&self) -> bool {
        self.is_older_than(self.policy().move_grace)
    }

    /// True if a digest of the stamp may be of a rule that another instance is about to write.
    fn may_come(&self, digests: &BTreeSet<Digest>) -> bool {
        let is_own = |digest| self.unfinished().is_some_and(|own| own.digests.contains(digest));
        !digests.iter().all(is_own) && !self.is_older_than(DIGEST_WITHOUT_RULE_MIN_AGE)
    }

    fn unfinished(&self) -> Option<&'a Unfinished> {
        self.situation.earlier.unfinished.get(self.name())
    }

    /// True if a move that writes nothing now has written nothing for so long that no request fails for it any more.
    fn is_overdue(&self) -> bool {
        self.is_older_than(self.policy().move_grace + MOVE_PATIENCE)
    }

    fn note(&self, text: String) -> Note {
        let resource = self.stamp.as_ref().and_then(|stamp| stamp.resource.clone());
        Note { hostname: self.name().into(), resource, text }
    }

    /// What is told of an endpoint that opens what is protected.
    fn opened(&self, path: &str, resource: Option<&str>) -> Note {
        let text = format!(
            "webhook-access-policy: none opens it (path {path:?}), and visitors need no login any more"
        );
        Note { hostname: self.name().into(), resource: resource.map(Into::into), text }
    }

    /// The refusal of one endpoint.
    fn refusal(&self, path: &str, resource: Option<&str>, reason: Reason) -> Refusal {
        Refusal {
            hostname: self.name().into(),
            set_identifier: Some(path.into()),
            resource: resource.map(Into::into),
            reason,
        }
    }
}

/// A, AAAA and CNAME exclude a CNAME; name servers below the zone's own name exclude everything.
fn excludes_cname(record: &Record, is_apex: bool) -> bool {
    match &*record.kind {
        "A" | "AAAA" | "CNAME" => true,
        "NS" => !is_apex,
        _ => false,
    }
}

/// A name more than one label below a wildcard takes the names between from it, and all below these (RFC 4592).
fn names_taken(host: &Host<'_>, plan: &HostPlan) -> Option<Note> {
    let name = host.name();
    let mut operations = plan.operations();
    let is_new = !host.has_record()
        && operations
            .any(|operation| matches!(operation, RecordOperation::Post(record) if *record.name == *name));
    let wildcard = host.zone.wildcard_over(name).first().filter(|_| is_new)?;
    let (_, above) = wildcard.name.split_once('.')?;
    let below = name.strip_suffix(above)?.strip_suffix('.')?;
    let (_, between) = below.split_once('.')?;
    let (_, taken) = between.rsplit_once('.').unwrap_or(("", between));
    let taken = format!("{taken}.{above}");
    Some(host.note(format!(
        "takes {taken:?} and all other names below that from the wildcard record {:?}, which answers for them no more \
         (RFC 4592): publish those that are needed, or \"*.{taken}\" and {taken:?}, by records of their own",
        wildcard.name
    )))
}

/// Rules that ExternalDNS was shown as ours and deletes, whose record has gone since, or is not used any more.
fn rules_left<'h>(host: &'h Host<'_>, request: &'h HostRequest) -> impl Iterator<Item = Note> + 'h {
    host.snapshot().rules_of(&host.hostname).into_iter().filter_map(move |(tunnel, rule)| {
        let path = rule.path().unwrap_or_default();
        let resource = request.withdrawn.get(path).filter(|_| !host.has_path(rule.path()))?.clone();
        let text = format!(
            "the rule for path {path:?} in tunnel {} stays, because no record of ours names it: delete it at Cloudflare, or set \
             ADOPT=all while ExternalDNS asks for the hostname",
            host.settings().name_of(tunnel)
        );
        Some(Note { hostname: host.name().into(), resource, text })
    })
}

/// Rules of ours that lose requests to a foreign one, because a narrower one of the hostname stands behind that.
fn requests_lost(host: &Host<'_>, plan: &HostPlan) -> Vec<Note> {
    let is_put = |(_, edit): &&(TunnelId, RuleEdit)| matches!(edit, RuleEdit::Put { .. });
    let (puts, removals): (Vec<_>, Vec<_>) = plan.edits.iter().partition(is_put);
    let goes = |rule: &Rule| removals.iter().any(|(_, edit)| rule.is_for(edit.hostname(), edit.path()));
    let owned = puts.iter().filter_map(|(tunnel, edit)| Some((host.situation.owned.get(tunnel)?, edit)));
    let lost = owned.flat_map(|(owned, edit)| owned.losing(edit.hostname(), edit.path()));
    let text = |own: &Rule, foreign: &Rule| {
        let (own, foreign) = (own.named(), foreign.named());
        format!(
            "the rule for {own} moves behind the one for {foreign}, which is not ours and takes requests of it now"
        )
    };
    let note = |text| Note { hostname: host.name().into(), resource: plan.resource.clone(), text };
    lost.filter(|(own, _)| !goes(own)).map(|(own, foreign)| note(text(own, foreign))).collect()
}
