//! Looks whether the tunnels that records are to be led to serve their hostnames.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Connector};
use crate::limits;
use crate::model::{AccountId, TunnelId};
use crate::reconcile::plan::{Earlier, Plan};

/// The plan, with a `look` at each tunnel that it leads a record to, which returns those that do not serve yet what was read
/// of them, with the reasons. What waits for them leaves its turn to hostnames that may be led elsewhere.
pub(super) fn with_looks<E>(
    mut earlier: Earlier,
    plan: impl Fn(&Earlier) -> Result<Plan, E>,
    look: impl Fn(&[TunnelId]) -> BTreeMap<TunnelId, String>,
) -> Result<Plan, E> {
    let mut seen: BTreeSet<TunnelId> = BTreeSet::new();
    loop {
        let planned = plan(&earlier)?;
        let mut targets: Vec<TunnelId> =
            planned.hosts.iter().filter_map(|host| host.moves_to.clone()).collect();
        targets.retain(|tunnel| seen.insert(tunnel.clone()));
        let unready = look(&targets);
        if unready.is_empty() {
            return Ok(planned);
        }
        earlier.unready.extend(unready);
    }
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
    account: &AccountId,
    tunnel: &TunnelId,
    version: i64,
    deadline: Deadline,
) -> Result<(), String> {
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
