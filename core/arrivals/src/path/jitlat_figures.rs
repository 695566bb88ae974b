//! Every number of Jitlat's console page, as its document computes them.
//!
//! Where the document does not say how, its printed figures decide:
//!
//! - The average receive period is the time from the first to the last arrival divided by the packets, not by the
//!   intervals. In figures 16 and 17 1000 packets have 49.94/s sent and 49.99/s received; as the delays differ by no
//!   more than 1.5 ms, both are the same 20.004 s, divided by 999 and by 1000.
//! - The median of an even number is the mean of the central two: 122.5 us in figure 17, from whole microseconds.
//! - Percentiles: figures 10 and 13 print the same 99.9 % and 100 % of 1000 packets, and figure 10's others are
//!   20 ms a rank apart: the first version takes element ⌊p·n⌋ of the sorted array. In figures 16 and 17 they differ:
//!   the second takes element ⌈p·n⌉ - 1, which is RFC 2330's (section 11.3). [`PageVersion`] chooses.
//! - Bins are whole nanoseconds wide ([`Histogram::new`]).
//! - The standard deviation is that of the population, from the sum of squares in 64-bit floating point (section
//!   3.2.4, footnote 9, tells why not in integers). Its rounding makes 76.93 us of the latencies and 76.94 us of the
//!   PDV in figure 17, which have the same spread.

use super::arrival::{Arrival, Classified, Counts, delays_ns};
use super::burstiness::{LeastSquares, burstiness};
use super::clocks::{ClockWarning, correct, warning};
use super::delay::{delay_statistics, median_ns};
use super::direction::Direction;
use super::histogram::{DEFAULT_BINS, Histogram};
use super::variation::pdv_ns;
use serde::Serialize;
use std::num::NonZeroU32;

#[cfg(test)]
mod tests;

/// The percentiles of PDV that the page has, in thousandths: 99 %, 99.3 %, 99.5 %, 99.7 %, 99.9 %, 100 %.
pub const PDV_PERCENTILES_PER_MILLE: [u32; 6] = [990, 993, 995, 997, 999, 1000];

/// Whose page it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PageVersion {
    /// Figures 7, 10 and 13.
    One,
    /// Figures 16 and 17.
    Two,
}

impl PageVersion {
    /// Where in a sorted array of `count` this share lies.
    fn index(self, per_mille: u32, count: usize) -> usize {
        let product = count as u128 * u128::from(per_mille);
        let index = match self {
            Self::One => product / 1000,
            Self::Two => product.div_ceil(1000).saturating_sub(1),
        };
        (index as usize).min(count - 1)
    }
}

/// What the numbers depend on beside the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigureOptions {
    /// Whose page.
    pub version: PageVersion,
    /// Bins of the histograms, which decide the mode.
    pub bins: NonZeroU32,
    /// Payload of a packet in octets: the workorder's pktlen.
    pub payload_bytes: u32,
    /// The workorder's period.
    pub target_period_ns: u64,
    /// Which way the packets went.
    pub direction: Direction,
    /// Estimated relative clock error, server minus client. None in logs of the first version.
    pub clock_error_ns: Option<i64>,
    /// Smallest round-trip time of the control connection. None in logs of the first version.
    pub min_rtt_ns: Option<i64>,
}

impl FigureOptions {
    /// For a second version's page of a SENDING flow with the default bins, without an estimate of the clocks.
    pub fn new(payload_bytes: u32, target_period_ns: u64) -> Self {
        Self {
            version: PageVersion::Two,
            bins: DEFAULT_BINS,
            payload_bytes,
            target_period_ns,
            direction: Direction::Up,
            clock_error_ns: None,
            min_rtt_ns: None,
        }
    }
}

/// A period and the rates that it means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PeriodFigures {
    /// Mean time from packet to packet.
    pub period_ns: f64,
    /// Packets per second: infinite for a period of zero.
    pub packets_per_second: f64,
    /// Payload bits per second: the page's user throughput.
    pub user_bits_per_second: f64,
}

impl PeriodFigures {
    fn new(period_ns: f64, payload_bytes: u32) -> Self {
        let packets_per_second = 1e9 / period_ns;
        Self {
            period_ns,
            packets_per_second,
            user_bits_per_second: packets_per_second * f64::from(payload_bytes) * 8.0,
        }
    }
}

/// Latency or PDV of all packets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpreadFigures {
    /// Smallest.
    pub min_ns: i64,
    /// Mean.
    pub mean_ns: f64,
    /// Largest.
    pub max_ns: i64,
    /// Standard deviation as Jitlat computes it; [`delay_statistics`] has the exact one.
    pub sd_ns: f64,
    /// Median.
    pub median_ns: f64,
    /// Mode: the centre of the fullest bin.
    pub mode_ns: f64,
    /// Up to the 99th percentile; has the bin size and the limit.
    pub histogram: Histogram,
}

/// Latency and PDV of a test of which at least one packet arrived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayFigures {
    /// Latency as the stamps say.
    pub latency: SpreadFigures,
    /// Latency without the estimated clock error: what `-C` prints and whose histogram `-L` plots. None without an
    /// estimate.
    pub corrected_latency: Option<SpreadFigures>,
    /// PDV, which the page calls jitter. The clock error has no part in it.
    pub pdv: SpreadFigures,
    /// PDV at [`PDV_PERCENTILES_PER_MILLE`].
    pub pdv_percentiles_ns: [i64; 6],
    /// Why the latencies cannot be believed.
    pub warning: Option<ClockWarning>,
    /// The same for the corrected ones.
    pub corrected_warning: Option<ClockWarning>,
}

/// The numbers of the console page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JitlatFigures {
    /// Whose page.
    pub version: PageVersion,
    /// Packets by kind.
    pub counts: Counts,
    /// Bytes of payload per packet.
    pub payload_bytes: u32,
    /// The period asked for.
    pub target: PeriodFigures,
    /// Average transmit period, from the stamps of the packets that arrived. None for fewer than two.
    pub transmit: Option<PeriodFigures>,
    /// Average receive period. None for fewer than two packets.
    pub receive: Option<PeriodFigures>,
    /// Latency and PDV. None if nothing arrived.
    pub delays: Option<DelayFigures>,
    /// Line through the burstiness plot: `slope` is m, `correlation` is r.
    pub burstiness: Option<LeastSquares>,
    /// Estimated relative clock error, server minus client.
    pub clock_error_ns: Option<i64>,
    /// Estimated smallest round-trip time of the control connection.
    pub min_rtt_ns: Option<i64>,
}

/// Computes the numbers of the page.
pub fn jitlat_figures(classified: &Classified, options: &FigureOptions) -> JitlatFigures {
    let arrivals = &classified.arrivals[..];
    let period = |ns: f64| PeriodFigures::new(ns, options.payload_bytes);
    JitlatFigures {
        version: options.version,
        counts: classified.counts,
        payload_bytes: options.payload_bytes,
        target: period(options.target_period_ns as f64),
        transmit: transmit_period_ns(arrivals).map(period),
        receive: receive_period_ns(arrivals).map(period),
        delays: delay_figures(arrivals, options),
        burstiness: burstiness(arrivals),
        clock_error_ns: options.clock_error_ns,
        min_rtt_ns: options.min_rtt_ns,
    }
}

/// From the first to the last packet sent of those that arrived, divided by the intervals, lost packets' too.
fn transmit_period_ns(arrivals: &[Arrival]) -> Option<f64> {
    let first = arrivals.iter().min_by_key(|a| a.sequence)?;
    let last = arrivals.iter().max_by_key(|a| a.sequence)?;
    let intervals = last.sequence - first.sequence;
    (intervals > 0).then(|| (i128::from(last.sent_ns) - i128::from(first.sent_ns)) as f64 / intervals as f64)
}

/// From the first to the last arrival, divided by the packets: see above.
fn receive_period_ns(arrivals: &[Arrival]) -> Option<f64> {
    let (first, last) = (arrivals.first()?, arrivals.last()?);
    let span_ns = i128::from(last.received_ns) - i128::from(first.received_ns);
    (arrivals.len() > 1).then(|| span_ns as f64 / arrivals.len() as f64)
}

fn delay_figures(arrivals: &[Arrival], options: &FigureOptions) -> Option<DelayFigures> {
    let delays = delays_ns(arrivals);
    let latency = spread(&delays, options)?;
    let pdv = pdv_ns(&delays);
    let mut sorted = pdv.clone();
    sorted.sort_unstable();
    let percentile = |share| sorted[options.version.index(share, sorted.len())];
    let corrected_latency = options.clock_error_ns.and_then(|error| {
        let corrected: Vec<i64> = delays.iter().map(|&d| correct(d, error, options.direction)).collect();
        spread(&corrected, options)
    });
    Some(DelayFigures {
        warning: warning(latency.min_ns, options.min_rtt_ns),
        corrected_warning: corrected_latency.as_ref().and_then(|l| warning(l.min_ns, options.min_rtt_ns)),
        latency,
        corrected_latency,
        pdv: spread(&pdv, options)?,
        pdv_percentiles_ns: PDV_PERCENTILES_PER_MILLE.map(percentile),
    })
}

/// The figures of `values_ns`, which stand in order of arrival. None for none.
fn spread(values_ns: &[i64], options: &FigureOptions) -> Option<SpreadFigures> {
    let mut sorted = values_ns.to_vec();
    let statistics = delay_statistics(&mut sorted)?;
    let limit_index = options.version.index(990, sorted.len());
    let limit_ns = *sorted.select_nth_unstable(limit_index).1;
    let histogram = Histogram::new(values_ns, options.bins, limit_ns)?;
    Some(SpreadFigures {
        min_ns: statistics.min_ns,
        mean_ns: statistics.mean_ns,
        max_ns: statistics.max_ns,
        sd_ns: sd_by_sums_ns(values_ns, statistics.mean_ns).unwrap_or(statistics.sd_ns),
        median_ns: median_ns(&mut sorted)?,
        mode_ns: histogram.mode_ns(),
        histogram,
    })
}

/// The standard deviation from sums of squares, as Jitlat has it. None where rounding may have spoilt it by more
/// than a twentieth, as it does to clocks that are hours apart; then the exact one is better.
fn sd_by_sums_ns(values_ns: &[i64], mean_ns: f64) -> Option<f64> {
    let squares: f64 = values_ns.iter().map(|&x| x as f64 * x as f64).sum();
    let variance = squares / values_ns.len() as f64 - mean_ns * mean_ns;
    let uncertain = squares * f64::EPSILON;
    (uncertain <= 0.1 * variance).then(|| variance.sqrt())
}
