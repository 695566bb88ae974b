//! Jitter and its cure as a file.

use super::budget::BoostConfig;
use super::config::{CureConfig, Evictions};
use crate::frames::FrameConfig;
use quaver_dvfs::dvfs::ControllerConfig;
use serde::Serialize;
use thiserror::Error;
use toml::{Table, Value};

/// Everything that there is, each number explained, as `quaver sim config --cure` prints it.
pub const COMMENTED_CURE: &str = include_str!("default.toml");

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub enum CureError {
    /// It is no TOML, or a name or type is wrong.
    #[error("configuration of the cure: {0}")]
    Text(#[from] toml::de::Error),
    /// A number is out of its bounds.
    #[error("configuration of the cure: {name}: {expected}")]
    Bounds {
        /// The number's name, with its tables.
        name: &'static str,
        /// What would be taken.
        expected: &'static str,
    },
}

impl CureConfig {
    /// What `text` says; see [`from_table`](Self::from_table). `library` and `recorded` name files, which whoever reads files
    /// looks at; they are passed over here.
    ///
    /// # Errors
    /// As `from_table`, and when the text is no TOML.
    pub fn from_toml(text: &str) -> Result<Self, CureError> {
        let mut table: Table = text.parse()?;
        table.retain(|name, _| name != "library" && name != "recorded");
        Self::from_table(table)
    }

    /// What a table says. Tables that are not there are off (`injection`, `dvfs`, `evictions`) or the default (`frames`,
    /// `cache`); what a table does not say is the default. The controller's subframe is that of `frames`.
    ///
    /// # Errors
    /// When it names what there is not, or a number is out of its bounds; the message says which, and what would be taken.
    pub fn from_table(mut table: Table) -> Result<Self, CureError> {
        fill(&mut table, "frames", &FrameConfig::default());
        fill(&mut table, "evictions", &Evictions::default());
        let subframe_ns = table.get("frames").and_then(|frames| frames.get("subframe_ns")).cloned();
        if let (Some(subframe_ns), Some(Value::Table(dvfs))) = (subframe_ns, table.get_mut("dvfs")) {
            dvfs.entry("subframe_ns").or_insert(subframe_ns);
        }
        let points = if table.contains_key("boost") { BoostConfig::table() } else { Default::default() };
        fill(&mut table, "dvfs", &ControllerConfig { table: points, ..ControllerConfig::default() });
        if let Some(Value::Table(injection)) = table.get_mut("injection") {
            injection.entry("seed").or_insert(Value::Integer(1));
            if let Some(Value::Table(timer)) = injection.get_mut("timer") {
                timer.entry("period_us").or_insert(Value::Integer(10_000));
                timer.entry("cores").or_insert(Value::Array(vec![Value::Integer(0), Value::Integer(1)]));
            }
        }
        let config: Self = table.try_into()?;
        match config.fault() {
            Some((name, expected)) => Err(CureError::Bounds { name, expected }),
            None => Ok(config),
        }
    }
}

/// Puts what the default says where the table of this name, if it is there, says nothing.
fn fill(whole: &mut Table, name: &str, default: &impl Serialize) {
    let Some(Value::Table(given)) = whole.get_mut(name) else { return };
    if let Ok(default) = Table::try_from(default) {
        below(given, default);
    }
}

fn below(given: &mut Table, default: Table) {
    for (name, value) in default {
        match (given.get_mut(&name), value) {
            (Some(Value::Table(given)), Value::Table(value)) => below(given, value),
            (Some(_), _) => {}
            (None, value) => drop(given.insert(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cure::{CacheKind, CureCache};
    use quaver_dvfs::dvfs::Policy;

    #[test]
    fn the_commented_file_is_the_defaults_with_all_on() {
        let config = CureConfig::from_toml(COMMENTED_CURE).unwrap();
        assert_eq!(config.dvfs, Some(ControllerConfig::default()));
        assert_eq!(config.evictions, Some(Evictions::default()));
        assert_eq!(
            (config.frames, config.cache),
            (FrameConfig::default(), CureCache::of(CacheKind::OsCache))
        );
        let rest = CureConfig { injection: None, dvfs: None, evictions: None, kept_subframes: 0, ..config };
        assert_eq!(CureConfig { cache: CureCache::default(), ..rest }, CureConfig::default());
    }

    #[test]
    fn what_is_not_there_is_off_and_what_a_table_does_not_say_is_the_default() {
        assert_eq!(CureConfig::from_toml("").unwrap(), CureConfig::default());
        let config = CureConfig::from_toml(
            "[dvfs]\npolicy = 'aggressive'\n[frames]\nsubframe_ns = 100000\n[evictions]\n[injection]",
        )
        .unwrap();
        let dvfs = config.dvfs.unwrap();
        assert_eq!((dvfs.policy, dvfs.reactivity, dvfs.subframe_ns), (Policy::Aggressive, 1, 100_000));
        assert_eq!((config.evictions, config.injection.unwrap().seed), (Some(Evictions::default()), 1));
        for (text, cores) in [("[boost]\nrule = 'debt'\n[dvfs]", 4), ("[boost]\nrule = 'sync'\ncores = 2", 2)]
        {
            assert_eq!(CureConfig::from_toml(text).unwrap().boost.unwrap().cores, cores);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        for (text, said) in [
            ("[dvfs]\nk = 1", "k"),
            ("[cache]\nkind = 'os'", "os"),
            ("[cache]\npinned_until = 2.0", "cache.pinned_until: 0 to 1"),
            ("entries = 0", "entries: 1 to 64"),
            ("[evictions]\nbanks = 0", "evictions.banks: at least 1"),
            ("[evictions]\nmemory_ns = nan", "evictions.memory_ns: 0 to 1e6"),
            ("[evictions]\nmemory_ns = -1.0", "evictions.memory_ns: 0 to 1e6"),
            ("[evictions]\nmemory_ns = 1e30", "evictions.memory_ns: 0 to 1e6"),
            ("[boost]\nrule = 'sync'\n[dvfs]", "boost.rule: debt with a table dvfs, any other without"),
            ("[boost]\nrule = 'stack'\ncores = 0", "boost.cores: at least 1"),
            ("[dvfs]\nsubframe_ns = 5", "dvfs.subframe_ns: the same as frames.subframe_ns"),
            ("entries", "configuration of the cure"),
        ] {
            let error = CureConfig::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
