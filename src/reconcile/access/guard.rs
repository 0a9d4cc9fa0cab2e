//! `ACCESS_GUARD`: nothing is published that visitors may reach without a login.
//!
//! A rule is published only if Cloudflare Access covers it, and requires a token of the covering applications. If one
//! of these applications is deleted later, cloudflared refuses the requests that no application checks any more.

use crate::ingress::access::AccessCheck;
use crate::model::Hostname;
use crate::reconcile::access::cover::cover;
use crate::reconcile::access::reading::{AccessReadError, AccessSnapshot};
use crate::reconcile::snapshot::Snapshot;

/// The reason why visitors may need no login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncovered {
    /// Why, with the remedy.
    Open(String),
    /// The protection is not known.
    Unknown(AccessReadError),
}

/// The Access check that the rule for a hostname and a path expression needs: a token of the applications that its
/// visitors meet.
///
/// # Errors
/// If some visitors may need no login, or if the protection is not known.
pub fn required(
    hostname: &Hostname,
    path: Option<&str>,
    snapshot: &Snapshot,
) -> Result<AccessCheck, Uncovered> {
    let access = read_for(hostname, snapshot).map_err(Uncovered::Unknown)?;
    let near = snapshot.protections().near(hostname.as_str());
    let audiences = cover(near, hostname, path).map_err(Uncovered::Open)?;
    Ok(AccessCheck::required(&access.team, audiences))
}

/// The snapshot of Access if every zone around the hostname was read; else the reason why a zone was not read.
fn read_for<'s>(hostname: &Hostname, snapshot: &'s Snapshot) -> Result<&'s AccessSnapshot, AccessReadError> {
    let access = snapshot.access.snapshot_or_reason()?;
    let mut zones = snapshot.zones_around(hostname.as_str());
    match zones.find_map(|zone| access.unread_zones.iter().find(|(name, _)| *name == zone.zone.name)) {
        Some((_, unread)) => Err(unread.clone()),
        None => Ok(access),
    }
}

/// The names of the applications that protect a hostname or a path of it, sorted; empty if the protection is absent or
/// not known.
pub(in crate::reconcile) fn protectors<'s>(
    hostname: &Hostname,
    path: Option<&str>,
    snapshot: &'s Snapshot,
) -> Vec<&'s str> {
    let Ok(required) = required(hostname, path, snapshot) else {
        return Vec::new();
    };
    let near = snapshot.protections().near(hostname.as_str());
    let over = near.filter(|one| required.audience_tags().contains(&one.audience));
    let mut names: Vec<&str> = over.map(|application| &*application.name).collect();
    names.sort_unstable();
    names
}
