//! What an end of a flow knows of its packets below the program, as messages tell it.

use super::super::below::NOT_KNOWN;
use super::{Body, Message};
use quaver_abi::wire::extension::{
    DeparturesElement, ExtensionError, HopChangeElement, HopsElement, SegmentsElement, field,
};
use quaver_path_flow::{
    DepartureSummary, DscpChanges, HopChange, HopSummary, SegmentSummary, Side as SegmentSide, StampSource,
};

impl Body {
    /// Departures of packets from number `first` on.
    pub(in super::super) fn departed(self, first: u64, took_ns: &[u32]) -> Self {
        let mut octets = first.to_be_bytes().to_vec();
        took_ns.iter().for_each(|ns| octets.extend_from_slice(&ns.to_be_bytes()));
        self.field(field::DEPARTED, &octets)
    }

    /// What is known of segments, if anything is; `side` of the flow is this host's.
    pub(in super::super) fn segments(self, side: SegmentSide, segments: Option<SegmentSummary>) -> Self {
        let Some(segments) = segments else { return self };
        let count = |count: Option<u64>| count.unwrap_or(SegmentsElement::UNKNOWN).into();
        let element = SegmentsElement {
            seen_by: if segments.captured { SegmentsElement::CAPTURED } else { SegmentsElement::COUNTERS },
            end: match side {
                SegmentSide::Sender => SegmentsElement::SENDER,
                SegmentSide::Receiver => SegmentsElement::RECEIVER,
            },
            reserved: [0; 6],
            segments: count(segments.segments),
            retransmitted: count(segments.retransmitted),
            reordered: count(segments.reordered),
            duplicate: count(segments.duplicate),
        };
        self.element(field::SEGMENTS, &element)
    }

    /// What TTLs and DSCPs said, if anything.
    pub(in super::super) fn hops(self, hops: &HopSummary, dscps: DscpChanges) -> Self {
        if hops.ttl == 0 {
            return self;
        }
        let first = hops.first.map(|change| HopChangeElement {
            from_packet: change.from_packet.into(),
            before: change.before,
            after: change.after,
            reserved: [0; 6],
        });
        let element = HopsElement {
            ttl: hops.ttl,
            last_dscp: dscps.last,
            reserved: [0; 2],
            dscp_changed: u32::try_from(dscps.packets).unwrap_or(u32::MAX).into(),
            changes: hops.changes.into(),
            first,
        };
        self.element(field::HOPS, &element)
    }

    /// What is known of departures, if anything is.
    pub(in super::super) fn departures(self, departures: Option<DepartureSummary>) -> Self {
        let Some(departures) = departures else { return self };
        let element = DeparturesElement {
            stamped_by: departures.stamped_by as u8,
            reserved: [0; 7],
            stamped: departures.stamped.into(),
            missing: departures.missing.into(),
            median_ns: departures.median_ns.into(),
            p99_ns: departures.p99_ns.into(),
            largest_ns: departures.largest_ns.into(),
        };
        self.element(field::DEPARTURES, &element)
    }
}

impl Message {
    /// Departures and the number of the first packet; none: not known.
    pub(in super::super) fn departed(&self) -> Result<(u64, Vec<Option<u32>>), ExtensionError> {
        let bad = ExtensionError::BadField(field::DEPARTED);
        let octets = self.fields().find(field::DEPARTED)?;
        let (first, rest) = octets.split_first_chunk().ok_or(bad)?;
        let (took_ns, []) = rest.as_chunks::<4>() else { return Err(bad) };
        let took_ns = took_ns.iter().map(|octets| u32::from_be_bytes(*octets));
        Ok((u64::from_be_bytes(*first), took_ns.map(|ns| Some(ns).filter(|ns| *ns != NOT_KNOWN)).collect()))
    }

    /// What TTLs and DSCPs said to the peer.
    pub(in super::super) fn hops(&self) -> (HopSummary, DscpChanges) {
        let Ok(element) = self.element::<HopsElement>(field::HOPS) else { return Default::default() };
        let dscps = DscpChanges { packets: element.dscp_changed.get().into(), last: element.last_dscp };
        let first = element.first.map(|change| HopChange {
            from_packet: change.from_packet.get(),
            before: change.before,
            after: change.after,
        });
        (HopSummary { ttl: element.ttl, changes: element.changes.get(), first }, dscps)
    }

    /// What the peer knows of segments; what cannot be is nothing, as it is beside what was asked for.
    pub(in super::super) fn segments(&self) -> Option<SegmentSummary> {
        let element: SegmentsElement = self.element(field::SEGMENTS).ok()?;
        let captured = match element.seen_by {
            SegmentsElement::CAPTURED => true,
            SegmentsElement::COUNTERS => false,
            _ => return None,
        };
        let count = |count: u64| Some(count).filter(|count| *count != SegmentsElement::UNKNOWN);
        Some(SegmentSummary {
            captured,
            segments: count(element.segments.get()),
            retransmitted: count(element.retransmitted.get()),
            reordered: count(element.reordered.get()),
            duplicate: count(element.duplicate.get()),
        })
    }

    /// What the peer knows of the departures of its packets.
    pub(in super::super) fn departures(&self) -> Option<DepartureSummary> {
        let element: DeparturesElement = self.element(field::DEPARTURES).ok()?;
        let stamped_by = match element.stamped_by {
            0 => StampSource::Hardware,
            1 => StampSource::Kernel,
            _ => return None,
        };
        Some(DepartureSummary {
            stamped_by,
            stamped: element.stamped.get(),
            missing: element.missing.get(),
            median_ns: element.median_ns.get(),
            p99_ns: element.p99_ns.get(),
            largest_ns: element.largest_ns.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::below::departed;
    use quaver_abi::wire::extension::{Header, Kind, NONCE_BYTES};
    use quaver_path_flow::{ConnectionCounters, SegmentCounts, SegmentReport, TransmitStamps};

    fn message(body: Body) -> Message {
        let body = body.into_octets();
        let header = Header {
            kind: Kind::Sent,
            body_bytes: body.len() as u32,
            number: 0,
            coded: false,
            nonce: [0; NONCE_BYTES],
        };
        Message::new(header, [&header.to_octets()[..], &body].concat())
    }

    #[test]
    fn each_end_tells_what_its_counters_can_know() {
        let counters = ConnectionCounters {
            segments_sent: 1,
            segments_received: 2,
            retransmitted: 3,
            reordering_events: 4,
            duplicates_reported: 5,
            received_out_of_order: 6,
        };
        let report = SegmentReport { counters: Some(counters), ..SegmentReport::default() };
        let of = |side| SegmentSummary::of(Some(&report), side).unwrap();
        let (sender, receiver) = (of(SegmentSide::Sender), of(SegmentSide::Receiver));
        assert_eq!((sender.segments, sender.retransmitted), (Some(1), Some(3)));
        assert_eq!((sender.reordered, sender.duplicate), (Some(4), Some(5)));
        assert_eq!((receiver.segments, receiver.retransmitted), (Some(2), None));
        assert_eq!((receiver.reordered, receiver.duplicate), (Some(6), None));
        let seen = SegmentCounts { segments: 9, reordered: 1, ..SegmentCounts::default() };
        let report = SegmentReport { seen: Some(seen), ..report };
        let seen = SegmentSummary::of(Some(&report), SegmentSide::Receiver).unwrap();
        assert_eq!((seen.captured, seen.segments, seen.reordered), (true, Some(9), Some(1)));
        for summary in [Some(sender), Some(receiver), Some(seen), None] {
            let told = message(Body::new().segments(SegmentSide::Receiver, summary));
            assert_eq!(told.segments(), summary);
            assert_eq!(told.check(&[]), Ok(()), "who does not know it passes over it");
        }
    }

    #[test]
    fn each_departure_is_told_by_the_number_of_its_packet() {
        use quaver_path_flow::TransmitStamp;
        let stamp = |sequence, took_ns| TransmitStamp {
            sequence,
            sent_ns: 100,
            left_ns: 100 + took_ns,
            stamped_by: StampSource::Kernel,
        };
        let kept = vec![stamp(2, 7), stamp(0, 5), stamp(4, -1), stamp(5, i64::from(u32::MAX))];
        let stamps = TransmitStamps { kept, stamped_by: [0, 4, 0], ..TransmitStamps::default() };
        let took_ns = departed(&stamps);
        let told = message(Body::new().departed(3, &took_ns)).departed().unwrap();
        assert_eq!(told, (3, vec![Some(5), None, Some(7), None, None, None]));
        let mixed = TransmitStamps { stamped_by: [1, 3, 0], ..stamps };
        assert!(departed(&mixed).is_empty(), "two layers are not one delay");
        assert!(message(Body::new().field(field::DEPARTED, &[0; 9])).departed().is_err());
        assert!(message(Body::new()).departed().is_err());
    }

    #[test]
    fn departures_are_told_and_nonsense_is_nothing() {
        let stamps = TransmitStamps {
            count: 10,
            missing: 1,
            stamped_by: [0, 10, 0],
            median_ns: 5_000,
            p99_ns: 70_000,
            largest_ns: 80_000,
            ..TransmitStamps::default()
        };
        let summary = stamps.summary();
        assert_eq!(summary.unwrap().stamped_by, StampSource::Kernel);
        let told = message(Body::new().departures(summary));
        assert_eq!((told.departures(), told.check(&[])), (summary, Ok(())));
        assert_eq!(message(Body::new().departures(None)).departures(), None);
        let nonsense =
            message(Body::new().field(field::DEPARTURES, &[2; 48]).field(field::SEGMENTS, &[0; 40]));
        assert_eq!((nonsense.departures(), nonsense.segments()), (None, None));
        assert_eq!(TransmitStamps::default().summary(), None);
    }
}
