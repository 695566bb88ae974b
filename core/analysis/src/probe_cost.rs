//! What our own probes cost per packet, from alternating blocks.

use crate::summary::ProbeCost;

/// Samples of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Probes were on.
    pub on: bool,
    /// Time of each packet in the part of its way that the probes are in.
    pub samples_ns: Vec<i64>,
}

/// Part of a block's samples left out at each end before the mean: interruptions hit blocks by chance, and one of
/// a millisecond would outweigh thousands of packets.
const TRIMMED_SHARE: f64 = 0.02;

/// 97.5 % points of Student's t for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Mean difference, on less off, of neighbouring blocks' trimmed means, with its 95 % interval by Student's t over
/// the pairs. None with fewer than three pairs. Sorts the samples.
pub fn probe_cost(blocks: &mut [Block]) -> Option<ProbeCost> {
    let means: Vec<(bool, Option<f64>)> =
        blocks.iter_mut().map(|block| (block.on, trimmed_mean(&mut block.samples_ns))).collect();
    let differences: Vec<f64> = means
        .chunks_exact(2)
        .filter_map(|pair| match (pair[0], pair[1]) {
            ((true, Some(on)), (false, Some(off))) | ((false, Some(off)), (true, Some(on))) => Some(on - off),
            _ => None,
        })
        .collect();
    let count = differences.len();
    if count < 3 {
        return None;
    }
    let mean = differences.iter().sum::<f64>() / count as f64;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    let half = T_975[(count - 2).min(T_975.len() - 1)] * (variance / count as f64).sqrt();
    Some(ProbeCost { per_packet_ns: mean, interval_ns: (mean - half, mean + half), blocks: count as u32 })
}

fn trimmed_mean(samples_ns: &mut [i64]) -> Option<f64> {
    samples_ns.sort_unstable();
    let cut = (samples_ns.len() as f64 * TRIMMED_SHARE) as usize;
    let kept = &samples_ns[cut..samples_ns.len() - cut];
    (!kept.is_empty()).then(|| kept.iter().map(|ns| *ns as f64).sum::<f64>() / kept.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(on: bool, samples_ns: &[i64]) -> Block {
        Block { on, samples_ns: samples_ns.to_vec() }
    }

    #[test]
    fn differences_of_neighbours() {
        let mut blocks = [
            block(false, &[100]),
            block(true, &[400]),
            block(true, &[510]),
            block(false, &[200]),
            block(false, &[300]),
            block(true, &[590]),
        ];
        let cost = probe_cost(&mut blocks).unwrap();
        assert_eq!(cost.blocks, 3);
        assert!((cost.per_packet_ns - 300.0).abs() < 1e-9, "300, 310 and 290");
        let half = 4.303 * (100.0_f64 / 3.0).sqrt();
        assert!((cost.interval_ns.1 - 300.0 - half).abs() < 1e-9);
    }

    #[test]
    fn one_interruption_does_not_count() {
        let mut quiet = vec![100; 99];
        quiet.push(10_000_000);
        assert_eq!(trimmed_mean(&mut quiet), Some(100.0));
    }

    #[test]
    fn too_few_blocks_say_nothing() {
        assert_eq!(probe_cost(&mut [block(true, &[1]), block(false, &[1])]), None);
        assert_eq!(probe_cost(&mut []), None);
    }
}
