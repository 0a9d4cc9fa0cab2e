//! Stores the TXT records of ExternalDNS's registry for a hostname, faithfully and without reading them.
//!
//! They say nothing that the stamps do not say, so a record without its TXT record is still ours and shown so:
//! ExternalDNS asks for a lost one with `txt/force-update` as soon as it sees another one. But nobody would ever ask
//! again for a TXT record without its hostname's record. So a TXT record in another zone, which shares no transaction
//! with its hostname's record, comes after that record and goes before it, as a rule does with its digest.

use super::comment::max_bytes;
use super::decision::Decision;
use super::operations::Step;
use super::standing::Standing;
use crate::model::{NewRecord, Record, RecordPatch};
use crate::reconcile::heritage::{Heritage, content_of, text_of};
use crate::reconcile::plan::request::RegistryTxt;
use crate::reconcile::plan::{RecordOperation, Stage};
use crate::reconcile::snapshot::ZoneSnapshot;
use crate::reconcile::stamp::{Stamp, TxtStamp};
use crate::reconcile::{Ownership, Policy};

/// Stores the TXT records of the desired endpoints. They go with the hostname, or in comment mode with the first
/// request that names the hostname.
pub(super) fn steps<'a>(standing: &Standing<'a>, decision: &Decision<'_>) -> Vec<Step<'a>> {
    // Another instance with our OWNER_ID may have the hostname, and its TXT records.
    if !standing.has_record() && !standing.foreign_records.is_empty() {
        return Vec::new();
    }
    let stored = standing.snapshot().txts_of(standing.name(), &standing.policy().owner);
    // The operation joins the transaction of the hostname's own record if both are in the same zone.
    let step = |zone, with_record, elsewhere, operation| Step {
        stage: if standing.is_home(zone) { with_record } else { elsewhere },
        zone,
        operation,
    };
    let is_going = decision.course.ends();
    if is_going || standing.policy().ownership == Ownership::Comment {
        let with_record = if is_going { Stage::Unstamp } else { Stage::Stamp };
        let deletions = stored.into_iter().map(|(zone, record)| {
            step(zone, with_record, Stage::Unregister, RecordOperation::delete(record))
        });
        return deletions.collect();
    }
    let txts = desired_txts(standing, decision);
    let mut steps = Vec::new();
    for (index, txt) in txts.iter().enumerate() {
        // One record serves all paths. They may come from different objects, whose texts then differ.
        if txts.iter().take(index).any(|earlier| earlier.name == txt.name) {
            continue;
        }
        let says_it = |record: &Record| {
            let text = text_of(&record.content);
            txts.iter().any(|other| other.name == txt.name && other.text == text)
        };
        let stored = store(standing, txt, &stored, &says_it);
        steps.extend(stored.map(|(zone, operation)| step(zone, Stage::Stamp, Stage::Register, operation)));
    }
    steps
}

/// ExternalDNS encrypts anew in every loop, so the TXT record of a refused endpoint would never settle: only those of
/// desired endpoints are stored.
fn desired_txts<'a>(standing: &Standing<'a>, decision: &Decision<'_>) -> Vec<&'a RegistryTxt> {
    let is_desired = |txt: &&RegistryTxt| {
        let mut desired = decision.desired.iter();
        desired.any(|desired| desired.path().unwrap_or_default() == &*txt.set_identifier)
    };
    standing.request.txts.iter().filter(is_desired).collect()
}

/// The operation that stores one TXT record, which is found by its name, whatever its text.
fn store<'a>(
    standing: &Standing<'a>,
    txt: &RegistryTxt,
    stored: &[(&'a ZoneSnapshot, &'a Record)],
    says_it: &dyn Fn(&Record) -> bool,
) -> Option<(&'a ZoneSnapshot, RecordOperation)> {
    let Policy { owner, adopt, .. } = standing.policy();
    let zone = standing.snapshot().zone_of(&txt.name)?;
    let mut own = stored.iter().filter(|(_, record)| record.name == txt.name);
    let mut free = zone.records_of(&txt.name).iter().filter(|record| is_free(record));
    let content = || Some(content_of(&txt.text).into());
    let stamp = |remark: &str| {
        let stamp = TxtStamp::new(owner, standing.name());
        stamp.render(remark, max_bytes(zone)).into()
    };
    let patch = |record: &Record, content, comment| {
        let id = record.id.clone();
        let patch = RecordPatch { id, content, proxied: None, comment };
        RecordOperation::Patch(patch, record.into())
    };
    if own.clone().any(|(_, record)| says_it(record)) {
        return None;
    }
    // Cloudflare accepts no second record with the same content.
    if let Some(record) = free.clone().find(|record| says_it(record)) {
        return Some((zone, patch(record, None, Some(stamp(&record.comment)))));
    }
    if let Some((zone, record)) = own.next() {
        return Some((zone, patch(record, content(), None)));
    }
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

/// True if it is a TXT record without anybody's stamp.
fn is_free(record: &Record) -> bool {
    record.is_writable_txt()
        && TxtStamp::parse(&record.comment).is_none()
        && Stamp::parse(&record.comment).is_none()
}
