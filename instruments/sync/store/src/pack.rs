//! `sync-*.parquet`: the events of one process image, a few bytes each; with `sync-*.json` for its facts.
//!
//! The raw cycles are not kept: a nanosecond is less than the counter's own error.

use super::{Segment, SyncFacts, SyncMoment, SyncSegmentError, SyncThread};
use quaver_abi::sync::{OWNER_SHIFT, SyncKind, SyncObject, SyncOutcome, SyncRecord, outcome_flags};
use quaver_store::columns::{TableReader, TableWriter};
use quaver_store::error::StoreError;
use quaver_store::table::{Column, Layout, Table};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Events of the recorder.
pub static TABLE: Table = Table {
    name: "sync",
    file: "sync/sync-PID-START-EXEC.parquet",
    rows: "A row per event of one process image, in the order of time.",
    columns: &[
        Column::required("at_ns", Layout::U64, "CLOCK_MONOTONIC"),
        Column::required("thread", Layout::Few(32), "place in the list of threads of the `.json` beside it"),
        Column::required("kind", Layout::Few(8), "number of the kind, as in the segment"),
        Column::names(
            "kind_name",
            ["kind", "kind"],
            kind_name,
            "name of the kind: `lock-entry`, `barrier-exit`",
        ),
        Column::required("outcome", Layout::Few(8), "outcome in the low five bits, flags in the others"),
        Column::names(
            "outcome_name",
            ["outcome", "outcome"],
            outcome_name,
            "name of the outcome: `ok`, `timeout`",
        ),
        Column::names(
            "flag_names",
            ["outcome", "outcome"],
            flag_names,
            "names of the flags, joined by `+`: `inside-wait`, `for-reading`, `contended`; null: none is set",
        ),
        Column::required("cpu", Layout::Few(16), "CPU; 65535: unknown"),
        Column::required(
            "object",
            Layout::FewU64,
            "address of the lock, condition or barrier, or `pthread_t`",
        ),
        Column::required("call_site", Layout::FewU64, "address that the call returns to"),
        Column::required("detail", Layout::Few(32), "operand of the kind"),
        Column::names(
            "detail_name",
            ["kind", "detail"],
            detail_name,
            "of locks and unlocks what is locked: `mutex`, `read-write`, `spin`; null of other kinds",
        ),
    ],
    span: None,
};

fn kind_name(kind: u32, _: u32) -> Option<String> {
    SyncKind::from_repr(u8::try_from(kind).ok()?).map(|kind| <&str>::from(kind).to_owned())
}

fn outcome_name(raw: u32, _: u32) -> Option<String> {
    let outcome = SyncOutcome::from_raw(u8::try_from(raw).ok()? & outcome_flags::OUTCOME_MASK);
    Some(<&str>::from(outcome).to_owned())
}

fn flag_names(raw: u32, _: u32) -> Option<String> {
    let flags = [
        (outcome_flags::INSIDE_WAIT, "inside-wait"),
        (outcome_flags::FOR_READING, "for-reading"),
        (outcome_flags::CONTENDED, "contended"),
    ];
    quaver_store::table::flag_names(raw, &flags.map(|(flag, name)| (flag.into(), name)))
}

fn detail_name(kind: u32, detail: u32) -> Option<String> {
    use SyncKind::{LockEntry, LockExit, ReadLockEntry, ReadLockExit, UnlockEntry, UnlockExit};
    let kind = SyncKind::from_repr(u8::try_from(kind).ok()?)?;
    let of_locks = [LockEntry, LockExit, ReadLockEntry, ReadLockExit, UnlockEntry, UnlockExit];
    let object = if matches!(kind, LockEntry | ReadLockEntry) { detail % (1 << OWNER_SHIFT) } else { detail };
    of_locks.contains(&kind).then(|| SyncObject::from_repr(object).map(|it| <&str>::from(it).to_owned()))?
}
/// Rows in memory at a time.
const ROWS: usize = 1 << 18;

/// What packing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Events written.
    pub events: u64,
    /// Bytes of the table.
    pub octets: u64,
}

/// Facts of a packed recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    /// Of the image.
    pub facts: SyncFacts,
    /// Of its threads.
    pub threads: Vec<SyncThread>,
}

/// Where the facts of a packed table lie: beside it, `.json` in place of `.parquet`.
pub fn facts_path(table: &Path) -> PathBuf {
    table.with_extension("json")
}

/// Writes the events of a segment to the table `path`, and the facts beside it. Anchors are left out: they have done
/// their work.
///
/// # Errors
/// The segment cannot be read, or the files cannot be written.
pub fn pack(segment: &Segment, path: &Path) -> Result<Packing, SyncSegmentError> {
    let packed = Packed { facts: segment.facts().clone(), threads: segment.threads().to_vec() };
    let mut table = TABLE.create(path)?.of_run();
    let mut part: Vec<SyncMoment> = Vec::with_capacity(ROWS);
    let mut events = 0;
    for moment in segment.merge() {
        let moment = moment?;
        if moment.record.kind != SyncKind::Anchor as u8 {
            part.push(moment);
        }
        if part.len() == ROWS {
            events += write(&mut table, &mut part)?;
        }
    }
    events += write(&mut table, &mut part)?;
    table.finish()?;
    let facts = facts_path(path);
    let text = serde_json::to_vec_pretty(&packed)
        .map_err(|source| StoreError::Json { path: facts.clone(), source })?;
    std::fs::write(&facts, text).map_err(|e| StoreError::io("write", &facts, e))?;
    let octets = std::fs::metadata(path).map_err(|e| StoreError::io("look at", path, e))?.len();
    Ok(Packing { events, octets })
}

fn write(table: &mut TableWriter, part: &mut Vec<SyncMoment>) -> Result<u64, StoreError> {
    table.rows(part.len(), |group, range| {
        let part = &part[range];
        group.u64(part.iter().map(|moment| moment.at_ns))?;
        group.u32(part.iter().map(|moment| moment.thread))?;
        let kind = |moment: &SyncMoment| u32::from(moment.record.kind);
        let outcomes = || part.iter().map(|moment| u32::from(moment.record.outcome));
        group.u32(part.iter().map(kind))?;
        group.names(part.iter().map(|moment| (kind(moment), 0)), kind_name)?;
        group.u32(outcomes())?;
        group.names(outcomes().map(|raw| (raw, 0)), outcome_name)?;
        group.names(outcomes().map(|raw| (raw, 0)), flag_names)?;
        group.u32(part.iter().map(|moment| u32::from(moment.record.cpu)))?;
        group.u64(part.iter().map(|moment| moment.record.object))?;
        group.u64(part.iter().map(|moment| moment.record.call_site))?;
        group.u32(part.iter().map(|moment| moment.record.detail))?;
        group.names(part.iter().map(|moment| (kind(moment), moment.record.detail)), detail_name)
    })?;
    let written = part.len() as u64;
    part.clear();
    Ok(written)
}

/// A packed recording.
pub struct PackedReader {
    table: TableReader,
    packed: Packed,
}

impl std::fmt::Debug for PackedReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedReader").field("packed", &self.packed).finish_non_exhaustive()
    }
}

impl PackedReader {
    /// Opens the table `path` and reads the facts beside it.
    ///
    /// # Errors
    /// One of the files cannot be read, is of a later format, or is something else.
    pub fn open(path: &Path) -> Result<Self, SyncSegmentError> {
        let table = TableReader::open(path, TABLE.name)?;
        let facts = facts_path(path);
        let text = std::fs::read(&facts).map_err(|e| StoreError::io("read", &facts, e))?;
        let packed = serde_json::from_slice(&text)
            .map_err(|source| StoreError::Json { path: facts.clone(), source })?;
        Ok(Self { table, packed })
    }

    /// What is known of the process image.
    pub fn facts(&self) -> &SyncFacts {
        &self.packed.facts
    }

    /// Its threads.
    pub fn threads(&self) -> &[SyncThread] {
        &self.packed.threads
    }

    /// Events in the table.
    pub fn events(&self) -> u64 {
        self.table.rows() as u64
    }

    /// Gives every event to `sink`, in time order, a group of rows in memory at a time. The cycles of the records
    /// are 0.
    ///
    /// # Errors
    /// The table cannot be read, or its columns do not fit together.
    pub fn for_each(&self, mut sink: impl FnMut(&SyncMoment)) -> Result<(), SyncSegmentError> {
        let mut part: Vec<SyncMoment> = Vec::new();
        for group in 0..self.table.groups() {
            part.clear();
            self.table.u64_of_group(group, "at_ns", |_, at_ns| {
                part.push(SyncMoment { at_ns, thread: 0, tid: 0, record: SyncRecord::default() });
            })?;
            self.fill(group, "thread", &mut part, |moment, value| moment.thread = value)?;
            self.fill(group, "kind", &mut part, |moment, value| moment.record.kind = value as u8)?;
            self.fill(group, "outcome", &mut part, |moment, value| moment.record.outcome = value as u8)?;
            self.fill(group, "cpu", &mut part, |moment, value| moment.record.cpu = value as u16)?;
            self.fill(group, "detail", &mut part, |moment, value| moment.record.detail = value)?;
            self.fill_u64(group, "object", &mut part, |moment, value| moment.record.object = value)?;
            self.fill_u64(group, "call_site", &mut part, |moment, value| moment.record.call_site = value)?;
            for moment in part.iter_mut() {
                moment.tid = self.packed.threads.get(moment.thread as usize).map_or(0, |thread| thread.tid);
                sink(moment);
            }
        }
        Ok(())
    }

    /// Sets a field of every moment of a group. A damaged table may have more values than rows.
    fn fill(
        &self,
        group: usize,
        name: &str,
        part: &mut [SyncMoment],
        set: impl Fn(&mut SyncMoment, u32),
    ) -> Result<(), StoreError> {
        self.table.u32_of_group(group, name, |row, value| {
            if let Some(moment) = part.get_mut(row) {
                set(moment, value);
            }
        })
    }

    fn fill_u64(
        &self,
        group: usize,
        name: &str,
        part: &mut [SyncMoment],
        set: impl Fn(&mut SyncMoment, u64),
    ) -> Result<(), StoreError> {
        self.table.u64_of_group(group, name, |row, value| {
            if let Some(moment) = part.get_mut(row) {
                set(moment, value);
            }
        })
    }
}
