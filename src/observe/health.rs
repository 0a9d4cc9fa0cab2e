//! Knows what the program needs before it is ready, and what is still missing.

use std::sync::{Mutex, MutexGuard};

use crate::locks::lock;

/// The conditions of readiness, shared between the code that checks them and the code that answers probes.
#[derive(Debug)]
pub struct Health {
    credentials: Latch,
    tunnels: Latch,
}

/// One condition.
#[derive(Debug)]
pub struct Latch {
    /// The reason why the condition is not met, for the operator; `None` if it is met.
    missing: Mutex<Option<Reason>>,
}

#[derive(Debug)]
struct Reason {
    why: Box<str>,
    remedy: &'static str,
}

/// One condition that is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// `credentials` or `tunnels`.
    pub what: &'static str,
    pub why: Box<str>,
    /// The operator's remedy.
    pub remedy: &'static str,
}

impl Default for Health {
    /// Nothing is known yet, so no condition is met.
    fn default() -> Self {
        let remedy = "wait a moment";
        let latch = |why: &str| Latch { missing: Mutex::new(Some(Reason { why: why.into(), remedy })) };
        Self { credentials: latch("not verified yet"), tunnels: latch("not seen yet") }
    }
}

impl Latch {
    /// Marks the condition as met.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// Marks the condition as not met. Whoever reaches the port sees `why` and `remedy`, so they hold no
    /// secrets. Returns true if the reason is new.
    pub fn reopen(&self, why: &str, remedy: &'static str) -> bool {
        let before = self.lock().replace(Reason { why: why.into(), remedy });
        before.is_none_or(|before| *before.why != *why)
    }

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

    pub fn is_ready(&self) -> bool {
        let Self { credentials, tunnels } = self;
        credentials.is_closed() && tunnels.is_closed()
    }

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
