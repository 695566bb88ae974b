//! What of a path is worth an incident.

use crate::config::PathSettings;
use crate::judge::Reason;
use quaver_path_record::stamp::StampPacket;
use std::collections::VecDeque;

const SECOND_NS: i64 = 1_000_000_000;
/// Time within which the shortest round trip is looked for.
const LATELY_NS: i64 = 60 * SECOND_NS;

/// A reason, when its packet was sent (UTC nanoseconds), and how much: nanoseconds, or packets.
pub(super) type Finding = (Reason, i64, u64);

/// Judges packet after packet. A trigger comes once, and again only after what it says was over.
#[derive(Debug, Default)]
pub(super) struct PathJudge {
    late_ns: Option<i64>,
    most_lost: Option<usize>,
    /// When packets were sent, and their round trips: those of the last minute after which no shorter one came.
    shortest: VecDeque<(i64, i64)>,
    is_late: bool,
    /// When packets of the last second were sent that are lost.
    lost: VecDeque<i64>,
    is_losing: bool,
}

impl PathJudge {
    pub(super) fn new(settings: &PathSettings) -> Self {
        let late_ns = settings.late.map(|late| late.as_nanos() as i64);
        Self { late_ns, most_lost: settings.losses.map(|losses| losses as usize), ..Self::default() }
    }

    /// Forgets what it knows: the wall clock was set.
    pub(super) fn begin_anew(&mut self) {
        *self = Self { late_ns: self.late_ns, most_lost: self.most_lost, ..Self::default() };
    }

    /// Takes a packet that was answered.
    pub(super) fn answered(&mut self, packet: &StampPacket) -> Option<Finding> {
        let (sent_ns, ns) = (packet.t1_ns, packet.reply?.round_trip_ns(packet.t1_ns));
        if ns < 0 {
            // One of the reflector's times is not that of the packet.
            return None;
        }
        while self.shortest.front().is_some_and(|(at_ns, _)| sent_ns - at_ns > LATELY_NS) {
            self.shortest.pop_front();
        }
        let over_ns = self.shortest.front().map_or(0, |(_, least_ns)| ns - least_ns);
        while self.shortest.back().is_some_and(|(_, known_ns)| *known_ns >= ns) {
            self.shortest.pop_back();
        }
        self.shortest.push_back((sent_ns, ns));
        let was_late = self.is_late;
        self.is_late = self.late_ns.is_some_and(|most_ns| over_ns > most_ns);
        (self.is_late && !was_late).then_some((Reason::Delayed, sent_ns, over_ns.unsigned_abs()))
    }

    /// Takes a packet that is lost.
    pub(super) fn lost(&mut self, packet: &StampPacket) -> Option<Finding> {
        let most = self.most_lost?;
        while self.lost.front().is_some_and(|at_ns| packet.t1_ns - at_ns >= SECOND_NS) {
            self.lost.pop_front();
        }
        self.lost.push_back(packet.t1_ns);
        let was_losing = self.is_losing;
        self.is_losing = self.lost.len() >= most;
        (self.is_losing && !was_losing).then_some((Reason::Losses, packet.t1_ns, self.lost.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::some_packet;
    use std::time::Duration;

    const MS: i64 = 1_000_000;

    fn judge() -> PathJudge {
        PathJudge { late_ns: Some(5 * MS), most_lost: Some(3), ..PathJudge::default() }
    }

    fn packet(sent_ms: i64, round_trip_ns: i64) -> StampPacket {
        let t1_ns = sent_ms * MS;
        some_packet(0, [t1_ns, 7, 7, t1_ns + round_trip_ns])
    }

    #[test]
    fn a_round_trip_is_late_beside_the_shortest_of_the_minute_before() {
        let mut judge = judge();
        let mut take = |sent_ms, round_trip_ns| judge.answered(&packet(sent_ms, round_trip_ns));
        assert_eq!(take(0, 30 * MS), None, "nothing is known before the first");
        assert_eq!(take(100, 20 * MS), None);
        assert_eq!(take(200, 25 * MS), None, "not above the limit");
        assert_eq!(take(300, 25 * MS + 1), Some((Reason::Delayed, 300 * MS, 5 * MS as u64 + 1)));
        assert_eq!(take(400, 40 * MS), None, "the same lateness goes on");
        assert_eq!(take(500, 21 * MS), None);
        assert_eq!(take(600, -1), None);
        assert_eq!(take(700, 27 * MS), Some((Reason::Delayed, 700 * MS, 7 * MS as u64)));
        // The shortest was sent at 100 ms, the next one at 500 ms.
        assert_eq!(take(60_101, 20 * MS + 1), None);
        assert_eq!(take(60_200, 26 * MS), Some((Reason::Delayed, 60_200 * MS, 6 * MS as u64 - 1)));
    }

    #[test]
    fn losses_within_a_second_are_told_once_and_again_after_they_were_over() {
        let mut judge = judge();
        let mut lose = |sent_ms| judge.lost(&StampPacket { reply: None, ..packet(sent_ms, 0) });
        assert_eq!([lose(0), lose(500)], [None, None]);
        assert_eq!(lose(1_000), None, "the first is a second old");
        assert_eq!(lose(1_100), Some((Reason::Losses, 1_100 * MS, 3)));
        assert_eq!([lose(1_200), lose(1_300)], [None, None]);
        assert_eq!([lose(5_000), lose(5_100)], [None, None]);
        assert_eq!(lose(5_200), Some((Reason::Losses, 5_200 * MS, 3)));
    }

    #[test]
    fn without_limits_nothing_is_a_trigger() {
        let settings = PathSettings {
            name: String::new(),
            host: String::new(),
            port: 0,
            every: Duration::ZERO,
            dscp: 0,
            key_file: None,
            late: None,
            losses: None,
        };
        let mut judge = PathJudge::new(&settings);
        judge.answered(&packet(0, 0));
        assert_eq!(judge.answered(&packet(1, 1_000 * MS)), None);
        assert_eq!(judge.lost(&packet(1, 0)), None);
    }
}
