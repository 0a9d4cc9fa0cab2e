//! How the program is set up in one world, and how ExternalDNS is.

use std::time::Duration;

use test_support::external_dns::{Registry, SyncPolicy, TXT, TXT_BELOW};

use crate::objects::Object;
use crate::random::Random;

/// What serves objects that name no service, of which there are none.
pub(crate) const DEFAULT_SERVICE: &str = "http://default.svc:80";

/// The settings that change what the program decides. The others stay as they are by default.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) tunnels: &'static str,
    pub(crate) registry: Registry,
    pub(crate) policy: SyncPolicy,
    pub(crate) adopt: &'static str,
    pub(crate) mass_deletion_limit: usize,
    pub(crate) namespace_guard: bool,
    /// Which objects it serves: those that carry a property of the program, or all.
    pub(crate) default_service: Option<&'static str>,
    pub(crate) access_guard: bool,
    /// What protects every object that says nothing of Access.
    pub(crate) default_access_policy: &'static str,
    /// Whether objects may ask to be open.
    pub(crate) access_opt_out: bool,
    pub(crate) move_grace: &'static str,
    /// Milliseconds of the way to the edge: of configurations, records and applications.
    pub(crate) delays: [u64; 3],
    /// How much longer configurations take to the second connector of each tunnel, where it has one from the beginning.
    pub(crate) second_connector: Option<u64>,
    /// Milliseconds for which lists leave out a new application.
    pub(crate) listing_lag: u64,
    /// Where alone something may be published, if not everywhere.
    pub(crate) domain_filter: &'static str,
    pub(crate) request_timeout: Duration,
    /// What every rule has that does not say otherwise.
    pub(crate) connect_timeout: &'static str,
    /// Of services that the namespace guard allows.
    pub(crate) cluster_domain: &'static str,
    /// ExternalDNS's. Shorter than the time of grace, one loop sees a move half done.
    pub(crate) interval: Duration,
    /// `*.example.com` leads to another proxy, and not to the tunnel `home`.
    pub(crate) is_wildcard_elsewhere: bool,
}

impl Settings {
    /// Each takes one setting back to what it is by default. What objects are made by is not among them.
    pub(crate) const PLAINER: [fn(&mut Self); 13] = [
        |settings| settings.registry = Registry::Noop,
        |settings| settings.policy = SyncPolicy::Sync,
        |settings| settings.adopt = "",
        |settings| settings.mass_deletion_limit = 0,
        |settings| settings.namespace_guard = false,
        |settings| settings.default_service = None,
        |settings| settings.access_guard = false,
        |settings| settings.domain_filter = "",
        |settings| (settings.delays, settings.second_connector) = ([0; 3], None),
        |settings| settings.listing_lag = 0,
        |settings| settings.is_wildcard_elsewhere = false,
        |settings| (settings.connect_timeout, settings.cluster_domain) = ("", ""),
        |settings| {
            settings.move_grace = "30s";
            settings.request_timeout = Duration::from_secs(12);
            settings.interval = Duration::from_secs(60);
        },
    ];

    pub(crate) fn random(random: &mut Random) -> Self {
        let registry = random.weighted(&[(4, Registry::Noop), (1, Registry::Crd), (3, TXT), (2, TXT_BELOW)]);
        let mut delay = || if random.chance(60) { 0 } else { random.next() % 400 };
        let delays = [delay(), delay(), delay()];
        let second_connector = random.chance(40).then(|| random.next() % 500);
        Self {
            tunnels: random.weighted(&[(2, "home"), (3, "home,office"), (1, "office,home")]),
            registry,
            policy: random.weighted(&[(4, SyncPolicy::Sync), (1, SyncPolicy::UpsertOnly)]),
            adopt: random.weighted(&[(5, ""), (2, "tunnel"), (2, "all"), (1, "access")]),
            mass_deletion_limit: random.weighted(&[(3, 0), (2, 2), (1, 5)]),
            namespace_guard: random.chance(25),
            default_service: random.weighted(&[(10, None), (1, Some("annotated")), (1, Some("all"))]),
            access_guard: random.chance(10),
            default_access_policy: random.weighted(&[(6, ""), (1, "staff")]),
            access_opt_out: random.chance(75),
            // It has to be longer than the way to the edge.
            move_grace: if delays == [0; 3] && second_connector.unwrap_or_default() == 0 {
                random.pick(&["0s", "30s"])
            } else {
                "30s"
            },
            delays,
            second_connector,
            listing_lag: random.weighted(&[(3, 0), (1, 30_000)]),
            domain_filter: random.weighted(&[(9, ""), (1, "example.com"), (1, "example.org")]),
            request_timeout: Duration::from_secs(random.weighted(&[(4, 12), (1, 6)])),
            connect_timeout: random.weighted(&[(4, ""), (1, "7s")]),
            cluster_domain: random.weighted(&[(4, ""), (1, "cluster.test")]),
            interval: Duration::from_secs(random.weighted(&[(4, 60), (1, 20)])),
            is_wildcard_elsewhere: false,
        }
    }

    /// The program's variables.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let limit = self.mass_deletion_limit.to_string();
        let mut all = vec![
            ("CF_TUNNEL_ID", self.tunnels.to_owned()),
            ("MASS_DELETION_LIMIT", limit),
            ("NAMESPACE_GUARD", self.namespace_guard.to_string()),
            ("ACCESS_GUARD", self.access_guard.to_string()),
            ("ACCESS_OPT_OUT", self.access_opt_out.to_string()),
            ("MOVE_GRACE", self.move_grace.to_owned()),
            ("REQUEST_TIMEOUT", format!("{}s", self.request_timeout.as_secs())),
        ];
        let texts = [
            ("ADOPT", self.adopt),
            ("DEFAULT_SERVICE", self.default_service.map_or("", |_| DEFAULT_SERVICE)),
            ("PUBLISH", self.default_service.unwrap_or_default()),
            ("DOMAIN_FILTER", self.domain_filter),
            ("ORIGIN_CONNECT_TIMEOUT", self.connect_timeout),
            ("CLUSTER_DOMAIN", self.cluster_domain),
            ("DEFAULT_ACCESS_POLICY", self.default_access_policy),
        ];
        all.extend(
            texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(n, text)| (n, text.to_owned())),
        );
        if self.namespace_guard {
            // With the guard objects may name none unless this says so.
            all.push(("ACCESS_POLICIES", "staff,on-call".to_owned()));
        }
        all
    }

    /// How many connectors each tunnel has, unless an operator starts or ends one.
    pub(crate) fn connectors(&self) -> usize {
        1 + usize::from(self.second_connector.is_some())
    }

    /// The time of configurations on their way to each connector.
    pub(crate) fn configuration_delays(&self) -> Vec<Duration> {
        let first = self.delays[0];
        let second = self.second_connector.map(|longer| first + longer);
        [first].into_iter().chain(second).map(Duration::from_millis).collect()
    }

    /// Whether ExternalDNS goes by what is at Cloudflare. The registry `crd` goes by what was answered: it asks for
    /// nothing that went away since, nor again for what was refused beside something that was done.
    pub(crate) fn sees_drift(&self) -> bool {
        self.registry != Registry::Crd
    }

    /// Whether rules of strangers may be taken over, none of which is as an object wants it.
    pub(crate) fn takes_rules(&self) -> bool {
        matches!(self.adopt, "tunnel" | "all")
    }

    /// Whether an object that says nothing of Access is protected.
    pub(crate) fn protects_silence(&self) -> bool {
        !self.default_access_policy.is_empty()
    }

    /// Whether the hostname may be published.
    pub(crate) fn lets_in(&self, host: &str) -> bool {
        host.ends_with(self.domain_filter)
    }

    /// How many loops there are in so many minutes.
    pub(crate) fn loops_in(&self, minutes: usize) -> usize {
        minutes * 60 / usize::try_from(self.interval.as_secs()).expect("seconds").max(1)
    }

    /// Where what names no tunnel is served.
    pub(crate) fn default_tunnel(&self) -> &'static str {
        self.tunnels.split(',').next().expect("a list has a first one")
    }

    /// Where an object is to be served.
    pub(crate) fn tunnel_of(&self, object: &Object) -> &'static str {
        object.tunnel.unwrap_or_else(|| self.default_tunnel())
    }

    pub(crate) fn has_tunnel(&self, tunnel: &str) -> bool {
        self.tunnels.split(',').any(|configured| configured == tunnel)
    }
}
