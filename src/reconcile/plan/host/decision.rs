//! Decides what is done of one hostname's request, and what is refused.

use super::course::{Course, Order, course};
use super::standing::Standing;
use super::{Desired, needs, obstacle};
use crate::model::TunnelId;
use crate::ordered::inserted;
use crate::reconcile::claim_state::ClaimState;
use crate::reconcile::plan::{Reason, Refusal};
use crate::reconcile::records::LOST_PREFIX;
use crate::reconcile::stamp::{Claims, Digest};

/// The decision about one hostname.
#[derive(Debug)]
pub(super) struct Decision<'w> {
    /// The endpoints that are published, or already stand as wanted. All are in one tunnel.
    pub(super) desired: Vec<Desired<'w>>,
    pub(super) course: Course,
    pub(super) refusals: Vec<Refusal>,
}

impl Decision<'_> {
    /// The final target of the records; `None` if each keeps its own.
    pub(super) fn target(&self) -> Option<String> {
        let tunnel = self.desired.first().map(Desired::tunnel);
        tunnel.or(self.course.heir.as_ref()).map(TunnelId::hostname)
    }
}

/// Decides which of the `desired` endpoints are published and which withdrawals are done. `order` says how new rules
/// follow old ones. If `withholds`, nothing is withdrawn.
pub(super) fn decide<'w>(
    standing: &Standing<'_>,
    desired: Vec<Desired<'w>>,
    withholds: bool,
    order: Order,
) -> Decision<'w> {
    let (withdrawn, mut refusals) = withdrawn_claims(standing, withholds);
    let (desired, refused) = possible(standing, desired, &withdrawn);
    refusals.extend(refused);
    let course = course(standing, &desired, &withdrawn, order);
    Decision { desired, course, refusals }
}

/// True if something is desired in a tunnel that the hostname cannot move to: a withdrawal may be the same rule under
/// another path.
pub(super) fn cannot_follow(standing: &Standing<'_>, desired: &[Desired<'_>]) -> bool {
    if standing.request.withdrawn.is_empty() || standing.led_to().is_none() {
        return false;
    }
    let (withdrawn, _) = withdrawn_claims(standing, false);
    let tunnel = tunnel_for(standing, desired, &withdrawn);
    desired.iter().any(|desired| Some(desired.tunnel()) != tunnel.as_ref())
}

/// The claims behind the withdrawn set identifiers, and refusals of those that have to stay.
fn withdrawn_claims(standing: &Standing<'_>, withholds: bool) -> (Claims, Vec<Refusal>) {
    let mut withdrawn = Claims::default();
    let mut refusals = Vec::new();
    for set_identifier in &standing.request.withdrawn {
        // Nothing tells which rule is meant.
        let candidates = obstacle::candidates(standing, set_identifier);
        if !candidates.is_empty() {
            refusals.extend(obstacle::refuse_any_of(standing, &candidates));
            continue;
        }
        let path = Some(&**set_identifier).filter(|path| !path.is_empty());
        let claims = claims_of(standing, set_identifier, path);
        if claims.is_empty() {
            continue;
        }
        match obstacle_for(standing, path).or_else(|| withholds.then_some(Reason::Withheld)) {
            Some(reason) => refusals.push(Refusal {
                set_identifier: Some(set_identifier.clone()),
                ..standing.whole_refusal(reason)
            }),
            None => withdrawn.merge(&claims),
        }
    }
    (withdrawn, refusals)
}

/// The claims behind one set identifier.
fn claims_of(standing: &Standing<'_>, set_identifier: &str, path: Option<&str>) -> Claims {
    let of_path = standing.digests_for_path(path).filter(|digest| standing.is_stamped(*digest));
    // A path may begin like this too, so it only means a digest that has no rule.
    let lost = set_identifier.strip_prefix(LOST_PREFIX).and_then(Digest::parse);
    let lost = lost.filter(|digest| is_lost(standing, *digest));
    Claims {
        record_only: path.is_none() && standing.claims_record_only(),
        rules: inserted(of_path.chain(lost)),
    }
}

fn is_lost(standing: &Standing<'_>, digest: Digest) -> bool {
    standing.is_stamped(digest) && matches!(standing.claims.get(&digest), Some(ClaimState::Lost))
}

/// The reason why a tunnel's document does not allow editing the path.
fn obstacle_for(standing: &Standing<'_>, path: Option<&str>) -> Option<Reason> {
    standing.obstacles.get(&path.map(Into::into)).cloned()
}

/// The desired endpoints without an obstacle, and refusals of the others.
fn possible<'w>(
    standing: &Standing<'_>,
    desired: Vec<Desired<'w>>,
    withdrawn: &Claims,
) -> (Vec<Desired<'w>>, Vec<Refusal>) {
    if let Some(record) = standing.foreign_records.first() {
        let needs = needs::needs_of_records(standing, &desired);
        let refused = desired.iter().map(|desired| {
            let reason = obstacle::record_held(standing, record, desired, needs.as_deref());
            standing.refusal(desired, reason)
        });
        return (Vec::new(), refused.collect());
    }
    let Some(tunnel) = tunnel_for(standing, &desired, withdrawn) else {
        return (Vec::new(), Vec::new());
    };
    let mut possible = Vec::with_capacity(desired.len());
    let mut refused = Vec::new();
    for desired in desired {
        match obstacle_to(standing, &desired, &tunnel, &possible) {
            Some(reason) => refused.push((desired, reason)),
            None => possible.push(desired),
        }
    }
    // The record would take the requests of a path that cannot move away from its rule.
    let is_left = |led_to: &TunnelId| {
        *led_to != tunnel && refused.iter().any(|(desired, _)| stands_at(standing, desired.path(), led_to))
    };
    if let Some(led_to) = standing.led_to().filter(is_left) {
        let reason = Reason::TwoTunnels { tunnel: led_to.as_str().into() };
        refused.extend(possible.drain(..).map(|desired| (desired, reason.clone())));
    }
    (possible, refused.into_iter().map(|(desired, reason)| standing.refusal(&desired, reason)).collect())
}

/// The obstacle to one endpoint, if the hostname is to be served through `tunnel` and `others` are possible.
fn obstacle_to(
    standing: &Standing<'_>,
    desired: &Desired<'_>,
    tunnel: &TunnelId,
    others: &[Desired<'_>],
) -> Option<Reason> {
    if let Some(reason) = obstacle::held_elsewhere(standing, desired) {
        return Some(reason);
    }
    if desired.tunnel() != tunnel {
        return Some(obstacle::stays_in(standing, tunnel));
    }
    if !standing.snapshot().tunnels.contains_key(tunnel) {
        return Some(Reason::TunnelGone { tunnel: tunnel.as_str().into() });
    }
    let rule = desired.publication.rule.as_ref();
    rule.and_then(|rule| obstacle::of_rule(standing, tunnel, rule))
        .or_else(|| obstacle_for(standing, desired.path()))
        .or_else(|| obstacle::digest_taken(desired, others))
}

fn stands_at(standing: &Standing<'_>, path: Option<&str>, tunnel: &TunnelId) -> bool {
    standing
        .claims
        .values()
        .any(|state| state.rule().is_some() && state.is_for_path(path) && state.tunnel() == Some(tunnel))
}

/// The one tunnel that the hostname can have after this request. If two are asked for, or rules stay that the request
/// does not name, it is the one that its record leads to, or else the first.
fn tunnel_for(standing: &Standing<'_>, desired: &[Desired<'_>], withdrawn: &Claims) -> Option<TunnelId> {
    let first = desired.first()?.tunnel();
    let is_live = |tunnel: &TunnelId| standing.snapshot().tunnels.contains_key(tunnel);
    let Some(led_to) = standing.led_to().filter(is_live) else {
        return Some(first.clone());
    };
    let stays = standing.claims.iter().any(|(digest, state)| {
        state.tunnel() == Some(&led_to)
            && !withdrawn.rules.contains(digest)
            && !desired.iter().any(|desired| state.is_for_path(desired.path()))
    });
    let is_asked_for = || desired.iter().any(|desired| *desired.tunnel() == led_to);
    let is_kept = stays || is_asked_for() || obstacle::left_behind(standing, &led_to).is_some();
    Some(if is_kept { led_to } else { first.clone() })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, HOME, NAME, OFFICE, SERVICE, told};
    use super::*;

    /// The tunnels and paths that are possible, and the paths that are refused with the reasons.
    fn decided(fixture: &Fixture) -> [Vec<String>; 2] {
        let Decision { desired, refusals, .. } = fixture.decision(Order::Together);
        let possible = desired.iter().map(|desired| {
            let tunnel = if desired.tunnel().as_str() == HOME { "home" } else { "office" };
            format!("{tunnel}:{}", desired.path().unwrap_or_default())
        });
        let refused = told(&refusals).into_iter().map(|(of, label)| format!("{}:{label}", of.unwrap_or("*")));
        [possible.collect(), refused.collect()]
    }

    #[test]
    fn with_nothing_in_the_way_all_is_possible() {
        let fixture = Fixture::new().asks(HOME, "", SERVICE).asks(HOME, "^/a", SERVICE);
        assert_eq!(decided(&fixture), [vec!["home:", "home:^/a"], vec![]]);
    }

    #[test]
    fn a_foreign_record_holds_the_whole_hostname() {
        let fixture = Fixture::new().record(NAME, "A", "192.0.2.1", "").asks(HOME, "", SERVICE);
        assert_eq!(decided(&fixture), [vec![], vec![":record_held"]]);
    }

    #[test]
    fn a_foreign_rule_holds_its_path_alone() {
        let fixture = Fixture::new().published(&[(HOME, "")]).rule(HOME, "^/a", "http://theirs:80");
        let fixture = fixture.asks(HOME, "", SERVICE).asks(HOME, "^/a", SERVICE);
        assert_eq!(decided(&fixture), [vec!["home:"], vec!["^/a:rule_held"]]);
    }

    #[test]
    fn a_rule_that_lost_its_record_is_taken_back_where_it_is_as_it_is_wanted() {
        let left = || Fixture::new().rule(HOME, "", SERVICE);
        assert_eq!(decided(&left().asks(HOME, "", SERVICE)), [vec!["home:"], vec![]]);
        let otherwise = left().asks(HOME, "", "http://other:80");
        assert_eq!(decided(&otherwise), [vec![], vec![":rule_held"]]);
    }

    #[test]
    fn of_two_tunnels_the_hostname_has_the_one_that_its_record_leads_to() {
        let fixture = Fixture::new().published(&[(OFFICE, "^/a")]);
        let fixture = fixture.asks(HOME, "^/b", SERVICE).asks(OFFICE, "^/a", SERVICE);
        assert_eq!(decided(&fixture), [vec!["office:^/a"], vec!["^/b:two_tunnels"]]);
    }

    #[test]
    fn a_rule_that_nobody_names_keeps_the_hostname_in_its_tunnel() {
        let fixture = Fixture::new().published(&[(HOME, ""), (HOME, "^/a")]).asks(OFFICE, "", SERVICE);
        assert_eq!(decided(&fixture), [vec![], vec![":two_tunnels"]]);
        let withdrawn = Fixture::new().published(&[(HOME, ""), (HOME, "^/a")]);
        let withdrawn = withdrawn.asks(OFFICE, "", SERVICE).withdraws("^/a");
        assert_eq!(decided(&withdrawn), [vec!["office:"], vec![]]);
    }

    #[test]
    fn a_hostname_does_not_leave_a_foreign_rule_behind() {
        let fixture = Fixture::new().published(&[(HOME, "")]).rule(HOME, "^/a", "http://theirs:80");
        let fixture = fixture.asks(OFFICE, "", SERVICE);
        assert_eq!(decided(&fixture), [vec![], vec![":rule_left_behind"]]);
    }

    #[test]
    fn a_path_that_cannot_follow_holds_back_the_others() {
        let fixture = Fixture::new().published(&[(HOME, ""), (HOME, "^/a")]).refused_edit("^/a");
        let fixture = fixture.asks(OFFICE, "", SERVICE).asks(OFFICE, "^/a", SERVICE);
        assert_eq!(decided(&fixture), [vec![], vec!["^/a:edit", ":two_tunnels"]]);
    }

    #[test]
    fn a_new_path_that_is_refused_holds_back_nobody() {
        let fixture = Fixture::new().published(&[(HOME, "")]).rule(OFFICE, "^/b", "http://theirs:80");
        let fixture = fixture.asks(OFFICE, "", SERVICE).asks(OFFICE, "^/b", SERVICE);
        assert_eq!(decided(&fixture), [vec!["office:"], vec!["^/b:rule_held"]]);
    }

    #[test]
    fn a_deleted_tunnel_publishes_nothing() {
        let fixture = Fixture::new().deleted(OFFICE).asks(OFFICE, "", SERVICE);
        assert_eq!(decided(&fixture), [vec![], vec![":tunnel_gone"]]);
    }

    #[test]
    fn a_withdrawal_takes_what_is_stamped_and_nothing_else() {
        let fixture = Fixture::new().published(&[(HOME, "")]).rule(HOME, "^/a", "http://theirs:80");
        let fixture = fixture.withdraws("").withdraws("^/a").withdraws("^/b");
        let (claims, refusals) = withdrawn_claims(&fixture.standing(), false);
        assert_eq!((claims, told(&refusals)), (super::super::fixture::claims(&[(HOME, "")]), vec![]));
    }

    #[test]
    fn a_withdrawal_waits_where_it_is_withheld_or_the_document_refuses_it() {
        let withdrawing = || Fixture::new().published(&[(HOME, "")]).withdraws("");
        for (fixture, withholds, label) in
            [(withdrawing(), true, "withheld"), (withdrawing().refused_edit(""), false, "edit")]
        {
            let (claims, refusals) = withdrawn_claims(&fixture.standing(), withholds);
            assert!(claims.is_empty());
            assert_eq!(told(&refusals), [(Some(""), label)]);
        }
    }

    #[test]
    fn a_lost_rule_is_withdrawn_by_its_digest_and_a_standing_one_is_not() {
        let digest = super::super::fixture::digest(HOME, "^/a");
        let comment = Fixture::new().comment(&[(HOME, "^/a")]);
        let target = super::super::fixture::tunnel(HOME).hostname();
        let lost = Fixture::new().record(NAME, "CNAME", &target, &comment);
        for (fixture, rules) in [(lost, 1), (Fixture::new().published(&[(HOME, "^/a")]), 0)] {
            let fixture = fixture.withdraws(&format!("{LOST_PREFIX}{digest}"));
            assert_eq!(withdrawn_claims(&fixture.standing(), false).0.rules.len(), rules);
        }
    }

    #[test]
    fn of_two_rules_in_one_place_none_is_withdrawn() {
        let fixture = Fixture::new().published(&[(HOME, "")]).rule(HOME, "", "http://other:80").withdraws("");
        assert_eq!(decided(&fixture), [vec![], vec![":edit"]]);
        let beside = Fixture::new().published(&[(HOME, ""), (HOME, "^/a")]).rule(HOME, "", "http://other:80");
        let (claims, refusals) = withdrawn_claims(&beside.withdraws("^/a").standing(), false);
        assert_eq!((claims, told(&refusals)), (super::super::fixture::claims(&[(HOME, "^/a")]), vec![]));
    }
}
