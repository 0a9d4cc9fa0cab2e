//! Finds obstacles to a request: rules and records that are foreign, or cannot be told from foreign ones.

use super::standing::Standing;
use super::{Desired, comment, needs};
use crate::ingress::{EditRefusal, Rule, WantedRule};
use crate::model::hostname::is_below;
use crate::model::{Record, TunnelId};
use crate::ordered::inserted;
use crate::reconcile::adopt::{self, Need};
use crate::reconcile::plan::{Reason, Refusal};
use crate::reconcile::records::LOST_PREFIX;
use crate::reconcile::stamp::{Digest, Stamp};

/// The obstacle in the tunnels' documents to a rule.
pub(super) fn of_rule(standing: &Standing<'_>, tunnel: &TunnelId, wanted: &WantedRule) -> Option<Reason> {
    let path = wanted.path_text();
    if let Some(reason) = twin(standing, tunnel, path) {
        return Some(reason);
    }
    let rule = standing.rules_of(tunnel).into_iter().find(|rule| rule.path() == path)?;
    let is_ours = standing.has(Digest::of(tunnel, path)) || takes_back(standing, tunnel, rule, wanted);
    let need = || needs::need_of_rule(standing, tunnel, rule, wanted);
    (!is_ours).then(|| rule_held(tunnel, rule, need()))
}

/// True if a rule counts as ours although no stamp names it: it stands as wanted, and its hostname has no record, so
/// ours was deleted by hand. A rule that another record leads to serves visitors without us, and does not count.
pub(super) fn takes_back(
    standing: &Standing<'_>,
    tunnel: &TunnelId,
    rule: &Rule,
    wanted: &WantedRule,
) -> bool {
    !standing.has_record() && rule.equals_in_every_field(wanted) && !is_reached(standing, tunnel)
}

/// True if a record other than the hostname's own leads to the tunnel, for it or for a name that it matches.
fn is_reached(standing: &Standing<'_>, tunnel: &TunnelId) -> bool {
    let leads_there = |record: &Record| TunnelId::from_hostname(&record.content).as_ref() == Some(tunnel);
    let name = standing.name();
    let by_name_below = name.strip_prefix("*.").is_some_and(|domain| {
        let mut records = standing.zone.records().iter().filter(|record| is_below(&record.name, domain));
        records.any(leads_there)
    });
    // Until a zone is active, the outer zone leads visitors.
    let mut zones = standing.snapshot().zones_around(name);
    by_name_below || zones.any(|zone| zone.answering(name).iter().any(leads_there))
}

/// The tunnel other than `wanted` to which a wildcard's record leads visitors of somebody else's rules of the hostname,
/// or will once its zone is active.
pub(super) fn visited_instead_of(standing: &Standing<'_>, wanted: &TunnelId) -> Option<TunnelId> {
    if standing.has_record() || !standing.foreign_records.is_empty() {
        return None;
    }
    let snapshot = standing.snapshot();
    let is_visited = |id: &TunnelId| {
        let mut answering = snapshot.answering_soon(standing.name());
        answering.any(|record| TunnelId::from_hostname(&record.content).as_ref() == Some(id))
    };
    let mut others = snapshot.tunnels.keys().filter(|id| *id != wanted);
    // Most hostnames have no rule there, and following a name takes long.
    others.find(|id| !foreign_rules(standing, id).is_empty() && is_visited(id)).cloned()
}

/// The rule that holds the name in such a tunnel: a record of its own would take the requests of every rule there.
pub(super) fn held_elsewhere(standing: &Standing<'_>, desired: &Desired<'_>) -> Option<Reason> {
    let visited = visited_instead_of(standing, desired.tunnel())?;
    let foreign = foreign_rules(standing, &visited);
    let is_takable = |rule: &&&Rule| {
        desired.publication.rule.is_some()
            && rule.path() == desired.path()
            && twin(standing, &visited, rule.path()).is_none()
    };
    match foreign.iter().find(is_takable) {
        Some(rule) => Some(rule_held(&visited, rule, Need::All)),
        None => Some(rule_left_behind(&visited, foreign.first()?)),
    }
}

/// The hostname's rules in a tunnel that are neither ours nor taken over.
fn foreign_rules<'a>(standing: &Standing<'a>, tunnel: &TunnelId) -> Vec<&'a Rule> {
    let mut rules = standing.rules_of(tunnel);
    rules.retain(|rule| !standing.has(Digest::of(tunnel, rule.path())));
    rules
}

/// The reason why the hostname does not leave the tunnel.
pub(super) fn stays_in(standing: &Standing<'_>, tunnel: &TunnelId) -> Reason {
    match left_behind(standing, tunnel) {
        Some(rule) => rule_left_behind(tunnel, rule),
        None => Reason::TwoTunnels { tunnel: tunnel.as_str().into() },
    }
}

/// A rule that is neither ours nor taken over, in a tunnel that the hostname's record leads to. Led elsewhere, the
/// record would take its requests along.
pub(super) fn left_behind<'a>(standing: &Standing<'a>, led_to: &TunnelId) -> Option<&'a Rule> {
    foreign_rules(standing, led_to).into_iter().next().or_else(|| left_below(standing, led_to))
}

/// The same for a wildcard, whose record serves every name below it that has none of its own.
fn left_below<'a>(standing: &Standing<'a>, led_to: &TunnelId) -> Option<&'a Rule> {
    let (snapshot, own_name) = (standing.snapshot(), standing.name());
    let domain = own_name.strip_prefix("*.")?;
    let is_served = |name: &str| {
        let mut records = snapshot.answering_soon(name);
        name != own_name && is_below(name, domain) && records.any(|record| &*record.name == own_name)
    };
    let rules = snapshot.tunnels.get(led_to)?.document.rules();
    rules.iter().find(|rule| rule.is_readable() && is_served(rule.folded_hostname()))
}

/// The reason why a rule of the hostname, existing or not, could not be told from an existing one: the same digest, in
/// any tunnel, or the same place.
pub(super) fn twin(standing: &Standing<'_>, tunnel: &TunnelId, path: Option<&str>) -> Option<Reason> {
    let tunnels = &standing.snapshot().tunnels;
    let rules = tunnels.get(tunnel)?.places_of(&standing.hostname);
    let of_place = rules.filter(|(_, rule)| rule.is_for(&standing.hostname, path));
    let numbers: Vec<usize> = of_place.map(|(place, _)| place + 1).collect();
    if numbers.len() > 1 {
        return Some(Reason::Edit(EditRefusal::Duplicate { rules: numbers }.to_string()));
    }
    let digest = Digest::of(tunnel, path);
    let mut places =
        tunnels.keys().flat_map(|id| standing.rules_of(id).into_iter().map(move |rule| (id, rule.path())));
    let (tunnel, path) =
        places.find(|place| *place != (tunnel, path) && Digest::of(place.0, place.1) == digest)?;
    Some(taken(tunnel, path))
}

/// The refusal if another path of the request has the same digest: a shared stamp would not tell whose the rules are.
pub(super) fn digest_taken(desired: &Desired<'_>, others: &[Desired<'_>]) -> Option<Reason> {
    let digest = desired.digest()?;
    let other = others.iter().find(|other| other.digest() == Some(digest))?;
    Some(taken(other.tunnel(), other.path()))
}

/// The rules that this set identifier may stand for, if that is ambiguous.
pub(super) fn candidates<'s>(
    standing: &'s Standing<'_>,
    set_identifier: &str,
) -> Vec<&'s (TunnelId, &'s Rule)> {
    let lost = set_identifier.strip_prefix(LOST_PREFIX).and_then(Digest::parse);
    let candidates = standing.claims.iter().flat_map(|(digest, state)| {
        let is_meant = |rule: &Rule| lost == Some(*digest) || is_at(rule, set_identifier);
        state.ambiguous().iter().filter(move |(_, rule)| is_meant(rule))
    });
    candidates.collect()
}

/// Refuses to withdraw one of several rules. If one of them is also asked for, that is refused already.
pub(super) fn refuse_any_of(standing: &Standing<'_>, candidates: &[&(TunnelId, &Rule)]) -> Option<Refusal> {
    let is_wanted = |rule: &Rule| {
        let mut wanted = standing.request.wanted.iter();
        wanted.any(|wanted| is_at(rule, &wanted.set_identifier))
    };
    let (tunnel, rule) =
        candidates.first().filter(|_| !candidates.iter().any(|(_, rule)| is_wanted(rule)))?;
    Some(Refusal {
        set_identifier: Some(rule.path().unwrap_or_default().into()),
        ..standing.whole_refusal(twin(standing, tunnel, rule.path())?)
    })
}

/// The reason for a name that is held, with the way to hand it over.
pub(super) fn record_held(
    standing: &Standing<'_>,
    record: &Record,
    desired: &Desired<'_>,
    needs: Option<&[Need]>,
) -> Reason {
    Reason::RecordHeld {
        kind: record.kind.clone(),
        content: record.content.clone(),
        comment: record.comment.clone(),
        remedy: remedy(standing, record),
        adopt: needs.map(|needs| needs::smallest_value(standing, needs, desired)),
    }
}

/// The stamp that a record of ours had before somebody edited it away: the record leads to our tunnel, and a rule of
/// the hostname stands there. It names only the rules that are asked for, because another may be foreign.
fn remedy(standing: &Standing<'_>, record: &Record) -> Option<Box<str>> {
    if !record.comment.is_empty() || &*record.kind != "CNAME" {
        return None;
    }
    let tunnel = standing.settings().tunnel_of_target(&record.content)?;
    let is_asked_for =
        |rule: &&Rule| standing.request.publications().any(|wanted| wanted.path() == rule.path());
    let rules = standing.rules_of(tunnel).into_iter().filter(is_asked_for);
    let mut stamp = Stamp::new(&standing.policy().owner);
    stamp.claims.rules = inserted(rules.map(|rule| Digest::of(tunnel, rule.path())));
    stamp.claims.record_only = stamp.claims.rules.is_empty();
    stamp.bind_to(standing.name());
    comment::render(standing, standing.zone, &stamp).ok()
}

/// True if an endpoint with this set identifier stands for the rule.
fn is_at(rule: &Rule, set_identifier: &str) -> bool {
    rule.path().unwrap_or_default() == set_identifier
}

fn rule_held(tunnel: &TunnelId, rule: &Rule, need: Need) -> Reason {
    let (tunnel, service) = (tunnel.as_str().into(), rule.service().into());
    Reason::RuleHeld { tunnel, service, adopt: adopt::smallest(&[need]) }
}

fn rule_left_behind(tunnel: &TunnelId, rule: &Rule) -> Reason {
    Reason::RuleLeftBehind {
        tunnel: tunnel.as_str().into(),
        hostname: rule.folded_hostname().into(),
        path: rule.path().unwrap_or_default().into(),
    }
}

fn taken(tunnel: &TunnelId, path: Option<&str>) -> Reason {
    Reason::DigestTaken { tunnel: tunnel.as_str().into(), path: path.unwrap_or_default().into() }
}
