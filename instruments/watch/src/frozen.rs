//! What a trigger kept: a window of the flight recorder with what is known of it, until it is written as an incident.

use crate::board::Subject;
use crate::judge::Trigger;
use quaver_abi::record::{EventKind, EventRecord, StampRecord};
use quaver_analysis::model::{Circumstances, Names, Unread};
use quaver_chase::chase::observe::Observed;
use quaver_host::facts::HostFacts;
use quaver_host::symbols::MemoryMap;
use quaver_host::trace::TraceCounts;
use quaver_path_record::ClockPair;
use quaver_path_record::stamp::{SenderOptions, StampOutcome, StampPacket};
use quaver_store::manifest::Window;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Whose window it is.
pub(crate) enum FrozenWindow {
    /// A receiver.
    Receiver(Box<ReceiverWindow>),
    /// A table of threads.
    Threads(Box<ThreadsWindow>),
    /// A path.
    Path(Box<PathWindow>),
}

impl FrozenWindow {
    /// The receiver, the table of threads or the path.
    pub(crate) fn subject(&self) -> Subject {
        match self {
            Self::Receiver(frozen) => Subject::Receiver(frozen.receiver.clone()),
            Self::Threads(frozen) => Subject::Threads(frozen.name.clone()),
            Self::Path(frozen) => Subject::Path(frozen.name.clone()),
        }
    }

    /// What began it.
    pub(crate) fn triggers(&self) -> &[Trigger] {
        match self {
            Self::Receiver(frozen) => &frozen.triggers,
            Self::Threads(frozen) => std::slice::from_ref(&frozen.trigger),
            Self::Path(frozen) => &frozen.triggers,
        }
    }

    /// When it began by the wall clock of then.
    pub(crate) fn triggered_realtime_ns(&self) -> i64 {
        let clocks = match self {
            Self::Receiver(frozen) => frozen.records.clocks,
            Self::Threads(frozen) => frozen.records.clocks,
            Self::Path(frozen) => frozen.clocks,
        };
        self.triggers().first().map_or(0, |trigger| clocks.realtime_of(trigger.at_ns as i64))
    }

    /// Memory that its records take.
    pub(crate) fn bytes(&self) -> u64 {
        let of_events = |records: &WindowRecords| records.events.len() * size_of::<EventRecord>();
        let bytes = match self {
            Self::Receiver(frozen) => {
                frozen.stamps.len() * size_of::<StampRecord>() + of_events(&frozen.records)
            }
            Self::Threads(frozen) => of_events(&frozen.records),
            Self::Path(frozen) => {
                let StampOutcome { packets, further, .. } = &frozen.outcome;
                (packets.len() + further.len()) * size_of::<StampPacket>()
            }
        };
        bytes as u64
    }
}

/// What a trigger kept of a receiver.
pub(crate) struct ReceiverWindow {
    pub(crate) receiver: String,
    pub(crate) late_ns: Option<i64>,
    pub(crate) triggers: Vec<Trigger>,
    pub(crate) records: WindowRecords,
    pub(crate) stamps: Vec<StampRecord>,
    pub(crate) unread: Option<Unread>,
    pub(crate) stacks: BTreeMap<u32, Vec<u64>>,
    pub(crate) observed: Arc<Observed>,
    /// What the first look at the receiver leaves out.
    pub(crate) notes: Vec<String>,
    pub(crate) maps: MemoryMap,
}

/// The clocks when a window was frozen: it may wait, and the wall clock may step meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    realtime_less_monotonic_ns: i64,
}

impl Clocks {
    pub(crate) fn now() -> Self {
        // A thread may lose its CPU between two readings, which would look as if the clock had been set.
        let ClockPair { realtime_ns, monotonic_ns } = ClockPair::now();
        Self { realtime_less_monotonic_ns: realtime_ns - monotonic_ns }
    }

    /// How far the wall clock moved beside CLOCK_MONOTONIC since another reading.
    pub(crate) fn apart_ns(self, before: Self) -> i64 {
        (self.realtime_less_monotonic_ns - before.realtime_less_monotonic_ns).abs()
    }

    /// The same after the wall clock was set.
    #[cfg(test)]
    pub(crate) fn set_by(self, ns: i64) -> Self {
        Self { realtime_less_monotonic_ns: self.realtime_less_monotonic_ns + ns }
    }

    /// CLOCK_MONOTONIC at an instant of the wall clock.
    pub(crate) fn monotonic_of(self, realtime_ns: i64) -> i64 {
        realtime_ns.saturating_sub(self.realtime_less_monotonic_ns)
    }

    /// The wall clock at an instant of CLOCK_MONOTONIC.
    pub(crate) fn realtime_of(self, monotonic_ns: i64) -> i64 {
        monotonic_ns.saturating_add(self.realtime_less_monotonic_ns)
    }
}

/// What is held of the window that was asked for.
pub(crate) struct WindowRecords {
    pub(crate) clocks: Clocks,
    pub(crate) window: Window,
    /// Time before the trigger that was asked for.
    pub(crate) before: Duration,
    /// Why nothing before the window is held, where that was asked for.
    pub(crate) held_because: &'static str,
    pub(crate) events: Vec<EventRecord>,
    /// Of the threads that lived when it was frozen: the window may wait longer than they live.
    pub(crate) names: Names,
    pub(crate) counts: TraceCounts,
    pub(crate) blind: Vec<String>,
    pub(crate) circumstances: Circumstances,
    pub(crate) host: Arc<HostFacts>,
}

/// What a trigger kept of a path.
pub(crate) struct PathWindow {
    pub(crate) name: String,
    pub(crate) triggers: Vec<Trigger>,
    pub(crate) clocks: Clocks,
    /// The packets of the window.
    pub(crate) outcome: StampOutcome,
    /// With which they were sent.
    pub(crate) options: SenderOptions,
}

/// What a long wait kept of a table of threads.
pub(crate) struct ThreadsWindow {
    pub(crate) name: String,
    /// Its time is the end of the first long wait, its amount the longest one.
    pub(crate) trigger: Trigger,
    pub(crate) limit_ns: u64,
    /// The longest of the window.
    pub(crate) wait: LongWait,
    /// Waits of the table in the window that were above the limit, that one included.
    pub(crate) long_waits: u64,
    pub(crate) records: WindowRecords,
}

impl ThreadsWindow {
    /// Whether this watch itself had the CPU for most of the wait.
    pub(crate) fn is_own_doing(&self) -> bool {
        let WindowRecords { events, circumstances, .. } = &self.records;
        let wait = &self.wait;
        let since_ns = wait.at_ns.saturating_sub(wait.wait_ns);
        let is_own = |event: &&EventRecord| {
            event.kind == EventKind::Thread as u8
                && event.cpu == wait.cpu
                && circumstances.own_threads.contains(&event.id)
        };
        let within =
            |event: &EventRecord| event.end_ns.min(wait.at_ns).saturating_sub(event.start_ns.max(since_ns));
        let own_ns: u64 = events.iter().filter(is_own).map(within).sum();
        wait.lock.is_none() && own_ns > wait.wait_ns / 2
    }
}

/// A wait for a CPU, or for a lock, above its table's limit, as the kernel's program saw it end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LongWait {
    /// Place of the table among those of the settings.
    pub(crate) table_index: usize,
    /// When a CPU switched to the thread, CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) thread: u32,
    pub(crate) process: u32,
    pub(crate) cpu: u16,
    pub(crate) realtime: bool,
    pub(crate) comm: String,
    /// Of a wait for a lock; `at_ns` is then when a thread let it go on.
    pub(crate) lock: Option<LockWait>,
}

/// A wait for a lock, and the thread that ended it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockWait {
    pub(crate) address: u64,
    pub(crate) waker: u32,
    pub(crate) waker_process: u32,
    pub(crate) waker_comm: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Reason;

    #[test]
    fn a_wait_is_the_watchs_own_doing_where_its_threads_had_that_cpu_for_most_of_it() {
        // A wait from 1 to 9 us on CPU 1, and a run from 2 us on.
        let window = |id, cpu, end_ns| {
            let kind = EventKind::Thread as u8;
            let event = EventRecord { start_ns: 2_000, end_ns, id, cpu, kind, ..EventRecord::default() };
            ThreadsWindow {
                name: "a".to_owned(),
                trigger: Trigger::new(Reason::Waited, 9_000, 8_000),
                limit_ns: 1,
                wait: LongWait { at_ns: 9_000, wait_ns: 8_000, cpu: 1, ..LongWait::default() },
                long_waits: 1,
                records: WindowRecords {
                    clocks: Clocks::now(),
                    window: Window { start_ns: 0, end_ns: 10_000 },
                    before: Duration::ZERO,
                    held_because: "",
                    events: vec![event],
                    names: Names::default(),
                    counts: TraceCounts::default(),
                    blind: Vec::new(),
                    circumstances: Circumstances { own_threads: vec![7], ..Circumstances::default() },
                    host: Arc::new(HostFacts::default()),
                },
            }
        };
        let is_own = |id, cpu, end_ns| window(id, cpu, end_ns).is_own_doing();
        assert_eq!([is_own(7, 1, 6_001), is_own(7, 1, 6_000)], [true, false], "above half of it");
        assert_eq!([is_own(8, 1, 9_500), is_own(7, 0, 9_500)], [false, false], "another thread, or CPU");
    }
}
