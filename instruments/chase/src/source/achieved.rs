//! What a source achieved, as a page and as JSON.

use crate::stream_plan::StreamPlan;
use quaver_arrivals::distribution::Distribution;
use quaver_instrument::percentiles::{PERCENTILES, percentiles};
use quaver_probe::source::SourceReport;
use quaver_view::{Block, Cell, Document, Section, Table, Text, text};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Version of the shape, in the `schema` field.
const SCHEMA: &str = "quaver.source/1";

/// The schedule that a source achieved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Achieved {
    /// [`SCHEMA`].
    pub(super) schema: &'static str,
    /// Where it sent.
    pub(super) destination: String,
    /// The stream in words.
    pub(super) stream: String,
    /// Mean period asked for.
    pub(super) period_ns: f64,
    /// First to last deadline used.
    pub(super) duration_ns: i64,
    /// Sequence numbers used.
    pub(super) packets: u64,
    /// Packets that the kernel took.
    pub(super) sent: u64,
    /// Send calls that failed, by the name of the error.
    pub(super) failed: BTreeMap<String, u64>,
    /// Packets that the destination refused (nobody listens there).
    pub(super) refused: u64,
    /// Slots skipped because the source was late.
    pub(super) slots_missed: u64,
    /// Packets a second over `duration_ns`; none for fewer than two.
    pub(super) packets_per_second: Option<f64>,
    /// UDP payload bits a second, likewise.
    pub(super) payload_bits_per_second: Option<f64>,
    /// Slope of the lateness by least squares over all packets, parts per million.
    pub(super) drift_ppm: Option<f64>,
    /// Lateness of the instants right before the send calls; none where the clock could not be told.
    pub(super) lateness: Option<Distribution>,
    /// Greatest lateness of all packets, also of those that `lateness` does not hold.
    pub(super) worst_lateness_ns: i64,
    /// Times that the source gave up its CPU.
    pub(super) voluntary_switches: u64,
    /// Times that its CPU was taken from it.
    pub(super) involuntary_switches: u64,
    /// Settings that the kernel refused to the source's thread.
    pub(super) settings_refused: Vec<String>,
    /// Whether the user ended it.
    pub(super) interrupted: bool,
}

impl Achieved {
    pub(super) fn of(
        destination: SocketAddr,
        stream: &StreamPlan,
        report: &SourceReport,
        lateness: Option<Distribution>,
        settings_refused: Vec<String>,
        interrupted: bool,
    ) -> Self {
        let duration_ns = if report.packets > 0 { report.last_deadline_ns - report.start_ns } else { 0 };
        let rate = (duration_ns > 0 && report.sent > 1)
            .then(|| (report.sent - 1) as f64 / (duration_ns as f64 / 1e9));
        Self {
            schema: SCHEMA,
            destination: destination.to_string(),
            stream: stream.words.clone(),
            period_ns: stream.period_ns(),
            duration_ns,
            packets: report.packets,
            sent: report.sent,
            failed: report.failed.iter().map(|(errno, count)| (errno_name(*errno), *count)).collect(),
            refused: report.refused,
            slots_missed: report.misses,
            packets_per_second: rate,
            payload_bits_per_second: rate.map(|rate| rate * stream.profile.payload_bytes() as f64 * 8.0),
            drift_ppm: report.drift_ppm,
            lateness: lateness.filter(|lateness| lateness.count > 0),
            worst_lateness_ns: report.worst_lateness_ns,
            voluntary_switches: report.usage.voluntary_switches,
            involuntary_switches: report.usage.involuntary_switches,
            settings_refused,
            interrupted,
        }
    }

    /// What a person sees of it.
    pub(super) fn document(&self) -> Document {
        let mut document = Document::new("quaver source", format!("to {}", self.destination));
        document.version = env!("CARGO_PKG_VERSION").into();
        document.fact("stream", text!("{} · for {}", self.stream, Cell::Duration(self.duration_ns)));
        document.fact("ended", if self.interrupted { "by the user" } else { "" });
        document.verdict = (self.packets > 0).then(|| {
            let [sent, packets, missed] = [self.sent, self.packets, self.slots_missed].map(Cell::Count);
            text!("{sent} of {packets} packets were sent. {missed} slots were missed.")
        });
        document.section(Section::new("packets", "Packets").with(self.packets()));
        document.section(self.schedule());
        document.section(Section::new("thread", "Its thread").with(text!(
            "{} voluntary, {} involuntary context switches",
            Cell::Count(self.voluntary_switches),
            Cell::Count(self.involuntary_switches)
        )));
        document.warnings = self.settings_refused.iter().map(Text::from).collect();
        document
    }

    fn packets(&self) -> Table {
        let mut table = Table::bare(3);
        let rate = self.packets_per_second.zip(self.payload_bits_per_second);
        let rate = rate.map_or(Cell::Empty, |(packets, bits)| {
            text!("{} · {:.3} Mbit/s of payload", Cell::Rate(packets, "packets"), bits / 1e6).into()
        });
        table.row(["sent".into(), Cell::Count(self.sent), rate]);
        for (name, times) in &self.failed {
            table.row(["failed".into(), Cell::Count(*times), name.as_str().into()]);
        }
        if self.refused > 0 {
            let note = "by the destination: port closed".into();
            table.row(["refused".into(), Cell::Count(self.refused), note]);
        }
        let share = Cell::part(self.slots_missed, self.packets + self.slots_missed);
        let note = match (share, self.slots_missed) {
            (Cell::Missing, _) => Cell::Empty,
            (share, 0) => text!("{share}").into(),
            (share, _) => text!("{share} of the slots, skipped").into(),
        };
        table.row(["slots missed".into(), Cell::Count(self.slots_missed), note]);
        table
    }

    fn schedule(&self) -> Section {
        let drift = self.drift_ppm.map_or("drift not known: fewer than two packets".into(), |ppm| {
            text!("drift {ppm:+.4} ppm (least squares over all packets)")
        });
        let section = Section::new("schedule", "Schedule").note("lateness: send call − deadline").with(drift);
        let Some(lateness) = &self.lateness else {
            return section.with(text!("max {}", Cell::Duration(self.worst_lateness_ns)));
        };
        let [p50, p90, p99, p99_9, p99_99, p99_999, _, sd] = percentiles(lateness);
        let mut table = Table::new(["mean"].into_iter().chain(PERCENTILES));
        let max = Cell::Duration(self.worst_lateness_ns.max(lateness.max_ns));
        table.row([Cell::FineDuration(lateness.mean_ns), p50, p90, p99, p99_9, p99_99, p99_999, max, sd]);
        let section = section.with(table);
        if lateness.count >= self.packets {
            return section;
        }
        let first = Cell::Count(lateness.count);
        section.with(Block::Note(text!("percentiles of the first {first} packets, maximum of all")))
    }
}

/// Name of an error number of a send call.
fn errno_name(errno: i32) -> String {
    const NAMES: [(i32, &str); 16] = [
        (libc::EPERM, "EPERM"),
        (libc::EINTR, "EINTR"),
        (libc::EIO, "EIO"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::EACCES, "EACCES"),
        (libc::ENODEV, "ENODEV"),
        (libc::EINVAL, "EINVAL"),
        (libc::EPIPE, "EPIPE"),
        (libc::EMSGSIZE, "EMSGSIZE"),
        (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (libc::ENETDOWN, "ENETDOWN"),
        (libc::ENETUNREACH, "ENETUNREACH"),
        (libc::ENOBUFS, "ENOBUFS"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::EHOSTUNREACH, "EHOSTUNREACH"),
    ];
    let known = NAMES.iter().find(|(number, _)| *number == errno);
    known.map_or_else(|| format!("error {errno}"), |(_, name)| (*name).to_owned())
}
