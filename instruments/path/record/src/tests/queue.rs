use super::*;

/// Runs a test without end in a thread until told; the thread gives its outcome.
fn occupy(server: &Served) -> (Arc<AtomicBool>, JoinHandle<Result<TestOutcome, PathError>>) {
    let options = ClientOptions { rolling: true, packets: None, rtt_probes: 1, ..server.client() };
    let stop = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&stop);
    let thread = std::thread::spawn(move || run_client(&options, &shared, &mut |_| {}));
    server.until(|event| matches!(event, ServerEvent::Started { .. }));
    (stop, thread)
}

/// A server without room for two.
fn one_at_a_time() -> ServerOptions {
    let mut options = options(V4);
    options.limits.budget.tests = 1;
    options
}

#[test]
fn a_second_test_waits_and_disturbs_nobody() {
    let server = Served::with(one_at_a_time());
    let (stop, thread) = occupy(&server);
    let mut places = Vec::new();
    let outcome = run_client(&server.client(), &AtomicBool::new(false), &mut |progress| {
        if let Progress::Queued { place } = progress {
            places.push(place);
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(outcome.unwrap().is_complete());
    assert_eq!(places, [1]);
    let first = thread.join().unwrap().unwrap();
    assert!(first.is_complete(), "{first:?}");
}

#[test]
fn who_does_not_want_to_wait_is_refused_with_the_reason() {
    let server = Served::with(one_at_a_time());
    let (stop, thread) = occupy(&server);
    let impatient = ClientOptions { queue_patience: Duration::ZERO, ..server.client() };
    assert!(sentence(measure(&impatient)).contains("other tests are under way"));
    stop.store(true, Ordering::Relaxed);
    assert!(thread.join().unwrap().unwrap().is_complete());
    assert_serves(&server);
}

#[test]
fn a_full_queue_refuses_and_an_impatient_server_too() {
    let mut options = one_at_a_time();
    options.limits.queue = 1;
    options.limits.queue_wait = Duration::from_millis(300);
    let server = Served::with(options);
    let (stop, thread) = occupy(&server);
    let waiting = server.client();
    let waits = std::thread::spawn(move || measure(&waiting));
    server.until(|event| matches!(event, ServerEvent::Queued { place: 1, .. }));
    assert!(sentence(measure(&server.client())).contains("other tests are under way"));
    assert!(sentence(waits.join().unwrap()).contains("did not end in time"));
    stop.store(true, Ordering::Relaxed);
    assert!(thread.join().unwrap().unwrap().is_complete());
}

#[test]
fn as_many_as_permitted_measure_at_once_on_one_port() {
    let mut options = options(V4);
    options.limits.budget.tests = 2;
    let server = Served::with(options);
    let (stop, thread) = occupy(&server);
    for transport in [Transport::Udp, Transport::Tcp] {
        let both = ClientOptions { directions: Directions::Both, transport, ..server.client() };
        let outcome = measure(&both).unwrap();
        assert!(outcome.is_complete(), "{outcome:?}");
        outcome.flows.iter().for_each(|flow| assert_all(flow, 100));
    }
    stop.store(true, Ordering::Relaxed);
    let first = thread.join().unwrap().unwrap();
    assert!(first.is_complete(), "{first:?}");
    assert_eq!(first.flows[0].receiver.unwrap().foreign, 0, "its socket is connected");
}

#[test]
fn a_test_without_end_holds_no_place_and_many_measure_at_once() {
    let server = Served::at(V4);
    let (stop, thread) = occupy(&server);
    let ways = [
        (Directions::Up, Transport::Udp, 1),
        (Directions::Down, Transport::Udp, 1),
        (Directions::Both, Transport::Udp, 2),
        (Directions::Both, Transport::Tcp, 2),
    ];
    std::thread::scope(|scope| {
        let all = ways.map(|(directions, transport, flows)| {
            let options = ClientOptions {
                packets: Some(500),
                schedule: FlowSchedule::every(1_000_000),
                queue_patience: Duration::ZERO,
                directions,
                transport,
                ..server.client()
            };
            (scope.spawn(move || measure(&options)), flows)
        });
        for (thread, flows) in all {
            let outcome = thread.join().unwrap().unwrap();
            assert!(outcome.is_complete(), "{outcome:?}");
            assert_eq!(outcome.flows.len(), flows);
            outcome.flows.iter().for_each(|flow| assert_all(flow, 500));
            let receiver = |flow: &FlowOutcome| flow.receiver.map(|receiver| receiver.foreign);
            assert!(outcome.flows.iter().all(|flow| receiver(flow) == Some(0)), "no packet of another test");
        }
    });
    stop.store(true, Ordering::Relaxed);
    assert!(thread.join().unwrap().unwrap().is_complete());
}

#[test]
fn who_stops_ends_its_own_test_and_a_server_that_stops_ends_all() {
    let server = Served::at(V4);
    let (first, second, third) = (occupy(&server), occupy(&server), occupy(&server));
    first.0.store(true, Ordering::Relaxed);
    assert!(first.1.join().unwrap().unwrap().is_complete());
    assert!(measure(&server.client()).unwrap().is_complete());
    assert!(!second.1.is_finished() && !third.1.is_finished(), "nobody stopped them");
    server.stop();
    for (_, thread) in [second, third] {
        let outcome = thread.join().unwrap().unwrap();
        assert!(matches!(outcome.completion, Completion::ServerLost(_)), "{outcome:?}");
        assert!(outcome.flows[0].sender.is_none() || outcome.flows[0].packets_sent() > Some(0));
    }
}

#[test]
fn what_a_peer_can_never_have_is_refused_at_once() {
    let mut options = options(V4);
    options.limits.budget.share_packets_per_second = 499;
    let server = Served::with(options);
    assert!(sentence(measure(&server.client())).contains("one peer has at most 499 packets/s"));
    let slower = ClientOptions { schedule: FlowSchedule::every(2_100_000), ..server.client() };
    assert!(measure(&slower).unwrap().is_complete());
}

#[test]
fn both_ways_at_once_are_one_test_and_overlap() {
    let server = Served::at(V4);
    let options = ClientOptions {
        packets: Some(500),
        schedule: FlowSchedule::every(1_000_000),
        directions: Directions::AtOnce,
        ..server.client()
    };
    let mut samples = [0, 0];
    let outcome = run_client(&options, &AtomicBool::new(false), &mut |progress| {
        if let Progress::Samples { direction, samples: rows } = progress {
            samples[usize::from(direction == Direction::Down)] += rows.len();
        }
    });
    let outcome = outcome.unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    let [up, down] = &outcome.flows[..] else { panic!("two flows: {outcome:?}") };
    assert_eq!((up.direction, down.direction), (Direction::Up, Direction::Down));
    outcome.flows.iter().for_each(|flow| assert_all(flow, 500));
    assert_eq!(samples, [500, 500]);
    let sent =
        |flow: &FlowOutcome| flow.singletons.iter().map(|one| one.tx_real_time_ns).collect::<BTreeSet<_>>();
    let (up, down) = (sent(up), sent(down));
    assert!(up.first() < down.last() && down.first() < up.last(), "half a second each, at the same time");
    // Who stops ends both.
    let endless = ClientOptions { packets: None, rolling: true, ..options };
    let stop = AtomicBool::new(false);
    let outcome = run_client(&endless, &stop, &mut |progress| {
        stop.fetch_or(matches!(progress, Progress::Samples { .. }), Ordering::Relaxed);
    });
    let outcome = outcome.unwrap();
    assert!(outcome.is_complete() && outcome.flows.len() == 2, "{outcome:?}");
}

#[test]
fn who_stops_while_one_way_waits_does_not_wait_for_it() {
    let mut options = options(V4);
    options.limits.budget.tests = 2;
    let server = Served::with(options);
    let (stop_first, first) = occupy(&server);
    let stop = AtomicBool::new(false);
    let at_once = ClientOptions { directions: Directions::AtOnce, ..server.client() };
    let mut queued = false;
    let outcome = run_client(&at_once, &stop, &mut |progress| {
        queued |= matches!(progress, Progress::Queued { place: 1 });
        stop.fetch_or(queued, Ordering::Relaxed);
    });
    assert!(queued, "there was room for one way only: {outcome:?}");
    assert!(!outcome.is_ok_and(|outcome| outcome.is_complete()));
    stop_first.store(true, Ordering::Relaxed);
    assert!(first.join().unwrap().unwrap().is_complete());
}

#[test]
fn both_ways_at_once_fail_together() {
    let mut options = options(V4);
    options.limits.tests_per_peer = 1;
    let server = Served::with(options);
    let at_once = ClientOptions { directions: Directions::AtOnce, ..server.client() };
    assert!(sentence(measure(&at_once)).contains("1 test under way"));
    // The one that was let in leaves at its own time.
    server.until(|event| matches!(event, ServerEvent::Closed { .. } | ServerEvent::BrokenOff { .. }));
    assert_serves(&server);
}
