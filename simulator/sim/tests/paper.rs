//! The paper's runs, small: without jitter nothing changes, speed gives back no more than table 3 has, power stays below what
//! the highest point takes, and the same seeds give the same figures.

use quaver_sim::config::Config;
use quaver_sim::cure::Library;
use quaver_sim::paper::{
    Arm, BUNDLED, Bench, Claim, HowRun, Ideal, Kind, Knobs, MadeActivity, PaperSummary, Point, PointFigures,
    Program, ProgramRuns, claims, run_point,
};
use quaver_sync_analysis::bench::paper::Suite;
use quaver_trace::armour;
use quaver_trace::file::TraceReader;
use std::sync::Arc;

const ROUNDS: u32 = 3;
const SEEDS: [u64; 2] = [1, 2];

struct Laid {
    program: Program,
    library: Library,
    machine: Config,
}

impl Laid {
    fn new(name: &str) -> Self {
        let (_, text) = BUNDLED.iter().find(|(own, _)| *own == name).unwrap();
        let reader = TraceReader::open(armour::decode(text.as_bytes()).unwrap()).unwrap();
        let steps = reader.threads().map(|thread| reader.steps(thread)).collect::<Vec<_>>();
        let mut program = Program::read(name, (*reader.dictionary).clone(), steps).unwrap();
        let machine = Config::paper();
        let made = MadeActivity { longest_blocks: 20_000, ..MadeActivity::default() };
        let mut dictionary = (*reader.dictionary).clone();
        let epochs = made.epochs(&mut dictionary);
        let library = Library::timed(&machine, &dictionary, epochs).unwrap();
        program.dictionary = Arc::new(dictionary);
        Self { program, library, machine }
    }

    fn run(&self, arm: Arm, seed: u64, ideal: Option<&Ideal>) -> (PointFigures, Ideal) {
        let bench =
            Bench { program: &self.program, rounds: ROUNDS, library: &self.library, machine: &self.machine };
        let knobs = Knobs { probability: 0.3, mean_us: 40.0, together: 1.0, ..Knobs::default() };
        run_point(&bench, Point { arm, seed }, &knobs, ideal, &|| true).unwrap().unwrap()
    }
}

fn summary(laid: &Laid) -> PaperSummary {
    let (mut figures, ideal) = laid.run(Arm::Ideal, 0, None);
    figures.slow_down = Some(0.0);
    let mut points = vec![(Point { arm: Arm::Ideal, seed: 0 }, figures)];
    for arm in Arm::ALL.into_iter().filter(|arm| *arm != Arm::Ideal) {
        let seeds: &[u64] = if arm.injects() { &SEEDS } else { &[0] };
        for &seed in seeds {
            points.push((Point { arm, seed }, laid.run(arm, seed, Some(&ideal)).0));
        }
    }
    let runs =
        ProgramRuns { program: "barnes".to_owned(), suite: Suite::Splash2, how: HowRun::default(), points };
    PaperSummary {
        schema: PaperSummary::SCHEMA.to_owned(),
        complete: true,
        seeds: SEEDS.to_vec(),
        length_us: 1,
        kernel: String::new(),
        calibration: String::new(),
        programs: vec![runs.summary()],
        not_run: Vec::new(),
        only: Vec::new(),
    }
}

#[test]
fn laws_hold_in_the_papers_own_runs() {
    let laid = Laid::new("fmm");
    let summary = summary(&laid);
    let all = claims(&summary);
    let laws: Vec<&Claim> = all.iter().filter(|claim| claim.kind == Kind::Law).collect();
    assert_eq!(laws.len(), 4, "{laws:#?}");
    for law in laws {
        assert_eq!(law.holds, Some(true), "{law:?}");
    }
    let barnes = &summary.programs[0];
    let slow = barnes.arm(Arm::Unified).unwrap().slow_down_percent.unwrap();
    assert!(slow.min > 1.0 && slow.max > slow.min, "{slow:?}");
    let dvfs = barnes.arm(Arm::UnifiedDvfs).unwrap();
    assert!(dvfs.slow_down_percent.unwrap().mean < slow.mean, "{dvfs:?}");
    assert!(dvfs.least_ratio.unwrap() < 1.0 && dvfs.changes > 0.0);
    assert!(barnes.row.unwrap().events_per_ms > 0.0 && !barnes.distribution.is_empty());
    assert_eq!(barnes.units.unwrap().slots_differ, 0);
}

#[test]
fn a_run_follows_from_its_seed() {
    let laid = Laid::new("fmm");
    let (_, ideal) = laid.run(Arm::Ideal, 0, None);
    let first = laid.run(Arm::UnifiedDvfs, 1, Some(&ideal));
    assert_eq!(first, laid.run(Arm::UnifiedDvfs, 1, Some(&ideal)));
    assert_ne!(first.0.duration_ns, laid.run(Arm::UnifiedDvfs, 2, Some(&ideal)).0.duration_ns);
    let bench =
        Bench { program: &laid.program, rounds: ROUNDS, library: &laid.library, machine: &laid.machine };
    let point = Point { arm: Arm::Unified, seed: 1 };
    assert_eq!(run_point(&bench, point, &Knobs::default(), None, &|| false).unwrap(), None);
}
