//! Reads ExternalDNS's TXT records about a hostname that was not ours: the owner that they name, and what happens to
//! them when the hostname's records are taken over.

use super::Host;
use crate::model::Record;
use crate::reconcile::Note;
use crate::reconcile::heritage::Heritage;
use crate::reconcile::plan::RecordOperation;
use crate::reconcile::snapshot::ZoneSnapshot;
use crate::reconcile::stamp::Stamp;

/// The type in the name of a registry's TXT record: that of the record that we ask for.
const WANTED_TYPE: &str = "cname";

/// A TXT record of ExternalDNS's registry.
pub(super) struct Found<'a> {
    zone: &'a ZoneSnapshot,
    record: &'a Record,
    pub(super) heritage: Heritage,
}

/// The TXT records of ExternalDNS's registry about a record without a stamp.
pub(super) fn of<'a>(host: &Host<'a>, record: &Record) -> Vec<Found<'a>> {
    if Stamp::of(record).is_some() {
        return Vec::new();
    }
    let names = registry_names(host.registry_names, host.name());
    let names = names.iter().filter(|(kind, _)| match kind {
        Some(kind) => record.kind.eq_ignore_ascii_case(kind),
        None => &*record.kind != "AAAA",
    });
    names
        .filter_map(|(_, name)| Some((host.snapshot().zone_of(name)?, name)))
        .flat_map(|(zone, name)| zone.records_of(name).iter().map(move |record| (zone, record)))
        .filter(|(_, record)| &*record.kind == "TXT")
        .filter_map(|(zone, record)| {
            Some(Found { zone, record, heritage: Heritage::parse(&record.content)? })
        })
        .collect()
}

/// The object of a record in the way.
pub(super) fn resource(host: &Host<'_>) -> Option<Box<str>> {
    let found = host.foreign_records.iter().flat_map(|record| of(host, record));
    found.filter_map(|found| found.heritage.resource).next()
}

/// Deletes the TXT records of the owners whose records are taken over, because the stamp replaces them. One under an old
/// name may be about several records.
pub(super) fn deletions(host: &Host<'_>) -> Vec<RecordOperation> {
    let going =
        adopted(host).filter(|found| found.zone.zone.id == host.zone.zone.id && !found.record.read_only);
    let mut deletions = Vec::new();
    for deletion in going.map(|found| RecordOperation::delete(found.record)) {
        if !deletions.contains(&deletion) {
            deletions.push(deletion);
        }
    }
    deletions
}

/// Notes about those that stay because they are in another zone.
pub(super) fn left(host: &Host<'_>) -> impl Iterator<Item = Note> {
    adopted(host).filter(|found| found.zone.zone.id != host.zone.zone.id).map(
        |Found { zone, record, .. }| {
            host.note(format!(
            "is taken over, and ExternalDNS's TXT record {:?} of it is left in the zone {}: delete it there",
            record.name, zone.zone.name
        ))
        },
    )
}

/// The TXT records of what is taken over.
fn adopted<'a>(host: &Host<'a>) -> impl Iterator<Item = Found<'a>> {
    let owners = &host.policy().adopt.owners;
    let found = host.adopted_records.iter().flat_map(|record| of(host, record));
    found.filter(|found| owners.contains(&found.heritage.owner))
}

/// The names under which ExternalDNS may keep the TXT records of `hostname`, each with the type of its record; names of
/// old releases contain no type. `seen` are the names in this request, which reveal its prefix and suffix; without any,
/// it has neither.
fn registry_names(seen: &[Box<str>], hostname: &str) -> Vec<(Option<&'static str>, String)> {
    if seen.is_empty() {
        let typed = [WANTED_TYPE, "a", "aaaa"].map(|kind| (Some(kind), format!("{kind}-{hostname}")));
        return typed.into_iter().chain([(None, hostname.to_owned())]).collect();
    }
    let (label, parent) = hostname.split_once('.').unwrap_or((hostname, ""));
    let mut names = Vec::new();
    for name in seen {
        let rest = format!(".{parent}");
        let head = name.strip_suffix(&*rest).unwrap_or(name);
        let in_label = label.matches(WANTED_TYPE).count();
        match (head.matches(WANTED_TYPE).count(), in_label) {
            (found, in_label) if found == in_label => names.push((None, name.to_string())),
            (1, _) => {
                let with = |kind: &str| head.replacen(WANTED_TYPE, kind, 1) + &rest;
                names.push((Some(WANTED_TYPE), name.to_string()));
                names.extend(["a", "aaaa"].map(|kind| (Some(kind), with(kind))));
                // Without a template, the type stands before the label, with a dash.
                let dashed = format!("{WANTED_TYPE}-");
                let untyped = if head.contains(&format!("{dashed}{label}")) {
                    head.replacen(&dashed, "", 1) + &rest
                } else {
                    with("")
                };
                names.push((None, untyped));
            }
            // The type cannot be told from the rest, and another hostname's record must not be found.
            _ => names.push((Some(WANTED_TYPE), name.to_string())),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a-cname.example.com` is the TXT record of another hostname.
    #[test]
    fn a_type_that_cannot_be_told_from_the_hostname_leads_to_no_other_name() {
        for (seen, kind) in [("cname-cname.example.com", Some("cname")), ("x-cname.example.com", None)] {
            let names = registry_names(&[seen.into()], "cname.example.com");
            assert_eq!(names, [(kind, seen.to_owned())]);
        }
    }
}
