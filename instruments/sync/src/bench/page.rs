//! The page of `quaver sync bench`: the paper's tables with this machine beside it.

use quaver_page::table::{Align, Style, Table, wrap};
use quaver_page::units::{count, percent};
use quaver_sync_analysis::bench::paper::{CORRELATIONS, PROGRAMS, PaperProgram, Suite};
use quaver_sync_analysis::bench::{BenchSummary, Cost, CostVerdict, ProgramFigures, TableRow};
use quaver_sync_analysis::sync::SyncClass;

const WIDTH: usize = 100;
/// Longest name of a program in a table: own ones are whole commands.
const LONGEST_NAME: usize = 32;
/// Mean shares of tables 4 (six of the eight) and 5, percent.
const PAPER_MEANS: [f64; 2] = [93.0, 91.0];
/// All kinds of programs, in the order of their tables.
pub(super) const SUITES: [Suite; 3] = [Suite::Splash2, Suite::Parsec, Suite::Own];

/// The programs, for `--list`.
pub fn list() -> String {
    let mut table =
        Table::new(&[("program", Align::Left), ("as in", Align::Left), ("called there", Align::Left)]);
    for program in PROGRAMS {
        table.row([program.program, program.suite.name(), program.paper]);
    }
    table.render(Style::PLAIN)
}

/// The whole page.
pub fn page(summary: &BenchSummary, run: &str, style: Style) -> String {
    let mut out = format!(
        "{}\n{}\n",
        style.bold("Threaded programs, recorded and unrecorded in turns"),
        conditions(summary)
    );
    for warning in &summary.warnings {
        wrap(warning, WIDTH).iter().for_each(|line| out.push_str(&format!("{}\n", style.caution(line))));
    }
    for suite in SUITES {
        if of_suite(summary, suite).next().is_some() {
            heading(&mut out, style, &late_title(suite));
            print(&mut out, &late_columns(suite), late_rows(summary, suite), style);
        }
    }
    share_table(&mut out, summary, style);
    heading(&mut out, style, CORRELATION_TITLE);
    print(&mut out, &CORRELATION_COLUMNS, correlation_rows(summary), style);
    heading(&mut out, style, &cost_title());
    print(&mut out, &COST_COLUMNS, cost_rows(summary), style);
    out.push('\n');
    wrap(PAPER_WORDS, WIDTH).iter().for_each(|line| out.push_str(&format!("{}\n", style.dim(line))));
    out.push_str(&format!("{}\n", style.dim(&format!("run: {run}"))));
    out
}

/// Whose figures those of the paper are.
pub(super) const PAPER_WORDS: &str = "The paper's figures are of 16 threads on four Xeons of 2009 under Linux 2.6.31; its slowdowns \
                                      are of its simulator, ours are what the jitter on the critical path adds to the rest of it.";

/// How was measured, in a line.
pub(super) fn conditions(summary: &BenchSummary) -> String {
    format!(
        "{}, threshold {} us{}, barriers by {}{}",
        threads_and_cpus(summary),
        summary.threshold_ns as f64 / 1e3,
        if summary.count_all { " (counted whole)" } else { "" },
        summary.barrier,
        if summary.complete { "" } else { ", interrupted" },
    )
}

fn threads_and_cpus(summary: &BenchSummary) -> String {
    let plural = |number: u32| if number == 1 { "" } else { "s" };
    let (threads, cpus) = (summary.threads, summary.cpus);
    format!("{threads} thread{} on {cpus} CPU{}", plural(threads), plural(cpus))
}

fn of_suite(summary: &BenchSummary, suite: Suite) -> impl Iterator<Item = &ProgramFigures> {
    summary.programs.iter().filter(move |found| found.suite == suite)
}

fn heading(out: &mut String, style: Style, words: &str) {
    out.push_str(&format!("\n{}\n", style.bold(words)));
}

/// The first column is to the left, and so is each that holds words.
fn print(out: &mut String, columns: &[&'static str], rows: Vec<Vec<String>>, style: Style) {
    let words = ["mostly", "verdict", "suite"];
    let align = |(place, name): (usize, &&'static str)| {
        (*name, if place == 0 || words.contains(name) { Align::Left } else { Align::Right })
    };
    let columns: Vec<(&'static str, Align)> = columns.iter().enumerate().map(align).collect();
    let mut table = Table::new(&columns);
    rows.into_iter().for_each(|row| {
        table.row(row);
    });
    out.push_str(&table.render(style));
}

/// A number to three digits or so.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn some(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// What a program is called in a table.
pub(super) fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// Head of a suite's table.
pub(super) fn late_title(suite: Suite) -> String {
    match suite {
        Suite::Splash2 => {
            "Jitter of programs like those of Splash-2 (table 6; the paper in brackets)".to_owned()
        }
        Suite::Parsec => {
            "Jitter of programs like those of Parsec (table 7; the paper in brackets)".to_owned()
        }
        Suite::Own => "Jitter of your own programs (columns of tables 6 and 7)".to_owned(),
    }
}

/// Columns of a suite's table.
pub(super) fn late_columns(suite: Suite) -> Vec<&'static str> {
    let figures = ["events/ms", "mean us", "jitter us/ms", "slowdown %"];
    let mut columns = vec!["program"];
    for name in figures {
        columns.push(name);
        if suite != Suite::Own {
            columns.push("");
        }
    }
    columns.push("mostly");
    columns
}

/// Its rows.
pub(super) fn late_rows(summary: &BenchSummary, suite: Suite) -> Vec<Vec<String>> {
    of_suite(summary, suite).map(late_cells).collect()
}

/// A figure of ours and the same of the paper's.
type Column = (fn(&TableRow) -> Option<f64>, fn(&PaperProgram) -> f64);

fn late_cells(found: &ProgramFigures) -> Vec<String> {
    let figures: [Column; 4] = [
        (|row| Some(row.events_per_ms), |one| one.events_per_ms),
        (|row| row.mean_us, |one| one.mean_us),
        (|row| Some(row.late_us_per_ms), |one| one.late_us_per_ms),
        (|row| row.slowdown_percent, |one| one.slowdown_percent),
    ];
    let mut cells = vec![short(&found.program)];
    for (ours, theirs) in figures {
        cells.push(some(found.row.as_ref().and_then(ours)));
        cells.extend(found.of_paper().map(|one| format!("({})", number(theirs(one)))));
    }
    cells.push(mostly(found));
    cells
}

/// The class with the most jitter.
fn mostly(found: &ProgramFigures) -> String {
    let Some(shares) = found.class_shares else { return String::new() };
    let largest =
        SyncClass::ALL.into_iter().max_by(|a, b| shares[*a as usize].total_cmp(&shares[*b as usize]));
    largest.map_or_else(String::new, |class| format!("{} {}", class.short(), percent(shares[class as usize])))
}

pub(super) const SHARE_TITLE: &str = "Sync jitter over all jitter (tables 4 and 5)";
pub(super) const SHARE_COLUMNS: [&str; 4] = ["program", "here", "in the paper", "suite"];

/// Why there are none.
pub(super) fn share_words(summary: &BenchSummary) -> Option<String> {
    let reason = summary.blind.as_ref()?;
    Some(format!(
        "Not looked at: {reason}. Other jitter (interrupts, preemption, system calls) is the kernel's to tell."
    ))
}

/// Rows of tables 4 and 5; none where nobody looked at the kernel.
pub(super) fn share_rows(summary: &BenchSummary) -> Vec<Vec<String>> {
    if summary.programs.iter().all(|found| found.sync_share.is_none()) {
        return Vec::new();
    }
    let ours = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    let row = |found: &ProgramFigures| {
        let theirs = found.of_paper().map_or_else(String::new, |one| format!("{} %", one.sync_share_percent));
        vec![short(&found.program), ours(found.sync_share), theirs, found.suite.name().to_owned()]
    };
    let mut rows: Vec<Vec<String>> = summary.programs.iter().map(row).collect();
    for ((suite, mean), theirs) in Suite::ALL.into_iter().zip(summary.mean_sync_share).zip(PAPER_MEANS) {
        if mean.is_some() {
            let name = if suite == Suite::Splash2 { "mean without lu, radix" } else { "mean" };
            rows.push(vec![name.to_owned(), ours(mean), format!("{theirs} %"), suite.name().to_owned()]);
        }
    }
    if let mean @ Some(_) = summary.own_mean_sync_share {
        rows.push(vec!["mean".to_owned(), ours(mean), String::new(), Suite::Own.name().to_owned()]);
    }
    rows
}

fn share_table(out: &mut String, summary: &BenchSummary, style: Style) {
    heading(out, style, SHARE_TITLE);
    for line in share_words(summary).iter().flat_map(|words| wrap(&format!("  {words}"), WIDTH)) {
        out.push_str(&format!("  {line}\n"));
    }
    let rows = share_rows(summary);
    if !rows.is_empty() {
        print(out, &SHARE_COLUMNS, rows, style);
    }
}

pub(super) const CORRELATION_TITLE: &str =
    "Correlation of the slowdown with the columns before it (table 8; the paper in brackets)";
pub(super) const CORRELATION_COLUMNS: [&str; 4] = ["", "events/ms", "mean", "us/ms"];

/// Rows of table 8.
pub(super) fn correlation_rows(summary: &BenchSummary) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for ((suite, ours), theirs) in Suite::ALL.into_iter().zip(summary.correlations).zip(CORRELATIONS) {
        let without = if suite == Suite::Splash2 { " without lu, radix" } else { "" };
        let mut cells = vec![format!("{}{without}", suite.name())];
        cells.extend(ours.into_iter().zip(theirs).map(|(ours, theirs)| format!("{} ({theirs})", some(ours))));
        rows.push(cells);
    }
    if of_suite(summary, Suite::Own).next().is_some() {
        let mut cells = vec![Suite::Own.name().to_owned()];
        cells.extend(summary.own_correlations.map(some));
        rows.push(cells);
    }
    rows
}

/// Head of the table of costs.
pub(super) fn cost_title() -> String {
    format!("What recording costs (whole programs; at most {} % is what it should)", Cost::LIMIT * 100.0)
}

pub(super) const COST_COLUMNS: [&str; 9] = [
    "program",
    "pairs",
    "unrecorded",
    "recorded",
    "overhead",
    "95 % interval",
    "verdict",
    "events",
    "wake-ups matched",
];

/// Its rows.
pub(super) fn cost_rows(summary: &BenchSummary) -> Vec<Vec<String>> {
    summary.programs.iter().map(cost_cells).collect()
}

fn cost_cells(found: &ProgramFigures) -> Vec<String> {
    let signed = |value: f64| format!("{:+.1} %", value * 100.0);
    let milliseconds = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
    let events = found.runs.iter().map(|run| run.events).sum::<u64>() / found.runs.len().max(1) as u64;
    // So many nines that one lost wake-up in all shows.
    let matched = found.coverage().map_or_else(|| "-".to_owned(), |share| format!("{:.4} %", share * 100.0));
    let Some(cost) = &found.cost else {
        return vec![short(&found.program), "0".to_owned()];
    };
    let interval = cost
        .interval
        .map_or_else(|| "-".to_owned(), |it| format!("{} to {}", signed(it.low), signed(it.high)));
    let verdict = match cost.verdict {
        CostVerdict::Within => "within",
        CostVerdict::Above => "above",
        CostVerdict::Undecided => "undecided",
    };
    vec![
        short(&found.program),
        count(cost.pairs),
        milliseconds(cost.unrecorded_ns),
        milliseconds(cost.recorded_ns),
        signed(cost.overhead),
        interval,
        verdict.to_owned(),
        count(events),
        matched,
    ]
}
