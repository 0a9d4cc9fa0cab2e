//! Parses the address of a proxy on the way to the API.

use std::fmt;

/// An `http` or `https` proxy, used with CONNECT. Only its host and port are ever shown, never its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy(ureq::Proxy);

const SOCKS: &str = "names a SOCKS proxy, which the webhook cannot use; give an HTTP proxy in HTTPS_PROXY, or add the \
     API's host to NO_PROXY";

const NO_ADDRESS: &str = "is not the address of a proxy; allowed are http://host:port and https://host:port, with \
     user:password@ in front of the host, in which all characters except letters and digits are percent-encoded (@ is \
     %40, # is %23, / is %2F, % is %25)";

impl Proxy {
    /// Parses the addresses that curl and Go accept, including `host:port`, and refuses those that they read in
    /// different ways. The problem repeats nothing of the address, because an apparent host may be part of a password.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let scheme = scheme.to_ascii_lowercase();
        if scheme.starts_with("socks") {
            return Err(SOCKS);
        }
        let authority = rest.trim_end_matches('/');
        let (_, host_and_port) = authority.split_once('@').unwrap_or(("", authority));
        let proxy = ureq::Proxy::new(&format!("{scheme}://{authority}")).map_err(|_| NO_ADDRESS)?;
        let (host, port) = (proxy.host(), proxy.port());
        // If ureq's host and port are not all of `host_and_port`, the host may be a piece of the password, or a port is
        // lost.
        let is_clear =
            !host.is_empty() && port > 0 && [host, &format!("{host}:{port}")].contains(&host_and_port);
        if is_clear { Ok(Self(proxy)) } else { Err(NO_ADDRESS) }
    }

    pub(super) fn into_inner(self) -> ureq::Proxy {
        self.0
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.0.host(), self.0.port())
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Proxy({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_used_is_read_and_shown_without_its_credentials() {
        for (text, shown, user, password) in [
            ("http://proxy.example:3128", "proxy.example:3128", None, None),
            ("HTTP://proxy.example:3128/", "proxy.example:3128", None, None),
            ("proxy.example:3128", "proxy.example:3128", None, None),
            ("proxy", "proxy:80", None, None),
            ("https://proxy.example", "proxy.example:443", None, None),
            ("http://10.0.0.1:8080", "10.0.0.1:8080", None, None),
            ("http://[2001:db8::1]:8080", "[2001:db8::1]:8080", None, None),
            ("http://[2001:db8::1]", "[2001:db8::1]:80", None, None),
            ("http://jo:hunter2@proxy:1", "proxy:1", Some("jo"), Some("hunter2")),
            ("jo:hunter2@proxy:1", "proxy:1", Some("jo"), Some("hunter2")),
            ("http://jo:h%40%23%2f%25@proxy:1", "proxy:1", Some("jo"), Some("h@#/%")),
            ("http://jo:hunter:2@proxy:1", "proxy:1", Some("jo"), Some("hunter:2")),
            ("http://jo@proxy:1", "proxy:1", Some("jo"), None),
            ("http://jo:hun%ter2@proxy:1", "proxy:1", Some("jo"), Some("hun%ter2")),
        ] {
            let proxy = Proxy::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (&*proxy.to_string(), proxy.0.username(), proxy.0.password()),
                (shown, user, password)
            );
            assert_eq!(format!("{proxy:?}"), format!("Proxy({shown})"));
        }
    }

    /// `user:p@s#s@proxy` was looked up as the name `s`.
    #[test]
    fn what_could_be_read_in_two_ways_is_refused_and_nothing_of_it_repeated() {
        for text in [
            "http://jo:hun@ter2@proxy:1",
            "http://jo:hun#ter2@proxy:1",
            "http://jo:hun@s#ter2@proxy:1",
            "http://jo:hun/ter2@proxy:1",
            "http://jo:hun?ter2@proxy:1",
            "http://jo:hun%ff@proxy:1",
            "http://jo:hunter 2@proxy:1",
            "http://jo:hunterä@proxy:1",
            "http://jo:hunter2",
            "http://jo:hunter2@",
            "http://jo:hunter2@:1",
            "http://hunter2@proxy:0",
            "http://hunter2@proxy:65536",
            "http://hunter2@proxy:+1",
            "http://hunter2@proxy:",
            "http://hunter2@proxy:1/pac",
            "http://hunter2@pro xy:1",
            "http://hunter2@2001:db8::1",
            "http:/proxy:1",
            "http//proxy:1",
            "http://",
            "\"http://proxy:1\"",
            "ftp://hunter2@proxy:1",
            "jo:hunter2://proxy:1",
        ] {
            assert_eq!(Proxy::parse(text), Err(NO_ADDRESS), "{text}");
        }
        for text in ["socks5://proxy:1", "SOCKS://proxy:1", "socks4a://jo:hunter2@proxy", "socks5h://#@?"] {
            assert_eq!(Proxy::parse(text), Err(SOCKS), "{text}");
        }
    }
}
