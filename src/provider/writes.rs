//! Identifies writes by fingerprints, so that they can be remembered: by their content, and by what stood in their
//! place.

use std::fmt::Write as _;

use crate::ingress::{Rule, RuleEdit};
use crate::model::text::fingerprint;
use crate::model::{Record, TunnelId};
use crate::provider::description::{describe_operation, differing_fields, differing_property};
use crate::reconcile::plan::{HostPlan, OwnedRules, Reason, RecordOperation, rule_work};
use crate::reconcile::snapshot::Snapshot;

/// One write: fingerprints of its place, and of its content with what stood there when it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) place: u64,
    pub(super) content: u64,
    /// What differs from what stands there.
    pub(super) field: Box<str>,
}

impl Write {
    /// The reason for which it waits where its effect does not last.
    pub(super) fn not_kept(&self) -> Reason {
        Reason::NotKept { field: self.field.clone() }
    }
}

/// The content of an edit, by which a refusal is remembered. `replaces` does not count, because the same rule is
/// refused either way.
pub(super) fn tunnel_work(tunnel: &TunnelId, edit: &RuleEdit) -> u64 {
    match edit {
        RuleEdit::Put { rule, replaces: _ } => rule_work(tunnel, rule),
        RuleEdit::Remove { hostname, path } => {
            fingerprint([&*format!("{tunnel} remove {hostname:?} {path:?}")])
        }
    }
}

/// The content of a hostname's operations, by which a refusal is remembered.
pub(super) fn record_work(operations: &[RecordOperation]) -> u64 {
    fingerprint([&*format!("{operations:?}")])
}

/// One piece of a hostname's work.
pub(super) struct HostWork<'h> {
    /// The path of a rule; `None` for records.
    pub(super) path: Option<&'h str>,
    /// The content by which a refusal is remembered.
    pub(super) content: u64,
    /// `None` if it stands as it is to be written.
    pub(super) write: Option<Write>,
}

/// Every piece of a hostname's work.
pub(super) fn works<'h>(
    host: &'h HostPlan,
    snapshot: &Snapshot,
    owned: &OwnedRules<'_>,
) -> Vec<HostWork<'h>> {
    let edits = host.edits.iter().map(|(tunnel, edit)| HostWork {
        path: Some(edit.path().unwrap_or_default()),
        content: tunnel_work(tunnel, edit),
        write: rule_write(tunnel, edit, snapshot, owned),
    });
    let mut write = Some(record_write(host, snapshot));
    let batches = [&host.stamp, &host.unstamp].into_iter().filter(|operations| !operations.is_empty());
    let operations = batches.map(|operations| HostWork {
        path: None,
        content: record_work(operations),
        write: write.take(),
    });
    edits.chain(operations).collect()
}

/// The write of an edit. `None` if the rule already stands as wanted, and only other rules of the document are written.
fn rule_write(
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
    let found = standing.map(|rule| rule.raw().get()).unwrap_or_default();
    (!is_done).then(|| Write {
        place: fingerprint([tunnel.as_str(), edit.hostname().as_str(), edit.path().unwrap_or_default()]),
        content: fingerprint([
            &*tunnel_work(tunnel, edit).to_string(),
            found,
            if is_shadowed { "shadowed" } else { "" },
        ]),
        field: differing_property(edit, standing).into(),
    })
}

/// The rule at the place of an edit.
fn standing_rule<'a>(tunnel: &TunnelId, edit: &RuleEdit, snapshot: &'a Snapshot) -> Option<&'a Rule> {
    let rules = snapshot.tunnels.get(tunnel)?.rules_of(edit.hostname());
    rules.into_iter().find(|rule| rule.path() == edit.path())
}

/// The writes of a hostname's records, as one. Ids do not count, because a record that somebody made again has a new one.
fn record_write(host: &HostPlan, snapshot: &Snapshot) -> Write {
    let operations: Vec<&RecordOperation> = host.operations().collect();
    let wanted: String = operations
        .iter()
        .map(|operation| describe_operation(&host.hostname, operation).to_string())
        .collect();
    let mut found = String::new();
    for record in snapshot.zones.iter().flat_map(|zone| zone.records_of(&host.hostname)) {
        let Record { kind, content, proxied, comment, .. } = record;
        let _ = writeln!(found, "{kind} {content} {proxied} {comment}");
    }
    Write {
        place: fingerprint([&*host.hostname]),
        content: fingerprint([&*wanted, &*found]),
        field: differing_fields(&operations).into(),
    }
}
