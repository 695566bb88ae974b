//! Checks of the importers of other tools' traces, for the ordinary tests and for fuzzers.

#![allow(unreachable_pub, reason = "fuzz/ uses it from another crate")]

use quaver_trace::file::TraceReader;
use quaver_trace::import::{Format, ImportError, Imported, Input, import};
use quaver_trace::step::{Step, Steps};

/// What is between two inputs in one string of bytes.
const BETWEEN: &[u8] = b"\n----\n";

/// All importers with their names.
pub const FORMATS: [(&str, Format); 4] = [
    ("drmemtrace", Format::Drmemtrace),
    ("champsim", Format::Champsim),
    ("synchrotrace", Format::Synchrotrace),
    ("lackey", Format::Lackey),
];

/// The inputs that these bytes are, cut where [`BETWEEN`] is.
fn inputs(format: Format, octets: &[u8]) -> Vec<Input<'_>> {
    let mut parts = Vec::new();
    let mut rest = octets;
    while let Some(at) = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        parts.push(&rest[..at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    parts.push(rest);
    let named = |(number, octets): (usize, &'_ [u8])| match (format, number) {
        (Format::Synchrotrace, 0) => "sigil.pthread.out".to_owned(),
        (Format::Synchrotrace, _) => format!("sigil.events.out-{number}"),
        _ => format!("input {} of {}", number, octets.len()),
    };
    parts.into_iter().enumerate().map(|(number, part)| Input::new(named((number, part)), part)).collect()
}

/// Imports whatever the bytes are. What is imported is a trace that is read to its end and holds what was told of it.
/// Whether it was one.
pub fn imported(format: Format, octets: &[u8]) -> bool {
    let (trace, told) = match import(format, inputs(format, octets), Vec::new()) {
        Ok(imported) => imported,
        Err(ImportError::Damaged { input, reason, .. }) => {
            assert!(!input.is_empty() && !reason.is_empty());
            return false;
        }
        Err(ImportError::Inputs(reason)) => {
            assert!(!reason.is_empty());
            return false;
        }
        Err(error) => panic!("memory does not fail: {error}"),
    };
    assert_eq!(counted(trace), Imported { left_out: Default::default(), ..told });
    true
}

/// What a trace holds, by its steps.
fn counted(trace: Vec<u8>) -> Imported {
    let trace = TraceReader::open(trace).expect("what is written can be read");
    assert!(!trace.cut_short);
    let mut counted = Imported { lacks: trace.facts.lacks.clone(), ..Imported::default() };
    for thread in trace.threads().collect::<Vec<_>>() {
        counted.threads += 1;
        let (mut steps, mut accesses) = (trace.steps(thread), Vec::new());
        loop {
            match steps.step(&mut accesses).expect("what is written can be read") {
                Step::Block { number } => {
                    let block = &trace.dictionary.blocks[number as usize];
                    counted.instructions += block.instructions.len() as u64;
                    counted.accesses += accesses.len() as u64;
                }
                Step::Sync(_) => counted.syncs += 1,
                Step::End => break,
            }
        }
    }
    counted
}
