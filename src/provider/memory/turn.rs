//! Remembers the turn: the hostnames that a request changes, if ExternalDNS asks for more at once.

/// The requests in which a turn finishes what it has begun.
const TRIES_MAX: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct TurnMemory {
    /// Each number begins a thousand hostnames later.
    number: usize,
    /// The requests of the turn that left one of its hostnames undone, from the first one that wrote a part of one.
    tries: usize,
}

impl TurnMemory {
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Notes that a part of a hostname was written, and not all of it.
    pub(crate) fn note_begun(&mut self) {
        self.tries = self.tries.max(1);
    }

    /// Notes the end of a request that left hostnames of the turn undone (`is_left`) and hostnames of other turns
    /// (`are_others_left`). The next requests finish what this turn has begun, or take it back. Completed hostnames make
    /// room for others, so a turn that leaves none needs no next number.
    pub(crate) fn end_request(&mut self, is_left: bool, are_others_left: bool) {
        let is_begun = (1..TRIES_MAX).contains(&self.tries);
        self.tries = if is_left && is_begun { self.tries + 1 } else { 0 };
        if is_left && !is_begun && are_others_left {
            self.number = self.number.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_began_a_hostname_has_two_more_requests_and_a_turn_that_began_none_has_no_more() {
        for (begins, numbers) in [(false, [1, 2, 3, 4]), (true, [0, 0, 1, 1])] {
            let mut turn = TurnMemory::default();
            let ends = [(); 4].map(|()| {
                if begins {
                    turn.note_begun();
                }
                turn.end_request(true, true);
                turn.number()
            });
            assert_eq!(ends, numbers, "{begins}");
        }
        let mut turn = TurnMemory::default();
        turn.end_request(true, false);
        turn.end_request(false, true);
        assert_eq!(turn.number(), 0, "no others wait, or all of the turn is done");
    }
}
