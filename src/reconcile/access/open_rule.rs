//! Finds an open rule to which a record must not be pointed, because its visitors need a login now.
//!
//! For example, visitors of `shop.example.com` reach tunnel A, where its rule requires a token, and tunnel B has an
//! open rule for `*.example.com`. The record is not pointed to B, unless an endpoint publishes the hostname there with
//! a login or asks to be open.

use crate::ingress::{PathPattern, Rule, is_status};
use crate::model::hostname::is_below;
use crate::model::{Hostname, TunnelId};
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::gate::Gated;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::wanted::WantedAccess;
use crate::reconcile::canonical::Publication;
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::TunnelSnapshot;

impl<'a> HostProtection<'a> {
    /// The reason if the record, pointed to `tunnel` for the `accepted` endpoints, would take visitors to an open rule
    /// there, although the Access check of a rule is their only login now.
    pub(crate) fn open_rule_in(self, tunnel: &TunnelId, accepted: &[&Gated]) -> Option<Reason> {
        let Self { hostname, snapshot } = self;
        let visited = snapshot.visited_tunnel(hostname.as_str()).filter(|visited| visited != tunnel)?;
        let (from, to) = (snapshot.tunnels.get(&visited)?, snapshot.tunnels.get(tunnel)?);
        let domain = hostname.as_str().trim_start_matches("*.");
        let own = snapshot.own_digests();
        let record = |name: &str| snapshot.answering(name).first().map(|record| &record.id);
        let is_pointed_too = |name: &str| is_below(name, domain) && record(name) == record(hostname.as_str());
        let publications = accepted.iter().map(|gated| gated.publication());
        let in_time: Vec<&Publication> = publications.filter(|one| self.is_closed_in_time(one)).collect();
        for name in snapshot.names_of(hostname.as_str(), &is_pointed_too) {
            let Ok(name) = Hostname::parse(name) else { continue };
            let protection = HostProtection::of(&name, snapshot);
            for open in to.rules_taking(name.as_str(), None).into_iter().filter(|rule| is_open(rule)) {
                let is_own = own.has(tunnel, open);
                let stays_closed = |login: &Rule| {
                    in_time.iter().any(|publication| is_answered_by(publication, open, is_own, login))
                };
                if !protection.rules_with_only_login(open.path(), from).all(stays_closed) {
                    let visitors = name.as_str().into();
                    let rule = open.described().into();
                    return Some(Reason::OpenRuleInTunnel { visitors, rule });
                }
            }
        }
        None
    }

    /// False if visitors could arrive before the login of the publication: the hostname has no record of its own, so a
    /// new record points to the tunnel before the rule is written, and only the rule asks for the login. An application
    /// of ours is written before the record, and the guard demands one that is there.
    fn is_closed_in_time(self, publication: &Publication) -> bool {
        let name = self.hostname.as_str();
        let has_record = || self.snapshot.answering(name).iter().any(|one| *one.name == *name);
        publication.wanted_access != WantedAccess::Unspecified
            || self.snapshot.operator().access_guard
            || has_record()
    }

    /// The rules of a tunnel whose Access checks are the only login of visitors of the path.
    fn rules_with_only_login(
        self,
        path: Option<&str>,
        tunnel: &'a TunnelSnapshot,
    ) -> impl Iterator<Item = &'a Rule> {
        let rules = tunnel.rules_taking(self.hostname.as_str(), path).into_iter();
        // An application for a wildcard protects one label, and the wildcard has deeper names too.
        let has_application = move |path| {
            let covering = self.covering_every_request(path);
            let is_covering =
                |own: OwnApplication<'_>| covering.iter().any(|one| one.id == own.application.id);
            !self.hostname.is_wildcard() && self.own_logins(path).any(is_covering)
        };
        rules.filter(move |rule| rule.requires_access() && !has_application(rule.path()))
    }
}

/// True if the publication decides about the requests that `open` and `closed` have in common: it takes all requests of
/// one of the two, and it asks to be open or its rule comes before `open`. The flag `is_own` says whether `open` is
/// ours.
fn is_answered_by(publication: &Publication, open: &Rule, is_own: bool, closed: &Rule) -> bool {
    let path = publication.path();
    [open, closed].iter().any(|rule| PathPattern::takes_all_of(path, rule.path()))
        && (publication.wanted_access == WantedAccess::Open
            || publication.rule.is_some() && comes_before(publication, open, is_own))
}

/// True if our rule comes before `open`: a rule that is known to take all requests of the publication comes later, and
/// so does a rule of ours for more names.
fn comes_before(publication: &Publication, open: &Rule, is_own: bool) -> bool {
    let (hostname, path) = (&publication.hostname, publication.path());
    open.covers(hostname.as_str(), path)
        || is_own && !open.has_hostname(hostname) && open.may_match(hostname.as_str(), path)
}

/// True if the rule serves visitors without a login.
fn is_open(rule: &Rule) -> bool {
    !is_status(rule.service()) && !rule.requires_access()
}
