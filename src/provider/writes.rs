//! Identifies writes, so that they can be remembered: by their content, and by a fingerprint with what stood in their
//! place.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};

use crate::ingress::{Owned, Rule, RuleEdit};
use crate::model::{Record, TunnelId, ZoneId};
use crate::provider::description::describe_operation;
use crate::reconcile::plan::{HostPlan, RecordOperation, Stage, rule_work};
use crate::reconcile::snapshot::Snapshot;

/// Every tunnel's rules, each marked as ours or not.
pub(super) type OwnedRules<'a> = BTreeMap<&'a TunnelId, Owned<'a>>;

/// One write: its place, its content, and what stood there when it was decided. These are fingerprints, because a first
/// loop may write thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) place: u64,
    pub(super) wanted: u64,
    pub(super) found: u64,
}

/// A fingerprint of texts. It distinguishes `["ab", "c"]` from `["a", "bc"]`.
pub(super) fn fingerprint<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for text in texts {
        hasher.write(text.as_bytes());
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

/// The content of an edit, by which a refusal is remembered. `replaces` does not count, because the same rule is
/// refused either way.
pub(super) fn tunnel_work(tunnel: &TunnelId, edit: &RuleEdit) -> Box<str> {
    match edit {
        RuleEdit::Put { rule, replaces: _ } => rule_work(tunnel, rule),
        RuleEdit::Remove { hostname, path } => format!("{tunnel} remove {hostname:?} {path:?}").into(),
    }
}

/// The content of a hostname's operations, by which a refusal is remembered.
pub(super) fn record_work(operations: &[RecordOperation]) -> Box<str> {
    format!("{operations:?}").into()
}

/// The key by which work in doubt is remembered.
pub(super) fn key(content: &str) -> u64 {
    fingerprint([content])
}

/// Every piece of a hostname's work: the content by which a refusal is remembered, and its write.
pub(super) fn works(
    host: &HostPlan,
    snapshot: &Snapshot,
    owned: &OwnedRules<'_>,
) -> Vec<(Box<str>, Option<Write>)> {
    let mut works = Vec::new();
    for (tunnel, edit) in host.edits.values().flatten() {
        works.push((tunnel_work(tunnel, edit), rule_write_against(tunnel, edit, snapshot, owned)));
    }
    for (batch, operations) in &host.operations {
        let write = record_write(&host.hostname, batch, operations, snapshot);
        works.push((record_work(operations), Some(write)));
    }
    works
}

/// The write of an edit. `None` if the rule already stands as wanted, and only other rules of the document are written.
pub(super) fn rule_write_against(
    tunnel: &TunnelId,
    edit: &RuleEdit,
    snapshot: &Snapshot,
    owned: &OwnedRules<'_>,
) -> Option<Write> {
    let standing = standing_rule(tunnel, edit, snapshot);
    let is_shadowed = standing.is_some()
        && owned.get(tunnel).is_some_and(|owned| owned.is_shadowed(edit.hostname(), edit.path()));
    let is_done = match edit {
        RuleEdit::Put { rule, replaces: _ } => {
            standing.is_some_and(|standing| standing.equals(rule)) && !is_shadowed
        }
        RuleEdit::Remove { .. } => standing.is_none(),
    };
    (!is_done).then(|| rule_write(tunnel, edit, standing, is_shadowed))
}

/// The write of an edit, where `standing` is the rule at its place.
pub(crate) fn rule_write(
    tunnel: &TunnelId,
    edit: &RuleEdit,
    standing: Option<&Rule>,
    is_shadowed: bool,
) -> Write {
    let found = standing.map(|rule| rule.raw().get()).unwrap_or_default();
    Write {
        place: fingerprint([tunnel.as_str(), edit.hostname().as_str(), edit.path().unwrap_or_default()]),
        wanted: fingerprint([&*tunnel_work(tunnel, edit)]),
        found: fingerprint([found, if is_shadowed { "shadowed" } else { "" }]),
    }
}

/// The rule at the place of an edit.
pub(super) fn standing_rule<'a>(
    tunnel: &TunnelId,
    edit: &RuleEdit,
    snapshot: &'a Snapshot,
) -> Option<&'a Rule> {
    let rules = snapshot.tunnels.get(tunnel)?.rules_of(edit.hostname());
    rules.into_iter().find(|rule| rule.path() == edit.path())
}

/// The write of a hostname's records. Ids do not count, because a record that somebody made again has a new one.
pub(super) fn record_write(
    hostname: &str,
    (stage, zone): &(Stage, ZoneId),
    operations: &[RecordOperation],
    snapshot: &Snapshot,
) -> Write {
    let wanted: String =
        operations.iter().map(|operation| describe_operation(hostname, operation).to_string()).collect();
    let mut found = String::new();
    for record in snapshot.zones.iter().flat_map(|zone| zone.records_of(hostname)) {
        let Record {
            id: _,
            name: _,
            kind,
            content,
            proxied,
            ttl: _,
            comment,
            read_only: _,
            created_unix_seconds: _,
            modified_unix_seconds: _,
        } = record;
        let _ = writeln!(found, "{kind} {content} {proxied} {comment}");
    }
    // What one of the two stages writes in a zone, the other takes back.
    let is_deletion = operations.iter().all(|one| matches!(one, RecordOperation::Delete(..)));
    let stage = match *stage {
        Stage::Unstamp if is_deletion => Stage::Stamp,
        stage => stage,
    };
    Write {
        place: fingerprint([hostname, zone.as_str(), &*format!("{stage:?}")]),
        wanted: fingerprint([&*wanted]),
        found: fingerprint([&*found]),
    }
}
