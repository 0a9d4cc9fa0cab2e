//! The pieces of work that are measured. Each is done once, in [`measured`], by a process of its own.

use std::hint::black_box;

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
}

impl Piece {
    /// The pieces that are compared with the unit.
    pub(crate) const COMPARED: [Self; 5] =
        [Self::Read, Self::Records, Self::Adjust, Self::AdjustUnfriendly, Self::Plan];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Read => "read",
            Self::Records => "records",
            Self::Adjust => "adjust",
            Self::AdjustUnfriendly => "adjust-unfriendly",
            Self::Plan => "plan",
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
        let world = World::new(scale);
        if self == Self::Read {
            let mut snapshot = None;
            measured(&mut || snapshot = Some(world.snapshot()));
            let snapshot = snapshot.ok_or("nothing was read")??;
            return expect("zones", snapshot.zones.len(), 1);
        }
        let program = Program::new(world::settings(), world.snapshot()?);
        match self {
            Self::Unit | Self::Read => Ok(()),
            Self::Records => {
                let shown = answered(&program, "GET", "/records", "")?;
                expect("endpoints", shown, published_paths(scale))
            }
            Self::Adjust => {
                let wanted = wishes::plain(scale);
                // What a second loop costs, as every later one: the first one remembers.
                program.answer("POST", "/adjustendpoints", &wanted)?;
                let adjusted = answered(&program, "POST", "/adjustendpoints", &wanted)?;
                expect("endpoints", adjusted, published_paths(scale))
            }
            Self::AdjustUnfriendly => {
                let wanted = wishes::unfriendly(scale);
                program.answer("POST", "/adjustendpoints", &wanted)?;
                let adjusted = answered(&program, "POST", "/adjustendpoints", &wanted)?;
                expect("endpoints", adjusted, wishes::unfriendly_answered(scale))
            }
            Self::Plan => {
                let changes = wishes::changes(scale, &world::settings())?;
                let mut answer = Err("nothing was asked".into());
                measured(&mut || answer = program.answer("POST", "/records", &changes));
                answer?;
                let plan = program.into_plan();
                expect("refusals", plan.refusals.len(), 0)?;
                expect("hostnames", plan.hosts.len(), wishes::changed(scale))
            }
        }
    }
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

    /// Else the figures would be those of a world in which everything has to be repaired.
    #[test]
    fn what_is_asked_for_is_what_stands() {
        let program = Program::new(world::settings(), World::new(1).snapshot().unwrap());
        let answer = |method: &str, target: &str, body: &str| -> Vec<Endpoint> {
            serde_json::from_slice(&program.answer(method, target, body).unwrap()).unwrap()
        };
        let mut shown = answer("GET", "/records", "");
        for endpoint in &mut shown {
            endpoint.labels = endpoint.labels.without(OWNER_LABEL);
        }
        let adjusted = answer("POST", "/adjustendpoints", &wishes::plain(1));
        assert_eq!(shown, adjusted);
    }
}
