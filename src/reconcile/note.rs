//! Messages that an operator should read once.

use crate::limits;
use crate::model::LogLine;
use crate::model::endpoint::Endpoint;
use crate::model::text::one_line;
use crate::reconcile::canonical::RESOURCE_LABEL;
use crate::reconcile::property_name::in_form_of;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    pub kind: NoteKind,
    pub hostname: Box<str>,
    /// The object, such as `ingress/shop/web`, if it is known.
    pub resource: Option<Box<str>>,
    /// One line of `PROBLEM_MAX_CHARS` at most.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteKind {
    /// The endpoint lost its hostname and path to another object.
    LeftOut,
    Other,
    /// The wildcard is not published, because no object asks for it by `webhook/tunnel-wildcard`.
    LeftOutWildcard,
    /// The wildcard is published, although no object asks for it by `webhook/tunnel-wildcard`.
    PublicWildcard,
}

impl Note {
    /// A note about a hostname, without an object.
    pub(crate) fn about(hostname: &str, text: String) -> Self {
        let text = one_line(&text, limits::PROBLEM_MAX_CHARS).to_string();
        Self { kind: NoteKind::Other, hostname: hostname.into(), resource: None, text }
    }

    /// A note about an endpoint and its object.
    pub(crate) fn of(endpoint: &Endpoint, text: String) -> Self {
        let resource = endpoint.labels.value(RESOURCE_LABEL).map(Into::into);
        Self { resource, ..Self::about(&endpoint.dns_name, text) }
    }

    pub fn line(&self) -> LogLine {
        let Self { kind: _, hostname, resource, text } = self;
        let text = in_form_of(resource.as_deref(), &format!("{hostname:?}: {text}"));
        LogLine::default().quoted("hostname", &**hostname).quoted("resource", resource.as_deref()).text(text)
    }
}
