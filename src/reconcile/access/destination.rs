//! Compares the destinations of Access applications with the requests for a hostname.
//!
//! Cloudflare does not document how Access compares letter case and percent signs of a path, whether `/alpha` takes
//! `/alpha/x` or `/alphabet`, or which of two overlapping wildcards decides. So there are two answers: a destination
//! *may match*, or it *surely matches*. The wildcards that the webhook itself writes, with the `*` at the start, match
//! as documented (`matches_host`).
//!
//! A `*` has four meanings:
//!
//! | where | `*.example.com` stands for | any other `*` |
//! |---|---|---|
//! | a DNS record (RFC 4592) | each name below at any depth, unless it or a name between exists | a character |
//! | a rule of cloudflared | each name below at any depth | alone, every host; else a character |
//! | a destination of Access | each name one label below | a part of a label |
//! | `DOMAIN_FILTER` | the record of the wildcard alone: `.example.com` stands for each name below | a character |

use std::borrow::Cow;

use crate::model::hostname;

/// True if a destination's host is the hostname, or certainly matches a name that is no wildcard. A `*` in the host
/// stands for a label or a part of a label.
pub(super) fn surely_matches(host: &str, hostname: &str) -> bool {
    let is_readable = || !hostname.contains('*') && host.split('.').all(is_host_label);
    host == hostname || is_readable() && may_match(host, hostname)
}

/// True if a destination's host takes requests for a name: the host is the name, or the `*` at its start stands for the
/// first label, or for the start of it.
pub(super) fn matches_host(host: &str, name: &str) -> bool {
    let label = || name.strip_suffix(host.strip_prefix('*')?);
    host == name || label().is_some_and(|label| !label.contains(['.', '*']))
}

/// True if a destination's host may match a name of the rule's hostname. A hostname that begins with `*.` stands for
/// all names below its domain. A label that cannot be read, with all labels before it, may match anything.
pub(super) fn may_match(host: &str, hostname: &str) -> bool {
    let (domain, is_wildcard) =
        hostname.strip_prefix("*.").map_or((hostname, false), |domain| (domain, true));
    let mut labels = labels_from_the_end(host);
    for text in domain.rsplit('.') {
        match labels.next() {
            None => return false,
            Some(None) => return true,
            Some(Some(label)) if !label_matches(&label, text) => return false,
            Some(Some(_)) => {}
        }
    }
    match labels.next() {
        None => !is_wildcard,
        Some(label) => is_wildcard || label.is_none(),
    }
}

/// The labels of a destination's host, the last one first; `None` for a label that cannot be read.
fn labels_from_the_end(host: &str) -> impl Iterator<Item = Option<Cow<'_, str>>> {
    // The host of a destination has no port or query. No document says how Access reads these, so both are cut off.
    let host = host.split([':', '?', '#']).next().unwrap_or_default();
    host.trim_end_matches('.').rsplit('.').map(|label| {
        // A label with a wildcard has no punycode form.
        let is_foldable = !label.is_ascii() && !label.contains('*');
        let label: Cow<'_, str> = if is_foldable { hostname::fold(label).into() } else { label.into() };
        Some(label).filter(|label| is_host_label(label))
    })
}

/// The labels after the last label of a destination's host that has a `*` or cannot be read. Every name that the host
/// may match equals these labels or is below them.
pub(super) fn literal_end(host: &str) -> String {
    let literal = labels_from_the_end(host).map_while(|label| label.filter(|label| !label.contains('*')));
    let mut labels: Vec<Cow<'_, str>> = literal.collect();
    labels.reverse();
    labels.join(".")
}

/// True for a label with at most one `*`, as Access takes it.
fn is_host_label(label: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_*".contains(&byte);
    !label.is_empty() && label.bytes().all(is_fit) && label.matches('*').count() <= 1
}

/// True if a label with at most one `*` matches a text.
fn label_matches(label: &str, text: &str) -> bool {
    match label.split_once('*') {
        Some((start, end)) => text.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None => label == text,
    }
}

/// True for a path, without its leading slash, that browsers and the edge spell in only one way.
pub(super) fn has_one_spelling(path: &str) -> bool {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().all(is_unreserved) && !has_odd_segments(path)
}

/// True if the edge may rewrite the path, because of two slashes in a row, `.` or `..`.
fn has_odd_segments(path: &str) -> bool {
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').any(|segment| matches!(segment, "" | "." | ".."))
}

/// True if a destination's path may take requests at a plain path or below it.
pub(super) fn path_may_match(destination: &str, prefix: &str) -> bool {
    if has_odd_segments(destination) {
        return true;
    }
    // From the first of these characters on, a destination may match anything.
    let is_pattern = |character: char| "*%\\?#;".contains(character) || !character.is_ascii_graphic();
    let beginning = destination.split(is_pattern).next().unwrap_or_default().to_ascii_lowercase();
    let prefix = prefix.to_ascii_lowercase();
    // It is not known whether `/alpha` takes `/alphabet`.
    prefix.starts_with(&beginning)
        || beginning.strip_prefix(&*prefix).is_some_and(|rest| rest.starts_with('/'))
}
