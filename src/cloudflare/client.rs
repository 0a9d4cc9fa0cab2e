//! Sends every call with credentials and within the rate limit, and retries reads if that can help.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::envelope::{self, PageInfo, Take};
use super::error::Error;
use super::error_class::ApiResource;
use super::limiter::Limiter;
use super::settings::{ClientSettings, CredentialFile, Credentials};
use super::transport::{HttpTransport, Method, Request, Response, Transport};
use crate::clock::{Clock, Deadline, unix_seconds_of_http_date};
use crate::limits::{CALL_MIN, CALL_TIMEOUT, CONNECTION_MAX_IDLE, PAGES_MAX};
use crate::locks::lock;
use crate::logging;
use crate::model::LogLine;
use crate::model::text::percent_encoded;
use crate::observe::metrics::{Family, Metrics};

/// The number of times that a read is retried.
const READ_RETRIES_MAX: u32 = 3;

/// The pause before the first retry. It doubles with each retry.
const RETRY_PAUSE_FIRST: Duration = Duration::from_millis(250);

/// One call, which may be sent several times.
struct Call<'a> {
    resource: ApiResource,
    method: Method,
    /// The path below the base address, with its query.
    path: &'a str,
    body: Option<&'a [u8]>,
}

/// A client of Cloudflare's API, shared by threads.
///
/// Every call gets a deadline and ends by it. Reads are retried if that can help; writes are sent at most once.
#[derive(Debug)]
pub struct Client {
    transport: Box<dyn Transport>,
    clock: Arc<dyn Clock>,
    credentials: Mutex<Arc<Credentials>>,
    /// The file that the secret came from, if it came from a file.
    credential_file: Option<Mutex<CredentialFile>>,
    /// True until a check of the credentials and the tunnels succeeds, and again after a new secret is read, or after a
    /// call fails in a way that suggests that the credentials or the tunnels have changed.
    in_doubt: AtomicBool,
    limiter: Mutex<Limiter>,
    /// The `Date` of the last answer, in seconds since 1970; 0 if there was none.
    date: AtomicI64,
    metrics: Arc<Metrics>,
}

impl Client {
    /// Makes a client, which counts its calls in `metrics`. Nothing is sent yet.
    pub fn new(settings: ClientSettings, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        let transport = HttpTransport::new(&settings, Arc::clone(&clock));
        let credential_file = settings.credential_file.map(|path| Mutex::new(CredentialFile::new(path)));
        let client = Self::with_transport(Box::new(transport), settings.credentials, clock);
        Self { credential_file, metrics, ..client }
    }

    pub(super) fn with_transport(
        transport: Box<dyn Transport>,
        credentials: Credentials,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            transport,
            clock,
            credentials: Mutex::new(Arc::new(credentials)),
            credential_file: None,
            in_doubt: AtomicBool::new(true),
            limiter: Mutex::default(),
            date: AtomicI64::new(0),
            metrics: Arc::default(),
        }
    }

    /// Reads the file of the credentials, and uses a changed secret. Returns true if a new secret is used.
    pub fn read_credential_file(&self) -> bool {
        let Some(file) = &self.credential_file else { return false };
        let mut file = lock(file);
        let credentials = self.credentials();
        let Some(secret) = file.read(&credentials.secret) else { return false };
        *lock(&self.credentials) = Arc::new(Credentials { secret, email: credentials.email.clone() });
        self.in_doubt.store(true, Ordering::Relaxed);
        true
    }

    /// True if the credentials and the tunnels should be checked.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// Remembers that the credentials and the tunnels were checked.
    pub fn settle_doubt(&self) {
        self.in_doubt.store(false, Ordering::Relaxed);
    }

    /// Takes note of a failed call. If the credentials were rejected, their file is read.
    fn remember_failure(&self, resource: ApiResource, error: &Error) {
        let is_doubtful = match error {
            Error::Credentials(_) => {
                self.read_credential_file();
                // A valid token may lack only the permissions of Access. If the token is invalid, other calls show it.
                !resource.concerns_access()
            }
            // A tunnel without a configuration is not missing.
            Error::NotFound(answer) => resource.concerns_tunnels() && !answer.is_never_configured(),
            _ => false,
        };
        if is_doubtful {
            self.in_doubt.store(true, Ordering::Relaxed);
        }
    }

    /// The number of calls that may be sent now, of those granted for five minutes.
    pub fn calls_left(&self) -> u32 {
        u32::try_from(self.limiter().calls_left(self.clock.now())).unwrap_or(u32::MAX)
    }

    /// Cloudflare's time, from the last answer, in seconds since 1970. The clock of this machine may be wrong.
    pub fn date_unix_seconds(&self) -> Option<i64> {
        Some(self.date.load(Ordering::Relaxed)).filter(|date| *date > 0)
    }

    pub(super) fn credentials(&self) -> Arc<Credentials> {
        Arc::clone(&lock(&self.credentials))
    }

    /// Sends a read, and retries it if that can help.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        resource: ApiResource,
        path: &str,
        deadline: Deadline,
    ) -> Result<T, Error> {
        parsed(|take| self.read_with_retries(resource, path, deadline, take)).map(|(result, _)| result)
    }

    fn read_with_retries(
        &self,
        resource: ApiResource,
        path: &str,
        deadline: Deadline,
        take: &mut Take<'_>,
    ) -> Result<PageInfo, Error> {
        let mut retries = 0;
        let mut connection_max_idle = CONNECTION_MAX_IDLE;
        let mut has_changed = false;
        loop {
            self.await_admission(deadline)?;
            let used = self.credentials();
            let call = Call { resource, method: Method::GET, path, body: None };
            let error = match self.call(&call, &used, connection_max_idle, deadline, take) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // Another thread may have read the new credentials.
            if !has_changed && matches!(error, Error::Credentials(_)) && self.credentials() != used {
                has_changed = true;
                continue;
            }
            let remaining = deadline.remaining(&*self.clock);
            let Some(pause) = pause_before_retry(&error, retries, remaining) else { return Err(error) };
            if !pause.is_zero() {
                self.clock.sleep(pause);
            }
            retries += 1;
            // The cause that closed or spoiled one kept connection has done the same to the other kept connections.
            connection_max_idle = Duration::ZERO;
        }
    }

    /// Sends a write at most once, and without waiting, because what was read before must still be true.
    pub(super) fn write<T: DeserializeOwned>(
        &self,
        resource: ApiResource,
        method: Method,
        path: &str,
        body: &[u8],
        deadline: Deadline,
    ) -> Result<T, Error> {
        // An empty body is not sent.
        let call = Call { resource, method, path, body: (!body.is_empty()).then_some(body) };
        parsed(|take| self.write_once(call, deadline, take)).map(|(result, _)| result)
    }

    fn write_once(&self, call: Call<'_>, deadline: Deadline, take: &mut Take<'_>) -> Result<PageInfo, Error> {
        self.admit(true, deadline)?;
        let used = self.credentials();
        // Each write gets a new connection. A server may close a kept connection just as the write arrives, and then
        // nothing tells if the write was done. A handshake costs little.
        self.call(&call, &used, Duration::ZERO, deadline, take)
    }

    /// Reads all pages of a list. Returns the items, and the largest total that an answer gives; 0 if no answer gives
    /// a total. `query` is empty or ends in `&`. Each page's bytes are freed before the next page is read.
    ///
    /// # Errors
    /// [`Error::Unreadable`] also for a page that repeats the page before it, because the list's rest is unknown.
    pub(super) fn list<T: DeserializeOwned + PartialEq>(
        &self,
        resource: ApiResource,
        path: &str,
        query: &str,
        per_page: u32,
        deadline: Deadline,
    ) -> Result<(Vec<T>, f64), Error> {
        let mut items = Vec::new();
        let mut total: f64 = 0.0;
        for page in 1..=PAGES_MAX {
            let path = format!("{path}?{query}page={page}&per_page={per_page}");
            let (page_items, info): (Option<Vec<T>>, PageInfo) =
                parsed(|take| self.read_with_retries(resource, &path, deadline, take))?;
            // Cloudflare documents `null` for tunnels alone. Of zones and records, an empty list would look as if all
            // were deleted.
            if page_items.is_none() && matches!(resource, ApiResource::Zones | ApiResource::Records) {
                return Err(Error::Unreadable("success without a result".into()));
            }
            let mut page_items = page_items.unwrap_or_default();
            let is_last = info.is_last(page, page_items.len(), per_page);
            total = total.max(info.total_count.unwrap_or_default());
            if !page_items.is_empty() && items.ends_with(&page_items) {
                return Err(Error::Unreadable(format!("page {page} of the list brings nothing new").into()));
            }
            if items.is_empty() {
                items = page_items;
            } else {
                items.append(&mut page_items);
            }
            if is_last {
                // The list is kept as long as a snapshot, and its growth left unused capacity.
                items.shrink_to_fit();
                return Ok((items, total));
            }
        }
        Err(Error::Unreadable(format!("the list does not end after {PAGES_MAX} pages").into()))
    }

    /// Waits until the rate limit admits a read, or fails if the deadline is before that.
    fn await_admission(&self, deadline: Deadline) -> Result<(), Error> {
        while let Err(error) = self.admit(false, deadline) {
            let Error::RateLimited { retry_after } = error else { return Err(error) };
            if retry_after + CALL_MIN > deadline.remaining(&*self.clock) {
                return Err(error);
            }
            // A wait of zero would turn this into a busy loop if the clock stood still.
            self.clock.sleep(retry_after.max(Duration::from_millis(1)));
        }
        Ok(())
    }

    /// Counts a call that is about to be sent. Fails if the rate limit does not admit the call now.
    fn admit(&self, is_write: bool, deadline: Deadline) -> Result<(), Error> {
        if deadline.remaining(&*self.clock) < CALL_MIN {
            return Err(Error::OutOfTime);
        }
        let outcome = self.limiter().admit(is_write || deadline.may_use_reserve, self.clock.now());
        outcome.map_err(|retry_after| Error::RateLimited { retry_after })
    }

    /// Sends an admitted request, takes note of the date and the rate limit in its answer, and reads the answer.
    fn call(
        &self,
        call: &Call<'_>,
        credentials: &Credentials,
        connection_max_idle: Duration,
        deadline: Deadline,
        take: &mut Take<'_>,
    ) -> Result<PageInfo, Error> {
        let response = self.send(call, credentials, connection_max_idle, deadline)?;
        if let Some(header) = &response.rate_limit {
            self.limiter().read_header(header, self.clock.now());
        }
        let page = envelope::read(call.resource, &response, take);
        // Another server that answers in place of Cloudflare may have another time.
        let date = response.date.as_deref().filter(|_| page.is_ok());
        if let Some(date) = date.and_then(unix_seconds_of_http_date) {
            self.date.store(date, Ordering::Relaxed);
        }
        page.map_err(|error| match error {
            // The limiter holds back further calls.
            Error::RateLimited { retry_after } => {
                Error::RateLimited { retry_after: self.limiter().block(retry_after, self.clock.now()) }
            }
            error => {
                self.remember_failure(call.resource, &error);
                error
            }
        })
    }

    /// Sends the call, and counts and logs the outcome.
    fn send(
        &self,
        Call { resource, method, path, body }: &Call<'_>,
        credentials: &Credentials,
        connection_max_idle: Duration,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let begun = self.clock.now();
        let outcome = self.transport.send(&Request {
            method,
            path,
            credentials,
            body: *body,
            timeout: deadline.remaining(&*self.clock).min(CALL_TIMEOUT),
            connection_max_idle,
        });
        let duration = self.clock.now().saturating_duration_since(begun);
        let method = method.as_str();
        let status = outcome.as_ref().map_or_else(|_| "none".to_owned(), |answer| answer.status.to_string());
        let label = resource.label_value();
        let mut values = self.metrics.update();
        values.add(Family::Calls, &[label, method, &status], 1);
        values.observe(Family::CallDuration, &[label], duration);
        drop(values);
        logging::debug(module_path!(), || {
            // The query is left out, because it does not help.
            let path = path.split('?').next().unwrap_or_default();
            let line = LogLine::default().word("method", &method).word("path", &path);
            let line = match &outcome {
                Ok(_) => line.word("status", &status),
                Err(error) => line.quoted("error", &*error.to_string()),
            };
            line.word("milliseconds", &duration.as_millis()).text("call to Cloudflare's API")
        });
        outcome.map_err(
            |error| {
                if error.was_sent { Error::Unanswered(error) } else { Error::Unreachable(error) }
            },
        )
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        lock(&self.limiter)
    }
}

/// The parsed result of a call.
fn parsed<T: DeserializeOwned>(
    call: impl FnOnce(&mut Take<'_>) -> Result<PageInfo, Error>,
) -> Result<(T, PageInfo), Error> {
    let mut result = None;
    let page = call(&mut |json| {
        result = Some(serde_json::from_str(json)?);
        Ok(())
    })?;
    Ok((result.expect("a successful call has stored its result"), page))
}

/// The pause before a failed read is retried; `None` if it is not retried. `retries` is the number of retries so far,
/// and `remaining` the time until the deadline.
fn pause_before_retry(error: &Error, retries: u32, remaining: Duration) -> Option<Duration> {
    if retries >= READ_RETRIES_MAX || !error.is_retryable() {
        return None;
    }
    let pause = match error {
        // The limiter delays the next call, or fails it if the delay would be too long.
        Error::RateLimited { .. } => Duration::ZERO,
        // Usually the server has just closed a kept connection.
        error if error.is_disconnect() && retries == 0 => Duration::ZERO,
        _ => RETRY_PAUSE_FIRST * 2_u32.pow(retries),
    };
    (pause + CALL_MIN <= remaining).then_some(pause)
}

/// A path below the API's base address. Each segment is escaped, so an id cannot change the other segments.
pub(super) fn path(segments: &[&str]) -> String {
    segments.iter().map(|segment| format!("/{}", percent_encoded(segment, b"-_"))).collect()
}

#[cfg(test)]
mod tests;
