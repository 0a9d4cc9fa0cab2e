//! The part of the configuration that the provider needs.

use crate::model::{AccountId, Zone, ZoneId};
use crate::reconcile::Policy;

/// The provider's settings, in names that Cloudflare has to resolve.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// The settings that decisions depend on.
    pub policy: Policy,
    /// `CF_ACCOUNT_ID`; `None` takes the account that all zones share.
    pub account: Option<AccountId>,
    /// `CF_TUNNEL_ID`: ids or names of tunnels, the default first.
    pub tunnels: Vec<Box<str>>,
    /// `ZONE_ID_FILTER`: where not empty, only these zones are read.
    pub zone_ids: Vec<ZoneId>,
    /// `DRY_RUN`: nothing is written.
    pub dry_run: bool,
    /// `ALLOW_LOCAL_CONFIG`: tunnels with a configuration file of their own may be written.
    pub allow_local_config: bool,
    /// How many zones and tunnels are read at once. With 1, the order of the calls is always the same.
    pub parallel_reads: usize,
}

impl ProviderSettings {
    /// True if the zone is read: it is one of `zone_ids`, if there are any, and some name in it could be served.
    pub(crate) fn takes(&self, zone: &Zone) -> bool {
        let is_listed = self.zone_ids.is_empty() || self.zone_ids.contains(&zone.id);
        is_listed && self.policy.filter.may_serve_zone(&zone.name)
    }
}
