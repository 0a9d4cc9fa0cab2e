//! What was read of Cloudflare Access, or why it was not. Nothing that was not read counts as absent.

use std::sync::Arc;

use crate::model::access::{Application, ReusablePolicy, TeamName};

/// What was read of Access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessReading {
    /// Nothing, because nothing depends on it.
    #[default]
    NotAsked,
    Failed(Unread),
    Read(AccessSnapshot),
}

/// The reason why something of Access was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    pub reason: Box<str>,
    /// It stays so until an operator mends it: the account has no Access, or the credentials lack a permission.
    pub is_lasting: bool,
}

impl From<&str> for Unread {
    /// A reason that passes by itself.
    fn from(reason: &str) -> Self {
        Self { reason: reason.into(), is_lasting: false }
    }
}

/// Access at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessSnapshot {
    pub team: TeamName,
    /// The applications of the account and of the zones.
    pub applications: Vec<Application>,
    /// The zones whose own applications could not be read, with the reasons.
    pub unread_zones: Vec<(Box<str>, Unread)>,
    /// The account's reusable policies.
    pub policies: Result<Arc<[ReusablePolicy]>, Unread>,
    /// The places with a recent write in doubt: no answer tells whether the application was made, or the list
    /// shows the application differently and no read by its id succeeded.
    pub pending: Vec<Box<str>>,
}

impl AccessReading {
    pub fn read(&self) -> Option<&AccessSnapshot> {
        match self {
            Self::Read(access) => Some(access),
            Self::NotAsked | Self::Failed(_) => None,
        }
    }

    /// What was read, or the reason why there is nothing.
    pub(super) fn known(&self) -> Result<&AccessSnapshot, Unread> {
        match self {
            Self::Read(access) => Ok(access),
            Self::Failed(unread) => Err(unread.clone()),
            Self::NotAsked => Err("nothing was read of Cloudflare Access".into()),
        }
    }

    /// The applications that were read.
    pub fn applications(&self) -> &[Application] {
        self.read().map(|access| access.applications.as_slice()).unwrap_or_default()
    }

    /// The reason why not everything was read that was asked for.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::NotAsked => None,
            Self::Failed(unread) => Some(&unread.reason),
            Self::Read(access) => access.unread_zones.first().map(|(_, unread)| &*unread.reason),
        }
    }
}
