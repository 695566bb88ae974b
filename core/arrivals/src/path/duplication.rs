//! Copies of packets (RFC 5560).

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// Which numbers have been met. A table of bits where the numbers lie close together, a hash set where they do not.
enum Met {
    Bits { first: u64, words: Vec<u64> },
    Set(HashSet<u64>),
}

impl Met {
    fn for_numbers(numbers: &[u64]) -> Met {
        let first = numbers.iter().copied().min().unwrap_or(0);
        let last = numbers.iter().copied().max().unwrap_or(0);
        let span = (last - first) / 64;
        // A bit a number at most costs as much as the numbers themselves: 64 bits each.
        if span <= numbers.len() as u64 {
            Met::Bits { first, words: vec![0; span as usize + 1] }
        } else {
            Met::Set(HashSet::with_capacity(numbers.len()))
        }
    }

    /// Notes a number; true where it is new.
    fn note(&mut self, number: u64) -> bool {
        match self {
            Met::Bits { first, words } => {
                let at = number - *first;
                let word = &mut words[(at / 64) as usize];
                let bit = 1 << (at % 64);
                let new = *word & bit == 0;
                *word |= bit;
                new
            }
            Met::Set(set) => set.insert(number),
        }
    }
}

/// The first copy of each packet, in order of arrival. RFC 4737 and RFC 5236 look at no other.
pub fn first_copies(arrivals: &[u64]) -> Vec<u64> {
    let mut met = Met::for_numbers(arrivals);
    arrivals.iter().copied().filter(|&number| met.note(number)).collect()
}

/// Duplication of a test (RFC 5560). Lost packets stand in no denominator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Duplication {
    /// Different packets that arrived.
    pub unique: u64,
    /// Copies beyond the first.
    pub duplicate: u64,
    /// Packets of which more than one copy arrived.
    pub replicated: u64,
    /// Copies beyond the first for each packet that arrived (RFC 5560, section 5.1); may exceed 1. None where nothing
    /// arrived.
    pub fraction: Option<f64>,
    /// Part of the packets that arrived of which more than one copy did (RFC 5560, section 5.2).
    pub replicated_rate: Option<f64>,
    /// Jitlat's duplication-length histogram: from copies beyond the first to packets with so many.
    pub lengths: BTreeMap<u64, u64>,
}

/// Counts copies. `arrivals` are the numbers of all valid packets received, copies included, in any order.
pub fn duplication(arrivals: &[u64]) -> Duplication {
    let mut numbers = arrivals.to_vec();
    numbers.sort_unstable();
    let mut result = Duplication::default();
    for copies in numbers.chunk_by(|a, b| a == b) {
        let further = copies.len() as u64 - 1;
        result.unique += 1;
        result.duplicate += further;
        if further > 0 {
            result.replicated += 1;
            *result.lengths.entry(further).or_default() += 1;
        }
    }
    if result.unique > 0 {
        result.fraction = Some(result.duplicate as f64 / result.unique as f64);
        result.replicated_rate = Some(result.replicated as f64 / result.unique as f64);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_example_of_rfc_5560() {
        let result = duplication(&[1, 1, 1, 2, 3, 3, 3, 4]);
        assert_eq!((result.fraction, result.replicated_rate), (Some(1.0), Some(0.5)));
        assert_eq!((result.unique, result.duplicate, result.replicated), (4, 4, 2));
        assert_eq!(result.lengths, BTreeMap::from([(2, 2)]));
    }

    #[test]
    fn nothing_arrived() {
        assert_eq!(duplication(&[]), Duplication::default());
        assert!(first_copies(&[]).is_empty());
    }

    #[test]
    fn numbers_far_apart_cost_no_memory_between_them() {
        assert_eq!(first_copies(&[u64::MAX, 0, 7, 0, u64::MAX]), [u64::MAX, 0, 7]);
        assert!(matches!(Met::for_numbers(&[u64::MAX, 0, 7]), Met::Set(_)));
        assert!(matches!(Met::for_numbers(&[u64::MAX, u64::MAX - 70]), Met::Bits { .. }));
    }

    proptest! {
        #[test]
        fn agrees_with_counting_each_number(
            arrivals in prop::collection::vec(0u64..20, 0..60), scale in prop::sample::select(vec![1, 1 << 40]),
        ) {
            let arrivals: Vec<u64> = arrivals.iter().map(|number| number * scale).collect();
            let mut firsts: Vec<u64> = Vec::new();
            for &number in &arrivals {
                if !firsts.contains(&number) {
                    firsts.push(number);
                }
            }
            prop_assert_eq!(&first_copies(&arrivals), &firsts);
            let further = |number: u64| arrivals.iter().filter(|&&other| other == number).count() as u64 - 1;
            let result = duplication(&arrivals);
            prop_assert_eq!(result.duplicate, firsts.iter().map(|&number| further(number)).sum::<u64>());
            for (&length, &count) in &result.lengths {
                prop_assert_eq!(count, firsts.iter().filter(|&&number| further(number) == length).count() as u64);
            }
            prop_assert_eq!(result.lengths.values().sum::<u64>(), result.replicated);
        }
    }
}
