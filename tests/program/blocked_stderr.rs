//! A standard error that is not read holds up no probe.

use test_support::harness::Harness;
use test_support::process::Process;

#[test]
fn a_standard_error_that_is_not_read_holds_up_no_probe() {
    for format in ["text", "json"] {
        let harness = Harness::new();
        let (mut process, _) = Process::start_ready(&harness, &[("LOG_FORMAT", format)]);
        process.block_standard_error();
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(process.observe(path).status, 200, "{format} {path}");
        }
    }
}
