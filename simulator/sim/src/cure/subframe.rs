//! Ends of subframes: what the controller is told, and what it wants.

use super::hooks::Cure;
use super::results::SubframeRecord;
use super::threads::unit_id;
use crate::frames::Ended;
use crate::hooks::Moment;
use quaver_dvfs::dvfs::{Controller, SubframeTimes};

impl Cure {
    /// Adds up what the thread has done on this core.
    pub(super) fn account(&mut self, thread: u32, moment: &Moment<'_>) {
        let evicted_fs = self.take_evictions(moment);
        let Some(state) = self.threads.get_mut(thread as usize) else { return };
        let core = &mut self.cores[moment.core];
        let ran_fs = state.account(moment.at_fs, moment.counts, self.table.factor(core.point));
        state.evicted_fs += evicted_fs;
        core.residency.active_fs[core.point] += ran_fs;
    }

    /// The thread's subframe ends here; where that is because it has `joined` another, after a wait of so many femtoseconds, what
    /// that one owed is passed on to it.
    pub(super) fn end_subframe(
        &mut self,
        thread: u32,
        why: Ended,
        joined: Option<(u32, u64)>,
        moment: &Moment<'_>,
    ) {
        self.account(thread, moment);
        self.progress.add(moment.at_fs, self.cores.iter().map(|core| core.instructions).sum());
        let lost_ns = self.units.lost_ns(unit_id(thread));
        let joined = joined.and_then(|(other, waited_fs)| {
            Some((self.threads.get(other as usize)?.controller.clone()?, waited_fs))
        });
        let Some(state) = self.threads.get_mut(thread as usize) else { return };
        let length_fs = state.subframes.end(moment.at_fs, why);
        let lost_fs = (lost_ns - state.lost_ns) * 1_000_000 + std::mem::take(&mut state.evicted_fs);
        state.lost_ns = lost_ns;
        let ran = SubframeTimes {
            length_fs,
            paced_fs: std::mem::take(&mut state.paced_fs),
            unpaced_fs: std::mem::take(&mut state.unpaced_fs),
            stalled_fs: std::mem::take(&mut state.stalled_fs),
            lost_fs,
        };
        let sped_fs = std::mem::take(&mut state.sped_fs);
        let ratio = if ran.paced_fs > 0 { 1.0 + sped_fs as f64 / ran.paced_fs as f64 } else { 1.0 };
        let instructions = std::mem::take(&mut state.instructions);
        let core = &self.cores[moment.core];
        let factor = self.table.factor(core.point);
        let mut owed_fs = 0;
        if let (Some(controller), Some(config)) = (&mut state.controller, &self.config.dvfs) {
            // The core may have come to the controller's point only in the middle of the subframe.
            controller.settle_at(config, &ran, ratio);
            if let Some((joined, waited_fs)) = &joined {
                controller.join(config, *waited_fs, joined);
            }
            let point = controller.decide(config);
            owed_fs = controller.owed_fs();
            if why != Ended::AtExit {
                self.want_point(moment.core, thread, point, moment.at_fs);
            }
        }
        if self.kept.len() < self.config.kept_subframes {
            let at_fs = moment.at_fs;
            self.kept.push(SubframeRecord { thread, at_fs, why, factor, lost_fs, owed_fs, instructions });
        }
    }

    /// Jitter that the heuristic sees in the lines of the application that the kernel has evicted from this core's second level
    /// since it was asked last.
    fn take_evictions(&mut self, moment: &Moment<'_>) -> u64 {
        let Some(evictions) = &self.config.evictions else { return 0 };
        let lines = moment.evicted_by_kernel;
        let core = &mut self.cores[moment.core];
        let new = lines - std::mem::replace(&mut core.evicted_lines, lines);
        self.evicted_lines += new;
        evictions.lost_fs(new)
    }

    /// A core is to go to another point, where no budget has a say in it: when its voltage is there it stands still for its PLL.
    pub(super) fn want_point(&mut self, core: usize, thread: u32, point: usize, at_fs: u64) {
        if self.boost.is_some() {
            return;
        }
        let state = &mut self.cores[core];
        let change = self.table.change(state.point, point);
        // A voltage that rises already goes on, also where the thread has waited meanwhile.
        if let Some((_, rising, for_thread)) = &mut state.rising
            && *rising == point
        {
            *for_thread = thread;
            return;
        }
        state.rising = None;
        if point == state.point {
            return;
        }
        if change.ramp_before_fs > 0 {
            state.rising = Some((at_fs + change.ramp_before_fs, point, thread));
        } else {
            self.go_to(core, thread, point, change.stall_fs);
        }
    }

    /// The core's frequency changes now, and the thread stands still meanwhile.
    pub(super) fn go_to(&mut self, core: usize, thread: u32, point: usize, stall_fs: u64) {
        let state = &mut self.cores[core];
        state.point = point;
        state.residency.changes += 1;
        self.ordered.ghz = Some(self.table.points[point].frequency_ghz);
        self.ordered.stall_fs += stall_fs;
        if let Some(thread) = self.threads.get_mut(thread as usize) {
            thread.stalled_fs += stall_fs;
        }
    }

    /// The voltage that a core waited for is there.
    pub(super) fn risen(&mut self, running: Option<u32>, moment: &Moment<'_>) {
        let state = &mut self.cores[moment.core];
        let Some((_, point, thread)) = state.rising.take_if(|(due_fs, ..)| *due_fs <= moment.at_fs) else {
            return;
        };
        let stall_fs = self.table.change(state.point, point).stall_fs;
        match running {
            Some(running) => self.account(running, moment),
            None => state.idles_until(moment.at_fs),
        }
        self.go_to(moment.core, thread, point, stall_fs);
    }

    /// A new thread's controller starts with what its parent owes.
    pub(super) fn controller_of(&self, parent: Option<u32>) -> Option<Controller> {
        let config = self.config.dvfs.as_ref()?;
        let parent = parent.and_then(|parent| self.threads.get(parent as usize)?.controller.as_ref());
        Some(parent.map_or_else(|| Controller::new(config), |parent| Controller::child_of(config, parent)))
    }
}
