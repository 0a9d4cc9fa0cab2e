//! Isolates the bad pieces of a refused group: groups of the others pass, until the bad ones stand alone.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use super::group_testing::{GroupTesting, Pages};
use super::work::Piece;
use super::{Culprits, Execution, Sent, Step, in_between, steps};
use crate::cloudflare::ApiRejection;
use crate::limits;
use crate::ordered::inserted;
use crate::provider::outcome::Stop;
use crate::provider::writes::key;
use crate::reconcile::plan::{HostPlan, Reason};

/// The trials of one round: writes that narrow down a refused group. At a usual 0.3 s per call the deadline allows some
/// 33; if calls are fast, five loops in five minutes must not use more than a quarter of `RATE_CALLS`, with the document
/// that is read once a second.
const NARROWING_TRIALS_MAX: usize = 48;

/// The order in which pieces are tried in groups. Of deletions wider rules go first: one that goes later would get the
/// requests of a narrower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Deletions: they are refused least, and withdrawals should not wait.
    Goes,
    /// Additions and changes, narrower rules first: a wider one of the hostname would get the requests of one that is
    /// refused.
    Comes,
    /// Deletions for a hostname that also gets additions: they go once those are there, and not if those were refused.
    GivesWay,
}

impl<'a> Execution<'a> {
    /// Writes the pieces that were never in doubt, then those in doubt, in groups of improving size.
    pub(super) fn narrow_down(&mut self, step: Step<'a>, pieces: Vec<Piece<'a>>) -> Result<(), Stop> {
        let group_of = |piece: &Piece<'a>| self.done.doubts.get(&key(&piece.content())).copied();
        // A hostname stays together, because its wider rules wait for its narrower ones, and its deletions for both.
        let hostnames = |is_meant: &dyn Fn(&Piece<'a>) -> bool| -> BTreeSet<&'a str> {
            inserted(pieces.iter().filter(|piece| is_meant(piece)).map(|piece| piece.hostname))
        };
        let in_doubt = hostnames(&|piece| group_of(piece).is_some());
        let stood_alone = hostnames(&|piece| group_of(piece) == Some(1));
        let (doubtful, others): (Vec<Piece<'a>>, Vec<Piece<'a>>) =
            pieces.into_iter().partition(|piece| in_doubt.contains(piece.hostname));
        // Pieces to be tried alone say nothing about the best group size for the others.
        let (alone, doubtful): (Vec<Piece<'a>>, Vec<Piece<'a>>) =
            doubtful.into_iter().partition(|piece| stood_alone.contains(piece.hostname));
        let group = doubtful.iter().filter_map(group_of).min().unwrap_or_default();
        for (narrowing, queue) in [
            (GroupTesting::of_untried(others.len()), others),
            (GroupTesting::of_doubtful(doubtful.len(), group), doubtful),
            (GroupTesting::of_doubtful(alone.len(), 1), alone),
        ] {
            self.try_groups(step, queue, narrowing)?;
        }
        Ok(())
    }

    /// Goes on until the queue is empty, or the calls or the time are used up.
    fn try_groups(
        &mut self,
        step: Step<'a>,
        mut queue: Vec<Piece<'a>>,
        mut narrowing: GroupTesting,
    ) -> Result<(), Stop> {
        let adding: BTreeSet<&str> =
            inserted(queue.iter().filter(|piece| piece.adds()).map(|piece| piece.hostname));
        let turn = |piece: &Piece<'a>| match (piece.adds(), adding.contains(piece.hostname)) {
            (false, false) => Turn::Goes,
            (true, _) => Turn::Comes,
            (false, true) => Turn::GivesWay,
        };
        let narrower_first = |one: &Piece<'a>, other: &Piece<'a>| match (one.edit(), other.edit()) {
            (Some(one), Some(other)) => one.in_order_of_list(other),
            _ => Ordering::Equal,
        };
        queue.sort_by(|one, other| {
            turn(one).cmp(&turn(other)).then_with(|| match turn(one) {
                Turn::Comes => narrower_first(one, other),
                Turn::Goes | Turn::GivesWay => narrower_first(other, one),
            })
        });
        let mut cause = None;
        let mut pages = Pages::default();
        while let Some(present) = queue.first().map(turn) {
            let alike = queue.iter().take_while(|piece| turn(piece) == present).count();
            let length = narrowing.next().min(alike);
            let length = self.fitting(step, queue.get(..length).unwrap_or_default());
            if !narrowing.is_untried() && !self.may_narrow(step) {
                self.leave_undecided(&queue, narrowing.next_later(), cause.as_ref());
                return Ok(());
            }
            let rest = queue.split_off(length);
            let sent = self.send(step, &queue)?;
            let group = std::mem::replace(&mut queue, rest);
            match sent {
                Sent::Done => {
                    pages.was_passed();
                    self.settle(&group);
                    narrowing.went_through(length);
                }
                Sent::Refused { mut pieces, answer, culprits } => {
                    if answer.is_of_cloudflare() {
                        pages.was_passed();
                    }
                    match culprits {
                        Culprits::Named(culprits) => {
                            self.reject_all(step, &culprits, &answer, None);
                            pieces.retain(|piece| !culprits.contains(piece));
                            narrowing.was_named(pieces.len());
                            queue.splice(..0, pieces);
                        }
                        Culprits::Elsewhere(where_) => {
                            pieces.append(&mut queue);
                            self.reject_all(step, &pieces, &answer, Some(&where_));
                        }
                        Culprits::Unknown if pieces.len() == 1 => {
                            self.reject_all(step, &pieces, &answer, None);
                            narrowing.stood_alone();
                            if pages.stood_alone() {
                                // Their doubts stay: the piece that stood alone comes after them next time.
                                self.leave_out_all(&queue, &in_between(answer));
                                return Ok(());
                            }
                        }
                        Culprits::Unknown => {
                            narrowing.was_refused(pieces.len());
                            queue.splice(..0, pieces);
                        }
                    }
                    cause = Some(answer);
                    queue.retain(|piece| !self.done.dropped.contains(piece.hostname));
                }
                Sent::Barred(reason) => {
                    self.leave_out_all(&group, &reason);
                    self.leave_out_all(&queue, &reason);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// True if there are calls and time left to isolate bad pieces.
    fn may_narrow(&self, step: Step<'a>) -> bool {
        let aside = self.aside.keys().filter_map(|hostname| self.plan.host(hostname));
        let means = Means {
            trials: self.trials,
            calls_left: self.tools.client.calls_left(),
            time: self.narrowing_time,
            time_left: self.time_left(),
        };
        means.suffice(later_steps(aside, &self.done.dropped, step))
    }

    fn leave_undecided(&mut self, pieces: &[Piece<'a>], group: usize, cause: Option<&ApiRejection>) {
        let mut text =
            "it was refused together with others, and which one is at fault is not known yet: the next loops go on"
                .to_owned();
        if let Some(answer) = cause {
            text.push_str(&format!("; the last answer was {answer}"));
        }
        let reason = Reason::Undecided(text);
        for piece in pieces {
            self.done.doubts.insert(key(&piece.content()), group.max(2));
            self.leave_out(piece.hostname, reason.clone());
        }
    }
}

/// The number of steps that these hostnames have to take after `step`, but for those that were dropped.
fn later_steps<'h>(
    hosts: impl Iterator<Item = &'h HostPlan>,
    dropped: &BTreeSet<Box<str>>,
    step: Step<'_>,
) -> usize {
    let hosts = hosts.filter(|host| !dropped.contains(&host.hostname));
    let later: BTreeSet<Step<'h>> =
        inserted(hosts.flat_map(steps).map(|(later, _)| later).filter(|later| *later > step));
    later.len()
}

/// What there is to isolate bad pieces with.
#[derive(Clone, Copy, Debug)]
struct Means {
    /// The writes that this round has sent for it.
    trials: usize,
    /// The calls that everybody may still make.
    calls_left: u32,
    /// The time that there was when it began.
    time: Duration,
    time_left: Duration,
}

impl Means {
    /// True if another trial may begin. The calls are shared by everybody, and the pieces found good have
    /// `later_steps` to take.
    fn suffice(self, later_steps: usize) -> bool {
        let reserve = limits::STEP_MINIMUM * u32::try_from(later_steps).unwrap_or(u32::MAX);
        let reserve = reserve.min(self.time / 2);
        self.trials < NARROWING_TRIALS_MAX
            && self.calls_left >= limits::SHARED_CALLS_LEFT_MIN
            && self.time_left >= limits::STEP_MINIMUM + reserve
    }
}
