//! Answers the command `status`, from what the process holds for its work:
//!
//! - what is refused, waits or is withheld, and since when: the refusals of the last request, which keep the log from
//!   saying them again;
//! - what is published: the last snapshot, also one that a write has outdated;
//! - what ExternalDNS sends: a fingerprint of each hostname of the last adjustment, eight bytes;
//! - when the last loop began, and how many hostnames were published then.

use log::info;

use crate::locks::lock;
use crate::model::text::fingerprint;
use crate::model::{Hostname, hostname};
use crate::observe::health::Missing;
use crate::observe::status::{Row, Status};
use crate::provider::Provider;
use crate::reconcile::plan::{MISTAKE, Reason, Refusal, WAITING};
use crate::reconcile::published::published;
use crate::reconcile::wildcard::UnaskedWildcard;

const PUBLISHED: &str = "published";

const NOTE: &str = "note";

const LEFT_OUT: &str = "left out";

const NOT_READY: &str = "not ready";

const NO_LOOP: &str = "ExternalDNS has not said what it wants since this process began: ask again after its next \
     loop; where none comes, its log says why";

const NOT_READ: &str = "Cloudflare is being read, or cannot be read, so nothing is known of what is published: ask again in \
     seconds; where it stays so, the log says why reading fails";

const NOT_WRITTEN: &str = "DRY_RUN is set, so nothing is written";

const NOT_SEEN: &str = "ExternalDNS sends it and nothing refuses it: what a loop writes is seen as the next one begins; \
     where that does not come, a filter of ExternalDNS keeps it out (--domain-filter, --exclude-domains, \
     --managed-record-types), or its registry takes it for done (--registry=crd)";

const NO_SERVICE: &str = "it is sent without a service, or its webhook-tunnel is false: give the object a target such as \
     http://name.namespace.svc:8080, or webhook-tunnel-service, or webhook-tunnel: \"true\" where DEFAULT_SERVICE is set; \
     where it has one, its annotations have the prefix of another version of ExternalDNS";

const NOT_SENT: &str = "ExternalDNS does not send it; the usual causes: its annotations have the prefix of another \
     version of ExternalDNS; ExternalDNS has no --source for its kind; a filter of ExternalDNS leaves it out, such as \
     --domain-filter; its object has no address in its status, and no target";

impl Provider {
    /// What is known of `hostname`; without one, what is refused, waits or is withheld.
    pub fn status(&self, hostname: Option<&str>) -> Status {
        let mut status = self.counts();
        let mut rows: Vec<Row> = self.standstill().into_iter().collect();
        let refusals = lock(&self.writer.state.refusals);
        let Some(hostname) = hostname.map(hostname::normalize) else {
            if self.settings.dry_run {
                rows.push(row("", WAITING, NOT_WRITTEN.to_owned()));
            }
            rows.extend(self.unasked_wildcards(None));
            let is_done = rows.iter().all(|row| row.state != MISTAKE);
            status.ok = is_done && status.refused == 0 && self.health.is_ready();
            let count = rows.len() + status.refused + status.waiting;
            status.fill(count, rows.into_iter().chain(refusals.all().map(refused)));
            return status;
        };
        rows.extend(refusals.all().filter(|(refusal, _)| *refusal.hostname == *hostname).map(refused));
        drop(refusals);
        rows.extend(self.unasked_wildcards(Some(&hostname)));
        rows.extend(self.published(&hostname));
        if rows.is_empty() {
            rows.push(self.unpublished(&hostname));
        }
        rows.extend(self.notes(&hostname));
        status.ok = rows.iter().all(|row| [PUBLISHED, NOTE, WAITING, LEFT_OUT].contains(&&*row.state));
        status.fill(rows.len(), rows);
        status
    }

    /// Notes that a loop begins, and how many hostnames are published. The log has the counts of the first complete one.
    pub(super) fn begin_loop(&self, published: usize) {
        *lock(&self.last_loop) = Some((self.writer.clock.unix_seconds(), published));
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

    fn counts(&self) -> Status {
        let (began, published) = lock(&self.last_loop).unzip();
        let published = published.unwrap_or_default();
        let mut status = Status { loop_began: began, published, ..Status::default() };
        if let Some(sent) = &*lock(&self.adjustments.sent) {
            (status.wanted, status.without_service) = (sent.wanted.len(), sent.unnamed);
        }
        for (refusal, _) in lock(&self.writer.state.refusals).all() {
            *(if refusal.reason.group() == WAITING { &mut status.waiting } else { &mut status.refused }) += 1;
        }
        status
    }

    /// The reason why nothing is done at all.
    fn standstill(&self) -> Option<Row> {
        let what = match self.health.missing() {
            Some(Missing { why, remedy }) => return Some(row("", NOT_READY, format!("{why}; {remedy}"))),
            None if lock(&self.adjustments.sent).is_none() => NO_LOOP,
            None if self.writer.readings.as_read().is_none() => NOT_READ,
            None => return None,
        };
        Some(row("", WAITING, what.to_owned()))
    }

    fn published(&self, hostname: &str) -> Vec<Row> {
        let (Ok(resolved), Some(read), Ok(parsed)) =
            (self.resolved(), self.writer.readings.as_read(), Hostname::parse(hostname))
        else {
            return Vec::new();
        };
        let found = published(&parsed, &read, &resolved.settings).into_iter();
        let rows = found.map(|one| Row {
            path: one.path.map(Into::into),
            resource: one.resource.map(Into::into),
            ..row(hostname, PUBLISHED, one.what)
        });
        rows.collect()
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

    /// The row of a hostname that is neither refused nor published.
    fn unpublished(&self, hostname: &str) -> Row {
        if let Err(problem) = Hostname::parse(hostname) {
            return row(hostname, MISTAKE, problem.to_string());
        }
        if !self.settings.policy.filter.matches(hostname) {
            return row(hostname, MISTAKE, Reason::OutsideFilter.to_string());
        }
        let name = fingerprint([hostname]);
        let (state, what) = match &*lock(&self.adjustments.sent) {
            Some(sent) if sent.wanted.contains(&name) => {
                (WAITING, if self.settings.dry_run { NOT_WRITTEN } else { NOT_SEEN })
            }
            Some(sent) if sent.without_service.contains(&name) => ("no service", NO_SERVICE),
            _ => ("not sent", NOT_SENT),
        };
        row(hostname, state, what.to_owned())
    }

    /// The other lines of the log about a hostname.
    fn notes(&self, hostname: &str) -> Vec<Row> {
        let mut rows = Vec::new();
        for said in [&self.said_notes, &self.adjustments.said_notes, &self.writer.state.said_notes] {
            for (line, since) in lock(said).all().filter(|(line, _)| line.value("hostname") == Some(hostname))
            {
                let resource = line.value("resource").map(str::to_owned);
                rows.push(Row { resource, since: Some(since), ..row(hostname, NOTE, line.text.clone()) });
            }
        }
        rows
    }
}

fn refused((refusal, since): (&Refusal, i64)) -> Row {
    Row {
        path: refusal.path().map(str::to_owned),
        resource: refusal.resource.as_deref().map(str::to_owned),
        refused: Some(refusal.reason.label().to_owned()),
        since: Some(since),
        ..row(&refusal.hostname, refusal.reason.group(), refusal.words())
    }
}

fn row(hostname: &str, state: &str, what: String) -> Row {
    Row { hostname: hostname.to_owned(), state: state.to_owned(), what, ..Row::default() }
}
