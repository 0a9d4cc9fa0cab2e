//! How much of a sweep runs: a representative part in `cargo test`, every case where `SWEEPS=whole` asks for it.

/// By day one case in so many runs.
const ONE_IN: usize = 12;

/// The cases of a call or change that run, at least one of them. Those of the `nth` call and of the one after it are of
/// different kinds, so that all calls together have every kind.
pub fn part<Case>(nth: usize, cases: Vec<Case>) -> Vec<Case> {
    one_in(ONE_IN, nth, cases)
}

/// One case in so many by day, and at least one.
#[allow(clippy::disallowed_methods, reason = "how much is tried is no setting of the program")]
pub fn one_in<Case>(one_in: usize, nth: usize, cases: Vec<Case>) -> Vec<Case> {
    let is_whole = std::env::var("SWEEPS").is_ok_and(|asked| asked == "whole");
    let one_in = if is_whole { 1 } else { one_in.min(cases.len()) };
    let runs = |kind: usize| (nth + kind).is_multiple_of(one_in);
    cases.into_iter().enumerate().filter(|(kind, _)| runs(*kind)).map(|(_, case)| case).collect()
}
