//! How random worlds are chosen.

use proptest::test_runner::{Config, RngSeed};

/// The same worlds in every run, unless `PROPTEST_RNG_SEED` asks for others: whether a change passes is not left to chance.
/// What a law finds becomes an example of its own, so no file of seeds is kept.
pub fn config(seed: u64) -> Config {
    let default = Config::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(seed),
        asked_for @ RngSeed::Fixed(_) => asked_for,
    };
    Config { rng_seed, failure_persistence: None, ..default }
}
