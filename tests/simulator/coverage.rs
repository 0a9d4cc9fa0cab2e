//! The share of what is looked at for which the promises hold. The rest is excused, and a promise that is excused too
//! often proves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use crate::excuses::Excuse;
use crate::promises::Held;
use crate::unkind::Kind;

/// From so many worlds on the shares tell something. Over fifty worlds, the shares of some seeds are half as large as
/// those of others.
const WORLDS_MIN: usize = 150;

/// Percent of objects at rest, those that are served, what is served in a loop, what is asked for, and hostnames beside
/// an outage. Measured over 67 to 82 worlds each: 72 to 76, 53 to 60, 79 to 86, 50 to 58, and 22 to 29.
const HELD_MIN: [usize; 5] = [64, 46, 77, 38, 13];

/// The same where the worlds are unkind. Measured over 150, 170 and 510 worlds of all kinds: 60 to 66, 43 to 51, 61 to
/// 71, 50 to 53, and 9 to 16.
const HELD_UNKIND_MIN: [usize; 5] = [52, 36, 58, 38, 5];

/// Percent of the histories in which each unkind thing comes to pass at least, where its kinds are tried.
const TRIED_MIN: [(&[Kind], &str, usize); 14] = [
    (&[Kind::Old], "an old configuration", 15),
    (&[Kind::Old], "an old list of records", 5),
    (&[Kind::Old], "a contradiction", 8),
    (&[Kind::Lag], "unknown: an old configuration", 15),
    (&[Kind::Lag], "unknown: an old list of records", 15),
    (&[Kind::Ages], "records of a minute", 8),
    (&[Kind::Ages], "records of eleven minutes", 8),
    (&[Kind::Ages], "records of a year", 8),
    (&[Kind::Ages], "hours or days between loops", 12),
    (&[Kind::Unwritable], "a tunnel that cannot be written", 25),
    (&[Kind::Unwritable, Kind::Elsewhere], "a tunnel that is known not to be writable", 8),
    (&[Kind::Overlap], "two instances overlap", 25),
    (&[Kind::Elsewhere], "a wildcard record that leads elsewhere", 35),
    (&[Kind::Hands], "a rule by hand between ours", 25),
];

/// What there was, and for how many of it a promise holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    held: usize,
    all: usize,
}

impl Share {
    pub(crate) fn count(&mut self, is_held: bool) {
        self.all += 1;
        self.held += usize::from(is_held);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.held += other.held;
        self.all += other.all;
    }

    fn percent(self) -> usize {
        self.held * 100 / self.all.max(1)
    }
}

impl Display for Share {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} % of {}", self.percent(), self.all)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    /// Objects at rest, and those of which something is promised.
    pub(crate) at_rest: Share,
    /// The same, and those that are served as they ask.
    pub(crate) served: Share,
    /// What was served by ours when a loop began, and what of it has to be served throughout.
    pub(crate) throughout: Share,
    /// Rules and records of ours at rest, and those that an object has to have asked for.
    pub(crate) asked: Share,
    /// Hostnames beside a place that fails, and those that waited so long that they have to be served.
    pub(crate) beside: Share,
    /// Objects at rest of which nothing is promised, as one thing alone excuses them, by what it is.
    pub(crate) excuses: BTreeMap<Excuse, usize>,
    /// In how many histories each unkind thing came to pass.
    pub(crate) tried: BTreeMap<&'static str, usize>,
}

impl Coverage {
    pub(crate) fn add(&mut self, other: &Self) {
        self.at_rest.add(other.at_rest);
        self.served.add(other.served);
        self.throughout.add(other.throughout);
        self.asked.add(other.asked);
        self.beside.add(other.beside);
        for (excuse, count) in &other.excuses {
            *self.excuses.entry(*excuse).or_default() += count;
        }
        for (what, count) in &other.tried {
            *self.tried.entry(what).or_default() += count;
        }
    }

    /// It came to pass in this history, once or more.
    pub(crate) fn try_it(&mut self, what: &'static str) {
        self.tried.insert(what, 1);
    }

    pub(crate) fn count_at_rest(&mut self, held: Option<Held>, excuses: &[Excuse]) {
        self.at_rest.count(held.is_some());
        self.served.count(held == Some(Held::Served));
        if let ([alone], None) = (excuses, held) {
            *self.excuses.entry(*alone).or_default() += 1;
        }
    }

    /// What was looked at too seldom, in so many worlds, of the kinds that were tried.
    pub(crate) fn is_too_little(&self, worlds: usize, kinds: &BTreeSet<Kind>) -> Option<String> {
        if worlds < WORLDS_MIN {
            return None;
        }
        let is_tried = |of: &[Kind]| of.iter().all(|kind| kinds.contains(kind));
        let floors = TRIED_MIN.into_iter().filter(|(of, ..)| is_tried(of));
        for (_, what, floor) in floors {
            let tried = self.tried.get(what).copied().unwrap_or_default();
            if tried * 100 < floor * worlds {
                return Some(format!("{what}: in {tried} of {worlds} histories, and {floor} % have to be"));
            }
        }
        let shares = [
            ("objects at rest", self.at_rest),
            ("objects at rest that are served as they ask", self.served),
            ("what is served in a loop", self.throughout),
            ("rules and records at rest", self.asked),
            ("hostnames beside an outage", self.beside),
        ];
        let floors = if kinds.is_empty() { HELD_MIN } else { HELD_UNKIND_MIN };
        let mut floors = shares.into_iter().zip(floors);
        let ((what, share), floor) = floors.find(|((_, share), floor)| share.percent() < *floor)?;
        Some(format!("{what}: {share} are held to their promise, and {floor} % have to be"))
    }
}

impl Display for Coverage {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { at_rest, served, throughout, asked, beside, excuses, tried } = self;
        let tried: Vec<String> = tried.iter().map(|(what, count)| format!("{what} {count}")).collect();
        writeln!(formatter, "histories with something unkind: {}", tried.join(", "))?;
        writeln!(
            formatter,
            "had to be served: at rest {at_rest} objects (as they ask {served}), throughout a loop {throughout} addresses, beside an outage \
             {beside} hostnames; had to be asked for: at rest {asked} rules and records"
        )?;
        let mut excuses: Vec<_> = excuses.iter().collect();
        excuses.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let excuses: Vec<String> =
            excuses.iter().map(|(excuse, count)| format!("{excuse:?} {count}")).collect();
        write!(formatter, "objects at rest with one excuse: {}", excuses.join(", "))
    }
}
