//! Rules and records of others that a hostname's plan takes over.

use std::collections::BTreeSet;

use crate::ingress::Rule;
use crate::model::{Record, TunnelId};
use crate::reconcile::stamp::Digest;

/// The things taken over.
#[derive(Default)]
pub(super) struct Adopted<'a> {
    pub(super) records: Vec<&'a Record>,
    /// The digests in the stamps of these records.
    pub(super) digests: BTreeSet<Digest>,
    pub(super) rules: Vec<AdoptedRule<'a>>,
}

pub(super) struct AdoptedRule<'a> {
    pub(super) digest: Digest,
    pub(super) tunnel: TunnelId,
    pub(super) rule: &'a Rule,
    /// It is exactly as wanted, and is taken over only if it stays so.
    pub(super) is_kept: bool,
}

impl Adopted<'_> {
    /// True if no stamp of ours has the digest yet.
    pub(super) fn brings(&self, digest: Digest) -> bool {
        self.digests.contains(&digest) || self.rules.iter().any(|adopted| adopted.digest == digest)
    }

    /// True if the digest's rule must not be changed when it is taken over.
    pub(super) fn is_kept(&self, digest: Digest) -> bool {
        self.rules.iter().any(|adopted| adopted.digest == digest && adopted.is_kept)
    }
}
