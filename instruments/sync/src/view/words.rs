//! Semaphores, futex words and conditions.

use super::owners::{self, WORTH_TELLING};
use super::{FIRST_ROWS, time};
use crate::digest::{
    ConditionSummary, ContentionSummary, LockSummary, Share, SyncDigest, SyncNames, WordSummary,
};
use quaver_sync_analysis::sync::WakerShare;
use quaver_view::{Block, Cell, Section, Table, Text, text};

/// Words that have sentences.
const WITH_SENTENCES: usize = 5;
/// Threads and functions that a sentence names.
const NAMED: usize = 2;

/// The section with the words that are used like locks.
pub(super) fn with_locks(section: Section, digest: &SyncDigest) -> Section {
    let title = "Semaphores and futex words that are used like locks (inferred)";
    with_words(section, Some(title), digest, WordSummary::is_lock_like)
}

/// All other words; none without waits on any.
pub(super) fn others(digest: &SyncDigest) -> Option<Section> {
    let section = Section::new("words", "Waiting on other semaphores and futex words")
        .note("whole waits, by signals, at barriers, of threads without work");
    let section = with_words(section, None, digest, |word| !word.is_lock_like() && !word.is_barrier());
    (!section.blocks.is_empty()).then_some(section)
}

fn with_words(
    section: Section,
    title: Option<&str>,
    digest: &SyncDigest,
    is_such: fn(&WordSummary) -> bool,
) -> Section {
    let contention = &digest.summary.contention;
    let words: Vec<&WordSummary> = contention.words.iter().filter(|word| is_such(word)).collect();
    if words.is_empty() {
        return section;
    }
    let table = Table::of(
        words.iter().map(|word| (*word, &word.figures)),
        &[
            ("word", &|(word, _)| Cell::from(&*word.name)),
            ("kind", &|(_, one)| one.kind.name().into()),
            ("used like", &|(word, _)| word.used_like.name().into()),
            ("waits", &|(_, one)| Cell::Count(one.wait.count)),
            ("waited", &|(_, one)| time(one.wait.total_ns)),
            ("share", &|(_, one)| Cell::part(one.wait.total_ns, contention.word_wait.total_ns)),
            ("longest", &|(_, one)| time(one.wait.max_ns)),
            ("threads", &|(_, one)| Cell::Count(one.threads)),
            ("woken", &|(_, one)| Cell::Count(one.woken)),
            ("again at once", &|(_, one)| Cell::Count(one.again_at_once)),
        ],
    );
    let mut table = table.first_rows(2 * FIRST_ROWS).terminal_first(FIRST_ROWS);
    if let Some(title) = title {
        table = table.title(title);
    }
    let note = "Who holds a semaphore or futex word is not known: nobody records that. That a thread had a lock until it gave \
                that back is inferred, and so is what a word is used like. Again at once: a thread that was woken waited again \
                within 50 µs, since it found nothing or was quick.";
    let sentences = words.iter().take(WITH_SENTENCES).map(|word| sentence(word, digest));
    section.with(table).with(Block::List(sentences.collect())).with(Block::Note(note.into()))
}

fn wakers(all: &[WakerShare], names: &SyncNames) -> String {
    let named = all.iter().take(NAMED).map(|one| {
        let times = Cell::several(one.wake_ups, "time");
        let inferred = match one.wake_ups - one.certain {
            0 => String::new(),
            inferred if inferred == one.wake_ups => ", inferred".to_owned(),
            inferred => format!(", {} of them inferred", Cell::Count(inferred)),
        };
        format!("{} ({times}{inferred})", names.thread(one.thread))
    });
    named.collect::<Vec<_>>().join(", ")
}

/// How long it was waited for, and where.
pub(super) fn waited(name: &str, ns: u64, functions: &[Share]) -> String {
    let functions = functions.iter().take(NAMED).map(|one| &*one.name).collect::<Vec<_>>().join(", ");
    let place = if functions.is_empty() { String::new() } else { format!(" in {functions}") };
    format!("{name}: waited {}{place}.", time(ns))
}

/// Conditions; none without waits for any.
pub(super) fn conditions(digest: &SyncDigest) -> Option<Section> {
    let all = &digest.summary.contention.conditions;
    if all.is_empty() {
        return None;
    }
    let table = Table::of(
        all.iter().map(|one| (&*one.name, &one.figures)),
        &[
            ("condition", &|(name, _)| Cell::from(*name)),
            ("waits", &|(_, one)| Cell::Count(one.wait.count)),
            ("waited", &|(_, one)| time(one.wait.total_ns)),
            ("longest", &|(_, one)| time(one.wait.max_ns)),
            ("threads", &|(_, one)| Cell::Count(one.threads)),
            ("woken", &|(_, one)| Cell::Count(one.woken)),
            ("timed out", &|(_, one)| Cell::Count(one.timed_out.count)),
            ("signals", &|(_, one)| Cell::Count(one.signals)),
            ("broadcasts", &|(_, one)| Cell::Count(one.broadcasts)),
            ("nobody waited", &|(_, one)| Cell::Count(one.unheard)),
        ],
    );
    let table = table.first_rows(2 * FIRST_ROWS).terminal_first(FIRST_ROWS);
    let sentences = all.iter().take(WITH_SENTENCES).map(|one| of_condition(one, &digest.names));
    let section = Section::new("conditions", "Waiting for conditions")
        .note("whole waits, each with taking its mutex again; of threads without work, too")
        .with(table)
        .with(Block::List(sentences.collect()));
    Some(section)
}

fn of_condition(condition: &ConditionSummary, names: &SyncNames) -> Text {
    let one = &condition.figures;
    let mut words = waited(&condition.name, one.wait.total_ns, &condition.waiter_chains);
    if !one.wakers.is_empty() {
        words += &format!(" Woken by {}.", wakers(&one.wakers, names));
    }
    if one.timed_out.count > 0 {
        words += &format!(
            " {} ran out, after {} in all.",
            Cell::several(one.timed_out.count, "wait"),
            time(one.timed_out.total_ns)
        );
    }
    if one.unheard_before.count > 0 {
        words += &format!(
            " Before {} of these ({}) it was signalled while nobody waited. That signal was lost if the thread did not check \
             what it waits for first.",
            Cell::Count(one.unheard_before.count),
            time(one.unheard_before.total_ns)
        );
    }
    words.into()
}

/// Where it was waited on, who woke, and why it counts as what it does.
fn sentence(word: &WordSummary, digest: &SyncDigest) -> Text {
    let (one, names) = (&word.figures, &digest.names);
    let mut words = waited(&word.name, one.wait.total_ns, &word.waiter_chains);
    if !one.wakers.is_empty() {
        words += &format!(" Woken by {}.", wakers(&one.wakers, names));
    }
    if one.waker_unknown > 0 {
        words += &format!(" By whom is not known of {}.", Cell::several(one.waker_unknown, "wake-up"));
    }
    if let Some(lock) = &word.given_back {
        words += &given_back(lock, digest);
    }
    if word.is_lock_like() {
        words += &format!(" {}", word.why_a_lock());
    }
    words.into()
}

/// For whom threads waited until that one gave the lock back, and what it did meanwhile.
fn given_back(lock: &LockSummary, digest: &SyncDigest) -> String {
    let one = &lock.figures;
    let owners = owners::by_owner(lock);
    let named = owners.iter().take(NAMED).map(|(thread, ns, holds)| {
        let thread = digest.names.thread(*thread);
        format!("{thread} ({} in {})", time(*ns), Cell::several(*holds, "hold"))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let mut words = format!(" Given back by {named}. That they had it until then is inferred.");
    let sites = owners::parts(&lock.owner_chains, one.held_ns);
    if !sites.is_empty() {
        words += &format!(" Given back in {sites}.");
    }
    words += &owners::did(lock, digest);
    if one.owner_unknown_ns as f64 >= WORTH_TELLING * one.wait.total_ns as f64 && one.owner_unknown_ns > 0 {
        words += &format!(" For {} nobody was seen to give it back.", time(one.owner_unknown_ns));
    }
    one.patterns.iter().for_each(|pattern| words += &owners::evidence(*pattern, lock, &digest.names));
    words
}

/// The word that was waited on for longest of those that are used like locks, for the verdict.
pub(super) fn worst_of_locks(word: &WordSummary, names: &SyncNames) -> String {
    let one = &word.figures;
    let owner = word.given_back.as_ref().and_then(|lock| Some((lock, *owners::by_owner(lock).first()?)));
    if let Some((lock, (thread, ns, _))) = owner {
        let part = Cell::part(ns, one.wait.total_ns);
        let function =
            lock.owner_functions.first().map_or_else(String::new, |one| format!(" in {}", one.name));
        let thread = names.thread(thread);
        return format!(
            "{} for {}, {part} of it until {thread} gave it back{function}",
            time(one.wait.total_ns),
            word.name
        );
    }
    let woken = one.wakers.first().map_or_else(String::new, |waker| {
        let part = Cell::part(waker.total_ns, one.wait.total_ns);
        format!("; {} ended {part} of it", names.thread(waker.thread))
    });
    format!("{} for {}. Its owner is not known{woken}", time(one.wait.total_ns), word.name)
}

/// Words that may be locks or not, where threads waited on them for longer than so.
pub(super) fn verdict(contention: &ContentionSummary, longer_than_ns: u64) -> Option<Text> {
    let wait = &contention.unknown_wait;
    let worst = contention.words.iter().find(|word| word.may_be_lock());
    let worst = worst.filter(|_| wait.total_ns > longer_than_ns)?;
    Some(text!(
        "Threads waited {} on semaphores or futex words that may be locks or not, {} on {}.",
        time(wait.total_ns),
        time(worst.figures.wait.total_ns),
        worst.name
    ))
}
