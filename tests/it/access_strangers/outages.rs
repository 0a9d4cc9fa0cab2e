//! Access that cannot be read or written, and a program that was away.

use super::*;

/// Cloudflare does not document whether two applications may have the same destination.
#[test]
fn a_second_application_after_a_restart_that_lists_did_not_show_the_first_in_opens_nothing_and_both_are_withdrawn()
 {
    let mut stage = Stage::new(&[]);
    stage.cloudflare().edit(|cloudflare| {
        cloudflare.whims_mut().unlisted_application_time = Duration::from_secs(30);
        cloudflare.whims_mut().takes_taken_destinations = true;
    });
    stage.cloudflare().fault(Matcher::create_application(), 1, Fault::DoneButUnanswered);
    assert_eq!(stage.program.external_dns().run_loop(&[wish("staff")]), Err(503));
    stage = stage.restarted();
    assert_eq!(stage.run_loop(&[wish("staff")]), Err(503));
    assert_eq!(stage.policies(), [["staff"], ["staff"]]);
    stage.run(&[wish("staff")]);
    stage.run(&[wish("on-call")]);
    assert!(stage.logged(&["several Access applications of ours for app.example.com"]));
    assert_eq!(stage.leaks(), [""; 0]);
    stage.run_long(&[]);
    assert_eq!(stage.policies(), [[""; 0]; 0]);
    assert_eq!(stage.leaks(), [""; 0]);
}

/// Nothing else in the cluster names a policy, so nothing else asks for Access.
#[test]
fn the_word_that_opens_opens_after_a_restart_as_well() {
    for is_said_before in [false, true] {
        let stage = Stage::protected(&[]);
        if is_said_before {
            stage.cloudflare().fault_every(Matcher::delete_application(), Fault::status(500));
            for _ in 0..2 {
                let _ = stage.program.external_dns().run_loop(&[wish("none")]);
            }
            assert!(!stage.cloudflare().visit(NAME, "/").is_served(), "its application could not be deleted");
        }
        let stage = stage.restarted();
        stage.run(&[wish("none")]);
        assert!(stage.cloudflare().visit(NAME, "/").is_served(), "{is_said_before}");
        assert_eq!(stage.policies(), [[""; 0]; 0], "{is_said_before}");
    }
}

/// Also where the permissions were never given, or Access was never set up.
#[test]
fn an_outage_of_access_stops_only_what_is_protected() {
    let faults = [
        Fault::status(500),
        Fault::error(403, 10000, "Authentication error"),
        Fault::error(404, 9999, "access.api.error.not_enabled"),
        Fault::Garbage,
    ];
    for fault in faults {
        let label = format!("{fault:?}");
        let stage = Stage::protected(&[]);
        stage.run(&[wish("staff"), of("gone.example.com", "staff")]);
        stage.cloudflare().fault_every(Matcher::call("*", "/accounts/*/access/**"), fault);
        // The team is read again.
        stage.cloudflare().advance_clock(Duration::from_secs(700));
        let open = [published("open.example.com", "http://open:80"), of("word.example.com", "none")];
        let desired = [&open[..], &[wish("on-call"), of("new.example.com", "staff")]].concat();
        stage.run(&desired);
        let names: Vec<String> = stage.harness.cnames().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, [NAME, "open.example.com", "word.example.com"], "{label}");
        for name in &names[1..] {
            assert!(stage.cloudflare().visit(name, "/").is_served(), "{label}: {name}");
        }
        assert!(stage.is_served_with_login(), "{label}");
        assert_eq!(stage.leaks(), [""; 0], "{label}");

        stage.cloudflare().clear_faults();
        stage.run(&desired);
        assert_eq!(stage.leaks(), [""; 0], "{label}");
        let visit = |visitor| stage.cloudflare().visit_as(visitor, "new.example.com", "/").is_served();
        assert!(visit(Visitor::WithLogin) && !visit(Visitor::WithoutLogin), "{label}");
        assert!(stage.policies().contains(&vec!["on-call".to_owned()]), "{label}");
    }
}

/// Nothing else in the cluster names a policy.
#[test]
fn what_is_withdrawn_while_the_program_was_away_leaves_no_application() {
    let stage = Stage::protected(&[]).restarted();
    stage.run_long(&[]);
    assert_eq!(stage.policies(), [[""; 0]; 0]);
    assert_eq!(stage.leaks(), [""; 0]);
    stage.run(&[at(NAME, &[])]);
    assert!(stage.cloudflare().visit(NAME, "/").is_served());
}
