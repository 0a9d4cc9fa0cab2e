//! Looks whether the tunnels that records are led to serve their hostnames.

use std::collections::BTreeMap;

use super::Execution;
use crate::clock::Deadline;
use crate::limits;
use crate::model::TunnelId;

impl Execution<'_> {
    /// Leaves out the hostnames whose new tunnel does not serve yet what was read of it. They stay served where they
    /// are, and the next request looks again.
    pub(super) fn leave_out_unready(&mut self) {
        let plan = self.plan;
        let mut seen: BTreeMap<&TunnelId, Result<(), String>> = BTreeMap::new();
        for host in &plan.hosts {
            let Some(to) = &host.moves_to else { continue };
            let ready = seen.entry(&to.tunnel).or_insert_with(|| self.look_at(&to.tunnel)).clone();
            if let Err(text) = ready {
                self.leave_out(&host.hostname, to.waits(text));
            }
        }
    }

    /// Checks that every connector of the tunnel has applied the configuration that was read, and says why not.
    /// Connectors that report no version are not waited for.
    fn look_at(&self, tunnel: &TunnelId) -> Result<(), String> {
        // One slow tunnel must leave time for the others.
        let left = self.time_left().saturating_sub(limits::STEP_MINIMUM);
        let deadline = Deadline::after(self.tools.clock, limits::MOVE_LOOK_TIMEOUT.min(left));
        let connectors = self.tools.client.connectors(&self.resolved.account, tunnel, deadline).map_err(|error| {
            format!(
                "the connectors of tunnel {tunnel} cannot be seen, so what is to move there stays: {error}"
            )
        })?;
        if connectors.is_empty() {
            return Err(format!(
                "tunnel {tunnel} has no connector, so what is served elsewhere stays there: run a cloudflared for it"
            ));
        }
        let Some(read) = self.snapshot.tunnels.get(tunnel).map(|tunnel| tunnel.version) else {
            return Ok(());
        };
        let applied =
            connectors.iter().filter_map(|connector| Some((connector.config_version?, &connector.id)));
        match applied.min() {
            Some((applied, connector)) if applied < read => Err(format!(
                "connector {connector} of tunnel {tunnel} serves version {applied} of its configuration and not {read} \
                 yet, so what is to move there stays where it is: its log says what keeps it"
            )),
            _ => Ok(()),
        }
    }
}
