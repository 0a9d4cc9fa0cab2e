//! Holds log lines on their way to stderr, so that nobody who logs waits for a slow reader. One thread writes; lines
//! that it cannot write in time are dropped and counted.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use log::Level;

use crate::locks::{lock, wait, wait_while};

/// The size of all waiting lines together. A burst of a thousand lines fits; lines beyond it are lost.
const LOG_QUEUE_MAX_BYTES: usize = 256 * 1024;

/// A line before it is formatted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) level: Level,
    pub(super) target: Box<str>,
    pub(super) message: Box<str>,
}

/// The waiting lines, in their order.
pub(super) struct Queue {
    state: Mutex<State>,
    /// A line came.
    filled: Condvar,
    /// Everything is written.
    emptied: Condvar,
}

struct State {
    lines: VecDeque<Line>,
    bytes: usize,
    /// The writer is writing a line.
    is_writing: bool,
    /// Dropped lines not reported yet. While there are any, new lines are dropped too, so that there is one gap and the
    /// line at its end reports all of it.
    untold: i64,
    /// All lines ever dropped.
    lost: i64,
}

impl Line {
    pub(super) fn new(level: Level, target: &str, message: &str) -> Self {
        Self { level, target: target.into(), message: message.into() }
    }

    /// Its approximate size in memory.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.target.len() + self.message.len()
    }
}

impl Queue {
    pub(super) const fn new() -> Self {
        let state = State { lines: VecDeque::new(), bytes: 0, is_writing: false, untold: 0, lost: 0 };
        Self { state: Mutex::new(state), filled: Condvar::new(), emptied: Condvar::new() }
    }

    /// Queues a line or drops it, without waiting for the writer.
    pub(super) fn push(&self, line: Line) {
        let mut state = self.lock();
        let bytes = state.bytes + line.bytes();
        if state.untold > 0 || bytes > LOG_QUEUE_MAX_BYTES {
            state.untold += 1;
            state.lost += 1;
            return;
        }
        state.bytes = bytes;
        state.lines.push_back(line);
        drop(state);
        self.filled.notify_one();
    }

    pub(super) fn lost(&self) -> i64 {
        self.lock().lost
    }

    /// Hands over one line after the other, forever.
    pub(super) fn drain(&self, mut write: impl FnMut(&Line)) -> ! {
        loop {
            write(&self.next());
        }
    }

    /// Waits until all lines are written, for at most `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        drop(wait_while(&self.emptied, self.lock(), limit, |state| !state.is_idle()));
    }

    fn next(&self) -> Line {
        let mut state = self.lock();
        state.is_writing = false;
        loop {
            if let Some(line) = state.take() {
                state.is_writing = true;
                return line;
            }
            self.emptied.notify_all();
            state = wait(&self.filled, state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// The next line to write. The report of a gap comes after all lines queued before the gap.
    fn take(&mut self) -> Option<Line> {
        if let Some(line) = self.lines.pop_front() {
            self.bytes -= line.bytes();
            return Some(line);
        }
        let untold = mem::take(&mut self.untold);
        (untold > 0).then(|| {
            let message = format!("log lost={untold} lines here, as nobody read them from stderr");
            Line::new(Level::Warn, module_path!(), &message)
        })
    }

    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.untold == 0 && !self.is_writing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    fn line(message: &str) -> Line {
        Line::new(Level::Info, "here", message)
    }

    /// The lines that the writer would write now.
    fn written(queue: &Queue) -> Vec<String> {
        let mut state = queue.lock();
        std::iter::from_fn(|| state.take()).map(|line| line.message.into_string()).collect()
    }

    #[test]
    fn a_full_queue_drops_what_comes_and_says_how_much_once_it_is_empty() {
        let queue = Queue::new();
        let long = "x".repeat(limits::LOG_MESSAGE_MAX_CHARS);
        let fit = LOG_QUEUE_MAX_BYTES / line(&long).bytes();
        for _ in 0..fit {
            queue.push(line(&long));
        }
        for _ in 0..3 {
            queue.push(line(&long));
        }
        // It would fit, but it would stand before the lines that were lost.
        queue.push(line("short"));
        assert_eq!(queue.lost(), 4);
        let lines = written(&queue);
        assert_eq!(lines.len(), fit + 1);
        assert!(lines[..fit].iter().all(|line| *line == long));
        assert!(lines[fit].contains("lost=4 "), "{}", lines[fit]);

        queue.push(line("afterwards"));
        assert_eq!(written(&queue), ["afterwards"]);
        assert_eq!(queue.lost(), 4, "a counter never falls");
        assert_eq!(queue.lock().bytes, 0);
    }

    #[test]
    fn a_flush_waits_for_the_line_in_hand_and_not_for_ever() {
        let queue = Queue::new();
        queue.flush(Duration::from_secs(60));
        queue.push(line("first"));
        assert_eq!(&*queue.next().message, "first");
        assert!(!queue.lock().is_idle(), "it is not written yet");
        queue.flush(Duration::from_millis(1));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| queue.next());
            queue.flush(Duration::from_secs(60));
            assert!(queue.lock().is_idle());
            queue.push(line("second"));
            assert_eq!(&*writer.join().expect("it only waits").message, "second");
        });
    }
}
