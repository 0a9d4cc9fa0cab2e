//! Logs the managed tunnels and zones once the tunnels are found.

use log::{info, warn};

use crate::cloudflare::Error;
use crate::model::Zone;
use crate::model::text::{QUOTED_MAX_CHARS, cut};
use crate::provider::resolution::{Resolved, SHOW_ZONES};
use crate::provider::settings::ProviderSettings;
use crate::reconcile::{ConfiguredTunnel, OperatorSettings};

/// Logs the managed tunnels and zones.
pub(super) fn announce(resolved: &Resolved, settings: &ProviderSettings, zones: Result<&[Zone], &Error>) {
    announce_tunnels(resolved);
    match zones {
        Ok(zones) => announce_zones(zones, resolved, settings),
        Err(error) => warn!("the zones could not be read yet: {error}"),
    }
}

fn announce_tunnels(Resolved { account, settings }: &Resolved) {
    let OperatorSettings { owner, filter, .. } = &settings.operator;
    let tunnels: Vec<String> =
        settings.tunnels().iter().map(|tunnel| format!("{} ({})", tunnel.name, tunnel.id)).collect();
    info!(
        tunnels = tunnels.join(","),
        account:%,
        owner,
        filter = cut(&filter.to_json(), QUOTED_MAX_CHARS);
        "the webhook manages these tunnels: start ExternalDNS with --registry=noop; --registry=txt works too, but its TXT \
         records are not stored"
    );
    for ConfiguredTunnel { id, name, .. } in settings.tunnels().iter().filter(|one| one.id.is_placeholder()) {
        warn!("DRY_RUN is set, so the tunnel {name:?} is not created: the dry run uses the id {id} for it");
    }
}

fn announce_zones(zones: &[Zone], resolved: &Resolved, settings: &ProviderSettings) {
    let in_scope = zones.iter().filter(|zone| settings.includes_zone(zone));
    let (served, others): (Vec<&Zone>, Vec<&Zone>) =
        in_scope.partition(|zone| zone.is_of_account(&resolved.account));
    if !others.is_empty() {
        warn!(
            zones:% = names(&others);
            "the webhook ignores these zones: they belong to another account than the tunnels, and their records cannot point to these tunnels"
        );
    }
    if served.is_empty() {
        warn!(
            zones:% = "";
            "the webhook serves no zone, so it refuses every hostname (no_zone): {SHOW_ZONES}, or correct CF_ACCOUNT_ID, \
             DOMAIN_FILTER or ZONE_ID_FILTER"
        );
        return;
    }
    info!(zones:% = names(&served); "the webhook serves these zones");
}

fn names(zones: &[&Zone]) -> String {
    zones.iter().map(|zone| &*zone.name).collect::<Vec<_>>().join(",")
}
