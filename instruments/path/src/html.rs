//! The HTML report of a path measurement: one pane for all plots, and every figure in tables.

mod below_tables;
mod data;
mod loss_tables;
mod rows;
mod tables;

use crate::digest::{FlowResults, PathSummary};
use crate::facts::{FlowFacts, RollingFigures};
use quaver_analysis::path::arrival::Classified;
use quaver_analysis::path::playout::Advice;
use quaver_page::RunFacts;
use quaver_page::html::page::{Tile, micro};
use quaver_page::html::{ReportError, embed, write_end, write_head};
use quaver_page::units::{count, duration, percent};
use rows::Table;
use serde::Serialize;
use std::io::Write;

const PAGE: &str = include_str!("../../../core/page/assets/report/path.html");
const SCRIPTS: [&str; 7] = [
    include_str!("../../../core/view/assets/uplot/uPlot.iife.min.js"),
    include_str!("../../../core/page/assets/report/format.js"),
    include_str!("../../../core/page/assets/report/data.js"),
    include_str!("../../../core/page/assets/report/axes.js"),
    include_str!("../../../core/page/assets/report/chooser.js"),
    include_str!("../../../core/page/assets/report/path_plots.js"),
    include_str!("../../../core/page/assets/report/path.js"),
];

/// What the report of a path is made from.
#[derive(Clone, Copy)]
pub struct PathReport<'a> {
    /// Results.
    pub summary: &'a PathSummary,
    /// The packets of each flow, sorted into arrivals and others.
    pub flows: &'a [(FlowFacts, Classified)],
    /// Words for the head of the page and for host and run.
    pub run: &'a RunFacts,
}

impl PathReport<'_> {
    /// Whether there is a packet to draw.
    fn drawable(&self) -> bool {
        self.summary.rolling.is_empty()
            && self.flows.iter().any(|(_, classified)| !classified.arrivals.is_empty())
    }
}

/// Writes the report of a path: below 5 MB whatever the length of the test.
pub fn write_html(out: &mut dyn Write, input: &PathReport<'_>) -> Result<(), ReportError> {
    let scripts: &[&str] = if input.drawable() { &SCRIPTS } else { &[] };
    write_head(out, PAGE, &Page::of(input), scripts)?;
    if input.drawable() {
        data::write(out, input)?;
    }
    write_end(out, scripts)
}

/// Everything that the template shows. Strings of others are escaped by the template.
#[derive(Serialize)]
struct Page {
    name: String,
    verb: String,
    version: String,
    verdict: String,
    complete: bool,
    tiles: Vec<Tile>,
    warnings: Vec<String>,
    drawable: bool,
    ways: Vec<&'static str>,
    corrected: bool,
    tables: Vec<Table>,
    facts: Vec<(String, String)>,
}

impl Page {
    fn of(input: &PathReport<'_>) -> Self {
        let summary = input.summary;
        let rolling = !summary.rolling.is_empty();
        Self {
            name: input.run.name.clone(),
            verb: input.run.verb.clone(),
            version: input.run.version.clone(),
            verdict: micro(if rolling { rolling_verdict(&summary.rolling) } else { verdict(summary) }),
            complete: summary.complete,
            tiles: if rolling { rolling_tiles(&summary.rolling) } else { tiles(summary) },
            warnings: summary.warnings.iter().cloned().map(micro).collect(),
            drawable: input.drawable(),
            ways: input.flows.iter().map(|(flow, _)| flow.direction.name()).collect(),
            corrected: summary.clock.is_some(),
            tables: if rolling { tables::of_rolling(summary) } else { tables::of_packets(summary) },
            facts: facts(input),
        }
    }
}

fn verdict(summary: &PathSummary) -> String {
    let flows: Vec<&FlowResults> = summary.flows().collect();
    if flows.iter().all(|results| results.figures.packets.unique == 0) {
        return "Not one packet arrived.".to_owned();
    }
    let way = |results: &FlowResults| {
        let figures = &results.figures;
        let lost = match figures.loss.packets {
            0 => "nothing was lost".to_owned(),
            _ => format!("{} of the packets were lost", percent(figures.loss.share.unwrap_or(0.0))),
        };
        match &figures.variation {
            Some(variation) => {
                format!(
                    "{lost}, and 99 % of those that arrived came within {} of the quickest",
                    duration(variation.pdv.p99_ns)
                )
            }
            None => "nothing arrived".to_owned(),
        }
    };
    match flows.as_slice() {
        [one] => capital(&way(one)) + ".",
        _ => {
            let said: Vec<String> = flows
                .iter()
                .map(|results| format!("{}: {}.", capital(results.flow.direction.name()), way(results)))
                .collect();
            said.join(" ")
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A tile with the worse of the ways large and each in the note. `worse` says which values are the worse ones.
fn tile<T>(
    name: &'static str,
    flows: &[&FlowResults],
    value: impl Fn(&FlowResults) -> Option<T>,
    rank: impl Fn(&T) -> f64,
    shown: impl Fn(&T) -> String,
    about: &str,
) -> Tile {
    let values: Vec<(&'static str, Option<T>)> =
        flows.iter().map(|results| (results.flow.direction.name(), value(results))).collect();
    let worst =
        values.iter().filter_map(|(_, value)| value.as_ref()).max_by(|a, b| rank(a).total_cmp(&rank(b)));
    let each = values.iter().map(|(way, value)| {
        let value = value.as_ref().map_or_else(|| "-".to_owned(), &shown);
        format!("{way} {value}")
    });
    let each = if values.len() > 1 { each.collect::<Vec<_>>().join(", ") } else { String::new() };
    let note = [each.as_str(), about].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
    Tile { name, value: micro(worst.map_or_else(|| "-".to_owned(), &shown)), note: micro(note.join("; ")) }
}

fn tiles(summary: &PathSummary) -> Vec<Tile> {
    let flows: Vec<&FlowResults> = summary.flows().collect();
    let ns = |value: &i64| *value as f64;
    let time = |value: &i64| duration(*value);
    let share = |value: &f64| percent(*value);
    let bound = summary.clock.map(|clock| format!("± {}", duration(clock.bound_ns)));
    let about_delay = bound.unwrap_or_else(|| "as measured".to_owned());
    vec![
        tile("Loss", &flows, |results| results.figures.loss.share, |share| *share, share, ""),
        tile(
            "PDV p99",
            &flows,
            |results| results.figures.variation.as_ref().map(|variation| variation.pdv.p99_ns),
            ns,
            time,
            "above the least delay",
        ),
        tile("One-way delay p50", &flows, delay_p50_ns, ns, time, &about_delay),
        tile("Reordered", &flows, |results| results.figures.reordering.ratio, |share| *share, share, ""),
        tile("De-jitter buffer", &flows, buffer_ns, ns, time, "for 1 % late or lost"),
        tile(
            "Call, MOS",
            &flows,
            |results| results.figures.advice.voice.first().map(|voice| voice.mos),
            |mos| -mos,
            |mos| format!("{mos:.2}"),
            "G.711, of 4.5",
        ),
    ]
}

/// Median delay, corrected where it can be.
fn delay_p50_ns(results: &FlowResults) -> Option<i64> {
    let delay = results.figures.delay.as_ref()?;
    Some(delay.corrected.as_ref().unwrap_or(&delay.as_measured).p50_ns)
}

/// The buffer for the laxest target.
fn buffer_ns(results: &FlowResults) -> Option<i64> {
    match results.figures.advice.buffers.last()?.advice {
        Advice::Buffer { buffer_ns, .. } => i64::try_from(buffer_ns).ok(),
        Advice::Impossible { .. } => None,
    }
}

fn rolling_share(figures: &RollingFigures, value: u64) -> f64 {
    value as f64 / (figures.unique + figures.lost).max(1) as f64
}

/// A time that is not known where nothing arrived.
fn time(ns: Option<i64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

fn rolling_verdict(rolling: &[RollingFigures]) -> String {
    let said: Vec<String> = rolling
        .iter()
        .map(|figures| {
            let (way, lost) = (capital(&figures.direction), percent(rolling_share(figures, figures.lost)));
            let pdv = time(figures.pdv_quantiles_ns.map(|quantiles| quantiles[2]));
            match (figures.unique, figures.lost) {
                (0, _) => format!("{way}: nothing arrived."),
                (_, 0) => format!("{way}: nothing was lost, and 99 % came within {pdv} of the quickest."),
                _ => format!(
                    "{way}: {lost} of the packets were lost, and 99 % of those that arrived came within {pdv} of the quickest."
                ),
            }
        })
        .collect();
    said.join(" ")
}

fn rolling_tiles(rolling: &[RollingFigures]) -> Vec<Tile> {
    let tile = |name, value: &dyn Fn(&RollingFigures) -> (f64, String), note: &str| {
        let values: Vec<(f64, String)> = rolling.iter().map(value).collect();
        let worst = values.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        Tile {
            name,
            value: micro(worst.map_or_else(|| "-".to_owned(), |(_, shown)| shown.clone())),
            note: if rolling.len() > 1 { "the worse way".to_owned() } else { note.to_owned() },
        }
    };
    let share = |figures: &RollingFigures, value: u64| {
        let share = rolling_share(figures, value);
        (share, percent(share))
    };
    let time = |ns: Option<i64>| (ns.map_or(f64::NEG_INFINITY, |ns| ns as f64), time(ns));
    vec![
        tile("Packets", &|figures| (figures.unique as f64, count(figures.unique)), "arrived"),
        tile("Loss", &|figures| share(figures, figures.lost), ""),
        tile("PDV p99", &|figures| time(figures.pdv_quantiles_ns.map(|all| all[2])), "above the least delay"),
        tile(
            "One-way delay p50",
            &|figures| time(figures.delay_quantiles_ns.map(|all| all[0])),
            "as measured",
        ),
        tile("Reordered", &|figures| share(figures, figures.reordered), ""),
    ]
}

fn facts(input: &PathReport<'_>) -> Vec<(String, String)> {
    let (summary, run) = (input.summary, input.run);
    let mut rows = vec![("Peer".to_owned(), format!("{}, by {}", summary.peer, summary.protocol))];
    for known in summary.known_flows() {
        let flow = known.flow;
        let text = format!(
            "{} {} of {} octets from {} to {}, one every {} ({}), DSCP {}",
            count(flow.planned),
            flow.transport,
            flow.payload_bytes,
            flow.source,
            flow.destination,
            duration(i64::try_from(flow.period_ns).unwrap_or(i64::MAX)),
            flow.schedule,
            flow.dscp
        );
        rows.push((format!("Flow {}", flow.direction.name()), micro(text)));
    }
    let known =
        [("Run", &run.directory), ("Command", &run.command), ("Started", &run.started), ("Host", &run.host)];
    rows.extend(
        known
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (name.to_owned(), text.clone())),
    );
    rows.extend(run.facts.iter().cloned());
    rows
}

#[cfg(test)]
mod tests;
