//! Finds Access applications in front of rules of ours that do not accept their tokens. Such a rule refuses every
//! visitor of the application, with a login too, and every visitor that the application lets past.

use crate::ingress::path::expression_of_prefix;
use crate::ingress::{PathPattern, Rule};
use crate::model::Hostname;
use crate::model::access::{Application, Destination};
use crate::reconcile::Note;
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::destination::matches_host;
use crate::reconcile::access::host_protection::{HostProtection, directory};
use crate::reconcile::snapshot::Snapshot;

/// A note on each application whose visitors a rule of ours refuses, if it asks them for a login or lets all of them
/// past.
pub(crate) fn notes(snapshot: &Snapshot) -> Vec<Note> {
    let closed = snapshot.own_rules().filter(|(_, rule)| rule.requires_access());
    let mut hostnames: Vec<&str> = closed.map(|(_, rule)| rule.folded_hostname()).collect();
    hostnames.sort_unstable();
    hostnames.dedup();
    if hostnames.is_empty() {
        return Vec::new();
    }
    let mut notes = Vec::new();
    for application in snapshot.access.applications() {
        // The rule of a whole hostname accepts the token of the application that was made for it.
        let is_of_hostname =
            |own: OwnApplication<'_>| own.place.path().is_none() && !own.place.hostname().is_wildcard();
        let is_in_front = snapshot.own_application(application).is_none_or(|own| !is_of_hostname(own));
        if is_in_front && (application.requires_login() || application.lets_all_past()) {
            let mut over = application.destinations.iter();
            notes.extend(over.find_map(|over| refused_at(application, over, &hostnames, snapshot)));
        }
    }
    notes
}

/// A note if a rule of ours refuses visitors that the application admits at the destination. `hostnames` are those of
/// our rules that require a token.
fn refused_at(
    application: &Application,
    destination: &Destination,
    hostnames: &[&str],
    snapshot: &Snapshot,
) -> Option<Note> {
    let host = &*destination.host;
    let own = snapshot.own_digests();
    let is_ours = snapshot.own_application(application).is_some();
    let path = match directory(&destination.path) {
        "" => None,
        prefix => Some(expression_of_prefix(&format!("/{prefix}")).ok()?),
    };
    // Only a wildcard's host takes other names.
    let others = if host.contains('*') { hostnames } else { &[] };
    let below = others.iter().filter(|name| **name != host && matches_host(host, name));
    for name in [&host].into_iter().chain(below) {
        let Ok(hostname) = Hostname::parse(name) else { continue };
        let protection = HostProtection::of(&hostname, snapshot);
        let visited = snapshot.visited_tunnel(name);
        let Some((id, tunnel)) = visited.and_then(|id| snapshot.tunnels.get_key_value(&id)) else { continue };
        for rule in tunnel.rules_taking(name, path.as_deref()) {
            let Some(shared) = shared_path(rule, name, path.as_deref()) else { continue };
            if own.has(id, rule)
                && rule.requires_another(application)
                && protection
                    .covering(shared)
                    .first()
                    .is_some_and(|first| first.application.id == application.id)
                && !is_renewed_by_guard(rule, snapshot)
                // An application of ours is made before its rule.
                && (!is_ours || tunnel.document.rules().iter().any(|rule| rule.accepts(application)))
            {
                let prefix = shared.and_then(PathPattern::prefix_of).unwrap_or_default();
                return Some(Note::about(name, text(&format!("{name}{prefix}"), application, is_ours, rule)));
            }
        }
    }
    None
}

/// The path whose requests both the rule and the destination's path take, if one of the two is within the other.
fn shared_path<'a>(rule: &'a Rule, name: &str, path: Option<&'a str>) -> Option<Option<&'a str>> {
    if rule.covers(name, path) {
        return Some(path);
    }
    PathPattern::takes_all_of(path, rule.path()).then(|| rule.path())
}

/// True if the next request lets the rule accept the tokens of all applications over it, because of `ACCESS_GUARD`.
fn is_renewed_by_guard(rule: &Rule, snapshot: &Snapshot) -> bool {
    let mut own = snapshot.own_applications_of(rule.folded_hostname());
    snapshot.operator().access_guard && !own.any(|own| own.place.path() == rule.path())
}

fn text(place: &str, application: &Application, is_ours: bool, rule: &Rule) -> String {
    let (name, rule) = (&application.name, rule.described());
    if application.lets_all_past() {
        return format!(
            "visitors of {place:?} pass the Access application {name:?} without a login, and the rule for \
             {rule} refuses them, because they bring no token: set webhook-access-policy: none on an object \
             of its own for {place:?}, or take the place out of that application"
        );
    }
    let remedy = match is_ours {
        true => format!("set webhook-access-policy on an object of its own for {place:?}"),
        false => format!(
            "take the place out of that application, or set webhook-access-required, \
             webhook-access-team-name and webhook-access-aud-tag of it on an object of its own for {place:?}"
        ),
    };
    format!(
        "visitors of {place:?} meet the Access application {name:?} first, and the rule for {rule} refuses \
         its token: {remedy}"
    )
}
