//! Describes a write for the log, as done or as planned in a dry run.

use miniserde::json;

use crate::ingress::{OriginOption, RuleEdit};
use crate::model::endpoint::{Property, annotation_of};
use crate::model::{LogLine, TunnelId};
use crate::reconcile::access::gate::{ApplicationOperation, ApplicationWrite};
use crate::reconcile::plan::{Adoption, HostPlan, Plan, RecordOperation};
use crate::secret::redact;

/// The room in a log line beside a hostname, a path and the fixed words.
const ADOPTION_MAX_CHARS: usize = 2_600;

/// A line for each write of a plan.
pub(super) fn describe(plan: &Plan) -> Vec<LogLine> {
    let applications = plan.application_writes.iter().map(describe_application);
    applications.chain(plan.hosts.iter().flat_map(describe_host)).collect()
}

/// A line for each write of a hostname.
fn describe_host(host: &HostPlan) -> impl Iterator<Item = LogLine> {
    let adoptions = host.adoptions.iter().flat_map(|adoption| describe_adoption(&host.hostname, adoption));
    let edits = host.edits.iter().map(|one| describe_edit(&host.hostname, &one.tunnel, &one.edit));
    let operations = host.operations().map(|operation| describe_operation(&host.hostname, operation));
    adoptions.chain(edits).chain(operations)
}

pub(super) fn describe_application(write: &ApplicationWrite) -> LogLine {
    let verb = match &write.operation {
        ApplicationOperation::Create(_) => "created",
        ApplicationOperation::Replace(..) => "updated",
        ApplicationOperation::Delete(_) => "deleted",
    };
    LogLine::default()
        .quoted("hostname", write.place.hostname())
        .quoted("application", &*write.place.to_string())
        .text(format!("Access application {verb}"))
}

/// The complete former rule or record, and the options of the rule that change.
pub(super) fn describe_adoption(
    hostname: &str,
    Adoption { path, was, options }: &Adoption,
) -> impl Iterator<Item = LogLine> {
    let options: Vec<String> = options.iter().map(describe_option).collect();
    let texts = [("before", was.clone()), ("changed options", options.join("; "))];
    let path = path.as_deref().filter(|path| !path.is_empty());
    let line = LogLine::default().word("hostname", &hostname).quoted("path", path);
    texts.into_iter().flat_map(move |(what, text)| {
        let line = line.clone();
        // Redacted before the text is divided, because a divided secret would not be recognized.
        let characters: Vec<char> = redact(&text).chars().collect();
        let parts: Vec<String> = characters.chunks(ADOPTION_MAX_CHARS).map(String::from_iter).collect();
        let count = parts.len();
        parts.into_iter().enumerate().map(move |(index, part)| {
            let number = if count > 1 { format!(" {}/{count}", index + 1) } else { String::new() };
            line.clone().text(format!("taken over; {what}{number}: {part}"))
        })
    })
}

/// The former value of the option, with the annotation that preserves the value, without ExternalDNS's prefix.
fn describe_option(Property { name, value }: &Property) -> String {
    let option = OriginOption::of(name);
    let field = option.map_or("access", OriginOption::field);
    if option.is_none_or(|option| option.parse(value).is_ok_and(|parsed| parsed.is_some())) {
        format!("{field}, kept by {}: {}", annotation_of(name), json::to_string(&**value))
    } else {
        format!("{field} {value}, which no annotation can set")
    }
}

pub(super) fn describe_edit(hostname: &str, tunnel: &TunnelId, edit: &RuleEdit) -> LogLine {
    LogLine::default()
        .word("hostname", &hostname)
        .quoted("path", edit.path().unwrap_or_default())
        .word("tunnel", tunnel)
        .text(edit.log_text())
}

pub(super) fn describe_operation(hostname: &str, operation: &RecordOperation) -> LogLine {
    LogLine::default().word("hostname", &hostname).text(operation.log_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Hostname, NewRecord, RecordId, RecordPatch};
    use crate::reconcile::access::place::Place;
    use crate::reconcile::access::wanted::WantedApplication;

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
            describe_application(&ApplicationWrite { place, operation }).to_string()
        };
        let wanted = || WantedApplication { policies: Vec::new(), session_duration: Default::default() };
        assert_eq!(
            line(None, ApplicationOperation::Create(wanted())),
            r#"Access application created hostname="a.example.com" application="a.example.com""#
        );
        assert_eq!(
            line(Some("^/a(/|$)"), ApplicationOperation::Replace("id".into(), wanted())),
            r#"Access application updated hostname="a.example.com" application="a.example.com/a""#
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
            record_type: "CNAME".into(),
            content: "content".into(),
            proxied: true,
            ttl: 1,
            comment: "".into(),
        });
        let delete = |name: Option<&str>| RecordOperation::Delete(RecordId::new("id"), name.map(Into::into));
        let end = "hostname=a.example.com";
        assert_eq!(line(&post), format!(r#"record created, target="content" {end}"#));
        assert_eq!(
            line(&patch(Some("content"), Some(true), Some("comment"))),
            format!(r#"record updated, target="content", comment="comment", proxied {end}"#)
        );
        assert_eq!(line(&delete(None)), format!("record deleted {end}"));
        assert_eq!(
            line(&delete(Some("x.a.example.com"))),
            format!(r#"TXT record deleted, name="x.a.example.com" {end}"#)
        );
    }
}
