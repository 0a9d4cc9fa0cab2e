//! Reports what is read, written, refused and noted: once in the log, in the metrics, and for `status`.

use log::Level;
use miniserde::json;

use crate::ingress::{OriginOption, RuleEdit};
use crate::locks::lock;
use crate::logging;
use crate::model::access::Application;
use crate::model::endpoint::{Property, annotation_of};
use crate::model::{LogLine, TunnelId};
use crate::observe::metrics::{Family, RULE_OWNERSHIPS};
use crate::provider::Provider;
use crate::provider::memory::LastLoop;
use crate::reconcile::access::gate::ApplicationWrite;
use crate::reconcile::plan::{Adoption, HostPlan, Plan, RecordOperation};
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;
use crate::secret::redact;

/// The room in a log line beside a hostname, a path and the fixed words.
const ADOPTION_MAX_CHARS: usize = 2_600;

impl Provider {
    /// Changes what is remembered of the last loop, and logs the lines that `change` returns.
    pub(super) fn remember(&self, change: impl FnOnce(&mut LastLoop, i64) -> Vec<(Level, LogLine)>) {
        let mut last = lock(&self.last_loop);
        let lines = change(&mut last, self.clock().unix_seconds());
        let mut values = self.metrics.update();
        values.reset(Family::Refusals);
        for (Refusal { reason, .. }, _) in last.request.refusals.present() {
            values.add(Family::Refusals, &[reason.label_value()], 1);
        }
        drop(values);
        drop(last);
        // No lock is held here, because a line waits while nothing reads the log.
        for (level, line) in &lines {
            logging::log(*level, module_path!(), line);
        }
    }

    /// Counts the content of a snapshot in the metrics.
    pub(super) fn count_content(&self, snapshot: &Snapshot) {
        let own_rules: Vec<&TunnelId> = snapshot.own_rules().map(|(tunnel, _)| tunnel).collect();
        let own_records = snapshot.own_records().map(|own| (&*own.zone.zone.name, &*own.record.record_type));
        let own_records: Vec<(&str, &str)> = own_records.collect();
        // Scrapes and probes wait for this lock.
        let mut values = self.metrics.update();
        values.set(Family::LastRead, &[], self.clock().unix_seconds());
        for family in [Family::ConfigurationVersion, Family::Rules, Family::Records, Family::ZoneRecords] {
            values.clear(family);
        }
        for (id, tunnel) in &snapshot.tunnels {
            let name = snapshot.settings.name_of(id);
            values.set(Family::ConfigurationVersion, &[name], tunnel.version);
            let rules = tunnel.document.rules().len();
            let owned = own_rules.iter().filter(|tunnel| **tunnel == id).count();
            for (ownership, count) in RULE_OWNERSHIPS.into_iter().zip([owned, rules - owned]) {
                values.set(Family::Rules, &[name, ownership], count as i64);
            }
        }
        for zone in &snapshot.zones {
            values.set(Family::ZoneRecords, &[&zone.zone.name], zone.records().len() as i64);
        }
        for (zone, record_type) in own_records {
            values.add(Family::Records, &[zone, record_type], 1);
        }
    }

    /// Logs and counts a completed write.
    pub(super) fn log_change(&self, kind: &str, line: &LogLine) {
        logging::log(Level::Info, module_path!(), line);
        let mut values = self.metrics.update();
        values.add(Family::Changes, &[kind], 1);
        values.set(Family::LastWrite, &[], self.clock().unix_seconds());
    }
}

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

/// The kind of the write, in words.
pub(super) fn application_text(write: &ApplicationWrite) -> String {
    format!("Access {}", write.operation.label_value().replace('_', " "))
}

/// The line of a write of an application, with the application that it takes over as it was.
pub(super) fn describe_application(write: &ApplicationWrite) -> LogLine {
    let mut text = application_text(write);
    if let Some(Application { name, policies, session_duration, .. }) = write.adopted.as_deref() {
        let policies: Vec<&str> = policies.iter().flatten().map(|policy| &*policy.id).collect();
        let duration = session_duration.as_deref().unwrap_or_default();
        text += &format!(
            "; taken over; before: name {name:?}, policies {policies:?}, session duration {duration:?}"
        );
    }
    let (hostname, application) = (write.place.hostname().as_str(), write.place.to_string());
    LogLine::default().quoted("hostname", hostname).quoted("application", &*application).text(text)
}

/// The complete former rule or record, and the options of the rule that change.
pub(super) fn describe_adoption(
    hostname: &str,
    Adoption { digest: _, path, was, options }: &Adoption,
) -> impl Iterator<Item = LogLine> {
    let options: Vec<String> = options.iter().map(describe_option).collect();
    let texts = [("before", was.clone()), ("changed options", options.join("; "))];
    let line = LogLine::default().quoted("hostname", hostname).quoted("path", path.as_deref());
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
        format!("{field} (to keep it, set {}: {})", annotation_of(name), json::to_string(&**value))
    } else {
        format!("{field} {value}, which no annotation can set")
    }
}

pub(super) fn describe_edit(hostname: &str, tunnel: &TunnelId, edit: &RuleEdit) -> LogLine {
    LogLine::default()
        .quoted("hostname", hostname)
        .quoted("path", edit.path())
        .word("tunnel", tunnel)
        .text(edit.log_text())
}

pub(super) fn describe_operation(hostname: &str, operation: &RecordOperation) -> LogLine {
    LogLine::default().quoted("hostname", hostname).text(operation.log_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Hostname, NewRecord, RecordId, RecordPatch};
    use crate::reconcile::access::gate::ApplicationOperation;
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
            let place = Place::of(&hostname, path);
            describe_application(&ApplicationWrite { place, operation, adopted: None }).to_string()
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
        let delete = |name: Option<&str>| RecordOperation::Delete {
            id: RecordId::new("id"),
            txt_name: name.map(Into::into),
        };
        let end = r#"hostname="a.example.com""#;
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
