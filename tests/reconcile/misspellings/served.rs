//! What visitors of one hostname get, read from a [`FakeCloudflare`] and from nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use external_dns_cloudflare_tunnel_webhook::model::TunnelId;
use regex::Regex;
use serde_json::Value;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, tunnel_id};

/// The tunnel that a hostname's record leads to, and the hostname's rules there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Served {
    /// `None` where the hostname is not on the internet.
    pub(crate) tunnel: Option<&'static str>,
    /// In the order in which cloudflared looks at them; none where there is the record alone.
    pub(crate) rules: Vec<ServedRule>,
}

/// One rule. Two are the same only with the same options, Access and `ipRules` among them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServedRule {
    pub(crate) tunnel: &'static str,
    /// Empty for the whole hostname.
    pub(crate) path: String,
    pub(crate) service: String,
    /// Cloudflare's `originRequest`, null where there is none.
    pub(crate) origin_request: Value,
}

impl fmt::Display for Served {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(tunnel) = self.tunnel else {
            return formatter.write_str("nothing");
        };
        write!(formatter, "the tunnel {tunnel}")?;
        self.rules.iter().try_for_each(|rule| {
            let ServedRule { tunnel: _, path, service, origin_request } = rule;
            write!(formatter, "\n    {path:?} -> {service} {origin_request}")
        })
    }
}

impl Served {
    pub(crate) fn of(cloudflare: &FakeCloudflare, hostname: &str) -> Self {
        let mut records = cloudflare.records.iter().filter(|record| *record.name == *hostname);
        let led_to = records.find_map(|record| TunnelId::from_hostname(&record.content));
        let Some((tunnel, name)) = led_to.and_then(named) else {
            return Self::default();
        };
        let rules = cloudflare.document(&tunnel).rules().iter().filter(|rule| rule.hostname() == hostname);
        let rules = rules.map(|rule| {
            let raw: Value = serde_json::from_str(rule.raw().get()).expect("a rule is JSON");
            ServedRule {
                tunnel: name,
                path: rule.path().unwrap_or_default().to_owned(),
                service: rule.service().to_owned(),
                origin_request: raw.get("originRequest").cloned().unwrap_or_default(),
            }
        });
        Self { tunnel: Some(name), rules: rules.collect() }
    }

    /// The rule that a request for `path` reaches.
    pub(crate) fn answer(&self, path: &str) -> Option<&ServedRule> {
        self.rules.iter().find(|rule| is_match(&rule.path, path))
    }

    /// What of this, rule by rule, is in none of `allowed`.
    pub(crate) fn beyond(&self, allowed: &[&Self]) -> Vec<String> {
        let mut beyond = Vec::new();
        if !allowed.iter().any(|allowed| allowed.tunnel == self.tunnel) {
            beyond.push(format!("the record leads to {:?}", self.tunnel));
        }
        let everything = allowed.iter().copied().chain([self]);
        let paths: BTreeSet<&str> =
            everything.flat_map(|served| &served.rules).map(|rule| &*rule.path).collect();
        for path in paths {
            let rule = self.rule(path);
            if !allowed.iter().any(|allowed| allowed.rule(path) == rule) {
                beyond.push(format!("the path {path:?} has {rule:?}"));
            }
        }
        beyond
    }

    /// Those of `paths` whose requests are answered as in none of `allowed`.
    pub(crate) fn answers_beyond(&self, allowed: &[&Self], paths: &[&str]) -> Vec<String> {
        let unasked = paths.iter().filter(|path| {
            let answer = self.answer(path);
            !allowed.iter().any(|allowed| allowed.answer(path) == answer)
        });
        unasked.map(|path| format!("a request for {path} gets {:?}", self.answer(path))).collect()
    }

    fn rule(&self, path: &str) -> Option<&ServedRule> {
        self.rules.iter().find(|rule| rule.path == path)
    }
}

/// Compiled once: there are few expressions and many requests.
fn is_match(expression: &str, path: &str) -> bool {
    static COMPILED: Mutex<BTreeMap<String, Regex>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let regex = compiled
        .entry(expression.to_owned())
        .or_insert_with(|| Regex::new(expression).expect("cloudflared reads it too"));
    regex.is_match(path)
}

fn named(tunnel: TunnelId) -> Option<(TunnelId, &'static str)> {
    let name = [(HOME, "home"), (OFFICE, "office")].into_iter().find(|(id, _)| tunnel_id(id) == tunnel)?.1;
    Some((tunnel, name))
}
