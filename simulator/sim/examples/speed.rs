//! How many instructions a second are simulated: `cargo run --release -p quaver-sim --example speed [TRACE…]`,
//! such as `simulator/sim/traces/*`.
//!
//! Without traces, over programs of 16 threads made up in the manner of parallel kernels: written as traces, then read and
//! simulated; reading counts. Printed for each: the median of so many runs as `RUNS` says (5), and the fastest, by the time
//! that the process had a CPU; the clock on the wall says the same where nobody else runs.

use quaver_sim::config::Config;
use quaver_sim::machine::Machine;
use quaver_sim::statistics::{CoreCounts, Results};
use quaver_trace::armour;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};
use quaver_trace::file::{Facts, TraceReader, TraceWriter};
use quaver_trace::step::{Access, Sync, Thread};

const THREADS: u32 = 16;
const BARRIER: u64 = 0x7000_0000;

/// A loop: the blocks of its body, how often it turns before the next, and where each of its accesses goes.
struct Kernel {
    name: &'static str,
    turns: u64,
    /// Bytes of each thread's own data, and of what all share.
    own: u64,
    shared: u64,
    /// Of 1000 accesses, those to shared data; those to a random place of theirs.
    shared_per_mille: u64,
    random_per_mille: u64,
    stride: u64,
    locks_every: u64,
}

const KERNELS: [Kernel; 5] = [
    Kernel {
        name: "blocked",
        turns: 40_000,
        own: 24 << 10,
        shared: 64 << 10,
        shared_per_mille: 100,
        random_per_mille: 0,
        stride: 8,
        locks_every: 0,
    },
    Kernel {
        name: "stencil",
        turns: 40_000,
        own: 192 << 10,
        shared: 64 << 10,
        shared_per_mille: 5,
        random_per_mille: 0,
        stride: 8,
        locks_every: 0,
    },
    Kernel {
        name: "bodies",
        turns: 40_000,
        own: 16 << 10,
        shared: 512 << 10,
        shared_per_mille: 30,
        random_per_mille: 100,
        stride: 8,
        locks_every: 500,
    },
    Kernel {
        name: "tree",
        turns: 40_000,
        own: 64 << 10,
        shared: 128 << 10,
        shared_per_mille: 10,
        random_per_mille: 50,
        stride: 16,
        locks_every: 2000,
    },
    Kernel {
        name: "stream",
        turns: 40_000,
        own: 4 << 20,
        shared: 64 << 10,
        shared_per_mille: 1,
        random_per_mille: 0,
        stride: 8,
        locks_every: 0,
    },
];

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 20
}

/// Bodies of four blocks of 4 to 9 instructions, and a fifth that ends the loop.
fn dictionary() -> Dictionary {
    let mut state = 9;
    let mut pc = 0x40_0000;
    let blocks = (0..40_u64).map(|number| {
        let count = 4 + number * 7 % 6;
        let instructions: Vec<Instruction> = (0..count)
            .map(|at| {
                let word = random(&mut state);
                let loads = at % 3 == 1;
                let stores = at % 6 == 3;
                let float = word & 7 == 0;
                let class = if at + 1 == count {
                    Class::Branch
                } else if float {
                    Class::FloatMultiply
                } else {
                    Class::Integer
                };
                let writes = if stores || class == Class::Branch {
                    Registers::default()
                } else {
                    Registers::of((word >> 8 & 15) as u8)
                };
                Instruction {
                    octets: 4,
                    class,
                    loads: loads && class != Class::Branch,
                    stores: stores && class != Class::Branch,
                    reads: Registers::of((word >> 16 & 15) as u8),
                    writes,
                }
            })
            .collect();
        let block = Block { pc, instructions };
        pc += block.octets() + 16;
        block
    });
    Dictionary { blocks: blocks.collect() }
}

fn trace(kernel: &Kernel) -> Vec<u8> {
    let dictionary = dictionary();
    let mut writer = TraceWriter::new(Vec::new(), &Facts::default()).expect("memory can be written");
    for block in &dictionary.blocks {
        writer.define(block.clone());
    }
    (1..THREADS).for_each(|child| writer.sync(0, Sync::Create { thread: Thread(child) }));
    for thread in 0..THREADS {
        thread_steps(kernel, thread, &dictionary, &mut writer);
        if thread == 0 {
            (1..THREADS).for_each(|child| writer.sync(0, Sync::Join { thread: Thread(child) }));
        }
        writer.end(thread);
    }
    writer.finish().expect("memory can be written")
}

fn thread_steps(kernel: &Kernel, thread: u32, dictionary: &Dictionary, writer: &mut TraceWriter<Vec<u8>>) {
    let mut state = u64::from(thread) + 77;
    let own = 0x1_0000_0000 + u64::from(thread) * 0x1000_0000;
    let mut streams = [0_u64; 64];
    let mut accesses = Vec::new();
    for turn in 0..kernel.turns {
        if turn % (kernel.turns / 4) == 0 {
            writer.sync(thread, Sync::Barrier { object: BARRIER, parties: THREADS });
        }
        let lock = 0x6000_0000 + random(&mut state) % 16 * 64;
        let locks = kernel.locks_every > 0 && turn % kernel.locks_every == 0;
        if locks {
            writer.sync(thread, Sync::Lock { object: lock });
        }
        let body = turn / 64 % 8 * 5;
        let blocks = 4 + u64::from(turn % 64 == 63);
        for number in body..body + blocks {
            accesses.clear();
            for (at, instruction) in dictionary.blocks[number as usize].instructions.iter().enumerate() {
                if !instruction.loads && !instruction.stores {
                    continue;
                }
                let word = random(&mut state);
                let shared = word % 1000 < kernel.shared_per_mille;
                let (base, octets) = if shared { (0x5000_0000, kernel.shared) } else { (own, kernel.own) };
                let stream = &mut streams[(number % 5 * 10 + at as u64) as usize];
                *stream += kernel.stride;
                let wild = (word >> 12) % 1000 < kernel.random_per_mille;
                let place = if wild { (word >> 24) * 8 } else { *stream + (number % 5) * 4096 };
                // Of what all share, little is written.
                let write = instruction.stores && (!shared || word >> 16 & 7 == 0);
                let address = base + place % octets;
                accesses.push(Access { address, instruction: at as u16, octets: 8, write });
            }
            writer.block(thread, number as u32, &accesses).expect("memory can be written");
        }
        if locks {
            writer.sync(thread, Sync::Unlock { object: lock });
        }
    }
}

fn main() {
    let runs: usize = std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(5);
    let files: Vec<String> = std::env::args().skip(1).collect();
    for kernel in
        KERNELS.iter().filter(|kernel| files.is_empty() || files.iter().any(|name| name == kernel.name))
    {
        measure(kernel.name, trace(kernel), runs);
    }
    for file in files.iter().filter(|name| KERNELS.iter().all(|kernel| kernel.name != **name)) {
        let octets = std::fs::read(file).expect("the trace can be read");
        let octets =
            if file.ends_with(".txt") { armour::decode(&octets).expect("a trace as text") } else { octets };
        measure(file.rsplit('/').next().unwrap_or(file), octets, runs);
    }
}

/// Seconds that this thread had a CPU.
fn cpu_s() -> f64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says how long a thread ran");
    let ns = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    ns.expect("its first number is in nanoseconds") / 1e9
}

fn measure(name: &str, trace: Vec<u8>, runs: usize) {
    let octets = trace.len();
    let trace = TraceReader::open(trace).expect("it is a trace");
    let mut rates = Vec::new();
    let mut last: Option<(Results, u64)> = None;
    for _ in 0..runs {
        let steps = trace.threads().map(|thread| trace.steps(thread)).collect();
        let start_s = cpu_s();
        let mut machine = Machine::new(&Config::default(), &trace.dictionary, steps);
        machine.run(u64::MAX).expect("it ends");
        let results = machine.results();
        rates.push(results.instructions() as f64 / 1e6 / (cpu_s() - start_s));
        last = Some((results, machine.went_back()));
    }
    rates.sort_by(f64::total_cmp);
    let Some((results, went_back)) = last else { return };
    let instructions = results.instructions() as f64;
    let per_mille = |level: usize| results.levels[level].missed as f64 * 1000.0 / instructions;
    let sum =
        |of: fn(&CoreCounts) -> u64| results.cores.iter().map(of).sum::<u64>() as f64 * 1000.0 / instructions;
    let busy: u64 = results.cores.iter().map(|core| core.busy_fs).sum();
    println!(
        "{name:26} {:6.1} million instructions a second, median of {runs} (fastest {:.1}); {:.1} million instructions, \
         {:.2} cycles each; for each 1000: misses of instructions {:.1}, of data {:.1}, from others {:.1}, upgrades {:.1}, \
         from memory {:.1}, recalls {:.1}, went back {:.3}; {:.1} kB per million",
        rates[rates.len() / 2],
        rates[rates.len() - 1],
        instructions / 1e6,
        busy as f64 / results.cycle_fs as f64 / instructions,
        per_mille(0),
        per_mille(1),
        sum(|core| core.from_remote),
        sum(|core| core.upgrades),
        sum(|core| core.from_memory),
        results.coherence.recalls as f64 * 1000.0 / instructions,
        went_back as f64 * 1000.0 / instructions,
        octets as f64 / 1e3 / (instructions / 1e6),
    );
}
