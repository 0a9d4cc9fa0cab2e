//! A clock that calls move: each of them takes its time at Cloudflare, and the test does not wait for it.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Emulator, Matcher};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::clock::ManualClock;
use test_support::external_dns::Changes;
use test_support::harness::{Harness, Program};

/// More calls of one kind than any request makes.
const CALLS_MAX: usize = 120;

/// The program on such a clock. What other threads ask Cloudflare for takes no time.
pub(crate) struct ProgramWithLatency {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) program: Program,
    call: Duration,
}

impl ProgramWithLatency {
    pub(crate) fn new(harness: &Harness, call: Duration, variables: &[(&'static str, &str)]) -> Self {
        let (clock, program) = harness.start_stopped(variables);
        harness.cloudflare.take_calls();
        Self { clock, program, call }
    }

    /// One loop of ExternalDNS.
    pub(crate) fn run_loop(&self, harness: &Harness, desired: &[Endpoint]) -> Result<Changes, u16> {
        self.run_loop_with(harness, desired, |_| {})
    }

    /// The same, with what another program does in it.
    pub(crate) fn run_loop_with(
        &self,
        harness: &Harness,
        desired: &[Endpoint],
        arrange: impl FnOnce(&Emulator),
    ) -> Result<Changes, u16> {
        harness.cloudflare.clear_faults();
        for matcher in [
            Matcher::batch(),
            Matcher::list_records(),
            Matcher::get_configuration(),
            Matcher::put_configuration(),
        ] {
            for nth in 1..=CALLS_MAX {
                let (clock, call) = (Arc::clone(&self.clock), self.call);
                harness.cloudflare.edit_after(matcher.clone(), nth, move |_| clock.put_ahead(call));
            }
        }
        arrange(&harness.cloudflare);
        self.program.external_dns().run_loop(desired)
    }
}
