//! Plans what one `POST /records` will write, hostname by hostname and stage by stage, and what is refused.
//!
//! The order of the stages keeps an invariant for each rule: its digest is in its host's stamp before the rule exists,
//! and leaves only in [`Stage::Unstamp`], after the rule is gone. So after any prefix of the stages `records` still names
//! everything that is ours, and ExternalDNS plans the rest again.

mod fingerprints;
mod host;
mod judge;
mod mass_deletion;
mod refusal;
mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::mem;
use std::sync::Arc;

pub(crate) use fingerprints::{Write, record_work, tunnel_work, writes_of};
pub use fingerprints::{rule_work, works};
pub(crate) use refusal::MIGRATE_OR_TAKE_OVER;
pub use refusal::{MISTAKE, Reason, RecordNature, Refusal, WAITING};
pub use request::{WrongOwner, concerning, tunnels_in_the_way};

use crate::ingress::{Document, Owned, Rule, RuleEdit};
use crate::labels::labels;
use crate::model::endpoint::{Changes, Property};
use crate::model::{Hostname, NewRecord, Record, RecordId, RecordPatch, TunnelId, ZoneId};
use crate::ordered::{inserted, sort, sort_by};
use crate::reconcile::access::answering;
use crate::reconcile::access::gate::ApplicationWork;
pub use crate::reconcile::plan::host::Comments;
use crate::reconcile::plan::host::{Outcome, Situation};
use crate::reconcile::plan::judge::Judge;
use crate::reconcile::plan::request::{HostRequest, Requests};
use crate::reconcile::snapshot::{OwnRules, Snapshot};
use crate::reconcile::stamp::{Claims, Digest};
use crate::reconcile::{Note, Settings, hint};

/// The stages of an apply, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Records: new ones, stamps that name what comes and what goes, and targets of hostnames whose new tunnel serves
    /// them.
    Stamp,
    /// Configurations: all additions, changes and removals, in one version.
    Publish,
    /// Records: stamps that name what stands now. Records of hostnames that are withdrawn go.
    Unstamp,
}

impl Stage {
    /// All stages in order.
    pub const ALL: [Self; 3] = [Self::Stamp, Self::Publish, Self::Unstamp];
}

/// What one request writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Sorted by name, without hostnames that need no write.
    pub hosts: Vec<HostPlan>,
    /// The work that is not done, with the reasons.
    pub refusals: Vec<Refusal>,
    pub notes: Vec<Note>,
    /// What is told of the hostnames that open, once that is done.
    pub opened: Vec<Note>,
    /// The work on Access applications, which waits for none of the writes above, and for which none of them waits.
    pub work: Vec<ApplicationWork>,
    /// The rules that are ours before anything is written.
    pub own: Arc<OwnRules>,
    /// The rules that become ours with their stamps.
    pub taken_over: OwnRules,
    /// Hostnames that are left to later requests, without a look at what they need.
    pub left: BTreeSet<Box<str>>,
    /// Where the next turn begins, if hostnames are left.
    pub end: Option<TurnEnd>,
}

/// The last hostname of a turn, and whether it vanishes: such hostnames come after all others.
pub type TurnEnd = (bool, Box<str>);

/// The hostnames that one request changes. All get their turn, because each begins behind the one before, round and
/// round.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The end of the turn before, if it left hostnames.
    pub behind: Option<&'a TurnEnd>,
    /// So many hostnames change. Those that are refused do not count.
    pub most: usize,
}

/// A hostname that may get its turn.
enum Candidate {
    Wanted(Box<str>, HostRequest),
    Planned(Box<HostPlan>),
}

impl Candidate {
    fn position(&self) -> (bool, &str) {
        match self {
            Self::Wanted(name, _) => (false, name),
            Self::Planned(host) => (host.vanishes, &host.hostname),
        }
    }
}

/// What is known besides what was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// The contents that must not be written now, with the reasons: Cloudflare refused them and would refuse them again, or
    /// does not keep them.
    pub held: BTreeMap<u64, Reason>,
    /// Tunnels whose connectors do not serve yet what was read of them, with the reasons. No record is led there.
    pub unready: BTreeMap<TunnelId, String>,
    /// Whether the tunnels were deleted that [`tunnels_in_the_way`] names, or why that is not known.
    pub deleted: BTreeMap<TunnelId, Result<bool, String>>,
    /// What this process left undone, by hostname.
    pub unfinished: BTreeMap<Box<str>, Unfinished>,
    /// Nothing is written, so what waits for its application, for connectors or for the grace is planned as well.
    pub is_preview: bool,
}

/// What a run left undone of a hostname.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// The digests of the rules that it was to write or remove. Those without a rule are its own, and come off at once.
    pub digests: BTreeSet<Digest>,
    /// It made the record.
    pub is_new: bool,
}

/// Something foreign that becomes ours with the stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The path of the rule, empty for a rule without one; `None` for a record.
    pub path: Option<Box<str>>,
    /// All of it, as JSON that restores it.
    pub was: String,
    /// The options of the rule that change, as cloudflared goes by them now.
    pub options: Vec<Property>,
}

/// The writes that one hostname needs: records, then rules, then records.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPlan {
    pub hostname: Box<str>,
    /// The object that asks for it, or that it came from; the first one if several ask for its paths.
    pub resource: Option<Box<str>>,
    /// The hostname will be gone.
    pub vanishes: bool,
    /// The zone of its records.
    pub zone: ZoneId,
    /// Operations on records in [`Stage::Stamp`], which belong in one batch.
    pub stamp: Vec<RecordOperation>,
    /// Edits of tunnels' documents.
    pub edits: Vec<(TunnelId, RuleEdit)>,
    /// Operations on records in [`Stage::Unstamp`], which belong in one batch.
    pub unstamp: Vec<RecordOperation>,
    /// Operations on records in place of all others, if a tunnel cannot be written.
    pub without_tunnel: Vec<RecordOperation>,
    /// Rules and records that are taken over. They are ours as soon as the operations of [`Stage::Stamp`] are done.
    pub adoptions: Vec<Adoption>,
    /// The tunnel that a record is led to in [`Stage::Stamp`]. Its connectors have to serve the hostname before.
    pub moves_to: Option<TunnelId>,
    /// What the records claim at the end, if all of it is done.
    pub claims: Claims,
    /// The digests without a rule that come off in [`Stage::Unstamp`], if no tunnel has a rule with one of them.
    pub dead: BTreeSet<Digest>,
    /// The comments that the hostname's record can have.
    pub comments: Comments,
}

impl HostPlan {
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.operations().next().is_none()
    }

    /// What is left undone of it, and of the run before, if this one does not do all of it.
    pub fn unfinished(&self, before: Option<&Unfinished>) -> Unfinished {
        let mut unfinished = before.cloned().unwrap_or_default();
        let digests = self.edits.iter().map(|(tunnel, edit)| Digest::of(tunnel, edit.path()));
        unfinished.digests.extend(digests);
        unfinished.is_new |= self.stamp.iter().any(|one| matches!(one, RecordOperation::Post(_)));
        unfinished
    }

    /// The operations on records of both stages.
    pub fn operations(&self) -> impl Iterator<Item = &RecordOperation> {
        self.stamp.iter().chain(&self.unstamp)
    }
}

/// One entry of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordOperation {
    Delete(RecordId, Subject),
    /// Changes fields of a record.
    Patch(RecordPatch),
    Post(NewRecord),
}

impl RecordOperation {
    labels! {
        Self::Delete(..) => "record_deleted",
        Self::Patch(_) => "record_changed",
        Self::Post(_) => "record_created",
    }

    /// What it does, for a log line.
    pub(crate) fn words(&self) -> String {
        match self {
            // A TXT record belongs to ExternalDNS's registry, under a name of its own.
            Self::Delete(_, Subject { kind, name }) if &**kind == "TXT" => {
                format!("TXT record deleted, name={name:?}")
            }
            Self::Delete(..) => "record deleted".to_owned(),
            Self::Patch(RecordPatch { id: _, content, proxied, comment }) => {
                let mut text = "record changed".to_owned();
                for (field, value) in [("target", content), ("comment", comment)] {
                    if let Some(value) = value {
                        let _ = write!(text, ", {field}={value:?}");
                    }
                }
                text.push_str(if *proxied == Some(true) { ", proxied" } else { "" });
                text
            }
            Self::Post(record) => format!("record created, target={:?}", &*record.content),
        }
    }
}

/// The record that is deleted, for a log line, because its id tells a reader nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// `CNAME`, `TXT`, …
    pub kind: Box<str>,
    /// The name, which for a TXT record of ExternalDNS's registry is not the hostname's.
    pub name: Box<str>,
}

/// Plans `changes` against what was read, as far as `turn` goes.
///
/// # Errors
///
/// When an endpoint is labelled with another owner than ours.
pub fn plan(
    changes: &Changes,
    snapshot: &Snapshot,
    earlier: &Earlier,
    turn: &Turn<'_>,
    settings: &Settings,
) -> Result<Plan, WrongOwner> {
    let judge = Judge { snapshot, settings, earlier };
    let Requests { by_hostname, notes } = judge.judged(Requests::read(changes, &snapshot.access, settings)?);
    let owned = snapshot.owned(settings);
    let situation = Situation { snapshot, settings, earlier, owned: &owned };
    let mut plan = Plan { notes, ..Plan::default() };
    let (wanted, withdrawn): (Vec<_>, Vec<_>) =
        by_hostname.into_iter().partition(|(_, request)| request.withdrawn.is_empty());
    // Whether deletions are a mass is judged over all of them, whatever the turn.
    for (name, request) in withdrawn {
        let host = plan.add(&name, host::plan(&name, &request, situation));
        plan.hosts.extend(host);
    }
    let mut plan = mass_deletion::without_mass_deletion(plan, snapshot, settings);
    let planned = mem::take(&mut plan.hosts).into_iter().map(|host| Candidate::Planned(host.into()));
    let wanted = wanted.into_iter().map(|(name, request)| Candidate::Wanted(name, request));
    plan.take_turn(wanted.chain(planned).collect(), turn, situation);
    Refusal::settle(&mut plan.refusals, &plan.left);
    sort(&mut plan.refusals);
    plan.notes.extend(uncovered_names(&plan, snapshot));
    plan.notes.extend(unchecked_names(&plan, snapshot));
    plan.notes.extend(reordered(&plan, snapshot, &owned));
    plan.notes.extend(hints(&plan.hosts, settings));
    sort(&mut plan.notes);
    plan.notes.dedup();
    // Several endpoints may open what one application protects.
    sort_by(&mut plan.work, |one, other| {
        (&one.place, one.content_key()).cmp(&(&other.place, other.content_key()))
    });
    plan.work.dedup();
    Ok(Plan { own: snapshot.own_rules(settings), ..plan })
}

impl RecordOperation {
    fn delete(record: &Record) -> Self {
        let subject = Subject { kind: record.kind.clone().into(), name: record.name.clone() };
        Self::Delete(record.id.clone(), subject)
    }
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.work.is_empty()
    }

    pub fn host(&self, hostname: &str) -> Option<&HostPlan> {
        self.hosts.get(self.hosts.binary_search_by(|host| (*host.hostname).cmp(hostname)).ok()?)
    }

    /// The hostnames of which a document has a rule whose digest is to come off as one without a rule.
    pub fn missed_in(&self, tunnel: &TunnelId, document: &Document) -> BTreeSet<Box<str>> {
        let rules = document.rules().iter().filter(|rule| rule.is_readable());
        let missed = rules.filter(|rule| {
            let host = self.host(rule.folded_hostname());
            let digest = Digest::of(tunnel, rule.path());
            let is_bare = |host: &HostPlan| !host.without_tunnel.is_empty() && host.comments.named(&digest);
            host.is_some_and(|host| host.dead.contains(&digest) || is_bare(host))
        });
        inserted(missed.map(|rule| rule.folded_hostname().into()))
    }

    /// Adds what was found about a hostname, and returns the writes that it needs.
    fn add(&mut self, name: &str, outcome: Outcome) -> Option<HostPlan> {
        self.taken_over.add(name, outcome.taken_over);
        self.refusals.extend(outcome.refusals);
        self.notes.extend(outcome.notes);
        self.opened.extend(outcome.opened);
        self.work.extend(outcome.work);
        outcome.plan
    }

    /// Plans the candidates of a turn, and leaves the others.
    fn take_turn(&mut self, mut candidates: Vec<Candidate>, turn: &Turn<'_>, situation: Situation<'_>) {
        sort_by(&mut candidates, |one, other| one.position().cmp(&other.position()));
        let is_before = |one: &Candidate| {
            turn.behind.is_some_and(|(vanishes, hostname)| one.position() <= (*vanishes, hostname))
        };
        let before = candidates.partition_point(is_before);
        candidates.rotate_left(before);
        let (mut end, mut held_back) = (None, BTreeSet::new());
        for candidate in candidates {
            let (vanishes, hostname) = candidate.position();
            if self.hosts.len() >= turn.most {
                self.left.insert(hostname.into());
                continue;
            }
            end = Some((vanishes, hostname.into()));
            let host = match candidate {
                Candidate::Planned(host) => Some(*host),
                Candidate::Wanted(name, request) => self.add(&name, host::plan(&name, &request, situation)),
            };
            let Some(host) = host else { continue };
            let held = fingerprints::held(&host, situation.snapshot, &situation.earlier.held);
            if held.is_empty() {
                self.hosts.push(host);
            } else {
                held_back.insert(host.hostname);
            }
            self.refusals.extend(held);
        }
        // A move of which nothing is written does not go on, so no request fails for it.
        let goes_on =
            |one: &Refusal| !matches!(one.reason, Reason::Moving(_)) || !held_back.contains(&one.hostname);
        self.refusals.retain(goes_on);
        self.end = end.filter(|_| !self.left.is_empty());
        sort_by(&mut self.hosts, |one, other| one.hostname.cmp(&other.hostname));
    }
}

/// What the rules that are written may not mean. What is the same of many is told of the first hostname.
fn hints(hosts: &[HostPlan], settings: &Settings) -> impl Iterator<Item = Note> {
    let mut first: BTreeMap<String, &HostPlan> = BTreeMap::new();
    for host in hosts {
        let rules = host.edits.iter().filter_map(|(_, edit)| match edit {
            RuleEdit::Put { rule, .. } => Some(rule),
            RuleEdit::Remove { .. } => None,
        });
        for text in rules.flat_map(|rule| hint::hints(rule, &settings.policy)) {
            first.entry(text).or_insert(host);
        }
    }
    first.into_iter().map(|(text, host)| {
        let HostPlan { hostname, resource, .. } = host;
        Note { hostname: hostname.clone(), resource: resource.clone(), text }
    })
}

/// Wildcards whose check goes with their rule, where the rule of a wider one answers then without a login. No application
/// of the wildcard asks visitors of names more than one label below it.
fn unchecked_names(plan: &Plan, snapshot: &Snapshot) -> Vec<Note> {
    let hosts = plan.hosts.iter().filter(|host| host.hostname.starts_with('*'));
    let edits = hosts.flat_map(|host| host.edits.iter().map(move |(tunnel, edit)| (host, tunnel, edit)));
    let unchecked = edits.filter_map(|(host, tunnel, edit)| {
        let near = snapshot.tunnels.get(tunnel)?.near(&host.hostname).map(|(_, rule)| rule);
        let mut taking = near.filter(|rule| edit.is_covered_by(rule));
        let (rule, behind) = (taking.next()?, taking.next()?);
        let is_removed = matches!(edit, RuleEdit::Remove { hostname, .. } if rule.has_hostname(hostname));
        let text = format!(
            "its rule required a login of names more than one label below it, and the rule of {:?} answers them now \
             without one: publish such names themselves, with webhook-access-policy",
            behind.hostname()
        );
        let (hostname, resource) = (host.hostname.clone(), host.resource.clone());
        (is_removed && rule.requires_access() && answering::is_open(behind))
            .then_some(Note { hostname, resource, text })
    });
    unchecked.collect()
}

/// Rules that are taken over and answer other requests from then on, in this request or in the next.
fn reordered(plan: &Plan, snapshot: &Snapshot, owned: &BTreeMap<&TunnelId, Owned<'_>>) -> Vec<Note> {
    let hosts = plan.hosts.iter().filter(|host| !host.adoptions.is_empty());
    let hosts = hosts.filter_map(|host| Some((host, Hostname::parse(&host.hostname).ok()?)));
    let hosts: Vec<(&HostPlan, Hostname)> = hosts.collect();
    let mut notes = Vec::new();
    for (tunnel, owned) in owned.iter().filter(|_| !hosts.is_empty()) {
        let owned = owned.and(&|rule| plan.taken_over.has(tunnel, rule));
        for (host, hostname) in &hosts {
            let rules =
                snapshot.tunnels.get(*tunnel).into_iter().flat_map(|present| present.rules_of(hostname));
            let stays = |rule: &Rule| host.claims.rules.contains(&Digest::of(tunnel, rule.path()));
            let taken = rules.filter(|rule| plan.taken_over.has(tunnel, rule) && stays(rule));
            notes.extend(taken.filter_map(|rule| {
                let change = owned.reordered(hostname, rule.path())?;
                let path = rule.path().unwrap_or_default();
                Some(Note::about(&host.hostname, format!("taken over (path {path:?}), {change}")))
            }));
        }
    }
    notes
}

/// Hostnames with a new record that no zone's certificate covers: its wildcard stands for one label. Of those that share
/// all labels but the first it is the first one.
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
        is_first.then(|| Note {
            hostname: host.hostname.clone(),
            resource: host.resource.clone(),
            text: format!(
                "in a zone with full setup Universal SSL covers {name:?} and one label below it: browsers refuse this \
                 name and its like unless another edge certificate covers \"*.{domain}\" (Total TLS, an advanced or a \
                 custom one); look under SSL/TLS, Edge Certificates"
            ),
        })
    })
    .collect()
}
