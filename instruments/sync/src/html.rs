//! The HTML report of `quaver sync`: threads over time with who woke whom, the six classes and their distributions, who was late
//! and why. Drawings are made here, so that they need no scripts.

pub mod drawings;

use crate::compensate::page as sync_compensation;
use crate::digest::{CompensationFacts, SyncSummary};
use crate::page::{
    CAUSE_COLUMNS, CLASS_COLUMNS, CORE_COLUMNS, FUTEX_COLUMNS, OFFENDER_COLUMNS, SyncInput, THREAD_COLUMNS,
    beside, cause_rows, class_cells, core_rows, counted, ended, futex_rows, futex_sentence, longest,
    offender_cells, path_rows, path_sentences, per_ms, thread_rows, wait_sentence,
};
use quaver_page::html::ReportError;
use quaver_page::html::drawn::{Frame, write_drawn};
use quaver_page::html::page::{Tile, micro};
use quaver_page::html::table::Table;
use quaver_page::units::{count, duration, percent};
use quaver_sync_analysis::sync::SyncClass;
use serde::Serialize;
use std::io::Write;

const PAGE: &str = include_str!("../../../core/page/assets/report/sync.html");
/// Waits that are drawn one by one.
const DRAWN_WAITS: usize = 6;

/// Writes the report: some hundred kB, at most 2 MB, whatever the length of the run.
pub fn write_html(out: &mut dyn Write, input: &SyncInput<'_>) -> Result<(), ReportError> {
    write_drawn(out, PAGE, &Page::of(input))
}

/// Everything that the template shows. Strings of others are escaped by the template; drawings escape what they hold.
#[derive(Serialize)]
struct Page {
    #[serde(flatten)]
    frame: Frame,
    counted: String,
    classes: Table,
    beside: Vec<String>,
    distributions: Vec<Distribution>,
    lanes: Option<drawings::Overview>,
    waits: Vec<DrawnWait>,
    causes: Table,
    kernel_looked: bool,
    objects: Table,
    call_sites: Table,
    threads: Table,
    cores: Table,
    path: Vec<PathPart>,
    path_words: Vec<String>,
    futex: Table,
    futex_words: String,
    processes: Table,
    compensation: Option<Compensation>,
}

#[derive(Serialize)]
struct Compensation {
    note: String,
    figures: Table,
    steps: Table,
    words: Vec<String>,
}

impl Compensation {
    fn of(facts: &CompensationFacts) -> Self {
        let figures = sync_compensation::rows(facts).into_iter();
        let (heads, steps) = sync_compensation::steps(facts);
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let words = sync_compensation::alarms(facts).into_iter().chain(sync_compensation::sentences(facts));
        Self {
            note: micro(sync_compensation::note(facts)),
            figures: Table::new(&["", ""], figures.map(|(name, value)| vec![name.to_owned(), value])),
            steps: Table::new(&heads, steps),
            words: words.map(micro).collect(),
        }
    }
}

#[derive(Serialize)]
struct Distribution {
    name: &'static str,
    words: String,
    svg: String,
}

#[derive(Serialize)]
struct DrawnWait {
    words: String,
    svg: String,
}

#[derive(Serialize)]
struct PathPart {
    name: &'static str,
    time: String,
    share: String,
    bar: f64,
}

impl Page {
    fn of(input: &SyncInput<'_>) -> Self {
        let summary = input.summary;
        let all = |named: &[crate::digest::Named]| -> Vec<Vec<String>> {
            named.iter().filter(|one| one.figures.late.count > 0).map(offender_cells).collect()
        };
        Self {
            frame: Frame::of("sync", input.run, facts(summary)).saying(
                verdict(summary),
                summary.complete,
                tiles(summary),
                &summary.warnings,
            ),
            counted: micro(counted(summary)),
            classes: Table::new(&CLASS_COLUMNS, summary.results.classes.iter().map(class_cells)),
            beside: beside(summary).into_iter().map(micro).collect(),
            distributions: distributions(summary),
            lanes: drawings::overview(input),
            waits: chosen(input),
            causes: Table::new(&CAUSE_COLUMNS, cause_rows(summary)),
            kernel_looked: summary.facts.kernel.looked(),
            objects: Table::new(&OFFENDER_COLUMNS, all(&summary.objects)),
            call_sites: Table::new(&OFFENDER_COLUMNS, all(&summary.call_sites)),
            threads: Table::new(&THREAD_COLUMNS, thread_rows(summary)),
            cores: Table::new(&CORE_COLUMNS, core_rows(summary)),
            path: path_parts(summary),
            path_words: path_sentences(summary),
            futex: Table::new(&FUTEX_COLUMNS, futex_rows(summary)),
            futex_words: futex_sentence(summary).unwrap_or_default(),
            processes: processes(summary),
            compensation: summary.facts.compensation.as_ref().map(Compensation::of),
        }
    }
}

fn verdict(summary: &SyncSummary) -> String {
    let late = &summary.results.late;
    if late.count == 0 {
        let threshold = duration(summary.results.settings.threshold_ns.cast_signed());
        return format!("No synchronisation took more than {threshold}.");
    }
    let worst = summary.results.classes.iter().max_by_key(|one| one.late.total_ns);
    let class = worst.map_or_else(String::new, |one| {
        format!(" Most of it ({}) is {}.", percent(one.share.unwrap_or(0.0)), one.class.name())
    });
    format!("Threads lost {} waking each other up.{class}", duration(late.total_ns.cast_signed()))
}

fn tiles(summary: &SyncSummary) -> Vec<Tile> {
    let results = &summary.results;
    let path = &results.critical_path;
    let mut tiles = vec![
        Tile {
            name: "Sync jitter",
            value: duration(results.late.total_ns.cast_signed()),
            note: format!("{} late operations", count(results.late.count)),
        },
        Tile {
            name: "Late operations a ms",
            value: format!("{:.3}", per_ms(&results.late, summary)),
            note: format!("over {}", duration(results.duration_ns().cast_signed())),
        },
        Tile {
            name: "Largest",
            value: if results.late.count == 0 {
                "-".to_owned()
            } else {
                duration(results.late.max_ns.cast_signed())
            },
            note: counted(summary).split(',').next_back().unwrap_or_default().trim().to_owned(),
        },
    ];
    if path.length_ns > 0 {
        tiles.push(Tile {
            name: "On the critical path",
            value: percent(path.sync_jitter_ns as f64 / path.length_ns as f64),
            note: format!(
                "{} of {}",
                duration(path.sync_jitter_ns.cast_signed()),
                duration(path.length_ns.cast_signed())
            ),
        });
    }
    if let Some(share) = results.coverage.share() {
        let note = format!("of {} wake-ups", count(results.coverage.wake_ups));
        tiles.push(Tile { name: "Matched", value: percent(share), note });
    }
    tiles
}

fn distributions(summary: &SyncSummary) -> Vec<Distribution> {
    let late = summary.results.classes.iter().filter(|one| one.late.count > 0);
    late.map(|one| Distribution {
        name: one.class.name(),
        words: micro(format!(
            "{}: {} late, {} in all",
            one.class.short(),
            count(one.late.count),
            duration(one.late.total_ns.cast_signed())
        )),
        svg: drawings::histogram(one, &summary.results),
    })
    .collect()
}

/// The longest wait of each class, then the longest of all.
fn chosen(input: &SyncInput<'_>) -> Vec<DrawnWait> {
    let all = longest(input.summary);
    let first = |class: SyncClass| all.iter().position(|wait| wait.class == class);
    let mut places: Vec<usize> = SyncClass::ALL.into_iter().filter_map(first).chain(0..all.len()).collect();
    let mut seen = std::collections::BTreeSet::new();
    places.retain(|place| seen.insert(*place));
    places.truncate(DRAWN_WAITS);
    places.sort_unstable();
    let drawn = |place: usize| DrawnWait {
        words: micro(wait_sentence(all[place], input.names, input.lanes.from_ns)),
        svg: drawings::wait(input, all[place]),
    };
    places.into_iter().map(drawn).collect()
}

fn path_parts(summary: &SyncSummary) -> Vec<PathPart> {
    let part = |(name, ns, share): (&'static str, u64, f64)| PathPart {
        name,
        time: micro(duration(ns.cast_signed())),
        share: percent(share),
        bar: (share.clamp(0.0, 1.0) * 1_000.0).round() / 10.0,
    };
    path_rows(summary).into_iter().map(part).collect()
}

fn processes(summary: &SyncSummary) -> Table {
    let rows = summary.processes.iter().map(|one| {
        vec![
            format!("{} ({})", one.pid, one.exe),
            count(one.threads as u64),
            count(one.uncontended.free_locks),
            count(one.uncontended.free_unlocks),
            count(one.uncontended.busy_tries),
            count(one.lost),
        ]
    });
    let columns =
        ["process", "threads", "free locks", "free unlocks", "tries that found it taken", "records lost"];
    Table::new(&columns, rows)
}

fn facts(summary: &SyncSummary) -> [(&'static str, String); 9] {
    let kernel = &summary.facts.kernel;
    [
        ("Program", summary.facts.program.join(" ")),
        ("Its end", summary.facts.status.map(ended).unwrap_or_default()),
        ("Duration", duration(summary.results.duration_ns().cast_signed())),
        ("CPUs that it may use", summary.facts.cpus.map(|cpus| cpus.to_string()).unwrap_or_default()),
        ("Kernel", kernel.tier.clone()),
        ("Why not better", kernel.reason.clone().unwrap_or_default()),
        ("Blind to", kernel.blind.join(", ")),
        ("Events", count(summary.results.counts.events)),
        ("Events of the kernel", count(summary.results.counts.kernel_events)),
    ]
}
