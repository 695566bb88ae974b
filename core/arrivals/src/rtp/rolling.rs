//! Interarrival jitter of RTP as packets come, and what the stream carries by its first packets.

use super::clock::{self, ClockKnown, MediaClock, Unwrapped};
use super::kind::{self, RtpKind};
use super::{Interarrival, RtpPacket, busiest};
use crate::path::variation::{InterarrivalJitter, InterarrivalJitterTicks};

/// Packets by which the stream is known, at most.
const MOST_FIRST: usize = 1_024;
/// Fewer packets tell too little of what a stream carries.
const LEAST_FIRST: usize = 16;

/// J of RFC 3550, section 6.4.1, every packet in order of arrival.
#[derive(Clone, Debug)]
pub(super) struct InterarrivalEstimate {
    clock_hz: u32,
    ticks: InterarrivalJitterTicks,
    real: InterarrivalJitter,
    media: Unwrapped,
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
        let media_ns = clock::nanoseconds(self.media.next(packet.fields.timestamp), self.clock_hz);
        result.last_ns = self.real.add(packet.arrived_ns.saturating_sub(media_ns));
        result.max_ns = result.max_ns.max(result.last_ns);
        self.sum += result.last_ns;
        self.packets += 1;
        media_ns
    }

    pub(super) fn figures(&self) -> Interarrival {
        let mean_ns = self.sum / self.packets.max(1) as f64;
        Interarrival { mean_ns, ..self.so_far.clone() }
    }
}

/// One source of RTP as its packets come, in bounded memory.
#[derive(Clone, Debug)]
pub struct RollingRtp {
    first: Vec<RtpPacket>,
    known: Option<(RtpKind, MediaClock, InterarrivalEstimate)>,
}

impl Default for RollingRtp {
    fn default() -> Self {
        Self::new()
    }
}

impl RollingRtp {
    /// Before the first packet.
    pub fn new() -> Self {
        Self { first: Vec::new(), known: None }
    }

    /// Takes the next packet in order of arrival. Gives, from when the clock of the timestamps is known, each packet so
    /// far with its time by that clock, nanoseconds from that of the first: first all that had to wait, then one by one.
    pub fn push(&mut self, packet: RtpPacket, mut timed: impl FnMut(&RtpPacket, i64)) {
        if let Some((_, _, estimate)) = &mut self.known {
            let media_ns = estimate.add(&packet);
            return timed(&packet, media_ns);
        }
        self.first.push(packet);
        let span_ns = packet.arrived_ns.saturating_sub(self.first[0].arrived_ns);
        let enough = self.first.len() >= LEAST_FIRST && (self.told() || span_ns >= clock::LEAST_SPAN_NS);
        if enough || self.first.len() >= MOST_FIRST {
            self.settle(timed);
        }
    }

    /// Takes what there is for enough: the stream has ended, or is to be judged now.
    pub fn settle(&mut self, mut timed: impl FnMut(&RtpPacket, i64)) {
        if self.known.is_some() || self.first.is_empty() {
            return;
        }
        let first = std::mem::take(&mut self.first);
        let kind = kind::of(&first);
        let media_clock = clock::of(&first, kind, main_type(&first));
        let mut estimate = InterarrivalEstimate::new(media_clock.hz);
        for packet in &first {
            let media_ns = estimate.add(packet);
            timed(packet, media_ns);
        }
        self.known = Some((kind, media_clock, estimate));
    }

    /// What the stream carries and the clock of its timestamps; none before enough packets came.
    pub fn known(&self) -> Option<(RtpKind, MediaClock)> {
        self.known.as_ref().map(|(kind, clock, _)| (*kind, *clock))
    }

    /// Interarrival jitter so far.
    pub fn interarrival(&self) -> Option<Interarrival> {
        self.known.as_ref().map(|(_, _, estimate)| estimate.figures())
    }

    /// Whether the packets themselves say which clock it is.
    fn told(&self) -> bool {
        let told = clock::told(kind::of(&self.first), main_type(&self.first));
        told.is_some_and(|(_, known)| known != ClockKnown::Assumed)
    }
}

fn main_type(packets: &[RtpPacket]) -> Option<u8> {
    busiest(packets.iter().filter_map(|packet| packet.fields.header).map(|header| header.payload_type))
}
