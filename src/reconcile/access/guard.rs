//! `ACCESS_GUARD`: nothing is published that visitors may reach without a login.
//!
//! A rule is published only where Cloudflare Access covers it, and then requires a token of the applications that do:
//! if one of them goes later, cloudflared refuses the requests that nobody stops any more.

use crate::ingress::access::Access;
use crate::ingress::{PathPattern, Rule, WantedRule};
use crate::model::Hostname;
use crate::reconcile::access::cover::{self, Cover, Gap};
use crate::reconcile::access::reading::{AccessReading, AccessSnapshot, Unread};
use crate::reconcile::canonical::Publication;
use crate::reconcile::snapshot::Snapshot;

/// What Access does for the visitors of a hostname, or of a path of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guarding {
    /// All of them need a login. Their rule requires what it proves.
    Protected(Access),
    Open(Gap),
    /// It is not known.
    Unknown(Unread),
}

impl Guarding {
    /// Judges the requests of a hostname and a path expression.
    pub fn of(hostname: &Hostname, path: Option<&str>, snapshot: &Snapshot) -> Self {
        let access = match read_for(hostname, snapshot) {
            Ok(access) => access,
            Err(unread) => return Self::Unknown(unread),
        };
        match cover::cover(&access.applications, hostname, parsed(path).as_ref()) {
            Cover::Protected { audiences } => Self::Protected(Access::required(&access.team, audiences)),
            Cover::Open(gap) => Self::Open(gap),
        }
    }

    /// True if the requests that a rule takes are protected, by Access and by the rule itself.
    pub fn holds(&self, rule: &Rule) -> bool {
        matches!(self, Self::Protected(access) if rule.has_access(access))
    }

    /// True if the requests for a record are protected, whichever rules take them.
    pub fn holds_record(&self) -> bool {
        matches!(self, Self::Protected(_))
    }
}

/// What was read, if it is all that concerns the hostname; else the reason why not.
fn read_for<'s>(hostname: &Hostname, snapshot: &'s Snapshot) -> Result<&'s AccessSnapshot, Unread> {
    let access = match &snapshot.access {
        AccessReading::NotAsked => return Err("nothing was read of Cloudflare Access".into()),
        AccessReading::Failed(unread) => return Err(unread.clone()),
        AccessReading::Read(access) => access,
    };
    let mut zones = snapshot.zones_around(hostname.as_str());
    match zones.find_map(|zone| access.unread_zones.iter().find(|(name, _)| *name == zone.zone.name)) {
        Some((_, unread)) => Err(unread.clone()),
        None => Ok(access),
    }
}

fn parsed(path: Option<&str>) -> Option<PathPattern> {
    path.and_then(|path| PathPattern::parse(path).ok())
}

/// The names of the applications that protect a hostname, or a path of it, sorted; empty if it is not protected, or if
/// that is not known.
pub(in crate::reconcile) fn protectors<'s>(
    hostname: &Hostname,
    path: Option<&str>,
    snapshot: &'s Snapshot,
) -> Vec<&'s str> {
    let Ok(access) = read_for(hostname, snapshot) else {
        return Vec::new();
    };
    match cover::cover(&access.applications, hostname, parsed(path).as_ref()) {
        Cover::Protected { audiences } => {
            let over = access.applications.iter().filter(|one| audiences.contains(&one.audience));
            let mut names: Vec<&str> = over.map(|application| &*application.name).collect();
            names.sort_unstable();
            names
        }
        Cover::Open(_) => Vec::new(),
    }
}

impl Publication {
    /// The publication with a rule that requires `access`.
    pub(in crate::reconcile) fn requiring(self, access: Access) -> Self {
        let with_access =
            |rule: WantedRule| WantedRule { origin_request: rule.origin_request.with_access(access), ..rule };
        Self { rule: self.rule.map(with_access), ..self }
    }
}
