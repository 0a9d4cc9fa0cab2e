//! Reads Cloudflare Access. A failure is part of the result, because it prevents only work that depends on Access.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::clock::Deadline;
use crate::cloudflare::{AccountOrZone, Error, GIVE_ACCESS, ZONE_APPLICATIONS_READ, parse_application};
use crate::limits;
use crate::model::access::Application;
use crate::model::{AccountId, Zone};
use crate::provider::backend::Backend;
use crate::provider::memory::{ApplicationWriteOutcome, RecentWrite};
use crate::provider::parallel::in_parallel;
use crate::reconcile::access::place::Place;
use crate::reconcile::access::reading::{AccessReadError, AccessReading, AccessSnapshot};

const NOT_SET_UP: &str =
    "Access is not set up in the account: open Zero Trust in the dashboard and choose a team name";

/// Applications that one reading requests by id. Further applications are pending until the list shows them.
const BY_ID_MAX: usize = 50;

impl Backend {
    /// Reads the team, the policies, and the applications of the account and of `zones`, within `ACCESS_TIMEOUT`.
    pub(crate) fn read_access(
        &self,
        account: &AccountId,
        zones: &[&Zone],
        deadline: Deadline,
    ) -> AccessReading {
        let deadline = deadline.at_most(&*self.clock, limits::ACCESS_TIMEOUT);
        let reading = self.try_read_access(account, zones, deadline);
        if let Ok(AccessSnapshot { applications, .. }) = &reading {
            let has_ours = applications.iter().any(|application| self.place_of(application).is_some());
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
        let client = &self.client;
        let parallel_calls = self.provider_settings.parallel_calls;
        let (team, policies, of_account) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let calls: [&(dyn Fn() + Sync); 3] = [
            &|| drop(team.set(client.access_team(account, deadline))),
            &|| drop(policies.set(client.access_policies(account, deadline))),
            &|| drop(of_account.set(client.access_applications(AccountOrZone::Account(account), deadline))),
        ];
        in_parallel(parallel_calls, &calls, |call| call());
        let team = answer(team)?;
        let team = team.ok_or_else(|| AccessReadError { reason: NOT_SET_UP.into(), is_permanent: true })?;
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
        let pending = self.apply_recent_writes(&mut applications, account, deadline);
        Ok(AccessSnapshot { team, applications, unread_zones, policies, pending })
    }

    /// Reads by id, in parallel, recently written applications that the list does not show as written. If a read fails,
    /// `applications` gets the written state. Returns the places of failed reads and of creations in doubt.
    fn apply_recent_writes(
        &self,
        applications: &mut Vec<Application>,
        account: &AccountId,
        deadline: Deadline,
    ) -> Vec<Place> {
        let (mut pending, mut unlisted) = (Vec::new(), Vec::new());
        for RecentWrite { place, outcome, at: _ } in self.access.recent_writes(self.clock.now()) {
            match outcome {
                ApplicationWriteOutcome::Written(application) => {
                    if !applications.contains(&application) {
                        applications.retain(|listed| listed.id != application.id);
                        unlisted.push((place, application));
                    }
                }
                ApplicationWriteOutcome::Deleted(id) => applications.retain(|listed| listed.id != id),
                ApplicationWriteOutcome::Unknown => {
                    let mut places = applications.iter().filter_map(|listed| self.place_of(listed));
                    if !places.any(|listed| listed == place) {
                        pending.push(place);
                    }
                }
            }
        }
        let asked = unlisted.get(..BY_ID_MAX).unwrap_or(&unlisted);
        let mut answers = in_parallel(self.provider_settings.parallel_calls, asked, |(_, application)| {
            let found = self.client.access_application(account, &application.id, deadline);
            found.and_then(|found| found.map(parse_application).transpose())
        })
        .into_iter();
        for (place, application) in unlisted {
            match answers.next() {
                Some(Ok(present)) => applications.extend(present),
                Some(Err(_)) | None => {
                    pending.push(place);
                    applications.push(application);
                }
            }
        }
        pending
    }

    /// The place of an application of ours.
    fn place_of(&self, application: &Application) -> Option<Place> {
        Place::of_application(application, &self.provider_settings.operator.owner)
    }
}

/// Adds the applications that are not in the list yet. A sort would add 5 KB to the binary.
fn add_new(applications: &mut Vec<Application>, more: Vec<Application>) {
    for application in more {
        if !applications.iter().any(|known| known.id == application.id) {
            applications.push(application);
        }
    }
}

/// The answer of a call that needs a permission for the account.
fn answer<T>(answer: OnceLock<Result<T, Error>>) -> Result<T, AccessReadError> {
    answer.into_inner().expect("in_parallel has run every call").map_err(|error| unread(&error, GIVE_ACCESS))
}

/// The reason why Access could not be read, with the permission to grant if Cloudflare rejected the credentials.
fn unread(error: &Error, permission: &str) -> AccessReadError {
    match error {
        Error::Credentials(_) => {
            AccessReadError { reason: format!("{error}; {permission}").into(), is_permanent: true }
        }
        error => AccessReadError::temporary(error.to_string()),
    }
}
