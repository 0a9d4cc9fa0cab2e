//! Describes a write for the log: that it was done, that it would be done, or which part of it does not last.

use std::fmt::Write as _;

use crate::ingress::{Rule, RuleEdit};
use crate::model::endpoint::Property;
use crate::model::{LogLine, NewRecord, RecordPatch, TunnelId};
use crate::reconcile::canonical;
use crate::reconcile::plan::{
    Adoption, ApplicationOperation, ApplicationWork, Plan, RecordOperation, Subject,
};

/// A line for each write of a plan.
pub(super) fn describe(plan: &Plan) -> Vec<LogLine> {
    let hosts = plan.hosts.iter();
    hosts
        .flat_map(|host| {
            // A rule that is taken over unchanged is only looked at.
            let edits = host.edits.values().flatten().filter(|(_, edit)| {
                let mut paths = host.adoptions.iter().filter_map(|adoption| adoption.path.as_deref());
                let is_adopted = paths.any(|path| path == edit.path().unwrap_or_default());
                !(is_adopted && matches!(edit, RuleEdit::Put { rule: _, replaces: false }))
            });
            let operations = host.operations.values().flatten();
            let adoptions = host.adoptions.iter();
            let adoptions = adoptions.map(|adoption| describe_adoption(&host.hostname, adoption));
            let edits = edits.map(|(tunnel, edit)| describe_edit(&host.hostname, tunnel, edit));
            adoptions
                .chain(edits)
                .chain(operations.map(|operation| describe_operation(&host.hostname, operation)))
        })
        .collect()
}

pub(super) fn describe_application(work: &ApplicationWork) -> LogLine {
    let verb = match &work.operation {
        ApplicationOperation::Create(_) => "created",
        ApplicationOperation::Replace(..) => "changed",
        ApplicationOperation::Delete(_) => "deleted",
    };
    LogLine::default()
        .quoted("hostname", &*work.hostname)
        .quoted("path", Some(&*work.set_identifier).filter(|path| !path.is_empty()))
        .text(format!("Access application {verb}"))
}

pub(super) fn describe_adoption(hostname: &str, Adoption { path, was }: &Adoption) -> LogLine {
    LogLine::default()
        .word("hostname", &hostname)
        .quoted("path", path.as_deref().filter(|path| !path.is_empty()))
        .text(format!("taken over, was={was}"))
}

pub(super) fn describe_edit(hostname: &str, tunnel: &TunnelId, edit: &RuleEdit) -> LogLine {
    let text = match edit {
        RuleEdit::Put { rule, replaces: _ } => {
            format!("rule published, service={:?}", rule.service.as_str())
        }
        RuleEdit::Remove { .. } => "rule withdrawn".to_owned(),
    };
    LogLine::default()
        .word("hostname", &hostname)
        .quoted("path", edit.path().unwrap_or_default())
        .word("tunnel", tunnel)
        .text(text)
}

pub(super) fn describe_operation(hostname: &str, operation: &RecordOperation) -> LogLine {
    let (verb, kind, name) = match operation {
        RecordOperation::Delete(_, Subject { kind, name }) => ("deleted", kind, name),
        RecordOperation::Patch(_, Subject { kind, name }) => ("changed", kind, name),
        RecordOperation::Post(NewRecord { kind, name, .. }) => ("created", kind, name),
    };
    // A TXT record belongs to a registry, under a name of its own.
    let is_txt = &**kind == "TXT";
    let mut text =
        if is_txt { format!("TXT record {verb}, name={name:?}") } else { format!("record {verb}") };
    match operation {
        RecordOperation::Delete(..) => {}
        RecordOperation::Patch(RecordPatch { id: _, content, proxied, comment }, _) => {
            let target = if is_txt { "content" } else { "target" };
            for (field, value) in [(target, content), ("comment", comment)] {
                if let Some(value) = value {
                    let _ = write!(text, ", {field}={value:?}");
                }
            }
            text.push_str(if *proxied == Some(true) { ", proxied" } else { "" });
        }
        RecordOperation::Post(_) if is_txt => {}
        RecordOperation::Post(record) => {
            let _ = write!(text, ", target={:?}", &*record.content);
        }
    }
    LogLine::default().word("hostname", &hostname).text(text)
}

/// The fields of the record that have to be written again.
pub(super) fn differing_fields(operations: &[RecordOperation]) -> String {
    let [RecordOperation::Patch(patch, Subject { kind, name })] = operations else {
        return "record".to_owned();
    };
    let (record, target) = match &**kind {
        "TXT" => (format!("TXT record {name:?}"), "content"),
        _ => ("record".to_owned(), "target"),
    };
    let RecordPatch { id: _, content, proxied, comment } = patch;
    let fields =
        [(target, content.is_some()), ("proxied", proxied.is_some()), ("comment", comment.is_some())];
    let names: Vec<&str> =
        fields.into_iter().filter(|(_, is_written)| *is_written).map(|(name, _)| name).collect();
    format!("{record}'s {}", names.join(" and "))
}

/// The property of the rule that has to be written again.
pub(crate) fn differing_property(edit: &RuleEdit, standing: Option<&Rule>) -> String {
    let (RuleEdit::Put { rule, replaces: _ }, Some(standing)) = (edit, standing) else {
        return "rule".to_owned();
    };
    let (wanted, found) = (canonical::properties_of_wanted(rule), canonical::properties_of_rule(standing));
    let differs = |property: &&Property| !(wanted.contains(property) && found.contains(property));
    match wanted.iter().chain(&found).find(differs) {
        Some(property) => format!("rule's {}", property.name),
        None => "rule's place".to_owned(),
    }
}
