//! A generator that is cheap enough to fill padding at line rate, and the same everywhere for one seed.

/// SplitMix64 (Steele, Lea and Flood, 2014): one addition and three multiplications a number. Not for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in `0..limit`; 0 for a limit of 0. The bias is below `limit` / 2^64.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Exponential with mean 1, from 53 random bits; never infinite.
    pub(super) fn exponential(&mut self) -> f64 {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        -(1.0 - uniform).ln()
    }

    /// Fills with random octets.
    #[inline]
    pub(super) fn fill(&mut self, octets: &mut [u8]) {
        let mut words = octets.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_ne_bytes());
        }
        let rest = words.into_remainder();
        let last = self.next().to_ne_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First numbers of the published reference code for seed 1234567.
    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut random = Random::new(1_234_567);
        let numbers: [u64; 5] = std::array::from_fn(|_| random.next());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn all_octets_are_filled() {
        for length in 0..40 {
            let mut or = vec![0u8; length];
            let mut random = Random::new(length as u64);
            for _ in 0..64 {
                let mut octets = vec![0u8; length];
                random.fill(&mut octets);
                or.iter_mut().zip(octets).for_each(|(or, octet)| *or |= octet);
            }
            assert!(or.iter().all(|octet| *octet == 255), "{length}: {or:?}");
        }
    }
}
