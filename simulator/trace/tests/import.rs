//! Traces of other tools become ours: exact steps of small ones, and what cannot be true is refused with its place.

mod import_made;
mod trace_checks;

use import_made::{LACKEY, PRISM, PTHREAD, Record, SIGIL, begin, champsim, drmemtrace, entries};
use quaver_trace::block::{Block, Class, Instruction, Registers};
use quaver_trace::file::TraceReader;
use quaver_trace::import::{Format, ImportError, Imported, Input, import};
use quaver_trace::step::{Access, Step, Sync, Thread, Wakeup};
use std::io::Write as _;
use trace_checks::steps;

type Expected = Vec<(Step, Vec<Access>)>;

fn took_in(format: Format, inputs: &[(&str, &[u8])]) -> (TraceReader<Vec<u8>>, Imported) {
    let inputs = inputs.iter().map(|(name, octets)| Input::new(*name, *octets)).collect();
    let (octets, imported) = import(format, inputs, Vec::new()).unwrap();
    (TraceReader::open(octets).unwrap(), imported)
}

fn refused(format: Format, inputs: &[(&str, &[u8])]) -> String {
    let inputs = inputs.iter().map(|(name, octets)| Input::new(*name, *octets)).collect();
    match import(format, inputs, Vec::new()) {
        Err(error @ (ImportError::Damaged { .. } | ImportError::Inputs(_))) => error.to_string(),
        other => panic!("it is refused: {:?}", other.map(|(_, imported)| imported)),
    }
}

fn set(registers: &[u8]) -> Registers {
    registers.iter().fold(Registers::default(), |set, register| set.and(Registers::of(*register)))
}

/// An instruction without registers; `memory` has `l` where it loads and `s` where it stores.
fn plain(octets: u8, class: Class, memory: &str) -> Instruction {
    Instruction {
        octets,
        class,
        loads: memory.contains('l'),
        stores: memory.contains('s'),
        reads: Registers::default(),
        writes: Registers::default(),
    }
}

fn block(number: u32, accesses: &[(u16, u64, u8, bool)]) -> (Step, Vec<Access>) {
    let access = |&(instruction, address, octets, write): &(u16, u64, u8, bool)| Access {
        address,
        instruction,
        octets,
        write,
    };
    (Step::Block { number }, accesses.iter().map(access).collect())
}

fn sync(sync: Sync) -> (Step, Vec<Access>) {
    (Step::Sync(sync), Vec::new())
}

fn end() -> (Step, Vec<Access>) {
    (Step::End, Vec::new())
}

fn expect(trace: &TraceReader<Vec<u8>>, blocks: &[Block], threads: &[Expected]) {
    assert_eq!(trace.dictionary.blocks, blocks);
    assert_eq!(trace.threads().count(), threads.len());
    for (thread, expected) in threads.iter().enumerate() {
        assert_eq!(steps(trace, thread as u32).unwrap(), *expected, "thread {thread}");
    }
}

#[test]
fn drmemtrace_is_taken_in_thread_by_thread_in_the_order_of_its_time_stamps() {
    use Class::{Branch, Integer};
    let [first, second] = drmemtrace();
    let (trace, imported) = took_in(Format::Drmemtrace, &[("a", &first), ("b", &second)]);
    let of = |pc, instructions| Block { pc, instructions };
    let blocks = [
        of(0x40_1000, vec![plain(4, Integer, "l"), plain(2, Branch, "")]),
        of(0x40_1100, vec![plain(3, Integer, "s")]),
        of(0x40_1103, vec![plain(5, Integer, ""), plain(1, Branch, "l")]),
        of(0x40_1200, vec![plain(2, Integer, "")]),
    ];
    let threads = [
        vec![
            block(0, &[(0, 0x7000, 8, false)]),
            block(1, &[(0, 0x7100, 4, true)]),
            sync(Sync::Create { thread: Thread(1) }),
            block(2, &[(1, 0x7fff0, 8, false)]),
            end(),
        ],
        vec![block(1, &[(0, 0x7104, 4, true)]), block(3, &[]), end()],
    ];
    expect(&trace, &blocks, &threads);
    assert_eq!(trace.facts.architecture, "x86-64");
    assert!(trace.facts.tool.ends_with("from drmemtrace of version 5"), "{}", trace.facts.tool);
    assert_eq!(trace.facts.lacks, imported.lacks);
    assert_eq!(trace.facts.lacks.len(), 3);
    let counts = (imported.threads, imported.instructions, imported.accesses, imported.syncs);
    assert_eq!(counts, (2, 7, 4, 1));
    let left_out: Vec<(&str, u64)> = imported.left_out.into_iter().collect();
    assert_eq!(left_out, [("encodings of instructions", 1), ("prefetches", 1)]);
}

#[test]
fn encodings_of_drmemtrace_tell_registers_and_classes() {
    let mut all = begin(7, 0);
    all[2].2 = 0x40 | 0x200;
    let told = |octets: &[u8]| {
        let mut word = [0; 8];
        word[..octets.len()].copy_from_slice(octets);
        (47, octets.len() as u16, u64::from_le_bytes(word))
    };
    all.extend([
        told(&[0x48, 0x8b, 0x07]), // mov rax, [rdi]
        (10, 3, 0x1000),
        (0, 8, 0x7000),
        told(&[0x48, 0xf7, 0xe1]), // mul rcx
        (10, 3, 0x1003),
        // movabs rdx, 0x0102030405060708 has more bytes than an entry
        told(&[0x48, 0xba, 8, 7, 6, 5, 4, 3]),
        told(&[2, 1]),
        (10, 10, 0x1006),
        told(&[0x75, 0xee]), // jnz 0x1000
        (48, 2, 0x1010),
        // Again, which is not told again; but the second has changed: div rcx
        (10, 3, 0x1000),
        (0, 8, 0x7008),
        told(&[0x48, 0xf7, 0xf1]),
        (10, 3, 0x1003),
        // Those of another instruction set are of another length; and of this one nothing is told.
        told(&[0x01, 0x02, 0x03, 0x04]),
        (10, 2, 0x1006),
        (10, 1, 0x1008),
        (26, 0, 0),
    ]);
    let (trace, imported) = took_in(Format::Drmemtrace, &[("a", &entries(&all))]);
    let with = |octets, class, memory: &str, reads: &[u8], writes: &[u8]| Instruction {
        reads: set(reads),
        writes: set(writes),
        ..plain(octets, class, memory)
    };
    let load = with(3, Class::Integer, "l", &[7], &[0]);
    let product = with(3, Class::Multiply, "", &[0, 1], &[0, 2, 32]);
    let constant = with(10, Class::Integer, "", &[], &[2]);
    let jump = with(2, Class::Branch, "", &[32], &[]);
    let quotient = with(3, Class::Divide, "", &[0, 1, 2], &[0, 2, 32]);
    let unknown = [2, 1].map(|octets| plain(octets, Class::Integer, ""));
    let blocks = [
        Block { pc: 0x1000, instructions: vec![load, product, constant, jump] },
        Block { pc: 0x1000, instructions: vec![load, quotient, unknown[0], unknown[1]] },
    ];
    let threads = [vec![block(0, &[(0, 0x7000, 8, false)]), block(1, &[(0, 0x7008, 8, false)]), end()]];
    expect(&trace, &blocks, &threads);
    assert_eq!(imported.lacks.len(), 1, "registers and classes are there: {:?}", imported.lacks);
    let left_out: Vec<(&str, u64)> = imported.left_out.into_iter().collect();
    let expected = [
        ("encodings of another length than their instruction", 1),
        ("registers of instructions without an encoding", 2),
    ];
    assert_eq!(left_out, expected);
    let mut long = begin(7, 0);
    long[2].2 = 0x40 | 0x200;
    long.extend([told(&[0; 8]), told(&[0; 8]), (26, 0, 0)]);
    let said = refused(Format::Drmemtrace, &[("x", &entries(&long))]);
    assert!(said.contains("byte 84: an instruction has more than 15 bytes"), "{said}");
}

#[test]
fn one_file_may_have_several_threads_and_repeated_and_bundled_instructions() {
    use Class::Integer;
    let mut all = begin(7, 0);
    all[2].2 = 0x04 | 0x100;
    all.extend([
        (10, 2, 0x1000),
        (0, 1, 0x5000),
        (1, 1, 0x6000),
        (29, 2, 0x1000),
        (0, 1, 0x5001),
        (1, 1, 0x6001),
        (22, 4, 8),
        (10, 2, 0x2000),
        (17, 3, 0x0001_0302),
        (22, 4, 7),
        (10, 3, 0x1002),
        (1, 80, 0x8000),
        (26, 0, 0),
    ]);
    let (trace, imported) = took_in(Format::Drmemtrace, &[("a", &entries(&all))]);
    let of = |pc, instructions| Block { pc, instructions };
    let blocks = [
        of(0x1000, vec![plain(2, Integer, "ls")]),
        of(0x1002, vec![plain(3, Integer, "s")]),
        of(0x2000, [2, 2, 3, 1].map(|octets| plain(octets, Integer, "")).to_vec()),
    ];
    let repeated = [(0, 0x5000, 1, false), (0, 0x6000, 1, true), (0, 0x5001, 1, false), (0, 0x6001, 1, true)];
    let threads = [
        vec![
            block(0, &repeated),
            sync(Sync::Create { thread: Thread(1) }),
            block(1, &[(0, 0x8000, 64, true), (0, 0x8040, 16, true)]),
            end(),
        ],
        vec![block(2, &[]), end()],
    ];
    expect(&trace, &blocks, &threads);
    assert_eq!(imported.lacks.len(), 5, "that it was filtered and has no data is said: {:?}", imported.lacks);
}

#[test]
fn an_instruction_of_very_many_accesses_becomes_several() {
    let mut all = begin(7, 0);
    all.push((10, 3, 0x1000));
    all.extend((0..70_000).map(|at| (1, 8, 0x10_0000 + at * 8)));
    all.push((26, 0, 0));
    let (trace, imported) = took_in(Format::Drmemtrace, &[("a", &entries(&all))]);
    let steps = steps(&trace, 0).unwrap();
    let lengths: Vec<usize> = steps.iter().map(|(_, accesses)| accesses.len()).collect();
    assert_eq!(lengths, [65_536, 70_000 - 65_536, 0]);
    assert_eq!(trace.dictionary.blocks.len(), 1);
    assert_eq!((imported.instructions, imported.accesses), (2, 70_000));
}

#[test]
fn what_is_no_drmemtrace_is_refused_with_its_place() {
    let [good, _] = drmemtrace();
    let with = |all: &[(u16, u16, u64)]| {
        let mut whole = begin(7, 0);
        whole.extend(all);
        entries(&whole)
    };
    let said = |octets: &[u8]| refused(Format::Drmemtrace, &[("x.trace", octets)]);
    for (octets, place_and_reason) in [
        (Vec::new(), "byte 0: it ends without a footer"),
        (b"hello, world".to_vec(), "byte 0: it does not begin as a trace of drmemtrace"),
        (entries(&[(25, 0, 9)]), "byte 0: it is of version 9"),
        (entries(&[(25, 0, 5), (28, 9, 0x20)]), "byte 12: it is of a program of 32 bits"),
        (good[..good.len() - 12].to_vec(), "it ends without a footer: it was cut short"),
        (good[..good.len() - 5].to_vec(), "it ends in the middle of a record"),
        (with(&[(0, 8, 0x10), (26, 0, 0)]), "byte 72: memory is accessed before the first instruction"),
        (with(&[(10, 0, 0x10), (26, 0, 0)]), "byte 72: an instruction has no bytes"),
        (with(&[(10, 16, 0x10), (26, 0, 0)]), "byte 72: an instruction has no bytes, or more than 15"),
        (with(&[(17, 1, 3), (26, 0, 0)]), "byte 72: a bundle of instructions follows none"),
        (with(&[(10, 1, 3), (17, 9, 3), (26, 0, 0)]), "byte 84: a bundle of instructions follows none"),
        (with(&[(99, 1, 3), (26, 0, 0)]), "byte 72: an entry is of a kind that is not known"),
        (with(&[(10, 1, 3), (25, 0, 5)]), "byte 84: a header is in its middle"),
        (with(&[(26, 0, 0)]), "there is no instruction in the trace"),
    ] {
        let said = said(&octets);
        assert!(said.contains(place_and_reason), "{said}: {place_and_reason}");
        assert!(said.starts_with("x.trace, ") || said == "there is no instruction in the trace", "{said}");
    }
    let crowd: Vec<(u16, u16, u64)> = (0..5000).flat_map(|tid| [(22, 4, tid), (10, 1, 3)]).collect();
    assert!(said(&with(&crowd)).contains("there are more than 4096 threads"));
}

#[test]
fn champsim_is_taken_in_with_its_registers() {
    let (trace, imported) = took_in(Format::Champsim, &[("a", &champsim())]);
    let load = Instruction { reads: set(&[4]), writes: set(&[8]), ..plain(5, Class::Integer, "l") };
    let add = Instruction { reads: set(&[8]), writes: set(&[32]), ..plain(3, Class::Integer, "ls") };
    // Taken, it is of unknown length; it goes on two bytes behind.
    let jump = Instruction { reads: set(&[32]), ..plain(4, Class::Branch, "") };
    let last = Instruction { reads: set(&[16 + 77 % 16]), ..plain(4, Class::Integer, "") };
    let blocks = [
        Block { pc: 0x40_0000, instructions: vec![load, add, jump] },
        Block { pc: 0x40_0000, instructions: vec![load, add, Instruction { octets: 2, ..jump }] },
        Block { pc: 0x40_000a, instructions: vec![last] },
    ];
    let accesses = [(0, 0x7fff_0010, 1, false), (1, 0x60_0000, 1, false), (1, 0x60_0000, 1, true)];
    expect(&trace, &blocks, &[vec![block(0, &accesses), block(1, &accesses), block(2, &[]), end()]]);
    assert_eq!((imported.threads, imported.instructions, imported.accesses), (1, 7, 6));
}

#[test]
fn programs_of_champsim_run_side_by_side_with_memory_of_their_own() {
    let (trace, _) = took_in(Format::Champsim, &[("a", &champsim()), ("b", &champsim())]);
    let [first, second] = [0, 1].map(|thread| steps(&trace, thread).unwrap());
    assert_eq!(first[0], sync(Sync::Create { thread: Thread(1) }));
    let there = |at: usize| (trace.dictionary.blocks[at].pc, trace.dictionary.blocks[at].pc >> 48);
    let Step::Block { number } = second[0].0 else { panic!("it runs") };
    assert_eq!(there(number as usize), (1 << 48 | 0x40_0000, 1));
    let addresses = |steps: &[(Step, Vec<Access>)]| -> Vec<u64> {
        steps.iter().flat_map(|(_, accesses)| accesses.iter().map(|access| access.address)).collect()
    };
    let moved: Vec<u64> = addresses(&first).iter().map(|address| address | 1 << 48).collect();
    assert_eq!(addresses(&second), moved);
}

#[test]
fn what_is_no_champsim_is_refused_with_its_place() {
    let said = |octets: &[u8]| refused(Format::Champsim, &[("x", octets)]);
    assert_eq!(said(b""), "x, byte 0: it is empty");
    let mut wrong = champsim();
    wrong[64 + 8] = 7;
    assert_eq!(said(&wrong), "x, byte 64: it is told by neither 0 nor 1 whether an instruction jumps");
    assert_eq!(said(&champsim()[..100]), "x, byte 64: it ends in the middle of a record");
    let high = Record { ip: 1 << 60, ..Record::default() };
    assert_eq!(said(&high.octets()), "x, byte 0: an instruction is at no address of a program");
}

fn synchrotrace(events: [&str; 2]) -> (TraceReader<Vec<u8>>, Imported) {
    let inputs = [
        ("run/sigil.events.out-2", events[1].as_bytes()),
        ("run/sigil.pthread.out", PTHREAD.as_bytes()),
        ("run/sigil.events.out-1", events[0].as_bytes()),
    ];
    took_in(Format::Synchrotrace, &inputs)
}

#[test]
fn synchrotrace_is_taken_in_with_its_synchronisation_in_both_dialects() {
    for events in [SIGIL, PRISM] {
        let (trace, imported) = synchrotrace(events);
        // Blocks: 0 to 9 are 1 to 512 integer operations, 10 to 19 floating-point ones, 20 a load, 21 a store.
        let blocks = &trace.dictionary.blocks;
        assert_eq!(blocks.len(), 22);
        assert_eq!((blocks[3].instructions.len(), blocks[3].instructions[0].class), (8, Class::Integer));
        assert_eq!((blocks[10].instructions.len(), blocks[10].instructions[0].class), (1, Class::Float));
        assert!(blocks[20].instructions[0].loads && blocks[21].instructions[0].stores);
        let last = blocks.iter().map(|block| block.pc + block.octets()).max().unwrap();
        assert!(last - blocks.iter().map(|block| block.pc).min().unwrap() < 8192, "it fits into any cache");
        // Five and one operations at three places: 1, 2 and 2, and 0, 0 and 1.
        let first = vec![
            block(0, &[]),
            block(20, &[(0, 0x2000, 8, false)]),
            block(1, &[]),
            block(21, &[(0, 0x1000, 4, true)]),
            block(1, &[]),
            block(10, &[]),
            sync(Sync::Create { thread: Thread(1) }),
            sync(Sync::Barrier { object: 0x60_1080, parties: 2 }),
            sync(Sync::Join { thread: Thread(1) }),
            end(),
        ];
        let (lock, condition) = (0x60_1000, 0x60_1040);
        let second = vec![
            sync(Sync::Lock { object: lock }),
            block(20, &[(0, 0x1000, 4, false)]),
            sync(Sync::Wait { object: condition, mutex: lock, by: None }),
            sync(Sync::Unlock { object: lock }),
            sync(Sync::Barrier { object: 0x60_1080, parties: 2 }),
            sync(Sync::Broadcast { object: condition, wakeup: Wakeup(8) }),
            end(),
        ];
        expect(&trace, &blocks.clone(), &[first, second]);
        assert_eq!((imported.threads, imported.instructions, imported.accesses), (2, 9, 3));
        assert_eq!((imported.syncs, imported.left_out["counts of instructions"]), (8, 1));
    }
}

#[test]
fn an_event_has_as_many_accesses_as_it_says_and_all_octets_of_its_ranges() {
    let event = "@ 0,0,5,2 $ 0x100 0x17f * 0x1000 0x100f * 0x2004 0x2004";
    let (trace, imported) = took_in(Format::Synchrotrace, &[("sigil.events.out-1", event.as_bytes())]);
    let accesses: Vec<Access> = steps(&trace, 0).unwrap().into_iter().flat_map(|(_, its)| its).collect();
    let of = |write: bool| -> Vec<(u64, u8)> {
        let its = accesses.iter().filter(|access| access.write == write);
        its.map(|access| (access.address, access.octets)).collect()
    };
    // 17 bytes by five reads: of four bytes each, the last alone.
    assert_eq!(of(false), [(0x1000, 4), (0x1004, 4), (0x1008, 4), (0x100c, 4), (0x2004, 1)]);
    assert_eq!(of(true), [(0x100, 64), (0x140, 64)]);
    assert_eq!((imported.instructions, imported.accesses), (7, 7));
    let again = "@ 0,0,3,0 * 0x1000 0x1000";
    let (trace, _) = took_in(Format::Synchrotrace, &[("sigil.events.out-1", again.as_bytes())]);
    assert_eq!(trace.step_count(), 4, "one byte was read three times");
}

#[test]
fn what_is_no_synchrotrace_is_refused_with_its_line() {
    let said = |events: &str| {
        let inputs = [("sigil.pthread.out", PTHREAD.as_bytes()), ("sigil.events.out-1", events.as_bytes())];
        refused(Format::Synchrotrace, &inputs)
    };
    for (events, reason) in [
        ("hello", "line 1: \"hello\" is no number"),
        ("7", "line 1: it is no event"),
        ("\n\n0,2,1,1,0,0", "line 3: it is an event of thread 2 in the file of 1"),
        ("0,1,1,1,0", "line 1: an event has four counts"),
        ("@ 1,1,0,0 $ 0x10", "line 1: a range has no end"),
        ("@ 1,1,0,0 $ 0x10 0xf", "line 1: a range ends before it begins"),
        ("@ 1,1,1,0", "line 1: an event reads or writes and does not say where"),
        ("@ 1,1,0,0 ? 0x10 0x11", "line 1: \"?\" is neither $ nor *"),
        ("@ 1,1,1,0 * 0 0xffffffffffffffff", "line 1: an event accesses more than 16 MiB"),
        ("@ 18446744073709551615,1,0,0", "line 1: an event does more than 2^30 operations"),
        ("0,1 # 1 0 0x10", "line 1: a range has no end"),
        ("0,1 # 1 x 0x10 0x11", "line 1: it does not say which thread's event"),
        ("^ 1", "line 1: a call has no object"),
        ("^ 3^0x5", "line 1: no thread with events is 0x5"),
        ("^ 3^0x22175", "line 1: no thread with events is 0x22175"),
        ("^ 5^0x5", "line 1: sigil.pthread.out does not say who meets at this barrier"),
        ("^ 12^0x5", "line 1: it is a call of a semaphore"),
        ("^ 99^0x5", "line 1: 99 is no call of the thread library"),
        ("@ +1,1,0,0", "line 1: \"+1\" is no number"),
    ] {
        let said = said(events);
        assert!(said.starts_with(&format!("sigil.events.out-1, {reason}")), "{said}: {reason}");
    }
    let inputs: [(&str, &[u8]); 1] = [("sigil.events.out-2", b"^ 1^1")];
    assert!(refused(Format::Synchrotrace, &inputs).contains("the events of a thread are missing"));
    let inputs: [(&str, &[u8]); 1] = [("trace.txt", b"")];
    assert!(refused(Format::Synchrotrace, &inputs).starts_with("trace.txt: files of SynchroTrace are named"));
    let long = "! ".repeat(1 << 20);
    assert!(said(&long).contains("line 1: it is longer than any line"));
    assert!(
        refused(Format::Synchrotrace, &[("sigil.events.out-1", &[0xff])]).contains("line 1: it is no text")
    );
}

#[test]
fn lackey_is_taken_in_and_jumps_are_where_what_follows_is_elsewhere() {
    use Class::{Branch, Integer};
    let (trace, imported) = took_in(Format::Lackey, &[("a", LACKEY.as_bytes())]);
    let call = plain(5, Branch, "s");
    let blocks = [
        Block { pc: 0x400_1090, instructions: vec![plain(3, Integer, ""), call] },
        Block { pc: 0x400_1ea0, instructions: vec![plain(4, Branch, "ls")] },
        Block { pc: 0x400_1093, instructions: vec![call] },
        Block { pc: 0x400_1ea0, instructions: vec![plain(4, Integer, "l")] },
    ];
    let modified = [(0, 0x1f_ff00_0118, 8, false), (0, 0x421_f000, 4, false), (0, 0x421_f000, 4, true)];
    let thread = vec![
        block(0, &[(1, 0x1f_ff00_0118, 8, true)]),
        block(1, &modified),
        block(2, &[(0, 0x1f_ff00_0108, 8, true)]),
        block(3, &[(0, 0x1f_ff00_0108, 8, false)]),
        end(),
    ];
    expect(&trace, &blocks, &[thread]);
    assert_eq!((imported.instructions, imported.accesses), (5, 6));
}

#[test]
fn what_is_no_lackey_is_refused_with_its_line() {
    let said = |text: &str| refused(Format::Lackey, &[("x", text.as_bytes())]);
    for (text, reason) in [
        ("", "line 1: there is no instruction in it"),
        ("hello", "line 1: it is no line of lackey's"),
        (" L 10,8", "line 1: memory is accessed before the first instruction"),
        ("I  10,3\nI  10,0", "line 2: an instruction has no bytes"),
        ("I  10,3\n S +1,8", "line 2: it is no line of lackey's"),
        ("I  10,3\n X 10,8", "line 2: it is no line of lackey's"),
        ("I  é,3", "line 1: it is no line of lackey's"),
    ] {
        let said = said(text);
        assert!(said.starts_with(&format!("x, {reason}")), "{said}: {reason}");
    }
    let two: [(&str, &[u8]); 2] = [("x", b""), ("y", b"")];
    assert_eq!(refused(Format::Lackey, &two), "a trace of lackey is one file, and these are 2");
}

fn gzip(octets: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(octets).unwrap();
    packer.finish().unwrap()
}

/// A zip archive of these files, whose lengths are told before (`before`) or behind them, in 4 bytes or in 8.
fn zip(files: &[&[u8]], before: bool, long: bool) -> Vec<u8> {
    let mut archive = Vec::new();
    for file in files {
        let mut crc = flate2::Crc::new();
        crc.update(file);
        let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(file).unwrap();
        let packed = packer.finish().unwrap();
        archive.extend(b"PK\x03\x04\x2d\0");
        archive.extend([if before { 0 } else { 8 }, 0, 8, 0, 0, 0, 0, 0]);
        archive.extend(if before { crc.sum() } else { 0 }.to_le_bytes());
        archive.extend([0; 8]);
        archive.extend([5, 0, 3, 0]);
        archive.extend(b"chunkxyz");
        archive.extend(&packed);
        if !before {
            archive.extend(b"PK\x07\x08");
            archive.extend(crc.sum().to_le_bytes());
            for length in [packed.len(), file.len()] {
                let octets = (length as u64).to_le_bytes();
                archive.extend(&octets[..if long { 8 } else { 4 }]);
            }
        }
    }
    archive.extend(b"PK\x01\x02 and so on");
    archive
}

#[test]
fn packed_inputs_are_unpacked() {
    let [whole, _] = drmemtrace();
    let (one, two) = whole.split_at(70);
    let plain = took_in(Format::Drmemtrace, &[("a", &whole)]).1;
    let mut twice = gzip(one);
    twice.extend(gzip(two));
    let packed = [
        ("gzip", gzip(&whole)),
        ("gzip in two pieces", twice),
        ("zstd", zstd::encode_all(&whole[..], 3).unwrap()),
        ("zip", zip(&[one, two], true, false)),
        ("zip, lengths behind", zip(&[one, two], false, false)),
        ("zip, long lengths behind", zip(&[one, two], false, true)),
    ];
    for (name, octets) in packed {
        assert_eq!(took_in(Format::Drmemtrace, &[("a", &octets)]).1, plain, "{name}");
        for cut in [octets.len() / 2, 8] {
            refused(Format::Drmemtrace, &[("a", &octets[..cut])]);
        }
    }
    let mut wrong = zip(&[one, two], true, false);
    wrong[15] ^= 1;
    assert!(
        refused(Format::Drmemtrace, &[("a", &wrong)]).contains("as a zip archive: a file in it has another")
    );
    let said = refused(Format::Champsim, &[("a.xz", b"\xfd7zXZ\0 and so on")]);
    assert!(said.contains("xz -dc FILE | quaver"), "{said}");
}

#[test]
fn nothing_is_nothing() {
    let error = import(Format::Champsim, Vec::new(), Vec::new()).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "there is nothing to import");
}
