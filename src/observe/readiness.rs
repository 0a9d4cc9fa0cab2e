//! Knows whether the program is ready, and what is still missing.

use std::fmt;
use std::sync::Mutex;

use crate::locks::lock;

/// Readiness, shared between the code that checks the token and the tunnels and the code that answers probes.
#[derive(Debug)]
pub struct Readiness(Mutex<Option<SetupProblem>>);

/// The reason why the program is not ready. It holds no secrets, because every client of the metrics port sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupProblem {
    pub why: String,
    /// The operator's remedy.
    pub remedy: &'static str,
    /// True if an operator has to act. The webhook is then not ready, although the tunnels that were found earlier
    /// remain in use.
    pub is_permanent: bool,
}

impl fmt::Display for SetupProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.why, self.remedy)
    }
}

impl Default for Readiness {
    /// Nothing is known yet.
    fn default() -> Self {
        let why = "the token and the tunnels are not checked yet".to_owned();
        Self(Mutex::new(Some(SetupProblem { why, remedy: "wait a moment", is_permanent: false })))
    }
}

impl Readiness {
    /// Remembers that Cloudflare accepted the credentials and that every configured tunnel was found.
    pub fn set_ready(&self) {
        *lock(&self.0) = None;
    }

    /// Remembers why the program is not ready. Returns true if the reason is new.
    pub fn set_problem(&self, problem: &SetupProblem) -> bool {
        lock(&self.0).replace(problem.clone()).is_none_or(|before| before != *problem)
    }

    pub fn is_ready(&self) -> bool {
        self.problem().is_none()
    }

    pub fn problem(&self) -> Option<SetupProblem> {
        lock(&self.0).clone()
    }
}
