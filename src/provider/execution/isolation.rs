//! Isolates the bad pieces of a refused group: groups of the others pass, until the bad ones stand alone.

use std::collections::BTreeSet;

use super::group_testing::{GroupTesting, Pages};
use super::work::Piece;
use super::{Culprits, Execution, Sent, Step, in_between, steps};
use crate::cloudflare::ApiRejection;
use crate::limits;
use crate::ordered::inserted;
use crate::provider::outcome::Stop;
use crate::provider::writes::key;
use crate::reconcile::plan::Reason;

/// The calls per request that narrow down a refused group. At a usual 0.3 s per call the deadline allows some 33; if
/// calls are fast, five loops in five minutes must not use more than a quarter of `RATE_CALLS`.
const NARROWING_CALLS_MAX: usize = 60;

/// With fewer calls left than this, nothing is narrowed down: loops may come every few seconds, and the rest is for
/// everybody's reads and writes.
const NARROWING_CALLS_LEFT_MIN: u32 = 400;

/// The order in which pieces are tried in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Deletions: they are refused least, and withdrawals should not wait.
    Goes,
    /// Additions and changes.
    Comes,
    /// Deletions for a hostname that also gets additions: they go once those are there, and not if those were refused.
    GivesWay,
}

impl<'a> Execution<'a> {
    /// Writes the pieces that were never in doubt, then those in doubt, in groups of improving size.
    pub(super) fn narrow_down(&mut self, step: Step<'a>, pieces: Vec<Piece<'a>>) -> Result<(), Stop> {
        let group_of = |piece: &Piece<'a>| self.done.doubts.get(&key(&piece.content())).copied();
        let (doubtful, others): (Vec<Piece<'a>>, Vec<Piece<'a>>) =
            pieces.into_iter().partition(|piece| group_of(piece).is_some());
        // Pieces to be tried alone say nothing about the best group size for the others. A hostname stays together,
        // because its deletions wait for its additions.
        let stood_alone = doubtful.iter().filter(|piece| group_of(piece) == Some(1));
        let stood_alone: BTreeSet<&str> = inserted(stood_alone.map(|piece| piece.hostname));
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
        queue.sort_by_key(turn);
        let mut cause = None;
        let mut pages = Pages::default();
        while let Some(present) = queue.first().map(turn) {
            if present == Turn::GivesWay {
                queue.retain(|piece| !self.done.dropped.contains(piece.hostname));
            }
            let alike = queue.iter().take_while(|piece| turn(piece) == present).count();
            if alike == 0 {
                break;
            }
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

    /// True if there are calls and time left to isolate bad pieces. The calls are shared by everybody, and the pieces
    /// found good have further steps to take.
    fn may_narrow(&self, step: Step<'a>) -> bool {
        let hosts = self.aside.keys().filter(|hostname| !self.done.dropped.contains(**hostname));
        let steps = hosts.filter_map(|hostname| self.plan.host(hostname)).flat_map(steps);
        let later: BTreeSet<Step<'a>> = inserted(steps.map(|(later, _)| later).filter(|later| *later > step));
        let reserve = limits::STEP_MINIMUM * u32::try_from(later.len()).unwrap_or(u32::MAX);
        let reserve = reserve.min(self.narrowing_time / 2);
        self.calls < NARROWING_CALLS_MAX
            && self.tools.client.calls_left() >= NARROWING_CALLS_LEFT_MIN
            && self.time_left() >= limits::STEP_MINIMUM + reserve
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
