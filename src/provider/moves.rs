//! Looks whether the tunnels that records are to be led to serve their hostnames.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Connector};
use crate::limits;
use crate::model::{AccountId, TunnelId};
use crate::ordered::inserted;
use crate::reconcile::plan::Plan;
use crate::reconcile::snapshot::Snapshot;

/// The tunnels to which the plan leads a record and which do not serve yet what was read of them, with the reasons.
pub(super) fn unready(
    plan: &Plan,
    snapshot: &Snapshot,
    look: impl Fn(&TunnelId, i64) -> Result<(), String>,
) -> BTreeMap<TunnelId, String> {
    let tunnels: BTreeSet<&TunnelId> = inserted(plan.hosts.iter().filter_map(|host| host.moves_to.as_ref()));
    let version = |tunnel| snapshot.tunnels.get(tunnel).map_or(-1, |tunnel| tunnel.version);
    inserted(
        tunnels.into_iter().filter_map(|tunnel| Some((tunnel.clone(), look(tunnel, version(tunnel)).err()?))),
    )
}

/// The deadline of a look at one tunnel, which must leave time for the others.
pub(super) fn look_deadline(clock: &dyn Clock, deadline: Deadline) -> Deadline {
    let left = deadline.remaining(clock).saturating_sub(limits::STEP_MINIMUM);
    Deadline::after(clock, limits::MOVE_LOOK_TIMEOUT.min(left))
}

/// Checks that every connector of the tunnel has applied this version of its configuration, and says why not. Connectors
/// that report no version are not waited for.
pub(super) fn look_at(
    client: &Client,
    clock: &dyn Clock,
    account: &AccountId,
    tunnel: &TunnelId,
    version: i64,
    deadline: Deadline,
) -> Result<(), String> {
    let deadline = look_deadline(clock, deadline);
    let connectors = client.connectors(account, tunnel, deadline).map_err(|error| {
        format!("the connectors of tunnel {tunnel} cannot be seen, so what is to move there stays: {error}")
    })?;
    if connectors.is_empty() {
        return Err(format!(
            "tunnel {tunnel} has no connector, so what is served elsewhere stays there: run a cloudflared for it"
        ));
    }
    match Connector::slowest(&connectors) {
        Some((applied, connector)) if applied < version => Err(format!(
            "connector {connector} of tunnel {tunnel} serves version {applied} of its configuration and not {version} \
             yet, so what is to move there stays where it is: its log says what keeps it"
        )),
        _ => Ok(()),
    }
}
