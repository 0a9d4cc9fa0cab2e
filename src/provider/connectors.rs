//! Watches the connectors of the tunnels, now and then and beside all requests. Nothing waits for it and nothing
//! depends on it; a look that fails shows nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use log::{debug, warn};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Error};
use crate::limits;
use crate::model::{AccountId, TunnelId};
use crate::observe::metrics::{Family, Metrics, VERSION_BOUNDS};
use crate::provider::resolution::Resolved;
use crate::reconcile::ConfiguredTunnel;

/// The results of the looks at each tunnel, and when the next look is due.
#[derive(Debug)]
pub(super) struct ConnectorWatch {
    first_at: Instant,
    tunnels: BTreeMap<TunnelId, Seen>,
}

/// The results of the looks at one tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The version that was read or written last, and the time since which it is known.
    version: Option<(i64, Instant)>,
    /// The last look, or the last time at which one would have been due.
    looked_at: Option<Instant>,
    /// The version written before the last look, if a connector had not applied it yet.
    awaited: Option<i64>,
    trouble: Option<Trouble>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    NoConnector,
    /// The lowest version that a connector has applied.
    Behind(i64),
}

/// The connectors of a tunnel at one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Look {
    connectors: usize,
    /// The lowest version of the tunnel's configuration that a connector reports as applied.
    lowest: Option<i64>,
    /// The highest such version.
    highest: Option<i64>,
    /// The id of the connector with the lowest version.
    slowest: Box<str>,
}

impl ConnectorWatch {
    /// The state before the first look. `now` is the program's start.
    pub(super) fn new(now: Instant) -> Self {
        Self { first_at: now + limits::CONNECTORS_FIRST_LOOK, tunnels: BTreeMap::new() }
    }

    /// Looks at the connectors of each tunnel that is due, updates the metrics, and warns if nobody reaches a tunnel's
    /// hostnames or if a connector does not take its configuration. While it waits it holds nothing that a request
    /// needs.
    pub(super) fn look(
        &mut self,
        client: &Client,
        Resolved { account, settings }: &Resolved,
        metrics: &Metrics,
        clock: &dyn Clock,
    ) {
        self.tunnels.retain(|tunnel, _| settings.is_configured(tunnel));
        for ConfiguredTunnel { id, name, is_local: _ } in settings.tunnels() {
            let seen = self.tunnels.entry(id.clone()).or_default();
            // Read before the look, because no connector can have applied what is written meanwhile.
            let version = metrics.update().get(Family::ConfigurationVersion, &[name]);
            seen.note_version(version, clock.now());
            if !seen.is_due(self.first_at, clock.now()) {
                continue;
            }
            seen.looked_at = Some(clock.now());
            if client.calls_left() < limits::CONNECTORS_CALLS_LEFT_MIN {
                debug!(tunnel:% = id; "few calls are left, so nobody looks at its connectors");
                continue;
            }
            let deadline = Deadline::after(clock, limits::CONNECTORS_TIMEOUT);
            let look = Look::of(client, account, id, deadline);
            show(metrics, name, look.as_ref().ok());
            let look = match look {
                Ok(look) => look,
                Err(error) => {
                    debug!(tunnel:% = id; "its connectors cannot be seen: {error}");
                    continue;
                }
            };
            let before = std::mem::replace(seen, seen.after(&look));
            match seen.trouble.filter(|trouble| before.trouble != Some(*trouble)) {
                Some(Trouble::NoConnector) => warn!(
                    tunnel:% = id;
                    "({name:?}) has no connector: nobody reaches its hostnames until a cloudflared runs for it"
                ),
                Some(Trouble::Behind(lowest)) => warn!(
                    tunnel:% = id;
                    "({name:?}) has the connector {:?}, which serves version {lowest} and not {}: its log says what \
                     keeps it",
                    look.slowest,
                    version.unwrap_or(lowest)
                ),
                None => {}
            }
        }
    }
}

fn show(metrics: &Metrics, tunnel_name: &str, look: Option<&Look>) {
    let mut values = metrics.update();
    values.clear(Family::Connectors, &[tunnel_name]);
    values.clear(Family::ConnectorVersion, &[tunnel_name]);
    let Some(Look { connectors, lowest, highest, slowest: _ }) = look else {
        return;
    };
    values.set(Family::Connectors, &[tunnel_name], *connectors as i64);
    for (bound, version) in VERSION_BOUNDS.into_iter().zip([lowest, highest]) {
        if let Some(version) = version {
            values.set(Family::ConnectorVersion, &[tunnel_name, bound], *version);
        }
    }
}

impl Look {
    /// Reads the connectors of a tunnel.
    fn of(
        client: &Client,
        account: &AccountId,
        tunnel: &TunnelId,
        deadline: Deadline,
    ) -> Result<Self, Error> {
        let connectors = client.connectors(account, tunnel, deadline)?;
        let versions = connectors.iter().filter_map(|one| Some((one.config_version?, &one.id)));
        let (lowest, slowest) = versions.clone().min().unzip();
        let highest = versions.map(|(version, _)| version).max();
        let slowest = slowest.cloned().unwrap_or_default();
        Ok(Self { connectors: connectors.len(), lowest, highest, slowest })
    }
}

impl Seen {
    fn note_version(&mut self, version: Option<i64>, now: Instant) {
        if version != self.version.map(|(version, _)| version) {
            self.version = version.map(|version| (version, now));
        }
    }

    fn is_due(self, first_at: Instant, now: Instant) -> bool {
        let Some(last) = self.looked_at else {
            return now >= first_at || self.is_due_since_change(None, now);
        };
        let may_come_late = self.awaited.is_some() && self.trouble.is_none();
        let pause = if may_come_late { limits::CONNECTORS_SECOND_LOOK } else { limits::CONNECTORS_PERIOD };
        now >= last + limits::CONNECTORS_PAUSE
            && (now >= last + pause || self.is_due_since_change(Some(last), now))
    }

    fn is_due_since_change(self, last: Option<Instant>, now: Instant) -> bool {
        let due = self.version.map(|(_, changed_at)| changed_at + limits::CONNECTORS_AFTER_CHANGE);
        due.is_some_and(|due| due <= now && last.is_none_or(|last| last < due))
    }

    /// The state after another look.
    fn after(self, look: &Look) -> Self {
        let is_behind = |version: &i64| look.lowest.is_some_and(|lowest| lowest < *version);
        let trouble = match (look.connectors, self.awaited.filter(is_behind)) {
            (0, _) => Some(Trouble::NoConnector),
            (_, Some(_)) => look.lowest.map(Trouble::Behind),
            (_, None) => None,
        };
        let awaited = self.version.map(|(version, _)| version).filter(is_behind);
        Self { awaited, trouble, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A look: the number of connectors, the lowest applied version, and the written version.
    type Told = (usize, Option<i64>, Option<i64>);

    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn troubles(looks: &[Told]) -> Vec<Option<Trouble>> {
        let mut seen = Seen::default();
        let after = |&(connectors, lowest, written): &Told| {
            seen.note_version(written, Instant::now());
            seen = seen.after(&Look { connectors, lowest, ..Look::default() });
            seen.trouble
        };
        looks.iter().map(after).collect()
    }

    #[test]
    fn trouble_is_no_connector_or_a_version_not_applied_from_one_look_to_the_next() {
        const NONE: Option<Trouble> = Some(Trouble::NoConnector);
        const BEHIND: Option<Trouble> = Some(Trouble::Behind(6));
        for (label, looks, expected) in [
            ("all is well", &[(2, Some(7), Some(7)), (2, Some(7), Some(7))][..], &[None, None][..]),
            ("late once", &[(2, Some(6), Some(7)), (2, Some(7), Some(7))], &[None, None]),
            (
                "late twice, then no more",
                &[(2, Some(6), Some(7)), (2, Some(6), Some(7)), (2, Some(7), Some(7))],
                &[None, BEHIND, None],
            ),
            (
                "late for the last write each time",
                &[(1, Some(6), Some(7)), (1, Some(7), Some(8))],
                &[None, None],
            ),
            ("further and further behind", &[(1, Some(6), Some(7)), (1, Some(6), Some(8))], &[None, BEHIND]),
            (
                "a new connector that was late at no earlier look",
                &[(1, Some(7), Some(7)), (2, Some(-1), Some(7))],
                &[None, None],
            ),
            ("nobody", &[(0, None, Some(7)), (1, Some(7), Some(7)), (0, None, Some(7))], &[NONE, None, NONE]),
            ("nothing was read yet", &[(1, Some(6), None), (1, Some(6), None)], &[None, None]),
            ("a connector that tells no version", &[(1, None, Some(7)), (1, None, Some(7))], &[None, None]),
            (
                "gone while late",
                &[(1, Some(6), Some(7)), (0, None, Some(7)), (1, Some(6), Some(7))],
                &[None, NONE, None],
            ),
            (
                "a tunnel that was never configured",
                &[(1, Some(-1), Some(-1)), (1, Some(-1), Some(-1))],
                &[None, None],
            ),
        ] {
            assert_eq!(troubles(looks), expected, "{label}");
        }
    }

    /// The seconds from the program's start at which a look is due. The tunnel is written at `written_at`, looks take
    /// no time, and everything written is applied from `applied_at` on.
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn looks(written_at: &[u64], applied_at: u64, until: u64) -> Vec<u64> {
        let start = Instant::now();
        let (mut seen, mut looks, mut version) = (Seen::default(), Vec::new(), None);
        for second in 0..until {
            if written_at.contains(&second) {
                version = Some(version.unwrap_or_default() + 1);
            }
            let now = start + Duration::from_secs(second);
            seen.note_version(version, now);
            if seen.is_due(ConnectorWatch::new(start).first_at, now) {
                seen.looked_at = Some(now);
                looks.push(second);
                let lowest = if second >= applied_at { version } else { Some(0) };
                seen = seen.after(&Look { connectors: 1, lowest, ..Look::default() });
            }
        }
        looks
    }

    #[test]
    fn a_look_is_due_now_and_then_and_after_a_change_and_again_if_a_connector_was_behind() {
        for (label, written_at, applied_at, expected) in [
            ("nothing is written", &[][..], 0, &[30, 330, 630][..]),
            ("applied at the first look", &[100], 100, &[30, 115, 415]),
            ("applied at the second", &[100], 116, &[30, 115, 145, 445]),
            ("never applied", &[100], 900, &[30, 115, 145, 445]),
            ("written before the first look", &[5], 900, &[20, 50, 350, 650]),
            ("two writes close together", &[100, 105], 900, &[30, 120, 150, 450]),
            ("a write between two looks", &[100, 140], 900, &[30, 115, 145, 160, 460]),
        ] {
            assert_eq!(looks(written_at, applied_at, 700), expected, "{label}");
        }
        let often: Vec<u64> = (0..700).step_by(16).collect();
        let pause = limits::CONNECTORS_PAUSE.as_secs();
        assert!(looks(&often, 900, 700).len() as u64 <= 700 / pause, "however often it is written");
    }
}
