//! Stamps of the packets of one cell of a study.

use quaver_store::columns::TableReader;
use quaver_store::error::StoreError;
use quaver_store::table::{self, Column, Layout, Table};
use quaver_study_analysis::{StampTable, path_flags};
use std::path::Path;

/// Stamps of a cell.
pub static TABLE: Table = Table {
    name: "study-stamps",
    file: "cells/bBBBB-pPPP.parquet",
    rows: "A row per packet that the application of a cell received, in order of arrival. Times are of \
           CLOCK_MONOTONIC.",
    columns: &[
        Column::required("key", Layout::U64, "sequence number"),
        Column::optional("sent_ns", Layout::I64, "stamp of the sender before its send call"),
        Column::optional("isr_ns", Layout::I64, "entry of the device's interrupt handler"),
        Column::optional("softirq_ns", Layout::I64, "entry of the softirq"),
        Column::optional("stack_ns", Layout::I64, "where the network stack takes the packet"),
        Column::optional("queued_ns", Layout::I64, "before it enters the socket's queue"),
        Column::optional("application_ns", Layout::I64, "after the receive call returned"),
        Column::required("path", Layout::Few(16), "flags of its code path"),
        Column::names(
            "path_names",
            ["path", "path"],
            path_names,
            "names of the flags, joined by `+`: `batched`, `softirq-thread`, `sink-tick`, `sink-interrupt`, \
             `sink-softirq`, `sink-thread`, `sink-slept`, `stack-disturbed`, `unseen`; null: none is set",
        ),
    ],
    span: Some(["sent_ns", "application_ns"]),
};

fn path_names(path: u32, _: u32) -> Option<String> {
    let names = [
        (path_flags::BATCHED, "batched"),
        (path_flags::SOFTIRQ_THREAD, "softirq-thread"),
        (path_flags::SINK_TICK, "sink-tick"),
        (path_flags::SINK_INTERRUPT, "sink-interrupt"),
        (path_flags::SINK_SOFTIRQ, "sink-softirq"),
        (path_flags::SINK_THREAD, "sink-thread"),
        (path_flags::SINK_SLEPT, "sink-slept"),
        (path_flags::STACK_DISTURBED, "stack-disturbed"),
        (path_flags::UNSEEN, "unseen"),
    ];
    table::flag_names(path, &names.map(|(flag, name)| (flag.into(), name)))
}

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
    let mut table = TABLE.create(path)?.of_run();
    table.rows(rows, |group, range| {
        group.u64(stamps.key[range.clone()].iter().copied())?;
        for column in times {
            group.optional_i64(column[range.clone()].iter().map(|ns| (*ns != 0).then_some(*ns)))?;
        }
        let paths = || stamps.path[range.clone()].iter().map(|flags| u32::from(*flags));
        group.u32(paths())?;
        group.names(paths().map(|path| (path, 0)), path_names)
    })?;
    table.finish()
}

/// Reads them.
///
/// # Errors
/// The file cannot be read, is of a later format, or is no table of stamps.
pub fn read_study_stamps(path: &Path) -> Result<StampTable, StoreError> {
    let table = TableReader::open(path, TABLE.name)?;
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
        let (mut paths, table) = (Vec::new(), TableReader::open(&path, TABLE.name).unwrap());
        let owned = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        table.optional_text("path_names", |_, names| paths.push(names.map(owned))).unwrap();
        assert_eq!(paths, [None, Some("batched+softirq-thread".to_owned()), Some("unseen".to_owned())]);
        let short = StampTable { path: vec![0], ..stamps };
        assert!(write_study_stamps(&path, &short).unwrap_err().to_string().contains("different lengths"));
        quaver_store::gaps::write_gaps(&path, &Default::default()).unwrap();
        let error = read_study_stamps(&path).unwrap_err().to_string();
        assert!(error.contains("not a table of study-stamps"), "{error}");
    }
}
