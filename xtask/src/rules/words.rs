//! Words that must not stand in tracked files.

use super::Problem;
use crate::product::is_third_party;
use crate::rust_text;
use crate::tree::Tree;

/// Marks of unfinished work, put together so that this file does not break its own rule.
const UNFINISHED_ANYWHERE: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Code that stands for code that is missing.
const UNFINISHED_CODE: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore", "allow(dead_code)"];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tm", "p/target"),
    concat!("/Us", "ers/"),
];

/// Hosts that manifests, lock files and scripts may name: where a mirror of one machine is written into them,
/// nobody else can build.
const HOSTS: &[&str] = &[
    "github.com",
    "crates.io",
    "example.invalid",
    "example.org",
    "docs.kernel.org",
    "json-schema.org",
    "www.rfc-editor.org",
];

/// Files whose links are followed by programs.
const FOLLOWED: &[&str] =
    &[".toml", ".lock", ".json", ".sh", ".yml", ".yaml", ".npmrc", "Makefile", ".ci/run"];

/// Keys in files of other programs, which are read: iperf3's interarrival jitter.
const FOREIGN_KEYS: &[&str] = &["jitter_ms"];
/// Words before "jitter" that make it the name of one quantity (docs/glossary.md).
const DEFINED_JITTER: &[&str] = &["interarrivaljitter", "syncjitter"];

/// Whether the word stands there as a word of its own.
fn has_word(line: &str, word: &str) -> bool {
    line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).any(|part| part == word)
}

pub(super) fn unfinished(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !is_third_party(path) && !path.ends_with(".lock")) {
        for (index, line) in text.lines().enumerate() {
            for word in UNFINISHED_ANYWHERE.iter().filter(|word| has_word(line, word)) {
                problems.push(Problem::at(path, index + 1, format!("{word}: finish it or write an issue")));
            }
        }
    }
    for (path, text) in tree.rust() {
        let code = rust_text::code_only(text);
        for (index, line) in code.lines().enumerate() {
            for mark in UNFINISHED_CODE.iter().filter(|mark| line.contains(**mark)) {
                problems.push(Problem::at(path, index + 1, format!("{mark} must not be committed")));
            }
        }
    }
    problems
}

pub(super) fn machine_paths(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !is_third_party(path)) {
        for (index, line) in text.lines().enumerate() {
            if let Some(found) = MACHINE_PATHS.iter().find(|found| line.contains(**found)) {
                problems.push(Problem::at(path, index + 1, format!("{found}... exists on one machine only")));
            }
        }
    }
    problems
}

pub(super) fn hosts(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let followed =
        |path: &str| FOLLOWED.iter().any(|end| path.ends_with(end)) && !path.starts_with("bench-runs/");
    for (path, text) in tree.texts().filter(|(path, _)| followed(path)) {
        for (index, line) in text.lines().enumerate() {
            for link in line.split("://").skip(1) {
                let host =
                    link.split(|letter: char| !(letter.is_alphanumeric() || "-.".contains(letter))).next();
                let host = host.unwrap_or_default();
                if !host.is_empty() && !HOSTS.contains(&host) {
                    let message =
                        format!("names the host {host}; a mirror does not belong into the repository");
                    problems.push(Problem::at(path, index + 1, message));
                }
            }
        }
    }
    problems
}

/// "Jitter" alone names no quantity: six different ones are called so. Looks at identifiers and at literals
/// that could be a name in JSON, Parquet or a metric.
pub(super) fn plain_jitter(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| !path.starts_with("xtask/")) {
        let code = rust_text::code_only(text);
        let literals = rust_text::literals_only(text);
        let names = literals.lines().enumerate().flat_map(|(index, line)| {
            line.split('"')
                .filter(|name| is_name(name) && !FOREIGN_KEYS.contains(name))
                .map(move |name| (index + 1, name))
        });
        for (line, word) in rust_text::words(&code).chain(names) {
            if is_plain_jitter(word) {
                let message =
                    format!("`{word}`: say which quantity (docs/glossary.md): delta_t, pdv, lateness ...");
                problems.push(Problem::at(path, line, message));
            }
        }
    }
    problems
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn is_plain_jitter(word: &str) -> bool {
    let flat: String = word.to_lowercase().chars().filter(|letter| *letter != '_').collect();
    let flat = DEFINED_JITTER.iter().fold(flat, |flat, defined| flat.replace(defined, ""));
    // The jitter unit of the paper is a machine, not a quantity.
    flat.replace("jitterunit", "").contains("jitter")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_work_is_found_in_code_and_in_comments_but_not_in_literals() {
        let source =
            format!("// {}: later\nfn f() {{ todo!() }}\nlet text = \"todo!\";\n", UNFINISHED_ANYWHERE[0]);
        let places: Vec<String> =
            unfinished(&Tree::of(&[("a.rs", &source)])).into_iter().map(|problem| problem.place).collect();
        assert_eq!(places, vec!["a.rs:1", "a.rs:2"]);
    }

    #[test]
    fn machine_paths_are_found() {
        let text = format!("cd {}someone/src", MACHINE_PATHS[2]);
        assert_eq!(machine_paths(&Tree::of(&[("docs/a.md", &text), ("b.md", "/usr/lib")])).len(), 1);
    }

    #[test]
    fn mirrors_in_manifests_are_found() {
        let tree = Tree::of(&[
            ("package-lock.json", "\"resolved\": \"https://mirror.corp.example/uplot.tgz\""),
            ("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\""),
            ("README.md", "see https://ui.perfetto.dev"),
        ]);
        let problems = hosts(&tree);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].message.contains("mirror.corp.example"));
    }

    #[test]
    fn only_defined_kinds_of_jitter_are_named() {
        for good in ["interarrival_jitter_ns", "SyncJitter", "JitterUnit", "jitlat", "jitter_unit_size"] {
            assert!(!is_plain_jitter(good), "{good}");
        }
        for bad in ["jitter_ns", "MaxJitter", "packet_jitter", "jitter"] {
            assert!(is_plain_jitter(bad), "{bad}");
        }
        let tree = Tree::of(&[(
            "a.rs",
            "/// Finds jitter.\nstruct A { jitter_ns: u64 }\nput(\"jitter\");\nsay(\"no jitter here\");",
        )]);
        let places: Vec<String> = plain_jitter(&tree).into_iter().map(|problem| problem.place).collect();
        assert_eq!(places, vec!["a.rs:2", "a.rs:3"]);
    }
}
