//! The thread list: where the jitter state of each thread is (4.1.1, C.2.2).

use serde::Serialize;
use std::collections::BTreeMap;

/// What the thread list knows of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    /// Program counter before it was swapped out; none while it runs.
    pc: Option<u64>,
    /// Core that holds its jitter state.
    core: usize,
}

/// The thread list is broadcast to all cores, so that one is kept here.
#[derive(Clone, Debug, Default)]
pub struct Registers {
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
    /// A thread was created on this core: its state begins there.
    pub fn create(&mut self, core: usize, thread: u32) {
        self.list.insert(thread, Listed { pc: None, core });
        self.report.created += 1;
    }

    /// A thread is swapped out at this program counter.
    pub fn swap_out(&mut self, thread: u32, pc: u64) {
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
        Some(moved)
    }

    /// The thread has ended: its state is cleaned.
    pub fn clean(&mut self, thread: u32) {
        self.report.cleaned += u64::from(self.list.remove(&thread).is_some());
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
        let mut registers = Registers::default();
        registers.create(0, 7);
        assert_eq!(registers.kernel_exit(0, 7, 0x40), Some(false));
        registers.swap_out(7, 0x44);
        assert_eq!(registers.kernel_exit(2, 7, 0x48), None, "another place: not this thread");
        assert_eq!(registers.kernel_exit(2, 7, 0x44), Some(true));
        assert_eq!(registers.kernel_exit(1, 9, 0x44), None, "a thread that nobody registered");
        registers.clean(7);
        let report = registers.report();
        assert_eq!((report.created, report.migrated, report.cleaned, report.swapped_out), (1, 1, 1, 1));
        assert!(registers.list.is_empty());
    }

    #[test]
    fn a_pc_that_two_threads_share_is_told() {
        let mut registers = Registers::default();
        for thread in [1, 2] {
            registers.create(0, thread);
            registers.swap_out(thread, 0x99);
        }
        assert_eq!(registers.kernel_exit(1, 2, 0x99), Some(true));
        assert_eq!(registers.kernel_exit(0, 1, 0x99), Some(false));
        assert_eq!(registers.report().ambiguous_pcs, 1);
    }
}
