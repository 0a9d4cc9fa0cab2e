//! Ends the process: on SIGTERM or SIGINT, or because a part of it cannot continue.
//!
//! The main thread waits in [`Signals::wait`]. A part that cannot continue reports so through [`Shutdown`], which wakes
//! the main thread; main then stops the servers and returns the exit code.

use std::fmt;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator;

use crate::locks::lock;

/// Lets SIGTERM and SIGINT end the process at once, which process 1 of a container would ignore.
pub fn end_on_signals() -> io::Result<()> {
    [SIGTERM, SIGINT].into_iter().try_for_each(|signal| {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::new(AtomicBool::new(true))).map(drop)
    })
}

/// The reason why the process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The signal with this number asked for it.
    Signal(i32),
    /// A part of the program cannot continue; the text is for the operator.
    Failure(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(SIGTERM) => formatter.write_str("SIGTERM"),
            Self::Signal(SIGINT) => formatter.write_str("SIGINT"),
            Self::Signal(number) => write!(formatter, "signal {number}"),
            Self::Failure(reason) => formatter.write_str(reason),
        }
    }
}

/// The signals that end the process, caught from the moment this exists.
#[derive(Debug)]
pub struct Signals {
    signals: iterator::Signals,
    shutdown: Shutdown,
}

impl Signals {
    /// Takes over SIGTERM and SIGINT, which would otherwise have no effect on process 1 of a container.
    ///
    /// The first signal ends [`wait`](Self::wait). A second one ends the process at once, with the exit code that a
    /// shell gives for that signal.
    pub fn install() -> io::Result<Self> {
        let seen = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // The order matters: the second action sets the flag that the first one reads.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&seen))?;
            flag::register(signal, Arc::clone(&seen))?;
        }
        let signals = iterator::Signals::new([SIGTERM, SIGINT])?;
        let shutdown =
            Shutdown { shared: Arc::new(Shared { waker: Some(signals.handle()), ..Shared::default() }) };
        Ok(Self { signals, shutdown })
    }

    /// A handle by which other threads can end the process.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Waits for a signal or a failure, whichever comes first.
    pub fn wait(mut self) -> Cause {
        let signal = self.signals.forever().next();
        if let Some(reason) = self.shutdown.failure() {
            return Cause::Failure(reason);
        }
        // The iterator only ends without a signal if `fail` closed it, which leaves a reason.
        Cause::Signal(signal.unwrap_or(SIGTERM))
    }
}

/// Lets a part of the program report that it cannot continue. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    failure: Mutex<Option<String>>,
    waker: Option<iterator::Handle>,
}

impl Shutdown {
    /// Ends the process for `reason`. Only the first reason counts.
    pub fn fail(&self, reason: impl Into<String>) {
        lock(&self.shared.failure).get_or_insert_with(|| reason.into());
        if let Some(waker) = &self.shared.waker {
            waker.close();
        }
    }

    /// The reason why the process has to end, if there is one.
    pub fn failure(&self) -> Option<String> {
        lock(&self.shared.failure).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_wakes_the_thread_that_waits_for_signals_and_the_first_reason_stays() {
        let signals = Signals::install().expect("handlers can be installed in a test");
        let shutdown = signals.shutdown();
        assert_eq!(shutdown.failure(), None);
        let failing = std::thread::spawn(move || {
            shutdown.fail("the listener is gone");
            shutdown.fail("something else");
        });
        assert_eq!(signals.wait(), Cause::Failure("the listener is gone".to_owned()));
        failing.join().expect("the thread only reports");
    }

    #[test]
    fn a_cause_names_its_signal() {
        for (cause, text) in [
            (Cause::Signal(SIGTERM), "SIGTERM"),
            (Cause::Signal(SIGINT), "SIGINT"),
            (Cause::Signal(10), "signal 10"),
            (Cause::Failure("no more descriptors".to_owned()), "no more descriptors"),
        ] {
            assert_eq!(cause.to_string(), text);
        }
    }
}
