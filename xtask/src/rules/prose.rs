//! English of documents: width of lines, length of sentences, words that have a better one.

use super::Problem;
use crate::rust_text;
use crate::tree::Tree;

/// Columns of a line.
const COLUMNS: usize = 100;

/// Words of a sentence, counted by [`sentences`].
const SENTENCE_WORDS: usize = 25;

/// Mean of a document. Sentences near the limit, one after the other, tire as much as a long one.
const MEAN_WORDS: usize = 18;

/// Documents that are held to these rules, as beginnings of paths.
const DOCUMENTS: &[&str] =
    &["CONTRIBUTING.md", "SECURITY.md", "docs/", "fuzz/README.md", "kernels/README.md"];

/// Words that a person should not meet in the tool's own sentences, each with what to write (CONTRIBUTING.md).
const ODD_WORDS: &[(&str, &str)] = &[
    ("octet", "byte"),
    ("octets", "bytes"),
    ("told", "reported, stated, or as given"),
    ("nobody", "no thread, no program"),
    ("somebody", "another program"),
    ("whoever", "the thread that, the program that"),
    ("wakee", "woken thread"),
    ("anew", "again"),
];

fn documents(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let held = |path: &str| DOCUMENTS.iter().any(|start| path.starts_with(start));
    tree.texts().filter(move |(path, _)| path.ends_with(".md") && held(path))
}

/// What a line of Markdown is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Code,
    Table,
    Heading,
    Blank,
    /// First line of a list item.
    Item,
    Text,
}

/// The lines with what they are. Indented code begins after a blank line, by four spaces, outside of a list.
fn lines(text: &str) -> Vec<(Line, &str)> {
    let (mut fenced, mut list, mut before) = (false, false, Line::Blank);
    let mut all = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indented = line.starts_with("    ") && !list && matches!(before, Line::Blank | Line::Code);
        let kind = if trimmed.starts_with("```") {
            fenced = !fenced;
            Line::Code
        } else if fenced {
            Line::Code
        } else if trimmed.is_empty() {
            Line::Blank
        } else if indented {
            Line::Code
        } else if trimmed.starts_with('|') {
            Line::Table
        } else if line.starts_with('#') {
            Line::Heading
        } else if is_item(trimmed) {
            Line::Item
        } else {
            Line::Text
        };
        list = kind == Line::Item || list && (kind == Line::Blank || line.starts_with(' '));
        before = kind;
        all.push((kind, line));
    }
    all
}

fn is_item(trimmed: &str) -> bool {
    let digits = trimmed.trim_start_matches(|letter: char| letter.is_ascii_digit());
    trimmed.starts_with("- ") || trimmed.starts_with("* ") || digits != trimmed && digits.starts_with(". ")
}

/// The text without what stands between the two marks, which go too: `code`, (asides), "quotes".
fn without(text: &str, open: char, close: char) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let inside = &rest[start + open.len_utf8()..];
        let Some(end) = inside.find(close) else { break };
        out.push_str(&rest[..start]);
        rest = &inside[end + close.len_utf8()..];
    }
    out + rest
}

/// Lines are wrapped, but for tables and code. Targets of links cannot be, and do not count.
pub(super) fn width(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in documents(tree) {
        for (index, (kind, line)) in lines(text).into_iter().enumerate() {
            let wide = |line: &str| line.chars().count() > COLUMNS;
            if !matches!(kind, Line::Code | Line::Table) && wide(line) && wide(&without(line, '(', ')')) {
                problems.push(Problem::at(path, index + 1, format!("wrap at {COLUMNS} columns")));
            }
        }
    }
    problems
}

/// Computers have bytes. Names of fields and quotations may have octets.
pub(super) fn octets(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in documents(tree) {
        for (index, (_, line)) in
            lines(text).into_iter().enumerate().filter(|(_, (kind, _))| *kind != Line::Code)
        {
            let said = without(&without(line, '`', '`'), '"', '"');
            if words(&said).any(|word| matches!(word.to_lowercase().as_str(), "octet" | "octets")) {
                problems.push(Problem::at(path, index + 1, "write byte"));
            }
        }
    }
    problems
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// A sentence: line of its paragraph's beginning, and words. It ends with a mark before a blank and a capital, digit or
/// sign. What stands in round brackets does not count, and a piece of code counts as a word.
fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (index, (kind, line)) in lines(text).into_iter().enumerate() {
        match kind {
            Line::Text if open => {
                if let Some((_, paragraph)) = paragraphs.last_mut() {
                    paragraph.push(' ');
                    paragraph.push_str(line.trim());
                }
            }
            Line::Text | Line::Item => paragraphs.push((index + 1, line.trim().to_owned())),
            Line::Code | Line::Table | Line::Heading | Line::Blank => {}
        }
        open = matches!(kind, Line::Text | Line::Item);
    }
    let mut found = Vec::new();
    for (line, paragraph) in paragraphs {
        let plain = without(&code_as_word(&paragraph), '(', ')');
        let mut count = 0;
        let mut pieces = plain.split_whitespace().peekable();
        while let Some(piece) = pieces.next() {
            count += usize::from(piece.chars().any(char::is_alphanumeric));
            let ended = piece.trim_end_matches(['"', '*', '_', ')']).ends_with(['.', '!', '?', ':']);
            let starts = |next: &&str| next.chars().next().is_some_and(|first| !first.is_lowercase());
            if pieces.peek().is_none_or(|next| ended && starts(next)) {
                found.push((line, count));
                count = 0;
            }
        }
    }
    found
}

/// Each piece of code as one word.
fn code_as_word(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(place, part)| if place % 2 == 1 { "Code" } else { part }).collect()
}

/// Long sentences, and documents that are tiring as a whole.
pub(super) fn sentence_length(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in documents(tree) {
        let found = sentences(text);
        for (line, words) in found.iter().filter(|(_, words)| *words > SENTENCE_WORDS) {
            let message =
                format!("a sentence of this paragraph has {words} words, more than {SENTENCE_WORDS}");
            problems.push(Problem::at(path, *line, message));
        }
        let all: usize = found.iter().map(|(_, words)| words).sum();
        if all > MEAN_WORDS * found.len() {
            let mean = all / found.len().max(1);
            problems.push(Problem::new(
                path,
                format!("sentences have {mean} words on average, more than {MEAN_WORDS}"),
            ));
        }
    }
    problems
}

/// Odd words in the program's sentences. Not a rule: `cargo xtask words` lists them.
pub(crate) fn odd_strings(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let product =
        |path: &str| path.starts_with("crates/") && path.contains("/src/") && !path.contains("test");
    for (path, text) in tree.rust().filter(|(path, _)| product(path)) {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (index, line) in rust_text::literals_only(text).lines().enumerate() {
            for (odd, better) in ODD_WORDS {
                if line.trim().contains(' ') && words(line).any(|word| word == *odd) {
                    problems.push(Problem::at(path, index + 1, format!("`{odd}`: {better}")));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(problems: Vec<Problem>) -> Vec<String> {
        problems.into_iter().map(|problem| problem.place).collect()
    }

    #[test]
    fn wide_lines_are_found_but_not_in_tables_code_links_and_other_files() {
        let wide = "word ".repeat(21);
        let link = format!("see [the page](https://example.org/{})", "a".repeat(90));
        let text = format!(
            "{wide}\n\n| {wide} |\n\n    {wide}\n\n```\n{wide}\n```\n\n{link}\n- {wide}\n\n  {wide}\n"
        );
        let tree = Tree::of(&[("docs/a.md", &text), ("README.md", &wide)]);
        assert_eq!(places(width(&tree)), ["docs/a.md:1", "docs/a.md:12", "docs/a.md:14"]);
    }

    #[test]
    fn octets_are_found_but_not_in_names_quotations_and_code() {
        let text =
            "| 4 octets |\n\nAn `octets` field, \"octet\" in the RFC.\n\n    8 octets\n\nOctet by Octet.\n";
        assert_eq!(places(octets(&Tree::of(&[("docs/a.md", text)]))), ["docs/a.md:1", "docs/a.md:7"]);
    }

    #[test]
    fn sentences_are_counted_without_asides_and_with_code_as_a_word() {
        let text = "# A heading of some words\n\nOne two (not this one) three. Four `a b c`\nfive: Six e.g. seven.\n\n- Eight.\n  Nine ten.\n";
        assert_eq!(sentences(text), [(3, 3), (3, 3), (3, 3), (6, 1), (6, 2)]);
    }

    #[test]
    fn long_sentences_and_tiring_documents_are_found() {
        let long = format!("{}end.\n", "word ".repeat(25));
        let tiring = format!("{}end.\n\n", "word ".repeat(18)).repeat(3);
        let tree =
            Tree::of(&[("docs/a.md", &long), ("docs/b.md", &tiring), ("docs/c.md", "Short. And good.\n")]);
        assert_eq!(places(sentence_length(&tree)), ["docs/a.md:1", "docs/a.md", "docs/b.md"]);
    }

    #[test]
    fn odd_words_are_listed_from_sentences_of_the_product_alone() {
        let code = "fn f() { say(\"nobody was told\"); name(\"told\"); } // nobody\n#[cfg(test)]\nmod tests { \"told this\" }\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", code), ("crates/a/tests/b.rs", code)]);
        assert_eq!(odd_strings(&tree).len(), 2);
    }
}
