//! The result of a command, and the ways to print it.

/// How a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One JSON document on one line.
    Json,
    /// A line for each row, for other programs.
    Lines,
    /// Rows for a person, with each long text below its row.
    Terminal,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The output on stdout: a table, or one JSON document.
    pub text: String,
    /// True if nothing failed.
    pub is_success: bool,
}

impl Report {
    pub(super) fn json(document: &impl miniserde::Serialize, is_success: bool) -> Self {
        Self { text: miniserde::json::to_string(document) + "\n", is_success }
    }
}
