//! Reads ExternalDNS's TXT records about a hostname that was not ours: the owner that they name, and what happens to
//! them when the hostname's records are taken over.

use super::Host;
use crate::model::Record;
use crate::reconcile::heritage::Heritage;
use crate::reconcile::snapshot::{ZoneSnapshot, is_address};
use crate::reconcile::stamp::Stamp;

/// The type in the name of a registry's TXT record: that of the record that we ask for.
const WANTED_TYPE: &str = "cname";

/// A TXT record of ExternalDNS's registry, with what it says.
type Found<'a> = (&'a Record, Heritage);

/// The TXT records of ExternalDNS's registry about a record without a stamp, in the hostname's zone.
/// `seen` are the names of such records in the request.
pub(super) fn of<'a>(zone: &'a ZoneSnapshot, seen: &[Box<str>], record: &Record) -> Vec<Found<'a>> {
    if Stamp::of(record).is_some() {
        return Vec::new();
    }
    let names = possible_names(seen, &record.name);
    let names = names.iter().filter(|(kind, _)| match kind {
        Some(kind) => record.kind.eq_ignore_ascii_case(kind),
        None => &*record.kind != "AAAA",
    });
    let records = names.flat_map(|(_, name)| zone.records_of(name));
    let texts = records.filter(|record| &*record.kind == "TXT");
    texts.filter_map(|record| Some((record, Heritage::parse(&record.content)?))).collect()
}

/// The object of a record of `name` that is in the way.
pub(in crate::reconcile::plan) fn resource(
    zone: &ZoneSnapshot,
    seen: &[Box<str>],
    name: &str,
) -> Option<Box<str>> {
    let records = zone.records_of(name).iter().filter(|record| is_address(record));
    let mut found = records.flat_map(|record| of(zone, seen, record));
    found.find_map(|(_, heritage)| heritage.resource)
}

/// The TXT records of the owners whose records are taken over. They go, because the stamp replaces them. One under an old
/// name may be about several records.
pub(super) fn replaced<'a>(host: &Host<'a>) -> Vec<&'a Record> {
    let owners = &host.policy().adopt.owners;
    let found = host.adopted_records.iter().flat_map(|record| of(host.zone, host.registry_names, record));
    let mut replaced = Vec::new();
    for (record, heritage) in found.filter(|(record, _)| !record.read_only) {
        if owners.contains(&heritage.owner) && !replaced.contains(&record) {
            replaced.push(record);
        }
    }
    replaced
}

/// The names under which ExternalDNS may keep the TXT records of `hostname`, each with the type of its record; names of
/// old releases contain no type. `seen` are the names in this request, which reveal its prefix and suffix; without any,
/// it has neither.
fn possible_names(seen: &[Box<str>], hostname: &str) -> Vec<(Option<&'static str>, String)> {
    let (label, parent) = hostname.split_once('.').unwrap_or((hostname, ""));
    let default = [format!("{WANTED_TYPE}-{hostname}").into()];
    let seen = if seen.is_empty() { &default } else { seen };
    let mut names = Vec::new();
    for name in seen {
        let rest = format!(".{parent}");
        let head = name.strip_suffix(&*rest).unwrap_or(name);
        let [found, in_label] = [head, label].map(|text| text.matches(WANTED_TYPE).count());
        if (found, in_label) != (1, 0) {
            // The type cannot be told from the rest, and another hostname's record must not be found.
            names.push(((found != in_label).then_some(WANTED_TYPE), name.to_string()));
            continue;
        }
        let with = |kind: &str| head.replacen(WANTED_TYPE, kind, 1) + &rest;
        names.extend([WANTED_TYPE, "a", "aaaa"].map(|kind| (Some(kind), with(kind))));
        // Without a template, the type stands before the label, with a dash.
        let dashed = format!("{WANTED_TYPE}-");
        let is_dashed = head.contains(&format!("{dashed}{label}"));
        names.push((None, if is_dashed { head.replacen(&dashed, "", 1) + &rest } else { with("") }));
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
            let names = possible_names(&[seen.into()], "cname.example.com");
            assert_eq!(names, [(kind, seen.to_owned())]);
        }
    }
}
