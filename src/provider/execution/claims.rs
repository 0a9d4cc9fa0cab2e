//! Makes a stamp say what stands, where a rule that it names was not written after all.
//!
//! A stamp names a rule before the rule is written. If that write is refused, or a foreign rule has taken the
//! place, the stamp would make that rule ours. Where none is left, the record is as it was before: a new one goes, because
//! it would take the hostname from a wildcard's record, and another one has its comment again. A takeover that deleted
//! records is not undone.

use std::collections::{BTreeMap, BTreeSet};

use log::warn;

use super::work::{Piece, Place, Work};
use super::{Execution, Sent};
use crate::cloudflare::WrittenRecord;
use crate::ingress::RuleEdit;
use crate::model::{RecordId, RecordPatch, TunnelId, ZoneId};
use crate::reconcile::plan::tunnel_work;
use crate::reconcile::plan::{HostPlan, RecordOperation, Stage, Subject};
use crate::reconcile::stamp::{Claims, Digest};

/// What became of this run's pieces.
#[derive(Debug, Default)]
pub(super) struct Written<'a> {
    /// The contents of those that are done.
    pub(super) contents: BTreeSet<u64>,
    /// The hostnames with a new stamp, and its records.
    pub(super) stamped: BTreeMap<Box<str>, Vec<RecordId>>,
    /// Hostnames of which nothing tells whether their rules were written.
    pub(super) uncertain: BTreeSet<&'a str>,
}

impl Written<'_> {
    pub(super) fn note_stamps(&mut self, pieces: &[Piece<'_>], written: &[WrittenRecord]) {
        for piece in pieces {
            let stamped = piece.operations().iter().filter_map(|operation| match operation {
                RecordOperation::Patch(patch) if patch.comment.is_some() => Some(patch.id.clone()),
                RecordOperation::Post(record) => written
                    .iter()
                    .find(|written| written.name == record.name)
                    .map(|written| written.id.clone()),
                _ => None,
            });
            self.stamped.entry(piece.hostname.into()).or_default().extend(stamped);
        }
    }

    /// What a hostname's stamp has to say; `None` if nothing tells, or if it says so already. A digest that it had before
    /// this request stays: its rule may be one that another instance is about to write, or that was not read.
    fn claims(&self, host: &HostPlan) -> Option<Claims> {
        if self.uncertain.contains(&*host.hostname) {
            return None;
        }
        let mut done = host.claims.clone();
        done.rules.extend(&host.dead);
        let mut claims = done.clone();
        let is_done =
            |(tunnel, edit): &&(TunnelId, RuleEdit)| self.contents.contains(&tunnel_work(tunnel, edit));
        for (tunnel, edit) in host.edits.iter().filter(|edit| !is_done(edit)) {
            let digest = Digest::of(tunnel, edit.path());
            match edit {
                RuleEdit::Put { replaces, .. } if *replaces || host.comments.named(&digest) => {}
                RuleEdit::Put { .. } => {
                    claims.rules.remove(&digest);
                }
                RuleEdit::Remove { .. } => {
                    claims.rules.insert(digest);
                }
            }
        }
        (claims != done).then_some(claims)
    }
}

impl Execution<'_> {
    /// Corrects the stamps of hostnames whose rules were not written.
    pub(super) fn correct_stamps(&mut self) {
        let mut by_zone: BTreeMap<&ZoneId, Vec<(&str, RecordOperation)>> = BTreeMap::new();
        for host in self.plan.hosts.iter().filter(|host| self.is_dropped(host)) {
            let (Some(stamped), Some(claims)) =
                (self.written.stamped.get(&host.hostname), self.written.claims(host))
            else {
                continue;
            };
            let Some(comment) = host.comments.with(&claims) else {
                continue;
            };
            let before = self
                .snapshot
                .zone(&host.zone)
                .map(|zone| zone.records_of(&host.hostname))
                .unwrap_or_default();
            let deletes = |one: &RecordOperation| matches!(one, RecordOperation::Delete(..));
            // What showed whose the hostname was is gone.
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
        bare.retain(|host| !host.without_tunnel.is_empty());
        let missed = self.missed(&bare);
        for host in bare.iter().filter(|host| !missed.iter().any(|(one, _)| one.hostname == host.hostname)) {
            let operations = host.without_tunnel.iter().cloned();
            by_zone.entry(&host.zone).or_default().extend(operations.map(|one| (&*host.hostname, one)));
        }
        for (zone, corrections) in by_zone {
            for corrections in corrections.chunks(self.batch_limit(zone)) {
                let pieces = corrections.iter().map(|(hostname, operation)| Piece {
                    hostname,
                    work: Work::Operations(std::slice::from_ref(operation)),
                });
                let pieces: Vec<Piece<'_>> = pieces.collect();
                if self.check_time().is_err() {
                    return;
                }
                let problem = match self.send_batch(Stage::Unstamp, zone, &pieces) {
                    Ok(Sent::Done) => continue,
                    Ok(Sent::Refused(answer)) => answer.to_string(),
                    Ok(Sent::Barred(reason)) => reason.to_string(),
                    Err(error) => error.to_string(),
                };
                let place = self.name_of(Place::Zone(zone));
                warn!("records in {place} whose comments name rules that were not written stay: {problem}");
            }
        }
    }
}
