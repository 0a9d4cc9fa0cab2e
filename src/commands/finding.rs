//! Shows the findings of `check` as a table or a JSON document.

use miniserde::{Serialize, json};

use super::{Report, table};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    /// It works, but somebody should know.
    Warning,
    Failed,
    /// It could not be tried.
    Untried,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Untried => "untried",
        }
    }
}

/// The result of one check.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) status: Status,
    pub(super) what: String,
    pub(super) found: String,
    /// Empty if there is nothing to do.
    pub(super) remedy: String,
}

#[derive(Serialize)]
struct WireReport<'a> {
    ok: bool,
    checks: Vec<WireFinding<'a>>,
}

#[derive(Serialize)]
struct WireFinding<'a> {
    status: &'static str,
    what: &'a str,
    found: &'a str,
    to_do: Option<&'a str>,
}

pub(super) fn report(findings: &[Finding], json: bool) -> Report {
    let is_well = findings.iter().all(|finding| finding.status != Status::Failed);
    let text = if json {
        let checks = findings
            .iter()
            .map(|Finding { status, what, found, remedy }| WireFinding {
                status: status.as_str(),
                what,
                found,
                to_do: (!remedy.is_empty()).then_some(remedy),
            })
            .collect();
        let mut text = json::to_string(&WireReport { ok: is_well, checks });
        text.push('\n');
        text
    } else {
        let rows: Vec<Vec<String>> = findings
            .iter()
            .map(|Finding { status, what, found, remedy }| {
                let remedy = if remedy.is_empty() { String::new() } else { format!("; to do: {remedy}") };
                vec![status.as_str().to_owned(), what.clone(), format!("{found}{remedy}")]
            })
            .collect();
        table::render(&rows)
    };
    Report { text, is_well }
}
