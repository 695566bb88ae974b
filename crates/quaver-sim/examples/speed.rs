//! How many instructions a second are simulated, over a made-up program: `cargo run --release --example speed`.

use quaver_sim::config::Config;
use quaver_sim::machine::Machine;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};
use quaver_trace::step::{Access, Step, Steps, Sync, Thread, TraceError};
use std::time::Instant;

/// Steps of a thread, made as they are asked for.
struct Made {
    id: u32,
    threads: u32,
    left: u64,
    random: u64,
    created: u32,
    octets: u64,
}

impl Steps for Made {
    fn step(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        accesses.clear();
        if self.id == 0 && self.created + 1 < self.threads {
            self.created += 1;
            return Ok(Step::Sync(Sync::Create { thread: Thread(self.created) }));
        }
        if self.left == 0 {
            return Ok(Step::End);
        }
        self.left -= 1;
        if self.left.is_multiple_of(20_000) {
            return Ok(Step::Sync(Sync::Barrier { object: 8, parties: self.threads }));
        }
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let word = self.random >> 16;
        let shared = word & 63 == 0;
        let base = if shared { 0x1000_0000 } else { 0x2000_0000 + u64::from(self.id) * 0x100_0000 };
        for instruction in [1, 4] {
            let address = base + (word >> (6 + instruction)) % self.octets;
            accesses.push(Access { address, instruction, octets: 8, write: instruction == 4 });
        }
        Ok(Step::Block { number: (word & 15) as u32 })
    }
}

fn dictionary() -> Dictionary {
    let plain = Instruction {
        octets: 4,
        class: Class::Integer,
        loads: false,
        stores: false,
        reads: Registers::of(1),
        writes: Registers::of(2),
    };
    let block = |number: u64| {
        let mut instructions = vec![plain; 6];
        instructions[1].loads = true;
        instructions[4].stores = true;
        instructions[5].class = Class::Branch;
        Block { pc: 0x40_0000 + number * 24, instructions }
    };
    Dictionary { blocks: (0..16).map(block).collect() }
}

fn main() {
    for octets in [8 << 10, 64 << 10, 1 << 20] {
        let thread =
            |id| Made { id, threads: 16, left: 1_000_000, random: u64::from(id), created: 0, octets };
        let steps = (0..16).map(thread).collect();
        let mut machine = Machine::new(&Config::default(), &dictionary(), steps);
        let start = Instant::now();
        machine.run(u64::MAX).expect("it ends");
        let (results, taken) = (machine.results(), start.elapsed());
        let instructions = results.instructions();
        println!(
            "{:5} KiB a thread: {:.1} million instructions a second, {:.2} cycles an instruction and core",
            octets >> 10,
            instructions as f64 / 1e6 / taken.as_secs_f64(),
            results.cycles() as f64 * 16.0 / instructions as f64
        );
    }
}
