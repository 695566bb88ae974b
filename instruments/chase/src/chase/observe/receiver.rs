//! Which threads of an observed process receive, and whether they sleep for their packets.

use crate::chase::stretches::Stretches;
use quaver_abi::record::{EventKind, EventRecord, OffCpu, StampRecord};
use quaver_host::sockets::ThreadFacts;
use std::collections::{BTreeMap, BTreeSet};

/// Stamps that are looked at: enough to tell.
const LOOKED_AT: usize = 20_000;
/// A thread that returned from less than one in so many receive calls is no receiver.
const FEW: usize = 200;
/// A thread that went to sleep at least once for so many packets sleeps for them (a batch may hold many).
const PACKETS_A_SLEEP: usize = 512;

/// The threads that receive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Receivers {
    /// Their numbers, busiest first; empty if no receive call could be given to a thread.
    pub(super) threads: Vec<u32>,
    /// They sleep for their packets.
    pub(super) blocking: bool,
}

/// Finds the thread that ran where and when each receive call returned.
pub(super) fn receivers(
    stamps: &[StampRecord],
    events: &[EventRecord],
    threads: &[ThreadFacts],
    process: u32,
) -> Receivers {
    // Old kernels do not tell which call a thread sleeps in.
    let told = events.iter().any(|event| event.kind == EventKind::Sleep as u8);
    let sleeps_for_packets = |off: OffCpu| match off {
        OffCpu::Receiving | OffCpu::Polling => true,
        other => other == OffCpu::Blocked && !told,
    };
    // A thread that began in the run is known by its name, which is recorded with its process.
    let named = events
        .iter()
        .filter(|event| event.kind == EventKind::TaskName as u8 && event.named_process() == process);
    let of_process: BTreeSet<u32> =
        threads.iter().map(|facts| facts.id).chain(named.map(|event| event.id)).collect();
    let known = |thread: u32| of_process.contains(&thread);
    let stretches = Stretches::of(events, known);
    let mut sleeps: BTreeMap<u32, usize> = BTreeMap::new();
    for event in events.iter().filter(|event| event.kind == EventKind::Thread as u8 && known(event.id)) {
        if sleeps_for_packets(OffCpu::from_raw(event.detail)) {
            *sleeps.entry(event.id).or_default() += 1;
        }
    }
    let mut calls: BTreeMap<u32, usize> = BTreeMap::new();
    let received: Vec<&StampRecord> = stamps.iter().filter(|stamp| stamp.user_ns != 0).collect();
    let every = received.len().div_ceil(LOOKED_AT).max(1);
    for stamp in received.iter().step_by(every) {
        if let Some(thread) = stretches.at(stamp.user_cpu, stamp.user_ns) {
            *calls.entry(thread).or_default() += 1;
        }
    }
    let all: usize = calls.values().sum();
    let mut busiest: Vec<(usize, u32)> = calls.iter().map(|(thread, count)| (*count, *thread)).collect();
    let often = |(count, _): &(usize, u32)| count * FEW >= all;
    // Where threads come and go, none receives much.
    if busiest.iter().filter(|one| often(one)).map(|(count, _)| count).sum::<usize>() * 2 > all {
        busiest.retain(often);
    }
    busiest.sort_unstable_by_key(|(count, thread)| (usize::MAX - count, *thread));
    let threads: Vec<u32> = busiest.into_iter().map(|(_, thread)| thread).collect();
    let slept: usize = threads.iter().filter_map(|thread| sleeps.get(thread)).sum();
    Receivers { blocking: slept > 0 && slept * PACKETS_A_SLEEP >= received.len(), threads }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: u32 = 5;

    fn facts(ids: &[u32]) -> Vec<ThreadFacts> {
        ids.iter().map(|id| ThreadFacts { id: *id, realtime: false, cpu: None }).collect()
    }

    fn run(thread: u32, cpu: u16, start_ns: u64, end_ns: u64, left: OffCpu) -> EventRecord {
        EventRecord {
            start_ns,
            end_ns,
            id: thread,
            cpu,
            kind: EventKind::Thread as u8,
            detail: left as u8,
            aux: 0,
        }
    }

    fn received(user_cpu: u16, user_ns: u64) -> StampRecord {
        StampRecord { user_cpu, user_ns, ..StampRecord::default() }
    }

    #[test]
    fn the_thread_on_the_cpu_at_the_return_is_the_receiver() {
        let mut events = vec![run(9, 1, 50, 60, OffCpu::Blocked), run(8, 0, 0, 90_000, OffCpu::Preempted)];
        let mut stamps = Vec::new();
        for turn in 1..=50 {
            let start = turn * 1_000;
            events.push(run(7, 1, start, start + 20, OffCpu::Blocked));
            stamps.push(received(1, start + 10));
            stamps.push(received(0, 0));
        }
        let found = receivers(&stamps, &events, &facts(&[7, 8, 9]), PROCESS);
        assert_eq!(found, Receivers { threads: vec![7], blocking: true });
        let stranger = receivers(&stamps, &events, &facts(&[8, 9]), PROCESS);
        assert_eq!(stranger, Receivers::default(), "thread 7 is not the process's");
    }

    #[test]
    fn threads_that_began_in_the_run_receive_as_well() {
        // One after another reads one packet.
        let threads = 1_000..1_300;
        let named = |thread: u32| EventRecord {
            id: thread,
            kind: EventKind::TaskName as u8,
            aux: u64::from(PROCESS) | u64::from(thread) << 32,
            ..EventRecord::default()
        };
        let at = |thread: u32| u64::from(thread) * 1_000;
        let mut events: Vec<EventRecord> = threads.clone().map(named).collect();
        events.extend(
            threads.clone().map(|thread| run(thread, 1, at(thread), at(thread) + 20, OffCpu::Receiving)),
        );
        let stamps: Vec<StampRecord> = threads.clone().map(|thread| received(1, at(thread) + 10)).collect();
        let found = receivers(&stamps, &events, &facts(&[7]), PROCESS);
        assert_eq!(found.threads, threads.collect::<Vec<u32>>());
        assert_eq!(receivers(&stamps, &events, &facts(&[7]), PROCESS + 1), Receivers::default());
    }

    #[test]
    fn one_that_never_sleeps_polls() {
        let events = [
            run(7, 1, 0, 10_000_000, OffCpu::Preempted),
            run(7, 1, 10_000_100, 20_000_000, OffCpu::Blocked),
            run(8, 1, 10_000_000, 10_000_100, OffCpu::Blocked),
        ];
        let stamps: Vec<StampRecord> = (1..2_000).map(|n| received(1, n * 10_000)).collect();
        let found = receivers(&stamps, &events, &facts(&[7, 8]), PROCESS);
        assert_eq!(
            found,
            Receivers { threads: vec![7], blocking: false },
            "one sleep in 2,000 packets is none"
        );
    }

    #[test]
    fn nothing_recorded_tells_nothing() {
        assert_eq!(receivers(&[], &[], &facts(&[7]), PROCESS), Receivers::default());
        assert_eq!(receivers(&[received(3, 5)], &[], &facts(&[7]), PROCESS), Receivers::default());
    }
}
