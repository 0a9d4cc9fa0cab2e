//! `list`: shows what is at Cloudflare, one line per hostname and path.

use std::collections::BTreeMap;
use std::sync::Arc;

use miniserde::{Serialize, json};

use super::Report;
use super::table;
use crate::clock::{Clock, Deadline};
use crate::cloudflare::Client;
use crate::model::Endpoint;
use crate::model::endpoint::annotation_of;
use crate::model::hostname::HOSTNAME_MAX_BYTES;
use crate::provider::ProviderSettings;
use crate::provider::backend::Backend;
use crate::provider::setup::{Setup, find_setup};
use crate::reconcile::foreign::{ForeignRule, foreign_rules};
use crate::reconcile::listing::{Entry, EntryState};
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::stamp;
use crate::reconcile::wildcard;

const HEADER: [&str; 6] = ["HOSTNAME", "PATH", "SERVICE", "TUNNEL", "OWNER", "STATE"];

/// The last column, which is printed only if Access protects an entry.
const PROTECTED_BY: &str = "PROTECTED-BY";

const KIND: &str = "apiVersion: externaldns.k8s.io/v1alpha1\nkind: DNSEndpoint\n";

#[derive(Serialize)]
struct Document<'a> {
    entries: &'a [Entry],
}

/// Reads the present state from Cloudflare.
pub(super) fn read(
    client: Client,
    clock: Arc<dyn Clock>,
    settings: &ProviderSettings,
    deadline: Deadline,
) -> Result<Snapshot, String> {
    let backend = Backend::new(client, clock, settings.clone());
    let Setup { account, settings } =
        find_setup(&backend, None, deadline).map_err(|problem| problem.to_string())?;
    let snapshot =
        backend.snapshot(&account, &settings, true, deadline).map_err(|error| error.to_string())?;
    // If the problem were ignored, every hostname would look unprotected.
    if settings.operator.needs_access()
        && let Some(problem) = snapshot.access.problem()
    {
        return Err(format!("Cloudflare Access cannot be read: {problem}"));
    }
    Ok(snapshot)
}

/// The foreign rules as objects of the kind DNSEndpoint, one for each hostname. A comment says why a rule is left out,
/// or that no rule is foreign.
pub(super) fn objects(snapshot: &Snapshot, namespace: Option<&str>) -> Report {
    let (mut text, mut hosts) = (String::new(), BTreeMap::<String, (Vec<String>, String)>::new());
    for ForeignRule { named, endpoint, unmanaged } in foreign_rules(snapshot, namespace.unwrap_or("default"))
    {
        match endpoint {
            Err(reason) => text += &format!("# {named} is left out: {reason}\n"),
            Ok(endpoint) => {
                let item = item(&named, &endpoint, &unmanaged);
                let (paths, items) = hosts.entry(endpoint.dns_name).or_default();
                paths.push(endpoint.set_identifier);
                items.push_str(&item);
            }
        }
    }
    let namespace_member =
        namespace.map(|namespace| format!(",\"namespace\":{}", json::to_string(namespace)));
    let namespace_member = namespace_member.unwrap_or_default();
    for (hostname, (paths, items)) in hosts {
        let name = object_name(&hostname, &paths);
        text += &format!(
            "---\n{KIND}metadata: {{\"name\":\"{name}\"{namespace_member}}}\nspec:\n  endpoints:\n{items}"
        );
    }
    if text.is_empty() {
        let tunnels: Vec<&str> = snapshot.settings.tunnels().iter().map(|tunnel| &*tunnel.name).collect();
        text = format!("# no foreign rule in tunnel {}\n", tunnels.join(", "));
    }
    Report { text: in_yaml(&text), is_success: true }
}

/// Escapes the characters from U+007F to U+FFFF, because YAML takes some of them for line ends and JSON does not. The
/// characters above U+FFFF stay: JSON would need two escapes for each, and YAML does not join two escapes.
fn in_yaml(text: &str) -> String {
    let escaped = text.chars().map(|character| match character {
        '\u{7f}'..='\u{ffff}' => format!("\\u{:04x}", u32::from(character)),
        _ => character.to_string(),
    });
    escaped.collect()
}

/// An endpoint as JSON, which is YAML too. The comment has the annotations for the same on another object.
fn item(named: &str, endpoint: &Endpoint, unmanaged: &[Box<str>]) -> String {
    let mut text = format!("    # {named}\n");
    if !unmanaged.is_empty() {
        let fields = unmanaged.join(", ");
        text += &format!("    # No annotation can set these fields; the rule keeps them: {fields}\n");
    }
    let Endpoint { dns_name, targets, set_identifier, provider_specific, .. } = endpoint;
    let own = [("hostname", dns_name), ("set-identifier", set_identifier)].into_iter();
    let own = own.chain(targets.iter().map(|target| ("target", target)));
    let own = own.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), &**value));
    // Without this property, a wildcard of an Ingress is assumed to come from the certificate only.
    let word = wildcard::property(dns_name);
    let properties = provider_specific.iter().chain(&word);
    let properties = properties.map(|one| (annotation_of(&one.name), &*one.value));
    for (annotation, value) in own.chain(properties) {
        text += &format!("    #   {annotation}: {}\n", json::to_string(value));
    }
    let json = serde_json::to_string(endpoint).expect("texts and numbers are always JSON");
    text + &format!("    - {json}\n")
}

/// A name that Kubernetes takes and that differs for each hostname. `list` prints a path only until the path is ours,
/// so the first path is part of the digest: a later object does not replace an earlier one.
fn object_name(hostname: &str, paths: &[String]) -> String {
    let plain = hostname.replace("*.", "").replace('_', "u");
    let first = paths.iter().min().map_or("", |path| path);
    if plain == hostname && first.is_empty() {
        return plain;
    }
    let name = format!("{plain}-{}", stamp::code::<3>(&[hostname, first].concat()));
    let end = name.get(name.len().saturating_sub(HOSTNAME_MAX_BYTES)..).unwrap_or(&name);
    end.trim_start_matches(['.', '-']).to_owned()
}

pub(super) fn report(entries: &[Entry], json: bool) -> Report {
    if json {
        return Report::json(&Document { entries }, true);
    }
    let shows_protection = entries.iter().any(|entry| !entry.protected_by.is_empty());
    let header =
        HEADER.into_iter().chain(shows_protection.then_some(PROTECTED_BY)).map(str::to_owned).collect();
    let rows = entries.iter().map(|entry| cells(entry, shows_protection));
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    Report { text: table::render(&rows), is_success: true }
}

fn cells(entry: &Entry, shows_protection: bool) -> Vec<String> {
    let Entry { hostname, path, service, tunnel, owner, state, drift, protected_by } = entry;
    let text = |cell: &Option<Box<str>>| cell.as_deref().unwrap_or_default().to_owned();
    let drift = if *state == EntryState::Drift { format!(": {}", drift.join(", ")) } else { String::new() };
    let state = format!("{}{drift}", state.as_str());
    let cells = [hostname.to_string(), text(path), text(service), text(tunnel), text(owner), state];
    cells.into_iter().chain(shows_protection.then(|| protected_by.join(", "))).collect()
}
