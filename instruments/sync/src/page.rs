//! The page of `quaver sync`: the six classes, who was late and why.

mod distribution;

use crate::digest::{Named, SyncNames, SyncSummary};
use quaver_page::RunFacts;
use quaver_page::console::{Tracing, cut_short, head, heading, warnings};
use quaver_page::table::{Align, Style, Table, printable, wrap};
use quaver_page::units::{bar, count, duration, duration_f64, percent, supports};
use quaver_sync_analysis::lanes::Lanes;
use quaver_sync_analysis::sync::{ClassFigures, Sums, SyncClass, Wait};

/// Width of the page.
const WIDTH: usize = 100;
/// Rows of a table of offenders, threads or cores.
const ROWS: usize = 10;
/// Longest waits that are told one by one.
const WAITS: usize = 5;

/// What the page is made from.
#[derive(Clone, Copy)]
pub struct SyncInput<'a> {
    /// Results.
    pub summary: &'a SyncSummary,
    /// Facts of the run.
    pub run: &'a RunFacts,
    /// Threads over time, for the report.
    pub lanes: &'a Lanes,
    /// Names of addresses.
    pub names: &'a SyncNames,
    /// Path of the HTML report, where one was written.
    pub report_path: Option<&'a str>,
}

/// The page.
pub fn page(input: &SyncInput<'_>, style: Style) -> String {
    let summary = input.summary;
    let mut out = String::new();
    header(&mut out, input, style);
    cut_short(&mut out, summary.complete, style);
    classes(&mut out, summary, style);
    distribution::write(&mut out, &summary.results.classes, style);
    offenders(&mut out, "Locks and conditions", "who was late for them", &summary.objects, style);
    if summary.facts.call_sites {
        offenders(&mut out, "Call sites", "functions whose calls were late", &summary.call_sites, style);
    }
    threads(&mut out, summary, style);
    cores(&mut out, summary, style);
    critical_path(&mut out, summary, style);
    causes(&mut out, input, style);
    calls(&mut out, summary, style);
    if let Some(facts) = &summary.facts.compensation {
        crate::compensate::page::write(&mut out, facts, style);
    }
    warnings(&mut out, &summary.warnings, style);
    if let Some(path) = input.report_path {
        out.push_str(&format!("\n{}  {}\n", style.bold("Report"), printable(path)));
    }
    out
}

fn header(out: &mut String, input: &SyncInput<'_>, style: Style) {
    let (summary, facts) = (input.summary, &input.summary.facts);
    let mut words = vec![printable(&facts.program.join(" "))];
    words.extend(facts.status.map(ended));
    words.push(duration(summary.results.duration_ns().cast_signed()));
    words.push(format!("{} threads", count(summary.results.counts.threads)));
    let kernel = &facts.kernel;
    let tracing = Tracing { tier: &kernel.tier, reason: kernel.reason.as_deref(), blind: &kernel.blind };
    head(out, "quaver sync", input.run, ("program", words.join(" · ")), &tracing, style);
}

/// The program's status in words.
pub fn ended(status: u8) -> String {
    match status {
        0 => "ended well".to_owned(),
        129..=192 => format!("ended by signal {}", status - 128),
        status => format!("ended with status {status}"),
    }
}

/// `late by T − N beyond N`, as the table's title says it.
pub fn counted(summary: &SyncSummary) -> String {
    let threshold = duration(summary.results.settings.threshold_ns.cast_signed());
    match summary.results.settings.count_all {
        true => format!("operations of more than {threshold}, each counted with its whole time"),
        false => format!("operations of more than {threshold}, counted with what exceeds it"),
    }
}

/// Columns of the table of classes.
pub const CLASS_COLUMNS: [&str; 12] = [
    "class",
    "operations",
    "late",
    "a ms",
    "mean",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "largest",
    "total",
    "share",
];
/// Those of them that the console shows beside percentiles of their own.
const NARROW: [usize; 8] = [0, 1, 2, 3, 4, 9, 10, 11];
/// Cells of the widest bar of a share.
const SHARE_CELLS: usize = 16;

/// A percentile, where as many were late as it takes: one in `needs` lies beyond.
fn percentile(figures: &ClassFigures, needs: u64, ns: Option<u64>) -> String {
    match ns {
        Some(ns) if supports(figures.late.count, needs) => duration(ns.cast_signed()),
        _ => "-".to_owned(),
    }
}

/// The cells of a class, in the order of [`CLASS_COLUMNS`].
pub fn class_cells(figures: &ClassFigures) -> Vec<String> {
    let late = &figures.late;
    vec![
        format!("{:<2}  {}", figures.class.short(), figures.class.name()),
        count(figures.timed.count),
        count(late.count),
        if late.count == 0 { "-".to_owned() } else { format!("{:.3}", figures.late_per_ms) },
        figures.mean_ns.map_or("-".to_owned(), duration_f64),
        percentile(figures, 1, figures.p50_ns),
        percentile(figures, 10, figures.p90_ns),
        percentile(figures, 100, figures.p99_ns),
        percentile(figures, 1_000, figures.p99_9_ns),
        if late.count == 0 { "-".to_owned() } else { duration(late.max_ns.cast_signed()) },
        duration(late.total_ns.cast_signed()),
        figures.share.map_or("-".to_owned(), percent),
    ]
}

fn classes(out: &mut String, summary: &SyncSummary, style: Style) {
    heading(out, style, "Sync jitter", &counted(summary));
    let mut columns: Vec<_> = NARROW.iter().map(|at| (CLASS_COLUMNS[*at], Align::Right)).collect();
    columns[0].1 = Align::Left;
    columns.push(("", Align::Left));
    let mut table = Table::new(&columns);
    summary.results.classes.iter().for_each(|figures| {
        let cells = class_cells(figures);
        let share = figures.share.map_or_else(String::new, |share| bar(share, SHARE_CELLS));
        table.row(NARROW.iter().map(|at| cells[*at].clone()).chain([share]));
    });
    let late = &summary.results.late;
    table.row([
        "    together".to_owned(),
        count(summary.results.classes.iter().map(|one| one.timed.count).sum()),
        count(late.count),
        format!("{:.3}", per_ms(late, summary)),
        late.mean_ns().map_or("-".to_owned(), duration_f64),
        if late.count == 0 { "-".to_owned() } else { duration(late.max_ns.cast_signed()) },
        duration(late.total_ns.cast_signed()),
    ]);
    out.push_str(&table.render(style));
    for sentence in beside(summary) {
        for line in wrap(&sentence, WIDTH - 2) {
            out.push_str(&format!("  {}\n", style.dim(&line)));
        }
    }
}

/// Events of a sum for each millisecond of the run.
pub fn per_ms(sums: &Sums, summary: &SyncSummary) -> f64 {
    sums.count as f64 * 1e6 / summary.results.duration_ns().max(1) as f64
}

/// Sentences below the table of classes.
pub fn beside(summary: &SyncSummary) -> Vec<String> {
    let mut sentences = Vec::new();
    let coverage = &summary.results.coverage;
    if let Some(share) = coverage.share() {
        sentences.push(format!(
            "Coverage: {} of {} wake-ups matched with who caused them ({}).",
            count(coverage.matched),
            count(coverage.wake_ups),
            percent(share)
        ));
    }
    let free: u64 = summary
        .processes
        .iter()
        .map(|one| one.uncontended.free_locks + one.uncontended.free_read_locks)
        .sum();
    if free > 0 {
        sentences
            .push(format!("{} locks were free when asked for; they are counted and not timed.", count(free)));
    }
    let others: Vec<String> = summary
        .results
        .others
        .iter()
        .filter(|one| one.lost.count > 0)
        .map(|one| {
            format!(
                "{} {} ({})",
                one.class.name(),
                duration(one.lost.total_ns.cast_signed()),
                count(one.lost.count)
            )
        })
        .collect();
    if !others.is_empty() {
        sentences.push(format!("Lost outside the six classes: {}.", others.join(", ")));
    }
    if !summary.facts.kernel.looked() {
        sentences.push(
            "Nobody looked at the kernel, so time in run queues is inside the classes and not told apart: run as root."
                .to_owned(),
        );
    }
    sentences
}

/// Columns of the tables of offenders.
pub const OFFENDER_COLUMNS: [&str; 5] = ["name", "late", "total", "largest", "classes"];

/// The cells of an offender, in the order of [`OFFENDER_COLUMNS`].
pub fn offender_cells(one: &Named) -> Vec<String> {
    let late = &one.figures.late;
    vec![
        printable(&one.name),
        count(late.count),
        duration(late.total_ns.cast_signed()),
        duration(late.max_ns.cast_signed()),
        by_class(&one.figures.classes),
    ]
}

/// `bw 91 %, lu 9 %`
pub fn by_class(classes: &[Sums; 6]) -> String {
    let total: u64 = classes.iter().map(|one| one.total_ns).sum();
    let mut parts: Vec<(u64, SyncClass)> =
        classes.iter().map(|one| one.total_ns).zip(SyncClass::ALL).collect();
    parts.retain(|(ns, _)| *ns > 0);
    parts.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let said =
        |(ns, class): &(u64, SyncClass)| format!("{} {}", class.short(), percent(*ns as f64 / total as f64));
    parts.iter().map(said).collect::<Vec<_>>().join(", ")
}

fn offenders(out: &mut String, title: &str, note: &str, all: &[Named], style: Style) {
    let late: Vec<&Named> = all.iter().filter(|one| one.figures.late.count > 0).collect();
    if late.is_empty() {
        return;
    }
    heading(out, style, title, note);
    let mut table = Table::new(&[
        ("", Align::Left),
        ("late", Align::Right),
        ("total", Align::Right),
        ("largest", Align::Right),
        ("classes", Align::Left),
    ]);
    late.iter().take(ROWS).for_each(|one| {
        table.row(offender_cells(one));
    });
    rest(&mut table, late.len());
    out.push_str(&table.render(style));
}

fn rest(table: &mut Table, all: usize) {
    if all > ROWS {
        table.row([format!("and {} more (see the report)", all - ROWS)]);
    }
}

/// Columns of the table of threads.
pub const THREAD_COLUMNS: [&str; 6] = ["thread", "late", "total", "waited", "in run queues", "classes"];

/// The threads that were late, the worst first, in the order of [`THREAD_COLUMNS`].
pub fn thread_rows(summary: &SyncSummary) -> Vec<Vec<String>> {
    let late = summary.results.threads.iter().filter(|one| one.late.count > 0);
    late.map(|one| {
        vec![
            one.thread.0.to_string(),
            count(one.late.count),
            duration(one.late.total_ns.cast_signed()),
            duration(one.waited_ns.cast_signed()),
            duration(one.run_queue_ns.cast_signed()),
            by_class(&one.classes),
        ]
    })
    .collect()
}

fn threads(out: &mut String, summary: &SyncSummary, style: Style) {
    let rows = thread_rows(summary);
    if rows.is_empty() {
        return;
    }
    heading(out, style, "Threads", "waited is all time in blocking calls, the program's own idling included");
    let mut columns = vec![(THREAD_COLUMNS[0], Align::Left)];
    columns.extend(THREAD_COLUMNS[1..5].iter().map(|name| (*name, Align::Right)));
    columns.push((THREAD_COLUMNS[5], Align::Left));
    let mut table = Table::new(&columns);
    rows.iter().take(ROWS).for_each(|row| {
        table.row(row.clone());
    });
    rest(&mut table, rows.len());
    out.push_str(&table.render(style));
}

/// Columns of the table of cores.
pub const CORE_COLUMNS: [&str; 5] = ["core", "late", "total", "came from another", "classes"];

/// The cores on which late operations ended, in the order of [`CORE_COLUMNS`].
pub fn core_rows(summary: &SyncSummary) -> Vec<Vec<String>> {
    let late = summary.results.cores.iter().filter(|one| one.late.count > 0);
    late.map(|one| {
        vec![
            one.core.to_string(),
            count(one.late.count),
            duration(one.late.total_ns.cast_signed()),
            count(one.migrations),
            by_class(&one.classes),
        ]
    })
    .collect()
}

fn cores(out: &mut String, summary: &SyncSummary, style: Style) {
    let rows = core_rows(summary);
    if rows.is_empty() {
        return;
    }
    heading(out, style, "Cores", "where late operations ended");
    let mut columns: Vec<_> = CORE_COLUMNS.iter().map(|name| (*name, Align::Right)).collect();
    columns[4].1 = Align::Left;
    let mut table = Table::new(&columns);
    rows.iter().take(2 * ROWS).for_each(|row| {
        table.row(row.clone());
    });
    out.push_str(&table.render(style));
}

/// The parts of the critical path: name, time, share.
pub fn path_rows(summary: &SyncSummary) -> Vec<(&'static str, u64, f64)> {
    let path = &summary.results.critical_path;
    let share = |ns: u64| ns as f64 / path.length_ns.max(1) as f64;
    [
        ("execution", path.execution_ns),
        ("sync jitter", path.sync_jitter_ns),
        ("other jitter", path.other_ns),
        ("blocked, nobody ended it", path.blocked_ns),
    ]
    .map(|(name, ns)| (name, ns, share(ns)))
    .to_vec()
}

/// The sentences below it.
pub fn path_sentences(summary: &SyncSummary) -> Vec<String> {
    let (path, share) = (&summary.results.critical_path, &summary.results.sync_share);
    let mut sentences = vec![format!(
        "It goes from thread to thread {} times{}.",
        count(path.hand_overs),
        path.last_thread.map_or_else(String::new, |thread| format!(" and ends in thread {}", thread.0))
    )];
    if let Some(on_path) = share.critical_path {
        let all = share
            .threads_mean
            .map_or_else(String::new, |mean| format!("; over threads the mean is {}", percent(mean)));
        sentences.push(format!("Of all jitter on it, {} is sync jitter{all}.", percent(on_path)));
    }
    sentences
}

fn critical_path(out: &mut String, summary: &SyncSummary, style: Style) {
    if summary.results.critical_path.length_ns == 0 {
        return;
    }
    heading(
        out,
        style,
        "Critical path",
        "the chain of creations, joins and wake-ups that the run could not be shorter than",
    );
    let mut table = Table::new(&[("", Align::Left), ("time", Align::Right), ("share", Align::Right)]);
    for (name, ns, share) in path_rows(summary) {
        table.row([name.to_owned(), duration(ns.cast_signed()), percent(share)]);
    }
    out.push_str(&table.render(style));
    for line in path_sentences(summary).iter().flat_map(|sentence| wrap(sentence, WIDTH - 2)) {
        out.push_str(&format!("  {}\n", style.dim(&line)));
    }
}

/// Columns of the table of causes.
pub const CAUSE_COLUMNS: [&str; 5] = ["cause", "time", "share", "late waits", "leads"];

/// Why late waits were late, the largest part first, in the order of [`CAUSE_COLUMNS`].
pub fn cause_rows(summary: &SyncSummary) -> Vec<Vec<String>> {
    let mut causes: Vec<_> = summary.results.causes.iter().filter(|one| one.waits.total_ns > 0).collect();
    let total: u64 = causes.iter().map(|one| one.waits.total_ns).sum();
    causes.sort_by_key(|one| std::cmp::Reverse(one.waits.total_ns));
    let cells = |one: &&quaver_sync_analysis::sync::CauseFigures| {
        vec![
            one.cause.name().to_owned(),
            duration(one.waits.total_ns.cast_signed()),
            percent(one.waits.total_ns as f64 / total as f64),
            count(one.waits.count),
            count(one.leads),
        ]
    };
    causes.iter().map(cells).collect()
}

/// One long wait in a sentence.
pub fn wait_sentence(wait: &Wait, names: &SyncNames, from_ns: u64) -> String {
    let mut pieces: Vec<(u64, &str)> = Vec::new();
    for piece in &wait.pieces {
        let ns = piece.end_ns - piece.start_ns;
        match pieces.iter_mut().find(|(_, name)| *name == piece.cause.name()) {
            Some(known) => known.0 += ns,
            None => pieces.push((ns, piece.cause.name())),
        }
    }
    pieces.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let why: Vec<String> =
        pieces.iter().take(3).map(|(ns, name)| format!("{name} {}", duration(ns.cast_signed()))).collect();
    let moved = if wait.entered_cpu == wait.ended_cpu {
        format!("on CPU {}", wait.ended_cpu)
    } else {
        format!("from CPU {} to {}", wait.entered_cpu, wait.ended_cpu)
    };
    format!(
        "{} {}: thread {} {moved}, woken by {} for {}, at {}: {}",
        duration(wait.took_ns().cast_signed()),
        wait.class.short(),
        wait.thread.0,
        wait.waker.0,
        names.object(wait.process, wait.object),
        duration((wait.released_ns.saturating_sub(from_ns)).cast_signed()),
        why.join(", ")
    )
}

/// The longest waits over all classes.
pub fn longest(summary: &SyncSummary) -> Vec<&Wait> {
    let mut all: Vec<&Wait> = summary.results.longest.iter().collect();
    all.sort_by_key(|wait| (std::cmp::Reverse(wait.took_ns()), wait.ended_ns));
    all
}

fn causes(out: &mut String, input: &SyncInput<'_>, style: Style) {
    let summary = input.summary;
    let waits = longest(summary);
    if waits.is_empty() {
        return;
    }
    heading(out, style, "Why late waits were late", "");
    if !summary.facts.kernel.looked() {
        let text = "Only the kernel tells, and nobody looked at it here: run as root. What follows is what the program's own \
                    calls tell.";
        wrap(text, WIDTH - 2).iter().for_each(|line| out.push_str(&format!("  {}\n", style.dim(line))));
    }
    let mut columns: Vec<_> = CAUSE_COLUMNS.iter().map(|name| (*name, Align::Right)).collect();
    columns[0].1 = Align::Left;
    let mut table = Table::new(&columns);
    cause_rows(summary).into_iter().for_each(|row| {
        table.row(row);
    });
    out.push_str(&table.render(style));
    out.push_str(&format!("  {}\n", style.dim("The longest:")));
    for wait in waits.iter().take(WAITS) {
        let sentence = printable(&wait_sentence(wait, input.names, input.lanes.from_ns));
        for (at, line) in wrap(&sentence, WIDTH - 4).iter().enumerate() {
            out.push_str(&format!("  {}{line}\n", if at == 0 { "" } else { "  " }));
        }
    }
}

/// Columns of the table of futex calls.
pub const FUTEX_COLUMNS: [&str; 7] =
    ["operation", "calls", "woken", "word had changed", "timeouts", "interrupted", "woke nobody"];

/// Futex calls, in the order of [`FUTEX_COLUMNS`].
pub fn futex_rows(summary: &SyncSummary) -> Vec<Vec<String>> {
    let operations = summary.futex.iter().flat_map(|futex| &futex.operations);
    operations
        .map(|one| {
            let numbers = [one.calls, one.woken, one.changed, one.timeouts, one.interrupted, one.woke_nobody];
            std::iter::once(one.operation.clone()).chain(numbers.map(count)).collect()
        })
        .collect()
}

/// What the counts of calls come to.
pub fn futex_sentence(summary: &SyncSummary) -> Option<String> {
    let futex = summary.futex.as_ref()?;
    let raw = match summary.facts.kernel.futex_calls {
        Some(raw) if raw == futex.calls => format!(", as many as entries were counted ({})", count(raw)),
        Some(raw) => format!("; {} entries were counted in all", count(raw)),
        None => String::new(),
    };
    let both = futex.reconciled.map_or_else(String::new, |both| {
        format!(
            " Of {} waits, {} were inside calls that were recorded; {} of {} recorded calls did not have to ask the kernel.",
            count(both.waits_inside + both.waits_outside),
            count(both.waits_inside),
            count(both.calls_without_kernel),
            count(both.calls)
        )
    });
    Some(format!("{} calls{raw}; {} spurious returns.{both}", count(futex.calls), count(futex.spurious)))
}

fn calls(out: &mut String, summary: &SyncSummary, style: Style) {
    let rows = futex_rows(summary);
    let Some(sentence) = futex_sentence(summary).filter(|_| !rows.is_empty()) else { return };
    heading(out, style, "Futex system calls", "as the kernel saw them");
    let mut columns: Vec<_> = FUTEX_COLUMNS.iter().map(|name| (*name, Align::Right)).collect();
    columns[0].1 = Align::Left;
    let mut table = Table::new(&columns);
    rows.into_iter().for_each(|row| {
        table.row(row);
    });
    out.push_str(&table.render(style));
    out.push_str(&format!("  {}\n", style.dim(&sentence)));
}
