//! Finds the obstacles to the endpoints of a hostname: foreign records and rules, and rules that its visitors would
//! leave behind if its record pointed to another tunnel:
//!
//! | a rule in the tunnel that visitors reach now | is left behind |
//! |---|---|
//! | foreign, of the hostname; or of a name below the wildcard | always |
//! | foreign and wider, with a service | unless an endpoint or our present rule takes all paths |
//! | a wildcard's of ours, with a service | unless an endpoint, our rule of all paths or the wanted tunnel takes all |

use super::adoption;
use super::{Host, HostRule, Ownership};
use crate::ingress::{PathPattern, Rule, WantedRule, is_status};
use crate::model::text::mask_userinfo;
use crate::model::{Record, TunnelId};
use crate::reconcile::access::gate::Gated;
use crate::reconcile::reason::{Reason, RecordHolder};
use crate::reconcile::stamp::Digest;

/// The obstacles to the endpoints of a hostname, which are found once for all of them.
pub(super) struct Obstacles<'h, 'a> {
    host: &'h Host<'a>,
    /// The tunnel that will serve the hostname.
    tunnel: TunnelId,
    /// The tunnel that visitors reach now, with a rule there that is left behind.
    left_behind: Option<(TunnelId, &'a Rule)>,
    /// The reason if the record would take visitors to an open rule in the tunnel.
    open_rule: Option<Reason>,
    /// The paths whose rules are deleted, or require no login.
    without_login: Vec<Option<&'h str>>,
}

impl<'h, 'a> Obstacles<'h, 'a> {
    /// The obstacles if the `accepted` endpoints are published; `None` if no endpoint is accepted.
    pub(super) fn of(
        host: &'h Host<'a>,
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
        Some(Self { host, tunnel, left_behind, open_rule, without_login })
    }

    /// The obstacle to an endpoint, apart from the other endpoints of the request.
    pub(super) fn to(&self, gated: &Gated) -> Option<Reason> {
        let Self { host, tunnel, .. } = self;
        if let Some(record) = host.foreign_records.first() {
            return Some(record_held(host, record, gated));
        }
        let left = self.left_behind.as_ref().filter(|(visited, _)| visited != gated.tunnel());
        if let Some((visited, rule)) = left {
            let is_ours = host.snapshot().own_digests().has(visited, rule);
            let rule = rule.described().into();
            return Some(Reason::RuleLeftBehind { tunnel: visited.clone(), rule, is_ours });
        }
        if gated.tunnel() != tunnel {
            return Some(Reason::TwoTunnels { tunnel: tunnel.clone() });
        }
        if !host.snapshot().tunnels.contains_key(tunnel) {
            return Some(Reason::TunnelGone { tunnel: tunnel.clone() });
        }
        if let Some(reason) = &self.open_rule {
            return Some(reason.clone());
        }
        gated.rule()?;
        let path = gated.path();
        if !host.is_writable(tunnel) && host.stamped_rule_at(tunnel, path).is_none() {
            return Some(Reason::LocalTunnel { tunnel: tunnel.clone() });
        }
        let foreign = || host.rule_at(tunnel, path).filter(|rule| !rule.is_stamped());
        ambiguity(host, tunnel, path, &self.without_login).or_else(|| Some(rule_held(host, foreign()?)))
    }
}

/// The tunnel that visitors reach now, with a rule there that would lose them, if an endpoint asks for another tunnel.
fn left_behind<'a>(host: &Host<'a>, accepted: &[&Gated], keeps_whole: bool) -> Option<(TunnelId, &'a Rule)> {
    let visited = host.snapshot().visited_tunnel(host.name())?;
    let wanted = accepted.iter().map(|gated| gated.tunnel()).find(|tunnel| **tunnel != visited)?;
    let takes_all_paths = keeps_whole || accepted.iter().any(|gated| gated.path().is_none());
    let wider = || if takes_all_paths { None } else { wider_rule_left_behind(host, &visited) };
    let of_wildcard = || if keeps_whole { None } else { wildcard_left_behind(host, wanted, accepted) };
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

/// A foreign rule of the hostname in the tunnel that visitors reach now, or any rule of a name below the wildcard
/// there.
pub(super) fn foreign_rule_left_behind<'a>(host: &Host<'a>, visited: &TunnelId) -> Option<&'a Rule> {
    let mut foreign = host.rules.iter().filter(|rule| rule.tunnel == visited && !rule.is_stamped());
    foreign.next().map(|rule| rule.rule).or_else(|| host.snapshot().rule_below(host.name(), visited))
}

/// A foreign rule that is wider than the hostname and answers its requests in the tunnel that visitors reach now.
fn wider_rule_left_behind<'a>(host: &Host<'a>, visited: &TunnelId) -> Option<&'a Rule> {
    let snapshot = host.snapshot();
    let is_foreign = |rule: &Rule| !snapshot.own_digests().has(visited, rule);
    // A rule of the hostname that is ours may be deleted.
    let is_last = |rule: &Rule| is_foreign(rule) || !rule.has_hostname(&host.hostname);
    let rules = snapshot.tunnels.get(visited)?.rules_taking_until(host.name(), None, &is_last).into_iter();
    // A rule with only a path belongs to no hostname.
    let counts = |rule: &Rule| !rule.folded_hostname().is_empty() || rule.path().is_none();
    rules.filter(|rule| is_foreign(rule) && counts(rule)).find(|rule| !is_status(rule.service()))
}

/// A rule of a wildcard of ours that answers requests of the hostname in the tunnel of its record, if no rule of the
/// wanted tunnel takes them all, and no `accepted` endpoint with a rule either. The wildcard may move later, or never.
fn wildcard_left_behind<'a>(host: &Host<'a>, wanted: &TunnelId, accepted: &[&Gated]) -> Option<&'a Rule> {
    let snapshot = host.snapshot();
    let name = host.name();
    let visited = host.record_tunnel()?;
    let wanted = snapshot.tunnels.get(wanted)?;
    // A record alone leaves the requests to the rules of others, and to those of our wildcards.
    let is_asked_for = |rule: &Rule| {
        let takes_all = |path: Option<&str>| PathPattern::takes_all_of(path, rule.path());
        accepted.iter().any(|gated| gated.rule().is_some() && takes_all(gated.path()))
    };
    let is_of_wildcard = |rule: &Rule| !rule.has_hostname(&host.hostname);
    let is_taken = |path: Option<&str>| {
        let last = wanted.rules_taking(name, path).pop();
        last.is_some_and(|last| last.takes_all(name, path) && !is_status(last.service()))
    };
    let rules = snapshot.tunnels.get(&visited)?.rules_taking_until(name, None, &is_of_wildcard).into_iter();
    let own = rules.filter(|rule| is_of_wildcard(rule) && snapshot.own_digests().has(&visited, rule));
    own.filter(|rule| !is_status(rule.service())).find(|rule| !is_asked_for(rule) && !is_taken(rule.path()))
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
    let conflict = host.context.marked_rules.get(tunnel)?.conflict(&host.hostname, path, &keeps_login)?;
    Some(Reason::RuleConflict(conflict))
}

/// The path of a rule that the stamp names, but that is not ours because another rule has its digest; and the reason.
pub(super) fn ambiguous_own_rule<'a>(host: &Host<'a>) -> Option<(&'a str, Reason)> {
    let claims = &host.stamp.as_ref()?.claims.digests;
    let mut ambiguous = host.rules.iter().filter(|rule| rule.ownership == Ownership::Ambiguous);
    let rule = ambiguous.find(|rule| claims.contains(&rule.digest))?;
    Some((rule.path().unwrap_or_default(), ambiguity(host, rule.tunnel, rule.path(), &[])?))
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
