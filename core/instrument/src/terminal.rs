//! What the terminal can show.

use quaver_view::{Document, Style};
use rustix::fd::AsFd;
use std::io::IsTerminal;

/// For standard output: colour and the terminal's width where it is a terminal, else 100 columns without colour.
/// `NO_COLOR` (no-color.org) switches colour off.
pub fn style() -> Style {
    of(&std::io::stdout())
}

/// The same for standard error, where a page goes whose program has standard output for itself.
pub fn style_of_stderr() -> Style {
    of(&std::io::stderr())
}

/// The document as the terminal shows it.
pub fn page(document: &Document, style: Style) -> String {
    let mut out = Vec::new();
    // Writing to memory cannot fail, and the document's words are letters.
    let _ = quaver_view::write_terminal(&mut out, document, style);
    String::from_utf8_lossy(&out).into_owned()
}

fn of(stream: &(impl AsFd + IsTerminal)) -> Style {
    if !stream.is_terminal() {
        return Style::PLAIN;
    }
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    // A terminal that does not know its width says 0.
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| size.ws_col);
    let width = if columns == 0 { Style::PLAIN.width } else { usize::from(columns).clamp(80, 200) };
    Style { colour: !refused, width, ..Style::PLAIN }
}
