//! Remembers rules that this process stamped but has not published. A stamp comes before its rule, and somebody else
//! may take the rule's place in between. Going by the stamp alone would then change or delete a rule that is not ours.

use std::collections::{BTreeMap, BTreeSet};

use crate::ingress::{RuleEdit, WantedRule};
use crate::model::{RecordId, TunnelId};
use crate::reconcile::Settings;
use crate::reconcile::snapshot::{OwnRecord, Snapshot};
use crate::reconcile::stamp::{self, Digest};

/// The number of wishes remembered for one place. More would mean a wish that changes in every loop and is never
/// fulfilled.
const WISHES_MAX: usize = 4;

/// The number of stamps remembered for one hostname. Only writes without an answer add up, and any of them may be the
/// last one that was done.
const STAMPS_MAX: usize = 4;

/// The memory is lost with the process: what a crash leaves behind cannot be told from a rule of ours.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnpublishedRules {
    /// By hostname.
    stamped: BTreeMap<Box<str>, Stamped>,
    /// By hostname, the comments of its records before they were taken over. They are kept as long as the stamp:
    /// somebody else's comment is given back if nothing of its hostname turns out to be ours.
    comments: BTreeMap<Box<str>, Vec<(RecordId, Box<str>)>>,
}

#[derive(Clone, Debug, Default)]
struct Stamped {
    digests: BTreeSet<Digest>,
    /// The rules behind the digests, the oldest first.
    rules: Vec<(TunnelId, WantedRule)>,
    /// The stamps that this process sent for the hostname's records since, without their remarks, the oldest first.
    /// One that did not change was not sent.
    sent: Vec<Box<str>>,
}

impl UnpublishedRules {
    /// Notes that the rule's digest is about to be stamped. A rule that is taken over is ours as soon as it is stamped,
    /// whatever it is.
    pub(crate) fn insert(&mut self, tunnel: &TunnelId, hostname: &str, edit: &RuleEdit) {
        let RuleEdit::Put { rule, replaces: false } = edit else {
            return;
        };
        if let Some(digest) = digest_of(tunnel, edit) {
            self.stamped.entry(hostname.into()).or_default().insert(digest, tunnel, rule);
        }
    }

    /// Notes comments with stamps that were sent for the records of a hostname that waits for a rule. With an answer,
    /// none of those before stands there any more.
    pub(crate) fn insert_sent(&mut self, hostname: &str, comments: &[&str], is_answered: bool) {
        let Some(Stamped { sent, .. }) = self.stamped.get_mut(hostname).filter(|_| !comments.is_empty())
        else {
            return;
        };
        if is_answered {
            sent.clear();
        }
        for stamp in comments.iter().map(|comment| stamp::without_remark(comment)) {
            sent.retain(|known| **known != *stamp);
            sent.push(stamp.into());
        }
        let superfluous = sent.len().saturating_sub(STAMPS_MAX);
        sent.drain(..superfluous);
    }

    /// Notes that records are about to be taken over, with their present comments.
    pub(crate) fn insert_adopted(&mut self, hostname: &str, comments_before: &[(RecordId, Box<str>)]) {
        self.comments.insert(hostname.into(), comments_before.to_vec());
    }

    /// The comments of records that were taken over and may have to be given back.
    pub(crate) fn comments(&self) -> &BTreeMap<Box<str>, Vec<(RecordId, Box<str>)>> {
        &self.comments
    }

    /// True if the rule was stamped and certainly not written since.
    pub(crate) fn has(&self, tunnel: &TunnelId, hostname: &str, edit: &RuleEdit) -> bool {
        let digest = digest_of(tunnel, edit);
        digest.is_some_and(|digest| self.has_digest(hostname, digest))
    }

    /// The rules were written, or may have been.
    pub(crate) fn remove<'e>(
        &mut self,
        tunnel: &TunnelId,
        edits: impl Iterator<Item = (&'e str, &'e RuleEdit)>,
    ) {
        let mut gone: BTreeMap<Box<str>, BTreeSet<Digest>> = BTreeMap::new();
        for (hostname, edit) in edits {
            if let Some(digest) = digest_of(tunnel, edit) {
                gone.entry(hostname.into()).or_default().insert(digest);
            }
        }
        self.forget(&gone);
    }

    /// The digests have been removed from their stamps.
    pub(crate) fn forget(&mut self, gone: &BTreeMap<Box<str>, BTreeSet<Digest>>) {
        self.retain(|hostname, digest| !gone.get(hostname).is_some_and(|gone| gone.contains(&digest)));
    }

    fn has_digest(&self, hostname: &str, digest: Digest) -> bool {
        self.stamped.get(hostname).is_some_and(|stamped| stamped.digests.contains(&digest))
    }

    fn retain(&mut self, stays: impl Fn(&str, Digest) -> bool) {
        self.stamped.retain(|hostname, Stamped { digests, rules, sent: _ }| {
            digests.retain(|digest| stays(hostname, *digest));
            rules.retain(|(tunnel, rule)| digests.contains(&Digest::of(tunnel, rule.path_text())));
            !digests.is_empty()
        });
    }

    /// The digests that a stamp names although the rule at their place is not ours. A rule that stands as it is wanted
    /// is ours, as if it had been written. Digests that no stamp names any more are forgotten, because they do not
    /// concern whoever has the hostname later. So is a hostname with none of the stamps that this process sent: another
    /// replica stamped it since, and may have written what stands there.
    pub(crate) fn taken(
        &mut self,
        snapshot: &Snapshot,
        settings: &Settings,
    ) -> BTreeMap<Box<str>, BTreeSet<Digest>> {
        let mut taken: BTreeMap<Box<str>, BTreeSet<Digest>> = BTreeMap::new();
        if self.stamped.is_empty() && self.comments.is_empty() {
            return taken;
        }
        let mut published: BTreeMap<Box<str>, BTreeSet<Digest>> = BTreeMap::new();
        let own = snapshot.own_rules(settings);
        self.comments.retain(|hostname, _| own.digests_of(hostname).is_some());
        self.stamped.retain(|hostname, stamped| {
            let records = snapshot.own_records_of(hostname, settings);
            let is_sent = |own: &OwnRecord<'_>| {
                let stamp = stamp::without_remark(&own.record.comment);
                stamped.sent.iter().any(|sent| **sent == *stamp)
            };
            stamped.sent.is_empty() || records.iter().any(is_sent)
        });
        self.retain(|hostname, digest| {
            own.digests_of(hostname).is_some_and(|digests| digests.contains(&digest))
        });
        for (id, tunnel) in &snapshot.tunnels {
            for rule in tunnel.document.rules().iter().filter(|rule| own.names(id, rule)) {
                let (hostname, digest) = (rule.folded_hostname(), Digest::of(id, rule.path()));
                let stamped = self.stamped.get(hostname);
                if let Some(stamped) = stamped.filter(|stamped| stamped.digests.contains(&digest)) {
                    let is_as_wanted = stamped.rules.iter().any(|(tunnel, wanted)| {
                        tunnel == id
                            && rule.is_for(&wanted.hostname, wanted.path_text())
                            && rule.equals_in_every_field(wanted)
                    });
                    let list = if is_as_wanted { &mut published } else { &mut taken };
                    list.entry(hostname.into()).or_default().insert(digest);
                }
            }
        }
        self.forget(&published);
        taken
    }
}

impl Stamped {
    /// The rule joins those that were wanted in its place before, because any of them may stand there.
    fn insert(&mut self, digest: Digest, tunnel: &TunnelId, rule: &WantedRule) {
        self.digests.insert(digest);
        self.rules.retain(|(known_tunnel, known)| (known_tunnel, known) != (tunnel, rule));
        let is_in_its_place = |(known_tunnel, known): &(TunnelId, WantedRule)| {
            known_tunnel == tunnel && known.path_text() == rule.path_text()
        };
        if self.rules.iter().filter(|known| is_in_its_place(known)).count() >= WISHES_MAX
            && let Some(oldest) = self.rules.iter().position(is_in_its_place)
        {
            self.rules.remove(oldest);
        }
        self.rules.push((tunnel.clone(), rule.clone()));
    }
}

fn digest_of(tunnel: &TunnelId, edit: &RuleEdit) -> Option<Digest> {
    match edit {
        RuleEdit::Put { rule, replaces: _ } => Some(Digest::of(tunnel, rule.path_text())),
        RuleEdit::Remove { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::fixture;
    use crate::ingress::Document;
    use crate::model::{AccountId, Record, Zone, ZoneId, ZonePlan};
    use crate::provider::memory::year;
    use crate::reconcile::snapshot::{TunnelSnapshot, ZoneSnapshot};
    use crate::reconcile::stamp::Stamp;
    use crate::reconcile::{ConfiguredTunnel, Policy};

    fn put(hostname: &str, port: u64) -> RuleEdit {
        fixture::put(hostname, &format!("http://web:{}", 1 + port % 60_000))
    }

    const HOME: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";
    const OFFICE: &str = "00000000-a4ef-4643-bbbc-4a0ed4fc8415";
    const NAME: &str = "web.example.com";

    fn tunnel(id: &str) -> TunnelId {
        TunnelId::parse(id).expect("an id")
    }

    fn own_stamp() -> Stamp {
        let mut stamp = Stamp::new("default");
        stamp.claims.rules = [HOME, OFFICE].map(|id| Digest::of(&tunnel(id), None)).into();
        stamp
    }

    /// What is taken if our stamp names the hostname's rules in both tunnels, and a rule with this port stands in `home`.
    fn taken(unpublished: &mut UnpublishedRules, port: u64) -> bool {
        let configured = |id| ConfiguredTunnel { id: tunnel(id), name: id.into(), is_local: false };
        let settings = Settings::new(Policy::new("default"), configured(HOME), vec![configured(OFFICE)]);
        let stamp = own_stamp();
        let record = Record {
            id: RecordId::new("r1"),
            name: NAME.into(),
            kind: "CNAME".into(),
            content: tunnel(HOME).hostname().into(),
            proxied: true,
            ttl: 1,
            comment: stamp.render(100).expect("it has room").into(),
            read_only: false,
            created_unix_seconds: None,
            modified_unix_seconds: None,
        };
        let zone = Zone {
            id: ZoneId::new("z1"),
            name: "example.com".into(),
            account: AccountId::new("a1"),
            plan: ZonePlan::Free,
            status: "active".into(),
            paused: false,
        };
        let config = format!(
            r#"{{"ingress":[{{"hostname":"{NAME}","service":"http://web:{port}"}},{{"service":"http_status:404"}}]}}"#
        );
        let document =
            Document::parse(Some(&RawValue::from_string(config).expect("JSON"))).expect("a document");
        let snapshot = Snapshot {
            zones: vec![ZoneSnapshot::new(zone, vec![record])],
            tunnels: [(tunnel(HOME), TunnelSnapshot::new(document, true, 1))].into(),
            ..Snapshot::default()
        };
        !unpublished.taken(&snapshot, &settings).is_empty()
    }

    /// A write without an answer may have been done, and the wish may have changed since.
    #[test]
    fn a_rule_is_ours_if_it_stands_as_any_of_the_last_wishes_for_its_place() {
        let mut unpublished = UnpublishedRules::default();
        for port in [81, 82, 83, 84, 84, 84] {
            unpublished.insert(&tunnel(HOME), NAME, &put(NAME, port - 1));
        }
        unpublished.insert(&tunnel(OFFICE), NAME, &put(NAME, 90 - 1));
        for (port, is_taken) in [(80, true), (90, true), (84, false), (81, false)] {
            let mut unpublished = unpublished.clone();
            assert_eq!(taken(&mut unpublished, port), is_taken, "{port}");
            assert_eq!(
                taken(&mut unpublished, 80),
                is_taken,
                "what is ours stays so, whatever becomes of it"
            );
        }
        unpublished.insert(&tunnel(HOME), NAME, &put(NAME, 85 - 1));
        assert!(taken(&mut unpublished, 81), "the oldest of five wishes is forgotten");
    }

    /// Of several writes without an answer any may be the last one that was done.
    #[test]
    fn a_hostname_is_forgotten_when_its_stamp_is_none_of_those_last_sent() {
        let stamp = |resource: &str| {
            let mut stamp = own_stamp();
            stamp.resource = Some(resource.into());
            stamp
        };
        let (standing, mut remarked) = (own_stamp(), own_stamp());
        remarked.set_remark("by hand");
        let [first, second, third, fourth] = ["1", "2", "3", "4"].map(stamp);
        for (unanswered, answered, is_taken) in [
            (vec![&first, &standing], None, true),
            (vec![&first, &remarked], None, true),
            (vec![&standing, &first, &second, &third], None, true),
            (vec![&standing, &first, &second, &third, &standing, &fourth], None, true),
            (vec![&standing, &first, &second, &third, &fourth], None, false),
            (vec![&first], Some(&standing), true),
            (vec![&standing], Some(&first), false),
            (vec![&first], None, false),
            (vec![], None, true),
        ] {
            let mut unpublished = UnpublishedRules::default();
            let comment = |stamp: &Stamp| stamp.render(200).expect("it has room");
            unpublished.insert_sent(NAME, &[&comment(&standing)], true);
            assert!(unpublished.stamped.is_empty(), "no rule of the hostname waits");
            unpublished.insert(&tunnel(HOME), NAME, &put(NAME, 80));
            for stamp in &unanswered {
                unpublished.insert_sent(NAME, &[&comment(stamp)], false);
            }
            if let Some(stamp) = answered {
                unpublished.insert_sent(NAME, &[&comment(stamp)], true);
            }
            unpublished.insert_sent(NAME, &[], true);
            assert_eq!(taken(&mut unpublished, 80), is_taken, "{unanswered:?}, then {answered:?}");
            assert_eq!(unpublished.stamped.is_empty(), !is_taken, "{unanswered:?}, then {answered:?}");
        }
    }

    #[test]
    fn a_year_of_rules_that_are_never_written_leaves_those_that_a_stamp_names() {
        let (tunnel, settings) = (fixture::tunnel(), fixture::settings());
        let mut unpublished = UnpublishedRules::default();
        for (number, _) in year::loops() {
            let hostname = format!("h{number}.example.com");
            unpublished.insert(&tunnel, &hostname, &put(&hostname, number));
            unpublished.insert_adopted(&hostname, &[]);
            unpublished.taken(&Snapshot::default(), &settings);
            assert!(unpublished.stamped.is_empty() && unpublished.comments.is_empty(), "{unpublished:?}");
        }
        for (number, _) in year::loops() {
            unpublished.insert(&tunnel, "web.example.com", &put("web.example.com", number));
            assert!(unpublished.stamped["web.example.com"].rules.len() <= WISHES_MAX);
        }
        assert_eq!(unpublished.stamped.len(), 1);
    }
}
