//! The result of planning one request: the writes of each hostname by stage, the refusals and the notes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::collections::collect;
use crate::ingress::{Document, RuleEdit};
use crate::label_values::label_values;
use crate::model::endpoint::Property;
use crate::model::{NewRecord, Record, RecordId, RecordPatch, TunnelId, ZoneId};
use crate::reconcile::Note;
use crate::reconcile::access::gate::{ApplicationWrite, WaitingOpening};
use crate::reconcile::plan::host::comment::CommentTemplate;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::stamp::{Claims, Digest};

/// The writes of one request, with its refusals and notes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Sorted by name, without hostnames that need no write.
    pub hosts: Vec<HostPlan>,
    /// The requests that are not carried out, with the reasons.
    pub refusals: Vec<Refusal>,
    pub notes: Vec<Note>,
    /// The work on Access applications, which is done before that of `hosts`.
    pub application_writes: Vec<ApplicationWrite>,
    /// Hostnames that are left to later requests.
    pub postponed: BTreeSet<Box<str>>,
    /// The first of the postponed hostnames.
    pub next_turn: Option<TurnPosition>,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.application_writes.is_empty()
    }

    pub fn host(&self, hostname: &str) -> Option<&HostPlan> {
        let found = self.hosts.binary_search_by(|host| (*host.hostname).cmp(hostname));
        self.hosts.get(found.ok()?)
    }

    /// The hostnames with a digest that the plan removes because its rule was not read, although `document` has it.
    pub fn missed_in(&self, tunnel: &TunnelId, document: &Document) -> BTreeSet<Box<str>> {
        let rules = document.rules().iter().filter(|rule| rule.is_readable());
        let missed = rules.filter(|rule| {
            let host = self.host(rule.folded_hostname());
            host.is_some_and(|host| host.removed_dangling.contains(&Digest::of(tunnel, rule.path())))
        });
        collect(missed.map(|rule| rule.folded_hostname().into()))
    }
}

/// The position of a hostname in the order of turns. Hostnames that are deleted come after all others, because another
/// hostname may take over their visitors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TurnPosition {
    pub(crate) counts_as_deletion: bool,
    pub(crate) hostname: Box<str>,
}

/// The stages of an apply, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Record writes: new records, stamps that name old and new rules, targets of hostnames whose new tunnel serves
    /// them, and deletions of records that a CNAME or the stamp replaces.
    RecordsBefore,
    /// Configuration writes: all additions, changes and deletions of rules, planned as one version for each tunnel.
    Rules,
    /// Record writes: stamps that no longer name deleted rules, deletions of the records of withdrawn hostnames, and
    /// targets of records that pointed to an unconfigured tunnel.
    RecordsAfter,
}

/// A foreign record or rule that becomes ours with the stamp, or a TXT record that the stamp replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The digest of the rule; `None` for a record.
    pub digest: Option<Digest>,
    /// The path of the rule.
    pub path: Option<Box<str>>,
    /// The record or rule as text, with the JSON that restores it.
    pub was: String,
    /// The options of the rule that change, with the values that cloudflared uses now.
    pub options: Vec<Property>,
}

/// An edit of a tunnel's document.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedEdit {
    pub tunnel: TunnelId,
    pub edit: RuleEdit,
    /// For a put, the object of its endpoint; for a deletion, that of the hostname's plan; `None` if it is unknown.
    pub resource: Option<Box<str>>,
}

/// The writes that one hostname needs: records, then rules, then records.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPlan {
    pub hostname: Box<str>,
    /// The object that asks for the hostname, or that it came from; the first if several objects ask for its paths.
    pub resource: Option<Box<str>>,
    /// The zone of its records.
    pub zone: ZoneId,
    /// Operations on records in [`Stage::RecordsBefore`].
    pub operations_before: Vec<RecordOperation>,
    pub edits: Vec<PlannedEdit>,
    /// Operations on records in [`Stage::RecordsAfter`].
    pub operations_after: Vec<RecordOperation>,
    /// Rules and records that are taken over. The operations of [`Stage::RecordsBefore`] make them ours.
    pub adoptions: Vec<Adoption>,
    /// The tunnel that the record is pointed to in [`Stage::RecordsBefore`], once the tunnel's connectors serve the
    /// hostname.
    pub moves_to: Option<TunnelId>,
    pub comment: CommentTemplate,
    /// The claims of the comment that [`Stage::RecordsBefore`] writes.
    pub claims_during: Claims,
    /// The claims of the comment that [`Stage::RecordsAfter`] writes.
    pub claims_after: Claims,
    /// The dangling digests that [`Stage::RecordsAfter`] removes, unless a tunnel has a rule with one of them.
    pub removed_dangling: BTreeSet<Digest>,
}

/// The result of planning one hostname: its writes, refusals and notes, and the work on applications.
#[derive(Debug, Default)]
pub(super) struct HostOutcome {
    /// The writes of rules and records; `None` if there are none.
    pub(super) plan: Option<HostPlan>,
    /// True if the hostname counts among the deletions of the request: it is withdrawn as a whole and has a record,
    /// even if another loop deletes it.
    pub(super) counts_as_deletion: bool,
    pub(super) refusals: Vec<Refusal>,
    pub(super) notes: Vec<Note>,
    pub(super) application_writes: Vec<ApplicationWrite>,
    pub(super) openings: Vec<WaitingOpening>,
}

impl HostOutcome {
    pub(super) fn refused(refusals: Vec<Refusal>) -> Self {
        Self { refusals, ..Self::default() }
    }

    /// The outcome if the writes of rules and records are refused. Logins that are asked for are still written, but the
    /// hostname asks for the deletion of no application.
    pub(super) fn without_plan(mut self, refusals: impl IntoIterator<Item = Refusal>) -> Self {
        // An opening whose writes are refused makes no progress, so it fails no request.
        let openings = self.openings.drain(..).map(|opening| opening.refusal);
        self.refusals.extend(openings.filter(|refusal| !refusal.reason.fails_request()));
        self.refusals.extend(refusals);
        self.application_writes.retain(|write| !write.is_deletion());
        Self { plan: None, notes: Vec::new(), ..self }
    }
}

impl PlannedEdit {
    pub fn digest(&self) -> Digest {
        Digest::of(&self.tunnel, self.edit.path())
    }
}

impl HostPlan {
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.operations().next().is_none()
    }

    /// The digests of the rules that are taken over.
    pub(crate) fn adopted_rules(&self) -> impl Iterator<Item = Digest> {
        self.adoptions.iter().filter_map(|adoption| adoption.digest)
    }

    /// True if a record of the hostname is created.
    pub(crate) fn creates_record(&self) -> bool {
        self.operations_before.iter().any(|one| matches!(one, RecordOperation::Post(_)))
    }

    /// A note about the hostname and its object.
    pub(super) fn note(&self, text: String) -> Note {
        Note { resource: self.resource.clone(), ..Note::about(&self.hostname, text) }
    }

    /// The operations on records of both stages.
    pub fn operations(&self) -> impl Iterator<Item = &RecordOperation> {
        self.operations_before.iter().chain(&self.operations_after)
    }

    /// The operations that correct the comments of the hostname's `stamped` records after a run that has not written
    /// all of its rules. `before` are the hostname's records that the plan was made for.
    ///
    /// A stamp names a rule before the rule is written. If the write of the rule is refused, or if a foreign rule now
    /// has its hostname and path, the stamp would make a foreign rule ours. If the stamp claims nothing else, a new
    /// record is deleted, because it would hide a wildcard's record, and the comment of an older record is restored. A
    /// takeover that deleted records is not undone, and a comment that names a deleted rule is not restored.
    pub fn corrections<'a>(
        &'a self,
        is_written: impl Fn(&'a PlannedEdit) -> bool,
        stamped: &[RecordId],
        before: &[Record],
    ) -> Vec<RecordOperation> {
        let Some(claims) = self.corrected_claims(&is_written) else { return Vec::new() };
        let Some(comment) = self.comment.with(&claims) else { return Vec::new() };
        let takes_over =
            self.operations_before.iter().any(|one| matches!(one, RecordOperation::Delete { .. }));
        let has_deleted = self.edits.iter().filter(|planned| planned.edit.is_deletion()).any(&is_written);
        let keeps_stamp = !claims.is_empty() || takes_over || has_deleted;
        let correction = |id: &RecordId| {
            let id = id.clone();
            // A new record has no former comment.
            let former = || before.iter().find(|record| record.id == id).map(|record| record.comment.clone());
            let text = if keeps_stamp { Some(comment.clone()) } else { former() };
            match text {
                None => RecordOperation::Delete { id, txt_name: None },
                comment => RecordOperation::Patch(RecordPatch { id, content: None, proxied: None, comment }),
            }
        };
        stamped.iter().map(correction).collect()
    }

    /// The claims that the stamp should have: those before the rules, without rules that were not written and rules
    /// that were deleted. `None` if there are none of these, or if every edit was written: then the comment may have
    /// been written once more.
    fn corrected_claims<'a>(&'a self, is_written: impl Fn(&'a PlannedEdit) -> bool) -> Option<Claims> {
        if self.edits.iter().all(&is_written) {
            return None;
        }
        let is_removed = |planned: &&'a PlannedEdit| match &planned.edit {
            // The digest would make a foreign rule ours, unless the stamp named the rule before this request.
            RuleEdit::Put { replaces, .. } => {
                !replaces && !is_written(planned) && !self.comment.had_digest(&planned.digest())
            }
            RuleEdit::Delete { .. } => is_written(planned),
        };
        let removed: BTreeSet<Digest> =
            collect(self.edits.iter().filter(is_removed).map(PlannedEdit::digest));
        (!removed.is_empty()).then(|| self.claims_during.without(&removed))
    }
}

/// One entry of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordOperation {
    Delete {
        id: RecordId,
        /// The name of a registry's TXT record, which is not the hostname.
        txt_name: Option<Box<str>>,
    },
    /// Changes fields of a record.
    Patch(RecordPatch),
    Post(NewRecord),
}

impl RecordOperation {
    label_values! {
        Self::Delete { .. } => "record_deleted",
        Self::Patch(_) => "record_updated",
        Self::Post(_) => "record_created",
    }

    /// The operation in words, for a log line.
    pub(crate) fn log_text(&self) -> String {
        match self {
            Self::Delete { id: _, txt_name: Some(name) } => format!("TXT record deleted, name={name:?}"),
            Self::Delete { id: _, txt_name: None } => "record deleted".to_owned(),
            Self::Patch(RecordPatch { id: _, content, proxied, comment }) => {
                let mut text = "record updated".to_owned();
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

    pub(super) fn delete(record: &Record) -> Self {
        let is_txt = record.record_type == "TXT";
        Self::Delete { id: record.id.clone(), txt_name: is_txt.then(|| record.name.clone()) }
    }
}
