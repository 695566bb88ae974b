//! The product's Rust sources as text: without comments, without modules of tests.

use std::path::{Path, PathBuf};

/// Folders that hold no product code.
const LEFT_OUT: [&str; 9] =
    ["target", "tests", "examples", "benches", "testbed", "quaver-testbed", "xtask", "fuzz", "bench-runs"];

/// One source file.
pub(crate) struct Source {
    /// Path from the repository's root.
    pub(crate) path: String,
    /// Text without comments and without the module of tests at its end.
    pub(crate) text: String,
}

/// All of them, in the order of their paths.
pub(crate) fn product() -> Vec<Source> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|path| path.join("Cargo.lock").is_file());
    let root = root.expect("the crate lies in the workspace");
    let mut paths = Vec::new();
    walk(root, &mut paths);
    paths.sort();
    let sources = paths.into_iter().map(|path| {
        let text = std::fs::read_to_string(&path).expect("sources can be read");
        let path = path.strip_prefix(root).expect("it was found there").to_string_lossy().into_owned();
        Source { path, text: without_comments(without_tests(&text)) }
    });
    sources.collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("folders can be listed").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && !name.starts_with('.') && !LEFT_OUT.contains(&name.as_str()) {
            walk(&path, found);
        } else if name.ends_with(".rs")
            && name != "tests.rs"
            && !name.ends_with("_tests.rs")
            && name != "fixture.rs"
        {
            found.push(path);
        }
    }
}

/// The text up to the module of tests, which by the project's custom comes last.
fn without_tests(text: &str) -> &str {
    let mut from = 0;
    while let Some(at) = text[from..].find("#[cfg(test)]\n").map(|at| from + at) {
        let item = text[at..].lines().skip(1).find(|line| !line.trim_start().starts_with("#["));
        if item.is_some_and(|line| line.contains("mod ") && line.ends_with('{')) {
            return &text[..at];
        }
        from = at + 1;
    }
    text
}

/// Lines' comments become nothing; a `//` inside a literal stays.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let comment = line.match_indices("//").find(|(at, _)| quotes(&line[..*at]).is_multiple_of(2));
        kept.push_str(comment.map_or(line, |(at, _)| &line[..at]).trim_end());
        kept.push('\n');
    }
    kept
}

/// Quotation marks of literals.
fn quotes(text: &str) -> usize {
    text.replace("\\\\", "").replace("\\\"", "").replace("'\"'", "").matches('"').count()
}

/// What stands between quotation marks, on one line.
pub(crate) fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('"').skip(1).step_by(2))
}

/// The length of a stretch that begins with an opening bracket, up to the one that closes it. Brackets in
/// literals do not count.
pub(crate) fn bracketed(text: &str) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}
