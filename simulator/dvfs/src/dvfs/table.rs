//! Operating points, and what it takes to go from one to another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Femtoseconds in a microsecond.
const FS_PER_US: f64 = 1e9;

/// A frequency and the voltage that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatingPoint {
    /// Frequency in GHz.
    pub frequency_ghz: f64,
    /// Supply voltage in V.
    pub supply_v: f64,
}

/// How long a core was at each operating point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoreResidency {
    /// With a thread, by point, femtoseconds.
    pub active_fs: Vec<u64>,
    /// Without one, by point, femtoseconds.
    pub idle_fs: Vec<u64>,
    /// Changes of the frequency.
    pub changes: u64,
}

/// All operating points of a core, lowest first, and what a change costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Lowest first.
    pub points: Vec<OperatingPoint>,
    /// Which of them is a core at rest.
    pub rest: usize,
    /// For so long the core stands still while its PLL locks to another frequency, microseconds.
    pub pll_lock_us: f64,
    /// The voltage ramps through the whole table in this time, microseconds; the core runs meanwhile.
    pub ramp_us: f64,
}

/// How a wanted factor becomes a point of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The nearest point.
    #[default]
    Nominal,
    /// The lowest point that is not below what is wanted, where more than rest is wanted; else the nearest.
    Aggressive,
}

/// Going from one point to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Before the frequency can rise, femtoseconds: the voltage goes first. The core runs on.
    pub ramp_before_fs: u64,
    /// The core stands still, femtoseconds.
    pub stall_fs: u64,
    /// After the frequency has fallen, femtoseconds: the voltage follows. The core runs on.
    pub ramp_after_fs: u64,
}

impl Default for Table {
    /// Table 3 of the paper: 0.8 to 1.2 of 3 GHz in steps of 0.05, volts as the factor. PLL and ramp from its 5.1.1.
    fn default() -> Self {
        let point = |step: u32| {
            let supply_v = f64::from(80 + 5 * step) / 100.0;
            OperatingPoint { frequency_ghz: f64::from(240 + 15 * step) / 100.0, supply_v }
        };
        Self { points: (0..9).map(point).collect(), rest: 4, pll_lock_us: 10.0, ramp_us: 20.0 }
    }
}

impl Table {
    /// Frequency of a point over that at rest.
    pub fn factor(&self, point: usize) -> f64 {
        self.points[point].frequency_ghz / self.points[self.rest].frequency_ghz
    }

    /// The highest point's number.
    pub fn highest(&self) -> usize {
        self.points.len() - 1
    }

    /// The point for a factor that is wanted. Beyond the table it is its end; halfway between two it is the lower one.
    pub fn choose(&self, wanted: f64, policy: Policy) -> usize {
        if wanted.is_nan() {
            return self.rest;
        }
        let wanted = wanted.clamp(self.factor(0), self.factor(self.highest()));
        let nearest = (0..self.points.len())
            .min_by(|&one, &other| {
                let far = |point: usize| (self.factor(point) - wanted).abs();
                far(one).total_cmp(&far(other))
            })
            .unwrap_or(self.rest);
        if policy == Policy::Aggressive && wanted > 1.0 {
            return (nearest..self.points.len())
                .find(|&point| self.factor(point) >= wanted)
                .unwrap_or(self.highest());
        }
        nearest
    }

    /// What it takes to go from one point to another; nothing where they are the same.
    pub fn change(&self, from: usize, to: usize) -> Change {
        if from == to {
            return Change::default();
        }
        let volts = |point: usize| self.points[point].supply_v;
        let whole_v = volts(self.highest()) - volts(0);
        let share = if whole_v > 0.0 { (volts(to) - volts(from)).abs() / whole_v } else { 0.0 };
        let ramp_fs = (self.ramp_us * share * FS_PER_US).round() as u64;
        let rises = to > from;
        Change {
            ramp_before_fs: if rises { ramp_fs } else { 0 },
            stall_fs: (self.pll_lock_us * FS_PER_US).round() as u64,
            ramp_after_fs: if rises { 0 } else { ramp_fs },
        }
    }

    /// What is wrong with a table that somebody wrote; none where it can be used.
    pub fn fault(&self) -> Option<&'static str> {
        let rises = self
            .points
            .windows(2)
            .all(|two| two[0].frequency_ghz < two[1].frequency_ghz && two[0].supply_v <= two[1].supply_v);
        let positive = self.points.iter().all(|point| point.frequency_ghz > 0.0 && point.supply_v > 0.0);
        let times = [self.pll_lock_us, self.ramp_us];
        match () {
            () if self.points.is_empty() => Some("there is no point"),
            () if self.rest >= self.points.len() => Some("rest is no point of it"),
            () if !positive || !rises => Some("frequencies must rise and voltages not fall, all above 0"),
            () if times.iter().any(|time| !(0.0..=1e6).contains(time)) => {
                Some("pll_lock_us and ramp_us: 0 to a million")
            }
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_table_3() {
        let table = Table::default();
        let rows: Vec<(f64, f64)> =
            table.points.iter().map(|point| (point.frequency_ghz, point.supply_v)).collect();
        let paper = [
            (2.4, 0.8),
            (2.55, 0.85),
            (2.7, 0.9),
            (2.85, 0.95),
            (3.0, 1.0),
            (3.15, 1.05),
            (3.3, 1.1),
            (3.45, 1.15),
            (3.6, 1.2),
        ];
        assert_eq!(rows, paper);
        for (point, row) in paper.iter().enumerate() {
            assert!((table.factor(point) - row.1).abs() < 1e-12, "volts are the factor");
        }
        assert_eq!((table.fault(), table.factor(table.rest)), (None, 1.0));
    }

    #[test]
    fn the_nearest_point_is_taken_and_the_ends_hold() {
        let table = Table::default();
        let nominal = |wanted| table.choose(wanted, Policy::Nominal);
        assert_eq!([nominal(1.0), nominal(1.024), nominal(1.026), nominal(0.974)], [4, 4, 5, 3]);
        assert_eq!([nominal(9.0), nominal(-1.0), nominal(f64::INFINITY), nominal(f64::NAN)], [8, 0, 8, 4]);
        let aggressive = |wanted| table.choose(wanted, Policy::Aggressive);
        assert_eq!([aggressive(1.001), aggressive(1.05), aggressive(1.051), aggressive(5.0)], [5, 5, 6, 8]);
        assert_eq!([aggressive(1.0), aggressive(0.99), aggressive(0.96)], [4, 4, 3]);
    }

    #[test]
    fn only_a_change_costs_and_the_ramp_is_hidden() {
        let table = Table::default();
        assert_eq!(table.change(4, 4), Change::default());
        let up = table.change(0, 8);
        assert_eq!((up.ramp_before_fs, up.stall_fs, up.ramp_after_fs), (20_000_000_000, 10_000_000_000, 0));
        let down = table.change(4, 3);
        assert_eq!((down.ramp_before_fs, down.stall_fs), (0, 10_000_000_000));
        assert_eq!(down.ramp_after_fs, 2_500_000_000, "an eighth of the table");
    }

    #[test]
    fn a_table_that_cannot_be_is_named() {
        let mut table = Table { rest: 9, ..Table::default() };
        assert_eq!(table.fault(), Some("rest is no point of it"));
        table = Table { points: vec![], ..Table::default() };
        assert_eq!(table.fault(), Some("there is no point"));
        table = Table::default();
        table.points.swap(1, 2);
        assert!(table.fault().is_some());
        table = Table { ramp_us: f64::NAN, ..Table::default() };
        assert!(table.fault().is_some());
    }
}
