//! What a source achieved, as a page and as JSON.

use crate::args::SourceArgs;
use crate::stream_plan::StreamPlan;
use quaver_analysis::distribution::Distribution;
use quaver_page::table::{Align, Style, Table, printable};
use quaver_page::units::{count, duration, duration_f64, percent, supports};
use quaver_probe::source::SourceReport;
use serde::Serialize;
use std::collections::BTreeMap;

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
        args: &SourceArgs,
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
            destination: args.destination.to_string(),
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

    /// The page.
    pub(super) fn page(&self, style: Style) -> String {
        let mut out = format!("{} to {}\n", style.bold("quaver source"), self.destination);
        out.push_str(&format!("  stream  {} · for {}\n", self.stream, duration(self.duration_ns)));
        if self.interrupted {
            out.push_str(&format!("  {}\n", style.caution("ended by the user")));
        }
        out.push_str(&format!("\n{}\n{}", style.bold("Packets"), self.packet_table(style)));
        self.schedule(&mut out, style);
        self.thread(&mut out, style);
        out
    }

    fn packet_table(&self, style: Style) -> String {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Left)]);
        let rate = self.packets_per_second.zip(self.payload_bits_per_second);
        let rate = rate.map_or_else(String::new, |(packets, bits)| {
            format!("{} packets/s · {:.3} Mbit/s of payload", count(packets.round() as u64), bits / 1e6)
        });
        table.row(["sent", &count(self.sent), &rate]);
        for (name, times) in &self.failed {
            table.row(["failed", &count(*times), name]);
        }
        if self.refused > 0 {
            table.row(["refused", &count(self.refused), "by the destination: nobody listens there"]);
        }
        let slots = self.packets + self.slots_missed;
        let share = if slots > 0 { percent(self.slots_missed as f64 / slots as f64) } else { String::new() };
        let note = if self.slots_missed > 0 {
            format!("{share} of the slots, skipped and not made up for")
        } else {
            share
        };
        table.row(["slots missed", &count(self.slots_missed), &note]);
        table.render(style)
    }

    fn schedule(&self, out: &mut String, style: Style) {
        out.push_str(&format!(
            "\n{}{}\n",
            style.bold("Schedule"),
            style.dim("  lateness: the instant right before the send call less the deadline")
        ));
        match self.drift_ppm {
            Some(ppm) => out.push_str(&format!("  drift  {ppm:+.4} ppm (least squares over all packets)\n")),
            None => out.push_str("  drift  not known: fewer than two packets\n"),
        }
        let Some(lateness) = &self.lateness else {
            out.push_str(&format!("  worst  {}\n", duration(self.worst_lateness_ns)));
            return;
        };
        let from = |one_in, ns| if supports(lateness.count, one_in) { duration(ns) } else { "-".to_owned() };
        let columns =
            ["mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"].map(|name| (name, Align::Right));
        let mut table = Table::new(&columns);
        table.row([
            duration_f64(lateness.mean_ns),
            duration(lateness.p50_ns),
            from(10, lateness.p90_ns),
            from(100, lateness.p99_ns),
            from(1_000, lateness.p99_9_ns),
            from(10_000, lateness.p99_99_ns),
            duration(self.worst_lateness_ns.max(lateness.max_ns)),
        ]);
        out.push_str(&table.render(style));
        if lateness.count < self.packets {
            out.push_str(&format!(
                "  percentiles of the first {} packets, maximum of all\n",
                count(lateness.count)
            ));
        }
    }

    fn thread(&self, out: &mut String, style: Style) {
        out.push_str(&format!("\n{}\n", style.bold("Its thread")));
        out.push_str(&format!(
            "  gave up its CPU {} times, lost it {} times\n",
            count(self.voluntary_switches),
            count(self.involuntary_switches)
        ));
        for refusal in &self.settings_refused {
            out.push_str(&format!("  {}\n", style.caution(&printable(refusal))));
        }
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
