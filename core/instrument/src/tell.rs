//! Sentences for the person at the terminal.

use crate::terminal;
use quaver_view::wrap;
use std::io::{IsTerminal, Write as _};

/// Writes a line to standard error, as `eprintln!` does. A terminal that is gone or a full disk behind it loses the line,
/// and nothing else: what is measured goes on.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => {
        $crate::tell::line(::std::format_args!($($words)*))
    };
}

/// What [`tell!`] does.
pub fn line(words: std::fmt::Arguments<'_>) {
    let mut words = words.to_string();
    // JSON and what is painted stay as they are.
    if std::io::stderr().is_terminal() && !words.starts_with('{') && !words.contains('\x1b') {
        words = folded(&words, terminal::style_of_stderr().width);
    }
    // Nobody could be told of the failure either.
    let _ = writeln!(std::io::stderr().lock(), "{words}");
}

/// The text with each line that is wider than the terminal broken at spaces.
fn folded(text: &str, columns: usize) -> String {
    let fold = |line: &str| match line.chars().count() > columns {
        true => wrap(line, columns).join("\n"),
        false => line.to_owned(),
    };
    text.split('\n').map(fold).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn long_lines_are_folded_and_short_ones_keep_their_blanks() {
        assert_eq!(folded("  a  b\nthis is too long\n", 10), "  a  b\nthis is\ntoo long\n");
    }
}
