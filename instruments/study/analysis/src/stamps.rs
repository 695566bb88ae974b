//! What is kept of each packet of a cell: its stamps, and what happened on its way. All figures can be made from it again.

use super::figures::StudyLayer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened to a packet between the one before it and its own receive call, where a tracer saw it.
pub mod path_flags {
    /// The softirq run that processed the packet before processed this one too.
    pub const BATCHED: u16 = 1 << 0;
    /// The softirq ran in its thread, ksoftirqd.
    pub const SOFTIRQ_THREAD: u16 = 1 << 1;
    /// A timer interrupt on the sink's CPU.
    pub const SINK_TICK: u16 = 1 << 2;
    /// Another interrupt on the sink's CPU.
    pub const SINK_INTERRUPT: u16 = 1 << 3;
    /// A softirq on the sink's CPU that did not process this packet or the one before.
    pub const SINK_SOFTIRQ: u16 = 1 << 4;
    /// Another thread held the sink's CPU.
    pub const SINK_THREAD: u16 = 1 << 5;
    /// The sink slept.
    pub const SINK_SLEPT: u16 = 1 << 6;
    /// An interrupt or another thread on the CPU that ran the stack for the packet, where that is not the sink's.
    pub const STACK_DISTURBED: u16 = 1 << 7;
    /// No tracer saw it: nothing is known.
    pub const UNSEEN: u16 = 1 << 15;
}

/// Stamps of the packets of one cell, in order of arrival: CLOCK_MONOTONIC nanoseconds, 0 where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StampTable {
    /// Sequence number.
    pub key: Vec<u64>,
    /// The sender's clock right before its send call.
    pub sent_ns: Vec<i64>,
    /// Entry of the device's interrupt handler.
    pub isr_ns: Vec<i64>,
    /// Entry of the softirq.
    pub softirq_ns: Vec<i64>,
    /// Where the stack takes the packet over.
    pub stack_ns: Vec<i64>,
    /// Right before it enters the socket's queue.
    pub queued_ns: Vec<i64>,
    /// Right after the receive call returned.
    pub application_ns: Vec<i64>,
    /// [`path_flags`].
    pub path: Vec<u16>,
}

impl StampTable {
    /// Packets.
    pub fn len(&self) -> usize {
        self.key.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.key.is_empty()
    }

    /// Adds those of another stream behind these. Its numbers begin anew, so that no ΔT reaches from one to the other.
    pub fn append(&mut self, other: Self) {
        self.key.extend(other.key);
        self.sent_ns.extend(other.sent_ns);
        self.isr_ns.extend(other.isr_ns);
        self.softirq_ns.extend(other.softirq_ns);
        self.stack_ns.extend(other.stack_ns);
        self.queued_ns.extend(other.queued_ns);
        self.application_ns.extend(other.application_ns);
        self.path.extend(other.path);
    }

    /// Stamps of a layer.
    pub fn layer(&self, layer: StudyLayer) -> &[i64] {
        match layer {
            StudyLayer::Isr => &self.isr_ns,
            StudyLayer::Softirq => &self.softirq_ns,
            StudyLayer::Stack => &self.stack_ns,
            StudyLayer::Application => &self.application_ns,
        }
    }

    /// ΔT of a layer. At the stack and the application between packets with successive numbers; a missing stamp or packet
    /// ends a pair. At the interrupt handler and the softirq between successive *runs* of it, as in the paper ("the
    /// duration between two consecutive ISR"): packets that one run processed share its stamp, and give no ΔT of 0.
    pub fn deltas(&self, layer: StudyLayer) -> Vec<i64> {
        let runs = matches!(layer, StudyLayer::Isr | StudyLayer::Softirq);
        deltas(self.key.iter().zip(self.layer(layer)).map(|(key, ns)| (*key, *ns)), runs)
    }

    /// ΔT of the sender's own send calls, of packets that arrived.
    pub fn sender_deltas(&self) -> Vec<i64> {
        deltas(self.key.iter().zip(&self.sent_ns).map(|(key, ns)| (*key, *ns)), false)
    }
}

/// ΔT between successive numbers. With `runs`, successive stamps that are equal are one.
pub fn deltas(stamps: impl Iterator<Item = (u64, i64)>, runs: bool) -> Vec<i64> {
    let mut before: Option<(u64, i64)> = None;
    let mut found = Vec::new();
    for (number, now) in stamps {
        if now == 0 {
            before = None;
            continue;
        }
        if let Some((last, then)) = before
            && last + 1 == number
            && !(runs && now == then)
        {
            found.push(now - then);
        }
        before = Some((number, now));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_need_neighbours_with_stamps() {
        let stamps = [(0, 1), (1, 8), (3, 30), (4, 0), (5, 50), (6, 51)];
        assert_eq!(deltas(stamps.into_iter(), false), [7, 1]);
    }

    #[test]
    fn packets_of_one_run_share_its_stamp_and_the_runs_are_compared() {
        // Three runs: packets 0 to 2, 3 and 4, 5. What is lost between 5 and 7 leaves the time between their runs unknown.
        let stamps = [(0, 10), (1, 10), (2, 10), (3, 40), (4, 40), (5, 45), (7, 90), (8, 95)];
        assert_eq!(deltas(stamps.into_iter(), true), [30, 5, 5]);
        assert_eq!(deltas(stamps.into_iter(), false), [0, 0, 30, 0, 5, 5]);
        let table = StampTable {
            key: vec![1, 2, 3],
            softirq_ns: vec![5, 5, 9],
            application_ns: vec![6, 7, 12],
            isr_ns: vec![0; 3],
            ..StampTable::default()
        };
        assert_eq!(table.deltas(StudyLayer::Softirq), [4]);
        assert_eq!(table.deltas(StudyLayer::Application), [1, 5]);
        assert!(table.deltas(StudyLayer::Isr).is_empty());
    }
}
