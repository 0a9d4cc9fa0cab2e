//! HTTP over a bare socket, so that tests see bytes and can misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::external_dns::MEDIA_TYPE;

/// Longer than anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One connection.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// All values of a header field.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("answers are text")
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server takes what is sent");
    }

    /// A POST of ExternalDNS.
    pub fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send(format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {MEDIA_TYPE}\r\nAccept: {MEDIA_TYPE}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        self.answer()
    }

    /// A GET of ExternalDNS.
    pub fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {MEDIA_TYPE}\r\n\r\n"));
        self.answer()
    }

    /// The next answer, interim ones left out.
    pub fn answer(&mut self) -> Answer {
        loop {
            let head = self.head();
            let status =
                head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
            let mut answer = Answer { status, head, body: Vec::new() };
            if (100..200).contains(&answer.status) {
                continue;
            }
            let length = match *answer.values("Content-Length") {
                [length] => length.parse().expect("a length"),
                [] => 0,
                ref several => panic!("several lengths: {several:?}"),
            };
            while self.received.len() < length {
                assert!(self.receive() > 0, "the connection ended within a body");
            }
            answer.body = self.received.drain(..length).collect();
            return answer;
        }
    }

    /// The next head alone: for HEAD, whose answer has a length and no body.
    pub fn head(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                let head: Vec<u8> = self.received.drain(..end + 4).collect();
                return String::from_utf8(head).expect("heads are ASCII");
            }
            assert!(
                self.receive() > 0,
                "the connection ended within a head: {:?}",
                String::from_utf8_lossy(&self.received)
            );
        }
    }

    /// Everything until the server closes; a reset ends it too.
    pub fn rest(&mut self) -> String {
        while self.receive() > 0 {}
        String::from_utf8_lossy(&self.received).into_owned()
    }

    fn receive(&mut self) -> usize {
        let mut buffer = [0; 16 * 1024];
        let length = match self.stream.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("no answer: {error}"),
        };
        self.received.extend_from_slice(&buffer[..length]);
        length
    }
}
