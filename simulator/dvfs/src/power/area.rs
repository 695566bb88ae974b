//! Area of the units and OS caches, from the paper's synthesis at 90 nm (its 6.4 and E.3).

use serde::{Deserialize, Serialize};

/// What is known and how it is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AreaConfig {
    /// A unit at 90 nm, square micrometres.
    pub unit_90nm_um2: f64,
    /// Its longest path at 90 nm, picoseconds.
    pub unit_90nm_ps: f64,
    /// Generations from 90 nm to 32 nm.
    pub generations: u32,
    /// What is left of an area after a generation.
    pub area_per_generation: f64,
    /// What is left of a delay after a generation.
    pub delay_per_generation: f64,
    /// An OS cache of 64 KiB at 32 nm, square millimetres.
    pub os_cache_mm2: f64,
    /// Cores.
    pub cores: u32,
    /// The die, square millimetres.
    pub die_mm2: f64,
}

impl Default for AreaConfig {
    fn default() -> Self {
        Self {
            unit_90nm_um2: 46_166.0,
            unit_90nm_ps: 850.0,
            generations: 3,
            area_per_generation: 0.57,
            delay_per_generation: 0.9,
            os_cache_mm2: 0.975,
            cores: 16,
            die_mm2: 400.0,
        }
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Area {
    /// A unit, square micrometres.
    pub unit_um2: f64,
    /// Its longest path, picoseconds.
    pub unit_ps: f64,
    /// All units, square millimetres.
    pub units_mm2: f64,
    /// All OS caches, square millimetres.
    pub os_caches_mm2: f64,
    /// Both over the die, percent.
    pub overhead_percent: f64,
}

impl AreaConfig {
    /// Scaled and multiplied.
    pub fn area(&self) -> Area {
        let generations = self.generations as i32;
        let unit_um2 = self.unit_90nm_um2 * self.area_per_generation.powi(generations);
        let cores = f64::from(self.cores);
        let (units_mm2, os_caches_mm2) = (unit_um2 * cores / 1e6, self.os_cache_mm2 * cores);
        Area {
            unit_um2,
            unit_ps: self.unit_90nm_ps * self.delay_per_generation.powi(generations),
            units_mm2,
            os_caches_mm2,
            overhead_percent: (units_mm2 + os_caches_mm2) / self.die_mm2 * 100.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_unit_and_its_slip() {
        let area = AreaConfig::default().area();
        assert_eq!((area.unit_um2.round(), area.unit_ps.round()), (8_550.0, 620.0), "as printed");
        assert!((area.units_mm2 - 0.1368).abs() < 1e-4, "the paper prints 0.136");
        assert!((area.os_caches_mm2 - 15.6).abs() < 1e-9, "the paper prints 3.9, which is four of them");
        assert!((area.overhead_percent - 3.934).abs() < 1e-3, "the paper prints about 1");
    }
}
