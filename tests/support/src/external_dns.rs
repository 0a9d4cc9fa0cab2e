//! ExternalDNS as far as a provider sees it: its planner, and one loop of its controller over HTTP. The planner, the
//! registries, what becomes of endpoints of several objects, and what an answer does are held to the real controller; the
//! rest has the real one's say in `tests/e2e`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint, Labels, Property};

/// The media type of the protocol, to the byte.
pub const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";

/// What ExternalDNS gives a call before it gives up, and ends.
const PATIENCE: Duration = Duration::from_secs(15);

/// A controller with policy sync that talks to one webhook.
#[derive(Clone, Copy, Debug)]
pub struct ExternalDns {
    pub api: SocketAddr,
    pub registry: Registry,
}

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

/// `--policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    Sync,
    UpsertOnly,
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

/// What comes of a call to the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Status(u16),
    /// The right status, with a body that cannot be read.
    Garbage,
    /// The connection was closed.
    Nothing,
}

/// What it does to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The loop goes on.
    Done,
    /// A soft error: the loop is over, and another one follows.
    Soft,
    /// The process ends.
    Ends,
}

impl Heard {
    /// `provider/webhook/webhook.go` `isRetryableError`, and `controller/controller.go` `Run`.
    pub fn reaction(self, expected: u16) -> Reaction {
        match self {
            Self::Status(status) if status == expected => Reaction::Done,
            Self::Status(500..=510) => Reaction::Soft,
            Self::Status(_) | Self::Garbage | Self::Nothing => Reaction::Ends,
        }
    }
}

/// An answer of the webhook.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl ExternalDns {
    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// One loop: read, adjust, plan, and apply where there is something to apply. The error is the status of the first
    /// answer that is not a success.
    pub fn run_loop(self, desired: &[Endpoint]) -> Result<Changes, u16> {
        self.run_loop_without(desired, "")
    }

    /// The same with a flag that keeps `swallowed` out of what is planned.
    pub fn run_loop_without(self, desired: &[Endpoint], swallowed: &str) -> Result<Changes, u16> {
        let current = self.records()?;
        let mut adjusted = self.adjust(desired)?;
        adjusted.retain(|endpoint| endpoint.dns_name != swallowed);
        let changes = self.registry.plan(&current, &adjusted);
        if changes != Changes::default() {
            self.apply(&changes)?;
        }
        Ok(changes)
    }

    pub fn records(self) -> Result<Vec<Endpoint>, u16> {
        let answer = self.call("GET", "/records", "");
        expect_status(&answer, 200)?;
        Ok(serde_json::from_str(&answer.body).expect("a list of endpoints"))
    }

    pub fn adjust(self, desired: &[Endpoint]) -> Result<Vec<Endpoint>, u16> {
        let body = serde_json::to_string(desired).expect("endpoints are plain data");
        let answer = self.call("POST", "/adjustendpoints", &body);
        expect_status(&answer, 200)?;
        Ok(serde_json::from_str(&answer.body).expect("a list of endpoints"))
    }

    pub fn apply(self, changes: &Changes) -> Result<(), u16> {
        let body = serde_json::to_string(changes).expect("changes are plain data");
        expect_status(&self.call("POST", "/records", &body), 204)
    }

    /// Any call with the headers that ExternalDNS sends. No answer, or none in time, is a failure: it would end
    /// ExternalDNS.
    pub fn call(self, method: &str, path: &str, body: &str) -> Answer {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:8888\r\nAccept: {MEDIA_TYPE}\r\nContent-Type: {MEDIA_TYPE}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        exchange(self.api, &[head.as_bytes(), body.as_bytes()])
            .expect("the webhook answers every request in time")
    }
}

/// Sends bytes and reads one answer to its end.
pub fn exchange(address: SocketAddr, parts: &[&[u8]]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    for part in parts {
        stream.write_all(part)?;
    }
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

fn expect_status(answer: &Answer, expected: u16) -> Result<(), u16> {
    if answer.status == expected { Ok(()) } else { Err(answer.status) }
}

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

impl SyncPolicy {
    /// `plan/policy.go`: deletions are left out, whatever they are for.
    pub fn allowed(self, changes: Changes) -> Changes {
        match self {
            Self::Sync => changes,
            Self::UpsertOnly => Changes { delete: Vec::new(), ..changes },
        }
    }
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

/// `plan/conflict.go`: an update takes the candidate whose label is the current one's, and one without is the same as an
/// empty one; a creation the smallest by targets.
fn resolve<'a>(current: Option<&Endpoint>, candidates: &[&'a Endpoint]) -> Option<&'a Endpoint> {
    let resource = |endpoint: &Endpoint| endpoint.labels.value("resource").unwrap_or_default().to_owned();
    let mut candidates = candidates.to_vec();
    candidates.sort_by_key(|candidate| (candidate.targets.len(), &candidate.targets));
    let of_current = current.and_then(|current| {
        candidates.iter().find(|candidate| resource(candidate) == resource(current)).copied()
    });
    of_current.or_else(|| candidates.first().copied())
}

/// What ExternalDNS makes of the endpoints of one source, in the order in which it reads the objects
/// (`endpoint/utils.go` `MergeEndpoints`): those with one name, type, set identifier, TTL and, for a CNAME, first target are
/// one, with the properties and labels of the first. The real one has them in the order of a Go map.
pub fn merged(endpoints: impl IntoIterator<Item = Endpoint>) -> Vec<Endpoint> {
    let mut merged: Vec<Endpoint> = Vec::new();
    // Of what was merged the first target may be another afterwards.
    let mut keys = Vec::new();
    for endpoint in endpoints {
        let is_cname = endpoint.record_type == "CNAME";
        if is_cname && endpoint.targets.is_empty() {
            continue;
        }
        let key = (
            endpoint.dns_name.clone(),
            endpoint.record_type.clone(),
            endpoint.set_identifier.clone(),
            endpoint.record_ttl,
            endpoint.targets.first().filter(|_| is_cname).cloned(),
        );
        let place = keys.iter().position(|other| *other == key);
        match place.and_then(|place| merged.get_mut(place)) {
            Some(first) => first.targets.extend(endpoint.targets),
            None => {
                keys.push(key);
                merged.push(endpoint);
            }
        }
    }
    for endpoint in &mut merged {
        endpoint.targets.sort_unstable();
        endpoint.targets.dedup();
    }
    merged
}

/// What it makes of all sources together (`source/wrappers/dedupsource.go`): of those with one name, type, set identifier
/// and targets the first one stays.
pub fn deduplicated(endpoints: impl IntoIterator<Item = Endpoint>) -> Vec<Endpoint> {
    let mut seen = BTreeSet::new();
    let key = |endpoint: &Endpoint| {
        let Endpoint { dns_name, record_type, set_identifier, targets, .. } = endpoint.clone();
        (dns_name, record_type, set_identifier, targets)
    };
    endpoints.into_iter().filter(|endpoint| seen.insert(key(endpoint))).collect()
}

/// ExternalDNS's planner with policy sync, as `plan/plan.go` has it: rows by name and set identifier, one candidate
/// each, updates where target or properties differ, owner filter.
pub fn plan(current: &[Endpoint], desired: &[Endpoint]) -> Changes {
    type Rows<'a> = BTreeMap<(String, String), Vec<&'a Endpoint>>;
    fn rows(endpoints: &[Endpoint]) -> Rows<'_> {
        let mut rows = Rows::new();
        for endpoint in endpoints {
            rows.entry((endpoint.dns_name.clone(), endpoint.set_identifier.clone()))
                .or_default()
                .push(endpoint);
        }
        rows
    }
    // TXT is no type that ExternalDNS manages unless told to.
    let current: Vec<Endpoint> =
        current.iter().filter(|endpoint| endpoint.record_type != "TXT").cloned().collect();
    let (current, desired) = (rows(&current), rows(desired));
    let mut changes = Changes::default();
    let keys: BTreeSet<_> = current.keys().chain(desired.keys()).collect();
    for key in keys {
        let present = current.get(key).map(Vec::as_slice).unwrap_or_default();
        let candidates = desired.get(key).map(Vec::as_slice).unwrap_or_default();
        let same = present.iter().find(|endpoint| endpoint.record_type == "CNAME");
        let chosen = resolve(same.copied(), candidates);
        match (same, chosen) {
            (Some(same), Some(chosen)) => {
                let properties: BTreeSet<_> = same.provider_specific.iter().collect();
                let wanted: BTreeSet<_> = chosen.provider_specific.iter().collect();
                if same.targets != chosen.targets || properties != wanted {
                    changes.update_old.push((*same).clone());
                    let mut new = (*chosen).clone();
                    if let Some(owner) = same.labels.value("owner") {
                        new.labels.set("owner", owner);
                    }
                    changes.update_new.push(new);
                }
            }
            (None, Some(chosen)) => {
                changes.create.push((*chosen).clone());
            }
            (Some(_) | None, None) => {}
        }
        for endpoint in present {
            if chosen.is_none() || endpoint.record_type != "CNAME" {
                changes.delete.push((*endpoint).clone());
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    /// A turn of the real controller, which `tests/externaldns` plays and writes down.
    #[derive(Debug, Deserialize)]
    struct Loop {
        registry: String,
        prefix: String,
        policy: String,
        current: Option<Vec<Endpoint>>,
        desired: Option<Vec<Endpoint>>,
        changes: Asked,
    }

    /// Loops of the real controller with the registry `crd`, each of which stands on those before.
    #[derive(Debug, Deserialize)]
    struct History {
        policy: String,
        turns: Vec<Turn>,
    }

    #[derive(Debug, Deserialize)]
    struct Turn {
        desired: Option<Vec<Endpoint>>,
        /// The call that fails: `apply`, or the `records` after it.
        fault: String,
        shown: Option<Vec<Endpoint>>,
        current: Vec<Endpoint>,
        changes: Asked,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Asked {
        create: Vec<Endpoint>,
        update_old: Vec<Endpoint>,
        update_new: Vec<Endpoint>,
        delete: Vec<Endpoint>,
    }

    impl Asked {
        fn of(changes: Changes) -> Self {
            let Changes { create, update_old, update_new, delete } = changes;
            Self { create, update_old, update_new, delete }
        }

        /// As sets: the real one has an order only within pairs.
        fn canonical(self) -> [Vec<Value>; 4] {
            [self.create, self.update_old, self.update_new, self.delete].map(canonical)
        }
    }

    fn canonical(mut list: Vec<Endpoint>) -> Vec<Value> {
        let key = |one: &Endpoint| format!("{} {} {}", one.dns_name, one.record_type, one.set_identifier);
        list.sort_by_key(key);
        let values = list.into_iter().map(|mut endpoint| {
            endpoint.provider_specific.sort();
            serde_json::to_value(endpoint).expect("plain data")
        });
        values.collect()
    }

    /// A list of endpoints, and each list that the real one may make of it.
    #[derive(Debug, Deserialize)]
    struct Merge {
        endpoints: Vec<Endpoint>,
        outcomes: Vec<Vec<Endpoint>>,
    }

    /// An answer of a webhook, and what the real controller did.
    #[derive(Debug, Deserialize)]
    struct Answered {
        call: String,
        answer: String,
        reaction: String,
    }

    /// All orders of a list.
    fn orders(list: &[Endpoint]) -> Vec<Vec<Endpoint>> {
        let Some((first, rest)) = list.split_first() else { return vec![Vec::new()] };
        let places = |order: Vec<Endpoint>| {
            (0..=order.len()).map(move |place| {
                let mut order = order.clone();
                order.insert(place, first.clone());
                order
            })
        };
        orders(rest).into_iter().flat_map(places).collect()
    }

    /// One outcome of a merge, whatever its order.
    fn as_set(outcome: Vec<Endpoint>) -> BTreeSet<String> {
        let texts = outcome.into_iter().map(|mut endpoint| {
            endpoint.provider_specific.sort();
            serde_json::to_string(&endpoint).expect("plain data")
        });
        texts.collect()
    }

    fn policy(name: &str) -> SyncPolicy {
        match name {
            "sync" => SyncPolicy::Sync,
            "upsert-only" => SyncPolicy::UpsertOnly,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_loop_of_the_model_asks_for_what_the_real_controller_asked_for() {
        let loops = include_str!("../../externaldns/loops.json");
        for (text, number) in loops.lines().zip(1..) {
            let one: Loop = serde_json::from_str(text).expect("a loop");
            let registry = match (&*one.registry, &*one.prefix) {
                ("noop", _) => Registry::Noop,
                ("txt", "") => TXT,
                ("txt", "%{record_type}-x.") => TXT_BELOW,
                other => panic!("{other:?}"),
            };
            let planned = registry.plan(&one.current.unwrap_or_default(), &one.desired.unwrap_or_default());
            let changes = Asked::of(policy(&one.policy).allowed(planned));
            assert_eq!(changes.canonical(), one.changes.canonical(), "loop {number}: {text}");
        }
    }

    #[test]
    fn a_history_of_the_registry_crd_asks_for_what_the_real_controller_asked_for() {
        let histories = include_str!("../../externaldns/crd_histories.json");
        for (text, number) in histories.lines().zip(1..) {
            let history: History = serde_json::from_str(text).expect("a history");
            let mut applied = AppliedRecords::default();
            for (turn, nth) in history.turns.into_iter().zip(1..) {
                let current = applied.current();
                assert_eq!(
                    canonical(current.clone()),
                    canonical(turn.current),
                    "history {number}, turn {nth}"
                );
                let planned = Registry::Crd.plan(&current, &turn.desired.unwrap_or_default());
                let changes = policy(&history.policy).allowed(planned);
                if changes != Changes::default() {
                    let answer = |call: &str| if turn.fault == call { Err(()) } else { Ok(()) };
                    let shown = turn.shown.unwrap_or_default();
                    let read = || answer("records").map(|()| shown);
                    // A failure shows in what is taken for published in the next turn.
                    let _ = applied.apply(&changes, || answer("apply"), read);
                }
                let asked = turn.changes.canonical();
                assert_eq!(Asked::of(changes).canonical(), asked, "history {number}, turn {nth}");
            }
        }
    }

    #[test]
    fn endpoints_of_several_objects_become_what_the_real_one_makes_of_them_in_some_order() {
        let merges = include_str!("../../externaldns/merges.json");
        for (text, number) in merges.lines().zip(1..) {
            let merge: Merge = serde_json::from_str(text).expect("a merge");
            let outcomes = orders(&merge.endpoints).into_iter().flat_map(|order| orders(&merged(order)));
            let ours: BTreeSet<_> = outcomes.map(|order| as_set(deduplicated(order))).collect();
            let theirs: BTreeSet<_> = merge.outcomes.into_iter().map(as_set).collect();
            assert_eq!(ours, theirs, "list {number}: {text}");
        }
    }

    #[test]
    fn an_answer_does_to_the_model_what_it_does_to_the_real_controller() {
        let answers = include_str!("../../externaldns/answers.json");
        for text in answers.lines() {
            let answered: Answered = serde_json::from_str(text).expect("an answer");
            let heard = match &*answered.answer {
                "garbage" => Heard::Garbage,
                "nothing" => Heard::Nothing,
                status => Heard::Status(status.parse().expect("a status")),
            };
            let expected = if answered.call == "apply" { 204 } else { 200 };
            let reaction = match &*answered.reaction {
                "done" => Reaction::Done,
                "soft" => Reaction::Soft,
                "ends" => Reaction::Ends,
                other => panic!("{other:?}"),
            };
            assert_eq!(heard.reaction(expected), reaction, "{text}");
        }
    }
}
