//! A receiver that does not keep up with its stream: packets wait in its queue all the time.

use quaver_analysis::summary::Backlog;
use quaver_host::root::HostRoot;
use quaver_host::sockets::ProcessIdentity;
use quaver_host::trace::QueueCounts;

/// A queue that takes less time to read than this comes and goes.
const LEAST_WAIT_S: f64 = 0.01;
/// Looks at the queue's memory: one in so many ticks.
const TICKS_A_LOOK: u32 = 10;

/// The queues at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueState {
    pub(super) counts: QueueCounts,
    pub(super) bytes: u64,
    pub(super) drops: u64,
}

impl QueueState {
    /// That of the sockets of `process` on `port`.
    pub(super) fn read(process: &ProcessIdentity, port: u16, root: &HostRoot, counts: QueueCounts) -> Self {
        let mut state = Self { counts, ..Self::default() };
        let sockets = process.udp_sockets(root).unwrap_or_default();
        for socket in sockets.iter().filter(|socket| socket.local.port() == port) {
            state.bytes += socket.queued_bytes;
            state.drops += socket.drops;
        }
        state
    }
}

/// Whether the queue was ever empty.
#[derive(Debug, Default)]
pub(super) struct QueueWatch {
    ticks: u32,
    was_empty: bool,
}

impl QueueWatch {
    /// Looks at the queue's memory at some of the ticks.
    pub(super) fn tick(&mut self, bytes: impl FnOnce() -> u64) {
        if self.ticks.is_multiple_of(TICKS_A_LOOK) && !self.was_empty {
            self.was_empty = bytes() == 0;
        }
        self.ticks += 1;
    }

    /// The backlog between two instants, where it persisted.
    pub(super) fn backlog(&self, before: &QueueState, after: &QueueState, seconds: f64) -> Option<Backlog> {
        let since = |count: fn(&QueueState) -> u64| count(after).saturating_sub(count(before));
        let dropped = since(|state| state.drops);
        let came = since(|state| state.counts.came) + dropped;
        let taken = since(|state| state.counts.taken);
        let (came_per_s, taken_per_s) = (came as f64 / seconds, taken as f64 / seconds);
        let waits = |state: &QueueState| state.counts.waiting as f64 >= LEAST_WAIT_S * taken_per_s.max(1.0);
        let persists = came > 0 && !self.was_empty && waits(before) && waits(after);
        persists.then_some(Backlog {
            came_per_s,
            taken_per_s,
            packets_at_start: before.counts.waiting,
            packets_at_end: after.counts.waiting,
            bytes_at_start: before.bytes,
            bytes_at_end: after.bytes,
            dropped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(came: u64, taken: u64, waiting: u64, drops: u64) -> QueueState {
        QueueState { counts: QueueCounts { came, taken, waiting }, bytes: waiting * 768, drops }
    }

    #[test]
    fn a_queue_that_stays_full_is_a_backlog_with_its_rates() {
        let mut watch = QueueWatch::default();
        (0..20).for_each(|_| watch.tick(|| 1));
        let found = watch.backlog(&state(100, 90, 15_000, 7), &state(33_100, 33_090, 15_001, 17_007), 10.0);
        let expected = Backlog {
            came_per_s: 5_000.0,
            taken_per_s: 3_300.0,
            packets_at_start: 15_000,
            packets_at_end: 15_001,
            bytes_at_start: 15_000 * 768,
            bytes_at_end: 15_001 * 768,
            dropped: 17_000,
        };
        assert_eq!(found, Some(expected));
        assert_eq!(expected.wait_ns().map(|ns| (ns / 1e6).round()), Some(4_546.0));
    }

    #[test]
    fn a_queue_that_comes_and_goes_is_none() {
        let (full, less) = (state(0, 0, 60, 0), state(50_000, 50_000, 40, 0));
        assert!(QueueWatch::default().backlog(&full, &state(50_000, 50_000, 60, 0), 10.0).is_some());
        assert_eq!(QueueWatch::default().backlog(&full, &less, 10.0), None, "8 ms of the stream");
        let mut watch = QueueWatch::default();
        (0..20).for_each(|tick| watch.tick(|| u64::from(tick != 10)));
        assert_eq!(watch.backlog(&full, &state(50_000, 50_000, 60, 0), 10.0), None, "it was empty meanwhile");
        assert_eq!(QueueWatch::default().backlog(&full, &full, 10.0), None, "nothing came");
    }

    #[test]
    fn a_receiver_that_takes_nothing_has_one_too() {
        let found =
            QueueWatch::default().backlog(&state(0, 0, 277, 0), &state(5, 0, 277, 4_995), 1.0).unwrap();
        assert_eq!((found.came_per_s, found.taken_per_s, found.wait_ns()), (5_000.0, 0.0, None));
    }
}
