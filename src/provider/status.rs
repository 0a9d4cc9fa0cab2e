//! Answers the command `status`, from what the process holds for its work:
//!
//! - what ExternalDNS sends and what it is shown: fingerprints, compared as ExternalDNS compares them;
//! - what is refused, waits, failed or is withheld, and since when: the refusals of the last request, which keep the log
//!   from saying them again;
//! - what the last request wrote, and what it left to the next turn: fingerprints of hostnames;
//! - what stands: the last snapshot, also one that a write has outdated.

use std::collections::BTreeSet;
use std::sync::MutexGuard;

use log::info;

use crate::locks::lock;
use crate::model::text::fingerprint;
use crate::model::{Hostname, LogLine, hostname};
use crate::observe::health::Missing;
use crate::observe::status::{Row, Status};
use crate::provider::Provider;
use crate::provider::memory::{MarkedEndpoint, MarkedEndpoints, Said};
use crate::provider::writer::LastRequest;
use crate::reconcile::canonical::is_unknown_path;
use crate::reconcile::plan::{MISTAKE, Reason, Refusal, WAITING};
use crate::reconcile::published::{Published, published};
use crate::reconcile::wildcard::UnaskedWildcard;

const PUBLISHED: &str = "published";

const WRITTEN: &str = "written";

const NEXT_TURN: &str = "next turn";

const DRY_RUN: &str = "dry run";

const NO_SERVICE: &str = "no service";

const NOTE: &str = "note";

const LEFT_OUT: &str = "left out";

const NOT_READY: &str = "not ready";

const NO_LOOP: &str = "ExternalDNS has not said what it wants since this process began: ask again after its next \
     loop; where none comes, its log says why";

const NOT_READ: &str = "Cloudflare is being read, or cannot be read, so nothing is known of what is published: ask again in \
     seconds; where it stays so, the log says why reading fails";

const IS_WRITTEN: &str = "it is written as it is sent, or was already: the next loop sees it as it begins";

const IS_LEFT: &str =
    "a request changes a limited number of hostnames, and the next ones go on with this one";

const NOT_ASKED: &str = "ExternalDNS sends it and has not asked for its change yet: where the next request does not, a filter of \
     ExternalDNS keeps it out (--domain-filter, --exclude-domains, --managed-record-types), or its registry takes it for \
     done (--registry=crd)";

const WITHOUT_SERVICE: &str = "it is sent without a service, or its webhook-tunnel is false: give the object a target such as \
     http://name.namespace.svc:8080, or webhook-tunnel-service, or webhook-tunnel: \"true\" where DEFAULT_SERVICE is set; \
     where it has one, its annotations have the prefix of another version of ExternalDNS";

const NOT_SENT: &str = "ExternalDNS does not send it; the usual causes: its annotations have the prefix of another \
     version of ExternalDNS (--enable-legacy-annotation-prefix of 0.23 reads the alpha prefix too); ExternalDNS has \
     no --source for its kind; a filter of ExternalDNS leaves it out, such as --domain-filter; its object has no address in its status, and no target";

/// What is known of all endpoints, while nothing changes it.
struct View<'a> {
    endpoints: MutexGuard<'a, MarkedEndpoints>,
    refusals: MutexGuard<'a, Said<Refusal>>,
    request: MutexGuard<'a, LastRequest>,
    /// What a dry run did not write.
    unwritten: MutexGuard<'a, Said<LogLine>>,
}

impl View<'_> {
    /// The refusals of differences between what is sent and what is shown, one at most of a whole hostname: what failed comes
    /// before what moves. Others were mended since, or their object went.
    fn refusals(&self) -> impl Iterator<Item = (&Refusal, i64)> {
        let mut last = None;
        self.refusals.all().filter(move |(Refusal { hostname, set_identifier, .. }, _)| {
            if set_identifier.is_none() && last.replace(hostname) == Some(hostname) {
                return false;
            }
            let endpoints = self.endpoints.of(hostname);
            let is_of = |endpoint: &&MarkedEndpoint| {
                set_identifier.as_ref().is_some_and(|path| endpoint.has_path(path))
            };
            let has_path = endpoints.iter().any(|endpoint| is_of(&endpoint));
            endpoints.iter().any(|endpoint| endpoint.differs() && (!has_path || is_of(&endpoint)))
        })
    }

    /// The row of those endpoints of a hostname that are neither published nor refused, if there are any.
    fn rest(&self, hostname: &str, stands: &dyn Fn(&MarkedEndpoint) -> bool) -> Option<Row> {
        let refusals = self.refusals.all().filter(|(refusal, _)| *refusal.hostname == *hostname);
        let refused: Vec<Option<&str>> = refusals.map(|(one, _)| one.set_identifier.as_deref()).collect();
        let is_refused = |endpoint: &MarkedEndpoint| {
            refused.iter().any(|path| path.is_none_or(|path| endpoint.has_path(path)))
        };
        let is_open =
            |endpoint: &&MarkedEndpoint| endpoint.is_sent() && (endpoint.differs() || !stands(endpoint));
        let open =
            self.endpoints.of(hostname).iter().filter(is_open).find(|endpoint| !is_refused(endpoint))?;
        let (state, what) = self.state(open.hostname);
        let lines = self.unwritten.all().filter(|(line, _)| line.value("hostname") == Some(hostname));
        let write = |line: &LogLine| format!("{} {}", line.text, line.value("path").unwrap_or_default());
        let writes: Vec<String> = lines.map(|(line, _)| write(line).trim_end().to_owned()).collect();
        Some(if writes.is_empty() {
            row(hostname, state, what.to_owned())
        } else {
            row(hostname, DRY_RUN, format!("without DRY_RUN: {}", writes.join("; ")))
        })
    }

    /// The state of what is neither published nor refused of a hostname.
    fn state(&self, hostname: u64) -> (&'static str, &str) {
        match &self.request.failure {
            _ if self.request.left.contains(&hostname) => (NEXT_TURN, IS_LEFT),
            _ if self.request.asked.contains(&hostname) => (WRITTEN, IS_WRITTEN),
            failure => (WAITING, failure.as_deref().unwrap_or(NOT_ASKED)),
        }
    }

    fn count(&self, status: &mut Status) {
        let mut refused = BTreeSet::new();
        for (refusal, _) in self.refusals() {
            *(if refusal.reason.group() == WAITING { &mut status.waiting } else { &mut status.refused }) += 1;
            refused.insert(fingerprint([&*refusal.hostname]));
        }
        for endpoints in self.endpoints.by_hostname() {
            let sent = endpoints.iter().filter(|endpoint| endpoint.is_sent());
            let open = sent.map(|endpoint| (endpoint.differs(), endpoint.hostname)).max();
            status.wanted += usize::from(open.is_some());
            match open {
                Some((false, _)) => status.published += 1,
                Some((_, name)) if refused.contains(&name) || self.state(name).0 == WRITTEN => {}
                Some(_) => status.waiting += 1,
                None => {}
            }
        }
    }
}

impl Provider {
    /// What is known of `hostname`; without one, what is not done.
    pub fn status(&self, hostname: Option<&str>) -> Status {
        let (mut status, view) = (self.counts(), self.view());
        let mut rows: Vec<Row> = self.standstill().into_iter().collect();
        let Some(hostname) = hostname.map(hostname::normalize) else {
            rows.extend(self.unasked_wildcards(None));
            status.ok = status.refused + status.waiting == 0 && rows.iter().all(is_well);
            let left_out = self.left_out(None);
            let count = rows.len() + status.refused + status.waiting + left_out.len();
            let names = view.endpoints.unpublished().iter();
            let rest = names.filter_map(|name| view.rest(name, &|_| true)).filter(|row| row.state != WRITTEN);
            let refused = view.refusals().map(refused);
            status.fill(count, rows.into_iter().chain(refused).chain(rest).chain(left_out));
            return status;
        };
        let refused = view.refusals().filter(|(refusal, _)| *refusal.hostname == *hostname).map(refused);
        rows.extend(refused.chain(self.unasked_wildcards(Some(&hostname))));
        let standing = self.standing(&hostname);
        let is_there =
            |endpoint: &MarkedEndpoint, one: &Published| one.stands && endpoint.has_path(&one.path);
        let stands = |endpoint: &MarkedEndpoint| {
            standing.as_ref().is_none_or(|all| all.iter().any(|one| is_there(endpoint, one)))
        };
        rows.extend(view.rest(&hostname, &stands));
        rows.extend(standing.iter().flatten().map(|one| {
            let mut endpoints = view.endpoints.of(&hostname).iter();
            let is_published = endpoints.any(|endpoint| is_there(endpoint, one) && !endpoint.differs());
            let resource = one.resource.as_deref().map(str::to_owned);
            let state = if is_published { PUBLISHED } else { NOTE };
            Row { path: Some(one.path.to_string()), resource, ..row(&hostname, state, one.what.clone()) }
        }));
        rows.extend(self.left_out(Some(&hostname)));
        if rows.iter().all(|row| row.state == NOTE) {
            rows.push(self.unsent(&hostname));
        }
        rows.extend(self.notes(&hostname));
        status.ok = rows.iter().all(is_well);
        status.fill(rows.len(), rows);
        status
    }

    /// A loop begins. The log has the counts of the first complete one.
    pub(super) fn say_first_loop(&self) {
        if lock(&self.adjustments.sent).is_some() {
            self.first_loop.call_once(|| {
                let Status { wanted, published, refused, waiting, without_service, .. } = self.counts();
                info!(
                    wanted, published, refused, waiting, without_service;
                    "the first loop is complete; the command status says more"
                );
            });
        }
    }

    fn view(&self) -> View<'_> {
        let state = &self.writer.state;
        let (refusals, request) = (lock(&state.refusals), lock(&state.last_request));
        View { endpoints: lock(&self.endpoints), refusals, request, unwritten: lock(&state.said_dry_run) }
    }

    fn counts(&self) -> Status {
        let without_service = lock(&self.adjustments.sent).as_ref().map_or(0, |sent| sent.unnamed);
        let view = self.view();
        let mut status = Status { loop_began: view.endpoints.shown_at, without_service, ..Status::default() };
        view.count(&mut status);
        status
    }

    /// The reason why nothing is done at all.
    fn standstill(&self) -> Option<Row> {
        let what = match self.health.missing() {
            Some(Missing { why, remedy }) => return Some(row("", NOT_READY, format!("{why}; {remedy}"))),
            None if lock(&self.adjustments.sent).is_none() => NO_LOOP,
            None if lock(&self.writer.last_snapshot).as_read().is_none() => NOT_READ,
            None => return None,
        };
        Some(row("", WAITING, what.to_owned()))
    }

    /// What stands of a hostname, if it is known.
    fn standing(&self, hostname: &str) -> Option<Vec<Published>> {
        let (resolved, read) = (self.resolved().ok()?, lock(&self.writer.last_snapshot).as_read()?);
        let parsed = Hostname::parse(hostname).ok();
        Some(parsed.map(|parsed| published(&parsed, &read, &resolved.settings)).unwrap_or_default())
    }

    /// The wildcards that no object asks for by their word: of all, or of one hostname.
    fn unasked_wildcards(&self, hostname: Option<&str>) -> Vec<Row> {
        let wildcards = lock(&self.adjustments.wildcards);
        let unasked = wildcards.unasked.iter();
        let unasked = unasked.filter(|one| hostname.is_none_or(|hostname| *one.note.hostname == *hostname));
        let rows = unasked.map(|UnaskedWildcard { note, is_public }| Row {
            resource: note.resource.as_deref().map(str::to_owned),
            since: wildcards.said.get(&(note.hostname.clone(), *is_public)).copied(),
            ..row(&note.hostname, if *is_public { MISTAKE } else { LEFT_OUT }, note.text.clone())
        });
        rows.collect()
    }

    /// The row of a hostname that is not sent to be published.
    fn unsent(&self, hostname: &str) -> Row {
        if let Err(problem) = Hostname::parse(hostname) {
            return row(hostname, MISTAKE, problem.to_string());
        }
        if !self.settings.policy.filter.matches(hostname) {
            return row(hostname, MISTAKE, Reason::OutsideFilter.to_string());
        }
        let sent = lock(&self.adjustments.sent);
        let is_without =
            sent.as_ref().is_some_and(|sent| sent.without_service.contains(&fingerprint([hostname])));
        let (state, what) = if is_without { (NO_SERVICE, WITHOUT_SERVICE) } else { ("not sent", NOT_SENT) };
        row(hostname, state, what.to_owned())
    }

    /// The objects whose places others have: of all hostnames, or of one.
    fn left_out(&self, hostname: Option<&str>) -> Vec<Row> {
        lines(&lock(&self.adjustments.said_left_out), hostname, LEFT_OUT)
    }

    /// The other lines of the log about a hostname.
    fn notes(&self, hostname: &str) -> Vec<Row> {
        let said = [&self.said_notes, &self.adjustments.said_notes, &self.writer.state.said_notes];
        said.into_iter().flat_map(|said| lines(&lock(said), Some(hostname), NOTE)).collect()
    }
}

fn is_well(row: &Row) -> bool {
    [PUBLISHED, WRITTEN, NO_SERVICE, LEFT_OUT, NOTE].contains(&&*row.state)
}

/// Lines of the log as rows.
fn lines(said: &Said<LogLine>, hostname: Option<&str>, state: &str) -> Vec<Row> {
    let of = said.all().filter(|(line, _)| hostname.is_none() || line.value("hostname") == hostname);
    let rows = of.map(|(line, since)| Row {
        resource: line.value("resource").map(str::to_owned),
        since: Some(since),
        ..row(line.value("hostname").unwrap_or_default(), state, line.text.clone())
    });
    rows.collect()
}

fn refused((refusal, since): (&Refusal, i64)) -> Row {
    Row {
        path: refusal.set_identifier.as_deref().filter(|path| !is_unknown_path(path)).map(str::to_owned),
        resource: refusal.resource.as_deref().map(str::to_owned),
        refused: Some(refusal.reason.label().to_owned()),
        since: Some(since),
        ..row(&refusal.hostname, refusal.reason.group(), refusal.words())
    }
}

fn row(hostname: &str, state: &str, what: String) -> Row {
    Row { hostname: hostname.to_owned(), state: state.to_owned(), what, ..Row::default() }
}
