//! A standard error that is not read: the end waits for it, but not for long.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::limits;
use external_dns_cloudflare_tunnel_webhook::logging::{self, Format};
use log::LevelFilter;
use test_support::harness::{Harness, published};
use test_support::own_process::{is_own_process, own_process};
use test_support::process::{Process, fill, standard_error_of};

/// The end may wait for the log so long, and for nothing else.
const END: Duration = limits::LOG_FLUSH_TIMEOUT.saturating_add(Duration::from_secs(1));

#[test]
fn a_standard_error_that_is_not_read_does_not_hold_up_the_end() {
    for format in ["text", "json"] {
        let harness = Harness::new();
        let (mut process, external_dns) = Process::start_ready(&harness, &[("LOG_FORMAT", format)]);
        process.block_standard_error();
        external_dns.run_loop(&[published("web.example.com", "http://web:80")]).expect("answered");
        let (code, took, _) = process.end_with("TERM");
        assert_eq!(code, Some(0), "{format}");
        assert!(took < END, "{format}: {took:?}");
    }
}

/// A panic has a line too, and the thread that it ends may hold what others wait for.
#[test]
fn a_panic_is_over_at_once_though_its_line_is_not_read() {
    if is_own_process() {
        return panic_in_a_thread();
    }
    let mut child = own_process("blocked_stderr::a_panic_is_over_at_once_though_its_line_is_not_read", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs already");
    let (sender, lines) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let wait_for = |text: &str| {
        while !lines.recv_timeout(Duration::from_secs(60)).expect(text).contains(text) {}
    };
    wait_for("waits for a line");
    fill(&mut standard_error_of(&child));
    child.stdin.take().expect("it is piped").write_all(b"panic\n").expect("it is read");
    wait_for("the panic is over");
    assert!(child.wait().expect("it is our child").success());
}

fn panic_in_a_thread() {
    logging::start(LevelFilter::Info, Format::Text).expect("a thread");
    println!("waits for a line");
    std::io::stdin().lines().next();
    assert!(thread::spawn(|| panic!("on purpose")).join().is_err());
    println!("the panic is over");
    log::logger().flush();
}
