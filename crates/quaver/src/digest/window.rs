//! Cutting a run to its measured window: what was warm-up, or served to measure our own cost, is not judged.

use quaver_analysis::model::{Layer, MISSING, PacketRun, PacketTable};
use quaver_store::manifest::Window;

/// Events this far outside the window are kept: an interruption may have begun before it.
const EVENT_MARGIN_NS: u64 = 100_000_000;

/// Keeps the packets that were due in the window (without a schedule: received in it) and the events about it.
pub(super) fn cut(run: &mut PacketRun, window: Window) {
    let rows: Vec<bool> = (0..run.packets.len())
        .map(|row| {
            let due = due_ns(&run.packets, row);
            due >= window.start_ns && due < window.end_ns
        })
        .collect();
    if rows.iter().any(|kept| !kept) {
        let packets = &mut run.packets;
        retain(&mut packets.seq, &rows);
        retain(&mut packets.app_ns, &rows);
        retain(&mut packets.app_cpu, &rows);
        retain(&mut packets.stack_cpu, &rows);
        for column in &mut packets.layers {
            retain(&mut column.before_app_ns, &rows);
        }
    }
    let from = (window.start_ns.max(0) as u64).saturating_sub(EVENT_MARGIN_NS);
    let to = (window.end_ns.max(0) as u64).saturating_add(EVENT_MARGIN_NS);
    run.events.retain(|event| event.end_ns >= from && event.start_ns <= to);
}

/// When a packet was due, or was received where nobody knows.
fn due_ns(packets: &PacketTable, row: usize) -> i64 {
    let app_ns = packets.app_ns[row];
    let before = packets.column(Layer::Schedule).map(|column| column.before_app_ns[row]);
    before.filter(|before| *before != MISSING).map_or(app_ns, |before| app_ns - i64::from(before))
}

fn retain<T: Copy>(values: &mut Vec<T>, rows: &[bool]) {
    let mut row = 0;
    values.retain(|_| {
        row += 1;
        rows[row - 1]
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::record::EventRecord;
    use quaver_analysis::model::LayerColumn;

    #[test]
    fn packets_due_in_the_window_stay() {
        let mut run = PacketRun {
            packets: PacketTable {
                seq: vec![1, 2, 3],
                app_ns: vec![100, 210, 300],
                app_cpu: vec![0; 3],
                stack_cpu: vec![0; 3],
                layers: vec![LayerColumn { layer: Layer::Schedule, before_app_ns: vec![1, 11, MISSING] }],
            },
            events: vec![EventRecord { start_ns: 150, end_ns: 150, ..Default::default() }],
            ..PacketRun::default()
        };
        cut(&mut run, Window { start_ns: 199, end_ns: 300 });
        assert_eq!(run.packets.seq, [2]);
        assert_eq!(run.packets.layers[0].before_app_ns, [11]);
        assert_eq!(run.events.len(), 1, "near enough");
    }
}
