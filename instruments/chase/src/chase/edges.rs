//! What it costs to get into and out of an interrupt on the sink's CPU, measured before the stream: a tight loop
//! runs there while the tracer records what interrupts it. The trace points lie inside the interruption, so what
//! the loop misses beside them is entry and exit.

use anyhow::Context;
use quaver_abi::cycles::monotonic_ns;
use quaver_abi::record::{AnchorRecord, EventRecord, GapRecord};
use quaver_analysis::attribution::learn_edge_cost;
use quaver_analysis::model::EdgeCost;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::recording::Recording;
use quaver_probe::noise::{NoiseOptions, NoisePlan, NoiseRun};
use quaver_probe::thread::ThreadSettings;
use quaver_store::run::RunDir;
use quaver_store::segments::{SegmentReader, read_all};
use std::time::Duration;

/// Long enough for some dozens of scheduler ticks.
pub(super) const LENGTH: Duration = Duration::from_millis(600);
/// Gaps above this are interruptions; a turn of the loop takes some ten nanoseconds.
const THRESHOLD_NS: u64 = 300;

/// Runs the loop on `cpu` and returns its gaps.
pub(super) fn measure(
    recording: &mut Recording,
    cpu: u16,
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<GapRecord>> {
    let directory = recording.run.path().join("edges");
    std::fs::create_dir(&directory).with_context(|| format!("making {}", directory.display()))?;
    let plan = NoisePlan::Tight { threshold_ns: THRESHOLD_NS, duration: LENGTH, records: 1 << 14 };
    let threads = vec![ThreadSettings::measuring(Some(cpu), None)];
    let options = NoiseOptions { plan, threads, counter: recording.counter, directory: directory.clone() };
    let run = NoiseRun::prepare(&options)?;
    run.go();
    recording.keep_house(LENGTH * 2, interrupt, || run.is_finished(), |_| {})?;
    run.stop();
    let mut gaps = Vec::new();
    for result in run.wait()? {
        for gap in SegmentReader::<GapRecord>::open(&result.segment.path)? {
            gaps.push(gap?);
        }
    }
    std::fs::remove_dir_all(&directory).with_context(|| format!("removing {}", directory.display()))?;
    Ok(gaps)
}

/// The cost, once the events of the run are there.
pub(super) fn evaluate(run: &RunDir, cpu: u16, gaps: &[GapRecord]) -> anyhow::Result<Option<EdgeCost>> {
    let anchors: Vec<AnchorRecord> = read_all(&run.anchors_segment())?;
    let times: Vec<(i64, i64)> = gaps
        .iter()
        .filter_map(|gap| {
            monotonic_ns(&anchors, gap.before_cycles).zip(monotonic_ns(&anchors, gap.after_cycles))
        })
        .collect();
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Ok(None) };
    let (first_ns, last_ns) = (first.0.max(0) as u64, last.1.max(0) as u64);
    let mut events = Vec::new();
    for event in SegmentReader::<EventRecord>::open(&run.events_segment())? {
        let event = event?;
        if event.cpu == cpu && event.end_ns >= first_ns && event.start_ns <= last_ns {
            events.push(event);
        }
    }
    Ok(learn_edge_cost(&times, cpu, &events))
}
