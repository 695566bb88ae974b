//! Figures of a test that kept no packets.

use super::metrics::{Fates, Metrics};
use super::{drowned, no_offset, outcome, tile};
use crate::facts::{CorrectedDelay, RollingFigures};
use quaver_view::{Block, Cell, Document, Section, Text};

fn sent(figures: &RollingFigures) -> u64 {
    figures.unique.saturating_add(figures.lost)
}

fn share(figures: &RollingFigures, part: u64) -> f64 {
    part as f64 / sent(figures).max(1) as f64
}

pub(super) fn verdict(rolling: &[RollingFigures]) -> Text {
    let said = rolling.iter().map(|figures| {
        let pdv = figures.pdv_quantiles_ns.map(|quantiles| ("p99", quantiles[2]));
        outcome(&figures.direction, figures.unique, share(figures, figures.lost), "no loss", pdv)
    });
    said.collect::<Vec<_>>().join(" ").into()
}

pub(super) fn tiles(document: &mut Document, rolling: &[RollingFigures]) {
    fn of<T>(
        rolling: &[RollingFigures],
        value: impl Fn(&RollingFigures) -> Option<T>,
    ) -> Vec<(&str, Option<T>)> {
        rolling.iter().map(|figures| (figures.direction.as_str(), value(figures))).collect()
    }
    let ns = |value: &i64| *value as f64;
    let time = |value: &i64| Cell::Duration(*value);
    let cell = |value: &f64| Cell::Share(*value);
    let fewest = |count: &u64| -(*count as f64);
    let arrived = of(rolling, |figures| Some(figures.unique));
    tile(document, "Packets", &arrived, fewest, |count| Cell::Count(*count), "arrived");
    let lost = of(rolling, |figures| Some(share(figures, figures.lost)));
    tile(document, "Loss", &lost, |share| *share, cell, "");
    let pdv = of(rolling, |figures| Some(figures.pdv_quantiles_ns?[2]));
    tile(document, "PDV p99", &pdv, ns, time, "above the minimum delay");
    let delay = of(rolling, |figures| Some(told(figures)?.quantiles_ns[0]));
    tile(document, "One-way delay p50", &delay, ns, time, "by one clock");
    let reordered = of(rolling, |figures| Some(share(figures, figures.reordered)));
    tile(document, "Reordered", &reordered, |share| *share, cell, "");
}

pub(super) fn sections(rolling: &[RollingFigures]) -> [Section; 2] {
    let mut fates = Fates::new(rolling.iter().map(|figures| (figures.direction.as_str(), sent(figures))));
    let each = |count: fn(&RollingFigures) -> u64| rolling.iter().map(count);
    fates.row("arrived", "first copies (RFC 5560, section 2)", each(|f| f.unique));
    fates.row("lost", "RFC 7680, section 2", each(|f| f.lost));
    fates.aside("loss periods", "RFC 3357, section 6.2", each(|f| f.loss_periods).map(Some));
    let longest = each(|f| f.longest_loss_period).map(Some);
    fates.aside("longest loss period, packets", "RFC 3357, section 6.3", longest);
    fates.row("duplicates", "extra copies (RFC 5560, section 5)", each(|f| f.duplicate));
    fates.row("reordered", "RFC 4737, section 3.3", each(|f| f.reordered));
    let beyond = each(|f| f.beyond_window).map(Some);
    fates.aside("too late to tell from duplicates", "counted as lost, or duplicates", beyond);
    let packets = Section::new("rolling", "Rolling figures")
        .note("Figures of the whole test, kept in constant memory: its packets were not kept, so there are no plots.");
    let delay = Section::new("delay", "Delay and its variation")
        .note("by one clock: without offset and drift of the clocks; quantiles are accurate to 0.1 %");
    let delay = delay.with(times(rolling));
    let hidden = rolling.iter().filter(|figures| told(figures).is_none()).filter_map(why_not_told);
    [packets.with(fates.table), hidden.fold(delay, |section, words| section.with(Block::Note(words)))]
}

/// Delay by one clock, unless the clocks are known worse than the delay itself.
fn told(figures: &RollingFigures) -> Option<&CorrectedDelay> {
    figures.corrected.as_ref().filter(|delay| delay.quantiles_ns[0] >= delay.bound_ns)
}

/// Why the delays of a flow are no rows of the table; none where nothing arrived.
fn why_not_told(figures: &RollingFigures) -> Option<Text> {
    let way = &figures.direction;
    figures.min_delay_ns?;
    Some(match &figures.corrected {
        Some(delay) => drowned(way, delay.bound_ns, delay.quantiles_ns[0], delay.min_ns),
        None => no_offset(way),
    })
}

fn times(rolling: &[RollingFigures]) -> quaver_view::Table {
    let time = |ns: Option<i64>| ns.map(Cell::Duration);
    let mean = |ns: Option<f64>| ns.map(Cell::FineDuration);
    let mut metrics = Metrics::new(rolling, |figures| figures.direction.as_str());
    for (at, name) in QUANTILES.into_iter().enumerate() {
        metrics.row(&format!("PDV, {name}"), "RFC 5481, section 4.2", |f| {
            time(f.pdv_quantiles_ns.map(|all| all[at]))
        });
    }
    if rolling.iter().any(|figures| figures.followed.is_some()) {
        metrics.row("PDV, ±", "how far the clocks' drift is known", |f| {
            time(f.followed.as_ref().map(|followed| followed.bound_ns))
        });
    }
    metrics.row("interarrival jitter, final", "RFC 3550, section 6.4.1", |f| mean(f.interarrival_jitter_ns));
    if rolling.iter().all(|figures| told(figures).is_none()) {
        return metrics.table;
    }
    metrics.row("delay, min", "RFC 7679, section 5.3", |f| time(told(f).map(|delay| delay.min_ns)));
    metrics.row("delay, mean", "RFC 7679", |f| mean(told(f).map(|delay| delay.mean_ns)));
    for (at, name) in QUANTILES.into_iter().enumerate() {
        metrics.row(&format!("delay, {name}"), "RFC 7679, section 5.1", |f| {
            time(told(f).map(|delay| delay.quantiles_ns[at]))
        });
    }
    metrics.row("delay, max", "RFC 7679", |f| time(told(f).map(|delay| delay.max_ns)));
    metrics.row("delay, ±", "how far the clocks' offset is known", |f| {
        time(told(f).map(|delay| delay.bound_ns))
    });
    metrics.table
}

/// Names of the quantiles that are kept.
const QUANTILES: [&str; 4] = ["p50", "p90", "p99", "p99.9"];
