//! The pieces of work that are measured. Each is done once, in [`measured`], by a process of its own.

use std::hint::black_box;

use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;

use crate::program::Program;
use crate::world::{self, World, published};
use crate::{Outcome, unit, wishes};

/// The part of the name of [`measured`] that callgrind looks for.
pub(crate) const MEASURED: &str = "*piece*measured*";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The fixed piece of work that all others are compared with. It has one scale.
    Unit,
    /// Cloudflare's answers become a snapshot.
    Read,
    /// `GET /records`.
    Records,
    /// `POST /adjustendpoints` with what is published, as in a loop that finds nothing to do.
    Adjust,
    /// The same with another body: see [`wishes::unfriendly`].
    AdjustUnfriendly,
    /// `POST /records` up to the plan.
    Plan,
    /// The same with one change.
    PlanOne,
    /// These three with a login in front of many hostnames.
    RecordsProtected,
    AdjustProtected,
    PlanOneProtected,
    /// `POST /adjustendpoints` of few hostnames with many paths.
    AdjustPaths,
    /// `POST /records` with more paths of one hostname than can be published.
    PlanEndpoints,
}

impl Piece {
    /// The pieces that are compared with the unit.
    pub(crate) const COMPARED: [Self; 11] = [
        Self::Read,
        Self::Records,
        Self::Adjust,
        Self::AdjustUnfriendly,
        Self::Plan,
        Self::PlanOne,
        Self::RecordsProtected,
        Self::AdjustProtected,
        Self::PlanOneProtected,
        Self::AdjustPaths,
        Self::PlanEndpoints,
    ];

    /// The same work where nothing has a login.
    pub(crate) fn unprotected(self) -> Option<Self> {
        match self {
            Self::RecordsProtected => Some(Self::Records),
            Self::AdjustProtected => Some(Self::Adjust),
            Self::PlanOneProtected => Some(Self::PlanOne),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Read => "read",
            Self::Records => "records",
            Self::Adjust => "adjust",
            Self::AdjustUnfriendly => "adjust-unfriendly",
            Self::Plan => "plan",
            Self::PlanOne => "plan-one",
            Self::RecordsProtected => "records-protected",
            Self::AdjustProtected => "adjust-protected",
            Self::PlanOneProtected => "plan-one-protected",
            Self::AdjustPaths => "adjust-paths",
            Self::PlanEndpoints => "plan-endpoints",
        }
    }

    pub(crate) fn called(name: &str) -> Option<Self> {
        Self::COMPARED.into_iter().chain([Self::Unit]).find(|piece| piece.name() == name)
    }

    /// Prepares the piece, does it, and looks at what came of it.
    ///
    /// # Errors
    /// When the outcome is not what the piece is about.
    pub(crate) fn run(self, scale: usize) -> Outcome<()> {
        if self == Self::Unit {
            measured(&mut || _ = black_box(unit::work()));
            return Ok(());
        }
        let world = match self {
            Self::RecordsProtected | Self::AdjustProtected | Self::PlanOneProtected => {
                World::protected(scale)
            }
            Self::AdjustPaths => World::with_paths(scale),
            _ => World::new(scale),
        };
        if self == Self::Read {
            let mut snapshot = None;
            measured(&mut || snapshot = Some(world.snapshot()));
            let snapshot = snapshot.ok_or("nothing was read")??;
            return expect("zones", snapshot.zones.len(), 1);
        }
        let program = Program::new(world::settings(), world.snapshot()?);
        match self {
            Self::Unit | Self::Read => Ok(()),
            Self::Records | Self::RecordsProtected => {
                let shown = answered(&program, "GET", "/records", "")?;
                expect("endpoints", shown, published_paths(scale))
            }
            Self::Adjust => adjust(&program, &wishes::plain(scale), published_paths(scale)),
            Self::AdjustProtected => adjust(&program, &wishes::protected(scale), published_paths(scale)),
            Self::AdjustUnfriendly => {
                adjust(&program, &wishes::unfriendly(scale), wishes::unfriendly_answered(scale))
            }
            Self::AdjustPaths => {
                let all = world::paths(scale) * world::hostnames_with_paths().len();
                adjust(&program, &wishes::with_paths(scale), all)
            }
            Self::PlanOne | Self::PlanOneProtected => {
                let plan = plan(program, &wishes::one_change(&world::settings())?)?;
                expect("refusals", plan.refusals.len(), 0)?;
                expect("hostnames", plan.hosts.len(), 1)
            }
            Self::PlanEndpoints => {
                let changes = wishes::many_endpoints(scale, &world::settings())?;
                let plan = plan(program, &changes)?;
                expect("refusals", plan.refusals.len(), wishes::endpoints(scale))
            }
            Self::Plan => {
                let changes = wishes::changes(scale, &world::settings())?;
                let plan = plan(program, &changes)?;
                expect("refusals", plan.refusals.len(), 0)?;
                expect("hostnames", plan.hosts.len(), wishes::changed(scale))
            }
        }
    }
}

/// Adjusts a body as in a second loop, which costs what every later one does: the first one remembers.
fn adjust(program: &Program, wanted: &str, expected: usize) -> Outcome<()> {
    program.answer("POST", "/adjustendpoints", wanted)?;
    expect("endpoints", answered(program, "POST", "/adjustendpoints", wanted)?, expected)
}

/// Plans a request of changes.
fn plan(program: Program, changes: &str) -> Outcome<Plan> {
    let mut answer = Err("nothing was asked".into());
    measured(&mut || answer = program.answer("POST", "/records", changes));
    answer?;
    Ok(program.into_plan())
}

/// The number of endpoints in the answer to a request that is measured.
fn answered(program: &Program, method: &str, target: &str, body: &str) -> Outcome<usize> {
    let mut answer = Err("nothing was asked".into());
    measured(&mut || answer = program.answer(method, target, body));
    Ok(String::from_utf8(answer?)?.matches(r#"{"dnsName":"#).count())
}

/// Everything that is counted happens in here. It does something of its own, before and after, so that the linker does
/// not fold it with another function and the compiler makes no jump of the call.
#[inline(never)]
fn measured(piece: &mut dyn FnMut()) {
    black_box("begin");
    piece();
    black_box("end");
}

fn published_paths(scale: usize) -> usize {
    (0..published(scale)).map(|number| 1 + usize::from(world::has_path(number))).sum()
}

fn expect(what: &str, found: usize, expected: usize) -> Outcome<()> {
    if found == expected { Ok(()) } else { Err(format!("{found} {what} instead of {expected}").into()) }
}

#[cfg(test)]
mod tests {
    use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
    use external_dns_cloudflare_tunnel_webhook::reconcile::canonical::OWNER_LABEL;

    use super::*;

    #[test]
    fn every_piece_does_what_it_is_about() {
        for piece in Piece::COMPARED {
            piece.run(1).unwrap_or_else(|error| panic!("{}: {error}", piece.name()));
        }
    }

    /// Otherwise the figures would be those of a world in which everything has to be repaired.
    #[test]
    fn what_is_asked_for_is_what_stands() {
        let worlds = [
            (World::new(1), wishes::plain(1)),
            (World::protected(1), wishes::protected(1)),
            (World::with_paths(1), wishes::with_paths(1)),
        ];
        for (world, wanted) in worlds {
            let program = Program::new(world::settings(), world.snapshot().unwrap());
            let answer = |method: &str, target: &str, body: &str| -> Vec<Endpoint> {
                serde_json::from_slice(&program.answer(method, target, body).unwrap()).unwrap()
            };
            let mut shown = answer("GET", "/records", "");
            for endpoint in &mut shown {
                endpoint.labels = endpoint.labels.without(OWNER_LABEL);
            }
            let adjusted = answer("POST", "/adjustendpoints", &wanted);
            assert_eq!(shown, adjusted);
        }
    }
}
