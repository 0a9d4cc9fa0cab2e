//! Whole migrations to this program, each as docs/guides.md tells it: what stands before, the loop in which it is taken
//! over, the setting off again, and at last a deletion that removes just that.

use cloudflare_emulator::ConfigSource;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels};
use serde_json::json;
use test_support::external_dns::{Changes, ExternalDns, plan};
use test_support::harness;
use test_support::harness::{Harness, endpoint, published};

/// A Cloudflare in which `rules` stand before those of [`Harness::with_foreign`], and records.
fn harness(rules: &[&str], records: &[(&str, &str, &str, &str)]) -> Harness {
    let harness = Harness::with_foreign();
    let rules: String = rules.iter().map(|rule| format!("{rule},")).collect();
    let document = harness::FOREIGN_DOCUMENT.replace(r#""ingress": ["#, &format!(r#""ingress": [{rules}"#));
    harness.cloudflare.put_configuration(&harness.tunnel, &document).expect("cloudflared takes it");
    let home = format!("{}.cfargotunnel.com", harness.tunnel);
    for (name, kind, content, comment) in records {
        let content = if *content == "home" { &*home } else { *content };
        let record = json!({"name": name, "type": kind, "content": content, "comment": comment, "proxied": *kind != "TXT"});
        harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    }
    harness
}

/// Rules, to the byte, and records: name, type, content, comment.
type State = (Vec<String>, Vec<(String, String, String, String)>);

fn state(harness: &Harness) -> State {
    let records = harness.cloudflare.records(&harness.zone).into_iter();
    let records =
        records.map(|record| (record.name, record.kind, record.content, record.comment.unwrap_or_default()));
    (harness.rules(), records.collect())
}

/// One loop of ExternalDNS with its TXT registry and `--txt-prefix`: a TXT record beside each new record.
fn run_loop_with_registry(prefix: &str, external_dns: ExternalDns, desired: &[Endpoint]) -> Changes {
    let current = external_dns.records().expect("records are shown");
    let adjusted = external_dns.adjust(desired).expect("endpoints are adjusted");
    let mut changes = plan(&current, &adjusted);
    let heritage = |endpoint: &Endpoint| Endpoint {
        dns_name: format!("{prefix}cname-{}", endpoint.dns_name),
        targets: vec!["\"heritage=external-dns,external-dns/owner=default\"".to_owned()],
        record_type: "TXT".to_owned(),
        labels: Labels::from_iter([("ownedRecord", &*endpoint.dns_name)]),
        ..endpoint.clone()
    };
    for list in [&mut changes.create, &mut changes.delete] {
        let registry: Vec<Endpoint> = list.iter().map(heritage).collect();
        list.extend(registry);
    }
    if changes != Changes::default() {
        // What is led over takes a few loops, each with an answer that makes ExternalDNS ask again.
        let answer = external_dns.apply(&changes);
        assert!(matches!(answer, Ok(()) | Err(503)), "{answer:?}");
    }
    changes
}

/// Plays the migration. `desired` is what the cluster asks for, `adopt` the setting, `gone` the hostnames that are
/// taken off the cluster at the end. Returns the state after the adoption.
fn migrate(
    harness: &Harness,
    run: impl Fn(ExternalDns, &[Endpoint]) -> Changes,
    adopt: &str,
    desired: &[Endpoint],
    gone: &str,
) -> State {
    let before = state(harness);
    let off = harness.start();
    for _ in 0..2 {
        run(off.external_dns(), desired);
        assert_eq!(state(harness), before, "with ADOPT off nothing is touched");
    }
    drop(off);

    let adopting = harness.start_with(&[("ADOPT", adopt)]);
    for _ in 0..3 {
        run(adopting.external_dns(), desired);
    }
    let taken = state(harness);
    drop(adopting);

    let program = harness.start();
    for _ in 0..2 {
        assert_eq!(run(program.external_dns(), desired), Changes::default(), "everything is as it is wanted");
    }
    assert_eq!(harness.cloudflare.count_calls().writes, 0);

    let rest: Vec<Endpoint> = desired.iter().filter(|endpoint| endpoint.dns_name != gone).cloned().collect();
    run(program.external_dns(), &rest);
    let (rules, records) = state(harness);
    let is_left = |text: &str| !text.contains(&format!("\"{gone}\""));
    assert_eq!(rules, taken.0.iter().filter(|rule| is_left(rule)).cloned().collect::<Vec<_>>());
    assert_eq!(records, taken.1.iter().filter(|record| record.0 != gone).cloned().collect::<Vec<_>>());
    assert!(records.len() < taken.1.len(), "{gone} was there");
    assert_eq!(run(program.external_dns(), &rest), Changes::default());
    taken
}

fn noop(external_dns: ExternalDns, desired: &[Endpoint]) -> Changes {
    external_dns.run_loop(desired).expect("answered")
}

/// A hostname with an option, unknown fields and a path rule beside it that no object asks for; and one with another
/// service than the cluster's.
#[test]
fn from_the_dashboard() {
    const SHOP: &str = r#"{"hostname":"shop.example.com", "service": "https://web.shop.svc:443", "originRequest":{"noTLSVerify":true, "later":{"x":1}},"id":"7"}"#;
    const PATH: &str = r#"{ "hostname":"shop.example.com","path":"^/legacy$","service":"http://legacy:80"}"#;
    const BLOG: &str = r#"{"hostname":"blog.example.com","service":"http://192.0.2.44:8080","originRequest":{"connectTimeout":5},"note":"by hand"}"#;
    let records = [
        ("shop.example.com", "CNAME", "home", ""),
        ("blog.example.com", "CNAME", "home", "ask Jo before deleting"),
    ];
    let harness = harness(&[PATH, SHOP, BLOG], &records);
    let service = ("tunnel-service", "https://web.shop.svc:443");
    let desired = [
        endpoint("shop.example.com", &[service, ("origin-no-tls-verify", "true")]),
        published("blog.example.com", "http://blog.shop.svc:80"),
    ];
    let (rules, records) = migrate(&harness, noop, "tunnel", &desired, "blog.example.com");
    assert_eq!(rules[..2], [PATH, SHOP], "not asked for, and already as it is wanted");
    assert_eq!(
        rules[2],
        r#"{"hostname":"blog.example.com","service":"http://blog.shop.svc:80","note":"by hand"}"#
    );
    let comment = |name: &str| records.iter().find(|record| record.0 == name).expect("it is there").3.clone();
    assert!(comment("shop.example.com").starts_with("external-dns owner=default "));
    assert!(
        comment("blog.example.com").ends_with(" | ask Jo before deleting"),
        "{}",
        comment("blog.example.com")
    );
    assert_eq!(harness.service_at("shop.example.com", "/"), "https://web.shop.svc:443");
    assert_eq!(harness.service_at("shop.example.com", "/legacy"), "http://legacy:80");
}

/// It prepends each new rule, so that a wildcard shadows what was published before it; its CNAMEs carry a comment of
/// its own, and the service is the target.
#[test]
fn from_axatols_webhook() {
    let rules = [
        r#"{"hostname":"*.apps.example.com","service":"http://wild.shop.svc:80","originRequest":{}}"#,
        r#"{"hostname":"web.apps.example.com","service":"http://web.shop.svc:8080","originRequest":{}}"#,
        r#"{"hostname":"api.example.com","service":"http://api.shop.svc:8080","originRequest":{}}"#,
    ];
    let records = [
        ("*.apps.example.com", "CNAME", "home", "external-dns/http://wild.shop.svc:80"),
        ("web.apps.example.com", "CNAME", "home", "external-dns/http://web.shop.svc:8080"),
        ("api.example.com", "CNAME", "home", "external-dns/http://api.shop.svc:8080"),
    ];
    let harness = harness(&rules, &records);
    let target = |name: &str, service: &str| Endpoint {
        targets: vec![service.to_owned()],
        record_type: "CNAME".to_owned(),
        ..endpoint(name, &[])
    };
    let desired = [
        target("*.apps.example.com", "http://wild.shop.svc:80"),
        target("web.apps.example.com", "http://web.shop.svc:8080"),
        target("api.example.com", "http://api.shop.svc:8080"),
    ];
    assert_eq!(harness.service_at("web.apps.example.com", "/"), "http://wild.shop.svc:80", "the shadow");
    let (rules, records) = migrate(&harness, noop, "tunnel", &desired, "api.example.com");
    assert_eq!(harness.service_at("web.apps.example.com", "/"), "http://web.shop.svc:8080");
    assert_eq!(harness.service_at("any.apps.example.com", "/"), "http://wild.shop.svc:80");
    assert_eq!(rules.len(), 3 + 3, "its three, and the foreign ones: {rules:#?}");
    let ours = records.iter().filter(|record| record.3.starts_with("external-dns owner=default "));
    assert!(ours.clone().all(|record| record.3.contains(" | external-dns/http://")), "{records:#?}");
    assert_eq!(ours.count(), 3);
}

/// Its records lead to the tunnel or to addresses, its TXT records say whose they are, and the rules were made by hand.
#[test]
fn from_the_in_tree_provider() {
    let heritage = |owner: &str| {
        format!("\"heritage=external-dns,external-dns/owner={owner},external-dns/resource=ingress/shop/web\"")
    };
    let (ours, theirs) = (heritage("default"), heritage("other"));
    let rules = [
        r#"{"hostname":"web.example.com","service":"http://web.shop.svc:80","originRequest":{"http2Origin":true}}"#,
    ];
    let records = [
        ("web.example.com", "CNAME", "home", ""),
        ("cname-web.example.com", "TXT", &*ours, ""),
        ("plain.example.com", "CNAME", "home", ""),
        ("cname-plain.example.com", "TXT", &ours, ""),
        ("lb.example.com", "A", "192.0.2.20", "lb"),
        ("lb.example.com", "A", "192.0.2.21", "lb"),
        ("a-lb.example.com", "TXT", &ours, ""),
        ("lb.example.com", "TXT", &ours, ""),
        ("theirs.example.com", "A", "192.0.2.30", ""),
        ("a-theirs.example.com", "TXT", &theirs, ""),
    ];
    let harness = harness(&rules, &records);
    let home = format!("{}.cfargotunnel.com", harness.tunnel);
    let to_tunnel = |name: &str, properties: &[(&str, &str)]| Endpoint {
        targets: vec![home.clone()],
        record_type: "CNAME".to_owned(),
        ..endpoint(name, properties)
    };
    let desired = [
        to_tunnel("web.example.com", &[("tunnel-service", "http://web.shop.svc:80")]),
        to_tunnel("plain.example.com", &[]),
        published("lb.example.com", "http://lb.shop.svc:80"),
    ];
    let run = |external_dns, desired: &[Endpoint]| run_loop_with_registry("", external_dns, desired);
    let (rules, records) = migrate(&harness, run, "owner=default,tunnel", &desired, "web.example.com");
    let txt: Vec<&str> =
        records.iter().filter(|record| record.1 == "TXT").map(|record| record.0.as_str()).collect();
    assert_eq!(txt, ["example.com", "a-theirs.example.com"], "only what is left to others");
    let of = |name: &str| {
        let of_name: Vec<_> = records.iter().filter(|record| record.0 == name).collect();
        of_name.iter().map(|record| (record.1.as_str(), record.2.as_str())).collect::<Vec<_>>()
    };
    for name in ["web.example.com", "plain.example.com", "lb.example.com"] {
        assert_eq!(of(name), [("CNAME", &*home)], "{name}");
    }
    assert_eq!(of("theirs.example.com"), [("A", "192.0.2.30")]);
    assert!(
        rules.contains(&r#"{"hostname":"web.example.com","service":"http://web.shop.svc:80"}"#.to_owned()),
        "{rules:#?}"
    );
    assert_eq!(harness.service_at("lb.example.com", "/"), "http://lb.shop.svc:80");
    assert_eq!(
        harness.service_at("plain.example.com", "/"),
        "http://wild:80",
        "the rule that served it before"
    );
}

/// One wildcard rule in a file beside its `cloudflared` serves all, and one record names that tunnel: those of the
/// hostnames lead to it. Its TXT records have a prefix.
#[test]
fn from_the_cluster_template() {
    const OTHER_TUNNEL: &str = "e5a3f1de-29a4-4f5a-9f3e-0d3f3b6f1c55.cfargotunnel.com";
    const PROXY: &str = "https://envoy-external.network.svc:443";
    let text =
        "\"heritage=external-dns,external-dns/owner=default,external-dns/resource=httproute/default/echo\"";
    let records = [
        ("external.example.com", "CNAME", OTHER_TUNNEL, ""),
        ("k8s.cname-external.example.com", "TXT", text, ""),
        ("echo.example.com", "CNAME", "external.example.com", ""),
        ("k8s.cname-echo.example.com", "TXT", text, ""),
        ("flux.example.com", "CNAME", "external.example.com", ""),
        ("k8s.cname-flux.example.com", "TXT", text, ""),
    ];
    let harness = harness(&[], &records);
    let routed = |name: &str| Endpoint {
        targets: vec![PROXY.to_owned()],
        record_type: "CNAME".to_owned(),
        ..endpoint(name, &[])
    };
    let desired = [routed("echo.example.com"), routed("flux.example.com")];
    let run = |external_dns, desired: &[Endpoint]| run_loop_with_registry("k8s.", external_dns, desired);
    let (_, records) = migrate(&harness, run, "owner=default", &desired, "flux.example.com");
    assert_eq!(harness.service_at("echo.example.com", "/"), PROXY);
    let texts = records.iter().filter(|record| record.0.starts_with("k8s.")).map(|record| &*record.0);
    assert_eq!(texts.collect::<Vec<_>>(), ["k8s.cname-external.example.com"]);
    let left = records.iter().filter(|record| record.0.contains("external")).map(|record| &*record.2);
    assert_eq!(left.collect::<Vec<_>>(), [OTHER_TUNNEL, text], "the old tunnel's name is not asked for");
}

/// A tunnel that a file beside its `cloudflared` configures, as `cloudflared`'s own and that of adyanth's operator:
/// listed behind a new one, its hostnames move to that one.
#[test]
fn from_a_tunnel_that_a_file_configures() {
    const SERVICE: &str = "http://file.shop.svc:80";
    let harness = harness(&[], &[]);
    let old = harness.cloudflare.add_tunnel("old");
    harness.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut("old").config_source = ConfigSource::Local);
    let record = json!({"name": "file.example.com", "type": "CNAME", "content": format!("{old}.cfargotunnel.com"), "proxied": true});
    harness.cloudflare.add_record(&harness.zone, record).expect("Cloudflare takes it");
    let before = harness.cloudflare.configuration(&old);
    let both = format!("{},{old}", harness.tunnel);
    let settings = [("CF_TUNNEL_ID", &*both), ("ADOPT", "tunnel"), ("MOVE_GRACE", "0s")];
    let program = harness.start_with(&settings);
    for _ in 0..4 {
        let _ = program.external_dns().run_loop(&[published("file.example.com", SERVICE)]);
    }
    assert_eq!(harness.service_at("file.example.com", "/"), SERVICE);
    assert_eq!(
        harness.cloudflare.configuration(&old),
        before,
        "the tunnel that the file configures is not written"
    );
    drop(program);
    let alone = harness.start();
    let rest = alone.external_dns().run_loop(&[published("file.example.com", SERVICE)]).expect("it is ours");
    assert_eq!(rest, Changes::default());
}
