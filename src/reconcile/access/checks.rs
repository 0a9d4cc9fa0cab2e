//! Finds the rules of a path of the hostname, and the tokens that they require.

use crate::ingress::Rule;
use crate::ingress::access_check::AccessCheck;
use crate::model::TunnelId;
use crate::model::access::Application;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::snapshot::Snapshot;

impl<'a> HostProtection<'a> {
    /// The joined Access checks of rules at a path: our rules in any tunnel, foreign rules in the tunnel to which the
    /// record points (in any tunnel if it points to none), and the rule that answers the path's visitors now.
    pub(super) fn present_check(self, path: Option<&str>) -> Option<AccessCheck> {
        let visited = self.snapshot.visited_tunnel(self.hostname.as_str());
        let is_visited = |tunnel: &TunnelId| visited.as_ref().is_none_or(|visited| visited == tunnel);
        let own = self.snapshot.own_digests();
        let at = self.rules_at(path).filter(|(tunnel, rule)| is_visited(tunnel) || own.has(tunnel, rule));
        let checks =
            at.map(|(_, rule)| rule).chain(self.answering_rule(path)).filter_map(Rule::access_check).cloned();
        checks.reduce(|one, other| one.accepting(other.audience_tags()))
    }

    /// The check of a rule that keeps the check `present`, and accepts the tokens of our application `covering` it too.
    pub(super) fn kept_check(
        self,
        present: Option<AccessCheck>,
        covering: Option<&Application>,
    ) -> Option<AccessCheck> {
        let Some((covering, access)) = covering.zip(self.access()) else { return present };
        let accepts_others =
            |check: &AccessCheck| check.audience_tags().iter().any(|tag| *tag != covering.audience);
        Some(match present.filter(accepts_others) {
            Some(check) => check.accepting([&covering.audience]),
            // The team name of the account may have changed.
            None => access.check_of([covering]),
        })
    }

    /// True if the rule asks for a token that no application issues, and so refuses every visitor.
    pub(in crate::reconcile) fn refuses_every_visitor(self, rule: &Rule) -> bool {
        rule.access_check().zip(self.access()).is_some_and(|(check, access)| {
            // The applications of another team are not known.
            check.is_of(&access.team) && !access.applications.iter().any(|one| check.accepts(one))
        })
    }

    /// Our rule at a path, in `tunnel` or in any tunnel. The rule in the tunnel to which the record points comes first.
    pub(in crate::reconcile) fn own_rule(
        self,
        path: Option<&str>,
        tunnel: Option<&TunnelId>,
    ) -> Option<&'a Rule> {
        let own = self.own_rules_at(path).filter(|(id, _)| tunnel.is_none_or(|tunnel| *id == tunnel));
        let rules: Vec<(&TunnelId, &Rule)> = own.collect();
        let visited =
            (rules.len() > 1).then(|| self.snapshot.visited_tunnel(self.hostname.as_str())).flatten();
        rules.into_iter().max_by_key(|(id, _)| Some(*id) == visited.as_ref()).map(|(_, rule)| rule)
    }

    /// The rules at a path, with their tunnels.
    pub(super) fn rules_at(self, path: Option<&str>) -> impl Iterator<Item = (&'a TunnelId, &'a Rule)> {
        let rules = self.snapshot.rules_of(self.hostname).into_iter();
        rules.filter(move |(_, rule)| rule.path() == path)
    }

    /// Our rules at a path, with their tunnels.
    pub(super) fn own_rules_at(self, path: Option<&str>) -> impl Iterator<Item = (&'a TunnelId, &'a Rule)> {
        let own = self.snapshot.own_digests();
        self.rules_at(path).filter(|(tunnel, rule)| own.has(tunnel, rule))
    }

    /// The first rule that takes all requests of the path, so that a rule of ours for the path is placed in front of it. A
    /// rule with an Access check counts by [`Rule::takes_all`] too.
    fn answering_rule(self, path: Option<&str>) -> Option<&'a Rule> {
        let name = self.hostname.as_str();
        let tunnel = self.snapshot.tunnels.get(&self.snapshot.visited_tunnel(name)?)?;
        let mut rules = tunnel.document.near(name);
        let is_closed = |rule: &Rule| rule.requires_access() && rule.takes_all(name, path);
        rules.find(|rule| rule.matches_all(name, path) || is_closed(rule))
    }
}

/// The rules, ours and foreign, that accept a token of this application.
pub(in crate::reconcile) fn rules_accepting<'s>(
    application: &Application,
    snapshot: &'s Snapshot,
) -> impl Iterator<Item = &'s Rule> {
    snapshot.all_rules().map(|(_, rule)| rule).filter(|rule| rule.accepts(application))
}
