//! The log of each program that runs in the process of the tests, apart from the logs of the other ones.
//!
//! The crate `log` has one logger for a process. A thread of the program serves that program alone, and reads the clock
//! it was given before it says anything; so each program gets a clock that marks the threads which read it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use external_dns_cloudflare_tunnel_webhook::clock::{Clock, SystemClock};
use external_dns_cloudflare_tunnel_webhook::logging;

thread_local! {
    static LOG_OF_THREAD: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// The lines of one test's programs.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// The lines so far that hold all of `words`.
    pub fn lines_with(&self, words: &[&str]) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).cloned().collect()
    }

    /// Forgets the lines so far.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// `clock`, for a program whose lines are kept here.
    pub fn marking(&self, clock: Arc<dyn Clock>) -> Arc<dyn Clock> {
        Arc::new(MarkingClock { clock, log: self.clone() })
    }

    /// What this thread says from now on is kept here.
    pub(crate) fn take_thread(&self) {
        static RECORDER: Once = Once::new();
        RECORDER.call_once(|| {
            // The demo has the logger of the program, which prints.
            if log::set_logger(&Recorder).is_ok() {
                log::set_max_level(log::LevelFilter::Debug);
            }
        });
        LOG_OF_THREAD.set(Some(self.clone()));
    }
}

struct Recorder;

impl log::Log for Recorder {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}", record.level(), logging::line_of(record));
        LOG_OF_THREAD.with_borrow(|log| match log {
            Some(Log(lines)) => lines.lock().unwrap_or_else(PoisonError::into_inner).push(line),
            // Its accept thread knows no clock. Of any other line no test could tell whether it was said.
            None => assert_eq!(record.target(), "tiny_http", "a line of no program: {line}"),
        });
    }

    fn flush(&self) {}
}

/// The system's clock, for a server whose lines no test looks at.
pub fn system_clock() -> Arc<dyn Clock> {
    Log::default().marking(Arc::new(SystemClock))
}

/// A clock that marks the threads that read it.
#[derive(Debug)]
struct MarkingClock {
    clock: Arc<dyn Clock>,
    log: Log,
}

impl Clock for MarkingClock {
    fn now(&self) -> Instant {
        self.log.take_thread();
        self.clock.now()
    }

    fn sleep(&self, duration: Duration) {
        self.log.take_thread();
        self.clock.sleep(duration);
    }

    fn unix_seconds(&self) -> i64 {
        self.log.take_thread();
        self.clock.unix_seconds()
    }
}
