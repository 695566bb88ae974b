//! The protocol of sync jitter agrees with its brute-force twin on 100,000 random histories.

use quaver_sync_analysis::sync::{Observer, Protocol, Settings, SyncEvent, ThreadId, Wait};
use quaver_testbed::sync_oracle::{Answer, Event, Matched, answer, history};

const HISTORIES: u64 = 100_000;

/// Writes down every wait that it is told of.
#[derive(Default)]
struct Seen(Vec<Matched>);

impl Observer for Seen {
    fn late_wait(&mut self, wait: &Wait) {
        self.0.push(Matched {
            ended_ns: wait.ended_ns,
            thread: wait.thread.0,
            waker: wait.waker.0,
            class: wait.class as usize,
            released_ns: wait.released_ns,
            moved: wait.case == 3,
        });
    }
}

/// What the protocol says, in the twin's terms. With a threshold of 0 every wait is late.
fn protocol(events: &[Event]) -> Answer {
    let settings = Settings { threshold_ns: 0, count_all: true, shown_waits: 0, ..Settings::default() };
    let mut protocol = Protocol::with_observer(settings, Seen::default());
    for event in events {
        protocol.event(&SyncEvent {
            at_ns: event.at_ns,
            object: event.object,
            call_site: 0,
            thread: ThreadId(event.thread),
            detail: 0,
            cpu: event.cpu,
            process: 0,
            kind: event.kind,
            outcome: event.outcome,
            flags: 0,
        });
    }
    let (results, seen) = protocol.finish_with_observer();
    let counts = &results.counts;
    let path = &results.critical_path;
    assert_eq!(results.coverage.matched, seen.0.len() as u64);
    Answer {
        matched: seen.0,
        wake_ups: results.coverage.wake_ups,
        timed: std::array::from_fn(|class| {
            let sums = &results.classes[class].timed;
            (sums.count, sums.total_ns)
        }),
        signals_for_nobody: counts.signals_for_nobody,
        alone: (counts.entries_alone, counts.exits_alone),
        path: (path.classes_ns, path.blocked_ns, path.hand_overs),
    }
}

/// Matched waits and wake-ups of the histories of these seeds.
fn compare(seeds: std::ops::Range<u64>) -> (u64, u64, u64) {
    let (mut matched, mut wake_ups, mut moved) = (0, 0, 0);
    for seed in seeds {
        let events = history(seed);
        let (ours, twins) = (protocol(&events), answer(&events));
        assert_eq!(ours, twins, "seed {seed}: protocol (left) and twin (right) differ on {events:#?}");
        matched += ours.matched.len() as u64;
        moved += ours.matched.iter().filter(|one| one.moved).count() as u64;
        wake_ups += ours.wake_ups;
    }
    (matched, wake_ups, moved)
}

#[test]
fn agrees_with_the_twin_on_random_histories() {
    let halves = std::thread::scope(|scope| {
        let other = scope.spawn(|| compare(HISTORIES / 2..HISTORIES));
        let one = compare(0..HISTORIES / 2);
        (one, other.join().expect("the other half holds too"))
    });
    let ((a, b, c), (d, e, f)) = halves;
    let (matched, wake_ups, moved) = (a + d, b + e, c + f);
    println!("seeds 0 to {HISTORIES}: {matched} of {wake_ups} wake-ups matched, {moved} on another core");
    // The histories are torn on purpose, but no mere noise: many wake-ups have a waker, and many moved.
    assert!(matched > HISTORIES && 3 * matched > wake_ups && wake_ups > matched && moved > HISTORIES / 10);
}
