//! Short real runs: what must hold whatever else the machine does.

use super::*;
use crate::thread::Setting;
use quaver_abi::segment::SegmentHeader;
use quaver_clock::{CounterSupport, monotonic_ns};
use rustix::thread::CpuSet;
use zerocopy::FromBytes;

fn allowed_cpus() -> Vec<u16> {
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).map(|cpu| cpu as u16).take(2).collect()
}

fn options(plan: NoisePlan, directory: &Path) -> NoiseOptions {
    let settings = |cpu| ThreadSettings { cpu: Some(cpu), exact_timers: true, ..ThreadSettings::default() };
    NoiseOptions {
        plan,
        threads: allowed_cpus().into_iter().map(settings).collect(),
        counter: CounterSupport::detect(Path::new("/")).counter,
        directory: directory.to_owned(),
    }
}

fn records(path: &Path) -> Vec<GapRecord> {
    let octets = std::fs::read(path).unwrap();
    SegmentHeader::check::<GapRecord>(&octets).unwrap();
    octets[64..].chunks_exact(32).map(|c| GapRecord::read_from_bytes(c).unwrap()).collect()
}

#[test]
fn tight_loop_conserves_turns_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let duration = Duration::from_millis(200);
    let plan = NoisePlan::Tight { threshold_ns: 1_000, duration, records: 100_000 };
    let options = options(plan, dir.path());
    let run = NoiseRun::prepare(&options).unwrap();
    let tids: Vec<u32> = run.threads().iter().map(|thread| thread.tid).collect();
    assert!(tids.iter().all(|tid| Path::new(&format!("/proc/self/task/{tid}")).exists()));
    let progress: Vec<_> = run.threads().iter().map(|thread| Arc::clone(&thread.turns)).collect();
    assert!(progress.iter().all(|turns| turns.turns() == 0), "runs before it was told to");
    run.go();
    let results = run.wait().unwrap();
    let scale = nominal_scale(options.counter);
    let threshold = scale.cycles(1_000);
    assert_eq!(results.len(), options.threads.len());
    for (result, turns) in results.iter().zip(&progress) {
        let counts = result.statistics;
        println!("{result:?}: shortest turn {} ns", scale.ns(counts.shortest_cycles));
        assert_eq!((counts.turns, counts.stopped), (turns.turns(), false));
        assert!(counts.span_cycles() >= scale.cycles(199_000_000));
        assert!(counts.turns * counts.shortest_cycles <= counts.span_cycles());
        let gaps = records(&result.segment.path);
        assert_eq!((gaps.len() as u64, result.segment.lost), (counts.gaps, 0));
        let took = |gap: &GapRecord| gap.after_cycles - gap.before_cycles;
        assert!(gaps.iter().all(|gap| took(gap) >= threshold && gap.index < counts.turns));
        assert_eq!(gaps.iter().map(took).sum::<u64>(), counts.gap_cycles);
        assert!(gaps.windows(2).all(|w| w[0].after_cycles <= w[1].before_cycles && w[0].index < w[1].index));
        assert!(gaps.iter().all(|gap| gap.before_cycles >= counts.first_cycles));
        assert!(gaps.iter().all(|gap| gap.after_cycles <= counts.last_cycles));
        // What is no gap is made of turns below the threshold.
        let rest = counts.span_cycles() - counts.gap_cycles;
        assert!(rest < (counts.turns - counts.gaps) * threshold);
        assert!(gaps.iter().all(|gap| Some(gap.cpu) == result.cpu) && counts.cpu_changes == 0);
    }
}

#[test]
fn paced_loop_stamps_every_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let plan = NoisePlan::Paced { period_ns: PAPER_PERIOD_NS, count: 27_000 };
    let mut options = options(plan, dir.path());
    options.threads.truncate(1);
    let run = NoiseRun::prepare(&options).unwrap();
    run.go();
    let results = run.wait().unwrap();
    let stamps = records(&results[0].segment.path);
    let counts = results[0].statistics;
    assert_eq!((stamps.len(), counts.turns, results[0].segment.lost), (27_000, 27_000, 0));
    let period = nominal_scale(options.counter).cycles(PAPER_PERIOD_NS);
    assert!(stamps.iter().enumerate().all(|(at, stamp)| stamp.index == at as u64));
    assert!(stamps.iter().all(|stamp| stamp.after_cycles >= stamp.before_cycles));
    assert!(stamps.windows(2).all(|w| w[1].after_cycles > w[0].after_cycles));
    assert!(stamps.windows(2).all(|w| (w[1].before_cycles - w[0].before_cycles).abs_diff(period) <= 1));
    let late = stamps.iter().map(|stamp| stamp.after_cycles - stamp.before_cycles);
    assert_eq!(late.max(), Some(counts.longest_cycles));
}

#[test]
fn stop_ends_a_long_run_and_keeps_its_records() {
    let dir = tempfile::tempdir().unwrap();
    let plan =
        NoisePlan::Tight { threshold_ns: 1_000, duration: Duration::from_secs(3_600), records: 10_000_000 };
    let run = NoiseRun::prepare(&options(plan, dir.path())).unwrap();
    run.go();
    let begin = monotonic_ns();
    while run.threads().iter().any(|thread| thread.turns.turns() < 10 * turns::BATCH) {
        assert!(monotonic_ns() - begin < 60_000_000_000, "no progress is seen from outside");
        std::thread::sleep(Duration::from_millis(1));
    }
    run.stop();
    let results = run.wait().unwrap();
    for result in results {
        assert!(result.statistics.stopped);
        assert_eq!(records(&result.segment.path).len() as u64, result.statistics.gaps);
    }
}

#[test]
fn a_loop_that_has_had_its_time_was_not_stopped_whoever_asked_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    // Its time is over after the first batch of turns, as that of a loop that was held up is after its stop.
    let duration = Duration::from_nanos(1);
    let plan = NoisePlan::Tight { threshold_ns: 1_000, duration, records: 1_000 };
    let run = NoiseRun::prepare(&options(plan, dir.path())).unwrap();
    run.stop();
    run.go();
    for result in run.wait().unwrap() {
        assert!(!result.statistics.stopped && result.statistics.turns > 0);
    }
}

#[test]
fn runs_with_the_fallback_counter() {
    let dir = tempfile::tempdir().unwrap();
    let plan =
        NoisePlan::Tight { threshold_ns: 2_000, duration: Duration::from_millis(50), records: 100_000 };
    let options = NoiseOptions { counter: Counter::MonotonicClock, ..options(plan, dir.path()) };
    let run = NoiseRun::prepare(&options).unwrap();
    let begin = monotonic_ns();
    run.go();
    let counts = run.wait().unwrap()[0].statistics;
    assert!(counts.first_cycles as i64 >= begin && counts.last_cycles as i64 <= monotonic_ns());
    assert!(counts.span_cycles() >= 50_000_000);
}

#[test]
fn never_started_it_ends_at_once_with_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = NoiseRun::prepare(&options(NoisePlan::PAPER, dir.path())).unwrap();
    assert!(!run.is_finished());
    let results = run.wait().unwrap();
    assert!(results.iter().all(|r| r.statistics == LoopStatistics::default() && r.segment.written == 0));
}

#[test]
fn dropped_it_ends_its_threads() {
    let dir = tempfile::tempdir().unwrap();
    let plan = NoisePlan::Paced { period_ns: 1_000_000, count: 1_000_000 };
    let run = NoiseRun::prepare(&options(plan, dir.path())).unwrap();
    run.go();
    let turns = Arc::clone(&run.threads()[0].turns);
    drop(run);
    assert_eq!(Arc::strong_count(&turns), 1, "a thread still holds its progress");
}

#[test]
fn refuses_what_makes_no_sense() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |plan| NoiseRun::prepare(&options(plan, dir.path())).unwrap_err().to_string();
    assert!(refused(NoisePlan::Paced { period_ns: 0, count: 1 }).contains("period"));
    assert!(refused(NoisePlan::Paced { period_ns: 1, count: 0 }).contains("count"));
    assert!(refused(NoisePlan::Paced { period_ns: 1 << 40, count: 1 << 40 }).contains("longer"));
    let tight = |threshold_ns, duration| NoisePlan::Tight { threshold_ns, duration, records: 1 };
    assert!(refused(tight(0, Duration::from_secs(1))).contains("threshold"));
    assert!(refused(tight(1, Duration::MAX)).contains("duration"));
    let nobody = NoiseOptions { threads: Vec::new(), ..options(NoisePlan::PAPER, dir.path()) };
    assert!(NoiseRun::prepare(&nobody).unwrap_err().to_string().contains("CPU"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "refused before a file was made");
}

#[test]
fn a_required_setting_that_is_refused_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(NoisePlan::PAPER, dir.path());
    options.threads[0] =
        ThreadSettings { cpu: Some(1_023), required: vec![Setting::Cpu], ..Default::default() };
    let error = NoiseRun::prepare(&options).unwrap_err();
    assert!(error.to_string().contains("CPU 1023"), "{error}");
}
