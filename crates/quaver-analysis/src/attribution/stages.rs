//! ΔT by layer, and where the time of late packets goes stage by stage.

use super::packets::LatePacket;
use crate::distribution::distribution;
use crate::model::{Layer, LayerColumn, MISSING, PacketTable};
use crate::series::delta_t;
use crate::summary::{LayerSummary, StageSummary};

/// Layers of the table that hold a stamp, in the packet's order.
fn stamped(packets: &PacketTable) -> Vec<Layer> {
    let holds = |layer: &Layer| {
        *layer == Layer::Application
            || packets.column(*layer).is_some_and(|column| column.before_app_ns.iter().any(|&b| b != MISSING))
    };
    Layer::ALL.into_iter().filter(holds).collect()
}

/// ΔT of every stamped layer.
pub(super) fn layers(packets: &PacketTable, buffer: &mut Vec<i64>) -> Vec<LayerSummary> {
    if packets.is_empty() {
        return Vec::new();
    }
    stamped(packets)
        .into_iter()
        .map(|layer| {
            let stamped = delta_t(packets, layer, buffer);
            LayerSummary { layer, stamped, delta_t: distribution(buffer) }
        })
        .collect()
}

/// Time between each two neighbouring stamped layers. The excess of a stage is what late packets spent there
/// beyond the median of packets on time, each packet's counted only where it is positive.
pub(super) fn stages(packets: &PacketTable, late: &[LatePacket], buffer: &mut Vec<i64>) -> Vec<StageSummary> {
    if packets.is_empty() {
        return Vec::new();
    }
    let layers = stamped(packets);
    let mut stages: Vec<StageSummary> = Vec::new();
    for pair in layers.windows(2) {
        // Looked up once a stage, not once a packet. The application, which has no column, is 0 before itself.
        let [from, to] = [pair[0], pair[1]].map(|layer| packets.column(layer));
        let before = |column: Option<&LayerColumn>, row: usize| match column {
            None => Some(0),
            Some(column) => {
                column.before_app_ns.get(row).filter(|&&before| before != MISSING).map(|&b| i64::from(b))
            }
        };
        let time = |row: usize| Some(before(from, row)? - before(to, row)?);
        buffer.clear();
        let mut late_rows = late.iter().map(|packet| packet.row as usize).peekable();
        let on_time = |row: &usize| late_rows.next_if_eq(row).is_none();
        buffer.extend((0..packets.len()).filter(on_time).filter_map(time));
        let on_time = distribution(buffer);
        buffer.clear();
        buffer.extend(late.iter().filter_map(|packet| time(packet.row as usize)));
        let excess_ns = buffer.iter().map(|&time| (time - on_time.p50_ns).max(0)).sum();
        let late = distribution(buffer);
        stages.push(StageSummary { from: pair[0], to: pair[1], on_time, late, excess_ns, excess_share: 0.0 });
    }
    let sum: i64 = stages.iter().map(|stage| stage.excess_ns).sum();
    for stage in &mut stages {
        stage.excess_share = super::causes::share(stage.excess_ns, sum);
    }
    stages
}
