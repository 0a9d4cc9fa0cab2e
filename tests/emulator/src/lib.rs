//! Cloudflare on loopback: a stateful emulator of the v4 API as far as publishing hostnames through tunnels needs
//! it, for tests and demonstrations.
//!
//! ```
//! use cloudflare_emulator::{Emulator, Fault, Matcher, Plan, Token};
//! use serde_json::json;
//!
//! let emulator = Emulator::start();
//! emulator.add_token(Token::full("token-of-the-shop"));
//! let zone = emulator.add_zone("example.com", Plan::Free);
//! let tunnel = emulator.add_tunnel("shop");
//! let target = emulator.edit(|cloudflare| cloudflare.tunnel(&tunnel).hostname());
//! emulator.edit(|cloudflare| {
//!     let record = json!({"type": "CNAME", "name": "www", "content": target, "proxied": true});
//!     cloudflare.add_record(&zone, record)?;
//!     cloudflare.put_configuration(&tunnel, r#"{"ingress": [{"service": "http://shop:80"}]}"#)
//! })?;
//! let visit = emulator.visit("www.example.com", "/").to_string();
//! assert_eq!(visit, format!("http://shop:80 by rule 0 of tunnel {tunnel}"));
//!
//! // The second write from now on is done, but its answer never comes.
//! emulator.fault(Matcher::writes(), 2, Fault::DoneButUnanswered);
//! // … point a client at emulator.base_url(), then look at emulator.calls().
//! # Ok::<(), cloudflare_emulator::Refusal>(())
//! ```
//!
//! It enforces Cloudflare's rules: permissions, paging, record types and conflicts, quotas, batch transactions,
//! what cloudflared accepts as a configuration, the rate limit, Access before hostnames and cloudflared's check of it.
//! It can be told to fail in every way at any call, to let another client write in between, and to have [`Whims`]. What
//! is written may take its time to the visitors, which may be watched all along. Configurations are kept as the text
//! they were sent as. A tunnel that is made through the API has no connector until [`Emulator::run_connector`] starts
//! one with its tunnel token; [`Emulator::secrets`] says what no output of a client may hold. What is emulated here was
//! never compared with the live API; error codes inside a 1004, 1001 for tunnels, and much of Access are by analogy, as
//! their modules say.
//!
//! Tests in other languages drive the binary over HTTP: see [`control`].

mod access;
mod answer;
mod batch;
mod calls;
mod clock;
mod cloudflare;
pub mod control;
mod edge;
mod fault;
mod http;
pub mod ingress;
mod json;
mod limit;
mod page;
mod past;
mod record;
mod router;
mod server;
mod token;
mod tunnel;
mod visit;
mod watch;
mod whim;
mod zone;

pub use access::{Application, NeverSetUp, Organization, Policy, Scope, Visitor};
pub use answer::Refusal;
pub use calls::{Call, CallCount};
pub use cloudflare::{Account, Cloudflare};
pub use fault::{Fault, Matcher};
pub use ingress::{RuleText, matching_rule};
pub use limit::RateLimit;
pub use record::Record;
pub use token::{Permission, Token, TokenOwner, TokenStatus};
pub use tunnel::{ConfigSource, NewTunnel, Tunnel, Unconfigured, catch_all};
pub use visit::Visit;
pub use watch::{VisitChange, Watched};
pub use whim::Whims;
pub use zone::{Plan, Zone};

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use fault::{Effect, When};
use server::{Server, Shared};

/// A running emulator. It stops when it is dropped; open connections are closed.
#[derive(Debug)]
pub struct Emulator {
    shared: Arc<Shared>,
    server: Server,
}

impl Emulator {
    /// Starts an emulator on a free port of 127.0.0.1. It holds one account and nothing else, not even a token.
    ///
    /// # Panics
    /// When there is no free port.
    pub fn start() -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into()).expect("loopback has a free port")
    }

    /// Starts an emulator on an address.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn start_at(address: SocketAddr) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new());
        let server = Server::start(address, Arc::clone(&shared))?;
        Ok(Self { shared, server })
    }

    /// Serves until the process ends.
    pub fn serve_forever(self) {
        self.server.wait();
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// `http://127.0.0.1:<port>/client/v4`, what a client takes instead of `https://api.cloudflare.com/client/v4`.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.server.address, server::BASE_PATH)
    }

    /// `http://127.0.0.1:<port>/_emulator`, where tests in other languages drive the emulator; see [`control`].
    pub fn control_url(&self) -> String {
        format!("http://{}{}", self.server.address, control::BASE_PATH)
    }

    /// Looks at what Cloudflare holds, or changes it by hand, between two calls. The emulator itself is not to be
    /// used inside `edit`: it is locked.
    pub fn edit<T>(&self, edit: impl FnOnce(&mut Cloudflare) -> T) -> T {
        let cloudflare = &mut self.shared.lock().cloudflare;
        cloudflare.settle();
        let result = edit(cloudflare);
        cloudflare.look();
        result
    }

    /// The id of the account that is there from the start.
    pub fn account(&self) -> String {
        self.edit(|cloudflare| cloudflare.first_account())
    }

    /// Adds a token.
    pub fn add_token(&self, token: Token) {
        self.edit(|cloudflare| cloudflare.add_token(token));
    }

    /// Adds an active zone to the first account and says its id.
    pub fn add_zone(&self, name: &str, plan: Plan) -> String {
        self.edit(|cloudflare| cloudflare.add_zone(name, plan))
    }

    /// Adds a live, remotely-managed tunnel without configuration to the first account and says its id.
    pub fn add_tunnel(&self, name: &str) -> String {
        self.edit(|cloudflare| cloudflare.add_tunnel(name))
    }

    /// See [`Cloudflare::secrets`].
    pub fn secrets(&self) -> Vec<String> {
        self.edit(|cloudflare| cloudflare.secrets())
    }

    /// See [`Cloudflare::run_connector`].
    ///
    /// # Errors
    /// What cloudflared says.
    pub fn run_connector(&self, token_file: &str) -> Result<String, &'static str> {
        self.edit(|cloudflare| cloudflare.run_connector(token_file))
    }

    /// Adds a record by hand and says its id; see [`Cloudflare::add_record`].
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn add_record(&self, zone: &str, record: Value) -> Result<String, Refusal> {
        self.edit(|cloudflare| cloudflare.add_record(zone, record))
    }

    /// Adds many records by hand, all or none; see [`Cloudflare::add_records`].
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn add_records(&self, zone: &str, records: &[Value]) -> Result<Vec<String>, Refusal> {
        self.edit(|cloudflare| cloudflare.add_records(zone, records))
    }

    /// Writes a tunnel's configuration by hand; see [`Cloudflare::put_configuration`].
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn put_configuration(&self, tunnel: &str, config: &str) -> Result<i64, Refusal> {
        self.edit(|cloudflare| cloudflare.put_configuration(tunnel, config))
    }

    /// The records of a zone, by its id or name, oldest first.
    pub fn records(&self, zone: &str) -> Vec<Record> {
        self.edit(|cloudflare| cloudflare.records(zone).to_vec())
    }

    /// The text of a tunnel's configuration as it is stored, by the tunnel's id or name; `None` where there is none.
    pub fn configuration(&self, tunnel: &str) -> Option<String> {
        self.edit(|cloudflare| {
            cloudflare.configuration(tunnel).map(|config| RawValue::get(config).to_owned())
        })
    }

    /// The version of a tunnel's configuration: how often it was PUT.
    pub fn version(&self, tunnel: &str) -> i64 {
        self.edit(|cloudflare| cloudflare.tunnel(tunnel).version)
    }

    /// See [`Cloudflare::set_up_access`].
    pub fn set_up_access(&self, team: &str) {
        self.edit(|cloudflare| cloudflare.set_up_access(team));
    }

    /// See [`Cloudflare::add_policy`].
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn add_policy(&self, policy: &Value) -> Result<String, Refusal> {
        self.edit(|cloudflare| cloudflare.add_policy(policy))
    }

    /// See [`Cloudflare::add_application`].
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn add_application(&self, application: &Value) -> Result<String, Refusal> {
        self.edit(|cloudflare| cloudflare.add_application(application))
    }

    /// The Access applications of all accounts and zones, oldest first.
    pub fn applications(&self) -> Vec<Application> {
        self.edit(|cloudflare| cloudflare.applications().to_vec())
    }

    /// What a visitor of `https://host/path` gets that has no login.
    pub fn visit(&self, host: &str, path: &str) -> Visit {
        self.edit(|cloudflare| cloudflare.visit(host, path))
    }

    /// The same, of another visitor.
    pub fn visit_as(&self, visitor: Visitor, host: &str, path: &str) -> Visit {
        self.edit(|cloudflare| cloudflare.visit_as(visitor, host, path))
    }

    /// Every call since the start, or since they were taken.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.lock().calls.all().to_vec()
    }

    /// The same, and forgets them.
    pub fn take_calls(&self) -> Vec<Call> {
        self.shared.lock().calls.take()
    }

    /// How many there are.
    pub fn count_calls(&self) -> CallCount {
        CallCount::of(self.shared.lock().calls.all())
    }

    /// Blocks until at least so many calls have arrived since the start, answered or not, and says whether they have
    /// within `timeout`.
    pub fn wait_for_calls(&self, count: u64, timeout: Duration) -> bool {
        let arrived = |inner: &server::Inner| inner.calls.made() >= count;
        arrived(&self.shared.wait(self.shared.lock(), Some(timeout), arrived))
    }

    /// Lets the n-th matching call from now (from 1) go wrong. When several faults are due at one call, the one set
    /// first acts and all are spent.
    ///
    /// # Panics
    /// When the fault is an old answer and no past is kept.
    pub fn fault(&self, matcher: Matcher, nth: usize, fault: Fault) {
        self.arm_fault(matcher, When::Nth(nth), fault);
    }

    fn arm_fault(&self, matcher: Matcher, when: When, fault: Fault) {
        let mut inner = self.shared.lock();
        let has_past = inner.cloudflare.past.is_some();
        assert!(has_past || !fault.needs_past(), "keep_past comes before an old answer");
        inner.faults.arm(matcher, when, Effect::Fault(fault));
    }

    /// Lets the n-th call from now (from 1) go wrong, whichever it is: so a test can drive every point in turn.
    pub fn fault_at(&self, nth: usize, fault: Fault) {
        self.fault(Matcher::any(), nth, fault);
    }

    /// Lets every matching call go wrong until the faults are cleared.
    pub fn fault_every(&self, matcher: Matcher, fault: Fault) {
        self.arm_fault(matcher, When::Always, fault);
    }

    /// Lets another client make all its calls right before the n-th matching call (from 1) is done, as that client (see
    /// [`Cloudflare::call_as`]). Unlike an edit it makes them over the API, so the emulator is not locked meanwhile.
    pub fn run_before(&self, matcher: Matcher, nth: usize, client: u64, run: impl FnOnce() + Send + 'static) {
        self.shared.lock().faults.arm(matcher, When::Nth(nth), Effect::RunBefore(client, Box::new(run)));
    }

    /// Runs an edit by hand right before the n-th matching call (from 1) is done.
    pub fn edit_before(
        &self,
        matcher: Matcher,
        nth: usize,
        edit: impl FnOnce(&mut Cloudflare) + Send + 'static,
    ) {
        self.shared.lock().faults.arm(matcher, When::Nth(nth), Effect::EditBefore(Box::new(edit)));
    }

    /// Runs an edit by hand right after the n-th matching call (from 1) was done, before it is answered.
    pub fn edit_after(
        &self,
        matcher: Matcher,
        nth: usize,
        edit: impl FnOnce(&mut Cloudflare) + Send + 'static,
    ) {
        self.shared.lock().faults.arm(matcher, When::Nth(nth), Effect::EditAfter(Box::new(edit)));
    }

    /// How many faults and edits still wait for their call. Zero after a run: the run made so many calls.
    pub fn waiting_faults(&self) -> usize {
        self.shared.lock().faults.waiting()
    }

    /// Forgets all faults and edits that wait. Calls that hang already go on hanging.
    pub fn clear_faults(&self) {
        self.shared.lock().faults.clear();
    }

    /// Closes the connections of all calls that hang now.
    pub fn release(&self) {
        self.shared.lock().releases += 1;
        self.shared.woken.notify_all();
    }

    /// Sets how many calls a token may make.
    pub fn set_rate_limit(&self, limit: RateLimit) {
        self.shared.lock().limiter.limit = limit;
    }

    /// Lets every matching call go wrong from the n-th (from 1) on, for so long.
    pub fn fault_for(&self, matcher: Matcher, nth: usize, lasting: Duration, fault: Fault) {
        self.arm_fault(matcher, When::From { nth, lasting }, fault);
    }

    /// Puts Cloudflare's clock ahead: rate limits and blocks run out sooner, and what is under way to the edge arrives.
    pub fn advance_clock(&self, by: Duration) {
        self.edit(|cloudflare| cloudflare.advance_clock(by));
    }

    /// Lets Cloudflare's time pass from now on only where it is put ahead. [`Fault::Delay`] puts it ahead too, and
    /// takes no real time.
    pub fn stop_clock(&self) {
        self.edit(|cloudflare| cloudflare.clock.stop());
    }

    /// See [`Cloudflare::keep_past`].
    pub fn keep_past(&self) {
        self.edit(Cloudflare::keep_past);
    }

    /// See [`Cloudflare::call_as`].
    pub fn call_as(&self, client: u64) {
        self.edit(|cloudflare| cloudflare.call_as(client));
    }

    /// Cloudflare's time, for a client that is to go by it.
    pub fn time(&self) -> Time {
        Time { shared: Arc::clone(&self.shared) }
    }

    /// See [`Cloudflare::delay_configurations`].
    pub fn delay_configurations(&self, tunnel: &str, delays: &[Duration]) {
        self.edit(|cloudflare| cloudflare.delay_configurations(tunnel, delays));
    }

    /// See [`Cloudflare::delay_records`].
    pub fn delay_records(&self, delay: Duration) {
        self.edit(|cloudflare| cloudflare.delay_records(delay));
    }

    /// See [`Cloudflare::delay_applications`].
    pub fn delay_applications(&self, delay: Duration) {
        self.edit(|cloudflare| cloudflare.delay_applications(delay));
    }

    /// See [`Cloudflare::watch_as`].
    pub fn watch_as(&self, visitors: &[Visitor], urls: &[&str]) {
        self.edit(|cloudflare| cloudflare.watch_as(visitors, urls));
    }

    /// See [`Cloudflare::watch`].
    pub fn watch(&self, urls: &[&str]) {
        self.edit(|cloudflare| cloudflare.watch(urls));
    }

    /// See [`Cloudflare::watched`].
    pub fn watched(&self) -> Vec<Watched> {
        self.edit(|cloudflare| cloudflare.watched())
    }
}

/// Cloudflare's time. Like the emulator itself it is not to be used inside [`Emulator::edit`].
#[derive(Clone, Debug)]
pub struct Time {
    shared: Arc<Shared>,
}

impl Time {
    /// How long the emulator has been there.
    pub fn now(&self) -> Duration {
        self.shared.lock().cloudflare.clock.now()
    }

    /// The time of day, in seconds since 1970.
    pub fn unix_seconds(&self) -> u64 {
        self.shared.lock().cloudflare.clock.unix_seconds()
    }

    /// See [`Emulator::advance_clock`].
    pub fn advance(&self, by: Duration) {
        self.shared.lock().cloudflare.advance_clock(by);
    }
}
