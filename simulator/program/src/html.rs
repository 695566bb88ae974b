//! The HTML report of `quaver sim run`: where the time went, threads over time, cycles an instruction, caches and sharing.
//! Drawings are made here, so that they need no scripts.

mod cure;
mod drawings;

use crate::digest::{CoreFigures, SimSummary, TimePart, machine_words};
use crate::page::{
    LEVEL_COLUMNS, SimInput, THREAD_COLUMNS, core_table, figure, level_cells, meaning, path_sentence,
    program, ran_for, simulated, thread_cells, took, traffic, verdict,
};
use quaver_page::html::ReportError;
use quaver_page::html::drawn::{Frame, write_drawn};
use quaver_page::html::page::{Tile, micro};
use quaver_page::html::table::Table;
use quaver_page::units::{count, percent};
use serde::Serialize;
use std::io::Write;

const PAGE: &str = include_str!("../../../core/page/assets/report/sim.html");
/// Rows of the table of threads.
const THREADS: usize = 256;

/// Writes the report: some hundred kB whatever the length of the run.
pub fn write_html(out: &mut dyn Write, input: &SimInput<'_>) -> Result<(), ReportError> {
    write_drawn(out, PAGE, &Page::of(input))
}

/// Name and colour.
type Key = (&'static str, &'static str);

/// Everything that the template shows. Strings of others are escaped by the template; drawings escape what they hold.
#[derive(Serialize)]
struct Page {
    #[serde(flatten)]
    frame: Frame,
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
            frame: Frame::of("sim run", input.run, facts(input)).saying(
                verdict(summary),
                summary.complete,
                tiles(summary),
                &summary.warnings,
            ),
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

fn facts(input: &SimInput<'_>) -> [(&'static str, String); 6] {
    let summary = input.summary;
    let facts = &summary.facts;
    [
        ("Program", program(summary)),
        ("Trace", format!("{} steps, {} octets", count(facts.steps), count(facts.octets))),
        ("Traced by", facts.tool.clone()),
        ("Instruction set", facts.architecture.clone()),
        ("Simulated", ran_for(summary)),
        ("Took", input.speed.map(took).unwrap_or_default()),
    ]
}
