//! The data read from Cloudflare Access, or the reason why it was not read. Data that was not read counts as absent
//! only where that opens nothing.

use std::sync::Arc;

use crate::model::access::{Application, ReusablePolicy, TeamName};
use crate::reconcile::access::place::Place;

/// The result of reading Access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessReading {
    /// Access was not read, because nothing depends on it.
    #[default]
    NotAsked,
    Failed(AccessReadError),
    Read(AccessSnapshot),
}

/// The reason why a part of Access was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessReadError {
    pub reason: Box<str>,
    /// True if an operator has to fix the cause: the account has no Access, or the credentials lack a permission.
    pub is_permanent: bool,
}

impl AccessReadError {
    pub fn temporary(reason: impl Into<Box<str>>) -> Self {
        Self { reason: reason.into(), is_permanent: false }
    }
}

/// Access at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessSnapshot {
    pub team: TeamName,
    /// The applications of the account and of the zones.
    pub applications: Vec<Application>,
    /// The zones whose own applications could not be read, with the reasons.
    pub unread_zones: Vec<(Box<str>, AccessReadError)>,
    /// The account's reusable policies.
    pub policies: Result<Arc<[ReusablePolicy]>, AccessReadError>,
    /// The places with a recent write in doubt: no answer shows whether the application was created, or the list shows
    /// the application differently and no read by its id succeeded.
    pub pending: Vec<Place>,
}

impl AccessReading {
    pub fn snapshot(&self) -> Option<&AccessSnapshot> {
        if let Self::Read(access) = self { Some(access) } else { None }
    }

    /// The snapshot of Access, or the reason why there is none.
    pub(super) fn snapshot_or_reason(&self) -> Result<&AccessSnapshot, AccessReadError> {
        match self {
            Self::Read(access) => Ok(access),
            Self::Failed(unread) => Err(unread.clone()),
            Self::NotAsked => Err(AccessReadError::temporary("nothing was read of Cloudflare Access")),
        }
    }

    /// The applications that were read.
    pub fn applications(&self) -> &[Application] {
        self.snapshot().map(|access| access.applications.as_slice()).unwrap_or_default()
    }

    /// The account's reusable policies that were read.
    pub fn policies(&self) -> &[ReusablePolicy] {
        self.snapshot().and_then(|access| access.policies.as_deref().ok()).unwrap_or_default()
    }

    /// The reason why Access, or the applications of a zone, could not be read.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::NotAsked => None,
            Self::Failed(unread) => Some(&unread.reason),
            Self::Read(access) => access.unread_zones.first().map(|(_, unread)| &*unread.reason),
        }
    }
}
