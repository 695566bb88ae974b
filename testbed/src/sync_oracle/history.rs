//! Random histories of threads, as torn as recordings can be.

use quaver_abi::sync::{SyncKind, SyncOutcome};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// One event, in time order; no two at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at_ns: u64,
    /// Thread, from 1.
    pub thread: u32,
    /// CPU of the thread.
    pub cpu: u16,
    /// What.
    pub kind: SyncKind,
    /// On which object. Objects of different kinds have different addresses.
    pub object: u64,
    /// How it ended.
    pub outcome: SyncOutcome,
}

const CONDITION: u64 = 0x100;
const SEMAPHORE: u64 = 0x200;
const BARRIER: u64 = 0x300;
const MUTEX: u64 = 0x400;
const READ_WRITE: u64 = 0x500;

/// Blocking calls and what they are called on.
const WAITS: [(SyncKind, u64); 6] = [
    (SyncKind::WaitEntry, CONDITION),
    (SyncKind::SemWaitEntry, SEMAPHORE),
    (SyncKind::BarrierEntry, BARRIER),
    (SyncKind::LockEntry, MUTEX),
    (SyncKind::LockEntry, READ_WRITE),
    (SyncKind::ReadLockEntry, READ_WRITE),
];

/// Calls that wake.
const WAKES: [(SyncKind, u64); 5] = [
    (SyncKind::SignalEntry, CONDITION),
    (SyncKind::BroadcastEntry, CONDITION),
    (SyncKind::PostEntry, SEMAPHORE),
    (SyncKind::UnlockEntry, MUTEX),
    (SyncKind::UnlockEntry, READ_WRITE),
];

/// What a thread is in.
#[derive(Clone, Copy, Default)]
struct Thread {
    wait: Option<(SyncKind, u64)>,
    wake: Option<(SyncKind, u64)>,
    cpu: u16,
    gone: bool,
}

struct Writer {
    random: Pcg64Mcg,
    events: Vec<Event>,
    at_ns: u64,
}

impl Writer {
    fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.below(many) == 0
    }

    fn say(&mut self, thread: u32, cpu: u16, kind: SyncKind, object: u64, outcome: SyncOutcome) {
        self.at_ns += 1 + u64::from(self.below(50));
        self.events.push(Event { at_ns: self.at_ns, thread, cpu, kind, object, outcome });
    }
}

fn exit_of(entry: SyncKind) -> SyncKind {
    SyncKind::from_repr(entry as u8 + 1).unwrap_or(entry)
}

/// The history of this seed: two to five threads on one or two objects of each kind, up to 49 events. Threads move
/// between CPUs, wait for the same and for different objects, wake although nobody woke them, time out; returns and
/// entries are lost, threads vanish, and handlers post inside waits.
pub fn history(seed: u64) -> Vec<Event> {
    let mut writer =
        Writer { random: Pcg64Mcg::seed_from_u64(seed), events: Vec::with_capacity(48), at_ns: 1_000 };
    let count = 2 + writer.below(4);
    let kinds = 1 + writer.below(WAITS.len() as u32);
    let of_a_kind = 1 + writer.below(2);
    let mut threads = vec![Thread::default(); count as usize];
    let steps = 10 + writer.below(40);
    for _ in 0..steps {
        let number = writer.below(count);
        let awaited = threads[writer.below(count) as usize].wait;
        let state = &mut threads[number as usize];
        if !state.gone {
            step(&mut writer, number + 1, state, awaited, (kinds, of_a_kind));
        }
    }
    writer.events
}

/// Calls that end a wait of this kind.
fn wake_of(writer: &mut Writer, kind: SyncKind) -> Option<SyncKind> {
    match kind {
        SyncKind::WaitEntry if writer.one_in(3) => Some(SyncKind::BroadcastEntry),
        SyncKind::WaitEntry => Some(SyncKind::SignalEntry),
        SyncKind::SemWaitEntry => Some(SyncKind::PostEntry),
        SyncKind::LockEntry | SyncKind::ReadLockEntry => Some(SyncKind::UnlockEntry),
        _ => None,
    }
}

/// One thing that a thread does. `awaited`: what some thread waits for; `kinds`: how many kinds of objects there are, and
/// how many of each.
fn step(
    writer: &mut Writer,
    thread: u32,
    state: &mut Thread,
    awaited: Option<(SyncKind, u64)>,
    (kinds, of_a_kind): (u32, u32),
) {
    if writer.one_in(6) {
        state.cpu = writer.below(3) as u16;
    }
    let object = |writer: &mut Writer, base: u64| base + 8 * u64::from(writer.below(of_a_kind));
    if let Some((kind, on)) = state.wake {
        state.wake = None;
        // Now and then the return is lost.
        if !writer.one_in(30) {
            writer.say(thread, state.cpu, exit_of(kind), on, SyncOutcome::Ok);
        }
        return;
    }
    if let Some((kind, on)) = state.wait {
        if writer.one_in(25) {
            // A handler posts inside the wait.
            let on = object(writer, SEMAPHORE);
            writer.say(thread, state.cpu, SyncKind::PostEntry, on, SyncOutcome::Ok);
            state.wake = Some((SyncKind::PostEntry, on));
            return;
        }
        if !writer.one_in(3) {
            return;
        }
        state.wait = None;
        if writer.one_in(25) {
            // Its return is lost, and now and then the thread itself.
            state.gone = writer.one_in(4);
            return;
        }
        let outcome = match writer.below(12) {
            0 => SyncOutcome::Timeout,
            1 => SyncOutcome::Interrupted,
            _ => SyncOutcome::Ok,
        };
        writer.say(thread, state.cpu, exit_of(kind), on, outcome);
        return;
    }
    if let Some((kind, on)) = awaited
        && !writer.one_in(3)
        && let Some(wake) = wake_of(writer, kind)
    {
        writer.say(thread, state.cpu, wake, on, SyncOutcome::Ok);
        state.wake = Some((wake, on));
        return;
    }
    match writer.below(20) {
        // A return whose entry was lost.
        0 => {
            let (kind, base) = WAITS[writer.below(kinds) as usize];
            let on = object(writer, base);
            writer.say(thread, state.cpu, exit_of(kind), on, SyncOutcome::Ok);
        }
        1..=14 => {
            let (kind, base) = WAITS[writer.below(kinds) as usize];
            let on = object(writer, base);
            writer.say(thread, state.cpu, kind, on, SyncOutcome::Ok);
            state.wait = Some((kind, on));
        }
        _ => {
            let (kind, base) = WAKES[writer.below(WAKES.len() as u32) as usize];
            let on = object(writer, base);
            writer.say(thread, state.cpu, kind, on, SyncOutcome::Ok);
            state.wake = Some((kind, on));
        }
    }
}
