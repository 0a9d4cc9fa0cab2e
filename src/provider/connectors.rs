//! Looks at the connectors of tunnels. The watch looks periodically, outside of requests, so no request waits for this
//! look. A request looks before it points a record to another tunnel.

use std::collections::BTreeMap;
use std::time::Duration;

use log::Level;

use crate::clock::Deadline;
use crate::cloudflare::Connector;
use crate::limits;
use crate::logging;
use crate::model::{LogLine, TunnelId};
use crate::observe::metrics::{Family, Values};
use crate::provider::memory::Logged;
use crate::provider::setup::Setup;
use crate::provider::{CallContext, Provider};
use crate::reconcile::ConfiguredTunnel;

/// The time to read one tunnel's connectors, retries included. No request waits for it.
const CONNECTORS_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct ConnectorWatch {
    /// For each tunnel: the version that existed before the last look, if a connector had not applied it at that look.
    awaited: BTreeMap<TunnelId, i64>,
    /// The logged texts about each tunnel.
    logged: Logged<(TunnelId, String)>,
}

impl ConnectorWatch {
    /// Reads the connectors of each tunnel and updates the metrics. Warns if a tunnel has no connector, or if a
    /// connector has not applied a version from one look to the next. After a failed look, the metrics of its tunnel
    /// are absent, and its awaited version and its line of the log stay. Holds no lock during a call.
    pub(super) fn look(&mut self, provider: &Provider, Setup { account, settings }: &Setup) {
        let clock = provider.clock();
        if provider.client().calls_left() < limits::CONNECTORS_CALLS_LEFT_MIN {
            logging::debug(module_path!(), || {
                LogLine::default().text("the connectors are not checked, because few calls are left")
            });
            return;
        }
        let existing = settings.tunnels().iter().filter(|tunnel| !tunnel.id.is_placeholder());
        let looks = existing.map(|tunnel| {
            // Read first, because a connector cannot yet have applied a version that is written during the look.
            let version = provider.backend.newest().version(&tunnel.id);
            let deadline = Deadline::after(clock, CONNECTORS_TIMEOUT);
            (tunnel, version, provider.client().connectors(account, &tunnel.id, deadline))
        });
        let looks: Vec<_> = looks.collect();
        let mut values = provider.metrics.update();
        self.awaited.retain(|id, _| settings.is_configured(id));
        values.clear(Family::Connectors);
        values.clear(Family::ConnectorVersion);
        let (mut warnings, mut failed) = (Vec::new(), Vec::new());
        for (tunnel, version, connectors) in looks {
            match connectors {
                Ok(connectors) => {
                    let warning = self.remember(tunnel, version, &connectors, &mut values);
                    warnings.extend(warning.map(|text| (tunnel.id.clone(), text)));
                }
                Err(_) => failed.push(&tunnel.id),
            }
        }
        drop(values);
        let has_failed = |(tunnel, _): &(TunnelId, String), _| failed.contains(&tunnel);
        for (tunnel, text) in self.logged.replace_expecting(warnings, clock.unix_seconds(), &has_failed) {
            logging::log(Level::Warn, module_path!(), &LogLine::default().word("tunnel", &tunnel).text(text));
        }
    }

    /// Remembers the connectors of one tunnel, whose newest version was `version` before the look. Returns the warning.
    fn remember(
        &mut self,
        ConfiguredTunnel { id, name, is_locally_managed: _ }: &ConfiguredTunnel,
        version: Option<i64>,
        connectors: &[Connector],
        values: &mut Values,
    ) -> Option<String> {
        let awaited = self.awaited.remove(id);
        values.set(Family::Connectors, &[name], connectors.len() as i64);
        let Some((lowest, slowest)) = Connector::slowest(connectors) else {
            return connectors.is_empty().then(|| {
                format!(
                    "the tunnel {name:?} has no connector: no visitor reaches its hostnames until a \
                     cloudflared runs for it"
                )
            });
        };
        values.set(Family::ConnectorVersion, &[name], lowest);
        self.awaited.extend(version.filter(|version| lowest < *version).map(|version| (id.clone(), version)));
        awaited.filter(|awaited| lowest < *awaited).map(|_| {
            format!(
                "the tunnel {name:?} has the connector {slowest:?}, which still serves an older version of \
                 the configuration: see the log of that cloudflared"
            )
        })
    }
}

/// The reason why no hostname moves to the tunnel, unless every connector has applied this version of the
/// configuration. A connector that reports no version is ignored.
pub(super) fn obstacle_to_move(context: CallContext<'_>, tunnel: &TunnelId, version: i64) -> Option<String> {
    let connectors = match context.client().connectors(&context.setup.account, tunnel, context.deadline) {
        Ok(connectors) => connectors,
        Err(error) => {
            return Some(format!(
                "the connectors of tunnel {tunnel} cannot be read, so no hostname moves to it: {error}"
            ));
        }
    };
    if connectors.is_empty() {
        return Some(format!(
            "tunnel {tunnel} has no connector, so no hostname moves to it: run a cloudflared for it"
        ));
    }
    let (applied, connector) = Connector::slowest(&connectors)?;
    (applied < version).then(|| {
        format!(
            "connector {connector} of tunnel {tunnel} serves an older version of the configuration, so \
             no hostname moves to the tunnel yet: see the log of that cloudflared"
        )
    })
}
