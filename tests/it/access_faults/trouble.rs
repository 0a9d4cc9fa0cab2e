//! What may go wrong at a call, and the calls of a loop at which it can.

use std::fmt;

use cloudflare_emulator::{Call, Fault, Matcher};

#[derive(Clone, Debug)]
pub(super) enum Trouble {
    Fault(Fault),
    DeathBefore,
    DeathAfter,
}

pub(super) fn troubles(call: &Point) -> Vec<(&'static str, Trouble)> {
    let (is_write, is_access) = (call.is_write(), call.path.contains("/access/"));
    let fault = Trouble::Fault;
    let mut troubles = vec![
        ("429", fault(Fault::limited(30))),
        ("500", fault(Fault::status(500))),
        ("403 with a code", fault(Fault::error(403, 10000, "Authentication error"))),
        ("dropped connection", fault(Fault::Reset)),
        ("garbage", fault(Fault::Garbage)),
        ("truncated body", fault(Fault::Truncated)),
    ];
    if is_access {
        troubles.extend([
            ("404 with a code", fault(Fault::error(404, 11021, "access.api.error.unknown_application"))),
            ("400 with a code", fault(Fault::error(400, 12130, "access.api.error.invalid_request: no"))),
            (
                "409 with a code",
                fault(Fault::error(409, 11010, "access.api.error.application_already_exists")),
            ),
        ]);
    }
    if is_write || is_access {
        troubles.push(("hang", fault(Fault::Hang)));
    }
    if is_write {
        troubles.extend([
            ("death before the call", Trouble::DeathBefore),
            ("death after the call", Trouble::DeathAfter),
            ("done and unanswered", fault(Fault::DoneButUnanswered)),
            ("429 though it was done", fault(Fault::DoneBut(Box::new(Fault::limited(30))))),
            ("502 though it was done", fault(Fault::DoneBut(Box::new(Fault::status(502))))),
            ("garbage though it was done", fault(Fault::DoneBut(Box::new(Fault::Garbage)))),
            ("hang though it was done", fault(Fault::DoneBut(Box::new(Fault::Hang)))),
        ]);
    }
    troubles
}

/// One call of a loop.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) method: String,
    /// With a star for an application's id.
    pub(super) path: String,
    /// The how manieth with this method and path, from 1: reads are made side by side.
    pub(super) nth: usize,
    /// The how manieth write, or the number of those before it.
    pub(super) writes: usize,
}

impl Point {
    pub(super) fn of(calls: &[Call]) -> Vec<Self> {
        let mut points: Vec<Self> = Vec::new();
        for call in calls {
            let path = match call.path.split_once("/access/apps/") {
                Some((account, _)) => format!("{account}/access/apps/*"),
                None => call.path.clone(),
            };
            let is_same = |point: &&Self| point.method == call.method && point.path == path;
            let nth = points.iter().filter(is_same).count() + 1;
            let writes = points.last().map_or(0, |last| last.writes) + usize::from(call.is_write());
            points.push(Self { method: call.method.clone(), path, nth, writes });
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
        let Self { method, path, nth, writes: _ } = self;
        write!(formatter, "{method} {path}, number {nth}")
    }
}

impl Trouble {
    pub(super) fn hangs(&self) -> bool {
        match self {
            Self::Fault(Fault::DoneBut(fault)) => **fault == Fault::Hang,
            Self::Fault(fault) => *fault == Fault::Hang,
            Self::DeathBefore | Self::DeathAfter => false,
        }
    }

    pub(super) fn is_death(&self) -> bool {
        matches!(self, Self::DeathBefore | Self::DeathAfter)
    }
}
