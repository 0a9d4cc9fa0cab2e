//! What makes a world as unkind as the real one, added to the steps that a seed decides: reads that are old, records
//! that are, tunnels that cannot be written, a second instance in the middle of a loop, a wildcard record that leads
//! elsewhere, and rules by hand between ours. Each kind has chances of its own, so a world is the same without it.

use std::collections::BTreeSet;

use crate::faults::Trouble;
use crate::focus::Focus;
use crate::objects::Object;
use crate::outages::Outage;
use crate::random::Random;
use crate::settings::Settings;
use crate::steps::{Loop, Overlap, Step};
use crate::strangers::Stranger;

/// How old records of ours are when the changes begin, in seconds: within the patience of a move, after it, and as old
/// as most are.
const AGES: [u64; 3] = [60, 660, 31_536_000];

/// Instead of a minute.
const LONG_STEPS: [u64; 2] = [3_600, 86_400];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A read shows what was there some writes ago, or contradicts itself, and the process was told of something newer.
    Old,
    /// The same where it cannot know: after a start, and where another writer or instance wrote.
    Lag,
    /// Records stand when the changes begin, and much time passes between loops.
    Ages,
    /// Writes of one tunnel or of both are refused, or fail for an hour.
    Unwritable,
    /// A second instance of the owner plays its whole loop between two calls of the first one's.
    Overlap,
    /// `*.example.com` leads to another proxy.
    Elsewhere,
    /// Rules by hand, with paths and options, between ours.
    Hands,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] =
        [Self::Old, Self::Lag, Self::Ages, Self::Unwritable, Self::Overlap, Self::Elsewhere, Self::Hands];

    /// Those that a run tries which names none: all under which the program holds what is promised.
    pub(crate) const HELD: [Self; 7] = Self::ALL;

    /// What `just simulate` calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::Lag => "lag",
            Self::Ages => "ages",
            Self::Unwritable => "unwritable",
            Self::Overlap => "overlap",
            Self::Elsewhere => "elsewhere",
            Self::Hands => "hands",
        }
    }

    /// The seed of its chances.
    fn seed(self, seed: u64) -> u64 {
        seed ^ (self as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// What a time that passes without a loop is for.
pub(crate) fn label_of_age(seconds: u64) -> &'static str {
    match seconds {
        60 => "records of a minute",
        660 => "records of eleven minutes",
        31_536_000 => "records of a year",
        3_600.. => "hours or days between loops",
        _ => "minutes of an outage",
    }
}

/// Names that the wildcard record serves while they have none of their own.
const BELOW: [&str; 3] = ["a.example.com", "b.example.com", "shop.example.com"];

/// Of a hundred worlds, so many have a kind that is tried.
const SHARE: usize = 50;

/// Makes a world unkind.
pub(crate) fn add(
    kinds: &BTreeSet<Kind>,
    seed: u64,
    settings: &mut Settings,
    focus: &Focus,
    steps: &mut Vec<Step>,
) {
    for kind in kinds {
        let mut random = Random::new(kind.seed(seed));
        if !random.chance(SHARE) {
            continue;
        }
        match kind {
            Kind::Old => add_old_answers(&mut random, steps, true),
            Kind::Lag => add_old_answers(&mut random, steps, false),
            Kind::Ages => add_ages(&mut random, settings, focus, steps),
            Kind::Unwritable => add_outages(&mut random, settings, focus, steps),
            Kind::Overlap => add_overlaps(&mut random, steps),
            Kind::Elsewhere => settings.is_wildcard_elsewhere = true,
            Kind::Hands => add_hands(&mut random, focus, steps),
        }
    }
}

fn loops(steps: &mut [Step]) -> impl Iterator<Item = &mut Loop> {
    steps.iter_mut().filter_map(|step| if let Step::Loop(one) = step { Some(one) } else { None })
}

fn add_old_answers(random: &mut Random, steps: &mut Vec<Step>, is_known: bool) {
    if !is_known {
        // A process that begins knows nothing.
        for step in std::mem::take(steps) {
            if matches!(step, Step::Loop(_)) && random.chance(25) {
                steps.push(Step::Restart);
            }
            steps.push(step);
        }
    }
    for one in loops(steps) {
        for _ in 0..random.weighted(&[(4, 0), (4, 1), (2, 2)]) {
            one.troubles.push(Trouble::old(random, is_known));
        }
    }
}

/// Objects stand for so long, and in half of the worlds the time between loops is long.
fn add_ages(random: &mut Random, settings: &Settings, focus: &Focus, steps: &mut Vec<Step>) {
    let number = |nth: usize| 5_000 + nth;
    let standing = (0..4).map(|nth| Step::Put(Object::random(random, settings, focus, number(nth))));
    let mut before: Vec<Step> = standing.collect();
    for _ in 0..3 {
        before.push(Step::Loop(Loop { seed: random.next(), ..Loop::default() }));
    }
    before.push(Step::Age { seconds: random.pick(&AGES) });
    if random.chance(50) {
        let all = std::mem::take(steps);
        for step in all {
            let is_loop = matches!(step, Step::Loop(_));
            steps.push(step);
            if is_loop {
                steps.push(Step::Age { seconds: random.pick(&LONG_STEPS) });
            }
        }
    }
    steps.splice(0..0, before);
}

/// After a rest a tunnel cannot be written for some loops, in which new objects come.
fn add_outages(random: &mut Random, settings: &Settings, focus: &Focus, steps: &mut Vec<Step>) {
    for (number, step) in std::mem::take(steps).into_iter().enumerate() {
        let is_rest = matches!(step, Step::Rest);
        steps.push(step);
        if is_rest {
            steps.extend(outage(random, settings, focus, 10 * number));
        }
    }
}

fn outage(random: &mut Random, settings: &Settings, focus: &Focus, number: usize) -> Vec<Step> {
    let mut steps = vec![Step::Outage(Outage::unwritable(random))];
    for nth in 0..3 + random.below(5) {
        let mut object = Object::random(random, settings, focus, 6_000 + number + nth);
        if random.chance(60) {
            object.host = random.pick(&BELOW);
            object.alias = None;
        }
        steps.push(Step::Put(object));
    }
    for _ in 0..3 + random.below(4) {
        steps.push(Step::Loop(Loop { seed: random.next(), replica: random.below(2), ..Loop::default() }));
        if random.chance(30) {
            steps.push(Step::Age { seconds: random.pick(&[300, 900]) });
        }
    }
    steps.push(Step::OutageOver);
    steps.extend((0..2).map(|_| Step::Loop(Loop { seed: random.next(), ..Loop::default() })));
    steps
}

fn add_overlaps(random: &mut Random, steps: &mut [Step]) {
    for one in loops(steps) {
        // What fails in one of the two at some call would be what fails in either.
        if random.chance(30) && one.intruders.is_empty() && !one.is_restarted {
            one.troubles.clear();
            let lacks_newest = random.chance(50);
            one.overlap = Some(Overlap { read: 1 + random.below(20), seed: random.next(), lacks_newest });
        }
    }
}

fn add_hands(random: &mut Random, focus: &Focus, steps: &mut Vec<Step>) {
    let all = std::mem::take(steps);
    for (number, step) in all.into_iter().enumerate() {
        if matches!(step, Step::Loop(_)) && random.chance(25) {
            steps.push(Step::Stranger(Stranger::between(random, focus, 7_000 + number)));
        }
        steps.push(step);
    }
}
