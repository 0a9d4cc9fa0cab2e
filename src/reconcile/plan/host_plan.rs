//! The writes of one hostname.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::ingress::RuleEdit;
use crate::labels::labels;
use crate::model::endpoint::Property;
use crate::model::{NewRecord, Record, RecordId, RecordPatch, TunnelId, ZoneId};
use crate::reconcile::Note;
use crate::reconcile::earlier::Unfinished;
use crate::reconcile::plan::host::comment::Comments;
use crate::reconcile::stamp::{Claims, Digest};

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

/// An edit of a tunnel's document.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedEdit {
    pub tunnel: TunnelId,
    pub edit: RuleEdit,
    /// The object whose endpoint asks for the rule, if it is known.
    pub resource: Option<Box<str>>,
}

/// The writes that one hostname needs: records, then rules, then records.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPlan {
    pub hostname: Box<str>,
    /// The object that asks for it, or that it came from; the first one if several ask for its paths.
    pub resource: Option<Box<str>>,
    /// The hostname will be gone.
    pub is_withdrawn: bool,
    /// The zone of its records.
    pub zone: ZoneId,
    /// Operations on records in [`Stage::Stamp`], which belong in one batch.
    pub stamp: Vec<RecordOperation>,
    pub edits: Vec<PlannedEdit>,
    /// Operations on records in [`Stage::Unstamp`], which belong in one batch.
    pub unstamp: Vec<RecordOperation>,
    /// Operations on records in place of all others, if a tunnel cannot be written.
    pub if_unwritable: Vec<RecordOperation>,
    /// Rules and records that are taken over. They are ours as soon as the operations of [`Stage::Stamp`] are done.
    pub adoptions: Vec<Adoption>,
    /// The digests of the rules among them.
    pub adopted_rules: BTreeSet<Digest>,
    /// The tunnel that a record is led to in [`Stage::Stamp`]. Its connectors have to serve the hostname before.
    pub moves_to: Option<TunnelId>,
    /// What the records claim at the end, if all of it is done.
    pub claims: Claims,
    /// The digests without a rule that come off in [`Stage::Unstamp`], if no tunnel has a rule with one of them.
    pub stale: BTreeSet<Digest>,
    /// The comments that the hostname's record can have.
    pub comments: Comments,
}

impl PlannedEdit {
    /// The digest of the rule.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.tunnel, self.edit.path())
    }
}

impl HostPlan {
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.operations().next().is_none()
    }

    /// The work that is left undone if a run stops within this plan, with the work that the run before left undone.
    pub fn unfinished(&self, before: Option<&Unfinished>) -> Unfinished {
        let mut unfinished = before.cloned().unwrap_or_default();
        let digests = self.edits.iter().map(PlannedEdit::digest);
        unfinished.digests.extend(digests);
        unfinished.is_new |= self.stamp.iter().any(|one| matches!(one, RecordOperation::Post(_)));
        unfinished
    }

    /// A note about the hostname and its object.
    pub(super) fn note(&self, text: String) -> Note {
        Note { hostname: self.hostname.clone(), resource: self.resource.clone(), text }
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
    pub(crate) fn log_text(&self) -> String {
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

    pub(super) fn delete(record: &Record) -> Self {
        let subject = Subject { kind: record.kind.clone().into(), name: record.name.clone() };
        Self::Delete(record.id.clone(), subject)
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
