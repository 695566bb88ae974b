//! How long the page faults of a receiver last.

use super::own::{body, busy, call, dues, found, from, sample};
use super::scene::{RECEIVER, SERVICE_NS, analyze, event};
use crate::model::PacketRun;
use quaver_abi::record::{EventKind, NO_STACK, SAMPLE_PERIOD_NS};

const PERIOD: i64 = SAMPLE_PERIOD_NS as i64;
const LENGTH: i64 = 8 * PERIOD;
/// A fault each 30 µs is too slow for the rule that faults in a row follow each other.
const APART: i64 = 30_000;
const COPIES: u32 = 5;
const COMPUTES: u32 = 1;

fn fault(at: i64) -> quaver_abi::record::EventRecord {
    event(EventKind::PageFault, 1, at, at, RECEIVER, 0x7000)
}

/// The receiver touches pages for [`LENGTH`], and samples find it in `kernel` and `user`.
fn touching(kernel: u32, user: u32) -> PacketRun {
    let mut run = busy(LENGTH);
    let copies = ["copy_page", "do_wp_page", "exc_page_fault", "asm_exc_page_fault"].map(str::to_owned);
    run.names.stack.insert(COPIES, copies.to_vec());
    run.events.extend((0..LENGTH / APART).map(|number| fault(from() + number * APART)));
    run.events.extend(dues(from(), from() + LENGTH).flat_map(|at| sample(at, kernel, user)));
    run
}

fn times(run: &PacketRun) -> (i64, i64) {
    let causes = analyze(run).summary.causes;
    let time = |source: &str| found(&causes, source).map_or(0, body);
    (time("faults"), time("own-code"))
}

/// Late time of a stop that nothing but the interrupts of the samples took.
fn late_ns() -> i64 {
    let interrupts = dues(from(), from() + LENGTH).count() as i64 * 3_000;
    LENGTH - 1_000 + SERVICE_NS - interrupts
}

#[test]
fn slow_faults_are_faults_where_samples_find_the_receiver_in_them() {
    let run = touching(COPIES, COMPUTES);
    let (faults, code) = times(&run);
    // What follows the last fault of the row has a length of its own, of which nothing is known.
    let last = LENGTH - LENGTH / APART * APART + APART;
    assert!(faults + code >= late_ns() - 20_000, "{faults} {code}");
    assert!(code <= last, "{code}");
    let analysis = analyze(&run);
    let cause = found(&analysis.summary.causes, "faults").unwrap();
    // The usual 1 us of each is certain, and of the eight that a sample met all before it. The rest is inferred.
    let certain_ns = body(cause) - cause.inferred_ns;
    assert!((LENGTH / APART * 1_000..LENGTH / 10).contains(&certain_ns), "{certain_ns}");
}

#[test]
fn between_fast_faults_the_receiver_computes() {
    let run = touching(NO_STACK, COMPUTES);
    let (faults, code) = times(&run);
    assert!(faults <= LENGTH / APART * 1_000, "{faults}");
    assert!(code >= late_ns() - faults - 20_000, "{code}");
}

#[test]
fn a_sample_in_one_fault_says_how_long_that_lasted_and_nothing_of_others() {
    let mut run = busy(LENGTH);
    let copies = ["clear_huge_page", "exc_page_fault"].map(str::to_owned);
    run.names.stack.insert(COPIES, copies.to_vec());
    let due: Vec<i64> = dues(from(), from() + LENGTH).collect();
    run.events.extend(due.iter().zip(0..).flat_map(|(&at, number)| {
        let kernel = if number == 3 { COPIES } else { NO_STACK };
        sample(at, kernel, COMPUTES)
    }));
    run.events.push(fault(due[3] - 100_000));
    let (faults, _) = times(&run);
    // From the fault to the sample, without the interrupt in which it was taken.
    assert_eq!(faults, 100_000 - 2_000);
    run.events.push(call(due[3] - 50_000, due[3] + 400_000));
    assert_eq!(times(&run).0, 1_000, "a system call that began meanwhile ended it");
}

#[test]
fn a_silence_is_no_part_of_a_fault() {
    let mut run = touching(COPIES, COMPUTES);
    let (faults, _) = times(&run);
    // One stretch of that length more, in which the samples are missing for three periods.
    let due: Vec<i64> = dues(from(), from() + LENGTH).collect();
    let (silent, heard) = (due[2] + 50_000, due[5] + 50_000);
    run.events.retain(|event| {
        let at = event.start_ns as i64;
        !(silent..heard).contains(&at) || event.kind == EventKind::Thread as u8
    });
    let (without, _) = times(&run);
    assert!(faults - without >= heard - silent - 2 * APART, "{faults} {without}");
}

/// The receiver has faults for [`LENGTH`], two each 10 µs: the second follows after 2 µs, and the next after 8 µs of work.
fn computing(kernel: u32) -> PacketRun {
    let mut run = touching(kernel, COMPUTES);
    run.events.retain(|event| event.kind != EventKind::PageFault as u8);
    run.events.extend((0..LENGTH / 10_000).flat_map(|number| {
        let at = from() + number * 10_000;
        [fault(at), fault(at + 2_000)]
    }));
    run
}

#[test]
fn a_program_that_computes_between_frequent_faults_is_not_in_them() {
    let (faults, code) = times(&computing(NO_STACK));
    // 2 us for each of two faults in 10 us.
    assert!(faults <= LENGTH / 10 * 4, "{faults}");
    assert!(code >= LENGTH / 2, "{code}");
    let (faults, code) = times(&computing(COPIES));
    assert!(faults >= LENGTH / 10 * 9 && code <= LENGTH / 10, "samples find it in faults: {faults} {code}");
}
