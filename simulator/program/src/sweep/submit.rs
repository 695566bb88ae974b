//! `quaver sim sweep submit`: an array job of Slurm.

use super::job::Job;
use super::place::{SweepDirectory, write_whole};
use super::script::Script;
use super::{Sweep, status};
use crate::sweep::args::SweepSubmitArgs;
use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::results;
use quaver_instrument::shard::Shard;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// Writes the script and submits it, or prints it.
pub(super) fn run(args: &SweepSubmitArgs) -> anyhow::Result<ExitCode> {
    let mut sweep = Sweep::find(&args.place)?;
    if !args.dry_run {
        if !is_there("sbatch") {
            let message = "there is no sbatch here: submit on a machine of the cluster (Debian: apt-get install slurm-client), \
                           or see the script with --dry-run";
            return Err(failure(ExitCode::Unsupported, message));
        }
        super::run::begin(&sweep, !args.place.plan.is_dir(), false)?;
    }
    let done = sweep.done()?;
    if done.len() == sweep.points.all.len() {
        let path = sweep.place.path().display();
        quaver_instrument::tell!("quaver: all {} points are done: quaver sim sweep merge {path}", done.len());
        return Ok(ExitCode::Done);
    }
    let interrupt = Interrupt::catch()?;
    let Some((parts, each_s)) = parts(&mut sweep, args, &interrupt)? else {
        return Ok(ExitCode::Interrupted);
    };
    let tasks = tasks(&sweep, parts)?;
    if tasks.is_empty() {
        let path = sweep.place.path().display();
        quaver_instrument::tell!("quaver: all points are done: quaver sim sweep merge {path}");
        return Ok(ExitCode::Done);
    }
    let directory = std::path::absolute(sweep.place.path()).context("finding the sweep's directory")?;
    let program = std::env::current_exe().context("finding this program")?;
    let script = Script {
        name: &sweep.plan.name,
        program: &program,
        directory: &directory,
        parts,
        tasks: &tasks,
        cpus: args.cpus,
        options: &args.sbatch,
    };
    let text = script.text().map_err(|sentence| failure(ExitCode::Usage, sentence))?;
    if args.dry_run {
        results::to_stdout(text.as_bytes())?;
        return Ok(ExitCode::Done);
    }
    let job = submit(&sweep.place, &text, parts, tasks.len() as u32)?;
    results::to_stdout(submitted(&job, &directory, each_s).as_bytes())?;
    Ok(ExitCode::Done)
}

/// What to say of a job.
fn submitted(job: &Job, directory: &Path, each_s: Option<f64>) -> String {
    let path = directory.display();
    let each = each_s.map_or_else(String::new, |each| format!(", each about {}", status::long(each)));
    let tasks = if job.tasks == 1 { "1 task".to_owned() } else { format!("{} tasks", job.tasks) };
    format!(
        "job {} of Slurm: {tasks}{each}\n  watch   quaver sim sweep status {path}\n          squeue -j {}\n  \
         gather  quaver sim sweep merge {path}\n  end     scancel {}   (what is done is kept; submit again to go on)\n",
        job.id, job.id, job.id
    )
}

/// Into how many parts the sweep is cut, and how long each takes, seconds; none where we were asked to end.
fn parts(
    sweep: &mut Sweep,
    args: &SweepSubmitArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<(u32, Option<f64>)>> {
    if let Some(tasks) = args.tasks {
        return Ok(Some((tasks, None)));
    }
    let mut step_s = status::seconds_a_step(sweep)?;
    if step_s.is_none() {
        step_s = measure(sweep, args.dry_run, interrupt)?;
        if interrupt.requested() {
            return Ok(None);
        }
    }
    let Some(step_s) = step_s else {
        let message =
            "the point that was to tell how long points take cannot be simulated; see above, or give --tasks";
        return Err(failure(ExitCode::BadInput, message));
    };
    let costs = sweep.costs();
    let whole_s = costs.iter().map(|cost| *cost as f64 * step_s).sum::<f64>() / f64::from(args.cpus);
    let most = args.max_tasks.min(costs.len() as u32);
    let parts = ((whole_s / args.chunk.as_secs_f64().max(1e-3)) as u32).clamp(1, most);
    Ok(Some((parts, Some(whole_s / f64::from(parts)))))
}

/// Simulates the least of the points that are missing; in a dry run nothing of it is kept.
fn measure(sweep: &mut Sweep, dry_run: bool, interrupt: &Interrupt) -> anyhow::Result<Option<f64>> {
    let done = sweep.done()?;
    let costs = sweep.costs();
    let missing = (0..costs.len()).filter(|point| !done.contains(&sweep.points.all[*point].id));
    let Some(least) = missing.min_by_key(|point| costs[*point]) else { return Ok(None) };
    if !dry_run {
        super::run::do_missing(sweep, Shard::WHOLE, &[least], 1, interrupt, false)?;
        return status::seconds_a_step(sweep);
    }
    let nowhere = tempfile::tempdir().context("making a directory to try a point in")?;
    let place = std::mem::replace(&mut sweep.place, SweepDirectory::named(nowhere.path(), &sweep.plan.name));
    let ids: BTreeSet<&str> = sweep.ids();
    sweep.place.begin(&sweep.plan, &ids)?;
    super::run::do_missing(sweep, Shard::WHOLE, &[least], 1, interrupt, false)?;
    let step_s = status::seconds_a_step(sweep)?;
    sweep.place = place;
    Ok(step_s)
}

/// Parts with something to do, from 1.
fn tasks(sweep: &Sweep, parts: u32) -> anyhow::Result<Vec<u32>> {
    let (done, costs) = (sweep.done()?, sweep.costs());
    let missing = |point: &usize| !done.contains(&sweep.points.all[*point].id);
    let has_some = |index: &u32| Shard { index: *index, of: parts }.points(&costs).iter().any(missing);
    Ok((1..=parts).filter(has_some).collect())
}

fn submit(place: &SweepDirectory, text: &str, parts: u32, tasks: u32) -> anyhow::Result<Job> {
    let directory = place.path().join("slurm");
    std::fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let script = directory.join("job.sh");
    write_whole(&script, text.as_bytes())?;
    let output = Command::new("sbatch").arg("--parsable").arg(&script).output().context("starting sbatch")?;
    let said = |octets: &[u8]| String::from_utf8_lossy(octets).trim().to_owned();
    if !output.status.success() {
        let message = format!("sbatch refused {}: {}", script.display(), said(&output.stderr));
        return Err(failure(ExitCode::Peer, message));
    }
    let answer = said(&output.stdout);
    // `JOB;CLUSTER` where there are several clusters.
    let id = answer.split(';').next().unwrap_or_default().to_owned();
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_digit()) {
        return Err(failure(ExitCode::Peer, format!("sbatch answered `{answer}`, which names no job")));
    }
    let job = Job { id, parts, tasks };
    write_whole(&Job::file(place), &serde_json::to_vec_pretty(&job)?)?;
    Ok(job)
}

/// Whether there is such a command.
fn is_there(command: &str) -> bool {
    match Command::new(command).arg("--version").output() {
        Err(error) => error.kind() != ErrorKind::NotFound,
        Ok(_) => true,
    }
}
