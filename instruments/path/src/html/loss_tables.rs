//! What was lost, what came twice, and what came out of order.

use super::rows::{Metric, Table};
use crate::digest::FlowResults;
use quaver_analysis::path::bursts::BurstSummary;
use quaver_analysis::path::gilbert::{Gilbert, GilbertElliottFit};
use quaver_page::units::{count, duration, duration_f64, percent};
use std::collections::BTreeMap;

const NONE: &str = "-";

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), percent)
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.2}"))
}

fn probability(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.4}"))
}

/// The largest value of a histogram.
fn largest(counts: &BTreeMap<u64, u64>) -> String {
    counts.last_key_value().map_or_else(|| NONE.to_owned(), |(value, _)| count(*value))
}

/// The value that half of those counted do not exceed.
fn median(counts: &BTreeMap<u64, u64>) -> String {
    let half = counts.values().sum::<u64>().div_ceil(2);
    let mut below = 0;
    let found = counts.iter().find(|(_, many)| {
        below += **many;
        below >= half
    });
    found.map_or_else(|| NONE.to_owned(), |(value, _)| count(*value))
}

pub(super) fn loss(flows: &[&FlowResults]) -> Table {
    let lead = "How losses lie together. A loss period is a run of packets of which none arrived; a burst is a stretch \
                with fewer than 16 packets received between one loss and the next.";
    let mut table = Table::by_way("loss", "Loss pattern", lead, flows);
    let pattern = |results: &FlowResults| results.figures.loss.pattern.clone();
    table.each("loss periods", flows, |r| count(pattern(r).periods), "RFC 3357, section 6.2");
    table.each(
        "longest loss period, packets",
        flows,
        |r| largest(&pattern(r).period_lengths),
        "RFC 3357, section 6.3",
    );
    table.each(
        "mean loss period, packets",
        flows,
        |r| number(pattern(r).mean_period_length()),
        "RFC 3357, section 6.3",
    );
    table.each("median loss distance", flows, |r| median(&pattern(r).distances), "RFC 3357, section 4");
    table.each(
        "median from period to period",
        flows,
        |r| median(&pattern(r).inter_period_lengths),
        "RFC 3357, section 6.4",
    );
    table.each("burst ratio", flows, |r| number(pattern(r).burst_ratio()), "ITU-T G.107, section 7.5");
    bursts(&mut table, flows);
    models(&mut table, flows);
    table
}

fn bursts(table: &mut Table, flows: &[&FlowResults]) {
    const BY: &str = "RFC 3611, section 4.7.2";
    let rows: [Metric<BurstSummary>; 4] = [
        ("bursts", |bursts| count(bursts.bursts)),
        ("loss within bursts", |bursts| share(bursts.burst_density)),
        ("loss between bursts", |bursts| share(bursts.gap_density)),
        ("mean burst", |bursts| bursts.burst_duration_ns.map_or_else(|| NONE.to_owned(), duration_f64)),
    ];
    for (name, cell) in rows {
        table.each(name, flows, |r| r.figures.loss.bursts.as_ref().map_or_else(|| NONE.to_owned(), cell), BY);
    }
}

fn models(table: &mut Table, flows: &[&FlowResults]) {
    let gilbert: [Metric<Gilbert>; 2] = [
        ("Gilbert: p, to loss", |model| probability(model.p)),
        ("Gilbert: r, out of loss", |model| probability(model.r)),
    ];
    for (name, cell) in gilbert {
        let by = "Gilbert 1960, states seen";
        table.each(
            name,
            flows,
            |r| r.figures.loss.gilbert.as_ref().map_or_else(|| NONE.to_owned(), cell),
            by,
        );
    }
    let hidden: [Metric<GilbertElliottFit>; 5] = [
        ("Gilbert-Elliott: p, good to bad", |fit| probability(Some(fit.model.p))),
        ("Gilbert-Elliott: r, bad to good", |fit| probability(Some(fit.model.r))),
        ("Gilbert-Elliott: loss in the good state", |fit| share(Some(fit.model.loss_good))),
        ("Gilbert-Elliott: loss in the bad state", |fit| share(Some(fit.model.loss_bad))),
        ("two states explain it better than one", |fit| {
            if fit.two_states_found { "yes" } else { "no" }.to_owned()
        }),
    ];
    for (name, cell) in hidden {
        let by = "Elliott 1963, fitted (Baum-Welch)";
        table.each(
            name,
            flows,
            |r| r.figures.loss.gilbert_elliott.as_ref().map_or_else(|| NONE.to_owned(), cell),
            by,
        );
    }
}

pub(super) fn order(flows: &[&FlowResults]) -> Table {
    let lead =
        "A packet is reordered when one sent later came before it; only the first copy of a packet counts.";
    let mut table = Table::by_way("order", "Order", lead, flows);
    let of = |results: &FlowResults| results.figures.reordering.clone();
    table.each("reordered packets", flows, |r| count(of(r).reordered), "RFC 4737, section 3.3");
    table.each("reordered ratio", flows, |r| share(of(r).ratio), "RFC 4737, section 4.1");
    table.each("largest extent, packets", flows, |r| largest(&of(r).extents), "RFC 4737, section 4.2");
    let late = |ns: Option<u64>| {
        ns.map_or_else(|| NONE.to_owned(), |ns| duration(i64::try_from(ns).unwrap_or(i64::MAX)))
    };
    table.each("largest late time", flows, |r| late(of(r).max_late_time_ns), "RFC 4737, section 4.3");
    let mean = |ns: Option<f64>| ns.map_or_else(|| NONE.to_owned(), duration_f64);
    table.each("mean late time", flows, |r| mean(of(r).mean_late_time_ns), "RFC 4737, section 4.3");
    table.each(
        "largest byte offset",
        flows,
        |r| of(r).max_offset_bytes(u64::from(r.flow.payload_bytes)).map_or_else(|| NONE.to_owned(), count),
        "RFC 4737, section 4.4",
    );
    table.each("median gap between breaks", flows, |r| median(&of(r).gaps), "RFC 4737, section 4.5");
    table.each("runs in order", flows, |r| count(of(r).run_count()), "RFC 4737, section 4.6");
    table.each("largest n-reordering", flows, |r| largest(&of(r).n_reordering), "RFC 4737, section 5");
    table.each(
        "3-reordered (TCP sends again)",
        flows,
        |r| share(of(r).degree_of_n_reordering(3)),
        "RFC 4737, section 5",
    );
    let displaced = |results: &FlowResults| {
        let density = results.figures.density.as_ref()?;
        let (first, last) = (density.counts.keys().next()?, density.counts.keys().next_back()?);
        Some(format!("{first} to {last}"))
    };
    table.each(
        "displacements, early to late",
        flows,
        |r| displaced(r).unwrap_or_else(|| NONE.to_owned()),
        "RFC 5236, section 3",
    );
    table
}

pub(super) fn copies(flows: &[&FlowResults]) -> Table {
    let mut table =
        Table::by_way("copies", "Duplication", "Packets of which more than one copy came.", flows);
    let of = |results: &FlowResults| results.figures.duplication.clone();
    table.each("copies beyond the first", flows, |r| count(of(r).duplicate), "RFC 5560, section 5.1");
    table.each("fraction of copies", flows, |r| share(of(r).fraction), "RFC 5560, section 5.1");
    table.each("packets with copies", flows, |r| count(of(r).replicated), "RFC 5560, section 5.2");
    table.each("replicated packet rate", flows, |r| share(of(r).replicated_rate), "RFC 5560, section 5.2");
    table
}
