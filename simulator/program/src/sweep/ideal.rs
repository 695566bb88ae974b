//! Runs without jitter that points are compared with: each is simulated once, for all points that want it.

use super::place::SweepDirectory;
use super::plan::Plan;
use super::point::{Point, identity};
use super::row::IdealRun;
use crate::cure;
use crate::cure::{End, Reached, Setup};
use crate::file::Trace;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Those of this process; also those that others kept in the sweep's directory.
#[derive(Default)]
pub(super) struct Ideals {
    known: Mutex<HashMap<String, Slot>>,
}

type Slot = Arc<Mutex<Option<Arc<IdealRun>>>>;

/// What became of the wish for one.
pub(super) enum Compared {
    /// There is nothing to compare with.
    Not,
    /// Here it is.
    With(Arc<IdealRun>),
    /// We were asked to end.
    Interrupted,
    /// It cannot be simulated.
    Stopped(String),
}

impl Ideals {
    /// The one for a point. Others who want the same one wait until it is there.
    pub(super) fn of(
        &self,
        (plan, place): (&Plan, &SweepDirectory),
        point: &Point,
        trace: &Trace,
        goes_on: &mut dyn FnMut(Reached) -> bool,
    ) -> anyhow::Result<Compared> {
        let Some(ideal) = point.ideal(plan.ideal) else { return Ok(Compared::Not) };
        let machine = &point.setting.machine;
        let id = identity(&[
            &plan.traces[point.trace].input.sha256,
            &serde_json::to_string(machine)?,
            &serde_json::to_string(&ideal)?,
            env!("CARGO_PKG_VERSION"),
        ]);
        let slot = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(id.clone()).or_default())
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() {
            *slot = place.read_ideal(&id).map(Arc::new);
        }
        if let Some(run) = slot.as_ref() {
            return Ok(Compared::With(Arc::clone(run)));
        }
        let setup = Setup { cure: Some(&ideal), ..Setup::plain(trace, machine) };
        let outcome = cure::simulate(&setup, goes_on)?;
        match outcome.end {
            End::Interrupted => return Ok(Compared::Interrupted),
            End::Stopped(error) => return Ok(Compared::Stopped(error.to_string())),
            End::Whole => {}
        }
        let progress = outcome.cure.map(|cure| cure.progress).unwrap_or_default();
        let run = IdealRun { duration_fs: outcome.results.duration_fs, progress };
        place.keep_ideal(&id, &run)?;
        let run = Arc::new(run);
        *slot = Some(Arc::clone(&run));
        Ok(Compared::With(run))
    }
}
