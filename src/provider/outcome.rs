//! How the execution of a plan ended, and what it found out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::cloudflare::Error;
use crate::model::{TunnelId, ZoneId};
use crate::provider::writes::Write;
use crate::reconcile::plan::Refusal;

/// Why an execution ended before its plan did.
#[derive(Debug)]
pub(super) enum Stop {
    /// A write may or may not have been done: start again at the read.
    Uncertain(Error),
    /// Cloudflare cannot be written to now.
    Failed(Error),
    /// What is left does not fit into the deadline.
    OutOfTime,
}

/// What was refused in company and has not stood alone yet: by its key, how many of such are to be tried together next.
pub(super) type Doubts = HashMap<u64, usize>;

/// What Cloudflare refused, in the form in which it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) refusal: Refusal,
    /// The work that was refused.
    pub(super) work: Box<str>,
    /// The zone is full; holds its number of records.
    pub(super) quota: Option<(ZoneId, usize)>,
    /// The rest of this tunnel's document may be what is wrong: nothing of ours went into it.
    pub(super) document: Option<TunnelId>,
}

/// What an execution did and found out.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) refusals: Vec<Refusal>,
    pub(super) rejections: Vec<Rejection>,
    /// What is still in doubt.
    pub(super) doubts: Doubts,
    /// Hostnames of which not everything was done.
    pub(super) dropped: BTreeSet<Box<str>>,
    /// Those among them that wait for the connectors of their new tunnel. Everything before that was done.
    pub(super) waiting: BTreeSet<Box<str>>,
    /// Rules that Cloudflare took, and stored otherwise than they were sent.
    pub(super) altered: Vec<Write>,
    /// The versions of the documents that were written, as far as nobody else wrote them.
    pub(super) versions: BTreeMap<TunnelId, i64>,
    /// A new rule met a foreign one after its digest was stamped.
    pub(super) met_foreign: bool,
    /// A hostname of which one part was refused has other parts that only the next request does.
    pub(super) is_unfinished: bool,
    /// Cloudflare took a write, or refused it for what is in it.
    pub(super) is_answered: bool,
    /// Cloudflare did not accept the credentials for a write.
    pub(super) is_forbidden: bool,
}

impl Done {
    /// Whether everything that was tried failed for the credentials.
    pub(super) fn is_all_forbidden(&self) -> bool {
        self.is_forbidden && !self.is_answered
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            Error::OutOfTime => Self::OutOfTime,
            error if error.may_have_been_done() => Self::Uncertain(error),
            error => Self::Failed(error),
        }
    }
}
