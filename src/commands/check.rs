//! `check`: tries everything that can be tried without writing, and gives the remedy for each failure. Each finding is
//! printed as soon as it is known, because hundreds of zones take minutes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::finding::{Finding, FindingStatus};
use crate::clock::{Clock, Deadline, day_of};
use crate::cloudflare::{
    AccountOrZone, Client, Configuration, Connector, Error, GIVE_ACCESS, TOKEN_FORM, Tunnel,
    ZONE_APPLICATIONS_READ,
};
use crate::config::Config;
use crate::ingress::Document;
use crate::limits;
use crate::model::{AccountId, TunnelId, Zone, ZonePlan};
use crate::provider::setup::{
    CORRECT_FILTERS, CORRECT_PATH, find_tunnel, no_such_tunnel, remedy, shared_account,
};
use crate::reconcile::OperatorSettings;
use crate::reconcile::access::wanted::usable_policy;
use crate::reconcile::reason::MIGRATE_OR_TAKE_OVER;
use crate::reconcile::reason::SHARED_OWNER;
use crate::reconcile::records::notes::{inactive_state, unusual_settings};
use crate::reconcile::stamp::Stamp;

/// The time for one read. The reads follow each other, and an account may have hundreds of zones.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A token that expires within this time causes a warning, because a new token may have to be requested.
const TOKEN_EXPIRY_WARNING_DAYS: i64 = 14;

const ZONE_READ: &str = "give the token the permission Zone: Zone: Read, for the zones that are to be served";
const DNS_EDIT: &str = "give the token the permission Zone: DNS: Edit for this zone";
const TUNNEL_EDIT: &str = "give the token the permission Account: Cloudflare Tunnel: Edit for the account \
     (in some dashboards Cloudflare One Connectors, Cloudflare One Connector: cloudflared or Argo Tunnel \
     (Legacy)), and check that CF_ACCOUNT_ID is the account of the tunnels";

/// Runs all checks, each after those that it depends on, because the first failure may cause the later ones.
pub(super) fn check(client: &Client, clock: &dyn Clock, config: &Config, tell: &mut dyn FnMut(Finding)) {
    let mut check = Check {
        client,
        clock,
        config,
        tell,
        lacks_permission: false,
        claims_protection: false,
        unconfigured: Vec::new(),
        other_owners: BTreeSet::new(),
    };
    for warning in &config.warnings {
        check.add(FindingStatus::Warning, "configuration", warning.clone(), "");
    }
    if !check.credentials() {
        let found = "not tried, because the check of the credentials failed";
        return check.add(FindingStatus::Untried, "everything else", found, "");
    }
    check.everything_else();
    if check.lacks_permission {
        let remedy =
            format!("create another token; this form has all three permissions filled in: {TOKEN_FORM}");
        check.add(FindingStatus::Failed, "permissions", "some are missing", remedy);
    }
}

struct Check<'a> {
    client: &'a Client,
    clock: &'a dyn Clock,
    config: &'a Config,
    tell: &'a mut dyn FnMut(Finding),
    /// A call lacked a permission of [`TOKEN_FORM`].
    lacks_permission: bool,
    /// The stamp of a record of ours says that Access protects its hostname, or a path of it.
    claims_protection: bool,
    /// The existing tunnels that CF_TUNNEL_ID does not name.
    unconfigured: Vec<TunnelId>,
    /// The other owners whose stamps were found.
    other_owners: BTreeSet<Box<str>>,
}

impl Check<'_> {
    fn deadline(&self) -> Deadline {
        Deadline::after(self.clock, READ_TIMEOUT)
    }

    fn add(
        &mut self,
        status: FindingStatus,
        what: &str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let remedy = Some(remedy.into()).filter(|remedy| !remedy.is_empty());
        (self.tell)(Finding { status, what: what.to_owned(), found: found.into(), remedy });
    }

    /// Adds a success.
    fn ok(&mut self, what: &str, found: impl Into<String>) {
        self.add(FindingStatus::Ok, what, found, "");
    }

    /// Adds a failed read that needs one of the three permissions of [`TOKEN_FORM`].
    fn failed(&mut self, what: &str, error: &Error, refused: &str) {
        self.lacks_permission |= matches!(error, Error::Credentials(_));
        self.failed_with_other_permission(what, error, refused);
    }

    /// Adds a failed read. `refused` is the remedy if the read was refused, or if its subject does not exist.
    fn failed_with_other_permission(&mut self, what: &str, error: &Error, refused: &str) {
        let remedy = match error {
            Error::Credentials(_) | Error::NotFound(_) | Error::Rejected(_) => refused,
            error => remedy(error),
        };
        self.add(FindingStatus::Failed, what, error.to_string(), remedy);
    }

    fn credentials(&mut self) -> bool {
        let account = self.config.provider.account.as_ref();
        let (what, remedy) = match self.config.client.credentials.email {
            Some(_) => (
                "key",
                "check that CF_API_KEY and CF_API_EMAIL belong together or, better, use a token".to_owned(),
            ),
            None => {
                let variable = self.config.credential_variable;
                let remedy = format!(
                    "create a token in place of that in {variable}, or enable this one; an account-owned \
                     token needs CF_ACCOUNT_ID too"
                );
                ("token", remedy)
            }
        };
        let outcome = self.client.verify_token(account, self.deadline());
        match &outcome {
            Ok(expires_on) => self.expiry(what, expires_on.as_deref()),
            Err(error @ Error::NotFound(_)) => self.failed_with_other_permission(what, error, CORRECT_PATH),
            Err(error) => self.failed_with_other_permission(what, error, &remedy),
        }
        outcome.is_ok()
    }

    fn expiry(&mut self, what: &str, expires_on: Option<&str>) {
        let today = self.clock.unix_seconds() / 86_400;
        let day = expires_on.and_then(day_of);
        let is_soon = day.is_some_and(|day| day - today < TOKEN_EXPIRY_WARNING_DAYS);
        let (status, remedy) = if is_soon {
            (FindingStatus::Warning, "create another token before this one expires")
        } else {
            (FindingStatus::Ok, "")
        };
        let expires = expires_on.map(|expires_on| format!(", expires {expires_on}")).unwrap_or_default();
        self.add(status, what, format!("active, from {}{expires}", self.config.credential_variable), remedy);
    }

    fn everything_else(&mut self) {
        let zones =
            self.client.zones(self.deadline()).map_err(|error| self.failed("zones", &error, ZONE_READ)).ok();
        self.scope(zones.as_deref());
        let account = self.account(zones.as_deref());
        if let Some(account) = &account {
            self.tunnels(account);
        } else {
            self.add(FindingStatus::Untried, "tunnels", "the account is not known", "");
        }
        let zones = zones.unwrap_or_default();
        self.zones(&zones, account.as_ref());
        if let Some(account) = &account {
            self.access(account, &zones);
        }
        self.ownership();
        let found = "not tried, because a trial would change a record; the token needs Zone: DNS: Edit";
        self.add(FindingStatus::Untried, "writing", found, "");
    }

    fn account(&mut self, zones: Option<&[Zone]>) -> Option<AccountId> {
        let settings = &self.config.provider;
        if let Some(account) = &settings.account {
            let in_scope = || zones.into_iter().flatten().filter(|zone| settings.includes_zone(zone));
            if in_scope().any(|zone| zone.belongs_to(account)) {
                self.ok("account", account.to_string());
            } else if let Some(zone) = in_scope().next() {
                let found = format!("no zone within the filters belongs to {account}");
                let remedy = format!("correct CF_ACCOUNT_ID: {} belongs to {}", zone.name, zone.account);
                self.add(FindingStatus::Failed, "account", found, remedy);
                return None;
            } else {
                let found = format!("{account}; no zone shows whether the account is right");
                self.add(FindingStatus::Untried, "account", found, "");
            }
            return Some(account.clone());
        }
        let account = shared_account(zones?, settings);
        match &account {
            Ok(account) => {
                self.ok("account", format!("{account}, shared by all zones"));
            }
            Err(_) if !zones?.iter().any(|zone| settings.includes_zone(zone)) => {
                self.add(FindingStatus::Untried, "account", "no zone shows the account", "");
            }
            Err(problem) => {
                self.add(FindingStatus::Failed, "account", problem.why.as_str(), problem.remedy);
            }
        }
        account.ok()
    }

    fn tunnels(&mut self, account: &AccountId) {
        let present = match self.client.tunnels(account, self.deadline()) {
            Ok(present) => present,
            Err(error) => return self.failed("tunnels", &error, TUNNEL_EDIT),
        };
        // The setting may name a tunnel by its id and by its name.
        let mut checked = BTreeSet::new();
        self.unconfigured = present.iter().map(|tunnel| tunnel.id.clone()).collect();
        for wanted in &self.config.provider.tunnels {
            let found = find_tunnel(&present, wanted);
            match found.and_then(|found| found.ok_or_else(|| no_such_tunnel(&present, wanted))) {
                Ok(tunnel) if checked.insert(&tunnel.id) => {
                    self.unconfigured.retain(|id| *id != tunnel.id);
                    self.tunnel(account, tunnel);
                }
                Ok(_) => {}
                Err(problem) => {
                    let found = format!("{problem} in account {account}");
                    let remedy =
                        "correct CF_TUNNEL_ID; the command tunnel creates a tunnel with a given name";
                    self.add(FindingStatus::Failed, &format!("tunnel {wanted}"), found, remedy);
                }
            }
        }
    }

    fn tunnel(&mut self, account: &AccountId, tunnel: &Tunnel) {
        let Tunnel { id, name, is_locally_managed, deleted: _ } = tunnel;
        let configuration = self.client.configuration(account, id, self.deadline());
        let told = configuration.as_ref().ok().and_then(|configuration| configuration.is_locally_managed);
        self.config_source(tunnel, told.unwrap_or(*is_locally_managed));
        self.tunnel_token(account, tunnel);

        let what = format!("configuration of {name}");
        let Configuration { version, config, .. } = match configuration {
            Ok(configuration) => configuration,
            Err(error) => return self.failed(&what, &error, TUNNEL_EDIT),
        };
        let document = match Document::parse(config.as_deref()) {
            Ok(document) => document,
            Err(error) => {
                return self.add(FindingStatus::Failed, &what, error.to_string(), "fix it in the dashboard");
            }
        };
        let rules = document.rules().len();
        self.ok(&what, format!("version {version}, {rules} rules"));
        for surprise in unusual_settings(&document) {
            self.add(FindingStatus::Warning, &what, surprise, "");
        }

        let what = format!("connectors of {name}");
        match self.client.connectors(account, id, self.deadline()) {
            Ok(connectors) if connectors.is_empty() => {
                let found = "none: no visitor reaches its hostnames";
                self.add(FindingStatus::Warning, &what, found, "run cloudflared for it");
            }
            Ok(connectors) => match Connector::slowest(&connectors).filter(|(lowest, _)| *lowest < version) {
                None => self.ok(&what, connectors.len().to_string()),
                Some((lowest, connector)) => self.add(
                    FindingStatus::Warning,
                    &what,
                    format!("{}; {connector} has applied only version {lowest}", connectors.len()),
                    "see the log of that cloudflared, unless the configuration was just written",
                ),
            },
            // No other check depends on the connectors.
            Err(error) => self.add(FindingStatus::Warning, &what, format!("cannot be read: {error}"), ""),
        }
    }

    /// Reads the tunnel's token, which takes the same permission as writing the tunnel.
    fn tunnel_token(&mut self, account: &AccountId, Tunnel { id, name, .. }: &Tunnel) {
        let what = format!("permission for {name}");
        match self.client.tunnel_token(account, id, self.deadline()) {
            Ok(_) => self.ok(&what, "the tunnel may be written: its token can be read"),
            // Trying again helps against neither error.
            Err(error @ (Error::Credentials(_) | Error::Unreadable(_))) => {
                self.failed(&what, &error, TUNNEL_EDIT);
            }
            Err(error) => {
                let found = format!("not known, because the tunnel token cannot be read: {error}");
                let remedy = "try again; without the permission to edit tunnels the webhook publishes \
                     nothing through it";
                self.add(FindingStatus::Warning, &what, found, remedy);
            }
        }
    }

    fn config_source(&mut self, Tunnel { id, name, .. }: &Tunnel, is_locally_managed: bool) {
        let (status, source, remedy) = match (is_locally_managed, self.config.provider.allow_local_config) {
            (false, _) => (FindingStatus::Ok, "configured at Cloudflare", ""),
            (true, true) => (
                FindingStatus::Warning,
                "configured by a file beside its cloudflared: the first write replaces the file for good",
                "",
            ),
            (true, false) => (
                FindingStatus::Failed,
                "configured by a file beside its cloudflared, so the webhook does not write to it",
                MIGRATE_OR_TAKE_OVER,
            ),
        };
        self.add(status, &format!("tunnel {name}"), format!("{id}, {source}"), remedy);
    }

    /// Warns of zones in ZONE_ID_FILTER that the token does not see. Fails if the filters match no zone.
    fn scope(&mut self, zones: Option<&[Zone]>) {
        let (Some(zones), settings) = (zones, &self.config.provider) else { return };
        for id in settings.zone_ids.iter().filter(|id| zones.iter().all(|zone| zone.id != **id)) {
            let found = "is in ZONE_ID_FILTER, but the token does not see it";
            self.add(FindingStatus::Warning, &format!("zone {id}"), found, ZONE_READ);
        }
        if !zones.iter().any(|zone| settings.includes_zone(zone)) {
            let names: Vec<&str> =
                zones.iter().map(|zone| &*zone.name).take(limits::NAMES_SHOWN_MAX).collect();
            let (found, remedy) = match zones.len() {
                0 => ("the token sees none".to_owned(), ZONE_READ),
                count => (
                    format!(
                        "the filters match none of the {count} zones that the token sees: {}",
                        names.join(", ")
                    ),
                    CORRECT_FILTERS,
                ),
            };
            self.add(FindingStatus::Failed, "zones", found, remedy);
        }
    }

    fn zones(&mut self, zones: &[Zone], account: Option<&AccountId>) {
        for zone in zones.iter().filter(|zone| self.config.provider.includes_zone(zone)) {
            if account.is_some_and(|account| !zone.belongs_to(account)) {
                let found = format!(
                    "belongs to account {}: no record of the zone can point to the tunnels",
                    zone.account
                );
                self.add(FindingStatus::Warning, &format!("zone {}", zone.name), found, "");
            } else {
                self.zone(zone);
            }
        }
    }

    fn zone(&mut self, zone: &Zone) {
        let what = format!("zone {}", zone.name);
        let plan = match zone.plan {
            ZonePlan::Free => "free",
            ZonePlan::Paid => "paid",
        };
        match inactive_state(zone) {
            None => self.ok(&what, format!("active, {plan} plan")),
            Some(state) => {
                let found =
                    format!("{state}, {plan} plan: no visitor reaches its hostnames until it is active");
                self.add(FindingStatus::Warning, &what, found, "");
            }
        }
        let what = format!("records of {}", zone.name);
        match self.client.records(&zone.id, self.deadline()) {
            Ok(records) => {
                let stamped = records.iter().filter_map(|record| Some((record, Stamp::of(record)?)));
                let (own, others): (Vec<_>, Vec<_>) =
                    stamped.partition(|(_, stamp)| stamp.owner == self.config.provider.operator.owner);
                let is_unconfigured = |id| self.unconfigured.contains(&id);
                let elsewhere =
                    own.iter().filter(|(record, _)| record.tunnel().is_some_and(is_unconfigured)).count();
                self.claims_protection |= own.iter().any(|(_, stamp)| stamp.claims.is_protected);
                self.other_owners.extend(others.into_iter().map(|(_, stamp)| stamp.owner));
                self.ok(&what, format!("{}, {} of them ours", records.len(), own.len() - elsewhere));
                if elsewhere > 0 {
                    let found = format!(
                        "{elsewhere} of them with the OWNER_ID {:?} point to a tunnel that is not \
                         configured, so the webhook ignores them",
                        self.config.provider.operator.owner
                    );
                    self.add(FindingStatus::Warning, &what, found, SHARED_OWNER);
                }
            }
            Err(error) => self.failed(&what, &error, DNS_EDIT),
        }
    }

    /// Checks Access. Without a setting or a record of ours that asks for Access, no check of it counts as failed.
    fn access(&mut self, account: &AccountId, zones: &[Zone]) {
        let is_asked = self.config.provider.operator.needs_access() || self.claims_protection;
        let (missing, asks) = if is_asked {
            (FindingStatus::Failed, "")
        } else {
            (FindingStatus::Untried, "nothing asks for Access yet: ")
        };
        let team = self.client.access_team(account, self.deadline());
        match (team, self.client.access_applications(AccountOrZone::Account(account), self.deadline())) {
            (Ok(Some(team)), Ok(all)) => {
                let found = format!("the team is {}, with {} applications", team.as_str(), all.len());
                self.ok("Access", found);
            }
            // Without a team, Cloudflare rejects every other call about Access, whatever the token permits.
            (Ok(None), _) => {
                let found = format!("{asks}Access is not set up in the account, so nothing can be protected");
                let remedy =
                    "open Zero Trust in the dashboard and choose a team name, or remove the Access settings";
                return self.add(missing, "Access", found, remedy);
            }
            (Err(error), _) | (_, Err(error)) => {
                let is_forbidden = matches!(error, Error::Credentials(_));
                let (permissions, _) = GIVE_ACCESS.split_once(';').unwrap_or_default();
                let remedy = if !is_forbidden {
                    remedy(&error)
                } else if is_asked {
                    GIVE_ACCESS
                } else {
                    permissions
                };
                // `GIVE_ACCESS` already ends with a form that has all permissions.
                self.lacks_permission &= !(is_asked && is_forbidden);
                return self.add(missing, "Access", format!("{asks}{error}"), remedy);
            }
        }
        self.policies(account);
        let OperatorSettings { access_guard, .. } = &self.config.provider.operator;
        let served = zones.iter().filter(|zone| {
            *access_guard && self.config.provider.includes_zone(zone) && zone.belongs_to(account)
        });
        for zone in served {
            let what = format!("Access applications of {}", zone.name);
            match self.client.access_applications(AccountOrZone::Zone(&zone.id), self.deadline()) {
                Ok(applications) => self.ok(&what, applications.len().to_string()),
                Err(error) => self.failed_with_other_permission(&what, &error, ZONE_APPLICATIONS_READ),
            }
        }
    }

    /// Checks the policies that the settings name.
    fn policies(&mut self, account: &AccountId) {
        let OperatorSettings { default_access_policy, access_policies, .. } = &self.config.provider.operator;
        let defaults = default_access_policy.iter().map(|name| ("DEFAULT_ACCESS_POLICY", name));
        let listed = access_policies.iter().flatten().map(|name| ("ACCESS_POLICIES", name));
        let named: Vec<(&str, &Box<str>)> = defaults.chain(listed).collect();
        if named.is_empty() && !self.claims_protection {
            return;
        }
        let policies = match self.client.access_policies(account, self.deadline()) {
            Ok(policies) => policies,
            Err(error) => return self.failed_with_other_permission("Access policies", &error, GIVE_ACCESS),
        };
        for (setting, name) in named {
            match usable_policy(name, &policies, &self.config.provider.operator) {
                Ok(_) => self.ok(setting, format!("{name:?} exists")),
                Err(problem) => self.add(FindingStatus::Failed, setting, problem, ""),
            }
        }
        let found = "writing is not tried, because a trial would change an application; the token needs \
             Account: Access: Apps and Policies: Edit";
        self.add(FindingStatus::Untried, "Access applications", found, "");
    }

    fn ownership(&mut self) {
        let OperatorSettings { owner, .. } = &self.config.provider.operator;
        let names = self.other_owners.iter().take(limits::NAMES_SHOWN_MAX);
        let names: Vec<&str> = names.map(|other| &**other).collect();
        let others = match names.join(", ") {
            names if names.is_empty() => names,
            names => format!("; other owners in these zones: {names}"),
        };
        self.add(
            FindingStatus::Ok,
            "ownership",
            format!("OWNER_ID={owner}{others}"),
            format!("start ExternalDNS with --txt-owner-id={owner} --registry=noop (or txt)"),
        );
    }
}
