//! Random numbers that depend on nothing but a seed and a position, so that a packet's fate can be asked for again.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A sequence of random numbers, any of which can be had without those before it: PCG XSL RR 128/64, which can leap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream(Pcg64);

impl Stream {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// A sequence of its own for a purpose that these words name: each word chooses the stream of the generator that
    /// the words before it have seeded.
    pub fn derived(seed: u64, words: &[u64]) -> Self {
        let next = |seed: u64, word: &u64| Pcg64::new(seed.into(), (*word).into()).next_u64();
        Self::new(words.iter().fold(seed, next))
    }

    /// The number at a position from 0.
    pub fn at(&self, position: u64) -> u64 {
        let mut there = self.0.clone();
        there.advance(position.into());
        there.next_u64()
    }

    /// The number at a position as a fraction in [0, 1), a multiple of 2^-53.
    pub fn fraction(&self, position: u64) -> f64 {
        (self.at(position) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The number at a position brought into `0..below` (0 where `below` is 0), uniform to within 2^-64 of `below`.
    pub fn below(&self, position: u64, below: u64) -> u64 {
        ((u128::from(self.at(position)) * u128::from(below)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_generator() {
        let stream = Stream::new(1_234_567);
        let mut generator = Pcg64::seed_from_u64(1_234_567);
        for position in 0..1_000 {
            assert_eq!(stream.at(position), generator.next_u64(), "position {position}");
        }
    }

    #[test]
    fn purposes_have_sequences_of_their_own() {
        let one = Stream::derived(7, &[0, 1, 2]);
        assert_eq!(one, Stream::derived(7, &[0, 1, 2]));
        for other in
            [Stream::derived(8, &[0, 1, 2]), Stream::derived(7, &[0, 2, 1]), Stream::derived(7, &[1])]
        {
            assert_ne!(one.at(0), other.at(0));
        }
    }

    #[test]
    fn fractions_and_bounded_numbers_stay_in_bounds_and_are_even() {
        let stream = Stream::new(1);
        let mut counts = [0_u32; 10];
        for position in 0..100_000 {
            assert!((0.0..1.0).contains(&stream.fraction(position)));
            counts[stream.below(position, 10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(stream.below(3, 0), 0);
    }
}
