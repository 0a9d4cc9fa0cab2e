//! Questions to Cloudflare about what would open or lose something if it was otherwise. `probes.json` has a row for
//! each: the sentence of `docs/protocol.md` that it holds, and the answer that would break it, which the proxy gives in
//! a test.

use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::clean::places;
use crate::guard::{Bounds, rules_to_keep};
use crate::proxy::{Answer, Proxy};
use crate::run::{Look, NO_POLICY, Outcome, PASSED};

#[derive(Clone, Deserialize)]
pub struct Probe {
    pub name: &'static str,
    pub sentence: &'static str,
    /// The member of the answer with another value, or without one: `/date` is the header.
    pub pointer: &'static str,
    pub value: Option<Value>,
}

/// Between two looks at a list that is late: a run has no more calls.
const POLL_PAUSE: Duration = Duration::from_secs(5);

/// What the probes stand on.
pub struct Ground<'a> {
    pub look: &'a Look,
    pub proxy: &'a Proxy,
    pub bounds: Bounds,
    /// A tunnel that was never configured.
    pub tunnel: String,
    /// The name of the probe.
    pub question: &'static str,
}

/// In the order of the rows.
pub const QUESTIONS: [fn(&Ground<'_>) -> Outcome; 10] =
    [exclusion, transaction, comment, unconfigured, words, document, gone, late_lists, audience, date];

pub fn probes() -> Vec<Probe> {
    serde_json::from_str(include_str!("probes.json")).expect("each row is a probe")
}

impl Ground<'_> {
    fn records(&self) -> String {
        let [records, ..] = places(&self.bounds);
        records
    }

    fn post(&self, records: &[Value], question: &str) -> Answer {
        let body = json!({"posts": records}).to_string();
        self.proxy.ask("POST", &format!("{}/batch", self.records()), &body, question)
    }

    fn text_record(&self, number: usize, comment: &str) -> Value {
        json!({"type": "TXT", "name": self.bounds.hostname(number), "content": "\"live\"", "comment": comment})
    }

    fn cname(&self, number: usize) -> Value {
        let content = format!("{}.cfargotunnel.com", self.tunnel);
        json!({"type": "CNAME", "name": self.bounds.hostname(number), "content": content, "proxied": true})
    }

    /// Creates a TXT record, and says its id.
    fn make_text_record(&self, number: usize) -> Value {
        self.post(&[self.text_record(number, "")], "").succeeded().json["result"]["posts"][0]["id"].take()
    }

    fn configuration(&self) -> String {
        let [_, _, _, tunnels] = places(&self.bounds);
        format!("{tunnels}/{}/configurations", self.tunnel)
    }

    /// Writes rules before those that the tunnel has for everything else.
    fn put(&self, rules: &Value, question: &str) -> Answer {
        let present = self.proxy.call("GET", &self.configuration(), &Value::Null);
        let kept = rules_to_keep(&self.bounds, &present.text).join(",");
        let kept = if kept.is_empty() { r#"{"service":"http_status:404"}"# } else { &kept };
        let rules = rules.to_string();
        let body = format!(r#"{{"config":{{"ingress":{},{kept}]}}}}"#, rules.trim_end_matches(']'));
        self.proxy.ask("PUT", &self.configuration(), &body, question)
    }

    /// Asks until the list has it, and says after how many milliseconds it had.
    #[allow(clippy::disallowed_methods, reason = "how late Cloudflare is, is what is measured")]
    fn wait_for(&self, list: &str, per_page: usize, id: &Value) -> u64 {
        let begun = Instant::now();
        loop {
            let target = format!("{list}?page=1&per_page={per_page}");
            let answer = self.proxy.ask("GET", &target, "", self.question);
            let waited = begun.elapsed();
            if answer.items().iter().any(|item| item["id"] == *id) {
                return u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            }
            assert!(waited < self.proxy.settings().patience, "it is not listed after {} s", waited.as_secs());
            thread::sleep(POLL_PAUSE);
        }
    }

    /// Creates an application of this run; its tag is there already, or is created.
    fn make_application(&self, policy: &str, question: &str) -> Answer {
        let [_, applications, tags, _] = places(&self.bounds);
        let tag = &self.bounds.tag;
        if !self.proxy.list(&tags, 1000).iter().any(|item| item["name"] == **tag) {
            self.proxy.call("POST", &tags, &json!({"name": tag})).succeeded();
        }
        let place = self.bounds.hostname(11);
        let body = json!({"type": "self_hosted", "name": place, "domain": place, "tags": [tag],
            "destinations": [{"type": "public", "uri": place}], "policies": [{"id": policy, "precedence": 1}]});
        self.proxy.ask("POST", &applications, &body.to_string(), question).succeeded()
    }

    fn delete_application(&self, made: &Answer) {
        let [_, applications, ..] = places(&self.bounds);
        let id = made.json["result"]["id"].as_str().unwrap_or_default();
        self.proxy.call("DELETE", &format!("{applications}/{id}"), &Value::Null).succeeded();
    }
}

fn exclusion(ground: &Ground<'_>) -> Outcome {
    let address = json!({"type": "A", "name": ground.bounds.hostname(6), "content": "192.0.2.1"});
    ground.post(&[address], "").succeeded();
    let answer = ground.post(&[ground.cname(6)], ground.question);
    assert!(!answer.is_success(), "a CNAME was created beside an A");
    PASSED
}

/// The A record of the probe before is in the way of the second post.
fn transaction(ground: &Ground<'_>) -> Outcome {
    ground.post(&[ground.text_record(7, "beside a mistake"), ground.cname(6)], "");
    let target = format!("{}?page=1&per_page=5000", ground.records());
    let answer = ground.proxy.ask("GET", &target, "", ground.question).succeeded();
    let is_done = answer.items().iter().any(|item| item["comment"] == "beside a mistake");
    assert!(!is_done, "a batch with a mistake was done in part");
    PASSED
}

fn comment(ground: &Ground<'_>) -> Outcome {
    let most = "x".repeat(ground.look.comment_max);
    let longer = ground.post(&[ground.text_record(8, &format!("{most}x"))], "");
    assert!(!longer.is_success(), "a comment of {} characters was taken", ground.look.comment_max + 1);
    let answer = ground.post(&[ground.text_record(8, &most)], ground.question).succeeded();
    assert!(answer.json["result"]["posts"][0]["comment"] == *most, "a comment was stored otherwise");
    PASSED
}

fn unconfigured(ground: &Ground<'_>) -> Outcome {
    let answer = ground.proxy.ask("GET", &ground.configuration(), "", ground.question);
    let is_null = answer.is_success() && answer.json["result"]["config"].is_null();
    assert!(is_null || *answer.code() == 1055, "it has a configuration, or code {}", answer.code());
    PASSED
}

fn words(ground: &Ground<'_>) -> Outcome {
    let name = ground.bounds.hostname(12);
    let rule = |path: &str| json!({"hostname": name, "path": path, "service": "http_status:201"});
    let answer = ground.put(&json!([rule("^/a"), rule("(")]), ground.question);
    assert!(*answer.code() == 1056, "code {}", answer.code());
    let message = answer.json["errors"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("Rule #2"), "the rule has another number, or none");
    PASSED
}

fn document(ground: &Ground<'_>) -> Outcome {
    let (name, options) = (ground.bounds.hostname(12), json!({"connectTimeout": 30, "noTLSVerify": true}));
    let rules = json!([
        {"hostname": name, "path": "^/a(/|$)", "service": "http_status:201", "originRequest": options},
        {"hostname": name, "path": "^/b(/|$)", "service": "http_status:202"},
    ]);
    let first = ground.put(&rules, "").succeeded().json["result"]["version"].as_i64();
    ground.put(&rules, "").succeeded();
    let read = ground.proxy.ask("GET", &ground.configuration(), "", ground.question).succeeded();
    let second = read.json["result"]["version"].as_i64();
    assert!(first.is_some() && first.map(|first| first + 1) == second, "versions {first:?} and {second:?}");
    let read = &read.json["result"]["config"]["ingress"];
    for (position, member) in
        [0, 1].into_iter().flat_map(|one| ["hostname", "path", "service"].map(|member| (one, member)))
    {
        assert!(
            read[position][member] == rules[position][member],
            "{member} of rule {position} reads back otherwise"
        );
    }
    // Defaults may be dropped. What is none decides how the service is asked.
    assert!(read[0]["originRequest"]["noTLSVerify"] == true, "an option was dropped");
    PASSED
}

fn gone(ground: &Ground<'_>) -> Outcome {
    let batch = json!({"deletes": [{"id": ground.make_text_record(9)}]}).to_string();
    let delete =
        |question| ground.proxy.ask("POST", &format!("{}/batch", ground.records()), &batch, question);
    delete("").succeeded();
    let answer = delete(ground.question);
    assert!(*answer.code() == 81044, "code {}", answer.code());
    PASSED
}

fn late_lists(ground: &Ground<'_>) -> Outcome {
    let record = ground.wait_for(&ground.records(), 5000, &ground.make_text_record(10));
    let Some([_, policy]) = &ground.look.policy else { return Outcome::Passed(Some(record)) };
    let made = ground.make_application(policy, "");
    let [_, applications, ..] = places(&ground.bounds);
    let application = ground.wait_for(&applications, 1000, &made.json["result"]["id"]);
    ground.delete_application(&made);
    Outcome::Passed(Some(record.max(application)))
}

fn audience(ground: &Ground<'_>) -> Outcome {
    let Some([_, policy]) = &ground.look.policy else { return NO_POLICY };
    let first = ground.make_application(policy, "");
    ground.delete_application(&first);
    let second = ground.make_application(policy, ground.question);
    ground.delete_application(&second);
    let [before, after] = [&first, &second].map(|made| made.json["result"]["aud"].as_str());
    assert!(after.is_some() && before != after, "it has no audience of its own");
    PASSED
}

fn date(ground: &Ground<'_>) -> Outcome {
    let answer = ground.proxy.ask("GET", "/zones?page=1&per_page=5", "", ground.question);
    let date = answer.date.as_deref().and_then(|date| httpdate::parse_http_date(date).ok());
    assert!(date.is_some(), "there is none");
    PASSED
}
