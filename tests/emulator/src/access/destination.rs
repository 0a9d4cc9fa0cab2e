//! A destination: a hostname with stars and a path with stars.

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

    /// Whether the path has more than the root.
    pub(super) fn has_path(&self) -> bool {
        !self.path.is_empty()
    }
}

/// What two destinations are compared by.
pub(super) fn key(uri: &str) -> String {
    let (host, path) = uri.find('/').map_or((uri, ""), |slash| uri.split_at(slash));
    format!("{}{path}", host.to_ascii_lowercase())
}
