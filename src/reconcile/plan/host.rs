//! One hostname: what is wanted and withdrawn against what stands, and so what each stage has to write.

mod adoption;
mod course;
mod guard;
mod obstacle;
mod operations;
mod registry;

use std::collections::{BTreeMap, BTreeSet};

use crate::ingress::{Owned, Rule, RuleEdit};
use crate::model::{Hostname, Record, RecordId, TunnelId};
use crate::ordered::push_lean;
use crate::reconcile::canonical::Publication;
use crate::reconcile::claim_state::{ClaimState, claim_states};
use crate::reconcile::plan::host::course::{Course, Order};
use crate::reconcile::plan::request::HostRequest;
use crate::reconcile::plan::{HostPlan, NOTHING_SETTLED, Reason, RecordOperation, Refusal, Settled, Stage};
use crate::reconcile::records::LOST_PREFIX;
use crate::reconcile::snapshot::{OwnRecord, Snapshot, ZoneSnapshot};
use crate::reconcile::stamp::{Claims, Digest, Stamp};
use crate::reconcile::{Note, Settings};

/// What comes of one hostname.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) plan: Option<HostPlan>,
    pub(super) refusals: Vec<Refusal>,
    pub(super) notes: Vec<Note>,
    /// Digests that the plan stamps.
    pub(super) new_digests: BTreeSet<Digest>,
    /// Whether the tunnel of a wildcard record takes its visitors over.
    pub(super) has_heir: bool,
}

/// Plans one hostname. `obstacles` are paths whose rules the tunnel's document does not allow to be edited.
pub(super) fn plan(
    name: &str,
    request: &HostRequest,
    obstacles: &BTreeMap<Option<Box<str>>, Reason>,
    settled: &Settled,
    snapshot: &Snapshot,
    settings: &Settings,
    owned: &BTreeMap<&TunnelId, Owned<'_>>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let whole = |resource, reason| Refusal { hostname: name.into(), set_identifier: None, resource, reason };
    let asker = request.resource();
    if !settings.policy.filter.matches(name) {
        outcome.refusals.push(whole(asker, Reason::OutsideFilter));
        return outcome;
    }
    let mut wanted = valid_ones(name, request, &mut outcome.refusals);
    let standing = || Some(snapshot.own_records_of(name, settings).first()?.zone);
    let home = snapshot.zone_of(name);
    let Some(zone) = home.or_else(standing) else {
        outcome.refusals.push(whole(asker, Reason::NoZone));
        return outcome;
    };
    // What was published before the name's zone was there, or went out of sight, can still be withdrawn.
    if home.is_none() && !request.wanted.is_empty() {
        outcome.refusals.push(whole(asker, Reason::NoZone));
        wanted.clear();
    }
    // A name that is no hostname was never published, so nothing of it can be withdrawn either.
    let Ok(hostname) = Hostname::parse(name) else {
        return outcome;
    };
    let host = Host { obstacles, settled, ..Host::new(snapshot, settings, zone, hostname, request, owned) };
    let mut wanted = host.guarded(wanted, &mut outcome.refusals);
    // One endpoint a path: ExternalDNS asks for no more.
    let mut paths = BTreeSet::new();
    wanted.retain(|wanted| paths.insert(wanted.publication.path()));
    let withhold = host.is_withheld();
    let host = host.adopting(&wanted);
    let mut refusals = Vec::new();
    let mut planned = host.plan(wanted.clone(), &request.withdrawn, withhold, Order::Together, &mut refusals);
    // A hostname whose comment has no room for the old rules beside the new ones goes without either for a moment.
    if let Err(Reason::StampFull { .. }) = planned {
        let mut refusals_apart = Vec::new();
        let apart =
            host.plan(wanted.clone(), &request.withdrawn, withhold, Order::Apart, &mut refusals_apart);
        if apart.is_ok() {
            (planned, refusals) = (apart, refusals_apart);
            outcome.notes.push(host.note(
                "its record's comment has no room for the old rules beside the new ones, so visitors of these paths \
                 are not served between the two: shorten OWNER_ID or the text after the bar",
            ));
        }
    }
    // What is stamped already goes on without what has no room. Not even that has room where a zone around this one, with
    // longer comments, was the hostname's home; then what is withdrawn goes on.
    for old_ones in [true, false] {
        let Err(reason @ Reason::StampFull { .. }) = planned else { break };
        let is_known = |wanted: &Wanted<'_>| {
            digest_of(wanted).map_or_else(|| host.claims_record_only(), |digest| host.has(digest))
        };
        let (old, new): (Vec<Wanted<'_>>, Vec<Wanted<'_>>) =
            wanted.iter().partition(|wanted| old_ones && is_known(wanted));
        refusals = new.iter().map(|wanted| host.refusal(wanted, reason.clone())).collect();
        planned = host.plan(old, &request.withdrawn, withhold, Order::Apart, &mut refusals);
    }
    outcome.refusals.append(&mut refusals);
    match planned {
        Ok(Planned { plan, has_heir, new_digests }) => {
            if !plan.adoptions.is_empty() {
                outcome.notes.extend(host.heritage_left());
            }
            outcome.notes.extend(host.note_on_names_taken(&plan));
            outcome.plan = Some(plan).filter(|plan| !plan.is_empty());
            outcome.new_digests = new_digests;
            outcome.has_heir = has_heir;
        }
        Err(reason) => outcome.refusals.push(whole(host.resource(), reason)),
    }
    outcome
}

/// Takes `digests` off the hostname's stamp, and the record away with the last claim; those that were taken over get their
/// `comments` back instead. Rules are left alone.
pub(super) fn disown(
    name: &str,
    digests: &BTreeSet<Digest>,
    comments: &[(RecordId, Box<str>)],
    snapshot: &Snapshot,
    settings: &Settings,
) -> Option<HostPlan> {
    let hostname = Hostname::parse(name).ok()?;
    let (request, owned) = (HostRequest::default(), BTreeMap::new());
    let zone = snapshot.own_records_of(name, settings).first()?.zone;
    let host = Host::new(snapshot, settings, zone, hostname, &request, &owned);
    let mut claims = host.stamp.as_ref()?.claims.clone();
    claims.rules.retain(|digest| !digests.contains(digest));
    let mut plan = host.empty_plan();
    if claims.is_empty() && !comments.is_empty() {
        for record in &host.own_records {
            let comment =
                comments.iter().find(|(id, _)| *id == record.id).map(|(_, comment)| comment.clone());
            let operation = operations::restamp(record, comment);
            plan.operations.entry((Stage::Stamp, zone.zone.id.clone())).or_default().extend(operation);
        }
        for OwnRecord { zone, record, .. } in &host.outer_records {
            let operation = RecordOperation::delete(record);
            plan.operations.entry((Stage::Stamp, zone.zone.id.clone())).or_default().push(operation);
        }
        return Some(plan);
    }
    host.plan_operations(&mut plan, &[], &Course::unclaiming(claims.clone())).ok()?;
    host.plan_txts(&mut plan, &[], claims.is_empty());
    Some(plan)
}

/// What is wanted and can be read; the rest is refused by name.
fn valid_ones<'a>(name: &str, request: &'a HostRequest, refusals: &mut Vec<Refusal>) -> Vec<Wanted<'a>> {
    let mut wanted: Vec<Wanted<'_>> = Vec::new();
    for canonical in &request.wanted {
        match &canonical.publication {
            Ok(publication) => wanted.push(Wanted { publication, resource: canonical.resource() }),
            Err(problem) => refusals.push(Refusal {
                hostname: name.into(),
                set_identifier: Some(canonical.endpoint.set_identifier.as_str().into()),
                resource: canonical.resource().map(Into::into),
                reason: Reason::Invalid(problem.clone()),
            }),
        }
    }
    wanted
}

#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    publication: &'a Publication,
    resource: Option<&'a str>,
}

struct Planned {
    plan: HostPlan,
    /// Whether the tunnel of a wildcard record takes its visitors over.
    has_heir: bool,
    new_digests: BTreeSet<Digest>,
}

/// What stands at Cloudflare for one hostname.
struct Host<'a> {
    snapshot: &'a Snapshot,
    settings: &'a Settings,
    /// The hostname's home; where that is not served, the innermost zone that a record of ours stands in.
    zone: &'a ZoneSnapshot,
    hostname: Hostname,
    request: &'a HostRequest,
    /// All rules, with which of them are ours.
    owned: &'a BTreeMap<&'a TunnelId, Owned<'a>>,
    /// Ours in `zone`.
    own_records: Vec<&'a Record>,
    /// Ours in zones around it, from when it was not there yet.
    outer_records: Vec<OwnRecord<'a>>,
    /// Records that are not ours and that a CNAME cannot stand beside.
    foreign_records: Vec<&'a Record>,
    stamp: Option<Stamp>,
    states: BTreeMap<Digest, ClaimState<'a>>,
    /// What of the above is taken over.
    adopted: adoption::Adopted<'a>,
    /// By path, what the tunnel's document does not allow.
    obstacles: &'a BTreeMap<Option<Box<str>>, Reason>,
    settled: &'a Settled,
}

/// Nothing stands in the way yet.
static NO_OBSTACLES: BTreeMap<Option<Box<str>>, Reason> = BTreeMap::new();

impl<'a> Host<'a> {
    fn new(
        snapshot: &'a Snapshot,
        settings: &'a Settings,
        zone: &'a ZoneSnapshot,
        hostname: Hostname,
        request: &'a HostRequest,
        owned: &'a BTreeMap<&'a TunnelId, Owned<'a>>,
    ) -> Self {
        let (own, outer_records): (Vec<OwnRecord<'_>>, Vec<OwnRecord<'_>>) = snapshot
            .own_records_of(hostname.as_str(), settings)
            .into_iter()
            .partition(|own| own.zone.zone.id == zone.zone.id);
        let is_apex = hostname.as_str() == &*zone.zone.name;
        let is_own = |record: &Record| own.iter().any(|own| own.record.id == record.id);
        let foreign_records = zone
            .records_of(hostname.as_str())
            .iter()
            .filter(|record| excludes_cname(record, is_apex) && !is_own(record))
            .collect();
        let mut stamp: Option<Stamp> = None;
        for own in own.iter().chain(&outer_records) {
            match &mut stamp {
                Some(stamp) => stamp.claims.merge(&own.stamp.claims),
                None => stamp = Some(own.stamp.clone()),
            }
        }
        let own_records = own.iter().map(|own| own.record).collect();
        let mut host = Self {
            snapshot,
            settings,
            zone,
            hostname,
            request,
            owned,
            own_records,
            outer_records,
            foreign_records,
            stamp,
            states: BTreeMap::new(),
            adopted: adoption::Adopted::default(),
            obstacles: &NO_OBSTACLES,
            settled: &NOTHING_SETTLED,
        };
        host.states = host.states();
        host
    }

    /// All records of ours, those at home first.
    fn records(&self) -> impl Iterator<Item = &'a Record> {
        let outer = self.outer_records.iter().map(|own| own.record);
        self.own_records.iter().copied().chain(outer)
    }

    fn has_record(&self) -> bool {
        self.records().next().is_some()
    }

    /// The stamp's digests, followed to their rules.
    fn states(&self) -> BTreeMap<Digest, ClaimState<'a>> {
        let Some(stamp) = &self.stamp else {
            return BTreeMap::new();
        };
        let HostRequest { wanted, withdrawn, txts: _ } = self.request;
        let paths: Vec<&str> = withdrawn
            .iter()
            .map(|set_identifier| &**set_identifier)
            .chain(wanted.iter().map(|canonical| canonical.endpoint.set_identifier.as_str()))
            .filter(|path| !path.is_empty())
            .collect();
        let content = self.records().next().map(|record| &*record.content).unwrap_or_default();
        claim_states(self.snapshot, self.settings, &self.hostname, content, &stamp.claims.rules, &paths)
            .into_iter()
            .collect()
    }

    fn plan(
        &self,
        wanted: Vec<Wanted<'_>>,
        withdrawn: &BTreeSet<Box<str>>,
        withhold: bool,
        order: Order,
        refusals: &mut Vec<Refusal>,
    ) -> Result<Planned, Reason> {
        let withhold = withhold || self.cannot_follow(&wanted, withdrawn);
        let withdrawn_claims = self.withdrawn_claims(withdrawn, withhold, refusals);
        let wanted = if !self.foreign_records.is_empty() {
            let needs = self.needs_of_records(&wanted);
            for wanted in wanted {
                refusals.push(self.refusal(&wanted, self.record_held(&wanted, needs.as_deref())));
            }
            Vec::new()
        } else if let Some(reason) = self.txt_outside_zones() {
            refusals.extend(wanted.iter().map(|wanted| self.refusal(wanted, reason.clone())));
            Vec::new()
        } else {
            self.possible_ones(wanted, &withdrawn_claims, refusals)
        };
        if wanted.is_empty() && !self.adopted.records.is_empty() {
            // Nothing is taken over that nobody can be served with.
            return self.as_it_stands().plan(wanted, withdrawn, withhold, order, &mut Vec::new());
        }
        let mut plan = self.empty_plan();
        let course = self.course(&wanted, &withdrawn_claims, order);
        refusals.extend(course.reason().map(|reason| self.whole(reason)));
        (plan.adoptions, plan.comments_before) = self.adoptions(&wanted);
        self.plan_edits(&mut plan, &wanted, &course);
        self.plan_operations(&mut plan, &wanted, &course)?;
        self.plan_txts(&mut plan, &wanted, course.last.is_empty());
        let edited = plan.edits.values().flatten().map(|(tunnel, _)| tunnel);
        let to_be_edited = course.staying.iter().filter_map(|digest| self.states.get(digest)?.tunnel());
        if let Some(tunnel) = edited.chain(to_be_edited).find(|tunnel| !self.is_writable(tunnel)) {
            return Err(Reason::LocalTunnel { tunnel: tunnel.as_str().into() });
        }
        Ok(Planned { plan, has_heir: course.heir.is_some(), new_digests: course.first.rules })
    }

    /// The object that asks for the hostname, or the one that it came from.
    fn resource(&self) -> Option<Box<str>> {
        self.request.resource().or_else(|| self.stamp.as_ref()?.resource.clone())
    }

    /// Whether the digest's rule is ours, or taken over.
    fn has(&self, digest: Digest) -> bool {
        self.states.get(&digest).is_some_and(|state| state.ambiguous().is_empty())
    }

    fn empty_plan(&self) -> HostPlan {
        HostPlan {
            hostname: self.hostname.as_str().into(),
            resource: self.resource(),
            vanishes: false,
            edits: BTreeMap::new(),
            operations: BTreeMap::new(),
            adoptions: Vec::new(),
            comments_before: Vec::new(),
            moves_to: None,
            moves_now: false,
            stands_in: false,
        }
    }

    fn note(&self, text: &str) -> Note {
        Note { hostname: self.hostname.as_str().into(), resource: self.resource(), text: text.to_owned() }
    }

    fn whole(&self, reason: Reason) -> Refusal {
        let hostname = self.hostname.as_str().into();
        Refusal { hostname, set_identifier: None, resource: self.resource(), reason }
    }

    /// The claims that the withdrawn set identifiers stand for, unless an invalid endpoint of the same hostname may
    /// be one of them under another path.
    fn withdrawn_claims(
        &self,
        set_identifiers: &BTreeSet<Box<str>>,
        withhold: bool,
        refusals: &mut Vec<Refusal>,
    ) -> Claims {
        let mut withdrawn = Claims::default();
        for set_identifier in set_identifiers {
            let path = Some(&**set_identifier).filter(|path| !path.is_empty());
            let mut claims = Claims {
                record_only: path.is_none() && self.claims_record_only(),
                rules: self.digests_for_path(path).filter(|digest| self.is_stamped(*digest)).collect(),
            };
            // A path may begin like this as well, so only a digest that has no rule is meant.
            let lost = set_identifier.strip_prefix(LOST_PREFIX).and_then(Digest::parse);
            claims.rules.extend(lost.filter(|digest| self.is_lost(*digest)));
            let candidates = self.candidates(set_identifier);
            if !candidates.is_empty() {
                refusals.extend(self.refuse_any_of(&candidates));
                continue;
            }
            if claims.is_empty() {
                continue;
            }
            let obstacle = self.obstacle_for(path).or_else(|| withhold.then_some(Reason::Withheld));
            if let Some(reason) = obstacle {
                refusals.push(Refusal {
                    hostname: self.hostname.as_str().into(),
                    set_identifier: Some(set_identifier.clone()),
                    resource: self.resource(),
                    reason,
                });
                continue;
            }
            withdrawn.record_only |= claims.record_only;
            withdrawn.rules.extend(claims.rules);
        }
        withdrawn
    }

    fn obstacle_for(&self, path: Option<&str>) -> Option<Reason> {
        self.obstacles.get(&path.map(Into::into)).cloned()
    }

    fn is_lost(&self, digest: Digest) -> bool {
        self.is_stamped(digest) && matches!(self.states.get(&digest), Some(ClaimState::Lost))
    }

    fn claims_record_only(&self) -> bool {
        self.adopted.records.is_empty() && self.stamp.as_ref().is_some_and(|stamp| stamp.claims.record_only)
    }

    fn digests_for_path(&self, path: Option<&str>) -> impl Iterator<Item = Digest> {
        self.states.iter().filter(move |(_, state)| state.is_for_path(path)).map(|(digest, _)| *digest)
    }

    /// Those of the wanted endpoints that nothing foreign stands in the way of.
    fn possible_ones<'w>(
        &self,
        wanted: Vec<Wanted<'w>>,
        withdrawn: &Claims,
        refusals: &mut Vec<Refusal>,
    ) -> Vec<Wanted<'w>> {
        let tunnel = self.tunnel_for(&wanted, withdrawn);
        let led_to = self.led_to().filter(|led_to| tunnel.as_ref() != Some(led_to));
        let mut left_behind = None;
        let mut possible: Vec<Wanted<'_>> = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let publication = wanted.publication;
            let held = self.held_elsewhere(publication);
            let obstacle = held.or_else(|| match &tunnel {
                Some(tunnel) if publication.tunnel != *tunnel => Some(self.stays_in(tunnel)),
                Some(tunnel) if !self.snapshot.tunnels.contains_key(tunnel) => {
                    Some(Reason::TunnelGone { tunnel: tunnel.as_str().into() })
                }
                _ => publication
                    .rule
                    .as_ref()
                    .and_then(|rule| self.obstacle(&publication.tunnel, rule))
                    .or_else(|| self.obstacle_for(publication.path()))
                    .or_else(|| obstacle::digest_taken(&wanted, &possible)),
            });
            match obstacle {
                Some(reason) => {
                    let stands_at = |id: &&TunnelId| self.stands_at(publication.path(), id);
                    left_behind = left_behind.or_else(|| led_to.as_ref().filter(stands_at));
                    refusals.push(self.refusal(&wanted, reason));
                }
                None => possible.push(wanted),
            }
        }
        // The record would take the requests of a path that cannot follow away from its rule.
        if let Some(led_to) = left_behind {
            for wanted in possible.drain(..) {
                let reason = Reason::TwoTunnels { tunnel: led_to.as_str().into() };
                refusals.push(self.refusal(&wanted, reason));
            }
        }
        possible
    }

    /// Whether something is wanted in a tunnel that the hostname cannot move to: what is withdrawn may be the same under
    /// another path.
    fn cannot_follow(&self, wanted: &[Wanted<'_>], withdrawn: &BTreeSet<Box<str>>) -> bool {
        if withdrawn.is_empty() || self.led_to().is_none() {
            return false;
        }
        let claims = self.withdrawn_claims(withdrawn, false, &mut Vec::new());
        let tunnel = self.tunnel_for(wanted, &claims);
        wanted.iter().any(|wanted| Some(&wanted.publication.tunnel) != tunnel.as_ref())
    }

    fn stands_at(&self, path: Option<&str>, tunnel: &TunnelId) -> bool {
        self.states
            .values()
            .any(|state| state.rule().is_some() && state.is_for_path(path) && state.tunnel() == Some(tunnel))
    }

    /// The one tunnel that the hostname can have after this request: where two are asked for, or where rules stay
    /// that the request does not name, the one its record leads to, else the first.
    fn tunnel_for(&self, wanted: &[Wanted<'_>], withdrawn: &Claims) -> Option<TunnelId> {
        let first = &wanted.first()?.publication.tunnel;
        let led_to = self.led_to().filter(|tunnel| self.snapshot.tunnels.contains_key(tunnel));
        let stays = self.states.iter().any(|(digest, state)| {
            !withdrawn.rules.contains(digest)
                && !wanted.iter().any(|wanted| state.is_for_path(wanted.publication.path()))
                && state.tunnel().is_some_and(|tunnel| Some(tunnel) == led_to.as_ref())
        }) || led_to.as_ref().is_some_and(|led_to| self.left_behind(led_to).is_some());
        let two = wanted.iter().any(|wanted| wanted.publication.tunnel != *first);
        let asked_for = |tunnel: &TunnelId| wanted.iter().any(|wanted| wanted.publication.tunnel == *tunnel);
        match led_to {
            Some(led_to) if stays || (two && asked_for(&led_to)) => Some(led_to),
            _ => Some(first.clone()),
        }
    }

    fn led_to(&self) -> Option<TunnelId> {
        TunnelId::from_hostname(&self.records().next()?.content)
    }

    fn rules_of(&self, tunnel: &TunnelId) -> Vec<&'a Rule> {
        self.snapshot.tunnels.get(tunnel).map(|tunnel| tunnel.rules_of(&self.hostname)).unwrap_or_default()
    }

    /// Digests of the wanted paths in other tunnels, and of a rule that gives way to the record alone.
    fn superseded(&self, wanted: &[Wanted<'_>]) -> BTreeSet<Digest> {
        wanted
            .iter()
            .flat_map(|wanted| {
                let present = digest_of(wanted);
                self.digests_for_path(wanted.publication.path())
                    .filter(move |digest| Some(*digest) != present)
            })
            .collect()
    }

    fn plan_edits(&self, plan: &mut HostPlan, wanted: &[Wanted<'_>], course: &Course) {
        let mut edit = |stage, tunnel: &TunnelId, edit| {
            push_lean(plan.edits.entry(stage).or_default(), (tunnel.clone(), edit));
        };
        for digest in &course.leaving {
            if let Some(ClaimState::Standing { tunnel, rule }) = self.states.get(digest) {
                let path = rule.path().map(Into::into);
                edit(course.leaves_in, tunnel, RuleEdit::Remove { hostname: self.hostname.clone(), path });
            }
        }
        for wanted in wanted {
            let (Some(rule), Some(digest)) = (&wanted.publication.rule, digest_of(wanted)) else {
                continue;
            };
            let replaces = self.has(digest) && !self.adopted.is_kept(digest);
            let put = RuleEdit::Put { rule: rule.clone(), replaces };
            edit(Stage::Publish, &wanted.publication.tunnel, put);
        }
    }

    fn is_writable(&self, tunnel: &TunnelId) -> bool {
        self.snapshot.tunnels.get(tunnel).is_some_and(|tunnel| tunnel.writable)
    }

    fn refusal(&self, wanted: &Wanted<'_>, reason: Reason) -> Refusal {
        Refusal {
            hostname: self.hostname.as_str().into(),
            set_identifier: Some(wanted.publication.path().unwrap_or_default().into()),
            resource: wanted.resource.map(Into::into),
            reason,
        }
    }
}

fn digest_of(wanted: &Wanted<'_>) -> Option<Digest> {
    wanted.publication.rule.as_ref()?;
    Some(Digest::of(&wanted.publication.tunnel, wanted.publication.path()))
}

/// A, AAAA and CNAME exclude a CNAME; name servers below the zone's own name exclude everything.
fn excludes_cname(record: &Record, is_apex: bool) -> bool {
    match &*record.kind {
        "A" | "AAAA" | "CNAME" => true,
        "NS" => !is_apex,
        _ => false,
    }
}
