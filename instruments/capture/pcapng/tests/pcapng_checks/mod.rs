//! What must hold for any bytes that are said to be a capture. Fuzzers run these checks too (`fuzz/`).
// They are public for the fuzzers' crate, which has this file as a module of its own.
#![allow(unreachable_pub)]

use quaver_pcapng::{CaptureReader, option};
use std::io::Read;

/// Gives bytes in pieces of other sizes each time, as a pipe would.
struct Pieces<'a> {
    left: &'a [u8],
    size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.size = self.size * 7 % 61 + 1;
        let octets = self.size.min(self.left.len()).min(into.len());
        into[..octets].copy_from_slice(&self.left[..octets]);
        self.left = &self.left[octets..];
        Ok(octets)
    }
}

/// Everything that a reader says of a capture.
#[derive(Debug, Default, PartialEq)]
pub struct Said {
    /// Why it cannot be read.
    pub error: Option<String>,
    /// Interface, time, bytes, and drops of each packet.
    pub packets: Vec<(usize, Option<i64>, usize, Option<u64>)>,
    /// Sentences of caution.
    pub cautions: Vec<(String, u64)>,
    /// Nothing was cut off.
    pub whole: bool,
}

/// Reads a capture to its end.
pub fn read(source: impl Read) -> Said {
    let mut said = Said::default();
    let mut reader = match CaptureReader::new(source) {
        Ok(reader) => reader,
        Err(error) => return Said { error: Some(error.to_string()), ..said },
    };
    loop {
        match reader.next_packet() {
            Ok(Some(packet)) => {
                said.packets.push((packet.interface, packet.time_ns, packet.data.len(), packet.drops_before));
            }
            Ok(None) => break,
            Err(error) => return Said { error: Some(error.to_string()), ..said },
        }
    }
    let interfaces = reader.interfaces().len();
    assert!(said.packets.iter().all(|packet| packet.0 < interfaces));
    assert!(reader.next_packet().is_ok_and(|packet| packet.is_none()), "the end is the end");
    said.cautions = reader.cautions().map(|(sentence, times)| (sentence.to_owned(), times)).collect();
    said.whole = reader.is_whole();
    said
}

/// Nothing panics, no packet has more than the file, and pieces do not matter.
pub fn capture(octets: &[u8]) {
    let said = read(octets);
    let kept: usize = said.packets.iter().map(|packet| packet.2).sum();
    assert!(kept <= octets.len(), "{kept} bytes of packets in {} of file", octets.len());
    assert!(16 * said.packets.len() <= octets.len());
    assert!(said.whole || said.error.is_some() || !said.cautions.is_empty(), "what is wrong is said");
    assert_eq!(said, read(Pieces { left: octets, size: octets.len() }));
    option::decode(octets, None);
    option::decode(octets, Some(octets.len() as i64));
}
