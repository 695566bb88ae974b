use super::*;
use crate::config::Config;
use crate::machine::Machine;
use quaver_trace::block::{Block, Class, Instruction, Registers};
use quaver_trace::step::Thread;

/// Steps from a list.
struct Listed(std::vec::IntoIter<Step>);

impl Steps for Listed {
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        let step = self.0.next().unwrap_or(Step::End);
        if let Step::Block { number } = step {
            let address = 0x1000 + 64 * u64::from(number);
            accesses.push(Access { address, instruction: 0, octets: 8, write: false });
        }
        Ok(step)
    }
}

fn dictionary() -> Dictionary {
    let load = Instruction {
        octets: 4,
        class: Class::Integer,
        loads: true,
        stores: false,
        reads: Registers::default(),
        writes: Registers::default(),
    };
    let block = |number: u64| Block { pc: 0x40_0000 + 64 * number, instructions: vec![load] };
    Dictionary { blocks: (0..8).map(block).collect() }
}

fn program(threads: Vec<Vec<Step>>) -> Program {
    let steps = threads.into_iter().map(|steps| Listed(steps.into_iter()));
    Program::read("listed", dictionary(), steps).unwrap()
}

fn block(number: u32) -> Step {
    Step::Block { number }
}

fn wait(by: u64) -> Step {
    Step::Sync(Sync::Wait { object: 0x10, mutex: 0, by: Some(Wakeup(by)) })
}

fn post(wakeup: u64) -> Step {
    Step::Sync(Sync::Signal { object: 0x10, wakeup: Wakeup(wakeup) })
}

/// Two threads, of which the first posts to the second.
fn posting() -> Vec<Vec<Step>> {
    let create = Step::Sync(Sync::Create { thread: Thread(1) });
    let join = Step::Sync(Sync::Join { thread: Thread(1) });
    vec![vec![block(0), create, block(1), post(4), join, block(2)], vec![wait(4), block(3)]]
}

/// The same without what the first computes alone: blocks 0 and 2.
fn together() -> Vec<Vec<Step>> {
    let alone = [block(0), block(2)];
    posting()
        .into_iter()
        .map(|thread| thread.into_iter().filter(|step| !alone.contains(step)).collect())
        .collect()
}

fn drained(mut steps: Rounds) -> Vec<Step> {
    let mut accesses = Vec::new();
    let mut all = Vec::new();
    loop {
        match steps.step(&mut accesses).unwrap() {
            Step::End => return all,
            step => {
                if let Step::Block { number } = step {
                    assert_eq!(
                        accesses.iter().map(|one| one.address).collect::<Vec<_>>(),
                        [0x1000 + 64 * u64::from(number)]
                    );
                }
                all.push(step);
            }
        }
    }
}

#[test]
fn one_round_is_the_trace_itself_without_what_the_first_computes_alone() {
    let program = program(posting());
    let found: Vec<Vec<Step>> = program.steps(1).into_iter().map(drained).collect();
    assert_eq!(found, together());
    assert_eq!((program.repeats(), program.instructions(1), program.instructions(3)), (Ok(()), 2, 6));
}

#[test]
fn a_program_of_one_thread_and_what_synchronises_outside_of_the_part_are_kept() {
    let lone = vec![vec![block(0), post(0), block(1)]];
    let found: Vec<Vec<Step>> = program(lone.clone()).steps(1).into_iter().map(drained).collect();
    assert_eq!(found, lone);
    let create = Step::Sync(Sync::Create { thread: Thread(1) });
    let join = Step::Sync(Sync::Join { thread: Thread(1) });
    let posts =
        vec![vec![block(0), post(0), create, block(1), join, block(2), post(1)], vec![wait(0), block(3)]];
    let found: Vec<Vec<Step>> = program(posts).steps(1).into_iter().map(drained).collect();
    assert_eq!(found, [vec![post(0), create, block(1), join, post(1)], vec![wait(0), block(3)]]);
}

#[test]
fn the_part_that_all_do_is_done_over_and_over_with_its_own_signals() {
    let program = program(posting());
    let meet = Step::Sync(Sync::Barrier { object: BETWEEN_ROUNDS, parties: 2 });
    let found: Vec<Vec<Step>> = program.steps(2).into_iter().map(drained).collect();
    let listed = together();
    let first = [&listed[0][..3], &[meet, block(1), post(4 + 5)], &listed[0][3..]].concat();
    assert_eq!(found, [first, vec![wait(4), block(3), meet, wait(9), block(3)]]);
    for rounds in [1, 2, 7] {
        let mut machine = Machine::new(&Config::default(), &program.dictionary, program.steps(rounds));
        assert!(machine.run(u64::MAX).unwrap());
        assert_eq!(machine.results().instructions(), program.instructions(rounds));
    }
}

#[test]
fn what_cannot_be_repeated_is_done_once_and_says_why() {
    let create = |thread| Step::Sync(Sync::Create { thread: Thread(thread) });
    let join = |thread| Step::Sync(Sync::Join { thread: Thread(thread) });
    let nested = program(vec![vec![create(1), join(1)], vec![create(2)], vec![block(1)]]);
    assert_eq!(nested.repeats(), Err(OnlyOnce::OthersCreate));
    let late = program(vec![vec![create(1), join(1), create(2), join(2)], vec![block(0)], vec![block(1)]]);
    assert_eq!(late.repeats(), Err(OnlyOnce::CreatesLate));
    let once = program(vec![vec![post(0), create(1), join(1)], vec![wait(0)]]);
    assert_eq!(once.repeats(), Err(OnlyOnce::WaitsForOnce));
    for program in [&nested, &late, &once] {
        assert_eq!(program.instructions(5), program.instructions(1));
        let all: Vec<Vec<Step>> = program.steps(5).into_iter().map(drained).collect();
        let same: Vec<Vec<Step>> = program.steps(1).into_iter().map(drained).collect();
        assert_eq!(all, same);
    }
}
