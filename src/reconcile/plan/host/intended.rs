//! What a request would make of a hostname, and the rules that its visitors would leave behind if its record pointed to
//! another tunnel:
//!
//! | a rule in the tunnel that visitors reach now | is left behind |
//! |---|---|
//! | foreign, of the hostname; or of a name below the wildcard | always |
//! | foreign and wider, with a service | unless an endpoint or our present rule takes all paths |
//! | of a wildcard of ours, with a service | unless the rule without a path stays, or its requests are answered in the wanted tunnel |

use super::Host;
use crate::ingress::{PathPattern, Rule, WantedRule, is_status};
use crate::model::TunnelId;
use crate::reconcile::access::answering::{rules_taking, rules_taking_until};
use crate::reconcile::access::gate::Gated;
use crate::reconcile::reason::Reason;

/// What the request would make of the hostname.
pub(super) struct Intended<'h> {
    /// The tunnel that will serve the hostname.
    pub(super) tunnel: TunnelId,
    /// The tunnel that visitors reach now, with a rule there that is left behind.
    pub(super) left_behind: Option<(TunnelId, &'h Rule)>,
    /// The reason if the record would take visitors to an open rule in the tunnel.
    pub(super) open_rule: Option<Reason>,
    /// The paths whose rules are deleted, or require no login.
    pub(super) without_login: Vec<Option<&'h str>>,
}

impl<'h> Intended<'h> {
    /// What the request would make of the hostname with the `accepted` endpoints; `None` without any.
    pub(super) fn of(
        host: &'h Host<'_>,
        accepted: &[&'h Gated],
        withdrawn: &[Option<&'h str>],
    ) -> Option<Self> {
        let keeps_whole = host.has_path(None) && !withdrawn.contains(&None);
        let left_behind = left_behind(host, accepted, keeps_whole);
        let tunnel = tunnel_for(host, accepted, withdrawn)?;
        let open_rule = host.protection().open_rule_in(&tunnel, accepted);
        let requires_login = |gated: &Gated| gated.rule().is_some_and(WantedRule::requires_access);
        let open = accepted.iter().filter(|gated| !requires_login(gated)).map(|gated| gated.path());
        let without_login = withdrawn.iter().copied().chain(open).collect();
        Some(Self { tunnel, left_behind, open_rule, without_login })
    }
}

/// The tunnel that visitors reach now, with a rule there that would lose them, if an endpoint asks for another tunnel.
fn left_behind<'a>(host: &Host<'a>, accepted: &[&Gated], keeps_whole: bool) -> Option<(TunnelId, &'a Rule)> {
    let visited = host.visited_tunnel()?;
    let wanted = accepted.iter().map(|gated| gated.tunnel()).find(|tunnel| **tunnel != visited)?;
    let takes_all_paths = keeps_whole || accepted.iter().any(|gated| gated.path().is_none());
    let wider = || wider_rule_left_behind(host, &visited).filter(|_| !takes_all_paths);
    let of_wildcard = || wildcard_left_behind(host, wanted, accepted).filter(|_| !keeps_whole);
    let rule = foreign_rule_left_behind(host, &visited).or_else(wider).or_else(of_wildcard)?;
    Some((visited, rule))
}

/// The only tunnel that the hostname can have after this request: the record's tunnel if an endpoint asks for it, or if
/// a rule or the record alone remains there, and otherwise the tunnel of the first endpoint.
fn tunnel_for(host: &Host<'_>, accepted: &[&Gated], withdrawn: &[Option<&str>]) -> Option<TunnelId> {
    let first = accepted.first()?.tunnel();
    let is_live = |tunnel: &TunnelId| host.snapshot().tunnels.contains_key(tunnel);
    let Some(visited) = host.record_tunnel().filter(is_live) else {
        return Some(first.clone());
    };
    let goes =
        |path: Option<&str>| withdrawn.contains(&path) || accepted.iter().any(|gated| gated.path() == path);
    let stays = host.claims_record_only() && !goes(None)
        || host.stamped_rules().any(|rule| *rule.tunnel == visited && !goes(rule.path()));
    let is_asked_for = || accepted.iter().any(|gated| *gated.tunnel() == visited);
    Some(if stays || is_asked_for() { visited } else { first.clone() })
}

/// A foreign rule of the hostname in the tunnel that visitors reach now, or any rule of a name below the wildcard there.
fn foreign_rule_left_behind<'a>(host: &Host<'a>, visited: &TunnelId) -> Option<&'a Rule> {
    let rule = host.foreign_rules(visited).next().map(|rule| rule.rule);
    rule.or_else(|| host.snapshot().rule_below(host.name(), visited))
}

/// A foreign rule that is wider than the hostname and answers its requests in the tunnel that visitors reach now.
fn wider_rule_left_behind<'a>(host: &Host<'a>, visited: &TunnelId) -> Option<&'a Rule> {
    let snapshot = host.snapshot();
    let is_foreign = |rule: &Rule| !snapshot.own_digests().has(visited, rule);
    // A rule of the hostname that is ours may be deleted.
    let is_last = |rule: &Rule| is_foreign(rule) || !rule.has_hostname(&host.hostname);
    let rules = rules_taking_until(host.name(), None, snapshot.tunnels.get(visited)?, &is_last).into_iter();
    // A rule with only a path is for no hostname more than for another.
    let counts = |rule: &Rule| !rule.folded_hostname().is_empty() || rule.path().is_none();
    rules.filter(|rule| is_foreign(rule) && counts(rule)).find(|rule| !is_status(rule.service()))
}

/// A rule of a wildcard of ours that answers requests of the hostname in the tunnel of its record, if no rule of the
/// wanted tunnel takes them all, and no `accepted` endpoint with a rule either. The wildcard may move later, or never.
fn wildcard_left_behind<'a>(host: &Host<'a>, wanted: &TunnelId, accepted: &[&Gated]) -> Option<&'a Rule> {
    let (snapshot, name) = (host.snapshot(), host.name());
    let (visited, wanted) = (host.record_tunnel()?, snapshot.tunnels.get(wanted)?);
    // A record alone leaves the requests to the rules of others, and to those of our wildcards.
    let is_asked_for = |rule: &Rule| {
        let takes_all = |path: Option<&str>| PathPattern::matches_all_of(path, rule.path());
        accepted.iter().any(|gated| gated.rule().is_some() && takes_all(gated.path()))
    };
    let is_of_wildcard = |rule: &Rule| !rule.has_hostname(&host.hostname);
    let is_taken = |path: Option<&str>| {
        let last = rules_taking(name, path, wanted).pop();
        last.is_some_and(|last| last.takes_all(name, path) && !is_status(last.service()))
    };
    let rules = rules_taking_until(name, None, snapshot.tunnels.get(&visited)?, &is_of_wildcard).into_iter();
    let own = rules.filter(|rule| is_of_wildcard(rule) && snapshot.own_digests().has(&visited, rule));
    own.filter(|rule| !is_status(rule.service())).find(|rule| !is_asked_for(rule) && !is_taken(rule.path()))
}
