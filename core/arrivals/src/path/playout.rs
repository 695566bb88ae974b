//! Advice on a de-jitter buffer of fixed playout delay, checked by playing the very packets out.
//!
//! Packet i is played at its sending time plus one offset that is the same for all. A packet that arrives after its
//! instant is late, one that never arrives is lost, and neither is played. How long the buffer is follows from the
//! offset: it is the offset minus the smallest delay, so an error between the clocks cancels out. A skew between them
//! does not: take it out of the arrivals first.

use super::arrival::Arrival;
use schemars::JsonSchema;
use serde::Serialize;

/// What happened to the packets of a test at one playout offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Playout {
    /// Played in time.
    pub played: u64,
    /// Arrived after their instant.
    pub late: u64,
    /// Never arrived.
    pub lost: u64,
    /// The most packets that waited in the buffer at one time.
    pub most_waiting: u64,
}

/// Plays a test out. `arrivals` are first copies in any order, `sent` counts the packets, `offset_ns` runs from the
/// sender's stamp to playing, both clocks taken as they are. A packet that arrives at its very instant is played.
pub fn play(arrivals: &[Arrival], sent: u64, offset_ns: i64) -> Playout {
    let in_time = || arrivals.iter().filter(|arrival| arrival.delay_ns() <= offset_ns);
    let mut came: Vec<i64> = in_time().map(|arrival| arrival.received_ns).collect();
    let mut leaves: Vec<i64> =
        in_time().map(|arrival| arrival.sent_ns.saturating_add(offset_ns).max(arrival.received_ns)).collect();
    came.sort_unstable();
    leaves.sort_unstable();
    let mut left = 0;
    let mut most_waiting = 0;
    for (before, &instant_ns) in came.iter().enumerate() {
        while left < leaves.len() && leaves[left] <= instant_ns {
            left += 1;
        }
        // Of packets that arrive at one instant the last counts them all; one that is played at once never waits.
        most_waiting = most_waiting.max((before + 1).saturating_sub(left) as u64);
    }
    let played = came.len() as u64;
    let received = arrivals.len() as u64;
    Playout { played, late: received - played, lost: sent.saturating_sub(received), most_waiting }
}

/// The smallest buffer for a target, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// A buffer that meets the target.
    Buffer {
        /// How long the fastest packet waits.
        buffer_ns: u64,
        /// From the sender's stamp to playing, by the two clocks as they are.
        offset_ns: i64,
        /// What playing the packets out at this offset gave.
        playout: Playout,
    },
    /// No buffer helps: more packets are lost than may be late and lost together.
    Impossible {
        /// Packets lost.
        lost: u64,
        /// Packets that may be late or lost.
        allowed: u64,
    },
}

/// Advice for one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlayoutAdvice {
    /// How many packets in a million may be late or lost.
    pub target_per_million: u32,
    /// The buffer, or that there is none.
    pub advice: Advice,
}

/// The targets that reports show: 0.1 % and 1 % late or lost.
pub const TARGETS_PER_MILLION: [u32; 2] = [1_000, 10_000];

/// The smallest de-jitter buffer with which at most `target_per_million` of the sent packets are late or lost. None
/// where nothing arrived. `arrivals` are first copies in any order.
pub fn playout_advice(arrivals: &[Arrival], sent: u64, target_per_million: u32) -> Option<PlayoutAdvice> {
    let received = arrivals.len() as u64;
    let sent = sent.max(received);
    let lost = sent - received;
    let allowed =
        (u128::from(sent) * u128::from(target_per_million) / 1_000_000).min(u128::from(sent)) as u64;
    let mut delays: Vec<i64> = arrivals.iter().map(Arrival::delay_ns).collect();
    let least_ns = delays.iter().copied().min()?;
    let Some(may_be_late) = allowed.checked_sub(lost) else {
        return Some(PlayoutAdvice { target_per_million, advice: Advice::Impossible { lost, allowed } });
    };
    // All but so many of the slowest have to be in time; at least the fastest is played.
    let rank = (delays.len() - 1).saturating_sub(usize::try_from(may_be_late).unwrap_or(usize::MAX));
    let offset_ns = *delays.select_nth_unstable(rank).1;
    let playout = play(arrivals, sent, offset_ns);
    let buffer_ns = offset_ns.abs_diff(least_ns);
    Some(PlayoutAdvice { target_per_million, advice: Advice::Buffer { buffer_ns, offset_ns, playout } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packets each 20 ms with these delays in ms.
    fn arrivals(delays_ms: &[i64]) -> Vec<Arrival> {
        let arrival = |(at, &delay): (usize, &i64)| {
            let sent_ns = 20_000_000 * at as i64;
            Arrival { sequence: at as u64, sent_ns, received_ns: sent_ns + delay * 1_000_000 }
        };
        delays_ms.iter().enumerate().map(arrival).collect()
    }

    fn buffer(arrivals: &[Arrival], sent: u64, per_million: u32) -> Option<(u64, i64, Playout)> {
        match playout_advice(arrivals, sent, per_million)?.advice {
            Advice::Buffer { buffer_ns, offset_ns, playout } => Some((buffer_ns, offset_ns, playout)),
            Advice::Impossible { .. } => None,
        }
    }

    #[test]
    fn the_slowest_packets_may_be_late_up_to_the_target() {
        let ten = arrivals(&[50, 52, 51, 50, 90, 55, 50, 51, 130, 50]);
        let at = |per_million| {
            let (buffer_ns, offset_ns, playout) = buffer(&ten, 10, per_million).expect("nothing was lost");
            (buffer_ns / 1_000_000, offset_ns / 1_000_000, playout.late)
        };
        assert_eq!(at(0), (80, 130, 0));
        assert_eq!(at(99_999), (80, 130, 0));
        assert_eq!(at(100_000), (40, 90, 1));
        assert_eq!(at(200_000), (5, 55, 2));
        assert_eq!(at(1_000_000), (0, 50, 6));
        // At an offset of 130 ms packets wait 80 ms and one comes each 20: the fifth arrives as the first leaves.
        assert_eq!(play(&ten, 10, 130_000_000).most_waiting, 4);
    }

    #[test]
    fn a_clock_that_is_wrong_changes_only_the_offset() {
        let mut shifted = arrivals(&[50, 60, 50]);
        for arrival in &mut shifted {
            arrival.received_ns -= 31_340_420_000;
        }
        let (buffer_ns, offset_ns, playout) = buffer(&shifted, 3, 0).expect("nothing was lost");
        assert_eq!((buffer_ns, offset_ns, playout.late), (10_000_000, 60_000_000 - 31_340_420_000, 0));
    }

    #[test]
    fn loss_uses_the_target_up() {
        let nine = arrivals(&[50; 9]);
        let advice = playout_advice(&nine, 10, 10_000).expect("packets arrived").advice;
        assert_eq!(advice, Advice::Impossible { lost: 1, allowed: 0 });
        let (_, _, playout) = buffer(&nine, 10, 100_000).expect("one may be lost");
        assert_eq!((playout.played, playout.late, playout.lost), (9, 0, 1));
        assert_eq!(playout_advice(&[], 10, 10_000), None);
        assert_eq!(play(&[], 10, 0), Playout { lost: 10, ..Playout::default() });
    }

    #[test]
    fn stamps_at_the_ends_of_the_clock_do_no_harm() {
        let far = [
            Arrival { sequence: 0, sent_ns: i64::MIN, received_ns: i64::MAX },
            Arrival { sequence: 1, sent_ns: i64::MAX, received_ns: i64::MIN },
        ];
        let (buffer_ns, _, playout) = buffer(&far, u64::MAX, 1_000_000).expect("everything may be lost");
        assert_eq!((buffer_ns, playout.played), (0, 1));
    }

    /// Plays packet by packet, and counts at every instant that anything happens who waits.
    fn twin(arrivals: &[Arrival], offset_ns: i64) -> (u64, u64) {
        let plays = |arrival: &Arrival| arrival.sent_ns + offset_ns;
        let in_time: Vec<&Arrival> = arrivals.iter().filter(|a| a.received_ns <= plays(a)).collect();
        let waiting =
            |at: i64| in_time.iter().filter(|a| a.received_ns <= at && at < plays(a)).count() as u64;
        let most = in_time.iter().map(|a| waiting(a.received_ns)).max().unwrap_or(0);
        (in_time.len() as u64, most)
    }

    proptest! {
        #[test]
        fn no_smaller_buffer_meets_the_target(
            delays in prop::collection::vec(-30i64..60, 1..60), lost in 0u64..4, per_million in 0u32..400_000,
        ) {
            let arrivals = arrivals(&delays);
            let sent = delays.len() as u64 + lost;
            let bad = |offset_ms: i64| lost + delays.iter().filter(|&&delay| delay > offset_ms).count() as u64;
            let meets = |offset_ms: i64| bad(offset_ms) * 1_000_000 <= sent * u64::from(per_million);
            let least = *delays.iter().min().expect("there are some");
            let smallest = (least..60).find(|&offset_ms| meets(offset_ms));
            match buffer(&arrivals, sent, per_million) {
                None => prop_assert_eq!(smallest, None),
                Some((buffer_ns, offset_ns, playout)) => {
                    prop_assert_eq!(Some(offset_ns / 1_000_000), smallest);
                    prop_assert_eq!(buffer_ns as i64, offset_ns - least * 1_000_000);
                    prop_assert_eq!((playout.played, playout.most_waiting), twin(&arrivals, offset_ns));
                    prop_assert_eq!(playout.late + playout.lost, bad(offset_ns / 1_000_000));
                }
            }
        }
    }
}
