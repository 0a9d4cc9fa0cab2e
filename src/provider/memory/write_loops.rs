//! Detects loops of writes: a write that is asked for again because its effect is gone at every next reading. Either
//! Cloudflare does not keep what was sent, or another program changes it back. Every written configuration makes every
//! replica of `cloudflared` reload, so the third write waits.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::limits;
use crate::provider::writes::Write;

/// The number of times that the same write is done in a row against the same state. The next one is held back as if it
/// had been refused.
const REPEATED_WRITES_MAX: u32 = 2;

/// Two writes this many loops apart still count as in a row: in between the state was as wanted, and somebody changed
/// it back.
const REPEATED_WRITES_APART_MAX: u32 = 3;

/// The writes of the last loops.
#[derive(Debug, Default)]
pub(crate) struct WriteLoops {
    /// The number of the loop. A loop begins with a reading, or with an apply that no reading preceded.
    turn: u32,
    is_turn_used: bool,
    last: HashMap<u64, Last>,
}

/// The last write at one place.
#[derive(Debug)]
struct Last {
    wanted: u64,
    found: u64,
    /// The number of times that it was written in a row.
    times: u32,
    /// The loop in which it was last asked for.
    turn: u32,
    /// The start and the length of the pause in which it is not written.
    held: Option<(Instant, Duration)>,
}

impl WriteLoops {
    /// True if nothing was written in the last loops.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// A new loop begins.
    pub(crate) fn begin_turn(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        self.is_turn_used = false;
    }

    /// True if the write must not be done now.
    pub(crate) fn holds(&mut self, write: Write, now: Instant) -> bool {
        let turn = self.turn;
        let Some(last) = self.last.get_mut(&write.place).filter(|last| last.is_repeated(write, turn)) else {
            return false;
        };
        let held = last.held.is_some_and(|(since, pause)| now.saturating_duration_since(since) < pause);
        if held {
            last.turn = turn;
        }
        held
    }

    /// The writes were done.
    pub(crate) fn written(&mut self, writes: &[Write], now: Instant) {
        if self.is_turn_used {
            self.begin_turn();
        }
        self.is_turn_used = true;
        for write in writes {
            let repeated = self.last.get(&write.place).filter(|last| last.is_repeated(*write, self.turn));
            let times = repeated.map_or(1, |last| last.times.saturating_add(1));
            let pause = repeated.and_then(|last| last.held).map(|(_, pause)| pause);
            self.note(*write, times, pause, now);
        }
        let turn = self.turn;
        self.last.retain(|_, last| last.is_recent(turn));
    }

    /// Cloudflare accepted the write but answered that it stored something else, which is in `write.found`.
    pub(crate) fn stored_otherwise(&mut self, write: Write, now: Instant) {
        let held = self.last.get(&write.place).filter(|last| last.is_repeated(write, self.turn));
        let pause = held.and_then(|last| last.held).map(|(_, pause)| pause);
        self.note(write, REPEATED_WRITES_MAX, pause, now);
    }

    fn note(
        &mut self,
        Write { place, wanted, found }: Write,
        times: u32,
        pause: Option<Duration>,
        now: Instant,
    ) {
        let held = (times >= REPEATED_WRITES_MAX).then(|| {
            let pause = pause.map_or(limits::REJECTION_PAUSE_MIN, |earlier| earlier * 2);
            (now, pause.min(limits::REJECTION_PAUSE_MAX))
        });
        self.last.insert(place, Last { wanted, found, times, turn: self.turn, held });
    }
}

impl Last {
    /// True if `write` is the same again within a few loops.
    fn is_repeated(&self, write: Write, turn: u32) -> bool {
        (self.wanted, self.found) == (write.wanted, write.found) && self.is_recent(turn)
    }

    fn is_recent(&self, turn: u32) -> bool {
        turn.wrapping_sub(self.turn) <= REPEATED_WRITES_APART_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::memory::year;

    const WRITE: Write = Write { place: 1, wanted: 2, found: 3 };
    const WITHDRAWAL: Write = Write { place: 1, wanted: 3, found: 2 };

    struct Loops {
        writes: WriteLoops,
        now: Instant,
    }

    impl Loops {
        #[allow(clippy::disallowed_methods, reason = "any instant will do")]
        fn new() -> Self {
            Self { writes: WriteLoops::default(), now: Instant::now() }
        }

        /// Runs one loop, a minute long. Returns true if the write was done.
        fn run(&mut self, write: Option<Write>) -> bool {
            self.now += Duration::from_secs(60);
            self.writes.begin_turn();
            let write = write.filter(|write| !self.writes.holds(*write, self.now));
            self.writes.written(write.as_slice(), self.now);
            write.is_some()
        }

        fn run_many(&mut self, write: Write, loops: usize) -> usize {
            (0..loops).filter(|_| self.run(Some(write))).count()
        }
    }

    #[test]
    fn the_third_same_write_in_a_row_is_held_back_and_tried_again_ever_less_often() {
        let mut loops = Loops::new();
        assert_eq!(loops.run_many(WRITE, 2), 2);
        assert_eq!(loops.run_many(WRITE, 9), 0, "ten minutes");
        assert_eq!(loops.run_many(WRITE, 1), 1);
        assert_eq!(loops.run_many(WRITE, 19), 0, "twenty");
        assert_eq!(loops.run_many(WRITE, 2 * 24 * 60), 49, "once an hour after forty minutes");
    }

    #[test]
    fn another_wish_or_another_state_is_written_at_once() {
        let mut loops = Loops::new();
        loops.run_many(WRITE, 5);
        assert!(loops.run(Some(Write { wanted: 9, ..WRITE })));
        loops.run_many(WRITE, 5);
        assert!(loops.run(Some(Write { found: 9, ..WRITE })));
        loops.run_many(WRITE, 5);
        assert!(loops.run(Some(Write { place: 9, ..WRITE })));
        assert!(!loops.run(Some(WRITE)), "which lets go of no other place");
    }

    #[test]
    fn publishing_withdrawing_and_publishing_again_is_no_loop() {
        let mut loops = Loops::new();
        for _ in 0..10 {
            assert!(loops.run(Some(WRITE)));
            assert!(loops.run(Some(WITHDRAWAL)));
        }
    }

    #[test]
    fn what_was_kept_for_some_loops_is_written_again() {
        let mut loops = Loops::new();
        for _ in 0..10 {
            assert!(loops.run(Some(WRITE)));
            for _ in 0..REPEATED_WRITES_APART_MAX {
                loops.run(None);
            }
        }
        assert!(loops.writes.last.len() <= 1);
        loops.run(None);
        assert!(loops.writes.last.is_empty(), "and forgotten");
    }

    #[test]
    fn a_write_fought_over_every_other_loop_is_a_loop_all_the_same() {
        let mut loops = Loops::new();
        let mut done = 0;
        for _ in 0..4 {
            done += usize::from(loops.run(Some(WRITE)));
            loops.run(None);
        }
        assert_eq!(done, 2);
    }

    /// The numbers are said here and not taken from the constants, which would move with them.
    #[test]
    fn a_write_undone_after_two_quiet_loops_is_fought_over_and_after_three_it_is_not() {
        for (quiet, expected) in [(0, 2), (1, 2), (2, 2), (3, 4), (10, 4)] {
            let mut loops = Loops::new();
            let mut done = 0;
            for _ in 0..4 {
                done += usize::from(loops.run(Some(WRITE)));
                (0..quiet).for_each(|_| assert!(!loops.run(None)));
            }
            assert_eq!(done, expected, "{quiet} loops in between");
        }
    }

    #[test]
    fn what_is_stored_otherwise_is_held_back_at_once() {
        let mut loops = Loops::new();
        loops.writes.stored_otherwise(WRITE, loops.now);
        assert_eq!(loops.run_many(WRITE, 9), 0);
        assert_eq!(loops.run_many(WRITE, 1), 1);
    }

    #[test]
    fn without_readings_every_apply_is_a_loop() {
        let mut loops = Loops::new();
        for _ in 0..REPEATED_WRITES_MAX {
            assert!(!loops.writes.holds(WRITE, loops.now));
            loops.writes.written(&[WRITE], loops.now);
        }
        assert!(loops.writes.holds(WRITE, loops.now));
    }

    #[test]
    fn a_year_of_other_writes_in_every_loop_leaves_those_of_the_last_ones() {
        let mut writes = WriteLoops::default();
        for (number, now) in year::loops() {
            writes.begin_turn();
            let write = Write { place: number, ..WRITE };
            assert!(!writes.holds(write, now));
            writes.written(&[write], now);
            writes.stored_otherwise(write, now);
            assert!(writes.last.len() <= 1 + REPEATED_WRITES_APART_MAX as usize);
        }
    }
}
