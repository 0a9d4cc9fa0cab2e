//! Each probe and the answer that breaks it.

use cloudflare_emulator::Plan;
use live::probes::{QUESTIONS, probes};
use live::run::{Outcome, probe};

use crate::{emulator, look_at};

#[test]
fn the_answer_that_would_break_a_probe_turns_exactly_this_probe_red() {
    assert_eq!(probes().len(), QUESTIONS.len());
    for broken in [None].into_iter().chain(probes().into_iter().map(Some)) {
        let emulator = emulator(Plan::Free);
        let look = look_at(&emulator, "probe");
        look.proxy.state().lie = broken.clone();
        let mut rows = Vec::new();
        probe(&look, &mut rows, &|_| {});
        rows.retain(|row| !matches!(row.outcome, Outcome::Passed(_)));
        let failed: Vec<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(failed, Vec::from_iter(broken.map(|probe| probe.name)));
    }
}

#[test]
fn each_probe_holds_a_sentence_of_the_protocol() {
    for probe in probes() {
        assert!(include_str!("../../../docs/protocol.md").contains(probe.sentence), "{}", probe.sentence);
    }
}
