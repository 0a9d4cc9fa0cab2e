//! The calls that were made, in their order.

use std::time::Duration;

use crate::answer::Answer;
use crate::http::Request;
use crate::json::{Members, to_raw};
use crate::past::Age;

/// A call as it arrived, and how it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// From 1, one for each call since the start; taking the calls does not reset it.
    pub sequence: u64,
    /// Of [`Emulator::call_as`](crate::Emulator::call_as); 0 where no past is kept.
    pub client: u64,
    /// `GET`, `PUT` …
    pub method: String,
    /// Path below the base URL: `/zones/…`.
    pub path: String,
    /// Query without the `?`, as sent.
    pub query: String,
    /// Headers with lower-case names, credentials included.
    pub headers: Vec<(String, String)>,
    /// Body as text; empty where there was none. The value of a `tunnel_secret` is left out: see
    /// [`Cloudflare::secrets`](crate::Cloudflare::secrets). Bodies of answers are not kept.
    pub body: String,
    /// HTTP status of the answer; `None` when there was none, or not yet.
    pub status: Option<u16>,
    /// When it arrived, on the emulator's clock.
    pub at: Duration,
    /// Until when the answer forbids further calls: the end of the `retry-after` of a 429.
    pub limited_until: Option<Duration>,
    /// By [`Fault::Old`](crate::Fault::Old): how many writes ago what its answer shows was there.
    pub writes_ago: usize,
    /// Whether its client can tell so, as [`Fault::Known`](crate::Fault::Known) means it.
    pub is_known_old: bool,
    /// By [`Fault::Says`](crate::Fault::Says): whether a member of its answer is not the true one.
    pub contradicts: bool,
    /// Whether its client could tell, were what its answer shows one write older.
    pub would_be_known_old: bool,
}

impl Call {
    /// Whether the call asks for a change.
    pub fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }

    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// `PUT /accounts/…?query`, for messages and comparisons.
    pub fn line(&self) -> String {
        let Self { method, path, query, .. } = self;
        if query.is_empty() { format!("{method} {path}") } else { format!("{method} {path}?{query}") }
    }
}

/// How many calls were made, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// GET and HEAD.
    pub reads: usize,
    /// All others.
    pub writes: usize,
}

impl CallCount {
    /// Counts calls.
    pub fn of(calls: &[Call]) -> Self {
        let writes = calls.iter().filter(|call| call.is_write()).count();
        Self { reads: calls.len() - writes, writes }
    }

    /// All of them.
    pub fn total(self) -> usize {
        self.reads + self.writes
    }
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    made: u64,
    kept: Vec<Call>,
}

impl Calls {
    /// Notes a call and says its sequence number.
    pub(crate) fn arrive(&mut self, request: &Request, path: &str, client: u64, now: Duration) -> u64 {
        self.made += 1;
        self.kept.push(Call {
            sequence: self.made,
            client,
            method: request.method.clone(),
            path: path.to_owned(),
            query: request.query.clone(),
            headers: request.headers.clone(),
            body: without_secret(&request.body),
            status: None,
            at: now,
            limited_until: None,
            writes_ago: 0,
            is_known_old: false,
            would_be_known_old: false,
            contradicts: false,
        });
        self.made
    }

    /// Notes how a call was answered, unless it was taken meanwhile.
    pub(crate) fn answered(&mut self, sequence: u64, answer: &Answer, age: Age, now: Duration) {
        if let Some(call) = self.kept.iter_mut().rev().find(|call| call.sequence == sequence) {
            call.status = Some(answer.status);
            call.writes_ago = age.writes_ago;
            call.is_known_old = age.is_known;
            call.would_be_known_old = age.would_be_known;
            call.contradicts = age.contradicts;
            let header = answer.headers.iter().find(|(name, _)| name == "retry-after");
            let seconds = header.filter(|_| answer.status == 429).and_then(|(_, value)| value.parse().ok());
            call.limited_until = seconds.map(|seconds| now + Duration::from_secs(seconds));
        }
    }

    /// How many calls were made since the start.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    pub(crate) fn all(&self) -> &[Call] {
        &self.kept
    }

    pub(crate) fn take(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.kept)
    }
}

/// The body of a call on a tunnel without its secret, any other as it is. What is no JSON and speaks of a secret is
/// left out as a whole.
fn without_secret(body: &str) -> String {
    if !body.contains("tunnel_secret") {
        return body.to_owned();
    }
    let Some(mut members) = Members::parse(body) else {
        return "(left out)".to_owned();
    };
    for (_, value) in members.0.iter_mut().filter(|(name, _)| name == "tunnel_secret") {
        *value = to_raw("(left out)");
    }
    members.to_raw().get().to_owned()
}
