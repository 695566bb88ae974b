//! `quaver sim sweep merge`: points of several processes or machines in one table.

use super::place::SweepDirectory;
use super::{Sweep, gather};
use crate::sweep::args::SweepMergeArgs;
use quaver_instrument::exit_code::{ExitCode, failure};
use std::collections::BTreeSet;

/// Gathers and prints.
pub(super) fn run(args: &SweepMergeArgs) -> anyhow::Result<ExitCode> {
    let mut seen = BTreeSet::new();
    let mut sweeps: Vec<Sweep> = Vec::new();
    for directory in &args.directories {
        let really = directory.canonicalize().unwrap_or_else(|_| directory.clone());
        if !seen.insert(really) {
            return Err(failure(ExitCode::Usage, format!("{} is named twice", directory.display())));
        }
        sweeps.push(Sweep::open(SweepDirectory::at(directory))?);
    }
    let Some(first) = sweeps.first() else {
        return Err(failure(ExitCode::Usage, "name the directories of a sweep"));
    };
    if let Some(other) = sweeps.iter().find(|other| other.points.id != first.points.id) {
        let message = format!(
            "{} is of another plan than {}: {} ({} points, {}) and {} ({} points, {}); parts of one sweep are of one plan",
            other.place.path().display(),
            first.place.path().display(),
            other.plan.name,
            other.points.all.len(),
            other.points.id,
            first.plan.name,
            first.points.all.len(),
            first.points.id
        );
        return Err(failure(ExitCode::BadInput, message));
    }
    let target = match (&args.output, sweeps.len()) {
        (Some(parent), _) => SweepDirectory::named(parent, &first.plan.name),
        (None, 1) => first.place.clone(),
        (None, _) => {
            let message = "several directories become one: say by --output where it is made";
            return Err(failure(ExitCode::Usage, message));
        }
    };
    let sources: Vec<SweepDirectory> = sweeps.iter().map(|sweep| sweep.place.clone()).collect();
    let gathered = gather::gather(&first.plan, &first.points, &sources, args.partial)?;
    let here = |place: &SweepDirectory| place.path().canonicalize().ok();
    if !sources.iter().any(|source| here(source).is_some() && here(source) == here(&target)) {
        if target.is_sweep() && !target.done()?.is_empty() {
            let message = format!(
                "{} holds points of its own; name it among the directories, or another --output",
                target.path().display()
            );
            return Err(failure(ExitCode::Output, message));
        }
        target.begin(&first.plan, &BTreeSet::new())?;
    }
    gather::store(&gathered, &target, &first.plan)?;
    super::run::print(&target.run()?, args.json, &[])
}
