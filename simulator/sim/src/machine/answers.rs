//! Questions, answered in the order of their time.

use super::Machine;
use crate::coherence::{Disturbance, Found, Purpose, bits};
use crate::core::{Asked, Question};
use crate::error::SimulationError;
use crate::hooks::{Event, Hooks};
use quaver_trace::step::{Step, Steps, Sync, Thread};

/// A core that had to go back may be so far ahead at least; twice as far each time after that, until it has to again.
const LEAST_LEAD_CYCLES: u64 = 4;

impl<S: Steps, H: Hooks> Machine<S, H> {
    pub(super) fn answer(&mut self, index: usize, question: Question) -> Result<(), SimulationError> {
        match question.what {
            Asked::Line { first_line, purpose, supervisor } => {
                self.disturb(index, self.chip.second_line(first_line), purpose);
                self.chip.cores[index].request(supervisor, question.at_fs);
                let source = self.load_source(index, purpose);
                self.answer_line(index, &question, first_line, purpose);
                if let Some(source) = source {
                    self.prefetch(index, self.chip.second_line(first_line), source);
                }
                Ok(())
            }
            Asked::Prefetch { second_line, source } => {
                self.prefetch(index, second_line, source);
                Ok(())
            }
            Asked::Special if self.places[index].kernel.is_some() => self.kernel_special(index),
            Asked::Special => {
                let Some(thread) = self.places[index].thread else { return Ok(()) };
                match self.feeds[thread].last() {
                    Some(Step::Sync(sync)) => self.answer_sync(index, thread, sync),
                    _ => self.answer_end(index, thread),
                }
            }
        }
    }

    /// Cores that are ahead, and depend on what the transaction does to their caches, go back.
    fn disturb(&mut self, index: usize, line: u64, purpose: Purpose) {
        let disturbance = self.chip.disturbance(index, line, purpose);
        let cores = match disturbance {
            Disturbance::None => return,
            Disturbance::Loses { cores, .. } => cores & !(1 << index),
            Disturbance::Shares { core, .. } => 1 << core,
        };
        for other in bits(cores) {
            if self.is_ahead(other, disturbance) {
                self.go_back(other);
            }
            self.cores[other].disturbed(self.now_fs, disturbance);
        }
    }

    /// Whether what a core did from now on depends on this not happening now.
    fn is_ahead(&self, index: usize, disturbance: Disturbance) -> bool {
        let (core, caches) = (&self.cores[index], &self.chip.cores[index]);
        match (&self.places[index].kernel, self.places[index].thread) {
            (Some(kernel), _) => {
                core.is_ahead_of(self.now_fs, disturbance, caches, &kernel.feed, &self.blocks)
            }
            (None, Some(thread)) => {
                core.is_ahead_of(self.now_fs, disturbance, caches, &self.feeds[thread], &self.blocks)
            }
            (None, None) => false,
        }
    }

    /// A core that is ahead goes back to now, and will run on after this event.
    pub(super) fn go_back(&mut self, index: usize) {
        let (core, caches) = (&mut self.cores[index], &mut self.chip.cores[index]);
        let place = &mut self.places[index];
        let stop_fs = place.stop_fs(self.quantum_fs);
        let in_vain_fs = core.now_fs().saturating_sub(self.now_fs);
        self.lead_fs[index] = (in_vain_fs / 4).max(LEAST_LEAD_CYCLES * self.cycle_fs);
        match (&mut place.kernel, place.thread) {
            (Some(kernel), _) => core.go_back(self.now_fs, stop_fs, caches, &mut kernel.feed, &self.blocks),
            (None, Some(thread)) => {
                core.go_back(self.now_fs, stop_fs, caches, &mut self.feeds[thread], &self.blocks);
            }
            (None, None) => {}
        }
        self.went_back += 1;
        self.going_on |= 1 << index;
    }

    /// The prefetch buffer's lines come back, each where it evicts no active line of the code that runs.
    pub(super) fn bring_back(&mut self, index: usize) {
        for line in self.chip.cores[index].take_buffer() {
            if self.chip.cores[index].may_come_back(line, self.now_fs) {
                self.disturb(index, line, Purpose::Load);
                self.chip.bring_back(index, line, self.now_fs);
            }
        }
    }

    /// The instruction that loads, where a load is answered.
    fn load_source(&self, index: usize, purpose: Purpose) -> Option<u64> {
        let core = &self.cores[index];
        match (purpose, &self.places[index].kernel, self.places[index].thread) {
            (Purpose::Load, Some(kernel), _) => core.load_source(&kernel.feed),
            (Purpose::Load, None, Some(thread)) => core.load_source(&self.feeds[thread]),
            _ => None,
        }
    }

    /// The core's prefetcher brings what may follow this line.
    fn prefetch(&mut self, index: usize, line: u64, source: u64) {
        for line in self.prefetchers[index].needed(line, source) {
            if self.chip.cores[index].state(line).is_none() {
                self.disturb(index, line, Purpose::Load);
                let at_fs = self.chip.bring_back(index, line, self.now_fs);
                self.cores[index].prefetched(line, at_fs);
            }
        }
    }

    fn answer_line(&mut self, index: usize, question: &Question, first_line: u64, purpose: Purpose) {
        let core = &mut self.cores[index];
        let (at_fs, late_fs) = (question.at_fs, question.late_fs);
        let (found, mut done_fs) = self.chip.transact_late(index, first_line, purpose, (at_fs, late_fs));
        if found == Found::Here {
            done_fs = core.arriving(first_line, done_fs).unwrap_or(done_fs);
        }
        let lost_fs = match (purpose, &self.places[index].kernel, self.places[index].thread) {
            (Purpose::Store, ..) => {
                core.store_answered(question, first_line, done_fs);
                0
            }
            (_, Some(kernel), _) => {
                core.line_answered(question, first_line, (found, done_fs), &kernel.feed, &self.blocks)
            }
            (_, None, Some(thread)) => {
                core.line_answered(question, first_line, (found, done_fs), &self.feeds[thread], &self.blocks)
            }
            (_, None, None) => 0,
        };
        let counts = core.counts_mut();
        match found {
            Found::Here => counts.asked_here += 1,
            Found::Upgrade => counts.upgrades += 1,
            Found::Remote => counts.from_remote += 1,
            Found::Memory => counts.from_memory += 1,
        }
        match (purpose, found) {
            (Purpose::Fetch, _) => counts.stalls.fetch_fs += lost_fs,
            (_, Found::Here) => counts.stalls.second_level_fs += lost_fs,
            (_, Found::Upgrade | Found::Remote) => counts.stalls.remote_fs += lost_fs,
            (_, Found::Memory) => counts.stalls.memory_fs += lost_fs,
        }
    }

    /// Whether all stores of the core are done; if not, its question comes again when they are.
    pub(super) fn stores_are_done(&mut self, index: usize) -> bool {
        let core = &mut self.cores[index];
        match core.stores_done_fs(self.now_fs) {
            Some(done_fs) if done_fs <= self.now_fs => true,
            done => {
                let at_fs = done.unwrap_or(self.now_fs + self.cycle_fs);
                core.questions.ask(Question { at_fs, late_fs: 0, what: Asked::Special });
                false
            }
        }
    }

    fn answer_sync(&mut self, index: usize, thread: usize, sync: Sync) -> Result<(), SimulationError> {
        // A step of synchronisation is seen by others after all stores before it.
        if !self.stores_are_done(index) {
            return Ok(());
        }
        let id = Thread(thread as u32);
        self.call(index, Event::Enters { thread: id, sync })?;
        let hooks = &mut self.hooks;
        let consequences =
            self.threads.step(id, sync, self.now_fs, &mut |woken| H::ACTIVE && hooks.wakes_late(woken))?;
        self.cores[index].sync_answered(self.now_fs);
        if consequences.goes_on {
            self.call(index, Event::Leaves { thread: id, sync, by: None })?;
        } else {
            self.places[index].entered = Some(sync);
            self.stop(index)?;
        }
        self.wake(id, &consequences.woken)
    }

    fn answer_end(&mut self, index: usize, thread: usize) -> Result<(), SimulationError> {
        let id = Thread(thread as u32);
        self.cores[index].sync_answered(self.now_fs);
        self.record.ended(id, self.now_fs);
        let woken = self.threads.end(id, self.now_fs);
        self.stop(index)?;
        self.call(index, Event::Ended { thread: id })?;
        self.wake(id, &woken)
    }
}
