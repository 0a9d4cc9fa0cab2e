//! Messages that an operator should read once.

use std::fmt;

use crate::limits;
use crate::model::LogLine;
use crate::model::endpoint::Endpoint;
use crate::model::text::one_line;
use crate::reconcile::canonical::RESOURCE_LABEL;
use crate::reconcile::property_name::in_form_of;

/// A message that an operator should read once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    pub hostname: Box<str>,
    /// The object, such as `ingress/shop/web`, if it is known.
    pub resource: Option<Box<str>>,
    pub text: String,
}

impl Note {
    /// A note about a hostname, without an object.
    pub(crate) fn about(hostname: &str, text: String) -> Self {
        Self { hostname: hostname.into(), resource: None, text }
    }

    /// A note about an endpoint and its object.
    pub(crate) fn of(endpoint: &Endpoint, text: String) -> Self {
        let resource = endpoint.labels.value(RESOURCE_LABEL).map(Into::into);
        Self { hostname: endpoint.dns_name.as_str().into(), resource, text }
    }

    pub fn line(&self) -> LogLine {
        let Self { hostname, resource, text } = self;
        LogLine::default().quoted("hostname", &**hostname).quoted("resource", resource.as_deref()).text(
            in_form_of(
                resource.as_deref(),
                &format!("{hostname:?}: {}", one_line(text, limits::PROBLEM_MAX_CHARS)),
            ),
        )
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line().fmt(formatter)
    }
}
