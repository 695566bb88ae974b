//! Random numbers that are cheap enough to fill padding at line rate, and the same everywhere for one seed: PCG
//! (O'Neill 2014, PCG XSL RR 128/64 of `rand_pcg`). Not for secrets.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A generator with what schedules and packets need of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Random(Pcg64Mcg);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
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

    /// Fills with random bytes.
    #[inline]
    pub(super) fn fill(&mut self, octets: &mut [u8]) {
        self.0.fill_bytes(octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds stand in manifests and cross the network: another generator would send other packets for them.
    #[test]
    fn numbers_of_a_seed_stay_as_they_are() {
        let mut random = Random::new(1_234_567);
        let numbers: [u64; 3] = std::array::from_fn(|_| random.next());
        let mut again = Random::new(1_234_567);
        let mut octets = [0; 20];
        again.fill(&mut octets);
        assert_eq!(octets[..8], numbers[0].to_le_bytes());
        assert_eq!(octets[16..], numbers[2].to_le_bytes()[..4]);
        // From a second implementation, in Python.
        let expected = [8_290_513_589_126_623_617, 9_302_223_752_294_420_227, 16_644_029_706_881_908_597];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn bounded_numbers_reach_all_and_no_more() {
        let mut random = Random::new(3);
        let mut counts = [0_u32; 7];
        (0..70_000).for_each(|_| counts[random.below(7) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
        let mean = (0..100_000).map(|_| random.exponential()).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
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
