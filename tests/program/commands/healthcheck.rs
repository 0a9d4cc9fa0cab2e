//! `healthcheck`: whether the program is well, asked on its own port.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use cloudflare_emulator::{Fault, Matcher};
use external_dns_cloudflare_tunnel_webhook::commands;
use test_support::harness::Harness;
use test_support::process::program;

use super::said;

fn healthcheck(variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = program().arg("healthcheck").envs(variables.iter().copied()).output().expect("it was built");
    let said = said(&output, variables);
    assert_eq!(said.out, "");
    (said.code, said.errors)
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
        &[("METRICS_PORT", &*port), ("METRICS_HOST", "0.0.0.0")],
    ] {
        let (code, errors) = healthcheck(variables);
        assert_eq!((code, &*errors), (Some(0), ""), "{variables:?}");
    }
    let output = program().args(["--metrics-port", &port, "healthcheck"]).output().expect("it was built");
    assert_eq!(output.status.code(), Some(0), "by its flag");
    drop(serving);
    let (code, errors) = healthcheck(&[("METRICS_PORT", &*port)]);
    assert_eq!(code, Some(1));
    assert!(errors.contains(&port), "{errors}");
}

/// Accepts one connection, reads the question, and does this with it.
fn peer(then: impl FnOnce(TcpStream) + Send + 'static) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the command asks");
        let read = stream.read(&mut [0; 1024]).expect("it asks in one piece");
        assert!(read > 0, "it asks");
        then(stream);
    });
    (address, peer)
}

#[test]
fn what_does_not_answer_well_is_not_healthy() {
    for (label, answer, expected) in [
        ("nothing, and closes", &b""[..], "answered \"\""),
        ("another status", b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "503"),
        ("another protocol", b"SSH-2.0-OpenSSH_9.9\r\n", "SSH"),
        ("no end of line", &[b'x'; 4096], "xxx"),
    ] {
        let (address, peer) = peer(move |mut stream| stream.write_all(answer).expect("the command reads"));
        let (code, errors) = healthcheck(&[("METRICS_PORT", &*port_of(address))]);
        peer.join().expect("it ends");
        assert_eq!(code, Some(1), "{label}");
        assert!(errors.contains(expected), "{label}: {errors}");
    }
}

/// A container runtime waits a few seconds, and must then learn more than that it waited.
#[test]
fn what_does_not_answer_in_time_is_not_healthy() {
    // Until the command has gone.
    let (address, peer) = peer(|mut stream| assert!(matches!(stream.read(&mut [0]), Ok(0))));
    let problem = commands::healthcheck(address).expect_err("nothing is answered");
    peer.join().expect("it ends");
    assert!(problem.contains("no answer within 1500 ms"), "{problem}");
}

#[test]
fn a_health_check_needs_its_port_and_nothing_else() {
    let (code, errors) = healthcheck(&[("METRICS_PORT", "0")]);
    assert_eq!((code, errors.contains("METRICS_PORT is 0")), (Some(1), true), "{errors}");
    for (name, value) in [("METRICS_PORT", "http"), ("METRICS_HOST", "nowhere")] {
        let (code, errors) = healthcheck(&[(name, value)]);
        assert_eq!(code, Some(64), "{errors}");
        assert!(errors.contains(name), "{errors}");
    }
}
