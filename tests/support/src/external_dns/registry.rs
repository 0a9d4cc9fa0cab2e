//! Where a controller keeps what is its own, and what it asks for by it.

use std::collections::BTreeMap;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels, Property};

use super::Changes;
use super::planner::{normalized, plan, plan_for, without_dot};

/// `--txt-owner-id`, unless it says otherwise.
const OWNER: &str = "default";

/// Where a controller keeps what is its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registry {
    /// `--registry=noop`.
    #[default]
    Noop,
    /// `--registry=txt`.
    Txt(TxtNames),
    /// `--registry=crd`, which goes by [`AppliedRecords`] instead of the provider.
    Crd,
}

/// The `DNSRecord` objects of `--registry=crd`: what was applied, as `registry/crd/crd.go` keeps it.
#[derive(Clone, Debug, Default)]
pub struct AppliedRecords(BTreeMap<Identity, AppliedRecord>);

/// Name, type and set identifier.
type Identity = (String, String, String);

#[derive(Clone, Debug)]
struct AppliedRecord {
    endpoint: Endpoint,
    /// The provider answered that it was done.
    is_programmed: bool,
}

/// How TXT records are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxtNames {
    /// `--txt-prefix`, which may hold `%{record_type}`.
    pub prefix: &'static str,
    /// Whether each record has one without its type as well, as before 0.18.
    pub untyped_too: bool,
}

/// `--registry=txt` with nothing else said.
pub const TXT: Registry = Registry::Txt(TxtNames { prefix: "", untyped_too: false });

/// The only form of a prefix that keeps each TXT record below its hostname.
pub const TXT_BELOW: Registry = Registry::Txt(TxtNames { prefix: "%{record_type}-x.", untyped_too: false });

impl TxtNames {
    /// The names of the TXT records that are written for a record. AAAA never had one without its type.
    pub fn of(self, data: &Endpoint) -> Vec<String> {
        let untyped = (self.untyped_too && data.record_type != "AAAA").then(|| self.untyped(&data.dns_name));
        let names = [self.typed(&data.record_type, &data.dns_name)].into_iter().chain(untyped);
        names.map(|name| without_dot(&name).to_owned()).collect()
    }

    /// The names under which a record's TXT record is looked for, in this order: a controller that writes none without
    /// a type looks for these too.
    fn sought(self, data: &Endpoint) -> Vec<String> {
        let untyped = (data.record_type != "AAAA").then(|| self.untyped(&data.dns_name));
        [self.typed(&data.record_type, &data.dns_name)].into_iter().chain(untyped).collect()
    }

    /// `registry/mapper/mapper.go`.
    fn typed(self, record_type: &str, data_name: &str) -> String {
        let Self { prefix, untyped_too: _ } = self;
        let record_type = record_type.to_ascii_lowercase();
        if prefix.contains("%{record_type}") {
            format!("{}{data_name}", prefix.replace("%{record_type}", &record_type))
        } else {
            format!("{prefix}{record_type}-{data_name}")
        }
    }

    fn untyped(self, data_name: &str) -> String {
        format!("{}{data_name}", self.prefix.replace("%{record_type}", ""))
    }
}

impl Registry {
    /// What a controller asks for: `registry/txt/registry.go` around the planner.
    pub fn plan(self, current: &[Endpoint], desired: &[Endpoint]) -> Changes {
        let names = match self {
            Self::Noop => return plan(current, desired),
            Self::Crd => {
                let mut changes = plan_for(Some(OWNER), current, desired);
                changes.create.iter_mut().for_each(|endpoint| endpoint.labels.set("owner", OWNER));
                return changes;
            }
            Self::Txt(names) => names,
        };
        let (txts, mut current): (Vec<Endpoint>, Vec<Endpoint>) =
            current.iter().cloned().partition(|endpoint| endpoint.record_type == "TXT");
        // Other texts name no owner.
        let txts: Vec<&Endpoint> = txts.iter().filter(|txt| heritage(txt).is_some()).collect();
        for endpoint in &mut current {
            let labels = names.sought(endpoint).into_iter().find_map(|name| {
                let is_sought = |txt: &&&Endpoint| {
                    txt.dns_name.to_ascii_lowercase() == name && txt.set_identifier == endpoint.set_identifier
                };
                txts.iter().rfind(is_sought).and_then(|txt| heritage(txt))
            });
            for (key, value) in labels.unwrap_or_default() {
                endpoint.labels.set(&key, &value);
            }
            let is_ours = endpoint.labels.value("owner") == Some(OWNER);
            let is_there = |name: &String| txts.iter().any(|txt| txt.dns_name == *name);
            if is_ours && !txts.is_empty() && !names.of(endpoint).iter().all(is_there) {
                endpoint.provider_specific.push(Property::new("txt/force-update", "true"));
            }
        }
        let mut changes = plan_for(Some(OWNER), &current, desired);
        for endpoint in &mut changes.create {
            endpoint.labels.set("owner", OWNER);
        }

        let written = |endpoints: &[Endpoint]| -> Vec<Endpoint> {
            endpoints.iter().flat_map(|endpoint| names.txts(endpoint)).collect()
        };
        let stored = |wanted: &Endpoint| {
            let is_wanted = |txt: &&&Endpoint| {
                txt.dns_name == wanted.dns_name && txt.set_identifier == wanted.set_identifier
            };
            txts.iter().rfind(is_wanted).copied()
        };
        changes.create.extend(written(&changes.create).into_iter().filter(|txt| stored(txt).is_none()));
        changes.update_new.extend(written(&changes.update_new));
        for list in [&mut changes.update_old, &mut changes.delete] {
            let as_stored = written(list).into_iter().map(|mut txt| {
                let text = stored(&txt).and_then(|stored| stored.targets.first());
                txt.targets = text.map_or(txt.targets, |text| vec![text.clone()]);
                txt
            });
            list.extend(as_stored.collect::<Vec<_>>());
        }
        changes
    }
}

impl AppliedRecords {
    /// What is taken for published: only what the provider answered was done.
    pub fn current(&self) -> Vec<Endpoint> {
        let programmed = self.0.values().filter(|record| record.is_programmed);
        programmed.map(|record| record.endpoint.clone()).collect()
    }

    /// Writes down what the provider is about to be asked for, asks it, and reads its records after something was
    /// created or changed. A failure of either ends it there.
    pub fn apply<E>(
        &mut self,
        changes: &Changes,
        ask: impl FnOnce() -> Result<(), E>,
        read: impl FnOnce() -> Result<Vec<Endpoint>, E>,
    ) -> Result<(), E> {
        self.accept(changes);
        ask()?;
        self.program(changes);
        if !changes.create.is_empty() || !changes.update_new.is_empty() {
            self.take_labels(changes, &read()?);
        }
        Ok(())
    }

    /// Deletions come last.
    fn accept(&mut self, changes: &Changes) {
        for endpoint in &changes.create {
            let record = AppliedRecord { endpoint: endpoint.clone(), is_programmed: false };
            self.0.insert(identity(endpoint), record);
        }
        for (old, new) in changes.update_old.iter().zip(&changes.update_new) {
            if let Some(record) = self.0.get_mut(&identity(old)) {
                *record = AppliedRecord { endpoint: new.clone(), is_programmed: false };
            }
        }
    }

    /// The provider answered that all of it was done.
    fn program(&mut self, changes: &Changes) {
        for endpoint in changes.create.iter().chain(&changes.update_old) {
            if let Some(record) = self.0.get_mut(&identity(endpoint)) {
                record.is_programmed = true;
            }
        }
        for endpoint in &changes.delete {
            self.0.remove(&identity(endpoint));
        }
    }

    /// Takes over the labels that the provider shows of what was created or changed, but for the owner and the object.
    fn take_labels(&mut self, changes: &Changes, shown: &[Endpoint]) {
        for endpoint in changes.create.iter().chain(&changes.update_old) {
            let key = identity(endpoint);
            let shown = shown.iter().rfind(|shown| identity(shown) == key);
            let (Some(record), Some(shown)) = (self.0.get_mut(&key), shown) else { continue };
            let resource = record.endpoint.labels.value("resource").map(str::to_owned);
            record.endpoint.labels = shown.labels.clone();
            record.endpoint.labels.set("owner", OWNER);
            if let Some(resource) = resource {
                record.endpoint.labels.set("resource", &resource);
            }
        }
    }
}

fn identity(endpoint: &Endpoint) -> Identity {
    (normalized(&endpoint.dns_name), endpoint.record_type.clone(), endpoint.set_identifier.clone())
}

impl TxtNames {
    /// What goes with one record. The properties are the record's own.
    fn txts(self, data: &Endpoint) -> Vec<Endpoint> {
        let mut text = format!(
            "heritage=external-dns,external-dns/owner={}",
            data.labels.value("owner").expect("what is written has an owner")
        );
        if let Some(resource) = data.labels.value("resource") {
            text.push_str(",external-dns/resource=");
            text.push_str(resource);
        }
        let names = self.of(data).into_iter();
        names
            .map(|dns_name| Endpoint {
                dns_name,
                targets: vec![format!("\"{text}\"")],
                record_type: "TXT".to_owned(),
                set_identifier: data.set_identifier.clone(),
                labels: Labels::from_iter([("ownedRecord", &*data.dns_name)]),
                provider_specific: data.provider_specific.clone(),
                ..Endpoint::default()
            })
            .collect()
    }
}

/// The labels in ExternalDNS's text, if it is one.
fn heritage(txt: &Endpoint) -> Option<Vec<(String, String)>> {
    let text = txt.targets.first()?.trim_matches('"');
    let pairs = text.strip_prefix("heritage=external-dns,")?.split(',');
    let pairs = pairs.filter_map(|pair| pair.strip_prefix("external-dns/")?.split_once('='));
    Some(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}
