//! The table of flows.

mod room;

use super::figures::{Beyond, CaptureFigures, Departed, FlowFigures};
use super::flow::{Flow, FlowPacket, Span};
use super::layers::{Layers, Stages};
use super::numbering::Numberings;
use super::pairs;
use super::parts::Parts;
use super::settings::{Room, TableSettings};
use super::steps::{Held, Steps};
use super::{FlowKey, FlowKind, FrameFacts, Payload, Tunnel};
use quaver_abi::stamp::PacketStamps;
use quaver_arrivals::rtp::Tai;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Packets of a pair of addresses and ports after which it is decided what they carry.
const DECIDE_AFTER: usize = 8;
/// Synchronisation sources that a pair of addresses and ports may have.
const MOST_SOURCES: usize = 16;
/// Numbers that lie nearer than this are of one stream (RFC 3550, appendix A.1: MAX_MISORDER).
const NEAR_NUMBERS: i16 = 100;

/// Both ends of a conversation, one direction of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    source: IpAddr,
    destination: IpAddr,
    ports: (Option<u16>, Option<u16>),
    protocol: u8,
    tunnel: Option<Tunnel>,
}

/// What was seen between two ends.
#[derive(Debug, Default)]
struct Conversation {
    /// The first packets, until it is decided what they are.
    first: Vec<FlowPacket>,
    decided: bool,
    /// Number of its last packet in the capture.
    seen: u64,
    is_rtp: bool,
    sources: usize,
    /// Runs of packets that look like RTP, where it is none so far: that of the latest packet is the last.
    promises: VecDeque<Promise>,
}

/// A run of packets of one source whose numbers go on.
#[derive(Clone, Copy, Debug)]
struct Promise {
    ssrc: Option<u32>,
    sequence: u16,
    packets: usize,
}

/// Flows, found and judged packet by packet.
#[derive(Debug)]
pub struct FlowTable {
    settings: TableSettings,
    conversations: HashMap<Ends, Conversation>,
    places: HashMap<FlowKey, usize>,
    flows: Vec<Flow>,
    numberings: Numberings,
    /// Those that are seen in detail.
    detailed: Vec<FlowKey>,
    room: Room,
    parts: Parts,
    steps: Steps,
    span: Span,
    /// Time of the last packet that has one.
    now_ns: i64,
    without_network: Beyond,
    beyond: Beyond,
    departed: Departed,
    layers: Layers,
    stages: Stages,
}

impl FlowTable {
    /// Without a packet.
    pub fn new(settings: TableSettings) -> Self {
        Self {
            settings,
            conversations: HashMap::new(),
            places: HashMap::new(),
            flows: Vec::new(),
            numberings: Numberings::default(),
            detailed: Vec::new(),
            room: Room { packets: settings.rtp_packets, arrivals: settings.arrivals },
            parts: Parts::default(),
            steps: Steps::default(),
            span: Span::default(),
            now_ns: 0,
            without_network: Beyond::default(),
            beyond: Beyond::default(),
            departed: Departed::default(),
            layers: Layers::default(),
            stages: Stages::default(),
        }
    }

    /// Takes the next packet in the order of capture. `time_ns` is its stamp at the layer asked for; none where that
    /// layer did not stamp it. `stamps` are all that there are.
    pub fn packet(&mut self, time_ns: Option<i64>, stamps: &PacketStamps, frame: &FrameFacts) {
        if !self.steps.holds(time_ns) {
            return self.take(time_ns, stamps, frame);
        }
        let one = Held { time_ns, stamps: *stamps, frame: *frame };
        let known = self.steps.hold(one, self.span.packets);
        known.iter().for_each(|held| self.take(held.time_ns, &held.stamps, &held.frame));
    }

    fn take(&mut self, time_ns: Option<i64>, stamps: &PacketStamps, frame: &FrameFacts) {
        if frame.of_train {
            self.span.octets += u64::from(frame.octets);
        } else {
            self.span.take(time_ns, frame.octets);
            self.layers.take(stamps);
            self.stages.take(stamps);
        }
        let Some(mut network) = frame.network else {
            count(&mut self.without_network, frame.octets);
            return;
        };
        self.now_ns = time_ns.unwrap_or(self.now_ns);
        let unnumbered = self.parts.resolve(&mut network, self.now_ns);
        let (number, now_ns) = (self.span.packets, self.now_ns);
        let taken = FlowPacket {
            number,
            time_ns,
            now_ns,
            stamps: *stamps,
            octets: frame.octets,
            network,
            unnumbered,
            clock_step: self.steps.count(),
        };
        let ends = Ends {
            source: network.source,
            destination: network.destination,
            ports: (network.source_port, network.destination_port),
            protocol: network.protocol,
            tunnel: network.tunnel,
        };
        if !self.conversations.contains_key(&ends) && self.conversations.len() >= self.settings.flows {
            if !self.makes_way() {
                count(&mut self.beyond, frame.octets);
                return;
            }
            self.dismiss_conversations();
        }
        let conversation = self.conversations.entry(ends).or_default();
        conversation.seen = number;
        if conversation.decided {
            let key = key(conversation, &taken);
            let key = within_sources(conversation, &self.places, key);
            self.place(key, &[taken]);
            return;
        }
        conversation.first.push(taken);
        if conversation.first.len() == DECIDE_AFTER {
            self.decide(ends);
        }
    }

    /// Decides what a conversation carries and gives its first packets to their flows.
    fn decide(&mut self, ends: Ends) {
        let Some(conversation) = self.conversations.get_mut(&ends) else { return };
        let first = std::mem::take(&mut conversation.first);
        conversation.decided = true;
        conversation.is_rtp = is_rtp(&first);
        let keys: Vec<FlowKey> = first.iter().map(|taken| key(conversation, taken)).collect();
        let mut distinct = keys.clone();
        distinct.sort_unstable();
        distinct.dedup();
        for key in distinct {
            let Some(conversation) = self.conversations.get_mut(&ends) else { return };
            let to = within_sources(conversation, &self.places, key);
            let of_flow: Vec<FlowPacket> =
                first.iter().zip(&keys).filter(|(_, of)| **of == key).map(|(taken, _)| *taken).collect();
            self.place(to, &of_flow);
        }
    }

    /// Gives packets to their flow: of RTP to those of their numberings. A new flow begins with the least of its first numbers, so all
    /// that are known go there at once.
    fn place(&mut self, key: FlowKey, packets: &[FlowPacket]) {
        if key.kind != FlowKind::Rtp {
            return self.give(key, packets);
        }
        let mut placed: Vec<(FlowKey, Vec<FlowPacket>)> = Vec::new();
        for taken in packets {
            let (held, now) = self.numberings.place(key, taken);
            for (key, taken) in held.into_iter().chain(now.map(|key| (key, *taken))) {
                match placed.iter_mut().find(|(of, _)| *of == key) {
                    Some((_, packets)) => packets.push(taken),
                    None => placed.push((key, vec![taken])),
                }
            }
        }
        placed.iter().for_each(|(key, packets)| self.give(*key, packets));
    }

    /// Gives packets to their flow, which is made where there is none.
    fn give(&mut self, key: FlowKey, packets: &[FlowPacket]) {
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.flows.len() >= self.settings.flows && !self.makes_way() => {
                packets.iter().for_each(|taken| count(&mut self.beyond, taken.octets));
                return;
            }
            None => {
                if self.flows.len() >= self.settings.flows {
                    self.dismiss_flows();
                }
                let detailed = self.has_room_for_detail(&key);
                self.flows.push(Flow::new(key, packets, &self.settings, detailed));
                self.places.insert(key, self.flows.len() - 1);
                self.flows.len() - 1
            }
        };
        for taken in packets {
            self.flows[place].take(taken, &mut self.room);
        }
    }

    /// Sets what is known of TAI on the capturing host, where that is learned at the end of a file.
    pub fn set_tai(&mut self, tai: Tai) {
        self.settings.tai = Some(tai);
    }

    /// What is known so far. Flows of fewer than eight packets are not there yet.
    pub fn figures(&mut self) -> CaptureFigures {
        self.figures_of(false)
    }

    /// What is known at the end.
    pub fn finish(mut self) -> CaptureFigures {
        for held in self.steps.finish(self.span.packets) {
            self.take(held.time_ns, &held.stamps, &held.frame);
        }
        // What is decided only now is not newer than what is there.
        self.settings.make_way = false;
        let mut undecided: Vec<(Option<i64>, Ends)> = self
            .conversations
            .iter()
            .filter(|(_, conversation)| !conversation.decided)
            .map(|(ends, conversation)| (conversation.first[0].time_ns, *ends))
            .collect();
        // The busiest first, for they get the room that is left; no order of a hash map may show.
        undecided.sort_by_key(|(time_ns, ends)| {
            let packets = self.conversations[ends].first.len();
            (
                std::cmp::Reverse(packets),
                *time_ns,
                ends.source,
                ends.destination,
                ends.ports,
                ends.protocol,
                ends.tunnel,
            )
        });
        undecided.into_iter().for_each(|(_, ends)| self.decide(ends));
        for (key, held) in self.numberings.finish() {
            self.give(key, &[held]);
        }
        let room = &mut self.room;
        self.flows.iter_mut().for_each(|flow| flow.finish(room));
        self.figures_of(true)
    }

    fn figures_of(&mut self, ended: bool) -> CaptureFigures {
        let settings = self.settings;
        let pairs = if ended { pairs::of(&self.flows) } else { Vec::new() };
        let mut flows: Vec<FlowFigures> =
            self.flows.iter_mut().map(|flow| flow.figures(&settings, ended)).collect();
        flows.sort_by(|a, b| b.packets.cmp(&a.packets).then(a.key.cmp(&b.key)));
        CaptureFigures {
            packets: self.span.packets,
            octets: self.span.octets,
            first_ns: self.span.first_ns,
            last_ns: self.span.last_ns,
            unstamped: self.span.unstamped,
            backwards: self.span.backwards,
            without_network: self.without_network,
            beyond: self.beyond,
            departed: self.departed,
            counted_only: self.flows.iter().filter(|flow| !flow.has_detail()).count() as u64,
            flows,
            pairs,
            clock_steps: self.steps.found().to_vec(),
            layers: self.layers.figures(),
            stages: self.stages.figures(),
        }
    }
}

fn count(beyond: &mut Beyond, octets: u32) {
    beyond.packets += 1;
    beyond.octets += u64::from(octets);
}

/// Whether most of the first packets are RTP of sources that count on.
fn is_rtp(first: &[FlowPacket]) -> bool {
    let looks = |taken: &FlowPacket| match &taken.network.payload {
        Payload::Rtp { sequence, fields, .. } => Some((fields.header?.ssrc?, *sequence)),
        _ => None,
    };
    let whole = || first.iter().filter(|taken| !taken.unnumbered);
    let heads: Vec<(u32, u16)> = whole().filter_map(looks).collect();
    let goes_on = |at: usize| {
        let (ssrc, sequence) = heads[at];
        heads.iter().enumerate().any(|(other, head)| {
            let apart = head.1.wrapping_sub(sequence).cast_signed().unsigned_abs();
            other != at && head.0 == ssrc && apart < NEAR_NUMBERS.unsigned_abs()
        })
    };
    let proven = (0..heads.len()).filter(|at| goes_on(*at)).count();
    proven >= 2 && 2 * proven >= whole().count()
}

/// The flow of a packet.
fn key(conversation: &mut Conversation, taken: &FlowPacket) -> FlowKey {
    let network = &taken.network;
    let (kind, id) = match &network.payload {
        Payload::Rtp { ours: Some(_), fields, .. } => (FlowKind::Rtp, ssrc(fields)),
        Payload::Rtp { sequence, fields, .. } => {
            let ssrc = ssrc(fields);
            if !taken.unnumbered {
                keep_promise(conversation, ssrc, *sequence);
            }
            if conversation.is_rtp { (FlowKind::Rtp, ssrc) } else { (FlowKind::Other, None) }
        }
        Payload::Stream(stream) => (FlowKind::Stream, Some(stream.stream_id)),
        Payload::Probe(_) => (FlowKind::Probe, None),
        Payload::Stamp(probe) => (FlowKind::Stamp, probe.session.map(u32::from)),
        Payload::StampReply(probe) => (FlowKind::StampReply, probe.session.map(u32::from)),
        Payload::Sentinel | Payload::Other => (FlowKind::Other, None),
    };
    FlowKey {
        source: network.source,
        source_port: network.source_port,
        destination: network.destination,
        destination_port: network.destination_port,
        protocol: network.protocol,
        kind,
        id,
        restart: 0,
        tunnel: network.tunnel,
        clock_step: taken.clock_step,
    }
}

/// A source that has no place yet is one of few: bytes that are no RTP would else be a source each.
fn within_sources(
    conversation: &mut Conversation,
    places: &HashMap<FlowKey, usize>,
    key: FlowKey,
) -> FlowKey {
    let before_steps = FlowKey { clock_step: 0, ..key };
    if key.kind != FlowKind::Rtp || places.contains_key(&key) || places.contains_key(&before_steps) {
        return key;
    }
    conversation.sources += 1;
    if conversation.sources > MOST_SOURCES { FlowKey { kind: FlowKind::Other, id: None, ..key } } else { key }
}

fn ssrc(fields: &quaver_arrivals::rtp::RtpFields) -> Option<u32> {
    fields.header.and_then(|header| header.ssrc)
}

/// A stream that begins later, on ports that carried something else: eight packets whose numbers go on show it. Several sources may
/// take turns.
fn keep_promise(conversation: &mut Conversation, ssrc: Option<u32>, sequence: u16) {
    if conversation.is_rtp {
        return;
    }
    let promises = &mut conversation.promises;
    let known = promises.iter().position(|promise| promise.ssrc == ssrc);
    let before = known.and_then(|at| promises.remove(at));
    let goes_on = before.filter(|before| before.sequence.wrapping_add(1) == sequence);
    let packets = 1 + goes_on.map_or(0, |before| before.packets);
    if promises.len() == MOST_SOURCES {
        promises.pop_front();
    }
    promises.push_back(Promise { ssrc, sequence, packets });
    if packets >= DECIDE_AFTER {
        conversation.is_rtp = true;
        conversation.promises = VecDeque::new();
    }
}
