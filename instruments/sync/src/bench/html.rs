//! The HTML report of `quaver sync bench`: the paper's tables 4 to 8 with this machine in them, its figures 7 to 9 of the programs that
//! ran, and what recording costs. Drawings are made here, so that they need no scripts.

use crate::bench::page::{
    CORRELATION_COLUMNS, CORRELATION_TITLE, COST_COLUMNS, PAPER_WORDS, SHARE_COLUMNS, SUITES, conditions,
    correlation_rows, cost_rows, cost_title, late_columns, late_rows, late_title, share_rows, share_words,
    short,
};
use crate::html::drawings::{break_down, class_colour, decades, sizes};
use quaver_page::RunFacts;
use quaver_page::html::ReportError;
use quaver_page::html::drawn::{Frame, write_drawn};
use quaver_page::html::page::{Tile, micro};
use quaver_page::html::table::{Table, Titled};
use quaver_page::units::{count, percent};
use quaver_sync_analysis::bench::{BenchSummary, CostVerdict, ProgramFigures};
use quaver_sync_analysis::sync::SyncClass;
use serde::Serialize;
use std::io::Write;

const PAGE: &str = include_str!("../../../../core/page/assets/report/sync_bench.html");

/// Writes the report.
pub fn write_html(out: &mut dyn Write, summary: &BenchSummary, run: &RunFacts) -> Result<(), ReportError> {
    write_drawn(out, PAGE, &Page::of(summary, run))
}

/// Everything that the template shows. Strings of others are escaped by the template; drawings escape what they hold.
#[derive(Serialize)]
struct Page {
    #[serde(flatten)]
    frame: Frame,
    late: Vec<Titled>,
    distributions: Vec<Drawn>,
    break_down: Option<String>,
    keys: Vec<(String, String)>,
    share_words: String,
    shares: Table,
    correlations: Titled,
    cost: Titled,
    paper: &'static str,
}

#[derive(Serialize)]
struct Drawn {
    name: String,
    words: String,
    svg: String,
}

impl Page {
    fn of(summary: &BenchSummary, run: &RunFacts) -> Self {
        let late = SUITES.into_iter().filter(|suite| summary.programs.iter().any(|one| one.suite == *suite));
        let late = late.map(|suite| Titled {
            title: micro(late_title(suite)),
            table: Table::new(&late_columns(suite), late_rows(summary, suite)),
        });
        let shares: Vec<(String, [f64; 6])> = summary
            .programs
            .iter()
            .filter_map(|one| Some((short(&one.program), one.class_shares?)))
            .collect();
        Self {
            frame: Frame::of("sync bench", run, facts(summary)).saying(
                verdict(summary),
                summary.complete,
                tiles(summary),
                &summary.warnings,
            ),
            late: late.collect(),
            distributions: distributions(summary),
            break_down: (!shares.is_empty()).then(|| break_down(&shares)),
            keys: SyncClass::ALL
                .map(|class| {
                    let words = format!("{} ({})", class.name(), class.short());
                    (words, format!("background:{}", class_colour(class)))
                })
                .to_vec(),
            share_words: share_words(summary).unwrap_or_default(),
            shares: Table::new(&SHARE_COLUMNS, share_rows(summary)),
            correlations: Titled {
                title: CORRELATION_TITLE.to_owned(),
                table: Table::new(&CORRELATION_COLUMNS, correlation_rows(summary)),
            },
            cost: Titled { title: cost_title(), table: Table::new(&COST_COLUMNS, cost_rows(summary)) },
            paper: PAPER_WORDS,
        }
    }
}

fn verdict(summary: &BenchSummary) -> String {
    let late = |one: &ProgramFigures| one.row.is_some_and(|row| row.events_per_ms > 0.0);
    let number = summary.programs.iter().filter(|one| late(one)).count();
    format!("{number} of {} programs had threads that were late.", summary.programs.len())
}

fn tiles(summary: &BenchSummary) -> Vec<Tile> {
    let mut tiles = vec![Tile {
        name: "Programs",
        value: summary.programs.len().to_string(),
        note: format!("{} threads, {} CPUs", summary.threads, summary.cpus),
    }];
    let costs = || summary.programs.iter().filter_map(|one| Some((one, one.cost.as_ref()?)));
    if let Some((one, cost)) = costs().max_by(|a, b| a.1.overhead.total_cmp(&b.1.overhead)) {
        let above = costs().filter(|(_, cost)| cost.verdict == CostVerdict::Above).count();
        tiles.push(Tile {
            name: "Dearest recording",
            value: format!("{:+.1} %", cost.overhead * 100.0),
            note: format!("{}; {above} of {} above the limit", short(&one.program), costs().count()),
        });
    }
    let (matched, all) = summary
        .programs
        .iter()
        .flat_map(|one| &one.runs)
        .fold((0, 0), |sum, run| (sum.0 + run.matched, sum.1 + run.wake_ups));
    if all > 0 {
        let note = format!("of {} wake-ups", count(all));
        tiles.push(Tile { name: "Matched", value: percent(matched as f64 / all as f64), note });
    }
    tiles
}

/// One scale for all, so that they can be compared.
fn distributions(summary: &BenchSummary) -> Vec<Drawn> {
    let drawn = || summary.programs.iter().filter(|one| !one.distribution.is_empty());
    let scale = decades(drawn().flat_map(|one| &one.distribution));
    let of_paper = |one: &ProgramFigures| match one.of_paper().map(|paper| paper.program) {
        Some("fmm") => ", the paper's figure 7",
        Some("bodytrack") => ", the paper's figure 8",
        _ => "",
    };
    drawn()
        .map(|one| {
            let late: u64 = one.distribution.iter().map(|bin| bin.count).sum();
            Drawn {
                name: one.program.clone(),
                words: format!("{} late in {} runs{}", count(late), one.runs.len(), of_paper(one)),
                svg: sizes(&one.distribution, scale),
            }
        })
        .collect()
}

fn facts(summary: &BenchSummary) -> [(&'static str, String); 2] {
    [("How", conditions(summary)), ("The kernel's side", summary.blind.clone().unwrap_or_default())]
}
