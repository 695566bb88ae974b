//! The simulated machine as a configuration: every number, its unit and its bounds.
//!
//! Defaults are those of the paper's table 2 (Sarangi et al., "Architectural Support for Handling Jitter in Shared Memory
//! based Parallel Applications"); what the table does not say is marked as our choice in [`COMMENTED_DEFAULT`].

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The default configuration with a comment for every number, as `quaver sim config` prints it.
pub const COMMENTED_DEFAULT: &str = include_str!("default.toml");

/// A configuration that cannot be simulated.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It is no TOML, or a name or type is wrong.
    #[error("configuration of the machine: {0}")]
    Text(#[from] toml::de::Error),
    /// A number is out of its bounds.
    #[error("configuration of the machine: {name} = {value}: {expected}")]
    Bounds {
        /// The number's name.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would be taken.
        expected: &'static str,
    },
}

/// The whole machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Cores and clocks.
    pub chip: ChipConfig,
    /// The pipeline of each core.
    pub core: CoreConfig,
    /// First-level caches, one for instructions and one for data in each core.
    pub l1: CacheConfig,
    /// Second-level cache of each core, for both.
    pub l2: CacheConfig,
    /// The directory of all second-level caches.
    pub directory: DirectoryConfig,
    /// Main memory.
    pub memory: MemoryConfig,
}

/// Cores and clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChipConfig {
    /// Number of cores, 1 to 32.
    pub cores: usize,
    /// Frequency of a core at rest, in GHz (0.1 to 10).
    pub frequency_ghz: f64,
    /// Highest frequency that a core may be given, in GHz; not below `frequency_ghz`.
    pub peak_frequency_ghz: f64,
    /// From a miss in the own second-level cache to data from another, and for a wake-up from core to core, in cycles
    /// of `frequency_ghz`.
    pub remote_cycles: u64,
    /// How long a thread runs while others wait for its core, in microseconds.
    pub quantum_us: u64,
}

/// The pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreConfig {
    /// Instructions issued in a cycle, 1 to 4.
    pub issue_width: u64,
    /// Cycles lost by a mispredicted branch.
    pub mispredict_cycles: u64,
    /// Stores that may be on their way, 1 to 64.
    pub store_buffer_entries: usize,
    /// Cycles from issue to result, by class of instruction.
    pub latency_cycles: Latencies,
}

/// Cycles from the issue of an instruction to its result; at least 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Integer and logic.
    pub integer: u64,
    /// Integer multiplication.
    pub multiply: u64,
    /// Integer division.
    pub divide: u64,
    /// Floating-point and vector addition.
    pub float: u64,
    /// Floating-point multiplication.
    pub float_multiply: u64,
    /// Floating-point division.
    pub float_divide: u64,
    /// System calls and fences.
    pub serialising: u64,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Size in KiB; with ways and line it must give a power of two of sets.
    pub kib: u64,
    /// Ways of a set, 1 to 32.
    pub ways: usize,
    /// Octets of a line, a power of two.
    pub line_octets: u64,
    /// Cycles from the access to the data where it hits.
    pub hit_cycles: u64,
}

/// The directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryConfig {
    /// Lines that it can hold; with the ways it must give a power of two of sets.
    pub entries: u64,
    /// Ways of a set.
    pub ways: usize,
}

/// Main memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryConfig {
    /// How long it takes after a miss in the own second-level cache: `"300 cycles"` of the chip's `frequency_ghz`,
    /// `"100 ns"`, or `"ddr3"`.
    pub latency: MemoryLatency,
    /// The DRAM that `"ddr3"` means.
    pub ddr3: Ddr3Config,
}

/// See [`MemoryConfig::latency`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MemoryLatency {
    /// Cycles at the chip's frequency at rest.
    Cycles(u64),
    /// Nanoseconds.
    Nanoseconds(u64),
    /// As [`Ddr3Config`] says.
    Ddr3,
}

/// DRAM with closed pages: every access opens a row, moves a line and closes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ddr3Config {
    /// Channels, a power of two.
    pub channels: usize,
    /// Banks of a channel, a power of two.
    pub banks: usize,
    /// On the way to and from the controller, both ways together, in ns.
    pub controller_ns: u64,
    /// From opening a row to its data (tRCD + CL), in ns.
    pub access_ns: u64,
    /// A line on the channel's data lines, in ns.
    pub burst_ns: u64,
    /// From opening a row of a bank to opening its next (tRC), in ns.
    pub row_cycle_ns: u64,
}

impl TryFrom<String> for MemoryLatency {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let whole = text.trim();
        let number = |unit: &str| whole.strip_suffix(unit).and_then(|number| number.trim().parse().ok());
        if whole == "ddr3" {
            return Ok(Self::Ddr3);
        }
        if let Some(cycles) = number("cycles") {
            return Ok(Self::Cycles(cycles));
        }
        number("ns").map(Self::Nanoseconds).ok_or_else(|| {
            format!("{text:?} is no latency of memory; write \"300 cycles\", \"100 ns\" or \"ddr3\"")
        })
    }
}

impl From<MemoryLatency> for String {
    fn from(latency: MemoryLatency) -> Self {
        match latency {
            MemoryLatency::Cycles(cycles) => format!("{cycles} cycles"),
            MemoryLatency::Nanoseconds(ns) => format!("{ns} ns"),
            MemoryLatency::Ddr3 => "ddr3".to_owned(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::from_toml("").expect("the default is a configuration (tested)")
    }
}

impl Config {
    /// The default with the numbers of `text` instead of its own.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let mut whole: toml::Table = COMMENTED_DEFAULT.parse()?;
        overlay(&mut whole, text.parse()?);
        let config: Self = whole.try_into()?;
        config.checked()
    }

    fn checked(self) -> Result<Self, ConfigError> {
        let bounds = |holds: bool, name, value: &dyn std::fmt::Display, expected| {
            let value = value.to_string();
            holds.then_some(()).ok_or(ConfigError::Bounds { name, value, expected })
        };
        let chip = &self.chip;
        bounds((1..=32).contains(&chip.cores), "chip.cores", &chip.cores, "1 to 32")?;
        let ghz = chip.frequency_ghz;
        bounds((0.1..=10.0).contains(&ghz), "chip.frequency_ghz", &ghz, "0.1 to 10")?;
        let peak = chip.peak_frequency_ghz;
        let expected = "not below frequency_ghz, at most 10";
        bounds((ghz..=10.0).contains(&peak), "chip.peak_frequency_ghz", &peak, expected)?;
        bounds((1..=1_000_000).contains(&chip.quantum_us), "chip.quantum_us", &chip.quantum_us, "1 to 10⁶")?;
        let core = &self.core;
        bounds((1..=4).contains(&core.issue_width), "core.issue_width", &core.issue_width, "1 to 4")?;
        let entries = core.store_buffer_entries;
        bounds((1..=64).contains(&entries), "core.store_buffer_entries", &entries, "1 to 64")?;
        let latency = &core.latency_cycles;
        let least = [
            latency.integer,
            latency.multiply,
            latency.divide,
            latency.float,
            latency.float_multiply,
            latency.float_divide,
            latency.serialising,
        ];
        let of = |least: &[u64]| (least.iter().min().copied(), least.iter().max().copied());
        let in_bounds = matches!(of(&least), (Some(1..), Some(..=1000)));
        bounds(in_bounds, "core.latency_cycles", &"one of them", "1 to 1000 cycles each")?;
        self.l1.check("l1", &bounds)?;
        self.l2.check("l2", &bounds)?;
        let lines = (self.l1.line_octets, self.l2.line_octets);
        bounds(lines.0 <= lines.1, "l1.line_octets", &lines.0, "at most l2.line_octets")?;
        bounds(
            self.l1.hit_cycles <= self.l2.hit_cycles,
            "l2.hit_cycles",
            &self.l2.hit_cycles,
            "not below l1's",
        )?;
        let sets = self.directory.entries / self.directory.ways.max(1) as u64;
        let whole = sets.is_power_of_two() && sets * self.directory.ways as u64 == self.directory.entries;
        bounds(whole, "directory.entries", &self.directory.entries, "ways times a power of two")?;
        let ddr3 = &self.memory.ddr3;
        let powers = ddr3.channels.is_power_of_two() && ddr3.banks.is_power_of_two();
        bounds(powers && ddr3.banks <= 64, "memory.ddr3", &ddr3.banks, "channels and banks: powers of two")?;
        Ok(self)
    }
}

impl CacheConfig {
    /// How many sets it has.
    pub fn sets(&self) -> u64 {
        self.kib * 1024 / self.line_octets / self.ways as u64
    }

    fn check(&self, name: &'static str, bounds: Bounds<'_>) -> Result<(), ConfigError> {
        let line = self.line_octets.is_power_of_two() && (16..=4096).contains(&self.line_octets);
        bounds(line, name, &self.line_octets, "line_octets: a power of two from 16 to 4096")?;
        bounds((1..=32).contains(&self.ways), name, &self.ways, "ways: 1 to 32")?;
        bounds((1..=1 << 20).contains(&self.kib), name, &self.kib, "kib: 1 to 1048576")?;
        let whole = self.sets().is_power_of_two()
            && self.sets() * self.ways as u64 * self.line_octets == self.kib * 1024;
        bounds(whole, name, &self.kib, "kib: ways times line_octets times a power of two of sets")?;
        bounds((1..=10_000).contains(&self.hit_cycles), name, &self.hit_cycles, "hit_cycles: 1 to 10000")
    }
}

/// Says that a number of this name and value is out of its bounds unless it holds.
type Bounds<'a> =
    &'a dyn Fn(bool, &'static str, &dyn std::fmt::Display, &'static str) -> Result<(), ConfigError>;

/// Puts what `over` says into `base`, table by table.
fn overlay(base: &mut toml::Table, over: toml::Table) {
    for (name, value) in over {
        match (base.get_mut(&name), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(value)) => overlay(inner, value),
            (_, value) => {
                base.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_machine_of_table_2() {
        let config = Config::default();
        assert_eq!(
            (config.chip.cores, config.chip.frequency_ghz, config.chip.peak_frequency_ghz),
            (16, 3.0, 3.6)
        );
        assert_eq!((config.l1.sets(), config.l1.ways, config.l1.hit_cycles), (512, 2, 2));
        assert_eq!((config.l2.sets(), config.l2.ways, config.l2.hit_cycles), (1024, 4, 12));
        assert_eq!((config.directory.entries, config.chip.remote_cycles), (32_768, 30));
        assert_eq!(config.memory.latency, MemoryLatency::Cycles(300));
        let again = toml::to_string(&config).unwrap();
        assert_eq!(Config::from_toml(&again).unwrap(), config);
    }

    #[test]
    fn one_number_may_be_given_and_the_rest_stays() {
        let config = Config::from_toml("memory.latency = '100ns'\n[l2]\nkib = 512").unwrap();
        assert_eq!(config.memory.latency, MemoryLatency::Nanoseconds(100));
        assert_eq!((config.l2.kib, config.l2.ways), (512, 4));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        for (text, named) in [
            ("chip.cores = 33", "chip.cores = 33: 1 to 32"),
            ("chip.peak_frequency_ghz = 2.0", "chip.peak_frequency_ghz = 2"),
            ("l2.kib = 100", "l2 = 100: kib: ways times line_octets"),
            ("l1.line_octets = 128", "l1.line_octets = 128: at most l2.line_octets"),
            ("directory.entries = 100", "directory.entries = 100: ways times a power of two"),
            ("memory.latency = '300'", "is no latency of memory"),
            ("core.latency_cycles.float = 0", "1 to 1000 cycles each"),
            ("l3.kib = 1", "unknown field `l3`"),
        ] {
            let said = Config::from_toml(text).unwrap_err().to_string();
            assert!(said.contains(named), "{text}: {said}");
        }
    }
}
