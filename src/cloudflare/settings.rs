//! The settings of a client, and the watch over the file that a secret came from, because Kubernetes replaces it while
//! the program runs.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use rustls::RootCertStore;
use ureq::http::Uri;

use crate::secret::Secret;

/// The name that this program sends to Cloudflare.
pub(super) const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The API's address: `https://api.cloudflare.com/client/v4`. Plain `http` is possible, for tests.
    pub base_url: BaseUrl,
    pub credentials: Credentials,
    /// The file from which the secret of the credentials was read, if any. The client follows its changes.
    pub credential_file: Option<PathBuf>,
    /// The trusted certificate authorities.
    pub roots: RootCertStore,
    pub proxy: Option<Proxy>,
}

/// An API token of a user or of an account, or the older pair of key and email.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The token or the key.
    pub secret: Secret,
    /// The email address of the key's user; `None` beside a token.
    pub email: Option<Box<str>>,
}

#[derive(Debug)]
pub(super) struct CredentialFile {
    path: PathBuf,
    /// The problem found at the last reading.
    problem: Option<String>,
}

impl CredentialFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, problem: None }
    }

    /// The file's secret, if it differs from the one in use. A file that is missing, empty or broken changes nothing;
    /// the problem is logged once. If the file is in the middle of a write, Cloudflare rejects the half secret, and the
    /// file is read again.
    pub(super) fn read(&mut self, in_use: &Secret) -> Option<Secret> {
        let Self { path, problem } = self;
        match Secret::read(path) {
            Ok(secret) => {
                if problem.take().is_some() {
                    log::info!("the credentials file {path:?} can be read again");
                }
                if secret == *in_use {
                    return None;
                }
                log::info!("the credentials file {path:?} has a new secret; the webhook uses it from now on");
                Some(secret)
            }
            Err(text) => {
                if problem.as_ref() != Some(&text) {
                    log::warn!(
                        "the credentials file {path:?} {text}; the credentials read before stay in use"
                    );
                    *problem = Some(text);
                }
                None
            }
        }
    }
}

const NO_BASE_URL: &str =
    "the API's address must look like https://api.cloudflare.com/client/v4, without user or query";

/// A checked base address.
#[derive(Clone, Debug)]
pub struct BaseUrl {
    /// The address without a slash at its end.
    pub(super) text: Box<str>,
    /// A name, or an IP address without brackets.
    pub host: Box<str>,
    /// The port given, or else the scheme's own.
    pub port: u16,
    pub is_https: bool,
    /// True if it is on this machine.
    pub is_loopback: bool,
}

impl BaseUrl {
    /// Parses an address.
    ///
    /// # Errors
    ///
    /// When it is neither `http` nor `https`, or holds parts that could be secret.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim().trim_end_matches('/');
        let uri: Uri = text.parse().map_err(|_| NO_BASE_URL)?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(NO_BASE_URL),
        };
        let authority = uri.authority().ok_or(NO_BASE_URL)?;
        // The parser ignores a port that is no number of a port.
        let has_wrong_port = authority.port_u16().is_none() && authority.as_str() != authority.host();
        // A password would be visible wherever the address is shown.
        let has_password = authority.as_str().contains('@');
        if has_wrong_port || has_password || authority.host().is_empty() || text.contains(['?', '#']) {
            return Err(NO_BASE_URL);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            text: text.into(),
            host: host.into(),
            port: authority.port_u16().unwrap_or(if is_https { 443 } else { 80 }),
            is_https,
            is_loopback: host.eq_ignore_ascii_case("localhost")
                || host.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
        })
    }
}

/// An `http` or `https` proxy, used with CONNECT. Only its host and port are ever shown, never its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy(pub(super) ureq::Proxy);

const SOCKS: &str = "names a SOCKS proxy, which the webhook cannot use; give an HTTP proxy in HTTPS_PROXY, or add the \
     API's host to NO_PROXY";

const NO_PROXY_ADDRESS: &str = "is not the address of a proxy; allowed are http://host:port and https://host:port, with \
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
        let proxy = ureq::Proxy::new(&format!("{scheme}://{authority}")).map_err(|_| NO_PROXY_ADDRESS)?;
        let (host, port) = (proxy.host(), proxy.port());
        // If ureq's host and port are not all of `host_and_port`, the host may be a piece of the password, or a port is
        // lost.
        let is_clear =
            !host.is_empty() && port > 0 && [host, &format!("{host}:{port}")].contains(&host_and_port);
        if is_clear { Ok(Self(proxy)) } else { Err(NO_PROXY_ADDRESS) }
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
    fn a_base_address_has_a_scheme_and_a_host_and_nothing_that_could_be_secret() {
        for (text, expected) in [
            (
                "https://api.cloudflare.com/client/v4",
                Some(("https://api.cloudflare.com/client/v4", true, false)),
            ),
            (
                " https://api.cloudflare.com/client/v4/ ",
                Some(("https://api.cloudflare.com/client/v4", true, false)),
            ),
            ("http://127.0.0.1:8080", Some(("http://127.0.0.1:8080", false, true))),
            ("http://[::1]:8080/v4", Some(("http://[::1]:8080/v4", false, true))),
            ("http://LocalHost", Some(("http://LocalHost", false, true))),
            ("http://emulator:80", Some(("http://emulator:80", false, false))),
            ("", None),
            ("api.cloudflare.com", None),
            ("/client/v4", None),
            ("ftp://api.cloudflare.com", None),
            ("https://", None),
            ("https://:443", None),
            ("https://user:password@host/", None),
            ("https://host/?token=x", None),
            ("https://host/#x", None),
            ("https://ho st/", None),
            ("https://api.cloudflare.com:99999/client/v4", None),
            ("https://api.cloudflare.com:8o", None),
            ("https://api.cloudflare.com:", None),
        ] {
            let parsed = BaseUrl::parse(text).ok();
            let parsed = parsed.as_ref().map(|base| (&*base.text, base.is_https, base.is_loopback));
            assert_eq!(parsed, expected, "{text:?}");
        }
    }

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
            assert_eq!(Proxy::parse(text), Err(NO_PROXY_ADDRESS), "{text}");
        }
        for text in ["socks5://proxy:1", "SOCKS://proxy:1", "socks4a://jo:hunter2@proxy", "socks5h://#@?"] {
            assert_eq!(Proxy::parse(text), Err(SOCKS), "{text}");
        }
    }
}
