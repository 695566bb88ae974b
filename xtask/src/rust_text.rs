//! Just enough of Rust's grammar to look at code without its comments and literals.

/// What a stretch of source text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stretch {
    Code,
    Comment,
    Literal,
}

/// The source with comments and the insides of literals replaced by spaces; line ends stay, so that line
/// numbers hold.
pub(crate) fn code_only(source: &str) -> String {
    keep(source, |stretch| stretch == Stretch::Code)
}

/// The source with everything but string and character literals replaced by spaces.
pub(crate) fn literals_only(source: &str) -> String {
    keep(source, |stretch| stretch == Stretch::Literal)
}

fn keep(source: &str, wanted: impl Fn(Stretch) -> bool) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while !rest.is_empty() {
        let (stretch, length) = next_stretch(rest);
        for letter in rest[..length].chars() {
            out.push(if wanted(stretch) || letter == '\n' { letter } else { ' ' });
        }
        rest = &rest[length..];
    }
    out
}

/// Kind and length in bytes of what the text begins with. Never 0 for a text that is not empty.
fn next_stretch(text: &str) -> (Stretch, usize) {
    if text.starts_with("//") {
        return (Stretch::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Stretch::Comment, block_comment(text));
    }
    if let Some(length) = raw_string(text).or_else(|| quoted(text)).or_else(|| character(text)) {
        return (Stretch::Literal, length);
    }
    // A whole word at once, so that the `r` or `b` at its end is not taken for the start of a literal.
    let word = text.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(text.len());
    let first = text.chars().next().map_or(0, char::len_utf8);
    (Stretch::Code, word.max(first))
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let hashes = text[prefix.len()..].bytes().take_while(|byte| *byte == b'#').count();
    let end = format!("\"{}", "#".repeat(hashes));
    let body = prefix.len() + hashes + 1;
    Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()))
}

fn quoted(text: &str) -> Option<usize> {
    let prefix = ["\"", "b\"", "c\""].into_iter().find(|prefix| text.starts_with(prefix))?;
    let bytes = text.as_bytes();
    let mut at = prefix.len();
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    Some(text.len())
}

/// A character literal; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix("b'").or_else(|| text.strip_prefix('\''))?;
    let prefix = text.len() - body.len();
    if body.starts_with('\\') {
        let end = body.get(2..)?.find('\'')?;
        return Some(prefix + 2 + end + 1);
    }
    let letter = body.chars().next()?;
    body[letter.len_utf8()..].starts_with('\'').then(|| prefix + letter.len_utf8() + 1)
}

/// Identifiers of a text in which all else is blank or punctuation, with their line numbers from 1.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
            .filter(|word| !word.is_empty())
            .map(move |word| (index + 1, word))
    })
}

/// A function of a source text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    /// Line of the word `fn`, from 1.
    pub(crate) line: usize,
    /// Lines from there to the closing brace.
    pub(crate) lines: usize,
}

/// Functions with a body, in the order of their beginning. Takes what [`code_only`] gives.
pub(crate) fn functions(code: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_') {
            continue;
        }
        let rest = &code[at + 3..];
        let end =
            rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(rest.len());
        let Some(length) = body_length(&rest[end..]).filter(|_| end > 0) else { continue };
        found.push(Function {
            name: &rest[..end],
            line: code[..at].matches('\n').count() + 1,
            lines: rest[..end + length].matches('\n').count() + 1,
        });
    }
    found
}

/// Bytes from after a function's name to the end of its body; none if it has no body.
fn body_length(text: &str) -> Option<usize> {
    let (mut braces, mut others) = (0_i32, 0_i32);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' => others += 1,
            ')' | ']' => others -= 1,
            ';' if braces == 0 && others == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces <= 0 && others <= 0 {
                    return (braces == 0).then_some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let source = "a /* b /* c */ d */ e // f\n\"g \\\" h\" i r#\"j\"k\"# 'l' '\\'' &'m n b'o' br\"p\" q";
        let code = code_only(source);
        let words: Vec<&str> = words(&code).map(|(_, word)| word).collect();
        assert_eq!(words, vec!["a", "e", "i", "m", "n", "q"]);
        assert_eq!(code_only(source).lines().count(), source.lines().count());
    }

    #[test]
    fn literals_are_found() {
        let found = literals_only("let a = \"one\"; // \"two\"\nfor x in 'y' {}");
        assert_eq!(found.split_whitespace().collect::<Vec<_>>(), vec!["\"one\"", "'y'"]);
    }

    #[test]
    fn a_broken_source_ends() {
        for source in ["\"", "'", "r#\"", "/*", "b'", "'\\", "é'", "fn ", "fn x", "fn x(", "}"] {
            let _ = functions(&code_only(source));
        }
    }

    #[test]
    fn lengths_of_functions() {
        let source = "trait T { fn none(&self, a: [u8; 3]) -> u8; }\nfn one() {}\nfn three(x: fn(u8)) -> [u8; 2] {\n  if a { b }\n}\n";
        let code = code_only(source);
        let found: Vec<(&str, usize, usize)> =
            functions(&code).iter().map(|function| (function.name, function.line, function.lines)).collect();
        assert_eq!(found, vec![("one", 2, 1), ("three", 3, 3)]);
    }
}
