//! Holds log lines on their way to stderr. One thread writes; lines that it cannot write in time are dropped and
//! counted.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use log::Level;

use crate::clock::{Clock as _, SystemClock};
use crate::limits::{LOG_MESSAGE_MAX_CHARS, LOG_WAIT_MAX};
use crate::locks::{lock, wait, wait_while};
use crate::model::LogLine;

/// The size of all waiting lines together, about a thousand lines.
const LOG_QUEUE_MAX_BYTES: usize = 256 * 1024;

/// A line before it is formatted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) level: Level,
    pub(super) target: Box<str>,
    pub(super) line: LogLine,
}

/// The waiting lines, in their order.
pub(super) struct Queue {
    state: Mutex<State>,
    /// A line was queued.
    filled: Condvar,
    /// A line was taken, or everything is written.
    taken: Condvar,
}

struct State {
    lines: VecDeque<Entry>,
    bytes: usize,
    /// The writer is writing a line.
    is_writing: bool,
    /// The remaining time to wait for room. It is reset once everything is written.
    patience: Duration,
    /// Dropped lines not reported yet. While there are any, new lines are dropped too, so that there is one gap and the
    /// line at its end reports all of it.
    unreported: i64,
    /// All lines ever dropped.
    lost: i64,
}

impl Entry {
    pub(super) fn new(level: Level, target: &str, line: LogLine) -> Self {
        Self { level, target: target.into(), line: line.cut(LOG_MESSAGE_MAX_CHARS) }
    }

    /// Its approximate size in memory.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.target.len() + self.line.memory_bytes()
    }
}

impl Queue {
    pub(super) const fn new() -> Self {
        let state = State {
            lines: VecDeque::new(),
            bytes: 0,
            is_writing: false,
            patience: LOG_WAIT_MAX,
            unreported: 0,
            lost: 0,
        };
        Self { state: Mutex::new(state), filled: Condvar::new(), taken: Condvar::new() }
    }

    /// Queues a line as soon as there is room, or drops it once `LOG_WAIT_MAX` is used up.
    pub(super) fn push(&self, entry: Entry) {
        let bytes = entry.bytes();
        let is_full = |state: &State| state.bytes + bytes > LOG_QUEUE_MAX_BYTES;
        let mut state = self.lock();
        if state.unreported == 0 && is_full(&state) {
            let (begun, patience) = (SystemClock.now(), state.patience);
            state = wait_while(&self.taken, state, patience, |state| is_full(state));
            // Threads that wait at the same time share the time that they use up.
            state.patience = state.patience.min(patience.saturating_sub(SystemClock.now() - begun));
        }
        if state.unreported > 0 || is_full(&state) {
            state.unreported += 1;
            state.lost += 1;
            return;
        }
        state.bytes += bytes;
        state.lines.push_back(entry);
        drop(state);
        self.filled.notify_one();
    }

    pub(super) fn lost(&self) -> i64 {
        self.lock().lost
    }

    /// Hands over one line after the other, forever.
    pub(super) fn drain(&self, mut write: impl FnMut(&Entry)) -> ! {
        loop {
            write(&self.next());
        }
    }

    /// Waits until all lines are written, for at most `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        drop(wait_while(&self.taken, self.lock(), limit, |state| !state.is_idle()));
    }

    fn next(&self) -> Entry {
        let mut state = self.lock();
        state.is_writing = false;
        loop {
            let taken = state.take();
            state.is_writing = taken.is_some();
            self.taken.notify_all();
            if let Some(entry) = taken {
                return entry;
            }
            state.patience = LOG_WAIT_MAX;
            state = wait(&self.filled, state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// The next line to write. The report of a gap comes after all lines queued before the gap.
    fn take(&mut self) -> Option<Entry> {
        if let Some(entry) = self.lines.pop_front() {
            self.bytes -= entry.bytes();
            return Some(entry);
        }
        let unreported = mem::take(&mut self.unreported);
        (unreported > 0).then(|| {
            let line = LogLine::default().word("lost", &unreported);
            let text = "log lines were lost here, because stderr did not take them";
            Entry::new(Level::Warn, module_path!(), line.text(text))
        })
    }

    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.unreported == 0 && !self.is_writing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Entry {
        Entry::new(Level::Info, "here", LogLine::default().text(text))
    }

    /// The lines that the writer would write now.
    fn written(queue: &Queue) -> Vec<String> {
        let mut state = queue.lock();
        std::iter::from_fn(|| state.take()).map(|entry| entry.line.to_string()).collect()
    }

    /// A queue with lines that leave no room for another one of them, and their number.
    fn full() -> (Queue, usize) {
        let queue = Queue::new();
        let fit = LOG_QUEUE_MAX_BYTES / long().bytes();
        for _ in 0..fit {
            queue.push(long());
        }
        (queue, fit)
    }

    fn long() -> Entry {
        line(&"x".repeat(LOG_MESSAGE_MAX_CHARS))
    }

    #[test]
    fn a_full_queue_that_nothing_takes_from_drops_what_comes_and_says_how_much_once_it_is_empty() {
        let (queue, fit) = full();
        queue.lock().patience = Duration::from_millis(1);
        for _ in 0..3 {
            queue.push(long());
        }
        // It would fit, but it would stand before the lines that were lost.
        queue.push(line("short"));
        assert_eq!((queue.lost(), queue.lock().patience), (4, Duration::ZERO));
        let lines = written(&queue);
        assert_eq!(lines.len(), fit + 1);
        assert!(lines[fit].ends_with(" lost=4"), "{}", lines[fit]);

        queue.push(line("afterwards"));
        assert_eq!(written(&queue), ["afterwards"]);
        assert_eq!(queue.lost(), 4, "a counter never falls");
        assert_eq!(queue.lock().bytes, 0);
    }

    #[test]
    fn nothing_is_dropped_while_lines_are_taken() {
        let (queue, fit) = full();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..fit).for_each(|_| queue.push(long())));
            for _ in 0..2 * fit {
                assert_eq!(queue.next(), long());
            }
        });
        assert_eq!((queue.lost(), queue.lock().bytes), (0, 0));
    }

    #[test]
    fn a_flush_waits_for_the_line_in_hand_and_not_for_ever() {
        let queue = Queue::new();
        queue.flush(Duration::from_secs(60));
        queue.push(line("first"));
        assert_eq!(queue.next().line.to_string(), "first");
        assert!(!queue.lock().is_idle(), "it is not written yet");
        queue.flush(Duration::from_millis(1));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| queue.next());
            queue.flush(Duration::from_secs(60));
            assert!(queue.lock().is_idle());
            queue.push(line("second"));
            assert_eq!(writer.join().expect("it only waits").line.to_string(), "second");
        });
    }
}
