//! Visitors that never stop asking: what they get from one change at the edge to the next.

use std::fmt;
use std::time::Duration;

use crate::access::Visitor;
use crate::cloudflare::Cloudflare;
use crate::visit::{Visit, visits};

/// What visitors of one address get for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitChange {
    /// Since when, on the emulator's clock.
    pub from: Duration,
    /// Until when. The same instant where the next change arrived together with this one: it came first.
    pub until: Duration,
    /// What each connector makes of it, each answer once. Several of them while their configurations differ: which
    /// connector a visitor meets is not known.
    pub got: Vec<Visit>,
}

/// What visitors of one address and kind got all the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// As it was asked for.
    pub url: String,
    /// The visitor that asked.
    pub visitor: Visitor,
    /// Without a gap, the oldest first; two that follow each other differ.
    pub changes: Vec<VisitChange>,
}

impl Watched {
    /// The times of a visit that is served at the beginning and at the end and is answered in another way than at the
    /// beginning or at the end: by another service, with other options, or not at all.
    pub fn lost(&self) -> Vec<&VisitChange> {
        let (Some(first), Some(last)) = (self.changes.first(), self.changes.last()) else {
            return Vec::new();
        };
        if ![first, last].into_iter().all(|change| change.got.iter().all(Visit::is_served)) {
            return Vec::new();
        }
        let is_one_of_theirs =
            |visit: &Visit| first.got.iter().chain(&last.got).any(|wanted| wanted.is_answered_like(visit));
        self.changes.iter().filter(|change| !change.got.iter().all(is_one_of_theirs)).collect()
    }

    /// How long these times are together.
    pub fn lost_time(&self) -> Duration {
        self.lost().into_iter().map(|change| change.until - change.from).sum()
    }
}

impl fmt::Display for VisitChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let got: Vec<String> = self.got.iter().map(ToString::to_string).collect();
        formatter.write_str(&got.join(", or "))
    }
}

/// The times are those since the first look.
impl fmt::Display for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, visitor, changes } = self;
        formatter.write_str(url)?;
        if *visitor != Visitor::WithoutLogin {
            write!(formatter, " {visitor}")?;
        }
        let begun = changes.first().map(|change| change.from).unwrap_or_default();
        let lost = self.lost();
        changes.iter().try_for_each(|change| {
            let note = if lost.contains(&change) { ", LOST" } else { "" };
            let milliseconds = |at: Duration| (at - begun).as_millis();
            let (from, until) = (milliseconds(change.from), milliseconds(change.until));
            write!(formatter, "\n  {from} to {until} ms: {change}{note}")
        })
    }
}

/// Everything that is watched.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    addresses: Vec<Address>,
}

#[derive(Debug)]
struct Address {
    url: String,
    visitor: Visitor,
    host: String,
    path: String,
    /// Since when, and what; the oldest first.
    seen: Vec<(Duration, Vec<Visit>)>,
}

impl Watch {
    pub(crate) fn over(visitors: &[Visitor], urls: &[&str]) -> Self {
        let address = |url: &&str, visitor: Visitor| {
            let rest = url.strip_prefix("https://").expect("an address begins with https://");
            let (host, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
            let (url, host, path) = ((*url).to_owned(), host.to_owned(), path.to_owned());
            Address { url, visitor, host, path, seen: Vec::new() }
        };
        let of_each = |url| visitors.iter().map(move |visitor| address(url, *visitor));
        Self { addresses: urls.iter().flat_map(of_each).collect() }
    }

    pub(crate) fn look(&mut self, cloudflare: &Cloudflare, at: Duration) {
        for Address { url: _, visitor, host, path, seen } in &mut self.addresses {
            let got = visits(cloudflare, *visitor, host, path);
            let is_same = |before: &[Visit]| {
                before.len() == got.len() && before.iter().zip(&got).all(|(a, b)| a.takes_the_way_of(b))
            };
            if !seen.last().is_some_and(|(_, before)| is_same(before)) {
                seen.push((at, got));
            }
        }
    }

    pub(crate) fn until(&self, now: Duration) -> Vec<Watched> {
        let watched = |address: &Address| {
            let ends = address.seen.iter().skip(1).map(|(from, _)| *from).chain([now]);
            let changes = address.seen.iter().zip(ends);
            let changes =
                changes.map(|((from, got), until)| VisitChange { from: *from, until, got: got.clone() });
            Watched { url: address.url.clone(), visitor: address.visitor, changes: changes.collect() }
        };
        self.addresses.iter().map(watched).collect()
    }
}
