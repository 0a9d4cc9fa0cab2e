//! The service of a rule, where its requests go, as cloudflared reads it.
//!
//! cloudflared knows some words, three prefixes, and URLs parsed by Go's `url.Parse`. A scheme that it does not know
//! becomes TCP over WebSocket, and it silently ignores userinfo, query and fragment of a URL. This module accepts less:
//! it refuses whatever would be ignored, or served as something else than it says.

use std::error::Error;
use std::fmt;
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

/// A service that cloudflared accepts, in canonical form: the scheme in lower case, without a lone trailing `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service(Box<str>);

impl Service {
    /// Parses a service into its canonical form.
    ///
    /// # Errors
    /// When cloudflared would refuse the service, or would do something else than it says.
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        if text.is_empty() {
            return Err(ServiceError::Empty);
        }
        if text.contains(", ") {
            return Err(ServiceError::Several);
        }
        let is_blank = |&character: &char| character.is_control() || character.is_whitespace();
        // Most texts have no such character, which their bytes show quickly.
        if !text.bytes().all(|byte| byte.is_ascii_graphic())
            && let Some(character) = text.chars().find(is_blank)
        {
            return Err(ServiceError::Character(character));
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
            return if is_named { Ok(Self(text.into())) } else { Err(ServiceError::SocketPath) };
        }
        url(text).map(|url| Self(url.into()))
    }

    /// The service as written in a rule.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if cloudflared carries it as TCP. Its clients, such as `cloudflared access ssh`, ask for no path.
    pub fn is_tcp(&self) -> bool {
        self.0.split_once("://").is_some_and(|(scheme, _)| ["tcp", "ssh", "rdp", "smb"].contains(&scheme))
    }

    /// The host, including brackets, and the port that cloudflared connects to; `None` if the service is not a URL.
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        let (scheme, authority) = self.0.split_once("://")?;
        let (host, port) = host_and_port(authority).ok()?;
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

/// The reason why a text is not a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceError {
    /// The text is empty.
    Empty,
    /// Several services, joined as the targets of an endpoint are.
    Several,
    /// A blank or a control character.
    Character(char),
    /// The text is neither `<scheme>://<host>` nor anything else that cloudflared knows.
    Scheme,
    /// A scheme that cloudflared would carry as TCP over WebSocket, whatever its name promises.
    UnknownScheme(Box<str>),
    /// No host after the scheme.
    NoHost,
    /// A host that is neither a name nor an address.
    Host(Box<str>),
    /// A port outside 1 to 65535.
    Port(Box<str>),
    /// `tcp://` without a port.
    NoPort,
    /// A user name before the host.
    Userinfo,
    /// A path after the host.
    Path,
    /// A query or a fragment.
    Query,
    /// An IPv4 address in the form of an IPv6 one.
    MappedAddress(Ipv4Addr),
    /// `http_status:` without a status from 200 to 599.
    Status(Box<str>),
    /// `unix:` without the path of a socket.
    SocketPath,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Empty => "the service is empty: write one such as http://name.namespace.svc:8080",
            Self::Several => {
                "these are several services, and a rule has one: keep one of them, or name it by webhook/tunnel-service"
            }
            Self::Character(character) => return write!(formatter, "a service cannot hold {character:?}"),
            Self::Scheme => {
                "a service needs a scheme: write http:// or another one before it, as in http://name.namespace.svc:8080"
            }
            Self::UnknownScheme(scheme) => {
                return write!(
                    formatter,
                    "the scheme {scheme:?} is not one of {}: cloudflared would carry it as plain TCP; \
                 write tcp:// where that is meant",
                    SCHEMES.join(", ")
                );
            }
            Self::NoHost => "the service has no host after its scheme",
            Self::Host(host) => {
                return write!(
                    formatter,
                    "{host:?} is neither a host name, an IPv4 address in full nor an IPv6 address in brackets"
                );
            }
            Self::Port(port) => {
                return write!(formatter, "the port {port:?} is not a number from 1 to 65535");
            }
            Self::NoPort => "tcp:// needs a port: cloudflared would take 7864",
            Self::Userinfo => "a service has no user name or password: cloudflared would ignore them",
            Self::Path => {
                "a service has no path: cloudflared passes on the path of the request; choose by \
                 path with a path rule"
            }
            Self::Query => "a service has no query or fragment: cloudflared would ignore them",
            Self::MappedAddress(address) => {
                return write!(
                    formatter,
                    "some releases of cloudflared read no IPv4 address in this form, and then refuse the rules of all \
                     hostnames together: write {address}"
                );
            }
            Self::Status(status) => {
                return write!(
                    formatter,
                    "the HTTP status {status:?} is not a number from {} to {}",
                    STATUSES.start(),
                    STATUSES.end()
                );
            }
            Self::SocketPath => {
                "unix: and unix+tls: need the absolute path of a socket, as in unix:/run/app.sock"
            }
        };
        formatter.write_str(text)
    }
}

impl Error for ServiceError {}

fn check_status(status: &str) -> Result<(), ServiceError> {
    let is_plain = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
    match status.parse::<u16>() {
        Ok(number) if is_plain && STATUSES.contains(&number) => Ok(()),
        _ => Err(ServiceError::Status(status.into())),
    }
}

fn url(text: &str) -> Result<String, ServiceError> {
    let (scheme, rest) = text.split_once("://").ok_or(ServiceError::Scheme)?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !is_scheme {
        return Err(ServiceError::Scheme);
    }
    let scheme = SCHEMES
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(scheme))
        .ok_or_else(|| ServiceError::UnknownScheme(scheme.to_ascii_lowercase().into()))?;
    if rest.bytes().any(|byte| b"?#".contains(&byte)) {
        return Err(ServiceError::Query);
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !path.is_empty() {
        return Err(ServiceError::Path);
    }
    if authority.contains('@') {
        return Err(ServiceError::Userinfo);
    }
    let (host, port) = host_and_port(authority)?;
    check_host(host)?;
    match port {
        Some(port) => check_port(port)?,
        None if scheme == "tcp" => return Err(ServiceError::NoPort),
        None => {}
    }
    Ok([scheme, "://", authority].concat())
}

/// Splits at the port's colon, which is the last one outside brackets.
fn host_and_port(authority: &str) -> Result<(&str, Option<&str>), ServiceError> {
    let end_of_address = authority.rfind(']').map_or(0, |index| index + 1);
    let invalid = || ServiceError::Host(authority.into());
    let (address, rest) = authority.split_at_checked(end_of_address).ok_or_else(invalid)?;
    if address.is_empty() {
        return Ok(match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        });
    }
    match rest.strip_prefix(':') {
        Some(port) => Ok((address, Some(port))),
        None if rest.is_empty() => Ok((address, None)),
        None => Err(invalid()),
    }
}

fn check_host(host: &str) -> Result<(), ServiceError> {
    if host.is_empty() {
        return Err(ServiceError::NoHost);
    }
    let invalid = || ServiceError::Host(host.into());
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').ok_or_else(invalid)?;
        let address: Ipv6Addr = address.parse().map_err(|_| invalid())?;
        // Go 1.24.8 and 1.24.9 refuse such a URL, and the cloudflared releases of October 2025 to January 2026 are
        // built with them.
        return address.to_ipv4_mapped().map_or(Ok(()), |mapped| Err(ServiceError::MappedAddress(mapped)));
    }
    // A name with a trailing dot is absolute, so the pod's search domains are not tried.
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= LABEL_MAX_BYTES
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let is_name = name.len() <= HOSTNAME_MAX_BYTES && name.split('.').all(is_label);
    // What ends in a number and is no address in full has others in a C library: `127.1`, `0x7f.1`, `2130706433`.
    let last = name.rsplit('.').next().unwrap_or_default();
    let ends_in_number =
        last.starts_with("0x") || last.starts_with("0X") || last.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = name.parse::<Ipv4Addr>().is_ok();
    if is_name && (is_address || !ends_in_number) { Ok(()) } else { Err(invalid()) }
}

fn check_port(port: &str) -> Result<(), ServiceError> {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(number) if is_number && number > 0 => Ok(()),
        _ => Err(ServiceError::Port(port.into())),
    }
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
        use ServiceError as E;
        for (text, error) in [
            ("", E::Empty),
            ("localhost", E::Scheme),
            ("localhost:8000", E::Scheme),
            ("10.0.0.1:80", E::Scheme),
            ("warp-routing", E::Scheme),
            ("//x:80", E::Scheme),
            ("http:/x", E::Scheme),
            ("://x", E::Scheme),
            ("1http://x", E::Scheme),
            ("%zz://x", E::Scheme),
            ("UNIX:/run/app.sock", E::Scheme),
            ("ftp://x", E::UnknownScheme("ftp".into())),
            ("http://", E::NoHost),
            ("http:///", E::NoHost),
            ("http://:80", E::NoHost),
            ("http://x/y", E::Path),
            ("http://x//", E::Path),
            ("http://x:80, http://y:80", E::Several),
            ("http://x:80/ ", E::Character(' ')),
            ("http://local host:80", E::Character(' ')),
            ("http://a\nb", E::Character('\n')),
            ("http://x:abc", E::Port("abc".into())),
            ("http://x:", E::Port("".into())),
            ("http://x:-1", E::Port("-1".into())),
            ("http://x:+1", E::Port("+1".into())),
            ("http://x:0", E::Port("0".into())),
            ("http://x:65536", E::Port("65536".into())),
            ("http://[::1", E::Host("[:".into())),
            ("http://[::1]x", E::Host("[::1]x".into())),
            ("http://[10.0.0.1]", E::Host("[10.0.0.1]".into())),
            ("http://127.1:8888", E::Host("127.1".into())),
            ("http://0x7f.1", E::Host("0x7f.1".into())),
            ("http://0X7F.0.0.1", E::Host("0X7F.0.0.1".into())),
            ("http://0177.0.0.1", E::Host("0177.0.0.1".into())),
            ("http://0x7f000001:80", E::Host("0x7f000001".into())),
            ("http://2130706433", E::Host("2130706433".into())),
            ("http://127.0.0.256", E::Host("127.0.0.256".into())),
            ("http://0", E::Host("0".into())),
            ("http://web.1.", E::Host("web.1.".into())),
            ("http://[::ffff:10.0.0.1]:80", E::MappedAddress(Ipv4Addr::new(10, 0, 0, 1))),
            ("https://[::FFFF:a00:1]", E::MappedAddress(Ipv4Addr::new(10, 0, 0, 1))),
            ("http://[fe80::1%25eth0]", E::Host("[fe80::1%25eth0]".into())),
            ("http://::1", E::Host(":".into())),
            ("http://%zz", E::Host("%zz".into())),
            ("http://a..b", E::Host("a..b".into())),
            ("http://bücher", E::Host("bücher".into())),
            ("http://u:p@x", E::Userinfo),
            ("http://x?y=1", E::Query),
            ("http://x#y", E::Query),
            ("http://x/?y", E::Query),
            ("tcp://db", E::NoPort),
            ("http_status:", E::Status("".into())),
            ("http_status:99", E::Status("99".into())),
            ("http_status:100", E::Status("100".into())),
            ("http_status:199", E::Status("199".into())),
            ("http_status:600", E::Status("600".into())),
            ("http_status:999", E::Status("999".into())),
            ("http_status:1000", E::Status("1000".into())),
            ("http_status:+404", E::Status("+404".into())),
            ("http_status:0404", E::Status("0404".into())),
            ("http_status:099", E::Status("099".into())),
            ("unix:", E::SocketPath),
            ("unix:/", E::SocketPath),
            ("unix:app.sock", E::SocketPath),
        ] {
            assert_eq!(Service::parse(text), Err(error), "{text:?}");
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
