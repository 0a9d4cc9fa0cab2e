//! Plans what one `POST /records` will write, hostname by hostname and stage by stage, and what is refused.
//!
//! The order of the stages keeps an invariant for each rule: its digest is in its host's stamp before the rule exists,
//! and leaves only after the rule is gone. So after any prefix of the stages `records` still names everything that is
//! ours, and ExternalDNS plans the rest again.

mod handover;
mod host;
mod judge;
mod mass_deletion;
mod preview;
mod refusal;
mod request;

use std::collections::{BTreeMap, BTreeSet};

pub use preview::{ApplicationOperation, ApplicationWork, Preview};
pub(crate) use refusal::MIGRATE_OR_TAKE_OVER;
pub use refusal::{Reason, Refusal};
pub use request::{WrongOwner, concerns};

use crate::ingress::{Document, RuleEdit, WantedRule};
use crate::labels::labels;
use crate::model::endpoint::Changes;
use crate::model::{NewRecord, Record, RecordId, RecordPatch, TunnelId, ZoneId};
use crate::ordered::inserted;
use crate::reconcile::plan::host::{Obstacles, Situation};
use crate::reconcile::plan::judge::Judge;
use crate::reconcile::plan::request::{HostRequest, Requests};
use crate::reconcile::snapshot::{OwnRules, Snapshot};
use crate::reconcile::stamp::Digest;
use crate::reconcile::{Note, Settings};

/// The stages of an apply, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Configurations: rules that go before their successors come, because the comment has no room for both.
    Withdraw,
    /// Records: new ones and new stamps.
    Stamp,
    /// Configurations: all additions, changes and removals, in one version.
    Publish,
    /// Records: removes the digests of rules that are gone, records that claim nothing any more, and records whose
    /// hostname now has its record in an inner zone.
    Unstamp,
    /// Records: lead hostnames to their new tunnel, once it serves them.
    Repoint,
}

impl Stage {
    /// All stages in order.
    pub const ALL: [Self; 5] = [Self::Withdraw, Self::Stamp, Self::Publish, Self::Unstamp, Self::Repoint];
}

/// What one request writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Sorted by name, without hostnames that need no write.
    pub hosts: Vec<HostPlan>,
    /// The work that is not done, with the reasons.
    pub refusals: Vec<Refusal>,
    pub notes: Vec<Note>,
    /// Withdrawn hostnames that stay until another tunnel has their visitors, sorted.
    pub handed_over: Vec<Box<str>>,
    /// Hostnames of which a path waits likewise, while others of their paths stay.
    pub waiting: Vec<Box<str>>,
    /// The rules that are ours before the first write.
    pub own_before: OwnRules,
    /// The rules that are ours once stamps are written.
    pub own_after: OwnRules,
}

/// What is known from earlier requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Rules that Cloudflare refused and would refuse again, by [`rule_work`], with the reasons.
    pub refused: BTreeMap<Box<str>, Reason>,
    /// Their records have led to the same tunnel for so long that no visitor is led elsewhere any more.
    pub moved: BTreeSet<Box<str>>,
    /// Their records have led to these tunnels for a shorter time.
    pub moving: BTreeMap<Box<str>, TunnelId>,
    /// They were withdrawn so long ago that they go, whoever serves their visitors then.
    pub handed_over: BTreeSet<Box<str>>,
    /// Hostnames have waited for these tunnels for so long that withdrawals in them wait no longer.
    pub late: BTreeSet<TunnelId>,
}

/// The content of a rule, by which a refusal is remembered.
pub fn rule_work(tunnel: &TunnelId, rule: &WantedRule) -> Box<str> {
    format!("{tunnel} {rule:?}").into()
}

/// Something foreign that becomes ours with the stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The path of the rule, empty for a rule without one; `None` for a record.
    pub path: Option<Box<str>>,
    pub was: String,
}

/// The writes that one hostname needs in each stage.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPlan {
    pub hostname: Box<str>,
    /// The object that asks for it, or that it came from; the first one if several ask for its paths.
    pub resource: Option<Box<str>>,
    /// The hostname will be gone.
    pub vanishes: bool,
    /// Edits of tunnels' documents by stage.
    pub edits: BTreeMap<Stage, Vec<(TunnelId, RuleEdit)>>,
    /// Operations on a zone's records by stage; those of one hostname belong in one batch.
    pub operations: BTreeMap<(Stage, ZoneId), Vec<RecordOperation>>,
    /// Rules and records that are taken over. They are ours as soon as the operations of [`Stage::Stamp`] are done.
    pub adoptions: Vec<Adoption>,
    /// The comments of records that are taken over. The records get them back if no rule of the hostname turns out to
    /// be ours.
    pub comments_before: Vec<(RecordId, Box<str>)>,
    /// The tunnel that has to serve the hostname before [`Stage::Repoint`] leads its record there. Until then visitors
    /// are served elsewhere.
    pub moves_to: Option<TunnelId>,
    /// The move cannot wait beyond this request: the record leads to a tunnel that is not configured, and with our
    /// stamp the next request would take it for another instance's.
    pub moves_now: bool,
    /// A copy of another record leads visitors until then. This plan creates it, so only the next one knows its id and
    /// leads it over.
    pub stands_in: bool,
}

impl HostPlan {
    /// One that writes nothing.
    pub fn empty(hostname: &str, resource: Option<Box<str>>) -> Self {
        Self {
            hostname: hostname.into(),
            resource,
            vanishes: false,
            edits: BTreeMap::new(),
            operations: BTreeMap::new(),
            adoptions: Vec::new(),
            comments_before: Vec::new(),
            moves_to: None,
            moves_now: false,
            stands_in: false,
        }
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
}

/// The record that is deleted, for a log line, because its id tells a reader nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// `CNAME`, `TXT`, …
    pub kind: Box<str>,
    /// The name, which for a TXT record of ExternalDNS's registry is not the hostname's.
    pub name: Box<str>,
}

/// Plans `changes` against what was read.
///
/// # Errors
///
/// When an endpoint is labelled with another owner than ours.
pub fn plan(
    changes: &Changes,
    snapshot: &Snapshot,
    earlier: &Earlier,
    settings: &Settings,
) -> Result<Plan, WrongOwner> {
    let own = snapshot.own_rules(settings);
    let judge = Judge { snapshot, settings, own: &own, earlier, is_preview: false };
    Ok(planned(&judge.judged(Requests::read(changes, settings)?), judge))
}

/// What has to be done about Access applications before [`plan`] can plan everything, and the plan as it may be then,
/// without what `hold_back` takes out.
///
/// # Errors
///
/// When an endpoint is labelled with another owner than ours.
pub fn preview(
    changes: &Changes,
    snapshot: &Snapshot,
    earlier: &Earlier,
    settings: &Settings,
    hold_back: &mut dyn FnMut(Plan) -> Plan,
) -> Result<Preview, WrongOwner> {
    let own = snapshot.own_rules(settings);
    let judge = Judge { snapshot, settings, own: &own, earlier, is_preview: true };
    let requests = judge.judged(Requests::read(changes, settings)?);
    Ok(Preview::of(hold_back(planned(&requests, judge)), &requests, judge))
}

fn planned(requests: &Requests, judge: Judge<'_>) -> Plan {
    let Judge { snapshot, settings, own, earlier, is_preview: _ } = judge;
    let Requests { by_hostname, notes } = requests;
    let owned = snapshot.owned(own);
    let situation = Situation { snapshot, settings, earlier, owned: &owned };
    let mut plan = allowed_by_documents(by_hostname, own, situation);
    plan.hosts.retain(|host| !host.is_empty());
    plan.refusals.sort_unstable();
    plan.notes.extend(notes.iter().cloned());
    plan.notes.extend(uncovered_names(&plan, snapshot));
    plan.notes.sort_unstable();
    plan.notes.dedup();
    plan
}

/// Plans to remove digests of rules that turned out to be foreign after they were stamped. If nothing else of a
/// hostname is ours, its records that were taken over get their `comments` back.
pub fn disown(
    disowned: &BTreeMap<Box<str>, BTreeSet<Digest>>,
    comments: &BTreeMap<Box<str>, Vec<(RecordId, Box<str>)>>,
    snapshot: &Snapshot,
    settings: &Settings,
) -> Plan {
    let own = snapshot.own_rules(settings);
    let (earlier, owned) = (Earlier::default(), BTreeMap::new());
    let situation = Situation { snapshot, settings, earlier: &earlier, owned: &owned };
    let hosts = disowned
        .iter()
        .filter_map(|(name, digests)| {
            let comments = comments.get(name).map(Vec::as_slice).unwrap_or_default();
            host::disown(name, digests, comments, situation)
        })
        .collect();
    Plan { hosts, own_after: own.clone(), own_before: own, ..Plan::default() }
}

impl RecordOperation {
    fn delete(record: &Record) -> Self {
        let subject = Subject { kind: record.kind.clone(), name: record.name.clone() };
        Self::Delete(record.id.clone(), subject)
    }
}

impl Plan {
    /// Notes what waits until another hostname has its visitors; those that are `going` would be gone otherwise.
    fn wait_for_visitors(&mut self, obstacles: &BTreeMap<Box<str>, Obstacles>, going: &BTreeSet<Box<str>>) {
        let is_waiting =
            |obstacles: &Obstacles| obstacles.values().any(|one| matches!(one, Reason::Moving(_)));
        for (hostname, _) in obstacles.iter().filter(|(_, obstacles)| is_waiting(obstacles)) {
            if going.contains(hostname) {
                self.handed_over.push(hostname.clone());
            } else {
                self.waiting.push(hostname.clone());
            }
        }
        self.handed_over.sort_unstable();
        self.handed_over.dedup();
    }

    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    pub fn host(&self, hostname: &str) -> Option<&HostPlan> {
        self.hosts.get(self.hosts.binary_search_by(|host| (*host.hostname).cmp(hostname)).ok()?)
    }
}

impl HostPlan {
    pub fn is_empty(&self) -> bool {
        self.edits.values().all(Vec::is_empty) && self.operations.values().all(Vec::is_empty)
    }

    /// True if a rule of the hostname goes.
    pub fn withdraws(&self) -> bool {
        self.edits.values().flatten().any(|(_, edit)| matches!(edit, RuleEdit::Remove { .. }))
    }

    /// The tunnel that [`Stage::Repoint`] leads a record to.
    pub fn led_to(&self) -> Option<TunnelId> {
        let operations = self.operations.iter().filter(|((stage, _), _)| *stage == Stage::Repoint);
        operations.flat_map(|(_, operations)| operations).find_map(|operation| match operation {
            RecordOperation::Patch(patch) => TunnelId::from_hostname(patch.content.as_deref()?),
            RecordOperation::Post(record) => TunnelId::from_hostname(&record.content),
            RecordOperation::Delete(..) => None,
        })
    }
}

/// Plans all hostnames, repeatedly leaving out what a tunnel's document refuses, until it refuses nothing.
fn allowed_by_documents(
    requests: &BTreeMap<Box<str>, HostRequest>,
    own: &OwnRules,
    situation: Situation<'_>,
) -> Plan {
    let Situation { snapshot, settings, .. } = situation;
    let mut obstacles = BTreeMap::new();
    let mut going = BTreeSet::new();
    loop {
        let mut plan = plan_hosts(requests, &obstacles, own, situation);
        plan.wait_for_visitors(&obstacles, &going);
        let plan = mass_deletion::without_mass_deletion(plan, snapshot, settings);
        let (mut plan, mut refused) = played(plan, snapshot);
        refused.extend(handover::too_early(&plan, requests, situation));
        if refused.is_empty() {
            return plan;
        }
        let mut is_news = false;
        for RefusedEdit { hostname, path, reason } in refused {
            if plan.host(&hostname).is_some_and(|host| host.vanishes) {
                going.insert(hostname.clone());
            }
            is_news |= obstacles.entry(hostname).or_default().insert(path, reason).is_none();
        }
        if !is_news {
            // Every refused edit belongs to a wanted or a withdrawn path, which the next plan leaves out.
            plan.hosts.retain(|host| !obstacles.contains_key(&host.hostname));
            return plan;
        }
    }
}

/// Plans each hostname by itself.
fn plan_hosts(
    requests: &BTreeMap<Box<str>, HostRequest>,
    obstacles: &BTreeMap<Box<str>, Obstacles>,
    own: &OwnRules,
    situation: Situation<'_>,
) -> Plan {
    let none = Obstacles::new();
    let mut plan = Plan { own_before: own.clone(), own_after: own.clone(), ..Plan::default() };
    for (name, request) in requests {
        let obstacles = obstacles.get(name).unwrap_or(&none);
        let outcome = host::plan(name, request, obstacles, situation);
        plan.handed_over.extend(outcome.has_heir.then(|| name.clone()));
        plan.refusals.extend(outcome.refusals);
        plan.notes.extend(outcome.notes);
        plan.own_after.add(name, outcome.new_digests);
        plan.hosts.extend(outcome.plan);
    }
    plan
}

struct RefusedEdit {
    hostname: Box<str>,
    path: Option<Box<str>>,
    reason: Reason,
}

/// Tries the edits on the snapshot, and returns those that a document refuses, so that the plan is made again without
/// them. If none is refused, it removes edits without effect from the plan, and notes rules that no request will reach.
fn played(mut plan: Plan, snapshot: &Snapshot) -> (Plan, Vec<RefusedEdit>) {
    let mut documents: BTreeMap<&TunnelId, Document> =
        inserted(snapshot.tunnels.iter().map(|(id, tunnel)| (id, tunnel.document.clone())));
    for stage in [Stage::Withdraw, Stage::Publish] {
        let own = plan.own_in(stage).clone();
        for (tunnel, document) in &mut documents {
            let (hosts, edits) = plan.edits_of(stage, tunnel);
            if edits.is_empty() {
                continue;
            }
            let edited = document.edit(&edits, &|rule| own.has(tunnel, rule));
            if !edited.refused.is_empty() {
                let refused = edited.refused.into_iter().filter_map(|(index, refusal)| {
                    let path = edits.get(index)?.path().map(Into::into);
                    let reason = Reason::Edit(refusal.to_string());
                    Some(RefusedEdit { hostname: hosts.get(index)?.clone(), path, reason })
                });
                let refused = refused.collect();
                return (plan, refused);
            }
            plan.drop_idle_edits(stage, tunnel, &edited.effective);
            *document = edited.document;
        }
    }
    let unreachable: Vec<Note> =
        documents.iter().flat_map(|(tunnel, document)| unreachable_rules(&plan, tunnel, document)).collect();
    plan.notes.extend(unreachable);
    (plan, Vec::new())
}

/// Hostnames with a new record that no zone's certificate covers: its wildcard stands for one label.
fn uncovered_names(plan: &Plan, snapshot: &Snapshot) -> Vec<Note> {
    let made = plan.hosts.iter().filter(|host| {
        host.operations.values().flatten().any(|operation| matches!(operation, RecordOperation::Post(_)))
    });
    made.filter_map(|host| {
        let zone = &snapshot.zone_of(&host.hostname)?.zone.name;
        let below = host.hostname.strip_suffix(&**zone)?;
        (below.matches('.').count() > 1).then(|| Note {
            hostname: host.hostname.clone(),
            resource: host.resource.clone(),
            text: format!(
                "in a zone with full setup Universal SSL covers {zone:?} and one label below it: browsers refuse \
                 this name unless another edge certificate covers it (Total TLS, an advanced or a custom one); look \
                 under SSL/TLS, Edge Certificates"
            ),
        })
    })
    .collect()
}

/// Rules of ours that get no request, because a rule in front takes them all.
fn unreachable_rules(plan: &Plan, tunnel: &TunnelId, document: &Document) -> Vec<Note> {
    let rules = document.owned(&|_| false);
    let edits = plan
        .hosts
        .iter()
        .flat_map(|host| host.edits.values().flatten().map(|(id, edit)| (&host.resource, id, edit)));
    edits
        .filter(|(_, id, _)| *id == tunnel)
        .filter_map(|(resource, _, edit)| match edit {
            RuleEdit::Put { rule, .. } => Some((resource, rule)),
            RuleEdit::Remove { .. } => None,
        })
        .filter_map(|(resource, rule)| {
            let front = rules.hidden_by(&rule.hostname, rule.path_text())?;
            let (hostname, path) = (front.hostname(), front.path().unwrap_or_default());
            Some(Note {
                hostname: rule.hostname.as_str().into(),
                resource: resource.clone(),
                text: format!(
                    "path={:?} no request reaches the rule: the one for {hostname:?} {path:?} in front takes them all",
                    rule.path_text().unwrap_or_default()
                ),
            })
        })
        .collect()
}

impl Plan {
    /// The rules that are ours when `stage` begins.
    pub fn own_in(&self, stage: Stage) -> &OwnRules {
        if stage <= Stage::Stamp { &self.own_before } else { &self.own_after }
    }

    /// The edits of one tunnel in one stage, and the hostname of each.
    pub fn edits_of(&self, stage: Stage, tunnel: &TunnelId) -> (Vec<Box<str>>, Vec<RuleEdit>) {
        self.hosts
            .iter()
            .flat_map(|host| host.edits.get(&stage).into_iter().flatten().map(move |edit| (host, edit)))
            .filter(|(_, (id, _))| id == tunnel)
            .map(|(host, (_, edit))| (host.hostname.clone(), edit.clone()))
            .unzip()
    }

    /// Removes edits without effect. An edit that takes a foreign rule over unchanged stays, because the rule has to be
    /// found unchanged again once its digest is stamped.
    fn drop_idle_edits(&mut self, stage: Stage, tunnel: &TunnelId, effective: &BTreeSet<usize>) {
        // As `edits_of` counts them.
        let mut indices = 0..;
        for host in &mut self.hosts {
            let looks_again = !host.adoptions.is_empty();
            if let Some(edits) = host.edits.get_mut(&stage) {
                edits.retain(|(id, edit)| {
                    id != tunnel
                        || indices.next().is_some_and(|index| effective.contains(&index))
                        || (looks_again && matches!(edit, RuleEdit::Put { rule: _, replaces: false }))
                });
            }
        }
    }
}
