//! Numbers that look random and are the same for the same seed.

/// SplitMix64: small, and good enough to choose members.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// A sequence of its own for one of several.
    pub(crate) fn fork(seed: u64, number: usize) -> Self {
        let mut forked = Self(seed ^ (number as u64).wrapping_mul(0xD134_2543_DE82_EF95));
        forked.next();
        forked
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end as u64)).unwrap_or_default()
    }

    /// A share of 1.
    pub(crate) fn share(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.below(from.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let of = |seed| {
            let mut random = Random::of(seed);
            [random.next(), random.next()]
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let mut random = Random::fork(7, 3);
        assert!((0..1000).all(|_| random.below(5) < 5 && (0.0..=1.0).contains(&random.share())));
        assert_eq!(random.pick::<u8>(&[]), None);
    }
}
