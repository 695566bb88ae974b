//! `quaver sim sweep`: grids of simulations, on this machine or as an array job of a cluster.
//!
//! ```text
//! plan ──> whole plan ──> points, each known by what it is ──> part (shard) ──> workers ──> points/ID.json
//!                                                                                               │ gather
//!                                                                        points.parquet, page <─┘
//! ```

pub mod args;
pub mod digest;
pub mod points;
pub mod stored;
pub mod view;

mod axis;
mod expand;
mod gather;
mod ideal;
mod job;
mod merge;
mod place;
mod plan;
mod point;
mod row;
mod run;
mod script;
mod status;
mod submit;
mod work;

pub use place::VERB;

use crate::sweep::args::{SimSweepArgs, SimSweepCommand, SweepPlaceArgs};
use place::SweepDirectory;
use plan::Plan;
use point::Points;
use quaver_instrument::exit_code::ExitCode;
use std::collections::BTreeSet;

/// Does what is asked.
pub(super) fn run(args: &SimSweepArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        SimSweepCommand::Expand(args) => expand::run(args),
        SimSweepCommand::Run(args) => run::run(args),
        SimSweepCommand::Status(args) => status::run(args),
        SimSweepCommand::Merge(args) => merge::run(args),
        SimSweepCommand::Submit(args) => submit::run(args),
    }
}

/// A sweep: its plan, its points, and where it is kept.
struct Sweep {
    plan: Plan,
    points: Points,
    place: SweepDirectory,
}

impl Sweep {
    /// That of a plan, or of a directory that has one. Nothing is written.
    fn find(args: &SweepPlaceArgs) -> anyhow::Result<Self> {
        if args.plan.is_dir() {
            return Self::open(SweepDirectory::at(&args.plan));
        }
        let plan = plan::read(&args.plan)?;
        let points = point::expand(&plan)?;
        let place = SweepDirectory::named(&args.output, &plan.name);
        Ok(Self { plan, points, place })
    }

    /// That of a directory.
    fn open(place: SweepDirectory) -> anyhow::Result<Self> {
        let plan = place.plan()?;
        let points = point::expand(&plan)?;
        Ok(Self { plan, points, place })
    }

    /// Names of all points.
    fn ids(&self) -> BTreeSet<&str> {
        self.points.all.iter().map(|point| point.id.as_str()).collect()
    }

    /// About what each point costs.
    fn costs(&self) -> Vec<u64> {
        self.points.all.iter().map(|point| self.plan.traces[point.trace].steps).collect()
    }

    /// Points of the sweep that are done.
    fn done(&self) -> anyhow::Result<BTreeSet<String>> {
        let ids = self.ids();
        let mut done = self.place.done()?;
        done.retain(|id| ids.contains(id.as_str()));
        Ok(done)
    }
}
