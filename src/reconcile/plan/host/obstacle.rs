//! Finds the obstacles to an endpoint, such as foreign records and rules.

use super::adoption;
use super::{Host, HostRule, Ownership};
use crate::ingress::{Rule, is_status};
use crate::model::text::mask_userinfo;
use crate::model::{Record, TunnelId};
use crate::reconcile::access::answering::{rules_taking, rules_taking_until};
use crate::reconcile::access::gate::Gated;
use crate::reconcile::reason::{Reason, RecordHolder};
use crate::reconcile::stamp::Digest;

/// What the request would make of the hostname.
pub(super) struct Intended<'r> {
    /// The tunnel that will serve the hostname.
    pub(super) tunnel: TunnelId,
    /// The tunnel that visitors reach now, if a rule there must not lose them.
    pub(super) left_behind: Option<(TunnelId, &'r Rule)>,
    /// The reason if the record would take visitors to an open rule in the tunnel.
    pub(super) open_rule: Option<Reason>,
    /// The paths whose rules are deleted, or require no login.
    pub(super) without_login: Vec<Option<&'r str>>,
}

/// The obstacle to an endpoint, except that another endpoint of its object is refused.
pub(super) fn obstacle_to(host: &Host<'_>, intended: &Intended<'_>, gated: &Gated) -> Option<Reason> {
    let tunnel = &intended.tunnel;
    if let Some(record) = host.foreign_records.first() {
        return Some(record_held(host, record, gated));
    }
    let left = intended.left_behind.as_ref().filter(|(visited, _)| visited != gated.tunnel());
    if let Some((visited, rule)) = left {
        let is_ours = host.snapshot().own_digests().has(visited, rule);
        let (tunnel, rule) = (visited.clone(), rule.described().into());
        return Some(Reason::RuleLeftBehind { tunnel, rule, is_ours });
    }
    if gated.tunnel() != tunnel {
        return Some(Reason::TwoTunnels { tunnel: tunnel.clone() });
    }
    if !host.snapshot().tunnels.contains_key(tunnel) {
        return Some(Reason::TunnelGone { tunnel: tunnel.clone() });
    }
    if let Some(reason) = &intended.open_rule {
        return Some(reason.clone());
    }
    gated.rule()?;
    let path = gated.path();
    if !host.is_writable(tunnel) && host.claimed_rule_at(tunnel, path).is_none() {
        return Some(Reason::LocalTunnel { tunnel: tunnel.clone() });
    }
    let foreign = || host.rule_at(tunnel, path).filter(|rule| !rule.is_claimed());
    ambiguity(host, tunnel, path, &intended.without_login).or_else(|| Some(rule_held(host, foreign()?)))
}

/// The reason why a rule for this path would share its digest with another rule, or conflict with the document.
fn ambiguity(
    host: &Host<'_>,
    tunnel: &TunnelId,
    path: Option<&str>,
    without_login: &[Option<&str>],
) -> Option<Reason> {
    let digest = Digest::of(tunnel, path);
    let is_twin =
        |rule: &&HostRule<'_>| rule.digest == digest && (rule.tunnel, rule.path()) != (tunnel, path);
    if let Some(twin) = host.rules.iter().find(is_twin) {
        return Some(digest_taken_by(twin.tunnel, twin.path()));
    }
    let keeps_login =
        |rule: &Rule| !rule.has_hostname(&host.hostname) || !without_login.contains(&rule.path());
    let refusal = host.context.marked_rules.get(tunnel)?.conflict(&host.hostname, path, &keeps_login)?;
    Some(Reason::RuleConflict(refusal))
}

/// The path of a rule that the stamp names, but that is not ours because another rule has its digest; and the reason.
pub(super) fn ambiguous_own_rule<'a>(host: &Host<'a>) -> Option<(&'a str, Reason)> {
    let claims = &host.stamp.as_ref()?.claims.digests;
    let mut ambiguous = host.rules.iter().filter(|rule| rule.ownership == Ownership::Ambiguous);
    let rule = ambiguous.find(|rule| claims.contains(&rule.digest))?;
    Some((rule.path().unwrap_or_default(), ambiguity(host, rule.tunnel, rule.path(), &[])?))
}

/// A foreign rule in the tunnel that visitors reach now: of the hostname, of a name below the wildcard, or a wider one,
/// unless the whole hostname is asked for. If the record pointed to another tunnel, the rule would lose its requests.
pub(super) fn foreign_rule_left_behind<'a>(
    host: &Host<'a>,
    visited: &TunnelId,
    is_whole: bool,
) -> Option<&'a Rule> {
    let snapshot = host.snapshot();
    let wider = || {
        let is_foreign = |rule: &Rule| !snapshot.own_digests().has(visited, rule);
        let tunnel = snapshot.tunnels.get(visited).filter(|_| !is_whole)?;
        // A rule of the hostname that is ours may be deleted.
        let is_last = |rule: &Rule| is_foreign(rule) || !rule.has_hostname(&host.hostname);
        let rules = rules_taking_until(host.name(), None, tunnel, &is_last).into_iter();
        // A rule with only a path is for no hostname more than for another.
        let counts = |rule: &Rule| !rule.folded_hostname().is_empty() || rule.path().is_none();
        rules.filter(|rule| is_foreign(rule) && counts(rule)).find(|rule| !is_status(rule.service()))
    };
    let rule = host.foreign_rules(visited).next().map(|rule| rule.rule);
    rule.or_else(|| snapshot.rule_below(host.name(), visited)).or_else(wider)
}

/// A rule of a wildcard of ours that answers requests of the hostname in the tunnel of its record, if no rule of the
/// wanted tunnel takes them all, and no endpoint either (`is_asked_for`). The wildcard may move later, or never.
pub(super) fn wildcard_left_behind<'a>(
    host: &Host<'a>,
    wanted: &TunnelId,
    is_asked_for: &dyn Fn(&Rule) -> bool,
) -> Option<&'a Rule> {
    let (snapshot, name) = (host.snapshot(), host.name());
    let (visited, wanted) = (host.record_tunnel()?, snapshot.tunnels.get(wanted)?);
    let is_of_wildcard = |rule: &Rule| !rule.has_hostname(&host.hostname);
    let is_taken = |path: Option<&str>| {
        let last = rules_taking(name, path, wanted).pop();
        last.is_some_and(|last| last.takes_all(name, path) && !is_status(last.service()))
    };
    let rules = rules_taking_until(name, None, snapshot.tunnels.get(&visited)?, &is_of_wildcard).into_iter();
    let own = rules.filter(|rule| is_of_wildcard(rule) && snapshot.own_digests().has(&visited, rule));
    own.filter(|rule| !is_status(rule.service())).find(|rule| !is_asked_for(rule) && !is_taken(rule.path()))
}

/// The reason of a refusal for a foreign record, with the ways to make the record ours.
fn record_held(host: &Host<'_>, record: &Record, gated: &Gated) -> Reason {
    let holder = if host.snapshot().stamp_of_same_owner(record).is_some() {
        RecordHolder::SameOwner
    } else if record.read_only || record.content.ends_with(".pages.dev") {
        // The dashboard cannot edit a Worker's or a bucket's record, and a Pages project recreates its record.
        RecordHolder::CustomDomain
    } else {
        RecordHolder::Other
    };
    Reason::RecordHeld {
        record_type: record.record_type.clone().into(),
        content: record.content.clone(),
        comment: record.comment.clone(),
        holder,
        adopt: adoption::smallest_value(host, gated),
    }
}

fn rule_held(host: &Host<'_>, &HostRule { tunnel, rule, .. }: &HostRule<'_>) -> Reason {
    let adopt = adoption::need_of_rule(host).to_string().into();
    let service = mask_userinfo(rule.service(), "://").into();
    Reason::RuleHeld { tunnel: tunnel.clone(), service, adopt }
}

/// The reason if the rule of this tunnel and path has the digest.
pub(super) fn digest_taken_by(tunnel: &TunnelId, path: Option<&str>) -> Reason {
    Reason::DigestTaken { tunnel: tunnel.clone(), path: path.unwrap_or_default().into() }
}
