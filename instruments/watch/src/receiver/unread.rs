//! A receiver that takes nothing from its queue: a packet that nobody reads is judged before its record comes.

use crate::judge::{Reason, Trigger};
use quaver_analysis::model::Unread;
use quaver_host::trace::QueueCounts;

/// A queue that nobody reads for less than this is left to the packet's own record.
const LEAST_NS: u64 = 200_000_000;

/// The queue as it was looked at.
#[derive(Debug, Default)]
pub(super) struct UnreadQueue {
    last: Option<QueueCounts>,
    /// When packets were first seen to come while none was taken, and how many had come before.
    since: Option<(u64, u64)>,
    judged: bool,
    /// Of the stretch that was judged: the queue held packets.
    held: bool,
}

impl UnreadQueue {
    /// Takes the counts of an instant.
    pub(super) fn look(&mut self, counts: QueueCounts, now_ns: u64) {
        let last = self.last.replace(counts).unwrap_or(counts);
        if counts.taken != last.taken {
            (self.since, self.judged, self.held) = (None, false, false);
        } else if counts.came != last.came {
            self.since = self.since.or(Some((now_ns, last.came)));
        }
    }

    /// A trigger, once, where nobody has read for longer than `limit_ns` and `holds` says that the queue is not empty.
    pub(super) fn judge(
        &mut self,
        limit_ns: Option<u64>,
        now_ns: u64,
        holds: impl FnOnce() -> bool,
    ) -> Option<Trigger> {
        let limit_ns = limit_ns?.max(LEAST_NS);
        let amount = now_ns.saturating_sub(self.since?.0);
        if self.judged || amount <= limit_ns {
            return None;
        }
        self.judged = true;
        self.held = holds();
        self.held.then_some(Trigger::new(Reason::Unread, now_ns, amount))
    }

    /// What nobody had read at an instant, if that was worth a trigger.
    pub(super) fn unread(&self, until_ns: u64) -> Option<Unread> {
        let (since_ns, before) = self.since.filter(|(since_ns, _)| self.held && *since_ns < until_ns)?;
        let packets = self.last?.came.saturating_sub(before);
        Some(Unread { since_ns: since_ns as i64, until_ns: until_ns as i64, packets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Ticks of 50 ms with ten packets each; none is taken from tick `hangs` on.
    fn watched(hangs: u64, ticks: u64, holds: bool) -> (UnreadQueue, Vec<Trigger>) {
        let mut queue = UnreadQueue::default();
        let mut found = Vec::new();
        for tick in 1..=ticks {
            let counts =
                QueueCounts { came: tick * 10, taken: tick.min(hangs) * 10 - 1, ..QueueCounts::default() };
            queue.look(counts, tick * 50 * MS);
            found.extend(queue.judge(Some(5 * MS), tick * 50 * MS, || holds));
        }
        (queue, found)
    }

    #[test]
    fn a_queue_that_nobody_reads_triggers_once_and_is_told() {
        let (queue, found) = watched(10, 40, true);
        // First seen at tick 11; more than 200 ms later is tick 16.
        assert_eq!(found, [Trigger::new(Reason::Unread, 800 * MS, 250 * MS)]);
        let expected = Unread { since_ns: 550_000_000, until_ns: 2_000_000_000, packets: 300 };
        assert_eq!(queue.unread(2_000 * MS), Some(expected));
    }

    #[test]
    fn one_that_is_read_or_empty_triggers_nothing() {
        let (queue, found) = watched(40, 40, true);
        assert_eq!((found.len(), queue.unread(2_000 * MS)), (0, None));
        assert_eq!(watched(10, 14, true).1, [], "it may read on");
        let (elsewhere, found) = watched(10, 40, false);
        assert_eq!((found.len(), elsewhere.unread(2_000 * MS)), (0, None), "the packets went elsewhere");
        let mut idle = UnreadQueue::default();
        let counts = QueueCounts { came: 10, taken: 10, ..QueueCounts::default() };
        (0..40).for_each(|tick| idle.look(counts, tick * 50 * MS));
        assert_eq!(idle.judge(Some(MS), 2_000 * MS, || true), None, "nothing came");
    }
}
