//! Identifies writes by fingerprints, so that they can be remembered: by their content, and by what stood in their
//! place.

use std::fmt::Write as _;

use crate::ingress::RuleEdit;
use crate::model::text::fingerprint;
use crate::model::{Record, TunnelId};
use crate::provider::description::describe_host;
use crate::reconcile::plan::{HostPlan, Reason, RecordOperation, rule_work};
use crate::reconcile::snapshot::Snapshot;

/// One write: fingerprints of its place, and of its content with what stood there when it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) place: u64,
    pub(super) content: u64,
    /// What is written.
    pub(super) what: Box<str>,
}

impl Write {
    /// The reason for which it waits where its effect does not last.
    pub(super) fn not_kept(&self) -> Reason {
        Reason::NotKept { what: self.what.clone() }
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

/// The contents of a hostname's work, by which refusals are remembered, each with the path of its rule; `None` for
/// records.
pub(super) fn works(host: &HostPlan) -> impl Iterator<Item = (Option<&str>, u64)> {
    let edits = host.edits.iter();
    let edits =
        edits.map(|(tunnel, edit)| (Some(edit.path().unwrap_or_default()), tunnel_work(tunnel, edit)));
    let batches = [&host.stamp, &host.unstamp].into_iter().filter(|operations| !operations.is_empty());
    edits.chain(batches.map(|operations| (None, record_work(operations))))
}

/// All that is written of a hostname, as one: an undone write meets the same rules and records each time, whatever becomes
/// of other hostnames. Ids of records do not count, because a record that was made again has a new one.
pub(super) fn write_of(host: &HostPlan, snapshot: &Snapshot) -> Write {
    let lines: Vec<String> = describe_host(host).map(|line| line.text).collect();
    let (mut place, mut content) = (host.hostname.to_string(), lines.join("\n"));
    if host.operations().next().is_some() {
        place.push_str(" records");
    }
    for (tunnel, edit) in &host.edits {
        let _ = writeln!(place, "{tunnel} {:?}", edit.path());
        let _ = writeln!(content, "{}", tunnel_work(tunnel, edit));
        let near = snapshot.tunnels.get(tunnel).into_iter().flat_map(|tunnel| tunnel.near(&host.hostname));
        for (_, rule) in near.filter(|(_, rule)| edit.is_covered_by(rule)) {
            let _ = writeln!(content, "{}", rule.raw().get());
        }
    }
    for record in snapshot.zones.iter().flat_map(|zone| zone.records_of(&host.hostname)) {
        let Record { kind, content: target, proxied, comment, .. } = record;
        let _ = writeln!(content, "{kind} {target} {proxied} {comment}");
    }
    let what = lines.into_iter().next().unwrap_or_default().into();
    Write { place: fingerprint([&*place]), content: fingerprint([&*content]), what }
}
