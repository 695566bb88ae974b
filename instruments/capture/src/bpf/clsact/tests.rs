//! Filters of ours among others, in namespaces that the tests make.

use super::super::tests::{PACKETS, answering, index_of, privileged, send};
use super::super::{CapturePrograms, Records};
use super::*;
use quaver_host::netns::{Lab, LabEnd};
use std::os::fd::AsFd;

/// What a filter may answer (linux/pkt_cls.h).
const DROP: i32 = 2;

/// Our programs, and a lab with nothing at the hook.
fn ready() -> (Lab, u32, CapturePrograms, Records) {
    let lab = Lab::create().unwrap();
    let index = lab.sink.within(|| index_of(&lab.sink.interface)).unwrap();
    let programs = CapturePrograms::load(false, 1 << 20, true).unwrap();
    let records = programs.records().unwrap();
    assert!(!disciplined(&lab.sink, index));
    (lab, index, programs, records)
}

fn hook(index: u32) -> Hook {
    Hook { socket: RouteSocket::open().unwrap(), index: index.cast_signed() }
}

fn disciplined(at: &LabEnd, index: u32) -> bool {
    let kinds = at.within(|| RouteSocket::open().unwrap().queueing_disciplines(index).unwrap()).unwrap();
    kinds.iter().any(|kind| kind == KIND)
}

/// Filters of ours that are there.
fn ours(at: &LabEnd, index: u32) -> usize {
    at.within(|| {
        hook(index).filters(INGRESS).unwrap_or_default().iter().filter(|filter| is_ours(filter)).count()
    })
    .unwrap()
}

fn hang(at: &LabEnd, programs: &CapturePrograms, index: u32) -> Filter {
    at.within(|| Filter::hang(programs.program(super::super::TC).unwrap(), index).unwrap()).unwrap()
}

fn seen(lab: &Lab, records: &mut Records) -> usize {
    send(lab);
    let mut seen = 0;
    records.drain(usize::MAX, |record| seen += usize::from(record.length == 333 + 42));
    seen
}

#[test]
fn a_filter_sees_every_packet_and_goes_without_a_trace() {
    if !privileged("a_filter_sees_every_packet_and_goes_without_a_trace") {
        return;
    }
    let (lab, index, programs, mut records) = ready();
    let filter = hang(&lab.sink, &programs, index);
    assert_eq!((seen(&lab, &mut records), ours(&lab.sink, index)), (PACKETS, 1));
    // Not in its namespace: the interface is found all the same.
    let at_once = filter.remover();
    drop(filter);
    assert_eq!((seen(&lab, &mut records), disciplined(&lab.sink, index)), (0, false));
    at_once.now();
}

#[test]
fn what_killed_processes_left_is_removed_by_the_next() {
    if !privileged("what_killed_processes_left_is_removed_by_the_next") {
        return;
    }
    let (lab, index, programs, mut records) = ready();
    for _ in 0..3 {
        // The kernel closes a dead process's socket, and nothing else of this.
        let left = hang(&lab.sink, &programs, index).0.lock().unwrap().take();
        assert!(left.is_some_and(|hung| hung.ours));
        assert_eq!(ours(&lab.sink, index), 1);
    }
    assert_eq!(seen(&lab, &mut records), PACKETS);
    let last = hang(&lab.sink, &programs, index);
    assert_eq!((ours(&lab.sink, index), seen(&lab, &mut records)), (1, PACKETS));
    drop(last);
    assert_eq!((seen(&lab, &mut records), disciplined(&lab.sink, index)), (0, false));
}

#[test]
fn captures_beside_each_other_and_the_last_takes_the_discipline_along() {
    if !privileged("captures_beside_each_other_and_the_last_takes_the_discipline_along") {
        return;
    }
    let (lab, index, programs, mut records) = ready();
    for first_ends_first in [true, false] {
        let first = hang(&lab.sink, &programs, index);
        let second = hang(&lab.sink, &programs, index);
        assert_eq!((ours(&lab.sink, index), seen(&lab, &mut records)), (2, 2 * PACKETS));
        let (ends, stays) = if first_ends_first { (first, second) } else { (second, first) };
        drop(ends);
        assert_eq!((ours(&lab.sink, index), seen(&lab, &mut records)), (1, PACKETS));
        drop(stays);
        assert!(!disciplined(&lab.sink, index));
    }
    let all: Vec<Filter> = (0..PLACES).map(|_| hang(&lab.sink, &programs, index)).collect();
    let one_more =
        lab.sink.within(|| Filter::hang(programs.program(super::super::TC).unwrap(), index)).unwrap();
    assert!(one_more.unwrap_err().to_string().contains("16 captures hold"));
    drop(all);
    assert!(!disciplined(&lab.sink, index));
}

#[test]
fn what_others_have_at_the_hook_hides_nothing_and_stays() {
    if !privileged("what_others_have_at_the_hook_hides_nothing_and_stays") {
        return;
    }
    let (lab, index, programs, mut records) = ready();
    let foreign = answering(DROP);
    let handle = TcHandle { major: 0, minor: 1 };
    let theirs = lab
        .sink
        .within(|| {
            let mut theirs = hook(index);
            assert!(theirs.discipline().unwrap());
            theirs.add(foreign.as_fd(), handle).unwrap();
            theirs.filters(INGRESS).unwrap()
        })
        .unwrap();
    let filter = hang(&lab.sink, &programs, index);
    assert_eq!((seen(&lab, &mut records), ours(&lab.sink, index)), (PACKETS, 1));
    drop(filter);
    assert!(disciplined(&lab.sink, index));
    assert_eq!(lab.sink.within(|| hook(index).filters(INGRESS).unwrap()).unwrap(), theirs);
}
