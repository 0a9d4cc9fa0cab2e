//! Whether a call may be sent. It is decided by what the run may name and by what it is known to have created, and by
//! nothing else: names count by their place in the call and whole, ids only from the answer to a create.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use serde_json::value::RawValue;

use crate::intents::Kind;

/// Most records that a run creates.
pub const RECORDS_MAX: usize = 20;

/// The one account and zone, and the names that this run may give.
#[derive(Clone, Default)]
pub struct Bounds {
    pub account: String,
    /// The zone's id.
    pub zone: String,
    /// The zone's name.
    pub domain: String,
    /// `edctw-live-<random>`.
    pub label: String,
    /// The tag of the applications.
    pub tag: String,
}

impl Bounds {
    /// `edctw-live-<random>-<n>`, also the name of a tunnel.
    pub fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.label)
    }

    /// A hostname directly below the zone: Universal SSL covers no deeper one.
    pub fn hostname(&self, number: usize) -> String {
        format!("{}.{}", self.name(number), self.domain)
    }

    /// What tells this run from others in the file of intents.
    pub fn run(&self) -> [String; 3] {
        [&self.label, &self.account, &self.zone].map(Clone::clone)
    }

    pub fn owns_name(&self, name: &str) -> bool {
        (1..=RECORDS_MAX).any(|number| self.name(number) == name)
    }

    pub fn owns_hostname(&self, hostname: &str) -> bool {
        (1..=RECORDS_MAX).any(|number| self.hostname(number) == hostname)
    }
}

/// What the answers to this run's own calls have shown.
#[derive(Default)]
pub struct Known {
    /// Whether every name of the run was asked for, and none was taken.
    pub is_free: bool,
    /// Ids of records, applications and tunnels that this run created; the tag by its name.
    made: BTreeSet<(Kind, String)>,
    /// The answer about the configuration of each tunnel of ours as it was last read.
    documents: BTreeMap<String, String>,
}

/// What a call creates, to be written down before it is sent.
pub type Creates = Vec<(Kind, String)>;

type Judgement = Result<Creates, &'static str>;

impl Known {
    /// An object that is this run's: from the answer to its create, or by an intent of a run that was killed.
    pub fn insert(&mut self, kind: Kind, id: &str) {
        self.made.insert((kind, id.to_owned()));
    }

    fn owns(&self, kind: Kind, id: &str) -> Judgement {
        let is_ours = self.made.contains(&(kind, id.to_owned()));
        if is_ours { Ok(Creates::new()) } else { Err("this run did not create it") }
    }

    fn create(&self, kind: Kind, name: &str) -> Judgement {
        if self.is_free {
            Ok(vec![(kind, name.to_owned())])
        } else {
            Err("the names were not asked for as free")
        }
    }

    /// Learns from the answer to a call that was sent: what it created, and how a configuration reads.
    pub fn learn(&mut self, path: &str, creates: &Creates, answer: &str) -> Vec<(Kind, String, String)> {
        let parsed: Value = serde_json::from_str(answer).unwrap_or_default();
        if parsed["success"] != true {
            return Vec::new();
        }
        if let Some((above, "configurations")) = path.rsplit_once('/') {
            let tunnel = above.rsplit('/').next().unwrap_or_default();
            self.documents.insert(tunnel.to_owned(), answer.to_owned());
        }
        let result = &parsed["result"];
        let results = result["posts"].as_array().cloned().unwrap_or_else(|| vec![result.clone()]);
        let made = creates.iter().zip(results).filter_map(|((kind, name), result)| {
            let id = result[if *kind == Kind::Tag { "name" } else { "id" }].as_str()?;
            Some((*kind, name.clone(), id.to_owned()))
        });
        let made: Vec<_> = made.collect();
        made.iter().for_each(|(kind, _, id)| self.insert(*kind, id));
        made
    }
}

/// Passes a read, or a write of what is this run's.
///
/// # Errors
/// The reason why the call is not sent.
pub fn judge(bounds: &Bounds, known: &Known, method: &str, target: &str, body: &str) -> Judgement {
    let path = target.split('?').next().unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    if !path.starts_with('/') || segments.iter().any(|one| one.is_empty() || !one.bytes().all(is_plain)) {
        return Err("the path is not written plainly");
    }
    let json: Value =
        serde_json::from_str(if body.is_empty() { "null" } else { body }).map_err(|_| "no JSON")?;
    let name = json["name"].as_str().unwrap_or_default();
    match (method, segments.as_slice()) {
        ("GET", [.., "token"]) => Err("a tunnel token is a secret"),
        (_, ["accounts", account, ..]) if *account != bounds.account => Err("another account"),
        ("GET", _) => Ok(Creates::new()),
        _ if path != target => Err("a write has no query"),
        (_, ["zones", zone, ..]) if *zone != bounds.zone => Err("another zone"),
        ("POST", ["zones", _, "dns_records", "batch"]) => batch(bounds, known, &json),
        ("POST", ["accounts", _, "cfd_tunnel"]) if bounds.owns_name(name) => known.create(Kind::Tunnel, name),
        ("DELETE", ["accounts", _, "cfd_tunnel", id] | ["accounts", _, "cfd_tunnel", id, "connections"]) => {
            known.owns(Kind::Tunnel, id)
        }
        ("PUT", ["accounts", _, "cfd_tunnel", id, "configurations"]) => known
            .owns(Kind::Tunnel, id)
            .and_then(|_| configuration(bounds, known.documents.get(*id).map(String::as_str), body)),
        ("POST", ["accounts", _, "access", "tags"]) if name == bounds.tag => known.create(Kind::Tag, name),
        ("DELETE", ["accounts", _, "access", "tags", name]) => known.owns(Kind::Tag, name),
        ("POST", ["accounts", _, "access", "apps"]) => {
            known.create(Kind::Application, application(bounds, &json)?)
        }
        ("PUT", ["accounts", _, "access", "apps", id]) => {
            application(bounds, &json).and_then(|_| known.owns(Kind::Application, id))
        }
        ("DELETE", ["accounts", _, "access", "apps", id]) => known.owns(Kind::Application, id),
        _ => Err("no write of this method, path and name is needed"),
    }
}

fn batch(bounds: &Bounds, known: &Known, json: &Value) -> Judgement {
    let mut creates = Creates::new();
    for (list, items) in json.as_object().ok_or("the batch is no object")? {
        for item in items.as_array().ok_or("a list of the batch is none")? {
            let is_post = list == "posts";
            if !is_post {
                known.owns(Kind::Record, item["id"].as_str().unwrap_or_default())?;
            }
            match (list.as_str(), item.as_object().map_or(0, serde_json::Map::len)) {
                ("deletes", 1) => {}
                ("patches" | "posts", 1..) => {
                    let name = record(bounds, known, item, is_post)?;
                    creates.extend(
                        is_post.then(|| known.create(Kind::Record, name)).transpose()?.into_iter().flatten(),
                    );
                }
                _ => return Err("no such list or entry of a batch is needed"),
            }
        }
    }
    let made = known.made.iter().filter(|(kind, _)| *kind == Kind::Record).count();
    if made + creates.len() > RECORDS_MAX { Err("more records than a run creates") } else { Ok(creates) }
}

/// The name of a record whose name and target are this run's. A patch may leave them as they are.
fn record<'a>(
    bounds: &Bounds,
    known: &Known,
    item: &'a Value,
    is_whole: bool,
) -> Result<&'a str, &'static str> {
    let fits = |member: &str, test: &dyn Fn(&str) -> bool| match item.get(member) {
        None => !is_whole,
        Some(value) => value.as_str().is_some_and(test),
    };
    let is_ours = |content: &str| {
        let tunnel = content.strip_suffix(".cfargotunnel.com");
        content.starts_with("192.0.2.") || tunnel.is_some_and(|id| known.owns(Kind::Tunnel, id).is_ok())
    };
    if !fits("type", &|kind| ["A", "CNAME", "TXT"].contains(&kind)) {
        return Err("a record of another type");
    }
    if item["type"] != "TXT" && !fits("content", &is_ours) {
        return Err("a record that leads elsewhere");
    }
    if !fits("name", &|name| bounds.owns_hostname(name)) {
        return Err("the record's name is not this run's");
    }
    Ok(item["name"].as_str().unwrap_or_default())
}

/// The place of an application whose places are all this run's.
fn application<'a>(bounds: &Bounds, json: &'a Value) -> Result<&'a str, &'static str> {
    let list = |name: &str| json[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_link_member = |key: &String| ["id", "precedence"].contains(&key.as_str());
    let is_link =
        |one: &Value| one.is_string() || one.as_object().is_some_and(|link| link.keys().all(is_link_member));
    let uris = list("destinations").iter().map(|one| &one["uri"]);
    let places = uris.chain(list("self_hosted_domains")).chain(json.get("domain"));
    let places: Vec<&str> = places.map(|place| place.as_str().unwrap_or_default()).collect();
    if json["type"] != "self_hosted" || list("destinations").iter().any(|one| one["type"] != "public") {
        return Err("an application of another type");
    }
    if list("tags").is_empty() || list("tags").iter().any(|tag| *tag != *bounds.tag) {
        return Err("the application's tag is not this run's");
    }
    if !list("policies").iter().all(is_link) {
        return Err("a policy would be created");
    }
    if !places.iter().all(|place| bounds.owns_hostname(host(place))) {
        return Err("the application's place is not this run's");
    }
    places.first().copied().ok_or("the application names no place")
}

/// The hostname of an application's place.
pub fn host(place: &str) -> &str {
    place.split('/').next().unwrap_or_default()
}

/// A configuration, if every rule of others is in it as it was read.
fn configuration(bounds: &Bounds, read: Option<&str>, body: &str) -> Judgement {
    let written = foreign_rules(bounds, body).ok_or("the configuration cannot be read")?;
    let present = read.map(|read| rules_to_keep(bounds, read)).unwrap_or_default();
    let is_first = present.is_empty() && matches!(written.as_slice(), [rule] if hostname(rule).is_none());
    if is_first || written == present {
        return Ok(Creates::new());
    }
    Err("a rule of others is not as it was read")
}

/// The rules in an answer that every later write keeps, the last one for everything included.
pub fn rules_to_keep<'a>(bounds: &Bounds, answer: &'a str) -> Vec<&'a str> {
    member(answer, "result").and_then(|result| foreign_rules(bounds, result)).unwrap_or_default()
}

fn foreign_rules<'a>(bounds: &Bounds, text: &'a str) -> Option<Vec<&'a str>> {
    let config = member(text, "config").filter(|config| *config != "null")?;
    let rules: Vec<&'a RawValue> = serde_json::from_str(member(config, "ingress")?).ok()?;
    let is_ours = |rule: &str| hostname(rule).is_some_and(|name| bounds.owns_hostname(&name));
    Some(rules.into_iter().map(RawValue::get).filter(|rule| !is_ours(rule)).collect())
}

/// The bytes of a member of an object.
pub fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let members: BTreeMap<String, &'a RawValue> = serde_json::from_str(text).ok()?;
    members.get(name).map(|value| value.get())
}

pub fn hostname(rule: &str) -> Option<String> {
    let rule: Value = serde_json::from_str(rule).ok()?;
    rule.get("hostname")?.as_str().map(str::to_owned)
}
