//! Chooses how many pieces of a queue are tried together next, so that the bad ones soon stand alone. It is pure: it is
//! told how each trial ended, and does not know what is tried.
//!
//! This is group testing with group sizes that suit the share of bad pieces seen so far: a group that passes half of
//! the time tells most. A refused group is halved until one piece stands alone; the pieces behind it return to the
//! queue, because nothing is known of them. Forty bad pieces among two hundred take about 175 trials; the theoretical
//! minimum is 141.

/// The weight of an earlier request's estimate, in bad pieces seen, so that one surprise does not overturn it.
const WEIGHT_OF_EARLIER: usize = 4;

/// Decides a queue's next trial.
#[derive(Clone, Debug)]
pub(super) struct GroupTesting {
    /// The length of the next group.
    next: usize,
    /// One of this many first pieces is bad.
    doubtful: usize,
    good: usize,
    bad: usize,
    is_untried: bool,
}

impl GroupTesting {
    /// A queue about which nothing is known: all of it is tried first.
    pub(super) fn of_untried(length: usize) -> Self {
        Self { next: length, doubtful: 0, good: 0, bad: 0, is_untried: true }
    }

    /// A queue of `length` of which groups were refused. `group` is the size that the last request would have tried
    /// next.
    pub(super) fn of_doubtful(length: usize, group: usize) -> Self {
        let next = group.clamp(1, length.max(1));
        // Half of the queue says nothing about the share of bad pieces yet.
        let (good, bad) = if next * 2 >= length {
            (0, 0)
        } else {
            ((next * WEIGHT_OF_EARLIER * 10 / 7).saturating_sub(WEIGHT_OF_EARLIER), WEIGHT_OF_EARLIER)
        };
        Self { next, doubtful: 0, good, bad, is_untried: false }
    }

    /// True if no part of the queue was ever refused.
    pub(super) fn is_untried(&self) -> bool {
        self.is_untried
    }

    /// The length of the next group, which may exceed what is left.
    pub(super) fn next(&self) -> usize {
        self.next
    }

    /// The group size with which [`Self::of_doubtful`] goes on in a later request.
    pub(super) fn next_later(&self) -> usize {
        if self.doubtful > 0 && self.bad == 0 { self.next } else { self.suitable() }
    }

    /// The first `length` pieces passed.
    pub(super) fn went_through(&mut self, length: usize) {
        self.good += length;
        self.doubtful = self.doubtful.saturating_sub(length);
        self.next = if self.doubtful > 0 { (self.doubtful / 2).max(1) } else { self.suitable() };
    }

    /// The first piece was refused alone.
    pub(super) fn stood_alone(&mut self) {
        self.bad += 1;
        self.doubtful = 0;
        self.next = self.suitable();
        self.is_untried = false;
    }

    /// The first `length` pieces were refused, more than one.
    pub(super) fn was_refused(&mut self, length: usize) {
        self.doubtful = length;
        self.next = (length / 2).max(1);
        self.is_untried = false;
    }

    /// The first `length` pieces were refused, and the answer named the bad ones; `rest` are the others.
    pub(super) fn was_named(&mut self, rest: usize) {
        self.doubtful = 0;
        self.next = rest.max(1);
        self.is_untried = false;
    }

    /// The length of a group that passes half of the time: ln 2 is 0.7.
    fn suitable(&self) -> usize {
        match self.bad {
            0 => usize::MAX,
            bad => ((self.good + bad) * 7 / (bad * 10)).max(1),
        }
    }
}

/// Recognises that something answers in Cloudflare's place, whatever is sent. It is told of every answer to a queue.
#[derive(Debug, Default)]
pub(super) struct Pages {
    alone: usize,
    is_passed: bool,
}

impl Pages {
    /// Cloudflare itself answered.
    pub(super) fn was_passed(&mut self) {
        self.is_passed = true;
    }

    /// One piece was refused alone. Returns true if it is the second and nothing has ever passed: then the content is
    /// not the cause.
    pub(super) fn stood_alone(&mut self) -> bool {
        self.alone += 1;
        !self.is_passed && self.alone > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_stand_alone_are_everybody_unless_something_was_let_through() {
        let mut pages = Pages::default();
        assert_eq!((pages.stood_alone(), pages.stood_alone()), (false, true));
        let mut pages = Pages::default();
        assert!(!pages.stood_alone());
        pages.was_passed();
        assert!(!pages.stood_alone());
    }

    /// The number of trials for a queue whose bad pieces `is_bad` names, starting anew after every `interval` trials.
    fn trials(length: usize, interval: usize, is_bad: impl Fn(usize) -> bool) -> usize {
        let mut queue: Vec<usize> = (0..length).collect();
        let mut narrowing = GroupTesting::of_untried(length);
        let mut trials = 0;
        while !queue.is_empty() {
            trials += 1;
            let group = narrowing.next().min(queue.len());
            assert!(group > 0);
            if !queue[..group].iter().any(|one| is_bad(*one)) {
                narrowing.went_through(group);
                queue.drain(..group);
            } else if group == 1 {
                narrowing.stood_alone();
                queue.remove(0);
            } else {
                narrowing.was_refused(group);
            }
            if trials % interval == 0 {
                narrowing = GroupTesting::of_doubtful(queue.len(), narrowing.next_later());
            }
        }
        trials
    }

    /// Pseudo-random numbers, the same in each run.
    fn hash(number: usize, seed: usize) -> usize {
        let mut bits = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((seed as u64) << 17);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 8) as usize
    }

    #[test]
    fn the_bad_ones_stand_alone_after_few_trials_also_over_several_requests() {
        for (bad_of_a_thousand, interval, most) in
            [(0, 1000, 1), (5, 1000, 40), (50, 1000, 110), (200, 1000, 215), (200, 28, 220), (1000, 28, 240)]
        {
            for seed in 0..50 {
                let is_bad = |number| hash(number, seed) % 1000 < bad_of_a_thousand;
                let trials = trials(200, interval, is_bad);
                assert!(trials <= most, "{bad_of_a_thousand} {interval} {seed}: {trials}");
            }
        }
    }

    #[test]
    fn one_bad_one_among_many_takes_two_trials_a_halving_at_most() {
        for bad in 0..200 {
            let trials = trials(200, 1000, |number| number == bad);
            assert!(trials <= 2 * 8 + 6, "{bad}: {trials}");
        }
    }

    #[test]
    fn the_share_of_bad_ones_is_remembered_from_one_request_to_the_next() {
        assert_eq!(GroupTesting::of_untried(200).next_later(), usize::MAX, "nothing is known");
        for group in 1..100 {
            let narrowing = GroupTesting::of_doubtful(200, group);
            assert_eq!(narrowing.next(), group);
            assert!((group.max(2) - 1..=group).contains(&narrowing.next_later()), "{group}: {narrowing:?}");
        }
        for group in [100, 200, 300] {
            let narrowing = GroupTesting::of_doubtful(200, group);
            assert_eq!(
                (narrowing.next(), narrowing.next_later()),
                (group.min(200), usize::MAX),
                "half of it tells nothing"
            );
        }
    }

    #[test]
    fn without_those_that_were_named_the_others_are_tried_together() {
        for (rest, next) in [(190, 190), (1, 1), (0, 1)] {
            let mut narrowing = GroupTesting::of_untried(200);
            narrowing.was_refused(200);
            narrowing.was_named(rest);
            assert_eq!((narrowing.next(), narrowing.is_untried()), (next, false));
        }
        let mut narrowing = GroupTesting::of_untried(200);
        narrowing.was_named(190);
        assert!(!narrowing.is_untried());
    }

    #[test]
    fn a_halving_that_is_interrupted_goes_on_where_it_was() {
        let mut narrowing = GroupTesting::of_untried(200);
        narrowing.was_refused(200);
        narrowing.was_refused(100);
        assert_eq!(narrowing.next_later(), 50);
        assert_eq!(GroupTesting::of_doubtful(200, 50).next(), 50);
    }
}
