//! Finds the state of each rule that a stamp claims.

use std::collections::BTreeSet;

use crate::ingress::Rule;
use crate::model::{Hostname, TunnelId};
use crate::ordered::inserted;
use crate::reconcile::Settings;
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::stamp::Digest;

/// The state of one digest's rule.
#[derive(Clone, Debug)]
pub enum ClaimState<'a> {
    /// The rule exists.
    Standing {
        /// The tunnel it stands in.
        tunnel: TunnelId,
        rule: &'a Rule,
    },
    /// The rule is gone. Its tunnel and path are known, because together they have the digest.
    Missing {
        /// The tunnel it stood in.
        tunnel: TunnelId,
        path: Option<Box<str>>,
    },
    /// The rule is gone, and its path is unknown.
    Lost,
    /// Several rules have the digest. Nothing tells which of them is ours, so all of them count as foreign.
    Ambiguous {
        /// The rules and their tunnels.
        rules: Vec<(TunnelId, &'a Rule)>,
    },
}

impl<'a> ClaimState<'a> {
    /// The tunnel, if it is known.
    pub fn tunnel(&self) -> Option<&TunnelId> {
        match self {
            Self::Standing { tunnel, .. } | Self::Missing { tunnel, .. } => Some(tunnel),
            Self::Lost | Self::Ambiguous { .. } => None,
        }
    }

    /// The rule, if it exists.
    pub fn rule(&self) -> Option<&Rule> {
        match self {
            Self::Standing { rule, .. } => Some(rule),
            Self::Missing { .. } | Self::Lost | Self::Ambiguous { .. } => None,
        }
    }

    /// True if this is, or was, a rule for `path`.
    pub fn is_for_path(&self, path: Option<&str>) -> bool {
        match self {
            Self::Standing { rule, .. } => rule.path() == path,
            Self::Missing { path: missing, .. } => missing.as_deref() == path,
            Self::Lost | Self::Ambiguous { .. } => false,
        }
    }

    /// The rules that cannot be told apart, and their tunnels.
    pub fn ambiguous(&self) -> &[(TunnelId, &'a Rule)] {
        match self {
            Self::Ambiguous { rules } => rules,
            Self::Standing { .. } | Self::Missing { .. } | Self::Lost => &[],
        }
    }
}

/// The state of each of `digests`, in their order.
///
/// The record's `content` names a tunnel that may no longer be configured. A digest reveals neither tunnel nor path, so
/// those of a missing rule are found by trying the paths of the hostname's rules, and `paths`.
pub fn claim_states<'a>(
    snapshot: &'a Snapshot,
    settings: &Settings,
    hostname: &Hostname,
    content: &str,
    digests: &BTreeSet<Digest>,
    paths: &[&str],
) -> Vec<(Digest, ClaimState<'a>)> {
    let mut tunnels: Vec<TunnelId> = settings.tunnels().iter().map(|tunnel| tunnel.id.clone()).collect();
    tunnels.extend(TunnelId::from_hostname(content).filter(|id| !settings.is_configured(id)));

    let rules: Vec<(&TunnelId, &Rule)> = tunnels
        .iter()
        .filter_map(|id| Some((id, snapshot.tunnels.get(id)?)))
        .flat_map(|(id, tunnel)| tunnel.rules_of(hostname).into_iter().map(move |rule| (id, rule)))
        .collect();
    let known_paths: BTreeSet<Option<&str>> = inserted(
        rules.iter().map(|(_, rule)| rule.path()).chain(paths.iter().copied().map(Some)).chain([None]),
    );

    let state = |digest: Digest| {
        let has_it = |(id, rule): &&(&TunnelId, &Rule)| Digest::of(id, rule.path()) == digest;
        let standing: Vec<(TunnelId, &Rule)> =
            rules.iter().filter(has_it).map(|(id, rule)| ((*id).clone(), *rule)).collect();
        match &*standing {
            [] => {}
            [(tunnel, rule)] => return ClaimState::Standing { tunnel: tunnel.clone(), rule },
            _ => return ClaimState::Ambiguous { rules: standing },
        }
        tunnels
            .iter()
            .flat_map(|tunnel| known_paths.iter().map(move |path| (tunnel, *path)))
            .find(|(tunnel, path)| Digest::of(tunnel, *path) == digest)
            .map_or(ClaimState::Lost, |(tunnel, path)| ClaimState::Missing {
                tunnel: tunnel.clone(),
                path: path.map(Into::into),
            })
    };
    digests.iter().map(|digest| (*digest, state(*digest))).collect()
}
