//! The capture's programs among those of others.

use super::*;
use libbpf_rs::libbpf_sys::{BPF_PROG_TYPE_SCHED_CLS, bpf_insn, bpf_prog_load};
use quaver_host::netns::Lab;
pub(super) use quaver_testbed::privileged::privileged;
use std::net::UdpSocket;
use std::ptr::null_mut;

/// What a program at the hook may answer (linux/bpf.h), which ends the chain.
const TCX_PASS: i32 = 0;
const TCX_DROP: i32 = 2;

/// A program that gives every packet this answer.
pub(super) fn answering(answer: i32) -> OwnedFd {
    let instruction = |code: u8, immediate: i32| {
        let mut instruction = bpf_insn { code, imm: immediate, ..Default::default() };
        instruction.set_dst_reg(0);
        instruction
    };
    // r0 = answer; exit
    let program = [instruction(0xb7, answer), instruction(0x95, 0)];
    // SAFETY: name and licence are NUL-terminated, and as many instructions are there as are told; none is an option.
    let descriptor = unsafe {
        bpf_prog_load(
            BPF_PROG_TYPE_SCHED_CLS,
            c"foreign".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as _,
            null_mut(),
        )
    };
    assert!(descriptor >= 0, "{}", io::Error::from_raw_os_error(-descriptor));
    // SAFETY: the descriptor was made just now and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

#[test]
fn programs_of_others_at_the_hook_hide_no_packet_from_ours() {
    if !privileged("programs_of_others_at_the_hook_hide_no_packet_from_ours") {
        return;
    }
    for answer in [TCX_PASS, TCX_DROP] {
        assert_eq!(seen_beside(answer, |programs, index| programs.attach_tc(index)), PACKETS, "{answer}");
        // So that it is known what the place is good for: at the end of the chain nothing arrives.
        let last = |programs: &CapturePrograms, index| programs.attach(TC, index, BPF_TCX_INGRESS, 0);
        assert_eq!(seen_beside(answer, last), 0, "{answer}");
    }
}

pub(super) const PACKETS: usize = 20;

/// How many of the packets have a record, where a program with this answer was there before ours.
fn seen_beside(answer: i32, attach: impl Fn(&CapturePrograms, u32) -> io::Result<Attached> + Sync) -> usize {
    let lab = Lab::create().unwrap();
    let programs = CapturePrograms::load(false, 1 << 20, true).unwrap();
    let mut records = programs.records().unwrap();
    let foreign = answering(answer);
    let index = lab.sink.within(|| index_of(&lab.sink.interface)).unwrap();
    let _links = lab
        .sink
        .within(|| {
            let theirs = link(foreign.as_fd(), index, BPF_TCX_INGRESS, 0).unwrap();
            (theirs, attach(&programs, index).unwrap())
        })
        .unwrap();
    send(&lab);
    let mut seen = 0;
    records.drain(usize::MAX, |record| seen += usize::from(record.length == 333 + 42));
    seen
}

/// Sends the packets from the lab's source, each of 333 bytes of payload.
pub(super) fn send(lab: &Lab) {
    lab.source
        .within(|| {
            let socket = UdpSocket::bind((lab.source.ipv4, 0)).unwrap();
            // The refusal of a port where nobody listens is the answer to a packet that arrived.
            (0..PACKETS).for_each(|_| while socket.send_to(&[7; 333], (lab.sink.ipv4, 9)).is_err() {});
        })
        .unwrap();
}

pub(super) fn index_of(name: &str) -> u32 {
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: the name is NUL-terminated and lives through the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

#[test]
fn programs_that_could_read_the_counter_stamp_by_what_the_kernel_has() {
    if !privileged("programs_that_could_read_the_counter_stamp_by_what_the_kernel_has") {
        return;
    }
    let lab = Lab::create().unwrap();
    let index = lab.sink.within(|| index_of(&lab.sink.interface)).unwrap();
    let shown = counter_is_shown();
    // Asked to stamp by cycles; told not to; and the same by what is chosen here.
    let loaded = [
        (CapturePrograms::load_from(CYCLES_OBJECT, true, 1 << 20), shown),
        (CapturePrograms::load(true, 1 << 20, false), false),
        (CapturePrograms::load(true, 1 << 20, true), shown),
    ];
    for (programs, cycles) in loaded {
        let programs = programs.unwrap();
        let mut records = programs.records().unwrap();
        let attached = lab.sink.within(|| {
            (programs.attach_xdp(index, XdpMode::Native).unwrap(), programs.attach_clsact(index).unwrap())
        });
        let attached = attached.unwrap();
        send(&lab);
        let mut flags = Vec::new();
        records.drain(usize::MAX, |record| {
            if record.length == 333 + 42 {
                assert!(record.xdp != 0 && record.xdp <= record.tc, "{record:?}");
                flags.push(record.flags);
            }
        });
        assert_eq!(flags, vec![if cycles { XDP_IN_CYCLES | TC_IN_CYCLES } else { 0 }; PACKETS]);
        drop(attached);
    }
}

#[test]
fn records_have_room_for_every_packet_of_the_rings() {
    // 64 MiB hold 466,033 packets of 144 bytes, whose records take 56 bytes each.
    assert_eq!(records_bytes(64 << 20), 32 << 20);
    assert_eq!((records_bytes(0), records_bytes(u64::MAX)), (1 << 16, 1 << 28));
    for bytes in [1u64, 4096, 1 << 20, 12_345_678, 64 << 20, 512 << 20] {
        let room = u64::from(records_bytes(bytes));
        assert!(
            room / RECORD_BYTES >= bytes / LEAST_PACKET_BYTES && room.is_power_of_two(),
            "{bytes}: {room}"
        );
    }
}

#[test]
fn a_program_for_a_device_goes_where_its_driver_tells_programs_of_packets() {
    if !privileged("a_program_for_a_device_goes_where_its_driver_tells_programs_of_packets") {
        return;
    }
    let lab = Lab::create().unwrap();
    let refused = lab
        .sink
        .within(|| {
            // A veth's does (drivers/net/veth.c), the loopback's does not.
            let index = index_of(&lab.sink.interface);
            let attached = CapturePrograms::attach_device_xdp(index, true);
            drop(attached.unwrap());
            let again = CapturePrograms::attach_device_xdp(index, true);
            again.unwrap();
            CapturePrograms::attach_device_xdp(index_of("lo"), true).unwrap_err().to_string()
        })
        .unwrap();
    assert!(refused.contains("BPF program"), "{refused}");
}
