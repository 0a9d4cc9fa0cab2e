//! Shows the findings of `check` as a table or a JSON document.

use miniserde::Serialize;
use miniserde::ser::Fragment;

use super::{Layout, Report, table};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FindingStatus {
    Ok,
    /// No failure, but something that an operator should know.
    Warning,
    Failed,
    /// It could not be tried.
    Untried,
}

impl FindingStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Untried => "untried",
        }
    }
}

impl Serialize for FindingStatus {
    fn begin(&self) -> Fragment<'_> {
        Fragment::Str(self.as_str().into())
    }
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) status: FindingStatus,
    pub(super) what: String,
    pub(super) found: String,
    pub(super) remedy: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    ok: bool,
    checks: &'a [Finding],
}

impl Finding {
    /// The finding's row. The columns have fixed widths, because the later rows are not known yet. Addresses to be
    /// printed below the table are added to `links`.
    pub(super) fn row(&self, layout: Layout, links: &mut Vec<String>) -> String {
        let Self { status, what, found, remedy } = self;
        let columns = [format!("{:<7}", status.as_str()), format!("{what:<24}")];
        let remedy = remedy.as_ref().map(|remedy| format!("to do: {remedy}"));
        let texts: Vec<&str> =
            [Some(found), remedy.as_ref()].into_iter().flatten().map(String::as_str).collect();
        match layout {
            Layout::Terminal => table::wrapped(&table::aligned(&[columns.to_vec()]).concat(), &texts, links),
            Layout::Json | Layout::Lines => table::render(&[[&columns[..], &[texts.join("; ")]].concat()]),
        }
    }
}

/// The text below the rows, or the JSON document, which replaces the rows.
pub(super) fn report(findings: &[Finding], layout: Layout, links: &[String]) -> Report {
    let is_success = findings.iter().all(|finding| finding.status != FindingStatus::Failed);
    if layout == Layout::Json {
        return Report::json(&Document { ok: is_success, checks: findings }, is_success);
    }
    Report { text: table::footnotes(links), is_success }
}
