//! The alert rules and the dashboard of `deploy/` against the program's table of metrics: names, labels, and those
//! values of labels that are words of the program. Whether they are PromQL, and say what they should, `just promtool`
//! asks promtool.

#![allow(clippy::panic, clippy::indexing_slicing, reason = "what is missing fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::cloudflare::ApiResource;
use external_dns_cloudflare_tunnel_webhook::ingress::RuleEdit;
use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::observe::metrics::{
    Definition, Family, Metrics, RULE_OWNERSHIPS,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::RecordOperation;
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use external_dns_cloudflare_tunnel_webhook::webhook::routes::{self, Route};
use regex::Regex;
use serde_json::Value;

const ALERTS: &str = include_str!("../../deploy/chart/files/alerts.yaml");
const ALERTS_TEST: &str = include_str!("../dashboards/alerts_test.yaml");
const DASHBOARD: &str = include_str!("../../deploy/chart/files/dashboard.json");

/// What Prometheus adds to every sample.
const LABELS_OF_THE_SCRAPE: [&str; 2] = ["instance", "job"];

/// What an alert adds to its samples.
const LABELS_OF_ALERTS: [&str; 3] = ["alertname", "alertstate", "severity"];

/// What of PromQL is used here; any other word outside braces has to be a metric.
const FUNCTIONS: [&str; 14] = [
    "absent",
    "and",
    "count",
    "count_over_time",
    "histogram_quantile",
    "increase",
    "max",
    "min",
    "min_over_time",
    "or",
    "rate",
    "sum",
    "time",
    "vector",
];

/// Behind these stands a list of labels.
const GROUPINGS: [&str; 5] = ["by", "without", "on", "ignoring", "group_left"];

/// The words that the program itself puts into a label; `None` where a label's values come from elsewhere.
fn words_of(label: &str) -> Option<BTreeSet<String>> {
    let words = match label {
        "reason" => Reason::LABEL_VALUES.to_vec(),
        "route" => [Route::LABEL_VALUES, &[routes::NO_ROUTE]].concat(),
        "resource" => ApiResource::LABEL_VALUES.to_vec(),
        "kind" => [RuleEdit::LABEL_VALUES, RecordOperation::LABEL_VALUES].concat(),
        "ownership" => RULE_OWNERSHIPS.to_vec(),
        "le" => return Some(bounds()),
        _ => return None,
    };
    Some(words.into_iter().map(str::to_owned).collect())
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("it was tried")
}

/// The bounds of a histogram's buckets, as they are shown and as Prometheus 3 stores them.
fn bounds() -> BTreeSet<String> {
    let metrics = Metrics::default();
    metrics.update().observe(Family::RequestDuration, &["x"], Duration::ZERO);
    let text = metrics.text();
    let bound = regex(r#"le="([^"]+)""#);
    let shown: BTreeSet<String> = bound.captures_iter(&text).map(|found| found[1].to_owned()).collect();
    let whole = shown.iter().filter(|bound| bound.parse::<u32>().is_ok());
    whole.map(|bound| format!("{bound}.0")).chain(shown.iter().cloned()).collect()
}

/// The labels of a sample's name, `None` where the program shows no such sample.
fn labels_of(sample: &str) -> Option<Vec<&'static str>> {
    Family::ALL.iter().map(|family| family.definition()).find_map(|definition| {
        let Definition { name, kind, labels, help: _ } = *definition;
        let suffix = sample.strip_prefix(name)?;
        match (kind, suffix) {
            ("histogram", "_bucket") => Some([labels, &["le"]].concat()),
            ("histogram", "_sum" | "_count") | ("counter" | "gauge", "") => Some(labels.to_vec()),
            _ => None,
        }
    })
}

/// What one expression asks for, and what is wrong with it.
#[derive(Debug, Default)]
struct Reading {
    /// Labels that its result may have.
    labels: BTreeSet<String>,
    samples: BTreeSet<String>,
    mistakes: Vec<String>,
}

impl Reading {
    fn of(expression: &str) -> Self {
        let token = regex(
            r#"(?x) (?<text>"[^"]*") | (?<range>\[[^\]]*\]) | (?<number>[0-9][0-9.a-z]*)
                | (?<word>[A-Za-z_][A-Za-z0-9_]*) | (?<other>=~|!~|!=|>=|<=|==|\S)"#,
        );
        let tokens: Vec<(&str, &str)> = token
            .captures_iter(expression)
            .map(|found| {
                let mut kinds = ["text", "range", "number", "word", "other"].into_iter();
                let kind = kinds.find(|kind| found.name(kind).is_some()).expect("one of them");
                (kind, found.get(0).expect("the whole").as_str())
            })
            .collect();
        let mut reading = Self::default();
        let mut named = Vec::new();
        let mut index = 0;
        while let Some(&(kind, word)) = tokens.get(index) {
            index += 1;
            if kind != "word" || FUNCTIONS.contains(&word) {
                continue;
            }
            let followed_by = |bracket: &str| tokens.get(index).is_some_and(|(_, next)| *next == bracket);
            let inside = |close: &str| {
                let rest = tokens.get(index + 1..).unwrap_or_default();
                rest.split(|(kind, text)| *kind == "other" && *text == close).next().unwrap_or_default()
            };
            if GROUPINGS.contains(&word) {
                assert!(followed_by("("), "{word} without a list: {expression}");
                let list = inside(")");
                named.extend(list.iter().filter(|(kind, _)| *kind == "word").map(|(_, label)| *label));
                index += list.len() + 2;
                continue;
            }
            let labels = if word == "ALERTS" {
                let every = Family::ALL.iter().flat_map(|family| family.definition().labels);
                every.copied().chain(LABELS_OF_ALERTS).collect()
            } else if let Some(labels) = labels_of(word) {
                reading.samples.insert(word.to_owned());
                labels
            } else {
                reading.mistakes.push(format!("there is no metric {word}"));
                continue;
            };
            reading.labels.extend(labels.iter().copied().chain(LABELS_OF_THE_SCRAPE).map(str::to_owned));
            if followed_by("{") {
                let matchers = inside("}");
                index += matchers.len() + 2;
                for matcher in matchers.split(|(_, text)| *text == ",") {
                    let [("word", label), ("other", operator), ("text", value)] = *matcher else {
                        panic!("{matcher:?} in {expression}");
                    };
                    let known = labels.contains(&label) || LABELS_OF_THE_SCRAPE.contains(&label);
                    if !known {
                        reading.mistakes.push(format!("{word} has no label {label}"));
                    }
                    reading.check_value(label, operator, value.trim_matches('"'));
                }
            }
        }
        for label in named {
            if !reading.labels.contains(label) {
                reading.mistakes.push(format!("nothing has a label {label}"));
            }
        }
        reading
    }

    /// Alternatives of words are read; of patterns only those of a status, which is a number or `none`.
    fn check_value(&mut self, label: &str, operator: &str, value: &str) {
        let alternatives = || if operator.ends_with('~') { value.split('|') } else { value.split('\0') };
        let wrong: Vec<&str> = match (label, words_of(label)) {
            (_, Some(words)) => alternatives().filter(|word| !words.contains(*word)).collect(),
            ("status", None) => {
                let status = regex(r"^(?:[1-5][0-9.]{2}|none)$");
                alternatives().filter(|word| !status.is_match(word)).collect()
            }
            _ => Vec::new(),
        };
        self.mistakes.extend(wrong.iter().map(|word| format!("the program has no {label} {word:?}")));
    }
}

#[track_caller]
fn assert_right(expression: &str) -> Reading {
    let reading = Reading::of(expression);
    assert!(reading.mistakes.is_empty(), "{expression}: {:?}", reading.mistakes);
    reading
}

/// The alerts by name, each with what stands behind its keys. Reads no more of YAML than the file has.
fn alerts() -> BTreeMap<String, BTreeMap<String, String>> {
    let is_key = regex(r"^ +([a-z]+):(?: (.*))?$");
    let mut alerts = BTreeMap::new();
    for block in ALERTS.split("- alert: ").skip(1) {
        let (name, body) = block.split_once('\n').expect("a name has its line");
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        let mut last = String::new();
        for line in body.lines().filter(|line| !line.trim_start().starts_with('#')) {
            if let Some(found) = is_key.captures(line) {
                found[1].clone_into(&mut last);
                let value = found.get(2).map_or("", |value| value.as_str()).trim_start_matches(">-");
                values.insert(last.clone(), value.trim_matches('"').to_owned());
            } else {
                let value = values.get_mut(&last).expect("a key before its lines");
                value.push(' ');
                value.push_str(line.trim());
            }
        }
        alerts.insert(name.to_owned(), values);
    }
    assert!(alerts.len() >= 10, "{alerts:?}");
    alerts
}

/// Every panel of the dashboard but the headings.
fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a list").iter();
    let panels: Vec<Value> = panels.filter(|panel| panel["type"] != "row").cloned().collect();
    assert!(panels.len() >= 15, "{} panels", panels.len());
    panels
}

fn targets(panel: &Value) -> &[Value] {
    panel["targets"].as_array().expect("a list")
}

/// As Grafana fills them in: everything.
fn without_variables(expression: &str) -> String {
    expression.replace("$job", ".*").replace("$instance", ".*")
}

#[test]
fn every_mistake_that_is_looked_for_is_found() {
    for (right, wrong) in [
        ("sum(cloudflare_tunnel_webhook_refusals)", "sum(cloudflare_tunnel_webhook_refusal)"),
        ("cloudflare_tunnel_webhook_requests_total", "cloudflare_tunnel_webhook_requests"),
        (
            "cloudflare_tunnel_webhook_call_duration_seconds_bucket",
            "cloudflare_tunnel_webhook_call_duration_seconds",
        ),
        (
            r#"cloudflare_tunnel_webhook_call_duration_seconds_bucket{le="10"}"#,
            r#"cloudflare_tunnel_webhook_call_duration_seconds_bucket{le="11"}"#,
        ),
        (
            r#"cloudflare_tunnel_webhook_refusals{reason!~"no_zone|rule_conflict"}"#,
            r#"cloudflare_tunnel_webhook_refusals{reason!~"no_zone|rule_conflicts"}"#,
        ),
        (
            r#"cloudflare_tunnel_webhook_refusals{reason="no_zone"}"#,
            r#"cloudflare_tunnel_webhook_refusals{reasons="no_zone"}"#,
        ),
        (
            r#"cloudflare_tunnel_webhook_changes_total{kind="rule_deleted"}"#,
            r#"cloudflare_tunnel_webhook_changes_total{kind="rule_withdrawn"}"#,
        ),
        (
            r#"cloudflare_tunnel_webhook_requests_total{status=~"5..|404"}"#,
            r#"cloudflare_tunnel_webhook_requests_total{status=~"5xx"}"#,
        ),
        (
            "sum by (tunnel, instance) (cloudflare_tunnel_webhook_rules)",
            "sum by (zone) (cloudflare_tunnel_webhook_rules)",
        ),
    ] {
        assert_right(right);
        assert_eq!(Reading::of(wrong).mistakes.len(), 1, "{wrong}");
    }
}

#[test]
fn every_alert_asks_for_what_the_program_shows_and_says_what_to_do() {
    let template = regex(r"\$labels\.([a-z_]+)");
    let metric = regex(r"cloudflare_tunnel_webhook_[a-z_]+");
    for (name, values) in alerts() {
        let value = |key: &str| values.get(key).unwrap_or_else(|| panic!("{name} has no {key}"));
        let reading = assert_right(value("expr"));
        assert!(["critical", "warning", "info"].contains(&&**value("severity")), "{name}");
        assert!(value("description").len() > 50, "{name}");
        let texts = [value("summary"), value("description")];
        for label in texts.iter().flat_map(|text| template.captures_iter(text)) {
            let label = &label[1];
            assert!(reading.labels.contains(label), "{name}: its result has no label {label}");
            let dropped = regex(&format!(r"(?:without|ignoring) \([a-z_, ]*\b{label}\b"));
            assert!(!dropped.is_match(value("expr")), "{name}: its result has no label {label} any more");
        }
        for named in texts.iter().flat_map(|text| metric.find_iter(text)) {
            let exact = labels_of(named.as_str()).is_some();
            assert!(exact || labels_of(&format!("{}_sum", named.as_str())).is_some(), "{name}: {named:?}");
        }
    }
}

#[test]
fn every_alert_is_seen_firing_and_every_series_of_its_test_is_one_of_the_program() {
    let silent = ALERTS_TEST.lines().filter(|line| line.trim() == "exp_samples: []").count();
    let names: BTreeSet<String> = alerts().into_keys().collect();
    let alert = regex(r#"alertname="([A-Za-z]+)""#);
    let fired: BTreeSet<String> = alert.captures_iter(ALERTS_TEST).map(|found| found[1].to_owned()).collect();
    assert_eq!(fired, names);
    assert!(silent > names.len(), "each is seen silent too, and a healthy instance");
    let mut series = 0;
    for line in ALERTS_TEST.lines().map(|line| line.trim_start().trim_start_matches("- ")) {
        if let Some(expression) = line.strip_prefix("series: ").or_else(|| line.strip_prefix("expr: ")) {
            series += assert_right(expression).samples.len();
        }
    }
    assert!(series > 30, "{series} were found");
}

#[test]
fn alerts_and_dashboard_have_the_programs_own_threshold_of_calls() {
    let limit = limits::CONNECTORS_CALLS_LEFT_MIN;
    let values = &alerts()["CloudflareTunnelWebhookFewCallsLeft"];
    assert_eq!(values["expr"], format!("cloudflare_tunnel_webhook_calls_left < {limit}"));
    let calls_left = panels().into_iter().filter(|panel| panel["title"] == "Calls left");
    let thresholds: Vec<u64> = calls_left
        .map(|panel| panel["fieldConfig"]["defaults"]["thresholds"]["steps"].clone())
        .filter_map(|steps| steps.as_array()?.last()?["value"].as_u64())
        .collect();
    assert_eq!(thresholds, [u64::from(limit); 2]);
}

#[test]
fn every_panel_asks_for_what_the_program_shows() {
    let mut samples = BTreeSet::new();
    let by = regex(r"by \(([a-z_, ]+)\)");
    let placeholder = regex(r"\{\{([a-z_]+)\}\}");
    for panel in panels() {
        for target in targets(&panel) {
            let expression = without_variables(target["expr"].as_str().expect("a text"));
            let reading = assert_right(&expression);
            let legend = target["legendFormat"].as_str().expect("a text");
            let kept = by.captures(&expression).map_or("", |found| found.get(1).expect("a list").as_str());
            for label in placeholder.captures_iter(legend).map(|found| found[1].to_owned()) {
                assert!(kept.split(", ").any(|kept| kept == label), "{expression} keeps no {label}");
            }
            samples.extend(reading.samples);
        }
    }
    for Definition { name, .. } in Family::ALL.iter().map(|family| family.definition()) {
        assert!(samples.iter().any(|sample| sample.starts_with(name)), "no panel shows {name}");
    }
}

#[test]
fn the_dashboard_fits_any_grafana() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    assert!(dashboard["id"].is_null() && dashboard["schemaVersion"].as_u64() >= Some(38));
    let uids: BTreeSet<&str> =
        DASHBOARD.lines().filter_map(|line| line.trim_start().strip_prefix("\"uid\": ")).collect();
    let own = r#""cloudflare-tunnel-webhook","#;
    assert_eq!(uids, [r#""${datasource}""#, own].into(), "the data source is a variable everywhere");
    let variables = dashboard["templating"]["list"].as_array().expect("a list");
    let names: Vec<&str> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    assert_eq!(names, ["datasource", "job", "instance"]);
    for variable in &variables[1..] {
        let query = variable["definition"].as_str().expect("a text");
        let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (selector, label) = inner.and_then(|inner| inner.rsplit_once(", ")).expect("two arguments");
        assert_right(&without_variables(selector));
        assert_eq!(variable["name"], label);
    }
    let mut places: Vec<[u64; 4]> = Vec::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("a list") {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64().expect("a number")), "{title}");
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().expect("a number"));
        assert!(x + w <= 24, "{title}");
        let apart = |other: &[u64; 4]| {
            x + w <= other[0] || other[0] + other[2] <= x || y + h <= other[1] || other[1] + other[3] <= y
        };
        assert!(places.iter().all(apart), "{title} lies on another");
        places.push([x, y, w, h]);
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{title}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}");
        for target in targets(panel) {
            let expression = target["expr"].as_str().expect("a text");
            let (metrics, chosen) = (
                expression.matches("cloudflare_tunnel_webhook_").count(),
                expression.matches(r#"{job=~"$job", instance=~"$instance""#).count(),
            );
            assert_eq!(metrics, chosen, "{expression} leaves out the chosen instances");
        }
    }
}
