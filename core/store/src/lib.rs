//! The run directory: what a measurement leaves behind, and how it is read again.
//!
//! Hot paths write raw segments (laid out in `quaver-abi`). After the measured phase [`convert::convert_raw`]
//! joins them on one time line and writes Parquet; [`load::load_packet_run`] reads a run back, from Parquet or,
//! where the run was cut short, from the raw segments up to their last full record. The formats are described
//! in `docs/formats.md`.
#![forbid(unsafe_code)]

pub mod bounded;
pub mod columns;
pub mod containment;
pub mod convert;
pub mod error;
pub mod events;
pub mod gaps;
pub mod identity;
mod join;
pub mod labels;
pub mod late;
pub mod listing;
pub mod load;
pub mod manifest;
pub mod media;
pub mod packets;
#[allow(missing_docs, reason = "fields of messages are named and documented in Perfetto's trace.proto")]
pub mod perfetto;
pub mod rewrite;
pub mod rows;
pub mod run;
pub mod segments;
pub mod table;
pub mod tables;
pub mod timeline;
mod turns;
pub mod utc;
pub mod waits;
