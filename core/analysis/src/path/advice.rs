//! What to do about a path: the smallest de-jitter buffers, and how a call through them would sound.

use super::Arrival;
use super::clocks::{ClockEstimate, correct};
use super::direction::Direction;
use super::loss_pattern::{loss_pattern, loss_runs};
use super::playout::{Advice, PlayoutAdvice, TARGETS_PER_MILLION, play, played_numbers, playout_advice};
use super::voice::{CODECS, VoiceRating, rate};
use serde::Serialize;

/// Buffers for the usual targets, and ratings of the usual codecs behind one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PathAdvice {
    /// The smallest de-jitter buffer for each target, verified by playing these very packets out; none where nothing
    /// arrived.
    pub buffers: Vec<PlayoutAdvice>,
    /// How a call would sound behind the buffer of the last target, or behind one for the slowest packet where there
    /// is no such buffer (ITU-T G.107). Codecs that cannot be rated are left out.
    pub voice: Vec<VoiceRating>,
}

/// Advice from the packets of a flow, of which `sent` were sent. `clock` takes the clocks' offset out of the delay that
/// a caller would feel.
pub fn path_advice(
    arrivals: &[Arrival],
    sent: u64,
    direction: Direction,
    clock: Option<&ClockEstimate>,
) -> PathAdvice {
    let buffers: Vec<PlayoutAdvice> = TARGETS_PER_MILLION
        .into_iter()
        .filter_map(|target_per_million| playout_advice(arrivals, sent, target_per_million))
        .collect();
    let offset_ns = match buffers.last().map(|last| last.advice) {
        Some(Advice::Buffer { offset_ns, .. }) => Some(offset_ns),
        _ => arrivals.iter().map(Arrival::delay_ns).max(),
    };
    let voice = offset_ns.map_or_else(Vec::new, |offset_ns| {
        let played = play(arrivals, sent, offset_ns);
        let mut numbers: Vec<u64> = played_numbers(arrivals, offset_ns).collect();
        numbers.sort_unstable();
        let burst_ratio = loss_pattern(&loss_runs(numbers, sent), sent).burst_ratio();
        let loss_share = (played.late + played.lost) as f64 / sent.max(1) as f64;
        let felt_ns = clock.map_or(offset_ns, |clock| correct(offset_ns, clock.offset_ns, direction));
        let rating = |codec| rate(codec, felt_ns as f64 / 1e6, loss_share, burst_ratio);
        CODECS.into_iter().filter_map(rating).collect()
    });
    PathAdvice { buffers, voice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(delays_ns: &[Option<i64>]) -> Vec<Arrival> {
        let arrival = |(at, delay_ns): (usize, &Option<i64>)| {
            let sent_ns = at as i64 * 20_000_000;
            delay_ns.map(|delay_ns| Arrival { sequence: at as u64, sent_ns, received_ns: sent_ns + delay_ns })
        };
        delays_ns.iter().enumerate().filter_map(arrival).collect()
    }

    #[test]
    fn a_call_is_rated_behind_the_buffer_that_is_advised() {
        let mut delays = vec![Some(30_000_000); 199];
        delays.push(Some(90_000_000));
        let advice = path_advice(&arrivals(&delays), 200, Direction::Up, None);
        // One packet in 200 may be late at 1 %, none at 0.1 %.
        let buffer = |at: usize| match advice.buffers[at].advice {
            Advice::Buffer { buffer_ns, playout, .. } => (buffer_ns, playout.late),
            Advice::Impossible { .. } => panic!("nothing is lost"),
        };
        assert_eq!((buffer(0), buffer(1)), ((60_000_000, 0), (0, 1)));
        let g711 = &advice.voice[0];
        assert_eq!((g711.codec.name, g711.loss_percent, g711.delay_ms), ("G.711", 0.5, 40.25));
    }

    #[test]
    fn clocks_that_are_apart_do_not_make_a_call_worse() {
        let clock = ClockEstimate {
            jitlat_error_ns: 0,
            min_rtt_ns: 2,
            offset_ns: 31_000_000_000,
            bound_ns: 1,
            probes: 5,
        };
        let delays = vec![Some(31_030_000_000); 50];
        let up = path_advice(&arrivals(&delays), 50, Direction::Up, Some(&clock));
        assert_eq!(up.voice[0].delay_ms, 40.25);
        let delays = vec![Some(-30_970_000_000); 50];
        let down = path_advice(&arrivals(&delays), 50, Direction::Down, Some(&clock));
        assert_eq!(down.voice[0].delay_ms, 40.25);
    }

    #[test]
    fn where_too_much_is_lost_the_call_is_rated_all_the_same() {
        let delays: Vec<Option<i64>> = (0..100).map(|at| (at % 2 == 0).then_some(10_000_000)).collect();
        let advice = path_advice(&arrivals(&delays), 100, Direction::Up, None);
        assert!(matches!(advice.buffers[1].advice, Advice::Impossible { lost: 50, allowed: 1 }));
        assert_eq!(advice.voice[0].loss_percent, 50.0);
        assert_eq!(path_advice(&[], 10, Direction::Up, None), PathAdvice::default());
    }
}
