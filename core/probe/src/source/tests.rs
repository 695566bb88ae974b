use super::*;
use crate::schedule::Schedule;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Instant;
use tempfile::TempDir;

fn options(to: SocketAddr, length: StreamLength, pace: Pace) -> SourceOptions {
    let profile = Profile::plain(64, Schedule::every(1_000_000, 1).unwrap()).unwrap();
    SourceOptions { pace, ..SourceOptions::new(to, profile, length, Counter::Hardware) }
}

fn start(options: SourceOptions, directory: &TempDir) -> RunningSource {
    let segment = SegmentWriter::create(&directory.path().join("sends"), 1_000).unwrap();
    Source::open(options).unwrap().prepare(segment).unwrap().go()
}

fn receiver() -> (UdpSocket, SocketAddr) {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = receiver.local_addr().unwrap();
    (receiver, address)
}

#[test]
fn each_pace_sends_what_was_asked_for_never_early() {
    let (_receiver, to) = receiver();
    for pace in [Pace::Spin, Pace::Sleep, Pace::Hybrid] {
        let directory = TempDir::new().unwrap();
        let outcome = start(options(to, StreamLength::Packets(20), pace), &directory).join().unwrap();
        let report = outcome.report;
        assert_eq!((report.packets, report.sent, outcome.segment.len()), (20, 20, 20), "{}", pace.name());
        assert!(report.mean_lateness_ns.unwrap() >= 0.0 && report.worst_lateness_ns >= 0);
        assert!(report.drift_ppm.is_some());
        assert!(report.last_deadline_ns >= report.start_ns + 19_000_000);
    }
}

#[test]
fn a_stream_ends_with_its_time() {
    let (_receiver, to) = receiver();
    let directory = TempDir::new().unwrap();
    let options = options(to, StreamLength::Lasting(Duration::from_millis(20)), Pace::Sleep);
    assert_eq!(options.packets(), Some(20), "slots at 0 to 19 ms");
    let report = start(options, &directory).join().unwrap().report;
    assert_eq!(report.packets + report.misses, 20);
    assert_eq!(options_packets(StreamLength::Lasting(Duration::ZERO)), Some(0));
    assert_eq!(options_packets(StreamLength::Lasting(Duration::from_nanos(1))), Some(1));
    assert_eq!(options_packets(StreamLength::UntilStopped), None);
}

fn options_packets(length: StreamLength) -> Option<u64> {
    options((Ipv4Addr::LOCALHOST, 9).into(), length, Pace::Spin).packets()
}

#[test]
fn a_stop_ends_every_pace_however_long_the_period() {
    let (_receiver, to) = receiver();
    for pace in [Pace::Spin, Pace::Sleep, Pace::Hybrid] {
        let directory = TempDir::new().unwrap();
        let mut options = options(to, StreamLength::UntilStopped, pace);
        options.profile.schedule = Schedule::every(3_600_000_000_000, 1).unwrap();
        let source = start(options, &directory);
        let end = Instant::now() + Duration::from_secs(20);
        while source.live().sent() < 1 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!source.is_finished());
        source.stop();
        let report = source.join().unwrap().report;
        assert_eq!((report.packets, report.misses), (1, 0), "{}", pace.name());
    }
}

#[test]
fn a_destination_that_refuses_is_counted_and_not_fatal() {
    let (receiver, to) = receiver();
    drop(receiver);
    let directory = TempDir::new().unwrap();
    let report =
        start(options(to, StreamLength::Packets(20), Pace::Sleep), &directory).join().unwrap().report;
    assert_eq!((report.packets, report.sent), (20, 20), "each is sent after the refusal of the one before");
    assert!(report.refused > 0);
}

#[test]
fn sends_that_fail_are_counted_by_error_number() {
    let (_receiver, to) = receiver();
    let directory = TempDir::new().unwrap();
    let source = Source::open(options(to, StreamLength::Packets(3), Pace::Sleep)).unwrap();
    source.socket.shutdown(std::net::Shutdown::Write).unwrap();
    let segment = SegmentWriter::create(&directory.path().join("sends"), 3).unwrap();
    let report = source.prepare(segment).unwrap().go().join().unwrap().report;
    assert_eq!((report.packets, report.sent), (3, 0));
    assert_eq!(report.failed, [(libc::EPIPE, 3)].into());
}

#[test]
fn txtime_wants_a_queueing_discipline_that_keeps_it() {
    let outcome =
        Source::open(options((Ipv4Addr::LOCALHOST, 9).into(), StreamLength::Packets(1), Pace::Txtime));
    let Err(error @ ProbeError::NotSupported { .. }) = outcome else { panic!("{outcome:?}") };
    let message = error.to_string();
    assert!(message.contains("noqueue") && message.contains("tc qdisc replace"), "{message}");
}

#[test]
fn an_address_of_another_host_is_a_clear_error() {
    let mut options = options((Ipv4Addr::LOCALHOST, 9).into(), StreamLength::Packets(1), Pace::Spin);
    options.socket.bind = Some((Ipv4Addr::new(203, 0, 113, 1), 0).into());
    let message = Source::open(options).unwrap_err().to_string();
    assert!(
        message.contains("bind the source to 203.0.113.1:0") && message.contains("ip address"),
        "{message}"
    );
}
