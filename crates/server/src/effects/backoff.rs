//! How long to wait before the next attempt.

use std::time::Duration;

/// The first wait, and the longest.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// Twice as long after each attempt, up to a minute, and a part of it left out: what failed together does not
/// come back together. Who waits is told apart by `seed`.
pub(super) fn wait(attempts: u32, seed: u64) -> Duration {
    let doubled = FIRST.saturating_mul(1 << attempts.saturating_sub(1).min(16));
    let whole = doubled.min(LONGEST);
    let part = scatter(seed ^ u64::from(attempts).rotate_left(32)) % 1000;
    whole / 2 + whole / 2 * u32::try_from(part).unwrap_or(0) / 1000
}

/// Spreads neighbouring numbers over all numbers.
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_are_spread() {
        for seed in 0..100 {
            assert!((FIRST / 2..=FIRST).contains(&wait(1, seed)));
            assert!((LONGEST / 2..=LONGEST).contains(&wait(20, seed)));
            assert!((LONGEST / 2..=LONGEST).contains(&wait(u32::MAX, seed)));
            assert!(wait(5, seed) > wait(3, seed));
        }
        let different: std::collections::BTreeSet<_> = (0..100).map(|seed| wait(20, seed)).collect();
        assert!(different.len() > 80, "{} of 100 waits differ", different.len());
    }
}
