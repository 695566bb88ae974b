use super::*;
use crate::pipeline::{Convert, PipelineKind, PipelineSettings};
use quaver_abi::stamp::{LayerStamp, StampClock};
use quaver_clock::{CounterSupport, nominal_scale};
use quaver_host::netns::Lab;
use quaver_host::segment::SegmentWriter;
use quaver_probe::profile::Profile;
use quaver_probe::schedule::Schedule;
use quaver_probe::source::{Pace, RunningSource, Source, SourceOptions, StreamLength};
use quaver_probe::thread::{Setting, ThreadSettings};
use quaver_testbed::privileged::privileged;
use quaver_testbed::privileged::{Feature, Lack, skip};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cycles as nanoseconds: enough to tell stamps apart.
#[derive(Clone)]
struct Plain;

impl Convert for Plain {
    fn layer_stamp(&self, cycles: u64) -> LayerStamp {
        LayerStamp { clock: StampClock::Cycles, time_ns: cycles as i64, bound_ns: 3, epoch: 0 }
    }
}

const STREAM: u32 = 0x5157;

fn counter() -> quaver_clock::Counter {
    CounterSupport::detect(Path::new("/")).counter
}

fn plan(kinds: &[Option<PipelineKind>], blocks: Vec<u16>, packets_per_block: u32) -> ReceiverPlan {
    let arms = kinds.iter().map(|kind| kind.map(|kind| PipelineSettings::new(kind, counter())));
    ReceiverPlan {
        arms: arms.collect(),
        blocks,
        packets_per_block,
        stream_id: STREAM,
        header_offset: 0,
        poll: false,
        thread: ThreadSettings::default(),
        counter: counter(),
    }
}

fn stream(to: SocketAddr, packets: u64, dir: &Path) -> RunningSource {
    let profile = Profile::plain(98, Schedule::every(50_000, 1).unwrap()).unwrap();
    let mut options = SourceOptions::new(to, profile, StreamLength::Packets(packets), counter());
    options.stream_id = STREAM;
    options.pace = Pace::Sleep;
    let source = Source::open(options).unwrap();
    let count = std::fs::read_dir(dir).unwrap().count();
    let segment = SegmentWriter::create(&dir.join(format!("sends-{count}.seg")), packets + 8).unwrap();
    source.prepare(segment).unwrap().go()
}

/// Every packet of the stream is a sample of the arm whose turn it is, in order, and every stamp lies between its
/// own checkpoints.
#[test]
fn each_packet_goes_to_the_arm_whose_turn_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let kinds = [
        None,
        Some(PipelineKind::InlineClock),
        Some(PipelineKind::InlineCycles),
        Some(PipelineKind::Threaded { converters: 2 }),
        Some(PipelineKind::Batch),
    ];
    let blocks = vec![4, 0, 1, 3, 2, 2, 3, 1, 0, 4];
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let receiving = start(socket, plan(&kinds, blocks.clone(), 20), Plain).unwrap();
    // A stranger and a packet too short for our header are counted, and take no turn.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.send_to(b"hello", address).unwrap();
    let source = stream(address, 200, dir.path());
    source.join().unwrap();
    while receiving.received() < 200 {
        std::thread::yield_now();
    }
    let received = receiving.join().unwrap();
    assert_eq!((received.samples.len(), received.strangers), (200, 1));
    for (at, sample) in received.samples.iter().enumerate() {
        let block = at / 20;
        assert_eq!((sample.seq, sample.block, sample.position), (at as u64, block as u32, at as u32 % 20));
        assert_eq!(sample.arm, blocks[block]);
        match (kinds[usize::from(sample.arm)], sample.stamp) {
            (None, None) => {}
            (Some(PipelineKind::InlineClock), Some(stamp)) => assert_eq!(stamp.clock, StampClock::Realtime),
            (Some(_), Some(stamp)) => {
                let after = sample.before_cycles + sample.between_cycles;
                assert!((sample.before_cycles..=after).contains(&(stamp.time_ns as u64)), "{sample:?}");
                assert_eq!(stamp.bound_ns, 3);
            }
            (kind, stamp) => panic!("{kind:?} gave {stamp:?}"),
        }
    }
    let resolved = |arm: usize| received.costs[arm].resolved;
    assert_eq!(received.costs.iter().map(|cost| cost.stamps).collect::<Vec<_>>(), [0, 40, 40, 40, 40]);
    assert_eq!((resolved(1).inline, resolved(2).inline, resolved(4).here), (40, 40, 40));
    assert_eq!((resolved(3).by_threads, received.costs[3].ring_full), (40, 0));
    assert!(received.socket_drops.is_none_or(|drops| drops == 0));
}

#[test]
fn a_receiver_ends_when_asked_though_no_packet_comes() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let kinds = [Some(PipelineKind::Threaded { converters: 1 })];
    let received = start(socket, plan(&kinds, vec![0; 3], 10), Plain).unwrap().join().unwrap();
    assert!(received.samples.is_empty());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    drop(start(socket, plan(&kinds, vec![0; 3], 10), Plain).unwrap());
}

#[test]
fn refusals_name_the_thread() {
    let mut plan = plan(&[None], vec![0], 1);
    plan.thread = ThreadSettings { cpu: Some(u16::MAX), required: vec![Setting::Cpu], ..Default::default() };
    let error = start(UdpSocket::bind("127.0.0.1:0").unwrap(), plan, Plain).unwrap_err();
    assert!(error.to_string().starts_with("receiving thread: pin thread to CPU 65535"), "{error}");
}

const ENTRY_FORMAT: &str = "name: netif_rx_entry\nID: 7\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:const void * skbaddr;\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:unsigned int len;\toffset:12;\tsize:4;\tsigned:0;\n";
const RX_FORMAT: &str = "name: netif_rx\nID: 8\nformat:\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:unsigned int len;\toffset:16;\tsize:4;\tsigned:0;\n\
    \tfield:__data_loc char[] name;\toffset:20;\tsize:4;\tsigned:0;\n";

fn entry(packet: u64, name: &str, flags: u8) -> Vec<u8> {
    entry_of(packet, name, flags, 126)
}

fn entry_of(packet: u64, name: &str, flags: u8, length: u32) -> Vec<u8> {
    let mut record = vec![7, 0, flags, 0, 0, 0, 0, 0];
    record.extend((24 | (name.len() as u32 + 1) << 16).to_le_bytes());
    record.extend(length.to_le_bytes());
    record.extend(packet.to_le_bytes());
    record.extend(name.as_bytes());
    record.push(0);
    record
}

fn rx(packet: u64) -> Vec<u8> {
    let mut record = vec![8, 0, 0, 0, 0, 0, 0, 0];
    record.extend(packet.to_le_bytes());
    record.resize(24, 0);
    record
}

#[test]
fn checkpoints_pair_by_packet_and_interface() {
    let checkpoints = Checkpoints::parse(ENTRY_FORMAT, RX_FORMAT).unwrap();
    let events = [
        (100, 7, entry(0xa, "veth0", 0)),
        (150, 8, rx(0xa)),
        (200, 7, entry(0xb, "eth0", 0)), // another interface
        (210, 8, rx(0xb)),
        (220, 7, entry_of(0xb, "veth0", 0, 76)), // another packet's length
        (230, 8, rx(0xb)),
        (300, 7, entry(0xc, "veth0", 1)),
        (310, 8, rx(0xd)), // another packet's
        (390, 8, rx(0xc)),
        (400, 7, entry(0xe, "veth0", 0)), // its other half was lost
        (500, 7, entry(0xf, "veth0", 0)),
        (540, 8, rx(0xf)),
        (600, 7, entry(0x10, "veth0", 0)), // the block ended in between
        (700, 99, vec![99, 0]),
    ];
    let plan = KernelPlan { interface: "veth0".to_owned(), packet_bytes: 126 };
    let outcome = kernel::seen::pair(&checkpoints, &plan, &events);
    let pairs: Vec<_> = outcome
        .samples
        .iter()
        .map(|s| (s.before_cycles, s.between_cycles, s.interrupts_off, s.position))
        .collect();
    assert_eq!(pairs, [(100, 50, false, 0), (300, 90, true, 1), (500, 40, false, 2)]);
    assert_eq!(outcome.unpaired, 2);
    assert!(Checkpoints::parse(ENTRY_FORMAT, "name: netif_rx\nID: 8\n").is_none());
}

/// Instances of ours below tracefs.
fn instances() -> Vec<String> {
    let (root, _) = quaver_host::tracefs::open_tracefs().unwrap();
    let own = format!("quaver-{}-", std::process::id());
    root.names("instances").unwrap().into_iter().filter(|name| name.starts_with(&own)).collect()
}

/// The kernel's checkpoints see every packet that crosses a veth pair, in each arm, and nothing is left after.
#[test]
fn the_kernels_checkpoints_see_every_packet_of_a_veth_pair() {
    const NAME: &str = "the_kernels_checkpoints_see_every_packet_of_a_veth_pair";
    if !privileged(NAME) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::create().unwrap();
    let socket = lab.sink.within(|| UdpSocket::bind((lab.sink.ipv4, 0)).unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let plan = KernelPlan { interface: lab.sink.interface.clone(), packet_bytes: 98 + 8 + 20 };
    let mut comparison = match KernelComparison::start(&plan) {
        Ok(comparison) => comparison,
        // Programs at fentry need a trampoline, which some architectures have not.
        Err(_) if !cfg!(target_arch = "x86_64") => return skip(NAME, Lack::Feature(Feature::X86_64)),
        Err(error) => panic!("{error}"),
    };
    let before = instances();
    assert!(before.len() >= 2, "{before:?}");
    let arms: Vec<KernelArm> =
        KernelArm::ALL.into_iter().filter(|arm| comparison.has(*arm).is_ok()).collect();
    // Privileged, every kernel that has the tier has the first two of BPF's.
    assert!(arms.len() >= if cfg!(feature = "bpf") { 6 } else { 4 }, "{arms:?}");
    for (block, arm) in arms.iter().copied().enumerate() {
        comparison.begin(arm).unwrap();
        lab.source.within(|| stream(address, 100, dir.path()).join().unwrap()).unwrap();
        assert_eq!(comparison.end(block as u32, arm).unwrap(), 100, "{arm:?}");
    }
    let outcome = comparison.finish();
    assert_eq!((outcome.samples.len(), outcome.unpaired, outcome.lost), (100 * arms.len(), 0, 0));
    let scale = nominal_scale(counter());
    for sample in &outcome.samples {
        assert!(scale.ns(sample.between_cycles) < 1_000_000_000, "{sample:?}");
        assert!(sample.between_cycles > 0);
    }
    assert!(instances().len() < before.len(), "instances are removed");
}

/// A socket of somebody else that asks for stamps is noticed. (That nobody asks cannot be arranged: other programs of
/// this machine may.)
#[test]
fn stamps_that_somebody_else_asks_for_are_noticed() {
    use std::os::fd::AsFd;
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    quaver_probe::socket::set_option(other.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32).unwrap();
    // The kernel switches stamping on from a worker of its own.
    while stamped_for_others() == Some(false) {
        std::thread::yield_now();
    }
    assert_eq!(stamped_for_others(), Some(true));
}

/// Everything that was sent is what libpcap handed over and what it says was dropped, and nothing else comes.
#[test]
fn a_libpcap_program_counts_every_packet_that_passes_its_filter() {
    if !privileged("a_libpcap_program_counts_every_packet_that_passes_its_filter") {
        return;
    }
    let lab = Lab::create().unwrap();
    let socket = lab.sink.within(|| UdpSocket::bind((lab.sink.ipv4, 0))).unwrap().unwrap();
    let other = lab.sink.within(|| UdpSocket::bind((lab.sink.ipv4, 0))).unwrap().unwrap();
    let (to, elsewhere) = (socket.local_addr().unwrap(), other.local_addr().unwrap());
    let plan = LibpcapPlan {
        interface: lab.sink.interface.clone(),
        filter: format!("udp dst port {}", to.port()),
        snap_bytes: 60,
        buffer_bytes: 8 << 20,
    };
    let stop = AtomicBool::new(false);
    let counted = lab.sink.within(|| {
        count_by_libpcap(&plan, &stop, || {
            let sender = lab.source.within(|| UdpSocket::bind((lab.source.ipv4, 0))).unwrap().unwrap();
            for number in 0..500u16 {
                sender.send_to(&[7; 100], to).unwrap();
                sender.send_to(&number.to_be_bytes(), elsewhere).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        })
    });
    let counted = counted.unwrap().unwrap();
    assert_eq!((counted.captured + counted.dropped, counted.received), (500, 500), "{counted:?}");
    assert_eq!((counted.octets, counted.backwards), (60 * counted.captured, 0));
    let nowhere = LibpcapPlan { interface: "no-such-one".to_owned(), ..plan.clone() };
    assert!(count_by_libpcap(&nowhere, &stop, || ()).unwrap_err().to_string().contains("no-such-one"));
    let nonsense = LibpcapPlan { filter: "udp prot 7".to_owned(), ..plan };
    let error = lab.sink.within(|| count_by_libpcap(&nonsense, &stop, || ())).unwrap().unwrap_err();
    assert!(error.to_string().contains("syntax error"), "{error}");
}
