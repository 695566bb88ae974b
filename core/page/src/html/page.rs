//! Words of the reports.

use serde::Serialize;

#[derive(Serialize)]
pub struct Tile {
    pub name: &'static str,
    pub value: String,
    pub note: String,
}

/// The page writes µ; the console writes u, as options are typed.
pub fn micro(text: String) -> String {
    let mut parts = text.split(" us");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // "use" is a word and no unit.
        let unit = !part.starts_with(char::is_alphanumeric);
        out.push_str(if unit { " µs" } else { " us" });
        out.push_str(part);
    }
    out
}

#[cfg(test)]
#[test]
fn units_are_written_with_their_sign_and_words_are_left() {
    let page = micro("1.5 us, may use 2 us; user us".to_owned());
    assert_eq!(page, "1.5 µs, may use 2 µs; user µs");
}
