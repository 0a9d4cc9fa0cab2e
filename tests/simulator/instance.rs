//! The program as one process of it, with its own time of waiting.

use std::sync::Arc;

use test_support::harness::{Harness, Program};

use crate::clock::SimulatedClock;

/// A running program. Dropped, it is a process that was killed: nothing is finished, nothing is remembered.
pub(crate) struct Instance {
    clock: Arc<SimulatedClock>,
    program: Option<Program>,
}

impl Instance {
    /// Starts one, and waits until it has looked at its token and tunnels.
    pub(crate) fn start(harness: &Harness, variables: &[(&'static str, String)]) -> Self {
        let variables: Vec<(&'static str, &str)> =
            variables.iter().map(|(name, value)| (*name, &**value)).collect();
        let mut config = harness.config(&variables);
        // What would differ between two runs.
        config.client.jitter_seed = Some(1);
        config.provider.parallel_reads = 1;
        let clock = Arc::new(SimulatedClock::of(harness.cloudflare.time()));
        let program = harness.start_configured(Arc::clone(&clock) as _, config);
        clock.await_watch();
        Self { clock, program: Some(program) }
    }

    pub(crate) fn program(&self) -> &Program {
        self.program.as_ref().expect("it runs until it is dropped")
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
