//! Decides which foreign records and rules are taken over: by `ADOPT`, or because our record was deleted by hand.

use std::collections::BTreeSet;

use super::{Host, HostRule, Ownership};
use crate::collections::collect;
use crate::ingress::Document;
use crate::model::json::masked_json;
use crate::model::{NewRecord, Record};
use crate::reconcile::access::gate::Gated;
use crate::reconcile::adopt::{Need, smallest};
use crate::reconcile::heritage;
use crate::reconcile::plan::planned::Adoption;
use crate::reconcile::stamp::{Digest, Stamp};

/// The hostname with everything that is taken over for the `accepted` endpoints.
pub(super) fn with_adoptions<'a>(host: Host<'a>, accepted: &[&Gated]) -> Host<'a> {
    let adopt = &host.operator().adopt;
    let needs = needs_of_records(&host);
    let is_allowed = needs.is_some_and(|needs| needs.iter().all(|need| adopt.allows(need)));
    let mut host = if is_allowed && !accepted.is_empty() { with_records(host) } else { host };
    let reclaimed = collect(accepted.iter().filter_map(|gated| reclaimed(&host, gated)));
    mark_foreign(&mut host, &reclaimed, Ownership::Ours);
    if host.foreign_records.is_empty() && adopt.allows(&need_of_rule(&host)) {
        let with_rule = accepted.iter().filter(|gated| gated.rule().is_some());
        let adopted = collect(with_rule.flat_map(|gated| digests_to_adopt(&host, gated)));
        mark_foreign(&mut host, &adopted, Ownership::Adopted);
    }
    host
}

/// Gives the foreign rules with these digests another ownership. Rules that share a digest are `Ambiguous`, so none of
/// them changes.
fn mark_foreign(host: &mut Host<'_>, digests: &BTreeSet<Digest>, ownership: Ownership) {
    let foreign = host.rules.iter_mut().filter(|rule| rule.ownership == Ownership::Foreign);
    foreign.filter(|rule| digests.contains(&rule.digest)).for_each(|rule| rule.ownership = ownership);
}

/// The digest of the endpoint's present rule, if the rule counts as ours without a stamp: it is as wanted, and its
/// hostname has no record, so our record was deleted by hand. A rule that visitors reach through another record does
/// not count.
fn reclaimed(host: &Host<'_>, gated: &Gated) -> Option<Digest> {
    let wanted = gated.rule()?;
    let present = host.rule_at(gated.tunnel(), gated.path())?;
    let points_there = |record: &Record| record.tunnel().as_ref() == Some(present.tunnel);
    let is_reached_below = || {
        let domain = host.name().strip_prefix("*.");
        let zones = host.snapshot().zones.iter();
        let mut below =
            zones.flat_map(|zone| domain.map(|domain| zone.records_within(domain)).unwrap_or_default());
        below.any(|record| domain != Some(&*record.name) && points_there(record))
    };
    let is_ours = host.has_no_record()
        && present.rule.equals_in_every_field(wanted)
        && !host.zone.answering(host.name()).iter().any(points_there)
        && !is_reached_below();
    is_ours.then_some(present.digest)
}

/// Adds the foreign records, with the rules that their stamps name.
fn with_records(mut host: Host<'_>) -> Host<'_> {
    host.adopted_records = std::mem::take(&mut host.foreign_records);
    let stamps: Vec<Option<Stamp>> = host.adopted_records.iter().map(|record| Stamp::of(record)).collect();
    for stamp in stamps.iter().flatten() {
        mark_foreign(&mut host, &stamp.claims.digests, Ownership::Adopted);
    }
    if host.stamp.is_none() {
        host.stamp = stamps.into_iter().next().map(|first| stamp_for(&host, first));
    }
    host
}

/// The stamp for foreign records: the stamp of the first one, in our name and without digests that no rule has; or, if
/// the first one has none, a new stamp with the comments of the records as its remark.
fn stamp_for(host: &Host<'_>, theirs: Option<Stamp>) -> Stamp {
    let owner = &*host.operator().owner;
    let mut stamp = theirs.unwrap_or_else(|| {
        let unstamped = host.adopted_records.iter().filter(|record| Stamp::of(record).is_none());
        let comments = unstamped.map(|record| record.comment.trim());
        let mut comments: Vec<&str> = comments.filter(|comment| !comment.is_empty()).collect();
        comments.dedup();
        let mut stamp = Stamp::new(owner);
        stamp.set_remark(&comments.join("; "));
        stamp
    });
    stamp.owner = owner.into();
    stamp.claims = host.snapshot().existing_claims(&host.hostname, &stamp);
    stamp
}

/// The digests of the rules to take over for an endpoint: in its tunnel, and in the tunnel of a record that is taken
/// over.
fn digests_to_adopt(host: &Host<'_>, gated: &Gated) -> Vec<Digest> {
    let visited = if host.adopts_records() { host.record_tunnel() } else { None };
    let tunnels = [Some(gated.tunnel()), visited.as_ref()].into_iter().flatten();
    tunnels.filter_map(|tunnel| Some(host.rule_at(tunnel, gated.path())?.digest)).collect()
}

/// The smallest mode of `ADOPT` that takes over a foreign rule of the hostname.
pub(super) fn need_of_rule(host: &Host<'_>) -> Need {
    if host.has_no_record() { Need::All } else { Need::Tunnel }
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
        return Some(vec![Need::of_stamp(&stamp, &host.operator().owner)]);
    }
    let found = heritage::registry_records_about(host.zone, host.registry_names, record).into_iter();
    let owners: Vec<Need> = found.map(|(_, heritage)| Need::Owner(heritage.owner)).collect();
    if !owners.is_empty() {
        return Some(owners);
    }
    let tunnel = record.tunnel().filter(|_| record.is_cname());
    let is_takable = tunnel.is_some_and(|id| host.snapshot().settings.is_configured(&id));
    Some(vec![if is_takable { Need::Tunnel } else { Need::All }])
}

/// The smallest value of `ADOPT` that takes over the foreign records, and the foreign rule at the endpoint's path.
pub(super) fn smallest_value(host: &Host<'_>, gated: &Gated) -> Option<Box<str>> {
    let mut needs = needs_of_records(host)?;
    // A rule that a record's stamp claims is taken over with its record.
    let comes_with_record = |rule: &HostRule<'_>| {
        let mut stamps = host.foreign_records.iter().filter_map(|record| Stamp::of(record));
        stamps.any(|stamp| stamp.claims.digests.contains(&rule.digest))
    };
    let present = gated.digest().and_then(|_| host.rule_at(gated.tunnel(), gated.path()));
    if present.is_some_and(|rule| !rule.is_stamped() && !comes_with_record(rule)) {
        needs.push(need_of_rule(host));
    }
    Some(smallest(&needs))
}

/// The records and rules that the stamp makes ours for the `accepted` endpoints, and the TXT records that it replaces.
pub(super) fn adoptions(host: &Host<'_>, accepted: &[&Gated]) -> Vec<Adoption> {
    let records = host.adopted_records.iter().copied().chain(replaced_registry_records(host));
    let rules = host.adopted_rules().map(|rule| rule_adoption(host, rule, accepted));
    records.map(record_adoption).chain(rules).collect()
}

/// The registry's TXT records of the owners whose records are taken over. They are deleted, because the stamp replaces
/// them. A TXT record under an old name may describe several records.
pub(super) fn replaced_registry_records<'a>(host: &Host<'a>) -> Vec<&'a Record> {
    let owners = &host.operator().adopt.owners;
    let records = host.adopted_records.iter();
    let found =
        records.flat_map(|record| heritage::registry_records_about(host.zone, host.registry_names, record));
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
    Adoption { digest: None, path: None, was: format!("record {}", masked_json(&json)), options: Vec::new() }
}

fn rule_adoption(host: &Host<'_>, taken: &HostRule<'_>, accepted: &[&Gated]) -> Adoption {
    let HostRule { tunnel, rule, digest, .. } = *taken;
    let path = rule.path();
    let document = |tunnel| host.snapshot().tunnels.get(tunnel).map(|present| &present.document);
    let options = accepted.iter().find(|gated| gated.path() == path).and_then(|gated| {
        let wanted = gated.rule()?;
        Some(document(tunnel)?.lost_options(rule, document(gated.tunnel())?, wanted))
    });
    // After the rule is deleted, only its number shows its position.
    let rules = document(tunnel).into_iter().flat_map(Document::rules);
    let number = rules.take_while(|other| !std::ptr::eq(*other, rule)).count() + 1;
    Adoption {
        digest: Some(digest),
        path: path.map(Into::into),
        was: format!("rule {number} of tunnel {tunnel} {}", masked_json(rule.raw().get())),
        options: options.unwrap_or_default(),
    }
}
