//! Real-time frames made of a recorded program's subframes, and what becomes of them.

use super::{CONTROLLERS, Question};
use quaver_dvfs::dvfs::deadline::{Deadlines, FrameWork, WIMAX_DEADLINE_NS, WIMAX_WORK_NS, run_frames};
use quaver_dvfs::dvfs::{ControllerConfig, Kind};
use quaver_sync_analysis::subframes::Subframe;
use serde::Serialize;
use std::collections::BTreeMap;

/// Real-time frames that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramesAsked {
    /// The program's own work, by periods.
    Own {
        /// Nanoseconds.
        period_ns: u64,
        /// Nanoseconds.
        deadline_ns: u64,
    },
    /// WiMax packets, with the program's losses, or made-up ones.
    Wimax,
}

/// Real-time frames.
#[derive(Clone, Debug, Serialize)]
pub struct Frames {
    /// `own`, `wimax` (the run's losses) or `wimax-made-up`.
    pub of: &'static str,
    /// Deadline, nanoseconds.
    pub deadline_ns: u64,
    /// Period, nanoseconds; of packets, their work without jitter.
    pub period_ns: u64,
    /// Without a controller.
    pub without: Deadlines,
    /// With each, by the highest frequency.
    pub with: Vec<FrameRow>,
}

/// Frames under one controller.
#[derive(Clone, Debug, Serialize)]
pub struct FrameRow {
    /// Its name.
    pub name: String,
    /// Highest frequency over rest.
    pub highest: f64,
    /// What became of the frames.
    pub deadlines: Deadlines,
}

/// Makes frames of subframes and lets each controller run them.
pub(super) struct FrameGatherer {
    asked: FramesAsked,
    unpaced_share: f64,
    deadline_ns: u64,
    /// Of each thread: its begin, the frame's number, and what is in it so far.
    open: BTreeMap<u32, (u64, u64, FrameWork)>,
    /// Subframes that a packet takes.
    packet: usize,
    rest: ControllerConfig,
    without: Deadlines,
    with: Vec<(String, f64, ControllerConfig, Deadlines)>,
}

impl FrameGatherer {
    pub(super) fn new(question: &Question, asked: FramesAsked) -> Self {
        let (_, deadline_ns) = times(asked);
        let mut with = Vec::new();
        for (name, kind, reactivity) in CONTROLLERS {
            for highest in question.limits().into_iter().skip(1) {
                let config = question.config(kind, reactivity, highest);
                with.push((name.to_owned(), highest, config, Deadlines::default()));
            }
        }
        Self {
            asked,
            unpaced_share: question.unpaced_share,
            deadline_ns,
            open: BTreeMap::new(),
            packet: WIMAX_WORK_NS.div_ceil(question.subframe_ns.max(1)).max(1) as usize,
            rest: question.config(Kind::Reactive, 1, 1.0),
            without: Deadlines::default(),
            with,
        }
    }

    pub(super) fn take(&mut self, subframe: &Subframe) {
        let none = || FrameWork { work_ns: 0, unpaced_share: self.unpaced_share, lost_ns: Vec::new() };
        let (begin_ns, number, work) =
            self.open.entry(subframe.thread.0).or_insert_with(|| (subframe.begin_ns, 0, none()));
        let ready = match self.asked {
            FramesAsked::Own { period_ns, .. } => {
                let now = subframe.begin_ns.saturating_sub(*begin_ns) / period_ns.max(1);
                let over = now != *number;
                *number = now;
                over.then(|| std::mem::replace(work, none()))
            }
            FramesAsked::Wimax if work.lost_ns.len() >= self.packet => {
                Some(FrameWork { work_ns: WIMAX_WORK_NS, ..std::mem::replace(work, none()) })
            }
            FramesAsked::Wimax => None,
        };
        work.work_ns += subframe.own_ns;
        work.lost_ns.push(subframe.lost_ns);
        if let Some(ready) = ready {
            self.judge_whole(ready);
        }
    }

    fn judge_whole(&mut self, mut work: FrameWork) {
        if work.work_ns > 0 {
            // What follows the last subframe that is known loses nothing.
            work.lost_ns.push(0);
            self.judge(&work);
        }
    }

    pub(super) fn judge(&mut self, work: &FrameWork) {
        let one = |config: &ControllerConfig, compensate| {
            run_frames(config, [work].into_iter(), self.deadline_ns, compensate)
        };
        self.without.merge(&one(&self.rest, false));
        for (_, _, config, seen) in &mut self.with {
            seen.merge(&one(config, true));
        }
    }

    pub(super) fn finish(mut self) -> Frames {
        // A last frame that is not whole says nothing of its deadline's end, but its work counts like any other's.
        if matches!(self.asked, FramesAsked::Own { .. }) {
            for (_, (_, _, work)) in std::mem::take(&mut self.open) {
                self.judge_whole(work);
            }
        }
        let (period_ns, deadline_ns) = times(self.asked);
        let row = |(name, highest, _, deadlines)| FrameRow { name, highest, deadlines };
        Frames {
            of: if self.asked == FramesAsked::Wimax { "wimax" } else { "own" },
            deadline_ns,
            period_ns,
            without: self.without,
            with: self.with.into_iter().map(row).collect(),
        }
    }
}

/// Period and deadline.
fn times(asked: FramesAsked) -> (u64, u64) {
    match asked {
        FramesAsked::Own { period_ns, deadline_ns } => (period_ns, deadline_ns),
        FramesAsked::Wimax => (WIMAX_WORK_NS, WIMAX_DEADLINE_NS),
    }
}
