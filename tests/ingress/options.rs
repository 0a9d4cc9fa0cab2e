//! Options as an endpoint says them, and what a rule with them has to hold.

use external_dns_cloudflare_tunnel_webhook::ingress::OriginRequest;
use serde_json::{Value, json};

/// An option: the properties that say it, and the field of `originRequest` with its value.
pub(crate) type Said = (&'static [(&'static str, &'static str)], &'static str, Value);

pub(crate) fn options() -> [Said; 6] {
    [
        (&[("webhook/origin-connect-timeout", "30s")], "connectTimeout", json!(30)),
        (&[("webhook/origin-no-happy-eyeballs", "false")], "noHappyEyeballs", json!(false)),
        (&[("webhook/origin-http-host-header", "app.local")], "httpHostHeader", json!("app.local")),
        (&[("webhook/origin-no-tls-verify", "true")], "noTLSVerify", json!(true)),
        (
            &[("webhook/origin-ip-rules", r#"[{"allow":true,"ports":[80,443],"prefix":"10.0.0.0/8"}]"#)],
            "ipRules",
            json!([{"prefix": "10.0.0.0/8", "ports": [80, 443], "allow": true}]),
        ),
        (
            &[
                ("webhook/access-required", "true"),
                ("webhook/access-team-name", "team"),
                ("webhook/access-aud-tag", "a,b"),
            ],
            "access",
            json!({"required": true, "teamName": "team", "audTag": ["a", "b"]}),
        ),
    ]
}

/// The options that these properties say.
pub(crate) fn origin_request(properties: &[(&str, &str)]) -> OriginRequest {
    let text_of = |wanted: &str| properties.iter().find(|(name, _)| *name == wanted).map(|(_, text)| *text);
    OriginRequest::read(&text_of, &OriginRequest::default()).expect("valid options")
}

/// What a rule has to hold in its managed fields, of [`options`].
pub(crate) fn fields(wanted: &OriginRequest) -> Vec<(&'static str, Value)> {
    let properties = wanted.properties();
    let is_said = |(name, text): &(&str, &str)| {
        properties.iter().any(|property| &*property.name == *name && &*property.value == *text)
    };
    let said = options().into_iter().filter(|(properties, _, _)| properties.iter().all(is_said));
    said.map(|(_, field, value)| (field, value)).collect()
}
