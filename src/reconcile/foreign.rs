//! Shows each foreign rule of the configured tunnels as an endpoint that publishes the same rule.
//!
//! The endpoint takes its rule over in place: each request is still answered by the same rule with the same options. A
//! rule that no endpoint can take over in place is returned with the reason.

use crate::ingress::{Document, Rule, is_status};
use crate::model::endpoint::{Endpoint, Labels, Property, annotation_of};
use crate::model::text::mask_userinfo;
use crate::model::{Hostname, Record, TunnelId};
use crate::reconcile::Settings;
use crate::reconcile::canonical::{CNAME, RESOURCE_LABEL, properties_in_document};
use crate::reconcile::endpoint_reader::EndpointReader;
use crate::reconcile::property_name::{TUNNEL, TUNNEL_SERVICE};
use crate::reconcile::snapshot::Snapshot;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRule {
    /// The rule's tunnel, its number counted from 1 as in cloudflared, its hostname and its path.
    pub named: String,
    /// The endpoint that publishes the same rule, or the reason why no endpoint does.
    pub endpoint: Result<Endpoint, String>,
    /// The fields that no endpoint can set. A takeover preserves them.
    pub unmanaged: Vec<Box<str>>,
}

/// Every foreign rule, in the order of the tunnels. `namespace` is the objects' namespace, for the namespace guard.
pub fn foreign_rules(snapshot: &Snapshot, namespace: &str) -> Vec<ForeignRule> {
    let own = snapshot.own_digests();
    let settings = &*snapshot.settings;
    let mut reader = EndpointReader::new(settings, &snapshot.access);
    let mut found = Vec::new();
    for (tunnel, present) in &snapshot.tunnels {
        let document = &present.document;
        let marked = document.marked(&|rule| own.has(tunnel, rule));
        // Our present rules, with the foreign rules that the endpoints found so far take over.
        let mut marked_so_far = marked.clone();
        for (rule, number) in document.rules().iter().zip(1..) {
            // A catch-all with a status publishes nothing.
            if own.has(tunnel, rule) || rule.is_catch_all() && is_status(rule.service()) {
                continue;
            }
            let marked_after = marked_so_far.with_own(&|other| std::ptr::eq(other, rule));
            let endpoint = reached(snapshot, tunnel, rule).and_then(|hostname| {
                let mut endpoint = endpoint(settings, tunnel, rule);
                let lost = lost_options(&mut reader, document, rule, &endpoint, namespace)?.into_iter();
                // Each option that a default of ours would change gets its present value.
                endpoint.provider_specific.extend(lost.filter(|option| !option.value.is_empty()));
                if let Some(lost) = lost_options(&mut reader, document, rule, &endpoint, namespace)?.first() {
                    return Err(format!(
                        "no annotation keeps {} {:?}",
                        annotation_of(&lost.name),
                        lost.value
                    ));
                }
                let reordering = || {
                    let effect = marked_after.effect_of_reordering(&hostname, rule.path())?;
                    Some(format!("taking the rule over would {effect}"))
                };
                let conflict = marked.conflict(&hostname, rule.path(), &|_| true);
                conflict.or_else(reordering).map_or(Ok(endpoint), Err)
            });
            marked_so_far = if endpoint.is_ok() { marked_after } else { marked_so_far };
            let named = format!("{}, rule {number}, {}", settings.name_of(tunnel), rule.described());
            found.push(ForeignRule { named, endpoint, unmanaged: rule.unmanaged_fields() });
        }
    }
    found
}

/// The options of the rule that would change if the endpoint took it over, with their present values.
fn lost_options(
    reader: &mut EndpointReader<'_>,
    document: &Document,
    rule: &Rule,
    endpoint: &Endpoint,
    namespace: &str,
) -> Result<Vec<Property>, String> {
    let resource = format!("crd/{namespace}/{}", endpoint.dns_name);
    let labels = Labels::from_iter([(RESOURCE_LABEL, &*resource)]);
    let read = reader.read(&Endpoint { labels, ..endpoint.clone() });
    let read = read.into_iter().next().ok_or("the webhook does not accept its service")?.publication;
    let publication = read.map_err(|problem| mask_userinfo(&problem.to_string(), "://"))?;
    let lost = publication.rule.map(|wanted| document.lost_options(rule, document, &wanted));
    Ok(lost.unwrap_or_default())
}

/// The rule's hostname, if a record points to the rule's tunnel and an object may publish the hostname.
fn reached(snapshot: &Snapshot, id: &TunnelId, rule: &Rule) -> Result<Hostname, String> {
    let hostname = Hostname::parse(rule.folded_hostname())?;
    let name = hostname.as_str();
    let points_here = |record: &Record| record.proxied && record.tunnel().as_ref() == Some(id);
    if !rule.has_hostname(&hostname) {
        Err("its hostname ends in a dot, and the hostname of a request does not".to_owned())
    } else if !snapshot.operator().filter.matches(name) || snapshot.zone_of(name).is_none() {
        Err("its hostname is outside the domain filter or the zones".to_owned())
    } else if !snapshot.answering(name).iter().any(points_here) {
        Err("no proxied record of its hostname points to this tunnel".to_owned())
    } else {
        Ok(hostname)
    }
}

/// The endpoint that asks for the rule.
fn endpoint(settings: &Settings, tunnel: &TunnelId, rule: &Rule) -> Endpoint {
    // ExternalDNS splits an annotation `target` at commas, and removes a dot at its end.
    let is_bent = rule.service().contains(',') || rule.service().ends_with('.');
    let mut properties = properties_in_document(rule);
    properties.retain(|property| &*property.name != TUNNEL_SERVICE || is_bent);
    if tunnel != settings.default_tunnel() {
        properties.push(Property::new(TUNNEL, settings.name_of(tunnel)));
    }
    Endpoint {
        dns_name: rule.folded_hostname().to_owned(),
        targets: vec![rule.service().to_owned()],
        record_type: CNAME.to_owned(),
        // The path is unique in the hostname, and does not depend on the position of the rule.
        set_identifier: rule.path().unwrap_or_default().to_owned(),
        provider_specific: properties,
        ..Endpoint::default()
    }
}
