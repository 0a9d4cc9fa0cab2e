//! The account as it is before the program comes: zones, tunnels, and what is foreign there.

use std::time::Duration;

use cloudflare_emulator::{Cloudflare, Emulator, Plan, Record, Token};
use serde_json::json;
use test_support::harness::TOKEN;

use crate::foreign::Foreign;
use crate::settings::Settings;

const ZONE: &str = "example.com";

const HOME_DOCUMENT: &str = r#"{"originRequest": { "connectTimeout": 10 }, "ingress": [{ "service": "http://theirs:80",  "hostname":"hand.example.com", "note": {"by": "Jo"} },{"hostname":"*.example.com","service":"http://wild:80"},{"service":"http_status:503"}], "warp-routing": {"enabled": false}}"#;

const OFFICE_DOCUMENT: &str = r#"{"ingress":[{"hostname":"legacy.example.com","service":"http://legacy:80","x":1.10},{"service":"http_status:502"}],"b":12345678901234567890}"#;

/// The tunnel that an operator deletes and makes anew.
pub(crate) const OFFICE: &str = "office";

/// Deletes that tunnel, or makes it anew with what its owners have there. Says whether that changed anything.
pub(crate) fn set_office(
    cloudflare: &mut Cloudflare,
    foreign: &mut Foreign,
    settings: &Settings,
    is_there: bool,
) -> bool {
    let office = cloudflare.tunnel(OFFICE);
    if office.deleted != is_there {
        return false;
    }
    let old = office.id.clone();
    if !is_there {
        cloudflare.tunnel_mut(&old).deleted = true;
        foreign.lost_document(&old);
        return true;
    }
    let new = cloudflare.add_tunnel(OFFICE);
    cloudflare.put_configuration(&new, OFFICE_DOCUMENT).expect("cloudflared takes it");
    cloudflare.delay_configurations(OFFICE, &settings.configuration_delays());
    cloudflare.tunnel_mut(&new).connectors = settings.connectors();
    foreign.wrote_document(cloudflare, &new, &[]);
    let is_legacy =
        |record: &&Record| record.name == "legacy.example.com" && foreign.is_foreign_record(&record.id);
    if let Some(id) = cloudflare.records(ZONE).iter().find(is_legacy).map(|record| record.id.clone()) {
        let target = json!({"content": cloudflare.tunnel(&new).hostname()});
        cloudflare.patch_record(ZONE, &id, &target).expect("Cloudflare takes it");
        let record = cloudflare.records(ZONE).iter().find(|record| record.id == id).cloned();
        foreign.wrote_record(&record.expect("it was just changed"));
    }
    true
}

pub(crate) fn set_up(cloudflare: &Emulator, settings: &Settings) {
    for (tunnel, document) in [("home", HOME_DOCUMENT), ("office", OFFICE_DOCUMENT)] {
        let id = cloudflare.add_tunnel(tunnel);
        cloudflare.put_configuration(&id, document).expect("cloudflared takes it");
    }
    cloudflare.add_zone("example.org", Plan::Free);
    cloudflare.add_zone("inner.example.com", Plan::Free);
    cloudflare.edit(|cloudflare| {
        let target = |tunnel: &str| cloudflare.tunnel(tunnel).hostname();
        let is_elsewhere = settings.is_wildcard_elsewhere;
        let wildcard = if is_elsewhere { "proxy.test".to_owned() } else { target("home") };
        let records = [
            ("example.com", "hand.example.com", "CNAME", target("home")),
            ("example.com", "*.example.com", "CNAME", wildcard),
            ("example.com", "legacy.example.com", "CNAME", target("office")),
            ("example.com", "elsewhere.example.com", "CNAME", "somewhere.test".to_owned()),
            ("example.com", "example.com", "TXT", "\"v=spf1 -all\"".to_owned()),
            ("example.org", "hand.example.org", "A", "192.0.2.7".to_owned()),
            ("example.org", "example.org", "MX", "mail.example.org".to_owned()),
        ];
        for (zone, name, kind, content) in records {
            let is_proxied = matches!(kind, "A" | "CNAME");
            let record = json!({"name": name, "type": kind, "content": content, "proxied": is_proxied, "priority": 10});
            cloudflare.add_record(zone, record).expect("Cloudflare takes it");
        }
        cloudflare.set_up_access("my-team");
        for name in ["staff", "on-call"] {
            let include = json!([{"email_domain": {"domain": "example.com"}}]);
            let policy = json!({"name": name, "decision": "allow", "include": include});
            cloudflare.add_policy(&policy).expect("a policy");
        }
        *cloudflare.token_mut(TOKEN) = Token::with_access(TOKEN);
        let theirs = json!({"type": "self_hosted", "name": "theirs", "domain": "hand.example.org/admin",
            "session_duration": "6h"});
        cloudflare.add_application(&theirs).expect("an application");
        cloudflare.whims_mut().unlisted_application_time = Duration::from_millis(settings.listing_lag);
        let [_, records, applications] = settings.delays.map(Duration::from_millis);
        for tunnel in ["home", "office"] {
            cloudflare.delay_configurations(tunnel, &settings.configuration_delays());
            cloudflare.tunnel_mut(tunnel).connectors = settings.connectors();
        }
        cloudflare.delay_records(records);
        cloudflare.delay_applications(applications);
    });
}
