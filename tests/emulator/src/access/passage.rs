//! What Access is to a visitor: at the edge, and at the rule of the tunnel.
//!
//! The edge as Cloudflare's documents have it. What is not known is decided on the open side, so that a test sees a
//! client that relies on it: a `bypass` policy lets every visitor through, whichever visitors it includes, and so does
//! a decision or a type of application that the description does not have. Of applications that fit equally the oldest
//! counts.

use std::fmt;

use crate::access::destination::Pattern;
use crate::access::{Access, Application, Policy};
use crate::json::{Members, elements};
use crate::zone::Zone;

/// The visitor that asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Visitor {
    /// A person without a login.
    #[default]
    WithoutLogin,
    /// A person with a login that every policy that allows includes. A policy that denies includes this person only if
    /// it is for all visitors.
    WithLogin,
    /// A machine with a service token that every Service Auth policy includes.
    ServiceToken,
    /// A browser's preflight request, which never carries a login.
    Preflight,
}

impl Visitor {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::WithoutLogin => "without_login",
            Self::WithLogin => "with_login",
            Self::ServiceToken => "service_token",
            Self::Preflight => "preflight",
        }
    }
}

impl fmt::Display for Visitor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What a request carries to the origin that went through an application: the claims of its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assertion {
    pub(crate) audience: String,
    team: String,
}

/// What the edge makes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It goes on as it came: no application covers it, or none that asks.
    Free,
    Asserted(Assertion),
    /// By this application, by id, or because there is none (error 1043).
    TurnedAway(Option<String>),
}

/// Whether a type of application stands before public hostnames; `None` where the description does not have the type.
fn guards_hostnames(kind: &str) -> Option<bool> {
    match kind {
        "self_hosted" | "ssh" | "vnc" | "rdp" => Some(true),
        "saas" | "app_launcher" | "warp" | "biso" | "bookmark" | "dash_sso" | "infrastructure" | "mcp"
        | "mcp_portal" | "proxy_endpoint" => Some(false),
        _ => None,
    }
}

/// Decides over a request to a hostname in a zone.
pub(crate) fn passage(
    access: &Access,
    zone: &Zone,
    visitor: Visitor,
    host: &str,
    path: &str,
    covers_sub_paths: bool,
) -> Passage {
    let account = &zone.account.id;
    let Some(organization) =
        access.organizations.iter().find(|organization| organization.account == *account)
    else {
        return Passage::Free;
    };
    let Some(team) = organization.team.clone() else {
        return Passage::Free;
    };
    let fit = |application: &Application| {
        let uris = application.public_uris();
        uris.filter_map(|uri| Pattern::parse(uri).fit(host, path, covers_sub_paths)).max()
    };
    let candidates = access.applications.iter().filter(|application| {
        application.account == *account && guards_hostnames(application.kind()) != Some(false)
    });
    // The last of equals is the one that `max_by_key` finds.
    let fitting = candidates.rev().filter_map(|application| Some((fit(application)?, application)));
    let Some((_, application)) = fitting.max_by_key(|(fit, _)| *fit) else {
        return Passage::Free;
    };
    let policies: Vec<&Policy> = application.policies(access).collect();
    let is_open = |policy: &&Policy| !matches!(policy.decision.as_str(), "allow" | "deny" | "non_identity");
    let is_preflight_free = visitor == Visitor::Preflight && application.is_on("options_preflight_bypass");
    if guards_hostnames(application.kind()).is_none() || is_preflight_free || policies.iter().any(is_open) {
        return Passage::Free;
    }
    let first_match = policies.iter().find(|policy| match policy.decision.as_str() {
        "allow" => true,
        "deny" => policy.includes_all_visitors(),
        _ => false,
    });
    let is_let_in = match visitor {
        Visitor::WithLogin => first_match.is_some_and(|policy| policy.decision == "allow"),
        Visitor::ServiceToken => policies.iter().any(|policy| policy.decision == "non_identity"),
        Visitor::WithoutLogin | Visitor::Preflight => false,
    };
    if is_let_in {
        Passage::Asserted(Assertion { audience: application.aud.clone(), team })
    } else {
        Passage::TurnedAway(Some(application.id.clone()))
    }
}

/// The status that cloudflared answers itself, from `originRequest` of the rule that a request meets; `None` where it
/// hands the request on.
///
/// As cloudflared does it: a request without a token is answered 403 before anything else, one whose token cannot be
/// verified 502, one whose audience is not named 403. The keys are those of the team that the rule names, so that a
/// token of any other team fails there. The `access` of the document's own `originRequest` is never looked at.
pub(crate) fn check_rule(origin_request: &Members, assertion: Option<&Assertion>) -> Option<u16> {
    let access = Members::parse(origin_request.present("access")?.get())?;
    let text = |name: &str| -> String {
        let value = access.present(name).and_then(|value| serde_json::from_str(value.get()).ok());
        value.unwrap_or_default()
    };
    if access.present("required").is_none_or(|required| required.get() != "true") {
        return None;
    }
    let Some(assertion) = assertion else {
        return Some(403);
    };
    // The one other environment that cloudflared knows has keys of its own.
    if text("teamName") != assertion.team || text("environment").eq_ignore_ascii_case("fed") {
        return Some(502);
    }
    let named = access.present("audTag").and_then(|tags| elements(tags.get())).unwrap_or_default();
    let mut named = named.iter().filter_map(|tag| serde_json::from_str::<String>(tag.get()).ok());
    if named.any(|tag| tag == assertion.audience) { None } else { Some(403) }
}
