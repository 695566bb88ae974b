//! Lateness as a run of `quaver sync` recorded it: who was how late, at which operation, and who was late together.

use quaver_sync_analysis::sync::{Observer, Protocol, Settings, SyncClass, SyncEvent, ThreadId, Timed};
use quaver_trace::step::Thread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Fewer broadcasts do not tell how often one is late.
const LEAST_BROADCASTS: u64 = 30;

/// Which recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordingFacts {
    /// Name of the run.
    pub run: String,
    /// SHA-256 of the recording, hexadecimal.
    pub sha256: String,
    /// N: an operation that took no longer is in time, nanoseconds.
    pub threshold_ns: u64,
}

/// Operations of one class by one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Operations {
    /// All, late or not.
    timed: u64,
    /// What each late one took, nanoseconds.
    late_ns: Vec<u64>,
}

/// A broadcast, or a barrier, after which somebody was late.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Joint {
    /// Who gave it.
    by: u32,
    /// Who was late, and how long each took, nanoseconds.
    late_ns: Vec<(u32, u64)>,
}

/// Broadcasts and barriers that woke the same number of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Broadcasts {
    /// All.
    given: u64,
    /// Those after which somebody was late.
    late: Vec<Joint>,
}

/// All that was late in a recording. Threads are numbered as they were created, the first is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Which it is.
    pub facts: RecordingFacts,
    /// Threads that it has.
    pub threads: u32,
    /// From its first event to the last, nanoseconds.
    pub span_ns: u64,
    /// Time in late waits in which their mutex was held, nanoseconds. The simulated mutex adds its own.
    pub held_ns: u64,
    /// By class and thread; waits that broadcasts end are below.
    alone: BTreeMap<SyncClass, BTreeMap<u32, Operations>>,
    /// By how many each woke.
    broadcasts: BTreeMap<usize, Broadcasts>,
}

/// How often a broadcast was late together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JointCounts {
    /// Broadcasts and barriers by how many of the threads that they woke were late.
    pub by_late: BTreeMap<u32, u64>,
    /// Drawn from those that woke another number of threads, for few or none of the recording woke as many.
    pub other_size: u64,
    /// Latenesses that were drawn and had no thread to meet.
    pub left_out: u64,
    /// Their sum, nanoseconds.
    pub left_out_ns: u64,
}

impl JointCounts {
    /// Broadcasts and barriers, all.
    pub fn broadcasts(&self) -> u64 {
        self.by_late.values().sum()
    }

    /// Those after which somebody was late.
    pub fn late(&self) -> u64 {
        self.by_late.iter().filter(|(late, _)| **late > 0).map(|(_, count)| count).sum()
    }

    /// Threads that were late after them.
    pub fn late_threads(&self) -> u64 {
        self.by_late.iter().map(|(late, count)| u64::from(*late) * count).sum()
    }
}

impl Recording {
    /// Takes events that `settings` judge.
    pub fn builder(settings: Settings) -> RecordingBuilder {
        RecordingBuilder { protocol: Protocol::with_observer(settings, Ended::of(settings)), span_ns: None }
    }

    /// Whether no operation of any class ended in it.
    pub fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.broadcasts.is_empty()
    }

    /// Operations of the class, late or not.
    pub fn timed(&self, class: SyncClass) -> u64 {
        if class == SyncClass::BroadcastWait {
            return self.broadcasts.iter().map(|(woken, one)| *woken as u64 * one.given).sum();
        }
        self.alone.get(&class).into_iter().flatten().map(|(_, one)| one.timed).sum()
    }

    /// What each late operation of the class took, nanoseconds.
    pub fn late_ns(&self, class: SyncClass) -> Vec<u64> {
        if class == SyncClass::BroadcastWait {
            let late = self.broadcasts.values().flat_map(|one| &one.late);
            return late.flat_map(|joint| joint.late_ns.iter().map(|(_, ns)| *ns)).collect();
        }
        let all = self.alone.get(&class).into_iter().flatten();
        all.flat_map(|(_, one)| one.late_ns.iter().copied()).collect()
    }

    /// How often its broadcasts and barriers were late together.
    pub fn joint(&self) -> JointCounts {
        let mut counts = JointCounts::default();
        for one in self.broadcasts.values() {
            let in_time = one.given - one.late.len() as u64;
            *counts.by_late.entry(0).or_default() += in_time;
            for joint in &one.late {
                *counts.by_late.entry(joint.late_ns.len() as u32).or_default() += 1;
            }
        }
        counts
    }

    /// What an operation of a class takes, for a uniform number 0 <= u < 1, nanoseconds; 0 where it is in time. A thread that
    /// never did such an operation has the lateness of all.
    pub(super) fn alone_ns(&self, class: SyncClass, thread: u32, u: f64) -> u64 {
        let Some(all) = self.alone.get(&class) else { return 0 };
        let of: Vec<&Operations> = all.get(&thread).map_or_else(|| all.values().collect(), |own| vec![own]);
        let timed: u64 = of.iter().map(|one| one.timed).sum();
        let mut rank = (u * timed as f64) as usize;
        for one in of {
            match one.late_ns.get(rank) {
                Some(late_ns) => return *late_ns,
                None => rank -= one.late_ns.len(),
            }
        }
        0
    }

    /// Who is late after a broadcast that wakes `woken`, and how long each takes, nanoseconds. Of two uniform numbers the first
    /// chooses among the recorded broadcasts that woke as many threads; where these are few, also among those of the nearest numbers.
    /// The second chooses who is late in place of a thread that is not woken.
    pub(super) fn together_ns(
        &self,
        (by, woken): (u32, &[Thread]),
        (u, other): (f64, f64),
        counts: &mut JointCounts,
    ) -> Vec<(u32, u64)> {
        let Some((size, joint)) = self.drawn(woken.len(), u) else { return Vec::new() };
        counts.other_size += u64::from(size != woken.len());
        let placed = joint.map_or_else(Vec::new, |joint| joint.placed((by, woken), size, other, counts));
        *counts.by_late.entry(placed.len() as u32).or_default() += 1;
        placed
    }

    /// A broadcast in place of one that wakes so many: how many it woke, and what was late after it. None without broadcasts.
    fn drawn(&self, woken: usize, u: f64) -> Option<(usize, Option<&Joint>)> {
        let mut nearest: Vec<(&usize, &Broadcasts)> = self.broadcasts.iter().collect();
        nearest.sort_by_key(|(size, _)| (size.abs_diff(woken), **size));
        let mut all = 0;
        nearest.retain(|(_, of)| {
            let needed = all < LEAST_BROADCASTS;
            all += if needed { of.given } else { 0 };
            needed
        });
        let mut rank = (u * all as f64) as u64;
        for (size, of) in nearest {
            if rank < of.given {
                return Some((*size, of.late.get(rank as usize)));
            }
            rank -= of.given;
        }
        None
    }
}

impl Joint {
    /// Each lateness falls to its own thread. That of a thread that is not woken falls to the one that gave the broadcast in the
    /// recording, else to one of those that would be in time. If the broadcast woke `size` threads, more than are woken here, that
    /// thread has nothing to wait for here, and its lateness falls to nobody.
    fn placed(
        &self,
        (by, woken): (u32, &[Thread]),
        size: usize,
        other: f64,
        counts: &mut JointCounts,
    ) -> Vec<(u32, u64)> {
        let is_woken = |thread: u32| thread != by && woken.contains(&Thread(thread));
        let (mut placed, left): (Vec<_>, Vec<_>) =
            self.late_ns.iter().partition(|(thread, _)| is_woken(*thread));
        for (_, late_ns) in left {
            let mut free: Vec<u32> = woken.iter().map(|thread| thread.0).collect();
            free.retain(|thread| placed.iter().all(|(taken, _)| taken != thread));
            free.sort_unstable();
            let any = free.get((other * free.len() as f64) as usize).copied().filter(|_| size <= woken.len());
            match Some(self.by).filter(|by| free.contains(by)).or(any) {
                Some(thread) => placed.push((thread, late_ns)),
                None => {
                    counts.left_out += 1;
                    counts.left_out_ns += late_ns;
                }
            }
        }
        placed
    }
}

/// Takes the events of a program in time order.
#[derive(Debug)]
pub struct RecordingBuilder {
    protocol: Protocol<Ended>,
    span_ns: Option<(u64, u64)>,
}

/// A wait that a broadcast has ended: who, and what it took, nanoseconds.
type Woken = (u32, u64);

/// Operations that have ended.
#[derive(Debug)]
struct Ended {
    settings: Settings,
    numbers: HashMap<ThreadId, u32>,
    threads: u32,
    held_ns: u64,
    alone: BTreeMap<SyncClass, BTreeMap<u32, Operations>>,
    /// By release: who gave it, and whom it woke.
    broadcasts: BTreeMap<u64, (u32, Vec<Woken>)>,
}

impl Ended {
    fn of(settings: Settings) -> Self {
        Self {
            settings,
            numbers: HashMap::new(),
            threads: 0,
            held_ns: 0,
            alone: BTreeMap::new(),
            broadcasts: BTreeMap::new(),
        }
    }

    fn number(&self, thread: ThreadId) -> u32 {
        self.numbers.get(&thread).copied().unwrap_or(u32::MAX)
    }
}

impl Observer for Ended {
    fn timed(&mut self, timed: &Timed) {
        let thread = self.number(timed.thread);
        // A mutex that others hold makes nobody late in the kernel.
        let took_ns = timed.took_ns - timed.held_ns.min(timed.took_ns);
        let late = self.settings.late_ns(took_ns).is_some();
        if self.settings.late_ns(timed.took_ns).is_some() {
            self.held_ns += timed.held_ns;
        }
        if timed.class == SyncClass::BroadcastWait {
            let by = self.number(timed.by);
            let (_, woken) = self.broadcasts.entry(timed.release).or_insert((by, Vec::new()));
            return woken.push((thread, if late { took_ns } else { 0 }));
        }
        let operations = self.alone.entry(timed.class).or_default().entry(thread).or_default();
        operations.timed += 1;
        if late {
            operations.late_ns.push(took_ns);
        }
    }
}

impl RecordingBuilder {
    /// The next event, by the thread of this number.
    pub fn event(&mut self, event: &SyncEvent, number: u32) {
        let ended = self.protocol.observer_mut();
        ended.numbers.insert(event.thread, number);
        ended.threads = ended.threads.max(number.saturating_add(1));
        let (first_ns, _) = *self.span_ns.get_or_insert((event.at_ns, event.at_ns));
        self.span_ns = Some((first_ns, event.at_ns));
        self.protocol.event(event);
    }

    /// All that was late.
    pub fn finish(self, facts: RecordingFacts) -> Recording {
        let (_, ended) = self.protocol.finish_with_observer();
        let mut broadcasts: BTreeMap<usize, Broadcasts> = BTreeMap::new();
        for (by, woken) in ended.broadcasts.into_values() {
            let of = broadcasts.entry(woken.len()).or_default();
            of.given += 1;
            let late_ns: Vec<Woken> = woken.into_iter().filter(|(_, late_ns)| *late_ns > 0).collect();
            if !late_ns.is_empty() {
                of.late.push(Joint { by, late_ns });
            }
        }
        Recording {
            facts,
            threads: ended.threads,
            span_ns: self.span_ns.map_or(0, |(first_ns, last_ns)| last_ns.saturating_sub(first_ns)),
            held_ns: ended.held_ns,
            alone: ended.alone,
            broadcasts,
        }
    }
}

#[cfg(test)]
mod tests;
