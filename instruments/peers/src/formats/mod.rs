//! Which tool wrote a file, and what it measured. Pure: bytes in, a measurement out.

mod cyclictest;
mod flent;
mod iperf3;
mod irtt;
mod json;
mod rtla;
mod sockperf;

use crate::result::Measurement;
use serde_json::Value;
use std::io::Read;

/// Bytes at the beginning of a file that tell its format.
pub const HEAD_BYTES: usize = 8_192;
/// Most bytes of a file, expanded if it is compressed.
pub const MOST_BYTES: usize = 1 << 28;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What is wrong with a file, as the end of a sentence.
pub type Damage = String;

/// Whether a file that begins like this is of a tool that is known here. JSON of other programs is taken too, so that the
/// error can say whose JSON is read.
pub fn recognizes(head: &[u8]) -> bool {
    if head.starts_with(&GZIP) {
        let mut first = [0; 1];
        return flate2::read::GzDecoder::new(head).read(&mut first).is_ok_and(|read| read == 1)
            && first == *b"{";
    }
    let text = String::from_utf8_lossy(head);
    text.trim_start().starts_with('{')
        || [cyclictest::is_histogram, rtla::is_output, sockperf::is_log].iter().any(|is| is(&text))
}

/// Reads a file.
///
/// # Errors
/// It is damaged, of another program, or has nothing that Quaver compares.
pub fn parse(bytes: &[u8]) -> Result<Measurement, Damage> {
    if bytes.starts_with(&GZIP) {
        let mut expanded = Vec::new();
        let limit = MOST_BYTES as u64 + 1;
        flate2::read::MultiGzDecoder::new(bytes)
            .take(limit)
            .read_to_end(&mut expanded)
            .map_err(|error| format!("it does not expand ({error}); copy it again"))?;
        if expanded.len() > MOST_BYTES {
            return Err(format!("it expands to more than {} MiB", MOST_BYTES >> 20));
        }
        return document(&expanded);
    }
    if bytes.trim_ascii_start().starts_with(b"{") {
        return document(bytes);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("it is no text from byte {} on", error.valid_up_to()))?;
    match text {
        _ if cyclictest::is_histogram(text) => cyclictest::histogram(text),
        _ if rtla::is_output(text) => rtla::parse(text),
        _ if sockperf::is_log(text) => sockperf::parse(text),
        _ => Err("it is of no tool that is known here".to_owned()),
    }
}

fn document(bytes: &[u8]) -> Result<Measurement, Damage> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("it is no whole JSON ({error}); copy it again"))?;
    let has = |key: &str| value.get(key).is_some();
    if has("thread") && has("num_threads") {
        cyclictest::json(&value)
    } else if has("round_trips") || (has("stats") && has("config")) {
        irtt::parse(&value)
    } else if has("start") && has("end") && has("intervals") {
        iperf3::parse(&value)
    } else if has("metadata") && has("results") {
        flent::parse(&value)
    } else {
        Err("its JSON is of none of cyclictest, irtt, iperf3 and flent".to_owned())
    }
}
