//! The parts of a request that are not carried out, each with its reason, and their lines in the log.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use crate::collections::collect;
use crate::limits;
use crate::model::LogLine;
use crate::reconcile::canonical::{is_unknown_path, path_of};
use crate::reconcile::property_name::in_form_of;
use crate::reconcile::reason::Reason;

/// An endpoint or a hostname for which the request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    pub hostname: Box<str>,
    /// The endpoint's set identifier; `None` if all endpoints of the hostname are refused.
    pub set_identifier: Option<Box<str>>,
    /// The object that asks for the hostname, such as `ingress/shop/web`, if the object is known.
    pub resource: Option<Box<str>>,
    pub reason: Reason,
}

impl Refusal {
    /// The refusal of one endpoint, or without a set identifier of a whole hostname.
    pub fn new(hostname: &str, set_identifier: Option<&str>, resource: Option<&str>, reason: Reason) -> Self {
        let set_identifier = set_identifier.map(Into::into);
        let resource = resource.map(Into::into);
        Self { hostname: hostname.into(), set_identifier, resource, reason }
    }

    /// One line for each refusal, but one line for all hostnames whose request fails for the same reason.
    pub fn lines<'r>(refusals: impl IntoIterator<Item = &'r Self>) -> Vec<LogLine> {
        let (mut failing, others): (Vec<&Self>, Vec<&Self>) =
            refusals.into_iter().partition(|refusal| refusal.reason.fails_request());
        let mut lines: Vec<LogLine> = others.into_iter().map(Self::line).collect();
        failing.sort_by(|one, other| one.reason.cmp(&other.reason));
        let by_text = failing.chunk_by(|one, other| one.reason.to_string() == other.reason.to_string());
        for refusals in by_text {
            let hostnames: BTreeSet<&str> = collect(refusals.iter().map(|refusal| &*refusal.hostname));
            let Some(first) = refusals.first() else { continue };
            if hostnames.len() == 1 {
                let path = first.set_identifier.clone().filter(|_| refusals.len() == 1);
                lines.push(Self { set_identifier: path, ..(*first).clone() }.line());
                continue;
            }
            let reason = &first.reason;
            let count = hostnames.len();
            let mut names =
                hostnames.into_iter().take(limits::NAMES_SHOWN_MAX).collect::<Vec<_>>().join(", ");
            if let Some(more) = count.checked_sub(limits::NAMES_SHOWN_MAX).filter(|more| *more > 0) {
                let _ = write!(names, " and {more} more");
            }
            let line = LogLine::default().word("hostnames", &count).quoted("names", &*names);
            let line =
                line.word("refused", &reason.label_value()).text(format!("{count} hostnames: {reason}"));
            lines.push(line);
        }
        lines
    }

    /// The reason with its remedy, in the form of the object's properties.
    pub fn log_text(&self) -> String {
        in_form_of(self.resource.as_deref(), &self.reason.to_string())
    }

    /// The path of the rule, if the refusal is for one path, and the path is known.
    pub fn path(&self) -> Option<&str> {
        self.set_identifier.as_deref().and_then(path_of).filter(|path| !is_unknown_path(path))
    }

    fn line(&self) -> LogLine {
        LogLine::default()
            .quoted("hostname", &*self.hostname)
            .quoted("path", self.path())
            .quoted("resource", self.resource.as_deref())
            .word("refused", &self.reason.label_value())
            .text(format!("{:?}: {}", self.hostname, self.log_text()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::reason::RecordHolder;

    #[test]
    fn what_concerns_many_in_the_same_way_is_one_line_and_everything_else_a_line_each() {
        let refusal = |number: usize, reason: Reason| Refusal {
            hostname: format!("h{number}.example.com").into(),
            set_identifier: None,
            resource: None,
            reason,
        };
        let waiting = |number, text: &str| refusal(number, Reason::Waiting(text.to_owned()));
        let refusals: Vec<Refusal> = (0..10)
            .map(|number| waiting(number, "why?"))
            .chain([refusal(10, Reason::NoZone), refusal(11, Reason::NoZone), waiting(12, "gone")])
            .chain((13..15).map(|number| refusal(number, Reason::MassDeletion { hostnames: 2 })))
            .collect();
        let lines = Refusal::lines(refusals.iter());
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let [one, another, withheld, gone, why] = &lines[..] else { panic!("{lines:#?}") };
        assert!(one.ends_with(" hostname=\"h10.example.com\" refused=no_zone"), "{one}");
        assert!(another.ends_with(" hostname=\"h11.example.com\" refused=no_zone"), "{another}");
        assert_eq!(gone, r#""h12.example.com": gone hostname="h12.example.com" refused=waiting"#);
        assert!(
            why.starts_with("10 hostnames: why? hostnames=10 names=\"h0.example.com, h1.example.com, "),
            "{why}"
        );
        assert!(why.ends_with("h7.example.com and 2 more\" refused=waiting"), "{why}");
        let names = " hostnames=2 names=\"h13.example.com, h14.example.com\" refused=mass_deletion";
        assert!(withheld.ends_with(names), "{withheld}");
        for way_out in
            ["correct the changed filter", "delete fewer", "--set global.settings.MASS_DELETION_LIMIT=2"]
        {
            assert!(withheld.contains(way_out), "{way_out} is missing in {withheld}");
        }
        assert_eq!(Refusal::lines([].iter()), []);
        let paths = ["^/a", "^/b"].map(|path| Refusal {
            set_identifier: Some(path.into()),
            ..refusal(0, Reason::MassDeletion { hostnames: 2 })
        });
        let of_one_hostname = Refusal::lines(paths.iter());
        assert_eq!(of_one_hostname, [refusal(0, Reason::MassDeletion { hostnames: 2 }).line()]);
        let with_another = Refusal::lines(paths.iter().chain(&refusals[13..14])).remove(0).to_string();
        assert!(with_another.starts_with("2 hostnames: "), "{with_another}");
        let as_many_as_are_shown = refusals.iter().take(limits::NAMES_SHOWN_MAX);
        let lines = Refusal::lines(as_many_as_are_shown).iter().map(ToString::to_string).collect::<String>();
        assert!(lines.contains("h7.example.com\" refused=waiting"), "{lines}");
    }

    #[test]
    fn a_refusal_names_its_path_and_the_comment_of_what_is_in_the_way_if_there_is_one() {
        let held = |path: &str, comment: &str| {
            let refusal = Refusal {
                hostname: "a.example.com".into(),
                set_identifier: Some(path.into()),
                resource: None,
                reason: Reason::RecordHeld {
                    record_type: "A".into(),
                    content: "192.0.2.1".into(),
                    comment: comment.into(),
                    holder: RecordHolder::Other,
                    adopt: None,
                },
            };
            refusal.to_string()
        };
        for (path, comment, start, end) in [
            (
                "",
                "",
                r#""a.example.com": the name has the A record "192.0.2.1" that is"#,
                r#" hostname="a.example.com" refused=record_held"#,
            ),
            (
                "^/a",
                "ask Jo",
                r#""a.example.com": the name has the A record "192.0.2.1" with the comment "ask Jo" that is"#,
                r#" hostname="a.example.com" path="^/a" refused=record_held"#,
            ),
        ] {
            let line = held(path, comment);
            assert!(line.starts_with(start) && line.ends_with(end), "{line}");
        }
    }
}
