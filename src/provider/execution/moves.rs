//! Leads the records of moving hostnames over to their new tunnel once it serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Execution;
use super::work::Piece;
use crate::clock::Deadline;
use crate::limits;
use crate::model::TunnelId;
use crate::ordered::inserted;
use crate::reconcile::plan::{HostPlan, Reason};

impl<'a> Execution<'a> {
    /// Waits until all connectors of the tunnels that hostnames move to have applied what was written. Hostnames of a
    /// tunnel with a late connector are left out, and stay served where they are.
    pub(super) fn await_connectors(&mut self) {
        let plan = self.plan;
        let movers = plan.hosts.iter().filter_map(|host| Some((host, host.moves_to.as_ref()?)));
        let movers: Vec<(&HostPlan, &TunnelId)> = movers.filter(|(host, _)| self.is_moving(host)).collect();
        let targets: BTreeSet<&TunnelId> = inserted(movers.iter().map(|(_, tunnel)| *tunnel));
        let not_ready = self.not_ready(&targets);
        self.tools.moves.wait_for(&targets, |tunnel| not_ready.contains_key(tunnel), self.tools.clock.now());
        for (host, tunnel) in movers.into_iter().filter(|(host, _)| !host.moves_now) {
            if let Some(reason) = not_ready.get(tunnel) {
                self.leave_out(&host.hostname, reason.clone());
                self.done.waiting.insert(host.hostname.clone());
            }
        }
    }

    /// True if the hostname is among those that are worked on, and goes on.
    fn is_moving(&self, host: &HostPlan) -> bool {
        self.late.contains(&*host.hostname) == self.is_late && !self.done.dropped.contains(&host.hostname)
    }

    /// The reasons why some of these tunnels do not serve yet what was written. Looks until all do or the time is up.
    fn not_ready(&self, tunnels: &BTreeSet<&'a TunnelId>) -> BTreeMap<&'a TunnelId, Reason> {
        let wait_until = self.tools.clock.now() + limits::MOVE_WAIT;
        let mut awaited: Vec<&TunnelId> = tunnels.iter().copied().collect();
        let mut pause = limits::MOVE_LOOK_PAUSE;
        let mut not_ready = BTreeMap::new();
        loop {
            let now = self.tools.clock.now();
            let is_last = is_last_look(wait_until.saturating_duration_since(now), self.time_left(), pause);
            let mut later = Vec::new();
            for tunnel in awaited {
                let Err(cause) = self.look_at(tunnel) else { continue };
                if self.tools.moves.has_given_up(tunnel, now) {
                    not_ready.insert(tunnel, Reason::NotMoved(cause));
                } else if is_last {
                    not_ready.insert(tunnel, Reason::Moving(cause));
                } else {
                    later.push(tunnel);
                }
            }
            if later.is_empty() {
                return not_ready;
            }
            self.tools.clock.sleep(pause);
            (awaited, pause) = (later, pause * 2);
        }
    }

    /// Checks that every connector of the tunnel has applied its present configuration, and says why not. Connectors
    /// that report no version are not waited for.
    fn look_at(&self, tunnel: &TunnelId) -> Result<(), String> {
        // One slow tunnel must leave time for the others, and for the hostnames that are ready.
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
        let read = self.snapshot.tunnels.get(tunnel).map(|tunnel| tunnel.version);
        let Some(written) = self.written.get(tunnel).copied().or(read) else {
            return Ok(());
        };
        let applied =
            connectors.iter().filter_map(|connector| Some((connector.config_version?, &connector.id)));
        match applied.min() {
            Some((applied, connector)) if applied < written => Err(format!(
                "connector {connector} of tunnel {tunnel} serves version {applied} of its configuration and not {written} \
                 yet, so what is to move there stays where it is: its log says what keeps it"
            )),
            _ => Ok(()),
        }
    }

    /// Records have been led over, so from now on no new visitor reaches what is left behind.
    pub(super) fn note_led_over(&mut self, pieces: &[Piece<'a>]) {
        let now = self.tools.clock.now();
        for host in pieces.iter().filter_map(|piece| self.plan.host(piece.hostname)) {
            if let Some(tunnel) = host.led_to() {
                self.tools.moves.begin(&host.hostname, tunnel, now);
            }
        }
    }
}

/// True if a pause and another look do not fit into what is left to wait, or into the request beside two more steps.
fn is_last_look(left_to_wait: Duration, time_left: Duration, pause: Duration) -> bool {
    pause > left_to_wait || time_left < pause + 2 * limits::STEP_MINIMUM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_look_comes_if_the_pause_before_it_and_two_steps_have_time() {
        let [pause, request] = [250, 3_250].map(Duration::from_millis);
        let moment = Duration::from_millis(1);
        assert!(!is_last_look(pause, request, pause));
        assert!(is_last_look(pause - moment, request, pause), "the wait is over");
        assert!(is_last_look(pause, request - moment, pause), "the request has no time");
    }
}
