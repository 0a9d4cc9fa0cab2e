//! Finds the rules and records that answer a place's visitors.

use crate::ingress::Rule;
use crate::model::{Record, TunnelId};
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
        let rules = snapshot.all_rules().map(|(_, rule)| rule.folded_hostname());
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
    snapshot.tunnels.get_key_value(&record.tunnel()?)
}

/// The rules that may answer visitors of a path at a name, up to the first rule that takes all these visitors.
pub(crate) fn rules_taking<'s>(name: &str, path: Option<&str>, tunnel: &'s TunnelSnapshot) -> Vec<&'s Rule> {
    rules_taking_until(name, path, tunnel, &|_| true)
}

/// As [`rules_taking`], up to the first such rule for which `is_last` is true.
pub(crate) fn rules_taking_until<'s>(
    name: &str,
    path: Option<&str>,
    tunnel: &'s TunnelSnapshot,
    is_last: &dyn Fn(&Rule) -> bool,
) -> Vec<&'s Rule> {
    let rules = tunnel.document.near(name);
    let mut taking: Vec<&Rule> = rules.filter(|rule| rule.may_match(name, path)).collect();
    if let Some(last) = taking.iter().position(|rule| rule.matches_all(name, path) && is_last(rule)) {
        taking.truncate(last + 1);
    }
    taking
}

pub(crate) fn rule_text(rule: &Rule) -> String {
    format!("{}{}", rule.hostname(), rule.path().unwrap_or_default())
}

pub(super) fn record_text(record: &Record) -> String {
    format!("{} {} {}", record.name, record.record_type, record.content)
}
