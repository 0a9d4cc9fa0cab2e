//! Access that cannot be read or written, and a program that was away.

use super::*;

/// Nobody knows whether Cloudflare takes the same destination twice.
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
    let is_open = |stage: &Stage| stage.cloudflare().visit(NAME, "/").is_served();
    let stage = Stage::protected(&[]).restarted();
    stage.run(&[wish("none")]);
    assert!(is_open(&stage), "it was said at once");
    assert_eq!(stage.policies(), [[""; 0]; 0]);

    let mut stage = Stage::protected(&[]);
    stage.cloudflare().fault_every(Matcher::call("DELETE", "/accounts/*/access/**"), Fault::status(500));
    for _ in 0..2 {
        let _ = stage.program.external_dns().run_loop(&[wish("none")]);
    }
    assert!(!is_open(&stage));
    stage = stage.restarted();
    stage.run(&[wish("none")]);
    assert!(is_open(&stage), "the application could not be deleted");
}

/// Its permissions may never have been given.
#[test]
fn the_word_that_opens_where_nothing_is_protected_rests_while_access_cannot_be_read() {
    let stage = Stage::new(&[]);
    let denied = Fault::error(403, 10000, "Authentication error");
    stage.cloudflare().fault_every(Matcher::call("*", "/accounts/*/access/**"), denied);
    stage.run(&[wish("none")]);
    assert!(stage.cloudflare().visit(NAME, "/").is_served());
    let planned = stage.program.external_dns().run_loop(&[wish("none")]);
    assert_eq!(planned, Ok(Changes::default()));
}

#[test]
fn an_outage_of_access_stops_only_what_is_protected() {
    let faults = [
        Fault::status(500),
        Fault::error(403, 10000, "Authentication error"),
        Fault::error(404, 9999, "access.api.error.not_enabled"),
        Fault::Reset,
        Fault::Garbage,
        Fault::Truncated,
    ];
    for fault in faults {
        let label = format!("{fault:?}");
        let stage = Stage::protected(&[]);
        let gone = endpoint("gone.example.com", &[("tunnel-service", SECRET), ("access-policy", "staff")]);
        stage.run(&[wish("staff"), gone]);
        stage.cloudflare().fault_every(Matcher::call("*", "/accounts/*/access/**"), fault);
        stage.cloudflare().advance_clock(Duration::from_secs(700));
        stage.cloudflare().take_calls();
        let new = endpoint("new.example.com", &[("tunnel-service", SECRET), ("access-policy", "staff")]);
        let open = published("open.example.com", "http://open:80");
        let desired = [wish("on-call"), new, open];
        stage.run(&desired);
        let names: Vec<String> = stage.harness.cnames().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, [NAME, "open.example.com"], "{label}");
        assert!(stage.cloudflare().visit("open.example.com", "/").is_served(), "{label}");
        assert!(stage.is_served_with_login(), "{label}");
        assert_eq!(stage.leaks(), [""; 0], "{label}");

        stage.cloudflare().clear_faults();
        stage.run(&desired);
        assert_eq!(stage.leaks(), [""; 0], "{label}");
        assert!(
            stage.cloudflare().visit_as(Visitor::WithLogin, "new.example.com", "/").is_served(),
            "{label}"
        );
        assert!(!stage.cloudflare().visit("new.example.com", "/").is_served(), "{label}");
        let names: Vec<String> = stage.applications().iter().map(|one| one.name().to_owned()).collect();
        assert!(names.contains(&format!("{NAME} (ExternalDNS default)")), "{label}: {names:?}");
    }
}

/// Nothing else in the cluster names a policy.
#[test]
fn what_is_withdrawn_while_the_program_was_away_leaves_no_application() {
    let stage = Stage::protected(&[]).restarted();
    stage.run_long(&[]);
    assert_eq!(stage.policies(), [[""; 0]; 0]);
    assert_eq!(stage.leaks(), [""; 0]);
    stage.run(&[silent()]);
    assert!(stage.cloudflare().visit(NAME, "/").is_served());
}
