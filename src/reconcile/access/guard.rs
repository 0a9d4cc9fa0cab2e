//! `ACCESS_GUARD`: nothing is published that visitors may reach without a login.
//!
//! A rule is published only if Cloudflare Access covers it, and requires a token of the covering applications. If one
//! of these applications is deleted later, cloudflared refuses the requests that no application checks any more.

use crate::ingress::access::AccessCheck;
use crate::reconcile::access::cover::cover;
use crate::reconcile::access::host_protection::{HostProtection, accepts};
use crate::reconcile::access::reading::{AccessReadError, AccessSnapshot};

impl<'a> HostProtection<'a> {
    /// The Access check that the rule for a path expression needs under the guard: a token of the applications that its
    /// visitors meet.
    ///
    /// # Errors
    /// The reason why some visitors may need no login, or why the protection is not known.
    pub(in crate::reconcile) fn required(self, path: Option<&str>) -> Result<AccessCheck, String> {
        let access = self.whole_access().map_err(|unread| unread.reason)?;
        Ok(AccessCheck::required(&access.team, cover(self.near(), self.hostname, path)?))
    }

    /// The snapshot of Access if every zone around the hostname was read; else the reason why a zone was not read.
    pub(super) fn whole_access(self) -> Result<&'a AccessSnapshot, AccessReadError> {
        let access = self.snapshot.access.snapshot_or_reason()?;
        let mut zones = self.snapshot.zones_around(self.hostname.as_str());
        match zones.find_map(|zone| access.unread_zones.iter().find(|(name, _)| *name == zone.zone.name)) {
            Some((_, unread)) => Err(unread.clone()),
            None => Ok(access),
        }
    }

    /// The names of the applications that protect a path, sorted; empty if the protection is absent or not known.
    pub(in crate::reconcile) fn protectors(self, path: Option<&str>) -> Vec<&'a str> {
        let Ok(required) = self.required(path) else { return Vec::new() };
        let over = self.near().filter(|one| accepts(&required, one));
        let mut names: Vec<&str> = over.map(|one| &*one.name).collect();
        names.sort_unstable();
        names
    }
}
