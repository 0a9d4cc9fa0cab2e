//! The service of a rule: the destination of its requests, as cloudflared reads it.
//!
//! cloudflared knows some words, three prefixes, and URLs parsed by Go's `url.Parse`. A scheme that it does not know
//! becomes TCP over WebSocket, and it silently ignores userinfo, query and fragment of a URL. This module accepts less:
//! it refuses a service that cloudflared would ignore in part, or would serve as something other than the text says.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::model::hostname::{HOSTNAME_MAX_BYTES, LABEL_MAX_BYTES};

/// Services that are a single word.
pub(crate) const WORDS: [&str; 4] = ["hello_world", "hello-world", "bastion", "socks-proxy"];

/// The prefixes of a socket's path. cloudflared compares them case-sensitively and does not read the rest as a URL.
const SOCKETS: [&str; 2] = ["unix:", "unix+tls:"];

/// The prefix of a status that answers every request.
const STATUS: &str = "http_status:";

/// The statuses that reach visitors as written. cloudflared accepts 100 to 999, but below 200 visitors get 200 or
/// nothing, and above 599 no status has a meaning.
const STATUSES: RangeInclusive<u16> = 200..=599;

/// Schemes with a protocol of their own.
const SCHEMES: [&str; 8] = ["http", "https", "ws", "wss", "tcp", "ssh", "rdp", "smb"];

/// True if cloudflared itself answers every request for the service, with a status.
pub fn is_status(service: &str) -> bool {
    service.starts_with(STATUS)
}

/// A service that cloudflared accepts, in canonical form: the scheme in lower case, without a lone trailing `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service(Box<str>);

impl Service {
    /// Parses a service into its canonical form.
    ///
    /// # Errors
    /// When cloudflared would refuse the service, or would do something other than it says.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the service is empty: write one such as http://name.namespace.svc:8080".to_owned());
        }
        if text.contains(", ") {
            return Err("these are several services, and a rule has one: keep one of them, or name it by \
                        webhook/tunnel-service"
                .to_owned());
        }
        let is_blank = |&character: &char| character.is_control() || character.is_whitespace();
        // Most texts have no such character, which their bytes show quickly.
        if !text.bytes().all(|byte| byte.is_ascii_graphic())
            && let Some(character) = text.chars().find(is_blank)
        {
            return Err(format!("a service cannot hold {character:?}"));
        }
        if WORDS.contains(&text) {
            return Ok(Self(text.into()));
        }
        if let Some(status) = text.strip_prefix(STATUS) {
            check_status(status)?;
            return Ok(Self(text.into()));
        }
        if let Some(path) = SOCKETS.iter().find_map(|prefix| text.strip_prefix(prefix)) {
            // `@` begins the name of an abstract socket.
            let is_named = path.starts_with(['/', '@']) && path.len() > 1;
            let help = "unix: and unix+tls: need the absolute path of a socket, as in unix:/run/app.sock";
            return if is_named { Ok(Self(text.into())) } else { Err(help.to_owned()) };
        }
        url(text).map(|url| Self(url.into()))
    }

    /// The service as written in a rule.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if cloudflared forwards TCP to it. Its clients, such as `cloudflared access ssh`, request no path.
    pub fn is_tcp(&self) -> bool {
        self.0.split_once("://").is_some_and(|(scheme, _)| ["tcp", "ssh", "rdp", "smb"].contains(&scheme))
    }

    /// The host, including brackets, and the port that cloudflared connects to; `None` if the service is not a URL.
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        let (scheme, authority) = self.0.split_once("://")?;
        let (host, port) = split_port(authority)?;
        let default = match scheme {
            "http" | "ws" => 80,
            "https" | "wss" => 443,
            "ssh" => 22,
            "rdp" => 3389,
            // The port of smb. tcp has no default port, and is refused without one.
            _ => 445,
        };
        Some((host, port.and_then(|port| port.parse().ok()).unwrap_or(default)))
    }
}

/// True if the text is meant as a service, valid or not. Only its form decides: it contains `://`, begins with one of
/// cloudflared's prefixes, or is one of its words.
pub fn looks_like_service(text: &str) -> bool {
    let begins_with = |prefix: &str| {
        text.get(..prefix.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix))
    };
    text.contains("://")
        || begins_with(STATUS)
        || SOCKETS.into_iter().any(begins_with)
        || WORDS.contains(&text)
}

fn check_status(status: &str) -> Result<(), String> {
    let is_plain = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
    match status.parse::<u16>() {
        Ok(number) if is_plain && STATUSES.contains(&number) => Ok(()),
        _ => {
            let (least, most) = (STATUSES.start(), STATUSES.end());
            Err(format!("the HTTP status {status:?} is not a number from {least} to {most}"))
        }
    }
}

fn url(text: &str) -> Result<String, String> {
    let (scheme, rest) = text.split_once("://").ok_or(
        "a service needs a scheme: write http:// or another one before it, as in http://name.namespace.svc:8080",
    )?;
    let scheme = SCHEMES.into_iter().find(|known| known.eq_ignore_ascii_case(scheme)).ok_or_else(|| {
        format!(
            "the scheme {:?} is not one of {}: cloudflared would carry it as plain TCP; write http:// for HTTP, \
             https:// with webhook/origin-http2-origin for HTTP/2, or tcp:// for TCP; UDP is not possible",
            scheme.to_ascii_lowercase(),
            SCHEMES.join(", ")
        )
    })?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if rest.contains(['?', '#']) {
        return Err("a service has no query or fragment: cloudflared would ignore them".to_owned());
    }
    if !path.is_empty() {
        return Err(
            "a service has no path: cloudflared passes on the path of the request; choose by path with a \
                    path rule"
                .to_owned(),
        );
    }
    if authority.contains('@') {
        return Err("a service has no user name or password: cloudflared would ignore them".to_owned());
    }
    let (host, port) = split_port(authority).ok_or_else(|| no_host(authority))?;
    check_host(host)?;
    match port {
        Some(port) if !is_port(port) => Err(format!("the port {port:?} is not a number from 1 to 65535")),
        None if scheme == "tcp" => Err("tcp:// needs a port: cloudflared would take 7864".to_owned()),
        _ => Ok([scheme, "://", authority].concat()),
    }
}

/// Splits at the port's colon, which is the last one outside brackets; `None` if something else follows the brackets.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let end_of_address = authority.rfind(']').map_or(0, |index| index + 1);
    let (address, rest) = authority.split_at_checked(end_of_address)?;
    match rest.rsplit_once(':') {
        Some((host, port)) if address.is_empty() => Some((host, Some(port))),
        Some(("", port)) => Some((address, Some(port))),
        None if address.is_empty() => Some((rest, None)),
        None if rest.is_empty() => Some((address, None)),
        _ => None,
    }
}

fn no_host(text: &str) -> String {
    format!("{text:?} is neither a host name, an IPv4 address in full nor an IPv6 address in brackets")
}

fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("the service has no host after its scheme".to_owned());
    }
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').and_then(|address| address.parse::<Ipv6Addr>().ok());
        // Go 1.24.8 and 1.24.9 refuse such a URL, and the cloudflared releases of October 2025 to January 2026 are
        // built with them.
        return match address.ok_or_else(|| no_host(host))?.to_ipv4_mapped() {
            None => Ok(()),
            Some(mapped) => Err(format!(
                "some releases of cloudflared read no IPv4 address in this form, and then refuse the rules of all \
                 hostnames together: write {mapped}"
            )),
        };
    }
    // A name with a trailing dot is absolute, so the pod's search domains are not tried.
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= LABEL_MAX_BYTES
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let is_name = name.len() <= HOSTNAME_MAX_BYTES && name.split('.').all(is_label);
    // A C library takes a name that ends in a number for an address, even `127.1`, `0x7f.1` or `2130706433`.
    let last = name.rsplit('.').next().unwrap_or_default();
    let ends_in_number =
        last.starts_with("0x") || last.starts_with("0X") || last.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = name.parse::<Ipv4Addr>().is_ok();
    if is_name && (is_address || !ends_in_number) { Ok(()) } else { Err(no_host(host)) }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_written_in_one_way() {
        for (text, canonical) in [
            ("http://app.ns.svc:8080", "http://app.ns.svc:8080"),
            ("HTTP://App:80", "http://App:80"),
            ("http://app/", "http://app"),
            ("https://10.0.0.1:8443/", "https://10.0.0.1:8443"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("http://[fd00::1]", "http://[fd00::1]"),
            ("http://app.ns.svc.cluster.local.:80", "http://app.ns.svc.cluster.local.:80"),
            ("http://ex_ample:80", "http://ex_ample:80"),
            ("wss://app", "wss://app"),
            ("tcp://db.ns.svc:5432", "tcp://db.ns.svc:5432"),
            ("ssh://host", "ssh://host"),
            ("rdp://w:3389", "rdp://w:3389"),
            ("smb://files", "smb://files"),
            ("unix:/run/app.sock", "unix:/run/app.sock"),
            ("unix+tls:/run/app.sock", "unix+tls:/run/app.sock"),
            ("unix:///run/app.sock", "unix:///run/app.sock"),
            ("unix:@app", "unix:@app"),
            ("http_status:404", "http_status:404"),
            ("http_status:200", "http_status:200"),
            ("http_status:599", "http_status:599"),
            ("http://[::1.2.3.4]:80", "http://[::1.2.3.4]:80"),
            ("hello_world", "hello_world"),
            ("hello-world", "hello-world"),
            ("bastion", "bastion"),
            ("socks-proxy", "socks-proxy"),
        ] {
            let service = Service::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(service.as_str(), canonical);
            assert_eq!(Service::parse(canonical).unwrap(), service, "canonical twice");
            assert!(looks_like_service(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_service_is_refused_for_its_reason() {
        for (text, reason) in [
            ("", "is empty"),
            ("localhost", "needs a scheme"),
            ("localhost:8000", "needs a scheme"),
            ("10.0.0.1:80", "needs a scheme"),
            ("warp-routing", "needs a scheme"),
            ("//x:80", "needs a scheme"),
            ("http:/x", "needs a scheme"),
            ("://x", "the scheme \"\" is not"),
            ("1http://x", "the scheme \"1http\" is not"),
            ("%zz://x", "the scheme \"%zz\" is not"),
            ("UNIX:/run/app.sock", "needs a scheme"),
            ("ftp://x", "the scheme \"ftp\""),
            ("h2c://x:80", "https:// with webhook/origin-http2-origin for HTTP/2"),
            ("udp://x:53", "tcp:// for TCP; UDP is not possible"),
            ("http://", "no host after"),
            ("http:///", "no host after"),
            ("http://:80", "no host after"),
            ("http://x/y", "has no path"),
            ("http://x//", "has no path"),
            ("http://x:80, http://y:80", "several services"),
            ("http://x:80/ ", "cannot hold ' '"),
            ("http://local host:80", "cannot hold ' '"),
            ("http://a\nb", "cannot hold '\\n'"),
            ("http://x:abc", r#"the port "abc" is"#),
            ("http://x:", r#"the port "" is"#),
            ("http://x:-1", r#"the port "-1" is"#),
            ("http://x:+1", r#"the port "+1" is"#),
            ("http://x:0", r#"the port "0" is"#),
            ("http://x:65536", r#"the port "65536" is"#),
            ("http://[::1", r#""[:" is neither"#),
            ("http://[::1]x", r#""[::1]x" is neither"#),
            ("http://[10.0.0.1]", r#""[10.0.0.1]" is neither"#),
            ("http://127.1:8888", r#""127.1" is neither"#),
            ("http://0x7f.1", r#""0x7f.1" is neither"#),
            ("http://0X7F.0.0.1", r#""0X7F.0.0.1" is neither"#),
            ("http://0177.0.0.1", r#""0177.0.0.1" is neither"#),
            ("http://0x7f000001:80", r#""0x7f000001" is neither"#),
            ("http://2130706433", r#""2130706433" is neither"#),
            ("http://127.0.0.256", r#""127.0.0.256" is neither"#),
            ("http://0", r#""0" is neither"#),
            ("http://web.1.", r#""web.1." is neither"#),
            ("http://[::ffff:10.0.0.1]:80", "write 10.0.0.1"),
            ("https://[::FFFF:a00:1]", "write 10.0.0.1"),
            ("http://[fe80::1%25eth0]", r#""[fe80::1%25eth0]" is neither"#),
            ("http://::1", r#"":" is neither"#),
            ("http://%zz", r#""%zz" is neither"#),
            ("http://a..b", r#""a..b" is neither"#),
            ("http://bücher", r#""bücher" is neither"#),
            ("http://u:p@x", "no user name"),
            ("http://x?y=1", "no query"),
            ("http://x#y", "no query"),
            ("http://x/?y", "no query"),
            ("tcp://db", "needs a port"),
            ("http_status:", r#"status "" is not a number from 200 to 599"#),
            ("http_status:99", r#"status "99" is not a number from 200 to 599"#),
            ("http_status:100", r#"status "100" is not a number from 200 to 599"#),
            ("http_status:199", r#"status "199" is not a number from 200 to 599"#),
            ("http_status:600", r#"status "600" is not a number from 200 to 599"#),
            ("http_status:999", r#"status "999" is not a number from 200 to 599"#),
            ("http_status:1000", r#"status "1000" is not a number from 200 to 599"#),
            ("http_status:+404", r#"status "+404" is not a number from 200 to 599"#),
            ("http_status:0404", r#"status "0404" is not a number from 200 to 599"#),
            ("http_status:099", r#"status "099" is not a number from 200 to 599"#),
            ("unix:", "absolute path of a socket"),
            ("unix:/", "absolute path of a socket"),
            ("unix:app.sock", "absolute path of a socket"),
        ] {
            let error = Service::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_hostname_or_an_address_does_not_look_like_a_service() {
        for text in
            ["example.com", "10.0.0.1", "10.0.0.1:80", "fd00::1", "localhost", "", "none", "http", "unix"]
        {
            assert!(!looks_like_service(text), "{text}");
        }
    }

    #[test]
    fn a_broken_service_still_looks_like_one() {
        for text in ["http://", "http://x/y", "ftp://x", "unix:", "http_status:abc", "HTTP_STATUS:404", "://"]
        {
            assert!(looks_like_service(text), "{text}");
        }
    }
}
