//! The product's sources: what is left of the tracked files without tests, examples, third-party and generated files.

use crate::rust_text;
use crate::tree::Tree;
use std::collections::BTreeSet;

/// Folders of which nothing is product.
const LEFT_OUT: &[&str] = &[
    "tests",
    "examples",
    "benches",
    "fixtures",
    "traces",
    "golden",
    "scripts",
    "bench-runs",
    "fuzz",
    "docs",
];

/// Crates that only serve tests and the repository.
const TOOLS: &[&str] = &["quaver-testbed", "xtask"];

/// Ends of the names of product sources.
pub(crate) const LANGUAGES: &[(&str, &[&str])] =
    &[("Rust", &[".rs"]), ("C", &[".c", ".h"]), ("JS", &[".js"]), ("CSS", &[".css"]), ("HTML", &[".html"])];

/// Files that others wrote and we only carry.
pub(crate) fn is_third_party(path: &str) -> bool {
    path.starts_with("core/view/assets/uplot/") || path.contains("LICENSE")
}

/// A source of the product, or of its tools.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    /// Name of the crate, or of the folder of what belongs to none.
    pub(crate) owner: String,
    /// It is of a crate that only serves tests and the repository.
    pub(crate) is_tool: bool,
    /// Place in [`LANGUAGES`].
    pub(crate) language: usize,
    /// Its text; of Rust without the items that are for tests only, whose lines are empty.
    pub(crate) text: String,
    /// Lines without those.
    pub(crate) lines: usize,
}

/// All sources of the product and its tools, in the order of their paths.
pub(crate) fn sources(tree: &Tree) -> Vec<Source<'_>> {
    let tests = modules_of_tests(tree);
    tree.texts().filter_map(|(path, text)| of_file(tree, &tests, path, text)).collect()
}

fn of_file<'a>(tree: &Tree, tests: &BTreeSet<String>, path: &'a str, text: &str) -> Option<Source<'a>> {
    let language = LANGUAGES.iter().position(|(_, ends)| ends.iter().any(|end| path.ends_with(end)))?;
    let folders = || path.split('/').rev().skip(1);
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_test = name == "tests.rs" || name.ends_with("_tests.rs");
    let below_tests = tests.iter().any(|module| {
        path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    });
    if folders().any(|folder| LEFT_OUT.contains(&folder)) || is_test || below_tests || is_third_party(path) {
        return None;
    }
    let owner = owner(tree, path);
    let all = text.lines().count();
    let (text, left_out) = match language {
        0 => without_tests(text),
        _ => (text.to_owned(), 0),
    };
    Some(Source {
        path,
        is_tool: TOOLS.contains(&owner.as_str()),
        owner,
        language,
        text,
        lines: all - left_out,
    })
}

/// The package whose manifest lies nearest above a file; else the first folder.
pub(crate) fn owner(tree: &Tree, path: &str) -> String {
    let mut folder = path;
    while let Some((above, _)) = folder.rsplit_once('/') {
        folder = above;
        if let Some(name) = tree.text(&format!("{folder}/Cargo.toml")).and_then(package) {
            return name;
        }
    }
    path.split('/').next().unwrap_or(path).to_owned()
}

/// The name of a manifest's package.
pub(crate) fn package(manifest: &str) -> Option<String> {
    let manifest: toml::Table = manifest.parse().ok()?;
    Some(manifest.get("package")?.get("name")?.as_str()?.to_owned())
}

/// Modules in files of their own that are compiled for tests only, as paths without `.rs`.
fn modules_of_tests(tree: &Tree) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, text) in tree.rust() {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| **line == "#[cfg(test)]") {
            let item = lines[at + 1..].iter().find(|line| !line.starts_with("#["));
            let module =
                item.and_then(|line| line.strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name));
            found.extend(module.map(|name| format!("{}/{name}", folder_of(path))));
        }
    }
    found
}

/// Folder in which the modules lie that a file declares.
pub(crate) fn folder_of(path: &str) -> &str {
    let whole = path.strip_suffix(".rs").unwrap_or(path);
    let (folder, name) = whole.rsplit_once('/').unwrap_or(("", whole));
    if ["mod", "lib", "main"].contains(&name) { folder } else { whole }
}

/// A Rust source in which the lines of items under `#[cfg(test)]` are empty, and how many lines these were.
fn without_tests(text: &str) -> (String, usize) {
    let code = rust_text::code_only(text);
    let code: Vec<&str> = code.lines().collect();
    let mut kept: Vec<&str> = text.lines().collect();
    let (mut at, mut left_out) = (0, 0);
    while at < code.len() {
        if code[at].trim() != "#[cfg(test)]" {
            at += 1;
            continue;
        }
        let end = end_of_item(&code, at);
        kept[at..end].fill("");
        left_out += end - at;
        at = end;
    }
    (kept.join("\n"), left_out)
}

/// The line behind the item that begins with the attribute of this line.
fn end_of_item(code: &[&str], begin: usize) -> usize {
    let mut depth = 0_i32;
    for (at, line) in code.iter().enumerate().skip(begin) {
        for letter in line.chars() {
            match letter {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' => depth -= 1,
                '}' => {
                    depth -= 1;
                    if depth <= 0 {
                        return at + 1;
                    }
                }
                ';' | ',' if depth == 0 => return at + 1,
                _ => {}
            }
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<(String, String, usize)> {
        let tree = Tree::of(files);
        sources(&tree).into_iter().map(|one| (one.owner, one.path.to_owned(), one.lines)).collect()
    }

    #[test]
    fn tests_examples_and_what_others_wrote_are_no_product() {
        let manifest = "[package]\nname = \"a\"";
        let found = lines(&[
            ("crates/a/Cargo.toml", manifest),
            ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod made;\n"),
            ("crates/a/src/made.rs", "x\n"),
            ("crates/a/src/made/more.rs", "x\n"),
            ("crates/a/src/made_here.rs", "x\n"),
            ("crates/a/src/b/tests.rs", "x\n"),
            ("crates/a/src/html_tests.rs", "x\n"),
            ("crates/a/tests/c.rs", "x\n"),
            ("crates/a/examples/d.rs", "x\n"),
            ("core/view/assets/uplot/u.js", "x\n"),
            ("kernels/ocean.c", "x\ny\n"),
        ]);
        let wanted = [
            ("a", "crates/a/src/lib.rs", 1),
            ("a", "crates/a/src/made_here.rs", 1),
            ("kernels", "kernels/ocean.c", 2),
        ];
        assert_eq!(found, wanted.map(|(owner, path, lines)| (owner.to_owned(), path.to_owned(), lines)));
    }

    #[test]
    fn items_for_tests_are_left_out_to_their_ends() {
        let source = "fn a() {}\n#[cfg(test)]\nuse b::{c, d};\nfn e() {\n    x(\"#[cfg(test)]\")\n}\n#[cfg(test)]\nmod tests {\n    fn f() { \"}\"; }\n}\nfn g() {}\n";
        let (text, left_out) = without_tests(source);
        assert_eq!((text.lines().count(), left_out), (11, 6));
        assert!(text.contains("fn a") && text.contains("fn e") && text.contains("fn g"));
        assert!(!text.contains("use b") && !text.contains("fn f"));
    }
}
