//! The other parts of a thread's jitter state: jitter-reg, finsts and the thread list (4.1.1, C.2.2).

use serde::Serialize;
use std::collections::BTreeMap;

/// What the thread list knows of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    /// Program counter before it was swapped out; none while it runs.
    pc: Option<u64>,
    /// Core that holds its jitter state.
    core: usize,
    /// Instructions of its subframe.
    finsts: u64,
}

/// Registers of all cores. The thread list is broadcast to all of them, so that one is kept here.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    /// By core: the time sensitive thread that runs there in user mode.
    sensitive: Vec<Option<u32>>,
    list: BTreeMap<u32, Listed>,
    report: RegistersReport,
}

/// What happened to jitter states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegistersReport {
    /// States created with their thread.
    pub created: u64,
    /// States that moved after their thread to another core.
    pub migrated: u64,
    /// States cleaned with their thread.
    pub cleaned: u64,
    /// Times that a thread was swapped out, each a broadcast of its (PC, thread).
    pub swapped_out: u64,
    /// Kernel exits at a PC that more than one thread had been swapped out at: the PC alone, which the paper's unit
    /// matches, would not have told which.
    pub ambiguous_pcs: u64,
}

impl Registers {
    /// For so many cores.
    pub fn new(cores: usize) -> Self {
        Self { sensitive: vec![None; cores], ..Self::default() }
    }

    /// A thread was created on this core: its state begins there.
    pub fn create(&mut self, core: usize, thread: u32) {
        self.list.insert(thread, Listed { pc: None, core, finsts: 0 });
        self.report.created += 1;
    }

    /// The core goes into the kernel, or executes `pause` or `halt`.
    pub fn unset(&mut self, core: usize) {
        self.sensitive[core] = None;
    }

    /// A thread is swapped out at this program counter.
    pub fn swap_out(&mut self, core: usize, thread: u32, pc: u64) {
        self.unset(core);
        if let Some(listed) = self.list.get_mut(&thread) {
            listed.pc = Some(pc);
            self.report.swapped_out += 1;
        }
    }

    /// k_x: the core goes on at this program counter, as the thread that the kernel has put into its register. Whether its
    /// state had to come from another core; none where the thread is not time sensitive.
    pub fn kernel_exit(&mut self, core: usize, thread: u32, pc: u64) -> Option<bool> {
        let same = self.list.values().filter(|listed| listed.pc == Some(pc)).count();
        let listed = self.list.get_mut(&thread)?;
        if listed.pc.is_some_and(|own| own != pc) {
            return None;
        }
        self.report.ambiguous_pcs += u64::from(same > 1 && listed.pc.is_some());
        let moved = listed.core != core;
        (listed.core, listed.pc) = (core, None);
        self.report.migrated += u64::from(moved);
        self.sensitive[core] = Some(thread);
        Some(moved)
    }

    /// The thread ran so many instructions more in its subframe.
    pub fn count(&mut self, thread: u32, instructions: u64) {
        if let Some(listed) = self.list.get_mut(&thread) {
            listed.finsts += instructions;
        }
    }

    /// finsts, which begins again with a new subframe.
    pub fn take_finsts(&mut self, thread: u32) -> u64 {
        self.list.get_mut(&thread).map_or(0, |listed| std::mem::take(&mut listed.finsts))
    }

    /// The thread has ended: its state is cleaned.
    pub fn clean(&mut self, thread: u32) {
        if let Some(listed) = self.list.remove(&thread) {
            self.report.cleaned += 1;
            if self.sensitive[listed.core] == Some(thread) {
                self.sensitive[listed.core] = None;
            }
        }
    }

    /// Who runs on the core in user mode, as far as it is time sensitive.
    pub fn running(&self, core: usize) -> Option<u32> {
        self.sensitive[core]
    }

    /// Threads that have a state.
    pub fn states(&self) -> usize {
        self.list.len()
    }

    /// What happened.
    pub fn report(&self) -> RegistersReport {
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_lives_and_moves_with_its_thread() {
        let mut registers = Registers::new(3);
        registers.create(0, 7);
        assert_eq!(registers.kernel_exit(0, 7, 0x40), Some(false));
        assert_eq!(registers.running(0), Some(7));
        registers.count(7, 100);
        registers.swap_out(0, 7, 0x44);
        assert_eq!(registers.running(0), None, "unset by the kernel's entry");
        assert_eq!(registers.kernel_exit(2, 7, 0x48), None, "another place: not this thread");
        assert_eq!(registers.kernel_exit(2, 7, 0x44), Some(true));
        assert_eq!(
            (registers.running(2), registers.take_finsts(7), registers.take_finsts(7)),
            (Some(7), 100, 0)
        );
        assert_eq!(registers.kernel_exit(1, 9, 0x44), None, "a thread that nobody registered");
        registers.unset(2);
        assert_eq!(registers.running(2), None, "pause and halt unset it too");
        registers.clean(7);
        let report = registers.report();
        assert_eq!((report.created, report.migrated, report.cleaned, report.swapped_out), (1, 1, 1, 1));
        assert_eq!(registers.states(), 0);
    }

    #[test]
    fn a_pc_that_two_threads_share_is_told() {
        let mut registers = Registers::new(2);
        for thread in [1, 2] {
            registers.create(0, thread);
            registers.swap_out(0, thread, 0x99);
        }
        assert_eq!(registers.kernel_exit(1, 2, 0x99), Some(true));
        assert_eq!(registers.kernel_exit(0, 1, 0x99), Some(false));
        assert_eq!(registers.report().ambiguous_pcs, 1);
    }
}
