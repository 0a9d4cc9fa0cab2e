//! Stand-ins for tests: a clock that stands still until a thread sleeps, and a transport that follows a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::client::Client;
use super::settings::Credentials;
use super::transport::{Method, Request, Response, Transport, TransportError};
use crate::clock::{Clock, Deadline};
use crate::secret::Secret;

/// The token that clients in tests send.
pub(super) const TOKEN: &str = "SeCrEt_ToKeN-0123456789abcdefghijklmnopq";

#[derive(Debug)]
pub(super) struct FakeClock {
    start: Instant,
    passed: Mutex<Duration>,
    sleeps: Mutex<Vec<Duration>>,
}

impl FakeClock {
    #[allow(clippy::disallowed_methods, reason = "an instant can be had in no other way")]
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), passed: Mutex::default(), sleeps: Mutex::default() })
    }

    pub(super) fn advance(&self, duration: Duration) {
        *self.passed.lock().unwrap() += duration;
    }

    pub(super) fn sleeps(&self) -> Vec<Duration> {
        self.sleeps.lock().unwrap().clone()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Instant {
        self.start + *self.passed.lock().unwrap()
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
        self.sleeps.lock().unwrap().push(duration);
    }

    fn unix_seconds(&self) -> i64 {
        0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<String>,
    pub(super) credentials: Credentials,
    pub(super) timeout: Duration,
    pub(super) connection_max_idle: Duration,
}

/// Answers in the order of its script. A call beyond its end fails the test.
#[derive(Debug)]
pub(super) struct Script {
    answers: Mutex<VecDeque<Result<Response, TransportError>>>,
    sent: Mutex<Vec<Sent>>,
    clock: Arc<FakeClock>,
    /// The time that each call takes.
    latency: Duration,
}

impl Script {
    pub(super) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    pub(super) fn paths(&self) -> Vec<String> {
        self.sent().into_iter().map(|sent| sent.path).collect()
    }

    pub(super) fn push(&self, answer: Result<Response, TransportError>) {
        self.answers.lock().unwrap().push_back(answer);
    }
}

impl Transport for Arc<Script> {
    fn send(&self, request: &Request<'_>) -> Result<Response, TransportError> {
        self.sent.lock().unwrap().push(Sent {
            method: request.method.clone(),
            path: request.path.to_owned(),
            body: request.body.map(|body| String::from_utf8(body.to_vec()).unwrap()),
            credentials: request.credentials.clone(),
            timeout: request.timeout,
            connection_max_idle: request.connection_max_idle,
        });
        self.clock.advance(self.latency);
        let answer = self.answers.lock().unwrap().pop_front();
        answer.expect("the script provides for every call")
    }
}

/// A client that follows a script, with handles to inspect it.
pub(super) struct Fixture {
    pub(super) client: Client,
    pub(super) script: Arc<Script>,
    pub(super) clock: Arc<FakeClock>,
}

impl Fixture {
    pub(super) fn new(answers: impl IntoIterator<Item = Result<Response, TransportError>>) -> Self {
        Self::with_credentials(token(TOKEN), answers)
    }

    pub(super) fn with_credentials(
        credentials: Credentials,
        answers: impl IntoIterator<Item = Result<Response, TransportError>>,
    ) -> Self {
        let clock = FakeClock::new();
        let script = Arc::new(Script {
            answers: Mutex::new(answers.into_iter().collect()),
            sent: Mutex::default(),
            clock: Arc::clone(&clock),
            latency: Duration::from_millis(50),
        });
        let client = Client::with_transport(
            Box::new(Arc::clone(&script)),
            credentials,
            Arc::clone(&clock) as Arc<dyn Clock>,
        );
        Self { client, script, clock }
    }

    /// The deadline of a request that has only begun.
    pub(super) fn deadline(&self) -> Deadline {
        self.deadline_after(Duration::from_secs(12))
    }

    pub(super) fn deadline_after(&self, budget: Duration) -> Deadline {
        Deadline::after(&*self.clock, budget)
    }
}

pub(super) fn token(text: &str) -> Credentials {
    Credentials { secret: Secret::parse(text).unwrap(), email: None }
}

pub(super) fn answer(status: u16, body: &str) -> Result<Response, TransportError> {
    Ok(Response { status, body: body.as_bytes().to_vec(), ..Response::default() })
}

/// A successful answer around `result`.
pub(super) fn success(result: &str) -> Result<Response, TransportError> {
    answer(200, &format!(r#"{{"success":true,"errors":[],"messages":[],"result":{result}}}"#))
}

pub(super) fn failure(status: u16, code: u32, message: &str) -> Result<Response, TransportError> {
    answer(
        status,
        &format!(
            r#"{{"success":false,"errors":[{{"code":{code},"message":"{message}"}}],"messages":[],"result":null}}"#
        ),
    )
}

pub(super) fn limited(retry_after: Option<&str>) -> Result<Response, TransportError> {
    Ok(Response { status: 429, retry_after: retry_after.map(str::to_owned), ..Response::default() })
}
