//! The program as one process of it, with its own time of waiting.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::Call;
use test_support::harness::{Harness, Program};

use crate::clock::SimulatedClock;
use crate::invariants::Violation;

/// A running program. Dropped, it is a process that was killed: nothing is finished, nothing is remembered.
pub(crate) struct Instance {
    /// The number by which the emulator knows what it told this client.
    pub(crate) client: u64,
    clock: Arc<SimulatedClock>,
    program: Option<Program>,
    /// Cloudflare told it to make no call before this time.
    limited_until: Duration,
}

impl Instance {
    /// Starts one, and waits until it has looked at its token and tunnels.
    pub(crate) fn start(harness: &Harness, client: u64, variables: &[(&'static str, String)]) -> Self {
        harness.cloudflare.call_as(client);
        let variables: Vec<(&'static str, &str)> =
            variables.iter().map(|(name, value)| (*name, &**value)).collect();
        let mut config = harness.config(&variables);
        // What would differ between two runs.
        config.provider.parallel_calls = 1;
        let clock = Arc::new(SimulatedClock::of(harness.cloudflare.time()));
        let program = harness.start_configured(Arc::clone(&clock) as _, config);
        clock.await_watch();
        Self { client, clock, program: Some(program), limited_until: Duration::ZERO }
    }

    pub(crate) fn program(&self) -> &Program {
        self.program.as_ref().expect("it runs until it is dropped")
    }

    /// Takes note of the calls that it made. None comes before the end of the time for which one was answered 429.
    pub(crate) fn note_calls(&mut self, calls: &[Call]) -> Result<(), Violation> {
        for call in calls {
            if call.at < self.limited_until {
                let (at, until) = (call.at, self.limited_until);
                let text = format!("{} at {at:?}, though none may come before {until:?}", call.line());
                return Err(Violation::new("limit", text));
            }
            self.limited_until = self.limited_until.max(call.limited_until.unwrap_or_default());
        }
        Ok(())
    }

    /// Lets its watch over tunnels work if its time has come.
    pub(crate) fn run_watch(&self) {
        self.clock.run_watch();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.program.take());
        self.clock.end();
    }
}
