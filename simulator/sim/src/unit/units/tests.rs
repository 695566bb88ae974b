use super::*;
use quaver_abi::record::OffCpu;
use quaver_abi::sync::SyncOutcome;

const CYCLE_FS: u64 = 333_334;

fn units(cores: usize) -> Units {
    Units::new(&UnitConfig::new(CYCLE_FS), cores)
}

fn event(at_us: u64, thread: u32, cpu: u16, kind: SyncKind, object: u64) -> SyncEvent {
    SyncEvent {
        at_ns: at_us * 1_000,
        object,
        call_site: 0,
        thread: ThreadId(thread),
        detail: 0,
        cpu,
        process: 0,
        kind,
        outcome: SyncOutcome::Ok,
        flags: 0,
    }
}

#[test]
fn a_late_wake_up_is_lost_time_of_its_thread_and_of_no_other() {
    let mut units = units(2);
    for event in [
        event(10, 1, 0, SyncKind::WaitEntry, 0x100),
        event(20, 2, 1, SyncKind::SignalEntry, 0x100),
        event(25, 2, 1, SyncKind::SignalExit, 0x100),
        event(130, 1, 0, SyncKind::WaitExit, 0x100),
    ] {
        units.sync(&event, None);
    }
    assert_eq!((units.lost_ns(ThreadId(1)), units.lost_ns(ThreadId(2))), (110_000, 0), "the whole of T");
    let results = units.finish(30_000);
    assert_eq!((results.sync.classes[0].late.total_ns, results.overflows), (100_000, 0));
    let hardware = results.hardware;
    assert_eq!((hardware.times_agree, hardware.times_differ, hardware.slots_differ), (1, 0, 0));
    assert_eq!(hardware.messages, MessageCountsOf::releases(1));
    assert_eq!(hardware.transactions, 1 + 1 + 2, "written, looked up, a message to each unit");
    // One of two slots looked at: two cycles, and two for the states; all eight: ten.
    assert_eq!(hardware.busy_fs, (2 * 3 + 2 * 10) * 2 * CYCLE_FS);
    assert_eq!(results.message_share, Some(1.0 / 30_000.0));
}

/// Counts with one kind of message.
struct MessageCountsOf;

impl MessageCountsOf {
    fn releases(releases: u64) -> super::super::MessageCounts {
        super::super::MessageCounts { releases, ..Default::default() }
    }
}

#[test]
fn a_thread_that_wakes_elsewhere_is_asked_for() {
    let mut units = units(3);
    units.registers().create(0, 1);
    units.swap_out(ThreadId(1), 0x40);
    for event in [
        event(10, 1, 0, SyncKind::WaitEntry, 0x100),
        event(20, 2, 1, SyncKind::BroadcastEntry, 0x100),
        event(21, 2, 1, SyncKind::BroadcastExit, 0x100),
    ] {
        units.sync(&event, None);
    }
    units.kernel_exit(2, ThreadId(1), 0x40);
    units.sync(&event(70, 1, 2, SyncKind::WaitExit, 0x100), None);
    assert_eq!(units.lost_ns(ThreadId(1)), 50_000);
    let results = units.finish(1);
    let messages = results.hardware.messages;
    assert_eq!((messages.releases, messages.queries, messages.answers), (1, 1, 1));
    assert_eq!((messages.states, messages.swaps, messages.total()), (2, 1, 6));
    assert_eq!((results.hardware.failed_lookups, results.hardware.times_agree), (1, 1));
    assert_eq!(results.registers.migrated, 1);
}

#[test]
fn the_ninth_wait_of_a_core_is_dropped_and_counted() {
    let mut units = units(1);
    for thread in 1..=9 {
        units.sync(&event(10, thread, 0, SyncKind::WaitEntry, 0x100), None);
    }
    units.sync(&event(20, 10, 0, SyncKind::BroadcastEntry, 0x100), None);
    units.sync(&event(21, 10, 0, SyncKind::BroadcastExit, 0x100), None);
    for thread in 1..=9 {
        units.sync(&event(60, thread, 0, SyncKind::WaitExit, 0x100), None);
    }
    assert_eq!((units.lost_ns(ThreadId(8)), units.lost_ns(ThreadId(9))), (40_000, 0));
    let results = units.finish(1);
    assert_eq!(
        (results.overflows, results.sync.units.wait_overflows, results.sync.units.wait_most),
        (1, 1, 8)
    );
    assert_eq!((results.sync.coverage.overflowed, results.hardware.slots_differ), (1, 0));
    assert!(results.hardware.most_latched >= 7, "requests of one instant wait for each other");
}

#[test]
fn what_a_child_has_from_its_parent_and_a_parent_from_its_child_is_not_their_own_loss() {
    let mut units = units(2);
    let start = |at, thread, cpu, creator| SyncEvent {
        detail: creator,
        ..event(at, thread, cpu, SyncKind::ThreadStart, 0x7000 + u64::from(thread))
    };
    for event in [
        start(0, 1, 0, 0),
        event(1, 1, 0, SyncKind::WaitEntry, 0x100),
        event(2, 9, 1, SyncKind::SignalEntry, 0x100),
        event(3, 9, 1, SyncKind::SignalExit, 0x100),
        event(62, 1, 0, SyncKind::WaitExit, 0x100),
        event(70, 1, 0, SyncKind::Create, 0),
        event(71, 1, 0, SyncKind::CreateExit, 0x7002),
        start(72, 2, 1, 1),
        event(80, 2, 1, SyncKind::WaitEntry, 0x200),
        event(81, 9, 0, SyncKind::SignalEntry, 0x200),
        event(82, 9, 0, SyncKind::SignalExit, 0x200),
        event(101, 2, 1, SyncKind::WaitExit, 0x200),
        event(110, 1, 0, SyncKind::JoinEntry, 0x7002),
        event(120, 2, 1, SyncKind::ThreadExit, 0x7002),
        event(121, 1, 0, SyncKind::JoinExit, 0x7002),
    ] {
        units.sync(&event, None);
    }
    assert_eq!((units.lost_ns(ThreadId(1)), units.lost_ns(ThreadId(2))), (60_000, 20_000));
    assert_eq!(units.protocol.count_ns(ThreadId(1)), Some(60_000), "the larger one at a join");
}

#[test]
fn a_timer_interrupt_is_lost_time_of_who_runs() {
    let mut units = units(1);
    let kernel = |at_us: u64, kind| KernelEvent { at_ns: at_us * 1_000, cpu: 0, kind };
    units.sync(&event(0, 1, 0, SyncKind::ThreadStart, 0x7001), None);
    let prev = ThreadId(0);
    units.kernel(&kernel(
        1,
        KernelKind::Switch { prev, next: ThreadId(1), prev_state: OffCpu::Blocked, priorities: None },
    ));
    units.kernel(&kernel(10_000, KernelKind::IrqEnter { timer: true }));
    units.kernel(&kernel(10_025, KernelKind::IrqExit));
    assert_eq!(units.lost_ns(ThreadId(1)), 25_000);
    let results = units.finish(1);
    let timer = results.sync.others.iter().find(|other| other.class.name() == "timer").unwrap();
    assert_eq!((timer.lost.total_ns, results.hardware.slots_differ), (25_000, 0));
}
