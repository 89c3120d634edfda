//! Which seeds to run.

/// Seeds that failed once: a number, and a description.
///
/// What a seed does depends on every choice of the simulation, so an old seed does something else after the
/// simulation's clients have learnt something new. The file only checks recent repairs again; the core's tests keep
/// them checked.
const FAILED: &str = include_str!("../../seeds-that-failed.txt");

/// Hexadecimal digits of a commit's hash that are the start of its seeds: 48 bits, so that a seed and a count fit.
const DIGITS: usize = 12;

/// The largest first seed.
pub const FIRST_MAX: u64 = (1 << (4 * DIGITS)) - 1;

/// The first seed of a commit; `None` if this is no hash.
pub fn of_commit(hash: &str) -> Option<u64> {
    u64::from_str_radix(hash.get(..DIGITS)?, 16).ok()
}

/// Seeds that failed once.
pub fn that_failed() -> Vec<u64> {
    let first_word = |line: &str| line.split_whitespace().next().map(str::to_string);
    let lines = FAILED.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(first_word)
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_has_seeds_of_its_own() {
        assert_eq!(of_commit("00000000000a7b1c9f"), Some(10));
        assert_eq!(of_commit("fffffffffffffffff0"), Some(FIRST_MAX));
        assert_eq!(of_commit("abc"), None);
        assert_eq!(of_commit("not a hash at all"), None);
    }

    #[test]
    fn every_line_of_the_file_is_a_remark_or_begins_with_a_seed() {
        let lines = FAILED.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        assert_eq!(lines.count(), that_failed().len());
    }
}
