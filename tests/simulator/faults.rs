//! What goes wrong with single calls to Cloudflare's API.

use std::time::Duration;

use cloudflare_emulator::{Emulator, Fault, Matcher};

use crate::random::Random;

/// Longer than any world lasts.
const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);

/// The seconds that a limit asks for: some end within the loop, some after the next one.
const PAUSES: [u64; 5] = [2, 20, 30, 90, 250];

/// The most by which a slow answer exceeds the deadline of a request: the emulator's time passes at once, so no client
/// stops waiting for it.
pub(crate) const DELAY_MAX: Duration = Duration::from_millis(2_500);

/// One thing that goes wrong in a loop.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    calls: Calls,
    /// The how manieth of these calls, from 1.
    nth: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Calls {
    Any,
    Reads,
    Writes,
    Access,
    Configurations,
    Connections,
    Records,
    Applications,
    Application,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Throttled {
        seconds: u64,
    },
    Status(u16),
    Refused {
        status: u16,
        code: u32,
    },
    Reset,
    Garbage,
    Truncated,
    /// This call, or all from this one on, take so many milliseconds.
    Slow {
        milliseconds: u64,
        is_all: bool,
    },
    DoneUnanswered,
    DoneStatus(u16),
    DoneThrottled {
        seconds: u64,
    },
    DoneGarbage,
    /// All calls from this one on fail so, for so many seconds.
    Outage {
        status: u16,
        seconds: u64,
    },
    /// The answer to this read, or to all from this one on, shows what was there so many writes ago.
    Old {
        writes: usize,
        is_known: bool,
        is_all: bool,
    },
    /// A member of the answer is untrue, where the program can tell.
    Says {
        member: &'static str,
        value: &'static str,
    },
    /// The program ends before this call, or right after it.
    Crash {
        is_done: bool,
    },
}

impl Trouble {
    pub(crate) fn random(random: &mut Random) -> Self {
        let calls =
            random.weighted(&[(2, Calls::Any), (1, Calls::Reads), (5, Calls::Writes), (1, Calls::Access)]);
        let nth = 1 + random.below(if matches!(calls, Calls::Any | Calls::Reads) { 14 } else { 6 });
        let codes = [
            Kind::Refused { status: 400, code: 1056 },
            Kind::Refused { status: 400, code: 81053 },
            Kind::Refused { status: 400, code: 1004 },
            Kind::Refused { status: 400, code: 12130 },
            Kind::Refused { status: 403, code: 10000 },
            Kind::Refused { status: 404, code: 81044 },
            Kind::Refused { status: 409, code: 11010 },
        ];
        let kind = match random.below(14) {
            0 => Kind::Throttled { seconds: random.pick(&PAUSES) },
            1 => Kind::Status(random.pick(&[500, 502, 503, 504, 302, 413])),
            2 | 3 => random.pick(&codes),
            4 => Kind::Reset,
            5 => Kind::Garbage,
            6 => Kind::Truncated,
            7 if random.chance(50) => Kind::Slow { milliseconds: random.next() % 2_500, is_all: false },
            7 => Kind::Slow { milliseconds: 1_500 + random.next() % 1_000, is_all: true },
            8 => Kind::DoneUnanswered,
            9 if random.chance(33) => Kind::DoneThrottled { seconds: random.pick(&PAUSES) },
            9 => Kind::DoneStatus(random.pick(&[500, 502])),
            10 => Kind::DoneGarbage,
            11 => Kind::Outage { status: random.pick(&[429, 500, 403]), seconds: 1 + random.next() % 200 },
            _ => Kind::Crash { is_done: random.chance(50) },
        };
        Self { calls, nth, kind }
    }

    /// A read that is old: where the program was told of something newer, or where it was not.
    pub(crate) fn old(random: &mut Random, is_known: bool) -> Self {
        let calls = random.weighted(&[
            (5, Calls::Configurations),
            (1, Calls::Connections),
            (5, Calls::Records),
            (2, Calls::Applications),
            (1, Calls::Application),
        ]);
        let says =
            [("config", "null"), ("config", "{}"), ("tunnel_id", "\"00000000-0000-4000-8000-000000000000\"")];
        let (member, value) = random.pick(&says);
        let kind = if is_known && matches!(calls, Calls::Configurations) && random.chance(25) {
            Kind::Says { member, value }
        } else {
            let writes = random.weighted(&[(4, 1), (2, 2), (1, 3), (2, usize::MAX)]);
            Kind::Old { writes, is_known, is_all: random.chance(25) }
        };
        Self { calls, nth: 1 + random.below(4), kind }
    }

    /// Whether Cloudflare rejects what it is asked for.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.kind, Kind::Refused { .. })
    }

    /// Whether ExternalDNS may be shown fewer records than there are, and the program cannot know it.
    pub(crate) fn hides_records(&self) -> bool {
        matches!((self.calls, self.kind), (Calls::Records, Kind::Old { is_known: false, .. }))
    }

    /// Whether the program ends by it.
    pub(crate) fn is_crash(&self) -> bool {
        matches!(self.kind, Kind::Crash { .. })
    }

    /// Lets it happen in the next calls.
    pub(crate) fn arm(&self, cloudflare: &Emulator) {
        let matcher = match self.calls {
            Calls::Any => Matcher::any(),
            Calls::Reads => Matcher::reads(),
            Calls::Writes => Matcher::writes(),
            Calls::Access => Matcher::call("*", "/accounts/*/access/**"),
            Calls::Configurations => Matcher::get_configuration(),
            Calls::Connections => Matcher::call("GET", "/accounts/*/cfd_tunnel/*/connections"),
            Calls::Records => Matcher::list_records(),
            Calls::Applications => Matcher::list_applications(),
            Calls::Application => Matcher::call("GET", "/accounts/*/access/apps/*"),
        };
        let done_but = |fault| Fault::DoneBut(Box::new(fault));
        let fault = match self.kind {
            Kind::Throttled { seconds } => Fault::limited(seconds),
            Kind::Status(status) => Fault::status(status),
            Kind::Refused { status, code } => Fault::error(status, code, "simulated"),
            Kind::Reset => Fault::Reset,
            Kind::Garbage => Fault::Garbage,
            Kind::Truncated => Fault::Truncated,
            Kind::Slow { milliseconds, is_all } => {
                let fault = Fault::Delay(Duration::from_millis(milliseconds));
                if is_all {
                    cloudflare.fault_for(matcher, self.nth, FOR_EVER, fault);
                    return;
                }
                fault
            }
            Kind::DoneUnanswered => Fault::DoneButUnanswered,
            Kind::DoneThrottled { seconds } => done_but(Fault::limited(seconds)),
            Kind::DoneStatus(status) => done_but(Fault::status(status)),
            Kind::DoneGarbage => done_but(Fault::Garbage),
            Kind::Outage { status, seconds } => {
                let fault = if status == 429 { Fault::limited(20) } else { Fault::status(status) };
                cloudflare.fault_for(matcher, self.nth, Duration::from_secs(seconds), fault);
                return;
            }
            Kind::Old { writes, is_known, is_all } => {
                let old = Box::new(Fault::Old { writes });
                let fault = if is_known { Fault::Known(old) } else { Fault::Unknown(old) };
                if is_all {
                    cloudflare.fault_for(matcher, self.nth, FOR_EVER, fault);
                    return;
                }
                fault
            }
            Kind::Says { member, value } => Fault::Known(Box::new(Fault::says(member, value))),
            Kind::Crash { is_done } => {
                // What the program would write next to its end never happens.
                let matcher =
                    if matches!(self.calls, Calls::Writes) { Matcher::writes() } else { Matcher::any() };
                if is_done {
                    cloudflare.fault(matcher.clone(), self.nth, Fault::DoneButUnanswered);
                }
                cloudflare.fault_for(matcher, self.nth, FOR_EVER, Fault::Reset);
                return;
            }
        };
        cloudflare.fault(matcher, self.nth, fault);
    }
}
