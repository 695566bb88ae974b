use super::*;
use quaver_path_flow::{DscpChanges, StampSource};

#[test]
fn both_ways_both_transports_both_families_bring_every_packet() {
    for at in [V4, V6] {
        let server = Served::at(at);
        for transport in [Transport::Udp, Transport::Tcp] {
            let options = ClientOptions { transport, directions: Directions::Both, ..server.client() };
            let outcome = measure(&options).unwrap();
            assert!(outcome.is_complete(), "{outcome:?}");
            assert_eq!(outcome.protocol, Protocol::Extended(2));
            assert_eq!(outcome.rtt_probes.len(), 5);
            let ways: Vec<Direction> = outcome.flows.iter().map(|flow| flow.direction).collect();
            assert_eq!(ways, [Direction::Up, Direction::Down]);
            for flow in &outcome.flows {
                assert_all(flow, 100);
                assert_eq!(flow.packets_sent(), Some(100));
                let (sender, receiver) = (flow.sender.unwrap(), flow.receiver.unwrap());
                assert_eq!((sender.packets, sender.sent), (100, 100));
                assert_eq!((receiver.received, receiver.duplicates, receiver.invalid), (100, 0, 0));
                assert_eq!(receiver.stamped_by.iter().sum::<u64>(), 100);
                let way = if flow.direction == Direction::Up { flow.destination } else { flow.source };
                assert_eq!(way, server.test, "{flow:?}");
            }
        }
        server.stop();
    }
}

#[test]
fn round_trips_hold_the_servers_clock_between_the_clients() {
    let server = Served::at(V4);
    let outcome = measure(&ClientOptions { rtt_probes: 20, ..server.client() }).unwrap();
    assert_eq!(outcome.rtt_probes.len(), 20);
    for probe in &outcome.rtt_probes {
        assert!(probe.t1_ns <= probe.t2_ns && probe.t2_ns <= probe.t3_ns, "one clock: {probe:?}");
        let clock_error_ns = probe.t2_ns - probe.t1_ns - probe.rtt_ns() / 2;
        assert!(clock_error_ns.abs() <= probe.rtt_ns() / 2 + 1);
    }
}

#[test]
fn both_ends_tell_of_their_clocks() {
    let server = Served::at(V4);
    let outcome = measure(&server.client()).unwrap();
    for clock in [&outcome.client_clock, &outcome.server_clock] {
        assert!(clock.before.is_some() && clock.after.is_some());
        assert!(clock.pairs.len() >= 2, "before and after");
        assert!(clock.pairs.is_sorted_by_key(|pair| pair.monotonic_ns));
    }
    assert_eq!(outcome.client_clock.before.unwrap().status, outcome.server_clock.before.unwrap().status);
}

#[test]
fn a_rolling_test_keeps_nothing_and_shows_everything() {
    let server = Served::at(V4);
    for directions in [Directions::Up, Directions::Down] {
        let options = ClientOptions { rolling: true, directions, packets: Some(600), ..server.client() };
        let (mut shown, mut before_the_end, mut ended) = (Vec::new(), 0, false);
        let outcome = run_client(&options, &AtomicBool::new(false), &mut |progress| match progress {
            Progress::Samples { samples, .. } => {
                shown.extend(samples.iter().map(|received| received.singleton.tx_seq));
                before_the_end += usize::from(!ended) * samples.len();
            }
            Progress::Ended { .. } => ended = true,
            _ => {}
        })
        .unwrap();
        assert!(outcome.is_complete(), "{outcome:?}");
        let flow = &outcome.flows[0];
        assert_eq!((flow.singletons.len(), flow.rows, shown.len()), (0, 600, 600));
        assert!(before_the_end > 0, "while it runs");
        let numbers: BTreeSet<i32> = shown.into_iter().collect();
        assert_eq!(numbers.len(), 600);
    }
}

#[test]
fn samples_come_back_with_what_stamped_them() {
    let server = Served::at(V4);
    let stamps = quaver_path_flow::StampWish::Application;
    let options = ClientOptions { directions: Directions::Both, stamps, ..server.client() };
    let (mut up, mut down) = (BTreeSet::new(), BTreeSet::new());
    run_client(&options, &AtomicBool::new(false), &mut |progress| {
        if let Progress::Samples { direction, samples } = progress {
            let all = if direction == Direction::Up { &mut up } else { &mut down };
            all.extend(samples.iter().map(|received| received.stamped_by));
        }
    })
    .unwrap();
    assert!(!up.contains(&StampSource::Hardware), "loopback has none: {up:?}");
    assert_eq!(down, [StampSource::Application].into());
}

#[test]
fn a_test_without_end_is_ended_by_the_user_and_complete() {
    let server = Served::at(V4);
    for directions in [Directions::Up, Directions::Down] {
        let options = ClientOptions { rolling: true, directions, packets: None, ..server.client() };
        let stop = AtomicBool::new(false);
        let mut rows = 0;
        let outcome = run_client(&options, &stop, &mut |progress| {
            if let Progress::Samples { samples, .. } = progress {
                rows += samples.len() as u64;
                stop.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
        assert!(outcome.is_complete(), "{directions:?}: {outcome:?}");
        let flow = &outcome.flows[0];
        assert_eq!(flow.rows, rows);
        assert_eq!(flow.packets_sent(), Some(rows), "all that was sent came");
    }
}

#[test]
fn an_interrupted_test_keeps_what_it_had_and_says_so() {
    let server = Served::at(V4);
    for directions in [Directions::Up, Directions::Down] {
        let schedule = FlowSchedule::every(5_000_000);
        let options = ClientOptions { directions, packets: Some(100_000), schedule, ..server.client() };
        let stop = AtomicBool::new(false);
        let outcome = run_client(&options, &stop, &mut |progress| {
            if let Progress::Started { .. } = progress {
                stop.store(directions == Directions::Up, Ordering::Relaxed);
            }
            if let Progress::Samples { .. } = progress {
                stop.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
        assert_eq!(outcome.completion, Completion::Interrupted);
        let flow = &outcome.flows[0];
        assert!(!flow.complete && !outcome.is_complete());
        assert_eq!(flow.packets_sent(), Some(flow.rows), "the sender's count, not what was asked for");
    }
    assert_serves(&server);
}

#[test]
fn schedules_are_kept_by_either_end() {
    let server = Served::at(V4);
    let recorded = FlowSchedule::Recorded { offsets_ns: (0..50u64).map(|at| at * at * 50_000).collect() };
    let random = FlowSchedule::Periodic { period_ns: 2_000_000, random_start: Some(5) };
    let poisson = FlowSchedule::Poisson { mean_ns: 1_000_000, seed: 7 };
    for schedule in [recorded, random, poisson] {
        let directions = Directions::Both;
        let options = ClientOptions { schedule, directions, packets: Some(50), ..server.client() };
        let outcome = measure(&options).unwrap();
        assert!(outcome.is_complete(), "{outcome:?}");
        for flow in &outcome.flows {
            // A recording ends with its last offset: what its sender was late for is not made up.
            let sender = flow.sender.unwrap();
            let missed =
                if matches!(flow.schedule, FlowSchedule::Recorded { .. }) { sender.misses } else { 0 };
            assert_eq!(sender.packets + missed, 50);
            assert_all(flow, sender.packets as usize);
        }
    }
}

#[test]
fn packets_of_every_size_pass_even_without_a_tag() {
    let server = Served::at(V4);
    for packet_bytes in [12, 19, 20, 1_472, 9_000] {
        let directions = Directions::Both;
        let options = ClientOptions { packet_bytes, directions, packets: Some(20), ..server.client() };
        let outcome = measure(&options).unwrap();
        assert!(outcome.is_complete(), "{packet_bytes}: {outcome:?}");
        outcome.flows.iter().for_each(|flow| assert_all(flow, 20));
    }
}

#[test]
fn caps_are_refused_with_their_reason() {
    let mut options = options(V4);
    options.limits.packets_per_second = 1_000;
    options.limits.bits_per_second = 1_000_000;
    options.limits.duration = Duration::from_secs(10);
    options.limits.packet_bytes = 200;
    options.limits.kept_packets = 2_000;
    options.limits.rolling_packets_per_second = 100;
    let server = Served::with(options);
    let client = server.client();
    let fast = ClientOptions { schedule: FlowSchedule::every(10_000), ..client.clone() };
    assert!(sentence(measure(&fast)).contains("100000 packets/s; at most 1000 here"));
    let large = ClientOptions { packet_bytes: 201, ..client.clone() };
    assert!(sentence(measure(&large)).contains("201 bytes exceed the limit of 200 here"));
    let long = ClientOptions { packets: Some(6_000), directions: Directions::Down, ..client.clone() };
    assert!(sentence(measure(&long)).contains("a flow of 12 s; at most 10 s here"));
    let many = ClientOptions { packets: Some(2_001), ..client.clone() };
    assert!(sentence(measure(&many)).contains("more packets than the sample limit of 2000 here"));
    let rolling = ClientOptions { rolling: true, ..client };
    assert!(sentence(measure(&rolling)).contains("500 packets/s whose samples go back at once"));
    let refused = server.until(|event| matches!(event, ServerEvent::Refused { .. }));
    assert!(refused.to_string().contains("at most"), "{refused}");
    assert_serves(&server);
}

#[test]
fn what_cannot_be_is_said_before_anybody_is_called() {
    let nobody = ClientOptions::new((V4, 1).into());
    for (options, word) in [
        (ClientOptions { packet_bytes: 11, ..nobody.clone() }, "12 bytes"),
        (ClientOptions { packet_bytes: 35, key: key("0123456789abcdef"), ..nobody.clone() }, "36 bytes"),
        (ClientOptions { dscp: 64, ..nobody.clone() }, "63"),
        (ClientOptions { packets: Some(0), ..nobody.clone() }, "at least one"),
        (ClientOptions { packets: None, ..nobody.clone() }, "rolling"),
        (ClientOptions { legacy: true, server: (V6, 1).into(), ..nobody.clone() }, "IPv4"),
        (ClientOptions { legacy: true, rolling: true, ..nobody.clone() }, "rolling"),
        (ClientOptions { legacy: true, directions: Directions::Both, ..nobody.clone() }, "one way"),
    ] {
        let said = sentence(measure(&options));
        assert!(said.contains(word), "{said}");
    }
    let said = sentence(measure(&nobody));
    assert!(said.contains("connect to 127.0.0.1:1") && said.contains("quaver serve"), "{said}");
}

#[test]
fn each_receiver_tells_the_ttl_and_the_dscp_of_its_packets() {
    for at in [V4, V6] {
        let server = Served::at(at);
        let options = ClientOptions { directions: Directions::Both, dscp: 46, ..server.client() };
        let outcome = measure(&options).unwrap();
        for flow in &outcome.flows {
            let receiver = flow.receiver.expect("told");
            let hops = receiver.hops;
            assert_eq!((hops.ttl, hops.changes), (64, 0), "{at}, {:?}", flow.direction);
            assert_eq!(receiver.dscps, DscpChanges::default(), "{at}, {:?}", flow.direction);
        }
    }
}
