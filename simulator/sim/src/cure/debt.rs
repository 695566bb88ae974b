//! Debt on the critical path: where threads meet, what one owes passes to those that waited for it.
//!
//! Neither's subframe ends there. What each has lost and won in it so far counts, and what is passed on is added to what the
//! controller knows from earlier subframes.

use super::hooks::Cure;
use super::threads::unit_id;
use quaver_dvfs::dvfs::{Arrival, CriticalPath};

impl Cure {
    /// What a thread owes in the middle of its subframe, femtoseconds; none without a controller.
    fn owed_now_fs(&self, thread: u32) -> Option<i64> {
        let state = self.threads.get(thread as usize)?;
        let lost_ns = self.units.lost_ns(unit_id(thread)) - state.lost_ns;
        let lost_fs = (lost_ns * 1_000_000 + state.evicted_fs + state.stalled_fs) as i64;
        Some(state.controller.as_ref()?.owed_fs() + lost_fs - state.sped_fs)
    }

    fn take_over(&mut self, thread: u32, change_fs: i64) {
        let state = self.threads.get_mut(thread as usize);
        if let Some(controller) = state.and_then(|state| state.controller.as_mut()) {
            controller.take_over(change_fs);
        }
    }

    /// The thread that has just entered a call wakes this one: by a lock, a signal or a broadcast.
    pub(super) fn passes_debt(&mut self, woken: u32) {
        let Some(rule) = self.config.dvfs.as_ref().map(|dvfs| dvfs.critical_path) else { return };
        let (Some(owed_fs), Some(waker_fs)) = (self.owed_now_fs(woken), self.owed_now_fs(self.wakes)) else {
            return;
        };
        let since_fs = self.threads[woken as usize].waits_since_fs;
        let own = Arrival { owed_fs, waited_fs: self.wakes_at_fs.saturating_sub(since_fs) };
        self.take_over(woken, rule.woken(own, waker_fs) - owed_fs);
    }

    /// The last has come to the barrier at which `meeting` waited, if that is what happened at `at_fs`.
    pub(super) fn all_met(&mut self, at_fs: u64) {
        if self.meeting.is_empty() {
            return;
        }
        let (mut all, last) = (std::mem::take(&mut self.meeting), self.wakes);
        all.push(last);
        for thread in &all {
            let state = self.threads.get_mut(*thread as usize);
            state.into_iter().for_each(|state| state.missed_fs = 0);
        }
        let Some(rule) = self.config.dvfs.as_ref().map(|dvfs| dvfs.critical_path) else { return };
        let arrivals: Vec<(u32, Arrival)> = all
            .into_iter()
            .filter_map(|thread| {
                let since_fs = self.threads.get(thread as usize)?.waits_since_fs;
                let waited_fs = if thread == last { 0 } else { at_fs.saturating_sub(since_fs) };
                Some((thread, Arrival { owed_fs: self.owed_now_fs(thread)?, waited_fs }))
            })
            .collect();
        let most_fs = arrivals.iter().map(|(_, own)| own.owed_fs).fold(i64::MIN, i64::max);
        let least_fs = arrivals.iter().map(|(_, own)| own.most_fs()).fold(i64::MAX, i64::min);
        for (thread, own) in arrivals {
            let owes_fs = rule.met(own.owed_fs, most_fs, least_fs);
            self.take_over(thread, owes_fs - own.owed_fs);
            if rule == CriticalPath::Max {
                self.threads[thread as usize].beyond_slack_fs += (owes_fs - least_fs).max(0) as u64;
            }
        }
    }
}
