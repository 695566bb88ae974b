//! Who was late: classes, locks, callers, threads, cores.

use super::{FIRST_ROWS, per_ms, time};
use crate::digest::{Named, SyncNames, SyncSummary};
use quaver_sync_analysis::sync::{ClassFigures, Sums, SyncClass};
use quaver_view::{Block, Cell, Section, Table, Text, text};

/// `bw broadcast-wait`
pub(super) fn class_name(class: SyncClass) -> Cell {
    format!("{:<2} {}", class.short(), class.name()).into()
}

/// What a late operation counts for.
pub(super) fn how_counted(summary: &SyncSummary) -> &'static str {
    match summary.results.settings.count_all {
        true => "counted in full",
        false => "counted above the threshold",
    }
}

/// The six classes.
pub(super) fn classes(summary: &SyncSummary) -> Section {
    let results = &summary.results;
    let columns = ["class", "operations", "late", "per ms", "mean", "max", "total", "share", ""];
    let mut table = Table::new(columns);
    let cells = |name: Cell, operations: u64, late: &Sums, per_ms: Cell| {
        let known = late.count > 0;
        vec![
            name,
            Cell::Count(operations),
            Cell::Count(late.count),
            per_ms.only_if(known),
            late.mean_ns().map(Cell::FineDuration).into(),
            time(late.max_ns).only_if(known),
            time(late.total_ns),
        ]
    };
    for one in &results.classes {
        let mut row = cells(class_name(one.class), one.timed.count, &one.late, class_per_ms(one));
        row.push(one.share.map(Cell::Share).into());
        row.push(Cell::Bars(one.share.into_iter().collect()));
        table.row(row);
    }
    let operations = results.classes.iter().map(|one| one.timed.count).sum();
    table.row(cells("   together".into(), operations, &results.late, per_ms(&results.late, summary)));
    let threshold = time(results.settings.threshold_ns);
    let note = text!("operations longer than {threshold}, {}", how_counted(summary));
    remarks(summary)
        .into_iter()
        .fold(Section::new("classes", "Sync jitter").note(note).with(table), |section, remark| {
            section.with(Block::Note(remark))
        })
}

fn class_per_ms(one: &ClassFigures) -> Cell {
    Cell::Number { value: one.late_per_ms, digits: 3 }
}

/// What belongs to the classes and is in none of their rows.
fn remarks(summary: &SyncSummary) -> Vec<Text> {
    let mut remarks = Vec::new();
    let coverage = &summary.results.coverage;
    if let Some(share) = coverage.share() {
        remarks.push(text!(
            "Coverage: {} of {} wake-ups matched with their waker ({}).",
            Cell::Count(coverage.matched),
            Cell::Count(coverage.wake_ups),
            Cell::Share(share)
        ));
    }
    let free =
        summary.processes.iter().map(|one| one.uncontended.free_locks + one.uncontended.free_read_locks);
    let free: u64 = free.sum();
    if free > 0 {
        remarks.push(text!("{}, counted and not timed.", Cell::several(free, "uncontended lock")));
    }
    let died = summary.results.counts.owners_died;
    if died > 0 {
        let words = "waits for locks ended since their owner had died (EOWNERDEAD): the kernel woke them.";
        remarks.push(text!("{} {words}", Cell::Count(died)));
    }
    let others = summary.results.others.iter().filter(|one| one.lost.count > 0).map(|one| {
        format!("{} {} ({})", one.class.name(), time(one.lost.total_ns), Cell::Count(one.lost.count))
    });
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        remarks.push(text!("Other lost time: {}.", others.join(", ")));
    }
    if !summary.facts.kernel.looked() {
        let words = "The kernel was not traced, so run-queue time is included in the classes: run as root.";
        remarks.push(words.into());
    }
    remarks
}

/// `bw 91 %, lu 9 %`
fn by_class(classes: &[Sums; 6]) -> Cell {
    let total: u64 = classes.iter().map(|one| one.total_ns).sum();
    let mut parts: Vec<(u64, SyncClass)> =
        classes.iter().map(|one| one.total_ns).zip(SyncClass::ALL).collect();
    parts.retain(|(ns, _)| *ns > 0);
    parts.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let words = parts.iter().map(|(ns, class)| format!("{} {}", class.short(), Cell::part(*ns, total)));
    words.collect::<Vec<_>>().join(", ").into()
}

fn section_of(section: Section, table: Table, terminal: usize) -> Option<Section> {
    (!table.rows.is_empty()).then(|| section.with(table.first_rows(2 * FIRST_ROWS).terminal_first(terminal)))
}

/// Those that were late, by name.
pub(super) fn offenders(id: &str, title: &str, note: &str, all: &[Named]) -> Option<Section> {
    let table = Table::of(
        all.iter().filter(|one| one.figures.late.count > 0).map(|one| (one, &one.figures.late)),
        &[
            ("name", &|(one, _)| Cell::from(&*one.name)),
            ("late", &|(_, late)| Cell::Count(late.count)),
            ("total", &|(_, late)| time(late.total_ns)),
            ("max", &|(_, late)| time(late.max_ns)),
            ("classes", &|(one, _)| by_class(&one.figures.classes)),
        ],
    );
    section_of(Section::new(id, title).note(note), table, FIRST_ROWS)
}

/// The threads that were late, the worst first.
pub(super) fn threads(summary: &SyncSummary, names: &SyncNames) -> Option<Section> {
    let table = Table::of(
        summary.results.threads.iter().filter(|one| one.late.count > 0),
        &[
            ("thread", &|one| Cell::from(&*names.thread(one.thread))),
            ("late", &|one| Cell::Count(one.late.count)),
            ("total", &|one| time(one.late.total_ns)),
            ("waited", &|one| time(one.waited_ns)),
            ("queued when woken", &|one| time(one.run_queue_ns)),
            ("classes", &|one| by_class(&one.classes)),
        ],
    );
    let note = "waited: all time in blocking calls, including the program's own idling; queued when woken: of the late waits alone";
    section_of(Section::new("threads", "Threads").note(note), table, FIRST_ROWS)
}

/// The cores on which late operations ended.
pub(super) fn cores(summary: &SyncSummary) -> Option<Section> {
    let table = Table::of(
        summary.results.cores.iter().filter(|one| one.late.count > 0),
        &[
            ("core", &|one| Cell::Index(one.core.into())),
            ("late", &|one| Cell::Count(one.late.count)),
            ("total", &|one| time(one.late.total_ns)),
            ("from another core", &|one| Cell::Count(one.migrations)),
            ("classes", &|one| by_class(&one.classes)),
        ],
    );
    let section = Section::new("cores", "Cores").note("core on which late operations ended");
    section_of(section, table, 2 * FIRST_ROWS)
}
