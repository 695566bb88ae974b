//! All waiting for locks, and where the time of threads went.

use super::owners::{self, WORTH_TELLING, by_owner, parts};
use super::{FIRST_ROWS, time, words};
use crate::digest::{ContentionSummary, LockSummary, SyncDigest, SyncNames, SyncSummary};
use quaver_sync_analysis::sync::{LockFigures, Spending};
use quaver_view::{Block, Cell, Section, Table, Text, text};

/// Locks that are told in sentences.
const TOLD: usize = 5;
/// Heading of the column that is there where any lock was got by tries.
const TRIED: &str = "tried";
/// A part below this share changes no digit of the verdict.
const WORTH_SAYING: f64 = 0.005;

/// How often a lock was got, as exactly as that is known.
fn got(lock: &LockFigures) -> Cell {
    let times = Cell::Count(lock.contended + lock.free);
    if lock.free_is_estimate { text!("about {times}").into() } else { times }
}

/// The locks, and the words that are used like locks; none without waits for any.
pub(super) fn locks(digest: &SyncDigest) -> Option<Section> {
    let contention = &digest.summary.contention;
    let note =
        "whole waits, from the call to its return; the classes above count only what follows a release";
    let section = Section::new("contention", "Waiting for locks").note(note);
    let section = if has_locks(contention) { with_locks(section, digest) } else { section };
    let section = words::with_locks(section, digest);
    let notes = contention.unnamed.iter().map(|words| Block::Note(words.as_str().into()));
    (!section.blocks.is_empty()).then(|| notes.fold(section, Section::with))
}

fn has_locks(contention: &ContentionSummary) -> bool {
    contention.wait.count + contention.tried.count > 0
}

fn with_locks(section: Section, digest: &SyncDigest) -> Section {
    let contention = &digest.summary.contention;
    let is_sought = |lock: &&LockSummary| lock.figures.wait.count + lock.figures.tried.count > 0;
    let mut columns = vec![
        "lock",
        "got",
        "contended",
        "waited",
        TRIED,
        "share",
        "longest",
        "held",
        "handing over",
        "mean hold",
        "if halved",
        "pattern",
    ];
    let is_shown = |heading: &str| heading != TRIED || contention.tried.count > 0;
    let place = columns.iter().position(|heading| *heading == TRIED);
    columns.retain(|heading| is_shown(heading));
    let mut table = Table::new(columns).first_rows(2 * FIRST_ROWS).terminal_first(FIRST_ROWS);
    let sought_ns = contention.wait.total_ns + contention.tried.total_ns;
    for lock in contention.locks.iter().filter(is_sought) {
        let one = &lock.figures;
        let patterns: Vec<&str> = one.patterns.iter().map(|pattern| pattern.name()).collect();
        let mut cells = vec![
            Cell::from(&*lock.name),
            got(one),
            one.contended_share().map(Cell::Share).into(),
            time(one.wait.total_ns),
            if one.tried.count > 0 { time(one.tried.total_ns) } else { Cell::Missing },
            Cell::part(one.sought_ns(), sought_ns),
            time(one.wait.max_ns.max(one.tried.max_ns)),
            time(one.held_ns),
            time(one.handed_over_ns),
            one.hold.mean_ns().map(Cell::FineDuration).into(),
            lock.gain.map(|gain| Cell::Share(gain.hold_halved)).into(),
            patterns.join(", ").into(),
        ];
        if let Some(place) = place.filter(|_| !is_shown(TRIED)) {
            cells.remove(place);
        }
        table.row(cells);
    }
    let section = section.with(table);
    let worst = contention.locks.iter().filter(is_sought);
    let told = worst.take(TOLD).map(|lock| sentence(lock, digest)).collect();
    let section = replay_notes(contention).into_iter().map(Block::Note).fold(section, Section::with);
    section.with(Block::List(told))
}

/// What stands behind the column of gains.
fn replay_notes(contention: &ContentionSummary) -> Option<Text> {
    let replay = &contention.replay;
    let lengths = text!("{} replayed, {} recorded", time(replay.replayed_ns), time(replay.recorded_ns));
    if let Some(reason) = &replay.reason {
        return Some(text!("What a change of a lock would gain is not told: {reason} ({lengths})."));
    }
    if replay.locks.is_empty() {
        return None;
    }
    let part = if replay.complete { "the run" } else { "the beginning of the run" };
    let tries = contention.tries_left_out().map_or_else(String::new, |words| format!(" {words}"));
    Some(text!(
        "If halved: {part} would be so much shorter with holds half as long, by replay. Without a change: {lengths}.{tries}"
    ))
}

/// Who waited for whom, what the owner did, and what it comes to.
fn sentence(lock: &LockSummary, digest: &SyncDigest) -> Text {
    let (one, names) = (&lock.figures, &digest.names);
    let mut words = format!("{}: waited {}.", lock.name, time(one.wait.total_ns));
    if one.tried.count > 0 {
        words += &format!(
            " Got {} in loops of tries, after {} in all and {}, the longest {}.",
            Cell::several(one.tried.count, "time"),
            time(one.tried.total_ns),
            Cell::several(one.failed_tries, "failed try"),
            time(one.tried.max_ns)
        );
    }
    if let Some(origin) = &lock.origin {
        words += &format!(" It was {}.", origin.words());
    }
    if let Some(pair) = one.pairs.first() {
        words += &format!(
            " Largest pair: {} for {}, {} in {}.",
            names.thread(pair.waiter),
            names.thread(pair.owner),
            time(pair.total_ns),
            Cell::several(pair.holds, "hold")
        );
    }
    let sites = parts(&lock.waiter_chains, one.wait.total_ns);
    if !sites.is_empty() {
        words += &format!(" Waited for in {sites}.");
    }
    let sites = parts(&lock.owner_chains, one.held_ns);
    if !sites.is_empty() {
        words += &format!(" Given back in {sites}.");
    }
    if one.outlasted_ns > 0 {
        words += &format!(" For {} the wait ended before its owner gave it back.", time(one.outlasted_ns));
    }
    words += &owners::did(lock, digest);
    if one.owner_unknown_ns as f64 >= WORTH_TELLING * one.wait.total_ns as f64 && one.owner_unknown_ns > 0 {
        words += &format!(
            " Who held it is not known for {} of the wait: no unlock was recorded before that was over.",
            time(one.owner_unknown_ns)
        );
    }
    // A circle has no root.
    let chain = one.roots.iter().find(|root| root.depth > 1).filter(|_| one.deadlock.is_none());
    if let Some(root) = chain {
        words += &format!(
            " Chain of {} locks: its root {} {} for {}.",
            root.depth,
            names.thread(root.thread),
            root.activity.name(),
            time(root.total_ns)
        );
    }
    one.patterns.iter().for_each(|pattern| words += &owners::evidence(*pattern, lock, names));
    words.into()
}

/// Where the time of each thread went.
pub(super) fn threads(summary: &SyncSummary) -> Option<Section> {
    let all = &summary.contention.threads;
    let spent = |spending: Spending| all.iter().any(|one| one.time.parts_ns()[spending as usize] > 0);
    let shown: Vec<Spending> = Spending::ALL.into_iter().filter(|spending| spent(*spending)).collect();
    let columns = ["thread", "lived"].into_iter().chain(shown.iter().map(|spending| spending.name()));
    let mut table = Table::new(columns).first_rows(2 * FIRST_ROWS).terminal_first(FIRST_ROWS);
    for one in all {
        let parts_ns = one.time.parts_ns();
        let lived_ns = one.time.last_ns - one.time.first_ns;
        let cells = shown.iter().map(|spending| time(parts_ns[*spending as usize]));
        table.row([Cell::from(&*one.name), time(lived_ns)].into_iter().chain(cells));
    }
    if table.rows.is_empty() {
        return None;
    }
    let note = match summary.contention.kernel_seen {
        true if summary.facts.kernel.tier == "bpf" => {
            "the parts of a thread are its whole time; spinning is by samples"
        }
        true => {
            "the parts of a thread are its whole time; without BPF, loops that wait for others are in execution"
        }
        false => {
            "the parts of a thread are its whole time; the kernel was not traced, so execution has sleep and run queue in it"
        }
    };
    Some(Section::new("thread-time", "Where threads' time went").note(note).with(table))
}

/// Waiting for locks in sentences for the verdict; none where it is not worth one.
pub(super) fn verdict(summary: &SyncSummary, names: &SyncNames) -> Option<Text> {
    let contention = &summary.contention;
    let threshold_ns = summary.results.settings.threshold_ns;
    let of_locks_ns = contention.wait.total_ns + contention.tried.total_ns;
    let whole_ns = of_locks_ns + contention.lock_like_wait.total_ns;
    let lock = contention.locks.first();
    let word = contention.words.iter().find(|word| word.is_lock_like());
    let sought_ns = lock.map_or(0, |lock| lock.figures.sought_ns());
    let worst = match word.filter(|word| word.figures.wait.total_ns > sought_ns) {
        Some(word) => Some(words::worst_of_locks(word, names)),
        None => lock.map(|lock| worst_of_locks(lock, names)),
    };
    let inferred = match contention.lock_like_wait.total_ns {
        ns if (ns as f64) < WORTH_SAYING * whole_ns as f64 || ns == 0 => String::new(),
        ns if ns == whole_ns => " (inferred)".to_owned(),
        ns => format!(" ({} of it inferred)", Cell::part(ns, whole_ns)),
    };
    let waited = worst.filter(|_| whole_ns >= threshold_ns && whole_ns > 0);
    let waited = waited.map(|worst| text!("Threads waited {} for locks{inferred}, {worst}.", time(whole_ns)));
    let unknown = words::verdict(contention, threshold_ns.max(whole_ns));
    match (waited, unknown) {
        (Some(waited), Some(unknown)) => Some(text!("{waited} {unknown}")),
        (waited, unknown) => waited.or(unknown),
    }
}

/// The lock that was waited for longest, for a sentence.
fn worst_of_locks(worst: &LockSummary, names: &SyncNames) -> String {
    let one = &worst.figures;
    let owner = by_owner(worst).into_iter().next();
    let worth = owner.filter(|(_, ns, _)| *ns as f64 >= WORTH_TELLING * one.sought_ns() as f64);
    let held = worth.map_or_else(String::new, |(thread, ns, _)| {
        let function =
            worst.owner_functions.first().map_or_else(String::new, |one| format!(" in {}", one.name));
        format!(
            ", {} of it while {} held it{function}",
            Cell::part(ns, one.sought_ns()),
            names.thread(thread)
        )
    });
    let is_tried = one.tried.total_ns as f64 >= WORTH_TELLING * one.sought_ns() as f64 && one.tried.count > 0;
    let tried = match is_tried {
        true => format!(", {} of it in loops of tries", Cell::part(one.tried.total_ns, one.sought_ns())),
        false => String::new(),
    };
    let patterns: Vec<&str> = one.patterns.iter().map(|pattern| pattern.name()).collect();
    let pattern = if patterns.is_empty() { String::new() } else { format!(" ({})", patterns.join(", ")) };
    format!("{} for {}{pattern}{tried}{held}", time(one.sought_ns()), worst.name)
}
