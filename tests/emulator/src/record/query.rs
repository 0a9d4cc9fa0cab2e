//! The list of records.

use serde_json::Value;

use crate::answer::{Refusal, Success};
use crate::http::Request;
use crate::page::{Page, number};
use crate::record::Record;
use crate::zone::Zone;

/// Most records on a page. The schema says 5,000,000; what is asked beyond 5,000 is not given.
const PAGE_LIMIT: usize = 5000;

/// `GET /zones/{zone_id}/dns_records`. Its many filters, which no client of the tests uses, are refused.
pub(crate) fn list(zone: &Zone, request: &Request) -> Result<Success, Refusal> {
    let mut page = Page { number: 1, size: 100 };
    for (name, value) in request.parameters() {
        match &*name {
            "page" => page.number = number(&name, &value, 1..=usize::MAX)?,
            "per_page" => page.size = number(&name, &value, 1..=5_000_000)?.min(PAGE_LIMIT),
            _ => return Err(Refusal::bad_request(format!("{name} is unknown here"))),
        }
    }
    let mut records: Vec<&Record> = zone.records.iter().collect();
    records.sort_by(|a, b| a.kind.cmp(&b.kind));
    let pages = page.count(records.len());
    let shown: Vec<Value> = page.of(records).into_iter().map(Record::to_json).collect();
    let mut success = Success::of(&shown);
    success.result_info = Some(page.info(shown.len(), zone.records.len(), Some(pages)));
    Ok(success)
}
