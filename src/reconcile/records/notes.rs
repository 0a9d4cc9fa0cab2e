//! Notes on what a snapshot shows besides our endpoints: records of ours that have no effect, zones and rules that no
//! visitor reaches, and tunnels with surprising settings.

use std::collections::BTreeMap;

use crate::ingress::{Document, MarkedRules, Rule};
use crate::model::text::rule_at;
use crate::model::{Hostname, Record, TunnelId, Zone};
use crate::reconcile::Note;
use crate::reconcile::reason::{MIGRATE_OR_TAKE_OVER, SHARED_OWNER};
use crate::reconcile::snapshot::{Snapshot, ZoneSnapshot};
use crate::reconcile::stamp::NamespaceCode;

const GLOBAL_ACCESS: &str = "the tunnel's own originRequest requires Access, but cloudflared checks Access \
     only for rules that require it: set webhook-access-required, webhook-access-team-name and \
     webhook-access-aud-tag on each object";

const GLOBAL_BASTION: &str = "the tunnel's own originRequest has bastionMode: every rule with an address \
     connects its visitors to any address that they name: remove bastionMode, or set \
     ORIGIN_BASTION_MODE=false for our rules";

const UNDATED: &str = "Cloudflare's answers have no Date header, so MOVE_GRACE counts as over and unneeded \
     Access applications stay: let the proxy pass Date";

/// Notes on the whole snapshot.
pub(super) fn of_snapshot<'s>(
    snapshot: &'s Snapshot,
    marked_rules: &'s BTreeMap<&'s TunnelId, MarkedRules<'s>>,
) -> impl Iterator<Item = Note> + 's {
    let is_undated = snapshot.date_unix_seconds.is_none();
    let undated = is_undated.then(|| Note::about("api.cloudflare.com", UNDATED.to_owned()));
    let of_tunnels = surprising_tunnels(snapshot).chain(unreachable_rules(snapshot, marked_rules));
    undated.into_iter().chain(idle_zones(snapshot)).chain(of_tunnels)
}

/// A note on a record of ours in a zone that does not answer for its name.
pub(super) fn outside_its_zone(record: &Record, zone: &ZoneSnapshot) -> Note {
    let text = format!(
        "the webhook ignores the record in zone {zone}, because another zone answers for this name: delete \
         the record in {zone}",
        zone = zone.zone.name
    );
    Note::about(&record.name, text)
}

/// A note on a released record, which stays for this foreign rule.
pub(super) fn serves_only(record: &Record, rule: &Rule) -> Note {
    let text = format!(
        "the record's comment names no object and no rule of ours, and the record stays, because visitors \
         reach the foreign rule for {} through it",
        rule.described()
    );
    Note::about(&record.name, text)
}

/// A note on a hostname whose namespace is unknown to the namespace guard.
pub(super) fn without_namespace(record: &Record, namespaces: &[String]) -> Note {
    let of: String = namespaces.iter().map(|one| format!("{one}: ns={}, ", NamespaceCode::of(one))).collect();
    let text = format!(
        "neither the record's comment nor the rules' services name one namespace, so NAMESPACE_GUARD refuses \
         every change: write ns=<code> into the record's comment at Cloudflare ({of}or the ns= that a \
         refusal names)"
    );
    Note::about(&record.name, text)
}

/// A note on a record that another instance with our owner seems to serve.
pub(super) fn other_instance(record: &Record, snapshot: &Snapshot) -> Option<Note> {
    let (stamp, tunnel) = snapshot.stamp_of_same_owner(record)?;
    let text = format!(
        "the record's comment has the webhook's OWNER_ID {:?}, but the record points to {tunnel}, a tunnel \
         that is not configured here, so the webhook ignores the record: {SHARED_OWNER}",
        snapshot.operator().owner
    );
    Some(Note { resource: stamp.resource, ..Note::about(&record.name, text) })
}

/// Notes on zones whose published hostnames no visitor reaches. A zone gets no note if another zone is used for its
/// name, because nothing is published in it.
fn idle_zones(snapshot: &Snapshot) -> impl Iterator<Item = Note> {
    let used = snapshot.zones.iter().filter(|zone| snapshot.is_zone_of(zone, &zone.zone.name));
    used.map(|zone| &zone.zone).filter_map(|zone| {
        let state = inactive_state(zone)?;
        let text = format!(
            "the zone is {state}: the webhook publishes hostnames in it, but no visitor reaches them until \
             the zone is active"
        );
        Some(Note::about(&zone.name, text))
    })
}

/// The state of a zone whose published hostnames no visitor reaches; `None` if the zone is active.
pub fn inactive_state(zone: &Zone) -> Option<&str> {
    if zone.paused { Some("paused") } else { (!zone.is_active()).then_some(&*zone.status) }
}

/// Notes on our rules that receive no request, because a rule in front matches all of them, unless the next request
/// moves the rule to the front.
fn unreachable_rules<'s>(
    snapshot: &'s Snapshot,
    marked_rules: &'s BTreeMap<&'s TunnelId, MarkedRules<'s>>,
) -> impl Iterator<Item = Note> + 's {
    snapshot.own_rules().filter_map(|(tunnel, rule)| {
        let hostname = Hostname::parse(rule.folded_hostname()).ok()?;
        let marked_rules = marked_rules.get(tunnel)?;
        let front = marked_rules.hidden_by(&hostname, rule.path())?;
        if marked_rules.needs_reordering(&hostname, rule.path()) {
            return None;
        }
        let (hidden, front) = (rule_at(rule.path().unwrap_or_default()), front.described());
        let text = format!(
            "no request reaches the {hidden}: the rule for {front}, which precedes it, takes all its \
             requests: narrow that rule by a path, or delete this one"
        );
        Some(Note::about(rule.folded_hostname(), text))
    })
}

fn surprising_tunnels(snapshot: &Snapshot) -> impl Iterator<Item = Note> {
    snapshot.tunnels.iter().flat_map(|(id, tunnel)| {
        let note = |text: String| Note::about(&id.hostname(), text);
        let local = (!tunnel.writable).then(|| {
            format!(
                "a file beside its cloudflared configures the tunnel, so the webhook does not write to it: \
                 {MIGRATE_OR_TAKE_OVER}"
            )
        });
        unusual_settings(&tunnel.document).map(str::to_owned).chain(local).map(note)
    })
}

/// Settings of a whole tunnel that cloudflared does not treat as an operator may expect.
pub fn unusual_settings(document: &Document) -> impl Iterator<Item = &'static str> {
    let texts = [(document.asks_for_access(), GLOBAL_ACCESS), (document.is_bastion(), GLOBAL_BASTION)];
    texts.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text)
}
