//! The reasons of refusals, with the remedies for the operator.

use std::fmt;

use crate::label_values::label_values;
use crate::model::TunnelId;
use crate::model::text::rule_at;
use crate::reconcile::canonical::Problem;
use crate::reconcile::snapshot::COMMENT_MAX_BYTES_PAID;
use crate::reconcile::stamp::NamespaceCode;

/// The remedies for a foreign record or rule.
const DELETE: &str = "delete it at Cloudflare to publish the hostname";
const REMOVE_HOSTNAME: &str = "remove the hostname from the cluster";

/// The remedies for a tunnel that a file beside its cloudflared configures.
pub(crate) const MIGRATE_OR_TAKE_OVER: &str =
    "migrate it in the dashboard, or set ALLOW_LOCAL_CONFIG=true to take it over";

/// The remedy for records that have our owner and point to a tunnel that is not configured.
pub const SHARED_OWNER: &str = "if another instance has this OWNER_ID, give each one its own; if you have \
     changed tunnels, list the old tunnel in CF_TUNNEL_ID behind the new one until its hostnames have moved";

/// The end of the texts of reasons for which [`Reason::keeps_published`] is true.
const KEPT: &str = "; the published rules and records stay as they are";

/// The category of a reason, which shows where to look for the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// The remedy is in an object in the cluster, in a setting, or in a part of Cloudflare that the operator manages by
    /// hand.
    Mistake,
    /// The reason disappears once other work is done, or once another endpoint is corrected.
    Waiting,
    /// A safeguard refuses the request.
    Guard,
    /// The cause is a record, rule, application or tunnel of others, or a wildcard's rule that would lose requests.
    HeldByOthers,
    /// The cause is an answer of Cloudflare, or a missing one.
    Cloudflare,
}

/// The holder of a foreign record, which decides about the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordHolder {
    Other,
    /// A Cloudflare service, which creates and deletes the record of its custom domain itself.
    CustomDomain,
    /// An instance with our `OWNER_ID`, and a tunnel that is not configured here.
    SameOwner,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The endpoint has mistakes.
    Invalid(Problem),
    /// Another rule of the hostname is refused, usually of the same object. The published rules would receive the
    /// requests of the refused rule.
    BesideRefused {
        path: Box<str>,
        /// The label of that rule's reason.
        refused: &'static str,
    },
    /// A deletion that waits, because an endpoint of the same hostname is refused.
    Withheld {
        /// The object of that endpoint, if it is known.
        by: Option<Box<str>>,
    },
    /// A deletion that is part of a mass deletion, whose cause is probably a mistake elsewhere.
    MassDeletion {
        /// The number of hostnames that the request deletes.
        hostnames: usize,
    },
    /// The domain filter excludes the name.
    OutsideFilter,
    /// No zone that the token can read contains the name, or NS records of the zone delegate it.
    NoZone,
    /// A foreign record has the name.
    RecordHeld {
        /// `A`, `CNAME`, …
        record_type: Box<str>,
        content: Box<str>,
        /// The comment, which may show the record's origin.
        comment: Box<str>,
        holder: RecordHolder,
        /// The smallest value of `ADOPT` that would take the record over, if any would.
        adopt: Option<Box<str>>,
    },
    /// A foreign rule has the same hostname and path.
    RuleHeld {
        /// The wanted tunnel, which has the rule.
        tunnel: TunnelId,
        service: Box<str>,
        /// The smallest value of `ADOPT` that would take the rule over.
        adopt: Box<str>,
    },
    /// The Access guard refuses the endpoint, because visitors may reach it without a login.
    Unprotected(String),
    /// The webhook could not read what Access protects, or lacks a permission to write an application.
    AccessUnknown(String),
    /// The endpoint asks for a login that the webhook cannot create, for example with a policy that cannot be used.
    AccessPolicy(String),
    /// A foreign Access application has the same destination.
    ApplicationHeld {
        application: Box<str>,
        /// True if `ADOPT=access` takes the application over.
        may_be_adopted: bool,
    },
    /// The endpoint does not ask to be open, but its visitors would no longer need the login that they need now.
    WouldOpen,
    /// The record would take visitors that need a login now to an open rule in the wanted tunnel.
    OpenRuleInTunnel {
        /// The name of the visitors.
        visitors: Box<str>,
        /// The rule's hostname and path, quoted.
        rule: Box<str>,
    },
    /// The endpoint asks to be open, but an Access application over it protects more.
    StillProtected {
        application: Box<str>,
        /// A rule, record, destination or zone that would be open without the application.
        also_protects: Box<str>,
        /// True if the application was made for the endpoint's place, false if for a wider one.
        is_of_place: bool,
    },
    /// The endpoint asks to be open. This hostname and path would open as well, although its endpoint does not ask to
    /// be open.
    OpensToo(String),
    /// The namespace guard refuses the hostname to the endpoint's namespace.
    NamespaceHeld {
        /// The namespace that has the hostname; `None` if that namespace is unknown.
        holder: Option<NamespaceCode>,
        /// The endpoint's namespace.
        asking: NamespaceCode,
    },
    /// Another rule of the hostname has the same digest.
    DigestTaken {
        /// The tunnel of that rule.
        tunnel: TunnelId,
        path: Box<str>,
    },
    /// The hostname's record points, or will point, to another tunnel.
    TwoTunnels {
        /// The tunnel that has the hostname.
        tunnel: TunnelId,
    },
    /// The hostname's visitors would come to another tunnel, and a foreign rule, or the rule of a wildcard of ours,
    /// would lose their requests.
    RuleLeftBehind {
        /// The rule's tunnel.
        tunnel: TunnelId,
        /// The rule's hostname and path, quoted.
        rule: Box<str>,
        is_ours: bool,
    },
    /// The tunnel is configured here and was deleted at Cloudflare.
    TunnelGone {
        tunnel: TunnelId,
    },
    /// The tunnel is configured by a file beside its `cloudflared`.
    LocalTunnel {
        tunnel: TunnelId,
    },
    /// The comment has no room for another digest.
    StampFull {
        /// The number of rules that the comment would have to name at once.
        rules: usize,
        /// The longest comment that the zone allows, in bytes.
        limit_bytes: usize,
    },
    /// The tunnel's document does not allow the edit.
    RuleConflict(String),
    Cloudflare(String),
    /// The last write to a tunnel failed for another reason than its content. The log has a line about that.
    TunnelFailed(TunnelId, String),
    /// A write to a zone failed for another reason than its content, or no time or calls were left for a write.
    Failed(String),
    /// A later request decides on the endpoint: other work is done first, or something is not known yet.
    Waiting(String),
    /// The hostname is moving to another tunnel, over several requests.
    Moving(String),
    /// The write is reverted each time.
    NotKept {
        /// The log text of the write.
        what: Box<str>,
    },
}

impl Category {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mistake => "mistake",
            Self::Waiting => "waiting",
            Self::Guard => "guard",
            Self::HeldByOthers => "held by others",
            Self::Cloudflare => "Cloudflare",
        }
    }
}

/// Defines the label and the category of each reason.
macro_rules! kinds {
    ($($pattern:pat => $label:literal, $category:ident;)+) => {
        label_values! { $($pattern => $label,)+ }

        pub const fn category(&self) -> Category {
            match self {
                $($pattern => Category::$category,)+
            }
        }
    };
}

impl Reason {
    kinds! {
        Self::Invalid(_) => "invalid", Mistake;
        Self::BesideRefused { .. } => "beside_refused", Waiting;
        Self::Withheld { .. } => "withheld", Waiting;
        Self::MassDeletion { .. } => "mass_deletion", Guard;
        Self::OutsideFilter => "outside_filter", Mistake;
        Self::NoZone => "no_zone", Mistake;
        Self::RecordHeld { .. } => "record_held", HeldByOthers;
        Self::RuleHeld { .. } => "rule_held", HeldByOthers;
        Self::Unprotected(_) => "unprotected", Guard;
        Self::AccessUnknown(_) => "access_unknown", Cloudflare;
        Self::AccessPolicy(_) => "access_policy", Mistake;
        Self::ApplicationHeld { .. } => "application_held", HeldByOthers;
        Self::WouldOpen | Self::OpenRuleInTunnel { .. } => "would_open", Guard;
        Self::StillProtected { .. } | Self::OpensToo { .. } => "still_protected", Mistake;
        Self::NamespaceHeld { .. } => "namespace_held", Guard;
        Self::DigestTaken { .. } => "digest_taken", Mistake;
        Self::TwoTunnels { .. } => "two_tunnels", Mistake;
        Self::RuleLeftBehind { .. } => "rule_left_behind", HeldByOthers;
        Self::TunnelGone { .. } => "tunnel_gone", Mistake;
        Self::LocalTunnel { .. } => "local_tunnel", HeldByOthers;
        Self::StampFull { .. } => "stamp_full", Mistake;
        Self::RuleConflict(_) => "rule_conflict", Mistake;
        Self::Cloudflare(_) => "cloudflare", Cloudflare;
        Self::Failed(_) | Self::TunnelFailed(..) => "failed", Cloudflare;
        Self::Waiting(_) => "waiting", Waiting;
        Self::Moving(_) => "moving", Waiting;
        Self::NotKept { .. } => "not_kept", HeldByOthers;
    }

    /// True if the request has to fail because work is left. After a success answer, some registries never ask again.
    /// Refusals with such a reason share a line of the log, because hundreds of hostnames may have it at once.
    pub const fn fails_request(&self) -> bool {
        matches!(
            self,
            Self::MassDeletion { .. }
                | Self::TunnelFailed(..)
                | Self::Failed(_)
                | Self::Waiting(_)
                | Self::Moving(_)
        )
    }

    /// The text of a write that failed for another reason than its content, or for which no time or calls were left.
    pub fn failed_write(&self) -> Option<&str> {
        if let Self::Failed(text) | Self::TunnelFailed(_, text) = self { Some(text) } else { None }
    }

    /// True if requested protection is missing: the hostname stays open or unpublished.
    pub fn leaves_unprotected(&self) -> bool {
        match self {
            Self::Invalid(problem) => problem.concerns_access(),
            Self::AccessPolicy(_) | Self::ApplicationHeld { .. } | Self::Unprotected(_) => true,
            _ => false,
        }
    }

    /// The reason with its remedy.
    fn text(&self) -> String {
        match self {
            Self::Invalid(problem) => problem.to_string(),
            Self::BesideRefused { path, refused } => format!(
                "the endpoint waits for the hostname's {}: correct that rule, which is refused ({refused})",
                rule_at(path)
            ),
            Self::Withheld { by } => {
                let of = by.as_ref().map(|by| format!("of {by} ")).unwrap_or_default();
                format!(
                    "the webhook does not delete this path yet: the hostname's refused endpoint {of}may be \
                     the same rule under a new path; see the line of that endpoint"
                )
            }
            Self::MassDeletion { hostnames } => format!(
                "too many hostnames would be deleted at once, so they stay: correct the changed filter, \
                 source or prefix, delete fewer, or raise the limit (chart: --set \
                 global.settings.MASS_DELETION_LIMIT={hostnames})"
            ),
            Self::OutsideFilter => String::from(
                "the domain filter excludes the name: change DOMAIN_FILTER or the other domain filters, or \
                 remove the hostname from the cluster; what is published of it stays until it is deleted at \
                 Cloudflare",
            ),
            Self::NoZone => String::from(
                "no zone answers for the name: add the zone to the account and give the token access to it, \
                 widen the filters, or delete the NS records that delegate the name",
            ),
            Self::RecordHeld { record_type, content, comment, holder, adopt } => {
                let comment = (!comment.is_empty()).then(|| format!(" with the comment {comment:?}"));
                let comment = comment.unwrap_or_default();
                let record = format!("the name has the {record_type} record {content:?}{comment}");
                let delete = match holder {
                    RecordHolder::Other => DELETE,
                    RecordHolder::CustomDomain => {
                        "remove the custom domain from its Worker, Pages project or bucket"
                    }
                    RecordHolder::SameOwner => {
                        return format!(
                            "{record} that has the webhook's OWNER_ID and points to a tunnel that is not \
                             configured here: {SHARED_OWNER}"
                        );
                    }
                };
                format!("{record} that is not ours: {}", remedies(adopt.as_deref(), delete))
            }
            Self::RuleHeld { tunnel, service, adopt } => format!(
                "tunnel {tunnel} has a rule for this hostname and path that is not ours (service \
                 {service:?}): {}",
                remedies(Some(adopt), DELETE)
            ),
            Self::Unprotected(problem) => format!("ACCESS_GUARD is on, and {problem}"),
            Self::AccessUnknown(text) => format!("the webhook cannot use Cloudflare Access: {text}"),
            Self::AccessPolicy(problem) => format!("the endpoint {problem}"),
            Self::ApplicationHeld { application, may_be_adopted } => {
                let remedy = match may_be_adopted {
                    true => "set ADOPT=access to take it over, delete it at Cloudflare",
                    false => "remove the destination from it at Cloudflare",
                };
                format!(
                    "the Access application {application:?} has the same destination: {remedy}, or keep it, and set webhook/access-required, -team-name and -aud-tag in place \
                     of webhook/access-policy"
                )
            }
            Self::WouldOpen => String::from(
                "the endpoint names no Access policy, so publishing it would remove the login that visitors \
                 need now: set webhook/access-policy to the policies, or to none to open the hostname",
            ),
            Self::OpenRuleInTunnel { visitors, rule } => format!(
                "visitors of {visitors:?} need a login now, and the rule for {rule} in the wanted tunnel \
                 requires none: close that rule, or publish the hostname through the tunnel that its \
                 visitors reach now"
            ),
            Self::StillProtected { application, also_protects, is_of_place } => {
                let remedy = match is_of_place {
                    true => "give it an Access application of its own, or remove it from that application",
                    false => "make an application with a Bypass policy to open the endpoint's place alone",
                };
                format!(
                    "the endpoint asks to be open, but the Access application {application:?} protects \
                     {also_protects:?} too: set none there as well; or {remedy}"
                )
            }
            Self::OpensToo(place) => format!(
                "opening this endpoint would open {place:?} too, which has no Access application yet: if the \
                 next loops create none, correct that endpoint, or set webhook/access-policy there to its \
                 policies or to none"
            ),
            Self::NamespaceHeld { holder: Some(holder), asking } => format!(
                "NAMESPACE_GUARD is on, and namespace ns={holder} has the hostname: remove the hostname from \
                 its objects and, until the record is deleted, from this one; or write ns={asking} into the \
                 record's comment"
            ),
            Self::NamespaceHeld { holder: None, asking } => format!(
                "NAMESPACE_GUARD is on, and neither the record's comment nor the services of the rules tell \
                 which namespace has the hostname: if it is this one, add ns={asking} to the comment at \
                 Cloudflare"
            ),
            Self::DigestTaken { tunnel, path } => format!(
                "the rule has the same digest as the {} in tunnel {tunnel}: write one of the two paths \
                 another way, such as with a group around it, or remove one of the rules at Cloudflare",
                rule_at(path)
            ),
            Self::TwoTunnels { tunnel } => format!(
                "the hostname is served through tunnel {tunnel}: a hostname has one record and so one \
                 tunnel; move all its endpoints at once, and correct those that are refused"
            ),
            Self::RuleLeftBehind { tunnel, rule, is_ours: true } => format!(
                "the rule for {rule} in tunnel {tunnel} answers the hostname's other requests, so the record \
                 stays until the wanted tunnel answers them: move that wildcard, or give the hostname a rule \
                 for all requests"
            ),
            Self::RuleLeftBehind { tunnel, rule, is_ours: false } => format!(
                "visitors reach the foreign rule for {rule} in tunnel {tunnel} through the present record, \
                 so the record stays: delete that rule at Cloudflare, or publish the hostname through that \
                 tunnel"
            ),
            Self::TunnelGone { tunnel } => format!(
                "tunnel {tunnel} was deleted at Cloudflare: create one with the same name, or name another one in \
                 CF_TUNNEL_ID, and in webhook/tunnel of the objects that name this one"
            ),
            Self::LocalTunnel { tunnel } => format!(
                "tunnel {tunnel} is configured by a file beside its cloudflared: {MIGRATE_OR_TAKE_OVER}"
            ),
            Self::StampFull { rules, limit_bytes } => {
                let more = COMMENT_MAX_BYTES_PAID;
                let plan = (*limit_bytes < more).then(|| format!(", or take a paid plan ({more} bytes)"));
                let plan = plan.unwrap_or_default();
                format!(
                    "the record's comment has no room for the {rules} rules that it has to name at once \
                     ({limit_bytes} bytes): publish fewer paths, change them in two steps, or shorten the \
                     text behind its bar{plan}"
                )
            }
            Self::RuleConflict(text)
            | Self::Failed(text)
            | Self::TunnelFailed(_, text)
            | Self::Waiting(text)
            | Self::Moving(text) => text.clone(),
            Self::Cloudflare(text) => format!("Cloudflare rejected the write: {text}"),
            Self::NotKept { what } => format!(
                "this write ({what}) is undone each time: if another instance has this OWNER_ID, give each \
                 one its own; if another program undoes it, let one write it; if Cloudflare drops a default, \
                 leave the option out"
            ),
        }
    }

    /// True if a login is the reason, so that the published rules and records stay.
    fn keeps_published(&self) -> bool {
        match self {
            Self::Unprotected(_)
            | Self::AccessUnknown(_)
            | Self::AccessPolicy(_)
            | Self::WouldOpen
            | Self::OpenRuleInTunnel { .. }
            | Self::OpensToo { .. } => true,
            Self::Invalid(problem) => problem.concerns_access(),
            _ => false,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.text(), if self.keeps_published() { KEPT } else { "" })
    }
}

/// The remedies in one sentence. `ADOPT=all` is the last, because it applies to every hostname. A record of another
/// owner may be published by an instance that still runs.
fn remedies(adopt: Option<&str>, delete: &str) -> String {
    match adopt {
        None => format!("{delete}, or {REMOVE_HOSTNAME}"),
        Some("all") => format!("{delete}, {REMOVE_HOSTNAME}, or set ADOPT=all to take it over"),
        Some(value) if value.starts_with("owner=") => format!(
            "set ADOPT={value} to take it over with all its rules, or delete it; if another instance \
             publishes the hostname, remove it from one of the two"
        ),
        Some(value) => format!("set ADOPT={value} to take it over, {delete}, or {REMOVE_HOSTNAME}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{reading, tunnel};
    use crate::model::endpoint::{Endpoint, Property};
    use crate::reconcile::endpoint_reader::EndpointReader;

    #[test]
    fn what_is_refused_for_access_says_that_what_is_published_stays() {
        let stays = "; the published rules and records stay as they are";
        assert!(Reason::WouldOpen.to_string().ends_with(stays));
        assert_eq!(Reason::RuleConflict("too many rules".to_owned()).to_string(), "too many rules");
    }

    /// An object can set the text itself, as `webhook/invalid`.
    #[test]
    fn an_invalid_endpoint_is_refused_in_the_words_of_its_mistake() {
        let words = "x is y; the rest is by an object";
        assert_eq!(Reason::Invalid(Problem::new(words)).to_string(), words);
    }

    #[test]
    fn what_a_hostname_needs_least_is_the_first_way_out_and_adopt_all_the_last() {
        let rule = |adopt: &str| Reason::RuleHeld {
            tunnel: tunnel(),
            service: "http://theirs".into(),
            adopt: adopt.into(),
        };
        let record = |adopt: Option<&str>| Reason::RecordHeld {
            record_type: "A".into(),
            content: "192.0.2.1".into(),
            comment: "".into(),
            holder: RecordHolder::Other,
            adopt: adopt.map(Into::into),
        };
        let (delete, leave) = (DELETE, REMOVE_HOSTNAME);
        for (reason, ways) in [
            (rule("tunnel"), format!("set ADOPT=tunnel to take it over, {delete}, or {leave}")),
            (rule("all"), format!("{delete}, {leave}, or set ADOPT=all to take it over")),
            (
                record(Some("owner=a")),
                "set ADOPT=owner=a to take it over with all its rules, or delete it; if another instance \
                 publishes the hostname, remove it from one of the two"
                    .to_owned(),
            ),
            (record(Some("all")), format!("{delete}, {leave}, or set ADOPT=all to take it over")),
            (record(None), format!("{delete}, or {leave}")),
        ] {
            let text = reason.to_string();
            assert!(text.ends_with(&format!(": {ways}")), "{text}");
        }
    }

    #[test]
    fn a_name_outside_the_filter_is_told_which_setting_to_change() {
        let text = Reason::OutsideFilter.to_string();
        assert!(text.contains("DOMAIN_FILTER") && text.contains("from the cluster"), "{text}");
    }

    #[test]
    fn a_reason_lies_with_a_mistake_with_others_with_a_guard_with_cloudflare_or_waits() {
        let tunnel = tunnel();
        for (reason, group) in [
            (Reason::Invalid(Problem::new("x")), "mistake"),
            (Reason::TwoTunnels { tunnel: tunnel.clone() }, "mistake"),
            (Reason::LocalTunnel { tunnel }, "held by others"),
            (Reason::NotKept { what: "record".into() }, "held by others"),
            (Reason::MassDeletion { hostnames: 9 }, "guard"),
            (Reason::WouldOpen, "guard"),
            (Reason::AccessUnknown("x".into()), "Cloudflare"),
            (Reason::Withheld { by: None }, "waiting"),
            (Reason::Waiting("x".to_owned()), "waiting"),
        ] {
            assert_eq!(reason.category().as_str(), group, "{}", reason.label_value());
        }
    }

    #[test]
    fn a_reason_has_two_hundred_characters_at_most_besides_names() {
        let none = Box::<str>::default;
        let held = |holder, adopt: &str| Reason::RecordHeld {
            record_type: none(),
            content: none(),
            comment: none(),
            holder,
            adopt: Some(adopt.into()),
        };
        for reason in [
            Reason::Withheld { by: Some(none()) },
            Reason::MassDeletion { hostnames: 9 },
            Reason::OutsideFilter,
            Reason::NoZone,
            held(RecordHolder::Other, "tunnel"),
            held(RecordHolder::CustomDomain, "all"),
            Reason::RuleHeld { tunnel: tunnel(), service: none(), adopt: "tunnel".into() },
            Reason::WouldOpen,
            Reason::OpenRuleInTunnel { visitors: none(), rule: none() },
            Reason::StillProtected { application: none(), also_protects: none(), is_of_place: true },
            Reason::StillProtected { application: none(), also_protects: none(), is_of_place: false },
            Reason::OpensToo(String::new()),
            Reason::NamespaceHeld { holder: Some(NamespaceCode::of("")), asking: NamespaceCode::default() },
            Reason::NamespaceHeld { holder: None, asking: NamespaceCode::default() },
            Reason::DigestTaken { tunnel: tunnel(), path: none() },
            Reason::TwoTunnels { tunnel: tunnel() },
            Reason::RuleLeftBehind { tunnel: tunnel(), rule: none(), is_ours: true },
            Reason::RuleLeftBehind { tunnel: tunnel(), rule: none(), is_ours: false },
            Reason::TunnelGone { tunnel: tunnel() },
            Reason::LocalTunnel { tunnel: tunnel() },
            Reason::StampFull { rules: 9, limit_bytes: 500 },
            Reason::NotKept { what: none() },
        ] {
            let text = reason.to_string();
            let text = text.strip_suffix(KEPT).unwrap_or(&text);
            let text = text.replace(tunnel().as_str(), "");
            assert!(text.chars().count() <= 200, "{}: {text}", text.chars().count());
        }
    }

    /// A metric of its own counts these refusals.
    #[test]
    fn what_is_refused_for_its_protection_is_told_from_the_rest() {
        assert!(Reason::AccessPolicy("x".into()).leaves_unprotected());
        assert!(
            Reason::ApplicationHeld { application: "x".into(), may_be_adopted: true }.leaves_unprotected()
        );
        let invalid = |text: &str| Reason::Invalid(Problem::new(text));
        assert!(invalid("webhook/tunnel is x; webhook/access-policy is y").leaves_unprotected());
        let misspelled = |name: &str| {
            let endpoint = Endpoint {
                dns_name: "a.example.com".to_owned(),
                record_type: "CNAME".to_owned(),
                provider_specific: vec![
                    Property::new("webhook/tunnel-service", "http://a:80"),
                    Property::new(name, "staff"),
                ],
                ..Endpoint::default()
            };
            let reading = reading();
            let read = EndpointReader::new(&reading.settings, &reading.access).read(&endpoint);
            Reason::Invalid(read[0].publication.clone().expect_err("a name is misspelled"))
        };
        for name in ["acess-policy", "protected", "\"access-policy", "acces\"s-policy", "acess-policy\""] {
            assert!(misspelled(&format!("webhook/{name}")).leaves_unprotected(), "{name}");
        }
        let quoting = r#"webhook/tunnel is "a \" webhook/access-policy \\", which is not configured"#;
        assert!(!invalid(quoting).leaves_unprotected(), "the author of an object chose the text");
        assert!(invalid(&format!("webhook/access-policy names \"x\"; {quoting}")).leaves_unprotected());
        assert!(!misspelled("webhook/tunnel-servise").leaves_unprotected());
        assert!(!Reason::NoZone.leaves_unprotected() && !Reason::WouldOpen.leaves_unprotected());
    }
}
