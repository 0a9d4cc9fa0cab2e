//! What this process stamped and has not published: a stamp comes before its rule, and somebody else may take the
//! rule's place in between. Whoever then went by the stamp alone would change or delete a rule that is not ours.

use std::collections::{BTreeMap, BTreeSet};

use crate::ingress::{RuleEdit, WantedRule};
use crate::model::{RecordId, TunnelId};
use crate::reconcile::Settings;
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::stamp::Digest;

/// Digests by hostname. It is lost with the process, as what a crash leaves behind cannot be told from a rule of ours.
#[derive(Debug, Default)]
pub(crate) struct UnpublishedRules {
    digests: BTreeMap<Box<str>, BTreeSet<Digest>>,
    /// The rules that they stand for.
    rules: Vec<(TunnelId, WantedRule)>,
    /// By hostname, what stood in its records' comments before they were taken over. It is kept as long as the stamp: what
    /// was somebody else's is given back whenever nothing of its hostname turns out to be ours.
    comments: BTreeMap<Box<str>, Vec<(RecordId, Box<str>)>>,
}

impl UnpublishedRules {
    /// Notes that the rule's digest is about to be stamped. A rule that is taken over, whatever it is, is ours with its
    /// stamp.
    pub(crate) fn insert(&mut self, tunnel: &TunnelId, hostname: &str, edit: &RuleEdit) {
        let RuleEdit::Put { rule, replaces: false } = edit else {
            return;
        };
        if let Some(digest) = digest_of(tunnel, edit) {
            self.digests.entry(hostname.into()).or_default().insert(digest);
            self.rules.push((tunnel.clone(), rule.clone()));
        }
    }

    /// Notes that records are about to be taken over, with what stands in their comments.
    pub(crate) fn insert_adopted(&mut self, hostname: &str, comments_before: &[(RecordId, Box<str>)]) {
        self.comments.insert(hostname.into(), comments_before.to_vec());
    }

    /// What stood in the comments of records that were taken over and may have to be given back.
    pub(crate) fn comments(&self) -> &BTreeMap<Box<str>, Vec<(RecordId, Box<str>)>> {
        &self.comments
    }

    /// Whether the rule was stamped and certainly not written since.
    pub(crate) fn has(&self, tunnel: &TunnelId, hostname: &str, edit: &RuleEdit) -> bool {
        let digests = self.digests.get(hostname);
        digests.is_some_and(|digests| digest_of(tunnel, edit).is_some_and(|digest| digests.contains(&digest)))
    }

    /// The rules were written, or may have been.
    pub(crate) fn remove<'e>(
        &mut self,
        tunnel: &TunnelId,
        edits: impl Iterator<Item = (&'e str, &'e RuleEdit)>,
    ) {
        let mut gone: BTreeMap<Box<str>, BTreeSet<Digest>> = BTreeMap::new();
        for (hostname, edit) in edits {
            if let Some(digest) = digest_of(tunnel, edit) {
                gone.entry(hostname.into()).or_default().insert(digest);
            }
        }
        self.forget(&gone);
    }

    /// The digests are off their stamps.
    pub(crate) fn forget(&mut self, gone: &BTreeMap<Box<str>, BTreeSet<Digest>>) {
        self.retain(|hostname, digest| !gone.get(hostname).is_some_and(|gone| gone.contains(&digest)));
    }

    fn retain(&mut self, stays: impl Fn(&str, Digest) -> bool) {
        let Self { digests, rules, comments: _ } = self;
        digests.retain(|hostname, digests| {
            digests.retain(|digest| stays(hostname, *digest));
            !digests.is_empty()
        });
        rules.retain(|(tunnel, rule)| {
            let digests = digests.get(rule.hostname.as_str());
            digests.is_some_and(|digests| digests.contains(&Digest::of(tunnel, rule.path_text())))
        });
    }

    /// Those that a stamp names and that a rule stands for: the rule is not ours. One that stands as it is wanted is, as
    /// if it had been written. What no stamp names any more is over: whoever has the hostname later has nothing to do with
    /// it.
    pub(crate) fn taken(
        &mut self,
        snapshot: &Snapshot,
        settings: &Settings,
    ) -> BTreeMap<Box<str>, BTreeSet<Digest>> {
        let mut taken: BTreeMap<Box<str>, BTreeSet<Digest>> = BTreeMap::new();
        if self.digests.is_empty() && self.comments.is_empty() {
            return taken;
        }
        let mut published: BTreeMap<Box<str>, BTreeSet<Digest>> = BTreeMap::new();
        let own = snapshot.own_rules(settings);
        self.comments.retain(|hostname, _| own.digests_of(hostname).is_some());
        self.retain(|hostname, digest| {
            own.digests_of(hostname).is_some_and(|digests| digests.contains(&digest))
        });
        for (id, tunnel) in &snapshot.tunnels {
            for rule in tunnel.document.rules().iter().filter(|rule| own.names(id, rule)) {
                let (hostname, digest) = (rule.folded_hostname(), Digest::of(id, rule.path()));
                if self.digests.get(hostname).is_some_and(|digests| digests.contains(&digest)) {
                    let is_as_wanted = self.rules.iter().any(|(tunnel, wanted)| {
                        tunnel == id
                            && rule.is_for(&wanted.hostname, wanted.path_text())
                            && rule.equals_in_every_field(wanted)
                    });
                    let list = if is_as_wanted { &mut published } else { &mut taken };
                    list.entry(hostname.into()).or_default().insert(digest);
                }
            }
        }
        self.forget(&published);
        taken
    }
}

fn digest_of(tunnel: &TunnelId, edit: &RuleEdit) -> Option<Digest> {
    match edit {
        RuleEdit::Put { rule, replaces: _ } => Some(Digest::of(tunnel, rule.path_text())),
        RuleEdit::Remove { .. } => None,
    }
}
