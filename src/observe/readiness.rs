//! Knows whether the program is ready, and what is still missing.

use std::sync::Mutex;

use crate::locks::lock;

/// Readiness, shared between the code that checks the token and the tunnels and the code that answers probes.
#[derive(Debug)]
pub struct Readiness(Mutex<Option<ReadinessProblem>>);

/// What readiness waits for. Every client of the port sees it, so it holds no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadinessProblem {
    pub why: Box<str>,
    /// The operator's remedy.
    pub remedy: &'static str,
}

impl Default for Readiness {
    /// Nothing is known yet.
    fn default() -> Self {
        let why = "the token and the tunnels are not checked yet".into();
        Self(Mutex::new(Some(ReadinessProblem { why, remedy: "wait a moment" })))
    }
}

impl Readiness {
    /// Records that Cloudflare accepted the credentials and that every configured tunnel was found.
    pub fn set_ready(&self) {
        *lock(&self.0) = None;
    }

    /// Records that something is missing. Returns true if the reason is new.
    pub fn set_problem(&self, problem: ReadinessProblem) -> bool {
        let before = lock(&self.0).replace(problem.clone());
        before.is_none_or(|before| before != problem)
    }

    pub fn is_ready(&self) -> bool {
        self.problem().is_none()
    }

    pub fn problem(&self) -> Option<ReadinessProblem> {
        lock(&self.0).clone()
    }
}
