//! Changes of a zone's records in one transaction.

use serde_json::{Map, Value};

use crate::answer::{Refusal, Success};
use crate::cloudflare::{Cloudflare, Identifiers};
use crate::record::Record;
use crate::record::draft::Draft;
use crate::whim::Whims;
use crate::zone::Zone;

/// Changes a copy of a zone's records under Cloudflare's rules.
#[derive(Debug)]
pub(crate) struct Editor<'a> {
    zone: &'a Zone,
    records: Vec<Record>,
    identifiers: &'a mut Identifiers,
    whims: &'a Whims,
    now: &'a str,
}

/// Runs a change on a copy of the zone's records and keeps the copy only when the change succeeds.
pub(crate) fn transact<T>(
    zone: &mut Zone,
    identifiers: &mut Identifiers,
    whims: &Whims,
    now: &str,
    change: impl FnOnce(&mut Editor<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let records = zone.records.clone();
    let mut editor = Editor { zone, records, identifiers, whims, now };
    let result = change(&mut editor)?;
    let records = editor.records;
    zone.records = records;
    Ok(result)
}

impl Editor<'_> {
    /// Adds a record.
    pub(crate) fn post(&mut self, record: &Value) -> Result<Record, Refusal> {
        let draft = self.draft(object(record)?)?;
        self.check_conflicts(&draft, None)?;
        if self.records.len() >= self.zone.record_quota {
            return Err(Refusal::new(400, 81045, "Record quota exceeded."));
        }
        let record = Record::new(self.identifiers.hex(), draft, self.now);
        self.records.push(record.clone());
        Ok(record)
    }

    /// Changes the fields that are said.
    pub(crate) fn patch(&mut self, id: &str, fields: &Value) -> Result<Record, Refusal> {
        let index = self.writable_index(id)?;
        let mut members = self.records.get(index).ok_or_else(not_found)?.writable();
        members.extend(object(fields)?.clone());
        let draft = self.draft(&members)?;
        self.check_conflicts(&draft, Some(id))?;
        let record = self.records.get_mut(index).ok_or_else(not_found)?;
        record.apply(draft, self.now, self.whims.comments_have_their_own_time);
        Ok(record.clone())
    }

    /// Deletes a record and hands it back.
    pub(crate) fn delete(&mut self, id: &str) -> Result<Record, Refusal> {
        let index = self.writable_index(id)?;
        Ok(self.records.remove(index))
    }

    fn draft(&self, members: &Map<String, Value>) -> Result<Draft, Refusal> {
        let draft = Draft::parse(self.zone, members)?;
        match self.whims.refuse_name(&draft.name) {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(draft),
        }
    }

    fn writable_index(&self, id: &str) -> Result<usize, Refusal> {
        let index = self.records.iter().position(|record| record.id == id).ok_or_else(not_found)?;
        if self.records.get(index).is_some_and(Record::is_read_only) {
            return Err(Refusal::new(400, 1046, "This record is managed by Cloudflare and is read only."));
        }
        Ok(index)
    }

    /// A, AAAA and CNAME exclude each other but for several A and AAAA; NS excludes everything below the apex.
    fn check_conflicts(&self, draft: &Draft, own_id: Option<&str>) -> Result<(), Refusal> {
        let others = self.records.iter().filter(|r| r.name == draft.name && Some(r.id.as_str()) != own_id);
        let is_address = |kind: &str| matches!(kind, "A" | "AAAA");
        let mut refusal = None;
        for other in others {
            let (new, old) = (draft.kind.as_str(), other.kind.as_str());
            let same_content = content_fingerprint(&draft.kind, &draft.content)
                == content_fingerprint(&other.kind, &other.content);
            if new == old && same_content && draft.priority == other.priority {
                return Err(Refusal::new(400, 81058, "An identical record already exists."));
            }
            let code = match (new, old) {
                ("CNAME", old) if is_address(old) || old == "CNAME" => 81053,
                (new, "CNAME") if is_address(new) => 81054,
                (new, "NS") if !matches!(new, "NS" | "DS") => 81056,
                ("NS", old) if is_address(old) || old == "CNAME" => 81053,
                ("NS", old) if !matches!(old, "NS" | "DS") => 81057,
                _ => continue,
            };
            refusal = refusal.or(Some(code));
        }
        let Some(code) = refusal else { return Ok(()) };
        let message = match code {
            81053 => "An A, AAAA, or CNAME record with that host already exists.",
            81054 => "A CNAME record with that host already exists.",
            81056 => "NS records with that host already exist.",
            _ => "Record already exists.",
        };
        Err(Refusal::new(400, code, message))
    }
}

/// What two records of a type are compared by: names in any case, TXT with or without quotes.
fn content_fingerprint(kind: &str, content: &str) -> String {
    match kind {
        "TXT" => {
            content.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(content).to_owned()
        }
        _ => content.to_ascii_lowercase(),
    }
}

fn object(value: &Value) -> Result<&Map<String, Value>, Refusal> {
    value.as_object().ok_or_else(|| Refusal::new(400, 9207, "Request body is invalid."))
}

fn not_found() -> Refusal {
    Refusal::new(404, 81044, "Record does not exist.")
}

fn body(text: &str) -> Result<Value, Refusal> {
    serde_json::from_str(text).map_err(|_| Refusal::new(400, 9207, "Request body is invalid."))
}

/// `POST /zones/{zone_id}/dns_records/batch`: deletes, patches, posts, in this order, all or none. Its puts
/// are not emulated.
pub(crate) fn run(cloudflare: &mut Cloudflare, zone: &str, text: &str) -> Result<Success, Refusal> {
    let lists = body(text)?;
    let lists = object(&lists)?;
    let [deletes, patches, posts] = ["deletes", "patches", "posts"].map(|name| list(lists, name));
    let (deletes, patches, posts) = (deletes?, patches?, posts?);
    let operations = deletes.len() + patches.len() + posts.len();
    let limit = cloudflare.zone(zone).plan.batch_limit();
    if operations > limit {
        let text = format!("Batch has {operations} operations, exceeding the limit of {limit}.");
        return Err(Refusal::dns_validation(9500, text));
    }
    if operations == 0 {
        return Err(Refusal::dns_validation(9501, "Batch has no operations."));
    }
    let done = cloudflare.change_records(zone, |editor| {
        let shown = |record: Record| record.to_json();
        let mut done = Map::new();
        let mut keep = |name: &str, records: Result<Vec<Value>, Refusal>| {
            records.map(|records| done.insert(name.to_owned(), Value::Array(records)))
        };
        keep("deletes", deletes.iter().map(|item| editor.delete(id(item)?).map(shown)).collect())?;
        keep("patches", patches.iter().map(|item| editor.patch(id(item)?, item).map(shown)).collect())?;
        keep("posts", posts.iter().map(|item| editor.post(item).map(shown)).collect())?;
        Ok(done)
    })?;
    Ok(Success::of(&done))
}

fn list<'a>(lists: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], Refusal> {
    match lists.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(Refusal::new(400, 9207, format!("{name} must be a list."))),
    }
}

fn id(item: &Value) -> Result<&str, Refusal> {
    item.get("id")
        .and_then(Value::as_str)
        .ok_or_else(|| Refusal::dns_validation(9502, "id is a required field"))
}
