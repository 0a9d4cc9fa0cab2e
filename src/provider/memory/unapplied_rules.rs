//! Remembers which of our rules came or changed with which version of a tunnel's configuration, until every connector
//! has applied it: a rule that a connector cannot start keeps it from that version and all later ones.
//!
//! Only writes of this process are known; a connector's own log says the rest.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use crate::ingress::{OriginOption, RuleEdit};
use crate::limits;
use crate::model::TunnelId;
use crate::model::text::quoted;

/// The versions of one tunnel's configuration whose rules are remembered until they are applied. A version that a
/// connector does not take is among the first, because it takes none after it.
const UNAPPLIED_VERSIONS_MAX: usize = 16;

/// Written versions that may not be applied yet, by tunnel, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct UnappliedRules(BTreeMap<TunnelId, Vec<Version>>);

#[derive(Debug)]
struct Version {
    number: i64,
    written_at: Instant,
    rules: Vec<WrittenRule>,
    /// The number of rules that are not kept.
    more: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct WrittenRule {
    hostname: Box<str>,
    path: Box<str>,
    ca_pool: Option<Box<str>>,
}

impl UnappliedRules {
    /// A version was written, or may have been, with these edits.
    pub(crate) fn add<'e>(
        &mut self,
        tunnel: &TunnelId,
        number: i64,
        written_at: Instant,
        edits: impl Iterator<Item = &'e RuleEdit>,
    ) {
        let (mut rules, others): (Vec<WrittenRule>, Vec<WrittenRule>) =
            edits.filter_map(WrittenRule::of).partition(WrittenRule::has_ca_pool);
        rules.extend(others);
        let versions = self.0.entry(tunnel.clone()).or_default();
        // The first version that a connector does not take explains all later ones.
        if versions.len() >= UNAPPLIED_VERSIONS_MAX
            && let Some(last) = versions.last_mut()
        {
            last.more += rules.len();
            return;
        }
        let more = rules.len().saturating_sub(limits::NAMES_SHOWN_MAX);
        rules.truncate(limits::NAMES_SHOWN_MAX);
        versions.push(Version { number, written_at, rules, more });
    }

    /// The times at which the versions of a tunnel were written that may not be applied yet.
    pub(crate) fn writes(&self, tunnel: &TunnelId) -> Vec<Instant> {
        self.of(tunnel).map(|version| version.written_at).collect()
    }

    /// Every connector of the tunnel has applied this version, and so all earlier ones.
    pub(crate) fn forget_applied(&mut self, tunnel: &TunnelId, number: i64) {
        if let Some(versions) = self.0.get_mut(tunnel) {
            versions.retain(|version| version.number > number);
        }
    }

    /// Forgets the tunnels that are no longer watched.
    pub(crate) fn retain(&mut self, is_watched: impl Fn(&TunnelId) -> bool) {
        self.0.retain(|tunnel, versions| !versions.is_empty() && is_watched(tunnel));
    }

    /// Lists our rules that came or changed after a version, for a message. Rules with a `caPool` come first, because
    /// no other option is known to keep a connector from a version.
    pub(crate) fn since(&self, tunnel: &TunnelId, number: i64) -> String {
        let versions = || self.of(tunnel).filter(|version| version.number > number);
        let mut rules: Vec<&WrittenRule> = Vec::new();
        let all = || versions().flat_map(|version| &version.rules);
        for rule in all().filter(|rule| rule.has_ca_pool()).chain(all()) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        let shown: Vec<String> =
            rules.iter().take(limits::NAMES_SHOWN_MAX).map(|rule| rule.to_string()).collect();
        let more = rules.len() - shown.len() + versions().map(|version| version.more).sum::<usize>();
        match (shown.is_empty(), more) {
            (true, _) => "nothing of ours that this process wrote".to_owned(),
            (false, 0) => shown.join(", "),
            (false, more) => format!("{}, and {more} more", shown.join(", ")),
        }
    }

    fn of(&self, tunnel: &TunnelId) -> impl Iterator<Item = &Version> {
        self.0.get(tunnel).into_iter().flatten()
    }
}

impl WrittenRule {
    fn has_ca_pool(&self) -> bool {
        self.ca_pool.is_some()
    }

    /// The rule that an edit writes. A removed rule keeps no connector from anything.
    fn of(edit: &RuleEdit) -> Option<Self> {
        let RuleEdit::Put { rule, replaces: _ } = edit else {
            return None;
        };
        Some(Self {
            hostname: rule.hostname.as_str().into(),
            path: rule.path_text().unwrap_or_default().into(),
            ca_pool: rule.origin_request.text(OriginOption::CaPool).map(Into::into),
        })
    }
}

impl fmt::Display for WrittenRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hostname, path, ca_pool } = self;
        formatter.write_str(hostname)?;
        if !path.is_empty() {
            write!(formatter, " {}", quoted(path))?;
        }
        match ca_pool {
            Some(path) => write!(formatter, " (caPool {})", quoted(path)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fixture::tunnel;
    use crate::ingress::{PathPattern, Service, WantedRule};
    use crate::model::Hostname;
    use crate::provider::memory::year;

    fn put(hostname: &str, path: Option<&str>, ca_pool: Option<&str>) -> RuleEdit {
        let rule = WantedRule {
            hostname: Hostname::parse(hostname).expect("a hostname"),
            path: path.map(|path| PathPattern::parse(path).expect("a path")),
            service: Service::parse("https://web").expect("a service"),
            origin_request: ca_pool
                .and_then(|path| OriginOption::CaPool.parse(path).expect("a path"))
                .into_iter()
                .collect(),
        };
        RuleEdit::Put { rule, replaces: false }
    }

    fn remove(hostname: &str) -> RuleEdit {
        RuleEdit::Remove { hostname: Hostname::parse(hostname).expect("a hostname"), path: None }
    }

    /// A memory of version 1 with the first edits, version 2 with the second, and so on.
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn written(versions: &[&[RuleEdit]]) -> UnappliedRules {
        let mut unapplied = UnappliedRules::default();
        for (edits, number) in versions.iter().zip(1..) {
            unapplied.add(&tunnel(), number, Instant::now() + Duration::from_secs(1), edits.iter());
        }
        unapplied
    }

    #[test]
    fn the_rules_since_a_version_are_named_those_with_a_file_first() {
        let unapplied = written(&[
            &[put("old.example.com", None, None)],
            &[remove("gone.example.com"), put("a.example.com", Some("^/api"), None)],
            &[put("b.example.com", None, Some("/etc/ca.pem")), put("a.example.com", Some("^/api"), None)],
        ]);
        for (version, named) in [
            (0, "b.example.com (caPool \"/etc/ca.pem\"), old.example.com, a.example.com \"^/api\""),
            (1, "b.example.com (caPool \"/etc/ca.pem\"), a.example.com \"^/api\""),
            (3, "nothing of ours that this process wrote"),
        ] {
            assert_eq!(unapplied.since(&tunnel(), version), named, "{version}");
        }
    }

    #[test]
    fn what_every_connector_has_applied_is_forgotten() {
        let mut unapplied = written(&[&[remove("a.example.com")], &[put("b.example.com", None, None)]]);
        assert_eq!(unapplied.writes(&tunnel()).len(), 2);
        unapplied.forget_applied(&tunnel(), 1);
        assert_eq!(
            (unapplied.writes(&tunnel()).len(), &*unapplied.since(&tunnel(), 0)),
            (1, "b.example.com")
        );
        unapplied.forget_applied(&tunnel(), 2);
        unapplied.retain(|_| true);
        assert!(unapplied.0.is_empty());

        let mut unapplied = written(&[&[put("a.example.com", None, None)]]);
        unapplied.retain(|_| false);
        assert!(unapplied.0.is_empty());
    }

    /// However much is written while nobody can look, the reason is still among what is kept.
    #[test]
    fn the_first_versions_are_kept_and_the_rest_is_counted() {
        let many: Vec<RuleEdit> =
            (0..1_000).map(|number| put(&format!("h{number}.example.com"), None, None)).collect();
        let mut first = many.clone();
        first.push(put("culprit.example.com", None, Some("/ca.pem")));
        let versions: Vec<&[RuleEdit]> =
            [&*first].into_iter().chain(std::iter::repeat_n(&*many, 100)).collect();
        let unapplied = written(&versions);
        let kept: usize = unapplied.of(&tunnel()).map(|version| version.rules.len()).sum();
        assert_eq!(unapplied.writes(&tunnel()).len(), UNAPPLIED_VERSIONS_MAX);
        assert!(kept <= UNAPPLIED_VERSIONS_MAX * limits::NAMES_SHOWN_MAX);
        let line = unapplied.since(&tunnel(), 0);
        assert!(line.starts_with("culprit.example.com (caPool \"/ca.pem\"), h0.example.com, "), "{line}");
        assert_eq!(line.matches(".example.com").count(), limits::NAMES_SHOWN_MAX, "{line}");
        let shown = limits::NAMES_SHOWN_MAX;
        let kept_and_not_shown = 1;
        let not_kept = (1_001 - shown) + 15 * (1_000 - shown) + (versions.len() - 16) * 1_000;
        assert!(line.ends_with(&format!(", and {} more", kept_and_not_shown + not_kept)), "{line}");
    }

    #[test]
    fn a_year_of_writes_that_no_connector_applies_keeps_the_first_ones() {
        let mut unapplied = UnappliedRules::default();
        let edit = put("a.example.com", None, None);
        for (number, now) in year::loops() {
            unapplied.add(&tunnel(), number as i64, now, std::iter::once(&edit));
            unapplied.retain(|_| true);
        }
        assert_eq!(unapplied.writes(&tunnel()).len(), UNAPPLIED_VERSIONS_MAX);
    }
}
