//! Finds the value of `ADOPT` that would allow taking over what is in the way.

use super::Desired;
use super::heritage;
use super::standing::Standing;
use crate::ingress::{Rule, WantedRule};
use crate::model::{Record, TunnelId};
use crate::reconcile::adopt::{Need, smallest};
use crate::reconcile::stamp::Stamp;

/// The needs of all records in the way; `None` if one of them stays whatever is set.
pub(super) fn needs_of_records(standing: &Standing<'_>, desired: &[Desired<'_>]) -> Option<Vec<Need>> {
    let records = standing.foreign_records.iter();
    let needs = records.map(|record| needs_of_record(standing, record, desired));
    Some(needs.collect::<Option<Vec<_>>>()?.concat())
}

fn needs_of_record(standing: &Standing<'_>, record: &Record, desired: &[Desired<'_>]) -> Option<Vec<Need>> {
    let settings = standing.settings();
    if record.read_only || &*record.kind == "NS" {
        return None;
    }
    if let Some(stamp) = Stamp::of(record) {
        // A record of our own owner leads to a tunnel of another instance, which goes on serving it.
        let is_other = stamp.owner != settings.policy.owner;
        return Some(vec![if is_other { Need::Owner(stamp.owner) } else { Need::All }]);
    }
    let found = heritage::of(standing, record).into_iter();
    let owners: Vec<Need> = found.map(|found| Need::Owner(found.heritage.owner)).collect();
    if !owners.is_empty() {
        return Some(owners);
    }
    let tunnel = settings.tunnel_of_target(&record.content).filter(|_| &*record.kind == "CNAME");
    Some(vec![match tunnel {
        Some(tunnel) if is_identical(standing, record, tunnel, desired) => Need::Identical,
        Some(_) => Need::Tunnel,
        None => Need::All,
    }])
}

/// True if the record and every rule already stand as desired.
fn is_identical(
    standing: &Standing<'_>,
    record: &Record,
    led_to: &TunnelId,
    desired: &[Desired<'_>],
) -> bool {
    let is_there = |desired: &Desired<'_>| match &desired.publication.rule {
        Some(wanted) => rule_in_place(standing, led_to, wanted)
            .is_some_and(|rule| need_of_rule(standing, led_to, rule, wanted) == Need::Identical),
        None => true,
    };
    record.proxied && desired.iter().all(|desired| desired.tunnel() == led_to && is_there(desired))
}

/// The need of a rule that stands where another is wanted.
pub(super) fn need_of_rule(
    standing: &Standing<'_>,
    tunnel: &TunnelId,
    rule: &Rule,
    wanted: &WantedRule,
) -> Need {
    let has_record = standing.has_record() || !standing.foreign_records.is_empty();
    if !has_record {
        Need::All
    } else if rule.equals_in_every_field(wanted) && !is_out_of_order(standing, tunnel, wanted) {
        Need::Identical
    } else {
        Need::Tunnel
    }
}

/// True if the rule, once ours, would be moved with the others of the request.
fn is_out_of_order(standing: &Standing<'_>, tunnel: &TunnelId, wanted: &WantedRule) -> bool {
    let is_wanted = |rule: &Rule| {
        rule.has_hostname(&standing.hostname)
            && standing
                .request
                .publications()
                .any(|other| other.tunnel == *tunnel && other.path() == rule.path())
    };
    let owned = standing.situation.owned.get(tunnel);
    owned.is_some_and(|owned| owned.and(&is_wanted).is_shadowed(&standing.hostname, wanted.path_text()))
}

/// The value of `ADOPT` that takes over the records, with their `needs`, and the rule in the way of the `desired`
/// endpoint.
pub(super) fn smallest_value(standing: &Standing<'_>, needs: &[Need], desired: &Desired<'_>) -> Box<str> {
    let tunnel = desired.tunnel();
    let in_the_way = desired.publication.rule.as_ref().and_then(|wanted| {
        let digest = desired.digest()?;
        let mut stamps = standing.foreign_records.iter().filter_map(|record| Stamp::of(record));
        // A rule that a record's stamp claims is taken over with its record.
        let is_claimed = stamps.any(|stamp| stamp.claims.rules.contains(&digest));
        let rule = rule_in_place(standing, tunnel, wanted).filter(|_| !is_claimed)?;
        Some(need_of_rule(standing, tunnel, rule, wanted))
    });
    smallest(&needs.iter().cloned().chain(in_the_way).collect::<Vec<_>>())
}

/// The rule at the place of the wanted one.
pub(super) fn rule_in_place<'a>(
    standing: &Standing<'a>,
    tunnel: &TunnelId,
    wanted: &WantedRule,
) -> Option<&'a Rule> {
    standing.rules_of(tunnel).into_iter().find(|rule| rule.path() == wanted.path_text())
}
