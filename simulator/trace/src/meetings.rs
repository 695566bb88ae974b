//! Barriers that a program makes of a mutex and a condition variable, found in its trace.
//!
//! ```text
//! who comes last   lock m ── broadcast c, wake-up w ── unlock m
//! each other       lock m ── wait c, ended by w ────── unlock m
//! ```
//! In a trace such a barrier is a broadcast of whoever came last when the program was traced. In simulated time another thread may
//! come last, and all have to wait for that one.
//!
//! A condition is taken for a barrier where the same three threads or more take part in each broadcast, each of them once, in the way
//! drawn above and with no other lock held, and where not always the same one gives it. A thread that alone gives all broadcasts may
//! be the master of workers, who does not wait for them. In the traced order all came before any went on, so a replay that makes them
//! meet can always go on as the program did.

use crate::file::{ReadAt, TraceReader};
use crate::step::{Access, Step, Steps, Sync, TraceError, Wakeup};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Fewer threads pass a turn to and fro as they meet.
const LEAST_PARTIES: usize = 3;
/// Steps between two questions whether to go on.
const ASKED_EACH: u64 = 1 << 16;

/// Broadcasts that are barriers: by wake-up, how many meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meetings {
    rounds: HashMap<Wakeup, u32>,
    barriers: usize,
}

/// What a thread does with a condition.
#[derive(Clone, Copy, Debug)]
struct Part {
    thread: u32,
    wakeup: Wakeup,
    mutex: u64,
    gives: bool,
}

/// A condition: who took part in it, or that it is used in another way.
#[derive(Clone, Debug, Default)]
struct Condition {
    parts: Vec<Part>,
    other: bool,
}

/// A thread's place in the drawing above.
#[derive(Debug, Default)]
struct Scan {
    held: Vec<u64>,
    before: Option<Sync>,
    /// The condition whose mutex the next step must give back.
    open: Option<(u64, u64)>,
}

impl Meetings {
    /// Of all steps of a trace; none where they cannot be read. `goes_on` is asked now and then.
    pub fn of<R: ReadAt>(trace: &TraceReader<R>, goes_on: &mut dyn FnMut() -> bool) -> Self {
        let mut conditions = BTreeMap::new();
        for thread in trace.threads() {
            let (mut steps, mut scan, mut accesses) = (trace.steps(thread), Scan::default(), Vec::new());
            for number in 0_u64.. {
                if number % ASKED_EACH == 0 && !goes_on() {
                    return Self::default();
                }
                match steps.step(&mut accesses) {
                    Ok(Step::Block { .. }) => {}
                    Ok(Step::Sync(sync)) => scan.step(thread, sync, &mut conditions),
                    Ok(Step::End) => break,
                    Err(_) => return Self::default(),
                }
            }
        }
        let mut meetings = Self::default();
        for condition in conditions.values() {
            meetings.barriers += usize::from(condition.add_rounds(&mut meetings.rounds));
        }
        meetings
    }

    /// Conditions that are barriers.
    pub fn barriers(&self) -> usize {
        self.barriers
    }

    /// How often all met there.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The steps of a thread, with meetings at these barriers.
    pub fn meeting<S>(self: &Arc<Self>, steps: S) -> MeetingSteps<S> {
        MeetingSteps { steps, meetings: Arc::clone(self), held: 0, then: VecDeque::new() }
    }
}

impl Scan {
    fn step(&mut self, thread: u32, sync: Sync, conditions: &mut BTreeMap<u64, Condition>) {
        if let Some((object, mutex)) = self.open.take()
            && sync != (Sync::Unlock { object: mutex })
        {
            conditions.entry(object).or_default().other = true;
        }
        let locked = match self.before.replace(sync) {
            Some(Sync::Lock { object }) if self.held == [object] => Some(object),
            // Woken for nothing it waits again.
            Some(Sync::Wait { mutex, by: None, .. }) if self.held == [mutex] => Some(mutex),
            _ => None,
        };
        let used = match sync {
            Sync::Lock { object } | Sync::ReadLock { object } => {
                self.held.push(object);
                return;
            }
            Sync::Unlock { object } | Sync::ReadUnlock { object } => {
                let place = self.held.iter().rposition(|held| *held == object);
                place.map(|place| self.held.remove(place));
                return;
            }
            Sync::Wait { object, mutex, by } => (object, by, locked.filter(|locked| *locked == mutex), false),
            Sync::Broadcast { object, wakeup } => (object, Some(wakeup), locked, true),
            Sync::Signal { object, .. } => (object, None, None, false),
            Sync::Create { .. } | Sync::Join { .. } | Sync::Barrier { .. } => return,
        };
        let (object, wakeup, mutex, gives) = used;
        let condition = conditions.entry(object).or_default();
        match (wakeup, mutex) {
            (Some(wakeup), Some(mutex)) => {
                condition.parts.push(Part { thread, wakeup, mutex, gives });
                self.open = Some((object, mutex));
            }
            (None, Some(_)) => {}
            (_, None) => condition.other = true,
        }
    }
}

impl Condition {
    /// Adds its broadcasts if it is a barrier, and whether it is.
    fn add_rounds(&self, rounds: &mut HashMap<Wakeup, u32>) -> bool {
        let mut by_wakeup: BTreeMap<Wakeup, Vec<Part>> = BTreeMap::new();
        for part in &self.parts {
            by_wakeup.entry(part.wakeup).or_default().push(*part);
        }
        let mutex = self.parts.first().map(|part| part.mutex);
        // Of a trace that was cut short some threads may lack the last round.
        let members = |parts: &[Part]| -> Vec<u32> { parts.iter().map(|part| part.thread).collect() };
        let all = by_wakeup.values().next().map(|parts| members(parts)).unwrap_or_default();
        if let Some(last) = by_wakeup.last_entry()
            && last.get().len() < all.len()
        {
            last.remove();
        }
        let mut givers = Vec::new();
        let is_round = |parts: &Vec<Part>| {
            givers.extend(parts.iter().filter(|part| part.gives).map(|part| part.thread));
            // Parts come by thread, so that equal members are equal in order.
            members(parts) == all
                && parts.windows(2).all(|two| two[0].thread < two[1].thread)
                && parts.iter().filter(|part| part.gives).count() == 1
                && parts.iter().all(|part| Some(part.mutex) == mutex)
        };
        let each = by_wakeup.values().all(is_round);
        let in_turn = self.parts.windows(2).all(|two| {
            let [before, after] = [two[0], two[1]];
            before.thread != after.thread || before.wakeup < after.wakeup
        });
        givers.dedup();
        let is_barrier = !self.other && each && in_turn && all.len() >= LEAST_PARTIES && givers.len() > 1;
        if is_barrier {
            rounds.extend(by_wakeup.keys().map(|wakeup| (*wakeup, all.len() as u32)));
        }
        is_barrier
    }
}

/// Steps of a thread that meets others at barriers which are conditions in the trace: in place of its broadcast or wait it gives its
/// mutex back, meets them and takes the mutex again.
#[derive(Clone, Debug)]
pub struct MeetingSteps<S> {
    steps: S,
    meetings: Arc<Meetings>,
    /// The mutex that was taken last.
    held: u64,
    then: VecDeque<Sync>,
}

impl<S: Steps> Steps for MeetingSteps<S> {
    #[inline]
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        if let Some(sync) = self.then.pop_front() {
            return Ok(Step::Sync(sync));
        }
        let step = self.steps.append(accesses)?;
        if let Step::Sync(sync) = step { Ok(Step::Sync(self.sync(sync))) } else { Ok(step) }
    }
}

impl<S> MeetingSteps<S> {
    fn sync(&mut self, sync: Sync) -> Sync {
        if let Sync::Lock { object } = sync {
            self.held = object;
        }
        let (Sync::Wait { object, by: Some(wakeup), .. } | Sync::Broadcast { object, wakeup }) = sync else {
            return sync;
        };
        let Some(&parties) = self.meetings.rounds.get(&wakeup) else { return sync };
        let mutex = self.held;
        self.then.extend([Sync::Barrier { object, parties }, Sync::Lock { object: mutex }]);
        Sync::Unlock { object: mutex }
    }
}

#[cfg(test)]
mod tests;
