//! Divides the work of a run into pieces. A piece is written or refused as a whole.

use crate::cloudflare::Batch;
use crate::ingress::RuleEdit;
use crate::model::{TunnelId, ZoneId};
use crate::reconcile::plan::{
    HostPlan, PlannedEdit, RecordOperation, Stage, edit_fingerprint, operations_fingerprint,
};

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteTarget<'a> {
    /// A tunnel's configuration.
    Tunnel(&'a TunnelId),
    /// A zone's records.
    Zone(&'a ZoneId),
}

impl<'a> WriteTarget<'a> {
    pub(super) fn id(self) -> &'a str {
        match self {
            Self::Tunnel(tunnel) => tunnel.as_str(),
            Self::Zone(zone) => zone.as_str(),
        }
    }
}

/// A stage at a target. Steps are carried out in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step<'a> {
    pub(super) stage: Stage,
    pub(super) target: WriteTarget<'a>,
}

/// The steps of a hostname, each with the hostname's piece.
pub(super) fn steps(host: &HostPlan) -> impl Iterator<Item = (Step<'_>, Piece<'_>)> {
    let step = |stage, target, work| (Step { stage, target }, Piece { hostname: &host.hostname, work });
    let edits = host.edits.iter().map(move |planned| {
        step(Stage::EditRules, WriteTarget::Tunnel(&planned.tunnel), Work::Edit(planned))
    });
    edits.chain(host.batches().map(move |(stage, operations)| {
        step(stage, WriteTarget::Zone(&host.zone), Work::Operations(operations))
    }))
}

/// Work of one hostname in one step: one edit of a rule, or all operations on the hostname's records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece<'a> {
    pub(super) hostname: &'a str,
    pub(super) work: Work<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work<'a> {
    /// One rule of a tunnel's document.
    Edit(&'a PlannedEdit),
    /// The hostname's operations on a zone's records, which must be in one batch.
    Operations(&'a [RecordOperation]),
}

impl<'a> Piece<'a> {
    /// The edited rule.
    pub(super) fn edit(&self) -> Option<&'a RuleEdit> {
        match self.work {
            Work::Edit(planned) => Some(&planned.edit),
            Work::Operations(_) => None,
        }
    }

    /// The operations on records; empty for a rule.
    pub(super) fn operations(&self) -> &'a [RecordOperation] {
        match self.work {
            Work::Edit(_) => &[],
            Work::Operations(operations) => operations,
        }
    }

    /// True if the piece adds records to the zone and deletes none.
    pub(super) fn grows(&self) -> bool {
        let is_post = |operation: &RecordOperation| matches!(operation, RecordOperation::Post(_));
        let is_delete = |operation: &RecordOperation| matches!(operation, RecordOperation::Delete(..));
        self.operations().iter().any(is_post) && !self.operations().iter().any(is_delete)
    }

    /// The fingerprint of the content. Refusals are remembered by this fingerprint.
    pub(super) fn fingerprint(&self) -> u64 {
        match self.work {
            Work::Edit(planned) => edit_fingerprint(&planned.tunnel, &planned.edit),
            Work::Operations(operations) => operations_fingerprint(operations),
        }
    }
}

/// The number of operations of the pieces in one batch.
pub(super) fn batch_size(pieces: &[Piece<'_>]) -> usize {
    pieces.iter().map(|piece| piece.operations().len()).sum()
}

pub(super) fn batch_of(pieces: &[Piece<'_>]) -> Batch {
    let mut batch = Batch::default();
    for operation in pieces.iter().flat_map(Piece::operations) {
        match operation {
            RecordOperation::Delete(id, _) => batch.deletes.push(id.clone()),
            RecordOperation::Patch(patch) => batch.patches.push(patch.clone()),
            RecordOperation::Post(record) => batch.posts.push(record.clone()),
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
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
        RecordOperation::Delete(RecordId::new("r1"), None)
    }

    /// A full zone takes a record in place of another, because the deletions of a batch come first.
    #[test]
    fn a_piece_that_also_deletes_needs_no_room_in_a_full_zone() {
        for (operations, grows) in
            [(&[post()][..], true), (&[delete(), post()], false), (&[delete()], false), (&[], false)]
        {
            let piece = Piece { hostname: "a.example.com", work: Work::Operations(operations) };
            assert_eq!(piece.grows(), grows, "{operations:?}");
        }
    }

    #[test]
    fn a_batch_has_the_operations_of_all_of_its_pieces() {
        let (one, two) = ([post()], [delete(), post()]);
        let pieces = [&one[..], &two, &one]
            .map(|operations| Piece { hostname: "a.example.com", work: Work::Operations(operations) });
        let batch = batch_of(&pieces);
        assert_eq!((batch.posts.len(), batch.deletes.len(), batch.patches.len()), (3, 1, 0));
        assert_eq!(batch_size(&pieces), 4);
    }
}
