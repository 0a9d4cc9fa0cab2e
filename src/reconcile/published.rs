//! Shows the published paths of one hostname.

use crate::model::Hostname;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::snapshot::Snapshot;

const NO_RULE: &str = "the record's comment names no rule that exists";

/// One path of a published hostname, or its record alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPath {
    /// Empty for a rule without a path, and for a record without a rule.
    pub path: Box<str>,
    /// The object that the record's comment names.
    pub resource: Option<Box<str>>,
    /// The service, the tunnel, the record, and the Access applications that protect the path.
    pub what: String,
    /// True if the rule exists and the record points to its tunnel, or if a record without a rule is asked for.
    pub is_served: bool,
}

/// Everything of ours for `hostname`, as it was read.
pub fn published(hostname: &Hostname, snapshot: &Snapshot) -> Vec<PublishedPath> {
    let mut found = Vec::new();
    for own in snapshot.own_records_of(hostname.as_str()) {
        let (record, stamp) = (own.record, own.stamp);
        let mut add = |path: Option<&str>, is_served, what: String| {
            let mut what = format!("{what}; record {} {:?}", record.record_type, record.content);
            what += if record.proxied { "" } else { ", not proxied" };
            let logins = HostProtection::of(hostname, snapshot).known_logins(path);
            let names: Vec<&str> = logins.iter().map(|application| &*application.name).collect();
            if !names.is_empty() {
                what += &format!("; protected by {names:?}");
            }
            let path = path.unwrap_or_default().into();
            let resource = stamp.resource.clone();
            found.push(PublishedPath { path, resource, what, is_served });
        };
        let rules = snapshot.rules_claimed_by(hostname, &stamp);
        if stamp.claims.record_only {
            add(None, true, "a record without a rule, as it is asked for".to_owned());
        } else if rules.is_empty() {
            add(None, false, NO_RULE.to_owned());
        }
        for (tunnel, rule) in rules {
            let what = format!("{:?} through tunnel {}", rule.service(), snapshot.settings.name_of(tunnel));
            add(rule.path(), record.tunnel().as_ref() == Some(tunnel), what);
        }
    }
    found
}
