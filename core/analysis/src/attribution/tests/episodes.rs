//! Which cause queued packets wait behind: that of the episode, until a packet has more of another one.

use super::scene::*;
use crate::model::{EdgeCost, PacketRun};
use quaver_abi::record::EventKind;

/// First instant of the first interruption, 1 µs before packet 50 would be read.
const FROM: i64 = START_NS + 50 * PERIOD_NS + 1_000;

/// Interrupt 41 for `first` from [`FROM`] on, and interrupt 42 for `second` from 1 µs after its end on, while packets
/// that queued up behind the first are read.
fn two_interrupts(first: i64, second: i64) -> PacketRun {
    let until = FROM + first;
    let then = until + 1_000;
    let mut run = run(&[(FROM, until), (then, then + second)]);
    run.events = receiver_runs(120, &[]);
    run.events.push(event(EventKind::Irq, 1, FROM, until, 41, 0));
    run.events.push(event(EventKind::Irq, 1, then, then + second, 42, 0));
    // No entry or exit, so that all beside the interruptions is the reading.
    run.circumstances.edge_cost = Some(EdgeCost { entry_ns: 0, exit_ns: 0, samples: 12 });
    run
}

/// The leading cause's name of the late packets `from..` in the order of reading, with how many there are in a row.
fn leaders(run: &PacketRun) -> Vec<(String, usize)> {
    let analysis = analyze(run);
    let mut rows: Vec<(String, usize)> = Vec::new();
    for late in &analysis.late {
        let name = late.cause.map_or("unexplained", |cause| &analysis.summary.causes[cause as usize].name);
        match rows.last_mut().filter(|(last, _)| last == name) {
            Some((_, times)) => *times += 1,
            None => rows.push((name.to_owned(), 1)),
        }
    }
    rows
}

#[test]
fn a_larger_cause_takes_the_queue_over() {
    // Packets 50 to 53 are read at 300 ns steps after 100 µs; the second interrupt holds up the fifth for 150 µs.
    let run = two_interrupts(100_000, 150_000);
    let analysis = analyze(&run);
    let all = analysis.late.len();
    assert_eq!(leaders(&run), [("irq 41".to_owned(), 3), ("irq 42".to_owned(), all - 3)]);
    // The window of packet 50 begins 1 µs into the first interrupt; the three packets' own readings are its too.
    let [second, first] = &rows(&analysis)[..] else { panic!("two causes") };
    assert_eq!(*first, ("dev-irq", "irq 41", 99_000 + 1_000, 0, 1_000, 3));
    let queued = (all as i64 - 4) * SERVICE_NS;
    assert_eq!(
        *second,
        ("dev-irq", "irq 42", 150_000 + SERVICE_NS + queued, 0, SERVICE_NS + queued, all as u64 - 3)
    );
}

#[test]
fn a_smaller_cause_does_not() {
    let run = two_interrupts(150_000, 40_000);
    let all = analyze(&run).late.len();
    assert_eq!(leaders(&run), [("irq 41".to_owned(), all)]);
}
