//! Finds the obstacles to an endpoint, such as foreign records and rules.

use super::adoption;
use super::intended::Intended;
use super::{Host, HostRule, Ownership};
use crate::ingress::Rule;
use crate::model::text::mask_userinfo;
use crate::model::{Record, TunnelId};
use crate::reconcile::access::gate::Gated;
use crate::reconcile::reason::{Reason, RecordHolder};
use crate::reconcile::stamp::Digest;

/// The obstacle to an endpoint, apart from the other endpoints of the request.
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
    if !host.is_writable(tunnel) && host.stamped_rule_at(tunnel, path).is_none() {
        return Some(Reason::LocalTunnel { tunnel: tunnel.clone() });
    }
    let foreign = || host.rule_at(tunnel, path).filter(|rule| !rule.is_stamped());
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
