//! Divides the writes of a hostname into pieces, each of which is written or refused as a whole, and compares them with
//! earlier writes, by fingerprints of their content and of the state that they replace. A plan leaves out what
//! Cloudflare rejected, and writes that are reverted each time.

use std::fmt::Write as _;

use crate::ingress::{RuleEdit, WantedRule};
use crate::model::text::fingerprint;
use crate::model::{Record, TunnelId, ZoneId};
use crate::reconcile::plan::planned::{HostPlan, PlannedEdit, RecordOperation, Stage};
use crate::reconcile::plan_inputs::PlanInputs;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WriteTarget<'a> {
    /// A tunnel's configuration.
    Tunnel(&'a TunnelId),
    /// A zone's records.
    Zone(&'a ZoneId),
}

impl<'a> WriteTarget<'a> {
    pub(crate) fn id(self) -> &'a str {
        match self {
            Self::Tunnel(tunnel) => tunnel.as_str(),
            Self::Zone(zone) => zone.as_str(),
        }
    }
}

/// The writes of one hostname in one stage: one edit of a rule, or all operations on the hostname's records, which must
/// be in one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece<'a> {
    pub host: &'a HostPlan,
    pub stage: Stage,
    /// The edit, in [`Stage::Rules`].
    pub edit: Option<&'a PlannedEdit>,
}

/// A piece is identified in its plan by its stage and hostname, and an edit also by the tunnel and path of its rule.
pub(crate) type PieceKey<'a> = (Stage, &'a str, Option<(&'a TunnelId, Option<&'a str>)>);

/// The pieces of a hostname.
pub fn pieces(host: &HostPlan) -> impl Iterator<Item = Piece<'_>> {
    let of_records =
        |stage| Some(Piece { host, stage, edit: None }).filter(|piece| !piece.operations().is_empty());
    let edits = host.edits.iter().map(|edit| Piece { host, stage: Stage::Rules, edit: Some(edit) });
    of_records(Stage::RecordsBefore).into_iter().chain(edits).chain(of_records(Stage::RecordsAfter))
}

impl<'a> Piece<'a> {
    pub(crate) fn key(&self) -> PieceKey<'a> {
        let edited = self.edit.map(|planned| (&planned.tunnel, planned.edit.path()));
        (self.stage, self.hostname(), edited)
    }

    pub(crate) fn target(&self) -> WriteTarget<'a> {
        let zone = WriteTarget::Zone(&self.host.zone);
        self.edit.map_or(zone, |planned| WriteTarget::Tunnel(&planned.tunnel))
    }

    pub(crate) fn hostname(&self) -> &'a str {
        &self.host.hostname
    }

    /// The operations on records; empty for a rule.
    pub(crate) fn operations(&self) -> &'a [RecordOperation] {
        match self.stage {
            Stage::RecordsBefore => &self.host.operations_before,
            Stage::Rules => &[],
            Stage::RecordsAfter => &self.host.operations_after,
        }
    }

    /// True if the piece adds records to the zone and deletes none.
    pub(crate) fn only_adds_records(&self) -> bool {
        let is_post = |operation: &RecordOperation| matches!(operation, RecordOperation::Post(_));
        let is_delete = |operation: &RecordOperation| matches!(operation, RecordOperation::Delete { .. });
        self.operations().iter().any(is_post) && !self.operations().iter().any(is_delete)
    }

    /// The fingerprint of the content. Refusals are remembered by this fingerprint.
    pub fn fingerprint(&self) -> u64 {
        match self.edit {
            Some(planned) => edit_fingerprint(&planned.tunnel, &planned.edit),
            None => fingerprint([&*format!("{:?}", self.operations())]),
        }
    }
}

/// The fingerprint by which a refusal of the rule is remembered.
pub fn rule_fingerprint(tunnel: &TunnelId, rule: &WantedRule) -> u64 {
    fingerprint([&*format!("{tunnel} {rule:?}")])
}

/// The fingerprint by which a refusal of the edit is remembered. `replaces` does not count, because Cloudflare rejects
/// the same rule either way.
fn edit_fingerprint(tunnel: &TunnelId, edit: &RuleEdit) -> u64 {
    match edit {
        RuleEdit::Put { rule, replaces: _ } => rule_fingerprint(tunnel, rule),
        RuleEdit::Delete { hostname, path } => {
            fingerprint([&*format!("{tunnel} remove {hostname:?} {path:?}")])
        }
    }
}

/// One write, as it is compared with earlier writes. The fingerprint `key` identifies what is written: a rule, the
/// records of a hostname, or the application of a place. The other one is of the content and, except for applications,
/// of the state in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparedWrite {
    pub(crate) key: u64,
    pub(crate) fingerprint: u64,
    /// The log text of the write.
    pub(crate) what: Box<str>,
}

/// The writes of a hostname: one for each rule, and one for its records. A reverted write has the same fingerprints
/// each time, whatever happens to other hostnames and to the other writes of this hostname.
pub(crate) fn writes_of(host: &HostPlan, snapshot: &Snapshot) -> Vec<ComparedWrite> {
    let rules = host.edits.iter().map(|PlannedEdit { tunnel, edit, resource: _ }| {
        let near =
            snapshot.tunnels.get(tunnel).into_iter().flat_map(|tunnel| tunnel.document.near(&host.hostname));
        let covering =
            near.filter(|rule| rule.covers(&host.hostname, edit.path())).map(|rule| rule.raw().get());
        let content = format!("{} {}", edit_fingerprint(tunnel, edit), covering.collect::<String>());
        ComparedWrite {
            key: fingerprint([&*host.hostname, tunnel.as_str(), edit.path().unwrap_or_default()]),
            fingerprint: fingerprint([&*content]),
            what: edit.log_text().into(),
        }
    });
    rules.chain(records_write(host, snapshot)).collect()
}

/// The write of the hostname's records, if there is one. Record ids do not count, because a recreated record has a new
/// id.
fn records_write(host: &HostPlan, snapshot: &Snapshot) -> Option<ComparedWrite> {
    let lines: Vec<String> = host.operations().map(RecordOperation::log_text).collect();
    let what = lines.first()?.as_str().into();
    let mut content = format!("{} {}\n", host.hostname, lines.join("\n"));
    for record in snapshot.zones.iter().flat_map(|zone| zone.records_of(&host.hostname)) {
        let Record { record_type, content: target, proxied, comment, .. } = record;
        let _ = writeln!(content, "{record_type} {target} {proxied} {comment}");
    }
    Some(ComparedWrite { key: fingerprint([&*host.hostname]), fingerprint: fingerprint([&*content]), what })
}

/// The refusals of a hostname with a piece that Cloudflare rejected before. Reverted writes are refused if the hostname
/// has no other writes. Otherwise all writes of the hostname are sent once more.
pub(super) fn refusals(host: &HostPlan, snapshot: &Snapshot, inputs: &PlanInputs) -> Vec<Refusal> {
    if inputs.paused.is_empty() {
        return Vec::new();
    }
    let refusal = |path: Option<&str>, fingerprint: u64| {
        let reason = inputs.paused.get(&fingerprint)?.clone();
        Some(Refusal::new(&host.hostname, path, host.resource.as_deref(), reason))
    };
    let refused = pieces(host).filter_map(|piece| {
        let path = piece.edit.map(|planned| planned.edit.path().unwrap_or_default());
        refusal(path, piece.fingerprint())
    });
    let refused: Vec<Refusal> = refused.collect();
    if !refused.is_empty() {
        return refused;
    }
    let reverted = writes_of(host, snapshot).into_iter().map(|write| refusal(None, write.fingerprint));
    reverted.collect::<Option<_>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::host_plan;
    use crate::model::{NewRecord, RecordId};

    fn post() -> RecordOperation {
        RecordOperation::Post(NewRecord {
            name: "a.example.com".into(),
            record_type: "CNAME".into(),
            content: "b.example.com".into(),
            proxied: true,
            ttl: 1,
            comment: "".into(),
        })
    }

    fn delete() -> RecordOperation {
        RecordOperation::Delete { id: RecordId::new("r1"), txt_name: None }
    }

    /// A full zone takes a record in place of another, because the deletions of a batch come first.
    #[test]
    fn a_piece_that_also_deletes_needs_no_room_in_a_full_zone() {
        for (operations, only_adds_records) in
            [(&[post()][..], true), (&[delete(), post()], false), (&[delete()], false), (&[], false)]
        {
            let host = HostPlan { operations_before: operations.to_vec(), ..host_plan("a.example.com") };
            let piece = Piece { host: &host, stage: Stage::RecordsBefore, edit: None };
            assert_eq!(piece.only_adds_records(), only_adds_records, "{operations:?}");
        }
    }
}
