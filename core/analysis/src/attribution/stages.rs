//! ΔT by layer, and where the time of late packets goes stage by stage.

use super::late::LatePacket;
use crate::model::{Layer, LayerColumn, MISSING, PacketTable};
use crate::series::delta_t;
use crate::summary::{LayerSummary, StageSummary};
use quaver_arrivals::distribution::distribution;

/// Layers of the table that hold a stamp, in the packet's order.
///
/// The kernel takes its own stamp when the driver hands the packet over: after the softirq has begun on a device
/// with NAPI, before it on loopback, veth and the like. So that layer goes where it was in this run.
fn stamped(packets: &PacketTable, buffer: &mut Vec<i64>) -> Vec<Layer> {
    let holds = |layer: &Layer| {
        *layer == Layer::Application
            || packets.column(*layer).is_some_and(|column| column.before_app_ns.iter().any(|&b| b != MISSING))
    };
    let mut layers: Vec<Layer> = Layer::ALL.into_iter().filter(holds).collect();
    let mut kernel = layers.iter().position(|layer| *layer == Layer::KernelStamp).unwrap_or(0);
    while kernel > 0 && stamps_first(packets, layers[kernel - 1], buffer) {
        layers.swap(kernel - 1, kernel);
        kernel -= 1;
    }
    layers
}

/// Whether the kernel's own stamp is typically earlier than that of the layer.
fn stamps_first(packets: &PacketTable, other: Layer, buffer: &mut Vec<i64>) -> bool {
    if !matches!(other, Layer::Interrupt | Layer::Softirq | Layer::Receive) {
        return false;
    }
    let (Some(kernel), Some(other)) = (packets.column(Layer::KernelStamp), packets.column(other)) else {
        return false;
    };
    let both = kernel.before_app_ns.iter().zip(&other.before_app_ns);
    buffer.clear();
    buffer.extend(
        both.filter(|(kernel, other)| **kernel != MISSING && **other != MISSING)
            .map(|(kernel, other)| kernel - other),
    );
    distribution(buffer).p50_ns > 0
}

/// ΔT of every stamped layer.
pub(super) fn layers(packets: &PacketTable, buffer: &mut Vec<i64>) -> Vec<LayerSummary> {
    if packets.is_empty() {
        return Vec::new();
    }
    stamped(packets, buffer)
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
    let layers = stamped(packets, buffer);
    let mut stages: Vec<StageSummary> = Vec::new();
    for pair in layers.windows(2) {
        // Looked up once a stage, not once a packet. The application, which has no column, is 0 before itself.
        let [from, to] = [pair[0], pair[1]].map(|layer| packets.column(layer));
        let before = |column: Option<&LayerColumn>, row: usize| match column {
            None => Some(0),
            Some(column) => column.before_app_ns.get(row).copied().filter(|before| *before != MISSING),
        };
        let time = |row: usize| Some(before(from, row)? - before(to, row)?);
        buffer.clear();
        let mut late_rows = late.iter().filter_map(LatePacket::row).peekable();
        let on_time = |row: &usize| late_rows.next_if_eq(row).is_none();
        buffer.extend((0..packets.len()).filter(on_time).filter_map(time));
        let on_time = distribution(buffer);
        buffer.clear();
        buffer.extend(late.iter().filter_map(LatePacket::row).filter_map(time));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn table(softirq: i64, receive: i64, kernel: i64) -> PacketTable {
        let column = |layer, before| LayerColumn { layer, before_app_ns: vec![before; 3] };
        PacketTable {
            seq: vec![0, 1, 2],
            app_ns: vec![10_000, 20_000, 30_000],
            app_cpu: vec![0; 3],
            stack_cpu: vec![0; 3],
            layers: vec![
                column(Layer::Source, 3_000),
                column(Layer::Softirq, softirq),
                column(Layer::Receive, receive),
                column(Layer::KernelStamp, kernel),
                column(Layer::Ready, 500),
            ],
        }
    }

    #[test]
    fn the_kernels_stamp_is_put_where_it_was_taken() {
        let order = |packets| stamped(&packets, &mut Vec::new());
        let [source, softirq, receive, kernel, ready, application] = [
            Layer::Source,
            Layer::Softirq,
            Layer::Receive,
            Layer::KernelStamp,
            Layer::Ready,
            Layer::Application,
        ];
        assert_eq!(order(table(2_000, 1_500, 2_100)), [source, kernel, softirq, receive, ready, application]);
        assert_eq!(order(table(2_000, 1_500, 1_600)), [source, softirq, kernel, receive, ready, application]);
        assert_eq!(order(table(2_000, 1_500, 1_400)), [source, softirq, receive, kernel, ready, application]);
        let unstamped = table(2_000, MISSING, MISSING);
        assert_eq!(order(unstamped), [source, softirq, ready, application]);
    }
}
