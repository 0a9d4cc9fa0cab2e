//! The client: credentials, the rate limit, and the way of every call.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::envelope::{Answer, Context};
use super::error::{Area, Error};
use super::limiter::Limiter;
use super::retry::{self, Jitter};
use super::transport::{HttpTransport, Method, Request, Response, Transport};
use crate::clock::{Clock, Deadline};
use crate::limits::{CALL_MINIMUM, CALL_TIMEOUT, CONNECTION_MAX_IDLE, PAGES_MAX, WRITE_CONNECTION_MAX_IDLE};
use crate::secret::Secret;

/// How this program names itself to Cloudflare.
pub const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// What a client is made of.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Where the API is: `https://api.cloudflare.com/client/v4`. Plain `http` is possible, for tests.
    pub base_url: String,
    /// What calls are made with; see [`Client::set_credentials`].
    pub credentials: Credentials,
    /// Certificate authorities trusted besides the compiled-in ones: the contents of a PEM file.
    pub ca_file: Option<Vec<u8>>,
    /// Mostly [`USER_AGENT`].
    pub user_agent: String,
}

/// What a call is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// An API token, of a user or of an account.
    Token(Secret),
    /// The older pair.
    Key {
        /// The global API key.
        key: Secret,
        /// The user that it belongs to.
        email: Box<str>,
    },
}

impl Credentials {
    fn secret(&self) -> &Secret {
        match self {
            Self::Token(secret) | Self::Key { key: secret, .. } => secret,
        }
    }
}

/// Why there is no client: a setting is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// Not `https://host` or `http://host`, perhaps with port and path; or with a user, a query or a fragment.
    BaseUrl,
    /// The PEM file, and what is wrong with it.
    Certificates(&'static str),
    /// Cannot be sent in a header.
    UserAgent,
}

impl fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BaseUrl => formatter
                .write_str("the API's address must look like https://api.cloudflare.com/client/v4, without user or query"),
            Self::Certificates(problem) => write!(formatter, "the file of certificate authorities {problem}"),
            Self::UserAgent => formatter.write_str("the user agent cannot be sent in a header"),
        }
    }
}

impl std::error::Error for ClientError {}

/// How much may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Calls that may be sent at once, of those granted for five minutes.
    pub calls_left_in_window: u32,
    /// How long nothing will be sent, when the rate limit is used up.
    pub blocked_for: Option<Duration>,
}

/// A client of Cloudflare's API, shared by threads.
///
/// Every call is given a deadline and ends by it. Calls that read are repeated where that can help; calls that write are
/// sent at most once.
#[derive(Debug)]
pub struct Client {
    transport: Box<dyn Transport>,
    clock: Arc<dyn Clock>,
    credentials: RwLock<Arc<Credentials>>,
    limiter: Mutex<Limiter>,
    jitter: Jitter,
}

impl Client {
    /// Makes a client. Nothing is sent yet.
    ///
    /// # Errors
    /// When a setting is wrong.
    pub fn new(settings: ClientSettings, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        let transport = HttpTransport::new(&settings, Arc::clone(&clock))?;
        Ok(Self::with_transport(Box::new(transport), settings.credentials, clock, Jitter::random()))
    }

    pub(super) fn with_transport(
        transport: Box<dyn Transport>,
        credentials: Credentials,
        clock: Arc<dyn Clock>,
        jitter: Jitter,
    ) -> Self {
        Self {
            transport,
            clock,
            credentials: RwLock::new(Arc::new(credentials)),
            limiter: Mutex::default(),
            jitter,
        }
    }

    /// Makes later calls with other credentials, as when their file has changed.
    pub fn set_credentials(&self, credentials: Credentials) {
        *self.credentials.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(credentials);
    }

    /// How much may be sent now.
    pub fn budget(&self) -> Budget {
        let now = self.clock.now();
        let mut limiter = self.limiter();
        Budget {
            calls_left_in_window: u32::try_from(limiter.calls_left(now)).unwrap_or(u32::MAX),
            blocked_for: limiter.blocked_for(now),
        }
    }

    pub(super) fn credentials(&self) -> Arc<Credentials> {
        Arc::clone(&self.credentials.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads, again where that can help.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        area: Area,
        path: &str,
        deadline: Deadline,
    ) -> Result<Answer<T>, Error> {
        let mut retries = 0;
        let mut connection_max_idle = CONNECTION_MAX_IDLE;
        loop {
            self.await_admission(deadline)?;
            let error = match self.call(area, Method::Get, path, None, connection_max_idle, deadline) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let remaining = deadline.remaining(&*self.clock);
            let Some(retry) = retry::retry(&error, retries, remaining, self.jitter.fraction()) else {
                return Err(error);
            };
            if retry.fresh {
                connection_max_idle = Duration::ZERO;
            }
            if !retry.pause.is_zero() {
                self.clock.sleep(retry.pause);
            }
            retries += 1;
        }
    }

    /// Writes, at most once, and at once or not at all: what was read before must still be true.
    pub(super) fn write<T: DeserializeOwned>(
        &self,
        area: Area,
        method: Method,
        path: &str,
        body: &[u8],
        deadline: Deadline,
    ) -> Result<Answer<T>, Error> {
        self.admit(deadline)?.map_err(|retry_after| Error::Limited { retry_after })?;
        self.call(area, method, path, Some(body), WRITE_CONNECTION_MAX_IDLE, deadline)
    }

    /// Reads all pages of a list. `query` is empty or ends in `&`. A page's bytes are freed before the next is read.
    pub(super) fn list<Wire: DeserializeOwned, Item>(
        &self,
        area: Area,
        path: &str,
        query: &str,
        per_page: u32,
        deadline: Deadline,
        convert: impl Fn(Wire) -> Result<Item, Error>,
    ) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for page in 1..=PAGES_MAX {
            let path = format!("{path}?{query}page={page}&per_page={per_page}");
            let answer: Answer<Vec<Wire>> = self.read(area, &path, deadline)?;
            let page_items = answer.result.unwrap_or_default();
            let is_last = answer.page.is_last(page, page_items.len(), per_page);
            items.reserve_exact(page_items.len());
            for item in page_items {
                items.push(convert(item)?);
            }
            if is_last {
                return Ok(items);
            }
        }
        Err(Error::Unreadable {
            status: 200,
            reason: format!("the list does not end after {PAGES_MAX} pages").into(),
        })
    }

    /// Waits until the rate limit lets a call through, when that is soon enough.
    fn await_admission(&self, deadline: Deadline) -> Result<(), Error> {
        while let Err(wait) = self.admit(deadline)? {
            if wait + CALL_MINIMUM > deadline.remaining(&*self.clock) {
                return Err(Error::Limited { retry_after: wait });
            }
            // Never nothing, or a clock that stands still would turn this into a busy loop.
            self.clock.sleep(wait.max(Duration::from_millis(1)));
        }
        Ok(())
    }

    /// Counts a call that is about to be sent, or says how long none may be.
    fn admit(&self, deadline: Deadline) -> Result<Result<(), Duration>, Error> {
        if deadline.remaining(&*self.clock) < CALL_MINIMUM {
            return Err(Error::OutOfTime);
        }
        Ok(self.limiter().admit(self.clock.now()))
    }

    /// Sends a request that was admitted, and reads its answer.
    fn call<T: DeserializeOwned>(
        &self,
        area: Area,
        method: Method,
        path: &str,
        body: Option<&[u8]>,
        connection_max_idle: Duration,
        deadline: Deadline,
    ) -> Result<Answer<T>, Error> {
        let credentials = self.credentials();
        let begun = self.clock.now();
        let outcome = self.transport.send(&Request {
            method,
            path,
            credentials: &credentials,
            body,
            timeout: deadline.remaining(&*self.clock).min(CALL_TIMEOUT),
            connection_max_idle,
        });
        let milliseconds = self.clock.now().saturating_duration_since(begun).as_millis();
        // Without the query: it holds nothing that helps.
        let shown_path = path.split('?').next().unwrap_or_default();
        let method = method.as_str();
        match outcome {
            Ok(response) => {
                let status = response.status;
                log::debug!(
                    "call method={method} path={shown_path} status={status} milliseconds={milliseconds}"
                );
                self.judge(area, &credentials, &response)
            }
            Err(error) => {
                log::debug!(
                    "call method={method} path={shown_path} error=\"{error}\" milliseconds={milliseconds}"
                );
                Err(if error.was_sent() { Error::Unanswered(error) } else { Error::Unreachable(error) })
            }
        }
    }

    /// Reads an answer, and takes note of what it says about the rate limit.
    fn judge<T: DeserializeOwned>(
        &self,
        area: Area,
        credentials: &Credentials,
        response: &Response,
    ) -> Result<Answer<T>, Error> {
        if let Some(header) = &response.rate_limit {
            self.limiter().observe(header, self.clock.now());
        }
        let context = Context {
            area,
            status: response.status,
            retry_after: response
                .retry_after
                .as_deref()
                .and_then(|value| retry::retry_after(value, response.date.as_deref())),
            secret: credentials.secret(),
        };
        context.read(&response.body).map_err(|error| match error {
            Error::Limited { retry_after } => {
                Error::Limited { retry_after: self.limiter().block(retry_after, self.clock.now()) }
            }
            error => error,
        })
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::identifier::{AccountId, RecordId, ZoneId};
    use super::super::record::{Batch, Record};
    use super::super::testing::{Stage, TOKEN, answer, failure, limited, success, token};
    use super::super::transport::{TransportError, TransportErrorKind};
    use super::*;
    use crate::tunnel::TunnelId;

    const SECOND: Duration = Duration::from_secs(1);

    fn lost(kind: TransportErrorKind, was_sent: bool) -> Result<Response, TransportError> {
        Err(TransportError::new(kind, was_sent, "by the test"))
    }

    fn zone() -> ZoneId {
        ZoneId::new("z1")
    }

    fn one_delete() -> Batch {
        Batch {
            deletes: vec![RecordId::new("r1")],
            ..Batch::default()
        }
    }

    fn tunnel() -> TunnelId {
        TunnelId::parse("6ff42ae2-765d-4adf-8112-31c55c1551ef").unwrap()
    }

    fn records(stage: &Stage) -> Result<Vec<Record>, Error> {
        stage.client.records(&zone(), stage.deadline())
    }

    #[test]
    fn a_read_is_repeated_after_what_may_pass() {
        for (label, first) in [
            ("connection lost", lost(TransportErrorKind::Disconnected, true)),
            ("timed out", lost(TransportErrorKind::TimedOut, true)),
            ("refused", lost(TransportErrorKind::Connect, false)),
            ("no such name", lost(TransportErrorKind::Lookup, false)),
            ("408", answer(408, "")),
            ("500", answer(500, "<html>")),
            ("503", failure(503, 4711, "down")),
            ("1000", failure(400, 1000, "Request timeout")),
            ("10001", failure(400, 10001, "internal error")),
            ("429", limited(Some("1"))),
            (
                "971",
                failure(200, 971, "Please wait").map(|response| Response {
                    retry_after: Some("2".to_owned()),
                    ..response
                }),
            ),
            ("cut off", answer(200, r#"{"success":true,"result":[{"#)),
        ] {
            let stage = Stage::new([first, success("[]")]);
            assert_eq!(records(&stage), Ok(Vec::new()), "{label}");
            assert_eq!(stage.script.sent().len(), 2, "{label}");
        }
    }

    #[test]
    fn a_read_is_not_repeated_after_what_will_not_pass() {
        for (label, first) in [
            ("refused", failure(400, 1004, "DNS Validation Error")),
            ("token", failure(403, 10000, "Authentication error")),
            ("gone", failure(404, 7003, "no route")),
            ("html", answer(200, "<html>")),
            ("redirect", answer(302, "")),
            ("certificate", lost(TransportErrorKind::Certificate, false)),
            ("too large", lost(TransportErrorKind::TooLarge, true)),
        ] {
            let stage = Stage::new([first]);
            assert!(records(&stage).is_err(), "{label}");
            assert_eq!(stage.script.sent().len(), 1, "{label}");
        }
    }

    #[test]
    fn a_read_is_given_up_after_three_repetitions() {
        let stage = Stage::new((0..9).map(|_| answer(502, "")));
        assert!(matches!(records(&stage), Err(Error::Failed(_))));
        assert_eq!(stage.script.sent().len(), 4);
        assert_eq!(stage.clock.sleeps().len(), 3);
    }

    /// ureq hands out a kept connection that the server has just closed.
    #[test]
    fn after_a_lost_connection_a_read_goes_out_at_once_on_a_fresh_one() {
        let stage = Stage::new([lost(TransportErrorKind::Disconnected, true), success("[]")]);
        records(&stage).unwrap();
        let idle: Vec<_> = stage
            .script
            .sent()
            .iter()
            .map(|sent| sent.connection_max_idle)
            .collect();
        assert_eq!(idle, [CONNECTION_MAX_IDLE, Duration::ZERO]);
        assert_eq!(stage.clock.sleeps(), []);
    }

    /// A write that was done but not answered would be done twice.
    #[test]
    fn a_write_is_never_sent_twice() {
        for (label, first, may_have_been_done) in [
            (
                "connection lost",
                lost(TransportErrorKind::Disconnected, true),
                true,
            ),
            ("timed out", lost(TransportErrorKind::TimedOut, true), true),
            (
                "timed out before the body",
                lost(TransportErrorKind::TimedOut, false),
                false,
            ),
            ("refused", lost(TransportErrorKind::Connect, false), false),
            ("no such name", lost(TransportErrorKind::Lookup, false), false),
            ("500", answer(500, ""), true),
            ("408", answer(408, ""), true),
            ("1000", failure(400, 1000, "Request timeout"), true),
            ("garbage", answer(200, "<html>"), true),
            ("cut off", answer(200, r#"{"success":"#), true),
            ("429", limited(Some("1")), false),
            ("429 without a time", limited(None), false),
            ("971", failure(400, 971, "Please wait"), false),
            ("400", failure(400, 1004, "no"), false),
            ("403", failure(403, 10000, "no"), false),
            ("404", failure(404, 81044, "no"), false),
            ("302", answer(302, ""), false),
        ] {
            let config = serde_json::value::to_raw_value(&()).unwrap();
            for is_batch in [true, false] {
                let stage = Stage::new([first.clone()]);
                let (client, deadline) = (&stage.client, stage.deadline());
                let error = if is_batch {
                    client.batch(&zone(), &one_delete(), deadline).unwrap_err()
                } else {
                    client
                        .put_configuration(&AccountId::new("a1"), &tunnel(), &config, deadline)
                        .unwrap_err()
                };
                assert_eq!(stage.script.sent().len(), 1, "{label}");
                assert_eq!(error.may_have_been_done(), may_have_been_done, "{label}: {error}");
            }
        }
    }

    #[test]
    fn a_write_takes_no_connection_that_was_idle_for_long() {
        let stage = Stage::new([success("{}")]);
        stage
            .client
            .batch(&zone(), &one_delete(), stage.deadline())
            .unwrap();
        assert_eq!(
            stage.script.sent()[0].connection_max_idle,
            WRITE_CONNECTION_MAX_IDLE
        );
    }

    #[test]
    fn a_short_rate_limit_is_waited_for() {
        let stage = Stage::new([limited(Some("3")), success("[]")]);
        records(&stage).unwrap();
        assert_eq!(stage.clock.sleeps(), [3 * SECOND]);
    }

    #[test]
    fn a_rate_limit_longer_than_the_deadline_is_remembered_and_nothing_is_sent_until_it_is_over() {
        let stage = Stage::new([limited(Some("300"))]);
        assert_eq!(
            records(&stage),
            Err(Error::Limited {
                retry_after: 300 * SECOND
            })
        );
        stage.clock.advance(100 * SECOND);
        // Reads and writes alike, and neither waits.
        assert_eq!(
            records(&stage),
            Err(Error::Limited {
                retry_after: 200 * SECOND
            })
        );
        assert_eq!(
            stage.client.batch(&zone(), &one_delete(), stage.deadline()),
            Err(Error::Limited {
                retry_after: 200 * SECOND
            })
        );
        assert_eq!(
            stage.client.budget(),
            Budget {
                calls_left_in_window: 0,
                blocked_for: Some(200 * SECOND)
            }
        );
        assert_eq!(stage.script.sent().len(), 1);
        assert_eq!(stage.clock.sleeps(), []);
        stage.clock.advance(200 * SECOND);
        stage.script.push(success("[]"));
        records(&stage).unwrap();
    }

    #[test]
    fn a_rate_limit_without_a_time_stops_all_calls_for_a_minute() {
        let stage = Stage::new([limited(None)]);
        assert_eq!(
            records(&stage),
            Err(Error::Limited {
                retry_after: 60 * SECOND
            })
        );
    }

    /// What was read just before must still be true when a write goes out.
    #[test]
    fn a_write_does_not_wait_for_a_rate_limit() {
        let stage = Stage::new([limited(Some("1"))]);
        let write = || stage.client.batch(&zone(), &one_delete(), stage.deadline());
        assert_eq!(write(), Err(Error::Limited { retry_after: SECOND }));
        assert_eq!(write(), Err(Error::Limited { retry_after: SECOND }));
        assert_eq!(stage.script.sent().len(), 1);
        assert_eq!(stage.clock.sleeps(), []);
    }

    #[test]
    fn the_clients_own_budget_stops_it_before_cloudflare_does() {
        let stage = Stage::new((0..1_100).map(|_| success("[]")));
        for _ in 0..1_100 {
            records(&stage).unwrap();
        }
        // 1,100 calls of 50 ms each.
        let retry_after = Duration::from_secs(300) - 55 * SECOND;
        assert_eq!(records(&stage), Err(Error::Limited { retry_after }));
        assert_eq!(stage.client.budget().calls_left_in_window, 0);
    }

    #[test]
    fn the_rate_limit_header_lowers_the_budget() {
        let stage = Stage::new([success("[]").map(|response| Response {
            rate_limit: Some("\"default\";r=5;t=30".to_owned()),
            ..response
        })]);
        assert_eq!(stage.client.budget().calls_left_in_window, 1_100);
        records(&stage).unwrap();
        assert_eq!(stage.client.budget().calls_left_in_window, 5);
    }

    #[test]
    fn nothing_is_sent_after_the_deadline_and_no_call_is_given_longer() {
        let stage = Stage::new([success("[]"), success("[]")]);
        let over = stage.deadline_after(CALL_MINIMUM - Duration::from_nanos(1));
        assert_eq!(stage.client.records(&zone(), over), Err(Error::OutOfTime));
        assert_eq!(
            stage.client.batch(&zone(), &one_delete(), over),
            Err(Error::OutOfTime)
        );
        assert_eq!(stage.script.sent(), []);
        stage
            .client
            .records(&zone(), stage.deadline_after(SECOND))
            .unwrap();
        stage
            .client
            .records(&zone(), stage.deadline_after(60 * SECOND))
            .unwrap();
        let timeouts: Vec<_> = stage.script.sent().iter().map(|sent| sent.timeout).collect();
        assert_eq!(timeouts, [SECOND, CALL_TIMEOUT]);
    }

    #[test]
    fn repetitions_end_before_the_deadline() {
        let stage = Stage::new((0..9).map(|_| answer(502, "")));
        let deadline = stage.deadline_after(Duration::from_millis(400));
        assert!(matches!(
            stage.client.records(&zone(), deadline),
            Err(Error::Failed(_))
        ));
        assert_eq!(stage.script.sent().len(), 2);
        assert!(!deadline.is_over(&*stage.clock));
    }

    #[test]
    fn later_calls_are_made_with_the_credentials_set_last() {
        let stage = Stage::new([success("[]"), success("[]")]);
        records(&stage).unwrap();
        stage.client.set_credentials(token("another"));
        records(&stage).unwrap();
        let used: Vec<_> = stage
            .script
            .sent()
            .into_iter()
            .map(|sent| sent.credentials)
            .collect();
        assert_eq!(used, [token(TOKEN), token("another")]);
    }

    fn zones_page(range: std::ops::Range<u32>, info: &str) -> Result<Response, TransportError> {
        let zones: Vec<_> = range
            .map(|id| format!(r#"{{"id":"z{id:04}","name":"{id}.example"}}"#))
            .collect();
        answer(
            200,
            &format!(
                r#"{{"success":true,"result":[{}],"result_info":{info}}}"#,
                zones.join(",")
            ),
        )
    }

    #[test]
    fn a_list_is_read_to_its_end_and_repeated_items_are_left_out() {
        for (label, pages, expected, calls) in [
            ("empty", vec![zones_page(0..0, "{}")], 0, 1),
            ("short", vec![zones_page(0..3, "{}")], 3, 1),
            (
                "exactly one page, total unknown",
                vec![zones_page(0..50, "{}"), zones_page(0..0, "{}")],
                50,
                2,
            ),
            (
                "exactly one page, total known",
                vec![zones_page(0..50, r#"{"total_pages":1}"#)],
                50,
                1,
            ),
            (
                "two pages",
                vec![zones_page(0..50, "{}"), zones_page(50..60, "{}")],
                60,
                2,
            ),
            (
                "overlap",
                vec![zones_page(0..50, "{}"), zones_page(49..60, "{}")],
                60,
                2,
            ),
            ("null", vec![success("null")], 0, 1),
        ] {
            let stage = Stage::new(pages);
            let zones = stage.client.zones(stage.deadline()).unwrap();
            assert_eq!(zones.len(), expected, "{label}");
            assert!(zones.windows(2).all(|pair| pair[0].id < pair[1].id), "{label}");
            let paths: Vec<_> = (1..=calls)
                .map(|page| format!("/zones?page={page}&per_page=50"))
                .collect();
            assert_eq!(stage.script.paths(), paths, "{label}");
        }
    }

    #[test]
    fn a_list_without_an_end_is_given_up() {
        let stage = Stage::new((0..=PAGES_MAX).map(|_| zones_page(0..50, "{}")));
        let error = stage
            .client
            .zones(stage.deadline_after(3600 * SECOND))
            .unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{error}");
        assert_eq!(stage.script.sent().len(), PAGES_MAX as usize);
    }

    #[test]
    fn no_text_of_an_error_or_of_the_client_holds_the_token() {
        let echo = format!(r#""echo of {TOKEN} and {}""#, TOKEN.to_uppercase());
        for (label, response) in [
            (
                "message",
                format!(r#"{{"success":false,"errors":[{{"code":1004,"message":{echo}}}]}}"#),
            ),
            (
                "chain",
                format!(
                    r#"{{"success":false,"errors":[{{"code":10000,"message":"x","error_chain":[{{"code":1,"message":{echo}}}]}}]}}"#
                ),
            ),
            ("mere text", format!(r#"{{"success":false,"errors":[{echo}]}}"#)),
            ("wrong type", format!(r#"{{"success":true,"result":[{echo}]}}"#)),
            ("wrong envelope", echo.clone()),
        ] {
            let stage = Stage::new([answer(400, &response), answer(200, &response)]);
            for _ in 0..2 {
                let error = records(&stage).unwrap_err();
                let text = format!("{error} {error:?} {:?}", stage.client).to_ascii_lowercase();
                assert!(!text.contains(&TOKEN.to_ascii_lowercase()), "{label}: {text}");
            }
        }
    }
}
