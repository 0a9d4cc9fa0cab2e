//! Corrects the stamps that name a rule which was not written after all.
//!
//! A stamp names a rule before the rule is written. If that write is refused, or a foreign rule has taken the place,
//! the stamp would make a rule in that place ours. If the stamp claims nothing else, a new record is deleted, because
//! it would take the hostname from a wildcard's record, and an older record gets its old comment back. A takeover that
//! deleted records is not undone.

use std::collections::BTreeMap;

use log::warn;

use super::work::{Piece, Target, Work};
use super::{Answer, Execution, Stop};
use crate::model::{RecordPatch, ZoneId};
use crate::reconcile::plan::{RecordOperation, Stage, Subject};

impl<'a> Execution<'a> {
    /// Corrects the stamps of hostnames whose rules were not written.
    pub(super) fn correct_stamps(&mut self) {
        let mut by_zone: BTreeMap<&'a ZoneId, Vec<(&str, RecordOperation)>> = BTreeMap::new();
        for host in &self.plan.hosts {
            let Some((stamped, claims)) = self.ledger.mistaken_stamp(host) else { continue };
            let Some(comment) = host.comments.with(&claims) else { continue };
            let before = self
                .snapshot
                .zone(&host.zone)
                .map(|zone| zone.records_of(&host.hostname))
                .unwrap_or_default();
            let deletes = |one: &RecordOperation| matches!(one, RecordOperation::Delete(..));
            // The takeover deleted the records of the former owner: without our record, the hostname would have none.
            let takes_over = host.stamp.iter().any(deletes);
            let corrections = by_zone.entry(&host.zone).or_default();
            corrections.extend(stamped.iter().cloned().map(|id| {
                let old = before.iter().find(|record| record.id == id).map(|record| &record.comment);
                let patch = |comment: &str| {
                    let (id, comment) = (id.clone(), Some(comment.into()));
                    RecordOperation::Patch(RecordPatch { id, content: None, proxied: None, comment })
                };
                let subject = || Subject { kind: "CNAME".into(), name: host.hostname.clone() };
                let operation = match old {
                    _ if !claims.is_empty() || takes_over => patch(&comment),
                    Some(old) => patch(old),
                    None => RecordOperation::Delete(id, subject()),
                };
                (&*host.hostname, operation)
            }));
        }
        let mut bare = self.unwritable.clone();
        bare.retain(|host| !host.if_unwritable.is_empty());
        let missed = self.missed(&bare);
        for host in bare.iter().filter(|host| !missed.iter().any(|(one, _)| one.hostname == host.hostname)) {
            let operations = host.if_unwritable.iter().cloned();
            by_zone.entry(&host.zone).or_default().extend(operations.map(|one| (&*host.hostname, one)));
        }
        for (zone, corrections) in by_zone {
            for corrections in corrections.chunks(self.operations_max(Target::Zone(zone))) {
                let pieces = corrections.iter().map(|(hostname, operation)| Piece {
                    hostname,
                    work: Work::Operations(std::slice::from_ref(operation)),
                });
                let pieces: Vec<Piece<'_>> = pieces.collect();
                let sent = self.check_time().and_then(|()| self.send_batch(Stage::Unstamp, zone, &pieces));
                let problem = match sent {
                    Ok(Answer::Done) => continue,
                    Ok(Answer::Refused(answer)) => answer.to_string(),
                    Err(Stop::Target(reason)) => reason.to_string(),
                    Err(Stop::Run(error)) => error.to_string(),
                };
                let (kind, name) = self.name_of(Target::Zone(zone));
                warn!(
                    "records in {kind} {name} whose comments name rules that were not written stay: {problem}"
                );
            }
        }
    }
}
