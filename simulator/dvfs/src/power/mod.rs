//! Power of cores that change their voltage, and area of what was added to the chip.
//!
//! A model, not a circuit: P = αCV²f + leakage(V), normalised so that a busy core at rest takes 1. What it assumes is
//! printed with what comes out, for other assumptions too.

mod area;

pub use area::{Area, AreaConfig};

use crate::dvfs::{CoreResidency, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerModel {
    /// Part of a busy core's power at rest that switching takes; leakage takes the rest.
    pub dynamic_share: f64,
    /// Switching of a core that idles, its clock gated, over that of a busy one.
    pub idle_activity: f64,
    /// Leakage goes with V to this power.
    pub leakage_exponent: f64,
}

impl Default for PowerModel {
    fn default() -> Self {
        Self::OWN
    }
}

impl PowerModel {
    /// 70 % switching and 30 % leakage, which goes with V; an idle core's clock is gated.
    pub const OWN: Self = Self { dynamic_share: 0.7, idle_activity: 0.3, leakage_exponent: 1.0 };

    /// Power of a core at a point over that of a busy one at rest.
    pub fn core(&self, table: &Table, point: usize, busy: bool) -> f64 {
        let volts = table.points[point].supply_v / table.points[table.rest].supply_v;
        let activity = if busy { 1.0 } else { self.idle_activity };
        let switching = self.dynamic_share * activity * volts * volts * table.factor(point);
        switching + (1.0 - self.dynamic_share) * volts.powf(self.leakage_exponent)
    }

    /// Mean power of the cores over the run, over that of as many busy ones at rest; none of no time.
    pub fn mean(&self, table: &Table, cores: &[CoreResidency]) -> Option<f64> {
        let (mut energy, mut time_fs) = (0.0, 0.0);
        for core in cores {
            for (busy, times) in [(true, &core.active_fs), (false, &core.idle_fs)] {
                for (point, own_fs) in times.iter().enumerate() {
                    energy += self.core(table, point, busy) * *own_fs as f64;
                    time_fs += *own_fs as f64;
                }
            }
        }
        (time_fs > 0.0).then(|| energy / time_fs)
    }

    /// How much more power a run took than another, in parts of it; none where either has no time.
    pub fn overhead(&self, with: Run<'_>, without: Run<'_>) -> Option<f64> {
        Some(self.mean(with.0, with.1)? / self.mean(without.0, without.1)? - 1.0)
    }
}

/// The operating points of a run's cores, and how long each was where.
pub type Run<'a> = (&'a Table, &'a [CoreResidency]);

/// The overhead under one set of assumptions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// What was assumed.
    pub model: PowerModel,
    /// The overhead.
    pub overhead: Option<f64>,
}

/// The assumptions, and each of them changed.
pub const MODELS: [PowerModel; 7] = {
    let own = PowerModel::OWN;
    [
        own,
        PowerModel { dynamic_share: 0.5, ..own },
        PowerModel { dynamic_share: 0.9, ..own },
        PowerModel { idle_activity: 0.1, ..own },
        PowerModel { idle_activity: 0.5, ..own },
        PowerModel { leakage_exponent: 0.0, ..own },
        PowerModel { leakage_exponent: 3.0, ..own },
    ]
};

/// The overhead under the assumptions and with each of them changed.
pub fn sensitivity(with: Run<'_>, without: Run<'_>) -> Vec<Sensitivity> {
    MODELS.into_iter().map(|model| Sensitivity { model, overhead: model.overhead(with, without) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn always(point: usize, busy: bool) -> CoreResidency {
        let mut times = vec![0; 9];
        times[point] = 1_000;
        let none = vec![0; 9];
        let (active_fs, idle_fs) = if busy { (times, none) } else { (none, times) };
        CoreResidency { active_fs, idle_fs, changes: 0 }
    }

    #[test]
    fn a_busy_core_at_rest_takes_one_and_the_highest_point_less_than_72_8_percent_more() {
        let (table, model) = (Table::default(), PowerModel::default());
        assert!((model.core(&table, 4, true) - 1.0).abs() < 1e-12);
        let highest = model.core(&table, 8, true);
        assert!((highest - (0.7 * 1.728 + 0.3 * 1.2)).abs() < 1e-9);
        for one in sensitivity((&table, &[always(8, true)]), (&table, &[always(4, true)])) {
            let overhead = one.overhead.unwrap();
            assert!(overhead > 0.0 && overhead <= 0.728 + 1e-9, "{one:?}");
        }
        assert!((model.core(&table, 4, false) - (0.7 * 0.3 + 0.3)).abs() < 1e-12);
    }

    #[test]
    fn means_are_by_time() {
        let (table, model) = (Table::default(), PowerModel::default());
        let mixed = [always(4, true), always(4, false)];
        assert!((model.mean(&table, &mixed).unwrap() - (1.0 + 0.51) / 2.0).abs() < 1e-12);
        assert_eq!(model.overhead((&table, &mixed), (&table, &mixed)), Some(0.0));
        assert_eq!(model.mean(&table, &[]), None);
    }
}
