//! `healthcheck`: whether the program is well, asked on its own port.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use cloudflare_emulator::{Fault, Matcher};
use external_dns_cloudflare_tunnel_webhook::limits;
use test_support::harness::Harness;
use test_support::process::program;

use super::{SLACK, said};

#[allow(clippy::disallowed_methods, reason = "how long the process takes is what the test is about")]
fn healthcheck(variables: &[(&str, &str)]) -> (Option<i32>, String, Duration) {
    let begun = Instant::now();
    let output = program().arg("healthcheck").envs(variables.iter().copied()).output().expect("it was built");
    let said = said(&output, variables);
    assert_eq!(said.out, "");
    (said.code, said.errors, begun.elapsed())
}

fn port_of(address: SocketAddr) -> String {
    address.port().to_string()
}

#[test]
fn a_running_program_is_healthy_whatever_cloudflare_says_and_a_stopped_one_is_not() {
    let harness = Harness::new();
    harness.cloudflare.fault_every(Matcher::any(), Fault::Reset);
    let serving = harness.start_unready(&[]);
    let port = port_of(serving.observation());
    for variables in [
        &[("METRICS_PORT", &*port)][..],
        &[("METRICS_PORT", &*port), ("METRICS_HOST", "127.0.0.1")],
        &[("HEALTHZ_PORT", &*port), ("METRICS_HOST", "0.0.0.0")],
    ] {
        let (code, errors, _) = healthcheck(variables);
        assert_eq!((code, &*errors), (Some(0), ""), "{variables:?}");
    }
    let output = program().args(["--metrics-port", &port, "healthcheck"]).output().expect("it was built");
    assert_eq!(output.status.code(), Some(0), "by its flag");
    drop(serving);
    let (code, errors, _) = healthcheck(&[("METRICS_PORT", &*port)]);
    assert_eq!(code, Some(1));
    assert!(errors.contains(&port), "{errors}");
}

#[test]
fn a_program_that_listens_on_the_other_loopback_alone_is_found() {
    let harness = Harness::new();
    let Ok(_) = TcpListener::bind("[::1]:0") else {
        return;
    };
    let serving = harness.start_unready(&[("METRICS_HOST", "::1")]);
    let port = port_of(serving.observation());
    assert_eq!(healthcheck(&[("METRICS_PORT", &*port)]).0, Some(0));
    assert_eq!(healthcheck(&[("METRICS_PORT", &*port), ("METRICS_HOST", "127.0.0.1")]).0, Some(1));
}

#[derive(Clone, Copy)]
enum Peer {
    Hangs,
    /// Sends a byte now and then, so that no single read takes long.
    Drips,
    Answers(&'static [u8]),
}

impl Peer {
    /// Answers one request; goes on until `over` where it does not end by itself.
    fn serve(self, listener: &TcpListener, over: &Receiver<()>) {
        let (mut stream, _) = listener.accept().expect("the command asks");
        let read = stream.read(&mut [0; 1024]).expect("it asks in one piece");
        assert!(read > 0, "it asks");
        match self {
            Self::Hangs => drop(over.recv()),
            Self::Drips => {
                while over.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
                    drop(stream.write_all(b"x"));
                }
            }
            Self::Answers(answer) => stream.write_all(answer).expect("the command reads"),
        }
    }
}

/// A container runtime waits a few seconds, and must then learn more than that it waited.
#[test]
fn what_does_not_answer_well_is_not_healthy_and_not_waited_for() {
    for (label, peer, expected) in [
        ("nothing", Peer::Hangs, "no answer within"),
        ("no end", Peer::Drips, "no answer within"),
        ("nothing, and closes", Peer::Answers(b""), "answered \"\""),
        ("another status", Peer::Answers(b"HTTP/1.1 503 Service Unavailable\r\n\r\n"), "503"),
        ("another protocol", Peer::Answers(b"SSH-2.0-OpenSSH_9.9\r\n"), "SSH"),
        ("no end of line", Peer::Answers(&[b'x'; 4096]), "xxx"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = port_of(listener.local_addr().expect("it is bound"));
        let (over, wait) = mpsc::channel::<()>();
        let server = thread::spawn(move || peer.serve(&listener, &wait));
        let (code, errors, took) = healthcheck(&[("METRICS_PORT", &*port)]);
        drop(over);
        server.join().expect("it ends");
        assert_eq!(code, Some(1), "{label}");
        assert!(errors.contains(expected), "{label}: {errors}");
        assert!(took < limits::HEALTHCHECK_TIMEOUT + SLACK, "{label} took {took:?}");
    }
}

#[test]
fn a_health_check_needs_its_port_and_nothing_else() {
    let (code, errors, _) = healthcheck(&[("METRICS_PORT", "0")]);
    assert_eq!((code, errors.contains("METRICS_PORT is 0")), (Some(1), true), "{errors}");
    for (name, value) in [("METRICS_PORT", "http"), ("METRICS_HOST", "nowhere")] {
        let (code, errors, _) = healthcheck(&[(name, value)]);
        assert_eq!(code, Some(64), "{errors}");
        assert!(errors.contains(name), "{errors}");
    }
}
