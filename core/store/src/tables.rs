//! Which tables runs have, of whatever kind they are.

use crate::table::Table;
use crate::{events, gaps, late, packets};

/// Tables of runs of any kind.
pub static TABLES: [&Table; 4] = [&packets::TABLE, &events::TABLE, &late::TABLE, &gaps::TABLE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_columns_that_the_table_has() {
        for table in TABLES {
            for names in table.columns.iter().filter_map(|column| column.names) {
                for of in names.columns {
                    assert!(
                        table.columns.iter().any(|column| column.name == of),
                        "{}: {of} is missing",
                        table.name
                    );
                }
            }
            assert!(table.columns.iter().all(|column| !column.meaning.is_empty()), "{}", table.name);
        }
    }
}
