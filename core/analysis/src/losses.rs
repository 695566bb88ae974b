//! Packets by fate.

use crate::model::PacketCounts;
use crate::series::Order;
use crate::summary::Losses;

/// Where the missing packets went. `received` counts rows, copies included.
///
/// The missing packets are those of the sent numbers (or, where nobody counted them, of the numbers between the
/// smallest and the largest received) that the table does not hold. Each place takes at most what is still
/// missing, in the order: ours, another process, socket buffer, stack, network device, network. So no place is ever negative,
/// and all places together with `unaccounted` are exactly the missing packets.
pub fn losses(counts: &PacketCounts, order: &Order, received: u64) -> Losses {
    let expected = counts.sent.unwrap_or(order.span).max(order.distinct);
    let mut missing = expected - order.distinct;
    let mut take = |wanted: u64| {
        let taken = wanted.min(missing);
        missing -= taken;
        taken
    };
    let ours = take(counts.record_lost);
    let elsewhere = take(counts.elsewhere);
    let socket_buffer = counts.socket_dropped.map(&mut take);
    let stack = counts
        .stack_dropped
        .iter()
        .map(|(reason, &count)| (reason.clone(), take(count)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let nic_ring = counts.nic_dropped.map(&mut take);
    // What never came to this host's stack: of the packets sent or, of somebody else's stream, of its numbers. A packet whose
    // stamp was lost may have come.
    let unseen = counts.kernel_seen.map(|seen| {
        let came = seen.saturating_add(counts.nic_dropped.unwrap_or(0)).saturating_add(counts.stamps_lost);
        expected.saturating_sub(came)
    });
    let network = unseen.map(&mut take);
    Losses {
        sent: counts.sent,
        received,
        duplicates: order.duplicates,
        reordered: order.reordered,
        network,
        nic_ring,
        stack,
        socket_buffer,
        elsewhere,
        ours,
        unaccounted: missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_packet_is_no_loss_at_a_full_buffer() {
        let order = Order { distinct: 70, duplicates: 0, reordered: 0, span: 100 };
        for (drops, damaged, at_buffer, by_checksum) in [(30, 28, 2, 28), (28, 40, 0, 28), (30, 0, 30, 0)] {
            let mut counts = PacketCounts { sent: Some(100), ..PacketCounts::default() };
            counts.divide_drops(Some(drops), damaged);
            let fates = losses(&counts, &order, 70);
            assert_eq!(fates.socket_buffer, Some(at_buffer));
            assert_eq!(fates.stack.get("UDP_CSUM").copied().unwrap_or(0), by_checksum);
            assert_eq!(fates.unaccounted, 30 - at_buffer - by_checksum);
        }
        let mut unknown = PacketCounts::default();
        unknown.divide_drops(None, 5);
        assert_eq!(unknown, PacketCounts::default());
    }

    #[test]
    fn every_place_gets_its_packets() {
        let counts = PacketCounts {
            sent: Some(100),
            nic_dropped: Some(3),
            stack_dropped: [("NO_SOCKET".to_string(), 2)].into(),
            socket_dropped: Some(10),
            elsewhere: 5,
            record_lost: 1,
            kernel_seen: Some(93),
            ..PacketCounts::default()
        };
        let order = Order { distinct: 73, duplicates: 1, reordered: 2, span: 100 };
        let fates = losses(&counts, &order, 74);
        assert_eq!(
            (fates.ours, fates.elsewhere, fates.socket_buffer, fates.nic_ring),
            (1, 5, Some(10), Some(3))
        );
        assert_eq!((fates.stack["NO_SOCKET"], fates.network, fates.unaccounted), (2, Some(4), 2));
    }

    #[test]
    fn counters_that_exceed_what_is_missing_do_not_make_losses() {
        let counts = PacketCounts {
            sent: Some(10),
            socket_dropped: Some(50),
            kernel_seen: Some(4),
            ..PacketCounts::default()
        };
        let order = Order { distinct: 9, span: 10, ..Order::default() };
        let fates = losses(&counts, &order, 9);
        assert_eq!((fates.socket_buffer, fates.network, fates.unaccounted), (Some(1), Some(0), 0));
    }

    #[test]
    fn without_counters_the_numbers_tell() {
        let order = Order { distinct: 9, span: 10, ..Order::default() };
        let fates = losses(&PacketCounts::default(), &order, 9);
        assert_eq!((fates.sent, fates.network, fates.unaccounted), (None, None, 1));
    }

    #[test]
    fn what_the_stack_never_saw_was_lost_in_the_network_whoever_sent_it() {
        let counts = PacketCounts { kernel_seen: Some(93), ..PacketCounts::default() };
        let order = Order { distinct: 93, span: 100, ..Order::default() };
        let fates = losses(&counts, &order, 93);
        assert_eq!((fates.network, fates.unaccounted), (Some(7), 0));
    }

    #[test]
    fn a_packet_whose_stamp_was_lost_may_have_come() {
        let counts = PacketCounts { kernel_seen: Some(93), stamps_lost: 5, ..PacketCounts::default() };
        let order = Order { distinct: 93, span: 100, ..Order::default() };
        let fates = losses(&counts, &order, 93);
        assert_eq!((fates.network, fates.unaccounted), (Some(2), 5));
    }
}
