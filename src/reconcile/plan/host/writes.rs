//! Turns the decision on one hostname into writes: records, then rules, then records. The comment names the rules
//! before they are written, and the record points to the tunnel that has them.

use std::collections::BTreeSet;

use super::adoption;
use super::comment::{self, CommentTemplate};
use super::decide::Decision;
use super::obstacle::foreign_rule_left_behind;
use super::{Host, HostRule};
use crate::ingress::RuleEdit;
use crate::limits::DIGEST_WITHOUT_RULE_MIN_AGE;
use crate::model::{NewRecord, Record, RecordPatch, TunnelId};
use crate::reconcile::access::gate::Gated;
use crate::reconcile::plan::planned::{HostPlan, PlannedEdit, RecordOperation, Stage};
use crate::reconcile::reason::Reason;
use crate::reconcile::stamp::{Claims, Stamp};

const RECORD_CHANGED_RECENTLY: &str = "the record's comment names a missing rule, which another instance \
     may be about to write: the digest stays until the record has been unchanged for a minute";

/// The time at which the record is pointed to the wanted tunnel. A move between two configured tunnels takes several
/// requests: the first creates the rules in the wanted tunnel (`Later`), one after that points the record to it
/// (`BeforeRules`), and after `MOVE_GRACE` the last one deletes the rules that are left (`NotNeeded`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repoint {
    /// The record points to the tunnel already, or the hostname has no record or no wanted tunnel.
    NotNeeded,
    /// The tunnel has all wanted rules, and its connectors serve them.
    BeforeRules,
    /// The present target is a tunnel that is not configured, or this is a dry run.
    AfterRules,
    /// In a later request: the tunnel does not have all wanted rules yet, or its connectors do not serve them.
    Later,
}

/// What becomes of the hostname's records in this request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordFate {
    Kept,
    /// The records stay for a foreign rule that visitors reach by them, and are ours no longer.
    Released,
    Deleted,
}

/// The part of a hostname's change that one request carries out: its rules, and the time at which its record is pointed
/// to the wanted tunnel. A change of the tunnel, a move, takes several requests.
struct Change<'r, 'a> {
    host: &'r Host<'a>,
    /// `None` if no endpoint is published.
    wanted_tunnel: Option<&'r TunnelId>,
    repoint: Repoint,
    /// The wanted rules that have to be written.
    puts: Vec<&'r Gated>,
    deleted: Vec<HostRule<'a>>,
    /// The rules that a later request deletes, because visitors may still reach them.
    deleted_later: Vec<HostRule<'a>>,
}

impl RecordFate {
    /// A record that names digests without a rule is kept as long as the comment keeps these digests.
    fn of(decision: &Decision<'_>, accepted: &[&Gated], keeps_dangling: bool) -> Self {
        if keeps_dangling {
            Self::Kept
        } else if accepted.is_empty() && hides_wildcard(&decision.host) {
            Self::Deleted
        } else if !decision.withdraws_hostname {
            Self::Kept
        } else if serves_foreign_rule(&decision.host) {
            Self::Released
        } else {
            Self::Deleted
        }
    }
}

impl<'r, 'a> Change<'r, 'a> {
    fn of(decision: &'r Decision<'a>, accepted: &[&'r Gated]) -> Self {
        let Decision { host, withdrawn, .. } = decision;
        let wanted_tunnel = accepted.first().map(|first| first.tunnel());
        let puts = puts(host, accepted);
        let is_withdrawn =
            |rule: &HostRule<'_>| Some(rule.tunnel) == wanted_tunnel && withdrawn.contains(&rule.path());
        // A withdrawn rule that the wanted tunnel still has would answer the visitors of its path once they come there.
        let is_in_place = puts.is_empty() && !host.stamped_rules().any(is_withdrawn);
        let repoint = repoint(host, wanted_tunnel, is_in_place);
        let (deleted, deleted_later) = unwanted_rules(decision, accepted, repoint);
        Self { host, wanted_tunnel, repoint, puts, deleted, deleted_later }
    }

    /// The reason if this request has to edit a tunnel that cannot be written, or a later one has to edit a tunnel
    /// whose configuration is a local file.
    fn unwritable(&self) -> Option<Reason> {
        let deleted = self.deleted.iter().map(|rule| rule.tunnel);
        let mut edited = deleted.chain(self.puts.iter().map(|gated| gated.tunnel()));
        let deleted_later = self.deleted_later.iter().map(|rule| rule.tunnel);
        let local = edited.clone().chain(deleted_later).find(|tunnel| !self.host.is_writable(tunnel));
        let local = local.map(|tunnel| Reason::LocalTunnel { tunnel: tunnel.clone() });
        local.or_else(|| {
            edited.find_map(|tunnel| self.host.context.inputs.failed_tunnels.get(tunnel).cloned())
        })
    }

    /// The reason why a later request has to finish the move; `None` if the move is complete.
    fn unfinished_move(&self) -> Option<Reason> {
        let unready = &self.host.context.inputs.unready;
        let text = if let Some(tunnel) = self.wanted_tunnel
            && self.repoint == Repoint::Later
        {
            unready.get(tunnel).cloned().unwrap_or_else(|| {
                format!(
                    "the webhook prepares the hostname's rules in tunnel {tunnel} first; a later loop points \
                     the record to that tunnel, once its connectors serve the rules"
                )
            })
        } else {
            let HostRule { tunnel, .. } = self.deleted_later.first()?;
            format!(
                "the hostname's rules in tunnel {tunnel} stay until the record has not changed for \
                 MOVE_GRACE, because visitors may still reach that tunnel"
            )
        };
        Some(Reason::Moving(text))
    }

    /// The edits of tunnels' documents: deletions of rules, and puts of wanted rules.
    fn edits(&self, resource: Option<&str>) -> Vec<PlannedEdit> {
        let deleted = self.deleted.iter().map(|rule| {
            let path = rule.path().map(Into::into);
            let edit = RuleEdit::Delete { hostname: self.host.hostname.clone(), path };
            PlannedEdit { tunnel: rule.tunnel.clone(), edit, resource: resource.map(Into::into) }
        });
        let put = self.puts.iter().filter_map(|gated| {
            let rule = gated.rule()?.clone();
            let replaces = self.host.stamped_rule_at(gated.tunnel(), gated.path()).is_some();
            let tunnel = gated.tunnel().clone();
            let resource = gated.resource().map(Into::into);
            Some(PlannedEdit { tunnel, edit: RuleEdit::Put { rule, replaces }, resource })
        });
        deleted.chain(put).collect()
    }

    /// The operations before and after the rules, which write the comments and point the record to its target.
    fn record_operations(
        &self,
        comment_during: Option<Box<str>>,
        comment_after: Option<Box<str>>,
    ) -> (Vec<RecordOperation>, Vec<RecordOperation>) {
        let host = self.host;
        let replaced = adoption::replaced_registry_records(host);
        let mut before: Vec<_> = replaced.into_iter().map(RecordOperation::delete).collect();
        let mut after = Vec::new();
        match host.stamped_records().find(|record| record.is_cname()) {
            Some(record) => {
                let during = comment_during.filter(|text| self.changes_stamp(record, text));
                let present = during.as_deref().unwrap_or(&record.comment);
                let last = comment_after.filter(|text| self.meaning(present) != self.meaning(text));
                before.extend(self.patch(record, Stage::RecordsBefore, during));
                after.extend(self.patch(record, Stage::RecordsAfter, last));
            }
            None => before.extend(self.without_cname(comment_during)),
        }
        (before, after)
    }

    /// Creates a CNAME in place of records of other types. If the move waits, these records get the comment instead.
    fn without_cname(&self, comment: Option<Box<str>>) -> Vec<RecordOperation> {
        let host = self.host;
        let (Some(tunnel), Some(comment)) = (self.wanted_tunnel, comment) else { return Vec::new() };
        let records = host.stamped_records();
        if self.repoint == Repoint::Later {
            let stamped = records.filter(|record| self.changes_stamp(record, &comment));
            return stamped
                .filter_map(|record| self.patch(record, Stage::RecordsBefore, Some(comment.clone())))
                .collect();
        }
        let post = RecordOperation::Post(NewRecord {
            name: host.name().into(),
            record_type: "CNAME".into(),
            content: tunnel.hostname().into(),
            proxied: true,
            ttl: 1,
            comment,
        });
        records.map(RecordOperation::delete).chain([post]).collect()
    }

    /// The patch of the record in a stage; `None` if it changes nothing. A record that points to a tunnel is proxied
    /// before the rules, any other record when it is pointed to a tunnel.
    fn patch(&self, record: &Record, stage: Stage, comment: Option<Box<str>>) -> Option<RecordOperation> {
        let wanted = self.wanted_tunnel;
        let is_pointed = match self.repoint {
            Repoint::BeforeRules => stage == Stage::RecordsBefore,
            Repoint::AfterRules => stage == Stage::RecordsAfter,
            Repoint::NotNeeded | Repoint::Later => false,
        };
        let points_to_tunnel = record.tunnel().is_some();
        let proxies_now = if points_to_tunnel { stage == Stage::RecordsBefore } else { is_pointed };
        let proxied = (wanted.is_some() && proxies_now && !record.proxied).then_some(true);
        let content = wanted.filter(|_| is_pointed).map(|tunnel| tunnel.hostname().into());
        let changes = content.is_some() || proxied.is_some() || comment.is_some();
        changes
            .then(|| RecordOperation::Patch(RecordPatch { id: record.id.clone(), content, proxied, comment }))
    }

    /// True if the record is taken over, or if `comment` differs in meaning from the record's comment. The parsed
    /// stamps are compared, so text that did not fit makes no difference.
    fn changes_stamp(&self, record: &Record, comment: &str) -> bool {
        self.host.adopts_records() || self.meaning(&record.comment) != self.meaning(comment)
    }

    /// The stamp in a comment, bound to the hostname, so that a missing hostname code makes no difference.
    fn meaning(&self, comment: &str) -> Option<Stamp> {
        let mut stamp = Stamp::parse(comment)?;
        stamp.bind_to(self.host.name());
        Some(stamp)
    }
}

/// The writes of a decision, and the reasons why work is left to a later request.
///
/// # Errors
/// The reason why the rules cannot be written.
pub(crate) fn planned_writes(
    decision: &Decision<'_>,
    resource: Option<Box<str>>,
) -> Result<(HostPlan, Vec<Reason>), Reason> {
    let Decision { host, withdrawn, .. } = decision;
    let accepted = &*decision.accepted();
    let change = Change::of(decision, accepted);
    if let Some(reason) = change.unwritable() {
        return Err(reason);
    }
    let dangling = comment::dangling(host, accepted);
    // Another instance may be about to write the rule of a dangling digest.
    let keeps_dangling = !dangling.is_empty() && !host.is_unchanged_for(DIGEST_WITHOUT_RULE_MIN_AGE);
    let removed_dangling = if keeps_dangling { BTreeSet::new() } else { dangling };
    let comment = CommentTemplate::of(host, accepted);
    let claims_during = comment::claims_during(host, accepted, withdrawn);
    let mut gone = removed_dangling.clone();
    gone.extend(change.deleted.iter().map(|rule| rule.digest));
    let fate = RecordFate::of(decision, accepted, keeps_dangling);
    let is_released = claims_during.is_released || fate == RecordFate::Released;
    let claims_after = Claims { is_released, ..claims_during.without(&gone) };
    let (operations_before, operations_after) = if fate == RecordFate::Deleted {
        (Vec::new(), deletions(host))
    } else {
        change.record_operations(comment.with(&claims_during), comment.with(&claims_after))
    };
    let kept = keeps_dangling.then(|| Reason::Waiting(RECORD_CHANGED_RECENTLY.to_owned()));
    let unfinished = change.unfinished_move().into_iter().chain(kept).collect();
    let plan = HostPlan {
        operations_before,
        edits: change.edits(resource.as_deref()),
        operations_after,
        adoptions: adoption::adoptions(host, accepted),
        moves_to: change.wanted_tunnel.filter(|_| change.repoint == Repoint::BeforeRules).cloned(),
        claims_during,
        claims_after,
        removed_dangling,
        ..empty_plan(host, comment, resource)
    };
    Ok((plan, unfinished))
}

/// The deletion of a new record whose rules cannot be written now, if it hides a wildcard's record with another target.
/// Its digests are removed with it, however recent they are.
pub(crate) fn deletion_of_hiding_record(host: &Host<'_>, resource: Option<Box<str>>) -> Option<HostPlan> {
    hides_wildcard(host).then(|| HostPlan {
        operations_after: deletions(host),
        removed_dangling: comment::dangling(host, &[]),
        ..empty_plan(host, CommentTemplate::of(host, &[]), resource)
    })
}

/// A plan without writes.
fn empty_plan(host: &Host<'_>, comment: CommentTemplate, resource: Option<Box<str>>) -> HostPlan {
    HostPlan {
        hostname: host.name().into(),
        zone: host.zone.zone.id.clone(),
        operations_before: Vec::new(),
        edits: Vec::new(),
        operations_after: Vec::new(),
        adoptions: Vec::new(),
        moves_to: None,
        comment,
        claims_during: Claims::default(),
        claims_after: Claims::default(),
        removed_dangling: BTreeSet::new(),
        resource,
    }
}

/// The time at which the records are pointed to the wanted tunnel. Their present tunnel serves visitors until the
/// wanted tunnel has all wanted rules and its connectors serve them.
fn repoint(host: &Host<'_>, wanted: Option<&TunnelId>, is_in_place: bool) -> Repoint {
    let is_elsewhere =
        |wanted: &&TunnelId| host.stamped_records().any(|record| points_elsewhere(record, wanted));
    match wanted.filter(is_elsewhere) {
        None => Repoint::NotNeeded,
        Some(_) if host.is_dry_run() => Repoint::AfterRules,
        // The record points to a tunnel that is not configured. If that tunnel exists, the new stamp would make the
        // record another instance's in the next request, so the move ends in this one.
        Some(_) if !points_to_configured_tunnels(host) => Repoint::AfterRules,
        Some(tunnel) if is_in_place && !host.context.inputs.unready.contains_key(tunnel) => {
            Repoint::BeforeRules
        }
        Some(_) => Repoint::Later,
    }
}

/// The wanted rules that are missing, different or shadowed.
fn puts<'w>(host: &Host<'_>, accepted: &[&'w Gated]) -> Vec<&'w Gated> {
    let marked_rules = accepted.first().and_then(|first| host.marked_rules(first.tunnel()));
    let is_put = |gated: &Gated| {
        let Some(wanted) = gated.rule() else { return false };
        let present = host.stamped_rule_at(gated.tunnel(), gated.path());
        let moves =
            || marked_rules.as_ref().is_some_and(|all| all.needs_reordering(&host.hostname, gated.path()));
        !present.is_some_and(|present| present.rule.equals(wanted)) || moves()
    };
    accepted.iter().copied().filter(|gated| is_put(gated)).collect()
}

/// Our rules that are no longer wanted: rules that are deleted now, and rules that visitors may still reach.
fn unwanted_rules<'a>(
    decision: &Decision<'a>,
    accepted: &[&Gated],
    repoint: Repoint,
) -> (Vec<HostRule<'a>>, Vec<HostRule<'a>>) {
    let Decision { host, withdrawn, .. } = decision;
    let visited = host.snapshot().visited_tunnel(host.name());
    let is_unwanted = |rule: &HostRule<'_>| {
        let mut at_path = accepted.iter().filter(|gated| gated.path() == rule.path());
        let is_wanted = at_path.clone().any(|one| one.rule().is_some() && one.tunnel() == rule.tunnel);
        !is_wanted && (at_path.next().is_some() || withdrawn.contains(&rule.path()))
    };
    let is_deleted_now = |rule: &HostRule<'_>| {
        let is_visited = visited.as_ref() == Some(rule.tunnel);
        // After `MOVE_GRACE` no visitor still reaches an older target.
        let is_past_grace = || host.is_unchanged_for(host.operator().move_grace);
        let is_left = if is_visited { repoint == Repoint::NotNeeded } else { is_past_grace() };
        decision.withdraws_hostname || host.is_dry_run() || is_left
    };
    host.stamped_rules().copied().filter(is_unwanted).partition(is_deleted_now)
}

fn deletions(host: &Host<'_>) -> Vec<RecordOperation> {
    host.stamped_records().map(RecordOperation::delete).collect()
}

/// True if visitors reach a foreign rule by our record, so that the record stays when its rules are deleted. A record
/// that was asked for without a rule is deleted.
fn serves_foreign_rule(host: &Host<'_>) -> bool {
    let serves = |visited| foreign_rule_left_behind(host, &visited).is_some();
    !host.claims_record_only() && host.record_tunnel().is_some_and(serves)
}

/// True if the record is new and has none of the rules that its comment names, and if it hides a wildcard's record with
/// another target.
fn hides_wildcard(host: &Host<'_>) -> bool {
    let has_no_rule = host.stamp.as_ref().is_some_and(|stamp| {
        let claims = &stamp.claims;
        !claims.record_only && !claims.is_empty() && comment::dangling(host, &[]) == claims.digests
    });
    let behind = || host.zone.wildcard_behind(host.name()).iter().find(|record| record.is_address_or_cname());
    has_no_rule
        && host.has_new_record()
        && behind().is_some_and(|record| record.tunnel() != host.record_tunnel())
}

/// True if the record is not a CNAME to the tunnel.
fn points_elsewhere(record: &Record, tunnel: &TunnelId) -> bool {
    !record.is_cname() || !record.content.eq_ignore_ascii_case(&tunnel.hostname())
}

/// True if our records point only to configured tunnels.
fn points_to_configured_tunnels(host: &Host<'_>) -> bool {
    let mut tunnels = host.stamped_records().filter_map(|record| record.tunnel());
    tunnels.all(|tunnel| host.snapshot().settings.is_configured(&tunnel))
}
