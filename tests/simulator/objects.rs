//! What the cluster asks for: objects with annotations, some of them mistyped, and what ExternalDNS makes of them.

use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Endpoint, Labels, Property};

use crate::focus::{Concern, Focus};
use crate::random::Random;
use crate::settings::Settings;

/// Hostnames that no other writer ever has: below a foreign wildcard, in two zones and one within a zone.
pub(crate) const HOSTS: [&str; 9] = [
    "a.example.com",
    "b.example.com",
    "shop.example.com",
    "c.example.org",
    "d.example.org",
    "example.org",
    "*.apps.example.org",
    "web.apps.example.org",
    "x.inner.example.com",
];

/// Hostnames that strangers want, too.
pub(crate) const CONTESTED: [&str; 3] = ["t.example.com", "u.example.com", "v.example.org"];

const NAMESPACES: [&str; 3] = ["one", "two", "three"];

/// Services of rules that ask for a login begin so, and no others do.
pub(crate) const SECRET: &str = "http://secret";

/// And of those that ask for none.
pub(crate) const OPEN: &str = "http://open";

/// And of those that say nothing, where nothing protects them by default.
pub(crate) const SILENT: &str = "http://silent";

/// A policy that some objects name beside another one.
pub(crate) const ON_CALL: &str = "on-call";

/// What an object asks for at one hostname.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) host: &'static str,
    pub(crate) path: Option<&'static str>,
    pub(crate) service: String,
    pub(crate) tunnel: Option<&'static str>,
    pub(crate) access: Access,
    option: Option<(&'static str, &'static str)>,
    /// The service of a second rule, for [`GROUP_PATH`], by annotations with a group.
    group: Option<String>,
    /// The second rule is an endpoint of its own, as a DNSEndpoint may have several.
    is_split: bool,
    /// The service is the target, and no property.
    is_target: bool,
    /// It has an address of each kind, and so an endpoint of each.
    has_both_addresses: bool,
    ttl: i64,
    has_set_identifier: bool,
    /// Another hostname with the same annotations.
    pub(crate) alias: Option<&'static str>,
    pub(crate) mistake: Option<Mistake>,
    /// It asks for what the settings let no object ask for.
    is_forbidden: bool,
}

/// What an object says of Access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Silent,
    Open,
    Policies(&'static str),
    /// The rule asks for tokens of an application that does not exist, so no visitor passes.
    Required,
}

/// One mistake, in something that limits what is published or says where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// This property is called otherwise.
    Name(&'static str, &'static str),
    /// This property has such a value.
    Value(&'static str, &'static str),
    /// The target is this, and no property names a service.
    Target(&'static str),
    /// The service of the group's rule is in a namespace that has no objects, which the namespace guard forbids.
    GroupOfOtherNamespace,
}

/// Options of rules that change what a visitor gets.
const OPTIONS: [(&str, &str); 4] = [
    ("origin-connect-timeout", "20s"),
    ("origin-no-tls-verify", "true"),
    ("origin-connect-timeout", "30s"),
    ("origin-http-host-header", "inner.test"),
];

/// Where the second rule of an object with a group stands.
pub(crate) const GROUP_PATH: &str = "/api";

const OTHER_SERVICE: &str = "http://open.other.svc:80";

/// What the namespace guard alone forbids: a service of a namespace that has no objects.
const OTHER_NAMESPACE: Mistake = Mistake::Value("tunnel-service", OTHER_SERVICE);

const MISTAKES: [Mistake; 31] = [
    OTHER_NAMESPACE,
    Mistake::GroupOfOtherNamespace,
    Mistake::Name("tunnel-service", "webhook/tunel-service"),
    Mistake::Name("tunnel-service", "webhook/tunnle-service"),
    Mistake::Name("tunnel-service", "webhook/Tunnel-Service"),
    Mistake::Name("tunnel-service", "webhook-tunnel-service"),
    Mistake::Name("tunnel-service", "webhook/service"),
    Mistake::Name("tunnel-path-prefix", "webhook/path-prefix"),
    Mistake::Name("tunnel-path-prefix", "webhook/tunnel-path-prefx"),
    Mistake::Name("tunnel-path-prefix", "webhook-tunnel-path-prefix"),
    Mistake::Name("tunnel-path-prefix", "webhook/tunnel_path_prefix"),
    Mistake::Name("tunnel-path-prefix", "tunnel-path-prefix"),
    Mistake::Name("access-policy", "webhook/acess-policy"),
    Mistake::Name("access-policy", "webhook/access-polciy"),
    Mistake::Name("access-policy", "webhook-access-policy"),
    Mistake::Name("tunnel", "webhook/tunel"),
    Mistake::Value("tunnel-service", "web.shop.svc:80"),
    Mistake::Value("tunnel-service", "htp://web.shop.svc:80"),
    Mistake::Value("tunnel-service", "http://web.shop.svc:80/path"),
    Mistake::Value("tunnel-service", "http_status:40"),
    Mistake::Value("tunnel-path-prefix", "api"),
    Mistake::Value("tunnel-path-prefix", "/api/*"),
    Mistake::Value("tunnel", "hom"),
    Mistake::Value("access-policy", "stafff"),
    Mistake::Value("access-policy", ""),
    Mistake::Target("web.shop.svc:80"),
    Mistake::Target("http:/web.shop.svc:80"),
    Mistake::Target("http//web.shop.svc:80"),
    Mistake::Target("10.0.0.5:80"),
    Mistake::Target("htp://web.shop.svc:80"),
    Mistake::Target("00000000-0000-4000-8000-000000000000.cfargotunel.com"),
];

/// What the author of an object changes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    /// It goes to the other tunnel, where there is one.
    Tunnel,
    /// Other services, whose names have this number.
    Services(usize),
    Access(Access, usize),
    Path(Option<&'static str>, usize),
    Host(&'static str),
    Option(Option<(&'static str, &'static str)>),
    Target,
    Addresses,
    Correction,
}

impl Edit {
    pub(crate) fn random(random: &mut Random, focus: &Focus, number: usize) -> Self {
        match random.below(20) {
            0..7 => Self::Tunnel,
            7..10 => Self::Services(number),
            10 | 11 => Self::Access(any_access(random), number),
            12 | 13 => Self::Path(any_path(random), number),
            14 | 15 => Self::Host(focus.host(random)),
            16 => Self::Option(random.chance(70).then(|| random.pick(&OPTIONS))),
            17 => Self::Target,
            18 => Self::Addresses,
            _ => Self::Correction,
        }
    }
}

impl Object {
    /// An object as one of few, so that they meet. `number` makes its service its own.
    pub(crate) fn random(random: &mut Random, settings: &Settings, focus: &Focus, number: usize) -> Self {
        let namespace = random.weighted(&[(3, NAMESPACES[0]), (2, NAMESPACES[1]), (1, NAMESPACES[2])]);
        let name = random.pick(&["web", "api", "zoo", "app", "db"]);
        let host = focus.host(random);
        let path = any_path(random);
        let access = any_access(random);
        let tunnel = if random.chance(60) { None } else { Some(random.pick(&["home", "office"])) };
        let option = random.chance(20).then(|| random.pick(&OPTIONS));
        let service = service_kind(access, settings);
        let has_group = path.is_none() && HOSTS.contains(&host) && random.chance(25);
        let mut object = Self {
            namespace,
            name,
            host,
            path,
            service: format!("{service}-{number}.{namespace}.svc:80"),
            tunnel: tunnel.filter(|tunnel| settings.has_tunnel(tunnel)),
            access,
            option,
            group: has_group.then(|| format!("{service}-{number}-group.{namespace}.svc:80")),
            is_split: random.chance(30),
            is_target: random.chance(25),
            has_both_addresses: random.chance(20),
            ttl: random.weighted(&[(4, 0), (1, 300)]),
            alias: random.chance(10).then(|| random.pick(&focus.hosts)).filter(|alias| *alias != host),
            has_set_identifier: random.chance(if path.is_some() { 80 } else { 30 }),
            mistake: None,
            is_forbidden: access == Access::Open && !settings.access_opt_out,
        };
        if focus.has(Concern::Mistakes) && random.chance(20) {
            object.mistype(random, settings);
        }
        object
    }

    /// The same object as its author changed it. A mistake stays where there is still something to mistake.
    pub(crate) fn edited(mut self, edit: Edit, settings: &Settings) -> Self {
        match edit {
            Edit::Tunnel => {
                let present = self.tunnel.unwrap_or_else(|| settings.default_tunnel());
                self.tunnel = settings.tunnels.split(',').find(|tunnel| *tunnel != present);
            }
            Edit::Services(number) => self.renumber(number),
            Edit::Access(access, number) => {
                self.set_access(access, settings);
                self.renumber(number);
            }
            Edit::Path(path, number) => {
                // Otherwise the service would not tell by which of the two paths a visitor is served.
                self.renumber(number);
                self.path = path;
                self.group = None;
            }
            Edit::Host(host) => self.host = host,
            Edit::Option(option) => self.option = option,
            Edit::Target => self.is_target = !self.is_target,
            Edit::Addresses => self.has_both_addresses = !self.has_both_addresses,
            Edit::Correction => self = self.corrected(settings),
        }
        self.alias = self.alias.filter(|alias| *alias != self.host);
        let has_target = self.is_target;
        let stays = |mistake: &Mistake| has_target || !matches!(mistake, Mistake::Target(_));
        self.mistake = self.mistake.take().filter(|mistake| stays(mistake) && self.may_have(mistake));
        self
    }

    /// Gives it services that no object had before.
    fn renumber(&mut self, number: usize) {
        let kind = self.service.split_once('-').expect("each begins with its kind").0.to_owned();
        self.service = format!("{kind}-{number}.{}.svc:80", self.namespace);
        self.group = self.group.as_ref().map(|_| format!("{kind}-{number}-group.{}.svc:80", self.namespace));
    }

    /// The same object mistyped.
    pub(crate) fn mistype(&mut self, random: &mut Random, settings: &Settings) {
        let is_of_guard =
            |mistake: &Mistake| *mistake == OTHER_NAMESPACE || *mistake == Mistake::GroupOfOtherNamespace;
        let is_one = |mistake: &Mistake| settings.namespace_guard || !is_of_guard(mistake);
        let fitting: Vec<Mistake> =
            MISTAKES.into_iter().filter(|mistake| self.may_have(mistake) && is_one(mistake)).collect();
        let mistake = random.pick(&fitting);
        self.is_target |= matches!(mistake, Mistake::Target(_));
        self.mistake = Some(mistake);
    }

    /// The same object without a mistake, asking for nothing that is forbidden.
    pub(crate) fn corrected(mut self, settings: &Settings) -> Self {
        self.mistake = None;
        if self.is_forbidden {
            self.set_access(Access::Silent, settings);
        }
        self
    }

    /// It says something else of Access, and so its services have other names.
    pub(crate) fn set_access(&mut self, access: Access, settings: &Settings) {
        let kind = service_kind(access, settings);
        for service in [&mut self.service].into_iter().chain(&mut self.group) {
            let (_, own) = service.split_once('-').expect("each begins with its kind");
            *service = format!("{kind}-{own}");
        }
        self.access = access;
        self.is_forbidden = access == Access::Open && !settings.access_opt_out;
    }

    fn may_have(&self, mistake: &Mistake) -> bool {
        match mistake {
            Mistake::Target(_) => true,
            Mistake::GroupOfOtherNamespace => self.group.is_some(),
            Mistake::Name(property, _) | Mistake::Value(property, _) => match *property {
                "tunnel-service" => !self.is_target,
                "tunnel-path-prefix" => self.path.is_some(),
                "tunnel" => self.tunnel.is_some(),
                _ => matches!(self.access, Access::Policies(_)),
            },
        }
    }

    /// What it asks for at its other hostname.
    pub(crate) fn twin(&self) -> Option<Self> {
        Some(Self { host: self.alias?, alias: None, ..self.clone() })
    }

    /// What ExternalDNS calls it.
    pub(crate) fn resource(&self) -> String {
        format!("ingress/{}/{}", self.namespace, self.name)
    }

    /// Its rules: the path and the service of each.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (Option<&'static str>, &str)> {
        let group = self.group.iter().map(|service| (Some(GROUP_PATH), &**service));
        [(self.path, &*self.service)].into_iter().chain(group)
    }

    /// Whether it has one service for its hostname and another one for a path.
    pub(crate) fn is_divided(&self) -> bool {
        self.group.is_some()
    }

    /// Whether it may be published as it is.
    pub(crate) fn is_sound(&self) -> bool {
        self.mistake.is_none() && !self.is_forbidden
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.service.starts_with(SECRET)
    }

    fn properties(&self) -> Vec<Property> {
        let mut all: Vec<(&'static str, String)> = Vec::new();
        if !self.is_target {
            all.push(("tunnel-service", self.service.clone()));
        }
        if let Some(service) = self.group_service().filter(|_| !self.is_split) {
            all.extend([("tunnel-service.api", service), ("tunnel-path-prefix.api", GROUP_PATH.to_owned())]);
        }
        all.extend(self.path.map(|path| ("tunnel-path-prefix", path.to_owned())));
        all.extend(self.host.starts_with("*.").then(|| ("tunnel-wildcard", "true".to_owned())));
        all.extend(self.tunnel.map(|tunnel| ("tunnel", tunnel.to_owned())));
        all.extend(self.option.map(|(name, value)| (name, value.to_owned())));
        match self.access {
            Access::Silent => {}
            Access::Open => all.push(("access-policy", "none".to_owned())),
            Access::Policies(policies) => all.push(("access-policy", policies.to_owned())),
            Access::Required => all.extend(
                [("access-required", "true"), ("access-team-name", "my-team"), ("access-aud-tag", "unknown")]
                    .map(|(name, value)| (name, value.to_owned())),
            ),
        }
        let written = |(name, value): (&'static str, String)| match &self.mistake {
            Some(Mistake::Name(of, wrong)) if *of == name => Property::new(*wrong, value),
            Some(Mistake::Value(of, wrong)) if *of == name => {
                Property::new(format!("webhook/{name}"), *wrong)
            }
            _ => Property::new(format!("webhook/{name}"), value),
        };
        all.into_iter().map(written).collect()
    }

    /// The service that it asks for in its second rule.
    fn group_service(&self) -> Option<String> {
        let is_of_other = self.mistake == Some(Mistake::GroupOfOtherNamespace);
        self.group
            .as_ref()
            .map(|service| if is_of_other { OTHER_SERVICE.to_owned() } else { service.clone() })
    }

    /// The second rule as an endpoint of its own, which has the object's other mistakes too.
    fn second_endpoint(&self) -> Option<Endpoint> {
        let service = self.group_service().filter(|_| self.is_split)?;
        let alone = Self { service, path: Some(GROUP_PATH), group: None, is_target: false, ..self.clone() };
        Some(Endpoint { set_identifier: "second".to_owned(), ..alone.endpoint() })
    }

    /// Whether ExternalDNS would make one endpoint of some of theirs, with the properties of either.
    pub(crate) fn is_merged_with(&self, other: &Self) -> bool {
        let is_one = |one: &Endpoint, other: &Endpoint| {
            one.dns_name == other.dns_name
                && one.record_type == other.record_type
                && one.set_identifier == other.set_identifier
                && one.targets == other.targets
        };
        self.endpoints().any(|one| other.endpoints().any(|other| is_one(&one, &other)))
    }

    /// What ExternalDNS makes of it.
    fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        let endpoint = self.endpoint();
        let other = Endpoint {
            targets: vec!["2001:db8::10".to_owned()],
            record_type: "AAAA".to_owned(),
            ..endpoint.clone()
        };
        let has_other = self.has_both_addresses && endpoint.record_type == "A";
        [endpoint].into_iter().chain(has_other.then_some(other)).chain(self.second_endpoint())
    }

    fn endpoint(&self) -> Endpoint {
        let (target, record_type) = match &self.mistake {
            Some(Mistake::Target(target)) => ((*target).to_owned(), "CNAME"),
            _ if self.is_target => (self.service.clone(), "CNAME"),
            _ => ("192.0.2.10".to_owned(), "A"),
        };
        Endpoint {
            dns_name: self.host.to_owned(),
            targets: vec![target],
            record_type: record_type.to_owned(),
            set_identifier: if self.has_set_identifier { self.resource() } else { String::new() },
            labels: Labels::from_iter([("resource", &*self.resource())]),
            record_ttl: self.ttl,
            provider_specific: self.properties(),
        }
    }
}

fn any_path(random: &mut Random) -> Option<&'static str> {
    random.weighted(&[(5, None), (2, Some("/api")), (1, Some("/api/v2")), (1, Some("/admin"))])
}

fn any_access(random: &mut Random) -> Access {
    random.weighted(&[
        (10, Access::Silent),
        (1, Access::Open),
        (2, Access::Policies("staff")),
        (1, Access::Policies("staff,on-call")),
        (1, Access::Required),
    ])
}

/// How the services of objects that say this of Access begin.
fn service_kind(access: Access, settings: &Settings) -> &'static str {
    match access {
        Access::Policies(_) | Access::Required => SECRET,
        Access::Open => OPEN,
        Access::Silent if settings.protects_silence() => SECRET,
        Access::Silent => SILENT,
    }
}

/// The zone that holds a hostname's records.
pub(crate) fn zone(host: &str) -> &'static str {
    match host {
        host if host.ends_with("inner.example.com") => "inner.example.com",
        host if host.ends_with("example.org") => "example.org",
        _ => "example.com",
    }
}

/// What a visitor of a hostname and a path asks for.
pub(crate) fn url(host: &str, path: Option<&str>) -> String {
    let host = host.replace('*', "some");
    path.map_or_else(|| format!("https://{host}/"), |path| format!("https://{host}{path}/x"))
}

/// What ExternalDNS hands to a webhook, in the order of a Go map, here that of `random`. None of the objects are
/// merged.
pub(crate) fn endpoints(objects: &[Object], random: &mut Random) -> Vec<Endpoint> {
    let mut shuffled: Vec<&Object> = objects.iter().collect();
    for index in (1..shuffled.len()).rev() {
        shuffled.swap(index, random.below(index + 1));
    }
    shuffled.into_iter().flat_map(Object::endpoints).collect()
}

/// What objects ask for while a template is wrong.
pub(crate) const RENAMED: [&str; HOSTS.len() + CONTESTED.len()] = [
    "r0.example.com",
    "r1.example.com",
    "r2.example.com",
    "r3.example.com",
    "r4.example.com",
    "r5.example.com",
    "r6.example.com",
    "r7.example.com",
    "r8.example.com",
    "r9.example.com",
    "r10.example.com",
    "r11.example.com",
];

/// The same objects, each hostname under another name.
pub(crate) fn renamed(objects: &[Object]) -> Vec<Object> {
    let names: Vec<_> = HOSTS.iter().chain(&CONTESTED).zip(RENAMED).collect();
    let renamed = |object: &Object| {
        let (_, host) = names.iter().find(|(host, _)| **host == object.host).expect("one of all hostnames");
        Object { host, ..object.clone() }
    };
    objects.iter().map(renamed).collect()
}
