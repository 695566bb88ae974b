//! What was lost, what came twice, and what came out of order.

use super::metrics::{Metric, Metrics, duration};
use super::way;
use crate::digest::FlowResults;
use quaver_arrivals::path::bursts::BurstSummary;
use quaver_arrivals::path::gilbert::{Gilbert, GilbertElliottFit};
use quaver_view::{Block, Cell, Section, Shown, text};
use std::collections::BTreeMap;

fn figure(value: Option<f64>) -> Option<Cell> {
    value.map(Cell::Figure)
}

fn share(value: Option<f64>) -> Option<Cell> {
    value.map(Cell::Share)
}

fn probability(value: Option<f64>) -> Option<Cell> {
    value.map(|value| Cell::Number { value, digits: 4 })
}

/// The largest value of a histogram.
fn largest(counts: &BTreeMap<u64, u64>) -> Option<Cell> {
    counts.last_key_value().map(|(value, _)| Cell::Count(*value))
}

/// The value that half of those counted do not exceed.
fn median(counts: &BTreeMap<u64, u64>) -> Option<Cell> {
    let half = counts.values().sum::<u64>().div_ceil(2);
    let mut below = 0;
    let found = counts.iter().find(|(_, many)| {
        below += **many;
        below >= half
    });
    found.map(|(value, _)| Cell::Count(*value))
}

/// Shown on the terminal only where it happened.
fn where_it_happened(section: Section, happened: bool) -> Section {
    if happened { section } else { section.shown(Shown::HtmlOnly) }
}

/// How losses lie together, and models of it.
pub(super) fn pattern(flows: &[&FlowResults]) -> Section {
    let mut metrics = Metrics::new(flows, |results| way(results));
    metrics
        .row("loss periods", "RFC 3357, section 6.2", |r| Cell::Count(r.figures.loss.pattern.periods))
        .row("longest loss period, packets", "RFC 3357, section 6.3", |r| {
            largest(&r.figures.loss.pattern.period_lengths)
        })
        .row("mean loss period, packets", "RFC 3357, section 6.3", |r| {
            figure(r.figures.loss.pattern.mean_period_length())
        })
        .row("burst ratio", "ITU-T G.107, section 7.5", |r| figure(r.figures.loss.pattern.burst_ratio()));
    let bursts: [Metric<BurstSummary>; 4] = [
        ("bursts", |bursts| Some(Cell::Count(bursts.bursts))),
        ("loss in bursts", |bursts| share(bursts.burst_density)),
        ("loss in gaps", |bursts| share(bursts.gap_density)),
        ("mean burst", |bursts| bursts.burst_duration_ns.map(Cell::FineDuration)),
    ];
    for (name, cell) in bursts {
        metrics.row(name, "RFC 3611, section 4.7.2", |r| r.figures.loss.bursts.as_ref().and_then(cell));
    }
    let section = Section::new("loss", "Loss").note(
        "A loss period is a run of packets none of which arrived (RFC 3357). A burst has fewer than 16 received packets \
         between one loss and the next (RFC 3611).",
    );
    let section = section.with(metrics.table).with(Block::from(models(flows).table).only(Shown::HtmlOnly));
    where_it_happened(section, flows.iter().any(|results| results.figures.loss.packets > 0))
}

/// Distances of losses, and the parameters of models that lose packets likewise.
fn models<'a>(flows: &'a [&'a FlowResults]) -> Metrics<'a, &'a FlowResults> {
    let mut metrics = Metrics::new(flows, |results| way(results));
    metrics.table = metrics.table.title("Distances and models");
    metrics
        .row("median loss distance", "RFC 3357, section 4", |r| median(&r.figures.loss.pattern.distances))
        .row("median inter-loss-period length", "RFC 3357, section 6.4", |r| {
            median(&r.figures.loss.pattern.inter_period_lengths)
        });
    let gilbert: [Metric<Gilbert>; 2] = [
        ("Gilbert: p, to loss", |model| probability(model.p)),
        ("Gilbert: r, out of loss", |model| probability(model.r)),
    ];
    for (name, cell) in gilbert {
        metrics.row(name, "Gilbert 1960, states seen", |r| r.figures.loss.gilbert.as_ref().and_then(cell));
    }
    let hidden: [Metric<GilbertElliottFit>; 4] = [
        ("Gilbert-Elliott: p, good to bad", |fit| probability(Some(fit.model.p))),
        ("Gilbert-Elliott: r, bad to good", |fit| probability(Some(fit.model.r))),
        ("Gilbert-Elliott: loss in the good state", |fit| share(Some(fit.model.loss_good))),
        ("Gilbert-Elliott: loss in the bad state", |fit| share(Some(fit.model.loss_bad))),
    ];
    for (name, cell) in hidden {
        let definition = "Elliott 1963, fitted (Baum-Welch)";
        metrics.row(name, definition, |r| r.figures.loss.gilbert_elliott.as_ref().and_then(cell));
    }
    for results in flows {
        if let Some(fit) = &results.figures.loss.gilbert_elliott {
            let better = if fit.two_states_found { "explain" } else { "do not explain" };
            let words =
                text!("{}: two states {better} the losses better than one (likelihood ratio)", way(results));
            metrics.table.note(words);
        }
    }
    metrics
}

/// How packets came out of order.
pub(super) fn order(flows: &[&FlowResults]) -> Section {
    let mut metrics = Metrics::new(flows, |results| way(results));
    metrics
        .row("largest extent, packets", "RFC 4737, section 4.2", |r| largest(&r.figures.reordering.extents))
        .row("largest n-reordering", "RFC 4737, section 5", |r| largest(&r.figures.reordering.n_reordering))
        .row("largest late time", "RFC 4737, section 4.3", |r| {
            r.figures.reordering.max_late_time_ns.map(duration)
        });
    let mut more = Metrics::new(flows, |results| way(results));
    more.row("reordered packets", "RFC 4737, section 3.3", |r| Cell::Count(r.figures.reordering.reordered))
        .row("reordered ratio", "RFC 4737, section 4.1", |r| share(r.figures.reordering.ratio))
        .row("mean late time", "RFC 4737, section 4.3", |r| {
            r.figures.reordering.mean_late_time_ns.map(Cell::FineDuration)
        })
        .row("largest byte offset", "RFC 4737, section 4.4", |r| {
            r.figures.reordering.max_offset_bytes(u64::from(r.flow.payload_bytes)).map(Cell::Count)
        })
        .row("median reordering gap", "RFC 4737, section 4.5", |r| median(&r.figures.reordering.gaps))
        .row("reordering-free runs", "RFC 4737, section 4.6", |r| {
            Cell::Count(r.figures.reordering.run_count())
        })
        .row("3-reordered (TCP retransmits)", "RFC 4737, section 5", |r| {
            share(r.figures.reordering.degree_of_n_reordering(3))
        })
        .row("displacements, early to late", "RFC 5236, section 3", |r| {
            let counts = &r.figures.density.as_ref()?.counts;
            let (first, last) = (counts.keys().next()?, counts.keys().next_back()?);
            Some(Cell::from(format!("{first} to {last}")))
        });
    let section = Section::new("reordering", "Reordering").note(
        "A packet is reordered if one sent later arrived before it. Only first copies count (RFC 4737).",
    );
    let section = section.with(metrics.table).with(Block::from(more.table).only(Shown::HtmlOnly));
    where_it_happened(section, flows.iter().any(|results| results.figures.packets.reordered > 0))
}

/// What came more than once.
pub(super) fn copies(flows: &[&FlowResults]) -> Section {
    let mut metrics = Metrics::new(flows, |results| way(results));
    metrics
        .row("extra copies", "RFC 5560, section 5.1", |r| Cell::Count(r.figures.duplication.duplicate))
        .row("fraction of copies", "RFC 5560, section 5.1", |r| share(r.figures.duplication.fraction))
        .row("packets with copies", "RFC 5560, section 5.2", |r| {
            Cell::Count(r.figures.duplication.replicated)
        })
        .row("replicated packet rate", "RFC 5560, section 5.2", |r| {
            share(r.figures.duplication.replicated_rate)
        });
    Section::new("copies", "Duplication")
        .note("Packets that arrived more than once.")
        .shown(Shown::HtmlOnly)
        .with(metrics.table)
}
