//! Refuses Gateway API routes that carry no HTTP and name no service of their own. A rule with the service of the
//! Gateway, which is the target of all its routes, or with the default service would silently publish another service.

use crate::ingress::origin_option::Mistake;
use crate::ingress::{OriginOption, WantedRule};
use crate::reconcile::property_name::TUNNEL_SERVICE;

/// The mistake of a rule for an object of this kind; `subject` names the source of the rule's service.
pub fn mistake(rule: &WantedRule, subject: &str, kind: &str) -> Option<Mistake> {
    let way = match kind {
        "tcproute" => {
            "and the route carries TCP: set webhook/tunnel-service: tcp://name.namespace.svc:port on it"
        }
        "udproute" => "and no rule carries UDP: remove the hostname from the route",
        "tlsroute" if !names_host(rule) => {
            "and the Gateway finds no TLSRoute without the server name (SNI): publish an https:// service with \
             webhook/origin-match-sni-to-host: \"true\", or the route's own webhook/tunnel-service"
        }
        _ => return None,
    };
    let problem = || format!("is {:?}, {way}", rule.service.as_str());
    (subject != TUNNEL_SERVICE).then(|| Mistake::new(subject, problem()))
}

/// True if an option sets the TLS name for an HTTPS service, or if the service is no HTTP service.
fn names_host(rule: &WantedRule) -> bool {
    let options = &rule.origin_request;
    match rule.service.as_str().split_once("://") {
        Some(("http" | "ws", _)) => false,
        Some(("https" | "wss", _)) => {
            options.is_on(OriginOption::MatchSniToHost) || options.text(OriginOption::ServerName).is_some()
        }
        _ => true,
    }
}
