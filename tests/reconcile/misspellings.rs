//! A typing mistake keeps what is published and never opens it, whatever is mistyped and however.
//!
//! Outside the law: a mistake that makes something else that is right in itself. A target that becomes a plausible
//! name of its own is an ordinary record, and a well-formed id of a tunnel that is not configured is another
//! instance's. So is what ExternalDNS itself does not hand on.

mod mistake;
mod near_misses;
mod object;
mod served;

use std::fmt;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels};
use external_dns_cloudflare_tunnel_webhook::reconcile::adjust;
use external_dns_cloudflare_tunnel_webhook::reconcile::namespace::NamespaceGuard;
use external_dns_cloudflare_tunnel_webhook::reconcile::service_template::ServiceTemplate;
use proptest::prelude::*;
use test_support::external_dns::{Registry, TXT};
use test_support::fake_cloudflare::FakeCloudflare;

use mistake::{Mistake, Mistaken};
use object::{DEFAULT_SERVICE, Defaulted, Draft, HOSTNAME, Object};
use served::Served;

/// ExternalDNS needs no more loops than this until nothing changes.
const LOOPS_TO_REST: usize = 3;

/// What visitors ask for: each path that is published, what is below it, and what is beside it.
const REQUESTS: [&str; 9] =
    ["/", "/v1", "/base/x", "/api", "/api/v1/x", "/apis", "/images/x", "/images/x.png", "/other.jpg"];

/// What was there before the mistake.
#[derive(Clone, Debug)]
enum Previous {
    Nothing,
    Same,
    Other(Object),
}

/// One object of a cluster, what was published for it, and a mistake in it.
#[derive(Clone, Debug)]
struct Case {
    defaulted: Defaulted,
    is_guarded: bool,
    registry: Registry,
    previous: Previous,
    object: Object,
    mistake: Mistake,
}

fn any_case() -> impl Strategy<Value = Case> {
    let registry = prop::sample::select(vec![Registry::Noop, TXT]);
    let previous =
        prop_oneof![Just(None), Just(Some(None)), object::any_draft().prop_map(|draft| Some(Some(draft))),];
    // The mistake is small as it is, and another one is another failure.
    let mistake = mistake::any_mistake().no_shrink();
    let defaulted = prop::sample::select(vec![Defaulted::Nothing, Defaulted::Annotated, Defaulted::All]);
    (defaulted, any::<bool>(), registry, previous, object::any_draft(), mistake).prop_map(
        |(defaulted, is_guarded, registry, previous, draft, mistake)| {
            let object = |draft: Draft| draft.object(defaulted);
            let previous = match previous {
                None => Previous::Nothing,
                Some(None) => Previous::Same,
                Some(Some(draft)) => Previous::Other(object(draft)),
            };
            Case { defaulted, is_guarded, registry, previous, object: object(draft), mistake }
        },
    )
}

impl Case {
    fn empty_cloudflare(&self) -> FakeCloudflare {
        let mut cloudflare = FakeCloudflare::new(&[], &[]).with_registry(self.registry);
        let template = ServiceTemplate::parse(DEFAULT_SERVICE).expect("a template");
        cloudflare.default_service = (self.defaulted != Defaulted::Nothing).then_some(template);
        cloudflare.publish_all = self.defaulted == Defaulted::All;
        let guard = NamespaceGuard { cluster_domain: "cluster.local".into() };
        cloudflare.namespace_guard = self.is_guarded.then_some(guard);
        cloudflare
    }

    /// `None` where the mistake is none.
    fn play(&self) -> Option<Played> {
        let Mistaken { object: mistaken, without_option } = self.mistake.in_object(&self.object)?;
        let mut cloudflare = self.empty_cloudflare();
        match &self.previous {
            Previous::Nothing => bring(&mut cloudflare, None),
            Previous::Same => bring(&mut cloudflare, Some(&self.object)),
            Previous::Other(previous) => bring(&mut cloudflare, Some(previous)),
        }
        let before = Served::of(&cloudflare, HOSTNAME);
        let objects = [&self.object].into_iter().chain(&without_option);
        let asked_for = objects.map(|object| brought(&cloudflare, object)).collect();

        let desired = desired(Some(&mistaken));
        let mut said = said(&mut cloudflare, &desired);
        // Who was moved leaves rules behind till visitors have followed.
        said.extend(self::said(&mut cloudflare, &desired));
        let is_told = !said.is_empty() || self.takes(&mistaken);
        let after = Served::of(&cloudflare, HOSTNAME);
        let written = cloudflare.clone();
        let again = cloudflare.run_loop(&desired, usize::MAX);
        let rests = again.is_empty() && cloudflare == written;
        let bystander = Served::of(&cloudflare, BYSTANDER);
        Some(Played {
            object: self.object.clone(),
            mistaken,
            before,
            asked_for,
            after,
            said,
            is_told,
            rests,
            bystander,
        })
    }

    /// Whether the mistake is read as what was meant.
    fn takes(&self, mistaken: &Object) -> bool {
        let cloudflare = self.empty_cloudflare();
        brought(&cloudflare, mistaken) == brought(&cloudflare, &self.object)
    }
}

/// What came of a case.
struct Played {
    object: Object,
    mistaken: Object,
    before: Served,
    /// What the object asks for, and where only an option is at fault, what it asks for without.
    asked_for: Vec<Served>,
    after: Served,
    /// What an operator reads of the hostname.
    said: Vec<String>,
    is_told: bool,
    /// Whether a further loop leaves everything as it is.
    rests: bool,
    bystander: Served,
}

impl Played {
    fn allowed(&self) -> Vec<&Served> {
        [&self.before].into_iter().chain(&self.asked_for).collect()
    }
}

impl fmt::Display for Played {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, mistaken, before, asked_for, after, said, .. } = self;
        write!(
            formatter,
            "object: {object}\nmistaken: {mistaken}\nbefore: {before}\nasked for: {}\nafter: {after}\nsaid: {said:#?}",
            asked_for.iter().map(ToString::to_string).collect::<Vec<_>>().join(", or ")
        )
    }
}

const BYSTANDER: &str = "b.example.com";

/// The object, and somebody else's hostname.
fn desired(object: Option<&Object>) -> Vec<Endpoint> {
    let bystander = Endpoint {
        dns_name: BYSTANDER.to_owned(),
        targets: vec!["http://b.other.svc:80".to_owned()],
        record_type: "CNAME".to_owned(),
        labels: Labels::from_iter([("resource", "ingress/other/b")]),
        ..Endpoint::default()
    };
    object.map(Object::endpoint).into_iter().chain([bystander]).collect()
}

fn bring(cloudflare: &mut FakeCloudflare, object: Option<&Object>) {
    let desired = desired(object);
    for _ in 0..LOOPS_TO_REST {
        if cloudflare.run_loop(&desired, usize::MAX).is_empty() {
            return;
        }
    }
}

/// What is served of `object`.
fn brought(cloudflare: &FakeCloudflare, object: &Object) -> Served {
    let mut cloudflare = cloudflare.clone();
    bring(&mut cloudflare, Some(object));
    Served::of(&cloudflare, HOSTNAME)
}

/// One loop, and what it says of the hostname.
fn said(cloudflare: &mut FakeCloudflare, desired: &[Endpoint]) -> Vec<String> {
    let notes = adjust::adjust(desired, &cloudflare.settings(), None).notes;
    let plan = cloudflare.run_loop(desired, usize::MAX);
    let notes = notes.iter().chain(&plan.notes).filter(|note| *note.hostname == *HOSTNAME);
    let refusals = plan.refusals.iter().filter(|refusal| *refusal.hostname == *HOSTNAME);
    refusals.map(|refusal| refusal.reason.to_string()).chain(notes.map(ToString::to_string)).collect()
}

proptest! {
    #[test]
    fn a_mistake_keeps_what_is_served_or_is_none(case in any_case()) {
        let Some(played) = case.play() else { return Ok(()) };
        let beyond = played.after.beyond(&played.allowed());
        prop_assert!(beyond.is_empty(), "{beyond:#?}\n{played}");
        prop_assert!(played.is_told, "nobody is told\n{played}");
        prop_assert!(played.rests, "a further loop changes something\n{played}");
        let tunnel = played.bystander.tunnel;
        prop_assert!(tunnel == Some("home") && played.bystander.rules.len() == 1, "{:?}", played.bystander);
    }

    /// Rule by rule is not enough: where the rule for a path is missing, a wider one answers its requests.
    #[test]
    fn no_request_gets_what_it_did_not_get_and_was_not_to_get(case in any_case()) {
        let Some(played) = case.play() else { return Ok(()) };
        let beyond = played.after.answers_beyond(&played.allowed(), &REQUESTS);
        prop_assert!(beyond.is_empty(), "{beyond:#?}\n{played}");
    }

    /// ExternalDNS compares the answer with what it is shown, and asks with it again.
    #[test]
    fn an_object_with_a_mistake_is_adjusted_once_and_for_all(case in any_case()) {
        let Some(Mistaken { object, .. }) = case.mistake.in_object(&case.object) else { return Ok(()) };
        let settings = case.empty_cloudflare().settings();
        let once = adjust::adjust(&[object.endpoint()], &settings, None).endpoints;
        let twice = adjust::adjust(&once, &settings, None).endpoints;
        prop_assert_eq!(once, twice, "{}", object);
    }

    /// The laws above say nothing of objects that are never published.
    #[test]
    fn an_object_without_a_mistake_is_published_as_it_asks(case in any_case()) {
        let case = Case { is_guarded: false, ..case };
        let mut cloudflare = case.empty_cloudflare();
        bring(&mut cloudflare, Some(&case.object));
        let asked_for = case.object.asks_for(case.defaulted);
        let served = Served::of(&cloudflare, HOSTNAME);
        let beyond = served.beyond(&[&asked_for]);
        prop_assert!(beyond.is_empty(), "{beyond:#?}\n{:#?}\n{served:#?}", case.object);
    }
}
