//! The flight recorder: the last seconds of packets and events of one receiver, or the events alone, in bounded memory.

use quaver_abi::record::{EventKind, EventRecord, StampRecord, stamp_flags};
use quaver_analysis::model::Unread;
use quaver_host::trace::TraceSink;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The last seconds.
#[derive(Debug)]
pub(crate) struct FlightRecorder {
    stamps: VecDeque<StampRecord>,
    /// Events of all batches.
    events: usize,
    /// Records of one reading go together: ends of events are not in order, and an interval may have begun long ago.
    batches: VecDeque<Batch>,
    open: Batch,
    keep_ns: u64,
    most_bytes: usize,
    /// All trace points are attached since then.
    began_ns: u64,
    /// Everything recorded since then is held.
    held_from_ns: u64,
    /// Why nothing before that is.
    held_because: &'static str,
    newest_ns: u64,
    /// Threads whose state at the start of a window must be known.
    threads: BTreeSet<u32>,
    /// Of each of them what was let go of its latest run, and since.
    before: BTreeMap<u32, Vec<EventRecord>>,
    /// Records that came since it was last asked.
    fresh: Vec<StampRecord>,
}

/// What a snapshot of the tracer hands over.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) open: Vec<EventRecord>,
    pub(crate) stacks: BTreeMap<u32, Vec<u64>>,
}

impl TraceSink for Snapshot {
    fn stamp(&mut self, _: StampRecord) {}

    fn event(&mut self, record: EventRecord) {
        self.open.push(record);
    }

    fn stack(&mut self, number: u32, addresses: &[u64]) {
        self.stacks.insert(number, addresses.to_vec());
    }
}

/// Records of one reading of the tracer's memory.
#[derive(Debug, Default)]
struct Batch {
    /// None of them is of later than this.
    until_ns: u64,
    stamps: usize,
    /// In memory of their own, which goes with them: one queue of all would take up to twice as much as it holds.
    events: Vec<EventRecord>,
}

/// What tells the state of a thread.
const OF_STATE: [EventKind; 5] =
    [EventKind::Thread, EventKind::Sleep, EventKind::Frame, EventKind::Wakeup, EventKind::Migrate];

/// The latest run among records of one thread, and what came since.
fn since_latest_run(mut records: Vec<EventRecord>) -> Vec<EventRecord> {
    let runs = records.iter().filter(|record| record.kind == EventKind::Thread as u8);
    if let Some(latest_ns) = runs.map(|run| run.end_ns).max() {
        records.retain(|record| record.end_ns >= latest_ns);
    }
    records
}

/// When a packet was first seen, by any layer.
fn first_ns(stamp: &StampRecord) -> u64 {
    let layers = [stamp.receive_ns, stamp.enqueued_ns, stamp.ready_ns, stamp.user_ns];
    layers.into_iter().find(|ns| *ns > 0).unwrap_or(0)
}

/// When a packet was last seen, by any layer.
fn last_ns(stamp: &StampRecord) -> u64 {
    stamp.user_ns.max(stamp.ready_ns).max(stamp.enqueued_ns).max(stamp.receive_ns)
}

fn tells_state(event: &EventRecord, threads: &BTreeSet<u32>) -> bool {
    threads.contains(&event.id)
        && EventKind::from_repr(event.kind).is_some_and(|kind| OF_STATE.contains(&kind))
}

impl FlightRecorder {
    /// An empty one that begins at `now_ns`, and holds `keep` as long as that takes no more than `most_bytes`. Of `threads` it
    /// also holds the latest run before that, with what tells why it ended.
    pub(crate) fn new(now_ns: u64, keep: Duration, most_bytes: usize, threads: BTreeSet<u32>) -> Self {
        Self {
            stamps: VecDeque::new(),
            events: 0,
            batches: VecDeque::new(),
            open: Batch::default(),
            keep_ns: keep.as_nanos() as u64,
            most_bytes,
            began_ns: now_ns,
            held_from_ns: now_ns,
            held_because: "recording began then",
            newest_ns: 0,
            threads,
            before: BTreeMap::new(),
            fresh: Vec::new(),
        }
    }

    /// Packets that came since the last call, in their order of arrival.
    pub(crate) fn take_fresh(&mut self) -> Vec<StampRecord> {
        std::mem::take(&mut self.fresh)
    }

    /// Ends a reading, which was done at `now_ns`, and lets go what is too much.
    pub(crate) fn end_reading(&mut self, now_ns: u64) {
        self.open.events.shrink_to_fit();
        self.batches.push_back(Batch { until_ns: now_ns, ..std::mem::take(&mut self.open) });
        while self.bytes() > self.most_bytes && !self.batches.is_empty() {
            self.let_go();
            self.held_because = "memory_mib holds no more";
        }
    }

    /// Lets go what is too old.
    pub(crate) fn trim(&mut self, now_ns: u64) {
        let oldest_ns = now_ns.saturating_sub(self.keep_ns);
        while self.batches.front().is_some_and(|batch| batch.until_ns < oldest_ns) {
            self.let_go();
            self.held_because = "it was told of too late";
        }
    }

    fn let_go(&mut self) {
        let Some(batch) = self.batches.pop_front() else { return };
        self.stamps.drain(..batch.stamps);
        self.events -= batch.events.len();
        let mut changed = BTreeSet::new();
        for event in batch.events.iter().filter(|event| tells_state(event, &self.threads)) {
            self.before.entry(event.id).or_default().push(*event);
            changed.insert(event.id);
        }
        for thread in changed {
            let records = self.before.remove(&thread).unwrap_or_default();
            self.before.insert(thread, since_latest_run(records));
        }
        self.held_from_ns = self.held_from_ns.max(batch.until_ns + 1);
    }

    /// Memory that its records take.
    pub(crate) fn bytes(&self) -> usize {
        self.stamps.len() * size_of::<StampRecord>() + self.events * size_of::<EventRecord>()
    }

    fn events(&self) -> impl Iterator<Item = &EventRecord> {
        self.batches.iter().chain([&self.open]).flat_map(|batch| &batch.events)
    }

    /// When the newest packet was last seen.
    pub(crate) fn newest_ns(&self) -> u64 {
        self.newest_ns
    }

    /// Everything recorded since this instant is held.
    pub(crate) fn held_from_ns(&self) -> u64 {
        self.held_from_ns
    }

    /// Why nothing before that is held.
    pub(crate) fn held_because(&self) -> &'static str {
        self.held_because
    }

    /// The packets that came before an instant and were read after it, and how many came since the first of them did; none
    /// where all had been read by then. `way_ns` is the time up to which a packet is on its way.
    pub(crate) fn unread(&self, until_ns: u64, way_ns: u64) -> Option<Unread> {
        let came = |stamp: &StampRecord| {
            let times = [stamp.ready_ns, stamp.enqueued_ns, stamp.receive_ns];
            times.into_iter().find(|ns| *ns > 0).filter(|ns| *ns < until_ns)
        };
        let later = self.stamps.iter().filter(|stamp| stamp.user_ns > until_ns);
        let since_ns = later.filter_map(came).min().filter(|since_ns| until_ns - since_ns > way_ns)?;
        let is_unread = |stamp: &&StampRecord| {
            let is_read =
                (1..=until_ns).contains(&stamp.user_ns) || stamp.flags & stamp_flags::ELSEWHERE != 0;
            !is_read && came(stamp).is_some_and(|ns| ns >= since_ns)
        };
        let packets = self.stamps.iter().filter(is_unread).count() as u64;
        Some(Unread { since_ns: since_ns as i64, until_ns: until_ns as i64, packets })
    }

    /// A copy of what touches a window, and of what tells the state of its threads at its start. Between the first and the last
    /// packet of the window it has all, in their order of arrival: what was dropped behind a packet that waited long is part
    /// of the account.
    pub(crate) fn copy(&self, from_ns: u64, to_ns: u64) -> (Vec<StampRecord>, Vec<EventRecord>) {
        let mut before = self.before.clone();
        for event in self.events().filter(|event| tells_state(event, &self.threads)) {
            before.entry(event.id).or_default().push(*event);
        }
        let at_start = before.into_values().flat_map(|mut records| {
            records.retain(|record| record.end_ns < from_ns);
            since_latest_run(records)
        });
        let is_within = |stamp: &StampRecord| (from_ns..=to_ns).contains(&last_ns(stamp));
        let first = self.stamps.iter().position(is_within).unwrap_or(0);
        let end = self.stamps.iter().rposition(is_within).map_or(first, |last| last + 1);
        let stamps = self.stamps.range(first..end);
        let events = self.events().filter(|event| event.end_ns >= from_ns && event.start_ns <= to_ns);
        (stamps.copied().collect(), at_start.chain(events.copied()).collect())
    }
}

impl TraceSink for FlightRecorder {
    /// Trace points are attached one after the other. A packet that came before the last one may have been read unseen, and the
    /// first reading that was seen would count as its own: it would be late by the time of attaching.
    fn stamp(&mut self, record: StampRecord) {
        if first_ns(&record) < self.began_ns {
            return;
        }
        self.newest_ns = self.newest_ns.max(last_ns(&record));
        self.stamps.push_back(record);
        self.fresh.push(record);
        self.open.stamps += 1;
    }

    fn event(&mut self, record: EventRecord) {
        self.open.events.push(record);
        self.events += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(end_ns: u64) -> EventRecord {
        EventRecord { start_ns: end_ns.saturating_sub(5), end_ns, kind: 1, ..EventRecord::default() }
    }

    fn stamp(user_ns: u64) -> StampRecord {
        StampRecord { receive_ns: user_ns - 1, user_ns, ..StampRecord::default() }
    }

    proptest! {
        #[test]
        fn it_keeps_its_bound_and_holds_all_since_the_instant_it_names(
            kinds in proptest::collection::vec((any::<bool>(), 0u64..30, any::<bool>()), 1..600),
            most in 1usize..200,
            keep in 1u64..2_000
        ) {
            let mut flight = FlightRecorder::new(1, Duration::from_nanos(keep), most * 128, BTreeSet::new());
            let mut all = Vec::new();
            for (turn, (is_stamp, ago, ends)) in kinds.into_iter().enumerate() {
                let now_ns = 100 + turn as u64 * 7;
                // Ends are in no order, and one of them is nonsense.
                let at = if turn == 40 { u64::MAX - 9 } else { now_ns - ago };
                all.push(at);
                if is_stamp { flight.stamp(stamp(at)) } else { flight.event(event(at)) }
                if !ends {
                    continue;
                }
                flight.end_reading(now_ns);
                flight.trim(now_ns);
                prop_assert!(flight.bytes() <= most * 128);
                prop_assert_eq!(flight.events().count(), flight.events);
                prop_assert!(flight.batches.iter().all(|batch| batch.events.capacity() == batch.events.len()));
                prop_assert!(flight.held_from_ns() <= now_ns + 1);
                let (stamps, events) = flight.copy(flight.held_from_ns(), u64::MAX);
                let held = stamps.iter().map(last_ns).chain(events.iter().map(|event| event.end_ns));
                // Packets between others come along.
                let mut held: Vec<u64> =
                    held.filter(|at| (flight.held_from_ns()..=now_ns).contains(at)).collect();
                held.sort_unstable();
                let mut expected: Vec<u64> =
                    all.iter().copied().filter(|at| (flight.held_from_ns()..=now_ns).contains(at)).collect();
                expected.sort_unstable();
                prop_assert_eq!(held, expected);
            }
        }
    }

    #[test]
    fn a_packet_that_came_while_trace_points_were_being_attached_is_not_recorded() {
        let mut flight = FlightRecorder::new(100, Duration::from_secs(1), 1 << 20, BTreeSet::new());
        // Sixteen packets waited for the first reading that was seen; the last of them came when all was attached.
        (85..=100).for_each(|receive_ns| {
            flight.stamp(StampRecord { receive_ns, user_ns: 101, ..StampRecord::default() })
        });
        flight.stamp(StampRecord { ready_ns: 99, user_ns: 102, ..StampRecord::default() });
        let fresh = flight.take_fresh();
        assert_eq!(fresh.iter().map(|stamp| stamp.receive_ns).collect::<Vec<_>>(), [100]);
        assert_eq!(flight.copy(0, u64::MAX).0, fresh);
    }

    #[test]
    fn a_window_has_what_touches_it() {
        let mut flight = FlightRecorder::new(1, Duration::from_secs(1), 1 << 20, BTreeSet::new());
        (1..=10).for_each(|n| flight.event(event(n * 10)));
        (1..=10).for_each(|n| flight.stamp(stamp(n * 10)));
        let (stamps, events) = flight.copy(30, 57);
        assert_eq!(stamps.iter().map(|stamp| stamp.user_ns).collect::<Vec<_>>(), [30, 40, 50]);
        assert_eq!(events.iter().map(|event| event.end_ns).collect::<Vec<_>>(), [30, 40, 50, 60]);
        assert_eq!((flight.take_fresh().len(), flight.take_fresh().len()), (10, 0));
    }

    /// A packet each ten nanoseconds. The receiver reads nothing from 100 to 500, and its socket holds ten packets.
    fn stopped() -> FlightRecorder {
        let mut flight = FlightRecorder::new(1, Duration::from_secs(1), 1 << 20, BTreeSet::new());
        for n in 1..=80 {
            let came = StampRecord {
                receive_ns: n * 10,
                ready_ns: n * 10 + 1,
                arrival: n,
                ..StampRecord::default()
            };
            flight.stamp(match n {
                10..20 => StampRecord { user_ns: 500 + n, ..came },
                20..50 => StampRecord { ready_ns: 0, flags: stamp_flags::DROPPED, ..came },
                _ => StampRecord { user_ns: n * 10 + 2, ..came },
            });
        }
        flight
    }

    #[test]
    fn what_was_dropped_before_the_window_behind_a_packet_that_waited_into_it_is_in_it() {
        let (stamps, _) = stopped().copy(400, 700);
        assert_eq!(
            stamps.iter().map(|stamp| stamp.arrival).collect::<Vec<_>>(),
            (10..=69).collect::<Vec<_>>()
        );
        assert_eq!(stopped().copy(900, 1_000).0, []);
    }

    #[test]
    fn packets_that_nobody_had_read_at_the_end_of_the_window_are_told_although_they_were_read_later() {
        let unread = |since_ns, until_ns, packets| Some(Unread { since_ns, until_ns, packets });
        assert_eq!(stopped().unread(300, 20), unread(101, 300, 20), "ten wait, and ten were dropped");
        assert_eq!((stopped().unread(115, 20), stopped().unread(90, 20)), (None, None), "on its way");
        assert_eq!(stopped().unread(600, 20), None, "read by then");
    }

    #[test]
    fn a_window_begins_with_the_latest_run_of_each_thread_however_old() {
        let of =
            |kind: EventKind, id: u32, end_ns: u64| EventRecord { kind: kind as u8, id, ..event(end_ns) };
        let mut flight = FlightRecorder::new(1, Duration::from_nanos(20), 1 << 20, BTreeSet::from([7, 8]));
        let stops = [
            of(EventKind::Thread, 7, 10),
            of(EventKind::Thread, 7, 30),
            of(EventKind::Sleep, 7, 30),
            of(EventKind::Thread, 8, 20),
            of(EventKind::Wakeup, 8, 25),
            of(EventKind::Thread, 9, 30),
        ];
        for (turn, record) in stops.into_iter().enumerate() {
            flight.event(record);
            flight.end_reading(31 + turn as u64);
        }
        let expected = vec![stops[1], stops[2], stops[3], stops[4]];
        assert_eq!(flight.copy(35, 100).1, expected, "held");
        flight.trim(1_000);
        assert_eq!((flight.events, flight.events().count()), (0, 0));
        assert_eq!(flight.copy(900, 1_000).1, expected, "let go");
        flight.event(of(EventKind::Thread, 7, 950));
        assert_eq!(flight.copy(960, 1_000).1, vec![of(EventKind::Thread, 7, 950), stops[3], stops[4]]);
    }
}
