//! Answers `GET /records`: everything of ours at Cloudflare, in canonical form.
//!
//! A manual change is shown as a difference from the canonical form, so that ExternalDNS plans a correcting update. The
//! change is shown if applying the endpoint again would write something: now, a minute after the record's last change,
//! or in a move after `MOVE_GRACE`. It is also shown if `ACCESS_GUARD` would not publish the endpoint.

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

/// A difference that applying the endpoint again would correct, and that no other property shows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Drift {
    /// The protection of the rule has to be corrected, or `ACCESS_GUARD` would not publish the endpoint.
    Access,
    /// A put of the rule would change which requests the rule answers.
    Order,
    /// A rule of the path is in a tunnel that the record does not point to.
    Tunnel,
    /// The comment names a rule that does not exist, or its mark of an Access application is wrong. Shown as `rule`.
    Comment,
    /// The stamp does not name the namespace that has the hostname, although there is room.
    Namespace,
    /// Cloudflare does not proxy the record.
    Proxied,
}

impl Drift {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Order => "order",
            Self::Tunnel => "tunnel",
            Self::Comment => "rule",
            Self::Namespace => "namespace",
            Self::Proxied => "proxied",
        }
    }
}

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
            if let Some(Holder::Unclear(namespaces)) = &view.unnamed_holder {
                shown.notes.push(notes::without_namespace(record, namespaces));
            }
            let views = view.path_views();
            let of_record = view.drift();
            shown.unprotected += views.iter().filter(|path| path.drift.contains(&Drift::Access)).count();
            shown.endpoints.extend(views.into_iter().map(|of_path| view.endpoint(of_path, &of_record)));
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
/// endpoint with several targets. A record alone and a rule without a path become one endpoint with its target twice:
/// no object asks for that, so ExternalDNS plans an update.
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
    /// The holder of the hostname, if `NAMESPACE_GUARD` is on and the stamp names no namespace.
    unnamed_holder: Option<Holder>,
}

/// The view of one path of a record, or of the record alone.
#[derive(Default)]
struct PathView<'a> {
    path: Option<&'a str>,
    properties: Vec<Property>,
    drift: Vec<Drift>,
}

impl<'a> RecordView<'a> {
    /// # Errors
    /// If the record is not shown. There is a note if the record is ours and has no effect or stays for a foreign rule,
    /// and if another instance with our owner seems to serve it.
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
        // The webhook publishes no name that is no hostname.
        let hostname = Hostname::parse(&record.name).map_err(|_| None)?;
        let is_unnamed = snapshot.operator().namespace_guard && namespace::of_stamp(&stamp).is_none();
        let unnamed_holder = is_unnamed.then(|| namespace::holder(&record.name, snapshot));
        Ok(Self { snapshot, marked_rules, zone, record, stamp, hostname, unnamed_holder })
    }

    fn protection(&self) -> HostProtection<'_> {
        HostProtection::of(&self.hostname, self.snapshot)
    }

    /// One view for each path of ours, and one for a record without rules.
    fn path_views(&self) -> Vec<PathView<'a>> {
        let alone = self.stamp.claims.record_only.then(|| self.view_of_record_alone());
        let own = self.snapshot.own_digests();
        let mut rules = self.snapshot.rules_of(&self.hostname);
        rules.retain(|(tunnel, rule)| own.has(tunnel, rule));
        rules.sort_by(|(_, one), (_, other)| one.path().cmp(&other.path()));
        let by_path = rules.chunk_by(|(_, one), (_, other)| one.path() == other.path());
        let of_paths = by_path.filter_map(|rules| self.view_of_path(rules));
        let mut views: Vec<PathView<'a>> = alone.into_iter().chain(of_paths).collect();
        if views.is_empty() {
            views.push(PathView { drift: vec![Drift::Comment], ..PathView::default() });
        } else if self.comment_needs_correction()
            && let Some(first) = views.first_mut()
        {
            first.drift.push(Drift::Comment);
        }
        views
    }

    fn view_of_record_alone(&self) -> PathView<'a> {
        let access = shown::of_record(self.protection());
        let properties = [Property::new(TUNNEL_SERVICE, RECORD_ONLY)].into_iter().chain(access).collect();
        let is_refused = self.snapshot.operator().access_guard && self.protection().guarding(None).is_err();
        PathView { path: None, properties, drift: is_refused.then_some(Drift::Access).into_iter().collect() }
    }

    /// The drift that every endpoint of the record shows.
    fn drift(&self) -> Vec<Drift> {
        let fits =
            |namespace| self.fits(self.snapshot.existing_claims(&self.hostname, &self.stamp), namespace);
        let lacks_namespace = match &self.unnamed_holder {
            None | Some(Holder::Unclear(_)) => false,
            Some(Holder::Free) => fits(None),
            Some(Holder::Namespace(namespace)) => fits(Some(namespace)),
        };
        let namespace = lacks_namespace.then_some(Drift::Namespace);
        namespace.into_iter().chain((!self.record.proxied).then_some(Drift::Proxied)).collect()
    }

    /// True if the comment names rules that do not exist, or marks an Access application wrongly, and can be corrected.
    fn comment_needs_correction(&self) -> bool {
        let is_protected = self.protection().needs_protection_claim(self.stamp.claims.is_protected);
        let existing = self.snapshot.existing_claims(&self.hostname, &self.stamp);
        let claims = Claims { is_protected, ..existing };
        claims != self.stamp.claims && self.fits(claims, None)
    }

    fn fits(&self, claims: Claims, namespace: Option<&NamespaceCode>) -> bool {
        self.stamp.claiming(claims, namespace).render(self.zone.comment_max_bytes()).is_some()
    }

    /// The view of the rules of one path.
    fn view_of_path(&self, rules: &[(&TunnelId, &'a Rule)]) -> Option<PathView<'a>> {
        let visited = self.record.tunnel();
        let in_visited = rules.iter().find(|(tunnel, _)| Some(*tunnel) == visited.as_ref());
        // During a move, another tunnel has a rule of the path.
        let is_elsewhere = rules.len() > 1 || in_visited.is_none();
        let (tunnel, rule) = in_visited.or_else(|| rules.first())?;
        let marked_rules = self.marked_rules.get(tunnel);
        let moves = marked_rules.is_some_and(|all| all.needs_reordering(&self.hostname, rule.path()));
        let shown = shown::properties_of_rule(rule, self.protection());
        let access = (!shown.is_correct).then_some(Drift::Access);
        let drift = [access, moves.then_some(Drift::Order), is_elsewhere.then_some(Drift::Tunnel)];
        let drift = drift.into_iter().flatten().collect();
        Some(PathView { path: rule.path(), properties: shown.properties, drift })
    }

    fn endpoint(&self, of_path: PathView<'_>, of_record: &[Drift]) -> Endpoint {
        let PathView { path, mut properties, drift } = of_path;
        let drift: Vec<&str> = drift.iter().chain(of_record).map(|drift| drift.text()).collect();
        properties.extend((!drift.is_empty()).then(|| Property::new(DRIFT, drift.join(","))));
        properties.extend(wildcard::property(&self.record.name));
        let mut labels = Labels::default();
        labels.set(OWNER_LABEL, &self.stamp.owner);
        if let Some(resource) = &self.stamp.resource {
            labels.set(RESOURCE_LABEL, resource);
        }
        let name = self.record.name.to_string();
        let target = self.record.content.to_string();
        let set_identifier = path.unwrap_or_default().to_owned();
        let endpoint = canonical::render(name, target, set_identifier, properties, labels);
        Endpoint { record_type: self.record.record_type.to_string(), ..endpoint }
    }
}
