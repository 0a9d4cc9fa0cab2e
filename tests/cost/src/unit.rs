//! The unit: a fixed piece of work that no change of the program touches. It does what the program mostly does (it
//! makes, hashes, compares and copies short texts), so that another compiler, allocator or machine changes both alike.

use std::collections::BTreeMap;
use std::fmt::Write;

const TEXTS: u64 = 20_000;

/// Makes texts, sorts them, and counts the words in them.
pub(crate) fn work() -> u64 {
    let mut texts: Vec<String> = (0..TEXTS).map(text).collect();
    texts.sort_unstable();
    let mut words: BTreeMap<&str, u64> = BTreeMap::new();
    for word in texts.iter().flat_map(|text| text.split('-')) {
        *words.entry(word).or_default() += 1;
    }
    words.iter().fold(0, |sum, (word, count)| sum ^ hash(word.as_bytes()).wrapping_mul(*count))
}

fn text(number: u64) -> String {
    let mut text = String::new();
    let mut state = hash(&number.to_le_bytes());
    for _ in 0..4 {
        state = hash(&state.to_le_bytes());
        write!(text, "{}-", state % 1_000).expect("a text takes everything");
    }
    text
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    /// Another result would be other work, and no figure would compare with an older one.
    #[test]
    fn the_unit_is_the_work_that_it_always_was() {
        assert_eq!(super::work(), 17_999_672_954_674_278_289);
    }
}
