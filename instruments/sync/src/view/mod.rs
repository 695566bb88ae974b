//! The document of `quaver sync`: threads over time with who woke whom, the six classes, who was late and why.

mod advice;
mod barriers;
mod contention;
mod drawings;
mod late;
mod owners;
mod sizes;
mod unended;
mod why;
mod words;

use crate::compensate::view as compensation;
use crate::digest::{SyncDigest, SyncSummary};
use quaver_sync_analysis::sync::Sums;
use quaver_view::{Cell, Document, Section, Table, Text, text};

/// Rows of a table of offenders, threads or cores that are shown at first.
const FIRST_ROWS: usize = 10;
/// Part of all threads' time in loops that wait for others from which on the verdict has it.
const MUCH: f64 = 0.1;

/// The document.
pub fn document(digest: &SyncDigest) -> Document {
    let summary = &digest.summary;
    let mut document = crate::head::document("quaver sync", &digest.facts, program(summary));
    circumstances(&mut document, summary);
    document.verdict = verdict(digest);
    document.incomplete = !summary.complete;
    tiles(&mut document, summary);
    let sections = [
        Some(drawings::overview(digest)),
        unended::section(digest),
        advice::section(summary),
        Some(late::classes(summary)),
        sizes::section(&summary.results.classes),
        why::section(digest),
        contention::locks(digest),
        words::others(digest),
        words::conditions(digest),
        barriers::section(digest),
        late::offenders("objects", "Locks and conditions", "late operations by object", &summary.objects),
        summary.facts.call_sites.then_some(&summary.call_sites).and_then(|sites| {
            late::offenders("call-sites", "Call sites", "late operations by calling function", sites)
        }),
        contention::threads(summary),
        late::threads(summary, &digest.names),
        late::cores(summary),
        critical_path(summary),
        calls(summary),
        summary.facts.compensation.as_ref().map(compensation::section),
    ];
    sections.into_iter().flatten().for_each(|section| {
        document.section(section);
    });
    document.warnings.extend(summary.facts.compensation.iter().flat_map(compensation::alarms));
    document.warnings.extend(summary.warnings.iter().map(Text::from));
    document
}

fn time(ns: u64) -> Cell {
    Cell::Duration(ns.cast_signed())
}

fn program(summary: &SyncSummary) -> Text {
    let facts = &summary.facts;
    let status = facts.status.map_or_else(String::new, |status| format!(" · {}", exit(status)));
    let (length, threads) =
        (time(summary.results.duration_ns()), Cell::several(summary.results.counts.threads, "thread"));
    text!("{}{status} · {length} · {threads}", facts.program.join(" "))
}

/// The program's status in words.
fn exit(status: u8) -> String {
    match status {
        129..=192 => format!("killed by signal {}", status - 128),
        status => format!("exit status {status}"),
    }
}

fn circumstances(document: &mut Document, summary: &SyncSummary) {
    let kernel = &summary.facts.kernel;
    let tier = if kernel.tier == "user" { "user space only" } else { &kernel.tier };
    document.fact("Tracing", tier);
    document.fact("Why no better tier", kernel.reason.as_deref().unwrap_or_default());
    document.fact("Not observed", kernel.blind.join(", "));
    let cpus = summary.facts.cpus.map_or_else(String::new, |cpus| cpus.to_string());
    document.html_fact("Allowed CPUs", cpus);
    document.html_fact("Events", text!("{}", Cell::Count(summary.results.counts.events)));
    document.html_fact("Kernel events", text!("{}", Cell::Count(summary.results.counts.kernel_events)));
}

fn verdict(digest: &SyncDigest) -> Option<Text> {
    let summary = &digest.summary;
    let results = &summary.results;
    if results.counts.events == 0 {
        return None;
    }
    let waited = contention::verdict(summary, &digest.names);
    let waited = match (waited, barriers::verdict(summary, &digest.names)) {
        (Some(waited), Some(met)) => Some(text!("{met} {waited}")),
        (waited, met) => waited.or(met),
    };
    let threshold_ns = results.settings.threshold_ns;
    let first = [unended::verdict(digest, threshold_ns), waited, spun(summary)];
    let waited = first.into_iter().flatten().reduce(|one, next| text!("{one} {next}"));
    if results.late.count == 0 {
        let remark = || unended::remark(digest, threshold_ns);
        let nothing = || text!("No synchronization took longer than {}.", time(threshold_ns));
        return Some(match waited {
            Some(waited) => text!("{waited} No operation was late."),
            None => remark().unwrap_or_else(nothing),
        });
    }
    let largest = results.classes.iter().max_by_key(|one| one.late.total_ns)?;
    let lost = text!(
        "Late operations cost {}, {} of it in the class {}.",
        time(results.late.total_ns),
        Cell::Share(largest.share.unwrap_or(0.0)),
        largest.class.name()
    );
    Some(match waited {
        Some(waited) => text!("{waited} {lost}"),
        None => lost,
    })
}

/// Loops that wait for others, where they took a part of all threads' time that matters.
fn spun(summary: &SyncSummary) -> Option<Text> {
    let times = summary.contention.threads.iter().map(|one| &one.time);
    let (spun_ns, lived_ns) = times.fold((0, 0), |(spun_ns, lived_ns), time| {
        (spun_ns + time.spin_ns, lived_ns + (time.last_ns - time.first_ns))
    });
    (spun_ns > 0 && spun_ns as f64 >= MUCH * lived_ns as f64).then(|| {
        text!(
            "By samples, threads spun for {}, {} of their time; for whom is not known.",
            time(spun_ns),
            Cell::part(spun_ns, lived_ns)
        )
    })
}

fn tiles(document: &mut Document, summary: &SyncSummary) {
    let results = &summary.results;
    let late = &results.late;
    document.tile("Sync jitter", time(late.total_ns), Cell::several(late.count, "late operation"));
    let length = time(results.duration_ns());
    document.tile("Late operations per ms", per_ms(late, summary), text!("over {length}"));
    document.tile("Largest", time(late.max_ns).only_if(late.count > 0), late::how_counted(summary));
    let (waited, inferred) = (&summary.contention.wait, &summary.contention.lock_like_wait);
    if waited.count + inferred.count > 0 {
        let inferred_waits = match inferred.count {
            0 => String::new(),
            count => format!(", {} of them inferred", Cell::Count(count)),
        };
        document.tile(
            "Waited for locks",
            time(waited.total_ns + inferred.total_ns),
            format!("{}{inferred_waits}", Cell::several(waited.count + inferred.count, "wait")),
        );
    }
    let path = &results.critical_path;
    if path.length_ns > 0 {
        let share = Cell::part(path.sync_jitter_ns, path.length_ns);
        let note = text!("{} of {}", time(path.sync_jitter_ns), time(path.length_ns));
        document.tile("On the critical path", share, note);
    }
    if let Some(share) = results.coverage.share() {
        let note = format!("of {}", Cell::several(results.coverage.wake_ups, "wake-up"));
        document.tile("Matched", Cell::Share(share), note);
    }
}

/// Events of a sum for each millisecond of the run.
fn per_ms(sums: &Sums, summary: &SyncSummary) -> Cell {
    let value = sums.count as f64 * 1e6 / summary.results.duration_ns().max(1) as f64;
    Cell::Number { value, digits: 3 }
}

fn critical_path(summary: &SyncSummary) -> Option<Section> {
    let (path, share) = (&summary.results.critical_path, &summary.results.sync_share);
    if path.length_ns == 0 {
        return None;
    }
    let execution = if summary.contention.kernel_seen { "execution" } else { "execution and sleep" };
    let mut table = Table::new(["part", "time", "share", ""]);
    for (name, ns) in [
        (execution, path.execution_ns),
        ("sync jitter", path.sync_jitter_ns),
        ("other jitter", path.other_ns),
        ("sleep", path.slept_ns),
        ("spinning", path.spun_ns),
        ("waits that ran out, or without a known waker", path.blocked_ns),
    ] {
        let bar = Cell::Bars(vec![ns as f64 / path.length_ns as f64]);
        table.row([name.into(), time(ns), Cell::part(ns, path.length_ns), bar]);
    }
    let last = path.last_thread.map_or_else(String::new, |thread| format!("; ends in thread {}", thread.0));
    let mut words = format!("{}{last}.", Cell::several(path.hand_overs, "handoff"));
    if let Some(on_path) = share.critical_path {
        let mean = share
            .threads_mean
            .map_or_else(String::new, |mean| format!("; mean over threads {}", Cell::Share(mean)));
        words += &format!(" Sync jitter is {} of all jitter on it{mean}.", Cell::Share(on_path));
    }
    let section = Section::new("path", "Critical path")
        .note("the chain of creations, joins and wake-ups that bounds the run time");
    Some(section.with(table).with(quaver_view::Block::Note(words.into())))
}

fn calls(summary: &SyncSummary) -> Option<Section> {
    let mut section = Section::new("calls", "Calls");
    if let Some(futex) = summary.futex.as_ref().filter(|futex| !futex.operations.is_empty()) {
        let columns =
            ["operation", "calls", "woken", "value changed (EAGAIN)", "timeouts", "interrupted", "no waiter"];
        let mut table = Table::new(columns).title("Futex system calls, from kernel tracing");
        for one in &futex.operations {
            let numbers = [one.calls, one.woken, one.changed, one.timeouts, one.interrupted, one.woke_nobody];
            table.row(std::iter::once(Cell::from(&*one.operation)).chain(numbers.map(Cell::Count)));
        }
        let entries = match summary.facts.kernel.futex_calls {
            Some(entries) if entries == futex.calls => ", as many as the kernel counted".to_owned(),
            Some(entries) => format!(", of {} that the kernel counted", Cell::Count(entries)),
            None => String::new(),
        };
        let both = futex.reconciled.map_or_else(String::new, |both| {
            format!(
                " {}: {} within recorded calls, {} on other futex words, {} that no table here counts. {} of {} \
                 stayed in user space.",
                Cell::several(both.waits(), "wait"),
                Cell::Count(both.waits_on_objects()),
                Cell::Count(both.waits_on_words()),
                Cell::Count(both.waits_unseen()),
                Cell::Count(both.calls_without_kernel),
                Cell::several(both.calls, "recorded call")
            )
        });
        let (calls, spurious) = (Cell::Count(futex.calls), Cell::Count(futex.spurious));
        section.push(table);
        section.push(quaver_view::Block::Note(text!(
            "{calls} calls{entries}; {spurious} spurious returns.{both}"
        )));
    }
    let table = Table::of(
        &summary.processes,
        &[
            ("process", &|one| format!("{} ({})", one.pid, one.exe).into()),
            ("threads", &|one| Cell::Count(one.threads as u64)),
            ("uncontended locks", &|one| Cell::Count(one.uncontended.free_locks)),
            ("uncontended unlocks", &|one| Cell::Count(one.uncontended.free_unlocks)),
            ("failed trylocks", &|one| Cell::Count(one.uncontended.busy_tries)),
            ("records lost", &|one| Cell::Count(one.lost)),
        ],
    );
    if !table.rows.is_empty() {
        section.push(quaver_view::Block::from(table).only(quaver_view::Shown::HtmlOnly));
    }
    (!section.blocks.is_empty()).then_some(section)
}
