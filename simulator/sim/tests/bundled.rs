//! The traces in `traces/`, which `make traces` made: they are what they were, and each is replayed to its end.

use quaver_sim::config::Config;
use quaver_sim::machine::Machine;
use quaver_trace::armour;
use quaver_trace::file::TraceReader;
use quaver_trace::summary::summary_of;
use std::path::{Path, PathBuf};

/// Program, FNV-1a of the file, instructions, steps of synchronisation. To be changed with the traces.
const INVENTORY: [(&str, u64, u64, u64); 8] = [
    ("barnes -p16 -n88", 0x0dc7_7d76_6230_8c0a, 1_763_276, 1_998),
    ("fmm -p16 -n256", 0xfd1c_e827_ad83_2a4f, 5_954_035, 2_286),
    ("lu -p16 -n96", 0x5605_4151_6e9d_737b, 4_276_703, 606),
    ("ocean -p16 -n16 -bposix", 0xf7a0_dda7_45dd_f6fe, 4_184_466, 53_534),
    ("radix -p16 -n3600", 0x65f7_01ab_a657_fdf7, 878_433, 898),
    ("raytrace -p16 -n32", 0xffe8_b283_dbfe_5d5d, 5_335_085, 830),
    ("water-nsquared -p16 -n64", 0x45ad_d1a5_f989_eca1, 7_912_422, 6_686),
    ("water-spatial -p16 -n64", 0x9fc9_11ff_4f60_4372, 14_624_656, 1_054),
];

fn traces() -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let entries = std::fs::read_dir(&directory).expect("the traces are in the tree");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("it can be read"))).collect()
}

fn opened(text: &[u8]) -> TraceReader<Vec<u8>> {
    TraceReader::open(armour::decode(text).expect("it is a trace as text")).expect("it is a trace")
}

fn fnv(octets: &[u8]) -> u64 {
    octets
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn they_are_what_they_were() {
    let all = traces();
    let found: Vec<(String, u64, u64, u64)> = all
        .iter()
        .map(|(_, text)| {
            let trace = opened(text);
            assert_eq!(trace.threads().collect::<Vec<_>>(), (0..16).collect::<Vec<_>>());
            assert!(!trace.cut_short);
            let threads = trace.threads().map(|thread| summary_of(&trace, thread).expect("it is whole"));
            let (mut instructions, mut steps) = (0, 0);
            for thread in threads {
                instructions += thread.instructions;
                steps += thread.syncs.all();
            }
            (trace.facts.program.join(" "), fnv(text), instructions, steps)
        })
        .collect();
    let inventory: Vec<_> = INVENTORY
        .iter()
        .map(|(program, sum, instructions, steps)| ((*program).to_owned(), *sum, *instructions, *steps))
        .collect();
    assert_eq!(found, inventory);
    assert!(all.iter().map(|(_, text)| text.len()).sum::<usize>() < 1_500_000, "small enough for the tree");
}

/// How long each takes on the paper's machine, femtoseconds: as it was before there were a network and an out-of-order core.
const DURATIONS_FS: [u64; 8] = [
    753_055_839_442,
    566_457_966_247,
    778_156_556_310,
    663_218_326_434,
    304_239_775_145,
    1_001_026_335_382,
    563_497_626_993,
    809_912_786_489,
];

#[test]
fn each_is_replayed_to_its_end_and_as_fast_on_the_papers_machine_as_ever() {
    for ((path, text), duration_fs) in traces().into_iter().zip(DURATIONS_FS) {
        let trace = opened(&text);
        for config in [Config::paper(), Config::default()] {
            let steps = trace.threads().map(|thread| trace.steps(thread)).collect();
            let mut machine = Machine::new(&config, &trace.dictionary, steps);
            while !machine.run(10_000).unwrap_or_else(|error| panic!("{}: {error}", path.display())) {}
            let results = machine.results();
            if config == Config::paper() {
                assert_eq!(results.duration_fs, duration_fs, "{}", path.display());
            } else {
                assert!(results.network.is_some_and(|network| network.hops >= network.messages));
            }
        }
    }
}
