//! `gaps.parquet`: gaps of the noise loop, or stamps of the dummy program.

use crate::columns::TableReader;
use crate::error::StoreError;
use crate::run::RunDir;
use crate::segments::{open_if_any, read_if_any};
use crate::table::{Column, Layout, Table};
use crate::timeline::Timeline;
use quaver_abi::record::{AnchorRecord, GapRecord};
use quaver_analysis::model::GapTable;
use std::path::Path;

/// Gaps of the noise loop.
pub static TABLE: Table = Table {
    name: "gaps",
    file: "gaps.parquet",
    rows: "A row per gap of the noise loop, or per stamp of the dummy program, by CPU and time.",
    columns: &[
        Column::required("index", Layout::U64, "turn of the loop"),
        Column::required(
            "before_ns",
            Layout::I64,
            "last stamp before the gap, or the deadline, CLOCK_MONOTONIC",
        ),
        Column::required("after_ns", Layout::I64, "first stamp after the gap, CLOCK_MONOTONIC"),
        Column::required("cpu", Layout::Few(16), "CPU of the loop"),
    ],
    span: Some(["before_ns", "after_ns"]),
};

/// The gaps of all raw segments, by CPU, in the order of recording.
///
/// # Errors
/// A segment cannot be read, or no anchors turn cycles into time.
pub fn read_raw_gaps(run: &RunDir) -> Result<GapTable, StoreError> {
    let mut timeline = Timeline::new(&read_if_any::<AnchorRecord>(&run.anchors_segment())?);
    let mut gaps = GapTable::default();
    for (_, path) in run.gaps_segments()? {
        for record in open_if_any::<GapRecord>(&path)?.into_iter().flatten() {
            let record = record?;
            let line =
                timeline.as_mut().ok_or_else(|| StoreError::NoAnchors { path: run.path().to_owned() })?;
            gaps.index.push(record.index);
            gaps.before_ns.push(line.monotonic_ns(record.before_cycles));
            gaps.after_ns.push(line.monotonic_ns(record.after_cycles));
            gaps.cpu.push(record.cpu);
        }
    }
    Ok(gaps)
}

/// Writes `gaps.parquet`.
///
/// # Errors
/// The file cannot be written, or the table's columns differ in length.
pub fn write_gaps(path: &Path, gaps: &GapTable) -> Result<(), StoreError> {
    let equal = [gaps.index.len(), gaps.after_ns.len(), gaps.cpu.len()].iter().all(|l| *l == gaps.len());
    if !equal {
        let reason = "the columns to be written differ in length".to_owned();
        return Err(StoreError::Shape { path: path.to_owned(), reason });
    }
    let mut table = TABLE.create(path)?.of_run();
    table.rows(gaps.len(), |group, range| {
        group.u64(gaps.index[range.clone()].iter().copied())?;
        group.i64(gaps.before_ns[range.clone()].iter().copied())?;
        group.i64(gaps.after_ns[range.clone()].iter().copied())?;
        group.u32(gaps.cpu[range].iter().map(|cpu| u32::from(*cpu)))
    })?;
    table.finish()
}

/// Reads `gaps.parquet`.
///
/// # Errors
/// The file cannot be read, is of a later format, or is no table of gaps.
pub fn read_gaps(path: &Path) -> Result<GapTable, StoreError> {
    let table = TableReader::open(path, TABLE.name)?;
    let mut gaps = GapTable {
        index: table.reserved(),
        before_ns: table.reserved(),
        after_ns: table.reserved(),
        cpu: table.reserved(),
    };
    table.u64("index", |_, index| gaps.index.push(index))?;
    table.i64("before_ns", |_, ns| gaps.before_ns.push(ns))?;
    table.i64("after_ns", |_, ns| gaps.after_ns.push(ns))?;
    table.u32("cpu", |_, cpu| gaps.cpu.push(cpu as u16))?;
    Ok(gaps)
}
