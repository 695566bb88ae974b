//! `docs/interface.txt`: all that users and their programs can rely on, as one generated list. A change of the code that loses
//! something of it, or adds to it, shows here. Written again by `QUAVER_BLESS=1 cargo test -p quaver --test interface`.

mod commands;
mod shapes;
mod sources;

use shapes::Types;
use sources::{Source, bracketed, literals};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

/// Kinds of runs: the verb in the manifest, the type that is `summary.json`, and the files that a whole run can have.
const RUNS: [(&str, &str, &str); 13] = [
    (
        "chase",
        "ChaseSummary",
        "samples.parquet events.parquet late.parquet names.json timeline.perfetto-trace late.csv",
    ),
    (
        "sink",
        "ChaseSummary",
        "samples.parquet events.parquet late.parquet names.json timeline.perfetto-trace late.csv",
    ),
    ("noise", "NoiseSummary", "gaps.parquet events.parquet names.json timeline.perfetto-trace late.csv"),
    (
        "probe",
        "PathSummary",
        "samples.parquet packets.csv jitlat.log.up jitlat.log.down plots.gp timeline.perfetto-trace",
    ),
    ("probe-mesh", "MeshSummary", "tests/"),
    ("capture-compare", "CompareSummary", "samples.parquet"),
    ("study", "StudySummary", "cells/ cost.json dummy.parquet"),
    ("cure", "CureSummary.not_tried", "profile.toml measured/"),
    ("sync", "SyncSummary", "sync/ names.json timeline.perfetto-trace"),
    ("sync-bench", "BenchSummary", "recordings/"),
    ("sim", "SimSummary", "machine.toml cure.toml intervals.parquet lanes.json timeline.perfetto-trace"),
    ("sim-paper", "PaperSummary", "points.jsonl calibration.toml sync-bench.json traces/"),
    ("sim-sweep", "SweepSummary", "sweep.json points/ log/ points.parquet job.json job.sh"),
];

/// Files that every whole run has.
const ALWAYS: &str = "manifest.json summary.json report.html";

/// Other JSON that is printed or stored: what it is, and its type.
const DOCUMENTS: [(&str, &str); 13] = [
    ("--json of every verb, key result", "Envelope"),
    ("manifest.json", "Manifest"),
    ("manifest.json of a path test, key path", "PathFacts"),
    ("manifest.json of a mesh, key path", "MeshFacts"),
    ("manifest.json of a comparison, key compare", "CompareFacts"),
    ("names.json of packets and gaps", "Names"),
    ("analyze --json of a capture", "CaptureSummary"),
    ("source --json", "Achieved"),
    ("sync what-if --json", "WhatIf"),
    ("counts of a simulation (summary.json of sim, key counts)", "Results"),
    ("sweep.json", "Plan.axes"),
    ("points/ID.json of a sweep", "PointResult.figures"),
    ("sim sweep status --json", "Status.left_cpu_s"),
];

/// All of it.
fn interface(sources: &[Source]) -> String {
    let types = Types::of(sources);
    let mut out = String::from(
        "Generated from the code by quaver/tests/interface. Written again by\n\
         QUAVER_BLESS=1 cargo test -p quaver --test interface\n",
    );
    let mut section = |title: &str, text: String| {
        out.push_str(&format!("\n==== {title} ====\n\n{}\n", text.trim_end()));
    };
    // The simulator is a program of its own, which takes the words of this verb.
    let program = quaver::cli::command().mut_subcommand("sim", |_| quaver_sim_program::command().name("sim"));
    section("Command line", commands::list(program));
    section("Exit statuses", exit_statuses(sources));
    section("Environment variables", lines(variables(sources)));
    section("Names of formats in JSON", lines(schemas(sources)));
    section("Kinds of runs and their files", runs());
    section("Files that the program names", lines(files(sources)));
    for (at, (verb, root, _)) in RUNS.iter().enumerate() {
        let text = match RUNS[..at].iter().find(|(_, before, _)| before == root) {
            Some((before, ..)) => format!("    as of {before}"),
            None => types.document(root),
        };
        section(&format!("summary.json of {verb}"), text);
    }
    for (what, root) in DOCUMENTS {
        section(what, types.document(root));
    }
    section("Keys of JSON that is made without a type, by format", handmade(sources));
    out
}

fn lines(all: BTreeSet<String>) -> String {
    all.iter().map(|one| format!("    {one}\n")).collect()
}

fn runs() -> String {
    RUNS.iter().map(|(verb, _, more)| format!("    {verb}: {ALWAYS} {more}\n")).collect()
}

/// Numbers and names of the statuses that the process ends with.
fn exit_statuses(sources: &[Source]) -> String {
    let mut bodies = sources
        .iter()
        .filter_map(|source| source.text.split_once("pub enum ExitCode ").map(|(_, body)| body));
    let body = bodies.next().expect("the program has exit statuses");
    let body = &body[1..bracketed(body) - 1];
    let each = body
        .split(',')
        .filter_map(|one| one.split_once('='))
        .map(|(name, number)| format!("    {} {}\n", number.trim(), name.trim()));
    each.collect()
}

/// Variables that are read: all names of our own, and what stands in files that ask for a variable.
fn variables(sources: &[Source]) -> BTreeSet<String> {
    let is_name = |word: &&str| {
        word.len() > 2
            && word.starts_with(|letter: char| letter.is_ascii_uppercase())
            && word
                .chars()
                .all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_')
    };
    let reads = |text: &str| ["env::var", "getenv(", "_VARIABLE"].iter().any(|call| text.contains(call));
    let of = |source: &Source| -> Vec<String> {
        let (text, asks) = (&source.text, reads(&source.text));
        literals(text)
            .filter(is_name)
            .filter(|name| asks || name.starts_with("QUAVER_"))
            .map(str::to_owned)
            .collect()
    };
    // Cargo sets some for the compiler; build scripts read more of them.
    let built = |name: &String| name.starts_with("CARGO_") || name == "OUT_DIR";
    sources.iter().flat_map(of).filter(|name| !built(name)).collect()
}

/// Names with a version, as in the field `schema`.
fn schemas(sources: &[Source]) -> BTreeSet<String> {
    sources
        .iter()
        .flat_map(|source| literals(&source.text))
        .filter(|text| is_schema(text))
        .map(str::to_owned)
        .collect()
}

fn is_schema(text: &str) -> bool {
    let named = text.strip_prefix("quaver").and_then(|rest| rest.split_once('/'));
    named.is_some_and(|(name, version)| {
        version.parse::<u32>().is_ok()
            && name.chars().all(|letter| letter.is_ascii_lowercase() || "-.".contains(letter))
    })
}

/// Names of files, with `{}` where something is put in.
fn files(sources: &[Source]) -> BTreeSet<String> {
    const ENDS: [&str; 13] = [
        "seg",
        "json",
        "jsonl",
        "parquet",
        "pcapng",
        "csv",
        "dat",
        "gp",
        "toml",
        "perfetto-trace",
        "log",
        "lock",
        "journal",
    ];
    let is_file = |text: &&str| {
        let end = text.rsplit_once('.').map(|(_, end)| end);
        end.is_some_and(|end| ENDS.contains(&end))
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "{}:-_.".contains(letter))
            && !text.starts_with('.')
    };
    let names = sources.iter().flat_map(|source| literals(&source.text)).filter(is_file);
    names.map(without_names).collect()
}

/// A format with the names in its braces left out.
fn without_names(format: &str) -> String {
    let mut parts = format.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| format!("{all}{{}}{}", part.split_once('}').map_or("", |(_, rest)| rest)))
}

/// Keys in `json!` of each file, by the format that the file names.
fn handmade(sources: &[Source]) -> String {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let format = literals(&source.text).find(|text| is_schema(text)).unwrap_or("no format of its own");
        for (at, call) in source.text.match_indices("json!(") {
            let body = &source.text[at + call.len() - 1..];
            let body = &body[..bracketed(body)];
            let parts: Vec<&str> = body.split('"').collect();
            let keys = parts.windows(2).skip(1).step_by(2).filter(|two| two[1].trim_start().starts_with(':'));
            let keys: Vec<String> = keys.map(|two| two[0].to_owned()).collect();
            if !keys.is_empty() {
                all.entry(format.to_owned()).or_default().extend(keys);
            }
        }
    }
    all.iter().map(|(format, keys)| format!("{format}\n{}", lines(keys.clone()))).collect()
}

#[test]
fn the_interface_is_what_is_written_down() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/interface.txt");
    let now = interface(&sources::product());
    if std::env::var_os("QUAVER_BLESS").is_some() {
        std::fs::write(&golden, &now).expect("the list can be written");
        return;
    }
    let before = std::fs::read_to_string(&golden).expect("docs/interface.txt is committed");
    let (lost, new) = (missing(&before, &now), missing(&now, &before));
    assert!(
        before == now,
        "the interface is not that of docs/interface.txt; if that is meant, run\n  \
         QUAVER_BLESS=1 cargo test -p quaver --test interface\nlost:\n{lost}new:\n{new}"
    );
}

/// Lines of the first that the second has not, each with the section or verb above it.
fn missing(first: &str, second: &str) -> String {
    let of = |text: &str| -> Vec<(String, String)> {
        let mut head = String::new();
        let lines = text.lines().map(|line| {
            if !line.starts_with(' ') && !line.is_empty() {
                line.clone_into(&mut head);
            }
            (head.clone(), line.to_owned())
        });
        lines.collect()
    };
    let known: BTreeSet<(String, String)> = of(second).into_iter().collect();
    let gone = of(first).into_iter().filter(|line| !known.contains(line));
    gone.map(|(head, line)| format!("  {head} |{line}\n")).collect()
}

/// Paths of the keys of a value, with what they hold.
fn keys_of(value: &serde_json::Value, at: &str, keys: &mut BTreeSet<(String, &'static str)>) {
    use serde_json::Value;
    let holds = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) => {
            if number.is_f64() {
                "number"
            } else {
                "integer"
            }
        }
        Value::String(_) => "string",
        Value::Array(all) => {
            all.iter().for_each(|one| keys_of(one, &format!("{at}[]"), keys));
            "array"
        }
        Value::Object(all) => {
            let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
            all.iter().for_each(|(key, one)| keys_of(one, &below(key), keys));
            "object"
        }
    };
    if !at.is_empty() {
        keys.insert((at.to_owned(), holds));
    }
}

/// Whether a list of types has a path that a run shows: maps have keys of their own there.
fn is_listed(listed: &BTreeMap<&str, &str>, path: &str, holds: &str) -> bool {
    let fits = |what: &str| {
        what.split(" or ").any(|one| {
            one == holds
                || one == "any"
                || holds == "string" && one.starts_with('"')
                || holds == "integer" && one == "number"
        })
    };
    let parts: Vec<&str> = path.split('.').collect();
    listed.iter().any(|(name, what)| {
        let names: Vec<&str> = name.split('.').collect();
        let under_any = *what == "any"
            && names.len() <= parts.len()
            && names.iter().zip(&parts).all(|(one, part)| one == part);
        let same = names.len() == parts.len()
            && names.iter().zip(&parts).all(|(one, part)| {
                one == part
                    || one.starts_with("{}") && one[2..] == part[part.find('[').unwrap_or(part.len())..]
            });
        under_any || same && fits(what)
    })
}

/// The list is read from types; here it is held against runs that were really made.
#[test]
fn runs_hold_nothing_that_is_not_listed() {
    let place = tempfile::tempdir().expect("a directory");
    let source_list = sources::product();
    let types = Types::of(&source_list);
    let made = [
        &[
            "chase",
            "--quiet",
            "--for",
            "1s",
            "--period",
            "1ms",
            "--pace",
            "sleep",
            "--lab",
            "loopback",
            "--receive",
            "block",
        ][..],
        &["noise", "--quiet", "--for", "100ms", "--dummy", "--period", "100us"],
    ];
    for words in made {
        let runs = place.path().join(words[0]);
        let output = Command::new(env!("CARGO_BIN_EXE_quaver"))
            .args(words)
            .arg("-o")
            .arg(&runs)
            .stdin(Stdio::null())
            .output()
            .expect("the program was built");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        let run = std::fs::read_dir(&runs).expect("runs").next().expect("a run").expect("it is there").path();
        let (verb, root, files) = RUNS.iter().find(|(verb, ..)| *verb == words[0]).expect("it is a kind");
        for file in std::fs::read_dir(&run).expect("a run").flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            assert!(
                ALWAYS.split(' ').chain(files.split(' ')).any(|one| one == name),
                "{verb}: {name} is not listed"
            );
        }
        for (file, root) in [("summary.json", *root), ("manifest.json", "Manifest")] {
            let document = types.document(root);
            let listed = document.lines().filter_map(|line| line.trim().split_once(": ")).collect();
            let text = std::fs::read(run.join(file)).expect("it was written");
            let mut keys = BTreeSet::new();
            keys_of(&serde_json::from_slice(&text).expect("it is JSON"), "", &mut keys);
            assert!(keys.len() > 20, "{file} of {verb} has {} keys", keys.len());
            for (path, holds) in keys {
                assert!(is_listed(&listed, &path, holds), "{file} of {verb}: {path}: {holds} is not listed");
            }
        }
    }
}
