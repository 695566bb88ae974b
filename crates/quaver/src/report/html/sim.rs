//! The HTML report of `quaver sim run`: where the time went, threads over time, cycles an instruction, caches and sharing.
//! Drawings are made here, so that they need no scripts.

mod cure;
mod drawings;

use super::page::{Tile, micro};
use super::table::Table;
use super::{ReportError, write_head, write_these_scripts};
use crate::digest::sim::{CoreFigures, SimSummary, TimePart, machine_words};
use crate::report::sim::{
    LEVEL_COLUMNS, SimInput, THREAD_COLUMNS, core_table, figure, level_cells, meaning, path_sentence,
    program, ran_for, simulated, thread_cells, took, traffic, verdict,
};
use crate::report::units::{count, percent};
use serde::Serialize;
use std::io::Write;

const PAGE: &str = include_str!("../../../assets/report/sim.html");
/// Rows of the table of threads.
const THREADS: usize = 256;

/// Writes the report: some hundred kB whatever the length of the run.
pub fn write_html(out: &mut dyn Write, input: &SimInput<'_>) -> Result<(), ReportError> {
    write_head(out, PAGE, &Page::of(input))?;
    write_these_scripts(out, &[])
}

/// Name and colour.
type Key = (&'static str, &'static str);

/// Everything that the template shows. Strings of others are escaped by the template; drawings escape what they hold.
#[derive(Serialize)]
struct Page {
    name: String,
    verb: &'static str,
    version: String,
    verdict: String,
    complete: bool,
    tiles: Vec<Tile>,
    warnings: Vec<String>,
    time: Vec<Part>,
    core_time: Option<String>,
    time_keys: Vec<Key>,
    cure: Option<cure::CureSection>,
    lanes: Option<drawings::Overview>,
    threads: Table,
    threads_left_out: Option<String>,
    cpi: Option<String>,
    cpi_keys: Vec<Key>,
    cores: Table,
    levels: Table,
    traffic: Vec<String>,
    misses: Vec<Figure>,
    sharing: Option<String>,
    sharing_keys: Vec<Key>,
    path: Vec<Part>,
    path_words: String,
    machine: String,
    changed: Table,
    facts: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Part {
    name: String,
    meaning: &'static str,
    time: String,
    share: String,
    bar: f64,
    colour: &'static str,
}

#[derive(Serialize)]
struct Figure {
    name: &'static str,
    svg: String,
}

impl Page {
    fn of(input: &SimInput<'_>) -> Self {
        let summary = input.summary;
        let used: Vec<&CoreFigures> = summary.cores.iter().filter(|core| core.instructions > 0).collect();
        let (core_time, time_keys) = drawings::core_time(summary);
        let (cpi, cpi_keys) = drawings::cpi(&used, summary.chip.cycle_fs);
        let (sharing, sharing_keys) = drawings::sharing(&used);
        let (core_columns, core_rows) = core_table(summary, 0.0);
        Self {
            name: input.run.name.clone(),
            verb: "sim run",
            version: input.run.version.clone(),
            verdict: micro(verdict(summary)),
            complete: summary.complete,
            tiles: tiles(summary),
            warnings: summary.warnings.iter().cloned().map(micro).collect(),
            time: time(summary),
            core_time,
            time_keys,
            cure: summary.cure.as_ref().map(cure::CureSection::of),
            lanes: drawings::overview(input.lanes),
            threads: Table::new(&THREAD_COLUMNS, summary.threads.iter().take(THREADS).map(thread_cells)),
            threads_left_out: left_out(summary),
            cpi,
            cpi_keys,
            cores: Table::new(&core_columns, core_rows),
            levels: Table::new(&LEVEL_COLUMNS, summary.levels.iter().map(level_cells)),
            traffic: traffic(summary),
            misses: misses(&used),
            sharing,
            sharing_keys,
            path: path(summary),
            path_words: summary.critical_path.as_ref().map(path_sentence).unwrap_or_default(),
            machine: machine_words(&summary.facts.machine),
            changed: changed(summary),
            facts: facts(input),
        }
    }
}

fn tiles(summary: &SimSummary) -> Vec<Tile> {
    let chip = &summary.chip;
    let level = |name: &str| summary.levels.iter().find(|level| level.level == name);
    let mut tiles = vec![
        Tile {
            name: "Simulated time",
            value: simulated(chip.duration_fs),
            note: format!("{} cycles", count(chip.cycles)),
        },
        Tile {
            name: "Instructions",
            value: count(chip.instructions),
            note: format!("on {} of {} cores", chip.cores_used, summary.cores.len()),
        },
        Tile {
            name: "Cycles an instruction",
            value: chip.cpi.map_or("-".to_owned(), figure),
            note: "while a thread ran".to_owned(),
        },
        Tile {
            name: "Cores at work",
            value: chip.busy_share.map_or("-".to_owned(), percent),
            note: "of all cores' time".to_owned(),
        },
    ];
    if let Some(second) = level("L2") {
        tiles.push(Tile {
            name: "Misses of L2",
            value: second.misses_per_1000.map_or("-".to_owned(), figure),
            note: "in 1000 instructions".to_owned(),
        });
    }
    for tile in &mut tiles {
        tile.value = micro(std::mem::take(&mut tile.value));
    }
    tiles
}

/// A share as per cent, one decimal.
fn bar_of(share: f64) -> f64 {
    (share.clamp(0.0, 1.0) * 1_000.0).round() / 10.0
}

fn time(summary: &SimSummary) -> Vec<Part> {
    let part = |(place, part): (usize, &TimePart)| Part {
        name: part.part.clone(),
        meaning: meaning(&part.part),
        time: micro(simulated(part.time_fs)),
        share: percent(part.share),
        bar: bar_of(part.share),
        colour: drawings::colour(place),
    };
    summary.time.iter().enumerate().filter(|(_, part)| part.time_fs > 0).map(part).collect()
}

fn path(summary: &SimSummary) -> Vec<Part> {
    let parts = summary.critical_path.iter().flat_map(|path| &path.parts).filter(|part| part.time_fs > 0);
    let part = |part: &TimePart| Part {
        name: part.part.clone(),
        meaning: "",
        time: micro(simulated(part.time_fs)),
        share: percent(part.share),
        bar: bar_of(part.share),
        colour: "",
    };
    parts.map(part).collect()
}

fn misses(used: &[&CoreFigures]) -> Vec<Figure> {
    let figure =
        |name, of: fn(&CoreFigures) -> (u64, u64)| drawings::ratios(used, of).map(|svg| Figure { name, svg });
    let found = [
        figure("First level, data", |core| (core.data_misses, core.data_looks)),
        figure("First level, instructions", |core| (core.fetch_misses, core.fetches)),
    ];
    found.into_iter().flatten().collect()
}

fn left_out(summary: &SimSummary) -> Option<String> {
    let more = summary.threads.len().saturating_sub(THREADS);
    (more > 0).then(|| format!("{} more threads are in summary.json.", count(more as u64)))
}

fn changed(summary: &SimSummary) -> Table {
    let rows = summary.facts.differences.iter();
    let rows = rows.map(|one| vec![one.key.clone(), one.value.clone(), one.default.clone()]);
    Table::new(&["number", "here", "default"], rows)
}

fn facts(input: &SimInput<'_>) -> Vec<(String, String)> {
    let (summary, run) = (input.summary, input.run);
    let facts = &summary.facts;
    let mut rows = vec![
        ("Run".to_owned(), run.directory.clone()),
        ("Command".to_owned(), run.command.clone()),
        ("Program".to_owned(), program(summary)),
        ("Trace".to_owned(), format!("{} steps, {} octets", count(facts.steps), count(facts.octets))),
        ("Traced by".to_owned(), facts.tool.clone()),
        ("Instruction set".to_owned(), facts.architecture.clone()),
        ("Simulated".to_owned(), micro(ran_for(summary))),
        ("Took".to_owned(), input.speed.map(took).map(micro).unwrap_or_default()),
        ("Started".to_owned(), run.started.clone()),
        ("Host".to_owned(), run.host.clone()),
    ];
    rows.extend(run.facts.iter().cloned());
    rows.retain(|(_, value)| !value.is_empty());
    rows
}
