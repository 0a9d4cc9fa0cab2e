//! The binary as a test in another language uses it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Ends the program with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_cloudflare-emulator"))
}

/// Starts the program; what its line says.
fn start(arguments: &[&str]) -> (Running, Value) {
    let mut running = Running(program().args(arguments).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (running, serde_json::from_str(&line).unwrap())
}

#[test]
fn it_can_start_without_a_tunnel() {
    let (_running, said) = start(&["--without-tunnels", "--listen", "127.0.0.1:0"]);
    assert_eq!(said["tunnels"], serde_json::json!([]));
    assert_eq!(said["zones"][1]["name"], "example.org");
}

#[test]
fn one_line_says_where_and_what() {
    let (_running, said) = start(&[]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let base_url = text(&said["base_url"]);
    let (address, path) = base_url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let (account, tunnel) = (text(&said["account_id"]), text(&said["tunnels"][1]["id"]));
    assert_eq!(said["tunnels"][1]["name"], "handmade");
    assert_eq!(said["zones"][0]["name"], "example.com");
    let request = format!(
        "GET /{path}/accounts/{account}/cfd_tunnel/{tunnel}/configurations HTTP/1.1\r\nConnection: close\r\n\
         Authorization: Bearer {}\r\n\r\n",
        text(&said["token"])
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("intranet.example.com"), "{answer}");
}

#[test]
fn a_wrong_argument_is_said() {
    for arguments in [&["--port", "1"][..], &["--listen"], &["--listen=nowhere"]] {
        let output = program().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
    }
    let help = program().arg("--help").output().unwrap();
    assert!(help.status.success());
    assert!(String::from_utf8(help.stdout).unwrap().contains("/configurations"));
}
