//! `quaver sim sweep` as a user runs it: plans, parts, kills and merges, on traces that are made here.

mod ends;
mod grid;
mod job;
mod many;
mod parts;
mod plans;
mod recorded;
#[path = "../sim_made/mod.rs"]
mod sim_made;
#[path = "../simulator/mod.rs"]
mod simulator;
#[path = "../sync_run/mod.rs"]
mod sync_run;

use serde_json::Value;
use sim_made::{baton, spinning};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Two traces, two sizes, three schemes of which one has no seeds.
const GRID: &str = "\
[sweep]
traces = ['baton.qtrace', { name = 'once', path = 'spin.qtrace' }]
machine = 'machine.toml'
seeds = [4, 2]
[cure.injection.classes.signal-wait]
kind = 'exceedance'
probability = 0.5
over_ns = 10000
mean_ns = 100000
sigma = 0.6
[[axis]]
key = 'machine.l2.kib'
from = 128
to = 256
factor = 2
[[axis]]
name = 'scheme'
[[axis.point]]
name = 'plain'
set = { cure = false }
[[axis.point]]
name = 'injected'
[[axis.point]]
name = 'cured'
set = { cure.dvfs.reactivity = 2, 'cure.cache.kind' = 'unified' }
";
/// Points of [`GRID`].
const POINTS: usize = 2 * 2 * (1 + 2 + 2);

fn quaver(place: &Path, args: &[&str]) -> Command {
    simulator::build_simulator();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(args).current_dir(place).env_remove("NO_COLOR").env_remove("QUAVER_RUNS");
    for name in ["SLURM_ARRAY_TASK_ID", "SLURM_CPUS_PER_TASK", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).env("COLUMNS", "100");
    command
}

fn sweep(place: &Path, args: &[&str]) -> Output {
    let args: Vec<&str> = ["sim", "sweep"].iter().chain(args).copied().collect();
    quaver(place, &args).output().expect("the program was built for this test")
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[track_caller]
fn expect(output: &Output, code: i32) -> String {
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// A place with the grid's plan and what it names.
fn grid() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    baton(&place.path().join("baton.qtrace"));
    spinning(&place.path().join("spin.qtrace"), 100);
    fs::write(place.path().join("machine.toml"), "[chip]\ncores = 4\n").unwrap();
    fs::write(place.path().join("grid.toml"), GRID).unwrap();
    place
}

/// A place with a plan of so many points that each take a while.
fn slow(points: usize, steps: u64) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    spinning(&place.path().join("spin.qtrace"), steps);
    let plan = format!(
        "[sweep]\ntraces = ['spin.qtrace']\n[[axis]]\nkey = 'machine.chip.remote_cycles'\nfrom = 1\nto = {points}\nstep = 1\n"
    );
    fs::write(place.path().join("slow.toml"), plan).unwrap();
    place
}

fn names(directory: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(directory) else { return BTreeSet::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".json")).map(|name| name.replace(".json", "")).collect()
}

/// What all logs say, `what` by point.
fn logged(directory: &Path) -> BTreeMap<String, Vec<String>> {
    let mut lines: Vec<Value> = Vec::new();
    for entry in fs::read_dir(directory.join("log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = fs::read_to_string(path).unwrap();
            lines.extend(text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()));
        }
    }
    lines.sort_by_key(|line| line["at_ms"].as_u64());
    let mut by_point: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines {
        let word = |name: &str| line[name].as_str().unwrap().to_owned();
        by_point.entry(word("point")).or_default().push(word("what"));
    }
    by_point
}

#[track_caller]
fn same_results(one: &Path, other: &Path) {
    for name in ["points.parquet", "summary.json"] {
        let read = |place: &Path| {
            fs::read(place.join(name)).unwrap_or_else(|error| panic!("{}: {error}", place.display()))
        };
        assert!(read(one) == read(other), "{name} of {} and {}", one.display(), other.display());
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}
