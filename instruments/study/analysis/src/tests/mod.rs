//! Exact small vectors, and simulated studies whose truth is known.

mod exact;
mod simulated;

use super::*;

/// A cell whose ranked figure (the share below half a period) is `value`.
pub(super) fn cell(block: u32, position: u32, arm: &str, value: f64) -> Cell {
    let figures = Figures { count: 1_000, below_half: value, ..Figures::default() };
    let layer =
        LayerFigures { layer: StudyLayer::Application, figures, bins: Vec::new(), series: Vec::new() };
    Cell {
        block,
        position,
        arm: arm.to_owned(),
        discarded: None,
        layers: vec![layer],
        sender: None,
        sent: 1_001,
        received: 1_001,
        slots_missed: 0,
        sink_involuntary: 0,
        source_involuntary: 0,
        tier: "user".to_owned(),
        boot: Vec::new(),
        notes: Vec::new(),
    }
}

/// A study of a baseline, a control and `factors` factors f0, f1, ...
pub(super) fn facts(blocks: u32, seed: u64, factors: usize) -> StudyFacts {
    let arm = |id: String, role| Arm { words: id.clone(), id, role, boot: Vec::new() };
    let mut arms = vec![arm("baseline".into(), Role::Baseline), arm("control".into(), Role::Control)];
    for at in 0..factors {
        arms.push(arm(format!("f{at}"), Role::Factor { class: SourceClass::ALL[at % 3] }));
    }
    StudyFacts {
        arms,
        blocks,
        further_blocks: 0,
        seed,
        period_ns: 7_410.0,
        spike_ns: 74_100,
        rank_by: Metric::OffHalf,
        measured_ns: 1_000_000_000,
        warm_up_ns: 300_000_000,
    }
}
