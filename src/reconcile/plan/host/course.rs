//! What of a hostname comes and goes in one request and what has to wait, so that visitors who are served before and
//! after are served throughout.

use std::collections::BTreeSet;

use super::operations::lead;
use super::{Host, Wanted, digest_of};
use crate::cloudflare::{NewRecord, Record};
use crate::reconcile::Note;
use crate::reconcile::plan::{HostPlan, Reason, RecordOperation, Stage};
use crate::reconcile::stamp::{Claims, Digest};
use crate::reconcile::trace::Trace;
use crate::tunnel::TunnelId;

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
}

/// The tunnel of the wildcard record that answers for a hostname which goes.
pub(super) struct Heir {
    tunnel: TunnelId,
    /// The records that are led there first.
    records: Vec<RecordOperation>,
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
        }
    }
}

impl Heir {
    pub(super) fn reason(&self) -> Reason {
        Reason::Moving(format!(
            "a wildcard record of tunnel {} takes the hostname over: its record leads there first, and goes with its \
             rules when MOVE_GRACE has passed",
            self.tunnel
        ))
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
        let (staying, leaving): (BTreeSet<Digest>, BTreeSet<Digest>) =
            going.into_iter().partition(|digest| !ends && self.is_needed(*digest, moves_to.as_ref()));
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
        Course { first, last, leaving, staying, leaves_in, moves_to }
    }

    /// Whether visitors may still be led to a rule that is to go: the record is about to be led away from it, or was not
    /// long ago.
    fn is_needed(&self, digest: Digest, moves_to: Option<&TunnelId>) -> bool {
        let Some(Trace::Standing { tunnel, rule: _ }) = self.traces.get(&digest) else {
            return false;
        };
        match moves_to {
            Some(target) => tunnel != target,
            None => !self.is_settled && self.led_to().is_some_and(|led_to| led_to != *tunnel),
        }
    }

    fn stands(&self, digest: Digest) -> bool {
        self.traces.get(&digest).is_some_and(|trace| trace.rule().is_some())
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
        let records: Vec<&Record> = if self.outer_records.is_empty() { wildcard() } else { outer };
        let is_one = |record: &&Record| self.leads_past(record, target) && self.may_lead_there(record);
        if records.iter().all(is_one) { records } else { Vec::new() }
    }

    fn leads_past(&self, record: &Record, target: &TunnelId) -> bool {
        let leads_there = &*record.kind == "CNAME" && record.content.eq_ignore_ascii_case(&target.hostname());
        ["A", "AAAA", "CNAME"].contains(&&*record.kind) && !leads_there
    }

    /// Whether a record of ours may lead where `record` does: one that led to a tunnel which is not configured would count
    /// as another instance's.
    pub(super) fn may_lead_there(&self, record: &Record) -> bool {
        TunnelId::from_hostname(&record.content).is_none_or(|tunnel| self.settings.is_configured(&tunnel))
    }

    /// Who serves the hostname's visitors when it is gone, as long as its record does not lead there, or not for long, and
    /// the rules that serve them now are to go with it. Only where the tunnel is configured: with our stamp a record that
    /// leads to another would not count as ours.
    pub(super) fn heir(&self) -> Option<Heir> {
        let mut wildcard = self.zone.wildcard_without(self.hostname.as_str()).iter();
        let tunnel = wildcard.find_map(|record| TunnelId::from_hostname(&record.content))?;
        let stands_elsewhere = |trace: &Trace<'_>| {
            trace.rule().is_some() && trace.tunnel().is_some_and(|standing| *standing != tunnel)
        };
        let led_to = self.led_to()?;
        if !self.snapshot.tunnels.contains_key(&tunnel) || !self.traces.values().any(stands_elsewhere) {
            return None;
        }
        if led_to == tunnel {
            return (!self.is_settled).then(|| Heir { tunnel, records: Vec::new() });
        }
        let target = tunnel.hostname();
        let records = self.own_records.iter().filter_map(|record| lead(record, &target, None)).collect();
        Some(Heir { tunnel, records })
    }

    pub(super) fn hand_over(&self, plan: &mut HostPlan, heir: &Heir) {
        if !heir.records.is_empty() {
            let batch = (Stage::Repoint, self.zone.zone.id.clone());
            plan.operations.insert(batch, heir.records.clone());
        }
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
