//! What this process stamped and has not published: a stamp comes before its rule, and somebody else may take the
//! rule's place in between. Whoever then went by the stamp alone would change or delete a rule that is not ours.

use std::collections::{BTreeMap, BTreeSet};

use crate::reconcile::Settings;
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::stamp::Digest;
use crate::tunnel::{RuleEdit, TunnelId, hostname};

/// Digests by hostname. It is lost with the process, as what a crash leaves behind cannot be told from a rule of ours.
#[derive(Debug, Default)]
pub(super) struct Unpublished(BTreeMap<Box<str>, BTreeSet<Digest>>);

impl Unpublished {
    /// Notes that the rule's digest is about to be stamped.
    pub(super) fn insert(&mut self, tunnel: &TunnelId, hostname: &str, edit: &RuleEdit) {
        if let Some(digest) = digest_of(tunnel, edit) {
            self.0.entry(hostname.into()).or_default().insert(digest);
        }
    }

    /// Whether the rule was stamped and certainly not written since.
    pub(super) fn has(&self, tunnel: &TunnelId, hostname: &str, edit: &RuleEdit) -> bool {
        let digests = self.0.get(hostname);
        digests.is_some_and(|digests| digest_of(tunnel, edit).is_some_and(|digest| digests.contains(&digest)))
    }

    /// The rule was written, or may have been.
    pub(super) fn remove(&mut self, tunnel: &TunnelId, hostname: &str, edit: &RuleEdit) {
        if let Some(digest) = digest_of(tunnel, edit) {
            self.forget(&BTreeMap::from([(hostname.into(), BTreeSet::from([digest]))]));
        }
    }

    /// The digests are off their stamps.
    pub(super) fn forget(&mut self, gone: &BTreeMap<Box<str>, BTreeSet<Digest>>) {
        self.0.retain(|hostname, digests| {
            digests.retain(|digest| !gone.get(hostname).is_some_and(|gone| gone.contains(digest)));
            !digests.is_empty()
        });
    }

    /// Those that a stamp names and that a rule stands for: the rule is not ours.
    pub(super) fn taken(
        &self,
        snapshot: &Snapshot,
        settings: &Settings,
    ) -> BTreeMap<Box<str>, BTreeSet<Digest>> {
        let mut taken: BTreeMap<Box<str>, BTreeSet<Digest>> = BTreeMap::new();
        if self.0.is_empty() {
            return taken;
        }
        let own = snapshot.own_rules(settings);
        for (id, tunnel) in &snapshot.tunnels {
            for rule in tunnel.document.rules().iter().filter(|rule| own.has(id, rule)) {
                let (hostname, digest) = (hostname::normalize(rule.hostname()), Digest::of(id, rule.path()));
                if self.0.get(&*hostname).is_some_and(|digests| digests.contains(&digest)) {
                    taken.entry(hostname.into()).or_default().insert(digest);
                }
            }
        }
        taken
    }
}

fn digest_of(tunnel: &TunnelId, edit: &RuleEdit) -> Option<Digest> {
    match edit {
        RuleEdit::Put { rule, replaces: _ } => Some(Digest::of(tunnel, rule.path_text())),
        RuleEdit::Remove { .. } => None,
    }
}
