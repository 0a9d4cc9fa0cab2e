//! Plans the writes of one `POST /records`, by hostname and by stage, and the refusals.
//!
//! The order of the stages preserves an invariant for each rule: its digest is in the stamp of its hostname before the
//! rule exists, and is removed only in [`Stage::Unstamp`], after the rule is deleted. So after any prefix of the
//! stages, `records` shows everything of ours, and ExternalDNS asks for the remaining changes again.

mod fingerprints;
mod host;
pub(crate) mod host_plan;
mod judge;
mod mass_deletion;
mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

pub(crate) use fingerprints::{Write, edit_fingerprint, operations_fingerprint, writes_of};
pub use fingerprints::{contents, rule_fingerprint};
pub use host::comment::Comments;
pub use host_plan::{Adoption, HostPlan, PlannedEdit, RecordOperation, Stage, Subject};
pub use request::{WrongOwner, needed_by_plan, tunnels_in_the_way};

use crate::ingress::{Document, MarkedRules, Rule, RuleEdit};
use crate::lean::inserted;
use crate::model::endpoint::Changes;
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::access::gate::{ApplicationWrite, Gated};
use crate::reconcile::access::place::Place;
use crate::reconcile::plan::host::HostContext;
use crate::reconcile::plan::host::outcome::{self, Outcome};
use crate::reconcile::plan::judge::Judge;
use crate::reconcile::plan::request::{HostRequest, Requests};
use crate::reconcile::plan_inputs::PlanInputs;
use crate::reconcile::reason::Reason;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::{OwnDigests, Snapshot};
use crate::reconcile::stamp::Digest;
use crate::reconcile::{Note, OperatorSettings, hint};

/// The writes of one request, with its refusals and notes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Sorted by name, without hostnames that need no write.
    pub hosts: Vec<HostPlan>,
    /// The requests that are not carried out, with the reasons.
    pub refusals: Vec<Refusal>,
    pub notes: Vec<Note>,
    /// Notes on hostnames whose visitors need no login after this request.
    pub opened: Vec<Opened>,
    /// The work on Access applications, independent of `hosts`.
    pub application_writes: Vec<ApplicationWrite>,
    /// The rules that are ours before anything is written.
    pub own: Arc<OwnDigests>,
    /// Hostnames that are left to later requests.
    pub postponed: BTreeSet<Box<str>>,
    /// The last hostname of this turn; `None` if no hostname is postponed.
    pub end: Option<TurnEnd>,
}

/// A note on a hostname, or a path of it, whose visitors need no login any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    pub note: Note,
    /// The place of the application whose deletion opens it; `None` if the hostname's own writes do.
    pub by: Option<Place>,
}

/// The last hostname of a turn. Withdrawn hostnames are sorted after all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TurnEnd {
    is_withdrawn: bool,
    hostname: Box<str>,
}

/// The hostnames that one request changes. Turns rotate: each starts after the previous turn's last hostname.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The end of the previous turn, if that turn postponed hostnames.
    pub previous_end: Option<&'a TurnEnd>,
    /// The maximum number of hostnames that change. Refused hostnames do not count.
    pub hostnames_max: usize,
}

/// A hostname that this turn may include.
enum Candidate {
    Wanted(Box<str>, HostRequest<Gated>),
    Planned(Box<HostPlan>),
}

impl Candidate {
    fn position(&self) -> TurnEnd {
        match self {
            Self::Wanted(name, _) => TurnEnd { is_withdrawn: false, hostname: name.clone() },
            Self::Planned(host) => {
                TurnEnd { is_withdrawn: host.is_withdrawn, hostname: host.hostname.clone() }
            }
        }
    }
}

/// The candidates in the order of this turn, each with its position: those after the previous turn's end come first.
fn in_turn(candidates: impl Iterator<Item = Candidate>, turn: &Turn<'_>) -> Vec<(TurnEnd, Candidate)> {
    let mut ordered: Vec<_> = candidates.map(|candidate| (candidate.position(), candidate)).collect();
    ordered.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let before =
        ordered.partition_point(|(position, _)| turn.previous_end.is_some_and(|end| position <= end));
    ordered.rotate_left(before);
    ordered
}

/// Plans the part of `changes` that belongs to `turn`, against the snapshot.
///
/// # Errors
///
/// If an endpoint is labelled with an owner other than ours.
pub fn plan(
    changes: &Changes,
    snapshot: &Snapshot,
    inputs: &PlanInputs,
    turn: &Turn<'_>,
) -> Result<Plan, WrongOwner> {
    let judge = Judge { snapshot, inputs };
    let Requests { by_hostname, notes } = Requests::read(changes, snapshot)?;
    let by_hostname = judge.judged(by_hostname);
    let marked_rules = snapshot.marked_rules();
    let context = HostContext { snapshot, inputs, marked_rules: &marked_rules };
    let mut plan = Plan { notes, ..Plan::default() };
    let (wanted, withdrawn): (Vec<_>, Vec<_>) =
        by_hostname.into_iter().partition(|(_, request)| request.withdrawn.is_empty());
    // Mass deletion is judged over the deletions of all hostnames, not only of this turn.
    for (name, request) in withdrawn {
        let host = plan.add(outcome::plan(&name, &request, context));
        plan.hosts.extend(host);
    }
    let mut plan = mass_deletion::without_mass_deletion(plan, snapshot);
    let planned = mem::take(&mut plan.hosts).into_iter().map(|host| Candidate::Planned(host.into()));
    let wanted = wanted.into_iter().map(|(name, request)| Candidate::Wanted(name, request));
    plan.take_turn(in_turn(wanted.chain(planned), turn), turn.hostnames_max, context);
    Refusal::replace_unmet_closings(&mut plan.refusals, &plan.postponed);
    plan.refusals.sort_unstable();
    plan.notes.extend(uncovered_names(&plan, snapshot));
    plan.notes.extend(reordered(&plan, snapshot, &marked_rules));
    plan.notes.extend(hints(&plan.hosts, snapshot.operator()));
    plan.notes.sort_unstable();
    plan.notes.dedup();
    // Several endpoints may ask for the deletion of the same application.
    plan.application_writes.sort_unstable_by(|one, other| {
        (&one.place, one.content_fingerprint()).cmp(&(&other.place, other.content_fingerprint()))
    });
    plan.application_writes.dedup();
    Ok(Plan { own: snapshot.own_digests(), ..plan })
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.application_writes.is_empty()
    }

    pub fn host(&self, hostname: &str) -> Option<&HostPlan> {
        self.hosts.get(self.hosts.binary_search_by(|host| (*host.hostname).cmp(hostname)).ok()?)
    }

    /// The hostnames with a digest that the plan removes because its rule was not read, although `document` has it.
    pub fn missed_in(&self, tunnel: &TunnelId, document: &Document) -> BTreeSet<Box<str>> {
        let rules = document.rules().iter().filter(|rule| rule.is_readable());
        let missed = rules.filter(|rule| {
            let host = self.host(rule.folded_hostname());
            let digest = Digest::of(tunnel, rule.path());
            let is_bare =
                |host: &HostPlan| !host.if_unwritable.is_empty() && host.comments.claimed_before(&digest);
            host.is_some_and(|host| host.stale.contains(&digest) || is_bare(host))
        });
        inserted(missed.map(|rule| rule.folded_hostname().into()))
    }

    /// The notes on hostnames that open although nothing is written of the hostnames in `unwritten`.
    pub fn opened_without<'p>(
        &'p self,
        unwritten: &'p BTreeSet<Box<str>>,
    ) -> impl Iterator<Item = &'p Opened> {
        self.opened.iter().filter(|opened| opened.by.is_some() || !unwritten.contains(&opened.note.hostname))
    }

    /// Reports that the applications of these places were not written, with the reasons. A refusal at the place, or a
    /// refusal that waits for the application, gets the reason. If there is none, a new refusal is added.
    pub fn note_failed_applications(&mut self, failed: Vec<(Place, Reason)>) {
        for (place, reason) in failed {
            self.opened.retain(|opened| opened.by.as_ref() != Some(&place));
            let waits = |refusal: &Refusal| matches!(&refusal.reason, Reason::ApplicationFirst(first) if *first == place);
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
        Refusal::replace_unmet_closings(&mut self.refusals, &self.postponed);
    }

    /// Removes the notes on hostnames that are not written.
    fn drop_notes_of(&mut self, hostnames: &BTreeSet<Box<str>>) {
        self.notes.retain(|note| !hostnames.contains(&note.hostname));
        self.opened = self.opened_without(hostnames).cloned().collect();
    }

    /// Adds the outcome of a hostname, and returns the writes that the hostname needs.
    fn add(&mut self, outcome: Outcome) -> Option<HostPlan> {
        self.refusals.extend(outcome.refusals);
        self.notes.extend(outcome.notes);
        self.opened.extend(outcome.opened);
        self.application_writes.extend(outcome.application_writes);
        outcome.plan
    }

    /// Plans the candidates until `most` hostnames change, and postpones the remaining candidates.
    fn take_turn(&mut self, candidates: Vec<(TurnEnd, Candidate)>, most: usize, context: HostContext<'_>) {
        let (mut untold, mut paused_hosts) = (BTreeSet::new(), BTreeSet::new());
        for (position, candidate) in candidates {
            if self.hosts.len() >= most {
                if matches!(candidate, Candidate::Planned(_)) {
                    untold.insert(position.hostname.clone());
                }
                self.postponed.insert(position.hostname);
                continue;
            }
            self.end = Some(position);
            let host = match candidate {
                Candidate::Planned(host) => Some(*host),
                Candidate::Wanted(name, request) => self.add(outcome::plan(&name, &request, context)),
            };
            let Some(host) = host else { continue };
            let paused = fingerprints::paused(&host, context.snapshot, &context.inputs.paused);
            if paused.is_empty() {
                self.hosts.push(host);
                continue;
            }
            self.refusals.extend(paused);
            paused_hosts.insert(host.hostname);
        }
        // A move whose writes are paused makes no progress, so it fails no request.
        let is_moving = |one: &Refusal| matches!(one.reason, Reason::Moving(_));
        self.refusals.retain(|one| !is_moving(one) || !paused_hosts.contains(&one.hostname));
        untold.append(&mut paused_hosts);
        self.drop_notes_of(&untold);
        if self.postponed.is_empty() {
            self.end = None;
        }
        self.hosts.sort_unstable_by(|one, other| one.hostname.cmp(&other.hostname));
    }
}

/// Notes on written rules that may not do what their endpoints ask for. Equal notes are given for one hostname only.
fn hints(hosts: &[HostPlan], operator: &OperatorSettings) -> impl Iterator<Item = Note> {
    let mut first: BTreeMap<String, &HostPlan> = BTreeMap::new();
    for host in hosts {
        let rules = host.edits.iter().filter_map(|planned| match &planned.edit {
            RuleEdit::Put { rule, .. } => Some(rule),
            RuleEdit::Remove { .. } => None,
        });
        for text in rules.flat_map(|rule| hint::hints(rule, operator)) {
            first.entry(text).or_insert(host);
        }
    }
    first.into_iter().map(|(text, host)| host.note(text))
}

/// Notes on rules that are taken over, if a put in this request or the next changes which requests they answer.
fn reordered(
    plan: &Plan,
    snapshot: &Snapshot,
    marked_rules: &BTreeMap<&TunnelId, MarkedRules<'_>>,
) -> Vec<Note> {
    let hosts = plan.hosts.iter().filter(|host| !host.adoptions.is_empty());
    let hosts = hosts.filter_map(|host| Some((host, Hostname::parse(&host.hostname).ok()?)));
    let hosts: Vec<(&HostPlan, Hostname)> = hosts.collect();
    let mut adopted = OwnDigests::default();
    hosts.iter().for_each(|(host, _)| adopted.add(&host.hostname, host.adopted_rules.iter().copied()));
    let mut notes = Vec::new();
    for (tunnel, marked_rules) in marked_rules.iter().filter(|_| !hosts.is_empty()) {
        let marked_rules = marked_rules.with_own(&|rule| adopted.has(tunnel, rule));
        for (host, hostname) in &hosts {
            let rules =
                snapshot.tunnels.get(*tunnel).into_iter().flat_map(|present| present.rules_of(hostname));
            let stays = |rule: &Rule| host.claims.digests.contains(&Digest::of(tunnel, rule.path()));
            let taken = rules.filter(|rule| adopted.has(tunnel, rule) && stays(rule));
            notes.extend(taken.filter_map(|rule| {
                let change = marked_rules.reordered(hostname, rule.path())?;
                let path = rule.path().unwrap_or_default();
                Some(Note::about(&host.hostname, format!("taken over (path {path:?}), {change}")))
            }));
        }
    }
    notes
}

/// Notes on new records more than one label below the zone, which the zone's certificate does not cover. Hostnames that
/// differ only in the first label get one note, or none if such a record already points to a tunnel.
fn uncovered_names(plan: &Plan, snapshot: &Snapshot) -> Vec<Note> {
    let made = plan
        .hosts
        .iter()
        .filter(|host| host.operations().any(|operation| matches!(operation, RecordOperation::Post(_))));
    let mut looked_at: BTreeSet<&str> = BTreeSet::new();
    made.filter_map(|host| {
        let zone = snapshot.zone_of(&host.hostname)?;
        let (name, (_, domain)) = (&zone.zone.name, host.hostname.split_once('.')?);
        let is_deep = host.hostname.strip_suffix(&**name)?.matches('.').count() > 1;
        let is_like = |record: &Record| {
            record.name.split_once('.').is_some_and(|(_, of)| of == domain)
                && TunnelId::from_hostname(&record.content).is_some()
        };
        let is_first = is_deep && looked_at.insert(domain) && !zone.records_within(domain).iter().any(is_like);
        let text = format!(
            "in a zone with full setup Universal SSL covers {name:?} and one label below it: browsers refuse this name \
             and its like unless another edge certificate covers \"*.{domain}\" (Total TLS, an advanced or a custom \
             one); look under SSL/TLS, Edge Certificates"
        );
        is_first.then(|| host.note(text))
    })
    .collect()
}
