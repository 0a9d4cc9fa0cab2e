//! Log lines on their way to stderr. Whoever logs never waits for whoever reads: one thread writes, and what it cannot
//! write in time is dropped and counted.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use log::Level;

use crate::locks::{lock, wait, wait_while};

/// Log lines that wait for whoever reads stderr. A burst of a thousand lines fits; what does not fit is lost.
const LOG_QUEUE_MAX_BYTES: usize = 256 * 1024;

/// What a line says, in no format yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) level: Level,
    pub(super) target: Box<str>,
    pub(super) message: Box<str>,
}

/// The lines that wait, in their order.
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
    /// The writer has a line in hand.
    is_writing: bool,
    /// Lines that were dropped and not told of. While there are some, all that come are dropped too: one gap, of which
    /// the line at its end tells.
    untold: i64,
    /// All lines that were ever dropped.
    lost: i64,
}

impl Line {
    pub(super) fn new(level: Level, target: &str, message: &str) -> Self {
        Self { level, target: target.into(), message: message.into() }
    }

    /// What it takes of the memory, nearly.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.target.len() + self.message.len()
    }
}

impl Queue {
    pub(super) const fn new() -> Self {
        let state = State { lines: VecDeque::new(), bytes: 0, is_writing: false, untold: 0, lost: 0 };
        Self { state: Mutex::new(state), filled: Condvar::new(), emptied: Condvar::new() }
    }

    /// Queues a line, or drops it. Never waits for the writer.
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

    /// How many lines were dropped so far.
    pub(super) fn lost(&self) -> i64 {
        self.lock().lost
    }

    /// Hands over one line after the other, for ever.
    pub(super) fn drain(&self, mut write: impl FnMut(&Line)) -> ! {
        loop {
            write(&self.next());
        }
    }

    /// Waits until everything is written, `limit` at most.
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
    /// The next line to write. That of a gap comes behind all that were there before it.
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

    /// What the writer would write by now.
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
        // It would fit, and would stand before those that were lost.
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
