//! The page of `quaver sync bench`: the paper's tables with this machine beside it.

use super::table::{Align, Style, Table, wrap};
use super::units::{count, percent};
use quaver_analysis::sync_bench::paper::{self, CORRELATIONS, PROGRAMS, PaperProgram, Suite};
use quaver_analysis::sync_bench::{BenchSummary, Cost, CostVerdict, ProgramFigures, TableRow};

const WIDTH: usize = 100;
/// Mean shares of tables 4 (six of the eight) and 5, percent.
const PAPER_MEANS: [f64; 2] = [93.0, 91.0];

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
    let mut out = String::new();
    let complete = if summary.complete { "" } else { ", interrupted" };
    out.push_str(&format!(
        "{}\n{}, threshold {} us{}, barriers by {}{complete}\n",
        style.bold("Threaded programs, recorded and unrecorded in turns"),
        threads_and_cpus(summary),
        summary.threshold_ns as f64 / 1e3,
        if summary.count_all { " (counted whole)" } else { "" },
        summary.barrier,
    ));
    for warning in &summary.warnings {
        wrap(warning, WIDTH).iter().for_each(|line| out.push_str(&format!("{}\n", style.caution(line))));
    }
    for suite in Suite::ALL {
        if summary.programs.iter().any(|one| one.suite == suite) {
            late_table(&mut out, summary, suite, style);
        }
    }
    share_table(&mut out, summary, style);
    correlation_table(&mut out, summary, style);
    cost_table(&mut out, summary, style);
    let words = "The paper's figures are of 16 threads on four Xeons of 2009 under Linux 2.6.31; its slowdowns are of its \
                 simulator, ours are what the jitter on the critical path adds to the rest of it.";
    out.push('\n');
    wrap(words, WIDTH).iter().for_each(|line| out.push_str(&format!("{}\n", style.dim(line))));
    out.push_str(&format!("{}\n", style.dim(&format!("run: {run}"))));
    out
}

fn threads_and_cpus(summary: &BenchSummary) -> String {
    let plural = |number: u32| if number == 1 { "" } else { "s" };
    let (threads, cpus) = (summary.threads, summary.cpus);
    format!("{threads} thread{} on {cpus} CPU{}", plural(threads), plural(cpus))
}

fn heading(out: &mut String, style: Style, words: &str) {
    out.push_str(&format!("\n{}\n", style.bold(words)));
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

fn late_table(out: &mut String, summary: &BenchSummary, suite: Suite, style: Style) {
    let table_number = if suite == Suite::Splash2 { 6 } else { 7 };
    let words = format!(
        "Jitter of programs like those of {} (table {table_number}; the paper in brackets)",
        suite.name()
    );
    heading(out, style, &words);
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        ("program", Align::Left),
        right("events/ms"),
        right(""),
        right("mean us"),
        right(""),
        right("jitter us/ms"),
        right(""),
        right("slowdown %"),
        right(""),
        ("mostly", Align::Left),
    ]);
    for found in summary.programs.iter().filter(|found| found.suite == suite) {
        table.row(late_cells(found));
    }
    out.push_str(&table.render(style));
}

fn late_cells(found: &ProgramFigures) -> Vec<String> {
    let of_paper = paper::program(&found.program);
    let theirs = |figure: fn(&PaperProgram) -> f64| {
        of_paper.map_or_else(String::new, |one| format!("({})", number(figure(one))))
    };
    let ours = |figure: fn(&TableRow) -> Option<f64>| some(found.row.as_ref().and_then(figure));
    vec![
        found.program.clone(),
        ours(|row| Some(row.events_per_ms)),
        theirs(|one| one.events_per_ms),
        ours(|row| row.mean_us),
        theirs(|one| one.mean_us),
        ours(|row| Some(row.late_us_per_ms)),
        theirs(|one| one.late_us_per_ms),
        ours(|row| row.slowdown_percent),
        theirs(|one| one.slowdown_percent),
        mostly(found),
    ]
}

/// The class with the most jitter.
fn mostly(found: &ProgramFigures) -> String {
    use quaver_analysis::sync::SyncClass;
    let Some(shares) = found.class_shares else { return String::new() };
    let largest =
        SyncClass::ALL.into_iter().max_by(|a, b| shares[*a as usize].total_cmp(&shares[*b as usize]));
    largest.map_or_else(String::new, |class| format!("{} {}", class.short(), percent(shares[class as usize])))
}

fn share_table(out: &mut String, summary: &BenchSummary, style: Style) {
    heading(out, style, "Sync jitter over all jitter (tables 4 and 5)");
    if let Some(reason) = &summary.blind {
        let words = format!(
            "  Not looked at: {reason}. Other jitter (interrupts, preemption, system calls) is the kernel's to tell."
        );
        wrap(&words, WIDTH).iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    }
    if summary.programs.iter().all(|found| found.sync_share.is_none()) {
        return;
    }
    let mut table = Table::new(&[
        ("program", Align::Left),
        ("here", Align::Right),
        ("in the paper", Align::Right),
        ("suite", Align::Left),
    ]);
    for found in &summary.programs {
        let theirs = paper::program(&found.program)
            .map_or_else(String::new, |one| format!("{} %", one.sync_share_percent));
        let ours = found.sync_share.map_or_else(|| "-".to_owned(), percent);
        table.row([found.program.clone(), ours, theirs, found.suite.name().to_owned()]);
    }
    for ((suite, ours), theirs) in Suite::ALL.into_iter().zip(summary.mean_sync_share).zip(PAPER_MEANS) {
        if let Some(ours) = ours {
            let without = if suite == Suite::Splash2 { "mean without lu, radix" } else { "mean" };
            table.row([without.to_owned(), percent(ours), format!("{theirs} %"), suite.name().to_owned()]);
        }
    }
    out.push_str(&table.render(style));
}

fn correlation_table(out: &mut String, summary: &BenchSummary, style: Style) {
    heading(
        out,
        style,
        "Correlation of the slowdown with the columns before it (table 8; the paper in brackets)",
    );
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[("", Align::Left), right("events/ms"), right("mean"), right("us/ms")]);
    for ((suite, ours), theirs) in Suite::ALL.into_iter().zip(summary.correlations).zip(CORRELATIONS) {
        let without = if suite == Suite::Splash2 { " without lu, radix" } else { "" };
        let mut cells = vec![format!("{}{without}", suite.name())];
        cells.extend(ours.into_iter().zip(theirs).map(|(ours, theirs)| format!("{} ({theirs})", some(ours))));
        table.row(cells);
    }
    out.push_str(&table.render(style));
}

fn cost_table(out: &mut String, summary: &BenchSummary, style: Style) {
    let limit = Cost::LIMIT * 100.0;
    heading(
        out,
        style,
        &format!("What recording costs (whole programs; at most {limit} % is what it should)"),
    );
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        ("program", Align::Left),
        right("pairs"),
        right("unrecorded"),
        right("recorded"),
        right("overhead"),
        right("95 % interval"),
        ("", Align::Left),
        right("events"),
        right("wake-ups matched"),
    ]);
    for found in &summary.programs {
        table.row(cost_cells(found));
    }
    out.push_str(&table.render(style));
}

fn cost_cells(found: &ProgramFigures) -> Vec<String> {
    let signed = |value: f64| format!("{:+.1} %", value * 100.0);
    let milliseconds = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
    let events = found.runs.iter().map(|run| run.events).sum::<u64>() / found.runs.len().max(1) as u64;
    // So many nines that one lost wake-up in all shows.
    let matched = found.coverage().map_or_else(|| "-".to_owned(), |share| format!("{:.4} %", share * 100.0));
    let Some(cost) = &found.cost else {
        return vec![found.program.clone(), "0".to_owned()];
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
        found.program.clone(),
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
