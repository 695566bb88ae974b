//! How a flow is sent, as the two ends agree on it: late packets, its time, trains; and with peers that know nothing of it.

use super::*;
use quaver_path_flow::{LatePolicy, TrainWish};
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn a_time_ends_both_ways_and_what_was_sent_in_it_is_all() {
    let server = Served::at(V4);
    let lasting = Some(Duration::from_secs(1));
    for schedule in [FlowSchedule::every(10_000_000), FlowSchedule::Poisson { mean_ns: 10_000_000, seed: 9 }]
    {
        let due = schedule.offsets().take_while(|due_ns| *due_ns < 1_000_000_000).count() as u64;
        let directions = Directions::Both;
        let options =
            ClientOptions { directions, lasting, schedule, packets: Some(100_000), ..server.client() };
        let outcome = measure(&options).unwrap();
        assert!(outcome.is_complete(), "{outcome:?}");
        assert_eq!(outcome.flows.len(), 2);
        for flow in &outcome.flows {
            let (sender, sending) = (flow.sender.unwrap(), flow.sender.unwrap().sending.unwrap());
            assert!(sending.finished && sending.late_policy == LatePolicy::usual(&flow.schedule));
            assert_eq!((sender.packets + sending.unsent, sender.misses), (due, 0));
            assert_all(flow, sender.packets as usize);
        }
    }
}

#[test]
fn each_end_does_with_late_packets_what_the_client_chose() {
    let server = Served::at(V4);
    for late in LatePolicy::ALL {
        let options = ClientOptions { directions: Directions::Both, late: Some(late), ..server.client() };
        let outcome = measure(&options).unwrap();
        assert!(outcome.is_complete(), "{outcome:?}");
        for flow in &outcome.flows {
            let sender = flow.sender.unwrap();
            assert_eq!((sender.sending.unwrap().late_policy, sender.packets), (late, 100));
            assert!(sender.misses == 0 || late == LatePolicy::Skip);
        }
    }
}

#[test]
fn trains_are_agreed_on_and_their_packets_marked_at_both_ends() {
    let server = Served::at(V4);
    let (train, schedule) = (TrainWish::Packets(8), FlowSchedule::every(100_000));
    let options = ClientOptions {
        directions: Directions::Both,
        train,
        schedule,
        packets: Some(404),
        ..server.client()
    };
    let mut marked = [0; 2];
    let outcome = run_client(&options, &AtomicBool::new(false), &mut |progress| {
        if let Progress::Samples { direction, samples } = progress {
            let of_train = samples.iter().filter(|received| received.of_train).count();
            marked[usize::from(direction == Direction::Down)] += of_train;
        }
    });
    let outcome = outcome.unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    for (flow, marked) in outcome.flows.iter().zip(marked) {
        let sending = flow.sender.unwrap().sending.unwrap();
        assert_eq!((sending.longest_train, sending.train_packets), (8, 404), "{:?}", flow.send_report);
        assert_eq!((flow.receiver.unwrap().of_trains, marked), (404, 404));
        assert_all(flow, 404);
    }
    let impossible = ClientOptions { late: Some(LatePolicy::Skip), directions: Directions::Down, ..options };
    assert!(sentence(measure(&impossible)).contains("late ones are skipped"));
    assert_serves(&server);
}

/// Type and length of a SENDING field, and of one that nobody knows and that need not be known.
const SENDING: [u8; 4] = [0x00, 0x19, 0x00, 0x10];
const UNKNOWN: [u8; 4] = [0x00, 0x77, 0x00, 0x10];

/// A way to the server's control port on which neither end hears how the other would have the flow sent: to each, the
/// other is of an earlier version.
fn way_of_an_earlier_version(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((V4, 0)).unwrap();
    let here = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(server).unwrap();
        for (mut from, mut to) in
            [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
        {
            std::thread::spawn(move || {
                let mut octets = vec![0; 1 << 16];
                while let Ok(read @ 1..) = from.read(&mut octets) {
                    let at = octets[..read].windows(4).position(|field| field == SENDING);
                    at.into_iter().for_each(|at| octets[at..at + 4].copy_from_slice(&UNKNOWN));
                    if to.write_all(&octets[..read]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    here
}

#[test]
fn with_a_peer_of_an_earlier_version_packets_go_alone_and_the_time_is_kept_by_the_client() {
    let server = Served::at(V4);
    let lasting = Some(Duration::from_secs(1));
    for directions in [Directions::Up, Directions::Down] {
        let options = ClientOptions {
            directions,
            lasting,
            train: TrainWish::Packets(8),
            // Half a minute by its packets.
            packets: Some(30_000),
            schedule: FlowSchedule::every(1_000_000),
            server: way_of_an_earlier_version(server.control),
            ..server.client()
        };
        let outcome = measure(&options).unwrap();
        let flow = &outcome.flows[0];
        assert!(outcome.is_complete(), "{outcome:?}");
        assert!(flow.rows > 0 && flow.rows < 20_000, "its time ended it: {}", flow.rows);
        assert_all(flow, flow.rows as usize);
        let sending = flow.sender.unwrap().sending.unwrap();
        let up = directions == Directions::Up;
        // A sender here needs no receiver that knows of trains.
        assert_eq!((sending.longest_train, sending.finished), if up { (8, true) } else { (0, false) });
        assert_eq!(flow.receiver.unwrap().of_trains, 0, "who takes no trains gets each packet alone");
    }
}
