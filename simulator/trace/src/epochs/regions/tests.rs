use super::*;
use crate::block::{Block, Class};
use crate::epochs::{Activity, EpochFacts, EpochWriter, thinned};
use crate::step::Access;

const PER_CPU: u64 = 0xffff_89fe_fa40_0000;
const DISTANCE: u64 = 0x8_0000;
const STACKS: u64 = 0xffff_ca89_4000_0000;
const HEAP: u64 = 0xffff_89fe_c100_0000;
const USER: u64 = 0x7f50_4400_0000;
/// Blocks: the first pushes, the others load once each.
const BLOCKS: u64 = 60;

fn about(processor: u32) -> About {
    About {
        activity: Activity::Timer,
        task: "qv-files".into(),
        processor,
        bottom_half: false,
        from_idle: false,
        switched: false,
        cut: false,
    }
}

fn block(number: u64) -> Block {
    let pointer = Registers::of(STACK_POINTER);
    let pushes = number == 0;
    let instruction = Instruction {
        octets: 4,
        class: Class::Integer,
        loads: !pushes,
        stores: pushes,
        reads: pointer,
        writes: if pushes { pointer } else { Registers::default() },
    };
    Block { pc: 0xffff_ffff_8100_0000 + number * 4, instructions: vec![instruction] }
}

/// Each processor pushes on a stack of its own, and then loads from data of processors, common and own lines, and the program's
/// memory, 20 blocks each; the last of the first 20 looks at the next processor's data. What each access is comes along.
fn library(processors: u32) -> (Vec<u8>, Vec<(u32, u64, Region)>) {
    let facts = EpochFacts { processors, ..EpochFacts::default() };
    let mut writer = EpochWriter::new(Vec::new(), &facts).unwrap();
    (0..BLOCKS).for_each(|number| assert_eq!(u64::from(writer.define(block(number))), number));
    let mut truth = Vec::new();
    for processor in 0..processors {
        let own = u64::from(processor);
        let address = |number: u64| match number {
            0 => (STACKS + own * 0x8000 + 0x3f00, Region::Stack),
            19 => {
                let owner = (processor + 1) % processors;
                let back = u64::from(owner) * DISTANCE;
                (PER_CPU + back + 0x1040, Region::PerCpu { ahead: 1, back })
            }
            1..=19 => {
                let back = own * DISTANCE;
                (PER_CPU + back + number * 0x340, Region::PerCpu { ahead: 0, back })
            }
            // Loads near the stack pointer do not change it.
            20..=24 => (STACKS + own * 0x8000 + 0x2000 + number * 8, Region::Stack),
            25..=39 => (HEAP + number * 64, Region::Common),
            40..=54 => (HEAP + 0x10_0000 + (own * own + 49 * number) * 0x1040, Region::Alone),
            _ => (USER + number * 8, Region::User),
        };
        let steps: Vec<(u32, [Access; 1])> = (0..BLOCKS)
            .map(|number| {
                let (address, region) = address(number);
                truth.push((processor, address, region));
                (number as u32, [Access { address, instruction: 0, octets: 8, write: number == 0 }])
            })
            .collect();
        let steps = steps.iter().map(|(number, accesses)| (*number, &accesses[..]));
        writer.add(&about(processor), steps).unwrap();
    }
    (writer.finish().unwrap(), truth)
}

#[test]
fn each_access_is_of_the_region_that_it_was_made_for() {
    for processors in [2, 4, 7] {
        let (octets, truth) = library(processors);
        let map = RegionMap::of(&EpochReader::open(octets).unwrap()).unwrap();
        assert!(map.tells_processors());
        for (processor, address, region) in truth {
            assert_eq!(map.region(&about(processor), address), region, "{processor} {address:x}");
        }
    }
}

#[test]
fn with_one_processor_nothing_is_known_of_who_owns_what() {
    let (octets, truth) = library(1);
    let map = RegionMap::of(&EpochReader::open(octets).unwrap()).unwrap();
    assert!(!map.tells_processors());
    for (processor, address, region) in truth {
        let told = match region {
            Region::PerCpu { .. } | Region::Common => Region::Alone,
            other => other,
        };
        assert_eq!(map.region(&about(processor), address), told);
    }
}

#[test]
fn a_smaller_library_knows_what_the_large_one_did() {
    let (octets, truth) = library(4);
    let large = EpochReader::open(octets).unwrap();
    let least = (300..).find_map(|most| thinned(&large, most).ok()).unwrap();
    let small = EpochReader::open(least).unwrap();
    assert_eq!(small.count(), 1, "of one epoch nothing could be derived");
    let map = RegionMap::of(&small).unwrap();
    let kept = small.epochs().next().unwrap().unwrap().about.processor;
    for (processor, address, region) in truth.into_iter().filter(|(processor, ..)| *processor == kept) {
        assert_eq!(map.region(&about(processor), address), region);
    }
    let again = EpochReader::open(thinned(&small, 1 << 20).unwrap()).unwrap();
    assert_eq!(again.facts.regions, small.facts.regions);
}
