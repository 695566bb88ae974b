//! Plays a trace: threads share CPUs evenly, locks go to whoever asks while they are free, and waits follow from deeds.

use super::{Deed, Step, Trace};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// What is other than in the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) lock: u32,
    /// Factor of the time with the lock.
    pub(super) hold: f64,
    /// Who has the lock sleeps once it has given it back, not before.
    pub(super) sleeps_outside: bool,
    /// Another lock has half of its uses.
    pub(super) split: bool,
    /// Factor of the number of CPUs.
    pub(super) cpus: f64,
    /// Factor of the time from a release until who waited goes on.
    pub(super) delay: f64,
}

impl Change {
    pub(super) const NONE: Self =
        Self { lock: u32::MAX, hold: 1.0, sleeps_outside: false, split: false, cpus: 1.0, delay: 1.0 };
}

/// What a replay came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replayed {
    /// Until the last thread had ended, nanoseconds.
    pub(super) length_ns: u64,
    /// Waits that nothing would have ended.
    pub(super) forced: u64,
}

/// A time, in the order of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Instant(f64);

impl Eq for Instant {}

impl PartialOrd for Instant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instant {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Where a thread is in its step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Sleep,
    Run,
    Deed,
    /// The deed's wait is over.
    Done,
    /// It was held to a rule, and takes the mutexes again that it gave back meanwhile.
    Regain,
}

#[derive(Clone, Debug, Default)]
struct Player {
    at: usize,
    stage: Stage,
    /// Locks that it holds, by place.
    held: Vec<usize>,
    /// Mutexes to be taken again.
    regain: Vec<usize>,
    /// Sleep that it has put off until it gives the changed lock back.
    put_off_ns: u64,
    /// Factor of its time without the changed lock: free holds of it that no step stands for.
    outside: f64,
    /// It stood in the queue of the lock that it tries now.
    has_waited: bool,
    is_over: bool,
}

#[derive(Clone, Debug, Default)]
struct LockState {
    owner: Option<usize>,
    readers: u32,
    queue: VecDeque<usize>,
}

/// A replay at work.
pub(super) struct Machine<'a> {
    trace: &'a Trace,
    change: Change,
    now: f64,
    /// Time on a CPU that each running thread had so far.
    virtual_now: f64,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    running: BinaryHeap<Reverse<(Instant, usize)>>,
    players: Vec<Player>,
    locks: Vec<LockState>,
    /// By mark: done, and who waits for it.
    done: Vec<bool>,
    awaiting: Vec<Vec<usize>>,
    /// By round at a barrier: arrived, and who waits.
    arrived: Vec<u32>,
    met: Vec<Vec<usize>>,
    signals: Vec<i64>,
    /// By condition: threads that a rule holds until its next signal.
    held_back: Vec<Vec<usize>>,
    forced: u64,
}

impl<'a> Machine<'a> {
    pub(super) fn new(trace: &'a Trace, change: Change) -> Self {
        let players = trace.threads.iter().map(|thread| Player {
            outside: outside(&thread.steps, change, unseen_ns(trace, thread, change)),
            ..Player::default()
        });
        Self {
            trace,
            change,
            now: 0.0,
            virtual_now: 0.0,
            timers: BinaryHeap::new(),
            running: BinaryHeap::new(),
            players: players.collect(),
            // One more for the second half of a split one.
            locks: vec![LockState::default(); trace.locks.len() + 1],
            done: vec![false; trace.marks as usize + 1],
            awaiting: vec![Vec::new(); trace.marks as usize + 1],
            arrived: vec![0; trace.rounds.len()],
            met: vec![Vec::new(); trace.rounds.len()],
            signals: vec![0; trace.conditions as usize],
            held_back: vec![Vec::new(); trace.conditions as usize],
            forced: 0,
        }
    }

    /// Plays it to its end.
    pub(super) fn run(mut self) -> Replayed {
        for thread in 0..self.players.len() {
            self.go_on(thread);
        }
        loop {
            let rate = (self.trace.cpus * self.change.cpus / self.running.len().max(1) as f64).min(1.0);
            let timer = self.timers.peek().map(|Reverse((at, _))| at.0);
            let run = self
                .running
                .peek()
                .map(|Reverse((at, _))| self.now + (at.0 - self.virtual_now).max(0.0) / rate);
            let (next, by_timer) = match (timer, run) {
                (Some(timer), Some(run)) => (timer.min(run), timer <= run),
                (Some(timer), None) => (timer, true),
                (None, Some(run)) => (run, false),
                (None, None) if self.force() => continue,
                (None, None) => break,
            };
            self.virtual_now += (next - self.now).max(0.0) * if self.running.is_empty() { 0.0 } else { rate };
            self.now = self.now.max(next);
            let heap = if by_timer { &mut self.timers } else { &mut self.running };
            if let Some(Reverse((_, thread))) = heap.pop() {
                self.go_on(thread);
            }
        }
        Replayed { length_ns: self.now as u64, forced: self.forced }
    }

    fn step(&self, thread: usize) -> Option<&'a Step> {
        self.trace.threads[thread].steps.get(self.players[thread].at)
    }

    /// The factor of the thread's time now.
    fn pace(&self, thread: usize) -> f64 {
        let changed = self.change.lock as usize;
        let player = &self.players[thread];
        if player.held.contains(&changed) { self.change.hold } else { player.outside }
    }

    fn puts_off(&self, thread: usize) -> bool {
        self.change.sleeps_outside && self.players[thread].held.contains(&(self.change.lock as usize))
    }

    /// The sleep that was put off, if it may sleep now.
    fn sleep_late(&mut self, thread: usize) -> bool {
        let ns = if self.puts_off(thread) { 0 } else { std::mem::take(&mut self.players[thread].put_off_ns) };
        if ns > 0 {
            self.sleep(thread, ns as f64);
        }
        ns > 0
    }

    fn sleep(&mut self, thread: usize, ns: f64) {
        self.timers.push(Reverse((Instant(self.now + ns), thread)));
    }

    fn go_on(&mut self, thread: usize) {
        while let Some(step) = self.step(thread) {
            match self.players[thread].stage {
                Stage::Sleep => {
                    self.players[thread].stage = Stage::Run;
                    if self.puts_off(thread) {
                        self.players[thread].put_off_ns += step.slept_ns;
                    } else if step.slept_ns > 0 {
                        let ns = step.slept_ns as f64 * self.pace(thread);
                        return self.sleep(thread, ns);
                    }
                }
                Stage::Run => {
                    self.players[thread].stage = Stage::Deed;
                    if step.ran_ns > 0 {
                        let until = self.virtual_now + step.ran_ns as f64 * self.pace(thread);
                        return self.running.push(Reverse((Instant(until), thread)));
                    }
                }
                Stage::Deed => {
                    if !self.act(thread, step) {
                        return;
                    }
                    self.players[thread].stage = Stage::Done;
                    if self.sleep_late(thread) {
                        return;
                    }
                }
                Stage::Regain => {
                    let Some(lock) = self.players[thread].regain.last().copied() else {
                        self.players[thread].stage = Stage::Deed;
                        continue;
                    };
                    if !self.get(thread, lock, false) {
                        return;
                    }
                    self.players[thread].regain.pop();
                }
                Stage::Done => {
                    self.mark(step.mark);
                    let player = &mut self.players[thread];
                    (player.at, player.stage) = (player.at + 1, Stage::Sleep);
                }
            }
        }
        // One that ends with the lock has slept all the same.
        let ns = std::mem::take(&mut self.players[thread].put_off_ns);
        if ns > 0 {
            return self.sleep(thread, ns as f64);
        }
        self.players[thread].is_over = true;
    }

    /// Does the deed; whether it is done.
    fn act(&mut self, thread: usize, step: &Step) -> bool {
        match step.deed {
            Deed::Get { lock, shared, .. } => {
                let place = self.place(thread, lock);
                self.get(thread, place, shared)
            }
            Deed::Give { lock, .. } => {
                let second = self.trace.locks.len();
                let is_split = self.change.split && lock == self.change.lock;
                let place = if is_split && self.players[thread].held.contains(&second) {
                    second
                } else {
                    lock as usize
                };
                self.give(thread, place);
                true
            }
            Deed::Await { mark: 0, delay_ns } => {
                self.players[thread].stage = Stage::Done;
                self.sleep(thread, delay_ns as f64);
                false
            }
            Deed::Await { mark, .. } => {
                let done = self.done[mark as usize];
                if !done {
                    self.awaiting[mark as usize].push(thread);
                }
                done
            }
            Deed::Arrive { round, .. } => {
                let place = round as usize;
                self.arrived[place] += 1;
                self.met[place].push(thread);
                if self.arrived[place] >= self.trace.rounds[place] {
                    for other in std::mem::take(&mut self.met[place]) {
                        self.players[other].stage = Stage::Done;
                        self.sleep(other, if other == thread { 0.0 } else { self.delay_of(other) });
                    }
                }
                false
            }
            Deed::Signal { condition } => self.signal(thread, condition),
            Deed::Wake => true,
        }
    }

    /// How long the wait of a thread takes on from what ends it.
    fn delay_of(&self, thread: usize) -> f64 {
        match self.step(thread).map(|step| step.deed) {
            Some(
                Deed::Get { delay_ns, .. } | Deed::Await { delay_ns, .. } | Deed::Arrive { delay_ns, .. },
            ) => delay_ns as f64 * self.change.delay,
            _ => 0.0,
        }
    }

    /// Which lock it is that the thread asks for.
    fn place(&mut self, thread: usize, lock: u32) -> usize {
        if !self.change.split || lock != self.change.lock {
            return lock as usize;
        }
        // The same at each try; as good as drawn.
        let player = &self.players[thread];
        let drawn = (player.at as u64 ^ (thread as u64) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63;
        if drawn == 0 { lock as usize } else { self.trace.locks.len() }
    }

    fn get(&mut self, thread: usize, place: usize, shared: bool) -> bool {
        let lock = &mut self.locks[place];
        let is_free = lock.owner.is_none() && (shared || lock.readers == 0);
        if is_free {
            if shared {
                lock.readers += 1;
            } else {
                lock.owner = Some(thread);
            }
            self.players[thread].held.push(place);
        } else if !self.players[thread].has_waited {
            lock.queue.push_back(thread);
        } else {
            // Woken, and another one was faster: it goes on waiting as the first.
            lock.queue.push_front(thread);
        }
        self.players[thread].has_waited = !is_free;
        is_free
    }

    fn give(&mut self, thread: usize, place: usize) {
        let Some(held) = self.players[thread].held.iter().position(|one| *one == place) else { return };
        self.players[thread].held.swap_remove(held);
        let lock = &mut self.locks[place];
        if lock.owner == Some(thread) {
            lock.owner = None;
        } else {
            lock.readers = lock.readers.saturating_sub(1);
        }
        if lock.owner.is_none() && lock.readers == 0 {
            // Readers that stand first are let in together.
            let reads = |machine: &Self, thread: usize| {
                matches!(machine.step(thread).map(|step| step.deed), Some(Deed::Get { shared: true, .. }))
            };
            while let Some(first) = self.locks[place].queue.pop_front() {
                let delay = self.delay_of(first);
                self.sleep(first, delay);
                let next = self.locks[place].queue.front().copied();
                if !reads(self, first) || !next.is_some_and(|next| reads(self, next)) {
                    break;
                }
            }
        }
    }

    fn mark(&mut self, mark: u32) {
        if mark == 0 || std::mem::replace(&mut self.done[mark as usize], true) {
            return;
        }
        for thread in std::mem::take(&mut self.awaiting[mark as usize]) {
            self.players[thread].stage = Stage::Done;
            let delay = self.delay_of(thread);
            self.sleep(thread, delay);
        }
    }

    /// Signals, unless a rule says that it is too early.
    fn signal(&mut self, thread: usize, condition: u32) -> bool {
        let own = self.signals[condition as usize];
        let early =
            self.trace.rules.iter().find(|rule| {
                rule.condition == condition && self.signals[rule.needs as usize] - own < rule.ahead
            });
        if let Some(rule) = early {
            let needs = rule.needs as usize;
            let held = self.players[thread].held.iter().copied();
            let mutexes: Vec<usize> = held
                .filter(|place| self.trace.locks.get(*place).is_some_and(|lock| lock.of_condition))
                .collect();
            for place in &mutexes {
                self.give(thread, *place);
            }
            self.players[thread].regain = mutexes;
            self.players[thread].stage = Stage::Regain;
            self.held_back[needs].push(thread);
            return false;
        }
        self.signals[condition as usize] += 1;
        for other in std::mem::take(&mut self.held_back[condition as usize]) {
            self.sleep(other, 0.0);
        }
        true
    }

    /// Nothing goes on, but a thread waits: what it waits for is not in the trace, or comes later than in the run. The one that
    /// waited first in the run goes on.
    fn force(&mut self) -> bool {
        let waits = (0..self.players.len()).filter(|thread| !self.players[*thread].is_over);
        let Some(first) = waits.min_by_key(|thread| self.step(*thread).map_or(u64::MAX, |step| step.at_ns))
        else {
            return false;
        };
        self.forced += 1;
        self.awaiting
            .iter_mut()
            .chain(&mut self.met)
            .chain(&mut self.held_back)
            .for_each(|all| all.retain(|one| *one != first));
        self.locks.iter_mut().for_each(|lock| lock.queue.retain(|one| *one != first));
        let player = &mut self.players[first];
        (player.stage, player.has_waited) = (Stage::Done, false);
        player.regain.clear();
        self.sleep(first, 0.0);
        true
    }
}

/// Time of a thread in free holds of the changed lock that no step stands for, nanoseconds.
fn unseen_ns(trace: &Trace, thread: &super::Sequence, change: Change) -> u64 {
    let lock = trace.locks.get(change.lock as usize);
    let times = thread.unseen.get(&change.lock).copied().unwrap_or(0);
    lock.map_or(0, |lock| lock.hold_ns.saturating_mul(times))
}

/// The factor of a thread's time outside of the changed lock's known holds, which has its unknown holds in it.
fn outside(steps: &[Step], change: Change, unseen_ns: u64) -> f64 {
    let (mut whole_ns, mut is_held) = (0, false);
    for step in steps {
        if !is_held {
            whole_ns += step.ran_ns + step.slept_ns;
        }
        match step.deed {
            Deed::Get { lock, .. } if lock == change.lock => is_held = true,
            Deed::Give { lock, .. } if lock == change.lock => is_held = false,
            _ => {}
        }
    }
    let part = unseen_ns.min(whole_ns) as f64 / whole_ns.max(1) as f64;
    1.0 - (1.0 - change.hold) * part
}
