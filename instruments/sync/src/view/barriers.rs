//! Waiting at barriers: for whom, and by how much that thread came last.

use super::words::waited;
use super::{FIRST_ROWS, time};
use crate::digest::{BarrierSummary, SyncDigest, SyncNames, SyncSummary};
use quaver_sync_analysis::sync::LastShare;
use quaver_view::{Block, Cell, Section, Table, Text, text};

/// Barriers that have sentences.
const WITH_SENTENCES: usize = 5;
/// Threads that a sentence names.
const NAMED: usize = 3;

/// Barriers; none without waits at any.
pub(super) fn section(digest: &SyncDigest) -> Option<Section> {
    let all = &digest.summary.contention.barriers;
    if all.is_empty() {
        return None;
    }
    let table = Table::of(
        all.iter().map(|one| (&*one.name, &one.figures)),
        &[
            ("barrier", &|(name, _)| Cell::from(*name)),
            ("waits", &|(_, one)| Cell::Count(one.wait.count)),
            ("waited", &|(_, one)| time(one.wait.total_ns)),
            ("longest", &|(_, one)| time(one.wait.max_ns)),
            ("threads", &|(_, one)| Cell::Count(one.threads)),
            ("rounds", &|(_, one)| Cell::Count(one.rounds)),
            ("for the last", &|(_, one)| time(one.for_last_ns)),
            ("after that", &|(_, one)| time(one.after_ns)),
        ],
    );
    let table = table.first_rows(2 * FIRST_ROWS).terminal_first(FIRST_ROWS);
    let sentences = all.iter().take(WITH_SENTENCES).map(|one| sentence(one, &digest.names));
    let section = Section::new("barriers", "Waiting at barriers")
        .note("whole waits; until the last of a round came, and after that")
        .with(table)
        .with(Block::List(sentences.collect()));
    Some(section)
}

fn sentence(barrier: &BarrierSummary, names: &SyncNames) -> Text {
    let one = &barrier.figures;
    let mut words = waited(&barrier.name, one.wait.total_ns, &barrier.waiter_chains);
    let last = one.last.iter().take(NAMED).map(|last| came_last(last, one.rounds, names));
    last.for_each(|last| words += &format!(" {last}."));
    if one.unfinished_ns > 0 {
        words += &format!(
            " {} of the wait was in rounds that were not full when it ended.",
            time(one.unfinished_ns)
        );
    }
    words.into()
}

fn came_last(last: &LastShare, rounds: u64, names: &SyncNames) -> String {
    let behind_ns = last.behind_ns as f64 / last.rounds.max(1) as f64;
    format!(
        "{} came last in {} of {}, {} after the one before it on average; others waited {} for it",
        names.thread(last.thread),
        Cell::Count(last.rounds),
        Cell::several(rounds, "round"),
        Cell::FineDuration(behind_ns),
        time(last.total_ns)
    )
}

/// Waiting at barriers in a sentence for the verdict, where it is longer than that for locks.
pub(super) fn verdict(summary: &SyncSummary, names: &SyncNames) -> Option<Text> {
    let contention = &summary.contention;
    let for_last_ns: u64 = contention.barriers.iter().map(|one| one.figures.for_last_ns).sum();
    let of_locks_ns =
        contention.wait.total_ns + contention.tried.total_ns + contention.lock_like_wait.total_ns;
    let least_ns = of_locks_ns.max(summary.results.settings.threshold_ns);
    let worst = contention.barriers.iter().max_by_key(|one| one.figures.for_last_ns)?;
    let last = worst.figures.last.first().filter(|_| for_last_ns > least_ns)?;
    Some(text!(
        "Threads waited {} at barriers for the last to come, {} at {}, where {} came last in {} of {}.",
        time(for_last_ns),
        time(worst.figures.for_last_ns),
        worst.name.as_str(),
        names.thread(last.thread).as_str(),
        Cell::Count(last.rounds),
        Cell::several(worst.figures.rounds, "round").as_str()
    ))
}
