//! `quaver sim sweep run`: what is not done yet, or a part of it.

use super::work::{Work, Worked};
use super::{Sweep, gather, status};
use crate::cure_file;
use crate::kernel_activity::{KernelActivity, TimedActivity};
use crate::recording;
use crate::sweep::args::SweepRunArgs;
use crate::sweep::stored;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::shard::Shard;
use quaver_instrument::threshold::FailIf;
use quaver_instrument::{results, rights};
use quaver_store::run::RunDir;
use std::collections::BTreeSet;
use std::path::Path;

/// Simulates what is missing, and gathers it where everything was asked for.
pub(super) fn run(args: &SweepRunArgs) -> anyhow::Result<ExitCode> {
    let shard = match args.shard {
        None => Shard::WHOLE,
        Some(wanted) => wanted
            .resolve(|name| std::env::var(name).ok())
            .map_err(|sentence| failure(ExitCode::Usage, sentence))?,
    };
    let sweep = Sweep::find(&args.place)?;
    begin(&sweep, !args.place.plan.is_dir(), args.quiet)?;
    rights::keep(&[Path::new("/")], &[sweep.place.path()]);
    let mine = shard.points(&sweep.costs());
    let interrupt = Interrupt::catch()?;
    let jobs = args.jobs.map_or_else(usable_cpus, |jobs| jobs as usize);
    let worked = do_missing(&sweep, shard, &mine, jobs, &interrupt, args.quiet)?;
    let missing = sweep.points.all.len() - sweep.done()?.len();
    let code = if args.shard.is_none() && missing == 0 {
        finish(&sweep, args.json)?
    } else {
        part_words(&sweep, args, shard, &mine)?;
        ExitCode::Done
    };
    if interrupt.requested() {
        return Ok(ExitCode::Interrupted);
    }
    match worked.failed.first() {
        None => Ok(code),
        Some((point, why)) => {
            let words = sweep.points.all[*point].words(&sweep.plan);
            let more = match worked.failed.len() {
                1 => String::new(),
                some => format!(" (and {} others)", some - 1),
            };
            let message = format!("{words}{more} cannot be simulated: {why}; all other points are kept");
            Err(failure(ExitCode::BadInput, message))
        }
    }
}

/// CPUs that this process may use: by affinity and quota, and by what Slurm gave the task.
fn usable_cpus() -> usize {
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let slurm = std::env::var("SLURM_CPUS_PER_TASK").ok().and_then(|number| number.parse().ok());
    slurm.map_or(here, |given: usize| given.clamp(1, here))
}

/// Makes the directory this plan's. Where it is begun from its own directory, it is as it was.
pub(super) fn begin(sweep: &Sweep, from_plan: bool, quiet: bool) -> anyhow::Result<()> {
    let place = &sweep.place;
    if !quiet {
        sweep.points.warnings.iter().for_each(|warning| quaver_instrument::tell!("quaver: {warning}"));
    }
    if from_plan {
        let changed = place.is_sweep()
            && super::point::expand(&place.plan()?).is_ok_and(|before| before.id != sweep.points.id);
        if changed && place.is_held() {
            let message = format!(
                "{}: the plan was changed, and a process is doing points of it as it was; wait for its end, or end it",
                place.path().display()
            );
            return Err(failure(ExitCode::Output, message));
        }
        place.begin(&sweep.plan, &sweep.ids())?;
        if changed && !quiet {
            quaver_instrument::tell!(
                "quaver: {}: the plan was changed; {} points of it as it was are put aside in earlier/",
                place.path().display(),
                place.put_aside()?
            );
        }
    }
    Ok(())
}

/// Does those of `mine` that are not done.
pub(super) fn do_missing(
    sweep: &Sweep,
    shard: Shard,
    mine: &[usize],
    jobs: usize,
    interrupt: &Interrupt,
    quiet: bool,
) -> anyhow::Result<Worked> {
    let _held = sweep.place.hold(shard)?;
    let done = sweep.done()?;
    let todo: Vec<usize> =
        mine.iter().copied().filter(|point| !done.contains(&sweep.points.all[*point].id)).collect();
    if todo.is_empty() {
        return Ok(Worked::default());
    }
    if !quiet && todo.len() < mine.len() {
        quaver_instrument::tell!(
            "quaver: {} of {} points were done before",
            mine.len() - todo.len(),
            mine.len()
        );
    }
    check_inputs(sweep, &todo)?;
    let kernel = kernel(sweep)?;
    let kernel = kernel.as_ref().map(TimedActivity::new);
    let recorded = sweep.plan.recorded.as_deref().map(recording::read).transpose()?;
    let work = Work {
        plan: &sweep.plan,
        points: &sweep.points,
        place: &sweep.place,
        kernel: kernel.as_ref(),
        recording: recorded.as_ref().map(|recorded| &recorded.recording),
        jobs,
        interrupt,
        quiet,
    };
    work.run(&todo, &sweep.place.log(shard)?)
}

/// Whether the files that these points need are still those of the plan.
fn check_inputs(sweep: &Sweep, todo: &[usize]) -> anyhow::Result<()> {
    let traces: BTreeSet<usize> = todo.iter().map(|point| sweep.points.all[*point].trace).collect();
    traces.into_iter().try_for_each(|trace| sweep.plan.traces[trace].input.check())?;
    sweep.plan.library.as_ref().map_or(Ok(()), |library| library.check())
}

fn kernel(sweep: &Sweep) -> anyhow::Result<Option<KernelActivity>> {
    sweep.plan.library.as_ref().map(|library| cure_file::kernel_activity(&library.path)).transpose()
}

/// Gathers all points, draws and prints them.
fn finish(sweep: &Sweep, json: bool) -> anyhow::Result<ExitCode> {
    let gathered = gather::gather(&sweep.plan, &sweep.points, std::slice::from_ref(&sweep.place), false)?;
    gather::store(&gathered, &sweep.place, &sweep.plan)?;
    print(&sweep.place.run()?, json, &[])
}

/// Draws and prints a sweep that was gathered.
pub(super) fn print(run: &RunDir, json: bool, conditions: &[FailIf]) -> anyhow::Result<ExitCode> {
    let digest = stored::analyze(run)?;
    digest.store(run)?;
    let summary = serde_json::to_value(&digest.summary)?;
    results::print(
        &results::Found::of_run(&summary, run),
        || results::with_report(digest.document(), run),
        json,
        conditions,
    )
}

/// What there is to say where not everything is done: how far it is, and what comes next.
fn part_words(sweep: &Sweep, args: &SweepRunArgs, shard: Shard, mine: &[usize]) -> anyhow::Result<()> {
    if args.json {
        return status::print(sweep, &status::of(sweep)?, true).map(drop);
    }
    if args.quiet {
        return Ok(());
    }
    let done = sweep.done()?;
    let of_mine = mine.iter().filter(|point| done.contains(&sweep.points.all[**point].id)).count();
    let path = sweep.place.path().display();
    if args.shard.is_some() {
        quaver_instrument::tell!("quaver: part {shard}: {of_mine} of its {} points are done", mine.len());
    }
    quaver_instrument::tell!(
        "quaver: {} of {} points of the sweep are kept in {path}",
        done.len(),
        sweep.points.all.len()
    );
    if of_mine < mine.len() {
        quaver_instrument::tell!("quaver: the same command goes on with the rest");
    } else {
        quaver_instrument::tell!("quaver: when all parts are done: quaver sim sweep merge {path}");
    }
    Ok(())
}
