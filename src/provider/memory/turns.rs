//! Remembers the turns of changes that exceed one request: the end of the last turn, and the size of the next turn.

use crate::limits;
use crate::reconcile::plan::TurnPosition;

#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The end of the last turn, if the turn postponed hostnames.
    pub(crate) end: Option<TurnPosition>,
    /// The reduced size of a turn; `None` for the full size.
    hostnames_max: Option<usize>,
}

impl Turns {
    /// The maximum number of hostnames that one turn changes.
    pub(crate) fn hostnames_max(&self) -> usize {
        self.hostnames_max.unwrap_or(limits::CHANGED_HOSTNAMES_MAX)
    }

    /// Notes that a turn of this many hostnames ran out of time. The next turn has half as many, but at least
    /// `CHANGED_HOSTNAMES_MIN`. True if the size was not reduced before.
    pub(crate) fn shorten(&mut self, hostnames: usize) -> bool {
        let half = (hostnames / 2).max(limits::CHANGED_HOSTNAMES_MIN);
        self.hostnames_max.replace(half).is_none()
    }

    /// Notes that a turn had time for all of its hostnames. If the size is reduced, the next turn is larger by half.
    pub(crate) fn lengthen(&mut self) {
        let hostnames_max = self.hostnames_max.map(|hostnames_max| hostnames_max + hostnames_max.div_ceil(2));
        self.hostnames_max =
            hostnames_max.filter(|hostnames_max| *hostnames_max < limits::CHANGED_HOSTNAMES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_run_out_of_time_get_half_as_large_and_grow_by_half_until_they_are_as_large_as_ever() {
        let (mut turns, hostnames_max) = (Turns::default(), limits::CHANGED_HOSTNAMES_MAX);
        assert!(turns.shorten(hostnames_max), "the first one");
        assert_eq!((turns.shorten(300), turns.hostnames_max()), (false, 150));
        assert_eq!((turns.shorten(1), turns.hostnames_max()), (false, 10));
        for expected in [15, 23, 35] {
            turns.lengthen();
            assert_eq!(turns.hostnames_max(), expected);
        }
        (0..10).for_each(|_| turns.lengthen());
        assert_eq!(turns.hostnames_max(), hostnames_max);
        assert!(turns.shorten(hostnames_max), "the first one again");
    }
}
