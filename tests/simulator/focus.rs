//! What a world is about. Where everything may happen everywhere, a hostname hardly ever meets three steps of a certain
//! kind one after another. So most worlds have few hostnames, and leave out much of what goes wrong.

use crate::objects::{CONTESTED, HOSTS};
use crate::random::Random;
use crate::strangers;

/// Of a hundred worlds, so many leave nothing out.
const WHOLE: usize = 25;

/// Something that goes wrong, or that other writers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concern {
    /// Objects are mistyped.
    Mistakes,
    /// The source shows nothing.
    Blanks,
    /// Other programs and people write, also between two calls.
    Strangers,
    /// Time passes, and the program is ended or has a second one beside it.
    Restarts,
    /// Another owner has a program of its own.
    Owners,
    /// Zones, tunnels, connectors and policies come and go.
    Places,
    /// Cloudflare rejects what it is asked for.
    Refusals,
    /// Calls fail.
    Troubles,
    /// A place fails for several loops.
    Outages,
}

const CONCERNS: [Concern; 9] = [
    Concern::Mistakes,
    Concern::Blanks,
    Concern::Strangers,
    Concern::Restarts,
    Concern::Owners,
    Concern::Places,
    Concern::Refusals,
    Concern::Troubles,
    Concern::Outages,
];

#[derive(Clone, Debug)]
pub(crate) struct Focus {
    /// The hostnames that objects ask for.
    pub(crate) hosts: Vec<&'static str>,
    /// And those of them that strangers want, too.
    pub(crate) contested: Vec<&'static str>,
    /// What strangers do, by number.
    pub(crate) deeds: Vec<usize>,
    concerns: Vec<Concern>,
}

impl Focus {
    pub(crate) fn random(random: &mut Random) -> Self {
        let deeds: Vec<usize> = (0..strangers::DEEDS).collect();
        if random.chance(WHOLE) {
            return Self {
                hosts: HOSTS.to_vec(),
                contested: CONTESTED.to_vec(),
                deeds,
                concerns: CONCERNS.to_vec(),
            };
        }
        let (hosts, contested) = (2 + random.below(4), 1 + random.below(2));
        let (concerns, deeds_left) = (random.below(CONCERNS.len()), 3 + random.below(8));
        Self {
            hosts: some(random, &HOSTS, hosts),
            contested: some(random, &CONTESTED, contested),
            deeds: some(random, &deeds, deeds_left),
            concerns: some(random, &CONCERNS, concerns),
        }
    }

    pub(crate) fn has(&self, concern: Concern) -> bool {
        self.concerns.contains(&concern)
    }

    /// A hostname that an object asks for.
    pub(crate) fn host(&self, random: &mut Random) -> &'static str {
        if random.chance(80) { random.pick(&self.hosts) } else { random.pick(&self.contested) }
    }
}

/// So many of these.
fn some<T: Clone>(random: &mut Random, of: &[T], count: usize) -> Vec<T> {
    let mut left = of.to_vec();
    (0..count).map(|_| left.swap_remove(random.below(left.len()))).collect()
}
