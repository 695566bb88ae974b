//! What is said of a capture. A figure that cannot be known is none.

use super::{ClockStep, FlowKey, FlowKind};
use quaver_abi::stamp::{Layer, StampClock};
use quaver_arrivals::path::rolling::RollingSummary;
use quaver_arrivals::rtp::{Interarrival, MediaClock, RtpKind, RtpSummary};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

/// How a quantity is spread, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpreadFigures {
    /// Values.
    pub count: u64,
    /// Smallest, exact.
    pub min_ns: i64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation of the population.
    pub sd_ns: f64,
    /// Median, right to 0.1 %.
    pub p50_ns: i64,
    /// 99th percentile, likewise.
    pub p99_ns: i64,
    /// 99.9th percentile, likewise.
    pub p99_9_ns: i64,
    /// Largest, exact.
    pub max_ns: i64,
}

/// Stamps of one layer by one clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerFigures {
    /// Layer.
    #[serde(serialize_with = "layer_name")]
    pub layer: Layer,
    /// Clock that packets were stamped by.
    #[serde(serialize_with = "clock_name")]
    pub clock: StampClock,
    /// Packets that have such a stamp.
    pub packets: u64,
    /// Of these, packets whose bound is not known.
    pub bound_unknown: u64,
    /// How far off a stamp may be; none where no bound is known.
    pub bound: Option<SpreadFigures>,
}

fn clock_name<S: Serializer>(clock: &StampClock, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(clock.name())
}

/// Time from one layer to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageFigures {
    /// Where it begins.
    #[serde(serialize_with = "layer_name")]
    pub from: Layer,
    /// Where it ends.
    #[serde(serialize_with = "layer_name")]
    pub to: Layer,
    /// Times. Below zero: the bounds of the two stamps are wider than the time between them.
    pub time: SpreadFigures,
}

fn layer_name<S: Serializer>(layer: &Layer, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(layer.name())
}

/// Loss, copies and order, by the senders' numbers. `expected` = `unique` + `lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SequenceCounts {
    /// Bits of the number on the wire.
    pub bits: u32,
    /// Numbers from the smallest of the first packets to the largest.
    pub expected: u64,
    /// Different packets.
    pub unique: u64,
    /// Numbers of which no packet came (so far: one may come late).
    pub lost: u64,
    /// Part of the expected packets that was lost.
    pub loss_share: f64,
    /// Loss periods that are certain (RFC 3357).
    pub loss_periods: u64,
    /// Length of the longest of these.
    pub longest_loss_period: u64,
    /// Copies beyond the first (RFC 5560).
    pub duplicate: u64,
    /// First copies that came after one with a larger number (RFC 4737, section 3.3).
    pub reordered: u64,
    /// Packets that came too late to tell a copy from a first packet; counted nowhere else.
    pub beyond_window: u64,
}

/// What a sender's time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DelayKind {
    /// Wall clock of the sender: delays are one-way delays, as both clocks say.
    OneWay,
    /// Another clock of the sender: delays have an unknown offset, and only their variation is known.
    Offset,
    /// The media clock: delays have an unknown offset, and the sender's own lateness is in their variation.
    Media,
}

/// Delay and its variation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DelayFigures {
    /// What the sender's time is.
    pub kind: DelayKind,
    /// The figures; their counts are those of [`SequenceCounts`], as far as they are certain.
    pub figures: RollingSummary,
    /// Interarrival jitter of RFC 3550, section 6.4.1, over first copies in order of arrival, by the sender's time.
    pub interarrival_ns: f64,
    /// How much faster the capturing clock ran than the sender's, parts per million: the drift was taken out of all figures here.
    /// None of flows shorter than 5 s, where no drift shows, and where the times were not kept (of a capture that goes on, and behind the first four million).
    pub skew_ppm: Option<f64>,
    /// What was taken out is right within this; with `skew_ppm`.
    pub drift_bound_ns: Option<i64>,
}

/// The last ten seconds of a stream while it is captured: between each two figures one second passes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RecentFigures {
    /// First copies.
    pub packets: u64,
    /// Numbers that went by and did not come, as RTP's receiver reports count them (RFC 3550, appendix A.3).
    pub lost: u64,
    /// Part of the numbers that went by.
    pub loss_share: f64,
    /// 99th percentile of PDV in the worst second, above the least delay of that second: clocks do not drift apart in it.
    pub worst_pdv_p99_ns: Option<u64>,
    /// Interarrival jitter of RFC 3550 as of now.
    pub interarrival_ns: f64,
    /// Mean opinion score at most (ITU-T G.107), behind a buffer of that PDV and without the network's own delay; of G.711 with
    /// concealment, G.729 and G.723.1 by their payload types.
    pub mos: Option<f64>,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowFigures {
    /// Which.
    #[serde(flatten)]
    pub key: FlowKey,
    /// Packets, copies included; of a train (UDP_SEGMENT) each datagram.
    pub packets: u64,
    /// Bytes on the wire.
    pub octets: u64,
    /// Bytes that the transport carried.
    pub payload_octets: u64,
    /// Parts of datagrams among the packets. Of a datagram, loss, order, ΔT and delay know the first part only.
    pub fragments: u64,
    /// Packets that the figures below cover, where these ended before the flow did: another flow needed the room.
    pub detail_until: Option<u64>,
    /// Packets without a stamp of the layer asked for.
    pub unstamped: u64,
    /// Packets with a time before that of the packet before.
    pub backwards: u64,
    /// Earliest time, nanoseconds; none where no packet is stamped.
    pub first_ns: Option<i64>,
    /// Latest time, nanoseconds.
    pub last_ns: Option<i64>,
    /// Packets a second between the first and the last.
    pub packets_per_s: Option<f64>,
    /// Bits a second on the wire between the first and the last.
    pub bits_per_s: Option<f64>,
    /// ΔT: between packets with successive numbers, or where the flow has no numbers between successive packets.
    pub delta_t: Option<SpreadFigures>,
    /// By the sender's numbers.
    pub sequence: Option<SequenceCounts>,
    /// By the sender's times.
    pub delay: Option<DelayFigures>,
    /// The last ten seconds; none at the end of a capture.
    pub recent: Option<RecentFigures>,
    /// Numbers may lie in parts of trains (UDP_SEGMENT, GRO) that the snap length cut: nothing is known of loss, order and delay.
    pub numbers_cut: bool,
    /// Of RTP: what it carries by its first packets.
    pub carries: Option<RtpKind>,
    /// Of RTP: rate of its timestamps, by its first packets.
    pub media_clock: Option<MediaClock>,
    /// Of RTP: interarrival jitter of all packets in order of arrival.
    pub interarrival: Option<Interarrival>,
    /// Of RTP whose packets were kept: the whole analysis.
    pub rtp: Option<RtpSummary>,
    /// Packets of RTP that were not kept for it: the limit was reached.
    pub rtp_left_out: u64,
    /// Time from layer to layer.
    pub stages: Vec<StageFigures>,
}

/// What two paths brought of one stream. `expected` = `both` + `only_first` + `only_second` + `lost`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairFigures {
    /// The flow with most packets.
    pub first: FlowKey,
    /// The other.
    pub second: FlowKey,
    /// Numbers from the smallest to the largest of both.
    pub expected: u64,
    /// Numbers that both brought.
    pub both: u64,
    /// Numbers that the first alone brought.
    pub only_first: u64,
    /// Numbers that the second alone brought.
    pub only_second: u64,
    /// Numbers that neither brought: the loss of the merged stream.
    pub lost: u64,
    /// Part of the expected numbers that neither brought.
    pub loss_share: f64,
    /// Arrival by the second path less that by the first.
    pub difference: Option<SpreadFigures>,
}

/// What is counted in sum only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Beyond {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub octets: u64,
}

/// Flows that made way for newer ones, as they had not been seen for the longest time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Departed {
    /// How often that happened; one that comes again begins anew.
    pub flows: u64,
    /// Their packets.
    pub packets: u64,
    /// Bytes of these on the wire.
    pub octets: u64,
}

/// A capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaptureFigures {
    /// Packets, a train counting once: those of all flows, `without_network`, `beyond` and `departed`; while a capture goes on also those of
    /// which it is not decided yet what they are.
    pub packets: u64,
    /// Bytes on the wire.
    pub octets: u64,
    /// Earliest time, nanoseconds; none where no packet is stamped.
    pub first_ns: Option<i64>,
    /// Latest time.
    pub last_ns: Option<i64>,
    /// Packets without a stamp of the layer asked for.
    pub unstamped: u64,
    /// Packets with a time before that of the packet before.
    pub backwards: u64,
    /// Frames that carry no IP, or cannot be decoded.
    pub without_network: Beyond,
    /// Packets of flows for which there was no room.
    pub beyond: Beyond,
    /// What made way while the capture went on.
    pub departed: Departed,
    /// Flows of which only counts are kept, there being more than the limit of detailed ones.
    pub counted_only: u64,
    /// Flows, that with most packets first.
    pub flows: Vec<FlowFigures>,
    /// Streams that came by two paths; of a file that was read whole.
    pub pairs: Vec<PairFigures>,
    /// Steps back of the capturing clock, at most eight.
    pub clock_steps: Vec<ClockStep>,
    /// Which layers stamped the packets.
    pub layers: Vec<LayerFigures>,
    /// Time from layer to layer, of all packets.
    pub stages: Vec<StageFigures>,
}

impl CaptureFigures {
    /// Sources of RTP whose numberings went on at the same time: for half of what the shorter one lasted, so that packets which are
    /// late behind a restart are no sender. Each has the key of its first numbering.
    pub fn used_at_once(&self) -> BTreeSet<FlowKey> {
        let first = |flow: &FlowFigures| FlowKey { restart: 0, ..flow.key };
        let mut streams: BTreeMap<FlowKey, Vec<(i64, i64)>> = BTreeMap::new();
        for flow in self.flows.iter().filter(|flow| flow.key.kind == FlowKind::Rtp) {
            if let Some(span) =
                flow.first_ns.zip(flow.last_ns).filter(|(first_ns, last_ns)| first_ns < last_ns)
            {
                streams.entry(first(flow)).or_default().push(span);
            }
        }
        let at_once = |one: &(i64, i64), other: &(i64, i64)| {
            let both_ns = one.1.min(other.1).saturating_sub(one.0.max(other.0));
            let shorter_ns = one.1.saturating_sub(one.0).min(other.1.saturating_sub(other.0));
            both_ns > 0 && both_ns >= shorter_ns / 2
        };
        streams.retain(|_, spans| {
            spans.iter().enumerate().any(|(at, one)| spans[at + 1..].iter().any(|other| at_once(one, other)))
        });
        streams.into_keys().collect()
    }
}
