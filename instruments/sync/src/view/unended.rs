//! Waits that had not ended when the run did.

use super::{FIRST_ROWS, time};
use crate::digest::{SyncDigest, UnendedSummary};
use quaver_sync_analysis::sync::Spending;
use quaver_view::{Block, Cell, Section, Table, Text, text};

/// Waits that the verdict names.
const NAMED: usize = 2;

/// The section; none where each wait had ended.
pub(super) fn section(digest: &SyncDigest) -> Option<Section> {
    let contention = &digest.summary.contention;
    if contention.unended.is_empty() {
        return None;
    }
    let table = Table::of(
        &contention.unended,
        &[
            ("thread", &|wait| Cell::from(thread(wait, digest))),
            ("waited for", &|wait| Cell::from(&*wait.name)),
            ("kind", &|wait| wait.figures.waits_for.name().into()),
            ("since", &|wait| time(wait.figures.total_ns)),
            ("in", &|wait| Cell::from(&*wait.caller)),
        ],
    );
    let table = table.first_rows(2 * FIRST_ROWS).terminal_first(FIRST_ROWS);
    let section = Section::new("unended", "Waits that had not ended")
        .note("when the run did; since: how long before")
        .with(table);
    // Who has no work when a program ends in order waits likewise.
    let stood =
        |wait: &UnendedSummary| contention.standstills.iter().any(|one| one.process == wait.figures.process);
    let in_order = digest.summary.facts.status == Some(0);
    let unheard =
        contention.unended.iter().filter(|wait| wait.figures.after_unheard && (!in_order || stood(wait)));
    let missed: Vec<Text> = unheard
        .map(|wait| {
            text!(
                "{}: it was signalled before {} began to wait, while nobody waited. The signal may have been lost: it is, if the \
                 thread did not check first what it waits for.",
                &*wait.name,
                thread(wait, digest)
            )
        })
        .collect();
    let section = if missed.is_empty() { section } else { section.with(Block::List(missed)) };
    if contention.standstills.is_empty() {
        return Some(section);
    }
    let note = "Stood still: all threads of a process waited in calls that a thread of it ends. Only a time limit, a handler of a \
                signal or another process could have ended one.";
    Some(section.with(Block::Note(note.into())))
}

fn thread(wait: &UnendedSummary, digest: &SyncDigest) -> String {
    digest.names.thread_of(wait.figures.process, wait.figures.thread)
}

/// Who waited for what, the longest first.
fn who(digest: &SyncDigest, is_such: impl Fn(&UnendedSummary) -> bool) -> String {
    let such = digest.summary.contention.unended.iter().filter(|wait| is_such(wait));
    let words = such.take(NAMED).map(|wait| format!("{} for {}", thread(wait, digest), wait.name));
    words.collect::<Vec<_>>().join(", ")
}

/// For the verdict: the process that stood still for longest, if that is longer than so.
pub(super) fn verdict(digest: &SyncDigest, longer_than_ns: u64) -> Option<Text> {
    let standstills = digest.summary.contention.standstills.iter();
    let one = standstills.max_by_key(|one| one.total_ns).filter(|one| one.total_ns > longer_than_ns)?;
    let waited = |wait: &UnendedSummary| wait.figures.process == one.process;
    // Who waits for the end of a thread waits for one of the others.
    let named = who(digest, |wait| waited(wait) && wait.figures.waits_for != Spending::Join);
    let named = if named.is_empty() { who(digest, waited) } else { named };
    let threads = match one.threads {
        1 => "its one thread".to_owned(),
        more => format!("all {more} threads"),
    };
    let what = match digest.summary.processes.len() {
        0 | 1 => "The program".to_owned(),
        more => format!("One of {more} processes"),
    };
    Some(text!("{what} stood still for its last {}: {threads} waited, {named}.", time(one.total_ns)))
}

/// Where no operation was late: waits that had not ended, if one of them was longer than so.
pub(super) fn remark(digest: &SyncDigest, longer_than_ns: u64) -> Option<Text> {
    let is_long = |wait: &UnendedSummary| {
        wait.figures.waits_for != Spending::Join && wait.figures.total_ns > longer_than_ns
    };
    let long = digest.summary.contention.unended.iter().filter(|wait| is_long(wait));
    let count = long.count() as u64;
    (count > 0).then(|| {
        text!(
            "No operation was late. {} had not ended when the run did: {}.",
            Cell::several(count, "wait"),
            who(digest, is_long)
        )
    })
}
