//! The listener, a thread for each connection, and what faults do to a connection.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::answer::{Answer, Refusal};
use crate::calls::Calls;
use crate::cloudflare::Cloudflare;
use crate::control;
use crate::fault::{Due, Fault, Faults};
use crate::http::{Request, answer_bytes, read_request};
use crate::limit::Limiter;
use crate::past::Age;
use crate::token;

/// Where the API begins.
pub(crate) const BASE_PATH: &str = "/client/v4";

/// Everything that is behind the lock.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) cloudflare: Cloudflare,
    pub(crate) calls: Calls,
    pub(crate) faults: Faults,
    pub(crate) limiter: Limiter,
    /// Goes up when hanging calls are let go.
    pub(crate) releases: u64,
    stopping: bool,
    connections: BTreeMap<u64, TcpStream>,
    connections_made: u64,
}

/// The state of an emulator, shared by its connections.
#[derive(Debug)]
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Signalled when hanging and delayed calls have to look again.
    pub(crate) woken: Condvar,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            cloudflare: Cloudflare::new(),
            calls: Calls::default(),
            faults: Faults::default(),
            limiter: Limiter::default(),
            releases: 0,
            stopping: false,
            connections: BTreeMap::new(),
            connections_made: 0,
        };
        Self { inner: Mutex::new(inner), woken: Condvar::new() }
    }

    /// The state. A test that panicked while it held the lock does not make the others blind.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until `until` holds, the emulator stops, or the time is over; looks at every signal.
    pub(crate) fn wait<'a>(
        &self,
        guard: MutexGuard<'a, Inner>,
        timeout: Option<Duration>,
        until: impl Fn(&Inner) -> bool,
    ) -> MutexGuard<'a, Inner> {
        let goes_on = |inner: &mut Inner| !inner.stopping && !until(inner);
        match timeout {
            Some(timeout) => {
                let waited = self.woken.wait_timeout_while(guard, timeout, goes_on);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.woken.wait_while(guard, goes_on).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// A listening server; stops when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    pub(crate) address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on an address; port 0 is any free one.
    pub(crate) fn start(address: SocketAddr, shared: Arc<Shared>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let accepted = Arc::clone(&shared);
        let accepting = thread::spawn(move || accept(&listener, &accepted));
        Ok(Self { shared, address, accepting: Some(accepting) })
    }

    /// Blocks until the listener ends, which it does only with the process.
    pub(crate) fn wait(mut self) {
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.stopping = true;
        for connection in std::mem::take(&mut inner.connections).into_values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(inner);
        self.shared.woken.notify_all();
        // The listener sees the flag when it is woken by one more connection.
        let ip =
            if self.address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { self.address.ip() };
        let _ = TcpStream::connect_timeout(&SocketAddr::new(ip, self.address.port()), Duration::from_secs(1));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let mut inner = shared.lock();
        if inner.stopping {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(handle) = stream.try_clone() else { continue };
        inner.connections_made += 1;
        let number = inner.connections_made;
        inner.connections.insert(number, handle);
        drop(inner);
        let registered = Registered { shared: Arc::clone(shared), number };
        thread::spawn(move || {
            let end = serve(stream, &registered.shared);
            // The last handle has to be this one for the way of closing to take effect.
            drop(registered);
            end.close();
        });
    }
}

/// A connection's place among the open ones. Given up also when an edit of a test panics, so that the client sees
/// the connection end.
struct Registered {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.lock().connections.remove(&self.number);
    }
}

/// How a connection ends.
struct End {
    stream: TcpStream,
    reset: bool,
}

impl End {
    fn close(self) {
        if self.reset {
            let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> End {
    let _ = stream.set_nodelay(true);
    let mut unread = Vec::new();
    while let Ok(Some(request)) = read_request(&mut stream, &mut unread) {
        let reaction = respond(shared, &request);
        let date = shared.lock().cloudflare.clock.http_date();
        let (bytes, keep_alive) = match reaction {
            Reaction::Answer(answer) => {
                (answer_bytes(&answer, &date, request.keep_alive), request.keep_alive)
            }
            Reaction::Half(answer) => {
                let mut bytes = answer_bytes(&answer, &date, false);
                bytes.truncate(bytes.len() - answer.body.len().div_ceil(2));
                (bytes, false)
            }
            Reaction::Close => return End { stream, reset: false },
            Reaction::Reset => return End { stream, reset: true },
        };
        if stream.write_all(&bytes).is_err() || !keep_alive {
            break;
        }
    }
    End { stream, reset: false }
}

/// What the client sees.
enum Reaction {
    Answer(Answer),
    Half(Answer),
    Close,
    Reset,
}

fn respond(shared: &Shared, request: &Request) -> Reaction {
    if let Some(path) = request.path.strip_prefix(control::BASE_PATH) {
        return Reaction::Answer(control::answer(shared, path, request));
    }
    let mut inner = shared.lock();
    let Some(path) = request.path.strip_prefix(BASE_PATH) else {
        return Reaction::Answer(Refusal::no_route(&request.path).into_answer());
    };
    let now = inner.cloudflare.clock.now();
    let client = inner.cloudflare.client();
    let sequence = inner.calls.arrive(request, path, client, now);
    shared.woken.notify_all();
    inner.cloudflare.settle();
    let now = inner.cloudflare.clock.now();
    let Inner { faults, cloudflare, .. } = &mut *inner;
    let can_act = |fault: &Fault| cloudflare.past.as_ref().is_none_or(|past| past.lets_act(fault, path, now));
    let Due { fault, runs_before, edits_before, edits_after } =
        faults.due(&request.method, path, &request.body, now, can_act);
    for (client, run) in runs_before {
        let present = inner.cloudflare.call_as(client);
        drop(inner);
        run();
        inner = shared.lock();
        inner.cloudflare.call_as(present);
    }
    for edit in edits_before {
        edit(&mut inner.cloudflare);
        inner.cloudflare.look();
    }
    let now = inner.cloudflare.clock.now();
    let credentials = token::presented(request).unwrap_or_default();
    let is_done = fault.as_ref().is_none_or(Fault::is_done);
    let writes_ago = if let Some(Fault::Old { writes }) = fault { writes } else { 0 };
    let (mut answer, shown) = match inner.limiter.count(credentials, now) {
        Some(refused) => (refused, None),
        None if is_done => inner.cloudflare.answer_as_of(path, request, writes_ago),
        None => (Answer::new(500, ""), None),
    };
    let shown = shown.filter(|_| answer.status < 300);
    for edit in edits_after {
        edit(&mut inner.cloudflare);
        inner.cloudflare.look();
    }
    let is_whole = !matches!(fault, Some(Fault::Says { .. }));
    let is_told = fault.as_ref().is_none_or(Fault::is_told);
    let (mut inner, reaction) = suffer(shared, inner, fault, &mut answer);
    if let Reaction::Answer(answer) | Reaction::Half(answer) = &reaction {
        let now = inner.cloudflare.clock.now();
        let Inner { cloudflare, calls, .. } = &mut *inner;
        let shown = cloudflare.past.as_mut().zip(shown.filter(|_| is_told));
        let age = shown.map(|(past, shown)| {
            let age = past.age(&shown, now);
            past.tell(shown, request.method != "GET", is_whole, now);
            Age { contradicts: !is_whole, ..age }
        });
        calls.answered(sequence, answer, age.unwrap_or_default(), now);
    }
    let mut reaction = reaction;
    if let Reaction::Answer(answer) | Reaction::Half(answer) = &mut reaction {
        answer.headers.extend(inner.limiter.headers(credentials, now));
        answer.headers.push(("cf-ray".to_owned(), format!("{sequence:016x}-LOC")));
    }
    reaction
}

/// Lets a fault act on the answer.
fn suffer<'a>(
    shared: &'a Shared,
    mut inner: MutexGuard<'a, Inner>,
    fault: Option<Fault>,
    answer: &mut Answer,
) -> (MutexGuard<'a, Inner>, Reaction) {
    let reaction = match fault {
        None => Reaction::Answer(answer.clone()),
        Some(Fault::Status { code, headers, body }) => {
            Reaction::Answer(Answer { status: code, headers, body })
        }
        Some(Fault::Delay(delay)) if inner.cloudflare.clock.is_stopped() => {
            inner.cloudflare.advance_clock(delay);
            Reaction::Answer(answer.clone())
        }
        Some(Fault::Delay(delay)) => {
            let inner = shared.wait(inner, Some(delay), |_| false);
            return (inner, Reaction::Answer(answer.clone()));
        }
        Some(Fault::Hang) => {
            let releases = inner.releases;
            let inner = shared.wait(inner, None, |inner| inner.releases > releases);
            return (inner, Reaction::Close);
        }
        Some(Fault::Reset) => Reaction::Reset,
        Some(Fault::Truncated) => Reaction::Half(answer.clone()),
        Some(Fault::Garbage) => {
            let mut page = Answer::new(200, "<!DOCTYPE html><title>Welcome</title><h1>Please sign in</h1>");
            page.headers.push(("content-type".to_owned(), "text/html".to_owned()));
            Reaction::Answer(page)
        }
        Some(Fault::DoneButUnanswered) => Reaction::Close,
        Some(Fault::Old { writes: _ }) => Reaction::Answer(answer.clone()),
        Some(Fault::Says { member, value }) => Reaction::Answer(answer.saying(&member, &value)),
        Some(Fault::Known(fault) | Fault::Unknown(fault)) => {
            return suffer(shared, inner, Some(*fault), answer);
        }
        Some(Fault::DoneBut(fault)) => return suffer(shared, inner, Some(*fault), answer),
    };
    (inner, reaction)
}
