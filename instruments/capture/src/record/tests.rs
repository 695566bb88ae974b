//! Captures in namespaces that the tests make.

use super::*;
use crate::pipeline;
use crate::pipeline::{Convert, PipelineKind, PipelineSettings};
use quaver_abi::stamp::{Layer, LayerStamp, StampClock};
use quaver_clock::Counter;
use quaver_host::netns::Lab;
use quaver_host::settings::{Applied, Change, TuneError};
use quaver_probe::thread::ThreadSettings;
pub(super) use quaver_testbed::privileged::privileged;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy host.
const LONG: Duration = Duration::from_secs(30);

/// No interface here has stamps of its own to be switched on.
fn nothing_set(change: &Change) -> Result<Applied, TuneError> {
    unreachable!("{change:?}")
}

/// Cycles as they are.
#[derive(Clone)]
struct Unconverted;

impl Convert for Unconverted {
    fn layer_stamp(&self, cycles: u64) -> LayerStamp {
        LayerStamp { clock: StampClock::Cycles, time_ns: cycles as i64, bound_ns: u32::MAX, epoch: 0 }
    }
}

fn begin(taps: Vec<Tap>) -> (Reading, Blocks) {
    let settings = PipelineSettings::new(PipelineKind::Batch, Counter::Hardware);
    let (stamper, _resolver) = pipeline::start(&settings, Unconverted).unwrap();
    start(taps, vec![stamper], &ThreadSettings::default(), None, 1).unwrap()
}

/// Sends `sizes` from the lab's source, each a datagram of that many bytes of payload to a port of the sink.
fn send(lab: &Lab, sizes: impl Iterator<Item = usize> + Send) -> u64 {
    let to = (lab.sink.ipv4, 9);
    lab.source
        .within(|| {
            let socket = UdpSocket::bind((lab.source.ipv4, 0)).unwrap();
            let mut sent = 0;
            for size in sizes {
                // The sink's refusal (nobody listens) comes back as an error of the next call, which then sends nothing.
                while socket.send_to(&vec![0x5a; size], to).is_err() {}
                sent += 1;
            }
            sent
        })
        .unwrap()
}

fn incoming(lab: &Lab) -> TapOptions {
    TapOptions {
        wanted: Wanted::In,
        filter: Some("udp dst port 9".to_owned()),
        ..TapOptions::new(lab.sink.interface.clone())
    }
}

#[test]
fn every_packet_of_every_size_comes_through_whole() {
    if !privileged("every_packet_of_every_size_comes_through_whole") {
        return;
    }
    let lab = Lab::create().unwrap();
    let tap = lab.sink.within(|| Tap::open(&incoming(&lab)).unwrap()).unwrap();
    assert_eq!((tap.interface().link, tap.notes().len()), (LinkKind::Ethernet, 0));
    let (reading, mut blocks) = begin(vec![tap]);
    let sizes = || (18..1473).step_by(7);
    let sent = send(&lab, sizes());
    let ending = std::thread::spawn(move || reading.end().unwrap());
    let mut lengths = Vec::new();
    let mut last_ns = 0;
    let give_up = Instant::now() + LONG;
    while !blocks.is_finished() && Instant::now() < give_up {
        let Some(mut taken) = blocks.next(LONG) else { continue };
        while let Some(frame) = taken.block.next_frame() {
            assert_eq!((frame.stamped_by, frame.kind), (RingStamp::Kernel, PacketKind::Host));
            assert!(frame.time_ns >= last_ns);
            assert_eq!(frame.data.len() as u32, frame.original_length);
            assert!(frame.data[42..].iter().all(|octet| *octet == 0x5a));
            last_ns = frame.time_ns;
            lengths.push(frame.data.len());
        }
    }
    let counts = ending.join().unwrap();
    assert_eq!(lengths, sizes().map(|size| size + 42).collect::<Vec<_>>());
    let ring = RingStatistics { seen: sent, dropped: 0, freezes: 0 };
    assert_eq!(counts, [TapCounts { ring, delivered: sent, unaccounted: 0 }]);
}

/// Ends the capture of one tap; packets in the blocks that were still to come, and what was counted in all.
fn end(reading: Reading, blocks: &mut Blocks) -> (u64, TapCounts) {
    let ending = std::thread::spawn(move || reading.end().unwrap());
    let mut captured = 0;
    let give_up = Instant::now() + LONG;
    while !blocks.is_finished() && Instant::now() < give_up {
        let Some(mut taken) = blocks.next(LONG) else { continue };
        while taken.block.next_frame().is_some() {
            captured += 1;
        }
    }
    (captured, ending.join().unwrap()[0])
}

#[test]
fn what_a_full_ring_drops_is_counted_to_the_packet() {
    if !privileged("what_a_full_ring_drops_is_counted_to_the_packet") {
        return;
    }
    let lab = Lab::create().unwrap();
    let options = TapOptions { block_bytes: 4096, blocks: 4, ..incoming(&lab) };
    let tap = lab.sink.within(|| Tap::open(&options).unwrap()).unwrap();
    let (reading, mut blocks) = begin(vec![tap]);
    // Nobody writes: the ring holds a few packets, and the rest has to go.
    let sent = send(&lab, std::iter::repeat_n(1000, 5_000));
    let (captured, counts) = end(reading, &mut blocks);
    assert!(counts.ring.dropped > 4_000 && counts.ring.freezes > 0, "{counts:?}");
    assert_eq!(captured + counts.ring.dropped, sent);
    assert_eq!((counts.ring.seen, counts.delivered, counts.unaccounted), (sent, captured, 0));
}

#[test]
fn the_end_waits_for_a_block_however_long_the_kernel_keeps_it() {
    if !privileged("the_end_waits_for_a_block_however_long_the_kernel_keeps_it") {
        return;
    }
    let lab = Lab::create().unwrap();
    let options = TapOptions { block_timeout: Duration::from_secs(4), ..incoming(&lab) };
    let tap = lab.sink.within(|| Tap::open(&options).unwrap()).unwrap();
    let (reading, mut blocks) = begin(vec![tap]);
    let sent = send(&lab, std::iter::repeat_n(100, 20));
    let (captured, counts) = end(reading, &mut blocks);
    assert_eq!((captured, counts.delivered, counts.unaccounted), (sent, sent, 0));
}

#[test]
fn loopback_gives_each_packet_once_and_any_tells_the_interface() {
    if !privileged("loopback_gives_each_packet_once_and_any_tells_the_interface") {
        return;
    }
    let lab = Lab::create().unwrap();
    let port = 40_404u16;
    let filter = Some(format!("udp dst port {port}"));
    let loopback = TapOptions { filter: filter.clone(), ..TapOptions::new("lo") };
    let any = TapOptions { filter, snap_length: 96, ..TapOptions::new(ANY) };
    let taps = lab.sink.within(|| vec![Tap::open(&loopback).unwrap(), Tap::open(&any).unwrap()]).unwrap();
    assert!(taps[0].interface().loopback && !taps[0].filter().unwrap().runs_here());
    assert!(taps[1].filter().unwrap().runs_here());
    let (reading, mut blocks) = begin(taps);
    lab.sink
        .within(|| {
            let receiver = UdpSocket::bind(("127.0.0.1", port)).unwrap();
            for _ in 0..100 {
                receiver.send_to(&[1; 200], ("127.0.0.1", port)).unwrap();
            }
        })
        .unwrap();
    let ending = std::thread::spawn(move || reading.end().unwrap());
    let mut kinds = [[0u32; 2]; 2];
    let give_up = Instant::now() + LONG;
    while !blocks.is_finished() && Instant::now() < give_up {
        let Some(mut taken) = blocks.next(LONG) else { continue };
        let passes = |frame: &Frame<'_>| {
            let tap = &blocks.taps()[taken.tap];
            tap.filter().unwrap().passes(frame.data, frame.original_length)
        };
        let mut seen = [0; 2];
        while let Some(frame) = taken.block.next_frame() {
            if passes(&frame) {
                seen[usize::from(frame.kind == PacketKind::Outgoing)] += 1;
                assert_eq!(frame.original_length, if taken.tap == 0 { 242 } else { 248 });
                assert_eq!(frame.data.len(), if taken.tap == 0 { 242 } else { 116 });
            }
        }
        (0..2).for_each(|at| kinds[taken.tap][at] += seen[at]);
    }
    ending.join().unwrap();
    assert_eq!(kinds, [[100, 0], [100, 100]]);
}

#[test]
fn every_layer_stamps_every_packet_in_its_order() {
    if !privileged("every_layer_stamps_every_packet_in_its_order") {
        return;
    }
    let lab = Lab::create().unwrap();
    let wish = LayerWish {
        hardware: HardwareWish::On,
        xdp: XdpWish::Native,
        tc: TcWish::On,
        rings_bytes: 64 << 20,
        ..LayerWish::default()
    };
    let (mut layers, tap) = lab
        .sink
        .within(|| {
            let interface = TapInterface::find(&lab.sink.interface).unwrap();
            let layers = Layers::switch_on(&[interface], wish, &mut nothing_set).unwrap();
            (layers, Tap::open(&incoming(&lab)).unwrap())
        })
        .unwrap();
    let states: Vec<(Layer, bool)> = layers.states().iter().map(|of| (of.layer, of.state.is_ok())).collect();
    assert_eq!(states, [(Layer::Nic, false), (Layer::Xdp, true), (Layer::Tc, true)], "{:?}", layers.states());
    let (reading, mut blocks) = begin(vec![tap]);
    let sent = send(&lab, (0..5_000).map(|number| 18 + number % 1_450));
    let ending = std::thread::spawn(move || reading.end().unwrap());
    let (mut packets, mut whole) = (0, 0);
    let give_up = Instant::now() + LONG;
    while !blocks.is_finished() && Instant::now() < give_up {
        let Some(mut taken) = blocks.next(LONG) else { continue };
        layers.refresh(false);
        while let Some(frame) = taken.block.next_frame() {
            let stamps = layers.stamps(&frame, LinkKind::Ethernet, &taken.early);
            let kernel = stamps.get(Layer::Kernel).unwrap();
            assert_eq!((kernel.time_ns, kernel.bound_ns), (frame.time_ns, 1));
            packets += 1;
            if let (Some(xdp), Some(tc)) = (stamps.get(Layer::Xdp), stamps.get(Layer::Tc)) {
                whole += 1;
                assert!(xdp.time_ns <= kernel.time_ns && kernel.time_ns <= tc.time_ns, "{stamps:?}");
                assert!(xdp.bound_ns < 1_000 && tc.bound_ns < 1_000, "{stamps:?}");
            }
        }
    }
    ending.join().unwrap();
    assert_eq!(packets, sent);
    assert!(whole * 1_000 >= packets * 999, "{whole} of {packets} have all stamps");
    assert_eq!((layers.lost(), layers.unmatched()), (0, packets - whole));
}

#[test]
fn a_program_of_somebody_else_is_left_alone() {
    if !privileged("a_program_of_somebody_else_is_left_alone") {
        return;
    }
    let lab = Lab::create().unwrap();
    let wish =
        LayerWish { xdp: XdpWish::Native, tc: TcWish::On, rings_bytes: 64 << 20, ..LayerWish::default() };
    let (first, second, third) = lab
        .sink
        .within(|| {
            let interfaces = [TapInterface::find(&lab.sink.interface).unwrap()];
            let first = Layers::switch_on(&interfaces, wish, &mut nothing_set).unwrap();
            let second = Layers::switch_on(&interfaces, wish, &mut nothing_set).unwrap();
            let seen = (first.states().to_vec(), second.states().to_vec());
            drop((first, second));
            // All is as it was: there is room again.
            (
                seen.0,
                seen.1,
                Layers::switch_on(&interfaces, wish, &mut nothing_set).unwrap().states().to_vec(),
            )
        })
        .unwrap();
    let there = |states: &[LayerState]| states.iter().map(|of| of.state.is_ok()).collect::<Vec<_>>();
    assert_eq!(
        (there(&first), there(&second), there(&third)),
        (vec![true; 2], vec![false, true], vec![true; 2])
    );
    assert!(second[0].state.as_ref().unwrap_err().contains("another XDP program"), "{second:?}");
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let open = |options: &TapOptions| Tap::open(options).unwrap_err();
    let base = TapOptions::new("lo");
    let none = open(&TapOptions { interface: "nosuch0".to_owned(), ..base.clone() });
    assert!(matches!(&none, CaptureError::NoInterface { there, .. } if there.contains("lo")), "{none}");
    let odd = open(&TapOptions { block_bytes: 5_000, ..base.clone() });
    assert!(matches!(odd, CaptureError::Options(_)));
    assert!(matches!(open(&TapOptions { snap_length: 0, ..base.clone() }), CaptureError::Options(_)));
    let filter = open(&TapOptions { filter: Some("tcp porf 80".to_owned()), ..base });
    assert!(matches!(&filter, CaptureError::Filter { .. }), "{filter}");
}

/// A packet that the kernel stamped.
fn frame(time_ns: i64) -> Frame<'static> {
    Frame {
        time_ns,
        stamped_by: RingStamp::Kernel,
        original_length: 60,
        kernel_length: 60,
        data: &[],
        kind: PacketKind::Host,
        interface: 7,
        losing: false,
    }
}

#[test]
fn a_programs_stamp_may_be_cycles_and_a_drivers_comes_with_it() {
    let mut layers = Layers::switch_on(&[], LayerWish::default(), &mut nothing_set).unwrap();
    let below = join::Below { hardware_ns: 77, xdp: 5_000, xdp_in_cycles: true, ..join::Below::default() };
    let mut stamps = || layers.stamps(&frame(9), LinkKind::Ethernet, &Early(Some(below)));
    let nic = LayerStamp { clock: StampClock::Phc, time_ns: 77, bound_ns: u32::MAX, epoch: 0 };
    assert_eq!((stamps().get(Layer::Nic), stamps().get(Layer::Xdp)), (Some(nic), None));
    let convert = |cycles: u64| LayerStamp {
        clock: StampClock::Cycles,
        time_ns: 2 * cycles as i64,
        bound_ns: 3,
        epoch: 0,
    };
    layers.convert_cycles(convert);
    let stamps = layers.stamps(&frame(9), LinkKind::Ethernet, &Early(Some(below)));
    assert_eq!(stamps.get(Layer::Xdp), Some(convert(5_000)));
    assert_eq!(
        (stamps.get(Layer::Kernel).map(|stamp| stamp.time_ns), stamps.get(Layer::Tc)),
        (Some(9), None)
    );
    // In nanoseconds it is CLOCK_MONOTONIC, whatever converts cycles.
    let below = join::Below { xdp_in_cycles: false, tc: 6_000, tc_in_cycles: true, ..below };
    let stamps = layers.stamps(&frame(9), LinkKind::Ethernet, &Early(Some(below)));
    assert_eq!(stamps.get(Layer::Xdp).map(|stamp| stamp.clock), Some(StampClock::Monotonic));
    assert_eq!(stamps.get(Layer::Tc), Some(convert(6_000)));
    let below = join::Below { tc_in_cycles: false, ..below };
    let stamps = layers.stamps(&frame(9), LinkKind::Ethernet, &Early(Some(below)));
    assert_eq!(stamps.get(Layer::Tc).map(|stamp| stamp.clock), Some(StampClock::Monotonic));
}

#[test]
fn which_stamps_there_can_be_and_why_not() {
    let Ok(interface) = TapInterface::find("lo") else { return };
    let wish = LayerWish { hardware: HardwareWish::On, ..LayerWish::default() };
    let layers = Layers::switch_on(&[interface], wish, &mut nothing_set).unwrap();
    assert!(layers.why_not(Layer::Nic).is_some_and(|why| why.contains("no hardware")));
    assert!(layers.why_not(Layer::Tc).is_some_and(|why| why.contains("was not asked for")));
    assert_eq!((layers.why_not(Layer::Kernel), layers.why_not(Layer::Application)), (None, None));
    assert!(layers.is_wall_clock(Layer::Xdp));
}
