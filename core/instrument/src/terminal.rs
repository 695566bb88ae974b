//! What the terminal can show, and a document written to it.

use anyhow::Context;
use quaver_view::{Document, Style, write_terminal};
use rustix::fd::AsFd;
use std::io::{IsTerminal, Write};

/// For standard output: colour and the terminal's width where it is a terminal, else 100 columns without colour.
/// `NO_COLOR` (no-color.org) switches colour off.
pub fn style() -> Style {
    of(&std::io::stdout())
}

/// The same for standard error, where a page goes whose program has standard output for itself.
pub fn style_of_stderr() -> Style {
    of(&std::io::stderr())
}

/// Whether the locale's characters are ASCII's alone, as far as we know: it is not UTF-8.
pub fn is_ascii() -> bool {
    // As setlocale(3) looks: the first that is set decides.
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| std::env::var(name).ok());
    let locale = variables.map(|value| value.to_ascii_lowercase()).find(|value| !value.is_empty());
    !locale.is_some_and(|locale| locale.contains("utf-8") || locale.contains("utf8"))
}

fn of(stream: &(impl AsFd + IsTerminal)) -> Style {
    if !stream.is_terminal() {
        return Style::PLAIN;
    }
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Style { colour: !refused, width: width(columns), ..Style::PLAIN }
}

/// Characters in a line of a terminal that says it has so many columns; 0 where it does not say.
fn width(columns: usize) -> usize {
    if columns == 0 { Style::PLAIN.width } else { columns.clamp(40, 200) }
}

/// The document as the terminal shows it.
pub fn page(document: &Document, style: Style) -> String {
    let mut out = Vec::new();
    // Memory takes all that is written, and the renderer writes text.
    let _ = write_terminal(&mut out, document, style);
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes the document to standard output, in the form that suits it.
///
/// # Errors
/// Standard output takes no more.
pub fn print(document: &Document) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    write_terminal(&mut out, document, style())
        .and_then(|()| out.flush())
        .context("writing to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_40_to_200_characters_and_100_where_the_width_is_unknown() {
        assert_eq!([0, 20, 40, 132, 400].map(width), [100, 40, 40, 132, 200]);
    }
}
