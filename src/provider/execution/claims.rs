//! Makes a stamp say what stands, where a rule that it names was not written after all.
//!
//! A stamp names a rule before the rule is written. If that write is refused, or somebody else's rule has taken the
//! place, the stamp would make that rule ours.

use std::collections::BTreeMap;

use log::warn;

use super::Execution;
use super::work::{Piece, Place};
use crate::cloudflare::{Batch, PostedRecord};
use crate::ingress::RuleEdit;
use crate::model::{RecordId, RecordPatch, TunnelId, ZoneId};
use crate::reconcile::plan::{HostPlan, RecordOperation};
use crate::reconcile::stamp::{Claims, Digest};

/// What became of the stamps and rules of this run's hostnames.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The records with a new stamp, with their zones.
    stamped: BTreeMap<Box<str>, Vec<(ZoneId, RecordId)>>,
    /// The rules that were written or removed.
    edited: Vec<(Box<str>, TunnelId, Option<Box<str>>)>,
    /// Hostnames of which nothing tells whether their rules were written.
    uncertain: Vec<Box<str>>,
}

impl Written {
    pub(super) fn note_stamps(&mut self, zone: &ZoneId, pieces: &[Piece<'_>], posted: &[PostedRecord]) {
        for piece in pieces {
            let ids = piece.operations().iter().filter_map(|operation| match operation {
                RecordOperation::Patch(patch) if patch.comment.is_some() => Some(patch.id.clone()),
                RecordOperation::Post(record) => {
                    posted.iter().find(|posted| posted.name == record.name).map(|posted| posted.id.clone())
                }
                _ => None,
            });
            let stamped: Vec<_> = ids.map(|id| (zone.clone(), id)).collect();
            self.stamped.entry(piece.hostname.into()).or_default().extend(stamped);
        }
    }

    pub(super) fn note_edits<'e>(
        &mut self,
        tunnel: &TunnelId,
        edits: impl Iterator<Item = (&'e str, &'e RuleEdit)>,
    ) {
        self.edited.extend(
            edits.map(|(hostname, edit)| (hostname.into(), tunnel.clone(), edit.path().map(Into::into))),
        );
    }

    pub(super) fn note_uncertain<'e>(&mut self, hostnames: impl Iterator<Item = &'e str>) {
        self.uncertain.extend(hostnames.map(Into::into));
    }

    /// What a hostname's stamp has to say; `None` if nothing tells, or if it says so already.
    fn claims(&self, host: &HostPlan) -> Option<Claims> {
        if self.uncertain.contains(&host.hostname) {
            return None;
        }
        let mut claims = host.claims.clone();
        let edits = host.edits.iter();
        for (tunnel, edit) in edits.filter(|(tunnel, edit)| !self.has_edited(&host.hostname, tunnel, edit)) {
            let digest = Digest::of(tunnel, edit.path());
            match edit {
                RuleEdit::Put { replaces: true, .. } => {}
                RuleEdit::Put { replaces: false, .. } => {
                    claims.rules.remove(&digest);
                }
                RuleEdit::Remove { .. } => {
                    claims.rules.insert(digest);
                }
            }
        }
        (claims != host.claims).then_some(claims)
    }

    fn has_edited(&self, hostname: &str, tunnel: &TunnelId, edit: &RuleEdit) -> bool {
        self.edited
            .iter()
            .any(|(name, at, path)| **name == *hostname && at == tunnel && path.as_deref() == edit.path())
    }
}

impl Execution<'_> {
    /// Corrects the stamps of hostnames whose rules were not written.
    pub(super) fn correct_stamps(&mut self) {
        let mut batches: BTreeMap<&ZoneId, Batch> = BTreeMap::new();
        let dropped = self.plan.hosts.iter().filter(|host| self.done.dropped.contains(&host.hostname));
        for host in dropped {
            let (Some(stamped), Some(claims)) =
                (self.written_stamps.stamped.get(&host.hostname), self.written_stamps.claims(host))
            else {
                continue;
            };
            let Some(comment) = host.comments.with(&claims) else {
                continue;
            };
            for (zone, id) in stamped {
                let (id, comment) = (id.clone(), Some(comment.clone()));
                let patch = RecordPatch { id, content: None, proxied: None, comment };
                batches.entry(zone).or_default().patches.push(patch);
            }
        }
        for (zone, batch) in batches {
            if self.check_time().is_err() {
                return;
            }
            if let Err(error) = self.tools.client.batch(zone, &batch, self.deadline) {
                let place = self.line_of(Place::Zone(zone));
                warn!("{place}: stamps that name rules which were not written stay: {error}");
            }
        }
    }
}
