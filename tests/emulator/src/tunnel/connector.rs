//! What the connectors make of a configuration that is pushed to them (`UpdateConfig` and `updateIngress` in cloudflared's
//! `orchestration/orchestrator.go`, `newHTTPTransport` in `ingress/origin_service.go`).

use serde_json::value::RawValue;

use crate::ingress;
use crate::json::Members;
use crate::tunnel::Tunnel;

/// The configuration that is in force at the connectors.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) version: i64,
    pub(super) config: Option<Box<RawValue>>,
}

/// Services whose requests go through Go's HTTP client, for which the `caPool` is read at once. A URL of any other scheme
/// is carried as TCP, without it.
const HTTP_SERVICES: [&str; 8] =
    ["http://", "https://", "ws://", "wss://", "unix:", "unix+tls:", "hello_world", "hello-world"];

/// Those of them that bastion mode leaves as they are.
const NO_URLS: [&str; 4] = ["unix:", "unix+tls:", "hello_world", "hello-world"];

impl Applied {
    pub(super) fn none(version: i64) -> Self {
        Self { version, config: None }
    }
}

impl Tunnel {
    /// The connectors start anew, without a configuration, and get the present one: where they refuse it they answer 503
    /// to everything.
    pub fn restart_connectors(&mut self) {
        self.applied = Applied::none(-1);
        self.push();
    }

    /// What the connectors serve.
    pub(crate) fn applied_config(&self) -> &str {
        self.applied.config.as_deref().map_or("null", RawValue::get)
    }

    /// Gives the connectors the present configuration. One that they cannot start they refuse as a whole, and go on with
    /// what they have.
    pub(super) fn push(&mut self) {
        let config = self.config.as_deref().map_or("null", RawValue::get);
        if !loads_one_of(config, &self.missing_files) {
            self.applied = Applied { version: self.version, config: self.config.clone() };
        }
    }
}

/// Whether a rule of the document has one of the files as its `caPool`, and cloudflared would read it.
fn loads_one_of(config: &str, files: &[String]) -> bool {
    if files.is_empty() {
        return false;
    }
    let defaults = Members::parse(config).unwrap_or_default();
    let option = |rule: &Members, name: &str| -> Option<Box<RawValue>> {
        let of = |object: &Members| {
            let origin_request = Members::parse(object.present("originRequest")?.get())?;
            origin_request.present(name).map(ToOwned::to_owned)
        };
        of(rule).or_else(|| of(&defaults))
    };
    ingress::rules(config).iter().any(|rule| {
        let members = Members::parse(rule.raw.get()).unwrap_or_default();
        let is_bastion = option(&members, "bastionMode").is_some_and(|value| value.get() == "true");
        let service = rule.service.to_ascii_lowercase();
        let begins_with = |prefix: &&str| service.starts_with(*prefix);
        let is_http = NO_URLS.iter().any(begins_with) || !is_bastion && HTTP_SERVICES.iter().any(begins_with);
        let ca_pool = option(&members, "caPool");
        let ca_pool: Option<String> = ca_pool.and_then(|path| serde_json::from_str(path.get()).ok());
        is_http && ca_pool.is_some_and(|path| files.contains(&path))
    })
}
