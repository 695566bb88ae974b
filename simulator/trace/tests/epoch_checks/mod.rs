//! Checks of the reader of libraries of kernel activity, for the ordinary tests and for fuzzers.

#![allow(unreachable_pub, reason = "fuzz/ uses it from another crate")]

use quaver_trace::epochs::{EpochReader, EpochWriter, KernelEpoch, MOST_BLOCKS, summary_of};

/// Most epochs that are looked at: few bytes may stand for many.
const MOST_EPOCHS: usize = 2_000;

/// Reads whatever the bytes are. What is read keeps the promises of its types, and comes back when it is written again.
/// Whether it was a library, whole.
pub fn library(octets: &[u8]) -> bool {
    let Ok(library) = EpochReader::open(octets.to_vec()) else { return false };
    let mut epochs: Vec<KernelEpoch> = Vec::new();
    for epoch in library.epochs().take(MOST_EPOCHS) {
        let Ok(epoch) = epoch else { return false };
        assert!(!epoch.blocks.is_empty() && epoch.blocks.len() <= MOST_BLOCKS);
        assert_eq!(epoch.blocks.last().map(|(_, end)| *end as usize), Some(epoch.accesses.len()));
        let mut instructions = 0;
        for (number, accesses) in epoch.steps() {
            let block = &library.dictionary.blocks[number as usize];
            instructions += block.instructions.len() as u64;
            for access in accesses {
                assert!(usize::from(access.instruction) < block.instructions.len());
                assert!((1..=64).contains(&access.octets));
            }
        }
        assert_eq!(instructions, epoch.instructions);
        epochs.push(epoch);
    }
    let mut writer = EpochWriter::new(Vec::new(), &library.facts).expect("memory does not fail");
    for block in &library.dictionary.blocks {
        writer.define(block.clone());
    }
    for epoch in &epochs {
        writer.add(&epoch.about, epoch.steps()).expect("memory does not fail");
    }
    let again = EpochReader::open(writer.finish().expect("memory does not fail"));
    let again = again.expect("what is written can be read");
    assert_eq!((again.cut_short, again.count()), (false, epochs.len() as u64));
    assert_eq!((&again.dictionary, &again.facts), (&library.dictionary, &library.facts));
    let found: Result<Vec<KernelEpoch>, _> = again.epochs().collect();
    assert_eq!(found.expect("what is written can be read"), epochs);
    let summary = summary_of(&again).expect("what is written can be read");
    assert_eq!(summary.epochs, epochs.len() as u64);
    assert_eq!(summary.classes.iter().map(|class| class.instructions).sum::<u64>(), summary.instructions);
    true
}

/// Frames of a library, as bytes from which a fuzzer makes them: kind, number of epochs, length in two bytes, so many bytes.
/// They are packed as a library has them, so that what is in them is reached. Whether they were a library.
#[allow(dead_code, reason = "for drivers")]
pub fn library_frames(mut octets: &[u8]) -> bool {
    let mut file = b"QEPOCH\r\n\x01\0\0\0\0\0\0\0".to_vec();
    while let Some((&[kind, epochs, low, high], rest)) = octets.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (raw, rest) = rest.split_at(length);
        library_frame(&mut file, u32::from(kind), u64::from(epochs), raw);
        octets = rest;
    }
    library(&file)
}

/// Appends a frame to a library without an end.
#[allow(dead_code, reason = "for drivers")]
pub fn library_frame(file: &mut Vec<u8>, kind: u32, epochs: u64, raw: &[u8]) {
    let stored = zstd::bulk::compress(raw, 1).expect("memory does not fail");
    [kind, 0].iter().for_each(|number| file.extend(number.to_le_bytes()));
    file.extend(epochs.to_le_bytes());
    [raw.len(), stored.len()].iter().for_each(|length| file.extend((*length as u32).to_le_bytes()));
    file.extend(stored);
}
