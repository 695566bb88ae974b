//! Values of fields with a fixed shape. Sizes are asserted; all numbers are big-endian.

use super::{COOKIE_BYTES, COOKIE_MAGIC, ExtensionError};
use zerocopy::byteorder::network_endian::{I32, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

macro_rules! element {
    ($name:ident, $octets:literal, $field:ident) => {
        const _: () = assert!(size_of::<$name>() == $octets);

        impl $name {
            /// The element that exactly these bytes are. Values are not judged.
            ///
            /// # Errors
            /// Another length.
            pub fn from_octets(octets: &[u8]) -> Result<Self, ExtensionError> {
                Self::read_from_bytes(octets).map_err(|_| ExtensionError::BadField(super::field::$field))
            }
        }
    };
}

/// Clock readings of one round trip; the server's are zero on the way there. Nanoseconds.
///
/// ```text
/// client realtime i64 | client monotonic i64 | server realtime i64 | server monotonic i64      32 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct TimeElement {
    /// T1: client's UTC before sending.
    pub client_realtime_ns: I64,
    /// Client's CLOCK_MONOTONIC beside it.
    pub client_monotonic_ns: I64,
    /// T2: server's UTC.
    pub server_realtime_ns: I64,
    /// Server's CLOCK_MONOTONIC beside it.
    pub server_monotonic_ns: I64,
}
element!(TimeElement, 32, TIME);

/// A test as asked for.
///
/// ```text
/// directions u8 (bit 0 up, bit 1 down) | transport u8 (17 or 6) | schedule u8 | flags u8
/// packet bytes u32 | packets u64 | period ns u64 | seed u64 | dscp u32 | reserved u32         40 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FlowElement {
    /// [`FlowElement::UP`], [`FlowElement::DOWN`] or both, up first.
    pub directions: u8,
    /// IP protocol number.
    pub transport: u8,
    /// [`FlowElement::PERIODIC`], [`FlowElement::POISSON`] or [`FlowElement::RECORDED`].
    pub schedule: u8,
    /// [`FlowElement::ROLLING`], [`FlowElement::WAIT`], [`FlowElement::RANDOM_START`], [`FlowElement::DEPARTURES`].
    pub flags: u8,
    /// Bytes of a packet's payload.
    pub packet_bytes: U32,
    /// Packets each way; [`FlowElement::UNBOUNDED`]: until stopped.
    pub packets: U64,
    /// Period or mean gap; of a recording its mean. Nanoseconds.
    pub period_ns: U64,
    /// For a random start or gaps.
    pub seed: U64,
    /// Differentiated services code point.
    pub dscp: U32,
    /// 0.
    pub reserved: U32,
}
element!(FlowElement, 40, FLOW);

impl FlowElement {
    /// Direction: client to server.
    pub const UP: u8 = 1;
    /// Direction: server to client.
    pub const DOWN: u8 = 2;
    /// Schedule: a packet each period.
    pub const PERIODIC: u8 = 0;
    /// Schedule: exponential gaps.
    pub const POISSON: u8 = 1;
    /// Schedule: offsets follow in OFFSETS messages, if the server is to send.
    pub const RECORDED: u8 = 2;
    /// Flag: samples go back while the test runs, none are kept.
    pub const ROLLING: u8 = 1;
    /// Flag: wait in the queue if there is one.
    pub const WAIT: u8 = 2;
    /// Flag: a periodic schedule starts at random within its first period.
    pub const RANDOM_START: u8 = 4;
    /// Flag: the server tells after its flow when each of its packets departed, where that was stamped.
    pub const DEPARTURES: u8 = 8;
    /// Packets of a test that only a stop ends.
    pub const UNBOUNDED: u64 = u64::MAX;
}

/// What the client echoes on the test port before a flow, and what marks the flow's packets.
///
/// ```text
/// session tag 8 | cookie 16 | test port u32                                                    28 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CookieElement {
    /// Follows the number of each test packet.
    pub tag: [u8; 8],
    /// Secret of this flow.
    pub cookie: [u8; 16],
    /// The server's test port.
    pub test_port: U32,
}
element!(CookieElement, 28, COOKIE);

impl CookieElement {
    /// What goes to the test port: magic 8, session tag 8, cookie 16.
    pub fn echo(&self) -> [u8; COOKIE_BYTES] {
        let mut echo = [0; COOKIE_BYTES];
        let (magic, rest) = echo.split_at_mut(8);
        let (tag, cookie) = rest.split_at_mut(8);
        magic.copy_from_slice(&COOKIE_MAGIC);
        tag.copy_from_slice(&self.tag);
        cookie.copy_from_slice(&self.cookie);
        echo
    }
}

/// The kernel's estimate of its clock (`adjtimex`); nanoseconds.
///
/// ```text
/// realtime i64 | offset i64 | largest error i64 | estimated error i64 | frequency ppb i64
/// state i32 (-1: unknown) | status u32 | TAI offset i32 | reserved u32                          56 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ClockElement {
    /// When it was read, UTC.
    pub realtime_ns: I64,
    /// Offset that the kernel is working off.
    pub offset_ns: I64,
    /// Bound of the error.
    pub maxerror_ns: I64,
    /// Estimate of the error.
    pub esterror_ns: I64,
    /// Frequency correction.
    pub frequency_ppb: I64,
    /// What adjtimex returned: 0 TIME_OK to 5 TIME_ERROR.
    pub state: I32,
    /// STA_ bits.
    pub status: U32,
    /// TAI minus UTC, seconds.
    pub tai: I32,
    /// 0.
    pub reserved: U32,
}
element!(ClockElement, 56, CLOCK);

/// Both clocks at one moment; nanoseconds.
///
/// ```text
/// realtime i64 | monotonic i64                                                                 16 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ClockPairElement {
    /// UTC.
    pub realtime_ns: I64,
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: I64,
}
element!(ClockPairElement, 16, CLOCK_PAIRS);

/// What a sender counted.
///
/// ```text
/// packets u64 | sent u64 | misses u64 | sentinels u64 | start, UTC ns i64 | CPU ns u64
/// lateness: mean ns u64 | smallest ns u64 | 5 quantiles ns u64 | largest ns u64               112 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SenderElement {
    /// Sequence numbers used.
    pub packets: U64,
    /// Of these, taken by the kernel.
    pub sent: U64,
    /// Deadlines skipped.
    pub misses: U64,
    /// Sentinels.
    pub sentinels: U64,
    /// Start of the schedule, UTC.
    pub start_realtime_ns: I64,
    /// CPU time.
    pub cpu_ns: U64,
    /// Mean lateness.
    pub mean_ns: U64,
    /// Smallest lateness.
    pub smallest_ns: U64,
    /// Lateness at 0.5, 0.9, 0.99, 0.999, 0.9999.
    pub quantiles_ns: [U64; 5],
    /// Largest lateness.
    pub largest_ns: U64,
}
element!(SenderElement, 112, SENDER);

/// How a flow is to be sent, beside its schedule. In REQUEST, and in ACCEPT of a server that does so.
///
/// ```text
/// lasting ns u64 (0: no end by time) | late u8 (1 skip, 2 send late, 3 burst) | reserved 5
/// packets of a train u16 (0: as many as the rate needs, 1: none)                                 16 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SendingElement {
    /// Nanoseconds after the start at which the flow is over; 0: its packets alone decide.
    pub lasting_ns: U64,
    /// What becomes of late packets: 1 skipped, 2 sent late, half a period apart, 3 sent at once.
    pub late: u8,
    /// 0.
    pub reserved: [u8; 5],
    /// Packets of a train.
    pub train: U16,
}
element!(SendingElement, 16, SENDING);

/// What a sender did with late packets and in trains, beside [`SenderElement`].
///
/// ```text
/// late u64 | unsent u64 | packets in trains u64 | longest train u64 | late policy u8 | finished u8 | reserved 6
///                                                                                                40 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SendingReportElement {
    /// Packets sent when the next one was due as well.
    pub late: U64,
    /// Packets due within the flow's time that were not sent.
    pub unsent: U64,
    /// Packets that went in trains.
    pub train_packets: U64,
    /// Packets of the longest train.
    pub longest_train: U64,
    /// As in [`SendingElement`].
    pub late_policy: u8,
    /// 1 if schedule, packets or time came to their end.
    pub finished: u8,
    /// 0.
    pub reserved: [u8; 6],
}
element!(SendingReportElement, 40, SENDING_REPORT);

/// What a receiver counted.
///
/// ```text
/// received u64 | duplicates u64 | invalid u64 | sentinels u64 | foreign u64 | unreadable u64
/// own drops u64 (all bits: unknown) | 3 counts of stamps u64 | CPU ns u64 | end seen u64        96 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ReceiverElement {
    /// Packets of the flow.
    pub received: U64,
    /// Of these, copies.
    pub duplicates: U64,
    /// Of these, impossible ones.
    pub invalid: U64,
    /// Sentinels.
    pub sentinels: U64,
    /// Packets of others.
    pub foreign: U64,
    /// Packets too short.
    pub unreadable: U64,
    /// Dropped for want of buffer; all bits set: unknown.
    pub own_drops: U64,
    /// By hardware, kernel, application.
    pub stamped_by: [U64; 3],
    /// CPU time.
    pub cpu_ns: U64,
    /// 1 if the sentinel came.
    pub end_seen: U64,
}
element!(ReceiverElement, 96, RECEIVER);

/// A change of the number of hops.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct HopChangeElement {
    /// Number of the first packet that came the other way.
    pub from_packet: U64,
    /// TTL or hop limit before.
    pub before: u8,
    /// And from then on.
    pub after: u8,
    /// 0.
    pub reserved: [u8; 6],
}

/// What the TTLs and DSCPs of packets say to a receiver. Older receivers leave the
/// octets of the DSCP at 0.
///
/// ```text
/// TTL of the first packet u8 | last changed DSCP u8 | zero (2) | packets of a changed DSCP u32 | changes of the route u64
/// eight times: first packet u64 | TTL before u8 | after u8 | zero (6)                         144 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct HopsElement {
    /// TTL or hop limit of the first packet.
    pub ttl: u8,
    /// DSCP of the last packet that came with another one than it was sent with.
    pub last_dscp: u8,
    /// 0.
    pub reserved: [u8; 2],
    /// Packets that did; 2^32 - 1 also for more.
    pub dscp_changed: U32,
    /// How often the route changed.
    pub changes: U64,
    /// The first of these; the rest is 0.
    pub first: [HopChangeElement; 8],
}
element!(HopsElement, 144, HOPS);

/// What the server knows of a client whose datagrams came from another port than at the beginning.
///
/// ```text
/// how often u32 | uncounted datagrams u64 | last address (16) | last port u16                  30 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct MoveElement {
    /// How often the server followed.
    pub times: U32,
    /// Datagrams that came from the new ports before the server followed, as far as it saw them.
    pub uncounted: U64,
    /// Where the last ones came from; IPv4 mapped into IPv6.
    pub address: [u8; 16],
    /// And their port.
    pub port: U16,
}
element!(MoveElement, 30, MOVE);

/// A constant-bit-rate source as asked for (what `quaver source` sends), towards the address that echoes the cookie.
///
/// ```text
/// period numerator ns u64 | denominator u64 | packets u64 | duration ns u64
/// payload bytes u32 | stream u32 | profile u8 | pace u8 | flags u8 | dscp u8 | reserved u32    48 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SourceElement {
    /// Period, numerator, nanoseconds; 0 with a profile, which has its own.
    pub period_numerator: U64,
    /// Period, denominator; 0 with a profile.
    pub period_denominator: U64,
    /// Packets, at most; [`SourceElement::UNBOUNDED`]: as many as the time allows.
    pub packets: U64,
    /// Nanoseconds, at most.
    pub duration_ns: U64,
    /// Bytes of a packet's payload; 0 with a profile.
    pub packet_bytes: U32,
    /// Number of the stream, in each packet.
    pub stream_id: U32,
    /// [`SourceElement::PLAIN`], or one of the streams with a name, in the order of `quaver source --help`: 1
    /// st2022-6, 2 st2110-20, 3 st2110-20-gapped, 4 g729, 5 g711, 6 hd-1368.
    pub profile: u8,
    /// How deadlines are waited for: 0 spin, 1 sleep, 2 hybrid, 3 txtime.
    pub pace: u8,
    /// [`SourceElement::WAIT`], [`SourceElement::CATCH_UP`].
    pub flags: u8,
    /// Differentiated services code point.
    pub dscp: u8,
    /// 0.
    pub reserved: U32,
}
element!(SourceElement, 48, SOURCE);

impl SourceElement {
    /// Profile: packets of one size, a period apart.
    pub const PLAIN: u8 = 0;
    /// Flag: wait in the queue if there is one.
    pub const WAIT: u8 = 1;
    /// Flag: late packets go at once, back to back, rather than skip their slots.
    pub const CATCH_UP: u8 = 2;
    /// Packets of a stream that only its time or a stop ends.
    pub const UNBOUNDED: u64 = u64::MAX;
}

/// What a source says of the schedule that it achieved, beside [`SenderElement`].
///
/// ```text
/// failed u64 | refused u64 | late u64 | first to last deadline ns u64 | drift, 10^-9 i64       40 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SourceReportElement {
    /// Packets that its kernel did not take; their sequence numbers are used up.
    pub failed: U64,
    /// Refusals by the destination (ICMP); the packet at hand was then sent again.
    pub refused: U64,
    /// Packets sent later than half a period after their deadline.
    pub late: U64,
    /// From the first deadline to the last one used, nanoseconds.
    pub lasted_ns: U64,
    /// Slope of lateness over deadline, 10^-9; [`SourceReportElement::NO_DRIFT`]: not known.
    pub drift_ppb: I64,
}
element!(SourceReportElement, 40, SOURCE_REPORT);

impl SourceReportElement {
    /// The drift of fewer than two packets.
    pub const NO_DRIFT: i64 = i64::MIN;
}

/// Segments below a TCP flow, as one end saw them.
///
/// ```text
/// seen by u8 (1 captured, 2 counters) | end u8 (1 sender, 2 receiver) | reserved 6
/// segments u64 | retransmitted u64 | reordered u64 | duplicate u64 (all bits: not known)       40 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SegmentsElement {
    /// [`SegmentsElement::CAPTURED`] or [`SegmentsElement::COUNTERS`].
    pub seen_by: u8,
    /// [`SegmentsElement::SENDER`] or [`SegmentsElement::RECEIVER`]: which end of the flow saw them.
    pub end: u8,
    /// 0.
    pub reserved: [u8; 6],
    /// Segments with data.
    pub segments: U64,
    /// Sent again.
    pub retransmitted: U64,
    /// Out of order.
    pub reordered: U64,
    /// Came twice.
    pub duplicate: U64,
}
element!(SegmentsElement, 40, SEGMENTS);

impl SegmentsElement {
    /// Each segment was seen.
    pub const CAPTURED: u8 = 1;
    /// By the kernel's counters of the connection.
    pub const COUNTERS: u8 = 2;
    /// Seen where the flow began.
    pub const SENDER: u8 = 1;
    /// Seen where the flow ended.
    pub const RECEIVER: u8 = 2;
    /// A count that nobody has.
    pub const UNKNOWN: u64 = u64::MAX;
}

/// How long a sender's packets took from the program to their departure, as its kernel or network device stamped it.
///
/// ```text
/// stamped by u8 (0 hardware, 1 kernel) | reserved 7 | stamped u64 | missing u64
/// application to departure: median ns i64 | 0.99 ns i64 | largest ns i64                       48 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct DeparturesElement {
    /// What stamped them: 0 hardware, 1 kernel.
    pub stamped_by: u8,
    /// 0.
    pub reserved: [u8; 7],
    /// Packets whose departure was stamped.
    pub stamped: U64,
    /// Packets sent whose stamp never came.
    pub missing: U64,
    /// Median of departure less sending time, nanoseconds.
    pub median_ns: I64,
    /// 99th percentile of the same.
    pub p99_ns: I64,
    /// The largest.
    pub largest_ns: I64,
}
element!(DeparturesElement, 48, DEPARTURES);

/// What a server allows.
///
/// ```text
/// packets/s u64 | bits/s u64 | duration ns u64 | kept packets u64 | rolling packets/s u64
/// packet bytes u32 | reserved u32                                                             48 bytes
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct LimitsElement {
    /// Packets a second.
    pub packets_per_second: U64,
    /// Bits of payload a second.
    pub bits_per_second: U64,
    /// Nanoseconds of a flow.
    pub duration_ns: U64,
    /// Packets whose samples are kept.
    pub kept_packets: U64,
    /// Packets a second of rolling tests.
    pub rolling_packets_per_second: U64,
    /// Bytes of a packet.
    pub packet_bytes: U32,
    /// 0.
    pub reserved: U32,
}
element!(LimitsElement, 48, LIMITS);
