//! What the plots of a path show: those of Jitlat (DRDC Ottawa TM 2011-047, section 1), each drawn in a terminal
//! ([`document`]) and written for gnuplot ([`gnuplot`]).

pub mod gnuplot;
mod terminal;

pub(crate) use terminal::{binned, document, style};

use quaver_arrivals::path::Arrival;
use quaver_arrivals::path::burstiness::LeastSquares;
use quaver_arrivals::path::density::ReorderDensity;
use quaver_arrivals::path::histogram::Histogram;
use std::collections::BTreeMap;

/// The plots of one flow.
#[derive(Clone, Copy, Debug)]
pub struct PathPlots<'a> {
    /// What is measured, for the titles.
    pub title: &'a str,
    /// Latency as measured, up to its 99th percentile.
    pub latency: Option<&'a Histogram>,
    /// Latency without the estimated clock error.
    pub corrected: Option<&'a Histogram>,
    /// Packet delay variation, up to its 99th percentile.
    pub pdv: Option<&'a Histogram>,
    /// Packets in order of arrival, for the burstiness plot.
    pub arrivals: &'a [Arrival],
    /// The line through that plot.
    pub line: Option<LeastSquares>,
    /// Length of a loss to losses of that length.
    pub loss_lengths: &'a BTreeMap<u64, u64>,
    /// Copies beyond the first to packets with so many.
    pub duplication_lengths: &'a BTreeMap<u64, u64>,
    /// Reorder density (RFC 5236); none where all came in order.
    pub density: Option<&'a ReorderDensity>,
}

/// One of the distributions of delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayPlot {
    /// As measured.
    Latency,
    /// Corrected by the estimated clock error.
    Corrected,
    /// Packet delay variation.
    Pdv,
}

impl DelayPlot {
    /// All, in the order in which they are drawn.
    pub const ALL: [Self; 3] = [Self::Latency, Self::Corrected, Self::Pdv];

    /// Title and label of the axis.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Corrected => "latency, corrected by the estimated clock error",
            Self::Pdv => "packet delay variation",
        }
    }

    /// Base name of its files.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Corrected => "latency-corrected",
            Self::Pdv => "pdv",
        }
    }
}

impl<'a> PathPlots<'a> {
    /// A distribution, where it is known.
    pub fn histogram(&self, plot: DelayPlot) -> Option<&'a Histogram> {
        match plot {
            DelayPlot::Latency => self.latency,
            DelayPlot::Corrected => self.corrected,
            DelayPlot::Pdv => self.pdv,
        }
    }

    /// The histograms of events that there were, each with title, base name of its files, label and bars. Jitlat plots
    /// these only where packets were lost, duplicated or reordered.
    pub fn bars(&self) -> Vec<Bars> {
        let lengths = |lengths: &BTreeMap<u64, u64>| -> Vec<(i64, f64)> {
            lengths.iter().map(|(length, count)| (length.cast_signed(), *count as f64)).collect()
        };
        let density = self.density.map_or(Vec::new(), |density| {
            density.counts.keys().map(|at| (*at, density.density(*at).unwrap_or(0.0))).collect()
        });
        let bars = [
            Bars {
                title: "loss period length",
                file: "loss-length",
                of: "consecutive losses",
                unit: "loss periods",
                bars: lengths(self.loss_lengths),
            },
            Bars {
                title: "duplicates",
                file: "duplication-length",
                of: "extra copies",
                unit: "packets",
                bars: lengths(self.duplication_lengths),
            },
            Bars {
                title: "reorder density (RFC 5236)",
                file: "reorder-density",
                of: "displacement in packets (negative: early)",
                unit: "share of packets",
                bars: density,
            },
        ];
        bars.into_iter().filter(|bars| !bars.bars.is_empty()).collect()
    }
}

/// A histogram of whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Title.
    pub title: &'static str,
    /// Base name of its files.
    pub file: &'static str,
    /// What is counted.
    pub of: &'static str,
    /// What the heights are.
    pub unit: &'static str,
    /// Value and height, by value.
    pub bars: Vec<(i64, f64)>,
}

#[cfg(test)]
pub(super) mod example {
    //! A flow with a bit of everything.

    use super::*;

    /// Owner of what [`PathPlots`] borrows.
    pub(crate) struct Example {
        pub(crate) arrivals: Vec<Arrival>,
        pub(crate) latency: Histogram,
        pub(crate) pdv: Histogram,
        pub(crate) loss_lengths: BTreeMap<u64, u64>,
        pub(crate) duplication_lengths: BTreeMap<u64, u64>,
        pub(crate) density: ReorderDensity,
    }

    impl Example {
        pub(crate) fn new() -> Self {
            let arrival = |sequence: u64| {
                let sent_ns = sequence.cast_signed() * 20_000_000;
                let delay_ns = 1_000_000 + (sequence.cast_signed() * 37 % 100) * 10_000;
                Arrival { sequence, sent_ns, received_ns: sent_ns + delay_ns }
            };
            let arrivals: Vec<Arrival> = (0..200).map(arrival).collect();
            let latencies: Vec<i64> = arrivals.iter().map(Arrival::delay_ns).collect();
            let pdv: Vec<i64> = latencies.iter().map(|latency| latency - 1_000_000).collect();
            let bins = std::num::NonZeroU32::new(10).expect("not zero");
            let made = |values: &[i64], limit| Histogram::new(values, bins, limit).expect("values");
            Self {
                latency: made(&latencies, 1_980_000),
                pdv: made(&pdv, 980_000),
                arrivals,
                loss_lengths: BTreeMap::from([(1, 5), (2, 1), (7, 1)]),
                duplication_lengths: BTreeMap::from([(1, 3)]),
                density: ReorderDensity {
                    displacement_threshold: 32,
                    counts: BTreeMap::from([(-1, 2), (0, 196), (2, 2)]),
                    packets: 200,
                    discarded: 0,
                },
            }
        }

        pub(crate) fn plots(&self) -> PathPlots<'_> {
            PathPlots {
                title: "200 UDP packets",
                latency: Some(&self.latency),
                corrected: None,
                pdv: Some(&self.pdv),
                arrivals: &self.arrivals,
                line: quaver_arrivals::path::burstiness::burstiness(&self.arrivals),
                loss_lengths: &self.loss_lengths,
                duplication_lengths: &self.duplication_lengths,
                density: Some(&self.density),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_is_plotted() {
        let example = example::Example::new();
        let files: Vec<&str> = example.plots().bars().iter().map(|bars| bars.file).collect();
        assert_eq!(files, ["loss-length", "duplication-length", "reorder-density"]);
        let nothing = BTreeMap::new();
        let calm = PathPlots {
            loss_lengths: &nothing,
            duplication_lengths: &nothing,
            density: None,
            ..example.plots()
        };
        assert_eq!(calm.bars(), []);
    }
}
