//! Finds likely mistakes in a valid rule, such as `http` with port 443. No rule is refused for a hint.

use std::net::IpAddr;

use crate::ingress::{OriginOption, PathPattern, WantedRule};
use crate::reconcile::OperatorSettings;
use crate::reconcile::property_name::{TUNNEL_PATH, TUNNEL_PATH_PREFIX, TUNNEL_SERVICE};
use crate::reconcile::target::{self, TargetKind};

/// The hints about a rule that is to be published.
pub fn hints(rule: &WantedRule, operator: &OperatorSettings) -> impl Iterator<Item = String> {
    let (service, options) = (rule.service.as_str(), &rule.origin_request);
    let is_tls = ["https://", "wss://", "unix+tls:"].into_iter().any(|start| service.starts_with(start));
    let meant = match (service.split_once("://"), service.rsplit_once(':')) {
        (Some(("http", _)), Some((_, "443"))) => Some("https"),
        (Some(("https", _)), Some((_, "80"))) => Some("http"),
        _ => None,
    };
    let port = meant.map(|meant| {
        format!("{service} has the default port of {meant}://: write {meant}:// if that server speaks it")
    });
    let certificate = (is_tls && port.is_none() && has_unknown_certificate(rule, operator)).then(|| {
        format!(
            "no public authority certifies {service}, and cloudflared answers 502 where it does not trust the \
             certificate: set webhook/origin-server-name, -ca-pool or -no-tls-verify"
        )
    });
    let http2 = OriginOption::Http2Origin;
    let is_asked = !is_tls && options.is_on(http2) && !operator.origin_defaults.is_on(http2);
    let http2 = is_asked.then(|| format!("{} does nothing where the service has no TLS", http2.property()));
    let bare = rule.service.host_and_port().filter(|(host, _)| operator.in_cluster && is_bare(host));
    let bare = bare.map(|(host, _)| {
        let meant = service.replacen(&format!("//{host}"), &format!("//{host}.{{namespace}}.svc"), 1);
        format!(
            "the host of {service} has no dot, so cloudflared looks for it in its own namespace: write \
             {TUNNEL_SERVICE}: {meant} for a Service of the object's namespace"
        )
    });
    [rule.path.as_ref().and_then(shell_pattern), certificate, http2, port, bare].into_iter().flatten()
}

/// True for a name that a pod looks up in its own namespace.
fn is_bare(host: &str) -> bool {
    !host.contains('.') && !host.starts_with('[') && !host.eq_ignore_ascii_case("localhost")
}

/// The hint on an expression that was meant as a pattern of a shell, such as `/api/*`.
fn shell_pattern(path: &PathPattern) -> Option<String> {
    let text = path.as_str();
    let has_no_operator =
        !text.contains(".*") && !text.contains(|character| r"\+?()|[]{}^$".contains(character));
    let (before, behind) = text.split_once('*').filter(|_| has_no_operator)?;
    let meant = match before.trim_end_matches('/') {
        "" if behind.is_empty() => "no path, which matches all paths".to_owned(),
        prefix if behind.is_empty() => format!("{TUNNEL_PATH_PREFIX} {prefix:?}"),
        _ => "[^/]+".to_owned(),
    };
    Some(format!(
        "{TUNNEL_PATH} {text:?} is an expression, in which * repeats what stands before it: did you mean {meant}?"
    ))
}

/// True if no public authority certifies the host, and no option sets how its certificate is checked.
fn has_unknown_certificate(rule: &WantedRule, operator: &OperatorSettings) -> bool {
    use OriginOption::{CaPool, MatchSniToHost, NoTlsVerify, ServerName};
    let options = &rule.origin_request;
    let is_told = [ServerName, CaPool].into_iter().any(|option| options.text(option).is_some())
        || [NoTlsVerify, MatchSniToHost].into_iter().any(|option| options.is_on(option));
    let host = rule.service.host_and_port().map(|(host, _)| host).filter(|_| !is_told);
    host.is_some_and(|host| {
        let is_name = host.contains('.') && host.parse::<IpAddr>().is_err();
        !is_name || target::kind_of(host, &operator.cluster_domain) == TargetKind::ClusterName
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::ingress::Service;
    use crate::model::Hostname;

    fn hinted(
        path: &str,
        service: &str,
        option: Option<(OriginOption, &str)>,
        operator: &OperatorSettings,
    ) -> String {
        let rule = WantedRule {
            hostname: Hostname::parse("a.example.com").expect("a hostname"),
            path: (!path.is_empty()).then(|| PathPattern::parse(path).expect("an expression")),
            service: Service::parse(service).expect("a service"),
            origin_request: fixture::options(option.as_slice()),
        };
        hints(&rule, operator).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_pattern_of_a_shell_is_told_from_an_expression() {
        let operator = fixture::operator_settings("default");
        for (path, meant) in [
            ("/api/*", r#"did you mean webhook/tunnel-path-prefix "/api"?"#),
            ("/v1.0/api*", r#"did you mean webhook/tunnel-path-prefix "/v1.0/api"?"#),
            ("/*", "did you mean no path, which matches all paths?"),
            ("/a/*/b", "did you mean [^/]+?"),
        ] {
            let hint = hinted(path, "http://web", None, &operator);
            assert!(hint.ends_with(meant), "{path}: {hint}");
        }
        for path in ["/api", "^/api/*", "/api/.*", "/a(b)*", "[a-z]*", "/x+*"] {
            if PathPattern::parse(path).is_ok() {
                assert_eq!(hinted(path, "http://web", None, &operator), "", "{path}");
            }
        }
    }

    #[test]
    fn a_certificate_that_no_public_authority_gives_is_told_unless_an_option_says_how_to_check_it() {
        let operator = fixture::operator_settings("default");
        for (service, is_told) in [
            ("https://web.shop.svc:443", true),
            ("wss://web.shop.svc.cluster.local", true),
            ("https://web", true),
            ("https://10.0.0.1", true),
            ("https://[fd00::1]:8443", true),
            ("https://web.example.org", false),
            ("http://web.shop.svc", false),
            ("tcp://web.shop.svc:443", false),
        ] {
            assert_eq!(!hinted("", service, None, &operator).is_empty(), is_told, "{service}");
        }
        for option in [
            (OriginOption::ServerName, "web.example.org"),
            (OriginOption::CaPool, "/etc/ca.pem"),
            (OriginOption::NoTlsVerify, "true"),
            (OriginOption::MatchSniToHost, "true"),
        ] {
            assert_eq!(hinted("", "https://web", Some(option), &operator), "", "{option:?}");
        }
        assert!(!hinted("", "https://web", Some((OriginOption::NoTlsVerify, "false")), &operator).is_empty());
    }

    #[test]
    fn a_scheme_at_the_port_of_the_other_one_is_told_and_nothing_else_of_it() {
        let operator = fixture::operator_settings("default");
        for (service, is_told) in [
            ("http://web.shop.svc:443", true),
            ("http://[fd00::1]:443", true),
            ("http://[fd00::443]", false),
            ("http://web.shop.svc", false),
            ("http://web.shop.svc:8443", false),
            ("https://web.example.org:443", false),
        ] {
            assert_eq!(hinted("", service, None, &operator).contains("write https://"), is_told, "{service}");
        }
        let hint = hinted("", "https://web.shop.svc:80", None, &operator);
        assert!(hint.contains("write http://") && !hint.contains('\n'), "{hint}");
    }

    #[test]
    fn http2_is_told_to_do_nothing_without_tls_unless_it_is_the_default_of_all() {
        let option = Some((OriginOption::Http2Origin, "true"));
        let mut operator = fixture::operator_settings("default");
        assert!(hinted("", "http://web", option, &operator).ends_with("has no TLS"));
        for with_tls in ["https://web.example.org", "unix+tls:/run/web.sock"] {
            assert_eq!(hinted("", with_tls, option, &operator), "");
        }
        operator.origin_defaults = fixture::options(option.as_slice());
        assert_eq!(hinted("", "http://web", option, &operator), "");
    }
}
