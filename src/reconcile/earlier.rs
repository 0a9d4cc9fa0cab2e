//! What earlier requests found, and what was asked of Cloudflare besides the snapshot.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::TunnelId;
use crate::reconcile::reason::Reason;
use crate::reconcile::stamp::Digest;

/// What is known besides what was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// The contents that must not be written now, with the reasons: Cloudflare refused them and would refuse them again, or
    /// does not keep them.
    pub paused: BTreeMap<u64, Reason>,
    /// Tunnels whose connectors do not serve yet what was read of them, with the reasons. No record is led there.
    pub unready: BTreeMap<TunnelId, String>,
    /// Whether the tunnels were deleted that [`super::plan::tunnels_in_the_way`] names, or why that is not known.
    pub deleted: BTreeMap<TunnelId, Result<bool, String>>,
    /// What this process left undone, by hostname.
    pub unfinished: BTreeMap<Box<str>, Unfinished>,
    /// Nothing is written, so what waits for its application, for connectors or for the grace is planned as well.
    pub is_preview: bool,
}

/// What a run left undone of a hostname.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// The digests of the rules that it was to write or remove. Those without a rule are its own, and come off at once.
    pub digests: BTreeSet<Digest>,
    /// It made the record.
    pub is_new: bool,
}
