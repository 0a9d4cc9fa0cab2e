//! What has to be there before the program is ready, and what of it is missing.

use std::sync::{Mutex, MutexGuard};

use crate::locks::lock;

/// What has to be there before the program can serve. Shared between who finds out and who answers probes.
#[derive(Debug)]
pub struct Health {
    credentials: Latch,
    tunnels: Latch,
}

/// One thing that has to be there.
#[derive(Debug)]
pub struct Latch {
    /// Why it is not there, for the operator; `None` when it is.
    missing: Mutex<Option<Reason>>,
}

#[derive(Debug)]
struct Reason {
    why: Box<str>,
    remedy: &'static str,
}

/// One thing that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// `credentials` or `tunnels`.
    pub what: &'static str,
    /// Why, for the operator.
    pub why: Box<str>,
    /// What to do about it.
    pub remedy: &'static str,
}

impl Default for Health {
    /// Nothing is known yet, so nothing is there.
    fn default() -> Self {
        let remedy = "wait a moment";
        let latch = |why: &str| Latch { missing: Mutex::new(Some(Reason { why: why.into(), remedy })) };
        Self { credentials: latch("not verified yet"), tunnels: latch("not seen yet") }
    }
}

impl Latch {
    /// It is there.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// It is not there (any more), why, and what to do. The text is shown to whoever reaches the port: no secrets. True
    /// when that is news.
    pub fn reopen(&self, why: &str, remedy: &'static str) -> bool {
        let before = self.lock().replace(Reason { why: why.into(), remedy });
        before.is_none_or(|before| *before.why != *why)
    }

    /// Whether it is there.
    pub fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reason>> {
        lock(&self.missing)
    }
}

impl Health {
    /// Cloudflare took the credentials.
    pub fn credentials(&self) -> &Latch {
        &self.credentials
    }

    /// Every configured tunnel was found.
    pub fn tunnels(&self) -> &Latch {
        &self.tunnels
    }

    /// Whether everything is there.
    pub fn is_ready(&self) -> bool {
        let Self { credentials, tunnels } = self;
        credentials.is_closed() && tunnels.is_closed()
    }

    /// Everything that is not there.
    pub fn missing(&self) -> Vec<Missing> {
        let Self { credentials, tunnels } = self;
        let latches = [("credentials", credentials), ("tunnels", tunnels)];
        latches
            .into_iter()
            .filter_map(|(what, latch)| {
                let missing = latch.lock();
                let Reason { why, remedy } = missing.as_ref()?;
                Some(Missing { what, why: why.clone(), remedy })
            })
            .collect()
    }
}
