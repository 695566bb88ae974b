//! Which crate may import which, and which must be free of unsafe code.

use super::Problem;
use crate::tree::Tree;

/// What each crate may import of ours, as docs/architecture.md has it. The second list is for its tests only.
const MAY_IMPORT: &[(&str, &[&str], &[&str])] = &[
    ("quaver-abi", &[], &[]),
    ("quaver-view", &[], &[]),
    ("quaver-analysis", &["quaver-abi"], &[]),
    ("quaver-trace", &["quaver-abi"], &[]),
    ("quaver-sim", &["quaver-abi", "quaver-analysis", "quaver-trace"], &["quaver-testbed"]),
    ("quaver-store", &["quaver-abi", "quaver-analysis"], &[]),
    ("quaver-measure", &["quaver-abi"], &[]),
    ("quaver-preload", &["quaver-abi"], &["quaver-store"]),
    ("quaver-qemu-plugin", &["quaver-abi", "quaver-trace"], &[]),
    ("quaver-testbed", &["quaver-abi", "quaver-measure"], &["quaver-analysis"]),
    (
        "quaver",
        &[
            "quaver-abi",
            "quaver-analysis",
            "quaver-trace",
            "quaver-sim",
            "quaver-store",
            "quaver-measure",
            "quaver-view",
        ],
        &["quaver-testbed"],
    ),
    ("xtask", &[], &[]),
];

/// Crates that promise `#![forbid(unsafe_code)]`, with the file that must say so.
const SAFE: &[&str] = &[
    "core/abi/src/lib.rs",
    "core/analysis/src/lib.rs",
    "simulator/trace/src/lib.rs",
    "simulator/sim/src/lib.rs",
    "core/store/src/lib.rs",
    "core/view/src/lib.rs",
    "xtask/src/main.rs",
];

/// Names and tables of dependencies, with whether they are for tests only.
const TABLES: &[(&str, bool)] =
    &[("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)];

pub(super) fn between_crates(tree: &Tree) -> Vec<Problem> {
    // Fuzzers are no part of the workspace and may import what they like.
    let manifests =
        tree.texts().filter(|(path, _)| path.ends_with("/Cargo.toml") && !path.starts_with("fuzz/"));
    manifests.flat_map(|(path, text)| of_manifest(path, text)).collect()
}

fn of_manifest(path: &str, text: &str) -> Vec<Problem> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Problem::new(path, format!("is no TOML: {error}"))],
    };
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
    let Some(name) = name else { return vec![Problem::new(path, "has no package name")] };
    let Some((_, always, in_tests)) = MAY_IMPORT.iter().find(|(known, _, _)| *known == name) else {
        return vec![Problem::new(
            path,
            format!(
                "{name} is not in the table of crates (xtask/src/rules/imports.rs, docs/architecture.md)"
            ),
        )];
    };
    let mut problems = Vec::new();
    for (table, tests_only) in TABLES {
        for import in imports(&manifest, table) {
            let allowed = always.contains(&import) || (*tests_only && in_tests.contains(&import));
            if !allowed && import != name {
                problems.push(Problem::new(path, format!("{name} must not import {import} ([{table}])")));
            }
        }
    }
    problems
}

/// Crates of ours in a table of dependencies, that of a platform included.
fn imports<'a>(manifest: &'a toml::Table, table: &str) -> Vec<&'a str> {
    let targets =
        manifest.get("target").and_then(toml::Value::as_table).into_iter().flat_map(|all| all.values());
    let tables = manifest.get(table).into_iter().chain(targets.filter_map(|target| target.get(table)));
    tables
        .filter_map(toml::Value::as_table)
        .flat_map(|dependencies| dependencies.iter())
        .map(|(key, value)| value.get("package").and_then(toml::Value::as_str).unwrap_or(key))
        .filter(|name| *name == "quaver" || name.starts_with("quaver-"))
        .collect()
}

pub(super) fn safe_crates(tree: &Tree) -> Vec<Problem> {
    SAFE.iter()
        .filter_map(|path| Some((path, tree.text(path)?)))
        .filter(|(_, text)| !text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]"))
        .map(|(path, _)| Problem::new(*path, "must say #![forbid(unsafe_code)]"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(manifest: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/x/Cargo.toml", manifest)]);
        between_crates(&tree).into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn an_import_against_the_table_is_found() {
        let manifest =
            "[package]\nname = \"quaver-analysis\"\n[dependencies]\nquaver-abi = {}\nquaver-store = {}";
        assert_eq!(messages(manifest), vec!["quaver-analysis must not import quaver-store ([dependencies])"]);
    }

    #[test]
    fn renamed_and_platform_imports_are_found() {
        let manifest = "[package]\nname = \"quaver-abi\"\n[target.'cfg(unix)'.dependencies]\nm = { package = \"quaver-measure\" }";
        assert_eq!(messages(manifest).len(), 1);
    }

    #[test]
    fn the_testbed_is_for_tests_only() {
        let with = |table: &str| {
            messages(&format!("[package]\nname = \"quaver\"\n[{table}]\nquaver-testbed = {{}}")).len()
        };
        assert_eq!((with("dependencies"), with("dev-dependencies")), (1, 0));
    }

    #[test]
    fn a_crate_that_nobody_knows_is_found() {
        assert_eq!(messages("[package]\nname = \"quaver-new\"").len(), 1);
        assert_eq!(messages("not toml at all [").len(), 1);
    }

    #[test]
    fn a_crate_that_forgot_its_promise_is_found() {
        let tree = Tree::of(&[
            ("core/abi/src/lib.rs", "#![forbid(unsafe_code)]"),
            ("core/store/src/lib.rs", "// #![forbid(unsafe_code)] was here"),
        ]);
        let problems = safe_crates(&tree);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].place, "core/store/src/lib.rs");
    }
}
