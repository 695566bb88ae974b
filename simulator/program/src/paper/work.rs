//! The runs: program by program, as many at a time as there are CPUs.

use super::kernel::Activity;
use super::programs::{Source, Traces};
use crate::paper::args::SimPaperArgs;
use crate::paper::digest as stored;
use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure, sentence, status_of};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_sim::config::Config;
use quaver_sim::cure::Library;
use quaver_sim::paper::{
    Arm, Bench, Calibration, Fitted, HowRun, Ideal, Knobs, PaperSummary, Point, PointError, PointFigures,
    Program, ProgramRuns, Shown, arms_of, fit, run_point, target,
};
use quaver_store::run::RunDir;
use quaver_sync_analysis::bench::paper::PaperProgram;
use quaver_view::Cell;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// Runs of the fit of a program; each is of several seeds.
const FIT_STEPS: u32 = 14;
/// Seeds of a fit: apart from those of the runs that it is judged by.
const FIT_SEEDS: [u64; 3] = [1_001, 1_002, 1_003];

/// What is to be done, and by what.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) args: &'a SimPaperArgs,
    pub(super) run: &'a RunDir,
    pub(super) interrupt: &'a Interrupt,
    /// Simulations at the same time.
    pub(super) jobs: usize,
    /// A run without jitter, at least, simulated microseconds.
    pub(super) length_us: u64,
    pub(super) seeds: &'a [u64],
    pub(super) activity: &'a Activity,
    pub(super) traces: &'a Traces,
}

/// Everything that is under way.
pub(super) struct Work<'a> {
    plan: Plan<'a>,
    calibration: (Calibration, String),
    arms: Vec<Arm>,
    machine: Config,
    progress: Progress,
    began: Instant,
    /// Programs that are done, of how many.
    done: (usize, usize),
    runs: Vec<ProgramRuns>,
    not_run: Vec<(String, String)>,
}

/// A program on the bench.
struct Laid {
    program: Program,
    library: Library,
    rounds: u32,
    how: HowRun,
}

impl Laid {
    fn bench<'b>(&'b self, machine: &'b Config) -> Bench<'b> {
        Bench { program: &self.program, rounds: self.rounds, library: &self.library, machine }
    }
}

type Found = (Point, PointFigures, Ideal);

impl<'a> Work<'a> {
    pub(super) fn new(plan: Plan<'a>, calibration: (Calibration, String)) -> Self {
        Self {
            plan,
            calibration,
            arms: arms_of(&plan.args.only),
            machine: Config::paper(),
            progress: Progress::shares(plan.args.output.quiet),
            began: Instant::now(),
            done: (0, 1),
            runs: Vec::new(),
            not_run: Vec::new(),
        }
    }

    /// All programs that are asked for; each is kept as it is done.
    pub(super) fn all(&mut self, wanted: &[&'static PaperProgram]) -> anyhow::Result<()> {
        let path = stored::points_file(self.plan.run);
        let mut points = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        let wanted = self.in_order(wanted);
        self.done.1 = wanted.len().max(1);
        for row in wanted {
            if self.plan.interrupt.requested() {
                self.not_run.push((row.program.to_owned(), "interrupted before its turn".to_owned()));
            } else {
                self.program(row, &mut points)?;
                // A run that is killed is readable up to here.
                self.plan.run.write_summary(&self.summary(false))?;
            }
            self.done.0 += 1;
        }
        if self.plan.args.calibrate {
            let path = self.plan.run.path().join("calibration.toml");
            std::fs::write(&path, self.calibration.0.to_toml())
                .with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    /// Those that are fitted come first: the others are predicted from them.
    fn in_order(&mut self, wanted: &[&'static PaperProgram]) -> Vec<&'static PaperProgram> {
        let mut wanted = wanted.to_vec();
        if self.plan.args.calibrate {
            self.calibration.0 = Calibration {
                seeds: FIT_SEEDS.to_vec(),
                length_us: self.plan.length_us,
                kernel: self.plan.activity.words.clone(),
                programs: std::collections::BTreeMap::new(),
            };
            wanted.sort_by_key(|row| target(row).is_none());
        }
        wanted
    }

    fn program(&mut self, row: &'static PaperProgram, points: &mut File) -> anyhow::Result<()> {
        let name = row.program;
        self.progress.say(format!("{name}: reading its trace"));
        let (program, from, cut_short) = match self.plan.traces.read(name)? {
            Source::Ready { program, from, cut_short } => (*program, from, cut_short),
            Source::Missing(reason) => {
                self.not_run.push((name.to_owned(), reason));
                return Ok(());
            }
        };
        match self.ready(row, program, (from, cut_short), points) {
            // A part of a program need not have an end.
            Err(error) if cut_short && status_of(&error, &[]) == ExitCode::BadInput => {
                let reason = format!("its trace was cut short: {}", sentence(&error));
                self.not_run.push((name.to_owned(), reason));
                Ok(())
            }
            other => other,
        }
    }

    fn ready(
        &mut self,
        row: &'static PaperProgram,
        program: Program,
        (from, cut_short): (String, bool),
        points: &mut File,
    ) -> anyhow::Result<()> {
        let name = row.program;
        let Some(mut laid) = self.lay(program, from)? else { return Ok(()) };
        laid.how.cut_short = cut_short;
        if self.plan.args.calibrate && target(row).is_some() {
            self.fit(row, &laid)?;
        }
        let (knobs, fitted) = self.calibration.0.knobs(name, &laid.how.occasions);
        (laid.how.knobs, laid.how.fitted) = (knobs, fitted);
        laid.how.fitted_at = self.calibration.0.programs.get(name).map(|fit| fit.occasions);
        laid.how.missed_by = if fitted { None } else { self.calibration.0.missed_by() };
        let mut runs = ProgramRuns {
            program: name.to_owned(),
            suite: row.suite,
            how: laid.how.clone(),
            points: Vec::new(),
        };
        let mut keep = |found: &Found| -> anyhow::Result<()> {
            let line = serde_json::to_string(&(name, &found.0, &found.1))?;
            writeln!(points, "{line}").context("keeping the figures of a run")
        };
        let plain = |arm: &&Arm| **arm == Arm::Plain;
        let first: Vec<Point> = self
            .arms
            .iter()
            .filter(plain)
            .chain([&Arm::Ideal])
            .map(|arm| Point { arm: *arm, seed: 0 })
            .collect();
        let mut ideal = None;
        for found in self.points(&laid, &knobs, &first, None, &mut keep)? {
            let (point, mut figures, own) = found;
            if point.arm == Arm::Ideal {
                // It is compared with itself.
                (figures.slow_down, ideal) = (Some(0.0), Some(own));
            }
            runs.points.push((point, figures));
        }
        if let Some(ideal) = ideal {
            let rest = self.rest();
            for found in self.points(&laid, &knobs, &rest, Some(&ideal), &mut keep)? {
                runs.points.push((found.0, found.1));
            }
        }
        runs.points.sort_by_key(|(point, _)| *point);
        self.runs.push(runs);
        Ok(())
    }

    /// All runs but those that others are compared with.
    fn rest(&self) -> Vec<Point> {
        let rest = self.arms.iter().filter(|arm| !matches!(arm, Arm::Plain | Arm::Ideal));
        let mut points: Vec<Point> = rest
            .flat_map(|arm| {
                let seeds = if arm.injects() { self.plan.seeds.to_vec() } else { vec![0] };
                seeds.into_iter().map(|seed| Point { arm: *arm, seed })
            })
            .collect();
        // Seed by seed, so that what is kept after Ctrl-C has all arms alike.
        points.sort_by_key(|point| (point.seed, point.arm));
        points
    }

    /// Puts the kernel behind the program, and finds how many rounds make it long enough.
    fn lay(&self, mut program: Program, from: String) -> anyhow::Result<Option<Laid>> {
        let mut dictionary = (*program.dictionary).clone();
        let epochs = self.plan.activity.behind(&mut dictionary);
        let broken =
            |error: &dyn std::fmt::Display| failure(ExitCode::BadInput, format!("{}: {error}", program.name));
        let library = Library::timed(&self.machine, &dictionary, epochs).map_err(|error| broken(&error))?;
        program.dictionary = Arc::new(dictionary);
        let only_once = program.repeats().err().map(|reason| reason.to_string());
        let mut laid = Laid { program, library, rounds: 1, how: HowRun::default() };
        let knobs = Knobs::default();
        let ideal = Point { arm: Arm::Ideal, seed: 0 };
        let once = |laid: &Laid| -> anyhow::Result<Option<Found>> {
            let goes_on = || !self.plan.interrupt.requested();
            let ran = run_point(&laid.bench(&self.machine), ideal, &knobs, None, &goes_on)
                .map_err(|error| at(&laid.program.name, &error))?;
            Ok(ran.map(|(figures, own)| (ideal, figures, own)))
        };
        let Some(one) = once(&laid)? else { return Ok(None) };
        let mut last = one.2;
        let mut occasions = one.1.occasions;
        let wanted_ns = self.plan.length_us as f64 * 1e3;
        if only_once.is_none() && last.duration_ns() < wanted_ns {
            laid.rounds = 2;
            let Some(two) = once(&laid)? else { return Ok(None) };
            let round_ns = (two.2.duration_ns() - last.duration_ns()).max(1.0);
            laid.rounds = 1 + ((wanted_ns - last.duration_ns()) / round_ns).ceil().max(1.0) as u32;
            let Some(all) = once(&laid)? else { return Ok(None) };
            (last, occasions) = (all.2, all.1.occasions);
        }
        let warm_up = last.warm_up();
        laid.how = HowRun {
            trace: from,
            threads: laid.program.threads(),
            rounds: laid.rounds,
            only_once,
            cut_short: false,
            instructions: laid.program.instructions(laid.rounds),
            ideal_us: last.duration_ns() / 1e3,
            warm_up_us: warm_up.until_fs as f64 / 1e9,
            warm_up_shortened: warm_up.shortened,
            occasions,
            knobs,
            fitted: false,
            fitted_at: None,
            missed_by: None,
        };
        Ok(Some(laid))
    }

    /// Fits the injection of a program to the paper's figures.
    fn fit(&mut self, row: &PaperProgram, laid: &Laid) -> anyhow::Result<()> {
        let Some(target) = target(row) else { return Ok(()) };
        let ideal = Point { arm: Arm::Ideal, seed: 0 };
        let Some((.., ideal)) = self.points(laid, &Knobs::default(), &[ideal], None, &mut |_| Ok(()))?.pop()
        else {
            return Ok(());
        };
        let points = FIT_SEEDS.map(|seed| Point { arm: Arm::Unified, seed });
        let simulated_ms = laid.how.ideal_us / 1e3 * points.len() as f64;
        let fitted = fit(
            &target,
            (&laid.how.occasions, simulated_ms),
            FIT_STEPS,
            |knobs| -> anyhow::Result<Option<Shown>> {
                let found = self.points(laid, knobs, &points, Some(&ideal), &mut |_| Ok(()))?;
                if found.len() < points.len() {
                    return Ok(None);
                }
                let mean = |of: &dyn Fn(&PointFigures) -> f64| {
                    found.iter().map(|one| of(&one.1)).sum::<f64>() / found.len() as f64
                };
                let events_per_ms = mean(&|one| one.events_per_ms);
                Ok(Some(Shown {
                    events_per_ms,
                    mean_us: mean(&|one| one.late_us_per_ms) / events_per_ms.max(1e-9),
                    slow_down_percent: mean(&|one| one.slow_down.unwrap_or(0.0)) * 100.0,
                }))
            },
        )?;
        if let Some((knobs, reached)) = fitted {
            let fitted = Fitted { target, reached, occasions: laid.how.occasions, knobs };
            self.calibration.0.programs.insert(row.program.to_owned(), fitted);
        }
        Ok(())
    }

    /// Runs points on all CPUs; those that were done until we were asked to end, in their order. Each is given to `keep` as soon
    /// as it is done, in whatever order that is, so that no more is lost than what is under way.
    fn points(
        &self,
        laid: &Laid,
        knobs: &Knobs,
        points: &[Point],
        ideal: Option<&Ideal>,
        keep: &mut dyn FnMut(&Found) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Found>> {
        let bench = laid.bench(&self.machine);
        let next = AtomicUsize::new(0);
        let (tell, told) = mpsc::channel::<(Point, Result<Option<(PointFigures, Ideal)>, PointError>)>();
        let goes_on = || !self.plan.interrupt.requested();
        let mut found = Vec::new();
        let mut wrong = None;
        std::thread::scope(|scope| {
            for _ in 0..self.plan.jobs.min(points.len()) {
                let (tell, next, bench) = (tell.clone(), &next, &bench);
                scope.spawn(move || {
                    while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // A short run ends before it is asked whether it goes on.
                        if !goes_on() {
                            return;
                        }
                        let ran = run_point(bench, *point, knobs, ideal, &goes_on);
                        let ends = ran.as_ref().is_ok_and(Option::is_none);
                        if tell.send((*point, ran)).is_err() || ends {
                            return;
                        }
                    }
                });
            }
            drop(tell);
            for (point, ran) in told {
                let kept = match ran {
                    Ok(Some((figures, own))) => {
                        found.push((point, figures, own));
                        found.last().map_or(Ok(()), &mut *keep)
                    }
                    Ok(None) => Ok(()),
                    Err(error) => Err(at(&laid.program.name, &error)),
                };
                if let Err(error) = kept {
                    next.store(points.len(), Ordering::Relaxed);
                    wrong = Some(error);
                }
                self.show(&laid.program.name, found.len(), points.len());
            }
        });
        if let Some(error) = wrong {
            return Err(error);
        }
        found.sort_by_key(|one| one.0);
        Ok(found)
    }

    fn show(&self, name: &str, done: usize, all: usize) {
        let part = if all > 4 { done as f64 / all as f64 } else { 0.0 };
        let share = (self.done.0 as f64 + part) / self.done.1 as f64;
        let mut words = format!("{name}: {done} of {all} runs");
        if share > 0.01 {
            let left_ns = self.began.elapsed().as_secs_f64() * (1.0 / share - 1.0) * 1e9;
            words.push_str(&format!(" · about {} left", Cell::Duration(left_ns as i64)));
        }
        self.progress.reach(share, words);
    }

    /// Where the fits are from; with other kernel activity they do not fit as well.
    fn calibration_words(&self) -> String {
        let (fits, from) = &self.calibration;
        if fits.programs.is_empty() || fits.kernel == self.plan.activity.words {
            return from.clone();
        }
        format!("{from}, made with other kernel activity ({})", fits.kernel)
    }

    /// What was found.
    pub(super) fn summary(&self, complete: bool) -> PaperSummary {
        PaperSummary {
            schema: PaperSummary::SCHEMA.to_owned(),
            complete,
            seeds: self.plan.seeds.to_vec(),
            length_us: self.plan.length_us,
            kernel: self.plan.activity.words.clone(),
            calibration: self.calibration_words(),
            programs: self.runs.iter().map(ProgramRuns::summary).collect(),
            not_run: self.not_run.clone(),
            only: self.plan.args.only.clone(),
        }
    }
}

fn at(name: &str, error: &PointError) -> anyhow::Error {
    failure(ExitCode::BadInput, format!("simulate {name}: {error}"))
}
