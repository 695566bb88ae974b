//! What to do about a path: the smallest de-jitter buffers, and how a call would sound behind the best one.

use super::Arrival;
use super::loss_pattern::{loss_pattern, loss_runs};
use super::playout::{PlayoutAdvice, TARGETS_PER_MILLION, playout_advice};
use super::voice::{CODECS, VoiceRating, rate};
use schemars::JsonSchema;
use serde::Serialize;

/// Playout offsets that calls are tried with, besides the largest delay: evenly by the logarithm of how many are late.
const TRIES: u32 = 40;

/// Buffers for the usual targets, and ratings of the usual codecs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PathAdvice {
    /// The smallest de-jitter buffer for each target, verified by playing these very packets out; none where nothing
    /// arrived.
    pub buffers: Vec<PlayoutAdvice>,
    /// How a call would sound, each codec behind the fixed buffer that gives it the greatest rating (ITU-T G.107).
    /// Codecs that cannot be rated are left out.
    pub voice: Vec<Call>,
}

/// A call behind its best buffer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Call {
    /// Length of the de-jitter buffer, nanoseconds: how long the fastest packet waits.
    pub buffer_ns: u64,
    /// How it sounds.
    #[serde(flatten)]
    pub rating: VoiceRating,
    /// Least and greatest MOS of that buffer within the bound of the clocks' offset: the delay may be off by it.
    pub mos_interval: [f64; 2],
}

/// A playout offset, and what a listener misses with it.
struct Playing {
    offset_ns: i64,
    loss_share: f64,
    burst_ratio: Option<f64>,
}

/// Advice from the packets of a flow by one clock, of which `sent` were sent. Delays are right within `bound_ns`. Without it no
/// call is rated, for a call is as good as its delay lets it be; buffers need no delay.
pub fn path_advice(arrivals: &[Arrival], sent: u64, bound_ns: Option<i64>) -> PathAdvice {
    let buffers = TARGETS_PER_MILLION
        .into_iter()
        .filter_map(|target_per_million| playout_advice(arrivals, sent, target_per_million))
        .collect();
    let Some(bound_ns) = bound_ns else { return PathAdvice { buffers, voice: Vec::new() } };
    let playings = playings(arrivals, sent);
    let least_ns = arrivals.iter().map(Arrival::delay_ns).min().unwrap_or(0);
    let best = |codec| {
        let calls = playings.iter().filter_map(|playing: &Playing| {
            // An offset that is wrong by its bound may make a delay negative. No way takes less than no time.
            let rated = |offset_ns: i64| {
                let felt_ms = offset_ns.max(0) as f64 / 1e6;
                rate(codec, felt_ms, playing.loss_share, playing.burst_ratio)
            };
            let edge = |offset_ns: i64| rated(offset_ns).map(|rating| rating.mos);
            Some(Call {
                buffer_ns: playing.offset_ns.abs_diff(least_ns),
                rating: rated(playing.offset_ns)?,
                mos_interval: [
                    edge(playing.offset_ns.saturating_add(bound_ns))?,
                    edge(playing.offset_ns.saturating_sub(bound_ns))?,
                ],
            })
        });
        // Of equals the first: the longest buffer, with the fewest losses.
        calls.reduce(|best, call| if call.rating.r > best.rating.r { call } else { best })
    };
    PathAdvice { buffers, voice: CODECS.into_iter().filter_map(best).collect() }
}

/// Offsets to try, from the largest delay on.
fn playings(arrivals: &[Arrival], sent: u64) -> Vec<Playing> {
    let mut delays: Vec<i64> = arrivals.iter().map(Arrival::delay_ns).collect();
    delays.sort_unstable();
    let sent = sent.max(arrivals.len() as u64);
    let mut by_number: Vec<&Arrival> = arrivals.iter().collect();
    by_number.sort_unstable_by_key(|arrival| arrival.sequence);
    // From one late packet in many to half of them.
    let decades = (delays.len() as f64 / 2.0).max(1.0);
    let late = (0..=TRIES).map(|step| decades.powf(f64::from(step) / f64::from(TRIES)) as usize);
    let mut offsets: Vec<i64> =
        std::iter::once(0).chain(late).filter_map(|late| delays.iter().rev().nth(late).copied()).collect();
    offsets.dedup();
    let playing = |offset_ns: i64| {
        let in_time = by_number.iter().filter(|arrival| arrival.delay_ns() <= offset_ns);
        let pattern = loss_pattern(&loss_runs(in_time.map(|arrival| arrival.sequence), sent), sent);
        let burst_ratio = pattern.burst_ratio();
        Playing { offset_ns, loss_share: pattern.loss_share.unwrap_or(0.0), burst_ratio }
    };
    offsets.into_iter().map(playing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::playout::Advice;

    fn arrivals(delays_ns: &[Option<i64>]) -> Vec<Arrival> {
        let arrival = |(at, delay_ns): (usize, &Option<i64>)| {
            let sent_ns = at as i64 * 20_000_000;
            delay_ns.map(|delay_ns| Arrival { sequence: at as u64, sent_ns, received_ns: sent_ns + delay_ns })
        };
        delays_ns.iter().enumerate().filter_map(arrival).collect()
    }

    #[test]
    fn a_call_is_rated_behind_the_buffer_that_makes_it_sound_best() {
        let mut delays = vec![Some(30_000_000); 199];
        delays.push(Some(60_000_000));
        let advice = path_advice(&arrivals(&delays), 200, Some(0));
        // One packet in 200 may be late at 1 %, none at 0.1 %.
        let buffer = |at: usize| match advice.buffers[at].advice {
            Advice::Buffer { buffer_ns, playout, .. } => (buffer_ns, playout.late),
            Advice::Impossible { .. } => panic!("nothing is lost"),
        };
        assert_eq!((buffer(0), buffer(1)), ((30_000_000, 0), (0, 1)));
        // Up to 100 ms a delay costs nothing, and a loss does.
        let g711 = &advice.voice[0];
        assert_eq!(
            (g711.buffer_ns, g711.rating.loss_percent, g711.rating.delay_ms),
            (30_000_000, 0.0, 70.25)
        );
        assert!((g711.rating.mos - 4.409).abs() < 0.001, "the model's own greatest: {}", g711.rating.mos);
        // Where waiting for the slowest would cost more than losing it, it is lost.
        delays[199] = Some(900_000_000);
        let g711 = path_advice(&arrivals(&delays), 200, Some(0)).voice[0];
        assert_eq!((g711.buffer_ns, g711.rating.loss_percent, g711.rating.delay_ms), (0, 0.5, 40.25));
    }

    #[test]
    fn no_offset_between_those_tried_sounds_much_better() {
        let delays: Vec<Option<i64>> = (0..2_000)
            .map(|at: i64| (at % 97 != 0).then_some(20_000_000 + at * 7_919 % 2_000 * 150_000))
            .collect();
        let arrivals = arrivals(&delays);
        let found = path_advice(&arrivals, 2_000, Some(0)).voice[0].rating.r;
        let of = |offset_ms: i64| {
            let played = arrivals.iter().filter(|arrival| arrival.delay_ns() <= offset_ms * 1_000_000);
            let mut numbers: Vec<u64> = played.map(|arrival| arrival.sequence).collect();
            numbers.sort_unstable();
            let pattern = loss_pattern(&loss_runs(numbers, 2_000), 2_000);
            let rated = rate(CODECS[0], offset_ms as f64, pattern.loss_share.unwrap(), pattern.burst_ratio());
            rated.unwrap().r
        };
        let best = (20..=320).map(of).fold(0.0, f64::max);
        assert!(found > best - 2.0, "{found} of {best}");
    }

    #[test]
    fn a_call_is_as_sure_as_the_clocks_are() {
        let call = |bound_ms: i64| {
            path_advice(&arrivals(&[Some(150_000_000); 100]), 100, Some(bound_ms * 1_000_000)).voice[0]
        };
        let [exact, wide] = [0, 100].map(call);
        assert_eq!(exact.mos_interval, [exact.rating.mos; 2]);
        let at = |network_ms| rate(CODECS[0], network_ms, 0.0, None).unwrap().mos;
        assert_eq!((wide.rating, wide.mos_interval), (exact.rating, [at(250.0), at(50.0)]));
        assert!(at(250.0) < at(50.0) - 0.1);
        assert_eq!(path_advice(&arrivals(&[Some(1); 9]), 9, None).voice, []);
    }

    #[test]
    fn a_delay_that_its_bound_makes_negative_is_rated() {
        let call = path_advice(&arrivals(&[Some(-3_000); 50]), 50, Some(3_000)).voice[0];
        assert_eq!((call.rating.delay_ms, call.buffer_ns), (10.25, 0));
    }

    #[test]
    fn where_too_much_is_lost_the_call_is_rated_all_the_same() {
        let delays: Vec<Option<i64>> = (0..100).map(|at| (at % 2 == 0).then_some(10_000_000)).collect();
        let advice = path_advice(&arrivals(&delays), 100, Some(0));
        assert!(matches!(advice.buffers[1].advice, Advice::Impossible { lost: 50, allowed: 1 }));
        assert_eq!(advice.voice[0].rating.loss_percent, 50.0);
        assert_eq!(path_advice(&[], 10, Some(0)), PathAdvice::default());
    }
}
