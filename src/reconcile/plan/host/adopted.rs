//! What of somebody else's a hostname's plan takes over.

use std::collections::BTreeSet;

use crate::ingress::Rule;
use crate::model::{Record, TunnelId};
use crate::reconcile::stamp::Digest;

/// What is taken over.
#[derive(Default)]
pub(super) struct Adopted<'a> {
    pub(super) records: Vec<&'a Record>,
    /// Digests that came with the stamps of these records.
    pub(super) digests: BTreeSet<Digest>,
    pub(super) rules: Vec<AdoptedRule<'a>>,
}

pub(super) struct AdoptedRule<'a> {
    pub(super) digest: Digest,
    pub(super) tunnel: TunnelId,
    pub(super) rule: &'a Rule,
    /// It is as it is wanted, and is taken over only so.
    pub(super) is_kept: bool,
}

impl Adopted<'_> {
    /// Whether the digest is in no stamp of ours yet.
    pub(super) fn brings(&self, digest: Digest) -> bool {
        self.digests.contains(&digest) || self.rules.iter().any(|adopted| adopted.digest == digest)
    }

    /// Whether the digest's rule may not be changed when it is taken over.
    pub(super) fn is_kept(&self, digest: Digest) -> bool {
        self.rules.iter().any(|adopted| adopted.digest == digest && adopted.is_kept)
    }
}
