//! `samples.parquet` of a comparison of stamps: packets between two checkpoints.
//!
//! Checkpoints stay in cycles: what they are for is their difference, which no conversion must round. The manifest
//! has the rate.

use quaver_capture_analysis::compare::CompareTable;
use quaver_store::columns::TableReader;
use quaver_store::error::StoreError;
use quaver_store::table::{Column, Layout, Table};
use std::path::Path;

/// Packets of a comparison.
pub static TABLE: Table = Table {
    name: "compare",
    file: "samples.parquet",
    rows: "A row per packet between two checkpoints, in the order of recording. Checkpoints stay in cycles, \
           for their difference is what counts.",
    columns: &[
        Column::required("pattern", Layout::Few(16), "place of the traffic pattern in the manifest"),
        Column::required(
            "context",
            Layout::Few(8),
            "0 in user space, 1 in the kernel, 2 there by our module",
        ),
        Column::names("context_name", ["context", "context"], context_name, "`user`, `kernel`, `module`"),
        Column::required(
            "arm",
            Layout::Few(16),
            "place of the arm in `user`, `kernel` or `module_arms` of the pattern",
        ),
        Column::required("block", Layout::U32, "block of packets of one arm"),
        Column::required("position", Layout::U32, "place in the block"),
        Column::required(
            "seq",
            Layout::U64,
            "number of the packet in its stream; in the kernel its place in the recording",
        ),
        Column::required("cpu", Layout::Few(16), "CPU"),
        Column::required("before_cycles", Layout::U64, "first checkpoint"),
        Column::required("between_cycles", Layout::U64, "from the first to the second checkpoint"),
        Column::optional("stamp_ns", Layout::I64, "the stamp, CLOCK_REALTIME; 0 is missing in earlier runs"),
        Column::required("bound_ns", Layout::U32, "bound of the stamp"),
        Column::required(
            "interrupts_off",
            Layout::Few(8),
            "1: interrupts were off at the first checkpoint (kernel only)",
        ),
    ],
    // A length, not an end; and in cycles: see `super::runs`.
    span: None,
};

fn context_name(context: u32, _: u32) -> Option<String> {
    ["user", "kernel", "module"].get(context as usize).map(|name| (*name).to_owned())
}

/// Writes `samples.parquet`.
///
/// # Errors
/// The file cannot be written, or the table's columns differ in length.
pub fn write_compare_samples(path: &Path, rows: &CompareTable) -> Result<(), StoreError> {
    let lengths = [
        rows.context.len(),
        rows.arm.len(),
        rows.block.len(),
        rows.position.len(),
        rows.seq.len(),
        rows.cpu.len(),
        rows.before_cycles.len(),
        rows.between_cycles.len(),
        rows.stamp_ns.len(),
        rows.bound_ns.len(),
        rows.interrupts_off.len(),
    ];
    if lengths.iter().any(|length| *length != rows.len()) {
        let reason = "the columns to be written differ in length".to_owned();
        return Err(StoreError::Shape { path: path.to_owned(), reason });
    }
    let mut table = TABLE.create(path)?.of_run();
    table.rows(rows.len(), |group, range| {
        let few =
            |column: &[u16]| column[range.clone()].iter().map(|value| u32::from(*value)).collect::<Vec<_>>();
        group.u32(few(&rows.pattern).into_iter())?;
        group.u32(few(&rows.context).into_iter())?;
        group.names(few(&rows.context).into_iter().map(|context| (context, 0)), context_name)?;
        group.u32(few(&rows.arm).into_iter())?;
        group.u32(rows.block[range.clone()].iter().copied())?;
        group.u32(rows.position[range.clone()].iter().copied())?;
        group.u64(rows.seq[range.clone()].iter().copied())?;
        group.u32(few(&rows.cpu).into_iter())?;
        group.u64(rows.before_cycles[range.clone()].iter().copied())?;
        group.u64(rows.between_cycles[range.clone()].iter().copied())?;
        group.optional_i64(rows.stamp_ns[range.clone()].iter().map(|ns| (*ns != 0).then_some(*ns)))?;
        group.u32(rows.bound_ns[range.clone()].iter().copied())?;
        group.u32(rows.interrupts_off[range].iter().map(|off| u32::from(*off)))
    })?;
    table.finish()
}

/// Reads `samples.parquet`.
///
/// # Errors
/// The file cannot be read, is of a later format, or is no table of a comparison.
pub fn read_compare_samples(path: &Path) -> Result<CompareTable, StoreError> {
    let table = TableReader::open(path, TABLE.name)?;
    let mut rows = CompareTable::default();
    table.u32("pattern", |_, value| rows.pattern.push(value as u16))?;
    table.u32("context", |_, value| rows.context.push(value as u16))?;
    table.u32("arm", |_, value| rows.arm.push(value as u16))?;
    table.u32("block", |_, value| rows.block.push(value))?;
    table.u32("position", |_, value| rows.position.push(value))?;
    table.u64("seq", |_, value| rows.seq.push(value))?;
    table.u32("cpu", |_, value| rows.cpu.push(value as u16))?;
    table.u64("before_cycles", |_, value| rows.before_cycles.push(value))?;
    table.u64("between_cycles", |_, value| rows.between_cycles.push(value))?;
    table.i64("stamp_ns", |_, value| rows.stamp_ns.push(value))?;
    table.u32("bound_ns", |_, value| rows.bound_ns.push(value))?;
    table.u32("interrupts_off", |_, value| rows.interrupts_off.push(value != 0))?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.parquet");
        let mut rows = CompareTable {
            pattern: vec![0, 1],
            context: vec![0, 2],
            arm: vec![6, 3],
            block: vec![0, u32::MAX],
            position: vec![7, 0],
            seq: vec![u64::MAX, 0],
            cpu: vec![1, 0],
            before_cycles: vec![1 << 63, 5],
            between_cycles: vec![36, 1 << 40],
            stamp_ns: vec![1_795_000_000_000_000_001, 0],
            bound_ns: vec![u32::MAX, 0],
            interrupts_off: vec![false, true],
        };
        write_compare_samples(&path, &rows).unwrap();
        assert_eq!(read_compare_samples(&path).unwrap(), rows);
        let mut stamps = Vec::new();
        let table = TableReader::open(&path, TABLE.name).unwrap();
        table.optional_i64("stamp_ns", |_, ns| stamps.push(ns)).unwrap();
        let mut contexts = Vec::new();
        table
            .text("context_name", |_, name| contexts.push(String::from_utf8(name.to_vec()).unwrap()))
            .unwrap();
        assert_eq!(contexts, ["user", "module"]);
        assert_eq!(stamps, [Some(1_795_000_000_000_000_001), None], "a missing stamp is null");
        rows.cpu.pop();
        assert!(write_compare_samples(&path, &rows).is_err());
    }
}
