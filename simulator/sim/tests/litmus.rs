//! What threads may see of each other's stores: total store order, as on x86. Stores wait in their core's buffer, so that a
//! later load may come first; nothing else is seen out of order, and all see stores in the same order.

mod listed;

use listed::{Listed, dictionary};
use quaver_sim::config::Config;
use quaver_sim::error::SimulationError;
use quaver_sim::hooks::{Event, Hooks, Moment, NoKernel, Orders};
use quaver_sim::machine::{Machine, Performed};
use quaver_trace::step::{Sync, Thread};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;

const X: u64 = 0x1000_1000;
const Y: u64 = 0x2000_2000;
const BARRIER: u64 = 0x100;

#[derive(Clone, Default)]
struct Watch(Rc<RefCell<Vec<Performed>>>);

impl Hooks for Watch {
    type Kernel = NoKernel;
    const WATCHES: bool = true;

    fn performed(&mut self, access: Performed) {
        self.0.borrow_mut().push(access);
    }

    fn event(&mut self, _: &Moment<'_>, _: Event, _: &mut Orders<NoKernel>) -> Result<(), SimulationError> {
        Ok(())
    }
}

/// A load or a store of X or Y.
#[derive(Clone, Copy)]
enum Op {
    Load(u64),
    Store(u64),
}
use Op::{Load, Store};

/// Runs the threads with random pauses and random lines in their caches; whether each load saw the (only) store to its line.
fn outcome(threads: &[&[Op]], seed: u64) -> Vec<Vec<bool>> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut program = vec![Listed::default(); threads.len()];
    (1..threads.len() as u32).for_each(|child| program[0].sync(Sync::Create { thread: Thread(child) }));
    for (thread, ops) in program.iter_mut().zip(threads) {
        for line in [X, Y] {
            if random.next_u64().is_multiple_of(2) {
                thread.load(line);
            }
        }
        thread.sync(Sync::Barrier { object: BARRIER, parties: threads.len() as u32 });
        thread.work((random.next_u64() % 80) as usize);
        for op in *ops {
            thread.work((random.next_u64() % 8) as usize * (random.next_u64() % 8) as usize);
            match *op {
                Load(line) => thread.load(line),
                Store(line) => thread.store(line),
            }
        }
    }
    let config = Config::from_toml("chip.cores = 4\nl2.kib = 32").unwrap();
    let watch = Watch::default();
    let mut machine = Machine::with_hooks(&config, &dictionary(), program, watch.clone());
    assert!(machine.run(u64::MAX).unwrap());
    let seen = watch.0.borrow();
    let stored = |line| seen.iter().find(|access| access.write && access.address == line);
    let each = threads.iter().enumerate().map(|(core, ops)| {
        let of = |line, loads: usize| {
            let reads =
                seen.iter().filter(|access| access.core == core && !access.write && access.address == line);
            let all: Vec<&Performed> = reads.collect();
            let load = all[all.len() - 1 - loads];
            stored(line).is_some_and(|store| store.at_fs <= load.at_fs)
        };
        let loads = ops.iter().enumerate().filter_map(|(at, op)| match *op {
            Load(line) => {
                let later = ops[at + 1..].iter().filter(|op| matches!(op, Load(other) if *other == line));
                Some(of(line, later.count()))
            }
            Store(_) => None,
        });
        loads.collect()
    });
    each.collect()
}

/// All outcomes of many seeds, each with how often it was seen.
fn outcomes(threads: &[&[Op]]) -> Vec<(Vec<Vec<bool>>, usize)> {
    let mut seen: Vec<(Vec<Vec<bool>>, usize)> = Vec::new();
    for seed in 0..1500 {
        let one = outcome(threads, seed);
        match seen.iter_mut().find(|(other, _)| *other == one) {
            Some((_, count)) => *count += 1,
            None => seen.push((one, 1)),
        }
    }
    seen
}

fn has(seen: &[(Vec<Vec<bool>>, usize)], wanted: &[&[bool]]) -> bool {
    seen.iter().any(|(outcome, _)| outcome.iter().map(Vec::as_slice).eq(wanted.iter().copied()))
}

#[test]
fn a_message_comes_with_what_was_stored_before_it() {
    let seen = outcomes(&[&[Store(X), Store(Y)], &[Load(Y), Load(X)]]);
    assert!(!has(&seen, &[&[], &[true, false]]), "the flag without the data: {seen:?}");
    for expected in [[true, true], [false, false], [false, true]] {
        assert!(has(&seen, &[&[], &expected]), "{seen:?}");
    }
}

#[test]
fn a_load_may_come_before_a_store_to_another_line() {
    let seen = outcomes(&[&[Store(X), Load(Y)], &[Store(Y), Load(X)]]);
    assert!(has(&seen, &[&[false], &[false]]), "store buffers are seen: {seen:?}");
    assert!(has(&seen, &[&[true], &[false]]) && has(&seen, &[&[false], &[true]]), "{seen:?}");
}

#[test]
fn a_store_never_comes_before_an_earlier_load() {
    let seen = outcomes(&[&[Load(X), Store(Y)], &[Load(Y), Store(X)]]);
    assert!(!has(&seen, &[&[true], &[true]]), "{seen:?}");
    assert!(has(&seen, &[&[false], &[false]]), "{seen:?}");
}

#[test]
fn all_see_stores_in_the_same_order() {
    let seen = outcomes(&[&[Store(X)], &[Store(Y)], &[Load(X), Load(Y)], &[Load(Y), Load(X)]]);
    assert!(!has(&seen, &[&[], &[], &[true, false], &[true, false]]), "{seen:?}");
    assert!(has(&seen, &[&[], &[], &[true, true], &[true, false]]), "{seen:?}");
}

#[test]
fn a_line_never_becomes_older() {
    let seen = outcomes(&[&[Store(X)], &[Load(X), Load(X)]]);
    assert!(!has(&seen, &[&[], &[true, false]]), "{seen:?}");
    assert!(has(&seen, &[&[], &[false, true]]), "{seen:?}");
}
