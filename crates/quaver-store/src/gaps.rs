//! `gaps.parquet`: a row a gap of the noise loop (or a stamp of the dummy program), by CPU and time.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `index` | unsigned 64 | turn of the loop |
//! | `before_ns`, `after_ns` | signed 64 | last stamp before the gap (or the deadline) and first after, CLOCK_MONOTONIC |
//! | `cpu` | unsigned 16 | where |
//! | `flags` | unsigned 16 | bit 0: the thread changed CPU inside |

use crate::columns::{Column, Layout, TableReader, TableWriter};
use crate::error::StoreError;
use crate::run::RunDir;
use crate::segments::{open_if_any, read_if_any};
use crate::timeline::Timeline;
use quaver_abi::record::{AnchorRecord, GapRecord};
use std::path::Path;

const TABLE: &str = "gaps";

/// A gap on the one time line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Turn of the loop, from 0.
    pub index: u64,
    /// Last stamp before it, or the deadline, CLOCK_MONOTONIC nanoseconds.
    pub before_ns: i64,
    /// First stamp after it, CLOCK_MONOTONIC nanoseconds.
    pub after_ns: i64,
    /// CPU.
    pub cpu: u16,
    /// Bit 0: the thread changed CPU inside the gap.
    pub flags: u16,
}

/// The gaps of all raw segments, by CPU, in the order of recording.
///
/// # Errors
/// A segment cannot be read, or no anchors turn cycles into time.
pub fn read_raw_gaps(run: &RunDir) -> Result<Vec<Gap>, StoreError> {
    let mut timeline = Timeline::new(&read_if_any::<AnchorRecord>(&run.anchors_segment())?);
    let mut gaps = Vec::new();
    for (_, path) in run.gaps_segments()? {
        for record in open_if_any::<GapRecord>(&path)?.into_iter().flatten() {
            let record = record?;
            let line =
                timeline.as_mut().ok_or_else(|| StoreError::NoAnchors { path: run.path().to_owned() })?;
            gaps.push(Gap {
                index: record.index,
                before_ns: line.monotonic_ns(record.before_cycles),
                after_ns: line.monotonic_ns(record.after_cycles),
                cpu: record.cpu,
                flags: record.flags,
            });
        }
    }
    Ok(gaps)
}

/// Gaps of a run: from `gaps.parquet` where it is there, else from the raw segments.
///
/// # Errors
/// As [`read_gaps`] and [`read_raw_gaps`].
pub fn load_gaps(run: &RunDir) -> Result<Vec<Gap>, StoreError> {
    if run.gaps().is_file() { read_gaps(&run.gaps()) } else { read_raw_gaps(run) }
}

/// Writes `gaps.parquet`.
///
/// # Errors
/// The file cannot be written.
pub fn write_gaps(path: &Path, gaps: &[Gap]) -> Result<(), StoreError> {
    let columns = [
        Column::required("index", Layout::U64),
        Column::required("before_ns", Layout::I64),
        Column::required("after_ns", Layout::I64),
        Column::required("cpu", Layout::Few(16)),
        Column::required("flags", Layout::Few(16)),
    ];
    let mut table = TableWriter::create(path, TABLE, &columns)?;
    table.rows(gaps.len(), |group, range| {
        let part = &gaps[range];
        group.u64(part.iter().map(|g| g.index))?;
        group.i64(part.iter().map(|g| g.before_ns))?;
        group.i64(part.iter().map(|g| g.after_ns))?;
        group.u32(part.iter().map(|g| u32::from(g.cpu)))?;
        group.u32(part.iter().map(|g| u32::from(g.flags)))
    })?;
    table.finish()
}

/// Reads `gaps.parquet`.
///
/// # Errors
/// The file cannot be read, is of a later format, or is no table of gaps.
pub fn read_gaps(path: &Path) -> Result<Vec<Gap>, StoreError> {
    let table = TableReader::open(path, TABLE)?;
    let mut gaps: Vec<Gap> = table.reserved();
    table.u64("index", |_, index| gaps.push(Gap { index, ..Gap::default() }))?;
    table.i64("before_ns", |row, ns| gaps[row].before_ns = ns)?;
    table.i64("after_ns", |row, ns| gaps[row].after_ns = ns)?;
    table.u32("cpu", |row, cpu| gaps[row].cpu = cpu as u16)?;
    table.u32("flags", |row, flags| gaps[row].flags = flags as u16)?;
    Ok(gaps)
}
