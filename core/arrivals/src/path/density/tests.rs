//! Worked examples, and a twin that takes the definition at its word.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn density(arrivals: &[u64], dt: u64) -> Vec<(i64, f64)> {
    let result = reorder_density(arrivals, dt);
    result.counts.keys().map(|&d| (d, result.density(d).expect("packets were counted"))).collect()
}

#[test]
fn worked_examples_of_rfc_5236() {
    let first = [1, 4, 2, 5, 3, 6, 7, 8];
    assert_eq!(density(&first, 4), [(-2, 0.125), (-1, 0.125), (0, 0.5), (1, 0.125), (2, 0.125)]);
    let with_a_loss = [1, 2, 4, 5, 6, 7];
    assert_eq!(density(&with_a_loss, 3), [(0, 1.0)]);
    let with_a_copy = [1, 3, 2, 3, 4, 5];
    assert_eq!(density(&with_a_copy, 2), [(-1, 0.2), (0, 0.6), (1, 0.2)]);
    assert_eq!(reorder_density(&with_a_copy, 2).discarded, 1);
}

#[test]
fn a_packet_later_than_the_threshold_is_a_loss_that_came_back() {
    let result = reorder_density(&[0, 2, 3, 4, 5, 1, 6], 2);
    assert_eq!((result.counts, result.discarded), (BTreeMap::from([(0, 6)]), 1));
    let result = reorder_density(&[0, 2, 3, 4, 5, 1, 6], 4);
    assert_eq!((result.counts, result.discarded), (BTreeMap::from([(-1, 4), (0, 2), (4, 1)]), 0));
}

#[test]
fn nothing_arrived_and_the_ends_of_the_numbers() {
    assert_eq!(reorder_density(&[], 3).density(0), None);
    let far = [u64::MAX, 0, u64::MAX, 5];
    assert_eq!(reorder_density(&far, u64::MAX).packets, 3);
    assert_eq!(reorder_density(&far, 1).counts, BTreeMap::from([(0, 2)]));
    assert_eq!(reorder_density(&[u64::MAX, u64::MAX], 0).discarded, 1);
}

/// RFC 5236, section 4.1: the algorithm as it is told, with plain lists and the index moved on one by one.
fn density_twin(arrivals: &[u64], dt: u64) -> BTreeMap<i64, u64> {
    let (dt, mut counts, mut index) = (dt as i64, BTreeMap::new(), 0i64);
    let (mut window, mut buffer): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    let mut rest = arrivals.iter().map(|&number| number as i64);
    let mut seen = HashSet::new();
    let mut next = |index: i64| rest.find(|&number| number >= index && seen.insert(number));
    while window.len() <= dt as usize {
        let Some(number) = next(0) else { break };
        window.push(number);
    }
    while !window.is_empty() {
        if !window.contains(&index) && !buffer.contains(&index) {
            index += 1;
            continue;
        }
        let number = window.remove(0);
        let displacement = index - number;
        if displacement.abs() <= dt {
            *counts.entry(displacement).or_default() += 1;
            buffer.retain(|&early| early != index);
            if displacement < 0 {
                buffer.push(number);
            }
            index += 1;
        }
        window.extend(next(index));
    }
    counts
}

/// Numbers near their place, with some missing and some twice.
fn shuffled() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec((0u64..80, 0u64..8), 0..80).prop_map(|mut draws| {
        draws.sort_by_key(|&(number, displaced)| number + displaced);
        draws.into_iter().map(|(number, _)| number).collect()
    })
}

proptest! {
    #[test]
    fn the_density_agrees_with_the_plain_algorithm(arrivals in shuffled(), threshold in 0u64..9) {
        let rd = reorder_density(&arrivals, threshold);
        prop_assert_eq!(&rd.counts, &density_twin(&arrivals, threshold));
        prop_assert_eq!(rd.packets + rd.discarded, arrivals.len() as u64);
    }
}
