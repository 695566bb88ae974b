//! What to change in a program or on its host, each with the figures of this run that bear it out. Nothing is advised without.

use super::contention::{BarrierSummary, ConditionSummary, ContentionSummary};
use super::locks::{LockSummary, UNKNOWN_CALL};
use super::names::SyncNames;
use super::shares::Share;
use super::words::WordSummary;
use quaver_sync_analysis::sync::{Activity, Cause, CauseFigures, Pattern, Spending, ThreadShare};
use quaver_view::Cell;
use schemars::JsonSchema;
use serde::Serialize;

/// Gain by replay below which a change is not worth it, as part of the run's length.
const WORTH: f64 = 0.03;
/// Part of all threads' time below which what it went into is no matter.
const MATTERS: f64 = 0.03;
/// Part of a lock's wait that one reason needs.
const LEADS: f64 = 0.25;
/// Share of a lock's uses that find it held from which on it is got too often.
const OFTEN: f64 = 0.1;
/// Waits for a lock from which on their mean says something.
const ENOUGH_WAITS: u64 = 50;
/// Rounds of a barrier from which on it matters who came last.
const ENOUGH_ROUNDS: u64 = 4;
/// Part of late waits that threads' moves between CPUs need.
const MOVED: f64 = 0.1;

/// A change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Advice {
    /// What kind of change, in one word: `shorten-hold`, `sleep-outside`, `split-lock`, `batch`, `priority-inheritance`,
    /// `lock-not-try`, `lock-order`, `contended-word`, `signal-one`, `balance`, `more-cpus`, `others-off`, `quota`, `pin`, `spin-less`.
    pub kind: &'static str,
    /// What to do.
    pub change: String,
    /// Part of the run's length that it gains, where that was replayed; an estimate from above where `at_most`.
    pub gain: Option<f64>,
    /// The gain is that of removing all of it.
    pub at_most: bool,
    /// What of this run says so, a sentence each.
    pub evidence: Vec<String>,
}

fn time(ns: u64) -> Cell {
    Cell::Duration(ns.cast_signed())
}

/// All that this run bears out.
pub(super) fn of(contention: &ContentionSummary, causes: &[CauseFigures], names: &SyncNames) -> Vec<Advice> {
    let locks = &contention.locks;
    let mut all: Vec<Advice> = locks.iter().flat_map(|lock| of_lock(lock, contention, names)).collect();
    let lived_ns = lived_ns(contention);
    all.extend(contention.words.iter().filter_map(|word| contended_word(word, lived_ns, names)));
    all.extend(contention.conditions.iter().filter_map(signal_one));
    all.extend(contention.barriers.iter().filter_map(|barrier| balance(barrier, contention, names)));
    all.extend(
        [
            more_cpus(contention),
            others_off(contention),
            quota(contention),
            pin(contention, causes),
            spin_less(contention),
        ]
        .into_iter()
        .flatten(),
    );
    if let Some(words) = contention.tries_left_out() {
        all.iter_mut().filter(|one| one.gain.is_some()).for_each(|one| one.evidence.push(words.clone()));
    }
    all.sort_by(|one, other| other.gain.unwrap_or(0.0).total_cmp(&one.gain.unwrap_or(0.0)));
    all
}

fn of_lock(lock: &LockSummary, contention: &ContentionSummary, names: &SyncNames) -> Vec<Advice> {
    let mut all = Vec::new();
    let name = &lock.name;
    let one = &lock.figures;
    if one.deadlock.is_some() {
        return lock_order(lock, contention, names).into_iter().collect();
    }
    // Less work below a lock that nobody waits for is less work, and no matter of the lock.
    let matters = one.wait.total_ns as f64 >= MATTERS * lived_ns(contention) as f64;
    let halved = lock.gain.map(|gain| gain.hold_halved).filter(|gain| matters && *gain >= WORTH);
    if let Some(gain) = halved {
        let mut evidence =
            vec![format!("Held for half as long, the run is {} shorter by replay.", Cell::Share(gain))];
        evidence.extend(one.hold.mean_ns().map(|ns| {
            format!(
                "It was held for {} on average, and waited for {}.",
                Cell::FineDuration(ns),
                time(one.wait.total_ns)
            )
        }));
        evidence.extend(
            most(&lock.owner_functions, one.held_ns)
                .map(|(place, part)| format!("{part} of the wait was for holds that ended in {place}.")),
        );
        let slept_ns = one.owner_ns[Activity::Slept as usize];
        let sleeps = one.held_ns > 0 && slept_ns as f64 >= LEADS * one.held_ns as f64;
        let call = lock.owner_calls.first().filter(|call| sleeps && call.name != UNKNOWN_CALL);
        evidence.extend(call.map(|call| {
            format!("While others waited, its owners slept {} in {}.", time(call.total_ns), call.name)
        }));
        let outside = lock.gain.map(|gain| gain.sleep_outside).filter(|gain| *gain >= WORTH);
        let (kind, change, gain) = match (call, outside) {
            (Some(call), Some(gain)) => {
                evidence[0] =
                    format!("Slept as long without it, the run is {} shorter by replay.", Cell::Share(gain));
                ("sleep-outside", format!("Sleep in {} without {name}.", call.name), gain)
            }
            _ => ("shorten-hold", format!("Hold {name} for less time."), gain),
        };
        let within = lock.gain.filter(|_| call.is_some() && outside.is_none());
        evidence.extend(within.map(|gain| {
            format!(
                "The same sleep without {name} gains {} by replay: the run waits for the owners themselves.",
                Cell::Share(gain.sleep_outside.max(0.0))
            )
        }));
        all.push(Advice { kind, change, gain: Some(gain), at_most: false, evidence });
    }
    if let Some(gain) = lock.gain.and_then(|gain| gain.split).filter(|gain| *gain >= WORTH) {
        all.push(Advice {
            kind: "split-lock",
            change: format!("Split {name} in two, if what it guards can be told apart."),
            gain: Some(gain),
            at_most: false,
            evidence: vec![
                format!("With half of the uses each, the run is {} shorter by replay.", Cell::Share(gain)),
                format!(
                    "{} of its uses found it held.",
                    one.contended_share().map_or(Cell::Missing, Cell::Share)
                ),
            ],
        });
    }
    all.extend(batch(lock, contention));
    all.extend(lock_not_try(lock, contention));
    all.extend(inherit(lock, contention, names));
    all
}

/// Locks that threads waited for in a circle. The first of them has the advice.
fn lock_order(lock: &LockSummary, contention: &ContentionSummary, names: &SyncNames) -> Option<Advice> {
    let mut circle = vec![(lock, lock.figures.deadlock?)];
    while let Some((_, pair)) = circle.last().copied().filter(|(_, pair)| pair.owner != circle[0].1.waiter) {
        let waits = |one: &&LockSummary| one.figures.deadlock.is_some_and(|next| next.waiter == pair.owner);
        let next = contention.locks.iter().find(waits).filter(|_| circle.len() < contention.locks.len())?;
        circle.push((next, next.figures.deadlock?));
    }
    let first =
        contention.locks.iter().find(|one| circle.iter().any(|(other, _)| std::ptr::eq(*one, *other)));
    if !first.is_some_and(|first| std::ptr::eq(first, lock)) {
        return None;
    }
    let all: Vec<&str> = circle.iter().map(|(lock, _)| &*lock.name).collect();
    let change = match all[..] {
        [own] => format!("Do not get {own} again in a thread that has it, or make it recursive."),
        _ => format!("Get {} in the same order in all threads.", all.join(" and ")),
    };
    let waits = circle.iter().map(|(lock, pair)| {
        let (waiter, owner) = (names.thread(pair.waiter), names.thread(pair.owner));
        format!("To its end, {waiter} waited {} for {}, which {owner} had.", time(pair.total_ns), lock.name)
    });
    Some(Advice { kind: "lock-order", change, gain: None, at_most: false, evidence: waits.collect() })
}

/// A lock whose owner is kept from its CPU by threads less urgent than its waiters. At the end of a chain each lock on the way has to
/// pass the priority on.
fn inherit(lock: &LockSummary, contention: &ContentionSummary, names: &SyncNames) -> Option<Advice> {
    let one = &lock.figures;
    if !one.patterns.contains(&Pattern::PriorityInversion) {
        return None;
    }
    let is_deep = one.inverted_deep_ns as f64 >= LEADS * one.inverted_ns as f64;
    let way = if is_deep { way(lock, contention) } else { vec![&*lock.name] };
    let of = if is_deep { "The threads at the end of its chains" } else { "Its owners" };
    Some(Advice {
        kind: "priority-inheritance",
        change: format!("Initialise {} with PTHREAD_PRIO_INHERIT.", way.join(" and ")),
        gain: None,
        at_most: false,
        evidence: vec![format!(
            "{of} waited {} for their CPUs behind threads less urgent than its waiters ({}): {} of the wait.",
            time(one.inverted_ns),
            threads(&one.inverted_by, names),
            Cell::part(one.inverted_ns, one.wait.total_ns)
        )],
    })
}

/// The lock, that which its owners waited for most, and so on.
fn way<'a>(lock: &'a LockSummary, contention: &'a ContentionSummary) -> Vec<&'a str> {
    let mut way = vec![lock];
    while let Some(next) = way.last().and_then(|last| last.figures.waited_for.first()) {
        let is_next =
            |one: &&LockSummary| (one.figures.process, one.figures.address) == (next.process, next.address);
        let found = contention.locks.iter().find(is_next);
        let Some(found) = found.filter(|found| !way.iter().any(|one| std::ptr::eq(*one, *found))) else {
            break;
        };
        way.push(found);
    }
    way.into_iter().map(|one| &*one.name).collect()
}

/// A lock whose handing over takes longer than its holds.
fn batch(lock: &LockSummary, contention: &ContentionSummary) -> Option<Advice> {
    let one = &lock.figures;
    let hold_ns = one.hold.mean_ns()?;
    // How long it lay unheld each time, however many waited then.
    let hand_over_ns = one.hand_over.mean_ns()?;
    let matters = one.handed_over_ns as f64 >= MATTERS * lived_ns(contention) as f64;
    let leads = one.handed_over_ns as f64 >= LEADS * one.wait.total_ns as f64;
    let often = one.contended_share().is_some_and(|share| share >= OFTEN);
    (one.contended >= ENOUGH_WAITS && often && matters && leads && hand_over_ns > hold_ns).then(|| Advice {
        kind: "batch",
        change: format!("Do more each time that {} is got, so that it is got less often.", lock.name),
        gain: None,
        at_most: false,
        evidence: vec![format!(
            "It was handed over {}, which took {} on average. It was held for {}.",
            Cell::several(one.hand_over.count, "time"),
            Cell::FineDuration(hand_over_ns),
            Cell::FineDuration(hold_ns)
        )],
    })
}

/// A lock that threads try to get in loops.
fn lock_not_try(lock: &LockSummary, contention: &ContentionSummary) -> Option<Advice> {
    let (one, lived_ns) = (&lock.figures, lived_ns(contention));
    (one.tried.total_ns as f64 >= MATTERS * lived_ns as f64).then(|| Advice {
        kind: "lock-not-try",
        change: format!("Wait for {} in a call that blocks rather than in a loop of tries.", lock.name),
        gain: None,
        at_most: false,
        evidence: vec![format!(
            "Threads tried for {}, {} of their time: it was got {} so, after {}.",
            time(one.tried.total_ns),
            Cell::part(one.tried.total_ns, lived_ns),
            Cell::several(one.tried.count, "time"),
            Cell::several(one.failed_tries, "failed try")
        )],
    })
}

/// A word that is used like a lock, and takes a part of all threads' time that matters.
fn contended_word(word: &WordSummary, lived_ns: u64, names: &SyncNames) -> Option<Advice> {
    let one = &word.figures;
    // Shorter holds end no wait that never ended.
    let ended_ns = one.wait.total_ns - one.unended_ns.min(one.wait.total_ns);
    let matters = ended_ns as f64 >= MATTERS * lived_ns as f64;
    (word.is_lock_like() && matters).then(|| {
        let mut evidence = vec![
            format!(
                "Threads waited {} for it, {} of their time, in {}.",
                time(one.wait.total_ns),
                Cell::part(one.wait.total_ns, lived_ns),
                Cell::several(one.wait.count, "wait")
            ),
            word.why_a_lock(),
        ];
        if let Some(pair) = word.given_back.as_ref().and_then(|lock| lock.figures.pairs.first()) {
            let (waiter, owner) = (names.thread(pair.waiter), names.thread(pair.owner));
            let (ns, holds) = (time(pair.total_ns), Cell::several(pair.holds, "hold"));
            evidence.push(format!(
                "The longest, {ns} in {holds}, {waiter} waited until {owner} gave it back. That {owner} had it until then is inferred."
            ));
        } else if let Some(waker) = one.wakers.first() {
            let thread = names.thread(waker.thread);
            let (ns, waits) = (time(waker.total_ns), Cell::Count(waker.wake_ups));
            evidence.push(format!(
                "Who held it is not known. The most, {waits} of the waits with {ns}, were ended by {thread}."
            ));
        }
        Advice {
            kind: "contended-word",
            change: format!("Hold {} for less time, or get it less often.", word.name),
            gain: None,
            at_most: false,
            evidence,
        }
    })
}

/// A condition that is broadcast, and most of who is woken waits again at once.
fn signal_one(condition: &ConditionSummary) -> Option<Advice> {
    let one = &condition.figures;
    // Beside these, one thread for each broadcast had something to do.
    let idle = one.again.saturating_sub(one.broadcasts);
    let often = one.broadcasts >= ENOUGH_WAITS && idle as f64 >= LEADS * one.woken as f64;
    often.then(|| Advice {
        kind: "signal-one",
        // A signal that reaches the wrong one of several predicates is lost, and the program may stand still.
        change: format!(
            "Signal {} rather than broadcast it, if any waiter will do. If not, give each predicate a condition of its own.",
            condition.name
        ),
        gain: None,
        at_most: false,
        evidence: vec![format!(
            "{} and {} woke threads {}. {} the thread waited again without having given the mutex back.",
            Cell::several(one.broadcasts, "broadcast"),
            Cell::several(one.signals, "signal"),
            Cell::several(one.woken, "time"),
            Cell::several(one.again, "time")
        )],
    })
}

/// A barrier to which the same thread comes last again and again.
fn balance(barrier: &BarrierSummary, contention: &ContentionSummary, names: &SyncNames) -> Option<Advice> {
    let last = barrier.figures.last.iter().max_by_key(|last| last.behind_ns)?;
    let gain = last.behind_ns as f64 / contention.replay.recorded_ns.max(1) as f64;
    (gain >= WORTH && last.rounds >= ENOUGH_ROUNDS).then(|| Advice {
        kind: "balance",
        change: format!("Give {} less to do before {}.", names.thread(last.thread), barrier.name),
        gain: Some(gain),
        at_most: true,
        evidence: vec![format!(
            "It came last in {} of {}, {} after the one before it in all. Others waited {} for it.",
            Cell::Count(last.rounds),
            Cell::several(barrier.figures.rounds, "round"),
            time(last.behind_ns),
            time(last.total_ns)
        )],
    })
}

fn most(shares: &[Share], whole_ns: u64) -> Option<(&str, Cell)> {
    let first = shares.first().filter(|one| one.total_ns as f64 >= LEADS * whole_ns as f64)?;
    Some((&first.name, Cell::part(first.total_ns, whole_ns)))
}

fn threads(all: &[ThreadShare], names: &SyncNames) -> String {
    let named = all.iter().take(2).map(|one| names.thread(one.thread));
    named.collect::<Vec<_>>().join(", ")
}

fn spent_ns(contention: &ContentionSummary, spending: Spending) -> u64 {
    contention.threads.iter().map(|one| one.time.parts_ns()[spending as usize]).sum()
}

/// Time of all threads, from the first event of each to its last.
fn lived_ns(contention: &ContentionSummary) -> u64 {
    contention.threads.iter().map(|one| one.time.last_ns - one.time.first_ns).sum()
}

fn more_cpus(contention: &ContentionSummary) -> Option<Advice> {
    let gain = contention.replay.cpus_doubled.filter(|gain| *gain >= WORTH)?;
    let (crowded_ns, lived_ns) = (contention.crowded_ns, lived_ns(contention));
    (crowded_ns as f64 >= MATTERS * lived_ns as f64).then(|| Advice {
        kind: "more-cpus",
        change: "Give the program more CPUs, or fewer threads.".to_owned(),
        gain: Some(gain),
        at_most: false,
        evidence: vec![
            format!(
                "Its threads stood {} in run queues behind each other, {} of their time.",
                time(crowded_ns),
                Cell::part(crowded_ns, lived_ns)
            ),
            format!("With twice as many CPUs, the run is {} shorter by replay.", Cell::Share(gain)),
        ],
    })
}

/// Other programs on its CPUs.
fn others_off(contention: &ContentionSummary) -> Option<Advice> {
    if !contention.kernel_seen {
        return None;
    }
    let (taken_ns, lived_ns) = (contention.others_ns, lived_ns(contention));
    (taken_ns as f64 >= MATTERS * lived_ns as f64).then(|| Advice {
        kind: "others-off",
        change: "Keep other programs off its CPUs.".to_owned(),
        gain: None,
        at_most: false,
        evidence: vec![format!(
            "Its threads stood {} in run queues behind threads of other programs, {} of their time.",
            time(taken_ns),
            Cell::part(taken_ns, lived_ns)
        )],
    })
}

/// The quota of its control group.
fn quota(contention: &ContentionSummary) -> Option<Advice> {
    let (kept_ns, lived_ns) = (spent_ns(contention, Spending::Quota), lived_ns(contention));
    (kept_ns as f64 >= MATTERS * lived_ns as f64).then(|| Advice {
        kind: "quota",
        change: "Raise the CPU quota of its control group (cpu.max, in version 1 cpu.cfs_quota_us), or give the program fewer \
                 threads."
            .to_owned(),
        gain: None,
        at_most: false,
        evidence: vec![format!(
            "The quota kept its threads from a CPU for {}, {} of their time.",
            time(kept_ns),
            Cell::part(kept_ns, lived_ns)
        )],
    })
}

fn pin(contention: &ContentionSummary, causes: &[CauseFigures]) -> Option<Advice> {
    let late_ns: u64 = causes.iter().map(|one| one.waits.total_ns).sum();
    let moved = causes.iter().find(|one| one.cause == Cause::Migrated)?.waits;
    let gain = contention.replay.no_delay.filter(|gain| *gain >= WORTH)?;
    let part = moved.total_ns as f64 / late_ns.max(1) as f64;
    (part >= MOVED).then(|| Advice {
        kind: "pin",
        change: "Pin each thread to a CPU.".to_owned(),
        gain: Some(gain * part),
        at_most: true,
        evidence: vec![
            format!(
                "{} late waits were longer since the thread moved to another CPU: {}, {} of what they took after the release.",
                Cell::Count(moved.count),
                time(moved.total_ns),
                Cell::Share(part)
            ),
            format!("If who is woken went on at once, the run is {} shorter by replay.", Cell::Share(gain)),
        ],
    })
}

fn spin_less(contention: &ContentionSummary) -> Option<Advice> {
    let (spin_ns, lived_ns) = (spent_ns(contention, Spending::Spin), lived_ns(contention));
    let crowded_ns = contention.crowded_ns;
    let matters = |ns: u64| ns as f64 >= MATTERS * lived_ns as f64;
    (matters(spin_ns) && matters(crowded_ns)).then(|| Advice {
        kind: "spin-less",
        change: "Let threads sleep while they wait (of OpenMP: OMP_WAIT_POLICY=passive).".to_owned(),
        gain: None,
        at_most: false,
        evidence: vec![format!(
            "By samples, threads spun for {}, {} of their time, while threads of the program stood {} in run queues behind each other.",
            time(spin_ns),
            Cell::part(spin_ns, lived_ns),
            time(crowded_ns)
        )],
    })
}
