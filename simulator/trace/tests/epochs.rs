//! Libraries of kernel activity: what is written is read again, what is damaged is refused with its place, and smaller ones are chosen.

mod epoch_checks;

use epoch_checks::{library, library_frame, library_frames};
use proptest::prelude::*;
use quaver_trace::block::{Block, Class, Instruction, Registers};
use quaver_trace::epochs::{About, Activity, EpochFacts, EpochReader, EpochWriter, KernelEpoch, thinned};
use quaver_trace::file::{Facts, FileError, TraceReader, TraceWriter};
use quaver_trace::step::Access;
use std::collections::BTreeSet;

const BLOCKS: u32 = 9;
const INSTRUCTIONS: u16 = 6;

fn block(number: u32) -> Block {
    let instruction = Instruction {
        octets: 4,
        class: Class::Integer,
        loads: true,
        stores: true,
        reads: Registers::of(3),
        writes: Registers::default(),
    };
    Block {
        pc: 0xffff_ffff_8100_0000 + u64::from(number) * 0x40,
        instructions: vec![instruction; usize::from(INSTRUCTIONS)],
    }
}

fn facts() -> EpochFacts {
    EpochFacts { tool: "test".into(), kernel: "6.12".into(), processors: 4, ..EpochFacts::default() }
}

fn about(activity: Activity, task: &str) -> About {
    About {
        activity,
        task: task.into(),
        processor: 2,
        bottom_half: false,
        from_idle: true,
        switched: false,
        cut: false,
    }
}

type Steps = Vec<(u32, Vec<Access>)>;

fn written(epochs: &[(About, Steps)]) -> Vec<u8> {
    let mut writer = EpochWriter::new(Vec::new(), &facts()).unwrap();
    (0..BLOCKS).for_each(|number| assert_eq!(writer.define(block(number)), number));
    for (about, steps) in epochs {
        let steps = steps.iter().map(|(number, accesses)| (*number, accesses.as_slice()));
        writer.add(about, steps).unwrap();
    }
    writer.finish().unwrap()
}

fn read(octets: &[u8]) -> Result<Vec<KernelEpoch>, FileError> {
    EpochReader::open(octets.to_vec())?.epochs().collect()
}

fn any_epoch() -> impl Strategy<Value = (About, Steps)> {
    let activity = (0..9_u8, any::<u32>()).prop_map(|(class, number)| match Activity::of(class, number) {
        Some(activity) => activity,
        None => Activity::of(class, number & 0xff).or(Activity::of(class, 0)).unwrap(),
    });
    let access = (any::<u64>(), 0..INSTRUCTIONS, 1..=64_u8, any::<bool>())
        .prop_map(|(address, instruction, octets, write)| Access { address, instruction, octets, write });
    let steps = proptest::collection::vec((0..BLOCKS, proptest::collection::vec(access, 0..4)), 1..30);
    (activity, "[a-z/0-9:]{0,15}", 0..64_u32, any::<[bool; 4]>(), steps).prop_map(
        |(activity, task, processor, [bottom_half, from_idle, switched, cut], steps)| {
            let task = task.into();
            (About { activity, task, processor, bottom_half, from_idle, switched, cut }, steps)
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(epochs in proptest::collection::vec(any_epoch(), 0..20)) {
        let octets = written(&epochs);
        let found = read(&octets).unwrap();
        prop_assert_eq!(found.len(), epochs.len());
        for (found, (about, steps)) in found.iter().zip(&epochs) {
            prop_assert_eq!(&found.about, about);
            prop_assert_eq!(found.instructions, steps.len() as u64 * u64::from(INSTRUCTIONS));
            let of: Steps = found.steps().map(|(number, accesses)| (number, accesses.to_vec())).collect();
            prop_assert_eq!(&of, steps);
        }
        prop_assert!(library(&octets));
    }

    #[test]
    fn damaged_octets_are_no_panic(
        epochs in proptest::collection::vec(any_epoch(), 1..5), place: prop::sample::Index, octet: u8, cut: bool,
    ) {
        let mut octets = written(&epochs);
        let place = place.index(octets.len());
        if cut { octets.truncate(place) } else { octets[place] = octet }
        library(&octets);
    }

    #[test]
    fn nothing_is_a_panic(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        library(&octets);
        library_frames(&octets);
    }
}

#[test]
fn what_is_cut_short_is_read_as_far_as_it_is_whole() {
    let one = (about(Activity::Timer, "swapper/1"), vec![(3, vec![]); 40]);
    let octets = written(&vec![one; 3]);
    assert_eq!(read(&octets).unwrap().len(), 3);
    let short = EpochReader::open(octets[..octets.len() - 1].to_vec()).unwrap();
    assert!(short.cut_short);
    assert_eq!(short.epochs().map(Result::unwrap).count(), 3);
}

#[test]
fn what_cannot_be_is_refused_with_place_and_reason() {
    let refused = |octets: &[u8]| read(octets).unwrap_err().to_string();
    assert!(refused(b"QEPOCH").contains("too short"));
    let trace = TraceWriter::new(Vec::new(), &Facts::default()).unwrap().finish().unwrap();
    assert!(refused(&trace).contains("does not begin as a library of kernel activity"));
    let mut newer = written(&[]);
    newer[8] = 2;
    assert!(refused(&newer).contains("of version 2, and 1 is understood"));
    assert!(TraceReader::open(written(&[])).unwrap_err().to_string().contains("does not begin as one"));
    // A frame of facts, one of blocks, and one of epochs that is wrong.
    let with = |epochs: u64, raw: &[u8]| {
        let mut file = b"QEPOCH\r\n\x01\0\0\0\0\0\0\0".to_vec();
        library_frame(&mut file, 1, 0, serde_json::to_string(&facts()).unwrap().as_bytes());
        library_frame(&mut file, 2, 1, &[2, 1, 4, 0, 0, 0]);
        let at = file.len();
        library_frame(&mut file, 3, epochs, raw);
        (refused(&file), at)
    };
    // Heads: class, number, flags, processor, instructions, length of the name. Then control and no addresses.
    let good = [6, 1, 0, 0, 0, 1, 0];
    for (epochs, heads, steps, said) in [
        (2, &good[..], &[3, 0x80, 0, 0xff][..], "another number of epochs than it says"),
        (1, &[6, 9, 0, 0, 0, 1, 0], &[3, 0x80, 0, 0xff], "an epoch is of an unknown class"),
        (1, &[6, 1, 5, 0, 0, 1, 0], &[3, 0x80, 0, 0xff], "an epoch is of an unknown class"),
        (1, &[6, 1, 0, 16, 0, 1, 0], &[3, 0x80, 0, 0xff], "an epoch has an unknown flag"),
        (1, &[6, 1, 0, 0, 0, 1, 16], &[3, 0x80, 0, 0xff], "the name of a task is too long"),
        (
            1,
            &[6, 1, 0, 0, 0, 2, 0],
            &[3, 0x80, 0, 0xff],
            "epoch 0: its blocks have another number of instructions",
        ),
        (1, &good, &[3, 0x80, 1, 0xff], "epoch 0: it has a block that is not in the dictionary"),
        (1, &good, &[2, 0x80, 0], "epoch 0: it has no end"),
        (1, &good, &[1, 0xff], "epoch 0: it has no blocks"),
        (1, &good, &[3, 0x92, 5, 0xff], "epoch 0: it has a step of synchronisation"),
        (1, &good, &[6, 0x80, 0, 0xff, 0x80, 0, 0xff], "more blocks than those of its epochs"),
        (1, &[100], &[], "its heads are longer than the frame"),
    ] {
        let (told, at) = with(epochs, &[heads, steps].concat());
        assert!(told.contains(said), "{said}: {told}");
        assert!(told.contains(&format!("at byte {at}")), "{told}");
    }
    let mut good_file = b"QEPOCH\r\n\x01\0\0\0\0\0\0\0".to_vec();
    library_frame(&mut good_file, 3, 0, &[]);
    assert!(refused(&good_file).contains("does not say where it came from"));
}

#[test]
fn a_smaller_library_has_all_kinds_and_durations() {
    let access =
        |address: u64| Access { address, instruction: 1, octets: 8, write: address.is_multiple_of(3) };
    let steps = |seed: u64, length: u64| -> Steps {
        // As good as random, so that nothing is to be packed.
        let address =
            |place: u64| (seed << 32 | place).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) >> 20;
        (0..length).map(|place| ((place % 9) as u32, vec![access(address(place))])).collect()
    };
    let kinds = [
        about(Activity::SystemCall(0), "qv-a"),
        about(Activity::SystemCall(202), "qv-a"),
        about(Activity::KernelThread, "kswapd0"),
        about(Activity::KernelThread, "kworker/0:1"),
        about(Activity::Timer, "swapper/0"),
    ];
    let epochs: Vec<(About, Steps)> =
        (0..600).map(|seed| (kinds[seed as usize % 5].clone(), steps(seed, 10 << (seed % 7)))).collect();
    let large = EpochReader::open(written(&epochs)).unwrap();
    let small = thinned(&large, 40_000).unwrap();
    assert!((20_000..=40_000).contains(&small.len()), "{}", small.len());
    let small = EpochReader::open(small).unwrap();
    let told = format!("{} of 600 epochs, of all kinds and durations", small.count());
    assert_eq!(small.facts.changes, [told]);
    let all: Vec<KernelEpoch> = large.epochs().map(Result::unwrap).collect();
    let mut found = BTreeSet::new();
    let mut from = 0;
    for epoch in small.epochs().map(Result::unwrap) {
        found.insert((epoch.about.activity, epoch.about.task.clone(), epoch.instructions.ilog2()));
        // It is one of the large library's, in its order, with blocks of other numbers.
        let same = |other: &KernelEpoch| other.about == epoch.about && other.accesses == epoch.accesses;
        from += all[from..].iter().position(same).expect("it is of the large one") + 1;
        let pcs: Vec<u64> =
            epoch.blocks.iter().map(|(number, _)| small.dictionary.blocks[*number as usize].pc).collect();
        let wanted: Vec<u64> = all[from - 1]
            .blocks
            .iter()
            .map(|(number, _)| large.dictionary.blocks[*number as usize].pc)
            .collect();
        assert_eq!(pcs, wanted);
    }
    let durations: BTreeSet<u32> = found.iter().map(|(.., duration)| *duration).collect();
    let kinds: BTreeSet<_> = found.iter().map(|(activity, task, _)| (*activity, task.clone())).collect();
    assert_eq!((durations.len(), kinds.len()), (7, 5), "{found:?}");
    assert!(thinned(&large, 100).unwrap_err().to_string().contains("100 bytes do not hold"));
}
