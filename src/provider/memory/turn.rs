//! Remembers the turn: the hostnames that a request changes, if ExternalDNS asks for more at once.

use crate::reconcile::plan::TurnPosition;

/// The number of requests that begin at the same place although a hostname stays half written.
const TRIES_MAX: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct TurnMemory {
    /// The place at which the turn begins; `None` for the first hostname.
    pub(crate) start: Option<TurnPosition>,
    /// The number of requests in a row that left hostnames undone, from the first that wrote a part of a hostname.
    tries: usize,
}

impl TurnMemory {
    /// Notes that a part of a hostname was written, and not all of it.
    pub(crate) fn note_begun(&mut self) {
        self.tries = self.tries.max(1);
    }

    /// Notes the end of a request that left hostnames of the turn undone (`is_left`), and the place of the first hostname
    /// that it postponed. After a request that wrote a part of a hostname, the next requests begin at the same place, and
    /// write the rest or delete the part. Without an undone hostname, the turn begins at the same place too, because
    /// ExternalDNS asks for completed hostnames no more.
    pub(crate) fn end_request(&mut self, is_left: bool, next: Option<&TurnPosition>) {
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
        let next = TurnPosition { is_withdrawn: false, hostname: "b.example.com".into() };
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
