//! Sessions over loopback.

use crate::stamp::{
    Caps, Evidence, Protection, ReflectorEvent, ReflectorOptions, ReflectorTotals, Refusal, Requests,
    SenderOptions, StampKey, StampOutcome, StampProgress, TimestampFormat, ZeroSsid, reflect, send_session,
};
use quaver_abi::wire::stamp::{Mode, ReflectorPacket};
use quaver_path_flow::LatePolicy;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn options(address: IpAddr) -> ReflectorOptions {
    ReflectorOptions { bind: SocketAddr::new(address, 0), ..ReflectorOptions::default() }
}

/// Runs `work` beside a reflector; what work gave, what the reflector did and told.
fn beside<T>(
    options: &ReflectorOptions,
    work: impl FnOnce(SocketAddr) -> T,
) -> (T, ReflectorTotals, Vec<ReflectorEvent>) {
    let stop = AtomicBool::new(false);
    let (send, events) = channel();
    thread::scope(|scope| {
        let reflector = scope.spawn(|| {
            reflect(options, &stop, &mut |event| {
                let _ = send.send(event);
            })
        });
        let address = match events.recv().expect("the first event, or the reflector's thread is gone") {
            ReflectorEvent::Listening { address, .. } => address,
            event => panic!("{event} before listening"),
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(address)));
        stop.store(true, Ordering::Relaxed);
        let totals = reflector.join().expect("no panic").expect("it was listening");
        match result {
            Ok(result) => (result, totals, events.try_iter().collect()),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn sender(target: SocketAddr) -> SenderOptions {
    SenderOptions { count: Some(20), period_ns: 1_000_000, ssid: 77, ..SenderOptions::new(target) }
}

fn run(options: &SenderOptions) -> StampOutcome {
    send_session(options, &AtomicBool::new(false), &mut |_| {}).expect("a session")
}

fn everything() -> Requests {
    Requests {
        location: true,
        timestamp_information: true,
        class_of_service: Some(10),
        direct_measurement: true,
        follow_up: true,
        access_report: Some((2, 1)),
    }
}

#[test]
fn a_session_measures_both_ways() {
    for address in [V4, V6] {
        let (outcome, totals, events) = beside(&options(address), |target| run(&sender(target)));
        assert!(outcome.complete);
        assert_eq!((outcome.packets.len(), outcome.lost(), outcome.foreign), (20, 0, 0));
        assert_eq!((totals.received, totals.reflected, totals.refused), (20, 20, [0; 7]));
        assert_eq!(outcome.directions.evidence, Evidence::NothingLost);
        assert_eq!(outcome.packet_bytes, 44);
        let peer = outcome.local;
        assert!(events.contains(&ReflectorEvent::Session { peer, ssid: 77 }), "{events:?}");
        for (packet, number) in outcome.packets.iter().zip(0u32..) {
            let reply = packet.reply.expect("nothing was lost");
            assert_eq!((packet.sequence, reply.reflector_sequence), (u64::from(number), number));
            // One clock on both ends.
            let times = [packet.t1_ns, reply.t2_ns, reply.t3_ns, reply.t4_ns];
            assert!(times.is_sorted() || !outcome.clock_steps.is_empty(), "{times:?}");
            assert_eq!(reply.forward_ttl, 64);
            assert_eq!(reply.backward_ttl, Some(64));
            let sum = (reply.t2_ns - packet.t1_ns) + reply.backward_ns();
            assert_eq!(reply.round_trip_ns(packet.t1_ns), sum);
        }
    }
}

#[test]
fn all_tlvs_are_answered_in_all_modes() {
    let key = || StampKey::new(b"a key of some bytes").expect("long enough");
    for protection in [Protection::None, Protection::Tlvs(key()), Protection::All(key())] {
        for address in [V4, V6] {
            for format in [TimestampFormat::Ntp, TimestampFormat::Ptp] {
                let reflector =
                    ReflectorOptions { protection: protection.clone(), format, ..options(address) };
                let (outcome, _, _) = beside(&reflector, |target| {
                    let protection = protection.clone();
                    run(&SenderOptions {
                        protection,
                        format,
                        requests: everything(),
                        dscp: 46,
                        packet_bytes: Some(400),
                        ..sender(target)
                    })
                });
                judge(&outcome, address);
            }
        }
    }
}

fn judge(outcome: &StampOutcome, address: IpAddr) {
    assert_eq!((outcome.lost(), outcome.wrong_hmac, outcome.flagged, outcome.packet_bytes), (0, 0, 0, 400));
    let located = outcome.location.expect("asked for");
    assert_eq!(located.source, (Some(address), outcome.local.port()));
    assert_eq!(located.destination, (Some(address), outcome.target.port()));
    assert_eq!(outcome.timestamp_information.expect("asked for").method_in, 2);
    for (packet, number) in outcome.packets.iter().zip(1u32..) {
        let reply = packet.reply.expect("nothing was lost");
        assert_eq!((reply.t4_ns - packet.t1_ns) / 3_000_000_000, 0, "eras and formats agree");
        let service = reply.class_of_service.expect("asked for");
        assert_eq!((service.wanted_dscp, service.received_dscp, service.reverse_path), (10, 46, 0));
        assert_eq!(reply.backward_dscp, 10);
        let counters = reply.direct_measurement.expect("asked for");
        assert_eq!(
            (counters.sender_transmitted, counters.reflector_received, counters.reflector_transmitted),
            (number, number, number)
        );
        let follow_up = reply.follow_up.expect("asked for");
        assert_eq!(follow_up.sequence, number.saturating_sub(2));
        assert_eq!(follow_up.timestamp == 0, number == 1);
    }
}

#[test]
fn a_wrong_key_gets_silence() {
    let key = |text: &[u8]| Protection::All(StampKey::new(text).expect("long enough"));
    let reflector = ReflectorOptions { protection: key(b"the reflector's key"), ..options(V4) };
    let (outcome, totals, _) = beside(&reflector, |target| {
        run(&SenderOptions {
            protection: key(b"some other key, alas"),
            loss_timeout_ns: 50_000_000,
            ..sender(target)
        })
    });
    assert_eq!((outcome.lost(), outcome.directions.undecided), (20, 20));
    assert_eq!((totals.reflected, totals.refused[Refusal::WrongHmac as usize]), (0, 20));
}

#[test]
fn an_ipv6_wildcard_answers_ipv4_from_the_address_that_was_asked() {
    let reflector = options(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let (outcomes, _, _) = beside(&reflector, |bound| {
        let other = IpAddr::V4(Ipv4Addr::new(127, 9, 8, 7));
        [V4, V6, other].map(|address| {
            let requests = everything();
            run(&SenderOptions { requests, dscp: 46, ..sender(SocketAddr::new(address, bound.port())) })
        })
    });
    for outcome in outcomes {
        // The sender's socket is connected: replies from another address would not be received.
        assert_eq!(outcome.lost(), 0, "{}", outcome.target);
        let located = outcome.location.expect("asked for");
        assert_eq!(located.destination.0, Some(outcome.target.ip()));
        let service = outcome.packets[0].reply.and_then(|reply| reply.class_of_service).expect("asked for");
        assert_eq!(service.received_dscp, 46, "{}", outcome.target);
        assert_eq!(outcome.packets[0].reply.expect("answered").forward_ttl, 64);
    }
}

/// Sends the sender's packets through a hand that drops on either way; who was dropped where.
fn through_a_lossy_hand(stateful: bool, keep_packets: bool) -> StampOutcome {
    let reflector = ReflectorOptions { stateful, ..options(V4) };
    let (outcome, _, _) = beside(&reflector, |target| {
        let hand = UdpSocket::bind((V4, 0)).expect("a port");
        let address = hand.local_addr().expect("bound");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| lossy_hand(&hand, target, &over));
            let outcome =
                run(&SenderOptions { keep_packets, loss_timeout_ns: 300_000_000, ..sender(address) });
            over.store(true, Ordering::Relaxed);
            outcome
        })
    });
    outcome
}

/// Drops packets 3, 4 and 11 there, and the replies to 6 and 15 back; sends 8 twice there, and 9's reply twice back.
fn lossy_hand(hand: &UdpSocket, target: SocketAddr, over: &AtomicBool) {
    hand.set_read_timeout(Some(std::time::Duration::from_millis(20))).expect("a time-out");
    let mut sender = None;
    let mut buffer = [0; 2048];
    while !over.load(Ordering::Relaxed) {
        let Ok((length, from)) = hand.recv_from(&mut buffer) else { continue };
        let octets = &buffer[..length];
        let (to, number) = if from == target {
            let reply = ReflectorPacket::read(Mode::Unauthenticated, octets).expect("a reply");
            (sender.expect("somebody asked"), reply.sender_sequence)
        } else {
            sender = Some(from);
            (target, u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]))
        };
        let copies = match (from == target, number) {
            (false, 3 | 4 | 11) | (true, 6 | 15) => 0,
            (false, 8) | (true, 9) => 2,
            _ => 1,
        };
        for _ in 0..copies {
            hand.send_to(octets, to).expect("loopback");
        }
    }
}

#[test]
fn losses_are_told_apart_by_a_stateful_reflector() {
    let outcome = through_a_lossy_hand(true, true);
    let counts = outcome.directions;
    assert_eq!(outcome.lost(), 5);
    assert_eq!(counts.evidence, Evidence::ReflectorSequence);
    assert_eq!((counts.forward_lost, counts.backward_lost, counts.undecided), (Some(3), Some(2), 0));
    assert_eq!((counts.forward_duplicates, counts.backward_duplicates), (1, 1));
    assert_eq!(outcome.replies.len(), 17);
    // The reply to the copy of 8, and the copy of the reply to 9.
    let further: Vec<u64> = outcome.further.iter().map(|packet| packet.sequence).collect();
    assert_eq!(further, [8, 9]);
}

#[test]
fn a_packet_is_lost_once_its_time_is_over_and_no_earlier() {
    let timeout_ns = 300_000_000;
    let hand = UdpSocket::bind((V4, 0)).expect("a port");
    // Nobody answers there.
    let target = hand.local_addr().expect("bound");
    let options = SenderOptions { loss_timeout_ns: timeout_ns, keep_packets: false, ..sender(target) };
    let (begun, mut told) = (std::time::Instant::now(), Vec::new());
    let outcome = send_session(&options, &AtomicBool::new(false), &mut |progress| {
        if let StampProgress::Tick { sent, lost } = progress {
            told.push((begun.elapsed().as_nanos() as u64, sent, lost));
        }
    });
    assert_eq!(outcome.expect("a session").lost(), 20);
    assert!(told.iter().all(|(at_ns, sent, lost)| lost <= sent && (*lost == 0 || *at_ns > timeout_ns)));
    assert!(told.windows(2).all(|pair| pair[0].2 <= pair[1].2));
    assert_eq!(told.last().map(|(_, sent, lost)| (*sent, *lost)), Some((20, 20)));
}

#[test]
fn replies_that_found_no_room_here_are_no_loss_of_the_path() {
    const COPIES: u64 = 60_000;
    let (outcome, _, _) = beside(&options(V4), |target| {
        let hand = UdpSocket::bind((V4, 0)).expect("a port");
        let options = SenderOptions {
            count: Some(2),
            loss_timeout_ns: 300_000_000,
            ..sender(hand.local_addr().expect("bound"))
        };
        let ((answered, flood), (flooded, over)) = (channel(), channel());
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut buffer = [0; 2048];
                let (length, from) = hand.recv_from(&mut buffer).expect("the first packet");
                hand.send_to(&buffer[..length], target).expect("loopback");
                let length = std::iter::repeat_with(|| hand.recv_from(&mut buffer).expect("a packet"))
                    .find_map(|(length, from)| (from == target).then_some(length))
                    .expect("an endless row");
                hand.send_to(&buffer[..length], from).expect("loopback");
                flood.recv().expect("the first reply came");
                for _ in 0..COPIES {
                    hand.send_to(&buffer[..length], from).expect("loopback");
                }
                flooded.send(()).expect("somebody waits");
            });
            let mut first = true;
            send_session(&options, &AtomicBool::new(false), &mut |progress| {
                if matches!(progress, StampProgress::Answered { .. }) && std::mem::take(&mut first) {
                    answered.send(()).expect("the hand waits");
                    over.recv().expect("the hand sends");
                }
            })
            .expect("a session")
        })
    });
    let dropped = outcome.own_drops.expect("this kernel tells");
    assert_eq!(outcome.replies.len() as u64 + dropped, 1 + COPIES);
    assert!(dropped > 0, "the buffer took all");
}

#[test]
fn losses_are_told_apart_where_no_packet_is_kept() {
    let outcome = through_a_lossy_hand(true, false);
    assert_eq!((outcome.sent, outcome.lost(), outcome.packets.len(), outcome.replies.len()), (20, 5, 0, 0));
    assert_eq!(outcome.directions, through_a_lossy_hand(true, true).directions);
}

#[test]
fn a_long_session_remembers_two_time_outs_of_packets_only() {
    let (mut heard, mut next) = (0, None);
    let (outcome, totals, _) = beside(&options(V4), |target| {
        let options = SenderOptions {
            count: Some(6_000),
            period_ns: 100_000,
            late: LatePolicy::Skip,
            loss_timeout_ns: 20_000_000,
            keep_packets: false,
            ..sender(target)
        };
        send_session(&options, &AtomicBool::new(false), &mut |progress| {
            if let StampProgress::Answered { packet, reflected, first } = progress {
                heard += 1;
                assert!(first, "nothing comes twice");
                assert_eq!(reflected, packet.sequence, "nothing is lost on the way there");
                assert!(next.replace(reflected) < Some(reflected));
            }
        })
        .expect("a session")
    });
    assert_eq!((outcome.sent, totals.received, outcome.packets.len()), (6_000, 6_000, 0));
    assert_eq!(outcome.answered, heard);
    // No burst is ever sent, so 40 ms hold 400 packets and those at its ends.
    assert!(outcome.most_remembered <= 402, "{}", outcome.most_remembered);
    assert!(outcome.complete);
}

#[test]
fn losses_are_not_told_apart_by_a_stateless_reflector() {
    let outcome = through_a_lossy_hand(false, true);
    assert_eq!(outcome.lost(), 5);
    assert_eq!(outcome.directions.evidence, Evidence::None);
    assert_eq!((outcome.directions.forward_lost, outcome.directions.undecided), (None, 5));
    assert_eq!(outcome.directions.backward_duplicates, 2, "a reply to a duplicate looks like a duplicate");
}

#[test]
fn rates_are_capped_and_said() {
    let caps = Caps { packets_per_second_per_peer: 5, ..Caps::default() };
    let reflector = ReflectorOptions { caps, ..options(V4) };
    let (outcome, totals, events) =
        beside(&reflector, |target| run(&SenderOptions { loss_timeout_ns: 100_000_000, ..sender(target) }));
    // A burst of one second's worth, and at most one more in the twenty milliseconds or so that it takes, or more
    // where this machine is slow.
    assert!(totals.reflected >= 5, "{totals:?}");
    assert_eq!(totals.reflected + totals.refused[Refusal::PeerRate as usize], totals.received);
    assert_eq!(outcome.packets.len() as u64 - outcome.lost(), totals.reflected);
    let peer = outcome.local;
    assert!(events.contains(&ReflectorEvent::Refused { peer, refusal: Refusal::PeerRate }));
}

#[test]
fn what_is_short_or_could_loop_gets_silence() {
    let (_, totals, events) = beside(&options(V4), |target| {
        let socket = UdpSocket::bind((V4, 0)).expect("a port");
        for length in [0, 1, 14, 40] {
            socket.send_to(&vec![1; length], target).expect("loopback");
        }
        // The port of the reflector at another address, as another reflector would have it.
        let mirror = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), target.port())).expect("the port");
        mirror.send_to(&[1; 44], target).expect("loopback");
        // An answered packet is the sign that all before it were seen.
        assert_eq!(run(&SenderOptions { count: Some(1), ..sender(target) }).lost(), 0);
    });
    assert_eq!((totals.received, totals.reflected), (6, 1));
    assert_eq!((totals.refused[Refusal::Short as usize], totals.refused[Refusal::Looping as usize]), (4, 1));
    assert_eq!(events.len(), 6, "{events:?}");
}

#[test]
fn a_reflector_without_session_identifiers_is_measured_or_left() {
    let answer_zero = |policy: ZeroSsid| {
        let peer = UdpSocket::bind((V4, 0)).expect("a port");
        let target = peer.local_addr().expect("bound");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                peer.set_read_timeout(Some(std::time::Duration::from_millis(20))).expect("a time-out");
                let mut buffer = [0; 256];
                while !over.load(Ordering::Relaxed) {
                    let Ok((length, from)) = peer.recv_from(&mut buffer) else { continue };
                    let request = buffer[..length].to_vec();
                    // As TWAMP Light has it: number, T3, error, nothing, T2, then the request's head.
                    buffer[14..16].fill(0);
                    buffer[16..24].copy_from_slice(&request[4..12]);
                    buffer[24..38].copy_from_slice(&request[..14]);
                    buffer[40] = 255;
                    peer.send_to(&buffer[..length], from).expect("loopback");
                }
            });
            let outcome = run(&SenderOptions { zero_ssid: policy, ..sender(target) });
            over.store(true, Ordering::Relaxed);
            outcome
        })
    };
    let measured = answer_zero(ZeroSsid::Continue);
    assert!(measured.zero_ssid && measured.complete);
    assert_eq!(measured.lost(), 0);
    let left = answer_zero(ZeroSsid::Stop);
    assert!(left.zero_ssid && !left.complete);
}

#[test]
fn a_session_that_is_stopped_keeps_what_it_had() {
    let (outcome, _, _) = beside(&options(V4), |target| {
        let stop = AtomicBool::new(false);
        let mut answered = 0;
        let options = SenderOptions { count: None, ..sender(target) };
        send_session(&options, &stop, &mut |progress| {
            if let StampProgress::Answered { .. } = progress {
                answered += 1;
                stop.store(answered == 5, Ordering::Relaxed);
            }
        })
        .expect("a session")
    });
    assert!(!outcome.complete);
    assert!(outcome.packets.len() as u64 - outcome.lost() >= 5);
}

#[test]
fn options_that_cannot_be_are_refused_with_a_sentence() {
    let target = SocketAddr::new(V4, 9);
    let refused = |options: SenderOptions| {
        let error = send_session(&options, &AtomicBool::new(true), &mut |_| {}).expect_err("it cannot be");
        error.to_string()
    };
    let size = |bytes| SenderOptions { packet_bytes: Some(bytes), ..sender(target) };
    for bytes in [0, 43, 45, 47, 65_508] {
        assert!(refused(size(bytes)).contains("cannot be"), "{bytes}");
    }
    assert!(refused(SenderOptions { count: Some(0), ..sender(target) }).contains("at least one"));
    assert!(refused(SenderOptions { dscp: 64, ..sender(target) }).contains("0 to 63"));
    assert!(refused(SenderOptions { period_ns: 999, ..sender(target) }).contains("1000 or more"));
    let taken = UdpSocket::bind((V4, 0)).expect("a port");
    let bind = taken.local_addr().expect("bound");
    let error = reflect(&ReflectorOptions { bind, ..options(V4) }, &AtomicBool::new(true), &mut |_| {});
    assert!(error.expect_err("it is taken").to_string().contains("choose another port"));
}

#[test]
fn late_packets_go_or_are_skipped_as_asked() {
    // The sender's thread does something else for 40 of its 100 slots.
    let stalled = |late: LatePolicy| {
        let (outcome, ..) = beside(&options(V4), |target| {
            let slots =
                SenderOptions { count: Some(100), lasting_ns: Some(100_000_000), late, ..sender(target) };
            let mut answers = 0;
            send_session(&slots, &AtomicBool::new(false), &mut |progress| {
                answers += u64::from(matches!(progress, StampProgress::Answered { .. }));
                if answers == 5 {
                    answers += 1;
                    thread::sleep(std::time::Duration::from_millis(40));
                }
            })
            .expect("a session")
        });
        assert!(outcome.complete && outcome.lost() == 0, "{outcome:?}");
        assert!(
            outcome.lateness.largest_ns >= 30_000_000 || late == LatePolicy::Skip,
            "{:?}",
            outcome.lateness
        );
        outcome
    };
    let skipped = stalled(LatePolicy::Skip);
    assert!(skipped.skipped >= 35 && skipped.sent <= 65 && skipped.sent_late == 0, "{skipped:?}");
    for late in [LatePolicy::SendLate, LatePolicy::Burst] {
        let sent = stalled(late);
        assert_eq!((sent.skipped, sent.sent + sent.unsent), (0, 100), "{late:?}");
        assert!(sent.sent_late >= 20, "{late:?}: {}", sent.sent_late);
    }
}

#[test]
fn short_packets_are_answered_to_named_peers_alone() {
    let named = ReflectorOptions { short_from: vec![V4], ..options(V4) };
    let ((), totals, _) = beside(&named, |target| {
        for (from, answered) in [("127.0.0.1", true), ("127.0.0.2", false)] {
            let socket = UdpSocket::bind((from, 0)).unwrap();
            socket.connect(target).unwrap();
            // Number 7, a time, an error estimate: all that TWAMP Light must send.
            let request = [0, 0, 0, 7, 0xe8, 0, 0, 1, 2, 3, 4, 5, 0, 1];
            for length in [13, 14, 30] {
                let octets: Vec<u8> = request.iter().copied().chain([0; 16]).take(length).collect();
                socket.send(&octets).unwrap();
            }
            let mut reply = [0; 100];
            for _ in 0..if answered { 2 } else { 0 } {
                assert_eq!(socket.recv(&mut reply).unwrap(), 41, "the least that a reply has");
                assert_eq!(reply[24..38], request, "number, time and estimate of the request");
            }
            // What is long enough is answered to anybody, after all that was sent before.
            socket.send(&[0; 44]).unwrap();
            assert_eq!(socket.recv(&mut reply).unwrap(), 44);
        }
    });
    assert_eq!((totals.received, totals.reflected, totals.refused[Refusal::Short as usize]), (8, 4, 4));
}

#[test]
fn replies_of_another_length_are_counted() {
    // A reflector of TWAMP Light that ends its replies at will.
    let reply_of = |length: usize| {
        let reflector = UdpSocket::bind((V4, 0)).unwrap();
        let target = reflector.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let mut octets = [0; 200];
            for _ in 0..20 {
                let (_, from) = reflector.recv_from(&mut octets).unwrap();
                let request: Vec<u8> = octets[..14].to_vec();
                octets[24..38].copy_from_slice(&request);
                octets[16..24].copy_from_slice(&request[4..12]);
                reflector.send_to(&octets[..length], from).unwrap();
            }
        });
        let short = SenderOptions { loss_timeout_ns: 200_000_000, ssid: 0, ..sender(target) };
        let outcome = run(&short);
        thread.join().unwrap();
        (outcome.answered, outcome.short, outcome.other_length, outcome.foreign)
    };
    assert_eq!(reply_of(44), (20, 0, 0, 0));
    assert_eq!(reply_of(41), (20, 0, 20, 0));
    assert_eq!(reply_of(60), (20, 0, 20, 0));
    assert_eq!(reply_of(40), (0, 20, 0, 0));
}
