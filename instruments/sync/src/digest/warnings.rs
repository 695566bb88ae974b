//! What to know before believing the numbers of `quaver sync`, each with what to do about it.

use super::contention::ContentionSummary;
use super::facts::{SyncFacts, UprobeFacts};
use super::images::Image;
use super::summary::SyncSummary;
use quaver_store::manifest::Manifest;
use quaver_view::Cell;
use std::collections::BTreeSet;
use std::path::Path;

/// Share of wake-ups whose waker is known; below it, something is missing.
const COVERED: f64 = 0.999_99;

/// Share of waits that may be in no figure without a remark.
const UNSEEN: f64 = 0.01;
/// A program that starts and ends sleeps a few times for its files.
const LEAST_UNSEEN: u64 = 20;

/// The warnings, those that make the rest void first.
pub(super) fn of(summary: &SyncSummary, manifest: &Manifest, directory: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(reason) = manifest.incomplete_reason() {
        warnings.push(format!("the run is incomplete: {reason}"));
    }
    warnings.extend(not_recorded(directory));
    warnings.extend(summary.facts.obstacles.iter().cloned());
    warnings.extend(empty(summary));
    warnings.extend(lost(summary));
    warnings.extend(crowded(summary));
    warnings.extend(kernel(summary));
    warnings.extend(unsampled(&summary.contention));
    warnings.extend(tried(summary));
    let coverage = &summary.results.coverage;
    if let Some(share) = coverage.share().filter(|share| *share < COVERED) {
        warnings.push(format!(
            "{} of {} wake-ups ({}) have no known waker: they were spurious, or who woke was not recorded (signals of the \
             kernel, processes that share memory and are not followed)",
            Cell::Count(coverage.wake_ups - coverage.matched),
            Cell::Count(coverage.wake_ups),
            Cell::Share(1.0 - share)
        ));
    }
    warnings
}

/// Waits that no figure holds, where they are more than one in a hundred.
pub(super) fn unseen(summary: &SyncSummary, recorded: u64, runtimes: &[&str]) -> Option<String> {
    if let Some(both) = summary.futex.as_ref().and_then(|futex| futex.reconciled) {
        let share = both.waits_unseen() as f64 / both.waits().max(1) as f64;
        return (share > UNSEEN).then(|| {
            format!(
                "{} of {} futex waits ({}) are in no figure: their threads made them before their recording began",
                Cell::Count(both.waits_unseen()),
                Cell::Count(both.waits()),
                Cell::Share(share)
            )
        });
    }
    if summary.facts.kernel.looked() || summary.facts.kept_out {
        return None;
    }
    let sleeps = summary.facts.sleeps?;
    let unseen = sleeps.saturating_sub(recorded);
    let share = unseen as f64 / sleeps.max(1) as f64;
    (share > UNSEEN && unseen >= LEAST_UNSEEN).then(|| {
        let own = match runtimes {
            [] => "waits of runtimes that call the kernel themselves".to_owned(),
            some => format!("waits of {}, which calls the kernel itself", some.join(" and ")),
        };
        format!(
            "{} of {} sleeps of its threads ({}) are in no figure: files, timers, and {own}; run quaver as root to see such waits",
            Cell::Count(unseen),
            Cell::Count(sleeps),
            Cell::Share(share)
        )
    })
}

/// Processes whose threads the kernel numbers otherwise. `made`: the kernel's numbers of all threads that the run made.
pub(super) fn renumbered(facts: &SyncFacts, images: &[Image], made: &BTreeSet<u32>) -> Option<String> {
    // What was made before, or without a record, proves nothing.
    if facts.attached || !facts.kernel.looked() || facts.kernel.lost > 0 {
        return None;
    }
    let of = |image: &Image| {
        let threads = image.threads().iter().map(|thread| thread.tid);
        are_strangers(image.facts().pid, threads, facts.pid, made)
    };
    // Images that one process executed have one number.
    let pids: BTreeSet<u32> =
        images.iter().filter(|image| of(image)).map(|image| image.facts().pid).collect();
    let who = match (pids.first()?, pids.len()) {
        (first, 1) => format!("process {first} has"),
        (first, count) => format!("process {first} and {} more have", count - 1),
    };
    Some(format!(
        "{who} a PID namespace of its own, where the kernel's records have other numbers for its threads: each of its waits counts \
         twice; start it in the namespace that quaver runs in"
    ))
}

/// Whether no thread of a process is one that the kernel saw.
fn are_strangers(
    pid: u32,
    mut threads: impl Iterator<Item = u32>,
    program: u32,
    made: &BTreeSet<u32>,
) -> bool {
    pid != program && !threads.any(|thread| made.contains(&thread))
}

/// Execution that the timer of the samples passed over, where it is more than one part in ten.
fn unsampled(contention: &ContentionSummary) -> Option<String> {
    let sampled = contention.threads.iter().map(|one| &one.time).filter(|time| time.unsampled_ns.is_some());
    let (unsampled_ns, ran_ns) = sampled.fold((0, 0), |(unsampled_ns, ran_ns), time| {
        (unsampled_ns + time.unsampled_ns.unwrap_or(0), ran_ns + time.execution_ns + time.spin_ns)
    });
    (unsampled_ns * 10 > ran_ns).then(|| {
        format!(
            "samples of what threads ran did not come when due, for {} of {} of execution ({}): spinning may be wrong by \
             as much",
            Cell::Duration(unsampled_ns as i64),
            Cell::Duration(ran_ns as i64),
            Cell::part(unsampled_ns, ran_ns)
        )
    })
}

/// Failed tries, if more than one for each ten locks that were got: a thread that tries in a loop waits in its own code.
fn tried(summary: &SyncSummary) -> Option<String> {
    let free = summary.processes.iter().map(|one| one.uncontended);
    let (tries, locks) = free.fold((0, summary.contention.wait.count), |(tries, locks), one| {
        (tries + one.busy_tries, locks + one.free_locks + one.free_read_locks + one.free_semaphore_waits)
    });
    let in_rows: u64 = summary.contention.locks.iter().map(|lock| lock.figures.failed_tries).sum();
    let others = tries - in_rows.min(tries);
    let matter = |tries: u64| tries >= LEAST_UNSEEN && tries * 10 > locks;
    let unseen = match matter(others) {
        true => format!(", and no figure has the waits of {} of them", Cell::Count(others)),
        false => String::new(),
    };
    matter(tries).then(|| {
        format!(
            "{} tries found a lock, a semaphore or a thread busy, for {} that were got: predicted gains are too low{unseen}",
            Cell::Count(tries),
            Cell::Count(locks)
        )
    })
}

/// What recorders said that could not begin.
fn not_recorded(directory: &Path) -> Vec<String> {
    let listed = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut failed: Vec<_> =
        listed.filter(|path| path.extension().is_some_and(|extension| extension == "failed")).collect();
    failed.sort();
    let said =
        |path: &std::path::PathBuf| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    failed.iter().filter_map(said).collect()
}

/// Why there is nothing to see.
fn empty(summary: &SyncSummary) -> Option<String> {
    let (facts, results) = (&summary.facts, &summary.results);
    if facts.attached && facts.kernel.uprobes.is_some() {
        return Some(
            "of a process that ran before, calls of conditions and barriers were seen by probes, all else only where it went into \
             the kernel; who called them is not known"
                .to_owned(),
        );
    }
    if facts.attached {
        return Some(
            "only system calls of a process that ran before were seen: operations that did not have to go into the \
             kernel, and who called them, are not among them"
                .to_owned(),
        );
    }
    if summary.events_from == "kernel" && results.counts.events > 0 {
        return Some(
            "the recorder saw no synchronisation of this program; what follows is its futex system calls as the kernel saw \
             them, without locks, call sites and whatever did not have to go into the kernel"
                .to_owned(),
        );
    }
    if results.counts.events > 0 || facts.kept_out {
        return None;
    }
    Some(if summary.processes.is_empty() {
        format!(
            "{} left no recording: its dynamic loader did not load the recorder (a static program, another machine's, one that \
             clears its environment)",
            facts.path
        )
    } else {
        "the program did not synchronise threads in any way that the recorder sees: it has one thread, or waits by means of \
         its own (as Go does); as root its futex calls are seen in any case"
            .to_owned()
    })
}

fn lost(summary: &SyncSummary) -> Vec<String> {
    let mut warnings = Vec::new();
    let records: u64 = summary.processes.iter().map(|process| process.lost).sum();
    if records > 0 {
        warnings.push(format!(
            "{} records found no room and are missing; put the run where there is more (-o DIR)",
            Cell::Count(records)
        ));
    }
    let threads: u64 = summary.processes.iter().map(|process| process.threads_lost).sum();
    if threads > 0 {
        warnings
            .push(format!("{} found no room, so nothing is known of them", Cell::several(threads, "thread")));
    }
    if summary.facts.kernel.lost > 0 {
        warnings.push(format!(
            "{} of the kernel found no room, so causes are missing",
            Cell::several(summary.facts.kernel.lost, "record")
        ));
    }
    warnings
}

/// Oversubscription: run-queue delay swamps the effect.
fn crowded(summary: &SyncSummary) -> Option<String> {
    let crowd = &summary.results.oversubscription;
    let (cpus, share) = (crowd.cpus?, crowd.crowded_share?);
    crowd.warns.then(|| {
        format!(
            "up to {} threads could run at once on {cpus} CPUs, and for {} of the time there were more than CPUs: waiting in run \
             queues ({} of late waits, as far as it was seen) is in these figures; give the program as many threads as CPUs",
            crowd.most_runnable,
            Cell::Share(share),
            Cell::Duration(crowd.run_queue_ns.cast_signed())
        )
    })
}

/// What probes took from the process, and what they do not see.
fn distortion(probes: &UprobeFacts, summary: &SyncSummary) -> Vec<String> {
    let time = |ns: u64| Cell::Duration(ns.cast_signed());
    let length_ns = summary.results.duration_ns().max(1);
    let cost = format!(
        "probes stopped it at {} calls, {} each as measured in this run ({} where the kernel had to step through the instruction): {} \
         of all its threads' time together, {} of the time looked at",
        Cell::Count(probes.calls),
        time(probes.emulated_ns),
        time(probes.stepped_ns),
        time(probes.distortion_ns()),
        Cell::Share(probes.distortion_ns() as f64 / length_ns as f64)
    );
    let refused = probes.refused.iter().map(|reason| format!("not probed: {reason}"));
    std::iter::once(cost).chain(refused).collect()
}

fn kernel(summary: &SyncSummary) -> Vec<String> {
    let kernel = &summary.facts.kernel;
    let mut warnings: Vec<String> =
        kernel.uprobes.iter().flat_map(|probes| distortion(probes, summary)).collect();
    if let Some(failed) = &kernel.failed {
        warnings.push(format!("looking at the kernel broke off: {failed}"));
    }
    if kernel.looked() && summary.results.counts.kernel_events == 0 {
        warnings.push(
            "the kernel told nothing of this program: in a process namespace its numbers of threads are others; run quaver \
             outside of the container"
                .to_owned(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_with_numbers_of_another_namespace_are_strangers() {
        let made = BTreeSet::from([101, 102, 103]);
        assert!(are_strangers(1, [1, 2, 3].into_iter(), 100, &made));
        // The program itself was made before its first record; of a child one thread is enough.
        assert!(!are_strangers(100, [100].into_iter(), 100, &made));
        assert!(!are_strangers(101, [101, 7].into_iter(), 100, &made));
    }
}
