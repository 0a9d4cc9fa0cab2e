//! The endpoints that say foreign rules: they take these over, and no request is answered otherwise for it.

use std::collections::{BTreeMap, BTreeSet};

use cloudflare_emulator::ingress::{Rule, matches, rules};
use external_dns_cloudflare_tunnel_webhook::ingress::{OriginOption, OriginRequest};
use external_dns_cloudflare_tunnel_webhook::model::Hostname;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::foreign::{ForeignRule, foreign_rules};
use serde_json::{Value, json};
use test_support::fake_cloudflare::{FakeCloudflare, HOME, options, tunnel_id};

const VECTORS: &str = include_str!("../emulator/vectors/cloudflared-ingress.jsonl");

/// cloudflared's own defaults (`ingress/config.go`), which nothing of the program says here.
fn defaults() -> Value {
    json!({"connectTimeout": 30, "tlsTimeout": 10, "tcpKeepAlive": 30, "noHappyEyeballs": false, "keepAliveTimeout": 90,
           "keepAliveConnections": 100, "httpHostHeader": "", "originServerName": "", "matchSNItoHost": false,
           "caPool": "", "noTLSVerify": false, "disableChunkedEncoding": false, "http2Origin": false,
           "bastionMode": false, "proxyType": "", "proxyAddress": "127.0.0.1", "proxyPort": 0})
}

/// The service that answers, and the options by which cloudflared goes then.
type Answer = (String, BTreeMap<String, Value>);

/// A document, as cloudflared serves it.
struct Served {
    rules: Vec<Rule>,
    answers: Vec<Answer>,
}

impl Served {
    fn of(config: &str) -> Self {
        let tunnel: Value = serde_json::from_str(config).expect("it is JSON");
        let rules = rules(config);
        let answers = rules.iter().map(|rule| answer(rule, &tunnel["originRequest"])).collect();
        Self { rules, answers }
    }

    fn answer(&self, host: &str, path: &str) -> Option<&Answer> {
        let found = self.rules.iter().position(|rule| matches(&rule.hostname, &rule.path, host, path));
        self.answers.get(found.unwrap_or_else(|| self.rules.len().saturating_sub(1)))
    }
}

/// A rule's option counts before the tunnel's, and that before cloudflared's own.
fn answer(rule: &Rule, tunnel: &Value) -> Answer {
    let json: Value = serde_json::from_str(rule.raw.get()).expect("it is JSON");
    let own = &json["originRequest"];
    let given = |value: &Value| !value.is_null();
    let mut options: BTreeMap<String, Value> = BTreeMap::new();
    for (field, default) in defaults().as_object().expect("an object") {
        let value = [&own[field], &tunnel[field], default].into_iter().find(|value| given(value));
        options.insert(field.clone(), value.expect("a default").clone());
    }
    // Both are read from the rule alone. A port that is not named is each port.
    let listed = own["ipRules"].as_array().into_iter().flatten();
    let listed = listed.map(|one| {
        json!([one["prefix"], one["allow"], one["ports"].as_array().filter(|ports| !ports.is_empty())])
    });
    options.insert("ipRules".to_owned(), listed.collect());
    let access = Some(&own["access"]).filter(|access| access["required"] == true);
    options.insert("access".to_owned(), json!(access.map(|access| [&access["teamName"], &access["audTag"]])));
    let (scheme, rest) = rule.service.split_once("://").unwrap_or(("", &rule.service));
    (format!("{} {rest}", scheme.to_ascii_lowercase()), options)
}

/// The documents that cloudflared takes, with their hostnames below one zone.
fn documents() -> Vec<(String, Vec<(String, String)>)> {
    let lines =
        VECTORS.replace(".example\"", ".example.com\"").replace("other.test\"", "other.example.com\"");
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let accepted = lines.iter().filter(|line| line["error"].is_null() && line["config"].is_object());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let requests = |line: &Value| {
        let requests = line["requests"].as_array().into_iter().flatten();
        requests.map(|one| (text(&one["host"]), text(&one["path"]))).collect()
    };
    accepted.map(|line| (line["config"].to_string(), requests(line))).collect()
}

/// A world with the document, and a record to its tunnel for each hostname of a rule.
fn world(config: &str, defaults: &OriginRequest) -> FakeCloudflare {
    let mut cloudflare = FakeCloudflare::with_config(config).adopting(&["tunnel"]);
    cloudflare.origin_defaults = defaults.clone();
    let rules = cloudflare.document(&tunnel_id(HOME)).rules().to_vec();
    let names = rules.iter().filter_map(|rule| Hostname::parse(rule.folded_hostname()).ok());
    let names: BTreeSet<String> = names.map(|name| name.as_str().to_owned()).collect();
    for name in names.iter().filter(|name| *name == "example.com" || name.ends_with(".example.com")) {
        cloudflare.add(name, "CNAME", &tunnel_id(HOME).hostname(), "");
    }
    cloudflare
}

fn told(cloudflare: &FakeCloudflare) -> Vec<ForeignRule> {
    foreign_rules(&cloudflare.snapshot(), "web")
}

/// As ExternalDNS sends the endpoints of a DNSEndpoint.
fn sent(endpoint: &Endpoint) -> Endpoint {
    let resource = format!("crd/web/{}", endpoint.dns_name);
    Endpoint { labels: Labels::from_iter([("resource", &*resource)]), ..endpoint.clone() }
}

/// The document once these endpoints are published, the refusals, and what the takeover says of order and options.
fn published(cloudflare: &FakeCloudflare, endpoints: &[Endpoint]) -> (String, Vec<String>, Vec<String>) {
    let mut cloudflare = cloudflare.clone();
    let (mut refusals, mut said) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let plan = cloudflare.run_loop(endpoints, usize::MAX);
        refusals = plan.refusals.iter().map(ToString::to_string).collect();
        let notes = plan.notes.iter().filter(|note| note.text.starts_with("taking over"));
        said.extend(notes.map(|note| note.text.clone()));
        let adoptions = plan.hosts.iter().flat_map(|host| &host.adoptions);
        said.extend(
            adoptions.flat_map(|adoption| &adoption.options).map(|option| option.name.replace('/', "-")),
        );
    }
    (cloudflare.document(&tunnel_id(HOME)).raw().get().to_owned(), refusals, said)
}

/// What a person would write for a rule that is not said: all that its JSON has.
fn by_hand(rule: &Rule) -> Endpoint {
    let json: Value = serde_json::from_str(rule.raw.get()).expect("it is JSON");
    let (origin, access) = (&json["originRequest"], &json["originRequest"]["access"]);
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            Some(list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","))
        }
        other => Some(other.to_string()),
    };
    let options = OriginOption::all().map(|option| (option.property(), text(&origin[option.field()])));
    let of_access = [("required", "required"), ("team-name", "teamName"), ("aud-tag", "audTag")];
    let of_access = of_access.map(|(name, field)| (format!("webhook/access-{name}"), text(&access[field])));
    let path = Some(rule.path.clone()).filter(|path| !path.is_empty());
    let options = options.map(|(name, text)| (name.to_owned(), text)).chain(of_access);
    let properties = options.chain([("webhook/tunnel-path".to_owned(), path)]);
    let properties = properties
        .filter_map(|(name, text)| Some(Property::new(name, text.filter(|text| !text.is_empty())?)));
    Endpoint {
        dns_name: rule.hostname.clone(),
        targets: vec![rule.service.clone()],
        record_type: "CNAME".to_owned(),
        set_identifier: "by hand".to_owned(),
        provider_specific: properties.collect(),
        ..Endpoint::default()
    }
}

/// The requests that are looked at: all of the document's, and each path of the vectors for each host of a rule.
fn requests_of(
    document: &(String, Vec<(String, String)>),
    paths: &BTreeSet<String>,
) -> Vec<(String, String)> {
    let (config, requests) = document;
    let hosts = rules(config).into_iter().map(|rule| {
        let asked = Hostname::parse(&rule.hostname).map_or(rule.hostname, |name| name.as_str().to_owned());
        asked.replace('*', "w")
    });
    let mut hosts: BTreeSet<String> = hosts.chain(requests.iter().map(|(host, _)| host.clone())).collect();
    // No browser sends a name in Unicode.
    hosts.retain(|host| host.is_ascii());
    hosts.iter().flat_map(|host| paths.iter().map(|path| (host.clone(), path.clone()))).collect()
}

#[test]
fn what_is_said_of_foreign_rules_takes_them_over_and_no_request_is_answered_otherwise() {
    let documents = documents();
    let paths = ["/api/admin/x/img.png", "/u/", "/abc/x/edit"].map(str::to_owned).into_iter();
    let paths: BTreeSet<String> = documents
        .iter()
        .flat_map(|(_, requests)| requests.iter().map(|(_, path)| path.clone()))
        .chain(paths)
        .collect();
    let values = || {
        OriginOption::all().filter_map(|option| {
            let texts = ["7s", "true", "7", "socks", r#"[{"prefix":"10.0.0.0/8","allow":true}]"#, "/ours"];
            Some((
                option,
                texts.into_iter().find(|text| option.parse(text).is_ok_and(|read| read.is_some()))?,
            ))
        })
    };
    let every_option = options(&values().collect::<Vec<_>>());
    let cloudflareds = defaults();
    let can_be_unsaid =
        |option: OriginOption| !matches!(&cloudflareds[option.field()], Value::Null | Value::String(_));
    let numbers_and_words =
        options(&values().filter(|(option, _)| can_be_unsaid(*option)).collect::<Vec<_>>());
    let of_tunnel = json!({"noTLSVerify": true, "httpHostHeader": "tunnel.local", "connectTimeout": 7, "proxyType": "socks"});
    let (mut said, mut named, mut changed) = (0, 0, 0);
    for document in &documents {
        let mut with_defaults: Value = serde_json::from_str(&document.0).expect("it is JSON");
        with_defaults["originRequest"] = of_tunnel.clone();
        let requests = requests_of(document, &paths);
        for (label, config, defaults) in [
            ("as it is", &document.0, &OriginRequest::default()),
            ("with options of the tunnel", &with_defaults.to_string(), &OriginRequest::default()),
            ("with ORIGIN_ of each option that can be unsaid", &document.0, &numbers_and_words),
            ("with these and options of the tunnel", &with_defaults.to_string(), &numbers_and_words),
            ("with ORIGIN_ of each option", &document.0, &every_option),
        ] {
            let cloudflare = world(config, defaults);
            let told = told(&cloudflare);
            let endpoints: Vec<Endpoint> =
                told.iter().filter_map(|rule| rule.endpoint.as_ref().ok()).map(sent).collect();
            let (after, refusals, told_of) = published(&cloudflare, &endpoints);
            assert_eq!((refusals, told_of), (Vec::new(), Vec::new()), "{label}: {config}");
            let (before, after) = (Served::of(config), Served::of(&after));
            for (host, path) in &requests {
                assert_eq!(
                    before.answer(host, path),
                    after.answer(host, path),
                    "{label}: {host}{path} of {config}"
                );
            }
            said += endpoints.len();
            named += told.len() - endpoints.len();
            for (rule, reason) in told.iter().filter_map(|rule| Some((rule, rule.endpoint.as_ref().err()?))) {
                let number: usize = rule
                    .named
                    .split(", rule ")
                    .nth(1)
                    .and_then(|rest| rest.split(',').next()?.parse().ok())
                    .expect("a number");
                let hand = by_hand(&before.rules[number - 1]);
                // These reasons stay, whatever an endpoint says.
                if ["outside", "in a dot", "a hostname", "the hostname", "the label"]
                    .iter()
                    .any(|word| reason.contains(word))
                {
                    continue;
                }
                let with_it = [&endpoints[..], &[sent(&hand)]].concat();
                let (after, refusals, told_of) = published(&cloudflare, &with_it);
                let after = Served::of(&after);
                let is_changed =
                    requests.iter().any(|(host, path)| before.answer(host, path) != after.answer(host, path));
                let context = format!("{label}: {} {reason} {refusals:?} {told_of:?} {config}", rule.named);
                assert!(is_changed || !refusals.is_empty(), "it is named for nothing: {context}");
                let is_told = told_of.iter().any(|told| {
                    reason.replace('/', "-").contains(told)
                        || told.contains(reason.trim_start_matches("taking the rule over would "))
                });
                assert!(is_told || !refusals.is_empty(), "its takeover does not say so: {context}");
                changed += usize::from(refusals.is_empty());
            }
        }
    }
    assert!(said > 600 && changed > 100, "{said} said, {named} named, {changed} of these for a change");
}

/// Each reason for which a rule is not said, and the rules beside it that are.
#[test]
fn a_rule_that_no_endpoint_says_is_named_with_the_reason() {
    let of = |hostname: &str, service: &str, more: Value| {
        let mut rule = json!({"hostname": hostname, "service": service});
        rule.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        rule
    };
    let (name, service, plain) = ("a.example.com", "http://a:80", json!({}));
    let cases = [
        ("no hostname", vec![json!({"path": "/x", "service": service})], "the hostname is empty"),
        (
            "a path that is refused",
            vec![of(name, service, json!({"path": "[[:alpha:]]"}))],
            "webhook/tunnel-path is",
        ),
        ("a path on tcp", vec![of(name, "tcp://a:1", json!({"path": "/x"}))], "a TCP service has no paths"),
        (
            "a file",
            vec![of(name, service, json!({"originRequest": {"caPool": "/x"}}))],
            "ORIGIN_CA_POOLS does not list",
        ),
        ("userinfo", vec![of(name, "http://jo:pw@a:80", plain.clone())], "no user name or password"),
        ("a query", vec![of(name, "http://a:80?x", plain.clone())], "no query or fragment"),
        ("a path in the service", vec![of(name, "http://a:80/x", plain.clone())], "a service has no path"),
        (
            "outside the zones",
            vec![of("a.example.net", service, plain.clone())],
            "outside the domain filter or the zones",
        ),
        (
            "outside the filter",
            vec![of("b.example.com", service, plain.clone())],
            "outside the domain filter or the zones",
        ),
        (
            "no record",
            vec![of("x.a.example.com", service, plain.clone())],
            "no proxied record of its hostname points",
        ),
        (
            "two of one place",
            vec![of(name, service, plain.clone()), of(name, "http://b:80", plain.clone())],
            "have the same hostname and path",
        ),
        (
            "a narrower one behind",
            vec![
                of(name, service, json!({"path": "/api"})),
                of(name, service, json!({"path": "^/api/admin"})),
            ],
            "before the rule for",
        ),
        (
            "behind a wildcard",
            vec![
                of("*.a.example.com", service, plain.clone()),
                of("b.a.example.com", service, plain.clone()),
            ],
            "before the rule for",
        ),
        (
            "hidden by its equal",
            vec![of(name, service, json!({"path": "/"})), of(name, service, plain)],
            "exactly the same requests",
        ),
    ];
    for (label, rules, reason) in cases {
        let rules = [rules, vec![json!({"service": "http_status:404"})]].concat();
        let config = json!({ "ingress": rules }).to_string();
        let mut cloudflare = world(&config, &OriginRequest::default());
        cloudflare.served = name;
        cloudflare.records.retain(|record| *record.name != *"x.a.example.com");
        let told = told(&cloudflare);
        let last = told.last().expect("a foreign rule").endpoint.as_ref().expect_err(label);
        assert!(last.contains(reason) && !last.contains("pw"), "{label}: {last}");
        let said = told.iter().filter(|rule| rule.endpoint.is_ok()).count();
        let hidden = ["a narrower one behind", "behind a wildcard", "hidden by its equal"].contains(&label);
        assert_eq!(said, usize::from(hidden), "{label}");
    }
}

/// A guard goes by the namespace of the objects.
#[test]
fn with_the_namespace_guard_a_service_of_another_namespace_is_not_said() {
    let config = r#"{"ingress":[{"hostname":"a.example.com","service":"http://a.web.svc:80"},{"service":"http_status:404"}]}"#;
    let mut cloudflare = world(config, &OriginRequest::default());
    cloudflare.namespace_guard = true;
    for (namespace, is_said) in [("web", true), ("shop", false)] {
        let told = foreign_rules(&cloudflare.snapshot(), namespace);
        assert_eq!(told.iter().map(|rule| rule.endpoint.is_ok()).collect::<Vec<_>>(), [is_said], "{told:?}");
    }
}
