//! At every call of a loop in turn an application goes away. A visitor without a login is never served, and the next loops
//! come to the same end.

use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::Matcher;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use test_support::clock::ManualClock;
use test_support::harness::{Harness, Program, published};

use super::{GUARD, NAME, SERVICE, assert_never_open, audiences, cover, protected, watch};

const NEW: &str = "new.example.com";
const OTHER: &str = "other.example.com";

fn before() -> Vec<Endpoint> {
    vec![published(NAME, SERVICE), published(OTHER, SERVICE)]
}

/// One changes, one comes, one goes.
fn desired() -> Vec<Endpoint> {
    vec![published(NAME, "http://changed:80"), published(NEW, SERVICE)]
}

struct Scene {
    harness: Harness,
    clock: Arc<ManualClock>,
    program: Program,
}

impl Scene {
    /// What was there before is published.
    fn new() -> Self {
        let harness = protected(&[NAME, NEW, OTHER]);
        watch(&harness);
        let clock = Arc::new(ManualClock::default());
        let program = start(&harness, &clock);
        program.external_dns().run_loop(&before()).expect("all is covered");
        // A new process reads the team again.
        let program = {
            drop(program);
            start(&harness, &clock)
        };
        harness.cloudflare.take_calls();
        Self { harness, clock, program }
    }

    /// Ends as the loop would have without trouble.
    fn comes_to_rest(&self, label: &str) {
        self.harness.cloudflare.clear_faults();
        let is_at_rest = || {
            self.clock.put_ahead(Duration::from_secs(700));
            self.program
                .external_dns()
                .run_loop(&desired())
                .is_ok_and(|changes| changes == Default::default())
        };
        assert!((0..5).any(|_| is_at_rest()), "{label}: {:?}", self.harness.rules());
        let rules = self.harness.rules();
        assert!(rules.iter().any(|rule| rule.contains("http://changed:80")), "{label}: {rules:?}");
        assert_eq!(audiences(&self.harness).len(), 2, "{label}: {rules:?}");
        assert!(audiences(&self.harness).iter().all(|(_, audiences)| audiences.len() == 1), "{label}");
        assert_never_open(&self.harness, label);
    }
}

fn start(harness: &Harness, clock: &Arc<ManualClock>) -> Program {
    let program = harness.start_by(Arc::clone(clock) as _, &GUARD);
    program.wait_until_ready();
    program
}

fn calls_of_the_loop() -> usize {
    let scene = Scene::new();
    scene.program.external_dns().run_loop(&desired()).expect("nothing goes wrong");
    let calls = scene.harness.cloudflare.take_calls();
    scene.comes_to_rest("without trouble");
    calls.len()
}

/// Also between the reading of the applications and the writing of the rule.
#[test]
fn an_application_that_goes_at_any_call_opens_nothing() {
    for nth in 1..=calls_of_the_loop() {
        let scene = Scene::new();
        scene.harness.cloudflare.edit_before(Matcher::any(), nth, |cloudflare| {
            cloudflare.delete_application(NAME);
            cloudflare.delete_application(NEW);
        });
        let _ = scene.program.external_dns().run_loop(&desired());
        for _ in 0..2 {
            scene.program.external_dns().run_loop(&desired()).expect("a refusal is no failure");
        }
        assert_never_open(&scene.harness, &format!("gone at call {nth}"));
        cover(&scene.harness, "again", NAME);
        cover(&scene.harness, "new again", NEW);
        scene.comes_to_rest(&format!("gone at call {nth}"));
    }
}
