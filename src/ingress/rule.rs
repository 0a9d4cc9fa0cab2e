//! One rule of the list, as it is and as it is wanted.

use serde_json::value::RawValue;

use super::access_check::AccessCheck;
use super::origin_request::{self, OriginRequest, properties_in, unmanaged_fields};
use super::path::{PathPattern, shape};
use super::raw_object::{RawObject, from_json, raw, text};
use super::service::Service;
use crate::model::access::Application;
use crate::model::endpoint::Property;
use crate::model::hostname::{HostPattern, Hostname, fold};

/// The fields of a rule.
const RULE_FIELDS: [&str; 4] = ["hostname", "path", "service", "originRequest"];

/// A rule in its wanted form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedRule {
    /// The hosts that it matches.
    pub hostname: Hostname,
    /// The paths that it matches; `None` for all.
    pub path: Option<PathPattern>,
    /// The destination of its requests.
    pub service: Service,
    pub origin_request: OriginRequest,
}

impl WantedRule {
    /// True if cloudflared is to pass on only requests with a token of Access.
    pub fn requires_access(&self) -> bool {
        self.origin_request.access_check().is_some()
    }

    pub fn path_text(&self) -> Option<&str> {
        self.path.as_ref().map(PathPattern::as_str)
    }
}

/// A rule of a document, which keeps its bytes.
#[derive(Clone, Debug)]
pub struct Rule {
    raw: Box<RawValue>,
    is_readable: bool,
    hostname: Box<str>,
    /// Set if it differs from `hostname`.
    folded_hostname: Option<Box<str>>,
    path: Option<Box<str>>,
    service: Box<str>,
    access: Option<Box<AccessCheck>>,
}

impl Rule {
    /// Reads what cloudflared would read. A rule that cloudflared could not read matches nothing, and is no error here.
    pub(super) fn parse(raw: Box<RawValue>) -> Self {
        let object = RawObject::parse(&raw);
        let read = |name| -> Option<Box<str>> {
            match object.as_ref()?.last_non_null(name) {
                Some(value) => text(value).map(Into::into),
                None => Some("".into()),
            }
        };
        let (hostname, path, service) = (read("hostname"), read("path"), read("service"));
        let origin = object.as_ref().map(|object| object.nested("originRequest"));
        let access = origin.and_then(|origin| origin_request::access_in(&origin)).map(Box::new);
        let is_readable = hostname.is_some() && path.is_some() && service.is_some();
        let hostname = hostname.unwrap_or_default();
        let folded_hostname = Some(fold(&hostname)).filter(|folded| **folded != *hostname).map(Into::into);
        Self {
            is_readable,
            hostname,
            folded_hostname,
            path: path.filter(|path| !path.is_empty()),
            service: service.unwrap_or_default(),
            access,
            raw,
        }
    }

    /// The hostname as written; empty if there is none.
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// The path expression as written; `None` if it is absent or empty.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The service as written; empty if there is none.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Hostname and path, for a message.
    pub fn described(&self) -> String {
        let path = self.path().map(|path| format!(" {path:?}"));
        format!("{:?}{}", self.hostname, path.unwrap_or_default())
    }

    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// True if the rule has this hostname, compared without case and in punycode, and this path text. An empty path
    /// counts as none.
    pub fn is_for(&self, hostname: &Hostname, path: Option<&str>) -> bool {
        self.has_hostname(hostname) && self.path() == path.filter(|path| !path.is_empty())
    }

    /// True if the rule has this hostname, with any path.
    pub fn has_hostname(&self, hostname: &Hostname) -> bool {
        self.is_readable && self.folded_hostname() == hostname.as_str()
    }

    /// True if the rule matches every request for the hostname and the path, by the proof by which rules are ordered.
    /// The hostname may be a wildcard.
    pub fn covers(&self, hostname: &str, path: Option<&str>) -> bool {
        self.matches_host(hostname) && shape::covers(self.path(), path)
    }

    /// True if the rule matches every request for the hostname and the path, by the stronger proof of
    /// [`PathPattern::takes_all_of`]. The hostname may be a wildcard.
    pub fn takes_all(&self, hostname: &str, path: Option<&str>) -> bool {
        self.matches_host(hostname) && PathPattern::takes_all_of(self.path(), path)
    }

    /// True if the rule matches the hostname and, as far as the texts tell, may match a request for the path.
    pub fn may_match(&self, hostname: &str, path: Option<&str>) -> bool {
        self.matches_host(hostname) && shape::may_share(self.path(), path)
    }

    fn matches_host(&self, hostname: &str) -> bool {
        self.is_readable && HostPattern::of(&self.hostname).includes(hostname)
    }

    /// True if writing `wanted` onto the rule would change nothing: its hostname is written as wanted, and its service
    /// and managed fields have the wanted values. Absent and `null` are the same, and so is an `originRequest` without
    /// managed fields; unmanaged fields do not count. The path is not compared: see [`Rule::is_for`].
    pub fn equals(&self, wanted: &WantedRule) -> bool {
        let WantedRule { hostname, path: _, service, origin_request: _ } = wanted;
        *self.hostname == *hostname.as_str() && *self.service == *service.as_str() && self.has_options(wanted)
    }

    /// True if it equals `wanted` and has no field beyond those that we would write.
    pub fn equals_in_every_field(&self, wanted: &WantedRule) -> bool {
        self.equals(wanted) && self.path() == wanted.path_text() && self.unmanaged_fields().is_empty()
    }

    /// The fields that no property sets. They stay when the rule is changed.
    pub fn unmanaged_fields(&self) -> Vec<Box<str>> {
        let rule = RawObject::parse(&self.raw).unwrap_or_default();
        [rule.others_than(&RULE_FIELDS), unmanaged_fields(&self.origin())].concat()
    }

    /// True if it has neither hostname nor path, so that it matches every request, as the last rule must.
    pub fn is_catch_all(&self) -> bool {
        self.is_readable && matches!(&*self.hostname, "" | "*") && self.path.is_none()
    }

    /// True if cloudflared could read it.
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// The hostname in lower case and punycode, by which a rule is found. A trailing dot stays, because such a rule
    /// matches no request for the name without the dot.
    pub fn folded_hostname(&self) -> &str {
        self.folded_hostname.as_deref().unwrap_or(&self.hostname)
    }

    /// True if the rule requires a token, and accepts the tokens of this application.
    pub fn accepts(&self, application: &Application) -> bool {
        self.access_check().is_some_and(|check| check.accepts(application))
    }

    /// True if the rule requires a token, and accepts no token of this application.
    pub fn requires_another(&self, application: &Application) -> bool {
        self.access_check().is_some_and(|check| !check.accepts(application))
    }

    /// A new rule in its wanted form.
    pub(super) fn wanted(wanted: &WantedRule) -> Self {
        Self::parse(RawObject::default().to_raw()).with(wanted)
    }

    /// The rule changed to its wanted form. Fields that this program does not manage stay as they are.
    pub(super) fn with(&self, wanted: &WantedRule) -> Self {
        let hostname = raw(wanted.hostname.as_str());
        let path = wanted.path_text().map(raw);
        let service = raw(wanted.service.as_str());
        let origin = wanted.origin_request.onto(self.origin());
        let mut rule = RawObject::parse(&self.raw).unwrap_or_default();
        rule.put("hostname", Some(&hostname));
        rule.put("path", path.as_deref());
        rule.put("service", Some(&service));
        // Cloudflare may add `{}` by itself. If no option changes, the field keeps every byte.
        if !self.has_options(wanted) {
            rule.replace("originRequest", origin.as_deref());
        }
        Self::parse(rule.to_raw())
    }

    fn has_options(&self, wanted: &WantedRule) -> bool {
        wanted.origin_request.is_in(&self.origin())
    }

    /// The Access check: cloudflared passes on only requests with a token of these applications. `None` if the rule
    /// requires no token.
    pub fn access_check(&self) -> Option<&AccessCheck> {
        self.access.as_deref()
    }

    /// True if cloudflared passes on only requests with a token of Access.
    pub fn requires_access(&self) -> bool {
        self.access.is_some()
    }

    /// The canonical properties of its options.
    pub fn option_properties(&self) -> Vec<Property> {
        properties_in(&self.origin())
    }

    pub(super) fn origin(&self) -> RawObject<'_> {
        RawObject::parse(&self.raw).unwrap_or_default().nested("originRequest")
    }
}

/// The rule that answers everything else, for a document without one.
pub(super) fn catch_all() -> Rule {
    Rule::parse(from_json(r#"{"service":"http_status:404"}"#.to_owned()))
}
