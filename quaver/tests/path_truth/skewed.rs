//! Clocks that run apart, on real sockets: the relay writes wrong times of sending, by a law that the test knows and takes
//! back, so the same packets are there with clocks that agree.

use super::bench::{Bench, PERIOD_NS};
use quaver_arrivals::path::arrival::{Arrival, Numbering, classify, delays_ns};
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::offset::{Evidence, FlowTimes, timed};
use quaver_arrivals::path::playout::{Advice, playout_advice};
use quaver_path_record::Directions;
use quaver_testbed::relay::script::{Clock, Delay, Rule, Script, Select, Shift, Span};
use std::net::Ipv4Addr;

/// PDV p99 and the buffer for 1 %, nanoseconds.
fn figures(direction: Direction, arrivals: &[Arrival], sent: u64) -> [f64; 2] {
    let flow = FlowTimes { direction, arrivals, period_ns: Some(PERIOD_NS) };
    let flow = timed(&Evidence { flows: &[flow], ..Evidence::default() }).flows.remove(0);
    let mut delays = delays_ns(&flow.arrivals);
    delays.sort_unstable();
    let pdv_ns = delays[delays.len() * 99 / 100] - delays[0];
    let buffer_ns = match playout_advice(&flow.arrivals, sent, 10_000).expect("packets").advice {
        Advice::Buffer { buffer_ns, .. } => buffer_ns,
        Advice::Impossible { .. } => panic!("the relay loses nothing"),
    };
    [pdv_ns as f64, buffer_ns as f64]
}

#[test]
fn real_packets_of_skewed_clocks_have_the_pdv_and_the_buffers_of_clocks_that_agree() {
    for rate_ppm in [50.0, -50.0] {
        let clock = Clock { rate_ppm, offset: Shift::from_ns(1_000_000_000), ..Clock::default() };
        let rules = || {
            let delay = Delay::Uniform(Span::from_ns(0), Span::from_ns(400_000));
            vec![Rule::on(Select::All).delayed(delay), Rule::on(Select::All).misdated(clock)]
        };
        let script = Script { up: rules(), down: rules(), ..Script::default() };
        let bench = Bench::start(Ipv4Addr::LOCALHOST.into(), script, None);
        let mut options = bench.options();
        options.directions = Directions::Both;
        options.packets = Some(20_000);
        let (outcome, _) = bench.measure(&options, &mut |_, _| {});
        assert_eq!(outcome.flows.len(), 2);
        for flow in &outcome.flows {
            let sent = flow.packets_sent().expect("the sender told");
            let wrong = classify(&flow.singletons, Numbering::Jitlat, Some(sent)).arrivals;
            let first_ns = wrong.iter().min_by_key(|one| one.sequence).expect("packets").sent_ns;
            let right = |one: &Arrival| {
                let drift_ns = ((one.sent_ns - first_ns) as f64 * rate_ppm * 1e-6).round() as i64;
                Arrival { sent_ns: one.sent_ns - drift_ns, ..*one }
            };
            let right: Vec<Arrival> = wrong.iter().map(right).collect();
            let (found, wanted) =
                (figures(flow.direction, &wrong, sent), figures(flow.direction, &right, sent));
            for (found, wanted) in found.into_iter().zip(wanted) {
                let within = (found - wanted).abs() < 0.02 * wanted;
                assert!(within, "{:?}, {rate_ppm} ppm: {found} ns instead of {wanted} ns", flow.direction);
            }
        }
    }
}
