//! Judges who may publish what is asked for, and who may reach it, before anything else is planned.
//!
//! Whatever is not certain stays as it is: a wish that says nothing never opens what is protected, and what is to be
//! protected is published only once its application is there.

use super::request::{HostRequest, Requests, Wanted};
use super::{Earlier, Reason, rule_work};
use crate::ingress::access::Access;
use crate::model::Hostname;
use crate::model::access::Application;
use crate::reconcile::Settings;
use crate::reconcile::access::cover::{self, Cover};
use crate::reconcile::access::guard::Guarding;
use crate::reconcile::access::place::{self, Place};
use crate::reconcile::access::protection::{Asked, HostProtection, Openings};
use crate::reconcile::access::reading::{AccessReading, Unread};
use crate::reconcile::access::wish::{AccessWish, ProtectionWish};
use crate::reconcile::canonical::Publication;
use crate::reconcile::namespace;
use crate::reconcile::snapshot::{OwnRules, Snapshot};

/// What a judgement is made from.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) settings: &'a Settings,
    pub(super) own: &'a OwnRules,
    pub(super) earlier: &'a Earlier,
    /// Applications that are still to be made count as made, with an audience that nobody has.
    pub(super) is_preview: bool,
}

/// The audience of an application that is not made yet.
const NO_AUDIENCE: &str = "";

const TWO_WAYS: &str = "asks for tokens by webhook-access-required, and this program keeps an Access application for \
     it: set webhook-access-policy instead, or delete that application at Cloudflare";

const LETS_PAST: &str = "has an Access application with a policy that came to let visitors past without a login: \
     change that policy at Cloudflare, or name another one";

impl<'a> Judge<'a> {
    pub(super) fn host(self, hostname: &'a Hostname) -> HostProtection<'a> {
        HostProtection::of(hostname, self.snapshot, self.settings, self.own)
    }

    /// The requests, with the reason in place of each publication that has to wait, and with what the others' rules
    /// have to require.
    pub(super) fn judged(self, mut requests: Requests) -> Requests {
        let openings = self.openings(&requests);
        let going = self.going(&openings);
        let mut opening: Vec<(Box<str>, Option<Box<str>>)> = Vec::new();
        for (name, request) in &mut requests.by_hostname {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = self.host(&hostname);
            let wished = self.wished_places(name, request);
            request.wanted = std::mem::take(&mut request.wanted)
                .into_iter()
                .map(|wanted| Wanted {
                    publication: wanted.publication.and_then(|publication| {
                        self.may_have(name, wanted.resource.as_deref())?;
                        if publication.access == AccessWish::Open {
                            self.look_at_opening(&publication, &host, &openings, &going)?;
                        }
                        let publication = self.publication(publication, &host, &wished)?;
                        self.not_refused(&publication)?;
                        Ok(publication)
                    }),
                    ..wanted
                })
                .collect();
            let opened =
                request.publications().filter(|one| one.access == AccessWish::Open && host.opens(asked(one)));
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

    pub(super) fn openings(self, requests: &Requests) -> Openings {
        let mut openings = Openings::default();
        for (name, request) in &requests.by_hostname {
            let opened = request.wanted.iter().filter_map(|wanted| {
                let publication = wanted.publication.as_ref().ok()?;
                let is_open = publication.access == AccessWish::Open
                    && self.may_have(name, wanted.resource.as_deref()).is_ok();
                is_open.then_some(publication)
            });
            openings.0.extend(opened.map(|one| (name.clone(), one.path().map(Into::into))));
        }
        openings
    }

    /// Says no where the namespace guard does not allow the object to have a hostname, as another namespace holds it. What
    /// it refuses opens and protects nothing, and so is no reason to withhold what others open, or what stands beside it.
    fn may_have(self, name: &str, resource: Option<&str>) -> Result<(), Reason> {
        if self.settings.policy.namespace_guard.is_none() {
            return Ok(());
        }
        let own = self.snapshot.own_records_of(name, self.settings);
        let holder = own.first().and_then(|own| namespace::holder(&own.stamp));
        let asking = resource.and_then(namespace::digest_of);
        match holder.filter(|holder| asking.as_ref() != Some(holder)) {
            Some(holder) => Err(Reason::NamespaceHeld { holder }),
            None => Ok(()),
        }
    }

    /// The places that are to have an application.
    fn wished_places(self, name: &str, request: &HostRequest) -> Vec<Place> {
        let allowed =
            request.wanted.iter().filter(|wanted| self.may_have(name, wanted.resource.as_deref()).is_ok());
        let publications = allowed.filter_map(|wanted| wanted.publication.as_ref().ok());
        let protected = publications.filter(|one| matches!(one.access, AccessWish::Protected(_)));
        protected.filter_map(|one| Place::of(&one.hostname, one.path()).ok()).collect()
    }

    /// Says no where Cloudflare refused the rule and would refuse it again.
    fn not_refused(self, publication: &Publication) -> Result<(), Reason> {
        let rule = publication.rule.as_ref().filter(|_| !self.earlier.refused.is_empty());
        let refused = rule.and_then(|rule| self.earlier.refused.get(&rule_work(&publication.tunnel, rule)));
        refused.map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// The ids of our applications that nothing will rely on once all openings are done.
    fn going(self, openings: &Openings) -> Vec<Box<str>> {
        let mut going = Vec::new();
        for (name, path) in &openings.0 {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = self.host(&hostname);
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
                if !publication.requires_access() && host.would_open(asked(&publication), wished) {
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
        if self.settings.access_policies().is_none() {
            return Err(unknown(publication, host, &"the account's policies could not be read".into()));
        }
        let ids = wish.ids().map_err(|problem| Reason::AccessPolicy(problem.into()))?;
        let place = Place::of(&publication.hostname, publication.path())
            .map_err(|problem| Reason::AccessPolicy(problem.to_string().into()))?;
        let application = self.application(&place, publication.path(), host);
        if let Some(other) = place::in_the_way(&place, &access.applications, &policy.owner)
            && application.is_none_or(|application| application.id != other.id)
        {
            let is_exact = place::stands_over(other, &place);
            return Err(Reason::ApplicationHeld { application: other.name.clone(), is_exact });
        }
        let unmade = || Reason::Undecided("its Access application is not as it has to be yet".to_owned());
        match application {
            Some(application) => {
                let (duration, owner) = (wish.session_duration, &policy.owner);
                let is_as_wanted = place::is_as_wanted(application, &place, &ids, duration, owner);
                // Any other such policy goes with the replacement.
                if is_as_wanted && place::lets_past(application) {
                    return Err(Reason::AccessPolicy(LETS_PAST.into()));
                }
                host.required(application).filter(|_| is_as_wanted || self.is_preview).ok_or_else(unmade)
            }
            None if self.is_preview => Ok(Access::required(&access.team, vec![NO_AUDIENCE.into()])),
            None => Err(unmade()),
        }
    }

    /// The application of a place, or the one that is taken over for it.
    pub(super) fn application<'h>(
        self,
        place: &Place,
        path: Option<&str>,
        host: &HostProtection<'h>,
    ) -> Option<&'h Application> {
        let Settings { policy, .. } = self.settings;
        let own = host.applications(path).into_iter().next();
        own.or_else(|| {
            let other = place::in_the_way(place, &host.access()?.applications, &policy.owner)?;
            (policy.adopt.access && place::stands_over(other, place)).then_some(other)
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
        let (hostname, path) = (&publication.hostname, publication.path());
        let access = match &self.snapshot.access {
            // Without the permission no application is ours, and the rule is all that is to be opened.
            AccessReading::Failed(unread) if host.is_locked(path) && !unread.is_lasting => {
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
            Cover::Open(gap) if self.settings.policy.access_guard => Err(Reason::Unprotected(gap)),
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

fn asked(publication: &Publication) -> Asked<'_> {
    Asked { path: publication.path(), tunnel: &publication.tunnel, is_rule: publication.rule.is_some() }
}

fn rule_path(publication: &Publication) -> Option<&crate::ingress::PathPattern> {
    publication.rule.as_ref()?.path.as_ref()
}
