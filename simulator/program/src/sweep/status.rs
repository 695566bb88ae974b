//! `quaver sim sweep status`: how much is done, what is running, how long the rest takes.

use super::Sweep;
use super::job::Job;
use crate::sweep::args::SweepStatusArgs;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::results::{self, Found};
use quaver_view::{Cell, Document, Section, Table, Text, text};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// How far a sweep is.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    schema: &'static str,
    name: String,
    id: String,
    directory: String,
    points: usize,
    done: usize,
    /// Points that were begun and have neither ended nor failed since; where their process was killed they stay here until they
    /// are begun again.
    begun: usize,
    /// Points that could not be simulated when they were last tried.
    failed: Vec<String>,
    /// What is left takes so long on one CPU, by what was done; null where nothing was.
    left_cpu_s: Option<f64>,
    /// All points are in points.parquet.
    gathered: bool,
    /// The last job of Slurm.
    job: Option<JobStatus>,
}

#[derive(Debug, Serialize)]
struct JobStatus {
    id: String,
    tasks: u32,
    /// How many tasks are in which state; null where Slurm could not be asked, empty where it has forgotten the job.
    states: Option<BTreeMap<String, u32>>,
}

/// Prints it.
pub(super) fn run(args: &SweepStatusArgs) -> anyhow::Result<ExitCode> {
    let sweep = Sweep::find(&args.place)?;
    if !sweep.place.is_sweep() {
        let message = format!(
            "{} is not there: nothing of this sweep was done yet; begin it with quaver sim sweep run {}",
            sweep.place.path().display(),
            args.place.plan.display()
        );
        return Err(failure(ExitCode::BadInput, message));
    }
    let status = of(&sweep)?;
    print(&sweep, &status, args.json)
}

/// Prints it as a page or as JSON.
pub(super) fn print(sweep: &Sweep, status: &Status, json: bool) -> anyhow::Result<ExitCode> {
    let summary = serde_json::to_value(status)?;
    let found = Found { run: Some(sweep.place.path()), ..Found::new(&summary) };
    results::print(&found, || document(status), json, &[])
}

/// A time that may be long: `48 s`, `3.1 min`, `2.5 h`.
pub(super) fn long(seconds: f64) -> String {
    match seconds {
        short if short < 100.0 => format!("{short:.0} s"),
        middle if middle < 6_000.0 => format!("{:.1} min", middle / 60.0),
        long => format!("{:.1} h", long / 3_600.0),
    }
}

/// How far a sweep is.
pub(super) fn of(sweep: &Sweep) -> anyhow::Result<Status> {
    let done = sweep.done()?;
    let (mut begun, mut failed) = (BTreeSet::new(), BTreeSet::new());
    for line in sweep.place.logged()? {
        failed.remove(&line.point);
        match line.what.as_str() {
            "begins" => {
                begun.insert(line.point);
            }
            "fails" => {
                begun.remove(&line.point);
                failed.insert(line.point);
            }
            _ => {
                begun.remove(&line.point);
            }
        }
    }
    let ids = sweep.ids();
    begun.retain(|id| ids.contains(id.as_str()) && !done.contains(id));
    let words = |id: &String| {
        sweep.points.all.iter().find(|point| point.id == *id).map(|point| point.words(&sweep.plan))
    };
    let costs = sweep.costs();
    let left: u64 =
        (0..costs.len()).filter(|at| !done.contains(&sweep.points.all[*at].id)).map(|at| costs[at]).sum();
    Ok(Status {
        schema: "quaver.sim.sweep.status/1",
        name: sweep.plan.name.clone(),
        id: sweep.points.id.clone(),
        directory: sweep.place.path().display().to_string(),
        points: costs.len(),
        done: done.len(),
        begun: begun.len(),
        failed: failed.iter().filter(|id| !done.contains(*id)).filter_map(words).collect(),
        left_cpu_s: seconds_a_step(sweep)?.map(|step_s| step_s * left as f64),
        gathered: is_gathered(sweep),
        job: Job::read(&sweep.place).map(|job| JobStatus {
            states: states(&job.id),
            id: job.id,
            tasks: job.tasks,
        }),
    })
}

fn is_gathered(sweep: &Sweep) -> bool {
    let complete = || Some(sweep.place.run().ok()?.read_manifest().ok()?.complete);
    sweep.place.table().is_file() && complete() == Some(true)
}

/// How long a step took, over all points of the sweep that were simulated; none where none was.
pub(super) fn seconds_a_step(sweep: &Sweep) -> anyhow::Result<Option<f64>> {
    let steps: BTreeMap<&str, u64> = sweep
        .points
        .all
        .iter()
        .map(|point| (point.id.as_str(), sweep.plan.traces[point.trace].steps.max(1)))
        .collect();
    let (mut seconds, mut all) = (0.0, 0);
    for line in sweep.place.logged()? {
        if let (Some(took_s), Some(steps)) = (line.took_s, steps.get(line.point.as_str())) {
            seconds += took_s;
            all += steps;
        }
    }
    Ok((all > 0).then(|| seconds / all as f64))
}

/// Which tasks of a job are in which state, by squeue.
fn states(job: &str) -> Option<BTreeMap<String, u32>> {
    let output =
        Command::new("squeue").args(["--noheader", "--array", "--format=%T", "--jobs", job]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !said.contains("Invalid job id") {
        return None;
    }
    let mut states = BTreeMap::new();
    for state in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        *states.entry(state.to_lowercase()).or_default() += 1;
    }
    Some(states)
}

fn document(status: &Status) -> Document {
    let mut document = Document::new("quaver sim sweep status", &status.name);
    document.fact("sweep", &status.directory);
    let (done, points) = (status.done as u64, status.points as u64);
    document.verdict = Some(text!("{} of {} points are done.", Cell::Count(done), Cell::Count(points)));
    let share = status.done as f64 / status.points.max(1) as f64;
    let mut table = Table::bare(2);
    let words = text!("{} of {} points ({})", Cell::Count(done), Cell::Count(points), Cell::Share(share));
    table.row([Cell::Bars(vec![share]), words.into()]);
    let mut section = Section::new("progress", "Progress").with(table);
    let mut lines = Vec::new();
    if let Some(left_s) = status.left_cpu_s.filter(|left_s| *left_s > 0.0) {
        lines.push(format!("{} of one CPU are left", long(left_s)));
    }
    if status.begun > 0 {
        lines.push(format!("{} begun: running, or their process was killed", status.begun));
    }
    lines.extend(status.failed.iter().map(|words| format!("could not be simulated: {words}")));
    if let Some(job) = &status.job {
        let states = match &job.states {
            None => "squeue cannot be asked here".to_owned(),
            Some(states) if states.is_empty() => "no task is left in the queue".to_owned(),
            Some(states) => states
                .iter()
                .map(|(state, number)| format!("{number} {state}"))
                .collect::<Vec<_>>()
                .join(", "),
        };
        lines.push(format!("job {} of Slurm, {} tasks: {states}", job.id, job.tasks));
    }
    lines.push(match (status.done == status.points, status.gathered) {
        (true, true) => format!("gathered: quaver report {}", status.directory),
        (true, false) => format!("next: quaver sim sweep merge {}", status.directory),
        (false, _) => format!("next: quaver sim sweep run {}", status.directory),
    });
    lines.into_iter().for_each(|line| {
        section.push(Text::from(line));
    });
    document.section(section);
    document
}
