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

#[test]
fn a_second_test_waits_and_disturbs_nobody() {
    let server = Served::at(V4);
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
    let server = Served::at(V4);
    let (stop, thread) = occupy(&server);
    let impatient = ClientOptions { queue_patience: Duration::ZERO, ..server.client() };
    assert!(sentence(measure(&impatient)).contains("other tests are under way"));
    stop.store(true, Ordering::Relaxed);
    assert!(thread.join().unwrap().unwrap().is_complete());
    assert_serves(&server);
}

#[test]
fn a_full_queue_refuses_and_an_impatient_server_too() {
    let mut options = options(V4);
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
    options.limits.tests = 2;
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
