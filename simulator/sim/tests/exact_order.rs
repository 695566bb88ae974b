//! The order of what happens is exact: it does not depend on how the work is cut into windows. And time adds up.

mod listed;

use listed::{Listed, machine, run};
use quaver_sim::config::Config;
use quaver_sim::error::SimulationError;
use quaver_trace::step::{Sync, Thread, Wakeup};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

const MUTEX: u64 = 0x100;
const BARRIER: u64 = 0x200;
const CONDITION: u64 = 0x300;

/// Threads that share lines, take turns at a lock, meet, and wake each other.
fn program(threads: u32, seed: u64) -> Vec<Listed> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut program: Vec<Listed> = vec![Listed::default(); threads as usize];
    (1..threads).for_each(|child| program[0].sync(Sync::Create { thread: Thread(child) }));
    for round in 0..6 {
        for (id, thread) in program.iter_mut().enumerate() {
            for _ in 0..120 {
                let word = random.next_u64();
                let shared = 0x1000_0000 + (word >> 8 & 0xff) * 32;
                let own = 0x2000_0000 + (id as u64) * 0x10_0000 + (word >> 20 & 0x3fff) * 32;
                let address = if word & 3 == 0 { shared } else { own };
                if word >> 2 & 1 == 0 {
                    thread.load(address)
                } else {
                    thread.store(address)
                }
                thread.work((word >> 3 & 3) as usize);
                if word >> 40 & 15 == 0 {
                    thread.sync(Sync::Lock { object: MUTEX });
                    thread.store(0x3000_0000);
                    thread.sync(Sync::Unlock { object: MUTEX });
                }
            }
            let wakeup = Wakeup(round * 100 + 7);
            if id == 0 {
                thread.sync(Sync::Lock { object: MUTEX });
                thread.sync(Sync::Broadcast { object: CONDITION, wakeup });
                thread.sync(Sync::Unlock { object: MUTEX });
            } else {
                thread.sync(Sync::Lock { object: MUTEX });
                thread.sync(Sync::Wait { object: CONDITION, mutex: MUTEX, by: Some(wakeup) });
                thread.sync(Sync::Unlock { object: MUTEX });
            }
            thread.sync(Sync::Barrier { object: BARRIER, parties: threads });
        }
    }
    (1..threads).for_each(|child| program[0].sync(Sync::Join { thread: Thread(child) }));
    program
}

#[test]
fn windows_of_any_length_give_the_same_numbers() {
    for (text, threads) in [
        ("", 16),
        ("machine = 'paper'", 16),
        ("core.pipeline = 'out-of-order'\nprefetch.kind = 'next-line'", 16),
        ("l2.kib = 32\nprefetch.kind = 'next-line'\nprefetch.lines = 8", 16),
        ("chip.cores = 4\nchip.quantum_us = 1", 11),
        ("l2.kib = 32\ndirectory.entries = 256\nmemory.ddr3.banks = 1\nnetwork.link_octets = 1", 16),
    ] {
        let config = Config::from_toml(text).unwrap();
        for seed in 0..3 {
            let whole = run(&config, program(threads, seed));
            for window_fs in [1, 333_334, 1_000_000] {
                let mut cut = machine(&config, program(threads, seed)).with_window_fs(window_fs);
                assert!(cut.run(u64::MAX).unwrap());
                assert_eq!(cut.results(), whole, "windows of {window_fs} fs, seed {seed}, {text:?}");
            }
        }
    }
}

#[test]
fn the_time_of_a_core_is_what_it_issued_and_what_held_it_up() {
    for text in
        ["", "machine = 'paper'", "core.pipeline = 'out-of-order'", "chip.cores = 4\nchip.quantum_us = 2"]
    {
        let results = run(&Config::from_toml(text).unwrap(), program(12, 5));
        let slot_fs = results.cycle_fs / 2;
        for (number, core) in results.cores.iter().enumerate() {
            let known_fs = core.issue_slots * slot_fs + core.stalls.total_fs();
            assert_eq!(core.busy_fs, known_fs, "core {number}, {text:?}: {core:?}");
        }
        let busy_fs: u64 = results.cores.iter().map(|core| core.busy_fs).sum();
        let lived = |times: &quaver_sim::statistics::ThreadTimes| {
            times.end_fs - times.start_fs - times.waited_fs - times.queued_fs
        };
        let ran_fs: u64 = results.threads.iter().map(lived).sum();
        assert!(busy_fs <= ran_fs, "wake-ups on their way are neither run nor waited for");
        assert_eq!(results.memory_reads, results.cores.iter().map(|core| core.from_memory).sum::<u64>());
    }
}

#[test]
fn two_runs_are_equal() {
    let once = run(&Config::default(), program(16, 9));
    assert_eq!(once, run(&Config::default(), program(16, 9)));
    assert_ne!(once, run(&Config::default(), program(16, 10)));
}

#[test]
fn runs_side_by_side_on_threads_of_this_host_are_equal_octet_by_octet() {
    let text = |results: &quaver_sim::statistics::Results| format!("{results:?}");
    let alone = text(&run(&Config::default(), program(16, 3)));
    let side_by_side: Vec<String> = std::thread::scope(|scope| {
        let spawn = |_| scope.spawn(|| text(&run(&Config::default(), program(16, 3))));
        let running: Vec<_> = (0..4).map(spawn).collect();
        running.into_iter().map(|run| run.join().expect("it ends")).collect()
    });
    assert!(side_by_side.iter().all(|one| *one == alone));
}

#[test]
fn a_replay_that_cannot_go_on_says_who_waits_for_what() {
    let (mut first, mut second) = (Listed::default(), Listed::default());
    first.sync(Sync::Create { thread: Thread(1) });
    first.sync(Sync::Join { thread: Thread(1) });
    second.sync(Sync::Lock { object: MUTEX });
    second.sync(Sync::Wait { object: CONDITION, mutex: MUTEX, by: Some(Wakeup(3)) });
    let error = machine(&Config::default(), vec![first, second]).run(u64::MAX).unwrap_err();
    assert!(matches!(error, SimulationError::Stuck { .. }));
    let said = error.to_string();
    assert!(said.contains("thread 0 waits for the end of thread 1"), "{said}");
    assert!(said.contains("thread 1 waits for wake-up 3 of the condition at 0x300"), "{said}");
}
