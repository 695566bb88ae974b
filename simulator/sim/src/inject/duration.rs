//! How long jitter lasts.

use quaver_dvfs::normal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Femtoseconds in a nanosecond.
const FS_PER_NS: f64 = 1e6;

/// Values between two bounds, and how many there were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DurationBin {
    /// Lower bound, nanoseconds.
    pub from_ns: f64,
    /// Upper bound, nanoseconds.
    pub to_ns: f64,
    /// How many.
    pub count: u64,
}

/// The distribution of what the kernel takes at one kind of occasion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Duration {
    /// With this probability, `over_ns` and a log-normal excess; else nothing.
    Exceedance {
        /// 0 to 1.
        probability: f64,
        /// What the kernel takes whenever it takes more than usual, nanoseconds.
        over_ns: f64,
        /// Mean of the excess, nanoseconds.
        mean_ns: f64,
        /// σ of the logarithm of the excess.
        sigma: f64,
    },
    /// As recorded: of so many operations these took longer than `over_ns`, each by its excess.
    Recorded {
        /// All operations.
        timed: u64,
        /// The threshold of the recording, nanoseconds.
        over_ns: f64,
        /// The excesses.
        bins: Vec<DurationBin>,
    },
}

impl Duration {
    /// The value for a uniform number 0 <= u < 1, femtoseconds; 0 where nothing happens.
    pub fn at(&self, u: f64) -> u64 {
        let excess_ns = match self {
            Self::Exceedance { probability, over_ns, mean_ns, sigma } => {
                if u >= *probability {
                    return 0;
                }
                let location = mean_ns.ln() - sigma * sigma / 2.0;
                let inside = (u / probability).clamp(f64::EPSILON, 1.0 - f64::EPSILON);
                over_ns + (location + sigma * normal::quantile(inside)).exp()
            }
            Self::Recorded { timed, over_ns, bins } => {
                let mut rank = u * *timed as f64;
                let hit = bins.iter().find(|bin| {
                    let inside = rank < bin.count as f64;
                    rank -= if inside { 0.0 } else { bin.count as f64 };
                    inside
                });
                let Some(bin) = hit else { return 0 };
                // Inside a bin values are taken to be spread evenly over the logarithm, as bins are.
                let part = rank / bin.count as f64;
                let from_ns = bin.from_ns.max(1.0);
                over_ns + from_ns * (bin.to_ns.max(from_ns) / from_ns).powf(part)
            }
        };
        (excess_ns * FS_PER_NS).round() as u64
    }

    /// What is wrong with it; none where it can be drawn from.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Exceedance { probability, over_ns, mean_ns, sigma } => {
                let holds = (0.0..=1.0).contains(probability)
                    && (0.0..=1e9).contains(over_ns)
                    && (1e-3..=1e9).contains(mean_ns)
                    && (0.0..=5.0).contains(sigma);
                (!holds).then_some("probability 0 to 1, over_ns 0 to 1e9, mean_ns 0.001 to 1e9, sigma 0 to 5")
            }
            Self::Recorded { timed, over_ns, bins } => {
                let late: u64 = bins.iter().map(|bin| bin.count).sum();
                let holds = late <= *timed
                    && (0.0..=1e9).contains(over_ns)
                    && bins
                        .iter()
                        .all(|bin| bin.from_ns >= 0.0 && bin.to_ns >= bin.from_ns && bin.to_ns <= 1e12);
                (!holds).then_some("no more values in the bins than timed, bounds that rise, up to 1e12 ns")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean over evenly spread numbers.
    fn mean_ns(duration: &Duration) -> f64 {
        let count = 100_000;
        (0..count)
            .map(|step| duration.at((f64::from(step) + 0.5) / f64::from(count)) as f64 / 1e6)
            .sum::<f64>()
            / f64::from(count)
    }

    #[test]
    fn a_log_normal_excess_has_its_mean() {
        for sigma in [0.0, 0.6, 1.0] {
            let whole = Duration::Exceedance { probability: 1.0, over_ns: 0.0, mean_ns: 100_000.0, sigma };
            assert!((mean_ns(&whole) / 100_000.0 - 1.0).abs() < 0.01, "{sigma}: {}", mean_ns(&whole));
            let half = Duration::Exceedance { probability: 0.5, over_ns: 10_000.0, mean_ns: 50_000.0, sigma };
            assert!((mean_ns(&half) / 30_000.0 - 1.0).abs() < 0.01, "{sigma}: {}", mean_ns(&half));
            assert_eq!((half.at(0.5), half.fault()), (0, None));
        }
    }

    #[test]
    fn recorded_values_come_in_their_proportions() {
        let bins = [(1_000.0, 1_259.0, 30), (10_000.0, 12_590.0, 10)];
        let bins = bins.map(|(from_ns, to_ns, count)| DurationBin { from_ns, to_ns, count });
        let recorded = Duration::Recorded { timed: 100, over_ns: 10_000.0, bins: bins.to_vec() };
        assert_eq!(recorded.fault(), None);
        let draw: Vec<u64> =
            (0..100).map(|step| recorded.at((f64::from(step) + 0.5) / 100.0) / 1_000_000).collect();
        assert_eq!(draw.iter().filter(|ns| **ns == 0).count(), 60);
        assert_eq!(draw.iter().filter(|ns| (11_000..11_260).contains(*ns)).count(), 30);
        assert_eq!(draw.iter().filter(|ns| (20_000..22_600).contains(*ns)).count(), 10);
        let too_many = Duration::Recorded { timed: 3, over_ns: 0.0, bins: bins.to_vec() };
        assert!(too_many.fault().is_some());
    }
}
