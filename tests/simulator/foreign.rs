//! What is foreign in an account, and what may never become of it.

use std::collections::{BTreeMap, BTreeSet};

use cloudflare_emulator::{Cloudflare, Record};
use external_dns_cloudflare_tunnel_webhook::model::{TunnelId, hostname};
use external_dns_cloudflare_tunnel_webhook::reconcile::stamp::{Digest, Stamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::claims::Slot;
use crate::objects::{CONTESTED, Object};
use crate::settings::Settings;
use crate::strangers::{UNWANTED_PATH, application_uris, destinations_of, is_beside_objects};
use crate::touched::{Place as Touch, Touched, is_over};

/// Everything that is not ours, as its writers left it.
#[derive(Debug)]
pub(crate) struct Foreign {
    /// They say what may be taken over.
    settings: Settings,
    /// By the tunnel's id.
    documents: BTreeMap<String, Document>,
    /// By the record's id.
    records: BTreeMap<String, String>,
    /// By the application's id.
    applications: BTreeMap<String, Map<String, Value>>,
    /// Hostnames of ours whose stamp another writer took away: what is left of them has no owner.
    orphaned: BTreeSet<String>,
    /// Rules of ours that an old reading brought back, by their tunnel's id. A stamp that an old list shows may name
    /// one still.
    brought_back: BTreeSet<(String, String)>,
    /// Where objects asked for a login.
    protected: BTreeSet<Slot>,
    /// Where another writer changed what visitors get, since this was last asked for.
    touched: Touched,
    /// Hostnames whose application another writer opened to every visitor.
    opened: BTreeSet<String>,
}

/// A document taken apart: every member but the rules, and the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) frame: BTreeMap<String, String>,
    pub(crate) rules: Vec<String>,
}

/// What a rule is for.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Place {
    #[serde(default)]
    pub(crate) hostname: String,
    pub(crate) path: Option<String>,
}

impl Document {
    pub(crate) fn of(config: &RawValue) -> Self {
        let mut frame: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(config.get()).expect("an object");
        let ingress = frame.remove("ingress").map_or_else(|| "[]".to_owned(), |rules| rules.get().to_owned());
        let rules: Vec<Box<RawValue>> = serde_json::from_str(&ingress).expect("a list");
        Self {
            frame: frame.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect(),
            rules: rules.iter().map(|rule| rule.get().to_owned()).collect(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let members = self.frame.iter().map(|(name, value)| format!("{name:?}:{value}"));
        let all: Vec<String> = members.chain([format!("\"ingress\":[{}]", self.rules.join(","))]).collect();
        format!("{{{}}}", all.join(","))
    }
}

pub(crate) fn place(rule: &str) -> Place {
    serde_json::from_str(rule).expect("a rule")
}

pub(crate) fn document(cloudflare: &Cloudflare, tunnel: &str) -> Document {
    cloudflare.configuration(tunnel).map(Document::of).unwrap_or_default()
}

/// Whether a record says that it is ours.
pub(crate) fn is_ours(record: &Record) -> bool {
    record.comment.as_deref().and_then(Stamp::parse).is_some()
}

/// Whether a stamp of ours claims the hostname. A record that only leads visitors to a rule of others is kept, and is
/// never asked for.
pub(crate) fn is_claimed(record: &Record) -> bool {
    record.comment.as_deref().and_then(Stamp::parse).is_some_and(|stamp| !stamp.claims.is_released)
}

/// Whether the program of the other owner wrote a record.
pub(crate) fn is_of_other(record: &Record) -> bool {
    record.comment.as_deref().is_some_and(|comment| comment.contains("owner=other"))
}

/// Whether the zone answers for a name, or none does.
pub(crate) fn is_home(cloudflare: &Cloudflare, zone: &str, name: &str) -> bool {
    let active = cloudflare.zones().iter().filter(|zone| zone.status == "active");
    let over = active.filter(|zone| hostname::is_within(name, &zone.name));
    over.max_by_key(|zone| zone.name.len()).is_none_or(|home| home.id == zone)
}

/// Whether a rule asks for a login.
pub(crate) fn is_locked(rule: &str) -> bool {
    rule.contains("\"required\":true")
}

/// Whether a record of the rule's hostname has a stamp that names the rule.
pub(crate) fn is_stamped(cloudflare: &Cloudflare, tunnel: &str, place: &Place) -> bool {
    zones_naming(cloudflare, tunnel, place).next().is_some()
}

/// Whether a rule is named only by a record of a zone that does not answer for the hostname any more.
pub(crate) fn is_of_outer_zone(cloudflare: &Cloudflare, tunnel: &str, place: &Place) -> bool {
    let mut naming = zones_naming(cloudflare, tunnel, place).peekable();
    naming.peek().is_some() && naming.all(|zone| !is_home(cloudflare, zone, &place.hostname))
}

/// The zones with a record of the rule's hostname whose stamp names the rule.
fn zones_naming<'c>(
    cloudflare: &'c Cloudflare,
    tunnel: &str,
    Place { hostname, path }: &'c Place,
) -> impl Iterator<Item = &'c str> {
    let digest = Digest::of(&TunnelId::parse(tunnel).expect("an id"), path.as_deref());
    let names_it = move |record: &Record| {
        record.name == hostname::normalize(hostname)
            && Stamp::parse(record.comment.as_deref().unwrap_or_default())
                .is_some_and(|stamp| stamp.claims.digests.contains(&digest))
    };
    let zones = cloudflare.zones().iter();
    zones.filter(move |zone| cloudflare.records(&zone.id).iter().any(&names_it)).map(|zone| &*zone.id)
}

impl Foreign {
    /// Everything that is there now is foreign.
    pub(crate) fn of(cloudflare: &Cloudflare, settings: &Settings) -> Self {
        let mut foreign = Self {
            settings: settings.clone(),
            documents: BTreeMap::new(),
            records: BTreeMap::new(),
            applications: BTreeMap::new(),
            orphaned: BTreeSet::new(),
            brought_back: BTreeSet::new(),
            protected: BTreeSet::new(),
            touched: Touched::default(),
            opened: BTreeSet::new(),
        };
        for tunnel in cloudflare.tunnels() {
            foreign.documents.insert(tunnel.id.clone(), document(cloudflare, &tunnel.id));
        }
        for record in cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id)) {
            foreign.records.insert(record.id.clone(), record.to_json().to_string());
        }
        for application in cloudflare.applications() {
            foreign.applications.insert(application.id.clone(), application.fields.clone());
        }
        foreign
    }

    /// The rules of a tunnel that are not foreign.
    pub(crate) fn ours(&self, cloudflare: &Cloudflare, tunnel: &str) -> Vec<String> {
        let theirs = self.documents.get(tunnel).map(|document| document.rules.clone()).unwrap_or_default();
        document(cloudflare, tunnel).rules.into_iter().filter(|rule| !theirs.contains(rule)).collect()
    }

    pub(crate) fn is_foreign_record(&self, id: &str) -> bool {
        self.records.contains_key(id)
    }

    /// Whether a foreign record is ours by now, and not by a comment of ours that its writer copied.
    pub(crate) fn was_taken_over(&self, record: &Record) -> bool {
        let now = record.to_json().to_string();
        is_ours(record) && self.records.get(&record.id).is_some_and(|left| *left != now)
    }

    pub(crate) fn is_foreign_application(&self, id: &str) -> bool {
        self.applications.contains_key(id)
    }

    /// Whether a rule of ours for the hostname is left alone with the record of a zone that does not answer for it any
    /// more.
    pub(crate) fn has_rule_of_outer_zone(&self, cloudflare: &Cloudflare, host: &str) -> bool {
        let mut tunnels = cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted);
        tunnels.any(|tunnel| {
            let mut places = self.ours(cloudflare, &tunnel.id).into_iter().map(|rule| place(&rule));
            places.any(|place| place.hostname == host && is_of_outer_zone(cloudflare, &tunnel.id, &place))
        })
    }

    /// Whether a rule of another writer is in the way of an object at the path: it stands there, or in another tunnel,
    /// which the hostname cannot leave then, or in the tunnel that the hostname is to go to, where it, or one for a
    /// wildcard, would answer without a login. If the object asks only for paths, a wider rule in another tunnel has
    /// all else.
    pub(crate) fn has_rule_in_way(
        &self,
        cloudflare: &Cloudflare,
        object: &Object,
        path: Option<&str>,
    ) -> bool {
        let wanted = self.settings.tunnel_of(object);
        let pattern = path.map(|path| format!("^{path}(/|$)"));
        let is_moved = |to: &str| {
            let mut records = cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id));
            records.any(|record| record.name == object.host && is_ours(record) && record.content != to)
        };
        let is_ours_locked = || {
            let tunnels = cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted);
            let mut ours = tunnels.flat_map(|tunnel| self.ours(cloudflare, &tunnel.id));
            ours.any(|rule| place(&rule).hostname == object.host && is_locked(&rule))
        };
        self.documents.iter().any(|(id, left)| {
            let tunnel = &cloudflare.tunnel(id).name;
            let would_open = |place: &Place| {
                tunnel == wanted
                    && is_over(&place.hostname, object.host)
                    && is_moved(&cloudflare.tunnel(id).hostname())
                    && is_ours_locked()
            };
            let is_there = |place: &Place| {
                tunnel != wanted || place.path == pattern || is_moved(&cloudflare.tunnel(id).hostname())
            };
            let has_rest = |rule: &str, place: &Place| {
                tunnel != wanted
                    && object.rules().all(|(path, _)| path.is_some())
                    && !rule.contains("http_status")
                    && (place.hostname.is_empty() && place.path.is_none()
                        || is_over(&place.hostname, object.host))
            };
            let standing = document(cloudflare, id).rules;
            let mut rules = left.rules.iter().filter(|rule| standing.contains(rule));
            self.settings.has_tunnel(tunnel)
                && rules.any(|rule| {
                    let place = place(rule);
                    is_over(object.host, &place.hostname) && is_there(&place)
                        || would_open(&place)
                        || has_rest(rule, &place)
                })
        })
    }

    /// Whether a record of another writer has the hostname.
    pub(crate) fn has_record_of(&self, cloudflare: &Cloudflare, host: &str) -> bool {
        let mut records = cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id));
        records.any(|record| {
            let is_theirs = self.is_foreign_record(&record.id) && !self.was_taken_over(record);
            record.name == host
                && ["A", "CNAME"].contains(&&*record.kind)
                && (is_theirs || is_of_other(record))
        })
    }

    /// Whether a record leads visitors to a rule of another writer.
    pub(crate) fn needs_record(&self, cloudflare: &Cloudflare, record: &Record) -> bool {
        let is_reached = |rule: &String| is_over(&record.name, &place(rule).hostname);
        let mut documents = self.documents.iter();
        documents.any(|(id, document)| {
            cloudflare.tunnel(id).hostname() == record.content && document.rules.iter().any(is_reached)
        })
    }

    /// Another writer changes what visitors of the hostname get.
    pub(crate) fn touch(&mut self, host: &str) {
        self.touched.add(Touch::Host(host.to_owned()));
    }

    pub(crate) fn take_touched(&mut self) -> Touched {
        std::mem::take(&mut self.touched)
    }

    /// Whether the service is that of a foreign rule for a wildcard.
    pub(crate) fn is_of_wildcard(&self, service: &str) -> bool {
        let mut rules = self.documents.values().flat_map(|document| &document.rules);
        rules.any(|rule| rule.contains(service) && place(rule).hostname.starts_with('*'))
    }

    pub(crate) fn is_orphaned(&self, host: &str) -> bool {
        self.orphaned.contains(host)
    }

    /// Whether an application of another writer protects the place, whatever its object says.
    pub(crate) fn is_covered(&self, (host, path): Slot) -> bool {
        let asked = format!("{host}{}", path.unwrap_or_default());
        let covers = |uri: &str| {
            let covered = uri.trim_end_matches("/*");
            asked.strip_prefix(covered).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.applications.values().any(|fields| {
            !is_beside_objects(fields) && application_uris(fields).iter().any(|uri| covers(uri))
        })
    }

    /// An object asks for a login there.
    pub(crate) fn ask_login(&mut self, slot: Slot) {
        self.protected.insert(slot);
    }

    /// Whether `ADOPT` lets an application be taken over: one that stands over exactly what an object asks for.
    fn may_take_application(&self, fields: &Map<String, Value>) -> bool {
        let destinations = fields.get("destinations").cloned().unwrap_or_default();
        let is_over = |slot: &Slot| destinations == Value::from(destinations_of(*slot));
        self.settings.adopt == "access" && self.protected.iter().any(is_over)
    }

    /// Another writer opens what an application of ours protects.
    pub(crate) fn open(&mut self, hosts: &[String]) {
        self.opened.extend(hosts.iter().cloned());
    }

    pub(crate) fn is_opened(&self, host: &str) -> bool {
        self.opened.contains(host)
    }

    /// What another writer opened is closed again by now.
    pub(crate) fn forget_opened(&mut self) {
        self.opened.clear();
    }

    /// Forgets what was taken over and is gone since.
    pub(crate) fn forget_taken(&mut self, cloudflare: &Cloudflare) {
        let is_there =
            |id: &String| cloudflare.applications().iter().any(|application| application.id == *id);
        self.applications.retain(|id, _| is_there(id));
    }

    /// Takes note of what another writer wrote into a tunnel: all rules but `ours` are foreign.
    pub(crate) fn wrote_document(&mut self, cloudflare: &Cloudflare, tunnel: &str, ours: &[String]) {
        let mut written = document(cloudflare, tunnel);
        written.rules.retain(|rule| !ours.contains(rule));
        self.documents.insert(tunnel.to_owned(), written);
    }

    /// A tunnel was written by an old reading of it, of which the process could not know that it was old: what others
    /// wrote since is lost, what went since is back, and no stamp names that.
    pub(crate) fn lost_update(&mut self, cloudflare: &Cloudflare, tunnel: &str) {
        let ours = self.ours(cloudflare, tunnel);
        let is_named = |rule: &String| is_stamped(cloudflare, tunnel, &place(rule));
        let (stamped, unnamed): (Vec<String>, Vec<String>) = ours.into_iter().partition(is_named);
        self.brought_back.extend(unnamed.into_iter().map(|rule| (tunnel.to_owned(), rule)));
        self.wrote_document(cloudflare, tunnel, &stamped);
    }

    /// Records were written by an old list of them, of which the process could not know that it was old: the stamps
    /// name what they named then.
    pub(crate) fn lost_stamps(&mut self, cloudflare: &Cloudflare, is_of_zone: impl Fn(&str) -> bool) {
        for tunnel in cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted) {
            for rule in self.ours(cloudflare, &tunnel.id) {
                let place = place(&rule);
                if is_of_zone(&place.hostname) && !is_stamped(cloudflare, &tunnel.id, &place) {
                    self.orphan(&place.hostname);
                }
            }
        }
    }

    /// The tunnel is gone with all its rules.
    pub(crate) fn lost_document(&mut self, tunnel: &str) {
        self.documents.remove(tunnel);
    }

    pub(crate) fn wrote_record(&mut self, record: &Record) {
        self.records.insert(record.id.clone(), record.to_json().to_string());
    }

    pub(crate) fn deleted_record(&mut self, id: &str) {
        self.records.remove(id);
    }

    pub(crate) fn wrote_application(&mut self, cloudflare: &Cloudflare, id: &str) {
        self.applications.insert(id.to_owned(), cloudflare.application(id).fields.clone());
    }

    pub(crate) fn deleted_application(&mut self, id: &str) {
        self.applications.remove(id);
    }

    /// Another writer took away the stamp that says that this hostname is ours.
    pub(crate) fn orphan(&mut self, host: &str) {
        self.orphaned.insert(host.to_owned());
    }

    /// What is there and must not be, or is not there and must be.
    pub(crate) fn violations(&self, cloudflare: &Cloudflare) -> Vec<String> {
        let mut found = Vec::new();
        let records: BTreeMap<&str, &Record> = cloudflare
            .zones()
            .iter()
            .flat_map(|zone| cloudflare.records(&zone.id))
            .map(|record| (&*record.id, record))
            .collect();
        for (id, before) in &self.records {
            let now = records.get(&**id).map(|record| record.to_json().to_string());
            if now.as_ref() != Some(before) && !self.may_take_record(cloudflare, before) {
                found.push(format!("foreign record: it was {before} and is {now:?}"));
            }
        }
        let unknown = records.values().filter(|record| !self.records.contains_key(&record.id));
        found.extend(
            unknown
                .filter(|record| !is_ours(record))
                .map(|record| format!("foreign record: no writer made {record:?}")),
        );
        for tunnel in self.documents.keys() {
            found.extend(self.document_violations(cloudflare, tunnel));
        }
        for (id, before) in &self.applications {
            let now = cloudflare.applications().iter().find(|application| application.id == *id);
            let now = now.map(|application| &application.fields);
            if now != Some(before) && !self.may_take_application(before) {
                found.push(format!("foreign application: it was {before:?} and is {now:?}"));
            }
        }
        found
    }

    /// Whether `ADOPT` lets a record be taken over.
    fn may_take_record(&self, cloudflare: &Cloudflare, json: &str) -> bool {
        let record: Value = serde_json::from_str(json).expect("a record");
        let of = |member: &str| record[member].as_str().unwrap_or_default();
        let is_to_tunnel = || {
            let mut tunnels = cloudflare.tunnels().iter();
            let is_takable = |name: &str, deleted| deleted || self.settings.has_tunnel(name);
            tunnels
                .any(|tunnel| is_takable(&tunnel.name, tunnel.deleted) && tunnel.hostname() == of("content"))
        };
        let is_reached = match self.settings.adopt {
            "all" => ["A", "CNAME"].contains(&of("type")),
            "tunnel" => of("type") == "CNAME" && is_to_tunnel(),
            _ => false,
        };
        CONTESTED.contains(&of("name")) && is_reached
    }

    /// Whether `ADOPT` lets a rule be taken over. No rule of theirs is as an object wants it.
    fn may_take_rule(&self, cloudflare: &Cloudflare, tunnel: &str, rule: &str) -> bool {
        let place = place(rule);
        self.settings.takes_rules()
            && self.settings.has_tunnel(&cloudflare.tunnel(tunnel).name)
            && (CONTESTED.contains(&&*place.hostname) || self.is_orphaned(&place.hostname))
            && place.path.as_deref() != Some(UNWANTED_PATH)
    }

    fn document_violations(&self, cloudflare: &Cloudflare, tunnel: &str) -> Vec<String> {
        let before = &self.documents[tunnel];
        let now = document(cloudflare, tunnel);
        let mut found = Vec::new();
        if now.frame != before.frame {
            found.push(format!("foreign document: {:?} became {:?}", before.frame, now.frame));
        }
        let is_ours_again = |rule: &String| self.brought_back.contains(&(tunnel.to_owned(), rule.clone()));
        let is_kept = |rule: &&String| !self.may_take_rule(cloudflare, tunnel, rule) && !is_ours_again(rule);
        let (theirs, ours): (Vec<&String>, Vec<&String>) =
            now.rules.iter().partition(|rule| before.rules.contains(rule));
        let (theirs, wanted): (Vec<_>, Vec<_>) =
            (theirs.into_iter().filter(is_kept).collect(), before.rules.iter().filter(is_kept).collect());
        if theirs != wanted {
            found.push(format!("foreign rules: {wanted:#?} became {theirs:#?}"));
        }
        for rule in ours {
            let place = place(rule);
            if !self.orphaned.contains(&place.hostname) && !is_stamped(cloudflare, tunnel, &place) {
                found.push(format!("stamp: none names the rule {rule}"));
            }
        }
        found
    }
}
