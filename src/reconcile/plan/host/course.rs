//! What of a hostname comes and goes in one request and what has to wait, so that visitors who are served before and
//! after are served throughout.

use std::collections::BTreeSet;

use super::{Host, Wanted, digest_of};
use crate::model::{NewRecord, Record, TunnelId};
use crate::reconcile::Note;
use crate::reconcile::claim_state::ClaimState;
use crate::reconcile::plan::{HostPlan, Reason, RecordOperation, Stage};
use crate::reconcile::stamp::{Claims, Digest};

/// How the rules that go and those that come in their place follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// In one version of the document. Until it is there the comment claims both.
    Together,
    /// First the old ones go.
    Apart,
}

/// The way from what stands to what is wanted, as far as this request goes.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// The claims from before the rules are written on.
    pub(super) first: Claims,
    /// The claims once they are written.
    pub(super) last: Claims,
    /// Digests that come off, and their rules with them.
    pub(super) leaving: BTreeSet<Digest>,
    /// Those that go later, as visitors may still be led to their rules.
    pub(super) staying: BTreeSet<Digest>,
    /// When these rules go.
    pub(super) leaves_in: Stage,
    /// The tunnel that the record is led to once that serves the hostname. Till then it leads where it led.
    pub(super) moves_to: Option<TunnelId>,
    /// The tunnel of the wildcard record that answers for the hostname when it is gone. Its record is led there before it
    /// goes, with the rules that still serve visitors.
    pub(super) heir: Option<TunnelId>,
}

impl Course {
    /// Only claims come off; rules stay as they are.
    pub(super) fn unclaiming(claims: Claims) -> Self {
        Self {
            first: claims.clone(),
            last: claims,
            leaving: BTreeSet::new(),
            staying: BTreeSet::new(),
            leaves_in: Stage::Publish,
            moves_to: None,
            heir: None,
        }
    }

    /// Why a hostname that was withdrawn is not gone yet.
    pub(super) fn reason(&self) -> Option<Reason> {
        let heir = self.heir.as_ref()?;
        Some(Reason::Moving(format!(
            "a wildcard record of tunnel {heir} takes the hostname over: its record leads there first, and goes with its \
             rules when MOVE_GRACE has passed"
        )))
    }
}

impl<'a> Host<'a> {
    pub(super) fn course(&self, wanted: &[Wanted<'_>], withdrawn: &Claims, order: Order) -> Course {
        let before = self.stamp.as_ref().map(|stamp| stamp.claims.clone()).unwrap_or_default();
        let moves_to = self.moves_to(wanted);
        let new: BTreeSet<Digest> = wanted.iter().filter_map(digest_of).collect();
        let superseded = self.superseded(wanted);
        let going: BTreeSet<Digest> = withdrawn.rules.union(&superseded).copied().collect();

        let mut last = before;
        last.record_only &= !withdrawn.record_only;
        for Wanted { publication, .. } in wanted.iter().filter(|wanted| wanted.publication.path().is_none()) {
            last.record_only = publication.rule.is_none();
        }
        last.rules.extend(&new);
        let ends = !last.record_only && last.rules.is_subset(&going);
        let heir = if ends { self.heir() } else { None };
        // What is withdrawn and has nothing in its place is kept for a while only.
        let is_late = moves_to.as_ref().is_some_and(|target| self.settled.late.contains(target));
        let is_kept = !is_late || wanted.iter().any(|wanted| self.is_new(wanted));
        let stays = |digest: &Digest| match &heir {
            Some(heir) => self.stands_elsewhere(*digest, heir),
            None => {
                !ends
                    && (is_kept || superseded.contains(digest))
                    && self.is_needed(*digest, moves_to.as_ref())
            }
        };
        let (staying, leaving): (BTreeSet<Digest>, BTreeSet<Digest>) = going.iter().copied().partition(stays);
        last.rules.retain(|digest| !leaving.contains(digest));
        last.rules.extend(&staying);
        let mut first = last.clone();
        let leaves_in = match order {
            Order::Together => Stage::Publish,
            Order::Apart => Stage::Withdraw,
        };
        if order == Order::Together {
            first.rules.extend(leaving.iter().filter(|digest| self.stands(**digest)));
        }
        Course { first, last, leaving, staying, leaves_in, moves_to, heir }
    }

    /// Whether visitors may still be led to a rule that is to go: the record is about to be led away from it, or was not
    /// long ago.
    fn is_needed(&self, digest: Digest, moves_to: Option<&TunnelId>) -> bool {
        let Some(ClaimState::Standing { tunnel, rule: _ }) = self.states.get(&digest) else {
            return false;
        };
        match moves_to {
            Some(target) => tunnel != target,
            None => !self.has_settled() && self.led_to().is_some_and(|led_to| led_to != *tunnel),
        }
    }

    /// Whether no other tunnel has a rule for the same path, from which its visitors would come.
    fn is_new(&self, wanted: &Wanted<'_>) -> bool {
        let digest = digest_of(wanted);
        digest.is_some()
            && !self.digests_for_path(wanted.publication.path()).any(|other| Some(other) != digest)
    }

    fn stands_elsewhere(&self, digest: Digest, than: &TunnelId) -> bool {
        let state = self.states.get(&digest);
        state.is_some_and(|state| {
            state.rule().is_some() && state.tunnel().is_some_and(|tunnel| tunnel != than)
        })
    }

    /// Whether its record has led where it leads for so long that nobody is led elsewhere any more.
    fn has_settled(&self) -> bool {
        self.settled.moved.contains(self.hostname.as_str())
    }

    fn stands(&self, digest: Digest) -> bool {
        self.states.get(&digest).is_some_and(|state| state.rule().is_some())
    }

    /// The tunnel that is wanted, where a record leads elsewhere till then: ours, one that is taken over, or a wildcard's
    /// for want of one.
    fn moves_to(&self, wanted: &[Wanted<'_>]) -> Option<TunnelId> {
        let target = &wanted.first()?.publication.tunnel;
        let is_moving = match &*self.own_records {
            [] => !self.stand_ins(target).is_empty(),
            records => records.iter().any(|record| self.leads_past(record, target)),
        };
        is_moving.then(|| target.clone())
    }

    /// The records that lead the hostname's visitors elsewhere than to `target` as long as it has none of its own: those
    /// in a zone around its own, else a wildcard's.
    pub(super) fn stand_ins(&self, target: &TunnelId) -> Vec<&'a Record> {
        let outer = self.outer_records.iter().map(|own| own.record).collect();
        let wildcard = || self.zone.wildcard_over(self.hostname.as_str()).iter().collect();
        let mut records: Vec<&Record> = if self.outer_records.is_empty() { wildcard() } else { outer };
        records.retain(|record| leads_visitors(record));
        let is_one = |record: &&Record| self.leads_past(record, target) && self.may_lead_there(record);
        if records.iter().all(is_one) { records } else { Vec::new() }
    }

    fn leads_past(&self, record: &Record, target: &TunnelId) -> bool {
        let leads_there = &*record.kind == "CNAME" && record.content.eq_ignore_ascii_case(&target.hostname());
        leads_visitors(record) && !leads_there
    }

    /// Whether a record of ours may lead where `record` does: one that led to a tunnel which is not configured would count
    /// as another instance's.
    pub(super) fn may_lead_there(&self, record: &Record) -> bool {
        TunnelId::from_hostname(&record.content).is_none_or(|tunnel| self.settings.is_configured(&tunnel))
    }

    /// Who serves the hostname's visitors when it is gone, where they are not led there yet. Only where the tunnel is
    /// configured: with our stamp a record that leads to another would not count as ours. Asked for long enough the
    /// hostname goes, whether its record could be led there or not.
    fn heir(&self) -> Option<TunnelId> {
        let (name, owner) = (self.hostname.as_str(), &self.settings.policy.owner);
        if self.settled.handed_over.contains(name) || self.own_records.is_empty() || self.led_to().is_none() {
            return None;
        }
        let txts = self.snapshot.txts_of(name, owner);
        let goes = |record: &Record| *record.name == *name || txts.iter().any(|(_, txt)| txt.id == record.id);
        let mut wildcard = self.zone.wildcard_without(name, &goes).iter();
        let tunnel = wildcard.find_map(|record| TunnelId::from_hostname(&record.content))?;
        let is_elsewhere = self.states.keys().any(|digest| self.stands_elsewhere(*digest, &tunnel));
        let is_led_there = self.has_settled() && self.led_to().as_ref() == Some(&tunnel);
        (is_elsewhere && !is_led_there && self.snapshot.tunnels.contains_key(&tunnel)).then_some(tunnel)
    }

    /// A name more than one label below a wildcard takes the names between from it, and all below these (RFC 4592).
    pub(super) fn note_on_names_taken(&self, plan: &HostPlan) -> Option<Note> {
        let name = self.hostname.as_str();
        let is_new =
            !self.has_record()
                && plan.operations.values().flatten().any(
                    |operation| matches!(operation, RecordOperation::Post(record) if *record.name == *name),
                );
        let wildcard = self.zone.wildcard_over(name).first().filter(|_| is_new)?;
        let (_, above) = wildcard.name.split_once('.')?;
        let below = name.strip_suffix(above)?.strip_suffix('.')?;
        let (_, between) = below.split_once('.')?;
        let (_, taken) = between.rsplit_once('.').unwrap_or(("", between));
        let taken = format!("{taken}.{above}");
        Some(self.note(&format!(
            "takes {taken:?} and all other names below that from the wildcard record {:?}, which answers for them no more \
             (RFC 4592): publish those that are needed, or \"*.{taken}\" and {taken:?}, by records of their own",
            wildcard.name
        )))
    }
}

fn leads_visitors(record: &Record) -> bool {
    ["A", "AAAA", "CNAME"].contains(&&*record.kind)
}

/// A copy of a wildcard's record for one name below it.
pub(super) fn stand_in(record: &Record, name: &str, comment: Box<str>) -> RecordOperation {
    let Record { kind, content, proxied, ttl, .. } = record;
    RecordOperation::Post(NewRecord {
        name: name.into(),
        kind: kind.clone(),
        content: content.clone(),
        proxied: *proxied,
        ttl: *ttl,
        comment,
    })
}
