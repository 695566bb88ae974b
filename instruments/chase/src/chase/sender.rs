//! The process of this host that sends the stream, where that is certain: its send call carries the packet into this
//! host's network stack, so that its thread is on the CPU when the packet arrives.

use super::stretches::Stretches;
use quaver_abi::record::{EventRecord, StampRecord};
use quaver_analysis::model::Actor;
use quaver_host::root::HostRoot;
use quaver_host::sockets::{ProcessIdentity, ThreadFacts, UdpSocket};
use std::collections::BTreeMap;

/// Fewer packets prove nothing.
const ENOUGH: usize = 10;
/// The sender is on the CPU at this part of the arrivals, at least; the rest are carried by a softirq thread.
const MOST: f64 = 0.8;

/// Who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) process: u32,
    pub(super) name: String,
    pub(super) thread: ThreadFacts,
}

impl Sender {
    /// `source (process 4711)`.
    pub(super) fn words(&self) -> String {
        format!("{} (process {})", self.name, self.process)
    }

    /// As the analysis has it.
    pub(super) fn actor(&self) -> Actor {
        let ThreadFacts { id, realtime, cpu } = self.thread;
        Actor { threads: vec![id], cpu, realtime, blocking: true, foreign: true }
    }
}

/// The thread in whose time nearly all packets arrived. None where a device brought them, or several threads did.
pub(super) fn sending_thread(stamps: &[StampRecord], events: &[EventRecord]) -> Option<u32> {
    let stretches = Stretches::of(events, |thread| thread != 0);
    let mut threads: BTreeMap<u32, usize> = BTreeMap::new();
    let mut all = 0;
    for stamp in stamps.iter().filter(|stamp| stamp.receive_ns != 0) {
        if stamp.irq_ns != 0 {
            return None;
        }
        all += 1;
        if let Some(thread) = stretches.at(stamp.cpu, stamp.receive_ns) {
            *threads.entry(thread).or_default() += 1;
        }
    }
    let (thread, count) = threads.into_iter().max_by_key(|(_, count)| *count)?;
    (all >= ENOUGH && count as f64 >= MOST * all as f64).then_some(thread)
}

/// The process of a sending thread: it must have a UDP socket that `can_send` the stream.
pub(super) fn process_of(
    thread: u32,
    root: &HostRoot,
    can_send: impl Fn(&UdpSocket) -> bool,
) -> Option<Sender> {
    let process = root.text(&format!("proc/{thread}/status")).and_then(|status| {
        status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse::<u32>().ok()
    })?;
    let process = ProcessIdentity::of(root, process).ok()?;
    if !process.udp_sockets(root).ok()?.iter().any(can_send) {
        return None;
    }
    let thread = process.threads(root).into_iter().find(|facts| facts.id == thread)?;
    Some(Sender { process: process.pid, name: process.name(root), thread })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::record::EventKind;

    fn stretch(id: u32, cpu: u16, start_ns: u64, end_ns: u64) -> EventRecord {
        EventRecord { start_ns, end_ns, id, cpu, kind: EventKind::Thread as u8, ..EventRecord::default() }
    }

    fn arrival(cpu: u16, receive_ns: u64) -> StampRecord {
        StampRecord { cpu, receive_ns, ..StampRecord::default() }
    }

    #[test]
    fn the_thread_in_whose_time_packets_arrive_sends_them() {
        let mut events = vec![stretch(9, 1, 0, 1_000_000)];
        let mut stamps = Vec::new();
        for turn in 1..=20 {
            events.push(stretch(if turn % 10 == 0 { 16 } else { 7 }, 0, turn * 1_000, turn * 1_000 + 50));
            stamps.push(arrival(0, turn * 1_000 + 20));
        }
        assert_eq!(sending_thread(&stamps, &events), Some(7));
        assert_eq!(sending_thread(&stamps[..9], &events), None, "too few");
        stamps[3].irq_ns = 5;
        assert_eq!(sending_thread(&stamps, &events), None, "a device brought it");
    }

    #[test]
    fn nobody_is_named_where_several_share_the_arrivals_or_the_cpu_was_idle() {
        let stamps: Vec<StampRecord> = (1..=20).map(|turn| arrival(0, turn * 1_000)).collect();
        let shared: Vec<EventRecord> = (1..=20)
            .map(|turn| stretch(7 + turn as u32 % 2, 0, turn * 1_000 - 10, turn * 1_000 + 10))
            .collect();
        assert_eq!(sending_thread(&stamps, &shared), None);
        assert_eq!(sending_thread(&stamps, &[stretch(0, 0, 0, 90_000)]), None);
        assert_eq!(sending_thread(&stamps, &[]), None);
    }
}
