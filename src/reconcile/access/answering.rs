//! Finds the rules and records that answer a place's visitors. An application with such visitors is not deleted.

use crate::ingress::{PathPattern, Rule, WantedRule};
use crate::model::access::Application;
use crate::model::hostname::is_below;
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::Note;
use crate::reconcile::access::host_protection::{self, HostProtection};
use crate::reconcile::access::place::Place;
use crate::reconcile::access::relying::{Wishes, relying};
use crate::reconcile::access::wish::AccessWish;
use crate::reconcile::adopt::Adopt;
use crate::reconcile::canonical::Publication;
use crate::reconcile::snapshot::{Snapshot, TunnelSnapshot};

/// The minimum age, in seconds, at which an application without a rule is deleted: the next request may write the rule.
const AGE_MIN: i64 = 600;

/// An application of ours whose token no rule of ours requires, and whose place no comment of ours claims.
#[derive(Clone, Debug)]
pub struct Unneeded<'s> {
    pub place: &'s Place,
    pub application: &'s Application,
    /// Another application of ours protects the place too, and each rule there accepts that application's token.
    pub is_replaced: bool,
    /// The rule, record, destination or zone that visitors would reach without a login if the application were deleted.
    answering: Option<String>,
}

/// Our unneeded applications, except those younger than `AGE_MIN` that no other application of ours replaces.
pub fn unneeded<'s>(snapshot: &'s Snapshot) -> Vec<Unneeded<'s>> {
    let is_young = |application: &Application| {
        let age = application.created_unix_seconds.zip(snapshot.date_unix_seconds);
        age.is_some_and(|(created, now)| now - i64::from(created) < AGE_MIN)
    };
    let protections = snapshot.protections();
    let unneeded = protections.ours().filter_map(|(place, application)| {
        if protections.is_asked_for(application) || is_claimed(place, snapshot) {
            return None;
        }
        let is_replaced = is_replaced(place, application, snapshot);
        if is_young(application) && !is_replaced {
            return None;
        }
        // The name of the application may have been changed by hand.
        Hostname::parse(place.hostname()).ok()?;
        let answering = relying(application, &Wishes::default(), snapshot);
        Some(Unneeded { place, application, is_replaced, answering })
    });
    unneeded.collect()
}

/// The unneeded applications whose deletion opens no place, whose age is known, and whose names were all read.
pub fn removable<'s>(snapshot: &'s Snapshot) -> Vec<Unneeded<'s>> {
    let mut left = unneeded(snapshot);
    left.retain(|Unneeded { place, application, is_replaced: _, answering }| {
        let is_dated = application.created_unix_seconds.and(snapshot.date_unix_seconds).is_some();
        answering.is_none() && is_dated && is_in_sight(place, snapshot)
    });
    left
}

/// True if every rule that serves visitors of the place accepts the token of our next application over these visitors.
/// False if no rule serves the place.
fn is_replaced(place: &Place, application: &Application, snapshot: &Snapshot) -> bool {
    let path = place.path();
    let mut replaced = names_under(place, snapshot).into_iter().flat_map(|name| {
        let tunnels = snapshot.answering(name).iter().filter_map(|record| tunnel_of(record, snapshot));
        let rules = tunnels.flat_map(|(_, tunnel)| rules_taking(name, path.as_deref(), tunnel, &|_| true));
        let wants_another = |rule: &Rule| {
            let Ok(hostname) = Hostname::parse(name) else { return false };
            let over = HostProtection::of(&hostname, snapshot).over(rule.path().or(path.as_deref()));
            let next = over.into_iter().find(|one| one.id != application.id);
            next.zip(rule.access_check()).is_some_and(|(next, access)| host_protection::accepts(access, next))
        };
        rules.filter(|rule| is_served(rule)).map(wants_another).collect::<Vec<_>>()
    });
    replaced.next().is_some_and(|first| first && replaced.all(|one| one))
}

/// True if every name of the place is in a zone that was read, and within the filter.
fn is_in_sight(place: &Place, snapshot: &Snapshot) -> bool {
    let (name, filter) = (place.hostname(), &snapshot.operator().filter);
    let is_whole = match name.strip_prefix("*.") {
        Some(domain) => filter.matches_all_below(domain) && !snapshot.has_zone_elsewhere_below(domain),
        None => filter.matches(name),
    };
    is_whole && snapshot.zone_of(name).is_some()
}

/// Notes on unneeded applications of ours that are not deleted, and on several applications of ours for one place.
pub(in crate::reconcile) fn notes(unneeded: &[Unneeded<'_>], snapshot: &Snapshot) -> Vec<Note> {
    let note = |place: &Place, text| Note::about(place.hostname(), text);
    let stays = unneeded.iter().filter_map(|Unneeded { place, application, is_replaced: _, answering }| {
        let text = format!(
            "the Access application {:?} stays, because visitors might reach {:?} without a login once it is deleted: if \
             that is wanted, delete it at Cloudflare",
            application.name,
            answering.as_deref()?
        );
        Some(note(place, text))
    });
    let places: Vec<&Place> = snapshot.protections().ours().map(|(place, _)| place).collect();
    let twice = places.chunk_by(|one, other| one == other).filter(|same| same.len() > 1);
    let twice = twice.flatten().map(|place| {
        let text = "there are several Access applications of ours for";
        note(place, format!("{text} {place}: delete all but one at Cloudflare"))
    });
    stays.chain(twice).collect()
}

/// True if a comment of ours claims the rule of the place, or the record without a rule.
fn is_claimed(place: &Place, snapshot: &Snapshot) -> bool {
    let path = place.path();
    let own = snapshot.own_records_of(place.hostname());
    own.iter().any(|own| snapshot.claims_path(&own.stamp, path.as_deref()))
}

/// The hostname of the place. For a wildcard, also the names of records and rules that the wildcard covers.
pub(super) fn names_under<'s>(place: &'s Place, snapshot: &'s Snapshot) -> Vec<&'s str> {
    let mut names = vec![place.hostname()];
    if place.hostname().starts_with('*') {
        let domain = place.hostname().split_once('.').map_or("", |(_, domain)| domain);
        let records = snapshot.zones.iter().flat_map(|zone| zone.records_within(domain));
        let records = records.map(|record| &*record.name);
        let documents = snapshot.tunnels.values().map(|tunnel| &tunnel.document);
        let rules = documents.flat_map(|document| document.rules()).map(Rule::folded_hostname);
        names.extend(records.chain(rules).filter(|name| place.is_over(name)));
        names.sort_unstable();
        names.dedup();
    }
    names
}

/// The first rule that `answers` visitors of `place` at `name`, in the tunnels to which `records` point. The search in
/// a tunnel ends at a `last` rule that takes all these visitors. A record to no read tunnel is an answer too.
pub(super) fn first_answer<'s>(
    place: &Place,
    name: &str,
    records: impl Iterator<Item = &'s Record>,
    snapshot: &Snapshot,
    last: &dyn Fn(&Rule) -> bool,
    answers: &dyn Fn(&TunnelId, &Rule) -> bool,
) -> Option<String> {
    records.filter(|record| record.proxied).find_map(|record| match tunnel_of(record, snapshot) {
        None => Some(record_text(record)),
        Some((id, tunnel)) => {
            let mut taking = rules_taking(name, place.path().as_deref(), tunnel, last).into_iter();
            let rule = taking.find(|rule| answers(id, rule))?;
            Some(format!("{}{}", rule.hostname(), rule.path().unwrap_or_default()))
        }
    })
}

fn tunnel_of<'s>(record: &Record, snapshot: &'s Snapshot) -> Option<(&'s TunnelId, &'s TunnelSnapshot)> {
    snapshot.tunnels.get_key_value(&TunnelId::from_hostname(&record.content)?)
}

/// The rules that may answer visitors of a path at a name, up to the first `last` rule that takes all these visitors.
fn rules_taking<'s>(
    name: &str,
    path: Option<&str>,
    tunnel: &'s TunnelSnapshot,
    last: &dyn Fn(&Rule) -> bool,
) -> Vec<&'s Rule> {
    let rules = tunnel.near(name).map(|(_, rule)| rule);
    let mut taking: Vec<&Rule> = rules.filter(|rule| rule.may_match(name, path)).collect();
    if let Some(last) = taking.iter().position(|rule| rule.matches_all(name, path) && last(rule)) {
        taking.truncate(last + 1);
    }
    taking
}

impl HostProtection<'_> {
    /// The name and path of an open rule in `tunnel` that visitors would reach if the record pointed there for
    /// `published`. A visitor counts only if the Access check of a rule is the visitor's only login now.
    pub(in crate::reconcile) fn opened_by(
        self,
        tunnel: &TunnelId,
        published: &[&Publication],
    ) -> Option<String> {
        let Self { hostname, snapshot } = self;
        let led_to = snapshot.led_to(hostname.as_str()).filter(|led_to| led_to != tunnel)?;
        let (from, to) = (snapshot.tunnels.get(&led_to)?, snapshot.tunnels.get(tunnel)?);
        names_led_with(hostname, snapshot, [from, to]).into_iter().find_map(|name| {
            let name = Hostname::parse(name).ok()?;
            let protection = HostProtection::of(&name, snapshot);
            let mut open = rules_taking(name.as_str(), None, to, &|_| true).into_iter();
            let rule = open.find(|rule| {
                let closed = rules_taking(name.as_str(), rule.path(), from, &|_| true).into_iter();
                let mut closed =
                    closed.filter(|one| one.requires_access() && protection.over(one.path()).is_empty());
                let mut opens =
                    || closed.any(|one| !published.iter().any(|ours| is_answered_by(ours, rule, one)));
                is_open(rule) && opens()
            })?;
            Some(format!("{}{}", name.as_str(), rule.path().unwrap_or_default()))
        })
    }
}

/// True if the publication's rule takes the common requests of `open` and `closed`, and precedes `open` or is to open.
fn is_answered_by(
    Publication { hostname, rule, access_wish, .. }: &Publication,
    open: &Rule,
    closed: &Rule,
) -> bool {
    let path = rule.as_ref().and_then(WantedRule::path_text);
    // A rule for more names comes later, and so does a rule of the same hostname for more paths.
    let comes_first = match open.has_hostname(hostname) {
        true => PathPattern::matches_all_of(open.path(), path),
        false => open.may_match(hostname.as_str(), path),
    };
    let takes_all = [open, closed].iter().any(|rule| PathPattern::matches_all_of(path, rule.path()));
    takes_all && (*access_wish == AccessWish::Open || rule.is_some() && comes_first)
}

/// The hostname. For a wildcard, also the names of rules below it that the wildcard's record answers.
fn names_led_with<'s>(
    hostname: &'s Hostname,
    snapshot: &'s Snapshot,
    tunnels: [&'s TunnelSnapshot; 2],
) -> Vec<&'s str> {
    let mut names = vec![hostname.as_str()];
    if let Some(domain) = hostname.as_str().strip_prefix("*.") {
        let record = |name: &str| snapshot.answering(name).first().map(|record| &record.id);
        let rules = tunnels.into_iter().flat_map(|tunnel| tunnel.document.rules());
        let below = rules.map(Rule::folded_hostname).filter(|name| is_below(name, domain));
        names.extend(below.filter(|name| record(name) == record(hostname.as_str())));
    }
    names
}

/// True if the hostname has no address record, or if `ADOPT` is set. The caller has excluded records of ours.
pub(in crate::reconcile) fn may_be_taken(name: &str, snapshot: &Snapshot) -> bool {
    let has_record =
        || snapshot.zone_of(name).is_some_and(|zone| zone.records_of(name).iter().any(Record::is_address));
    snapshot.operator().adopt != Adopt::default() || !has_record()
}

/// True if the rule serves visitors without a login.
fn is_open(rule: &Rule) -> bool {
    is_served(rule) && !rule.requires_access()
}

pub(super) fn is_served(rule: &Rule) -> bool {
    !rule.service().starts_with("http_status:")
}

pub(super) fn record_text(record: &Record) -> String {
    format!("{} {} {}", record.name, record.record_type, record.content)
}
