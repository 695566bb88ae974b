//! What the two ends of a flow know below the program, as the manifest has it.

use crate::facts::{DepartureFacts, SegmentFacts};
use quaver_abi::wire::jitlat::Singleton;
use quaver_arrivals::distribution::Distribution;
use quaver_arrivals::distribution::distribution;
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{SegmentSummary, StampSource, TransmitStamps};
use quaver_path_record::FlowOutcome;

/// When a flow's packets left, as its sender says.
pub fn departures(flow: &FlowOutcome) -> Option<DepartureFacts> {
    let said = flow.sender.and_then(|sender| sender.departures)?;
    let stamps = flow.send_report.as_ref().and_then(|report| report.transmit_stamps.as_ref());
    let delay = match flow.direction {
        Direction::Up => stamps.and_then(|stamps| from_departure(&flow.singletons, stamps, said.stamped_by)),
        Direction::Down => from_departure_told(&flow.singletons, &flow.departed),
    };
    Some(DepartureFacts {
        stamped_by: said.stamped_by.name().to_owned(),
        stamped: said.stamped,
        missing: said.missing,
        p50_ns: said.median_ns,
        p99_ns: said.p99_ns,
        max_ns: said.largest_ns,
        delay,
    })
}

/// Delay from departure to arrival of first copies, if each of them has a stamp, and all by one layer.
fn from_departure(
    packets: &[Singleton],
    stamps: &TransmitStamps,
    stamped_by: StampSource,
) -> Option<Distribution> {
    let mut left_ns = Vec::new();
    for stamp in &stamps.kept {
        let place = usize::try_from(stamp.sequence).ok().filter(|place| *place < 1 << 32)?;
        if left_ns.len() <= place {
            left_ns.resize(place + 1, None);
        }
        left_ns[place] = (stamp.stamped_by == stamped_by).then_some((stamp.sent_ns, stamp.left_ns));
    }
    let mut delays = Vec::new();
    for packet in packets.iter().filter(|packet| packet.flags == 0) {
        let (sent_ns, left_ns) = left_ns.get(packet.tx_seq.cast_unsigned() as usize).copied().flatten()?;
        if sent_ns != packet.tx_real_time_ns {
            return None;
        }
        delays.push(packet.rx_real_time_ns.saturating_sub(left_ns));
    }
    (!delays.is_empty()).then(|| distribution(&mut delays))
}

/// The same with times from sending to departure, by number, as the server told them.
fn from_departure_told(packets: &[Singleton], departed: &[Option<u32>]) -> Option<Distribution> {
    let mut delays = Vec::new();
    for packet in packets.iter().filter(|packet| packet.flags == 0) {
        let took_ns = departed.get(packet.tx_seq.cast_unsigned() as usize).copied().flatten()?;
        let left_ns = packet.tx_real_time_ns.saturating_add(i64::from(took_ns));
        delays.push(packet.rx_real_time_ns.saturating_sub(left_ns));
    }
    (!delays.is_empty()).then(|| distribution(&mut delays))
}

/// Segments as the client saw them.
pub fn segments_here(flow: &FlowOutcome) -> Option<SegmentFacts> {
    segments(flow, flow.direction == Direction::Up)
}

/// Segments as the server says it saw them.
pub fn segments_at_server(flow: &FlowOutcome) -> Option<SegmentFacts> {
    segments(flow, flow.direction == Direction::Down)
}

fn segments(flow: &FlowOutcome, by_sender: bool) -> Option<SegmentFacts> {
    let said = if by_sender {
        flow.sender.and_then(|sender| sender.segments)
    } else {
        flow.receiver.and_then(|receiver| receiver.segments)
    };
    let SegmentSummary { captured, segments, retransmitted, reordered, duplicate } = said?;
    let seen_by = if captured { "captured" } else { "counters" }.to_owned();
    Some(SegmentFacts { seen_by, segments, retransmitted, reordered, duplicate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_path_flow::TransmitStamp;

    fn packet(tx_seq: i32, delay_ns: i64, flags: i32) -> Singleton {
        let tx_real_time_ns = i64::from(tx_seq) * 1_000;
        Singleton { tx_real_time_ns, tx_seq, rx_real_time_ns: tx_real_time_ns + delay_ns, flags }
    }

    fn stamps(left_after_ns: &[(u64, i64, StampSource)]) -> TransmitStamps {
        let stamp = |(sequence, after_ns, stamped_by): &(u64, i64, StampSource)| {
            let sent_ns = sequence.cast_signed() * 1_000;
            TransmitStamp {
                sequence: *sequence,
                sent_ns,
                left_ns: sent_ns + after_ns,
                stamped_by: *stamped_by,
            }
        };
        TransmitStamps { kept: left_after_ns.iter().map(stamp).collect(), ..TransmitStamps::default() }
    }

    #[test]
    fn delay_from_departure_is_of_all_packets_or_none() {
        use StampSource::{Hardware, Kernel};
        // Number 1 is lost, 2 overtakes nothing, a copy of 0 does not count.
        let packets = [packet(0, 500, 0), packet(2, 700, 0), packet(0, 900, 1)];
        let whole = stamps(&[(0, 100, Kernel), (1, 100, Kernel), (2, 50, Kernel)]);
        let delay = from_departure(&packets, &whole, Kernel).unwrap();
        assert_eq!((delay.count, delay.min_ns, delay.max_ns), (2, 400, 650));
        assert_eq!(from_departure(&packets, &whole, Hardware), None);
        let mixed = stamps(&[(0, 100, Kernel), (2, 50, Hardware)]);
        assert_eq!(from_departure(&packets, &mixed, Kernel), None, "one layer for all");
        let short = stamps(&[(0, 100, Kernel)]);
        assert_eq!(from_departure(&packets, &short, Kernel), None, "a packet without its stamp");
        assert_eq!(from_departure(&[], &whole, Kernel), None);
        let other = [packet(0, 500, 0), Singleton { tx_real_time_ns: 5, ..packet(2, 700, 0) }];
        assert_eq!(from_departure(&other, &whole, Kernel), None, "another packet of that number");
        let told = from_departure_told(&packets, &[Some(100), None, Some(50)]).unwrap();
        assert_eq!((told.count, told.min_ns, told.max_ns), (2, 400, 650), "as with stamps of our own");
        assert_eq!(from_departure_told(&packets, &[Some(100), None]), None, "a packet without its stamp");
        assert_eq!(from_departure_told(&packets, &[]), None);
    }
}
