//! The worst late packets, which get a timeline.

use quaver_analysis::attribution::LatePacket;
use quaver_analysis::model::PacketTable;
use std::cmp::Reverse;

/// The worst late packets, one from each episode, largest first. An episode is a series of late packets each of which was
/// due before the one before it had arrived.
pub(super) fn worst<'a>(packets: &PacketTable, late: &'a [LatePacket], most: usize) -> Vec<&'a LatePacket> {
    let mut episodes: Vec<&LatePacket> = Vec::new();
    let mut end_ns = i64::MIN;
    for packet in late {
        let Some(app_ns) = packet.row().and_then(|row| packets.app_ns.get(row)) else { continue };
        match episodes.last_mut() {
            Some(worst) if app_ns.saturating_sub(packet.lateness_ns) <= end_ns => {
                if worst.lateness_ns < packet.lateness_ns {
                    *worst = packet;
                }
            }
            _ => episodes.push(packet),
        }
        end_ns = end_ns.max(*app_ns);
    }
    episodes.sort_by_key(|packet| Reverse(packet.lateness_ns));
    episodes.truncate(most);
    episodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::late;

    #[test]
    fn one_worst_packet_an_episode() {
        let packets = PacketTable {
            seq: (0..100).collect(),
            app_ns: (0..100).map(|n| 1_000 * n).collect(),
            app_cpu: vec![0; 100],
            stack_cpu: vec![0; 100],
            layers: Vec::new(),
        };
        let all = [(10, 3_000), (11, 2_000), (12, 1_500), (50, 9_000), (80, 10), (5_000, 1)];
        let all = all.map(|(row, lateness_ns)| late(row, lateness_ns, None));
        let rows = |most| worst(&packets, &all, most).iter().filter_map(|late| late.row).collect::<Vec<_>>();
        assert_eq!(rows(2), [50, 10]);
        assert_eq!(rows(9), [50, 10, 80]);
    }
}
