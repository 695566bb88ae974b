//! What is injected, measured and compensated.

use super::budget::{BoostConfig, BoostRule};
use crate::cure_cache::CureCache;
use crate::frames::FrameConfig;
use crate::inject::{InjectionConfig, KernelData};
use quaver_dvfs::dvfs::ControllerConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The heuristic of evicted lines (4.1.5): jitter that a subframe is charged with for what the kernel took from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evictions {
    /// What a line from memory costs, nanoseconds.
    pub memory_ns: f64,
    /// Banks that serve lines at the same time.
    pub banks: u32,
}

impl Default for Evictions {
    /// 300 cycles at 3 GHz, two channels of eight banks.
    fn default() -> Self {
        Self { memory_ns: 100.0, banks: 16 }
    }
}

impl Evictions {
    /// The jitter that so many evicted lines are taken for, femtoseconds.
    pub fn lost_fs(&self, lines: u64) -> u64 {
        (lines as f64 * self.memory_ns * 1e6 / f64::from(self.banks)).round() as u64
    }

    fn fault(&self) -> Option<(&'static str, &'static str)> {
        match () {
            () if !(0.0..=1e6).contains(&self.memory_ns) => Some(("evictions.memory_ns", "0 to 1e6")),
            () if self.banks == 0 => Some(("evictions.banks", "at least 1")),
            () => None,
        }
    }
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CureConfig {
    /// What is injected; none: nothing is.
    #[serde(default)]
    pub injection: Option<InjectionConfig>,
    /// Kernel activity of which only the time is known becomes shorter with the core's clock.
    #[serde(default)]
    pub kernel_scales: bool,
    /// What of the kernel's data belongs to the core or thread for which it is active.
    #[serde(default)]
    pub kernel_data: KernelData,
    /// N of the units, nanoseconds.
    #[serde(default = "threshold_ns")]
    pub threshold_ns: u64,
    /// Late operations are reported with the whole of T. A controller is told T in any case: an ideal run has no N.
    #[serde(default)]
    pub count_all: bool,
    /// Slots of each buffer of a unit.
    #[serde(default = "entries")]
    pub entries: u32,
    /// Subframes.
    #[serde(default)]
    pub frames: FrameConfig,
    /// The controller; none: all cores stay at rest.
    #[serde(default)]
    pub dvfs: Option<ControllerConfig>,
    /// The power budget beyond which no core runs faster, and who has it; none: each core has what its controller wants.
    #[serde(default)]
    pub boost: Option<BoostConfig>,
    /// Whether lines that the kernel takes from the cache count as jitter.
    #[serde(default)]
    pub evictions: Option<Evictions>,
    /// What stands beside or in place of the plain second level.
    #[serde(default)]
    pub cache: CureCache,
    /// So many subframes are kept one by one, for drawings.
    #[serde(default)]
    pub kept_subframes: usize,
}

fn threshold_ns() -> u64 {
    10_000
}

fn entries() -> u32 {
    8
}

impl Default for CureConfig {
    fn default() -> Self {
        Self {
            injection: None,
            kernel_scales: false,
            kernel_data: KernelData::default(),
            threshold_ns: threshold_ns(),
            count_all: false,
            entries: entries(),
            frames: FrameConfig::default(),
            dvfs: None,
            boost: None,
            evictions: None,
            cache: CureCache::default(),
            kept_subframes: 0,
        }
    }
}

impl CureConfig {
    /// What is wrong with it, with the name of the part; none where it can be used.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let injection = self.injection.as_ref().and_then(InjectionConfig::fault);
        let dvfs = self.dvfs.as_ref();
        let table = dvfs.and_then(|dvfs| dvfs.table.fault()).map(|fault| ("dvfs.table", fault));
        let subframe_ns = self.frames.subframe_ns;
        let evictions = || self.evictions.and_then(|evictions| evictions.fault());
        injection.or(table).or_else(|| self.cache.fault()).or_else(evictions).or_else(|| match () {
            () if !(1..=64).contains(&self.entries) => Some(("entries", "1 to 64")),
            () if !(1_000..=1_000_000_000).contains(&subframe_ns) => {
                Some(("frames.subframe_ns", "1000 to 1000000000"))
            }
            () if dvfs.is_some_and(|dvfs| dvfs.reactivity == 0) => Some(("dvfs.reactivity", "at least 1")),
            () if dvfs.is_some_and(|dvfs| dvfs.subframe_ns != subframe_ns) => {
                Some(("dvfs.subframe_ns", "the same as frames.subframe_ns"))
            }
            () if self.boost.is_some_and(|boost| boost.cores == 0) => Some(("boost.cores", "at least 1")),
            () if self.boost.is_some_and(|boost| (boost.rule == BoostRule::Debt) != dvfs.is_some()) => {
                Some(("boost.rule", "debt with a table dvfs, any other without"))
            }
            () if dvfs.is_some_and(|dvfs| self.boost.is_some() && dvfs.table != BoostConfig::table()) => {
                Some(("dvfs.table", "with boost: rest and 1.2 of it, without a PLL or a ramp"))
            }
            () => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_dvfs::dvfs::Table;

    #[test]
    fn the_default_is_usable_and_faults_have_names() {
        assert_eq!(CureConfig::default().fault(), None);
        assert_eq!(toml::from_str::<CureConfig>("").unwrap(), CureConfig::default());
        let named = |config: CureConfig| config.fault().map(|fault| fault.0);
        assert_eq!(named(CureConfig { entries: 65, ..CureConfig::default() }), Some("entries"));
        let with = |dvfs| CureConfig { dvfs: Some(dvfs), ..CureConfig::default() };
        assert_eq!(named(with(ControllerConfig::default())), None);
        assert_eq!(
            named(with(ControllerConfig { reactivity: 0, ..ControllerConfig::default() })),
            Some("dvfs.reactivity")
        );
        let table = Table { rest: 99, ..Table::default() };
        assert_eq!(
            named(with(ControllerConfig { table, ..ControllerConfig::default() })),
            Some("dvfs.table")
        );
    }

    #[test]
    fn evicted_lines_cost_memory_time_over_banks() {
        assert_eq!(Evictions::default().lost_fs(32), 200_000_000, "32 × 100 ns / 16");
    }
}
