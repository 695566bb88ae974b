//! The document of `quaver sync bench`: the paper's tables 4 to 8 with this machine in them, its figures 7 to 9 of the
//! programs that ran, and what recording costs.

use crate::drawing::{class_colour, distribution, sizes};
use quaver_instrument::facts::RunFacts;
use quaver_sync_analysis::bench::paper::{CORRELATIONS, PROGRAMS, PaperProgram, Suite};
use quaver_sync_analysis::bench::{BenchSummary, Cost, CostVerdict, ProgramFigures, TableRow};
use quaver_sync_analysis::sync::SyncClass;
use quaver_view::{
    Axis, BarSeries, Bars, Block, Cell, Chart, Colour, Column, Distribution, DistributionView, Document,
    Group, Quantity, Section, Table, Text, text,
};

/// Longest name of a program in a table: own ones are whole commands.
const LONGEST_NAME: usize = 32;
/// Mean shares of tables 4 (six of the eight) and 5.
const PAPER_MEANS: [f64; 2] = [0.93, 0.91];
/// All kinds of programs, in the order of their tables.
const SUITES: [Suite; 3] = [Suite::Splash2, Suite::Parsec, Suite::Own];
/// Whose figures those of the paper are.
const PAPER: &str = "The paper's figures are of 16 threads on four Xeons of 2009 under Linux 2.6.31. Its slowdowns come \
                     from its simulator. Ours are jitter on the critical path over the rest of the path.";

/// The programs, for `--list`.
pub fn list() -> String {
    PROGRAMS.iter().fold(format!("{:<16}{:<12}name in the paper\n", "program", "paper"), |list, program| {
        list + &format!("{:<16}{:<12}{}\n", program.program, program.suite.name(), program.paper)
    })
}

/// The document.
pub fn document(summary: &BenchSummary, run: &RunFacts) -> Document {
    let mut document = crate::head::document("quaver sync bench", run, conditions(summary));
    let untraced = summary.blind.as_ref().map(|reason| format!("none: {reason}"));
    document.fact("Kernel tracing", untraced.unwrap_or_default());
    document.verdict = verdict(summary);
    document.incomplete = !summary.complete;
    tiles(&mut document, summary);
    document.warnings.extend(summary.warnings.iter().map(Text::from));
    document.section(late(summary)).section(distributions(summary)).section(classes(summary));
    document.section(shares(summary)).section(costs(summary));
    document
}

/// How was measured, in a line.
fn conditions(summary: &BenchSummary) -> Text {
    let plural = |number: u32| if number == 1 { "" } else { "s" };
    let (threads, cpus) = (summary.threads, summary.cpus);
    text!(
        "threaded programs, alternately with and without the recorder; {threads} thread{} on {cpus} CPU{}, threshold {}{}, barriers \
         by {}{}",
        plural(threads),
        plural(cpus),
        Cell::Duration(summary.threshold_ns.cast_signed()),
        if summary.count_all { " (counted in full)" } else { "" },
        summary.barrier,
        if summary.complete { "" } else { ", interrupted" }
    )
}

fn verdict(summary: &BenchSummary) -> Option<Text> {
    let late = |one: &&ProgramFigures| one.row.is_some_and(|row| row.events_per_ms > 0.0);
    let measured = summary.programs.iter().filter(|one| one.row.is_some()).count();
    let number = summary.programs.iter().filter(late).count();
    (measured > 0).then(|| text!("{number} of {measured} programs had late operations."))
}

fn tiles(document: &mut Document, summary: &BenchSummary) {
    let note = text!("{} threads, {} CPUs", summary.threads, summary.cpus);
    document.tile("Programs", Cell::Count(summary.programs.len() as u64), note);
    let costs = || summary.programs.iter().filter_map(|one| Some((one, one.cost.as_ref()?)));
    if let Some((one, cost)) = costs().max_by(|a, b| a.1.overhead.total_cmp(&b.1.overhead)) {
        let above = costs().filter(|(_, cost)| cost.verdict == CostVerdict::Above).count();
        let note = text!("{}; {above} of {} above the limit", short(&one.program), costs().count());
        document.tile("Largest recording overhead", Cell::Share(cost.overhead), note);
    }
    let runs = || summary.programs.iter().flat_map(|one| &one.runs);
    let all: u64 = runs().map(|run| run.wake_ups).sum();
    if all > 0 {
        let matched = runs().map(|run| run.matched).sum();
        document.tile("Matched", Cell::part(matched, all), text!("of {} wake-ups", Cell::Count(all)));
    }
}

fn of_suite(summary: &BenchSummary, suite: Suite) -> impl Iterator<Item = &ProgramFigures> {
    summary.programs.iter().filter(move |found| found.suite == suite)
}

/// What a program is called in a table.
fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

fn figure(value: Option<f64>) -> Cell {
    value.map(Cell::Figure).into()
}

fn share(value: Option<f64>) -> Cell {
    value.map(Cell::Share).into()
}

/// Tables 6 to 8.
fn late(summary: &BenchSummary) -> Section {
    let mut section = Section::new("late", "Sync jitter of each program")
        .note("all recorded runs of a program")
        .link("Sync jitter");
    for suite in SUITES {
        if of_suite(summary, suite).next().is_some() {
            section.push(late_table(summary, suite));
        }
    }
    section.push(correlations(summary));
    section.with(Block::Note(PAPER.into()))
}

/// A figure of ours and the same of the paper's.
type Pair = (&'static str, fn(&TableRow) -> Option<f64>, fn(&PaperProgram) -> f64);

fn late_table(summary: &BenchSummary, suite: Suite) -> Table {
    let figures: [Pair; 4] = [
        ("events/ms", |row| Some(row.events_per_ms), |one| one.events_per_ms),
        ("mean, µs", |row| row.mean_us, |one| one.mean_us),
        ("jitter, µs/ms", |row| Some(row.late_us_per_ms), |one| one.late_us_per_ms),
        ("slowdown, %", |row| row.slowdown_percent, |one| one.slowdown_percent),
    ];
    let of_paper = suite != Suite::Own;
    let mut columns = vec![Column::new("program")];
    for (name, _, _) in figures {
        columns.push(name.into());
        columns.extend(of_paper.then(|| Column::new("paper").note(format!("{name} in the paper"))));
    }
    columns.push("mostly".into());
    let title = match suite {
        Suite::Splash2 => "Programs like those of Splash-2 (table 6)",
        Suite::Parsec => "Programs like those of Parsec (table 7)",
        Suite::Own => "Your own programs (columns of tables 6 and 7)",
    };
    let mut table = Table::new(columns).title(title);
    for found in of_suite(summary, suite) {
        let mut cells = vec![Cell::from(short(&found.program))];
        for (_, ours, theirs) in figures {
            cells.push(figure(found.row.as_ref().and_then(ours)));
            cells.extend(of_paper.then(|| figure(found.of_paper().map(theirs))));
        }
        cells.push(mostly(found).into());
        table.row(cells);
    }
    table
}

/// The class with the most jitter.
fn mostly(found: &ProgramFigures) -> String {
    let Some(shares) = found.class_shares else { return String::new() };
    let largest =
        SyncClass::ALL.into_iter().max_by(|a, b| shares[*a as usize].total_cmp(&shares[*b as usize]));
    largest.map_or_else(String::new, |class| {
        format!("{} {}", class.short(), Cell::Share(shares[class as usize]))
    })
}

/// Table 8.
fn correlations(summary: &BenchSummary) -> Table {
    let mut columns = vec![Column::new("suite")];
    for name in ["events/ms", "mean", "µs/ms"] {
        columns.extend([Column::new(name), Column::new("paper").note(format!("{name} in the paper"))]);
    }
    let mut table =
        Table::new(columns).title("Correlation of the slowdown with the columns before it (table 8)");
    let pairs = |ours: [Option<f64>; 3], theirs: [Option<f64>; 3]| {
        ours.into_iter().zip(theirs).flat_map(|(ours, theirs)| {
            [figure(ours), theirs.map_or(Cell::Empty, |value| Cell::Number { value, digits: 2 })]
        })
    };
    for ((suite, ours), theirs) in Suite::ALL.into_iter().zip(summary.correlations).zip(CORRELATIONS) {
        let without = if suite == Suite::Splash2 { " without lu, radix" } else { "" };
        let name = Cell::from(format!("{}{without}", suite.name()));
        table.row(std::iter::once(name).chain(pairs(ours, theirs.map(Some))));
    }
    if of_suite(summary, Suite::Own).next().is_some() {
        let name = Cell::from(Suite::Own.name());
        table.row(std::iter::once(name).chain(pairs(summary.own_correlations, [None; 3])));
    }
    table
}

/// Figures 7 and 8, on one scale so that they can be compared.
fn distributions(summary: &BenchSummary) -> Section {
    let drawn = || summary.programs.iter().filter(|one| !one.distribution.is_empty());
    let axis = sizes(drawn().flat_map(|one| &one.distribution));
    let charts = drawn().enumerate().map(|(at, one)| {
        let late: u64 = one.distribution.iter().map(|bin| bin.count).sum();
        let of_paper = match one.of_paper().map(|paper| paper.program) {
            Some("fmm") => ", the paper's figure 7",
            Some("bodytrack") => ", the paper's figure 8",
            _ => "",
        };
        let note = text!("{} late in {} runs{of_paper}", Cell::Count(late), one.runs.len());
        let series = std::iter::once((&one.program, Colour::Series(0), &one.distribution[..]));
        let plot = Distribution {
            x: axis.clone(),
            views: vec![DistributionView::Histogram],
            ..distribution(series)
        };
        Chart::new(format!("size-{at}"), &one.program, plot).note(note).still()
    });
    let charts: Vec<Chart> = charts.collect();
    if charts.is_empty() {
        return Section::new("sizes", "How late").with("No late operations.");
    }
    Section::new("sizes", "How late")
        .note("Late operations by size (figures 7 and 8 of the paper); one scale of sizes, each plot with its own counts.")
        .with(Group::beside(charts))
}

/// Figure 9.
fn classes(summary: &BenchSummary) -> Section {
    let known: Vec<(String, [f64; 6])> =
        summary.programs.iter().filter_map(|one| Some((short(&one.program), one.class_shares?))).collect();
    let section = Section::new("classes", "Jitter by class");
    if known.is_empty() {
        return section.with("No late operations.");
    }
    let series = SyncClass::ALL.map(|class| {
        let name = format!("{} ({})", class.name(), class.short());
        let values: Vec<f64> = known.iter().map(|(_, shares)| shares[class as usize]).collect();
        BarSeries::new(name, class_colour(class), values)
    });
    let plot = Bars {
        value: Axis::linear("share of the program's jitter", Quantity::Share).range(0.0, 1.0),
        categories: known.iter().map(|(name, _)| name.clone()).collect(),
        series: series.to_vec(),
        stacked: true,
        horizontal: true,
    };
    section
        .note("Share of each program's jitter by class (figure 9 of the paper).")
        .with(Chart::new("by-class", "Jitter by class", plot).still())
}

/// Tables 4 and 5; no rows without kernel tracing.
fn shares(summary: &BenchSummary) -> Section {
    let mut section = Section::new("share", "Sync jitter over all jitter (tables 4 and 5)").link("Share");
    if let Some(reason) = &summary.blind {
        section.push(text!(
            "Kernel not traced: {reason}. Other jitter (interrupts, preemption, system calls) needs it."
        ));
    }
    if summary.programs.iter().all(|found| found.sync_share.is_none()) {
        return section;
    }
    let mut table = Table::new(["program", "here", "in the paper", "suite"]);
    for found in &summary.programs {
        let theirs = found.of_paper().map_or(Cell::Empty, |one| Cell::Share(one.sync_share_percent / 100.0));
        table.row([short(&found.program).into(), share(found.sync_share), theirs, found.suite.name().into()]);
    }
    for ((suite, mean), theirs) in Suite::ALL.into_iter().zip(summary.mean_sync_share).zip(PAPER_MEANS) {
        if mean.is_some() {
            let name = if suite == Suite::Splash2 { "mean without lu, radix" } else { "mean" };
            table.row([name.into(), share(mean), Cell::Share(theirs), suite.name().into()]);
        }
    }
    if let mean @ Some(_) = summary.own_mean_sync_share {
        table.row(["mean".into(), share(mean), Cell::Empty, Suite::Own.name().into()]);
    }
    section.with(table)
}

fn costs(summary: &BenchSummary) -> Section {
    let mut table = Table::new([
        "program",
        "pairs",
        "unrecorded",
        "recorded",
        "overhead",
        "95 % CI",
        "verdict",
        "events",
        "wake-ups matched, %",
    ]);
    for found in &summary.programs {
        let Some(cost) = &found.cost else {
            table.row([Cell::from(short(&found.program)), Cell::Count(0)]);
            continue;
        };
        let events = found.runs.iter().map(|run| run.events).sum::<u64>() / found.runs.len().max(1) as u64;
        let verdict = match cost.verdict {
            CostVerdict::Within => "within",
            CostVerdict::Above => "above",
            CostVerdict::Undecided => "undecided",
        };
        table.row([
            short(&found.program).into(),
            Cell::Count(cost.pairs),
            Cell::Duration(cost.unrecorded_ns.cast_signed()),
            Cell::Duration(cost.recorded_ns.cast_signed()),
            Cell::Share(cost.overhead),
            cost.interval.map(|it| Cell::interval(Cell::Share(it.low), Cell::Share(it.high))).into(),
            verdict.into(),
            Cell::Count(events),
            // So many nines that one lost wake-up in all shows.
            found.coverage().map(|share| Cell::Number { value: share * 100.0, digits: 4 }).into(),
        ]);
    }
    let note = text!("whole programs; target: at most {}", Cell::Share(Cost::LIMIT));
    Section::new("cost", "Recording overhead").note(note).with(table)
}
