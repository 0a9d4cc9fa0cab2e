//! Reading records: the list with its filters, one record, the usage.

use serde_json::{Value, json};

use crate::answer::{Refusal, Success};
use crate::http::Request;
use crate::page::{Page, number};
use crate::record::Record;
use crate::zone::Zone;

/// Most records on a page. The schema says 5,000,000; what is asked beyond 5,000 is not given.
const PAGE_LIMIT: usize = 5000;

/// Whether a record passes a filter.
type Test = Box<dyn Fn(&Record) -> bool>;

/// `GET /zones/{zone_id}/dns_records`.
pub(crate) fn list(zone: &Zone, request: &Request) -> Result<Success, Refusal> {
    let mut page = Page { number: 1, size: 100 };
    let (mut order, mut descending, mut any) = ("type".to_owned(), false, false);
    let mut tests: Vec<Test> = Vec::new();
    for (name, value) in request.parameters() {
        let (field, operator) = name.split_once('.').unwrap_or((&name, "exact"));
        let (value, operator) = (value.to_lowercase(), operator.to_owned());
        match field {
            "page" => page.number = number(field, &value, 1..=usize::MAX)?,
            "per_page" => page.size = number(field, &value, 1..=5_000_000)?.min(PAGE_LIMIT),
            "order" => order = value,
            "direction" => descending = value == "desc",
            "match" => any = value == "any",
            "type" => tests.push(Box::new(move |record| record.kind.eq_ignore_ascii_case(&value))),
            "proxied" => tests.push(Box::new(move |record| record.proxied.to_string() == value)),
            "name" => tests.push(Box::new(move |record| holds(&record.name, &operator, &value))),
            "content" => tests.push(Box::new(move |record| holds(&record.content, &operator, &value))),
            "comment" => tests.push(Box::new(move |record| comment_holds(record, &operator, &value))),
            "tag" => tests.push(Box::new(move |record| tag_holds(record, &operator, &value))),
            "search" => tests.push(Box::new(move |record| {
                let comment = record.comment.as_deref().unwrap_or_default();
                [&record.name, &record.content, comment].iter().any(|text| holds(text, "contains", &value))
            })),
            _ => {}
        }
    }
    let passes = |record: &&Record| {
        tests.is_empty()
            || if any { tests.iter().any(|test| test(record)) } else { tests.iter().all(|test| test(record)) }
    };
    let mut records: Vec<&Record> = zone.records.iter().filter(passes).collect();
    match order.as_str() {
        "type" => records.sort_by(|a, b| a.kind.cmp(&b.kind)),
        "name" => records.sort_by(|a, b| a.name.cmp(&b.name)),
        "content" => records.sort_by(|a, b| a.content.cmp(&b.content)),
        "ttl" => records.sort_by_key(|record| record.ttl),
        "proxied" => records.sort_by_key(|record| record.proxied),
        _ => {
            return Err(Refusal::bad_request("order must be one of type, name, content, ttl, proxied"));
        }
    }
    if descending {
        records.reverse();
    }
    let pages = page.count(records.len());
    let shown: Vec<Value> = page.of(records).into_iter().map(Record::to_json).collect();
    let mut success = Success::of(&shown);
    // "Total results available without any search parameters": no use for finding the last page.
    success.result_info = Some(page.info(shown.len(), zone.records.len(), Some(pages)));
    Ok(success)
}

/// `GET /zones/{zone_id}/dns_records/{id}`.
pub(crate) fn show(zone: &Zone, id: &str) -> Result<Success, Refusal> {
    let record = zone.records.iter().find(|record| record.id == id);
    let record = record.ok_or_else(|| Refusal::new(404, 81044, "Record does not exist."))?;
    Ok(Success::of(&record.to_json()))
}

/// `GET /zones/{zone_id}/dns_records/usage`.
pub(crate) fn usage(zone: &Zone) -> Success {
    Success::of(&json!({"record_usage": zone.records.len(), "record_quota": zone.record_quota}))
}

/// `wanted` is in lower case already: all these filters disregard case.
fn holds(text: &str, operator: &str, wanted: &str) -> bool {
    let text = text.to_lowercase();
    match operator {
        "contains" => text.contains(wanted),
        "startswith" => text.starts_with(wanted),
        "endswith" => text.ends_with(wanted),
        _ => text == wanted,
    }
}

fn comment_holds(record: &Record, operator: &str, wanted: &str) -> bool {
    match (operator, &record.comment) {
        ("present", comment) => comment.is_some(),
        ("absent", comment) => comment.is_none(),
        (operator, Some(comment)) => holds(comment, operator, wanted),
        (_, None) => false,
    }
}

/// `tag=name` is presence, `tag=name:value` equality; the suffixed forms take `name` or `name:part`.
fn tag_holds(record: &Record, operator: &str, wanted: &str) -> bool {
    let (name, part) = wanted.split_once(':').unwrap_or((wanted, ""));
    let operator = if operator == "exact" && !wanted.contains(':') { "present" } else { operator };
    let mut values = record.tags.iter().filter_map(|tag| tag.split_once(':').filter(|(n, _)| *n == name));
    match operator {
        "present" => values.next().is_some(),
        "absent" => values.next().is_none(),
        operator => values.any(|(_, value)| holds(value, operator, part)),
    }
}
