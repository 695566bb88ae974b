//! What no figure of a flow shows, in words: changes of the number of hops and of the DSCP, and copies that were not kept.

use crate::dscp;
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{DscpChanges, HopChange, HopSummary, MOST_HOP_CHANGES};
use quaver_path_record::FlowOutcome;
use quaver_view::Cell;

/// What a flow's receiver found changed, a sentence each.
pub(super) fn changes(flow: &FlowOutcome) -> Vec<String> {
    let Some(receiver) = flow.receiver else { return Vec::new() };
    let dscp = dscp_told(flow.direction, flow.dscp, receiver.dscps, receiver.received);
    // Rows that a broken test lacks are no copies.
    let copies = copies_told(flow.direction, receiver.received, flow.rows).filter(|_| flow.complete);
    told(flow.direction, &receiver.hops).into_iter().chain(dscp).chain(copies).collect()
}

/// How many copies arrived beyond those that the server keeps, as a sentence; none where it `kept` all.
fn copies_told(direction: Direction, received: u64, kept: u64) -> Option<String> {
    let more = received.saturating_sub(kept);
    (more > 0).then(|| {
        format!(
            "{}: {} arrived beyond what the server keeps: so many more were duplicates or invalid than shown",
            direction.name(),
            Cell::several(more, "datagram")
        )
    })
}

/// Which packets came with another DSCP than they were `sent` with, as a sentence; none where none did.
fn dscp_told(direction: Direction, sent: u8, changes: DscpChanges, received: u64) -> Option<String> {
    let DscpChanges { packets, last } = changes;
    (packets > 0).then(|| {
        format!(
            "{}: {} of {} packets arrived with another DSCP than {}, the last one with {}: \
             something between the two programs changed it",
            direction.name(),
            Cell::Count(packets),
            Cell::Count(received),
            dscp::name(sent),
            dscp::name(last & 63)
        )
    })
}

/// What changed of a route, as a sentence; none where nothing did.
pub(super) fn told(direction: Direction, found: &HopSummary) -> Option<String> {
    if found.changes == 0 {
        return None;
    }
    let change = |HopChange { from_packet, before, after }: &HopChange| {
        let (hops, way) = (before.abs_diff(*after), if after < before { "more" } else { "fewer" });
        let hops = Cell::several(hops.into(), "hop");
        format!("from packet {} on {hops} {way}", Cell::Sequence(*from_packet))
    };
    if found.changes > MOST_HOP_CHANGES as u64 {
        // A route that changes so often is no other than several at a time.
        let (changes, first) = (Cell::Count(found.changes), change(&found.first[0]));
        return Some(format!(
            "{}: packets took routes of different length in turns: the number of hops changed {changes} times, first {first}",
            direction.name()
        ));
    }
    let kept = found.first.iter().take(usize::try_from(found.changes).unwrap_or(usize::MAX));
    let each: Vec<String> = kept.map(change).collect();
    Some(format!("{}: the route changed: {}", direction.name(), each.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_path_flow::Hops;

    fn told(ttls: &[u8]) -> Option<String> {
        let mut hops = Hops::default();
        ttls.iter().zip(0..).for_each(|(ttl, packet)| hops.take(packet, *ttl));
        super::told(Direction::Up, &hops.found)
    }

    #[test]
    fn a_route_that_changed_is_told_with_its_packet() {
        let found = told(&[60, 60, 58, 58, 58, 58, 59, 59, 59]).unwrap();
        assert_eq!(
            found,
            "up: the route changed: from packet #2 on 2 hops more, from packet #6 on 1 hop fewer"
        );
        let flapping: Vec<u8> = (0..60).map(|packet| if packet / 3 % 2 == 0 { 60 } else { 61 }).collect();
        assert_eq!(
            told(&flapping).unwrap(),
            "up: packets took routes of different length in turns: the number of hops changed 19 times, first from packet #3 on 1 hop fewer"
        );
    }

    #[test]
    fn packets_of_another_dscp_are_told_with_both_names() {
        let mut changes = DscpChanges::default();
        for (sent, came) in [(Some(46), Some(46)), (None, Some(0)), (Some(46), None)] {
            changes.take(sent, came);
        }
        assert_eq!(dscp_told(Direction::Down, 46, changes, 3), None);
        changes.take(Some(46), Some(8));
        changes.take(Some(46), Some(0));
        assert_eq!(
            dscp_told(Direction::Down, 46, changes, 5).unwrap(),
            "down: 2 of 5 packets arrived with another DSCP than ef, the last one with be: \
             something between the two programs changed it"
        );
    }

    #[test]
    fn copies_that_the_server_did_not_keep_are_told() {
        assert_eq!(copies_told(Direction::Up, 500, 500), None);
        assert!(copies_told(Direction::Up, 4_000, 3_500).unwrap().starts_with("up: 500 datagrams arrived"));
    }

    #[test]
    fn single_packets_and_reflectors_that_cannot_tell_change_no_route() {
        for ttls in [
            &[60u8; 9][..],
            &[60, 60, 58, 58, 60, 58, 58, 60],
            &[60, 58, 57, 56, 60],
            &[0; 9],
            &[],
            &[0, 0, 60, 60, 60],
            &[60, 0, 0, 0, 60],
        ] {
            assert_eq!(told(ttls), None, "{ttls:?}");
        }
    }
}
