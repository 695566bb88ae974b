//! Which crate may import which, by the folder where it lies, and what pure crates must be free of.

use super::Problem;
use crate::rust_text;
use crate::tree::Tree;
use std::collections::BTreeMap;

/// Folders that a crate may import from besides its own, by the beginning of its folder; the first that fits counts. The
/// second list is for its tests only. As docs/architecture.md has it.
const MAY_IMPORT: &[(&str, &[&str], &[&str])] = &[
    ("core", &[], &["testbed"]),
    ("instruments/capture", &["core", "instruments/chase", "instruments/path"], &["testbed"]),
    ("instruments/chase", &["core", "instruments/path"], &["testbed"]),
    (
        "instruments/cure",
        &["core", "instruments/chase", "instruments/noise", "instruments/study/analysis", "instruments/tune"],
        &["testbed"],
    ),
    ("instruments/doctor", &["core", "instruments/capture"], &["testbed"]),
    (
        "instruments/lab",
        &["core", "instruments/chase", "instruments/noise", "instruments/study"],
        &["testbed"],
    ),
    (
        "instruments/study",
        &["core", "instruments/chase", "instruments/path", "instruments/tune"],
        &["testbed"],
    ),
    ("instruments/sync", &["core", "simulator/dvfs"], &["testbed"]),
    ("instruments/tune", &["core", "instruments/chase", "instruments/noise"], &["testbed"]),
    ("instruments/watch", &["core", "instruments/chase", "instruments/path"], &["testbed"]),
    ("instruments", &["core"], &["testbed"]),
    ("recorders", &["core/abi", "simulator/trace"], &["instruments/sync/store"]),
    (
        "simulator/program",
        &["core", "simulator", "instruments/sync/analysis", "instruments/sync/store"],
        &["testbed"],
    ),
    ("simulator", &["core/abi", "core/analysis", "simulator", "instruments/sync/analysis"], &["testbed"]),
    ("testbed", &["core/abi", "core/analysis", "core/arrivals"], &["core", "instruments/sync/analysis"]),
    ("quaver", &["core", "instruments"], &["simulator", "testbed"]),
    ("xtask", &[], &[]),
];

/// Pure crates: no unsafe code, no contact with the system, and no import of a crate that is not pure itself.
const PURE: &[&str] = &[
    "core/abi",
    "core/analysis",
    "core/arrivals",
    "core/view",
    "instruments/capture/analysis",
    "instruments/cure/analysis",
    "instruments/study/analysis",
    "instruments/sync/analysis",
    "simulator/dvfs",
    "simulator/sim",
    "simulator/trace",
];

/// Further crates that promise `#![forbid(unsafe_code)]`.
const SAFE: &[&str] =
    &["core/bpf-build", "core/store", "instruments/capture/pcapng", "instruments/sync/store"];

/// What a pure crate must not name: files, sockets, threads, clocks, processes and their environment.
const SYSTEM: &[&str] = &[
    "std::fs",
    "std::net::UdpSocket",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::thread",
    "std::process",
    "std::env",
    "std::time::Instant",
    "std::time::SystemTime",
    "println!",
    "eprintln!",
];

/// Names and tables of dependencies, with whether they are for tests only.
const TABLES: &[(&str, bool)] =
    &[("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)];

/// Crates of the workspace: folder and manifest, by name. Fuzzers are no part of it and may import what they like.
fn crates(tree: &Tree) -> BTreeMap<String, (&str, toml::Table)> {
    let manifests = tree.texts().filter_map(|(path, text)| Some((path.strip_suffix("/Cargo.toml")?, text)));
    let packages = manifests.filter(|(folder, _)| *folder != "fuzz").filter_map(|(folder, text)| {
        let manifest: toml::Table = text.parse().ok()?;
        let name = manifest.get("package")?.get("name")?.as_str()?.to_owned();
        Some((name, (folder, manifest)))
    });
    packages.collect()
}

fn lies_below(folder: &str, above: &str) -> bool {
    folder.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The instrument's folder of a crate that is part of one; else its first folder.
fn own(folder: &str) -> String {
    let parts = if folder.starts_with("instruments/") { 2 } else { 1 };
    folder.split('/').take(parts).collect::<Vec<_>>().join("/")
}

pub(super) fn between_crates(tree: &Tree) -> Vec<Problem> {
    let crates = crates(tree);
    let mut problems = Vec::new();
    for (name, (folder, manifest)) in &crates {
        let place = format!("{folder}/Cargo.toml");
        let Some((_, always, in_tests)) = MAY_IMPORT.iter().find(|(above, _, _)| lies_below(folder, above))
        else {
            let table = "is in no folder that xtask/src/rules/imports.rs and docs/architecture.md know";
            problems.push(Problem::new(place, table));
            continue;
        };
        for (table, tests_only) in TABLES {
            for import in imports(manifest, table) {
                let Some((target, _)) = crates.get(import) else { continue };
                let from = |list: &[&str]| list.iter().any(|above| lies_below(target, above));
                let within = own(folder) == own(target) && !folder.starts_with("recorders");
                let allowed = within || from(always) || (*tests_only && from(in_tests));
                let pure = *tests_only || !PURE.contains(folder) || PURE.contains(target);
                if !allowed || !pure {
                    let why = if allowed { ", which is not pure" } else { "" };
                    let message = format!("{name} must not import {import}{why} ([{table}])");
                    problems.push(Problem::new(&place, message));
                }
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
    let libraries = PURE.iter().chain(SAFE).map(|folder| format!("{folder}/src/lib.rs"));
    libraries
        .chain(["xtask/src/main.rs".to_owned()])
        .filter_map(|path| Some((tree.text(&path)?, path)))
        .filter(|(text, _)| !text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]"))
        .map(|(_, path)| Problem::new(path, "must say #![forbid(unsafe_code)]"))
        .collect()
}

pub(super) fn pure_crates(tree: &Tree) -> Vec<Problem> {
    let sources = crate::product::sources(tree);
    let pure = sources.iter().filter(|source| {
        source.path.ends_with(".rs")
            && PURE.iter().any(|folder| lies_below(source.path, &format!("{folder}/src")))
    });
    let mut problems = Vec::new();
    for source in pure {
        for (at, line) in rust_text::code_only(&source.text).lines().enumerate() {
            for name in SYSTEM.iter().filter(|name| names(line, name)) {
                let message = format!("names {name}: this crate is pure; do it at the edge");
                problems.push(Problem::at(source.path, at + 1, message));
            }
        }
    }
    problems
}

/// Whether a line of code names something of the system, and not only the end of another name.
fn names(line: &str, name: &str) -> bool {
    let ends = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name)
        .any(|(at, _)| !line[..at].ends_with(ends) && !line[at + name.len()..].starts_with(ends))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        between_crates(&Tree::of(files)).into_iter().map(|problem| problem.message).collect()
    }

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}")
    }

    #[test]
    fn core_imports_nothing_of_an_instrument() {
        let core = manifest("quaver-host", "[dependencies]\nquaver-chase = {}");
        let chase = manifest("quaver-chase", "[dependencies]\nquaver-host = {}");
        let found = messages(&[("core/host/Cargo.toml", &core), ("instruments/chase/Cargo.toml", &chase)]);
        assert_eq!(found, ["quaver-host must not import quaver-chase ([dependencies])"]);
    }

    #[test]
    fn an_instrument_imports_its_own_crates_and_those_that_the_table_names() {
        let study = manifest(
            "quaver-study",
            "[dependencies]\nquaver-study-analysis = {}\nquaver-tune = {}\nquaver-sync = {}",
        );
        let found = messages(&[
            ("instruments/study/Cargo.toml", &study),
            ("instruments/study/analysis/Cargo.toml", &manifest("quaver-study-analysis", "")),
            ("instruments/tune/Cargo.toml", &manifest("quaver-tune", "")),
            ("instruments/sync/Cargo.toml", &manifest("quaver-sync", "")),
        ]);
        assert_eq!(found, ["quaver-study must not import quaver-sync ([dependencies])"]);
    }

    #[test]
    fn a_pure_crate_imports_pure_ones_alone() {
        let analysis = manifest(
            "quaver-study-analysis",
            "[target.'cfg(unix)'.dependencies]\ns = { package = \"quaver-store\" }",
        );
        let found = messages(&[
            ("instruments/study/analysis/Cargo.toml", &analysis),
            ("core/store/Cargo.toml", &manifest("quaver-store", "")),
        ]);
        assert_eq!(
            found,
            ["quaver-study-analysis must not import quaver-store, which is not pure ([dependencies])"]
        );
    }

    #[test]
    fn the_testbed_is_for_tests_only() {
        let with = |table: &str| {
            let noise = manifest("quaver-noise", &format!("[{table}]\nquaver-testbed = {{}}"));
            let testbed = manifest("quaver-testbed", "");
            messages(&[("instruments/noise/Cargo.toml", &noise), ("testbed/Cargo.toml", &testbed)]).len()
        };
        assert_eq!((with("dependencies"), with("dev-dependencies")), (1, 0));
    }

    #[test]
    fn a_crate_in_a_folder_that_nobody_knows_is_found() {
        assert_eq!(messages(&[("crates/new/Cargo.toml", &manifest("quaver-new", ""))]).len(), 1);
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

    #[test]
    fn contact_with_the_system_in_a_pure_crate_is_found_outside_of_tests() {
        let text = "use std::fs::File;\n// std::thread\nfn f() { my_std::env(); }\n#[cfg(test)]\nmod tests {\n    use std::thread;\n}\n";
        let tree = Tree::of(&[("core/analysis/src/a.rs", text), ("core/store/src/a.rs", text)]);
        let places: Vec<String> = pure_crates(&tree).into_iter().map(|problem| problem.place).collect();
        assert_eq!(places, ["core/analysis/src/a.rs:1"]);
    }
}
