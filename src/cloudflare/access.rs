//! Reads the team, applications, policies and tags of Cloudflare Access. Creates tags. Creates, replaces and deletes
//! applications.

mod application;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use self::application::{WirePolicy, application};
use super::client::{Client, path};
use super::error::Error;
use super::error_class::ApiResource;
use super::transport::Method;
use crate::clock::Deadline;
use crate::model::access::{Application, ReusablePolicy, TeamName};
use crate::model::{AccountId, ZoneId};

/// Applications, policies or tags per page; the API allows no more.
const ITEMS_PER_PAGE: u32 = 1_000;

/// The domain below which every team has its name.
const TEAM_DOMAIN: &str = ".cloudflareaccess.com";

/// The owner of a list of applications.
#[derive(Clone, Copy, Debug)]
pub enum AccountOrZone<'a> {
    /// Its applications may cover hostnames of any zone.
    Account(&'a AccountId),
    /// Older applications, which the account's list does not contain.
    Zone(&'a ZoneId),
}

#[derive(Deserialize)]
struct WireOrganization {
    auth_domain: Option<Box<str>>,
}

#[derive(PartialEq, Deserialize)]
struct WireTag {
    name: Box<str>,
}

impl Client {
    /// The name of the account's team; `None` if Access was never set up.
    pub fn access_team(&self, account: &AccountId, deadline: Deadline) -> Result<Option<TeamName>, Error> {
        let path = path(&["accounts", account.as_str(), "access", "organizations"]);
        let organization: WireOrganization = match self.read(ApiResource::AccessOrganization, &path, deadline)
        {
            Ok(organization) => organization,
            // 7003 says that there is no such path, because the account's id has the wrong shape.
            Err(Error::NotFound(response)) if response.code != Some(7003) => return Ok(None),
            Err(error) => return Err(error),
        };
        let domain = organization.auth_domain.unwrap_or_default();
        if domain.is_empty() {
            return Ok(None);
        }
        let name = domain.strip_suffix(TEAM_DOMAIN).and_then(TeamName::parse);
        name.map(Some).ok_or_else(|| Error::Unreadable("auth_domain names no team".into()))
    }

    /// All applications of an account or a zone, ordered by id.
    ///
    /// # Errors
    /// [`Error::Unreadable`] also for a list with fewer applications than its total says. Cloudflare sends such a
    /// list to a member of the account that may not see all applications.
    pub fn access_applications(
        &self,
        scope: AccountOrZone<'_>,
        deadline: Deadline,
    ) -> Result<Vec<Application>, Error> {
        let (kind, id) = match scope {
            AccountOrZone::Account(account) => ("accounts", account.as_str()),
            AccountOrZone::Zone(zone) => ("zones", zone.as_str()),
        };
        let (mut applications, total): (Vec<Application>, f64) = self.list(
            ApiResource::AccessApplications,
            &path(&[kind, id, "access", "apps"]),
            "",
            ITEMS_PER_PAGE,
            deadline,
        )?;
        applications.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        // An application added between two page reads pushes another one onto the next page.
        applications.dedup_by(|a, b| a.id == b.id);
        let count = applications.len();
        if total > count as f64 {
            let reason = format!(
                "the list has {count} Access applications of {total}, so the credentials may not see all of them"
            );
            return Err(Error::Unreadable(reason.into()));
        }
        Ok(applications)
    }

    /// The account's reusable policies, ordered by id.
    pub fn access_policies(
        &self,
        account: &AccountId,
        deadline: Deadline,
    ) -> Result<Vec<ReusablePolicy>, Error> {
        let path = path(&["accounts", account.as_str(), "access", "policies"]);
        let (policies, _): (Vec<WirePolicy>, f64) =
            self.list(ApiResource::AccessPolicies, &path, "", ITEMS_PER_PAGE, deadline)?;
        let mut policies: Vec<ReusablePolicy> =
            policies.into_iter().filter_map(WirePolicy::reusable).collect();
        policies.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        policies.dedup_by(|a, b| a.id == b.id);
        Ok(policies)
    }

    /// The names of the account's tags.
    pub fn access_tags(&self, account: &AccountId, deadline: Deadline) -> Result<Vec<Box<str>>, Error> {
        let (tags, _): (Vec<WireTag>, f64) =
            self.list(ApiResource::AccessTags, &tags_path(account), "", ITEMS_PER_PAGE, deadline)?;
        Ok(tags.into_iter().map(|tag| tag.name).collect())
    }

    /// Creates a tag, because an application can only have tags that exist. Sent at most once.
    ///
    /// # Errors
    /// [`Error::may_have_been_done`] says if the tags have to be read again. A tag that exists is [`Error::Rejected`].
    pub fn create_access_tag(
        &self,
        account: &AccountId,
        name: &str,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let path = tags_path(account);
        let body = json!({ "name": name }).to_string();
        self.write::<IgnoredAny>(ApiResource::AccessTags, Method::POST, &path, body.as_bytes(), deadline)
            .map(drop)
    }

    /// All members of one application of the account, because a replacement has to send back the members that it keeps.
    /// `None` if there is no such application. A new application is found here before it is in the list.
    pub fn access_application(
        &self,
        account: &AccountId,
        id: &str,
        deadline: Deadline,
    ) -> Result<Option<Map<String, Value>>, Error> {
        match self.read(ApiResource::AccessApplications, &application_path(account, id), deadline) {
            // Any other 404 says nothing about the application.
            Err(Error::NotFound(response)) if response.is_missing_application() => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Creates an application with its policies. Sent at most once.
    ///
    /// # Errors
    /// [`Error::may_have_been_done`] says if the application may exist; lists may lack it for half a minute.
    pub fn create_access_application(
        &self,
        account: &AccountId,
        body: &[u8],
        deadline: Deadline,
    ) -> Result<Application, Error> {
        let path = path(&["accounts", account.as_str(), "access", "apps"]);
        self.write(ApiResource::AccessApplications, Method::POST, &path, body, deadline)
    }

    /// Replaces an application without any precondition: members that `body` leaves out are lost, except `policies`.
    /// Sent at most once.
    ///
    /// # Errors
    /// [`Error::may_have_been_done`] says if it has to be read again.
    pub fn replace_access_application(
        &self,
        account: &AccountId,
        id: &str,
        body: &[u8],
        deadline: Deadline,
    ) -> Result<Application, Error> {
        let path = application_path(account, id);
        self.write(ApiResource::AccessApplications, Method::PUT, &path, body, deadline)
    }

    /// Deletes an application. A missing application is no error. Sent at most once.
    ///
    /// # Errors
    /// [`Error::may_have_been_done`] says if it has to be read again.
    pub fn delete_access_application(
        &self,
        account: &AccountId,
        id: &str,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let path = application_path(account, id);
        match self.write::<IgnoredAny>(ApiResource::AccessApplications, Method::DELETE, &path, &[], deadline)
        {
            Err(Error::NotFound(response)) if response.is_missing_application() => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

/// Reads an application as [`Client::access_application`] returns it.
pub fn parse_application(members: Map<String, Value>) -> Result<Application, Error> {
    application(&Value::Object(members)).map_err(|error| Error::Unreadable(error.to_string().into()))
}

fn application_path(account: &AccountId, id: &str) -> String {
    path(&["accounts", account.as_str(), "access", "apps", id])
}

fn tags_path(account: &AccountId) -> String {
    path(&["accounts", account.as_str(), "access", "tags"])
}

#[cfg(test)]
mod tests;
