//! Each way in which a property, a group or a target is nearly right, one by one.

use std::collections::BTreeMap;

use external_dns_cloudflare_tunnel_webhook::limits::NOTES_MAX;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::adjust;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{Plan, Reason};
use external_dns_cloudflare_tunnel_webhook::reconcile::service_template::ServiceTemplate;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, tunnel_id};

use crate::misspellings::mistake::{LIMITING, OPTIONAL, is_known};
use crate::misspellings::object::{DEFAULT_SERVICE, HOSTNAME, Object};
use crate::misspellings::served::Served;

const SERVICE: &str = "http://web.shop.svc:80";

/// What a typist makes of a name with one slip.
fn near_misses(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let bare = name.strip_prefix("webhook/").expect("it is one of ours");
    let changed = |change: &dyn Fn(&mut Vec<char>)| {
        let mut letters = letters.clone();
        change(&mut letters);
        letters.into_iter().collect::<String>()
    };
    let mut misses: Vec<String> = Vec::new();
    for (at, letter) in letters.iter().enumerate() {
        misses.push(changed(&|letters| {
            letters.remove(at);
        }));
        misses.push(changed(&|letters| letters.insert(at, *letter)));
        if at > 0 {
            misses.push(changed(&|letters| letters.swap(at - 1, at)));
        }
    }
    misses.push(name.to_uppercase());
    misses.push(format!("W{}", &name[1..]));
    misses.push(format!("webhook/{}{}", bare[..1].to_uppercase(), &bare[1..]));
    misses.push(format!("webhook-{bare}"));
    misses.push(bare.to_owned());
    misses.push(format!("external-dns.kubernetes.io/webhook-{bare}"));
    misses.push(format!("{}/{}", "external-dns.alpha.kubernetes.io", name.replacen('/', "-", 1)));
    misses.retain(|miss| !is_known(miss));
    misses.sort_unstable();
    misses.dedup();
    misses
}

/// What an endpoint's target is beside the property.
#[derive(Clone, Copy, Debug)]
enum Beside {
    /// An address: nothing but the property says that a tunnel is meant.
    Address,
    Service,
}

/// One endpoint for each name, each with a hostname of its own.
fn endpoints<'a>(names: impl IntoIterator<Item = &'a str>, beside: Beside) -> Vec<Endpoint> {
    let (record_type, target) = match beside {
        Beside::Address => ("A", "192.0.2.1"),
        Beside::Service => ("CNAME", SERVICE),
    };
    let names = names.into_iter().enumerate();
    names
        .map(|(number, name)| Endpoint {
            dns_name: hostname(number),
            ..Object::new(record_type, target, &[(name, "home")]).endpoint()
        })
        .collect()
}

fn hostname(number: usize) -> String {
    format!("h{number}.example.com")
}

/// What the program says to endpoints that ExternalDNS asks for as `adjust` answered them, and in `adjust` itself.
struct Said {
    adjusted: Vec<Endpoint>,
    notes: BTreeMap<Box<str>, String>,
    plan: Plan,
}

impl Said {
    fn to(endpoints: &[Endpoint]) -> Self {
        let cloudflare = FakeCloudflare::new(&[], &[]);
        let (mut adjusted, mut notes) = (Vec::new(), BTreeMap::<Box<str>, String>::new());
        // Of more at once not every note is kept.
        for endpoints in endpoints.chunks(NOTES_MAX) {
            let mut part = adjust::adjust(endpoints, &cloudflare.settings(), None);
            adjusted.append(&mut part.endpoints);
            for note in part.notes {
                notes.entry(note.hostname).or_default().push_str(&note.text);
            }
        }
        let plan = cloudflare.plan(&Changes { create: adjusted.clone(), ..Changes::default() });
        Self { adjusted, notes, plan }
    }

    fn is_answered(&self, hostname: &str) -> bool {
        self.adjusted.iter().any(|endpoint| endpoint.dns_name == hostname)
    }

    fn is_written(&self, hostname: &str) -> bool {
        self.plan.hosts.iter().any(|host| *host.hostname == *hostname)
    }

    /// The faults for which the hostname is refused as invalid.
    fn faults(&self, hostname: &str) -> Option<String> {
        let mut refusals = self.plan.refusals.iter().filter(|refusal| *refusal.hostname == *hostname);
        refusals.find_map(|refusal| match &refusal.reason {
            reason @ Reason::Invalid(_) => Some(reason.to_string()),
            _ => None,
        })
    }
}

/// `judge` says what is wrong with one near miss, and the failure tells all of them.
fn assert_all(
    names: &[&str],
    beside: Beside,
    judge: impl Fn(&Said, &str /* hostname */, &str /* meant */) -> Option<&'static str>,
) {
    let misses: Vec<(&str, String)> =
        names.iter().flat_map(|name| near_misses(name).into_iter().map(move |miss| (*name, miss))).collect();
    let said = Said::to(&endpoints(misses.iter().map(|(_, miss)| &**miss), beside));
    let mut wrong: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (number, (name, miss)) in misses.iter().enumerate() {
        if let Some(problem) = judge(&said, &hostname(number), name) {
            wrong.entry((name, problem)).or_default().push(miss);
        }
    }
    let failed: usize = wrong.values().map(Vec::len).sum();
    let lines: Vec<String> = wrong
        .iter()
        .map(|((name, problem), misses)| format!("{name} {problem}: {}", misses.join(" ")))
        .collect();
    let passed = misses.len() - failed;
    assert!(
        wrong.is_empty(),
        "{beside:?}: right are {passed} of {} near misses; wrong:\n{}",
        misses.len(),
        lines.join("\n")
    );
}

/// Why a near miss of a limit is not refused by name.
fn limit_is_open(said: &Said, hostname: &str, meant: &str) -> Option<&'static str> {
    let hint = format!("did you mean {meant}?");
    match said.faults(hostname) {
        _ if said.is_written(hostname) => Some("is published"),
        _ if !said.is_answered(hostname) => Some("is left out"),
        None => Some("is not refused"),
        Some(faults) if !faults.contains(&hint) => Some("is not named"),
        Some(_) => None,
    }
}

#[test]
fn a_near_miss_of_a_limit_beside_a_service_is_refused_and_named() {
    assert_all(&LIMITING, Beside::Service, limit_is_open);
}

/// Left out, it would be an ordinary record, and its hostname would go.
#[test]
fn a_near_miss_of_a_limit_alone_is_refused_and_named() {
    assert_all(&LIMITING, Beside::Address, limit_is_open);
}

#[test]
fn a_near_miss_of_an_option_is_left_out_and_named() {
    assert_all(&OPTIONAL, Beside::Service, |said, hostname, meant| match said.notes.get(hostname) {
        _ if !said.is_answered(hostname) => Some("is withdrawn"),
        // To refuse it is as safe.
        _ if said.faults(hostname).is_some_and(|faults| faults.contains(meant)) => None,
        _ if !said.is_written(hostname) => Some("is not published"),
        None => Some("is not noted"),
        Some(note) if !note.contains(meant) => Some("is not named"),
        Some(_) => None,
    });
}

/// What people write for what they have read, and what it is called.
#[test]
fn a_limit_by_another_name_is_refused_and_named() {
    let table = [
        ("webhook/service", "webhook/tunnel-service"),
        ("webhook/path", "webhook/tunnel-path"),
        ("webhook/path-prefix", "webhook/tunnel-path-prefix"),
        ("webhook/ip-rules", "webhook/origin-ip-rules"),
        ("webhook/team-name", "webhook/access-team-name"),
        ("webhook/aud-tag", "webhook/access-aud-tag"),
        ("webhook/require-access", "webhook/access-required"),
        ("webhook/access-require", "webhook/access-required"),
        ("webhook/required-access", "webhook/access-required"),
        ("webhook/cf-access-required", "webhook/access-required"),
        ("webhook/tunnel/path-prefix", "webhook/tunnel-path-prefix"),
        ("webhook/tunnel_path_prefix", "webhook/tunnel-path-prefix"),
        ("webhook-tunnel_path_prefix", "webhook/tunnel-path-prefix"),
        ("webhook/tunnelPathPrefix", "webhook/tunnel-path-prefix"),
        ("webhook/tunnel-service ", "webhook/tunnel-service"),
        (" webhook-access-required", "webhook/access-required"),
        ("webhook/origin-ip-rules-api", "webhook/origin-ip-rules"),
        ("webhook/access-required/api", "webhook/access-required"),
        ("webhook-access-required.api", "webhook/access-required"),
        ("webhok/tunnel-path-prefix.api", "webhook/tunnel-path-prefix"),
        ("webhook/webhook-tunnel-path", "webhook/tunnel-path"),
    ];
    for beside in [Beside::Service, Beside::Address] {
        let said = Said::to(&endpoints(table.map(|(name, _)| name), beside));
        let wrong: Vec<String> = table
            .iter()
            .enumerate()
            .filter_map(|(number, (name, meant))| {
                let problem = limit_is_open(&said, &hostname(number), meant)?;
                Some(format!("{name:?} {problem}: {:?}", said.faults(&hostname(number))))
            })
            .collect();
        assert!(wrong.is_empty(), "{beside:?}: {} of {}:\n{}", wrong.len(), table.len(), wrong.join("\n"));
    }
}

/// Properties of ExternalDNS and of other providers.
const OF_OTHERS: [&str; 26] = [
    "alias",
    "record-type",
    "txt/force-update",
    "aws/evaluate-target-health",
    "aws/weight",
    "aws/failover",
    "aws/region",
    "azure/tags",
    "coredns/group",
    "scw/weight",
    "ibmcloud-proxied",
    "unifi/network",
    "mikrotik/comment",
    "external-dns.alpha.kubernetes.io/cloudflare-proxied",
    "external-dns.kubernetes.io/cloudflare-proxied",
    "external-dns.kubernetes.io/cloudflare-tags",
    "external-dns.kubernetes.io/aws-weight",
    "webhook/some-other-provider-thing",
    "webhook/cloudflare-proxied",
    "webhook/unifi-network",
    "webhook/comment",
    "webhook/disabled",
    "webhook/regexp",
    "webhook/match-subdomain",
    "webhook/address-list",
    "webhook/zone",
];

#[test]
fn what_is_another_providers_makes_no_record_ours_and_nothing_invalid() {
    let said = Said::to(&endpoints(OF_OTHERS, Beside::Address));
    assert_eq!(said.adjusted, [], "an ordinary record stays one");

    let said = Said::to(&endpoints(OF_OTHERS, Beside::Service));
    assert_eq!(said.plan.refusals, []);
    assert_eq!(said.plan.hosts.len(), OF_OTHERS.len(), "what is ours is published all the same");

    let mut settings = FakeCloudflare::new(&[], &[]).settings();
    settings.policy.default_service = Some(ServiceTemplate::parse(DEFAULT_SERVICE).expect("a template"));
    let adjusted =
        |settings: &_| adjust::adjust(&endpoints(OF_OTHERS, Beside::Address), settings, None).endpoints;
    assert_eq!(adjusted(&settings), [], "the default service is for what carries a property of ours");
    settings.policy.publish_all = true;
    let adjusted = adjusted(&settings);
    assert_eq!(adjusted.len(), OF_OTHERS.len());
    for endpoint in adjusted {
        assert_eq!(endpoint.provider_specific, [Property::new("webhook/tunnel-service", SERVICE)]);
    }
}

/// What is asked for beside what was meant, and what was published before.
fn assert_is_kept_and_told(label: &str, right: &Object, wrong: &Object) {
    for was_published in [false, true] {
        let mut cloudflare = FakeCloudflare::new(&[], &[]);
        if was_published {
            cloudflare.run_loop(&[right.endpoint()], usize::MAX);
            assert_ne!(
                Served::of(&cloudflare, HOSTNAME),
                Served::default(),
                "{label}: what is right is published"
            );
        }
        let before = cloudflare.clone();
        let desired = [wrong.endpoint()];
        assert_ne!(adjust::adjust(&desired, &cloudflare.settings(), None).endpoints, [], "{label}: it stays");
        let plan = cloudflare.run_loop(&desired, usize::MAX);
        let words: Vec<String> = plan.refusals.iter().map(ToString::to_string).collect();
        let (served, was) = (Served::of(&cloudflare, HOSTNAME), Served::of(&before, HOSTNAME));
        assert_eq!(served, was, "{label}, published before: {was_published}: {words:#?}");
        let is_told = words.iter().any(|words| {
            words.contains("refused=invalid") && words.contains(r#"resource="ingress/shop/web""#)
        });
        assert!(is_told, "{label}, published before: {was_published}: {words:#?}");
        let again = cloudflare.run_loop(&desired, usize::MAX);
        let again: Vec<String> = again.refusals.iter().map(ToString::to_string).collect();
        assert_eq!(again, words, "{label}: a further loop asks for the same");
        assert_eq!(Served::of(&cloudflare, HOSTNAME), was, "{label}: after a further loop");
    }
}

const API: [(&str, &str); 2] =
    [("webhook/tunnel-service.api", "http://api.shop.svc:80"), ("webhook/tunnel-path-prefix.api", "/api")];

#[test]
fn access_in_a_group_that_is_not_there_opens_nothing() {
    let access = |group: &str| {
        [("access-required", "true"), ("access-team-name", "team"), ("access-aud-tag", "tag")]
            .map(|(name, value)| (format!("webhook/{name}.{group}"), value))
    };
    let object = |group: &str, target: (&'static str, &str)| {
        let access = access(group);
        let access = access.iter().map(|(name, value)| (&**name, *value));
        Object::new(target.0, target.1, &API.into_iter().chain(access).collect::<Vec<_>>())
    };
    for target in [("A", "192.0.2.1"), ("CNAME", "http://shop.shop.svc:80")] {
        assert_is_kept_and_told(target.1, &object("api", target), &object("apl", target));
    }
}

#[test]
fn a_group_whose_path_is_missing_or_in_another_group_takes_no_other_place() {
    let object = |target: (&'static str, &str), name: &str| {
        let path = (!name.is_empty()).then_some((name, "/admin"));
        let service = ("webhook/tunnel-service.admin", "http://admin.shop.svc:80");
        Object::new(target.0, target.1, &[service].into_iter().chain(path).collect::<Vec<_>>())
    };
    let shop = ("CNAME", "http://shop.shop.svc:80");
    for (label, target, name) in [
        ("misspelt", shop, "webhook/tunnel-path-prefix.admn"),
        ("misspelt, without another service", ("A", "192.0.2.1"), "webhook/tunnel-path-prefix.admn"),
        ("without its group", ("A", "192.0.2.1"), "webhook/tunnel-path-prefix"),
        ("forgotten", shop, ""),
    ] {
        let right = object(target, "webhook/tunnel-path-prefix.admin");
        assert_is_kept_and_told(label, &right, &object(target, name));
    }
}

#[test]
fn two_rules_of_one_object_at_one_place_are_none() {
    let object = |place: (&str, &str)| {
        let images = ("webhook/tunnel-service.images", "http://images.shop.svc:80");
        Object::new("A", "192.0.2.1", &API.into_iter().chain([images, place]).collect::<Vec<_>>())
    };
    let right = object(("webhook/tunnel-path-prefix.images", "/images"));
    for (label, place) in [
        ("the same prefix", ("webhook/tunnel-path-prefix.images", "/api")),
        ("the same with a slash", ("webhook/tunnel-path-prefix.images", "/api/")),
        ("a prefix and its expression", ("webhook/tunnel-path.images", "^/api(/|$)")),
    ] {
        assert_is_kept_and_told(label, &right, &object(place));
    }
}

#[test]
fn a_group_at_the_place_of_what_is_said_without_one_is_none() {
    let object = |path: &str| {
        let path = ("webhook/tunnel-path-prefix", path);
        Object::new("CNAME", "http://shop.shop.svc:80", &API.into_iter().chain([path]).collect::<Vec<_>>())
    };
    assert_is_kept_and_told("one prefix", &object("/shop"), &object("/api"));
}

/// Here a narrower rule is missing, and the wider one would answer for it.
#[test]
fn a_mistake_in_a_protected_group_opens_no_path_through_the_rule_around_it() {
    let object = |required: &str| {
        let properties = [
            ("webhook/tunnel-path-prefix.admin", "/admin"),
            (required, "true"),
            ("webhook/access-team-name.admin", "team"),
            ("webhook/access-aud-tag.admin", "tag"),
        ];
        Object::new("CNAME", "http://shop.shop.svc:80", &properties)
    };
    let right = object("webhook/access-required.admin");
    for name in
        ["webhook/acess-required.admin", "webhook/access-required-admin", "webhook/access-required.amin"]
    {
        assert_is_kept_and_told(name, &right, &object(name));
    }
}

#[test]
fn a_target_that_is_no_name_is_refused_as_a_target() {
    let own = tunnel_id(HOME).hostname();
    let (_, tail) = own.split_at(8);
    let service = Object::new("CNAME", SERVICE, &[]);
    let record = Object::new("CNAME", &own, &[]);
    let mut wrong: Vec<String> = Vec::new();
    let mut total = 0;
    let bad_ids = [
        format!("g70ff985{tail}"),
        format!("f70ff98{tail}"),
        own.replace("cfargotunnel.com", "cfargotunel.com"),
        own.replace("cfargotunnel.com", "cfargotunnel.co"),
        own.replace("cfargotunnel.com", "CfArgoTunel.com."),
        format!("{own}:443"),
        format!("tunnel.{own}"),
    ];
    let bad_services = [
        "web.shop.svc:80",
        "http:/web.shop.svc:80",
        "http//web.shop.svc:80",
        "http:web.shop.svc",
        "10.0.0.5:80",
        "http-status:404",
        "hello_word",
        "htp://web.shop.svc:80",
        "http_status:40",
        "http://web.shop.svc/path",
    ]
    .map(str::to_owned);
    for (right, targets) in [(&record, &bad_ids[..]), (&service, &bad_services[..])] {
        for target in targets {
            for has_default_service in [false, true] {
                total += 1;
                let mut cloudflare = FakeCloudflare::new(&[], &[]);
                let template = ServiceTemplate::parse(DEFAULT_SERVICE).expect("a template");
                cloudflare.default_service = has_default_service.then_some(template);
                cloudflare.publish_all = has_default_service;
                cloudflare.run_loop(&[right.endpoint()], usize::MAX);
                let before = Served::of(&cloudflare, HOSTNAME);
                let plan = cloudflare.run_loop(&[Object::new("CNAME", target, &[]).endpoint()], usize::MAX);
                let words: Vec<String> =
                    plan.refusals.iter().map(|refusal| refusal.reason.to_string()).collect();
                let is_called_a_target = words
                    .iter()
                    .any(|words| words.contains("target") && !words.contains("webhook/tunnel-service"));
                if Served::of(&cloudflare, HOSTNAME) != before || !is_called_a_target {
                    let after = Served::of(&cloudflare, HOSTNAME);
                    wrong.push(format!("{target}, default service {has_default_service}: {after} {words:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {total}:\n{}", wrong.len(), wrong.join("\n"));
}
