//! Compares writes with earlier ones, by fingerprints of their content and of the state that they replace. A plan
//! leaves out writes that Cloudflare refused, and writes that are reverted each time.

use std::fmt::Write as _;

use crate::model::Record;
use crate::model::text::fingerprint;
use crate::reconcile::plan::piece::{edit_fingerprint, pieces};
use crate::reconcile::plan::planned::{HostPlan, PlannedEdit, RecordOperation};
use crate::reconcile::plan_inputs::PlanInputs;
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;

/// One write, as it is compared with earlier writes. The fingerprint `key` identifies what is written: a rule, the
/// records of a hostname, or the application of a place. The other one is of the content and, except for applications,
/// of the state in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparedWrite {
    pub(crate) key: u64,
    pub(crate) fingerprint: u64,
    /// The log text of the write.
    pub(crate) what: Box<str>,
}

/// The writes of a hostname: one for each rule, and one for its records. A reverted write has the same fingerprints
/// each time, whatever happens to other hostnames and to the other writes of this hostname.
pub(crate) fn writes_of(host: &HostPlan, snapshot: &Snapshot) -> Vec<ComparedWrite> {
    let rules = host.edits.iter().map(|PlannedEdit { tunnel, edit, resource: _ }| {
        let near =
            snapshot.tunnels.get(tunnel).into_iter().flat_map(|tunnel| tunnel.document.near(&host.hostname));
        let covering = near.filter(|rule| edit.is_covered_by(rule)).map(|rule| rule.raw().get());
        let content = format!("{} {}", edit_fingerprint(tunnel, edit), covering.collect::<String>());
        ComparedWrite {
            key: fingerprint([&*host.hostname, tunnel.as_str(), edit.path().unwrap_or_default()]),
            fingerprint: fingerprint([&*content]),
            what: edit.log_text().into(),
        }
    });
    rules.chain(records_write(host, snapshot)).collect()
}

/// Record ids do not count, because a recreated record has a new id.
fn records_write(host: &HostPlan, snapshot: &Snapshot) -> Option<ComparedWrite> {
    let lines: Vec<String> = host.operations().map(RecordOperation::log_text).collect();
    let what = lines.first()?.as_str().into();
    let mut content = format!("{} {}\n", host.hostname, lines.join("\n"));
    for record in snapshot.zones.iter().flat_map(|zone| zone.records_of(&host.hostname)) {
        let Record { record_type, content: target, proxied, comment, .. } = record;
        let _ = writeln!(content, "{record_type} {target} {proxied} {comment}");
    }
    Some(ComparedWrite { key: fingerprint([&*host.hostname]), fingerprint: fingerprint([&*content]), what })
}

/// The refusals of a hostname with a piece that Cloudflare refused before. Reverted writes are refused if the hostname
/// has no other writes. Otherwise all writes of the hostname are sent once more.
pub(super) fn refusals(host: &HostPlan, snapshot: &Snapshot, inputs: &PlanInputs) -> Vec<Refusal> {
    if inputs.paused.is_empty() {
        return Vec::new();
    }
    let refusal = |path: Option<&str>, fingerprint: u64| {
        let reason = inputs.paused.get(&fingerprint)?.clone();
        Some(Refusal::new(&host.hostname, path, host.resource.as_deref(), reason))
    };
    let refused = pieces(host).filter_map(|piece| {
        let path = piece.edit.map(|planned| planned.edit.path().unwrap_or_default());
        refusal(path, piece.fingerprint())
    });
    let refused: Vec<Refusal> = refused.collect();
    if !refused.is_empty() {
        return refused;
    }
    let reverted = writes_of(host, snapshot).into_iter().map(|write| refusal(None, write.fingerprint));
    reverted.collect::<Option<_>>().unwrap_or_default()
}
