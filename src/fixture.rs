//! The values that unit tests of several modules begin with.

use std::time::Duration;

use crate::ingress::{Document, OriginOption, OriginRequest, RuleEdit, Service, WantedRule};
use crate::model::access::{Application, TeamName};
use crate::model::endpoint::{Changes, Endpoint, Property};
use crate::model::{AccountId, DomainFilter, Hostname, TunnelId, Zone, ZoneId, ZonePlan};
use crate::reconcile::access::reading::{AccessReading, AccessSnapshot};
use crate::reconcile::adopt::Adopt;
use crate::reconcile::plan::{self, HostPlan, Turn};
use crate::reconcile::plan_inputs::PlanInputs;
use crate::reconcile::snapshot::{Reading, Snapshot, TunnelSnapshot, ZoneSnapshot};
use crate::reconcile::{ConfiguredTunnel, OperatorSettings, Settings};

/// The tunnel of [`settings`].
pub(crate) fn tunnel() -> TunnelId {
    TunnelId::parse("f70ff985-a4ef-4643-bbbc-4a0ed4fc8415").expect("an id")
}

/// The default settings but for the owner, without `MOVE_GRACE`.
pub(crate) fn operator_settings(owner: &str) -> OperatorSettings {
    OperatorSettings {
        owner: owner.into(),
        filter: DomainFilter::default(),
        default_service: None,
        publish_all: false,
        origin_defaults: OriginRequest::default(),
        ca_pools: Vec::new(),
        own_addresses: Vec::new(),
        mass_deletion_limit: 5,
        move_grace: Duration::ZERO,
        adopt: Adopt::default(),
        namespace_guard: false,
        shared_services: Vec::new(),
        namespace_domains: Vec::new(),
        cluster_domain: "cluster.local".into(),
        in_cluster: false,
        access_guard: false,
        default_access_policy: Vec::new(),
        access_opt_out: true,
        access_policies: None,
    }
}

/// The settings of the owner `default` with one tunnel, `home`.
pub(crate) fn settings() -> Settings {
    let tunnel = ConfiguredTunnel { id: tunnel(), name: "home".into(), is_locally_managed: false };
    Settings::new(operator_settings("default"), tunnel, Vec::new())
}

/// Of an account in which nothing stands.
pub(crate) fn reading() -> Reading {
    Reading::new(settings().into())
}

/// Of an account in which nothing stands but these Access applications.
pub(crate) fn snapshot_of_access(applications: &[Application]) -> Snapshot {
    let access = AccessSnapshot {
        team: TeamName::parse("team").expect("a name"),
        applications: applications.to_vec(),
        unread_zones: Vec::new(),
        policies: Ok([].into()),
        pending: Vec::new(),
    };
    Snapshot::new(Reading { access: AccessReading::Read(access), ..reading() })
}

/// The options that these texts say.
pub(crate) fn options(said: &[(OriginOption, &str)]) -> OriginRequest {
    let text_of =
        |property: &str| said.iter().find(|(one, _)| one.property() == property).map(|(_, text)| *text);
    OriginRequest::read(&text_of, &OriginRequest::default()).expect("they are valid")
}

/// Publishes a service at all paths of a hostname.
pub(crate) fn put(hostname: &str, service: &str) -> RuleEdit {
    let rule = WantedRule {
        hostname: Hostname::parse(hostname).expect("a hostname"),
        path: None,
        service: Service::parse(service).expect("a service"),
        origin_request: OriginRequest::default(),
    };
    RuleEdit::Put { rule, replaces: false }
}

/// The plan of a hostname, as if nothing of it had to be written.
pub(crate) fn host_plan(hostname: &str) -> HostPlan {
    let zone = Zone {
        id: ZoneId::new("z1"),
        name: "example.com".into(),
        account: AccountId::new("a1"),
        plan: ZonePlan::Free,
        status: "active".into(),
        paused: false,
    };
    let document = Document::parse(None).expect("a document");
    let snapshot = Snapshot::new(Reading {
        zones: vec![ZoneSnapshot::new(zone, Vec::new())],
        tunnels: [(tunnel(), TunnelSnapshot { document, writable: true, version: 0 })].into(),
        ..reading()
    });
    let endpoint = Endpoint {
        dns_name: "a.example.com".to_owned(),
        record_type: "CNAME".to_owned(),
        targets: vec![tunnel().hostname()],
        provider_specific: vec![Property::new("webhook/tunnel-service", "http://a:80")],
        ..Endpoint::default()
    };
    let changes = Changes { wanted: vec![endpoint], ..Changes::default() };
    let turn = Turn { start: None, hostnames_max: 1 };
    let mut plan = plan::plan(&changes, &snapshot, &PlanInputs::default(), turn);
    let host = plan.hosts.pop().expect("a hostname is published");
    let nothing = HostPlan { operations_before: Vec::new(), edits: Vec::new(), ..host };
    HostPlan { hostname: hostname.into(), ..nothing }
}
