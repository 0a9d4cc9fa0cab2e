//! Decides what comes and goes in one request and what has to wait, so that visitors who are served before and after
//! are served throughout.

use std::collections::BTreeSet;

use super::Desired;
use super::standing::Standing;
use crate::model::{Record, TunnelId};
use crate::ordered::inserted;
use crate::reconcile::claim_state::ClaimState;
use crate::reconcile::plan::{Reason, Stage};
use crate::reconcile::stamp::{Claims, Digest};

/// The order of the rules that go and of those that replace them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// In one version of the document. Until then the comment claims both.
    Together,
    /// The old rules go first.
    Apart,
}

/// The way from what stands to what is wanted, as far as this request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Course {
    /// The claims from before the rules are written.
    pub(super) first: Claims,
    /// The claims after the rules are written.
    pub(super) last: Claims,
    /// Digests that are removed, and their rules with them.
    pub(super) leaving: BTreeSet<Digest>,
    /// Digests that are removed later, because visitors may still be led to their rules.
    pub(super) staying: BTreeSet<Digest>,
    /// The stage in which the rules of `leaving` go.
    pub(super) leaves_in: Stage,
    /// The tunnel that the record is led to once it serves the hostname. Until then the record stays.
    pub(super) moves_to: Option<TunnelId>,
    /// The tunnel of the wildcard record that answers for the hostname after it is gone. The record is led there before
    /// it goes, with the rules that still serve visitors.
    pub(super) heir: Option<TunnelId>,
}

impl Course {
    /// Removes only claims; rules stay as they are.
    pub(super) fn unclaiming(claims: Claims) -> Self {
        Self {
            first: claims.clone(),
            last: claims,
            leaving: BTreeSet::new(),
            staying: BTreeSet::new(),
            leaves_in: Stage::Publish,
            moves_to: None,
            heir: None,
        }
    }

    /// True if nothing of the hostname is ours at the end.
    pub(super) fn ends(&self) -> bool {
        self.last.is_empty()
    }

    /// The reason why a withdrawn hostname is not gone yet.
    pub(super) fn reason(&self) -> Option<Reason> {
        let heir = self.heir.as_ref()?;
        Some(Reason::Moving(format!(
            "a wildcard record of tunnel {heir} takes the hostname over: its record leads there first, and goes with its \
             rules when MOVE_GRACE has passed"
        )))
    }
}

/// The course to the `desired` endpoints, without the `withdrawn` claims.
pub(super) fn course(
    standing: &Standing<'_>,
    desired: &[Desired<'_>],
    withdrawn: &Claims,
    order: Order,
) -> Course {
    let moves_to = moves_to(standing, desired);
    let superseded = superseded(standing, desired);
    let going: BTreeSet<Digest> = inserted(withdrawn.rules.union(&superseded).copied());

    let mut last = claims_with(standing, desired, withdrawn);
    let ends = !last.record_only && last.rules.is_subset(&going);
    let heir = if ends { heir(standing) } else { None };
    // A withdrawal without a replacement is kept only for a while.
    let is_late = moves_to.as_ref().is_some_and(|target| standing.situation.earlier.late.contains(target));
    let is_kept = !is_late || desired.iter().any(|desired| is_new(standing, desired));
    let stays = |digest: &Digest| match &heir {
        Some(heir) => stands_elsewhere(standing, *digest, heir),
        None => {
            !ends
                && (is_kept || superseded.contains(digest))
                && is_needed(standing, *digest, moves_to.as_ref())
        }
    };
    let (staying, leaving): (BTreeSet<Digest>, BTreeSet<Digest>) = going.iter().copied().partition(stays);
    last.rules.retain(|digest| !leaving.contains(digest));
    last.rules.extend(&staying);
    let mut first = last.clone();
    let leaves_in = match order {
        Order::Together => Stage::Publish,
        Order::Apart => Stage::Withdraw,
    };
    if order == Order::Together {
        first.rules.extend(leaving.iter().filter(|digest| stands(standing, **digest)));
    }
    Course { first, last, leaving, staying, leaves_in, moves_to, heir }
}

/// The claims of the stamp and of the `desired` endpoints, including the `withdrawn` ones.
fn claims_with(standing: &Standing<'_>, desired: &[Desired<'_>], withdrawn: &Claims) -> Claims {
    let mut claims = standing.stamp.as_ref().map(|stamp| stamp.claims.clone()).unwrap_or_default();
    claims.record_only &= !withdrawn.record_only;
    for desired in desired.iter().filter(|desired| desired.path().is_none()) {
        claims.record_only = desired.publication.rule.is_none();
    }
    claims.rules.extend(desired.iter().filter_map(Desired::digest));
    claims
}

/// Digests of the desired paths in other tunnels, and of a rule that is replaced by the record alone.
fn superseded(standing: &Standing<'_>, desired: &[Desired<'_>]) -> BTreeSet<Digest> {
    let others = desired.iter().flat_map(|desired| {
        let digests = standing.digests_for_path(desired.path());
        digests.filter(|digest| Some(*digest) != desired.digest())
    });
    inserted(others)
}

/// True if visitors may still be led to a rule that is to go, because the record is about to be led away from it, or
/// was a short time ago.
fn is_needed(standing: &Standing<'_>, digest: Digest, moves_to: Option<&TunnelId>) -> bool {
    let Some(ClaimState::Standing { tunnel, rule: _ }) = standing.claims.get(&digest) else {
        return false;
    };
    match moves_to {
        Some(target) => tunnel != target,
        None => !standing.has_settled() && standing.led_to().is_some_and(|led_to| led_to != *tunnel),
    }
}

/// True if no other tunnel has a rule for the same path, from which its visitors would come.
fn is_new(standing: &Standing<'_>, desired: &Desired<'_>) -> bool {
    let digest = desired.digest();
    digest.is_some() && standing.digests_for_path(desired.path()).all(|other| Some(other) == digest)
}

fn stands(standing: &Standing<'_>, digest: Digest) -> bool {
    standing.claims.get(&digest).is_some_and(|state| state.rule().is_some())
}

fn stands_elsewhere(standing: &Standing<'_>, digest: Digest, than: &TunnelId) -> bool {
    let state = standing.claims.get(&digest);
    state.is_some_and(|state| state.rule().is_some() && state.tunnel().is_some_and(|tunnel| tunnel != than))
}

/// The desired tunnel, if a record leads elsewhere until then: ours, one that is taken over, or else a wildcard's.
fn moves_to(standing: &Standing<'_>, desired: &[Desired<'_>]) -> Option<TunnelId> {
    let target = desired.first()?.tunnel();
    let is_moving = match &*standing.own_records {
        [] => !stand_ins(standing, target).is_empty(),
        records => records.iter().any(|record| leads_past(record, target)),
    };
    is_moving.then(|| target.clone())
}

/// The records that lead the hostname's visitors elsewhere than to `target` while it has no record of its own: those in
/// an outer zone, or else a wildcard's.
pub(super) fn stand_ins<'a>(standing: &Standing<'a>, target: &TunnelId) -> Vec<&'a Record> {
    let outer = standing.outer_records.iter().map(|own| own.record).collect();
    let wildcard = || standing.zone.wildcard_over(standing.name()).iter().collect();
    let mut records: Vec<&Record> = if standing.outer_records.is_empty() { wildcard() } else { outer };
    records.retain(|record| leads_visitors(record));
    let is_one = |record: &&Record| leads_past(record, target) && may_lead_there(standing, record);
    if records.iter().all(is_one) { records } else { Vec::new() }
}

fn leads_past(record: &Record, target: &TunnelId) -> bool {
    let leads_there = &*record.kind == "CNAME" && record.content.eq_ignore_ascii_case(&target.hostname());
    leads_visitors(record) && !leads_there
}

fn leads_visitors(record: &Record) -> bool {
    ["A", "AAAA", "CNAME"].contains(&&*record.kind)
}

/// True if a record of ours may lead where `record` does. One that led to a tunnel that is not configured would count
/// as another instance's.
pub(super) fn may_lead_there(standing: &Standing<'_>, record: &Record) -> bool {
    let tunnel = TunnelId::from_hostname(&record.content);
    tunnel.is_none_or(|tunnel| standing.settings().is_configured(&tunnel))
}

/// The tunnel that will serve the hostname's visitors when it is gone, if they are not led there yet. It must be
/// configured, because with our stamp a record that leads to another tunnel would not count as ours. After enough
/// requests the hostname goes, even if its record could not be led there.
fn heir(standing: &Standing<'_>) -> Option<TunnelId> {
    let (name, snapshot) = (standing.name(), standing.snapshot());
    let is_handed_over = standing.situation.earlier.handed_over.contains(name);
    let led_to = standing.led_to().filter(|_| !is_handed_over && !standing.own_records.is_empty())?;
    let goes = |record: &Record| *record.name == *name;
    let mut wildcard = standing.zone.wildcard_without(name, &goes).iter();
    let tunnel = wildcard.find_map(|record| TunnelId::from_hostname(&record.content))?;
    let is_elsewhere = standing.claims.keys().any(|digest| stands_elsewhere(standing, *digest, &tunnel));
    let is_led_there = standing.has_settled() && led_to == tunnel;
    (is_elsewhere && !is_led_there && snapshot.tunnels.contains_key(&tunnel)).then_some(tunnel)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, HOME, NAME, OFFICE, SERVICE, claims, digest, tunnel};
    use super::*;

    fn course_of(fixture: &Fixture) -> Course {
        fixture.decision(Order::Together).course
    }

    fn moving() -> Fixture {
        Fixture::new().published(&[(HOME, "")]).asks(OFFICE, "", SERVICE)
    }

    /// The record leads to its new tunnel, and the old rule is there still.
    fn moved() -> Fixture {
        Fixture::new().published(&[(OFFICE, ""), (HOME, "")]).asks(OFFICE, "", SERVICE)
    }

    /// The wildcard of another tunnel would answer for it.
    fn below_a_wildcard() -> Fixture {
        let wildcard = ("*.example.com", tunnel(OFFICE).hostname());
        Fixture::new().record(wildcard.0, "CNAME", &wildcard.1, "")
    }

    #[test]
    fn what_is_published_is_claimed_before_and_after_its_rule_is_written() {
        let course = course_of(&Fixture::new().asks(HOME, "", SERVICE));
        let is = claims(&[(HOME, "")]);
        assert_eq!(course, Course { moves_to: None, ..Course::unclaiming(is) });
    }

    #[test]
    fn what_is_withdrawn_is_claimed_until_its_rule_is_gone() {
        let course = course_of(&Fixture::new().published(&[(HOME, "")]).withdraws(""));
        assert_eq!(course.first, claims(&[(HOME, "")]));
        assert!(course.ends() && course.leaves_in == Stage::Publish);
        assert_eq!(course.leaving, [digest(HOME, "")].into());
    }

    #[test]
    fn a_rule_that_is_missing_already_is_not_claimed_any_more() {
        let comment = Fixture::new().comment(&[(HOME, "")]);
        let fixture = Fixture::new().record(NAME, "CNAME", &tunnel(HOME).hostname(), &comment);
        let course = course_of(&fixture.withdraws(""));
        assert!(course.first.is_empty() && course.ends());
    }

    #[test]
    fn one_after_the_other_the_old_rule_goes_before_the_new_one_is_claimed() {
        let fixture = Fixture::new().published(&[(HOME, "^/a")]).asks(HOME, "^/b", SERVICE).withdraws("^/a");
        let together = course_of(&fixture);
        assert_eq!(together.first, claims(&[(HOME, "^/a"), (HOME, "^/b")]));
        let apart = fixture.decision(Order::Apart).course;
        assert_eq!((apart.first, apart.leaves_in), (claims(&[(HOME, "^/b")]), Stage::Withdraw));
    }

    #[test]
    fn a_hostname_that_moves_keeps_its_old_rule() {
        let course = course_of(&moving());
        assert_eq!(course.moves_to, Some(tunnel(OFFICE)));
        assert_eq!((course.staying, course.leaving), ([digest(HOME, "")].into(), BTreeSet::new()));
        assert_eq!(course.last, claims(&[(HOME, ""), (OFFICE, "")]));
    }

    #[test]
    fn the_old_rule_stays_until_no_visitor_is_led_to_it() {
        let mut fixture = moved();
        let course = course_of(&fixture);
        assert_eq!((course.moves_to, course.staying), (None, [digest(HOME, "")].into()));
        fixture.earlier.moved.insert(NAME.into());
        let course = course_of(&fixture);
        assert_eq!((course.staying, course.leaving), (BTreeSet::new(), [digest(HOME, "")].into()));
    }

    #[test]
    fn what_is_withdrawn_for_nothing_new_waits_no_longer_for_a_tunnel_that_is_late() {
        let asked_for = || {
            let fixture = Fixture::new().published(&[(HOME, "^/a"), (HOME, "^/b")]);
            fixture.asks(OFFICE, "^/a", SERVICE).withdraws("^/b")
        };
        assert!(course_of(&asked_for()).staying.contains(&digest(HOME, "^/b")));
        let mut late = asked_for();
        late.earlier.late.insert(tunnel(OFFICE));
        let course = course_of(&late);
        assert_eq!(
            (course.staying, course.leaving),
            ([digest(HOME, "^/a")].into(), [digest(HOME, "^/b")].into())
        );
        // What is new may be what the withdrawn one became.
        let mut replaced = asked_for().asks(OFFICE, "^/c", SERVICE);
        replaced.earlier.late.insert(tunnel(OFFICE));
        assert!(course_of(&replaced).staying.contains(&digest(HOME, "^/b")));
    }

    #[test]
    fn the_record_alone_gives_way_to_a_rule_and_a_rule_to_the_record_alone() {
        let course = course_of(&Fixture::new().published(&[]).asks(HOME, "", SERVICE));
        assert_eq!(course.last, claims(&[(HOME, "")]));
        let course = course_of(&Fixture::new().published(&[(HOME, "")]).asks(HOME, "", "none"));
        assert_eq!((course.last, course.leaving), (claims(&[]), [digest(HOME, "")].into()));
    }

    #[test]
    fn a_name_without_a_record_moves_away_from_the_wildcard_that_serves_it() {
        let fixture = below_a_wildcard().asks(HOME, "", SERVICE);
        assert_eq!(course_of(&fixture).moves_to, Some(tunnel(HOME)));
        let same = below_a_wildcard().asks(OFFICE, "", SERVICE);
        assert_eq!(course_of(&same).moves_to, None);
    }

    #[test]
    fn a_withdrawn_name_is_handed_over_to_the_wildcard_that_will_serve_it() {
        let mut fixture = below_a_wildcard().published(&[(HOME, "")]).withdraws("");
        let course = course_of(&fixture);
        assert_eq!((course.heir.clone(), course.ends()), (Some(tunnel(OFFICE)), false));
        assert_eq!(course.reason().map(|reason| reason.label()), Some("moving"));
        fixture.earlier.handed_over.insert(NAME.into());
        let course = course_of(&fixture);
        assert_eq!((course.heir.clone(), course.ends()), (None, true));
    }
}
