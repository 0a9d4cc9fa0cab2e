//! Checks requests that need the operator's permission: files that every cloudflared of the tunnel has to read, and
//! services behind the program's own ports.
//!
//! cloudflared refuses a whole configuration if it cannot read the `caPool` of one rule, although Cloudflare accepted
//! the configuration (`tlsconfig/certreloader.go`, `LoadOriginCA`). Only the operator knows which files exist.

use std::net::{IpAddr, SocketAddr};

use crate::ingress::origin_option::Mistake;
use crate::ingress::{OriginOption, Service, WantedRule};
use crate::reconcile::Settings;

/// The machine's own names in the hosts files of Kubernetes, Docker and the usual distributions. Names below
/// `localhost` are not listed: [`own_port_problem`] matches them all, because many resolvers follow RFC 6761.
const LOCAL_NAMES: [&str; 8] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost4.localdomain4",
    "localhost6",
    "localhost6.localdomain6",
    "ip6-localhost",
    "ip6-loopback",
];

/// The parts of a rule that the operator does not permit; `subject` names the source of the rule's service.
pub fn mistakes(
    rule: &WantedRule,
    subject: &str,
    settings: &Settings,
) -> impl Iterator<Item = Mistake> + use<> {
    let ca_pool = rule.origin_request.text(OriginOption::CaPool).filter(|path| !is_listed(path, settings));
    let ca_pool = ca_pool.map(|path| {
        let problem = format!(
            "is {path:?}, which ORIGIN_CA_POOLS does not list: a file that a cloudflared cannot read makes \
             it refuse the rules of all hostnames together; list only files that every cloudflared of the \
             tunnel can read"
        );
        Mistake::new(OriginOption::CaPool.property(), problem)
    });
    let service = own_port_problem(&rule.service, &settings.operator.own_addresses);
    let service =
        service.map(|problem| Mistake::new(subject, format!("is {:?}: {problem}", rule.service.as_str())));
    ca_pool.into_iter().chain(service)
}

/// The path is compared literally: another spelling may become a different file when a link in it changes.
fn is_listed(path: &str, settings: &Settings) -> bool {
    settings.operator.ca_pools.iter().any(|listed| **listed == *path)
        || settings.operator.origin_defaults.text(OriginOption::CaPool) == Some(path)
}

/// The reason why the service is not published, if it reaches one of `own` from a cloudflared in the webhook's network.
pub fn own_port_problem(service: &Service, own: &[SocketAddr]) -> Option<String> {
    let (host, port) = service.host_and_port()?;
    let mut same_port = own.iter().filter(|address| address.port() == port).peekable();
    same_port.peek()?;
    let text = host.to_ascii_lowercase();
    let name = text.strip_suffix('.').unwrap_or(&text);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let leads_there = match address.map(|address| address.to_canonical()) {
        // Linux, and Go everywhere, connect an unspecified address to the machine itself.
        Ok(address) => {
            address.is_loopback()
                || address.is_unspecified()
                || same_port.any(|own| own.ip().to_canonical() == address)
        }
        Err(_) => LOCAL_NAMES.contains(&name) || name.ends_with(".localhost"),
    };
    leads_there.then(|| {
        format!(
            "port {port} of this machine is the webhook's own, and every client of that port can publish and delete \
             hostnames, or read the metrics"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The port of this machine that the problem names.
    fn own(service: &str, addresses: &[&str]) -> Option<u16> {
        let service = Service::parse(service).unwrap_or_else(|error| panic!("{service}: {error}"));
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|address| address.parse().expect("an address")).collect();
        let problem = own_port_problem(&service, &addresses)?;
        let port = problem.split_whitespace().nth(1).and_then(|port| port.parse().ok());
        Some(port.expect("the problem names a port"))
    }

    #[test]
    fn every_spelling_of_this_machine_leads_to_the_programs_own_port() {
        for host in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1.2.3",
            "127.255.255.255",
            "localhost",
            "LocalHost.",
            "app.localhost",
            "ip6-localhost",
            "localhost.localdomain",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
            "0.0.0.0",
            "[::]",
            "[0::0]",
        ] {
            for scheme in ["http", "https", "ws", "wss", "tcp", "ssh", "rdp", "smb"] {
                let service = format!("{scheme}://{host}:8888");
                assert_eq!(own(&service, &["127.0.0.1:8888", "[::]:8080"]), Some(8888), "{service}");
                let other = format!("{scheme}://{host}:8889");
                assert_eq!(own(&other, &["127.0.0.1:8888", "[::]:8080"]), None, "{other}");
            }
        }
    }

    #[test]
    fn other_hosts_do_not_lead_to_the_programs_own_port() {
        for host in [
            "web.shop.svc",
            "localhost.example.com",
            "notlocalhost",
            "128.0.0.1",
            "10.0.0.1",
            "1.web",
            "[::2]",
            "[fe80::1]",
            "[::127.0.0.1]",
        ] {
            let service = format!("http://{host}:8888");
            assert_eq!(own(&service, &["127.0.0.1:8888"]), None, "{service}");
        }
        for service in ["hello_world", "bastion", "socks-proxy", "http_status:404", "unix:/run/app.sock"] {
            assert_eq!(own(service, &["127.0.0.1:80"]), None, "{service}");
        }
    }

    #[test]
    fn a_port_that_is_not_said_is_the_schemes() {
        for (scheme, port) in
            [("http", 80), ("ws", 80), ("https", 443), ("wss", 443), ("ssh", 22), ("rdp", 3389), ("smb", 445)]
        {
            let service = format!("{scheme}://localhost");
            assert_eq!(own(&service, &[&format!("127.0.0.1:{port}")]), Some(port), "{service}");
            assert_eq!(own(&service, &["127.0.0.1:8888"]), None, "{service}");
        }
    }

    #[test]
    fn an_address_that_the_program_listens_on_leads_to_it() {
        assert_eq!(own("http://192.0.2.1:8888", &["192.0.2.1:8888"]), Some(8888));
        assert_eq!(own("http://[2001:db8::1]:8888", &["[2001:db8::1]:8888"]), Some(8888));
        assert_eq!(own("http://192.0.2.2:8888", &["192.0.2.1:8888"]), None);
    }
}
