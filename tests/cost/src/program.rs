//! The program between the sockets and Cloudflare: it answers requests from a snapshot, and plans instead of writing.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use external_dns_cloudflare_tunnel_webhook::clock::{Clock, Deadline};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::{Changes, Endpoint};
use external_dns_cloudflare_tunnel_webhook::provider::adjust;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::{self, Plan, Turn};
use external_dns_cloudflare_tunnel_webhook::reconcile::plan_inputs::PlanInputs;
use external_dns_cloudflare_tunnel_webhook::reconcile::snapshot::Snapshot;
use external_dns_cloudflare_tunnel_webhook::reconcile::{Settings, records};
use external_dns_cloudflare_tunnel_webhook::webhook::body::{Body, ReceivedEndpoint};
use external_dns_cloudflare_tunnel_webhook::webhook::routes::{self, Head};
use external_dns_cloudflare_tunnel_webhook::webhook::{Failure, Handler};

use crate::Outcome;

const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";

/// The clock stands still, so any time will do.
const TIME: Duration = Duration::from_secs(10);

pub(crate) struct Program {
    settings: Settings,
    snapshot: Arc<Snapshot>,
    clock: StoppedClock,
    planned: Mutex<Plan>,
}

impl Program {
    pub(crate) fn new(settings: Settings, snapshot: Snapshot) -> Self {
        Self { settings, snapshot: Arc::new(snapshot), clock: StoppedClock::new(), planned: Mutex::default() }
    }

    /// The body of the answer to a request.
    ///
    /// # Errors
    /// When it is not answered with success.
    pub(crate) fn answer(&self, method: &str, target: &str, body: &str) -> Outcome<Vec<u8>> {
        let head = Head { method, target, content_type: vec![MEDIA_TYPE], is_from_page: false };
        let operation = routes::accept(&head).map_err(|answer| format!("status {}", answer.status))?;
        let deadline = Deadline::after(&self.clock, TIME);
        let answer = Body::new(body.into()).and_then(|body| operation.answer(body, self, deadline));
        Ok(answer.map_err(|failure| failure.text)?.body)
    }

    /// What the last request of changes would write.
    pub(crate) fn into_plan(self) -> Plan {
        self.planned.into_inner().expect("nothing panicked")
    }
}

impl Handler for Program {
    fn domain_filter(&self) -> Box<str> {
        self.settings.operator.filter.to_json()
    }

    fn records(&self, _: Deadline) -> Result<Vec<Endpoint>, Failure> {
        Ok(records::records(&self.snapshot).endpoints)
    }

    fn adjust_endpoints(&self, wanted: &Body, deadline: Deadline) -> Result<Vec<Endpoint>, Failure> {
        let last = Some(&*self.snapshot);
        Ok(adjust(wanted, &self.settings, last, &self.clock, deadline)?.0.endpoints)
    }

    fn apply_changes(&self, body: Body, _: Deadline) -> Result<(), Failure> {
        let mut changes = Changes::default();
        let needed = |received: ReceivedEndpoint| plan::needed_by_plan(received.endpoint);
        let lists = body.changes()?;
        lists.for_each_wanted(&mut |received| changes.wanted.extend(needed(received)))?;
        lists.for_each_deleted(&mut |received| changes.deleted.extend(needed(received)))?;
        let turn = Turn { start: None, hostnames_max: usize::MAX };
        let plan = plan::plan(&changes, &self.snapshot, &PlanInputs::default(), turn);
        *self.planned.lock().expect("nothing panicked") = plan;
        Ok(())
    }
}

/// However slow the machine that counts instructions, nothing is late.
#[derive(Debug)]
struct StoppedClock(Instant);

impl StoppedClock {
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Instant {
        self.0
    }

    fn sleep(&self, _: Duration) {}

    fn unix_seconds(&self) -> i64 {
        0
    }
}
