//! Chooses the proxy for calls to the API from the environment, as curl and Go do.
//!
//! ureq ignores a value that it cannot use, and would then connect directly. Here such a value is a mistake.

use std::net::IpAddr;

use super::setting::Variables;
use crate::cloudflare::{BaseUrl, Proxy};
use crate::model::domain_filter::entry_matches;

/// The variables for each scheme of the API's address; the first one that is set counts. A proxy for `http` does not
/// apply to `https`.
const HTTPS: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const HTTP: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The proxy to the API. Only the variable that counts is parsed, so a value for other programs is never a mistake.
pub(super) fn proxy(target: &BaseUrl, variables: &Variables) -> Result<Option<Proxy>, String> {
    let given = |name: &'static str| {
        let text = variables.get(name)?.trim();
        (!text.is_empty()).then_some((name, text))
    };
    let names = if target.is_https { HTTPS } else { HTTP };
    // For a proxy on another machine, loopback is that other machine.
    let is_direct = target.is_loopback
        || EXCEPTIONS.into_iter().find_map(given).is_some_and(|(_, list)| excepts(list, target));
    match names.into_iter().find_map(given) {
        Some((name, text)) if !is_direct => {
            Proxy::parse(text).map(Some).map_err(|error| format!("{name} {error}"))
        }
        _ => Ok(None),
    }
}

fn excepts(list: &str, target: &BaseUrl) -> bool {
    let host = target.host.to_ascii_lowercase();
    let host = host.trim_end_matches('.');
    // Go separates entries by commas only, curl also by blanks.
    list.to_ascii_lowercase()
        .split(|separator: char| separator == ',' || separator.is_whitespace())
        .any(|entry| entry_matches_host(entry, host, target.port))
}

/// True if an entry of `NO_PROXY` matches this host. A name matches itself and all names below it, after a leading
/// dot only those below. An entry may have a port. An entry that is a network (CIDR) matches nothing,
/// because the API is reached by a name.
fn entry_matches_host(entry: &str, host: &str, port: u16) -> bool {
    let name = match entry.rsplit_once(':') {
        Some((name, of_port)) if of_port.parse() == Ok(port) => name,
        Some(_) => return false,
        None => entry,
    };
    let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
    let name = name.trim_end_matches('.');
    let is_address = host.parse::<IpAddr>().is_ok();
    entry == "*" || !name.is_empty() && (name == host || !is_address && entry_matches(name, host))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOUDFLARE: &str = "https://api.cloudflare.com/client/v4";

    /// The proxy's host and port, or the mistake.
    fn read(url: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let target = BaseUrl::parse(url).expect("an address");
        let variables =
            variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        proxy(&target, &variables).map(|proxy| proxy.map(|proxy| proxy.to_string()))
    }

    #[test]
    fn the_variable_for_the_scheme_counts_then_the_one_for_all_upper_case_before_lower() {
        for (url, variables, expected) in [
            (CLOUDFLARE, &[("HTTPS_PROXY", "http://a:1")][..], Some("a:1")),
            (CLOUDFLARE, &[("https_proxy", " http://a:1 ")], Some("a:1")),
            (CLOUDFLARE, &[("HTTPS_PROXY", "a:1"), ("https_proxy", "b:1")], Some("a:1")),
            (CLOUDFLARE, &[("HTTPS_PROXY", " "), ("https_proxy", "b:1")], Some("b:1")),
            (CLOUDFLARE, &[("ALL_PROXY", "c:1")], Some("c:1")),
            (CLOUDFLARE, &[("all_proxy", "c:1")], Some("c:1")),
            (CLOUDFLARE, &[("ALL_PROXY", "socks5://c:1"), ("HTTPS_PROXY", "a:1")], Some("a:1")),
            (CLOUDFLARE, &[("ALL_PROXY", "c:1"), ("https_proxy", "b:1")], Some("b:1")),
            (CLOUDFLARE, &[("HTTP_PROXY", "http://d:1"), ("http_proxy", "http://d:1")], None),
            (CLOUDFLARE, &[], None),
            ("http://api.example", &[("HTTP_PROXY", "d:1"), ("HTTPS_PROXY", "a:1")], Some("d:1")),
            ("http://api.example", &[("http_proxy", "d:1")], Some("d:1")),
            ("http://api.example", &[("HTTPS_PROXY", "a:1")], None),
            ("http://127.0.0.1:1", &[("HTTP_PROXY", "d:1"), ("ALL_PROXY", "ftp://x")], None),
            ("https://[::1]:1", &[("HTTPS_PROXY", "a:1")], None),
            ("https://localhost", &[("HTTPS_PROXY", "a:1")], None),
        ] {
            assert_eq!(read(url, variables), Ok(expected.map(str::to_owned)), "{url} {variables:?}");
        }
    }

    /// Traffic that was meant for a proxy never goes directly without a warning.
    #[test]
    fn what_cannot_be_used_is_a_mistake_of_the_variable_that_counts() {
        for (name, text) in [
            ("ALL_PROXY", "socks5://proxy:1080"),
            ("all_proxy", "socks5h://jo:hunter2@proxy:1080"),
            ("ALL_PROXY", "ftp://proxy"),
            ("HTTPS_PROXY", "socks4://proxy"),
            ("HTTPS_PROXY", "http://jo:hun@ter2#@proxy:1"),
            ("https_proxy", "http://pro xy"),
        ] {
            let mistake = read(CLOUDFLARE, &[(name, text)]).expect_err(text);
            assert!(mistake.starts_with(name) && !mistake.contains("ter2"), "{mistake}");
            // A value that is not used cannot be a mistake.
            assert_eq!(
                read(CLOUDFLARE, &[(name, text), ("NO_PROXY", "api.cloudflare.com")]),
                Ok(None),
                "{text}"
            );
        }
    }

    #[test]
    fn exceptions_are_read_as_curl_and_go_read_them() {
        let address = "https://192.0.2.7:8443";
        for (url, exceptions, is_direct) in [
            (CLOUDFLARE, "api.cloudflare.com", true),
            (CLOUDFLARE, "API.Cloudflare.COM", true),
            (CLOUDFLARE, "api.cloudflare.com.", true),
            (CLOUDFLARE, "cloudflare.com", true),
            (CLOUDFLARE, "com", true),
            (CLOUDFLARE, ".cloudflare.com", true),
            (CLOUDFLARE, "*.cloudflare.com", true),
            (CLOUDFLARE, "foo, api.cloudflare.com", true),
            (CLOUDFLARE, "foo api.cloudflare.com", true),
            (CLOUDFLARE, " , cloudflare.com ,", true),
            (CLOUDFLARE, "*", true),
            (CLOUDFLARE, "foo,*", true),
            (CLOUDFLARE, "cloudflare.com:443", true),
            (CLOUDFLARE, "cloudflare.com:80", false),
            (CLOUDFLARE, "cloudflare.com:x", false),
            (CLOUDFLARE, "flare.com", false),
            (CLOUDFLARE, "*flare.com", false),
            (CLOUDFLARE, ".api.cloudflare.com", false),
            (CLOUDFLARE, "v4.api.cloudflare.com", false),
            (CLOUDFLARE, "api", false),
            (CLOUDFLARE, ".", false),
            (CLOUDFLARE, ",", false),
            (CLOUDFLARE, "0.0.0.0/0", false),
            ("https://api.example:8443", "api.example:8443", true),
            ("https://api.example:8443", "api.example:443", false),
            ("https://api.example.", "api.example", true),
            (address, "192.0.2.7", true),
            (address, "192.0.2.7:8443", true),
            (address, "192.0.2.7:443", false),
            (address, "192.0.2.0/24", false),
            (address, ".2.7", false),
            (address, "7", false),
        ] {
            let expected = if is_direct { None } else { Some("proxy:1".to_owned()) };
            let variables = [("HTTPS_PROXY", "proxy:1"), ("NO_PROXY", exceptions)];
            assert_eq!(read(url, &variables), Ok(expected), "{url} {exceptions:?}");
        }
        let variables = [("HTTPS_PROXY", "proxy:1"), ("NO_PROXY", ""), ("no_proxy", "cloudflare.com")];
        assert_eq!(read(CLOUDFLARE, &variables), Ok(None));
        let variables = [("HTTPS_PROXY", "proxy:1"), ("NO_PROXY", "x"), ("no_proxy", "cloudflare.com")];
        assert_eq!(read(CLOUDFLARE, &variables), Ok(Some("proxy:1".to_owned())));
    }
}
