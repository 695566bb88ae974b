//! What a person sees of a simulated run: its CPI stack by core, caches, threads over time and the critical path.

mod charts;
mod cure;
mod recorded;

use crate::digest::{
    CoreFigures, PARTS, PathFigures, RUNNING_PARTS, SimLanes, SimSpeed, SimSummary, ThreadFigures, TimePart,
    machine_words,
};
use crate::head;
use quaver_instrument::facts::RunFacts;
use quaver_view::{Block, Cell, Column, Document, Section, Shown, Table, Text, text};

/// Rows of the table of threads: on the terminal and first in the page, and in all.
const THREADS: (usize, usize) = (32, 256);
/// Parts of the time that the terminal names.
const SHARE_SHOWN: f64 = 0.0005;
/// Parts of the CPI that have a column on the terminal; the rest stands together.
const CPI_SHOWN: f64 = 0.01;

/// What [`PARTS`] are called, whole and as headings of narrow columns.
const NAMES: [(&str, &str); PARTS.len()] = [
    ("base", "base"),
    ("dependencies", "deps"),
    ("branch mispredictions", "branch"),
    ("instruction fetch", "fetch"),
    ("L2 hits", "L2"),
    ("cache-to-cache transfers", "c2c"),
    ("DRAM", "DRAM"),
    ("store buffer full", "store"),
    ("load/store port", "port"),
    ("synchronization", "sync"),
    ("frequency change", "freq"),
    ("kernel", "kernel"),
    ("idle: waiting", "waiting"),
    ("idle: no thread", "unused"),
];

/// What the document is made from.
#[derive(Clone, Copy)]
pub struct SimInput<'a> {
    /// Results.
    pub summary: &'a SimSummary,
    /// Facts of the run.
    pub run: &'a RunFacts,
    /// How fast it was simulated, where it is known.
    pub speed: Option<SimSpeed>,
    /// Threads over time.
    pub lanes: &'a SimLanes,
}

/// The document.
pub fn document(input: &SimInput<'_>) -> Document {
    let summary = input.summary;
    let mut document = head::document("quaver sim run", input.run);
    facts(&mut document, input);
    document.verdict = match &summary.cure {
        Some(cure) => Some(cure::verdict(cure, summary.facts.cut_short).into()),
        None => verdict(summary),
    };
    document.incomplete = !summary.complete;
    tiles(&mut document, summary);
    if let Some(cure) = &summary.cure {
        let kernel_fs = summary.time.iter().find(|part| part.part == "kernel").map_or(0, |part| part.time_fs);
        cure::add(&mut document, cure, &summary.facts.program, kernel_fs);
    }
    document.section(time(summary)).section(cores(summary)).section(caches(summary));
    document.section(threads(summary, input.lanes));
    if let Some(path) = summary.critical_path.as_ref().filter(|path| path.length_fs > 0) {
        document.section(critical_path(path));
    }
    document.section(machine(summary));
    document.warnings = summary.warnings.iter().map(Text::from).collect();
    document
}

/// Simulated time, from femtoseconds.
pub(crate) fn simulated(fs: u64) -> Cell {
    if fs == 0 { Cell::Duration(0) } else { Cell::FineDuration(fs as f64 / 1e6) }
}

fn share(part: u64, whole: u64) -> Cell {
    Cell::Share(part as f64 / whole.max(1) as f64)
}

fn facts(document: &mut Document, input: &SimInput<'_>) {
    let (facts, chip) = (&input.summary.facts, &input.summary.chip);
    let name = if facts.program.is_empty() { "a whole system".to_owned() } else { facts.program.join(" ") };
    let threads = if facts.threads == 1 { "" } else { "s" };
    let cut = if facts.cut_short { " (cut short)" } else { "" };
    document.fact(
        "program",
        text!("{name} · {} thread{threads} · {}{cut}", Cell::Count(facts.threads), facts.trace),
    );
    let [barriers, rounds] = facts.condition_barriers;
    if barriers > 0 {
        document.fact(
            "barriers",
            text!(
                "{} made of a mutex and a condition, where all met {} times; replayed as barriers",
                Cell::Count(barriers),
                Cell::Count(rounds)
            ),
        );
    }
    document.fact("machine", machine_words(&facts.machine));
    let changed =
        facts.differences.iter().map(|one| format!("{} = {} (default {})", one.key, one.value, one.default));
    document.fact("changed", changed.collect::<Vec<_>>().join(", "));
    document.fact(
        "ran for",
        text!(
            "{}, {} cycles · {} instructions on {} of {} cores",
            simulated(chip.duration_fs),
            Cell::Count(chip.cycles),
            Cell::Count(chip.instructions),
            chip.cores_used,
            input.summary.cores.len()
        ),
    );
    if let Some(speed) = input.speed {
        let took = Cell::Duration(speed.elapsed_ns.cast_signed());
        document.fact("host time", text!("{took}, {} MIPS", Cell::Number { value: speed.mips(), digits: 1 }));
    }
    let octets = Cell::Count(facts.octets);
    document.html_fact("trace", text!("{} steps, {octets} bytes", Cell::Count(facts.steps)));
    document.html_fact("tracer", &facts.tool).html_fact("ISA", &facts.architecture);
}

fn tiles(document: &mut Document, summary: &SimSummary) {
    let chip = &summary.chip;
    let time = simulated(chip.duration_fs);
    document.tile("Simulated time", time, text!("{} cycles", Cell::Count(chip.cycles)));
    let cores = text!("on {} of {} cores", chip.cores_used, summary.cores.len());
    document.tile("Instructions", Cell::Count(chip.instructions), cores);
    document.tile("CPI", chip.cpi.map(Cell::Figure), "while a thread ran");
    document.tile("Core utilization", chip.busy_share.map(Cell::Share), "of all cores' time");
    if let Some(level) = summary.levels.iter().find(|level| level.level == "L2") {
        let misses = level.misses_per_1000.map(Cell::Figure);
        document.tile("L2 misses", misses, "per 1000 instructions (MPKI)");
    }
}

/// How much of the time in which threads ran went to work, and what most of the rest went to; none where none ran.
fn verdict(summary: &SimSummary) -> Option<Text> {
    let running = &summary.time[..RUNNING_PARTS.min(summary.time.len())];
    let ran: u64 = running.iter().map(|part| part.time_fs).sum();
    if ran == 0 {
        return None;
    }
    let (base, stalls) = running.split_first()?;
    let most = stalls.iter().enumerate().filter(|(_, part)| part.time_fs > 0);
    let most = most.max_by_key(|(_, part)| part.time_fs).map_or_else(String::new, |(at, part)| {
        format!("; the largest stall is {} ({})", NAMES[at + 1].0, share(part.time_fs, ran))
    });
    let work = format!("Base CPI is {} of busy time{most}.", share(base.time_fs, ran));
    let waited = summary.time.iter().find(|part| part.part == "waiting").filter(|part| part.time_fs > ran);
    Some(match waited {
        Some(waited) => text!(
            "Cores idled, waiting for other threads, for {} of the time. {work}",
            Cell::Share(waited.share)
        ),
        None => work.into(),
    })
}

fn time(summary: &SimSummary) -> Section {
    let mut parts: Vec<(usize, &TimePart)> =
        summary.time.iter().enumerate().filter(|(_, part)| part.time_fs > 0).collect();
    // That most cores are not used says little of the program.
    parts.sort_by_key(|(_, part)| (part.part == "unused", std::cmp::Reverse(part.time_fs)));
    let row = |(at, part): &(usize, &TimePart)| {
        let (name, meaning) = (NAMES[*at].0, PARTS[*at].1);
        [name.into(), Cell::Share(part.share), meaning.into(), Cell::Bars(vec![part.share])]
    };
    let table = |least: f64| {
        let mut table = Table::new(["", "share", "", ""]);
        parts.iter().filter(|(_, part)| part.share >= least).for_each(|part| {
            table.row(row(part));
        });
        Block::from(table)
    };
    let mut section = Section::new("time", "CPI stack")
        .note("time of all cores, first step to last")
        .with(table(SHARE_SHOWN).only(Shown::TerminalOnly))
        .with(table(0.0).only(Shown::HtmlOnly));
    if summary.chip.duration_fs > 0 {
        section.push(charts::core_time(summary));
    }
    section
}

fn used(summary: &SimSummary) -> Vec<&CoreFigures> {
    summary.cores.iter().filter(|core| core.instructions > 0).collect()
}

fn cores(summary: &SimSummary) -> Section {
    let (all, used) = (all_cores(summary), used(summary));
    let stack = all.cpi_stack(summary.chip.cycle_fs);
    let least = CPI_SHOWN * stack.iter().sum::<f64>();
    let parts: Vec<usize> = (0..stack.len()).filter(|part| stack[*part] > 0.0).collect();
    let (shown, small): (Vec<usize>, Vec<usize>) = parts.iter().partition(|part| stack[**part] >= least);
    let mut columns: Vec<Column> = ["core", "instructions", "busy", "CPI"].map(Column::from).into();
    columns.extend(parts.iter().map(|part| {
        let column = Column::new(NAMES[*part].1).note(NAMES[*part].0);
        if shown.contains(part) { column } else { column.html_only() }
    }));
    if !small.is_empty() {
        columns.push(Column { shown: Shown::TerminalOnly, ..Column::new("other") });
    }
    let mut table = Table::new(columns);
    let mut row = |name: Cell, core: &CoreFigures| {
        let stack = core.cpi_stack(summary.chip.cycle_fs);
        let mut cells = vec![
            name,
            Cell::Count(core.instructions),
            share(core.busy_fs, summary.chip.duration_fs),
            core.cpi.map(Cell::Figure).into(),
        ];
        cells.extend(parts.iter().map(|part| Cell::Figure(stack[*part])));
        if !small.is_empty() {
            cells.push(Cell::Figure(small.iter().map(|part| stack[*part]).sum()));
        }
        table.row(cells);
    };
    used.iter().for_each(|core| row(core.core.to_string().into(), core));
    row("all".into(), &all);
    let unused = summary.cores.len() - used.len();
    if unused > 0 {
        table.note(if unused == 1 {
            text!("1 core was unused.")
        } else {
            text!("{unused} cores were unused.")
        });
    }
    Section::new("cores", "CPI per core")
        .note("cycles per instruction while a thread ran, and what they are made of")
        .with(charts::cpi(summary, &used))
        .with(table)
}

/// All cores together, as one of them.
fn all_cores(summary: &SimSummary) -> CoreFigures {
    let sum = |of: &dyn Fn(&CoreFigures) -> u64| summary.cores.iter().map(of).sum::<u64>();
    let part = |part: usize| sum(&|core| core.parts_fs.get(part).copied().unwrap_or(0));
    CoreFigures {
        instructions: sum(&|core| core.instructions),
        busy_fs: sum(&|core| core.busy_fs) / summary.cores.len().max(1) as u64,
        cpi: summary.chip.cpi,
        parts_fs: (0..PARTS.len()).map(part).collect(),
        ..CoreFigures::default()
    }
}

fn caches(summary: &SimSummary) -> Section {
    let table = Table::of(
        &summary.levels,
        &[
            ("level", &|level| Cell::from(&*level.level)),
            ("lookups", &|level| Cell::Count(level.looks)),
            ("misses", &|level| Cell::Count(level.misses)),
            ("miss rate", &|level| level.miss_ratio.map(Cell::Share).into()),
            ("MPKI", &|level| level.misses_per_1000.map(Cell::Figure).into()),
        ],
    );
    let (traffic, count) = (&summary.traffic, Cell::Count);
    let kernel = summary.cure.as_ref().is_some_and(|cure| !cure.activities.is_empty());
    let coherence = text!(
        "Coherence: {} cache-to-cache transfers, {} fills from memory, {} upgrades (S to M), {} invalidations, {} \
         downgrades.",
        count(traffic.from_remote),
        count(traffic.from_memory),
        count(traffic.upgrades),
        count(traffic.invalidations),
        count(traffic.downgrades)
    );
    let memory = text!(
        "Directory recalls: {}. DRAM: {} reads, {} writes, {} GB/s{}.",
        count(traffic.recalls),
        count(traffic.memory_reads),
        count(traffic.memory_writes),
        Cell::Figure(traffic.memory_gb_per_s),
        if kernel { ", kernel activity included" } else { "" }
    );
    let used = used(summary);
    Section::new("caches", "Caches and DRAM")
        .link("Caches")
        .note(if kernel {
            "the program's accesses, all cores together; MPKI: misses per 1000 instructions"
        } else {
            "all cores together; MPKI: misses per 1000 instructions"
        })
        .with(table)
        .with(Block::Note(coherence))
        .with(Block::Note(memory))
        .with(charts::miss_rates(&used))
        .with(charts::traffic(&used))
}

fn threads(summary: &SimSummary, lanes: &SimLanes) -> Section {
    let mut table = Table::new([
        "thread",
        "core",
        "instructions",
        "lifetime",
        "ran",
        "ready",
        "lock",
        "condition",
        "barrier",
        "join",
    ])
    .terminal_first(THREADS.0)
    .first_rows(THREADS.0);
    summary.threads.iter().take(THREADS.1).for_each(|thread| {
        table.row(thread_cells(thread));
    });
    if summary.threads.len() > THREADS.1 {
        let more = Cell::Count((summary.threads.len() - THREADS.1) as u64);
        table.note(text!("{more} more threads are in summary.json."));
    }
    let mut section = Section::new("threads", "Threads").note(
        "Shares of each thread's lifetime. Ready: wake-up in flight, or its core ran the kernel or another thread; then waits by kind.",
    );
    charts::over_time(&mut section, lanes);
    section.with(table)
}

fn thread_cells(thread: &ThreadFigures) -> Vec<Cell> {
    let (number, core) = (Cell::Index(thread.thread.into()), Cell::Index(thread.core.into()));
    let mut cells = vec![number, core, Cell::Count(thread.instructions)];
    if thread.start_fs.is_none() {
        cells.push("never started".into());
        return cells;
    }
    cells.push(simulated(thread.lived_fs));
    let parts = [thread.ran_fs, thread.ready_fs()].into_iter().chain(thread.waited_fs);
    cells.extend(parts.map(|fs| share(fs, thread.lived_fs)));
    cells
}

fn critical_path(path: &PathFigures) -> Section {
    let table = Table::of(
        path.parts.iter().filter(|part| part.time_fs > 0),
        &[
            ("", &|part| Cell::from(part.part.replace("on the way", "in flight"))),
            ("time", &|part| simulated(part.time_fs)),
            ("share", &|part| Cell::Share(part.share)),
            ("", &|part| Cell::Bars(vec![part.share])),
        ],
    );
    let handoffs = match path.hand_overs {
        1 => "1 handoff".to_owned(),
        many => format!("{} handoffs", Cell::Count(many)),
    };
    let most = path.threads.iter().take(4);
    let most: Vec<String> =
        most.map(|one| format!("{} in thread {}", Cell::Share(one.share), one.thread)).collect();
    Section::new("path", "Critical path")
        .note("the chain of executions and wake-ups that bounds the run time; work off it had slack")
        .with(table)
        .with(Block::Note(text!("{handoffs}; {}.", most.join(", "))))
}

/// The machine and where it differs from the default, which the terminal has at its head.
fn machine(summary: &SimSummary) -> Section {
    let mut table =
        Table::new(["parameter", "here", "default"]).empty("The default machine (quaver sim config).");
    for one in &summary.facts.differences {
        table.row([&one.key, &one.value, &one.default].map(|words| Cell::from(words.as_str())));
    }
    Section::new("machine", "Simulated machine")
        .note(machine_words(&summary.facts.machine))
        .shown(Shown::HtmlOnly)
        .with(table)
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
