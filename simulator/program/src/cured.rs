//! Runs of one program with jitter and its cure: as configured, without the cure, and ideal, for every seed, on all cores of
//! this host. What comes out does not depend on how many there are.

use super::cure::{self, End, Reached, Setup, SimOutcome};
use super::cure_file::CureFile;
use super::file;
use super::kernel_activity::TimedActivity;
use crate::digest::{CureRuns, OneRun, SeedRuns};
use anyhow::anyhow;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_sim::config::Config;
use quaver_sim::cure::{CacheKind, CureCache, CureConfig, Refills};
use quaver_trace::meetings::Meetings;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Parts that a share is counted in.
const PARTS: u64 = 1 << 20;
/// Time between two changes of the progress line.
const SHOWN_EACH: Duration = Duration::from_millis(200);

/// What is simulated.
pub(super) struct CuredSetup<'a> {
    pub(super) trace: &'a Path,
    /// Barriers in it that are conditions.
    pub(super) meetings: &'a Arc<Meetings>,
    pub(super) machine: &'a Config,
    pub(super) file: &'a CureFile,
    pub(super) kernel: Option<&'a TimedActivity<'a>>,
    /// How many seeds, from that of the configuration on.
    pub(super) seeds: u64,
    /// Intervals that are kept of the first run.
    pub(super) intervals: usize,
}

/// The first run, and what all of them are judged by.
pub(super) struct CuredOutcome {
    pub(super) first: SimOutcome,
    pub(super) runs: CureRuns,
    /// Not all runs came to their ends.
    pub(super) interrupted: bool,
}

/// One run.
#[derive(Clone, Debug)]
struct Job {
    what: What,
    seed: u64,
    config: CureConfig,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Cured,
    Disturbed,
    Ideal,
    IdealInCache,
}

/// The run that all figures are of comes first, then those that it is compared with, then other seeds.
fn jobs(config: &CureConfig, seeds: u64) -> Vec<Job> {
    let plain = CureCache { kind: CacheKind::Unified, ..config.cache };
    let ideal = CureConfig { injection: None, dvfs: None, boost: None, evictions: None, ..config.clone() };
    let disturbed = CureConfig { dvfs: None, boost: None, cache: plain, ..config.clone() };
    let first = config.injection.as_ref().map_or(1, |injection| injection.seed);
    let job = |what, seed, config: &CureConfig| Job { what, seed, config: config.clone() };
    let mut jobs = vec![
        job(What::Cured, first, config),
        job(What::Ideal, first, &CureConfig { cache: plain, ..ideal.clone() }),
        job(What::Disturbed, first, &disturbed),
    ];
    if config.cache.kind != CacheKind::Unified {
        jobs.push(job(What::IdealInCache, first, &ideal));
    }
    // Without anything drawn one seed is like the other.
    let more = if config.injection.is_some() { seeds } else { 1 };
    for seed in (1..more).map(|more| first.wrapping_add(more)) {
        jobs.push(job(What::Cured, seed, config));
        jobs.push(job(What::Disturbed, seed, &disturbed));
    }
    jobs
}

/// What the workers share.
struct Shared<'a> {
    setup: &'a CuredSetup<'a>,
    jobs: Vec<Job>,
    next: AtomicUsize,
    /// How much of each job is done.
    done: Vec<AtomicU64>,
    instructions: Vec<AtomicU64>,
    results: Mutex<Vec<Option<anyhow::Result<SimOutcome>>>>,
    interrupt: &'a Interrupt,
}

impl Shared<'_> {
    /// Does jobs until there are none left, or the user wants it to end.
    fn work(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(number) else { return };
            if number > 0 && self.interrupt.requested() {
                return;
            }
            let outcome = self.simulate(number, job);
            self.done[number].store(PARTS, Ordering::Relaxed);
            self.results.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(outcome);
        }
    }

    fn simulate(&self, number: usize, job: &Job) -> anyhow::Result<SimOutcome> {
        // Each has the file to itself, for what was read of it tells how far a run is.
        let trace = file::open(self.setup.trace)?.with_meetings(Arc::clone(self.setup.meetings));
        let setup = Setup {
            trace: &trace,
            machine: self.setup.machine,
            cure: Some(&job.config),
            seed: Some(job.seed),
            kernel: self.setup.kernel,
            recording: self.setup.file.recorded.as_ref().map(|recorded| &recorded.recording),
            intervals: if number == 0 { self.setup.intervals } else { 0 },
        };
        cure::simulate(&setup, &mut |reached| {
            let share = (reached.share.clamp(0.0, 1.0) * PARTS as f64) as u64;
            self.done[number].store(share, Ordering::Relaxed);
            self.instructions[number].store(reached.instructions, Ordering::Relaxed);
            !self.interrupt.requested()
        })
    }

    fn reached(&self, began: Instant) -> Reached {
        let sum = |of: &[AtomicU64]| of.iter().map(|one| one.load(Ordering::Relaxed)).sum::<u64>();
        let whole = (self.jobs.len() as u64 * PARTS) as f64;
        Reached {
            instructions: sum(&self.instructions),
            share: sum(&self.done) as f64 / whole,
            elapsed: began.elapsed(),
        }
    }
}

/// Does all runs. `words` says how far they are.
///
/// # Errors
/// The trace cannot be read, or the configuration not be used on this chip.
pub(super) fn run(
    setup: &CuredSetup<'_>,
    interrupt: &Interrupt,
    line: &Progress,
    words: &dyn Fn(Reached) -> String,
) -> anyhow::Result<CuredOutcome> {
    let jobs = jobs(&setup.file.config, setup.seeds);
    let each = || jobs.iter().map(|_| AtomicU64::new(0)).collect();
    let shared = Shared {
        done: each(),
        instructions: each(),
        results: Mutex::new(jobs.iter().map(|_| None).collect()),
        next: AtomicUsize::new(0),
        setup,
        interrupt,
        jobs,
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(shared.jobs.len());
    let began = Instant::now();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..workers {
            match quaver_waiting::start_in(scope, "quaver-sim", || shared.work()) {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => return Err(error),
                // Those that there are do all of it.
                Err(_) => break,
            }
        }
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(SHOWN_EACH.min(Duration::from_millis(20)));
            let reached = shared.reached(began);
            line.reach(reached.share, words(reached));
        }
        Ok(())
    })?;
    let results = shared.results.into_inner().unwrap_or_else(PoisonError::into_inner);
    gather(setup, &shared.jobs, results)
}

fn gather(
    setup: &CuredSetup<'_>,
    jobs: &[Job],
    results: Vec<Option<anyhow::Result<SimOutcome>>>,
) -> anyhow::Result<CuredOutcome> {
    let mut runs = CureRuns {
        config: setup.file.config.clone(),
        kernel_epochs: setup.kernel.map(|kernel| kernel.epochs() as u64),
        recorded: setup.file.recorded.clone(),
        ideal: None,
        ideal_in_cache: None,
        seeds: Vec::new(),
        second_level: None,
    };
    let (mut first, mut interrupted) = (None, false);
    for (number, (job, result)) in jobs.iter().zip(results).enumerate() {
        let Some(mut outcome) = result.transpose()? else {
            interrupted = true;
            continue;
        };
        let whole = matches!(outcome.end, End::Whole);
        interrupted |= !whole;
        let duration_fs = outcome.results.duration_fs;
        let cure = if number == 0 { outcome.cure.clone() } else { outcome.cure.take() };
        let run = cure.filter(|_| whole || number == 0).map(|cure| {
            let refills = Refills::of(&outcome.results, &cure.activities);
            OneRun { duration_fs, cure, refills }
        });
        if number == 0 {
            runs.second_level = outcome.results.second_level;
            first = Some(outcome);
        }
        put(&mut runs, job, run);
    }
    let first = first.ok_or_else(|| anyhow!("the first run was never begun"))?;
    Ok(CuredOutcome { first, runs, interrupted })
}

fn put(runs: &mut CureRuns, job: &Job, run: Option<OneRun>) {
    let seed = job.seed;
    let at = runs.seeds.iter().position(|one| one.seed == seed).unwrap_or_else(|| {
        runs.seeds.push(SeedRuns { seed, cured: None, disturbed: None });
        runs.seeds.len() - 1
    });
    match job.what {
        What::Cured => runs.seeds[at].cured = run,
        What::Disturbed => runs.seeds[at].disturbed = run,
        What::Ideal => runs.ideal = run,
        What::IdealInCache => runs.ideal_in_cache = run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_dvfs::dvfs::ControllerConfig;
    use quaver_sim::cure::{BoostConfig, BoostRule, COMMENTED_CURE};

    #[test]
    fn every_seed_runs_with_and_without_the_cure_and_the_rest_once() {
        let config = CureConfig::from_toml(COMMENTED_CURE).unwrap();
        let all = jobs(&config, 3);
        let said: Vec<_> = all.iter().map(|job| (job.what, job.seed)).collect();
        use What::{Cured, Disturbed, Ideal, IdealInCache};
        let wanted = [
            (Cured, 1),
            (Ideal, 1),
            (Disturbed, 1),
            (IdealInCache, 1),
            (Cured, 2),
            (Disturbed, 2),
            (Cured, 3),
            (Disturbed, 3),
        ];
        assert_eq!(said, wanted);
        assert_eq!(all[0].config, config);
        for job in &all[1..4] {
            assert_eq!(job.config.dvfs, None);
            assert_eq!(job.config.injection.is_some(), job.what == Disturbed);
            let plain = job.config.cache.kind == CacheKind::Unified;
            assert_eq!(plain, job.what != IdealInCache);
        }
        for rule in BoostRule::ALL {
            let dvfs = config.dvfs.clone().filter(|_| rule == BoostRule::Debt);
            let dvfs = dvfs.map(|dvfs| ControllerConfig { table: BoostConfig::table(), ..dvfs });
            let boosted = CureConfig { dvfs, boost: Some(BoostConfig::new(rule)), ..config.clone() };
            for job in &jobs(&boosted, 1) {
                assert_eq!(
                    job.config.boost.is_some(),
                    job.what == Cured,
                    "{rule:?}: no other core runs faster"
                );
                assert_eq!(job.config.fault(), None, "{rule:?}");
            }
        }
        let quiet = CureConfig { injection: None, cache: CureCache::default(), ..config };
        assert_eq!(jobs(&quiet, 9).len(), 3, "nothing is drawn, and there is one second level");
    }
}
