//! A client of a few lines: one connection a call, so that every fault shows as what it is.

use std::io::{Read, Write};
use std::net::TcpStream;

use cloudflare_emulator::{Emulator, Plan, Token};
use serde_json::Value;

/// The token of every set-up.
pub(crate) const TOKEN: &str = "token-for-everything";

/// An answer, or what there was of one.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The result of a success.
    pub(crate) fn result(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()["result"].take()
    }

    /// The code of the error, or of the cause inside a 1004.
    pub(crate) fn code(&self) -> u64 {
        let error = &self.json()["errors"][0];
        assert!(error.is_object(), "no error: {}", self.body);
        error["error_chain"][0]["code"].as_u64().or_else(|| error["code"].as_u64()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }
}

/// Makes a call below the base URL; `None` when the connection ends without an answer.
pub(crate) fn send(
    emulator: &Emulator,
    headers: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Option<Answer> {
    let path = if path.starts_with("/_emulator") { path.to_owned() } else { format!("/client/v4{path}") };
    let mut stream = TcpStream::connect(emulator.address()).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

/// Makes a call with the token of the set-up.
pub(crate) fn call(emulator: &Emulator, method: &str, path: &str, body: &str) -> Answer {
    send(emulator, &format!("authorization: Bearer {TOKEN}\r\n"), method, path, body).expect("an answer")
}

pub(crate) fn read(emulator: &Emulator, path: &str) -> Answer {
    call(emulator, "GET", path, "")
}

/// An emulator with a token, the Free zone `example.com`, and its id.
pub(crate) fn free_zone() -> (Emulator, String) {
    let emulator = Emulator::start();
    emulator.add_token(Token::full(TOKEN));
    let zone = emulator.add_zone("example.com", Plan::Free);
    (emulator, zone)
}
