//! A receiver that does not keep up with its stream: packets wait in its queue all the time.

use quaver_abi::record::{StampRecord, stamp_flags};
use quaver_analysis::model::Unread;
use quaver_analysis::summary::Backlog;
use quaver_host::root::HostRoot;
use quaver_host::sockets::ProcessIdentity;
use quaver_host::trace::QueueCounts;
use quaver_store::manifest::Window;

/// A queue that takes less time to read than this comes and goes.
const LEAST_WAIT_S: f64 = 0.01;
/// Looks at the queue's memory: one in so many ticks.
const TICKS_A_LOOK: u32 = 2;

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

/// When the queue was empty.
#[derive(Debug, Default)]
pub(super) struct QueueWatch {
    ticks: u32,
    empty_ns: Option<i64>,
}

impl QueueWatch {
    /// Looks at the queue's memory at some of the ticks.
    pub(super) fn tick(&mut self, now_ns: i64, bytes: impl FnOnce() -> u64) {
        if self.ticks.is_multiple_of(TICKS_A_LOOK) && bytes() == 0 {
            self.empty_ns = Some(now_ns);
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
        let persists = came > 0 && self.empty_ns.is_none() && waits(before) && waits(after);
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

    /// The packets that came after the last one that was read, where the queue holds packets at the end of the window. A
    /// queue that was empty later held none of them until then.
    pub(super) fn unread(
        &self,
        stamps: &[StampRecord],
        after: &QueueState,
        window: Window,
    ) -> Option<Unread> {
        let told_ns = |stamp: &StampRecord| {
            [stamp.ready_ns, stamp.enqueued_ns, stamp.receive_ns].into_iter().find(|ns| *ns > 0)
        };
        let last_read = stamps.iter().filter(|stamp| stamp.user_ns > 0).max_by_key(|stamp| stamp.user_ns);
        if after.bytes == 0 || last_read.is_some_and(|stamp| stamp.user_ns as i64 >= window.end_ns) {
            return None;
        }
        let read_ns = last_read.and_then(told_ns).unwrap_or(0);
        let came = || {
            let is_unread =
                |stamp: &&StampRecord| stamp.user_ns == 0 && stamp.flags & stamp_flags::ELSEWHERE == 0;
            let unread = stamps.iter().filter(is_unread).filter_map(told_ns);
            unread.filter(|&ns| ns > read_ns).map(|ns| ns as i64).filter(|&ns| ns < window.end_ns)
        };
        let since_ns = came().min()?.max(window.start_ns).max(self.empty_ns.unwrap_or(i64::MIN));
        let packets = came().filter(|&ns| ns >= since_ns).count() as u64;
        Some(Unread { since_ns, until_ns: window.end_ns, packets })
    }
}

/// Whether any packet came or was read in the window.
pub(super) fn any_in(stamps: &[StampRecord], window: Window) -> bool {
    let times = |stamp: &StampRecord| [stamp.ready_ns, stamp.enqueued_ns, stamp.receive_ns, stamp.user_ns];
    stamps.iter().flat_map(times).any(|ns| (window.start_ns..window.end_ns).contains(&ns.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_before_the_window_is_none_of_it() {
        let window = Window { start_ns: 100, end_ns: 200 };
        let read = |user_ns| StampRecord { receive_ns: 90, user_ns, ..StampRecord::default() };
        assert!(!any_in(&[], window) && !any_in(&[read(99), read(0), read(200)], window));
        assert!(any_in(&[read(0), read(100)], window));
    }

    fn state(came: u64, taken: u64, waiting: u64, drops: u64) -> QueueState {
        QueueState { counts: QueueCounts { came, taken, waiting }, bytes: waiting * 768, drops }
    }

    #[test]
    fn a_queue_that_stays_full_is_a_backlog_with_its_rates() {
        let mut watch = QueueWatch::default();
        (0..20).for_each(|tick| watch.tick(tick, || 1));
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
        (0..20).for_each(|tick| watch.tick(tick, || u64::from(tick != 10)));
        assert_eq!(watch.backlog(&full, &state(50_000, 50_000, 60, 0), 10.0), None, "it was empty meanwhile");
        assert_eq!(QueueWatch::default().backlog(&full, &full, 10.0), None, "nothing came");
    }

    #[test]
    fn packets_after_the_last_one_read_are_unread_where_the_queue_holds_some() {
        let stamp = |ready_ns, user_ns| StampRecord { ready_ns, user_ns, ..StampRecord::default() };
        let mut stamps = vec![stamp(100, 110), stamp(150, 0), stamp(200, 230), stamp(220, 0), stamp(300, 0)];
        stamps.push(StampRecord { receive_ns: 350, flags: stamp_flags::DROPPED, ..StampRecord::default() });
        stamps.push(stamp(1_000, 0));
        let window = Window { start_ns: 90, end_ns: 900 };
        let (held, empty) = (state(5, 0, 3, 0), state(5, 0, 0, 0));
        let unread = |since_ns, packets| Some(Unread { since_ns, until_ns: 900, packets });
        let mut watch = QueueWatch::default();
        assert_eq!(
            watch.unread(&stamps, &held, window),
            unread(220, 3),
            "one that was passed over is none of them"
        );
        assert_eq!(watch.unread(&stamps, &empty, window), None);
        let late = Window { start_ns: 260, ..window };
        assert_eq!(watch.unread(&stamps, &held, late), unread(260, 2), "it came before the run");
        watch.tick(280, || 0);
        assert_eq!(watch.unread(&stamps, &held, window), unread(280, 2), "somebody else emptied the queue");
        stamps.push(stamp(310, 900));
        assert_eq!(watch.unread(&stamps, &held, window), None, "it reads on");
        let never = [stamp(0, 0), stamp(500, 0)];
        let expected = Some(Unread { since_ns: 500, until_ns: 900, packets: 1 });
        assert_eq!(QueueWatch::default().unread(&never, &held, window), expected);
    }

    #[test]
    fn a_receiver_that_takes_nothing_has_one_too() {
        let found =
            QueueWatch::default().backlog(&state(0, 0, 277, 0), &state(5, 0, 277, 4_995), 1.0).unwrap();
        assert_eq!((found.came_per_s, found.taken_per_s, found.wait_ns()), (5_000.0, 0.0, None));
    }
}
