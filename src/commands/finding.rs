//! Shows the findings of `check` as a table or a JSON document.

use miniserde::Serialize;
use miniserde::ser::Fragment;

use super::Report;

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

impl Serialize for Status {
    fn begin(&self) -> Fragment<'_> {
        Fragment::Str(self.as_str().into())
    }
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) status: Status,
    pub(super) what: String,
    pub(super) found: String,
    pub(super) to_do: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    ok: bool,
    checks: &'a [Finding],
}

pub(super) fn report(findings: &[Finding], json: bool) -> Report {
    let is_well = findings.iter().all(|finding| finding.status != Status::Failed);
    if json {
        return Report::json(&Document { ok: is_well, checks: findings }, is_well);
    }
    let row = |Finding { status, what, found, to_do }: &Finding| {
        let to_do = to_do.as_ref().map(|to_do| format!("; to do: {to_do}")).unwrap_or_default();
        vec![status.as_str().to_owned(), what.clone(), format!("{found}{to_do}")]
    };
    Report::table(&findings.iter().map(row).collect::<Vec<_>>(), is_well)
}
