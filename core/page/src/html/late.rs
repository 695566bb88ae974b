//! Late packets as points of the plots, and the worst of them for the timelines.

use super::series::{Grid, clamp_ns, column_of, delta_t_ns};
use quaver_analysis::attribution::LatePacket;
use quaver_analysis::model::{Layer, MISSING, PacketTable};

/// Most late packets that are drawn as points of their own.
pub const MOST_POINTS: usize = 60_000;

/// Mark of a late packet that nothing explains, among the cause numbers of points.
pub const UNEXPLAINED: i32 = -1;

/// Late packets chosen for drawing: all, or where there are too many, the worst of each slice of time.
pub(super) fn choose(packets: &PacketTable, late: &[LatePacket], most: usize) -> Vec<usize> {
    if late.len() <= most {
        return (0..late.len()).collect();
    }
    let grid =
        Grid { slices: most, slice_ns: Grid::over(packets).whole_ns() / most as f64, ..Grid::over(packets) };
    let mut worst: Vec<Option<usize>> = vec![None; grid.slices];
    for (at, packet) in late.iter().enumerate() {
        let Some(app_ns) = packets.app_ns.get(packet.row as usize) else { continue };
        let kept = &mut worst[grid.index(*app_ns)];
        if kept.is_none_or(|kept| late[kept].lateness_ns < packet.lateness_ns) {
            *kept = Some(at);
        }
    }
    worst.into_iter().flatten().collect()
}

/// Columns of the chosen points.
#[derive(Clone, Debug, Default)]
pub(super) struct Points {
    /// Application stamp, nanoseconds after the grid's start, as the two halves of a 64-bit number (low, high).
    pub time_ns: Vec<i32>,
    /// Lateness.
    pub lateness_ns: Vec<i32>,
    /// Index of the leading cause, or [`UNEXPLAINED`].
    pub cause: Vec<i32>,
    /// ΔT at each layer, [`MISSING`] where there is none.
    pub delta_ns: Vec<Vec<i32>>,
}

/// The points at every one of `layers`.
pub(super) fn points(
    packets: &PacketTable,
    late: &[LatePacket],
    chosen: &[usize],
    start_ns: i64,
    layers: &[Layer],
) -> Points {
    let chosen = || {
        chosen.iter().filter_map(|at| late.get(*at)).filter(|packet| (packet.row as usize) < packets.len())
    };
    let mut points = Points::default();
    for packet in chosen() {
        let offset_ns = packets.app_ns[packet.row as usize] - start_ns;
        points.time_ns.extend([offset_ns as i32, (offset_ns >> 32) as i32]);
        points.lateness_ns.push(clamp_ns(packet.lateness_ns));
        points.cause.push(packet.cause.map_or(UNEXPLAINED, |cause| cause as i32));
    }
    for layer in layers {
        let column = column_of(packets, *layer);
        let delta =
            |packet: &LatePacket| delta_t_ns(packets, column, packet.row as usize).map_or(MISSING, clamp_ns);
        points.delta_ns.push(chosen().map(delta).collect());
    }
    points
}

/// The worst late packets, one from each stretch of lateness, largest first. A stretch is a series of late
/// packets each of which was due before the one before it had arrived.
pub(super) fn worst(packets: &PacketTable, late: &[LatePacket], most: usize) -> Vec<usize> {
    let mut stretches: Vec<usize> = Vec::new();
    let mut end_ns = i64::MIN;
    for (at, packet) in late.iter().enumerate() {
        let Some(app_ns) = packets.app_ns.get(packet.row as usize) else { continue };
        match stretches.last_mut() {
            Some(last) if app_ns.saturating_sub(packet.lateness_ns) <= end_ns => {
                if late[*last].lateness_ns < packet.lateness_ns {
                    *last = at;
                }
            }
            _ => stretches.push(at),
        }
        end_ns = end_ns.max(*app_ns);
    }
    stretches.sort_by_key(|at| (std::cmp::Reverse(late[*at].lateness_ns), *at));
    stretches.truncate(most);
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn stream(count: usize) -> PacketTable {
        PacketTable {
            seq: (0..count as u64).collect(),
            app_ns: (0..count).map(|n| 1_000 * n as i64).collect(),
            app_cpu: vec![0; count],
            stack_cpu: vec![0; count],
            layers: Vec::new(),
        }
    }

    fn late(row: u32, lateness_ns: i64) -> LatePacket {
        fixture::late(row, lateness_ns, row.is_multiple_of(2).then_some(row / 2))
    }

    #[test]
    fn too_many_late_packets_keep_the_worst() {
        let packets = stream(10_000);
        let all: Vec<_> = (0..10_000).map(|row| late(row, if row == 4_321 { 9_000 } else { 10 })).collect();
        let chosen = choose(&packets, &all, 100);
        assert_eq!(chosen.len(), 100);
        assert!(chosen.contains(&4_321));
        assert!(chosen.is_sorted());
        assert_eq!(choose(&packets, &all, 10_000).len(), 10_000);
    }

    #[test]
    fn points_carry_time_cause_and_delta() {
        let packets = stream(4);
        let all = [late(0, 5), late(3, i64::MAX), late(99, 1)];
        let points = points(&packets, &all, &[0, 1, 2], -(1 << 32), &[Layer::Application]);
        assert_eq!(points.time_ns, [0, 1, 3_000, 1]);
        assert_eq!(points.cause, [0, UNEXPLAINED]);
        assert_eq!(points.lateness_ns, [5, i32::MAX]);
        assert_eq!(points.delta_ns, [vec![MISSING, 1_000]]);
    }

    #[test]
    fn one_worst_packet_a_stretch() {
        let packets = stream(100);
        let all = [late(10, 3_000), late(11, 2_000), late(12, 1_500), late(50, 9_000), late(80, 10)];
        assert_eq!(worst(&packets, &all, 2), [3, 0]);
        assert_eq!(worst(&packets, &all, 9), [3, 0, 4]);
    }
}
