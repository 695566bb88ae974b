//! One cell: one arm in one block, from bare ground to its figures.

mod beside;
mod ends;
mod join;
mod record;
mod trace;
mod tuned;

pub(crate) use beside::{cost, dummy};
pub use ends::{AsFound, lab_failure};
pub(super) use tuned::Tuned;

use super::asked::StudyRequest;
use super::plan::StudyPlan;
use super::settings::Settings;
use quaver_clock::Counter;
use quaver_host::netns;
use quaver_instrument::interrupt::Interrupt;
use quaver_study_analysis::{Cell, Figures, LayerFigures, StampTable, StudyLayer};
use quaver_view as view;
use record::{Alternating, Recorded};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A sender that pauses for more than so many periods was not merely slow: it had no CPU.
const PAUSE_PERIODS: f64 = 10.0;
/// More of the packets missing than this spoil a cell.
const MOST_LOST: f64 = 0.01;

/// One cell to measure.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// The plan as it was read.
    pub plan: &'a StudyPlan,
    /// Its text and what was said over it, from which another machine reads the same plan.
    pub asked: &'a StudyRequest,
    /// Block, from 0.
    pub block: u32,
    /// Place in the block, from 0.
    pub position: u32,
    /// Arm, by its place in the plan.
    pub arm: usize,
    /// Where working files may lie; files that the lab makes there, it removes.
    pub directory: &'a Path,
}

impl Order<'_> {
    /// What the arm sets.
    pub(crate) fn settings(&self) -> &Settings {
        &self.plan.settings[self.arm]
    }
}

/// What measuring a cell gives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Its figures.
    pub cell: Cell,
    /// Its packets.
    pub stamps: StampTable,
}

/// Measures a cell on this machine, between these ends or over loopback; none where the user ended it.
pub fn measure(
    order: &Order<'_>,
    ends: Option<&netns::Lab>,
    counter: Counter,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Measured>> {
    let (plan, settings) = (order.plan, order.settings());
    let arm = &plan.facts.arms[order.arm].id;
    let tuned = Tuned::apply(&settings.tune, settings.sink_cpu, plan.journal.as_deref(), ends)
        .map_err(|error| error.context(format!("tuning for the arm {arm}")))?;
    // A killed study left the files of the cell that it was in.
    record::remove_files(order.directory);
    let recorded = record::record(order, ends, counter, interrupt, Alternating::No);
    let reverted = tuned.map_or(Ok(()), Tuned::revert);
    record::remove_files(order.directory);
    let recorded = recorded?;
    reverted?;
    Ok(recorded.map(|recorded| {
        let mut measured = judge(plan, settings.sink_cpu, recorded);
        let cell = &mut measured.cell;
        (cell.block, cell.position, cell.arm) = (order.block, order.position, arm.clone());
        measured
    }))
}

/// Figures of what was recorded, and whether they count.
fn judge(plan: &StudyPlan, sink_cpu: u16, recorded: Recorded) -> Measured {
    let (period_ns, spike_ns) = (plan.facts.period_ns, plan.facts.spike_ns);
    let window = recorded.window(plan);
    let stamps = join::join(&recorded, window.clone(), sink_cpu);
    let (mut own, sent) = join::sender(&recorded, window);
    let Recorded { sink, source, traced, mut notes, .. } = recorded;
    let pause_ns = (PAUSE_PERIODS * period_ns) as i64;
    let away_ns: i64 = own.iter().filter(|&&delta| delta > pause_ns).sum();
    let away = away_ns as f64 / plan.measured.as_nanos() as f64;
    let layers: Vec<LayerFigures> = StudyLayer::ALL
        .into_iter()
        .filter_map(|layer| LayerFigures::of(layer, &mut stamps.deltas(layer), period_ns, spike_ns))
        .collect();
    let received = stamps.len() as u64;
    let lost = 1.0 - received as f64 / sent.max(1) as f64;
    let discarded = if away > plan.sender_limit {
        Some(format!("the sender was off its CPU for {} of the time", view::Cell::Share(away)))
    } else if layers.is_empty() || lost > MOST_LOST {
        let missing = view::Cell::Count(sent.saturating_sub(received));
        Some(format!("{missing} of {} packets were lost", view::Cell::Count(sent)))
    } else {
        None
    };
    notes.extend(traced.note());
    let cell = Cell {
        block: 0,
        position: 0,
        arm: String::new(),
        discarded,
        layers,
        sender: Figures::of(&mut own, period_ns, spike_ns),
        sent,
        received,
        slots_missed: source.misses,
        sink_involuntary: sink.usage.involuntary_switches,
        source_involuntary: source.usage.involuntary_switches,
        tier: traced.tier.to_owned(),
        boot: Vec::new(),
        notes,
    };
    Measured { cell, stamps }
}
