//! Checks of the reader of traces, for the ordinary tests and for fuzzers.

#![allow(unreachable_pub, reason = "fuzz/ uses it from another crate")]

use quaver_trace::file::{TraceReader, TraceWriter};
use quaver_trace::step::{Access, Step, Steps, TraceError};

/// Most steps of a thread that are looked at: few bytes may stand for many.
const MOST_STEPS: usize = 200_000;

/// The steps of a thread with their accesses, up to its end or [`MOST_STEPS`].
pub fn steps(trace: &TraceReader<Vec<u8>>, thread: u32) -> Result<Vec<(Step, Vec<Access>)>, TraceError> {
    let (mut steps, mut accesses, mut all) = (trace.steps(thread), Vec::new(), Vec::new());
    while all.len() < MOST_STEPS {
        let step = steps.step(&mut accesses)?;
        let its = if matches!(step, Step::Block { .. }) { accesses.clone() } else { Vec::new() };
        all.push((step, its));
        if step == Step::End {
            break;
        }
    }
    Ok(all)
}

/// Reads whatever the bytes are. What is read keeps the promises of its types, and comes back when it is written again.
/// Whether it was a trace.
pub fn trace(octets: &[u8]) -> bool {
    let Ok(trace) = TraceReader::open(octets.to_vec()) else { return false };
    let threads: Vec<u32> = trace.threads().collect();
    for block in &trace.dictionary.blocks {
        assert!(!block.instructions.is_empty() && block.pc.checked_add(block.octets()).is_some());
    }
    let mut read = Vec::new();
    for thread in threads {
        let Ok(steps) = steps(&trace, thread) else { return true };
        for (step, accesses) in &steps {
            let Step::Block { number } = step else { continue };
            let block = &trace.dictionary.blocks[*number as usize];
            for access in accesses {
                assert!(usize::from(access.instruction) < block.instructions.len());
                assert!((1..=64).contains(&access.octets));
            }
        }
        read.push((thread, steps));
    }
    let again = written(&trace, &read);
    let again = TraceReader::open(again).expect("what is written can be read");
    assert_eq!(again.dictionary.blocks, trace.dictionary.blocks);
    for (thread, expected) in read {
        let ended = expected.last().is_some_and(|(step, _)| *step == Step::End);
        let found = steps(&again, thread);
        assert!(!ended || found.as_ref() == Ok(&expected), "thread {thread} is another one");
    }
    true
}

type Read = (u32, Vec<(Step, Vec<Access>)>);

fn written(trace: &TraceReader<Vec<u8>>, read: &[Read]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &trace.facts).expect("memory does not fail");
    for block in &trace.dictionary.blocks {
        writer.define(block.clone());
    }
    for (thread, steps) in read {
        for (step, accesses) in steps {
            match step {
                Step::Block { number } => {
                    writer.block(*thread, *number, accesses).expect("memory does not fail")
                }
                Step::Sync(sync) => writer.sync(*thread, *sync),
                Step::End => writer.end(*thread),
            }
        }
    }
    writer.finish().expect("memory does not fail")
}

/// Frames of a trace, as bytes from which a fuzzer makes them: kind, thread, length in two bytes, so many bytes.
/// They are packed as a trace has them, so that what is in them is reached. Whether they were a trace.
#[allow(dead_code, reason = "for drivers")]
pub fn frames(mut octets: &[u8]) -> bool {
    let mut file = b"QTRACE\r\n\x01\0\0\0\0\0\0\0".to_vec();
    while let Some((&[kind, thread, low, high], rest)) = octets.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (raw, rest) = rest.split_at(length);
        frame(&mut file, u32::from(kind), u32::from(thread), raw);
        octets = rest;
    }
    trace(&file)
}

/// Appends a frame to a trace without an end.
#[allow(dead_code, reason = "for drivers")]
pub fn frame(file: &mut Vec<u8>, kind: u32, thread: u32, raw: &[u8]) {
    let stored = zstd::bulk::compress(raw, 1).expect("memory does not fail");
    [kind, thread].iter().for_each(|number| file.extend(number.to_le_bytes()));
    file.extend(1_u64.to_le_bytes());
    [raw.len(), stored.len()].iter().for_each(|length| file.extend((*length as u32).to_le_bytes()));
    file.extend(stored);
}
