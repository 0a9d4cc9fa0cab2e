//! What of a hostname `ADOPT` takes over. Merged into the [`Host`], it is planned for as if it were ours; only the order
//! differs: a rule that is taken over is not changed before its digest is stamped.

use std::collections::BTreeSet;

use crate::ingress::{Rule, WantedRule};
use crate::model::{Record, RecordId, TunnelId};
use crate::reconcile::adopt::{Adopt, Need, smallest};
use crate::reconcile::claim_state::ClaimState;
use crate::reconcile::heritage::Heritage;
use crate::reconcile::plan::host::{Host, Wanted, digest_of};
use crate::reconcile::plan::{Adoption, RecordOperation};
use crate::reconcile::snapshot::ZoneSnapshot;
use crate::reconcile::stamp::{Digest, Stamp, TxtStamp};
use crate::reconcile::{Note, Ownership, Policy};

/// The type in the name of a registry's TXT record: that of the record we ask for.
const WANTED_TYPE: &str = "cname";

/// What is taken over.
#[derive(Clone, Debug, Default)]
pub(super) struct Adopted<'a> {
    pub(super) records: Vec<&'a Record>,
    rules: Vec<(TunnelId, &'a Rule)>,
    /// Those of the rules, and those in the records' stamps. None of them is in a stamp of ours yet.
    digests: BTreeSet<Digest>,
    /// Of these the rules are as they are wanted, and are taken over only so.
    kept: BTreeSet<Digest>,
}

impl Adopted<'_> {
    pub(super) fn is_kept(&self, digest: Digest) -> bool {
        self.kept.contains(&digest)
    }
}

impl<'a> Host<'a> {
    /// The host with what may be taken over for the sake of `wanted`.
    pub(super) fn adopting(mut self, wanted: &[Wanted<'_>]) -> Self {
        let adopt = &self.settings.policy.adopt;
        if wanted.is_empty() || *adopt == Adopt::default() {
            return self;
        }
        let needs = self.needs_of_records(wanted);
        if !needs.is_some_and(|needs| needs.iter().all(|need| adopt.reaches(need))) {
            return self;
        }
        if !self.foreign_records.is_empty() {
            self.adopt_records();
        }
        for wanted in wanted {
            self.adopt_rules(wanted);
        }
        self
    }

    fn adopt_records(&mut self) {
        let records = std::mem::take(&mut self.foreign_records);
        for record in &records {
            self.merge_stamp(record);
        }
        self.own_records.extend(&records);
        self.adopted.records = records;
        let stamped = std::mem::take(&mut self.states);
        self.states = self.states();
        self.adopted.digests =
            self.states.keys().filter(|digest| !stamped.contains_key(digest)).copied().collect();
    }

    /// The host without anything taken over.
    pub(super) fn as_it_stands(&self) -> Self {
        let Self { snapshot, settings, zone, hostname, request, owned, obstacles, .. } = self;
        Self { obstacles, ..Self::new(snapshot, settings, zone, hostname.clone(), request, owned) }
    }

    /// Another owner's claims become ours; what somebody wrote into the comment becomes our stamp's remark.
    fn merge_stamp(&mut self, record: &Record) {
        let theirs = Stamp::of(record);
        match (&mut self.stamp, theirs) {
            (Some(stamp), Some(theirs)) => {
                stamp.claims.merge(&theirs.claims);
            }
            (Some(_), None) => {}
            (None, Some(mut theirs)) => {
                theirs.owner = self.settings.policy.owner.clone();
                self.stamp = Some(theirs);
            }
            (None, None) => {
                let mut stamp = Stamp::new(&self.settings.policy.owner);
                stamp.set_remark(&record.comment);
                self.stamp = Some(stamp);
            }
        }
    }

    /// Takes the rules over that stand where `wanted` is to stand, also where the record leads now.
    fn adopt_rules(&mut self, wanted: &Wanted<'_>) {
        let (Some(rule), publication) = (&wanted.publication.rule, wanted.publication) else {
            return;
        };
        let led_to = self.led_to().filter(|_| !self.adopted.records.is_empty());
        let other = led_to.filter(|led_to| *led_to != publication.tunnel);
        let other = other.or_else(|| self.visited_instead_of(&publication.tunnel));
        for tunnel in [publication.tunnel.clone()].into_iter().chain(other) {
            let digest = Digest::of(&tunnel, rule.path_text());
            let is_takable = !self.has(digest) && self.twin(&tunnel, rule.path_text()).is_none();
            let Some(standing) = self.standing(&tunnel, rule).filter(|_| is_takable) else {
                continue;
            };
            let need = if tunnel == publication.tunnel || !self.has_record() {
                self.need_of_rule(&tunnel, standing, rule)
            } else {
                Need::Tunnel
            };
            if self.takes_back(&tunnel, standing, rule) || !self.settings.policy.adopt.reaches(&need) {
                continue;
            }
            if need == Need::Identical && !self.settings.policy.adopt.reaches(&Need::Tunnel) {
                self.adopted.kept.insert(digest);
            }
            self.adopted.digests.insert(digest);
            self.adopted.rules.push((tunnel.clone(), standing));
            self.states.insert(digest, ClaimState::Standing { tunnel, rule: standing });
        }
    }

    fn standing(&self, tunnel: &TunnelId, wanted: &WantedRule) -> Option<&'a Rule> {
        self.rules_of(tunnel).into_iter().find(|rule| rule.path() == wanted.path_text())
    }

    /// Whether a stamp of ours names the digest.
    pub(super) fn is_stamped(&self, digest: Digest) -> bool {
        self.has(digest) && !self.adopted.digests.contains(&digest)
    }

    /// What it takes to take over every record in the way; nothing where one of them stays whatever is set.
    pub(super) fn needs_of_records(&self, wanted: &[Wanted<'_>]) -> Option<Vec<Need>> {
        let needs = self.foreign_records.iter().map(|record| self.needs_of_record(record, wanted));
        Some(needs.collect::<Option<Vec<_>>>()?.concat())
    }

    fn needs_of_record(&self, record: &Record, wanted: &[Wanted<'_>]) -> Option<Vec<Need>> {
        if record.read_only || &*record.kind == "NS" {
            return None;
        }
        if let Some(stamp) = Stamp::of(record) {
            // One of our own owner leads to a tunnel of another instance, which goes on serving it.
            let is_other = stamp.owner != self.settings.policy.owner;
            return Some(vec![if is_other { Need::Owner(stamp.owner) } else { Need::All }]);
        }
        let owners: Vec<Need> =
            self.heritage_of(record).into_iter().map(|found| Need::Owner(found.heritage.owner)).collect();
        if !owners.is_empty() {
            return Some(owners);
        }
        let tunnel = self.settings.tunnel_of_target(&record.content).filter(|_| &*record.kind == "CNAME");
        Some(vec![match tunnel {
            Some(tunnel) if self.is_identical(record, tunnel, wanted) => Need::Identical,
            Some(_) => Need::Tunnel,
            None => Need::All,
        }])
    }

    /// Whether the record and every rule stand already as they are wanted.
    fn is_identical(&self, record: &Record, led_to: &TunnelId, wanted: &[Wanted<'_>]) -> bool {
        let is_there = |wanted: &Wanted<'_>| match &wanted.publication.rule {
            Some(rule) => self
                .standing(led_to, rule)
                .is_some_and(|standing| self.need_of_rule(led_to, standing, rule) == Need::Identical),
            None => true,
        };
        record.proxied && wanted.iter().all(|wanted| wanted.publication.tunnel == *led_to && is_there(wanted))
    }

    /// What it takes to take over a rule that stands where another is wanted.
    pub(super) fn need_of_rule(&self, tunnel: &TunnelId, rule: &Rule, wanted: &WantedRule) -> Need {
        let has_record = self.has_record() || !self.foreign_records.is_empty();
        if !has_record {
            Need::All
        } else if rule.equals_in_every_field(wanted) && !self.is_out_of_order(tunnel, wanted) {
            Need::Identical
        } else {
            Need::Tunnel
        }
    }

    /// Whether the rule would be moved once it were ours, with the others of the request.
    fn is_out_of_order(&self, tunnel: &TunnelId, wanted: &WantedRule) -> bool {
        let is_wanted = |rule: &Rule| {
            let mut publications =
                self.request.wanted.iter().filter_map(|wanted| wanted.publication.as_ref().ok());
            rule.has_hostname(&self.hostname)
                && publications.any(|wanted| wanted.tunnel == *tunnel && wanted.path() == rule.path())
        };
        let owned = self.owned.get(tunnel);
        owned.is_some_and(|owned| owned.and(&is_wanted).is_shadowed(&self.hostname, wanted.path_text()))
    }

    /// The value of `ADOPT` that takes over the records, which need `needs`, and the rule in the way of `wanted`.
    pub(super) fn smallest_value(&self, needs: &[Need], wanted: &Wanted<'_>) -> Box<str> {
        let tunnel = &wanted.publication.tunnel;
        let in_the_way = wanted.publication.rule.as_ref().and_then(|rule| {
            let digest = digest_of(wanted)?;
            let mut stamps = self.foreign_records.iter().filter_map(|record| Stamp::of(record));
            // It comes with its record.
            let is_claimed = stamps.any(|stamp| stamp.claims.rules.contains(&digest));
            let standing = self.standing(tunnel, rule).filter(|_| !is_claimed)?;
            Some(self.need_of_rule(tunnel, standing, rule))
        });
        smallest(&needs.iter().cloned().chain(in_the_way).collect::<Vec<_>>())
    }

    /// What becomes ours, and the comments that the records had.
    pub(super) fn adoptions(&self, wanted: &[Wanted<'_>]) -> (Vec<Adoption>, Vec<(RecordId, Box<str>)>) {
        let Adopted { records, rules, digests: _, kept: _ } = &self.adopted;
        let mut adoptions = Vec::new();
        for Record { kind, content, comment, .. } in records {
            let mut was = format!("record {kind} {content:?}");
            if !comment.is_empty() {
                was.push_str(&format!(" with the comment {comment:?}"));
            }
            adoptions.push(Adoption { path: None, was });
        }
        for (tunnel, rule) in rules {
            if wanted.iter().any(|wanted| wanted.publication.path() == rule.path()) {
                adoptions.push(rule_adoption(tunnel, rule));
            }
        }
        let comments = records.iter().map(|record| (record.id.clone(), record.comment.clone()));
        (adoptions, comments.collect())
    }

    /// Deletes ExternalDNS's TXT records of the owners whose records are taken over: the stamp says what they did. Where
    /// such records are stored, those that are asked for again are taken over with their hostname, unless somebody else
    /// stored them.
    pub(super) fn heritage_deletions(&self) -> impl Iterator<Item = RecordOperation> + use<> {
        let Policy { owner, ownership, .. } = &self.settings.policy;
        let stays = |txt: &Record| {
            *ownership == Ownership::Txt
                && TxtStamp::parse(&txt.comment).is_none_or(|stamp| stamp.owner == *owner)
                && self.request.txts.iter().any(|asked_for| asked_for.name == txt.name)
        };
        let mut deletions: Vec<RecordOperation> = Vec::new();
        for (zone, txt) in self.txts_adopted() {
            let is_home = zone.zone.id == self.zone.zone.id;
            // One under an old name speaks of several records.
            let deletion = RecordOperation::delete(txt);
            if is_home && !txt.read_only && !stays(txt) && !deletions.contains(&deletion) {
                deletions.push(deletion);
            }
        }
        deletions.into_iter()
    }

    /// Those of them that are in another zone, and so stay.
    pub(super) fn heritage_left(&self) -> Vec<Note> {
        let txts = self.txts_adopted().into_iter();
        txts.filter(|(zone, _)| zone.zone.id != self.zone.zone.id)
            .map(|(zone, txt)| Note {
                hostname: self.hostname.as_str().into(),
                resource: self.resource(),
                text: format!(
                    "is taken over, and ExternalDNS's TXT record {:?} of it is left in the zone {}: delete it there",
                    txt.name, zone.zone.name
                ),
            })
            .collect()
    }

    /// ExternalDNS's TXT records of what is taken over, found by what they say, or stored by whoever had it.
    fn txts_adopted(&self) -> Vec<(&'a ZoneSnapshot, &'a Record)> {
        let Policy { owner, adopt, .. } = &self.settings.policy;
        let mut txts: Vec<_> = self.heritage_adopted().map(|found| (found.zone, found.record)).collect();
        for stamp in self.adopted.records.iter().filter_map(|record| Stamp::of(record)) {
            if stamp.owner != *owner && adopt.owners.contains(&stamp.owner) {
                txts.extend(self.snapshot.txts_of(self.hostname.as_str(), &stamp.owner));
            }
        }
        txts
    }

    /// ExternalDNS's TXT records of what is taken over.
    fn heritage_adopted(&self) -> impl Iterator<Item = Found<'a>> {
        let found = self.adopted.records.iter().flat_map(|record| self.heritage_of(record));
        found.filter(|found| self.settings.policy.adopt.owners.contains(&found.heritage.owner))
    }

    /// The object that ExternalDNS's registry says a record in the way is from.
    pub(super) fn resource_of_heritage(&self) -> Option<Box<str>> {
        let found = self.foreign_records.iter().flat_map(|record| self.heritage_of(record));
        found.filter_map(|found| found.heritage.resource).next()
    }

    /// What ExternalDNS's registry says of a record without a stamp.
    fn heritage_of(&self, record: &Record) -> Vec<Found<'a>> {
        if Stamp::of(record).is_some() {
            return Vec::new();
        }
        let seen: Vec<&str> = self.request.txts.iter().map(|txt| &*txt.name).collect();
        let names = registry_names(&seen, self.hostname.as_str());
        let names = names.iter().filter(|(kind, _)| match kind {
            Some(kind) => record.kind.eq_ignore_ascii_case(kind),
            None => &*record.kind != "AAAA",
        });
        names
            .filter_map(|(_, name)| Some((self.snapshot.zone_of(name)?, name)))
            .flat_map(|(zone, name)| zone.records_of(name).iter().map(move |record| (zone, record)))
            .filter(|(_, record)| &*record.kind == "TXT")
            .filter_map(|(zone, record)| {
                Some(Found { zone, record, heritage: Heritage::parse(&record.content)? })
            })
            .collect()
    }
}

fn rule_adoption(tunnel: &TunnelId, rule: &Rule) -> Adoption {
    let was = format!("rule of tunnel {tunnel} with service {:?}", rule.service());
    Adoption { path: Some(rule.path().unwrap_or_default().into()), was }
}

/// A TXT record of ExternalDNS's registry.
struct Found<'a> {
    zone: &'a ZoneSnapshot,
    record: &'a Record,
    heritage: Heritage,
}

/// The names under which ExternalDNS may keep the TXT records of `hostname`, each with the type of the record that it
/// is for; the names of old releases hold no type. `seen` are those it gave them in this request, which show its prefix
/// and suffix; without any, it has neither.
fn registry_names(seen: &[&str], hostname: &str) -> Vec<(Option<&'static str>, String)> {
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
                // Without a template the type stands before the label, with a dash.
                let dashed = format!("{WANTED_TYPE}-");
                let untyped = if head.contains(&format!("{dashed}{label}")) {
                    head.replacen(&dashed, "", 1) + &rest
                } else {
                    with("")
                };
                names.push((None, untyped));
            }
            // Which of them is the type cannot be told, and another hostname's record must not be found.
            _ => names.push((Some(WANTED_TYPE), name.to_string())),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_this_requests_records_tell_those_of_the_other_types() {
        for (seen, hostname, expected) in [
            (
                "cname-app.example.com",
                "app.example.com",
                "a-app.example.com aaaa-app.example.com app.example.com",
            ),
            ("cname-example.com", "example.com", "a-example.com aaaa-example.com example.com"),
            (
                "x-cname-app.example.com",
                "app.example.com",
                "x-a-app.example.com x-aaaa-app.example.com x-app.example.com",
            ),
            (
                "cname-x.app.example.com",
                "app.example.com",
                "a-x.app.example.com aaaa-x.app.example.com -x.app.example.com",
            ),
            (
                "app-cname.example.com",
                "app.example.com",
                "app-a.example.com app-aaaa.example.com app-.example.com",
            ),
            (
                "cname-any.example.com",
                "*.example.com",
                "a-any.example.com aaaa-any.example.com -any.example.com",
            ),
            ("cname-app.cname.test", "app.cname.test", "a-app.cname.test aaaa-app.cname.test app.cname.test"),
        ] {
            let names = registry_names(&[seen], hostname);
            assert_eq!(names.first(), Some(&(Some("cname"), seen.to_owned())));
            let others: Vec<&str> = names.iter().skip(1).map(|(_, name)| &**name).collect();
            assert_eq!(others.join(" "), expected, "{seen}");
            let kinds: Vec<_> = names.iter().map(|(kind, _)| *kind).collect();
            assert_eq!(kinds, [Some("cname"), Some("a"), Some("aaaa"), None]);
        }
    }

    /// `a-cname.example.com` is the TXT record of another hostname.
    #[test]
    fn a_type_that_cannot_be_told_from_the_hostname_leads_to_no_other_name() {
        for (seen, kind) in [("cname-cname.example.com", Some("cname")), ("x-cname.example.com", None)] {
            let names = registry_names(&[seen], "cname.example.com");
            assert_eq!(names, [(kind, seen.to_owned())]);
        }
    }
}
