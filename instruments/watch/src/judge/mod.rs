//! What makes an incident of a packet, and the counts of all packets.

mod pace;

use crate::config::ReceiverSettings;
use pace::{LivePace, Numbered, Sequence};
use quaver_abi::record::{StampRecord, stamp_flags};
use quaver_exposition::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;

/// A stream of which a larger part was late lately keeps to no pace; then lateness is no trigger.
const MOST_LATE: f64 = 0.1;
/// Packets by which that is judged.
const JUDGED: u32 = 1_000;
/// So many packets may be missing at once, whatever the pace.
const FEW: i64 = 100;
const SECOND_NS: u64 = 1_000_000_000;

/// Why the last seconds were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reason {
    /// A packet came late by the learned pace.
    Late,
    /// A packet waited in this host.
    Held,
    /// Packets waited in this host, and nobody read them.
    Unread,
    /// No packet came for long.
    Gap,
    /// Packets were lost.
    Losses,
    /// Somebody asked.
    Asked,
    /// A thread waited long for a CPU.
    Waited,
    /// A thread waited long for a lock.
    Blocked,
    /// A reply took longer than the shortest round trip lately.
    Delayed,
}

impl Reason {
    /// Those of receivers, for metrics.
    pub(crate) const OF_RECEIVERS: [Self; 6] =
        [Self::Late, Self::Held, Self::Unread, Self::Gap, Self::Losses, Self::Asked];
    /// Those of paths, for metrics.
    pub(crate) const OF_PATHS: [Self; 2] = [Self::Delayed, Self::Losses];

    /// Name in metrics and manifests.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Held => "held",
            Self::Unread => "unread",
            Self::Gap => "gap",
            Self::Losses => "losses",
            Self::Asked => "asked",
            Self::Waited => "waited",
            Self::Blocked => "blocked",
            Self::Delayed => "delayed",
        }
    }
}

/// A reason at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trigger {
    pub(crate) reason: Reason,
    pub(crate) at_ns: u64,
    /// Nanoseconds, or packets lost.
    pub(crate) amount: u64,
    /// Of a gap for most of which nothing came to this host: packets that are missing by number.
    pub(crate) missing: Option<u64>,
}

impl Trigger {
    pub(crate) const fn new(reason: Reason, at_ns: u64, amount: u64) -> Self {
        Self { reason, at_ns, amount, missing: None }
    }

    /// When what it is of began, where a window has to show that: a gap.
    pub(crate) fn since_ns(&self) -> u64 {
        self.at_ns.saturating_sub(if self.reason == Reason::Gap { self.amount } else { 0 })
    }

    /// `a packet waited 20.1 ms in this host; 12 packets were lost within a second`.
    pub(crate) fn words(triggers: &[Self]) -> String {
        triggers.iter().map(Self::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.amount as f64 / 1e6;
        match self.reason {
            Reason::Late => write!(out, "a packet came {ms:.2} ms late"),
            Reason::Held => write!(out, "a packet waited {ms:.2} ms in this host"),
            Reason::Unread => write!(out, "nobody read a packet that had waited {ms:.2} ms in this host"),
            Reason::Gap => {
                write!(out, "the program received nothing for {ms:.2} ms")?;
                match self.missing {
                    None => Ok(()),
                    Some(0) => write!(out, ", and no packet is missing"),
                    Some(1) => write!(out, ", and a packet is missing"),
                    Some(packets) => write!(out, ", and {packets} packets are missing"),
                }
            }
            Reason::Losses if self.amount == 1 => write!(out, "a packet was lost"),
            Reason::Losses => write!(out, "{} packets were lost within a second", self.amount),
            Reason::Asked => write!(out, "somebody asked"),
            Reason::Waited => write!(out, "a thread waited {ms:.2} ms for a CPU"),
            Reason::Blocked => write!(out, "a thread waited {ms:.2} ms for a lock"),
            Reason::Delayed => {
                write!(out, "a round trip took {ms:.2} ms longer than the shortest of the minute before")
            }
        }
    }
}

/// Packets of one receiver, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketFigures {
    /// Received by the program.
    pub(crate) received: u64,
    /// Missing by sequence numbers; below 0 within a stretch in which missing ones came after all.
    pub(crate) missing: i64,
    /// Dropped by this host's network stack.
    pub(crate) dropped: u64,
    /// Lateness by the learned pace.
    pub(crate) lateness: Histogram,
    /// From the network stack to the program.
    pub(crate) delivery: Histogram,
}

/// Judges packet after packet.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    late_ns: Option<u64>,
    gap_ns: Option<u64>,
    most_lost: Option<u64>,
    pace: LivePace,
    sequence: Sequence,
    last_user_ns: u64,
    /// When a packet last came to this host, whatever became of it.
    last_came_ns: u64,
    /// Instants of losses within the last second, with their numbers.
    lost: VecDeque<(u64, i64)>,
    judged: u32,
    late: u32,
    steady: bool,
    pub(crate) figures: PacketFigures,
}

impl Judge {
    /// Judges by the triggers of a receiver.
    pub(crate) fn new(settings: &ReceiverSettings) -> Self {
        let ns = |time: Option<std::time::Duration>| time.map(|time| time.as_nanos() as u64);
        Self {
            late_ns: ns(settings.late),
            gap_ns: ns(settings.gap),
            most_lost: settings.losses.map(u64::from),
            ..Self::default()
        }
    }

    /// Takes a packet; why it is worth an incident, if it is.
    pub(crate) fn take(&mut self, stamp: &StampRecord) -> impl Iterator<Item = Trigger> + use<> {
        let came_ns = stamp.receive_ns.max(stamp.enqueued_ns).max(stamp.ready_ns);
        let quiet_ns = came_ns.saturating_sub(self.last_came_ns);
        self.last_came_ns = came_ns.max(self.last_came_ns);
        let [late, gap, lost] = if stamp.flags & stamp_flags::DROPPED != 0 {
            self.figures.dropped += 1;
            // It has its number, so that it is not missing as well.
            let missing = self.number(stamp, quiet_ns).1;
            [None, None, self.lose(came_ns, 1 + missing)]
        } else if stamp.user_ns != 0 && stamp.flags & stamp_flags::ELSEWHERE == 0 {
            self.receive(stamp, quiet_ns)
        } else {
            // Another process of the port has it, or nobody was seen to read it: it came, so it is not missing.
            let missing = self.number(stamp, quiet_ns).1;
            [None, None, self.lose(came_ns, missing)]
        };
        late.into_iter().chain(gap).chain(lost)
    }

    /// The stream's period, where it is known.
    pub(crate) fn period_ns(&self) -> Option<f64> {
        self.pace.period_ns()
    }

    /// A packet that the program received.
    fn receive(&mut self, stamp: &StampRecord, quiet_ns: u64) -> [Option<Trigger>; 3] {
        self.figures.received += 1;
        let at_ns = stamp.user_ns;
        let gap_ns = at_ns.saturating_sub(self.last_user_ns);
        let gap = self.gap_ns.filter(|most_ns| self.last_user_ns != 0 && gap_ns > *most_ns);
        self.last_user_ns = at_ns.max(self.last_user_ns);
        let (number, missing) = self.number(stamp, quiet_ns);
        let lost = self.lose(at_ns, missing);
        let late = self.late(stamp, number);
        let outside = bits_of(stamp).is_some() && quiet_ns > gap_ns / 2;
        let missing = outside.then_some(missing.unsigned_abs());
        let gap = gap.map(|_| Trigger { missing, ..Trigger::new(Reason::Gap, at_ns, gap_ns) });
        [late, gap, lost]
    }

    /// A packet's number, extended over wraps, and how many packets are missing before it. A steady sender has not sent more than
    /// twice what was due in a time without packets: then it began anew with other numbers.
    fn number(&mut self, stamp: &StampRecord, quiet_ns: u64) -> (u64, i64) {
        let Some(bits) = bits_of(stamp) else { return (stamp.arrival, 0) };
        let Numbered { number, mut missing, mut anew } = self.sequence.take(stamp.key, bits);
        if self.steady && missing > FEW {
            let period_ns = self.pace.period_ns().unwrap_or(0.0);
            if missing as f64 * period_ns > 2.0 * quiet_ns as f64 + FEW as f64 * period_ns {
                (missing, anew) = (0, true);
            }
        }
        if anew {
            self.pace = LivePace::default();
        }
        self.figures.missing += missing;
        (number, missing)
    }

    fn late(&mut self, stamp: &StampRecord, number: u64) -> Option<Trigger> {
        let at_ns = stamp.user_ns;
        let entered_ns = stamp.receive_ns.max(stamp.enqueued_ns);
        let held_ns = (entered_ns != 0).then(|| at_ns.saturating_sub(entered_ns));
        held_ns.into_iter().for_each(|ns| self.figures.delivery.add(ns));
        let limit_ns = self.late_ns.unwrap_or(u64::MAX);
        let held = held_ns.filter(|ns| *ns > limit_ns);
        let held = held.map(|amount| Trigger::new(Reason::Held, at_ns, amount));
        let mut latest: Option<Trigger> = None;
        for judged in self.pace.take(number, at_ns as i64) {
            let amount = judged.lateness_ns.unsigned_abs();
            self.figures.lateness.add(amount);
            self.judged += 1;
            if amount > limit_ns {
                self.late += 1;
                let at_ns = judged.at_ns.unsigned_abs();
                let trigger = Trigger::new(Reason::Late, at_ns, amount);
                latest =
                    latest.filter(|latest| latest.amount >= amount).or(Some(trigger)).filter(|_| self.steady);
            }
            if self.judged == JUDGED {
                self.steady = f64::from(self.late) <= MOST_LATE * f64::from(self.judged);
                (self.judged, self.late) = (0, 0);
            }
        }
        held.or(latest)
    }

    fn lose(&mut self, at_ns: u64, packets: i64) -> Option<Trigger> {
        let most = self.most_lost?;
        if packets == 0 {
            return None;
        }
        self.lost.push_back((at_ns, packets));
        // One entry a loss, so that the memory is bounded by the packets of a second; and by this.
        while self.lost.front().is_some_and(|(then_ns, _)| then_ns + SECOND_NS < at_ns)
            || self.lost.len() > 10_000
        {
            self.lost.pop_front();
        }
        let within: i64 = self.lost.iter().map(|(_, packets)| packets).sum();
        let amount = u64::try_from(within).ok().filter(|within| *within >= most)?;
        self.lost.clear();
        Some(Trigger::new(Reason::Losses, at_ns, amount))
    }
}

/// Bits of a packet's number, if it has one.
fn bits_of(stamp: &StampRecord) -> Option<u32> {
    let numbered = [(stamp_flags::OURS, 64), (stamp_flags::RTP, 16)];
    numbered.into_iter().find(|(flag, _)| stamp.flags & flag != 0).map(|(_, bits)| bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn settings() -> ReceiverSettings {
        ReceiverSettings {
            name: "a".to_owned(),
            pid: Some(1),
            comm: None,
            unit: None,
            port: None,
            late: Some(Duration::from_millis(5)),
            gap: Some(Duration::from_millis(100)),
            losses: Some(3),
        }
    }

    /// RTP of 1 ms, packet by packet; `change` alters one, and nothing to drop it.
    fn judge(packets: u64, change: impl Fn(u64, &mut StampRecord) -> bool) -> (Vec<Trigger>, PacketFigures) {
        let mut judge = Judge::new(&settings());
        let found = (1..=packets).flat_map(|n| {
            let at_ns = 1_000_000_000 + n * 1_000_000;
            let mut stamp = StampRecord {
                arrival: n,
                key: n & 0xffff,
                flags: stamp_flags::RTP,
                receive_ns: at_ns,
                user_ns: at_ns + 20_000,
                ..StampRecord::default()
            };
            change(n, &mut stamp).then(|| judge.take(&stamp)).into_iter().flatten()
        });
        (found.collect(), judge.figures)
    }

    #[test]
    fn a_quiet_stream_triggers_nothing_and_is_counted() {
        let (found, figures) = judge(5_000, |_, _| true);
        assert_eq!(found, []);
        assert_eq!((figures.received, figures.missing, figures.dropped), (5_000, 0, 0));
        assert_eq!(figures.delivery.in_text()[1], 5_000);
        assert_eq!(figures.delivery.sum_ns, 5_000 * 20_000);
    }

    #[test]
    fn a_packet_that_waits_here_or_comes_late_triggers_with_the_time() {
        let (found, _) = judge(6_000, |n, stamp| {
            stamp.user_ns += if n == 5_000 { 8_000_000 } else { 0 };
            true
        });
        // By the pace it is late, too, which is known a moment later.
        assert_eq!(found[0], Trigger::new(Reason::Held, 6_008_020_000, 8_020_000));
        assert_eq!(found[1..].iter().map(|trigger| trigger.reason).collect::<Vec<_>>(), [Reason::Late]);
        let (found, _) = judge(6_000, |n, stamp| {
            let late_ns = if n == 5_000 { 8_000_000 } else { 0 };
            stamp.user_ns += late_ns;
            stamp.receive_ns += late_ns;
            true
        });
        assert_eq!((found.len(), found[0].reason), (1, Reason::Late));
        assert!(found[0].amount.abs_diff(8_000_000) < 2_000, "{}", found[0]);
    }

    #[test]
    fn gaps_and_losses_trigger_at_their_bounds() {
        let (found, figures) = judge(6_000, |n, _| !(5_000..5_100).contains(&n));
        let gap = Trigger { missing: Some(100), ..found[0] };
        assert_eq!((found[0], gap.reason, gap.amount), (gap, Reason::Gap, 101_000_000));
        assert_eq!(
            gap.to_string(),
            "the program received nothing for 101.00 ms, and 100 packets are missing"
        );
        assert_eq!(found[1..], [Trigger::new(Reason::Losses, gap.at_ns, 100)]);
        assert_eq!(figures.missing, 100);
        let (found, _) = judge(6_000, |n, _| !(5_000..5_002).contains(&n));
        assert_eq!(found, [], "two packets are below three");
        let (found, _) = judge(6_000, |n, _| ![5_000, 5_300, 5_600].contains(&n));
        assert_eq!((found.len(), found[0].reason, found[0].amount), (1, Reason::Losses, 3));
        let (found, figures) = judge(6_000, |n, stamp| {
            stamp.flags |= if n % 400 == 0 { stamp_flags::DROPPED } else { 0 };
            true
        });
        assert!(found.is_empty() || found.iter().all(|trigger| trigger.reason == Reason::Losses));
        assert_eq!(figures.dropped, 15);
    }

    #[test]
    fn a_packet_that_came_and_was_not_seen_to_be_read_is_not_missing() {
        for (flags, user_ns) in [(0, 0), (stamp_flags::ELSEWHERE, 0), (stamp_flags::ELSEWHERE, 1)] {
            let (found, figures) = judge(6_000, |n, stamp| {
                if (5_000..5_010).contains(&n) {
                    (stamp.flags, stamp.user_ns) = (stamp.flags | flags, user_ns);
                }
                true
            });
            assert_eq!((found, figures.missing, figures.received), (vec![], 0, 5_990));
        }
    }

    #[test]
    fn a_stream_without_a_pace_triggers_by_what_waits_here_alone() {
        // Bursts of 20 packets each 20 ms.
        let (found, _) = judge(9_000, |n, stamp| {
            let at_ns = 1_000_000_000 + n / 20 * 20_000_000 + n % 20 * 5_000;
            (stamp.receive_ns, stamp.user_ns) = (at_ns, at_ns + 20_000);
            if n == 8_000 {
                stamp.user_ns += 6_000_000;
            }
            true
        });
        assert_eq!(found.iter().map(|trigger| trigger.reason).collect::<Vec<_>>(), [Reason::Held]);
    }

    #[test]
    fn a_packet_that_was_looked_at_before_it_was_taken_is_received_and_judged() {
        let (found, figures) = judge(6_000, |n, stamp| {
            stamp.flags |= stamp_flags::PEEKED;
            stamp.user_ns += if n == 5_000 { 8_000_000 } else { 0 };
            true
        });
        assert_eq!((figures.received, found[0].reason, found[0].amount), (6_000, Reason::Held, 8_020_000));
    }

    #[test]
    fn a_gap_of_the_sender_is_told_from_losses_and_from_a_stop_of_this_host() {
        let gap_of = |change: fn(u64, &mut StampRecord) -> bool| {
            let found = judge(6_000, change).0;
            found.into_iter().find(|trigger| trigger.reason == Reason::Gap).map(|gap| gap.missing)
        };
        let paused = |n, stamp: &mut StampRecord| {
            let later_ns = if n >= 5_000 { 500_000_000 } else { 0 };
            (stamp.receive_ns, stamp.user_ns) = (stamp.receive_ns + later_ns, stamp.user_ns + later_ns);
            true
        };
        assert_eq!(gap_of(paused), Some(Some(0)));
        let stopped = |n, stamp: &mut StampRecord| {
            stamp.user_ns += if (5_000..5_500).contains(&n) { (5_500 - n) * 1_000_000 } else { 0 };
            true
        };
        assert_eq!(gap_of(stopped), Some(None), "packets came");
        let dropped = |n, stamp: &mut StampRecord| {
            stamp.flags |= if (5_000..5_500).contains(&n) { stamp_flags::DROPPED } else { 0 };
            true
        };
        assert_eq!(gap_of(dropped), Some(None), "they came, and were dropped here");
        let unnumbered = |n, stamp: &mut StampRecord| {
            stamp.flags = 0;
            !(5_000..5_500).contains(&n)
        };
        assert_eq!(gap_of(unnumbered), Some(None), "nothing tells");
    }

    #[test]
    fn a_sender_that_begins_anew_with_other_numbers_has_lost_and_delayed_nothing() {
        for jump in [5_000, 60_000, 65_536 - 5_000] {
            let (found, figures) = judge(20_000, |n, stamp| {
                stamp.key = (n + if n >= 9_000 { jump } else { 0 }) & 0xffff;
                true
            });
            assert_eq!((found, figures.received), (vec![], 20_000), "{jump}");
            assert!((-1..=0).contains(&figures.missing), "{jump}: {}", figures.missing);
        }
    }
}
