//! One stream of RTP by two paths (SMPTE ST 2022-7): the receiver takes whichever copy of a packet comes first.

use super::figures::PairFigures;
use super::flow::Flow;
use super::spread::Spread;
use super::{FlowKey, FlowKind};
use quaver_arrivals::rtp::RtpPacket;

/// So many packets that both paths brought make a pair.
const LEAST_PACKETS: u64 = 8;
/// Numbers of 16 bits that wrapped are told apart by the timestamps of so many packets.
const ALIGNED_BY: usize = 64;
/// Pairs that are told.
const MOST_PAIRS: usize = 16;

/// Pairs among the flows whose packets were all kept.
pub(super) fn of(flows: &[Flow]) -> Vec<PairFigures> {
    let mut streams: Vec<(&FlowKey, &[RtpPacket])> = flows
        .iter()
        .filter(|flow| flow.key().kind == FlowKind::Rtp && flow.key().id.is_some())
        .filter_map(|flow| Some((flow.key(), flow.all_kept()?)))
        .collect();
    streams.sort_by_key(|(key, kept)| (key.id, std::cmp::Reverse(kept.len()), **key));
    let of_source = streams.chunk_by(|one, other| one.0.id == other.0.id);
    let pairs = of_source.flat_map(|group| {
        (1..group.len()).flat_map(move |second| (0..second).map(move |first| (group[first], group[second])))
    });
    pairs.filter_map(|(first, second)| pair(first, second)).take(MOST_PAIRS).collect()
}

/// First copies by number.
fn by_number(kept: &[RtpPacket]) -> Vec<RtpPacket> {
    let mut packets = kept.to_vec();
    packets.sort_by_key(|packet| packet.sequence);
    packets.dedup_by_key(|packet| packet.sequence);
    packets
}

fn pair(
    (first_key, first): (&FlowKey, &[RtpPacket]),
    (second_key, second): (&FlowKey, &[RtpPacket]),
) -> Option<PairFigures> {
    // Parts of one flow are no paths, and times before and after a step of the clock do not compare.
    let path =
        |key: &FlowKey| (key.source, key.source_port, key.destination, key.destination_port, key.tunnel);
    if path(first_key) == path(second_key) || first_key.clock_step != second_key.clock_step {
        return None;
    }
    let (first, mut second) = (by_number(first), by_number(second));
    let ahead = second.iter().take(ALIGNED_BY).find_map(|packet| ahead(&first, packet))?;
    for packet in &mut second {
        packet.sequence = packet.sequence.checked_add_signed(ahead)?;
    }
    let mut difference = Spread::new();
    let (mut both, mut at) = (0, 0);
    for packet in &second {
        while first.get(at).is_some_and(|one| one.sequence < packet.sequence) {
            at += 1;
        }
        let Some(same) = first.get(at).filter(|one| one.sequence == packet.sequence) else { continue };
        if !is_same(same, packet) {
            return None;
        }
        both += 1;
        difference.record(packet.arrived_ns.saturating_sub(same.arrived_ns));
    }
    if both < LEAST_PACKETS {
        return None;
    }
    let ends = [first.first()?, first.last()?, second.first()?, second.last()?].map(|packet| packet.sequence);
    let expected = ends[1].max(ends[3]) - ends[0].min(ends[2]) + 1;
    let (only_first, only_second) = (first.len() as u64 - both, second.len() as u64 - both);
    let lost = expected.saturating_sub(both + only_first + only_second);
    Some(PairFigures {
        first: *first_key,
        second: *second_key,
        expected,
        both,
        only_first,
        only_second,
        lost,
        loss_share: lost as f64 / expected as f64,
        difference: difference.figures(),
    })
}

/// How far numbers of the first flow are ahead of those of a packet of the second: some wraps of 16 bits.
fn ahead(first: &[RtpPacket], packet: &RtpPacket) -> Option<i64> {
    let low = |number: u64| number & 0xffff;
    let (least, most) = (first.first()?.sequence, first.last()?.sequence);
    let start = least + low(packet.sequence.wrapping_sub(least));
    let same = (start..=most).step_by(1 << 16).find(|number| {
        let found = first.binary_search_by_key(number, |one| one.sequence);
        found.is_ok_and(|at| is_same(&first[at], packet))
    })?;
    Some(same.wrapping_sub(packet.sequence).cast_signed())
}

fn is_same(one: &RtpPacket, other: &RtpPacket) -> bool {
    one.fields == other.fields
}
