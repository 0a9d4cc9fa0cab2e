//! Says the foreign rules of the configured tunnels as endpoints, by which an object would publish the same.
//!
//! An endpoint takes its rule over where it stands, and no request is answered by another rule or with other options then.
//! A rule that no endpoint says so is told with the reason.

use crate::ingress::{Document, Owned, Rule};
use crate::model::endpoint::{Endpoint, Labels, Property, annotation_of};
use crate::model::text::without_userinfo;
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::Settings;
use crate::reconcile::canonical::{CNAME, RESOURCE_LABEL, TUNNEL, TUNNEL_SERVICE, properties_of_rule};
use crate::reconcile::reading::EndpointReader;
use crate::reconcile::snapshot::Snapshot;

/// A foreign rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRule {
    /// Its tunnel, its number counted from 1 as in cloudflared, its hostname and its path.
    pub named: String,
    /// The endpoint that publishes the same, or the reason why none does.
    pub endpoint: Result<Endpoint, String>,
    /// The fields that no endpoint says, and that stay with the rule.
    pub unmanaged: Vec<Box<str>>,
}

/// Every foreign rule, in the order of the tunnels. `namespace` is that of the objects, which a guard goes by.
pub fn foreign_rules(snapshot: &Snapshot, settings: &Settings, namespace: &str) -> Vec<ForeignRule> {
    let own = snapshot.own_rules(settings);
    let mut found = Vec::new();
    for (tunnel, present) in &snapshot.tunnels {
        let document = &present.document;
        let now = document.owned(&|rule| own.has(tunnel, rule));
        // With those that become ours.
        let mut owned = now.clone();
        let teller = Teller { snapshot, settings, namespace, tunnel, document, now };
        for (index, rule) in document.rules().iter().enumerate() {
            // A last answer to everything publishes nothing.
            if own.has(tunnel, rule) || rule.is_catch_all() && rule.service().starts_with("http_status:") {
                continue;
            }
            let then = owned.and(&|other| std::ptr::eq(other, rule));
            let endpoint = teller.endpoint(rule, index + 1, &then);
            owned = if endpoint.is_ok() { then } else { owned };
            let named = format!("{}, rule {}, {}", settings.name_of(tunnel), index + 1, rule.named());
            found.push(ForeignRule { named, endpoint, unmanaged: rule.unmanaged_fields() });
        }
    }
    found
}

struct Teller<'a> {
    snapshot: &'a Snapshot,
    settings: &'a Settings,
    namespace: &'a str,
    tunnel: &'a TunnelId,
    document: &'a Document,
    now: Owned<'a>,
}

impl Teller<'_> {
    /// `owned` are the rules once this one is ours.
    fn endpoint(&self, rule: &Rule, number: usize, owned: &Owned<'_>) -> Result<Endpoint, String> {
        let policy = &self.settings.policy;
        if matches!(rule.hostname(), "" | "*") {
            return Err("it has no hostname".to_owned());
        }
        let hostname = Hostname::parse(rule.folded_hostname()).map_err(|error| error.to_string())?;
        let (name, path) = (hostname.as_str(), rule.path());
        if !rule.has_hostname(&hostname) {
            return Err("its hostname ends in a dot, and visitors ask for it without".to_owned());
        }
        if !policy.filter.matches(name) || self.snapshot.zone_of(name).is_none() {
            return Err("its hostname is outside the domain filter or the zones".to_owned());
        }
        let leads = |record: &Record| record.proxied && *record.content == *self.tunnel.hostname();
        if !self.snapshot.answering(name).iter().any(leads) {
            return Err("no proxied record leads its hostname to this tunnel".to_owned());
        }
        let endpoint = Endpoint {
            dns_name: name.to_owned(),
            targets: vec![rule.service().to_owned()],
            record_type: CNAME.to_owned(),
            set_identifier: path.map(|_| format!("rule {number}")).unwrap_or_default(),
            provider_specific: self.properties(rule),
            ..Endpoint::default()
        };
        let resource = format!("crd/{}/{name}", self.namespace);
        let labels = Labels::from_iter([(RESOURCE_LABEL, &*resource)]);
        let mut reader = EndpointReader::new(self.settings, &self.snapshot.access);
        let read = reader.read(&Endpoint { labels, ..endpoint.clone() });
        let read = read.into_iter().next().ok_or("its service is no service")?;
        let publication =
            read.publication.map_err(|problem| without_userinfo(&problem.to_string(), "://"))?;
        let after =
            publication.rule.map(|wanted| self.document.effect(&Rule::wanted(&wanted))).unwrap_or_default();
        if let Some(lost) = self.document.effect(rule).into_iter().find(|option| !after.contains(option)) {
            return Err(format!("no annotation keeps {} {:?}", annotation_of(&lost.name), lost.value));
        }
        if let Some(refusal) = self.now.refusal(&hostname, path) {
            return Err(refusal.to_string());
        }
        owned.reordered(&hostname, path).map_or(Ok(endpoint), |change| Err(format!("taken over, {change}")))
    }

    /// The rule's own, and what a default of ours would change.
    fn properties(&self, rule: &Rule) -> Vec<Property> {
        let mut properties = properties_of_rule(rule);
        properties.retain(|property| &*property.name != TUNNEL_SERVICE);
        let defaults = self.settings.policy.origin_defaults.properties();
        for option in self.document.effect(rule) {
            let names = |one: &Property| one.name == option.name;
            if defaults.iter().any(names) && !properties.iter().any(names) && !option.value.is_empty() {
                properties.push(option);
            }
        }
        if self.tunnel != self.settings.default_tunnel() {
            properties.push(Property::new(TUNNEL, self.settings.name_of(self.tunnel)));
        }
        properties
    }
}
