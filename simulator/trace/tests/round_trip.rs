//! What is written is read again, to the last step; what is damaged is refused with its place.

use proptest::prelude::*;
use quaver_trace::block::{Block, Class, Instruction, Registers};
use quaver_trace::file::{Facts, FileError, PackedSteps, TraceReader, TraceWriter};
use quaver_trace::frame::FrameWriter;
use quaver_trace::step::{Access, Step, Steps, Sync, Thread, Wakeup};

type Written = Vec<(Step, Vec<Access>)>;

fn block(pc: u64, instructions: usize) -> Block {
    let one = |number: usize| Instruction {
        octets: (number % 15 + 1) as u8,
        class: Class::from_repr((number % 8) as u8).unwrap(),
        loads: number.is_multiple_of(3),
        stores: number % 4 == 1,
        reads: Registers::of((number % 16) as u8),
        writes: Registers::of((number % 34) as u8),
    };
    Block { pc, instructions: (0..instructions).map(one).collect() }
}

fn write(threads: &[Written], blocks: &[Block]) -> Vec<u8> {
    let facts = Facts {
        program: vec!["./ocean".into()],
        tool: "test".into(),
        architecture: "x86-64".into(),
        ..Facts::default()
    };
    let mut writer = TraceWriter::new(Vec::new(), &facts).unwrap();
    for (number, block) in blocks.iter().enumerate() {
        assert_eq!(writer.define(block.clone()) as usize, number);
    }
    for (thread, steps) in threads.iter().enumerate() {
        for (step, accesses) in steps {
            match step {
                Step::Block { number } => writer.block(thread as u32, *number, accesses).unwrap(),
                Step::Sync(sync) => writer.sync(thread as u32, *sync),
                Step::End => writer.end(thread as u32),
            }
        }
    }
    writer.finish().unwrap()
}

fn read(trace: &TraceReader<Vec<u8>>, thread: u32) -> Result<Written, quaver_trace::step::TraceError> {
    let (mut steps, mut accesses, mut all) = (trace.steps(thread), Vec::new(), Vec::new());
    loop {
        let step = steps.step(&mut accesses)?;
        let its = if matches!(step, Step::Block { .. }) { accesses.clone() } else { Vec::new() };
        all.push((step, its));
        if step == Step::End {
            return Ok(all);
        }
    }
}

const BLOCKS: usize = 12;
const INSTRUCTIONS: u16 = 20;

fn any_sync() -> impl Strategy<Value = Sync> {
    let (object, mutex, wakeup) = (any::<u64>(), any::<u64>(), any::<u64>().prop_map(Wakeup));
    let thread = any::<u32>().prop_map(Thread);
    prop_oneof![
        thread.clone().prop_map(|thread| Sync::Create { thread }),
        thread.prop_map(|thread| Sync::Join { thread }),
        object.prop_map(|object| Sync::Lock { object }),
        object.prop_map(|object| Sync::Unlock { object }),
        object.prop_map(|object| Sync::ReadLock { object }),
        object.prop_map(|object| Sync::ReadUnlock { object }),
        (object, wakeup.clone()).prop_map(|(object, wakeup)| Sync::Signal { object, wakeup }),
        (object, wakeup.clone()).prop_map(|(object, wakeup)| Sync::Broadcast { object, wakeup }),
        (object, mutex, proptest::option::of(wakeup)).prop_map(|(object, mutex, by)| Sync::Wait {
            object,
            mutex,
            by
        }),
        (object, any::<u32>()).prop_map(|(object, parties)| Sync::Barrier { object, parties }),
    ]
}

fn any_access() -> impl Strategy<Value = Access> {
    let address = prop_oneof![any::<u64>(), (0..64_u64).prop_map(|line| 0x1000 + line * 64)];
    (address, 0..INSTRUCTIONS, 1..=64_u8, any::<bool>())
        .prop_map(|(address, instruction, octets, write)| Access { address, instruction, octets, write })
}

fn any_step() -> impl Strategy<Value = (Step, Vec<Access>)> {
    let block = (0..BLOCKS as u32, proptest::collection::vec(any_access(), 0..5));
    prop_oneof![
        6 => block.prop_map(|(number, accesses)| (Step::Block { number }, accesses)),
        1 => any_sync().prop_map(|sync| (Step::Sync(sync), Vec::new())),
    ]
}

fn any_thread() -> impl Strategy<Value = Written> {
    proptest::collection::vec(any_step(), 0..300).prop_map(|mut steps| {
        steps.push((Step::End, Vec::new()));
        steps
    })
}

fn blocks() -> Vec<Block> {
    (0..BLOCKS as u64).map(|number| block(0x40_0000 + number * 999, usize::from(INSTRUCTIONS))).collect()
}

proptest! {
    #[test]
    fn every_step_comes_back(threads in proptest::collection::vec(any_thread(), 1..4)) {
        let trace = TraceReader::open(write(&threads, &blocks())).unwrap();
        prop_assert_eq!(&trace.dictionary.blocks, &blocks());
        prop_assert!(!trace.cut_short);
        let steps: usize = threads.iter().map(Vec::len).sum();
        prop_assert_eq!(trace.step_count(), steps as u64);
        for (thread, steps) in threads.iter().enumerate() {
            prop_assert_eq!(&read(&trace, thread as u32).unwrap(), steps);
        }
    }

    #[test]
    fn damage_is_refused_and_never_a_panic(
        threads in proptest::collection::vec(any_thread(), 1..3),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut octets = write(&threads, &blocks());
        for (place, value) in damage {
            let place = place.index(octets.len());
            octets[place] = value;
        }
        if let Some(cut) = cut {
            octets.truncate(cut.index(octets.len()));
        }
        if let Ok(trace) = TraceReader::open(octets) {
            for thread in trace.threads().collect::<Vec<_>>() {
                let _ = read(&trace, thread);
            }
        }
    }
}

/// A loop over an array by one thread: all is expected, so that next to nothing is written.
#[test]
fn what_is_expected_takes_next_to_nothing() {
    let access = |i: u64| Access { address: 0x10_0000 + i * 8, instruction: 0, octets: 8, write: false };
    let mut steps: Written = (0..500_000).map(|i| (Step::Block { number: 3 }, vec![access(i)])).collect();
    steps.push((Step::End, Vec::new()));
    let octets = write(std::slice::from_ref(&steps), &blocks());
    assert!(octets.len() < 3_000, "{} bytes for 10 million instructions", octets.len());
    assert_eq!(read(&TraceReader::open(octets).unwrap(), 0).unwrap(), steps);
}

#[test]
fn a_trace_that_was_cut_short_is_read_up_to_its_last_whole_frame() {
    let mut random = 1_u64;
    let mut step = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let access = Access { address: random >> 20, instruction: 1, octets: 4, write: true };
        (Step::Block { number: (random >> 60) as u32 % BLOCKS as u32 }, vec![access])
    };
    let mut steps: Written = (0..800_000).map(|_| step()).collect();
    steps.push((Step::End, Vec::new()));
    let mut octets = write(std::slice::from_ref(&steps), &blocks());
    octets.truncate(octets.len() / 2);
    let trace = TraceReader::open(octets).unwrap();
    assert!(trace.cut_short);
    let some = read(&trace, 0).unwrap();
    assert!(some.len() > 10_000 && some.len() < steps.len());
    assert_eq!(some[..some.len() - 1], steps[..some.len() - 1]);
}

#[test]
fn foreign_files_are_refused_with_a_sentence() {
    let of = |octets: &[u8]| TraceReader::open(octets.to_vec()).unwrap_err().to_string();
    assert_eq!(of(b""), "this is no trace that can be read here: it is too short");
    assert_eq!(
        of(b"\x7fELF............."),
        "this is no trace that can be read here: it does not begin as one"
    );
    let mut newer = write(&[vec![(Step::End, Vec::new())]], &[]);
    newer[8] = 9;
    assert_eq!(of(&newer), "this is no trace that can be read here: it is of version 9, and 1 is understood");
    let mut hit = write(&[vec![(Step::End, Vec::new())]], &blocks());
    hit[16 + 24 + 9] ^= 0x55;
    assert!(matches!(TraceReader::open(hit), Err(FileError::Damaged { offset: 16, .. })));
}

/// As the plugin in QEMU does it: each thread packs its own steps, and one writer takes them in as they come.
#[test]
fn steps_that_each_thread_packs_are_read_as_they_were() {
    let access =
        |i: u64| Access { address: 0x10_0000 + i % 7 * 4096, instruction: 0, octets: 8, write: false };
    let steps: Vec<Written> = (0..3_u64)
        .map(|thread| {
            let blocks = (0..900).map(|i| (Step::Block { number: (i % 5) as u32 }, vec![access(i + thread)]));
            blocks.chain([(Step::End, Vec::new())]).collect()
        })
        .collect();
    let mut writer = TraceWriter::new(Vec::new(), &Facts::default()).unwrap();
    blocks().into_iter().for_each(|block| _ = writer.define(block));
    let mut frames: [FrameWriter; 3] = Default::default();
    for part in 0..3 {
        for (thread, frame) in frames.iter_mut().enumerate() {
            for (step, accesses) in &steps[thread][part * 300..] {
                match step {
                    Step::Block { number } if frame.steps() < 300 => frame.block(*number, accesses),
                    Step::End if part == 2 => frame.end(),
                    _ => {}
                }
            }
            writer.add(&PackedSteps::of(thread as u32, frame).unwrap().unwrap()).unwrap();
            assert!(PackedSteps::of(thread as u32, frame).unwrap().is_none(), "it was taken");
        }
    }
    let trace = TraceReader::open(writer.finish().unwrap()).unwrap();
    for (thread, steps) in steps.iter().enumerate() {
        assert_eq!(&read(&trace, thread as u32).unwrap(), steps);
    }
}
