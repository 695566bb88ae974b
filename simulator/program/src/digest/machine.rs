//! The simulated machine in words: where it differs from the default, and what it is in a line.

use quaver_sim::config::{CacheConfig, Config, MemoryLatency, NetworkKind, Pipeline};
use quaver_view::Cell;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of the machine that is not the default's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Its name, with those of its tables (`l2.kib`).
    pub key: String,
    /// What it is.
    pub value: String,
    /// What it is by default.
    pub default: String,
}

/// Where a machine differs from the default, by name.
pub fn differences(config: &Config) -> Vec<Difference> {
    let table = |config: &Config| toml::Table::try_from(config).unwrap_or_default();
    let mut found = Vec::new();
    compare("", &table(config), &table(&Config::default()), &mut found);
    found
}

fn compare(prefix: &str, table: &toml::Table, default: &toml::Table, found: &mut Vec<Difference>) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match (value, default.get(name)) {
            (value, Some(default)) if value == default => {}
            (toml::Value::Table(inner), Some(toml::Value::Table(default))) => {
                compare(&format!("{key}."), inner, default, found);
            }
            (value, default) => found.push(Difference {
                key,
                value: value.to_string(),
                default: default.map_or_else(|| "none".to_owned(), ToString::to_string),
            }),
        }
    }
}

/// The machine in a line.
pub fn words(config: &Config) -> String {
    let chip = &config.chip;
    let cores = if chip.cores == 1 { "1 core".to_owned() } else { format!("{} cores", chip.cores) };
    let memory = match config.memory.latency {
        MemoryLatency::Cycles(cycles) => format!("{cycles} cycles"),
        MemoryLatency::Nanoseconds(ns) => format!("{ns} ns"),
        MemoryLatency::Ddr3 => "DDR3".to_owned(),
    };
    let pipeline = match config.core.pipeline {
        Pipeline::InOrder => "in order".to_owned(),
        Pipeline::OutOfOrder => format!("out of order over {} entries", config.core.rob_entries),
    };
    let network = match config.network.kind {
        NetworkKind::Mesh => "mesh · ",
        NetworkKind::Fixed => "",
    };
    format!(
        "{cores}, {}-issue {pipeline}, {} GHz · L1 {} · L2 {} · directory {} entries · {network}memory {memory}",
        config.core.issue_width,
        chip.frequency_ghz,
        cache(&config.l1),
        cache(&config.l2),
        Cell::Count(config.directory.entries),
    )
}

fn cache(config: &CacheConfig) -> String {
    format!("{} KiB {}-way {} cycles", config.kib, config.ways, config.hit_cycles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_machine_and_the_papers_in_a_line() {
        let same = "16 cores, 2-issue in order, 3 GHz · L1 32 KiB 2-way 2 cycles · L2 256 KiB 4-way 12 cycles · \
                    directory 32,768 entries";
        assert_eq!(words(&Config::default()), format!("{same} · mesh · memory DDR3"));
        assert_eq!(differences(&Config::default()), []);
        assert_eq!(words(&Config::paper()), format!("{same} · memory 300 cycles"));
        let ahead = Config::from_toml("core.pipeline = 'out-of-order'\ncore.issue_width = 4").unwrap();
        let said = words(&ahead);
        assert!(said.starts_with("16 cores, 4-issue out of order over 128 entries, 3 GHz"), "{said}");
        let keys: Vec<String> =
            differences(&Config::paper()).into_iter().map(|difference| difference.key).collect();
        assert_eq!(keys, ["memory.latency", "network.kind"]);
    }
}
