//! Beyond the paper: the controller on a real program, recorded or running.
//!
//! [`quaver_analysis::subframes`] says of each subframe of a program how much was its own work, waiting and lost. A
//! [`Compensator`] holds a [`Controller`] a thread, by the rules of fork and join, and lets them decide. Of a recorded program
//! ([`Compensator::ended`]) the work is taken to be done at the controller's point; of one that runs
//! ([`Compensator::ended_at`]) it was done at whatever frequency the core really had.

use super::controller::{Controller, ControllerConfig, SubframeTimes};
use super::debt::Arrival;
use super::table::{CoreResidency, OperatingPoint, Table};
use quaver_sync_analysis::subframes::{SoFar, Subframe};
use quaver_sync_analysis::sync::Wakeup;
use serde::Serialize;
use std::collections::BTreeMap;

/// Femtoseconds in a nanosecond.
const FS_PER_NS: f64 = 1e6;

/// What was decided at the end of a subframe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// What the controller was told.
    pub ran: SubframeTimes,
    /// Mean frequency of the subframe over that at rest, as it was told.
    pub ratio: f64,
    /// Point of the next subframe.
    pub point: usize,
    /// What the thread owes, femtoseconds.
    pub owed_fs: i64,
}

/// One thread over its life.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThreadCompensation {
    /// Its number.
    pub thread: u32,
    /// Subframes.
    pub subframes: u64,
    /// Its life as recorded, nanoseconds.
    pub length_ns: u64,
    /// Waiting for others, nanoseconds.
    pub blocked_ns: u64,
    /// Lost, nanoseconds.
    pub lost_ns: u64,
    /// Lost less what was won by speed, nanoseconds: what is left of the loss.
    pub left_ns: f64,
    /// Mean frequency while it did not wait, over that at rest; none of a thread that only waited.
    pub mean_ratio: Option<f64>,
    /// Changes of the frequency.
    pub changes: u64,
}

impl ThreadCompensation {
    /// How much longer it took than without jitter, in parts of that time.
    pub fn slow_down_without(&self) -> Option<f64> {
        slow_down(self.lost_ns as f64, self.length_ns, self.lost_ns)
    }

    /// The same with the controller.
    pub fn slow_down_with(&self) -> Option<f64> {
        slow_down(self.left_ns, self.length_ns, self.lost_ns)
    }
}

/// `left` over the time that was not lost; none of no time.
fn slow_down(left_ns: f64, length_ns: u64, lost_ns: u64) -> Option<f64> {
    let ideal_ns = length_ns.saturating_sub(lost_ns);
    (ideal_ns > 0).then(|| left_ns / ideal_ns as f64)
}

/// What became of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Compensated {
    /// Its threads, in the order of their begins.
    pub threads: Vec<ThreadCompensation>,
    /// What the program lost without a controller, by the rule of its debts, nanoseconds.
    pub lost_ns: u64,
    /// Owed at the end by the same rule, with the controller, nanoseconds.
    pub left_ns: f64,
    /// How long threads were at which point, working or waiting. A thread that waits needs none and rests.
    pub residency: CoreResidency,
    /// The same without a controller.
    pub at_rest: CoreResidency,
}

impl Compensated {
    /// How much longer the program took than without jitter, in parts of that time; `length_ns` is its time as recorded.
    pub fn slow_down_without(&self, length_ns: u64) -> Option<f64> {
        slow_down(self.lost_ns as f64, length_ns, self.lost_ns)
    }

    /// The same with the controller.
    pub fn slow_down_with(&self, length_ns: u64) -> Option<f64> {
        slow_down(self.left_ns, length_ns, self.lost_ns)
    }
}

#[derive(Clone, Debug)]
struct Thread {
    order: usize,
    controller: Controller,
    /// What it would owe without a controller.
    count_fs: i64,
    /// A change of the frequency that the next subframe begins with.
    stall_fs: u64,
    left_fs: i64,
    /// Work, and work times frequency.
    worked: (f64, f64),
    seen: ThreadCompensation,
}

/// All that came back so far from a barrier at which a thread came last.
#[derive(Clone, Debug)]
struct Meeting {
    released_ns: u64,
    /// Largest debt, and least debt plus wait.
    most: Debt,
    least: Debt,
    threads: Vec<u32>,
}

/// What a thread owes, femtoseconds: with its controller, and without.
#[derive(Clone, Copy, Debug)]
struct Debt {
    with_fs: i64,
    without_fs: i64,
}

impl Debt {
    fn with(self, other: Self, of: impl Fn(i64, i64) -> i64) -> Self {
        Self { with_fs: of(self.with_fs, other.with_fs), without_fs: of(self.without_fs, other.without_fs) }
    }
}

/// The controllers of a program's threads.
#[derive(Clone, Debug)]
pub struct Compensator {
    config: ControllerConfig,
    /// Part of a thread's own work that waits for memory, so that no clock makes it shorter, 0 to 1.
    unpaced_share: f64,
    threads: BTreeMap<u32, Thread>,
    /// By the thread that came last: the newest barrier.
    meetings: BTreeMap<u32, Meeting>,
    /// Threads that were joined, or whose number was given again.
    done: Vec<(usize, ThreadCompensation)>,
    /// The largest counts of threads that nobody will join.
    forgotten: (i64, i64),
    begun: usize,
    residency: CoreResidency,
    at_rest: CoreResidency,
}

impl Compensator {
    /// No thread has begun. `unpaced_share` of their work waits for memory, 0 to 1.
    pub fn new(config: ControllerConfig, unpaced_share: f64) -> Self {
        let none = vec![0; config.table.points.len()];
        let residency = CoreResidency { active_fs: none.clone(), idle_fs: none, changes: 0 };
        Self {
            config,
            unpaced_share: unpaced_share.clamp(0.0, 1.0),
            threads: BTreeMap::new(),
            meetings: BTreeMap::new(),
            done: Vec::new(),
            forgotten: (0, i64::MIN),
            begun: 0,
            at_rest: residency.clone(),
            residency,
        }
    }

    /// How the controllers work.
    pub fn config(&self) -> &ControllerConfig {
        &self.config
    }

    /// The point that a thread wants; that at rest of one that is not known.
    pub fn point(&self, thread: u32) -> usize {
        self.threads.get(&thread).map_or(self.config.table.rest, |thread| thread.controller.point())
    }

    /// A thread begins, with what its parent owes.
    pub fn began(&mut self, thread: u32, parent: Option<u32>) {
        let parent = parent.and_then(|parent| self.threads.get(&parent));
        let state = Thread {
            order: self.begun,
            controller: parent.map_or_else(
                || Controller::new(&self.config),
                |parent| Controller::child_of(&self.config, &parent.controller),
            ),
            count_fs: parent.map_or(0, |parent| parent.count_fs),
            stall_fs: 0,
            left_fs: 0,
            worked: (0.0, 0.0),
            seen: ThreadCompensation { thread, ..ThreadCompensation::default() },
        };
        self.begun += 1;
        if let Some(old) = self.threads.insert(thread, state) {
            self.forget(old);
        }
    }

    /// A subframe of a recorded program: what was its own work at rest is done at the controller's point.
    pub fn ended(&mut self, subframe: &Subframe) -> Decision {
        let Some(state) = self.known(subframe.thread.0) else { return self.nothing() };
        let ratio = self.config.table.factor(state.controller.point());
        let work_fs = subframe.own_ns as f64 * FS_PER_NS;
        let paced = work_fs * (1.0 - self.unpaced_share) / ratio;
        let unpaced = work_fs * self.unpaced_share;
        let (lost_fs, blocked_fs) = (subframe.lost_ns * 1_000_000, subframe.blocked_ns * 1_000_000);
        let ran = SubframeTimes {
            length_fs: (paced + unpaced).round() as u64 + lost_fs + blocked_fs + state.stall_fs,
            paced_fs: paced.round() as u64,
            unpaced_fs: unpaced.round() as u64,
            stalled_fs: state.stall_fs,
            lost_fs,
        };
        self.settle(subframe, &ran, ratio)
    }

    /// A subframe of a running program, whose core was at `ratio` of its frequency at rest on the mean, and stood still for
    /// `stalled_fs` to change it.
    pub fn ended_at(&mut self, subframe: &Subframe, ratio: f64, stalled_fs: u64) -> Decision {
        if self.known(subframe.thread.0).is_none() {
            return self.nothing();
        }
        let work_fs = (subframe.own_ns as f64 * FS_PER_NS - stalled_fs as f64).max(0.0);
        // Of the time that was measured, memory's part is larger the faster the core was.
        let paced_part = (1.0 - self.unpaced_share) / ratio;
        let paced = work_fs * paced_part / (paced_part + self.unpaced_share);
        let ran = SubframeTimes {
            length_fs: subframe.length_ns() * 1_000_000,
            paced_fs: paced.round() as u64,
            unpaced_fs: (work_fs - paced).round() as u64,
            stalled_fs,
            lost_fs: subframe.lost_ns * 1_000_000,
        };
        self.settle(subframe, &ran, ratio)
    }

    /// A thread goes on since another ended its wait: what that one owes passes to it. Of the subframes that are under way the
    /// work counts as done at the controllers' points.
    pub fn woken(&mut self, wakeup: &Wakeup, own: &SoFar, others: &SoFar) {
        let (thread, by) = (wakeup.thread.0, wakeup.by.0);
        let (Some(own), Some(others)) = (self.debt(thread, own), self.debt(by, others)) else { return };
        let rule = self.config.critical_path;
        let waited_fs = wakeup.waited_ns * 1_000_000;
        if !wakeup.met {
            let owes = |owed_fs, other_fs| rule.woken(Arrival { owed_fs, waited_fs }, other_fs);
            return self.owes(thread, own, own.with(others, owes));
        }
        let met =
            || Meeting { released_ns: wakeup.released_ns, most: others, least: others, threads: vec![by] };
        let meeting = self.meetings.entry(by).or_insert_with(met);
        if meeting.released_ns != wakeup.released_ns {
            *meeting = met();
        }
        let owes = |own: Debt, meeting: &Meeting| Debt {
            with_fs: rule.met(own.with_fs, meeting.most.with_fs, meeting.least.with_fs),
            without_fs: rule.met(own.without_fs, meeting.most.without_fs, meeting.least.without_fs),
        };
        let before = owes(own, meeting);
        let came_back = meeting.threads.clone();
        let arrived = |owed_fs| Arrival { owed_fs, waited_fs }.most_fs();
        meeting.most = meeting.most.with(own, i64::max);
        meeting.least = meeting.least.with(own, |least_fs, owed_fs| least_fs.min(arrived(owed_fs)));
        meeting.threads.push(thread);
        let after = owes(own, meeting);
        self.owes(thread, own, after);
        // Whoever came back before did not know of this one's debt and wait.
        came_back.into_iter().for_each(|other| self.owes(other, before, after));
    }

    /// What a thread owes in the middle of its subframe.
    fn debt(&self, thread: u32, so_far: &SoFar) -> Option<Debt> {
        let state = self.threads.get(&thread)?;
        let ratio = self.config.table.factor(state.controller.point());
        let won_fs = so_far.own_ns as f64 * FS_PER_NS * (1.0 - self.unpaced_share) * (ratio - 1.0) / ratio;
        let lost_fs = (so_far.lost_ns * 1_000_000) as i64;
        let stall_fs = state.stall_fs as i64;
        Some(Debt {
            with_fs: state.controller.owed_fs() + lost_fs + stall_fs - won_fs.round() as i64,
            without_fs: state.count_fs + lost_fs,
        })
    }

    /// It is another debt now than it was.
    fn owes(&mut self, thread: u32, before: Debt, after: Debt) {
        if let Some(state) = self.threads.get_mut(&thread) {
            state.controller.take_over(after.with_fs - before.with_fs);
            state.count_fs += after.without_fs - before.without_fs;
        }
    }

    /// The program has ended, which joins all threads that nobody had joined.
    pub fn finish(mut self) -> Compensated {
        for (_, thread) in std::mem::take(&mut self.threads) {
            self.forget(thread);
        }
        self.done.sort_by_key(|(order, _)| *order);
        let (lost_fs, left_fs) = self.forgotten;
        Compensated {
            threads: self.done.into_iter().map(|(_, seen)| seen).collect(),
            lost_ns: lost_fs.max(0).unsigned_abs() / 1_000_000,
            left_ns: if self.begun == 0 { 0.0 } else { left_fs as f64 / FS_PER_NS },
            residency: self.residency,
            at_rest: self.at_rest,
        }
    }

    fn known(&self, thread: u32) -> Option<&Thread> {
        self.threads.get(&thread)
    }

    fn nothing(&self) -> Decision {
        Decision { ran: SubframeTimes::default(), ratio: 1.0, point: self.config.table.rest, owed_fs: 0 }
    }

    fn settle(&mut self, subframe: &Subframe, ran: &SubframeTimes, ratio: f64) -> Decision {
        let joined = subframe.joined.and_then(|joined| self.threads.remove(&joined.0));
        let Some(state) = self.threads.get_mut(&subframe.thread.0) else { return self.nothing() };
        let (at, owed_fs) = (state.controller.point(), state.controller.owed_fs());
        state.controller.settle_at(&self.config, ran, ratio);
        state.left_fs += state.controller.owed_fs() - owed_fs;
        state.count_fs += (subframe.lost_ns * 1_000_000) as i64;
        if let Some(joined) = &joined {
            let waited_fs = subframe.blocked_ns * 1_000_000;
            state.controller.join(&self.config, waited_fs, &joined.controller);
            let own = Arrival { owed_fs: state.count_fs, waited_fs };
            state.count_fs = self.config.critical_path.joined(own, joined.count_fs);
        }
        let point = state.controller.decide(&self.config);
        state.stall_fs = self.config.table.change(at, point).stall_fs;
        let worked_fs = (ran.paced_fs + ran.unpaced_fs) as f64;
        state.worked = (state.worked.0 + worked_fs, state.worked.1 + worked_fs * ratio);
        let seen = &mut state.seen;
        seen.subframes += 1;
        seen.length_ns += subframe.length_ns();
        seen.blocked_ns += subframe.blocked_ns;
        seen.lost_ns += subframe.lost_ns;
        seen.changes += u64::from(at != point);
        let decision = Decision { ran: *ran, ratio, point, owed_fs: state.controller.owed_fs() };
        self.account(subframe, ran, at, point);
        if let Some(joined) = joined {
            self.keep(joined);
        }
        decision
    }

    /// Books how long which point was held.
    fn account(&mut self, subframe: &Subframe, ran: &SubframeTimes, at: usize, point: usize) {
        let rest = self.config.table.rest;
        self.residency.active_fs[at] += ran.paced_fs + ran.unpaced_fs + ran.lost_fs + ran.stalled_fs;
        self.residency.idle_fs[rest] += subframe.blocked_ns * 1_000_000;
        self.residency.changes += u64::from(at != point);
        self.at_rest.active_fs[rest] += (subframe.own_ns + subframe.lost_ns) * 1_000_000;
        self.at_rest.idle_fs[rest] += subframe.blocked_ns * 1_000_000;
    }

    fn keep(&mut self, thread: Thread) {
        let (worked, sped) = thread.worked;
        let mut seen = thread.seen;
        seen.left_ns = thread.left_fs as f64 / FS_PER_NS;
        seen.mean_ratio = (worked > 0.0).then(|| sped / worked);
        self.done.push((thread.order, seen));
    }

    fn forget(&mut self, thread: Thread) {
        let (count_fs, owed_fs) = &mut self.forgotten;
        *count_fs = (*count_fs).max(thread.count_fs);
        *owed_fs = (*owed_fs).max(thread.controller.owed_fs());
        self.keep(thread);
    }
}

/// The table up to so many times the frequency at rest. Where it ends before, points follow in its own last step, whose volts are to
/// the last point's as their frequencies.
pub fn limited(table: &Table, highest: f64) -> Table {
    let mut limited = table.clone();
    let rest_ghz = table.points[table.rest].frequency_ghz;
    let within = |point: &OperatingPoint| point.frequency_ghz <= rest_ghz * (highest + 1e-9);
    if let [.., before, last] = table.points.as_slice() {
        let step_ghz = last.frequency_ghz - before.frequency_ghz;
        let mut number = 1.0;
        loop {
            let frequency_ghz = last.frequency_ghz + step_ghz * number;
            let supply_v = last.supply_v * frequency_ghz / last.frequency_ghz;
            let point = OperatingPoint { frequency_ghz, supply_v };
            if !within(&point) || number > 1_000.0 {
                break;
            }
            limited.points.push(point);
            number += 1.0;
        }
    }
    limited.points.retain(within);
    limited
}

#[cfg(test)]
mod tests;
