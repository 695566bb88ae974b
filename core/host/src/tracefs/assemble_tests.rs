//! Hand-made streams.

use super::*;

const CPU: u16 = 1;

fn side(thread: u32, priority: i32, name: &[u8]) -> Side {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name);
    Side { thread, priority, comm }
}

fn switch(from: Side, reason: OffCpu, to: Side) -> Happening {
    Happening::Switch { previous: from, reason, next: to }
}

fn enter(kind: EventKind, id: u32) -> Happening {
    Happening::Enter { kind, id, aux: 0, key: u64::from(id) }
}

fn exit(kind: EventKind, id: u32) -> Happening {
    Happening::Exit { kind, key: u64::from(id) }
}

/// Kind, start, end, id, aux, detail of every record that is not a name.
type Row = (EventKind, u64, u64, u32, u64, u8);

fn row(record: &EventRecord) -> Row {
    let kind = EventKind::from_repr(record.kind).unwrap();
    (kind, record.start_ns, record.end_ns, record.id, record.aux, record.detail)
}

fn run(assembler: &mut Assembler, stream: &[(u64, u32, Happening)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (now, current, what) in stream {
        assembler.feed(CPU, *now, *current, what, &mut |r| {
            assert_eq!(r.cpu, CPU);
            if r.kind != EventKind::TaskName as u8 {
                rows.push(row(&r));
            }
        });
    }
    rows
}

fn cut(assembler: &mut Assembler, at: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    assembler.cut(CPU, at, &mut |r| rows.push(row(&r)));
    rows
}

#[test]
fn nested_interrupts_pair_innermost_first() {
    use EventKind::{Irq, Softirq, Vector};
    let mut assembler = Assembler::default();
    let rows = run(
        &mut assembler,
        &[
            (10, 7, enter(Irq, 25)),
            (20, 7, exit(Irq, 25)),
            (21, 7, enter(Softirq, 3)),
            (25, 7, enter(Vector, 1)),
            (29, 7, exit(Vector, 1)),
            (40, 7, exit(Softirq, 3)),
        ],
    );
    assert_eq!(rows, [(Irq, 10, 20, 25, 0, 0), (Vector, 25, 29, 1, 0, 0), (Softirq, 21, 40, 3, 0, 0)]);
    assert_eq!(assembler.unpaired(), Unpaired::default());
    let open = cut(&mut assembler, 50);
    let aux = u64::from(PRIORITY_UNKNOWN);
    assert_eq!(open, [(EventKind::Thread, 10, 50, 7, aux, 0)], "whoever is current has been since 10");
}

#[test]
fn exits_without_entries_are_dropped_and_counted() {
    use EventKind::{Irq, Softirq};
    let mut assembler = Assembler::default();
    let rows = run(
        &mut assembler,
        &[
            (5, 7, exit(Irq, 25)),
            (6, 7, Happening::WorkEnd),
            (10, 7, enter(Softirq, 3)),
            (11, 7, exit(Softirq, 1)),
            (12, 7, exit(Softirq, 3)),
        ],
    );
    assert_eq!(rows, [(Softirq, 10, 12, 3, 0, 0)]);
    // The interrupt and the item were under way when recording began; softirq 1 ended inside one that began since.
    assert_eq!(assembler.unpaired(), Unpaired { begun_before: 2, exits: 1, ..Unpaired::default() });
}

#[test]
fn entries_whose_exit_was_missed_never_linger() {
    use EventKind::{Irq, Softirq, Vector};
    let mut assembler = Assembler::default();
    let rows = run(
        &mut assembler,
        &[
            (10, 7, enter(Softirq, 3)),
            (11, 7, enter(Vector, 1)),
            (20, 7, exit(Softirq, 3)),
            (30, 7, enter(Irq, 25)),
            (40, 7, enter(Irq, 25)),
            (41, 7, exit(Irq, 25)),
        ],
    );
    assert_eq!(rows, [(Softirq, 10, 20, 3, 0, 0), (Irq, 40, 41, 25, 0, 0)]);
    assert_eq!(assembler.unpaired(), Unpaired { entries: 2, ..Unpaired::default() });
}

#[test]
fn threads_hold_the_cpu_back_to_back() {
    use EventKind::Thread;
    let (sink, storm, idle) = (side(70, 9, b"sink"), side(80, 120, b"storm"), side(0, 120, b"swapper/1"));
    let mut assembler = Assembler::default();
    let rows = run(
        &mut assembler,
        &[
            (100, 70, switch(sink, OffCpu::Preempted, storm)),
            (150, 80, switch(storm, OffCpu::Blocked, idle)),
            (190, 0, switch(idle, OffCpu::Preempted, sink)),
        ],
    );
    let aux = |priority: u64, next: u64| next << 32 | priority;
    assert_eq!(
        rows,
        [
            (Thread, 100, 100, 70, aux(9, 80), OffCpu::Preempted as u8),
            (Thread, 100, 150, 80, aux(120, 0), OffCpu::Blocked as u8),
            (Thread, 150, 190, 0, aux(120, 70), OffCpu::Preempted as u8),
        ]
    );
    assert_eq!(cut(&mut assembler, 200), [(Thread, 190, 200, 70, 9, OffCpu::Unknown as u8)]);
}

#[test]
fn names_are_told_once_and_when_they_change() {
    let mut names = Vec::new();
    let mut assembler = Assembler::default();
    let (one, two, renamed) = (side(70, 120, b"one"), side(71, 120, b"two"), side(70, 120, b"uno"));
    let idle = side(0, 120, b"swapper/1");
    for (now, from, to) in [(1, one, two), (2, two, one), (3, one, idle), (4, idle, renamed)] {
        assembler.feed(CPU, now, from.thread, &switch(from, OffCpu::Blocked, to), &mut |r| {
            if r.kind == EventKind::TaskName as u8 {
                names.push((r.id, [r.start_ns.to_le_bytes(), r.end_ns.to_le_bytes()].concat()));
            }
        });
    }
    assert_eq!(names, [(70, one.comm.to_vec()), (71, two.comm.to_vec()), (70, renamed.comm.to_vec())]);
}

#[test]
fn work_is_told_only_while_its_thread_runs() {
    use EventKind::{Thread, Work};
    let (worker, other) = (side(50, 120, b"kworker/1:0"), side(60, 120, b"other"));
    let mut assembler = Assembler::default();
    let rows = run(
        &mut assembler,
        &[
            (10, 50, Happening::WorkStart { function: 0xf }),
            (20, 50, switch(worker, OffCpu::Blocked, other)),
            (30, 60, switch(other, OffCpu::Blocked, worker)),
            (35, 50, Happening::WorkEnd),
        ],
    );
    assert_eq!(
        rows,
        [
            (Work, 10, 20, 50, 0xf, 0),
            (Thread, 10, 20, 50, 60 << 32 | 120, OffCpu::Blocked as u8),
            (Thread, 20, 30, 60, 50 << 32 | 120, OffCpu::Blocked as u8),
            (Work, 30, 35, 50, 0xf, 0),
        ]
    );
}

#[test]
fn a_softirq_executes_work_within_the_work_of_the_thread() {
    use EventKind::{Softirq, Work};
    let mut assembler = Assembler::default();
    let rows = run(
        &mut assembler,
        &[
            (10, 50, Happening::WorkStart { function: 0xf }),
            (20, 50, enter(Softirq, 6)),
            (21, 50, Happening::WorkStart { function: 0xb }),
            (25, 50, Happening::WorkEnd),
            (26, 50, exit(Softirq, 6)),
            (35, 50, Happening::WorkEnd),
        ],
    );
    assert_eq!(rows, [(Work, 21, 25, 50, 0xb, 0), (Softirq, 20, 26, 6, 0, 0), (Work, 10, 35, 50, 0xf, 0)]);
    assert_eq!(assembler.unpaired(), Unpaired::default());
}

#[test]
fn what_is_open_at_a_loss_ends_where_it_was_last_seen() {
    use EventKind::{Irq, Thread};
    let mut assembler = Assembler::default();
    run(&mut assembler, &[(10, 7, enter(Irq, 25)), (12, 7, enter(EventKind::Vector, 2))]);
    let mut rows = Vec::new();
    assembler.lost(CPU, &mut |r| rows.push(row(&r)));
    let thread = (Thread, 10, 12, 7, u64::from(PRIORITY_UNKNOWN), 0);
    assert_eq!(rows, [(EventKind::Vector, 12, 12, 2, 0, 0), (Irq, 10, 12, 25, 0, 0), thread]);
    // After the loss another thread is current and the old exits have no entries.
    assert_eq!(run(&mut assembler, &[(90, 8, exit(Irq, 25))]), []);
    assert_eq!(cut(&mut assembler, 100), [(Thread, 90, 100, 8, u64::from(PRIORITY_UNKNOWN), 0)]);
    assert_eq!(assembler.unpaired(), Unpaired { begun_before: 1, ..Unpaired::default() });
}

#[test]
fn points_and_handlers_that_tell_their_length() {
    let mut assembler = Assembler::default();
    let fault = Happening::Point { kind: EventKind::PageFault, id: 7, aux: 0xabc, detail: 1 };
    let nmi = Happening::Nmi { handler: 0x99, duration_ns: 40 };
    let rows = run(&mut assembler, &[(100, 7, fault), (200, 7, nmi)]);
    assert_eq!(rows, [(EventKind::PageFault, 100, 100, 7, 0xabc, 1), (EventKind::Nmi, 160, 200, 0, 0x99, 0)]);
}

#[test]
fn a_missed_switch_cuts_the_thread_where_it_was_last_seen() {
    use EventKind::{Thread, TlbFlush, Vector};
    let (one, agent, two) = (side(70, 120, b"one"), side(1, 110, b"init"), side(80, 120, b"two"));
    let flush = Happening::Point { kind: TlbFlush, id: 0, aux: 0, detail: 0 };
    let mut assembler = Assembler::default();
    let rows = run(
        &mut assembler,
        &[
            (100, 70, enter(Vector, 1)),
            (110, 70, exit(Vector, 1)),
            (120, 70, switch(one, OffCpu::Preempted, agent)),
            (121, 70, flush),
            // Nothing is recorded of the agent; then one is back.
            (150, 70, enter(Vector, 1)),
            (155, 70, exit(Vector, 1)),
            (160, 70, switch(one, OffCpu::Blocked, two)),
        ],
    );
    assert_eq!(
        rows,
        [
            (Vector, 100, 110, 1, 0, 0),
            (Thread, 100, 120, 70, 1 << 32 | 120, OffCpu::Preempted as u8),
            (TlbFlush, 121, 121, 0, 0, 0),
            (Thread, 120, 121, 1, 110, OffCpu::Unknown as u8),
            (Vector, 150, 155, 1, 0, 0),
            (Thread, 150, 160, 70, 80 << 32 | 120, OffCpu::Blocked as u8),
        ]
    );
    assert_eq!(assembler.unpaired(), Unpaired { switches: 1, ..Unpaired::default() });
}

#[test]
fn nothing_older_than_a_switch_can_end_after_it() {
    let (one, two) = (side(70, 120, b"one"), side(80, 120, b"two"));
    let mut assembler = Assembler::default();
    let stream = [
        (10, 70, switch(one, OffCpu::Blocked, two)),
        (20, 80, exit(EventKind::Irq, 25)),
        (30, 70, exit(EventKind::Irq, 25)),
    ];
    assert_eq!(run(&mut assembler, &stream).len(), 2, "two threads, no interrupt");
    assert_eq!(assembler.unpaired(), Unpaired { switches: 1, exits: 2, ..Unpaired::default() });
}

#[test]
fn work_goes_on_after_a_switch_that_was_not_recorded() {
    use EventKind::{Thread, Work};
    let (worker, agent) = (side(50, 120, b"kworker/1:0"), side(1, 110, b"init"));
    let mut assembler = Assembler::default();
    let rows = run(
        &mut assembler,
        &[
            (10, 50, Happening::WorkStart { function: 0xf }),
            (20, 50, switch(worker, OffCpu::Preempted, agent)),
            // Nothing is recorded of the agent, not even that it gives way.
            (40, 50, Happening::WorkEnd),
        ],
    );
    let preempted = (Thread, 10, 20, 50, 1 << 32 | 120, OffCpu::Preempted as u8);
    let cut = (Thread, 20, 20, 1, 110, OffCpu::Unknown as u8);
    assert_eq!(rows, [(Work, 10, 20, 50, 0xf, 0), preempted, cut, (Work, 40, 40, 50, 0xf, 0)]);
    assert_eq!(assembler.unpaired(), Unpaired { switches: 1, ..Unpaired::default() });
}
