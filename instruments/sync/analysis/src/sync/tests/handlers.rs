//! Interrupts and system calls: what they take from a thread that runs its own code.

use super::scene::{Scene, pieces};
use crate::sync::{
    Cause, KernelEvent, KernelKind, KernelReason, OtherClass, Settings, SyncResults, ThreadId,
};
use quaver_abi::kernel_side::{KernelSideKind, KernelSideRecord};
use quaver_abi::record::OffCpu;
use quaver_abi::sync::SyncKind::{SignalEntry, SignalExit, ThreadExit, ThreadStart, WaitEntry, WaitExit};

const C: u64 = 0x1000;

/// Number and microseconds.
fn lost(results: &SyncResults, class: OtherClass) -> (u64, u64) {
    let sums = &results.others[class as usize].lost;
    (sums.count, sums.total_ns / 1_000)
}

/// Thread 1 runs on CPU 1 from 1 on.
fn running() -> Scene {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 0xa1);
    scene.switch(1, 1, 0, 1, OffCpu::Unknown);
    scene
}

fn system_call(thread: u32, blocked_us: u64) -> KernelKind {
    let blocked_ns = blocked_us * 1_000;
    let thread = ThreadId(thread);
    KernelKind::SystemCall { thread, blocked_ns, inside_ns: blocked_ns, number: 0, only_waits: false }
}

fn irq(scene: &mut Scene, us: u64, end_us: u64, cpu: u16, timer: bool) {
    scene.kernel(us, cpu, KernelKind::IrqEnter { timer });
    scene.kernel(end_us, cpu, KernelKind::IrqExit);
}

#[test]
fn interrupts_of_a_running_thread_are_lost_time_by_who_interrupts() {
    let mut scene = running();
    irq(&mut scene, 100, 103, 1, true);
    scene.kernel(103, 1, KernelKind::SoftirqEnter { timer: true });
    scene.kernel(108, 1, KernelKind::SoftirqExit);
    irq(&mut scene, 200, 207, 1, false);
    // On another CPU, while another thread runs, and while nobody does.
    irq(&mut scene, 300, 310, 2, true);
    scene.switch(400, 1, 1, 7, OffCpu::Blocked);
    irq(&mut scene, 410, 420, 1, true);
    scene.switch(430, 1, 7, 0, OffCpu::Blocked);
    irq(&mut scene, 440, 450, 1, false);
    scene.switch(460, 1, 0, 1, OffCpu::Unknown);
    scene.at(500, 1, ThreadExit, 0xa1);
    irq(&mut scene, 510, 520, 1, true);
    let results = scene.results();
    assert_eq!(lost(&results, OtherClass::Timer), (2, 3 + 5));
    assert_eq!(lost(&results, OtherClass::Interrupt), (1, 7));
    let path = &results.critical_path;
    assert_eq!((path.length_ns, path.other_ns, path.execution_ns), (500_000, 15_000, 425_000));
    assert_eq!(path.slept_ns, 60_000, "from 400 to 460");
    assert_eq!(results.sync_share.threads_total, Some(0.0));
    assert_eq!((results.threads[0].other.total_ns, results.threads[0].count_ns), (15_000, 15_000));
    assert_eq!(results.cores.iter().map(|core| core.other.total_ns).max(), Some(15_000));
    assert_eq!(results.units.wait_most, 1);
}

#[test]
fn a_handler_inside_another_counts_once() {
    let mut scene = running();
    scene.kernel(100, 1, KernelKind::SoftirqEnter { timer: false });
    irq(&mut scene, 104, 106, 1, true);
    irq(&mut scene, 107, 108, 1, false);
    scene.kernel(110, 1, KernelKind::SoftirqExit);
    let results = scene.results();
    assert_eq!(lost(&results, OtherClass::Timer), (1, 2));
    assert_eq!(lost(&results, OtherClass::Interrupt), (2, 7 + 1));
    assert_eq!(results.critical_path.other_ns, 10_000);
}

#[test]
fn inside_a_wait_an_interrupt_is_its_cause_and_nothing_else() {
    let mut scene = running();
    scene.at(0, 2, ThreadStart, 0xa2);
    scene.at(10, 1, WaitEntry, C);
    scene.at(100, 2, SignalEntry, C);
    scene.at(101, 2, SignalExit, C);
    irq(&mut scene, 110, 118, 1, true);
    // The recorder's clock and the kernel's are a little apart: the wait ends inside the handler.
    scene.kernel(195, 1, KernelKind::IrqEnter { timer: true });
    scene.at(200, 1, WaitExit, C);
    scene.kernel(203, 1, KernelKind::IrqExit);
    // One that began before such a wait, and one that began outside and ended in it.
    irq(&mut scene, 300, 304, 1, true);
    scene.kernel(395, 1, KernelKind::IrqEnter { timer: true });
    scene.at(400, 1, WaitEntry, C);
    scene.kernel(405, 1, KernelKind::IrqExit);
    let results = scene.results();
    let wait = &results.longest[0];
    assert_eq!(
        pieces(wait),
        [(Cause::Running, 10), (Cause::Interrupt, 8), (Cause::Running, 77), (Cause::Interrupt, 5)]
    );
    assert_eq!(lost(&results, OtherClass::Timer), (1, 4));
    assert_eq!(results.critical_path.other_ns, 4_000);
}

#[test]
fn ends_that_were_lost_end_with_the_switch() {
    let mut scene = running();
    scene.kernel(100, 1, KernelKind::IrqEnter { timer: false });
    scene.switch(106, 1, 1, 7, OffCpu::Blocked);
    scene.switch(150, 1, 7, 1, OffCpu::Blocked);
    // Nothing is open: this one belongs to a beginning that was not seen.
    scene.kernel(160, 1, KernelKind::SoftirqExit);
    // Nine that never end: no more than eight are kept, and each holds the thread up until the next.
    for us in 200..209 {
        scene.kernel(us, 1, KernelKind::IrqEnter { timer: true });
    }
    scene.switch(209, 1, 1, 0, OffCpu::Blocked);
    let results = scene.results();
    assert_eq!(lost(&results, OtherClass::Interrupt), (1, 6));
    assert_eq!(lost(&results, OtherClass::Timer), (9, 9));
}

#[test]
fn system_calls_count_with_their_sleep_above_the_threshold() {
    let mut scene = Scene::with(Settings { system_call_threshold_ns: 20_000, ..Settings::default() });
    scene.at(0, 1, ThreadStart, 0xa1);
    scene.switch(1, 1, 0, 1, OffCpu::Unknown);
    let call = |blocked_us: u64| system_call(1, blocked_us);
    // It sleeps from 100 to 150, then a timer and somebody else delay its way out.
    scene.switch(100, 1, 1, 0, OffCpu::Blocked);
    scene.wakeup(150, 1, 1, 1);
    scene.switch(150, 1, 0, 1, OffCpu::Unknown);
    irq(&mut scene, 152, 155, 1, true);
    scene.switch(160, 1, 1, 7, OffCpu::Preempted);
    scene.switch(170, 1, 7, 1, OffCpu::Blocked);
    scene.kernel(175, 1, call(50));
    // At the threshold, and not at all.
    scene.kernel(200, 1, call(20));
    scene.kernel(300, 1, call(0));
    scene.at(400, 1, WaitEntry, C);
    // Inside a call of the library that call is longer.
    scene.kernel(480, 1, call(60));
    let results = scene.results();
    assert_eq!(lost(&results, OtherClass::SystemCall), (1, 50));
    assert_eq!(lost(&results, OtherClass::Timer), (1, 3));
    assert_eq!(lost(&results, OtherClass::Preemption), (1, 10));
    // All of it, though the sleep is told of after the others.
    assert_eq!((results.critical_path.other_ns, results.critical_path.execution_ns), (63_000, 337_000));
}

#[test]
fn records_of_the_kernel_become_what_they_are() {
    let event = |kind: KernelSideKind, operand: u32, detail: u8| {
        let record = KernelSideRecord {
            at_ns: 5,
            thread: 9,
            value: 90_000,
            other: 70_000,
            operand,
            detail,
            kind: kind as u8,
            ..KernelSideRecord::default()
        };
        KernelEvent::from_record(&record).map(|event| event.kind)
    };
    let timer = KernelKind::IrqEnter { timer: true };
    assert_eq!(event(KernelSideKind::IrqEnter, 0x10000 + 236, 0), Some(timer));
    assert_eq!(event(KernelSideKind::IrqEnter, 24, 0), Some(KernelKind::IrqEnter { timer: false }));
    for (number, timer) in [(1, true), (8, true), (0, false), (3, false), (7, false), (9, false)] {
        let softirq = KernelKind::SoftirqEnter { timer };
        assert_eq!(event(KernelSideKind::SoftirqEnter, number, 0), Some(softirq));
    }
    let call = |number, only_waits| {
        let (thread, blocked_ns, inside_ns) = (ThreadId(9), 70_000, 90_000);
        KernelKind::SystemCall { thread, blocked_ns, inside_ns, number, only_waits }
    };
    assert_eq!(event(KernelSideKind::SystemCall, 17, 0), Some(call(17, false)));
    assert_eq!(event(KernelSideKind::SystemCall, 230, 1), Some(call(230, true)));
    let futex = KernelKind::Enter { thread: ThreadId(9), reason: KernelReason::Futex };
    assert_eq!(event(KernelSideKind::FutexEnter, 0, 0), Some(futex));
}
