//! Random numbers that depend on nothing but a seed and a position, so that a packet's fate can be asked for again.

/// The golden ratio's fraction, by which SplitMix64 steps.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finishing function of SplitMix64 (Steele, Lea and Flood, 2014).
fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sequence of random numbers, any of which can be had without those before it: SplitMix64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    seed: u64,
}

impl Stream {
    /// The sequence of SplitMix64 with this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// A sequence of its own for a purpose that these words name.
    pub fn derived(seed: u64, words: &[u64]) -> Self {
        Self { seed: words.iter().fold(seed, |state, word| mixed(state ^ mixed(word.wrapping_add(STEP)))) }
    }

    /// The number at a position from 0.
    pub fn at(&self, position: u64) -> u64 {
        mixed(self.seed.wrapping_add(STEP.wrapping_mul(position.wrapping_add(1))))
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
    fn numbers_are_those_of_splitmix64() {
        // Published outputs for seed 1234567 (Rosetta Code, "Pseudo-random numbers/Splitmix64").
        let stream = Stream::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!([0, 1, 2, 3, 4].map(|position| stream.at(position)), expected);
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
