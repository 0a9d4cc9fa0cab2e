//! Applies the namespace guard to one hostname's endpoints.

use super::decide::Desired;
use super::{Host, heritage};
use crate::reconcile::namespace;
use crate::reconcile::plan::Reason;
use crate::reconcile::stamp::Stamp;

/// The digest of the one namespace that can have the hostname: the one that has it, else one that asks for what is
/// published there, else that of the first resource by name. `None` without the guard.
pub(super) fn entitled(host: &Host<'_>, desired: &[Desired<'_>]) -> Option<Box<str>> {
    host.policy().namespace_guard.then_some(())?;
    holder(host).or_else(|| first_namespace(host, desired))
}

/// The refusal of an object of another namespace than the entitled one.
pub(super) fn refusal(host: &Host<'_>, resource: Option<&str>, entitled: Option<&str>) -> Option<Reason> {
    host.policy().namespace_guard.then_some(())?;
    let is_entitled = resource.and_then(namespace::digest_of).as_deref() == entitled;
    (!is_entitled).then(|| Reason::NamespaceHeld { holder: entitled.unwrap_or_default().into() })
}

/// The namespace that gets a hostname which none has yet. The stamp of several rules may name no object; then only a
/// namespace that asks for one of these rules can be the one that has them.
fn first_namespace(host: &Host<'_>, desired: &[Desired<'_>]) -> Option<Box<str>> {
    let may_have_it = |desired: &&Desired<'_>| host.rules.is_empty() || host.has_path(desired.path());
    let first = desired.iter().filter(may_have_it).filter_map(|desired| desired.resource).min();
    first.and_then(namespace::digest_of)
}

/// The digest of the namespace that has the hostname, read from the stamp (ours or another owner's) or else from
/// ExternalDNS's TXT record.
fn holder(host: &Host<'_>) -> Option<Box<str>> {
    let foreign = || host.foreign_records.iter().find_map(|record| Stamp::of(record));
    match host.stamp.clone().or_else(foreign) {
        Some(stamp) => namespace::holder(&stamp),
        None => namespace::digest_of(&heritage::resource(host)?),
    }
}
