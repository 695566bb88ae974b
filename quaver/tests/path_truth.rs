//! Counts of a path measurement against the truth: client and server measure through the impairment relay, whose log
//! says what became of every packet. Each case has both ways, with impairments of their own.

#[path = "path_truth/bench.rs"]
mod bench;
#[path = "path_truth/cases.rs"]
mod cases;
#[path = "path_truth/skewed.rs"]
mod skewed;

use bench::{Bench, PACKETS, counted};
use cases::Case;
use quaver_arrivals::path::arrival::{Numbering, classify};
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::reordering::reordered;
use quaver_path_flow::{
    DscpChanges, FlowSchedule, FlowSpec, Received, TestSocket, Transport, receive_flow, send_flow,
};
use quaver_path_record::{ClientOptions, Completion, Directions, Progress};
use quaver_testbed::relay::script::{Rule, Script};
use quaver_testbed::relay::truth::{Reader, Truth};
use quaver_testbed::relay::{Keep, Relay, RelayOptions};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

/// Cases that are measured at the same time.
const AT_ONCE: usize = 4;

/// Measures all cases, some at a time, and gives what was wrong with each.
fn failures(cases: Vec<Case>) -> Vec<String> {
    let cases = Mutex::new(cases.into_iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().unwrap().next() else { return };
                    let wrong = case.measure();
                    failures
                        .lock()
                        .unwrap()
                        .extend(wrong.into_iter().map(|what| format!("{}: {what}", case.name)));
                }
            });
        }
    });
    failures.into_inner().unwrap()
}

fn all_counts_are_those_of_the_relay(listen: IpAddr) {
    let cases = cases::all(listen);
    assert!(cases.len() >= 24, "{}", cases.len());
    let failures = failures(cases);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn all_counts_over_ipv4_are_those_of_the_relay() {
    all_counts_are_those_of_the_relay(Ipv4Addr::LOCALHOST.into());
}

#[test]
fn all_counts_over_ipv6_are_those_of_the_relay() {
    all_counts_are_those_of_the_relay(Ipv6Addr::LOCALHOST.into());
}

#[test]
fn with_a_key_no_wrong_bit_passes() {
    let failures = failures(cases::keyed());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_extent_of_reordering_is_that_of_the_relay() {
    // Every twentieth packet leaves right after `later` others, so it has that extent (RFC 4737, section 4.2).
    for later in [1, 3, 10] {
        let rule = || vec![Rule::packets((5..200).step_by(20)).held(later)];
        let script = Script { up: rule(), down: rule(), ..Script::default() };
        let bench = Bench::start(Ipv4Addr::LOCALHOST.into(), script, None);
        let (outcome, _) = bench.measure(&bench.options(), &mut |_, _| {});
        for flow in &outcome.flows {
            let classified = classify(&flow.singletons, Numbering::Jitlat, flow.packets_sent());
            let firsts: Vec<u64> = classified.arrivals.iter().map(|arrival| arrival.sequence).collect();
            let found: Vec<(u64, u64)> =
                reordered(&firsts).iter().map(|packet| (packet.sequence, packet.extent())).collect();
            let expected: Vec<(u64, u64)> = (5..200).step_by(20).map(|place| (place, later.into())).collect();
            assert_eq!(found, expected, "{:?}", flow.direction);
        }
    }
}

#[test]
fn packets_whose_dscp_the_relay_clears_are_counted() {
    for listen in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        // The relay sends all it passes on unmarked.
        for (dscp, changed) in [(46, PACKETS), (0, 0)] {
            let bench = Bench::start(listen, Script::default(), None);
            let options = ClientOptions { dscp, ..bench.options() };
            let (outcome, _) = bench.measure(&options, &mut |_, _| {});
            for flow in &outcome.flows {
                let found = flow.receiver.unwrap().dscps;
                assert_eq!(found, DscpChanges { packets: changed, last: 0 }, "{:?}", flow.direction);
            }
        }
    }
}

#[test]
fn a_tcp_flow_passes_the_relay_whole() {
    let bench = Bench::start(Ipv4Addr::LOCALHOST.into(), Script::default(), None);
    let mut options = bench.options();
    options.transport = Transport::Tcp;
    let (outcome, _) = bench.measure(&options, &mut |_, _| {});
    assert_eq!(outcome.flows.len(), 2);
    for flow in &outcome.flows {
        let counts = classify(&flow.singletons, Numbering::Jitlat, flow.packets_sent()).counts;
        assert_eq!((counts.sent, counts.unique, counts.out_of_sequence), (200, 200, 0), "{counts:?}");
    }
}

#[test]
fn a_client_that_loses_its_server_keeps_what_it_had_and_says_so() {
    let bench = Bench::start(Ipv4Addr::LOCALHOST.into(), Script::default(), None);
    let mut options = bench.options();
    options.directions = Directions::Down;
    options.packets = Some(1_000_000);
    let mut seen = 0;
    let (outcome, _) = bench.measure(&options, &mut |progress, relay| {
        if let Progress::Samples { samples, .. } = progress {
            let before = seen;
            seen += samples.len();
            if before < 50 && seen >= 50 {
                relay.cut_connections();
            }
        }
    });
    assert!(matches!(outcome.completion, Completion::ServerLost(_)), "{:?}", outcome.completion);
    assert!(!outcome.is_complete());
    assert_eq!(outcome.flows.len(), 1);
    assert!(!outcome.flows[0].complete);
    assert!(outcome.flows[0].singletons.len() >= 50, "{}", outcome.flows[0].singletons.len());
    assert_eq!(outcome.flows[0].singletons.len(), seen);
}

/// Sends a flow through a relay, by itself, from a number of its own; the receiver's report and packets, and the truth.
fn flow_from(first_sequence: u64, rules: Vec<Rule>) -> (Vec<Received>, [u64; 3], Truth) {
    let listen: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let receiver = TestSocket::udp(listen, false).unwrap();
    let relay = Relay::start(RelayOptions {
        listen: listen.ip(),
        control_port: 0,
        test_port: 0,
        server_control: None,
        server_test: receiver.local_address().unwrap(),
        script: Script { seed: 77, up: rules, ..Script::default() },
        keep: Keep::Memory,
    })
    .unwrap();
    let sender = TestSocket::udp(listen, false).unwrap();
    sender.connect(relay.test_address()).unwrap();
    let mut spec = FlowSpec::new(80, Some(300), FlowSchedule::every(200_000));
    spec.first_sequence = first_sequence;
    spec.session_tag = Some(*b"the tag!");
    let (acknowledged, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut received = Vec::new();
    let report = std::thread::scope(|scope| {
        let (acknowledged, stop, spec) = (&acknowledged, &stop, &spec);
        let sending = scope.spawn(move || send_flow(&sender, spec, acknowledged, stop).unwrap());
        let report = receive_flow(&receiver, spec, &mut |packets| received.extend_from_slice(packets), stop);
        acknowledged.store(true, Ordering::Relaxed);
        assert_eq!(sending.join().unwrap().summary.packets, 300);
        report.unwrap()
    });
    let reader = Reader { first: first_sequence, ..Reader::of(300) };
    let relayed = relay.stop().unwrap();
    assert_eq!((relayed.unread, report.summary.own_drops.unwrap_or(0)), (0, 0));
    let truth = Truth::of(&relayed.records, 0, Direction::Up, &reader);
    (received, [report.summary.duplicates, report.summary.invalid, report.summary.foreign], truth)
}

#[test]
fn counts_are_right_across_the_wrap_of_the_numbers() {
    // The numbers of the wire have 32 bits without the sentinel's; signed, they turn at 2^31.
    for first in [0, 0x7fff_ffff - 150, 0xffff_ffff - 150, 5 * 0xffff_ffff - 1] {
        let rules = vec![
            Rule::chance(0.1).dropped(),
            Rule::chance(0.1).held(4),
            Rule::chance(0.1).copied(2),
            Rule::packets([145, 148, 149, 150, 151, 152]).held(7),
        ];
        let (received, counts, truth) = flow_from(first, rules);
        assert_eq!(counts, [truth.duplicates, truth.invalid, truth.foreign], "from {first}");
        let places: Vec<u64> = received
            .iter()
            .filter(|packet| packet.singleton.flags == 0)
            .map(|packet| Numbering::Jitlat.unwrap(packet.singleton.tx_seq as u32, first).unwrap() - first)
            .collect();
        assert_eq!(300 - places.len() as u64, truth.lost, "from {first}");
        assert_eq!(reordered(&places).len() as u64, truth.reordered, "from {first}");
        assert!(truth.lost > 10 && truth.reordered > 15 && truth.duplicates > 30, "{truth:?}");
    }
}

#[test]
fn a_server_answers_through_the_relay_with_the_relays_port() {
    let bench = Bench::start(Ipv6Addr::LOCALHOST.into(), Script::default(), None);
    let (told, address) = mpsc::channel();
    let (outcome, report) = bench.measure(&bench.options(), &mut |progress, relay| {
        if let Progress::Started { destination, .. } = progress {
            told.send((destination, relay.test_address())).unwrap();
        }
    });
    let (destination, relay) = address.recv().unwrap();
    assert_eq!(destination, relay);
    assert!(outcome.is_complete());
    assert_eq!(counted(&outcome.flows[0]).lost, 0);
    assert_eq!(report.totals.up.arrived, 200);
}
