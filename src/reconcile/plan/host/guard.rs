//! What the namespace guard makes of one hostname's request.

use crate::reconcile::namespace;
use crate::reconcile::plan::host::{Host, Wanted};
use crate::reconcile::plan::{Reason, Refusal};
use crate::reconcile::stamp::Stamp;

impl Host<'_> {
    /// What the namespace guard lets through. Of two namespaces, the one that has the hostname, else one that
    /// asks for what is published there, else that of the smallest resource.
    pub(super) fn guarded<'w>(
        &self,
        wanted: Vec<Wanted<'w>>,
        refusals: &mut Vec<Refusal>,
    ) -> Vec<Wanted<'w>> {
        let Some(guard) = &self.settings.policy.namespace_guard else {
            return wanted;
        };
        let mut holder = self.holder();
        let mut allowed: Vec<Wanted<'_>> = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let namespace = wanted.resource.and_then(namespace::namespace_of);
            if namespace.is_some_and(|namespace| guard.allows(wanted.publication, namespace)) {
                allowed.push(wanted);
            } else {
                let allowed = namespace.map(|namespace| guard.allowed(namespace));
                refusals.push(self.refusal(&wanted, Reason::NamespaceGuard { allowed }));
            }
        }
        if holder.is_none() {
            // A stamp of several rules may name no object: whose they are, only who asks for one of them can say.
            let is_free = self.states.is_empty();
            let may_have_it = |wanted: &&Wanted<'_>| {
                is_free || self.digests_for_path(wanted.publication.path()).next().is_some()
            };
            let first = allowed.iter().filter(may_have_it).filter_map(|wanted| wanted.resource).min();
            holder = first.and_then(namespace::digest_of);
        }
        let is_holders = |wanted: &Wanted<'_>| wanted.resource.and_then(namespace::digest_of) == holder;
        let (holders, others): (Vec<_>, Vec<_>) = allowed.into_iter().partition(is_holders);
        let holder = holder.unwrap_or_default();
        for wanted in others {
            let reason = Reason::NamespaceHeld { holder: holder.clone() };
            refusals.push(self.refusal(&wanted, reason));
        }
        holders
    }

    /// The digest of the namespace that has the hostname, as the stamp tells, also another owner's, or ExternalDNS's TXT
    /// record.
    fn holder(&self) -> Option<Box<str>> {
        let foreign = || self.foreign_records.iter().find_map(|record| Stamp::of(record));
        let (digest, resource) = match self.stamp.clone().or_else(foreign) {
            Some(stamp) => (stamp.namespace().map(Into::into), stamp.resource),
            None => (None, self.resource_of_heritage()),
        };
        digest.or_else(|| namespace::digest_of(&resource?))
    }

    /// Whether deletions wait, as an endpoint that is refused may be one of them under another path. Where namespaces
    /// are kept apart, none can hold back what another one deletes.
    pub(super) fn is_withheld(&self) -> bool {
        let guard = self.settings.policy.namespace_guard.as_ref();
        let holder = self.holder().filter(|_| guard.is_some());
        self.request.wanted.iter().any(|canonical| {
            let resource = canonical.resource().unwrap_or_default();
            let is_holders = || holder == namespace::digest_of(resource);
            match &canonical.publication {
                Ok(publication) => guard.is_some_and(|guard| {
                    let namespace = namespace::namespace_of(resource).filter(|_| is_holders());
                    namespace.is_some_and(|namespace| !guard.allows(publication, namespace))
                }),
                Err(_) => holder.is_none() || is_holders(),
            }
        })
    }
}
