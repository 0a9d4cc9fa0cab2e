//! Answers the command `status` from the memory of the process:
//!
//! - the endpoints that ExternalDNS sent and was shown: fingerprints, compared as ExternalDNS compares endpoints;
//! - the refusals of the last request, each with the time of its first log line;
//! - the hostnames that ExternalDNS asked for, and those that were postponed: fingerprints;
//! - the published hostnames: the last snapshot, even if a write has outdated the snapshot.

use std::sync::Arc;

use crate::locks::lock;
use crate::model::text::fingerprint;
use crate::model::{Hostname, LogLine, hostname};
use crate::observe::status::{Row, Status};
use crate::provider::Provider;
use crate::provider::bodies::WithoutService;
use crate::provider::memory::{EndpointFingerprint, LastLoop, Logged};
use crate::reconcile::canonical::is_unknown_path;
use crate::reconcile::listing::{PublishedPath, published};
use crate::reconcile::reason::{Category, Reason};
use crate::reconcile::refusal::Refusal;
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::{Note, NoteKind};

// The states of rows. The state of a refusal is its category.
const PUBLISHED: &str = "published";
const WRITTEN: &str = "written";
const NEXT_TURN: &str = "next turn";
const DRY_RUN: &str = "dry run";
const NO_SERVICE: &str = "no service";
const NOT_SENT: &str = "not sent";
const NOTE: &str = "note";
const LEFT_OUT: &str = "left out";
const NOT_READY: &str = "not ready";
const MISTAKE: &str = Category::Mistake.as_str();
const WAITING: &str = Category::Waiting.as_str();

const BEFORE_WRITES: &str = "; read before the last write: the next loop reads it again";

const NO_LOOP: &str = "ExternalDNS has sent no endpoints since this process started: ask again after its \
     next loop; if no loop comes, the logs of the webhook and of ExternalDNS say why";

const NOT_READ: &str =
    "Cloudflare is being read, so the published hostnames are not known: ask again in a few seconds";

const IS_WRITTEN: &str = "Cloudflare has what ExternalDNS asked for; the next loop confirms it";

const IS_POSTPONED: &str =
    "the request reached its limit of hostnames; one of the next requests changes this one";

const NOT_ASKED: &str = "ExternalDNS sends the endpoint and has not asked for a change yet: if the next loop \
     does not, a filter of ExternalDNS excludes the endpoint (--domain-filter, --exclude-domains, \
     --managed-record-types), or the registry counts the change as done (--registry=crd)";

const WITHOUT_SERVICE: &str = "the endpoint has no service, or its webhook-tunnel is false: give the object \
     a target such as http://name.namespace.svc:8080, or webhook-tunnel-service, or webhook-tunnel: \"true\" \
     where DEFAULT_SERVICE is set; if the object sets one of these, its annotations may have the prefix of \
     another version of ExternalDNS";

const NO_ENDPOINT: &str = "ExternalDNS sends no endpoint for the hostname; the usual causes: the object's \
     annotations have the prefix of another version of ExternalDNS (--enable-legacy-annotation-prefix of \
     0.23 reads the alpha prefix too); ExternalDNS has no --source for the object's kind; a filter of \
     ExternalDNS excludes it, such as --domain-filter; the object has no address in its status, and no \
     target";

impl LastLoop {
    /// The row for the endpoints of a hostname that are neither published nor refused, if there are any.
    /// `is_served` says whether the last snapshot has the rule of an endpoint; the overview assumes it.
    fn pending_row(&self, hostname: &str, is_served: &dyn Fn(&EndpointFingerprint) -> bool) -> Option<Row> {
        let refusals = self.request.refusals.present().filter(|(refusal, _)| *refusal.hostname == *hostname);
        let refused: Vec<Option<&str>> = refusals.map(|(one, _)| one.set_identifier.as_deref()).collect();
        let is_refused = |endpoint: &EndpointFingerprint| {
            refused.iter().any(|path| path.is_none_or(|path| endpoint.has_path(path)))
        };
        let is_done =
            |endpoint: &EndpointFingerprint| self.endpoints.is_published(endpoint) && is_served(endpoint);
        let mut sent = self.endpoints.sent_of(hostname).iter();
        let pending = sent.find(|endpoint| !is_done(endpoint) && !is_refused(endpoint))?;
        let (state, what) = self.state(pending.hostname);
        let writes = self.request.dry_run_writes.present();
        let lines = writes.filter(|(line, _)| line.value("hostname") == Some(hostname));
        let write = |line: &LogLine| format!("{} {}", line.text, line.value("path").unwrap_or_default());
        let writes: Vec<String> = lines.map(|(line, _)| write(line).trim_end().to_owned()).collect();
        Some(if writes.is_empty() {
            row(hostname, state, what.to_owned())
        } else {
            row(hostname, DRY_RUN, format!("without DRY_RUN: {}", writes.join("; ")))
        })
    }

    /// The state of the endpoints of a hostname that are neither published nor refused.
    fn state(&self, hostname: u64) -> (&'static str, &str) {
        if self.request.written_or_refused.contains(&hostname) {
            (WRITTEN, IS_WRITTEN)
        } else if self.request.postponed.contains(&hostname) {
            (NEXT_TURN, IS_POSTPONED)
        } else {
            (WAITING, self.request.failure.as_deref().unwrap_or(NOT_ASKED))
        }
    }
}

impl Provider {
    /// The status of `hostname`, or else an overview of unfinished work.
    pub fn status(&self, hostname: Option<&str>) -> Status {
        let last = lock(&self.last_loop);
        let read = lock(&self.last_snapshot).as_read();
        match hostname {
            Some(hostname) => self.status_of(&hostname::normalize(hostname), &last, read),
            None => self.overview(&last, read.is_some()),
        }
    }

    /// The overview of unfinished work.
    fn overview(&self, last: &LastLoop, is_read: bool) -> Status {
        let mut status = last.counts();
        let mut rows: Vec<Row> = self.standstill(last, is_read).into_iter().collect();
        rows.extend(noted(&last.notes_of_sent, None, MISTAKE));
        status.ok = status.refused + status.waiting == 0 && rows.iter().all(is_well);
        let left_out = noted(&last.notes_of_sent, None, LEFT_OUT);
        let names = last.endpoints.unpublished.iter();
        let rest =
            names.filter_map(|name| last.pending_row(name, &|_| true)).filter(|row| row.state != WRITTEN);
        let refused = last.current_refusals().map(refusal_row);
        status.fill(rows.into_iter().chain(refused).chain(rest).chain(left_out));
        status
    }

    /// The status of one hostname. `read` is the last snapshot, and whether it is outdated.
    fn status_of(&self, hostname: &str, last: &LastLoop, read: Option<(Arc<Snapshot>, bool)>) -> Status {
        let mut status = last.counts();
        let mut rows: Vec<Row> = self.standstill(last, read.is_some()).into_iter().collect();
        let refused =
            last.current_refusals().filter(|(refusal, _)| *refusal.hostname == *hostname).map(refusal_row);
        rows.extend(refused.chain(noted(&last.notes_of_sent, Some(hostname), MISTAKE)));
        let published =
            read.as_ref().map(|(snapshot, is_outdated)| published_paths(hostname, snapshot, *is_outdated));
        let is_there = |endpoint: &EndpointFingerprint, one: &PublishedPath| {
            one.is_served && endpoint.has_path(&one.path)
        };
        let may_be_served = |endpoint: &EndpointFingerprint| {
            published.as_ref().is_none_or(|all| all.iter().any(|one| is_there(endpoint, one)))
        };
        rows.extend(last.pending_row(hostname, &may_be_served));
        rows.extend(published.iter().flatten().map(|one| {
            let mut sent = last.endpoints.sent_of(hostname).iter();
            let is_published = sent.any(|sent| is_there(sent, one) && last.endpoints.is_published(sent));
            let resource = one.resource.as_deref().map(str::to_owned);
            let state = if is_published { PUBLISHED } else { NOTE };
            Row { path: Some(one.path.to_string()), resource, ..row(hostname, state, one.what.clone()) }
        }));
        rows.extend(noted(&last.notes_of_sent, Some(hostname), LEFT_OUT));
        if rows.iter().all(|row| row.state == NOTE) {
            rows.push(self.unsent(hostname, last.without_service.as_ref()));
        }
        for notes in [&last.notes_of_shown, &last.notes_of_sent, &last.request.notes] {
            rows.extend(noted(notes, Some(hostname), NOTE));
        }
        // No visitor reaches the hostnames of a zone that is not active.
        let zone = read.as_ref().and_then(|(snapshot, _)| snapshot.zone_of(hostname));
        if let Some(zone) = zone.map(|zone| &*zone.zone.name).filter(|zone| *zone != hostname) {
            rows.extend(noted(&last.notes_of_shown, Some(zone), NOTE));
        }
        status.ok = rows.iter().all(is_well);
        status.fill(rows);
        status
    }

    /// The row that says that the webhook is not ready, that reading Cloudflare failed, that no loop was complete yet,
    /// or that nothing was read yet.
    fn standstill(&self, last: &LastLoop, is_read: bool) -> Option<Row> {
        let what = match self.readiness.problem() {
            Some(problem) => return Some(row("", NOT_READY, problem.to_string())),
            None if last.without_service.is_none() => NO_LOOP,
            None if !is_read => NOT_READ,
            None => return None,
        };
        let what = last.read_failure.as_deref().unwrap_or(what);
        Some(row("", WAITING, what.to_owned()))
    }

    /// The row of a hostname that is not sent to be published.
    fn unsent(&self, hostname: &str, without_service: Option<&WithoutService>) -> Row {
        if let Err(problem) = Hostname::parse(hostname) {
            return row(hostname, MISTAKE, problem);
        }
        if !self.backend.provider_settings.operator.filter.matches(hostname) {
            return row(hostname, MISTAKE, Reason::OutsideFilter.to_string());
        }
        let is_without = without_service
            .is_some_and(|without| without.hostname_fingerprints.contains(&fingerprint([hostname])));
        let (state, what) = if is_without { (NO_SERVICE, WITHOUT_SERVICE) } else { (NOT_SENT, NO_ENDPOINT) };
        row(hostname, state, what.to_owned())
    }
}

/// The records and rules of ours for a hostname in the last snapshot.
fn published_paths(hostname: &str, snapshot: &Snapshot, is_outdated: bool) -> Vec<PublishedPath> {
    let parsed = Hostname::parse(hostname).ok();
    let mut paths = parsed.map(|parsed| published(&parsed, snapshot)).unwrap_or_default();
    if is_outdated {
        paths.iter_mut().for_each(|path| path.what += BEFORE_WRITES);
    }
    paths
}

fn is_well(row: &Row) -> bool {
    [PUBLISHED, WRITTEN, NO_SERVICE, LEFT_OUT, NOTE].contains(&&*row.state)
}

/// The rows with this state, of the notes on all hostnames or on one.
fn noted(notes: &Logged<Note>, hostname: Option<&str>, state: &str) -> impl Iterator<Item = Row> {
    let is_of = move |note: &Note| {
        state_of(note.kind) == state && hostname.is_none_or(|hostname| *note.hostname == *hostname)
    };
    notes.present().filter(move |(note, _)| is_of(note)).map(move |(note, since)| Row {
        resource: note.resource.as_deref().map(str::to_owned),
        since: Some(since),
        ..row(&note.hostname, state, note.line().text)
    })
}

fn state_of(kind: NoteKind) -> &'static str {
    match kind {
        NoteKind::Other => NOTE,
        NoteKind::LeftOut | NoteKind::LeftOutWildcard => LEFT_OUT,
        NoteKind::PublicWildcard => MISTAKE,
    }
}

fn refusal_row((refusal, since): (&Refusal, i64)) -> Row {
    Row {
        path: refusal.set_identifier.as_deref().filter(|path| !is_unknown_path(path)).map(str::to_owned),
        resource: refusal.resource.as_deref().map(str::to_owned),
        refused: Some(refusal.reason.label_value().to_owned()),
        since: Some(since),
        ..row(&refusal.hostname, refusal.reason.category().as_str(), refusal.log_text())
    }
}

fn row(hostname: &str, state: &str, what: String) -> Row {
    Row { hostname: hostname.to_owned(), state: state.to_owned(), what, ..Row::default() }
}
