//! Collects what stands at Cloudflare for one hostname, and which of it is ours.

use std::collections::BTreeMap;

use super::adopted::Adopted;
use super::{Desired, Obstacles, Situation};
use crate::ingress::Rule;
use crate::model::{Hostname, Record, TunnelId};
use crate::ordered::inserted;
use crate::reconcile::claim_state::{ClaimState, claim_states};
use crate::reconcile::plan::request::HostRequest;
use crate::reconcile::plan::{Reason, Refusal};
use crate::reconcile::snapshot::{OwnRecord, Snapshot, ZoneSnapshot};
use crate::reconcile::stamp::{Digest, Stamp};
use crate::reconcile::{Note, Policy, Settings};

/// One hostname before anything is written.
pub(super) struct Standing<'a> {
    pub(super) situation: Situation<'a>,
    /// The request. It also names paths that no rule has any more.
    pub(super) request: &'a HostRequest,
    /// The edits that a tunnel's document does not allow, by path.
    pub(super) obstacles: &'a Obstacles,
    pub(super) hostname: Hostname,
    /// The hostname's home; if that is not served, the innermost zone with a record of ours.
    pub(super) zone: &'a ZoneSnapshot,
    /// Our records in `zone`.
    pub(super) own_records: Vec<&'a Record>,
    /// Our records in outer zones, from before `zone` existed.
    pub(super) outer_records: Vec<OwnRecord<'a>>,
    /// Foreign records that a CNAME cannot stand beside.
    pub(super) foreign_records: Vec<&'a Record>,
    /// The stamp of our records, with the claims of all of them.
    pub(super) stamp: Option<Stamp>,
    /// The state of each rule that the stamp claims.
    pub(super) claims: BTreeMap<Digest, ClaimState<'a>>,
    /// The parts of it that are foreign until the stamp is written.
    pub(super) adopted: Adopted<'a>,
}

impl<'a> Standing<'a> {
    /// Reads the state of `hostname` in `zone` and in outer zones.
    pub(super) fn of(
        situation: Situation<'a>,
        zone: &'a ZoneSnapshot,
        hostname: Hostname,
        request: &'a HostRequest,
        obstacles: &'a Obstacles,
    ) -> Self {
        let Situation { snapshot, settings, .. } = situation;
        let (own, outer_records): (Vec<OwnRecord<'_>>, Vec<OwnRecord<'_>>) = snapshot
            .own_records_of(hostname.as_str(), settings)
            .into_iter()
            .partition(|own| own.zone.zone.id == zone.zone.id);
        let is_apex = hostname.as_str() == &*zone.zone.name;
        let is_own = |record: &Record| own.iter().any(|own| own.record.id == record.id);
        let foreign_records = zone
            .records_of(hostname.as_str())
            .iter()
            .filter(|record| excludes_cname(record, is_apex) && !is_own(record))
            .collect();
        let stamp = merged_stamp(own.iter().chain(&outer_records));
        let standing = Self {
            situation,
            request,
            obstacles,
            hostname,
            zone,
            own_records: own.iter().map(|own| own.record).collect(),
            outer_records,
            foreign_records,
            stamp,
            claims: BTreeMap::new(),
            adopted: Adopted::default(),
        };
        Self { claims: standing.claim_states(), ..standing }
    }

    /// The state of each rule that the stamp claims.
    pub(super) fn claim_states(&self) -> BTreeMap<Digest, ClaimState<'a>> {
        let Some(stamp) = &self.stamp else {
            return BTreeMap::new();
        };
        let HostRequest { wanted, withdrawn, registry_names: _ } = self.request;
        let paths: Vec<&str> = withdrawn
            .iter()
            .map(|set_identifier| &**set_identifier)
            .chain(wanted.iter().map(|wanted| &*wanted.set_identifier))
            .filter(|path| !path.is_empty())
            .collect();
        let content = self.records().next().map(|record| &*record.content).unwrap_or_default();
        let (snapshot, settings) = (self.snapshot(), self.settings());
        inserted(claim_states(snapshot, settings, &self.hostname, content, &stamp.claims.rules, &paths))
    }

    pub(super) fn snapshot(&self) -> &'a Snapshot {
        self.situation.snapshot
    }

    pub(super) fn settings(&self) -> &'a Settings {
        self.situation.settings
    }

    pub(super) fn policy(&self) -> &'a Policy {
        &self.settings().policy
    }

    pub(super) fn name(&self) -> &str {
        self.hostname.as_str()
    }

    /// The object that asks for the hostname, or that it came from.
    pub(super) fn resource(&self) -> Option<Box<str>> {
        self.request.resource().or_else(|| self.stamp.as_ref()?.resource.clone())
    }

    /// All records of ours, those at home first.
    pub(super) fn records(&self) -> impl Iterator<Item = &'a Record> {
        let outer = self.outer_records.iter().map(|own| own.record);
        self.own_records.iter().copied().chain(outer)
    }

    pub(super) fn has_record(&self) -> bool {
        self.records().next().is_some()
    }

    /// The tunnel that our record leads to.
    pub(super) fn led_to(&self) -> Option<TunnelId> {
        TunnelId::from_hostname(&self.records().next()?.content)
    }

    /// True if our record has led to the same tunnel for so long that no visitor is led elsewhere any more.
    pub(super) fn has_settled(&self) -> bool {
        self.situation.earlier.moved.contains(self.name())
    }

    /// The hostname's rules in one tunnel, whoever owns them.
    pub(super) fn rules_of(&self, tunnel: &TunnelId) -> Vec<&'a Rule> {
        let tunnel = self.snapshot().tunnels.get(tunnel);
        tunnel.map(|tunnel| tunnel.rules_of(&self.hostname)).unwrap_or_default()
    }

    /// True if the digest's rule is ours or taken over.
    pub(super) fn has(&self, digest: Digest) -> bool {
        self.claims.get(&digest).is_some_and(|state| state.ambiguous().is_empty())
    }

    /// True if a stamp of ours already names the digest.
    pub(super) fn is_stamped(&self, digest: Digest) -> bool {
        self.has(digest) && !self.adopted.brings(digest)
    }

    /// True if the stamp claims the record without a rule.
    pub(super) fn claims_record_only(&self) -> bool {
        self.adopted.records.is_empty() && self.stamp.as_ref().is_some_and(|stamp| stamp.claims.record_only)
    }

    /// True if the stamp already has something that is asked for.
    pub(super) fn claims_already(&self, desired: &Desired<'_>) -> bool {
        desired.digest().map_or_else(|| self.claims_record_only(), |digest| self.has(digest))
    }

    /// Our digests of one path, in any tunnel.
    pub(super) fn digests_for_path(&self, path: Option<&str>) -> impl Iterator<Item = Digest> {
        self.claims.iter().filter(move |(_, state)| state.is_for_path(path)).map(|(digest, _)| *digest)
    }

    /// True if the hostname's own record is written to this zone.
    pub(super) fn is_home(&self, zone: &ZoneSnapshot) -> bool {
        zone.zone.id == self.zone.zone.id
    }

    /// True if this program may write the tunnel's document.
    pub(super) fn is_writable(&self, tunnel: &TunnelId) -> bool {
        self.snapshot().tunnels.get(tunnel).is_some_and(|tunnel| tunnel.writable)
    }

    pub(super) fn note(&self, text: String) -> Note {
        Note { hostname: self.name().into(), resource: self.resource(), text }
    }

    /// The refusal of one endpoint.
    pub(super) fn refusal(&self, desired: &Desired<'_>, reason: Reason) -> Refusal {
        Refusal {
            hostname: self.name().into(),
            set_identifier: Some(desired.path().unwrap_or_default().into()),
            resource: desired.resource.map(Into::into),
            reason,
        }
    }

    /// The refusal of the whole hostname.
    pub(super) fn whole_refusal(&self, reason: Reason) -> Refusal {
        Refusal::whole(self.name().into(), self.resource(), reason)
    }
}

/// The first stamp, with the claims of all of them.
fn merged_stamp<'o>(mut own: impl Iterator<Item = &'o OwnRecord<'o>>) -> Option<Stamp> {
    let mut stamp = own.next()?.stamp.clone();
    for other in own {
        stamp.claims.merge(&other.stamp.claims);
    }
    Some(stamp)
}

/// A, AAAA and CNAME exclude a CNAME; name servers below the zone's own name exclude everything.
fn excludes_cname(record: &Record, is_apex: bool) -> bool {
    match &*record.kind {
        "A" | "AAAA" | "CNAME" => true,
        "NS" => !is_apex,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, HOME, NAME, OFFICE, SERVICE, digest, tunnel};

    #[test]
    fn where_nothing_stands_nothing_is_ours() {
        let fixture = Fixture::new();
        let standing = fixture.standing();
        assert!(!standing.has_record() && standing.foreign_records.is_empty() && standing.claims.is_empty());
        assert_eq!(standing.led_to(), None);
        assert!(!standing.has(digest(HOME, "")));
    }

    #[test]
    fn a_record_with_our_stamp_is_ours_and_so_are_the_rules_it_claims() {
        let fixture = Fixture::new().published(&[(OFFICE, "^/a")]).rule(OFFICE, "^/b", SERVICE);
        let standing = fixture.standing();
        assert_eq!((standing.own_records.len(), standing.foreign_records.len()), (1, 0));
        assert_eq!(standing.led_to(), Some(tunnel(OFFICE)));
        assert!(standing.has(digest(OFFICE, "^/a")) && standing.is_stamped(digest(OFFICE, "^/a")));
        assert!(!standing.has(digest(OFFICE, "^/b")), "no stamp claims it");
    }

    #[test]
    fn what_a_cname_cannot_stand_beside_is_in_the_way() {
        for (kind, is_in_the_way) in
            [("A", true), ("AAAA", true), ("CNAME", true), ("NS", true), ("TXT", false), ("MX", false)]
        {
            let fixture = Fixture::new().record(NAME, kind, "192.0.2.1", "");
            assert_eq!(fixture.standing().foreign_records.len() == 1, is_in_the_way, "{kind}");
        }
    }

    #[test]
    fn a_record_with_another_owners_stamp_is_foreign() {
        let comment = "external-dns owner=other rules=-";
        let fixture = Fixture::new().record(NAME, "CNAME", &tunnel(HOME).hostname(), comment);
        let standing = fixture.standing();
        assert_eq!((standing.own_records.len(), standing.foreign_records.len()), (0, 1));
        assert!(standing.stamp.is_none());
    }

    #[test]
    fn only_the_request_tells_the_path_of_a_rule_that_is_gone() {
        let stamped = || {
            let comment = Fixture::new().comment(&[(HOME, "^/a")]);
            Fixture::new().record(NAME, "CNAME", &tunnel(HOME).hostname(), &comment)
        };
        let state = |fixture: &Fixture| format!("{:?}", fixture.standing().claims.values().next());
        assert_eq!(state(&stamped()), "Some(Lost)");
        for fixture in [stamped().asks(HOME, "^/a", SERVICE), stamped().withdraws("^/a")] {
            assert!(state(&fixture).starts_with("Some(Missing"), "{}", state(&fixture));
        }
    }

    #[test]
    fn of_two_rules_in_one_place_neither_is_ours() {
        let fixture = Fixture::new().published(&[(HOME, "")]).rule(HOME, "", "http://other:80");
        let standing = fixture.standing();
        assert_eq!(standing.claims.len(), 1);
        assert!(!standing.has(digest(HOME, "")));
    }

    /// Somebody turned our record into two addresses and edited one comment: a rule that only the other claims is ours.
    #[test]
    fn of_several_records_every_stamp_counts() {
        let [one, other] = ["^/a", "^/b"].map(|path| Fixture::new().comment(&[(HOME, path)]));
        let fixture =
            Fixture::new().record(NAME, "A", "192.0.2.1", &one).record(NAME, "A", "192.0.2.2", &other);
        let fixture = fixture.rule(HOME, "^/a", SERVICE).rule(HOME, "^/b", SERVICE);
        let standing = fixture.standing();
        assert!(standing.has(digest(HOME, "^/a")) && standing.has(digest(HOME, "^/b")));
    }

    #[test]
    fn a_stamp_may_claim_the_record_alone() {
        let fixture = Fixture::new().published(&[]).asks(HOME, "", "none");
        let (standing, desired) = (fixture.standing(), fixture.desired());
        assert!(standing.claims_record_only() && standing.claims.is_empty());
        assert!(standing.claims_already(&desired[0]));
    }

    #[test]
    fn the_object_that_asks_is_told_before_the_one_in_the_stamp() {
        let stamped = || {
            let comment = "external-dns owner=default resource=ingress/old/web rules=-";
            Fixture::new().record(NAME, "CNAME", &tunnel(HOME).hostname(), comment)
        };
        assert_eq!(stamped().standing().resource().as_deref(), Some("ingress/old/web"));
        let asked_for = stamped().asks(HOME, "", SERVICE);
        assert_eq!(asked_for.standing().resource().as_deref(), Some("ingress/shop/web"));
    }
}
