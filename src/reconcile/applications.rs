//! The Access applications that this program keeps: one for each protected place, with exactly the wanted policies.
//!
//! An application is ours by its tag, which holds a digest of `OWNER_ID`, and its name, which holds the place. Nothing
//! else is ever changed or deleted.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::ingress::PathPattern;
use crate::model::Hostname;
use crate::model::access::{Application, ApplicationKind, Destination, SessionDuration};
use crate::reconcile::access_wish::ProtectionWish;
use crate::reconcile::stamp;

/// Cloudflare's limit for the text of a destination.
const DESTINATION_MAX_CHARS: usize = 63;

/// Tags are letters and digits.
const TAG_PREFIX: &str = "externaldns";

/// What of an application Cloudflare alone writes. A replacement without it is read as one without.
const READ_ONLY: [&str; 5] = ["id", "uid", "aud", "created_at", "updated_at"];

/// What one application protects: a hostname, or a path of it with everything below.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    hostname: Box<str>,
    /// With its slash.
    prefix: Option<Box<str>>,
}

/// The reason why Access cannot cover exactly the requests of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// The path is an expression.
    Expression,
    TooLong,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expression => formatter.write_str(
                "is set, and the path is an expression, which Access does not know: use webhook/tunnel-path-prefix, \
                 with more than a slash, or protect the whole hostname",
            ),
            Self::TooLong => write!(
                formatter,
                "is set, and the hostname with its path has more than the {DESTINATION_MAX_CHARS} characters that Access \
                 takes"
            ),
        }
    }
}

impl Place {
    /// The place of a rule.
    pub fn of(hostname: &Hostname, path: Option<&str>) -> Result<Self, NoPlace> {
        let prefix = match path {
            None => None,
            Some(path) => {
                let prefix = PathPattern::parse(path).ok().and_then(|path| path.prefix());
                // Stars are Access's own, and how it compares what is encoded, or two slashes in a row, is not known.
                let is_plain = |prefix: &String| {
                    prefix.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*')
                        && !prefix.contains("//")
                };
                Some(prefix.filter(is_plain).ok_or(NoPlace::Expression)?.into())
            }
        };
        let place = Self { hostname: hostname.as_str().into(), prefix };
        let is_too_long = |destination: &Destination| destination.to_string().len() > DESTINATION_MAX_CHARS;
        if place.destinations().iter().any(is_too_long) { Err(NoPlace::TooLong) } else { Ok(place) }
    }

    /// The place that one of our applications was made for, whatever its destinations are now.
    pub fn of_application(application: &Application, owner: &str) -> Option<Self> {
        let name = application.name.strip_suffix(&name_suffix(owner))?;
        let (hostname, prefix) = name.split_at(name.find('/').unwrap_or(name.len()));
        let prefix = Some(prefix).filter(|prefix| !prefix.is_empty()).map(Into::into);
        is_ours(application, owner).then(|| Self { hostname: hostname.into(), prefix })
    }

    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// True if it is the whole hostname.
    pub fn is_whole(&self) -> bool {
        self.prefix.is_none()
    }

    /// The path expression of its rule, empty for the whole hostname; `None` if no rule can have such a path.
    pub fn path_text(&self) -> Option<String> {
        let Some(prefix) = self.prefix.as_deref() else {
            return Some(String::new());
        };
        PathPattern::from_prefix(prefix).ok().map(|path| path.as_str().to_owned())
    }

    /// The destinations of its application: of a path itself, and of what is below.
    pub fn destinations(&self) -> Vec<Destination> {
        let destination = |path: String| Destination { host: self.hostname.clone(), path: path.into() };
        match self.prefix.as_deref().map(|prefix| prefix.trim_start_matches('/')) {
            None => vec![destination(String::new())],
            Some(path) => vec![destination(path.to_owned()), destination(format!("{path}/*"))],
        }
    }

    /// True if its application stands over requests for this name, which is no wildcard unless it is the place's own.
    pub fn is_over(&self, name: &str) -> bool {
        let label = || name.strip_suffix(self.hostname.strip_prefix('*')?);
        *self.hostname == *name || label().is_some_and(|label| !label.contains(['.', '*']))
    }

    /// True if a rule with this path expression takes every request for the place.
    pub fn is_taken_by(&self, path: Option<&str>) -> bool {
        let prefix = |path: &str| PathPattern::parse(path).ok()?.prefix();
        path.is_none_or(|path| {
            self.prefix.as_deref().zip(prefix(path)).is_some_and(|(own, other)| is_at_or_below(own, &other))
        })
    }

    /// True if requests for the place may be taken by a rule with this path expression.
    pub fn may_share_requests_with(&self, path: Option<&str>) -> bool {
        let prefix = |path: &str| PathPattern::parse(path).ok()?.prefix();
        match (&self.prefix, path.map(prefix)) {
            // Every path, or who knows which.
            (None, _) | (_, None | Some(None)) => true,
            (Some(own), Some(Some(other))) => is_at_or_below(own, &other) || is_at_or_below(&other, own),
        }
    }

    /// True if its application covers what a rule with this path expression serves, or may.
    pub fn covers(&self, path: Option<&str>) -> bool {
        match (&self.prefix, path) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(path)) => {
                let other = PathPattern::parse(path).ok().and_then(|path| path.prefix());
                other.is_none_or(|other| is_at_or_below(&other, own))
            }
        }
    }

    /// The name of its application.
    pub fn application_name(&self, owner: &str) -> String {
        format!("{self}{}", name_suffix(owner))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.hostname)?;
        formatter.write_str(self.prefix.as_deref().unwrap_or_default())
    }
}

fn is_at_or_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn name_suffix(owner: &str) -> String {
    format!(" (ExternalDNS {owner})")
}

/// The tag of all applications of an owner.
pub fn tag(owner: &str) -> String {
    format!("{TAG_PREFIX}{}", stamp::owner_digest(owner))
}

/// True if the application is kept for one of our places, wanted or not.
pub fn is_ours(application: &Application, owner: &str) -> bool {
    let tag = tag(owner);
    application.tags.iter().any(|one| **one == *tag) && application.name.ends_with(&name_suffix(owner))
}

/// Our applications of a place, those whose audience `is_named` by a rule first, then by id.
pub fn of_place<'a>(
    place: &Place,
    applications: &'a [Application],
    owner: &str,
    is_named: impl Fn(&str) -> bool,
) -> Vec<&'a Application> {
    let name = place.application_name(owner);
    let ours = applications.iter().filter(|application| *application.name == *name);
    let mut ours: Vec<&Application> = ours.filter(|application| is_ours(application, owner)).collect();
    // The one that a rule names counts.
    if let Some(index) = ours.iter().position(|application| is_named(&application.audience)) {
        ours.swap(0, index);
    }
    ours
}

/// An application of somebody else that has one of the place's destinations.
pub fn in_the_way<'a>(
    place: &Place,
    applications: &'a [Application],
    owner: &str,
) -> Option<&'a Application> {
    let (name, wanted) = (place.application_name(owner), place.destinations());
    applications.iter().find(|application| {
        let is_own = *application.name == *name && is_ours(application, owner);
        !is_own
            && application.kind != ApplicationKind::Unrelated
            && application.destinations.iter().any(|destination| wanted.contains(destination))
    })
}

/// True if the application protects the place, whatever its policies are.
pub fn stands_over(application: &Application, place: &Place) -> bool {
    let mut present: Vec<&Destination> = application.destinations.iter().collect();
    present.sort_unstable();
    let wanted = place.destinations();
    let mut wanted: Vec<&Destination> = wanted.iter().collect();
    wanted.sort_unstable();
    application.kind == ApplicationKind::SelfHosted && present == wanted
}

/// True if a policy of the application lets visitors past without a login, or may.
pub fn lets_past(application: &Application) -> bool {
    application.policies.iter().flatten().any(|policy| policy.decision.may_let_past())
}

/// True if the application is ours and as wanted. `policies` are ids.
pub fn is_as_wanted(
    application: &Application,
    place: &Place,
    policies: &[&str],
    duration: SessionDuration,
    owner: &str,
) -> bool {
    let present = application.policies.iter().flatten().map(|policy| &*policy.id);
    is_ours(application, owner)
        && *application.name == *place.application_name(owner)
        && stands_over(application, place)
        && application.policies.is_some()
        && present.eq(policies.iter().copied())
        && session_duration(application) == Some(duration)
}

/// Its duration; `None` if it is none that an endpoint can ask for.
pub fn session_duration(application: &Application) -> Option<SessionDuration> {
    match application.session_duration.as_deref() {
        None | Some("") => Some(SessionDuration::default()),
        Some(text) => SessionDuration::parse(text),
    }
}

/// The body that makes the application of a place, or replaces what `present` holds with it. What we do not manage
/// stays.
pub fn body(
    place: &Place,
    wish: &ProtectionWish,
    policies: &[&str],
    owner: &str,
    present: Option<Map<String, Value>>,
) -> Vec<u8> {
    let mut body = present.unwrap_or_default();
    for name in READ_ONLY {
        body.remove(name);
    }
    // Older forms of the destinations, which follow them.
    body.remove("self_hosted_domains");
    let tag = tag(owner);
    let mut tags: Vec<Value> = body.get("tags").and_then(Value::as_array).cloned().unwrap_or_default();
    if !tags.iter().any(|one| one.as_str() == Some(&tag)) {
        tags.push(tag.into());
    }
    let destinations = place.destinations();
    let uris = destinations.iter().map(ToString::to_string);
    let links =
        policies.iter().zip(1_u32..).map(|(id, precedence)| json!({"id": id, "precedence": precedence}));
    for (name, value) in [
        ("type", json!("self_hosted")),
        ("name", place.application_name(owner).into()),
        ("domain", destinations.first().map(ToString::to_string).into()),
        ("destinations", uris.map(|uri| json!({"type": "public", "uri": uri})).collect()),
        ("policies", links.collect()),
        ("tags", tags.into()),
        ("session_duration", wish.session_duration.to_string().into()),
    ] {
        body.insert(name.to_owned(), value);
    }
    Value::Object(body).to_string().into_bytes()
}
