//! Inputs that are text, line by line.

use super::{ImportError, InputPosition, Source, failed};
use std::io::{BufRead, Read};

/// Longest line that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// Lines of an input, with their numbers.
pub(super) struct Lines<'a> {
    source: Source<'a>,
    line: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(source: Source<'a>) -> Self {
        Self { source, line: Vec::new(), number: 0 }
    }

    /// The input's name.
    pub(super) fn name(&self) -> &str {
        &self.source.name
    }

    /// The next line without its end; none after the last.
    pub(super) fn next(&mut self) -> Result<Option<&str>, ImportError> {
        self.line.clear();
        self.number += 1;
        let read = self.source.octets.by_ref().take(LONGEST).read_until(b'\n', &mut self.line);
        let read =
            read.map_err(|error| failed(&self.source.name, InputPosition::Line(self.number), error))?;
        if read as u64 == LONGEST {
            return Err(self.damaged("it is longer than any line of such a trace"));
        }
        match std::str::from_utf8(&self.line) {
            _ if read == 0 => Ok(None),
            Ok(line) => Ok(Some(line.trim_end())),
            Err(_) => Err(self.damaged("it is no text")),
        }
    }

    /// Something is wrong with the line that was read last.
    pub(super) fn damaged(&self, reason: impl Into<String>) -> ImportError {
        self.source.damaged(InputPosition::Line(self.number), reason)
    }
}

/// A number, hexadecimal where it begins with 0x, else decimal.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => hexadecimal(digits),
        // `parse` would take a sign as well.
        None => text.parse().ok().filter(|_| text.bytes().all(|digit| digit.is_ascii_digit())),
    };
    parsed.ok_or_else(|| format!("{text:?} is no number"))
}

/// A number of hexadecimal digits alone, without a sign.
pub(super) fn hexadecimal(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}
