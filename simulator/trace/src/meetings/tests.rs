use super::*;
use crate::file::{Facts, TraceWriter};
use crate::step::Thread;

const MUTEX: u64 = 0x100;
const CONDITION: u64 = 0x140;

/// A trace of these steps, by thread.
fn trace(threads: &[Vec<Sync>]) -> TraceReader<Vec<u8>> {
    let mut writer = TraceWriter::new(Vec::new(), &Facts::default()).unwrap();
    for (thread, steps) in (0..).zip(threads) {
        steps.iter().for_each(|sync| writer.sync(thread, *sync));
        writer.end(thread);
    }
    TraceReader::open(writer.finish().unwrap()).unwrap()
}

fn arrives(gives: bool, round: u64) -> [Sync; 3] {
    let wakeup = Wakeup(round);
    let middle = if gives {
        Sync::Broadcast { object: CONDITION, wakeup }
    } else {
        Sync::Wait { object: CONDITION, mutex: MUTEX, by: Some(wakeup) }
    };
    [Sync::Lock { object: MUTEX }, middle, Sync::Unlock { object: MUTEX }]
}

/// Threads that meet; `last` comes last to each round.
fn barrier(threads: u32, last: &[u32]) -> Vec<Vec<Sync>> {
    let of = |thread: u32| {
        (0..).zip(last).flat_map(move |(round, last)| arrives(*last == thread, round)).collect()
    };
    (0..threads).map(of).collect()
}

fn found(threads: &[Vec<Sync>]) -> (usize, usize) {
    let meetings = Meetings::of(&trace(threads), &mut || true);
    (meetings.barriers(), meetings.rounds())
}

#[test]
fn whoever_came_last_in_the_trace_waits_for_the_others_as_they_do() {
    let trace = trace(&barrier(3, &[2, 0, 0]));
    let meetings = Arc::new(Meetings::of(&trace, &mut || true));
    assert_eq!((meetings.barriers(), meetings.rounds()), (1, 3));
    let [lock, unlock] = [Sync::Lock { object: MUTEX }, Sync::Unlock { object: MUTEX }];
    let round = [lock, unlock, Sync::Barrier { object: CONDITION, parties: 3 }, lock, unlock];
    for thread in 0..3 {
        let mut steps = meetings.meeting(trace.steps(thread));
        for (number, expected) in round.iter().cycle().take(15).enumerate() {
            let step = steps.step(&mut Vec::new()).unwrap();
            assert_eq!(step, Step::Sync(*expected), "thread {thread}, step {number}");
        }
        assert_eq!(steps.step(&mut Vec::new()), Ok(Step::End));
    }
}

#[test]
fn what_may_be_no_barrier_stays_as_it_was_traced() {
    assert_eq!(found(&barrier(4, &[3, 3, 3])), (0, 0), "a master and its workers");
    assert_eq!(found(&barrier(2, &[0, 1, 0])), (0, 0), "two that pass a turn to and fro");
    let whole = barrier(3, &[2, 0, 1]);
    let without = |thread: usize, step: usize| {
        let mut threads = whole.clone();
        threads[thread].drain(step..step + 3);
        found(&threads)
    };
    assert_eq!(without(1, 3), (0, 0), "one lacks a round in the middle");
    assert_eq!(without(1, 0), (0, 0), "or the first");
    assert_eq!(without(0, 6), (1, 2), "the last round of a trace may be cut short: it stays");
    let with = |place: usize, sync: Sync| {
        let mut threads = whole.clone();
        threads[0].insert(place, sync);
        found(&threads)
    };
    assert_eq!(with(0, Sync::Lock { object: 8 }), (0, 0), "another lock is held");
    assert_eq!(
        with(2, Sync::Lock { object: 8 }),
        (0, 0),
        "something else happens before the mutex is given back"
    );
    assert_eq!(with(2, whole[0][1]), (0, 0), "it waits twice");
    assert_eq!(with(3, Sync::Signal { object: CONDITION, wakeup: Wakeup(9) }), (0, 0), "signals, too");
    assert_eq!(
        with(3, Sync::Join { thread: Thread(7) }),
        (1, 3),
        "what is between two rounds is its own matter"
    );
    let in_vain = Sync::Wait { object: CONDITION, mutex: MUTEX, by: None };
    assert_eq!(with(1, in_vain), (1, 3), "woken for nothing it waits again");
    assert_eq!(found(&barrier(1, &[0, 0])), (0, 0));
    assert_eq!(found(&[]), (0, 0));
    let mut asked = 0;
    let stopped = Meetings::of(&trace(&whole), &mut || {
        asked += 1;
        asked < 3
    });
    assert_eq!((stopped, asked), (Meetings::default(), 3), "it was told to stop at the third thread");
}
