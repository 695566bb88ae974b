//! What a way changed of its packets' headers, in words: the number of hops, the DSCP.

use crate::dscp;
use quaver_analysis::path::direction::Direction;
use quaver_path_flow::{DscpChanges, HopChange, HopSummary};
use quaver_path_record::FlowOutcome;
use quaver_view::Cell;

/// What a flow's receiver found changed, a sentence each.
pub(super) fn changes(flow: &FlowOutcome) -> Vec<String> {
    let Some(receiver) = flow.receiver else { return Vec::new() };
    let dscp = dscp_told(flow.direction, flow.dscp, receiver.dscps, receiver.received);
    told(flow.direction, &receiver.hops).into_iter().chain(dscp).collect()
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
    let kept = found.first.iter().take(usize::try_from(found.changes).unwrap_or(usize::MAX));
    let each: Vec<String> = kept.map(change).collect();
    let rest = found.changes - each.len() as u64;
    let rest = if rest == 0 { String::new() } else { format!(", and {} more changes", Cell::Count(rest)) };
    Some(format!("{}: the route changed: {}{rest}", direction.name(), each.join(", ")))
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
        assert!(told(&flapping).unwrap().ends_with(", and 11 more changes"));
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
