//! What ExternalDNS asks for, as the bodies that it sends. Go writes `<`, `>` and `&` as escapes.

use std::fmt::Write;

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Property};
use external_dns_cloudflare_tunnel_webhook::reconcile::Settings;
use external_dns_cloudflare_tunnel_webhook::reconcile::adjust::Adjuster;
use external_dns_cloudflare_tunnel_webhook::reconcile::canonical::OWNER_LABEL;
use external_dns_cloudflare_tunnel_webhook::reconcile::property_name::TUNNEL_SERVICE;

use crate::Outcome;
use crate::world::{
    OWNER, POLICY, PROTECTED, ZONE, api_service, has_path, hostname, hostnames_with_paths, paths, published,
    resource, service,
};

/// Endpoints of other programs in the plain body.
const OTHERS: usize = 300;
/// Endpoints in the unfriendly body.
const UNFRIENDLY: usize = 1_000;
/// So many endpoints of it hold four objects that ask for one hostname.
const RIVALS_EVERY: usize = 16;
/// Hostnames that one request of changes deletes, updates and creates.
const DELETED: usize = 10;
const UPDATED: usize = 30;
const CREATED: usize = 20;

/// Hostnames that one request of changes is about.
pub(crate) fn changed(scale: usize) -> usize {
    (DELETED + UPDATED + CREATED) * scale
}

/// Endpoints of one hostname in one request of changes.
const ENDPOINTS: usize = 800;

/// Everything that is published, as it was asked for, and what other programs are to do.
pub(crate) fn plain(scale: usize) -> String {
    everything(scale, 0)
}

/// The same, with a login in front of what has one.
pub(crate) fn protected(scale: usize) -> String {
    everything(scale, PROTECTED)
}

fn everything(scale: usize, protected: usize) -> String {
    let ours = (0..published(scale)).map(|number| endpoint(number, &hostname(number), number < protected));
    let others = (0..OTHERS * scale).map(|number| {
        format!(
            r#"{{"dnsName":"rack-{number}.{ZONE}","targets":["192.0.2.7"],"recordType":"A","recordTTL":300,"labels":{{"resource":"service/racks/rack-{number}"}}}}"#
        )
    });
    list(ours.chain(others))
}

fn endpoint(number: usize, hostname: &str, is_protected: bool) -> String {
    let mut properties = format!(
        r#"{{"name":"webhook/tunnel-service","value":"{}"}},{{"name":"webhook/origin-connect-timeout","value":"10s"}}"#,
        service(number)
    );
    if has_path(number) {
        write!(
            properties,
            r#",{{"name":"webhook/tunnel-service.api","value":"{}"}},{{"name":"webhook/tunnel-path-prefix.api","value":"/api"}}"#,
            api_service(number)
        )
        .expect("a text takes everything");
    }
    if is_protected {
        write!(properties, r#",{{"name":"webhook/access-policy","value":"{POLICY}"}}"#)
            .expect("a text takes everything");
    }
    let resource = resource(number);
    format!(
        r#"{{"dnsName":"{hostname}","targets":["192.0.2.10"],"recordType":"A","labels":{{"resource":"{resource}"}},"providerSpecific":[{properties}]}}"#
    )
}

/// What a busy cluster with careless authors asks for: long hostnames, many annotations of which some are misspelled,
/// escapes, and several objects for one hostname.
pub(crate) fn unfriendly(scale: usize) -> String {
    list((0..UNFRIENDLY * scale).map(|number| match number % 4 {
        0 => many_rules(number),
        1 => misspelled(number),
        2 => of_other_programs(number),
        _ => rival(number),
    }))
}

/// The endpoints that the unfriendly body is answered with: four rules or one mistake, and one of every four rivals.
pub(crate) fn unfriendly_answered(scale: usize) -> usize {
    UNFRIENDLY * scale / 4 * 5 + (UNFRIENDLY * scale).div_ceil(RIVALS_EVERY)
}

fn long_hostname(number: usize) -> String {
    format!("the-storefront-that-a-template-has-named-{number}.of-the-team-{}.{ZONE}", number % 40)
}

fn many_rules(number: usize) -> String {
    let mut properties = String::from(
        r#"{"name":"webhook/tunnel-service","value":"https://shop.shop.svc:8443"},{"name":"webhook/origin-server-name","value":"shop.internal"},{"name":"webhook/origin-http-host-header","value":"shop.internal"},{"name":"webhook/origin-no-tls-verify","value":"true"},{"name":"webhook/origin-keep-alive-timeout","value":"1m30s"}"#,
    );
    for group in ["api", "admin", "images"] {
        write!(
            properties,
            r#",{{"name":"webhook/tunnel-service.{group}","value":"http://{group}-{number}.shop.svc:8080"}},{{"name":"webhook/tunnel-path.{group}","value":"^/{group}/v[0-9]+/(a|b|c)\u003c?"}},{{"name":"webhook/origin-connect-timeout.{group}","value":"10s"}}"#
        )
        .expect("a text takes everything");
    }
    object(number, &long_hostname(number), "A", &properties)
}

/// Two names near a known one, two far from all.
fn misspelled(number: usize) -> String {
    let properties = r#"{"name":"webhook/tunnel-service","value":"http://shop.shop.svc:8080"},{"name":"webhook/origin-conect-timeout","value":"10s"},{"name":"webhook/origin-no-tls-verfy","value":"true"},{"name":"webhook/colour-of-the-shop","value":"\u003cblue\u003e \u0026 \"gr\u00fcn\"\n"},{"name":"webhook/team","value":"storefront"}"#;
    object(number, &long_hostname(number), "CNAME", properties)
}

/// Annotations of other programs, with texts of their own.
fn of_other_programs(number: usize) -> String {
    let properties: Vec<String> = (0..20)
        .map(|kind| {
            format!(
                r#"{{"name":"aws/note-{kind}","value":"{{\"list\":[\"a\",\"b\"],\"script\":\"if (a \u003c b \u0026\u0026 c) {{\\n}}\",\"path\":\"C:\\\\temp\\\\{number}\"}}"}}"#
            )
        })
        .collect();
    object(number, &long_hostname(number), "AAAA", &properties.join(","))
}

/// One of four objects that ask for the same hostname.
fn rival(number: usize) -> String {
    let properties =
        format!(r#"{{"name":"webhook/tunnel-service","value":"http://rival-{number}.shop.svc:8080"}}"#);
    object(number, &format!("wanted-by-four-{}.{ZONE}", number / RIVALS_EVERY), "A", &properties)
}

fn object(number: usize, hostname: &str, kind: &str, properties: &str) -> String {
    let target = if kind == "CNAME" { "lb.example.net" } else { "192.0.2.10" };
    format!(
        r#"{{"dnsName":"{hostname}","targets":["{target}"],"recordType":"{kind}","recordTTL":300,"labels":{{"managed-by":"team-storefront","ownedRecord":"{hostname}","resource":"httproute/team-{}/shop-{number}"}},"providerSpecific":[{properties}]}}"#,
        number % 40
    )
}

/// One request after a busy day: of what is published some goes and some leads elsewhere, and some is new.
pub(crate) fn changes(scale: usize, settings: &Settings) -> Outcome<String> {
    let (deleted, updated) = (DELETED * scale, (DELETED + UPDATED) * scale);
    let new = |number: usize| endpoint(number, &format!("new-{number}.{ZONE}"), false);
    let of = |endpoints: String| -> Outcome<Vec<Endpoint>> {
        let endpoints: Vec<Endpoint> = serde_json::from_str(&endpoints)?;
        let mut adjuster = Adjuster::new(settings, None);
        for endpoint in &endpoints {
            adjuster.add(endpoint);
        }
        Ok(adjuster.finish().endpoints)
    };
    let standing = |numbers: std::ops::Range<usize>| {
        of(list(numbers.map(|number| endpoint(number, &hostname(number), false))))
    };
    let create = of(list((0..CREATED * scale).map(new)))?;
    let (mut update_old, mut delete) = (standing(deleted..updated)?, standing(0..deleted)?);
    for endpoint in update_old.iter_mut().chain(&mut delete) {
        endpoint.labels.set(OWNER_LABEL, OWNER);
    }
    let mut update_new = update_old.clone();
    for endpoint in &mut update_new {
        let services =
            endpoint.provider_specific.iter_mut().filter(|property| *property.name == *TUNNEL_SERVICE);
        services
            .for_each(|property| *property = Property::new(TUNNEL_SERVICE, "http://elsewhere.shop.svc:8080"));
    }
    body([("create", create), ("updateOld", update_old), ("updateNew", update_new), ("delete", delete)])
}

/// Changes with these lists, as ExternalDNS sends them.
fn body<const N: usize>(lists: [(&str, Vec<Endpoint>); N]) -> Outcome<String> {
    let mut members = Vec::new();
    for (name, endpoints) in lists {
        members.push(format!("{name:?}:{}", serde_json::to_string(&endpoints)?));
    }
    Ok(format!("{{{}}}", members.join(",")))
}

fn adjusted(endpoints: &[Endpoint], settings: &Settings) -> Vec<Endpoint> {
    let mut adjuster = Adjuster::new(settings, None);
    for endpoint in endpoints {
        adjuster.add(endpoint);
    }
    adjuster.finish().endpoints
}

/// One object leads elsewhere that has no login.
pub(crate) fn one_change(settings: &Settings) -> Outcome<String> {
    let of = |service: &str| -> Outcome<Vec<Endpoint>> {
        let number = PROTECTED;
        let endpoints = list([endpoint(number, &hostname(number), false)].into_iter());
        let mut endpoints: Vec<Endpoint> = serde_json::from_str(&endpoints)?;
        endpoints = adjusted(&endpoints, settings);
        for endpoint in &mut endpoints {
            endpoint.labels.set(OWNER_LABEL, OWNER);
            let services = endpoint.provider_specific.iter_mut();
            services
                .filter(|property| *property.name == *TUNNEL_SERVICE)
                .for_each(|property| *property = Property::new(TUNNEL_SERVICE, service));
        }
        Ok(endpoints)
    };
    let (update_old, update_new) = (of("http://here.shop.svc:8080")?, of("http://elsewhere.shop.svc:8080")?);
    body([("updateOld", update_old), ("updateNew", update_new)])
}

/// What is published of hostnames with many paths, each by an endpoint of its own.
pub(crate) fn with_paths(scale: usize) -> String {
    list(
        hostnames_with_paths()
            .flat_map(|number| (0..paths(scale)).map(move |part| part_endpoint(number, part))),
    )
}

/// New endpoints of one hostname, many more than a record has room for.
pub(crate) fn many_endpoints(scale: usize, settings: &Settings) -> Outcome<String> {
    let endpoints = list((0..endpoints(scale)).map(|part| part_endpoint(published(scale), part)));
    let endpoints: Vec<Endpoint> = serde_json::from_str(&endpoints)?;
    let create = adjusted(&endpoints, settings);
    body([("create", create)])
}

pub(crate) fn endpoints(scale: usize) -> usize {
    ENDPOINTS * scale
}

fn part_endpoint(number: usize, part: usize) -> String {
    let (hostname, service, resource) = (hostname(number), service(number), resource(number));
    format!(
        r#"{{"dnsName":"{hostname}","targets":["192.0.2.10"],"recordType":"A","labels":{{"resource":"{resource}"}},"providerSpecific":[{{"name":"webhook/tunnel-service","value":"{service}"}},{{"name":"webhook/origin-connect-timeout","value":"10s"}},{{"name":"webhook/tunnel-path-prefix","value":"/part-{part}"}}]}}"#
    )
}

fn list(elements: impl Iterator<Item = String>) -> String {
    format!("[{}]", elements.collect::<Vec<_>>().join(","))
}
