//! The TXT records of ExternalDNS's registry that are stored for a hostname: an opaque, faithful store.
//!
//! They say nothing that the stamps do not say, so that a record without its TXT record is still ours and shown so:
//! ExternalDNS asks for a lost one with `txt/force-update` as soon as it sees another one. A TXT record without its
//! hostname's record, however, nobody would ever ask for again. So one in another zone, which no transaction holds
//! together with its hostname's record, comes after that record and goes before it, as a rule does with its digest.

use super::operations::comment_max_bytes;
use super::{Host, Wanted};
use crate::model::{NewRecord, Record, RecordPatch};
use crate::reconcile::heritage::{Heritage, content_of, text_of};
use crate::reconcile::plan::request::RegistryTxt;
use crate::reconcile::plan::{HostPlan, Reason, RecordOperation, Stage};
use crate::reconcile::snapshot::ZoneSnapshot;
use crate::reconcile::stamp::{Stamp, TxtStamp};
use crate::reconcile::{Ownership, Policy};

impl Host<'_> {
    /// Why nothing of the hostname can be published. Without its TXT record ExternalDNS would ask for it in every loop,
    /// and another provider would find it without an owner one day.
    pub(super) fn txt_outside_zones(&self) -> Option<Reason> {
        let txts = Some(&self.request.txts).filter(|_| self.settings.policy.ownership == Ownership::Txt)?;
        let lost = txts.iter().find(|txt| self.snapshot.zone_of(&txt.name).is_none())?;
        Some(Reason::TxtOutsideZones { name: lost.name.clone() })
    }

    /// Stores what comes with the `wanted` endpoints. What is stored goes when the hostname `is_going`, and in comment
    /// mode with the first request that names the hostname.
    pub(super) fn plan_txts(&self, plan: &mut HostPlan, wanted: &[Wanted<'_>], is_going: bool) {
        // Another instance with our OWNER_ID may have the hostname, and its TXT records.
        if !self.has_record() && !self.foreign_records.is_empty() {
            return;
        }
        let stored = self.snapshot.txts_of(self.hostname.as_str(), &self.settings.policy.owner);
        if is_going || self.settings.policy.ownership == Ownership::Comment {
            let with_record = if is_going { Stage::Unstamp } else { Stage::Stamp };
            for (zone, record) in stored {
                let stages = (with_record, Stage::Unregister);
                self.push(plan, zone, stages, RecordOperation::delete(record));
            }
            return;
        }
        // That of a refused endpoint changes in every loop where it is encrypted.
        let is_wanted = |txt: &&RegistryTxt| {
            wanted.iter().any(|wanted| wanted.publication.path().unwrap_or_default() == &*txt.set_identifier)
        };
        let txts: Vec<&RegistryTxt> = self.request.txts.iter().filter(is_wanted).collect();
        for (index, txt) in txts.iter().enumerate() {
            // One serves all paths; they may come from different objects, and then each says another.
            if txts.iter().take(index).any(|earlier| earlier.name == txt.name) {
                continue;
            }
            let says_it = |record: &Record| {
                let text = text_of(&record.content);
                txts.iter().any(|other| other.name == txt.name && other.text == text)
            };
            if let Some((zone, operation)) = self.store(txt, &stored, &says_it) {
                self.push(plan, zone, (Stage::Stamp, Stage::Register), operation);
            }
        }
    }

    /// What makes one TXT record stand there: found by its name, whatever it says.
    fn store<'a>(
        &'a self,
        txt: &RegistryTxt,
        stored: &[(&'a ZoneSnapshot, &'a Record)],
        says_it: &dyn Fn(&Record) -> bool,
    ) -> Option<(&'a ZoneSnapshot, RecordOperation)> {
        let zone = self.snapshot.zone_of(&txt.name)?;
        let mut own = stored.iter().filter(|(_, record)| record.name == txt.name);
        let mut free = zone.records_of(&txt.name).iter().filter(|record| is_free(record));
        let content = || Some(content_of(&txt.text).into());
        let stamp = |remark: &str| {
            let stamp = TxtStamp::new(&self.settings.policy.owner, self.hostname.as_str());
            stamp.render(remark, comment_max_bytes(zone)).into()
        };
        let patch = |record: &Record, content, comment| {
            let id = record.id.clone();
            let patch = RecordPatch { id, kind: None, content, proxied: None, ttl: None, comment };
            RecordOperation::Patch(patch, record.into())
        };
        if own.clone().any(|(_, record)| says_it(record)) {
            return None;
        }
        // Cloudflare takes no second record that says the same.
        if let Some(record) = free.clone().find(|record| says_it(record)) {
            return Some((zone, patch(record, None, Some(stamp(&record.comment)))));
        }
        if let Some((zone, record)) = own.next() {
            return Some((zone, patch(record, content(), None)));
        }
        let Policy { owner, adopt, .. } = &self.settings.policy;
        let is_ours = |record: &&Record| {
            Heritage::parse(&record.content)
                .is_some_and(|heritage| heritage.owner == *owner || adopt.owners.contains(&heritage.owner))
        };
        if let Some(record) = free.find(is_ours) {
            return Some((zone, patch(record, content(), Some(stamp(&record.comment)))));
        }
        let post = NewRecord {
            name: txt.name.clone(),
            kind: "TXT".into(),
            content: content_of(&txt.text).into(),
            proxied: false,
            ttl: 1,
            comment: stamp(""),
        };
        Some((zone, RecordOperation::Post(post)))
    }

    /// Into the transaction of the hostname's own record where that is in the same zone, else into that of `elsewhere`.
    fn push(
        &self,
        plan: &mut HostPlan,
        zone: &ZoneSnapshot,
        (with_record, elsewhere): (Stage, Stage),
        operation: RecordOperation,
    ) {
        let stage = if zone.zone.id == self.zone.zone.id { with_record } else { elsewhere };
        let operations = plan.operations.entry((stage, zone.zone.id.clone())).or_default();
        // What is stored may go with what is taken over already. Deleted twice, it would fail the transaction.
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }
}

/// Whether it is a TXT record that nobody's stamp is on.
fn is_free(record: &Record) -> bool {
    record.is_writable_txt()
        && TxtStamp::parse(&record.comment).is_none()
        && Stamp::parse(&record.comment).is_none()
}
