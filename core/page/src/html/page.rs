//! The words and tables of the report.

use crate::ReportInput;
use crate::console::{cost_of, percentiles, places, split_of, stage_name};
use crate::rtp;
use crate::units::{count, duration, duration_f64, percent, rate};
use quaver_analysis::catalogue;
use quaver_analysis::model::Layer;
use quaver_analysis::summary::{
    CauseSummary, ChaseSummary, LayerSummary, SourceClass, StageSummary, Unexplained,
};
use serde::Serialize;

/// Everything that the template shows. Strings of others are escaped by the template.
#[derive(Serialize)]
pub(super) struct Page {
    name: String,
    verb: String,
    version: String,
    verdict: String,
    complete: bool,
    tiles: Vec<Tile>,
    warnings: Vec<String>,
    causes: Vec<Cause>,
    counted: &'static str,
    share_of: &'static str,
    unexplained: Option<UnexplainedRow>,
    layer_names: Vec<&'static str>,
    layers: Vec<LayerRow>,
    stages: Vec<Stage>,
    packets: Vec<(String, String)>,
    rtp: Vec<rtp::Row>,
    rtp_notes: Vec<String>,
    facts: Vec<(String, String)>,
    timelines: usize,
    threshold: String,
    drawable: bool,
}

#[derive(Serialize)]
pub struct Tile {
    pub name: &'static str,
    pub value: String,
    pub note: String,
}

#[derive(Serialize)]
pub struct Cause {
    rank: usize,
    source: String,
    pub mechanism: Option<String>,
    name: String,
    class: &'static str,
    share: String,
    /// Per cent, for the bar.
    bar: f64,
    time: String,
    packets: String,
    worst: String,
    example: String,
    split: String,
    setting: Option<String>,
    boot: Option<String>,
    known: Option<String>,
}

#[derive(Serialize)]
pub struct UnexplainedRow {
    share: String,
    bar: f64,
    time: String,
    packets: String,
    worst: String,
    example: Option<String>,
    note: String,
}

#[derive(Serialize)]
struct LayerRow {
    name: &'static str,
    stamped: String,
    cells: Vec<String>,
}

#[derive(Serialize)]
struct Stage {
    name: String,
    share: String,
    bar: f64,
    typical: String,
    late: String,
    /// Lengths of the two bars, per cent of the longest.
    typical_bar: f64,
    late_bar: f64,
    late_p99: String,
    late_max: String,
}

impl Page {
    pub(super) fn of(input: &ReportInput<'_>, timelines: usize) -> Self {
        let summary = input.summary;
        let mut layer_names: Vec<&'static str> =
            input.packets.layers.iter().map(|column| column.layer.name()).collect();
        layer_names.push(Layer::Application.name());
        Self {
            name: input.run.name.clone(),
            verb: input.run.verb.clone(),
            version: input.run.version.clone(),
            verdict: verdict(summary),
            complete: summary.complete,
            tiles: tiles(summary),
            warnings: summary.warnings.clone(),
            causes: summary
                .causes
                .iter()
                .enumerate()
                .map(|(at, cause)| cause_row(at + 1, cause, format!("#{}", cause.example_seq)))
                .collect(),
            counted: "late packets",
            share_of: "late time",
            unexplained: (summary.lateness.packets > 0).then(|| {
                let rest = &summary.unexplained;
                unexplained_row(rest, rest.example_seq.map(|seq| format!("#{seq}")))
            }),
            layer_names,
            layers: summary.layers.iter().map(layer_row).collect(),
            stages: stages(&summary.stages),
            packets: packet_rows(summary),
            rtp: rtp_rows(summary),
            rtp_notes: summary.rtp.iter().flat_map(|rtp| rtp.notes.iter().cloned()).collect(),
            facts: fact_rows(input),
            timelines,
            threshold: micro(duration(summary.lateness.threshold_ns)),
            drawable: input.packets.len() > 1,
        }
    }
}

/// The page writes µ; the console writes u, as options are typed.
pub fn micro(text: String) -> String {
    let mut parts = text.split(" us");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // "use" is a word and no unit.
        let unit = !part.starts_with(char::is_alphanumeric);
        out.push_str(if unit { " µs" } else { " us" });
        out.push_str(part);
    }
    out
}

#[cfg(test)]
#[test]
fn units_are_written_with_their_sign_and_words_are_left() {
    let page = micro("1.5 us, may use 2 us; user us".to_owned());
    assert_eq!(page, "1.5 µs, may use 2 µs; user µs");
}

fn verdict(summary: &ChaseSummary) -> String {
    let late = &summary.lateness;
    if late.packets == 0 {
        let limit = micro(duration(late.threshold_ns));
        return format!("No packet was more than {limit} later than usual.");
    }
    let share = percent(late.packets as f64 / summary.losses.received.max(1) as f64);
    let head = format!("{} packets ({share}) came late.", count(late.packets));
    match summary.causes.first() {
        Some(cause) if cause.share >= summary.unexplained.share => {
            format!("{head} The largest source is {}: {} of the late time.", cause.name, percent(cause.share))
        }
        _ => format!("{head} Most of the late time ({}) is unexplained.", percent(summary.unexplained.share)),
    }
}

fn tiles(summary: &ChaseSummary) -> Vec<Tile> {
    let losses = &summary.losses;
    let known: Vec<Option<u64>> = places(losses).into_iter().map(|(_, lost)| lost).collect();
    let lost: u64 = known.iter().flatten().sum();
    let unknown = known.iter().filter(|lost| lost.is_none()).count();
    let late = &summary.lateness;
    let mut tiles = vec![
        Tile {
            name: "Packets received",
            value: count(losses.received),
            note: losses
                .sent
                .map_or("number sent not known".to_owned(), |sent| format!("of {} sent", count(sent))),
        },
        Tile {
            name: "Packets lost",
            value: count(lost),
            note: match unknown {
                0 => "every place counted".to_owned(),
                n => format!("not known at {n} of {} places", known.len()),
            },
        },
        Tile {
            name: "Late packets",
            value: count(late.packets),
            note: format!(
                "{} of the run, beyond {}",
                percent(late.time_ns as f64 / summary.duration_ns.max(1) as f64),
                duration(late.threshold_ns)
            ),
        },
        Tile {
            name: "Worst lateness",
            value: if late.distribution.count > 0 {
                duration(late.distribution.max_ns)
            } else {
                "-".to_owned()
            },
            note: "at the application".to_owned(),
        },
    ];
    tiles.extend(delta_tile(summary));
    tiles.push(cost_tile(summary));
    for tile in &mut tiles {
        tile.value = micro(std::mem::take(&mut tile.value));
        tile.note = micro(std::mem::take(&mut tile.note));
    }
    tiles
}

fn delta_tile(summary: &ChaseSummary) -> Option<Tile> {
    let layer = summary.layers.iter().find(|layer| layer.layer == Layer::Application)?;
    let (_, value) = percentiles(&layer.delta_t)[4].clone();
    let note = format!("period {}", duration_f64(summary.period_ns));
    Some(if value == "-" {
        Tile { name: "ΔT maximum, application", value: duration(layer.delta_t.max_ns), note }
    } else {
        Tile { name: "ΔT p99.99, application", value, note }
    })
}

fn cost_tile(summary: &ChaseSummary) -> Tile {
    let name = "Cost of the probes";
    match &summary.probe_cost {
        Some(cost) => {
            let (low, high) = cost.interval_ns;
            let note = format!("a packet; 95 % interval {} to {}", duration_f64(low), duration_f64(high));
            Tile { name, value: duration_f64(cost.per_packet_ns), note }
        }
        None => Tile { name, value: "-".to_owned(), note: "not measured".to_owned() },
    }
}

fn class_name(class: SourceClass) -> &'static str {
    match class {
        SourceClass::Hardware => "hardware or hypervisor",
        SourceClass::NetworkStack => "network stack",
        SourceClass::NetworkIndependent => "network-independent",
        SourceClass::Stream => "the sender",
        SourceClass::Tool => "this tool",
    }
}

pub fn cause_row(rank: usize, cause: &CauseSummary, example: String) -> Cause {
    Cause {
        rank,
        source: cause.source.clone(),
        mechanism: catalogue::source(&cause.source).map(|source| source.mechanism.clone()),
        name: cause.name.clone(),
        class: class_name(cause.class),
        share: percent(cause.share),
        bar: bar_of(cause.share),
        time: micro(duration(cause.time_ns)),
        packets: count(cause.packets),
        worst: micro(duration(cause.worst_ns)),
        example,
        split: micro(split_of(cause)),
        setting: cause.remedy.setting.clone(),
        boot: cause.remedy.boot.clone(),
        known: cause.remedy.known.clone(),
    }
}

pub fn unexplained_row(rest: &Unexplained, example: Option<String>) -> UnexplainedRow {
    UnexplainedRow {
        share: percent(rest.share),
        bar: bar_of(rest.share),
        time: micro(duration(rest.time_ns)),
        packets: count(rest.packets),
        worst: micro(duration(rest.worst_ns)),
        example,
        note: rest.note.clone(),
    }
}

/// A share as per cent, one decimal.
fn bar_of(share: f64) -> f64 {
    (share.clamp(0.0, 1.0) * 1_000.0).round() / 10.0
}

fn layer_row(layer: &LayerSummary) -> LayerRow {
    let d = &layer.delta_t;
    let mut cells: Vec<String> = percentiles(d).into_iter().map(|(_, cell)| micro(cell)).collect();
    cells.push(if d.count > 0 { micro(duration(d.max_ns)) } else { "-".to_owned() });
    cells.push(if d.count > 0 { micro(duration_f64(d.sd_ns)) } else { "-".to_owned() });
    LayerRow { name: layer.layer.name(), stamped: count(layer.stamped), cells }
}

fn stages(stages: &[StageSummary]) -> Vec<Stage> {
    let longest =
        stages.iter().flat_map(|stage| [stage.on_time.p50_ns, stage.late.p50_ns]).max().unwrap_or(0).max(1)
            as f64;
    let known = |count: u64, ns: i64| if count > 0 { micro(duration(ns)) } else { "-".to_owned() };
    stages
        .iter()
        .map(|stage| Stage {
            name: stage_name(stage.from, stage.to),
            share: percent(stage.excess_share),
            bar: bar_of(stage.excess_share),
            typical: known(stage.on_time.count, stage.on_time.p50_ns),
            late: known(stage.late.count, stage.late.p50_ns),
            typical_bar: bar_of(stage.on_time.p50_ns as f64 / longest),
            late_bar: bar_of(stage.late.p50_ns as f64 / longest),
            late_p99: percentiles(&stage.late)[2].1.replace(" us", " µs"),
            late_max: known(stage.late.count, stage.late.max_ns),
        })
        .collect()
}

fn packet_rows(summary: &ChaseSummary) -> Vec<(String, String)> {
    let losses = &summary.losses;
    let known = |value: Option<u64>| value.map_or("not known".to_owned(), count);
    let mut rows = vec![
        ("Sent".to_owned(), known(losses.sent)),
        ("Received".to_owned(), count(losses.received)),
        ("of them copies".to_owned(), count(losses.duplicates)),
        ("of them out of order".to_owned(), count(losses.reordered)),
    ];
    rows.extend(places(losses).into_iter().map(|(place, lost)| (format!("Lost {place}"), known(lost))));
    rows
}

fn rtp_rows(summary: &ChaseSummary) -> Vec<rtp::Row> {
    let mut rows = summary.rtp.as_deref().map(rtp::rows).unwrap_or_default();
    rows.iter_mut().for_each(|row| row.value = micro(std::mem::take(&mut row.value)));
    rows
}

fn fact_rows(input: &ReportInput<'_>) -> Vec<(String, String)> {
    let (summary, run) = (input.summary, input.run);
    let learned = if summary.period_learned { ", learned from the stream" } else { "" };
    let mut rows = vec![
        ("Run".to_owned(), run.directory.clone()),
        ("Command".to_owned(), run.command.clone()),
        ("Started".to_owned(), run.started.clone()),
        ("Duration".to_owned(), duration(summary.duration_ns)),
        ("Host".to_owned(), run.host.clone()),
        ("Stream".to_owned(), run.stream.clone()),
        ("Period".to_owned(), micro(format!("{}{learned}", duration_f64(summary.period_ns)))),
        ("Rate".to_owned(), rate(summary.period_ns).unwrap_or_default()),
        (
            "Typical way from schedule to application".to_owned(),
            micro(duration(summary.lateness.typical_path_ns)),
        ),
        ("Tracing".to_owned(), summary.tier.clone()),
        ("Why not a better tier".to_owned(), summary.tier_reason.clone().unwrap_or_default()),
        ("Blind to".to_owned(), summary.blind.join(", ")),
        (
            "Cost of the probes".to_owned(),
            summary.probe_cost.as_ref().map(|c| micro(cost_of(c))).unwrap_or_default(),
        ),
        (
            "Complete".to_owned(),
            if summary.complete { "yes" } else { "no, the run was cut short" }.to_owned(),
        ),
    ];
    rows.extend(run.facts.iter().cloned());
    rows.retain(|(_, value)| !value.is_empty());
    rows
}
