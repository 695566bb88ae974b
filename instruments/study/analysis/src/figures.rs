//! Figures of one cell: percentiles and shares of ΔT, its histogram, and how it went over time.

use quaver_arrivals::distribution::distribution;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bins of equal ratio to a tenfold in histograms.
pub const BINS_PER_DECADE: f64 = 48.0;
/// Slices of a time series.
const SLICES: usize = 240;

/// Where ΔT was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StudyLayer {
    /// The device's interrupt handler.
    Isr,
    /// The softirq that receives, where packets of an interface without interrupts of its own (veth, loopback) come in.
    Softirq,
    /// Where the kernel's stack takes the packet over.
    Stack,
    /// Right after the receive call returned.
    Application,
}

impl StudyLayer {
    /// From the wire to the application.
    pub const ALL: [Self; 4] = [Self::Isr, Self::Softirq, Self::Stack, Self::Application];

    /// Name.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Isr => "ISR",
            Self::Softirq => "softirq",
            Self::Stack => "stack",
            Self::Application => "application",
        }
    }
}

/// One number about the ΔT of a cell. Times are nanoseconds, shares lie between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Metric {
    /// Share of ΔT that is off by more than half a period: the next two together.
    #[serde(rename = "off.5T")]
    OffHalf,
    /// Share of ΔT below half a period: packets that came in a bunch.
    #[serde(rename = "lt.5T")]
    BelowHalf,
    /// Share of ΔT above one and a half periods.
    #[serde(rename = "gt1.5T")]
    AboveHalf,
    /// Share of ΔT above the threshold of spikes.
    #[serde(rename = "spikes")]
    Spikes,
    /// 10th percentile.
    #[serde(rename = "p10")]
    P10,
    /// Median.
    #[serde(rename = "p50")]
    P50,
    /// 90th percentile.
    #[serde(rename = "p90")]
    P90,
    /// 99th percentile.
    #[serde(rename = "p99")]
    P99,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    P99_9,
    /// 99.99th percentile.
    #[serde(rename = "p99.99")]
    P99_99,
    /// Standard deviation.
    #[serde(rename = "sd")]
    Sd,
    /// Maximum.
    #[serde(rename = "max")]
    Max,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::OffHalf,
        Self::BelowHalf,
        Self::AboveHalf,
        Self::Spikes,
        Self::P10,
        Self::P50,
        Self::P90,
        Self::P99,
        Self::P99_9,
        Self::P99_99,
        Self::Sd,
        Self::Max,
    ];

    /// Name in plans and pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OffHalf => "off.5T",
            Self::BelowHalf => "lt.5T",
            Self::AboveHalf => "gt1.5T",
            Self::Spikes => "spikes",
            Self::P10 => "p10",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::P99_99 => "p99.99",
            Self::Sd => "sd",
            Self::Max => "max",
        }
    }

    /// Whether it is a share, not a time.
    pub const fn is_share(self) -> bool {
        matches!(self, Self::OffHalf | Self::BelowHalf | Self::AboveHalf | Self::Spikes)
    }

    /// Its value in a cell.
    pub const fn of(self, figures: &Figures) -> f64 {
        match self {
            Self::OffHalf => figures.below_half + figures.above_half,
            Self::BelowHalf => figures.below_half,
            Self::AboveHalf => figures.above_half,
            Self::Spikes => figures.spikes,
            Self::P10 => figures.p10_ns,
            Self::P50 => figures.p50_ns,
            Self::P90 => figures.p90_ns,
            Self::P99 => figures.p99_ns,
            Self::P99_9 => figures.p99_9_ns,
            Self::P99_99 => figures.p99_99_ns,
            Self::Sd => figures.sd_ns,
            Self::Max => figures.max_ns,
        }
    }

    /// How far it is from that of a stream whose packets are all a period apart.
    pub fn off(self, figures: &Figures, period_ns: f64) -> f64 {
        let constant = if self.is_share() || self == Self::Sd { 0.0 } else { period_ns };
        (self.of(figures) - constant).abs()
    }
}

/// What ΔT of one layer of one cell comes to. Of several cells: the medians.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Count of ΔT.
    pub count: u64,
    /// Smallest.
    pub min_ns: f64,
    /// 10th percentile.
    pub p10_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 90th percentile.
    pub p90_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// 99.9th percentile.
    pub p99_9_ns: f64,
    /// 99.99th percentile; the largest of fewer than 10 000.
    pub p99_99_ns: f64,
    /// Largest.
    pub max_ns: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation, of the population.
    pub sd_ns: f64,
    /// Share below half a period.
    pub below_half: f64,
    /// Share above one and a half periods.
    pub above_half: f64,
    /// Share above the threshold of spikes.
    pub spikes: f64,
}

impl Figures {
    /// From ΔT in nanoseconds, which are left in another order. None of no ΔT. Percentiles as RFC 2330, section 11.3.
    pub fn of(delta_ns: &mut [i64], period_ns: f64, spike_ns: i64) -> Option<Self> {
        if delta_ns.is_empty() {
            return None;
        }
        let share = |wanted: &dyn Fn(i64) -> bool| {
            delta_ns.iter().filter(|&&delta| wanted(delta)).count() as f64 / delta_ns.len() as f64
        };
        let below_half = share(&|delta| (delta as f64) < 0.5 * period_ns);
        let above_half = share(&|delta| delta as f64 > 1.5 * period_ns);
        let spikes = share(&|delta| delta > spike_ns);
        let all = distribution(delta_ns);
        let rank = delta_ns.len().div_ceil(10) - 1;
        let p10_ns = *delta_ns.select_nth_unstable(rank).1 as f64;
        Some(Self {
            count: all.count,
            min_ns: all.min_ns as f64,
            p10_ns,
            p50_ns: all.p50_ns as f64,
            p90_ns: all.p90_ns as f64,
            p99_ns: all.p99_ns as f64,
            p99_9_ns: all.p99_9_ns as f64,
            p99_99_ns: all.p99_99_ns as f64,
            max_ns: all.max_ns as f64,
            mean_ns: all.mean_ns,
            sd_ns: all.sd_ns,
            below_half,
            above_half,
            spikes,
        })
    }

    /// The median of each figure over cells; none of no cells.
    pub(super) fn median(cells: &[&Self]) -> Option<Self> {
        let middle = |value: &dyn Fn(&Self) -> f64| {
            let mut values: Vec<f64> = cells.iter().map(|one| value(one)).collect();
            values.sort_by(f64::total_cmp);
            let (half, odd) = (values.len() / 2, values.len() % 2 == 1);
            if odd { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
        };
        (!cells.is_empty()).then(|| Self {
            count: cells.iter().map(|one| one.count).sum(),
            min_ns: middle(&|one| one.min_ns),
            p10_ns: middle(&|one| one.p10_ns),
            p50_ns: middle(&|one| one.p50_ns),
            p90_ns: middle(&|one| one.p90_ns),
            p99_ns: middle(&|one| one.p99_ns),
            p99_9_ns: middle(&|one| one.p99_9_ns),
            p99_99_ns: middle(&|one| one.p99_99_ns),
            max_ns: middle(&|one| one.max_ns),
            mean_ns: middle(&|one| one.mean_ns),
            sd_ns: middle(&|one| one.sd_ns),
            below_half: middle(&|one| one.below_half),
            above_half: middle(&|one| one.above_half),
            spikes: middle(&|one| one.spikes),
        })
    }
}

/// One layer of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerFigures {
    /// Which.
    pub layer: StudyLayer,
    /// Its figures.
    pub figures: Figures,
    /// Histogram: bin and count, ascending; bin i holds ΔT from 10^(i/48) ns up to the next. ΔT below 1 ns is in bin 0.
    pub bins: Vec<(u16, u64)>,
    /// Least and largest ΔT of each of at most 240 slices of equally many packets, in their order, nanoseconds.
    pub series: Vec<(i64, i64)>,
}

impl LayerFigures {
    /// From ΔT in order of arrival; none of no ΔT.
    pub fn of(layer: StudyLayer, delta_ns: &mut [i64], period_ns: f64, spike_ns: i64) -> Option<Self> {
        let length = delta_ns.len().div_ceil(SLICES).max(1);
        let ends = |slice: &[i64]| {
            let mut values = slice.iter().copied();
            let first = values.next().unwrap_or_default();
            values.fold((first, first), |(least, most), value| (least.min(value), most.max(value)))
        };
        let series = delta_ns.chunks(length).map(ends).collect();
        let mut counts = std::collections::BTreeMap::new();
        for &delta in delta_ns.iter() {
            *counts.entry(bin(delta)).or_insert(0u64) += 1;
        }
        let figures = Figures::of(delta_ns, period_ns, spike_ns)?;
        Some(Self { layer, figures, bins: counts.into_iter().collect(), series })
    }
}

fn bin(delta_ns: i64) -> u16 {
    ((delta_ns.max(1) as f64).log10() * BINS_PER_DECADE) as u16
}
