//! What cloudflared 2026.8.2 said of 613 documents and 1,626 requests, line by line.

use cloudflare_emulator::ingress::{matching_rule, validate};
use serde_json::Value;
use serde_json::value::RawValue;

/// Lines (from 1) whose acceptance the translation to the `regex` crate cannot tell. None.
const UNDECIDED: [usize; 0] = [];

#[derive(serde::Deserialize)]
struct Line {
    config: Box<RawValue>,
    error: Option<String>,
    #[serde(default)]
    requests: Vec<Value>,
}

fn lines() -> Vec<Line> {
    let text = include_str!("../../vectors/cloudflared-ingress.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// `null` as a config is a document too, so it must not be read as an absent one.
#[test]
fn every_document_is_accepted_or_refused_in_the_words_of_cloudflared() {
    let mut wrong = Vec::new();
    for (index, line) in lines().iter().enumerate() {
        let said = validate(line.config.get()).err().map(|violation| violation.to_string());
        if said != line.error && !UNDECIDED.contains(&(index + 1)) {
            wrong.push(format!("line {}: said {said:?}, cloudflared {:?}", index + 1, line.error));
        }
    }
    assert_eq!(lines().len(), 613);
    assert!(wrong.is_empty(), "{} of 613 lines differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_request_meets_the_rule_that_cloudflared_chose() {
    let mut wrong = Vec::new();
    let mut requests = 0;
    for (index, line) in lines().iter().enumerate() {
        for request in &line.requests {
            let (host, path) = (request["host"].as_str().unwrap(), request["path"].as_str().unwrap());
            let found = matching_rule(line.config.get(), host, path);
            requests += 1;
            if found.map(|rule| rule as u64) != request["rule"].as_u64() {
                wrong.push(format!("line {}: {request} met {found:?}", index + 1));
            }
        }
    }
    assert_eq!(requests, 1626);
    assert!(wrong.is_empty(), "{} of 1626 requests differ:\n{}", wrong.len(), wrong.join("\n"));
}
