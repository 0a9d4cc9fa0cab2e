//! Judges who may reach what is asked for, before anything else is planned.
//!
//! Whatever is not certain stays as it is: a wish that says nothing never opens what is protected, and what is to be
//! protected is published only once its application is there.

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
use crate::reconcile::protection::{HostProtection, Openings};
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

const TWO_WAYS: &str = "asks for tokens by webhook-access-required, and this program keeps an Access application for \
     it: set webhook-access-policy instead, or delete that application at Cloudflare";

const LETS_PAST: &str = "has an Access application with a policy that came to let visitors past without a login: \
     change that policy at Cloudflare, or name another one";

impl Judge<'_> {
    /// The requests, with the reason in place of each publication that has to wait, and with what the others' rules
    /// have to require.
    pub(super) fn judged(self, mut requests: Requests) -> Requests {
        let openings = self.openings(&requests);
        let going = self.going(&openings);
        let mut opening: Vec<(Box<str>, Option<Box<str>>)> = Vec::new();
        for (name, request) in &mut requests.by_hostname {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = HostProtection::of(&hostname, self.snapshot, self.settings, self.own);
            let wished = wished_places(request);
            request.wanted = std::mem::take(&mut request.wanted)
                .into_iter()
                .map(|wanted| Wanted {
                    publication: wanted.publication.and_then(|publication| {
                        self.look_at_opening(&publication, &host, &openings, &going)?;
                        self.publication(publication, &host, &wished)
                    }),
                    ..wanted
                })
                .collect();
            hold_together(request);
            let opened = request.publications().filter(|one| {
                one.access == AccessWish::Open
                    && (host.is_protected(one.path()) || host.is_covered(one.path()))
            });
            opening.extend(opened.map(|one| (name.clone(), one.path().map(Into::into))));
        }
        let limit = self.settings.policy.mass_deletion_limit;
        if limit > 0 && opening.chunk_by(|one, other| one.0 == other.0).count() > limit {
            for (name, request) in &mut requests.by_hostname {
                withhold_openings(name, request, &opening);
            }
        }
        requests
    }

    fn openings(self, requests: &Requests) -> Openings {
        let mut openings = Openings::default();
        for (name, request) in &requests.by_hostname {
            let opened = request.publications().filter(|one| one.access == AccessWish::Open);
            openings.0.extend(opened.map(|one| (name.clone(), one.path().map(Into::into))));
        }
        openings
    }

    /// The ids of our applications that nothing will rely on once all openings are done.
    fn going(self, openings: &Openings) -> Vec<Box<str>> {
        let mut going = Vec::new();
        for (name, path) in &openings.0 {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = HostProtection::of(&hostname, self.snapshot, self.settings, self.own);
            let Ok(place) = Place::of(&hostname, path.as_deref()) else { continue };
            let applications = host.applications(path.as_deref()).into_iter();
            let left = applications.filter(|one| host.relying(&place, one, openings).is_none());
            going.extend(left.map(|application| application.id.clone()));
        }
        going
    }

    /// The publication as it may be, beside the `wished` places, which are to be protected.
    fn publication(
        self,
        publication: Publication,
        host: &HostProtection<'_>,
        wished: &[Place],
    ) -> Result<Publication, Reason> {
        match &publication.access {
            AccessWish::Protected(wish) => {
                let access = self.protection(&publication, wish, host)?;
                Ok(publication.requiring(access))
            }
            AccessWish::Open => self.guarded(publication, host),
            AccessWish::Silent => {
                let is_locked = publication.requires_access();
                if !host.applications(publication.path()).is_empty() {
                    return Err(if is_locked {
                        Reason::AccessPolicy(TWO_WAYS.into())
                    } else {
                        Reason::WouldOpen
                    });
                }
                let publication = self.guarded(publication, host)?;
                if !publication.requires_access() && host.would_open(publication.path(), wished) {
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
            AccessReading::Failed(unread) => return Err(unknown(publication, host, unread)),
            AccessReading::NotAsked => return Err(unknown(publication, host, &"it was not read yet".into())),
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
            Some(application) => {
                let (duration, owner) = (wish.session_duration, &policy.owner);
                let is_as_wanted = applications::is_as_wanted(application, &place, &ids, duration, owner);
                // Any other such policy goes with the replacement.
                if is_as_wanted && applications::lets_past(application) {
                    return Err(Reason::AccessPolicy(LETS_PAST.into()));
                }
                host.required(application).filter(|_| is_as_wanted || self.is_preview).ok_or_else(unmade)
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

    /// Says no where the word that opens would not open, because something else protects the hostname, or would open
    /// more than what asks for it.
    fn look_at_opening(
        self,
        publication: &Publication,
        host: &HostProtection<'_>,
        openings: &Openings,
        going: &[Box<str>],
    ) -> Result<(), Reason> {
        if publication.access != AccessWish::Open {
            return Ok(());
        }
        let (hostname, path) = (&publication.hostname, publication.path());
        let access = match &self.snapshot.access {
            AccessReading::Failed(unread) if host.is_locked(path) => {
                return Err(unknown(publication, host, unread));
            }
            AccessReading::NotAsked | AccessReading::Failed(_) => return Ok(()),
            AccessReading::Read(access) => access,
        };
        for application in host.applications(path) {
            let place = Place::of(hostname, path);
            let relying = place.ok().and_then(|place| host.relying(&place, application, openings));
            if relying.is_some() {
                let application = application.name.clone();
                return Err(Reason::StillProtected { application, relying: relying.map(Into::into) });
            }
        }
        let staying = access.applications.iter().filter(|one| !going.contains(&one.id));
        let staying: Vec<Application> = staying.cloned().collect();
        match cover::cover(&staying, hostname, rule_path(publication)) {
            Cover::Protected { audiences } => {
                let mut over = staying.into_iter().filter(|one| audiences.contains(&one.audience));
                let application = over.next().map(|one| one.name).unwrap_or_default();
                Err(Reason::StillProtected { application, relying: None })
            }
            Cover::Open(_) => Ok(()),
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
            Guarding::Unknown(unread) => Err(unknown(&publication, host, &unread)),
        }
    }

    /// What has to be done about applications so that `plan`, which was made as a preview, can be carried out.
    pub(super) fn work(self, requests: &Requests, plan: &Plan) -> Vec<ApplicationWork> {
        let openings = self.openings(requests);
        let mut work = Vec::new();
        for (name, request) in &requests.by_hostname {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = HostProtection::of(&hostname, self.snapshot, self.settings, self.own);
            for wanted in &request.wanted {
                let Ok(publication) = &wanted.publication else { continue };
                if !is_refused(plan, name, &wanted.set_identifier) {
                    work.extend(self.work_for(publication, wanted, &host, &openings, plan));
                }
            }
            if self.is_gone(name, request) {
                work.extend(all_deletions(&hostname, &host, request, &openings));
                continue;
            }
            let withdrawn = request.withdrawn.iter();
            for set_identifier in withdrawn.filter(|path| !is_refused(plan, name, path)) {
                let path = Some(&**set_identifier).filter(|path| !path.is_empty());
                let resource = request.resource();
                work.extend(deletions(&hostname, path, set_identifier, resource, &host, &openings, plan));
            }
        }
        work
    }

    fn work_for(
        self,
        publication: &Publication,
        wanted: &Wanted,
        host: &HostProtection<'_>,
        openings: &Openings,
        plan: &Plan,
    ) -> Vec<ApplicationWork> {
        let path = publication.path();
        let (hostname, resource) = (&publication.hostname, wanted.resource.clone());
        let wish = match &publication.access {
            AccessWish::Protected(wish) => wish,
            AccessWish::Open => {
                return deletions(hostname, path, &wanted.set_identifier, resource, host, openings, plan);
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

    /// True if nothing of the hostname is wanted, and no record of ours is there any more.
    fn is_gone(self, name: &str, request: &HostRequest) -> bool {
        request.wanted.is_empty() && self.snapshot.own_records_of(name, self.settings).is_empty()
    }

    /// Tells of applications that stay although what they were made for is withdrawn.
    pub(super) fn notes(self, requests: &Requests) -> Vec<Note> {
        let openings = self.openings(requests);
        let mut notes = Vec::new();
        for (name, request) in &requests.by_hostname {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = HostProtection::of(&hostname, self.snapshot, self.settings, self.own);
            for path in request.withdrawn.iter().map(|path| Some(&**path).filter(|path| !path.is_empty())) {
                let Ok(place) = Place::of(&hostname, path) else { continue };
                for application in host.applications(path).into_iter().filter(|_| !host.is_published(path)) {
                    notes.extend(host.relying(&place, application, &openings).map(|relying| Note {
                        hostname: name.clone(),
                        resource: request.resource(),
                        text: format!(
                            "the Access application {:?} stays, because {relying:?} may take its requests now: delete \
                             it at Cloudflare if they are to be open",
                            application.name
                        ),
                    }));
                }
            }
        }
        notes
    }

    /// True if an application of what is withdrawn or opened waits until the plan is carried out.
    pub(super) fn leaves(self, requests: &Requests, plan: &Plan) -> bool {
        requests.by_hostname.iter().any(|(name, request)| {
            let Ok(hostname) = Hostname::parse(name) else { return false };
            let host = HostProtection::of(&hostname, self.snapshot, self.settings, self.own);
            let waits = |path: Option<&str>| {
                let place = Place::of(&hostname, path);
                place.is_ok_and(|place| is_written_below(plan, &place)) && !host.applications(path).is_empty()
            };
            let opened = request.publications().filter(|one| one.access == AccessWish::Open);
            let withdrawn =
                request.withdrawn.iter().map(|path| Some(&**path).filter(|path| !path.is_empty()));
            let vanishes = request.wanted.is_empty() && plan.host(name).is_some_and(|host| host.vanishes);
            (vanishes && !host.all_applications().is_empty())
                || opened.map(Publication::path).chain(withdrawn).any(waits)
        })
    }
}

/// The deletions of a place's applications that nothing relies on any more. They wait for what the plan writes, because
/// it may lead names elsewhere.
fn deletions(
    hostname: &Hostname,
    path: Option<&str>,
    set_identifier: &str,
    resource: Option<Box<str>>,
    host: &HostProtection<'_>,
    openings: &Openings,
    plan: &Plan,
) -> Vec<ApplicationWork> {
    let place = match Place::of(hostname, path) {
        Ok(place) if !is_written_below(plan, &place) => place,
        Ok(_) | Err(_) => return Vec::new(),
    };
    let applications = host.applications(path).into_iter();
    let left = applications.filter(|application| host.is_left(&place, application, openings));
    left.map(|application| ApplicationWork {
        hostname: hostname.as_str().into(),
        set_identifier: set_identifier.into(),
        resource: resource.clone(),
        place: place.clone(),
        operation: ApplicationOperation::Delete(application.id.clone()),
    })
    .collect()
}

/// The deletions of all applications of a hostname that is gone, of paths that were withdrawn before it as well.
fn all_deletions(
    hostname: &Hostname,
    host: &HostProtection<'_>,
    request: &HostRequest,
    openings: &Openings,
) -> Vec<ApplicationWork> {
    let applications = host.all_applications().into_iter();
    let left = applications.filter(|(place, one)| host.is_left(place, one, openings));
    left.map(|(place, one)| ApplicationWork {
        hostname: hostname.as_str().into(),
        set_identifier: place.path_text().unwrap_or_default().into(),
        resource: request.resource(),
        place,
        operation: ApplicationOperation::Delete(one.id.clone()),
    })
    .collect()
}

/// Withholds what is among the openings.
fn withhold_openings(name: &str, request: &mut HostRequest, openings: &[(Box<str>, Option<Box<str>>)]) {
    for wanted in &mut request.wanted {
        let is_meant = wanted.publication.as_ref().is_ok_and(|publication| {
            let path = publication.path();
            openings.iter().any(|(hostname, opened)| **hostname == *name && opened.as_deref() == path)
        });
        if is_meant {
            wanted.publication = Err(Reason::MassOpening);
        }
    }
}

/// The reason if it is not known what Access protects. What is published already stays. Nobody may ask again for what
/// is not, once it was answered as done; but what nobody but an operator can mend is refused as everything else.
fn unknown(publication: &Publication, host: &HostProtection<'_>, unread: &Unread) -> Reason {
    if unread.is_lasting || host.is_published(publication.path()) {
        return Reason::AccessUnknown(unread.reason.clone());
    }
    Reason::Undecided(format!("it is not known what Access protects: {}", unread.reason))
}

/// The places that are to have an application.
fn wished_places(request: &HostRequest) -> Vec<Place> {
    let publications = request.publications();
    let protected = publications.filter(|one| matches!(one.access, AccessWish::Protected(_)));
    protected.filter_map(|one| Place::of(&one.hostname, one.path()).ok()).collect()
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

/// True if the plan writes something of a name that the application of a place stands over.
fn is_written_below(plan: &Plan, place: &Place) -> bool {
    plan.hosts.iter().any(|host| place.is_over(&host.hostname))
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
    let mut waiting: Vec<(Option<Box<str>>, Reason)> = Vec::new();
    for wanted in &request.wanted {
        if let Err(reason) = &wanted.publication
            && reason.is_about_protection()
        {
            waiting.push((wanted.resource.clone(), reason.clone()));
        }
    }
    if waiting.is_empty() {
        return;
    }
    for wanted in &mut request.wanted {
        if wanted.publication.is_ok()
            && let Some((_, reason)) = waiting.iter().find(|(resource, _)| *resource == wanted.resource)
        {
            wanted.publication = Err(reason.clone());
        }
    }
}
