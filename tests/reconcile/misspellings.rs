//! A typing mistake leaves everything as it is and is refused by name, whatever is mistyped.
//!
//! Outside the law: a mistake that makes something else that is right in itself, as another group or a target that is a
//! plausible name of its own, and a name that is nothing like ours.

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::service_template::ServiceTemplate;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use test_support::fake_cloudflare::{FakeCloudflare, HOME, adjust, tunnel_id};
use test_support::harness::published;

const HOSTNAME: &str = "a.example.com";
const ADDRESS: &str = "192.0.2.1";
const SERVICE: &str = "http://web.shop.svc:80";
const IP_RULES: &str = r#"[{"prefix":"10.0.0.0/8","ports":[443],"allow":true}]"#;

/// ExternalDNS needs no more loops than this until nothing changes.
const LOOPS_TO_REST: usize = 3;

/// An object's target, and its properties without their prefix.
type Object<'a> = (&'a str, Vec<(&'a str, &'a str)>);

/// Valid objects, and the number of the rules of each.
fn objects() -> [(Object<'static>, usize); 6] {
    let access = [("access-required", "true"), ("access-team-name", "team"), ("access-aud-tag", "tag")];
    let api = [("tunnel-service.api", "http://api.shop.svc:80"), ("tunnel-path-prefix.api", "/api")];
    let admin = [
        ("tunnel-path.admin", "^/admin"),
        ("access-required.admin", "true"),
        ("access-team-name.admin", "team"),
        ("access-aud-tag.admin", "tag"),
        ("origin-connect-timeout", "20s"),
    ];
    let path = [("tunnel-service", SERVICE), ("tunnel-path-prefix", "/base"), ("tunnel", "office")];
    [
        ((ADDRESS, [&path[..], &access].concat()), 1),
        (
            (
                ADDRESS,
                [&[("tunnel-service", SERVICE), ("origin-ip-rules", IP_RULES)], &api[..], &access].concat(),
            ),
            2,
        ),
        ((ADDRESS, [&api[..], &[("tunnel", "home")]].concat()), 1),
        ((SERVICE, [&[("tunnel-path", "^/v1")], &admin[..]].concat()), 2),
        ((ADDRESS, vec![("tunnel-service", SERVICE)]), 1),
        (("f70ff985-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com", Vec::new()), 0),
    ]
}

fn endpoint(target: &str, properties: impl IntoIterator<Item = (String, String)>) -> Endpoint {
    Endpoint {
        dns_name: HOSTNAME.to_owned(),
        targets: vec![target.to_owned()],
        record_type: if target == ADDRESS { "A" } else { "CNAME" }.to_owned(),
        labels: Labels::from_iter([("resource", "ingress/shop/web")]),
        provider_specific: properties.into_iter().map(|(name, value)| Property::new(name, value)).collect(),
        ..Endpoint::default()
    }
}

fn object((target, properties): &Object<'_>) -> Endpoint {
    let properties = properties.iter();
    endpoint(target, properties.map(|(name, value)| (format!("webhook/{name}"), (*value).to_owned())))
}

/// A Cloudflare where `object` was published, beside another object's hostname.
fn published_before(object: Option<&Endpoint>, has_default_service: bool) -> FakeCloudflare {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    let template = ServiceTemplate::parse("http://{name}.{namespace}.svc:80").expect("a template");
    cloudflare.default_service = has_default_service.then_some(template);
    for _ in 0..LOOPS_TO_REST {
        cloudflare.run_loop(&desired(object), usize::MAX);
    }
    cloudflare
}

fn desired(object: Option<&Endpoint>) -> Vec<Endpoint> {
    let mut bystander = published("b.example.com", "http://b.other.svc:80");
    bystander.labels.set("resource", "ingress/other/b");
    object.cloned().into_iter().chain([bystander]).collect()
}

/// What is wrong with the answer to an object with a mistake.
fn problem(right: &Endpoint, wrong: &Endpoint, has_default_service: bool) -> Option<String> {
    for before in [None, Some(right)] {
        let mut cloudflare = published_before(before, has_default_service);
        let kept = (cloudflare.records.clone(), cloudflare.documents.clone());
        let settings = cloudflare.settings();
        let adjusted = adjust(std::slice::from_ref(wrong), &settings, None).endpoints;
        if adjusted == adjust(std::slice::from_ref(right), &settings, None).endpoints {
            return None;
        }
        if adjusted.is_empty() || adjust(&adjusted, &settings, None).endpoints != adjusted {
            return Some(format!("is adjusted to {adjusted:#?}"));
        }
        for _ in 0..LOOPS_TO_REST {
            let refusals = cloudflare.run_loop(&desired(Some(wrong)), usize::MAX).refusals;
            if (&cloudflare.records, &cloudflare.documents) != (&kept.0, &kept.1) {
                return Some(format!("changes {kept:#?} to {:#?}", cloudflare.documents));
            }
            let is_named = |text: String| {
                text.contains("refused=invalid") && text.contains("resource=\"ingress/shop/web\"")
            };
            if !refusals.iter().any(|refusal| is_named(refusal.to_string())) {
                return Some(format!("is not refused by name: {refusals:#?}"));
            }
        }
    }
    None
}

/// One mistake in a name.
#[derive(Clone, Debug)]
enum Slip {
    /// Letters that are left out, added, replaced or swapped.
    Edits(Vec<(Index, u8, char)>),
    Upper(Index),
    /// As an annotation has it, whole or without its beginning.
    Annotation(&'static str),
    Underscores,
    WithoutPrefix,
    WithoutFirstWord,
    Blanks(&'static str),
    /// The group is not named like its others, or set apart by something else.
    Group(Index, char),
    Separator(&'static str),
}

fn any_slip() -> impl Strategy<Value = Slip> {
    let letter = || select("aeinrstxz-/._ 0W".chars().collect::<Vec<_>>());
    prop_oneof![
        3 => prop::collection::vec((any::<Index>(), 0..4_u8, letter()), 1..=2).prop_map(Slip::Edits),
        1 => any::<Index>().prop_map(Slip::Upper),
        1 => (any::<Index>(), letter()).prop_map(|(at, letter)| Slip::Group(at, letter)),
    ]
}

fn every_other_slip() -> impl Iterator<Item = Slip> {
    let annotations = ["", "external-dns.alpha.kubernetes.io/", "x.y/"].map(Slip::Annotation);
    let separators = ["-", "/", "_", ":", " "].map(Slip::Separator);
    let others = [Slip::Underscores, Slip::WithoutPrefix, Slip::WithoutFirstWord, Slip::Blanks("\t")];
    annotations.into_iter().chain(separators).chain(others)
}

fn edited(text: &str, (at, kind, letter): (Index, u8, char)) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    let index = at.index(letters.len());
    match kind {
        0 => letters.insert(index, letter),
        1 => letters[index] = letter,
        2 if letters.len() > 1 => drop(letters.remove(index)),
        _ if index > 0 => letters.swap(index - 1, index),
        _ => {}
    }
    letters.into_iter().collect()
}

fn are_near(edits: &[(Index, u8, char)], length: usize) -> bool {
    edits.array_windows().any(|[one, other]| one.0.index(length).abs_diff(other.0.index(length)) < 3)
}

impl Slip {
    /// The name, of which `property` has no prefix, with the mistake.
    fn of(&self, property: &str, group: Option<&str>) -> Option<String> {
        let name = format!("webhook/{property}");
        let mistaken = match self {
            // Next to each other, two slips may be three edits.
            Self::Edits(edits) if are_near(edits, name.len()) => return None,
            Self::Edits(edits) => edits.iter().fold(name, |text, edit| edited(&text, *edit)),
            Self::Upper(at) => {
                let (before, rest) = name.split_at(at.index(name.len()));
                format!("{before}{}", rest.to_ascii_uppercase())
            }
            Self::Annotation(prefix) => format!("{prefix}webhook-{property}"),
            Self::Underscores => name.replace(['/', '-'], "_"),
            Self::WithoutPrefix => property.to_owned(),
            Self::WithoutFirstWord => format!("webhook/{}", property.split_once('-')?.1),
            Self::Blanks(blank) => format!("{blank}{name}{blank}"),
            Self::Group(at, letter) => return Some(format!("{name}.{}", edited(group?, (*at, 0, *letter)))),
            Self::Separator(separator) => return Some(format!("{name}{separator}{}", group?)),
        };
        Some(group.map_or_else(|| mistaken.clone(), |group| format!("{mistaken}.{group}")))
    }
}

/// Values that no property of that name takes.
fn invalid_values(property: &str) -> &'static [&'static str] {
    match property {
        "tunnel" => &["hom", "False", "no", "", "home,office"],
        "tunnel-service" => &["", "web.shop.svc:80", "htp://web.shop.svc:80", "http://web.shop.svc:80/path"],
        "tunnel-path" => &["^/api(", "", "^/api/**", "(?!x)", " ^/api"],
        "tunnel-path-prefix" => &["api", "", "/api/*", "/api?", "//api"],
        "access-required" => &["yes", "True", "1", ""],
        "access-team-name" => &["", "evil.example/x#", "my team"],
        "access-aud-tag" => &["", ",", " , "],
        "origin-ip-rules" => &["", "10.0.0.0/8", r#"[{"prefix":"10.0.0.0/33","allow":true}]"#],
        _ => &[],
    }
}

/// Targets that are meant as services or tunnels.
const INVALID_TARGETS: [&str; 8] = [
    "web.shop.svc:80",
    "http//web.shop.svc:80",
    "10.0.0.5:80",
    "hello_word",
    "g70ff985-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com",
    "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunel.com",
    "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com:443",
    "tunnel.f70ff985-a4ef-4643-bbbc-4a0ed4fc8415.cfargotunnel.com",
];

fn property_of(name: &str) -> (&str, Option<&str>) {
    name.split_once('.').map_or((name, None), |(property, group)| (property, Some(group)))
}

#[test]
fn a_name_in_another_form_changes_nothing_and_is_refused() {
    for ((target, said), _) in objects() {
        let right = object(&(target, said.clone()));
        for (nth, slip) in (0..said.len()).flat_map(|nth| every_other_slip().map(move |slip| (nth, slip))) {
            let (property, group) = property_of(said[nth].0);
            let Some(name) = slip.of(property, group) else { continue };
            let mut wrong = right.clone();
            wrong.provider_specific[nth].name = name.clone().into();
            assert_eq!(problem(&right, &wrong, false), None, "{name:?} at {target}");
        }
    }
}

proptest! {
    #[test]
    fn a_misspelled_name_changes_nothing_and_is_refused(
        which in 0..5_usize, nth in any::<Index>(), slip in any_slip(), has_default_service in any::<bool>(),
    ) {
        let ((target, said), _) = &objects()[which];
        let nth = nth.index(said.len());
        let (property, group) = property_of(said[nth].0);
        let Some(name) = slip.of(property, group) else { return Ok(()) };
        let right = object(&(target, said.clone()));
        let (known, new_group) = property_of(name.strip_prefix("webhook/").unwrap_or_default());
        let has_group = |(name, _): &(&str, &str)| property_of(name).1 == new_group;
        let is_another_right_name = said.iter().any(|(said, _)| property_of(said).0 == known)
            && (group.is_none() || said.iter().any(has_group));
        if is_another_right_name {
            return Ok(());
        }
        let mut wrong = right.clone();
        wrong.provider_specific[nth].name = name.clone().into();
        let problem = problem(&right, &wrong, has_default_service);
        prop_assert!(problem.is_none(), "{:?} for {} {}", name, property, problem.unwrap_or_default());
    }
}

#[test]
fn an_invalid_value_or_target_changes_nothing_and_is_refused() {
    for ((target, said), _) in objects() {
        let right = object(&(target, said.clone()));
        for (nth, (name, value)) in said.iter().enumerate() {
            let quoted = [format!("\"{value}\""), format!("'{value}'")];
            let invalid = invalid_values(property_of(name).0).iter().copied();
            for value in invalid.chain(quoted.iter().map(String::as_str)) {
                let mut wrong = right.clone();
                wrong.provider_specific[nth].value = value.into();
                assert_eq!(problem(&right, &wrong, false), None, "{name}={value:?} at {target}");
            }
        }
        let targets = INVALID_TARGETS.iter().filter(|_| target != ADDRESS);
        for (wrong, has_default_service) in targets.flat_map(|wrong| [(wrong, false), (wrong, true)]) {
            let wrong = object(&(wrong, said.clone()));
            assert_eq!(problem(&right, &wrong, has_default_service), None, "{wrong:?}");
        }
    }
}

/// Here a narrower rule is missing, or two have one place, and the wider one would answer for it.
#[test]
fn a_group_that_does_not_fit_opens_nothing() {
    let admin = ("tunnel-service.admin", "http://admin.shop.svc:80");
    let api = [("tunnel-service.api", "http://api.shop.svc:80"), ("tunnel-path-prefix.api", "/api")];
    for (target, right, wrong) in [
        (SERVICE, ("tunnel-path-prefix.admin", "/admin"), ("tunnel-path-prefix.admn", "/admin")),
        (ADDRESS, ("tunnel-path-prefix.admin", "/admin"), ("tunnel-path-prefix", "/admin")),
        (SERVICE, ("tunnel-path-prefix.admin", "/admin"), ("origin-no-tls-verify.admin", "true")),
        (ADDRESS, ("tunnel-path-prefix.admin", "/admin"), ("tunnel-path-prefix.admin", "/api/")),
        (ADDRESS, ("tunnel-path-prefix.admin", "/admin"), ("tunnel-path.admin", "^/api(/|$)")),
    ] {
        let [right, wrong] =
            [right, wrong].map(|path| object(&(target, [&api[..], &[admin, path]].concat())));
        assert_eq!(problem(&right, &wrong, false), None, "{wrong:?}");
    }
}

/// The laws say nothing of objects that are never published.
#[test]
fn the_objects_without_a_mistake_are_published() {
    for (asked, rules) in objects() {
        let cloudflare = published_before(Some(&object(&asked)), false);
        let names: Vec<&str> = cloudflare.records.iter().map(|record| &*record.name).collect();
        assert!(names.contains(&HOSTNAME), "{asked:?}: {names:?}");
        let documents = cloudflare.documents.values().flat_map(|document| document.rules());
        assert_eq!(documents.filter(|rule| rule.hostname() == HOSTNAME).count(), rules, "{asked:?}");
    }
    assert_eq!(objects()[5].0.0, tunnel_id(HOME).hostname());
}
