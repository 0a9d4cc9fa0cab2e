//! Remembers the turn: the hostnames that a request changes, if ExternalDNS asks for more at once.

use crate::reconcile::plan::TurnPlace;

/// The requests in which a turn finishes what it has begun.
const TRIES_MAX: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct TurnMemory {
    /// The place at which the turn begins; `None` for the first hostname.
    pub(crate) start: Option<TurnPlace>,
    /// The requests of the turn that left one of its hostnames undone, from the first one that wrote a part of one.
    tries: usize,
}

impl TurnMemory {
    /// Notes that a part of a hostname was written, and not all of it.
    pub(crate) fn note_begun(&mut self) {
        self.tries = self.tries.max(1);
    }

    /// Notes the end of a request that left hostnames of the turn undone (`is_left`), and the place of the first hostname
    /// that it postponed. The next requests finish what this turn has begun, or take it back. Completed hostnames make room
    /// for others, so a turn that leaves none begins at the same place.
    pub(crate) fn end_request(&mut self, is_left: bool, next: Option<&TurnPlace>) {
        let is_begun = (1..TRIES_MAX).contains(&self.tries);
        self.tries = if is_left && is_begun { self.tries + 1 } else { 0 };
        if is_left && !is_begun && next.is_some() {
            self.start = next.cloned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_began_a_hostname_has_two_more_requests_and_a_turn_that_began_none_has_no_more() {
        let next = TurnPlace { is_withdrawn: false, hostname: "b.example.com".into() };
        for (begins, has_moved_on) in [(false, [true, true, true, true]), (true, [false, false, true, false])]
        {
            let mut turn = TurnMemory::default();
            let ends = [(); 4].map(|()| {
                turn.start = None;
                if begins {
                    turn.note_begun();
                }
                turn.end_request(true, Some(&next));
                turn.start.is_some()
            });
            assert_eq!(ends, has_moved_on, "{begins}");
        }
        let mut turn = TurnMemory::default();
        turn.end_request(true, None);
        turn.end_request(false, Some(&next));
        assert_eq!(turn.start, None, "no others wait, or all of the turn is done");
    }
}
