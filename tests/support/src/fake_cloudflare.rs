//! Cloudflare as a value: enough to carry plans out without a server, and to stop after any write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::config::Config;
use external_dns_cloudflare_tunnel_webhook::ingress::Document;
use external_dns_cloudflare_tunnel_webhook::ingress::RuleEdit;
use external_dns_cloudflare_tunnel_webhook::ingress::Service;
use external_dns_cloudflare_tunnel_webhook::ingress::{OriginOption, OriginRequest};
use external_dns_cloudflare_tunnel_webhook::model::access::{
    Application, ApplicationKind, AttachedPolicy, Destination, ReusablePolicy, TeamName,
};
use external_dns_cloudflare_tunnel_webhook::model::domain_filter::DomainFilter;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::model::{
    AccountId, Record, RecordId, TunnelId, Zone, ZoneId, ZonePlan, hostname,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::gate::{
    ApplicationOperation, ApplicationWrite,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::place;
use external_dns_cloudflare_tunnel_webhook::reconcile::access::reading::{AccessReading, AccessSnapshot};
use external_dns_cloudflare_tunnel_webhook::reconcile::access::unneeded;
use external_dns_cloudflare_tunnel_webhook::reconcile::adjust::{Adjusted, Adjuster};
use external_dns_cloudflare_tunnel_webhook::reconcile::adopt::Adopt;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{
    HostPlan, Plan, RecordOperation, Stage, Turn, plan,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan_inputs::PlanInputs;
use external_dns_cloudflare_tunnel_webhook::reconcile::reason::Reason;
use external_dns_cloudflare_tunnel_webhook::reconcile::service_template::ServiceTemplate;
use external_dns_cloudflare_tunnel_webhook::reconcile::settings::NamespaceDomain;
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::{
    Reading, Snapshot, TunnelSnapshot, ZoneSnapshot,
};
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use external_dns_cloudflare_tunnel_webhook::reconcile::{
    ConfiguredTunnel, OperatorSettings, Settings, records,
};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::external_dns::Changes;
use crate::external_dns::Registry;

pub const HOME: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";
/// A zone inside the other, where there is one.
pub const INNER_ZONE: &str = "a.example.com";
pub const OFFICE: &str = "00000000-a4ef-4643-bbbc-4a0ed4fc8415";

/// That of `MASS_DELETION_LIMIT`.
pub const MASS_DELETION_LIMIT_DEFAULT: usize = 5;

/// All hostnames at once.
pub const WHOLE: Turn<'_> = Turn { start: None, hostnames_max: usize::MAX };

/// So many seconds after the last write the next plan is made: past the grace, and within the patience.
const AFTER_WRITES: usize = 60;

/// So many seconds later an application whose rule has not come is left over.
const BETWEEN_REQUESTS: i64 = 1_000;

/// The requests so far, which count as no difference.
#[derive(Clone, Debug, Default)]
struct Requests {
    count: u32,
    /// The hostnames of which the last one refused something.
    refused: BTreeSet<Box<str>>,
}

impl PartialEq for Requests {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The stages of an apply, in their order.
pub const STAGES: [Stage; 3] = [Stage::RecordsBefore, Stage::Rules, Stage::RecordsAfter];

pub fn tunnel_id(id: &str) -> TunnelId {
    TunnelId::parse(id).expect("a well-formed id")
}

/// The longest active zone around a name.
fn zone_of(zones: &[&'static str], pending: &BTreeSet<&str>, name: &str) -> &'static str {
    let mut zones = zones.iter().copied().rev().filter(|zone| !pending.contains(zone));
    zones.find(|zone| hostname::is_within(name, zone)).expect("every record is in a zone")
}

/// The defaults of everything but the owner, and no grace.
pub fn operator_settings(owner: &str) -> OperatorSettings {
    let given = [("CF_API_TOKEN", "token"), ("CF_TUNNEL_ID", "home"), ("OWNER_ID", owner)];
    let given = given.map(|(variable, text)| (variable.to_owned(), text.to_owned()));
    let policy = Config::read(&given.into()).expect("the minimum").provider.operator;
    OperatorSettings { move_grace: Duration::ZERO, own_addresses: Vec::new(), ..policy }
}

pub fn settings() -> Settings {
    let tunnel = |id: &str, name: &str| ConfiguredTunnel {
        id: tunnel_id(id),
        name: name.into(),
        is_locally_managed: false,
    };
    Settings::new(operator_settings("default"), tunnel(HOME, "home"), vec![tunnel(OFFICE, "office")])
}

/// A zone, perhaps with another one inside it, two tunnels, and the registry of ExternalDNS.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeCloudflare {
    /// The inner one last.
    zones: Vec<&'static str>,
    /// Zones that visitors are not led to yet.
    pending: BTreeSet<&'static str>,
    /// Where each record is. A zone may come when records of its names stand in the one around it.
    places: BTreeMap<RecordId, &'static str>,
    pub records: Vec<Record>,
    pub documents: BTreeMap<TunnelId, Document>,
    /// What the program is set to take over.
    pub adopt: Adopt,
    pub namespace_guard: bool,
    pub shared_services: Vec<Service>,
    /// Pairs of a namespace and a domain.
    pub namespace_domains: Vec<(&'static str, &'static str)>,
    pub access_guard: bool,
    /// What the program reads of Access.
    pub access: AccessReading,
    /// The account's reusable policies.
    pub policies: Vec<ReusablePolicy>,
    /// `DEFAULT_ACCESS_POLICY`, `ACCESS_OPT_OUT` and `ACCESS_POLICIES`.
    pub default_access_policy: Vec<Box<str>>,
    pub access_opt_out: bool,
    pub access_policies: Option<Vec<Box<str>>>,
    next_application: usize,
    requests: Requests,
    pub mass_deletion_limit: usize,
    /// The domain filter is this name with all below it; empty, there is none.
    pub served: &'static str,
    /// Tunnels of the account that are not configured.
    pub unconfigured_tunnels: BTreeSet<TunnelId>,
    /// Tunnels whose connectors do not serve what stands, with the reasons.
    pub unready: BTreeMap<TunnelId, String>,
    /// Tunnels that cannot be written, with the reasons.
    pub failed_tunnels: BTreeMap<TunnelId, Reason>,
    /// The zones and tunnels, by id, whose answers are old, with what shows it.
    pub old: BTreeMap<Box<str>, Box<str>>,
    next_record: usize,
    /// Requests that changed something.
    pub writes: usize,
    pub registry: Registry,
    /// The settings' `ORIGIN_*`.
    pub origin_defaults: OriginRequest,
    pub default_service: Option<ServiceTemplate>,
    pub publish_all: bool,
}

/// Brings the endpoints that ExternalDNS wants into canonical form.
pub fn adjust(endpoints: &[Endpoint], settings: &Settings, snapshot: Option<&Snapshot>) -> Adjusted {
    let mut adjuster = Adjuster::new(settings, snapshot);
    for endpoint in endpoints {
        adjuster.add(endpoint);
    }
    adjuster.finish()
}

impl FakeCloudflare {
    pub fn new(home_rules: &[String], foreign_records: &[(&str, &str, &str)]) -> Self {
        let mut cloudflare = if home_rules.is_empty() {
            Self::with_config("{}")
        } else {
            Self::with_config(&format!(
                r#"{{"originRequest": {{"connectTimeout" : 10}}, "ingress":[{},{{"service":"http_status:503"}}],"x":[1]}}"#,
                home_rules.join(",")
            ))
        };
        for (name, record_type, content) in foreign_records {
            cloudflare.add(name, record_type, content, "");
        }
        cloudflare
    }

    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// With the zone `a.example.com` inside the other.
    pub fn with_inner_zone(mut self) -> Self {
        let records = std::mem::take(&mut self.records);
        self.add_inner_zone(true);
        for Record { name, record_type, content, comment, .. } in records {
            self.add(&name, &record_type, &content, &comment);
        }
        self
    }

    /// The zone comes after its names were published in the one around it.
    pub fn add_inner_zone(&mut self, is_active: bool) {
        self.zones = vec!["example.com", INNER_ZONE];
        if !is_active {
            self.pending.insert(INNER_ZONE);
        }
    }

    pub fn activate_inner_zone(&mut self) {
        self.pending.clear();
    }

    /// The records in one zone.
    pub fn records_in(&self, zone: &str) -> Vec<&Record> {
        self.records.iter().filter(|record| self.is_in(record, zone)).collect()
    }

    fn is_in(&self, record: &Record, zone: &str) -> bool {
        self.places.get(&record.id).is_some_and(|place| *place == zone)
    }

    /// With `ADOPT` set.
    pub fn adopting(self, words: &[&str]) -> Self {
        Self { adopt: Adopt::parse(words).expect("modes"), ..self }
    }

    /// Without records, and with this document in the tunnel `home`.
    pub fn with_config(config: &str) -> Self {
        let config = RawValue::from_string(config.to_owned()).expect("the rules are JSON");
        let document = |config: Option<&RawValue>| Document::parse(config).expect("an object with a list");
        Self {
            zones: vec!["example.com"],
            pending: BTreeSet::new(),
            places: BTreeMap::new(),
            records: Vec::new(),
            documents: [(tunnel_id(HOME), document(Some(&config))), (tunnel_id(OFFICE), document(None))]
                .into(),
            registry: Registry::Noop,
            origin_defaults: OriginRequest::default(),
            default_service: None,
            publish_all: false,
            adopt: Adopt::default(),
            namespace_guard: false,
            shared_services: Vec::new(),
            namespace_domains: Vec::new(),
            access_guard: false,
            access: AccessReading::NotAsked,
            policies: Vec::new(),
            default_access_policy: Vec::new(),
            access_opt_out: true,
            access_policies: None,
            next_application: 0,
            requests: Requests::default(),
            mass_deletion_limit: MASS_DELETION_LIMIT_DEFAULT,
            served: "",
            unconfigured_tunnels: BTreeSet::new(),
            unready: BTreeMap::new(),
            failed_tunnels: BTreeMap::new(),
            old: BTreeMap::new(),
            next_record: 0,
            writes: 0,
        }
    }

    /// The settings of the program that works on it.
    pub fn settings(&self) -> Settings {
        let mut settings = settings();
        settings.operator.origin_defaults.clone_from(&self.origin_defaults);
        settings.operator.default_service.clone_from(&self.default_service);
        settings.operator.publish_all = self.publish_all;
        settings.operator.adopt.clone_from(&self.adopt);
        settings.operator.namespace_guard = self.namespace_guard;
        settings.operator.shared_services.clone_from(&self.shared_services);
        let domains = self.namespace_domains.iter();
        let domains = domains.map(|(namespace, domain)| NamespaceDomain {
            namespace: (*namespace).into(),
            domain: (*domain).into(),
        });
        settings.operator.namespace_domains = domains.collect();
        settings.operator.access_guard = self.access_guard;
        settings.operator.mass_deletion_limit = self.mass_deletion_limit;
        settings.operator.default_access_policy.clone_from(&self.default_access_policy);
        settings.operator.access_opt_out = self.access_opt_out;
        settings.operator.access_policies.clone_from(&self.access_policies);
        if !self.served.is_empty() {
            settings.operator.filter = DomainFilter::lists([self.served], []);
        }
        settings
    }

    /// With a team and these policies.
    pub fn with_access(self, policies: Vec<ReusablePolicy>) -> Self {
        let team = TeamName::parse("my-team").expect("a team name");
        let access = AccessSnapshot {
            team,
            applications: Vec::new(),
            unread_zones: Vec::new(),
            policies: Ok(policies.clone().into()),
            pending: Vec::new(),
        };
        Self { policies, access: AccessReading::Read(access), ..self }
    }

    pub fn applications(&self) -> &[Application] {
        match &self.access {
            AccessReading::Read(access) => &access.applications,
            AccessReading::NotAsked | AccessReading::Failed(_) => &[],
        }
    }

    pub fn applications_mut(&mut self) -> &mut Vec<Application> {
        match &mut self.access {
            AccessReading::Read(access) => &mut access.applications,
            AccessReading::NotAsked | AccessReading::Failed(_) => panic!("applications are not read"),
        }
    }

    pub fn add(&mut self, name: &str, record_type: &str, content: &str, comment: &str) {
        self.add_in(zone_of(&self.zones, &self.pending, name), name, record_type, content, comment);
    }

    /// In a zone that may not be seen yet.
    pub fn add_in(
        &mut self,
        zone: &'static str,
        name: &str,
        record_type: &str,
        content: &str,
        comment: &str,
    ) {
        self.next_record += 1;
        let id = RecordId::new(format!("r{}", self.next_record));
        self.places.insert(id.clone(), zone);
        self.records.push(Record {
            id,
            name: name.into(),
            record_type: record_type.to_owned().into(),
            content: content.into(),
            proxied: record_type == "CNAME",
            ttl: 1,
            comment: comment.into(),
            read_only: false,
            // One write later than what stood before.
            created_unix_seconds: u32::try_from(self.writes).ok(),
            modified: Some(Duration::from_secs(self.writes as u64)),
        });
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.reading())
    }

    pub fn reading(&self) -> Reading {
        let zone = |name: &&str| {
            let zone = Zone {
                id: ZoneId::new(*name),
                name: (*name).into(),
                account: AccountId::new("a1"),
                plan: ZonePlan::Free,
                status: if self.pending.contains(name) { "pending" } else { "active" }.into(),
                paused: false,
            };
            ZoneSnapshot::new(zone, self.records_in(name).into_iter().cloned().collect())
        };
        Reading {
            zones: self.zones.iter().map(zone).collect(),
            tunnels: self
                .documents
                .iter()
                .map(|(id, document)| {
                    let document = document.clone();
                    (id.clone(), TunnelSnapshot { document, writable: true, version: 1 })
                })
                .collect(),
            unconfigured_tunnels: self.unconfigured_tunnels.clone(),
            access: self.access.clone(),
            old_answers: self.old.clone(),
            // Long after all that was written.
            date_unix_seconds: Some(u32::MAX.into()),
            ..Reading::new(self.settings().into())
        }
    }

    /// Carries out the plan's first `limit` writes. True when that was all of them.
    pub fn apply(&mut self, plan: &Plan, limit: usize) -> bool {
        let last = self.writes.saturating_add(limit);
        STAGES.into_iter().all(|stage| self.apply_stage(plan, stage, last))
    }

    /// Carries out one stage, until there were `last` writes. Where a rule stands that was planned without, the last
    /// one is left out. True when that was all of it.
    pub fn apply_stage(&mut self, plan: &Plan, stage: Stage, last: usize) -> bool {
        let own = self.snapshot().own_digests().clone();
        for (id, document) in &mut self.documents {
            let edits = plan.hosts.iter().flat_map(|host| &host.edits);
            let edits: Vec<RuleEdit> = edits
                .filter(|planned| planned.tunnel == *id && stage == Stage::Rules)
                .map(|planned| planned.edit.clone())
                .collect();
            let edited = document.edit(&edits, &|rule| own.has(id, rule));
            assert_eq!(edited.refused, [], "the plan has refused such edits already");
            if !edited.changed.is_empty() {
                if self.writes == last {
                    return false;
                }
                self.writes += 1;
                *document = edited.document;
            }
        }
        let missed = self.documents.iter().flat_map(|(id, document)| plan.missed_in(id, document));
        let missed: BTreeSet<Box<str>> = missed.collect();
        let is_kept = |host: &&HostPlan| stage == Stage::RecordsAfter && missed.contains(&host.hostname);
        for zone in self.zones.clone() {
            let hosts = plan.hosts.iter().filter(|host| host.zone == ZoneId::new(zone) && !is_kept(host));
            let operations: Vec<RecordOperation> = hosts
                .flat_map(|host| match stage {
                    Stage::RecordsBefore => &*host.operations_before,
                    Stage::Rules => &[],
                    Stage::RecordsAfter => &*host.operations_after,
                })
                .cloned()
                .collect();
            if operations.is_empty() {
                continue;
            }
            if self.writes == last {
                return false;
            }
            self.writes += 1;
            self.batch(zone, &operations);
        }
        true
    }

    /// Deletes, then patches, then posts, as Cloudflare does; what it would refuse is a failure of the plan.
    fn batch(&mut self, zone: &'static str, operations: &[RecordOperation]) {
        for operation in operations {
            if let RecordOperation::Delete { id, txt_name: _ } = operation {
                let before = self.records.len();
                let places = &self.places;
                self.records.retain(|record| record.id != *id || places.get(id) != Some(&zone));
                assert_eq!(self.records.len() + 1, before, "81044: the record does not exist");
            }
        }
        for operation in operations {
            if let RecordOperation::Patch(patch) = operation {
                let places = &self.places;
                let mut records =
                    self.records.iter_mut().filter(|record| places.get(&record.id) == Some(&zone));
                let record = records.find(|record| record.id == patch.id).expect("81044");
                let comment = patch.comment.as_deref().unwrap_or_default();
                assert!(comment.len() <= 100, "9313: the comment is too long");
                record.content = patch.content.clone().unwrap_or_else(|| record.content.clone());
                record.comment = patch.comment.clone().unwrap_or_else(|| record.comment.clone());
                record.proxied = patch.proxied.unwrap_or(record.proxied);
                record.modified = Some(Duration::from_secs(self.writes as u64));
            }
        }
        for operation in operations {
            if let RecordOperation::Post(new) = operation {
                assert_eq!(zone_of(&self.zones, &self.pending, &new.name), zone, "it would be found nowhere");
                let conflict = self.records_in(zone).into_iter().any(|record| {
                    record.name == new.name && ["A", "AAAA", "CNAME"].contains(&&*record.record_type)
                });
                assert!(!conflict, "81053 or 81058: {} is taken", new.name);
                assert!(new.comment.len() <= 100, "9313: the comment is too long");
                self.add(&new.name, &new.record_type, &new.content, &new.comment);
            }
        }
    }

    /// What `GET /records` answers.
    pub fn shown(&self) -> Vec<Endpoint> {
        records::records(&self.snapshot()).endpoints
    }

    /// One loop of ExternalDNS, stopped after `limit` writes. Returns the plan that was carried out.
    pub fn run_loop(&mut self, desired: &[Endpoint], limit: usize) -> Plan {
        let changes = self.changes(desired);
        self.run_request(&changes, limit)
    }

    /// One request of ExternalDNS.
    pub fn run_request(&mut self, changes: &Changes, limit: usize) -> Plan {
        let last = self.writes.saturating_add(limit);
        self.requests.count += 1;
        let plan = self.plan(changes);
        self.requests.refused = plan.refusals.iter().map(|refusal| refusal.hostname.clone()).collect();
        if self.carry_out(&plan.application_writes, last) {
            self.apply(&plan, last - self.writes);
        }
        plan
    }

    /// What the program deletes by itself.
    pub fn sweep(&mut self) {
        let date_unix_seconds = Some(i64::from(self.requests.count) * BETWEEN_REQUESTS);
        let snapshot = Snapshot::new(Reading { date_unix_seconds, ..self.reading() });
        let left = unneeded::removable(&snapshot).into_iter();
        // An endpoint may wait for it.
        let left = left.filter(|left| !self.requests.refused.contains(left.own.place.hostname().as_str()));
        let ids: Vec<Box<str>> = left.map(|left| left.own.application.id.clone()).collect();
        if !ids.is_empty() {
            self.writes += ids.len();
            self.applications_mut().retain(|one| !ids.contains(&one.id));
        }
    }

    /// What ExternalDNS would ask for.
    pub fn changes(&self, desired: &[Endpoint]) -> Changes {
        self.registry.plan(&self.shown(), &self.adjusted(desired))
    }

    /// What `POST /adjustendpoints` answers.
    pub fn adjusted(&self, desired: &[Endpoint]) -> Vec<Endpoint> {
        adjust(desired, &self.settings(), Some(&self.snapshot())).endpoints
    }

    /// Between any two loops so much time passes that no visitor is led to an old tunnel any more.
    pub fn plan(&self, changes: &Changes) -> Plan {
        self.plan_after(changes, AFTER_WRITES)
    }

    /// The plan so many seconds after the last write.
    pub fn plan_after(&self, changes: &Changes, seconds: usize) -> Plan {
        let date_unix_seconds = i64::try_from(self.writes + seconds).ok();
        let snapshot = Snapshot::new(Reading { date_unix_seconds, ..self.reading() });
        plan(&changes.read(), &snapshot, &self.earlier(), WHOLE)
    }

    fn earlier(&self) -> PlanInputs {
        let (unready, failed_tunnels) = (self.unready.clone(), self.failed_tunnels.clone());
        PlanInputs { unready, failed_tunnels, ..PlanInputs::default() }
    }

    /// Lets time pass, of which each write takes a second.
    pub fn pass(&mut self, seconds: usize) {
        self.writes += seconds;
    }

    /// Writes applications until there were `last` writes. True if that was all of them.
    fn carry_out(&mut self, work: &[ApplicationWrite], last: usize) -> bool {
        for ApplicationWrite { place, operation, .. } in work {
            if self.writes == last {
                return false;
            }
            self.writes += 1;
            let present = |id: &str, all: &[Application]| {
                all.iter().position(|one| *one.id == *id).expect("11021: there is no such application")
            };
            match operation {
                ApplicationOperation::Create(wish) => {
                    self.next_application += 1;
                    let body = place::body(place, wish, "default", None);
                    let (id, audience) =
                        (format!("app{}", self.next_application), format!("aud{}", self.next_application));
                    let made = self.stored(&body, &id, &audience);
                    self.applications_mut().push(made);
                }
                ApplicationOperation::Replace(id, wish) => {
                    let index = present(id, self.applications());
                    let Application { audience, .. } = self.applications()[index].clone();
                    let body = place::body(place, wish, "default", None);
                    let made = self.stored(&body, id, &audience);
                    self.applications_mut()[index] = made;
                }
                ApplicationOperation::Delete(id) => {
                    let index = present(id, self.applications());
                    self.applications_mut().remove(index);
                }
            }
        }
        true
    }

    /// The application that Cloudflare makes of a body, unless another application has the destination.
    fn stored(&self, body: &[u8], id: &str, audience: &str) -> Application {
        let body: Value = serde_json::from_slice(body).expect("JSON");
        let texts = |member: &str, of: &dyn Fn(&Value) -> Option<Box<str>>| -> Vec<Box<str>> {
            body[member].as_array().into_iter().flatten().filter_map(of).collect()
        };
        let text = |value: &Value| value.as_str().map(Into::into);
        let destinations: Vec<Destination> = texts("destinations", &|one| text(&one["uri"]))
            .iter()
            .map(|uri| Destination::parse(uri))
            .collect();
        let others = self.applications().iter().filter(|other| *other.id != *id);
        let taken = others.flat_map(|other| &other.destinations).find(|one| destinations.contains(one));
        assert_eq!(taken, None, "11010: application_already_exists");
        let attached = texts("policies", &|one| text(&one["id"])).into_iter().map(|id| {
            let policy =
                self.policies.iter().find(|policy| policy.id == id).expect("12130: policy not found");
            AttachedPolicy { id, decision: policy.decision }
        });
        Application {
            id: id.into(),
            name: text(&body["name"]).expect("a name"),
            audience: audience.into(),
            kind: ApplicationKind::parse(body["type"].as_str().expect("a type")),
            policies: Some(attached.collect()),
            tags: texts("tags", &text),
            session_duration: text(&body["session_duration"]),
            destinations,
            created_unix_seconds: u32::try_from(i64::from(self.requests.count) * BETWEEN_REQUESTS).ok(),
        }
    }

    /// Takes the check of Access off a rule by hand.
    pub fn unlock_rule(&mut self, id: &TunnelId, index: usize) {
        let mut config: Value = serde_json::from_str(self.document(id).raw().get()).expect("JSON");
        if let Some(rule) = config["ingress"].get_mut(index).and_then(Value::as_object_mut) {
            rule.remove("originRequest");
            let config = RawValue::from_string(config.to_string()).expect("JSON");
            self.documents.insert(id.clone(), Document::parse(Some(&config)).expect("a document"));
        }
    }

    pub fn document(&self, id: &TunnelId) -> &Document {
        self.documents.get(id).expect("both tunnels are there")
    }

    /// Edits the rules of a tunnel by hand, as their texts.
    pub fn edit_rules(&mut self, tunnel: &str, edit: impl FnOnce(&mut Vec<String>)) {
        let id = tunnel_id(tunnel);
        let mut rules: Vec<String> =
            self.document(&id).rules().iter().map(|rule| rule.raw().get().to_owned()).collect();
        edit(&mut rules);
        let text = RawValue::from_string(format!(r#"{{"ingress":[{}]}}"#, rules.join(","))).expect("JSON");
        self.documents.insert(id, Document::parse(Some(&text)).expect("a document"));
    }

    /// Rules that are neither of `foreign` nor named by a stamp.
    pub fn unstamped_rules(&self, foreign: &Self) -> Vec<String> {
        let mut unclaimed = Vec::new();
        for (id, document) in &self.documents {
            let foreign_rules: Vec<&str> =
                foreign.document(id).rules().iter().map(|rule| rule.raw().get()).collect();
            for rule in document.rules() {
                let claimed = self.records.iter().any(|record| {
                    *record.name == *rule.hostname()
                        && Stamp::parse(&record.comment)
                            .is_some_and(|stamp| stamp.claims.digests.contains(&Digest::of(id, rule.path())))
                });
                let raw = rule.raw().get();
                if !claimed && !foreign_rules.contains(&raw) && raw != r#"{"service":"http_status:404"}"# {
                    unclaimed.push(format!("{id} {raw}"));
                }
            }
        }
        unclaimed
    }

    /// The foreign rules of one tunnel, in order, to the byte.
    pub fn foreign_rules(&self, id: &TunnelId) -> Vec<String> {
        let own = self.snapshot().own_digests().clone();
        let rules = self.document(id).rules().iter();
        rules.filter(|rule| !own.has(id, rule)).map(|rule| rule.raw().get().to_owned()).collect()
    }

    pub fn foreign_records(&self) -> Vec<Record> {
        let is_ours = |record: &Record| Stamp::parse(&record.comment).is_some();
        self.records.iter().filter(|record| !is_ours(record)).cloned().collect()
    }
}

/// The options that these texts say.
pub fn options(said: &[(OriginOption, &str)]) -> OriginRequest {
    let text_of =
        |property: &str| said.iter().find(|(one, _)| one.property() == property).map(|(_, text)| *text);
    OriginRequest::read(&text_of, &OriginRequest::default()).expect("they are valid")
}
