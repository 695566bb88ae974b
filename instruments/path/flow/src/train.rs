//! How many packets a sender gives the kernel at once.

use super::schedule::{HIGH_RATE_PERIOD_NS, LatePolicy};
use super::spec::{FlowSpec, TrainWish, Transport};

/// Most packets in a train: what every kernel with `UDP_SEGMENT` cuts apart.
pub const MOST_IN_TRAIN: usize = 64;
/// Most bytes of a train: one datagram's payload over IPv4.
const MOST_TRAIN_BYTES: usize = 65_507;
/// A sender this late is behind.
const BEHIND_NS: u64 = 2_000_000;
/// For how long it must have been behind, without becoming less so, before its trains grow: longer than most
/// interruptions, which no train would have prevented.
const PATIENCE_NS: u64 = 50_000_000;

/// The length of trains, and how it grows: the fewest packets that keep up with the schedule.
#[derive(Debug)]
pub(super) struct TrainLength {
    /// Packets of a train; 1: no trains.
    packets: usize,
    most: usize,
    grows: bool,
    period_ns: u64,
    /// Since when the sender has been behind, and by how much it was late then.
    behind: Option<(u64, u64)>,
}

impl TrainLength {
    pub(super) fn of(spec: &FlowSpec) -> Self {
        let most = (MOST_TRAIN_BYTES / spec.packet_bytes.max(1) as usize).clamp(1, MOST_IN_TRAIN);
        let period_ns = spec.schedule.mean_period_ns();
        let possible = spec.transport == Transport::Udp && spec.late != LatePolicy::Skip;
        let (packets, grows) = match spec.train {
            TrainWish::Packets(packets) if possible => (usize::from(packets).clamp(1, most), false),
            TrainWish::Auto if possible => {
                (1, period_ns < HIGH_RATE_PERIOD_NS && spec.late == LatePolicy::Burst)
            }
            _ => (1, false),
        };
        Self { packets, most, grows, period_ns, behind: None }
    }

    /// Packets of a train; 1: no trains.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// How long the first packet of a train waits for the last, nanoseconds.
    pub(super) fn gather_ns(&self) -> u64 {
        self.period_ns.saturating_mul(self.packets as u64 - 1)
    }

    /// Notes how late the oldest packet of a turn was sent, beyond what it waited for others; whether trains grow.
    #[inline]
    pub(super) fn note(&mut self, now_ns: u64, late_ns: u64) -> bool {
        if !self.grows || late_ns < BEHIND_NS {
            self.behind = None;
            return false;
        }
        let (since_ns, late_then_ns) = *self.behind.get_or_insert((now_ns, late_ns));
        if now_ns.saturating_sub(since_ns) < PATIENCE_NS {
            return false;
        }
        self.behind = Some((now_ns, late_ns));
        let grows = late_ns >= late_then_ns && self.packets < self.most;
        if grows {
            self.packets = (self.packets * 2).min(self.most);
        }
        grows
    }

    /// The kernel cuts no trains apart for this socket.
    pub(super) fn give_up(&mut self) {
        (self.packets, self.grows) = (1, false);
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::FlowSchedule;
    use super::*;

    fn spec(packet_bytes: u32, period_ns: u64, train: TrainWish) -> FlowSpec {
        FlowSpec { train, ..FlowSpec::new(packet_bytes, Some(1), FlowSchedule::every(period_ns)) }
    }

    /// Packets of the trains at which a sender keeps up whose calls cost `call_ns` and `packet_ns` for each packet.
    fn settles_at(period_ns: u64, call_ns: u64, packet_ns: u64) -> usize {
        let mut length = TrainLength::of(&spec(80, period_ns, TrainWish::Auto));
        let (mut now_ns, mut next_ns) = (0, 0);
        for _ in 0..3_000_000 {
            let packets = length.packets() as u64;
            now_ns = u64::max(now_ns, next_ns + length.gather_ns());
            let late_ns = now_ns - next_ns - length.gather_ns();
            next_ns += packets * period_ns;
            now_ns += call_ns + packets * packet_ns;
            length.note(now_ns, late_ns);
        }
        length.packets()
    }

    #[test]
    fn trains_grow_to_the_least_power_of_two_that_keeps_up() {
        // A train of n takes 3000 + 200 n ns and has n periods of time.
        assert_eq!(settles_at(4_000, 3_000, 200), 1, "single packets do");
        assert_eq!(settles_at(2_000, 3_000, 200), 2);
        assert_eq!(settles_at(1_600, 3_000, 200), 4);
        assert_eq!(settles_at(500, 3_000, 200), 16);
        assert_eq!(settles_at(100, 3_000, 200), 64, "it cannot be kept, and trains end");
    }

    #[test]
    fn an_interruption_alone_makes_no_train() {
        let mut length = TrainLength::of(&spec(80, 5_000, TrainWish::Auto));
        for turn in 0..10_000 {
            // 100 ms late, and less so with each packet.
            let late_ns = 100_000_000u64.saturating_sub(turn * 20_000);
            assert!(!length.note(turn * 10_000, late_ns), "{turn}");
        }
    }

    #[test]
    fn wishes_are_kept_as_far_as_can_be() {
        let of = |spec: &FlowSpec| TrainLength::of(spec).packets();
        assert_eq!(of(&spec(80, 1_000_000, TrainWish::Packets(7))), 7);
        assert_eq!(of(&spec(80, 1_000, TrainWish::Packets(1_000))), MOST_IN_TRAIN);
        assert_eq!(
            of(&spec(1_400, 1_000, TrainWish::Packets(64))),
            46,
            "46 times 1400 bytes fit into one datagram"
        );
        assert_eq!(of(&spec(65_507, 1_000, TrainWish::Packets(64))), 1);
        assert_eq!(of(&spec(80, 1_000, TrainWish::Packets(0))), 1);
        let tcp = FlowSpec { transport: Transport::Tcp, ..spec(80, 1_000, TrainWish::Packets(7)) };
        assert_eq!(of(&tcp), 1);
        assert_eq!(TrainLength::of(&spec(80, 1_000, TrainWish::Packets(7))).gather_ns(), 6_000);
        let mut slow = TrainLength::of(&spec(80, HIGH_RATE_PERIOD_NS, TrainWish::Auto));
        assert!(
            (0..100).all(|turn| !slow.note(turn * PATIENCE_NS, 1 << 40)),
            "slow schedules make no trains"
        );
    }
}
