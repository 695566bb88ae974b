//! Damaged traces of ours and of others, by the checks that the fuzzers run.

mod import_checks;
mod import_made;
mod trace_checks;

use import_checks::{FORMATS, imported};
use import_made::{LACKEY, PRISM, PTHREAD, SIGIL, champsim, drmemtrace};
use proptest::prelude::*;
use quaver_trace::import::{Format, Input, import};

/// A good input for a format, of several files.
fn good(format: Format) -> Vec<Vec<u8>> {
    let joined = |parts: &[&[u8]]| parts.join(&b"\n----\n"[..]);
    match format {
        Format::Drmemtrace => {
            let [first, second] = drmemtrace();
            vec![joined(&[&first, &second])]
        }
        Format::Champsim => vec![champsim()],
        Format::Synchrotrace => [SIGIL, PRISM]
            .map(|[first, second]| joined(&[PTHREAD.as_bytes(), first.as_bytes(), second.as_bytes()]))
            .to_vec(),
        Format::Lackey => vec![LACKEY.as_bytes().to_vec()],
    }
}

#[test]
fn the_checks_take_in_what_is_good() {
    for (name, format) in FORMATS {
        for octets in good(format) {
            assert!(imported(format, &octets), "{name}");
        }
    }
}

fn damaged() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)
}

proptest! {
    #[test]
    fn what_is_damaged_is_refused_or_a_trace(
        which in 0..FORMATS.len(),
        dialect: prop::sample::Index,
        damage in damaged(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let format = FORMATS[which].1;
        let dialects = good(format);
        let mut octets = dialects[dialect.index(dialects.len())].clone();
        for (place, value) in damage {
            let place = place.index(octets.len());
            octets[place] = value;
        }
        if let Some(cut) = cut {
            octets.truncate(cut.index(octets.len()));
        }
        imported(format, &octets);
    }

    #[test]
    fn a_damaged_trace_of_ours_is_refused_or_comes_back(damage in damaged()) {
        let [first, second] = drmemtrace();
        let inputs = vec![Input::new("a", &first[..]), Input::new("b", &second[..])];
        let (mut octets, _) = import(Format::Drmemtrace, inputs, Vec::new()).unwrap();
        prop_assert!(trace_checks::trace(&octets));
        for (place, value) in damage {
            let place = place.index(octets.len());
            octets[place] = value;
        }
        trace_checks::trace(&octets);
    }
}

/// A trace of facts, these blocks and these steps of thread 0, as the checks of frames take it.
fn framed(blocks: &[u8], steps: &[u8]) -> Vec<u8> {
    let facts = br#"{"program":[],"tool":"","architecture":""}"#;
    let mut octets = Vec::new();
    for (kind, raw) in [(1, &facts[..]), (2, blocks), (3, steps)] {
        octets.extend([kind, 0, raw.len() as u8, 0]);
        octets.extend(raw);
    }
    octets
}

#[test]
fn frames_that_were_made_are_a_trace() {
    // A block at 0x20 with one instruction of 4 bytes that loads; a thread runs it once.
    let steps = [6, 0x81, 1, 0, 8, 0x80, 0, 2];
    let good = framed(&[0x40, 1, 4, 0x10, 0, 0], &steps);
    assert!(trace_checks::frames(&good));
    assert!(!trace_checks::frames(&good[..10]), "there is a piece of the facts");
}

#[test]
fn blocks_that_cannot_be_are_refused() {
    let none = [0x40, 0];
    let empty = [0x40, 1, 0, 0x10, 0, 0];
    // At one byte below the end of memory (-1), of four bytes.
    let beyond = [1, 1, 4, 0x10, 0, 0];
    for blocks in [&none[..], &empty, &beyond] {
        assert!(!trace_checks::frames(&framed(blocks, &[])));
    }
}
