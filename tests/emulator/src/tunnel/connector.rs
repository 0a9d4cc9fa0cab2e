//! What the connectors make of a configuration that is pushed to them (`UpdateConfig` and `updateIngress` in
//! cloudflared's `orchestration/orchestrator.go`, `newHTTPTransport` in `ingress/origin_service.go`).

use std::time::Duration;

use serde_json::value::RawValue;

use crate::ingress;
use crate::json::Members;
use crate::tunnel::Tunnel;

/// Connectors that get each configuration at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// How long a configuration takes to them.
    pub(crate) delay: Duration,
    /// The version that is in force.
    version: i64,
    config: Option<Box<RawValue>>,
}

/// Services whose requests go through Go's HTTP client, for which the `caPool` is read at once. A URL of any other
/// scheme is carried as TCP, without it.
const HTTP_SERVICES: [&str; 8] =
    ["http://", "https://", "ws://", "wss://", "unix:", "unix+tls:", "hello_world", "hello-world"];

/// Those of them that bastion mode leaves as they are.
const NO_URLS: [&str; 4] = ["unix:", "unix+tls:", "hello_world", "hello-world"];

impl Lane {
    /// Connectors of a tunnel that was never configured.
    pub(super) fn new(delay: Duration) -> Self {
        Self { delay, version: 0, config: None }
    }

    fn config(&self) -> &str {
        self.config.as_deref().map_or("null", RawValue::get)
    }
}

impl Tunnel {
    /// The connectors start anew, without a configuration, and get the present one: where they refuse it they answer
    /// 503 to everything.
    pub fn restart_connectors(&mut self) {
        for number in 0..self.lanes.len() {
            if let Some(lane) = self.lanes.get_mut(number) {
                *lane = Lane { version: -1, ..Lane::new(lane.delay) };
            }
            self.push(number, self.version, self.config.clone());
        }
    }

    /// Lets configurations take so long to each connector. What they serve stays as it is.
    pub(crate) fn set_lanes(&mut self, delays: &[Duration]) {
        let lane = |(number, delay): (usize, &Duration)| {
            let present = self.lane(number).cloned().unwrap_or_else(|| Lane::new(*delay));
            Lane { delay: *delay, ..present }
        };
        self.lanes = delays.iter().enumerate().map(lane).collect();
    }

    fn lane(&self, connector: usize) -> Option<&Lane> {
        self.lanes.get(connector).or_else(|| self.lanes.last())
    }

    /// The version that a connector has in force.
    pub(super) fn applied_version(&self, connector: usize) -> i64 {
        self.lane(connector).map_or(0, |lane| lane.version)
    }

    /// What the connectors serve, from the first one on.
    pub(crate) fn applied_configs(&self) -> impl Iterator<Item = &str> {
        self.lanes.iter().take(self.connectors).map(Lane::config)
    }

    /// Gives a configuration to a lane. One that its connectors cannot start they refuse as a whole, and go on with
    /// what they have; one that is older than that came too late. Says whether it is in force now.
    pub(crate) fn push(&mut self, lane: usize, version: i64, config: Option<Box<RawValue>>) -> bool {
        let text = config.as_deref().map_or("null", RawValue::get);
        if loads_one_of(text, &self.missing_files) {
            return false;
        }
        let lane = self.lanes.get_mut(lane).filter(|lane| lane.version < version);
        lane.map(|lane| (lane.version, lane.config) = (version, config)).is_some()
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
