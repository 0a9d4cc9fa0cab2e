//! Ends the process: on SIGTERM or SIGINT, or because a part of it cannot continue.
//!
//! The main thread waits in [`Signals::wait`]. A part that cannot continue reports so through [`Shutdown`], which wakes
//! the main thread; main then stops the servers and returns the exit code.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator;

/// Lets SIGTERM and SIGINT end the process at once. Without a handler, process 1 of a container ignores them.
pub fn end_on_signals() -> io::Result<()> {
    [SIGTERM, SIGINT].into_iter().try_for_each(|signal| {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::new(AtomicBool::new(true))).map(drop)
    })
}

/// The signals that end the process. They are caught as soon as this value exists.
#[derive(Debug)]
pub struct Signals {
    signals: iterator::Signals,
    /// A handle by which other threads can end the process.
    pub shutdown: Shutdown,
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
        let shutdown = Shutdown { failure: Arc::default(), waker: Some(signals.handle()) };
        Ok(Self { signals, shutdown })
    }

    /// Waits for a signal or a failure, whichever comes first. Returns the signal's name.
    ///
    /// # Errors
    /// The reason of a failure, for the operator.
    pub fn wait(mut self) -> Result<&'static str, String> {
        let signal = self.signals.forever().next();
        match self.shutdown.failure() {
            Some(reason) => Err(reason),
            None if signal == Some(SIGINT) => Ok("SIGINT"),
            None => Ok("SIGTERM"),
        }
    }
}

/// Lets a part of the program report that it cannot continue. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    failure: Arc<OnceLock<String>>,
    waker: Option<iterator::Handle>,
}

impl Shutdown {
    /// Ends the process for `reason`. Only the first reason counts.
    pub fn fail(&self, reason: impl Into<String>) {
        self.failure.get_or_init(|| reason.into());
        if let Some(waker) = &self.waker {
            waker.close();
        }
    }

    /// The reason why the process has to end, if there is one.
    pub fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_wakes_the_thread_that_waits_for_signals_and_the_first_reason_stays() {
        let signals = Signals::install().expect("handlers can be installed in a test");
        let shutdown = signals.shutdown.clone();
        assert_eq!(shutdown.failure(), None);
        let failing = std::thread::spawn(move || {
            shutdown.fail("the listener is gone");
            shutdown.fail("something else");
        });
        assert_eq!(signals.wait(), Err("the listener is gone".to_owned()));
        failing.join().expect("the thread only reports");
    }
}
