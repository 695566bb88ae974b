//! What a run says, drawn for people: the console page and the HTML report.
//!
//! Everything here is a pure function of its input; the caller reads the run and writes the result.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "parts of pages, which become documents of quaver-view")]

pub mod console;
pub mod far_source;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod html;
pub mod rtp;
pub mod table;
pub mod units;

use quaver_abi::record::EventRecord;
use quaver_analysis::attribution::{LatePacket, Piece};
use quaver_analysis::model::{Names, PacketTable};
use quaver_analysis::summary::ChaseSummary;

/// Facts of a run that head its pages, already in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// Name of the run (`chase-20261120T165800Z-7f3a`).
    pub name: String,
    /// Verb that made it (`chase`, `sink`).
    pub verb: String,
    /// Path of the run directory.
    pub directory: String,
    /// Command line that made it.
    pub command: String,
    /// When it started, RFC 3339.
    pub started: String,
    /// Version of the tool.
    pub version: String,
    /// Host in one line: name, kernel, CPUs, whether it is a virtual machine.
    pub host: String,
    /// Where the stream came from, in a few words (`made here, two network namespaces`).
    pub stream: String,
    /// Further facts about host and clock, as name and value, for the report.
    pub facts: Vec<(String, String)>,
}

/// What the console page is made from.
#[derive(Clone, Copy, Debug)]
pub struct PageInput<'a> {
    /// Results.
    pub summary: &'a ChaseSummary,
    /// Facts of the run.
    pub run: &'a RunFacts,
    /// Path of the HTML report, where one was written.
    pub report_path: Option<&'a str>,
}

/// What the HTML report is made from.
#[derive(Clone, Copy, Debug)]
pub struct ReportInput<'a> {
    /// Results.
    pub summary: &'a ChaseSummary,
    /// Facts of the run.
    pub run: &'a RunFacts,
    /// Packets.
    pub packets: &'a PacketTable,
    /// Late packets, in the order of their rows.
    pub late: &'a [LatePacket],
    /// Late time taken apart, in the order of time.
    pub pieces: &'a [Piece],
    /// Events, in any order.
    pub events: &'a [EventRecord],
    /// Names of the events' threads, interrupts and functions.
    pub names: &'a Names,
}
