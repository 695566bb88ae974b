//! Joins what sink, source and tracer recorded of each packet.

use super::record::Recorded;
use quaver_abi::record::{EventKind, EventRecord, OffCpu, PacketRecord, StampRecord, Vector, stamp_flags};
use quaver_study_analysis::{StampTable, deltas, path_flags};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of the softirq that receives (`/proc/softirqs` order).
const NET_RX: u32 = 3;

/// ΔT of the send calls whose deadline lies in the window, and how many of them sent something.
pub(super) fn sender(recorded: &Recorded, window: Range<i64>) -> (Vec<i64>, u64) {
    let due = recorded.sends.iter().filter(|send| window.contains(&send.deadline_ns));
    let time = |cycles: u64| recorded.timebase.monotonic_ns(cycles).monotonic_ns;
    let own = deltas(due.clone().map(|send| (send.seq, time(send.before_cycles))), false);
    (own, due.filter(|send| send.after_cycles != 0).count() as u64)
}

/// The table of the packets whose deadline lies in the window.
pub(super) fn join(recorded: &Recorded, window: Range<i64>, sink_cpu: u16) -> StampTable {
    let time = |cycles: u64| recorded.timebase.monotonic_ns(cycles).monotonic_ns;
    let received: Vec<&PacketRecord> =
        recorded.packets.iter().filter(|packet| window.contains(&packet.deadline_ns)).collect();
    let by_key = by_key(&recorded.traced.stamps);
    let mut table = StampTable::default();
    let mut cpus = Vec::with_capacity(received.len());
    for packet in &received {
        let application_ns = time(packet.app_cycles);
        let stamp = by_key.get(packet.key as usize).copied().flatten();
        let kernel_ns = match packet.kernel_realtime_ns {
            0 => 0,
            ns => recorded.timebase.realtime_to_monotonic(ns, application_ns).monotonic_ns,
        };
        let sent = recorded.sends.get(packet.key as usize).filter(|send| send.seq == packet.key);
        let of = |field: fn(&StampRecord) -> u64| stamp.map_or(0, |stamp| field(stamp) as i64);
        table.key.push(packet.key);
        table.sent_ns.push(sent.map_or(0, |send| time(send.before_cycles)));
        table.isr_ns.push(if recorded.interrupts { of(|stamp| stamp.irq_ns) } else { 0 });
        table.softirq_ns.push(of(|stamp| stamp.softirq_ns));
        // One clock for the whole table: the kernel's own stamp is left to where nobody traces.
        table.stack_ns.push(match recorded.traced.tier {
            "user" => kernel_ns,
            _ => of(|stamp| stamp.receive_ns),
        });
        table.queued_ns.push(of(|stamp| stamp.enqueued_ns));
        table.application_ns.push(application_ns);
        cpus.push(stamp.map(|stamp| stamp.cpu));
    }
    table.path = if recorded.traced.tier == "user" {
        vec![path_flags::UNSEEN; table.len()]
    } else {
        paths(&table, &cpus, &recorded.traced.events, sink_cpu, recorded.threads.sink)
    };
    table
}

/// Stamps by their number; of packets that came twice the first.
fn by_key(stamps: &[StampRecord]) -> Vec<Option<&StampRecord>> {
    let mut found: Vec<Option<&StampRecord>> = Vec::new();
    for stamp in stamps.iter().filter(|stamp| stamp.flags & stamp_flags::OURS != 0) {
        let at = stamp.key as usize;
        // Numbers of a stream begin at 0; a damaged one must not ask for all memory.
        if at >= found.len() && at < stamps.len() * 2 + (1 << 20) {
            found.resize(at + 1, None);
        }
        if let Some(place @ None) = found.get_mut(at) {
            *place = Some(stamp);
        }
    }
    found
}

/// When something else began on one CPU, and what.
#[derive(Default)]
struct Others {
    began: Vec<(i64, u16)>,
    softirq_threads: Vec<(i64, i64)>,
}

fn others(events: &[EventRecord], sink: u32) -> BTreeMap<u16, Others> {
    let softirq_thread = |event: &EventRecord| {
        let name = [event.start_ns.to_ne_bytes(), event.end_ns.to_ne_bytes()].concat();
        (event.kind == EventKind::TaskName as u8 && name.starts_with(b"ksoftirqd/")).then_some(event.id)
    };
    let softirq_threads: Vec<u32> = events.iter().filter_map(softirq_thread).collect();
    let mut found: BTreeMap<u16, Others> = BTreeMap::new();
    for event in events {
        let (start, end) = (event.start_ns as i64, event.end_ns as i64);
        let flag = match EventKind::from_repr(event.kind) {
            Some(EventKind::Vector) if event.id == Vector::LocalTimer as u32 => path_flags::SINK_TICK,
            Some(EventKind::Vector | EventKind::Irq | EventKind::Nmi) => path_flags::SINK_INTERRUPT,
            Some(EventKind::Softirq) if event.id != NET_RX => path_flags::SINK_SOFTIRQ,
            Some(EventKind::Thread) if event.id == sink => {
                if OffCpu::from_raw(event.detail).waits() {
                    found.entry(event.cpu).or_default().began.push((end, path_flags::SINK_SLEPT));
                }
                continue;
            }
            Some(EventKind::Thread) if event.id != 0 => path_flags::SINK_THREAD,
            _ => continue,
        };
        let of_cpu = found.entry(event.cpu).or_default();
        of_cpu.began.push((start, flag));
        if flag == path_flags::SINK_THREAD && softirq_threads.contains(&event.id) {
            of_cpu.softirq_threads.push((start, end));
        }
    }
    for of_cpu in found.values_mut() {
        of_cpu.began.sort_unstable();
        of_cpu.softirq_threads.sort_unstable();
    }
    found
}

impl Others {
    /// What began after `from`, up to `to`.
    fn between(&self, from: i64, to: i64) -> u16 {
        let first = self.began.partition_point(|(at, _)| *at <= from);
        self.began[first..].iter().take_while(|(at, _)| *at <= to).fold(0, |flags, (_, flag)| flags | flag)
    }

    fn in_softirq_thread(&self, at: i64) -> bool {
        let after = self.softirq_threads.partition_point(|(start, _)| *start <= at);
        after > 0 && self.softirq_threads[after - 1].1 >= at
    }
}

/// What happened on each packet's way.
fn paths(
    table: &StampTable,
    stack_cpus: &[Option<u16>],
    events: &[EventRecord],
    sink_cpu: u16,
    sink: u32,
) -> Vec<u16> {
    let others = others(events, sink);
    let mut found = Vec::with_capacity(table.len());
    for at in 0..table.len() {
        let Some(cpu) = stack_cpus[at] else {
            found.push(path_flags::UNSEEN);
            continue;
        };
        let before = at.checked_sub(1).filter(|_| table.key[at] > 0);
        let softirq = table.softirq_ns[at];
        let mut flags = 0;
        if before.is_some_and(|before| softirq != 0 && table.softirq_ns[before] == softirq) {
            flags |= path_flags::BATCHED;
        }
        if others.get(&cpu).is_some_and(|others| others.in_softirq_thread(softirq)) {
            flags |= path_flags::SOFTIRQ_THREAD;
        }
        if let Some(before) = before {
            let on = |cpu: u16, column: &[i64]| {
                others.get(&cpu).map_or(0, |others| others.between(column[before], column[at]))
            };
            flags |= on(sink_cpu, &table.application_ns);
            let disturbed = path_flags::SINK_TICK | path_flags::SINK_INTERRUPT | path_flags::SINK_THREAD;
            if cpu != sink_cpu && table.stack_ns[before] != 0 && on(cpu, &table.stack_ns) & disturbed != 0 {
                flags |= path_flags::STACK_DISTURBED;
            }
        }
        found.push(flags);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, cpu: u16, id: u32, start_ns: u64, end_ns: u64, detail: u8) -> EventRecord {
        EventRecord { start_ns, end_ns, id, cpu, kind: kind as u8, detail, aux: 0 }
    }

    fn name(id: u32, text: &str) -> EventRecord {
        let mut octets = [0; 16];
        octets[..text.len()].copy_from_slice(text.as_bytes());
        let half = |at: usize| u64::from_ne_bytes(octets[at..at + 8].try_into().unwrap());
        event(EventKind::TaskName, 0, id, half(0), half(8), 0)
    }

    #[test]
    fn what_happened_between_two_packets_is_found_on_the_cpu_where_it_happened() {
        let application_ns: Vec<i64> = (1..=8).map(|at| at * 1_000).collect();
        let table = StampTable {
            key: (10..18).collect(),
            sent_ns: vec![0; 8],
            isr_ns: vec![0; 8],
            softirq_ns: vec![900, 1_900, 1_900, 3_900, 4_900, 5_900, 6_900, 7_900],
            stack_ns: application_ns.iter().map(|ns| ns - 50).collect(),
            queued_ns: vec![0; 8],
            application_ns,
            path: Vec::new(),
        };
        let timer = Vector::LocalTimer as u32;
        let events = [
            event(EventKind::Vector, 1, timer, 3_100, 3_200, 0),
            event(EventKind::Thread, 1, 77, 4_100, 4_300, OffCpu::Blocked as u8),
            event(EventKind::Thread, 1, 9, 1, 5_500, OffCpu::Blocked as u8),
            event(EventKind::Vector, 0, timer, 6_400, 6_500, 0),
            event(EventKind::Thread, 0, 12, 7_500, 7_990, OffCpu::Blocked as u8),
            event(EventKind::Softirq, 1, NET_RX, 2_100, 2_150, 0),
            name(12, "ksoftirqd/0"),
        ];
        let cpus = [Some(0), Some(0), Some(0), Some(0), Some(0), None, Some(0), Some(0)];
        let found = paths(&table, &cpus, &events, 1, 9);
        use path_flags::*;
        assert_eq!(
            found,
            [
                0,
                0,
                BATCHED,
                SINK_TICK,
                SINK_THREAD,
                UNSEEN,
                STACK_DISTURBED,
                SOFTIRQ_THREAD | STACK_DISTURBED
            ]
        );
        // The sixth packet was not seen; that the sink slept before it would show with it.
        let all = paths(&table, &[Some(0); 8], &events, 1, 9);
        assert_eq!(all[5], SINK_SLEPT);
    }

    #[test]
    fn stamps_are_found_by_their_number_and_hostile_numbers_ask_for_no_memory() {
        let stamp = |key: u64, irq_ns: u64| StampRecord {
            key,
            irq_ns,
            flags: stamp_flags::OURS,
            ..StampRecord::default()
        };
        let stamps = [stamp(2, 5), stamp(0, 6), stamp(2, 7), stamp(u64::MAX - 1, 8)];
        let found = by_key(&stamps);
        assert_eq!(found.len(), 3);
        assert_eq!([0, 1, 2].map(|at| found[at].map(|stamp| stamp.irq_ns)), [Some(6), None, Some(5)]);
    }
}
