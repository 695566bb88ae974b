//! Programs for tests, written down step by step.
#![allow(dead_code, reason = "each test file uses its part")]

use quaver_sim::config::Config;
use quaver_sim::machine::Machine;
use quaver_sim::statistics::Results;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};
use quaver_trace::step::{Access, Step, Steps, Sync, TraceError};

/// Steps of a thread, from a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    steps: Vec<(Step, Vec<Access>)>,
    next: usize,
}

impl Listed {
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn load(&mut self, address: u64) {
        self.steps.push((Step::Block { number: LOAD }, vec![access(address, 0, false)]));
    }

    pub(crate) fn store(&mut self, address: u64) {
        self.steps.push((Step::Block { number: STORE }, vec![access(address, 0, true)]));
    }

    pub(crate) fn work(&mut self, times: usize) {
        for _ in 0..times {
            self.steps.push((Step::Block { number: WORK }, Vec::new()));
        }
    }

    pub(crate) fn block(&mut self, number: u32, accesses: Vec<Access>) {
        self.steps.push((Step::Block { number }, accesses));
    }

    pub(crate) fn sync(&mut self, sync: Sync) {
        self.steps.push((Step::Sync(sync), Vec::new()));
    }
}

impl Steps for Listed {
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        let Some((step, its)) = self.steps.get(self.next) else { return Ok(Step::End) };
        self.next += 1;
        accesses.extend_from_slice(its);
        Ok(*step)
    }
}

/// One load whose address is the value of the load before: `mov rax, [rax]`.
pub(crate) const LOAD: u32 = 0;
/// One store.
pub(crate) const STORE: u32 = 1;
/// Eight instructions that need nothing, and a jump.
pub(crate) const WORK: u32 = 2;

/// All blocks lie in the first line of this page.
pub(crate) const CODE: u64 = 0x40_0000;

pub(crate) fn access(address: u64, instruction: u16, write: bool) -> Access {
    Access { address, instruction, octets: 8, write }
}

pub(crate) fn dictionary() -> Dictionary {
    let plain = Instruction {
        octets: 1,
        class: Class::Integer,
        loads: false,
        stores: false,
        reads: Registers::default(),
        writes: Registers::default(),
    };
    let load = Instruction { loads: true, reads: Registers::of(0), writes: Registers::of(0), ..plain };
    let store = Instruction { stores: true, reads: Registers::of(1), ..plain };
    let mut work = vec![plain; 8];
    work.push(Instruction { class: Class::Branch, ..plain });
    let block = |pc, instructions| Block { pc, instructions };
    Dictionary { blocks: vec![block(CODE, vec![load]), block(CODE + 4, vec![store]), block(CODE + 8, work)] }
}

pub(crate) fn machine(config: &Config, steps: Vec<Listed>) -> Machine<Listed> {
    Machine::new(config, &dictionary(), steps)
}

pub(crate) fn run(config: &Config, steps: Vec<Listed>) -> Results {
    let mut machine = machine(config, steps);
    assert!(machine.run(u64::MAX).unwrap());
    machine.results()
}
