//! What unit tests of several modules begin with.

use crate::ingress::{OriginRequest, RuleEdit, Service, WantedRule};
use crate::model::{Hostname, TunnelId};
use crate::reconcile::{ConfiguredTunnel, Policy, Settings};

/// The tunnel of [`settings`].
pub(crate) fn tunnel() -> TunnelId {
    TunnelId::parse("f70ff985-a4ef-4643-bbbc-4a0ed4fc8415").expect("an id")
}

/// Those of the owner `default` with one tunnel, `home`.
pub(crate) fn settings() -> Settings {
    let tunnel = ConfiguredTunnel { id: tunnel(), name: "home".into(), is_local: false };
    Settings::new(Policy::new("default"), tunnel, Vec::new())
}

/// Publishes a service at all paths of a hostname.
pub(crate) fn put(hostname: &str, service: &str) -> RuleEdit {
    let rule = WantedRule {
        hostname: Hostname::parse(hostname).expect("a hostname"),
        path: None,
        service: Service::parse(service).expect("a service"),
        origin_request: OriginRequest::default(),
    };
    RuleEdit::Put { rule, replaces: false }
}
