//! The instruments of this program. A new one is a line here.

use crate::simulator;
use quaver_instrument::exit_code::StatusJudge;
use quaver_instrument::registry::{Instrument, Verb};
use quaver_instrument::stored::Stored;
use std::sync::LazyLock;

/// All that the program takes and writes.
pub(crate) const INTERFACE: &str = include_str!("../../docs/interface.txt");

/// All instruments, in the order of the help.
static INSTRUMENTS: &[&Instrument] = &[
    &quaver_doctor::INSTRUMENT,
    &quaver_chase::INSTRUMENT,
    &quaver_watch::INSTRUMENT,
    &quaver_noise::INSTRUMENT,
    &quaver_capture::INSTRUMENT,
    &quaver_peers::INSTRUMENT,
    &quaver_path::INSTRUMENT,
    &quaver_tune::INSTRUMENT,
    &quaver_cure::INSTRUMENT,
    &quaver_study::INSTRUMENT,
    &quaver_lab::INSTRUMENT,
    &quaver_sync::INSTRUMENT,
];

/// Their verbs.
pub(crate) fn verbs() -> impl Iterator<Item = &'static Verb> {
    INSTRUMENTS.iter().flat_map(|instrument| instrument.verbs).chain([&simulator::VERB])
}

/// What they store and read.
pub(crate) static STORED: LazyLock<Stored> = LazyLock::new(|| Stored {
    kinds: INSTRUMENTS.iter().flat_map(|instrument| instrument.kinds).copied().collect(),
    files: INSTRUMENTS.iter().flat_map(|instrument| instrument.files).copied().collect(),
    tables: INSTRUMENTS.iter().flat_map(|instrument| instrument.tables).copied().collect(),
    interface: INTERFACE,
});

/// How they judge errors of their own.
pub(crate) fn status_judges() -> Vec<StatusJudge> {
    INSTRUMENTS.iter().map(|instrument| instrument.status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_store::tables::TABLES;
    use std::collections::BTreeSet;

    #[test]
    fn columns_of_names_name_columns_that_their_tables_have() {
        for table in TABLES.iter().chain(&STORED.tables) {
            let has = |name: &str| table.columns.iter().any(|column| column.name == name);
            let named =
                table.columns.iter().filter_map(|column| column.names).flat_map(|names| names.columns);
            let missing: Vec<&str> = named.filter(|name| !has(name)).collect();
            assert!(missing.is_empty(), "{}: {missing:?}", table.name);
            assert!(table.columns.iter().all(|column| !column.meaning.is_empty()), "{}", table.name);
        }
    }

    #[test]
    fn each_verb_and_each_kind_of_run_is_one_instruments() {
        let names: Vec<String> = verbs().map(|verb| (verb.command)().get_name().to_owned()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let kinds = INSTRUMENTS.iter().flat_map(|instrument| instrument.kinds);
        let made: Vec<&str> = kinds.flat_map(|kind| kind.verbs()).copied().collect();
        assert_eq!(made.iter().collect::<BTreeSet<_>>().len(), made.len());
    }
}
