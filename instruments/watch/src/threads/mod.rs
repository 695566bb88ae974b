//! Threads whose waits for a CPU are counted in the kernel, and frozen when one waits long.

mod group;
mod pending;
mod recorder;
#[cfg(feature = "bpf")]
mod waits;
#[cfg(not(feature = "bpf"))]
#[path = "without_bpf.rs"]
mod waits;

use crate::board::{Board, Subject, ThreadsState};
use crate::config::{Settings, ThreadsSettings};
use crate::frozen::{FrozenWindow, LongWait, ThreadsWindow};
use crate::judge::{Reason, Trigger};
use crate::outbox::Outbox;
use group::ControlGroup;
use pending::{LongWaits, Pending};
use quaver_clock::monotonic_ns;
use quaver_exposition::histogram::Histogram;
use quaver_host::root::HostRoot;
use quaver_instrument::interrupt::Interrupt;
use recorder::Recorder;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use waits::WaitCounter;

/// What had the CPU before: nothing, a thread of the kernel, a program, a hidden thread. As `bpf/c/waits.bpf.c` numbers them.
pub(crate) const HOLDERS: [&str; 4] = ["idle", "kernel", "program", "hidden"];
/// How a wait in futex(2) ended: another thread let go of what is a lock by its value, or woke it from something else; or nobody did.
pub(crate) const ENDS: [&str; 3] = ["lock", "other", "not-woken"];
/// Time between two readings of the tracer's memory and of long waits.
const TICK: Duration = Duration::from_millis(50);
/// Time between two readings of the counts.
const COUNT: Duration = Duration::from_secs(1);
/// Time between two looks at control groups, CPUs and the counters of the host.
const LOOK: Duration = Duration::from_secs(5);
/// After a trigger, records of its window still settle for so long.
const SETTLE: Duration = Duration::from_millis(250);
/// Until counting is tried again where it could not begin.
const AGAIN: Duration = Duration::from_secs(30);

/// What a table counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Waits {
    by_holder: [Histogram; HOLDERS.len()],
    /// Count and time, by the CPU on which they ended.
    by_cpu: BTreeMap<u16, (u64, u64)>,
}

impl Waits {
    /// Adds what was counted since an earlier reading.
    fn add_since(&self, earlier: &Self, state: &mut ThreadsState) {
        for ((name, now), before) in HOLDERS.iter().zip(&self.by_holder).zip(&earlier.by_holder) {
            state.waits.entry((*name).to_owned()).or_default().merge(&now.since(before));
        }
        for (cpu, (count, sum_ns)) in &self.by_cpu {
            let before = earlier.by_cpu.get(cpu).copied().unwrap_or_default();
            let into = state.cpus.entry(*cpu).or_default();
            *into = (into.0 + count.saturating_sub(before.0), into.1 + sum_ns.saturating_sub(before.1));
        }
    }
}

/// Watches all tables of threads until it is asked to end.
pub(crate) struct ThreadsWatch {
    pub(crate) all: Arc<Settings>,
    pub(crate) board: Arc<Board>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) end: Interrupt,
}

impl ThreadsWatch {
    /// Counts, and begins anew when CPUs come or go.
    pub(crate) fn run(self) {
        let root = HostRoot::system();
        let mut said = String::new();
        while !self.end.requested() {
            let Err(error) = Session::begin(&self, &root).and_then(|session| session.run(&root)) else {
                said.clear();
                continue;
            };
            // The kernel's verifier speaks in several lines.
            let words = format!("{error:#}").replace('\n', " ");
            if words != said {
                quaver_instrument::tell!("quaver watch: threads are not watched: {words}");
            }
            self.publish_all(|state| {
                (state.watched, state.words) = (false, words.clone());
                (state.held_ns, state.memory_bytes) = (0, 0);
            });
            said = words;
            let start = Instant::now();
            while start.elapsed() < AGAIN && !self.end.requested() {
                std::thread::sleep(TICK);
            }
        }
        self.publish_all(|state| {
            (state.watched, state.held_ns, state.memory_bytes) = (false, 0, 0);
            state.words = "the watch is ending".to_owned();
        });
    }

    fn publish_all(&self, change: impl Fn(&mut ThreadsState)) {
        self.all.threads.iter().for_each(|table| self.board.threads(&table.name, &change));
    }
}

/// One stretch of counting.
struct Session<'a> {
    watch: &'a ThreadsWatch,
    tables: &'a [ThreadsSettings],
    counter: WaitCounter,
    /// What was counted, and the group that was watched, when that was last read.
    last: Vec<Waits>,
    last_locks: Vec<[Histogram; ENDS.len()]>,
    groups: Vec<Option<ControlGroup>>,
    said: Vec<String>,
    recorder: Option<Recorder>,
    online: Vec<u16>,
    pending: Pending,
    lost: u64,
}

impl<'a> Session<'a> {
    fn begin(watch: &'a ThreadsWatch, root: &HostRoot) -> anyhow::Result<Self> {
        let tables = &watch.all.threads;
        let counter = WaitCounter::start(tables)?;
        let online = root.cpu_list("sys/devices/system/cpu/online");
        let recorder = Recorder::start(&watch.all, &online)?;
        let mut session = Self {
            watch,
            tables,
            counter,
            last: vec![Waits::default(); tables.len()],
            last_locks: vec![Default::default(); tables.len()],
            groups: vec![None; tables.len()],
            said: vec![String::new(); tables.len()],
            recorder,
            online,
            pending: Pending::new(tables.len(), watch.all.window.after),
            lost: 0,
        };
        let possible = root.cpu_list("sys/devices/system/cpu/possible");
        let [whole, grouped] = [false, true].map(|grouped| {
            let last = possible.iter().copied().max().unwrap_or(0);
            (0..=last).map(|cpu| bits(tables, grouped, cpu)).collect::<Vec<u32>>()
        });
        session.counter.watch(&whole, &grouped)?;
        // Says what is watched, which is so from here on.
        session.find_groups(root)?;
        Ok(session)
    }

    fn run(mut self, root: &HostRoot) -> anyhow::Result<()> {
        let (mut counted, mut looked) = (Instant::now(), Instant::now());
        while !self.watch.end.requested() {
            std::thread::sleep(TICK);
            self.take_long()?;
            if counted.elapsed() >= COUNT {
                counted = Instant::now();
                self.count()?;
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.find_groups(root)?;
                self.recorder
                    .as_mut()
                    .map_or(Ok(()), |recorder| recorder.look(&self.watch.board, &self.watch.all))?;
                if root.cpu_list("sys/devices/system/cpu/online") != self.online {
                    quaver_instrument::tell!(
                        "quaver watch: threads: counting begins anew: CPUs came or went"
                    );
                    break;
                }
            }
        }
        self.take_long()?;
        self.freeze_until(monotonic_ns().unsigned_abs(), u64::MAX)?;
        self.count()
    }

    /// Finds the control groups again: a unit that was restarted has another one.
    fn find_groups(&mut self, root: &HostRoot) -> anyhow::Result<()> {
        for (place, table) in self.tables.iter().enumerate() {
            let (group, words) = if table.has_group() {
                match group::find(table, root) {
                    Ok(group) => (Some(group.clone()), words(table, Some(&group.path))),
                    Err(why) => (None, why),
                }
            } else {
                (None, words(table, None))
            };
            if table.has_group() && self.groups[place] != group {
                self.counter.set_group(place, group.as_ref())?;
            }
            let watched = group.is_some() || !table.has_group();
            self.groups[place] = group;
            if self.said[place] != words {
                let word = if watched { "watching" } else { "not watched:" };
                quaver_instrument::tell!("quaver watch: {}: {word} {words}", table.name);
                self.watch.board.threads(&table.name, |state| {
                    (state.watched, state.words) = (watched, words.clone());
                });
                self.said[place] = words;
            }
        }
        Ok(())
    }

    /// Publishes what was counted since the last time.
    fn count(&mut self) -> anyhow::Result<()> {
        for (place, table) in self.tables.iter().enumerate() {
            let now = self.counter.read(place)?;
            let held = self.recorder.as_ref().filter(|_| table.has_trigger()).map(Recorder::held);
            let locks =
                if table.lock.is_some() { self.counter.read_futex(place)? } else { Default::default() };
            let before = std::mem::replace(&mut self.last_locks[place], locks);
            let locks = ENDS.iter().zip(&self.last_locks[place]).zip(&before);
            self.watch.board.threads(&table.name, |state| {
                for ((end, now), before) in locks.filter(|_| table.lock.is_some()) {
                    state.futex.entry((*end).to_owned()).or_default().merge(&now.since(before));
                }
                now.add_since(&self.last[place], state);
                (state.held_ns, state.memory_bytes) = held.unwrap_or_default();
            });
            self.last[place] = now;
        }
        let lost = self.counter.lost()?;
        if lost > self.lost {
            let more = lost - self.lost;
            quaver_instrument::tell!(
                "quaver watch: threads: {more} waits above a limit came faster than they were read"
            );
            self.lost = lost;
        }
        Ok(())
    }

    /// Takes long waits, and freezes the window of each table whose trigger is old enough.
    fn take_long(&mut self) -> anyhow::Result<()> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        recorder.read(self.pending.is_empty())?;
        // The watch's own threads give way on purpose.
        let of_others = |wait: &LongWait| wait.process != std::process::id();
        self.counter.take_long()?.into_iter().filter(of_others).for_each(|wait| self.pending.add(wait));
        let until_ns = monotonic_ns().unsigned_abs().saturating_sub(SETTLE.as_nanos() as u64);
        self.freeze_until(until_ns, until_ns)
    }

    /// Freezes the windows that end before `end_ns`, up to `until_ns`.
    fn freeze_until(&mut self, until_ns: u64, end_ns: u64) -> anyhow::Result<()> {
        while let Some((first_ns, waits)) = self.pending.take_ended(end_ns) {
            let after_ns = self.watch.all.window.after.as_nanos() as u64;
            self.freeze(first_ns, (first_ns + after_ns).min(until_ns), waits)?;
        }
        Ok(())
    }

    fn freeze(&mut self, first_ns: u64, end_ns: u64, waits: LongWaits) -> anyhow::Result<()> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        let LongWaits { longest: wait, count: long_waits } = waits;
        let settings = &self.tables[wait.table_index];
        let (board, all) = (&self.watch.board, &self.watch.all);
        let subject = Subject::Threads(settings.name.clone());
        let (reason, limit) = match &wait.lock {
            Some(_) => (Reason::Blocked, settings.lock),
            None => (Reason::Waited, settings.wait),
        };
        board.outcomes(&subject, |outcomes| *outcomes.triggers.entry(reason).or_default() += 1);
        if !board.may_keep(false, all.limits.incidents_an_hour) {
            board.outcomes(&subject, |outcomes| outcomes.suppressed += 1);
            return Ok(());
        }
        if end_ns <= recorder.held_from_ns() {
            let name = &settings.name;
            quaver_instrument::tell!("quaver watch: {name}: a trigger was not kept: its records are gone");
            board.give_back();
            board.outcomes(&subject, |outcomes| outcomes.suppressed += 1);
            return Ok(());
        }
        let asked_ns = first_ns.saturating_sub(all.window.before.as_nanos() as u64);
        let start_ns = asked_ns.min(wait.at_ns.saturating_sub(wait.wait_ns));
        let frozen = ThreadsWindow {
            name: settings.name.clone(),
            trigger: Trigger::new(reason, first_ns, wait.wait_ns),
            limit_ns: limit.map_or(0, |limit| limit.as_nanos() as u64),
            wait,
            long_waits,
            records: recorder.freeze(start_ns, end_ns, all.window.before)?,
        };
        if frozen.is_own_doing() {
            let (name, words) = (&frozen.name, frozen.trigger);
            quaver_instrument::tell!(
                "quaver watch: {name}: {words}, for most of which this watch had that CPU: no incident is made of it"
            );
            board.give_back();
            board.outcomes(&subject, |outcomes| outcomes.suppressed += 1);
            return Ok(());
        }
        self.watch.outbox.put(FrozenWindow::Threads(Box::new(frozen)));
        Ok(())
    }
}

/// Tables that count on a CPU, a bit each: those of control groups, or those of all its threads.
fn bits(tables: &[ThreadsSettings], grouped: bool, cpu: u16) -> u32 {
    let counts = |table: &ThreadsSettings| {
        table.has_group() == grouped && table.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    };
    tables.iter().enumerate().filter(|(_, table)| counts(table)).map(|(place, _)| 1 << place).sum()
}

/// `waits of the threads of /sys/fs/cgroup/audio.slice on CPUs 2, 3`.
fn words(table: &ThreadsSettings, group: Option<&str>) -> String {
    let of = group.map_or("all threads".to_owned(), |path| format!("the threads of {path}"));
    let locks = if table.lock.is_some() { ", also for locks" } else { "" };
    let cpus: Vec<String> = table.cpus.iter().flatten().map(u16::to_string).collect();
    match cpus.len() {
        0 => format!("waits of {of}{locks}"),
        1 => format!("waits of {of} on CPU {}{locks}", cpus[0]),
        _ => format!("waits of {of} on CPUs {}{locks}", cpus.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(group: Option<&str>, cpus: Option<Vec<u16>>) -> ThreadsSettings {
        ThreadsSettings {
            name: "a".to_owned(),
            group: group.map(Into::into),
            cpus,
            ..ThreadsSettings::default()
        }
    }

    #[test]
    fn each_table_counts_on_its_cpus_and_a_group_without_cpus_on_all() {
        let tables =
            [table(None, Some(vec![1])), table(Some("/g"), None), table(Some("/h"), Some(vec![0, 1]))];
        let of = |grouped, cpu| bits(&tables, grouped, cpu);
        assert_eq!([of(false, 0), of(false, 1), of(true, 0), of(true, 1), of(true, 2)], [0, 1, 6, 6, 2]);
        assert_eq!(words(&tables[2], Some("/h")), "waits of the threads of /h on CPUs 0, 1");
        assert_eq!(words(&tables[0], None), "waits of all threads on CPU 1");
    }

    #[test]
    fn what_was_counted_before_is_not_counted_again() {
        let reading = |ns: &[u64]| {
            let mut waits = Waits::default();
            ns.iter().for_each(|ns| waits.by_holder[2].add(*ns));
            waits.by_cpu.insert(3, (ns.len() as u64, ns.iter().sum()));
            waits
        };
        let (first, second, mut state) = (reading(&[5]), reading(&[5, 70_000]), ThreadsState::default());
        first.add_since(&Waits::default(), &mut state);
        second.add_since(&first, &mut state);
        // Counting began anew.
        first.add_since(&Waits::default(), &mut state);
        assert_eq!(state.cpus, [(3, (3, 70_010))].into());
        assert_eq!((state.waits["program"].in_text()[0], state.waits["program"].in_text()[3]), (2, 1));
        assert_eq!(state.waits["program"].sum_ns, 70_010);
    }
}
