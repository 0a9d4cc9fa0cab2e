//! Shows what is published of one hostname.

use crate::model::{Hostname, TunnelId};
use crate::reconcile::Settings;
use crate::reconcile::access::guard::protectors;
use crate::reconcile::snapshot::Snapshot;

/// One path of a published hostname, or its record alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub path: Option<Box<str>>,
    /// The object that the record's comment names.
    pub resource: Option<Box<str>>,
    /// The service, the tunnel, the record, and the Access applications that protect it.
    pub what: String,
    /// The rule is there and the record leads to it, or a record alone is asked for.
    pub stands: bool,
}

/// Everything of ours for `hostname`, as it was read.
pub fn published(hostname: &Hostname, snapshot: &Snapshot, settings: &Settings) -> Vec<Published> {
    let mut found = Vec::new();
    for own in snapshot.own_records_of(hostname.as_str(), settings) {
        let (record, stamp) = (own.record, own.stamp);
        let mut add = |path: Option<&str>, stands, what: String| {
            let mut what = format!("{what}; record {} {:?}", record.kind, record.content);
            what += if record.proxied { "" } else { ", not proxied" };
            let protectors = protectors(hostname, path, snapshot);
            if !protectors.is_empty() {
                what += &format!("; protected by {protectors:?}");
            }
            found.push(Published {
                path: path.map(Into::into),
                resource: stamp.resource.clone(),
                what,
                stands,
            });
        };
        let rules = snapshot.rules_named(hostname, &stamp);
        if stamp.claims.record_only {
            add(None, true, "a record without a rule, as it is asked for".to_owned());
        } else if rules.is_empty() {
            add(
                None,
                false,
                "the record's comment names no rule that is there, which a loop repairs".to_owned(),
            );
        }
        for (tunnel, rule) in rules {
            let stands = TunnelId::from_hostname(&record.content).as_ref() == Some(tunnel);
            add(
                rule.path(),
                stands,
                format!("{:?} through tunnel {}", rule.service(), settings.name_of(tunnel)),
            );
        }
    }
    found
}
