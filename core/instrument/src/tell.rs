//! Sentences for the person at the terminal.

use std::io::Write as _;

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
    // Nobody could be told of the failure either.
    let _ = writeln!(std::io::stderr().lock(), "{words}");
}
