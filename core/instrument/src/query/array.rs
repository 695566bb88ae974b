//! Objects, a line each, as one document on standard output: the array `rows`, and behind it what came of the question.

use crate::envelope::Envelope;
use crate::exit_code::ExitCode;
use quaver_view::Document;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

/// Name and version.
const SCHEMA: &str = "quaver.query/1";

/// Writes the rows; how many there were. Nothing is written before the first: there may be none, for the question has an error.
pub(super) fn pass_on(rows: impl Read) -> io::Result<u64> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut count = 0;
    for row in BufReader::new(rows).lines() {
        match count {
            0 => begin(&mut out)?,
            _ => out.write_all(b",\n")?,
        }
        write!(out, "{}", without_odd_numbers(&row?))?;
        count += 1;
    }
    out.flush()?;
    Ok(count)
}

fn begin(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{{\"schema\":\"{SCHEMA}\",\"rows\":[")
}

/// Ends a document of so many rows. A question that failed before its first row leaves none.
pub(super) fn end(count: u64, status: ExitCode) -> io::Result<()> {
    let mut document = Document::new("quaver query", "rows");
    document.incomplete = status != ExitCode::Done;
    if count == 0 && document.incomplete {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    if count == 0 {
        begin(&mut out)?;
    }
    let result = serde_json::to_string(&Envelope::of(&document, None, status))?;
    writeln!(out, "\n],\"result\":{result}}}")
}

/// The same with null for numbers that JSON (RFC 8259, section 6) does not have: `NaN`, `Infinity`, `-Infinity`.
fn without_odd_numbers(row: &str) -> String {
    const ODD: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !ODD.iter().any(|odd| row.contains(odd)) {
        return row.to_owned();
    }
    let (mut out, mut rest) = (String::with_capacity(row.len()), row);
    while let Some(quote) = rest.find('"') {
        out.push_str(&ODD.iter().fold(rest[..quote].to_owned(), |text, odd| text.replace(odd, "null")));
        let string = &rest[quote..];
        let length = string_length(string);
        out.push_str(&string[..length]);
        rest = &string[length..];
    }
    out + &ODD.iter().fold(rest.to_owned(), |text, odd| text.replace(odd, "null"))
}

/// Length of the string that this begins with, its quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = true; // The quote that opens it ends nothing.
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_lacks_are_null_and_words_stay() {
        let row = r#"{"a":NaN,"NaN":[-Infinity,1,Infinity],"b":"NaN \" Infinity","c\\":NaN}"#;
        let expected = r#"{"a":null,"NaN":[null,1,null],"b":"NaN \" Infinity","c\\":null}"#;
        assert_eq!(without_odd_numbers(row), expected);
        assert_eq!(without_odd_numbers(r#"{"a":1}"#), r#"{"a":1}"#);
    }
}
