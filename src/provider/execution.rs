//! Carries a plan out, stage by stage. One bad one never stops the rest: what Cloudflare refuses is narrowed down
//! until it stands alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use log::{debug, info, warn};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{
    AccountId, Batch, Client, Configuration, Error, Plan as ZonePlan, RecordPatch, Refusal as Answer, ZoneId,
};
use crate::limits;
use crate::observe::metrics::{Family, Metrics};
use crate::ordered::inserted;
use crate::provider::breaker::Write;
use crate::provider::journal;
use crate::provider::unpublished::Unpublished;
use crate::provider::{Provider, Resolved};
use crate::reconcile::Settings;
use crate::reconcile::plan::{Adoption, HostPlan, Plan, Reason, RecordOperation, Refusal, Stage};
use crate::reconcile::snapshot::Snapshot;
use crate::tunnel::{Document, DocumentError, EditRefusal, RuleEdit, TunnelId};

/// Why an execution ended before its plan did.
#[derive(Debug)]
pub(super) enum Stop {
    /// A write may or may not have been done: start again at the read.
    Uncertain(Error),
    /// Cloudflare cannot be written to now.
    Failed(Error),
    /// A tunnel's document could not be read.
    Document(TunnelId, DocumentError),
    /// What is left does not fit into the deadline.
    OutOfTime,
}

/// What Cloudflare refused, in the form in which the journal remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) refusal: Refusal,
    /// The work that was refused.
    pub(super) work: Box<str>,
    /// The zone is full; holds its number of records.
    pub(super) quota: Option<(ZoneId, usize)>,
}

/// What an execution that reached the end of its plan leaves to do.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) refusals: Vec<Refusal>,
    pub(super) rejections: Vec<Rejection>,
    /// Hostnames of which not everything was done.
    pub(super) dropped: BTreeSet<Box<str>>,
    /// Rules that Cloudflare took, and stored otherwise than they were sent.
    pub(super) altered: Vec<Write>,
    /// A new rule met a foreign one after its digest was stamped.
    pub(super) met_foreign: bool,
}

/// One run over a plan.
pub(super) struct Execution<'a> {
    pub(super) client: &'a Client,
    pub(super) account: &'a AccountId,
    pub(super) clock: &'a dyn Clock,
    pub(super) deadline: Deadline,
    pub(super) plan: &'a Plan,
    pub(super) snapshot: &'a Snapshot,
    done: Done,
    full_zones: BTreeSet<ZoneId>,
    record_counts: BTreeMap<ZoneId, usize>,
    isolating_calls_left: usize,
    unpublished: &'a mut Unpublished,
    settings: &'a Settings,
    metrics: &'a Metrics,
}

/// One edit and the hostname it is for.
type Edit<'a> = (&'a str, &'a RuleEdit);

/// The operations of one hostname, which belong in one batch.
type Unit<'a> = (&'a str, &'a [RecordOperation]);

impl<'a> Execution<'a> {
    pub(super) fn new(
        provider: &'a Provider,
        resolved: &'a Resolved,
        deadline: Deadline,
        plan: &'a Plan,
        snapshot: &'a Snapshot,
        unpublished: &'a mut Unpublished,
    ) -> Self {
        let record_counts =
            inserted(snapshot.zones.iter().map(|zone| (zone.zone.id.clone(), zone.records().len())));
        Self {
            client: &provider.client,
            account: &resolved.account,
            clock: &*provider.clock,
            deadline,
            plan,
            snapshot,
            done: Done::default(),
            full_zones: BTreeSet::new(),
            record_counts,
            isolating_calls_left: limits::ISOLATING_CALLS_MAX,
            unpublished,
            settings: &resolved.settings,
            metrics: &provider.metrics,
        }
    }

    /// Carries out every stage.
    pub(super) fn run(&mut self) -> Result<Done, Stop> {
        for stage in Stage::ALL {
            match stage {
                Stage::Withdraw | Stage::Publish | Stage::Retire => self.run_edits(stage)?,
                Stage::Unregister | Stage::Stamp | Stage::Repoint | Stage::Unstamp | Stage::Register => {
                    self.run_operations(stage)?;
                }
            }
        }
        Ok(std::mem::take(&mut self.done))
    }

    fn run_edits(&mut self, stage: Stage) -> Result<(), Stop> {
        let plan = self.plan;
        let mut by_tunnel: BTreeMap<&TunnelId, Vec<Edit<'a>>> = BTreeMap::new();
        for host in self.hosts(plan) {
            for (tunnel, edit) in host.edits.get(&stage).into_iter().flatten() {
                by_tunnel.entry(tunnel).or_default().push((&host.hostname, edit));
            }
        }
        by_tunnel.into_iter().try_for_each(|(tunnel, work)| self.put_edits(stage, tunnel, &work))
    }

    fn hosts(&self, plan: &'a Plan) -> impl Iterator<Item = &'a HostPlan> + use<'a> {
        let dropped = self.done.dropped.clone();
        plan.hosts.iter().filter(move |host| !dropped.contains(&host.hostname))
    }

    /// GET, edit, PUT. A hostname whose edit is refused, here or by Cloudflare, is dropped.
    fn put_edits(&mut self, stage: Stage, tunnel: &'a TunnelId, work: &[Edit<'a>]) -> Result<(), Stop> {
        if work.is_empty() {
            return Ok(());
        }
        self.check_time()?;
        let configuration =
            self.client.configuration(self.account, tunnel, self.deadline).map_err(Stop::from)?;
        let document = Document::parse(configuration.config.as_deref())
            .map_err(|error| Stop::Document(tunnel.clone(), error))?;
        let edits: Vec<RuleEdit> =
            work.iter().map(|(hostname, edit)| self.without_claim(tunnel, hostname, edit)).collect();
        let own = self.plan.own_in(stage);
        let edited = document.edit(&edits, &|rule| own.has(tunnel, rule));
        for (index, refusal) in &edited.refused {
            if let Some((hostname, edit)) = work.get(*index) {
                self.drop_conflicting(tunnel, hostname, edit, refusal);
            }
        }
        // Also what is left of a hostname that was dropped meanwhile: it is in the document, and so it is ours.
        let is_refused = |index: usize| edited.refused.iter().any(|(refused, _)| *refused == index);
        let work: Vec<Edit<'a>> =
            work.iter().enumerate().filter(|(index, _)| !is_refused(*index)).map(|(_, edit)| *edit).collect();
        if !edited.changed {
            self.note_published(tunnel, &work);
            return Ok(());
        }
        self.check_time()?;
        let written =
            self.client.put_configuration(self.account, tunnel, &edited.document.to_raw(), self.deadline);
        if written.as_ref().err().is_none_or(Error::may_have_been_done) {
            self.note_published(tunnel, &work);
        }
        match written {
            Ok(answer) => {
                self.report_written(tunnel, &configuration, &answer, &work);
                self.note_altered(tunnel, &answer, &work);
                Ok(())
            }
            Err(Error::Refused(answer)) if answer.is_bad_configuration() => {
                self.isolate_edit(stage, tunnel, &work, &edited.document, &answer)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Cloudflare may store a rule otherwise than it was sent, a default as nothing for one. Sent again it would come
    /// out the same.
    fn note_altered(&mut self, tunnel: &TunnelId, stored: &Configuration, work: &[Edit<'a>]) {
        let Ok(document) = Document::parse(stored.config.as_deref()) else {
            return;
        };
        for (hostname, edit) in work {
            let RuleEdit::Put { rule, replaces: _ } = edit else {
                continue;
            };
            let standing =
                document.rules_of(&rule.hostname).find(|standing| standing.path() == rule.path_text());
            if let Some(standing) = standing.filter(|standing| !standing.equals(rule)) {
                let field = journal::differing_property(edit, Some(standing)).into();
                self.done.refusals.push(Refusal {
                    hostname: (*hostname).into(),
                    set_identifier: Some(rule.path_text().unwrap_or_default().into()),
                    reason: Reason::NotKept { field },
                });
                self.done.altered.push(journal::rule_write(tunnel, edit, Some(standing), false));
            }
        }
    }

    /// The edit; a rule that stands in the place of one that was never written is not to be replaced.
    fn without_claim(&self, tunnel: &TunnelId, hostname: &str, edit: &RuleEdit) -> RuleEdit {
        match edit {
            RuleEdit::Put { rule, replaces: _ } if self.unpublished.has(tunnel, hostname, edit) => {
                RuleEdit::Put { rule: rule.clone(), replaces: false }
            }
            edit => edit.clone(),
        }
    }

    fn note_published(&mut self, tunnel: &TunnelId, work: &[Edit<'a>]) {
        self.unpublished.remove(tunnel, work.iter().copied());
    }

    /// Between the plan and this write a foreign rule has taken the place.
    fn drop_conflicting(
        &mut self,
        tunnel: &TunnelId,
        hostname: &str,
        edit: &RuleEdit,
        refusal: &EditRefusal,
    ) {
        self.leave_out(hostname, Reason::Edit(refusal.to_string()));
        self.done.met_foreign |= self.unpublished.has(tunnel, hostname, edit);
    }

    /// Cloudflare refused the document. Removals go first on their own; then the rule that the answer names is taken
    /// out if it is one of these; else the halves are tried.
    fn isolate_edit(
        &mut self,
        stage: Stage,
        tunnel: &'a TunnelId,
        work: &[Edit<'a>],
        refused: &Document,
        answer: &Answer,
    ) -> Result<(), Stop> {
        debug!("tunnel={tunnel} edits={} refused by Cloudflare: {answer}", work.len());
        let named = rule_number(answer).and_then(|number| refused.rules().get(number.checked_sub(1)?));
        let is_named = |edit: &RuleEdit| match (edit, named) {
            (RuleEdit::Put { rule, .. }, Some(named)) => named.is_for(&rule.hostname, rule.path_text()),
            _ => false,
        };
        let (removals, puts): (Vec<Edit<'a>>, Vec<Edit<'a>>) =
            work.iter().partition(|(_, edit)| matches!(edit, RuleEdit::Remove { .. }));
        let (culprits, others): (Vec<Edit<'a>>, Vec<Edit<'a>>) =
            puts.iter().partition(|(_, edit)| is_named(edit));
        // A rule that is not part of this work cannot be mended by leaving out parts of it.
        let hopeless = (named.is_some() && culprits.is_empty()) || self.isolating_calls_left == 0;
        if hopeless || work.len() == 1 {
            for (hostname, edit) in work {
                self.reject(hostname, tunnel_work(tunnel, edit), answer, None);
            }
            return Ok(());
        }
        self.isolating_calls_left -= 1;
        if !culprits.is_empty() {
            for (hostname, edit) in &culprits {
                self.reject(hostname, tunnel_work(tunnel, edit), answer, None);
            }
            let rest: Vec<Edit<'a>> = removals.into_iter().chain(others).collect();
            return self.put_edits(stage, tunnel, &rest);
        }
        let (first, second) = if removals.is_empty() || puts.is_empty() {
            work.split_at(work.len() / 2)
        } else {
            (removals.as_slice(), puts.as_slice())
        };
        self.put_edits(stage, tunnel, first)?;
        self.put_edits(stage, tunnel, second)
    }

    fn run_operations(&mut self, stage: Stage) -> Result<(), Stop> {
        let mut by_zone: BTreeMap<&ZoneId, Vec<Unit<'a>>> = BTreeMap::new();
        for host in self.hosts(self.plan) {
            if stage == Stage::Stamp {
                for (tunnel, edit) in host.edits.get(&Stage::Publish).into_iter().flatten() {
                    self.unpublished.insert(tunnel, &host.hostname, edit, host.comment_before.as_deref());
                }
            }
            for ((_, zone), operations) in host.operations.iter().filter(|((at, _), _)| *at == stage) {
                if !operations.is_empty() {
                    by_zone.entry(zone).or_default().push((&host.hostname, operations));
                }
            }
        }
        for (zone, units) in by_zone {
            for batch in batches(&units, self.batch_limit(zone)) {
                self.submit(stage, zone, batch)?;
            }
        }
        Ok(())
    }

    fn batch_limit(&self, zone: &ZoneId) -> usize {
        match self.snapshot.zones.iter().find(|snapshot| snapshot.zone.id == *zone).map(|zone| zone.zone.plan)
        {
            Some(ZonePlan::Paid) => limits::BATCH_MAX_OPERATIONS_PAID,
            Some(ZonePlan::Free) | None => limits::BATCH_MAX_OPERATIONS_FREE,
        }
    }

    /// One batch; where Cloudflare refuses it, deletes and patches on their own, then the rest in halves.
    fn submit(&mut self, stage: Stage, zone: &ZoneId, units: &[Unit<'a>]) -> Result<(), Stop> {
        if units.is_empty() {
            return Ok(());
        }
        if self.full_zones.contains(zone) && units.iter().all(grows) {
            let answer = Answer {
                status: 400,
                code: Some(81045),
                message: "the zone's record quota is used up".into(),
                chain: Vec::new(),
            };
            for unit in units {
                self.reject_unit(zone, unit, &answer);
            }
            return Ok(());
        }
        self.check_time()?;
        match self.client.batch(zone, &batch_of(units), self.deadline) {
            Ok(()) => {
                self.count(zone, units);
                units.iter().for_each(|unit| self.report_records(unit));
                if stage == Stage::Stamp {
                    self.report_adoptions(units);
                }
                Ok(())
            }
            Err(Error::Refused(answer) | Error::NotFound(answer)) => {
                self.isolate_unit(stage, zone, units, &answer)
            }
            // The token may edit the records of other zones. Not remembered: once it may these too, nothing waits.
            Err(error @ Error::Credentials(_)) => {
                for (hostname, _) in units {
                    self.leave_out(hostname, Reason::Cloudflare(error.to_string()));
                }
                Ok(())
            }
            Err(error) => {
                // Whether it was done shows at the next read, which no longer shows what there was before.
                if stage == Stage::Stamp && error.may_have_been_done() {
                    self.report_adoptions(units);
                }
                Err(error.into())
            }
        }
    }

    fn report_adoptions(&mut self, units: &[Unit<'a>]) {
        for host in self.plan.hosts.iter().filter(|host| !host.adoptions.is_empty()) {
            if units.iter().any(|(hostname, _)| **hostname == *host.hostname) {
                for adoption in &host.adoptions {
                    info!("{}", describe_adoption(&host.hostname, adoption));
                    self.metrics.update().add(Family::Adoptions, &[], 1);
                }
            }
        }
    }

    fn isolate_unit(
        &mut self,
        stage: Stage,
        zone: &ZoneId,
        units: &[Unit<'a>],
        answer: &Answer,
    ) -> Result<(), Stop> {
        debug!("zone={zone} hostnames={} refused by Cloudflare: {answer}", units.len());
        if units.len() == 1 || self.isolating_calls_left == 0 {
            if answer.is_record_quota() {
                self.full_zones.insert(zone.clone());
            }
            for unit in units {
                self.reject_unit(zone, unit, answer);
            }
            return Ok(());
        }
        self.isolating_calls_left -= 1;
        let (shrinking, growing): (Vec<Unit<'a>>, Vec<Unit<'a>>) =
            units.iter().partition(|unit| !has_post(unit));
        let (first, second) = if shrinking.is_empty() || growing.is_empty() {
            units.split_at(units.len() / 2)
        } else {
            (shrinking.as_slice(), growing.as_slice())
        };
        self.submit(stage, zone, first)?;
        self.submit(stage, zone, second)
    }

    fn reject_unit(&mut self, zone: &ZoneId, unit: &Unit<'a>, answer: &Answer) {
        let records = self.record_counts.get(zone).copied().unwrap_or_default();
        let quota = answer.is_record_quota().then(|| (zone.clone(), records));
        self.reject(unit.0, record_work(unit.1), answer, quota);
    }

    fn reject(&mut self, hostname: &str, work: Box<str>, answer: &Answer, quota: Option<(ZoneId, usize)>) {
        let reason = Reason::Cloudflare(answer.to_string());
        let refusal = Refusal { hostname: hostname.into(), set_identifier: None, reason: reason.clone() };
        self.done.rejections.push(Rejection { refusal, work, quota });
        self.leave_out(hostname, reason);
    }

    fn leave_out(&mut self, hostname: &str, reason: Reason) {
        self.done.dropped.insert(hostname.into());
        self.done.refusals.push(Refusal { hostname: hostname.into(), set_identifier: None, reason });
    }

    fn count(&mut self, zone: &ZoneId, units: &[Unit<'a>]) {
        let operations = || units.iter().flat_map(|(_, operations)| *operations);
        let posts = operations().filter(|operation| matches!(operation, RecordOperation::Post(_))).count();
        let deletes =
            operations().filter(|operation| matches!(operation, RecordOperation::Delete(_))).count();
        if let Some(count) = self.record_counts.get_mut(zone) {
            *count = (*count + posts).saturating_sub(deletes);
        }
    }

    fn report_written(
        &self,
        tunnel: &TunnelId,
        read: &Configuration,
        written: &Configuration,
        work: &[Edit<'_>],
    ) {
        let name = self.settings.name_of(tunnel);
        self.metrics.update().set(Family::ConfigurationVersion, &[name], written.version);
        if read.version >= 0 && written.version > read.version + 1 {
            warn!(
                "tunnel={tunnel} another writer changed the configuration between our read (version {}) and our write \
                 (version {}); what it wrote may be lost: look at the tunnel's rules, and let one program write it",
                read.version, written.version
            );
            self.metrics.update().add(Family::LostUpdates, &[], 1);
        }
        for (hostname, edit) in work {
            let kind = match edit {
                RuleEdit::Put { .. } => "rule_published",
                RuleEdit::Remove { .. } => "rule_withdrawn",
            };
            self.report(kind, &describe_edit(hostname, tunnel, edit));
        }
    }

    fn report_records(&self, (hostname, operations): &Unit<'_>) {
        for operation in *operations {
            let kind = match operation {
                RecordOperation::Delete(_) => "record_deleted",
                RecordOperation::Patch(_) => "record_changed",
                RecordOperation::Post(_) => "record_created",
            };
            self.report(kind, &describe_operation(hostname, operation));
        }
    }

    /// Says and counts a change that was made.
    fn report(&self, kind: &str, line: &str) {
        info!("{line}");
        let mut values = self.metrics.update();
        values.add(Family::Changes, &[kind], 1);
        values.set(Family::LastWrite, &[], self.clock.unix_seconds());
    }

    fn check_time(&self) -> Result<(), Stop> {
        if self.deadline.remaining(self.clock) < limits::STEP_MINIMUM { Err(Stop::OutOfTime) } else { Ok(()) }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            Error::OutOfTime => Self::OutOfTime,
            error if error.may_have_been_done() => Self::Uncertain(error),
            error => Self::Failed(error),
        }
    }
}

/// The content of an edit, by which a refusal of it is remembered. Whether the rule replaces one is left out: the
/// same rule is as unwelcome either way.
pub(super) fn tunnel_work(tunnel: &TunnelId, edit: &RuleEdit) -> Box<str> {
    match edit {
        RuleEdit::Put { rule, replaces: _ } => format!("{tunnel} {rule:?}").into(),
        RuleEdit::Remove { hostname, path } => format!("{tunnel} remove {hostname:?} {path:?}").into(),
    }
}

/// The content of a hostname's operations, by which a refusal of them is remembered.
pub(super) fn record_work(operations: &[RecordOperation]) -> Box<str> {
    format!("{operations:?}").into()
}

/// Units in order, as many to a batch as `limit` operations allow; a unit is never split.
fn batches<'u, 'a>(mut units: &'u [Unit<'a>], limit: usize) -> Vec<&'u [Unit<'a>]> {
    let mut batches = Vec::new();
    while !units.is_empty() {
        let mut operations = 0;
        let fitting = units
            .iter()
            .take_while(|(_, unit)| {
                operations += unit.len();
                operations <= limit
            })
            .count();
        let (batch, rest) = units.split_at(fitting.max(1));
        batches.push(batch);
        units = rest;
    }
    batches
}

fn batch_of(units: &[Unit<'_>]) -> Batch {
    let mut batch = Batch::default();
    for operation in units.iter().flat_map(|(_, operations)| *operations) {
        match operation {
            RecordOperation::Delete(id) => batch.deletes.push(id.clone()),
            RecordOperation::Patch(patch) => batch.patches.push(patch.clone()),
            RecordOperation::Post(record) => batch.posts.push(record.clone()),
        }
    }
    batch
}

fn has_post((_, operations): &Unit<'_>) -> bool {
    operations.iter().any(|operation| matches!(operation, RecordOperation::Post(_)))
}

fn grows(unit: &Unit<'_>) -> bool {
    has_post(unit) && !unit.1.iter().any(|operation| matches!(operation, RecordOperation::Delete(_)))
}

/// The 1-based number in cloudflared's "Rule #3 has an invalid regex".
fn rule_number(answer: &Answer) -> Option<usize> {
    let texts = [&answer.message].into_iter().chain(answer.chain.iter().map(|cause| &cause.message));
    texts
        .filter_map(|text| text.split_once("Rule #"))
        .find_map(|(_, rest)| rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok())
}

/// A line for each write of a plan.
pub(super) fn describe(plan: &Plan) -> Vec<String> {
    let hosts = plan.hosts.iter();
    hosts
        .flat_map(|host| {
            // What is taken over just as it is, is only looked at.
            let edits = host.edits.values().flatten().filter(|(_, edit)| {
                let mut paths = host.adoptions.iter().filter_map(|adoption| adoption.path.as_deref());
                let is_adopted = paths.any(|path| path == edit.path().unwrap_or_default());
                !(is_adopted && matches!(edit, RuleEdit::Put { rule: _, replaces: false }))
            });
            let operations = host.operations.values().flatten();
            let adoptions = host.adoptions.iter();
            let adoptions = adoptions.map(|adoption| describe_adoption(&host.hostname, adoption));
            let edits = edits.map(|(tunnel, edit)| describe_edit(&host.hostname, tunnel, edit));
            adoptions
                .chain(edits)
                .chain(operations.map(|operation| describe_operation(&host.hostname, operation)))
        })
        .collect()
}

fn describe_adoption(hostname: &str, Adoption { path, was }: &Adoption) -> String {
    match path.as_deref().filter(|path| !path.is_empty()) {
        Some(path) => format!("hostname={hostname} path={path:?} taken over, was={was}"),
        None => format!("hostname={hostname} taken over, was={was}"),
    }
}

fn describe_edit(hostname: &str, tunnel: &TunnelId, edit: &RuleEdit) -> String {
    let path = edit.path().unwrap_or_default();
    match edit {
        RuleEdit::Put { rule, replaces: _ } => {
            let service = rule.service.as_str();
            format!("hostname={hostname} path={path:?} tunnel={tunnel} rule published, service={service:?}")
        }
        RuleEdit::Remove { .. } => {
            format!("hostname={hostname} path={path:?} tunnel={tunnel} rule withdrawn")
        }
    }
}

pub(super) fn describe_operation(hostname: &str, operation: &RecordOperation) -> String {
    match operation {
        RecordOperation::Delete(_) => format!("hostname={hostname} record deleted"),
        RecordOperation::Patch(RecordPatch { id: _, kind: _, content, proxied, ttl: _, comment }) => {
            let mut text = format!("hostname={hostname} record changed");
            for (field, value) in [("target", content), ("comment", comment)] {
                if let Some(value) = value {
                    let _ = write!(text, ", {field}={value:?}");
                }
            }
            text.push_str(if *proxied == Some(true) { ", proxied" } else { "" });
            text
        }
        RecordOperation::Post(record) if &*record.kind == "TXT" => {
            format!("hostname={hostname} TXT record created, name={:?}", &*record.name)
        }
        RecordOperation::Post(record) => {
            format!("hostname={hostname} record created, target={:?}", &*record.content)
        }
    }
}
