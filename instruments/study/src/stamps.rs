//! Stamps of one cell of a study: a row a packet that the application received, in order of arrival.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `key` | unsigned 64 | sequence number |
//! | `sent_ns` | signed 64, may be null | the sender's clock right before its send call |
//! | `isr_ns` | signed 64, may be null | entry of the device's interrupt handler |
//! | `softirq_ns` | signed 64, may be null | entry of the softirq |
//! | `stack_ns` | signed 64, may be null | where the stack takes the packet over |
//! | `queued_ns` | signed 64, may be null | right before it enters the socket's queue |
//! | `application_ns` | signed 64, may be null | right after the receive call returned |
//! | `path` | unsigned 16 | what happened on its way ([`quaver_analysis::study::path_flags`]) |
//!
//! Times are CLOCK_MONOTONIC.

use quaver_store::columns::{Column, Layout, TableReader, TableWriter};
use quaver_store::error::StoreError;
use quaver_study_analysis::StampTable;
use std::path::Path;

const TABLE: &str = "study-stamps";
const TIMES: [&str; 6] = ["sent_ns", "isr_ns", "softirq_ns", "stack_ns", "queued_ns", "application_ns"];

/// Writes the stamps of a cell.
///
/// # Errors
/// The file cannot be written, or columns have different lengths.
pub fn write_study_stamps(path: &Path, stamps: &StampTable) -> Result<(), StoreError> {
    let times = [
        &stamps.sent_ns,
        &stamps.isr_ns,
        &stamps.softirq_ns,
        &stamps.stack_ns,
        &stamps.queued_ns,
        &stamps.application_ns,
    ];
    let rows = stamps.len();
    if times.iter().any(|column| column.len() != rows) || stamps.path.len() != rows {
        let reason = "its columns have different lengths".to_owned();
        return Err(StoreError::Shape { path: path.to_owned(), reason });
    }
    let mut columns = vec![Column::required("key", Layout::U64)];
    columns.extend(TIMES.map(|name| Column::optional(name, Layout::I64)));
    columns.push(Column::required("path", Layout::Few(16)));
    let mut table = TableWriter::create(path, TABLE, &columns)?.of_run();
    table.rows(rows, |group, range| {
        group.u64(stamps.key[range.clone()].iter().copied())?;
        for column in times {
            group.optional_i64(column[range.clone()].iter().map(|ns| (*ns != 0).then_some(*ns)))?;
        }
        group.u32(stamps.path[range].iter().map(|flags| u32::from(*flags)))
    })?;
    table.finish()
}

/// Reads them.
///
/// # Errors
/// The file cannot be read, is of a later format, or is no table of stamps.
pub fn read_study_stamps(path: &Path) -> Result<StampTable, StoreError> {
    let table = TableReader::open(path, TABLE)?;
    let mut stamps = StampTable { key: table.reserved(), ..StampTable::default() };
    table.u64("key", |_, key| stamps.key.push(key))?;
    let columns = [
        &mut stamps.sent_ns,
        &mut stamps.isr_ns,
        &mut stamps.softirq_ns,
        &mut stamps.stack_ns,
        &mut stamps.queued_ns,
        &mut stamps.application_ns,
    ];
    for (name, column) in TIMES.iter().zip(columns) {
        *column = table.reserved();
        table.i64(name, |_, ns| column.push(ns))?;
    }
    table.u32("path", |_, flags| stamps.path.push(flags as u16))?;
    Ok(stamps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_come_back_with_what_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("b0000-p000.parquet");
        let at = |number: i64| 3_000_000_000_000 + number * 7_410;
        let stamps = StampTable {
            key: vec![5, 6, 8],
            sent_ns: vec![at(5), at(6), at(8)],
            isr_ns: vec![0; 3],
            softirq_ns: vec![at(5) + 300, 0, at(8) + 310],
            stack_ns: vec![at(5) + 400, at(6) + 500, at(8) + 401],
            queued_ns: vec![0, at(6) + 600, 0],
            application_ns: vec![at(5) + 900, at(6) + 901, at(8) + 20_000],
            path: vec![0, 3, 1 << 15],
        };
        write_study_stamps(&path, &stamps).unwrap();
        assert_eq!(read_study_stamps(&path).unwrap(), stamps);
        let short = StampTable { path: vec![0], ..stamps };
        assert!(write_study_stamps(&path, &short).unwrap_err().to_string().contains("different lengths"));
        quaver_store::gaps::write_gaps(&path, &Default::default()).unwrap();
        let error = read_study_stamps(&path).unwrap_err().to_string();
        assert!(error.contains("not a table of study-stamps"), "{error}");
    }
}
