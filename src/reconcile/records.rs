//! Answers `GET /records`: everything of ours at Cloudflare, in canonical form.
//!
//! A manual change is shown as a difference from the canonical form, so that ExternalDNS plans a correcting update. The
//! change is shown if applying the endpoint again would write something now or within a minute, or if `ACCESS_GUARD`
//! would not publish the endpoint.

pub mod notes;

use std::collections::BTreeMap;

use crate::ingress::{MarkedRules, Rule};
use crate::model::endpoint::{Endpoint, Labels, Property};
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::Note;
use crate::reconcile::access::host_protection::HostProtection;
use crate::reconcile::access::refused_visitors;
use crate::reconcile::access::shown;
use crate::reconcile::access::unneeded;
use crate::reconcile::canonical::{self, OWNER_LABEL, RECORD_ONLY, RESOURCE_LABEL};
use crate::reconcile::namespace::{self, Holder};
use crate::reconcile::property_name::{DRIFT, TUNNEL_SERVICE};
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
                Err(namespaces) => shown.notes.push(notes::without_namespace(record, &namespaces)),
            }
            shown.unprotected += views.iter().filter(|of_path| of_path.drift.contains(&ACCESS_DRIFT)).count();
            shown.endpoints.extend(views.into_iter().map(|of_path| view.endpoint(of_path)));
        }
    }
    let unneeded = unneeded::unneeded(snapshot);
    shown.unneeded_applications = unneeded.len();
    shown.notes.extend(unneeded::notes(&unneeded, snapshot));
    shown.notes.extend(refused_visitors::notes(snapshot));
    shown.notes.extend(notes::of_snapshot(snapshot, &marked_rules));
    OwnEndpoints { endpoints: merged(shown.endpoints), ..shown }
}

/// Sorts the endpoints and joins those of one name, type and set identifier. Several records made by hand become one
/// endpoint with several targets. A record alone and a rule without a path become one endpoint with its target twice: no
/// object asks for that, so ExternalDNS plans an update.
fn merged(mut endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    endpoints.sort_unstable_by(|a, b| {
        (key(a), &a.targets, &a.provider_specific).cmp(&(key(b), &b.targets, &b.provider_specific))
    });
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
        let stamp = snapshot.own_stamp(record).ok_or_else(|| notes::other_instance(record, snapshot))?;
        if !snapshot.is_zone_of(zone, &record.name) {
            return Err(Some(notes::outside_its_zone(record, zone)));
        }
        if let Some(rule) = snapshot.served_by_released(record, &stamp) {
            return Err(Some(notes::serves_only(record, rule)));
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
        } else if self.comment_needs_correction()
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
    fn comment_needs_correction(&self) -> bool {
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
