//! The Access properties of endpoints: those that `records` shows, and those that `adjust` answers with. ExternalDNS
//! asks for an update in each loop if the two differ, so they differ only if the protection has to change:
//!
//! | the endpoint of an object has | `records` shows | `adjust` |
//! |---|---|---|
//! | no Access property, and its rule is ours | the protection of the rule | adds the same properties |
//! | `none`, and its place is open | `none` only under a default policy | removes `none` without a default policy |
//! | the audience of our application for a wider place, and perhaps others | the others | removes that audience |
//! | any other Access property | the protection of the rule | changes nothing |

use crate::ingress::Rule;
use crate::ingress::access_check::{ACCESS_AUD_TAG, ACCESS_PROPERTIES, AccessCheck};
use crate::model::endpoint::{Endpoint, Property};
use crate::model::{Hostname, TunnelId};
use crate::reconcile::Note;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::place::{self, Place};
use crate::reconcile::access::reading::AccessReading;
use crate::reconcile::access::unneeded;
use crate::reconcile::access::wanted::{OPEN, protection_properties};
use crate::reconcile::canonical::{self, RECORD_ONLY, is_invalid, path_of};
use crate::reconcile::property_name::{ACCESS_POLICY, ACCESS_PREFIX, TUNNEL_SERVICE};
use crate::reconcile::snapshot::Snapshot;

/// Properties that are shown, and whether the protection of the rule is as they say.
pub(crate) struct ShownProperties {
    pub(crate) properties: Vec<Property>,
    /// False if the application or the rule's Access check has to be corrected.
    pub(crate) is_correct: bool,
}

/// The properties of a rule of ours, with those of its protection.
pub(crate) fn properties_of_rule(rule: &Rule, protection: HostProtection<'_>) -> ShownProperties {
    let mut properties = canonical::properties_in_document(rule);
    properties.retain(|property| !ACCESS_PROPERTIES.contains(&&*property.name));
    let mut shown = access_properties(rule, protection);
    shown.properties.extend(properties);
    shown
}

/// The Access properties of a rule of ours.
fn access_properties(rule: &Rule, protection: HostProtection<'_>) -> ShownProperties {
    let (path, check) = (rule.path(), rule.access_check());
    let login = || protection.own_login(path).map(|own| own.application);
    let is_as_before = |login| protection.check_with(check.cloned(), login).as_ref() == check;
    if let (Some(own), Some(read)) = (protection.application_made_for(path), protection.access()) {
        let application = own.application;
        let policies = application.policies.iter().flatten().map(|policy| &*policy.id);
        let duration = application.asked_session_duration();
        let is_whole = place::has_destinations_of(application, own.place);
        let required = AccessCheck::required(&read.team, [application]);
        let protects = duration.is_some() && !application.may_be_bypassed();
        if application.policies.as_deref().is_none_or(<[_]>::is_empty) {
            // No endpoint can ask for an application without a policy, which refuses every visitor.
            return ShownProperties { properties: Vec::new(), is_correct: is_as_before(login()) };
        }
        let properties = protection_properties(policies, duration.unwrap_or_default());
        let is_correct = is_whole && protects && check == Some(&required);
        return ShownProperties { properties, is_correct };
    }
    if protection.snapshot.operator().access_guard {
        // The guard adds the check by itself, so the check of the guard is no drift.
        let met = protection.access().zip(protection.guarding(path).ok());
        let required = met.map(|(access, applications)| AccessCheck::required(&access.team, applications));
        let is_correct = required.is_some() && check == required.as_ref();
        return ShownProperties { properties: Vec::new(), is_correct };
    }
    let login = login();
    let is_open = check.is_none() && login.is_none();
    let left = check.cloned().and_then(|check| check.without_audience(login.map(|one| &*one.audience)));
    let mut properties = left.iter().flat_map(AccessCheck::properties).collect::<Vec<_>>();
    properties.extend(property_of_open(is_open, protection.snapshot));
    ShownProperties { properties, is_correct: is_as_before(login) }
}

/// The Access property of a record without a rule.
pub(crate) fn of_record(protection: HostProtection<'_>) -> Option<Property> {
    property_of_open(protection.own_login(None).is_none(), protection.snapshot)
}

/// The value `none` for an open place under a default policy, because such a place was opened on purpose.
fn property_of_open(is_open: bool, snapshot: &Snapshot) -> Option<Property> {
    let has_default = !snapshot.operator().default_access_policy.is_empty();
    (has_default && is_open).then(|| Property::new(ACCESS_POLICY, OPEN))
}

/// Gives each endpoint without Access properties those of its protected rule, so that ExternalDNS sees no difference.
/// Returns a note on each whose login no object asks for. Removes the Access properties that `records` does not show.
pub(crate) fn keep_logins(endpoints: &mut [Endpoint], snapshot: &Snapshot) -> Vec<Note> {
    let mut notes: Vec<(Note, Option<Place>)> = Vec::new();
    for endpoint in endpoints.iter_mut().filter(|endpoint| !is_invalid(endpoint)) {
        let Ok(hostname) = Hostname::parse(&endpoint.dns_name) else { continue };
        let protection = HostProtection::of(&hostname, snapshot);
        let path = path_of(&endpoint.set_identifier).map(str::to_owned);
        // A record alone has no rule that could require a login.
        let is_alone = endpoint.property(TUNNEL_SERVICE) == Some(RECORD_ONLY);
        let says_nothing = !is_alone && !endpoint.provider_specific.iter().any(concerns_access);
        if says_nothing && let Some(rule) = protection.own_rule(path.as_deref(), None) {
            notes.extend(keep_login(endpoint, rule, protection));
        } else {
            remove_unshown(endpoint, path.as_deref(), protection);
        }
    }
    // An application is created a loop before its place is published.
    notes.retain(|(_, wider)| wider.as_ref().is_none_or(|place| !has_endpoint(endpoints, place)));
    notes.into_iter().map(|(note, _)| note).collect()
}

/// Gives an endpoint without Access properties those of its protected rule. Returns a note, and the wider place whose
/// login protects the rule although no endpoint may ask for that place any more.
fn keep_login(
    endpoint: &mut Endpoint,
    rule: &Rule,
    protection: HostProtection<'_>,
) -> Option<(Note, Option<Place>)> {
    let properties = access_properties(rule, protection).properties;
    let has_application = protection.application_made_for(rule.path()).is_some();
    // The login of a wider place is asked for there, unless the object of that place is gone.
    let relies = !has_application && properties.is_empty() && rule.requires_access();
    let wider = relies.then(|| protection.own_login(rule.path())).flatten();
    let wider = wider.filter(|own| !unneeded::is_claimed(own.place, protection.snapshot));
    let is_kept = has_application || wider.is_some();
    if properties.is_empty() && (!is_kept || protection.snapshot.operator().access_guard) {
        return None;
    }
    endpoint.provider_specific.extend(properties);
    endpoint.provider_specific.sort_unstable();
    let name = wider.map(|own| format!(" (the Access application {:?})", own.application.name));
    let gone = if protection.refuses_every_visitor(rule) { CUT_OFF } else { "" };
    let text = format!("has a login that no object asks for{}{gone}{REMEDY}", name.unwrap_or_default());
    Some((Note::of(endpoint, text), wider.map(|own| own.place.clone())))
}

const CUT_OFF: &str = ", and its Access application is gone, so that all visitors are refused";

const REMEDY: &str = ": set webhook/access-policy to the policies, or to none to open it";

/// True if one of the endpoints, which are sorted by name, is for the place.
fn has_endpoint(endpoints: &[Endpoint], place: &Place) -> bool {
    let start = endpoints.partition_point(|endpoint| *endpoint.dns_name < *place.hostname().as_str());
    let mut of_name =
        endpoints.iter().skip(start).take_while(|endpoint| endpoint.dns_name == place.hostname().as_str());
    of_name.any(|endpoint| path_of(&endpoint.set_identifier) == place.path())
}

pub(crate) fn concerns_access(property: &Property) -> bool {
    property.name.starts_with(ACCESS_PREFIX)
}

/// Removes the Access properties that `records` does not show for the endpoint: without a default policy, `none` of an
/// open endpoint, and always the audience of the application over the path.
fn remove_unshown(endpoint: &mut Endpoint, path: Option<&str>, protection: HostProtection<'_>) {
    let has_default = !protection.snapshot.operator().default_access_policy.is_empty();
    let says_open = endpoint.property(ACCESS_POLICY) == Some(OPEN);
    if says_open && !has_default && stands_open(endpoint, path, protection) {
        endpoint.provider_specific.retain(|property| !concerns_access(property));
    } else if endpoint.property(ACCESS_AUD_TAG).is_some() {
        remove_covering_audience(endpoint, path, protection);
    }
}

fn remove_covering_audience(endpoint: &mut Endpoint, path: Option<&str>, protection: HostProtection<'_>) {
    let Some(login) = protection.own_login(path) else { return };
    let text_of = |name: &str| endpoint.property(name);
    let Ok(Some(check)) = AccessCheck::read(&text_of) else { return };
    let left = check.without_audience(Some(&*login.application.audience));
    endpoint.provider_specific.retain(|property| !ACCESS_PROPERTIES.contains(&&*property.name));
    endpoint.provider_specific.extend(left.iter().flat_map(AccessCheck::properties));
    endpoint.provider_specific.sort_unstable();
}

/// True if the endpoint's rule or record is published and open. A rule with a path has to be in the wanted tunnel.
fn stands_open(endpoint: &Endpoint, path: Option<&str>, protection: HostProtection<'_>) -> bool {
    let is_unread = matches!(protection.snapshot.access, AccessReading::Failed(_));
    if is_unread || protection.own_login(path).is_some() || protection.application_made_for(path).is_some() {
        return false;
    }
    let target = endpoint.targets.first().and_then(|target| TunnelId::from_hostname(target));
    if endpoint.property(TUNNEL_SERVICE) == Some(RECORD_ONLY) {
        return target.is_some_and(|target| protection.is_record_only_in(&target));
    }
    let tunnel = target.as_ref().filter(|_| path.is_some());
    // Until the record points to the wanted tunnel, the endpoint counts as open only if no rule checks its visitors.
    let is_moving = target != protection.snapshot.visited_tunnel(protection.hostname.as_str());
    protection.own_rule(path, tunnel).is_some()
        // A rule of ours that is left in another tunnel gives its check to an endpoint that says nothing of Access.
        && !protection.own_rules_at(path).any(|(_, rule)| rule.requires_access())
        && (!is_moving || protection.present_check(path).is_none())
}
