//! Reads what Cloudflare Access protects. A failure is a part of the result, because it stops only what depends on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::clock::{Clock, Deadline};
use crate::cloudflare::{self, AccessScope, Client, Error};
use crate::limits;
use crate::locks::lock;
use crate::model::access::{Application, TeamName};
use crate::model::{AccountId, Zone};
use crate::reconcile::Policy;
use crate::reconcile::access::place;
use crate::reconcile::access::reading::{AccessReading, AccessSnapshot, Unread};

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
pub(in crate::provider) enum AccessTask<'a> {
    Team(&'a AccountId),
    OfAccount(&'a AccountId),
    OfZone(&'a Zone),
}

/// The result of one call.
#[derive(Debug)]
pub(in crate::provider) enum AccessAnswer {
    Team(Option<TeamName>),
    Applications(Vec<Application>),
}

/// The time for which Cloudflare's list of applications may not show a write.
pub(in crate::provider) const LIST_LAG_MAX: Duration = Duration::from_secs(120);

/// The time of one reading.
#[derive(Debug)]
pub(in crate::provider) struct Budget<'c> {
    clock: &'c dyn Clock,
    pub(in crate::provider) deadline: Deadline,
    access_deadline: OnceLock<Deadline>,
}

/// An application as it was written last.
#[derive(Clone, Debug)]
struct Written {
    id: Box<str>,
    /// `None` if it was deleted.
    application: Option<Application>,
    at: Instant,
}

/// Remembers the team between two readings, and what was just written.
#[derive(Debug, Default)]
pub(in crate::provider) struct AccessReader {
    /// Something asked for an application.
    is_asked: AtomicBool,
    /// Applications of ours were looked for.
    has_looked: AtomicBool,
    team: Mutex<Option<(TeamName, Instant)>>,
    /// What was written so short a time ago that lists may not show it.
    written: Mutex<Vec<Written>>,
}

impl AccessReader {
    /// Reads applications from now on. Returns true if that is new.
    pub(in crate::provider) fn ask(&self) -> bool {
        !self.is_asked.swap(true, Ordering::Relaxed)
    }

    /// True until it is known whether there were applications of ours at the start.
    pub(in crate::provider) fn may_find_ours(&self) -> bool {
        !self.has_looked.load(Ordering::Relaxed)
    }

    /// Looks whether there are applications of ours. After a failure that may pass, it has to look again.
    pub(in crate::provider) fn finds_ours(
        &self,
        client: &Client,
        account: &AccountId,
        owner: &str,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> bool {
        let task = AccessTask::OfAccount(account);
        let answer = task.run(client, Budget::new(clock, deadline).for_access());
        let may_pass = answer.as_ref().is_err_and(|error| !task.told(error).is_lasting);
        self.has_looked.store(!may_pass, Ordering::Relaxed);
        let is_ours = |application: &Application| place::is_ours(application, owner);
        matches!(answer, Ok(AccessAnswer::Applications(all)) if all.iter().any(is_ours))
    }

    /// True if something depends on Access.
    pub(in crate::provider) fn is_needed(&self, policy: &Policy) -> bool {
        policy.needs_access() || self.is_asked.load(Ordering::Relaxed)
    }

    /// Takes note of a write, which the list may not show for a while.
    pub(in crate::provider) fn wrote(&self, id: &str, application: Option<Application>, now: Instant) {
        let mut written = lock(&self.written);
        written.retain(|one| *one.id != *id);
        written.push(Written { id: id.into(), application, at: now });
    }

    /// The calls of one reading. Only the guard has to know zones' applications, which nobody makes any more.
    pub(in crate::provider) fn tasks<'a>(
        &self,
        account: &'a AccountId,
        zones: &[&'a Zone],
        policy: &Policy,
        clock: &dyn Clock,
    ) -> Vec<AccessTask<'a>> {
        if !self.is_needed(policy) {
            return Vec::new();
        }
        let zones = if policy.access_guard { zones } else { &[] };
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

    /// Puts the answers together. Applications that were written a moment ago and that the list does not show so are
    /// read by their ids.
    pub(in crate::provider) fn reading(
        &self,
        answers: Vec<(AccessTask<'_>, Result<AccessAnswer, Error>)>,
        client: &Client,
        account: &AccountId,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> AccessReading {
        if answers.is_empty() {
            return AccessReading::NotAsked;
        }
        let mut applications = Vec::new();
        let mut unread_zones = Vec::new();
        for (task, answer) in answers {
            match (task, answer) {
                (_, Ok(AccessAnswer::Team(Some(team)))) => *lock(&self.team) = Some((team, clock.now())),
                (_, Ok(AccessAnswer::Team(None))) => {
                    return AccessReading::Failed(Unread { reason: SET_UP.into(), is_lasting: true });
                }
                (_, Ok(AccessAnswer::Applications(more))) => add_new(&mut applications, more),
                (AccessTask::OfZone(zone), Err(error)) => {
                    let unread = task.told(&error);
                    let reason = format!("its applications in zone {}: {}", zone.name, unread.reason);
                    unread_zones.push((zone.name.clone(), Unread { reason: reason.into(), ..unread }));
                }
                (_, Err(error)) => return AccessReading::Failed(task.told(&error)),
            }
        }
        let applications = match self.with_written(applications, client, account, clock, deadline) {
            Ok(applications) => applications,
            Err(error) => return AccessReading::Failed(AccessTask::OfAccount(account).told(&error)),
        };
        // What was just read is known for a while.
        match self.known_team(clock) {
            Some(team) => AccessReading::Read(AccessSnapshot { team, applications, unread_zones }),
            None => AccessReading::Failed("the team was not read".into()),
        }
    }
}

impl AccessReader {
    /// What was written so short a time ago that the list may not show it. The lock is not held during calls.
    fn just_written(&self, now: Instant) -> Vec<Written> {
        let mut written = lock(&self.written);
        written.retain(|one| now.saturating_duration_since(one.at) < LIST_LAG_MAX);
        written.clone()
    }

    fn with_written(
        &self,
        mut applications: Vec<Application>,
        client: &Client,
        account: &AccountId,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<Vec<Application>, Error> {
        for Written { id, application, at: _ } in self.just_written(clock.now()) {
            let listed = applications.iter().position(|one| one.id == id);
            if listed.and_then(|index| applications.get(index)) == application.as_ref() {
                continue;
            }
            if let Some(index) = listed {
                applications.swap_remove(index);
            }
            if application.is_some()
                && let Some(found) = client.access_application(account, &id, deadline)?
            {
                applications.push(cloudflare::parse_application(&found)?);
            }
        }
        Ok(applications)
    }
}

/// Adds the applications that another list did not show yet. Sorting them would take 5 KB of code.
fn add_new(applications: &mut Vec<Application>, more: Vec<Application>) {
    if applications.is_empty() {
        *applications = more;
        return;
    }
    for application in more {
        if !applications.iter().any(|one| one.id == application.id) {
            applications.push(application);
        }
    }
}

impl<'c> Budget<'c> {
    pub(in crate::provider) fn new(clock: &'c dyn Clock, deadline: Deadline) -> Self {
        Self { clock, deadline, access_deadline: OnceLock::new() }
    }

    /// All calls for Access together have `ACCESS_TIMEOUT` from the first one on. There is one for each zone, and not
    /// all are under way at once, so a time for each would add up to more than a request has.
    pub(in crate::provider) fn for_access(&self) -> Deadline {
        let begun = || {
            let patience = self.deadline.remaining(self.clock).min(limits::ACCESS_TIMEOUT);
            Deadline::after(self.clock, patience)
        };
        *self.access_deadline.get_or_init(begun)
    }
}

impl AccessTask<'_> {
    pub(in crate::provider) fn run(self, client: &Client, deadline: Deadline) -> Result<AccessAnswer, Error> {
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
    fn told(self, error: &Error) -> Unread {
        let permission = match self {
            Self::Team(_) => ORGANIZATION_READ,
            Self::OfAccount(_) => APPLICATIONS_READ,
            Self::OfZone(_) => ZONE_APPLICATIONS_READ,
        };
        match error {
            Error::Credentials(_) => {
                Unread { reason: format!("{error}; {permission}").into(), is_lasting: true }
            }
            error => error.to_string().as_str().into(),
        }
    }
}
