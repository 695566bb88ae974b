//! `waits.parquet`: late waits of threads, piece by piece.

use crate::error::StoreError;
use crate::table::{Column, Layout, Table};
use parquet::data_type::ByteArray;
use std::borrow::Cow;
use std::path::Path;

/// Late waits.
pub static TABLE: Table = Table {
    name: "waits",
    file: "waits.parquet",
    rows: "A row per piece of a late wait, in the order in which waits ended. The pieces of a wait follow one another \
           in time and cover it exactly.",
    columns: &[
        Column::required("thread", Layout::Few(32), "number of the thread that waited"),
        Column::required("process", Layout::Few(32), "number of its process"),
        Column::required(
            "class",
            Layout::Text,
            "`signal-wait`, `broadcast-wait`, `lock-unlock`: from the release to the return of the call; \
             `cpu-wait`: from the instant at which the thread could run until a CPU ran it",
        ),
        Column::optional("waker", Layout::Few(32), "number of the thread that ended it; null of `cpu-wait`"),
        Column::optional("object", Layout::Text, "lock, condition or barrier: its name, or its address"),
        Column::optional("call_site", Layout::Text, "where the waiter's call returns to"),
        Column::required("wait_start_ns", Layout::I64, "start of the wait, CLOCK_MONOTONIC"),
        Column::required("wait_end_ns", Layout::I64, "end of the wait, CLOCK_MONOTONIC"),
        Column::required("start_ns", Layout::I64, "start of the piece, CLOCK_MONOTONIC"),
        Column::required("end_ns", Layout::I64, "end of the piece, CLOCK_MONOTONIC"),
        Column::optional("cpu", Layout::Few(16), "CPU on which the wait ended"),
        Column::optional(
            "source",
            Layout::Text,
            "cause: of `cpu-wait` its identifier in the catalogue, else that of `causes` in `summary.json`; null if unexplained",
        ),
        Column::optional("name", Layout::Text, "local name of the cause; null if unexplained"),
        Column::required("certainty", Layout::Text, "`certain`, `inferred`, `unknown`"),
    ],
    span: Some(["wait_start_ns", "wait_end_ns"]),
};

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRow<'a> {
    /// Thread that waited.
    pub thread: u32,
    /// Its process.
    pub process: u32,
    /// What it waited for.
    pub class: &'a str,
    /// Who ended the wait.
    pub waker: Option<u32>,
    /// Lock, condition or barrier.
    pub object: Option<Cow<'a, str>>,
    /// Where the waiter's call returns to.
    pub call_site: Option<Cow<'a, str>>,
    /// The wait, CLOCK_MONOTONIC.
    pub wait_ns: (i64, i64),
    /// The piece, CLOCK_MONOTONIC.
    pub piece_ns: (i64, i64),
    /// CPU on which the wait ended.
    pub cpu: Option<u16>,
    /// Identifier and name of the cause; none is unexplained.
    pub cause: Option<(&'a str, &'a str)>,
    /// How it is known.
    pub certainty: &'static str,
}

/// Writes `waits.parquet`: so many rows, each made in its turn.
///
/// # Errors
/// The file cannot be written.
pub fn write_waits<'a>(
    path: &Path,
    rows: usize,
    row: impl Fn(usize) -> WaitRow<'a>,
) -> Result<(), StoreError> {
    let text = |value: &str| ByteArray::from(value.as_bytes().to_vec());
    let mut table = TABLE.create(path)?.of_run();
    table.rows(rows, |group, range| {
        let rows: Vec<WaitRow<'_>> = range.map(&row).collect();
        group.u32(rows.iter().map(|row| row.thread))?;
        group.u32(rows.iter().map(|row| row.process))?;
        group.text(rows.iter().map(|row| text(row.class)))?;
        group.optional_u32(rows.iter().map(|row| row.waker))?;
        group.optional_text(rows.iter().map(|row| row.object.as_deref().map(text)))?;
        group.optional_text(rows.iter().map(|row| row.call_site.as_deref().map(text)))?;
        group.i64(rows.iter().map(|row| row.wait_ns.0))?;
        group.i64(rows.iter().map(|row| row.wait_ns.1))?;
        group.i64(rows.iter().map(|row| row.piece_ns.0))?;
        group.i64(rows.iter().map(|row| row.piece_ns.1))?;
        group.optional_u32(rows.iter().map(|row| row.cpu.map(u32::from)))?;
        group.optional_text(rows.iter().map(|row| row.cause.map(|(source, _)| text(source))))?;
        group.optional_text(rows.iter().map(|row| row.cause.map(|(_, name)| text(name))))?;
        group.text(rows.iter().map(|row| text(row.certainty)))
    })?;
    table.finish()
}
