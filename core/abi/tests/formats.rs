//! Numbers and words that stand in files: each is written down here a second time, since a file outlives the program
//! that wrote it.

use quaver_abi::compensation::{CompensationRecord, CompensationWhy};
use quaver_abi::kernel_side::{FutexOperation, KernelSideKind, KernelSideRecord};
use quaver_abi::record::*;
use quaver_abi::segment::{Record, RecordKind, SegmentError, SegmentHeader};
use quaver_abi::stamp::{Layer, StampClock};
use quaver_abi::sync::*;
use std::fmt::Debug;
use zerocopy::{FromBytes, IntoBytes};

/// Every number from 0 to 255 has the meaning listed, or none.
fn only<T: PartialEq + Debug>(from_raw: impl Fn(u8) -> Option<T>, listed: Vec<(u8, T)>) {
    for raw in 0..=u8::MAX {
        let expected = listed.iter().find(|(number, _)| *number == raw).map(|(_, meaning)| meaning);
        assert_eq!(from_raw(raw).as_ref(), expected, "number {raw}");
    }
}

#[test]
fn events_and_their_operands_keep_their_numbers() {
    use EventKind::*;
    let intervals = [Nmi, Irq, Vector, Softirq, Thread, Hrtimer, Timer, Work, CrossCall, IdleState];
    let points = [Wakeup, Migrate, PageFault, IpiSend, TlbFlush, SoftirqRaise];
    let mut listed: Vec<(u8, EventKind)> = (1..).zip(intervals).collect();
    listed.extend((20..).zip(points));
    listed.extend([(11, Steal), (12, SystemCall)]);
    listed.extend([(26, Sleep), (28, Sample), (29, LoopGap), (30, Frame), (40, TaskName)]);
    for (number, kind) in &listed {
        assert_eq!((*kind as u8, kind.is_interval()), (*number, *number < 20));
    }
    only(EventKind::from_repr, listed);
    let vectors = {
        use quaver_abi::record::Vector::*;
        [
            LocalTimer,
            Reschedule,
            CallFunction,
            CallFunctionSingle,
            IrqWork,
            Thermal,
            Threshold,
            DeferredError,
            Spurious,
            ErrorApic,
            Platform,
        ]
    };
    only(|raw| quaver_abi::record::Vector::from_repr(raw.into()), (1..).zip(vectors).collect());
    let reasons = {
        use OffCpu::*;
        [
            Unknown,
            Preempted,
            Blocked,
            Exited,
            Uninterruptible,
            Stopped,
            Traced,
            Frozen,
            Parked,
            Receiving,
            Polling,
            Yielded,
            Throttled,
        ]
    };
    for detail in 0..=u8::MAX {
        // The two highest bits tell of the fair server.
        let expected = reasons.get(usize::from(detail & 0x3f)).copied().unwrap_or(OffCpu::Unknown);
        assert_eq!(OffCpu::from_raw(detail), expected, "detail {detail}");
    }
    assert_eq!((served::KNOWN, served::BY_FAIR_SERVER), (64, 128));
}

#[test]
fn sleeps_and_wake_ups_keep_their_places() {
    use WakeContext::*;
    for (context, raw) in [Unknown, Task, Interrupt, Softirq, Vector, Timer, Stream].into_iter().zip(0u64..) {
        let wakeup = Wakeup { current: 0x0102_0304, cpu: 0x0506, context, number: 0x789 };
        assert_eq!(wakeup.to_aux(), 0x0102_0304_7890_0506 | raw << 16);
        assert_eq!(Wakeup::from_aux(wakeup.to_aux()), wakeup);
    }
    let sleep = Sleep { call: Some(202), object: 0x7fff_1234_5678 };
    assert_eq!(sleep.to_aux(), 0x7fff_1234_5678_00ca);
    for sleep in [sleep, Sleep { call: None, object: 0 }] {
        assert_eq!(Sleep::from_aux(sleep.to_aux()), sleep);
    }
    use SleepObject as At;
    let objects = [
        At::Unknown,
        At::Futex,
        At::Socket,
        At::Pipe,
        At::File,
        At::Device,
        At::TimerFd,
        At::Anonymous,
        At::Clock,
        At::Child,
    ];
    for (object, raw) in objects.into_iter().zip(0u8..) {
        assert_eq!((object as u8, At::from_raw(raw | Sleep::FOR_DISK)), (raw, object));
    }
}

#[test]
fn flags_keep_their_bits() {
    use packet_flags as packet;
    assert_eq!(
        [packet::OURS, packet::RTP, packet::TRUNCATED, packet::BATCHED, packet::MARKER, packet::RTP_HEADER],
        [1, 2, 4, 8, 16, 32]
    );
    assert_eq!((packet::MEDIA_HEAD, packet::PAYLOAD_TYPE_SHIFT), (64, 9));
    use stamp_flags as stamp;
    let of_packets =
        [stamp::OURS, stamp::RTP, stamp::DROPPED, stamp::PEEKED, stamp::BATCHED, stamp::ELSEWHERE];
    assert_eq!(of_packets, [1, 2, 4, 8, 16, 32]);
    assert_eq!(
        [
            outcome_flags::OUTCOME_MASK,
            outcome_flags::INSIDE_WAIT,
            outcome_flags::UNTIMED,
            outcome_flags::FOR_READING,
            outcome_flags::CONTENDED
        ],
        [31, 32, 32, 64, 128]
    );
    assert_eq!([ring_flags::INITIAL, ring_flags::ENDED, ring_flags::FOUND], [1, 2, 4]);
}

#[test]
fn the_kernels_side_keeps_its_numbers() {
    use KernelSideKind::*;
    let kinds = [
        FutexEnter,
        FutexExit,
        Switch,
        Waking,
        Wakeup,
        Migrate,
        IrqEnter,
        IrqExit,
        SoftirqEnter,
        SoftirqExit,
        IdleEnter,
        IdleExit,
        Fork,
        Exit,
        SystemCall,
        Slow,
        FunctionEnter,
        FunctionExit,
        Sample,
    ];
    only(KernelSideKind::from_repr, (1..).zip(kinds).collect());
    use CompensationWhy::*;
    only(CompensationWhy::from_repr, (1..).zip([Began, InTime, AtCreate, AtJoin, AtExit, Woken]).collect());
}

#[test]
fn futex_operations_are_those_of_the_kernels_header() {
    use FutexOperation::*;
    // Number as in linux/futex.h, or that of the system call above 0x10000; whether it waits; name.
    let table = [
        (0, Wait, true, "FUTEX_WAIT"),
        (1, Wake, false, "FUTEX_WAKE"),
        (2, Other, false, "other operations"),
        (3, Requeue, false, "FUTEX_REQUEUE"),
        (4, Requeue, false, "FUTEX_REQUEUE"),
        (5, WakeOp, false, "FUTEX_WAKE_OP"),
        (6, LockPi, true, "FUTEX_LOCK_PI"),
        (7, OtherPi, false, "other PI operations"),
        (8, OtherPi, false, "other PI operations"),
        (9, WaitBitset, true, "FUTEX_WAIT_BITSET"),
        (10, WakeBitset, false, "FUTEX_WAKE_BITSET"),
        (11, LockPi, true, "FUTEX_LOCK_PI"),
        (12, OtherPi, false, "other PI operations"),
        (13, LockPi, true, "FUTEX_LOCK_PI"),
        (14, Other, false, "other operations"),
        (0x10000 + 449, WaitCall, true, "futex_wait"),
        (0x10000 + 454, WakeCall, false, "futex_wake"),
        (0x10000 + 455, WaitCall, true, "futex_wait"),
        (0x10000 + 456, WakeCall, false, "futex_wake"),
    ];
    for (operand, operation, waits, name) in table {
        let found = FutexOperation::of_operand(operand);
        assert_eq!((found, found.waits(), found.name()), (operation, waits, name), "operand {operand:#x}");
        if operand < 0x10000 {
            assert_eq!(FutexOperation::of_operand(operand | 128 | 256), operation);
            assert_eq!(FutexOperation::of_operand(operand | 512), Other, "no flag that is known");
        }
    }
}

#[test]
fn synchronisation_keeps_its_numbers() {
    for (number, kind) in (1..=35).chain([40]).zip(SyncKind::ALL.iter().copied()) {
        assert_eq!(kind as u8, number);
    }
    // Entries are odd up to 10 and from 15 on; what waits is a lock, a condition, a join, a barrier, a semaphore, a futex.
    let numbers = |wanted: fn(SyncKind) -> bool| -> Vec<u8> {
        SyncKind::ALL.iter().copied().filter(|kind| wanted(*kind)).map(|kind| kind as u8).collect()
    };
    assert_eq!(numbers(SyncKind::begins_wait), [1, 9, 15, 17, 19, 23, 25]);
    assert_eq!(numbers(SyncKind::ends_wait), [2, 10, 16, 18, 20, 24, 26]);
    use SyncOutcome::*;
    let outcomes = [Ok, Busy, Timeout, Interrupted, OwnerDied, Deadlock, Serial, Failed, Cancelled];
    for (number, outcome) in (0..).zip(outcomes) {
        assert_eq!((SyncOutcome::from_raw(number), outcome as u8), (outcome, number));
    }
    for raw in 9..=u8::MAX {
        assert_eq!(SyncOutcome::from_raw(raw), Failed);
    }
    let record = SyncRecord { kind: 1, outcome: 0x1f & !0x18 | 0x20, ..SyncRecord::default() };
    assert_eq!((record.outcome(), record.is_contended()), (Failed, false));
    let objects = [SyncObject::Mutex, SyncObject::ReadWrite, SyncObject::Spin];
    only(|raw| SyncObject::from_repr(raw.into()), (1..).zip(objects).collect());
    let ends = [0, 1, 2, 3, u32::MAX].map(SyncEnd::from_raw);
    assert_eq!(
        ends,
        [SyncEnd::Unsaid, SyncEnd::Exit, SyncEnd::ImmediateExit, SyncEnd::Unsaid, SyncEnd::Unsaid]
    );
}

#[test]
fn layers_and_clocks_keep_their_words() {
    let names = ["nic", "xdp", "kernel", "raw", "tc", "socket", "application"];
    assert_eq!(Layer::ALL.map(Layer::name), names);
    assert_eq!(StampClock::ALL.map(StampClock::name), ["realtime", "monotonic", "tai", "phc", "cycles"]);
    assert_eq!(Layer::ALL.map(|layer| layer as u8), [1, 2, 3, 7, 4, 5, 6]);
    assert_eq!(StampClock::ALL.map(|clock| clock as u8), [1, 2, 3, 4, 5]);
}

/// The kind's number, the record's bytes, and the only bytes of it that mark a written one.
fn record<R: Record>(kind: u32, size: usize, mark: std::ops::Range<usize>) {
    assert_eq!((R::KIND as u32, size_of::<R>(), R::MARK_OFFSET), (kind, size, mark.start));
    assert_eq!(RecordKind::from_repr(kind), Some(R::KIND));
    for at in 0..size {
        let mut octets = vec![0; size];
        octets[at] = 1;
        let record = R::read_from_bytes(&octets).expect("its size");
        assert_eq!(record.is_written(), mark.contains(&at), "byte {at} of a record of kind {kind}");
    }
}

#[test]
fn records_have_their_kind_their_size_and_their_mark() {
    record::<PacketRecord>(1, 64, 8..16);
    record::<StampRecord>(2, 96, 0..8);
    record::<EventRecord>(3, 32, 30..31);
    record::<GapRecord>(4, 32, 16..24);
    record::<AnchorRecord>(5, 56, 0..8);
    record::<SendRecord>(6, 32, 8..16);
    record::<KernelSideRecord>(7, 32, 30..31);
    record::<CompensationRecord>(8, 104, 0..8);
    assert_eq!((RecordKind::from_repr(0), RecordKind::from_repr(9)), (None, None));
}

#[test]
fn a_segments_header_is_refused_for_the_first_thing_that_is_wrong() {
    let header = SegmentHeader::new::<EventRecord>(7, 9);
    let check = |header: SegmentHeader| SegmentHeader::check::<EventRecord>(header.as_bytes());
    assert_eq!(check(header), Ok(header));
    assert_eq!((header.capacity, header.created_realtime_ns), (7, 9));
    let octets = header.as_bytes();
    assert_eq!(&octets[..24], b"QUAVSEG\0\x01\0\0\0\x04\x03\x02\x01\x03\0\0\0\x20\0\0\0");
    assert_eq!(SegmentHeader::check::<EventRecord>(&octets[..63]), Err(SegmentError::TooShort));
    let other = |kind, bytes| Err(SegmentError::OtherRecords { kind, bytes });
    assert_eq!(check(SegmentHeader { magic: *b"QUAVSEG1", ..header }), Err(SegmentError::NotASegment));
    assert_eq!(
        check(SegmentHeader { byte_order: 0x0403_0201, version: 9, ..header }),
        Err(SegmentError::ByteOrder)
    );
    assert_eq!(check(SegmentHeader { version: 2, record_kind: 9, ..header }), Err(SegmentError::Version(2)));
    assert_eq!(check(SegmentHeader { record_kind: 4, ..header }), other(4, 32));
    assert_eq!(check(SegmentHeader { record_bytes: 40, ..header }), other(3, 40));
    // The program's own way to say it.
    for (error, words) in [
        (SegmentError::TooShort, "shorter than a segment header (64 bytes)"),
        (SegmentError::NotASegment, "not a Quaver segment"),
        (SegmentError::Version(2), "segment version 2; this program reads version 1"),
        (SegmentError::ByteOrder, "written on a machine of the other byte order"),
        (SegmentError::OtherRecords { kind: 4, bytes: 32 }, "holds records of kind 4, 32 bytes each"),
    ] {
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn a_recorders_header_is_refused_for_the_first_thing_that_is_wrong() {
    let mut header = SyncSegmentHeader::read_from_bytes(&[0; PAGE_BYTES]).expect("a page");
    header.magic = *b"QUAVSYNC";
    header.version = 1;
    header.byte_order = 0x0102_0304;
    header.record_bytes = 32;
    header.page_bytes = 4096;
    let check = |header: SyncSegmentHeader| SyncSegmentHeader::check(header.as_bytes()).map(|_| ());
    assert_eq!(check(header), Ok(()));
    let cut = |octets: usize| SyncSegmentHeader::check(&header.as_bytes()[..octets]).map(|_| ());
    assert_eq!([cut(0), cut(7), cut(8), cut(4095)], [Err(SyncHeaderError::TooShort); 4]);
    assert_eq!(SyncSegmentHeader::check(b"QUAVSEG\0"), Err(SyncHeaderError::NotASegment));
    assert_eq!(SyncSegmentHeader::check(b"QUAVSEG\0\x01"), Err(SyncHeaderError::NotASegment));
    let swapped = SyncSegmentHeader { byte_order: 0x0403_0201, version: 9, ..header };
    assert_eq!(check(swapped), Err(SyncHeaderError::ByteOrder));
    assert_eq!(
        check(SyncSegmentHeader { version: 2, page_bytes: 9, ..header }),
        Err(SyncHeaderError::Version(2))
    );
    for (record, page) in [(40, 4096), (32, 16_384)] {
        let other = SyncSegmentHeader { record_bytes: record, page_bytes: page, ..header };
        assert_eq!(check(other), Err(SyncHeaderError::OtherSizes { record, page }));
    }
    for (error, words) in [
        (SyncHeaderError::TooShort, "shorter than the header of a recording of synchronisation (4096 bytes)"),
        (SyncHeaderError::NotASegment, "not a recording of synchronisation"),
        (SyncHeaderError::Version(2), "recording of version 2; this program reads version 1"),
        (SyncHeaderError::ByteOrder, "recorded on a machine of the other byte order"),
        (
            SyncHeaderError::OtherSizes { record: 40, page: 4096 },
            "holds records of 40 bytes in pages of 4096; expected 32 in 4096",
        ),
    ] {
        assert_eq!(error.to_string(), words);
    }
}
