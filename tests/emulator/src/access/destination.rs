//! What a destination covers: a hostname with stars and a path with stars.
//!
//! As Cloudflare's documents say: a star stands for one label or a part of one, in a path for anything; nothing is
//! inherited from a less specific application. Not known, and so decided against a client that relies on it: letter
//! case and percent signs of a path are taken as they are. Whether `host/alpha` covers `host/alpha/x` is documented and
//! was contradicted: [`Whims`](crate::Whims) decides.

/// Longest text of a destination, from Cloudflare's list of limits.
const LENGTH_LIMIT: usize = 63;

/// A public destination, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    host: String,
    /// With its slash; empty for the whole host.
    path: String,
}

impl Pattern {
    pub(super) fn parse(uri: &str) -> Self {
        let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
        let (host, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let path = if path == "/" { "" } else { path };
        Self { host: host.to_ascii_lowercase(), path: path.to_owned() }
    }

    /// Says what Access does not take. Whether the zone is there is another question.
    pub(super) fn check(uri: &str) -> Result<Self, String> {
        if uri.len() > LENGTH_LIMIT {
            return Err(format!("domain has more than {LENGTH_LIMIT} characters"));
        }
        if uri.contains("://") || uri.contains([':', '?', '#', ' ']) {
            return Err("domain must not have a scheme, port, query or fragment".to_owned());
        }
        let pattern = Self::parse(uri);
        let is_label = |label: &str| {
            let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_*".contains(&byte);
            (1..=63).contains(&label.len()) && label.bytes().all(is_fit)
        };
        if !pattern.host.split('.').all(is_label) || !pattern.host.contains('.') {
            return Err("domain is not valid".to_owned());
        }
        let mut parts = pattern.host.split('.').chain(pattern.path.split('/'));
        if parts.any(|part| part.matches('*').count() > 1) {
            return Err("domain has more than one wildcard between dots or slashes".to_owned());
        }
        Ok(pattern)
    }

    /// Whether all that the host may stand for is in the zone.
    pub(super) fn is_in_zone(&self, zone: &str) -> bool {
        let above = self.host.strip_suffix(zone);
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    }

    /// How specifically a visitor's address is meant; `None` where it is not. An exact host comes before a wildcard, a
    /// longer text before a shorter one.
    pub(super) fn fit(
        &self,
        host: &str,
        path: &str,
        covers_sub_paths: bool,
    ) -> Option<(bool, usize, usize, bool)> {
        let is_below = || {
            covers_sub_paths
                && !self.path.contains('*')
                && path.strip_prefix(&self.path).is_some_and(|rest| rest.starts_with('/'))
        };
        let fits = host_fits(&self.host, host)
            && (self.path.is_empty() || star_fits(&self.path, path) || is_below());
        let length = |text: &str| text.len() - text.matches('*').count();
        let is_exact = |text: &str| !text.contains('*');
        fits.then(|| (is_exact(&self.host), length(&self.host), length(&self.path), is_exact(&self.path)))
    }
}

/// What two destinations are compared by.
pub(super) fn key(uri: &str) -> String {
    let (host, path) = uri.find('/').map_or((uri, ""), |slash| uri.split_at(slash));
    format!("{}{path}", host.to_ascii_lowercase())
}

fn host_fits(pattern: &str, host: &str) -> bool {
    let (wanted, found): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), host.split('.').collect());
    wanted.len() == found.len() && wanted.iter().zip(found).all(|(wanted, found)| star_fits(wanted, found))
}

/// Whether a text fits a pattern in which a star is any number of any characters.
fn star_fits(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(before) else {
        return false;
    };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.map(|end| rest.split_at(end)).any(|(_, rest)| star_fits(after, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_covers_what_the_documents_say() {
        for (uri, host, path, expected) in [
            ("a.test", "a.test", "/", true),
            ("a.test", "a.test", "/x/y", true),
            ("A.test", "a.test", "/", true),
            ("https://a.test", "a.test", "/", true),
            ("a.test/*", "a.test", "/", true),
            ("a.test/", "a.test", "/x", true),
            ("a.test", "b.a.test", "/", false),
            ("a.test", "a.test.b", "/", false),
            ("a.test", "a", "/", false),
            ("a.test/alpha", "a.test", "/alpha", true),
            ("a.test/alpha", "a.test", "/alpha/x", false),
            ("a.test/alpha", "a.test", "/alphabet", false),
            ("a.test/alpha", "a.test", "/Alpha", false),
            ("a.test/alpha/*", "a.test", "/alpha", false),
            ("a.test/alpha/*", "a.test", "/alpha/x/y", true),
            ("a.test/open/*", "a.test", "/opener", false),
            ("a.test/foo*/bar", "a.test", "/food/x/bar", true),
            ("a.test/foo*/bar", "a.test", "/food/x/barn", false),
            ("*.a.test", "b.a.test", "/", true),
            ("*.a.test", "a.test", "/", false),
            ("*.a.test", "c.b.a.test", "/", false),
            ("*b.a.test", "b.a.test", "/", true),
            ("*b.a.test", "ab.a.test", "/", true),
            ("x*b.a.test", "ab.a.test", "/", false),
            ("*.*.a.test", "c.b.a.test", "/", true),
        ] {
            let found = Pattern::parse(uri).fit(host, path, false).is_some();
            assert_eq!(found, expected, "{uri} {host}{path}");
        }
        let sub_path = |uri: &str| Pattern::parse(uri).fit("a.test", "/alpha/x", true).is_some();
        assert!(sub_path("a.test/alpha") && !sub_path("a.test/alp") && !sub_path("a.test/alp*a"));
    }

    #[test]
    fn the_more_specific_destination_comes_first() {
        let by_rank =
            ["a.x.test/p/q", "a.x.test/p/*", "a.x.test/p*", "a.x.test", "a*.x.test/p/q", "*.x.test"];
        let ranks: Vec<_> =
            by_rank.iter().map(|uri| Pattern::parse(uri).fit("a.x.test", "/p/q", false)).collect();
        assert!(ranks.iter().all(Option::is_some), "{ranks:?}");
        assert!(ranks.is_sorted_by(|a, b| a > b), "{ranks:?}");
    }
}
