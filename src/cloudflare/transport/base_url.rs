//! Parses the API's base address.

use std::net::IpAddr;

use ureq::http::Uri;

const NO_ADDRESS: &str =
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
        let uri: Uri = text.parse().map_err(|_| NO_ADDRESS)?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(NO_ADDRESS),
        };
        let authority = uri.authority().ok_or(NO_ADDRESS)?;
        // A password would be visible wherever the address is shown.
        if authority.as_str().contains('@') || authority.host().is_empty() || text.contains(['?', '#']) {
            return Err(NO_ADDRESS);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            text: text.into(),
            host: host.into(),
            port: authority.port_u16().unwrap_or(if is_https { 443 } else { 80 }),
            is_https,
            is_loopback: host == "localhost"
                || host.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
        })
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
            ("http://localhost", Some(("http://localhost", false, true))),
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
        ] {
            let parsed = BaseUrl::parse(text).ok();
            let parsed = parsed.as_ref().map(|base| (&*base.text, base.is_https, base.is_loopback));
            assert_eq!(parsed, expected, "{text:?}");
        }
    }
}
