//! Why late waits were late: causes of all, and the longest one by one.

use super::{drawings, time};
use crate::digest::{SyncDigest, SyncNames, SyncSummary};
use quaver_sync_analysis::sync::{SyncClass, Wait};
use quaver_view::{Block, Cell, Group, Section, Shown, Table, Text, text};

/// Longest waits that the terminal tells one by one.
const WAITS: usize = 5;
/// Waits that are drawn one by one.
const DRAWN_WAITS: usize = 6;

/// The section; none without late waits.
pub(super) fn section(digest: &SyncDigest) -> Option<Section> {
    let summary = &digest.summary;
    let waits = longest(summary);
    if waits.is_empty() {
        return None;
    }
    let mut section = Section::new("why", "Causes of late waits");
    if !summary.facts.kernel.looked() {
        section.push(Block::Note(
            "Causes need kernel tracing: run as root. Below: what the program's own calls show.".into(),
        ));
    }
    section.push(causes(summary));
    let words = |wait: &Wait| sentence(wait, &digest.names, digest.lanes.from_ns);
    let told = waits.iter().take(WAITS).map(|wait| words(wait)).collect();
    section.push(Block::Note("The longest:".into()).only(Shown::TerminalOnly));
    section.push(Block::List(told).only(Shown::TerminalOnly));
    let drawn = chosen(&waits).into_iter().enumerate();
    let charts = drawn.map(|(at, wait)| drawings::wait(digest, at, wait).note(words(wait)));
    let how = "The arrow goes from the waking call to the waiter's return. Below: how that time was spent.";
    section.push(Block::Note(how.into()).only(Shown::HtmlOnly));
    Some(section.with(Group::one_of("Wait", charts)))
}

/// The largest part first.
fn causes(summary: &SyncSummary) -> Table {
    let mut causes: Vec<_> = summary.results.causes.iter().filter(|one| one.waits.total_ns > 0).collect();
    let total: u64 = causes.iter().map(|one| one.waits.total_ns).sum();
    causes.sort_by_key(|one| std::cmp::Reverse(one.waits.total_ns));
    Table::of(
        causes,
        &[
            ("cause", &|one| one.cause.name().into()),
            ("time", &|one| time(one.waits.total_ns)),
            ("share", &|one| Cell::part(one.waits.total_ns, total)),
            ("late waits", &|one| Cell::Count(one.waits.count)),
            ("leads", &|one| Cell::Count(one.leads)),
        ],
    )
}

/// The longest waits over all classes.
fn longest(summary: &SyncSummary) -> Vec<&Wait> {
    let mut all: Vec<&Wait> = summary.results.longest.iter().collect();
    all.sort_by_key(|wait| (std::cmp::Reverse(wait.took_ns()), wait.ended_ns));
    all
}

/// The longest wait of each class, then the longest of all.
fn chosen<'a>(all: &[&'a Wait]) -> Vec<&'a Wait> {
    let first = |class: SyncClass| all.iter().position(|wait| wait.class == class);
    let mut places: Vec<usize> = SyncClass::ALL.into_iter().filter_map(first).chain(0..all.len()).collect();
    let mut seen = std::collections::BTreeSet::new();
    places.retain(|place| seen.insert(*place));
    places.truncate(DRAWN_WAITS);
    places.sort_unstable();
    places.into_iter().map(|place| all[place]).collect()
}

/// One long wait.
fn sentence(wait: &Wait, names: &SyncNames, from_ns: u64) -> Text {
    let mut pieces: Vec<(u64, &str)> = Vec::new();
    for piece in &wait.pieces {
        let ns = piece.end_ns - piece.start_ns;
        match pieces.iter_mut().find(|(_, name)| *name == piece.cause.name()) {
            Some(known) => known.0 += ns,
            None => pieces.push((ns, piece.cause.name())),
        }
    }
    pieces.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let why: Vec<String> = pieces.iter().take(3).map(|(ns, name)| format!("{name} {}", time(*ns))).collect();
    let moved = if wait.entered_cpu == wait.ended_cpu {
        format!("on CPU {}", wait.ended_cpu)
    } else {
        format!("from CPU {} to {}", wait.entered_cpu, wait.ended_cpu)
    };
    text!(
        "{} {}: {} {moved}, woken by {} for {}, at {}: {}",
        time(wait.took_ns()),
        wait.class.short(),
        names.thread(wait.thread),
        names.thread(wait.waker),
        names.object(wait.process, wait.object),
        time(wait.released_ns.saturating_sub(from_ns)),
        why.join(", ")
    )
}
