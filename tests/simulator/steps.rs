//! What happens in a world, one thing after the other. A step says all about itself, so the other steps stay the same
//! where one is left out.

use crate::faults::Trouble;
use crate::focus::{Concern, Focus};
use crate::objects::{Edit, Object};
use crate::outages::Outage;
use crate::random::Random;
use crate::settings::Settings;
use crate::strangers::Stranger;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// An object comes, or takes the place of the one of its name.
    Put(Object),
    /// One of the objects asks for something else.
    Edit {
        which: usize,
        edit: Edit,
    },
    /// One of the objects is mistyped, as the seed says.
    Mistype {
        which: usize,
        seed: u64,
    },
    /// The authors of the objects read the log and do what it asks for.
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
    /// The same, and nothing looks around meanwhile: records grow old.
    Age {
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
    /// Cloudflare rejects something of a hostname from now on.
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
    /// It ends once it has adjusted what is wanted, and a new one is told what to change.
    pub(crate) is_restarted: bool,
    pub(crate) troubles: Vec<Trouble>,
    /// The writers that write between two calls, and before which read.
    pub(crate) intruders: Vec<(usize, Stranger)>,
    /// The other program of the same settings plays its whole loop meanwhile.
    pub(crate) overlap: Option<Overlap>,
}

impl Loop {
    /// Whether ExternalDNS asks for the deletion of all records that are there: a list of records may be old, and a
    /// stranger may take a record of ours away meanwhile.
    pub(crate) fn may_ask_for_all(&self) -> bool {
        self.intruders.is_empty() && !self.troubles.iter().any(Trouble::hides_records)
    }
}

/// A loop within a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlap {
    /// Before which read of the outer one.
    pub(crate) read: usize,
    /// Decides the order of what the cluster asks for.
    pub(crate) seed: u64,
    /// Its ExternalDNS has not seen the newest object yet.
    pub(crate) lacks_newest: bool,
}

/// So many rounds of changes and one loop lie between two rests.
const ROUNDS_TO_REST: usize = 6;

/// Before so many of a hundred rests, and outages, the log is read.
const MENDED: usize = 60;

/// After so many of a hundred rests a place fails for some loops.
const OUTAGES: usize = 40;

/// What may change between two loops.
#[derive(Clone, Copy, Debug)]
enum Change {
    Put,
    Edit,
    Remove,
    Mistype,
    Blank,
    Stranger,
    Wait,
    Restart,
    Replica,
    Other,
    Sight,
    Status,
    Connectors,
    Tunnel,
    Policy,
    Dislike,
    Like,
}

/// How often, and what it belongs to.
const CHANGES: [(usize, Concern, Change); 14] = [
    (10, Concern::Mistakes, Change::Mistype),
    (3, Concern::Blanks, Change::Blank),
    (10, Concern::Strangers, Change::Stranger),
    (4, Concern::Restarts, Change::Wait),
    (3, Concern::Restarts, Change::Restart),
    (1, Concern::Restarts, Change::Replica),
    (2, Concern::Owners, Change::Other),
    (1, Concern::Places, Change::Sight),
    (2, Concern::Places, Change::Status),
    (1, Concern::Places, Change::Connectors),
    (1, Concern::Places, Change::Tunnel),
    (1, Concern::Places, Change::Policy),
    (2, Concern::Refusals, Change::Dislike),
    (1, Concern::Refusals, Change::Like),
];

pub(crate) fn random(random: &mut Random, settings: &Settings, focus: &Focus, rounds: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut number = 0;
    for round in 1..=rounds {
        for _ in 0..random.weighted(&[(2, 0), (4, 1), (3, 2), (1, 6)]) {
            number += 1;
            steps.push(change(random, settings, focus, number));
        }
        steps.push(Step::Loop(any_loop(random, focus, number)));
        if round % ROUNDS_TO_REST == 0 || round == rounds {
            if random.chance(MENDED) {
                steps.push(Step::Mend);
            }
            steps.push(Step::Rest);
            // What other writers did before is over, so that an object that waits has no excuse.
            if focus.has(Concern::Outages) && random.chance(OUTAGES) {
                let more = outage(random, settings, focus, &mut number);
                steps.extend(more);
            }
        }
    }
    steps
}

/// A place fails, and what is asked for meanwhile is asked for again and again.
fn outage(random: &mut Random, settings: &Settings, focus: &Focus, number: &mut usize) -> Vec<Step> {
    let mut steps = vec![Step::Outage(Outage::random(random))];
    for _ in 0..3 + random.below(4) {
        *number += 1;
        steps.push(Step::Put(Object::random(random, settings, focus, *number)));
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

fn change(random: &mut Random, settings: &Settings, focus: &Focus, number: usize) -> Step {
    let of_objects = [(30, Change::Put), (20, Change::Edit), (10, Change::Remove)];
    let of_concerns = CHANGES.iter().filter(|(_, concern, _)| focus.has(*concern));
    let all: Vec<(usize, Change)> =
        of_objects.into_iter().chain(of_concerns.map(|(weight, _, change)| (*weight, *change))).collect();
    match random.weighted(&all) {
        Change::Put => Step::Put(Object::random(random, settings, focus, number)),
        Change::Edit => Step::Edit { which: random.below(50), edit: Edit::random(random, focus, number) },
        Change::Remove => Step::Remove { which: random.below(50) },
        Change::Mistype => Step::Mistype { which: random.below(50), seed: random.next() },
        Change::Blank => Step::Blank(random.chance(40)),
        Change::Stranger => Step::Stranger(Stranger::random(random, focus, number)),
        Change::Wait => Step::Wait { seconds: random.pick(&[5, 65, 130, 700, 4_000, 90_000]) },
        Change::Restart => Step::Restart,
        Change::Replica => Step::Replica(random.chance(60)),
        Change::Other => Step::Other,
        Change::Sight => Step::Sight {
            zone: random.pick(&["example.org", "inner.example.com"]),
            is_seen: random.chance(50),
        },
        Change::Status => {
            Step::Status { zone: "inner.example.com", status: random.pick(&["pending", "active"]) }
        }
        Change::Connectors => {
            Step::Connectors { tunnel: random.pick(&["home", "office"]), count: random.pick(&[0, 1, 2]) }
        }
        Change::Tunnel => Step::Tunnel { is_there: random.chance(40) },
        Change::Policy => Step::Policy { is_there: random.chance(30) },
        Change::Dislike => Step::Dislike {
            host: focus.host(random),
            what: random.pick(&[Disliked::Record, Disliked::Rules, Disliked::Paths]),
        },
        Change::Like => Step::Like,
    }
}

fn any_loop(random: &mut Random, focus: &Focus, number: usize) -> Loop {
    let troubles = if focus.has(Concern::Troubles) { random.weighted(&[(6, 0), (3, 1), (1, 2)]) } else { 0 };
    let intruders = usize::from(focus.has(Concern::Strangers) && random.chance(10));
    Loop {
        seed: random.next(),
        replica: random.below(2),
        is_restarted: focus.has(Concern::Restarts) && random.chance(10),
        troubles: (0..troubles).map(|_| Trouble::random(random)).collect(),
        intruders: (0..intruders)
            .map(|_| (1 + random.below(12), Stranger::random(random, focus, 1_000 + number)))
            .collect(),
        overlap: None,
    }
}
