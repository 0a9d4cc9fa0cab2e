//! The Access applications of the webhook: one for each protected place, with exactly the wanted policies.
//!
//! An application is ours by its tag, which has a code of `OWNER_ID`, and by its name, which has the place. Without
//! `ADOPT=access`, no other application is changed or deleted.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::collections::collect;
use crate::ingress::PathPattern;
use crate::ingress::path::expression_of_prefix;
use crate::model::Hostname;
use crate::model::access::{Application, ApplicationKind, Destination};
use crate::reconcile::access::destination::matches_host;
use crate::reconcile::access::wanted::WantedApplication;
use crate::reconcile::stamp;

/// Cloudflare's limit for the text of a destination.
const DESTINATION_MAX_CHARS: usize = 63;

/// A tag has only letters and digits.
const TAG_PREFIX: &str = "externaldns";

/// Fields that a replacement omits: the fields that only Cloudflare writes, and the older form of the destinations.
const READ_ONLY: [&str; 6] = ["id", "uid", "aud", "created_at", "updated_at", "self_hosted_domains"];

/// A hostname, or a path of it: of a rule, or of a record without a rule. One application protects one place, with
/// everything below the path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    hostname: Hostname,
    /// The path expression; `None` for the whole hostname.
    path: Option<Box<str>>,
}

const EXPRESSION: &str = "asks for a login, and Access cannot protect this path: use \
     webhook/tunnel-path-prefix, with more than a slash, without // and with visible ASCII characters only";

const TOO_LONG: &str =
    "asks for a login, and Access takes at most 63 characters of hostname and path: shorten one of them";

impl Place {
    pub fn of(hostname: &Hostname, path: Option<&str>) -> Self {
        Self { hostname: hostname.clone(), path: path.map(Into::into) }
    }

    /// The place for which an application of ours was made, whatever its destinations are now. An
    /// application that a person has renamed is foreign.
    pub fn of_application(application: &Application, owner: &str) -> Option<Self> {
        let name = application.name.strip_suffix(&name_suffix(owner))?;
        let tag = tag(owner);
        if !application.tags.iter().any(|one| **one == *tag) {
            return None;
        }
        let (host, prefix) = name.split_at(name.find('/').unwrap_or(name.len()));
        let path = Some(prefix).filter(|prefix| !prefix.is_empty()).map(expression_of_prefix);
        let path = path.transpose().ok()?.map(Into::into);
        let place = Self { hostname: Hostname::parse(host).ok()?, path };
        let is_renamed = place.hostname.as_str() != host || place.prefix().unwrap_or_default() != prefix;
        (!is_renamed && place.validate().is_ok()).then_some(place)
    }

    /// # Errors
    /// The reason why an application cannot cover exactly the requests of the place.
    pub fn validate(&self) -> Result<(), &'static str> {
        // It is not known how Access compares encoded characters or two slashes in a row.
        let is_protectable =
            |prefix: String| prefix.bytes().all(|byte| byte.is_ascii_graphic()) && !prefix.contains("//");
        let prefix = self.prefix();
        // The longer destination of a path ends in `/*`.
        let length = self.hostname.as_str().len() + prefix.as_ref().map_or(0, |prefix| prefix.len() + 2);
        if self.path.is_some() && !prefix.is_some_and(is_protectable) {
            return Err(EXPRESSION);
        }
        if length > DESTINATION_MAX_CHARS { Err(TOO_LONG) } else { Ok(()) }
    }

    pub fn hostname(&self) -> &Hostname {
        &self.hostname
    }

    /// The path expression; `None` for the whole hostname.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The path, with its leading slash, if the expression is that of a path and everything below it.
    fn prefix(&self) -> Option<String> {
        PathPattern::prefix_of(self.path()?)
    }

    /// The destinations of the place's application: for a path, the path itself and everything below.
    pub fn destinations(&self) -> Vec<Destination> {
        let destination = |path: &str| Destination { host: self.hostname.as_str().into(), path: path.into() };
        match self.prefix().as_deref().map(|prefix| prefix.trim_start_matches('/')) {
            None => vec![destination("")],
            Some(path) => vec![destination(path), destination(&format!("{path}/*"))],
        }
    }

    /// True if the application of the place takes requests for `name`. A wildcard `name` counts only if it is the
    /// hostname of the place.
    pub fn is_over(&self, name: &str) -> bool {
        matches_host(self.hostname.as_str(), name)
    }

    /// The name of the place's application.
    pub fn application_name(&self, owner: &str) -> String {
        format!("{self}{}", name_suffix(owner))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.hostname.as_str())?;
        formatter.write_str(&self.prefix().unwrap_or_default())
    }
}

fn name_suffix(owner: &str) -> String {
    format!(" (ExternalDNS {owner})")
}

/// The tag of all applications of an owner.
pub fn tag(owner: &str) -> String {
    format!("{TAG_PREFIX}{}", stamp::code::<12>(owner))
}

/// True if the application protects the place, whatever its policies are.
pub fn has_destinations_of(application: &Application, place: &Place) -> bool {
    let present = &application.destinations;
    let wanted = place.destinations();
    let is_same = present.len() == wanted.len() && wanted.iter().all(|one| present.contains(one));
    application.kind == ApplicationKind::SelfHosted && is_same
}

/// True if the application of the place has the destinations, policies and session duration that are wanted.
pub fn is_as_wanted(application: &Application, place: &Place, wanted: &WantedApplication) -> bool {
    let present = application.policies.iter().flatten().map(|policy| &*policy.id);
    has_destinations_of(application, place)
        && application.policies.is_some()
        && present.eq(wanted.policies.iter().map(|policy| &**policy))
        && application.asked_session_duration() == Some(wanted.session_duration)
}

/// The body that creates the application of a place, or replaces the application with the fields `present`. Fields that
/// the webhook does not manage are preserved.
pub fn body(
    place: &Place,
    wanted: &WantedApplication,
    owner: &str,
    present: Option<Map<String, Value>>,
) -> Vec<u8> {
    let members = present.unwrap_or_default().into_iter();
    let mut body: Map<String, Value> = collect(members.filter(|(name, _)| !READ_ONLY.contains(&&**name)));
    let tag = tag(owner);
    let mut tags: Vec<Value> = body.get("tags").and_then(Value::as_array).cloned().unwrap_or_default();
    if !tags.iter().any(|one| one.as_str() == Some(&tag)) {
        tags.push(tag.into());
    }
    let destinations = place.destinations();
    let uris = destinations.iter().map(ToString::to_string);
    let links = wanted
        .policies
        .iter()
        .zip(1_u32..)
        .map(|(id, precedence)| json!({"id": id, "precedence": precedence}));
    for (name, value) in [
        ("type", json!("self_hosted")),
        ("name", place.application_name(owner).into()),
        ("domain", destinations.first().map(ToString::to_string).into()),
        ("destinations", uris.map(|uri| json!({"type": "public", "uri": uri})).collect()),
        ("policies", links.collect()),
        ("tags", tags.into()),
        ("session_duration", wanted.session_duration.to_string().into()),
    ] {
        body.insert(name.to_owned(), value);
    }
    Value::Object(body).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::snapshot_of_access;
    use crate::model::access::{AttachedPolicy, PolicyDecision, SessionDuration};
    use crate::reconcile::access::host_protection::HostProtection;

    fn place(hostname: &str, path: &str) -> Place {
        let path = Some(path).filter(|path| !path.is_empty());
        Place::of(&Hostname::parse(hostname).expect("a hostname"), path)
    }

    /// The application that the webhook creates for the place, with the owner `default`.
    fn application(hostname: &str, path: &str) -> Application {
        let place = place(hostname, path);
        let policy = |id: &str| AttachedPolicy { id: id.into(), decision: PolicyDecision::Allow };
        Application {
            id: "id".into(),
            name: place.application_name("default").into(),
            audience: "audience".into(),
            kind: ApplicationKind::SelfHosted,
            destinations: place.destinations(),
            policies: Some(vec![policy("one"), policy("two")]),
            tags: vec!["another".into(), tag("default").into()],
            session_duration: Some("24h".into()),
            created_unix_seconds: None,
        }
    }

    /// Cloudflare stores the tag and the name. If either changed, every existing application would be foreign.
    #[test]
    fn the_tag_and_the_name_of_an_owners_applications_are_what_they_were() {
        assert_eq!(tag("default"), "externaldnsu41tfbmdmv0l");
        assert_eq!(
            place("a.example.com", "^/api(/|$)").application_name("default"),
            "a.example.com/api (ExternalDNS default)"
        );
        let one = application("a.example.com", "^/api(/|$)");
        assert_eq!(Place::of_application(&one, "default"), Some(place("a.example.com", "^/api(/|$)")));
        assert_eq!(Place::of_application(&one, "other"), None);
        for name in [
            "mine",
            "My app (ExternalDNS default)",
            "A.example.com (ExternalDNS default)",
            "a.example.com/api/ (ExternalDNS default)",
            "a.example.com/ (ExternalDNS default)",
            "a.example.com/a//b (ExternalDNS default)",
        ] {
            let renamed = Application { name: name.into(), ..one.clone() };
            assert_eq!(Place::of_application(&renamed, "default"), None, "{name}");
        }
        let untagged = Application { tags: Vec::new(), ..one };
        assert_eq!(Place::of_application(&untagged, "default"), None);
    }

    #[test]
    fn a_path_is_a_place_if_access_takes_it_as_it_is() {
        let of = |hostname: &str, path: &str| place(hostname, path).validate();
        assert_eq!(of("a.example.com", ""), Ok(()));
        assert_eq!(of("a.example.com", "^/api(/|$)"), Ok(()));
        for path in ["^/api", "^/", "^/a/\\*(/|$)", "^/ä(/|$)", "^/a//b(/|$)"] {
            assert_eq!(of("a.example.com", path), Err(EXPRESSION), "{path}");
        }
        // `/*` counts too.
        let path = |length: usize| format!("^/{}(/|$)", "x".repeat(length));
        assert!(of("a.example.com", &path(47)).is_ok());
        assert_eq!(of("a.example.com", &path(48)), Err(TOO_LONG));
        assert_eq!(of("a.example.com", &path(49)), Err(TOO_LONG));
        assert!(TOO_LONG.contains(&format!("{DESTINATION_MAX_CHARS} characters")));
    }

    #[test]
    fn a_strangers_application_is_in_the_way_if_it_has_one_of_the_destinations() {
        let (hostname, api) =
            (Hostname::parse("a.example.com").expect("a hostname"), place("a.example.com", "^/api(/|$)"));
        let own = api.destinations();
        let elsewhere = place("b.example.com", "").destinations();
        let ours = application("a.example.com", "^/api(/|$)");
        let theirs = |kind, destinations: &[Destination]| Application {
            name: "mine".into(),
            kind,
            destinations: destinations.to_vec(),
            ..ours.clone()
        };
        let turned: Vec<Destination> = own.iter().rev().cloned().collect();
        let wider = [elsewhere.clone(), own.clone()].concat();
        for (label, application, is_in_the_way, is_over) in [
            ("ours", ours.clone(), false, true),
            ("without our tag", Application { tags: Vec::new(), ..ours.clone() }, true, true),
            ("turned", theirs(ApplicationKind::SelfHosted, &turned), true, true),
            ("a half", theirs(ApplicationKind::SelfHosted, &own[1..]), true, false),
            ("more", theirs(ApplicationKind::SelfHosted, &wider), true, false),
            ("elsewhere", theirs(ApplicationKind::SelfHosted, &elsewhere), false, false),
            ("rendered", theirs(ApplicationKind::Rendered, &own), true, false),
            ("unrelated", theirs(ApplicationKind::Unrelated, &own), false, false),
        ] {
            let snapshot = snapshot_of_access(std::slice::from_ref(&application));
            let other = HostProtection::of(&hostname, &snapshot).in_the_way(&api);
            assert_eq!(other.is_some(), is_in_the_way, "{label}");
            assert_eq!(has_destinations_of(&application, &api), is_over, "{label}");
        }
    }

    #[test]
    fn an_application_is_as_wanted_if_nothing_of_it_differs() {
        let (whole, present) = (place("a.example.com", ""), application("a.example.com", ""));
        let wanted = WantedApplication {
            policies: ["one", "two"].map(Into::into).to_vec(),
            session_duration: SessionDuration::default(),
        };
        let is_wanted = |application: &Application| is_as_wanted(application, &whole, &wanted);
        assert!(is_wanted(&present));
        assert!(is_wanted(&Application { session_duration: None, ..present.clone() }));
        let turned = present.policies.iter().flatten().rev().cloned().collect();
        for (label, other) in [
            ("the destinations", Application { destinations: Vec::new(), ..present.clone() }),
            ("unread policies", Application { policies: None, ..present.clone() }),
            ("the order of the policies", Application { policies: Some(turned), ..present.clone() }),
            ("the duration", Application { session_duration: Some("1h".into()), ..present.clone() }),
        ] {
            assert!(!is_wanted(&other), "{label}");
        }
        let unreported = Application { policies: None, ..present };
        let nothing = WantedApplication { policies: Vec::new(), ..wanted };
        assert!(!is_as_wanted(&unreported, &whole, &nothing), "what is not told is not none");
    }
}
