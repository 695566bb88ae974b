//! Each core goes to the supply that the rule of the power budget wants.

use super::budget::{Boost, BoostRule};
use super::hooks::Cure;
use crate::hooks::{Moment, Orders};
use crate::inject::EpochSteps;
use std::cmp::Reverse;

impl Cure {
    /// How urgent a running thread is, the most urgent first; none where its rule would not have it run faster.
    fn urgency(&self, boost: &Boost, thread: u32) -> Option<(Reverse<u64>, u64)> {
        let state = self.threads.get(thread as usize)?;
        match boost.config.rule {
            BoostRule::Debt => {
                let controller = state.controller.as_ref().filter(|controller| controller.point() > 0)?;
                Some((Reverse(controller.owed_fs().max(0) as u64), 0))
            }
            BoostRule::Sync => {
                Some((Reverse(u64::from(state.locks > 0)), state.boosted_fs / boost.slice_fs.max(1)))
            }
            BoostRule::Stack => Some((Reverse(boost.critical(thread)?.round() as u64), 0)),
            BoostRule::Stalls => Some((Reverse(state.missed_fs), 0)),
        }
    }

    /// Cores that should be on the upper supply now.
    fn chosen(&self, boost: &Boost) -> Vec<usize> {
        let running = self.cores.iter().enumerate().filter_map(|(core, state)| Some((core, state.thread?)));
        let mut all: Vec<_> =
            running.filter_map(|(core, thread)| Some((self.urgency(boost, thread)?, thread, core))).collect();
        all.sort_unstable();
        all.into_iter().take(boost.config.cores as usize).map(|(.., core)| core).collect()
    }

    /// After an event: its core goes to the supply that the rule wants, and others that have to change are woken for it.
    pub(super) fn boost(&mut self, moment: &Moment<'_>, orders: &mut Orders<EpochSteps>) {
        let Some(mut boost) = self.boost.take() else { return };
        boost.pass(moment.at_fs, self.cores.iter().filter_map(|core| core.thread));
        let chosen = self.chosen(&boost);
        let (own, most) = (moment.core, boost.config.cores as usize);
        self.boost = Some(boost);
        let raised = |cure: &Self, core: usize| cure.cores[core].point > cure.table.rest;
        if raised(self, own) && !chosen.contains(&own) {
            self.shift(self.table.rest, moment);
        }
        let above = (0..self.cores.len()).filter(|core| raised(self, *core)).count();
        let mut free = most.saturating_sub(above);
        if free > 0 && !raised(self, own) && chosen.contains(&own) {
            self.shift(self.table.highest(), moment);
            free -= 1;
        }
        for core in (0..self.cores.len()).filter(|core| *core != own) {
            let changes = match (raised(self, core), chosen.contains(&core)) {
                (true, false) => true,
                (false, true) if free > 0 => {
                    free -= 1;
                    true
                }
                _ => false,
            };
            if changes && self.cores[core].alarm_fs > moment.at_fs {
                self.cores[core].alarm_fs = moment.at_fs;
                orders.alarms.push((core, moment.at_fs));
            }
        }
    }

    fn shift(&mut self, point: usize, moment: &Moment<'_>) {
        let thread = self.cores[moment.core].thread;
        match thread {
            Some(thread) => self.account(thread, moment),
            None => self.cores[moment.core].idles_until(moment.at_fs),
        }
        let stall_fs = self.table.change(self.cores[moment.core].point, point).stall_fs;
        self.go_to(moment.core, thread.unwrap_or_default(), point, stall_fs);
    }
}
