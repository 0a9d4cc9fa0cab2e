//! What may go wrong at a call, and the calls of a loop at which it can.

use std::fmt;

use cloudflare_emulator::{Call, Fault, Matcher};

#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// The program goes on after it.
    Fault(Fault),
    /// The program ends right before the call is done.
    DeathBefore,
    /// The program ends right after the call was done, before it learns so.
    DeathAfter,
}

/// Whether a call that reads is done makes no difference. Only some of the permissions may be missing where there is
/// Access.
pub(super) fn troubles(call: &Point, has_access: bool) -> Vec<(&'static str, Trouble)> {
    let fault = Trouble::Fault;
    let mut troubles = vec![
        ("death before the call", Trouble::DeathBefore),
        ("429", fault(Fault::limited(30))),
        ("500", fault(Fault::status(500))),
        ("hang", fault(Fault::Hang)),
        ("dropped connection", fault(Fault::Reset)),
        ("garbage", fault(Fault::Garbage)),
        ("truncated body", fault(Fault::Truncated)),
    ];
    if has_access {
        troubles.push(("403 with a code", fault(Fault::error(403, 10000, "Authentication error"))));
    }
    if call.path.contains("/access/") {
        for (label, status, code, message) in [
            ("404 with a code", 404, 11021, "access.api.error.unknown_application"),
            ("400 with a code", 400, 12130, "access.api.error.invalid_request: no"),
            ("409 with a code", 409, 11010, "access.api.error.application_already_exists"),
        ] {
            troubles.push((label, fault(Fault::error(status, code, message))));
        }
    }
    if call.is_write() {
        let done_but = |answer: Fault| fault(Fault::DoneBut(Box::new(answer)));
        troubles.extend([
            ("death after the call", Trouble::DeathAfter),
            ("done and unanswered", fault(Fault::DoneButUnanswered)),
            ("429 though it was done", done_but(Fault::limited(30))),
            ("502 though it was done", done_but(Fault::status(502))),
            ("garbage though it was done", done_but(Fault::Garbage)),
            ("hang though it was done", done_but(Fault::Hang)),
        ]);
    }
    troubles
}

/// Ways in which a read is untrue where the program can tell.
pub(super) fn old_answers(call: &Point) -> Vec<(&'static str, Trouble)> {
    if call.is_write() || !call.can_tell_old {
        return Vec::new();
    }
    let fault = Trouble::Fault;
    let mut untrue = vec![
        ("as it was a write ago", fault(Fault::Old { writes: 1 })),
        ("as it was at first", fault(Fault::Old { writes: usize::MAX })),
    ];
    if call.path.ends_with("/configurations") {
        untrue.push(("of another tunnel", fault(Fault::says("tunnel_id", "\"another\""))));
        // The loops before it have read this very version.
        if call.nth == 1 {
            untrue.push(("without a configuration", fault(Fault::says("config", "null"))));
        }
    }
    untrue
}

impl Trouble {
    /// Whether the call is answered well, and untruly.
    pub(super) fn is_untrue(&self) -> bool {
        matches!(self, Self::Fault(Fault::Old { .. } | Fault::Says { .. }))
    }

    /// Whether the call is answered by such a fault, done or not.
    pub(super) fn ends_in(&self, test: impl Fn(&Fault) -> bool) -> bool {
        match self {
            Self::Fault(Fault::DoneBut(fault)) => test(fault),
            Self::Fault(fault) => test(fault),
            Self::DeathBefore | Self::DeathAfter => false,
        }
    }

    pub(super) fn is_death(&self) -> bool {
        matches!(self, Self::DeathBefore | Self::DeathAfter)
    }
}

/// One call of a loop.
#[derive(Clone, Debug)]
pub(super) struct Point {
    method: String,
    /// With a star for an application's id.
    pub(super) path: String,
    /// Its number among those with this method and path, from 1: reads are made side by side.
    pub(super) nth: usize,
    /// The number of writes before it.
    pub(super) writes: usize,
    /// Whether the program could tell that an answer is old.
    pub(super) can_tell_old: bool,
}

impl Point {
    pub(super) fn of(calls: &[Call]) -> Vec<Self> {
        let mut points: Vec<Self> = Vec::new();
        let mut writes = 0;
        for call in calls {
            let path = match call.path.split_once("/access/apps/") {
                Some((account, _)) => format!("{account}/access/apps/*"),
                None => call.path.clone(),
            };
            let is_same = |point: &&Self| point.method == call.method && point.path == path;
            let nth = points.iter().filter(is_same).count() + 1;
            let can_tell_old = call.would_be_known_old;
            points.push(Self { method: call.method.clone(), path, nth, writes, can_tell_old });
            writes += usize::from(call.is_write());
        }
        points
    }

    pub(super) fn is_write(&self) -> bool {
        self.method != "GET"
    }

    pub(super) fn matcher(&self) -> Matcher {
        Matcher::call(&self.method, &self.path)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, nth, writes: _, can_tell_old: _ } = self;
        write!(formatter, "{method} {path}, number {nth}")
    }
}
