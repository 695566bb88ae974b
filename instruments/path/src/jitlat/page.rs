//! The console pages of Jitlat, to the letter (DRDC Ottawa TM 2011-047): figures 16 and 17, and with `--v1` figures 7,
//! 10 and 13.

pub mod engineering;
pub mod v1;
pub mod v2;

#[cfg(test)]
mod golden;

use crate::jitlat_log::{Ending, LogHeader};
use quaver_abi::wire::jitlat::{PROTO_TCP, PROTO_UDP};
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::jitlat_figures::{JitlatFigures, PageVersion, PeriodFigures};

/// Where a page's packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A test that has just been made.
    Live,
    /// A log that is analysed again.
    Log,
}

/// What a page is made from.
#[derive(Clone, Copy, Debug)]
pub struct JitlatPage<'a> {
    /// The numbers, with the version whose page it is.
    pub figures: &'a JitlatFigures,
    /// The log's header.
    pub header: &'a LogHeader,
    /// Where the packets come from.
    pub origin: Origin,
    /// Show latencies corrected by the estimated clock error (`-C`).
    pub corrected: bool,
    /// The plot is of the corrected latencies, not of the PDV (`-L`).
    pub latency_plot: bool,
}

/// First line of a test, without its end: `Connecting to janus. ...`.
pub fn connecting(host: &str) -> String {
    format!("Connecting to {host}. ...")
}

/// The end of that line, once it is true.
pub const CONNECTED: &str = " Connected.\n";

/// What is measured: `sending 10000 UDP pkts of 80 bytes from 142.92.34.101:34519 to 142.92.34.101:2667`.
///
/// The word for a flow that comes from the server is in no figure.
pub fn flow_line(header: &LogHeader, version: PageVersion, origin: Origin) -> String {
    let verb = match (origin, header.direction()) {
        (Origin::Log, _) => "Analysing",
        (Origin::Live, Direction::Up) => "sending",
        (Origin::Live, Direction::Down) => "receiving",
    };
    let proto = match header.proto {
        PROTO_UDP => "UDP".to_owned(),
        PROTO_TCP => "TCP".to_owned(),
        other => format!("protocol {other}"),
    };
    let size = match version {
        PageVersion::One => format!(" of {} bytes", header.pktlen),
        PageVersion::Two => String::new(),
    };
    let (from, to) = (header.source(), header.destination());
    format!("{verb} {} {proto} pkts{size} from {from} to {to}\n", header.npkts)
}

/// Where the log is: `Data logged to jitlat.0faqgu`.
pub fn logged_line(path: &str) -> String {
    format!("Data logged to {path}\n")
}

/// The head of a page about a log: what it holds and its first line.
pub fn log_head(header: &LogHeader, version: PageVersion) -> String {
    format!("{}# {}\n", flow_line(header, version, Origin::Log), quaver_view::safe(&header.created))
}

/// All that stands under the head, beginning with the empty line between them.
pub fn body(page: &JitlatPage<'_>) -> String {
    let interrupted = match &page.header.facts.ending {
        Some(Ending::Interrupted(why)) => {
            format!("Interrupted: {}. These are the packets until then.\n", quaver_view::safe(why))
        }
        _ => String::new(),
    };
    let rest = match page.figures.version {
        PageVersion::One => v1::body(page),
        PageVersion::Two => v2::body(page),
    };
    format!("{interrupted}\n{rest}")
}

/// A share as the page writes it: `0.00%`. Nothing of nothing is 0.
fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    format!("{:.2}%", share * 100.0)
}

/// `m = -0.000000, r = -0.004203`, or why there is no line through the points.
fn regression(figures: &JitlatFigures) -> String {
    match figures.burstiness {
        Some(line) => {
            let r = line.correlation.map_or("nan".to_owned(), |r| format!("{r:.6}"));
            format!("m = {:.6}, r = {r}", line.slope)
        }
        None => "too few packets".to_owned(),
    }
}

/// The lines under `Jitter (PDV) percentile:`.
fn percentiles(pdv_percentiles_ns: &[i64; 6]) -> String {
    const NAMES: [&str; 6] = ["99.0", "99.3", "99.5", "99.7", "99.9", "100"];
    let mut out = String::from("Jitter (PDV) percentile:\n");
    for (name, ns) in NAMES.iter().zip(pdv_percentiles_ns) {
        out += &format!("{name}% = {}\n", engineering::time(*ns as f64));
    }
    out
}

/// The lines of the three mean periods; `text` words one of them.
fn periods(figures: &JitlatFigures, text: fn(PeriodFigures) -> String) -> String {
    let periods = [
        ("target transmit", Some(figures.target)),
        ("average transmit", figures.transmit),
        ("average receive", figures.receive),
    ];
    periods
        .map(|(name, period)| format!("{name} period = {}\n", period.map_or("unknown".to_owned(), text)))
        .concat()
}

/// Said instead of latencies where nothing arrived.
const NOTHING_ARRIVED: &str = "no packet was received, so there is no latency\n";
