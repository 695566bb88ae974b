//! Interarrival jitter of RTP as packets come, and what the stream carries by its first packets.

use super::clock::{self, ClockKnown, MediaClock, Unwrapped};
use super::kind::{self, RtpKind};
use super::{Interarrival, RtpPacket, busiest};
use crate::path::variation::{InterarrivalJitter, InterarrivalJitterTicks};

/// Packets by which the stream is known, at most.
const MOST_FIRST: usize = 1_024;
/// Fewer packets tell too little of what a stream carries.
const LEAST_FIRST: usize = 16;
/// A stream whose rate is none of the usual ones for so long has another: the network moves no packet by 0.9 % of it for long.
const LONGEST_LOOK_NS: i64 = 2_000_000_000;
/// Changes of the rate that are told.
const MOST_CHANGES: usize = 16;

/// J of RFC 3550, section 6.4.1, every packet in order of arrival.
#[derive(Clone, Debug)]
pub(super) struct InterarrivalEstimate {
    clock_hz: u32,
    ticks: InterarrivalJitterTicks,
    real: InterarrivalJitter,
    media: Unwrapped,
    /// Time by the media clock at which its ticks count from 0, and that of the last packet beside its arrival.
    base_ns: i64,
    last_ns: (i64, i64),
    so_far: Interarrival,
    sum: f64,
    packets: u64,
}

impl InterarrivalEstimate {
    pub(super) fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            ticks: InterarrivalJitterTicks::default(),
            real: InterarrivalJitter::default(),
            media: Unwrapped::default(),
            base_ns: 0,
            last_ns: (0, 0),
            so_far: Interarrival::default(),
            sum: 0.0,
            packets: 0,
        }
    }

    /// Takes the next packet; gives its time by the media clock, nanoseconds from that of the first.
    pub(super) fn add(&mut self, packet: &RtpPacket) -> i64 {
        let result = &mut self.so_far;
        let arrived = clock::ticks(packet.arrived_ns, self.clock_hz);
        result.last_ticks = self.ticks.add_ticks(packet.fields.timestamp, arrived);
        result.max_ticks = result.max_ticks.max(result.last_ticks);
        let ticks = self.media.next(packet.fields.timestamp);
        let media_ns = self.base_ns.saturating_add(clock::nanoseconds(ticks, self.clock_hz));
        self.last_ns = (media_ns, packet.arrived_ns);
        result.last_ns = self.real.add(packet.arrived_ns.saturating_sub(media_ns));
        result.max_ns = result.max_ns.max(result.last_ns);
        self.sum += result.last_ns;
        self.packets += 1;
        media_ns
    }

    /// From this packet on the clock has another rate. Nothing tells how long it took from the packet before by either rate, so it
    /// takes the delay of that one.
    fn change_rate(&mut self, clock_hz: u32, packet: &RtpPacket) {
        let (media_ns, arrived_ns) = self.last_ns;
        self.base_ns = media_ns.saturating_add(packet.arrived_ns.saturating_sub(arrived_ns));
        self.media = Unwrapped::default();
        self.ticks.change_rate(self.clock_hz, clock_hz);
        let max_ticks =
            u64::from(self.so_far.max_ticks) * u64::from(clock_hz) / u64::from(self.clock_hz.max(1));
        self.so_far.max_ticks = u32::try_from(max_ticks).unwrap_or(u32::MAX);
        self.clock_hz = clock_hz;
    }

    pub(super) fn figures(&self) -> Interarrival {
        let mean_ns = self.sum / self.packets.max(1) as f64;
        Interarrival { mean_ns, ..self.so_far.clone() }
    }
}

/// A change of the media clock's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateChange {
    /// The first packet with it, in order of arrival, from 1.
    pub packet: u64,
    /// Its payload type.
    pub payload_type: u8,
    /// Rate of the timestamps from there on.
    pub hz: u32,
}

/// One source of RTP as its packets come, in bounded memory.
#[derive(Clone, Debug)]
pub struct RollingRtp {
    /// The first packets, until they tell what the stream carries; then those of a payload type whose rate is to be seen.
    waiting: Vec<RtpPacket>,
    known: Option<Known>,
    changes: Vec<RateChange>,
}

/// What is known of a stream.
#[derive(Clone, Debug)]
struct Known {
    kind: RtpKind,
    clock: MediaClock,
    estimate: InterarrivalEstimate,
    /// Payload types whose timestamps run at the rate of now, a bit each.
    types: u128,
}

impl Known {
    /// Whether the rate of this packet's timestamps is known.
    fn has_rate_of(&self, packet: &RtpPacket) -> bool {
        self.kind != RtpKind::Other || payload_type(packet).is_none_or(|of| self.types & (1 << of) != 0)
    }
}

fn payload_type(packet: &RtpPacket) -> Option<u8> {
    packet.fields.header.map(|header| header.payload_type & 0x7f)
}

impl Default for RollingRtp {
    fn default() -> Self {
        Self::new()
    }
}

impl RollingRtp {
    /// Before the first packet.
    pub fn new() -> Self {
        Self { waiting: Vec::new(), known: None, changes: Vec::new() }
    }

    /// Takes the next packet in order of arrival. Gives, from when the clock of the timestamps is known, each packet so
    /// far with its time by that clock, nanoseconds from that of the first: first all that had to wait, then one by one.
    pub fn push(&mut self, packet: RtpPacket, mut timed: impl FnMut(&RtpPacket, i64)) {
        if let Some(known) = &mut self.known {
            let other =
                self.waiting.first().is_some_and(|first| payload_type(first) != payload_type(&packet));
            if other {
                give(known, &mut self.waiting, &mut timed);
            }
            if known.has_rate_of(&packet) {
                let media_ns = known.estimate.add(&packet);
                return timed(&packet, media_ns);
            }
        }
        self.waiting.push(packet);
        let full = self.waiting.len() >= MOST_FIRST;
        let span_ns = packet.arrived_ns.saturating_sub(self.waiting[0].arrived_ns);
        if !full && (self.waiting.len() < LEAST_FIRST || span_ns < clock::LEAST_SPAN_NS && !self.told()) {
            return;
        }
        let measured = clock::measured_hz(&self.waiting);
        let usual = measured.and_then(clock::usual_hz);
        if full || usual.is_some() || span_ns >= LONGEST_LOOK_NS || self.told() {
            self.look(usual, &mut timed);
        }
    }

    /// Takes what waits: the first packets tell what the stream carries, later ones whether the clock has another rate.
    fn look(&mut self, usual: Option<u32>, timed: &mut impl FnMut(&RtpPacket, i64)) {
        let Some(known) = &mut self.known else { return self.settle(timed) };
        let Some((first, payload_type)) = self.waiting.first().and_then(|p| Some((*p, payload_type(p)?)))
        else {
            return;
        };
        let hz = known.estimate.clock_hz;
        let changed = usual.filter(|to| *to != hz && known.clock.known != ClockKnown::Assumed);
        match changed {
            None => known.types |= 1 << payload_type,
            Some(hz) => {
                known.estimate.change_rate(hz, &first);
                known.types = 1 << payload_type;
                if self.changes.len() < MOST_CHANGES {
                    let packet = known.estimate.packets + 1;
                    self.changes.push(RateChange { packet, payload_type, hz });
                }
            }
        }
        give(known, &mut self.waiting, timed);
    }

    /// Takes what there is for enough: the stream has ended, or is to be judged now.
    pub fn settle(&mut self, mut timed: impl FnMut(&RtpPacket, i64)) {
        if self.waiting.is_empty() {
            return;
        }
        let first = &self.waiting;
        let known = self.known.get_or_insert_with(|| {
            let kind = kind::of(first);
            let main_type = main_type(first);
            let clock = clock::of(first, kind, main_type);
            let types = first.iter().filter_map(payload_type).fold(0, |types, of| types | 1 << of);
            Known { kind, clock, estimate: InterarrivalEstimate::new(clock.hz), types }
        });
        give(known, &mut self.waiting, &mut timed);
    }

    /// What the stream carries and the clock of its timestamps, by its first packets; none before enough came.
    pub fn known(&self) -> Option<(RtpKind, MediaClock)> {
        self.known.as_ref().map(|known| (known.kind, known.clock))
    }

    /// Where the clock changed its rate, at most sixteen times.
    pub fn changes(&self) -> &[RateChange] {
        &self.changes
    }

    /// Interarrival jitter so far.
    pub fn interarrival(&self) -> Option<Interarrival> {
        self.known.as_ref().map(|known| known.estimate.figures())
    }

    /// Whether the first packets themselves say which clock it is.
    fn told(&self) -> bool {
        if self.known.is_some() {
            return false;
        }
        let told = clock::told(kind::of(&self.waiting), main_type(&self.waiting));
        told.is_some_and(|(_, known)| known != ClockKnown::Assumed)
    }
}

fn give(known: &mut Known, waiting: &mut Vec<RtpPacket>, timed: &mut impl FnMut(&RtpPacket, i64)) {
    for packet in waiting.drain(..) {
        let media_ns = known.estimate.add(&packet);
        timed(&packet, media_ns);
    }
}

fn main_type(packets: &[RtpPacket]) -> Option<u8> {
    busiest(packets.iter().filter_map(|packet| packet.fields.header).map(|header| header.payload_type))
}
