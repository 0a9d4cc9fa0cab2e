//! The laws of what `webhook-access-policy` protects, over random worlds, wishes and settings that come and go.

use external_dns_cloudflare_tunnel_webhook::ingress::{PathPattern, Rule};
use external_dns_cloudflare_tunnel_webhook::model::access::{Application, Destination, PolicyDecision};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::{AccessReadError, AccessReading};
use external_dns_cloudflare_tunnel_webhook::reconcile::service_template::ServiceTemplate;
use proptest::prelude::*;
use test_support::external_dns::{Changes, Registry, TXT};
use test_support::fake_cloudflare::{FakeCloudflare, HOME, tunnel_id};
use test_support::harness::endpoint_of;

use crate::access_guard::application;
use crate::protection::policy;

/// ExternalDNS needs no more loops than this to come to rest.
const LOOPS_TO_REST: usize = 5;

const HOSTS: [&str; 4] = ["a.example.com", "a.example.com", "b.example.com", "*.example.com"];
const PATHS: [(&str, &str); 5] = [
    ("tunnel-path-prefix", ""),
    ("tunnel-path-prefix", ""),
    ("tunnel-path-prefix", "/p"),
    ("tunnel-path-prefix", "/p/q"),
    ("tunnel-path", "^/p"),
];
const SERVICES: [&str; 5] =
    ["http://web.shop.svc:80", "http://web.shop.svc:80", "http://api.bank.svc:80", "none", "broken"];
const WISHES: [&str; 9] =
    ["", "", "none", "none", "staff", "staff", "staff-name, on-call", "on-call,staff", "unknown"];
const OBJECTS: [&str; 3] = ["ingress/shop/0", "ingress/shop/0", "ingress/bank/1"];

/// The mode of `ADOPT` that takes over nothing in these worlds.
const OTHER_OWNER: &str = "owner=other";

const ADDED: [&str; 3] = [
    r#"{"hostname":"a.example.com","service":"http://theirs:80"}"#,
    r#"{"hostname":"a.example.com","path":"^/p(/|$)","service":"http://theirs:80"}"#,
    r#"{"hostname":"b.example.com","path":"^/p/q(/|$)","service":"http://theirs:80"}"#,
];

const VISITED: [&str; 3] = ["a.example.com", "b.example.com", "z.example.com"];
const VISITED_PATHS: [&str; 6] = ["/", "/p", "/px", "/p/q", "/p/q/r", "/x"];

fn any_endpoint() -> impl Strategy<Value = Endpoint> {
    let parts = (
        prop::sample::select(&HOSTS[..]),
        prop::sample::select(&PATHS[..]),
        prop::sample::select(&SERVICES[..]),
        prop::sample::select(&WISHES[..]),
        prop::sample::select(vec!["", "", "", "", "office"]),
        prop::sample::select(&OBJECTS[..]),
        0..12_u8,
    );
    parts.prop_map(|(host, path, service, wish, tunnel, object, odd)| {
        let own = |name, value| if odd == 0 { (name, value) } else { (name, "") };
        let required = if odd == 2 { ("access-required", "false") } else { own("access-required", "true") };
        let properties = [
            path,
            ("tunnel-service", service),
            ("tunnel", tunnel),
            if odd == 0 || odd == 2 { ("access-policy", "") } else { ("access-policy", wish) },
            required,
            own("access-team-name", "my-team"),
            own("access-aud-tag", "own"),
            if odd == 1 { ("access-session-duration", "90m") } else { ("access-session-duration", "") },
        ];
        endpoint_of(object, host, &properties)
    })
}

fn any_desired() -> impl Strategy<Value = Vec<Endpoint>> {
    prop::collection::vec(any_endpoint(), 0..5)
}

/// What changes between two loops.
#[derive(Clone, Debug)]
enum Event {
    Nothing,
    /// All annotations are lost, as under another prefix, and `PUBLISH=all` is set.
    Lost,
    /// The endpoints from now on.
    Desired(Vec<Endpoint>),
    /// The wish of all endpoints from now on.
    Wish(&'static str),
    DefaultPolicy(bool),
    Guard(bool),
    Namespaces(bool),
    Adopt(&'static str),
    /// By hand an application is deleted, a rule is unlocked, or an application gets another policy.
    Deleted(usize),
    Unlocked(usize),
    Edited(usize),
    /// By hand a rule without a login is put in front.
    Added(&'static str),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Nothing),
        2 => Just(Event::Lost),
        5 => any_desired().prop_map(Event::Desired),
        5 => prop::sample::select(vec!["", "none", "none", "staff", "on-call,staff"]).prop_map(Event::Wish),
        1 => any::<bool>().prop_map(Event::DefaultPolicy),
        1 => any::<bool>().prop_map(Event::Guard),
        1 => any::<bool>().prop_map(Event::Namespaces),
        1 => prop::sample::select(vec!["all", "tunnel", OTHER_OWNER]).prop_map(Event::Adopt),
        1 => (0..4_usize).prop_map(Event::Deleted),
        1 => (0..4_usize).prop_map(Event::Unlocked),
        1 => (0..4_usize).prop_map(Event::Edited),
        2 => prop::sample::select(&ADDED[..]).prop_map(Event::Added),
    ]
}

/// Each event, with the number of writes after which the loop behind it is stopped.
fn any_history() -> impl Strategy<Value = Vec<(Event, usize)>> {
    let writes = prop_oneof![2 => Just(usize::MAX), 3 => 0..8_usize];
    prop::collection::vec((any_event(), writes), 1..6)
}

fn any_cloudflare() -> impl Strategy<Value = FakeCloudflare> {
    let locked = r#"{"hostname":"a.example.com","path":"^/p(/|$)","service":"http://theirs:80","originRequest":{"access":{"required":true,"teamName":"my-team","audTag":["x"]}}}"#;
    let rules = vec![
        locked,
        r#"{"hostname":"b.example.com","service":"http://theirs:80"}"#,
        r#"{"path":"^/x","service":"http://theirs:80"}"#,
    ];
    let to_home = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com";
    let records = vec![("b.example.com", "CNAME", to_home), ("z.example.com", "CNAME", "elsewhere.test")];
    (
        prop::sample::subsequence(rules, 0..=2),
        prop::sample::subsequence(records, 0..=1),
        prop::sample::select(vec![Registry::Noop, TXT]),
        any::<bool>(),
        prop::sample::select(vec![0, 1, 5]),
        prop::option::of((prop::sample::select(vec!["a.example.com", "*.example.com"]), any::<bool>())),
    )
        .prop_map(|(rules, records, registry, opt_out, limit, theirs)| {
            let rules: Vec<String> = rules.into_iter().map(str::to_owned).collect();
            let mut cloudflare = FakeCloudflare::new(&rules, &records)
                .with_registry(registry)
                .with_access(["staff", "on-call"].map(|id| policy(id, PolicyDecision::Allow)).to_vec());
            cloudflare.access_opt_out = opt_out;
            cloudflare.mass_deletion_limit = limit;
            if let Some((host, is_whole)) = theirs {
                let mut destinations = vec![format!("{host}/p/*")];
                destinations.extend(is_whole.then(|| format!("{host}/p")));
                cloudflare.applications_mut().push(application(
                    "theirs",
                    &destinations,
                    PolicyDecision::Allow,
                ));
            }
            cloudflare
        })
}

/// What ExternalDNS has at a time.
fn happen(event: Event, cloudflare: &mut FakeCloudflare, desired: &mut Vec<Endpoint>) {
    let shared = ServiceTemplate::parse("http://web.shop.svc:80").expect("a service");
    match event {
        Event::Nothing => {}
        Event::Lost => {
            cloudflare.default_service = Some(shared);
            cloudflare.publish_all = true;
            for endpoint in desired {
                endpoint.provider_specific.clear();
            }
        }
        Event::Desired(other) => *desired = other,
        Event::Wish(wish) => {
            for endpoint in desired {
                endpoint.provider_specific.retain(|property| !property.name.starts_with("webhook/access"));
                if !wish.is_empty() {
                    endpoint.provider_specific.push(Property::new("webhook/access-policy", wish));
                }
            }
        }
        Event::DefaultPolicy(is_on) => {
            cloudflare.default_access_policy = if is_on { vec!["on-call".into()] } else { Vec::new() };
        }
        Event::Guard(is_on) => cloudflare.access_guard = is_on,
        Event::Namespaces(is_on) => {
            cloudflare.namespace_guard = is_on;
            cloudflare.access_policies = is_on.then(|| vec!["staff".into()]);
        }
        Event::Adopt(mode) => {
            *cloudflare = cloudflare.clone().adopting(&[mode]);
        }
        Event::Deleted(index) => {
            if index < cloudflare.applications().len() {
                cloudflare.applications_mut().remove(index);
            }
        }
        Event::Added(rule) => {
            if !cloudflare.document(&tunnel_id(HOME)).rules().iter().any(|one| one.raw().get() == rule) {
                cloudflare.edit_rules(HOME, |rules| rules.insert(0, rule.to_owned()));
            }
        }
        Event::Unlocked(index) => cloudflare.unlock_rule(&tunnel_id(HOME), index),
        Event::Edited(index) => {
            if let Some(application) = cloudflare.applications_mut().get_mut(index) {
                application
                    .policies
                    .iter_mut()
                    .flatten()
                    .take(1)
                    .for_each(|policy| policy.id = "other".into());
            }
        }
    }
}

/// What a visitor without a login gets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Visit {
    /// Nothing answers.
    Nothing,
    Refused,
    /// By the rule of this hostname and path, or by something past the tunnels.
    Served(Option<(String, Option<String>)>),
}

fn visit(cloudflare: &FakeCloudflare, host: &str, path: &str) -> Visit {
    let snapshot = cloudflare.snapshot();
    let Some(record) = snapshot.answering(host).first() else { return Visit::Nothing };
    if is_turned_away(cloudflare.applications(), host, path) {
        return Visit::Refused;
    }
    if !cloudflare.documents.keys().any(|id| *id.hostname() == *record.content) {
        return Visit::Served(None);
    }
    match serving_rule(cloudflare, host, path) {
        None => Visit::Nothing,
        Some(rule) if rule.service().starts_with("http_status:") => Visit::Nothing,
        Some(rule) if rule.requires_access() => Visit::Refused,
        Some(rule) => Visit::Served(Some((rule.hostname().to_owned(), rule.path().map(str::to_owned)))),
    }
}

fn serving_rule<'c>(cloudflare: &'c FakeCloudflare, host: &str, path: &str) -> Option<&'c Rule> {
    let led_to = cloudflare.snapshot().visited_tunnel(host)?;
    let mut rules = cloudflare.documents.get(&led_to)?.rules().iter();
    rules.find(|rule| is_taken_by(rule, host, path))
}

/// The application with the most specific destination counts. None has a policy that lets visitors past.
fn is_turned_away(applications: &[Application], host: &str, path: &str) -> bool {
    let takes = |destination: &Destination| {
        let domain = destination.host.strip_prefix('*');
        let is_host = *destination.host == *host
            || domain.and_then(|domain| host.strip_suffix(domain)).is_some_and(|label| !label.contains('.'));
        let path = path.trim_start_matches('/');
        let is_path = match destination.path.strip_suffix("/*") {
            Some(above) => path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/')),
            None => destination.path.is_empty() || *destination.path == *path,
        };
        is_host && is_path
    };
    applications.iter().any(|application| application.destinations.iter().any(takes))
}

fn is_taken_by(rule: &Rule, host: &str, path: &str) -> bool {
    let name = rule.folded_hostname();
    let is_host = name.is_empty()
        || name == host
        || name.strip_prefix('*').is_some_and(|domain| host.ends_with(domain));
    let takes = |text: &str| is_within(path, text) || path.starts_with(text.trim_start_matches('^'));
    is_host && rule.path().is_none_or(takes)
}

/// The law: what turned strangers away serves them now only if the endpoint of what serves them said the word. What a
/// rule alone turned away, and is withdrawn with it, is no promise: no application of ours stands in front of it.
fn only_what_asked_was_opened(
    before: &FakeCloudflare,
    after: &FakeCloudflare,
    changes: &Changes,
) -> Result<(), TestCaseError> {
    for (host, path) in VISITED.iter().flat_map(|host| VISITED_PATHS.map(|path| (*host, path))) {
        if visit(before, host, path) != Visit::Refused {
            continue;
        }
        let Visit::Served(by) = visit(after, host, path) else { continue };
        let own = before.snapshot().own_digests().clone();
        let is_kept = serving_rule(before, host, path).is_some_and(|rule| {
            let is_it = |endpoint: &Endpoint| {
                endpoint.dns_name == rule.hostname()
                    && endpoint.set_identifier == rule.path().unwrap_or_default()
            };
            // A new place was closed if a rule turned away all of its visitors, and not only those of a part.
            let was_whole = by.as_ref().is_none_or(|(hostname, path)| rule.covers(hostname, path.as_deref()));
            let is_own = before.documents.keys().any(|tunnel| own.has(tunnel, rule));
            is_own && was_whole && !changes.delete.iter().any(is_it)
        });
        let ours = before.applications().iter().filter(|one| !one.tags.is_empty()).cloned();
        let ours: Vec<Application> = ours.collect();
        // What is for more names was published for all of them, also in the tunnel that a name moves to.
        let is_wider = by.as_ref().is_some_and(|(hostname, _)| hostname != host);
        if (!is_kept || is_wider) && !is_turned_away(&ours, host, path) {
            continue;
        }
        let wanted = changes.wanted();
        let mut opening = wanted.filter(|one| one.property("webhook/access-policy") == Some("none"));
        let is_foreign = serving_rule(after, host, path).is_some_and(|rule| {
            let own = after.snapshot().own_digests().clone();
            let is_taken_over = after.adopt.tunnel || after.adopt.all;
            !is_taken_over && !after.documents.keys().any(|tunnel| own.has(tunnel, rule))
        });
        let has_asked = opening.any(|endpoint| {
            let is_by = by.as_ref().is_some_and(|(hostname, path)| {
                !is_foreign
                    && endpoint.dns_name == *hostname
                    && endpoint.set_identifier == path.as_deref().unwrap_or_default()
            });
            let name = &*endpoint.dns_name;
            let is_for = name == host || name.strip_prefix('*').is_some_and(|domain| host.ends_with(domain));
            // Until its own rule stands, the rule of a wider place answers what the endpoint opened.
            let is_wider_path = by.as_ref().is_some_and(|(_, path)| {
                path.as_deref().unwrap_or_default().len() < endpoint.set_identifier.len()
            });
            is_by || ((is_wider || is_wider_path) && is_for && is_within(path, &endpoint.set_identifier))
        });
        prop_assert!(has_asked, "{host}{path} is served by {by:?}");
        let is_closing = asks_to_be_closed(before, changes, host, path);
        prop_assert!(!is_closing, "{host}{path} is served by {by:?}, and its own endpoint asks for a login");
    }
    Ok(())
}

/// True if the endpoint that decides about a request asks for a login, or has a mistake. With namespaces kept apart,
/// and for a name of others, that keeps nothing closed.
fn asks_to_be_closed(before: &FakeCloudflare, changes: &Changes, host: &str, path: &str) -> bool {
    let snapshot = before.snapshot();
    let is_ours = !snapshot.own_records_of(host).is_empty()
        || snapshot.zone_of(host).is_some_and(|zone| zone.records_of(host).is_empty());
    let of_host = changes.wanted().filter(|one| one.dns_name == host);
    let is_mistake = |one: &Endpoint| one.property("webhook/invalid").is_some();
    let deciding = of_host
        .filter(|one| is_mistake(one) || is_within(path, &one.set_identifier))
        .max_by_key(|one| (is_mistake(one), one.set_identifier.len()));
    let asks = |one: &Endpoint| {
        is_mistake(one) || one.property("webhook/access-policy").is_some_and(|policy| policy != "none")
    };
    is_ours && !before.namespace_guard && deciding.is_some_and(asks)
}

/// True if a request is at or below the place of an endpoint.
fn is_within(path: &str, set_identifier: &str) -> bool {
    set_identifier.is_empty()
        || PathPattern::prefix_of(set_identifier).is_some_and(|prefix| {
            path.strip_prefix(&*prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
}

proptest! {
    /// Invariant 9 of docs/how-it-works.md.
    #[test]
    fn only_the_word_that_opens_opens_what_is_protected_whatever_happens(
        mut cloudflare in any_cloudflare(),
        mut desired in any_desired(),
        history in any_history(),
    ) {
        for (event, writes) in [(Event::Nothing, usize::MAX)].into_iter().chain(history) {
            happen(event, &mut cloudflare, &mut desired);
            let (before, changes) = (cloudflare.clone(), cloudflare.changes(&desired));
            cloudflare.run_request(&changes, writes);
            only_what_asked_was_opened(&before, &cloudflare, &changes)?;
            let before = cloudflare.clone();
            cloudflare.sweep();
            only_what_asked_was_opened(&before, &cloudflare, &Changes::default())?;
        }
    }

    #[test]
    fn what_was_applied_reads_back_as_it_was_adjusted_and_what_was_not_is_told(
        mut cloudflare in any_cloudflare(),
        mut desired in any_desired(),
        history in any_history(),
    ) {
        for (event, writes) in history {
            happen(event, &mut cloudflare, &mut desired);
            cloudflare.run_loop(&desired, writes);
        }
        for _ in 0..LOOPS_TO_REST {
            cloudflare.run_loop(&desired, usize::MAX);
        }
        let written = cloudflare.writes;
        let changes = cloudflare.changes(&desired);
        let plan = cloudflare.run_request(&changes, usize::MAX);
        prop_assert_eq!(cloudflare.writes, written, "a further loop wrote {:?}", plan);
        let asked_for = changes.wanted().chain(&changes.delete);
        for endpoint in asked_for.filter(|endpoint| endpoint.record_type != "TXT") {
            prop_assert!(
                plan.refusals.iter().any(|refusal| *refusal.hostname == *endpoint.dns_name),
                "{:?} is asked for without end and no refusal says why; {:?}", endpoint, cloudflare.shown()
            );
        }
    }

    #[test]
    fn what_is_adjusted_stays_so(
        mut cloudflare in any_cloudflare(),
        mut desired in any_desired(),
        history in any_history(),
        is_unread in any::<bool>(),
    ) {
        for (event, writes) in history {
            happen(event, &mut cloudflare, &mut desired);
            cloudflare.run_loop(&desired, writes);
        }
        if is_unread {
            cloudflare.access = AccessReading::Failed(AccessReadError::temporary("HTTP 500"));
        }
        // Of several at one place the program leaves one.
        let mut adjusted = cloudflare.adjusted(&desired);
        adjusted.dedup_by(|a, b| a.dns_name == b.dns_name && a.set_identifier == b.set_identifier);
        prop_assert_eq!(cloudflare.adjusted(&adjusted), adjusted);
    }
}
