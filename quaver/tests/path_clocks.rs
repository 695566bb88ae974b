//! Clocks that are wrong, seen through the impairment relay: its lanes run on a made clock, so that a minute takes no
//! time and is the same each time.

use quaver_arrivals::path::Arrival;
use quaver_arrivals::path::arrival::delays_ns;
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::offset::{Evidence, FlowTimes, timed};
use quaver_arrivals::path::playout::{Advice, playout_advice};
use quaver_arrivals::path::skew::lower_line;
use quaver_arrivals::path::steps::{ShiftCause, ShiftSearch, level_shifts};
use quaver_testbed::relay::lane::Lane;
use quaver_testbed::relay::script::{Clock, Delay, Queue, Rule, Script, Select, Shift, Span};

const UTC_NS: i64 = 1_700_000_000_000_000_000;
const PERIOD_NS: u64 = 20_000_000;
/// A minute of packets.
const PACKETS: u32 = 3_000;

/// Sends a minute of packets through a lane, and takes them as they leave.
fn through(script: &Script) -> Vec<Arrival> {
    sent_through(script, PACKETS, PERIOD_NS)
}

fn sent_through(script: &Script, packets: u32, period_ns: u64) -> Vec<Arrival> {
    let mut lane = Lane::new(script, 0, Direction::Up);
    let mut arrivals = Vec::new();
    let mut leave_until = |lane: &mut Lane, end_ns: u64| {
        while let Some(now_ns) = lane.next_ns().filter(|next| *next <= end_ns) {
            while let Some(leaving) = lane.leave(now_ns) {
                let (sent, rest) = leaving.octets.split_first_chunk().unwrap();
                arrivals.push(Arrival {
                    sequence: u32::from_be_bytes(rest[..4].try_into().unwrap()).into(),
                    sent_ns: i64::from_be_bytes(*sent),
                    received_ns: UTC_NS + now_ns as i64,
                });
            }
        }
    };
    for number in 0..packets {
        let now_ns = u64::from(number) * period_ns;
        leave_until(&mut lane, now_ns);
        let utc_ns = UTC_NS + now_ns as i64;
        let mut octets = utc_ns.to_be_bytes().to_vec();
        octets.extend(number.to_be_bytes());
        lane.arrive(&octets, now_ns, utc_ns);
    }
    leave_until(&mut lane, u64::MAX);
    assert_eq!(arrivals.len() as u32, packets);
    arrivals
}

/// Time of sending and delay.
fn points(arrivals: &[Arrival]) -> Vec<(i64, i64)> {
    arrivals.iter().map(|arrival| (arrival.sent_ns, arrival.delay_ns())).collect()
}

fn script(seed: u64, load: f64, clock: Clock) -> Script {
    let queue =
        Queue { drain: Span::from_ns(PERIOD_NS), load, shape: 1.5, most: Span::from_ns(1_000_000_000) };
    let all = || Rule::on(Select::All);
    let way = Delay::Constant(Span::from_ns(3_000_000));
    let up = vec![all().delayed(way), all().delayed(Delay::Queue(queue)), all().misdated(clock)];
    Script { seed, up, ..Script::default() }
}

#[test]
fn skew_is_found_within_1_ppm_under_heavy_queueing() {
    for seed in 0..20 {
        for rate_ppm in [50.0, -50.0, 0.0, 3.0] {
            let clock = Clock { rate_ppm, offset: Shift::from_ns(-7_000_000), ..Clock::default() };
            let arrivals = through(&script(seed, 0.95, clock));
            let queued = arrivals.iter().filter(|arrival| arrival.delay_ns() > 15_000_000).count();
            assert!(queued > 1_500, "seed {seed}: only {queued} packets were queued");
            // The sender's clock gains, so delays shrink by as much.
            let found = lower_line(&mut points(&arrivals)).unwrap().ppm();
            assert!((found + rate_ppm).abs() < 1.0, "seed {seed}: {found} ppm for a clock of {rate_ppm} ppm");
        }
    }
}

#[test]
fn a_step_of_the_senders_clock_is_found_where_it_was_made() {
    for (seed, step_ns) in [(1, 40_000_000), (2, -40_000_000)] {
        let clock = Clock { step: Shift::from_ns(step_ns), step_at: 1_500, ..Clock::default() };
        let arrivals = through(&script(seed, 0.5, clock));
        let shifts = level_shifts(&arrivals, &ShiftSearch::new(Some(PERIOD_NS)));
        assert_eq!(shifts.len(), 1, "{shifts:?}");
        assert_eq!((shifts[0].sequence, shifts[0].cause), (1_500, ShiftCause::SenderClock), "{shifts:?}");
        assert!((shifts[0].size_ns + step_ns).abs() < 1_000_000, "{shifts:?}");
    }
    assert!(
        level_shifts(&through(&script(3, 0.5, Clock::default())), &ShiftSearch::new(Some(PERIOD_NS)))
            .is_empty()
    );
}

/// A day at a packet a second through a relay whose sender's clock is wrong: PDV and buffers are those of the day without.
#[test]
fn a_day_with_a_clock_that_is_20_ppm_wrong_leaves_pdv_and_buffers() {
    let day = |rate_ppm| {
        let clock = Clock { rate_ppm, offset: Shift::from_ns(-7_000_000), ..Clock::default() };
        let delay = Delay::Uniform(Span::from_ns(3_000_000), Span::from_ns(9_000_000));
        let up = vec![Rule::on(Select::All).delayed(delay), Rule::on(Select::All).misdated(clock)];
        let arrivals = sent_through(&Script { seed: 9, up, ..Script::default() }, 86_400, 1_000_000_000);
        let flow =
            FlowTimes { direction: Direction::Up, arrivals: &arrivals, period_ns: Some(1_000_000_000) };
        let flow = timed(&Evidence { flows: &[flow], ..Evidence::default() }).flows.remove(0);
        let mut delays = delays_ns(&flow.arrivals);
        delays.sort_unstable();
        let pdv = delays[delays.len() * 99 / 100] - delays[0];
        let buffer = match playout_advice(&flow.arrivals, 86_400, 10_000).unwrap().advice {
            Advice::Buffer { buffer_ns, .. } => buffer_ns,
            Advice::Impossible { .. } => panic!("nothing is lost"),
        };
        (pdv as f64, buffer as f64, flow.edge.unwrap().ppm)
    };
    let (pdv, buffer, none) = day(0.0);
    assert!(none.abs() < 0.001 && pdv < 6e6, "{none} ppm, {pdv} ns");
    for rate_ppm in [20.0, -20.0] {
        let found = day(rate_ppm);
        assert!((found.2 + rate_ppm).abs() < 0.01, "{} ppm", found.2);
        for (with, without) in [(found.0, pdv), (found.1, buffer)] {
            assert!(
                (with - without).abs() < 0.02 * without,
                "{rate_ppm} ppm: {with} ns instead of {without} ns"
            );
        }
    }
}
