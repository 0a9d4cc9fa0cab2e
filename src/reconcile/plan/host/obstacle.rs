//! What of somebody else's, or not to be told from it, stands in the way of what is asked for.

use super::{Host, Wanted, digest_of};
use crate::cloudflare::Record;
use crate::reconcile::adopt;
use crate::reconcile::plan::{Reason, Refusal};
use crate::reconcile::records::LOST_PREFIX;
use crate::reconcile::stamp::{Digest, Stamp};
use crate::tunnel::{EditRefusal, Rule, TunnelId, WantedRule};

impl Host<'_> {
    /// What in the tunnels' documents stands in the way of a rule.
    pub(super) fn obstacle(&self, tunnel: &TunnelId, wanted: &WantedRule) -> Option<Reason> {
        let path = wanted.path_text();
        if let Some(reason) = self.twin(tunnel, path) {
            return Some(reason);
        }
        let rule = self.rules_of(tunnel).into_iter().find(|rule| rule.path() == path)?;
        let is_taken_back = !self.has_record() && rule.equals_in_every_field(wanted);
        let is_ours = self.has(Digest::of(tunnel, path)) || is_taken_back;
        (!is_ours).then(|| {
            let adopt = adopt::smallest(&[self.need_of_rule(tunnel, rule, wanted)]);
            Reason::RuleHeld { service: rule.service().into(), adopt }
        })
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
        let candidates = self.traces.iter().flat_map(|(digest, trace)| {
            let is_meant = |rule: &Rule| lost == Some(*digest) || is_at(rule, set_identifier);
            trace.ambiguous().iter().filter(move |(_, rule)| is_meant(rule))
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
    pub(super) fn record_held(&self, wanted: &Wanted<'_>, needs: Option<&[adopt::Need]>) -> Reason {
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
        let mut stamp = Stamp::new(&self.settings.owner);
        let is_asked_for = |rule: &&&Rule| {
            let mut wanted = self.request.wanted.iter().filter_map(|wanted| wanted.publication.as_ref().ok());
            wanted.any(|wanted| wanted.path() == rule.path())
        };
        let rules = self.rules_of(tunnel);
        let rules = rules.iter().filter(is_asked_for);
        stamp.claims.rules = rules.map(|rule| Digest::of(tunnel, rule.path())).collect();
        stamp.claims.record_only = stamp.claims.rules.is_empty();
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

fn taken(tunnel: &TunnelId, path: Option<&str>) -> Reason {
    Reason::DigestTaken { tunnel: tunnel.as_str().into(), path: path.unwrap_or_default().into() }
}
