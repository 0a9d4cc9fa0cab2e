//! Where a controller keeps what is its own, and what it asks for by it.

use std::collections::BTreeMap;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint, Labels, Property};

use super::plan;

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
    /// `registry/mapper/mapper.go`: the names of the TXT records for a CNAME, the one that is looked for first.
    pub fn of(self, data_name: &str) -> Vec<String> {
        let Self { prefix, untyped_too } = self;
        let typed = if prefix.contains("%{record_type}") {
            format!("{}{data_name}", prefix.replace("%{record_type}", "cname"))
        } else {
            format!("{prefix}cname-{data_name}")
        };
        let untyped = untyped_too.then(|| format!("{}{data_name}", prefix.replace("%{record_type}", "")));
        [typed].into_iter().chain(untyped).collect()
    }
}

impl Registry {
    /// What a controller asks for: `registry/txt/registry.go` around the planner.
    pub fn plan(self, current: &[Endpoint], desired: &[Endpoint]) -> Changes {
        let names = match self {
            Self::Noop => return plan(current, desired),
            Self::Crd => {
                let mut changes = plan(current, desired);
                changes.create.iter_mut().for_each(|endpoint| endpoint.labels.set("owner", "default"));
                return changes;
            }
            Self::Txt(names) => names,
        };
        let (txts, mut current): (Vec<Endpoint>, Vec<Endpoint>) =
            current.iter().cloned().partition(|endpoint| endpoint.record_type == "TXT");
        let heritage = |txt: &Endpoint| {
            let text = txt.targets.first()?.trim_matches('"').to_owned();
            text.starts_with("heritage=external-dns,").then_some(text)
        };
        let seen = |name: &str, set_identifier: &str| {
            txts.iter().find(|txt| txt.dns_name == name && txt.set_identifier == set_identifier)
        };
        for endpoint in &mut current {
            let expected = names.of(&endpoint.dns_name);
            let mut found = expected.iter().rev().filter_map(|name| seen(name, &endpoint.set_identifier));
            for (key, value) in found.by_ref().filter_map(heritage).flat_map(|text| labels_in(&text)) {
                endpoint.labels.set(&key, &value);
            }
            let is_ours = endpoint.labels.value("owner") == Some("default");
            let is_there =
                txts.iter().any(|txt| expected.first() == Some(&txt.dns_name) && heritage(txt).is_some());
            if is_ours && !is_there && txts.iter().any(|txt| heritage(txt).is_some()) {
                endpoint.provider_specific.push(Property::new("txt/force-update", "true"));
            }
        }
        let is_ours = |endpoint: &Endpoint| endpoint.labels.value("owner") == Some("default");
        let mut changes = plan(&current, desired);
        for endpoint in changes.create.iter_mut().chain(&mut changes.update_new) {
            endpoint.labels.set("owner", "default");
        }
        changes.delete.retain(is_ours);
        let (update_old, update_new) =
            changes.update_old.into_iter().zip(changes.update_new).filter(|(old, _)| is_ours(old)).unzip();
        (changes.update_old, changes.update_new) = (update_old, update_new);

        let written = |endpoints: &[Endpoint]| -> Vec<Endpoint> {
            endpoints.iter().flat_map(|endpoint| names.txts(endpoint)).collect()
        };
        let absent = |txt: &Endpoint| seen(&txt.dns_name, &txt.set_identifier).is_none();
        changes.create.extend(written(&changes.create).into_iter().filter(absent));
        for list in [&mut changes.update_old, &mut changes.update_new, &mut changes.delete] {
            list.extend(written(list));
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

    /// Writes down what the provider is about to be asked for, asks it, and reads its records after something was created or
    /// changed. A failure of either ends it there.
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
            record.endpoint.labels.set("owner", "default");
            if let Some(resource) = resource {
                record.endpoint.labels.set("resource", &resource);
            }
        }
    }
}

fn identity(endpoint: &Endpoint) -> Identity {
    let name = endpoint.dns_name.trim_end_matches('.').to_ascii_lowercase();
    (name, endpoint.record_type.to_ascii_uppercase(), endpoint.set_identifier.clone())
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
        let names = self.of(&data.dns_name).into_iter();
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

fn labels_in(heritage: &str) -> Vec<(String, String)> {
    let pairs = heritage.split(',').filter_map(|pair| pair.strip_prefix("external-dns/")?.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
