//! `list`: shows what is at Cloudflare, one line per hostname and path.

use std::sync::Arc;

use miniserde::{Serialize, json};

use super::{Report, table};
use crate::clock::{Clock, Deadline};
use crate::cloudflare::Client;
use crate::provider::{ProviderSettings, Resolved, SnapshotReader, check_token, find_tunnels};
use crate::reconcile::listing::{Entry, State, listing};

const HEADER: [&str; 6] = ["HOSTNAME", "PATH", "SERVICE", "TUNNEL", "OWNER", "STATE"];

#[derive(Serialize)]
struct Document<'a> {
    entries: Vec<Row<'a>>,
}

/// `null` means absent or unknown.
#[derive(Serialize)]
struct Row<'a> {
    hostname: &'a str,
    path: Option<&'a str>,
    service: Option<&'a str>,
    tunnel: Option<&'a str>,
    owner: Option<&'a str>,
    state: &'static str,
    drift: Vec<&'a str>,
}

/// The present state, as rows.
pub(super) fn entries(
    client: &Arc<Client>,
    clock: Arc<dyn Clock>,
    settings: &ProviderSettings,
    deadline: Deadline,
) -> Result<Vec<Entry>, String> {
    let reader = SnapshotReader::new(Arc::clone(client), clock, settings);
    let Resolved { account, settings } = check_token(client, settings, deadline)
        .and_then(|()| find_tunnels(client, &reader, settings, None, deadline))
        .map_err(|problem| problem.to_string())?;
    let snapshot = reader.snapshot(&account, &settings, deadline).map_err(|error| error.to_string())?;
    Ok(listing(&snapshot, &settings))
}

pub(super) fn report(entries: &[Entry], json: bool) -> Report {
    let rows = entries.iter().map(row);
    let text = if json {
        let mut text = json::to_string(&Document { entries: rows.collect() });
        text.push('\n');
        text
    } else {
        let header = HEADER.map(str::to_owned).to_vec();
        let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows.map(|row| row.cells())).collect();
        table::render(&rows)
    };
    Report { text, is_well: true }
}

fn row(entry: &Entry) -> Row<'_> {
    let Entry { hostname, path, service, tunnel, owner, state, drift } = entry;
    Row {
        hostname,
        path: path.as_deref(),
        service: service.as_deref(),
        tunnel: tunnel.as_deref(),
        owner: owner.as_deref(),
        state: state.as_str(),
        drift: drift.iter().map(|what| &**what).collect(),
    }
}

impl Row<'_> {
    fn cells(&self) -> Vec<String> {
        let Self { hostname, path, service, tunnel, owner, state, drift } = self;
        let state = if *state == State::Drift.as_str() {
            format!("{state}: {}", drift.join(", "))
        } else {
            (*state).to_owned()
        };
        let [path, service, tunnel, owner] =
            [path, service, tunnel, owner].map(|cell| cell.unwrap_or_default().to_owned());
        vec![(*hostname).to_owned(), path, service, tunnel, owner, state]
    }
}
