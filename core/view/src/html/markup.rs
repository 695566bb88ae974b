//! HTML as it grows. Everything that is not ours goes through one function that makes it safe and escapes it.

use crate::text::{Emphasis, Text, safe};
use std::fmt::Write as _;

/// Markup.
#[derive(Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// Adds markup of ours.
    pub(crate) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds words, escaped: they stand as text, or between quotes as the value of an attribute.
    pub(crate) fn text(&mut self, words: &str) -> &mut Self {
        for c in safe(words).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
        self
    }

    /// Adds a number with at most two decimals, as coordinates have them.
    pub(crate) fn number(&mut self, value: f64) -> &mut Self {
        let value = if value.is_finite() { value } else { 0.0 };
        let text = format!("{value:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        self.0.push_str(if text == "-0" { "0" } else { text });
        self
    }

    /// Adds an integer.
    pub(crate) fn integer(&mut self, value: usize) -> &mut Self {
        let _ = write!(self.0, "{value}");
        self
    }

    /// Adds a sentence.
    pub(crate) fn sentence(&mut self, text: &Text) -> &mut Self {
        for (emphasis, words) in text.parts() {
            match emphasis {
                Emphasis::Plain => self.text(words),
                Emphasis::Strong => self.raw("<strong>").text(words).raw("</strong>"),
                Emphasis::Code => self.raw("<code>").text(words).raw("</code>"),
            };
        }
        self
    }

    /// Adds an element that holds words only; `class` may be empty.
    pub(crate) fn element(&mut self, name: &'static str, class: &'static str, words: &str) -> &mut Self {
        self.open(name, class).text(words).close(name)
    }

    /// Adds an element that holds a sentence, unless it says nothing.
    pub(crate) fn said(&mut self, name: &'static str, class: &'static str, text: &Text) -> &mut Self {
        if text.is_empty() { self } else { self.open(name, class).sentence(text).close(name) }
    }

    /// Opens an element.
    pub(crate) fn open(&mut self, name: &'static str, class: &'static str) -> &mut Self {
        self.raw("<").raw(name);
        if !class.is_empty() {
            self.raw(" class=\"").raw(class).raw("\"");
        }
        self.raw(">")
    }

    /// Closes an element.
    pub(crate) fn close(&mut self, name: &'static str) -> &mut Self {
        self.raw("</").raw(name).raw(">")
    }

    /// Adds other markup.
    pub(crate) fn append(&mut self, other: &Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    #[cfg(test)]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_others_is_markup() {
        let mut out = Markup::default();
        out.text("</script><script>alert('1')</script> & \"x\"\x1b[2J\u{202e}");
        let wanted =
            "&lt;/script&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;x&quot;�[2J�";
        assert_eq!(out.as_str(), wanted);
    }

    #[test]
    fn numbers_are_short_and_finite() {
        let mut out = Markup::default();
        for value in [1.0, 0.256, -0.001, 1e9, f64::NAN, 12.5] {
            out.number(value).raw(" ");
        }
        assert_eq!(out.as_str(), "1 0.26 0 1000000000 0 12.5 ");
    }

    #[test]
    fn sentences_keep_their_emphasis() {
        let mut out = Markup::default();
        out.said("p", "note", &Text::from("a<b ").strong("c").code("d&"));
        assert_eq!(out.as_str(), "<p class=\"note\">a&lt;b <strong>c</strong><code>d&amp;</code></p>");
    }
}
