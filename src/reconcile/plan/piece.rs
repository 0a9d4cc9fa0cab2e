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

/// Work of one hostname in one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece<'a> {
    pub host: &'a HostPlan,
    pub content: PieceContent<'a>,
}

/// One edit of a rule, or all operations on the hostname's records in a stage, which must be in one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PieceContent<'a> {
    Stamp(&'a [RecordOperation]),
    Edit(&'a PlannedEdit),
    Unstamp(&'a [RecordOperation]),
}

/// A piece is identified in its plan by its stage and hostname, and an edit also by the tunnel and path of its rule.
pub(crate) type PieceKey<'a> = (Stage, &'a str, Option<(&'a TunnelId, Option<&'a str>)>);

/// The pieces of a hostname.
pub fn pieces(host: &HostPlan) -> impl Iterator<Item = Piece<'_>> {
    let stamp = PieceContent::Stamp(&host.stamp_operations);
    let edits = host.edits.iter().map(PieceContent::Edit);
    let unstamp = PieceContent::Unstamp(&host.unstamp_operations);
    let contents = [stamp].into_iter().chain(edits).chain([unstamp]);
    let pieces = contents.map(move |content| Piece { host, content });
    pieces.filter(|piece| piece.edit().is_some() || !piece.operations().is_empty())
}

impl<'a> Piece<'a> {
    pub(crate) fn stage(&self) -> Stage {
        match self.content {
            PieceContent::Stamp(_) => Stage::Stamp,
            PieceContent::Edit(_) => Stage::EditRules,
            PieceContent::Unstamp(_) => Stage::Unstamp,
        }
    }

    pub(crate) fn key(&self) -> PieceKey<'a> {
        let edited = self.planned_edit().map(|planned| (&planned.tunnel, planned.edit.path()));
        (self.stage(), self.hostname(), edited)
    }

    pub(crate) fn target(&self) -> WriteTarget<'a> {
        let zone = WriteTarget::Zone(&self.host.zone);
        self.planned_edit().map_or(zone, |planned| WriteTarget::Tunnel(&planned.tunnel))
    }

    pub(crate) fn hostname(&self) -> &'a str {
        &self.host.hostname
    }

    pub(crate) fn planned_edit(&self) -> Option<&'a PlannedEdit> {
        if let PieceContent::Edit(planned) = self.content { Some(planned) } else { None }
    }

    /// The edited rule.
    pub fn edit(&self) -> Option<&'a RuleEdit> {
        Some(&self.planned_edit()?.edit)
    }

    /// The operations on records; empty for a rule.
    pub(crate) fn operations(&self) -> &'a [RecordOperation] {
        match self.content {
            PieceContent::Stamp(operations) | PieceContent::Unstamp(operations) => operations,
            PieceContent::Edit(_) => &[],
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
        match self.content {
            PieceContent::Edit(planned) => edit_fingerprint(&planned.tunnel, &planned.edit),
            PieceContent::Stamp(operations) | PieceContent::Unstamp(operations) => {
                fingerprint([&*format!("{operations:?}")])
            }
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
            let piece = Piece { host: &host_plan("a.example.com"), content: PieceContent::Stamp(operations) };
            assert_eq!(piece.only_adds_records(), only_adds_records, "{operations:?}");
        }
    }
}
