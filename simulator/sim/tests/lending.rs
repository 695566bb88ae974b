//! A thread that waits for others with a lock that these need holds nobody up: the lock is lent, and all is done in the end.

mod listed;

use listed::{Listed, dictionary};
use quaver_sim::config::Config;
use quaver_sim::machine::Machine;
use quaver_sim::statistics::{Results, WaitKind};
use quaver_trace::step::{Sync, Thread, Wakeup};

const DRAW: Sync = Sync::Lock { object: 0x100 };
const DRAWN: Sync = Sync::Unlock { object: 0x100 };
const MUTEX: u64 = 0x200;
const FULL: u64 = 0x300;

/// Three workers draw from one counter. Who draws the first tile of a strip waits for its buffer with the counter's lock held;
/// in the recording the others had drawn their tiles of the strip before.
fn steps(strips: u64) -> Vec<Listed> {
    let mut threads = vec![Listed::default(); 4];
    for thread in 1..4 {
        threads[0].sync(Sync::Create { thread: Thread(thread) });
    }
    for thread in 1..4 {
        threads[0].sync(Sync::Join { thread: Thread(thread) });
    }
    for strip in 0..strips {
        let own = &mut threads[1];
        own.sync(DRAW);
        own.sync(Sync::Lock { object: MUTEX });
        own.sync(Sync::Wait { object: FULL, mutex: MUTEX, by: Some(Wakeup(strip)) });
        own.sync(Sync::Unlock { object: MUTEX });
        own.sync(DRAWN);
        own.work(50);
        for (place, own) in threads[2..].iter_mut().enumerate() {
            own.work(3_000);
            own.sync(DRAW);
            own.work(10);
            own.sync(DRAWN);
            if place == 1 {
                own.sync(Sync::Lock { object: MUTEX });
                own.sync(Sync::Signal { object: FULL, wakeup: Wakeup(strip) });
                own.sync(Sync::Unlock { object: MUTEX });
            }
        }
    }
    threads
}

fn run(window_fs: u64) -> Results {
    let mut machine = Machine::new(&Config::default(), &dictionary(), steps(20)).with_window_fs(window_fs);
    assert!(machine.run(u64::MAX).unwrap(), "nobody is stuck");
    machine.results()
}

#[test]
fn a_lock_is_lent_where_all_would_be_stuck_whatever_cores_run_ahead() {
    let results = run(u64::MAX);
    assert_eq!(results.instructions(), 9 * 20 * (50 + 2 * 3_010));
    let waited = |thread: usize, kind: WaitKind| results.threads[thread].waited_for_fs[kind as usize];
    assert!(waited(1, WaitKind::Wakeup) > 0 && waited(2, WaitKind::Lock) > 0);
    for window_fs in [1, 1_000_000] {
        assert_eq!(run(window_fs), results, "{window_fs}");
    }
}
