//! Judges who may reach what is asked for, before anything else is planned.
//!
//! Whatever is not certain stays as it is: a wish that says nothing never opens what is protected, and what is to be
//! protected is published only once its application is there.

use std::collections::BTreeMap;

use super::request::{HostRequest, Requests, Wanted};
use super::{Plan, Reason, Stage};
use crate::ingress::RuleEdit;
use crate::ingress::access::Access;
use crate::model::Hostname;
use crate::model::access::Application;
use crate::reconcile::access_guard::{AccessReading, Guarding, Unread};
use crate::reconcile::access_wish::{AccessWish, ProtectionWish};
use crate::reconcile::applications::{self, Place};
use crate::reconcile::canonical::Publication;
use crate::reconcile::cover::{self, Cover};
use crate::reconcile::protection::HostProtection;
use crate::reconcile::snapshot::{OwnRules, Snapshot};
use crate::reconcile::{Note, Settings};

/// Something to be done about an application before, or after, its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationWork {
    pub hostname: Box<str>,
    pub set_identifier: Box<str>,
    pub resource: Option<Box<str>>,
    pub place: Place,
    pub operation: ApplicationOperation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplicationOperation {
    Create(ProtectionWish),
    /// Gives the application with this id what is wanted.
    Replace(Box<str>, ProtectionWish),
    /// Deletes the application with this id. No rule relies on it.
    Delete(Box<str>),
}

/// What a judgement is made from.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) settings: &'a Settings,
    pub(super) own: &'a OwnRules,
    /// Applications that are still to be made count as made, with an audience that nobody has.
    pub(super) is_preview: bool,
}

/// The audience of an application that is not made yet.
const NO_AUDIENCE: &str = "";

impl Judge<'_> {
    /// The requests, with the reason in place of each publication that has to wait, and with what the others' rules
    /// have to require.
    pub(super) fn judged(self, mut requests: Requests) -> Requests {
        let mut opening = 0;
        for (name, request) in &mut requests.by_hostname {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = HostProtection::of(&hostname, self.snapshot, self.settings, self.own);
            let opens = |publication: &Publication| {
                publication.access == AccessWish::Open && host.is_protected(publication.path())
            };
            opening += usize::from(request.publications().any(opens));
            request.wanted = std::mem::take(&mut request.wanted)
                .into_iter()
                .map(|wanted| Wanted {
                    publication: wanted
                        .publication
                        .and_then(|publication| self.publication(publication, &host)),
                    ..wanted
                })
                .collect();
            hold_together(request);
        }
        let limit = self.settings.policy.mass_deletion_limit;
        if limit > 0 && opening > limit {
            self.withhold_openings(&mut requests);
        }
        requests
    }

    fn withhold_openings(self, requests: &mut Requests) {
        for (name, request) in &mut requests.by_hostname {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = HostProtection::of(&hostname, self.snapshot, self.settings, self.own);
            for wanted in &mut request.wanted {
                let opens = wanted.publication.as_ref().is_ok_and(|publication| {
                    publication.access == AccessWish::Open && host.is_protected(publication.path())
                });
                if opens {
                    wanted.publication = Err(Reason::MassOpening);
                }
            }
            hold_together(request);
        }
    }

    fn publication(self, publication: Publication, host: &HostProtection<'_>) -> Result<Publication, Reason> {
        match &publication.access {
            AccessWish::Protected(wish) => {
                let access = self.protection(&publication, wish, host)?;
                Ok(publication.requiring(access))
            }
            AccessWish::Open => {
                self.look_at_opening(&publication, host)?;
                self.guarded(publication, host)
            }
            AccessWish::Silent => {
                let publication = self.guarded(publication, host)?;
                let is_locked =
                    publication.rule.as_ref().is_some_and(|rule| rule.origin_request.requires_access());
                if !is_locked && host.would_open(publication.path()) {
                    return Err(Reason::WouldOpen);
                }
                Ok(publication)
            }
        }
    }

    /// What the rule of a publication requires that asks for an application.
    fn protection(
        self,
        publication: &Publication,
        wish: &ProtectionWish,
        host: &HostProtection<'_>,
    ) -> Result<Access, Reason> {
        let Settings { policy, .. } = self.settings;
        let access = match &self.snapshot.access {
            AccessReading::Read(access) => access,
            AccessReading::Failed(unread) => return Err(unknown(publication, unread, host)),
            AccessReading::NotAsked => return Err(unknown(publication, &"it was not read yet".into(), host)),
        };
        let ids = wish.ids().map_err(|problem| Reason::AccessPolicy(problem.into()))?;
        let place = Place::of(&publication.hostname, publication.path())
            .map_err(|problem| Reason::AccessPolicy(problem.to_string().into()))?;
        let application = self.application(&place, publication.path(), host);
        if let Some(other) = applications::in_the_way(&place, &access.applications, &policy.owner)
            && application.is_none_or(|application| application.id != other.id)
        {
            let is_exact = applications::stands_over(other, &place);
            return Err(Reason::ApplicationHeld { application: other.name.clone(), is_exact });
        }
        let unmade = || Reason::Undecided("its Access application is not as it has to be yet".to_owned());
        match application {
            Some(application) if !self.is_preview && applications::lets_past(application) => {
                Err(Reason::AccessPolicy(
                    "has an Access application with a policy that lets visitors past without a login".into(),
                ))
            }
            Some(application) => {
                let is_ready = self.is_preview
                    || applications::is_as_wanted(
                        application,
                        &place,
                        &ids,
                        wish.session_duration,
                        &policy.owner,
                    );
                host.required(application).filter(|_| is_ready).ok_or_else(unmade)
            }
            None if self.is_preview => Ok(Access::required(&access.team, vec![NO_AUDIENCE.into()])),
            None => Err(unmade()),
        }
    }

    /// The application of a place, or the one that is taken over for it.
    fn application<'h>(
        self,
        place: &Place,
        path: Option<&str>,
        host: &HostProtection<'h>,
    ) -> Option<&'h Application> {
        let Settings { policy, .. } = self.settings;
        let own = host.applications(path).into_iter().next();
        own.or_else(|| {
            let other = applications::in_the_way(place, &host.access()?.applications, &policy.owner)?;
            (policy.adopt.access && applications::stands_over(other, place)).then_some(other)
        })
    }

    /// Says no where the word that opens would not open, because something else protects the hostname.
    fn look_at_opening(self, publication: &Publication, host: &HostProtection<'_>) -> Result<(), Reason> {
        let path = publication.path();
        match &self.snapshot.access {
            AccessReading::NotAsked => Ok(()),
            AccessReading::Failed(unread) if host.is_locked(path) => Err(unknown(publication, unread, host)),
            AccessReading::Failed(_) => Ok(()),
            AccessReading::Read(access) => {
                let own: Vec<&str> =
                    host.applications(path).iter().map(|application| &*application.id).collect();
                let others = access.applications.iter().filter(|other| !own.contains(&&*other.id)).cloned();
                let others: Vec<_> = others.collect();
                match cover::cover(&others, &publication.hostname, rule_path(publication)) {
                    Cover::Protected { audiences } => {
                        let mut over = others.iter().filter(|other| audiences.contains(&other.audience));
                        let application = over.next().map(|other| other.name.clone()).unwrap_or_default();
                        Err(Reason::StillProtected { application })
                    }
                    Cover::Open(_) => Ok(()),
                }
            }
        }
    }

    /// The publication as `ACCESS_GUARD` allows it.
    fn guarded(self, publication: Publication, host: &HostProtection<'_>) -> Result<Publication, Reason> {
        if !self.settings.policy.access_guard {
            return Ok(publication);
        }
        match Guarding::of(&publication.hostname, publication.path(), self.snapshot) {
            Guarding::Protected(access) => Ok(publication.requiring(access)),
            Guarding::Open(gap) => Err(Reason::Unprotected(gap)),
            Guarding::Unknown(unread) => Err(unknown(&publication, &unread, host)),
        }
    }

    /// What has to be done about applications so that `plan`, which was made as a preview, can be carried out.
    pub(super) fn work(self, requests: &Requests, plan: &Plan) -> Vec<ApplicationWork> {
        let mut work = Vec::new();
        for (name, request) in &requests.by_hostname {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = HostProtection::of(&hostname, self.snapshot, self.settings, self.own);
            for wanted in &request.wanted {
                let Ok(publication) = &wanted.publication else { continue };
                if !is_refused(plan, name, &wanted.set_identifier) {
                    work.extend(self.work_for(publication, wanted, &host, plan));
                }
            }
            let withdrawn = request.withdrawn.iter();
            for set_identifier in withdrawn.filter(|path| !is_refused(plan, name, path)) {
                let path = Some(&**set_identifier).filter(|path| !path.is_empty());
                work.extend(self.deletions(
                    &hostname,
                    path,
                    set_identifier,
                    request.resource(),
                    false,
                    &host,
                ));
            }
        }
        work
    }

    /// Tells of applications that stay although what they were made for is withdrawn, because something else of the
    /// hostname relies on them.
    pub(super) fn notes(self, requests: &Requests) -> Vec<Note> {
        let mut notes = Vec::new();
        for (name, request) in &requests.by_hostname {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = HostProtection::of(&hostname, self.snapshot, self.settings, self.own);
            for path in request.withdrawn.iter().map(|path| Some(&**path).filter(|path| !path.is_empty())) {
                let Ok(place) = Place::of(&hostname, path) else { continue };
                let applications = host.applications(path).into_iter();
                let staying = applications
                    .filter(|one| !host.is_published(path) && !host.is_left(&place, path, one, false));
                notes.extend(staying.map(|application| Note {
                    hostname: name.clone(),
                    resource: request.resource(),
                    text: format!(
                        "the Access application {:?} stays, because another rule may take its requests now: delete it \
                         at Cloudflare if they are to be open",
                        application.name
                    ),
                }));
            }
        }
        notes
    }

    /// True if an application of what is withdrawn or opened waits until its rule is gone.
    pub(super) fn leaves(self, requests: &Requests, plan: &Plan) -> bool {
        requests.by_hostname.iter().any(|(name, request)| {
            let Ok(hostname) = Hostname::parse(name) else { return false };
            let host = HostProtection::of(&hostname, self.snapshot, self.settings, self.own);
            let waits = |path: Option<&str>, opens| {
                let Ok(place) = Place::of(&hostname, path) else { return false };
                let applications = host.applications(path);
                plan.host(name).is_some()
                    && applications.iter().any(|one| !host.is_left(&place, path, one, opens))
            };
            let opened = request.publications().filter(|one| one.access == AccessWish::Open);
            let withdrawn =
                request.withdrawn.iter().map(|path| Some(&**path).filter(|path| !path.is_empty()));
            opened.map(Publication::path).any(|path| waits(path, true))
                || withdrawn.into_iter().any(|path| waits(path, false))
        })
    }

    fn work_for(
        self,
        publication: &Publication,
        wanted: &Wanted,
        host: &HostProtection<'_>,
        plan: &Plan,
    ) -> Vec<ApplicationWork> {
        let path = publication.path();
        let (hostname, resource) = (&publication.hostname, wanted.resource.clone());
        let wish = match &publication.access {
            AccessWish::Protected(wish) => wish,
            AccessWish::Open => {
                return self.deletions(hostname, path, &wanted.set_identifier, resource, true, host);
            }
            AccessWish::Silent => return Vec::new(),
        };
        let (Ok(place), Ok(ids)) = (Place::of(hostname, path), wish.ids()) else {
            return Vec::new();
        };
        let owner = &self.settings.policy.owner;
        let operation = match self.application(&place, path, host) {
            Some(one) if applications::is_as_wanted(one, &place, &ids, wish.session_duration, owner) => None,
            Some(one) => Some(ApplicationOperation::Replace(one.id.clone(), wish.clone())),
            None if is_put(plan, hostname.as_str(), path) => Some(ApplicationOperation::Create(wish.clone())),
            None => None,
        };
        let work = operation.map(|operation| ApplicationWork {
            hostname: hostname.as_str().into(),
            set_identifier: wanted.set_identifier.clone(),
            resource,
            place,
            operation,
        });
        work.into_iter().collect()
    }

    /// The deletions of a place's applications that nothing relies on any more.
    fn deletions(
        self,
        hostname: &Hostname,
        path: Option<&str>,
        set_identifier: &str,
        resource: Option<Box<str>>,
        opens: bool,
        host: &HostProtection<'_>,
    ) -> Vec<ApplicationWork> {
        let Ok(place) = Place::of(hostname, path) else {
            return Vec::new();
        };
        let applications = host.applications(path).into_iter();
        let left = applications.filter(|application| host.is_left(&place, path, application, opens));
        left.map(|application| ApplicationWork {
            hostname: hostname.as_str().into(),
            set_identifier: set_identifier.into(),
            resource: resource.clone(),
            place: place.clone(),
            operation: ApplicationOperation::Delete(application.id.clone()),
        })
        .collect()
    }
}

/// The reason if it is not known what Access protects. What is published already stays. Nobody may ask again for what is
/// not, once it was answered as done; but what nobody but an operator can mend is refused as everything else.
fn unknown(publication: &Publication, unread: &Unread, host: &HostProtection<'_>) -> Reason {
    if unread.is_lasting || host.is_published(publication.path()) {
        return Reason::AccessUnknown(unread.reason.clone());
    }
    Reason::Undecided(format!("it is not known what Access protects: {}", unread.reason))
}

fn rule_path(publication: &Publication) -> Option<&crate::ingress::PathPattern> {
    publication.rule.as_ref()?.path.as_ref()
}

/// True if the plan leaves the endpoint out. A move is under way.
fn is_refused(plan: &Plan, hostname: &str, set_identifier: &str) -> bool {
    let is_meant = |one: &Option<Box<str>>| one.as_deref().is_none_or(|one| one == set_identifier);
    plan.refusals.iter().any(|refusal| {
        *refusal.hostname == *hostname
            && is_meant(&refusal.set_identifier)
            && !matches!(refusal.reason, Reason::Moving(_) | Reason::NotMoved(_))
    })
}

/// True if the plan writes the rule.
fn is_put(plan: &Plan, hostname: &str, path: Option<&str>) -> bool {
    let Some(host) = plan.host(hostname) else {
        return false;
    };
    let mut edits = host.edits.get(&Stage::Publish).into_iter().flatten();
    edits.any(|(_, edit)| matches!(edit, RuleEdit::Put { rule, .. } if rule.path_text() == path))
}

/// Where one rule of an object has to wait for what protects it, the others would take its requests.
fn hold_together(request: &mut HostRequest) {
    let mut waiting: BTreeMap<Option<Box<str>>, Reason> = BTreeMap::new();
    for wanted in &request.wanted {
        if let Err(reason) = &wanted.publication
            && reason.is_about_protection()
        {
            waiting.insert(wanted.resource.clone(), reason.clone());
        }
    }
    if waiting.is_empty() {
        return;
    }
    for wanted in &mut request.wanted {
        if wanted.publication.is_ok()
            && let Some(reason) = waiting.get(&wanted.resource)
        {
            wanted.publication = Err(reason.clone());
        }
    }
}
