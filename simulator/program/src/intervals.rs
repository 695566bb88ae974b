//! `intervals.parquet` of a simulated run: what each thread did when, a row an interval, in the order in which they ended.
//!
//! Rows are written as they come, so that a long run needs no memory for them.

use parquet::data_type::ByteArray;
use quaver_store::columns::{TableReader, TableWriter};
use quaver_store::error::StoreError;
use quaver_store::table::{Column, Layout, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Intervals of simulated threads.
pub static TABLE: Table = Table {
    name: "sim-intervals",
    file: "intervals.parquet",
    rows: "A row per interval of a simulated thread, in the order in which they ended.",
    columns: &[
        Column::optional("thread", Layout::Few(32), "number of the thread; null for kernel activity"),
        Column::optional("core", Layout::Few(32), "core on which it ran; null if it did not run"),
        Column::required(
            "state",
            Layout::Text,
            "`runs`, `ready`, `lock`, `condition`, `barrier`, `join`, `kernel`",
        ),
        Column::required("start_fs", Layout::U64, "start, in simulated time from the start of the program"),
        Column::required("end_fs", Layout::U64, "end"),
        Column::optional(
            "object",
            Layout::I64,
            "address of the lock, condition or barrier; number of the joined thread",
        ),
        Column::optional("woken_by", Layout::Few(32), "thread that ended the wait"),
    ],
    span: Some(["start_fs", "end_fs"]),
};
/// Rows that are kept before they are written.
const BUFFERED: usize = 1 << 16;

/// What a simulated thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SimState {
    /// It ran.
    Runs,
    /// It could have run, but its wake-up was on the way, or another thread had its core.
    Ready,
    /// It waited for a lock.
    Lock,
    /// It waited for a condition or a semaphore.
    Condition,
    /// It waited for others at a barrier.
    Barrier,
    /// It waited for another thread's end.
    Join,
    /// Kernel activity that was put between the steps of threads.
    Kernel,
}

impl SimState {
    /// All.
    pub const ALL: [Self; 7] =
        [Self::Runs, Self::Ready, Self::Lock, Self::Condition, Self::Barrier, Self::Join, Self::Kernel];

    /// Its name in the table and in drawings.
    pub const fn name(self) -> &'static str {
        ["runs", "ready", "lock", "condition", "barrier", "join", "kernel"][self as usize]
    }
}

/// A stretch of a thread's time. Those of one thread do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SimInterval {
    /// Which thread; none for kernel activity.
    pub thread: Option<u32>,
    /// The core on which it ran; none where it did not run.
    pub core: Option<u32>,
    /// What it did.
    pub state: SimState,
    /// From, femtoseconds of simulated time.
    pub start_fs: u64,
    /// To, femtoseconds of simulated time.
    pub end_fs: u64,
    /// Address of what it waited for, or the thread whose end it waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<u64>,
    /// Who ended the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<u32>,
}

impl SimInterval {
    /// How long it is, femtoseconds.
    pub const fn length_fs(&self) -> u64 {
        self.end_fs.saturating_sub(self.start_fs)
    }
}

/// Writes `intervals.parquet`.
pub struct SimIntervalWriter {
    table: TableWriter,
    rows: Vec<SimInterval>,
}

impl SimIntervalWriter {
    /// Begins the table; it takes its place when it is [finished](Self::finish).
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let table = TABLE.create(path)?;
        Ok(Self { table, rows: Vec::new() })
    }

    /// Takes in an interval.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&mut self, interval: SimInterval) -> Result<(), StoreError> {
        self.rows.push(interval);
        if self.rows.len() >= BUFFERED { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let rows = std::mem::take(&mut self.rows);
        let names = SimState::ALL.map(|state| ByteArray::from(state.name()));
        self.table.rows(rows.len(), |group, range| {
            let part = &rows[range];
            group.optional_u32(part.iter().map(|row| row.thread))?;
            group.optional_u32(part.iter().map(|row| row.core))?;
            group.text(part.iter().map(|row| names[row.state as usize].clone()))?;
            group.u64(part.iter().map(|row| row.start_fs))?;
            group.u64(part.iter().map(|row| row.end_fs))?;
            group.optional_i64(part.iter().map(|row| row.object.map(u64::cast_signed)))?;
            group.optional_u32(part.iter().map(|row| row.woken_by))
        })
    }

    /// Ends the table and puts it in its place.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.table.finish()
    }
}

/// Reads `intervals.parquet`, all of it.
///
/// # Errors
/// The file cannot be read, is of a later format, or is no table of intervals.
pub fn read_sim_intervals(path: &Path) -> Result<Vec<SimInterval>, StoreError> {
    let table = TableReader::open(path, TABLE.name)?;
    let mut rows: Vec<SimInterval> = table.reserved();
    let mut unknown = None;
    table.text("state", |row, name| {
        let state = SimState::ALL.into_iter().find(|state| state.name().as_bytes() == name);
        unknown = if state.is_none() { unknown.or(Some(row)) } else { unknown };
        let state = state.unwrap_or(SimState::Runs);
        rows.push(SimInterval {
            thread: None,
            core: None,
            state,
            start_fs: 0,
            end_fs: 0,
            object: None,
            woken_by: None,
        });
    })?;
    if let Some(row) = unknown {
        return Err(table.shape(format!("row {row} has an unknown state")));
    }
    table.optional_u32("thread", |row, thread| rows[row].thread = thread)?;
    table.optional_u32("core", |row, core| rows[row].core = core)?;
    table.u64("start_fs", |row, fs| rows[row].start_fs = fs)?;
    table.u64("end_fs", |row, fs| rows[row].end_fs = fs)?;
    table.optional_i64("object", |row, object| rows[row].object = object.map(i64::cast_unsigned))?;
    table.optional_u32("woken_by", |row, by| rows[row].woken_by = by)?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_than_are_kept_come_back_and_the_same_rows_are_the_same_octets() {
        let place = tempfile::tempdir().unwrap();
        let row = |number: u64| SimInterval {
            thread: (!number.is_multiple_of(7)).then_some((number % 5) as u32),
            core: number.is_multiple_of(4).then_some((number % 4) as u32),
            state: SimState::ALL[number as usize % 7],
            start_fs: number * 333_333,
            end_fs: number * 333_333 + 100,
            object: (!number.is_multiple_of(3)).then_some(0x7f00_0000_0000 + number),
            woken_by: number.is_multiple_of(2).then_some(1),
        };
        let count = BUFFERED as u64 + 10;
        let write = |name: &str| {
            let path = place.path().join(name);
            let mut writer = SimIntervalWriter::create(&path).unwrap();
            (0..count).for_each(|number| writer.push(row(number)).unwrap());
            writer.finish().unwrap();
            path
        };
        let (first, second) = (write("a.parquet"), write("b.parquet"));
        assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(second).unwrap());
        assert_eq!(read_sim_intervals(&first).unwrap(), (0..count).map(row).collect::<Vec<_>>());
        quaver_store::gaps::write_gaps(&first, &Default::default()).unwrap();
        let error = read_sim_intervals(&first).unwrap_err().to_string();
        assert!(error.contains("not a table of sim-intervals"), "{error}");
    }
}
