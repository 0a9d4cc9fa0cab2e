//! Divides the pieces of one stage and target into groups. A rejected group is sent in halves, until each bad piece is
//! rejected alone or the search for bad pieces has used up its part of the request. This module sends nothing.
//!
//! For each group, the run calls `next`, sends the pieces, and calls `end_group`, or `divide` if the content was
//! rejected. A piece that `divide` returns was rejected alone. If an empty group comes next, every piece was written or
//! its hostname was given up; a run that stops before asks for `undecided`.

use std::cmp::Ordering;
use std::mem;
use std::time::Duration;

use crate::limits;
use crate::reconcile::plan::{HostPlan, Piece};

/// The writes of a run that search for the bad pieces of a rejected group. Each write of a document needs a read
/// before, and five loops of one run each, in five minutes, must not use more than half of `RATE_CALLS`.
const SEARCH_WRITES_MAX: usize = 48;

/// The size of the groups that are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GroupSize {
    /// Before a search: all hostnames, as far as one write takes them.
    #[default]
    All,
    /// In a search: at most this many hostnames.
    Hostnames(usize),
    /// In a search, after a hostname was rejected alone: one piece.
    OnePiece,
}

impl GroupSize {
    /// The next size after a group of this many hostnames was rejected.
    fn half_of(hostnames: usize) -> Self {
        match hostnames / 2 {
            0 => Self::OnePiece,
            half => Self::Hostnames(half),
        }
    }

    /// The next size after a group was written.
    fn doubled(self) -> Self {
        match self {
            Self::All => Self::All,
            Self::Hostnames(size) => Self::Hostnames(size.saturating_mul(2)),
            Self::OnePiece => Self::Hostnames(1),
        }
    }

    fn hostnames_max(self) -> usize {
        match self {
            Self::All => usize::MAX,
            Self::Hostnames(size) => size,
            Self::OnePiece => 1,
        }
    }
}

/// The undecided pieces of one stage and target. In a search, the next group is half as large after a rejection, and
/// twice as large after a success.
#[derive(Debug)]
pub(super) struct Halving<'a> {
    /// Units: all pieces of a hostname, or one piece of a hostname that was rejected alone. If the last request ended
    /// with such a hostname, each unit is one piece.
    queue: Vec<Vec<Piece<'a>>>,
    /// The pieces of hostnames with a piece that failed alone before; each is sent alone, after all other pieces.
    suspects: Vec<Piece<'a>>,
    /// The group that is sent now; empty once the group is written, divided or rejected.
    sent: Vec<Vec<Piece<'a>>>,
    pub(super) group_size: GroupSize,
    /// The time that was left when the search for bad pieces began; `None` before a search.
    time_left_at_search: Option<Duration>,
}

impl<'a> Halving<'a> {
    /// The pieces of a hostname are adjacent in `pieces`. If an earlier request ended during a search, `group_size` is
    /// the size of the group that was due next.
    pub(super) fn new(
        pieces: &[Piece<'a>],
        group_size: GroupSize,
        is_suspect: impl Fn(&Piece<'a>) -> bool,
    ) -> Self {
        let (mut queue, mut suspects) = (Vec::new(), Vec::new());
        for pieces in pieces.chunk_by(|one, other| one.hostname() == other.hostname()) {
            match group_size {
                _ if pieces.iter().any(&is_suspect) => suspects.extend(in_order(pieces)),
                GroupSize::OnePiece => queue.extend(one_by_one(pieces)),
                _ => queue.push(pieces.to_vec()),
            }
        }
        Self { queue, suspects, sent: Vec::new(), group_size, time_left_at_search: None }
    }

    /// True during a search for bad pieces: after a rejection, or once only suspects are left.
    pub(super) fn is_searching(&self) -> bool {
        self.time_left_at_search.is_some()
    }

    /// True if a search that used this many writes may send no further group. All requests share the calls, and later
    /// stages need time.
    pub(super) fn is_used_up(&self, writes: usize, calls_left: u32, time_left: Duration) -> bool {
        self.time_left_at_search.is_some_and(|time| {
            writes >= SEARCH_WRITES_MAX
                || calls_left < limits::SHARED_CALLS_LEFT_MIN
                || time_left < limits::WRITE_TIME_MIN.max(time / 2)
        })
    }

    /// The next group; empty at the end. A group of several hostnames has at most this many operations. Drops the
    /// pieces of hostnames that were given up. A suspect, or a group that `group_size` limits, begins the search.
    pub(super) fn next(
        &mut self,
        operations_max: usize,
        time_left: Duration,
        is_given_up: impl Fn(&HostPlan) -> bool,
    ) -> Vec<Piece<'a>> {
        self.queue.retain(|pieces| !pieces.iter().any(|piece| is_given_up(piece.host)));
        self.suspects.retain(|piece| !is_given_up(piece.host));
        let mut operations = 0;
        let fitting = self.queue.iter().take(self.group_size.hostnames_max()).take_while(|pieces| {
            operations += pieces.iter().map(|piece| piece.operations().len()).sum::<usize>();
            operations <= operations_max
        });
        let length = fitting.count().max(1).min(self.queue.len());
        self.sent = self.queue.drain(..length).collect();
        let is_suspect = self.sent.is_empty() && !self.suspects.is_empty();
        if is_suspect {
            self.sent.push(vec![self.suspects.remove(0)]);
        }
        if is_suspect || self.group_size != GroupSize::All {
            self.time_left_at_search.get_or_insert(time_left);
        }
        self.sent.concat()
    }

    /// Ends the sent group, of which nothing is left to write.
    pub(super) fn end_group(&mut self) {
        self.sent.clear();
        self.group_size = self.group_size.doubled();
    }

    /// Divides the sent group, which Cloudflare or a proxy rejected. If it is a single piece, returns that piece.
    pub(super) fn divide(&mut self) -> Option<Piece<'a>> {
        let mut group = mem::take(&mut self.sent);
        if let [pieces] = &*group
            && let [piece] = **pieces
        {
            return Some(piece);
        }
        self.group_size = GroupSize::half_of(group.len());
        if let [pieces] = &*group {
            group = one_by_one(pieces).collect();
        }
        self.queue.splice(..0, group);
        None
    }

    /// Takes out the unsent pieces for which `is_match` is true.
    pub(super) fn take_matching(&mut self, is_match: impl Fn(&Piece<'a>) -> bool) -> Vec<Piece<'a>> {
        let groups = self.queue.iter_mut().chain([&mut self.suspects]);
        let taken = groups.flat_map(|pieces| pieces.extract_if(.., |piece| is_match(piece))).collect();
        self.queue.retain(|pieces| !pieces.is_empty());
        taken
    }

    /// Ends the search, and returns the pieces that were neither written nor rejected.
    pub(super) fn undecided(self) -> Vec<Piece<'a>> {
        [self.sent.concat(), self.queue.concat(), self.suspects].concat()
    }
}

/// The pieces of one hostname as groups of one piece each.
fn one_by_one<'a>(pieces: &[Piece<'a>]) -> impl Iterator<Item = Vec<Piece<'a>>> {
    in_order(pieces).into_iter().map(|piece| vec![piece])
}

/// The pieces of one hostname in the order in which they are sent one by one: additions from narrow to wide, then
/// deletions from wide to narrow. So a wider rule matches no request of a narrower rule that is rejected or deleted.
fn in_order<'a>(pieces: &[Piece<'a>]) -> Vec<Piece<'a>> {
    let mut pieces = pieces.to_vec();
    pieces.sort_by(|one, other| {
        let edit = |piece: &Piece<'a>| Some(&piece.edit?.edit);
        let (Some(one), Some(other)) = (edit(one), edit(other)) else {
            return Ordering::Equal;
        };
        let narrower_first = one.in_order_of_list(other);
        let in_turn = if one.is_deletion() { narrower_first.reverse() } else { narrower_first };
        one.is_deletion().cmp(&other.is_deletion()).then(in_turn)
    });
    pieces
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::iter;

    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{host_plan, put, tunnel};
    use crate::ingress::PathPattern;
    use crate::ingress::RuleEdit;
    use crate::model::{Hostname, RecordId};
    use crate::reconcile::plan::{PlannedEdit, RecordOperation, Stage};

    const TIME: Duration = Duration::from_secs(9);

    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

    /// A hostname with this number of operations in one piece.
    fn host(hostname: &str, operations: usize) -> HostPlan {
        let delete = RecordOperation::Delete { id: RecordId::new("r1"), txt_name: None };
        HostPlan { operations_before: vec![delete; operations], ..host_plan(hostname) }
    }

    fn piece(host: &HostPlan) -> Piece<'_> {
        Piece { host, stage: Stage::RecordsBefore, edit: None }
    }

    #[test]
    fn the_pieces_of_one_hostname_are_sent_from_narrow_to_wide_and_deletions_last() {
        let (tunnel, name) = (tunnel(), "a.example.com");
        let hostname = Hostname::parse(name).expect("a hostname");
        let remove = |path: Option<&str>| {
            let path = path.map(Into::into);
            RuleEdit::Delete { hostname: hostname.clone(), path }
        };
        let with_path = |path: &str| match put(name, "http://a:80") {
            RuleEdit::Put { mut rule, replaces } => {
                rule.path = Some(PathPattern::parse(path).expect("a path"));
                RuleEdit::Put { rule, replaces }
            }
            edit => edit,
        };
        let edits = [remove(Some("^/x")), put(name, "http://a:80"), remove(None), with_path("^/y")];
        let planned = |edit| PlannedEdit { tunnel: tunnel.clone(), edit, resource: None };
        let edits = edits.map(planned);
        let host = host_plan(name);
        let pieces =
            edits.each_ref().map(|edit| Piece { host: &host, stage: Stage::Rules, edit: Some(edit) });
        let sent: Vec<&RuleEdit> =
            in_order(&pieces).iter().filter_map(|piece| Some(&piece.edit?.edit)).collect();
        assert_eq!(sent, [3, 1, 2, 0].map(|index: usize| &edits[index].edit));
    }

    #[test]
    fn a_group_has_whole_hostnames_within_the_limit_of_operations_and_one_whatever_its_size() {
        let hosts = [host("a", 1), host("b", 2), host("c", 1)];
        let pieces = hosts.each_ref().map(piece);
        for (limit, expected) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (9, 3)] {
            let sent = Halving::new(&pieces, GroupSize::All, |_| false).next(limit, TIME, |_| false);
            assert_eq!(sent.len(), expected, "{limit}");
        }
        assert_eq!(Halving::new(&[], GroupSize::All, |_| false).next(9, TIME, |_| false), []);
    }

    #[test]
    fn the_limits_of_a_search_begin_with_the_first_suspect_and_not_before() {
        let hosts = ["a", "b", "c"].map(|hostname| host(hostname, 1));
        let pieces = hosts.each_ref().map(piece);
        let mut halving = Halving::new(&pieces, GroupSize::All, |piece| piece.hostname() == "a");
        let groups = [(); 4].map(|()| {
            let sent = halving.next(1, TIME, |_| false);
            halving.end_group();
            (sent.first().map(Piece::hostname), halving.is_searching())
        });
        assert_eq!(groups, [(Some("b"), false), (Some("c"), false), (Some("a"), true), (None, true)]);
    }

    #[test]
    fn groups_are_sent_while_there_are_calls_for_everybody_and_half_of_the_time() {
        let seconds = Duration::from_secs_f64;
        for (label, writes, calls_left, time, time_left, expected) in [
            ("just enough of everything", 47, 400, 9.0, 4.5, false),
            ("one write too many", 48, 400, 9.0, 4.5, true),
            ("others need the calls", 47, 399, 9.0, 4.5, true),
            ("half of the time is gone", 47, 400, 9.1, 4.5, true),
            ("a write has time", 47, 400, 2.0, 1.5, false),
            ("a write has no time", 47, 400, 2.0, 1.499, true),
        ] {
            for (size, expected) in [(GroupSize::Hostnames(1), expected), (GroupSize::All, false)] {
                let mut halving = Halving::new(&[], size, |_| false);
                halving.next(9, seconds(time), |_| false);
                let is_used_up = halving.is_used_up(writes, calls_left, seconds(time_left));
                assert_eq!(is_used_up, expected, "{label}, {size:?}");
            }
        }
    }

    proptest! {
        /// Whatever an earlier request remembered. Cloudflare rejects a group for each bad piece in it.
        #[test]
        fn every_good_piece_passes_once_and_every_bad_one_is_refused_alone(
            kinds in proptest::collection::vec((0..4_u8, any::<bool>()), 1..NAMES.len()),
            size in prop_oneof![
                Just(GroupSize::All),
                Just(GroupSize::OnePiece),
                (1..5_usize).prop_map(GroupSize::Hostnames),
            ],
        ) {
            let hosts = NAMES.map(|hostname| host(hostname, 1));
            // Up to three pieces of each hostname, of which the first is bad or not.
            let pieces: Vec<Piece<'_>> = hosts.iter().zip(&kinds).flat_map(|(host, (count, _))| {
                iter::repeat_n(piece(host), usize::from(*count))
            }).collect();
            let bad: BTreeSet<&str> =
                NAMES.iter().zip(&kinds).filter(|(_, (count, is_bad))| *is_bad && *count > 0).map(|(name, _)| *name).collect();
            let is_bad = |piece: &Piece<'_>| bad.contains(piece.hostname());
            let mut halving = Halving::new(&pieces, size, |piece| piece.hostname() == "b");
            let (mut passed, mut refused) = (Vec::new(), BTreeSet::new());
            for _ in 0..200 {
                let sent = halving.next(2, TIME, |host| refused.contains(&*host.hostname));
                if sent.is_empty() {
                    break;
                }
                if sent.iter().any(is_bad) {
                    let bad = halving.divide();
                    refused.extend(bad.map(|piece| piece.hostname()));
                } else {
                    halving.end_group();
                    passed.extend(sent.iter().map(|piece| piece.hostname()));
                }
            }
            let good: Vec<&str> = pieces.iter().filter(|piece| !is_bad(piece)).map(|piece| piece.hostname()).collect();
            passed.sort_unstable();
            prop_assert_eq!(passed, good);
            prop_assert_eq!(refused, bad);
            prop_assert_eq!(halving.undecided(), []);
        }
    }
}
