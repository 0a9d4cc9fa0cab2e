//! The proxy on loopback. It alone holds the token, asks the guard about each call, writes intents down, and keeps what
//! was answered.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tiny_http::{Header, Response, Server};
use ureq::http::Request;

use crate::guard::{Bounds, Creates, Known, judge};
use crate::intents::{self, Event};
use crate::probes::Probe;

/// Calls of a run; the last of them are for its end.
const CALLS_MAX: usize = 400;
const CALLS_FOR_THE_END: usize = 80;

/// The time of a run; the last of it is for its end.
const TIME_MAX: Duration = Duration::from_secs(15 * 60);
const TIME_FOR_THE_END: Duration = Duration::from_secs(2 * 60);

/// The step in which all is deleted.
pub const END: &str = "end";

const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A page of 5,000 records has some 4 MB.
const ANSWER_MAX_BYTES: u64 = 32 << 20;

/// Where calls go, and what for.
#[derive(Clone)]
pub struct Settings {
    pub base_url: String,
    pub token: String,
    pub account: String,
    /// The zone's name.
    pub domain: String,
    /// Eight hexadecimal digits.
    pub random: String,
    /// The file of intents.
    pub intents: PathBuf,
    /// Between two calls, so that the rate limit stays far away.
    pub pace: Duration,
    /// How long a list may be late.
    pub patience: Duration,
}

#[derive(Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub text: String,
    pub json: Value,
    pub date: Option<String>,
    headers: Vec<Header>,
}

/// A call that was sent, and its answer.
#[derive(Clone)]
pub struct Call {
    pub step: &'static str,
    pub method: String,
    pub target: String,
    pub body: String,
    pub answer: Answer,
}

#[derive(Default)]
pub struct State {
    pub bounds: Bounds,
    pub known: Known,
    /// What is tried now. At the `END` calls count for what deletes, and Ctrl-C stops nothing more.
    pub step: &'static str,
    pub calls: Vec<Call>,
    /// Calls that were not sent, with the guard's reasons.
    pub refused: Vec<String>,
    /// The probe whose breaking answer a test lets the proxy give in place of Cloudflare's.
    pub lie: Option<Probe>,
    /// Where a test ends the run as if it was killed: at this write (from 1), and whether it is sent.
    pub kill: Option<(usize, bool)>,
    writes: usize,
    last: Option<Instant>,
}

struct Inner {
    settings: Settings,
    agent: ureq::Agent,
    begun: Instant,
    state: Mutex<State>,
    is_stopped: Arc<AtomicBool>,
}

/// A running proxy. It ends when it is dropped.
pub struct Proxy {
    inner: Arc<Inner>,
    server: Arc<Server>,
    serving: Option<JoinHandle<()>>,
}

impl Proxy {
    #[allow(clippy::disallowed_methods, reason = "a run on the live API is bound by real time")]
    pub fn start(settings: Settings, bounds: Bounds, is_stopped: Arc<AtomicBool>) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
        let agent = config.timeout_global(Some(CALL_TIMEOUT)).build().into();
        let state = Mutex::new(State { bounds, ..State::default() });
        let inner = Arc::new(Inner { settings, agent, begun: Instant::now(), state, is_stopped });
        let server = Arc::new(Server::http("127.0.0.1:0").expect("loopback has a free port"));
        let (served, serves) = (Arc::clone(&inner), Arc::clone(&server));
        let serving = thread::spawn(move || serves.incoming_requests().for_each(|call| served.serve(call)));
        Self { inner, server, serving: Some(serving) }
    }

    /// What the binary takes for Cloudflare's address.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.server.server_addr())
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.inner.lock()
    }

    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// A call of the kit. `question` names the probe whose answer this is.
    pub fn ask(&self, method: &str, target: &str, body: &str, question: &str) -> Answer {
        self.inner.pass(method, target, body, question).unwrap_or_else(|reason| panic!("{reason}"))
    }

    pub fn call(&self, method: &str, target: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask(method, target, &body, "")
    }

    /// A successful read of the kit.
    pub fn get(&self, target: &str) -> Answer {
        self.call("GET", target, &Value::Null).succeeded()
    }

    /// All pages of a list.
    pub fn list(&self, target: &str, per_page: usize) -> Vec<Value> {
        let mut all = Vec::new();
        for page in 1.. {
            let sign = if target.contains('?') { '&' } else { '?' };
            let answer = self.get(&format!("{target}{sign}page={page}&per_page={per_page}"));
            let items = answer.items();
            all.extend_from_slice(items);
            if items.len() < per_page {
                break;
            }
        }
        all
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.unblock();
        self.serving.take().map(JoinHandle::join);
    }
}

impl Answer {
    pub fn items(&self) -> &[Value] {
        self.json["result"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    pub fn is_success(&self) -> bool {
        self.json["success"] == true
    }

    pub fn code(&self) -> &Value {
        &self.json["errors"][0]["code"]
    }

    pub fn succeeded(self) -> Self {
        assert!(self.is_success(), "HTTP {} with code {}", self.status, self.code());
        self
    }

    fn believing(mut self, lie: &Probe) -> Self {
        let (above, name) = lie.pointer.rsplit_once('/').unwrap_or_default();
        self.date = self.date.filter(|_| name != "date");
        match (self.json.pointer_mut(above), &lie.value) {
            (Some(Value::Object(members)), Some(value)) => {
                drop(members.insert(name.to_owned(), value.clone()))
            }
            (Some(Value::Object(members)), None) => drop(members.remove(name)),
            (_, _) => {}
        }
        self
    }
}

impl State {
    /// Cloudflare's time, by the last answer, in seconds since 1970.
    pub fn now(&self) -> u64 {
        let dates = self.calls.iter().rev().filter_map(|call| call.answer.date.as_deref());
        let mut times = dates.filter_map(|date| httpdate::parse_http_date(date).ok());
        let since = times.next().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        since.unwrap_or_default().as_secs()
    }
}

#[allow(clippy::disallowed_methods, reason = "the pace of real calls")]
impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut call: tiny_http::Request) {
        let (method, target, mut body) = (call.method().to_string(), call.url().to_owned(), String::new());
        let read = call.as_reader().read_to_string(&mut body).map_err(|error| error.to_string());
        let answer = read.and_then(|_| self.pass(&method, &target, &body, "")).unwrap_or_else(|reason| {
            let error = json!({"code": 10000, "message": format!("not sent: {reason}")});
            let text = json!({"success": false, "errors": [error], "messages": [], "result": null});
            Answer { status: 403, text: text.to_string(), ..Answer::default() }
        });
        let response = Response::from_string(answer.text).with_status_code(answer.status);
        let _ = call.respond(answer.headers.into_iter().fold(response, Response::with_header));
    }

    /// One call after another: what one has taught counts for the next.
    fn pass(&self, method: &str, target: &str, body: &str, question: &str) -> Result<Answer, String> {
        let mut state = self.lock();
        let (path, is_ending) = (target.split('?').next().unwrap_or_default(), state.step == END);
        let (calls, time) =
            if is_ending { (0, Duration::ZERO) } else { (CALLS_FOR_THE_END, TIME_FOR_THE_END) };
        let is_used_up = state.calls.len() + calls >= CALLS_MAX || self.begun.elapsed() + time >= TIME_MAX;
        let judged = match judge(&state.bounds, &state.known, method, target, body) {
            Ok(_) if is_used_up => Err("the calls or the time of a run are used up"),
            judged => judged,
        };
        if !is_ending && self.is_stopped.load(Ordering::Acquire) {
            return Err("the run was stopped".to_owned());
        }
        let creates = judged.map_err(|reason| {
            state.refused.push(format!("{method} {path}: {reason}"));
            reason.to_owned()
        })?;
        let is_write = method != "GET";
        state.writes += usize::from(is_write);
        self.note(&state, &creates, None, false);
        if let Some((_, is_sent)) = state.kill.filter(|(at_write, _)| is_write && state.writes == *at_write) {
            let _ = is_sent.then(|| self.send(method, target, body));
            return Err("the run was killed".to_owned());
        }
        let since = state.last.replace(Instant::now()).map_or(Duration::MAX, |last| last.elapsed());
        thread::sleep(self.settings.pace.saturating_sub(since));
        let mut answer = self.send(method, target, body).map_err(|error| format!("no answer: {error}"))?;
        let made = state.known.learn(path, &creates, &answer.text);
        for (kind, name, id) in made {
            self.note(&state, &vec![(kind, name)], Some(&id), false);
        }
        if (400..500).contains(&answer.status) && answer.json["success"] == false {
            self.note(&state, &creates, None, true);
        }
        if let Some(lie) = state.lie.as_ref().filter(|lie| lie.name == question) {
            answer = answer.believing(lie);
        }
        let [method, target, body] = [method, target, body].map(str::to_owned);
        let call = Call { step: state.step, method, target, body, answer: answer.clone() };
        state.calls.push(call);
        Ok(answer)
    }

    /// Writes down what is to be created, or what its answer says of it. Where that cannot be, nothing is sent.
    fn note(&self, state: &State, creates: &Creates, id: Option<&str>, is_gone: bool) {
        for (kind, name) in creates.clone() {
            let (run, id, at) = (state.bounds.run(), id.map(str::to_owned), state.now());
            let event = Event { run, kind, name, id, at, is_gone };
            intents::append(&self.settings.intents, &event).expect("the file of intents can be written");
        }
    }

    fn send(&self, method: &str, target: &str, body: &str) -> Result<Answer, ureq::Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{target}", self.settings.base_url))
            .header("authorization", format!("Bearer {}", self.settings.token))
            .header("accept", "application/json")
            .header("content-type", "application/json");
        let mut answer = if body.is_empty() {
            self.agent.run(request.body(())?)?
        } else {
            self.agent.run(request.body(body)?)?
        };
        let text = answer.body_mut().with_config().limit(ANSWER_MAX_BYTES).read_to_string()?;
        let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
        let names = ["content-type", "date", "retry-after", "ratelimit"];
        let headers = names.iter().filter_map(|name| Header::from_bytes(*name, header(name)?).ok()).collect();
        let json = serde_json::from_str(&text).unwrap_or_default();
        Ok(Answer { status: answer.status().as_u16(), text, json, date: header("date"), headers })
    }
}
