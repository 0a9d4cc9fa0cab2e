//! What a test sets up, looks at or edits by hand, and the way of it all to the edge.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::access::{Access, Application, Organization, Policy, Scope, application, invalid, policy, tag};
use crate::answer::Refusal;
use crate::cloudflare::Cloudflare;
use crate::past::Thing;

impl Cloudflare {
    /// Sets Access up in the first account, under this team name; or renames the team.
    pub fn set_up_access(&mut self, team: &str) {
        let account = self.first_account();
        self.organization_mut(&account).team = Some(team.to_owned());
    }

    /// What an account says of Access, by the account's id.
    pub fn organization(&self, account: &str) -> &Organization {
        let mut organizations = self.access.organizations.iter();
        organizations.find(|organization| organization.account == account).expect("the account exists")
    }

    /// The same, to change.
    pub fn organization_mut(&mut self, account: &str) -> &mut Organization {
        let mut organizations = self.access.organizations.iter_mut();
        organizations.find(|organization| organization.account == account).expect("the account exists")
    }

    pub(crate) fn add_organization(&mut self, account: &str) {
        let organization = Organization::new(account.to_owned(), self.clock.timestamp());
        self.access.organizations.push(organization);
    }

    /// All policies, also those that belong to one application, oldest first.
    pub fn policies(&self) -> &[Policy] {
        &self.access.policies
    }

    /// Adds a reusable policy to the first account and says its id. The JSON is what the API shows of one: `name`,
    /// `decision`, `include` …
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn add_policy(&mut self, policy: &Value) -> Result<String, Refusal> {
        let account = self.first_account();
        policy::add(self, &account, policy)
    }

    /// A policy to change, by id or name.
    pub fn policy_mut(&mut self, policy: &str) -> &mut Policy {
        let mut policies = self.access.policies.iter_mut();
        policies.find(|held| held.id == policy || held.name == policy).expect("the policy exists")
    }

    /// Deletes a policy, by id.
    ///
    /// # Errors
    /// While an application has it.
    pub fn delete_policy(&mut self, id: &str) -> Result<(), Refusal> {
        policy::delete(self, id)
    }

    /// The names of the first account's tags.
    pub fn tags(&self) -> Vec<String> {
        let account = self.first_account();
        let of_account = self.access.tags.iter().filter(|tag| tag.account == account);
        of_account.map(|tag| tag.name.clone()).collect()
    }

    /// Adds a tag to the first account.
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn add_tag(&mut self, name: &str) -> Result<(), Refusal> {
        let account = self.first_account();
        tag::add(self, &account, name)
    }

    /// Deletes a tag of the first account, which its applications lose with it.
    pub fn delete_tag(&mut self, name: &str) {
        let account = self.first_account();
        self.access.tags.retain(|tag| tag.account != account || tag.name != name);
        for application in self.access.applications.iter_mut().filter(|held| held.account == account) {
            if let Some(tags) = application.fields.get_mut("tags").and_then(Value::as_array_mut) {
                tags.retain(|tag| tag != name);
            }
        }
    }

    /// The applications of all accounts and zones, oldest first.
    pub fn applications(&self) -> &[Application] {
        &self.access.applications
    }

    /// An application, by id or name.
    pub fn application(&self, application: &str) -> &Application {
        self.find_any_application(application).expect("the application exists")
    }

    pub(crate) fn find_any_application(&self, application: &str) -> Option<&Application> {
        self.access.applications.iter().find(|held| held.id == application || held.name() == application)
    }

    /// An application to change without any rule, by id or name.
    pub fn application_mut(&mut self, application: &str) -> &mut Application {
        let mut applications = self.access.applications.iter_mut();
        applications
            .find(|held| held.id == application || held.name() == application)
            .expect("the application exists")
    }

    /// The policies of an application, by its id or name, in order of precedence.
    pub fn policies_of(&self, application: &str) -> Vec<&Policy> {
        self.application(application).policies(&self.access).collect()
    }

    /// Adds an application to the first account as another client's POST would, and says its id. It is listed at once.
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn add_application(&mut self, application: &Value) -> Result<String, Refusal> {
        let account = self.first_account();
        application::add(self, &Scope::Account(account), object(application)?)
    }

    /// The same in a zone, by its id or name.
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn add_zone_application(&mut self, zone: &str, application: &Value) -> Result<String, Refusal> {
        let zone = self.zone(zone).id.clone();
        application::add(self, &Scope::Zone(zone), object(application)?)
    }

    /// Replaces an application as another client's PUT would, by its id or name.
    ///
    /// # Errors
    /// What Cloudflare would refuse.
    pub fn put_application(&mut self, application: &str, fields: &Value) -> Result<(), Refusal> {
        let id = self.application(application).id.clone();
        application::overwrite(self, &id, object(fields)?)
    }

    /// Deletes an application, by its id or name.
    pub fn delete_application(&mut self, application: &str) {
        let id = self.application(application).id.clone();
        application::remove(self, &id);
    }

    /// From now on a change of an application takes so long to the edge. What is set through a `_mut` is there with the
    /// next change, or at once where none is under way.
    pub fn delay_applications(&mut self, delay: Duration) {
        self.edge.applications_delay = delay;
    }

    /// Changes what Access holds, and sends it to the edge.
    pub(super) fn change_access(&mut self, change: impl FnOnce(&mut Access)) {
        self.hold_access();
        let before = self.before_write(&Thing::Applications);
        change(&mut self.access);
        self.after_write(Thing::Applications, before);
        self.send_access();
    }
}

fn object(value: &Value) -> Result<&Map<String, Value>, Refusal> {
    value.as_object().ok_or_else(|| invalid("an application is an object"))
}
