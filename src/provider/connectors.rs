//! Watches the connectors of the tunnels, now and then and beside all requests. Nothing waits for it and nothing
//! depends on it; a look that fails shows nothing.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use log::{debug, warn};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Error};
use crate::limits;
use crate::locks::lock;
use crate::model::{AccountId, TunnelId};
use crate::observe::metrics::{Family, Metrics, VERSION_BOUNDS};
use crate::provider::memory::UnappliedRules;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    connectors: usize,
    /// The lowest version of the tunnel's configuration that a connector reports as applied.
    lowest: Option<i64>,
    /// The highest such version.
    highest: Option<i64>,
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
        unapplied_rules: &Mutex<UnappliedRules>,
        metrics: &Metrics,
        clock: &dyn Clock,
    ) {
        self.tunnels.retain(|tunnel, _| settings.is_configured(tunnel));
        lock(unapplied_rules).retain(|tunnel| settings.is_configured(tunnel));
        for ConfiguredTunnel { id, name, is_local: _ } in settings.tunnels() {
            let writes = lock(unapplied_rules).writes(id);
            let seen = self.tunnels.entry(id.clone()).or_default();
            if !seen.is_due(self.first_at, &writes, clock.now()) {
                continue;
            }
            seen.looked_at = Some(clock.now());
            if client.calls_left() < limits::CONNECTORS_CALLS_LEFT_MIN {
                debug!(tunnel:% = id; "few calls are left, so nobody looks at its connectors");
                continue;
            }
            // Read before the look, because no connector can have applied what is written meanwhile.
            let written = metrics.update().get(Family::ConfigurationVersion, &[name]);
            let deadline = Deadline::after(clock, limits::CONNECTORS_TIMEOUT);
            let look = Look::of(client, account, id, deadline);
            show(metrics, name, look.as_ref().ok().copied());
            let look = match look {
                Ok(look) => look,
                Err(error) => {
                    debug!(tunnel:% = id; "its connectors cannot be seen: {error}");
                    continue;
                }
            };
            let before = std::mem::replace(seen, seen.after(look, written));
            if let Some(trouble) = seen.trouble
                && seen.trouble != before.trouble
            {
                warn!(tunnel:% = id; "({name:?}) {}", explained(trouble, id, &lock(unapplied_rules)));
            }
            if let Some(applied) = look.applied() {
                lock(unapplied_rules).forget_applied(id, applied);
            }
        }
    }
}

fn show(metrics: &Metrics, tunnel_name: &str, look: Option<Look>) {
    let mut values = metrics.update();
    values.clear(Family::Connectors, &[tunnel_name]);
    values.clear(Family::ConnectorVersion, &[tunnel_name]);
    let Some(Look { connectors, lowest, highest }) = look else {
        return;
    };
    values.set(Family::Connectors, &[tunnel_name], connectors as i64);
    for (bound, version) in VERSION_BOUNDS.into_iter().zip([lowest, highest]) {
        if let Some(version) = version {
            values.set(Family::ConnectorVersion, &[tunnel_name, bound], version);
        }
    }
}

fn explained(trouble: Trouble, tunnel: &TunnelId, unapplied: &UnappliedRules) -> String {
    match trouble {
        Trouble::NoConnector => {
            "has no connector: nobody reaches its hostnames until a cloudflared runs for it".to_owned()
        }
        Trouble::Behind(lowest) => format!(
            "has a connector that did not apply a configuration written half a minute ago or more: it serves version \
             {lowest}, and where a rule keeps it from a later one, it answers 503 to everything once it is started \
             anew: its log says why. Came or changed since: {}",
            unapplied.since(tunnel, lowest)
        ),
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
        let versions = || connectors.iter().filter_map(|connector| connector.config_version);
        Ok(Self { connectors: connectors.len(), lowest: versions().min(), highest: versions().max() })
    }

    /// The version that every connector has applied. Connectors that report none are not waited for.
    fn applied(self) -> Option<i64> {
        let Self { connectors, lowest, highest: _ } = self;
        (connectors > 0).then(|| lowest.unwrap_or(i64::MAX))
    }
}

impl Seen {
    /// True if a look is due, given the times of the writes that may not be applied everywhere.
    fn is_due(self, first_at: Instant, writes: &[Instant], now: Instant) -> bool {
        let last = self.looked_at;
        if last.is_some_and(|last| now < last + limits::CONNECTORS_PAUSE) {
            return false;
        }
        let is_new = |due: Instant| due <= now && last.is_none_or(|last| last < due);
        let mut after_writes = writes
            .iter()
            .flat_map(|written_at| limits::CONNECTORS_AFTER_WRITE.map(|pause| *written_at + pause));
        is_new(last.map_or(first_at, |last| last + limits::CONNECTORS_PERIOD)) || after_writes.any(is_new)
    }

    /// The state after another look. `written` is the version that all connectors should have.
    fn after(self, look: Look, written: Option<i64>) -> Self {
        let is_behind = |version: &i64| look.lowest.is_some_and(|lowest| lowest < *version);
        let trouble = match (look.connectors, self.awaited.filter(is_behind)) {
            (0, _) => Some(Trouble::NoConnector),
            (_, Some(_)) => look.lowest.map(Trouble::Behind),
            (_, None) => None,
        };
        Self { awaited: written.filter(is_behind), trouble, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A look: the number of connectors, the lowest applied version, and the written version.
    type Told = (usize, Option<i64>, Option<i64>);

    fn troubles(looks: &[Told]) -> Vec<Option<Trouble>> {
        let mut seen = Seen::default();
        let after = |&(connectors, lowest, written): &Told| {
            seen = seen.after(Look { connectors, lowest, highest: None }, written);
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
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let (mut seen, mut looks, mut unapplied) = (Seen::default(), Vec::new(), Vec::new());
        for second in 0..until {
            unapplied.extend(written_at.iter().filter(|written| **written == second).map(|_| at(second)));
            if seen.is_due(ConnectorWatch::new(start).first_at, &unapplied, at(second)) {
                seen.looked_at = Some(at(second));
                looks.push(second);
                if second >= applied_at {
                    unapplied.clear();
                }
            }
        }
        looks
    }

    #[test]
    fn a_look_is_due_now_and_then_and_after_each_write_until_it_is_applied() {
        for (label, written_at, applied_at, expected) in [
            ("nothing is written", &[][..], 0, &[30, 330, 630][..]),
            ("applied at the first look", &[100], 100, &[30, 115, 415]),
            ("applied at the second", &[100], 116, &[30, 115, 145, 445]),
            ("never applied", &[100], 900, &[30, 115, 145, 445]),
            ("written before the first look", &[5], 900, &[20, 50, 350, 650]),
            ("two writes close together", &[100, 105], 900, &[30, 115, 130, 145, 160, 460]),
            ("a write between two looks", &[100, 140], 900, &[30, 115, 145, 160, 185, 485]),
        ] {
            assert_eq!(looks(written_at, applied_at, 700), expected, "{label}");
        }
        let always: Vec<u64> = (0..700).collect();
        let pause = limits::CONNECTORS_PAUSE.as_secs();
        assert!(looks(&always, 900, 700).len() as u64 <= 700 / pause, "however often it is written");
    }

    #[test]
    fn what_every_connector_has_applied_is_the_lowest_version() {
        for (connectors, lowest, applied) in
            [(2, Some(6), Some(6)), (1, None, Some(i64::MAX)), (0, None, None)]
        {
            assert_eq!(Look { connectors, lowest, highest: None }.applied(), applied);
        }
    }
}
