//! A failing world made smaller: steps are left out, and what goes wrong in them and is set, as long as it fails in the
//! same way.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};

use crate::coverage::Coverage;
use crate::focus::Focus;
use crate::random::Random;
use crate::settings::Settings;
use crate::steps::{self, Loop, Step};
use crate::trace::Trace;
use crate::unkind::{self, Kind};
use crate::world::World;

/// What a seed leads to.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) settings: Settings,
    pub(crate) steps: Vec<Step>,
}

/// How it came out.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The promise that was not kept, and how.
    pub(crate) failure: Option<(&'static str, String)>,
    pub(crate) trace: Trace,
    pub(crate) loops: usize,
    pub(crate) coverage: Coverage,
    pub(crate) said: Vec<String>,
}

impl Script {
    pub(crate) fn of(seed: u64, rounds: usize, kinds: &BTreeSet<Kind>) -> Self {
        let mut random = Random::new(seed);
        let mut settings = Settings::random(&mut random);
        let focus = Focus::random(&mut random);
        let mut steps = steps::random(&mut random, &settings, &focus, rounds);
        unkind::add(kinds, seed, &mut settings, &focus, &mut steps);
        Self { settings, steps }
    }

    /// What comes of it. Where the run itself panics, that is its failure.
    pub(crate) fn run(&self) -> Outcome {
        panic::catch_unwind(AssertUnwindSafe(|| self.play())).unwrap_or_else(|_| Outcome {
            failure: Some(("panic", "see above".to_owned())),
            trace: Trace::default(),
            loops: 0,
            coverage: Coverage::default(),
            said: Vec::new(),
        })
    }

    fn play(&self) -> Outcome {
        let mut world = World::new(self.settings.clone());
        let failure = self.steps.iter().find_map(|step| world.run(step).err());
        Outcome {
            failure: failure.map(|violation| (violation.kind, violation.text)),
            trace: std::mem::take(&mut world.trace),
            loops: world.loops,
            coverage: std::mem::take(&mut world.coverage),
            said: world.harness.log.lines_with(&[]),
        }
    }

    fn fails_as(&self, kind: &str) -> bool {
        self.run().failure.is_some_and(|(failed, _)| failed == kind)
    }

    /// The same with as few steps as are needed to fail so.
    pub(crate) fn shrunk(&self, kind: &str) -> Self {
        let mut smallest = self.clone();
        let mut chunk = smallest.steps.len().div_ceil(2);
        loop {
            let mut begin = 0;
            while begin < smallest.steps.len() {
                let end = (begin + chunk).min(smallest.steps.len());
                let mut fewer = smallest.clone();
                fewer.steps.drain(begin..end);
                if fewer.fails_as(kind) {
                    smallest = fewer;
                } else {
                    begin = end;
                }
            }
            if chunk == 1 {
                return smallest.calmed(kind).plain(kind);
            }
            chunk = chunk.div_ceil(2);
        }
    }

    /// The same with as few troubles and intruders.
    fn calmed(mut self, kind: &str) -> Self {
        for index in 0..self.steps.len() {
            if !matches!(self.steps[index], Step::Loop(_)) {
                continue;
            }
            for plainer in [(|one| one.is_restarted = false) as fn(&mut Loop), |one| one.overlap = None] {
                let mut fewer = self.clone();
                if let Step::Loop(one) = &mut fewer.steps[index] {
                    plainer(one);
                }
                if fewer.fails_as(kind) {
                    self = fewer;
                }
            }
            let Step::Loop(one) = &self.steps[index] else { continue };
            let (troubles, intruders) = (one.troubles.len(), one.intruders.len());
            // From the last one, so that those before keep their places.
            for left_out in (0..troubles + intruders).rev() {
                let mut fewer = self.clone();
                let Step::Loop(one) = &mut fewer.steps[index] else { break };
                if left_out < troubles {
                    one.troubles.remove(left_out);
                } else {
                    one.intruders.remove(left_out - troubles);
                }
                if fewer.fails_as(kind) {
                    self = fewer;
                }
            }
        }
        self
    }

    /// The same with as few settings.
    fn plain(mut self, kind: &str) -> Self {
        for plainer in Settings::PLAINER {
            let mut fewer = self.clone();
            plainer(&mut fewer.settings);
            if fewer.fails_as(kind) {
                self = fewer;
            }
        }
        self
    }
}
