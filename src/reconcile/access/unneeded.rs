//! Finds our unneeded applications: no rule accepts their tokens, and no comment claims their places.

use crate::ingress::{Rule, is_status};
use crate::model::Hostname;
use crate::model::access::Application;
use crate::reconcile::Note;
use crate::reconcile::access::applications::OwnApplication;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::place::Place;
use crate::reconcile::access::relying::{AccessChanges, first_relying};
use crate::reconcile::snapshot::Snapshot;

/// The minimum age, in seconds, at which an application without a rule is deleted: the next request may write the rule.
const AGE_MIN_SECONDS: i64 = 600;

/// An application of ours whose tokens no rule accepts, and whose place no comment of ours claims.
#[derive(Clone, Debug)]
pub struct Unneeded<'s> {
    pub own: OwnApplication<'s>,
    /// Another application of ours protects the place too, and each rule there accepts that application's token.
    pub is_replaced: bool,
    /// The rule, record, destination or zone that visitors would reach without a login if the application were deleted.
    relying: Option<String>,
}

/// Our unneeded applications, except those younger than `AGE_MIN_SECONDS` that no other application of ours replaces.
pub fn unneeded<'s>(snapshot: &'s Snapshot) -> Vec<Unneeded<'s>> {
    let is_young = |application: &Application| {
        let age = application.created_unix_seconds.zip(snapshot.date_unix_seconds);
        age.is_some_and(|(created, now)| now - i64::from(created) < AGE_MIN_SECONDS)
    };
    let unneeded = snapshot.own_applications().filter_map(|own| {
        let OwnApplication { place, application } = own;
        if snapshot.has_rule_accepting(application) || is_claimed(place, snapshot) {
            return None;
        }
        let is_replaced = is_replaced(place, application, snapshot);
        if is_young(application) && !is_replaced {
            return None;
        }
        // No endpoint asks for anything.
        let relying = first_relying(own, None, &AccessChanges::default(), snapshot);
        Some(Unneeded { own, is_replaced, relying })
    });
    unneeded.collect()
}

/// The unneeded applications whose deletion opens no place, whose age is known, and whose names were all read.
pub fn removable<'s>(snapshot: &'s Snapshot) -> Vec<Unneeded<'s>> {
    let mut left = unneeded(snapshot);
    left.retain(|Unneeded { own, is_replaced: _, relying }| {
        let is_dated = own.application.created_unix_seconds.and(snapshot.date_unix_seconds).is_some();
        relying.is_none() && is_dated && is_in_sight(own.place, snapshot)
    });
    left
}

/// True if every rule that serves visitors of the place accepts the token of our next application over these visitors.
/// False if no rule serves the place.
fn is_replaced(place: &Place, application: &Application, snapshot: &Snapshot) -> bool {
    let names = snapshot.names_of(place.hostname().as_str(), &|name| place.is_over(name));
    let rules = names.into_iter().flat_map(|name| {
        let tunnels = snapshot.answering(name).iter().filter_map(|record| snapshot.tunnel_of(record));
        let rules = tunnels.flat_map(|(_, tunnel)| tunnel.rules_taking(name, place.path()));
        rules.filter(|rule| !is_status(rule.service())).map(move |rule| (name, rule))
    });
    let rules: Vec<(&str, &Rule)> = rules.collect();
    let accepts_next = |(name, rule): &(&str, &Rule)| {
        let Ok(hostname) = Hostname::parse(name) else { return false };
        let protection = HostProtection::of(&hostname, snapshot);
        let mut covering = protection.own_logins(rule.path().or_else(|| place.path()));
        let next = covering.find(|own| own.application.id != application.id);
        next.is_some_and(|next| rule.accepts(next.application))
    };
    !rules.is_empty() && rules.iter().all(accepts_next)
}

/// True if the place is in a zone that was read, and every name of it within the filter.
fn is_in_sight(place: &Place, snapshot: &Snapshot) -> bool {
    let name = place.hostname().as_str();
    let filter = &snapshot.operator().filter;
    let is_whole = match name.strip_prefix("*.") {
        Some(domain) => filter.matches_all_below(domain),
        None => filter.matches(name),
    };
    is_whole && snapshot.zone_of(name).is_some()
}

/// Notes on unneeded applications of ours that are not deleted, and on several applications of ours for one place.
pub(crate) fn notes(unneeded: &[Unneeded<'_>], snapshot: &Snapshot) -> Vec<Note> {
    let note = |place: &Place, text| Note::about(place.hostname().as_str(), text);
    let stays = unneeded.iter().filter_map(|Unneeded { own, is_replaced: _, relying }| {
        let text = format!(
            "the Access application {:?} stays, because visitors might reach {:?} without a login once it is \
             deleted: if that is wanted, delete it at Cloudflare",
            own.application.name,
            relying.as_deref()?
        );
        Some(note(own.place, text))
    });
    let places: Vec<&Place> = snapshot.own_applications().map(|own| own.place).collect();
    let twice = places.chunk_by(|one, other| one == other).filter(|same| same.len() > 1);
    let twice = twice.filter_map(|same| same.first()).map(|place| {
        let text = "there are several Access applications of ours for";
        note(place, format!("{text} {place}: delete all but one at Cloudflare"))
    });
    stays.chain(twice).collect()
}

/// True if a comment of ours claims the rule of the place, or the record without a rule. A record that another instance
/// of our owner may serve counts too: that instance may have made the application.
pub(super) fn is_claimed(place: &Place, snapshot: &Snapshot) -> bool {
    let name = place.hostname().as_str();
    let own = snapshot.own_records_of(name);
    let mut records = snapshot.zone_of(name).map(|zone| zone.records_of(name)).unwrap_or_default().iter();
    own.iter().any(|own| snapshot.claims_path(&own.stamp, place.path()))
        || records.any(|record| snapshot.stamp_of_same_owner(record).is_some())
}
