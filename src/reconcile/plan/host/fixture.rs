//! Small worlds for the tests in this folder: one hostname, two tunnels.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::course::Order;
use super::decision::{Decision, decide};
use super::standing::Standing;
use super::{Desired, Obstacles, Situation, valid_ones};
use crate::ingress::{Document, Owned};
use crate::model::endpoint::{Changes, Endpoint, Labels, Property};
use crate::model::{AccountId, Hostname, Record, RecordId, TunnelId, Zone, ZoneId, ZonePlan};
use crate::reconcile::adopt::Adopt;
use crate::reconcile::canonical::{RESOURCE_LABEL, TUNNEL, TUNNEL_PATH, TUNNEL_SERVICE};
use crate::reconcile::plan::request::{HostRequest, Requests};
use crate::reconcile::plan::{Earlier, Reason, Refusal};
use crate::reconcile::snapshot::{Snapshot, TunnelSnapshot, ZoneSnapshot};
use crate::reconcile::stamp::{Claims, Digest, Stamp};
use crate::reconcile::{ConfiguredTunnel, Policy, Settings};

pub(super) const NAME: &str = "app.example.com";
pub(super) const HOME: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";
pub(super) const OFFICE: &str = "00000000-a4ef-4643-bbbc-4a0ed4fc8415";
/// What our rules lead to.
pub(super) const SERVICE: &str = "http://web:80";

/// The hostname before anything is written, and what is asked for it.
pub(super) struct Fixture {
    pub(super) settings: Settings,
    pub(super) earlier: Earlier,
    pub(super) obstacles: Obstacles,
    snapshot: Snapshot,
    rules: BTreeMap<TunnelId, Vec<String>>,
    changes: Changes,
    request: HostRequest,
    owned: BTreeMap<&'static TunnelId, Owned<'static>>,
}

pub(super) fn tunnel(id: &str) -> TunnelId {
    TunnelId::parse(id).expect("a well-formed id")
}

pub(super) fn digest(id: &str, path: &str) -> Digest {
    Digest::of(&tunnel(id), Some(path).filter(|path| !path.is_empty()))
}

/// The claims of these rules; without any, of the record alone.
pub(super) fn claims(rules: &[(&str, &str)]) -> Claims {
    Claims { record_only: rules.is_empty(), rules: rules.iter().map(|(id, path)| digest(id, path)).collect() }
}

/// The set identifier and the label of each refusal.
pub(super) fn told(refusals: &[Refusal]) -> Vec<(Option<&str>, &'static str)> {
    refusals.iter().map(|refusal| (refusal.set_identifier.as_deref(), refusal.reason.label())).collect()
}

impl Fixture {
    /// Nothing stands, and nothing is asked for.
    pub(super) fn new() -> Self {
        let configured =
            |id: &str, name: &str| ConfiguredTunnel { id: tunnel(id), name: name.into(), is_local: false };
        let zone = Zone {
            id: ZoneId::new("example.com"),
            name: "example.com".into(),
            account: AccountId::new("a1"),
            plan: ZonePlan::Free,
            status: "active".into(),
            paused: false,
        };
        let snapshot = Snapshot { zones: vec![ZoneSnapshot::new(zone, Vec::new())], ..Snapshot::default() };
        let settings = Settings::new(
            Policy::new("default"),
            configured(HOME, "home"),
            vec![configured(OFFICE, "office")],
        );
        let fixture = Self {
            settings,
            earlier: Earlier::default(),
            obstacles: Obstacles::new(),
            snapshot,
            rules: BTreeMap::new(),
            changes: Changes::default(),
            request: HostRequest::default(),
            owned: BTreeMap::new(),
        };
        fixture.with_rules(HOME, []).with_rules(OFFICE, [])
    }

    /// The comment of our record with these rules.
    pub(super) fn comment(&self, rules: &[(&str, &str)]) -> String {
        let mut stamp = Stamp::new(&self.settings.policy.owner);
        stamp.claims = claims(rules);
        stamp.render(100).expect("it has room")
    }

    /// With our record, which leads to the first of these tunnels, and with our rules for these paths.
    pub(super) fn published(self, rules: &[(&str, &str)]) -> Self {
        let (led_to, _) = rules.first().copied().unwrap_or((HOME, ""));
        let comment = self.comment(rules);
        let with_record = self.record(NAME, "CNAME", &tunnel(led_to).hostname(), &comment);
        rules.iter().fold(with_record, |fixture, (id, path)| fixture.rule(id, path, SERVICE))
    }

    /// With one more record. Its id is its place.
    pub(super) fn record(mut self, name: &str, kind: &str, content: &str, comment: &str) -> Self {
        let zone = self.snapshot.zones.pop().expect("there is one");
        let mut records = zone.records().to_vec();
        records.push(Record {
            id: RecordId::new(format!("r{}", records.len())),
            name: name.into(),
            kind: kind.into(),
            content: content.into(),
            proxied: kind != "TXT",
            ttl: 1,
            comment: comment.into(),
            read_only: false,
            created_unix_seconds: None,
            modified_unix_seconds: None,
        });
        self.snapshot.zones.push(ZoneSnapshot::new(zone.zone, records));
        self
    }

    /// With one more rule of the hostname; the path "" is none.
    pub(super) fn rule(self, id: &str, path: &str, service: &str) -> Self {
        let path = if path.is_empty() { String::new() } else { format!(r#""path":"{path}","#) };
        self.with_rules(id, [format!(r#"{{"hostname":"{NAME}",{path}"service":"{service}"}}"#)])
    }

    fn with_rules(mut self, id: &str, more: impl IntoIterator<Item = String>) -> Self {
        let rules = self.rules.entry(tunnel(id)).or_default();
        rules.extend(more);
        let catch_all = r#"{"service":"http_status:404"}"#;
        let list: Vec<&str> = rules.iter().map(String::as_str).chain([catch_all]).collect();
        let config = format!(r#"{{"ingress":[{}]}}"#, list.join(","));
        let config = RawValue::from_string(config).expect("it is JSON");
        let document = Document::parse(Some(&config)).expect("it is a document");
        self.snapshot.tunnels.insert(tunnel(id), TunnelSnapshot::new(document, true, 1));
        self
    }

    /// With a zone of the hostname's own, which is not served.
    pub(super) fn in_zone_elsewhere(mut self) -> Self {
        self.snapshot.zones_elsewhere = vec![NAME.into()];
        self
    }

    /// The zone is on a paid plan.
    pub(super) fn paid(mut self) -> Self {
        self.snapshot.zones.iter_mut().for_each(|zone| zone.zone.plan = ZonePlan::Paid);
        self
    }

    /// The tunnel is brought by a file beside its cloudflared.
    pub(super) fn local(mut self, id: &str) -> Self {
        self.snapshot.tunnels.get_mut(&tunnel(id)).expect("it is there").writable = false;
        self
    }

    /// The tunnel was deleted at Cloudflare.
    pub(super) fn deleted(mut self, id: &str) -> Self {
        self.snapshot.tunnels.remove(&tunnel(id));
        self
    }

    /// `ingress/shop/web` asks for a rule in the tunnel, or for the record alone with the service `none`.
    pub(super) fn asks(self, id: &str, path: &str, service: &str) -> Self {
        self.asks_for("ingress/shop/web", id, path, service)
    }

    pub(super) fn asks_for(mut self, resource: &str, id: &str, path: &str, service: &str) -> Self {
        let properties = [(TUNNEL, id), (TUNNEL_PATH, path), (TUNNEL_SERVICE, service)].into_iter();
        let said = properties.filter(|(_, value)| !value.is_empty());
        self.changes.create.push(Endpoint {
            dns_name: NAME.to_owned(),
            record_type: "A".to_owned(),
            targets: vec!["192.0.2.1".to_owned()],
            labels: Labels::from_iter([(RESOURCE_LABEL, resource)]),
            provider_specific: said.map(|(name, value)| Property::new(name, value)).collect(),
            ..Endpoint::default()
        });
        self.read()
    }

    pub(super) fn withdraws(mut self, set_identifier: &str) -> Self {
        self.changes.delete.push(Endpoint {
            dns_name: NAME.to_owned(),
            record_type: "CNAME".to_owned(),
            set_identifier: set_identifier.to_owned(),
            ..Endpoint::default()
        });
        self.read()
    }

    fn read(mut self) -> Self {
        let mut read = Requests::read(&self.changes, &self.settings).expect("the owner is ours");
        self.request = read.by_hostname.remove(NAME).unwrap_or_default();
        self
    }

    /// With `ADOPT` of these words, between commas.
    pub(super) fn adopt(mut self, words: &str) -> Self {
        let words: Vec<String> = words.split(',').map(str::to_owned).collect();
        self.settings.policy.adopt = Adopt::parse(&words).expect("modes");
        self
    }

    /// The document of the tunnel does not allow the path to be edited.
    pub(super) fn refused_edit(mut self, path: &str) -> Self {
        let path = Some(path).filter(|path| !path.is_empty()).map(Into::into);
        self.obstacles.insert(path, Reason::Edit("the document says no".to_owned()));
        self
    }

    pub(super) fn situation(&self) -> Situation<'_> {
        let Self { snapshot, settings, earlier, owned, .. } = self;
        Situation { snapshot, settings, earlier, owned }
    }

    pub(super) fn request(&self) -> &HostRequest {
        &self.request
    }

    pub(super) fn standing(&self) -> Standing<'_> {
        let zone = self.snapshot.zones.first().expect("there is one");
        let hostname = Hostname::parse(NAME).expect("a hostname");
        Standing::of(self.situation(), zone, hostname, &self.request, &self.obstacles)
    }

    pub(super) fn desired(&self) -> Vec<Desired<'_>> {
        valid_ones(&self.request)
    }

    pub(super) fn decision(&self, order: Order) -> Decision<'_> {
        decide(&self.standing(), self.desired(), false, order)
    }
}
