//! Finds the rules and records that answer a place's visitors.

use crate::ingress::{PathPattern, Rule, WantedRule, is_status};
use crate::model::hostname::is_below;
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::wanted::WantedAccess;
use crate::reconcile::canonical::Publication;
use crate::reconcile::reason::Reason;
use crate::reconcile::snapshot::{Snapshot, TunnelSnapshot};

/// The hostname. For a wildcard, also the names of records and rules that `counts` selects.
pub(super) fn names_of<'s>(
    hostname: &'s str,
    snapshot: &'s Snapshot,
    counts: &dyn Fn(&str) -> bool,
) -> Vec<&'s str> {
    let mut names = vec![hostname];
    if let Some(domain) = hostname.strip_prefix("*.") {
        let records = snapshot.zones.iter().flat_map(|zone| zone.records_within(domain));
        let records = records.map(|record| &*record.name);
        let rules = snapshot.all_rules().map(Rule::folded_hostname);
        names.extend(records.chain(rules).filter(|name| counts(name)));
        names.sort_unstable();
        names.dedup();
    }
    names
}

pub(super) fn tunnel_of<'s>(
    record: &Record,
    snapshot: &'s Snapshot,
) -> Option<(&'s TunnelId, &'s TunnelSnapshot)> {
    snapshot.tunnels.get_key_value(&TunnelId::from_hostname(&record.content)?)
}

/// The rules that may answer visitors of a path at a name, up to the first `last` rule that takes all these visitors.
pub(super) fn rules_taking<'s>(
    name: &str,
    path: Option<&str>,
    tunnel: &'s TunnelSnapshot,
    last: &dyn Fn(&Rule) -> bool,
) -> Vec<&'s Rule> {
    let rules = tunnel.document.near(name).map(|(_, rule)| rule);
    let mut taking: Vec<&Rule> = rules.filter(|rule| rule.may_match(name, path)).collect();
    if let Some(last) = taking.iter().position(|rule| rule.matches_all(name, path) && last(rule)) {
        taking.truncate(last + 1);
    }
    taking
}

impl<'a> HostProtection<'a> {
    /// The reason if the record, pointed to `tunnel` for `published`, would lead visitors to an open rule there, although
    /// the Access check of a rule is their only login now.
    pub(in crate::reconcile) fn leads_to_open_rule(
        self,
        tunnel: &TunnelId,
        published: &[&Publication],
    ) -> Option<Reason> {
        let Self { hostname, snapshot } = self;
        let visited = snapshot.visited_tunnel(hostname.as_str()).filter(|visited| visited != tunnel)?;
        let (from, to) = (snapshot.tunnels.get(&visited)?, snapshot.tunnels.get(tunnel)?);
        let (domain, own) = (hostname.as_str().trim_start_matches("*."), snapshot.own_digests());
        let record = |name: &str| snapshot.answering(name).first().map(|record| &record.id);
        let is_led_too = |name: &str| is_below(name, domain) && record(name) == record(hostname.as_str());
        let in_time: Vec<_> = published.iter().filter(|ours| self.is_closed_in_time(ours)).collect();
        names_of(hostname.as_str(), snapshot, &is_led_too).into_iter().find_map(|name| {
            let name = Hostname::parse(name).ok()?;
            let protection = HostProtection::of(&name, snapshot);
            let rules = rules_taking(name.as_str(), None, to, &|_| true).into_iter();
            let rule = rules.filter(|rule| is_open(rule)).find(|open| {
                let is_own = own.has(tunnel, open);
                let mut logins = protection.only_logins(open.path(), from);
                logins.any(|login| !in_time.iter().any(|ours| is_answered_by(ours, (open, is_own), login)))
            })?;
            Some(Reason::LeadsToOpenRule { visitors: name.as_str().into(), rule: rule.described().into() })
        })
    }

    /// True if the publication asks for no login before its rule is written, or has that login before. Without a record
    /// of its own, the hostname is led to the tunnel by a new record before the rule is written. Only an application, or
    /// the cover that the guard demands, closes the place before.
    fn is_closed_in_time(self, ours: &Publication) -> bool {
        let name = self.hostname.as_str();
        let has_record = || self.snapshot.answering(name).iter().any(|one| *one.name == *name);
        ours.wanted_access != WantedAccess::Unspecified
            || self.snapshot.operator().access_guard
            || has_record()
    }

    /// The rules of a tunnel whose Access checks are the only login of visitors of the path.
    fn only_logins(self, path: Option<&str>, tunnel: &'a TunnelSnapshot) -> impl Iterator<Item = &'a Rule> {
        let rules = rules_taking(self.hostname.as_str(), path, tunnel, &|_| true).into_iter();
        // An application for a wildcard protects one label, and the wildcard has deeper names too.
        let has_application =
            move |path| !self.hostname.is_wildcard() && self.own_covering(path).next().is_some();
        rules.filter(move |rule| rule.requires_access() && !has_application(rule.path()))
    }
}

/// True if the publication's rule takes the common requests of `open` and `closed`, and precedes `open` or is to open.
/// `open` comes with whether it is ours.
fn is_answered_by(
    Publication { hostname, rule, wanted_access, .. }: &Publication,
    (open, is_own): (&Rule, bool),
    closed: &Rule,
) -> bool {
    let path = rule.as_ref().and_then(WantedRule::path_text);
    // A rule that is known to take all requests of the publication comes later, and so does a rule of ours for more names.
    let is_own_wider = || is_own && !open.has_hostname(hostname) && open.may_match(hostname.as_str(), path);
    let comes_first = open.matches_all(hostname.as_str(), path) || is_own_wider();
    let takes_all = [open, closed].iter().any(|rule| PathPattern::matches_all_of(path, rule.path()));
    takes_all && (*wanted_access == WantedAccess::Open || rule.is_some() && comes_first)
}

/// True if the rule serves visitors without a login.
fn is_open(rule: &Rule) -> bool {
    !is_status(rule.service()) && !rule.requires_access()
}

pub(in crate::reconcile) fn rule_text(rule: &Rule) -> String {
    format!("{}{}", rule.hostname(), rule.path().unwrap_or_default())
}

pub(super) fn record_text(record: &Record) -> String {
    format!("{} {} {}", record.name, record.record_type, record.content)
}
