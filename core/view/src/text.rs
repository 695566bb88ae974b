//! Sentences, and what makes text of others safe to show.

use std::fmt;

/// How a part of a sentence is set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emphasis {
    /// Not at all.
    Plain,
    /// What the sentence is about.
    Strong,
    /// Something to type or a name as a program knows it.
    Code,
}

/// A sentence or a few. Quantities in it are written by [`crate::Cell`]: `text!("{} came late.", Cell::Count(3))`.
///
/// It may hold anything, names that others chose included: the renderers make it safe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text(Vec<(Emphasis, String)>);

impl Text {
    /// Adds words.
    #[must_use]
    pub fn plain(self, words: impl fmt::Display) -> Self {
        self.with(Emphasis::Plain, words.to_string())
    }

    /// Adds words that stand out.
    #[must_use]
    pub fn strong(self, words: impl fmt::Display) -> Self {
        self.with(Emphasis::Strong, words.to_string())
    }

    /// Adds a command, a parameter or a name.
    #[must_use]
    pub fn code(self, words: impl fmt::Display) -> Self {
        self.with(Emphasis::Code, words.to_string())
    }

    fn with(mut self, emphasis: Emphasis, words: String) -> Self {
        if !words.is_empty() {
            self.0.push((emphasis, words));
        }
        self
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = (Emphasis, &str)> {
        self.0.iter().map(|(emphasis, words)| (*emphasis, words.as_str()))
    }
}

impl fmt::Display for Text {
    /// The words alone, as they are: what others chose is not made safe here.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(_, words)| f.write_str(words))
    }
}

impl From<&str> for Text {
    fn from(words: &str) -> Self {
        Self::default().plain(words)
    }
}

impl From<String> for Text {
    fn from(words: String) -> Self {
        Self::default().with(Emphasis::Plain, words)
    }
}

impl From<&String> for Text {
    fn from(words: &String) -> Self {
        words.as_str().into()
    }
}

/// A [`Text`] of words and quantities, as `format!`.
#[macro_export]
macro_rules! text {
    ($($words:tt)*) => { $crate::Text::from(format!($($words)*)) };
}

/// Text made safe: control characters, which could drive a terminal, and marks that turn the direction of the text
/// around them are shown as `�`.
pub fn safe(text: &str) -> String {
    text.chars().map(|c| if is_hostile(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn is_hostile(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Width on a terminal: everything takes one cell a character.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// Text cut to `limit` characters, with an ellipsis where something was cut.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(limit.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// Text broken at spaces into lines of at most `limit` characters. A number stays with its unit (`7.41 µs`). A longer word is
/// broken behind a mark in its second half, such as the `/` of a path, and without one at the end of the line.
pub fn wrap(text: &str, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words(text).iter().flat_map(|word| pieces(word, limit.max(1))) {
        if !line.is_empty() && width(&line) + 1 + width(word) > limit {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Items, as many to a line as fit into `limit` characters, none broken that is not longer.
pub(crate) fn pack(items: impl Iterator<Item = String>, limit: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if width(line) + 2 + width(&item) <= limit => {
                line.push_str("  ");
                line.push_str(&item);
            }
            _ => lines.extend(wrap(&item, limit)),
        }
    }
    lines
}

/// A word as it is, or in pieces of at most `limit` characters.
fn pieces(mut word: &str, limit: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    while let Some((end, _)) = word.char_indices().nth(limit) {
        let behind = |marks| word[..end].rfind(marks).map(|at| at + 1).filter(|at| *at * 2 > end);
        let behind = behind(&['/', ',', '=', '|', '&', ':', ';'][..]).or_else(|| behind(&['-', '_', '.']));
        let (piece, rest) = word.split_at(behind.unwrap_or(end));
        pieces.push(piece);
        word = rest;
    }
    pieces.push(word);
    pieces
}

/// Words, each number with its unit as one.
fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 10] = ["ns", "µs", "ms", "s", "%", "pp", "B", "kB", "MB", "GB"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = UNITS.contains(&word.trim_end_matches([',', '.', ')', ';', ':']));
        match words.last_mut() {
            Some(last) if unit && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cell;

    #[test]
    fn names_cannot_drive_the_terminal_nor_turn_the_text() {
        assert_eq!(safe("a\x1b[2Jb\n\u{9b}31m"), "a�[2Jb��31m");
        assert_eq!(safe("a\u{202e}b\u{2066}c\u{2028}"), "a�b�c�");
        assert_eq!(safe("שלום ΔT ✓"), "שלום ΔT ✓");
        assert_eq!(cut("abcdef", 4), "abc…");
    }

    #[test]
    fn text_is_wrapped_at_spaces_and_numbers_keep_their_units() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("it took 7.41 µs, then", 12), ["it took", "7.41 µs,", "then"]);
        assert_eq!(wrap("", 8), Vec::<String>::new());
        assert_eq!(wrap("a-very-long-word b", 9), ["a-very-", "long-word", "b"]);
        assert_eq!(wrap("see /sys/devices/system", 14), ["see", "/sys/devices/", "system"]);
        assert_eq!(wrap("ΔΔΔΔΔ b", 2), ["ΔΔ", "ΔΔ", "Δ", "b"]);
    }

    #[test]
    fn sentences_are_built_of_quantities() {
        let built = text!("{} of {} came late.", Cell::Count(2_311), Cell::Share(0.5));
        assert_eq!(built.to_string(), "2,311 of 50.0 % came late.");
        let parts = Text::from("run ").code("taskset").strong("").plain(".");
        assert_eq!(parts.parts().count(), 3);
        assert_eq!(parts.to_string(), "run taskset.");
    }
}
