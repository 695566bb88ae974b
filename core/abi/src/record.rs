//! Fixed-size records of the raw segments: what the hot paths write.
//!
//! All fields are little-endian in memory order of the machine that wrote them (only little-endian machines
//! are supported; `segment::SegmentHeader` carries the byte order). A time of 0 means *missing*, never
//! "at zero": no clock used here reads 0 on a running machine.

mod threads;

use crate::wire::rtp::RtpHeader;
use strum::{FromRepr, IntoStaticStr};
pub use threads::{OffCpu, Sleep, SleepObject, WakeContext, Wakeup, served};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Sequence key of a packet whose payload carries none that we know.
pub const KEY_UNKNOWN: u64 = u64::MAX;

/// One packet as the application saw it: one timestamp a packet, taken right after the receive returned
/// (Chasing, section III-A).
///
/// ```text
///  0        8          16                 24       32           40       44     46   48         52           56
///  +--------+----------+------------------+--------+------------+--------+------+----+----------+------------+-----------+
///  | key    | app      | kernel receive   | sent   | deadline   | payload| flags| cpu| receive  | media      | media     |
///  |        | cycles   | realtime ns      | ns/SSRC| ns         | bytes  |      |    | drops    | timestamp  | head      |
///  +--------+----------+------------------+--------+------------+--------+------+----+----------+------------+-----------+
/// ```
///
/// `flags`, from the highest bit: payload type of RTP (7 bits), 3 zero bits, then those of [`packet_flags`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PacketRecord {
    /// Sequence number as the payload carries it (not yet extended over wraps), or [`KEY_UNKNOWN`].
    pub key: u64,
    /// Raw cycle counter right after the receive call returned. 0 marks a slot never written.
    pub app_cycles: u64,
    /// Kernel receive stamp (`SO_TIMESTAMPNS`), CLOCK_REALTIME nanoseconds; 0 is missing.
    pub kernel_realtime_ns: i64,
    /// When our source handed the packet to the kernel, CLOCK_MONOTONIC nanoseconds of *its* host; 0 is missing. Of
    /// RTP that is not ours: the synchronisation source, where [`packet_flags::RTP_HEADER`] is set.
    pub sent_ns: i64,
    /// When the schedule wanted it sent, CLOCK_MONOTONIC nanoseconds of the source's host; 0 is missing.
    pub deadline_ns: i64,
    /// UDP payload length in bytes.
    pub payload_bytes: u32,
    /// [`packet_flags`], and the payload type of RTP.
    pub flags: u16,
    /// CPU that the receive returned on.
    pub cpu: u16,
    /// Cumulative count of packets that the socket buffer dropped (`SO_RXQ_OVFL`), wrapping.
    pub receive_drops: u32,
    /// RTP timestamp, where the payload is RTP.
    pub media_timestamp: u32,
    /// The first bytes after an RTP header, as they lie in the packet, where [`packet_flags::MEDIA_HEAD`] is set:
    /// room for the headers of ST 2022-6 and RFC 4175. Else zero.
    pub media_head: [u8; 8],
}
const _: () = assert!(size_of::<PacketRecord>() == 64);

impl PacketRecord {
    /// Puts in what an RTP header says; `head` is what follows it. The sequence number is left to the caller.
    #[inline(always)]
    pub fn set_rtp(&mut self, header: &RtpHeader, head: Option<[u8; 8]>) {
        self.media_timestamp = header.timestamp.get();
        self.flags |= packet_flags::RTP
            | packet_flags::RTP_HEADER
            | (u16::from(header.marker()) * packet_flags::MARKER)
            | (u16::from(header.marker_and_type & 0x7f) << packet_flags::PAYLOAD_TYPE_SHIFT);
        if let Some(head) = head {
            self.media_head = head;
            self.flags |= packet_flags::MEDIA_HEAD;
        }
        if self.flags & packet_flags::OURS == 0 {
            self.sent_ns = i64::from(header.ssrc.get());
        }
    }

    /// Payload type of RTP, where it was recorded.
    pub const fn payload_type(&self) -> Option<u8> {
        if self.flags & packet_flags::RTP_HEADER == 0 {
            return None;
        }
        Some((self.flags >> packet_flags::PAYLOAD_TYPE_SHIFT) as u8)
    }

    /// Synchronisation source of RTP that is not ours, where it was recorded.
    pub const fn ssrc(&self) -> Option<u32> {
        let foreign =
            self.flags & (packet_flags::RTP_HEADER | packet_flags::OURS) == packet_flags::RTP_HEADER;
        if foreign { Some(self.sent_ns as u32) } else { None }
    }
}

/// Bits of [`PacketRecord::flags`].
pub mod packet_flags {
    /// The payload is our source's ([`crate::wire::stream`]): key, sent and deadline are meaningful.
    pub const OURS: u16 = 1 << 0;
    /// The payload is RTP: key is the 16-bit sequence number (HBRMT: extended where the payload allows).
    pub const RTP: u16 = 1 << 1;
    /// The payload was longer than the receive buffer.
    pub const TRUNCATED: u16 = 1 << 2;
    /// The packet shared one receive call with others, so its stamp is the batch's.
    pub const BATCHED: u16 = 1 << 3;
    /// The marker of the RTP header is set.
    pub const MARKER: u16 = 1 << 4;
    /// Marker, payload type and (not ours) synchronisation source are recorded.
    pub const RTP_HEADER: u16 = 1 << 5;
    /// What follows the RTP header is recorded, and that header is the fixed one of 12 bytes.
    pub const MEDIA_HEAD: u16 = 1 << 6;
    /// Where the payload type begins.
    pub const PAYLOAD_TYPE_SHIFT: u32 = 9;
}

/// One packet as the kernel saw it: a stamp for each layer, written by the BPF programs (or rebuilt from
/// tracefs pages). Times are CLOCK_MONOTONIC nanoseconds; 0 is missing.
///
/// ```text
///  0         8     16    24       32        40        48         56      64     72      76    80   82    84       88       92    96
///  +---------+-----+-----+--------+---------+---------+----------+-------+------+-------+-----+----+-----+--------+--------+-----+
///  | arrival | key | skb | irq ns | softirq | receive | enqueued | ready | user | media | len | cpu| user| flags  | drop   | poll|
///  | (1-based)     |     |        | ns      | ns      | ns       | ns    | ns   | ts    |     |    | cpu |        | reason |     |
///  +---------+-----+-----+--------+---------+---------+----------+-------+------+-------+-----+----+-----+--------+--------+-----+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StampRecord {
    /// Arrival counter of the followed flow, from 1; 0 marks a slot never written.
    pub arrival: u64,
    /// Sequence number as the payload carries it, or [`KEY_UNKNOWN`].
    pub key: u64,
    /// Address of the `sk_buff`; joins layers while the packet is in flight, meaningless afterwards.
    pub skb: u64,
    /// Entry of the device's interrupt handler that led to this packet.
    pub irq_ns: u64,
    /// Entry of the NET_RX softirq that processed it.
    pub softirq_ns: u64,
    /// `net:netif_receive_skb`.
    pub receive_ns: u64,
    /// Socket filter on our receiver ran: the packet is about to enter the socket's queue.
    pub enqueued_ns: u64,
    /// `sock:sk_data_ready`, or the wake-up of the receiver where the kernel lacks it.
    pub ready_ns: u64,
    /// Return of the receiver's receive call (`--pid` only).
    pub user_ns: u64,
    /// RTP timestamp, where the payload is RTP.
    pub media_timestamp: u32,
    /// UDP payload length in bytes.
    pub payload_bytes: u32,
    /// CPU that ran the network stack for this packet.
    pub cpu: u16,
    /// CPU on which the receive call returned (`--pid` only).
    pub user_cpu: u16,
    /// [`stamp_flags`].
    pub flags: u32,
    /// `skb_drop_reason` where the stack freed the packet before the application had it; else 0.
    pub drop_reason: u32,
    /// Number of the NET_RX softirq run on that CPU: packets of one number were one batch.
    pub poll: u32,
}
const _: () = assert!(size_of::<StampRecord>() == 96);

/// Bits of [`StampRecord::flags`].
pub mod stamp_flags {
    /// Key comes from our stream header.
    pub const OURS: u32 = 1 << 0;
    /// Key comes from an RTP header.
    pub const RTP: u32 = 1 << 1;
    /// The stack dropped the packet; `drop_reason` says why.
    pub const DROPPED: u32 = 1 << 2;
    /// A receive call peeked at the packet before one took it.
    pub const PEEKED: u32 = 1 << 3;
    /// The receive call returned several packets under one stamp (`recvmmsg`).
    pub const BATCHED: u32 = 1 << 4;
    /// Another process than the observed one received the packet, from a socket that both have or from one on its port.
    pub const ELSEWHERE: u32 = 1 << 5;
}

/// Something else that the machine did: an interval on one CPU, or a point (start = end).
/// Times are CLOCK_MONOTONIC nanoseconds.
///
/// ```text
///  0          8        16     24     28    30     31       32
///  +----------+--------+------+------+-----+------+--------+
///  | start ns | end ns | aux  | id   | cpu | kind | detail |
///  +----------+--------+------+------+-----+------+--------+
/// ```
/// The meaning of `id`, `aux` and `detail` is that of the kind ([`EventKind`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EventRecord {
    /// First instant.
    pub start_ns: u64,
    /// Last instant, never before `start_ns`.
    pub end_ns: u64,
    /// Second operand of the kind.
    pub aux: u64,
    /// First operand of the kind.
    pub id: u32,
    /// CPU that it happened on.
    pub cpu: u16,
    /// [`EventKind`]; 0 marks a slot never written.
    pub kind: u8,
    /// Third operand of the kind.
    pub detail: u8,
}
const _: () = assert!(size_of::<EventRecord>() == 32);

impl EventRecord {
    /// Process of an [`EventKind::TaskName`], 0 where not known.
    pub const fn named_process(&self) -> u32 {
        self.aux as u32
    }

    /// When the thread of an [`EventKind::TaskName`] had that name, in 2^14 ns. Two of these compare by their wrapping
    /// difference: they lie less than ten hours apart.
    pub const fn named_at(&self) -> u32 {
        (self.aux >> 32) as u32
    }
}

/// Time between two samples of a CPU. Not a whole millisecond: what keeps step with the tick sees the tick.
pub const SAMPLE_PERIOD_NS: u64 = 1_003_000;
/// Mark of an [`EventKind::Hrtimer`] of this tool, which takes its samples; that of another profiler has none.
pub const SAMPLING_TIMER: u8 = 1;
/// Mark of an [`EventKind::Hrtimer`] whose callback refills the CPU quota that a followed thread ran out of.
pub const REFILLS_QUOTA: u8 = 2;
/// Mark of a missing stack in [`EventKind::Sample`].
pub const NO_STACK: u32 = u32::MAX;

/// What an [`EventRecord`] tells. Numbers are part of the segment format: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr)]
#[repr(u8)]
pub enum EventKind {
    /// Interval: non-maskable interrupt handler. aux: handler address.
    Nmi = 1,
    /// Interval: device interrupt handler. id: interrupt number.
    Irq = 2,
    /// Interval: system vector. id: [`Vector`].
    Vector = 3,
    /// Interval: softirq. id: vector number as in `/proc/softirqs` order. aux, of NET_RX on the way of a followed flow: 1 and
    /// the packets of others in it; 0 where they were not counted.
    Softirq = 4,
    /// Interval: a thread (or idle, id 0) held the CPU. id: thread. aux: low 32 bits priority as the kernel
    /// prints it (0 to 99 real-time, 100 to 139 normal), high 32 bits the next thread. detail: [`OffCpu`], and
    /// [`served`] in its highest bits.
    Thread = 5,
    /// Interval: hrtimer callback. aux: function address. detail: [`SAMPLING_TIMER`] if it takes samples of ours,
    /// [`REFILLS_QUOTA`] if it is the timer of a followed thread's quota.
    Hrtimer = 6,
    /// Interval: timer-wheel callback. aux: function address.
    Timer = 7,
    /// Interval: work item in a kworker. aux: function address; id: thread.
    Work = 8,
    /// Interval: cross-call function run here. aux: function address.
    CrossCall = 9,
    /// Interval: idle state. id: state number.
    IdleState = 10,
    /// Interval: the hypervisor took the CPU for `aux` nanoseconds, somewhere between two looks at its count.
    Steal = 11,
    /// Interval: a system call of a followed thread, its sleep included. id: thread. aux: number of the call.
    SystemCall = 12,
    /// Point: a thread was made runnable. id: thread. aux: [`Wakeup`]. detail: 1 if only "waking", 2 if it was made then.
    Wakeup = 20,
    /// Point: a thread moved. id: thread. aux: from CPU << 32 | to CPU.
    Migrate = 21,
    /// Point: page fault taken by a thread (its end cannot be traced). id: thread. aux: address. detail: 1 kernel mode.
    PageFault = 22,
    /// Point: an interprocessor interrupt was sent from this CPU. id: target CPU, or count of targets where
    /// detail is 1. aux: callback address (0: reschedule).
    IpiSend = 23,
    /// Point: TLB flush ran here. id: reason as the kernel numbers it. aux: pages.
    TlbFlush = 24,
    /// Point: a softirq was raised here. id: vector number.
    SoftirqRaise = 25,
    /// Point: a followed thread left its CPU to wait for something. id: thread. aux: [`Sleep`]. detail:
    /// [`SleepObject`], with [`Sleep::FOR_DISK`] where the kernel counts it as waiting for a disk. At the end of the
    /// thread's interval, to the nanosecond.
    Sleep = 26,
    /// Point: what a followed thread ran, looked at by a timer. id: thread. aux: kernel stack in the low 32 bits, user
    /// stack in the high ones ([`NO_STACK`]: none). detail: 1 kernel mode.
    Sample = 28,
    /// Point: a turn of our polling receiver, or a send call of our source, began that took much longer than the others. id: thread. aux: the turn's
    /// length, nanoseconds. detail: [`GapPlace`].
    LoopGap = 29,
    /// Point: one frame of the kernel stack of the thread that left its CPU at this instant. id: thread. aux: address.
    /// detail: depth, 0 innermost.
    Frame = 30,
    /// Not an event: the name of a thread. id: thread. start_ns and end_ns hold its 16 bytes. aux: process in the low 32
    /// bits, 0 where not known; when it had the name in the high ones, in 2^14 ns.
    TaskName = 40,
}

impl EventKind {
    /// Whether records of this kind span time.
    pub const fn is_interval(self) -> bool {
        (self as u8) < 20
    }
}

/// Where a loop was in the turn of an [`EventKind::LoopGap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum GapPlace {
    /// In its own code, between two receive calls.
    UserCode = 1,
    /// Inside a receive call that brought a packet.
    Call = 2,
    /// Inside a receive call that found nothing.
    EmptyPoll = 3,
    /// Inside a send call of our source.
    Send = 4,
}

/// System vectors of [`EventKind::Vector`], numbered by us because the kernel's numbers differ by machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr)]
#[repr(u32)]
pub enum Vector {
    /// Local timer.
    LocalTimer = 1,
    /// Reschedule request from another CPU.
    Reschedule = 2,
    /// Function call to many CPUs.
    CallFunction = 3,
    /// Function call to this CPU alone.
    CallFunctionSingle = 4,
    /// Deferred work of interrupt context.
    IrqWork = 5,
    /// Thermal event.
    Thermal = 6,
    /// Machine-check threshold.
    Threshold = 7,
    /// Deferred machine-check error.
    DeferredError = 8,
    /// Spurious interrupt.
    Spurious = 9,
    /// APIC error.
    ErrorApic = 10,
    /// Platform interrupt.
    Platform = 11,
}

/// One pass of the noise loop that took longer than asked, or one timestamp of the paper's dummy program.
///
/// ```text
///  0          8              16              24     26      28         32
///  +----------+--------------+---------------+------+-------+----------+
///  | index    | before cycles| after cycles  | cpu  | flags | reserved |
///  +----------+--------------+---------------+------+-------+----------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct GapRecord {
    /// Turn of the loop, from 0.
    pub index: u64,
    /// Cycle counter at the last stamp before the gap (loop) or the deadline (dummy program).
    pub before_cycles: u64,
    /// Cycle counter at the first stamp after it. 0 marks a slot never written.
    pub after_cycles: u64,
    /// CPU.
    pub cpu: u16,
    /// Bit 0: the thread changed CPU inside the gap. From bit 1 on: [`GapPlace`], where the loop has several.
    pub flags: u16,
    /// Zero.
    pub reserved: u32,
}
const _: () = assert!(size_of::<GapRecord>() == 32);

impl GapRecord {
    /// Lowest bit of the place in [`Self::flags`].
    pub const PLACE_SHIFT: u16 = 1;

    /// Where the loop was; none for a loop that has but one place.
    pub const fn place(&self) -> Option<GapPlace> {
        GapPlace::from_repr((self.flags >> Self::PLACE_SHIFT) as u8)
    }
}

/// A pairing of the cycle counter with the kernel's clocks, with the error that the pairing may have.
///
/// ```text
///  0        8              16             24            32           40          48   50        56
///  +--------+--------------+--------------+-------------+------------+-----------+----+---------+
///  | cycles | monotonic ns | realtime ns  | mono-raw ns | bracket ns | freq ppb  | cpu| reserved|
///  +--------+--------------+--------------+-------------+------------+-----------+----+---------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AnchorRecord {
    /// Cycle counter at the middle of the best bracket.
    pub cycles: u64,
    /// CLOCK_MONOTONIC read inside the bracket.
    pub monotonic_ns: i64,
    /// CLOCK_REALTIME at that instant.
    pub realtime_ns: i64,
    /// CLOCK_MONOTONIC_RAW at that instant; 0 is missing.
    pub monotonic_raw_ns: i64,
    /// Half the width of the bracket: the pairing is wrong by no more.
    pub half_bracket_ns: i64,
    /// The kernel's frequency correction (`adjtimex`), parts per billion.
    pub frequency_ppb: i64,
    /// CPU that took it.
    pub cpu: u16,
    /// Bit 0: CLOCK_REALTIME was stepped since the anchor before.
    pub flags: u16,
    /// Zero.
    pub reserved: u32,
}
const _: () = assert!(size_of::<AnchorRecord>() == 56);

/// One packet that our source sent.
///
/// ```text
///  0     8             16            24            32
///  +-----+-------------+-------------+-------------+
///  | seq | deadline ns | before cyc. | after cyc.  |
///  +-----+-------------+-------------+-------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SendRecord {
    /// Sequence number, from 0.
    pub seq: u64,
    /// Scheduled instant, CLOCK_MONOTONIC nanoseconds. 0 marks a slot never written.
    pub deadline_ns: i64,
    /// Cycle counter right before the send call.
    pub before_cycles: u64,
    /// Cycle counter right after it; 0: the send failed.
    pub after_cycles: u64,
}
const _: () = assert!(size_of::<SendRecord>() == 32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_rtp_header_says_lies_in_the_record() {
        let mut record = PacketRecord { flags: packet_flags::BATCHED, ..PacketRecord::default() };
        assert_eq!((record.payload_type(), record.ssrc()), (None, None));
        record.set_rtp(&RtpHeader::new(127, true, 5, 90_000, u32::MAX), Some([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!((record.payload_type(), record.ssrc()), (Some(127), Some(u32::MAX)));
        assert_eq!((record.media_timestamp, record.flags), (90_000, 0b1111_1110_0111_1010));
        assert_eq!(record.as_bytes()[56..], [1, 2, 3, 4, 5, 6, 7, 8]);
        let mut ours = PacketRecord { flags: packet_flags::OURS, sent_ns: 7, ..PacketRecord::default() };
        ours.set_rtp(&RtpHeader::new(0, false, 5, 1, 9), None);
        assert_eq!((ours.payload_type(), ours.ssrc(), ours.sent_ns), (Some(0), None, 7));
        assert_eq!(ours.flags, packet_flags::OURS | packet_flags::RTP | packet_flags::RTP_HEADER);
    }
}
