//! Plans what Access applications need, so that a plan can be carried out and leaves none behind.

use super::judge::Judge;
use super::request::{HostRequest, Requests, Wanted};
use super::{Plan, Reason};
use crate::ingress::RuleEdit;
use crate::model::Hostname;
use crate::reconcile::Note;
use crate::reconcile::access::place::{self, Place};
use crate::reconcile::access::protection::HostProtection;
use crate::reconcile::access::wish::{AccessWish, ProtectionWish};

/// A plan that nobody may carry out, because the audiences in its rules are not known yet, and what it needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    pub plan: Plan,
    pub work: Vec<ApplicationWork>,
    /// Applications can go once the plan is carried out.
    pub leaves_applications: bool,
    /// What has to be known of applications that stay.
    pub notes: Vec<Note>,
}

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

/// The places that no endpoint asks to be protected any more, with the object that said so.
type Released = Vec<(Place, Option<Box<str>>)>;

impl Preview {
    pub(super) fn of(plan: Plan, requests: &Requests, judge: Judge<'_>) -> Self {
        let mut preview = Self { plan, ..Self::default() };
        let openings = judge.openings(requests);
        for (name, request) in &requests.by_hostname {
            let Ok(hostname) = Hostname::parse(name) else { continue };
            let host = judge.host(&hostname);
            let protected =
                request.wanted.iter().filter_map(|wanted| preview.protection(wanted, &host, judge));
            let protected: Vec<ApplicationWork> = protected.collect();
            preview.work.extend(protected);
            let released = preview.released(&hostname, request, &host, judge);
            for (place, application) in host.all_applications() {
                let Some((_, resource)) = released.iter().find(|(one, _)| *one == place).cloned() else {
                    continue;
                };
                let path = place.path_text().filter(|path| !path.is_empty());
                if preview.writes_below(&place) {
                    // It goes last.
                    preview.leaves_applications = true;
                } else if host.is_left(&place, application, &openings) {
                    preview.work.push(ApplicationWork {
                        hostname: name.clone(),
                        set_identifier: path.unwrap_or_default().into(),
                        resource,
                        place,
                        operation: ApplicationOperation::Delete(application.id.clone()),
                    });
                } else if !host.is_published(path.as_deref())
                    && let Some(relying) = host.relying(&place, application, &openings)
                {
                    preview.notes.push(Note {
                        hostname: name.clone(),
                        resource,
                        text: format!(
                            "the Access application {:?} stays, because {relying:?} may take its requests now: delete \
                             it at Cloudflare if they are to be open",
                            application.name
                        ),
                    });
                }
            }
        }
        preview
    }

    /// What the application of a wanted endpoint needs.
    fn protection(
        &self,
        wanted: &Wanted,
        host: &HostProtection<'_>,
        judge: Judge<'_>,
    ) -> Option<ApplicationWork> {
        let publication = wanted.publication.as_ref().ok()?;
        let AccessWish::Protected(wish) = &publication.access else { return None };
        let (hostname, path) = (&publication.hostname, publication.path());
        if self.refuses(hostname.as_str(), &wanted.set_identifier) {
            return None;
        }
        let (place, ids) = (Place::of(hostname, path).ok()?, wish.ids().ok()?);
        let owner = &judge.settings.policy.owner;
        let operation = match judge.application(&place, path, host) {
            Some(one) if place::is_as_wanted(one, &place, &ids, wish.session_duration, owner) => None,
            Some(one) => Some(ApplicationOperation::Replace(one.id.clone(), wish.clone())),
            None if self.puts_rule(hostname.as_str(), path) => {
                Some(ApplicationOperation::Create(wish.clone()))
            }
            None => None,
        };
        Some(ApplicationWork {
            hostname: hostname.as_str().into(),
            set_identifier: wanted.set_identifier.clone(),
            resource: wanted.resource.clone(),
            place,
            operation: operation?,
        })
    }

    /// What of a hostname is withdrawn or opened. If nothing of it stays, everything, of paths that were withdrawn before
    /// as well.
    fn released(
        &self,
        hostname: &Hostname,
        request: &HostRequest,
        host: &HostProtection<'_>,
        judge: Judge<'_>,
    ) -> Released {
        let name = hostname.as_str();
        let is_there = || !judge.snapshot.own_records_of(name, judge.settings).is_empty();
        let vanishes = || self.plan.host(name).is_some_and(|host| host.vanishes);
        if request.wanted.is_empty() && (vanishes() || !is_there()) {
            let places = host.all_applications().into_iter();
            return places.map(|(place, _)| (place, request.resource())).collect();
        }
        let withdrawn = request.withdrawn.keys().map(|path| (path, request.resource()));
        let opened = request.wanted.iter().filter(|wanted| {
            wanted.publication.as_ref().is_ok_and(|publication| publication.access == AccessWish::Open)
        });
        let opened = opened.map(|wanted| (&wanted.set_identifier, wanted.resource.clone()));
        let released = withdrawn.chain(opened).filter(|(path, _)| !self.refuses(name, path));
        let placed = released.filter_map(|(path, resource)| {
            let path = Some(&**path).filter(|path| !path.is_empty());
            Some((Place::of(hostname, path).ok()?, resource))
        });
        placed.collect()
    }

    /// True if the plan leaves the endpoint out. A move is under way.
    fn refuses(&self, hostname: &str, set_identifier: &str) -> bool {
        let is_meant = |one: &Option<Box<str>>| one.as_deref().is_none_or(|one| one == set_identifier);
        self.plan.refusals.iter().any(|refusal| {
            *refusal.hostname == *hostname
                && is_meant(&refusal.set_identifier)
                && !matches!(refusal.reason, Reason::Moving(_) | Reason::NotMoved(_))
        })
    }

    /// True if the plan writes something of a name that the application of a place stands over.
    fn writes_below(&self, place: &Place) -> bool {
        self.plan.hosts.iter().any(|host| place.is_over(&host.hostname))
    }

    /// True if the plan writes the rule.
    fn puts_rule(&self, hostname: &str, path: Option<&str>) -> bool {
        let mut edits = self.plan.host(hostname).into_iter().flat_map(|host| &host.edits);
        edits.any(|(_, edit)| matches!(edit, RuleEdit::Put { rule, .. } if rule.path_text() == path))
    }
}
