//! The part of the configuration that the provider needs.

use crate::model::{AccountId, Zone, ZoneId};
use crate::reconcile::OperatorSettings;

/// The provider's settings. Names of tunnels are not yet resolved to ids.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// The settings that decisions depend on.
    pub operator: OperatorSettings,
    /// `CF_ACCOUNT_ID`; if `None`, the account that all zones share.
    pub account: Option<AccountId>,
    /// `CF_TUNNEL_ID`: ids or names of tunnels, the default first.
    pub tunnels: Vec<Box<str>>,
    /// `ZONE_ID_FILTER`: if not empty, only these zones are read.
    pub zone_ids: Vec<ZoneId>,
    /// `DRY_RUN`: nothing is written.
    pub dry_run: bool,
    /// `ALLOW_LOCAL_CONFIG`: tunnels with a configuration file of their own may be written.
    pub allow_local_config: bool,
    /// The number of parallel calls. With 1, the order of the calls is always the same.
    pub parallel_calls: usize,
}

impl ProviderSettings {
    /// True if the zone is read: `zone_ids` is empty or has the zone, and the filter may match a name in the zone.
    pub(crate) fn includes_zone(&self, zone: &Zone) -> bool {
        let is_listed = self.zone_ids.is_empty() || self.zone_ids.contains(&zone.id);
        is_listed && self.operator.filter.may_serve_zone(&zone.name)
    }
}
