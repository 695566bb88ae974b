//! One flow: what is known of it so far.

use super::cuts::Cuts;
use super::figures::{DelayKind, FlowFigures};
use super::layers::Stages;
use super::sequence::Sequence;
use super::settings::{Room, TableSettings};
use super::spread::Spread;
use super::{FlowKey, FlowKind, NetworkFacts, Payload};
use quaver_abi::stamp::PacketStamps;
use quaver_arrivals::rtp::{RollingRtp, RtpContext, RtpKind, RtpPacket, VideoTold, analyze_rtp};

/// A packet as flows take it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowPacket {
    /// Its number in the capture, from 1.
    pub(super) number: u64,
    pub(super) time_ns: Option<i64>,
    /// The same, or that of the packet before it that has one.
    pub(super) now_ns: i64,
    pub(super) stamps: PacketStamps,
    pub(super) octets: u32,
    pub(super) network: NetworkFacts,
    /// Its number says nothing: it is a part of a datagram whose first part bears these ports and this payload, or a packet of RTP
    /// far from all others of its source.
    pub(super) unnumbered: bool,
    /// Steps of the capturing clock before it.
    pub(super) clock_step: u32,
}

/// Times of packets, rolling: the earliest, the latest, and those that step back.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    pub(super) packets: u64,
    pub(super) octets: u64,
    pub(super) unstamped: u64,
    pub(super) backwards: u64,
    pub(super) first_ns: Option<i64>,
    pub(super) last_ns: Option<i64>,
    before_ns: Option<i64>,
    first_octets: u64,
}

impl Span {
    pub(super) fn take(&mut self, time_ns: Option<i64>, octets: u32) {
        self.packets += 1;
        self.octets += u64::from(octets);
        let Some(now_ns) = time_ns else {
            self.unstamped += 1;
            return;
        };
        if self.first_ns.is_none() {
            self.first_octets = u64::from(octets);
        }
        self.first_ns = Some(self.first_ns.map_or(now_ns, |first_ns| first_ns.min(now_ns)));
        self.last_ns = Some(self.last_ns.map_or(now_ns, |last_ns| last_ns.max(now_ns)));
        self.backwards += u64::from(self.before_ns.is_some_and(|before_ns| now_ns < before_ns));
        self.before_ns = Some(now_ns);
    }

    /// Packets and bits a second, from the first packet, which is left out, to the last. None where some were not
    /// stamped, or where no time went by.
    fn rates(&self) -> Option<(f64, f64)> {
        let span_ns = i128::from(self.last_ns?) - i128::from(self.first_ns?);
        if span_ns <= 0 || self.unstamped > 0 {
            return None;
        }
        let seconds = span_ns as f64 / 1e9;
        let bits = (self.octets - self.first_octets) as f64 * 8.0;
        Some(((self.packets - 1) as f64 / seconds, bits / seconds))
    }
}

/// What costs memory, so not every flow has it.
#[derive(Debug)]
struct Detail {
    delta_t: Spread,
    sequence: Option<Sequence>,
    rtp: Option<RollingRtp>,
    kept: Vec<RtpPacket>,
    left_out: u64,
    stages: Stages,
    cuts: Cuts,
    /// Of the last packet of RTP.
    payload_type: Option<u8>,
}

/// One flow.
#[derive(Debug)]
pub(super) struct Flow {
    key: FlowKey,
    span: Span,
    payload_octets: u64,
    fragments: u64,
    before: Option<(Option<u64>, i64)>,
    bits: u32,
    /// Number and time of the last packet.
    seen: (u64, i64),
    detail: Option<Box<Detail>>,
    /// The figures as they stood when another flow got the room for detail.
    ended: Option<Box<FlowFigures>>,
}

/// The number that a packet bears, how many bits it has on the wire, and when it was sent.
fn number(payload: &Payload) -> Option<(u64, u32, Option<i64>)> {
    match payload {
        Payload::Rtp { ours: Some(ours), .. } => Some((ours.sequence, 64, Some(ours.sent_ns))),
        Payload::Rtp { sequence, .. } => Some((u64::from(*sequence), 16, None)),
        Payload::Stream(stream) => Some((stream.sequence, 64, Some(stream.sent_ns))),
        Payload::Probe(probe) | Payload::Stamp(probe) | Payload::StampReply(probe) => {
            Some((u64::from(probe.sequence), 32, Some(probe.sent_ns)))
        }
        Payload::Sentinel | Payload::Other => None,
    }
}

impl Flow {
    /// A flow that begins with these packets, which are not taken yet.
    pub(super) fn new(key: FlowKey, first: &[FlowPacket], settings: &TableSettings, detailed: bool) -> Self {
        let numbers: Vec<(u64, u32, Option<i64>)> = first
            .iter()
            .filter(|taken| !taken.unnumbered)
            .filter_map(|taken| number(&taken.network.payload))
            .collect();
        let bits = numbers.first().map_or(0, |(_, bits, _)| *bits);
        let detail = detailed.then(|| {
            let firsts: Vec<u64> = numbers.iter().map(|(number, _, _)| *number).collect();
            let numbered = key.kind != FlowKind::Other && bits > 0;
            Box::new(Detail {
                delta_t: Spread::new(),
                sequence: numbered.then(|| Sequence::new(bits, &firsts, settings.window)),
                rtp: (key.kind == FlowKind::Rtp).then(RollingRtp::new),
                kept: Vec::new(),
                left_out: 0,
                stages: Stages::default(),
                cuts: Cuts::default(),
                payload_type: None,
            })
        });
        let bits = if key.kind == FlowKind::Other { 0 } else { bits };
        Self {
            key,
            span: Span::default(),
            payload_octets: 0,
            fragments: 0,
            before: None,
            bits,
            seen: (0, 0),
            detail,
            ended: None,
        }
    }

    /// Takes the next packet.
    pub(super) fn take(&mut self, taken: &FlowPacket, room: &mut Room) {
        self.span.take(taken.time_ns, taken.octets);
        self.payload_octets += u64::from(taken.network.payload_octets.unwrap_or(0));
        self.fragments += u64::from(taken.network.fragment);
        self.seen = (taken.number, taken.now_ns);
        if taken.unnumbered {
            if let Some(detail) = &mut self.detail {
                detail.stages.take(&taken.stamps);
            }
            return;
        }
        // A packet whose numbers have another width is of another stream, and no packet of this one.
        let number = number(&taken.network.payload).filter(|(_, bits, _)| *bits == self.bits);
        self.delta_t(number.map(|(number, _, _)| number), taken.time_ns);
        let Some(detail) = &mut self.detail else { return };
        detail.stages.take(&taken.stamps);
        let (Some((number, _, sent_ns)), Some(sequence)) = (number, &mut detail.sequence) else { return };
        detail.cuts.take(number, mask(self.bits), taken.network.cut_octets);
        let Some(time_ns) = taken.time_ns else {
            sequence.push(number, None, room);
            return;
        };
        let rtp = detail.rtp.as_mut();
        let (Some(rtp), Payload::Rtp { fields, .. }) = (rtp, taken.network.payload) else {
            sequence.push(number, sent_ns.map(|sent_ns| (sent_ns, time_ns)), room);
            return;
        };
        let packet = RtpPacket { sequence: number, arrived_ns: time_ns, fields };
        detail.payload_type = fields.header.map(|header| header.payload_type);
        if let Some(sent_ns) = sent_ns {
            rtp.push(packet, |_, _| ());
            keep(&mut detail.kept, &mut detail.left_out, room, packet);
            sequence.push(number, Some((sent_ns, time_ns)), room);
            return;
        }
        let (kept, left_out) = (&mut detail.kept, &mut detail.left_out);
        rtp.push(packet, |packet, media_ns| {
            number_and_keep(sequence, kept, left_out, room, packet, media_ns)
        });
    }

    fn delta_t(&mut self, number: Option<u64>, time_ns: Option<i64>) {
        let Some(now_ns) = time_ns else {
            self.before = None;
            return;
        };
        let before = self.before.replace((number, now_ns));
        let (Some((number_before, before_ns)), Some(detail)) = (before, &mut self.detail) else { return };
        let mask = mask(self.bits);
        let successive = match (number_before, number) {
            (Some(before), Some(now)) => before.wrapping_add(1) & mask == now,
            (None, None) => self.bits == 0,
            _ => false,
        };
        if successive {
            detail.delta_t.record(now_ns.saturating_sub(before_ns));
        }
    }

    /// The stream has ended: what waited is taken.
    pub(super) fn finish(&mut self, room: &mut Room) {
        let Some(detail) = &mut self.detail else { return };
        if let (Some(rtp), Some(sequence)) = (&mut detail.rtp, &mut detail.sequence) {
            let (kept, left_out) = (&mut detail.kept, &mut detail.left_out);
            let ours = self.bits == 64;
            rtp.settle(|packet, media_ns| {
                if !ours {
                    number_and_keep(sequence, kept, left_out, room, packet, media_ns);
                }
            });
        }
        if let Some(sequence) = &mut detail.sequence {
            sequence.finish();
        }
    }

    /// Gives up what costs memory; the figures stay as they stand. Packets that it kept make room for others.
    pub(super) fn end_detail(&mut self, settings: &TableSettings, room: &mut Room) {
        self.finish(room);
        let figures = self.figures(settings, false);
        room.packets += self.kept();
        self.ended = Some(Box::new(figures));
        self.detail = None;
    }

    /// Whether it is seen in detail, or was.
    pub(super) fn has_detail(&self) -> bool {
        self.detail.is_some() || self.ended.is_some()
    }

    pub(super) fn key(&self) -> &FlowKey {
        &self.key
    }

    pub(super) fn packets(&self) -> u64 {
        self.span.packets
    }

    pub(super) fn octets(&self) -> u64 {
        self.span.octets
    }

    /// Number of its last packet in the capture.
    pub(super) fn seen(&self) -> u64 {
        self.seen.0
    }

    /// When that was.
    pub(super) fn seen_ns(&self) -> i64 {
        self.seen.1
    }

    /// Packets of RTP that it keeps.
    pub(super) fn kept(&self) -> usize {
        self.detail.as_ref().map_or(0, |detail| detail.kept.len())
    }

    /// The packets of RTP that it keeps, if it kept all.
    pub(super) fn all_kept(&self) -> Option<&[RtpPacket]> {
        let detail = self.detail.as_ref()?;
        (detail.left_out == 0 && !detail.cuts.have_numbers()).then_some(&detail.kept[..])
    }

    /// What is known. With `ended`, the packets that were kept are analysed and given up.
    pub(super) fn figures(&mut self, settings: &TableSettings, ended: bool) -> FlowFigures {
        let rates = self.span.rates();
        let mut figures = FlowFigures {
            key: self.key,
            packets: self.span.packets,
            octets: self.span.octets,
            payload_octets: self.payload_octets,
            fragments: self.fragments,
            detail_until: None,
            unstamped: self.span.unstamped,
            backwards: self.span.backwards,
            first_ns: self.span.first_ns,
            last_ns: self.span.last_ns,
            packets_per_s: rates.map(|(packets, _)| packets),
            bits_per_s: rates.map(|(_, bits)| bits),
            delta_t: None,
            sequence: None,
            delay: None,
            recent: None,
            numbers_cut: false,
            carries: None,
            media_clock: None,
            interarrival: None,
            rtp: None,
            rtp_left_out: 0,
            stages: Vec::new(),
        };
        let stamped = self.span.first_ns.is_some();
        let (kind, bits) = (self.key.kind, self.bits);
        let Some(detail) = &mut self.detail else {
            return self.ended.as_ref().map_or(figures.clone(), |ended| counted_on(ended, &figures));
        };
        figures.delta_t = detail.delta_t.figures();
        figures.stages = detail.stages.figures();
        if let Some(rtp) = &detail.rtp {
            figures.carries = rtp.known().map(|(kind, _)| kind);
            figures.media_clock = rtp.known().map(|(_, clock)| clock);
            figures.interarrival = rtp.interarrival();
        }
        figures.rtp_left_out = detail.left_out;
        let delay_kind = delay_kind(kind, bits, figures.carries, settings.wall_clock);
        if let Some(sequence) = &mut detail.sequence {
            figures.sequence = sequence.counts();
            figures.recent = if ended { None } else { sequence.recent(detail.payload_type) };
            figures.delay = delay_kind.filter(|_| stamped).and_then(|kind| sequence.delay(kind, ended));
        }
        if ended && !detail.kept.is_empty() {
            let context = RtpContext {
                arrival: settings.layer,
                sequence_bits: self.bits,
                tai: settings.tai,
                video: VideoTold::default(),
            };
            figures.rtp = analyze_rtp(std::mem::take(&mut detail.kept), &context);
        }
        if detail.cuts.have_numbers() {
            // What a train has of numbers was cut: all that counts them is unknown.
            (figures.numbers_cut, figures.rtp) = (true, None);
            (figures.sequence, figures.delay, figures.recent) = (None, None, None);
        }
        figures
    }
}

/// What is left of a number on the wire.
fn mask(bits: u32) -> u64 {
    if bits == 0 || bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Figures as they stood, with the counts of now.
fn counted_on(ended: &FlowFigures, now: &FlowFigures) -> FlowFigures {
    FlowFigures {
        packets: now.packets,
        octets: now.octets,
        payload_octets: now.payload_octets,
        fragments: now.fragments,
        detail_until: Some(ended.packets),
        unstamped: now.unstamped,
        backwards: now.backwards,
        first_ns: now.first_ns,
        last_ns: now.last_ns,
        packets_per_s: now.packets_per_s,
        bits_per_s: now.bits_per_s,
        ..ended.clone()
    }
}

/// What the sender's time of a flow is; none where it says nothing of the network.
fn delay_kind(kind: FlowKind, bits: u32, carries: Option<RtpKind>, wall_clock: bool) -> Option<DelayKind> {
    match kind {
        FlowKind::Probe | FlowKind::Stamp | FlowKind::StampReply if wall_clock => Some(DelayKind::OneWay),
        FlowKind::Probe | FlowKind::Stamp | FlowKind::StampReply | FlowKind::Stream => {
            Some(DelayKind::Offset)
        }
        FlowKind::Rtp if bits == 64 => Some(DelayKind::Offset),
        // All packets of a frame bear one time, so that of the frame's sending would be in it.
        FlowKind::Rtp => (carries == Some(RtpKind::Other)).then_some(DelayKind::Media),
        FlowKind::Other => None,
    }
}

fn keep(kept: &mut Vec<RtpPacket>, left_out: &mut u64, room: &mut Room, packet: RtpPacket) {
    if room.packets == 0 {
        *left_out += 1;
        return;
    }
    room.packets -= 1;
    kept.push(packet);
}

fn number_and_keep(
    sequence: &mut Sequence,
    kept: &mut Vec<RtpPacket>,
    left_out: &mut u64,
    room: &mut Room,
    packet: &RtpPacket,
    media_ns: i64,
) {
    if let Some(number) = sequence.push_media(packet.sequence, (media_ns, packet.arrived_ns), room) {
        keep(kept, left_out, room, RtpPacket { sequence: number, ..*packet });
    }
}
