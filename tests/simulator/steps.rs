//! What happens in a world, one thing after the other. A step says all about itself, so the others stay what they are
//! where one is left out.

use crate::faults::Trouble;
use crate::objects::{CONTESTED, HOSTS, Object};
use crate::outages::Outage;
use crate::random::Random;
use crate::settings::Settings;
use crate::strangers::Stranger;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// An object comes, or takes the place of the one of its name.
    Put(Object),
    /// One of the objects is mistyped, as the number says.
    Mistype {
        which: usize,
        seed: u64,
    },
    /// Whoever reads the log does what it asks for.
    Mend,
    /// One of the objects goes.
    Remove {
        which: usize,
    },
    /// The source shows nothing at all, or shows again what there is.
    Blank(bool),
    Stranger(Stranger),
    /// Time passes without a loop.
    Wait {
        seconds: u64,
    },
    /// The program is ended between two loops, and started again.
    Restart,
    /// Whether there is a second program of the same settings.
    Replica(bool),
    /// A loop of another owner's ExternalDNS, with a program of its own.
    Other,
    /// Whether the token sees a zone.
    Sight {
        zone: &'static str,
        is_seen: bool,
    },
    /// A zone that begins or ends to be delegated.
    Status {
        zone: &'static str,
        status: &'static str,
    },
    Connectors {
        tunnel: &'static str,
        count: usize,
    },
    /// Whether one of the tunnels is there. Made anew, it has another id.
    Tunnel {
        is_there: bool,
    },
    /// Whether one of the policies that objects name is there.
    Policy {
        is_there: bool,
    },
    /// Cloudflare refuses something of a hostname from now on.
    Dislike {
        host: &'static str,
        what: Disliked,
    },
    Like,
    /// From now on one place at Cloudflare fails, and no other.
    Outage(Outage),
    OutageOver,
    Loop(Loop),
    /// Everything that goes wrong ends. What is wanted has to come about then.
    Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disliked {
    Record,
    Rules,
    /// The rules with a path, and no other.
    Paths,
}

/// One loop of ExternalDNS.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loop {
    /// Decides the order of what the cluster asks for.
    pub(crate) seed: u64,
    /// Which program answers.
    pub(crate) replica: usize,
    pub(crate) troubles: Vec<Trouble>,
    /// Who writes between two calls, and before which read.
    pub(crate) intruders: Vec<(usize, Stranger)>,
}

/// So many rounds of changes and one loop lie between two rests.
const ROUNDS_TO_REST: usize = 6;

/// Before so many of a hundred rests, and outages, the log is read.
const MENDED: usize = 60;

/// After so many of a hundred rests a place fails for some loops.
const OUTAGES: usize = 40;

pub(crate) fn random(random: &mut Random, settings: &Settings, rounds: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut number = 0;
    for round in 1..=rounds {
        for _ in 0..random.weighted(&[(2, 0), (4, 1), (3, 2), (1, 6)]) {
            number += 1;
            steps.push(change(random, settings, number));
        }
        steps.push(Step::Loop(any_loop(random, number)));
        if round % ROUNDS_TO_REST == 0 || round == rounds {
            if random.chance(MENDED) {
                steps.push(Step::Mend);
            }
            steps.push(Step::Rest);
            // What somebody did before is over, so that whoever waits has no excuse.
            if random.chance(OUTAGES) {
                let more = outage(random, settings, &mut number);
                steps.extend(more);
            }
        }
    }
    steps
}

/// A place fails, and what is asked for meanwhile is asked for again and again.
fn outage(random: &mut Random, settings: &Settings, number: &mut usize) -> Vec<Step> {
    let mut steps = vec![Step::Outage(Outage::random(random))];
    for _ in 0..3 + random.below(4) {
        *number += 1;
        steps.push(Step::Put(Object::random(random, settings, *number)));
    }
    if random.chance(MENDED) {
        steps.push(Step::Mend);
    }
    for _ in 0..2 + random.below(4) {
        steps.push(Step::Loop(Loop { seed: random.next(), replica: random.below(2), ..Loop::default() }));
    }
    if random.chance(30) {
        steps.push(Step::OutageOver);
    }
    steps
}

fn change(random: &mut Random, settings: &Settings, number: usize) -> Step {
    match random.below(100) {
        0..48 => Step::Put(Object::random(random, settings, number)),
        48 => Step::Other,
        49 => Step::Policy { is_there: random.chance(30) },
        50..60 => Step::Mistype { which: random.below(50), seed: random.next() },
        60..72 => Step::Remove { which: random.below(50) },
        72..75 => Step::Blank(random.chance(40)),
        75..83 => Step::Stranger(Stranger::random(random, number)),
        83..87 => Step::Wait { seconds: random.pick(&[5, 65, 130, 700, 4_000, 90_000]) },
        87..90 => Step::Restart,
        90 => Step::Replica(random.chance(60)),
        91 => Step::Other,
        92 => Step::Sight {
            zone: random.pick(&["example.org", "inner.example.com"]),
            is_seen: random.chance(50),
        },
        93..95 => Step::Status { zone: "inner.example.com", status: random.pick(&["pending", "active"]) },
        95 => Step::Connectors { tunnel: random.pick(&["home", "office"]), count: random.pick(&[0, 1, 2]) },
        96 => Step::Tunnel { is_there: random.chance(40) },
        97..99 => {
            let host = if random.chance(80) { random.pick(&HOSTS) } else { random.pick(&CONTESTED) };
            Step::Dislike { host, what: random.pick(&[Disliked::Record, Disliked::Rules, Disliked::Paths]) }
        }
        _ => Step::Like,
    }
}

fn any_loop(random: &mut Random, number: usize) -> Loop {
    let troubles = random.weighted(&[(6, 0), (3, 1), (1, 2)]);
    let intruders = usize::from(random.chance(10));
    Loop {
        seed: random.next(),
        replica: random.below(2),
        troubles: (0..troubles).map(|_| Trouble::random(random)).collect(),
        intruders: (0..intruders)
            .map(|_| (1 + random.below(12), Stranger::random(random, 1_000 + number)))
            .collect(),
    }
}
