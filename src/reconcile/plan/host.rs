//! Plans one hostname: what stands, what is decided about it, and what each stage has to write.
//!
//! `Standing` is what was read, `Decision` what is done of the request and how, and `HostPlan` what that writes. Each
//! is made from the one before and never changed afterwards; taking things over makes another `Standing`.

mod adopted;
mod adoption;
mod comment;
mod course;
mod decision;
#[cfg(test)]
mod fixture;
mod guard;
mod heritage;
mod host_plan;
mod needs;
mod obstacle;
mod operations;
mod standing;
mod wildcard;

use std::collections::{BTreeMap, BTreeSet};

use crate::ingress::Owned;
use crate::model::{Hostname, RecordId, TunnelId};
use crate::reconcile::canonical::Publication;
use crate::reconcile::plan::request::HostRequest;
use crate::reconcile::plan::{Earlier, HostPlan, Reason, RecordOperation, Refusal, Stage};
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::stamp::Digest;
use crate::reconcile::{Note, Settings};
use course::{Course, Order};
use decision::{Decision, cannot_follow, decide};
use host_plan::{by_batch, host_plan};
use operations::Step;
use standing::Standing;

/// The context in which every hostname of a request is planned.
#[derive(Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) settings: &'a Settings,
    pub(super) earlier: &'a Earlier,
    /// All rules, each marked as ours or not.
    pub(super) owned: &'a BTreeMap<&'a TunnelId, Owned<'a>>,
}

/// The edits that a tunnel's document does not allow, by path.
pub(super) type Obstacles = BTreeMap<Option<Box<str>>, Reason>;

/// The result of planning one hostname.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) plan: Option<HostPlan>,
    pub(super) refusals: Vec<Refusal>,
    pub(super) notes: Vec<Note>,
    /// Digests that the plan stamps.
    pub(super) new_digests: BTreeSet<Digest>,
    /// The tunnel of a wildcard record takes over its visitors.
    pub(super) has_heir: bool,
}

/// A wanted endpoint that can be published.
#[derive(Clone, Copy, Debug)]
struct Desired<'a> {
    publication: &'a Publication,
    resource: Option<&'a str>,
}

impl<'a> Desired<'a> {
    fn tunnel(&self) -> &'a TunnelId {
        &self.publication.tunnel
    }

    fn path(&self) -> Option<&'a str> {
        self.publication.path()
    }

    /// The digest of its rule; `None` if it asks only for the record.
    fn digest(&self) -> Option<Digest> {
        self.publication.rule.as_ref()?;
        Some(Digest::of(self.tunnel(), self.path()))
    }
}

pub(super) fn plan(
    name: &str,
    request: &HostRequest,
    obstacles: &Obstacles,
    situation: Situation<'_>,
) -> Outcome {
    let Situation { snapshot, settings, .. } = situation;
    let whole = |reason| Refusal::whole(name.into(), request.resource(), reason);
    if !settings.policy.filter.matches(name) {
        return Outcome::refused(vec![whole(Reason::OutsideFilter)]);
    }
    let mut refusals = impossible_ones(name, request);
    let home = snapshot.zone_of(name);
    let of_own_record = || Some(snapshot.own_records_of(name, settings).first()?.zone);
    let Some(zone) = home.or_else(of_own_record) else {
        refusals.push(whole(Reason::NoZone));
        return Outcome::refused(refusals);
    };
    // A name that was published before its zone appeared, or went out of sight, can still be withdrawn.
    if home.is_none() && !request.wanted.is_empty() {
        refusals.push(whole(Reason::NoZone));
    }
    // A name that is not a hostname was never published, so nothing of it can be withdrawn either.
    let Ok(hostname) = Hostname::parse(name) else {
        return Outcome::refused(refusals);
    };
    let standing = Standing::of(situation, zone, hostname, request, obstacles);
    let desired = if home.is_some() { valid_ones(request) } else { Vec::new() };
    let (desired, refused) = guard::guarded(&standing, desired);
    refusals.extend(refused);
    let outcome = planned(&standing, one_a_path(desired));
    Outcome { refusals: outcome.refusals.into_iter().chain(refusals).collect(), ..outcome }
}

/// Removes `digests` from the hostname's stamp, and the record with the last claim; records that were taken over get
/// their `comments` back instead. Rules are not touched.
pub(super) fn disown(
    name: &str,
    digests: &BTreeSet<Digest>,
    comments: &[(RecordId, Box<str>)],
    situation: Situation<'_>,
) -> Option<HostPlan> {
    let Situation { snapshot, settings, .. } = situation;
    let zone = snapshot.own_records_of(name, settings).first()?.zone;
    let (request, obstacles) = (HostRequest::default(), Obstacles::new());
    let standing = Standing::of(situation, zone, Hostname::parse(name).ok()?, &request, &obstacles);
    let mut claims = standing.stamp.as_ref()?.claims.clone();
    claims.rules.retain(|digest| !digests.contains(digest));
    if claims.is_empty() && !comments.is_empty() {
        return Some(HostPlan {
            operations: by_batch(given_back(&standing, comments)),
            ..HostPlan::empty(name, standing.resource())
        });
    }
    let course = Course::unclaiming(claims);
    host_plan(&standing, &Decision { desired: Vec::new(), course, refusals: Vec::new() }).ok()
}

/// The steps that put `comments` back.
fn given_back<'a>(standing: &Standing<'a>, comments: &[(RecordId, Box<str>)]) -> Vec<Step<'a>> {
    let step = |zone, operation| Step { stage: Stage::Stamp, zone, operation };
    let home = standing.own_records.iter().filter_map(|record| {
        let (_, comment) = comments.iter().find(|(id, _)| *id == record.id)?;
        Some(step(standing.zone, operations::restamp(record, Some(comment.clone()))?))
    });
    let around = standing.outer_records.iter();
    let around = around.map(|own| step(own.zone, RecordOperation::delete(own.record)));
    home.chain(around).collect()
}

/// The wanted endpoints that can be published, as far as they tell.
fn valid_ones(request: &HostRequest) -> Vec<Desired<'_>> {
    let valid = request.wanted.iter().filter_map(|wanted| {
        let publication = wanted.publication.as_ref().ok()?;
        Some(Desired { publication, resource: wanted.resource.as_deref() })
    });
    valid.collect()
}

/// The refusals of the others.
fn impossible_ones(name: &str, request: &HostRequest) -> Vec<Refusal> {
    let impossible = request.wanted.iter().filter_map(|wanted| {
        let reason = wanted.publication.as_ref().err()?.clone();
        let (set_identifier, resource) = (Some(wanted.set_identifier.clone()), wanted.resource.clone());
        Some(Refusal { hostname: name.into(), set_identifier, resource, reason })
    });
    impossible.collect()
}

/// The first endpoint of each path, because ExternalDNS asks for only one.
fn one_a_path(mut desired: Vec<Desired<'_>>) -> Vec<Desired<'_>> {
    let mut paths = BTreeSet::new();
    desired.retain(|desired| paths.insert(desired.path()));
    desired
}

/// Plans the valid `desired` endpoints and the withdrawals.
fn planned(standing: &Standing<'_>, desired: Vec<Desired<'_>>) -> Outcome {
    let withholds = guard::withholds_deletions(standing);
    let adopting = adoption::adopting(standing, &desired);
    let before = adopting.as_ref().unwrap_or(standing);
    let attempt = |desired, order| attempt(standing, before, desired, withholds, order);
    let (Attempt { decision, plan }, note) = with_room(before, desired, &attempt);
    let Decision { desired: _, course, mut refusals } = decision;
    let plan = match plan {
        Ok(plan) => plan,
        Err(reason) => {
            refusals.push(before.whole_refusal(reason));
            return Outcome::refused(refusals);
        }
    };
    // Told of the course that is taken, because it keeps ExternalDNS waiting.
    refusals.extend(course.reason().map(|reason| before.whole_refusal(reason)));
    let left = heritage::left(before).filter(|_| !plan.adoptions.is_empty());
    let notes = note.into_iter().chain(left).chain(wildcard::names_taken(before, &plan)).collect();
    Outcome {
        plan: Some(plan).filter(|plan| !plan.is_empty()),
        refusals,
        notes,
        new_digests: course.first.rules,
        has_heir: course.heir.is_some(),
    }
}

/// A decision, and its writes if the stamp has room for them.
struct Attempt<'w> {
    decision: Decision<'w>,
    plan: Result<HostPlan, Reason>,
}

impl Attempt<'_> {
    /// The refusal if the record's comment has no room for the claims.
    fn stamp_full(&self) -> Option<Reason> {
        self.plan.as_ref().err().filter(|reason| matches!(reason, Reason::StampFull { .. })).cloned()
    }
}

/// Decides on `adopting`, or on the hostname as it stands if taking its records over would make nothing possible.
fn attempt<'w>(
    standing: &Standing<'_>,
    adopting: &Standing<'_>,
    desired: Vec<Desired<'w>>,
    withholds: bool,
    order: Order,
) -> Attempt<'w> {
    let withholds = withholds || cannot_follow(adopting, &desired);
    let decision = decide(adopting, desired, withholds, order);
    if !decision.desired.is_empty() || adopting.adopted.records.is_empty() {
        return Attempt { plan: host_plan(adopting, &decision), decision };
    }
    let refusals = decision.refusals;
    let decision = Decision { refusals, ..decide(standing, Vec::new(), withholds, order) };
    Attempt { plan: host_plan(standing, &decision), decision }
}

/// The first attempt whose claims fit into the record's comment: with the old rules beside the new ones, with the new
/// ones after the old ones, with only what is stamped already, and with nothing new. Even that may not fit, if the
/// hostname's home was an outer zone with longer comments.
fn with_room<'w>(
    standing: &Standing<'_>,
    desired: Vec<Desired<'w>>,
    attempt: &dyn Fn(Vec<Desired<'w>>, Order) -> Attempt<'w>,
) -> (Attempt<'w>, Option<Note>) {
    let together = attempt(desired.clone(), Order::Together);
    let Some(reason) = together.stamp_full() else {
        return (together, None);
    };
    let apart = attempt(desired.clone(), Order::Apart);
    if apart.plan.is_ok() {
        let note = standing.note(
            "its record's comment has no room for the old rules beside the new ones, so visitors of these paths \
             are not served between the two: shorten OWNER_ID or the text after the bar"
                .to_owned(),
        );
        return (apart, Some(note));
    }
    let refusing = |refused: &[Desired<'_>], reason: &Reason, mut attempt: Attempt<'w>| {
        let refused = refused.iter().map(|desired| standing.refusal(desired, reason.clone()));
        attempt.decision.refusals.extend(refused);
        attempt
    };
    let (old, new): (Vec<_>, Vec<_>) =
        desired.iter().copied().partition(|desired| standing.claims_already(desired));
    let known = refusing(&new, &reason, attempt(old, Order::Apart));
    match known.stamp_full() {
        Some(reason) => (refusing(&desired, &reason, attempt(Vec::new(), Order::Apart)), None),
        None => (known, None),
    }
}

impl Outcome {
    fn refused(refusals: Vec<Refusal>) -> Self {
        Self { refusals, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::{Fixture, HOME, NAME, OFFICE, SERVICE, digest, told, tunnel};
    use super::*;
    use crate::ingress::RuleEdit;

    fn plan_of(fixture: &Fixture) -> Outcome {
        plan(NAME, fixture.request(), &fixture.obstacles, fixture.situation())
    }

    /// What is written, in order: each edit and operation with its stage.
    fn written(plan: Option<&HostPlan>) -> Vec<(Stage, &'static str)> {
        let edits = plan.into_iter().flat_map(|plan| &plan.edits).flat_map(|(stage, edits)| {
            edits.iter().map(|(_, edit)| match edit {
                RuleEdit::Put { .. } => (*stage, "put"),
                RuleEdit::Remove { .. } => (*stage, "remove"),
            })
        });
        let operations = plan.into_iter().flat_map(|plan| &plan.operations);
        let operations = operations.flat_map(|((stage, _), operations)| {
            operations.iter().map(|operation| match operation {
                RecordOperation::Delete(..) => (*stage, "delete"),
                RecordOperation::Patch(..) => (*stage, "patch"),
                RecordOperation::Post(_) => (*stage, "post"),
            })
        });
        let mut written: Vec<(Stage, &'static str)> = edits.chain(operations).collect();
        written.sort_unstable();
        written
    }

    #[test]
    fn a_first_publication_is_a_record_and_a_rule() {
        let Outcome { plan, refusals, new_digests, .. } = plan_of(&Fixture::new().asks(HOME, "", SERVICE));
        assert_eq!(written(plan.as_ref()), [(Stage::Stamp, "post"), (Stage::Publish, "put")]);
        assert_eq!((refusals, new_digests), (vec![], [digest(HOME, "")].into()));
    }

    #[test]
    fn what_is_withdrawn_loses_its_rule_before_its_record() {
        let outcome = plan_of(&Fixture::new().published(&[(HOME, "")]).withdraws(""));
        let plan = outcome.plan.expect("something is written");
        assert_eq!(written(Some(&plan)), [(Stage::Publish, "remove"), (Stage::Unstamp, "delete")]);
        assert!(plan.vanishes);
    }

    #[test]
    fn a_move_leads_the_record_over_last() {
        let outcome = plan_of(&Fixture::new().published(&[(HOME, "")]).asks(OFFICE, "", SERVICE));
        let plan = outcome.plan.expect("something is written");
        assert_eq!(
            written(Some(&plan)),
            [(Stage::Stamp, "patch"), (Stage::Publish, "put"), (Stage::Repoint, "patch")]
        );
        assert_eq!((plan.moves_to.clone(), plan.led_to()), (Some(tunnel(OFFICE)), Some(tunnel(OFFICE))));
    }

    #[test]
    fn a_name_outside_the_filter_or_any_zone_is_refused_as_a_whole() {
        let fixture = Fixture::new().asks(HOME, "", SERVICE);
        let elsewhere = plan("app.other.test", fixture.request(), &fixture.obstacles, fixture.situation());
        assert_eq!(told(&elsewhere.refusals), [(None, "no_zone")]);
        let mut fixture = fixture;
        fixture.settings.policy.filter = crate::model::DomainFilter::lists(["other.test"], []);
        assert_eq!(told(&plan_of(&fixture).refusals), [(None, "outside_filter")]);
    }

    #[test]
    fn in_a_zone_that_is_not_served_a_name_is_withdrawn_and_not_changed() {
        let published = || Fixture::new().published(&[(HOME, "")]).in_zone_elsewhere();
        let changed = plan_of(&published().asks(HOME, "", "http://new:80"));
        assert_eq!((changed.plan, told(&changed.refusals)), (None, vec![(None, "no_zone")]));
        let withdrawn = plan_of(&published().withdraws(""));
        assert_eq!(
            written(withdrawn.plan.as_ref()),
            [(Stage::Publish, "remove"), (Stage::Unstamp, "delete")]
        );
        assert_eq!(told(&withdrawn.refusals), []);
    }

    #[test]
    fn an_invalid_endpoint_is_refused_by_name_and_withholds_deletions() {
        let fixture =
            Fixture::new().published(&[(HOME, "^/a")]).asks(HOME, "", "no service").withdraws("^/a");
        let Outcome { plan, refusals, .. } = plan_of(&fixture);
        assert!(plan.is_none());
        assert_eq!(told(&refusals), [(Some("^/a"), "withheld"), (Some(""), "invalid")]);
    }

    #[test]
    fn nothing_is_written_to_a_tunnel_with_a_local_configuration() {
        let outcome = plan_of(&Fixture::new().local(HOME).asks(HOME, "", SERVICE));
        assert_eq!((outcome.plan, told(&outcome.refusals)), (None, vec![(None, "local_tunnel")]));
    }

    /// With room for one digest in the comment.
    fn cramped() -> Fixture {
        let mut fixture = Fixture::new();
        fixture.settings.policy.owner = "o".repeat(70).into();
        fixture.published(&[(HOME, "^/a")])
    }

    #[test]
    fn without_room_for_both_the_old_rule_goes_before_the_new_one_comes() {
        let outcome = plan_of(&cramped().asks(HOME, "^/b", SERVICE).withdraws("^/a"));
        assert_eq!(
            written(outcome.plan.as_ref()),
            [(Stage::Withdraw, "remove"), (Stage::Stamp, "patch"), (Stage::Publish, "put")]
        );
        assert_eq!((outcome.refusals, outcome.notes.len()), (vec![], 1));
    }

    #[test]
    fn without_room_for_more_what_is_stamped_goes_on() {
        let outcome = plan_of(&cramped().asks(HOME, "^/a", "http://new:80").asks(HOME, "^/b", SERVICE));
        assert_eq!(written(outcome.plan.as_ref()), [(Stage::Publish, "put")]);
        assert_eq!(told(&outcome.refusals), [(Some("^/b"), "stamp_full")]);
        assert!(outcome.notes.is_empty());
    }

    #[test]
    fn the_comment_of_a_paid_zone_has_room_for_all_of_them() {
        let asked = |fixture: Fixture| {
            let paths = (0..30).map(|number| format!("^/p{number}"));
            paths.fold(fixture, |fixture, path| fixture.asks(HOME, &path, SERVICE))
        };
        assert!(told(&plan_of(&asked(cramped())).refusals).contains(&(Some("^/p0"), "stamp_full")));
        let outcome = plan_of(&asked(cramped().paid()));
        assert_eq!((outcome.refusals, outcome.new_digests.len()), (vec![], 31));
    }

    #[test]
    fn a_record_is_taken_over_with_its_stamp_and_only_for_what_can_be_served() {
        let theirs = || Fixture::new().record(NAME, "CNAME", "somewhere.test", "a text").adopt("all");
        let outcome = plan_of(&theirs().asks(HOME, "", SERVICE));
        let plan = outcome.plan.expect("something is written");
        assert_eq!(
            written(Some(&plan)),
            [(Stage::Stamp, "patch"), (Stage::Publish, "put"), (Stage::Repoint, "patch")]
        );
        assert_eq!((plan.adoptions.len(), plan.comments_before.len()), (1, 1));

        let outcome = plan_of(&theirs().deleted(OFFICE).asks(OFFICE, "", SERVICE));
        assert_eq!((outcome.plan, told(&outcome.refusals)), (None, vec![(Some(""), "tunnel_gone")]));
    }

    /// Nothing moves, so nobody has to wait for a move.
    #[test]
    fn a_takeover_that_is_given_up_tells_of_no_move() {
        let fixture = Fixture::new()
            .record(NAME, "CNAME", &tunnel(OFFICE).hostname(), "")
            .record("*.example.com", "CNAME", &tunnel(HOME).hostname(), "")
            .rule(OFFICE, "", "http://old:80")
            .rule(OFFICE, "^/api", "http://old:80")
            .adopt("all")
            .asks(HOME, "", SERVICE);
        let outcome = plan_of(&fixture);
        assert_eq!((outcome.plan, told(&outcome.refusals)), (None, vec![(Some(""), "rule_left_behind")]));
    }

    #[test]
    fn what_is_disowned_comes_off_the_stamp_and_the_record_goes_with_the_last_claim() {
        let fixture = Fixture::new().published(&[(HOME, ""), (HOME, "^/a")]);
        let disowned =
            |digests: &[Digest]| disown(NAME, &digests.iter().copied().collect(), &[], fixture.situation());
        let one = disowned(&[digest(HOME, "")]);
        assert_eq!(written(one.as_ref()), [(Stage::Stamp, "patch")]);
        let all = disowned(&[digest(HOME, ""), digest(HOME, "^/a")]);
        assert_eq!(written(all.as_ref()), [(Stage::Unstamp, "delete")]);
    }

    #[test]
    fn a_record_that_turns_out_to_be_somebody_elses_gets_its_comment_back() {
        let fixture = Fixture::new().published(&[(HOME, "")]);
        let before = [(RecordId::new("r0"), "a text".into())];
        let plan = disown(NAME, &[digest(HOME, "")].into(), &before, fixture.situation());
        assert_eq!(written(plan.as_ref()), [(Stage::Stamp, "patch")]);
    }
}
