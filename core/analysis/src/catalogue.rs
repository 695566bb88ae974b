//! The catalogue of sources of lateness: what each is, its class, and what removes it.
//!
//! The rows are data (`catalogue.toml`); attribution refers to them by identifier.

use crate::summary::{Remedy, SourceClass};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// One source of lateness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Identifier, as in summaries (`rt-throttle`).
    pub id: String,
    /// What happens, in a few words.
    pub mechanism: String,
    /// Class after the paper's conclusion (Chasing, section V).
    pub class: SourceClass,
    /// What removes it.
    pub remedy: Remedy,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    mechanism: String,
    class: SourceClass,
    setting: Option<String>,
    boot: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: Vec<Row>,
}

struct Catalogue {
    sources: Vec<Source>,
    by_id: BTreeMap<String, usize>,
}

fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let file: File = toml::from_str(include_str!("catalogue.toml"))
            .expect("the built-in catalogue is valid: a test reads it");
        let sources: Vec<Source> = file
            .source
            .into_iter()
            .map(|row| Source {
                id: row.id,
                mechanism: row.mechanism,
                class: row.class,
                remedy: Remedy { setting: row.setting, boot: row.boot, known: None },
            })
            .collect();
        let by_id = sources.iter().enumerate().map(|(index, source)| (source.id.clone(), index)).collect();
        Catalogue { sources, by_id }
    })
}

/// Every source, in the order of the catalogue.
pub fn sources() -> &'static [Source] {
    &catalogue().sources
}

/// The source with this identifier.
pub fn source(id: &str) -> Option<&'static Source> {
    let catalogue = catalogue();
    catalogue.by_id.get(id).map(|&index| &catalogue.sources[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_unique() {
        assert_eq!(catalogue().by_id.len(), sources().len());
    }

    #[test]
    fn rows_can_be_looked_up() {
        let throttle = source("rt-throttle").expect("in the catalogue");
        assert_eq!(throttle.class, SourceClass::NetworkIndependent);
        assert_eq!(throttle.remedy.setting.as_deref(), Some("kernel.sched_rt_runtime_us=-1"));
        assert_eq!(throttle.remedy.boot, None);
        assert_eq!(source("block-recv").map(|s| s.class), Some(SourceClass::NetworkStack));
        assert_eq!(source("itr").map(|s| s.class), Some(SourceClass::Hardware));
        assert!(source("gremlins").is_none());
    }

    #[test]
    fn every_row_says_what_happens() {
        for source in sources() {
            assert!(!source.mechanism.is_empty(), "{}", source.id);
        }
    }
}
