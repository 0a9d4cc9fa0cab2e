//! What the connectors of the tunnels say, asked for now and then beside all requests: nothing waits for it, nothing
//! depends on it, and a look that fails shows nothing.

use log::{debug, warn};

use crate::clock::Deadline;
use crate::limits;
use crate::observe::metrics::Family;
use crate::provider::{Provider, Resolved};
use crate::reconcile::ConfiguredTunnel;

/// What the looks so far say of each tunnel, in the order of the configured ones.
#[derive(Debug, Default)]
pub struct Watch(Vec<Seen>);

/// What the looks so far say of one tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The version that was written before the last look, where a connector had not applied it yet.
    awaited: Option<i64>,
    trouble: Option<Trouble>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    NoConnector,
    Behind,
}

impl Provider {
    /// Asks for each tunnel's connectors, shows them in the metrics, and warns where nobody reaches a tunnel's hostnames
    /// or a connector does not take its configuration. While it waits it holds nothing that a request needs.
    pub fn look_at_connectors(&self, watch: &mut Watch) {
        let Ok(resolved) = self.resolved() else {
            return;
        };
        let Resolved { account, settings } = &*resolved;
        watch.0.resize(settings.tunnels().len(), Seen::default());
        for (ConfiguredTunnel { id, name, is_local: _ }, seen) in settings.tunnels().iter().zip(&mut watch.0)
        {
            if self.client.budget().calls_left_in_window < limits::CONNECTORS_CALLS_LEFT_MIN {
                debug!("tunnel={id} few calls are left, so nobody looks at its connectors");
                continue;
            }
            // Before the look: what is written meanwhile no connector can have applied.
            let written = self.metrics.update().get(Family::ConfigurationVersion, &[name]);
            let deadline = Deadline::after(&*self.clock, limits::CONNECTORS_TIMEOUT);
            let connectors = self.client.connectors(account, id, deadline);
            let mut values = self.metrics.update();
            values.clear(Family::Connectors, &[name]);
            values.clear(Family::ConnectorVersion, &[name]);
            let connectors = match connectors {
                Ok(connectors) => connectors,
                Err(error) => {
                    debug!("tunnel={id} its connectors cannot be seen: {error}");
                    continue;
                }
            };
            values.set(Family::Connectors, &[name], connectors.len() as i64);
            let versions = || connectors.iter().filter_map(|connector| connector.config_version);
            for (bound, version) in [("lowest", versions().min()), ("highest", versions().max())] {
                if let Some(version) = version {
                    values.set(Family::ConnectorVersion, &[name, bound], version);
                }
            }
            drop(values);
            let before = std::mem::replace(seen, seen.after(connectors.len(), versions().min(), written));
            if seen.trouble != before.trouble
                && let Some(trouble) = seen.trouble
            {
                warn!("tunnel={id} ({name:?}) {}", trouble.text());
            }
        }
    }
}

impl Seen {
    /// After another look, which found so many connectors and the lowest version that one has applied. `written` is the
    /// version that all should have.
    fn after(self, connectors: usize, lowest: Option<i64>, written: Option<i64>) -> Self {
        let is_behind = |version: &i64| lowest.is_some_and(|lowest| lowest < *version);
        let trouble = match (connectors, self.awaited.filter(is_behind)) {
            (0, _) => Some(Trouble::NoConnector),
            (_, Some(_)) => Some(Trouble::Behind),
            (_, None) => None,
        };
        Self { awaited: written.filter(is_behind), trouble }
    }
}

impl Trouble {
    fn text(self) -> &'static str {
        match self {
            Self::NoConnector => {
                "has no connector: nobody reaches its hostnames until a cloudflared runs for it"
            }
            Self::Behind => {
                "has a connector that did not apply a configuration written minutes ago, and serves an older one: \
                 its log says why"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look: how many connectors, the lowest version applied, the version written.
    type Look = (usize, Option<i64>, Option<i64>);

    fn troubles(looks: &[Look]) -> Vec<Option<Trouble>> {
        let mut seen = Seen::default();
        let after = |&(connectors, lowest, written): &Look| {
            seen = seen.after(connectors, lowest, written);
            seen.trouble
        };
        looks.iter().map(after).collect()
    }

    #[test]
    fn trouble_is_no_connector_or_a_version_not_applied_from_one_look_to_the_next() {
        const NONE: Option<Trouble> = Some(Trouble::NoConnector);
        const BEHIND: Option<Trouble> = Some(Trouble::Behind);
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
}
