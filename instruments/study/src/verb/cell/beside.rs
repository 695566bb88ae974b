//! What a study measures besides its cells: what tracing costs, and the paper's dummy program.

use super::Order;
use super::record::{self, Alternating};
use anyhow::Context;
use quaver_abi::record::GapRecord;
use quaver_analysis::probe_cost::{Block, probe_cost};
use quaver_analysis::summary::ProbeCost;
use quaver_clock::{AnchorKeeper, Counter, Timebase};
use quaver_host::netns;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_probe::noise::{NoiseError, NoiseOptions, NoisePlan, NoiseRun};
use quaver_probe::thread::ThreadSettings;
use quaver_study_analysis::StampTable;
use std::time::Duration;

/// Between looks at the clock and the interrupt flag.
const TICK: Duration = Duration::from_millis(50);

/// What tracing adds to a send call, in which the whole stack runs (but what another CPU does of it): probes on and off in
/// turn within one stream of the order's arm. None where nothing traces, or the user ended it.
pub(crate) fn cost(
    order: &Order<'_>,
    ends: Option<&netns::Lab>,
    counter: Counter,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<ProbeCost>> {
    record::remove_files(order.directory);
    let recorded = record::record(order, ends, counter, interrupt, Alternating::Yes);
    record::remove_files(order.directory);
    let Some(recorded) = recorded? else { return Ok(None) };
    let time = |cycles: u64| recorded.timebase.monotonic_ns(cycles).monotonic_ns;
    let of = |turn: &record::Turn| Block {
        on: turn.on,
        samples_ns: recorded
            .sends
            .iter()
            .filter(|send| (turn.start_ns..turn.end_ns).contains(&send.deadline_ns) && send.after_cycles != 0)
            .map(|send| time(send.after_cycles) - time(send.before_cycles))
            .collect(),
    };
    let mut blocks: Vec<Block> = recorded.turns.iter().map(of).collect();
    Ok(probe_cost(&mut blocks))
}

/// The paper's dummy program (section IV-B) on the CPU of the order's sink: so many stamps, one a period. None where the user
/// ended it.
pub(crate) fn dummy(
    order: &Order<'_>,
    turns: u64,
    counter: Counter,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<StampTable>> {
    let period_ns = order.plan.facts.period_ns.round() as u64;
    let options = NoiseOptions {
        plan: NoisePlan::Paced { period_ns, count: turns },
        threads: vec![ThreadSettings::measuring(Some(order.settings().sink_cpu), None)],
        counter,
        directory: order.directory.to_owned(),
    };
    let mut keeper = AnchorKeeper::start(counter);
    let run = NoiseRun::prepare(&options).map_err(|error| match error {
        NoiseError::Thread(refused) => failure(ExitCode::Unsupported, refused.to_string()),
        other => other.into(),
    })?;
    let segment = run.threads()[0].segment.clone();
    run.go();
    while !run.is_finished() && !interrupt.requested() {
        std::thread::sleep(TICK);
        keeper.tick();
    }
    run.stop();
    let results = run.wait().context("running the dummy program")?;
    let anchors = keeper.finish();
    let records: Vec<GapRecord> = quaver_store::segments::read_if_any(&segment)?;
    std::fs::remove_file(&segment).with_context(|| format!("removing {}", segment.display()))?;
    if interrupt.requested() || results.is_empty() {
        return Ok(None);
    }
    let timebase = Timebase::from_anchors(&anchors)?;
    let count = records.len();
    Ok(Some(StampTable {
        key: records.iter().map(|record| record.index).collect(),
        sent_ns: vec![0; count],
        isr_ns: vec![0; count],
        softirq_ns: vec![0; count],
        stack_ns: vec![0; count],
        queued_ns: vec![0; count],
        application_ns: records
            .iter()
            .map(|record| timebase.monotonic_ns(record.after_cycles).monotonic_ns)
            .collect(),
        path: vec![quaver_study_analysis::path_flags::UNSEEN; count],
    }))
}
