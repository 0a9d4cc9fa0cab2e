//! Decides which foreign records and rules are taken over: by `ADOPT`, or because our record was deleted by hand.

use super::Host;
use super::accepted::Accepted;
use super::obstacle;
use crate::ingress::Document;
use crate::model::json::shown;
use crate::model::{NewRecord, Record, TunnelId};
use crate::reconcile::adopt::{Adopt, Need, smallest};
use crate::reconcile::heritage;
use crate::reconcile::plan::Adoption;
use crate::reconcile::snapshot::Placed;
use crate::reconcile::stamp::{Digest, Stamp};

/// The hostname with everything that is taken over for the `accepted` endpoints.
pub(super) fn with_adoptions<'a>(host: Host<'a>, accepted: &[Accepted<'_>]) -> Host<'a> {
    let adopt = &host.operator().adopt;
    let needs = needs_of_records(&host);
    let is_allowed = !accepted.is_empty() && *adopt != Adopt::default();
    let is_met = needs.is_some_and(|needs| needs.iter().all(|need| adopt.reaches(need)));
    let mut host = if is_allowed && is_met { with_records(host) } else { host };
    let taken_back: Vec<Placed<'a>> =
        accepted.iter().filter_map(|accepted| taken_back(&host, accepted)).collect();
    host.rules.extend(taken_back);
    if is_allowed && host.foreign_records.is_empty() && adopt.reaches(&need_of_rule(&host)) {
        let rules: Vec<Placed<'a>> =
            accepted.iter().flat_map(|accepted| rules_for(&host, accepted)).collect();
        host.rules.extend(&rules);
        host.adopted_rules.extend(rules);
    }
    host
}

/// The existing rule of an endpoint whose record was deleted by hand.
fn taken_back<'a>(host: &Host<'a>, accepted: &Accepted<'_>) -> Option<Placed<'a>> {
    let wanted = accepted.publication().rule.as_ref()?;
    let (id, _) = host.snapshot().tunnels.get_key_value(accepted.tunnel())?;
    let rule =
        host.rule_at(id, wanted.path_text()).filter(|rule| obstacle::takes_back(host, id, rule, wanted))?;
    is_free(host, &(id, rule)).then_some((id, rule))
}

/// True if the rule is not ours yet, and no other rule of the hostname has its digest.
fn is_free(host: &Host<'_>, (id, rule): &Placed<'_>) -> bool {
    host.own_rule(id, rule.path()).is_none() && obstacle::twin(host, id, rule.path()).is_none()
}

/// Adds the foreign records, with the rules that their stamps name.
fn with_records(mut host: Host<'_>) -> Host<'_> {
    for record in std::mem::take(&mut host.foreign_records) {
        let theirs = Stamp::of(record);
        let named = theirs.as_ref().map(|stamp| takable_rules(&host, stamp)).unwrap_or_default();
        host.rules.extend(&named);
        host.adopted_rules.extend(named);
        let stamp = host.stamp.take().unwrap_or_else(|| stamp_for(&host, theirs, record));
        host.stamp = Some(stamp);
        host.records.push(record);
        host.adopted_records.push(record);
    }
    host
}

/// The rules that a foreign record's stamp names and that are not ours yet.
fn takable_rules<'a>(host: &Host<'a>, stamp: &Stamp) -> Vec<Placed<'a>> {
    let rules = host.snapshot().rules_of(&host.hostname).into_iter();
    let is_named = |(id, rule): &Placed<'_>| stamp.claims.digests.contains(&Digest::of(id, rule.path()));
    rules.filter(|placed| is_named(placed) && is_free(host, placed)).collect()
}

/// The stamp for a foreign record: the record's own stamp with our owner and without digests that no rule has, or a new
/// stamp with the record's comment as its remark.
fn stamp_for(host: &Host<'_>, theirs: Option<Stamp>, record: &Record) -> Stamp {
    let owner = &*host.operator().owner;
    let mut stamp = theirs.unwrap_or_else(|| {
        let mut stamp = Stamp::new(owner);
        stamp.set_remark(&record.comment);
        stamp
    });
    stamp.owner = owner.into();
    stamp.claims = host.snapshot().existing_claims(host.name(), &stamp);
    stamp
}

/// The rules to take over for an accepted endpoint: in its tunnel, and in the tunnel that visitors reach now.
fn rules_for<'a>(host: &Host<'a>, accepted: &Accepted<'_>) -> Vec<Placed<'a>> {
    let Some(wanted) = &accepted.publication().rule else {
        return Vec::new();
    };
    let target = accepted.tunnel();
    let led_to = host.led_to().filter(|_| !host.adopted_records.is_empty());
    let other = led_to.or_else(|| obstacle::visited_instead_of(host, target).cloned());
    let is_meant = |id: &&TunnelId| *id == target || Some(*id) == other.as_ref();
    let tunnels = host.snapshot().tunnels.keys().filter(is_meant);
    let rules = tunnels.filter_map(|id| Some((id, host.rule_at(id, wanted.path_text())?)));
    rules.filter(|placed| is_free(host, placed)).collect()
}

/// The smallest mode of `ADOPT` that takes over a foreign rule at the path of a wanted rule.
pub(super) fn need_of_rule(host: &Host<'_>) -> Need {
    if host.has_record() || !host.foreign_records.is_empty() { Need::Tunnel } else { Need::All }
}

/// The needs of all foreign records; `None` if no value of `ADOPT` takes over one of them.
fn needs_of_records(host: &Host<'_>) -> Option<Vec<Need>> {
    let records = host.foreign_records.iter();
    let needs = records.map(|record| needs_of_record(host, record));
    Some(needs.collect::<Option<Vec<_>>>()?.concat())
}

fn needs_of_record(host: &Host<'_>, record: &Record) -> Option<Vec<Need>> {
    if record.read_only || &*record.record_type == "NS" {
        return None;
    }
    if let Some(stamp) = Stamp::of(record) {
        // A foreign record with our own owner points to a tunnel that another instance serves.
        let is_other = stamp.owner != host.operator().owner;
        return Some(vec![if is_other { Need::Owner(stamp.owner) } else { Need::All }]);
    }
    let found = heritage::records_of(host.zone, host.registry_names, record).into_iter();
    let owners: Vec<Need> = found.map(|(_, heritage)| Need::Owner(heritage.owner)).collect();
    if !owners.is_empty() {
        return Some(owners);
    }
    let tunnel = TunnelId::from_hostname(&record.content).filter(|_| record.is_cname());
    let is_takable =
        |id| host.snapshot().settings.is_configured(&id) || host.was_deleted(&id) == Some(&Ok(true));
    Some(vec![if tunnel.is_some_and(is_takable) { Need::Tunnel } else { Need::All }])
}

/// The smallest value of `ADOPT` that takes over the foreign records, and the foreign rule at the endpoint's path.
pub(super) fn smallest_value(host: &Host<'_>, accepted: &Accepted<'_>) -> Option<Box<str>> {
    let mut needs = needs_of_records(host)?;
    let tunnel = accepted.tunnel();
    let digest = accepted.digest();
    let mut stamps = host.foreign_records.iter().filter_map(|record| Stamp::of(record));
    // A rule that a record's stamp claims is taken over with its record.
    let is_claimed = digest.is_some_and(|digest| stamps.any(|stamp| stamp.claims.digests.contains(&digest)));
    let stands = digest.is_some() && host.rule_at(tunnel, accepted.path()).is_some();
    if stands && !is_claimed && host.own_rule(tunnel, accepted.path()).is_none() {
        needs.push(need_of_rule(host));
    }
    Some(smallest(&needs))
}

/// The records and rules that the stamp makes ours for the `accepted` endpoints, and the TXT records that it replaces.
pub(super) fn adoptions(host: &Host<'_>, accepted: &[Accepted<'_>]) -> Vec<Adoption> {
    let records = host.adopted_records.iter().copied().chain(replaced(host));
    let rules = host.adopted_rules.iter().map(|placed| rule_adoption(host, *placed, accepted));
    records.map(record_adoption).chain(rules).collect()
}

/// The registry's TXT records of the owners whose records are taken over. They are deleted, because the stamp replaces
/// them. A TXT record under an old name may describe several records.
pub(super) fn replaced<'a>(host: &Host<'a>) -> Vec<&'a Record> {
    let owners = &host.operator().adopt.owners;
    let found = host
        .adopted_records
        .iter()
        .flat_map(|record| heritage::records_of(host.zone, host.registry_names, record));
    let mut replaced = Vec::new();
    for (record, heritage) in found.filter(|(record, _)| !record.read_only) {
        if owners.contains(&heritage.owner) && !replaced.contains(&record) {
            replaced.push(record);
        }
    }
    replaced
}

fn record_adoption(record: &Record) -> Adoption {
    let Record { name, record_type, content, proxied, ttl, comment, .. } = record.clone();
    let whole = NewRecord { name, record_type: record_type.into(), content, proxied, ttl, comment };
    let json = serde_json::to_string(&whole).expect("texts, numbers and booleans are always JSON");
    Adoption { path: None, was: format!("record {}", shown(&json)), options: Vec::new() }
}

fn rule_adoption(host: &Host<'_>, (tunnel, rule): Placed<'_>, accepted: &[Accepted<'_>]) -> Adoption {
    let path = rule.path();
    let document = |tunnel| host.snapshot().tunnels.get(tunnel).map(|present| &present.document);
    let options = accepted.iter().find(|accepted| accepted.path() == path).and_then(|accepted| {
        let wanted = accepted.publication().rule.as_ref()?;
        Some(document(tunnel)?.lost_options(rule, document(accepted.tunnel())?, wanted))
    });
    // After the rule is deleted, only its number shows its position.
    let rules = document(tunnel).into_iter().flat_map(Document::rules);
    let number = rules.take_while(|other| !std::ptr::eq(*other, rule)).count() + 1;
    Adoption {
        path: Some(path.unwrap_or_default().into()),
        was: format!("rule {number} of tunnel {tunnel} {}", shown(rule.raw().get())),
        options: options.unwrap_or_default(),
    }
}
