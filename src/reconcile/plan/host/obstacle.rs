//! What of somebody else's, or not to be told from it, stands in the way of what is asked for.

use super::{Host, Wanted, digest_of};
use crate::ingress::{EditRefusal, Rule, WantedRule};
use crate::model::hostname::is_below;
use crate::model::{Record, TunnelId};
use crate::reconcile::adopt::{self, Need};
use crate::reconcile::canonical::Publication;
use crate::reconcile::plan::{Reason, Refusal};
use crate::reconcile::records::LOST_PREFIX;
use crate::reconcile::stamp::{Digest, Stamp};

impl Host<'_> {
    /// What in the tunnels' documents stands in the way of a rule.
    pub(super) fn obstacle(&self, tunnel: &TunnelId, wanted: &WantedRule) -> Option<Reason> {
        let path = wanted.path_text();
        if let Some(reason) = self.twin(tunnel, path) {
            return Some(reason);
        }
        let rule = self.rules_of(tunnel).into_iter().find(|rule| rule.path() == path)?;
        let is_ours = self.has(Digest::of(tunnel, path)) || self.takes_back(tunnel, rule, wanted);
        (!is_ours).then(|| rule_held(tunnel, rule, &[self.need_of_rule(tunnel, rule, wanted)]))
    }

    /// Whether a rule that stands as it is wanted, and whose hostname has no record, passes for ours, its record deleted by
    /// hand. One that some record leads to serves visitors without us.
    pub(super) fn takes_back(&self, tunnel: &TunnelId, rule: &Rule, wanted: &WantedRule) -> bool {
        !self.has_record() && rule.equals_in_every_field(wanted) && !self.is_reached(tunnel)
    }

    /// Whether a record that is not the hostname's own leads to the tunnel, for it or for a name that it stands for.
    fn is_reached(&self, tunnel: &TunnelId) -> bool {
        let leads_there = |record: &Record| TunnelId::from_hostname(&record.content).as_ref() == Some(tunnel);
        let by_name_below = self.hostname.as_str().strip_prefix("*.").is_some_and(|domain| {
            let mut records = self.zone.records().iter().filter(|record| is_below(&record.name, domain));
            records.any(leads_there)
        });
        let name = self.hostname.as_str();
        // Until a zone is active visitors are led by the one around it.
        by_name_below
            || self.snapshot.zones_around(name).any(|zone| zone.answering(name).iter().any(leads_there))
    }

    /// The tunnel, another than `wanted`, that visitors of the hostname's rules there are led to by a wildcard's record.
    pub(super) fn visited_instead_of(&self, wanted: &TunnelId) -> Option<TunnelId> {
        if self.has_record() || !self.foreign_records.is_empty() {
            return None;
        }
        let mut others = self.snapshot.tunnels.keys().filter(|id| *id != wanted);
        // Most hostnames have no rule there, and to follow a name takes long.
        others
            .find(|id| {
                !self.rules_of(id).is_empty()
                    && self.snapshot.led_to(self.hostname.as_str()).as_ref() == Some(*id)
            })
            .cloned()
    }

    /// What holds the name in such a tunnel: a record of its own would take the requests of every rule there.
    pub(super) fn held_elsewhere(&self, publication: &Publication) -> Option<Reason> {
        let visited = self.visited_instead_of(&publication.tunnel)?;
        let is_foreign = |rule: &&Rule| !self.has(Digest::of(&visited, rule.path()));
        let foreign: Vec<&Rule> = self.rules_of(&visited).into_iter().filter(is_foreign).collect();
        let is_takable = |rule: &&&Rule| {
            publication.rule.is_some()
                && rule.path() == publication.path()
                && self.twin(&visited, rule.path()).is_none()
        };
        match foreign.iter().find(is_takable) {
            Some(rule) => Some(rule_held(&visited, rule, &[Need::All])),
            None => Some(left_behind(&visited, foreign.first()?)),
        }
    }

    /// Why the hostname does not leave the tunnel.
    pub(super) fn stays_in(&self, tunnel: &TunnelId) -> Reason {
        match self.left_behind(tunnel) {
            Some(rule) => left_behind(tunnel, rule),
            None => Reason::TwoTunnels { tunnel: tunnel.as_str().into() },
        }
    }

    /// A rule that is not ours, nor taken over, in a tunnel that the hostname's record leads to: led elsewhere, the record
    /// would take its requests along.
    pub(super) fn left_behind(&self, led_to: &TunnelId) -> Option<&Rule> {
        let is_foreign = |rule: &&Rule| !self.has(Digest::of(led_to, rule.path()));
        self.rules_of(led_to).into_iter().find(is_foreign).or_else(|| self.left_below(led_to))
    }

    /// The same for a wildcard, whose record serves every name below that has none of its own.
    fn left_below(&self, led_to: &TunnelId) -> Option<&Rule> {
        let own_name = self.hostname.as_str();
        let domain = own_name.strip_prefix("*.")?;
        let is_served = |name: &str| {
            let mut records = self.snapshot.answering(name).iter();
            name != own_name && is_below(name, domain) && records.any(|record| &*record.name == own_name)
        };
        let rules = self.snapshot.tunnels.get(led_to)?.document.rules();
        rules.iter().find(|rule| rule.is_readable() && is_served(rule.folded_hostname()))
    }

    /// Why a rule of the hostname, whether it stands or not, could not be told from one that stands: by its digest, in
    /// whichever tunnel, or by its place.
    pub(super) fn twin(&self, tunnel: &TunnelId, path: Option<&str>) -> Option<Reason> {
        let document = &self.snapshot.tunnels.get(tunnel)?.document;
        let numbered = document.rules().iter().zip(1..);
        let of_place = numbered.filter(|(rule, _)| rule.is_for(&self.hostname, path));
        let numbers: Vec<usize> = of_place.map(|(_, number)| number).collect();
        if numbers.len() > 1 {
            return Some(Reason::Edit(EditRefusal::Duplicate { rules: numbers }.to_string()));
        }
        let digest = Digest::of(tunnel, path);
        let mut rules = self
            .snapshot
            .tunnels
            .keys()
            .flat_map(|id| self.rules_of(id).into_iter().map(move |rule| (id, rule.path())));
        let (tunnel, path) =
            rules.find(|place| *place != (tunnel, path) && Digest::of(place.0, place.1) == digest)?;
        Some(taken(tunnel, path))
    }

    /// The rules that what is shown with this set identifier may be, where that cannot be told.
    pub(super) fn candidates(&self, set_identifier: &str) -> Vec<&(TunnelId, &Rule)> {
        let lost = set_identifier.strip_prefix(LOST_PREFIX).and_then(Digest::parse);
        let candidates = self.states.iter().flat_map(|(digest, state)| {
            let is_meant = |rule: &Rule| lost == Some(*digest) || is_at(rule, set_identifier);
            state.ambiguous().iter().filter(move |(_, rule)| is_meant(rule))
        });
        candidates.collect()
    }

    /// Refuses to withdraw one of several rules. Where one of them is asked for as well, that is refused already.
    pub(super) fn refuse_any_of(&self, candidates: &[&(TunnelId, &Rule)]) -> Option<Refusal> {
        let is_wanted = |rule: &Rule| {
            let mut wanted = self.request.wanted.iter();
            wanted.any(|wanted| is_at(rule, &wanted.endpoint.set_identifier))
        };
        let (tunnel, rule) =
            candidates.first().filter(|_| !candidates.iter().any(|(_, rule)| is_wanted(rule)))?;
        Some(Refusal {
            hostname: self.hostname.as_str().into(),
            set_identifier: Some(rule.path().unwrap_or_default().into()),
            resource: self.resource(),
            reason: self.twin(tunnel, rule.path())?,
        })
    }

    /// Who holds the name, and how it could be handed over.
    pub(super) fn record_held(&self, wanted: &Wanted<'_>, needs: Option<&[Need]>) -> Reason {
        let Some(record) = self.foreign_records.first() else {
            return Reason::NoZone;
        };
        Reason::RecordHeld {
            kind: record.kind.clone(),
            content: record.content.clone(),
            comment: record.comment.clone(),
            remedy: self.remedy(record),
            adopt: needs.map(|needs| self.smallest_value(needs, wanted)),
        }
    }

    /// The stamp that a record of ours had before somebody edited it away: it leads to our tunnel, and a rule of the
    /// hostname stands there. Of the rules it names those that are asked for: another may be somebody else's.
    fn remedy(&self, record: &Record) -> Option<Box<str>> {
        if !record.comment.is_empty() || &*record.kind != "CNAME" {
            return None;
        }
        let tunnel = self.settings.tunnel_of_target(&record.content)?;
        let mut stamp = Stamp::new(&self.settings.policy.owner);
        let is_asked_for = |rule: &&&Rule| {
            let mut wanted = self.request.wanted.iter().filter_map(|wanted| wanted.publication.as_ref().ok());
            wanted.any(|wanted| wanted.path() == rule.path())
        };
        let rules = self.rules_of(tunnel);
        let rules = rules.iter().filter(is_asked_for);
        stamp.claims.rules = rules.map(|rule| Digest::of(tunnel, rule.path())).collect();
        stamp.claims.record_only = stamp.claims.rules.is_empty();
        stamp.bind_to(self.hostname.as_str());
        self.comment(&stamp).ok()
    }
}

/// Whether it is what an endpoint with this set identifier stands for.
fn is_at(rule: &Rule, set_identifier: &str) -> bool {
    rule.path().unwrap_or_default() == set_identifier
}

/// Whether another path of the same request has the digest: one stamped for both would not tell whose the rules are.
pub(super) fn digest_taken(wanted: &Wanted<'_>, others: &[Wanted<'_>]) -> Option<Reason> {
    let digest = digest_of(wanted)?;
    let other = others.iter().find(|other| digest_of(other) == Some(digest))?.publication;
    Some(taken(&other.tunnel, other.path()))
}

fn rule_held(tunnel: &TunnelId, rule: &Rule, needs: &[Need]) -> Reason {
    let (tunnel, service) = (tunnel.as_str().into(), rule.service().into());
    Reason::RuleHeld { tunnel, service, adopt: adopt::smallest(needs) }
}

fn left_behind(tunnel: &TunnelId, rule: &Rule) -> Reason {
    Reason::RuleLeftBehind {
        tunnel: tunnel.as_str().into(),
        hostname: rule.folded_hostname().into(),
        path: rule.path().unwrap_or_default().into(),
    }
}

fn taken(tunnel: &TunnelId, path: Option<&str>) -> Reason {
    Reason::DigestTaken { tunnel: tunnel.as_str().into(), path: path.unwrap_or_default().into() }
}
