//! The simulated machine as a configuration: every number, its unit and its bounds.
//!
//! Sizes are those of the paper's table 2 (Sarangi et al., "Architectural Support for Handling Jitter in Shared Memory
//! based Parallel Applications"); what the table does not say is marked as our choice in [`COMMENTED_DEFAULT`]. The table's
//! fixed times between caches and to memory are the machine [`PAPER`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The default configuration with a comment for every number, as `quaver sim config` prints it.
pub const COMMENTED_DEFAULT: &str = include_str!("default.toml");

/// The machine of the paper's table 2 over the default: nothing waits for links or for DRAM.
pub const PAPER: &str = "network.kind = 'fixed'\nmemory.latency = '300 cycles'";

/// No core has more loads on their way than this.
pub const MOST_MISSES: usize = 32;

/// A configuration that cannot be simulated.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It is no TOML, or a name or type is wrong.
    #[error("configuration of the machine: {0}")]
    Text(#[from] toml::de::Error),
    /// A number is out of its bounds.
    #[error("configuration of the machine: {name} = {value}: {expected}")]
    Bounds {
        /// The number's name, with its tables.
        name: String,
        /// What was given.
        value: String,
        /// What would be taken.
        expected: &'static str,
    },
}

/// The whole machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// What a core's second level brings before it is asked for; runs of earlier versions had none.
    #[serde(default)]
    pub prefetch: PrefetchConfig,
    /// The directory of all second-level caches.
    pub directory: DirectoryConfig,
    /// What lies between the caches, the directory and memory; runs of earlier versions had none.
    #[serde(default = "NetworkConfig::fixed")]
    pub network: NetworkConfig,
    /// Main memory.
    pub memory: MemoryConfig,
}

/// Cores and clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChipConfig {
    /// Number of cores, 1 to 32.
    pub cores: usize,
    /// Frequency of a core at rest, in GHz (0.1 to 10).
    pub frequency_ghz: f64,
    /// Highest frequency that a core may be given, in GHz; not below `frequency_ghz`.
    pub peak_frequency_ghz: f64,
    /// For a wake-up from core to core, in cycles of `frequency_ghz`. In a fixed network also from a miss in the own
    /// second-level cache to data from another.
    pub remote_cycles: u64,
    /// How long a thread runs while others wait for its core, in microseconds.
    pub quantum_us: u64,
}

/// The pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreConfig {
    /// `"in-order"` or `"out-of-order"`.
    #[serde(default)]
    pub pipeline: Pipeline,
    /// Instructions issued (in order) or dispatched (out of order) in a cycle, 1 to 8.
    pub issue_width: u64,
    /// Entries of the reorder buffer of an out-of-order core, 1 to 1024.
    #[serde(default = "CoreConfig::usual_rob")]
    pub rob_entries: usize,
    /// Loads of an out-of-order core that may be on their way beyond its second level, 1 to 32.
    #[serde(default = "CoreConfig::usual_misses")]
    pub load_misses: usize,
    /// Cycles lost by a mispredicted branch; in an out-of-order core those after it has executed.
    pub mispredict_cycles: u64,
    /// Stores that may be on their way, 1 to 16.
    pub store_buffer_entries: usize,
    /// Cycles from issue to result, by class of instruction.
    pub latency_cycles: Latencies,
}

/// See [`CoreConfig::pipeline`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pipeline {
    /// An instruction issues once its operands are there, in order; a load that misses stalls the core.
    #[default]
    InOrder,
    /// The interval model: it dispatches until its reorder buffer is full.
    OutOfOrder,
}

/// Cycles from the issue of an instruction to its result; at least 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Size in KiB; with ways and line it must give a power of two of sets.
    pub kib: u64,
    /// Ways of a set, 1 to 32.
    pub ways: usize,
    /// Bytes of a line, a power of two.
    pub line_octets: u64,
    /// Cycles from the access to the data where it hits.
    pub hit_cycles: u64,
}

/// The prefetcher of each second level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefetchConfig {
    /// `"none"`, `"next-line"` or `"stride"`.
    pub kind: PrefetchKind,
    /// Lines ahead, 1 to 8.
    pub lines: u64,
}

/// See [`PrefetchConfig::kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetchKind {
    /// Nothing.
    #[default]
    None,
    /// The lines behind the one that was needed.
    NextLine,
    /// Lines as far apart as the last three that the same instruction needed.
    Stride,
}

/// The directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectoryConfig {
    /// Lines that it can hold; with the ways it must give a power of two of sets.
    pub entries: u64,
    /// Ways of a set.
    pub ways: usize,
}

/// The network of the chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// `"mesh"`, or `"fixed"`: `chip.remote_cycles` from cache to cache, and nothing on the way to memory.
    pub kind: NetworkKind,
    /// Cycles from router to router, 1 to 100.
    pub hop_cycles: u64,
    /// Bytes that a link moves in a cycle, 1 to 256.
    pub link_octets: u64,
    /// Cycles of a look-up in a slice of the directory, 0 to 1000.
    pub directory_cycles: u64,
}

/// See [`NetworkConfig::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    /// Links between neighbours, with queues.
    Mesh,
    /// The same time for each line, as table 2 has it.
    Fixed,
}

/// Main memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryConfig {
    /// How long it takes after a miss in the own second-level cache: `"300 cycles"` of the chip's `frequency_ghz`,
    /// `"100 ns"`, or `"ddr3"`.
    pub latency: MemoryLatency,
    /// The DRAM that `"ddr3"` means.
    pub ddr3: Ddr3Config,
}

/// See [`MemoryConfig::latency`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The machine of the paper's table 2.
    pub fn paper() -> Self {
        Self::from_toml("machine = 'paper'").expect("it is a configuration (tested)")
    }

    /// The default with the numbers of `text` instead of its own. `memory = "100 ns"` is short for `memory.latency`, and
    /// `machine = "paper"` sets what [`PAPER`] does before the rest of the text.
    ///
    /// # Errors
    /// When the text is no TOML, names what there is not, or a number is out of its bounds; the message says which, and what
    /// would be taken.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let mut whole: toml::Table = COMMENTED_DEFAULT.parse()?;
        let mut over: toml::Table = text.parse()?;
        if let Some(latency @ toml::Value::String(_)) = over.get("memory").cloned() {
            over.insert("memory".into(), toml::Table::from_iter([("latency".into(), latency)]).into());
        }
        if let Some(machine) = over.remove("machine") {
            let name = machine.as_str().unwrap_or_default();
            bounds(["default", "paper"].contains(&name), "machine", &machine, "\"default\" or \"paper\"")?;
            if name == "paper" {
                overlay(&mut whole, PAPER.parse()?);
            }
        }
        overlay(&mut whole, over);
        let config: Self = whole.try_into()?;
        config.checked()
    }

    fn checked(self) -> Result<Self, ConfigError> {
        self.chip.check()?;
        self.core.check()?;
        self.l1.check("l1")?;
        self.l2.check("l2")?;
        let (first, second) = (self.l1.line_octets, self.l2.line_octets);
        bounds(first <= second, "l1.line_octets", first, "at most l2.line_octets")?;
        let (first, second) = (self.l1.hit_cycles, self.l2.hit_cycles);
        bounds(first <= second, "l2.hit_cycles", second, "not below l1.hit_cycles")?;
        let lines = self.prefetch.lines;
        bounds((1..=8).contains(&lines), "prefetch.lines", lines, "1 to 8")?;
        self.directory.check()?;
        self.network.check()?;
        self.memory.check()?;
        Ok(self)
    }
}

/// Says that a number of this name and value is out of its bounds unless it holds.
fn bounds(
    holds: bool,
    name: impl Into<String>,
    value: impl std::fmt::Display,
    expected: &'static str,
) -> Result<(), ConfigError> {
    let wrong = || ConfigError::Bounds { name: name.into(), value: value.to_string(), expected };
    if holds { Ok(()) } else { Err(wrong()) }
}

impl ChipConfig {
    fn check(&self) -> Result<(), ConfigError> {
        bounds((1..=32).contains(&self.cores), "chip.cores", self.cores, "1 to 32")?;
        let ghz = self.frequency_ghz;
        bounds((0.1..=10.0).contains(&ghz), "chip.frequency_ghz", ghz, "0.1 to 10")?;
        let peak = self.peak_frequency_ghz;
        let expected = "not below chip.frequency_ghz, at most 10";
        bounds((ghz..=10.0).contains(&peak), "chip.peak_frequency_ghz", peak, expected)?;
        bounds(
            (0..=10_000).contains(&self.remote_cycles),
            "chip.remote_cycles",
            self.remote_cycles,
            "0 to 10000",
        )?;
        bounds((1..=1_000_000).contains(&self.quantum_us), "chip.quantum_us", self.quantum_us, "1 to 1000000")
    }
}

impl CoreConfig {
    fn usual_rob() -> usize {
        Config::default().core.rob_entries
    }

    fn usual_misses() -> usize {
        Config::default().core.load_misses
    }

    fn check(&self) -> Result<(), ConfigError> {
        bounds((1..=8).contains(&self.issue_width), "core.issue_width", self.issue_width, "1 to 8")?;
        let entries = self.rob_entries;
        bounds((1..=1024).contains(&entries), "core.rob_entries", entries, "1 to 1024")?;
        let misses = self.load_misses;
        bounds((1..=MOST_MISSES).contains(&misses), "core.load_misses", misses, "1 to 32")?;
        let entries = self.store_buffer_entries;
        bounds((1..=16).contains(&entries), "core.store_buffer_entries", entries, "1 to 16")?;
        let lost = self.mispredict_cycles;
        bounds((0..=1000).contains(&lost), "core.mispredict_cycles", lost, "0 to 1000")?;
        let latency = &self.latency_cycles;
        for (name, cycles) in [
            ("integer", latency.integer),
            ("multiply", latency.multiply),
            ("divide", latency.divide),
            ("float", latency.float),
            ("float_multiply", latency.float_multiply),
            ("float_divide", latency.float_divide),
            ("serialising", latency.serialising),
        ] {
            let name = format!("core.latency_cycles.{name}");
            bounds((1..=1000).contains(&cycles), name, cycles, "1 to 1000")?;
        }
        Ok(())
    }
}

impl CacheConfig {
    /// How many sets it has.
    pub fn sets(&self) -> u64 {
        self.kib * 1024 / self.line_octets / self.ways as u64
    }

    fn check(&self, table: &str) -> Result<(), ConfigError> {
        let name = |name: &str| format!("{table}.{name}");
        let line = self.line_octets.is_power_of_two() && (16..=4096).contains(&self.line_octets);
        bounds(line, name("line_octets"), self.line_octets, "a power of two from 16 to 4096")?;
        bounds((1..=32).contains(&self.ways), name("ways"), self.ways, "1 to 32")?;
        bounds((1..=1 << 16).contains(&self.kib), name("kib"), self.kib, "1 to 65536")?;
        let whole = self.sets().is_power_of_two()
            && self.sets() * self.ways as u64 * self.line_octets == self.kib * 1024;
        bounds(whole, name("kib"), self.kib, "ways times line_octets times a power of two of sets")?;
        bounds((1..=10_000).contains(&self.hit_cycles), name("hit_cycles"), self.hit_cycles, "1 to 10000")
    }
}

impl DirectoryConfig {
    fn check(&self) -> Result<(), ConfigError> {
        bounds((1..=64).contains(&self.ways), "directory.ways", self.ways, "1 to 64")?;
        let sets = self.entries / self.ways as u64;
        let whole = sets.is_power_of_two() && sets * self.ways as u64 == self.entries;
        let expected = "directory.ways times a power of two, at most 16777216";
        bounds(whole && self.entries <= 1 << 24, "directory.entries", self.entries, expected)
    }
}

impl NetworkConfig {
    fn fixed() -> Self {
        Self { kind: NetworkKind::Fixed, ..Config::default().network }
    }

    fn check(&self) -> Result<(), ConfigError> {
        bounds((1..=100).contains(&self.hop_cycles), "network.hop_cycles", self.hop_cycles, "1 to 100")?;
        bounds((1..=256).contains(&self.link_octets), "network.link_octets", self.link_octets, "1 to 256")?;
        let cycles = self.directory_cycles;
        bounds(cycles <= 1000, "network.directory_cycles", cycles, "0 to 1000")
    }
}

impl MemoryConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let latency = match self.latency {
            MemoryLatency::Cycles(number) | MemoryLatency::Nanoseconds(number) => number,
            MemoryLatency::Ddr3 => 1,
        };
        let text = String::from(self.latency);
        bounds((1..=1_000_000).contains(&latency), "memory.latency", text, "1 to 1000000 of its unit")?;
        let Ddr3Config { channels, banks, controller_ns, access_ns, burst_ns, row_cycle_ns } = self.ddr3;
        for (name, count) in [("channels", channels), ("banks", banks)] {
            let power = count.is_power_of_two() && count <= 64;
            bounds(power, format!("memory.ddr3.{name}"), count, "a power of two up to 64")?;
        }
        for (name, ns) in [
            ("controller_ns", controller_ns),
            ("access_ns", access_ns),
            ("burst_ns", burst_ns),
            ("row_cycle_ns", row_cycle_ns),
        ] {
            bounds(ns <= 1_000_000, format!("memory.ddr3.{name}"), ns, "0 to 1000000")?;
        }
        Ok(())
    }
}

/// Puts what `over` says into `base`, table by table.
pub fn overlay(base: &mut toml::Table, over: toml::Table) {
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
    fn the_machine_of_table_2_is_the_default_with_fixed_times() {
        let config = Config::paper();
        assert_eq!(
            (config.chip.cores, config.chip.frequency_ghz, config.chip.peak_frequency_ghz),
            (16, 3.0, 3.6)
        );
        assert_eq!((config.l1.sets(), config.l1.ways, config.l1.hit_cycles), (512, 2, 2));
        assert_eq!((config.l2.sets(), config.l2.ways, config.l2.hit_cycles), (1024, 4, 12));
        assert_eq!((config.directory.entries, config.chip.remote_cycles), (32_768, 30));
        assert_eq!(config.memory.latency, MemoryLatency::Cycles(300));
        assert_eq!(config.network.kind, NetworkKind::Fixed);
        let (network, memory) = (config.network.clone(), config.memory.clone());
        let whole = Config::default();
        let moved = NetworkConfig { kind: NetworkKind::Mesh, ..network };
        let queued = MemoryConfig { latency: MemoryLatency::Ddr3, ..memory };
        assert_eq!(
            Config { network: moved, memory: queued, ..config.clone() },
            whole,
            "nothing else differs"
        );
        let own = Config::from_toml("machine = 'paper'\nmemory = '100 ns'").unwrap();
        assert_eq!(own.memory.latency, MemoryLatency::Nanoseconds(100), "the rest of the text goes over it");
        assert_eq!(Config::from_toml("machine = 'default'").unwrap(), whole);
        let again = toml::to_string(&config).unwrap();
        assert_eq!(Config::from_toml(&again).unwrap(), config);
    }

    #[test]
    fn one_number_may_be_given_and_the_rest_stays() {
        let config = Config::from_toml("memory.latency = '100ns'\n[l2]\nkib = 512").unwrap();
        assert_eq!(config.memory.latency, MemoryLatency::Nanoseconds(100));
        assert_eq!((config.l2.kib, config.l2.ways), (512, 4));
        assert_eq!(Config::from_toml("memory = '100 ns'").unwrap().memory, config.memory);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        for (text, named) in [
            ("chip.cores = 33", "chip.cores = 33: 1 to 32"),
            ("chip.peak_frequency_ghz = 2.0", "chip.peak_frequency_ghz = 2"),
            ("l2.kib = 100", "l2.kib = 100: ways times line_octets"),
            ("l1.ways = 0", "l1.ways = 0: 1 to 32"),
            ("l1.line_octets = 128", "l1.line_octets = 128: at most l2.line_octets"),
            ("directory.entries = 100", "directory.entries = 100: directory.ways times a power of two"),
            ("memory.latency = '300'", "is no latency of memory"),
            ("memory = '0ns'", "memory.latency = 0 ns: 1 to 1000000"),
            ("memory.ddr3.banks = 3", "memory.ddr3.banks = 3: a power of two"),
            ("core.latency_cycles.float = 0", "core.latency_cycles.float = 0: 1 to 1000"),
            ("l3.kib = 1", "unknown field `l3`"),
            ("machine = 'table 2'", "machine = \"table 2\": \"default\" or \"paper\""),
            ("network.kind = 'ring'", "unknown variant `ring`"),
            ("prefetch.lines = 9", "prefetch.lines = 9: 1 to 8"),
            ("core.rob_entries = 0", "core.rob_entries = 0: 1 to 1024"),
            ("core.load_misses = 33", "core.load_misses = 33: 1 to 32"),
            ("network.hop_cycles = 0", "network.hop_cycles = 0: 1 to 100"),
            ("network.link_octets = 512", "network.link_octets = 512: 1 to 256"),
        ] {
            let said = Config::from_toml(text).unwrap_err().to_string();
            assert!(said.contains(named), "{text}: {said}");
        }
    }
}
