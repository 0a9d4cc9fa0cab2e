//! Other people and programs that write the same account, at any time.

use cloudflare_emulator::{Cloudflare, Record};
use serde_json::{Map, Value, json};

use crate::claims::Slot;
use crate::focus::Focus;
use crate::foreign::{Foreign, Place, document, is_stamped, place};
use crate::objects::CONTESTED;
use crate::random::Random;

/// The services of the strangers' rules begin so.
pub(crate) const THEIRS: &str = "http://theirs-";

/// The path of rules of theirs that no object asks for.
pub(crate) const UNWANTED_PATH: &str = "^/theirs(/|$)";

/// And paths of applications begin so.
const UNWANTED_APPLICATION: &str = "/theirs-";

/// Hostnames of objects that a stranger protects with an application of its own. They are few, so that one is often
/// there before an object asks for a login, and the others have no excuse.
const COVERED: [&str; 2] = ["shop.example.com", "d.example.org"];

/// What another owner publishes in the same account with a program of its own.
pub(crate) const OTHER_HOST: &str = "other.example.com";
/// What it wants as objects do, and has if it was the first.
pub(crate) const OTHER_WISH: &str = "t.example.com";
pub(crate) const OTHER_TUNNEL: &str = "home";
pub(crate) const OTHER_URL: &str = "https://other.example.com/";
pub(crate) const OTHER_SERVICE: &str = "http://neighbour:80";

/// What visitors of foreign hostnames ask for. No object publishes there.
pub(crate) const FOREIGN_URLS: [&str; 5] = [
    "https://hand.example.com/",
    "https://anything.example.com/",
    "https://legacy.example.com/theirs",
    "https://hand.example.org/",
    "https://elsewhere.example.com/",
];

/// How many numbers there are of what strangers do; what is more likely has several.
pub(crate) const DEEDS: usize = 25;

/// One thing that a stranger does.
#[derive(Clone, Debug)]
pub(crate) struct Stranger {
    kind: Kind,
    tunnel: &'static str,
    /// Which of those that are there.
    which: usize,
    /// Makes what is written its own.
    number: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AddRule {
        host: &'static str,
        path: Option<&'static str>,
    },
    /// With options, and anywhere before the last rule.
    AddRuleBetween {
        host: &'static str,
    },
    RemoveRule,
    ChangeFrame,
    AddRecord {
        host: &'static str,
        kind: &'static str,
    },
    RemoveRecord,
    /// A record with a comment that is copied from one of ours.
    CopyStamp {
        host: &'static str,
    },
    /// Beside what objects ask for.
    AddApplication {
        host: &'static str,
    },
    /// Over exactly what objects ask for, with a login or with a Bypass policy.
    CoverHost {
        host: &'static str,
        path: Option<&'static str>,
        is_bypass: bool,
    },
    RemoveApplication,
    // What is ours:
    RemoveOurRule,
    ChangeOurRule,
    RemoveOurRecord,
    RedirectOurRecord,
    UnproxyOurRecord,
    RemoveOurApplication,
    ChangeOurApplication,
    OpenOurApplication,
}

impl Stranger {
    pub(crate) fn random(random: &mut Random, focus: &Focus, number: usize) -> Self {
        let host = random.pick(&focus.contested);
        let kind = match random.pick(&focus.deeds) {
            0 | 1 => {
                Kind::AddRule { host, path: random.pick(&[None, Some(UNWANTED_PATH), Some("^/api(/|$)")]) }
            }
            2 | 3 => Kind::AddRule { host: random.pick(&focus.hosts), path: Some(UNWANTED_PATH) },
            4 => Kind::RemoveRule,
            5 => Kind::ChangeFrame,
            6 | 7 => Kind::AddRecord { host, kind: random.pick(&["A", "CNAME", "TXT", "tunnel"]) },
            8 => Kind::RemoveRecord,
            9 => Kind::AddApplication { host },
            10 => Kind::RemoveApplication,
            11 => Kind::RemoveOurRule,
            12 => Kind::ChangeOurRule,
            13 => Kind::RemoveOurRecord,
            14 => Kind::RedirectOurRecord,
            15 => Kind::UnproxyOurRecord,
            16 => Kind::CopyStamp { host },
            17..20 => Kind::CoverHost {
                host: random.pick(&COVERED),
                path: random.pick(&[None, None, Some("/api")]),
                is_bypass: random.pick(&[false, false, true]),
            },
            20 | 21 => Kind::CoverHost {
                host,
                path: random.pick(&[None, Some("/api")]),
                is_bypass: random.pick(&[false, true]),
            },
            22 => Kind::ChangeOurApplication,
            23 => Kind::OpenOurApplication,
            _ => Kind::RemoveOurApplication,
        };
        Self { kind, tunnel: random.pick(&["home", "office"]), which: random.below(50), number }
    }

    /// A rule of theirs that no object asks for, between those that are there.
    pub(crate) fn between(random: &mut Random, focus: &Focus, number: usize) -> Self {
        let kind = Kind::AddRuleBetween { host: random.pick(&focus.hosts) };
        Self { kind, tunnel: random.pick(&["home", "office"]), which: random.below(50), number }
    }

    pub(crate) fn is_between(&self) -> bool {
        matches!(self.kind, Kind::AddRuleBetween { .. })
    }

    /// Does it, and takes note of the hostnames whose visitors may get something else by it.
    pub(crate) fn act(&self, cloudflare: &mut Cloudflare, foreign: &mut Foreign) {
        match self.kind {
            Kind::AddRule { host, path } => self.add_rule(cloudflare, foreign, host, path, &json!({}), 0),
            Kind::AddRuleBetween { host } => {
                let options = json!({"noTLSVerify": true, "httpHostHeader": "theirs.test", "connectTimeout": self.number});
                self.add_rule(cloudflare, foreign, host, Some(UNWANTED_PATH), &options, self.which);
            }
            Kind::RemoveRule | Kind::ChangeFrame | Kind::RemoveOurRule | Kind::ChangeOurRule => {
                self.edit_document(cloudflare, foreign);
            }
            Kind::AddRecord { host, kind } => self.add_record(cloudflare, foreign, host, kind, None),
            Kind::CopyStamp { host } => {
                let comments = cloudflare.zones().iter().flat_map(|zone| cloudflare.records(&zone.id));
                let ours = comments
                    .filter(|record| record.kind == "CNAME" && !foreign.is_foreign_record(&record.id));
                let comments: Vec<String> = ours.filter_map(|record| record.comment.clone()).collect();
                if let Some(comment) = self.choose(comments) {
                    self.add_record(cloudflare, foreign, host, "A", Some(comment));
                }
            }
            Kind::RemoveRecord => {
                let theirs = |record: &Record| foreign.is_foreign_record(&record.id);
                // Some stay for good: visitors look at them.
                let is_contested =
                    |record: &Record| CONTESTED.contains(&&*record.name) && !record.name.is_empty();
                if let Some((zone, id, name)) =
                    self.choose_record(cloudflare, |record| theirs(record) && is_contested(record))
                {
                    let mut records = cloudflare.records(&zone).iter();
                    let was_taken_over =
                        records.any(|record| record.id == id && foreign.was_taken_over(record));
                    if cloudflare.delete_record(&zone, &id).is_ok() {
                        foreign.touch(&name);
                        foreign.deleted_record(&id);
                        if was_taken_over {
                            foreign.orphan(&name);
                        }
                    }
                }
            }
            Kind::RemoveOurRecord | Kind::RedirectOurRecord | Kind::UnproxyOurRecord => {
                self.edit_our_record(cloudflare, foreign);
            }
            Kind::AddApplication { host } => {
                let application = json!({"type": "self_hosted", "name": format!("theirs {}", self.number),
                    "domain": format!("{host}{UNWANTED_APPLICATION}{}", self.number), "session_duration": "6h"});
                if let Ok(id) = cloudflare.add_application(&application) {
                    foreign.wrote_application(cloudflare, &id);
                }
            }
            Kind::CoverHost { host, path, is_bypass } => {
                let destinations = destinations_of((host, path));
                let policies = if is_bypass { bypass() } else { json!([]) };
                let application = json!({"type": "self_hosted", "name": format!("theirs {}", self.number),
                    "destinations": destinations, "policies": policies, "session_duration": "6h"});
                if let Ok(id) = cloudflare.add_application(&application) {
                    foreign.wrote_application(cloudflare, &id);
                    foreign.touch(host);
                }
            }
            Kind::ChangeOurApplication | Kind::OpenOurApplication => {
                let all = cloudflare.applications().iter().map(|application| application.id.clone());
                let all = all.filter(|id| !foreign.is_foreign_application(id));
                if let Some(id) = self.choose(all.collect()) {
                    touch_hosts_of(cloudflare, &id, foreign);
                    let mut fields = Value::Object(cloudflare.application(&id).fields.clone());
                    if self.kind == Kind::OpenOurApplication {
                        foreign.open(&application_hosts(&cloudflare.application(&id).fields));
                        fields["policies"] = bypass();
                    } else {
                        fields["session_duration"] = json!("1h");
                    }
                    // What Cloudflare does not take any more stays.
                    let _ = cloudflare.put_application(&id, &fields);
                }
            }
            Kind::RemoveApplication | Kind::RemoveOurApplication => {
                let is_theirs = self.kind == Kind::RemoveApplication;
                let all = cloudflare.applications().iter().map(|application| application.id.clone());
                let all = all.filter(|id| foreign.is_foreign_application(id) == is_theirs);
                if let Some(id) = self.choose(all.collect()) {
                    touch_hosts_of(cloudflare, &id, foreign);
                    cloudflare.delete_application(&id);
                    foreign.deleted_application(&id);
                }
            }
        }
    }

    fn choose<T>(&self, mut all: Vec<T>) -> Option<T> {
        let count = all.len();
        (count > 0).then(|| all.swap_remove(self.which % count))
    }

    fn choose_record(
        &self,
        cloudflare: &Cloudflare,
        is_meant: impl Fn(&Record) -> bool,
    ) -> Option<(String, String, String)> {
        let mut all = Vec::new();
        for zone in cloudflare.zones() {
            let meant = cloudflare.records(&zone.id).iter().filter(|record| is_meant(record));
            all.extend(meant.map(|record| (zone.id.clone(), record.id.clone(), record.name.clone())));
        }
        self.choose(all)
    }

    /// The tunnel, unless it was deleted.
    fn id_of(&self, cloudflare: &Cloudflare) -> Option<String> {
        let tunnel = cloudflare.tunnel(self.tunnel);
        (!tunnel.deleted).then(|| tunnel.id.clone())
    }

    /// `place_among`: behind how many of the rules that are there, as far as there are so many before the last one.
    fn add_rule(
        &self,
        cloudflare: &mut Cloudflare,
        foreign: &mut Foreign,
        host: &str,
        path: Option<&str>,
        options: &Value,
        place_among: usize,
    ) {
        let Some(tunnel) = self.id_of(cloudflare) else { return };
        let ours = foreign.ours(cloudflare, &tunnel);
        let mut written = document(cloudflare, &tunnel);
        let is_taken = written
            .rules
            .iter()
            .map(|rule| place(rule))
            .any(|place| place.hostname == host && place.path.as_deref() == path);
        // A rule that a stamp names passes for ours, whichever program makes it.
        let place = Place { hostname: host.to_owned(), path: path.map(str::to_owned) };
        if is_taken || is_stamped(cloudflare, &tunnel, &place) {
            return;
        }
        let service = format!("{THEIRS}{}:80", self.number);
        let rule = json!({"hostname": host, "service": service, "note": self.number});
        let mut rule = rule;
        if let (Some(path), Some(members)) = (path, rule.as_object_mut()) {
            members.insert("path".to_owned(), json!(path));
        }
        if options.as_object().is_some_and(|options| !options.is_empty()) {
            rule["originRequest"] = options.clone();
        }
        let index = place_among % written.rules.len().max(1);
        written.rules.insert(index, rule.to_string());
        if cloudflare.put_configuration(&tunnel, &written.text()).is_ok() {
            foreign.touch(host);
            foreign.wrote_document(cloudflare, &tunnel, &ours);
        }
    }

    fn edit_document(&self, cloudflare: &mut Cloudflare, foreign: &mut Foreign) {
        let Some(tunnel) = self.id_of(cloudflare) else { return };
        let mut ours = foreign.ours(cloudflare, &tunnel);
        let mut written = document(cloudflare, &tunnel);
        match self.kind {
            Kind::ChangeFrame => {
                let frame = format!("{{\"connectTimeout\": {}}}", self.number);
                written.frame.insert("originRequest".to_owned(), frame);
            }
            Kind::RemoveRule => {
                // What visitors look at stays.
                let is_meant = |rule: &&String| rule.contains(THEIRS) && !ours.contains(rule);
                let Some(rule) = self.choose(written.rules.iter().filter(is_meant).cloned().collect()) else {
                    return;
                };
                foreign.touch(&place(&rule).hostname);
                written.rules.retain(|other| *other != rule);
            }
            _ => {
                let Some(rule) = self.choose(ours.clone()) else { return };
                let Some(index) = written.rules.iter().position(|other| *other == rule) else { return };
                foreign.touch(&place(&rule).hostname);
                if self.kind == Kind::RemoveOurRule {
                    written.rules.remove(index);
                } else {
                    let changed = rule.replacen("http://", &format!("http://changed-{}-", self.number), 1);
                    written.rules[index].clone_from(&changed);
                    ours.push(changed);
                }
            }
        }
        if cloudflare.put_configuration(&tunnel, &written.text()).is_ok() {
            foreign.wrote_document(cloudflare, &tunnel, &ours);
        }
    }

    fn add_record(
        &self,
        cloudflare: &mut Cloudflare,
        foreign: &mut Foreign,
        host: &str,
        kind: &str,
        comment: Option<String>,
    ) {
        let zone = if host.ends_with(".org") { "example.org" } else { "example.com" };
        let target = cloudflare.tunnel(self.tunnel).hostname();
        let (kind, content) = match kind {
            "A" => ("A", format!("192.0.2.{}", 1 + self.number % 250)),
            "TXT" => ("TXT", format!("\"theirs {}\"", self.number)),
            "tunnel" => ("CNAME", target),
            _ => ("CNAME", format!("host-{}.test", self.number)),
        };
        let record = json!({"name": host, "type": kind, "content": content, "ttl": 1, "proxied": kind != "TXT", "comment": comment});
        if let Ok(id) = cloudflare.add_record(zone, record) {
            let record = cloudflare.records(zone).iter().find(|record| record.id == id).cloned();
            foreign.touch(host);
            foreign.wrote_record(&record.expect("it was just made"));
        }
    }

    fn edit_our_record(&self, cloudflare: &mut Cloudflare, foreign: &mut Foreign) {
        let is_ours = |record: &Record| record.kind == "CNAME" && !foreign.is_foreign_record(&record.id);
        let Some((zone, id, name)) = self.choose_record(cloudflare, is_ours) else { return };
        foreign.touch(&name);
        let done = match self.kind {
            Kind::RemoveOurRecord => cloudflare.delete_record(&zone, &id),
            Kind::UnproxyOurRecord => cloudflare.patch_record(&zone, &id, &json!({"proxied": false})),
            _ => cloudflare.patch_record(&zone, &id, &json!({"content": "redirected.test"})),
        };
        if done.is_ok() && self.kind == Kind::RemoveOurRecord {
            foreign.orphan(&name);
        }
    }
}

/// Takes note of every hostname that an application protects.
/// The policies of an application that lets every visitor past.
fn bypass() -> Value {
    json!([{"name": "all", "decision": "bypass", "include": [{"everyone": {}}]}])
}

fn touch_hosts_of(cloudflare: &Cloudflare, application: &str, foreign: &mut Foreign) {
    for host in application_hosts(&cloudflare.application(application).fields) {
        foreign.touch(&host);
    }
}

/// What an application that an object asks for stands over.
pub(crate) fn destinations_of((host, path): Slot) -> Vec<Value> {
    let at = format!("{host}{}", path.unwrap_or_default());
    let all = path.map(|_| format!("{at}/*"));
    [at].into_iter().chain(all).map(|uri| json!({"type": "public", "uri": uri})).collect()
}

/// Whether an application of theirs is for paths that no object asks for.
pub(crate) fn is_beside_objects(fields: &Map<String, Value>) -> bool {
    fields.get("domain").and_then(Value::as_str).is_some_and(|domain| domain.contains(UNWANTED_APPLICATION))
}

/// What an application stands over: hostnames with their paths.
pub(crate) fn application_uris(fields: &Map<String, Value>) -> Vec<&str> {
    let destinations = fields.get("destinations").and_then(Value::as_array).into_iter().flatten();
    let uris = destinations.filter_map(|destination| destination["uri"].as_str());
    uris.chain(fields.get("domain").and_then(Value::as_str)).collect()
}

/// The hostnames that an application protects.
pub(crate) fn application_hosts(fields: &Map<String, Value>) -> Vec<String> {
    let host = |uri: &str| uri.split('/').next().unwrap_or_default().to_owned();
    application_uris(fields).into_iter().map(host).collect()
}
