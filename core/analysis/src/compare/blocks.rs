//! Blocks of one run drawn anew, and how long a block has to be.

use super::student::quantile;
use crate::order::below;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

/// Times that the blocks are drawn.
pub(super) const DRAWS: usize = 2_000;
/// The samples are summed in so many cells at most, of which blocks are made.
const MOST_CELLS: usize = 512;
/// Fewer samples have no interval.
const LEAST_SAMPLES: usize = 50;
/// Blocks are at most so many, which is enough, and at least so many, or their spread is not known.
const MOST_BLOCKS: usize = 32;
const LEAST_BLOCKS: usize = 8;

/// Means of a run whose blocks were drawn anew.
pub(super) struct Drawn {
    /// How far each lies from the mean of the run.
    pub(super) means: Vec<f64>,
}

impl Drawn {
    /// Of `count` samples in their order of time; none of too few.
    pub(super) fn of(samples: impl Iterator<Item = f64>, count: usize, seed: u64) -> Option<Self> {
        if count < LEAST_SAMPLES {
            return None;
        }
        let cells = count.min(MOST_CELLS);
        let (mut sums, mut sizes) = (vec![0.0; cells], vec![0.0; cells]);
        for (at, sample) in samples.enumerate() {
            let cell = at * cells / count;
            sums[cell] += sample;
            sizes[cell] += 1.0;
        }
        let mean = sums.iter().sum::<f64>() / count as f64;
        // What each cell adds to the distance of a mean from that of the run.
        let mean_size = count as f64 / cells as f64;
        let parts: Vec<f64> =
            sums.iter().zip(&sizes).map(|(sum, size)| (sum - mean * size) / mean_size).collect();
        let length = block_length(&parts).max(cells.div_ceil(MOST_BLOCKS)).min(cells / LEAST_BLOCKS);
        let blocks = cells.div_ceil(length);
        let starts: Vec<f64> = (0..cells)
            .map(|start| (start..start + length).map(|at| parts[at % cells]).sum::<f64>() / length as f64)
            .collect();
        // Few blocks understate the spread: it is widened as Student's t is against the normal distribution.
        let wider =
            quantile(blocks as f64 - 1.0, 0.975) / 1.96 * (blocks as f64 / (blocks as f64 - 1.0)).sqrt();
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut one = || (0..blocks).map(|_| starts[below(&mut random, cells)]).sum::<f64>() / blocks as f64;
        Some(Self { means: (0..DRAWS).map(|_| one() * wider).collect() })
    }
}

/// Cells in a block, by the rule of Politis and White (2004, section 3) for circular blocks, as corrected by A. Patton, D. N.
/// Politis and H. White (2009). `parts` have a mean of zero.
pub(super) fn block_length(parts: &[f64]) -> usize {
    let count = parts.len() as f64;
    let autocovariance =
        |lag: usize| parts[lag..].iter().zip(parts).map(|(later, one)| later * one).sum::<f64>() / count;
    let variance = autocovariance(0);
    if variance <= 0.0 {
        return 1;
    }
    // The first lag after which this many correlations in a row are no more than chance.
    let quiet = (count.log10().sqrt().ceil() as usize).max(5);
    let most = (parts.len() / 4).max(1);
    let limit = 2.0 * (count.log10() / count).sqrt() * variance;
    let covariances: Vec<f64> = (0..=(most + quiet).min(parts.len() - 1)).map(autocovariance).collect();
    let silent = |lag: usize| covariances.iter().skip(lag + 1).take(quiet).all(|one| one.abs() < limit);
    let last = (0..most).find(|lag| silent(*lag)).unwrap_or(most);
    let window = (2 * last).min(covariances.len() - 1);
    // The flat-top window of Politis and Romano (1995): 1 up to a half, then falling to 0.
    let taper = |lag: usize| (2.0 * (1.0 - lag as f64 / window.max(1) as f64)).clamp(0.0, 1.0);
    let lags = 1..=window;
    let spectrum = variance + 2.0 * lags.clone().map(|lag| taper(lag) * covariances[lag]).sum::<f64>();
    let slope = 2.0 * lags.map(|lag| taper(lag) * lag as f64 * covariances[lag]).sum::<f64>();
    if spectrum <= 0.0 || window == 0 {
        return 1;
    }
    let length = (2.0 * slope.powi(2) / (4.0 / 3.0 * spectrum.powi(2)) * count).cbrt();
    // The rule minimizes the error of the variance. Coverage wants a smaller bias, thus longer blocks.
    (2.0 * length).ceil().clamp(1.0, count) as usize
}
