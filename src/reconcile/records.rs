//! Answers `GET /records`: everything of ours at Cloudflare, in canonical form.
//!
//! A manual change is shown as a difference from the canonical form, so that ExternalDNS plans a correcting update. The
//! change is shown if applying the endpoint again would write something now or within a minute, or if `ACCESS_GUARD`
//! would not publish the endpoint.

use std::collections::BTreeMap;

use crate::ingress::{Document, MarkedRules, Rule};
use crate::model::endpoint::{Endpoint, Labels, Property};
use crate::model::text::rule_at;
use crate::model::{Hostname, Record, TunnelId, Zone};
use crate::reconcile::Note;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::refused_visitors;
use crate::reconcile::access::shown;
use crate::reconcile::access::unneeded;
use crate::reconcile::canonical::{self, OWNER_LABEL, RECORD_ONLY, RESOURCE_LABEL};
use crate::reconcile::namespace::{self, Holder};
use crate::reconcile::property_name::{DRIFT, TUNNEL_SERVICE};
use crate::reconcile::reason::MIGRATE_OR_TAKE_OVER;
use crate::reconcile::reason::SHARED_OWNER;
use crate::reconcile::snapshot::{Snapshot, ZoneSnapshot};
use crate::reconcile::stamp::{Claims, NamespaceCode, Stamp};
use crate::reconcile::wildcard;

// A drift is a difference that applying the endpoint again would correct, and that no other property shows.

/// The comment names a rule that does not exist, or its mark of an Access application is wrong.
const RULE_DRIFT: &str = "rule";

/// The protection of the rule has to be corrected, or `ACCESS_GUARD` would not publish the endpoint.
pub(super) const ACCESS_DRIFT: &str = "access";

/// The stamp does not name the namespace that has the hostname, although there is room.
const NAMESPACE_DRIFT: &str = "namespace";

/// A put of the rule would change which requests the rule answers.
const ORDER_DRIFT: &str = "order";

/// A rule of the path is in a tunnel that the record does not point to.
const TUNNEL_DRIFT: &str = "tunnel";

/// Cloudflare does not proxy the record.
const PROXIED_DRIFT: &str = "proxied";

const GLOBAL_ACCESS: &str = "the tunnel's own originRequest requires Access, but cloudflared checks Access only for rules \
     that require it: set webhook-access-required, webhook-access-team-name and webhook-access-aud-tag on each object";

const GLOBAL_BASTION: &str = "the tunnel's own originRequest has bastionMode: every rule with an address connects \
     its visitors to any address that they name: remove bastionMode, or set ORIGIN_BASTION_MODE=false for our rules";

const UNDATED: &str = "Cloudflare's answers have no Date header, so MOVE_GRACE counts as over and unneeded Access \
     applications stay: let the proxy pass Date";

/// The answer, and notes for the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnEndpoints {
    /// Sorted by name, type and set identifier.
    pub endpoints: Vec<Endpoint>,
    /// Notes, such as on records that another instance seems to serve, and on zones that no visitor reaches.
    pub notes: Vec<Note>,
    /// The number of endpoints whose protection has to be corrected.
    pub unprotected: usize,
    /// The number of our Access applications that no rule and no comment of ours needs.
    pub unneeded_applications: usize,
}

/// All our endpoints in `snapshot`, with notes.
pub fn records(snapshot: &Snapshot) -> OwnEndpoints {
    let marked_rules = snapshot.marked_rules();
    let mut shown = OwnEndpoints::default();
    for zone in &snapshot.zones {
        let records = zone.records().iter().filter(|record| !record.comment.is_empty());
        for record in records.filter(|record| snapshot.operator().filter.matches(&record.name)) {
            let view = match RecordView::of(record, zone, &marked_rules, snapshot) {
                Ok(view) => view,
                Err(note) => {
                    shown.notes.extend(note);
                    continue;
                }
            };
            let mut views = view.path_views();
            match view.lacks_namespace() {
                Ok(false) => {}
                Ok(true) => views.iter_mut().for_each(|of_path| of_path.drift.push(NAMESPACE_DRIFT)),
                Err(namespaces) => shown.notes.push(without_namespace(record, &namespaces)),
            }
            shown.unprotected += views.iter().filter(|of_path| of_path.drift.contains(&ACCESS_DRIFT)).count();
            shown.endpoints.extend(views.into_iter().map(|of_path| view.endpoint(of_path)));
        }
    }
    let unneeded = unneeded::unneeded(snapshot);
    shown.unneeded_applications = unneeded.len();
    shown.notes.extend(unneeded::notes(&unneeded, snapshot));
    shown.notes.extend(refused_visitors::notes(snapshot));
    let is_undated = snapshot.date_unix_seconds.is_none();
    shown.notes.extend(is_undated.then(|| Note::about("api.cloudflare.com", UNDATED.to_owned())));
    shown.notes.extend(idle_zones(snapshot));
    shown.notes.extend(surprising_tunnels(snapshot));
    shown.notes.extend(unreachable_rules(snapshot, &marked_rules));
    OwnEndpoints { endpoints: merged(shown.endpoints), ..shown }
}

/// Sorts the endpoints and joins those of one name, type and set identifier. Several records made by hand become one
/// endpoint with several targets. A record alone and a rule that our stamp claims become one endpoint too: ExternalDNS
/// then plans an update.
fn merged(mut endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    endpoints.sort_unstable_by(|a, b| (key(a), &a.targets).cmp(&(key(b), &b.targets)));
    endpoints.dedup_by(|later, first| {
        let is_same = key(later) == key(first);
        if is_same {
            first.targets.append(&mut later.targets);
        }
        is_same
    });
    endpoints
}

fn key(endpoint: &Endpoint) -> (&str, &str, &str) {
    (&endpoint.dns_name, &endpoint.record_type, &endpoint.set_identifier)
}

/// A note on a record of ours that is kept for a foreign rule alone.
fn serves_only(record: &Record, rule: &Rule) -> Note {
    let rule = rule.described();
    let text = format!(
        "the record's comment names no object and no rule of ours, and the record stays, because visitors reach the \
         foreign rule for {rule} by it"
    );
    Note::about(&record.name, text)
}

/// A note on a record of ours in a zone that does not answer for the name. The record has no effect, and stays.
fn outside_its_zone(record: &Record, zone: &ZoneSnapshot) -> Note {
    let zone = &zone.zone.name;
    let text = format!(
        "the webhook ignores the record in zone {zone}, because another zone answers for this name: delete the record in {zone}"
    );
    Note::about(&record.name, text)
}

/// A note on a hostname whose namespace is unknown to the namespace guard.
fn without_namespace(record: &Record, namespaces: &[String]) -> Note {
    let of: String = namespaces.iter().map(|one| format!("{one}: ns={}, ", NamespaceCode::of(one))).collect();
    let text = format!(
        "neither the record's comment nor the rules' services name one namespace, so NAMESPACE_GUARD refuses every change: \
         write ns=<code> into the record's comment at Cloudflare ({of}or the ns= that a refusal names)"
    );
    Note::about(&record.name, text)
}

fn other_instance(record: &Record, snapshot: &Snapshot) -> Option<Note> {
    let (stamp, tunnel) = snapshot.stamp_of_same_owner(record)?;
    Some(Note {
        hostname: record.name.clone(),
        resource: stamp.resource,
        text: format!(
            "the record's comment has the webhook's OWNER_ID {:?}, but the record points to {tunnel}, a tunnel that is not \
             configured here, so the webhook ignores the record: {SHARED_OWNER}",
            snapshot.operator().owner
        ),
    })
}

/// Notes on zones whose published hostnames no visitor reaches. A zone gets no note if another zone is used for its
/// name, because nothing is published in it.
fn idle_zones(snapshot: &Snapshot) -> impl Iterator<Item = Note> {
    let used = snapshot.zones.iter().filter(|zone| snapshot.is_zone_of(zone, &zone.zone.name));
    used.map(|zone| &zone.zone).filter_map(|zone| {
        let state = inactive_state(zone)?;
        let text = format!(
            "the zone is {state}: the webhook publishes hostnames in it, but no visitor reaches them until the zone is active"
        );
        Some(Note::about(&zone.name, text))
    })
}

/// The state of a zone whose published hostnames no visitor reaches; `None` if the zone is active.
pub fn inactive_state(zone: &Zone) -> Option<&str> {
    let state = if zone.paused { "paused" } else { &*zone.status };
    (zone.paused || !zone.is_active()).then_some(state)
}

/// Notes on our rules that receive no request, because a rule in front matches all of them, unless the next request moves
/// the rule to the front.
fn unreachable_rules<'s>(
    snapshot: &'s Snapshot,
    marked_rules: &'s BTreeMap<&'s TunnelId, MarkedRules<'s>>,
) -> impl Iterator<Item = Note> + 's {
    snapshot.own_rules().filter_map(|(tunnel, rule)| {
        let hostname = Hostname::parse(rule.folded_hostname()).ok()?;
        let marked_rules = marked_rules.get(tunnel)?;
        let front = marked_rules.hidden_by(&hostname, rule.path())?;
        if marked_rules.needs_reordering(&hostname, rule.path()) {
            return None;
        }
        let (hidden, front) = (rule_at(rule.path().unwrap_or_default()), front.described());
        let text = format!(
            "no request reaches the {hidden}: the rule for {front}, which precedes it, takes all its requests: narrow that rule by a path, or delete this one"
        );
        Some(Note::about(rule.folded_hostname(), text))
    })
}

fn surprising_tunnels(snapshot: &Snapshot) -> impl Iterator<Item = Note> {
    snapshot.tunnels.iter().flat_map(|(id, tunnel)| {
        let note = |text: String| Note::about(&id.hostname(), text);
        let local = (!tunnel.writable).then(|| {
            format!("a file beside its cloudflared configures the tunnel, so the webhook does not write to it: {MIGRATE_OR_TAKE_OVER}")
        });
        unusual_settings(&tunnel.document).map(str::to_owned).chain(local).map(note)
    })
}

/// Settings of a whole tunnel that cloudflared does not treat as an operator may expect.
pub fn unusual_settings(document: &Document) -> impl Iterator<Item = &'static str> {
    let texts = [(document.asks_for_access(), GLOBAL_ACCESS), (document.is_bastion(), GLOBAL_BASTION)];
    texts.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text)
}

/// A record of ours that ExternalDNS is shown.
struct RecordView<'a> {
    snapshot: &'a Snapshot,
    marked_rules: &'a BTreeMap<&'a TunnelId, MarkedRules<'a>>,
    zone: &'a ZoneSnapshot,
    record: &'a Record,
    stamp: Stamp,
    hostname: Hostname,
}

/// The view of one path of a record, or of the record alone.
#[derive(Default)]
struct PathView<'a> {
    path: Option<&'a str>,
    properties: Vec<Property>,
    drift: Vec<&'static str>,
}

impl<'a> RecordView<'a> {
    /// # Errors
    /// The note on a record that is not shown, if it needs one.
    fn of(
        record: &'a Record,
        zone: &'a ZoneSnapshot,
        marked_rules: &'a BTreeMap<&'a TunnelId, MarkedRules<'a>>,
        snapshot: &'a Snapshot,
    ) -> Result<Self, Option<Note>> {
        let stamp = snapshot.own_stamp(record).ok_or_else(|| other_instance(record, snapshot))?;
        if !snapshot.is_zone_of(zone, &record.name) {
            return Err(Some(outside_its_zone(record, zone)));
        }
        if let Some(rule) = snapshot.served_by_released(record, &stamp) {
            return Err(Some(serves_only(record, rule)));
        }
        // The webhook publishes no other names.
        let hostname = Hostname::parse(&record.name).map_err(|_| None)?;
        Ok(Self { snapshot, marked_rules, zone, record, stamp, hostname })
    }

    fn protection(&self) -> HostProtection<'_> {
        HostProtection::of(&self.hostname, self.snapshot)
    }

    /// One view for each path of ours, and one for a record without rules.
    fn path_views(&self) -> Vec<PathView<'a>> {
        let mut views = Vec::new();
        if self.stamp.claims.record_only {
            let access = shown::of_record(self.protection());
            let properties = [Property::new(TUNNEL_SERVICE, RECORD_ONLY)].into_iter().chain(access).collect();
            let is_refused =
                self.snapshot.operator().access_guard && self.protection().guarding(None).is_err();
            let drift = is_refused.then_some(ACCESS_DRIFT).into_iter().collect();
            views.push(PathView { path: None, properties, drift });
        }
        let mut rules = self.snapshot.own_rules_of(&self.hostname);
        rules.sort_by(|(_, one), (_, other)| one.path().cmp(&other.path()));
        let by_path = rules.chunk_by(|(_, one), (_, other)| one.path() == other.path());
        views.extend(by_path.map(|rules| self.view_of_path(rules)));
        if views.is_empty() {
            views.push(PathView { drift: vec![RULE_DRIFT], ..PathView::default() });
        } else if self.is_incorrect()
            && let Some(first) = views.first_mut()
        {
            first.drift.push(RULE_DRIFT);
        }
        views
    }

    /// True if the namespace guard is on, and the stamp has room for the hostname's namespace but does not name it.
    ///
    /// # Errors
    /// The namespaces of [`Holder::Unclear`].
    fn lacks_namespace(&self) -> Result<bool, Vec<String>> {
        let Self { stamp, snapshot, record, .. } = self;
        if !snapshot.operator().namespace_guard || namespace::of_stamp(stamp).is_some() {
            return Ok(false);
        }
        let holder = namespace::holder(&record.name, snapshot);
        if let Holder::Unclear(namespaces) = holder {
            return Err(namespaces);
        }
        let existing = self.snapshot.existing_claims(&self.hostname, stamp);
        Ok(self.fits(existing, holder.namespace().as_ref()))
    }

    /// True if the comment names rules that do not exist, or marks an Access application wrongly, and can be corrected.
    fn is_incorrect(&self) -> bool {
        let is_protected = self.protection().needs_mark(self.stamp.claims.is_protected);
        let existing = self.snapshot.existing_claims(&self.hostname, &self.stamp);
        let claims = Claims { is_protected, ..existing };
        claims != self.stamp.claims && self.fits(claims, None)
    }

    fn fits(&self, claims: Claims, namespace: Option<&NamespaceCode>) -> bool {
        self.stamp.claiming(claims, namespace).render(self.zone.comment_max_bytes()).is_some()
    }

    /// The view of the rules of one path.
    fn view_of_path(&self, rules: &[(&TunnelId, &'a Rule)]) -> PathView<'a> {
        let visited = self.record.tunnel();
        let is_visited = |(tunnel, _): &&(&TunnelId, &Rule)| Some(*tunnel) == visited.as_ref();
        let mut view = PathView::default();
        if let Some((tunnel, rule)) = rules.iter().find(is_visited).or_else(|| rules.first()) {
            let marked_rules = self.marked_rules.get(tunnel);
            let moves = marked_rules.is_some_and(|all| all.needs_reordering(&self.hostname, rule.path()));
            let shown = shown::properties_of_rule(rule, self.protection());
            (view.path, view.properties) = (rule.path(), shown.properties);
            view.drift.extend((!shown.is_correct).then_some(ACCESS_DRIFT));
            view.drift.extend(moves.then_some(ORDER_DRIFT));
        }
        // During a move, another tunnel has a rule of the path.
        if rules.len() > 1 || !rules.iter().any(|rule| is_visited(&rule)) {
            view.drift.push(TUNNEL_DRIFT);
        }
        view
    }

    fn endpoint(&self, PathView { path, mut properties, mut drift }: PathView<'_>) -> Endpoint {
        drift.extend((!self.record.proxied).then_some(PROXIED_DRIFT));
        properties.extend((!drift.is_empty()).then(|| Property::new(DRIFT, drift.join(","))));
        properties.extend(wildcard::property(&self.record.name));
        let mut labels = Labels::default();
        labels.set(OWNER_LABEL, &self.stamp.owner);
        if let Some(resource) = &self.stamp.resource {
            labels.set(RESOURCE_LABEL, resource);
        }
        let (name, target) = (self.record.name.to_string(), self.record.content.to_string());
        let set_identifier = path.unwrap_or_default().to_owned();
        let endpoint = canonical::render(name, target, set_identifier, properties, labels);
        Endpoint { record_type: self.record.record_type.to_string(), ..endpoint }
    }
}
