//! The log of this process, kept for tests that look for lines of their own: they run side by side.

use std::sync::{Mutex, Once, PoisonError};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Recorder;

impl log::Log for Recorder {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}", record.level(), record.args());
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn flush(&self) {}
}

/// Keeps every line from now on.
pub fn record_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Recorder).expect("nobody else logs in this process");
        log::set_max_level(log::LevelFilter::Debug);
    });
}

/// The lines kept so far that hold `words`, every one of them, whichever test made them.
pub fn lines_with(words: &[&str]) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).cloned().collect()
}
