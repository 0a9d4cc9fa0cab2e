//! Sends the pieces of one step. A group that is refused is sent in halves, until the bad pieces stand alone.

use std::cmp::Ordering;
use std::time::Duration;

use super::work::{Piece, Place, fitting};
use super::{Execution, Sent, Step, in_between};
use crate::cloudflare::{ApiRejection, Error};
use crate::ingress::RuleEdit;
use crate::limits;
use crate::ordered::sort_by;
use crate::reconcile::plan::Reason;

/// The writes of a request that look for the bad pieces of a refused group. A write of a document is preceded by a read,
/// and five loops in five minutes must not use more than half of `RATE_CALLS`.
const HALVING_WRITES_MAX: usize = 48;

/// Pages in a row, each in place of the answer to a single piece, after which the rest of the place waits: the content
/// is not the cause.
const PAGES_MAX: usize = 2;

/// Pieces that are sent together: those of one hostname, or each for itself once the hostname was refused alone.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    pub(super) pieces: Vec<Piece<'a>>,
    /// A piece of it failed alone before, so the unit is sent alone and after all others.
    pub(super) is_suspect: bool,
}

/// The rest of a step.
struct Rest<'a> {
    step: Step<'a>,
    queue: Vec<Unit<'a>>,
    /// The number of hostnames to send together next; 0 for single pieces.
    group: usize,
    /// The time that was left when the look for bad pieces began.
    time: Option<Duration>,
    /// The pages in a row that came in place of the answer to a single piece.
    pages: usize,
}

impl<'a> Unit<'a> {
    /// Each piece for itself.
    fn apart(mut self) -> impl Iterator<Item = Self> {
        sort_by(&mut self.pieces, in_turn);
        self.pieces.into_iter().map(move |piece| Self { pieces: vec![piece], is_suspect: self.is_suspect })
    }
}

impl<'a> Execution<'a> {
    /// Writes all pieces with as few calls as possible. The next group is half as large after a refusal, and twice as
    /// large after a success. Each request sends at least one group, which has half the size in the next request if it
    /// is refused, so each loop decides something.
    pub(super) fn write_all(&mut self, step: Step<'a>, pieces: &[Piece<'a>]) -> Result<(), Error> {
        let mut rest = self.rest_of(step, pieces);
        while !rest.queue.is_empty() {
            let group = self.next_group(&mut rest);
            let sent: Vec<Piece<'a>> = pieces_of(&group);
            self.halving_writes += usize::from(rest.time.is_some());
            match self.send(step, &sent)? {
                Sent::Done => {
                    rest.pages = 0;
                    let doubled = rest.group.saturating_mul(2).max(1);
                    self.set_group(&mut rest, doubled);
                }
                Sent::Refused(answer) => self.divide(&mut rest, group, &answer),
                Sent::Barred(reason) => {
                    self.leave_out_all(&sent, &reason);
                    self.leave_out_rest(&mut rest, &reason);
                }
            }
            if rest.time.is_some_and(|time| !self.may_halve(time)) {
                self.leave_out_rest(&mut rest, &undecided());
            }
        }
        Ok(())
    }

    fn rest_of(&self, step: Step<'a>, pieces: &[Piece<'a>]) -> Rest<'a> {
        let memory = &*self.waiting_work;
        let group = memory.group(step.1.key());
        let mut units: Vec<Unit<'a>> = Vec::new();
        for pieces in pieces.chunk_by(|one, other| one.hostname == other.hostname) {
            let is_suspect = pieces.iter().any(|piece| memory.has_failed(piece.content()));
            let unit = Unit { pieces: pieces.to_vec(), is_suspect };
            if group == Some(0) || is_suspect { units.extend(unit.apart()) } else { units.push(unit) }
        }
        let (suspects, mut queue): (Vec<Unit<'a>>, Vec<Unit<'a>>) =
            units.into_iter().partition(|unit| unit.is_suspect);
        let time = (group.is_some() || !suspects.is_empty()).then(|| self.time_left());
        queue.extend(suspects);
        Rest { step, queue, group: group.unwrap_or(usize::MAX), time, pages: 0 }
    }

    fn next_group(&self, rest: &mut Rest<'a>) -> Vec<Unit<'a>> {
        let alike = rest.queue.iter().take_while(|unit| !unit.is_suspect).count().max(1);
        let length = alike.min(rest.group.max(1));
        let length = match rest.step.1 {
            Place::Tunnel(_) => length,
            Place::Zone(zone) => fitting(rest.queue.iter().take(length), self.batch_limit(zone)),
        };
        rest.queue.drain(..length).collect()
    }

    /// Puts back what is left of a refused group, to be sent in smaller ones.
    fn divide(&mut self, rest: &mut Rest<'a>, mut group: Vec<Unit<'a>>, answer: &ApiRejection) {
        rest.time = rest.time.or_else(|| Some(self.time_left()));
        if answer.is_of_cloudflare() {
            rest.pages = 0;
        }
        group.retain_mut(|unit| self.goes_on(unit));
        match &*group {
            [unit] => match *unit.pieces {
                [piece] => self.reject_alone(rest, piece, answer),
                _ => {
                    group = group.into_iter().flat_map(Unit::apart).collect();
                    self.set_group(rest, 0);
                }
            },
            _ => self.set_group(rest, group.len() / 2),
        }
        rest.queue.splice(..0, group);
        rest.queue.retain_mut(|unit| self.goes_on(unit));
    }

    fn reject_alone(&mut self, rest: &mut Rest<'a>, piece: Piece<'a>, answer: &ApiRejection) {
        self.reject_all(rest.step, &[piece], answer);
        if !answer.is_of_cloudflare() {
            rest.pages += 1;
            // The next request begins with the others, because they may be let through.
            let now = self.writer.clock.now();
            self.waiting_work.leave_unanswered(piece.content(), now);
            if rest.pages == PAGES_MAX {
                self.leave_out_rest(rest, &in_between(answer.clone()));
            }
        }
    }

    /// Takes off what is not to be written any more because its hostname was left out.
    fn goes_on(&self, unit: &mut Unit<'a>) -> bool {
        unit.pieces.retain(|piece| !self.done.dropped.contains(piece.hostname));
        !unit.pieces.is_empty()
    }

    /// Sets the size of the next group, also for the next request if this one does not decide all.
    fn set_group(&mut self, rest: &mut Rest<'a>, group: usize) {
        rest.group = group;
        if rest.time.is_some() {
            let now = self.writer.clock.now();
            self.waiting_work.set_group(rest.step.1.key(), rest.group, now);
        }
    }

    fn leave_out_rest(&mut self, rest: &mut Rest<'a>, reason: &Reason) {
        if !rest.queue.is_empty() {
            self.leave_out_all(&pieces_of(&rest.queue), reason);
            self.places.insert(rest.step.1, false);
            rest.queue.clear();
        }
    }

    fn may_halve(&self, time: Duration) -> bool {
        may_halve(self.halving_writes, self.writer.client.calls_left(), time, self.time_left())
    }
}

/// True if another group may be sent, of which `writes` were since there was `time`. The calls are shared by everybody,
/// and the later steps need time.
fn may_halve(writes: usize, calls_left: u32, time: Duration, time_left: Duration) -> bool {
    writes < HALVING_WRITES_MAX
        && calls_left >= limits::SHARED_CALLS_LEFT_MIN
        && time_left >= limits::STEP_MINIMUM.max(time / 2)
}

fn pieces_of<'a>(units: &[Unit<'a>]) -> Vec<Piece<'a>> {
    units.iter().flat_map(|unit| &unit.pieces).copied().collect()
}

fn undecided() -> Reason {
    Reason::Undecided(
        "it may be what was refused together with others, and there is no time and there are no calls left to find out \
         what it was: the next loops go on"
            .to_owned(),
    )
}

/// The order of one hostname's pieces. A wider rule would get the requests of a narrower one that is refused after it or
/// goes before it, and deletions wait for additions.
fn in_turn(one: &Piece<'_>, other: &Piece<'_>) -> Ordering {
    let (Some(one), Some(other)) = (one.edit(), other.edit()) else {
        return Ordering::Equal;
    };
    let goes = |edit: &RuleEdit| matches!(edit, RuleEdit::Remove { .. });
    let narrower_first = one.in_order_of_list(other);
    let in_turn = if goes(one) { narrower_first.reverse() } else { narrower_first };
    goes(one).cmp(&goes(other)).then(in_turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{put, tunnel};
    use crate::ingress::PathPattern;
    use crate::model::Hostname;
    use crate::provider::execution::work::Work;

    #[test]
    fn groups_are_sent_while_there_are_calls_for_everybody_and_half_of_the_time() {
        let seconds = Duration::from_secs_f64;
        for (label, writes, calls_left, time, time_left, expected) in [
            ("just enough of everything", 47, 400, 9.0, 4.5, true),
            ("one write too many", 48, 400, 9.0, 4.5, false),
            ("others need the calls", 47, 399, 9.0, 4.5, false),
            ("half of the time is gone", 47, 400, 9.1, 4.5, false),
            ("a write has time", 47, 400, 2.0, 1.5, true),
            ("a write has no time", 47, 400, 2.0, 1.499, false),
        ] {
            let may = may_halve(writes, calls_left, seconds(time), seconds(time_left));
            assert_eq!(may, expected, "{label}");
        }
    }

    #[test]
    fn the_pieces_of_one_hostname_are_sent_from_narrow_to_wide_and_deletions_last() {
        let (tunnel, name) = (tunnel(), "a.example.com");
        let hostname = Hostname::parse(name).expect("a hostname");
        let remove = |path: Option<&str>| {
            let path = path.map(Into::into);
            RuleEdit::Remove { hostname: hostname.clone(), path }
        };
        let with_path = |path: &str| match put(name, "http://a:80") {
            RuleEdit::Put { mut rule, replaces } => {
                rule.path = Some(PathPattern::parse(path).expect("a path"));
                RuleEdit::Put { rule, replaces }
            }
            edit => edit,
        };
        let edits = [remove(Some("^/x")), put(name, "http://a:80"), remove(None), with_path("^/y")];
        let mut pieces: Vec<Piece<'_>> =
            edits.iter().map(|edit| Piece { hostname: name, work: Work::Edit(&tunnel, edit) }).collect();
        pieces.sort_by(in_turn);
        let sent: Vec<&RuleEdit> = pieces.iter().filter_map(Piece::edit).collect();
        assert_eq!(sent, [&edits[3], &edits[1], &edits[2], &edits[0]]);
    }
}
