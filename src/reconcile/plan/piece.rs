//! Divides the writes of a hostname into pieces. A piece is written or refused as a whole.

use super::planned::{HostPlan, PlannedEdit, RecordOperation, Stage};
use crate::ingress::{RuleEdit, WantedRule};
use crate::model::text::fingerprint;
use crate::model::{TunnelId, ZoneId};

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

/// The fingerprint by which a refusal of the edit is remembered. `replaces` does not count, because Cloudflare refuses
/// the same rule either way.
pub(super) fn edit_fingerprint(tunnel: &TunnelId, edit: &RuleEdit) -> u64 {
    match edit {
        RuleEdit::Put { rule, replaces: _ } => rule_fingerprint(tunnel, rule),
        RuleEdit::Delete { hostname, path } => {
            fingerprint([&*format!("{tunnel} remove {hostname:?} {path:?}")])
        }
    }
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
