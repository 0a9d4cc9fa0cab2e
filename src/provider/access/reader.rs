//! Reads Cloudflare Access. A failure is part of the result, because it prevents only work that depends on Access.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::clock::Deadline;
use crate::cloudflare::{AccountOrZone, Error, GIVE_ACCESS, parse_application};
use crate::limits;
use crate::locks::lock;
use crate::model::access::Application;
use crate::model::{AccountId, Zone};
use crate::provider::parallel::in_parallel;
use crate::provider::snapshot_reader::SnapshotReader;
use crate::reconcile::access::place::Place;
use crate::reconcile::access::reading::{AccessReadError, AccessReading, AccessSnapshot};

pub(crate) const ZONE_APPLICATIONS_READ: &str =
    "give the token the permission Zone: Access: Apps and Policies: Read for all zones that are served";

const SET_UP: &str =
    "Access is not set up in the account: open Zero Trust in the dashboard and choose a team name";

/// After a write, Cloudflare's list of applications may not show the write for this time.
const LIST_LAG_MAX: Duration = Duration::from_secs(120);

/// Applications that one reading requests by id. Further applications are pending until the list shows them.
const BY_ID_MAX: usize = 50;

/// A write within the last `LIST_LAG_MAX`.
#[derive(Clone, Debug)]
struct Written {
    place: Box<str>,
    outcome: ApplicationWriteOutcome,
    at: Instant,
}

/// The result of a write of an application.
#[derive(Clone, Debug)]
pub(super) enum ApplicationWriteOutcome {
    /// The application was created or replaced. This is its new state.
    Written(Application),
    /// The application with this id does not exist any more.
    Deleted(Box<str>),
    /// The answer to the creation of the application was lost.
    InDoubt,
}

impl ApplicationWriteOutcome {
    fn id(&self) -> Option<&str> {
        match self {
            Self::Written(application) => Some(&application.id),
            Self::Deleted(id) => Some(id),
            Self::InDoubt => None,
        }
    }
}

/// Remembers recent writes, which Cloudflare's list may not show yet.
#[derive(Debug, Default)]
pub(crate) struct AccessMemory {
    written: Mutex<Vec<Written>>,
    /// The last reading showed applications of ours. After the deletion of records, applications may remain that no
    /// comment names.
    pub(in crate::provider) has_ours: AtomicBool,
}

impl AccessMemory {
    /// Notes a write.
    pub(super) fn note(&self, place: &Place, outcome: ApplicationWriteOutcome, at: Instant) {
        let (mut written, place) = (lock(&self.written), place.to_string().into());
        written.retain(|one| one.place != place || one.outcome.id() != outcome.id());
        written.push(Written { place, outcome, at });
    }

    /// The writes within the last `LIST_LAG_MAX`. The lock is not held during calls.
    fn just_written(&self, now: Instant) -> Vec<Written> {
        let mut written = lock(&self.written);
        written.retain(|one| now.saturating_duration_since(one.at) < LIST_LAG_MAX);
        written.clone()
    }
}

impl SnapshotReader {
    /// Reads the team, the policies, and the applications of the account and of `zones`, within `ACCESS_TIMEOUT`.
    pub(in crate::provider) fn read_access(
        &self,
        account: &AccountId,
        zones: &[&Zone],
        deadline: Deadline,
    ) -> AccessReading {
        let timeout = deadline.remaining(&*self.clock).min(limits::ACCESS_TIMEOUT);
        let reading = self.try_read_access(account, zones, Deadline::after(&*self.clock, timeout));
        if let Ok(AccessSnapshot { applications, .. }) = &reading {
            let has_ours = applications.iter().any(|one| self.place_of(one).is_some());
            self.access.has_ours.store(has_ours, Ordering::Relaxed);
        }
        reading.map_or_else(AccessReading::Failed, AccessReading::Read)
    }

    fn try_read_access(
        &self,
        account: &AccountId,
        zones: &[&Zone],
        deadline: Deadline,
    ) -> Result<AccessSnapshot, AccessReadError> {
        let (client, parallel_calls) = (&self.client, self.settings.parallel_calls);
        let (team, policies, of_account) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let calls: [&(dyn Fn() + Sync); 3] = [
            &|| drop(team.set(client.access_team(account, deadline))),
            &|| drop(policies.set(client.access_policies(account, deadline))),
            &|| drop(of_account.set(client.access_applications(AccountOrZone::Account(account), deadline))),
        ];
        in_parallel(parallel_calls, &calls, |call| call());
        let team = answer(team)?;
        let team = team.ok_or_else(|| AccessReadError { reason: SET_UP.into(), is_permanent: true })?;
        let policies = answer(policies).map(Into::into);
        let mut applications = answer(of_account)?;
        let of_zones = in_parallel(parallel_calls, zones, |zone| {
            client.access_applications(AccountOrZone::Zone(&zone.id), deadline)
        });
        let mut unread_zones = Vec::new();
        for (zone, answer) in zones.iter().zip(of_zones) {
            match answer {
                Ok(more) => add_new(&mut applications, more),
                Err(error) => {
                    let unread = unread(&error, ZONE_APPLICATIONS_READ);
                    let reason = format!("the applications of zone {}: {}", zone.name, unread.reason);
                    unread_zones
                        .push((zone.name.clone(), AccessReadError { reason: reason.into(), ..unread }));
                }
            }
        }
        let pending = self.correct(&mut applications, account, deadline);
        Ok(AccessSnapshot { team, applications, unread_zones, policies, pending })
    }

    /// Reads by id, in parallel, recently written applications that the list does not show as written. If a read fails,
    /// `applications` gets the written state. Returns the places of failed reads and of creations in doubt.
    fn correct(
        &self,
        applications: &mut Vec<Application>,
        account: &AccountId,
        deadline: Deadline,
    ) -> Vec<Box<str>> {
        let (mut pending, mut unlike) = (Vec::new(), Vec::new());
        for Written { place, outcome, at: _ } in self.access.just_written(self.clock.now()) {
            match outcome {
                ApplicationWriteOutcome::Written(application) => {
                    if !applications.contains(&application) {
                        applications.retain(|one| one.id != application.id);
                        unlike.push((unlike.len(), place, application));
                    }
                }
                ApplicationWriteOutcome::Deleted(id) => applications.retain(|one| one.id != id),
                ApplicationWriteOutcome::InDoubt => {
                    let mut places = applications.iter().filter_map(|one| self.place_of(one));
                    if !places.any(|one| *one.to_string() == *place) {
                        pending.push(place);
                    }
                }
            }
        }
        let answers = in_parallel(self.settings.parallel_calls, &unlike, |(number, _, application)| {
            let ask = || self.client.access_application(account, &application.id, deadline).ok();
            let found = if *number < BY_ID_MAX { ask() } else { None };
            found.and_then(|found| found.map(parse_application).transpose().ok())
        });
        for ((_, place, application), answer) in unlike.into_iter().zip(answers) {
            if answer.is_none() {
                pending.push(place);
            }
            applications.extend(answer.unwrap_or(Some(application)));
        }
        pending
    }

    /// The place of an application of ours.
    fn place_of(&self, application: &Application) -> Option<Place> {
        Place::of_application(application, &self.settings.operator.owner)
    }
}

/// Adds the applications that are not in the list yet. A sort would add 5 KB to the binary.
fn add_new(applications: &mut Vec<Application>, more: Vec<Application>) {
    for application in more {
        if !applications.iter().any(|one| one.id == application.id) {
            applications.push(application);
        }
    }
}

/// The answer of a call that needs a permission for the account.
fn answer<T>(answer: OnceLock<Result<T, Error>>) -> Result<T, AccessReadError> {
    let answer = answer.into_inner().ok_or_else(|| AccessReadError::from("Access was not read"))?;
    answer.map_err(|error| unread(&error, GIVE_ACCESS))
}

/// The reason why Access could not be read, with the permission to grant if Cloudflare refused the credentials.
fn unread(error: &Error, permission: &str) -> AccessReadError {
    match error {
        Error::Credentials(_) => {
            AccessReadError { reason: format!("{error}; {permission}").into(), is_permanent: true }
        }
        error => error.to_string().as_str().into(),
    }
}
