//! A run that is killed at each of its writes, and what is deleted afterwards.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Emulator, Plan};
use live::clean::{AGE_MIN_SECONDS, clean};
use live::intents::leftovers;
use live::proxy::{Call, END};
use live::run::{Look, attempt, connect, run};
use serde_json::json;

use crate::{connect_tunnels, emulator, look_at, settings, state};

/// The writes of a whole run. The emulator gives the same ids to the same creates, so they can be played again.
fn writes() -> Vec<Call> {
    let emulator = emulator(Plan::Free);
    connect_tunnels(&emulator);
    let look = look_at(&emulator, "recorded");
    assert!(run(&look, &|_| {}).is_good());
    let mut calls = std::mem::take(&mut look.proxy.state().calls);
    calls.retain(|call| call.method != "GET" && call.step != END);
    calls
}

/// `just live-clean` by the intents of this run; what it says is left.
fn clean_after(look: &Look, emulator: &Emulator) -> Vec<String> {
    let mut settings = settings(emulator, "cleaned");
    settings.intents.clone_from(&look.proxy.settings().intents);
    let (proxy, _) = connect(&settings, Arc::default());
    clean(&proxy, &leftovers(&settings.intents), false)
}

/// Reads change nothing, so a run that is killed at one is as far as after the write before.
#[test]
fn wherever_a_run_is_killed_cleaning_up_leaves_the_account_as_it_was_beside_names_that_resemble_its_own() {
    let writes = writes();
    assert!(writes.len() > 30, "{}", writes.len());
    for (at_write, is_sent) in (1..=writes.len()).flat_map(|at_write| [(at_write, false), (at_write, true)]) {
        let label = format!("killed at {at_write} ({}), sent: {is_sent}", writes[at_write - 1].target);
        let emulator = emulator(Plan::Free);
        let before = state(&emulator);
        let look = look_at(&emulator, "killed");
        look.proxy.state().kill = Some((at_write, is_sent));
        for write in writes.iter().take(at_write - 1) {
            look.proxy.ask(&write.method, &write.target, &write.body, "");
        }
        let last = &writes[at_write - 1];
        let killed = attempt(|| look.proxy.ask(&last.method, &last.target, &last.body, ""));
        assert_eq!(killed.err().as_deref(), Some("the run was killed"), "{label}");

        let present = state(&emulator);
        let open = leftovers(&look.proxy.settings().intents).len();
        assert_eq!(clean_after(&look, &emulator).len(), open, "{label}: its run may go on");
        assert_eq!(state(&emulator), present, "{label}");
        emulator.advance_clock(Duration::from_secs(AGE_MIN_SECONDS + 60));
        assert_eq!(clean_after(&look, &emulator), [""; 0], "{label}");
        assert_eq!(state(&emulator), before, "{label}");
        assert_eq!(leftovers(&look.proxy.settings().intents), [], "{label}");
    }
}

/// The name alone is not enough.
#[test]
fn an_object_of_a_runs_name_that_is_younger_than_the_run_stays() {
    let emulator = emulator(Plan::Free);
    let look = look_at(&emulator, "name");
    look.proxy.state().kill = Some((1, false));
    let (target, name) =
        (format!("/accounts/{}/cfd_tunnel", emulator.account()), look.proxy.state().bounds.name(1));
    let killed = attempt(|| look.proxy.call("POST", &target, &json!({"name": name})));
    assert!(killed.is_err() && leftovers(&look.proxy.settings().intents).len() == 1);
    emulator.advance_clock(Duration::from_secs(20 * 60));
    emulator.add_tunnel(&name);
    emulator.advance_clock(Duration::from_secs(AGE_MIN_SECONDS));
    let before = state(&emulator);
    assert_eq!(clean_after(&look, &emulator), [""; 0]);
    assert_eq!(state(&emulator), before);
}
