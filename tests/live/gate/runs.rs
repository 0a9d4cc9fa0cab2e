//! Whole runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cloudflare_emulator::Plan;
use live::run::{Outcome, Report, attempt, look, run};
use live::shape::differences;
use live::{intents, report};
use serde_json::json;

use crate::{RANDOM, TOKEN, connect_tunnels, emulator, look_at, settings, state};

fn failures(report: &Report) -> Vec<String> {
    report.rows.iter().filter(|row| !matches!(row.outcome, Outcome::Passed(_))).map(report::line).collect()
}

/// A run that passes, and leaves the account as it was.
fn run_at(name: &str, plan: Plan, has_whims: bool) -> Report {
    let emulator = emulator(plan);
    connect_tunnels(&emulator);
    emulator.edit(|cloudflare| {
        let whims = cloudflare.whims_mut();
        whims.comments_have_their_own_time = has_whims;
        whims.drops_explicit_defaults = has_whims;
        whims.adds_empty_origin_request = has_whims;
    });
    let before = state(&emulator);
    let look = look_at(&emulator, name);
    let report = run(&look, &|_| {});
    assert_eq!(failures(&report), [""; 0], "{name}");
    assert!(report.is_good() && report.calls < 400, "{name}: {}", report.calls);
    assert_eq!(state(&emulator), before, "{name}");
    assert_eq!(intents::leftovers(&look.proxy.settings().intents), [], "{name}");
    report
}

#[test]
fn two_emulators_differ_in_nothing_and_another_cloudflare_is_shown_without_a_text_of_the_account() {
    let [free, paid] = [Plan::Free, Plan::Pro].map(|plan| run_at("plain", plan, false));
    assert_eq!(differences(&free.shapes, &paid.shapes), [""; 0]);
    let whimsical = run_at("whimsical", Plan::Free, true);
    let found = differences(&whimsical.shapes, &free.shapes);
    for marker in ["changes modified_on", "originRequest object"] {
        assert!(found.iter().any(|line| line.contains(marker)), "{marker} is not in {found:#?}");
    }
    let text = report::json(&whimsical, &found, Path::new(env!("CARGO_MANIFEST_DIR"))).to_string();
    for secret in [TOKEN, "example.com", RANDOM, "staff", "http_status", "by hand"] {
        assert!(!text.contains(secret), "{secret} is in the report");
    }
}

/// Without a team and connectors, as most accounts are.
#[test]
fn what_cannot_be_tried_is_counted_apart_and_a_run_that_is_stopped_deletes_what_it_created() {
    for stop_after in ["nothing", "path", "a batch is one transaction"] {
        let emulator = emulator(Plan::Free);
        emulator.add_application(&json!({"type": "self_hosted", "domain": "*.example.com"})).unwrap();
        let before = state(&emulator);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let look = look(&settings(&emulator, "stopped"), Arc::clone(&is_stopped));
        let report = run(&look, &|row| {
            is_stopped.fetch_or(row.name == stop_after, Ordering::Release);
        });
        let (failures, goes_on) = (failures(&report), stop_after == "nothing");
        assert_eq!((report.is_good(), &*report.left), (goes_on, &[][..]), "{failures:#?}");
        assert!(!goes_on || failures.len() == 4, "{failures:#?}");
        assert_eq!(state(&emulator), before);
    }
}

#[test]
fn nothing_is_created_where_a_name_is_taken_or_the_zone_is_full_or_of_another_account() {
    for why in ["taken", "full", "another account"] {
        let emulator = emulator(Plan::Free);
        let mut settings = settings(&emulator, "refused");
        let add = |name: String| {
            emulator
                .add_record("example.com", json!({"type": "A", "name": name, "content": "192.0.2.9"}))
                .unwrap();
        };
        match why {
            "taken" => add(format!("edctw-live-{RANDOM}-4")),
            "full" => (0..180).for_each(|number| add(format!("n{number}"))),
            _ => settings.account = emulator.edit(|cloudflare| cloudflare.add_account("other")),
        }
        emulator.take_calls();
        assert!(attempt(|| look(&settings, Arc::default())).is_err(), "{why}");
        assert!(emulator.take_calls().iter().all(|call| !call.is_write()), "{why}");
    }
}
