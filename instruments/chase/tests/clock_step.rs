//! A wall clock that is stepped in the middle of a run, from the clock's seam to the page.

use quaver_abi::cycles::CycleScale;
use quaver_abi::record::PacketRecord;
use quaver_chase::digest;
use quaver_clock::{
    AnchorKeeper, ClockSource, CounterSupport, CycleCounter, SystemClocks, monotonic_ns, realtime_ns,
};
use quaver_host::segment::SegmentAppender;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::recording::Recording;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use serde_json::json;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const STEP_NS: i64 = -2_500_000_000;

/// The machine's clocks, but the wall clock is set at will.
#[derive(Clone)]
struct SetClocks {
    system: SystemClocks,
    step_ns: Rc<Cell<i64>>,
}

impl ClockSource for SetClocks {
    fn cycles(&mut self) -> (u64, u16) {
        self.system.cycles()
    }

    fn monotonic_ns(&mut self) -> i64 {
        self.system.monotonic_ns()
    }

    fn realtime_ns(&mut self) -> i64 {
        self.system.realtime_ns() + self.step_ns.get()
    }

    fn monotonic_raw_ns(&mut self) -> i64 {
        self.system.monotonic_raw_ns()
    }

    fn frequency_ppb(&mut self) -> i64 {
        self.system.frequency_ppb()
    }

    fn scale(&self) -> CycleScale {
        self.system.scale()
    }
}

/// Records packets with kernel stamps for half a second, each a moment old when it is read; `step_ns` comes in the
/// middle.
fn run_with_step(parent: &Path, step_ns: i64) -> (RunDir, Manifest) {
    let counter = CounterSupport::detect(Path::new("/")).counter;
    let clocks = SetClocks { system: SystemClocks::new(counter), step_ns: Rc::default() };
    let step = Rc::clone(&clocks.step_ns);
    let keeper = AnchorKeeper::with_clocks(clocks, Duration::from_millis(20));
    let mut recording =
        Recording::begin_with(parent, "sink", json!({"notes": []}), json!({}), counter, keeper).unwrap();
    let mut packets = SegmentAppender::create(&recording.run.packets_segment()).unwrap();
    let interrupt = Interrupt::default();
    let start_ns = monotonic_ns();
    for number in 0..50_u64 {
        if number == 25 {
            step.set(step_ns);
        }
        recording.keep_house(Duration::from_millis(10), &interrupt, || false, |_| {}).unwrap();
        let kernel_realtime_ns = realtime_ns() + step.get();
        packets
            .append(&PacketRecord {
                key: number,
                app_cycles: counter.read(),
                kernel_realtime_ns,
                payload_bytes: 100,
                ..PacketRecord::default()
            })
            .unwrap();
    }
    packets.flush().unwrap();
    let window = Some(quaver_store::manifest::Window { start_ns, end_ns: monotonic_ns() });
    recording.end_tracing().unwrap();
    recording.manifest.analysis.get_or_insert_default().window = window;
    recording.finish(None).unwrap()
}

#[test]
fn a_step_of_the_wall_clock_is_told_in_manifest_summary_page_and_report() {
    let folder = tempfile::tempdir().unwrap();
    let (run, mut manifest) = run_with_step(folder.path(), STEP_NS);
    digest::convert(&run, &mut manifest).unwrap();
    let digest = digest::analyze(&run, None).unwrap();
    digest.store(&run).unwrap();

    let stored = run.read_manifest().unwrap();
    let steps = stored.clock.unwrap().realtime_steps;
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert!((steps[0].step_ns - STEP_NS).abs() < 1_000_000, "{steps:?}");
    let window = stored.analysis.unwrap().window.unwrap();
    assert!((window.start_ns..window.end_ns).contains(&steps[0].at_ns));
    assert!(stored.complete, "a step ends no run");

    let sentence = "the wall clock was stepped back by 2.5";
    let warned = |warnings: &[String]| warnings.iter().filter(|text| text.starts_with(sentence)).count();
    assert_eq!(warned(&digest.analysis.summary.warnings), 1, "{:?}", digest.analysis.summary.warnings);
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.path().join("summary.json")).unwrap()).unwrap();
    assert!(summary["warnings"].to_string().contains(sentence));
    assert!(quaver_view::plain(&digest.document()).contains(sentence));
    assert!(std::fs::read_to_string(run.path().join("report.html")).unwrap().contains(sentence));
    // Nor does it make packets late: stamps on both sides of it are far nearer to their readings than the step is long.
    let column = digest.run.packets.column(quaver_analysis::model::Layer::KernelStamp).unwrap();
    let known = column.before_app_ns.iter().filter(|ns| **ns != quaver_analysis::model::MISSING);
    assert!(known.clone().count() >= 45, "{:?}", column.before_app_ns);
    assert!(known.clone().all(|ns| ns.abs() < -STEP_NS / 2), "{:?}", column.before_app_ns);
}

#[test]
fn a_wall_clock_that_runs_on_is_not_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let (run, mut manifest) = run_with_step(folder.path(), 0);
    assert_eq!(manifest.clock.as_ref().unwrap().realtime_steps, []);
    digest::convert(&run, &mut manifest).unwrap();
    let summary = digest::analyze(&run, None).unwrap().analysis.summary;
    assert!(!summary.warnings.iter().any(|text| text.contains("wall clock")), "{:?}", summary.warnings);
}
