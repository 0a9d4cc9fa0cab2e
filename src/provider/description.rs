//! Describes a write for the log: that it was done, that it would be done, or which part of it does not last.

use std::fmt::Write as _;

use crate::ingress::{Rule, RuleEdit};
use crate::model::endpoint::Property;
use crate::model::{LogLine, RecordPatch, TunnelId};
use crate::reconcile::access::gate::{ApplicationOperation, ApplicationWork};
use crate::reconcile::canonical;
use crate::reconcile::plan::{Adoption, Plan, RecordOperation, Subject};

/// A line for each write of a plan.
pub(super) fn describe(plan: &Plan) -> Vec<LogLine> {
    let hosts = plan.hosts.iter();
    let applications = plan.work.iter().map(describe_application);
    let of_hosts = hosts.flat_map(|host| {
        // A rule that is taken over unchanged is only looked at.
        let edits = host.edits.iter().filter(|(_, edit)| {
            let mut paths = host.adoptions.iter().filter_map(|adoption| adoption.path.as_deref());
            let is_adopted = paths.any(|path| path == edit.path().unwrap_or_default());
            !(is_adopted && matches!(edit, RuleEdit::Put { rule: _, replaces: false }))
        });
        let operations = host.operations();
        let adoptions = host.adoptions.iter();
        let adoptions = adoptions.map(|adoption| describe_adoption(&host.hostname, adoption));
        let edits = edits.map(|(tunnel, edit)| describe_edit(&host.hostname, tunnel, edit));
        adoptions
            .chain(edits)
            .chain(operations.map(|operation| describe_operation(&host.hostname, operation)))
    });
    applications.chain(of_hosts).collect()
}

pub(super) fn describe_application(work: &ApplicationWork) -> LogLine {
    let verb = match &work.operation {
        ApplicationOperation::Create(_) => "created",
        ApplicationOperation::Replace(..) => "changed",
        ApplicationOperation::Delete(_) => "deleted",
    };
    LogLine::default()
        .quoted("hostname", work.place.hostname())
        .quoted("application", &*work.place.to_string())
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
    let text = match operation {
        // A TXT record belongs to ExternalDNS's registry, under a name of its own.
        RecordOperation::Delete(_, Subject { kind, name }) if &**kind == "TXT" => {
            format!("TXT record deleted, name={name:?}")
        }
        RecordOperation::Delete(..) => "record deleted".to_owned(),
        RecordOperation::Patch(RecordPatch { id: _, content, proxied, comment }) => {
            let mut text = "record changed".to_owned();
            for (field, value) in [("target", content), ("comment", comment)] {
                if let Some(value) = value {
                    let _ = write!(text, ", {field}={value:?}");
                }
            }
            text.push_str(if *proxied == Some(true) { ", proxied" } else { "" });
            text
        }
        RecordOperation::Post(record) => format!("record created, target={:?}", &*record.content),
    };
    LogLine::default().word("hostname", &hostname).text(text)
}

/// The fields of the record that have to be written again.
pub(super) fn differing_fields(operations: &[&RecordOperation]) -> String {
    let [RecordOperation::Patch(patch)] = operations else {
        return "record".to_owned();
    };
    let RecordPatch { id: _, content, proxied, comment } = patch;
    let fields =
        [("target", content.is_some()), ("proxied", proxied.is_some()), ("comment", comment.is_some())];
    let names: Vec<&str> =
        fields.into_iter().filter(|(_, is_written)| *is_written).map(|(name, _)| name).collect();
    format!("record's {}", names.join(" and "))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{document, put};
    use crate::model::{Hostname, NewRecord, RecordId};
    use crate::reconcile::access::place::Place;
    use crate::reconcile::access::wish::ProtectionWish;

    fn patch(content: Option<&str>, proxied: Option<bool>, comment: Option<&str>) -> RecordOperation {
        RecordOperation::Patch(RecordPatch {
            id: RecordId::new("id"),
            content: content.map(Into::into),
            proxied,
            comment: comment.map(Into::into),
        })
    }

    #[test]
    fn the_line_of_an_application_names_its_place() {
        let line = |path: Option<&str>, operation: ApplicationOperation| {
            let hostname = Hostname::parse("a.example.com").expect("a hostname");
            let place = Place::of(&hostname, path).expect("a place");
            describe_application(&ApplicationWork { place, operation, key: 0 }).to_string()
        };
        let wish = || ProtectionWish { policies: Vec::new(), session_duration: Default::default() };
        assert_eq!(
            line(None, ApplicationOperation::Create(wish())),
            r#"Access application created hostname="a.example.com" application="a.example.com""#
        );
        assert_eq!(
            line(Some("^/a(/|$)"), ApplicationOperation::Replace("id".into(), wish())),
            r#"Access application changed hostname="a.example.com" application="a.example.com/a""#
        );
        assert_eq!(
            line(Some("^/a(/|$)"), ApplicationOperation::Delete("id".into())),
            r#"Access application deleted hostname="a.example.com" application="a.example.com/a""#
        );
    }

    #[test]
    fn the_line_of_a_record_says_what_is_written_and_that_of_a_deleted_txt_its_name() {
        let line = |operation: &RecordOperation| describe_operation("a.example.com", operation).to_string();
        let post = RecordOperation::Post(NewRecord {
            name: "a.example.com".into(),
            kind: "CNAME".into(),
            content: "content".into(),
            proxied: true,
            ttl: 1,
            comment: "".into(),
        });
        let delete = |kind: &str| {
            let subject = Subject { kind: kind.into(), name: "x.a.example.com".into() };
            RecordOperation::Delete(RecordId::new("id"), subject)
        };
        let end = "hostname=a.example.com";
        assert_eq!(line(&post), format!(r#"record created, target="content" {end}"#));
        assert_eq!(
            line(&patch(Some("content"), Some(true), Some("comment"))),
            format!(r#"record changed, target="content", comment="comment", proxied {end}"#)
        );
        assert_eq!(line(&delete("CNAME")), format!("record deleted {end}"));
        assert_eq!(line(&delete("TXT")), format!(r#"TXT record deleted, name="x.a.example.com" {end}"#));
    }

    #[test]
    fn what_does_not_last_is_named_by_its_fields() {
        for (operation, named) in [
            (patch(Some("x"), Some(true), Some("x")), "record's target and proxied and comment"),
            (patch(None, Some(true), None), "record's proxied"),
        ] {
            assert_eq!(differing_fields(&[&operation]), named);
            assert_eq!(differing_fields(&[&operation, &operation]), "record");
        }
        let document = document(r#"{"hostname":"a.example.com","service":"http://a:80"}"#);
        let standing = document.rules().first();
        assert_eq!(differing_property(&put("a.example.com", "http://a:80"), standing), "rule's place");
        assert_eq!(
            differing_property(&put("a.example.com", "http://b:80"), standing),
            "rule's webhook/tunnel-service"
        );
        assert_eq!(differing_property(&put("a.example.com", "http://b:80"), None), "rule");
    }
}
