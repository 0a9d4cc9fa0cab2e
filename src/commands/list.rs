//! `list`: shows what is at Cloudflare, one line per hostname and path.

use std::sync::Arc;

use miniserde::{Serialize, json};

use super::{Report, table};
use crate::clock::{Clock, Deadline};
use crate::cloudflare::Client;
use crate::provider::{ProviderSettings, Resolved, SnapshotReader, check_token, find_tunnels};
use crate::reconcile::listing::{Entry, State, listing};

const HEADER: [&str; 6] = ["HOSTNAME", "PATH", "SERVICE", "TUNNEL", "OWNER", "STATE"];

/// The last column, if something is protected.
const PROTECTED_BY: &str = "PROTECTED-BY";

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
    protected_by: Vec<&'a str>,
}

/// The present state, as rows.
pub(super) fn entries(
    client: &Arc<Client>,
    clock: Arc<dyn Clock>,
    settings: &ProviderSettings,
    deadline: Deadline,
) -> Result<Vec<Entry>, String> {
    let reader = SnapshotReader::new(Arc::clone(client), clock, settings);
    // Whether something depends on Access, nobody knows before the rules are read.
    reader.ask_for_access();
    let Resolved { account, settings } = check_token(client, settings, deadline)
        .and_then(|()| find_tunnels(client, &reader, settings, None, deadline))
        .map_err(|problem| problem.to_string())?;
    let snapshot = reader.snapshot(&account, &settings, deadline).map_err(|error| error.to_string())?;
    // Without it everything would look unprotected.
    if let Some(problem) = snapshot.access.problem().filter(|_| settings.policy.needs_access()) {
        return Err(format!("Cloudflare Access cannot be read: {problem}"));
    }
    Ok(listing(&snapshot, &settings))
}

pub(super) fn report(entries: &[Entry], json: bool) -> Report {
    let rows = entries.iter().map(row);
    let text = if json {
        let mut text = json::to_string(&Document { entries: rows.collect() });
        text.push('\n');
        text
    } else {
        let is_known = entries.iter().any(|entry| !entry.protected_by.is_empty());
        let protected_by = is_known.then_some(PROTECTED_BY);
        let header = HEADER.into_iter().chain(protected_by).map(str::to_owned).collect();
        let rows = rows.map(|row| row.cells(is_known));
        table::render(&std::iter::once(header).chain(rows).collect::<Vec<Vec<String>>>())
    };
    Report { text, is_well: true }
}

fn row(entry: &Entry) -> Row<'_> {
    let Entry { hostname, path, service, tunnel, owner, state, drift, protected_by } = entry;
    Row {
        hostname,
        path: path.as_deref(),
        service: service.as_deref(),
        tunnel: tunnel.as_deref(),
        owner: owner.as_deref(),
        state: state.as_str(),
        drift: drift.iter().map(|what| &**what).collect(),
        protected_by: protected_by.iter().map(|name| &**name).collect(),
    }
}

impl Row<'_> {
    fn cells(&self, shows_protection: bool) -> Vec<String> {
        let Self { hostname, path, service, tunnel, owner, state, drift, protected_by } = self;
        let state = if *state == State::Drift.as_str() {
            format!("{state}: {}", drift.join(", "))
        } else {
            (*state).to_owned()
        };
        let [path, service, tunnel, owner] =
            [path, service, tunnel, owner].map(|cell| cell.unwrap_or_default().to_owned());
        let protected_by = shows_protection.then(|| protected_by.join(", "));
        let cells = [(*hostname).to_owned(), path, service, tunnel, owner, state];
        cells.into_iter().chain(protected_by).collect()
    }
}
