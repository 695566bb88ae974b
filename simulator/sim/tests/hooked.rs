//! What hooks order, the engine does, and at its time: other frequencies, alarms, kernel activity. However far cores run ahead,
//! hooks see the same events at the same times, and time adds up.

mod listed;

use listed::{CODE, LOAD, Listed, STORE, WORK, access, dictionary};
use quaver_sim::config::Config;
use quaver_sim::error::SimulationError;
use quaver_sim::hooks::{Event, FrequencyChange, Hooks, Moment, Orders, Woken, WokenFrom};
use quaver_sim::machine::Machine;
use quaver_sim::statistics::Results;
use quaver_trace::block::{Block, Dictionary};
use quaver_trace::step::{Sync, Thread};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

const KERNEL: u64 = 1 << 63;
const KERNEL_LOAD: u32 = 3;
const KERNEL_STORE: u32 = 4;
const US_FS: u64 = 1_000_000_000;

/// The blocks of programs, and the same three in the kernel.
fn blocks() -> Dictionary {
    let mut blocks = dictionary();
    let kernel: Vec<Block> =
        blocks.blocks.iter().map(|block| Block { pc: block.pc | KERNEL, ..block.clone() }).collect();
    blocks.blocks.extend(kernel);
    blocks
}

/// Loads and stores of memory that programs use too, by the kernel.
fn activity(random: &mut Pcg64Mcg) -> Listed {
    let mut steps = Listed::default();
    for _ in 0..random.next_u64() % 12 + 1 {
        let word = random.next_u64();
        let address = 0x1000_0000 + (word >> 8 & 0x3f) * 32;
        if word & 1 == 0 {
            steps.block(KERNEL_LOAD, vec![access(address, 0, false)]);
        } else {
            steps.block(KERNEL_STORE, vec![access(address, 0, true)]);
        }
    }
    steps
}

/// Does what it likes at random events; what it likes depends on the events alone.
#[derive(Clone)]
struct Meddler {
    random: Pcg64Mcg,
    cores: usize,
    seen: Vec<(u64, usize, Event)>,
    /// Asked for and not called yet, by core.
    alarms: Vec<u64>,
    /// Ordered and not begun, and begun and not ended.
    ordered: u64,
    running: u64,
    ran: u64,
    changes: u64,
    stalled_fs: u64,
    /// Woken late: all, and of these the ones that stopped again since another thread had what they wanted.
    late: [u64; 2],
    /// Who is held up, and who has the lock.
    held_up: Vec<Thread>,
    holder: Option<Thread>,
}

impl Meddler {
    fn new(cores: usize, seed: u64) -> Self {
        Self {
            random: Pcg64Mcg::seed_from_u64(seed),
            cores,
            seen: Vec::new(),
            alarms: (0..cores as u64).map(|core| (core + 1) * US_FS).collect(),
            ordered: 0,
            running: 0,
            ran: 0,
            changes: 0,
            stalled_fs: 0,
            late: [0; 2],
            held_up: Vec::new(),
            holder: None,
        }
    }

    /// One thread has the lock at a time, and none that is held up.
    fn watch_lock(&mut self, event: Event) {
        match event {
            Event::Leaves { thread, sync, .. } => {
                if let Sync::Lock { .. } = sync {
                    assert_eq!(self.holder.replace(thread), None, "{event:?}");
                }
                self.held_up.retain(|other| *other != thread);
            }
            Event::Enters { thread, sync: Sync::Unlock { .. } } => {
                assert_eq!(self.holder.take(), Some(thread), "{event:?}");
            }
            Event::WakesLate { thread } => self.held_up.push(thread),
            Event::Stops { thread } if self.held_up.contains(&thread) => {
                self.held_up.retain(|other| *other != thread);
                self.late[1] += 1;
            }
            _ => {}
        }
    }

    fn order(&mut self, moment: &Moment<'_>, orders: &mut Orders<Listed>) {
        let word = self.random.next_u64();
        if word & 3 == 0 {
            let ghz = [1.5, 2.4, 3.0, 3.6][(word >> 8 & 3) as usize];
            // Now and then of another core than that of the event.
            let core = if word >> 10 & 3 == 0 { (word >> 12) as usize % self.cores } else { moment.core };
            let stall_fs = (word >> 20) % (US_FS / 10);
            orders.frequencies.push(FrequencyChange { core, ghz, stall_fs });
            self.changes += 1;
            self.stalled_fs += stall_fs;
        }
        if word >> 2 & 3 == 0 {
            orders.kernel.push(activity(&mut self.random));
            self.ordered += 1;
        }
        if word >> 4 & 7 == 0 {
            let core = (word >> 40) as usize % self.cores;
            let at_fs = moment.at_fs + (word >> 44) % US_FS;
            orders.alarms.push((core, at_fs));
            self.alarms[core] = at_fs;
        }
    }
}

impl Hooks for Meddler {
    type Kernel = Listed;

    fn first_alarm_fs(&self, core: usize) -> u64 {
        self.alarms[core]
    }

    fn passes_fs(kernel: &Listed) -> u64 {
        kernel.len() as u64 % 4 * US_FS / 20
    }

    fn wakes_late(&mut self, woken: Woken<'_>) -> bool {
        let late = self.random.next_u64() & 3 == 0;
        self.late[0] += u64::from(late && woken.from == WokenFrom::Lock);
        late
    }

    fn event(
        &mut self,
        moment: &Moment<'_>,
        event: Event,
        orders: &mut Orders<Listed>,
    ) -> Result<(), SimulationError> {
        self.watch_lock(event);
        if let Some((before_fs, ..)) = self.seen.last() {
            assert!(*before_fs <= moment.at_fs, "calls come in the order of time: {event:?}");
        }
        self.seen.push((moment.at_fs, moment.core, event));
        match event {
            Event::Alarm { .. } => {
                assert!(self.alarms[moment.core] <= moment.at_fs, "no alarm comes early, or twice");
                self.alarms[moment.core] = moment.at_fs + 3 * US_FS;
                orders.alarms.push((moment.core, self.alarms[moment.core]));
            }
            Event::KernelEnters { .. } => {
                self.ordered -= 1;
                self.running += 1;
            }
            Event::KernelLeaves { .. } => {
                self.running -= 1;
                self.ran += 1;
            }
            _ => self.order(moment, orders),
        }
        Ok(())
    }
}

/// Threads that share lines, take turns at a lock, and meet.
fn program(threads: u32, seed: u64) -> Vec<Listed> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut program: Vec<Listed> = vec![Listed::default(); threads as usize];
    (1..threads).for_each(|child| program[0].sync(Sync::Create { thread: Thread(child) }));
    for _ in 0..4 {
        for (id, thread) in program.iter_mut().enumerate() {
            for _ in 0..150 {
                let word = random.next_u64();
                let own = 0x2000_0000 + (id as u64) * 0x10_0000 + (word >> 20 & 0x3ff) * 32;
                let address = if word & 3 == 0 { 0x1000_0000 + (word >> 8 & 0x3f) * 32 } else { own };
                if word >> 2 & 1 == 0 {
                    thread.load(address);
                } else {
                    thread.store(address);
                }
                thread.work((word >> 3 & 3) as usize);
                if word >> 40 & 15 == 0 {
                    thread.sync(Sync::Lock { object: 8 });
                    thread.store(0x3000_0000);
                    thread.sync(Sync::Unlock { object: 8 });
                }
            }
            thread.sync(Sync::Barrier { object: 16, parties: threads });
        }
    }
    (1..threads).for_each(|child| program[0].sync(Sync::Join { thread: Thread(child) }));
    program
}

fn meddled(text: &str, threads: u32, seed: u64, window_fs: u64) -> (Results, Meddler) {
    let config = Config::from_toml(text).unwrap();
    let hooks = Meddler::new(config.chip.cores, seed ^ 0x5eed);
    let mut machine =
        Machine::with_hooks(&config, &blocks(), program(threads, seed), hooks).with_window_fs(window_fs);
    assert!(machine.run(u64::MAX).unwrap());
    let results = machine.results();
    (results, machine.hooks().clone())
}

/// The same events in the same order; if not, where they part.
fn same(found: &[(u64, usize, Event)], expected: &[(u64, usize, Event)], what: &str) {
    if let Some(at) = found.iter().zip(expected).position(|(one, other)| one != other) {
        let near = at.saturating_sub(6)..at + 2;
        panic!("{what}: event {at}: {:#?} instead of {:#?}", &found[near.clone()], &expected[near]);
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

#[test]
fn hooks_see_and_do_the_same_however_far_cores_run_ahead() {
    for (text, threads) in [
        ("", 16),
        ("chip.cores = 4\nchip.quantum_us = 1\nmemory.latency = '100ns'", 9),
        ("chip.cores = 6\nl1.kib = 1\nl2.kib = 8\ndirectory.entries = 64\nmemory.latency = 'ddr3'", 6),
    ] {
        for seed in 0..3 {
            let (whole, meddler) = meddled(text, threads, seed, u64::MAX);
            for (core, stack) in whole.stacks.iter().enumerate() {
                // Activity may go on after the last thread's end, on cores that have none.
                assert!(stack.total_fs() >= whole.duration_fs, "core {core}, {text:?}: {stack:?}");
            }
            assert!(meddler.late[0] > 20 && meddler.late[1] > 5, "{:?}", meddler.late);
            assert!(meddler.changes > 50 && meddler.ran > 50, "{} {}", meddler.changes, meddler.ran);
            let kernel: u64 = whole.kernel.iter().map(|core| core.blocks).sum();
            assert!(kernel >= meddler.ran, "each activity ran its blocks");
            for window_fs in [1, 333_334, 20_000_000] {
                let (cut, other) = meddled(text, threads, seed, window_fs);
                same(
                    &other.seen,
                    &meddler.seen,
                    &format!("windows of {window_fs} fs, seed {seed}, {text:?}"),
                );
                assert_eq!(cut, whole, "windows of {window_fs} fs, seed {seed}, {text:?}");
            }
        }
    }
}

/// Orders one thing when the thread comes out of its first call, and keeps when events were.
#[derive(Clone)]
struct Once {
    ghz: Option<f64>,
    kernel: Option<Listed>,
    alarm_fs: u64,
    seen: Vec<(u64, &'static str)>,
}

impl Hooks for Once {
    type Kernel = Listed;

    fn event(
        &mut self,
        moment: &Moment<'_>,
        event: Event,
        orders: &mut Orders<Listed>,
    ) -> Result<(), SimulationError> {
        match event {
            Event::Leaves { .. } if self.seen.is_empty() => {
                self.seen.push((moment.at_fs, "leaves"));
                if let Some(ghz) = self.ghz {
                    orders.frequencies.push(FrequencyChange { core: 0, ghz, stall_fs: 7 * US_FS });
                }
                orders.kernel.extend(self.kernel.take());
                if self.alarm_fs > 0 {
                    orders.alarms.push((0, moment.at_fs + self.alarm_fs));
                }
            }
            Event::Alarm { .. } => self.seen.push((moment.at_fs, "alarm")),
            Event::KernelEnters { .. } => self.seen.push((moment.at_fs, "enters the kernel")),
            Event::KernelLeaves { .. } => self.seen.push((moment.at_fs, "leaves the kernel")),
            Event::Ended { .. } => self.seen.push((moment.at_fs, "ends")),
            _ => {}
        }
        Ok(())
    }
}

/// A thread that has run its code once, takes a lock, and works for so long.
fn alone(hooks: Once, blocks_of_work: usize) -> (Results, Once) {
    let mut thread = Listed::default();
    thread.work(20);
    thread.sync(Sync::Lock { object: 8 });
    thread.work(blocks_of_work);
    let config = Config::from_toml("chip.cores = 1").unwrap();
    let mut machine = Machine::with_hooks(&config, &blocks(), vec![thread], hooks);
    assert!(machine.run(u64::MAX).unwrap());
    let results = machine.results();
    (results, machine.hooks().clone())
}

fn nothing() -> Once {
    Once { ghz: None, kernel: None, alarm_fs: 0, seen: Vec::new() }
}

#[test]
fn half_the_frequency_takes_twice_the_time_after_standing_still() {
    let (plain, _) = alone(nothing(), 10_000);
    let (slow, _) = alone(Once { ghz: Some(1.5), ..nothing() }, 10_000);
    // Nine slots a block, all of which hit and are predicted but for the first few.
    let more_fs = slow.duration_fs - plain.duration_fs;
    let slot_fs = plain.cycle_fs / 2;
    let expected_fs = 10_000 * 9 * slot_fs + 7 * US_FS;
    assert!(more_fs.abs_diff(expected_fs) < 30 * 333_333, "{more_fs} instead of {expected_fs}");
    assert_eq!(slow.stacks[0].stalls.frequency_fs, 7 * US_FS);
    assert_eq!(slow.stacks[0].total_fs(), slow.duration_fs);
}

#[test]
fn an_alarm_comes_at_the_first_step_after_its_time() {
    let (_, hooks) = alone(Once { alarm_fs: 5 * US_FS, ..nothing() }, 10_000);
    let [(leaves_fs, "leaves"), (alarm_fs, "alarm"), (ends_fs, "ends")] = hooks.seen[..] else {
        panic!("{:?}", hooks.seen)
    };
    let late_fs = alarm_fs - leaves_fs - 5 * US_FS;
    // A block of nine half cycles of a third of a nanosecond.
    assert!(late_fs <= 9 * 166_667, "{late_fs}");
    assert!(ends_fs > alarm_fs);
}

#[test]
fn kernel_activity_runs_before_the_next_step_and_holds_the_thread_up_for_as_long_as_it_takes() {
    let mut kernel = Listed::default();
    for line in 0..5_u64 {
        kernel.block(KERNEL_LOAD, vec![access(0x5000_0000 + line * 4096, 0, false)]);
    }
    let (plain, _) = alone(nothing(), 100);
    let (held, hooks) = alone(Once { kernel: Some(kernel), ..nothing() }, 100);
    let [
        (leaves_fs, "leaves"),
        (enters_fs, "enters the kernel"),
        (done_fs, "leaves the kernel"),
        (ends_fs, "ends"),
    ] = hooks.seen[..]
    else {
        panic!("{:?}", hooks.seen)
    };
    assert_eq!(leaves_fs, enters_fs, "nothing comes in between");
    assert_eq!(held.stacks[0].kernel_fs, done_fs - enters_fs);
    assert_eq!(held.kernel[0].blocks, 5);
    assert_eq!(held.kernel[0].load_misses, 5);
    assert_eq!(
        held.cores[0].instructions, plain.cores[0].instructions,
        "the thread's own counts have none of it"
    );
    // Each load waits for memory, and the code had to be fetched once.
    assert!(done_fs - enters_fs > 5 * 73_000_000, "{}", done_fs - enters_fs);
    assert_eq!(held.stacks[0].total_fs(), held.duration_fs);
    assert!(ends_fs >= plain.duration_fs + (done_fs - enters_fs) - 10 * held.cycle_fs);
    assert!(CODE & KERNEL == 0 && [LOAD, STORE, WORK].iter().all(|block| *block < KERNEL_LOAD));
}
