//! The page of `quaver sim run`: where the simulated time went, by core, level and thread.

pub mod cure;

use crate::digest::{
    CoreFigures, LevelFigures, PARTS, PathFigures, PathThread, RUNNING_PARTS, SimLanes, SimSpeed, SimSummary,
    ThreadFigures, machine_words,
};
use quaver_page::RunFacts;
use quaver_page::console::{WIDTH, cut_short, heading, warnings};
use quaver_page::table::{Align, Style, Table, printable, wrap};
use quaver_page::units::{bar, count, duration_f64, percent};

/// Rows of a table of threads.
const ROWS: usize = 32;
/// Parts of the time that are named one by one; the rest is counted together.
const SHARE_SHOWN: f64 = 0.0005;
/// Parts of the cycles an instruction that have a column of their own; the rest stands together.
const CPI_SHOWN: f64 = 0.01;
/// Cells of the widest bar of a share.
const SHARE_CELLS: usize = 24;

/// What the page is made from.
#[derive(Clone, Copy)]
pub struct SimInput<'a> {
    /// Results.
    pub summary: &'a SimSummary,
    /// Facts of the run.
    pub run: &'a RunFacts,
    /// How fast it was simulated, where it is known.
    pub speed: Option<SimSpeed>,
    /// Threads over time, for the report.
    pub lanes: &'a SimLanes,
    /// Path of the HTML report, where one was written.
    pub report_path: Option<&'a str>,
}

/// The page.
pub fn page(input: &SimInput<'_>, style: Style) -> String {
    let summary = input.summary;
    let mut out = String::new();
    header(&mut out, input, style);
    cut_short(&mut out, summary.complete, style);
    if let Some(cure) = &summary.cure {
        cure::section(&mut out, cure, style);
    }
    time(&mut out, summary, style);
    cores(&mut out, summary, style);
    levels(&mut out, summary, style);
    threads(&mut out, summary, style);
    critical_path(&mut out, summary, style);
    warnings(&mut out, &summary.warnings, style);
    if let Some(path) = input.report_path {
        out.push_str(&format!("\n{}  {}\n", style.bold("Report"), printable(path)));
    }
    out
}

/// Femtoseconds as people read them.
pub fn simulated(fs: u64) -> String {
    if fs == 0 { "0".to_owned() } else { duration_f64(fs as f64 / 1e6) }
}

/// A number with the digits that matter: `0.5`, `12.3`.
pub fn figure(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".to_owned(),
        0.0 => "0".to_owned(),
        value if value < 0.005 => "< 0.01".to_owned(),
        value if value < 99.95 => format!("{value:.2}"),
        value => count(value.round() as u64),
    }
}

fn header(out: &mut String, input: &SimInput<'_>, style: Style) {
    let (summary, facts) = (input.summary, &input.summary.facts);
    out.push_str(&format!("{} · {}\n", style.bold("quaver sim run"), printable(&input.run.name)));
    let mut lines = vec![("program", program(summary)), ("machine", machine_words(&facts.machine))];
    let changed: Vec<String> = facts
        .differences
        .iter()
        .map(|one| format!("{} = {} (default {})", one.key, one.value, one.default))
        .collect();
    if !changed.is_empty() {
        lines.push(("changed", changed.join(", ")));
    }
    lines.push(("ran for", ran_for(summary)));
    lines.extend(input.speed.map(|speed| ("took", took(speed))));
    for (name, text) in lines {
        for (at, line) in wrap(&printable(&text), WIDTH - 12).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            out.push_str(&format!("  {}  {line}\n", style.dim(&format!("{name:<8}"))));
        }
    }
}

/// The program and its trace.
pub fn program(summary: &SimSummary) -> String {
    let facts = &summary.facts;
    let name = if facts.program.is_empty() { "a whole system".to_owned() } else { facts.program.join(" ") };
    let threads =
        if facts.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", count(facts.threads)) };
    format!("{name} · {threads} · {}", facts.trace)
}

/// How long the program ran on the simulated machine.
pub fn ran_for(summary: &SimSummary) -> String {
    let chip = &summary.chip;
    format!(
        "{}, {} cycles · {} instructions on {} of {} cores",
        simulated(chip.duration_fs),
        count(chip.cycles),
        count(chip.instructions),
        chip.cores_used,
        summary.cores.len()
    )
}

/// How fast this host simulated it.
pub fn took(speed: SimSpeed) -> String {
    let took = quaver_page::units::duration(speed.elapsed_ns.cast_signed());
    format!("{took} here, {:.1} million instructions a second", speed.mips())
}

/// How much of the time in which threads ran went to work, and what most of the rest went to.
pub fn verdict(summary: &SimSummary) -> String {
    let total: u64 = summary.time.iter().map(|part| part.time_fs).sum();
    let running = &summary.time[..RUNNING_PARTS.min(summary.time.len())];
    let ran: u64 = running.iter().map(|part| part.time_fs).sum();
    if ran == 0 {
        return "Nothing was simulated.".to_owned();
    }
    let share = |fs: u64| percent(fs as f64 / ran as f64);
    let issued = running.iter().find(|part| part.part == "issue").map_or(0, |part| part.time_fs);
    let lost = running.iter().filter(|part| part.part != "issue" && part.time_fs > 0);
    let most = lost.max_by_key(|part| part.time_fs).map_or_else(String::new, |part| {
        format!("; most of the rest was lost to {} ({})", lost_to(&part.part), share(part.time_fs))
    });
    let work = format!("Of the time threads ran, {} issued instructions{most}.", share(issued));
    let waited = summary.time.iter().find(|part| part.part == "waiting").map_or(0, |part| part.time_fs);
    if waited > ran {
        let of_all = percent(waited as f64 / total.max(1) as f64);
        return format!("Threads mostly waited for each other: {of_all} of the cores' time. {work}");
    }
    work
}

/// A part in words that stand in a sentence.
fn lost_to(part: &str) -> &str {
    match part {
        "results" => "results of slow instructions",
        "jumps" => "wrongly predicted jumps",
        "fetch" => "fetching instructions",
        "L2" => "the second level",
        "remote" => "lines from other cores",
        "memory" => "memory",
        "stores" => "a full store buffer",
        "port" => "the memory port",
        "sync" => "synchronisation on its way",
        other => other,
    }
}

/// What a part means.
pub fn meaning(part: &str) -> &'static str {
    PARTS.iter().find(|(name, _)| *name == part).map_or("", |(_, meaning)| meaning)
}

fn time(out: &mut String, summary: &SimSummary, style: Style) {
    heading(out, style, "Where the time went", "of all cores, from the first step to the last");
    let mut parts: Vec<_> = summary.time.iter().filter(|part| part.time_fs > 0).collect();
    // That most cores are not used says little of the program.
    parts.sort_by_key(|part| (part.part == "unused", std::cmp::Reverse(part.time_fs)));
    let mut table =
        Table::new(&[("", Align::Left), ("share", Align::Right), ("", Align::Left), ("", Align::Left)]);
    for part in parts.iter().filter(|part| part.share >= SHARE_SHOWN) {
        table.row([
            part.part.clone(),
            percent(part.share),
            meaning(&part.part).to_owned(),
            bar(part.share, SHARE_CELLS),
        ]);
    }
    out.push_str(&table.render(style));
    for line in wrap(&verdict(summary), WIDTH - 2) {
        out.push_str(&format!("  {}\n", style.bold(&line)));
    }
}

/// The table of cores that ran something, and of all together: its columns and rows. Parts of the cycles an instruction below
/// this share stand together as `other`.
pub fn core_table(summary: &SimSummary, least_share: f64) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let all = all_cores(summary);
    let stack = all.cpi_stack(summary.chip.cycle_fs);
    let least = least_share * stack.iter().sum::<f64>();
    let (shown, hidden): (Vec<usize>, Vec<usize>) =
        (0..stack.len()).filter(|part| stack[*part] > 0.0).partition(|part| stack[*part] >= least);
    let mut columns = vec!["core", "instructions", "busy", "CPI"];
    columns.extend(shown.iter().map(|part| PARTS[*part].0));
    if !hidden.is_empty() {
        columns.push("other");
    }
    let cells = |name: String, core: &CoreFigures| {
        let stack = core.cpi_stack(summary.chip.cycle_fs);
        let mut cells = vec![
            name,
            count(core.instructions),
            percent(core.busy_fs as f64 / summary.chip.duration_fs.max(1) as f64),
            core.cpi.map_or("-".to_owned(), figure),
        ];
        cells.extend(shown.iter().map(|part| figure(stack[*part])));
        if !hidden.is_empty() {
            cells.push(figure(hidden.iter().map(|part| stack[*part]).sum()));
        }
        cells
    };
    let used = summary.cores.iter().filter(|core| core.instructions > 0);
    let mut rows: Vec<Vec<String>> = used.map(|core| cells(core.core.to_string(), core)).collect();
    rows.push(cells("all".to_owned(), &all));
    (columns, rows)
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

fn cores(out: &mut String, summary: &SimSummary, style: Style) {
    heading(out, style, "Cores", "cycles an instruction (CPI) while a thread ran, and what they are made of");
    let (columns, rows) = core_table(summary, CPI_SHOWN);
    let mut columns: Vec<_> = columns.into_iter().map(|name| (name, Align::Right)).collect();
    columns[0].1 = Align::Left;
    let mut table = Table::new(&columns);
    rows.into_iter().for_each(|row| {
        table.row(row);
    });
    out.push_str(&table.render(style));
    match summary.cores.iter().filter(|core| core.instructions == 0).count() {
        0 => {}
        1 => out.push_str(&format!("  {}\n", style.dim("1 core ran nothing."))),
        unused => out.push_str(&format!("  {}\n", style.dim(&format!("{unused} cores ran nothing.")))),
    }
}

/// Columns of the table of levels.
pub const LEVEL_COLUMNS: [&str; 5] =
    ["level", "looks", "misses", "miss ratio", "misses in 1000 instructions"];

/// The cells of a level, in the order of [`LEVEL_COLUMNS`].
pub fn level_cells(level: &LevelFigures) -> Vec<String> {
    vec![
        level.level.clone(),
        count(level.looks),
        count(level.misses),
        level.miss_ratio.map_or("-".to_owned(), percent),
        level.misses_per_1000.map_or("-".to_owned(), figure),
    ]
}

fn levels(out: &mut String, summary: &SimSummary, style: Style) {
    heading(out, style, "Caches", "all cores together");
    let mut columns: Vec<_> = LEVEL_COLUMNS.iter().map(|name| (*name, Align::Right)).collect();
    columns[0].1 = Align::Left;
    let mut table = Table::new(&columns);
    summary.levels.iter().for_each(|level| {
        table.row(level_cells(level));
    });
    out.push_str(&table.render(style));
    for sentence in traffic(summary) {
        for line in wrap(&sentence, WIDTH - 2) {
            out.push_str(&format!("  {}\n", style.dim(&line)));
        }
    }
}

fn lines(number: u64) -> String {
    if number == 1 { "1 line".to_owned() } else { format!("{} lines", count(number)) }
}

/// What moved between caches and memory, in sentences.
pub fn traffic(summary: &SimSummary) -> Vec<String> {
    let traffic = &summary.traffic;
    vec![
        format!(
            "Sharing: {} came from other cores and {} from memory; {} could be read and were made writable; writes \
             took {} out of other caches; reads took the right to write from {}.",
            lines(traffic.from_remote),
            count(traffic.from_memory),
            count(traffic.upgrades),
            lines(traffic.invalidations),
            count(traffic.downgrades)
        ),
        format!(
            "The directory recalled {}. Memory: {} read, {} written, {} GB/s.",
            lines(traffic.recalls),
            lines(traffic.memory_reads),
            count(traffic.memory_writes),
            figure(traffic.memory_gb_per_s)
        ),
    ]
}

/// Columns of the table of threads.
pub const THREAD_COLUMNS: [&str; 10] =
    ["thread", "core", "instructions", "lived", "ran", "ready", "lock", "condition", "barrier", "join"];

/// The cells of a thread, in the order of [`THREAD_COLUMNS`].
pub fn thread_cells(thread: &ThreadFigures) -> Vec<String> {
    let mut cells = vec![thread.thread.to_string(), thread.core.to_string(), count(thread.instructions)];
    if thread.start_fs.is_none() {
        cells.push("never begun".to_owned());
        return cells;
    }
    let share = |fs: u64| percent(fs as f64 / thread.lived_fs.max(1) as f64);
    cells.push(simulated(thread.lived_fs));
    cells.extend([thread.ran_fs, thread.ready_fs()].map(share));
    cells.extend(thread.waited_fs.map(share));
    cells
}

fn threads(out: &mut String, summary: &SimSummary, style: Style) {
    heading(
        out,
        style,
        "Threads",
        "shares of their lives; ready: woken, but not yet on its core; then what they waited for",
    );
    let mut columns: Vec<_> = THREAD_COLUMNS.iter().map(|name| (*name, Align::Right)).collect();
    columns[0].1 = Align::Left;
    let mut table = Table::new(&columns);
    summary.threads.iter().take(ROWS).for_each(|thread| {
        table.row(thread_cells(thread));
    });
    if summary.threads.len() > ROWS {
        table.row([format!("and {} more (see the report)", summary.threads.len() - ROWS)]);
    }
    out.push_str(&table.render(style));
}

/// The sentence below the critical path.
pub fn path_sentence(path: &PathFigures) -> String {
    let times =
        if path.hand_overs == 1 { "once".to_owned() } else { format!("{} times", count(path.hand_overs)) };
    let place = |(at, one): (usize, &PathThread)| {
        let of_it = if at == 0 { " of it lies" } else { "" };
        format!("{}{of_it} in thread {}", percent(one.share), one.thread)
    };
    let most: Vec<String> = path.threads.iter().take(4).enumerate().map(place).collect();
    format!("It goes from thread to thread {times}; {}.", most.join(", "))
}

fn critical_path(out: &mut String, summary: &SimSummary, style: Style) {
    let Some(path) = summary.critical_path.as_ref().filter(|path| path.length_fs > 0) else { return };
    heading(
        out,
        style,
        "Critical path",
        "the chain of executions and wake-ups that the run could not be shorter than",
    );
    let mut table =
        Table::new(&[("", Align::Left), ("time", Align::Right), ("share", Align::Right), ("", Align::Left)]);
    for part in path.parts.iter().filter(|part| part.time_fs > 0) {
        table.row([
            part.part.clone(),
            simulated(part.time_fs),
            percent(part.share),
            bar(part.share, SHARE_CELLS),
        ]);
    }
    out.push_str(&table.render(style));
    for line in wrap(&path_sentence(path), WIDTH - 2) {
        out.push_str(&format!("  {}\n", style.dim(&line)));
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
