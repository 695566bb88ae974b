//! The page of version one: figures 7, 10 and 13.

use super::engineering::{four_digits, time};
use super::{JitlatPage, NOTHING_ARRIVED, Origin, percent, percentiles, periods, regression};
use quaver_arrivals::path::jitlat_figures::{DelayFigures, PeriodFigures};

/// The page under its head.
pub(super) fn body(page: &JitlatPage<'_>) -> String {
    let figures = page.figures;
    let mut out = String::new();
    out += &periods(figures, period_text);
    out += &format!("\n{}\n", counts(page));
    match &figures.delays {
        Some(delays) => out += &delay_part(page, delays),
        None => out += &format!("{NOTHING_ARRIVED}\n"),
    }
    out += &format!("burstiness linear regression, {}\n", regression(figures));
    out
}

fn period_text(period: PeriodFigures) -> String {
    format!("{} ({})", time(period.period_ns), four_digits(period.packets_per_second, 0, "pkts/Sec"))
}

fn counts(page: &JitlatPage<'_>) -> String {
    let counts = &page.figures.counts;
    let share =
        |count: u64, name: &str, whole: u64| format!("  {count} {name} ({})\n", percent(count, whole));
    let mut out = format!("{} packets sent\n{} packets received\n", counts.sent, counts.received);
    out += &share(counts.lost, "lost", counts.sent);
    out += &share(counts.duplicate, "duplicates", counts.received);
    out += &share(counts.invalid, "invalid", counts.received);
    out += &format!("{} unique/valid packets received\n", counts.unique);
    out += &share(counts.out_of_sequence, "out of sequence", counts.unique);
    out
}

fn delay_part(page: &JitlatPage<'_>, delays: &DelayFigures) -> String {
    let corrected = delays.corrected_latency.as_ref();
    let (name, latency) = match corrected.filter(|_| page.corrected) {
        Some(corrected) => ("corrected latency", corrected),
        None => ("latency", &delays.latency),
    };
    let plotted = corrected.filter(|_| page.latency_plot).unwrap_or(&delays.latency);
    let [min, max, limit] =
        [latency.min_ns, latency.max_ns, plotted.histogram.limit_ns].map(|ns| time(ns as f64));
    let [mean, sd, median, mode] =
        [latency.mean_ns, latency.sd_ns, latency.median_ns, latency.mode_ns].map(time);
    let mut out = format!("min/avg/max {name} = {min} / {mean} / {max}\n");
    out += &format!("std dev = {sd}\nmedian = {median}\nmode at {mode}\n\n");
    out += &format!("latency histogram limited to {limit} (99 {})\n", percentile_word(page.origin));
    out += &format!("binsize = {}\n\n", time(plotted.histogram.bin_ns as f64));
    out += &format!("{}\n", percentiles(&delays.pdv_percentiles_ns));
    out
}

/// Figure 7 shows a test and has the word right; figures 10 and 13 show logs analysed again, by an earlier program as
/// their dates say, and have it wrong. This page follows each.
fn percentile_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Live => "percentile",
        Origin::Log => "pecentile",
    }
}
