//! `list`: shows what is at Cloudflare, one line per hostname and path.

use std::sync::Arc;

use miniserde::Serialize;

use super::Report;
use crate::clock::{Clock, Deadline};
use crate::cloudflare::Client;
use crate::provider::{ProviderSettings, Resolved, SnapshotReader, check_token, find_tunnels};
use crate::reconcile::listing::{Entry, State, listing};

const HEADER: [&str; 6] = ["HOSTNAME", "PATH", "SERVICE", "TUNNEL", "OWNER", "STATE"];

/// The last column, if something is protected.
const PROTECTED_BY: &str = "PROTECTED-BY";

#[derive(Serialize)]
struct Document<'a> {
    entries: &'a [Entry],
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
    let snapshot = reader.snapshot(&account, &settings, true, deadline).map_err(|error| error.to_string())?;
    // Without it everything would look unprotected.
    if let Some(problem) = snapshot.access.problem().filter(|_| settings.policy.needs_access()) {
        return Err(format!("Cloudflare Access cannot be read: {problem}"));
    }
    Ok(listing(&snapshot, &settings))
}

pub(super) fn report(entries: &[Entry], json: bool) -> Report {
    if json {
        return Report::json(&Document { entries }, true);
    }
    let is_known = entries.iter().any(|entry| !entry.protected_by.is_empty());
    let header = HEADER.into_iter().chain(is_known.then_some(PROTECTED_BY)).map(str::to_owned).collect();
    let rows = entries.iter().map(|entry| cells(entry, is_known));
    Report::table(&std::iter::once(header).chain(rows).collect::<Vec<_>>(), true)
}

fn cells(entry: &Entry, shows_protection: bool) -> Vec<String> {
    let Entry { hostname, path, service, tunnel, owner, state, drift, protected_by } = entry;
    let text = |cell: &Option<Box<str>>| cell.as_deref().unwrap_or_default().to_owned();
    let drift = if *state == State::Drift { format!(": {}", drift.join(", ")) } else { String::new() };
    let state = format!("{}{drift}", state.as_str());
    let cells = [hostname.to_string(), text(path), text(service), text(tunnel), text(owner), state];
    cells.into_iter().chain(shows_protection.then(|| protected_by.join(", "))).collect()
}
