//! Reads what Cloudflare Access protects. A failure is a part of the result, because it stops only what depends on it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{AccessScope, Client, Error};
use crate::limits;
use crate::locks::lock;
use crate::model::access::{Application, TeamName};
use crate::model::{AccountId, Zone};
use crate::reconcile::access_guard::{AccessReading, AccessSnapshot};

/// A team name older than this is read again: it can be changed, but hardly ever is.
const TEAM_MAX_AGE: Duration = Duration::from_secs(600);

pub(crate) const APPLICATIONS_READ: &str =
    "give the token the permission Account: Access: Apps and Policies: Read";
pub(crate) const ZONE_APPLICATIONS_READ: &str =
    "give the token the permission Zone: Access: Apps and Policies: Read for all zones that are served";
pub(crate) const ORGANIZATION_READ: &str =
    "give the token the permission Account: Access: Organizations, Identity Providers, and Groups: Read";
const SET_UP: &str =
    "Access is not set up in the account: open Zero Trust in the dashboard and choose a team name";

/// One call for Access.
#[derive(Clone, Copy, Debug)]
pub(super) enum AccessTask<'a> {
    Team(&'a AccountId),
    OfAccount(&'a AccountId),
    OfZone(&'a Zone),
}

/// The result of one call.
#[derive(Debug)]
pub(super) enum AccessAnswer {
    Team(Option<TeamName>),
    Applications(Vec<Application>),
}

/// Remembers the team between two readings.
#[derive(Debug, Default)]
pub(super) struct AccessReader {
    team: Mutex<Option<(TeamName, Instant)>>,
}

impl AccessReader {
    /// The calls of one reading.
    pub(super) fn tasks<'a>(
        &self,
        account: &'a AccountId,
        zones: &[&'a Zone],
        clock: &dyn Clock,
    ) -> Vec<AccessTask<'a>> {
        let team = self.known_team(clock).is_none().then_some(AccessTask::Team(account));
        let zones = zones.iter().map(|zone| AccessTask::OfZone(zone));
        team.into_iter().chain([AccessTask::OfAccount(account)]).chain(zones).collect()
    }

    fn known_team(&self, clock: &dyn Clock) -> Option<TeamName> {
        let now = clock.now();
        let known = lock(&self.team).clone();
        known
            .filter(|(_, read_at)| now.saturating_duration_since(*read_at) < TEAM_MAX_AGE)
            .map(|(team, _)| team)
    }

    /// Puts the answers together.
    pub(super) fn reading(
        &self,
        answers: Vec<(AccessTask<'_>, Result<AccessAnswer, Error>)>,
        clock: &dyn Clock,
    ) -> AccessReading {
        let mut applications = Vec::new();
        let mut unread_zones = BTreeMap::new();
        for (task, answer) in answers {
            match (task, answer) {
                (_, Ok(AccessAnswer::Team(Some(team)))) => *lock(&self.team) = Some((team, clock.now())),
                (_, Ok(AccessAnswer::Team(None))) => return AccessReading::Failed(SET_UP.into()),
                (_, Ok(AccessAnswer::Applications(more))) => applications.extend(more),
                (AccessTask::OfZone(zone), Err(error)) => {
                    let reason = format!("its applications in zone {}: {}", zone.name, task.told(&error));
                    unread_zones.insert(zone.name.clone(), reason.into());
                }
                (_, Err(error)) => return AccessReading::Failed(task.told(&error).into()),
            }
        }
        applications.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        applications.dedup_by(|a, b| a.id == b.id);
        // What was just read is known for a while.
        match self.known_team(clock) {
            Some(team) => AccessReading::Read(AccessSnapshot { team, applications, unread_zones }),
            None => AccessReading::Failed("the team was not read".into()),
        }
    }
}

impl AccessTask<'_> {
    /// Runs the call. Most of a request's time is for what does not depend on Access.
    pub(super) fn run(
        self,
        client: &Client,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<AccessAnswer, Error> {
        let patience = deadline.remaining(clock).min(limits::ACCESS_TIMEOUT);
        let deadline = Deadline::after(clock, patience);
        match self {
            Self::Team(account) => client.access_team(account, deadline).map(AccessAnswer::Team),
            Self::OfAccount(account) => client
                .access_applications(AccessScope::Account(account), deadline)
                .map(AccessAnswer::Applications),
            Self::OfZone(zone) => client
                .access_applications(AccessScope::Zone(&zone.id), deadline)
                .map(AccessAnswer::Applications),
        }
    }

    /// The error, with the remedy if a permission is missing.
    fn told(self, error: &Error) -> String {
        let permission = match self {
            Self::Team(_) => ORGANIZATION_READ,
            Self::OfAccount(_) => APPLICATIONS_READ,
            Self::OfZone(_) => ZONE_APPLICATIONS_READ,
        };
        match error {
            Error::Credentials(_) => format!("{error}; {permission}"),
            error => error.to_string(),
        }
    }
}
